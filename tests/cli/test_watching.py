"""Training as one watches it: the curve, the line for a log, and a real terminal."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from forebear.cli.output import curve_lines, format_clock, format_progress
from forebear.training.trainer import ProgressReport
from small_runs import text

REPORT = ProgressReport(50, 100, 0.5, 60.0, 61.0, 1234.5, 1e-3, {"next": 2.5}, {"next": 2.75}, 3.25)


def dots(line: str) -> int:
    return sum((ord(character) - 0x2800).bit_count() for character in line[8:])


def test_a_falling_curve_falls():
    lines = curve_lines([(step, 4 - step / 10) for step in range(31)], width=20, height=4)
    assert [line[:8].strip() for line in lines] == ["4.000", "", "", "1.000"]
    first = [next(place for place, one in enumerate(line[8:]) if one != "\u2800") for line in lines]
    assert first == sorted(first)
    assert len({len(line) for line in lines}) == 1


def test_the_level_is_a_dotted_line():
    lines = curve_lines([(0, 2.0), (1, 1.0)], level=3.0, width=20, height=4)
    assert lines[0][:8].strip() == "3.000"
    assert dots(lines[0]) == 10  # every second character


def test_nothing_yet_and_a_single_point():
    assert curve_lines([]) == []
    assert sum(map(dots, curve_lines([(1, 1.0)], width=5, height=2))) == 1


def test_a_report_in_one_line():
    assert format_progress(REPORT) == (
        "step 50/100 · 1,234 tokens/s · 1 min 1 s left · loss next 2.500 · held out next 2.750 · "
        "(frequencies alone: 3.250)"
    )


def test_what_is_no_token_is_not_called_one_and_small_losses_are_seen_falling():
    losses, held_out = {"together": 0.02123}, {"together": 0.037561}
    report = replace(REPORT, losses=losses, held_out=held_out, unigram_loss=None, unit="entries")
    assert format_progress(report) == (
        "step 50/100 · 1,234 entries/s · 1 min 1 s left · loss together 0.02123 · held out together 0.03756"
    )


@pytest.mark.parametrize(("seconds", "words"), [(5, "5 s"), (200, "3 min 20 s"), (7500, "2 h 5 min")])
def test_clocks(seconds: float, words: str):
    assert format_clock(seconds) == words


def test_on_a_real_terminal(tmp_path: Path):
    """Bars and the picture follow each other without getting in each other's way; the loss is drawn."""
    (tmp_path / "text.txt").write_text(text(200), encoding="utf-8")
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", "from forebear.cli.main import run; run()", "pretrain", "gpt2", "text.txt"]
    command += ["--steps", "40", "--width", "32", "--depth", "1", "--heads", "2", "--context", "16", "--batch", "64"]
    environment = os.environ | {"FOREBEAR_CACHE": str(tmp_path / "cache"), "TERM": "xterm", "COLUMNS": "100"}
    process = subprocess.Popen(command, cwd=tmp_path, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    seen = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # the other end is closed: the way a terminal says so
            break
        if not piece:
            break
        seen += piece
    assert process.wait(60) == 0, seen.decode(errors="replace")
    screen = seen.decode()
    assert "step 40/40" in screen
    assert "dotted: token frequencies alone" in screen
    assert any(0x2800 < ord(character) <= 0x28FF for character in screen)
    assert "bits per byte" in screen
    assert "Traceback" not in screen
