"""Worker processes: all results arrive, a failure is raised in the caller, no worker is left behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from forebear.data.io.workers import run_jobs
from forebear.errors import ForebearError, InputError


def square(number: int) -> int:
    return number * number


def fail_on_some(number: int) -> int:
    if number == 3:
        raise InputError("three is bad", file="x.txt", line=3, hint="leave it out")
    if number == 4:
        raise ZeroDivisionError("four")
    if number == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


@pytest.mark.sample(1)
@pytest.mark.parametrize("count", [1, 2, 8, 40])
def test_every_job_runs_once_with_any_number_of_workers(count):
    assert sorted(run_jobs(square, range(20), count)) == [n * n for n in range(20)]


def number_and_process(number: int) -> tuple[int, int]:
    time.sleep(0.02)
    return number, os.getpid()


def test_short_jobs_run_in_the_calling_process():
    assert list(run_jobs(number_and_process, range(5), 2, runs_here=lambda job, seconds: seconds < 60)) == [
        (n, os.getpid()) for n in range(5)
    ]


def test_longer_jobs_move_to_worker_processes():
    results = list(run_jobs(number_and_process, range(10), 2, runs_here=lambda job, seconds: seconds < 0.05))
    assert sorted(number for number, _ in results) == list(range(10))
    in_caller = [number for number, process in results if process == os.getpid()]
    assert in_caller == list(range(len(in_caller)))
    assert 0 < len(in_caller) < 10


def test_jobs_are_read_ahead_only_for_the_workers():
    jobs_read = []
    jobs = (jobs_read.append(n) or n for n in range(100))
    results = run_jobs(square, jobs, 2)
    next(results)
    assert len(jobs_read) <= 4
    results.close()


@pytest.mark.parametrize("count", [1, 3])
def test_input_error_of_a_worker_keeps_file_line_and_hint(count):
    with pytest.raises(InputError) as caught:
        list(run_jobs(fail_on_some, [1, 2, 3], count))
    assert (caught.value.file, caught.value.line, caught.value.hint) == ("x.txt", 3, "leave it out")


def test_other_errors_of_a_worker_are_raised_with_their_type():
    with pytest.raises(ForebearError, match="ZeroDivisionError in a worker: four"):
        list(run_jobs(fail_on_some, [4], 2))


def test_killed_worker_is_an_error_that_names_its_job():
    with pytest.raises(ForebearError, match=r"killed by signal 9 while working on 5"):
        list(run_jobs(fail_on_some, [1, 5, 2], 2))


def test_error_while_reading_jobs_stops_the_workers():
    def jobs():
        yield 1
        raise InputError("no more")

    with pytest.raises(InputError, match="no more"):
        list(run_jobs(square, jobs(), 2))


def test_workers_do_not_outlive_a_killed_caller(tmp_path):
    code = tmp_path / "code"  # not the working folder, from which children import nothing
    code.mkdir()
    (code / "trade.py").write_text("import os\ndef work(n):\n    open(f'{n}.pid', 'w').write(str(os.getpid()))\n")
    script = code / "caller.py"
    script.write_text(
        "import time\n"
        "from forebear.data.io.workers import run_jobs\n"
        "from trade import work\n"
        "def jobs():\n"
        "    yield from (1, 2)\n"
        "    time.sleep(60)\n"
        "list(run_jobs(work, jobs(), 2))\n"  # no guard against being imported: workers do not run it again
    )
    caller = subprocess.Popen([sys.executable, str(script)], cwd=tmp_path)
    pids = wait_for_pid(tmp_path / "1.pid"), wait_for_pid(tmp_path / "2.pid")
    caller.kill()
    caller.wait()
    deadline = time.monotonic() + 20
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        assert time.monotonic() < deadline, "a worker outlived its caller"
        time.sleep(0.05)


def wait_for_pid(path: Path) -> int:
    deadline = time.monotonic() + 30
    while not path.exists() or not path.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return int(path.read_text())
