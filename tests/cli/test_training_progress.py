"""Printed training progress: loss curve, progress line, and output in a real terminal."""

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
from small_runs import small_text

REPORT = ProgressReport(50, 100, 0.5, 60.0, 61.0, 1234.5, 1e-3, {"next": 2.5}, {"next": 2.75}, 3.25)


def num_dots(line: str) -> int:
    return sum((ord(character) - 0x2800).bit_count() for character in line[8:])


def test_loss_curve_falls_with_the_loss():
    lines = curve_lines([(step, 4 - step / 10) for step in range(31)], width=20, height=4)
    assert [line[:8].strip() for line in lines] == ["4.000", "", "", "1.000"]
    first = [next(column for column, character in enumerate(line[8:]) if character != "\u2800") for line in lines]
    assert first == sorted(first)
    assert len({len(line) for line in lines}) == 1


def test_baseline_of_the_loss_curve_is_dotted():
    lines = curve_lines([(0, 2.0), (1, 1.0)], level=3.0, width=20, height=4)
    assert lines[0][:8].strip() == "3.000"
    assert num_dots(lines[0]) == 10  # every second character


def test_loss_curve_without_points_and_with_one():
    assert curve_lines([]) == []
    assert sum(map(num_dots, curve_lines([(1, 1.0)], width=5, height=2))) == 1


def test_progress_line_has_speed_losses_and_baseline():
    assert format_progress(REPORT) == (
        "step 50/100 · 1,234 tokens/s · 1 min 1 s left · loss next 2.500 · held out next 2.750 · "
        "(frequencies alone: 3.250)"
    )


def test_progress_line_names_its_unit_and_shows_small_losses():
    losses, held_out = {"together": 0.02123}, {"together": 0.037561}
    report = replace(REPORT, losses=losses, held_out=held_out, unigram_loss=None, unit="entries")
    assert format_progress(report) == (
        "step 50/100 · 1,234 entries/s · 1 min 1 s left · loss together 0.02123 · held out together 0.03756"
    )


@pytest.mark.parametrize(("seconds", "words"), [(5, "5 s"), (200, "3 min 20 s"), (7500, "2 h 5 min")])
def test_durations_are_formatted_with_units(seconds: float, words: str):
    assert format_clock(seconds) == words


def test_pretrain_in_a_terminal_prints_progress_and_loss_curve(tmp_path: Path):
    """Progress bars and the loss curve do not overwrite each other."""
    (tmp_path / "text.txt").write_text(small_text(200), encoding="utf-8")
    reading_end, terminal_end = pty.openpty()
    command = [sys.executable, "-c", "from forebear.cli.main import run; run()", "pretrain", "gpt2", "text.txt"]
    command += ["--steps", "40", "--width", "32", "--depth", "1", "--heads", "2", "--context", "16", "--batch", "64"]
    environment = os.environ | {"FOREBEAR_CACHE": str(tmp_path / "cache"), "TERM": "xterm", "COLUMNS": "100"}
    process = subprocess.Popen(command, cwd=tmp_path, stdout=terminal_end, stderr=terminal_end, env=environment)
    os.close(terminal_end)
    output = b""
    while True:
        try:
            chunk = os.read(reading_end, 65536)
        except OSError:  # raised when the other end of a terminal is closed
            break
        if not chunk:
            break
        output += chunk
    assert process.wait(60) == 0, output.decode(errors="replace")
    screen = output.decode()
    assert "step 40/40" in screen
    assert "dotted: token frequencies alone" in screen
    assert any(0x2800 < ord(character) <= 0x28FF for character in screen)
    assert "bits per byte" in screen
    assert "Traceback" not in screen
