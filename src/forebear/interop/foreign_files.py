"""Helpers for imports: JSON objects, word lists and their tokenizer, and checks and reordering of weight arrays."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from forebear.data.io.compression import CORRUPT_FILE_HINT
from forebear.data.tokenizers import word_level
from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.errors import InputError


def read_json_object(file: Path, hint: str) -> dict[str, Any]:
    """The object in a JSON file."""
    try:
        content = json.loads(file.read_bytes())
    except (ValueError, RecursionError) as error:
        raise InputError(f"this is not JSON: {error}", file=file, hint=hint) from None
    if not isinstance(content, dict):
        raise InputError("this is not an object", file=file, hint=hint)
    return content


def read_word_list(file: Path) -> list[str]:
    """The words of a vocabulary file, one per line."""
    try:
        lines = file.read_bytes().decode("utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise InputError("the vocabulary is not UTF-8", file=file, byte=error.start, hint="write it as UTF-8") from None
    return [line.strip() for line in (lines if lines[-1] else lines[:-1])]


def whitespace_tokenizer(words: Sequence[str], special_tokens: dict[str, str], path: Path) -> Tokenizer:
    """A whitespace tokenizer with these words, followed by the special tokens (by role) that they lack."""
    known = set(words)
    tokens = [*words, *(token for token in special_tokens.values() if token not in known)]
    spec = word_level.word_tokenizer_spec(
        tokens, specials=special_tokens, split="spaces", metadata={"source": path.name}
    )
    return Tokenizer(spec, file=path)


def finite_float32(values: np.ndarray, name: str, file: Path) -> np.ndarray:
    """The values as contiguous float32; NaN and infinity, also by overflow, raise InputError."""
    with np.errstate(over="ignore"):
        array = np.ascontiguousarray(values, np.float32)
    if not np.isfinite(array).all():
        raise InputError(f"{name} has entries that are no numbers", file=file, hint=CORRUPT_FILE_HINT)
    return array


def reorder_gates(weights: np.ndarray, order: Sequence[int]) -> np.ndarray:
    """The weights or biases of the four gates of an LSTM (4 · D, …) in another order."""
    gates = np.split(weights, 4)
    return np.concatenate([gates[gate] for gate in order])


def format_shape(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape)) or "a single number"


def shape_mismatches(shapes: Mapping[str, Sequence[int]], expected: Mapping[str, Sequence[int]]) -> list[str]:
    """A message for each array that does not have the expected shape."""
    return [
        f"{name} is {format_shape(shape)} instead of {format_shape(expected[name])}"
        for name, shape in shapes.items()
        if shape != expected[name]
    ]
