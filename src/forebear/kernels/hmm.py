"""HMM kernels: forward filter, posteriors, Viterbi and Baum–Welch counts, with their numpy twins.

There are K states, followed by a border state in which every row begins and which alone emits `end`. Starts and ends of
rows are therefore ordinary transitions. Probabilities are rescaled at every token, so rows may have any length.
Expected counts are integers in units of 2^-32, so their sums do not depend on order or partitioning.

S = K + 1 states · tokens of all rows (T,), `ends` (B,) the end of each row
moves (S, S) from, to · emissions (V, S) P(token given state)
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from forebear.kernels.jit import compile_kernel

UNIT = float(1 << 32)  # expected counts are integers in units of 2^-32
MIN_PROB = 1e-300  # smaller probabilities are not counted: their inverse would overflow
BLOCK = 4096  # tokens whose filtered probabilities are kept; for longer rows they are recomputed block by block
CONTRACT = frozenset({"contract"})  # fused multiply-add
ANY_ORDER = CONTRACT | {"reassoc"}  # sums in another order, but always in the same one
FOUR = 4  # table rows added at once, so that sums are loaded and stored less often


def forward_filter(
    tokens: np.ndarray, ends: np.ndarray, initial: np.ndarray, moves: np.ndarray, emissions: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(T,) log P of each token given those before it, and (B, S) P of each state at the end of each row.

    `initial` (B, S) has the state probabilities before the first token. An impossible token leaves them unchanged.
    """
    logs, final = np.zeros(len(tokens)), initial.copy()
    compile_kernel(_forward_filter_kernel, CONTRACT)(tokens, ends, moves, emissions, logs, final)
    return logs, final


def state_posteriors(
    tokens: np.ndarray, ends: np.ndarray, first: np.ndarray, moves: np.ndarray, emissions: np.ndarray
) -> np.ndarray:
    """(T, S) P of each state at each token given the whole row."""
    posteriors, beta = np.zeros((len(tokens), len(moves))), np.ascontiguousarray(moves.T)
    compile_kernel(_state_posteriors_kernel, CONTRACT)(tokens, ends, first, moves, beta, emissions, posteriors)
    return posteriors


def hmm_viterbi(
    tokens: np.ndarray, ends: np.ndarray, first: np.ndarray, moves: np.ndarray, emissions: np.ndarray
) -> np.ndarray:
    """(T,) the most probable state sequence of each row (Viterbi); all arrays are logarithms."""
    path = np.zeros(len(tokens), np.int64)
    longest = int(np.diff(ends, prepend=0).max(initial=0))
    dtype = np.int16 if len(moves) < 1 << 15 else np.int32
    came_from = np.zeros((longest, len(moves)), dtype)
    compile_kernel(_viterbi_kernel)(tokens, ends, first, np.ascontiguousarray(moves), emissions, came_from, path)
    return path


def baum_welch(
    tokens: np.ndarray,
    ends: np.ndarray,
    moves: np.ndarray,
    emissions: np.ndarray,
    expected_moves: np.ndarray,
    expected_emissions: np.ndarray,
) -> np.ndarray:
    """(B,) -log P of each row from the border on; adds the expected counts of the rows, in units of 2^-32.

    expected_moves      (S, S) int64: transitions
    expected_emissions  (V, S) int64: emissions
    """
    losses = np.zeros(len(ends))
    longest = int(np.diff(ends, prepend=0).max(initial=0))
    room = np.zeros((min(longest, BLOCK), len(moves)))
    marks = np.zeros((-(-longest // BLOCK), len(moves)))
    back = np.ascontiguousarray(moves.T)
    compile_kernel(_baum_welch_kernel, CONTRACT)(
        tokens, ends, moves, back, emissions, room, marks, expected_moves, expected_emissions, losses
    )
    return losses


# --- Parts of the loops ---

_contracted_kernel = partial(compile_kernel, allowed=CONTRACT)
_any_order_kernel = partial(compile_kernel, allowed=ANY_ORDER)


@_contracted_kernel
def _vector_matrix(state, table, predicted):
    """predicted = state @ table."""
    many = len(state)
    fours = many - many % FOUR
    predicted[:] = 0.0
    for one in range(0, fours, FOUR):
        a, b, c, d = state[one], state[one + 1], state[one + 2], state[one + 3]
        if a != 0.0 or b != 0.0 or c != 0.0 or d != 0.0:
            for other in range(many):
                left = a * table[one, other] + b * table[one + 1, other]
                predicted[other] += left + (c * table[one + 2, other] + d * table[one + 3, other])
    for one in range(fours, many):
        for other in range(many):
            predicted[other] += state[one] * table[one, other]


@_any_order_kernel
def _apply_emission(state, predicted, emission):
    """P of an emitted token; `state` becomes the state probabilities after it, given those predicted before it.

    An emission that is impossible in every state leaves the prediction unchanged.
    """
    for one in range(len(state)):
        state[one] = predicted[one] * emission[one]
    prob = 0.0
    for one in range(len(state)):  # a loop of its own: with stores in it, the order of the sum depends on alignment
        prob += state[one]
    if prob > MIN_PROB:
        scale = 1.0 / prob
        for one in range(len(state)):
            state[one] *= scale
    else:
        for one in range(len(state)):
            state[one] = state[one] / prob if prob > 0.0 else predicted[one]
    return prob


@_any_order_kernel
def _backward_message(alpha, emission, beta, message):
    """Backward message through an emission; returns Σ alpha · beta and whether the emission was possible."""
    evidence, total = 0.0, 0.0
    for one in range(len(alpha)):
        evidence += alpha[one] * emission[one]
        total += alpha[one] * beta[one]
    for one in range(len(alpha)):
        message[one] = emission[one] * beta[one] if evidence > 0.0 else beta[one]
    return total, evidence > 0.0


@_any_order_kernel
def _normalize(beta):
    """Rescale to a sum of 1: only ratios matter."""
    total = 0.0
    for one in range(len(beta)):
        total += beta[one]
    scale = 1.0 / total if total > MIN_PROB else 0.0
    for one in range(len(beta)):
        beta[one] = beta[one] * scale if scale else 1.0


@_any_order_kernel
def _dot(one_side, other_side):
    total = 0.0
    for one in range(len(one_side)):
        total += one_side[one] * other_side[one]
    return total


@_contracted_kernel
def _add_products(sums, lefts, rights):
    """sums += lefts.T @ rights, of four rows each."""
    many = len(sums)
    for one in range(many):
        a, b, c, d = lefts[0, one], lefts[1, one], lefts[2, one], lefts[3, one]
        if a != 0.0 or b != 0.0 or c != 0.0 or d != 0.0:
            for other in range(many):
                left = a * rights[0, other] + b * rights[1, other]
                sums[one, other] += left + (c * rights[2, other] + d * rights[3, other])
    lefts[:] = 0.0


@_contracted_kernel
def _filter_block(tokens, moves, emissions, state, predicted, room):
    """Filter a block of tokens into `room`; returns its -log P."""
    loss = 0.0
    for position in range(len(tokens)):
        _vector_matrix(state, moves, predicted)
        prob = _apply_emission(state, predicted, emissions[tokens[position]])
        room[position] = state
        loss -= math.log(prob) if prob > 0.0 else -np.inf
    return loss


@_contracted_kernel
def _count_emission(counts, alpha, beta, total):
    """Add the posterior of one token to the expected counts."""
    scale = UNIT / total
    for one in range(len(counts)):
        counts[one] += np.int64(alpha[one] * beta[one] * scale + 0.5)


@_contracted_kernel
def _count_block(tokens, mark, room, back, emissions, beta, sums, expected_emissions):
    """Backward through a block: adds the expected transitions and emissions."""
    many = len(beta)
    message, lefts, rights = np.zeros(many), np.zeros((FOUR, many)), np.zeros((FOUR, many))
    for position in range(len(tokens) - 1, -1, -1):
        here, previous_alpha, line = room[position], room[position - 1] if position else mark, position % FOUR
        total, possible = _backward_message(here, emissions[tokens[position]], beta, message)
        if possible and total > MIN_PROB:
            _count_emission(expected_emissions[tokens[position]], here, beta, total)
        _vector_matrix(message, back, beta)
        total = _dot(previous_alpha, beta)
        if total > MIN_PROB:
            scale = 1.0 / total
            for one in range(many):
                lefts[line, one] = previous_alpha[one] * scale
                rights[line, one] = message[one]
        if not line:
            _add_products(sums, lefts, rights)
        _normalize(beta)


def _forward_filter_kernel(tokens, ends, moves, emissions, logs, last):
    predicted, begin = np.zeros(len(moves)), 0
    for row in range(len(ends)):
        for position in range(begin, ends[row]):
            _vector_matrix(last[row], moves, predicted)
            prob = _apply_emission(last[row], predicted, emissions[tokens[position]])
            logs[position] = math.log(prob) if prob > 0.0 else -np.inf
        begin = ends[row]


def _state_posteriors_kernel(tokens, ends, first, moves, back, emissions, posteriors):
    """`posteriors` holds filtered probabilities first, then posteriors."""
    many, begin = len(moves), 0
    state, predicted, beta, message = np.zeros(many), np.zeros(many), np.zeros(many), np.zeros(many)
    for row in range(len(ends)):
        state[:] = first[row]
        _filter_block(tokens[begin : ends[row]], moves, emissions, state, predicted, posteriors[begin : ends[row]])
        beta[:] = 1.0
        for position in range(ends[row] - 1, begin - 1, -1):
            here = posteriors[position]
            total, _ = _backward_message(here, emissions[tokens[position]], beta, message)
            for one in range(many):
                here[one] = here[one] * beta[one] / total if total > 0.0 else here[one]
            _vector_matrix(message, back, beta)
            _normalize(beta)
        begin = ends[row]


def _viterbi_kernel(tokens, ends, first, moves, emissions, came_from, path):
    many, begin = len(moves), 0
    scores, predicted = np.zeros(many), np.zeros(many)
    for row in range(len(ends)):
        scores[:] = first[row]
        for position in range(begin, ends[row]):
            pointers, emission = came_from[position - begin], emissions[tokens[position]]
            predicted[:] = scores[0] + moves[0]
            pointers[:] = 0
            for one in range(1, many):
                if scores[one] > -np.inf:
                    for other in range(many):
                        through = scores[one] + moves[one, other]
                        pointers[other] = one if through > predicted[other] else pointers[other]
                        predicted[other] = max(through, predicted[other])
            for one in range(many):
                scores[one] = predicted[one] + emission[one]
        state = np.argmax(scores)
        for position in range(ends[row] - 1, begin - 1, -1):
            path[position] = state
            state = came_from[position - begin, state]
        begin = ends[row]


def _baum_welch_kernel(tokens, ends, moves, back, emissions, room, marks, expected_moves, expected_emissions, losses):
    """room   (block, S) filtered probabilities of the tokens of a block
    marks  (blocks, S) the same before the first token of each block
    """
    many, block, begin = len(moves), max(1, len(room)), 0
    state, predicted, beta, sums = np.zeros(many), np.zeros(many), np.zeros(many), np.zeros((many, many))
    for row in range(len(ends)):
        row_tokens = tokens[begin : ends[row]]
        blocks = (len(row_tokens) + block - 1) // block
        state[:] = 0.0
        state[many - 1] = 1.0
        sums[:] = 0.0
        beta[:] = 1.0
        for number in range(blocks):
            marks[number] = state
            here = row_tokens[number * block : (number + 1) * block]
            losses[row] += _filter_block(here, moves, emissions, state, predicted, room)
        for number in range(blocks - 1, -1, -1):
            here = row_tokens[number * block : (number + 1) * block]
            if number < blocks - 1:  # that of the last block is still there
                state[:] = marks[number]
                _filter_block(here, moves, emissions, state, predicted, room)
            _count_block(here, marks[number], room, back, emissions, beta, sums, expected_emissions)
        for one in range(many):
            for other in range(many):
                expected_moves[one, other] += np.int64(sums[one, other] * moves[one, other] * UNIT + 0.5)
        begin = ends[row]


# --- numpy reference ---


def forward_filter_reference(
    tokens: np.ndarray, ends: np.ndarray, first: np.ndarray, moves: np.ndarray, emissions: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Readable twin of `forward_filter`."""
    logs, last, begin = np.zeros(len(tokens)), first.copy(), 0
    for row, end in enumerate(ends.tolist()):
        for position in range(begin, end):
            predicted = last[row] @ moves
            joint = predicted * emissions[tokens[position]]
            prob = joint.sum()
            logs[position] = math.log(prob) if prob > 0 else -math.inf
            last[row] = joint / prob if prob > 0 else predicted
        begin = end
    return logs, last


def state_posteriors_reference(
    tokens: np.ndarray, ends: np.ndarray, first: np.ndarray, moves: np.ndarray, emissions: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Readable twin of `state_posteriors`; also returns (S, S) expected transitions."""
    posteriors, expected_moves, begin = np.zeros((len(tokens), len(moves))), np.zeros(moves.shape), 0
    for row, end in enumerate(ends.tolist()):
        here = slice(begin, end)
        before, emission_rows = [first[row]], [emissions[token] for token in tokens[here]]
        for position, emission in enumerate(emission_rows):
            if not (before[-1] @ moves @ emission):
                emission_rows[position] = emission = np.ones(len(moves))
            joint = (before[-1] @ moves) * emission
            before.append(joint / joint.sum())
        beta = np.ones(len(moves))
        for position in range(end - begin - 1, -1, -1):
            joint = before[position + 1] * beta
            posteriors[begin + position] = joint / joint.sum()
            pairs = before[position][:, None] * moves * (emission_rows[position] * beta)
            expected_moves += pairs / pairs.sum()
            beta = moves @ (emission_rows[position] * beta)
            beta /= beta.sum()
        begin = end
    return posteriors, expected_moves


def hmm_viterbi_reference(
    tokens: np.ndarray, ends: np.ndarray, first: np.ndarray, moves: np.ndarray, emissions: np.ndarray
) -> np.ndarray:
    """Readable twin of `hmm_viterbi`."""
    path, begin = np.zeros(len(tokens), np.int64), 0
    for row, end in enumerate(ends.tolist()):
        scores, came_from = first[row], []
        for token in tokens[begin:end]:
            through = scores[:, None] + moves
            came_from.append(through.argmax(0))
            scores = through.max(0) + emissions[token]
        state = int(scores.argmax())
        for position in range(end - begin - 1, -1, -1):
            path[begin + position] = state
            state = int(came_from[position][state])
        begin = end
    return path
