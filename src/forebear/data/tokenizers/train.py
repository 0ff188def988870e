"""Training tokenizers on text or a sample of it, and extending the vocabulary of a tokenizer."""

from __future__ import annotations

import copy
import hashlib
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from forebear.data.segmentation import Segmenter, has_han
from forebear.data.tokenizers import bpe, build_vocabulary, char_level, tokenizer_json, word_level, wordpiece
from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.data.tokenizers.tokenizer_json import BERT_SPECIALS, GPT2_SPECIALS, TokenizerSpec, make_normalizer
from forebear.data.tokenizers.word_level import segmenter_spec
from forebear.errors import InputError

if TYPE_CHECKING:
    from forebear.data.corpus.single_pass import SinglePassText

MAX_TRAINING_CHARACTERS = 200_000_000
AUTO_SEGMENTER = "automatic"
SAMPLE_BLOCK = 1 << 16  # characters sampled as a unit, so that a single huge text can be sampled


class TrainingSample:
    """Iterates over the training texts, or a sample of them, and counts characters.

    If the total exceeds `limit` characters, blocks are sampled by a hash of their content, independently of the order
    of texts. Without a known total, the first `limit` characters are taken.
    """

    def __init__(self, texts: Iterable[str], limit: int, total: int | None) -> None:
        if limit < 1:
            raise InputError(f"a limit of {limit} characters leaves nothing to learn from", hint="give a limit above 0")
        self._texts, self._limit, self._total = texts, limit, total
        self.num_texts = self.num_seen = self.num_taken = 0
        self._strategy = "all"

    def __iter__(self) -> Iterator[str]:
        rate = 1.0 if self._total is None else self._limit / max(self._total, 1)
        for text in self._texts:
            self.num_texts += 1
            self.num_seen += len(text)
            if rate < 1:
                self._strategy = "by hash of content"
                for start in range(0, len(text), SAMPLE_BLOCK):
                    block = text[start : start + SAMPLE_BLOCK]
                    digest = hashlib.blake2b(block.encode("utf-8", "surrogatepass"), digest_size=8).digest()
                    if not self.num_taken or int.from_bytes(digest) / (1 << 64) < rate:
                        self.num_taken += len(block)
                        yield block
                continue
            if self._total is None and self.num_taken + len(text) > self._limit:
                self._strategy = "the beginning"
                text = text[: self._limit - self.num_taken]
            self.num_taken += len(text)
            yield text
            if self._strategy == "the beginning":
                return

    def report(self) -> dict[str, Any]:
        """Metadata of the sample; `of` is None if the end of the text was not reached."""
        total = None if self._strategy == "the beginning" else self.num_seen
        counts = {"characters": self.num_taken, "of": total, "texts": self.num_texts}
        return {**counts, "sample": self._strategy, "limit": self._limit}


# Default vocabulary size (None: unlimited) and minimum count of an entry.
DEFAULT_SIZES: dict[str, tuple[int | None, int]] = {
    "words": (50_000, 1), "characters": (None, 1), "wordpiece": (30_000, 2), "bytepair": (16_000, 2),
}  # fmt: skip


def train_tokenizer(
    kind: str,
    texts: Iterable[str],
    *,
    size: int | None = None,
    min_count: int | None = None,
    lower: bool | None = None,
    normalise: Sequence[str] = (),
    split: str = "punctuation",
    segmenter: Segmenter | str | None = AUTO_SEGMENTER,
    specials: Mapping[str, str] | None = None,
    limit: int = MAX_TRAINING_CHARACTERS,
    total_characters: int | None = None,
    single_pass: SinglePassText | None = None,
) -> Tokenizer:
    """Train a tokenizer of one of the four kinds; the same texts give the same file.

    Args:
        kind: words, characters, wordpiece or bytepair.
        size: Entries of the vocabulary; None: the default of the kind.
        min_count: Minimum count of an entry; None: the default of the kind.
        lower: Whether to lowercase; None: for WordPiece only, as BERT does.
        split: How words are split: punctuation or spaces.
        segmenter: Segmenter of Chinese words; automatic: the default one, unless words are split at spaces.
        specials: Role → special token; ids from 0 in this order.
        limit: Size of the sample that is taken from longer texts, in characters.
        total_characters: Characters of the texts, if known.
        single_pass: The source of `texts`, which counts words split at spaces while they are read.
    """
    if kind not in DEFAULT_SIZES:
        raise InputError(f"no kind of tokenizer named {kind!r}", hint=f"the kinds are: {', '.join(DEFAULT_SIZES)}")
    for name, value in (("size", size), ("min_count", min_count)):
        if value is not None and value < 1:
            raise InputError(f"{name} is {value}", hint=f"give a {name} above 0")
    special_tokens = dict(specials if specials is not None else GPT2_SPECIALS if kind == "bytepair" else BERT_SPECIALS)
    min_size = len(set(special_tokens.values())) + (256 if kind == "bytepair" else 1)
    if size is not None and size < min_size:
        raise InputError(f"size is {size}", hint=f"{kind} needs at least {min_size}, of which some are special tokens")
    make_normalizer(normalise)  # raises for an unknown step before any work is done
    if kind != "wordpiece" and lower and "lower" not in normalise:
        normalise = (*normalise, "lower")
    default_size, default_count = DEFAULT_SIZES[kind]
    sample = TrainingSample(texts, limit, total_characters)
    training = _Training(sample, size or default_size, min_count or default_count, special_tokens, tuple(normalise))
    if kind == "words":
        tokenizer = _train_words(training, split, segmenter, single_pass)
    elif kind == "characters":
        tokens, settings = training.order(char_level.count_characters(sample, normalise))
        tokenizer = Tokenizer(char_level.char_spec(tokens, **settings))
    elif kind == "wordpiece":
        lower = "lower" in normalise or lower is not False
        counts = wordpiece.count_wordpiece_words(sample, lower=lower, normalise=normalise)
        tokens = wordpiece.train_wordpiece(counts, specials=special_tokens, **training.limits)
        tokenizer = Tokenizer(wordpiece.wordpiece_spec(tokens, lower=lower, **training.settings()))
    else:
        vocab, merges = bpe.train_bpe(sample, specials=special_tokens, normalise=normalise, **training.limits)
        tokenizer = Tokenizer(bpe.bpe_spec(vocab, merges, **training.settings()))
    if not sample.num_taken:
        raise InputError("there is no text to learn a tokenizer from", hint="check the paths, --format and --encoding")
    return tokenizer


@dataclass(frozen=True)
class _Training:
    """A sample of text, and the training settings that all kinds of tokenizers share."""

    sample: TrainingSample
    size: int | None
    min_count: int
    specials: dict[str, str]
    normalise: tuple[str, ...]

    @property
    def limits(self) -> dict[str, Any]:
        return {"size": self.size, "min_count": self.min_count}

    def settings(self, coverage: float | None = None) -> dict[str, Any]:
        """The arguments that all specifications take, once the sample has been read."""
        metadata = self.sample.report() | {"min_count": self.min_count, "size_asked": self.size}
        if coverage is not None:
            metadata["coverage"] = round(coverage, 6)
        return {"specials": self.specials, "normalise": self.normalise, "metadata": {"trained": metadata}}

    def order(self, counts: Mapping[str, int]) -> tuple[list[str], dict[str, Any]]:
        """The vocabulary in id order, and the settings."""
        tokens = build_vocabulary.order_vocabulary(counts, specials=self.specials.values(), **self.limits)
        return tokens, self.settings(build_vocabulary.coverage(counts, tokens))


def _train_words(
    training: _Training, split: str, segmenter: Segmenter | str | None, single_pass: SinglePassText | None
) -> Tokenizer:
    is_given = isinstance(segmenter, Segmenter)
    if not isinstance(segmenter, Segmenter):
        segmenter = Segmenter() if segmenter == AUTO_SEGMENTER and split != "spaces" else None
    if split == "spaces" and segmenter is None and not training.normalise:
        return _train_whitespace_words(training, single_pass)
    assert single_pass is None
    normalise = training.normalise
    counts, is_segmented = word_level.count_words(
        training.sample, split=split, normalise=normalise, segmenter=segmenter
    )
    tokens, settings = training.order(counts)
    segmenter = segmenter if is_segmented or is_given else None
    return Tokenizer(word_level.word_tokenizer_spec(tokens, split=split, segmenter=segmenter, **settings))


def _train_whitespace_words(training: _Training, single_pass: SinglePassText | None) -> Tokenizer:
    """Train a whitespace tokenizer; the counted words fill its token cache."""
    if single_pass is None:
        word_counts = build_vocabulary.WordCounts.from_texts(training.sample, " " + word_level.WORD_SEPARATORS)
    else:
        deque(training.sample, maxlen=0)  # `single_pass` counts the words while the texts are read
        word_counts = single_pass.word_counts
    if (split_counts := word_level.split_counts(word_counts)) is not None:
        tokens, settings = training.order(split_counts)
        return Tokenizer(word_level.word_tokenizer_spec(tokens, split="spaces", **settings))
    tokens, ids = word_counts.order_by_frequency(specials=training.specials.values(), **training.limits)
    coverage = int(word_counts.counts[ids >= 0].sum()) / total if (total := int(word_counts.counts.sum())) else 1.0
    tokenizer = Tokenizer(word_level.word_tokenizer_spec(tokens, split="spaces", **training.settings(coverage)))
    if single_pass is None:
        tokenizer.preload_cache(word_counts.words, ids)
    else:
        single_pass.ids = ids
    return tokenizer


# --- Adding words to a vocabulary ---

EXTENDABLE_KINDS = ("words", "characters", "wordpiece")  # their vocabularies are plain lists


def missing_words(tokenizer: Tokenizer, texts: Sequence[str], min_count: int) -> list[str]:
    """Out-of-vocabulary words with at least `min_count` occurrences in these texts, the most frequent first.

    Only words that the tokenizer could produce, and none for tokenizers without unknown words.
    """
    if tokenizer.unk_id is None or tokenizer.kind not in EXTENDABLE_KINDS:
        return []
    ids, counts = tokenizer.encode_many(texts)
    text_ids = np.repeat(np.arange(len(texts)), counts)
    missing_counts: Counter[str] = Counter()
    for index in np.unique(text_ids[ids == tokenizer.unk_id]):
        text = texts[int(index)]
        encoding = tokenizer.encode(text)
        spans = zip(encoding.ids.tolist(), encoding.spans, strict=True)
        missing_counts.update(text[begin:end] for i, (begin, end) in spans if i == tokenizer.unk_id)
    frequent = sorted(word for word, count in missing_counts.items() if count >= min_count)
    frequent.sort(key=missing_counts.__getitem__, reverse=True)  # stable: ties stay in text order
    return [word for word in frequent if tokenizer.encode(word).ids.tolist() == [tokenizer.unk_id]]


def extend_vocabulary(
    tokenizer: Tokenizer, words: Iterable[str], *, are_from_text: bool = False, segmenter: Segmenter | None = None
) -> tuple[Tokenizer, dict[str, list[int]]]:
    """The tokenizer with these words appended, and for each new one the ids of the pieces that encoded it before.

    Existing tokens stay. Raise InputError for a word that pre-tokenization splits (at a space, or between two Chinese
    characters), as it would never be looked up; words that `are_from_text`, found by such a tokenizer, are accepted
    even if the segmenter splits them in isolation. With its first Chinese words, the tokenizer gets `segmenter`.
    """
    words = list(words)
    if not words:
        return tokenizer, {}
    if tokenizer.kind not in EXTENDABLE_KINDS:
        message = f"words cannot be added to a tokenizer of the kind {tokenizer.kind!r}"
        raise InputError(message, hint="it spells every word already: train on without adding any")
    spec: TokenizerSpec = copy.deepcopy(tokenizer.spec)
    pre_tokenizer = spec["pre_tokenizer"] or {"type": "WhitespaceSplit"}
    normalize, pretokenize = tokenizer_json.preprocessing_steps(spec["normalizer"], pre_tokenizer)
    vocabulary, new_words = spec["model"]["vocab"], {}
    for word in words:
        pretokens = list(normalize(word)) if tokenizer.kind == "characters" else pretokenize(word)
        if len(pretokens) != 1:
            message = f"{word!r} is cut into {len(pretokens)} parts before the vocabulary is asked"
            raise InputError(message, hint="add words without spaces and punctuation, and Han one by one")
        if pretokens[0] not in vocabulary:
            new_words[pretokens[0]] = tokenizer.encode(word).ids.tolist()
            vocabulary[pretokens[0]] = len(vocabulary)
    lacks_segmenter = tokenizer.segmenter is None and tokenizer.split != "spaces"
    if segmenter is not None and lacks_segmenter and any(map(has_han, new_words)):
        spec["model"]["forebear"]["segmenter"] = segmenter_spec(segmenter)
    extended = Tokenizer(spec) if new_words else tokenizer
    for word in () if are_from_text else new_words:
        if len(extended.encode(word).ids) != 1:
            message = f"{word!r} is cut by the segmenter before the vocabulary is asked"
            raise InputError(message, hint="add words as the segmenter finds them, or leave it out")
    return extended, new_words
