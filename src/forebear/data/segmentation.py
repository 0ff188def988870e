"""Cuts Chinese text into words with rjieba, and keeps the words of a person's own dictionary whole.

A frequency cannot promise that a word stays whole: rjieba weighs it against its neighbours (和服 in 产品和服务), and a
number large enough to win everywhere would change the weight of all other words. So the dictionary is never given to
rjieba: its words are found in the text from left to right, the longest first, and no cut is left inside one.
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

from forebear.errors import ForebearError, InputError

if TYPE_CHECKING:
    import rjieba

_STRETCH = 1 << 14  # characters given to rjieba at once; beyond some ten thousand it only uses more memory
_SAFE = "\n。，、；！？ "  # rjieba never joins these with what follows, so a cut after one changes nothing
_LONGEST = 64  # characters of a dictionary's word; a longer line is prose taken for a dictionary
_FEW = 1000  # beginnings of words up to which a regular expression finds them faster than a look at every pair
_HASH_BITS = 20
_FREQUENCY_AND_TAG = re.compile(
    r"(?:(?<! ) ++(?P<frequency>[-+]?[0-9][0-9.,e]*+))?(?:(?<! ) ++(?:[a-z]{1,2}|eng|nrt|nrfg))?\Z"
)
_SURROGATE = re.compile("[\ud800-\udfff]")
_HAN = re.compile("[\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")


def has_han(text: str) -> bool:
    """Whether the text holds at least one Chinese character."""
    return not text.isascii() and _HAN.search(text) is not None


@dataclass(frozen=True)
class Segmenter:
    """A way of cutting text into words: rjieba's, except that the words of `dictionary` come out whole.

    A word that begins or ends in a Latin letter or digit is found only where no other one touches it there: AI is not
    in AIDS. Where two words of the dictionary overlap, the one that begins first is kept, and of those the longest.
    """

    dictionary: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "dictionary", tuple(sorted(set(self.dictionary))))

    def __reduce__(self):  # what is made from the words is made again in each process
        return type(self), (self.dictionary,)

    @classmethod
    def from_file(cls, path: str | PathLike[str] | None) -> Segmenter:
        """With the words of a file in jieba's format, `word [frequency] [tag]` a line; without a file, with none."""
        return cls() if path is None else cls(tuple(read_dictionary(path)))

    def split(self, text: str) -> list[str]:
        """The words, white space included: joined they are the text."""
        if not self.dictionary:
            return list(_cut(text))
        return [text[start:end] for start, end in pairwise([0, *self.word_ends(text)])]

    def word_ends(self, text: str) -> list[int]:
        """Where each word ends, in characters: strictly increasing, the last one the text's length."""
        ends = list(accumulate(map(len, _cut(text))))
        if text and (not ends or ends[-1] != len(text)):  # no text is lost, whatever a later rjieba does
            raise ForebearError("rjieba's words are not the whole text", hint="install the tested version of rjieba")
        return self._kept_whole(text, ends) if self.dictionary else ends

    def describe(self) -> dict[str, str | int | None]:
        """What must be equal for two segmenters to cut alike, to be stored with what they cut."""
        from importlib.metadata import version  # costs start-up time

        return {
            "segmenter": "rjieba",
            "version": version("rjieba"),
            "dictionary": dictionary_digest(self.dictionary) if self.dictionary else None,
            "words": len(self.dictionary),
        }

    @cached_property
    def _finder(self) -> DictionaryMatcher:
        return DictionaryMatcher(word for word in self.dictionary if len(word) > 1)  # a single character cannot be cut

    def _kept_whole(self, text: str, ends: list[int]) -> list[int]:
        """The same ends without those inside a word of the dictionary, and with that word's own."""
        merged: list[int] = []
        num_seen = 0  # ends already looked at
        for start, stop in self._finder.find(text):
            index = bisect_left(ends, start, num_seen)
            merged += ends[num_seen:index]
            if start > (merged[-1] if merged else 0):
                merged.append(start)
            merged.append(stop)
            num_seen = bisect_right(ends, stop, index)
        return merged + ends[num_seen:] if merged else ends


def dictionary_digest(words: Iterable[str]) -> str:
    """What a dictionary's words are, as sha256."""
    return sha256("\n".join(words).encode("utf-8", "surrogatepass")).hexdigest()


class DictionaryMatcher:
    """Finds the words of a dictionary in a text; the time is linear in the text."""

    def __init__(self, words: Iterable[str]) -> None:
        self.words = frozenset(words)
        self.single = "".join(sorted(word for word in self.words if len(word) == 1))
        lengths: dict[str, set[int]] = {}
        for word in self.words:
            if len(word) > 1:
                lengths.setdefault(word[:2], {1} if word[0] in self.words else set()).add(len(word))
        self.lengths = {head: tuple(sorted(word_lengths, reverse=True)) for head, word_lengths in lengths.items()}
        self.others = (1,) if self.single else ()  # lengths to try where no longer word may begin
        self.pattern: re.Pattern[str] | None = None
        if 0 < len(lengths) + len(self.single) <= _FEW:
            self.pattern = re.compile("|".join(_beginnings(lengths, self.single)))
        else:
            self.begins = np.zeros(1 << _HASH_BITS, dtype=bool)
            codes = _codes("".join(lengths)).reshape(-1, 2)
            self.begins[_hashed(codes[:, 0], codes[:, 1])] = True

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        """Start and end of each word: from left to right, the longest at a place, none overlapping."""
        end = 0
        for start in self._places(text):
            if start < end:
                continue
            for length in self.lengths.get(text[start : start + 2], self.others):
                stop = start + length
                if text[start:stop] in self.words and not _joined(text, start) and not _joined(text, stop):
                    yield start, stop
                    end = stop
                    break

    def _places(self, text: str) -> Iterable[int]:
        """Where characters stand that may begin a word."""
        if self.pattern:
            return [match.start() for match in self.pattern.finditer(text)]
        codes = _codes(text)
        begins = self.begins[_hashed(codes[:-1], codes[1:])]
        if self.single:
            begins = np.append(begins, False) | np.isin(codes, _codes(self.single))
        return np.flatnonzero(begins).tolist()


def _beginnings(heads: Iterable[str], single: str) -> Iterator[str]:
    """Patterns of what may begin a word: the first of two characters, or a character that is one."""
    if heads:
        first, second = ("".join(sorted({head[index] for head in heads})) for index in (0, 1))
        yield f"[{re.escape(first)}](?=[{re.escape(second)}])"
    if single:
        yield f"[{re.escape(single)}]"


def _codes(text: str) -> np.ndarray:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)


def _hashed(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """A small number for each pair of characters; two pairs may share one."""
    return (first * np.uint32(0x9E3779B1) + second * np.uint32(0x85EBCA77)) >> np.uint32(32 - _HASH_BITS)


def _joined(text: str, position: int) -> bool:
    """Whether a Latin word or a number goes on across this place."""
    if not 0 < position < len(text):
        return False
    after = text[position]
    return after < "\u2e80" and after.isalnum() and (before := text[position - 1]) < "\u2e80" and before.isalnum()


@cache
def _jieba() -> rjieba.Jieba:
    """One for each process, never changed; rjieba's own default instance is anybody's to change."""
    import rjieba

    return rjieba.Jieba()


def _cut(text: str) -> Iterable[str]:
    """rjieba's words of a text of any length; of a long one never more at a time than a stretch gives."""
    if len(text) <= _STRETCH:
        return _cut_stretch(text)
    return chain.from_iterable(map(_cut_stretch, _stretches(text)))


def _cut_stretch(text: str) -> list[str]:
    """rjieba's words; a lone surrogate, which UTF-8 cannot hold, is a word of its own."""
    try:
        return _jieba().cut(text)
    except UnicodeEncodeError:
        words: list[str] = []
        end = 0
        for match in _SURROGATE.finditer(text):
            words += [*_jieba().cut(text[end : match.start()]), match[0]]
            end = match.end()
        return words + _jieba().cut(text[end:])


def _stretches(text: str) -> Iterator[str]:
    """The text in parts of bounded size, cut after a safe character wherever there is one."""
    start = 0
    while len(text) - start > _STRETCH:
        limit = start + _STRETCH
        end = next((position for safe in _SAFE if (position := text.rfind(safe, start, limit)) >= 0), limit - 1) + 1
        yield text[start:end]
        start = end
    yield text[start:]


def read_dictionary(path: str | PathLike[str]) -> Iterator[str]:
    """The words of a dictionary in jieba's format; a frequency or a tag is allowed and changes nothing."""
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
            word, fault = _word_of(text)
            if fault:
                hint = "write one word a line; a frequency and a tag may follow; a tab shows where the word ends"
                raise InputError(fault, file=path, line=number, hint=hint)
            yield word


def _word_of(line: str) -> tuple[str, str]:
    """The word of a line and what is wrong with it, which is nothing where that is empty.

    A word may hold spaces. After a tab nothing belongs to it, so that `iPhone 15` can be told from a frequency of 15.
    """
    word, tab, rest = line.partition("\t")
    if len(word) > 2 * _LONGEST or len(rest) > _LONGEST:
        return word, f"a line of {len(line):,} characters is no word"
    match = _FREQUENCY_AND_TAG.search(f" {rest.replace(chr(9), ' ')}" if tab else word)
    if match is None or (tab and rest.strip() and match.start() > 0):
        return word, f"{rest!r} is not a frequency and a tag"
    frequency = match["frequency"]
    if frequency and not frequency.isdigit():
        return word, f"the frequency {frequency} is not a whole number"
    word = (word if tab else word[: match.start()]).strip()
    if len(word) > _LONGEST:
        return word, f"a word of {len(word)} characters; a dictionary's words have at most {_LONGEST}"
    if not word or not word.isprintable():
        return word, f"{line!r} has no word that can be printed"
    return word, ""
