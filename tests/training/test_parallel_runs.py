"""Whole runs by several processes: begun, gone on with by another number, broken off, killed; also under torchrun."""

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

from command_line import Captured, refused
from forebear.errors import ForebearError, InputError, UserInterrupt
from forebear.experiments import pipeline
from forebear.training.run_folder import MetricsLog, RunFolder
from forebear.training.trainer import ProgressReport
from forebear.training.worker_processes import ProcessGroup, WorkerPool, launch_processes
from labelled_texts import file_of
from small_runs import Notes, plan, text, trained, weights

STEPS = 40
BEGUN = {"steps": STEPS, "evaluate_every": 10, "save_every": 0.001, "dropout": 0.1}
CODE = "from forebear.cli.main import run; run()"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """The run that one process makes, dividing its steps in two."""
    folder = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FOREBEAR_CACHE", str(folder / "cache"))
        return trained("gpt2", folder, accumulate=2, **BEGUN)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With the text that all of them learn from."""
    (tmp_path / "text.txt").write_text(text(), encoding="utf-8")
    return tmp_path


class At(Notes):
    """Does something when a step has come."""

    def __init__(self, step: int, deed: Callable[[], Any]) -> None:
        super().__init__()
        self.step, self.deed = step, deed

    def on_progress(self, report: ProgressReport) -> None:
        if report.step >= self.step:
            self.step = sys.maxsize
            self.deed()


def begun(folder: Path, to: str, group: ProcessGroup, watcher: Notes | None = None, **changes: Any) -> RunFolder:
    what = plan("gpt2", folder / "text.txt", **BEGUN | changes)
    return pipeline.run_pretraining(what, folder / to, watcher=watcher, group=group)


def losses(run: RunFolder) -> list[Any]:
    return [
        (line["step"], line["losses"], line.get("held_out"))
        for line in MetricsLog(run.path / "metrics.jsonl").read_lines()
    ]


def of(group: ProcessGroup) -> list[subprocess.Popen[bytes]]:
    """The other processes."""
    assert isinstance(group.connection, WorkerPool)
    return group.connection.processes


@pytest.mark.slow
def test_a_run_of_two_processes_is_that_of_one_and_is_made_again_by_one(whole: RunFolder, folder: Path):
    with launch_processes(2) as group:
        assert group is not None
        run = begun(folder, "two", group)
        assert run.metadata["processes"] == 2
        others = of(group)
    assert [process.poll() for process in others] == [0]
    assert weights(run) == weights(whole)
    assert losses(run) == losses(whole)
    assert run.metadata["asked"]["recipe"] == whole.metadata["asked"]["recipe"] | {"accumulate": 1}
    assert weights(pipeline.repeat_run(run.path, folder / "again")) == weights(run)


def test_a_run_is_gone_on_with_by_another_number_of_processes(whole: RunFolder, folder: Path):
    """From two to one to two. The same command finds the same run."""
    for processes, step in ((2, 10), (1, 20)):
        with pytest.raises(UserInterrupt, match="everything is saved"):
            by(processes, folder, At(step, lambda: signal.raise_signal(signal.SIGINT)))
        run = RunFolder.open(folder / "run")
        assert run.metadata["state"] == "interrupted"
        assert run.metadata["step"] >= step
    run = by(2, folder, Notes())
    assert run.is_finished
    assert run.metadata["step"] == STEPS
    assert losses(run)[0] == losses(whole)[0]
    found, wanted = (one.metadata["metrics"]["held_out"]["bits_per_byte"] for one in (run, whole))
    assert found == pytest.approx(wanted, rel=0.02)  # one process adds up in another order, and small ones wander


def by(processes: int, folder: Path, watcher: Notes) -> RunFolder:
    with launch_processes(processes) as group:
        assert group is not None
        return begun(folder, "run", group, watcher)


@pytest.mark.slow
def test_a_killed_process_ends_the_run_which_then_goes_on(whole: RunFolder, folder: Path):
    def fail() -> None:
        with launch_processes(2) as group:
            assert group is not None
            begun(folder, "run", group, At(20, lambda: os.kill(of(group)[0].pid, signal.SIGKILL)))

    with pytest.raises(ForebearError, match=r"process 1 \(of 0 to 1\) was killed by signal 9") as caught:
        fail()
    assert caught.value.exit_code == 1
    assert "goes on" in caught.value.hint
    run = by(2, folder, watcher := Notes())
    assert any(words.startswith("going on from step 20") for words in watcher.words)
    assert weights(run) == weights(whole)


# -- the command line


def command(folder: Path, to: str, *more: object, steps: int = STEPS) -> list[str]:
    fields = ("--width", 32, "--depth", 2, "--heads", 2, "--context", 16, "--dropout", 0.1, "--threads", 1)
    recipe = ("--batch", 128, "--rate", 3e-3, "--held-out", 0.15, "--steps", steps, "--evaluate-every", 10)
    words = ["pretrain", "gpt2", folder / "text.txt", *fields, *recipe, "--save-every", "0.001s", "--to", folder / to]
    return [str(word) for word in (*words, *more, "--quiet")]


def children(process: int) -> list[int]:
    return list(map(int, Path(f"/proc/{process}/task/{process}/children").read_text().split()))


def alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def until(done: Callable[[], object], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def reached(run: Path) -> int:
    return max((line["step"] for line in MetricsLog(run / "metrics.jsonl").read_lines()), default=0)


@pytest.mark.slow
def test_no_process_outlives_the_first_and_ctrl_c_saves(folder: Path):
    longer = command(folder, "run", "--processes", 2, steps=100_000)
    for how, code in ((signal.SIGKILL, -9), (signal.SIGINT, 130)):
        process = subprocess.Popen([sys.executable, "-c", CODE, *longer], stderr=subprocess.PIPE, text=True)
        before = reached(folder / "run")
        until(lambda before=before, process=process: reached(folder / "run") > before + 20 or process.poll())
        others = children(process.pid)
        assert len(others) == 1
        process.send_signal(how)
        assert process.wait(30) == code
        until(lambda others=others: not any(map(alive, others)), 5)
        assert process.stderr is not None
        told = process.stderr.read()
        assert ("everything is saved" in told) == (how == signal.SIGINT)
    run = RunFolder.open(folder / "run")
    assert run.metadata["state"] == "interrupted"
    assert run.checkpoints.newest_valid()[0].step == run.metadata["step"]  # pyright: ignore[reportOptionalMemberAccess]


def torchrun(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    start = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", str(port)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(
        [*start, "-m", "forebear", *words], capture_output=True, text=True, timeout=120, env=environment, cwd=folder
    )


@pytest.mark.slow
def test_torchrun_starts_the_processes(whole: RunFolder, folder: Path):
    done = torchrun(folder, *command(folder, "run"), "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["processes"] == 2  # one document: the others say nothing
    assert weights(RunFolder.open(folder / "run")) == weights(whole)


@pytest.mark.slow
def test_what_is_refused_ends_all_that_torchrun_started(tmp_path: Path):
    done = torchrun(tmp_path, *command(tmp_path, "run"))
    assert done.returncode == 1  # torchrun's own, whatever ours is
    assert "no such file" in done.stderr


# -- tasks, and what means nothing


@pytest.mark.slow
def test_a_task_is_learned_by_two_processes(folder: Path):
    parent = trained("bert", folder, steps=5, context=48, to="bert")
    from forebear.data.labeled.source import labeled_source

    source, _ = labeled_source(str(file_of("tagging", folder, 60)), task=None, form={})
    made = []
    for to, processes, parts in (("one", 1, 2), ("two", 2, 1)):
        settings = {"steps": 12, "threads": 1, "accumulate": parts}
        what = pipeline.plan_adaptation(str(parent.path), source, options={"crf": True}, settings=settings)
        with launch_processes(processes) as group:
            assert group is not None
            made.append(pipeline.run_adaptation(what, folder / to, group=group))
    assert weights(made[0]) == weights(made[1])
    assert made[0].metadata["metrics"] == made[1].metadata["metrics"]


def test_what_means_nothing_is_refused(folder: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch):
    start = ("pretrain", "ngram", folder / "text.txt", "--to", folder / "run")
    assert "means nothing to ngram, which counts" in refused(capsys, *start, "--processes", 2)
    assert "at least 1" in refused(capsys, *start, "--processes", 0)
    assert "say among how many" in refused(capsys, *start, "--shard")
    assert not (folder / "run").exists()
    for name in ("RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "LOCAL_WORLD_SIZE"):
        monkeypatch.setenv(name, "1")
    with pytest.raises(InputError, match="was started as one of several"), launch_processes(2):
        raise AssertionError
