"""Checkpoints on disk: a step that stands whole is not written again, a damaged one is."""

from __future__ import annotations

from pathlib import Path

from forebear.training.checkpoint import CheckpointStore


def write(word: str):
    return lambda folder: (folder / "learned").write_text(word) and None


def test_a_whole_state_of_the_same_step_stays(tmp_path: Path):
    """It would be the same bytes; and between taking the old one away and putting a new one there lies a moment."""
    checkpoints = CheckpointStore(tmp_path)
    first = checkpoints.save(7, {"seconds": 1}, write("first"))
    stamp = first.folder.stat().st_ino
    again = checkpoints.save(7, {"seconds": 2}, write("second"))
    assert (again.folder.stat().st_ino, (again.folder / "learned").read_text()) == (stamp, "first")


def test_a_damaged_state_of_the_same_step_is_replaced(tmp_path: Path):
    checkpoints = CheckpointStore(tmp_path)
    first = checkpoints.save(7, {}, write("first"))
    (first.folder / "learned").write_text("wurst")
    again = checkpoints.save(7, {}, write("second"))
    assert again.find_corruption() is None
    assert (again.folder / "learned").read_text() == "second"
    assert [item.name for item in tmp_path.iterdir()] == ["00000007"]
