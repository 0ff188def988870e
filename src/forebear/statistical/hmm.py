"""The hidden Markov model: states that nobody wrote down, learned from plain text by what they make probable."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from forebear.data.io.workers import cpu_count
from forebear.errors import ForebearError, InputError
from forebear.kernels import hmm as kernels

# A chain of states that nobody sees and the words that they say: how probable a text is, and which states said it.


EACH = 1 << 16  # products of moves that are worth a thread of their own


@dataclass(frozen=True, eq=False)
class HMMParameters:
    """The tables of a hidden Markov model: probabilities, each row of which sums to 1.

    moves      (S, S) P(the next state given this one); the last state is the border, in which every text begins and
               ends, and which says `end` and nothing else
    emissions  (V, S) P(this token given that state): a row for each token
    end        the id that begins and ends every text
    """

    moves: np.ndarray
    emissions: np.ndarray
    end: int

    @property
    def vocab_size(self) -> int:
        return len(self.emissions)

    @property
    def border(self) -> int:
        return len(self.moves) - 1

    @cached_property
    def stationary(self) -> np.ndarray:
        """(S,) how much of all text is said in each state: what is known of a text from the middle of another."""
        num_states = len(self.moves)
        balance = np.vstack((self.moves.T - np.eye(num_states), np.ones(num_states)))
        solution = np.linalg.lstsq(balance, np.append(np.zeros(num_states), 1.0), rcond=None)[0].clip(0)
        return solution / solution.sum()

    # -- rows of tokens, of which the first is given

    def score(self, rows: Sequence[np.ndarray]) -> list[np.ndarray]:
        """For each row, log P(row[i] given row[:i]) for i = 1, 2, …"""
        tokens, lengths, first = self._flatten_rows(rows)
        logs = _run_threaded(kernels.forward_filter, tokens, lengths, first, self.moves, self.emissions, output_index=0)
        return np.split(logs, np.cumsum(lengths)[:-1]) if len(rows) else []

    def step_states(self, rows: Sequence[np.ndarray]) -> np.ndarray:
        """(B, S) P of the state in which each row's last token was said, given the row."""
        tokens, lengths, first = self._flatten_rows(rows)
        return _run_threaded(kernels.forward_filter, tokens, lengths, first, self.moves, self.emissions, output_index=1)

    def next_log_probs(self, rows: Sequence[np.ndarray]) -> np.ndarray:
        """(B, V) log P(next token given the row)."""
        return self.forward(self.step_states(rows))

    def forward(self, states: np.ndarray) -> np.ndarray:
        """(B, V) log P of the next token where P of the states before it is (B, S)."""
        log_probs = np.empty((len(states), self.vocab_size))
        with np.errstate(divide="ignore"):
            for row, state in zip(log_probs, states, strict=True):  # one by one: a batch changes no bit
                np.log(self.emissions @ (state @ self.moves), out=row)
        return log_probs

    def start_decoding(self, rows: Sequence[np.ndarray], room: int) -> HMMDecodingState:
        return HMMDecodingState(self, self.step_states(rows))

    def posteriors(self, rows: Sequence[np.ndarray]) -> list[np.ndarray]:
        """For each row, P of each state at each token but the first, given all of the row: (n - 1, S)."""
        tokens, lengths, first = self._flatten_rows(rows)
        posteriors = _run_threaded(kernels.state_posteriors, tokens, lengths, first, self.moves, self.emissions)
        return np.split(posteriors, np.cumsum(lengths)[:-1]) if len(rows) else []

    def viterbi(self, rows: Sequence[np.ndarray]) -> list[np.ndarray]:
        """For each row, the states of its most probable chain, for each token but the first (Viterbi)."""
        tokens, lengths, first = self._flatten_rows(rows)
        with np.errstate(divide="ignore"):
            logs = [np.log(table) for table in (first, self.moves, self.emissions)]
        paths = _run_threaded(kernels.hmm_viterbi, tokens, lengths, *logs)
        return np.split(paths, np.cumsum(lengths)[:-1]) if len(rows) else []

    def _flatten_rows(self, rows: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """All tokens but the first of each row, how many each has, and (B, S) what is known before them."""
        lengths = np.array([max(0, len(row) - 1) for row in rows], np.int64)
        tokens = np.concatenate([np.zeros(0, np.int64), *(np.asarray(row)[1:] for row in rows)]).astype(np.int64)
        first_tokens = np.array([row[0] if len(row) else -1 for row in rows], np.int64)
        for ids, lowest in ((tokens, 0), (first_tokens, -1)):
            if len(ids) and not lowest <= ids.min() <= ids.max() < self.vocab_size:
                raise InputError(f"a row holds ids outside 0 to {self.vocab_size - 1}")
        first_emissions = np.where((first_tokens >= 0)[:, None], self.emissions[np.maximum(first_tokens, 0)], 1.0)
        first = self.stationary * first_emissions
        total = first.sum(axis=1, keepdims=True)
        first = np.where(total > 0, first / np.where(total > 0, total, 1.0), self.stationary)
        first[first_tokens == self.end] = np.arange(len(self.moves)) == self.border
        return tokens, lengths, first

    # -- drawing by chance

    def sample(self, count: int, seed: int, max_length: int = 1 << 20) -> list[tuple[np.ndarray, np.ndarray]]:
        """So many texts, each as its tokens and the states that said them; what is longer is cut."""
        rng, state = np.random.default_rng(seed), np.full(count, self.border)
        moves, emissions = (_cumulative(table) for table in (self.moves, self.emissions.T))
        tokens, states, alive = [], [], np.arange(count)
        for _ in range(max_length):
            state = _sample_columns(moves, state, rng)
            is_inside = state != self.border
            alive, state = alive[is_inside], state[is_inside]
            if not len(alive):
                break
            tokens.append((alive, _sample_columns(emissions, state, rng)))
            states.append(state)
        if not tokens:
            return [(np.zeros(0, np.int64), np.zeros(0, np.int64)) for _ in range(count)]
        row_ids, emitted, emitting_states = (
            np.concatenate(columns) for columns in (*zip(*tokens, strict=True), states)
        )
        order = np.argsort(row_ids, kind="stable")
        bounds = np.searchsorted(row_ids[order], np.arange(1, count))
        return list(zip(np.split(emitted[order], bounds), np.split(emitting_states[order], bounds), strict=True))


class HMMDecodingState:
    """Rows that are being continued: what is known of the state of each is all that matters of it."""

    def __init__(self, states: HMMParameters, known: np.ndarray) -> None:
        self.states, self.known = states, known

    def next_logits(self) -> np.ndarray:
        return self.states.forward(self.known).astype(np.float32)

    def append(self, ids: np.ndarray) -> None:
        ends, tables = np.arange(1, len(ids) + 1), self.states
        _, self.known = kernels.forward_filter(
            np.asarray(ids, np.int64), ends, self.known, tables.moves, tables.emissions
        )

    def select(self, rows: np.ndarray) -> None:
        self.known = self.known[rows]


def balanced_slices(lengths: np.ndarray, work: int) -> list[slice]:
    """Rows in as many parts as there are processors, about equally long; in one, where there is little `work`."""
    parts = max(1, min(cpu_count(), len(lengths), work // EACH))
    ends = np.cumsum(lengths)
    bounds = np.searchsorted(ends, np.arange(1, parts) * (ends[-1] / parts)) + 1 if parts > 1 else []
    starts = np.concatenate(([0], bounds, [len(lengths)])).astype(np.int64)
    return [slice(*pair) for pair in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)]


def _run_threaded(
    kernel: Callable[..., Any],
    tokens: np.ndarray,
    lengths: np.ndarray,
    first: np.ndarray,
    *tables: np.ndarray,
    output_index=None,
) -> np.ndarray:
    """What a kernel finds, rows shared out among threads; each is gone through by itself, so that no bit changes."""
    ends = np.cumsum(lengths)

    def run_slice(rows: slice) -> np.ndarray:
        begin, end = (int(ends[row - 1]) if row else 0 for row in (rows.start, rows.stop))
        result = kernel(tokens[begin:end], ends[rows] - begin, np.ascontiguousarray(first[rows]), *tables)
        return result if output_index is None else result[output_index]

    parts = balanced_slices(lengths, len(tokens) * len(tables[0]))
    if len(parts) == 1:
        return run_slice(parts[0])
    with ThreadPoolExecutor(len(parts)) as threads:
        return np.concatenate(list(threads.map(run_slice, parts)))


def _cumulative(shares: np.ndarray) -> np.ndarray:
    """Of each line the running sums, those of line n from n to n + 1: all of them rise, from the first to the last."""
    sums = np.cumsum(shares, axis=1)
    return (sums / sums[:, -1:] + np.arange(len(shares))[:, None]).ravel()


def _sample_columns(cumulative_sums: np.ndarray, row_ids: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A column for each of these lines, by chance."""
    width = len(cumulative_sums) // (int(cumulative_sums[-1].round()))
    return np.searchsorted(cumulative_sums, row_ids + rng.random(len(row_ids)), side="right") % width


TRANSITION_SMOOTHING = 0.01  # how much of `smoothing` is taken from moves: there are far fewer of them than of words
MAX_TOKENS = 1 << 31  # of which what is expected, in units of 2^-32, is sure to fit into 64 bits
MAX_UNSEEN_MASS = 0.5  # of what all states share, the most that is left to words which were never seen


def validate_hmm(states: int, smoothing: float) -> None:
    """Refuses what is no hidden Markov model, before any text is read."""
    if states < 1:
        raise InputError(f"a hidden Markov model of {states} states", hint="choose 1 or more, such as 64")
    if not 0 <= smoothing < 1:
        hint = "choose a share from 0 to below 1, such as 0.05; 0: what a state never said is impossible"
        raise InputError(f"smoothing is {smoothing}", hint=hint)


class HMMModel:
    """P(token given all before it), by states of which only probabilities are known; learns by Baum and Welch's way.

    A state says a word from a table of its own, or, one time in 1/smoothing, from one that all states share: how often
    there is what, with something left for what was never seen. Both are parts of one model, so that each iteration
    makes the text it learns from more probable, or leaves it as probable as it was.

    states      how many, the border between texts not counted
    vocabulary  how many ids there are
    end         the id that begins and ends every row
    never       ids that are never predicted: their probability is 0, and that of all others sums to 1
    smoothing   the share of words that a state takes from the common table
    """

    heads = ("next",)
    is_pseudo_likelihood = False  # scores are factors of the probability of a row

    def __init__(
        self, *, states: int, vocabulary: int, end: int, never: Iterable[int] = (), smoothing: float = 0.05
    ) -> None:
        validate_hmm(states, smoothing)
        self.states, self.end, self.smoothing = states, end, smoothing
        self.predictable = np.ones(vocabulary, bool)
        self.predictable[list(never)] = False
        if not self.predictable[end]:
            raise InputError(f"the end of a text (id {end}) is among the tokens that are never predicted")
        self.counts = np.zeros(vocabulary, np.int64)  # of the text; ends are counted too
        self._moves, self._words = self._uniform_tables()
        self._expected_moves, self._expected_words = self._zero_expectations()
        self.iterations = 0
        self._parameters: HMMParameters | None = None
        self.notes: list[str] = []

    @property
    def vocab_size(self) -> int:
        return len(self.predictable)

    @property
    def max_length(self) -> None:
        """Rows of any length can be read."""
        return

    # -- learning

    def prepass(self, counts: np.ndarray) -> None:
        """Tells how often each id stands in the whole text that it will learn from."""
        if int(np.sum(counts)) >= MAX_TOKENS:
            what = f"{int(np.sum(counts)):,} tokens are more than can be counted in parts of 2^-32"
            raise InputError(what, hint=f"learn from fewer than {MAX_TOKENS:,}: give a part of the text")
        self.counts = np.where(self.predictable, np.asarray(counts, np.int64), 0)
        self._parameters = None

    def initialize(self, seed: int) -> None:
        """Each state begins with words as frequent as they are, more of some and less of others, by chance."""
        rng = np.random.default_rng([seed, self.states])
        moves, _ = self._uniform_tables()
        moves[:-1] *= rng.exponential(1.0, (self.states, self.states + 1))
        words = self._shared_distribution()[:, None] * rng.exponential(1.0, (self.vocab_size, self.states))
        words[self.counts == 0] = 0.0  # what is not there will not be learned
        self._moves, self._words = _normalize(moves, 1), _normalize(words, 0, self._uniform_tables()[1])
        self._expected_moves, self._expected_words = self._zero_expectations()
        self.iterations, self._parameters = 0, None

    def accumulate(self, tokens: np.ndarray, lengths: np.ndarray, targets: np.ndarray) -> float:
        """Adds what is expected of rows [end, w1 … wn] with the targets [w1 … wn, end]; -log P of all of them."""
        targets, lengths = np.asarray(targets, np.int64), np.asarray(lengths, np.int64)
        if not len(lengths):
            return 0.0
        self._check(np.asarray(tokens), lengths, targets)
        tables, ends = self.finalize(), np.cumsum(lengths)

        def expect_slice(rows: slice) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            begin, end = (int(ends[row - 1]) if row else 0 for row in (rows.start, rows.stop))
            expectations = self._zero_expectations() if rows.start else (self._expected_moves, self._expected_words)
            losses = kernels.baum_welch(
                targets[begin:end], ends[rows] - begin, tables.moves, tables.emissions, *expectations
            )
            return losses, *expectations

        parts = balanced_slices(lengths, len(targets) * self.states)
        with ThreadPoolExecutor(len(parts)) as threads:
            results = list(threads.map(expect_slice, parts))
        for _, moves, words in results[1:]:  # whole numbers: in whatever order, their sum is the same
            self._expected_moves += moves
            self._expected_words += words
        return float(np.concatenate([losses for losses, *_ in results]).sum())

    def update(self) -> None:
        """One iteration is over: tables as what was expected says, and nothing is expected any more."""
        tables = self.finalize()
        if self.smoothing:  # the share of each that came from a state's own table
            moves = self._expected_moves * _ratio(self._own_moves(), tables.moves)
            words = self._expected_words[:, :-1] * _ratio(self._own_words(), tables.emissions[:, :-1])
        else:
            moves, words = self._expected_moves.astype(np.float64), self._expected_words[:, :-1].astype(np.float64)
        self._moves, self._words = _normalize(moves, 1, self._moves), _normalize(words, 0, self._words)
        self._expected_moves, self._expected_words = self._zero_expectations()
        self.iterations, self._parameters = self.iterations + 1, None

    @property
    def has_expectations(self) -> bool:
        return bool(self._expected_moves.any())

    def _check(self, tokens: np.ndarray, lengths: np.ndarray, targets: np.ndarray) -> None:
        lasts = np.cumsum(lengths) - 1
        ends = np.zeros(len(targets), bool)
        ends[lasts] = True
        if not np.array_equal(targets == self.end, ends) or not (tokens[lasts + 1 - lengths] == self.end).all():
            raise ForebearError(f"states are learned from whole rows, all asked for, between two ids {self.end}")
        allowed = (targets >= 0) & (targets < self.vocab_size)
        allowed[allowed] = self.predictable[targets[allowed]]
        if not allowed.all():
            what = f"the text holds the id {targets[~allowed][0]}, which this model never predicts"
            raise InputError(what, hint="prepare the text with the tokenizer of this run")

    # -- tables

    def finalize(self) -> HMMParameters:
        """The probabilities; made at first use and kept until something is learned."""
        if self._parameters is None:
            emissions = np.zeros((self.vocab_size, self.states + 1))
            emissions[:, :-1] = self._own_words()
            moves = self._own_moves()
            if self.smoothing:
                emissions[:, :-1] += self.smoothing * self._shared_distribution()[:, None]
                moves = moves + self.smoothing * TRANSITION_SMOOTHING * self._uniform_tables()[0]
            emissions[self.end, -1] = 1.0
            self._parameters = HMMParameters(moves, emissions, self.end)
        return self._parameters

    def _own_moves(self) -> np.ndarray:
        return (1 - self.smoothing * TRANSITION_SMOOTHING) * self._moves

    def _own_words(self) -> np.ndarray:
        return (1 - self.smoothing) * self._words

    def _uniform_tables(self) -> tuple[np.ndarray, np.ndarray]:
        """Moves to any state alike, and to the end as often as there is one; words as frequent as they are."""
        ends, all_tokens = int(self.counts[self.end]), int(self.counts.sum())
        end_prob = (ends + 1) / (all_tokens + 2) if np.count_nonzero(self.predictable) > 1 else 1.0
        moves = np.full((self.states + 1, self.states + 1), (1 - end_prob) / self.states)
        moves[:, -1] = end_prob
        return moves, np.tile(self._shared_distribution()[:, None], self.states)

    def _shared_distribution(self) -> np.ndarray:
        """(V,) what all states share: how often there is what, and as much for what was never seen as what was seen
        once tells that there is (Good and Turing), evenly.
        """
        counts = self.counts.copy()
        counts[self.end] = 0
        unseen = self.predictable & (counts == 0)
        unseen[self.end] = False
        total, once = int(counts.sum()), max(1, np.count_nonzero(counts == 1))
        if not total:
            return _normalize(unseen.astype(np.float64), 0) if unseen.any() else np.zeros(self.vocab_size)
        unseen_mass = (
            min(MAX_UNSEEN_MASS, once / (total + once) / self.smoothing) if self.smoothing and unseen.any() else 0.0
        )
        return (1 - unseen_mass) * counts / total + unseen_mass * unseen / max(1, np.count_nonzero(unseen))

    def _zero_expectations(self) -> tuple[np.ndarray, np.ndarray]:
        many = self.states + 1
        return np.zeros((many, many), np.int64), np.zeros((self.vocab_size, many), np.int64)

    # -- what it says

    def score(self, rows: Sequence[np.ndarray]) -> list[np.ndarray]:
        """For each row, log P(row[i] given row[:i]) for i = 1, 2, …"""
        return self.finalize().score(rows)

    def next_log_probs(self, rows: Sequence[np.ndarray]) -> np.ndarray:
        """(B, V) log P(next token given the row)."""
        return self.finalize().next_log_probs(rows)

    def read(self, rows: Sequence[np.ndarray], room: int) -> HMMDecodingState:
        return self.finalize().start_decoding(rows, room)

    # -- its state

    def arrays(self) -> dict[str, np.ndarray]:
        """The whole state but what is expected of half an epoch."""
        iterations = np.array([self.iterations], np.int64)
        return {"moves": self._moves, "words": self._words, "counts": self.counts, "iterations": iterations}

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        expected = {
            "moves": ((self.states + 1, self.states + 1), np.float64),
            "words": ((self.vocab_size, self.states), np.float64),
            "counts": ((self.vocab_size,), np.int64),
            "iterations": ((1,), np.int64),
        }
        _check_arrays(arrays, expected, f"a hidden Markov model of {self.states} states")
        self._moves, self._words, self.counts = arrays["moves"], arrays["words"], arrays["counts"]
        self._expected_moves, self._expected_words = self._zero_expectations()
        self.iterations, self._parameters = int(arrays["iterations"][0]), None

    def training_state(self) -> dict[str, np.ndarray]:
        """What is expected so far, in an epoch that is not over."""
        return {"told_moves": self._expected_moves, "told_words": self._expected_words}

    def load_training_state(self, arrays: Mapping[str, np.ndarray]) -> None:
        expected = {name: (array.shape, np.int64) for name, array in self.training_state().items()}
        _check_arrays(arrays, expected, f"what is expected of {self.states} states")
        self._expected_moves, self._expected_words = arrays["told_moves"].copy(), arrays["told_words"].copy()

    # -- what is to be known of it

    @property
    def num_parameters(self) -> int:
        """Probabilities in its tables."""
        return self._moves.size + self._words.size

    def describe(self) -> dict[str, Any]:
        """Facts as JSON values."""
        return {
            "states": self.states,
            "smoothing": self.smoothing,
            "vocabulary": self.vocab_size,
            "predictable": int(np.count_nonzero(self.predictable)),
            "tokens": int(self.counts.sum()),
            "iterations": self.iterations,
            "notes": self.notes,
        }


def _normalize(counts: np.ndarray, axis: int, fallback: np.ndarray | None = None) -> np.ndarray:
    """Counts as shares of their line; a line of nothing stays as it is in `instead`."""
    total = counts.sum(axis=axis, keepdims=True)
    normalized = counts / np.where(total > 0, total, 1.0)
    return normalized if fallback is None else np.where(total > 0, normalized, fallback)


def _ratio(numerators: np.ndarray, totals: np.ndarray) -> np.ndarray:
    return numerators / np.where(totals > 0, totals, 1.0)


def _check_arrays(
    arrays: Mapping[str, np.ndarray], expected: Mapping[str, tuple[tuple[int, ...], Any]], model_name: str
) -> None:
    """Refuses a missing, extra or misshapen array by its name."""
    for problem, names in (
        ("lacks", expected.keys() - arrays.keys()),
        ("has, but should not,", arrays.keys() - expected.keys()),
    ):
        if names:
            raise ForebearError(f"the state of {model_name} {problem} {sorted(names)}")
    for name, (shape, kind) in expected.items():
        array = arrays[name]
        if array.shape != shape or array.dtype != kind:
            message = f"{array.dtype} {list(array.shape)} instead of {np.dtype(kind)} {list(shape)}"
            raise ForebearError(f"the array {name!r} of {model_name} is {message}")
