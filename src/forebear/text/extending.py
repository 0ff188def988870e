"""A vocabulary with words added to it: what was cut into pieces, or unknown, becomes a token of its own."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from forebear.errors import BadInput
from forebear.text import blueprint as blueprints
from forebear.text.blueprint import Blueprint
from forebear.text.segmentation import Segmenter, has_han
from forebear.text.tokenizer import Tokenizer
from forebear.text.words import segmented_by

KINDS = ("words", "characters", "wordpiece")  # whose vocabularies are lists


def lacking(tokenizer: Tokenizer, texts: Sequence[str], least: int) -> list[str]:
    """The words that these texts hold at least so often and the vocabulary lacks, the most frequent first.

    Only such as it could find if it had them, and none where it spells every word.
    """
    if tokenizer.unknown is None or tokenizer.kind not in KINDS:
        return []
    ids, counts = tokenizer.encode_many(texts)
    owners = np.repeat(np.arange(len(texts)), counts)
    found: Counter[str] = Counter()
    for number in np.unique(owners[ids == tokenizer.unknown]):
        text = texts[int(number)]
        pieces = tokenizer.encode(text)
        spans = zip(pieces.ids.tolist(), pieces.spans, strict=True)
        found.update(text[begin:end] for i, (begin, end) in spans if i == tokenizer.unknown)
    often = sorted((word for word, count in found.items() if count >= least), key=lambda word: (-found[word], word))
    return [word for word in often if tokenizer.encode(word).ids.tolist() == [tokenizer.unknown]]


def extended(
    tokenizer: Tokenizer, words: Iterable[str], *, found: bool = False, segmenter: Segmenter | None = None
) -> tuple[Tokenizer, dict[str, list[int]]]:
    """The tokenizer with these words at its end, and for each new one the ids of the pieces it was cut into before.

    What is a token already is left as it is. A word that the tokenizer would cut before it looks into its vocabulary
    (at a space, or between two Chinese characters) could never be found there, and is refused. Words that were `found`
    in a text by such a tokenizer can be, even if the segmenter would cut one that stands alone. Where they are the
    first in Chinese, the `segmenter` that found them cuts Chinese from now on.
    """
    words = list(words)
    if not words:
        return tokenizer, {}
    if tokenizer.kind not in KINDS:
        what = f"words cannot be added to a tokenizer of the kind {tokenizer.kind!r}"
        raise BadInput(what, remedy="it spells every word already: train on without adding any")
    made: Blueprint = copy.deepcopy(tokenizer.blueprint)
    normalised, pieces = blueprints.stages(made["normalizer"], made["pre_tokenizer"] or {"type": "WhitespaceSplit"})
    pieces = (lambda text: list(normalised(text))) if tokenizer.kind == "characters" else pieces
    vocabulary, new = made["model"]["vocab"], {}
    for word in words:
        parts = pieces(word)
        if len(parts) != 1:
            what = f"{word!r} is cut into {len(parts)} parts before the vocabulary is asked"
            raise BadInput(what, remedy="add words without spaces and punctuation, and Han one by one")
        if parts[0] not in vocabulary:
            new[parts[0]] = tokenizer.encode(word).ids.tolist()
            vocabulary[parts[0]] = len(vocabulary)
    if segmenter is not None and tokenizer.segmenter is None and tokenizer.split != "spaces" and any(map(has_han, new)):
        made["model"]["forebear"]["segmenter"] = segmented_by(segmenter)
    longer = Tokenizer(made) if new else tokenizer
    for word in () if found else new:
        if len(longer.encode(word).ids) != 1:
            what = f"{word!r} is cut by the segmenter before the vocabulary is asked"
            raise BadInput(what, remedy="add words as the segmenter finds them, or leave it out")
    return longer, new
