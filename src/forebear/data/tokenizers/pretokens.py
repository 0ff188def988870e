"""Distinct pretokens and whitespace-separated words of texts, numbered by first occurrence."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from itertools import chain, pairwise, repeat
from typing import Any, NamedTuple

import numpy as np

from forebear.data.tokenizers.offsets import text_lengths
from forebear.data.unicode import code_points, replace_surrogates
from forebear.kernels.char_classes import CLASS_GAP, CLASS_RUN, CLASS_SINGLE

# --- Pretokens by character classes ---

# Separators inside one string: NUL if no text contains it, otherwise a surrogate, which none contains.
NUL_CODE, SURROGATE_CODE = 0, 0xD800
# Characters from which compiled loops save more time than loading them takes; fewer if numba is loaded already.
COMPILE_AFTER, COMPILE_AFTER_IF_LOADED = 1 << 22, 1 << 20
NO_BOUNDARIES = np.zeros(0, np.int64)


def worth_compiling(characters: int) -> bool:
    """Whether so much text was processed that compiled loops are likely to pay off."""
    return characters > (COMPILE_AFTER_IF_LOADED if "numba" in sys.modules else COMPILE_AFTER)


class PretokenLookup(NamedTuple):
    """The pretokens of some texts, concatenated."""

    starts: np.ndarray  # start offsets over all texts, each followed by one separator character
    ids: np.ndarray
    ends: np.ndarray  # (texts,) cumulative number of pretokens
    new_pretokens: list[str]  # pretokens seen for the first time


class PretokenIndex:
    """Numbers pretokens from 0 in order of first occurrence.

    Args:
        classes: (0x110000,) CLASS_RUN, CLASS_GAP or CLASS_SINGLE for each character: part of a pretoken, between
            pretokens, or a pretoken of its own.
        characters_before: Characters that were already processed elsewhere.

    Look-up is in Python for short texts, in a compiled loop for long ones.
    """

    def __init__(self, classes: np.ndarray, characters_before: int = 0) -> None:
        self._classes = classes.astype(np.int32)  # later the pretoken id of each CLASS_SINGLE character
        self._ids: dict[str, int] = {}
        self._compiled: Any = None
        self._num_seen = characters_before
        self.characters = 0  # of all distinct pretokens

    def __len__(self) -> int:
        return int(self._compiled.num_pretokens[0]) if self._compiled is not None else len(self._ids)

    def look_up_texts(
        self,
        texts: Sequence[str],
        boundaries: np.ndarray | None = None,
        boundary_fn: Callable[[np.ndarray], np.ndarray] | None = None,
    ) -> PretokenLookup:
        """The pretokens of these texts, which do not cross texts; arguments as in `look_up`."""
        codes = code_points(" ".join(texts) + " ") if texts else np.zeros(0, np.uint32)
        ends = np.cumsum(text_lengths(texts) + 1)
        is_boundary = None if boundary_fn is None else boundary_fn(codes)
        boundaries = NO_BOUNDARIES if boundaries is None else boundaries
        starts, ids, new_pretokens = self.look_up(codes, ends - 1, boundaries, is_boundary)
        return PretokenLookup(starts, ids, np.searchsorted(starts, ends), new_pretokens)

    def look_up(
        self,
        codes: np.ndarray,
        gaps: np.ndarray,
        boundaries: np.ndarray = NO_BOUNDARIES,
        is_boundary: np.ndarray | None = None,
    ) -> tuple[np.ndarray, np.ndarray, list[str]]:
        """The start and the id of each pretoken, and the new pretokens.

        Args:
            codes: Code points, the last of which is in `gaps`.
            gaps: Ascending positions that belong to no pretoken.
            boundaries: Ascending positions before which a pretoken ends.
            is_boundary: True where a pretoken ends; None: nowhere.
        """
        self._num_seen += len(codes)
        if self._compiled is None and worth_compiling(self._num_seen):
            self._compile()
        num_before = len(self)
        look_up = self._look_up_reference if self._compiled is None else self._look_up_compiled
        starts, ids = look_up(codes, gaps, boundaries, is_boundary)
        new_pretokens = self.texts(num_before)
        self.characters += sum(map(len, new_pretokens))
        return starts, ids, new_pretokens

    def texts(self, first: int = 0) -> list[str]:
        """The pretokens by id, from `first` on."""
        if self._compiled is None:
            return list(self._ids)[first:] if first < len(self._ids) else []
        ends = self._compiled.ends[first : len(self) + 1]
        text = self._compiled.codes[ends[0] : ends[-1]].tobytes().decode("utf-32-le")
        return [text[begin:end] for begin, end in pairwise((ends - ends[0]).tolist())]

    def _compile(self) -> None:
        """Switch to compiled loops; known pretokens keep their ids."""
        from forebear.kernels.pretoken_table import empty_pretoken_table, number_pretokens

        self._compiled = empty_pretoken_table()
        if self._ids:
            codes = code_points(" ".join(self._ids) + " ")
            gaps = np.cumsum([len(pretoken) + 1 for pretoken in self._ids]) - 1
            classes, no_flags = np.full(0x110000, CLASS_RUN, np.int32), np.zeros(0, bool)
            self._compiled, *_ = number_pretokens(self._compiled, codes, classes, gaps, NO_BOUNDARIES, no_flags)
        self._ids = {}

    def _look_up_compiled(
        self, codes: np.ndarray, gaps: np.ndarray, boundaries: np.ndarray, is_boundary: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        from forebear.kernels.pretoken_table import number_pretokens

        flags = np.zeros(0, bool) if is_boundary is None else is_boundary
        self._compiled, starts, ids = number_pretokens(self._compiled, codes, self._classes, gaps, boundaries, flags)
        return starts, ids

    def _look_up_reference(
        self, codes: np.ndarray, gaps: np.ndarray, boundaries: np.ndarray, is_boundary: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The reference implementation, by NumPy and a dictionary."""
        classes = self._classes.take(codes)
        classes[gaps] = CLASS_GAP
        is_run = classes == CLASS_RUN
        is_start = is_run.copy()
        is_start[1:] &= ~is_run[:-1]
        if is_boundary is not None:
            is_start |= is_boundary & is_run
        is_start[boundaries] |= is_run[boundaries]
        if (is_new := classes == CLASS_SINGLE).any():
            new_codes = np.unique(codes[is_new])
            self._classes[new_codes] = self._ids_of([chr(code) for code in new_codes.tolist()])
            classes[is_new] = self._classes[codes[is_new]]
        positions = np.flatnonzero(is_start | (classes >= 0))
        pretoken_ids = classes[positions]
        pretoken_ids[pretoken_ids == CLASS_RUN] = self._ids_of(_split_runs(codes, is_run, is_start))
        return positions, pretoken_ids

    def _ids_of(self, pretokens: list[str]) -> np.ndarray:
        known_ids = self._ids
        ids = np.fromiter(map(known_ids.get, pretokens, repeat(-1)), np.int64, len(pretokens))
        for index in np.flatnonzero(ids < 0).tolist():
            ids[index] = known_ids.setdefault(pretokens[index], len(known_ids))
        return ids


def _split_runs(codes: np.ndarray, is_run: np.ndarray, is_start: np.ndarray) -> list[str]:
    """The pretokens as strings: their characters with a marker before each, as one string, split at the markers."""
    run_codes = codes[is_run]
    if not len(run_codes):
        return []
    marker = NUL_CODE if run_codes.all() else SURROGATE_CODE
    marker_positions = np.cumsum(is_start[is_run])
    marker_positions += np.arange(len(run_codes))
    with_markers = np.full(marker_positions[-1] + 2, marker, np.uint32)
    with_markers[marker_positions] = run_codes
    # A view as one long string needs no encoding. numpy drops NULs at its end: the marker there, if it is NUL.
    joined = str(with_markers.view(f"U{len(with_markers)}")[0])
    return joined.split(chr(marker))[1:] if marker == NUL_CODE else joined.split(chr(marker))[1:-1]


MAX_GAP_CODE, LINE_FEED = 32, 10  # bytes of multi-byte UTF-8 characters are higher


class WhitespaceWords:
    """`PretokenIndex` for words that are separated only by these gap characters.

    Look-up is by a dictionary for short texts, by a compiled loop over UTF-8 bytes for long ones.
    """

    def __init__(self, gaps: str, characters_before: int = 0) -> None:
        codes = list(map(ord, gaps))
        assert " " in gaps
        assert max(codes) <= MAX_GAP_CODE
        self._gaps = np.isin(np.arange(256), codes)
        self._other_gaps = gaps.replace(" ", "")
        self._ids: dict[str, int] = {}
        self._compiled: Any = None
        self._num_seen = characters_before

    def __len__(self) -> int:
        return int(self._compiled.num_pretokens[0]) if self._compiled is not None else len(self._ids)

    @property
    def characters(self) -> int:
        """Characters of all distinct words; bytes of non-ASCII ones once compiled."""
        if self._compiled is None:
            return sum(map(len, self._ids))
        return int(self._compiled.ends[len(self)]) - len(self)

    def look_up_texts(self, texts: Sequence[str], *, with_starts: bool = False) -> PretokenLookup:
        """The words of these texts, with their starts only if `with_starts`."""
        num_before = len(self)
        word_ids, ends, starts = self._find_words(texts, with_starts)
        return PretokenLookup(starts, word_ids, ends, self.texts(num_before))

    def look_up_bytes(self, data: bytes, ends: np.ndarray) -> PretokenLookup | None:
        """The words of UTF-8 texts separated by gaps that end at `ends`; None while a dictionary is as fast."""
        num_before = len(self)
        word_ids = self.number_bytes(data, ends)
        return None if word_ids is None else PretokenLookup(NO_BOUNDARIES, *word_ids, self.texts(num_before))

    def number_texts(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """The ids of the words of these texts, and their cumulative number per text."""
        return self._find_words(texts, False)[:2]

    def number_bytes(self, data: bytes, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """The same for UTF-8 texts separated by gaps; None while a dictionary is as fast."""
        return self._number_bytes_compiled(_padded_array(data), ends)[:2] if self._use_compiled([data]) else None

    def word_ids(self, texts: Sequence[str]) -> np.ndarray:
        if not self._use_compiled(texts):
            return self._find_words_reference(texts, False)[0]
        return self._number_bytes_compiled(_utf8_array(" ".join(texts)), NO_BOUNDARIES)[0]

    def _number_bytes_compiled(
        self, data: np.ndarray, ends: np.ndarray, with_starts: bool = False
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        from forebear.kernels.pretoken_table import number_words

        self._compiled, *results = number_words(self._compiled, data, self._gaps, ends, with_starts=with_starts)
        return results[0], results[1], results[2]

    def _find_words(self, texts: Sequence[str], with_starts: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The id of each word, their cumulative number per text, and their starts."""
        find = self._find_words_compiled if self._use_compiled(texts) else self._find_words_reference
        return find(texts, with_starts)

    def _use_compiled(self, texts: Sequence[str | bytes]) -> bool:
        """Whether to use compiled loops; counts the characters of these texts."""
        if self._compiled is None:
            self._num_seen += sum(map(len, texts))
            if worth_compiling(self._num_seen):
                self._compile()
        return self._compiled is not None

    def texts(self, first: int = 0) -> list[str]:
        """The words by id, from `first` on."""
        if first >= len(self):
            return []
        return list(self._ids)[first:] if self._compiled is None else self._text(first).split(" ")[:-1]

    def gather(self, separator: str) -> str:
        """All words in one string, with this separator."""
        return separator.join(self._ids) if self._compiled is None else self._text(0).replace(" ", separator)

    def _text(self, first: int) -> str:
        ends = self._compiled.ends
        return self._compiled.codes[ends[first] : ends[len(self)]].tobytes().decode()

    def word_lengths(self) -> tuple[np.ndarray, np.ndarray]:
        """The characters and the bytes of each word."""
        if self._compiled is None:
            words = list(self._ids)
            return text_lengths(words), text_lengths([name.encode() for name in words])
        ends = self._compiled.ends[: len(self) + 1]
        continuation_bytes = np.flatnonzero((self._compiled.codes[: ends[-1]] & 0xC0) == 0x80)  # of UTF-8
        byte_lengths = np.diff(ends) - 1
        return byte_lengths - np.diff(np.searchsorted(continuation_bytes, ends)), byte_lengths

    def sorted_ids(self) -> np.ndarray:
        """The ids of all words in text order."""
        if self._compiled is None:
            return _text_order(list(self._ids))
        from forebear.kernels.jit import compile_kernel
        from forebear.kernels.pretoken_table import word_prefixes_kernel

        first, second = np.empty(len(self), np.uint64), np.empty(len(self), np.uint64)
        compile_kernel(word_prefixes_kernel)(self._compiled.codes, self._compiled.ends, first, second)
        order = np.argsort(first, kind="stable")
        _sort_ties(order, lambda indices: np.lexsort((second[indices], first[indices])), first)
        # Words that share sixteen bytes are rare: they are sorted as strings.
        _sort_ties(order, lambda indices: _text_order(self.texts_of(indices)), first, second)
        return order

    def texts_of(self, word_ids: np.ndarray) -> list[str]:
        if self._compiled is None:
            words = list(self._ids)
            return [words[word_id] for word_id in word_ids.tolist()]
        from forebear.kernels.jit import compile_kernel
        from forebear.kernels.pretoken_table import gather_words_kernel

        codes, ends = self._compiled.codes, self._compiled.ends
        buffer = np.empty(int((ends[word_ids + 1] - ends[word_ids]).sum()), np.uint8)
        compile_kernel(gather_words_kernel)(codes, ends, word_ids, buffer)
        return buffer.tobytes().decode().split(" ")[:-1]

    def _compile(self) -> None:
        """Switch to compiled loops; known pretokens keep their ids."""
        from forebear.kernels.pretoken_table import empty_word_table, number_words

        self._compiled = empty_word_table()
        if self._ids:
            is_space = np.arange(256) == ord(" ")
            known_words = _utf8_array(" ".join(self._ids))
            self._compiled, *_ = number_words(self._compiled, known_words, is_space, NO_BOUNDARIES)
        self._ids = {}

    def _find_words_compiled(
        self, texts: Sequence[str], with_starts: bool
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        data = _utf8_array("\n".join(texts))
        ends = np.append(np.flatnonzero(data == LINE_FEED), len(data))
        if not self._gaps[LINE_FEED] or len(ends) != len(
            texts
        ):  # some texts contain line feeds: encode them one by one
            encoded_texts = [replace_surrogates(text).encode() for text in texts]
            data, ends = _padded_array(b" ".join(encoded_texts)), np.cumsum(text_lengths(encoded_texts) + 1)
        word_ids, word_ends, starts = self._number_bytes_compiled(data, ends, with_starts)
        if with_starts:  # in characters
            starts -= np.searchsorted(np.flatnonzero((data & 0xC0) == 0x80), starts)
        return word_ids, word_ends, starts

    def _replace_gaps(self, text: str) -> str:
        for gap in self._other_gaps:
            text = text.replace(gap, " ")
        return text

    def _find_words_reference(
        self, texts: Sequence[str], with_starts: bool
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The reference implementation, by a dictionary."""
        known_ids = self._ids
        words_by_text = [list(filter(None, self._replace_gaps(replace_surrogates(text)).split(" "))) for text in texts]
        words = list(chain.from_iterable(words_by_text))
        word_ids = np.fromiter(map(known_ids.get, words, repeat(-1)), np.int32, len(words))
        for index in np.flatnonzero(word_ids < 0).tolist():
            word_ids[index] = known_ids.setdefault(words[index], len(known_ids))
        starts = np.zeros(len(word_ids), np.int64)
        if with_starts:
            text_starts = np.cumsum(text_lengths(texts) + 1) - text_lengths(texts) - 1
            offsets = map(_word_offsets, map(self._replace_gaps, texts), words_by_text)
            starts = np.fromiter(chain.from_iterable(offsets), np.int64, len(word_ids))
            starts += np.repeat(text_starts, text_lengths(words_by_text))
        return word_ids, np.cumsum(text_lengths(words_by_text)), starts


def _sort_ties(order: np.ndarray, sort: Callable[[np.ndarray], np.ndarray], *keys: np.ndarray) -> None:
    """Sort the runs of equal keys, which are adjacent already, with one call of `sort`."""
    is_tie = np.ones(max(len(order) - 1, 0), bool)
    for key in keys:
        is_tie &= key[order[1:]] == key[order[:-1]]
    tied = np.zeros(len(order), bool)
    tied[1:] |= is_tie
    tied[:-1] |= is_tie
    if tied.any():
        tied_order = order[tied]
        order[tied] = tied_order[sort(tied_order)]


def _text_order(words: list[str]) -> np.ndarray:
    return np.array(sorted(range(len(words)), key=words.__getitem__), np.int64)


def _word_offsets(text: str, words: list[str]) -> list[int]:
    offsets, position = [], 0
    for word in words:
        while text[position] == " ":
            position += 1
        offsets.append(position)
        position += len(word)
    return offsets


def _utf8_array(text: str) -> np.ndarray:
    """A text as padded UTF-8 bytes."""
    try:
        return _padded_array(text.encode())
    except UnicodeEncodeError:
        return _padded_array(replace_surrogates(text).encode())


def _padded_array(data: bytes) -> np.ndarray:
    """Bytes with the padding that the kernels need."""
    from forebear.kernels.pretoken_table import PADDING_BYTES

    return np.frombuffer(data + b" " * PADDING_BYTES, np.uint8)
