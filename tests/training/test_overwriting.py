"""Replacing a run: the old one is lost only when the new one has begun, whatever goes wrong on the way."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from forebear.errors import ForebearError, InputError
from forebear.experiments import pipeline
from forebear.training.run_folder import RunFolder
from small_runs import plan, text, trained, weights


@pytest.fixture
def book(tmp_path: Path) -> Path:
    file = tmp_path / "text.txt"
    file.write_text(text(), encoding="utf-8")
    return file


def replaced(book: Path, **changes: object) -> RunFolder:
    return pipeline.run_pretraining(plan("gpt2", book, **changes), book.parent / "run", overwrite=True)


def test_what_cannot_be_trained_replaces_nothing(book: Path):
    old = trained("gpt2", book.parent, steps=3)
    for changes, words in (({"context": 100_000}, "longer than the whole text"), ({"device": "abacus"}, "abacus")):
        with pytest.raises(InputError, match=words):
            replaced(book, **changes)
    assert weights(RunFolder.open(old.path)) == weights(old)


def test_where_beginning_fails_the_old_run_comes_back(book: Path, monkeypatch: pytest.MonkeyPatch):
    old = trained("gpt2", book.parent, steps=3)

    def full(*_: object) -> RunFolder:
        old.path.mkdir()
        (old.path / "tokenizer.json").write_text("half")
        raise ForebearError("No space left on device")

    monkeypatch.setattr(RunFolder, "create", full)
    with pytest.raises(ForebearError, match="No space"):
        replaced(book, steps=4)
    assert weights(RunFolder.open(old.path)) == weights(old)
    assert not (book.parent / ".run.replaced").exists()


def test_a_kill_while_replacing_blocks_nothing(book: Path, monkeypatch: pytest.MonkeyPatch):
    """Killed when the old run stands aside: the same command begins the new one, and the old one goes in the end."""
    trained("gpt2", book.parent, steps=3)

    class Killed(BaseException):
        """Nothing is tidied up after it."""

    with monkeypatch.context() as patch:

        def killed(*_: object) -> RunFolder:
            patch.setattr(shutil, "rmtree", lambda *_, **__: None)
            patch.setattr(Path, "rename", lambda *_: None)
            raise Killed

        patch.setattr(RunFolder, "create", killed)
        with pytest.raises(Killed):
            replaced(book, steps=4)
    assert not (book.parent / "run").exists()
    assert replaced(book, steps=4).metadata["step"] == 4
    assert replaced(book, steps=5).metadata["step"] == 5
    assert not (book.parent / ".run.replaced").exists()
