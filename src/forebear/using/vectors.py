"""Vectors of texts and of their words, in context: from any layer of any encoder, or from a mixture of layers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from forebear.errors import BadInput
from forebear.text.characters import sound

if TYPE_CHECKING:
    from forebear.networks.model import Model
    from forebear.text.tokenizer import Pieces, Tokenizer

Pooling = Literal["mean", "first", "last", "max"]
AnyPooling = Literal[Pooling, "sif"]  # sif is for tables of words: in context no word is there by itself
Long = Literal["windows", "truncate"]
Layers = int | Sequence[int] | Mapping[int, float]
ANY = 1 << 40  # tokens of a row, where the encoder sets no limit
SMALLEST = 1e-12  # lengths below are taken for it: a vector of nothing stays nothing


@dataclass(frozen=True)
class Word:
    """A word of a text: where it stands (code points), and its vector."""

    text: str
    start: int
    end: int
    vector: np.ndarray


@dataclass(frozen=True)
class Embedded:
    """A text and its vector; with its words, if those were asked for. `cut` counts tokens that were left away."""

    text: str
    vector: np.ndarray
    tokens: int
    cut: int
    words: tuple[Word, ...] | None = None

    def facts(self) -> dict[str, Any]:
        told: dict[str, Any] = {"text": self.text, "tokens": self.tokens, "cut": self.cut}
        told["vector"] = [round(float(number), 7) for number in self.vector]
        if self.words is not None:
            told["words"] = [
                {"text": word.text, "start": word.start, "end": word.end}
                | {"vector": [round(float(number), 7) for number in word.vector]}
                for word in self.words
            ]
        return told


@dataclass(frozen=True)
class Matrix:
    """The vectors of many texts in one array, with how many tokens of each were read and how many left away."""

    vectors: np.ndarray  # (texts, D) float32
    tokens: np.ndarray  # (texts,)
    cut: np.ndarray  # (texts,)


def embed(
    model: Model,
    tokenizer: Tokenizer,
    texts: str | Sequence[str],
    *,
    layers: Layers = -1,
    pooling: Pooling = "mean",
    words: bool = False,
    long: Long = "windows",
    normalise: bool = True,
) -> list[Embedded]:
    """A vector for each text, and for each of its words if `words`.

    layers     one by its number (0: the embedding, -1: the last), several for their mean, or {layer: weight}
    pooling    of the vectors of a row: their mean, the first ([CLS]), the last, or the largest of each number
    long       a text longer than the context is read in windows, whose vectors are averaged by their tokens, or only
               as far as it fits
    normalise  vectors have length 1, so that a product is a cosine
    """
    texts = [texts] if isinstance(texts, str) else list(texts)
    how: dict[str, Any] = {"layers": layers, "pooling": pooling, "long": long, "normalise": normalise}
    if words:
        return _with_words(model, tokenizer, texts, **how)
    made = matrix(model, tokenizer, texts, **how)
    facts = zip(texts, made.vectors, made.tokens.tolist(), made.cut.tolist(), strict=True)
    return [Embedded(text, vector, tokens, cut) for text, vector, tokens, cut in facts]


def matrix(
    model: Model,
    tokenizer: Tokenizer,
    texts: Sequence[str],
    *,
    layers: Layers = -1,
    pooling: Pooling = "mean",
    long: Long = "windows",
    normalise: bool = True,
) -> Matrix:
    """`embed` for very many texts: all vectors in one array."""
    from forebear.networks.vectors import pooled

    checked("pooling", pooling, get_args(Pooling))
    checked("long", long, get_args(Long))
    mixture = mixture_of(model, layers)
    sounds = [sound(text) for text in texts]
    ids, counts = tokenizer.encode_many(sounds)
    refuse_empty(counts)
    ids = _spelled(model, tokenizer, sounds, ids, counts)
    around = _Around.of(model, tokenizer)
    rows, owners = around.rows(np.split(ids, np.cumsum(counts)[:-1]) if len(counts) else [], long)
    if not rows:
        return Matrix(np.empty((0, model.encoder.width), np.float32), counts, counts)  # pyright: ignore
    found = pooled(model, rows, mixture, pooling)
    sizes = np.array([len(row) for row in rows])
    if len(rows) > len(texts):  # windows of a text, by how much of it they hold
        starts = np.flatnonzero(np.diff(owners, prepend=-1))
        shares = sizes / np.add.reduceat(sizes, starts)[owners]
        found = np.add.reduceat(found * shares[:, None].astype(np.float32), starts)
    if normalise:
        found /= np.maximum(np.linalg.norm(found, axis=1, keepdims=True), SMALLEST)
    read = np.bincount(owners, sizes - around.size, len(texts)).astype(np.int64)
    return Matrix(found, read, counts - read)


def _with_words(
    model: Model,
    tokenizer: Tokenizer,
    texts: list[str],
    *,
    layers: Layers,
    pooling: Pooling,
    long: Long,
    normalise: bool,
) -> list[Embedded]:
    """`embed` where the vectors of all tokens are wanted too."""
    from forebear.networks.vectors import vectors

    checked("pooling", pooling, get_args(Pooling))
    checked("long", long, get_args(Long))
    mixture = mixture_of(model, layers)
    cuts = [tokenizer.encode(sound(text)) for text in texts]
    counts = np.array([len(pieces.ids) for pieces in cuts], np.int64)
    refuse_empty(counts)
    around = _Around.of(model, tokenizer)
    ids = np.concatenate([pieces.ids for pieces in cuts]) if cuts else np.zeros(0, np.int64)
    ids = _spelled(model, tokenizer, list(map(sound, texts)), ids, counts)
    rows, owners = around.rows(np.split(ids, np.cumsum(counts)[:-1]) if len(counts) else [], long)
    found: list[list[np.ndarray]] = [[] for _ in texts]
    for owner, one in zip(owners, vectors(model, rows, mixture), strict=True):
        found[owner].append(one)
    made = []
    for text, pieces, parts in zip(texts, cuts, found, strict=True):
        inner = np.concatenate([around.inner(part) for part in parts])
        vector = np.average([_pooled(part, pooling) for part in parts], axis=0, weights=[len(part) for part in parts])
        told = tuple(_words(sound(text), pieces, inner, normalise))
        made.append(Embedded(text, _scaled(vector, normalise), len(inner), len(pieces.ids) - len(inner), told))
    return made


def _spelled(
    model: Model, tokenizer: Tokenizer, texts: Sequence[str], ids: np.ndarray, counts: np.ndarray
) -> np.ndarray:
    """The ids, and for a network that reads spellings a number of its own for each word that is unknown."""
    embedding = model.encoder.embedding
    spelling = None if embedding is None else embedding.spelling
    if spelling is None:
        return ids
    from forebear.text.unlisted import numbered

    return numbered(tokenizer, spelling, texts, ids, counts)


def checked(name: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        raise BadInput(f"{name} is {value!r}", remedy=f"choose one of {', '.join(known)}")


def refuse_empty(counts: np.ndarray) -> None:
    """A text without tokens, named by its number from 1."""
    for number in np.flatnonzero(counts == 0)[:1].tolist():
        remedy = "leave it out, or write some text"
        raise BadInput("this text has no tokens, so it has no vector", line=number + 1, remedy=remedy)


def mixture_of(model: Model, layers: Layers) -> dict[int, float]:
    """The weight of each layer; an error for one that is not there."""
    depth = model.encoder.depth
    if isinstance(layers, int | np.integer):
        layers = [int(layers)]
    if isinstance(layers, Mapping):
        weights = dict(layers)
    else:
        weights = {layer: often / len(layers) for layer, often in Counter(layers).items()}
    for layer in weights:
        if not -depth - 1 <= layer <= depth:
            raise BadInput(f"there is no layer {layer}", remedy=f"layers are 0, the embedding, to {depth}, or -1 …")
    widths = model.encoder.widths
    if len({widths[layer] for layer in weights}) > 1:
        told = " and ".join(f"{width:,}" for width in widths)
        raise BadInput(f"its layers are {told} numbers wide: they have no mean", remedy="choose one of them")
    if not weights or not all(np.isfinite(weight) for weight in weights.values()):
        raise BadInput(f"layers are {layers!r}", remedy="name at least one layer, and finite weights")
    return weights


def layers_from(text: str) -> Layers:
    """As it is written on a command line: -1, or 1,2,3, or 2:0.5,4:0.5."""
    try:
        parts = [part.split(":") for part in text.split(",")]
        if all(len(part) == 1 for part in parts):
            return [int(part[0]) for part in parts]
        return {int(layer): float(weight) for layer, weight in parts}
    except ValueError:
        raise BadInput(f"--layers is {text!r}", remedy="write -1, or 1,2,3, or 2:0.5,4:0.5") from None


@dataclass(frozen=True)
class _Around:
    """What stands around a text: a start, and behind it an end where the encoder looks both ways."""

    before: tuple[int, ...]
    behind: tuple[int, ...]
    room: int

    @classmethod
    def of(cls, model: Model, tokenizer: Tokenizer) -> _Around:
        encoder = model.encoder
        roles = {} if encoder.sees == "text" else tokenizer.roles  # a reader of words knows no marks
        end = roles.get("end")
        start = roles.get("start", end) if encoder.sees == "all" else end  # one that looks back begins as documents do
        start, end = encoder.borders or (start, end)
        before = () if start is None else (start,)
        behind = (end,) if end is not None and encoder.sees == "all" else ()
        longest = ANY if encoder.context is None else encoder.context
        return cls(before, behind, longest - len(before) - len(behind))

    @property
    def size(self) -> int:
        return len(self.before) + len(self.behind)

    def rows(self, cuts: Sequence[np.ndarray], long: Long) -> tuple[list[np.ndarray], np.ndarray]:
        """The rows of all texts, given by their ids, and of which text each is; one that is too long is several."""
        rows: list[np.ndarray] = []
        owners: list[int] = []
        for number, ids in enumerate(cuts):
            for at in range(0, len(ids) if long == "windows" else 1, self.room):
                rows.append(np.concatenate((self.before, ids[at : at + self.room], self.behind)).astype(np.int64))
                owners.append(number)
        return rows, np.array(owners, np.int64)

    def inner(self, vectors: np.ndarray) -> np.ndarray:
        """Those of the text's own tokens."""
        return vectors[len(self.before) : len(vectors) - len(self.behind)]


def _pooled(vectors: np.ndarray, pooling: Pooling) -> np.ndarray:
    if pooling == "mean":
        return vectors.mean(axis=0)
    return vectors.max(axis=0) if pooling == "max" else vectors[0 if pooling == "first" else -1]


def _scaled(vector: np.ndarray, normalise: bool) -> np.ndarray:
    return vector / max(float(np.linalg.norm(vector)), SMALLEST) if normalise else vector


def _words(text: str, pieces: Pieces, vectors: np.ndarray, normalise: bool):
    """Each word with the mean of its tokens' vectors; Chinese is cut into words, white space is none."""
    from forebear.text.segmentation import Segmenter

    ends = np.array(Segmenter().cuts(text), np.int64)
    places, at = [], 0
    for begin, end in pieces.spans[: len(vectors)]:
        if begin < end:  # else it is a further byte of a character, and belongs where the first does
            spaces = end - begin - len(text[begin:end].lstrip())  # which pieces of bytes take with them
            at = begin + spaces if spaces < end - begin else begin
        places.append(at)
    owners = np.searchsorted(ends, places, side="right")
    for word in np.unique(owners).tolist():
        begin, end = int(ends[word - 1]) if word else 0, int(ends[word])
        written = text[begin:end]
        if written.strip():
            yield Word(written, begin, end, _scaled(vectors[owners == word].mean(axis=0), normalise))
