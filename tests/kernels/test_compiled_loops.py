"""Compiled loops are kept, and who waits for compiling is told."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

LOOPS = """
def doubled(number):
    return 2 * number
"""
ASKED = """
from forebear.kernels.jit import compile_kernel, on_compile
from loops import doubled

with on_compile(lambda: print("told")):
    print(compile_kernel(doubled)(21), compile_kernel(doubled)(2.5))
with on_compile(lambda: print("told too late")):
    print(compile_kernel(doubled)(4))
"""


def test_who_waits_for_compiling_is_told_once(tmp_path: Path):
    (tmp_path / "loops.py").write_text(LOOPS)
    said = []
    for _ in range(2):
        made = subprocess.run([sys.executable, "-c", ASKED], cwd=tmp_path, capture_output=True, text=True, check=True)
        said.append(made.stdout.split("\n")[:-1])
    assert said == [["told", "42 5.0", "8"], ["42 5.0", "8"]]
