"""Queries on word vectors: neighbors, analogies, spelling suggestions, and vectors of the words of texts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, Literal, TypedDict, get_args

import numpy as np

from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.data.unicode import replace_surrogates
from forebear.embeddings.knn import (
    COSINE_DIGITS,
    VALUES_PER_BLOCK,
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
from forebear.errors import InputError, require_choice
from forebear.numerics import unit_rows

# --- Spelling suggestions ---

SUGGESTION_WORDS = 200_000  # most frequent words searched; more would be slow
MAX_EDITS = 2  # insertions, deletions, substitutions, transpositions
SHORT_WORD = 4  # letters; in shorter words only one edit is allowed
MAX_WORD_LENGTH = 40  # letters
MIN_SHARED_PAIRS = 0.4  # minimum similarity of letter bigrams


def spelling_suggestions(word: str, words: Sequence[str], limit: int = 5) -> list[str]:
    """Words at the smallest edit distance, if it is one or two; otherwise words that share most letter bigrams.

    Case is ignored; ties keep their order, which is by frequency.
    """
    folded_word = word.casefold()
    if not 0 < len(folded_word) <= MAX_WORD_LENGTH:
        return []
    max_edits = MAX_EDITS if len(folded_word) >= SHORT_WORD else 1
    folded, lengths = _casefold_words(tuple(words[:SUGGESTION_WORDS]))
    length_differences = np.abs(lengths - len(folded_word))
    candidates = np.flatnonzero((length_differences <= max_edits) & (lengths > 0))
    edits = edit_distances(folded_word, [folded[index] for index in candidates.tolist()])
    min_edits = int(edits.min(initial=MAX_WORD_LENGTH))
    if min_edits <= min(max_edits, len(folded_word) - 1):
        return [words[int(index)] for index in candidates[edits == min_edits][:limit]]
    candidates = np.flatnonzero((length_differences <= max(1, len(folded_word) // 3)) & (lengths > 0))
    similarities = bigram_similarities(folded_word, [folded[index] for index in candidates.tolist()])
    order = np.argsort(-similarities, kind="stable")[:limit]
    return [words[int(index)] for index in candidates[order[similarities[order] >= MIN_SHARED_PAIRS]]]


@lru_cache(maxsize=1)
def _casefold_words(words: tuple[str, ...]) -> tuple[list[str], np.ndarray]:
    """Casefolded words and their lengths; cached for repeated queries."""
    folded = [word.casefold() for word in words]
    return folded, np.fromiter(map(len, folded), np.int64, len(folded))


def edit_distances(word: str, others: Sequence[str]) -> np.ndarray:
    """(N,) edit distance of the word to each of the others (optimal string alignment), vectorized."""
    letters = _letter_matrix(others)
    row = np.repeat(np.arange(len(letters) + 1, dtype=np.int8)[:, None], len(others), axis=1)
    previous, matches = row, {letter: letters == ord(letter) for letter in set(word)}
    for row_index, letter in enumerate(word):
        second_last, previous, row = previous, row, np.empty_like(row)
        row[0] = row_index + 1
        for column in range(len(letters)):
            row[column + 1] = np.minimum(
                np.minimum(previous[column + 1], row[column]) + 1, previous[column] + ~matches[letter][column]
            )
            if row_index and column:
                is_transposed = matches[word[row_index - 1]][column] & matches[letter][column - 1]
                np.minimum(row[column + 1], second_last[column - 1] + 1, out=row[column + 1], where=is_transposed)
    return row[[len(other) for other in others], np.arange(len(others))]


def bigram_similarities(word: str, others: Sequence[str]) -> np.ndarray:
    """(N,) Dice similarity of letter bigrams with each of the others, word boundaries included."""
    bounded, letter_rows = f"\0{word}\0", _letter_matrix(others)
    boundary = np.zeros((1, len(others)), np.uint32)
    letter_rows = np.concatenate([boundary, letter_rows, boundary])
    common = np.zeros(len(others), np.int64)
    for first, second in {bounded[start : start + 2] for start in range(len(bounded) - 1)}:
        common += ((letter_rows[:-1] == ord(first)) & (letter_rows[1:] == ord(second))).any(0)
    return 2 * common / (len(word) + 1 + np.fromiter(map(len, others), np.int64, len(others)) + 1)


def _letter_matrix(words: Sequence[str]) -> np.ndarray:
    """(L, N) code points of each word, zero-padded."""
    if not words:
        return np.zeros((0, 0), np.uint32)
    return np.ascontiguousarray(np.array(words).view(np.uint32).reshape(len(words), -1).T)


# --- Lexicon ---

SplitWords = Callable[[str], Sequence[str]]
AnalogyMethod = Literal["add", "multiply"]


class AnalogyOptions(TypedDict, total=False):
    """Options of `Lexicon.analogy`."""

    top: int
    method: AnalogyMethod
    approximate: bool


ONEHOT_NOTE = "one-hot vectors: any other word is equally far (cosine 0), which is why later milestones exist"
ZERO_VECTOR_NOTE, NO_OTHER_WORD_NOTE = "its vector is all zeros, and near to nothing", "there is no other word"
COSMUL_EPSILON = 1e-6  # avoids division by zero in 3CosMul (Levy and Goldberg 2014)


@dataclass(frozen=True, eq=False)
class LexiconMatch:
    """The vector of a query text.

    vector  (D,)
    rows    rows of its own words, which are excluded from answers
    note    how it was matched, if not as written
    """

    text: str
    vector: np.ndarray
    rows: tuple[int, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class NeighborWord:
    """A word, its cosine with the query (or its 3CosMul score, which may exceed 1), and its count if known."""

    word: str
    cosine: float
    count: int | None

    def to_dict(self, name: str = "cosine") -> dict[str, Any]:
        return {"word": self.word, name: round(self.cosine, COSINE_DIGITS), "count": self.count}


@dataclass(frozen=True)
class WordNeighbors:
    """A word or text, and its nearest words."""

    text: str
    nearest: tuple[NeighborWord, ...]
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {"text": self.text, "note": self.note, "nearest": [neighbor.to_dict() for neighbor in self.nearest]}


@dataclass(frozen=True)
class Analogy:
    """Answers to the analogy `query` (a, b, c): words d such that a : b = c : d."""

    query: tuple[str, ...]
    method: AnalogyMethod
    nearest: tuple[NeighborWord, ...]
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        result: dict[str, Any] = {"asked": list(self.query), "method": self.method, "notes": list(self.notes)}
        name = "cosine" if self.method == "add" else "score"
        return result | {"nearest": [neighbor.to_dict(name) for neighbor in self.nearest]}


class Lexicon:
    """Queries on a table of word vectors.

    split       splits a text into words; default: at whitespace
    index_path  returns the path where the search index is cached
    """

    def __init__(
        self, table: WordVectors, split: SplitWords = str.split, index_path: Callable[[], Path] | None = None
    ) -> None:
        self.table, self.split_words, self._index_path = table, split, index_path

    @cached_property
    def norms(self) -> np.ndarray:
        return row_norms(self.table.matrix)

    @property
    def is_onehot(self) -> bool:
        """Whether vectors are one-hot, so that all words are equally far apart."""
        return not isinstance(self.table.matrix, np.ndarray)

    @cached_property
    def index(self) -> HNSWIndex:
        if self.is_onehot:
            hint = "leave --approximate out: exact search is as fast here"
            raise InputError("one-hot vectors are equally far from each other, and need no index", hint=hint)
        return HNSWIndex(self.table.matrix, None if self._index_path is None else self._index_path())

    @cached_property
    def _row_by_spelling(self) -> dict[str, int]:
        """The row of each normalized spelling; of words that differ only in case, the first (most frequent)."""
        return {_normalize_spelling(word): row for row, word in reversed(list(enumerate(self.table.words)))}

    def row_of(self, text: str) -> int | None:
        """The row of a word as written, lowercased, or with other capitals; phrases are joined by spaces or by _."""
        row = self.table.row_of(text)
        if row is not None or not (normalized := _normalize_spelling(text)):
            return row
        candidates = (self.table.row_of(form) for form in (text.replace("_", " "), text.replace(" ", "_")))
        return next((row for row in candidates if row is not None), self._row_by_spelling.get(normalized))

    def find(self, text: str) -> LexiconMatch:
        """The vector of a text: its row, composed from subwords, or the mean of its words."""
        words = [text] if self.row_of(text) is not None else list(self.split_words(text))
        if not words:
            raise InputError(f"{text!r} has no words", hint="write at least one")
        matches = [self._find_word(word) for word in words]
        if len(words) == 1:
            name = matches[0].text
            note = matches[0].note or ("" if name == text else f"as {name!r}")
            return replace(matches[0], text=text, note=note)
        rows = tuple(dict.fromkeys(row for match in matches for row in match.rows))
        vector = np.mean([match.vector for match in matches], axis=0)
        return LexiconMatch(text, vector, rows, f"the mean of {len(words)} words: {', '.join(words)}")

    def _find_word(self, word: str) -> LexiconMatch:
        """The row of a word, with the table's spelling; or its vector composed from subwords."""
        row, compose = self.row_of(word), self.table.compose
        if row is not None:
            return LexiconMatch(self.table.words[row], np.asarray(self.table.matrix[row], np.float32), (row,))
        vector = None if compose is None else compose(word)
        if vector is None:
            suggestions = spelling_suggestions(word, self.table.words)
            hint = f"did you mean: {', '.join(suggestions)}?" if suggestions else "ask for a word that the run has seen"
            parts = "" if compose is None else ", and none of its letter groups was seen"
            message = f"no vector for {word!r}: it is not among {len(self.table.words):,} words{parts}"
            raise InputError(message, hint=hint)
        return LexiconMatch(word, vector, (), "not in the vocabulary: from its parts")

    def neighbors(self, texts: str | Sequence[str], top: int = 10, *, approximate: bool = False) -> list[WordNeighbors]:
        """The `top` nearest words of each text by cosine, without its own words."""
        _require_positive_top(top)
        matches = self.find_all([texts] if isinstance(texts, str) else texts)
        if not matches:
            return []
        if self.is_onehot and not approximate:
            return [WordNeighbors(match.text, (), _join_notes(match, ONEHOT_NOTE)) for match in matches]
        max_excluded = max(len(match.rows) for match in matches)
        nearest = self._search(np.stack([match.vector for match in matches]), top + max_excluded, approximate)
        results = []
        for match, rows, cosines in zip(matches, nearest.rows, nearest.cosines, strict=True):
            words = self._neighbor_words(rows, cosines, match.rows, top) if match.vector.any() else ()
            reason = NO_OTHER_WORD_NOTE if match.vector.any() else ZERO_VECTOR_NOTE
            results.append(WordNeighbors(match.text, words, match.note if words else _join_notes(match, reason)))
        return results

    def find_all(self, texts: Sequence[str]) -> list[LexiconMatch]:
        """`find` for each text; errors carry the number of the text, from 1."""
        matches = []
        for number, text in enumerate(texts, 1):
            try:
                matches.append(self.find(text))
            except InputError as error:
                error.line = number if len(texts) > 1 else None
                raise
        return matches

    def analogy(self, *query: str, top: int = 5, method: AnalogyMethod = "add", approximate: bool = False) -> Analogy:
        """Answer a : b = c : ? for the three words of the query, which are excluded as answers.

        Args:
            method: "add" for 3CosAdd (nearest to b - a + c, as unit vectors), "multiply" for 3CosMul.
        """
        _require_positive_top(top)
        require_choice("method", method, get_args(AnalogyMethod))
        matches = self.find_all(query)
        excluded = tuple(dict.fromkeys(row for match in matches for row in match.rows))
        units = unit_rows(np.stack([match.vector for match in matches]))
        if self.is_onehot and not approximate:
            return Analogy(query, method, (), (*lexicon_notes(matches), ONEHOT_NOTE))
        if method == "add":
            nearest = self._search((units[1] - units[0] + units[2])[None], top + len(excluded), approximate)
            rows, scores = nearest.rows[0], nearest.cosines[0]
        elif approximate:
            raise InputError("an index finds what is near a vector", hint="leave --approximate out, or --method add")
        else:
            matrix, norms = self.table.matrix, self.norms
            cosines = [cosine_block(units, matrix, block, norms) for block in cosine_blocks(matrix)]
            scores = np.round(cos_mul(*np.concatenate(cosines, axis=1)), COSINE_DIGITS)[None]
            limit = min(top + len(excluded), scores.shape[1])
            (rows,), (scores,) = top_rows(np.arange(scores.shape[1])[None], scores, limit)
        return Analogy(query, method, self._neighbor_words(rows, scores, excluded, top), lexicon_notes(matches))

    def _search(self, vectors: np.ndarray, top: int, approximate: bool) -> KNNResult:
        if approximate:
            return self.index.search(vectors, top)
        return nearest_rows(vectors, self.table.matrix, top, self.norms)

    def _neighbor_words(
        self, rows: np.ndarray, scores: np.ndarray, excluded: Sequence[int], top: int
    ) -> tuple[NeighborWord, ...]:
        words, counts = self.table.words, self.table.counts
        pairs = zip(map(int, rows), scores.tolist(), strict=True)
        candidates = islice(((row, score) for row, score in pairs if row not in excluded), top)
        return tuple(
            NeighborWord(words[row], score, None if counts is None else int(counts[row])) for row, score in candidates
        )


def _normalize_spelling(text: str) -> str:
    return " ".join(text.casefold().replace("_", " ").split())


def cos_mul(first: np.ndarray, second: np.ndarray, third: np.ndarray) -> np.ndarray:
    """3CosMul score from the cosines with the three words, shifted to [0, 1]."""
    return (1 + second) / 2 * ((1 + third) / 2) / ((1 + first) / 2 + COSMUL_EPSILON)


def lexicon_notes(matches: Sequence[LexiconMatch]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(f"{match.text!r}: {match.note}" for match in matches if match.note))


def _join_notes(match: LexiconMatch, note: str) -> str:
    return "; ".join(filter(None, (match.note, note)))


def _require_positive_top(top: int) -> None:
    if top < 1:
        raise InputError(f"--top is {top}", hint="ask for at least one word")


# --- Batches of analogies, for evaluation ---

ANALOGY_BATCH = 128  # analogies scored per block
MAX_BLOCK_WORDS = 2048  # candidate words per block


def solve_analogies(
    lexicon: Lexicon, order: np.ndarray, questions: np.ndarray, method: AnalogyMethod = "add"
) -> np.ndarray:
    """(Q,) the best answer to each analogy a : b = c : ?, as an index into `order`; the first of ties.

    order      (V,) candidate rows of the table
    questions  (Q, 3 or more) indices into `order` of a, b, c, which are excluded as answers
    """
    matrix = lexicon.table.matrix
    unique_ranks, word_indices = np.unique(questions[:, :3], return_inverse=True)
    word_indices = word_indices.reshape(-1, 3)
    units = unit_rows(np.asarray(matrix[order[unique_ranks]], np.float32))
    best, answers = np.full(len(questions), -np.inf, np.float32), np.full(len(questions), -1, np.int64)
    block_size = max(1, min(MAX_BLOCK_WORDS, VALUES_PER_BLOCK // matrix.shape[1]))
    for start in range(0, len(order) if len(questions) else 0, block_size):
        cosines = cosine_block(units, matrix, order[start : start + block_size], lexicon.norms)
        for first in range(0, len(questions), ANALOGY_BATCH):
            batch = slice(first, first + ANALOGY_BATCH)
            a, b, c = (cosines[word_indices[batch, position]] for position in range(3))
            scores = cos_mul(a, b, c) if method == "multiply" else b - a + c
            excluded = questions[batch, :3] - start
            query_ids, position = np.nonzero((excluded >= 0) & (excluded < block_size))
            scores[query_ids, excluded[query_ids, position]] = -np.inf
            best_words = scores.argmax(1)
            largest = scores[np.arange(len(scores)), best_words]
            is_better = largest > best[batch]
            best[batch][is_better], answers[batch][is_better] = largest[is_better], best_words[is_better] + start
    return answers


# --- Words of texts as rows of a table ---

NO_WORD = -1  # row of a word without a vector
_COMPOSE_LOCK = threading.Lock()  # guards composed vectors
Spans = list[tuple[int, int]]


@dataclass(frozen=True)
class WordMatches:
    """Words of texts: their rows (texts concatenated), the number of words of each text, and their spans."""

    rows: np.ndarray
    counts: np.ndarray
    spans: list[Spans] | None = None

    def text_ids(self) -> np.ndarray:
        return np.repeat(np.arange(len(self.counts)), self.counts)


class WordMatcher:
    """Looks up the words of texts in a table: merges phrases, and composes missing words from subwords.

    phrases  phrases with rows of their own (new york), if any
    """

    def __init__(self, table: WordVectors, tokenizer: Tokenizer, phrases: PhraseTable | None = None) -> None:
        self.table, self.tokenizer = table, tokenizer
        self.phrases = PhraseTable.empty(tokenizer.vocab_size) if phrases is None else phrases
        self.composed_vectors: list[np.ndarray] = []  # their rows follow those of the table
        self._composed_rows: dict[str, int] = {}

    def find_words(self, text: str) -> list[str]:
        """The words of one text; out-of-vocabulary words as written."""
        text = replace_surrogates(text)
        encoding = self.tokenizer.encode(text)
        ids, _ = self.phrases.join(encoding.ids, np.array([len(encoding.ids)]))
        firsts = np.cumsum(self._token_sizes[ids]) - self._token_sizes[ids]
        token_starts = zip(ids.tolist(), firsts.tolist(), strict=True)
        return [
            self._token_names[token_id] if token_id != self.tokenizer.unk_id else text[slice(*encoding.spans[first])]
            for token_id, first in token_starts
        ]

    def match_words(self, texts: Sequence[str], *, spans: bool = False) -> WordMatches:
        """The words of all texts as rows; out-of-vocabulary words are looked up as written."""
        texts = [replace_surrogates(text) for text in texts]
        token_ids, token_counts = self.tokenizer.encode_many(texts)
        ids, counts = self.phrases.join(token_ids, token_counts.astype(np.int64))
        rows, sizes = self._token_rows[ids], self._token_sizes[ids]
        ends = np.cumsum(counts)
        has_missing = np.zeros(len(texts), bool)
        has_missing[np.repeat(np.arange(len(texts)), counts)[rows == NO_WORD]] = True
        text_spans: list[Spans] = [[] for _ in texts]
        for text_id in range(len(texts)) if spans else np.flatnonzero(has_missing).tolist():
            text, text_slice = texts[text_id], slice(int(ends[text_id] - counts[text_id]), int(ends[text_id]))
            token_spans, lasts = self.tokenizer.encode(text).spans, np.cumsum(sizes[text_slice]) - 1
            firsts = lasts + 1 - sizes[text_slice]
            word_spans = text_spans[text_id] = [
                (token_spans[first][0], token_spans[last][1])
                for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True)
            ]
            for index in np.flatnonzero(rows[text_slice] == NO_WORD).tolist():
                rows[text_slice.start + index] = self._lookup_or_compose(text[slice(*word_spans[index])])
        return WordMatches(rows, counts, text_spans if spans else None)

    @cached_property
    def _token_names(self) -> list[str]:
        """Names of all ids: tokens, then phrases."""
        tokens = self.tokenizer.vocabulary()
        return [*tokens, *self.phrases.phrase_names(tokens)]

    @cached_property
    def _token_rows(self) -> np.ndarray:
        """Table row of each id."""
        return np.array([self.table.rows.get(name, NO_WORD) for name in self._token_names], np.int64)

    @cached_property
    def _token_sizes(self) -> np.ndarray:
        """Number of tokens of each id."""
        sizes = [1] * self.tokenizer.vocab_size
        for first, second in self.phrases.pairs.tolist():
            sizes.append(sizes[first] + sizes[second])
        return np.array(sizes, np.int64)

    def _lookup_or_compose(self, word: str) -> int:
        """Row of a word that is not a token: of another spelling, or of a composed vector, which is cached."""
        row = self.table.row_of(word)
        if row is not None or self.table.compose is None:
            return NO_WORD if row is None else row
        with _COMPOSE_LOCK:
            if word not in self._composed_rows:
                vector, row = self.table.compose(word), NO_WORD
                if vector is not None:
                    row = len(self.table.words) + len(self.composed_vectors)
                    self.composed_vectors.append(np.asarray(vector, np.float32))
                self._composed_rows[word] = row  # assigned last, so that an interrupt leaves no row without a vector
            return self._composed_rows[word]
