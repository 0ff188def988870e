"""Import of an LSTM language model from a NumPy archive (rnnlm.npz) with its vocabulary (vocab.txt).

An embedding, one LSTM layer and an untied softmax, float16 or wider; gates in the order f, g, i, o, weights [in, out].
"""

from __future__ import annotations

import zipfile
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from forebear.data.io.compression import CORRUPT_FILE_HINT
from forebear.errors import InputError, join_errors
from forebear.interop.foreign_files import finite_float32, format_shape, read_word_list, reorder_gates, shape_mismatches

ARCHIVE_FILE, VOCABULARY_FILE = "rnnlm.npz", "vocab.txt"
RNNLM_MARKERS = {"unknown": "<unk>", "end": "<eos>"}  # by our roles
GATE_ORDER = (2, 0, 1, 3)  # f, g, i, o → i, f, g, o
ARRAY_RANKS = {"embed_W": 2, "lstm_Wx": 2, "lstm_Wh": 2, "lstm_b": 1, "affine_W": 2, "affine_b": 1}
MAX_ARRAY_BYTES = 1 << 33


@dataclass(frozen=True, eq=False)
class RnnlmCheckpoint:
    """Model fields, tensors by our names, and words in the order of their ids."""

    fields: dict[str, Any]
    tensors: dict[str, np.ndarray]
    words: list[str]
    notes: list[str] = field(default_factory=list)


def is_rnnlm(path: Path) -> bool:
    """Whether a path is a folder with rnnlm.npz, or an .npz archive."""
    return (path / ARCHIVE_FILE).is_file() if path.is_dir() else path.is_file() and path.suffix == ".npz"


def read_rnnlm(path: Path) -> RnnlmCheckpoint:
    """Read a folder, or an archive with vocab.txt next to it; errors name all mismatched arrays."""
    file = path / ARCHIVE_FILE if path.is_dir() else path
    words = _read_vocab(file.with_name(VOCABULARY_FILE))
    arrays = _read_arrays(file)
    embedding_size, hidden_size = arrays["embed_W"].shape[1], arrays["lstm_Wh"].shape[0]
    expected = {
        "embed_W": (len(words), embedding_size),
        "lstm_Wx": (embedding_size, 4 * hidden_size),
        "lstm_Wh": (hidden_size, 4 * hidden_size),
        "lstm_b": (4 * hidden_size,),
        "affine_W": (hidden_size, len(words)),
        "affine_b": (len(words),),
    }
    if faults := shape_mismatches({name: arrays[name].shape for name in expected}, expected):
        message = f"its arrays do not fit together and to the {len(words):,} words of {VOCABULARY_FILE}"
        hint = f"take both from the same place; {CORRUPT_FILE_HINT}"
        raise InputError(f"{message}: {join_errors(faults)}", file=file, hint=hint)
    tensors = {
        "encoder.embedding.token.weight": arrays["embed_W"],
        "encoder.layers.0.input.weight": reorder_gates(arrays["lstm_Wx"].T, GATE_ORDER),
        "encoder.layers.0.input.bias": reorder_gates(arrays["lstm_b"], GATE_ORDER),
        "encoder.layers.0.state.weight": reorder_gates(arrays["lstm_Wh"].T, GATE_ORDER),
        "heads.next.softmax.scores.weight": arrays["affine_W"].T,
        "heads.next.softmax.scores.bias": arrays["affine_b"],
    }
    dtypes = sorted({str(array.dtype) for array in arrays.values()})
    notes = [f"{len(arrays)} arrays were read ({', '.join(dtypes)}) and are float32 from now on"]
    fields = {"width": embedding_size, "inner": hidden_size, "depth": 1, "tied": False, "softmax": "full"}
    tensors = {name: finite_float32(value, f"what becomes {name}", file) for name, value in tensors.items()}
    return RnnlmCheckpoint(fields, tensors, words, notes)


def _read_arrays(file: Path) -> dict[str, np.ndarray]:
    """The arrays by name, each of the expected rank; errors name missing and unexpected ones."""
    arrays: dict[str, np.ndarray] = {}
    corrupt_error = partial(InputError, file=file, hint=CORRUPT_FILE_HINT)
    try:
        with zipfile.ZipFile(file) as archive:
            if too_large := [member.filename for member in archive.infolist() if member.file_size > MAX_ARRAY_BYTES]:
                raise corrupt_error(f"these are too large to be true: {join_errors(too_large)}")
        with np.load(file, allow_pickle=False) as archive:
            names = list(archive.files)
            arrays = {name: archive[name] for name in names if name in ARRAY_RANKS}
    except (zipfile.BadZipFile, OSError, ValueError, EOFError, KeyError, NotImplementedError, MemoryError) as error:
        raise corrupt_error(f"this is not a whole archive of arrays ({error})") from None
    faults = [f"{name} is missing" for name in ARRAY_RANKS if name not in names]
    faults += [f"{name} is not expected" for name in names if name not in ARRAY_RANKS]
    faults += [
        f"{name} is {format_shape(array.shape)} of {array.dtype}"
        for name, array in arrays.items()
        if array.ndim != ARRAY_RANKS[name] or array.dtype.kind != "f" or not array.size
    ]
    if faults:
        hint = f"give an archive with {', '.join(ARRAY_RANKS)}, floating point numbers all"
        raise InputError(f"no LSTM language model as it is known here: {join_errors(faults, 40)}", file=file, hint=hint)
    return arrays


def _read_vocab(file: Path) -> list[str]:
    """One word per line, in the order of their ids."""
    if not file.is_file():
        marker_list = " and ".join(RNNLM_MARKERS.values())
        hint = f"put the words there, one a line in the order of their ids, {marker_list} among them"
        raise InputError(f"there is no {VOCABULARY_FILE} beside it", file=file, hint=hint)
    words: dict[str, int] = {}
    for line_number, word in enumerate(read_word_list(file), start=1):
        if not word or word in words:
            message = f"{word!r} stands here again, first in line {words[word]}" if word else "this line is blank"
            hint = "each line is one word's, and its number the word's id"
            raise InputError(message, file=file, line=line_number, hint=hint)
        words[word] = line_number
    if missing := [marker for marker in RNNLM_MARKERS.values() if marker not in words]:
        hint = "it needs one word for all unknown ones and one for the end of a sentence"
        raise InputError(f"it has no {' and no '.join(missing)}", file=file, hint=hint)
    return list(words)
