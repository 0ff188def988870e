"""Co-occurrence tables equal plain counts for any memory limit, and are complete or absent on disk."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forebear.data.corpus.subset import Subset
from forebear.errors import ForebearError, InputError
from forebear.objectives import cooccurrence
from forebear.objectives.cooccurrence import CooccurrenceTable, count_cooccurrences
from small_subsets import DocumentIds, random_documents, subset_of

WORDS = 7  # ids; 0 is never counted
SETTINGS: dict[str, Any] = {"vocab_size": WORDS, "window": 2, "unit": "document", "ignored_ids": frozenset({0})}
sentences = st.lists(st.integers(0, WORDS - 1), min_size=1, max_size=8)
texts = st.lists(st.lists(sentences, min_size=1, max_size=3), min_size=1, max_size=5)


def reference_counts(text: DocumentIds, window: int, unit: str, never: frozenset[int]) -> np.ndarray:
    table = np.zeros((WORDS, WORDS))
    units = [s for d in text for s in d] if unit == "sentence" else [[w for s in d for w in s] for d in text]
    for tokens in units:
        words = [word for word in tokens if word not in never]
        for position, word in enumerate(words):
            for other_position, other in enumerate(words):
                if 0 < abs(position - other_position) <= window:
                    table[word, other] += 1 / abs(position - other_position)
    return table


def dense(table: CooccurrenceTable, words: int = WORDS) -> np.ndarray:
    matrix = np.zeros((words, words), np.float32)
    matrix[table.rows, table.columns] = table.counts
    assert np.count_nonzero(matrix) == len(table)
    return matrix


@settings(max_examples=40)
@given(text=texts, window=st.integers(1, 20), unit=st.sampled_from(["sentence", "document"]), piece=st.integers(1, 9))
def test_cooccurrence_counts_equal_reference_counts(text: DocumentIds, window: int, unit: str, piece: int):
    never, tables = frozenset({0}), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cooccurrence, "TILE_SIZE", 2)
        for size in (cooccurrence.CHUNK_TOKENS, piece):  # in one chunk, and in many
            patch.setattr(cooccurrence, "CHUNK_TOKENS", size)
            source = subset_of(text, key=f"{size}")
            tables.append(
                count_cooccurrences(source, vocab_size=WORDS, window=window, unit=unit, ignored_ids=never, max_memory=0)
            )
    assert np.allclose(
        dense(tables[0]), reference_counts(text, window, unit, never), rtol=1e-4 if window > 16 else 1e-6
    )
    assert np.array_equal(dense(tables[0]), dense(tables[0]).T)
    for name in cooccurrence.ARRAYS:
        assert np.array_equal(getattr(tables[0], name), getattr(tables[1], name)), (
            "memory changes neither counts nor order"
        )


@pytest.mark.parametrize("longest", [1 << 22, 60])  # large and minimal bands of rows
def test_cooccurrence_counts_with_little_memory_are_bit_identical(monkeypatch: pytest.MonkeyPatch, longest: int):
    text, merges, tables = random_documents(200, 5000), [], []
    monkeypatch.setattr(cooccurrence, "MAX_BAND_ENTRIES", longest)
    plain_add = cooccurrence._OnDiskRows.add
    monkeypatch.setattr(cooccurrence._OnDiskRows, "add", lambda self, chunk: (merges.append(1), plain_add(self, chunk)))
    for key, piece in (("at once", 1 << 20), ("in parts", 100)):
        monkeypatch.setattr(cooccurrence, "CHUNK_TOKENS", piece)
        monkeypatch.setattr(cooccurrence, "BUFFER_ENTRIES", 300)
        tables.append(
            count_cooccurrences(subset_of(text, key), vocab_size=200, window=5, unit="document", max_memory=0)
        )
        assert (len(merges) > 10) == (key == "in parts")
    for name in cooccurrence.ARRAYS:
        assert np.array_equal(getattr(tables[0], name), getattr(tables[1], name))
    tiles = tables[0].rows // cooccurrence.TILE_SIZE * 1000 + tables[0].columns // cooccurrence.TILE_SIZE
    if longest > 60:
        assert (np.diff(tiles) >= 0).all(), "entries stand in tiles"


def test_line_of_a_million_tokens_is_counted_to_its_end():
    text = [[[1, 2] * 500_000 + [3]]]
    table = dense(count_cooccurrences(subset_of(text, "long"), vocab_size=4, window=1, unit="sentence"), 4)
    assert table[1, 2] == table[2, 1] == 999_999
    assert table[2, 3] == table[3, 2] == 1


def test_cooccurrence_table_is_cached(cooccurrence_cache: Path, monkeypatch: pytest.MonkeyPatch):
    progress_calls: list[tuple[int, int]] = []
    source = subset_of(random_documents(WORDS, 300))
    first = count_cooccurrences(
        source, **SETTINGS, progress=lambda *progress_values: progress_calls.append(progress_values)
    )
    assert progress_calls
    assert progress_calls == sorted(progress_calls)
    assert progress_calls[-1][0] == progress_calls[-1][1]
    monkeypatch.setattr(cooccurrence, "_write_table", lambda *arguments: pytest.fail("counted again"))
    assert np.array_equal(count_cooccurrences(source, **SETTINGS).counts, first.counts)
    assert [item.name for item in cooccurrence_cache.iterdir()] == [next(cooccurrence_cache.iterdir()).name], (
        "nothing else is left"
    )
    assert not first.counts.flags.writeable


@pytest.mark.parametrize(
    "other", [{"window": 3}, {"unit": "sentence"}, {"ignored_ids": frozenset({1})}, {"vocab_size": 8}, "fewer units"]
)
def test_other_settings_make_another_cached_table(cooccurrence_cache: Path, other: Any):
    source = subset_of(random_documents(WORDS, 300))
    count_cooccurrences(source, **SETTINGS)
    if isinstance(other, str):
        count_cooccurrences(Subset(source.corpus, source.units[1:]), **SETTINGS)
    else:
        count_cooccurrences(source, **SETTINGS | other)
    assert len(list(cooccurrence_cache.iterdir())) == 2


@pytest.mark.parametrize("name", ["counts.npy", cooccurrence.METADATA_FILE])
@pytest.mark.parametrize("damage", [b"", b"nonsense", None])
def test_damaged_cached_table_is_counted_again(cooccurrence_cache: Path, name: str, damage: bytes | None):
    source = subset_of(random_documents(WORDS, 300))
    expected = dense(count_cooccurrences(source, **SETTINGS))
    (folder,) = cooccurrence_cache.iterdir()
    (folder / name).unlink() if damage is None else (folder / name).write_bytes(damage)
    with pytest.raises(ForebearError):
        CooccurrenceTable.open(folder)
    assert np.array_equal(dense(count_cooccurrences(source, **SETTINGS)), expected)


def test_full_disk_while_counting_is_reported_and_leaves_no_files(
    cooccurrence_cache: Path, monkeypatch: pytest.MonkeyPatch
):
    source = subset_of(random_documents(WORDS, 300))

    def append_on_full_disk(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(cooccurrence.NpyAppender, "append", append_on_full_disk)
        with pytest.raises(ForebearError, match="No space left") as error:
            count_cooccurrences(source, **SETTINGS)
    assert "FOREBEAR_CACHE" in error.value.hint
    assert not list(cooccurrence_cache.iterdir()), "nothing takes up the room that there is not"
    assert len(count_cooccurrences(source, **SETTINGS))
    assert len(list(cooccurrence_cache.iterdir())) == 1


KILLED_PROGRAM = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from small_subsets import random_documents, subset_of
from forebear.objectives import cooccurrence
def die(*given): os.kill(os.getpid(), signal.SIGKILL)
setattr(cooccurrence, sys.argv[2], die)
cooccurrence.count_cooccurrences(subset_of(random_documents(7, 300)), vocab_size=7, window=2, unit="document",
    ignored_ids=frozenset({0}))
"""


@pytest.mark.parametrize("moment", ["tile_entries", "write_json", "sync_folder"])
def test_killed_count_starts_again_without_partial_table(cooccurrence_cache: Path, moment: str):
    process = subprocess.run(
        [sys.executable, "-c", KILLED_PROGRAM, str(Path(__file__).parents[1]), moment], env=dict(os.environ)
    )
    assert process.returncode == -signal.SIGKILL
    finished = [item for item in cooccurrence_cache.iterdir() if not item.name.endswith(".part")]
    assert len(finished) == (moment == "sync_folder"), "only what is whole has its name"
    source = subset_of(random_documents(WORDS, 300))
    table = count_cooccurrences(source, **SETTINGS)
    expected = reference_counts(random_documents(WORDS, 300), 2, "document", frozenset({0}))
    assert np.allclose(dense(table), expected, rtol=1e-6)
    assert len([item for item in cooccurrence_cache.iterdir() if not item.name.endswith(".part")]) == 1


def test_counting_refuses_ids_beyond_vocabulary_and_invalid_settings():
    with pytest.raises(InputError, match="the id 6"):
        count_cooccurrences(subset_of([[[1, 6]]]), vocab_size=6, window=2, unit="document")
    with pytest.raises(InputError, match="window"):
        count_cooccurrences(subset_of([[[1, 6]]]), vocab_size=7, window=0, unit="document")
    with pytest.raises(InputError, match="unit"):
        count_cooccurrences(subset_of([[[1, 6]]]), vocab_size=7, window=1, unit="page")


def test_text_without_cooccurrences_gives_cached_empty_table(monkeypatch: pytest.MonkeyPatch):
    for text in ([[[1]]], [[[0, 1, 0]]], [[[0]]], [[[1]], [[2]]]):
        assert len(count_cooccurrences(subset_of(text), **SETTINGS)) == 0
        with monkeypatch.context() as patch:
            patch.setattr(cooccurrence, "_write_table", lambda *arguments: pytest.fail("counted again"))
            assert len(count_cooccurrences(subset_of(text), **SETTINGS)) == 0
