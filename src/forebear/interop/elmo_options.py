"""How large a published ELMo is: the numbers of its options.json, our fields, and the arrays that follow from them."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from forebear.errors import InputError, join_faults

if TYPE_CHECKING:
    import h5py

BYTES = 261  # rows of the table of characters: bytes, marks of sentences and words, padding
READERS = (BYTES + 1, BYTES)  # what n_characters is for those who read a model, and what it was for its training
ACTIVATIONS = ("relu", "tanh")
CHARACTERS, WORDS = "characters", "words"  # what a model reads
WIDEST, DEEPEST = 1 << 20, 64  # more than any model has
AGAIN = "correct it, or fetch it again from where the weights come from"
Shape = tuple[int, ...]


@dataclass(frozen=True)
class ElmoSizes:
    """The numbers of a model, by our names.

    projected  whether what the filters found is projected to the width: bilm-tf does so only where it is wider
    narrowed   whether there is a projection of what an LSTM gives: bilm-tf has none where cells are not more
    alone      whether its only layer stands without a number, as bilm-tf writes it
    words      rows of the table, of a model that reads words
    """

    width: int
    cells: int
    depth: int
    reads: str = CHARACTERS
    characters: int = 16
    filters: tuple[tuple[int, int], ...] = ()
    highways: int = 0
    activation: str = "relu"
    longest: int = 50
    cell_clip: float = 0.0
    project_clip: float = 0.0
    skip: bool = False
    context: int = 20
    dropout: float = 0.1
    projected: bool = True
    narrowed: bool = True
    alone: bool = False
    words: int = 0

    @property
    def narrows(self) -> bool:
        """Whether ours projects what an LSTM gives."""
        return self.cells != self.width

    @property
    def vocab_sizes(self) -> int:
        """How many numbers the filters find in a word."""
        return sum(count for _, count in self.filters)

    def cell_name(self, direction: int, layer: int) -> str:
        """What the names of one layer's arrays begin with."""
        return f"RNN_{direction}/RNN/" + ("" if self.alone else f"MultiRNNCell/Cell{layer}/") + "LSTMCell/"

    def resolve(self, there: Mapping[str, Shape]) -> ElmoSizes:
        """The same, with what the options do not tell and the arrays do."""
        alone = self.depth == 1 and "RNN_0/RNN/LSTMCell/W_0" in there
        settled = replace(self, alone=alone, words=(there.get("embedding") or (0,))[0])
        same = self.vocab_sizes == self.width and not any(name.startswith("CNN_proj/") for name in there)
        bare = self.cells == self.width and not any(name.endswith("/W_P_0") for name in there)
        return replace(settled, projected=not same, narrowed=not bare)

    def tensor_shapes(self) -> dict[str, Shape]:
        """All arrays of the network, by their names there."""
        found = self.vocab_sizes
        wanted: dict[str, Shape] = {"embedding": (self.words, self.width)}
        if self.reads == CHARACTERS:
            wanted = {"char_embed": (BYTES, self.characters)}
            for number, (wide, count) in enumerate(self.filters):
                wanted[f"CNN/W_cnn_{number}"] = (1, wide, self.characters, count)
                wanted[f"CNN/b_cnn_{number}"] = (count,)
            for number in range(self.highways):
                for part in ("carry", "transform"):
                    wanted[f"CNN_high_{number}/W_{part}"] = (found, found)
                    wanted[f"CNN_high_{number}/b_{part}"] = (found,)
            if self.projected:
                wanted |= {"CNN_proj/W_proj": (found, self.width), "CNN_proj/b_proj": (self.width,)}
        for direction in range(2):
            for layer in range(self.depth):
                name = self.cell_name(direction, layer)
                wanted[f"{name}W_0"] = (2 * self.width, 4 * self.cells)
                wanted[f"{name}B"] = (4 * self.cells,)
                if self.narrowed:
                    wanted[f"{name}W_P_0"] = (self.cells, self.width)
        return wanted

    def spec_fields(self) -> dict[str, Any]:
        """Those of our milestone."""
        told: dict[str, Any] = {
            "width": self.width,
            "cells": self.cells,
            "depth": self.depth,
            "cell_clip": self.cell_clip,
            "project_clip": self.project_clip if self.narrows else 0.0,  # what is not projected is not clipped
            "skip": self.skip,
            "context": self.context,
            "dropout": self.dropout,
            "reads": self.reads,
        }
        if self.reads == CHARACTERS:
            told |= {
                "characters": self.characters,
                "filters": ",".join(f"{wide}:{count}" for wide, count in self.filters),
                "highways": self.highways,
                "activation": self.activation,
                "longest": self.longest,
            }
        return told


def sizes_from_fields(fields: Mapping[str, Any]) -> ElmoSizes:
    """The sizes of a run, from its fields."""
    told: dict[str, Any] = {name: fields[name] for name in ElmoSizes.__dataclass_fields__ if name in fields}
    pairs = (one.split(":") for one in fields["filters"].split(",")) if fields["reads"] == CHARACTERS else ()
    told["filters"] = tuple((int(wide), int(count)) for wide, count in pairs)
    return ElmoSizes(**told)


# -- options.json


def to_elmo_options(sizes: ElmoSizes, words: int | None) -> dict[str, Any]:
    """The options for those who read a model; no clipping is null there, as 0 would cut everything off."""
    told: dict[str, Any] = {
        "bidirectional": True,
        "dropout": sizes.dropout,
        "unroll_steps": sizes.context,
        "lstm": {
            "cell_clip": sizes.cell_clip or None,
            "dim": sizes.cells,
            "n_layers": sizes.depth,
            "proj_clip": (sizes.project_clip or None) if sizes.narrows else None,
            "projection_dim": sizes.width,
            "use_skip_connections": sizes.skip,
        },
    }
    if words is not None:
        told["n_tokens_vocab"] = words
    if sizes.reads == CHARACTERS:
        told["char_cnn"] = {
            "activation": sizes.activation,
            "embedding": {"dim": sizes.characters},
            "filters": [list(one) for one in sizes.filters],
            "max_characters_per_token": sizes.longest,
            "n_characters": READERS[0],
            "n_highway": sizes.highways,
        }
    return told


def read_elmo_options(file: Path) -> ElmoSizes:
    """What options.json tells; whatever it lacks or has wrong is named, all of it."""
    told, faults = _facts(file), OptionReader()
    lstm = faults.section(told, "lstm")
    common: dict[str, Any] = {
        "width": faults.integer(lstm, "lstm.projection_dim"),
        "cells": faults.integer(lstm, "lstm.dim"),
        "depth": faults.integer(lstm, "lstm.n_layers", usual=1, most=DEEPEST),
        "cell_clip": faults.real(lstm, "lstm.cell_clip"),
        "project_clip": faults.real(lstm, "lstm.proj_clip"),
        "context": faults.integer(told, "unroll_steps", usual=20),
        "dropout": faults.real(told, "dropout", usual=0.1, most=0.99),
        "skip": faults.one_of(lstm, "lstm.use_skip_connections", (False, True), usual=False),
        "reads": WORDS,
    }
    if told.get("bidirectional", True) is not True:
        faults.told.append("bidirectional is not true: it reads in one direction only, which is no ELMo")
    if "char_cnn" in told:
        common |= {"reads": CHARACTERS} | _of_characters(faults, faults.section(told, "char_cnn"))
    if faults.told:
        raise InputError(join_faults(faults.told, DEEPEST), file=file, hint=AGAIN)
    return ElmoSizes(**common)


def _of_characters(faults: OptionReader, told: dict[str, Any]) -> dict[str, Any]:
    longest = faults.integer(told, "char_cnn.max_characters_per_token", usual=50, least=4, most=1 << 12)
    faults.one_of(told, "char_cnn.n_characters", READERS, usual=READERS[0])
    return {
        "characters": faults.integer(faults.section(told, "char_cnn.embedding"), "char_cnn.embedding.dim"),
        "filters": faults.filter_list(told, "char_cnn.filters", longest),
        "highways": faults.integer(told, "char_cnn.n_highway", usual=0, least=0, most=DEEPEST),
        "activation": faults.one_of(told, "char_cnn.activation", ACTIVATIONS),
        "longest": longest,
    }


class OptionReader:
    """Reads entries by their places, and keeps what is wrong with them; in such a place stands what is usual, or 1."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def _given(self, told: Mapping[str, Any], place: str, usual: Any) -> Any:
        given = told.get(place.rpartition(".")[2])
        if given is None and usual is None:
            self.told.append(f"{place} is missing")
        return usual if given is None else given

    def section(self, told: Mapping[str, Any], place: str) -> dict[str, Any]:
        given = self._given(told, place, None)
        if given is not None and not isinstance(given, dict):
            self.told.append(f"{place} is {given!r:.40}, not an object")
        return given if isinstance(given, dict) else {}

    def integer(
        self, told: Mapping[str, Any], place: str, *, usual: int | None = None, least: int = 1, most: int = WIDEST
    ) -> int:
        given = self._given(told, place, usual)
        if type(given) is int and least <= given <= most:
            return given
        if given is not None:
            self.told.append(f"{place} is {given!r:.40}, not a whole number from {least} to {most:,}")
        return usual or 1

    def real(self, told: Mapping[str, Any], place: str, *, usual: float = 0.0, most: float = WIDEST) -> float:
        given = self._given(told, place, usual)
        if type(given) in (int, float) and 0 <= given <= most:
            return float(given)
        self.told.append(f"{place} is {given!r:.40}, not a number from 0 to {most:,}")
        return usual

    def one_of(self, told: Mapping[str, Any], place: str, choices: tuple[Any, ...], *, usual: Any = None) -> Any:
        given = self._given(told, place, usual)
        if given is not None and not any(type(given) is type(one) and given == one for one in choices):
            self.told.append(f"{place} is {given!r:.40}; it must be {' or '.join(json.dumps(one) for one in choices)}")
        return given

    def filter_list(self, told: Mapping[str, Any], place: str, longest: int) -> tuple[tuple[int, int], ...]:
        given = self._given(told, place, None)
        if given is None:
            return ()
        right = isinstance(given, list) and 0 < len(given) <= DEEPEST
        if not right or not all(_pair(one, longest) for one in given):
            what = f"a list of pairs [width, how many], with widths up to the {longest} characters of a word"
            self.told.append(f"{place} is {given!r:.60}, not {what}")
            return ()
        return tuple((wide, count) for wide, count in given)


def _pair(one: Any, longest: int) -> bool:
    """Whether this is a width and a number of filters."""
    right = isinstance(one, list) and len(one) == 2 and all(type(number) is int and number > 0 for number in one)
    return right and one[0] <= longest and one[1] <= WIDEST


def _facts(file: Path) -> dict[str, Any]:
    try:
        told = json.loads(file.read_bytes())
    except (ValueError, RecursionError) as error:
        raise InputError(f"this is not JSON: {error}", file=file, hint=AGAIN) from None
    if not isinstance(told, dict):
        raise InputError("this is not an object", file=file, hint=AGAIN)
    return told


# The files of a published ELMo: which of a folder's they are, the numbers of an HDF5 file, a vocabulary's words.


OPTIONS, WEIGHTS, VOCABULARY, TOKENIZER = "options.json", "lm_weights.hdf5", "vocab.txt", "tokenizer.json"
SUFFIXES = (".hdf5", ".h5")
SOFTMAX = ("softmax/W", "softmax/b")
OF_WEIGHTS = ("RNN_0/", "RNN_1/", "CNN/", "CNN_proj/", "char_embed")  # what names of a network begin with
PACKED = 1100  # numbers that one stored byte may unfold to; gzip makes a thousand of one at most
CORRUPT_HINT = "it was cut short or damaged: fetch or write it again"
DAMAGED = (OSError, RuntimeError, KeyError, ValueError, TypeError, OverflowError, MemoryError)  # what h5py may raise


@dataclass(frozen=True)
class ElmoFiles:
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
        raise InputError(what, hint="pip install 'forebear[elmo]'") from None
    return h5py


def is_elmo(path: Path) -> bool:
    """Whether this looks like a published ELMo, or like what is left of one: its folder, or its weights in HDF5."""
    if path.is_file():
        return path.suffix.lower() in SUFFIXES
    if not path.is_dir() or (path / "config.json").exists():
        return False
    return any(item.name.endswith(OPTIONS) or item.suffix.lower() in SUFFIXES for item in path.iterdir())


# -- which files


def find_elmo_files(path: Path) -> ElmoFiles:
    """The files of a model in this folder, or beside this file of weights."""
    folder = path.parent if path.is_file() else path
    names = sorted(item for item in folder.iterdir() if item.is_file() and (item == path or item.name[0] != "."))
    stored = [item for item in names if item.suffix.lower() in SUFFIXES]
    if not stored:
        hint = f"put the weights there, {WEIGHTS} or the like, or give the folder that has them"
        raise InputError(f"there is no file of weights (*{SUFFIXES[0]})", file=folder, hint=hint)
    listed, notes = {}, []
    for file in stored:
        try:
            listed[file] = names_in(file)
        except InputError:
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
    return ElmoFiles(options, weights, softmax, vocabulary, notes)


def _options(names: Sequence[Path], folder: Path, weights: Path | None) -> Path:
    found = [item for item in names if item.name.endswith(OPTIONS)]
    if weights is not None and len(found) > 1:
        begin = _before(weights, "weights" + weights.suffix)
        found = [item for item in found if _before(item, OPTIONS) == begin] or found
    found = [item for item in found if item.name == OPTIONS] or found
    if not found:
        hint = f"put the {OPTIONS} there that was published with the weights: it says how they are used"
        raise InputError(f"there is no {OPTIONS}", file=folder, hint=hint)
    if len(found) > 1:
        told = join_faults([item.name for item in found])
        raise InputError(f"there are several: {told}", file=folder, hint=f"call the one that is meant {OPTIONS}")
    return found[0]


def _weights(listed: Mapping[Path, Sequence[str]], options: Path, folder: Path, notes: list[str]) -> Path:
    found = [file for file, names in listed.items() if any(name.startswith(OF_WEIGHTS) for name in names)]
    if not found:
        if len(listed) == 1:  # its parts are then told one by one
            return next(iter(listed))
        told = join_faults([file.name for file in listed]) or "; ".join(notes)
        raise InputError(f"none of its HDF5 files has weights of an ELMo: {told}", file=folder, hint=CORRUPT_HINT)
    usual = (WEIGHTS, *(_before(options, OPTIONS) + "weights" + suffix for suffix in SUFFIXES))
    chosen = found if len(found) == 1 else [file for name in usual for file in found if file.name == name]
    if not chosen:
        told = join_faults([file.name for file in found])
        hint = f"give the one that is meant: {found[0]}"
        raise InputError(f"several files have weights: {told}", file=folder, hint=hint)
    return chosen[0]


def _before(file: Path, end: str) -> str:
    return file.name.removesuffix(end)


def _vocabulary(names: Sequence[Path], notes: list[str]) -> Path | None:
    found = [item for item in names if item.suffix == ".txt" and "vocab" in item.name.lower()]
    found = [item for item in found if item.name == VOCABULARY] or found
    if len(found) > 1:
        notes.append(
            f"which vocabulary is meant is not clear, and none is read: {join_faults([f.name for f in found])}"
        )
    return found[0] if len(found) == 1 else None


# -- HDF5


@contextlib.contextmanager
def open_hdf5(file: Path) -> Iterator[HDF5Arrays]:
    """The arrays of an HDF5 file. Whatever is wrong with it is told as such."""
    h5py = library()
    try:
        with h5py.File(file, "r") as found:
            yield HDF5Arrays(file, h5py, found)
    except InputError:
        raise
    except DAMAGED as error:
        told = str(error).strip().strip("'\"") or type(error).__name__
        raise InputError(f"this is not a whole HDF5 file ({told})", file=file, hint=CORRUPT_HINT) from None


def names_in(file: Path) -> list[str]:
    """The names of all arrays in the file."""
    with open_hdf5(file) as stored:
        return list(stored.shapes)


class HDF5Arrays:
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
            raise InputError(f"{name} holds no floating point numbers", file=self.file, hint=CORRUPT_HINT)
        if item.external or item.is_virtual:
            raise InputError(
                f"the numbers of {name} lie in another file", file=self.file, hint="copy them into this one"
            )
        there = item.id.get_storage_size()
        if item.nbytes > there * (1 if item.chunks is None else PACKED):
            raise InputError(f"the numbers of {name} are not all there", file=self.file, hint=CORRUPT_HINT)
        with np.errstate(over="ignore"):  # what is too large is refused below
            numbers = np.asarray(item[...], np.float32)
        if not np.isfinite(numbers).all():
            raise InputError(f"{name} has entries that are no numbers", file=self.file, hint=CORRUPT_HINT)
        return numbers


def write_hdf5(file: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Writes arrays under such names; the same arrays make the same bytes."""
    with library().File(file, "w") as made:
        for name, numbers in arrays.items():
            made.create_dataset(name, data=np.ascontiguousarray(numbers, "<f4"))


# -- words


def read_vocabulary(file: Path) -> tuple[list[str], list[int]]:
    """A word a line, without white space around it, and the numbers of lines that are blank or repeat a word."""
    try:
        lines = file.read_bytes().decode("utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise InputError("the vocabulary is not UTF-8", file=file, byte=error.start, hint="write it as UTF-8") from None
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
