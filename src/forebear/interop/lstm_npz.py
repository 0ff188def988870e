"""A trained LSTM language model in one NumPy archive (rnnlm.npz) with its words beside it (vocab.txt), read only.

An embedding, one LSTM and a softmax of its own, float16 or wider; gates in the order f, g, i, o, weights [in, out].
"""

from __future__ import annotations

import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from forebear.errors import InputError, join_faults

NAME, VOCABULARY = "rnnlm.npz", "vocab.txt"
RNNLM_MARKERS = {"unknown": "<unk>", "end": "<eos>"}  # by our roles
GATES = (2, 0, 1, 3)  # f g i o as i f g o
RANKS = {"embed_W": 2, "lstm_Wx": 2, "lstm_Wh": 2, "lstm_b": 1, "affine_W": 2, "affine_b": 1}
MOST = 1 << 33  # bytes of one array
AGAIN = "it was cut short or damaged: fetch or write it again"


@dataclass(frozen=True, eq=False)
class RnnlmCheckpoint:
    """What such files hold, in our words: a milestone's fields, tensors by our names, words in order of their ids."""

    fields: dict[str, Any]
    tensors: dict[str, np.ndarray]
    words: list[str]
    notes: list[str] = field(default_factory=list)


def is_rnnlm(path: Path) -> bool:
    """Whether this is such a folder, or its archive."""
    return (path / NAME).is_file() if path.is_dir() else path.is_file() and path.suffix == ".npz"


def read_rnnlm(path: Path) -> RnnlmCheckpoint:
    """The model of a folder, or of an archive that has its vocabulary beside it; all that is wrong is named."""
    file = path / NAME if path.is_dir() else path
    words = _words(file.with_name(VOCABULARY))
    arrays = _arrays(file)
    width, inner = arrays["embed_W"].shape[1], arrays["lstm_Wh"].shape[0]
    wanted = {
        "embed_W": (len(words), width),
        "lstm_Wx": (width, 4 * inner),
        "lstm_Wh": (inner, 4 * inner),
        "lstm_b": (4 * inner,),
        "affine_W": (inner, len(words)),
        "affine_b": (len(words),),
    }
    odd = {name: shape for name, shape in wanted.items() if arrays[name].shape != shape}
    if odd:
        faults = [f"{name} is {_sized(arrays[name].shape)} instead of {_sized(shape)}" for name, shape in odd.items()]
        what = f"its arrays do not fit together and to the {len(words):,} words of {VOCABULARY}: {join_faults(faults)}"
        raise InputError(what, file=file, hint=f"take both from the same place; {AGAIN}")
    tensors = {
        "encoder.embedding.token.weight": arrays["embed_W"],
        "encoder.layers.0.input.weight": _gates(arrays["lstm_Wx"].T),
        "encoder.layers.0.input.bias": _gates(arrays["lstm_b"]),
        "encoder.layers.0.state.weight": _gates(arrays["lstm_Wh"].T),
        "heads.next.softmax.scores.weight": arrays["affine_W"].T,
        "heads.next.softmax.scores.bias": arrays["affine_b"],
    }
    kinds = sorted({str(array.dtype) for array in arrays.values()})
    notes = [f"{len(arrays)} arrays were read ({', '.join(kinds)}) and are float32 from now on"]
    fields = {"width": width, "inner": inner, "depth": 1, "tied": False, "softmax": "full"}
    return RnnlmCheckpoint(fields, {name: _plain(file, name, value) for name, value in tensors.items()}, words, notes)


def _gates(rows: np.ndarray) -> np.ndarray:
    """The four blocks of rows in our order."""
    blocks = np.split(rows, 4)
    return np.concatenate([blocks[number] for number in GATES])


def _plain(file: Path, name: str, value: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):  # what is too large is refused below
        numbers = np.ascontiguousarray(value, np.float32)
    if not np.isfinite(numbers).all():
        raise InputError(f"what becomes {name} has entries that are no numbers", file=file, hint=AGAIN)
    return numbers


def _sized(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "a single number"


def _arrays(file: Path) -> dict[str, np.ndarray]:
    """Its arrays by their names, each of the rank that it should have; missing and further ones are named."""
    found: dict[str, np.ndarray] = {}
    try:
        with zipfile.ZipFile(file) as archive:
            if large := [one.filename for one in archive.infolist() if one.file_size > MOST]:
                raise InputError(f"these are too large to be true: {join_faults(large)}", file=file, hint=AGAIN)
        with np.load(file, allow_pickle=False) as archive:
            names = list(archive.files)
            found = {name: archive[name] for name in names if name in RANKS}
    except InputError:
        raise
    except (zipfile.BadZipFile, OSError, ValueError, EOFError, KeyError, NotImplementedError, MemoryError) as error:
        raise InputError(f"this is not a whole archive of arrays ({error})", file=file, hint=AGAIN) from None
    faults = [f"{name} is missing" for name in RANKS if name not in names]
    faults += [f"{name} is not expected" for name in names if name not in RANKS]
    faults += [
        f"{name} is {_sized(array.shape)} of {array.dtype}"
        for name, array in found.items()
        if array.ndim != RANKS[name] or array.dtype.kind != "f" or not array.size
    ]
    if faults:
        hint = f"give an archive with {', '.join(RANKS)}, floating point numbers all"
        raise InputError(f"no LSTM language model as it is known here: {join_faults(faults, 40)}", file=file, hint=hint)
    return found


def _words(file: Path) -> list[str]:
    """A word a line, in the order of their ids."""
    if not file.is_file():
        marks = " and ".join(RNNLM_MARKERS.values())
        hint = f"put the words there, one a line in the order of their ids, {marks} among them"
        raise InputError(f"there is no {VOCABULARY} beside it", file=file, hint=hint)
    try:
        lines = file.read_bytes().decode("utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise InputError("the vocabulary is not UTF-8", file=file, byte=error.start, hint="write it as UTF-8") from None
    if not lines[-1]:
        lines.pop()
    words: dict[str, int] = {}
    for number, line in enumerate(lines, start=1):
        word = line.strip()
        if not word or word in words:
            what = f"{word!r} stands here again, first in line {words[word]}" if word else "this line is blank"
            raise InputError(what, file=file, line=number, hint="each line is one word's, and its number the word's id")
        words[word] = number
    if lacking := [mark for mark in RNNLM_MARKERS.values() if mark not in words]:
        hint = "it needs one word for all unknown ones and one for the end of a sentence"
        raise InputError(f"it has no {' and no '.join(lacking)}", file=file, hint=hint)
    return list(words)
