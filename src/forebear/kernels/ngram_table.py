"""Hash table of n-grams: building it and looking entries up.

The reference implementation is statistical/ngram/backoff.py, which uses binary search. Here an n-gram is identified by
a 64-bit hash that extends the hash of its prefix, so that its bucket can be prefetched.

A bucket is a cache line of eight 64-bit numbers. It holds the hashes of four n-grams, followed by their
log-probabilities and back-off weights, two float32 in a number; or, for the highest order, which has no back-off, five
hashes followed by their log-probabilities. All hashes of a bucket are compared without branches. When a bucket is full,
its entries continue in the next one (linear probing), and the lowest bit of its first hash is set. No hash has that
bit, so searches for absent n-grams seldom read a second bucket.
"""

from __future__ import annotations

import numpy as np

from forebear.kernels.intrinsics import bits_as_float, prefetch
from forebear.kernels.jit import inline_kernel
from forebear.kernels.ngram_layout import BUCKET_SIZE, HIGHEST_ORDER_PER_BUCKET, NGRAMS_PER_BUCKET, SPARE_BUCKETS

HASH_MULTIPLIER, TOKEN_MULTIPLIER = np.uint64(0x9E37_79B9_7F4A_7C15), np.uint64(0xBF58_476D_1CE4_E5B9)
SHIFT_32, MASK_32 = np.uint64(32), np.uint64(0xFFFF_FFFF)
ONE, TWO, THREE, FOUR, EIGHT = (np.uint64(number) for number in (1, 2, 3, 4, 8))
HASH_MASK = np.uint64(0xFFFF_FFFF_FFFF_FFFE)
OVERFLOW_FLAG = np.uint64(1)  # in the first hash of a bucket
PREFETCHED_BUCKETS = 12  # buckets prefetched ahead of insertion
NGRAMS_PER_BLOCK = 1 << 12  # n-grams scanned before those of this part of the table are inserted


@inline_kernel
def extend_hash(prefix_hash, token):
    """Hash of an n-gram, from the hash of its prefix and its last token."""
    ngram_hash = (prefix_hash ^ (np.uint64(token) + np.uint64(1)) * TOKEN_MULTIPLIER) * HASH_MULTIPLIER
    ngram_hash ^= ngram_hash >> np.uint64(31)
    ngram_hash &= HASH_MASK
    return ngram_hash if ngram_hash else np.uint64(2)


@inline_kernel
def home_bucket(ngram_hash, num_buckets):
    """The bucket where probing for a hash begins; never one of the spare buckets."""
    return ((ngram_hash >> SHIFT_32) * np.uint64(num_buckets - SPARE_BUCKETS)) >> SHIFT_32


def hash_tokens_kernel(tokens, salt):
    """Hashes of unigrams."""
    hashes = np.empty(len(tokens), np.uint64)
    for i in range(len(tokens)):
        hashes[i] = extend_hash(salt, tokens[i])
    return hashes


def hash_level_kernel(context_hashes, num_continuations, token_ids, hashes, context, first_ngram):
    """Hash the n-grams from one context on until the buffer is full; returns the next context and its first n-gram."""
    first_id = first_ngram
    end = first_id + len(hashes)
    while context < len(context_hashes) and first_ngram + np.int64(num_continuations[context]) <= end:
        for i in range(first_ngram, first_ngram + np.int64(num_continuations[context])):
            hashes[i - first_id] = extend_hash(context_hashes[context], token_ids[i])
        first_ngram += np.int64(num_continuations[context])
        context += 1
    return context, first_ngram


def fill_table_kernel(buckets, fill_counts, begin, num_buckets, hashes, log_bits, backoff_bits, is_highest_order):
    """Insert n-grams with the bits of their log-probabilities and, below the highest order, of their back-off weights.

    buckets      the buckets from `begin` on, of `num_buckets` in total; n-grams of other buckets are skipped. The last
                 SPARE_BUCKETS are only overflow
    fill_counts  number of n-grams in each bucket, stored separately so that no bucket has to be read

    Returns the maximum probe distance in buckets; -1: a collision, or no space. Collisions within a bucket are found by
    `has_duplicates_kernel`.
    """
    entries_per_bucket = HIGHEST_ORDER_PER_BUCKET if is_highest_order else NGRAMS_PER_BUCKET
    max_probe = np.int64(0)
    flat_buckets = buckets.reshape(-1)
    candidate_ids, home_buckets, first = np.empty(NGRAMS_PER_BLOCK, np.int64), np.empty(NGRAMS_PER_BLOCK, np.int64), 0
    while first < len(hashes):
        num_candidates, last = 0, min(first + NGRAMS_PER_BLOCK, len(hashes))
        for i in range(first, last):  # branch-free: the branch would often be mispredicted
            home = np.int64(home_bucket(hashes[i], num_buckets)) - begin
            candidate_ids[num_candidates], home_buckets[num_candidates] = i, home
            num_candidates += np.int64(home >= 0) & np.int64(home < len(buckets) - SPARE_BUCKETS)
        first = last
        for candidate in range(num_candidates):
            if candidate + PREFETCHED_BUCKETS < num_candidates:
                prefetch(flat_buckets, home_buckets[candidate + PREFETCHED_BUCKETS] * BUCKET_SIZE)
            i, bucket = candidate_ids[candidate], home_buckets[candidate]
            ngram_hash = hashes[i]
            while fill_counts[bucket] == entries_per_bucket:
                for slot in range(entries_per_bucket):
                    if buckets[bucket, slot] & HASH_MASK == ngram_hash:
                        return -1
                buckets[bucket, 0] |= OVERFLOW_FLAG
                bucket += 1
                if bucket == len(buckets):
                    return -1
            slot = np.int64(fill_counts[bucket])
            fill_counts[bucket] = slot + 1
            buckets[bucket, slot] = ngram_hash
            if is_highest_order:
                shifted_bits = np.uint64(log_bits[i]) << (SHIFT_32 * np.uint64(slot % 2))
                buckets[bucket, HIGHEST_ORDER_PER_BUCKET + slot // 2] |= shifted_bits
            else:
                values = np.uint64(log_bits[i]) | np.uint64(backoff_bits[i]) << SHIFT_32
                buckets[bucket, NGRAMS_PER_BUCKET + slot] = values
            max_probe = max(max_probe, bucket - home_buckets[candidate])
    return max_probe


def has_duplicates_kernel(buckets, fill_counts):
    """Whether any bucket has two equal hashes."""
    for bucket in range(len(buckets)):
        for slot in range(1, fill_counts[bucket]):
            for other_slot in range(slot):
                if (buckets[bucket, slot] ^ buckets[bucket, other_slot]) & HASH_MASK == 0:
                    return True
    return False


def checksum_kernel(buckets, sums):
    """Update the column checksums, which depend on every bit and on the order of buckets."""
    for bucket in range(len(buckets)):
        for column in range(BUCKET_SIZE):
            mixed = (sums[column] ^ buckets[bucket, column]) * HASH_MULTIPLIER
            sums[column] = mixed ^ (mixed >> SHIFT_32)


@inline_kernel
def find_entry(buckets, home, ngram_hash, last):
    """Whether an n-gram below the highest order is present, its log-probability, and its back-off weight."""
    offset = home
    while True:
        first, two, three, four = buckets[offset], buckets[offset + ONE], buckets[offset + TWO], buckets[offset + THREE]
        second, third, fourth = two == ngram_hash, three == ngram_hash, four == ngram_hash
        is_match = ((first & HASH_MASK) == ngram_hash) | second | third | fourth
        if (not is_match) & ((first & OVERFLOW_FLAG) != 0) & (offset != last):
            offset += EIGHT
            continue
        slot = np.uint64(second) + TWO * np.uint64(third) + THREE * np.uint64(fourth)  # 0 if absent
        values = buckets[offset + np.uint64(NGRAMS_PER_BUCKET) + slot]
        return is_match, bits_as_float(np.uint32(values & MASK_32)), bits_as_float(np.uint32(values >> SHIFT_32))


@inline_kernel
def find_highest_order_entry(buckets, home, ngram_hash, last):
    """`find_entry` for an n-gram of the highest order, which has no back-off weight."""
    offset = home
    while True:
        first, two, three, four = buckets[offset], buckets[offset + ONE], buckets[offset + TWO], buckets[offset + THREE]
        second, third, fourth = two == ngram_hash, three == ngram_hash, four == ngram_hash
        fifth = buckets[offset + FOUR] == ngram_hash
        is_match = ((first & HASH_MASK) == ngram_hash) | second | third | fourth | fifth
        if (not is_match) & ((first & OVERFLOW_FLAG) != 0) & (offset != last):
            offset += EIGHT
            continue
        pair_index = np.uint64(third | fourth) + TWO * np.uint64(fifth)
        pair = buckets[offset + np.uint64(HIGHEST_ORDER_PER_BUCKET) + pair_index]
        return is_match, bits_as_float(np.uint32((pair >> (SHIFT_32 * np.uint64(second | fourth))) & MASK_32))


@inline_kernel
def _lookup_entry(ngram_hash, n, order, table):
    """Log-probability and back-off weight of an n-gram of n tokens; NaN if it is absent."""
    first_bucket, num_buckets = np.uint64(table.offsets[n]), table.offsets[n + 1] - table.offsets[n]
    home, nan = (first_bucket + home_bucket(ngram_hash, num_buckets)) * EIGHT, np.float32(np.nan)
    last = home + np.uint64(table.max_probe[n]) * EIGHT
    if n < order:
        is_match, log_prob, backoff = find_entry(table.buckets, home, ngram_hash, last)
    else:
        is_match, log_prob = find_highest_order_entry(table.buckets, home, ngram_hash, last)
        backoff = nan
    return (log_prob, backoff) if is_match else (nan, nan)


def lookup_log_probs_kernel(context_hash, tokens, n, order, table, log_probs):
    """log P of these tokens after one context of n - 1 tokens; NaN for n-grams that are absent."""
    for i in range(len(tokens)):
        log_probs[i] = _lookup_entry(extend_hash(context_hash, tokens[i]), n, order, table)[0]


def hash_ngram_kernel(tokens, salt):
    """Hash of one n-gram."""
    ngram_hash = extend_hash(salt, tokens[0])
    for i in range(1, len(tokens)):
        ngram_hash = extend_hash(ngram_hash, tokens[i])
    return ngram_hash


def backoff_weight_kernel(ngram_hash, n, order, table):
    """Back-off weight of one n-gram of n tokens; NaN if it is absent."""
    return _lookup_entry(ngram_hash, n, order, table)[1]
