"""Many n-grams: compiled loops and the table on the disk say what numpy's way says."""

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
from tiny_models import END, VOCABULARY, contexts, count, made, many, texts

from forebear.data.io.safetensors import _file_of, release_pages
from forebear.errors import ForebearError
from forebear.kernels import ngram_counts as loops
from forebear.kernels.ngram_counts import TEXT_BORDER, ngram_levels, ngram_levels_reference
from forebear.kernels.ngram_table import NGRAM_SCORING_BLOCK
from forebear.statistical.array_pool import LARGE, ArrayPool, save_arrays
from forebear.statistical.ngram import counts, language_model
from forebear.statistical.ngram import counts as tallying
from forebear.statistical.ngram import smoothing as ways_of_smoothing
from forebear.statistical.ngram.backoff import BackoffTable
from forebear.statistical.ngram.counts import merge_counts
from forebear.statistical.ngram.hash_table import NgramStore, stamp_store
from forebear.statistical.ngram.language_model import NgramModel

WAYS = [{"smoothing": name} for name in ("none", "add", "witten-bell", "stupid", "kneser-ney")]
WAYS += [{"smoothing": name, "prune": "0 1 2"} for name in ("witten-bell", "kneser-ney")]


def largely(given_texts: list[list[int]], order: int, smoothing: str = "kneser-ney", **more: Any) -> NgramModel:
    """A model that is made as if it were large."""
    model = made(given_texts, order, smoothing, **more)
    before = [(one, one.BLOCK_NGRAMS) for one in (counts, language_model, counts, ways_of_smoothing)]
    for one, _ in before:
        one.BLOCK_NGRAMS = -1
    try:
        model.probabilities()
        _ = model.ngrams
    finally:
        for one, much in before:
            one.BLOCK_NGRAMS = much
    assert isinstance(model.probabilities(), NgramStore)
    return model


@given(
    st.lists(st.lists(st.integers(0, 4), max_size=12), min_size=1, max_size=12), st.integers(1, 7), st.integers(1, 3)
)
@settings(deadline=None)
def test_sorting_finds_the_ngrams_that_numpy_finds(rows: list[list[int]], order: int, threads: int):
    text = np.array([token for row in rows for token in (*row, TEXT_BORDER)], np.int32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loops, "PARTITION_STEP", 1)
        found = ngram_levels(text.copy(), 5, order, threads)
    for mine, twin in zip(found, ngram_levels_reference(text, 5, order), strict=True):
        assert all(np.array_equal(one, other) for one, other in zip(mine, twin, strict=True))


def test_counts_above_16_bits_and_below():
    text = np.array([*[0] * 70_000, TEXT_BORDER, *[1, 2] * 300, TEXT_BORDER], np.int32)
    found = ngram_levels(text.copy(), 3, 3)
    assert [one.times.dtype for one in found] == [np.int32, np.int32]
    assert found[0].times.tolist() == [69_999, 300, 299]
    assert found[1].continuations.dtype == np.uint16
    assert ngram_levels(np.array([0, 1, 0, 1, TEXT_BORDER], np.int32), 3, 3)[1].times.dtype == np.uint16


def test_groups_of_many_places_are_sorted_too(monkeypatch: pytest.MonkeyPatch):
    rng = np.random.default_rng(0)
    text = rng.integers(-1, 3, 20_000).astype(np.int32)
    text[-1] = TEXT_BORDER
    monkeypatch.setattr(loops, "PARTITION_STEP", 16)
    for mine, twin in zip(ngram_levels(text.copy(), 3, 6, 2), ngram_levels_reference(text, 3, 6), strict=True):
        assert all(np.array_equal(one, other) for one, other in zip(mine, twin, strict=True))


@given(texts, st.integers(1, 6), st.sampled_from(WAYS), st.lists(contexts.filter(bool), min_size=1, max_size=4))
@settings(deadline=None)
def test_a_table_says_what_its_twin_says(
    given_texts: list[list[int]], order: int, way: dict[str, str], rows: list[list[int]]
):
    tabled, plain = largely(given_texts, order, **way), made(given_texts, order, **way)
    assert isinstance(plain.probabilities(), BackoffTable)
    asked = [np.array(row) for row in rows]
    for one, other in zip(tabled.score(asked), plain.score(asked), strict=True):
        assert np.array_equal(one, other)
    assert np.array_equal(tabled.next_log_probs(asked), plain.next_log_probs(asked))
    assert tabled.describe() == plain.describe()


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("order", [1, 2, 3, 6])
def test_rows_are_scored_alike_wherever_blocks_of_tokens_end(order: int, way: dict[str, str]):
    """Together they are several blocks, with ends of texts inside and rows of no token; each by itself is one."""
    model, texts = largely(many(3, 200), order, **way), many(5, 300)
    joined = [np.array([END, *one, END, *other]) for one, other in zip(texts, texts[::-1], strict=True)]
    rows = [row[: number % 19] for number, row in enumerate(joined)]
    assert sum(map(len, rows)) > 3 * NGRAM_SCORING_BLOCK
    together = model.score_with_lengths(rows)
    for number, row in enumerate(rows):
        alone = model.score_with_lengths([row])
        assert np.array_equal(together[0][number], alone[0][0])
        assert np.array_equal(together[1][number], alone[1][0])


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_probabilities_of_a_table_sum_to_one(way: dict[str, str]):
    model, rng = largely(many(3, 200), 5, **way), np.random.default_rng(0)
    for _ in range(100):
        told = model.next_log_probs([np.array([END, *rng.integers(0, VOCABULARY, rng.integers(0, 6))])])
        assert np.exp(told).sum() == pytest.approx(1, abs=1e-6)


def test_a_file_is_opened_as_it_was_made(tmp_path: Path):
    model, file = largely(many(3, 100), 4), tmp_path / "table"
    made_table = NgramStore.build(model.ngrams, model._levels, None, model._store_info, file)
    rows = [np.array([END, *text, END]) for text in many(5, 50)]
    lengths, tokens = np.array([len(row) for row in rows]), np.concatenate(rows)
    expected = model.probabilities().score(tokens, lengths, END)
    assert np.array_equal(made_table.score(tokens, lengths, END), expected)
    with pytest.raises(ForebearError, match="other n-grams"):
        NgramStore.open(file, "a" * 64)
    stamp_store(file, "a" * 64)
    again = NgramStore.open(file, "a" * 64)
    assert np.array_equal(again.score(tokens, lengths, END), expected)
    assert again.about["tokens"] == model.describe()["tokens"]
    copy = NgramModel(order=4, vocabulary=VOCABULARY, end=END, never=[2])
    copy.use_store(again, model.arrays)
    assert np.array_equal(copy.next_log_probs([rows[0][:3]]), model.next_log_probs([rows[0][:3]]))


def test_a_damaged_file_is_refused_or_answers_but_never_crashes(tmp_path: Path):
    model, file = largely(many(3, 60), 3), tmp_path / "table"
    NgramStore.build(model.ngrams, model._levels, None, model._store_info, file)
    whole, chance, refused = file.read_bytes(), random.Random(0), 0
    tokens, lengths = np.array([END, 3, 4, 5, END]), np.array([5])
    for number in range(400):
        spoilt = bytearray(whole)
        kind = number % 4
        if kind == 0:
            del spoilt[chance.randrange(len(spoilt)) :]
        elif kind == 1:
            spoilt[chance.randrange(min(1500, len(spoilt)))] = chance.randrange(256)
        elif kind == 2:
            for _ in range(50):
                spoilt[chance.randrange(len(spoilt))] = chance.randrange(256)
        else:
            spoilt += bytes(chance.randrange(1, 9))
        file.write_bytes(spoilt)
        try:
            told = NgramStore.open(file).score(tokens, lengths, END)
            assert told.shape == (5,)
        except ForebearError:
            refused += 1
    assert refused > 200


def test_suffixes_are_found_again_where_counting_did_not_tell_them():
    model = made(many(3, 300), 6)
    told = model.counts.take_suffixes()
    assert model.counts.take_suffixes() == []
    found = [model.ngrams.words[0]]
    for n in range(3, 7):
        found.append(model.ngrams._suffixes(n, found[-1]))
    assert all(np.array_equal(one, other) for one, other in zip(found, told[1:], strict=True))


@given(texts, st.integers(1, 5), st.integers(1, 5))
@settings(deadline=None)
def test_counts_on_the_disk_are_those_in_memory(given_texts: list[list[int]], order: int, size: int):
    whole = made(given_texts, order)
    with tempfile.TemporaryDirectory() as folder:
        model = made([], order)
        model.tally.folder, model.tally.memory = Path(folder), 1
        before, tallying.MIN_TEXT_TOKENS = tallying.MIN_TEXT_TOKENS, 1
        try:
            for first in range(0, len(given_texts), size):
                count(model, given_texts[first : first + size])
            counts = model.counts
        finally:
            tallying.MIN_TEXT_TOKENS = before
        assert os.listdir(folder) == []  # files without names
        theirs = whole.counts.arrays()
        assert all(np.array_equal(array, theirs[name]) for name, array in counts.arrays().items())
        save_arrays(Path(folder) / "one", counts.storage_layout())
        save_arrays(Path(folder) / "other", whole.counts.storage_layout())
        assert (Path(folder) / "one").read_bytes() == (Path(folder) / "other").read_bytes()


def test_counts_beyond_four_billion(tmp_path: Path):
    """The state of a text that nobody could count here: doubled, until a count needs more than 32 bits."""
    model = made(many(1), 3)
    for _ in range(31):
        model.tally.reset(merge_counts([model.counts, model.counts], tmp_path))
    assert int(model.counts.counts[2].max()) > 1 << 32
    assert np.exp(model.next_log_probs([np.array([END, 3])])).sum() == pytest.approx(1, abs=1e-6)
    again = made([], 3)
    again.load(model.arrays())
    assert np.array_equal(again.next_log_probs([np.array([END, 3])]), model.next_log_probs([np.array([END, 3])]))


def test_room_beyond_memory_is_on_the_disk(tmp_path: Path):
    room = ArrayPool(LARGE, tmp_path)
    first, second = room.zeros(LARGE // 8, np.int64), room.zeros((LARGE // 8, 1), np.int64)
    assert _file_of(first) is None
    assert _file_of(second) is not None
    second[:] = 7
    assert int(second.sum()) == 7 * (LARGE // 8)
    room.release(first)
    assert _file_of(room.empty(LARGE // 8, np.int64)) is None
    assert os.listdir(tmp_path) == []


def test_what_lies_in_files_takes_no_memory_once_it_was_let_go(tmp_path: Path):
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    array = ArrayPool(0, tmp_path).zeros(LARGE // 2, np.int64)
    array[:] = 7
    before = resident()
    release_pages(array[5:], np.zeros(3))
    assert before - resident() > LARGE * 2
    assert (array == 7).all()


def test_a_room_forgets_only_what_it_gave(tmp_path: Path):
    room = ArrayPool(LARGE, tmp_path)
    array = room.empty(LARGE // 8, np.int64)
    room.release(np.zeros(LARGE, np.uint8), array[1:])
    assert room.bytes_used == array.nbytes
    room.release(array)
    assert room.bytes_used == 0


def test_two_ngrams_that_are_alike_are_seen():
    from forebear.kernels.jit import compile_kernel
    from forebear.kernels.layout import LINE_BACKOFF, LINE_MIDDLE, SPARE_LINES
    from forebear.kernels.ngram_table import fill_table_kernel, has_duplicates_kernel

    def filled(hashes: list[int]) -> tuple[int, bool]:
        lines, used = np.zeros((1 + SPARE_LINES, LINE_BACKOFF), np.uint64), np.zeros(1 + SPARE_LINES, np.uint8)
        given = np.array(hashes, np.uint64), *np.zeros((2, len(hashes)), np.uint32)
        far = compile_kernel(fill_table_kernel)(lines, used, 0, 1 + SPARE_LINES, *given, False)
        return far, compile_kernel(has_duplicates_kernel)(lines, used)

    different = [2 * number for number in range(1, 2 * LINE_MIDDLE)]
    assert filled(different) == (1, False)  # all at home in one line, and what does not fit in the next
    assert filled([2, 4, 2]) == (0, True)  # in one line
    assert filled([*different, 2])[0] == -1  # the line was full before the second came
    assert filled([*different, different[-1]])[1]
