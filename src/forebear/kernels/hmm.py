"""HMM kernels: forward filter, posteriors, Viterbi and Baum–Welch counts, with their numpy references.

There are K states, followed by a boundary state, in which every row begins and which alone emits EOS. Starts and ends
of rows are therefore ordinary transitions. Probabilities are rescaled at every token, so rows may have any length.
Expected counts are integers in units of 2^-32, so their sums do not depend on order or partitioning.

S = K + 1 states · tokens of all rows (T,), `ends` (B,) the end of each row
transitions (S, S) from, to · emissions (V, S) P(token given state)
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from forebear.kernels.jit import compile_kernel

COUNT_UNIT = float(1 << 32)  # expected counts are integers in units of 2^-32
MIN_PROB = 1e-300  # smaller probabilities are not counted: their inverse would overflow
# Tokens whose filtered probabilities are stored; for longer rows they are recomputed block by block.
TOKENS_PER_BLOCK = 4096
CONTRACT = frozenset({"contract"})  # fused multiply-add
ANY_ORDER = CONTRACT | {"reassoc"}  # sums in another order, but always in the same one
ROWS_AT_ONCE = 4  # table rows added at once, so that sums are loaded and stored less often


def forward_filter(
    tokens: np.ndarray, ends: np.ndarray, initial: np.ndarray, transitions: np.ndarray, emissions: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(T,) log P of each token given those before it, and (B, S) P of each state at the end of each row.

    `initial` (B, S) has the state probabilities before the first token. An impossible token leaves them unchanged.
    """
    logs, final = np.zeros(len(tokens)), initial.copy()
    compile_kernel(_forward_filter_kernel, CONTRACT)(tokens, ends, transitions, emissions, logs, final)
    return logs, final


def state_posteriors(
    tokens: np.ndarray, ends: np.ndarray, initial: np.ndarray, transitions: np.ndarray, emissions: np.ndarray
) -> np.ndarray:
    """(T, S) P of each state at each token given the whole row."""
    posteriors, transposed = np.zeros((len(tokens), len(transitions))), np.ascontiguousarray(transitions.T)
    compile_kernel(_state_posteriors_kernel, CONTRACT)(
        tokens, ends, initial, transitions, transposed, emissions, posteriors
    )
    return posteriors


def hmm_viterbi(
    tokens: np.ndarray, ends: np.ndarray, initial: np.ndarray, transitions: np.ndarray, emissions: np.ndarray
) -> np.ndarray:
    """(T,) the most probable state sequence of each row (Viterbi); all arrays are logarithms."""
    path = np.zeros(len(tokens), np.int64)
    max_length = int(np.diff(ends, prepend=0).max(initial=0))
    dtype = np.int16 if len(transitions) < 1 << 15 else np.int32
    backpointers = np.zeros((max_length, len(transitions)), dtype)
    compile_kernel(_viterbi_kernel)(
        tokens, ends, initial, np.ascontiguousarray(transitions), emissions, backpointers, path
    )
    return path


def baum_welch(
    tokens: np.ndarray,
    ends: np.ndarray,
    transitions: np.ndarray,
    emissions: np.ndarray,
    expected_transitions: np.ndarray,
    expected_emissions: np.ndarray,
) -> np.ndarray:
    """(B,) -log P of each row from the boundary state on; adds the expected counts of the rows, in units of 2^-32.

    expected_transitions  (S, S) int64
    expected_emissions    (V, S) int64
    """
    losses = np.zeros(len(ends))
    max_length = int(np.diff(ends, prepend=0).max(initial=0))
    filtered = np.zeros((min(max_length, TOKENS_PER_BLOCK), len(transitions)))
    block_starts = np.zeros((-(-max_length // TOKENS_PER_BLOCK), len(transitions)))
    transposed = np.ascontiguousarray(transitions.T)
    tables, expected = (transitions, transposed, emissions), (expected_transitions, expected_emissions)
    compile_kernel(_baum_welch_kernel, CONTRACT)(tokens, ends, *tables, filtered, block_starts, *expected, losses)
    return losses


# --- Compiled kernels ---

_contracted_kernel = partial(compile_kernel, fastmath=CONTRACT)
_any_order_kernel = partial(compile_kernel, fastmath=ANY_ORDER)


@_contracted_kernel
def _vector_matrix(state, table, predicted):
    """predicted = state @ table."""
    num_states = len(state)
    unrolled_end = num_states - num_states % ROWS_AT_ONCE
    predicted[:] = 0.0
    for i in range(0, unrolled_end, ROWS_AT_ONCE):
        a, b, c, d = state[i], state[i + 1], state[i + 2], state[i + 3]
        if a != 0.0 or b != 0.0 or c != 0.0 or d != 0.0:
            for j in range(num_states):
                partial_sum = a * table[i, j] + b * table[i + 1, j]
                predicted[j] += partial_sum + (c * table[i + 2, j] + d * table[i + 3, j])
    for i in range(unrolled_end, num_states):
        for j in range(num_states):
            predicted[j] += state[i] * table[i, j]


@_any_order_kernel
def _apply_emission(state, predicted, emission):
    """P of an emitted token; `state` becomes the state probabilities after it, given those predicted before it.

    An emission that is impossible in every state leaves the prediction unchanged.
    """
    for i in range(len(state)):
        state[i] = predicted[i] * emission[i]
    prob = 0.0
    for i in range(len(state)):  # a separate loop: with stores in it, the order of the sum would depend on alignment
        prob += state[i]
    if prob > MIN_PROB:
        scale = 1.0 / prob
        for i in range(len(state)):
            state[i] *= scale
    else:
        for i in range(len(state)):
            state[i] = state[i] / prob if prob > 0.0 else predicted[i]
    return prob


@_any_order_kernel
def _backward_message(alpha, emission, beta, message):
    """Backward message through an emission; returns Σ alpha · beta and whether the emission was possible."""
    evidence, total = 0.0, 0.0
    for i in range(len(alpha)):
        evidence += alpha[i] * emission[i]
        total += alpha[i] * beta[i]
    for i in range(len(alpha)):
        message[i] = emission[i] * beta[i] if evidence > 0.0 else beta[i]
    return total, evidence > 0.0


@_any_order_kernel
def _normalize(beta):
    """Rescale to a sum of 1: only ratios matter."""
    total = 0.0
    for i in range(len(beta)):
        total += beta[i]
    scale = 1.0 / total if total > MIN_PROB else 0.0
    for i in range(len(beta)):
        beta[i] = beta[i] * scale if scale else 1.0


@_any_order_kernel
def _dot(x, y):
    total = 0.0
    for i in range(len(x)):
        total += x[i] * y[i]
    return total


@_contracted_kernel
def _add_products(sums, alphas, messages):
    """sums += alphas.T @ messages, of four rows each."""
    num_states = len(sums)
    for i in range(num_states):
        a, b, c, d = alphas[0, i], alphas[1, i], alphas[2, i], alphas[3, i]
        if a != 0.0 or b != 0.0 or c != 0.0 or d != 0.0:
            for j in range(num_states):
                partial_sum = a * messages[0, j] + b * messages[1, j]
                sums[i, j] += partial_sum + (c * messages[2, j] + d * messages[3, j])
    alphas[:] = 0.0


@_contracted_kernel
def _filter_block(tokens, transitions, emissions, state, predicted, filtered):
    """Filter a block of tokens into `filtered`; returns its -log P."""
    loss = 0.0
    for position in range(len(tokens)):
        _vector_matrix(state, transitions, predicted)
        prob = _apply_emission(state, predicted, emissions[tokens[position]])
        filtered[position] = state
        loss -= math.log(prob) if prob > 0.0 else -np.inf
    return loss


@_contracted_kernel
def _count_emission(counts, alpha, beta, total):
    """Add the posterior of one token to the expected counts."""
    scale = COUNT_UNIT / total
    for i in range(len(counts)):
        counts[i] += np.int64(alpha[i] * beta[i] * scale + 0.5)


@_contracted_kernel
def _count_block(tokens, block_start, filtered, transposed, emissions, beta, sums, expected_emissions):
    """Backward through a block: adds the expected transitions and emissions."""
    num_states = len(beta)
    message = np.zeros(num_states)
    alphas = np.zeros((ROWS_AT_ONCE, num_states))
    messages = np.zeros((ROWS_AT_ONCE, num_states))
    for position in range(len(tokens) - 1, -1, -1):
        alpha = filtered[position]
        previous_alpha = filtered[position - 1] if position else block_start
        batch_row = position % ROWS_AT_ONCE
        total, is_possible = _backward_message(alpha, emissions[tokens[position]], beta, message)
        if is_possible and total > MIN_PROB:
            _count_emission(expected_emissions[tokens[position]], alpha, beta, total)
        _vector_matrix(message, transposed, beta)
        total = _dot(previous_alpha, beta)
        if total > MIN_PROB:
            scale = 1.0 / total
            for i in range(num_states):
                alphas[batch_row, i] = previous_alpha[i] * scale
                messages[batch_row, i] = message[i]
        if not batch_row:
            _add_products(sums, alphas, messages)
        _normalize(beta)


def _forward_filter_kernel(tokens, ends, transitions, emissions, logs, states):
    predicted, begin = np.zeros(len(transitions)), 0
    for row in range(len(ends)):
        for position in range(begin, ends[row]):
            _vector_matrix(states[row], transitions, predicted)
            prob = _apply_emission(states[row], predicted, emissions[tokens[position]])
            logs[position] = math.log(prob) if prob > 0.0 else -np.inf
        begin = ends[row]


def _state_posteriors_kernel(tokens, ends, initial, transitions, transposed, emissions, posteriors):
    """`posteriors` holds filtered probabilities first, then posteriors."""
    num_states, begin = len(transitions), 0
    state = np.zeros(num_states)
    predicted = np.zeros(num_states)
    beta = np.zeros(num_states)
    message = np.zeros(num_states)
    for row in range(len(ends)):
        state[:] = initial[row]
        _filter_block(
            tokens[begin : ends[row]], transitions, emissions, state, predicted, posteriors[begin : ends[row]]
        )
        beta[:] = 1.0
        for position in range(ends[row] - 1, begin - 1, -1):
            posterior = posteriors[position]
            total, _ = _backward_message(posterior, emissions[tokens[position]], beta, message)
            for i in range(num_states):
                posterior[i] = posterior[i] * beta[i] / total if total > 0.0 else posterior[i]
            _vector_matrix(message, transposed, beta)
            _normalize(beta)
        begin = ends[row]


def _viterbi_kernel(tokens, ends, initial, transitions, emissions, backpointers, path):
    num_states, begin = len(transitions), 0
    scores, predicted = np.zeros(num_states), np.zeros(num_states)
    for row in range(len(ends)):
        scores[:] = initial[row]
        for position in range(begin, ends[row]):
            pointers, emission = backpointers[position - begin], emissions[tokens[position]]
            predicted[:] = scores[0] + transitions[0]
            pointers[:] = 0
            for i in range(1, num_states):
                if scores[i] > -np.inf:
                    for j in range(num_states):
                        score = scores[i] + transitions[i, j]
                        pointers[j] = i if score > predicted[j] else pointers[j]
                        predicted[j] = max(score, predicted[j])
            for i in range(num_states):
                scores[i] = predicted[i] + emission[i]
        state = np.argmax(scores)
        for position in range(ends[row] - 1, begin - 1, -1):
            path[position] = state
            state = backpointers[position - begin, state]
        begin = ends[row]


def _baum_welch_kernel(
    tokens, ends, transitions, transposed, emissions, filtered, block_starts, expected_transitions, expected_emissions,
    losses,
):  # fmt: skip
    """filtered      (block, S) filtered probabilities of the tokens of a block
    block_starts  (blocks, S) the same before the first token of each block
    """
    num_states, block_size, begin = len(transitions), max(1, len(filtered)), 0
    state = np.zeros(num_states)
    predicted = np.zeros(num_states)
    beta = np.zeros(num_states)
    sums = np.zeros((num_states, num_states))
    for row in range(len(ends)):
        row_tokens = tokens[begin : ends[row]]
        num_blocks = (len(row_tokens) + block_size - 1) // block_size
        state[:] = 0.0
        state[num_states - 1] = 1.0
        sums[:] = 0.0
        beta[:] = 1.0
        for block_index in range(num_blocks):
            block_starts[block_index] = state
            block_tokens = row_tokens[block_index * block_size : (block_index + 1) * block_size]
            losses[row] += _filter_block(block_tokens, transitions, emissions, state, predicted, filtered)
        for block_index in range(num_blocks - 1, -1, -1):
            block_tokens = row_tokens[block_index * block_size : (block_index + 1) * block_size]
            if block_index < num_blocks - 1:  # the last block is still in `filtered`
                state[:] = block_starts[block_index]
                _filter_block(block_tokens, transitions, emissions, state, predicted, filtered)
            _count_block(
                block_tokens, block_starts[block_index], filtered, transposed, emissions, beta, sums, expected_emissions
            )
        for i in range(num_states):
            for j in range(num_states):
                expected_transitions[i, j] += np.int64(sums[i, j] * transitions[i, j] * COUNT_UNIT + 0.5)
        begin = ends[row]


# --- numpy reference ---


def forward_filter_reference(
    tokens: np.ndarray, ends: np.ndarray, initial: np.ndarray, transitions: np.ndarray, emissions: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Reference of `forward_filter`."""
    logs, states, begin = np.zeros(len(tokens)), initial.copy(), 0
    for row, end in enumerate(ends.tolist()):
        for position in range(begin, end):
            predicted = states[row] @ transitions
            joint = predicted * emissions[tokens[position]]
            prob = joint.sum()
            logs[position] = math.log(prob) if prob > 0 else -math.inf
            states[row] = joint / prob if prob > 0 else predicted
        begin = end
    return logs, states


def state_posteriors_reference(
    tokens: np.ndarray, ends: np.ndarray, initial: np.ndarray, transitions: np.ndarray, emissions: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Reference of `state_posteriors`; also returns (S, S) expected transitions."""
    posteriors, expected_transitions, begin = np.zeros((len(tokens), len(transitions))), np.zeros(transitions.shape), 0
    for row, end in enumerate(ends.tolist()):
        span = slice(begin, end)
        alphas, emission_rows = [initial[row]], [emissions[token] for token in tokens[span]]
        for position, emission in enumerate(emission_rows):
            if not (alphas[-1] @ transitions @ emission):
                emission_rows[position] = emission = np.ones(len(transitions))
            joint = (alphas[-1] @ transitions) * emission
            alphas.append(joint / joint.sum())
        beta = np.ones(len(transitions))
        for position in range(end - begin - 1, -1, -1):
            joint = alphas[position + 1] * beta
            posteriors[begin + position] = joint / joint.sum()
            pairs = alphas[position][:, None] * transitions * (emission_rows[position] * beta)
            expected_transitions += pairs / pairs.sum()
            beta = transitions @ (emission_rows[position] * beta)
            beta /= beta.sum()
        begin = end
    return posteriors, expected_transitions


def hmm_viterbi_reference(
    tokens: np.ndarray, ends: np.ndarray, initial: np.ndarray, transitions: np.ndarray, emissions: np.ndarray
) -> np.ndarray:
    """Reference of `hmm_viterbi`."""
    path, begin = np.zeros(len(tokens), np.int64), 0
    for row, end in enumerate(ends.tolist()):
        scores, backpointers = initial[row], []
        for token in tokens[begin:end]:
            candidates = scores[:, None] + transitions
            backpointers.append(candidates.argmax(0))
            scores = candidates.max(0) + emissions[token]
        state = int(scores.argmax())
        for position in range(end - begin - 1, -1, -1):
            path[begin + position] = state
            state = int(backpointers[position][state])
        begin = end
    return path
