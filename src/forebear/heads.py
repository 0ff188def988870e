"""What a run can be asked: it follows from the names of its heads, and from whether it has an encoder."""

from __future__ import annotations

from collections.abc import Iterable

VERBS: dict[str, tuple[str, ...]] = {
    "next": ("score", "next", "generate", "ask", "measure"),
    "token": ("fill", "ask", "score", "measure"),
    "label": ("classify", "measure"),
    "tag": ("tag", "measure"),
    "start": ("answer", "measure"),
    "choice": ("choose", "measure"),
    "translation": ("translate", "measure"),
}
CAPABILITY_PHRASES = {  # how a run is asked, of verbs that are none
    "ask": "by a prompt",
    "next": "what comes next",
    "neighbours": "for neighbours",
    "similarity": "for a similarity",
    "odd-one-out": "for the odd one out",
    "analogy": "for an analogy",
}
OF_ENCODERS = ("embed", "neighbours", "similarity", "odd-one-out")
OF_WORDS = ("analogy", "measure")  # what is looked for among all words


def head_capabilities(heads: Iterable[str], *, encodes: bool, words: bool = False) -> tuple[str, ...]:
    """What a run with heads of these names can be asked; one that `encodes` has vectors, whatever its heads, and where
    its tokens are `words`, a vector for each word."""
    names = tuple(heads)
    named = (verb for head in names for verb in VERBS.get(head, ()))
    encodes = encodes and "translation" not in names  # what it makes of a source is there for its other half
    return tuple(dict.fromkeys((*named, *(OF_ENCODERS if encodes else ()), *(OF_WORDS if encodes and words else ()))))
