"""Files of a published ELMo: options.json, the array shapes that it implies, and HDF5 arrays."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from forebear.data.io.compression import CORRUPT_FILE_HINT
from forebear.errors import InputError, join_errors
from forebear.interop.foreign_files import finite_float32, read_json_object

if TYPE_CHECKING:
    import h5py

NUM_CHARACTER_ROWS = 261  # rows of the character embedding: bytes, markers of sentences and words, padding
NUM_CHARACTERS = (NUM_CHARACTER_ROWS + 1, NUM_CHARACTER_ROWS)  # n_characters in published options, and during training
ACTIVATIONS = ("relu", "tanh")
CHARACTERS, WORDS = "characters", "words"  # kinds of input
MAX_WIDTH, MAX_LAYERS = 1 << 20, 64  # beyond any real model
REFETCH_HINT = "correct it, or fetch it again from where the weights come from"
CHARACTER_EMBEDDING, TOKEN_EMBEDDING = "encoder.embedding.character.weight", "encoder.embedding.token.weight"
PROJECTION = "encoder.embedding.project"
DIRECTIONS = ("encoder.onward", "encoder.back")
SHARED_FIELDS = ("width", "cells", "depth", "cell_clip", "skip", "context", "dropout", "reads")  # with our settings
CHARACTER_FIELDS = ("characters", "highways", "activation", "longest")
Shape = tuple[int, ...]


@dataclass(frozen=True)
class ElmoSizes:
    """The sizes of a model, under the names of our settings; further:

    has_cnn_projection   the files project the filter outputs to the width (bilm-tf: only if they are wider)
    has_lstm_projection  the files project the LSTM outputs (bilm-tf: only if there are more cells than the width)
    unnumbered           array names of the only layer have no number, as bilm-tf writes them
    vocab_size           rows of the word embedding, for word-level models
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
    has_cnn_projection: bool = True
    has_lstm_projection: bool = True
    unnumbered: bool = False
    vocab_size: int = 0

    @property
    def projects_output(self) -> bool:
        """Whether our model projects the LSTM outputs."""
        return self.cells != self.width

    @property
    def num_filters(self) -> int:
        """Total number of filters: the size of their output."""
        return sum(count for _, count in self.filters)

    def resolve(self, shapes: Mapping[str, Shape]) -> ElmoSizes:
        """Complete the sizes by those that only the array names and shapes reveal."""
        has_cnn_arrays = any(name.startswith("CNN_proj/") for name in shapes)
        has_lstm_arrays = any(name.endswith("/W_P_0") for name in shapes)
        return replace(
            self,
            unnumbered=self.depth == 1 and "RNN_0/RNN/LSTMCell/W_0" in shapes,
            vocab_size=(shapes.get("embedding") or (0,))[0],
            has_cnn_projection=self.num_filters != self.width or has_cnn_arrays,
            has_lstm_projection=self.cells != self.width or has_lstm_arrays,
        )

    def input_arrays(self) -> dict[str, tuple[str, Shape]]:
        """Our name of each array before the LSTM, and its shape in the file."""
        if self.reads != CHARACTERS:
            return {"embedding": (TOKEN_EMBEDDING, (self.vocab_size, self.width))}
        arrays: dict[str, tuple[str, Shape]] = {
            "char_embed": (CHARACTER_EMBEDDING, (NUM_CHARACTER_ROWS, self.characters))
        }
        for index, (filter_width, count) in enumerate(self.filters):
            name = f"encoder.embedding.filters.{index}"
            arrays[f"CNN/W_cnn_{index}"] = (f"{name}.weight", (1, filter_width, self.characters, count))
            arrays[f"CNN/b_cnn_{index}"] = (f"{name}.bias", (count,))
        for index, gate in product(range(self.highways), ("carry", "transform")):
            name = f"encoder.embedding.highways.{index}.{gate}"
            arrays[f"CNN_high_{index}/W_{gate}"] = (f"{name}.weight", (self.num_filters, self.num_filters))
            arrays[f"CNN_high_{index}/b_{gate}"] = (f"{name}.bias", (self.num_filters,))
        if self.has_cnn_projection:
            arrays["CNN_proj/W_proj"] = (f"{PROJECTION}.weight", (self.num_filters, self.width))
            arrays["CNN_proj/b_proj"] = (f"{PROJECTION}.bias", (self.width,))
        return arrays

    def lstm_cells(self) -> list[tuple[str, str]]:
        """The name prefix of each LSTM layer, ours and that of the arrays in the file."""
        cells = []
        for direction, prefix in enumerate(DIRECTIONS):
            for layer in range(self.depth):
                number = "" if self.unnumbered else f"MultiRNNCell/Cell{layer}/"
                cells.append((f"{prefix}.{layer}", f"RNN_{direction}/RNN/{number}LSTMCell/"))
        return cells

    def array_shapes(self) -> dict[str, Shape]:
        """The expected shapes of all arrays, by their names in the file."""
        shapes = {name: shape for name, (_, shape) in self.input_arrays().items()}
        for _, name in self.lstm_cells():
            shapes |= {f"{name}W_0": (2 * self.width, 4 * self.cells), f"{name}B": (4 * self.cells,)}
            if self.has_lstm_projection:
                shapes[f"{name}W_P_0"] = (self.cells, self.width)
        return shapes

    def spec_fields(self) -> dict[str, Any]:
        """The settings of our model."""
        reads_characters = self.reads == CHARACTERS
        names = SHARED_FIELDS + CHARACTER_FIELDS if reads_characters else SHARED_FIELDS
        fields = {name: getattr(self, name) for name in names}
        fields["project_clip"] = self.project_clip if self.projects_output else 0.0  # it clips projections only
        if reads_characters:
            fields["filters"] = ",".join(f"{filter_width}:{count}" for filter_width, count in self.filters)
        return fields


def sizes_from_fields(fields: Mapping[str, Any]) -> ElmoSizes:
    """The sizes of a run, from its settings."""
    values: dict[str, Any] = {name: fields[name] for name in ElmoSizes.__dataclass_fields__ if name in fields}
    filter_pairs = (pair.split(":") for pair in fields["filters"].split(",")) if fields["reads"] == CHARACTERS else ()
    values["filters"] = tuple((int(filter_width), int(count)) for filter_width, count in filter_pairs)
    return ElmoSizes(**values)


# --- options.json ---


def to_elmo_options(sizes: ElmoSizes, num_words: int | None) -> dict[str, Any]:
    """The content of options.json; no clipping is null there, because 0 would clip everything to 0."""
    options: dict[str, Any] = {
        "bidirectional": True,
        "dropout": sizes.dropout,
        "unroll_steps": sizes.context,
        "lstm": {
            "cell_clip": sizes.cell_clip or None,
            "dim": sizes.cells,
            "n_layers": sizes.depth,
            "proj_clip": (sizes.project_clip or None) if sizes.projects_output else None,
            "projection_dim": sizes.width,
            "use_skip_connections": sizes.skip,
        },
    }
    if num_words is not None:
        options["n_tokens_vocab"] = num_words
    if sizes.reads == CHARACTERS:
        options["char_cnn"] = {
            "activation": sizes.activation,
            "embedding": {"dim": sizes.characters},
            "filters": [list(pair) for pair in sizes.filters],
            "max_characters_per_token": sizes.longest,
            "n_characters": NUM_CHARACTERS[0],
            "n_highway": sizes.highways,
        }
    return options


def read_elmo_options(file: Path) -> ElmoSizes:
    """Read options.json; the error lists everything that is missing or invalid."""
    reader = OptionReader(read_json_object(file, REFETCH_HINT))
    values: dict[str, Any] = {
        "width": reader.integer("lstm.projection_dim"),
        "cells": reader.integer("lstm.dim"),
        "depth": reader.integer("lstm.n_layers", 1, maximum=MAX_LAYERS),
        "cell_clip": reader.real("lstm.cell_clip"),
        "project_clip": reader.real("lstm.proj_clip"),
        "context": reader.integer("unroll_steps", 20),
        "dropout": reader.real("dropout", 0.1, maximum=0.99),
        "skip": reader.choice("lstm.use_skip_connections", (False, True), False),
        "reads": WORDS,
    }
    if reader.options.get("bidirectional", True) is not True:
        reader.faults["bidirectional is not true: it reads in one direction only, which is no ELMo"] = None
    if "char_cnn" in reader.options:
        longest = reader.integer("char_cnn.max_characters_per_token", 50, minimum=4, maximum=1 << 12)
        reader.choice("char_cnn.n_characters", NUM_CHARACTERS, NUM_CHARACTERS[0])
        values |= {
            "reads": CHARACTERS,
            "characters": reader.integer("char_cnn.embedding.dim"),
            "filters": reader.filters("char_cnn.filters", longest),
            "highways": reader.integer("char_cnn.n_highway", 0, minimum=0, maximum=MAX_LAYERS),
            "activation": reader.choice("char_cnn.activation", ACTIVATIONS),
            "longest": longest,
        }
    if reader.faults:
        raise InputError(join_errors(list(reader.faults), MAX_LAYERS), file=file, hint=REFETCH_HINT)
    return ElmoSizes(**values)


class OptionReader:
    """Reads entries by dotted key and collects faults, each once; a missing or invalid entry gets its default."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.options = options
        self.faults: dict[str, None] = {}

    def _read(
        self, key: str, is_valid: Callable[[Any], bool], fault: str, default: Any = None, max_shown: int = 40
    ) -> Any:
        """An entry; `fault` is the message that follows the first `max_shown` characters of an invalid one."""
        options, (section, _, name) = self.options, key.rpartition(".")
        if section:
            options = self._read(section, lambda value: isinstance(value, dict), ", not an object") or {}
        value = options.get(name)
        if value is not None and is_valid(value):
            return value
        if value is not None:
            self.faults[f"{key} is {repr(value)[:max_shown]}{fault}"] = None
        elif default is None:
            self.faults[f"{key} is missing"] = None
        return default

    def integer(self, key: str, default: int | None = None, *, minimum: int = 1, maximum: int = MAX_WIDTH) -> Any:
        fault = f", not a whole number from {minimum} to {maximum:,}"
        return self._read(key, lambda value: type(value) is int and minimum <= value <= maximum, fault, default)

    def real(self, key: str, default: float = 0.0, *, maximum: float = MAX_WIDTH) -> float:
        def is_valid(value: Any) -> bool:
            return type(value) in (int, float) and 0 <= value <= maximum

        return float(self._read(key, is_valid, f", not a number from 0 to {maximum:,}", default))

    def choice(self, key: str, choices: tuple[Any, ...], default: Any = None) -> Any:
        fault = f"; it must be {' or '.join(map(json.dumps, choices))}"
        # compared with its type: False == 0
        return self._read(key, lambda value: (type(value), value) in [(type(c), c) for c in choices], fault, default)

    def filters(self, key: str, max_width: int) -> tuple[tuple[int, int], ...]:
        """Pairs of filter width and number of filters."""

        def is_valid(value: Any) -> bool:
            return isinstance(value, list) and 0 < len(value) <= MAX_LAYERS and all(map(is_filter, value))

        def is_filter(value: Any) -> bool:
            is_pair = isinstance(value, list) and len(value) == 2 and all(type(number) is int for number in value)
            return is_pair and 0 < value[0] <= max_width and 0 < value[1] <= MAX_WIDTH

        fault = f", not a list of pairs [width, how many], with widths up to the {max_width} characters of a word"
        return tuple(map(tuple, self._read(key, is_valid, fault, max_shown=60) or ()))


# --- The files of a model ---

OPTIONS_FILE, WEIGHTS_FILE, VOCABULARY_FILE = "options.json", "lm_weights.hdf5", "vocab.txt"
HDF5_SUFFIXES = (".hdf5", ".h5")
SOFTMAX_ARRAYS = ("softmax/W", "softmax/b")
WEIGHT_PREFIXES = ("RNN_0/", "RNN_1/", "CNN/", "CNN_proj/", "char_embed")  # of array names
MAX_COMPRESSION_RATIO = 1100  # gzip compresses at most about 1000 to 1
# Raised by h5py for corrupt files.
HDF5_ERRORS = (OSError, RuntimeError, KeyError, ValueError, TypeError, OverflowError, MemoryError)


@dataclass(frozen=True)
class ElmoFiles:
    """The files of a model in its folder."""

    options: Path
    weights: Path
    softmax: Path | None = None
    vocabulary: Path | None = None
    notes: list[str] = field(default_factory=list)


def import_h5py() -> ModuleType:
    """h5py, an optional dependency."""
    try:
        import h5py
    except ImportError:
        message = "HDF5 files, in which ELMo is published, need h5py, which is not installed"
        raise InputError(message, hint="pip install 'forebear[elmo]'") from None
    return h5py


def is_elmo(path: Path) -> bool:
    """Whether a path looks like a published ELMo, perhaps incomplete: a folder, or HDF5 weights."""
    if path.is_file():
        return path.suffix.lower() in HDF5_SUFFIXES
    if not path.is_dir() or (path / "config.json").exists():
        return False
    return any(item.name.endswith(OPTIONS_FILE) or item.suffix.lower() in HDF5_SUFFIXES for item in path.iterdir())


def find_elmo_files(path: Path) -> ElmoFiles:
    """The files of a model in a folder, or next to a weight file."""
    folder = path.parent if path.is_file() else path
    files = sorted(item for item in folder.iterdir() if item.is_file() and (item == path or item.name[0] != "."))
    hdf5_files = [item for item in files if item.suffix.lower() in HDF5_SUFFIXES]
    if not hdf5_files:
        hint = f"put the weights there, {WEIGHTS_FILE} or the like, or give the folder that has them"
        raise InputError(f"there is no file of weights (*{HDF5_SUFFIXES[0]})", file=folder, hint=hint)
    names_by_file, notes = {}, []
    for file in hdf5_files:
        try:
            with open_hdf5(file) as arrays:
                names_by_file[file] = list(arrays.shapes)
        except InputError:
            if len(hdf5_files) == 1 or file == path:
                raise
            notes.append(f"{file.name} is not a whole HDF5 file: left out")
    weights = path if path.is_file() else None
    options = _find_options(files, folder, weights)
    weights = weights or _find_weights(names_by_file, options, folder, notes)
    with_softmax = (file for file in (weights, *names_by_file) if set(SOFTMAX_ARRAYS) <= set(names_by_file[file]))
    softmax = next(with_softmax, None)
    vocabularies = [item for item in files if item.suffix == ".txt" and "vocab" in item.name.lower()]
    vocabularies = [item for item in vocabularies if item.name == VOCABULARY_FILE] or vocabularies
    if len(vocabularies) > 1:
        listing = join_errors([item.name for item in vocabularies])
        notes.append(f"which vocabulary is meant is not clear, and none is read: {listing}")
    vocabulary = vocabularies[0] if len(vocabularies) == 1 else None
    if len(hdf5_files) > 1:
        notes.insert(0, f"its weights are those of {weights.name}")
    return ElmoFiles(options, weights, softmax, vocabulary, notes)


def _find_options(files: Sequence[Path], folder: Path, weights: Path | None) -> Path:
    matches = [item for item in files if item.name.endswith(OPTIONS_FILE)]
    if weights is not None and len(matches) > 1:
        prefix = weights.name.removesuffix("weights" + weights.suffix)
        matches = [item for item in matches if item.name.removesuffix(OPTIONS_FILE) == prefix] or matches
    matches = [item for item in matches if item.name == OPTIONS_FILE] or matches
    if not matches:
        hint = f"put the {OPTIONS_FILE} there that was published with the weights: it says how they are used"
        raise InputError(f"there is no {OPTIONS_FILE}", file=folder, hint=hint)
    if len(matches) > 1:
        listing = join_errors([item.name for item in matches])
        hint = f"call the one that is meant {OPTIONS_FILE}"
        raise InputError(f"there are several: {listing}", file=folder, hint=hint)
    return matches[0]


def _find_weights(names_by_file: Mapping[Path, Sequence[str]], options: Path, folder: Path, notes: list[str]) -> Path:
    candidates = [
        file for file, names in names_by_file.items() if any(name.startswith(WEIGHT_PREFIXES) for name in names)
    ]
    if not candidates and len(names_by_file) != 1:
        listing = join_errors([file.name for file in names_by_file]) or "; ".join(notes)
        message = f"none of its HDF5 files has weights of an ELMo: {listing}"
        raise InputError(message, file=folder, hint=CORRUPT_FILE_HINT)
    candidates = candidates or list(names_by_file)  # of a single file, missing arrays are listed later
    if len(candidates) == 1:
        return candidates[0]
    prefix = options.name.removesuffix(OPTIONS_FILE)
    for name in (WEIGHTS_FILE, *(f"{prefix}weights{suffix}" for suffix in HDF5_SUFFIXES)):
        if folder / name in candidates:
            return folder / name
    listing = join_errors([file.name for file in candidates])
    hint = f"give the one that is meant: {candidates[0]}"
    raise InputError(f"several files have weights: {listing}", file=folder, hint=hint)


# --- HDF5 ---


@contextlib.contextmanager
def open_hdf5(file: Path) -> Iterator[HDF5Arrays]:
    """Open the arrays of an HDF5 file; errors of h5py become InputError."""
    h5py = import_h5py()
    try:
        with h5py.File(file, "r") as h5_file:
            yield HDF5Arrays(file, h5py, h5_file)
    except InputError:
        raise
    except HDF5_ERRORS as error:
        reason = str(error).strip().strip("'\"") or type(error).__name__
        raise InputError(f"this is not a whole HDF5 file ({reason})", file=file, hint=CORRUPT_FILE_HINT) from None


class HDF5Arrays:
    """The arrays of an open file by name; links to other files are not followed."""

    def __init__(self, file: Path, h5py: ModuleType, h5_file: h5py.File) -> None:
        self.file, self._h5_file = file, h5_file
        self.shapes: dict[str, tuple[int, ...]] = {}

        def add_shape(name: str, item: Any) -> None:
            if isinstance(item, h5py.Dataset):
                self.shapes[name] = tuple(item.shape or ())

        h5_file.visititems(add_shape)

    def read(self, name: str) -> np.ndarray:
        """One array as float32."""
        item: Any = self._h5_file[name]
        if item.dtype.kind != "f":
            raise InputError(f"{name} holds no floating point numbers", file=self.file, hint=CORRUPT_FILE_HINT)
        if item.external or item.is_virtual:
            message = f"the numbers of {name} lie in another file"
            raise InputError(message, file=self.file, hint="copy them into this one")
        stored_size = item.id.get_storage_size()
        if item.nbytes > stored_size * (1 if item.chunks is None else MAX_COMPRESSION_RATIO):
            raise InputError(f"the numbers of {name} are not all there", file=self.file, hint=CORRUPT_FILE_HINT)
        return finite_float32(item[...], name, self.file)


def write_hdf5(file: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays by name; the same arrays give the same bytes."""
    with import_h5py().File(file, "w") as h5_file:
        for name, values in arrays.items():
            h5_file.create_dataset(name, data=np.ascontiguousarray(values, "<f4"))
