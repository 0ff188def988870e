"""Scoring texts with the n-gram hash table; the reference implementation is statistical/ngram/backoff.py.

Tokens are processed in blocks: all bigrams of a block are looked up, then the trigrams that extend the bigrams found,
and so on. Candidates are selected without branches, which would be mispredicted. An n-gram is only looked up if its
prefix and its suffix are present, so that no bucket is fetched in vain.
"""

from __future__ import annotations

import numpy as np

from forebear.kernels.intrinsics import prefetch
from forebear.kernels.jit import inline_kernel
from forebear.kernels.ngram_table import EIGHT, ONE, extend_hash, find_entry, find_highest_order_entry, home_bucket

TOKENS_PER_BLOCK = 256  # few enough for buffers in the cache, many more than prefetches in flight
PREFETCHED_NGRAMS = 24  # n-grams whose buckets are prefetched


def scoring_buffers(order: int) -> tuple[np.ndarray, ...]:
    """Work arrays for scoring; array indices are unsigned, so that negative ones need no check.

    For the tokens of a block, and at index 0 for the token before it:
    hashes, backoffs       hash and log back-off weight of the n-gram that ends there, for each n
    match_lengths          length of the longest n-gram that is present
    For the tokens of a block:
    ids, scores            token ids, and log P by the longest n-gram
    max_context            maximum context length
    For the n-grams that are looked up:
    pending, home_buckets  token index within the block, and offset of the home bucket
    """
    return (
        np.zeros((order + 1, TOKENS_PER_BLOCK + 1), np.uint64),
        np.zeros((order + 1, TOKENS_PER_BLOCK + 1), np.float32),
        np.zeros(TOKENS_PER_BLOCK + 1, np.int32),
        np.zeros(TOKENS_PER_BLOCK, np.int32),
        np.zeros(TOKENS_PER_BLOCK),
        np.zeros(TOKENS_PER_BLOCK, np.int32),
        np.zeros(TOKENS_PER_BLOCK + 1, np.uint64),
        np.zeros(TOKENS_PER_BLOCK + 1, np.uint64),
    )


def score_ngrams_kernel(
    tokens, lengths, eos_id, order, salt, unigrams, buckets, offsets, max_probe, uniform_log_probs, log_probs,
    out_match_lengths, hashes, backoffs, match_lengths, ids, scores, max_context, pending, home_buckets,
):  # fmt: skip
    """log P of each token of concatenated rows, given the tokens before it in its row.

    The first token of a row is only context, and no context reaches across an `eos_id`.

    buckets            (8 · buckets,), and offsets (order + 2,): the first bucket of the n-grams of each length
    max_probe          (order + 1,) maximum probe distance of n-grams of each length
    uniform_log_probs  (V,) or empty: used for tokens unseen after a context, instead of backing off
    log_probs          (tokens,) output
    out_match_lengths  (tokens,) or empty, output: length of the longest n-gram that is present and ends at each token
    """
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
            count = _match_ngrams(
                n,
                count,
                buckets,
                offsets,
                max_probe,
                hashes,
                backoffs,
                match_lengths,
                ids,
                scores,
                max_context,
                pending,
                home_buckets,
            )
        if order > 1:
            _match_highest_order_ngrams(
                order,
                count,
                buckets,
                offsets,
                max_probe,
                hashes,
                match_lengths,
                ids,
                scores,
                max_context,
                pending,
                home_buckets,
            )
        if len(uniform_log_probs):
            for position in range(block_size):
                context_length = min(max_context[position], match_lengths[position])
                if match_lengths[position + 1] <= context_length:
                    scores[position] = np.float64(uniform_log_probs[ids[position]]) + backoffs[context_length, position]
        else:
            for n in range(1, order):
                for position in range(block_size):
                    is_used = (
                        (n >= match_lengths[position + 1])
                        & (n <= max_context[position])
                        & (n <= match_lengths[position])
                    )
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
def _select_candidates(n, count, buckets, offsets, hashes, match_lengths, ids, max_context, pending, home_buckets):
    """Select the n-grams whose prefix and suffix are present, and prefetch the first buckets; returns their number."""
    first_bucket, num_buckets, num_candidates = np.uint64(offsets[n]), offsets[n + 1] - offsets[n], np.uint64(0)
    for i in range(count):
        position = pending[np.uint64(i)]
        ngram_hash = extend_hash(hashes[n - 1, position], ids[position])
        hashes[n, position + ONE], pending[num_candidates] = ngram_hash, position
        home_buckets[num_candidates] = (first_bucket + home_bucket(ngram_hash, num_buckets)) * EIGHT
        num_candidates += np.uint64((match_lengths[position] >= n - 1) & (max_context[position] >= n - 1))
    for i in range(min(PREFETCHED_NGRAMS, np.int64(num_candidates))):
        prefetch(buckets, np.int64(home_buckets[np.uint64(i)]))
    return np.int64(num_candidates)


@inline_kernel
def _match_ngrams(
    n,
    num_candidates,
    buckets,
    offsets,
    max_probe,
    hashes,
    backoffs,
    match_lengths,
    ids,
    scores,
    max_context,
    pending,
    home_buckets,
):
    """Look up the candidate n-grams of n tokens; returns how many are present."""
    num_selected = _select_candidates(
        n, num_candidates, buckets, offsets, hashes, match_lengths, ids, max_context, pending, home_buckets
    )
    count = np.uint64(0)
    last = np.uint64(max_probe[n]) * EIGHT
    for i in range(num_selected):
        if i + PREFETCHED_NGRAMS < num_selected:
            prefetch(buckets, np.int64(home_buckets[np.uint64(i + PREFETCHED_NGRAMS)]))
        position, home = pending[np.uint64(i)], home_buckets[np.uint64(i)]
        is_match, log_prob, backoff = find_entry(buckets, home, hashes[n, position + ONE], home + last)
        scores[position] = np.float64(log_prob) if is_match else scores[position]
        backoffs[n, position + ONE] = backoff
        match_lengths[position + ONE] += np.int32(is_match)
        pending[count] = position
        count += np.uint64(is_match)
    return np.int64(count)


@inline_kernel
def _match_highest_order_ngrams(
    n,
    num_candidates,
    buckets,
    offsets,
    max_probe,
    hashes,
    match_lengths,
    ids,
    scores,
    max_context,
    pending,
    home_buckets,
):
    """`_match_ngrams` for the highest order, which has no back-off weights."""
    num_selected = _select_candidates(
        n, num_candidates, buckets, offsets, hashes, match_lengths, ids, max_context, pending, home_buckets
    )
    last = np.uint64(max_probe[n]) * EIGHT
    for i in range(num_selected):
        if i + PREFETCHED_NGRAMS < num_selected:
            prefetch(buckets, np.int64(home_buckets[np.uint64(i + PREFETCHED_NGRAMS)]))
        position, home = pending[np.uint64(i)], home_buckets[np.uint64(i)]
        is_match, log_prob = find_highest_order_entry(buckets, home, hashes[n, position + ONE], home + last)
        scores[position] = np.float64(log_prob) if is_match else scores[position]
        match_lengths[position + ONE] += np.int32(is_match)
