"""Runs of several processes: started, resumed with another number, interrupted, killed; also under torchrun."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from adapted_runs import task_file
from command_line import Captured, refusal_message
from forebear.errors import ForebearError, InputError, UserInterrupt
from forebear.experiments import training_run
from forebear.training.process_group import ProcessGroup, launch_processes
from forebear.training.run_folder import MetricsLog, RunFolder
from forebear.training.trainer import ProgressReport
from forebear.training.worker_processes import WorkerPool
from small_runs import NoteRecorder, small_pretrain_plan, small_text, train_small_run, weights_digest

STEPS = 40
SETTINGS = {"steps": STEPS, "evaluate_every": 10, "save_every": 0.001, "dropout": 0.1}
CODE = "from forebear.cli.main import run; run()"


@pytest.fixture(scope="module")
def single_process_run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """The run of one process with two accumulated micro-batches per step."""
    folder = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FOREBEAR_CACHE", str(folder / "cache"))
        return train_small_run("gpt2", folder, accumulate=2, **SETTINGS)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the training text."""
    (tmp_path / "text.txt").write_text(small_text(), encoding="utf-8")
    return tmp_path


class AtStep(NoteRecorder):
    """Calls a function once a step is reached."""

    def __init__(self, step: int, action: Callable[[], Any]) -> None:
        super().__init__()
        self.step, self.action = step, action

    def on_progress(self, report: ProgressReport) -> None:
        if report.step >= self.step:
            self.step = sys.maxsize
            self.action()


def train(
    folder: Path, to: str, group: ProcessGroup, callback: NoteRecorder | None = None, **changes: Any
) -> RunFolder:
    pretrain_plan = small_pretrain_plan("gpt2", folder / "text.txt", **SETTINGS | changes)
    return training_run.run_pretraining(pretrain_plan, folder / to, callback=callback, group=group)


def losses(run: RunFolder) -> list[Any]:
    return [
        (line["step"], line["losses"], line.get("held_out"))
        for line in MetricsLog(run.path / "metrics.jsonl").read_lines()
    ]


def other_processes(group: ProcessGroup) -> list[subprocess.Popen[bytes]]:
    """The worker processes of a group."""
    assert isinstance(group.connection, WorkerPool)
    return group.connection.processes


@pytest.mark.slow
def test_run_of_two_processes_equals_run_of_one_and_can_be_rerun_by_one(single_process_run: RunFolder, folder: Path):
    with launch_processes(2) as group:
        assert group is not None
        run = train(folder, "two", group)
        assert run.metadata["processes"] == 2
        others = other_processes(group)
    assert [process.poll() for process in others] == [0]
    assert weights_digest(run) == weights_digest(single_process_run)
    assert losses(run) == losses(single_process_run)
    assert run.metadata["asked"]["recipe"] == single_process_run.metadata["asked"]["recipe"] | {"accumulate": 1}
    assert weights_digest(training_run.repeat_run(run.path, folder / "again")) == weights_digest(run)


@pytest.mark.slow
def test_run_resumes_with_another_number_of_processes(single_process_run: RunFolder, folder: Path):
    """From two to one to two. The same command finds the same run."""
    for processes, step in ((2, 10), (1, 20)):
        with pytest.raises(UserInterrupt, match="everything is saved"):
            train_with_processes(processes, folder, AtStep(step, lambda: signal.raise_signal(signal.SIGINT)))
        run = RunFolder.open(folder / "run")
        assert run.metadata["state"] == "interrupted"
        assert run.metadata["step"] >= step
    run = train_with_processes(2, folder, NoteRecorder())
    assert run.is_finished
    assert run.metadata["step"] == STEPS
    assert losses(run)[0] == losses(single_process_run)[0]
    actual, expected = (
        finished_run.metadata["metrics"]["held_out"]["bits_per_byte"] for finished_run in (run, single_process_run)
    )
    assert actual == pytest.approx(expected, rel=0.02)  # sums are in another order, and small models diverge


def train_with_processes(processes: int, folder: Path, callback: NoteRecorder) -> RunFolder:
    with launch_processes(processes) as group:
        assert group is not None
        return train(folder, "run", group, callback)


@pytest.mark.slow
def test_killed_worker_process_ends_run_which_resumes_bit_for_bit(single_process_run: RunFolder, folder: Path):
    def fail() -> None:
        with launch_processes(2) as group:
            assert group is not None
            train(folder, "run", group, AtStep(20, lambda: os.kill(other_processes(group)[0].pid, signal.SIGKILL)))

    with pytest.raises(ForebearError, match=r"process 1 \(of 0 to 1\) was killed by signal 9") as caught:
        fail()
    assert caught.value.exit_code == 1
    assert "goes on" in caught.value.hint
    run = train_with_processes(2, folder, callback := NoteRecorder())
    assert any(note.startswith("going on from step 20") for note in callback.messages)
    assert weights_digest(run) == weights_digest(single_process_run)


# -- the command line


def command(folder: Path, to: str, *more: object, steps: int = STEPS) -> list[str]:
    fields = ("--width", 32, "--depth", 2, "--heads", 2, "--context", 16, "--dropout", 0.1, "--threads", 1)
    recipe = ("--batch", 128, "--rate", 3e-3, "--held-out", 0.15, "--steps", steps, "--evaluate-every", 10)
    arguments = [
        "pretrain",
        "gpt2",
        folder / "text.txt",
        *fields,
        *recipe,
        "--save-every",
        "0.001s",
        "--to",
        folder / to,
    ]
    return [str(argument) for argument in (*arguments, *more, "--quiet")]


def child_processes(process: int) -> list[int]:
    return list(map(int, Path(f"/proc/{process}/task/{process}/children").read_text().split()))


def is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until(condition: Callable[[], object], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def last_step(run: Path) -> int:
    return max((line["step"] for line in MetricsLog(run / "metrics.jsonl").read_lines()), default=0)


@pytest.mark.slow
def test_worker_processes_end_with_the_first_and_interrupt_saves(folder: Path):
    long_command = command(folder, "run", "--processes", 2, steps=100_000)
    for signal_number, code in ((signal.SIGKILL, -9), (signal.SIGINT, 130)):
        process = subprocess.Popen([sys.executable, "-c", CODE, *long_command], stderr=subprocess.PIPE, text=True)
        step_before = last_step(folder / "run")
        wait_until(
            lambda before=step_before, process=process: last_step(folder / "run") > before + 20 or process.poll()
        )
        others = child_processes(process.pid)
        assert len(others) == 1
        process.send_signal(signal_number)
        assert process.wait(30) == code
        wait_until(lambda others=others: not any(map(is_alive, others)), 5)
        assert process.stderr is not None
        errors = process.stderr.read()
        assert ("everything is saved" in errors) == (signal_number == signal.SIGINT)
    run = RunFolder.open(folder / "run")
    assert run.metadata["state"] == "interrupted"
    assert run.checkpoints.newest_valid()[0].step == run.metadata["step"]  # pyright: ignore[reportOptionalMemberAccess]


def torchrun(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    with socket.socket() as port_socket:
        port_socket.bind(("127.0.0.1", 0))
        port = port_socket.getsockname()[1]
    start = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", str(port)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(
        [*start, "-m", "forebear", *arguments], capture_output=True, text=True, timeout=120, env=environment, cwd=folder
    )


@pytest.mark.slow
def test_torchrun_run_equals_single_process_run(single_process_run: RunFolder, folder: Path):
    process = torchrun(folder, *command(folder, "run"), "--json")
    assert process.returncode == 0, process.stderr
    assert json.loads(process.stdout)["processes"] == 2  # one JSON document: other processes print nothing
    assert weights_digest(RunFolder.open(folder / "run")) == weights_digest(single_process_run)


@pytest.mark.slow
def test_refused_command_ends_all_torchrun_processes(tmp_path: Path):
    process = torchrun(tmp_path, *command(tmp_path, "run"))
    assert process.returncode == 1  # torchrun's exit code, whatever forebear's is
    assert "no such file" in process.stderr


# -- tasks, and settings without effect


@pytest.mark.slow
def test_adaptation_by_two_processes_equals_one_process(folder: Path):
    parent = train_small_run("bert", folder, steps=5, context=48, to="bert")
    from forebear.data.labeled.labeled_source import labeled_source

    source, _ = labeled_source(str(task_file("tagging", folder, 60)), task=None, form={})
    runs = []
    for name, processes, accumulate in (("one", 1, 2), ("two", 2, 1)):
        settings = {"steps": 12, "threads": 1, "accumulate": accumulate}
        adapt_plan = training_run.plan_adaptation(str(parent.path), source, options={"crf": True}, settings=settings)
        with launch_processes(processes) as group:
            assert group is not None
            runs.append(training_run.run_adaptation(adapt_plan, folder / name, group=group))
    assert weights_digest(runs[0]) == weights_digest(runs[1])
    assert runs[0].metadata["metrics"] == runs[1].metadata["metrics"]


def test_processes_and_shard_are_refused_where_they_have_no_effect(
    folder: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
):
    arguments = ("pretrain", "ngram", folder / "text.txt", "--to", folder / "run")
    assert "means nothing to ngram, which counts" in refusal_message(capsys, *arguments, "--processes", 2)
    assert "at least 1" in refusal_message(capsys, *arguments, "--processes", 0)
    assert "say among how many" in refusal_message(capsys, *arguments, "--shard")
    assert not (folder / "run").exists()
    for name in ("RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "LOCAL_WORLD_SIZE"):
        monkeypatch.setenv(name, "1")
    with pytest.raises(InputError, match="was started as one of several"), launch_processes(2):
        raise AssertionError
