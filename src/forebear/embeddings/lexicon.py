"""A table of words that can be asked: which words are near, how alike two are, which is the odd one, who is to whom."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from forebear.data.tokenizers.char_level import replace_surrogates
from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.embeddings.knn import (
    BLOCK_BYTES,
    COSINE_DIGITS,
    HNSWIndex,
    KNNResult,
    cosine_block,
    cosine_blocks,
    nearest_rows,
    row_norms,
    top_rows,
)
from forebear.embeddings.phrases import PhraseTable
from forebear.embeddings.word_table import WordVectors
from forebear.errors import InputError

# Words that are spelled like another: what a person may have meant who asks for one that is not there.


LOOKED_AT = 200_000  # words of a vocabulary, the first: they are the frequent ones, and the rest would take long
SLIPS = 2  # of the hand: a letter too few, too many, another, or two that changed places
SHORT = 4  # letters; of fewer, two slips leave hardly any
LONGEST = 40  # letters of what is a word
LEAST = 0.4  # of the pairs of letters that two words have, so many they must share


def spelling_suggestions(word: str, words: Sequence[str], most: int = 5) -> list[str]:
    """Those the fewest slips away, if they are one or two; or else those that share most pairs of neighbouring letters.

    Capitals aside; of equals the earlier, which are the more frequent, come first.
    """
    own = word.casefold()
    if not 0 < len(own) <= LONGEST:
        return []
    reach = SLIPS if len(own) >= SHORT else 1
    folded, lengths = _folded(tuple(words[:LOOKED_AT]))
    away = np.abs(lengths - len(own))
    near = np.flatnonzero((away <= reach) & (lengths > 0))
    slips = slips_between(own, [folded[number] for number in near.tolist()])
    fewest = int(slips.min(initial=LONGEST))
    if fewest <= min(reach, len(own) - 1):
        return [words[int(number)] for number in near[slips == fewest][:most]]
    near = np.flatnonzero((away <= max(1, len(own) // 3)) & (lengths > 0))
    shares = shares_of_pairs(own, [folded[number] for number in near.tolist()])
    order = np.argsort(-shares, kind="stable")[:most]
    return [words[int(number)] for number in near[order[shares[order] >= LEAST]]]


@lru_cache(maxsize=1)
def _folded(words: tuple[str, ...]) -> tuple[list[str], np.ndarray]:
    """Words without capitals, and how long they are; kept, as who has one slip may have many."""
    folded = [word.casefold() for word in words]
    return folded, np.fromiter(map(len, folded), np.int64, len(folded))


def slips_between(word: str, others: Sequence[str]) -> np.ndarray:
    """(N,) how many slips turn the word into each of the others (optimal string alignment), all of them at once."""
    letters = _letters(others)
    row = np.repeat(np.arange(len(letters) + 1, dtype=np.int8)[:, None], len(others), axis=1)
    before, known = row, {letter: letters == ord(letter) for letter in set(word)}
    for at, letter in enumerate(word):
        last, before, row = before, row, np.empty_like(row)
        row[0] = at + 1
        for to in range(len(letters)):
            row[to + 1] = np.minimum(np.minimum(before[to + 1], row[to]) + 1, before[to] + ~known[letter][to])
            if at and to:
                changed = known[word[at - 1]][to] & known[letter][to - 1]
                np.minimum(row[to + 1], last[to - 1] + 1, out=row[to + 1], where=changed)
    return row[[len(other) for other in others], np.arange(len(others))]


def shares_of_pairs(word: str, others: Sequence[str]) -> np.ndarray:
    """(N,) the share of neighbouring letters that the word has in common with each; borders are letters too."""
    own, letters = f"\0{word}\0", _letters(others)
    border = np.zeros((1, len(others)), np.uint32)
    letters = np.concatenate([border, letters, border])
    common = np.zeros(len(others), np.int64)
    for first, second in {own[at : at + 2] for at in range(len(own) - 1)}:
        common += ((letters[:-1] == ord(first)) & (letters[1:] == ord(second))).any(0)
    return 2 * common / (len(word) + 1 + np.fromiter(map(len, others), np.int64, len(others)) + 1)


def _letters(words: Sequence[str]) -> np.ndarray:
    """(L, N) the letters of each word, zeros where it has ended."""
    if not words:
        return np.zeros((0, 0), np.uint32)
    return np.ascontiguousarray(np.array(words).view(np.uint32).reshape(len(words), -1).T)


Cut = Callable[[str], Sequence[str]]
AnalogyMethod = Literal["add", "multiply"]
ONEHOT_NOTE = "one-hot vectors: any other word is equally far (cosine 0), which is why later milestones exist"
NOWHERE, ALONE = "its vector is all zeros, and near to nothing", "there is no other word"
SMALLEST = 1e-6  # what keeps 3CosMul from dividing by nothing (Levy and Goldberg 2014)


@dataclass(frozen=True, eq=False)
class LexiconMatch:
    """What a table knows of a text.

    vector  (D,)
    rows    those of its own words, which are no answers to anything asked about it
    note    how it was found, if not as it is written
    """

    text: str
    vector: np.ndarray
    rows: tuple[int, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class NeighborWord:
    """A word and how near it is; `count` is how often it was seen, where that is known.

    `cosine` is that with what was asked; of analogies whose cosines are multiplied, their product, which may exceed 1.
    """

    word: str
    cosine: float
    count: int | None

    def to_dict(self, name: str = "cosine") -> dict[str, Any]:
        return {"word": self.word, name: round(self.cosine, COSINE_DIGITS), "count": self.count}


@dataclass(frozen=True)
class WordNeighbors:
    """A word, or a text of several, and the words nearest to it."""

    text: str
    nearest: tuple[NeighborWord, ...]
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {"text": self.text, "note": self.note, "nearest": [one.to_dict() for one in self.nearest]}


@dataclass(frozen=True)
class Analogy:
    """`asked`: the first is to the second as the third is to the words found."""

    query: tuple[str, str, str]
    method: AnalogyMethod
    nearest: tuple[NeighborWord, ...]
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        told: dict[str, Any] = {"asked": list(self.query), "method": self.method, "notes": list(self.notes)}
        name = "cosine" if self.method == "add" else "score"
        return told | {"nearest": [one.to_dict(name) for one in self.nearest]}


class Lexicon:
    """Asks a table of words.

    cut   makes words of a text that is none; without it, white space does
    kept  says where an index of the words is kept
    """

    def __init__(self, table: WordVectors, cut: Cut = str.split, kept: Callable[[], Path] | None = None) -> None:
        self.table, self.cut, self._kept = table, cut, kept

    @cached_property
    def norms(self) -> np.ndarray:
        return row_norms(self.table.matrix)

    @property
    def is_onehot(self) -> bool:
        """Whether every word is as far from every other, so that none is near."""
        return not isinstance(self.table.matrix, np.ndarray)

    @cached_property
    def index(self) -> HNSWIndex:
        if self.is_onehot:
            hint = "leave --approximate out: exact search is as fast here"
            raise InputError("one-hot vectors are equally far from each other, and need no index", hint=hint)
        return HNSWIndex(self.table.matrix, None if self._kept is None else self._kept())

    @cached_property
    def _spellings(self) -> dict[str, int]:
        """The row of each word, and of those that differ in capitals alone the first, which is the most frequent."""
        found: dict[str, int] = {}
        for row, word in enumerate(self.table.words):
            found.setdefault(_spelled(word), row)
        return found

    def row_of(self, text: str) -> int | None:
        """The row of a word as it is written, in small letters, or with other capitals; that of a phrase whether there
        are spaces between its words or _, as other programs write them."""
        row = self.table.row_of(text)
        if row is not None or not (spelled := _spelled(text)):
            return row
        parted = (self.table.row_of(one) for one in (text.replace("_", " "), text.replace(" ", "_")))
        return next((found for found in parted if found is not None), self._spellings.get(spelled))

    def find(self, text: str) -> LexiconMatch:
        """The vector of a text: its own row, what its parts make of it, or the mean of its words."""
        words = [text] if self.row_of(text) is not None else list(self.cut(text))
        if not words:
            raise InputError(f"{text!r} has no words", hint="write at least one")
        if len(words) > 1:
            return self._mean(text, words)
        row = self.row_of(words[0])
        if row is None:
            return replace(self._composed(words[0]), text=text)
        name = self.table.words[row]
        return LexiconMatch(text, self._row(row), (row,), "" if name == text else f"as {name!r}")

    def _mean(self, text: str, words: list[str]) -> LexiconMatch:
        parts = [self._composed(word) if self.row_of(word) is None else self.find(word) for word in words]
        rows = tuple(dict.fromkeys(row for part in parts for row in part.rows))
        vector = np.mean([part.vector for part in parts], axis=0)
        return LexiconMatch(text, vector, rows, f"the mean of {len(words)} words: {', '.join(words)}")

    def _composed(self, word: str) -> LexiconMatch:
        made = None if self.table.compose is None else self.table.compose(word)
        if made is None:
            raise self._unknown(word)
        return LexiconMatch(word, made, (), "not in the vocabulary: from its parts")

    def _row(self, row: int) -> np.ndarray:
        return np.asarray(self.table.matrix[row], np.float32)

    def _unknown(self, word: str) -> InputError:
        near = spelling_suggestions(word, self.table.words)
        hint = f"did you mean: {', '.join(near)}?" if near else "ask for a word that the run has seen"
        parts = ", and none of its letter groups was seen" if self.table.compose is not None else ""
        what = f"no vector for {word!r}: it is not among {len(self.table.words):,} words{parts}"
        return InputError(what, hint=hint)

    def neighbors(self, texts: str | Sequence[str], top: int = 10, *, approximate: bool = False) -> list[WordNeighbors]:
        """The `top` words nearest to each text by cosine, its own words left out; none where none is nearer."""
        _positive(top)
        found = self.find_all([texts] if isinstance(texts, str) else texts)
        if not found:
            return []
        if self.is_onehot and not approximate:
            return [WordNeighbors(one.text, (), _noted(one, ONEHOT_NOTE)) for one in found]
        near = self._search(np.stack([one.vector for one in found]), top + _most_rows(found), approximate)
        made = []
        for one, rows, cosines in zip(found, near.rows, near.cosines, strict=True):
            told = self._named(rows, cosines, one.rows, top) if one.vector.any() else ()
            why = ALONE if one.vector.any() else NOWHERE
            made.append(WordNeighbors(one.text, told, one.note if told else _noted(one, why)))
        return made

    def find_all(self, texts: Sequence[str]) -> list[LexiconMatch]:
        """`find` for each; a complaint is about the text of its number, from 1."""
        found = []
        for number, text in enumerate(texts, 1):
            try:
                found.append(self.find(text))
            except InputError as error:
                error.line = number if len(texts) > 1 else None
                raise
        return found

    def analogy(
        self,
        first: str,
        second: str,
        third: str,
        *,
        top: int = 5,
        method: AnalogyMethod = "add",
        approximate: bool = False,
    ) -> Analogy:
        """What is to the third as the second is to the first; the three themselves are no answers.

        method  "add": the words nearest to second - first + third, each of length 1 (3CosAdd); "multiply": those whose
                cosines with the second and third, multiplied and divided by that with the first, are largest (3CosMul)
        """
        _positive(top)
        if method not in get_args(AnalogyMethod):
            raise InputError(f"method is {method!r}", hint=f"choose one of {', '.join(get_args(AnalogyMethod))}")
        asked = (first, second, third)
        found = self.find_all(asked)
        left_out = tuple(dict.fromkeys(row for one in found for row in one.rows))
        units = unit_rows(np.stack([one.vector for one in found]))
        if self.is_onehot and not approximate:
            return Analogy(asked, method, (), (*lexicon_notes(found), ONEHOT_NOTE))
        if method == "add":
            near = self._search((units[1] - units[0] + units[2])[None], top + len(left_out), approximate)
            rows, scores = near.rows[0], near.cosines[0]
        elif approximate:
            raise InputError("an index finds what is near a vector", hint="leave --approximate out, or --method add")
        else:
            rows, scores = self._multiplied(units, top + len(left_out))
        return Analogy(asked, method, self._named(rows, scores, left_out, top), lexicon_notes(found))

    def _multiplied(self, units: np.ndarray, top: int) -> tuple[np.ndarray, np.ndarray]:
        parts = (cosine_block(units, self.table.matrix, part, self.norms) for part in cosine_blocks(self.table.matrix))
        cosines = np.concatenate(list(parts), axis=1)
        scores = np.round(cos_mul(*cosines), COSINE_DIGITS)[None]
        rows, scores = top_rows(np.arange(scores.shape[1])[None], scores, min(top, scores.shape[1]))
        return rows[0], scores[0]

    def _search(self, vectors: np.ndarray, top: int, approximate: bool) -> KNNResult:
        if approximate:
            return self.index.search(vectors, top)
        return nearest_rows(vectors, self.table.matrix, top, self.norms)

    def _named(self, rows: np.ndarray, scores: np.ndarray, out: Sequence[int], top: int) -> tuple[NeighborWord, ...]:
        words, counts = self.table.words, self.table.counts
        made = []
        for row, score in zip(map(int, rows), scores.tolist(), strict=True):
            if row not in out:
                made.append(NeighborWord(words[row], score, None if counts is None else int(counts[row])))
        return tuple(made[:top])


def _spelled(text: str) -> str:
    return " ".join(text.casefold().replace("_", " ").split())


def cos_mul(first: np.ndarray, second: np.ndarray, third: np.ndarray) -> np.ndarray:
    """3CosMul of cosines with the three words that are asked about, moved to lie between 0 and 1."""
    return (1 + second) / 2 * ((1 + third) / 2) / ((1 + first) / 2 + SMALLEST)


def lexicon_notes(found: Sequence[LexiconMatch]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(f"{one.text!r}: {one.note}" for one in found if one.note))


def unit_rows(vectors: np.ndarray) -> np.ndarray:
    """Each row with length 1; a row of zeros stays one."""
    return vectors / row_norms(vectors)[:, None]


def _noted(found: LexiconMatch, more: str) -> str:
    return "; ".join(filter(None, (found.note, more)))


def _positive(top: int) -> None:
    if top < 1:
        raise InputError(f"--top is {top}", hint="ask for at least one word")


def _most_rows(found: Sequence[LexiconMatch]) -> int:
    return max(len(one.rows) for one in found)


# Very many analogies at once: the cosines of all words that are asked about with a block of words, each used often.


TOGETHER = 128  # analogies whose scores of a block are in memory at once
WIDE = 2048  # words of a block, at most


def solve_analogies(
    lexicon: Lexicon, order: np.ndarray, asked: np.ndarray, method: AnalogyMethod = "add"
) -> np.ndarray:
    """(Q,) the best answer to each analogy a : b = c : ?, by its place in `order`; of equals the first.

    order  (V,) rows of the table that may answer
    asked  (Q, 3 or more) places in it: a, b, c; they are no answers
    """
    matrix = lexicon.table.matrix
    words, which = np.unique(asked[:, :3], return_inverse=True)
    which = which.reshape(-1, 3)
    units = unit_rows(np.asarray(matrix[order[words]], np.float32))
    best, found = np.full(len(asked), -np.inf, np.float32), np.full(len(asked), -1, np.int64)
    wide = max(1, min(WIDE, BLOCK_BYTES // matrix.shape[1]))
    for at in range(0, len(order) if len(asked) else 0, wide):
        cosines = cosine_block(units, matrix, order[at : at + wide], lexicon.norms)
        for begin in range(0, len(asked), TOGETHER):
            here = slice(begin, begin + TOGETHER)
            a, b, c = (cosines[which[here, part]] for part in range(3))
            scores = cos_mul(a, b, c) if method == "multiply" else b - a + c
            lines, part = np.nonzero((asked[here, :3] >= at) & (asked[here, :3] < at + wide))
            scores[lines, asked[here][lines, part] - at] = -np.inf
            places = scores.argmax(1)
            largest = scores[np.arange(len(scores)), places]
            better = largest > best[here]
            best[here][better], found[here][better] = largest[better], places[better] + at
    return found


# Texts as rows of a table of words: cut by the tokenizer, phrases joined, words it lacks looked up or composed.


NO_WORD = -1  # the row of a word that has no vector
_LOCK = threading.Lock()  # of vectors that are composed
Spans = list[tuple[int, int]]


@dataclass(frozen=True)
class WordMatches:
    """The words of some texts: their rows one text after the other, how many each text has, and where they stand."""

    rows: np.ndarray
    counts: np.ndarray
    spans: list[Spans] | None = None

    def text_ids(self) -> np.ndarray:
        return np.repeat(np.arange(len(self.counts)), self.counts)


class WordMatcher:
    """Finds the words of texts in a table.

    phrases  which words are one (new york), where the table has rows for such
    """

    def __init__(self, table: WordVectors, tokenizer: Tokenizer, phrases: PhraseTable | None = None) -> None:
        self.table, self.tokenizer, self.phrases = table, tokenizer, phrases
        self.more: list[np.ndarray] = []  # vectors of words that were composed; their rows come after the table's
        self._composed: dict[str, int] = {}

    def find_words(self, text: str) -> list[str]:
        """The words of one text: as the vocabulary spells them, or as they are written where it lacks them."""
        text = replace_surrogates(text)
        pieces = self.tokenizer.encode(text)
        ids, _ = self._joined(pieces.ids, np.array([len(pieces.ids)]))
        firsts = np.cumsum(self._sizes[ids]) - self._sizes[ids]
        told = zip(ids.tolist(), firsts.tolist(), strict=True)
        return [
            self._names[i] if i != self.tokenizer.unk_id else text[slice(*pieces.spans[first])] for i, first in told
        ]

    def match_words(self, texts: Sequence[str], *, spans: bool = False) -> WordMatches:
        """The words of all texts; those that the tokenizer lacks are looked up as they are written."""
        texts = [replace_surrogates(text) for text in texts]
        pieces, cut = self.tokenizer.encode_many(texts)
        ids, counts = self._joined(pieces, cut.astype(np.int64))
        rows, sizes = self._rows[ids], self._sizes[ids]
        ends = np.cumsum(counts)
        lacking = np.zeros(len(texts), bool)
        lacking[np.repeat(np.arange(len(texts)), counts)[rows == NO_WORD]] = True
        places: list[Spans] = [[] for _ in texts]
        for number in range(len(texts)) if spans else np.flatnonzero(lacking).tolist():
            text, here = texts[number], slice(int(ends[number] - counts[number]), int(ends[number]))
            own = places[number] = self._places(text, sizes[here])
            for at in np.flatnonzero(rows[here] == NO_WORD).tolist():
                rows[here.start + at] = self._row(text[slice(*own[at])])
        return WordMatches(rows, counts, places if spans else None)

    def _joined(self, ids: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return (ids, counts) if self.phrases is None else self.phrases.join(ids, counts)

    def _places(self, text: str, sizes: np.ndarray) -> Spans:
        """Where words stand that are so many tokens each."""
        spans, ends = self.tokenizer.encode(text).spans, np.cumsum(sizes)
        told = zip(ends.tolist(), sizes.tolist(), strict=True)
        return [(spans[end - size][0], spans[end - 1][1]) for end, size in told]

    @cached_property
    def _names(self) -> list[str]:
        """Of all ids: tokens, then phrases."""
        tokens = self.tokenizer.vocabulary()
        return tokens if self.phrases is None else [*tokens, *self.phrases.phrase_names(tokens)]

    @cached_property
    def _rows(self) -> np.ndarray:
        """The row of each id."""
        return np.array([self.table.rows.get(name, NO_WORD) for name in self._names], np.int64)

    @cached_property
    def _sizes(self) -> np.ndarray:
        """How many tokens each id stands for."""
        made = [1] * self.tokenizer.vocab_size
        for first, second in [] if self.phrases is None else self.phrases.pairs.tolist():
            made.append(made[first] + made[second])
        return np.array(made, np.int64)

    def _row(self, word: str) -> int:
        """A word that is no token: written otherwise, or composed once and kept."""
        row = self.table.row_of(word)
        if row is not None or self.table.compose is None:
            return NO_WORD if row is None else row
        with _LOCK:
            if word not in self._composed:
                made, row = self.table.compose(word), NO_WORD
                if made is not None:
                    row = len(self.table.words) + len(self.more)
                    self.more.append(np.asarray(made, np.float32))
                self._composed[word] = row  # last, so that an interrupt leaves no row without its vector
            return self._composed[word]
