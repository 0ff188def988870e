"""Who n-grams are measured beside: KenLM's programs and its Python module."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

PROGRAMS = ("lmplz", "build_binary", "query")
SORTING = "500M"  # of memory that lmplz sorts in, for texts of up to some hundred megabytes


class Cost(NamedTuple):
    """What a program took: seconds of the processor, and bytes of memory at most."""

    seconds: float
    memory: int


def programs() -> dict[str, str] | None:
    """Where KenLM's programs are: in $KENLM_BIN or on PATH; None where one of them is missing."""
    where = os.environ.get("KENLM_BIN")
    found = {name: shutil.which(name, path=where or None) for name in (*PROGRAMS, "kenlm_benchmark")}
    return {name: path for name, path in found.items() if path} if all(found[name] for name in PROGRAMS) else None


class KenLM:
    """`lmplz`, `build_binary` (probing) and `query` on files of text, a line a sentence."""

    def __init__(self, found: dict[str, str], folder: Path, order: int) -> None:
        self.found, self.folder, self.order = found, folder, order
        self.arpa, self.binary = folder / "theirs.arpa", folder / "theirs.binary"

    def build(self, text: Path) -> Cost:
        # Most of a machine's memory, as it takes by itself, costs it twice the time. The second: small texts, too.
        small = ["-S", SORTING, "--discount_fallback"]
        made, _ = timed([self.found["lmplz"], "-o", str(self.order), "-T", str(self.folder), *small], text, self.arpa)
        laid, _ = timed(
            [self.found["build_binary"], "-T", str(self.folder), "probing", str(self.arpa), str(self.binary)]
        )
        return Cost(made.seconds + laid.seconds, max(made.memory, laid.memory))

    def query(self, text: Path) -> tuple[float, float]:
        """Its perplexity, and the seconds it takes to read and score the text, without those of loading."""
        cost, said = timed([self.found["query"], "-v", "summary", str(self.binary)], text)
        loading, _ = timed([self.found["query"], "-v", "summary", str(self.binary)])
        found = re.search(r"including OOVs:\s+([\d.eE+]+)", said)
        assert found is not None
        return float(found[1]), cost.seconds - loading.seconds

    def score_ids(self, text: Path) -> float | None:
        """Seconds that `kenlm_benchmark` takes for ids, loading left out."""
        if "kenlm_benchmark" not in self.found:
            return None
        ids = self.folder / "theirs.ids"
        timed([self.found["kenlm_benchmark"], "-v", "-m", str(self.binary)], text, ids)
        _, said = timed([self.found["kenlm_benchmark"], "-q", "-m", str(self.binary)], ids)
        told = re.search(r"Excluding load, CPU: ([\d.e+-]+)", said)
        return float(told[1]) if told else None


def timed(command: Sequence[str], given: Path | None = None, to: Path | None = None) -> tuple[Cost, str]:
    """Through files, so that nothing but the program is waited for."""
    source = os.open(given, os.O_RDONLY) if given else os.open(os.devnull, os.O_RDONLY)
    out = Path(str(to or "")) if to else None
    said = Path(os.environ.get("TMPDIR", "/tmp")) / f"said-{os.getpid()}"
    target = os.open(out or said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    other = os.open(f"{said}.other", os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        actions = [(os.POSIX_SPAWN_DUP2, source, 0), (os.POSIX_SPAWN_DUP2, target, 1), (os.POSIX_SPAWN_DUP2, other, 2)]
        number = os.posix_spawn(command[0], list(command), dict(os.environ), file_actions=actions)
        _, status, used = os.wait4(number, 0)
        words = Path(f"{said}.other").read_text(errors="replace") + (said.read_text() if out is None else "")
    finally:
        for handle in (source, target, other):
            os.close(handle)
        Path(f"{said}.other").unlink(missing_ok=True)
        said.unlink(missing_ok=True)
    if status:
        raise SystemExit(f"{command[0]} failed: {words[-500:]}")
    return Cost(used.ru_utime + used.ru_stime, used.ru_maxrss * 1024), words
