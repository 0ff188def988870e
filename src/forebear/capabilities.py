"""The capabilities of a run: the commands it supports, by the names of its heads and whether it has an encoder."""

from __future__ import annotations

from collections.abc import Iterable

HEAD_CAPABILITIES: dict[str, tuple[str, ...]] = {
    "next": ("score", "next", "generate", "ask", "measure"),
    "token": ("fill", "ask", "score", "measure"),
    "label": ("classify", "measure"),
    "tag": ("tag", "measure"),
    "start": ("answer", "measure"),
    "choice": ("choose", "measure"),
    "translation": ("translate", "measure"),
}
CAPABILITY_PHRASES = {  # wording in messages of capabilities whose names are not verbs
    "ask": "by a prompt",
    "next": "what comes next",
    "neighbours": "for neighbours",
    "similarity": "for a similarity",
    "odd-one-out": "for the odd one out",
    "analogy": "for an analogy",
}
ENCODER_CAPABILITIES = ("embed", "neighbours", "similarity", "odd-one-out")
WORD_VECTOR_CAPABILITIES = ("analogy", "measure")


def head_capabilities(heads: Iterable[str], *, encodes: bool, words: bool = False) -> tuple[str, ...]:
    """The capabilities of a run.

    Args:
        heads: Names of its heads.
        encodes: Whether it has an encoder, and therefore vectors of texts.
        words: Whether its tokens are words, so that each word has a vector.
    """
    names = tuple(heads)
    capabilities = [capability for head in names for capability in HEAD_CAPABILITIES.get(head, ())]
    if encodes and "translation" not in names:  # the encoder of a translation model serves its decoder only
        capabilities += ENCODER_CAPABILITIES + (WORD_VECTOR_CAPABILITIES if words else ())
    return tuple(dict.fromkeys(capabilities))
