"""Character-level tokenizer, code points of a text, and which of them are Chinese characters."""

from __future__ import annotations

import re
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
from forebear.errors import InputError

# Chinese characters: all CJK ideograph blocks, 々 and 〇; no kana or Hangul.
HAN_BLOCKS = (
    (0x3005, 0x3005),
    (0x3007, 0x3007),
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x3FFFF),
)
# Those that BERT separates.
BERT_HAN_BLOCKS = (
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B81F),
    (0x2B920, 0x2CEAF),  # BERT's paper code says 2B820; its fast twin, from which vocabularies now come, 2B920
    (0x2F800, 0x2FA1F),
)
BERT_HAN_CLASS = "".join(
    f"{chr(first)}-{chr(last)}" for first, last in BERT_HAN_BLOCKS
)  # for use inside a regular expression's [ ]
CHAR_MIN_COUNT = 1
BATCH_CHARACTERS = 1 << 20  # characters counted at a time
SURROGATE = re.compile("[\ud800-\udfff]")


def replace_surrogates(text: str) -> str:
    """Replace each lone surrogate, which no file can hold, by U+FFFD; the length stays."""
    try:
        text.encode()  # much faster than a regular expression that finds none
    except UnicodeEncodeError:
        return SURROGATE.sub("\ufffd", text)
    return text


def code_points(text: str) -> np.ndarray:
    """The code points of a text, with U+FFFD for lone surrogates."""
    try:
        data = text.encode("utf-32-le")
    except UnicodeEncodeError:
        data = replace_surrogates(text).encode("utf-32-le")
    return np.frombuffer(data, np.uint32)


def is_han(codes: np.ndarray) -> np.ndarray:
    """True where a code point is a Chinese character."""
    edges = np.array([edge for first, last in HAN_BLOCKS for edge in (first, last + 1)], np.uint32)
    return np.searchsorted(edges, codes, side="right") % 2 == 1


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
