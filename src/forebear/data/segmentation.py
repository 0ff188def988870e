"""Chinese word segmentation with rjieba and a user dictionary, whose words are never split.

A word's frequency does not guarantee that it stays whole: rjieba weighs it against its neighbors (和服 in 产品和服务),
and a frequency large enough to win everywhere would change the weight of all other words. So the dictionary is not
given to rjieba: its words are matched from left to right, the longest first, and boundaries inside them are removed.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from hashlib import sha256
from itertools import accumulate, chain, pairwise
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from forebear.data.unicode import SURROGATES, code_points
from forebear.data.unicode import has_han as has_han
from forebear.errors import ForebearError, InputError

if TYPE_CHECKING:
    import rjieba

_CHUNK_CHARACTERS = 1 << 14  # given to rjieba at a time; more would only take more memory
_SAFE_BREAKS = "\n。，、；！？ "  # rjieba never joins these with the next character: text can be split after one
_MAX_WORD_LENGTH = 64  # characters of a dictionary word; a longer line is prose, not a dictionary
_MAX_REGEX_PREFIXES = 1000  # word prefixes up to which a regular expression is faster than a hash table of pairs
_HASH_BITS = 20
_FREQUENCY_AND_TAG = re.compile(
    r"(?:(?<! ) ++(?P<frequency>[-+]?[0-9][0-9.,e]*+))?(?:(?<! ) ++(?:[a-z]{1,2}|eng|nrt|nrfg))?\Z"
)


@dataclass(frozen=True)
class Segmenter:
    """Segments text into words as rjieba does, except that the words of `dictionary` are never split.

    A word that starts or ends with a Latin letter or digit matches only if no other one is next to it there: AI does
    not match in AIDS. Of overlapping dictionary words the first is kept, and of those the longest.
    """

    dictionary: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "dictionary", tuple(sorted(set(self.dictionary))))

    def __reduce__(self):  # cached properties are computed again in each process
        return type(self), (self.dictionary,)

    @classmethod
    def from_file(cls, path: str | PathLike[str] | None) -> Segmenter:
        """A segmenter with the words of a file in jieba's format, `word [frequency] [tag]` per line; None: no words."""
        return cls() if path is None else cls(tuple(read_dictionary(path)))

    def split(self, text: str) -> list[str]:
        """The words, including white space, whose concatenation is the text."""
        if not self.dictionary:
            return list(_segment(text))
        return [text[start:end] for start, end in pairwise([0, *self.word_ends(text)])]

    def word_ends(self, text: str) -> list[int]:
        """The end of each word in characters, strictly increasing; the last one is the length of the text."""
        ends = list(accumulate(map(len, _segment(text))))
        if text and (not ends or ends[-1] != len(text)):  # another version of rjieba might lose text
            raise ForebearError("rjieba's words are not the whole text", hint="install the tested version of rjieba")
        return self._merge_ends(text, ends) if self.dictionary else ends

    def describe(self) -> dict[str, str | int | None]:
        """Everything that determines the segmentation, to be stored with segmented text."""
        from importlib.metadata import version  # slow to import

        words = len(self.dictionary)
        digest = dictionary_digest(self.dictionary) if words else None
        return {"segmenter": "rjieba", "version": version("rjieba"), "dictionary": digest, "words": words}

    @cached_property
    def _matcher(self) -> DictionaryMatcher:
        return DictionaryMatcher(word for word in self.dictionary if len(word) > 1)  # others cannot be split

    def _merge_ends(self, text: str, ends: list[int]) -> list[int]:
        """Remove ends inside dictionary words, and add the boundaries of these words."""
        merged: list[int] = []
        num_merged = 0  # ends already processed
        for start, stop in self._matcher.find(text):
            index = bisect_left(ends, start, num_merged)
            merged += ends[num_merged:index]
            if start > (merged[-1] if merged else 0):
                merged.append(start)
            merged.append(stop)
            num_merged = bisect_right(ends, stop, index)
        return merged + ends[num_merged:] if merged else ends


def dictionary_digest(words: Iterable[str]) -> str:
    return sha256("\n".join(words).encode("utf-8", "surrogatepass")).hexdigest()


class DictionaryMatcher:
    """Matches the words of a dictionary in text, in time linear in the text."""

    def __init__(self, words: Iterable[str]) -> None:
        self.words = frozenset(words)
        self.single_characters = "".join(sorted(word for word in self.words if len(word) == 1))
        lengths: dict[str, set[int]] = {}
        for word in self.words:
            if len(word) > 1:
                lengths.setdefault(word[:2], {1} if word[0] in self.words else set()).add(len(word))
        self.lengths = {head: tuple(sorted(word_lengths, reverse=True)) for head, word_lengths in lengths.items()}
        self.default_lengths = (1,) if self.single_characters else ()  # to try where no longer word can start
        self.pattern: re.Pattern[str] | None = None
        if 0 < len(lengths) + len(self.single_characters) <= _MAX_REGEX_PREFIXES:
            patterns = [f"[{re.escape(self.single_characters)}]"] if self.single_characters else []
            if lengths:  # the first two characters of words
                first, second = (re.escape("".join(sorted({head[index] for head in lengths}))) for index in (0, 1))
                patterns.append(f"[{first}](?=[{second}])")
            self.pattern = re.compile("|".join(patterns))
        else:
            self.is_pair_start = np.zeros(1 << _HASH_BITS, dtype=bool)
            codes = code_points("".join(lengths), surrogates="keep").reshape(-1, 2)
            self.is_pair_start[_pair_hash(codes[:, 0], codes[:, 1])] = True

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        """Start and end of each match, without overlap: from left to right, the longest one at each position."""
        end = 0
        for start in self._candidate_starts(text):
            if start < end:
                continue
            for length in self.lengths.get(text[start : start + 2], self.default_lengths):
                stop = start + length
                is_word = text[start:stop] in self.words
                if is_word and not _splits_latin_word(text, start) and not _splits_latin_word(text, stop):
                    yield start, stop
                    end = stop
                    break

    def _candidate_starts(self, text: str) -> Iterable[int]:
        if self.pattern:
            return [match.start() for match in self.pattern.finditer(text)]
        codes = code_points(text, surrogates="keep")
        is_start = self.is_pair_start[_pair_hash(codes[:-1], codes[1:])]
        if self.single_characters:
            single_codes = code_points(self.single_characters, surrogates="keep")
            is_start = np.append(is_start, False) | np.isin(codes, single_codes)
        return np.flatnonzero(is_start).tolist()


def _pair_hash(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """A hash of _HASH_BITS bits for each pair of characters."""
    return (first * np.uint32(0x9E3779B1) + second * np.uint32(0x85EBCA77)) >> np.uint32(32 - _HASH_BITS)


def _splits_latin_word(text: str, position: int) -> bool:
    """Whether this position is inside a Latin word or a number."""
    if not 0 < position < len(text):
        return False
    after = text[position]
    return after < "\u2e80" and after.isalnum() and (before := text[position - 1]) < "\u2e80" and before.isalnum()


@cache
def _jieba() -> rjieba.Jieba:
    """One instance for each process; rjieba's default instance could be modified by others."""
    import rjieba

    return rjieba.Jieba()


def _segment(text: str) -> Iterable[str]:
    """rjieba's words of a text of any length, chunk by chunk."""
    if len(text) <= _CHUNK_CHARACTERS:
        return _segment_chunk(text)
    return chain.from_iterable(map(_segment_chunk, _chunks(text)))


def _segment_chunk(text: str) -> list[str]:
    """rjieba's words; a lone surrogate is a separate word."""
    try:
        return _jieba().cut(text)
    except UnicodeEncodeError:
        words: list[str] = []
        end = 0
        for match in SURROGATES.finditer(text):
            words += [*_jieba().cut(text[end : match.start()]), match[0]]
            end = match.end()
        return words + _jieba().cut(text[end:])


def _chunks(text: str) -> Iterator[str]:
    """The text in chunks of bounded size, which end after a safe character if possible."""
    start = 0
    while len(text) - start > _CHUNK_CHARACTERS:
        limit = start + _CHUNK_CHARACTERS
        positions = (text.rfind(separator, start, limit) for separator in _SAFE_BREAKS)
        end = next((position for position in positions if position >= 0), limit - 1) + 1
        yield text[start:end]
        start = end
    yield text[start:]


def read_dictionary(path: str | PathLike[str]) -> Iterator[str]:
    """The words of a dictionary in jieba's format; frequencies and tags are ignored."""
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"cannot read the dictionary: {error.strerror}", file=path, hint="check the path") from error
    for number, line in enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        try:
            text = line.decode("utf-8").strip(" \r\u3000")
        except UnicodeDecodeError as error:
            hint = "save the dictionary as UTF-8"
            raise InputError("the dictionary is not UTF-8 here", file=path, line=number, hint=hint) from error
        if text.strip() and not text.startswith("#"):
            word, error_message = _parse_dictionary_line(text)
            if error_message:
                hint = "write one word a line; a frequency and a tag may follow; a tab shows where the word ends"
                raise InputError(error_message, file=path, line=number, hint=hint)
            yield word


def _parse_dictionary_line(line: str) -> tuple[str, str]:
    """The word of a line, and an error message or "".

    A word may contain spaces. A tab ends it, so that `iPhone 15` can be distinguished from a frequency of 15.
    """
    word, tab, rest = line.partition("\t")
    if len(word) > 2 * _MAX_WORD_LENGTH or len(rest) > _MAX_WORD_LENGTH:
        return word, f"a line of {len(line):,} characters is no word"
    match = _FREQUENCY_AND_TAG.search(f" {rest.replace(chr(9), ' ')}" if tab else word)
    if match is None or (tab and rest.strip() and match.start() > 0):
        return word, f"{rest!r} is not a frequency and a tag"
    frequency = match["frequency"]
    if frequency and not frequency.isdigit():
        return word, f"the frequency {frequency} is not a whole number"
    word = (word if tab else word[: match.start()]).strip()
    if len(word) > _MAX_WORD_LENGTH:
        return word, f"a word of {len(word)} characters; a dictionary's words have at most {_MAX_WORD_LENGTH}"
    if not word or not word.isprintable():
        return word, f"{line!r} has no word that can be printed"
    return word, ""
