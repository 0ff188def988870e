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

TEXT_BEGINS, TEXT_ENDS, WORD_BEGINS, WORD_ENDS, CHAR_MARKERS = range(256, 261)
NUM_SYMBOLS = 261
NUM_WORD_MARKERS = 2  # per word
MAX_EXAMPLES = 20  # words listed in a ledger
BLOCK_TOKENS = 1 << 22  # tokens counted at once
_LOCK = threading.RLock()  # shared by all CharIds: not a member, as networks that hold one are copied
_SPELLINGS: WeakValueDictionary[tuple[str, int], CharIds] = WeakValueDictionary()


class CharIds:
    """Character ids of a vocabulary, and of out-of-vocabulary words, which get ids after it on demand.

    These ids are valid as long as the object lives and must not be stored. Thread-safe: a word gets its id only after
    its row is written, so that an interrupt leaves a consistent state.

    Args:
        tokens: The vocabulary in id order.
        longest: Maximum symbols of a word, markers included; longer words are truncated.
        roles: Special-token roles; begin and end of text have their own symbols.
    """

    def __init__(self, tokens: Sequence[str], longest: int, roles: Mapping[str, int]) -> None:
        self.longest, self.size = longest, len(tokens)
        self._tokens, self._roles = tokens, dict(roles)
        self._numbers: dict[str, int] = {}
        self._words: list[str] = []  # the same, by id
        self._rows: np.ndarray | None = None  # (capacity, longest)

    def char_rows(self, numbers: np.ndarray) -> np.ndarray:
        """(n, longest) symbols of the tokens with these ids."""
        return self._table()[numbers]

    def oov_id(self, word: str) -> int:
        """The id of an out-of-vocabulary word, the same for equal words."""
        with _LOCK:
            word_id = self._numbers.get(word)
            if word_id is None:
                word_id, table = self.size + len(self._numbers), self._table()
                if word_id >= len(table):
                    self._rows = table = np.concatenate((table, np.full_like(table, CHAR_MARKERS)))
                table[word_id] = self.encode_word(word)
                self._numbers[word] = word_id
            return word_id

    def id_to_word(self, number: int) -> str:
        """The word of an id: a vocabulary entry or an out-of-vocabulary word."""
        if number < self.size:
            return self._tokens[number]
        with _LOCK:
            if len(self._words) < len(self._numbers):  # ids are consecutive
                self._words = list(self._numbers)
            return self._words[number - self.size]

    def encode_word(self, word: str) -> np.ndarray:
        """(longest,) symbols."""
        return self._row(word.encode("utf-8", "replace")[: self.longest - NUM_WORD_MARKERS])

    def truncated_ids(self) -> np.ndarray:
        """The ids of vocabulary entries that are truncated."""
        special = set(self._roles.values())  # not in texts
        truncated = [i for i, token in enumerate(self._tokens) if self._is_truncated(token) and i not in special]
        return np.array(truncated, np.int64)

    def truncated_words(self) -> list[str]:
        return [word for word in list(self._numbers) if self._is_truncated(word)]

    def _is_truncated(self, word: str) -> bool:
        max_bytes = self.longest - NUM_WORD_MARKERS
        return len(word) * 4 > max_bytes and len(word.encode("utf-8", "replace")) > max_bytes

    def _table(self) -> np.ndarray:
        with _LOCK:
            if self._rows is None:
                rows = np.full((max(1, self.size), self.longest), CHAR_MARKERS, np.int16)
                for number, token in enumerate(self._tokens):
                    rows[number] = self.encode_word(token)
                if "end" in self._roles:
                    rows[self._roles["end"]] = self._row([TEXT_ENDS])
                if "start" in self._roles:
                    rows[self._roles["start"]] = self._row([TEXT_BEGINS])
                self._rows = rows
            return self._rows

    def _row(self, inner: Sequence[int]) -> np.ndarray:
        row = np.full(self.longest, CHAR_MARKERS, np.int16)
        row[0], row[len(inner) + 1] = WORD_BEGINS, WORD_ENDS
        row[1 : len(inner) + 1] = np.frombuffer(inner, np.uint8) if isinstance(inner, bytes) else inner
        return row


def char_ids_for(tokenizer: Tokenizer, longest: int) -> CharIds:
    """The shared CharIds of a vocabulary, so that ids mean the same words everywhere."""
    key = tokenizer.digest, longest
    with _LOCK:
        char_ids = _SPELLINGS.get(key)
        if char_ids is None:
            char_ids = _SPELLINGS[key] = CharIds(tokenizer.vocabulary(), longest, tokenizer.special_roles)
        return char_ids


def truncation_stats(spelling: CharIds, tokens: Sequence[str], ids: np.ndarray) -> dict[str, Any]:
    """For a ledger: the number of truncated words in the vocabulary and tokens in a text, with examples."""
    truncated = spelling.truncated_ids()
    counts = np.zeros(len(tokens), np.int64)
    for start in range(0, len(ids) if len(truncated) else 0, BLOCK_TOKENS):
        counts += np.bincount(ids[start : start + BLOCK_TOKENS], minlength=len(tokens))
    most_frequent = truncated[np.argsort(-counts[truncated], kind="stable")][:MAX_EXAMPLES]
    examples = [{"word": tokens[number], "tokens": int(counts[number])} for number in most_frequent.tolist()]
    stats = {"longest": spelling.longest - NUM_WORD_MARKERS, "words": len(truncated)}
    return stats | {"tokens": int(counts[truncated].sum()), "examples": examples}


# --- Out-of-vocabulary words for character-level networks ---


def oov_ids(
    tokenizer: Tokenizer, spelling: CharIds, texts: Sequence[str], ids: np.ndarray, counts: np.ndarray
) -> np.ndarray:
    """Token ids of texts in which each unknown word, normalized as the vocabulary is, has its own id."""
    if tokenizer.unk_id is None or not (ids == tokenizer.unk_id).any():
        return ids
    oov_aware_ids, ends = ids.astype(np.int64), np.cumsum(counts)
    normalize, _ = preprocessing_steps(tokenizer.spec["normalizer"], None)
    for text, begin, end in zip(texts, ends - counts, ends, strict=True):
        text_ids = oov_aware_ids[begin:end]
        unknown_positions = np.flatnonzero(text_ids == tokenizer.unk_id)
        spans = tokenizer.encode(text).spans if len(unknown_positions) else []
        for position in unknown_positions.tolist():
            first, last = spans[position]
            text_ids[position] = spelling.oov_id(normalize(text[first:last]))
    return oov_aware_ids


class OOVTokenizer(Tokenizer):
    """A tokenizer that gives out-of-vocabulary words ids of their own, for networks with the same CharIds."""

    def __init__(self, plain: Tokenizer, spelling: CharIds) -> None:
        vars(self).update(vars(plain))  # otherwise identical
        self.base, self.spelling = plain, spelling

    def __reduce__(self) -> tuple[Any, ...]:  # ids are valid in this process only
        return self.base.__reduce__()

    def encode(self, text: str, *, specials: bool = False) -> TokenEncoding:
        encoding = self.base.encode(text, specials=specials)
        ids = oov_ids(self.base, self.spelling, [text], encoding.ids, np.array([len(encoding.ids)]))
        return replace(encoding, ids=ids)

    def encode_batch(
        self, texts: Sequence[str], ends: Sequence[Sequence[int]] | None = None, *, spans: bool = False
    ) -> EncodedBatch:
        return self.base.encode_batch(texts, ends, spans=spans)

    def encode_lines(self, data: bytes, ends: np.ndarray) -> EncodedBatch | None:
        return self.base.encode_lines(data, ends)

    def encode_many_reference(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        return self.base.encode_many_reference(texts)

    def encode_many(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        ids, counts = self.base.encode_many(texts)
        return oov_ids(self.base, self.spelling, texts, ids, counts), counts


def oov_tokenizer(tokenizer: Tokenizer, longest: int) -> OOVTokenizer:
    """The tokenizer, with ids for out-of-vocabulary words of at most `longest` symbols."""
    base = base_tokenizer(tokenizer)
    return OOVTokenizer(base, char_ids_for(base, longest))


def base_tokenizer(tokenizer: Tokenizer) -> Tokenizer:
    """The wrapped tokenizer of an OOVTokenizer, or the tokenizer itself."""
    return tokenizer.base if isinstance(tokenizer, OOVTokenizer) else tokenizer
