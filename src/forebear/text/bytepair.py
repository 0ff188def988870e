"""Byte-level BPE, as in GPT-2: bytes merged into frequent pieces inside words, so that no text is ever unknown."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from forebear.text.characters import BERT_HAN, sound
from forebear.text.document import Document, build, normalizer_of

SIZE, MIN_COUNT = 16_000, 2

# What the trainer gets at most as one word. GPT-2's splitting takes an unspaced clause for one word: nearly every one
# would be distinct, and the trainer holds all distinct words in memory. Cuts inside a run cost only the pairs across.
LONGEST_HAN, LONGEST_LETTERS = 16, 64
_RUN = re.compile(f"(?P<han>[{BERT_HAN}]{{{LONGEST_HAN + 1},}})|[^\\W\\d_{BERT_HAN}]{{{LONGEST_LETTERS + 1},}}")


def pre_tokenizer() -> dict[str, Any]:
    """GPT-2's own splitting, then bytes written as printable characters."""
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": True}


def shortened(text: str) -> Iterator[str]:
    """The text in parts, cut only inside long runs of letters."""
    begin = 0
    for run in _RUN.finditer(text):
        step = LONGEST_HAN if run.lastgroup else LONGEST_LETTERS
        for end in range(run.start() + step, run.end(), step):
            yield text[begin:end]
            begin = end
    if begin < len(text):
        yield text[begin:]


def learn(
    texts: Iterable[str], *, size: int, min_count: int, specials: Mapping[str, str], normalise: Sequence[str]
) -> tuple[dict[str, int], list[list[str]]]:
    """The vocabulary and its merges; all 256 bytes are in it, whatever the text."""
    from tokenizers import Tokenizer, pre_tokenizers, trainers

    trainer = trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=min_count,
        special_tokens=list(dict.fromkeys(specials.values())),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    shape = {"version": "1.0", "added_tokens": [], "decoder": None, "model": {"type": "BPE", "vocab": {}, "merges": []}}
    shape |= {"normalizer": normalizer_of(normalise), "pre_tokenizer": pre_tokenizer()}
    made = Tokenizer.from_str(json.dumps(shape))
    made.train_from_iterator((part for text in texts for part in shortened(sound(text))), trainer)
    learned = json.loads(made.to_str())["model"]
    return learned["vocab"], learned["merges"]


def document(
    vocabulary: Mapping[str, int],
    merges: Sequence[Sequence[str]],
    *,
    specials: Mapping[str, str],
    normalise: Sequence[str] = (),
    facts: Mapping[str, Any],
) -> Document:
    """GPT-2's tokenizer over these merges."""
    model = {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": "",
        "end_of_word_suffix": "",
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": False,
        "vocab": dict(sorted(vocabulary.items(), key=lambda entry: entry[1])),
        "merges": [list(pair) for pair in merges],
    }
    return build(
        model,
        kind="bytepair",
        specials=specials,
        normalizer=normalizer_of(normalise),
        pre_tokenizer=pre_tokenizer(),
        decoder={"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        facts={"normalise": list(normalise), **facts},
    )
