"""word2vec: skip-gram and CBOW with negative sampling or hierarchical softmax, and subwords as in fastText."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from forebear.data.unicode import is_han
from forebear.errors import ForebearError, InputError, require_choice
from forebear.kernels.jit import compile_kernel
from forebear.kernels.vector_tables import aligned_table
from forebear.kernels.word2vec_sampling import hash_seed, keep_probabilities, subsample
from forebear.numerics import require_state

if TYPE_CHECKING:
    from forebear.kernels.word2vec_training import Word2VecVariant

# --- Subwords ---

MIN_COMPILED_WORDS = 2000  # words; for fewer, loading numba takes longer than plain Python


@dataclass(frozen=True)
class Subwords:
    """Character n-grams of "<word>", hashed as in fastText, so that tables can be exchanged.

    shortest, longest  length of an n-gram in characters, boundary markers included
    buckets            rows that n-grams are hashed into
    han                also use single Chinese characters and pairs of them, which are meaningful units
    """

    shortest: int = 3
    longest: int = 6
    buckets: int = 200_000
    han: bool = True

    def __post_init__(self) -> None:
        if not 1 <= self.shortest <= self.longest:
            raise InputError(f"n-grams of {self.shortest} to {self.longest} characters", hint="such as 3 to 6")
        if self.buckets < 1:
            raise InputError(f"n-grams hashed into {self.buckets} rows", hint="choose 1 or more, such as 200000")

    def ngrams(self, word: str) -> list[str]:
        """The n-grams of a word by position, with repetitions."""
        marked = f"<{word}>"
        size = len(marked)
        is_han_char = is_han(np.array([ord(letter) for letter in marked])) & self.han
        ngrams = []
        for start in range(size):
            for length in range(1, min(max(self.longest, 2), size - start) + 1):
                is_boundary = length == 1 and start in (0, size - 1)  # "<" and ">" alone carry no information
                is_chinese = length <= 2 and is_han_char[start : start + length].all()
                if (self.shortest <= length <= self.longest and not is_boundary) or is_chinese:
                    ngrams.append(marked[start : start + length])
        return ngrams

    def bucket_rows(self, words: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """The buckets of each word's n-grams, (indptr, rows): rows[indptr[w]:indptr[w + 1]] for word w."""
        if len(words) < MIN_COMPILED_WORDS:
            return self.bucket_rows_reference(words)
        from forebear.kernels.word2vec import hash_char_ngrams

        marked = [f"<{word}>" for word in words]
        text = "".join(marked)
        data = np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8)
        starts = np.append(np.flatnonzero((data & 0xC0) != 0x80), len(data))
        ends = np.cumsum([0, *map(len, marked)])
        is_han_char = is_han(np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)) & self.han
        return hash_char_ngrams(data, ends, starts, is_han_char, (self.shortest, self.longest), self.buckets)

    def bucket_rows_reference(self, words: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """`bucket_rows` in plain Python."""
        rows = [[fnv1a_hash(ngram) % self.buckets for ngram in self.ngrams(word)] for word in words]
        indptr = np.concatenate(([0], np.cumsum([len(word_rows) for word_rows in rows], dtype=np.int64)))
        return indptr, np.array([bucket for word_rows in rows for bucket in word_rows], np.int32)


def fnv1a_hash(ngram: str) -> int:
    """32-bit FNV-1a; bytes above 127 are sign-extended, as in fastText."""
    value = 2166136261
    for byte in ngram.encode("utf-8", "surrogatepass"):
        value ^= byte if byte < 128 else byte | 0xFFFFFF00
        value = value * 16777619 & 0xFFFFFFFF
    return value


# --- The model ---

CHOICES = {"architecture": ("skipgram", "cbow"), "output": ("negatives", "tree")}
EVALUATION_KEY = (0x5EED,)  # random key of evaluation
COMPOSE_BATCH = 4096  # words composed per block


def subword_rows(subwords: Subwords, words: Sequence[str] | None, vocab_size: int) -> tuple[np.ndarray, np.ndarray]:
    """(indptr, rows) of each word: its own row, then those of its n-grams, which follow the rows of all words."""
    if words is None or len(words) != vocab_size:
        raise ForebearError(f"subwords need the words of all {vocab_size} ids")
    indptr, rows = subwords.bucket_rows(words)
    row_ids = np.insert(rows.astype(np.int64) + vocab_size, indptr[:-1], np.arange(vocab_size))
    return indptr + np.arange(vocab_size + 1), row_ids.astype(np.int32)


class Word2VecModel:
    """Word vectors that predict each context word (skip-gram) or are predicted by the mean context (CBOW).

    excluded_ids  ids that are skipped, as if they were not in the text
    width         embedding size
    window        maximum number of context words to each side; the actual number is sampled for each word
    architecture  "skipgram": each context word predicts the word; "cbow": the mean of the context does
    output        "negatives": negative sampling; "tree": hierarchical softmax over a Huffman tree
    negatives     negative samples per word
    sample        frequency above which a word is subsampled; 0: no subsampling
    power         exponent of the counts in the distribution of negatives
    subwords      a word's vector is the mean of its own row and the rows of its character n-grams; None: own row only
    words         the words by id, required for subwords
    """

    heads = ("around",)

    def __init__(
        self,
        *,
        vocab_size: int,
        excluded_ids: Iterable[int],
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
        self.vocab_size, self.width, self.window = vocab_size, width, window
        self.architecture, self.output, self.negatives = architecture, output, negatives
        for name, choices in CHOICES.items():
            require_choice(name, getattr(self, name), choices)
        for name in ("width", "window", "negatives"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}", hint=f"choose a {name} of 1 or more")
        self.sample, self.power, self.subwords = sample, power, subwords
        self.allowed = np.ones(vocab_size, bool)
        self.allowed[list(excluded_ids)] = False
        self.notes: list[str] = []
        self._words = words or ()
        self._subword_rows = None if subwords is None else subword_rows(subwords, words, vocab_size)
        rows = vocab_size + (subwords.buckets if subwords else 0)
        self._inputs = aligned_table(rows, width)
        self._outputs = aligned_table(vocab_size if output == "negatives" else max(vocab_size - 1, 1), width)
        self.set_token_counts(np.zeros(vocab_size, np.int64))

    # -- training

    def set_token_counts(self, counts: np.ndarray) -> None:
        """Set the (V,) counts of each id in the training text."""
        if counts.shape != (self.vocab_size,):
            raise ForebearError(f"counts of shape {counts.shape} for {self.vocab_size} ids")
        self.counts = counts.astype(np.int64)
        self._keep_probs = keep_probabilities(self.counts, self.sample, self.allowed)
        self._cached_variant: Any = None

    @property
    def _variant(self) -> Any:
        """Settings of the kernel; built on first use, because a Huffman tree or a table of negatives takes time."""
        if self._cached_variant is None:
            self._cached_variant = word2vec_variant(
                self.counts,
                self.allowed,
                keep_probs=self._keep_probs,
                window=self.window,
                mean=self.architecture == "cbow",
                negatives=self.negatives if self.output == "negatives" else 0,
                power=self.power,
                subwords=self._subword_rows,
            )
        return self._cached_variant

    @property
    def mean_outputs(self) -> float:
        """Output rows per word on average: the word and its negatives, or the nodes of its path."""
        return self._variant.mean_targets

    @property
    def window_sampling(self) -> tuple[np.ndarray, Any]:
        """Subsampling probabilities and kernel settings, which determine the sampled windows."""
        return self._keep_probs, self._variant

    def initialize(self, seed: int) -> None:
        """Initialize inputs uniformly in ±1/width as in gensim, and outputs with 0.

        With half this range, as in word2vec.c, CBOW solves fewer analogies after a few epochs on a small text.
        """
        rng = np.random.default_rng(seed)
        shape = (len(self._inputs), self.width)
        self._inputs[:, : self.width] = (2 * rng.random(shape, np.float32) - 1) / np.float32(self.width)
        self._outputs[:] = 0

    def train_batch(
        self,
        tokens: np.ndarray,
        lengths: np.ndarray,
        *,
        rate: float,
        rng_key: tuple[int, int],
        threads: int = 1,
        deterministic: bool = False,
    ) -> float:
        """Train on sequences of ids, in place; returns the mean loss before the update, on some of the windows."""
        from forebear.kernels.word2vec_training import train_word2vec

        self._check(tokens, lengths)
        loss, num_predictions = train_word2vec(
            self._inputs,
            self._outputs,
            np.ascontiguousarray(tokens, np.int32),
            np.ascontiguousarray(lengths, np.int64),
            self._keep_probs,
            self._variant,
            rate=rate,
            rng_key=rng_key,
            threads=threads,
            deterministic=deterministic,
        )
        return loss / num_predictions if num_predictions else float("nan")

    def evaluate(self, tokens: np.ndarray, lengths: np.ndarray) -> tuple[float, int]:
        """Summed loss in double precision, and the number of pairs (of words, for CBOW).

        Frequent words are subsampled as in training; windows have full size; negatives depend on the text only.
        """
        from forebear.kernels.word2vec import evaluate_sgns

        self._check(tokens, lengths)
        kept_tokens, ends = subsample(
            np.ascontiguousarray(tokens, np.int32), np.asarray(lengths, np.int64), self._keep_probs, EVALUATION_KEY
        )
        variant = self._variant
        inputs = self._inputs[: self.vocab_size] if self._subword_rows is None else self.matrix
        if self.output == "negatives" and not variant.max_targets:  # no counts yet
            return 0.0, 0
        mean = self.architecture == "cbow"
        return evaluate_sgns(
            kept_tokens, ends, inputs, self._outputs, variant.targets, self.window, mean, hash_seed(*EVALUATION_KEY)
        )

    def _check(self, tokens: np.ndarray, lengths: np.ndarray) -> None:
        if len(tokens) and not 0 <= tokens.min() <= tokens.max() < self.vocab_size:
            raise InputError(f"the text holds ids outside 0 to {self.vocab_size - 1}")
        if int(lengths.sum()) != len(tokens):
            raise ForebearError(f"rows of {int(lengths.sum())} ids in all, but there are {len(tokens)}")

    # -- state

    def arrays(self) -> dict[str, np.ndarray]:
        """Inputs, outputs and counts."""
        inputs, outputs = (rows[:, : self.width].copy() for rows in (self._inputs, self._outputs))
        return {"inputs": inputs, "outputs": outputs, "counts": self.counts.copy()}

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Load such a state; raise ForebearError for a missing, extra or misshapen array."""
        require_state("word2vec", arrays, self.arrays())
        self._inputs[:, : self.width] = arrays["inputs"]
        self._outputs[:, : self.width] = arrays["outputs"]
        self.set_token_counts(arrays["counts"])

    # -- results

    @property
    def matrix(self) -> np.ndarray:
        """(V, width) word vectors by id."""
        if self._subword_rows is None:
            return self._inputs[: self.vocab_size, : self.width]
        indptr, rows = self._subword_rows
        vectors = np.empty((self.vocab_size, self.width), np.float32)
        for begin in range(0, self.vocab_size, COMPOSE_BATCH):  # all rows of all words might not fit in memory
            ends = indptr[begin : begin + COMPOSE_BATCH + 1]
            parts = self._inputs[rows[ends[0] : ends[-1]], : self.width]
            sums = np.add.reduceat(parts, ends[:-1] - ends[0])
            vectors[begin : begin + COMPOSE_BATCH] = sums / np.diff(ends)[:, None].astype(np.float32)
        return vectors

    def compose_vector(self, word: str) -> np.ndarray | None:
        """A vector for an out-of-vocabulary word from its n-grams; None if no known word has any of them."""
        if self.subwords is None or not any(ngram in self._bounded_words for ngram in self.subwords.ngrams(word)):
            return None  # its buckets would hold other n-grams
        _, rows = self.subwords.bucket_rows([word])
        return self._inputs[rows + self.vocab_size, : self.width].mean(0)

    @cached_property
    def _bounded_words(self) -> str:
        """All words with boundary marks in one string; no n-gram spans two words."""
        return "".join(f"<{word}>" for word in self._words)

    @property
    def num_parameters(self) -> int:
        return self.width * (len(self._inputs) + len(self._outputs))

    def describe(self) -> dict[str, Any]:
        """Settings as JSON values."""
        settings = {"architecture": self.architecture, "output": self.output, "vocabulary": self.vocab_size}
        names = ("width", "window", "sample", "power", "notes")
        return (
            settings
            | {name: getattr(self, name) for name in names}
            | {
                "negatives": self.negatives if self.output == "negatives" else None,
                "subwords": None if self.subwords is None else vars(self.subwords).copy(),
                "tokens": int(self.counts.sum()),
            }
        )


# --- Huffman tree for hierarchical softmax ---


@dataclass(frozen=True, eq=False)
class HuffmanTree:
    """Each word's path from the root: nodes path_nodes[indptr[w]:indptr[w + 1]], with the branch taken at each (code).

    indptr      (V + 1,) int64; words outside the tree have an empty path
    path_nodes  int32 ids of inner nodes, the root first
    path_codes  uint8, 0 or 1
    """

    indptr: np.ndarray
    path_nodes: np.ndarray
    path_codes: np.ndarray


def huffman_tree(counts: np.ndarray, allowed: np.ndarray) -> HuffmanTree:
    """Huffman tree over the allowed ids; counts are at least 1."""
    leaves = np.flatnonzero(allowed)
    weights = np.maximum(counts[leaves], 1).astype(np.int64)
    order = np.argsort(weights, kind="stable")
    parents, codes = compile_kernel(build_tree_kernel)(weights[order])
    depths, paths = compile_kernel(tree_paths_kernel)(parents, codes, len(leaves))
    lengths = np.zeros(len(counts), np.int64)
    lengths[leaves[order]] = depths
    indptr = np.concatenate(([0], np.cumsum(lengths)))
    # Start of each path, in the order of leaves and in the order of ids.
    source_index = np.repeat(np.cumsum(depths) - depths, depths)
    target_index = np.repeat(indptr[leaves[order]], depths) + np.arange(len(source_index)) - source_index
    path_nodes, path_codes = np.empty(len(source_index), np.int32), np.empty(len(source_index), np.uint8)
    path_nodes[target_index], path_codes[target_index] = paths[0], paths[1]
    return HuffmanTree(indptr, path_nodes, path_codes)


def build_tree_kernel(weights):
    """Merge the two lightest nodes repeatedly; returns the parent and code of 2n - 1 nodes, leaves first."""
    num_leaves = len(weights)
    node_weights = np.empty(max(2 * num_leaves - 1, 1), np.int64)
    node_weights[:num_leaves] = weights
    parents, codes = np.full(len(node_weights), -1, np.int64), np.zeros(len(node_weights), np.uint8)
    leaf, inner = 0, num_leaves  # both queues are sorted: each merged node is at least as heavy as the one before
    for parent in range(num_leaves, 2 * num_leaves - 1):
        node_weights[parent] = 0
        for code in range(2):
            if leaf < num_leaves and (inner >= parent or node_weights[leaf] <= node_weights[inner]):
                child = leaf
                leaf += 1
            else:
                child = inner
                inner += 1
            parents[child], codes[child] = parent, 1 - code
            node_weights[parent] += node_weights[child]
    return parents, codes


def tree_paths_kernel(parents, codes, num_leaves):
    """Depth of each leaf, and all paths concatenated: inner nodes numbered from the root, and codes."""
    depths = np.zeros(num_leaves, np.int64)
    for leaf in range(num_leaves):
        node = leaf
        while parents[node] >= 0:
            depths[leaf] += 1
            node = parents[node]
    paths = np.empty((2, depths.sum()), np.int32)
    end, root = 0, 2 * num_leaves - 2
    for leaf in range(num_leaves):
        end += depths[leaf]
        node, position = leaf, end
        while parents[node] >= 0:
            position -= 1
            paths[0, position], paths[1, position] = root - parents[node], codes[node]
            node = parents[node]
    return depths, paths


# --- Settings of the training kernel ---

SAMPLED_ROW_FACTOR = 8  # tuned: deterministic training is as good as Hogwild, from 20 to 20,000 words


def word2vec_variant(
    counts: np.ndarray,
    allowed: np.ndarray,
    *,
    keep_probs: np.ndarray,
    window: int,
    mean: bool,
    negatives: int,
    power: float,
    subwords: tuple[np.ndarray, np.ndarray] | None,
) -> Word2VecVariant:
    """Settings of the training kernel, from word counts; hierarchical softmax over a Huffman tree if no negatives."""
    from forebear.kernels.word2vec import OutputTargets
    from forebear.kernels.word2vec_sampling import negative_sample_stream, negative_sampling_probs
    from forebear.kernels.word2vec_training import Word2VecVariant

    word_rates = counts * keep_probs.astype(np.float64)
    word_rates = word_rates / max(word_rates.sum(), 1)
    empty = np.zeros(0, np.int32)
    if negatives:
        stream = negative_sample_stream(counts, power, allowed)
        tree = HuffmanTree(np.zeros(len(counts) + 1, np.int64), empty, empty.astype(np.uint8))
        max_outputs = mean_outputs = negatives + 1 if len(stream) else 0
        output_updates = word_rates + negatives * negative_sampling_probs(counts, power, allowed)
    else:
        stream, tree = empty, huffman_tree(counts, allowed)
        lengths = np.diff(tree.indptr)
        max_outputs, mean_outputs = int(lengths.max(initial=0)), float(word_rates @ lengths)
        output_updates = np.bincount(tree.path_nodes, np.repeat(word_rates, lengths), 1)
    sampled_row_factor = SAMPLED_ROW_FACTOR if negatives else 0
    max_updates = max(
        max_row_updates(output_updates, output_updates, sampled_row_factor),
        mean_outputs * max_row_updates(shared_updates(word_rates, subwords), word_rates, sampled_row_factor),
    )
    targets = OutputTargets(stream, negatives, tree.indptr, tree.path_nodes, tree.path_codes)
    return Word2VecVariant(
        window, mean, targets, max_outputs, subwords, max_updates * (1 if mean else window + 1), mean_outputs
    )


def max_row_updates(updates: np.ndarray, word_rates: np.ndarray, sampled_row_factor: float) -> float:
    """The update rate of the busiest row, or `sampled_row_factor` times that of a randomly sampled row if it is higher.

    With a small vocabulary no row is much busier than others, but all are pushed away from the negatives.
    """
    return max(updates.max(initial=0), sampled_row_factor * float(updates @ word_rates) / max(word_rates.sum(), 1))


def shared_updates(word_rates: np.ndarray, subwords: tuple[np.ndarray, np.ndarray] | None) -> np.ndarray:
    """Update rate of each word's vector: from its own occurrences, and from words that share its subword rows."""
    if subwords is None:
        return word_rates
    indptr, rows = subwords
    lengths = np.diff(indptr)
    updates = np.bincount(rows, np.repeat(word_rates, lengths))
    return np.add.reduceat(updates[rows], indptr[:-1]) / lengths
