"""What benchmarks share: two sides that take turns, the machine's limit, its name, and figures written into READMEs."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parent.parent
DATA = Path(os.environ.get("FOREBEAR_DATA", ROOT.parent / "shared" / "data"))


def natural_text(size: int) -> str:
    """So many bytes of WikiText-2, or of the demo's manual where that is absent."""
    file = DATA / "corpora" / "wikitext2" / "train.txt"
    if file.exists():
        return file.read_bytes()[:size].decode("utf-8", "ignore")
    from forebear.demo.python_manual import manual_documents

    return "\n".join(manual_documents())[:size]


def alternated(
    ours: Callable[[], Any], theirs: Callable[[], Any], rounds: int
) -> Iterator[tuple[Any, Any, float, float]]:
    """(our answer, their answer, our seconds, their seconds) of each round, after one to warm up.

    Time is the processor's with one thread, so that others who use the machine disturb less, else the clock's.
    """
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    for turn in range(rounds + 1):
        began = clock()
        theirs_said = theirs()
        between = clock()
        ours_said = ours()
        if turn:
            yield ours_said, theirs_said, clock() - between, between - began


def keep_memory() -> None:
    """Arrays that either side frees stay with the process, up to the size up to which the C library comes to keep them
    by itself in a whole training.

    A single layer's arrays would be given back to the system and fetched again in every round: thousands of page
    faults, of which a whole step has hardly any.
    """
    trim_threshold, mmap_threshold, largest = -1, -3, 2**25  # their numbers in malloc.h, and what they adapt to at most
    with contextlib.suppress(OSError, AttributeError):  # another C library has its own ways
        library = ctypes.CDLL("libc.so.6")
        library.mallopt(trim_threshold, 2 * largest)
        library.mallopt(mmap_threshold, largest)


def sgemm() -> float:
    """Floating-point operations a second of this machine's matrix product: the limit of any training."""
    matrix = torch.randn(1536, 1536)
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    seconds = []
    for _ in range(5):
        began = clock()
        torch.mm(matrix, matrix)
        seconds.append(clock() - began)
    return 2 * 1536**3 / statistics.median(seconds)


def told(label: str, tokens: float, mine: list[float], others: list[float], share: str) -> list[str]:
    """Prints one comparison of tokens a second; returns its cells."""
    ratio = statistics.median(other / own for own, other in zip(mine, others, strict=True))
    rates = [tokens / statistics.median(seconds) for seconds in (mine, others)]
    limit = f"   {share} of sgemm" if share else ""
    peer = f"theirs {rates[1]:8,.0f}"
    print(f"{label:52}{rates[0]:8,.0f} tokens/s   {peer}   ours/theirs = {ratio:.2f}{limit}", flush=True)
    return [label, f"{rates[0]:,.0f}", f"{ratio:.2f}", share or "–"]


def machine(threads: int, libraries: Sequence[str] = ("torch", "transformers")) -> str:
    cpu = Path("/proc/cpuinfo")
    names = re.findall(r"^model name\s*: (.*)$", cpu.read_text(), re.M) if cpu.exists() else []
    versions = ", ".join(f"{name} {version(name)}" for name in libraries)
    processor = names[0] if names else platform.machine()
    return f"{processor}, {threads} thread{'s' * (threads > 1)}; Python {platform.python_version()}, {versions}"


HEADS = {
    "README.md": ("| work | {} | against {} | {} |", "Medians of {} rounds on {}."),
    "README.zh-CN.md": ("| 工作 | {} | 相对于 {} | {} |", "{} 轮的中位数，机器为 {}。"),
}


def write_figures(
    bench: str,
    rows: list[list[str]],
    where: str,
    rounds: int,
    chinese: dict[str, str],
    *,
    units: tuple[str, str] = ("tokens/s", "词元/秒"),
    peer: str = "transformers",
    last: tuple[str, str] = ("share of sgemm", "占 sgemm 的比例"),
) -> None:
    """Into both READMEs, between their marks; `chinese` is what the words of the rows are there."""
    mark = f"<!-- written by `./dev bench {bench} --write`: do not edit by hand -->\n"
    for (name, (head, measured)), unit, other in zip(HEADS.items(), units, last, strict=True):
        path = ROOT / name
        before, found, rest = path.read_text(encoding="utf-8").partition(mark)
        if not found:
            sys.exit(f"{name} has no place for these figures: a line {mark.strip()} and a line <!-- end --> below it")
        lines = [head.format(unit, peer, other), "|---|---|---|---|", *(f"| {' | '.join(cells)} |" for cells in rows)]
        if "zh" in name:
            for english, word in chinese.items():
                lines = [line.replace(english, word) for line in lines]
        block = "\n".join([*lines, "", measured.format(rounds, where)]) + "\n"
        path.write_text(before + mark + block + rest[rest.index("<!-- end -->") :], encoding="utf-8")
