"""Models that count, opened to be asked: a large one answers from a table of its own, which is made once."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from forebear.errors import ForebearError
from forebear.statistics.ngram import NgramModel
from forebear.statistics.room import mapped
from forebear.statistics.table import Table
from forebear.statistics.tabling import sign
from forebear.text.aside import cache
from forebear.training.folder import RunFolder
from forebear.training.learners import loaded

TABLE = "ngrams.table"


def opened(folder: RunFolder) -> tuple[Any, list[str]]:
    """The network of a run that counts, and what had to be said on the way to it."""
    network, told, file = folder.milestone.network(folder.tokenizer), folder.facts.get("weights"), folder.path / TABLE
    if not isinstance(network, NgramModel):
        weights, notes = folder.weights()
        return loaded(folder.milestone, folder.tokenizer, weights), notes
    notes: list[str] = []
    if folder.facts["state"] in ("training", "interrupted"):
        told_of = f"counting stopped at step {told['step']:,}" if told else "counting was not finished"
        notes.append(
            f"{told_of}: it knows the text up to there alone (forebear pretrain --resume {folder.path} goes on)"
        )
    if told is not None and file.exists():
        try:
            table = Table.open(file, told["sha256"])
            _verify_once(table, file)
            network.answer_from(table, lambda: _state(folder))
        except ForebearError as error:
            notes.append(f"{file} {error.what}: it is made again")
        else:
            return network, notes
    weights, more = folder.weights()
    network = loaded(folder.milestone, folder.tokenizer, weights)
    if told is not None and not more:
        leave_table(network, folder)
    return network, notes + more


@contextmanager
def tabled(network: Any, folder: RunFolder) -> Iterator[None]:
    """While a run learns to count, what does not fit into memory goes to its folder; at last its table stands there."""
    if not isinstance(network, NgramModel):
        yield
        return
    network.place = folder.path / TABLE
    _sweep(folder)
    with tempfile.TemporaryDirectory(prefix=".counts-", dir=folder.path) as aside:
        network.tally.folder = Path(aside)
        yield
        leave_table(network, folder)
        network.tally.folder = None


def leave_table(network: NgramModel, folder: RunFolder) -> None:
    """Makes the table of a run's published weights, if it is large; a folder that cannot be written goes without."""
    file = folder.path / TABLE
    if network.tally.folder is None:  # nobody is at work here
        _sweep(folder)
    try:
        if (table := network.tabled(file)) is not None:
            sign(file, folder.facts["weights"]["sha256"])
            _remember(file)
            if network.is_given:  # a table cannot be written out again, and nothing else is left of what was given
                network.answer_from(table, lambda: _state(folder))
        else:
            file.unlink(missing_ok=True)  # of what stood here before
    except OSError:
        network.place = None


def _verify_once(table: Table, file: Path) -> None:
    """Reads all of a table that was touched since it was made, or copied: to read it each time would take too long."""
    if not _note_of(file).exists():
        table.verify()
        _remember(file)


def _remember(file: Path) -> None:
    """That it is whole, as long as nobody touches it."""
    with suppress(OSError):  # a cache that cannot be written costs time, nothing else
        note = _note_of(file)
        note.parent.mkdir(parents=True, exist_ok=True)
        note.touch()


def _note_of(file: Path) -> Path:
    facts = file.stat()
    stamp = (str(file.resolve()), facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns)
    return cache() / "tables" / hashlib.sha256(repr(stamp).encode()).hexdigest()


def _sweep(folder: RunFolder) -> None:
    """Takes away what a process that was killed has left."""
    for left in folder.path.glob(".counts-*"):
        shutil.rmtree(left, ignore_errors=True)
    for left in folder.path.glob(f".{TABLE}.*.tmp"):
        left.unlink(missing_ok=True)


def _state(folder: RunFolder) -> dict[str, Any]:
    return mapped(folder.weights()[0])[1]
