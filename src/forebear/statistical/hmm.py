"""Hidden Markov language model: parameters, inference, and unsupervised training with Baum–Welch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from forebear.data.io.workers import cpu_count
from forebear.errors import ForebearError, InputError
from forebear.kernels import hmm as kernels
from forebear.numerics import require_state

# --- Parameters and inference ---

WORK_PER_THREAD = 1 << 16  # minimum multiplications per thread


@dataclass(frozen=True, eq=False)
class HMMParameters:
    """Transition and emission probabilities.

    transitions  (S, S) P(next state given this one); the last is the boundary state, in which every text begins and
                 ends and which emits `eos_id` only
    emissions    (V, S) P(token given state)
    eos_id       begins and ends every text
    """

    transitions: np.ndarray
    emissions: np.ndarray
    eos_id: int

    @property
    def vocab_size(self) -> int:
        return len(self.emissions)

    @property
    def boundary_state(self) -> int:
        return len(self.transitions) - 1

    @cached_property
    def stationary(self) -> np.ndarray:
        """(S,) stationary distribution: state probabilities within a text without context."""
        num_states = len(self.transitions)
        balance = np.vstack((self.transitions.T - np.eye(num_states), np.ones(num_states)))
        solution = np.linalg.lstsq(balance, np.append(np.zeros(num_states), 1.0), rcond=None)[0].clip(0)
        return solution / solution.sum()

    # -- inference on rows of tokens, given the first token

    def score(self, rows: Sequence[np.ndarray]) -> list[np.ndarray]:
        """For each row, log P(row[i] given row[:i]) for i = 1, 2, …"""
        return self._by_row(lambda *args: kernels.forward_filter(*args)[0], rows)

    def final_states(self, rows: Sequence[np.ndarray]) -> np.ndarray:
        """(B, S) P of the state at each row's last token, given the row."""
        return self._run(lambda *args: kernels.forward_filter(*args)[1], rows)[0]

    def next_log_probs(self, rows: Sequence[np.ndarray]) -> np.ndarray:
        """(B, V) log P(next token given the row)."""
        return self.log_probs_after(self.final_states(rows))

    def log_probs_after(self, states: np.ndarray) -> np.ndarray:
        """(B, V) log P of the next token, given the probabilities (B, S) of the states before it."""
        log_probs = np.empty((len(states), self.vocab_size))
        with np.errstate(divide="ignore"):
            for row, state in zip(log_probs, states, strict=True):  # row by row: bit-equal for any batch
                np.log(self.emissions @ (state @ self.transitions), out=row)
        return log_probs

    def start_decoding(self, rows: Sequence[np.ndarray], max_new_tokens: int) -> HMMDecodingState:
        return HMMDecodingState(self, self.final_states(rows))

    def posteriors(self, rows: Sequence[np.ndarray]) -> list[np.ndarray]:
        """For each row (n - 1, S), P of each state at each token but the first, given the whole row."""
        return self._by_row(kernels.state_posteriors, rows)

    def viterbi(self, rows: Sequence[np.ndarray]) -> list[np.ndarray]:
        """For each row, the most probable state sequence, without the first token."""
        return self._by_row(kernels.hmm_viterbi, rows, use_logs=True)

    def _run(
        self, kernel: Callable[..., np.ndarray], rows: Sequence[np.ndarray], *, use_logs: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """Run a kernel on slices of the rows; returns its results and the number of tokens after the first per row."""
        tokens, lengths, *tables = *self._flatten_rows(rows), self.transitions, self.emissions
        if use_logs:
            with np.errstate(divide="ignore"):
                tables = [np.log(table) for table in tables]
        initial, transitions, emissions = tables

        def run_slice(rows: slice, span: slice, ends: np.ndarray) -> np.ndarray:
            return kernel(tokens[span], ends, np.ascontiguousarray(initial[rows]), transitions, emissions)

        results = map_slices(run_slice, lengths, len(self.transitions))
        return results[0] if len(results) == 1 else np.concatenate(results), lengths

    def _by_row(
        self, kernel: Callable[..., np.ndarray], rows: Sequence[np.ndarray], *, use_logs: bool = False
    ) -> list[np.ndarray]:
        """Run a kernel; returns its results for each token but the first, by row."""
        results, lengths = self._run(kernel, rows, use_logs=use_logs)
        return np.split(results, np.cumsum(lengths)[:-1]) if len(rows) else []

    def _flatten_rows(self, rows: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """All tokens but the first of each row, their number per row, and (B, S) the initial state probabilities."""
        lengths = np.array([max(0, len(row) - 1) for row in rows], np.int64)
        tokens = np.concatenate([np.zeros(0, np.int64), *(np.asarray(row)[1:] for row in rows)]).astype(np.int64)
        first_tokens = np.array([row[0] if len(row) else -1 for row in rows], np.int64)
        for ids, min_id in ((tokens, 0), (first_tokens, -1)):
            if len(ids) and not min_id <= ids.min() <= ids.max() < self.vocab_size:
                raise InputError(f"a row holds ids outside 0 to {self.vocab_size - 1}")
        first_emissions = np.where((first_tokens >= 0)[:, None], self.emissions[np.maximum(first_tokens, 0)], 1.0)
        initial = self.stationary * first_emissions
        total = initial.sum(axis=1, keepdims=True)
        initial = np.where(total > 0, initial / np.where(total > 0, total, 1.0), self.stationary)
        initial[first_tokens == self.eos_id] = np.arange(len(self.transitions)) == self.boundary_state
        return tokens, lengths, initial

    # -- sampling

    def sample(self, count: int, seed: int, max_length: int = 1 << 20) -> list[tuple[np.ndarray, np.ndarray]]:
        """Sample texts with their states; longer ones are truncated."""
        rng, state, active_rows = np.random.default_rng(seed), np.full(count, self.boundary_state), np.arange(count)
        cumulative_transitions, cumulative_emissions = (
            _cumulative(table) for table in (self.transitions, self.emissions.T)
        )
        steps = [np.zeros((3, 0), np.int64)]  # row, token and state of each emission
        for _ in range(max_length):
            state = _sample_columns(cumulative_transitions, state, rng)
            is_active = state != self.boundary_state
            active_rows, state = active_rows[is_active], state[is_active]
            if not len(active_rows):
                break
            steps.append(np.stack((active_rows, _sample_columns(cumulative_emissions, state, rng), state)))
        row_ids, tokens, states = np.concatenate(steps, axis=1)
        order = np.argsort(row_ids, kind="stable")
        bounds = np.searchsorted(row_ids[order], np.arange(1, count))
        return list(zip(np.split(tokens[order], bounds), np.split(states[order], bounds), strict=True))


class HMMDecodingState:
    """State probabilities of the rows being decoded."""

    def __init__(self, parameters: HMMParameters, state_probs: np.ndarray) -> None:
        self.parameters, self.state_probs = parameters, state_probs

    def next_logits(self) -> np.ndarray:
        return self.parameters.log_probs_after(self.state_probs).astype(np.float32)

    def append(self, ids: np.ndarray) -> None:
        ends, parameters = np.arange(1, len(ids) + 1), self.parameters
        _, self.state_probs = kernels.forward_filter(
            np.asarray(ids, np.int64), ends, self.state_probs, parameters.transitions, parameters.emissions
        )

    def select(self, rows: np.ndarray) -> None:
        self.state_probs = self.state_probs[rows]


def map_slices(function: Callable[[slice, slice, np.ndarray], Any], lengths: np.ndarray, num_states: int) -> list[Any]:
    """Call the function in threads, on slices of the rows with about equally many tokens.

    It receives the slice of the rows, that of their tokens, and the ends of the rows within the latter. Rows are
    independent, so the result is bit-equal for any number of threads.
    """
    ends = np.cumsum(lengths)
    num_tokens = int(ends[-1]) if len(ends) else 0
    num_slices = max(1, min(cpu_count(), len(lengths), num_tokens * num_states // WORK_PER_THREAD))
    bounds = np.searchsorted(ends, np.arange(1, num_slices) * (num_tokens / num_slices)) + 1
    slices = []
    for first, last in pairwise((0, *bounds.tolist(), len(lengths))):
        begin, end = (int(ends[row - 1]) if row else 0 for row in (first, last))
        slices.append((slice(first, last), slice(begin, end), ends[first:last] - begin))
    if num_slices == 1:
        return [function(*slices[0])]
    with ThreadPoolExecutor(num_slices) as threads:
        return list(threads.map(function, *zip(*slices, strict=True)))


def _cumulative(probs: np.ndarray) -> np.ndarray:
    """Cumulative sums of each row n, scaled to the range from n to n + 1, so that the flat array is sorted."""
    sums = np.cumsum(probs, axis=1)
    return (sums / sums[:, -1:] + np.arange(len(probs))[:, None]).ravel()


def _sample_columns(cumulative_sums: np.ndarray, row_ids: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Sample a column for each of these rows."""
    width = len(cumulative_sums) // (int(cumulative_sums[-1].round()))
    return np.searchsorted(cumulative_sums, row_ids + rng.random(len(row_ids)), side="right") % width


TRANSITION_SMOOTHING = 0.01  # factor on `smoothing` for transitions: there are far fewer of them than of emissions
MAX_TOKENS = 1 << 31  # expected counts, in units of 2^-32, must fit into 64 bits
MAX_UNSEEN_MASS = 0.5  # maximum probability of all unseen words in the shared distribution


def validate_hmm(states: int, smoothing: float) -> None:
    """Reject invalid settings before any text is read."""
    if states < 1:
        raise InputError(f"a hidden Markov model of {states} states", hint="choose 1 or more, such as 64")
    if not 0 <= smoothing < 1:
        hint = "choose a share from 0 to below 1, such as 0.05; 0: what a state never said is impossible"
        raise InputError(f"smoothing is {smoothing}", hint=hint)


class HMMModel:
    """A hidden Markov language model trained with Baum–Welch.

    With probability `smoothing` a state emits from a distribution shared by all states, which reserves mass for unseen
    words. The mixture is part of the model, so no iteration lowers the likelihood.

    states        number of states without the boundary state
    eos_id        begins and ends every row
    excluded_ids  ids with probability 0; the others sum to 1
    smoothing     weight of the shared distribution
    """

    heads = ("next",)
    is_pseudo_likelihood = False  # scores are factors of the probability of a row
    max_length = None  # rows may have any length

    def __init__(
        self, *, states: int, vocab_size: int, eos_id: int, excluded_ids: Iterable[int] = (), smoothing: float = 0.05
    ) -> None:
        validate_hmm(states, smoothing)
        self.states, self.eos_id, self.smoothing = states, eos_id, smoothing
        self.predictable = np.ones(vocab_size, bool)
        self.predictable[list(excluded_ids)] = False
        if not self.predictable[eos_id]:
            raise InputError(f"the end of a text (id {eos_id}) is among the tokens that are never predicted")
        self.counts = np.zeros(vocab_size, np.int64)  # token counts of the text, EOS included
        self._transitions, self._emissions = self._uniform_tables()
        self._expected_transitions, self._expected_emissions = self._zero_expectations()
        self.iterations = 0
        self._parameters: HMMParameters | None = None
        self.notes: list[str] = []

    @property
    def vocab_size(self) -> int:
        return len(self.predictable)

    # -- training

    def set_token_counts(self, counts: np.ndarray) -> None:
        """Set the token counts of the whole training text."""
        if int(np.sum(counts)) >= MAX_TOKENS:
            message = f"{int(np.sum(counts)):,} tokens are more than can be counted in parts of 2^-32"
            raise InputError(message, hint=f"learn from fewer than {MAX_TOKENS:,}: give a part of the text")
        self.counts = np.where(self.predictable, np.asarray(counts, np.int64), 0)
        self._parameters = None

    def initialize(self, seed: int) -> None:
        """Random initialization around the unigram distribution."""
        rng = np.random.default_rng([seed, self.states])
        transitions, _ = self._uniform_tables()
        transitions[:-1] *= rng.exponential(1.0, (self.states, self.states + 1))
        emissions = self._shared_distribution()[:, None] * rng.exponential(1.0, (self.vocab_size, self.states))
        emissions[self.counts == 0] = 0.0
        self._transitions, self._emissions = (
            _normalize(transitions, 1),
            _normalize(emissions, 0, self._uniform_tables()[1]),
        )
        self._expected_transitions, self._expected_emissions = self._zero_expectations()
        self.iterations, self._parameters = 0, None

    def accumulate(self, tokens: np.ndarray, lengths: np.ndarray, targets: np.ndarray) -> float:
        """Add the expected counts of rows [eos, w1 … wn] with targets [w1 … wn, eos]; returns their -log P."""
        targets, lengths = np.asarray(targets, np.int64), np.asarray(lengths, np.int64)
        if not len(lengths):
            return 0.0
        self._require_complete_rows(np.asarray(tokens), lengths, targets)
        parameters = self.smoothed_parameters()

        def expect_slice(rows: slice, span: slice, ends: np.ndarray) -> tuple[np.ndarray, ...]:
            expectations = (
                self._zero_expectations() if rows.start else (self._expected_transitions, self._expected_emissions)
            )
            losses = kernels.baum_welch(
                targets[span], ends, parameters.transitions, parameters.emissions, *expectations
            )
            return losses, *expectations

        results = map_slices(expect_slice, lengths, self.states)
        for _, transitions, emissions in results[1:]:  # integers, so the sum does not depend on the order
            self._expected_transitions += transitions
            self._expected_emissions += emissions
        return float(np.concatenate([losses for losses, *_ in results]).sum())

    def update(self) -> None:
        """M step: new parameters from the expected counts, which are cleared."""
        parameters = self.smoothed_parameters()
        if self.smoothing:  # only the part of each count due to a state's own distribution
            transitions = self._expected_transitions * _ratio(self._weighted_transitions(), parameters.transitions)
            emissions = self._expected_emissions[:, :-1] * _ratio(
                self._weighted_emissions(), parameters.emissions[:, :-1]
            )
        else:
            transitions = self._expected_transitions.astype(np.float64)
            emissions = self._expected_emissions[:, :-1].astype(np.float64)
        self._transitions, self._emissions = (
            _normalize(transitions, 1, self._transitions),
            _normalize(emissions, 0, self._emissions),
        )
        self._expected_transitions, self._expected_emissions = self._zero_expectations()
        self.iterations, self._parameters = self.iterations + 1, None

    @property
    def has_expectations(self) -> bool:
        return bool(self._expected_transitions.any())

    def _require_complete_rows(self, tokens: np.ndarray, lengths: np.ndarray, targets: np.ndarray) -> None:
        last_positions = np.cumsum(lengths) - 1
        is_last = np.zeros(len(targets), bool)
        is_last[last_positions] = True
        if (
            not np.array_equal(targets == self.eos_id, is_last)
            or not (tokens[last_positions + 1 - lengths] == self.eos_id).all()
        ):
            raise ForebearError(f"states are learned from whole rows, all asked for, between two ids {self.eos_id}")
        is_allowed = (targets >= 0) & (targets < self.vocab_size)
        is_allowed[is_allowed] = self.predictable[targets[is_allowed]]
        if not is_allowed.all():
            message = f"the text holds the id {targets[~is_allowed][0]}, which this model never predicts"
            raise InputError(message, hint="prepare the text with the tokenizer of this run")

    # -- tables

    def smoothed_parameters(self) -> HMMParameters:
        """The smoothed probabilities, computed on first use and cached until the next update."""
        if self._parameters is None:
            emissions = np.zeros((self.vocab_size, self.states + 1))
            emissions[:, :-1] = self._weighted_emissions()
            transitions = self._weighted_transitions()
            if self.smoothing:
                emissions[:, :-1] += self.smoothing * self._shared_distribution()[:, None]
                transitions = transitions + self.smoothing * TRANSITION_SMOOTHING * self._uniform_tables()[0]
            emissions[self.eos_id, -1] = 1.0
            self._parameters = HMMParameters(transitions, emissions, self.eos_id)
        return self._parameters

    def _weighted_transitions(self) -> np.ndarray:
        return (1 - self.smoothing * TRANSITION_SMOOTHING) * self._transitions

    def _weighted_emissions(self) -> np.ndarray:
        return (1 - self.smoothing) * self._emissions

    def _uniform_tables(self) -> tuple[np.ndarray, np.ndarray]:
        """Uniform transitions with the observed EOS probability; unigram emissions."""
        num_eos, num_tokens = int(self.counts[self.eos_id]), int(self.counts.sum())
        eos_prob = (num_eos + 1) / (num_tokens + 2) if np.count_nonzero(self.predictable) > 1 else 1.0
        transitions = np.full((self.states + 1, self.states + 1), (1 - eos_prob) / self.states)
        transitions[:, -1] = eos_prob
        return transitions, np.tile(self._shared_distribution()[:, None], self.states)

    def _shared_distribution(self) -> np.ndarray:
        """(V,) unigram distribution shared by all states, with Good–Turing mass for unseen words."""
        counts = self.counts.copy()
        counts[self.eos_id] = 0
        is_unseen = self.predictable & (counts == 0)
        is_unseen[self.eos_id] = False
        total, num_singletons = int(counts.sum()), max(1, np.count_nonzero(counts == 1))
        if not total:
            return _normalize(is_unseen.astype(np.float64), 0) if is_unseen.any() else np.zeros(self.vocab_size)
        unseen_mass = 0.0
        if self.smoothing and is_unseen.any():
            unseen_mass = min(MAX_UNSEEN_MASS, num_singletons / (total + num_singletons) / self.smoothing)
        return (1 - unseen_mass) * counts / total + unseen_mass * is_unseen / max(1, np.count_nonzero(is_unseen))

    def _zero_expectations(self) -> tuple[np.ndarray, np.ndarray]:
        size = self.states + 1
        return np.zeros((size, size), np.int64), np.zeros((self.vocab_size, size), np.int64)

    # -- prediction

    def score(self, rows: Sequence[np.ndarray]) -> list[np.ndarray]:
        """For each row, log P(row[i] given row[:i]) for i = 1, 2, …"""
        return self.smoothed_parameters().score(rows)

    def next_log_probs(self, rows: Sequence[np.ndarray]) -> np.ndarray:
        """(B, V) log P(next token given the row)."""
        return self.smoothed_parameters().next_log_probs(rows)

    def start_decoding(self, rows: Sequence[np.ndarray], max_new_tokens: int) -> HMMDecodingState:
        return self.smoothed_parameters().start_decoding(rows, max_new_tokens)

    # -- saved state

    def arrays(self) -> dict[str, np.ndarray]:
        """The state without the expected counts of an unfinished epoch."""
        iterations = np.array([self.iterations], np.int64)
        return {"moves": self._transitions, "words": self._emissions, "counts": self.counts, "iterations": iterations}

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        require_state(f"hidden Markov model of {self.states} states", arrays, self.arrays())
        self._transitions, self._emissions, self.counts = arrays["moves"], arrays["words"], arrays["counts"]
        self._expected_transitions, self._expected_emissions = self._zero_expectations()
        self.iterations, self._parameters = int(arrays["iterations"][0]), None

    def training_state(self) -> dict[str, np.ndarray]:
        """Expected counts of the unfinished epoch."""
        return {"told_moves": self._expected_transitions, "told_words": self._expected_emissions}

    def load_training_state(self, arrays: Mapping[str, np.ndarray]) -> None:
        require_state(f"hidden Markov model of {self.states} states", arrays, self.training_state())
        self._expected_transitions, self._expected_emissions = arrays["told_moves"].copy(), arrays["told_words"].copy()

    # -- metadata

    @property
    def num_parameters(self) -> int:
        """Number of probabilities in the tables."""
        return self._transitions.size + self._emissions.size

    def describe(self) -> dict[str, Any]:
        """Metadata as JSON values."""
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
    """Normalize along an axis; slices without counts take their values from `fallback`."""
    total = counts.sum(axis=axis, keepdims=True)
    normalized = _ratio(counts, total)
    return normalized if fallback is None else np.where(total > 0, normalized, fallback)


def _ratio(numerators: np.ndarray, totals: np.ndarray) -> np.ndarray:
    return numerators / np.where(totals > 0, totals, 1.0)
