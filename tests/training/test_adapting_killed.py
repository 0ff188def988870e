"""A real kill while a run is adapted: the same command, or --resume, ends bit for bit where an unbroken one does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from forebear.cli.main import main
from forebear.errors import InputError, UserInterrupt
from forebear.experiments import pipeline
from forebear.training.run_folder import RunFolder
from forebear.training.trainer import ProgressReport, TrainingCallback
from labelled_texts import adapted, file_of, written
from small_runs import sampled, trained, weights

STEPS = 40
CODE = "from forebear.cli.main import run; run()"


IN_PROCESS = {"crf": True, "steps": STEPS, "evaluate_every": 5}


class Pressing(TrainingCallback):
    """Interrupts like Ctrl-C once something was learned."""

    def on_progress(self, report: ProgressReport) -> None:
        if report.step == 10:
            os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("killed")
    (folder / "text.txt").write_text(written("pairs", 100).replace("\t", " ").replace("\n", "\n\n"))
    trained("bert", folder, steps=5, context=48, to="bert")
    trained("word2vec", folder, steps=5, to="word2vec")
    assert main(command(folder, "whole")) == 0
    return folder


def command(home: Path, to: str, begin: str = "bert") -> list[str]:
    words = ["adapt", home / begin, file_of("tagging", home, 60), "--crf", "--to", home / to, "--steps", STEPS]
    words += ["--threads", 1, "--save-every", "0.02s", "--quiet"]
    words += [] if begin == "bert" else ["--reader", "recurrent", "--dropout", 0.1]
    return [str(word) for word in words]


def killed(home: Path, to: str, how: signal.Signals, begin: str = "bert") -> RunFolder:
    """A run that was broken off after it had saved something."""
    words = command(home, to, begin)
    process = subprocess.Popen([sys.executable, "-c", CODE, *words], stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not list((home / to / "checkpoints").glob("[0-9]*")):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(how)
    process.wait(60)
    run = RunFolder.open(home / to)
    assert not run.is_finished
    return run


@pytest.mark.parametrize("by", sampled(["command", "resume"], ["resume"]))
def test_it_ends_where_an_unbroken_one_does(by: str, home: Path):
    run = killed(home, by, signal.SIGKILL)
    assert main(command(home, by) if by == "command" else ["adapt", "--resume", str(run.path), "--quiet"]) == 0
    ended = RunFolder.open(run.path)
    assert ended.is_finished
    assert weights(ended) == weights(RunFolder.open(home / "whole"))
    assert ended.metadata["metrics"] == RunFolder.open(home / "whole").metadata["metrics"]


@pytest.mark.slow
def test_a_reader_of_words_ends_where_an_unbroken_one_does(home: Path):
    assert main(command(home, "whole-words", "word2vec")) == 0
    run = killed(home, "broken-words", signal.SIGKILL, "word2vec")
    assert main(["adapt", "--resume", str(run.path), "--quiet"]) == 0
    assert weights(RunFolder.open(run.path)) == weights(RunFolder.open(home / "whole-words"))


def test_ctrl_c_saves(home: Path):
    with pytest.raises(UserInterrupt):
        adapted(home / "bert", "tagging", home, to="interrupted", watcher=Pressing(), **IN_PROCESS)
    run = RunFolder.open(home / "interrupted")
    assert not run.is_finished
    assert run.metadata["state"] == "interrupted"
    assert run.checkpoints.newest_valid()[0] is not None
    assert run.resume_command == f"forebear adapt --resume {run.path}"


@pytest.mark.slow
def test_ctrl_c_ends_a_command_that_saves(home: Path):
    run = killed(home, "interrupted-command", signal.SIGINT)
    assert run.metadata["state"] == "interrupted"
    assert run.resume_command == f"forebear adapt --resume {run.path}"


def test_examples_that_changed_are_not_gone_on_with(home: Path, tmp_path: Path):
    with pytest.raises(UserInterrupt):
        adapted(home / "bert", "tagging", tmp_path, to="changed", watcher=Pressing(), **IN_PROCESS)
    file = file_of("tagging", tmp_path, 60)
    file.write_text(file.read_text() + "\nnew\tO\n\n")
    with pytest.raises(InputError, match="have changed"):
        pipeline.resume_adaptation(tmp_path / "changed")
    file.unlink()
    with pytest.raises(InputError, match="are gone"):
        pipeline.resume_adaptation(tmp_path / "changed")


def test_what_is_finished_stays(home: Path):
    before = RunFolder.open(home / "whole").metadata
    assert pipeline.resume_adaptation(home / "whole").metadata == before
    bert = RunFolder.open(home / "bert")
    bert.update(state="interrupted")
    with pytest.raises(InputError, match="not adapted"):
        pipeline.resume_adaptation(home / "bert")
    bert.update(state="finished")
