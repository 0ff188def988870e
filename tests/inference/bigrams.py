"""Predictors whose every probability can be worked out by hand, and one that remembers all of its row."""

import hashlib
from itertools import pairwise

import numpy as np


class Tabled:
    """log P(next given last) from a table (V, V); context and cost are as asked."""

    is_pseudo_likelihood = False

    def __init__(self, table, context=None):
        with np.errstate(divide="ignore"):
            self.logs = np.log(np.asarray(table, np.float64))
        self.max_length = context
        self.batches = []  # how many rows came at once

    @property
    def vocab_size(self):
        return len(self.logs)

    def score(self, rows):
        self.batches.append(len(rows))
        return [self.logs[np.asarray(row[:-1]), np.asarray(row[1:])] for row in rows]

    def next_log_probs(self, rows):
        return np.stack([self.logs[row[-1]] for row in rows])

    def start_decoding(self, rows, max_new_tokens):
        return Reading(self, rows, max_new_tokens)


class Reading:
    """Continues rows by asking the predictor about each whole row; refuses what the protocol does not allow."""

    def __init__(self, predictor, rows, room):
        self.predictor, self.rows, self.room = predictor, [list(row) for row in rows], room

    def next_logits(self):
        return self.predictor.next_log_probs([np.array(row) for row in self.rows]).astype(np.float32)

    def append(self, ids):
        assert len(ids) == len(self.rows) > 0
        self.room -= 1
        assert self.room > 0, "the last token need not be read"
        for row, i in zip(self.rows, ids, strict=True):
            row.append(int(i))

    def select(self, rows):
        self.rows = [list(self.rows[n]) for n in rows]


class Dreaming(Tabled):
    """Scores that depend on every token of a row: rows that are mixed up or cut give other texts."""

    def __init__(self, vocabulary, spread=2.0, context=None):
        self._size, self.spread, self.max_length, self.batches = vocabulary, spread, context, []

    @property
    def vocab_size(self):
        return self._size

    def _logs(self, row):
        digest = hashlib.blake2b(np.asarray(row, "<i8").tobytes(), digest_size=8).digest()
        scores = self.spread * np.random.default_rng(int.from_bytes(digest, "little")).normal(size=self._size)
        return scores - np.logaddexp.reduce(scores)

    def score(self, rows):
        self.batches.append(len(rows))
        return [np.array([self._logs(row[:n])[row[n]] for n in range(1, len(row))]) for row in rows]

    def next_log_probs(self, rows):
        return np.stack([self._logs(row) for row in rows])


def counted(tokenizer, texts, add=0.0):
    """The bigrams of some texts, each between two ends: shares of counts, with `add` more for each token but specials.

    A context that was never seen leaves everything equally likely.
    """
    end, never = (
        tokenizer.special_roles["end"],
        sorted(tokenizer.special_ids - {tokenizer.special_roles["end"], tokenizer.unk_id}),
    )
    table = np.zeros((tokenizer.vocab_size, tokenizer.vocab_size))
    for text in texts:
        row = [end, *tokenizer.encode(text).ids.tolist(), end]
        for before, after in pairwise(row):
            table[before, after] += 1
    table += add
    table[:, never] = 0
    even = np.ones(tokenizer.vocab_size)
    even[never] = 0
    empty = table.sum(axis=1) == 0
    table[empty] = even
    return Tabled(table / table.sum(axis=1, keepdims=True))


def uniform(tokenizer):
    """Every token as likely as any other."""
    return Tabled(np.full((tokenizer.vocab_size, tokenizer.vocab_size), 1 / tokenizer.vocab_size))
