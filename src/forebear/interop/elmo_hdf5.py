"""ELMo as published by bilm-tf and AllenNLP, read and written: options.json, HDF5 weights and an optional vocabulary.

Their gates are in the order i, g, f, o, and 1 is added to the forget-gate bias at run time; ours are in torch's order
i, f, g, o, with nothing added. Weights that were imported survive export and re-import bit by bit. A forget-gate bias
that was learned here may change by 1e-7, because subtracting 1 rounds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from forebear.data.io.atomic import new_folder
from forebear.data.tokenizers import word_level
from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.errors import ForebearError, InputError, join_errors
from forebear.interop.elmo_options import (
    CHARACTERS,
    CORRUPT_HINT,
    OPTIONS,
    SOFTMAX,
    VOCABULARY,
    WEIGHTS,
    ElmoFiles,
    ElmoSizes,
    HDF5Arrays,
    find_elmo_files,
    is_elmo,
    open_hdf5,
    read_elmo_options,
    read_vocabulary,
    sizes_from_fields,
    to_elmo_options,
    write_hdf5,
)
from forebear.registry import model_spec
from forebear.training.create_run import create_run

if TYPE_CHECKING:
    from forebear.interop.exportable import ExportableRun
    from forebear.training.run_folder import RunFolder

# --- The vocabulary as ELMo's programs expect it: a word per line, with <S>, </S> and <UNK> ---


ELMO_MARKERS = {"start": "<S>", "end": "</S>", "unknown": "<UNK>"}  # by our roles
UNPREDICTABLE_SCORE = -1e4  # logit of a word that is never predicted
BOS_ROW, EOS_ROW = 256, 257  # rows of the character table for the beginning and the end of a sentence
CHARACTER_TABLE, TOKEN_TABLE, SOFTMAX_LAYER = (
    "encoder.embedding.character",
    "encoder.embedding.token",
    "heads.next.softmax.scores",
)


def vocabulary_lines(tokens: Sequence[str], roles: Mapping[str, int]) -> list[str]:
    r"""A line for each token, followed by the markers for which the tokenizer has no token.

    Whitespace, control characters and the < of a word that equals a marker are written as \u0020 and the like.
    """
    marker_ids = {mark: roles[role] for role, mark in ELMO_MARKERS.items() if role in roles}
    if marker_ids.get(ELMO_MARKERS["start"]) == marker_ids.get(ELMO_MARKERS["end"]):
        marker_ids.pop(ELMO_MARKERS["start"], None)  # one token serves as both; only the end is predicted
    marker_of = {token_id: mark for mark, token_id in marker_ids.items()}
    lines: dict[str, None] = {}
    for token_id, token in enumerate(tokens):
        line = marker_of.get(token_id) or _vocabulary_line(token)
        while line in lines:
            line += "_"
        lines[line] = None
    return [*lines, *(mark for mark in ELMO_MARKERS.values() if mark not in marker_ids)]


def _vocabulary_line(token: str) -> str:
    if token in ELMO_MARKERS.values():
        return r"\u003c" + token[1:]
    to_escape = [character for character in set(token) if character.isspace() or ord(character) < 32]
    return "".join(rf"\u{ord(c):04x}" if c in to_escape else c for c in token) or r"\u0000"


def add_marker_rows(
    tensors: Mapping[str, np.ndarray], lines: Sequence[str], eos_id: int, *, shared_boundary: bool
) -> dict[str, np.ndarray]:
    """The tensors with a row for each line, also for markers that our vocabulary lacks.

    Added markers are embedded like the end token and never predicted. `shared_boundary`: texts begin with the end
    token here, so <S> is embedded like it.
    """
    extended = dict(tensors)
    start = lines.index(ELMO_MARKERS["start"])
    if (table := extended.get(f"{TOKEN_TABLE}.weight")) is not None:
        num_extra = len(lines) - len(table)
        extended[f"{TOKEN_TABLE}.weight"] = table = np.concatenate(
            [table, np.repeat(table[eos_id : eos_id + 1], num_extra, 0)]
        )
        if shared_boundary:
            table[start] = table[eos_id]
    if shared_boundary and (table := extended.get(f"{CHARACTER_TABLE}.weight")) is not None:
        extended[f"{CHARACTER_TABLE}.weight"] = table = table.copy()
        table[BOS_ROW] = table[EOS_ROW]
    if (scores := extended.get(f"{SOFTMAX_LAYER}.weight")) is not None and (num_extra := len(lines) - len(scores)):
        extended[f"{SOFTMAX_LAYER}.weight"] = np.concatenate(
            [scores, np.zeros((num_extra, scores.shape[1]), np.float32)]
        )
        extended[f"{SOFTMAX_LAYER}.bias"] = np.append(
            extended[f"{SOFTMAX_LAYER}.bias"], np.full(num_extra, UNPREDICTABLE_SCORE, np.float32)
        )
    return extended


def drop_extra_rows(tensors: Mapping[str, np.ndarray], vocab_size: int) -> dict[str, np.ndarray]:
    """The tensors without the rows after the first `vocab_size` words."""
    by_word = (f"{TOKEN_TABLE}.weight", f"{SOFTMAX_LAYER}.weight", f"{SOFTMAX_LAYER}.bias")
    return {name: value[:vocab_size] if name in by_word else value for name, value in tensors.items()}


__all__ = ["ELMO_MARKERS", "ElmoCheckpoint", "is_elmo", "read_elmo", "write_elmo"]

FILTER, HIGHWAY, PROJECTION = "encoder.embedding.filters", "encoder.embedding.highways", "encoder.embedding.project"
DIRECTIONS = ("encoder.onward", "encoder.back")
GATES = (0, 2, 1, 3)  # i g f o as i f g o, and back again
MAX_FAULTS = 200  # listed in an error
ALLENNLP_MAX_CHARACTERS = 50  # per word, whatever the options say
MISMATCH_HINT = "take both from the same publisher, or fetch them again"


@dataclass(frozen=True, eq=False)
class ElmoCheckpoint:
    """A published ELMo, converted.

    fields           settings of our model
    tensors          by our names, float32; the softmax only if there is a word for each of its rows
    words            the vocabulary in the order of the softmax, if there is one
    num_matched      number of arrays that were read
    skipped_tensors  arrays that were not read, by reason
    """

    fields: dict[str, Any]
    tensors: dict[str, np.ndarray]
    words: list[str] | None
    num_matched: int
    skipped_tensors: dict[str, tuple[str, ...]] = field(default_factory=dict)
    import_notes: list[str] = field(default_factory=list)

    @property
    def heads(self) -> tuple[str, ...]:
        """Heads of the model: the softmax serves both directions."""
        return ("next", "previous") if f"{SOFTMAX_LAYER}.weight" in self.tensors else ()

    def to_dict(self) -> dict[str, Any]:
        """The import report as stored in run.json."""
        left_out = {reason: list(names) for reason, names in self.skipped_tensors.items()}
        return {"architecture": "ELMo", "matched": self.num_matched, "heads": list(self.heads), "left_out": left_out}

    def notes(self) -> list[str]:
        """The import report as messages."""
        notes = [f"{self.num_matched:,} arrays are those of ELMo, and were read", *self.import_notes]
        return notes + [
            f"left out ({reason}): {join_errors(names, 4)}" for reason, names in self.skipped_tensors.items()
        ]


# --- Reading ---


def read_elmo(path: Path) -> ElmoCheckpoint:
    """Read a folder, or a weight file with options.json next to it."""
    files = find_elmo_files(path)
    sizes, notes = read_elmo_options(files.options), list(files.notes)
    words, ignored_lines = (None, []) if files.vocabulary is None else read_vocabulary(files.vocabulary)
    if ignored_lines:
        notes.append(f"{len(ignored_lines):,} lines of {files.vocabulary} are blank or repeat a word: left out")
    with open_hdf5(files.weights) as arrays:
        sizes, hdf5_arrays = _read_network_arrays(arrays, sizes, files)
    _check_vocabulary(path, sizes, words, len(ignored_lines))
    _check_projections(files.weights, sizes, hdf5_arrays)
    tensors, matched = _to_our_tensors(hdf5_arrays, sizes), len(hdf5_arrays)
    if sizes.reads == CHARACTERS and not sizes.projected:
        notes.append("what its filters find is not projected: a projection that changes nothing stands in its place")
    softmax, skip_reason = _read_softmax(files, sizes, words, len(ignored_lines))
    skipped: dict[str, tuple[str, ...]] = {skip_reason: SOFTMAX} if skip_reason else {}
    if files.softmax is None:
        notes.append("its files hold no softmax: it can be asked for vectors, and not for words")
    fields, matched = sizes.spec_fields() | {"softmax": "full"}, matched + len(softmax)
    return ElmoCheckpoint(fields, tensors | softmax, words, matched, skipped, notes)


def _read_network_arrays(
    arrays: HDF5Arrays, sizes: ElmoSizes, files: ElmoFiles
) -> tuple[ElmoSizes, dict[str, np.ndarray]]:
    """All arrays of the network, checked against the options; errors list every mismatch."""
    if sizes.reads != CHARACTERS and "char_embed" in arrays.shapes:
        message = f"it reads the letters of words, and {files.options.name} has no char_cnn to tell how"
        raise InputError(message, file=files.weights, hint=MISMATCH_HINT)
    sizes = sizes.resolve(arrays.shapes)
    expected = sizes.tensor_shapes()
    softmax_names = SOFTMAX if any(name in arrays.shapes for name in SOFTMAX) else ()
    faults = [f"{name} is missing" for name in (*expected, *softmax_names) if name not in arrays.shapes]
    for name, shape in arrays.shapes.items():
        if name in expected and shape != expected[name]:
            faults.append(f"{name} is {_format_shape(shape)} instead of {_format_shape(expected[name])}")
        elif name not in expected and name not in softmax_names:
            faults.append(f"{name} is not expected")
    if faults:
        message = f"these are not the weights that {files.options.name} tells of: {join_errors(faults, MAX_FAULTS)}"
        raise InputError(message, file=files.weights, hint=MISMATCH_HINT)
    return sizes, {name: arrays.read(name) for name in expected}


def _format_shape(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape)) or "a single number"


def _to_our_tensors(arrays: Mapping[str, np.ndarray], sizes: ElmoSizes) -> dict[str, np.ndarray]:
    tensors: dict[str, np.ndarray] = {}
    if sizes.reads == CHARACTERS:
        tensors[f"{CHARACTER_TABLE}.weight"] = arrays["char_embed"]
        for number, (filter_width, count) in enumerate(sizes.filters):
            source = arrays[f"CNN/W_cnn_{number}"]  # (1, wide, characters, count)
            tensors[f"{FILTER}.{number}.weight"] = source.reshape(filter_width * sizes.characters, count).T
            tensors[f"{FILTER}.{number}.bias"] = arrays[f"CNN/b_cnn_{number}"]
        for number in range(sizes.highways):
            for gate in ("carry", "transform"):
                tensors[f"{HIGHWAY}.{number}.{gate}.weight"] = arrays[f"CNN_high_{number}/W_{gate}"].T
                tensors[f"{HIGHWAY}.{number}.{gate}.bias"] = arrays[f"CNN_high_{number}/b_{gate}"]
        identity = (np.eye(sizes.width), np.zeros(sizes.width)) if not sizes.projected else None
        weight, bias = identity or (arrays["CNN_proj/W_proj"].T, arrays["CNN_proj/b_proj"])
        tensors |= {f"{PROJECTION}.weight": weight, f"{PROJECTION}.bias": bias}
    else:
        tensors[f"{TOKEN_TABLE}.weight"] = arrays["embedding"]
    for direction, prefix in enumerate(DIRECTIONS):
        for layer in range(sizes.depth):
            name, source = f"{prefix}.{layer}", sizes.cell_prefix(direction, layer)
            weights = _reorder_gates(arrays[f"{source}W_0"].T)  # (4 · cells, width of the input, then of the state)
            bias = _reorder_gates(arrays[f"{source}B"])
            bias[sizes.cells : 2 * sizes.cells] += np.float32(1)
            tensors |= {f"{name}.input.weight": weights[:, : sizes.width], f"{name}.input.bias": bias}
            tensors[f"{name}.state.weight"] = weights[:, sizes.width :]
            if sizes.projects_output:
                tensors[f"{name}.project.weight"] = arrays[f"{source}W_P_0"].T
    return {name: np.ascontiguousarray(value, np.float32) for name, value in tensors.items()}


def _reorder_gates(rows: np.ndarray) -> np.ndarray:
    """The rows of the four gates in the other order; its own inverse."""
    blocks = np.split(rows, 4)
    return np.concatenate([blocks[gate] for gate in GATES])


def _check_vocabulary(path: Path, sizes: ElmoSizes, words: Sequence[str] | None, ignored_lines: int) -> None:
    """Checks that a word-level model comes with its complete vocabulary."""
    if sizes.reads == CHARACTERS:
        return
    hint = f"put the vocabulary there that it was trained with, as {VOCABULARY}"
    if words is None or ignored_lines or len(words) != sizes.words:
        message = f"it reads words, {sizes.words:,} of them, and there is no vocabulary of so many"
        raise InputError(message, file=path, hint=hint)
    if missing := [mark for mark in ELMO_MARKERS.values() if mark not in words]:
        raise InputError(f"the vocabulary has no {' and no '.join(missing)}", file=path, hint=hint)


def _check_projections(file: Path, sizes: ElmoSizes, arrays: Mapping[str, np.ndarray]) -> None:
    """Checks that projections are identities where our model has none (as many cells as the width)."""
    identity = np.eye(sizes.width, dtype=np.float32)
    clips = 0 < sizes.project_clip < 1  # unprojected outputs are within 1
    projections = [name for name in arrays if name.endswith("/W_P_0")]
    effective = [name for name in projections if clips or not np.array_equal(arrays[name], identity)]
    if not sizes.projects_output and effective:
        message = f"dim equals projection_dim, and there still is a projection between them: {join_errors(effective)}"
        raise InputError(message, file=file, hint="give an ELMo with more cells than its projection has numbers")


def _read_softmax(
    files: ElmoFiles, sizes: ElmoSizes, words: Sequence[str] | None, ignored_lines: int
) -> tuple[dict[str, np.ndarray], str]:
    """The softmax layer, or the reason why it is skipped; neither if there is none."""
    if files.softmax is None:
        return {}, ""
    with open_hdf5(files.softmax) as arrays:
        size = (arrays.shapes[SOFTMAX[1]] or (0,))[0]
        expected = dict(zip(SOFTMAX, ((size, sizes.width), (size,)), strict=True))
        mismatched = [name for name, shape in expected.items() if arrays.shapes[name] != shape]
        if faults := [f"{name} is {_format_shape(arrays.shapes[name])}" for name in mismatched]:
            message = f"no softmax over words for vectors of {sizes.width} numbers: {join_errors(faults)}"
            raise InputError(message, file=files.softmax, hint=CORRUPT_HINT)
        if words is None:
            return {}, "there is no vocabulary to name its words"
        if missing := [mark for mark in ELMO_MARKERS.values() if mark not in words]:
            return {}, f"the vocabulary has no {' and no '.join(missing)}"
        if ignored_lines or len(words) != size:
            return {}, f"it has {size:,} rows, and the vocabulary {len(words):,} words"
        return {
            f"{SOFTMAX_LAYER}.weight": arrays.read(SOFTMAX[0]),
            f"{SOFTMAX_LAYER}.bias": arrays.read(SOFTMAX[1]),
        }, ""


# --- Writing ---


def write_elmo(
    folder: Path, fields: Mapping[str, Any], tensors: Mapping[str, np.ndarray], words: Sequence[str] | None
) -> list[str]:
    """Write options, weights and the vocabulary into the folder; returns notes on compatibility."""
    sizes = sizes_from_fields(fields)
    folder.mkdir(parents=True, exist_ok=True)
    write_hdf5(folder / WEIGHTS, _to_hdf5_arrays(tensors, sizes))
    options = to_elmo_options(sizes, None if words is None else len(words))
    (folder / OPTIONS).write_text(json.dumps(options, indent=2) + "\n", encoding="utf-8")
    if words is not None:
        (folder / VOCABULARY).write_text("".join(f"{word}\n" for word in words), encoding="utf-8", newline="\n")
    return _compatibility_notes(sizes)


def _to_hdf5_arrays(tensors: Mapping[str, np.ndarray], sizes: ElmoSizes) -> dict[str, np.ndarray]:
    arrays: dict[str, np.ndarray] = {}
    if sizes.reads == CHARACTERS:
        arrays["char_embed"] = tensors[f"{CHARACTER_TABLE}.weight"]
        for number, (filter_width, count) in enumerate(sizes.filters):
            shape = (1, filter_width, sizes.characters, count)
            arrays[f"CNN/W_cnn_{number}"] = tensors[f"{FILTER}.{number}.weight"].T.reshape(shape)
            arrays[f"CNN/b_cnn_{number}"] = tensors[f"{FILTER}.{number}.bias"]
        for number in range(sizes.highways):
            for gate in ("carry", "transform"):
                arrays[f"CNN_high_{number}/W_{gate}"] = tensors[f"{HIGHWAY}.{number}.{gate}.weight"].T
                arrays[f"CNN_high_{number}/b_{gate}"] = tensors[f"{HIGHWAY}.{number}.{gate}.bias"]
        arrays |= {
            "CNN_proj/W_proj": tensors[f"{PROJECTION}.weight"].T,
            "CNN_proj/b_proj": tensors[f"{PROJECTION}.bias"],
        }
    else:
        arrays["embedding"] = tensors[f"{TOKEN_TABLE}.weight"]
    for direction, prefix in enumerate(DIRECTIONS):
        for layer in range(sizes.depth):
            name, target = f"{prefix}.{layer}", sizes.cell_prefix(direction, layer)
            bias = tensors[f"{name}.input.bias"].copy()
            bias[sizes.cells : 2 * sizes.cells] -= np.float32(1)
            weights = np.concatenate([tensors[f"{name}.input.weight"], tensors[f"{name}.state.weight"]], axis=1)
            arrays |= {f"{target}W_0": _reorder_gates(weights).T, f"{target}B": _reorder_gates(bias)}
            arrays[f"{target}W_P_0"] = (
                tensors[f"{name}.project.weight"].T if sizes.projects_output else np.eye(sizes.width)
            )
    if f"{SOFTMAX_LAYER}.weight" in tensors:
        arrays |= {SOFTMAX[0]: tensors[f"{SOFTMAX_LAYER}.weight"], SOFTMAX[1]: tensors[f"{SOFTMAX_LAYER}.bias"]}
    return arrays


def _compatibility_notes(sizes: ElmoSizes) -> list[str]:
    """Notes on what bilm-tf or AllenNLP are known to read differently."""
    notes = []
    if sizes.reads != CHARACTERS:
        notes.append(
            "it reads words and no characters: bilm-tf opens it (use_character_inputs=False), AllenNLP does not"
        )
    elif sizes.num_filters <= sizes.width:
        requirement = "bilm-tf wants filters to find more numbers in a word than the width has"
        notes.append(f"{requirement} ({sizes.num_filters} and {sizes.width}); AllenNLP reads it as it is")
    if sizes.cells < sizes.width:
        requirement = "bilm-tf projects only where there are more cells than the width"
        notes.append(f"{requirement} ({sizes.cells} and {sizes.width}); AllenNLP reads it as it is")
    if sizes.reads == CHARACTERS and sizes.longest != ALLENNLP_MAX_CHARACTERS:
        notes.append(f"it reads {sizes.longest} characters of a word, and AllenNLP always {ALLENNLP_MAX_CHARACTERS}")
    return notes


# --- Runs from ELMo or a NumPy LSTM, and ELMo from runs ---


TOKENIZER_FILE = "tokenizer.json"
SPACES_NOTE = "words are what stands between spaces: write text for it as it was cut for its training"


def is_elmo_or_lstm_npz(path: Path) -> bool:
    """Whether a path holds a published ELMo or an LSTM in a NumPy archive."""
    from forebear.interop import lstm_npz

    return is_elmo(path) or lstm_npz.is_rnnlm(path)


def import_elmo_or_lstm_npz(path: Path, target: Path) -> RunFolder:
    """Create a run from such a folder or file."""
    from forebear.interop import lstm_npz

    if is_elmo(path):
        return _import_elmo(path, target, read_elmo(path))
    checkpoint = lstm_npz.read_rnnlm(path)
    tokenizer = _tokenizer_for_words(checkpoint.words, lstm_npz.RNNLM_MARKERS, path)
    metadata = {"imported": str(path), "heads": ["next"], "notes": [*checkpoint.notes, SPACES_NOTE]}
    return _create_imported_run(target, "lstm", checkpoint.fields, tokenizer, checkpoint.tensors, path, metadata)


def _import_elmo(path: Path, target: Path, checkpoint: ElmoCheckpoint) -> RunFolder:

    tokenizer_file = (path if path.is_dir() else path.parent) / TOKENIZER_FILE
    notes, tensors = checkpoint.notes(), checkpoint.tensors
    if tokenizer_file.is_file():
        tokenizer = Tokenizer.load(tokenizer_file)
        if checkpoint.words is not None and checkpoint.words != vocabulary_lines(
            tokenizer.vocabulary(), tokenizer.special_roles
        ):
            message = "the vocabulary beside it has other words than this tokenizer"
            raise InputError(
                message, file=tokenizer_file, hint="take one of the two away, whichever is not the model's"
            )
        tensors = drop_extra_rows(tensors, tokenizer.vocab_size)
        notes.append(f"text is cut by the {TOKENIZER_FILE} beside it")
    else:
        tokenizer = _tokenizer_for_words(checkpoint.words or [], ELMO_MARKERS, path)
        notes.append(SPACES_NOTE)
        if checkpoint.fields["reads"] == "characters":
            notes.append("words that its vocabulary lacks are read by how they are written")
    metadata = {"imported": str(path), "heads": list(checkpoint.heads), "report": checkpoint.to_dict(), "notes": notes}
    return _create_imported_run(target, "elmo", checkpoint.fields | {"borders": 2}, tokenizer, tensors, path, metadata)


def _tokenizer_for_words(words: Sequence[str], markers: Mapping[str, str], path: Path) -> Tokenizer:
    """A whitespace tokenizer with these words, followed by the markers that they lack."""
    known = set(words)
    tokens = [*words, *(marker for marker in markers.values() if marker not in known)]
    tokenizer_spec = word_level.word_tokenizer_spec(
        tokens, specials=markers, normalise=(), split="spaces", segmenter=None, facts={"source": path.name}
    )
    return Tokenizer(tokenizer_spec, file=path)


def _create_imported_run(
    target: Path,
    model_name: str,
    fields: dict[str, Any],
    tokenizer: Tokenizer,
    arrays: Mapping[str, np.ndarray],
    path: Path,
    metadata: dict[str, Any],
) -> RunFolder:
    import torch

    spec = model_spec(model_name)(**fields)
    tensors = {tensor_name: torch.from_numpy(array) for tensor_name, array in arrays.items()}
    network = spec.build(tokenizer).with_heads(metadata["heads"]).load(tensors, file=str(path))
    return create_run(target, spec, model_name, tokenizer, network.tensors, metadata)


def export_elmo(run: ExportableRun, target: Path) -> list[str]:
    """Write an ELMo run as a folder that bilm-tf and AllenNLP read; returns notes."""
    tokenizer, fields = run.tokenizer, run.metadata["fields"]
    notes: list[str] = []
    if tokenizer.segmenter is not None:
        notes.append("its words are cut by a segmenter, which others lack: give them text that is cut, words by spaces")
    arrays = {name: value.numpy() for name, value in run.network.tensors().items()}
    heads = [name for name in arrays if name.startswith("heads.")]
    if not all(name.startswith(SOFTMAX_LAYER) for name in heads):
        arrays = {name: value for name, value in arrays.items() if name not in heads}
        notes.append("its softmax weighs rare words in groups, which such files cannot hold: it is left out")
    eos_id = tokenizer.special_roles.get("end")
    if eos_id is None:
        raise ForebearError("its vocabulary has no token that ends a text", file=run.folder.path)
    lines = vocabulary_lines(tokenizer.vocabulary(), tokenizer.special_roles)
    arrays = add_marker_rows(arrays, lines, eos_id, shared_boundary=fields["borders"] == 1)
    with new_folder(target) as folder:
        notes += write_elmo(folder, fields, arrays, lines)
        tokenizer.save(folder / TOKENIZER_FILE)
    return notes
