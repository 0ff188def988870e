"""Training tokenizers on text or a sample of it, and extending the vocabulary of a tokenizer."""

from __future__ import annotations

import copy
import hashlib
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from forebear.data.segmentation import Segmenter, has_han
from forebear.data.tokenizers import bpe, char_level, vocabulary, word_level, wordpiece
from forebear.data.tokenizers import tokenizer_json as blueprints
from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.data.tokenizers.tokenizer_json import BERT_SPECIALS, GPT2_SPECIALS, TokenizerSpec, make_normalizer
from forebear.data.tokenizers.word_level import segmenter_spec
from forebear.errors import InputError

if TYPE_CHECKING:
    from forebear.data.corpus.prepare import SinglePassText

MAX_TRAINING_CHARACTERS = 200_000_000
AUTO_SEGMENTER = "automatic"
SAMPLE_BLOCK = 1 << 16  # characters; texts are sampled in blocks of at most this, so that one huge text is sampled too


class TrainingSample:
    """Iterates over the training texts, or a sample of them, and counts characters.

    If the total exceeds `limit` characters, blocks are sampled by a hash of their content, independently of the order
    of texts. Without a known total, the first `limit` characters are taken, as the report says.
    """

    def __init__(self, texts: Iterable[str], limit: int, total: int | None) -> None:
        if limit < 1:
            raise InputError(f"a limit of {limit} characters leaves nothing to learn from", hint="give a limit above 0")
        self._texts, self._limit, self._total = texts, limit, total
        self.num_texts = self.num_seen = self.num_taken = 0
        self._how = "all"

    def __iter__(self) -> Iterator[str]:
        rate = 1.0 if self._total is None else self._limit / max(self._total, 1)
        for text in self._texts:
            self.num_texts += 1
            self.num_seen += len(text)
            if rate < 1:
                self._how = "by hash of content"
                for begin in range(0, len(text), SAMPLE_BLOCK):
                    block = text[begin : begin + SAMPLE_BLOCK]
                    if not self.num_taken or _content_fraction(block) < rate:
                        self.num_taken += len(block)
                        yield block
            elif self._total is None and self.num_taken + len(text) > self._limit:
                self._how = "the beginning"
                text = text[: self._limit - self.num_taken]
                self.num_taken += len(text)
                yield text
                return
            else:
                self.num_taken += len(text)
                yield text

    def report(self) -> dict[str, Any]:
        """Metadata of the sample; `of` is None if the end of the text was not reached."""
        total = None if self._how == "the beginning" else self.num_seen
        return {
            "characters": self.num_taken,
            "of": total,
            "texts": self.num_texts,
            "sample": self._how,
            "limit": self._limit,
        }


def _content_fraction(text: str) -> float:
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") / (1 << 64)


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
    once: SinglePassText | None = None,
) -> Tokenizer:
    """Train a tokenizer of one of the four kinds; the same texts give the same file.

    None stands for the kind's own number. `lower` is BERT's switch for WordPiece (on unless told otherwise) and the
    step "lower" for the others (off). `split` and `segmenter` concern words: Chinese is cut by `segmenter`, by a
    plain one unless told otherwise, by none for None. `specials` is role → token, ids from 0 in that order. Where
    spaces part words, `once` may pass the texts and count them on their way.
    """
    trainers = {
        "words": _train_word_tokenizer,
        "characters": _train_char_tokenizer,
        "wordpiece": _train_wordpiece_tokenizer,
        "bytepair": _train_bpe_tokenizer,
    }
    if kind not in trainers:
        raise InputError(f"no kind of tokenizer named {kind!r}", hint=f"the kinds are: {', '.join(trainers)}")
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
    sample = TrainingSample(texts, limit, total_characters)
    options = {"size": size, "min_count": min_count, "specials": special_tokens, "normalise": tuple(normalise)}
    if kind == "words":
        options |= {"split": split, "segmenter": segmenter, "once": once}
    if kind == "wordpiece":
        options["lower"] = "lower" in normalise or lower is not False
    tokenizer = trainers[kind](sample, **options)
    if not sample.num_taken:
        raise InputError("there is no text to learn a tokenizer from", hint="check the paths, --format and --encoding")
    return tokenizer


def _training_metadata(
    sample: TrainingSample, min_count: int, size: int | None, coverage: float | None = None
) -> dict[str, Any]:
    metadata = sample.report() | {"min_count": min_count, "size_asked": size}
    if coverage is not None:
        metadata["coverage"] = round(coverage, 6)
    return {"trained": metadata}


def _train_word_tokenizer(
    sample: TrainingSample,
    *,
    size: int | None,
    min_count: int | None,
    specials: dict[str, str],
    normalise: tuple[str, ...],
    split: str,
    segmenter: Segmenter | str | None,
    once: SinglePassText | None,
) -> Tokenizer:
    size, min_count = size or word_level.WORD_VOCAB_SIZE, min_count or word_level.WORD_MIN_COUNT
    cutter = segmenter if isinstance(segmenter, Segmenter) else None
    if segmenter == AUTO_SEGMENTER and split != "spaces":
        cutter = Segmenter()
    if split == "spaces" and cutter is None and not normalise:
        return _train_whitespace_tokenizer(sample, size, min_count, specials, once)
    assert once is None
    counts, segmented = word_level.count_words(sample, split=split, normalise=normalise, segmenter=cutter)
    kept = vocabulary.order_vocabulary(counts, specials=specials.values(), size=size, min_count=min_count)
    blueprint = word_level.word_tokenizer_spec(
        kept,
        specials=specials,
        normalise=normalise,
        split=split,
        segmenter=cutter if segmented or isinstance(segmenter, Segmenter) else None,
        facts=_training_metadata(sample, min_count, size, vocabulary.coverage(counts, kept)),
    )
    return Tokenizer(blueprint)


def _train_whitespace_tokenizer(
    sample: TrainingSample, size: int, min_count: int, specials: dict[str, str], once: SinglePassText | None
) -> Tokenizer:
    """Train a whitespace tokenizer; the counted words fill its token cache."""
    spec_options: dict[str, Any] = {"specials": specials, "normalise": (), "split": "spaces"}
    if once is None:
        counted = word_level.count_whitespace_words(sample)
    else:
        deque(sample, maxlen=0)  # exhausts the texts, which are counted on the way
        counted = once.word_counts
    if not word_level.are_plain_words(counted.words):
        counts = word_level.split_counts(counted, "spaces")
        tokens = vocabulary.order_vocabulary(counts, specials=specials.values(), size=size, min_count=min_count)
        facts = _training_metadata(sample, min_count, size, vocabulary.coverage(counts, tokens))
        return Tokenizer(word_level.word_tokenizer_spec(tokens, segmenter=None, facts=facts, **spec_options))
    tokens, ids = counted.order_by_frequency(specials=specials.values(), size=size, min_count=min_count)
    coverage = int(counted.counts[ids >= 0].sum()) / total if (total := int(counted.counts.sum())) else 1.0
    facts = _training_metadata(sample, min_count, size, coverage)
    tokenizer = Tokenizer(word_level.word_tokenizer_spec(tokens, segmenter=None, facts=facts, **spec_options))
    if once is None:
        tokenizer.preload_cache(counted.words, ids)
    else:
        once.ids = ids
    return tokenizer


def _train_char_tokenizer(
    sample: TrainingSample,
    *,
    size: int | None,
    min_count: int | None,
    specials: dict[str, str],
    normalise: tuple[str, ...],
) -> Tokenizer:
    min_count = min_count or char_level.CHAR_MIN_COUNT
    counts = char_level.count_characters(sample, normalise)
    tokens = vocabulary.order_vocabulary(counts, specials=specials.values(), size=size, min_count=min_count)
    facts = _training_metadata(sample, min_count, size, vocabulary.coverage(counts, tokens))
    return Tokenizer(char_level.char_spec(tokens, specials=specials, normalise=normalise, facts=facts))


def _train_wordpiece_tokenizer(
    sample: TrainingSample,
    *,
    size: int | None,
    min_count: int | None,
    specials: dict[str, str],
    normalise: tuple[str, ...],
    lower: bool,
) -> Tokenizer:
    size, min_count = size or wordpiece.WORDPIECE_VOCAB_SIZE, min_count or wordpiece.WORDPIECE_MIN_COUNT
    counts = wordpiece.count_wordpiece_words(sample, lower=lower, normalise=normalise)
    tokens = wordpiece.train_wordpiece(counts, size=size, min_count=min_count, specials=specials)
    facts = _training_metadata(sample, min_count, size)
    return Tokenizer(wordpiece.wordpiece_spec(tokens, specials=specials, lower=lower, normalise=normalise, facts=facts))


def _train_bpe_tokenizer(
    sample: TrainingSample,
    *,
    size: int | None,
    min_count: int | None,
    specials: dict[str, str],
    normalise: tuple[str, ...],
) -> Tokenizer:
    size, min_count = size or bpe.BPE_VOCAB_SIZE, min_count or bpe.BPE_MIN_COUNT
    vocab, merges = bpe.train_bpe(sample, size=size, min_count=min_count, specials=specials, normalise=normalise)
    facts = _training_metadata(sample, min_count, size)
    return Tokenizer(bpe.bpe_spec(vocab, merges, specials=specials, normalise=normalise, facts=facts))


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
    frequent = sorted(
        (word for word, count in missing_counts.items() if count >= min_count),
        key=lambda word: (-missing_counts[word], word),
    )
    return [word for word in frequent if tokenizer.encode(word).ids.tolist() == [tokenizer.unk_id]]


def extend_vocabulary(
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
    if tokenizer.kind not in EXTENDABLE_KINDS:
        message = f"words cannot be added to a tokenizer of the kind {tokenizer.kind!r}"
        raise InputError(message, hint="it spells every word already: train on without adding any")
    spec: TokenizerSpec = copy.deepcopy(tokenizer.spec)
    normalize, split_pretokens = blueprints.preprocessing_steps(
        spec["normalizer"], spec["pre_tokenizer"] or {"type": "WhitespaceSplit"}
    )
    split_pretokens = (lambda text: list(normalize(text))) if tokenizer.kind == "characters" else split_pretokens
    vocabulary, new_words = spec["model"]["vocab"], {}
    for word in words:
        pretokens = split_pretokens(word)
        if len(pretokens) != 1:
            message = f"{word!r} is cut into {len(pretokens)} parts before the vocabulary is asked"
            raise InputError(message, hint="add words without spaces and punctuation, and Han one by one")
        if pretokens[0] not in vocabulary:
            new_words[pretokens[0]] = tokenizer.encode(word).ids.tolist()
            vocabulary[pretokens[0]] = len(vocabulary)
    if (
        segmenter is not None
        and tokenizer.segmenter is None
        and tokenizer.split != "spaces"
        and any(map(has_han, new_words))
    ):
        spec["model"]["forebear"]["segmenter"] = segmenter_spec(segmenter)
    extended = Tokenizer(spec) if new_words else tokenizer
    for word in () if found else new_words:
        if len(extended.encode(word).ids) != 1:
            message = f"{word!r} is cut by the segmenter before the vocabulary is asked"
            raise InputError(message, hint="add words as the segmenter finds them, or leave it out")
    return extended, new_words
