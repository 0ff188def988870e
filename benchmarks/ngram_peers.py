"""Who n-grams are measured beside: KenLM's programs and its Python module."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

PROGRAMS = ("lmplz", "build_binary", "query")
SORTING = "1G"  # of memory that lmplz may sort in: it takes a part of it


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
        try:
            timed([self.found["kenlm_benchmark"], "-v", "-m", str(self.binary)], text, ids)
            _, said = timed([self.found["kenlm_benchmark"], "-q", "-m", str(self.binary)], ids)
        except SystemExit:  # it takes no line of more than 4,096 words
            return None
        told = re.search(r"Excluding load, CPU: ([\d.e+-]+)", said)
        return float(told[1]) if told else None


# Between us and the program, as small as it can be: what a process had before it became another program counts as that
# one's memory, so our own, with the text in it, would be taken for theirs.
WATCHING = """
import os, resource, sys
code = os.spawnv(os.P_WAIT, sys.argv[2], sys.argv[2:])
used = resource.getrusage(resource.RUSAGE_CHILDREN)
with open(sys.argv[1], "w") as file:
    print(code, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024, file=file)
"""


def timed(command: Sequence[str], given: Path | None = None, to: Path | None = None) -> tuple[Cost, str]:
    """Through files, so that nothing but the program is waited for; what it took, and what it said."""
    with tempfile.TemporaryDirectory() as place:
        told, said, other = (Path(place) / name for name in ("told", "said", "other"))
        with open(given or os.devnull, "rb") as source, open(to or said, "wb") as out, open(other, "wb") as errors:
            watched = [sys.executable, "-I", "-S", "-c", WATCHING, str(told), *command]
            subprocess.run(watched, stdin=source, stdout=out, stderr=errors, check=True)
        code, seconds, memory = told.read_text().split()
        words = other.read_text(errors="replace") + (said.read_text() if to is None else "")
    if int(code):
        raise SystemExit(f"{command[0]} failed: {words[-500:]}")
    return Cost(float(seconds), int(memory)), words
