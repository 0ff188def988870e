"""Which words stand together in a text, and how near: a table of counts that is made once and kept on the disk.

Shares of distance are whole numbers of a fine unit, so the counts are exact, and their order follows from the text: the
same bits come about whatever memory there was.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from forebear.errors import BadInput, ForebearError
from forebear.objectives.every_text import UNITS
from forebear.text import workfolder
from forebear.text.aside import cache, sync_folder, synced, write_json
from forebear.text.portion import Portion
from forebear.vectors.counting import BAND, LONGEST, UNIT, Progress, Text, bands, counted_rows, tiled

FORMAT = "forebear-cooccurrences/1"
FACTS, WHOLE = "cooccurrences.json", "whole"
ARRAYS = {"rows": np.int32, "columns": np.int32, "counts": np.float32}
MEMORY = 1 << 30  # bytes, unless somebody says otherwise


@dataclass(frozen=True, eq=False)
class Cooccurrences:
    """Entries of a symmetric table, on the disk: how often a word (row) has another (column) beside it.

    rows, columns  (N,) ids of words
    counts         (N,) above 0: a word next to another counts 1, one that is d words away 1/d

    Entries stand in tiles, of some rows and some columns that are about equally frequent, and inside a tile they are
    shuffled: whoever goes through stretches of them finds the same words again and again, in no order.
    """

    rows: np.ndarray
    columns: np.ndarray
    counts: np.ndarray
    facts: dict[str, Any]

    @classmethod
    def open(cls, folder: Path) -> Cooccurrences:
        try:
            facts = json.loads((folder / FACTS).read_text())
            arrays = {name: _mapped(folder / f"{name}.npy") for name in ARRAYS}
            right = facts["format"] == FORMAT and all(
                array.dtype == ARRAYS[name] and array.shape == (facts["entries"],) for name, array in arrays.items()
            )
        except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
            raise ForebearError("these counts are damaged", file=folder, remedy="remove the folder") from error
        if not right:
            raise ForebearError("these counts are not what they should be", file=folder, remedy="remove the folder")
        return cls(**arrays, facts=facts)

    def __len__(self) -> int:
        return len(self.rows)


def counted(
    source: Portion,
    *,
    vocabulary: int,
    window: int,
    unit: str,
    never: frozenset[int] = frozenset(),
    max_memory: int = MEMORY,
    progress: Progress | None = None,
) -> Cooccurrences:
    """The words within `window` words of each other in one unit of the text: opened if they were counted before.

    vocabulary  how many ids there are
    unit        what no window reaches beyond: a "sentence" or a "document"
    never       ids that are skipped, as if they did not stand in the text
    max_memory  bytes, but some 200 million are wanted in any case; what does not fit goes to the disk
    """
    if unit not in UNITS:
        raise BadInput(f"no unit of text is named {unit!r}", remedy=f"there are: {', '.join(UNITS)}")
    if window < 1:
        raise BadInput(f"a window of {window} words", remedy="choose a window of 1 or more, such as 10")
    key = _key(source, vocabulary, window, unit, never)
    target = cache() / "cooccurrences" / key[:32]
    if (there := _already(target)) is not None:
        return there
    with _disk_told(target), workfolder.held(target) as work, _emptied(work):
        if _already(target) is None:  # another process may have made it while we waited
            text = Text(source.by_sentence() if unit == "sentence" else source, vocabulary, never)
            _write(text, window, work, max_memory, progress or (lambda done, total: None), key)
            if target.exists():
                shutil.rmtree(target)
            os.replace(work / WHOLE, target)
            sync_folder(target.parent)
    return Cooccurrences.open(target)


def _already(target: Path) -> Cooccurrences | None:
    """What was counted before; None where it was not, or is damaged."""
    try:
        return Cooccurrences.open(target)
    except ForebearError:
        return None


def _write(text: Text, window: int, work: Path, max_memory: int, progress: Progress, key: str) -> None:
    """Counts, and writes the table into the folder `whole` of the work folder."""
    folder, entries, total = work / WHOLE, 0, 2 * text.source.tokens
    folder.mkdir()
    rows = counted_rows(text, window, work, max_memory, lambda done: progress(done, total))
    with ExitStack() as files:
        opened = [files.enter_context(open(folder / f".{name}", "wb")) for name in ARRAYS]
        for begin, end, most in bands(rows.times, window):
            made = tiled(rows, begin, end, most)
            for file, array in zip(opened, made, strict=True):
                file.write(array.data)
            entries += len(made[0])
            progress((total + total * end // text.vocabulary) // 2, total)
    for name, kind in ARRAYS.items():
        _with_head(folder / f".{name}", folder / f"{name}.npy", kind, entries)
    facts = {"format": FORMAT, "key": key, "entries": entries, "tokens": int(rows.times.sum()), "window": window}
    write_json(folder / FACTS, facts | {"words": int(np.count_nonzero(rows.times))})


def _key(source: Portion, vocabulary: int, window: int, unit: str, never: frozenset[int]) -> str:
    """All that decides what the counts are, and in which order."""
    told = [FORMAT, source.corpus.key, vocabulary, window, unit, sorted(never), UNIT, BAND, LONGEST]
    digest = hashlib.sha256(json.dumps(told).encode())
    digest.update(np.ascontiguousarray(source.units, np.int64).data)
    return digest.hexdigest()


def _mapped(path: Path) -> np.ndarray:
    """An array on the disk as a plain one: of numpy's own kind for these, small parts are slow to take."""
    return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))


def _with_head(data: Path, target: Path, kind: type, entries: int) -> None:
    """Numbers as a .npy file: how many there are is known only when all are written."""
    with open(target, "wb") as file, open(data, "rb") as numbers:
        head = {"descr": np.dtype(kind).str, "fortran_order": False, "shape": (entries,)}
        np.lib.format.write_array_header_1_0(file, head)
        shutil.copyfileobj(numbers, file, 1 << 20)
        synced(file)
    data.unlink()


@contextmanager
def _emptied(work: Path) -> Iterator[None]:
    """A folder that is empty before and after, however it ends: a count that was broken off cannot be gone on with."""

    def empty() -> None:
        for item in work.iterdir():
            shutil.rmtree(item) if item.is_dir() else item.unlink()

    empty()
    try:
        yield
    finally:
        empty()


@contextmanager
def _disk_told(target: Path) -> Iterator[None]:
    """What a disk refuses, in words: these files lie where things are kept that can be made again."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        remedy = "free some space there, or set FOREBEAR_CACHE to a folder on another disk"
        place = error.filename if isinstance(error.filename, str) else target
        other = "set FOREBEAR_CACHE to a folder that can be written"
        raise ForebearError(error.strerror or str(error), file=place, remedy=remedy if full else other) from error
