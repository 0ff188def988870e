"""Words that stand together more often than by chance become one: New York, 人工 智能."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from forebear.data.corpus.subset import Subset
from forebear.embeddings.word2vec import Word2VecModel
from forebear.embeddings.word_table import WordVectors
from forebear.errors import ForebearError
from forebear.objectives.batch import Batch

BLOCK = 1 << 22  # tokens whose pairs are counted at once
SEEN = 5  # times that a pair is seen before it can be a phrase; so many are also taken off its count
THRESHOLD = 100.0  # how many times as often as by chance; half as much for what was joined already


@dataclass(frozen=True, eq=False)
class PhraseTable:
    """Pairs of ids that are one: pair number k has the id `vocabulary + k`, and may be a part of a later pair.

    `pairs` (P, 2) are in the order in which they were found; `passes` tells how many were known after each pass over
    the text: a pass joins only what was known to it.
    """

    vocabulary: int
    pairs: np.ndarray
    passes: tuple[int, ...] = ()

    @classmethod
    def empty(cls, vocabulary: int) -> PhraseTable:
        return cls(vocabulary, np.zeros((0, 2), np.int64))

    @property
    def size(self) -> int:
        """Of the vocabulary with all phrases."""
        return self.vocabulary + len(self.pairs)

    def join(self, tokens: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The same rows with every phrase one token, from the left: of a b c, where both pairs are known, a b is."""
        for keys, ids in self._by_pass:
            tokens, lengths = _joined(tokens, lengths, keys, ids)
        return tokens, lengths

    @cached_property
    def _by_pass(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """For each pass the keys of its pairs, rising, and their ids."""
        made, begin = [], 0
        for end in self.passes:
            keys = _keys(self.pairs[begin:end, 0], self.pairs[begin:end, 1])
            order = np.argsort(keys)
            made.append((keys[order], (self.vocabulary + begin + order).astype(np.int32)))
            begin = end
        return made

    def phrase_names(self, tokens: Sequence[str]) -> list[str]:
        """What each phrase is called: its words, with a space between those that are written with one."""
        names = list(tokens)
        for first, second in self.pairs.tolist():
            one, other = names[first], names[second]
            names.append(one + ("" if _is_wide(one[-1:]) or _is_wide(other[:1]) else " ") + other)
        return names[len(tokens) :]

    def learn(self, source: Subset, never: np.ndarray, least: int = 1) -> PhraseTable:
        """With one more pass: the pairs that a text, joined as far as it is known, has more often than by chance.

        never  whether an id, or any phrase (the last), is no word
        least  how often a pair must be seen, if that is more than SEEN
        """
        counts, keys, often = self._counted(source)
        first, second = keys >> 32, keys & 0xFFFFFFFF
        fine = often >= max(SEEN, least)
        for side in (first, second):
            fine &= ~never[np.minimum(side, len(never) - 1)]
        keys, often, first, second = keys[fine], often[fine], first[fine], second[fine]
        score = (often - SEEN) * float(counts.sum()) / (counts[first] * counts[second].astype(np.float64))
        new = np.flatnonzero(score > THRESHOLD / 2 ** len(self.passes))
        new = new[np.lexsort((keys[new], -often[new]))]  # frequent ones first, as in a vocabulary
        pairs = np.concatenate((self.pairs, np.stack((first[new], second[new]), axis=1)))
        return PhraseTable(self.vocabulary, pairs, (*self.passes, len(pairs)))

    def count(self, source: Subset) -> np.ndarray:
        """(size,) how often each word and phrase occurs in a text."""
        counts = np.zeros(self.size, np.int64)
        for tokens, _ in self._blocks(source):
            counts += np.bincount(tokens, minlength=self.size)
        return counts

    def _counted(self, source: Subset) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """How often each token occurs, the keys of all pairs that stand together, and how often they do."""
        counts, keys, often = np.zeros(self.size, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64)
        for tokens, lengths in self._blocks(source):
            counts += np.bincount(tokens, minlength=self.size)
            inner = np.ones(len(tokens), bool)
            inner[np.cumsum(lengths) - 1] = False
            here, times = np.unique(_keys(tokens[:-1], tokens[1:])[inner[:-1]], return_counts=True)
            both = np.concatenate((keys, here))
            keys, places = np.unique(both, return_inverse=True)
            often = np.bincount(places, np.concatenate((often, times)), len(keys)).astype(np.int64)
        return counts, keys, often

    def _blocks(self, source: Subset):
        """A text as rows, joined, a block at a time; a unit longer than a block is cut."""
        for begin in range(0, source.num_tokens, BLOCK):
            yield self.join(*source.token_slice(begin, min(begin + BLOCK, source.num_tokens)))


def _joined(
    tokens: np.ndarray, lengths: np.ndarray, keys: np.ndarray, ids: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    if not len(keys) or len(tokens) < 2:
        return tokens, lengths
    wanted = _keys(tokens[:-1], tokens[1:])
    found = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    begins = np.append(keys[found] == wanted, False)
    begins[np.cumsum(lengths) - 1] = False  # no pair reaches into the next row
    here = np.arange(len(tokens))
    since = here - np.maximum.accumulate(np.where(begins, 0, here + 1))  # how many beginnings stand right before
    taken = begins & (since % 2 == 0)  # of a b c the first pair takes b away from the second
    rows = np.repeat(np.arange(len(lengths)), lengths)
    lost = np.append(False, taken[:-1])  # second halves
    made = tokens.copy()
    made[taken] = ids[found[np.flatnonzero(taken)]]
    return made[~lost], lengths - np.bincount(rows[lost], minlength=len(lengths))


def _keys(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    return first.astype(np.int64) << 32 | second.astype(np.int64)


def _is_wide(letter: str) -> bool:
    """Whether it is of a script that writes no spaces between words."""
    return bool(letter) and ("\u3040" <= letter <= "\u9fff" or "\U00020000" <= letter <= "\U0003ffff")


# What word2vec learns of a text: which words belong together, how often each occurs, and a vector for each.


SHOWN = 5  # phrases that are named
Make = Callable[[Sequence[str]], Word2VecModel]


class PhraseModel:
    """Joins the phrases of every batch and gives the rest to a model of ids.

    make    the model for a vocabulary, which is known when the phrases are
    tokens  by id
    never   ids that are no words
    passes  how often words that belong together are joined; 0: never
    least   how often words must stand together to be joined
    """

    heads = ("around",)
    remembered_count = 0
    descent = "each pair moves its rows at once"

    def __init__(self, make: Make, *, tokens: Sequence[str], never: Iterable[int], passes: int, least: int = 1) -> None:
        self._make, self._tokens, self._passes, self._least = make, tokens, passes, least
        self._never = np.zeros(len(tokens) + 1, bool)  # one more, which stands for all phrases
        self._never[list(never)] = True
        self.phrases = PhraseTable.empty(len(tokens))
        self.model = make(tokens)
        self.notes: list[str] = []

    @property
    def width(self) -> int:
        return self.model.width

    @property
    def num_parameters(self) -> int:
        return self.model.num_parameters

    @property
    def loss(self) -> str:
        if self.model.output == "tree":
            return "nats for the way to a word in the tree"
        return "nats for telling a word from those drawn by chance, and those from it"

    @property
    def nothing(self) -> float:
        """What vectors lose that know nothing: a word is told by even chances from each that was drawn, or at each turn
        of its path."""
        return self.model.reports * math.log(2)

    def _joins(self, phrases: PhraseTable) -> None:
        """From now on these are joined; the model is made anew where that changes the vocabulary."""
        if phrases.size != self.phrases.size:
            self.model = self._make([*self._tokens, *phrases.phrase_names(self._tokens)])
        self.phrases = phrases

    # -- learning

    def prepass(self, source: Subset, given: Mapping[str, np.ndarray] | None = None) -> None:
        """Finds the phrases of a text and counts its words; those of an earlier text are `given` with its vectors."""
        phrases = PhraseTable.empty(len(self._tokens)) if given is None else self._given_phrases(given)
        if given is None:
            for _ in range(self._passes):
                phrases = phrases.learn(source, self._never, self._least)
        self._joins(phrases)
        counts = phrases.count(source)
        if given is not None:
            counts[self._rows_of(given)] += given["counts"]
        self.model.prepass(counts)
        if self._passes:
            self.notes.append(self._told_of_phrases())

    def _told_of_phrases(self) -> str:
        counts = self._phrase_counts
        names, own = self.phrases.phrase_names(self._tokens), int(np.count_nonzero(counts >= self._fewest))
        often = np.argsort(-counts, kind="stable")[: min(own, SHOWN)]
        shown = f" ({', '.join(names[phrase] for phrase in often.tolist())} …)" if own else ""
        parts = f"; {len(names) - own:,} more stand in others, or too seldom by themselves" if own < len(names) else ""
        return f"{own:,} phrases are words of their own{shown}{parts}"

    @property
    def _fewest(self) -> int:
        """How often what has a vector was seen: joining leaves some words, and phrases, less often by themselves."""
        return self._least if self._passes else 1

    @property
    def _phrase_counts(self) -> np.ndarray:
        """How often each phrase occurs by itself; those that never do have no vector."""
        return self.model.counts[len(self._tokens) :]

    def initialize(self, seed: int) -> None:
        self.model.initialize(seed)

    def warm_start(self, given: Mapping[str, np.ndarray]) -> None:
        """Takes the vectors of a run whose words are the first of ours; new words keep the values they began with."""
        here, rows = self.model.arrays(), self._rows_of(given)
        parts = len(given["inputs"]) - len(rows)  # rows of letter groups stand behind all words
        if given["inputs"].shape[1] != self.width or parts != len(here["inputs"]) - self.phrases.size:
            raise ForebearError("the vectors to go on from have another shape", hint="leave out --width and --subwords")
        here["inputs"][rows] = given["inputs"][: len(rows)]
        if parts:
            here["inputs"][-parts:] = given["inputs"][len(rows) :]
        if self.model.output == "negatives":
            here["outputs"][rows] = given["outputs"]
        elif np.array_equal(here["counts"], given["counts"]):
            here["outputs"][:] = given["outputs"]
        else:
            self.notes.append("with other counts the tree is another one: what its turns knew begins from nothing")
        self.model.load(here)

    def _given_phrases(self, given: Mapping[str, np.ndarray]) -> PhraseTable:
        """The phrases of an earlier run, whose ids began behind its own, perhaps smaller, vocabulary."""
        if "phrases" not in given:
            return PhraseTable.empty(len(self._tokens))
        own = len(given["counts"]) - len(given["phrases"])
        pairs = np.where(given["phrases"] < own, given["phrases"], given["phrases"] + len(self._tokens) - own)
        return PhraseTable(len(self._tokens), pairs, tuple(given["passes"].tolist()))

    def _rows_of(self, given: Mapping[str, np.ndarray]) -> np.ndarray:
        """Where the words and phrases of an earlier run are here."""
        joined = len(given["phrases"]) if "phrases" in given else 0
        own = len(given["counts"]) - joined
        return np.concatenate((np.arange(own), len(self._tokens) + np.arange(joined)))

    def train_batch(
        self, batch: Batch, *, rate: float, moment: tuple[int, int], threads: int = 1, deterministic: bool = False
    ) -> float | None:
        """Learns from a batch; the mean loss before, None where no word has another beside it."""
        tokens, lengths = self._joined(batch)
        loss = self.model.train_batch(
            tokens, lengths, rate=rate, moment=moment, threads=threads, deterministic=deterministic
        )
        return None if loss != loss and np.isfinite(self.model.matrix).all() else loss

    def evaluate(self, batch: Batch) -> tuple[float, int]:
        return self.model.evaluate(*self._joined(batch))

    def windows(self, batch: Batch, *, rate: float, moment: tuple[int, int], many: int) -> list[dict[str, Any]]:
        """The first windows of a batch, in words, as one thread draws them."""
        from forebear.embeddings.drawn_windows import sample_windows

        names = [*self._tokens, *self.phrases.phrase_names(self._tokens)]
        tokens, lengths = self._joined(batch)
        found = sample_windows(tokens, lengths, *self.model.drawing, rate=rate, moment=moment, many=many)
        return [
            {
                "word": names[one.word],
                "around": [names[i] for i in one.context],
                "drawn": [names[i] for i in one.drawn],
                "turns": one.path_turns,
            }
            for one in found
        ]

    def _joined(self, batch: Batch) -> tuple[np.ndarray, np.ndarray]:
        return self.phrases.join(batch.inputs["tokens"], batch.inputs["lengths"])

    # -- its state

    def arrays(self) -> dict[str, np.ndarray]:
        if not self._passes:
            return self.model.arrays()
        passes = np.array(self.phrases.passes, np.int64)
        return self.model.arrays() | {"phrases": self.phrases.pairs, "passes": passes}

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        own = dict(arrays)
        if self._passes:
            if "phrases" not in own or "passes" not in own:
                raise ForebearError("the state of word vectors with phrases lacks phrases or passes")
            pairs, passes = own.pop("phrases"), tuple(own.pop("passes").tolist())
            self._joins(PhraseTable(len(self._tokens), pairs, passes))
        self.model.load(own)

    def training_state(self) -> dict[str, np.ndarray]:
        """Nothing beside the vectors."""
        return {}

    # -- what it says

    @property
    def matrix(self) -> np.ndarray:
        """(V, width) by the ids of tokens; phrases are not among them."""
        return self.model.matrix[: len(self._tokens)]

    def word_table(self, tokens: Sequence[str]) -> WordVectors:
        """Of every word and phrase that was seen."""
        names = [*tokens, *self.phrases.phrase_names(tokens)]
        never = self._never[np.minimum(np.arange(len(names)), len(tokens))]
        rows = np.flatnonzero((self.model.counts >= self._fewest) & ~never)
        rows = rows[np.argsort(-self.model.counts[rows], kind="stable")]
        compose = None if self.model.subwords is None else self.model.compose_vector
        return WordVectors(
            [names[row] for row in rows.tolist()], self.model.matrix[rows], self.model.counts[rows], compose
        )

    def describe(self) -> dict[str, Any]:
        return self.model.describe() | {"phrases": int(np.count_nonzero(self._phrase_counts >= self._fewest))}
