"""Bad input, torn files, full and read-only disks, two processes: each is named with its remedy; nothing is lost."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from forebear.cli.main import main
from forebear.data.io.atomic import file_digest
from forebear.errors import ForebearError, InputError
from forebear.experiments import pipeline
from forebear.inference.run import Run
from forebear.training.run_folder import RunFolder
from forebear.training.trainer import ProgressReport, TrainingCallback
from small_runs import NEURAL, WAYS, Notes, opened, plan, text, trained, weights


class Breaking(TrainingCallback):
    """Ends training with an error of its own once a step is reached, as a crash would."""

    def __init__(self, at: int) -> None:
        self.at = at

    def on_progress(self, report: ProgressReport) -> None:
        if report.step >= self.at:
            raise RuntimeError("crash")


@pytest.fixture
def book(tmp_path: Path) -> Path:
    (tmp_path / "text.txt").write_text(text(), encoding="utf-8")
    return tmp_path / "text.txt"


def said(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    code = main([str(argument) for argument in arguments])
    return code, capsys.readouterr().err


# -- bad use


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["pretrain", "gtp2", "{book}"], "did you mean gpt2"),
        (["pretrain", "gpt2", "{book}", "--widht", "8"], "did you mean --width"),
        (["pretrain", "gpt2", "{book}", "--tim", "5m"], "did you mean --time"),
        (["pretrain", "gpt2", "{book}", "--size", "tinny"], "did you mean tiny"),
        (["pretrain", "gpt2", "{book}", "--width", "wide"], "--width is 'wide'"),
        (["pretrain", "gpt2", "{book}", "--heads", "5", "--width", "32"], "cannot be"),
        (["pretrain", "ngram", "{book}", "--order", "0"], "order"),
        (["pretrain", "ngram", "{book}", "--smoothing", "magic"], "magic"),
        (["pretrain", "gpt2"], "what to train on what"),
        (["pretrain", "gpt2", "nowhere.txt"], "nowhere.txt"),
        (["pretrain", "gpt2", "{book}", "--time", "soon"], "no duration"),
        (["pretrain", "gpt2", "{book}", "--device", "abacus"], "abacus"),
        (
            ["pretrain", "gpt2", "{book}", "--context", "100000", "--tokenizer", "characters"],
            "longer than the whole text",
        ),
        (["pretrain", "gpt2", "{book}", "--vocabulary", "100"], "size is 100"),
        (["pretrain", "--resume", "nowhere"], "there is no such run"),
        (["pretrain", "gpt2", "--resume", "nowhere"], "takes everything"),
        (["score", "nowhere", "a"], "there is no such run"),
        (["generate", "{folder}", "a"], "is no run"),
        (["export", "{folder}", "--format", "arpa", "--to", "x"], "is no run"),
        (["import", "{folder}", "--to", "x"], "config.json"),
    ],
)
def test_bad_use_is_named_with_its_remedy(
    arguments: list[str], words: str, book: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(book.parent)
    filled = [argument.format(book=book, folder=book.parent) for argument in arguments]
    code, told = said(capsys, *filled)
    assert (code, words in told) == (2, True), told
    assert "Traceback" not in told


def test_a_vocabulary_larger_than_the_text(book: Path):
    """It becomes as large as the text can fill, and no larger."""
    run = pipeline.run_pretraining(plan("gpt2", book, tokenizer="words", steps=2), book.parent / "run")
    assert run.metadata["tokenizer"]["size"] < 200


def test_another_run_in_the_way(book: Path):
    trained("ngram", book.parent)
    with pytest.raises(InputError, match="holds another run"):
        trained("ngram", book.parent, order=2)
    (book.parent / "stranger").mkdir()
    (book.parent / "stranger" / "diary.txt").write_text("mine")
    with pytest.raises(InputError, match="is no run"):
        trained("ngram", book.parent, to="stranger")
    assert (book.parent / "stranger" / "diary.txt").read_text() == "mine"
    replaced = pipeline.run_pretraining(plan("ngram", book, order=2), book.parent / "run", overwrite=True)
    assert replaced.spec.order == 2  # pyright: ignore[reportAttributeAccessIssue]


def test_a_finished_run_is_opened_not_made_again(book: Path):
    first = trained("ngram", book.parent)
    stamp = (first.path / "weights.safetensors").stat().st_mtime_ns
    assert weights(trained("ngram", book.parent)) == weights(first)
    assert (first.path / "weights.safetensors").stat().st_mtime_ns == stamp


def test_text_that_changed_since_a_run_began(book: Path):
    with pytest.raises(RuntimeError):
        trained("gpt2", book.parent, watcher=Breaking(20))
    corpus = Path(RunFolder.open(book.parent / "run").metadata["data"]["folder"])
    shutil.rmtree(corpus)
    book.write_text(text() + "\nOne more line.\n", encoding="utf-8")
    with pytest.raises(InputError, match="has changed since it began"):
        pipeline.resume_pretraining(book.parent / "run")
    book.write_text(text(), encoding="utf-8")
    assert pipeline.resume_pretraining(book.parent / "run").is_finished  # the corpus is made again
    book.unlink()
    shutil.rmtree(corpus)
    with pytest.raises(InputError, match="is gone"):
        pipeline.repeat_run(book.parent / "run", book.parent / "again")


# -- weights


def test_weights_with_a_missing_extra_or_misshapen_tensor_are_named(book: Path):
    import torch
    from safetensors.torch import load_file, save_file

    run = trained("gpt2", book.parent, steps=2)
    file = run.path / "weights.safetensors"
    whole = load_file(file)
    name = "encoder.blocks.1.expand.weight"
    wrong = {
        f"{name} is missing": {key: value for key, value in whole.items() if key != name},
        "a.stranger": whole | {"a.stranger": torch.zeros(2)},
        f"{name} has the shape": whole | {name: torch.zeros(3, 2)},
    }
    for words, tensors in wrong.items():
        save_file(tensors, file)
        run.update(weights={"sha256": file_digest(file), "bytes": file.stat().st_size, "step": 2})
        with pytest.raises(ForebearError, match="do not fit") as raised:
            Run.open(run.path).score("the")
        assert words in str(raised.value)
        assert str(file) in str(raised.value)


def test_counts_with_a_missing_or_extra_array_are_named(book: Path):
    import numpy as np
    from safetensors.numpy import load_file, save_file

    run = trained("ngram", book.parent)
    file = run.path / "weights.safetensors"
    whole = load_file(file)
    for words, arrays in {
        "counts.2": {key: value for key, value in whole.items() if key != "counts.2"},
        "stranger": whole | {"stranger": np.zeros(2)},
    }.items():
        save_file(arrays, file)
        run.update(weights={"sha256": file_digest(file), "bytes": file.stat().st_size, "step": 2})
        with pytest.raises(ForebearError) as raised:
            Run.open(run.path).score("the")
        assert words in str(raised.value)


# -- torn checkpoints


def _cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def _flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[-3] ^= 0x40
    file.write_bytes(data)


TEARS = {
    "weights cut short": lambda one: _cut(one / "weights.safetensors"),
    "a bit of the weights turned": lambda one: _flip(one / "weights.safetensors"),
    "weights gone": lambda one: (one / "weights.safetensors").unlink(),
    "manifest cut short": lambda one: _cut(one / "manifest.json"),
    "manifest gone": lambda one: (one / "manifest.json").unlink(),
    "state emptied": lambda one: (one / "state.json").write_text(""),
    "state of another run": lambda one: (one / "state.json").write_text('{"position": {}}'),
}


@pytest.mark.sample(4)
@pytest.mark.parametrize("tear", TEARS)
@pytest.mark.parametrize("name", WAYS)
def test_a_torn_checkpoint_is_passed_over(name: str, tear: str, book: Path):
    changes = {"evaluate_every": 4, "keep": 3} | ({"steps": 30} if name in NEURAL else {"batch": 10})
    whole = trained(name, book.parent, to="whole", **changes)
    with pytest.raises(RuntimeError):
        trained(name, book.parent, to="torn", watcher=Breaking(20), **changes)
    torn = RunFolder.open(book.parent / "torn")
    newest = torn.checkpoints.list_all()[-1]
    TEARS[tear](newest.folder)
    notes = Notes()
    again = pipeline.resume_pretraining(torn.path, watcher=notes)
    assert any(str(newest.folder) in words and "fell back to step" in words for words in notes.words), notes.words
    assert weights(again) == weights(whole)


def test_where_no_checkpoint_is_good_the_files_are_named(book: Path):
    with pytest.raises(RuntimeError):
        trained("gpt2", book.parent, watcher=Breaking(30), steps=40, evaluate_every=4, keep=2)
    run = RunFolder.open(book.parent / "run")
    for one in run.checkpoints.list_all():
        _flip(one.folder / "weights.safetensors")
    with pytest.raises(ForebearError, match="no checkpoint of this run is whole") as raised:
        pipeline.resume_pretraining(run.path)
    for one in run.checkpoints.list_all():
        assert str(one.folder / "weights.safetensors") in str(raised.value)


def test_damaged_final_weights_fall_back_to_the_checkpoint(book: Path):
    run = opened("gpt2", book.parent, steps=4)
    before = run.score("the cat")[0].log_prob
    file = run.folder.path / "weights.safetensors"
    with open(file, "r+b") as opened_again:  # in place, as a failing disk does it
        opened_again.truncate(file.stat().st_size - 5)
    again = Run.open(run.folder.path)
    assert again.score("the cat")[0].log_prob == before
    assert any("used the checkpoint of step 4 instead" in note for note in again.notes)
    shutil.rmtree(run.folder.path / "checkpoints")
    with pytest.raises(ForebearError, match="no checkpoint to fall back to"):
        Run.open(run.folder.path).score("the cat")


def test_run_json_that_cannot_be_read(book: Path):
    run = trained("ngram", book.parent)
    (run.path / "run.json").write_text('{"form')
    with pytest.raises(ForebearError, match=r"run\.json: cannot be read"):
        Run.open(run.path)


# -- processes


def test_a_second_process_is_refused(book: Path):
    """While one process trains, another that wants the same run is told so, and the first is not disturbed."""
    told: list[str] = []

    class Meanwhile(TrainingCallback):
        def on_progress(self, report: ProgressReport) -> None:
            if report.step == 20:
                code = "import sys; from forebear.experiments import pipeline; pipeline.resume_pretraining(sys.argv[1])"
                done = subprocess.run(
                    [sys.executable, "-c", code, book.parent / "run"], capture_output=True, text=True, timeout=100
                )
                told.append(done.stderr)

    run = trained("gpt2", book.parent, watcher=Meanwhile(), steps=30)
    assert run.is_finished
    assert "another process is training this run" in told[0]
    assert weights(run) == weights(trained("gpt2", book.parent, to="alone", steps=30))


def test_a_torn_best_checkpoint_is_not_published(book: Path):
    """The best is damaged while training goes on: the last is kept instead, and that is said."""
    changes = {"steps": 120, "rate": 2e-2, "evaluate_every": 10, "fall": 1000}
    best = trained("gpt2", book.parent, to="whole", **changes).metadata["best_step"]

    class Tearing(Notes):
        def on_progress(self, report: ProgressReport) -> None:
            if report.step == best + 10:
                _flip(book.parent / "run" / "checkpoints" / f"{best:08d}" / "weights.safetensors")

    notes = Tearing()
    run = trained("gpt2", book.parent, watcher=notes, **changes)
    assert run.metadata["best_step"] == 120
    assert any("the last one is kept instead" in words for words in notes.words)


def test_counting_keeps_the_last_even_where_something_is_impossible(book: Path):
    run = trained("ngram", book.parent, smoothing="none", batch=20, evaluate_every=4)
    assert run.metadata["weights"]["step"] == run.metadata["step"] > 8
    assert "Infinity" not in (run.path / "run.json").read_text()


def test_the_same_command_goes_on_with_the_threads_of_then(book: Path):
    changes = {"threads": None, "steps": 40, "evaluate_every": 10}
    with pytest.raises(RuntimeError):
        trained("gpt2", book.parent, watcher=Breaking(20), **changes)
    run = RunFolder.open(book.parent / "run")
    run.update(recipe=run.metadata["recipe"] | {"threads": 1})
    assert trained("gpt2", book.parent, **changes).metadata["recipe"]["threads"] == 1
    import torch

    assert torch.get_num_threads() == 1


def test_a_run_killed_before_it_was_one_is_begun_again(book: Path):
    (book.parent / "run").mkdir()
    (book.parent / "run" / "tokenizer.json").write_text("half")
    assert trained("ngram", book.parent).is_finished
