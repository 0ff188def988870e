"""word2vec on a text whose frequent phrases are first merged into tokens (Mikolov et al. 2013)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from forebear.data.corpus.subset import Subset
from forebear.embeddings.phrases import PhraseTable
from forebear.embeddings.word2vec import Word2VecModel
from forebear.embeddings.word_table import WordVectors
from forebear.errors import ForebearError
from forebear.objectives.batch import Batch

if TYPE_CHECKING:
    from forebear.kernels.word2vec import WindowBatch
    from forebear.kernels.word2vec_training import Word2VecVariant


MAX_LISTED_PHRASES = 5  # phrases listed in the note
ModelFactory = Callable[[Sequence[str]], Word2VecModel]


class PhraseModel:
    """Merges the phrases of every batch and trains a word2vec model on the result.

    make_model    builds the model for a vocabulary, once the phrases are known
    tokens        tokens by id
    excluded_ids  ids that are not words
    passes        passes of phrase detection; 0: no phrases
    min_count     minimum count of a phrase
    """

    heads = ("around",)
    training_state_size = 0
    update_rule = "each pair moves its rows at once"

    def __init__(
        self,
        make_model: ModelFactory,
        *,
        tokens: Sequence[str],
        excluded_ids: Iterable[int],
        passes: int,
        min_count: int = 1,
    ) -> None:
        self._make_model, self._tokens, self._passes, self._phrase_min_count = make_model, tokens, passes, min_count
        self._is_excluded = np.zeros(len(tokens) + 1, bool)  # the last entry applies to all phrases
        self._is_excluded[list(excluded_ids)] = True
        self.phrases = PhraseTable.empty(len(tokens))
        self.model = make_model(tokens)
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
        """Loss of untrained vectors: ln 2 for each target, or for each branch of the path."""
        return self.model.mean_outputs * math.log(2)

    def _set_phrases(self, phrases: PhraseTable) -> None:
        """Use these phrases; the model is rebuilt if the vocabulary changes."""
        if phrases.size != self.phrases.size:
            self.model = self._make_model([*self._tokens, *phrases.phrase_names(self._tokens)])
        self.phrases = phrases

    # -- training

    def run_first_pass(self, source: Subset, earlier: Mapping[str, np.ndarray] | None = None) -> None:
        """Detect phrases and count words; with the arrays of an earlier run, use its phrases and add its counts."""
        phrases = PhraseTable.empty(len(self._tokens)) if earlier is None else self._earlier_phrases(earlier)
        if earlier is None:
            for _ in range(self._passes):
                phrases = phrases.learn(source, self._is_excluded, self._phrase_min_count)
        self._set_phrases(phrases)
        counts = phrases.count(source)
        if earlier is not None:
            counts[self._rows_for(earlier)] += earlier["counts"]
        self.model.set_token_counts(counts)
        if self._passes:
            self.notes.append(self._phrase_note())

    def _phrase_note(self) -> str:
        counts, names = self._phrase_counts, self.phrases.phrase_names(self._tokens)
        num_words = int(np.count_nonzero(counts >= self._min_count))
        note = f"{num_words:,} phrases are words of their own"
        if num_words:
            order = np.argsort(-counts, kind="stable")[: min(num_words, MAX_LISTED_PHRASES)]
            note += f" ({', '.join(names[phrase] for phrase in order.tolist())} …)"
        if num_words < len(names):
            note += f"; {len(names) - num_words:,} more stand in others, or too seldom by themselves"
        return note

    @property
    def _min_count(self) -> int:
        """Minimum count for a vector: merging lowers the counts of some words and phrases."""
        return self._phrase_min_count if self._passes else 1

    @property
    def _phrase_counts(self) -> np.ndarray:
        """Counts of phrases outside longer phrases; phrases with count 0 have no vector."""
        return self.model.counts[len(self._tokens) :]

    def initialize(self, seed: int) -> None:
        self.model.initialize(seed)

    def warm_start(self, earlier: Mapping[str, np.ndarray]) -> None:
        """Take the vectors of a run whose words are the first of this model; new words keep their initial values."""
        current, rows = self.model.arrays(), self._rows_for(earlier)
        num_bucket_rows = len(earlier["inputs"]) - len(rows)  # n-gram rows follow all words
        if earlier["inputs"].shape[1] != self.width or num_bucket_rows != len(current["inputs"]) - self.phrases.size:
            raise ForebearError("the vectors to go on from have another shape", hint="leave out --width and --subwords")
        current["inputs"][rows] = earlier["inputs"][: len(rows)]
        if num_bucket_rows:
            current["inputs"][-num_bucket_rows:] = earlier["inputs"][len(rows) :]
        if self.model.output == "negatives":
            current["outputs"][rows] = earlier["outputs"]
        elif np.array_equal(current["counts"], earlier["counts"]):
            current["outputs"][:] = earlier["outputs"]
        else:
            self.notes.append("with other counts the tree is another one: what its turns knew begins from nothing")
        self.model.load(current)

    def _earlier_phrases(self, earlier: Mapping[str, np.ndarray]) -> PhraseTable:
        """The phrases of an earlier run, with ids shifted to the current vocabulary."""
        if "phrases" not in earlier:
            return PhraseTable.empty(len(self._tokens))
        vocab_size = len(earlier["counts"]) - len(earlier["phrases"])
        pairs = earlier["phrases"]
        pairs = np.where(pairs < vocab_size, pairs, pairs + len(self._tokens) - vocab_size)
        return PhraseTable(len(self._tokens), pairs, tuple(earlier["passes"].tolist()))

    def _rows_for(self, earlier: Mapping[str, np.ndarray]) -> np.ndarray:
        """Current rows of the words and phrases of an earlier run."""
        num_phrases = len(earlier["phrases"]) if "phrases" in earlier else 0
        num_words = len(earlier["counts"]) - num_phrases
        return np.concatenate((np.arange(num_words), len(self._tokens) + np.arange(num_phrases)))

    def train_batch(
        self, batch: Batch, *, rate: float, rng_key: tuple[int, int], threads: int = 1, deterministic: bool = False
    ) -> float | None:
        """Train on a batch; returns the mean loss before the update, None if no word has a context."""
        loss = self.model.train_batch(
            *self._join_batch(batch), rate=rate, rng_key=rng_key, threads=threads, deterministic=deterministic
        )
        return None if math.isnan(loss) and np.isfinite(self.model.matrix).all() else loss

    def evaluate(self, batch: Batch) -> tuple[float, int]:
        return self.model.evaluate(*self._join_batch(batch))

    def windows(self, batch: Batch, *, rate: float, rng_key: tuple[int, int], num_windows: int) -> list[dict[str, Any]]:
        """The first non-empty training windows of a batch as words, as one Hogwild thread samples them."""
        from forebear.kernels.word2vec import TokenRuns, draw_windows
        from forebear.kernels.word2vec_sampling import hash_seeds, subsample

        names = [*self._tokens, *self.phrases.phrase_names(self._tokens)]
        keep_probs, variant = self.model.window_sampling
        tokens, ends = subsample(*self._join_batch(batch), keep_probs, rng_key)
        if not len(tokens) or not variant.max_targets:
            return []
        starts, _ = variant.hogwild_parts(rate, len(tokens))
        chunk_size = int(starts[1])
        states = hash_seeds(rng_key, min(len(starts) - 1, -(-2 * num_windows // chunk_size)))
        text = TokenRuns(tokens, ends, states, starts)
        windows: list[dict[str, Any]] = []
        draw_python: Any = getattr(draw_windows, "py_func")  # noqa: B009 - the Python function of the kernel
        for chunk in range(len(text.states)):
            window_batch = variant.allocate_windows(chunk_size)
            layout = 0, variant.targets_per_word, variant.target_block
            draw_python(text, variant.targets, variant.window, chunk, window_batch, *layout)
            for index in np.flatnonzero(window_batch.blocks[: len(tokens) - chunk * chunk_size]).tolist():
                position = chunk * chunk_size + index
                windows.append(_describe_window(names, tokens, position, window_batch, index, variant))
        return windows[:num_windows]

    def _join_batch(self, batch: Batch) -> tuple[np.ndarray, np.ndarray]:
        return self.phrases.join(batch.inputs["tokens"], batch.inputs["lengths"])

    # -- state

    def arrays(self) -> dict[str, np.ndarray]:
        if not self._passes:
            return self.model.arrays()
        passes = np.array(self.phrases.passes, np.int64)
        return self.model.arrays() | {"phrases": self.phrases.pairs, "passes": passes}

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        remaining = dict(arrays)
        if self._passes:
            if "phrases" not in remaining or "passes" not in remaining:
                raise ForebearError("the state of word vectors with phrases lacks phrases or passes")
            pairs, passes = remaining.pop("phrases"), tuple(remaining.pop("passes").tolist())
            self._set_phrases(PhraseTable(len(self._tokens), pairs, passes))
        self.model.load(remaining)

    def training_state(self) -> dict[str, np.ndarray]:
        """Empty: vectors are the whole state."""
        return {}

    # -- results

    @property
    def matrix(self) -> np.ndarray:
        """(V, width) vectors of tokens by id, without phrases."""
        return self.model.matrix[: len(self._tokens)]

    def word_table(self, tokens: Sequence[str]) -> WordVectors:
        """Vectors of the words and phrases with enough counts, by descending frequency."""
        names = [*tokens, *self.phrases.phrase_names(tokens)]
        is_excluded = self._is_excluded[np.minimum(np.arange(len(names)), len(tokens))]
        rows = np.flatnonzero((self.model.counts >= self._min_count) & ~is_excluded)
        rows = rows[np.argsort(-self.model.counts[rows], kind="stable")]
        words, compose = [names[row] for row in rows.tolist()], self.model.compose_vector
        has_subwords = self.model.subwords is not None
        return WordVectors(words, self.model.matrix[rows], self.model.counts[rows], compose if has_subwords else None)

    def describe(self) -> dict[str, Any]:
        return self.model.describe() | {"phrases": int(np.count_nonzero(self._phrase_counts >= self._min_count))}


def _describe_window(
    names: Sequence[str], tokens: np.ndarray, position: int, batch: WindowBatch, index: int, variant: Word2VecVariant
) -> dict[str, Any]:
    """A word, its context, and its output targets: negative samples, or its code in the Huffman tree (lrr)."""
    context_start, context_end = int(batch.context_starts[index]), int(batch.context_ends[index])
    first = index * variant.targets_per_word
    slots = slice(first, first + int(batch.blocks[index]) * len(variant.target_block))
    targets, signs = batch.targets[slots], batch.signs[slots]
    has_negatives = len(variant.targets.stream) > 0
    return {
        "word": names[tokens[position]],
        "around": [names[tokens[other]] for other in range(context_start, context_end) if other != position],
        "drawn": [names[token] for token in targets[signs < 0].tolist()] if has_negatives else [],
        "turns": "" if has_negatives else "".join("l" if sign > 0 else "r" for sign in signs if sign),
    }
