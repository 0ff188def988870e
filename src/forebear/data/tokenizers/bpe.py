"""Byte-level BPE, as in GPT-2: bytes merged to frequent subwords, so that no text is unknown."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from forebear.data.segmentation import Segmenter
from forebear.data.tokenizers.tokenizer_json import (
    SpecSettings,
    TokenizerSpec,
    bpe_model,
    build_tokenizer_spec,
    make_normalizer,
)
from forebear.data.tokenizers.word_level import segment_boundaries, split_at
from forebear.data.unicode import replace_surrogates

if TYPE_CHECKING:
    from forebear.data.tokenizers.tokenizer import Tokenizer


# The longest run of letters that the trainer gets as one word; longer ones are split.
MAX_RUN_LENGTH = 32
_LONG_RUN = re.compile(rf"[^\W\d_]{{{MAX_RUN_LENGTH + 1},}}")


def pre_tokenizer() -> dict[str, Any]:
    """GPT-2's pre-tokenization: its regular expression, then bytes as printable characters."""
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": True}


def split_for_training(text: str, segmenter: Segmenter) -> list[str]:
    """Split a text for training where GPT-2's pattern does not: between Chinese words, and inside long runs.

    The pattern takes an unspaced clause for one word. Nearly all clauses are distinct, and the trainer holds all
    distinct words with their pairs in memory: 80 times the text. Words repeat, and subwords are what it should find.
    """
    boundaries = segment_boundaries(text, segmenter)
    for run in _LONG_RUN.finditer(text):
        boundaries = np.append(boundaries, range(run.start() + MAX_RUN_LENGTH, run.end(), MAX_RUN_LENGTH))
    return split_at(text, np.unique(boundaries))


def train_bpe(
    texts: Iterable[str], *, size: int, min_count: int, specials: Mapping[str, str], normalise: Sequence[str]
) -> tuple[dict[str, int], list[list[str]]]:
    """Train a vocabulary and its merges; it always includes all 256 bytes."""
    from tokenizers import Tokenizer, pre_tokenizers, trainers

    trainer = trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=min_count,
        special_tokens=list(dict.fromkeys(specials.values())),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    spec = {"version": "1.0", "added_tokens": [], "decoder": None, "model": {"type": "BPE", "vocab": {}, "merges": []}}
    spec |= {"normalizer": make_normalizer(normalise), "pre_tokenizer": pre_tokenizer()}
    tokenizer, segmenter = Tokenizer.from_str(json.dumps(spec)), Segmenter()
    tokenizer.train_from_iterator((split_for_training(replace_surrogates(text), segmenter) for text in texts), trainer)
    model = json.loads(tokenizer.to_str())["model"]
    return model["vocab"], model["merges"]


def bpe_spec(
    vocabulary: Mapping[str, int], merges: Sequence[Sequence[str]], **settings: Unpack[SpecSettings]
) -> TokenizerSpec:
    """The specification of a GPT-2 tokenizer with these merges."""
    by_id = dict(sorted(vocabulary.items(), key=lambda entry: entry[1]))
    return build_tokenizer_spec(
        bpe_model(by_id, merges, unk_token=None, no_affix=""),
        kind="bytepair",
        pre_tokenizer=pre_tokenizer(),
        decoder={"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        **settings,
    )


# Byte-level BPE writes printable Latin-1 bytes as themselves and maps the others to U+0100 and up.
_PRINTABLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
_OTHERS = sorted({*range(0x100)} - {*_PRINTABLE})
BYTE_OF_CHARACTER = {chr(byte): byte for byte in _PRINTABLE} | {chr(0x100 + i): byte for i, byte in enumerate(_OTHERS)}


def token_bytes(token: str) -> bytes:
    """The bytes of a byte-level BPE token; an added token may be plain text."""
    try:
        return bytes([BYTE_OF_CHARACTER[character] for character in token])
    except KeyError:
        return token.encode()


def readable_token(tokenizer: Tokenizer, token_id: int) -> str:
    """A token in readable form: byte-level tokens as text, or as hexadecimal bytes if they are not valid UTF-8."""
    token = tokenizer.id_to_token(token_id)
    if tokenizer.kind != "bytepair" or token_id in tokenizer.special_ids:
        return token
    data = token_bytes(token)
    try:
        return data.decode().replace(" ", "␣").replace("\n", "⏎")
    except UnicodeDecodeError:
        return f"‹{data.hex(' ').upper()}›"
