"""Character-level tokenization: character counts, the specification of a tokenizer, and encoding by a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Unpack

import numpy as np

from forebear.data.tokenizers.build_vocabulary import text_blocks
from forebear.data.tokenizers.tokenizer_json import (
    SpecSettings,
    TokenizerSpec,
    bpe_model,
    build_tokenizer_spec,
    make_normalizer,
    preprocessing_steps,
)
from forebear.data.unicode import code_points, replace_surrogates


def count_characters(texts: Iterable[str], steps: Sequence[str]) -> Counter[str]:
    """Count characters after normalization."""
    normalize, _ = preprocessing_steps(make_normalizer(steps), None)
    totals = np.zeros(0x110000, np.int64)
    for block in text_blocks(texts):
        counts = np.bincount(code_points("".join(normalize(replace_surrogates(text)) for text in block)))
        totals[: len(counts)] += counts
    return Counter({chr(code): int(totals[code]) for code in np.flatnonzero(totals)})


def char_spec(tokens: Sequence[str], **settings: Unpack[SpecSettings]) -> TokenizerSpec:
    """The specification of a character tokenizer with these tokens in id order: BPE without merges."""
    vocabulary, unk_token = {token: i for i, token in enumerate(tokens)}, settings["specials"].get("unknown")
    model = bpe_model(vocabulary, (), unk_token=unk_token, no_affix=None)
    return build_tokenizer_spec(model, kind="characters", pre_tokenizer=None, decoder={"type": "Fuse"}, **settings)


class CharacterTable:
    """Encodes characters by table look-up, many times faster than the Rust model."""

    def __init__(self, tokens: Sequence[str], special_ids: Iterable[int], unk_id: int) -> None:
        special_ids = set(special_ids)
        self._ids = np.full(0x110000, unk_id, np.int32)
        for i, token in enumerate(tokens):
            if len(token) == 1 and i not in special_ids:
                self._ids[ord(token)] = i

    def encode_many(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """All ids in one array, and the number of tokens of each text."""
        return self._ids[code_points("".join(texts))], np.fromiter(map(len, texts), np.int32, len(texts))
