"""Distinct pretokens and whitespace-separated words of texts, numbered by first occurrence."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from itertools import chain, pairwise, repeat
from typing import Any, NamedTuple

import numpy as np

from forebear.data.tokenizers.offsets import text_lengths
from forebear.data.unicode import code_points, replace_surrogates
from forebear.kernels.layout import CLASS_GAP, CLASS_RUN, CLASS_SINGLE

# --- Pretokens by character classes ---

# Separators inside one string: NUL if no text has it, otherwise a surrogate, which none has.
NUL_CODE, SURROGATE_CODE = 0, 0xD800
# Characters above which compiled loops save more time than loading them takes; less if numba is loaded already.
COMPILE_AFTER, COMPILE_AFTER_IF_LOADED = 1 << 22, 1 << 20
NO_BOUNDARIES = np.zeros(0, np.int64)


def worth_compiling(characters: int) -> bool:
    """Whether enough text was seen to expect as much again."""
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
        characters_before: Characters that were processed before, elsewhere.

    Look-up is in Python for short texts, in a compiled loop for long ones.
    """

    def __init__(self, classes: np.ndarray, characters_before: int = 0) -> None:
        self._kinds = classes.astype(np.int32)  # later the pretoken id of each CLASS_SINGLE character
        self._known: dict[str, int] = {}
        self._compiled: Any = None
        self._seen = characters_before
        self.characters = 0  # of all distinct pretokens

    def __len__(self) -> int:
        return int(self._compiled.many[0]) if self._compiled is not None else len(self._known)

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
        units, numbers, new_pretokens = self.look_up(codes, ends - 1, boundaries, is_boundary)
        return PretokenLookup(units, numbers, np.searchsorted(units, ends), new_pretokens)

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
            is_boundary: True where one does; None: nowhere.
        """
        self._seen += len(codes)
        if self._compiled is None and worth_compiling(self._seen):
            self._compile()
        num_before = len(self)
        find = self._by_names if self._compiled is None else self._by_loops
        begins, numbers = find(codes, gaps, boundaries, is_boundary)
        new_pretokens = self.texts(num_before)
        self.characters += sum(map(len, new_pretokens))
        return begins, numbers, new_pretokens

    def texts(self, first: int = 0) -> list[str]:
        """The pretokens by id, from `first` on."""
        if self._compiled is None:
            return list(self._known)[first:] if first < len(self._known) else []
        ends = self._compiled.ends[first : len(self) + 1]
        text = self._compiled.codes[ends[0] : ends[-1]].tobytes().decode("utf-32-le")
        return [text[begin:end] for begin, end in pairwise((ends - ends[0]).tolist())]

    def _compile(self) -> None:
        """From now on by compiled loops; those that are known keep their numbers."""
        from forebear.kernels.pretokens import empty_pretoken_table, number_pretokens

        self._compiled = empty_pretoken_table()
        if self._known:
            names = list(self._known)
            gaps = np.cumsum([len(name) + 1 for name in names]) - 1
            all_run = np.full(0x110000, CLASS_RUN, np.int32)
            self._compiled, *_ = number_pretokens(
                self._compiled, code_points(" ".join(names) + " "), all_run, gaps, NO_BOUNDARIES, np.zeros(0, bool)
            )
        self._known = {}

    def _by_loops(
        self, codes: np.ndarray, gaps: np.ndarray, boundaries: np.ndarray, is_boundary: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        from forebear.kernels.pretokens import number_pretokens

        flags = np.zeros(0, bool) if is_boundary is None else is_boundary
        self._compiled, begins, numbers = number_pretokens(self._compiled, codes, self._kinds, gaps, boundaries, flags)
        return begins, numbers

    def _by_names(
        self, codes: np.ndarray, gaps: np.ndarray, boundaries: np.ndarray, is_boundary: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The reference implementation, by NumPy and a dictionary."""
        numbers = self._kinds.take(codes)
        numbers[gaps] = CLASS_GAP
        run = numbers == CLASS_RUN
        begins = run.copy()
        begins[1:] &= ~run[:-1]
        if is_boundary is not None:
            begins |= is_boundary & run
        begins[boundaries] |= run[boundaries]
        if (is_new := numbers == CLASS_SINGLE).any():
            new_codes = np.unique(codes[is_new])
            self._kinds[new_codes] = self._numbers_of([chr(code) for code in new_codes.tolist()])
            numbers[is_new] = self._kinds[codes[is_new]]
        positions = np.flatnonzero(begins | (numbers >= 0))
        pretoken_ids = numbers[positions]
        pretoken_ids[pretoken_ids == CLASS_RUN] = self._numbers_of(_split_runs(codes, run, begins))
        return positions, pretoken_ids

    def _numbers_of(self, names: list[str]) -> np.ndarray:
        known = self._known
        numbers = np.fromiter(map(known.get, names, repeat(-1)), np.int64, len(names))
        for index in np.flatnonzero(numbers < 0).tolist():
            numbers[index] = known.setdefault(names[index], len(known))
        return numbers


def _split_runs(codes: np.ndarray, run: np.ndarray, begins: np.ndarray) -> list[str]:
    """The pretokens as strings: their characters with a marker before each, as one string, split at the markers."""
    run_codes = codes[run]
    if not len(run_codes):
        return []
    marker = NUL_CODE if run_codes.all() else SURROGATE_CODE
    marker_positions = np.cumsum(begins[run])
    marker_positions += np.arange(len(run_codes))
    with_markers = np.full(marker_positions[-1] + 2, marker, np.uint32)
    with_markers[marker_positions] = run_codes
    # A view as one long string makes no detour through an encoding; the mark at its end keeps it whole, as numpy
    # drops NULs there: with NUL for a mark that one is dropped, and only that one.
    joined = str(with_markers.view(f"U{len(with_markers)}")[0])
    return joined.split(chr(marker))[1:] if marker == NUL_CODE else joined.split(chr(marker))[1:-1]


MAX_GAP_CODE, LINE_FEED = 32, 10  # bytes of multi-byte UTF-8 characters are higher


class WhitespaceWords:
    """As `PretokenIndex`, for words that only these gap characters separate.

    Look-up is by a dictionary for short texts, by a compiled loop over UTF-8 bytes for long ones.
    """

    def __init__(self, gaps: str, seen: int = 0) -> None:
        codes = list(map(ord, gaps))
        assert " " in gaps
        assert max(codes) <= MAX_GAP_CODE
        self._gaps = np.isin(np.arange(256), codes)
        self._others = gaps.replace(" ", "")
        self._known: dict[str, int] = {}
        self._compiled: Any = None
        self._seen = seen

    def __len__(self) -> int:
        return int(self._compiled.many[0]) if self._compiled is not None else len(self._known)

    @property
    def characters(self) -> int:
        """Characters of all distinct words; bytes of non-ASCII ones once compiled."""
        if self._compiled is None:
            return sum(map(len, self._known))
        return int(self._compiled.ends[len(self)]) - len(self)

    def look_up_texts(self, texts: Sequence[str], *, units: bool = False) -> PretokenLookup:
        """The words of these texts; their starts only with `units`."""
        num_before = len(self)
        numbers, ends, begins = self._find_words(texts, units)
        return PretokenLookup(begins, numbers, ends, self.texts(num_before))

    def look_up_bytes(self, data: bytes, ends: np.ndarray) -> PretokenLookup | None:
        """The words of UTF-8 texts separated by gaps that end at `ends`; None while a dictionary is as fast."""
        num_before = len(self)
        word_ids = self.number_bytes(data, ends)
        return None if word_ids is None else PretokenLookup(NO_BOUNDARIES, *word_ids, self.texts(num_before))

    def number_texts(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """The ids of the words of these texts, and their cumulative number per text."""
        return self._find_words(texts, False)[:2]

    def number_bytes(self, data: bytes, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """The same for UTF-8 texts; None while a dictionary is as fast."""
        return self._by_bytes(_padded_array(data), ends)[:2] if self._use_compiled([data]) else None

    def word_ids(self, texts: Sequence[str]) -> np.ndarray:
        if not self._use_compiled(texts):
            return self._by_names(texts, False)[0]
        return self._by_bytes(_utf8_array(" ".join(texts)), NO_BOUNDARIES)[0]

    def _by_bytes(
        self, data: np.ndarray, ends: np.ndarray, units: bool = False
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        from forebear.kernels.pretokens import number_words

        self._compiled, *results = number_words(self._compiled, data, self._gaps, ends, with_starts=units)
        return results[0], results[1], results[2]

    def _find_words(self, texts: Sequence[str], units: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The id of each word, their cumulative number per text, and their starts."""
        return (self._by_loops if self._use_compiled(texts) else self._by_names)(texts, units)

    def _use_compiled(self, texts: Sequence[str | bytes]) -> bool:
        """Whether to use compiled loops, counting these texts."""
        if self._compiled is None:
            self._seen += sum(map(len, texts))
            if worth_compiling(self._seen):
                self._compile()
        return self._compiled is not None

    def texts(self, first: int = 0) -> list[str]:
        """The words by id, from `first` on."""
        if first >= len(self):
            return []
        return list(self._known)[first:] if self._compiled is None else self._text(first).split(" ")[:-1]

    def gather(self, separator: str) -> str:
        """All words in one string, with this separator."""
        return separator.join(self._known) if self._compiled is None else self._text(0).replace(" ", separator)

    def _text(self, first: int) -> str:
        ends = self._compiled.ends
        return self._compiled.codes[ends[first] : ends[len(self)]].tobytes().decode()

    def word_lengths(self) -> tuple[np.ndarray, np.ndarray]:
        """The characters and the bytes of each word."""
        if self._compiled is None:
            names = list(self._known)
            return text_lengths(names), text_lengths([name.encode() for name in names])
        ends = self._compiled.ends[: len(self) + 1]
        continuation_bytes = np.flatnonzero((self._compiled.codes[: ends[-1]] & 0xC0) == 0x80)  # of UTF-8
        sizes = np.diff(ends) - 1
        return sizes - np.diff(np.searchsorted(continuation_bytes, ends)), sizes

    def sorted_ids(self) -> np.ndarray:
        """The ids of all words in text order."""
        if self._compiled is None:
            return _text_order(list(self._known))
        from forebear.kernels.jit import compile_kernel
        from forebear.kernels.pretokens import word_prefixes_kernel

        first, second = np.empty(len(self), np.uint64), np.empty(len(self), np.uint64)
        compile_kernel(word_prefixes_kernel)(self._compiled.codes, self._compiled.ends, first, second)
        order = np.argsort(first, kind="stable")
        _sort_ties(order, lambda indices: np.lexsort((second[indices], first[indices])), first)
        # Ties of more than sixteen bytes are rare: sorted one by one.
        _sort_ties(order, lambda indices: _text_order(self.texts_of(indices)), first, second)
        return order

    def texts_of(self, numbers: np.ndarray) -> list[str]:
        if self._compiled is None:
            words = list(self._known)
            return [words[number] for number in numbers.tolist()]
        from forebear.kernels.jit import compile_kernel
        from forebear.kernels.pretokens import gather_words_kernel

        codes, ends = self._compiled.codes, self._compiled.ends
        buffer = np.empty(int((ends[numbers + 1] - ends[numbers]).sum()), np.uint8)
        compile_kernel(gather_words_kernel)(codes, ends, numbers, buffer)
        return buffer.tobytes().decode().split(" ")[:-1]

    def _compile(self) -> None:
        """From now on by compiled loops; those that are known keep their numbers."""
        from forebear.kernels.pretokens import empty_word_table, number_words

        self._compiled = empty_word_table()
        if self._known:
            is_space = np.arange(256) == ord(" ")
            known_words = _utf8_array(" ".join(self._known))
            self._compiled, *_ = number_words(self._compiled, known_words, is_space, NO_BOUNDARIES)
        self._known = {}

    def _by_loops(self, texts: Sequence[str], units: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        data = _utf8_array("\n".join(texts))
        ends = np.append(np.flatnonzero(data == LINE_FEED), len(data))
        if not self._gaps[LINE_FEED] or len(ends) != len(texts):  # some texts contain line feeds: encoded one by one
            encoded_texts = [replace_surrogates(text).encode() for text in texts]
            data, ends = _padded_array(b" ".join(encoded_texts)), np.cumsum(text_lengths(encoded_texts) + 1)
        numbers, upto, begins = self._by_bytes(data, ends, units)
        if units:  # in characters
            begins -= np.searchsorted(np.flatnonzero((data & 0xC0) == 0x80), begins)
        return numbers, upto, begins

    def _replace_gaps(self, text: str) -> str:
        for gap in self._others:
            text = text.replace(gap, " ")
        return text

    def _by_names(self, texts: Sequence[str], units: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The reference implementation, by a dictionary."""
        known = self._known
        rows = [list(filter(None, self._replace_gaps(replace_surrogates(text)).split(" "))) for text in texts]
        words = list(chain.from_iterable(rows))
        word_ids = np.fromiter(map(known.get, words, repeat(-1)), np.int32, len(words))
        for index in np.flatnonzero(word_ids < 0).tolist():
            word_ids[index] = known.setdefault(words[index], len(known))
        begins = np.zeros(len(word_ids), np.int64)
        if units:
            text_starts = np.cumsum(text_lengths(texts) + 1) - text_lengths(texts) - 1
            offsets = (_word_offsets(self._replace_gaps(text), row) for text, row in zip(texts, rows, strict=True))
            begins = np.fromiter(chain.from_iterable(offsets), np.int64, len(word_ids))
            begins += np.repeat(text_starts, text_lengths(rows))
        return word_ids, np.cumsum(text_lengths(rows)), begins


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


def _text_order(names: list[str]) -> np.ndarray:
    return np.array(sorted(range(len(names)), key=names.__getitem__), np.int64)


def _word_offsets(text: str, row: list[str]) -> list[int]:
    offsets, position = [], 0
    for word in row:
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
    from forebear.kernels.pretokens import PADDING_BYTES

    return np.frombuffer(data + b" " * PADDING_BYTES, np.uint8)
