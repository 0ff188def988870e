"""Trials in child processes: killed, interrupted, orphaned, and the result read from a run folder."""

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


def trial_spec(tmp_path: Path) -> TextTrialSpec:
    source = {"paths": ["x"], "reading": {}}
    return TextTrialSpec("ngram", source, None, None, None, {"seed": 7}, str(tmp_path / "run"), "", False, "")


SERVER_PROGRAM = (
    "import time\nfrom forebear.experiments.comparison import trials as trials\n"
    "trials._run_text_trial = lambda job: {}\ntrials.text_trial_main()"
)


def unexpected_line(line):
    raise AssertionError(line)


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "killed by SIGKILL, often for lack of memory"),
        ("import os; os.abort()", "killed by SIGABRT"),
        ("raise SystemExit(3)", "ended with code 3"),
        ('print(\'{"error": "no room"}\'); raise SystemExit(1)', "no room"),
        ("print('nonsense'); raise SystemExit(1)", "ended with code 1"),
    ],
)
def test_trial_reports_how_its_process_ended(tmp_path, monkeypatch, program, message):
    monkeypatch.setattr(trials, "TEXT_TRIAL_PROGRAM", program)
    result = run_text_trial(trial_spec(tmp_path), unexpected_line)
    assert message in result.error
    assert (result.seed, result.finished, result.bits_per_byte) == (7, False, None)


def test_job_outcome_reports_the_error_of_a_trial(tmp_path):
    unknown_model = TextTrialSpec(**{**vars(trial_spec(tmp_path)), "milestone": "nothing"})
    outcome, _ = trials.job_outcome(lambda: {"sample": trials._run_text_trial(unknown_model)})
    assert "no milestone named" in outcome["error"]


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("x"), KeyboardInterrupt()])
def test_job_outcome_catches_every_exception(error):
    def raise_error():
        raise error

    outcome, code = trials.job_outcome(raise_error)
    assert outcome["error"]
    assert code == (130 if isinstance(error, KeyboardInterrupt) else 1)


def test_interrupt_is_forwarded_to_the_trial_and_awaited(tmp_path, monkeypatch):
    signals = tmp_path / "marks"
    signals.mkdir()
    program = (
        "import pathlib, signal, time\n"
        f"marks = pathlib.Path({str(signals)!r})\n"
        "def heard(*_):\n"
        "    time.sleep(0.2); (marks / 'saved').touch(); raise SystemExit(130)\n"
        "signal.signal(signal.SIGINT, heard)\n"
        "(marks / 'begun').touch()\n"
        "time.sleep(60)\n"
    )
    monkeypatch.setattr(trials, "TEXT_TRIAL_PROGRAM", program)

    def interrupting_follow(process, log, on_line):
        while not (signals / "begun").exists():
            time.sleep(0.01)
        raise KeyboardInterrupt

    monkeypatch.setattr(trials, "follow_process", interrupting_follow)
    with pytest.raises(KeyboardInterrupt):
        run_text_trial(trial_spec(tmp_path), unexpected_line)
    assert (signals / "saved").exists()


def test_trial_ends_when_its_caller_dies(tmp_path):
    program = (
        "import time\nfrom forebear.experiments.comparison import trials as trials\n"
        "trials._run_text_trial = lambda job: time.sleep(60)\ntrials.text_trial_main()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    process.stdin.write(json.dumps(vars(trial_spec(tmp_path))) + "\n")
    process.stdin.close()
    assert process.wait(30) == -signal.SIGTERM
    process.stdout.close()


def test_output_of_a_trial_does_not_mix_with_its_result(tmp_path):
    request = json.dumps(vars(trial_spec(tmp_path))) + "\n"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen([sys.executable, "-c", SERVER_PROGRAM.format("print('noise') or 'text'")], **pipes)
    process.stdin.write(request)
    process.stdin.flush()
    assert json.loads(process.stdout.read()) == {"sample": "text"}
    assert process.wait(30) == 0
    for pipe in (process.stdin, process.stdout, process.stderr):
        pipe.close()


def test_trial_result_of_a_run_folder_matches_worked_example(tmp_path):
    """Half a nat per token is 0.5 / ln 2 bits; with two tokens for ten bytes, a fifth of that per byte."""
    metadata = {
        "recipe": {"seed": 3},
        "size": "tiny",
        "parameters": 12,
        "seconds": 60.0,
        "tokens": 600,
        "tokenizer": {"kind": "words", "size": 99},
        "state": "finished",
        "held_out_loss": 4.5,  # summed over all objectives
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
    result = text_trial_result(RunFolder(tmp_path, metadata))
    assert (result.seed, result.bits_per_byte, result.speed, result.finished) == (3, 2.0, 10.0, True)
    assert result.curve == ((5.0, pytest.approx(2 + 0.5 / math.log(2) / 5, abs=1e-5)), (60.0, 2.0))
