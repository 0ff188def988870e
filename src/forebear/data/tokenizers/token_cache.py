"""Token cache: each distinct pretoken is encoded by Rust once and then looked up.

A rule says where a text may be split so that the tokens of its parts are the tokens of the whole. It splits only where
that is certain, and may leave longer pretokens; the reference is `Tokenizer.encode_many_reference`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from forebear.data.tokenizers.offsets import (
    flatten_ints,
    last_characters,
    sum_by_index,
    text_lengths,
    token_offsets,
    unknown_bytes,
)
from forebear.data.tokenizers.pretokens import PretokenIndex, PretokenLookup, WhitespaceWords
from forebear.data.tokenizers.tokenizer_json import NORMALIZE_STEPS, TokenizerSpec, bert_normalizer, make_normalizer
from forebear.data.tokenizers.word_level import WORD_SEPARATORS, WORD_SPLITS, is_plain_word, word_pretokenizer
from forebear.data.tokenizers.wordpiece import BERT_CJK_BLOCKS
from forebear.kernels.char_classes import CLASS_GAP, CLASS_RUN, CLASS_SINGLE

if TYPE_CHECKING:
    import tokenizers

# The cache is cleared at this size, which keeps it below about 80 MB.
MAX_PRETOKENS, MAX_CHARACTERS = 1 << 18, 1 << 23

ASCII_PUNCTUATION = "!\"#$%&'()*+,-./:;<=>?@[\\]^`{|}~"
CHINESE_PUNCTUATION = "，。、；：？！（）《》〈〉「」『』【】“”‘’…—·"


class PretokenRule(NamedTuple):
    """Where a text may be split: a class for each code point, and optionally additional boundaries."""

    classes: np.ndarray  # (0x110000,) CLASS_RUN, CLASS_GAP or CLASS_SINGLE
    extra_boundaries: Callable[[np.ndarray], np.ndarray] | None = None  # code points → True where a pretoken starts
    words: WordVocabulary | None = None  # if every plain pretoken is one token
    separators: str = ""  # the only separators of pretokens, if the rule needs nothing else


class WordVocabulary(NamedTuple):
    """Word → id, special tokens (which no text can contain), the id of unknown words, and the word split."""

    ids: Mapping[str, int]
    special_tokens: frozenset[str]
    unk_id: int
    word_split: str

    def is_plain(self, pretoken: str) -> bool:
        return is_plain_word(pretoken, self.word_split)

    def id_of(self, word: str) -> int:
        return self.unk_id if word in self.special_tokens else self.ids.get(word, self.unk_id)


def pretoken_rule(spec: TokenizerSpec) -> PretokenRule | None:
    """The rule for a specification; None if a detail of it is unsupported, so that only the uncached path is exact."""
    if not all(token["special"] for token in spec["added_tokens"]):
        return None
    normalizer, pre_tokenizer, model = spec["normalizer"], spec["pre_tokenizer"], spec["model"]
    if pre_tokenizer is None or model.get("dropout"):
        return None
    if model["type"] == "WordPiece" and pre_tokenizer == {"type": "BertPreTokenizer"}:
        if normalizer not in (bert_normalizer(lower=True), bert_normalizer(lower=False)):
            return None
        # BERT splits at white space and separates punctuation and Chinese characters in any context.
        rule = _character_rule(" \t\n\r", ASCII_PUNCTUATION + "_" + CHINESE_PUNCTUATION)
        for first, last in BERT_CJK_BLOCKS:
            rule.classes[first : last + 1] = CLASS_SINGLE
        return rule
    if model["type"] == "WordLevel":
        word_split = next((split for split in WORD_SPLITS if pre_tokenizer == word_pretokenizer(split)), None)
        steps = model["forebear"].get("normalise", ())
        if word_split is None or not set(steps) <= set(NORMALIZE_STEPS) or normalizer != make_normalizer(steps):
            return None
        # Words end at spaces, line ends and separators; punctuation is separate unless a normalizer may merge it.
        splits_punctuation = word_split == "punctuation" and set(steps) <= {"lower"}
        single_characters = ASCII_PUNCTUATION + CHINESE_PUNCTUATION if splits_punctuation else ""
        rule = _character_rule(" " + WORD_SEPARATORS, single_characters)
        if word_split == "spaces" and model["forebear"].get("segmenter") is None:
            rule = rule._replace(separators=" " + WORD_SEPARATORS)
        vocabulary, unk_token = model["vocab"], model.get("unk_token")
        if steps or unk_token not in vocabulary:
            return rule
        special_tokens = frozenset({token["content"] for token in spec["added_tokens"]} | {unk_token})
        return rule._replace(words=WordVocabulary(vocabulary, special_tokens, vocabulary[unk_token], word_split))
    byte_level = pre_tokenizer["type"] == "ByteLevel" and pre_tokenizer.get("use_regex", True)
    if model["type"] == "BPE" and byte_level and not pre_tokenizer["add_prefix_space"] and normalizer is None:
        return PretokenRule(np.full(0x110000, CLASS_RUN, np.int8), _gpt2_boundaries)
    return None


def _character_rule(separators: str, single_characters: str) -> PretokenRule:
    """A rule with characters that separate pretokens, and characters that are single pretokens."""
    classes = np.full(0x110000, CLASS_RUN, np.int8)
    classes[list(map(ord, separators))] = CLASS_GAP
    classes[list(map(ord, single_characters))] = CLASS_SINGLE
    return PretokenRule(classes)


SPACE, WHITESPACE, LETTER, PUNCTUATION = 1, 2, 4, 8


@cache
def _gpt2_classes() -> np.ndarray:
    """Character classes of GPT-2's pattern; ambiguous characters count as whitespace, which only splits less."""
    classes = np.zeros(0x110000, np.uint8)
    for code in range(0x3001):
        if chr(code).isspace() or 0x2000 <= code <= 0x200F or code == 0x180E:
            classes[code] = WHITESPACE
    classes[[code for code in range(128) if chr(code).isalpha()]] = LETTER
    classes[[ord(character) for character in ASCII_PUNCTUATION]] = PUNCTUATION
    classes[ord(" ")] = SPACE | WHITESPACE
    return classes


def _gpt2_boundaries(codes: np.ndarray) -> np.ndarray:
    """GPT-2's pattern never joins a character with a following space, nor a letter with following punctuation."""
    classes = _gpt2_classes().take(codes)
    current, previous = classes[1:], classes[:-1]
    is_boundary = np.zeros(len(codes), bool)
    is_boundary[1:] = ((current & SPACE) > 0) & ((previous & WHITESPACE) == 0)
    is_boundary[1:] |= ((current & PUNCTUATION) > 0) & ((previous & LETTER) > 0)
    return is_boundary


NO_OFFSETS = partial(np.zeros, 0, np.int64)


@dataclass(frozen=True, slots=True)
class EncodedBatch:
    """The tokens of many texts; offsets are over all texts, each followed by one separator character."""

    ids: np.ndarray  # of all texts, concatenated
    counts: np.ndarray  # tokens of each text
    unknown_bytes: np.ndarray  # bytes of each text that became unknown tokens
    is_word_start: np.ndarray | None = None  # of each token, if word ends were given
    first_offsets: np.ndarray = field(default_factory=NO_OFFSETS)  # of the first character of each token, if requested
    last_offsets: np.ndarray = field(default_factory=NO_OFFSETS)


class TokenCache:
    """Caches, for each pretoken, its ids, its unknown bytes, and the first and last character of each token.

    `load_backend` returns the library's tokenizer on demand, as a large vocabulary takes time to load. `unk_id` is the
    id of unknown tokens, or an id that no token has.

    Several threads may use one cache: a lock admits one at a time. A call that fails or is interrupted leaves
    `_is_consistent` False, and the next call starts with an empty cache.
    """

    def __init__(self, load_backend: Callable[[], tokenizers.Tokenizer], rule: PretokenRule, unk_id: int) -> None:
        self._load_backend, self._rule, self._unk_id = load_backend, rule, unk_id
        num_words = 0 if rule.words is None else len(rule.words.ids)
        # More than the words of a large vocabulary, so that it is not cleared repeatedly.
        self._max_pretokens = max(MAX_PRETOKENS, num_words + num_words // 4)
        self._lock = threading.Lock()
        self._clear()
        self._is_consistent = True

    def _clear(self) -> None:
        separators = self._rule.separators
        self._pretokens = WhitespaceWords(separators) if separators else PretokenIndex(self._rule.classes)
        self._are_single = True  # so far, each pretoken is one token
        # By pretoken: the position of its first token, and its counts; by token: ids and offsets.
        self._token_starts, self._token_counts, self._unknown_bytes = (_GrowableArray() for _ in range(3))
        self._ids, self._first_offsets, self._last_offsets = (_GrowableArray() for _ in range(3))

    @contextmanager
    def _hold_lock(self) -> Iterator[None]:
        """Admit one thread at a time, with a cache that is cleared if it is full or inconsistent after a failure."""
        with self._lock:
            was_consistent, self._is_consistent = self._is_consistent, False
            is_full = len(self._pretokens) > self._max_pretokens or self._pretokens.characters > MAX_CHARACTERS
            if is_full or not was_consistent:
                self._clear()
            yield
            self._is_consistent = True

    @property
    def splits_on_whitespace_only(self) -> bool:
        """Whether words are found by their bytes, without splitting in Python."""
        return bool(self._rule.separators)

    def preload(self, words: WhitespaceWords, ids: np.ndarray) -> None:
        """Start with these words, each of which is one token with this id."""
        assert self._rule.separators
        with self._hold_lock():
            self._clear()
            self._pretokens = words
            char_lengths, byte_lengths = words.word_lengths()
            unknown_sizes = np.where(ids == self._unk_id, byte_lengths, 0)
            first, last = np.zeros(len(ids), np.int32), np.maximum(char_lengths - 1, 0)
            self._append(np.ones(len(ids), np.int32), unknown_sizes, ids, first, last)

    def encode_many(
        self, texts: Sequence[str], boundaries: np.ndarray | None = None, *, with_offsets: bool = False
    ) -> EncodedBatch:
        """Encode all texts; `boundaries` are additional split positions, as offsets over all texts."""
        with self._hold_lock():
            if isinstance(self._pretokens, WhitespaceWords):
                assert boundaries is None
                lookup = self._pretokens.look_up_texts(texts, with_starts=with_offsets)
            else:
                lookup = self._pretokens.look_up_texts(texts, boundaries, self._rule.extra_boundaries)
            self._add_pretokens(lookup.new_pretokens)
            if self._are_single and not with_offsets:
                return self._single_token_batch(lookup)
            pretoken_ids, ends = lookup.ids, lookup.ends
            token_counts = self._token_counts.array[pretoken_ids]
            cumulative = np.concatenate(([0], np.cumsum(token_counts)))
            shifts = self._token_starts.array[pretoken_ids] - cumulative[:-1]
            token_indices = np.arange(cumulative[-1]) + np.repeat(shifts, token_counts)
            counts = np.diff(cumulative[ends], prepend=0).astype(np.int32)
            cumulative_unknown = np.cumsum(self._unknown_bytes.array[pretoken_ids], dtype=np.int64)
            unknown = np.diff(np.concatenate(([0], cumulative_unknown))[ends], prepend=0)
            encoded = EncodedBatch(self._ids.array[token_indices].astype(np.int32), counts, unknown)
            if not with_offsets:
                return encoded
            starts = np.repeat(lookup.starts, token_counts)
            first_offsets = starts + self._first_offsets.array[token_indices]
            last_offsets = starts + self._last_offsets.array[token_indices]
            return replace(encoded, first_offsets=first_offsets, last_offsets=last_offsets)

    def encode_lines(self, data: bytes, ends: np.ndarray) -> EncodedBatch | None:
        """Encode UTF-8 texts separated by gaps that end at `ends`; None if `encode_many` is needed or as fast."""
        with self._hold_lock():
            assert isinstance(self._pretokens, WhitespaceWords)
            if (lookup := self._pretokens.look_up_bytes(data, ends)) is None:
                return None
            self._add_pretokens(lookup.new_pretokens)
            return self._single_token_batch(lookup) if self._are_single else None

    def _single_token_batch(self, lookup: PretokenLookup) -> EncodedBatch:
        """The tokens of texts all of whose pretokens are one token."""
        ids, ends = self._ids.array.take(lookup.ids), lookup.ends
        unknown = np.zeros(len(ends), np.int64)
        if (unknown_positions := np.flatnonzero(ids == self._unk_id)).size:
            text_indices = np.searchsorted(ends, unknown_positions, side="right")
            unknown = sum_by_index(self._unknown_bytes.array[lookup.ids[unknown_positions]], text_indices, len(ends))
        return EncodedBatch(ids, np.diff(ends, prepend=0).astype(np.int32), unknown)

    def _add_pretokens(self, pretokens: list[str]) -> None:
        """Encode pretokens that are not in the cache, in one batch."""
        if pretokens:
            token_counts, ids, offsets = self._encode_pretokens(pretokens)
            unknown = unknown_bytes(pretokens, ids == self._unk_id, token_counts, offsets)
            self._append(token_counts, unknown, ids, offsets[:, 0], last_characters(offsets))

    def _append(
        self, token_counts: np.ndarray, unknown: np.ndarray, ids: np.ndarray, first: np.ndarray, last: np.ndarray
    ) -> None:
        self._token_starts.extend(self._ids.size + np.cumsum(token_counts) - token_counts)
        self._token_counts.extend(token_counts)
        self._are_single &= bool((token_counts == 1).all())
        self._unknown_bytes.extend(unknown)
        self._ids.extend(ids)
        self._first_offsets.extend(first)
        self._last_offsets.extend(last)

    def _encode_pretokens(self, pretokens: list[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The number of tokens of each pretoken, their ids and offsets."""
        word_vocab, is_plain = self._rule.words, np.zeros(len(pretokens), bool)
        if word_vocab is not None:
            is_plain = np.fromiter(map(word_vocab.is_plain, pretokens), bool, len(pretokens))
        words, others = ([pretokens[i] for i in np.flatnonzero(mask).tolist()] for mask in (is_plain, ~is_plain))
        encodings = self._load_backend().encode_batch(others, add_special_tokens=False) if others else []
        token_counts = np.ones(len(pretokens), np.int64)
        token_counts[~is_plain] = text_lengths(encodings)
        is_plain_token = is_plain.repeat(token_counts)
        ids, offsets = np.empty(len(is_plain_token), np.int64), np.zeros((len(is_plain_token), 2), np.int64)
        ids[~is_plain_token] = flatten_ints(encoding.ids for encoding in encodings)
        offsets[~is_plain_token] = token_offsets(encodings)
        if word_vocab is not None:
            ids[is_plain_token] = list(map(word_vocab.id_of, words))
            offsets[is_plain_token, 1] = text_lengths(words)
        return token_counts, ids, offsets


class _GrowableArray:
    """An int32 array that grows with amortized copying."""

    def __init__(self) -> None:
        self._buffer = np.zeros(1024, np.int32)
        self.size = 0

    @property
    def array(self) -> np.ndarray:
        return self._buffer[: self.size]

    def extend(self, values: np.ndarray) -> None:
        size = self.size + len(values)
        if size > len(self._buffer):
            padding = np.zeros(max(size, 2 * len(self._buffer)) - self.size, np.int32)
            self._buffer = np.concatenate((self.array, padding))
        self._buffer[self.size : size] = values
        self.size = size
