"""Scoring texts with the n-gram hash table; the reference implementation is statistical/ngram/backoff.py.

Tokens are processed in blocks: all bigrams of a block are looked up, then the trigrams of those found, and so on. The
remaining ones are selected by summing zeros and ones, without branches to mispredict. An n-gram is only looked up if
its prefix and its suffix are present, so that no line is fetched in vain.
"""

from __future__ import annotations

import numpy as np

from forebear.kernels.intrinsics import prefetch
from forebear.kernels.jit import inline_kernel
from forebear.kernels.ngram_table import EIGHT, extend_hash, find_entry, find_highest_order_entry, home_line

NGRAM_SCORING_BLOCK = 256  # tokens: their buffers stay in the cache, and there are more than prefetches in flight
NGRAM_SCORING_PREFETCH = 24  # n-grams whose lines are prefetched
NGRAM_SCORING_ONE = np.uint64(1)  # unsigned indices need no check for negative ones


def scoring_buffers(order: int) -> tuple[np.ndarray, ...]:
    """Work arrays for scoring.

    For the tokens of a block, and at index 0 for the token before it:
    hashes, backoffs  by length, for the n-gram that ends there: its hash and its back-off
    matched           length of the longest n-gram that is present
    For the tokens of a block:
    ids, scores       token ids, and log P by the longest n-gram
    max_context       tokens of context that count
    For the n-grams that are looked up:
    pending, homes    token index within the block, and offset of the first line
    """
    return (
        np.zeros((order + 1, NGRAM_SCORING_BLOCK + 1), np.uint64),
        np.zeros((order + 1, NGRAM_SCORING_BLOCK + 1), np.float32),
        np.zeros(NGRAM_SCORING_BLOCK + 1, np.int32),
        np.zeros(NGRAM_SCORING_BLOCK, np.int32),
        np.zeros(NGRAM_SCORING_BLOCK),
        np.zeros(NGRAM_SCORING_BLOCK, np.int32),
        np.zeros(NGRAM_SCORING_BLOCK + 1, np.uint64),
        np.zeros(NGRAM_SCORING_BLOCK + 1, np.uint64),
    )


def score_ngrams_kernel(
    tokens, lengths, eos_id, order, salt, unigrams, lines, offsets, max_probe, uniform_log_probs, log_probs,
    matches, hashes, backoffs, matched, ids, scores, max_context, pending, homes,
):  # fmt: skip
    """log P of each token of concatenated rows, given the tokens before it in its row.

    The first token of a row is only context, and no context reaches across an `eos_id`.

    lines              (8 · lines,), and offsets (order + 2,): where the lines of n-grams of n tokens begin
    max_probe          (order + 1,) how many lines from its own an n-gram of n tokens is at most
    uniform_log_probs  (V,) or empty: fallback of tokens that a context lacks, instead of the shorter context
    log_probs          (tokens,) output
    matches            (tokens,) or empty, output: length of the longest n-gram that is present and ends at each token
    """
    row, remaining, previous_token = -1, np.int64(0), np.int32(-1)
    for begin in range(0, len(tokens), NGRAM_SCORING_BLOCK):
        block_size = min(NGRAM_SCORING_BLOCK, len(tokens) - begin)
        for position in range(block_size):
            token = tokens[begin + position]
            max_context[position] = min(1, order - 1) if previous_token == eos_id else order - 1
            if remaining == 0:
                while remaining == 0:
                    row += 1
                    remaining = lengths[row]
                max_context[position] = 0
            remaining -= 1
            previous_token = token
            ids[position], hashes[1, position + 1] = token, extend_hash(salt, token)
            matched[position + 1], pending[position] = 1, position
            scores[position], backoffs[1, position + 1] = unigrams[np.uint32(token), 0], unigrams[np.uint32(token), 1]
        count = block_size
        for n in range(2, order):
            count = _match_ngrams(
                n, count, lines, offsets, max_probe, hashes, backoffs, matched, ids, scores, max_context, pending, homes
            )
        if order > 1:
            _match_highest_order_ngrams(
                order, count, lines, offsets, max_probe, hashes, matched, ids, scores, max_context, pending, homes
            )
        if len(uniform_log_probs):
            for position in range(block_size):
                context_length = min(max_context[position], matched[position])
                if matched[position + 1] <= context_length:
                    scores[position] = np.float64(uniform_log_probs[ids[position]]) + backoffs[context_length, position]
        else:
            for n in range(1, order):
                for position in range(block_size):
                    is_used = (n >= matched[position + 1]) & (n <= max_context[position]) & (n <= matched[position])
                    scores[position] += backoffs[n, position] if is_used else 0.0
        for position in range(block_size):
            log_probs[begin + position] = scores[position]
        if len(matches):
            for position in range(block_size):
                matches[begin + position] = matched[position + 1]
        for n in range(1, order + 1):
            hashes[n, 0], backoffs[n, 0] = hashes[n, block_size], backoffs[n, block_size]
        matched[0] = matched[block_size]


@inline_kernel
def _select_candidates(n, count, lines, offsets, hashes, matched, ids, max_context, pending, homes):
    """Select the n-grams whose prefix and suffix are present, and prefetch the first; returns how many there are."""
    first_line, num_lines, num_candidates = (np.uint64(offsets[n]), offsets[n + 1] - offsets[n], np.uint64(0))
    for i in range(count):
        position = pending[np.uint64(i)]
        ngram_hash = extend_hash(hashes[n - 1, position], ids[position])
        hashes[n, position + NGRAM_SCORING_ONE], pending[num_candidates] = ngram_hash, position
        homes[num_candidates] = (first_line + home_line(ngram_hash, num_lines)) * EIGHT
        num_candidates += np.uint64((matched[position] >= n - 1) & (max_context[position] >= n - 1))
    for i in range(min(NGRAM_SCORING_PREFETCH, np.int64(num_candidates))):
        prefetch(lines, np.int64(homes[np.uint64(i)]))
    return np.int64(num_candidates)


@inline_kernel
def _match_ngrams(
    n, num_candidates, lines, offsets, max_probe, hashes, backoffs, matched, ids, scores, max_context, pending, homes
):
    """Look up the possible n-grams of n tokens; returns how many are present."""
    num_possible = _select_candidates(
        n, num_candidates, lines, offsets, hashes, matched, ids, max_context, pending, homes
    )
    count = np.uint64(0)
    last = np.uint64(max_probe[n]) * EIGHT
    for i in range(num_possible):
        if i + NGRAM_SCORING_PREFETCH < num_possible:
            prefetch(lines, np.int64(homes[np.uint64(i + NGRAM_SCORING_PREFETCH)]))
        position, home = pending[np.uint64(i)], homes[np.uint64(i)]
        is_match, log_prob, backoff = find_entry(lines, home, hashes[n, position + NGRAM_SCORING_ONE], home + last)
        scores[position] = np.float64(log_prob) if is_match else scores[position]
        backoffs[n, position + NGRAM_SCORING_ONE] = backoff
        matched[position + NGRAM_SCORING_ONE] += np.int32(is_match)
        pending[count] = position
        count += np.uint64(is_match)
    return np.int64(count)


@inline_kernel
def _match_highest_order_ngrams(
    n, num_candidates, lines, offsets, max_probe, hashes, matched, ids, scores, max_context, pending, homes
):
    """The same for the highest order."""
    num_possible = _select_candidates(
        n, num_candidates, lines, offsets, hashes, matched, ids, max_context, pending, homes
    )
    last = np.uint64(max_probe[n]) * EIGHT
    for i in range(num_possible):
        if i + NGRAM_SCORING_PREFETCH < num_possible:
            prefetch(lines, np.int64(homes[np.uint64(i + NGRAM_SCORING_PREFETCH)]))
        position, home = pending[np.uint64(i)], homes[np.uint64(i)]
        is_match, log_prob = find_highest_order_entry(lines, home, hashes[n, position + NGRAM_SCORING_ONE], home + last)
        scores[position] = np.float64(log_prob) if is_match else scores[position]
        matched[position + NGRAM_SCORING_ONE] += np.int32(is_match)
