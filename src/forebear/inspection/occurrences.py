"""Occurrences of a word in texts: whole words (segmented in Chinese), each with its sentence."""

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

from forebear.data.io.sources import find_sources
from forebear.data.io.text_formats import TextFormat
from forebear.data.io.text_ledger import Ledger
from forebear.data.segmentation import Segmenter, has_han
from forebear.data.sentences import SentenceMode, sentence_ends
from forebear.data.unicode import replace_surrogates
from forebear.errors import InputError

OVERSAMPLING = 16  # occurrences held per sampled one, so that the sample can be evenly spaced
NUM_LISTED_WORDS = 6  # longer words named in a message
MAX_LONGER_WORDS = 1000  # distinct longer words that are counted


@dataclass(frozen=True)
class SenseText:
    """A text with its location and the word's gold sense, if known.

    is_record  the text is one record of its file, even if it contains newlines
    """

    text: str
    file: str | None = None
    line: int | None = None
    sense: str | None = None
    is_record: bool = False


@dataclass(frozen=True)
class Occurrence:
    """A word in its sentence: sentence[start:end]."""

    sentence: str
    start: int
    end: int
    file: str | None = None
    line: int | None = None
    sense: str | None = None

    @property
    def surface(self) -> str:
        return self.sentence[self.start : self.end]

    @property
    def before(self) -> str:
        return self.sentence[: self.start]

    @property
    def after(self) -> str:
        return self.sentence[self.end :]

    def to_dict(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "sense" or value is not None}


@dataclass(frozen=True)
class OccurrenceSample:
    """A sample of the occurrences of a word.

    occurrences   evenly spaced
    total         number of all occurrences, each sentence counted once
    num_repeated  number of further occurrences in duplicate sentences
    longer_words  longer words that contain the word, with counts
    """

    word: str
    occurrences: tuple[Occurrence, ...]
    total: int
    num_repeated: int
    longer_words: Counter[str]

    def notes(self) -> Iterator[str]:
        if len(self.occurrences) < self.total:
            yield f"{len(self.occurrences):,} of {self.total:,} occurrences were taken, evenly from all (--most)"
        if self.num_repeated:
            yield f"{self.num_repeated:,} more are in sentences that were there before: each counts once"
        if self.longer_words:
            yield f"not counted, as it is a part of another word: {_list_words(self.longer_words)}"


def _list_words(counts: Counter[str]) -> str:
    listing = ", ".join(f"{word} ({count:,})" for word, count in counts.most_common(NUM_LISTED_WORDS))
    return listing + " …" * (len(counts) > NUM_LISTED_WORDS)


def read_sense_texts(paths: Sequence[str | os.PathLike[str]], reading: TextFormat) -> Iterator[SenseText]:
    """Read the documents of files, as `pretrain` does."""
    ledger = Ledger()
    for document in reading.documents_in(find_sources(paths, ledger), ledger):
        yield SenseText(document.text, document.file, document.line, is_record=document.is_record)


def read_labeled_sense_texts(paths: Sequence[str | os.PathLike[str]], reading: TextFormat) -> Iterator[SenseText]:
    """Read files with a gold sense, a tab and a sentence on each line."""
    for text in read_sense_texts(paths, replace(reading, documents="lines", format="text")):
        sense, tab, sentence = text.text.partition("\t")
        if not tab or not sense.strip():
            hint = "write the meaning, a tab and the sentence on each line, or leave --senses out"
            raise InputError("this line has no meaning before a tab", file=text.file, line=text.line, hint=hint)
        yield replace(text, text=sentence.strip(), sense=sense.strip())


def find_occurrences(
    word: str, texts: Iterable[SenseText], *, max_occurrences: int, sentences: SentenceMode = "split"
) -> OccurrenceSample:
    """Find the word, ignoring case; an evenly spaced sample if there are many occurrences."""
    if max_occurrences < 1:
        raise InputError(f"--most is {max_occurrences}", hint="ask for at least 1 occurrence")
    finder = _OccurrenceFinder(word, sentences)
    sample, seen_keys, num_repeated = _EvenSample(max_occurrences), set[int](), 0
    for text in texts:
        for occurrence in finder.find_in(replace(text, text=replace_surrogates(text.text))):
            key = hash((occurrence.sentence, occurrence.start, occurrence.sense))
            num_repeated += key in seen_keys
            if key not in seen_keys:
                seen_keys.add(key)
                sample.add(occurrence)
    if not sample.total:
        if finder.longer_words:
            message = f"{word!r} never stands by itself: it is a part of {_list_words(finder.longer_words)}"
            raise InputError(message, hint="ask for one of these")
        raise InputError(f"no sentence has the word {word!r}", hint="ask for a word of the text, or give more text")
    return OccurrenceSample(word, sample.items(), sample.total, num_repeated, finder.longer_words)


class _OccurrenceFinder:
    """Finds a word in texts: no letter may touch it, and at a Chinese character there must be a word boundary.

    和服 is not found in 产品和服务, nor 打 in 打算; but 黄牛 is found where the segmenter splits it into 黄 and 牛.
    """

    def __init__(self, word: str, sentences: SentenceMode) -> None:
        words = replace_surrogates(word).split()
        if not words:
            raise InputError("the word is empty", hint="name a word, such as bank")
        self.pattern = re.compile(r"\s+".join(map(re.escape, words)), re.IGNORECASE)
        self.sentences: SentenceMode = sentences
        self.starts_chinese, self.ends_chinese = has_han(words[0][0]), has_han(words[-1][-1])
        self.longer_words: Counter[str] = Counter()
        self.segmenter = Segmenter()

    def find_in(self, text: SenseText) -> Iterator[Occurrence]:
        if self.pattern.search(text.text) is None:
            return
        ends = sentence_ends(text.text, self.sentences)
        current_index, line, line_position = -1, text.line, 0
        sentence, sentence_start, word_ends = "", 0, list[int]()
        for match in self.pattern.finditer(text.text):
            sentence_index = bisect_right(ends, match.start())
            if match.end() > ends[sentence_index]:  # crosses a sentence boundary
                continue
            if sentence_index != current_index:
                current_index, sentence_start = sentence_index, ends[sentence_index - 1] if sentence_index else 0
                raw_sentence = text.text[sentence_start : ends[sentence_index]]
                sentence = raw_sentence.strip()
                sentence_start = sentence_start + len(raw_sentence) - len(raw_sentence.lstrip())
                word_ends = [0, *self.segmenter.word_ends(sentence)] if self.starts_chinese or self.ends_chinese else []
                if line is not None and not text.is_record:
                    line, line_position = line + text.text.count("\n", line_position, sentence_start), sentence_start
            start, end = match.start() - sentence_start, match.end() - sentence_start
            if longer_word := self._longer_word(sentence, start, end, word_ends):
                if longer_word in self.longer_words or len(self.longer_words) < MAX_LONGER_WORDS:
                    self.longer_words[longer_word] += 1
            else:
                yield Occurrence(sentence, start, end, text.file, line, text.sense)

    def _longer_word(self, sentence: str, start: int, end: int, boundaries: Sequence[int]) -> str:
        """The longer word that contains this one, or ""."""
        word_start, word_end = start, end
        if self.starts_chinese:
            word_start = boundaries[bisect_right(boundaries, start) - 1]
        else:
            while word_start and _is_letter(sentence[word_start - 1]) and _is_letter(sentence[start]):
                word_start -= 1
        if self.ends_chinese:
            word_end = next(boundary for boundary in boundaries if boundary >= end)
        else:
            while word_end < len(sentence) and _is_letter(sentence[word_end]) and _is_letter(sentence[end - 1]):
                word_end += 1
        return sentence[word_start:word_end] if (word_start, word_end) != (start, end) else ""


def _is_letter(character: str) -> bool:
    """Whether the character belongs to words separated by spaces."""
    return (character.isalnum() or character == "_") and unicodedata.east_asian_width(character) not in "WF"


class _EvenSample:
    """An evenly spaced sample of a stream: every n-th item, where n doubles whenever too many are held."""

    def __init__(self, max_size: int) -> None:
        self.max_items, self.total, self.step = max_size, 0, 1
        self.held_items: list[Occurrence] = []

    def add(self, occurrence: Occurrence) -> None:
        if self.total % self.step == 0:
            self.held_items.append(occurrence)
        self.total += 1
        if len(self.held_items) > OVERSAMPLING * self.max_items:
            self.held_items, self.step = self.held_items[::2], 2 * self.step

    def items(self) -> tuple[Occurrence, ...]:
        num_held = len(self.held_items)
        indices = np.linspace(0, num_held - 1, min(self.max_items, num_held)).round().astype(int)
        return tuple(self.held_items[index] for index in indices.tolist())
