"""Reading and writing ELMo as published by bilm-tf and AllenNLP: options.json, HDF5 weights, an optional vocabulary.

Their gates are in the order i, g, f, o, and 1 is added to the forget-gate bias at run time; ours are in torch's order
i, f, g, o, with nothing added. Imported weights survive export and re-import bit by bit; a forget-gate bias that was
learned here may change by 1e-7, because subtracting 1 rounds. An LSTM in a NumPy archive is imported here too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from forebear.data.io.atomic import new_folder
from forebear.data.io.compression import CORRUPT_FILE_HINT
from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.errors import ForebearError, InputError, join_errors
from forebear.interop import lstm_npz
from forebear.interop.elmo_options import (
    CHARACTER_EMBEDDING,
    CHARACTERS,
    OPTIONS_FILE,
    PROJECTION,
    SOFTMAX_ARRAYS,
    TOKEN_EMBEDDING,
    VOCABULARY_FILE,
    WEIGHTS_FILE,
    ElmoFiles,
    ElmoSizes,
    HDF5Arrays,
    find_elmo_files,
    is_elmo,
    open_hdf5,
    read_elmo_options,
    sizes_from_fields,
    to_elmo_options,
    write_hdf5,
)
from forebear.interop.foreign_files import (
    format_shape,
    read_word_list,
    reorder_gates,
    shape_mismatches,
    whitespace_tokenizer,
)
from forebear.registry import model_spec
from forebear.training.create_finished_run import create_run

if TYPE_CHECKING:
    from forebear.interop.exportable import ExportableRun
    from forebear.training.run_folder import RunFolder

# --- Vocabulary file of bilm-tf and AllenNLP: a word per line, with <S>, </S> and <UNK> ---

ELMO_MARKERS = {"start": "<S>", "end": "</S>", "unknown": "<UNK>"}  # by our roles
UNPREDICTABLE_SCORE = -1e4  # logit of a word that is never predicted
# Rows of the character embedding for the beginning and the end of a sentence.
BOS_CHARACTER_ROW = 256
EOS_CHARACTER_ROW = 257
SOFTMAX_WEIGHT, SOFTMAX_BIAS = "heads.next.softmax.scores.weight", "heads.next.softmax.scores.bias"


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
    return "".join(rf"\u{ord(c):04x}" if c.isspace() or ord(c) < 32 else c for c in token) or r"\u0000"


def add_marker_rows(
    tensors: Mapping[str, np.ndarray], lines: Sequence[str], eos_id: int, *, shared_boundary: bool
) -> dict[str, np.ndarray]:
    """Extend the tensors to one row per line, including markers that our vocabulary lacks.

    Added markers are embedded like the end token and never predicted. `shared_boundary`: texts also begin with the end
    token, so <S> is embedded like it.
    """
    extended_tensors = dict(tensors)
    bos_row = lines.index(ELMO_MARKERS["start"])
    if (tokens := extended_tensors.get(TOKEN_EMBEDDING)) is not None:
        extra_rows = np.repeat(tokens[eos_id : eos_id + 1], len(lines) - len(tokens), 0)
        extended_tensors[TOKEN_EMBEDDING] = tokens = np.concatenate([tokens, extra_rows])
        if shared_boundary:
            tokens[bos_row] = tokens[eos_id]
    if shared_boundary and (characters := extended_tensors.get(CHARACTER_EMBEDDING)) is not None:
        extended_tensors[CHARACTER_EMBEDDING] = characters = characters.copy()
        characters[BOS_CHARACTER_ROW] = characters[EOS_CHARACTER_ROW]
    weight = extended_tensors.get(SOFTMAX_WEIGHT)
    if weight is not None and (num_extra := len(lines) - len(weight)):
        extra_weight = np.zeros((num_extra, weight.shape[1]), np.float32)
        extended_tensors[SOFTMAX_WEIGHT] = np.concatenate([weight, extra_weight])
        extra_bias = np.full(num_extra, UNPREDICTABLE_SCORE, np.float32)
        extended_tensors[SOFTMAX_BIAS] = np.append(extended_tensors[SOFTMAX_BIAS], extra_bias)
    return extended_tensors


def drop_extra_rows(tensors: Mapping[str, np.ndarray], vocab_size: int) -> dict[str, np.ndarray]:
    """Cut the tensors with a row per word to the first `vocab_size` words."""
    with_word_rows = (TOKEN_EMBEDDING, SOFTMAX_WEIGHT, SOFTMAX_BIAS)
    return {name: value[:vocab_size] if name in with_word_rows else value for name, value in tensors.items()}


GATE_ORDER = (0, 2, 1, 3)  # i, g, f, o → i, f, g, o, and back
MAX_ERRORS = 200
ALLENNLP_MAX_CHARACTERS = 50  # per word, whatever the options say
MISMATCH_HINT = "take both from the same publisher, or fetch them again"


@dataclass(frozen=True, eq=False)
class ElmoCheckpoint:
    """A published ELMo, converted.

    fields           settings of our model
    tensors          by our names, float32; with a softmax only if there is a word for each of its rows
    words            the vocabulary in the order of the softmax rows, if there is one
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
        """Heads of the model: both directions share the softmax."""
        return ("next", "previous") if SOFTMAX_WEIGHT in self.tensors else ()

    def to_dict(self) -> dict[str, Any]:
        """The import report as stored in run.json."""
        left_out = {reason: list(names) for reason, names in self.skipped_tensors.items()}
        return {"architecture": "ELMo", "matched": self.num_matched, "heads": list(self.heads), "left_out": left_out}

    def notes(self) -> list[str]:
        """The import report as messages."""
        skipped = [f"left out ({reason}): {join_errors(names, 4)}" for reason, names in self.skipped_tensors.items()]
        return [f"{self.num_matched:,} arrays are those of ELMo, and were read", *self.import_notes, *skipped]


# --- Reading ---


def read_elmo(path: Path) -> ElmoCheckpoint:
    """Read a folder, or a weight file with options.json next to it."""
    files = find_elmo_files(path)
    sizes, notes = read_elmo_options(files.options), list(files.notes)
    words, num_ignored = None, 0
    if files.vocabulary is not None:
        lines = read_word_list(files.vocabulary)
        words = list(dict.fromkeys(filter(None, lines)))
        if num_ignored := len(lines) - len(words):
            notes.append(f"{num_ignored:,} lines of {files.vocabulary} are blank or repeat a word: left out")
    with open_hdf5(files.weights) as arrays:
        sizes, hdf5_arrays = _read_network_arrays(arrays, sizes, files)
    if sizes.reads != CHARACTERS:
        _check_vocabulary(path, sizes, words, num_ignored)
    elif not sizes.has_cnn_projection:
        notes.append("what its filters find is not projected: a projection that changes nothing stands in its place")
    softmax, skip_reason = _read_softmax(files, sizes, words, num_ignored)
    skipped: dict[str, tuple[str, ...]] = {skip_reason: SOFTMAX_ARRAYS} if skip_reason else {}
    if files.softmax is None:
        notes.append("its files hold no softmax: it can be asked for vectors, and not for words")
    fields, tensors = sizes.spec_fields() | {"softmax": "full"}, _to_our_tensors(hdf5_arrays, sizes) | softmax
    return ElmoCheckpoint(fields, tensors, words, len(hdf5_arrays) + len(softmax), skipped, notes)


def _read_network_arrays(
    arrays: HDF5Arrays, sizes: ElmoSizes, files: ElmoFiles
) -> tuple[ElmoSizes, dict[str, np.ndarray]]:
    """All arrays of the network, checked against the options; errors list every mismatch."""
    if sizes.reads != CHARACTERS and "char_embed" in arrays.shapes:
        message = f"it reads the letters of words, and {files.options.name} has no char_cnn to tell how"
        raise InputError(message, file=files.weights, hint=MISMATCH_HINT)
    sizes = sizes.resolve(arrays.shapes)
    expected = sizes.array_shapes()
    softmax_names = SOFTMAX_ARRAYS if any(name in arrays.shapes for name in SOFTMAX_ARRAYS) else ()
    faults = [f"{name} is missing" for name in (*expected, *softmax_names) if name not in arrays.shapes]
    for name, shape in arrays.shapes.items():
        if name in expected:
            faults += shape_mismatches({name: shape}, expected)
        elif name not in softmax_names:
            faults.append(f"{name} is not expected")
    if faults:
        message = f"these are not the weights that {files.options.name} tells of: {join_errors(faults, MAX_ERRORS)}"
        raise InputError(message, file=files.weights, hint=MISMATCH_HINT)
    values = {name: arrays.read(name) for name in expected}
    if not sizes.projects_output:  # any projection must be an identity
        identity = np.eye(sizes.width, dtype=np.float32)
        has_effective_clip = 0 < sizes.project_clip < 1  # unprojected outputs are within 1
        projections = [name for name in values if name.endswith("/W_P_0")]
        if non_identity := [
            name for name in projections if has_effective_clip or not np.array_equal(values[name], identity)
        ]:
            message = "dim equals projection_dim, and there still is a projection between them"
            hint = "give an ELMo with more cells than its projection has numbers"
            raise InputError(f"{message}: {join_errors(non_identity)}", file=files.weights, hint=hint)
    return sizes, values


def _to_our_tensors(arrays: Mapping[str, np.ndarray], sizes: ElmoSizes) -> dict[str, np.ndarray]:
    tensors: dict[str, np.ndarray] = {}
    if sizes.reads == CHARACTERS and not sizes.has_cnn_projection:
        tensors |= {f"{PROJECTION}.weight": np.eye(sizes.width), f"{PROJECTION}.bias": np.zeros(sizes.width)}
    for name, (our_name, shape) in sizes.input_arrays().items():
        array = arrays[name]
        tensors[our_name] = array.reshape(-1, shape[-1]).T if _is_layer(our_name, shape) else array
    for name, source in sizes.lstm_cells():
        weights = reorder_gates(arrays[f"{source}W_0"].T, GATE_ORDER)  # (4 · cells, width of the input + of the state)
        bias = reorder_gates(arrays[f"{source}B"], GATE_ORDER)
        bias[sizes.cells : 2 * sizes.cells] += np.float32(1)
        tensors |= {f"{name}.input.weight": weights[:, : sizes.width], f"{name}.input.bias": bias}
        tensors[f"{name}.state.weight"] = weights[:, sizes.width :]
        if sizes.projects_output:
            tensors[f"{name}.project.weight"] = arrays[f"{source}W_P_0"].T
    return {name: np.ascontiguousarray(value, np.float32) for name, value in tensors.items()}


def _is_layer(our_name: str, shape: Sequence[int]) -> bool:
    """Whether an array is the weight of a layer, [in, out] in the file: neither a bias nor an embedding."""
    return len(shape) > 1 and our_name not in (CHARACTER_EMBEDDING, TOKEN_EMBEDDING)


def _check_vocabulary(path: Path, sizes: ElmoSizes, words: Sequence[str] | None, num_ignored: int) -> None:
    """Check that a word-level model comes with its complete vocabulary."""
    hint = f"put the vocabulary there that it was trained with, as {VOCABULARY_FILE}"
    if words is None or num_ignored or len(words) != sizes.vocab_size:
        message = f"it reads words, {sizes.vocab_size:,} of them, and there is no vocabulary of so many"
        raise InputError(message, file=path, hint=hint)
    if missing := [mark for mark in ELMO_MARKERS.values() if mark not in words]:
        raise InputError(f"the vocabulary has no {' and no '.join(missing)}", file=path, hint=hint)


def _read_softmax(
    files: ElmoFiles, sizes: ElmoSizes, words: Sequence[str] | None, num_ignored: int
) -> tuple[dict[str, np.ndarray], str]:
    """The softmax tensors, or the reason why they are skipped; neither if there is no softmax."""
    if files.softmax is None:
        return {}, ""
    with open_hdf5(files.softmax) as arrays:
        num_rows = (arrays.shapes[SOFTMAX_ARRAYS[1]] or (0,))[0]
        expected = zip(SOFTMAX_ARRAYS, ((num_rows, sizes.width), (num_rows,)), strict=True)
        mismatched_names = [name for name, shape in expected if arrays.shapes[name] != shape]
        if faults := [f"{name} is {format_shape(arrays.shapes[name])}" for name in mismatched_names]:
            message = f"no softmax over words for vectors of {sizes.width} numbers: {join_errors(faults)}"
            raise InputError(message, file=files.softmax, hint=CORRUPT_FILE_HINT)
        if words is None:
            return {}, "there is no vocabulary to name its words"
        if missing := [mark for mark in ELMO_MARKERS.values() if mark not in words]:
            return {}, f"the vocabulary has no {' and no '.join(missing)}"
        if num_ignored or len(words) != num_rows:
            return {}, f"it has {num_rows:,} rows, and the vocabulary {len(words):,} words"
        return {SOFTMAX_WEIGHT: arrays.read(SOFTMAX_ARRAYS[0]), SOFTMAX_BIAS: arrays.read(SOFTMAX_ARRAYS[1])}, ""


# --- Writing ---


def write_elmo(
    folder: Path, fields: Mapping[str, Any], tensors: Mapping[str, np.ndarray], words: Sequence[str] | None
) -> list[str]:
    """Write options, weights and the vocabulary into the folder; returns notes on compatibility."""
    sizes = sizes_from_fields(fields)
    folder.mkdir(parents=True, exist_ok=True)
    write_hdf5(folder / WEIGHTS_FILE, _to_hdf5_arrays(tensors, sizes))
    options = to_elmo_options(sizes, None if words is None else len(words))
    (folder / OPTIONS_FILE).write_text(json.dumps(options, indent=2) + "\n", encoding="utf-8")
    if words is not None:
        (folder / VOCABULARY_FILE).write_text("".join(f"{word}\n" for word in words), encoding="utf-8", newline="\n")
    # Cases that bilm-tf or AllenNLP are known to read differently.
    notes = []
    if sizes.reads != CHARACTERS:
        reader_note = "bilm-tf opens it (use_character_inputs=False), AllenNLP does not"
        notes.append(f"it reads words and no characters: {reader_note}")
    elif sizes.num_filters <= sizes.width:
        requirement = "bilm-tf wants filters to find more numbers in a word than the width has"
        notes.append(f"{requirement} ({sizes.num_filters} and {sizes.width}); AllenNLP reads it as it is")
    if sizes.cells < sizes.width:
        requirement = "bilm-tf projects only where there are more cells than the width"
        notes.append(f"{requirement} ({sizes.cells} and {sizes.width}); AllenNLP reads it as it is")
    if sizes.reads == CHARACTERS and sizes.longest != ALLENNLP_MAX_CHARACTERS:
        notes.append(f"it reads {sizes.longest} characters of a word, and AllenNLP always {ALLENNLP_MAX_CHARACTERS}")
    return notes


def _to_hdf5_arrays(tensors: Mapping[str, np.ndarray], sizes: ElmoSizes) -> dict[str, np.ndarray]:
    arrays: dict[str, np.ndarray] = {}
    for name, (our_name, shape) in sizes.input_arrays().items():
        tensor = tensors[our_name]
        arrays[name] = tensor.T.reshape(shape) if _is_layer(our_name, shape) else tensor
    for name, target in sizes.lstm_cells():
        bias = tensors[f"{name}.input.bias"].copy()
        bias[sizes.cells : 2 * sizes.cells] -= np.float32(1)
        weights = np.concatenate([tensors[f"{name}.input.weight"], tensors[f"{name}.state.weight"]], axis=1)
        projection = tensors[f"{name}.project.weight"].T if sizes.projects_output else np.eye(sizes.width)
        arrays |= {f"{target}W_0": reorder_gates(weights, GATE_ORDER).T, f"{target}B": reorder_gates(bias, GATE_ORDER)}
        arrays[f"{target}W_P_0"] = projection
    if SOFTMAX_WEIGHT in tensors:
        arrays |= {SOFTMAX_ARRAYS[0]: tensors[SOFTMAX_WEIGHT], SOFTMAX_ARRAYS[1]: tensors[SOFTMAX_BIAS]}
    return arrays


# --- Creating runs from ELMo or a NumPy LSTM, and exporting ELMo runs ---

TOKENIZER_FILE = "tokenizer.json"
SPACES_NOTE = "words are what stands between spaces: write text for it as it was cut for its training"


def is_elmo_or_lstm_npz(path: Path) -> bool:
    """Whether a path holds a published ELMo or an LSTM in a NumPy archive."""
    return is_elmo(path) or lstm_npz.is_rnnlm(path)


def import_elmo_or_lstm_npz(path: Path, target: Path) -> RunFolder:
    """Create a run from a published ELMo or an LSTM in a NumPy archive."""
    import torch

    if is_elmo(path):
        name, checkpoint = "elmo", read_elmo(path)
        tokenizer, notes = _elmo_tokenizer(path, checkpoint)
        fields: dict[str, Any] = checkpoint.fields | {"borders": 2}
        arrays = drop_extra_rows(checkpoint.tensors, tokenizer.vocab_size)
        heads, report = list(checkpoint.heads), {"report": checkpoint.to_dict()}
    else:
        name, checkpoint, heads, report = "lstm", lstm_npz.read_rnnlm(path), ["next"], {}
        tokenizer = whitespace_tokenizer(checkpoint.words, lstm_npz.RNNLM_MARKERS, path)
        fields, arrays, notes = checkpoint.fields, checkpoint.tensors, [*checkpoint.notes, SPACES_NOTE]
    spec = model_spec(name)(**fields)
    tensors = {tensor_name: torch.from_numpy(array) for tensor_name, array in arrays.items()}
    network = spec.build(tokenizer).with_heads(heads).load(tensors, file=str(path))
    metadata = {"imported": str(path), "heads": heads, **report, "notes": notes}
    return create_run(target, spec, name, tokenizer, network.tensors, metadata)


def _elmo_tokenizer(path: Path, checkpoint: ElmoCheckpoint) -> tuple[Tokenizer, list[str]]:
    """The tokenizer.json next to the weights, or a whitespace tokenizer; also the notes of the import."""
    file, notes = (path if path.is_dir() else path.parent) / TOKENIZER_FILE, checkpoint.notes()
    if not file.is_file():
        notes.append(SPACES_NOTE)
        if checkpoint.fields["reads"] == CHARACTERS:
            notes.append("words that its vocabulary lacks are read by how they are written")
        return whitespace_tokenizer(checkpoint.words or [], ELMO_MARKERS, path), notes
    tokenizer = Tokenizer.load(file)
    if checkpoint.words not in (None, vocabulary_lines(tokenizer.vocabulary(), tokenizer.special_roles)):
        hint = "take one of the two away, whichever is not the model's"
        raise InputError("the vocabulary beside it has other words than this tokenizer", file=file, hint=hint)
    return tokenizer, [*notes, f"text is cut by the {TOKENIZER_FILE} beside it"]


def export_elmo(run: ExportableRun, target: Path) -> list[str]:
    """Write an ELMo run as a folder that bilm-tf and AllenNLP read; returns notes."""
    tokenizer, fields = run.tokenizer, run.metadata["fields"]
    notes: list[str] = []
    if tokenizer.segmenter is not None:
        notes.append("its words are cut by a segmenter, which others lack: give them text that is cut, words by spaces")
    arrays = {name: value.numpy() for name, value in run.network.tensors().items()}
    heads = [name for name in arrays if name.startswith("heads.")]
    if not all(name in (SOFTMAX_WEIGHT, SOFTMAX_BIAS) for name in heads):
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
