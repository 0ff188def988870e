"""word2vec's model: two tables of vectors, learned by compiled loops from the words around each word."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from forebear.errors import BadInput, ForebearError
from forebear.kernels.around import learner
from forebear.kernels.drawing import PART, scrambled, stream_of_words, thinned, thinning
from forebear.vectors.huffman import Tree, huffman
from forebear.vectors.subwords import Subwords

ARCHITECTURES, OUTPUTS = ("skipgram", "cbow"), ("negatives", "tree")
FIXED = 0x5EED  # the seed of what is drawn to examine


def check(width: int, window: int, architecture: str, output: str, negatives: int) -> None:
    """Refuses what is no word2vec, before any text is read."""
    if architecture not in ARCHITECTURES:
        raise BadInput(f"no architecture is named {architecture!r}", remedy=f"there are: {', '.join(ARCHITECTURES)}")
    if output not in OUTPUTS:
        raise BadInput(f"no output is named {output!r}", remedy=f"there are: {', '.join(OUTPUTS)}")
    for name, value in (("width", width), ("window", window), ("negatives", negatives)):
        if value < 1:
            raise BadInput(f"{name} is {value}", remedy=f"choose a {name} of 1 or more")


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
        self._indptr, self._rows = np.arange(vocabulary + 1), np.arange(vocabulary, dtype=np.int32)
        if subwords is not None:
            if words is None or len(words) != vocabulary:
                raise ForebearError(f"subwords need the words of all {vocabulary} ids")
            indptr, rows = subwords.rows(words)
            self._indptr = indptr + np.arange(vocabulary + 1)
            self._rows = np.insert(rows + vocabulary, indptr[:-1], np.arange(vocabulary)).astype(np.int32)
        below = vocabulary + (subwords.buckets if subwords else 0)
        self._inputs = np.zeros((below, width), np.float32)
        self._outputs = np.zeros((vocabulary if output == "negatives" else max(vocabulary - 1, 1), width), np.float32)
        self.meet(np.zeros(vocabulary, np.int64))

    # -- learning

    def meet(self, counts: np.ndarray) -> None:
        """Takes how often each id occurs in the text to learn from (V,)."""
        if counts.shape != (self.vocabulary,):
            raise ForebearError(f"counts of shape {counts.shape} for {self.vocabulary} ids")
        self.counts = counts.astype(np.int64)
        self._kept = thinning(self.counts, self.sample, self.allowed)
        self._stream = np.zeros(0, np.int32)
        self._tree = Tree(np.zeros(self.vocabulary + 1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.uint8))
        if self.output == "negatives":
            self._stream = stream_of_words(self.counts, self.power, self.allowed)
        else:
            self._tree = huffman(self.counts, self.allowed)

    def begin(self, seed: int) -> None:
        """The first values: small chance for inputs, 0 for outputs."""
        rng = np.random.default_rng(seed)
        self._inputs[:] = (rng.random(self._inputs.shape, np.float32) - np.float32(0.5)) / np.float32(self.width)
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
        self._check(tokens)
        kept, ends = thinned(tokens, lengths, self._kept, scrambled(*moment))
        parts = range(-(-len(kept) // PART))
        told = np.zeros((len(parts), 2))

        def learn(mine: range) -> None:
            for part in mine:
                state = scrambled(*moment, part)
                first = part * PART
                last = min(first + PART, len(kept))
                self._run(kept, ends, first, last, np.float32(rate), state, told[part], False)

        shares = [range(len(parts) * one // threads, len(parts) * (one + 1) // threads) for one in range(threads)]
        if deterministic or threads == 1:
            learn(range(len(parts)))
        else:
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(learn, shares))
        loss, many = told.sum(0)
        return float(loss / many) if many else float("nan")

    def examine(self, tokens: np.ndarray, lengths: np.ndarray) -> tuple[float, int]:
        """The summed loss in double precision, without learning, and of how many: whole windows, all words, and drawn
        words that depend on nothing but the text."""
        self._check(tokens)
        kept, ends = thinned(tokens, lengths, np.where(self.allowed, 1 << 32, 0).astype(np.uint64), 1)
        told = np.zeros(2)
        inputs, outputs = self._inputs.astype(np.float64), self._outputs.astype(np.float64)
        self._run(kept, ends, 0, len(kept), 0.0, scrambled(FIXED), told, True, inputs, outputs)
        return float(told[0]), int(told[1])

    def _run(self, kept, ends, first, last, rate, state, told, fixed, inputs=None, outputs=None) -> None:
        tree = self._tree
        inputs = self._inputs if inputs is None else inputs
        outputs = self._outputs if outputs is None else outputs
        learner()(
            kept, ends, first, last, inputs, outputs, self._indptr, self._rows, self._stream, tree.indptr, tree.nodes,
            tree.turns, self.window, self.negatives, self.architecture == "cbow", rate, np.uint64(state), told, fixed,
        )  # fmt: skip

    def _check(self, tokens: np.ndarray) -> None:
        if len(tokens) and not 0 <= tokens.min() <= tokens.max() < self.vocabulary:
            raise BadInput(f"the text holds ids outside 0 to {self.vocabulary - 1}")

    # -- its state

    def arrays(self) -> dict[str, np.ndarray]:
        """The whole state."""
        return {"inputs": self._inputs.copy(), "outputs": self._outputs.copy(), "counts": self.counts.copy()}

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
        self._inputs[:] = arrays["inputs"]
        self._outputs[:] = arrays["outputs"]
        self.meet(arrays["counts"])

    # -- what it says

    @property
    def matrix(self) -> np.ndarray:
        """(V, width) the vectors of words by id."""
        if self.subwords is None:
            return self._inputs
        sums = np.add.reduceat(self._inputs[self._rows], self._indptr[:-1])
        return sums / np.diff(self._indptr)[:, None].astype(np.float32)

    def composed(self, word: str) -> np.ndarray | None:
        """A vector for a word outside the vocabulary, from its n-grams; None where there are none."""
        if self.subwords is None:
            return None
        _, rows = self.subwords.rows([word])
        return self._inputs[rows + self.vocabulary].mean(0) if len(rows) else None

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
