"""Language models whose every probability can be worked out by hand, and one that depends on the whole prefix."""

import hashlib
from itertools import pairwise

import numpy as np


class BigramTable:
    """log P(next given last) from a table (V, V)."""

    is_pseudo_likelihood = False

    def __init__(self, table, context=None):
        with np.errstate(divide="ignore"):
            self.logs = np.log(np.asarray(table, np.float64))
        self.max_length = context
        self.batches = []  # the size of each batch

    @property
    def vocab_size(self):
        return len(self.logs)

    def score(self, rows):
        self.batches.append(len(rows))
        return [self.logs[np.asarray(row[:-1]), np.asarray(row[1:])] for row in rows]

    def next_log_probs(self, rows):
        return np.stack([self.logs[row[-1]] for row in rows])

    def start_decoding(self, rows, max_new_tokens):
        return WholeRowDecoder(self, rows, max_new_tokens)


class WholeRowDecoder:
    """Continues rows by scoring each whole row again; asserts that the decoding protocol is followed."""

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


class HashedLM(BigramTable):
    """Scores from a hash of the whole row: rows that are confused or truncated give other texts."""

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


def bigram_model(tokenizer, texts, add=0.0):
    """The bigram model of some texts, each between two end tokens, with `add` added to all counts but of specials.

    An unseen context gives a uniform distribution.
    """
    end, blocked = (
        tokenizer.special_roles["end"],
        sorted(tokenizer.special_ids - {tokenizer.special_roles["end"], tokenizer.unk_id}),
    )
    table = np.zeros((tokenizer.vocab_size, tokenizer.vocab_size))
    for text in texts:
        row = [end, *tokenizer.encode(text).ids.tolist(), end]
        for previous, following in pairwise(row):
            table[previous, following] += 1
    table += add
    table[:, blocked] = 0
    uniform_row = np.ones(tokenizer.vocab_size)
    uniform_row[blocked] = 0
    empty = table.sum(axis=1) == 0
    table[empty] = uniform_row
    return BigramTable(table / table.sum(axis=1, keepdims=True))


def uniform_model(tokenizer):
    """The model with equal probability for every token."""
    return BigramTable(np.full((tokenizer.vocab_size, tokenizer.vocab_size), 1 / tokenizer.vocab_size))
