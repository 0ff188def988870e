"""Token cache: each distinct pretoken is encoded by Rust once and then looked up.

The rules say where a text may be split so that the tokens of the parts are the tokens of the whole. They split only
where that is certain and leave the rest to longer pretokens; the reference is `Tokenizer.encode_many_reference`.
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
from forebear.data.tokenizers.word_level import WORD_GAPS, WORD_SPLITS, is_plain_word, word_pretokenizer
from forebear.data.tokenizers.wordpiece import BERT_HAN_BLOCKS
from forebear.kernels.layout import CLASS_GAP, CLASS_RUN, CLASS_SINGLE

if TYPE_CHECKING:
    import tokenizers

# The cache is cleared at this size, which keeps it below about 80 MB.
MAX_PRETOKENS, MAX_CHARACTERS = 1 << 18, 1 << 23

ASCII_PUNCTUATION = "!\"#$%&'()*+,-./:;<=>?@[\\]^`{|}~"
CHINESE_PUNCTUATION = "，。、；：？！（）《》〈〉「」『』【】“”‘’…—·"


class PretokenRule(NamedTuple):
    """Where a text may be split: a class for each code point, and optionally further boundaries."""

    classes: np.ndarray  # (0x110000,) CLASS_RUN, CLASS_GAP or CLASS_SINGLE
    extra_cuts: Callable[[np.ndarray], np.ndarray] | None = None  # code points → True where a pretoken starts
    words: WordVocabulary | None = None  # if every plain pretoken is one token
    gaps: str = ""  # the only separators of pretokens, if the rule needs nothing else


class WordVocabulary(NamedTuple):
    """Word → id, hidden (special) tokens, the id of unknown words, and the word split."""

    ids: Mapping[str, int]
    hidden_tokens: frozenset[str]
    unk_id: int
    word_split: str

    def is_plain(self, pretoken: str) -> bool:
        return is_plain_word(pretoken, self.word_split)

    def id_of(self, word: str) -> int:
        return self.unk_id if word in self.hidden_tokens else self.ids.get(word, self.unk_id)


def pretoken_rule(spec: TokenizerSpec) -> PretokenRule | None:
    """The rule for a specification that is supported in every detail; None: only the uncached path is exact."""
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
        for first, last in BERT_HAN_BLOCKS:
            rule.classes[first : last + 1] = CLASS_SINGLE
        return rule
    if model["type"] == "WordLevel":
        word_split = next((split for split in WORD_SPLITS if pre_tokenizer == word_pretokenizer(split)), None)
        steps = model["forebear"].get("normalise", ())
        if word_split is None or not set(steps) <= set(NORMALIZE_STEPS) or normalizer != make_normalizer(steps):
            return None
        # Words end at spaces, line ends and separators; punctuation is separate unless a normalizer may merge it.
        is_separate = word_split == "punctuation" and set(steps) <= {"lower"}
        rule = _character_rule(" " + WORD_GAPS, ASCII_PUNCTUATION + CHINESE_PUNCTUATION if is_separate else "")
        if word_split == "spaces" and model["forebear"].get("segmenter") is None:
            rule = rule._replace(gaps=" " + WORD_GAPS)
        vocabulary, unk_token = model["vocab"], model.get("unk_token")
        if steps or unk_token not in vocabulary:
            return rule
        hidden = frozenset({token["content"] for token in spec["added_tokens"]} | {unk_token})
        return rule._replace(words=WordVocabulary(vocabulary, hidden, vocabulary[unk_token], word_split))
    byte_level = pre_tokenizer["type"] == "ByteLevel" and pre_tokenizer.get("use_regex", True)
    if model["type"] == "BPE" and byte_level and not pre_tokenizer["add_prefix_space"] and normalizer is None:
        return PretokenRule(np.full(0x110000, CLASS_RUN, np.int8), _gpt2_boundaries)
    return None


def _character_rule(gaps: str, single: str) -> PretokenRule:
    """These characters separate pretokens, or are pretokens of their own."""
    classes = np.full(0x110000, CLASS_RUN, np.int8)
    classes[list(map(ord, gaps))] = CLASS_GAP
    classes[list(map(ord, single))] = CLASS_SINGLE
    return PretokenRule(classes)


SPACE, BLANK, LETTER, MARK = 1, 2, 4, 8


@cache
def _gpt2_classes() -> np.ndarray:
    """Character classes of GPT-2's pattern; doubtful ones count as blank, which only splits less."""
    classes = np.zeros(0x110000, np.uint8)
    for code in range(0x3001):
        if chr(code).isspace() or 0x2000 <= code <= 0x200F or code == 0x180E:
            classes[code] = BLANK
    classes[[code for code in range(128) if chr(code).isalpha()]] = LETTER
    classes[[ord(character) for character in ASCII_PUNCTUATION]] = MARK
    classes[ord(" ")] = SPACE | BLANK
    return classes


def _gpt2_boundaries(codes: np.ndarray) -> np.ndarray:
    """GPT-2's pattern never joins a character with a following space, nor a letter with following punctuation."""
    classes = _gpt2_classes().take(codes)
    current, previous = classes[1:], classes[:-1]
    is_boundary = np.zeros(len(codes), bool)
    is_boundary[1:] = ((current & SPACE) > 0) & ((previous & BLANK) == 0)
    is_boundary[1:] |= ((current & MARK) > 0) & ((previous & LETTER) > 0)
    return is_boundary


NO_OFFSETS = partial(np.zeros, 0, np.int64)


@dataclass(frozen=True, slots=True)
class EncodedBatch:
    """The tokens of many texts; offsets are over all texts, each followed by one separator character."""

    ids: np.ndarray  # of all texts, concatenated
    counts: np.ndarray  # tokens of each text
    unknown_bytes: np.ndarray  # bytes of each text that became unknown tokens
    starts: np.ndarray | None = None  # True where a token starts a word, if word ends were given
    first: np.ndarray = field(default_factory=NO_OFFSETS)  # offset of the first character of each token, if requested
    last: np.ndarray = field(default_factory=NO_OFFSETS)


class TokenCache:
    """Caches, for each pretoken, its ids, its unknown bytes, and the first and last character of each token.

    `rust` returns the library's tokenizer on demand, as a large vocabulary takes time to load. `unknown` is the id of
    unknown tokens, or an id that no token has.

    Several threads may use one cache: a lock admits one at a time. A call that fails or is interrupted leaves
    `_complete` False, and the next one starts with an empty cache.
    """

    def __init__(self, rust: Callable[[], tokenizers.Tokenizer], rule: PretokenRule, unknown: int) -> None:
        self._rust, self._rule, self._unknown = rust, rule, unknown
        words = 0 if rule.words is None else len(rule.words.ids)
        self._max_pretokens = max(MAX_PRETOKENS, words + words // 4)  # a large vocabulary is not cleared repeatedly
        self._lock = threading.Lock()
        self._clear()
        self._complete = True  # the arrays are consistent

    def _clear(self) -> None:
        gaps = self._rule.gaps
        self._pretokens = WhitespaceWords(gaps) if gaps else PretokenIndex(self._rule.classes)
        self._are_single = True  # so far, each pretoken is one token
        self._begins, self._lengths, self._unknown_sizes = (_GrowableArray() for _ in range(3))  # by pretoken
        self._ids, self._first, self._last = (_GrowableArray() for _ in range(3))  # by token

    @contextmanager
    def _hold_lock(self) -> Iterator[None]:
        """One thread at a time, with a cache that is neither full nor incomplete, as it is if the block fails."""
        with self._lock:
            is_good, self._complete = self._complete, False
            if not is_good or len(self._pretokens) > self._max_pretokens or self._pretokens.characters > MAX_CHARACTERS:
                self._clear()
            yield
            self._complete = True

    @property
    def is_fast(self) -> bool:
        """Whether words are found by their bytes, without splitting in Python."""
        return bool(self._rule.gaps)

    def preload(self, words: WhitespaceWords, ids: np.ndarray) -> None:
        """Start with these words, each of which is one token with this id."""
        assert self._rule.gaps
        with self._hold_lock():
            self._clear()
            self._pretokens = words
            lengths, sizes = words.word_lengths()
            unknown = np.where(ids == self._unknown, sizes, 0)
            first, last = np.zeros(len(ids), np.int32), np.maximum(lengths - 1, 0)
            self._append(np.ones(len(ids), np.int32), unknown, ids, first, last)

    def encode_many(
        self, texts: Sequence[str], boundaries: np.ndarray | None = None, *, spans: bool = False
    ) -> EncodedBatch:
        """Encode all texts; `boundaries` are further split positions, as offsets over all texts."""
        with self._hold_lock():
            if isinstance(self._pretokens, WhitespaceWords):
                assert boundaries is None
                lookup = self._pretokens.look_up_texts(texts, units=spans)
            else:
                lookup = self._pretokens.look_up_texts(texts, boundaries, self._rule.extra_cuts)
            self._learn(lookup.new_pretokens)
            if self._are_single and not spans:
                return self._single_token_batch(lookup)
            rows, ends = lookup.ids, lookup.ends
            sizes = self._lengths.array[rows]
            totals = np.concatenate(([0], np.cumsum(sizes)))
            token_indices = np.arange(totals[-1]) + np.repeat(self._begins.array[rows] - totals[:-1], sizes)
            counts = np.diff(totals[ends], prepend=0).astype(np.int32)
            unknown_totals = np.concatenate(([0], np.cumsum(self._unknown_sizes.array[rows], dtype=np.int64)))
            unknown = np.diff(unknown_totals[ends], prepend=0)
            encoded = EncodedBatch(self._ids.array[token_indices].astype(np.int32), counts, unknown)
            if not spans:
                return encoded
            first, last = (offsets.array[token_indices] for offsets in (self._first, self._last))
            text_positions = np.repeat(lookup.starts, sizes)
            return replace(encoded, first=text_positions + first, last=text_positions + last)

    def encode_lines(self, data: bytes, ends: np.ndarray) -> EncodedBatch | None:
        """Encode UTF-8 texts separated by gaps that end at `ends`; None if this is no faster."""
        with self._hold_lock():
            assert isinstance(self._pretokens, WhitespaceWords)
            if (lookup := self._pretokens.look_up_bytes(data, ends)) is None:
                return None
            self._learn(lookup.new_pretokens)
            return self._single_token_batch(lookup) if self._are_single else None

    def _single_token_batch(self, lookup: PretokenLookup) -> EncodedBatch:
        """The tokens of texts all of whose pretokens are one token."""
        ids, ends = self._ids.array.take(lookup.ids), lookup.ends
        unknown = np.zeros(len(ends), np.int64)
        if (lacking := np.flatnonzero(ids == self._unknown)).size:
            owners = np.searchsorted(ends, lacking, side="right")
            unknown = sum_by_index(self._unknown_sizes.array[lookup.ids[lacking]], owners, len(ends))
        return EncodedBatch(ids, np.diff(ends, prepend=0).astype(np.int32), unknown)

    def _learn(self, pretokens: list[str]) -> None:
        """Encodes pretokens that are not in the cache, all at once."""
        if pretokens:
            sizes, ids, offsets = self._encode_pretokens(pretokens)
            unknown = unknown_bytes(pretokens, ids == self._unknown, sizes, offsets)
            self._append(sizes, unknown, ids, offsets[:, 0], last_characters(offsets))

    def _append(
        self, sizes: np.ndarray, unknown: np.ndarray, ids: np.ndarray, first: np.ndarray, last: np.ndarray
    ) -> None:
        self._begins.extend(self._ids.size + np.cumsum(sizes) - sizes)
        self._lengths.extend(sizes)
        self._are_single &= bool((sizes == 1).all())
        self._unknown_sizes.extend(unknown)
        self._ids.extend(ids)
        self._first.extend(first)
        self._last.extend(last)

    def _encode_pretokens(self, pretokens: list[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The number of tokens of each pretoken, their ids and offsets."""
        word_vocab, is_plain = self._rule.words, np.zeros(len(pretokens), bool)
        if word_vocab is not None:
            is_plain = np.fromiter(map(word_vocab.is_plain, pretokens), bool, len(pretokens))
        words, others = ([pretokens[i] for i in np.flatnonzero(mask).tolist()] for mask in (is_plain, ~is_plain))
        encodings = self._rust().encode_batch(others, add_special_tokens=False) if others else []
        sizes = np.ones(len(pretokens), np.int64)
        sizes[~is_plain] = text_lengths(encodings)
        by_token = is_plain.repeat(sizes)
        ids, offsets = np.empty(len(by_token), np.int64), np.zeros((len(by_token), 2), np.int64)
        ids[~by_token] = flatten_ints(encoding.ids for encoding in encodings)
        offsets[~by_token] = token_offsets(encodings)
        if word_vocab is not None:
            ids[by_token] = list(map(word_vocab.id_of, words))
            offsets[by_token, 1] = text_lengths(words)
        return sizes, ids, offsets


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
