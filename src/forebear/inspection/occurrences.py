"""Where a word stands in texts: whole words, in Chinese as the segmenter cuts them, each with its sentence."""

from __future__ import annotations

import os
import re
import unicodedata
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from forebear.data.io.files import find_sources
from forebear.data.io.ledger import Ledger
from forebear.data.io.reader import TextFormat
from forebear.data.segmentation import Segmenter, has_han
from forebear.data.sentences import SentenceMode, sentence_ends
from forebear.data.tokenizers.char_level import replace_surrogates
from forebear.errors import InputError

HELD = 16  # times as many occurrences as are wanted are held, so that they can be chosen evenly
NAMED = 6  # other words that are told
TOLD = 1000  # other words that are counted


@dataclass(frozen=True)
class SenseText:
    """A text, where it begins, and which meaning of the word it shows, where somebody knows.

    is_record  it is one line of its file, whatever line ends are in it
    """

    text: str
    file: str | None = None
    line: int | None = None
    sense: str | None = None
    is_record: bool = False


@dataclass(frozen=True)
class Occurrence:
    """A sentence, and where in it the word stands: sentence[start:end]."""

    sentence: str
    start: int
    end: int
    file: str | None = None
    line: int | None = None
    sense: str | None = None

    @property
    def surface(self) -> str:
        return self.sentence[self.start : self.end]

    def to_dict(self) -> dict[str, Any]:
        told: dict[str, Any] = {"sentence": self.sentence, "start": self.start, "end": self.end}
        return told | {"file": self.file, "line": self.line} | ({} if self.sense is None else {"sense": self.sense})


@dataclass(frozen=True)
class OccurrenceSample:
    """occurrences  those that are looked at, evenly chosen of all
    total        how many there are, the same sentence counted once
    repeated     how many more there were in sentences that were there before
    within       other words of which it was a part only, and how often
    """

    word: str
    occurrences: tuple[Occurrence, ...]
    total: int
    repeated: int
    within: Counter[str]

    def notes(self) -> Iterator[str]:
        if len(self.occurrences) < self.total:
            yield f"{len(self.occurrences):,} of {self.total:,} occurrences were taken, evenly from all (--most)"
        if self.repeated:
            yield f"{self.repeated:,} more are in sentences that were there before: each counts once"
        if self.within:
            yield f"not counted, as it is a part of another word: {self.other_forms()}"

    def other_forms(self) -> str:
        told = ", ".join(f"{word} ({count:,})" for word, count in self.within.most_common(NAMED))
        return told + " …" * (len(self.within) > NAMED)


def read_sense_texts(paths: Sequence[str | os.PathLike[str]], reading: TextFormat) -> Iterator[SenseText]:
    """The documents of files, as `pretrain` reads them."""
    ledger = Ledger()
    for document in reading.documents_in(find_sources(paths, ledger), ledger):
        yield SenseText(document.text, document.file, document.line, is_record=document.is_record)


def read_labeled_sense_texts(paths: Sequence[str | os.PathLike[str]], reading: TextFormat) -> Iterator[SenseText]:
    """The lines of files that have the meaning of the word before a tab, and behind it a sentence."""
    for text in read_sense_texts(paths, replace(reading, documents="lines", format="text")):
        sense, tab, sentence = text.text.partition("\t")
        if not tab or not sense.strip():
            hint = "write the meaning, a tab and the sentence on each line, or leave --senses out"
            raise InputError("this line has no meaning before a tab", file=text.file, line=text.line, hint=hint)
        yield replace(text, text=sentence.strip(), sense=sense.strip())


def find_occurrences(
    word: str, texts: Iterable[SenseText], *, most: int, sentences: SentenceMode = "split"
) -> OccurrenceSample:
    """Where the word stands, also with other capitals; at most so many, evenly chosen."""
    if most < 1:
        raise InputError(f"--most is {most}", hint="ask for at least 1 occurrence")
    looking = _OccurrenceFinder(word, sentences)
    chosen, seen, repeated = _EvenSample(most), set[int](), 0
    for text in texts:
        for one in looking.within(replace(text, text=replace_surrogates(text.text))):
            key = hash((one.sentence, one.start, one.sense))
            repeated += key in seen
            if key not in seen:
                seen.add(key)
                chosen.add(one)
    if not chosen.total:
        if looking.parts:
            told = OccurrenceSample(word, (), 0, 0, looking.parts).other_forms()
            raise InputError(f"{word!r} never stands by itself: it is a part of {told}", hint="ask for one of these")
        raise InputError(f"no sentence has the word {word!r}", hint="ask for a word of the text, or give more text")
    return OccurrenceSample(word, chosen.all(), chosen.total, repeated, looking.parts)


class _OccurrenceFinder:
    """Finds a word in texts. Letters may not touch it; a Chinese end of it must be an end of a word.

    So 和服 is not found in 产品和服务, nor 打 in 打算, but 黄牛 is where the segmenter cuts it into 黄 and 牛.
    """

    def __init__(self, word: str, sentences: SentenceMode) -> None:
        parts = replace_surrogates(word).split()
        if not parts:
            raise InputError("the word is empty", hint="name a word, such as bank")
        self.pattern = re.compile(r"\s+".join(map(re.escape, parts)), re.IGNORECASE)
        self.sentences: SentenceMode = sentences
        self.chinese = has_han(parts[0][0]), has_han(parts[-1][-1])
        self.parts: Counter[str] = Counter()
        self.segmenter = Segmenter()

    def within(self, text: SenseText) -> Iterator[Occurrence]:
        if self.pattern.search(text.text) is None:
            return
        ends = sentence_ends(text.text, self.sentences)
        here, line, counted = -1, text.line, 0
        sentence, begin, borders = "", 0, list[int]()
        for found in self.pattern.finditer(text.text):
            at = bisect_right(ends, found.start())
            if found.end() > ends[at]:  # it reaches over two sentences
                continue
            if at != here:
                here, begin = at, ends[at - 1] if at else 0
                whole = text.text[begin : ends[at]]
                sentence, begin = whole.strip(), begin + len(whole) - len(whole.lstrip())
                borders = [0, *self.segmenter.word_ends(sentence)] if any(self.chinese) else []
                if line is not None and not text.is_record:
                    line, counted = line + text.text.count("\n", counted, begin), begin
            start, end = found.start() - begin, found.end() - begin
            if other := self._other(sentence, start, end, borders):
                if other in self.parts or len(self.parts) < TOLD:
                    self.parts[other] += 1
            else:
                yield Occurrence(sentence, start, end, text.file, line, text.sense)

    def _other(self, sentence: str, start: int, end: int, borders: Sequence[int]) -> str:
        """The longer word of which this is a part, or nothing."""
        first, last = start, end
        if self.chinese[0]:
            first = borders[bisect_right(borders, start) - 1]
        else:
            while first and _is_letter(sentence[first - 1]) and _is_letter(sentence[start]):
                first -= 1
        if self.chinese[1]:
            last = next(border for border in borders if border >= end)
        else:
            while last < len(sentence) and _is_letter(sentence[last]) and _is_letter(sentence[end - 1]):
                last += 1
        return sentence[first:last] if (first, last) != (start, end) else ""


def _is_letter(character: str) -> bool:
    """Whether it goes on with a word that is written with spaces around it."""
    return (character.isalnum() or character == "_") and unicodedata.east_asian_width(character) not in "WF"


class _EvenSample:
    """Some of very many, evenly: every n-th, where n doubles whenever more than enough are held."""

    def __init__(self, most: int) -> None:
        self.most, self.total, self.step = most, 0, 1
        self.held: list[Occurrence] = []

    def add(self, one: Occurrence) -> None:
        if self.total % self.step == 0:
            self.held.append(one)
        self.total += 1
        if len(self.held) > HELD * self.most:
            self.held, self.step = self.held[::2], 2 * self.step

    def all(self) -> tuple[Occurrence, ...]:
        places = np.linspace(0, len(self.held) - 1, min(self.most, len(self.held))).round().astype(int)
        return tuple(self.held[place] for place in places.tolist())
