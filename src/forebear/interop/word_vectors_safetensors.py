"""Word vectors in one safetensors file, mapped and not read: the table, the words as bytes, and where each ends.

Tensors: vectors (N, D) F32; words U8, UTF-8 without anything between; ends (N,) I64; counts (N,) I64, where known.
A file without words takes them from NAME.vocab.txt or vocab.txt beside it, a word a line.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import IO, Any

import numpy as np

from forebear.errors import InputError
from forebear.interop.word_vectors_files import CORRUPT_FILE_HINT, ProgressFn
from forebear.interop.word_vectors_text import EMPTY_FILE_HINT, WordDecoder, WordVectorFile, zero_vector_notes

KINDS = {"F32": "<f4", "F16": "<f2", "F64": "<f8", "U8": "|u1", "I64": "<i8"}
LONGEST = 100_000_000  # bytes of a header, as the format allows
ROWS = 4096  # looked at or written at once


def header_of(path: Path) -> dict[str, Any] | None:
    """What a safetensors file says of its tensors; None where it is no such file."""
    try:
        with open(path, "rb") as file:
            size = int.from_bytes(file.read(8), "little")
            if not 2 <= size <= min(LONGEST, os.fstat(file.fileno()).st_size - 8) or file.read(1) != b"{":
                return None
            told = json.loads(b"{" + file.read(size - 1))
    except (ValueError, RecursionError, OSError):
        return None
    return {"": 8 + size, **told} if isinstance(told, dict) and "" not in told else None


def is_safetensors_vectors(path: Path) -> bool:
    """Whether it is such a file with a table of words."""
    told = header_of(path)
    return told is not None and _table(told) is not None and ("words" in told or _beside(path) is not None)


def _table(told: dict[str, Any]) -> str | None:
    """The name of the tensor that holds the vectors: `vectors`, or the only one with rows and columns."""
    tables = [name for name, one in told.items() if isinstance(one, dict) and _rank(one) == 2]
    return "vectors" if "vectors" in tables else tables[0] if len(tables) == 1 else None


def _rank(one: dict[str, Any]) -> int:
    shape = one.get("shape")
    return len(shape) if isinstance(shape, list) and one.get("dtype") in ("F32", "F16", "F64") else -1


def _beside(path: Path) -> Path | None:
    names = (path.name.removesuffix(".safetensors") + ".vocab.txt", "vocab.txt")
    return next((file for file in map(path.with_name, names) if file.is_file()), None)


# -- reading


def read_safetensors_vectors(
    path: Path, *, limit: int | None = None, on_bad_bytes: str = "fail", progress: ProgressFn | None = None
) -> WordVectorFile:
    """The words, and the vectors where they lie: nothing of them is read but to see that they are numbers."""
    told, size = header_of(path), path.stat().st_size
    name = None if told is None else _table(told)
    if told is None or name is None:
        hint = "give a file with a tensor of rows and columns, named vectors"
        raise InputError("no safetensors file with a table of vectors in it", file=path, hint=hint)
    matrix, decoding = _tensor(path, told, name, 2), WordDecoder(path, "word", on_bad_bytes)
    raw, counts = _raw(path, told), _tensor(path, told, "counts", 1) if "counts" in told else None
    if len(raw) != len(matrix):
        what = f"there are {len(matrix):,} vectors and {len(raw):,} words"
        raise InputError(what, file=path, hint="the two do not belong together: write them again")
    if counts is not None and (len(counts) != len(raw) or counts.dtype != np.int64 or counts.min(initial=0) < 0):
        raise InputError("counts does not say how often each word was seen", file=path, hint=CORRUPT_FILE_HINT)
    words, keep = decoding.words(raw, range(1, len(raw) + 1))
    words, keep = words[:limit], slice(0, limit) if keep is None else keep[:limit]
    matrix, notes = matrix[keep], decoding.notes()
    if not matrix.size:
        raise InputError("it holds no vectors", file=path, hint=EMPTY_FILE_HINT)
    if matrix.dtype != np.float32:
        notes.append(f"its numbers are {told[name]['dtype']}: read into memory as float32")
        with np.errstate(over="ignore"):  # what is too large is refused below
            matrix = np.asarray(matrix, np.float32)
    for begin in range(0, len(words), ROWS):
        places = range(begin + 1, len(words) + 1)
        decoding.reject_empty(matrix[begin : begin + ROWS], lambda row, begin=begin: repr(words[begin + row]), places)
        if progress is not None:
            progress(min(begin + ROWS, len(words)) * size // len(words), size)
    notes += zero_vector_notes(words, matrix)
    return WordVectorFile(words, matrix, None if counts is None else np.array(counts[keep]), "safetensors", notes)


def _tensor(path: Path, told: dict[str, Any], name: str, rank: int) -> np.ndarray:
    """A tensor where it lies, if it lies in the file."""
    one, room = told.get(name), path.stat().st_size - told[""]
    try:
        kind, shape, (begin, end) = np.dtype(KINDS[one["dtype"]]), tuple(one["shape"]), one["data_offsets"]  # pyright: ignore
        sound = len(shape) == rank and all(isinstance(size, int) and size >= 0 for size in (*shape, begin, end))
        size = kind.itemsize * math.prod(shape)
    except (KeyError, TypeError, ValueError):
        sound, kind, shape, begin, end, size = False, np.dtype(np.uint8), (), 0, 0, 0
    if not sound or end - begin != size or end > room:
        what = f"the tensor {name} is not as its header says, or is of a kind that cannot be read here"
        raise InputError(what, file=path, hint=CORRUPT_FILE_HINT)
    if not size:
        return np.zeros(shape, kind)
    return np.memmap(path, kind, "r", told[""] + begin, shape)


def _raw(path: Path, told: dict[str, Any]) -> list[bytes]:
    """The words as bytes."""
    if "words" in told:
        text, ends = _tensor(path, told, "words", 1).tobytes(), _tensor(path, told, "ends", 1)
        steps = np.diff(ends, prepend=0)
        if ends.dtype != np.int64 or steps.min(initial=0) < 0 or len(text) != steps.sum():
            raise InputError("ends does not say where its words end", file=path, hint=CORRUPT_FILE_HINT)
        return [text[begin:end] for begin, end in pairwise([0, *ends.tolist()])]
    beside = _beside(path)
    if beside is None:
        hint = f"put {path.stem}.vocab.txt beside it, a word a line"
        raise InputError("it holds vectors, and no words", file=path, hint=hint)
    return beside.read_bytes().replace(b"\r\n", b"\n").removesuffix(b"\n").split(b"\n")


# -- writing


def write_safetensors_vectors(
    file: IO[bytes], words: Sequence[str], matrix: np.ndarray, counts: np.ndarray | None
) -> None:
    """Any words, as they are."""
    raw = [word.encode() for word in words]
    parts = {"ends": np.cumsum([len(word) for word in raw], dtype="<i8")}
    if counts is not None:
        parts["counts"] = np.asarray(counts, "<i8")
    sizes = {name: part.nbytes for name, part in parts.items()}
    sizes |= {
        "vectors": 4 * math.prod(matrix.shape),
        "words": sum(map(len, raw)),
    }  # the widest first: all lie as they should
    kinds = {"vectors": ("F32", list(matrix.shape)), "words": ("U8", [sizes["words"]])}
    told: dict[str, Any] = {"__metadata__": {"words": "UTF-8, one after the other; ends says where each ends"}}
    begin = 0
    for name, size in sizes.items():
        kind, shape = kinds.get(name, ("I64", [len(raw)]))
        told[name] = {"dtype": kind, "shape": shape, "data_offsets": [begin, begin + size]}
        begin += size
    header = json.dumps(told).encode()
    header += b" " * (-len(header) % 8)
    file.write(len(header).to_bytes(8, "little") + header)
    for part in parts.values():
        file.write(part.tobytes())
    for begin in range(0, len(raw), ROWS):
        file.write(np.ascontiguousarray(matrix[begin : begin + ROWS], "<f4").tobytes())
    file.write(b"".join(raw))
