"""The vectors that a run has for the occurrences of a word: in context, from a table, or before it looks around."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from forebear.errors import BadInput
from forebear.inspecting.occurrences import Found, Occurrence
from forebear.using.lexicon import scaled
from forebear.using.words import TABLE, is_table

if TYPE_CHECKING:
    from forebear.networks.states import Encoder
    from forebear.using.run import Run
    from forebear.using.vectors import Layers


TOGETHER = 32  # sentences that are read at once: of one-hot vectors those of all their words take much room


@dataclass(frozen=True, eq=False)
class Embedded:
    """name         of the run, and which of its vectors these are
    occurrences  those that have one
    vectors      (n, D) of length 1
    static       whether they cannot know what stands around
    """

    name: str
    occurrences: tuple[Occurrence, ...]
    vectors: np.ndarray
    static: bool = False


def embedded(run: Run, found: Found, layers: Layers | None = None) -> Embedded:
    """By the run's network, from all layers above the embedding or from these, or by its table of words."""
    if is_table(run):
        if layers is not None:
            what = "--layers means nothing to a table of words: it has no layers"
            raise BadInput(what, file=run.folder.path, remedy="leave it out")
        run.lexicon.find(found.word)  # where there is no vector, it is said which words are alike
        return _of(run, run.name, found, _by_words(run, found, {"zeros": True}), static=True)
    if run.folder.milestone.learning == "counting":
        remedy = "look at a run of vectors (word2vec, bert, …)"
        raise BadInput("counts, and has no vectors", file=run.folder.path, remedy=remedy)
    run.ready_for("embed")
    chosen = _above(run.model.encoder) if layers is None else layers
    return _of(run, f"{run.name}, {_named(chosen)}", found, _by_words(run, found, {"layers": chosen}))


def before_context(run: Run, found: Found) -> Embedded:
    """The rows of the network's own table of tokens, or its layer 0 where it has none to be read: they know nothing of
    what stands around. Layer 0 of a Transformer knows places, though."""
    table = dict(run.model.named_parameters()).get(TABLE)
    if table is None:
        embedding = run.model.encoder.embedding
        placing = "none" if embedding is None else embedding.placing
        name = f"{run.name}, layer 0" + (", with places" if placing != "none" else "")
        return _of(run, name, found, _by_words(run, found, {"layers": 0}), static=placing == "none")
    rows = table.detach().float().cpu().numpy()
    return _of(run, f"{run.name}, its table", found, _by_tokens(run, found, rows), static=True)


def is_spelled(of: Embedded, equal: float) -> bool:
    """Whether a vector follows from how the word is written, so that nothing else can be told by it."""
    first: dict[str, np.ndarray] = {}
    for vector, one in zip(of.vectors, of.occurrences, strict=True):
        if np.abs(first.setdefault(one.written, vector) - vector).max() > equal:
            return False
    return True


def _of(run: Run, name: str, found: Found, vectors: Iterator[np.ndarray | None], *, static: bool = False) -> Embedded:
    both = zip(found.occurrences, vectors, strict=True)
    kept = [(one, vector) for one, vector in both if vector is not None]
    if not kept:
        what = f"none of the places where {found.word!r} stands has tokens of its own"
        raise BadInput(what, file=run.folder.path, remedy="ask for a longer word, or a run with smaller tokens")
    units = scaled(np.stack([vector for _, vector in kept]).astype(np.float64))
    return Embedded(name, tuple(one for one, _ in kept), units, static)


def _by_words(run: Run, found: Found, how: dict[str, Any]) -> Iterator[np.ndarray | None]:
    """The mean of the words that a place holds, or of those that reach into it."""
    for begin in range(0, len(found.occurrences), TOGETHER):
        some = found.occurrences[begin : begin + TOGETHER]
        told = run.embed([one.sentence for one in some], words=True, normalise=False, **how)
        for one, text in zip(some, told, strict=True):
            over = [word for word in text.words or () if word.start < one.end and word.end > one.start]
            inside = [word for word in over if word.start >= one.start and word.end <= one.end] or over
            yield np.mean([word.vector for word in inside], axis=0) if inside else None


def _by_tokens(run: Run, found: Found, rows: np.ndarray) -> Iterator[np.ndarray | None]:
    for one in found.occurrences:
        pieces = run.tokenizer.encode(one.sentence)
        told = zip(pieces.ids.tolist(), pieces.spans, strict=True)
        ids = [i for i, (begin, end) in told if begin < one.end and end > one.start]
        yield rows[ids].mean(0) if ids else None


def _above(encoder: Encoder) -> list[int]:
    """All layers above the embedding, or the last where they differ in width."""
    every = list(range(1, encoder.depth + 1))
    return every if len({encoder.widths[layer] for layer in every}) == 1 else [encoder.depth]


def _named(layers: Layers) -> str:
    """Layers in words."""
    if isinstance(layers, int | np.integer):
        return f"layer {layers}"
    if not isinstance(layers, Sequence):
        return "layers " + ", ".join(f"{layer} × {weight:g}" for layer, weight in layers.items())
    if len(layers) == 1:
        return f"layer {layers[0]}"
    if len(layers) > 2 and list(layers) == list(range(layers[0], layers[0] + len(layers))):
        return f"mean of layers {layers[0]} to {layers[-1]}"
    return f"mean of layers {', '.join(map(str, layers[:-1]))} and {layers[-1]}"
