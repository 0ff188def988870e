"""The files of a published ELMo: which of a folder's they are, the numbers of an HDF5 file, a vocabulary's words."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from forebear.errors import BadInput, several

if TYPE_CHECKING:
    import h5py

OPTIONS, WEIGHTS, VOCABULARY, TOKENIZER = "options.json", "lm_weights.hdf5", "vocab.txt", "tokenizer.json"
SUFFIXES = (".hdf5", ".h5")
SOFTMAX = ("softmax/W", "softmax/b")
OF_WEIGHTS = ("RNN_0/", "RNN_1/", "CNN/", "CNN_proj/", "char_embed")  # what names of a network begin with
PACKED = 1100  # numbers that one stored byte may unfold to; gzip makes a thousand of one at most
AGAIN = "it was cut short or damaged: fetch or write it again"
DAMAGED = (OSError, RuntimeError, KeyError, ValueError, TypeError, OverflowError, MemoryError)  # what h5py may raise


@dataclass(frozen=True)
class Parts:
    """Which files of a folder are the model's."""

    options: Path
    weights: Path
    softmax: Path | None = None
    vocabulary: Path | None = None
    notes: list[str] = field(default_factory=list)


def library() -> ModuleType:
    """The library that reads and writes HDF5, which is no part of the core."""
    try:
        import h5py
    except ImportError:
        what = "HDF5 files, in which ELMo is published, need h5py, which is not installed"
        raise BadInput(what, remedy="pip install 'forebear[elmo]'") from None
    return h5py


def is_one(path: Path) -> bool:
    """Whether this looks like a published ELMo, or like what is left of one: its folder, or its weights in HDF5."""
    if path.is_file():
        return path.suffix.lower() in SUFFIXES
    if not path.is_dir() or (path / "config.json").exists():
        return False
    return any(item.name.endswith(OPTIONS) or item.suffix.lower() in SUFFIXES for item in path.iterdir())


# -- which files


def parts_of(path: Path) -> Parts:
    """The files of a model in this folder, or beside this file of weights."""
    folder = path.parent if path.is_file() else path
    names = sorted(item for item in folder.iterdir() if item.is_file() and (item == path or item.name[0] != "."))
    stored = [item for item in names if item.suffix.lower() in SUFFIXES]
    if not stored:
        remedy = f"put the weights there, {WEIGHTS} or the like, or give the folder that has them"
        raise BadInput(f"there is no file of weights (*{SUFFIXES[0]})", file=folder, remedy=remedy)
    listed, notes = {}, []
    for file in stored:
        try:
            listed[file] = names_in(file)
        except BadInput:
            if len(stored) == 1 or file == path:
                raise
            notes.append(f"{file.name} is not a whole HDF5 file: left out")
    weights = path if path.is_file() else None
    options = _options(names, folder, weights)
    weights = weights or _weights(listed, options, folder, notes)
    softmax = next((file for file in (weights, *listed) if set(SOFTMAX) <= set(listed[file])), None)
    vocabulary = _vocabulary(names, notes)
    if len(stored) > 1:
        notes.insert(0, f"its weights are those of {weights.name}")
    return Parts(options, weights, softmax, vocabulary, notes)


def _options(names: Sequence[Path], folder: Path, weights: Path | None) -> Path:
    found = [item for item in names if item.name.endswith(OPTIONS)]
    if weights is not None and len(found) > 1:
        begin = _before(weights, "weights" + weights.suffix)
        found = [item for item in found if _before(item, OPTIONS) == begin] or found
    found = [item for item in found if item.name == OPTIONS] or found
    if not found:
        remedy = f"put the {OPTIONS} there that was published with the weights: it says how they are used"
        raise BadInput(f"there is no {OPTIONS}", file=folder, remedy=remedy)
    if len(found) > 1:
        told = several([item.name for item in found])
        raise BadInput(f"there are several: {told}", file=folder, remedy=f"call the one that is meant {OPTIONS}")
    return found[0]


def _weights(listed: Mapping[Path, Sequence[str]], options: Path, folder: Path, notes: list[str]) -> Path:
    found = [file for file, names in listed.items() if any(name.startswith(OF_WEIGHTS) for name in names)]
    if not found:
        if len(listed) == 1:  # its parts are then told one by one
            return next(iter(listed))
        told = several([file.name for file in listed]) or "; ".join(notes)
        raise BadInput(f"none of its HDF5 files has weights of an ELMo: {told}", file=folder, remedy=AGAIN)
    usual = (WEIGHTS, *(_before(options, OPTIONS) + "weights" + suffix for suffix in SUFFIXES))
    chosen = found if len(found) == 1 else [file for name in usual for file in found if file.name == name]
    if not chosen:
        told = several([file.name for file in found])
        remedy = f"give the one that is meant: {found[0]}"
        raise BadInput(f"several files have weights: {told}", file=folder, remedy=remedy)
    return chosen[0]


def _before(file: Path, end: str) -> str:
    return file.name.removesuffix(end)


def _vocabulary(names: Sequence[Path], notes: list[str]) -> Path | None:
    found = [item for item in names if item.suffix == ".txt" and "vocab" in item.name.lower()]
    found = [item for item in found if item.name == VOCABULARY] or found
    if len(found) > 1:
        notes.append(f"which vocabulary is meant is not clear, and none is read: {several([f.name for f in found])}")
    return found[0] if len(found) == 1 else None


# -- HDF5


@contextlib.contextmanager
def opened(file: Path) -> Iterator[Stored]:
    """The arrays of an HDF5 file. Whatever is wrong with it is told as such."""
    h5py = library()
    try:
        with h5py.File(file, "r") as found:
            yield Stored(file, h5py, found)
    except BadInput:
        raise
    except DAMAGED as error:
        told = str(error).strip().strip("'\"") or type(error).__name__
        raise BadInput(f"this is not a whole HDF5 file ({told})", file=file, remedy=AGAIN) from None


def names_in(file: Path) -> list[str]:
    """The names of all arrays in the file."""
    with opened(file) as stored:
        return list(stored.shapes)


class Stored:
    """The arrays of an open file by their names; only what lies in the file itself is followed."""

    def __init__(self, file: Path, h5py: ModuleType, found: h5py.File) -> None:
        self.file, self._found = file, found
        self.shapes: dict[str, tuple[int, ...]] = {}

        def seen(name: str, item: Any) -> None:
            if isinstance(item, h5py.Dataset):
                self.shapes[name] = tuple(item.shape or ())

        found.visititems(seen)

    def read(self, name: str) -> np.ndarray:
        """The numbers of one array as float32."""
        item: Any = self._found[name]
        if item.dtype.kind != "f":
            raise BadInput(f"{name} holds no floating point numbers", file=self.file, remedy=AGAIN)
        if item.external or item.is_virtual:
            raise BadInput(
                f"the numbers of {name} lie in another file", file=self.file, remedy="copy them into this one"
            )
        there = item.id.get_storage_size()
        if item.nbytes > there * (1 if item.chunks is None else PACKED):
            raise BadInput(f"the numbers of {name} are not all there", file=self.file, remedy=AGAIN)
        with np.errstate(over="ignore"):  # what is too large is refused below
            numbers = np.asarray(item[...], np.float32)
        if not np.isfinite(numbers).all():
            raise BadInput(f"{name} has entries that are no numbers", file=self.file, remedy=AGAIN)
        return numbers


def stored(file: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Writes arrays under such names; the same arrays make the same bytes."""
    with library().File(file, "w") as made:
        for name, numbers in arrays.items():
            made.create_dataset(name, data=np.ascontiguousarray(numbers, "<f4"))


# -- words


def words_of(file: Path) -> tuple[list[str], list[int]]:
    """A word a line, without white space around it, and the numbers of lines that are blank or repeat a word."""
    try:
        lines = file.read_bytes().decode("utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise BadInput("the vocabulary is not UTF-8", file=file, byte=error.start, remedy="write it as UTF-8") from None
    if not lines[-1]:
        lines.pop()
    words: dict[str, int] = {}
    idle = []
    for number, line in enumerate(lines, start=1):
        if (word := line.strip()) and word not in words:
            words[word] = number
        else:
            idle.append(number)
    return list(words), idle
