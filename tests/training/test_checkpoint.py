"""Checkpoints on disk: a valid one of the same step is kept, a damaged one is replaced."""

from __future__ import annotations

from pathlib import Path

from forebear.training.checkpoint import CheckpointStore


def write_file(word: str):
    return lambda folder: (folder / "learned").write_text(word) and None


def test_save_keeps_valid_checkpoint_of_same_step(tmp_path: Path):
    """The bytes would be the same; between removal and replacement there would be no checkpoint."""
    checkpoints = CheckpointStore(tmp_path)
    first = checkpoints.save(7, {"seconds": 1}, write_file("first"))
    inode = first.folder.stat().st_ino
    second = checkpoints.save(7, {"seconds": 2}, write_file("second"))
    assert (second.folder.stat().st_ino, (second.folder / "learned").read_text()) == (inode, "first")


def test_save_replaces_damaged_checkpoint_of_same_step(tmp_path: Path):
    checkpoints = CheckpointStore(tmp_path)
    first = checkpoints.save(7, {}, write_file("first"))
    (first.folder / "learned").write_text("wurst")
    second = checkpoints.save(7, {}, write_file("second"))
    assert second.find_corruption() is None
    assert (second.folder / "learned").read_text() == "second"
    assert [item.name for item in tmp_path.iterdir()] == ["00000007"]
