"""Character ids of words (bytes between two word markers, as in ELMo), and ids for out-of-vocabulary words.

The symbols are those of ELMo's published files: 256 bytes, begin and end of text, begin and end of word, and padding.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from forebear.data.tokenizers.tokenizer import EncodedBatch, TokenEncoding, Tokenizer
from forebear.data.tokenizers.tokenizer_json import preprocessing_steps

TEXT_START, TEXT_END, WORD_START, WORD_END, CHAR_PADDING = range(256, 261)
NUM_SYMBOLS = 261
NUM_WORD_MARKERS = 2  # per word
MAX_EXAMPLES = 20  # words listed in a ledger
TOKENS_PER_BLOCK = 1 << 22  # tokens counted at once
_LOCK = threading.RLock()  # shared by all CharIds: not a member, as networks that hold one are copied
_SHARED_CHAR_IDS: WeakValueDictionary[tuple[str, int], CharIds] = WeakValueDictionary()


class CharIds:
    """Character ids of a vocabulary, and of out-of-vocabulary words, which get ids after it on demand.

    These ids are valid as long as the object lives and must not be stored. Thread-safe: a word gets its id only after
    its row is written, so that an interrupt leaves a consistent state.

    Args:
        tokens: The vocabulary in id order.
        max_symbols: Maximum symbols of a word, markers included; longer words are truncated.
        roles: Special-token roles; begin and end of text have their own symbols.
    """

    def __init__(self, tokens: Sequence[str], max_symbols: int, roles: Mapping[str, int]) -> None:
        self.max_symbols, self.size = max_symbols, len(tokens)
        self._tokens, self._roles = tokens, dict(roles)
        self._oov_ids: dict[str, int] = {}
        self._words: list[str] = []  # the same, by id
        self._rows: np.ndarray | None = None  # (capacity, max_symbols)

    def char_rows(self, ids: np.ndarray) -> np.ndarray:
        """(n, max_symbols) symbols of the tokens with these ids."""
        return self._table()[ids]

    def oov_id(self, word: str) -> int:
        """The id of an out-of-vocabulary word, the same for equal words."""
        with _LOCK:
            word_id = self._oov_ids.get(word)
            if word_id is None:
                word_id, table = self.size + len(self._oov_ids), self._table()
                if word_id >= len(table):
                    self._rows = table = np.concatenate((table, np.full_like(table, CHAR_PADDING)))
                table[word_id] = self.encode_word(word)
                self._oov_ids[word] = word_id
            return word_id

    def id_to_word(self, word_id: int) -> str:
        """The word of an id: a vocabulary entry or an out-of-vocabulary word."""
        if word_id < self.size:
            return self._tokens[word_id]
        with _LOCK:
            if len(self._words) < len(self._oov_ids):  # ids are consecutive
                self._words = list(self._oov_ids)
            return self._words[word_id - self.size]

    def encode_word(self, word: str) -> np.ndarray:
        """(max_symbols,) symbols of a word."""
        return self._row(word.encode("utf-8", "replace")[: self.max_symbols - NUM_WORD_MARKERS])

    def truncated_ids(self) -> np.ndarray:
        """The ids of vocabulary entries that are truncated."""
        special = set(self._roles.values())  # not in texts
        truncated = [i for i, token in enumerate(self._tokens) if self._is_truncated(token) and i not in special]
        return np.array(truncated, np.int64)

    def truncated_words(self) -> list[str]:
        return [word for word in list(self._oov_ids) if self._is_truncated(word)]

    def _is_truncated(self, word: str) -> bool:
        max_bytes = self.max_symbols - NUM_WORD_MARKERS
        return len(word) * 4 > max_bytes and len(word.encode("utf-8", "replace")) > max_bytes

    def _table(self) -> np.ndarray:
        with _LOCK:
            if self._rows is None:
                rows = np.full((max(1, self.size), self.max_symbols), CHAR_PADDING, np.int16)
                for number, token in enumerate(self._tokens):
                    rows[number] = self.encode_word(token)
                if "end" in self._roles:
                    rows[self._roles["end"]] = self._row([TEXT_END])
                if "start" in self._roles:
                    rows[self._roles["start"]] = self._row([TEXT_START])
                self._rows = rows
            return self._rows

    def _row(self, inner: Sequence[int]) -> np.ndarray:
        row = np.full(self.max_symbols, CHAR_PADDING, np.int16)
        row[0], row[len(inner) + 1] = WORD_START, WORD_END
        row[1 : len(inner) + 1] = np.frombuffer(inner, np.uint8) if isinstance(inner, bytes) else inner
        return row


def char_ids_for(tokenizer: Tokenizer, max_symbols: int) -> CharIds:
    """The shared CharIds of a vocabulary, so that ids mean the same words everywhere."""
    key = tokenizer.digest, max_symbols
    with _LOCK:
        char_ids = _SHARED_CHAR_IDS.get(key)
        if char_ids is None:
            char_ids = _SHARED_CHAR_IDS[key] = CharIds(tokenizer.vocabulary(), max_symbols, tokenizer.special_roles)
        return char_ids


def truncation_stats(char_ids: CharIds, tokens: Sequence[str], ids: np.ndarray) -> dict[str, Any]:
    """For a ledger: the number of truncated words in the vocabulary and tokens in a text, with examples."""
    truncated = char_ids.truncated_ids()
    counts = np.zeros(len(tokens), np.int64)
    for start in range(0, len(ids) if len(truncated) else 0, TOKENS_PER_BLOCK):
        counts += np.bincount(ids[start : start + TOKENS_PER_BLOCK], minlength=len(tokens))
    most_frequent = truncated[np.argsort(-counts[truncated], kind="stable")][:MAX_EXAMPLES]
    examples = [{"word": tokens[number], "tokens": int(counts[number])} for number in most_frequent.tolist()]
    stats = {"longest": char_ids.max_symbols - NUM_WORD_MARKERS, "words": len(truncated)}
    return stats | {"tokens": int(counts[truncated].sum()), "examples": examples}


# --- Tokenizer with out-of-vocabulary words, for character-level networks ---


def oov_ids(
    tokenizer: Tokenizer, char_ids: CharIds, texts: Sequence[str], ids: np.ndarray, counts: np.ndarray
) -> np.ndarray:
    """Token ids of texts in which each unknown word, normalized as the vocabulary is, has its own id."""
    if tokenizer.unk_id is None or not (ids == tokenizer.unk_id).any():
        return ids
    oov_aware_ids, ends = ids.astype(np.int64), np.cumsum(counts)
    normalize, _ = preprocessing_steps(tokenizer.spec["normalizer"], None)
    for text, start, end in zip(texts, ends - counts, ends, strict=True):
        text_ids = oov_aware_ids[start:end]
        unknown_positions = np.flatnonzero(text_ids == tokenizer.unk_id)
        spans = tokenizer.encode(text).spans if len(unknown_positions) else []
        for position in unknown_positions.tolist():
            first, last = spans[position]
            text_ids[position] = char_ids.oov_id(normalize(text[first:last]))
    return oov_aware_ids


class OOVTokenizer(Tokenizer):
    """A tokenizer that gives each out-of-vocabulary word an id, for networks with the same CharIds."""

    def __init__(self, base: Tokenizer, char_ids: CharIds) -> None:
        vars(self).update(vars(base))  # otherwise identical
        self.base, self.char_ids = base, char_ids

    def __reduce__(self) -> tuple[Any, ...]:  # ids are valid in this process only
        return self.base.__reduce__()

    def encode(self, text: str, *, specials: bool = False) -> TokenEncoding:
        encoding = self.base.encode(text, specials=specials)
        ids = oov_ids(self.base, self.char_ids, [text], encoding.ids, np.array([len(encoding.ids)]))
        return replace(encoding, ids=ids)

    def encode_batch(
        self, texts: Sequence[str], ends: Sequence[Sequence[int]] | None = None, *, with_offsets: bool = False
    ) -> EncodedBatch:
        return self.base.encode_batch(texts, ends, with_offsets=with_offsets)

    def encode_lines(self, data: bytes, ends: np.ndarray) -> EncodedBatch | None:
        return self.base.encode_lines(data, ends)

    def encode_many_reference(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        return self.base.encode_many_reference(texts)

    def encode_many(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        ids, counts = self.base.encode_many(texts)
        return oov_ids(self.base, self.char_ids, texts, ids, counts), counts


def oov_tokenizer(tokenizer: Tokenizer, max_symbols: int) -> OOVTokenizer:
    """The tokenizer, with ids for out-of-vocabulary words of at most `max_symbols` symbols."""
    base = base_tokenizer(tokenizer)
    return OOVTokenizer(base, char_ids_for(base, max_symbols))


def base_tokenizer(tokenizer: Tokenizer) -> Tokenizer:
    """The wrapped tokenizer of an OOVTokenizer, or the tokenizer itself."""
    return tokenizer.base if isinstance(tokenizer, OOVTokenizer) else tokenizer
