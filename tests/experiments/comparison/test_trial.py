"""A trial in a process of its own: killed, interrupted, orphaned, and what its folder says."""

import json
import math
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from forebear.experiments.comparison import trials
from forebear.experiments.comparison.trials import TextTrialSpec, run_text_trial, text_trial_result
from forebear.training.run_folder import RunFolder


def job(tmp_path: Path) -> TextTrialSpec:
    source = {"paths": ["x"], "reading": {}}
    return TextTrialSpec("ngram", source, None, None, None, {"seed": 7}, str(tmp_path / "run"), "", False, "")


SERVING = (
    "import time\nfrom forebear.experiments.comparison import trials as trials\n"
    "trials._run_text_trial = lambda job: {}\ntrials.serve_text_trial()"
)


def heard(line):
    raise AssertionError(line)


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "killed by SIGKILL, often for lack of memory"),
        ("import os; os.abort()", "killed by SIGABRT"),
        ("raise SystemExit(3)", "ended with code 3"),
        ('print(\'{"error": "no room"}\'); raise SystemExit(1)', "no room"),
        ("print('nonsense'); raise SystemExit(1)", "ended with code 1"),
    ],
)
def test_whatever_happens_to_it_is_told(tmp_path, monkeypatch, program, words):
    monkeypatch.setattr(trials, "TEXT_TRIAL_PROGRAM", program)
    told = run_text_trial(job(tmp_path), heard)
    assert words in told.error
    assert (told.seed, told.finished, told.bits_per_byte) == (7, False, None)


def test_what_its_code_raises_is_told_by_the_process_itself(tmp_path):
    unknown = TextTrialSpec(**{**vars(job(tmp_path)), "milestone": "nothing"})
    told, _ = trials.job_outcome(lambda: {"sample": trials._run_text_trial(unknown)})
    assert "no milestone named" in told["error"]


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("x"), KeyboardInterrupt()])
def test_no_exception_goes_past(error):
    def raising():
        raise error

    told, code = trials.job_outcome(raising)
    assert told["error"]
    assert code == (130 if isinstance(error, KeyboardInterrupt) else 1)


def test_an_interrupt_is_handed_on_and_waited_for(tmp_path, monkeypatch):
    marks = tmp_path / "marks"
    marks.mkdir()
    program = (
        "import pathlib, signal, time\n"
        f"marks = pathlib.Path({str(marks)!r})\n"
        "def heard(*_):\n"
        "    time.sleep(0.2); (marks / 'saved').touch(); raise SystemExit(130)\n"
        "signal.signal(signal.SIGINT, heard)\n"
        "(marks / 'begun').touch()\n"
        "time.sleep(60)\n"
    )
    monkeypatch.setattr(trials, "TEXT_TRIAL_PROGRAM", program)

    def interrupted(process, log, hear):
        while not (marks / "begun").exists():
            time.sleep(0.01)
        raise KeyboardInterrupt

    monkeypatch.setattr(trials, "follow_process", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_text_trial(job(tmp_path), heard)
    assert (marks / "saved").exists()


def test_a_trial_whose_caller_dies_ends(tmp_path):
    program = (
        "import time\nfrom forebear.experiments.comparison import trials as trials\n"
        "trials._run_text_trial = lambda job: time.sleep(60)\ntrials.serve_text_trial()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    process.stdin.write(json.dumps(vars(job(tmp_path))) + "\n")
    process.stdin.close()
    assert process.wait(30) == -signal.SIGTERM
    process.stdout.close()


def test_what_a_process_prints_does_not_get_into_its_answer(tmp_path):
    given = json.dumps(vars(job(tmp_path))) + "\n"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen([sys.executable, "-c", SERVING.format("print('noise') or 'text'")], **pipes)
    process.stdin.write(given)
    process.stdin.flush()
    assert json.loads(process.stdout.read()) == {"sample": "text"}
    assert process.wait(30) == 0
    for pipe in (process.stdin, process.stdout, process.stderr):
        pipe.close()


def test_a_run_folder_as_a_trial(tmp_path):
    """Half a nat a token is 0.5 / ln 2 bits; with two tokens for ten bytes, a fifth of that a byte."""
    facts = {
        "recipe": {"seed": 3},
        "size": "tiny",
        "parameters": 12,
        "seconds": 60.0,
        "tokens": 600,
        "tokenizer": {"kind": "words", "size": 99},
        "state": "finished",
        "held_out_loss": 4.5,  # of all that it is asked
        "best_step": 3,
        "metrics": {"held_out": {"bits_per_byte": 2.0, "perplexity": 9.0, "tokens": 20, "bytes": 100}},
    }
    lines = [
        {"step": 1, "seconds": 5.0, "held_out": {"next": 2.0}},
        {"step": 2, "seconds": 7.0, "losses": {"next": 9.0}},
        {"step": 3, "seconds": 60.0, "held_out": {"next": 1.5, "previous": 3.0}},
        {"step": 4, "seconds": 70.0, "held_out": {"next": None}},
    ]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    told = text_trial_result(RunFolder(tmp_path, facts))
    assert (told.seed, told.bits_per_byte, told.speed, told.finished) == (3, 2.0, 10.0, True)
    assert told.curve == ((5.0, pytest.approx(2 + 0.5 / math.log(2) / 5, abs=1e-5)), (60.0, 2.0))
