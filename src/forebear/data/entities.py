"""Entities: names of persons, places and organisations, which a dictionary or a text's own tags tell, as tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING

import numpy as np

from forebear.data.io.documents import Document
from forebear.data.segmentation import DictionaryMatcher, dictionary_digest, read_dictionary
from forebear.data.tokenizers.offsets import flatten_ints, text_lengths, without_overlap

if TYPE_CHECKING:
    from forebear.data.tokenizers.tokenizer import EncodedBatch

NONE, ENTITY_BEGIN, GOES_ON = 0, 1, 2  # what a token is: of no entity, the first of one, or a further one of it
# How tags of persons, places, organisations and other proper names begin; further letters only tell more (nrf, nsf).
ENTITY_TAGS = frozenset(("nr", "ns", "nt", "nz"))
# All surnames of two characters that the People's Daily of January 1998 has, and others that are not rare.
SURNAMES = frozenset(
    "欧阳 司马 司徒 诸葛 上官 皇甫 令狐 南宫 东方 尉迟 慕容 夏侯 公孙 长孙 宇文 端木 轩辕 申屠 澹台 赫连 呼延 拓跋 "
    "鲜于 西门 东郭 闻人 钟离 百里 万俟 濮阳 淳于 独孤 太史 司空 第五".split()
)


@dataclass(frozen=True)
class EntityDictionary:
    """A dictionary of names, found as a segmenter finds its own words: from left to right, the longest at a place."""

    entries: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "entries", tuple(sorted(set(self.entries))))

    def __reduce__(self):  # what is made from the names is made again in each process
        return type(self), (self.entries,)

    @classmethod
    def from_file(cls, path: str | PathLike[str]) -> EntityDictionary:
        """The names of a file, one a line; a frequency and a tag may follow, as in a dictionary of words."""
        return cls(tuple(read_dictionary(path)))

    def describe(self) -> dict[str, str | int]:
        """What must be equal for two dictionaries to find the same, to be stored with what they found."""
        return {"dictionary": dictionary_digest(self.entries), "names": len(self.entries)}

    def find(self, sentences: Sequence[str]) -> np.ndarray:
        """(entities, 2) where names begin and end, as places in all sentences, where one more character follows each.

        No name has a line end, so that none is found across two sentences.
        """
        return flatten_ints(self._finder.find("\n".join(sentences))).reshape(-1, 2)

    @cached_property
    def _finder(self) -> DictionaryMatcher:
        return DictionaryMatcher(self.entries)


class EntityCollector:
    """The entities that tags tell, while words come in, one after the other; those of other KINDS may be left out.

    People's Daily writes a person as surname and given name, 江/nr 泽民/nr, and authors without anything between them,
    赵/nr 志文/nr 王/nr 桦/nr. So a surname takes in one word of a person after it: one character is a surname, and so
    are SURNAMES; a longer word is a given name or a whole one. A compound, [中央/n 电台/n]nt, is one entity if its own
    tag says so, and else leaves those inside it.
    """

    def __init__(self) -> None:
        self.spans: list[tuple[int, int]] = []
        self.opened = -1  # where the compound at hand begins
        self._surname = -1  # where a surname ends that waits for its given name

    def begin_entity(self, start: int) -> None:
        """A compound begins here. As at its end, and at the end of a line, no name goes on."""
        self.opened, self._surname = start, -1

    def shut(self) -> None:
        """No compound is open any more."""
        self.opened = self._surname = -1

    def add_word(self, word: str, tag: str, start: int, end: int) -> None:
        """A word, its tag, which may close a compound (`n]nt`), and where it begins and ends."""
        own, _, compound = tag.partition("]")
        kind = own[:2]
        if kind == "nr" and start == self._surname:
            self.spans[-1] = (self.spans[-1][0], end)
        elif kind in ENTITY_TAGS:
            self.spans.append((start, end))
            if kind == "nr" and (len(word) == 1 or word in SURNAMES):
                self._surname = end
        if compound:
            self._close(compound[:2], end)

    def _close(self, kind: str, end: int) -> None:
        if self.opened >= 0 and kind in ENTITY_TAGS:
            while self.spans and self.spans[-1][0] >= self.opened:
                self.spans.pop()
            self.spans.append((self.opened, end))
        self.shut()


def tagged_entities(documents: Sequence[Document], sentences: Sequence[str]) -> np.ndarray:
    """(entities, 2) those that the source tells, as places like those of `Names.find`. `sentences` are the documents'.

    One that the end of a sentence cuts in two is none.
    """
    begins = np.cumsum(lengths := text_lengths([document.text for document in documents])) - lengths
    told = zip(documents, begins.tolist(), strict=True)
    spans = flatten_ints(
        (begin + a, begin + b) for document, begin in told for a, b in document.entities or ()
    ).reshape(-1, 2)
    ends = np.cumsum(text_lengths(sentences))
    sentence = np.searchsorted(ends, spans[:, 0], side="right")
    whole = spans[:, 1] <= ends[sentence]
    return (spans + sentence[:, np.newaxis])[whole]


def entity_flags(tokens: EncodedBatch, told: np.ndarray, named: np.ndarray) -> np.ndarray:
    """(tokens,) NONE, BEGINS or GOES_ON, from the places that the source tells and those of a dictionary's names.

    An entity has every word, whole, of which a token stands for one of its characters. A name that shares a word with
    what the source tells is left out; of two that share one, the first has it.
    """
    assert tokens.starts is not None
    word = np.cumsum(tokens.starts) - 1
    count = int(tokens.starts.sum())
    told, named = _words_of(tokens, word, told), _words_of(tokens, word, named)
    taken = np.concatenate(([0], np.cumsum(_covered(told, count))))
    named = named[taken[named[:, 1]] == taken[named[:, 0]]]
    every = np.concatenate((told, named))
    entities = without_overlap(every[np.argsort(every[:, 0], kind="stable")])
    entities = entities[entities[:, 0] < entities[:, 1]]
    made = np.where(_covered(entities, count), GOES_ON, NONE).astype(np.uint8)[word]
    made[np.flatnonzero(tokens.starts)[entities[:, 0]]] = ENTITY_BEGIN
    return made


def _words_of(tokens: EncodedBatch, word: np.ndarray, places: np.ndarray) -> np.ndarray:
    """(entities, 2) the first word of each and the one after its last; those without any token are left out."""
    assert tokens.first is not None
    assert tokens.last is not None
    begin = np.searchsorted(np.maximum.accumulate(tokens.last), places[:, 0])
    end = np.searchsorted(np.maximum.accumulate(tokens.first), places[:, 1])
    heard = begin < end
    return np.stack((word[begin[heard]], word[end[heard] - 1] + 1), axis=1)


def _covered(spans: np.ndarray, count: int) -> np.ndarray:
    """(count,) True for what lies in a span."""
    steps = np.bincount(spans[:, 0], minlength=count + 1) - np.bincount(spans[:, 1], minlength=count + 1)
    return np.cumsum(steps)[:count] > 0
