"""Embeddings of texts and words: from the layers of an encoder, or pooled from a table of word vectors (SIF)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, get_args

import numpy as np

from forebear.data.io.atomic import cache_folder, file_digest
from forebear.data.unicode import replace_surrogates
from forebear.embeddings.knn import MIN_NORM, VALUES_PER_BLOCK, row_blocks
from forebear.embeddings.lexicon import NO_WORD, Lexicon, WordMatcher, WordMatches
from forebear.embeddings.word_table import WordVectors
from forebear.errors import InputError, require_choice
from forebear.numerics import unit_rows

if TYPE_CHECKING:
    from forebear.data.tokenizers.tokenizer import TokenEncoding, Tokenizer
    from forebear.inference.run import LoadedRun
    from forebear.nn.model import Model

Pooling = Literal["mean", "first", "last", "max"]
EmbeddingPooling = Literal[Pooling, "sif"]  # sif is for word tables only
LongTextPolicy = Literal["windows", "truncate"]
LayerChoice = int | Sequence[int] | Mapping[int, float]
UNLIMITED_LENGTH = 1 << 40  # for encoders without a maximum length


@dataclass(frozen=True)
class ContextualWord:
    """A word of a text, its span in code points, and its contextual vector."""

    text: str
    start: int
    end: int
    vector: np.ndarray

    def to_dict(self) -> dict[str, Any]:
        vector = [round(float(value), 7) for value in self.vector]
        return {"text": self.text, "start": self.start, "end": self.end, "vector": vector}


@dataclass(frozen=True)
class EmbeddedText:
    """A text and its vector, with contextual word vectors on request; `num_truncated` tokens were not used."""

    text: str
    vector: np.ndarray
    tokens: int
    num_truncated: int
    words: tuple[ContextualWord, ...] | None = None

    def to_dict(self) -> dict[str, Any]:
        result: dict[str, Any] = {"text": self.text, "tokens": self.tokens, "cut": self.num_truncated}
        result["vector"] = [round(float(value), 7) for value in self.vector]
        return result if self.words is None else {**result, "words": [word.to_dict() for word in self.words]}


@dataclass(frozen=True)
class TextEmbeddings:
    """Vectors of many texts in one array, with the numbers of used and truncated tokens."""

    vectors: np.ndarray  # (texts, D) float32
    num_tokens: np.ndarray  # (texts,)
    num_truncated: np.ndarray  # (texts,)

    @property
    def columns(self) -> tuple[np.ndarray, list[int], list[int]]:
        """Vector, used and truncated tokens of each text."""
        return self.vectors, self.num_tokens.tolist(), self.num_truncated.tolist()


class EmbeddingOptions(TypedDict, total=False):
    """Options of `Run.embed`: those of `embed_with_words`, and `zeros` for texts without a known word (word tables)."""

    layers: LayerChoice | None
    pooling: EmbeddingPooling | None
    long: LongTextPolicy | None
    normalise: bool
    zeros: bool


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
    """Embed each text, and each of its words if `words`.

    Args:
        layers: A layer (0: the embedding, -1: the last), several for their mean, or {layer: weight}.
        pooling: Pooling of token vectors: mean, first ([CLS]), last, or elementwise max.
        long: "windows" averages the windows of an overlong text by length; "truncate" uses the first one.
        normalise: Whether to scale vectors to unit length.
    """
    from forebear.nn.encode_rows import token_vectors

    texts = [texts] if isinstance(texts, str) else list(texts)
    if not words:
        options: dict[str, Any] = {"layers": layers, "pooling": pooling, "long": long, "normalise": normalise}
        embeddings = embed_matrix(model, tokenizer, texts, **options)
        return [EmbeddedText(*fields) for fields in zip(texts, *embeddings.columns, strict=True)]
    layer_weights = _layer_weights(model, layers, pooling, long)
    clean_texts = [replace_surrogates(text) for text in texts]
    encodings = [tokenizer.encode(text) for text in clean_texts]
    counts = np.array([len(encoding.ids) for encoding in encodings], np.int64)
    ids = np.concatenate([encoding.ids for encoding in encodings]) if encodings else np.zeros(0, np.int64)
    special_tokens, rows, text_ids = _text_rows(model, tokenizer, clean_texts, ids, counts, long)
    windows_by_text: list[list[np.ndarray]] = [[] for _ in texts]
    for text_id, row_vectors in zip(text_ids, token_vectors(model, rows, layer_weights), strict=True):
        windows_by_text[text_id].append(row_vectors)
    results = []
    for text, clean_text, encoding, windows in zip(texts, clean_texts, encodings, windows_by_text, strict=True):
        inner_vectors = np.concatenate([special_tokens.inner(window) for window in windows])
        pooled = [_pool(window, pooling) for window in windows]
        vector = _normalize_if(np.average(pooled, axis=0, weights=[len(window) for window in windows]), normalise)
        contextual_words = tuple(_contextual_words(clean_text, encoding, inner_vectors, normalise))
        num_used = len(inner_vectors)
        results.append(EmbeddedText(text, vector, num_used, len(encoding.ids) - num_used, contextual_words))
    return results


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
    """`embed_with_words` for many texts, without words: all vectors in one array."""
    from forebear.nn.encode_rows import pooled_vectors

    layer_weights = _layer_weights(model, layers, pooling, long)
    clean_texts = [replace_surrogates(text) for text in texts]
    ids, counts = tokenizer.encode_many(clean_texts)
    special_tokens, rows, text_ids = _text_rows(model, tokenizer, clean_texts, ids, counts, long)
    if not rows:
        return TextEmbeddings(np.empty((0, model.encoder.width), np.float32), counts, counts)  # pyright: ignore
    vectors = pooled_vectors(model, rows, layer_weights, pooling)
    row_lengths = np.array([len(row) for row in rows])
    if len(rows) > len(texts):  # average the windows of a text by length
        starts = np.flatnonzero(np.diff(text_ids, prepend=-1))
        weights = row_lengths / np.add.reduceat(row_lengths, starts)[text_ids]
        vectors = np.add.reduceat(vectors * weights[:, None].astype(np.float32), starts)
    vectors = unit_rows(vectors) if normalise else vectors
    num_used = np.bincount(text_ids, row_lengths - special_tokens.size, len(texts)).astype(np.int64)
    return TextEmbeddings(vectors, num_used, counts - num_used)


def _text_rows(
    model: Model, tokenizer: Tokenizer, texts: Sequence[str], ids: np.ndarray, counts: np.ndarray, long: LongTextPolicy
) -> tuple[_SpecialTokens, list[np.ndarray], np.ndarray]:
    """The special tokens around each text, the rows of all texts, and the text index of each row."""
    reject_empty_texts(counts)
    embedding = model.encoder.embedding
    if embedding is not None and embedding.char_ids is not None:  # out-of-vocabulary words have their own ids
        from forebear.data.tokenizers.char_ids import oov_ids

        ids = oov_ids(tokenizer, embedding.char_ids, texts, ids, counts)
    special_tokens = _SpecialTokens.of(model, tokenizer)
    return special_tokens, *special_tokens.rows(np.split(ids, np.cumsum(counts)[:-1]) if len(counts) else [], long)


def reject_empty_texts(counts: np.ndarray) -> None:
    """Raise InputError for a text without tokens, with its number from 1."""
    if (counts == 0).any():
        message, number = "this text has no tokens, so it has no vector", int((counts == 0).argmax()) + 1
        raise InputError(message, line=number, hint="leave it out, or write some text")


def _layer_weights(model: Model, layers: LayerChoice, pooling: Pooling, long: LongTextPolicy) -> dict[int, float]:
    """Validate all options; return the weight of each layer."""
    require_choice("pooling", pooling, get_args(Pooling))
    require_choice("long", long, get_args(LongTextPolicy))
    depth = model.encoder.depth
    if isinstance(layers, int | np.integer):
        layers = [int(layers)]
    if isinstance(layers, Mapping):
        weights = dict(layers)
    else:
        weights = {layer: count / len(layers) for layer, count in Counter(layers).items()}
    for layer in weights:
        if not -depth - 1 <= layer <= depth:
            raise InputError(f"there is no layer {layer}", hint=f"layers are 0, the embedding, to {depth}, or -1 …")
    widths = model.encoder.widths
    if len({widths[layer] for layer in weights}) > 1:
        sizes = " and ".join(f"{width:,}" for width in widths)
        raise InputError(f"its layers are {sizes} numbers wide: they have no mean", hint="choose one of them")
    if not weights or not all(np.isfinite(weight) for weight in weights.values()):
        raise InputError(f"layers are {layers!r}", hint="name at least one layer, and finite weights")
    return weights


def parse_layers(text: str) -> LayerChoice:
    """Parse --layers: -1, or 1,2,3, or 2:0.5,4:0.5."""
    try:
        fields = [part.split(":") for part in text.split(",")]
        if all(len(part) == 1 for part in fields):
            return [int(part[0]) for part in fields]
        return {int(layer): float(weight) for layer, weight in fields}
    except ValueError:
        raise InputError(f"--layers is {text!r}", hint="write -1, or 1,2,3, or 2:0.5,4:0.5") from None


@dataclass(frozen=True)
class _SpecialTokens:
    """Special tokens around a text: a start token, and an end token for bidirectional encoders."""

    prefix: tuple[int, ...]
    suffix: tuple[int, ...]
    max_text_tokens: int

    @classmethod
    def of(cls, model: Model, tokenizer: Tokenizer) -> _SpecialTokens:
        encoder = model.encoder
        roles = {} if encoder.sees == "text" else tokenizer.special_roles  # task encoders over words have none
        end = roles.get("end")
        start = roles.get("start", end) if encoder.sees == "all" else end  # causal models start with the end token
        start, end = encoder.boundary_ids or (start, end)
        prefix = () if start is None else (start,)
        suffix = (end,) if end is not None and encoder.sees == "all" else ()
        max_length = UNLIMITED_LENGTH if encoder.max_length is None else encoder.max_length
        return cls(prefix, suffix, max_length - len(prefix) - len(suffix))

    @property
    def size(self) -> int:
        return len(self.prefix) + len(self.suffix)

    def rows(self, token_ids: Sequence[np.ndarray], long: LongTextPolicy) -> tuple[list[np.ndarray], np.ndarray]:
        """The rows of all texts and the text index of each row; an overlong text has several."""
        rows: list[np.ndarray] = []
        text_ids: list[int] = []
        for text_index, ids in enumerate(token_ids):
            for start in range(0, len(ids) if long == "windows" else 1, self.max_text_tokens):
                window = ids[start : start + self.max_text_tokens]
                rows.append(np.concatenate((self.prefix, window, self.suffix)).astype(np.int64))
                text_ids.append(text_index)
        return rows, np.array(text_ids, np.int64)

    def inner(self, vectors: np.ndarray) -> np.ndarray:
        """The vectors without those of special tokens."""
        return vectors[len(self.prefix) : len(vectors) - len(self.suffix)]


def _pool(vectors: np.ndarray, pooling: Pooling) -> np.ndarray:
    if pooling == "mean":
        return vectors.mean(axis=0)
    return vectors.max(axis=0) if pooling == "max" else vectors[0 if pooling == "first" else -1]


def _normalize_if(vector: np.ndarray, normalise: bool) -> np.ndarray:
    return unit_rows(vector[None])[0] if normalise else vector


def _contextual_words(
    text: str, encoding: TokenEncoding, vectors: np.ndarray, normalise: bool
) -> Iterator[ContextualWord]:
    """Each word with the mean of its token vectors; Chinese is segmented, whitespace skipped."""
    from forebear.data.segmentation import Segmenter

    word_ends = np.array(Segmenter().word_ends(text), np.int64)
    token_starts, token_start = [], 0
    for start, end in encoding.spans[: len(vectors)]:
        if start < end:  # else a further byte of a character
            num_spaces = end - start - len(text[start:end].lstrip())  # byte-level tokens include the space before
            token_start = start + num_spaces if num_spaces < end - start else start
        token_starts.append(token_start)
    word_ids = np.searchsorted(word_ends, token_starts, side="right")
    for word_id in np.unique(word_ids).tolist():
        start, end = int(word_ends[word_id - 1]) if word_id else 0, int(word_ends[word_id])
        if text[start:end].strip():
            vector = _normalize_if(vectors[word_ids == word_id].mean(axis=0), normalise)
            yield ContextualWord(text[start:end], start, end, vector)


# --- Word vectors of a run ---

TOKEN_TABLE_TENSOR = "encoder.embedding.token.weight"


def is_word_table(run: LoadedRun) -> bool:
    """Whether the run is a table of word vectors (word2vec, GloVe, …), not adapted to a task."""
    return run.folder.spec.learning == "sweeping" and run.task is None


def has_word_vectors(run: LoadedRun) -> bool:
    """Whether the run has word vectors for its vocabulary."""
    return "analogy" in run.capabilities


def word_matcher(run: LoadedRun) -> WordMatcher:
    """The matcher of words in texts against the word vectors of the run."""
    from forebear.embeddings.word2vec_with_phrases import PhraseModel

    phrases = run.network.phrases if isinstance(run.network, PhraseModel) else None
    return WordMatcher(run.word_table, run.tokenizer, phrases)


def lexicon_for(run: LoadedRun) -> Lexicon:
    """Queries on the word vectors of a run; the search index is cached by its weights."""

    def index_path() -> Path:
        path = cache_folder() / "vectors" / f"{file_digest(run.folder.verified_weights()[0])[:32]}-words.usearch"
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    return Lexicon(run.word_table, word_matcher(run).find_words, index_path)


def word_vectors_of(run: LoadedRun) -> WordVectors:
    """The word vectors of a run; InputError if its tokens are not words."""
    tokenizer, path = run.tokenizer, run.folder.path
    if is_word_table(run):
        return run.network.word_table(tokenizer.vocabulary())
    if tokenizer.kind != "words":
        hint = "train with --tokenizer words; or search the sentences of a file: forebear neighbours --among FILE"
        raise InputError(f"its tokens are {tokenizer.kind}, not words", file=path, hint=hint)
    model = require_network(run)
    from forebear.nn.char_cnn import CharCNNEmbedding  # loads torch, which word tables do not need

    special_ids = tokenizer.special_ids
    ids = np.array([token_id for token_id in range(tokenizer.vocab_size) if token_id not in special_ids], np.int64)
    words = [tokenizer.id_to_token(token_id) for token_id in ids.tolist()]
    token_table = dict(run.network.named_parameters()).get(TOKEN_TABLE_TENSOR)
    if token_table is not None:
        return WordVectors(words, token_table.detach().float().numpy()[ids])
    embedding = model.encoder.embedding
    if not isinstance(embedding, CharCNNEmbedding):
        hint = "ask the run that it was made of, or one that was pretrained"
        raise InputError("has no table of words to be read", file=path, hint=hint)
    return WordVectors(words, embedding.word_table(ids), compose=embedding.embed_word)


# --- Embeddings by a run ---


def require_network(run: LoadedRun) -> Model:
    """The network of a run; InputError for count-based models."""
    if run.folder.spec.learning == "counting":
        hint = f"it can be asked to: {', '.join(run.capabilities)}"
        raise InputError("counts, and has no vectors", file=run.folder.path, hint=hint)
    return run.network


def embed_texts(run: LoadedRun, texts: Sequence[str], **options: Unpack[EmbeddingOptions]) -> TextEmbeddings:
    """Embed texts with the network of a run, or with its word vectors."""
    if is_word_table(run):
        return run.pooled_texts.embed_texts(texts, **resolve_embedding_options(run, **options))
    return embed_matrix(require_network(run), run.tokenizer, texts, **resolve_embedding_options(run, **options))


def embed_with_run(
    run: LoadedRun, texts: Sequence[str], *, words: bool = False, **options: Unpack[EmbeddingOptions]
) -> list[EmbeddedText]:
    """Embed texts and optionally their words with the network of a run, or with its word vectors."""
    if is_word_table(run):
        return run.pooled_texts.embed(texts, words=words, **resolve_embedding_options(run, **options))
    model, resolved = require_network(run), resolve_embedding_options(run, **options)
    return embed_with_words(model, run.tokenizer, texts, words=words, **resolved)


def resolve_embedding_options(
    run: LoadedRun,
    *,
    layers: LayerChoice | None = None,
    pooling: EmbeddingPooling | None = None,
    long: LongTextPolicy | None = None,
    normalise: bool = True,
    zeros: bool = False,
) -> dict[str, Any]:
    """Embedding options with defaults; InputError for options that do not apply to the run."""
    options: dict[str, Any] = {"pooling": "mean" if pooling is None else pooling, "normalise": normalise}
    if not is_word_table(run):
        if zeros:
            message = "zeros are for texts of which a table knows no word, and this is a network"
            raise InputError(message, file=run.folder.path, hint="leave out texts that are empty")
        return options | {"layers": -1 if layers is None else layers, "long": "windows" if long is None else long}
    for name, value in (("layers", layers), ("long", long)):
        if value is not None:
            message = f"--{name} means nothing to a table of words: it has no layers, and reads texts of any length"
            raise InputError(message, file=run.folder.path, hint="leave it out")
    return options | {"zeros": zeros}


# --- Pooled word vectors ---

SIF_A = 1e-3  # SIF parameter a: a word of this frequency has weight 1/2


class PooledTexts:
    """Text embeddings pooled from word vectors, each text independent of the others.

    SIF (Arora, Liang, Ma 2017, A Simple but Tough-to-Beat Baseline for Sentence Embeddings) weights a word of frequency
    p by a / (a + p) and removes the common component. The paper computes this component from the given texts, so that
    every vector depends on all others. Here it is the mean of all word vectors, weighted as above and by frequency: its
    cosine with the paper's was at least 0.995 on English and Chinese Wikipedia.
    """

    def __init__(self, matcher: WordMatcher) -> None:
        self.matcher, self.table = matcher, matcher.table

    @cached_property
    def weights(self) -> np.ndarray:
        """(N,) SIF weights."""
        if self.table.counts is None:
            hint = "choose --pooling mean, or a run that was trained here"
            raise InputError("sif needs to know how often words are seen, and nobody counted these", hint=hint)
        return (SIF_A / (SIF_A + self.table.counts / max(1, self.table.counts.sum()))).astype(np.float32)

    @cached_property
    def common_component(self) -> np.ndarray:
        """(D,) the common component as a unit vector."""
        assert self.table.counts is not None
        weighted_frequencies = self.weights * self.table.counts / max(1, self.table.counts.sum())
        component = np.zeros(self._width)
        for block in row_blocks(self.table.matrix):
            component += weighted_frequencies[block] @ self.table.matrix[block]
        return (component / max(float(np.linalg.norm(component)), MIN_NORM)).astype(np.float32)

    def embed_texts(
        self, texts: Sequence[str], pooling: EmbeddingPooling = "mean", normalise: bool = True, zeros: bool = False
    ) -> TextEmbeddings:
        """Embed each text; words without a vector count as truncated. With `zeros`, a text of only these is zero."""
        return self._embed_matches(self.matcher.match_words(texts), pooling, normalise, zeros)

    def embed(
        self, texts: Sequence[str], pooling: EmbeddingPooling, words: bool, normalise: bool, zeros: bool = False
    ) -> list[EmbeddedText]:
        """`embed_texts` with one result per text; with `words`, also the vectors of known words."""
        matches = self.matcher.match_words(texts, spans=words)
        embeddings = self._embed_matches(matches, pooling, normalise, zeros)
        words_by_text: Sequence[tuple[ContextualWord, ...] | None] = [None] * len(texts)
        if matches.spans is not None:
            rows_by_text = np.split(matches.rows, np.cumsum(matches.counts)[:-1])
            columns = zip(map(replace_surrogates, texts), rows_by_text, matches.spans, strict=True)
            words_by_text = [self._words(*fields, normalise) for fields in columns]
        return [EmbeddedText(*fields) for fields in zip(texts, *embeddings.columns, words_by_text, strict=True)]

    def _words(
        self, text: str, rows: np.ndarray, spans: list[tuple[int, int]], normalise: bool
    ) -> tuple[ContextualWord, ...]:
        vectors = self._vectors(rows[rows != NO_WORD])
        known_words = zip(compress(spans, rows != NO_WORD), unit_rows(vectors) if normalise else vectors, strict=True)
        return tuple(ContextualWord(text[start:end], start, end, vector) for (start, end), vector in known_words)

    def _embed_matches(
        self, matches: WordMatches, pooling: EmbeddingPooling, normalise: bool, zeros: bool
    ) -> TextEmbeddings:
        require_choice("pooling", pooling, get_args(EmbeddingPooling))
        is_known = matches.rows != NO_WORD
        rows, text_ids = matches.rows[is_known], matches.text_ids()[is_known]
        num_used = np.bincount(text_ids, minlength=len(matches.counts))
        has_words = num_used > 0
        if not zeros:
            reject_empty_texts(matches.counts)
            if not has_words.all():
                message, number = "none of this text's words has a vector", int(has_words.argmin()) + 1
                subwords = "a run with subwords, which has a vector for words with letter groups that it saw"
                raise InputError(message, line=number, hint=f"leave it out, or ask {subwords}")
        vectors = np.zeros((len(num_used), self._width), np.float32)
        if has_words.any():
            pooled_ids = (np.cumsum(has_words) - 1)[text_ids]
            vectors[has_words] = self._pool_rows(rows, pooled_ids, num_used[has_words], pooling)
        return TextEmbeddings(unit_rows(vectors) if normalise else vectors, num_used, matches.counts - num_used)

    def _pool_rows(
        self, rows: np.ndarray, text_ids: np.ndarray, num_used: np.ndarray, pooling: EmbeddingPooling
    ) -> np.ndarray:
        text_ends = np.cumsum(num_used)
        if pooling in ("first", "last"):
            return self._vectors(rows[text_ends - num_used if pooling == "first" else text_ends - 1])
        reduce_fn = np.maximum if pooling == "max" else np.add
        pooled = np.full((len(num_used), self._width), -np.inf if pooling == "max" else 0.0, np.float32)
        for token_slice in _token_slices(num_used.tolist(), max(1, VALUES_PER_BLOCK // self._width)):
            block, block_ids = self._vectors(rows[token_slice]), text_ids[token_slice]
            if pooling == "sif":
                block *= self._weights(rows[token_slice])[:, None]
            starts = np.flatnonzero(np.diff(block_ids, prepend=-1))
            block_pooled = reduce_fn.reduceat(block, starts)
            pooled[block_ids[starts]] = reduce_fn(pooled[block_ids[starts]], block_pooled)
        if pooling != "max":
            pooled /= num_used[:, None].astype(np.float32)
        if pooling == "sif":
            pooled -= np.einsum("nd,d->n", pooled, self.common_component)[:, None] * self.common_component
        return pooled

    def _weights(self, rows: np.ndarray) -> np.ndarray:
        """SIF weights by row; composed words have weight 1."""
        known_rows = np.minimum(rows, len(self.weights) - 1)
        return np.where(rows < len(self.weights), self.weights[known_rows], np.float32(1))

    def _vectors(self, rows: np.ndarray) -> np.ndarray:
        """(n, D) vectors by row; rows beyond the table are composed words."""
        vectors, in_table = np.empty((len(rows), self._width), np.float32), rows < len(self.table.words)
        vectors[in_table] = self.table.matrix[rows[in_table]]
        for index in np.flatnonzero(~in_table).tolist():
            vectors[index] = self.matcher.composed_vectors[rows[index] - len(self.table.words)]
        return vectors

    @property
    def _width(self) -> int:
        return self.table.matrix.shape[1]


def _token_slices(counts: Sequence[int], max_tokens: int) -> Iterator[slice]:
    """Slices of up to `max_tokens` words of complete texts; longer texts are split independently of the others."""
    start = end = 0
    for count in counts:
        if end > start and end + count - start > max_tokens:
            yield slice(start, end)
            start = end
        end += count
        while end - start > max_tokens:
            yield slice(start, start + max_tokens)
            start += max_tokens
    if end > start:
        yield slice(start, end)
