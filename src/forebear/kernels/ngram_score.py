"""Scoring texts with the n-gram hash table; the reference implementation is statistical/ngram/backoff.py.

Tokens are processed in blocks: all bigrams of a block are looked up, then the trigrams that extend the bigrams found,
and so on. Candidates are selected without branches, which would be mispredicted. An n-gram is only looked up if its
prefix and its suffix are present, so that no bucket is fetched in vain.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from forebear.kernels.intrinsics import prefetch
from forebear.kernels.jit import inline_kernel
from forebear.kernels.ngram_table import EIGHT, ONE, extend_hash, find_entry, find_highest_order_entry, home_bucket

TOKENS_PER_BLOCK = 256  # few enough for buffers in the cache, many more than prefetches in flight
PREFETCHED_NGRAMS = 24  # n-grams whose buckets are prefetched


class ScoringBuffers(NamedTuple):
    """Work arrays for a block of tokens; those of size `block + 1` have the token before the block at index 0."""

    hashes: np.ndarray  # (order + 1, block + 1) hash of the n-gram that ends at each token
    backoffs: np.ndarray  # (order + 1, block + 1) its log back-off weight
    match_lengths: np.ndarray  # (block + 1,) length of the longest n-gram that is present
    ids: np.ndarray  # (block,) token ids
    scores: np.ndarray  # (block,) log P by the longest n-gram
    max_context: np.ndarray  # (block,) maximum context length
    pending: np.ndarray  # (block + 1,) token index of each n-gram that is looked up
    home_buckets: np.ndarray  # (block + 1,) offset of its home bucket


def scoring_buffers(order: int) -> ScoringBuffers:
    size = TOKENS_PER_BLOCK
    return ScoringBuffers(
        hashes=np.zeros((order + 1, size + 1), np.uint64),
        backoffs=np.zeros((order + 1, size + 1), np.float32),
        match_lengths=np.zeros(size + 1, np.int32),
        ids=np.zeros(size, np.int32),
        scores=np.zeros(size),
        max_context=np.zeros(size, np.int32),
        pending=np.zeros(size + 1, np.uint64),
        home_buckets=np.zeros(size + 1, np.uint64),
    )


def score_ngrams_kernel(
    tokens, lengths, eos_id, order, salt, unigrams, table, uniform_log_probs, log_probs, out_match_lengths, buffers
):
    """log P of each token of concatenated rows, given the tokens before it in its row.

    The first token of a row is only context, and no context reaches across an `eos_id`.

    table              `NgramTable` of the longer n-grams
    uniform_log_probs  (V,) or empty: used for tokens unseen after a context, instead of backing off
    log_probs          (tokens,) output
    out_match_lengths  (tokens,) or empty, output: length of the longest n-gram that is present and ends at each token
    """
    hashes, backoffs, match_lengths, ids, scores, max_context, pending, _ = buffers
    row, remaining, previous_token = -1, np.int64(0), np.int32(-1)
    for begin in range(0, len(tokens), TOKENS_PER_BLOCK):
        block_size = min(TOKENS_PER_BLOCK, len(tokens) - begin)
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
            match_lengths[position + 1], pending[position] = 1, position
            scores[position], backoffs[1, position + 1] = unigrams[np.uint32(token), 0], unigrams[np.uint32(token), 1]
        count = block_size
        for n in range(2, order):
            count = _match_ngrams(n, count, table, buffers)
        if order > 1:
            _match_highest_order_ngrams(order, count, table, buffers)
        if len(uniform_log_probs):
            for position in range(block_size):
                context_length = min(max_context[position], match_lengths[position])
                if match_lengths[position + 1] <= context_length:
                    scores[position] = np.float64(uniform_log_probs[ids[position]]) + backoffs[context_length, position]
        else:
            for n in range(1, order):
                for position in range(block_size):
                    has_backoff = (n <= max_context[position]) & (n <= match_lengths[position])
                    is_used = has_backoff & (n >= match_lengths[position + 1])
                    scores[position] += backoffs[n, position] if is_used else 0.0
        for position in range(block_size):
            log_probs[begin + position] = scores[position]
        if len(out_match_lengths):
            for position in range(block_size):
                out_match_lengths[begin + position] = match_lengths[position + 1]
        for n in range(1, order + 1):
            hashes[n, 0], backoffs[n, 0] = hashes[n, block_size], backoffs[n, block_size]
        match_lengths[0] = match_lengths[block_size]


@inline_kernel
def _select_candidates(n, count, table, buffers):
    """Select the n-grams whose prefix and suffix are present, and prefetch the first buckets; returns their number."""
    hashes, _, match_lengths, ids, _, max_context, pending, home_buckets = buffers
    first_bucket, num_buckets = np.uint64(table.offsets[n]), table.offsets[n + 1] - table.offsets[n]
    num_candidates = np.uint64(0)
    for i in range(count):
        position = pending[np.uint64(i)]  # unsigned indices need no check for negative ones
        ngram_hash = extend_hash(hashes[n - 1, position], ids[position])
        hashes[n, position + ONE], pending[num_candidates] = ngram_hash, position
        home_buckets[num_candidates] = (first_bucket + home_bucket(ngram_hash, num_buckets)) * EIGHT
        num_candidates += np.uint64((match_lengths[position] >= n - 1) & (max_context[position] >= n - 1))
    for i in range(min(PREFETCHED_NGRAMS, np.int64(num_candidates))):
        prefetch(table.buckets, np.int64(home_buckets[np.uint64(i)]))
    return np.int64(num_candidates)


@inline_kernel
def _match_ngrams(n, num_pending, table, buffers):
    """Look up the n-grams of n tokens that extend pending ones; returns how many are present."""
    hashes, backoffs, match_lengths, _, scores, _, pending, home_buckets = buffers
    num_candidates, count = _select_candidates(n, num_pending, table, buffers), np.uint64(0)
    max_offset = np.uint64(table.max_probe[n]) * EIGHT
    for i in range(num_candidates):
        if i + PREFETCHED_NGRAMS < num_candidates:
            prefetch(table.buckets, np.int64(home_buckets[np.uint64(i + PREFETCHED_NGRAMS)]))
        position, home = pending[np.uint64(i)], home_buckets[np.uint64(i)]
        is_match, log_prob, backoff = find_entry(table.buckets, home, hashes[n, position + ONE], home + max_offset)
        scores[position] = np.float64(log_prob) if is_match else scores[position]
        backoffs[n, position + ONE] = backoff
        match_lengths[position + ONE] += np.int32(is_match)
        pending[count] = position
        count += np.uint64(is_match)
    return np.int64(count)


@inline_kernel
def _match_highest_order_ngrams(n, num_pending, table, buffers):
    """`_match_ngrams` for the highest order, which has no back-off weights."""
    hashes, _, match_lengths, _, scores, _, pending, home_buckets = buffers
    num_candidates = _select_candidates(n, num_pending, table, buffers)
    max_offset = np.uint64(table.max_probe[n]) * EIGHT
    for i in range(num_candidates):
        if i + PREFETCHED_NGRAMS < num_candidates:
            prefetch(table.buckets, np.int64(home_buckets[np.uint64(i + PREFETCHED_NGRAMS)]))
        position, home = pending[np.uint64(i)], home_buckets[np.uint64(i)]
        is_match, log_prob = find_highest_order_entry(table.buckets, home, hashes[n, position + ONE], home + max_offset)
        scores[position] = np.float64(log_prob) if is_match else scores[position]
        match_lengths[position + ONE] += np.int32(is_match)
