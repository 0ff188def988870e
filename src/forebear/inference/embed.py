"""Vectors of texts and of their words, in context: from any layer of any encoder, or from a mixture of layers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from forebear.data.io.atomic import cache_folder
from forebear.data.tokenizers.char_level import replace_surrogates
from forebear.embeddings.knn import BLOCK_BYTES, MIN_NORM, row_blocks
from forebear.embeddings.lexicon import NO_WORD, Lexicon, WordMatcher, WordMatches
from forebear.embeddings.word_table import WordVectors
from forebear.errors import InputError
from forebear.training.checkpoint import file_digest

if TYPE_CHECKING:
    from forebear.data.tokenizers.tokenizer import TokenEncoding, Tokenizer
    from forebear.inference.run import LoadedRun
    from forebear.nn.model import Model

Pooling = Literal["mean", "first", "last", "max"]
EmbeddingPooling = Literal[Pooling, "sif"]  # sif is for tables of words: in context no word is there by itself
LongTextPolicy = Literal["windows", "truncate"]
LayerChoice = int | Sequence[int] | Mapping[int, float]
ANY = 1 << 40  # tokens of a row, where the encoder sets no limit
SMALLEST = 1e-12  # lengths below are taken for it: a vector of nothing stays nothing


@dataclass(frozen=True)
class ContextualWord:
    """A word of a text: where it stands (code points), and its vector."""

    text: str
    start: int
    end: int
    vector: np.ndarray


@dataclass(frozen=True)
class EmbeddedText:
    """A text and its vector; with its words, if those were asked for. `cut` counts tokens that were left away."""

    text: str
    vector: np.ndarray
    tokens: int
    num_truncated: int
    words: tuple[ContextualWord, ...] | None = None

    def to_dict(self) -> dict[str, Any]:
        told: dict[str, Any] = {"text": self.text, "tokens": self.tokens, "cut": self.num_truncated}
        told["vector"] = [round(float(number), 7) for number in self.vector]
        if self.words is not None:
            told["words"] = [
                {"text": word.text, "start": word.start, "end": word.end}
                | {"vector": [round(float(number), 7) for number in word.vector]}
                for word in self.words
            ]
        return told


@dataclass(frozen=True)
class TextEmbeddings:
    """The vectors of many texts in one array, with how many tokens of each were read and how many left away."""

    vectors: np.ndarray  # (texts, D) float32
    num_tokens: np.ndarray  # (texts,)
    num_truncated: np.ndarray  # (texts,)


def embed_with_words(
    model: Model,
    tokenizer: Tokenizer,
    texts: str | Sequence[str],
    *,
    layers: LayerChoice = -1,
    pooling: Pooling = "mean",
    words: bool = False,
    long: LongTextPolicy = "windows",
    normalise: bool = True,
) -> list[EmbeddedText]:
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
    made = embed_matrix(model, tokenizer, texts, **how)
    facts = zip(texts, made.vectors, made.num_tokens.tolist(), made.num_truncated.tolist(), strict=True)
    return [EmbeddedText(text, vector, tokens, cut) for text, vector, tokens, cut in facts]


def embed_matrix(
    model: Model,
    tokenizer: Tokenizer,
    texts: Sequence[str],
    *,
    layers: LayerChoice = -1,
    pooling: Pooling = "mean",
    long: LongTextPolicy = "windows",
    normalise: bool = True,
) -> TextEmbeddings:
    """`embed` for very many texts: all vectors in one array."""
    from forebear.nn.encode_rows import pooled_vectors

    require_choice("pooling", pooling, get_args(Pooling))
    require_choice("long", long, get_args(LongTextPolicy))
    mixture = mixture_of(model, layers)
    sounds = [replace_surrogates(text) for text in texts]
    ids, counts = tokenizer.encode_many(sounds)
    reject_empty_texts(counts)
    ids = _spelled(model, tokenizer, sounds, ids, counts)
    around = _SpecialTokens.of(model, tokenizer)
    rows, owners = around.rows(np.split(ids, np.cumsum(counts)[:-1]) if len(counts) else [], long)
    if not rows:
        return TextEmbeddings(np.empty((0, model.encoder.width), np.float32), counts, counts)  # pyright: ignore
    found = pooled_vectors(model, rows, mixture, pooling)
    sizes = np.array([len(row) for row in rows])
    if len(rows) > len(texts):  # windows of a text, by how much of it they hold
        starts = np.flatnonzero(np.diff(owners, prepend=-1))
        shares = sizes / np.add.reduceat(sizes, starts)[owners]
        found = np.add.reduceat(found * shares[:, None].astype(np.float32), starts)
    if normalise:
        found /= np.maximum(np.linalg.norm(found, axis=1, keepdims=True), SMALLEST)
    read = np.bincount(owners, sizes - around.size, len(texts)).astype(np.int64)
    return TextEmbeddings(found, read, counts - read)


def _with_words(
    model: Model,
    tokenizer: Tokenizer,
    texts: list[str],
    *,
    layers: LayerChoice,
    pooling: Pooling,
    long: LongTextPolicy,
    normalise: bool,
) -> list[EmbeddedText]:
    """`embed` where the vectors of all tokens are wanted too."""
    from forebear.nn.encode_rows import token_vectors

    require_choice("pooling", pooling, get_args(Pooling))
    require_choice("long", long, get_args(LongTextPolicy))
    mixture = mixture_of(model, layers)
    cuts = [tokenizer.encode(replace_surrogates(text)) for text in texts]
    counts = np.array([len(pieces.ids) for pieces in cuts], np.int64)
    reject_empty_texts(counts)
    around = _SpecialTokens.of(model, tokenizer)
    ids = np.concatenate([pieces.ids for pieces in cuts]) if cuts else np.zeros(0, np.int64)
    ids = _spelled(model, tokenizer, list(map(replace_surrogates, texts)), ids, counts)
    rows, owners = around.rows(np.split(ids, np.cumsum(counts)[:-1]) if len(counts) else [], long)
    found: list[list[np.ndarray]] = [[] for _ in texts]
    for owner, one in zip(owners, token_vectors(model, rows, mixture), strict=True):
        found[owner].append(one)
    made = []
    for text, pieces, parts in zip(texts, cuts, found, strict=True):
        inner = np.concatenate([around.inner(part) for part in parts])
        vector = np.average([_pooled(part, pooling) for part in parts], axis=0, weights=[len(part) for part in parts])
        told = tuple(_words(replace_surrogates(text), pieces, inner, normalise))
        made.append(EmbeddedText(text, _scaled(vector, normalise), len(inner), len(pieces.ids) - len(inner), told))
    return made


def _spelled(
    model: Model, tokenizer: Tokenizer, texts: Sequence[str], ids: np.ndarray, counts: np.ndarray
) -> np.ndarray:
    """The ids, and for a network that reads spellings a number of its own for each word that is unknown."""
    embedding = model.encoder.embedding
    spelling = None if embedding is None else embedding.spelling
    if spelling is None:
        return ids
    from forebear.data.tokenizers.char_ids import oov_ids

    return oov_ids(tokenizer, spelling, texts, ids, counts)


def require_choice(name: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        raise InputError(f"{name} is {value!r}", hint=f"choose one of {', '.join(known)}")


def reject_empty_texts(counts: np.ndarray) -> None:
    """A text without tokens, named by its number from 1."""
    for number in np.flatnonzero(counts == 0)[:1].tolist():
        hint = "leave it out, or write some text"
        raise InputError("this text has no tokens, so it has no vector", line=number + 1, hint=hint)


def mixture_of(model: Model, layers: LayerChoice) -> dict[int, float]:
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
            raise InputError(f"there is no layer {layer}", hint=f"layers are 0, the embedding, to {depth}, or -1 …")
    widths = model.encoder.widths
    if len({widths[layer] for layer in weights}) > 1:
        told = " and ".join(f"{width:,}" for width in widths)
        raise InputError(f"its layers are {told} numbers wide: they have no mean", hint="choose one of them")
    if not weights or not all(np.isfinite(weight) for weight in weights.values()):
        raise InputError(f"layers are {layers!r}", hint="name at least one layer, and finite weights")
    return weights


def parse_layers(text: str) -> LayerChoice:
    """As it is written on a command line: -1, or 1,2,3, or 2:0.5,4:0.5."""
    try:
        parts = [part.split(":") for part in text.split(",")]
        if all(len(part) == 1 for part in parts):
            return [int(part[0]) for part in parts]
        return {int(layer): float(weight) for layer, weight in parts}
    except ValueError:
        raise InputError(f"--layers is {text!r}", hint="write -1, or 1,2,3, or 2:0.5,4:0.5") from None


@dataclass(frozen=True)
class _SpecialTokens:
    """What stands around a text: a start, and behind it an end where the encoder looks both ways."""

    before: tuple[int, ...]
    behind: tuple[int, ...]
    room: int

    @classmethod
    def of(cls, model: Model, tokenizer: Tokenizer) -> _SpecialTokens:
        encoder = model.encoder
        roles = {} if encoder.sees == "text" else tokenizer.special_roles  # a reader of words knows no marks
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

    def rows(self, cuts: Sequence[np.ndarray], long: LongTextPolicy) -> tuple[list[np.ndarray], np.ndarray]:
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


def _words(text: str, pieces: TokenEncoding, vectors: np.ndarray, normalise: bool):
    """Each word with the mean of its tokens' vectors; Chinese is cut into words, white space is none."""
    from forebear.data.segmentation import Segmenter

    ends = np.array(Segmenter().word_ends(text), np.int64)
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
            yield ContextualWord(written, begin, end, _scaled(vectors[owners == word].mean(axis=0), normalise))


# Words by their vectors alone: the table of a run, whichever way it was learned.


TOKEN_TABLE_TENSOR = "encoder.embedding.token.weight"  # of networks, by its name among their weights


def is_word_table(run: LoadedRun) -> bool:
    """Whether the run is nothing but a table of words: what it says of a text follows from its words alone."""
    return run.folder.spec.learning == "sweeping" and run.task is None


def has_word_vectors(run: LoadedRun) -> bool:
    """Whether there is a vector for each word of a vocabulary."""
    return "analogy" in run.capabilities


def word_matcher(run: LoadedRun) -> WordMatcher:
    """What finds the words of texts in the run's table."""
    from forebear.embeddings.phrases import PhraseModel

    return WordMatcher(
        run.word_table, run.tokenizer, run.network.phrases if isinstance(run.network, PhraseModel) else None
    )


def lexicon_for(run: LoadedRun) -> Lexicon:
    """The words of a run, to be asked; an index of them is kept by what its weights are."""

    def kept() -> Path:
        file = cache_folder() / "vectors" / f"{file_digest(run.folder.verified_weights()[0])[:32]}-words.usearch"
        file.parent.mkdir(parents=True, exist_ok=True)
        return file

    return Lexicon(run.word_table, word_matcher(run).find_words, kept)


def word_vectors_of(run: LoadedRun) -> WordVectors:
    """A vector for each word that the run knows; an error for one whose tokens are no words."""
    tokenizer, path = run.tokenizer, run.folder.path
    if is_word_table(run):
        return run.network.table(tokenizer.vocabulary())
    if tokenizer.kind != "words":
        hint = "train with --tokenizer words; or search the sentences of a file: forebear neighbours --among FILE"
        raise InputError(f"its tokens are {tokenizer.kind}, not words", file=path, hint=hint)
    if run.folder.spec.learning == "counting":
        raise InputError(
            "counts, and has no vectors", file=path, hint=f"it can be asked to: {', '.join(run.capabilities)}"
        )
    from forebear.nn.char_cnn import CharCNNEmbedding  # it loads torch, which a table does without

    ids = np.array([i for i in range(tokenizer.vocab_size) if i not in tokenizer.special_ids], np.int64)
    found = dict(run.network.named_parameters()).get(TOKEN_TABLE_TENSOR)
    embedding = run.model.encoder.embedding
    if found is None and isinstance(embedding, CharCNNEmbedding):
        return WordVectors(
            [tokenizer.id_to_token(int(i)) for i in ids], embedding.word_table(ids), compose=embedding.char_rows
        )
    if found is None:
        hint = "ask the run that it was made of, or one that was pretrained"
        raise InputError("has no table of words to be read", file=path, hint=hint)
    return WordVectors([tokenizer.id_to_token(int(i)) for i in ids], found.detach().float().numpy()[ids])


# Vectors of texts by a run: by its network, in context, or by its table of words.


def network_of(run: LoadedRun) -> Model:
    """The run's network, if it has vectors."""
    if run.folder.spec.learning == "counting":
        hint = f"it can be asked to: {', '.join(run.capabilities)}"
        raise InputError("counts, and has no vectors", file=run.folder.path, hint=hint)
    return run.network


def embed_texts(run: LoadedRun, texts: Sequence[str], **how: Any) -> TextEmbeddings:
    """`matrix` by a run: by its network, or by its table of words."""
    if is_word_table(run):
        return run.pooled_texts.embed_texts(texts, **resolve_embedding_options(run, **how))
    return embed_matrix(network_of(run), run.tokenizer, texts, **resolve_embedding_options(run, **how))


def embed_with_run(run: LoadedRun, texts: Sequence[str], *, words: bool = False, **how: Any) -> list[EmbeddedText]:
    """`embed` by a run: by its network, or by its table of words."""
    if is_word_table(run):
        return run.pooled_texts.embed(texts, words=words, **resolve_embedding_options(run, **how))
    return embed_with_words(network_of(run), run.tokenizer, texts, words=words, **resolve_embedding_options(run, **how))


def resolve_embedding_options(
    run: LoadedRun,
    *,
    layers: LayerChoice | None = None,
    pooling: EmbeddingPooling | None = None,
    long: LongTextPolicy | None = None,
    normalise: bool = True,
    zeros: bool = False,
) -> dict[str, Any]:
    """How vectors are made, where nothing else is asked for; what means nothing to a table of words is refused."""
    own: dict[str, Any] = {"pooling": "mean" if pooling is None else pooling, "normalise": normalise}
    if not is_word_table(run):
        if zeros:
            what = "zeros are for texts of which a table knows no word, and this is a network"
            raise InputError(what, file=run.folder.path, hint="leave out texts that are empty")
        return own | {"layers": -1 if layers is None else layers, "long": "windows" if long is None else long}
    for name, value in (("layers", layers), ("long", long)):
        if value is not None:
            what = f"--{name} means nothing to a table of words: it has no layers, and reads texts of any length"
            raise InputError(what, file=run.folder.path, hint="leave it out")
    return own | {"zeros": zeros}


# Vectors of texts from those of their words: their mean, or one that gives rare words more weight (SIF).


RARE = 1e-3  # a word of this share of the text counts half (the paper's a)


class PooledTexts:
    """Texts by the words of a table, each text by itself alone.

    A Simple but Tough-to-Beat Baseline for Sentence Embeddings (Arora, Liang, Ma; 2017), "sif": a word of the share p
    counts a / (a + p), and what all texts have in common is taken away. The paper finds that direction in the texts at
    hand, so that every vector depends on all others, and a single text has none. Here it is the direction of the mean
    of all words, weighed as above and by how often they were seen, which is what texts are drawn from: its cosine to
    the paper's was 0.995 and more on English and Chinese Wikipedia.
    """

    def __init__(self, cutting: WordMatcher) -> None:
        self.cutting, self.table = cutting, cutting.table

    @cached_property
    def weights(self) -> np.ndarray:
        """(N,) of each word."""
        if self.table.counts is None:
            hint = "choose --pooling mean, or a run that was trained here"
            raise InputError("sif needs to know how often words are seen, and nobody counted these", hint=hint)
        return (RARE / (RARE + self.table.counts / max(1, self.table.counts.sum()))).astype(np.float32)

    @cached_property
    def common_component(self) -> np.ndarray:
        """(D,) of length 1: what all texts have in common."""
        assert self.table.counts is not None
        shares, found = self.weights * self.table.counts / max(1, self.table.counts.sum()), np.zeros(self._width)
        for part in row_blocks(self.table.matrix):
            found += shares[part] @ self.table.matrix[part]
        return (found / max(float(np.linalg.norm(found)), MIN_NORM)).astype(np.float32)

    def embed_texts(
        self, texts: Sequence[str], pooling: EmbeddingPooling = "mean", normalise: bool = True, zeros: bool = False
    ) -> TextEmbeddings:
        """A vector for each text; words without one are counted as cut.

        A text of which no word has one is an error, or has `zeros`.
        """
        return self._matrix(self.cutting.match_words(texts), pooling, normalise, zeros)

    def embed(
        self, texts: Sequence[str], pooling: EmbeddingPooling, words: bool, normalise: bool, zeros: bool = False
    ) -> list[EmbeddedText]:
        """The same one by one; with `words`, those that have a vector too."""
        spoken = self.cutting.match_words(texts, spans=words)
        made = self._matrix(spoken, pooling, normalise, zeros)
        found: list[tuple[ContextualWord, ...] | None] = [None] * len(texts)
        if spoken.spans is not None:
            each = np.split(spoken.rows, np.cumsum(spoken.counts)[:-1])
            told = zip(texts, each, spoken.spans, strict=True)
            found = [self._words(replace_surrogates(text), rows, spans, normalise) for text, rows, spans in told]
        facts = zip(texts, made.vectors, made.num_tokens.tolist(), made.num_truncated.tolist(), found, strict=True)
        return [EmbeddedText(*one) for one in facts]

    def _words(
        self, text: str, rows: np.ndarray, spans: list[tuple[int, int]], normalise: bool
    ) -> tuple[ContextualWord, ...]:
        known = rows != NO_WORD
        vectors = self._scaled(self._vectors(rows[known]), normalise)
        places = (span for span, there in zip(spans, known.tolist(), strict=True) if there)
        told = zip(places, vectors, strict=True)
        return tuple(ContextualWord(text[begin:end], begin, end, vector) for (begin, end), vector in told)

    def _matrix(self, spoken: WordMatches, pooling: EmbeddingPooling, normalise: bool, zeros: bool) -> TextEmbeddings:
        require_choice("pooling", pooling, get_args(EmbeddingPooling))
        known = spoken.rows != NO_WORD
        rows, owners = spoken.rows[known], spoken.text_ids()[known]
        read = np.bincount(owners, minlength=len(spoken.counts))
        if not zeros:
            reject_empty_texts(spoken.counts)
            refuse_unknown(read)
        there = read > 0
        found = np.zeros((len(read), self._width), np.float32)
        if there.any():
            found[there] = self._pooled(rows, (np.cumsum(there) - 1)[owners], read[there], pooling)
        return TextEmbeddings(self._scaled(found, normalise), read, spoken.counts - read)

    def _pooled(self, rows: np.ndarray, owners: np.ndarray, read: np.ndarray, pooling: EmbeddingPooling) -> np.ndarray:
        ends = np.cumsum(read)
        if pooling in ("first", "last"):
            return self._vectors(rows[ends - read if pooling == "first" else ends - 1])
        together = np.maximum if pooling == "max" else np.add
        made = np.full((len(read), self._width), -np.inf if pooling == "max" else 0.0, np.float32)
        for place in _portions(read.tolist(), self._step):
            part, whose = self._vectors(rows[place]), owners[place]
            if pooling == "sif":
                part *= self._weights(rows[place])[:, None]
            starts = np.flatnonzero(np.diff(whose, prepend=-1))
            whole = together.reduceat(part, starts)
            made[whose[starts]] = together(made[whose[starts]], whole)
        if pooling != "max":
            made /= read[:, None].astype(np.float32)
        if pooling == "sif":
            made -= np.einsum("nd,d->n", made, self.common_component)[:, None] * self.common_component
        return made

    def _weights(self, rows: np.ndarray) -> np.ndarray:
        """Words that were never seen are rarer than all others."""
        given = np.minimum(rows, len(self.weights) - 1)
        return np.where(rows < len(self.weights), self.weights[given], np.float32(1))

    def _vectors(self, rows: np.ndarray) -> np.ndarray:
        """(n, D) by rows; those beyond the table are of words that were composed."""
        count = len(self.table.words)
        made = np.empty((len(rows), self._width), np.float32)
        own = rows < count
        made[own] = self.table.matrix[rows[own]]
        for place in np.flatnonzero(~own).tolist():
            made[place] = self.cutting.more[rows[place] - count]
        return made

    @property
    def _width(self) -> int:
        return self.table.matrix.shape[1]

    @property
    def _step(self) -> int:
        return max(1, BLOCK_BYTES // self._width)

    def _scaled(self, vectors: np.ndarray, normalise: bool) -> np.ndarray:
        return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), MIN_NORM) if normalise else vectors


def refuse_unknown(read: np.ndarray) -> None:
    """A text of which no word was read, named by its number from 1."""
    for number in np.flatnonzero(read == 0)[:1].tolist():
        hint = "leave it out, or ask a run with subwords, which has a vector for words with letter groups that it saw"
        raise InputError("none of this text's words has a vector", line=number + 1, hint=hint)


def _portions(counts: Sequence[int], most: int) -> Iterator[slice]:
    """Words of whole texts, at most so many; a longer text is cut from its own beginning, whatever is around it."""
    begin = end = 0
    for count in counts:
        if end > begin and end + count - begin > most:
            yield slice(begin, end)
            begin = end
        end += count
        while end - begin > most:
            yield slice(begin, begin + most)
            begin += most
    if end > begin:
        yield slice(begin, end)
