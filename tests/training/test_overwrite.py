"""Overwriting a run: the old one is removed only after the new one has started."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from forebear.errors import ForebearError, InputError
from forebear.experiments import training_run
from forebear.training.run_folder import RunFolder
from small_runs import small_pretrain_plan, small_text, train_small_run, weights_digest


@pytest.fixture
def text_file(tmp_path: Path) -> Path:
    file = tmp_path / "text.txt"
    file.write_text(small_text(), encoding="utf-8")
    return file


def overwrite_run(text_file: Path, **changes: object) -> RunFolder:
    return training_run.run_pretraining(
        small_pretrain_plan("gpt2", text_file, **changes), text_file.parent / "run", overwrite=True
    )


def test_overwrite_with_invalid_settings_keeps_old_run(text_file: Path):
    old_run = train_small_run("gpt2", text_file.parent, steps=3)
    for changes, message in (({"context": 100_000}, "longer than the whole text"), ({"device": "abacus"}, "abacus")):
        with pytest.raises(InputError, match=message):
            overwrite_run(text_file, **changes)
    assert weights_digest(RunFolder.open(old_run.path)) == weights_digest(old_run)


def test_overwrite_restores_old_run_if_start_fails(text_file: Path, monkeypatch: pytest.MonkeyPatch):
    old_run = train_small_run("gpt2", text_file.parent, steps=3)

    def create_on_full_disk(*_: object) -> RunFolder:
        old_run.path.mkdir()
        (old_run.path / "tokenizer.json").write_text("half")
        raise ForebearError("No space left on device")

    monkeypatch.setattr(RunFolder, "create", create_on_full_disk)
    with pytest.raises(ForebearError, match="No space"):
        overwrite_run(text_file, steps=4)
    assert weights_digest(RunFolder.open(old_run.path)) == weights_digest(old_run)
    assert not (text_file.parent / ".run.replaced").exists()


def test_overwrite_killed_midway_can_be_repeated(text_file: Path, monkeypatch: pytest.MonkeyPatch):
    """Killed while the old run is set aside: the same command starts the new one and removes the old one."""
    train_small_run("gpt2", text_file.parent, steps=3)

    class Killed(BaseException):
        """No clean-up runs after it."""

    with monkeypatch.context() as patch:

        def killed_create(*_: object) -> RunFolder:
            patch.setattr(shutil, "rmtree", lambda *_, **__: None)
            patch.setattr(Path, "rename", lambda *_: None)
            raise Killed

        patch.setattr(RunFolder, "create", killed_create)
        with pytest.raises(Killed):
            overwrite_run(text_file, steps=4)
    assert not (text_file.parent / "run").exists()
    assert overwrite_run(text_file, steps=4).metadata["step"] == 4
    assert overwrite_run(text_file, steps=5).metadata["step"] == 5
    assert not (text_file.parent / ".run.replaced").exists()
