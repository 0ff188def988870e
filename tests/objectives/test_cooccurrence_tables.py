"""Counts of words that stand together: those of a plain count, whatever the memory; whole, or not there."""

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
from small_portions import Ids, portion_of, random_text

WORDS = 7  # ids; 0 is never counted
SETTINGS: dict[str, Any] = {"vocabulary": WORDS, "window": 2, "unit": "document", "blocked_ids": frozenset({0})}
sentences = st.lists(st.integers(0, WORDS - 1), min_size=1, max_size=8)
texts = st.lists(st.lists(sentences, min_size=1, max_size=3), min_size=1, max_size=5)


def plainly(text: Ids, window: int, unit: str, never: frozenset[int]) -> np.ndarray:
    table = np.zeros((WORDS, WORDS))
    units = [s for d in text for s in d] if unit == "sentence" else [[w for s in d for w in s] for d in text]
    for whole in units:
        words = [word for word in whole if word not in never]
        for here, word in enumerate(words):
            for there, other in enumerate(words):
                if 0 < abs(here - there) <= window:
                    table[word, other] += 1 / abs(here - there)
    return table


def dense(table: CooccurrenceTable, words: int = WORDS) -> np.ndarray:
    told = np.zeros((words, words), np.float32)
    told[table.rows, table.columns] = table.counts
    assert np.count_nonzero(told) == len(table)
    return told


@settings(max_examples=40)
@given(text=texts, window=st.integers(1, 20), unit=st.sampled_from(["sentence", "document"]), piece=st.integers(1, 9))
def test_counts_are_those_of_a_plain_count(text: Ids, window: int, unit: str, piece: int):
    never, told = frozenset({0}), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cooccurrence, "BAND_ROWS", 2)
        for size in (cooccurrence.CHUNK_TOKENS, piece):  # all at once, and in many stretches
            patch.setattr(cooccurrence, "CHUNK_TOKENS", size)
            source = portion_of(text, key=f"{size}")
            told.append(
                count_cooccurrences(source, vocabulary=WORDS, window=window, unit=unit, blocked_ids=never, max_memory=0)
            )
    assert np.allclose(dense(told[0]), plainly(text, window, unit, never), rtol=1e-4 if window > 16 else 1e-6)
    assert np.array_equal(dense(told[0]), dense(told[0]).T)
    for name in cooccurrence.ARRAYS:
        assert np.array_equal(getattr(told[0], name), getattr(told[1], name)), "memory changes neither counts nor order"


@pytest.mark.parametrize("longest", [1 << 22, 60])  # bands of many words, and of as few as can be
def test_little_memory_gives_the_same_bits_by_many_runs(monkeypatch: pytest.MonkeyPatch, longest: int):
    text, runs, told = random_text(200, 5000), [], []
    monkeypatch.setattr(cooccurrence, "MAX_CHUNK_TOKENS", longest)
    adding = cooccurrence._OnDiskRows.add
    monkeypatch.setattr(cooccurrence._OnDiskRows, "add", lambda self, stretch: (runs.append(1), adding(self, stretch)))
    for key, piece in (("at once", 1 << 20), ("in parts", 100)):
        monkeypatch.setattr(cooccurrence, "CHUNK_TOKENS", piece)
        monkeypatch.setattr(cooccurrence, "BUFFER_ENTRIES", 300)
        told.append(count_cooccurrences(portion_of(text, key), vocabulary=200, window=5, unit="document", max_memory=0))
        assert (len(runs) > 10) == (key == "in parts")
    for name in cooccurrence.ARRAYS:
        assert np.array_equal(getattr(told[0], name), getattr(told[1], name))
    tiles = told[0].rows // cooccurrence.BAND_ROWS * 1000 + told[0].columns // cooccurrence.BAND_ROWS
    if longest > 60:
        assert (np.diff(tiles) >= 0).all(), "entries stand in tiles"


def test_one_line_of_a_million_tokens_is_counted_to_its_end():
    text = [[[1, 2] * 500_000 + [3]]]
    table = dense(count_cooccurrences(portion_of(text, "long"), vocabulary=4, window=1, unit="sentence"), 4)
    assert table[1, 2] == table[2, 1] == 999_999
    assert table[2, 3] == table[3, 2] == 1


def test_it_is_counted_once(kept: Path, monkeypatch: pytest.MonkeyPatch):
    seen: list[tuple[int, int]] = []
    source = portion_of(random_text(WORDS, 300))
    first = count_cooccurrences(source, **SETTINGS, progress=lambda *at: seen.append(at))
    assert seen
    assert seen == sorted(seen)
    assert seen[-1][0] == seen[-1][1]
    monkeypatch.setattr(cooccurrence, "_write_table", lambda *given: pytest.fail("counted again"))
    assert np.array_equal(count_cooccurrences(source, **SETTINGS).counts, first.counts)
    assert [item.name for item in kept.iterdir()] == [next(kept.iterdir()).name], "nothing else is left"
    assert not first.counts.flags.writeable


@pytest.mark.parametrize(
    "other", [{"window": 3}, {"unit": "sentence"}, {"blocked_ids": frozenset({1})}, {"vocabulary": 8}, "fewer units"]
)
def test_other_settings_are_another_table(kept: Path, other: Any):
    source = portion_of(random_text(WORDS, 300))
    count_cooccurrences(source, **SETTINGS)
    if isinstance(other, str):
        count_cooccurrences(Subset(source.corpus, source.units[1:]), **SETTINGS)
    else:
        count_cooccurrences(source, **SETTINGS | other)
    assert len(list(kept.iterdir())) == 2


@pytest.mark.parametrize("name", ["counts.npy", cooccurrence.METADATA_FILE])
@pytest.mark.parametrize("damage", [b"", b"nonsense", None])
def test_a_damaged_table_is_counted_anew(kept: Path, name: str, damage: bytes | None):
    source = portion_of(random_text(WORDS, 300))
    right = dense(count_cooccurrences(source, **SETTINGS))
    (folder,) = kept.iterdir()
    (folder / name).unlink() if damage is None else (folder / name).write_bytes(damage)
    with pytest.raises(ForebearError):
        CooccurrenceTable.open(folder)
    assert np.array_equal(dense(count_cooccurrences(source, **SETTINGS)), right)


def test_a_full_disk_is_told_and_leaves_no_half(kept: Path, monkeypatch: pytest.MonkeyPatch):
    source = portion_of(random_text(WORDS, 300))

    def full(*given: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(cooccurrence.NpyAppender, "append", full)
        with pytest.raises(ForebearError, match="No space left") as told:
            count_cooccurrences(source, **SETTINGS)
    assert "FOREBEAR_CACHE" in told.value.hint
    assert not list(kept.iterdir()), "nothing takes up the room that there is not"
    assert len(count_cooccurrences(source, **SETTINGS))
    assert len(list(kept.iterdir())) == 1


KILLED = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from small_portions import portion_of, random_text
from forebear.objectives import cooccurrence
def die(*given): os.kill(os.getpid(), signal.SIGKILL)
setattr(cooccurrence, sys.argv[2], die)
cooccurrence.count_cooccurrences(portion_of(random_text(7, 300)), vocabulary=7, window=2, unit="document",
    blocked_ids=frozenset({0}))
"""


@pytest.mark.parametrize("moment", ["tile_entries", "write_json", "sync_folder"])
def test_a_count_that_is_killed_begins_again(kept: Path, moment: str):
    done = subprocess.run([sys.executable, "-c", KILLED, str(Path(__file__).parents[1]), moment], env=dict(os.environ))
    assert done.returncode == -signal.SIGKILL
    finished = [item for item in kept.iterdir() if not item.name.endswith(".part")]
    assert len(finished) == (moment == "sync_folder"), "only what is whole has its name"
    source = portion_of(random_text(WORDS, 300))
    table = count_cooccurrences(source, **SETTINGS)
    right = plainly(random_text(WORDS, 300), 2, "document", frozenset({0}))
    assert np.allclose(dense(table), right, rtol=1e-6)
    assert len([item for item in kept.iterdir() if not item.name.endswith(".part")]) == 1


def test_ids_beyond_the_vocabulary_are_refused():
    with pytest.raises(InputError, match="the id 6"):
        count_cooccurrences(portion_of([[[1, 6]]]), vocabulary=6, window=2, unit="document")
    with pytest.raises(InputError, match="window"):
        count_cooccurrences(portion_of([[[1, 6]]]), vocabulary=7, window=0, unit="document")
    with pytest.raises(InputError, match="unit"):
        count_cooccurrences(portion_of([[[1, 6]]]), vocabulary=7, window=1, unit="page")


def test_texts_in_which_nothing_stands_together(monkeypatch: pytest.MonkeyPatch):
    for text in ([[[1]]], [[[0, 1, 0]]], [[[0]]], [[[1]], [[2]]]):
        assert len(count_cooccurrences(portion_of(text), **SETTINGS)) == 0
        with monkeypatch.context() as patch:
            patch.setattr(cooccurrence, "_write_table", lambda *given: pytest.fail("counted again"))
            assert len(count_cooccurrences(portion_of(text), **SETTINGS)) == 0
