"""Entities: names of people, places and organizations, from a dictionary or from tags, as flags of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING

import numpy as np

from forebear.data.io.document import Document
from forebear.data.segmentation import DictionaryMatcher, dictionary_digest, read_dictionary
from forebear.data.tokenizers.offsets import flatten_ints, text_lengths, without_overlap

if TYPE_CHECKING:
    from forebear.data.tokenizers.tokenizer import EncodedBatch

NONE, ENTITY_BEGIN, ENTITY_INSIDE = 0, 1, 2  # flags: token outside of entities, first token of one, other token of one
# Prefixes of the tags of people, places, organizations and other proper names; subtypes have more letters (nrf, nsf).
ENTITY_TAGS = frozenset(("nr", "ns", "nt", "nz"))
# All surnames of two characters in the People's Daily of January 1998, and other frequent ones.
SURNAMES = frozenset(
    "欧阳 司马 司徒 诸葛 上官 皇甫 令狐 南宫 东方 尉迟 慕容 夏侯 公孙 长孙 宇文 端木 轩辕 申屠 澹台 赫连 呼延 拓跋 "
    "鲜于 西门 东郭 闻人 钟离 百里 万俟 濮阳 淳于 独孤 太史 司空 第五".split()
)


@dataclass(frozen=True)
class EntityDictionary:
    """A dictionary of entity names, matched from left to right, the longest one at each position."""

    entries: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "entries", tuple(sorted(set(self.entries))))

    def __reduce__(self):  # the matcher is built again in each process
        return type(self), (self.entries,)

    @classmethod
    def from_file(cls, path: str | PathLike[str]) -> EntityDictionary:
        """Read a file with one name per line, optionally with frequency and tag, as in a user dictionary."""
        return cls(tuple(read_dictionary(path)))

    def describe(self) -> dict[str, str | int]:
        """The digest and size, to be stored with text in which entities were matched."""
        return {"dictionary": dictionary_digest(self.entries), "names": len(self.entries)}

    def find(self, sentences: Sequence[str]) -> np.ndarray:
        """(entities, 2) start and end of matches in all sentences, joined by one separator character."""
        # Names contain no line end, so that no match spans two sentences.
        return flatten_ints(self._matcher.find("\n".join(sentences))).reshape(-1, 2)

    @cached_property
    def _matcher(self) -> DictionaryMatcher:
        return DictionaryMatcher(self.entries)


class EntityCollector:
    """Collects entities from the tags of consecutive words.

    The People's Daily tags surname and given name separately, 江/nr 泽民/nr, and lists authors without a separator,
    赵/nr 志文/nr 王/nr 桦/nr. So a surname is joined with one following word tagged as person: a single character and
    SURNAMES are surnames; a longer word is a given name or a full name. A compound, [中央/n 电台/n]nt, is one entity if
    its tag is an entity tag; otherwise the entities inside it remain.
    """

    def __init__(self) -> None:
        self.spans: list[tuple[int, int]] = []
        self.compound_start = -1  # start of the open compound
        self._surname = -1  # end of a surname without its given name

    def open_compound(self, start: int) -> None:
        """Open a compound, which ends a person's name."""
        self.compound_start, self._surname = start, -1

    def close_compound(self) -> None:
        """Close the open compound without an entity, and end a person's name, as at the end of a line."""
        self.compound_start = self._surname = -1

    def add_word(self, word: str, tag: str, start: int, end: int) -> None:
        """Add a word with its tag, which may close a compound (`n]nt`), and its start and end."""
        word_tag, _, compound_tag = tag.partition("]")
        entity_tag = word_tag[:2]
        if entity_tag == "nr" and start == self._surname:
            self.spans[-1] = (self.spans[-1][0], end)
        elif entity_tag in ENTITY_TAGS:
            self.spans.append((start, end))
            if entity_tag == "nr" and (len(word) == 1 or word in SURNAMES):
                self._surname = end
        if self.compound_start >= 0 and compound_tag[:2] in ENTITY_TAGS:
            while self.spans and self.spans[-1][0] >= self.compound_start:
                self.spans.pop()
            self.spans.append((self.compound_start, end))
        if compound_tag:
            self.close_compound()


def tagged_entities(documents: Sequence[Document], sentences: Sequence[str]) -> np.ndarray:
    """(entities, 2) entities marked in the source, with the same offsets as `EntityDictionary.find`.

    `sentences` are those of the documents. An entity that spans two sentences is dropped.
    """
    starts = np.cumsum(lengths := text_lengths([document.text for document in documents])) - lengths
    with_starts = zip(documents, starts.tolist(), strict=True)
    bounds = ((start + a, start + b) for document, start in with_starts for a, b in document.entity_spans or ())
    spans = flatten_ints(bounds).reshape(-1, 2)
    ends = np.cumsum(text_lengths(sentences))
    sentence_ids = np.searchsorted(ends, spans[:, 0], side="right")
    is_complete = spans[:, 1] <= ends[sentence_ids]
    return (spans + sentence_ids[:, np.newaxis])[is_complete]


def entity_flags(tokens: EncodedBatch, tagged: np.ndarray, dictionary_matches: np.ndarray) -> np.ndarray:
    """(tokens,) NONE, ENTITY_BEGIN or ENTITY_INSIDE, from entities marked in the source and dictionary matches.

    An entity is extended to whole words. A dictionary match that shares a word with a marked entity is dropped; of two
    matches that share a word, the first is kept.
    """
    assert tokens.is_word_start is not None
    word_ids = np.cumsum(tokens.is_word_start) - 1
    num_words = int(tokens.is_word_start.sum())
    tagged = _entity_words(tokens, word_ids, tagged)
    dictionary_matches = _entity_words(tokens, word_ids, dictionary_matches)
    num_covered = np.concatenate(([0], np.cumsum(_span_mask(tagged, num_words))))
    is_free = num_covered[dictionary_matches[:, 1]] == num_covered[dictionary_matches[:, 0]]
    candidates = np.concatenate((tagged, dictionary_matches[is_free]))
    entities = without_overlap(candidates[np.argsort(candidates[:, 0], kind="stable")])
    entities = entities[entities[:, 0] < entities[:, 1]]
    flags = np.where(_span_mask(entities, num_words), ENTITY_INSIDE, NONE).astype(np.uint8)[word_ids]
    flags[np.flatnonzero(tokens.is_word_start)[entities[:, 0]]] = ENTITY_BEGIN
    return flags


def _entity_words(tokens: EncodedBatch, word_ids: np.ndarray, spans: np.ndarray) -> np.ndarray:
    """(entities, 2) the first word of each and the one after its last; entities without tokens are dropped."""
    first_token = np.searchsorted(np.maximum.accumulate(tokens.last_offsets), spans[:, 0])
    end_token = np.searchsorted(np.maximum.accumulate(tokens.first_offsets), spans[:, 1])
    has_tokens = first_token < end_token
    return np.stack((word_ids[first_token[has_tokens]], word_ids[end_token[has_tokens] - 1] + 1), axis=1)


def _span_mask(spans: np.ndarray, count: int) -> np.ndarray:
    """(count,) True inside a span."""
    steps = np.bincount(spans[:, 0], minlength=count + 1) - np.bincount(spans[:, 1], minlength=count + 1)
    return np.cumsum(steps)[:count] > 0
