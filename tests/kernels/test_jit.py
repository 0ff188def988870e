"""Compiled kernels are cached, and `on_compile` reports that a kernel is being compiled."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

KERNEL_MODULE = """
def doubled(number):
    return 2 * number
"""
SCRIPT = """
from forebear.kernels.jit import compile_kernel, on_compile
from loops import doubled

with on_compile(lambda: print("told")):
    print(compile_kernel(doubled)(21), compile_kernel(doubled)(2.5))
with on_compile(lambda: print("told too late")):
    print(compile_kernel(doubled)(4))
"""


def test_on_compile_reports_once_and_not_at_all_when_the_kernel_is_cached(tmp_path: Path):
    (tmp_path / "loops.py").write_text(KERNEL_MODULE)
    printed_lines = []
    for _ in range(2):
        process = subprocess.run(
            [sys.executable, "-c", SCRIPT], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        printed_lines.append(process.stdout.split("\n")[:-1])
    assert printed_lines == [["told", "42 5.0", "8"], ["42 5.0", "8"]]
