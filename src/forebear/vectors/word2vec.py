"""word2vec's model: two tables of vectors, learned by compiled loops from the words around each word."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from forebear.errors import BadInput, ForebearError
from forebear.kernels.drawing import scrambled, thinned, thinning
from forebear.kernels.tables import table
from forebear.vectors.subwords import Subwords

ARCHITECTURES, OUTPUTS = ("skipgram", "cbow"), ("negatives", "tree")
FIXED = (0x5EED,)  # the moment of what is drawn to examine
TOGETHER = 4096  # words whose vectors are composed at once


def check(width: int, window: int, architecture: str, output: str, negatives: int) -> None:
    """Refuses what is no word2vec, before any text is read."""
    if architecture not in ARCHITECTURES:
        raise BadInput(f"no architecture is named {architecture!r}", remedy=f"there are: {', '.join(ARCHITECTURES)}")
    if output not in OUTPUTS:
        raise BadInput(f"no output is named {output!r}", remedy=f"there are: {', '.join(OUTPUTS)}")
    for name, value in (("width", width), ("window", window), ("negatives", negatives)):
        if value < 1:
            raise BadInput(f"{name} is {value}", remedy=f"choose a {name} of 1 or more")


def spelled(subwords: Subwords, words: Sequence[str] | None, vocabulary: int) -> tuple[np.ndarray, np.ndarray]:
    """The rows of each word: its own, then those of its n-grams, which lie behind those of all words."""
    if words is None or len(words) != vocabulary:
        raise ForebearError(f"subwords need the words of all {vocabulary} ids")
    indptr, rows = subwords.rows(words)
    own = np.insert(rows.astype(np.int64) + vocabulary, indptr[:-1], np.arange(vocabulary))
    return indptr + np.arange(vocabulary + 1), own.astype(np.int32)


class Word2vecModel:
    """Vectors of words that predict the words around them (skip-gram) or are predicted by them together (CBOW).

    vocabulary    how many ids there are
    never         ids that are passed over, as if they were not in the text
    width         numbers in a vector
    window        words to each side that are looked at, at most; how many is drawn anew for each word
    architecture  "skipgram": each word around predicts the word; "cbow": the mean of all around does
    output        "negatives": the word is told from some drawn words; "tree": from all, by turns in Huffman's tree
    negatives     drawn words for each word
    sample        the share of the text from which on a word is passed over more and more often; 0 for never
    power         drawn words are drawn as often as their counts to this power tell
    subwords      a word's vector is the mean of a row of its own and of rows of its character n-grams; or None
    words         the words by id, which subwords need
    """

    heads = ("around",)

    def __init__(
        self,
        *,
        vocabulary: int,
        never: Iterable[int],
        width: int,
        window: int,
        architecture: str,
        output: str,
        negatives: int = 5,
        sample: float = 1e-3,
        power: float = 0.75,
        subwords: Subwords | None = None,
        words: Sequence[str] | None = None,
    ) -> None:
        check(width, window, architecture, output, negatives)
        self.vocabulary, self.width, self.window = vocabulary, width, window
        self.architecture, self.output, self.negatives = architecture, output, negatives
        self.sample, self.power, self.subwords = sample, power, subwords
        self.allowed = np.ones(vocabulary, bool)
        self.allowed[list(never)] = False
        self.notes: list[str] = []
        self._words = words or ()
        self._spelling = None if subwords is None else spelled(subwords, words, vocabulary)
        rows = vocabulary + (subwords.buckets if subwords else 0)
        self._inputs = table(rows, width)
        self._outputs = table(vocabulary if output == "negatives" else max(vocabulary - 1, 1), width)
        self.meet(np.zeros(vocabulary, np.int64))

    # -- learning

    def meet(self, counts: np.ndarray) -> None:
        """Takes how often each id occurs in the text to learn from (V,)."""
        if counts.shape != (self.vocabulary,):
            raise ForebearError(f"counts of shape {counts.shape} for {self.vocabulary} ids")
        self.counts = counts.astype(np.int64)
        self._kept = thinning(self.counts, self.sample, self.allowed)
        self._known_way: Any = None

    @property
    def _way(self) -> Any:
        """How compiled loops are to learn; made at first use, since a tree or a stream of words takes its time."""
        if self._known_way is None:
            from forebear.vectors.ways import way_of

            self._known_way = way_of(
                self.counts,
                self.allowed,
                kept=self._kept,
                window=self.window,
                mean=self.architecture == "cbow",
                negatives=self.negatives if self.output == "negatives" else 0,
                power=self.power,
                spelling=self._spelling,
            )
        return self._known_way

    @property
    def told(self) -> float:
        """Rows by which a word is told, in the mean: itself and those drawn, or the turns of its path."""
        return self._way.told

    @property
    def drawing(self) -> tuple[np.ndarray, Any]:
        """How often each id is looked at, and what else decides about windows."""
        return self._kept, self._way

    def begin(self, seed: int) -> None:
        """The first values: chance between ±1/width for inputs, as gensim begins (word2vec.c takes half of that, with
        which CBOW solves fewer analogies after a few epochs of a small text); 0 for outputs."""
        rng = np.random.default_rng(seed)
        shape = (len(self._inputs), self.width)
        self._inputs[:, : self.width] = (2 * rng.random(shape, np.float32) - 1) / np.float32(self.width)
        self._outputs[:] = 0

    def sweep(
        self,
        tokens: np.ndarray,
        lengths: np.ndarray,
        *,
        rate: float,
        moment: tuple[int, int],
        threads: int = 1,
        deterministic: bool = False,
    ) -> float:
        """Learns from rows of ids, one after the other, in place; the mean loss before, of some of the windows."""
        from forebear.kernels.sweeping import swept

        self._check(tokens, lengths)
        loss, many = swept(
            self._inputs,
            self._outputs,
            np.ascontiguousarray(tokens, np.int32),
            np.ascontiguousarray(lengths, np.int64),
            self._kept,
            self._way,
            rate=rate,
            moment=moment,
            threads=threads,
            in_step=deterministic,
        )
        return loss / many if many else float("nan")

    def examine(self, tokens: np.ndarray, lengths: np.ndarray) -> tuple[float, int]:
        """The summed loss in double precision, without learning, and of how many pairs (of how many words, for CBOW).

        Frequent words are thinned out as in learning, since that is the text it learns to predict; windows are whole.
        What is drawn depends on the words alone, not on when it is asked.
        """
        from forebear.kernels.examining import examined

        self._check(tokens, lengths)
        kept, ends = thinned(np.ascontiguousarray(tokens, np.int32), np.asarray(lengths, np.int64), self._kept, FIXED)
        way = self._way
        inputs = self._inputs[: self.vocabulary] if self._spelling is None else self.matrix
        if self.output == "negatives" and not way.most:  # nothing was met yet
            return 0.0, 0
        mean = self.architecture == "cbow"
        return examined(kept, ends, inputs, self._outputs, way.supply, self.window, mean, scrambled(*FIXED))

    def _check(self, tokens: np.ndarray, lengths: np.ndarray) -> None:
        if len(tokens) and not 0 <= tokens.min() <= tokens.max() < self.vocabulary:
            raise BadInput(f"the text holds ids outside 0 to {self.vocabulary - 1}")
        if int(lengths.sum()) != len(tokens):
            raise ForebearError(f"rows of {int(lengths.sum())} ids in all, but there are {len(tokens)}")

    # -- its state

    def arrays(self) -> dict[str, np.ndarray]:
        """The whole state."""
        inputs, outputs = (rows[:, : self.width].copy() for rows in (self._inputs, self._outputs))
        return {"inputs": inputs, "outputs": outputs, "counts": self.counts.copy()}

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Takes such a state; a missing, extra or misshapen array is refused by its name."""
        here = self.arrays()
        for what, odd in (("lacks", set(here) - set(arrays)), ("has, but should not,", set(arrays) - set(here))):
            if odd:
                raise ForebearError(f"the state of a word2vec {what} {sorted(odd)}")
        for name, mine in here.items():
            if arrays[name].shape != mine.shape or arrays[name].dtype != mine.dtype:
                found, wanted = (f"{one.dtype} {one.shape}" for one in (arrays[name], mine))
                raise ForebearError(f"{name} of a word2vec is {found}, not {wanted}")
        self._inputs[:, : self.width] = arrays["inputs"]
        self._outputs[:, : self.width] = arrays["outputs"]
        self.meet(arrays["counts"])

    # -- what it says

    @property
    def matrix(self) -> np.ndarray:
        """(V, width) the vectors of words by id."""
        if self._spelling is None:
            return self._inputs[: self.vocabulary, : self.width]
        indptr, rows = self._spelling
        made = np.empty((self.vocabulary, self.width), np.float32)
        for begin in range(0, self.vocabulary, TOGETHER):  # all rows of all words at once might not fit
            ends = indptr[begin : begin + TOGETHER + 1]
            parts = self._inputs[rows[ends[0] : ends[-1]], : self.width]
            sums = np.add.reduceat(parts, ends[:-1] - ends[0])
            made[begin : begin + TOGETHER] = sums / np.diff(ends)[:, None].astype(np.float32)
        return made

    def composed(self, word: str) -> np.ndarray | None:
        """A vector for a word outside the vocabulary, from its n-grams; None where no word of the vocabulary has any of
        them: the rows that they share with others would say nothing of it."""
        if self.subwords is None or not any(ngram in self._letters for ngram in self.subwords.ngrams(word)):
            return None
        _, rows = self.subwords.rows([word])
        return self._inputs[rows + self.vocabulary, : self.width].mean(0)

    @cached_property
    def _letters(self) -> str:
        """All words as n-grams see them, in a row: no n-gram reaches from one into the next."""
        return "".join(f"<{word}>" for word in self._words)

    @property
    def parameter_count(self) -> int:
        return self.width * (len(self._inputs) + len(self._outputs))

    def describe(self) -> dict[str, Any]:
        """Facts as JSON values."""
        return {
            "architecture": self.architecture,
            "output": self.output,
            "vocabulary": self.vocabulary,
            "width": self.width,
            "window": self.window,
            "negatives": self.negatives if self.output == "negatives" else None,
            "sample": self.sample,
            "power": self.power,
            "subwords": None if self.subwords is None else vars(self.subwords).copy(),
            "tokens": int(self.counts.sum()),
            "notes": self.notes,
        }
