"""An adaptation that is killed and resumed ends bit for bit like an uninterrupted one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from adapted_runs import adapt_small_run, task_file, task_file_text
from forebear.cli.main import main
from forebear.errors import InputError, UserInterrupt
from forebear.experiments import training_run
from forebear.training.run_folder import RunFolder
from forebear.training.trainer import ProgressReport, TrainingCallback
from small_runs import sample_params, train_small_run, weights_digest

STEPS = 40
CODE = "from forebear.cli.main import run; run()"


IN_PROCESS = {"crf": True, "steps": STEPS, "evaluate_every": 5}


class InterruptAtStep10(TrainingCallback):
    """Sends SIGINT to this process at step 10."""

    def on_progress(self, report: ProgressReport) -> None:
        if report.step == 10:
            os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture(scope="module")
def workdir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("killed")
    (folder / "text.txt").write_text(task_file_text("pairs", 100).replace("\t", " ").replace("\n", "\n\n"))
    train_small_run("bert", folder, steps=5, context=48, to="bert")
    train_small_run("word2vec", folder, steps=5, to="word2vec")
    assert main(command(folder, "whole")) == 0
    return folder


def command(workdir: Path, to: str, parent: str = "bert") -> list[str]:
    arguments = [
        "adapt",
        workdir / parent,
        task_file("tagging", workdir, 60),
        "--crf",
        "--to",
        workdir / to,
        "--steps",
        STEPS,
    ]
    arguments += ["--threads", 1, "--save-every", "0.02s", "--quiet"]
    arguments += [] if parent == "bert" else ["--reader", "recurrent", "--dropout", 0.1]
    return [str(argument) for argument in arguments]


def killed_run(workdir: Path, to: str, signal_number: signal.Signals, parent: str = "bert") -> RunFolder:
    """A run that got the signal after its first checkpoint."""
    arguments = command(workdir, to, parent)
    process = subprocess.Popen([sys.executable, "-c", CODE, *arguments], stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not list((workdir / to / "checkpoints").glob("[0-9]*")):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal_number)
    process.wait(60)
    run = RunFolder.open(workdir / to)
    assert not run.is_finished
    return run


@pytest.mark.parametrize("by", sample_params(["command", "resume"], ["resume"]))
def test_killed_adaptation_resumes_bit_for_bit(by: str, workdir: Path):
    run = killed_run(workdir, by, signal.SIGKILL)
    assert main(command(workdir, by) if by == "command" else ["adapt", "--resume", str(run.path), "--quiet"]) == 0
    ended = RunFolder.open(run.path)
    assert ended.is_finished
    assert weights_digest(ended) == weights_digest(RunFolder.open(workdir / "whole"))
    assert ended.metadata["metrics"] == RunFolder.open(workdir / "whole").metadata["metrics"]


@pytest.mark.slow
def test_killed_adaptation_of_word_vectors_resumes_bit_for_bit(workdir: Path):
    assert main(command(workdir, "whole-words", "word2vec")) == 0
    run = killed_run(workdir, "broken-words", signal.SIGKILL, "word2vec")
    assert main(["adapt", "--resume", str(run.path), "--quiet"]) == 0
    assert weights_digest(RunFolder.open(run.path)) == weights_digest(RunFolder.open(workdir / "whole-words"))


def test_interrupt_saves_adaptation_and_names_resume_command(workdir: Path):
    with pytest.raises(UserInterrupt):
        adapt_small_run(
            workdir / "bert", "tagging", workdir, to="interrupted", callback=InterruptAtStep10(), **IN_PROCESS
        )
    run = RunFolder.open(workdir / "interrupted")
    assert not run.is_finished
    assert run.metadata["state"] == "interrupted"
    assert run.checkpoints.newest_valid()[0] is not None
    assert run.resume_command == f"forebear adapt --resume {run.path}"


@pytest.mark.slow
def test_interrupted_adapt_command_saves_before_it_exits(workdir: Path):
    run = killed_run(workdir, "interrupted-command", signal.SIGINT)
    assert run.metadata["state"] == "interrupted"
    assert run.resume_command == f"forebear adapt --resume {run.path}"


def test_resume_adaptation_refuses_changed_or_missing_examples(workdir: Path, tmp_path: Path):
    with pytest.raises(UserInterrupt):
        adapt_small_run(workdir / "bert", "tagging", tmp_path, to="changed", callback=InterruptAtStep10(), **IN_PROCESS)
    file = task_file("tagging", tmp_path, 60)
    file.write_text(file.read_text() + "\nnew\tO\n\n")
    with pytest.raises(InputError, match="have changed"):
        training_run.resume_adaptation(tmp_path / "changed")
    file.unlink()
    with pytest.raises(InputError, match="are gone"):
        training_run.resume_adaptation(tmp_path / "changed")


def test_resume_adaptation_leaves_finished_run_and_refuses_pretrained_run(workdir: Path):
    before = RunFolder.open(workdir / "whole").metadata
    assert training_run.resume_adaptation(workdir / "whole").metadata == before
    bert = RunFolder.open(workdir / "bert")
    bert.update(state="interrupted")
    with pytest.raises(InputError, match="not adapted"):
        training_run.resume_adaptation(workdir / "bert")
    bert.update(state="finished")
