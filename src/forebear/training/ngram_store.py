"""The hash table of a large n-gram model in its run folder: built after counting, verified, memory-mapped."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from forebear.data.io.arrays import map_safetensors
from forebear.data.io.atomic import cache_folder
from forebear.statistical.ngram.hash_table import stamp_store
from forebear.statistical.ngram.language_model import NgramModel
from forebear.training.run_folder import RunFolder

NGRAM_STORE_FILE = "ngrams.table"


@contextmanager
def spill_to_run_folder(model: Any, folder: RunFolder) -> Iterator[None]:
    """Spill n-gram counts beyond the memory limit to the run folder while counting, then build the hash table."""
    if not isinstance(model, NgramModel):
        yield
        return
    model.store_file = folder.path / NGRAM_STORE_FILE
    _remove_leftovers(folder)
    with tempfile.TemporaryDirectory(prefix=".counts-", dir=folder.path) as spill_folder:
        model.counter.folder = Path(spill_folder)
        yield
        save_ngram_store(model, folder)
        model.counter.folder = None


def save_ngram_store(model: NgramModel, folder: RunFolder) -> None:
    """Build the hash table of a run's weights if the model is large and the folder is writable."""
    file = folder.path / NGRAM_STORE_FILE
    if model.counter.folder is None:  # no process is counting here
        _remove_leftovers(folder)
    try:
        if (store := model.build_store(file)) is not None:
            stamp_store(file, folder.metadata["weights"]["sha256"])
            mark_verified(file)
            if model.is_imported:  # otherwise its probabilities are not in memory
                model.use_store(store, lambda: memory_map_weights(folder))
        else:
            file.unlink(missing_ok=True)  # left by an earlier model
    except OSError:
        model.store_file = None


def mark_verified(file: Path) -> None:
    """Record that this file is valid as long as it does not change."""
    with suppress(OSError):  # without a cache folder it is verified again
        mark = verification_mark(file)
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.touch()


def verification_mark(file: Path) -> Path:
    """The file in the cache folder that exists if this file was verified in its current version."""
    stat = file.stat()
    stamp = (str(file.resolve()), stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns)
    return cache_folder() / "tables" / hashlib.sha256(repr(stamp).encode()).hexdigest()


def _remove_leftovers(folder: RunFolder) -> None:
    """Remove the files of killed processes."""
    for leftover in folder.path.glob(".counts-*"):
        shutil.rmtree(leftover, ignore_errors=True)
    for leftover in folder.path.glob(f".{NGRAM_STORE_FILE}.*.tmp"):
        leftover.unlink(missing_ok=True)


def memory_map_weights(folder: RunFolder) -> dict[str, Any]:
    return map_safetensors(folder.verified_weights()[0])[1]
