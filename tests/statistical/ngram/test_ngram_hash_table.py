"""Large n-gram models: compiled kernels and the hash table on disk equal the numpy reference."""

from __future__ import annotations

import os
import random
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_ngram_models import END, VOCABULARY, contexts, count, counted_model, skewed_texts, text_lists

from forebear.data.io.arrays import _memmap_of, release_pages
from forebear.errors import ForebearError
from forebear.kernels import ngram_counts as kernels
from forebear.kernels.ngram_counts import ROW_SEPARATOR, ngram_levels, ngram_levels_reference
from forebear.kernels.ngram_score import TOKENS_PER_BLOCK
from forebear.statistical.disk_backed_arrays import MIN_FILE_BYTES, ArrayPool, save_arrays
from forebear.statistical.ngram import counts as counts_module
from forebear.statistical.ngram import language_model
from forebear.statistical.ngram import smoothing as smoothing_module
from forebear.statistical.ngram.backoff import BackoffTable
from forebear.statistical.ngram.counts import merge_counts
from forebear.statistical.ngram.hash_table import NgramStore, stamp_store
from forebear.statistical.ngram.language_model import NgramModel

SMOOTHINGS = [{"smoothing": name} for name in ("none", "add", "witten-bell", "stupid", "kneser-ney")]
SMOOTHINGS += [{"smoothing": name, "prune": "0 1 2"} for name in ("witten-bell", "kneser-ney")]


def build_large_model(
    given_texts: list[list[int]], order: int, smoothing: str = "kneser-ney", **options: Any
) -> NgramModel:
    """A model built as if it were large."""
    model = counted_model(given_texts, order, smoothing, **options)
    original_values = [
        (module, module.MIN_COMPILED_NGRAMS) for module in (counts_module, language_model, smoothing_module)
    ]
    for module, _ in original_values:
        module.MIN_COMPILED_NGRAMS = -1
    try:
        model.probabilities()
        _ = model.ngrams
    finally:
        for module, block_ngrams in original_values:
            module.MIN_COMPILED_NGRAMS = block_ngrams
    assert isinstance(model.probabilities(), NgramStore)
    return model


@given(
    st.lists(st.lists(st.integers(0, 4), max_size=12), min_size=1, max_size=12), st.integers(1, 7), st.integers(1, 3)
)
@settings(deadline=None)
def test_ngram_levels_equal_the_reference(rows: list[list[int]], order: int, threads: int):
    text = np.array([token for row in rows for token in (*row, ROW_SEPARATOR)], np.int32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "GROUPS_PER_STEP", 1)
        levels = ngram_levels(text.copy(), 5, order, threads)
    for level, expected_level in zip(levels, ngram_levels_reference(text, 5, order), strict=True):
        assert all(np.array_equal(array, expected) for array, expected in zip(level, expected_level, strict=True))


def test_ngram_counts_have_the_narrowest_dtype():
    text = np.array([*[0] * 70_000, ROW_SEPARATOR, *[1, 2] * 300, ROW_SEPARATOR], np.int32)
    levels = ngram_levels(text.copy(), 3, 3)
    assert [level.counts.dtype for level in levels] == [np.int32, np.int32]
    assert levels[0].counts.tolist() == [69_999, 300, 299]
    assert levels[1].num_continuations.dtype == np.uint16
    assert ngram_levels(np.array([0, 1, 0, 1, ROW_SEPARATOR], np.int32), 3, 3)[1].counts.dtype == np.uint16


def test_ngram_levels_of_large_groups_equal_the_reference(monkeypatch: pytest.MonkeyPatch):
    rng = np.random.default_rng(0)
    text = rng.integers(-1, 3, 20_000).astype(np.int32)
    text[-1] = ROW_SEPARATOR
    monkeypatch.setattr(kernels, "GROUPS_PER_STEP", 16)
    for level, expected_level in zip(
        ngram_levels(text.copy(), 3, 6, 2), ngram_levels_reference(text, 3, 6), strict=True
    ):
        assert all(np.array_equal(array, expected) for array, expected in zip(level, expected_level, strict=True))


@given(
    text_lists, st.integers(1, 6), st.sampled_from(SMOOTHINGS), st.lists(contexts.filter(bool), min_size=1, max_size=4)
)
@settings(deadline=None)
def test_hash_table_results_equal_the_back_off_table(
    given_texts: list[list[int]], order: int, options: dict[str, str], rows: list[list[int]]
):
    large, small = build_large_model(given_texts, order, **options), counted_model(given_texts, order, **options)
    assert isinstance(small.probabilities(), BackoffTable)
    arrays = [np.array(row) for row in rows]
    for computed, expected in zip(large.score(arrays), small.score(arrays), strict=True):
        assert np.array_equal(computed, expected)
    assert np.array_equal(large.next_log_probs(arrays), small.next_log_probs(arrays))
    assert large.describe() == small.describe()


@pytest.mark.parametrize("options", SMOOTHINGS, ids=str)
@pytest.mark.parametrize("order", [1, 2, 3, 6])
def test_scores_do_not_depend_on_block_boundaries(order: int, options: dict[str, str]):
    """Together they are several blocks, with ends of texts inside and empty rows; each alone is one block."""
    model, text_lists = build_large_model(skewed_texts(3, 200), order, **options), skewed_texts(5, 300)
    joined = [
        np.array([END, *text, END, *next_text]) for text, next_text in zip(text_lists, text_lists[::-1], strict=True)
    ]
    rows = [row[: index % 19] for index, row in enumerate(joined)]
    assert sum(map(len, rows)) > 3 * TOKENS_PER_BLOCK
    batched = model.score_with_lengths(rows)
    for index, row in enumerate(rows):
        single = model.score_with_lengths([row])
        assert np.array_equal(batched[0][index], single[0][0])
        assert np.array_equal(batched[1][index], single[1][0])


@pytest.mark.parametrize("options", SMOOTHINGS, ids=str)
def test_hash_table_probabilities_sum_to_one(options: dict[str, str]):
    model, rng = build_large_model(skewed_texts(3, 200), 5, **options), np.random.default_rng(0)
    for _ in range(100):
        log_probs = model.next_log_probs([np.array([END, *rng.integers(0, VOCABULARY, rng.integers(0, 6))])])
        assert np.exp(log_probs).sum() == pytest.approx(1, abs=1e-6)


def test_stored_hash_table_opens_with_equal_scores(tmp_path: Path):
    model, file = build_large_model(skewed_texts(3, 100), 4), tmp_path / "table"
    built_store = NgramStore.build(model.ngrams, model._levels, None, model._store_info, file)
    rows = [np.array([END, *text, END]) for text in skewed_texts(5, 50)]
    lengths, tokens = np.array([len(row) for row in rows]), np.concatenate(rows)
    expected = model.probabilities().score(tokens, lengths, END)
    assert np.array_equal(built_store.score(tokens, lengths, END), expected)
    with pytest.raises(ForebearError, match="other n-grams"):
        NgramStore.open(file, "a" * 64)
    stamp_store(file, "a" * 64)
    opened = NgramStore.open(file, "a" * 64)
    assert np.array_equal(opened.score(tokens, lengths, END), expected)
    assert opened.metadata["tokens"] == model.describe()["tokens"]
    copy = NgramModel(order=4, vocab_size=VOCABULARY, eos_id=END, excluded_ids=[2])
    copy.use_store(opened, model.arrays)
    assert np.array_equal(copy.next_log_probs([rows[0][:3]]), model.next_log_probs([rows[0][:3]]))


def test_corrupt_hash_table_file_is_refused_or_scores_but_never_crashes(tmp_path: Path):
    model, file = build_large_model(skewed_texts(3, 60), 3), tmp_path / "table"
    NgramStore.build(model.ngrams, model._levels, None, model._store_info, file)
    original, rng, num_refused = file.read_bytes(), random.Random(0), 0
    tokens, lengths = np.array([END, 3, 4, 5, END]), np.array([5])
    for trial in range(400):
        corrupt = bytearray(original)
        damage = trial % 4
        if damage == 0:
            del corrupt[rng.randrange(len(corrupt)) :]
        elif damage == 1:
            corrupt[rng.randrange(min(1500, len(corrupt)))] = rng.randrange(256)
        elif damage == 2:
            for _ in range(50):
                corrupt[rng.randrange(len(corrupt))] = rng.randrange(256)
        else:
            corrupt += bytes(rng.randrange(1, 9))
        file.write_bytes(corrupt)
        try:
            scores = NgramStore.open(file).score(tokens, lengths, END)
            assert scores.shape == (5,)
        except ForebearError:
            num_refused += 1
    assert num_refused > 200


def test_suffix_links_are_recomputed_when_counting_did_not_keep_them():
    model = counted_model(skewed_texts(3, 300), 6)
    expected_suffixes = model.counts.take_suffixes()
    assert model.counts.take_suffixes() == []
    suffixes = [model.ngrams.last_tokens[0]]
    for n in range(3, 7):
        suffixes.append(model.ngrams._suffixes(n, suffixes[-1]))
    assert all(
        np.array_equal(computed, expected) for computed, expected in zip(suffixes, expected_suffixes[1:], strict=True)
    )


@given(text_lists, st.integers(1, 5), st.integers(1, 5))
@settings(deadline=None)
def test_ngram_counts_on_disk_equal_those_in_memory(given_texts: list[list[int]], order: int, size: int):
    in_memory = counted_model(given_texts, order)
    with tempfile.TemporaryDirectory() as folder:
        model = counted_model([], order)
        model.counter.folder, model.counter.memory = Path(folder), 1
        before, counts_module.MIN_TEXT_TOKENS = counts_module.MIN_TEXT_TOKENS, 1
        try:
            for first in range(0, len(given_texts), size):
                count(model, given_texts[first : first + size])
            counts = model.counts
        finally:
            counts_module.MIN_TEXT_TOKENS = before
        assert os.listdir(folder) == []  # unlinked files
        expected = in_memory.counts.arrays()
        assert all(np.array_equal(array, expected[name]) for name, array in counts.arrays().items())
        save_arrays(Path(folder) / "one", counts.storage_layout())
        save_arrays(Path(folder) / "other", in_memory.counts.storage_layout())
        assert (Path(folder) / "one").read_bytes() == (Path(folder) / "other").read_bytes()


def test_ngram_counts_above_32_bits(tmp_path: Path):
    """Counts merged with themselves until one needs more than 32 bits."""
    model = counted_model(skewed_texts(1), 3)
    for _ in range(31):
        model.counter.reset(merge_counts([model.counts, model.counts], tmp_path))
    assert int(model.counts.counts[2].max()) > 1 << 32
    assert np.exp(model.next_log_probs([np.array([END, 3])])).sum() == pytest.approx(1, abs=1e-6)
    loaded = counted_model([], 3)
    loaded.load(model.arrays())
    assert np.array_equal(loaded.next_log_probs([np.array([END, 3])]), model.next_log_probs([np.array([END, 3])]))


def test_array_pool_spills_to_disk_above_its_memory(tmp_path: Path):
    pool = ArrayPool(MIN_FILE_BYTES, tmp_path)
    first, second = pool.zeros(MIN_FILE_BYTES // 8, np.int64), pool.zeros((MIN_FILE_BYTES // 8, 1), np.int64)
    assert _memmap_of(first) is None
    assert _memmap_of(second) is not None
    second[:] = 7
    assert int(second.sum()) == 7 * (MIN_FILE_BYTES // 8)
    pool.release(first)
    assert _memmap_of(pool.empty(MIN_FILE_BYTES // 8, np.int64)) is None
    assert os.listdir(tmp_path) == []


def test_released_pages_take_no_memory(tmp_path: Path):
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    array = ArrayPool(0, tmp_path).zeros(MIN_FILE_BYTES // 2, np.int64)
    array[:] = 7
    before = resident()
    release_pages(array[5:], np.zeros(3))
    assert before - resident() > MIN_FILE_BYTES * 2
    assert (array == 7).all()


def test_array_pool_releases_only_its_own_arrays(tmp_path: Path):
    pool = ArrayPool(MIN_FILE_BYTES, tmp_path)
    array = pool.empty(MIN_FILE_BYTES // 8, np.int64)
    pool.release(np.zeros(MIN_FILE_BYTES, np.uint8), array[1:])
    assert pool.bytes_used == array.nbytes
    pool.release(array)
    assert pool.bytes_used == 0


def test_duplicate_ngram_hashes_are_detected():
    from forebear.kernels.jit import compile_kernel
    from forebear.kernels.ngram_layout import BUCKET_SIZE, NGRAMS_PER_BUCKET, SPARE_BUCKETS
    from forebear.kernels.ngram_table import fill_table_kernel, has_duplicates_kernel

    def fill_table(hashes: list[int]) -> tuple[int, bool]:
        lines, used = np.zeros((1 + SPARE_BUCKETS, BUCKET_SIZE), np.uint64), np.zeros(1 + SPARE_BUCKETS, np.uint8)
        columns = np.array(hashes, np.uint64), *np.zeros((2, len(hashes)), np.uint32)
        farthest_line = compile_kernel(fill_table_kernel)(lines, used, 0, 1 + SPARE_BUCKETS, *columns, False)
        return farthest_line, compile_kernel(has_duplicates_kernel)(lines, used)

    different = [2 * number for number in range(1, 2 * NGRAMS_PER_BUCKET)]
    assert fill_table(different) == (1, False)  # all have the same home line, and the surplus is in the next
    assert fill_table([2, 4, 2]) == (0, True)  # in one line
    assert fill_table([*different, 2])[0] == -1  # the line was full before the second came
    assert fill_table([*different, different[-1]])[1]
