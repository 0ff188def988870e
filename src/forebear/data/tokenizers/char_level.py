"""Character-level tokenizer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from forebear.data.tokenizers.tokenizer_json import (
    TokenizerSpec,
    build_tokenizer_spec,
    make_normalizer,
    preprocessing_steps,
)
from forebear.data.unicode import code_points, replace_surrogates
from forebear.errors import InputError

CHAR_MIN_COUNT = 1
BATCH_CHARACTERS = 1 << 20  # characters counted at a time


def count_characters(texts: Iterable[str], steps: Sequence[str]) -> Counter[str]:
    """Count characters after normalization."""
    normalize, _ = preprocessing_steps(make_normalizer(steps), None)
    totals = np.zeros(0x110000, np.int64)
    batch: list[str] = []
    length = 0

    def flush() -> None:
        counts = np.bincount(code_points("".join(normalize(replace_surrogates(text)) for text in batch)))
        totals[: len(counts)] += counts
        batch.clear()

    for text in texts:
        batch.append(text)
        length += len(text)
        if length >= BATCH_CHARACTERS:
            flush()
            length = 0
    flush()
    return Counter({chr(code): int(totals[code]) for code in np.flatnonzero(totals)})


def char_spec(
    tokens: Sequence[str],
    *,
    specials: Mapping[str, str],
    normalise: Sequence[str],
    facts: Mapping[str, Any],
) -> TokenizerSpec:
    """The specification of a character tokenizer with these tokens in id order: BPE without merges."""
    if "unknown" not in specials:
        raise InputError("characters need a token for unknown ones", hint="give `specials` the role 'unknown'")
    model = {
        "type": "BPE",
        "dropout": None,
        "unk_token": specials["unknown"],
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": False,
        "vocab": {token: i for i, token in enumerate(tokens)},
        "merges": [],
    }
    return build_tokenizer_spec(
        model,
        kind="characters",
        specials=specials,
        normalizer=make_normalizer(normalise),
        pre_tokenizer=None,
        decoder={"type": "Fuse"},
        facts={"normalise": list(normalise), **facts},
    )


class CharacterTable:
    """Encodes characters by table look-up, many times faster than the Rust model."""

    def __init__(self, tokens: Sequence[str], special: Iterable[int], unknown: int) -> None:
        hidden = set(special)
        self._ids = np.full(0x110000, unknown, np.int32)
        for i, token in enumerate(tokens):
            if len(token) == 1 and i not in hidden:
                self._ids[ord(token)] = i

    def encode_many(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """All ids in one array, and the number of tokens of each text."""
        return self._ids[code_points("".join(texts))], np.fromiter(map(len, texts), np.int32, len(texts))
