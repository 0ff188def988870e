"""How tokens are written: a word as a row of symbols, its bytes between two marks, so that no word is unknown.

The symbols are those of ELMo's published files: 256 bytes, the begin and the end of a text, the begin and the end of a
word, and one for what lies beyond it. So any script is spelled, and files can be exchanged.
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
NUM_WORD_MARKERS = 2  # of each word
MAX_EXAMPLES = 20  # words that a ledger names
BLOCK_TOKENS = 1 << 22  # tokens that are counted together
_LOCK = threading.RLock()  # of all spellings: a module's own, as networks that hold one are copied
_SPELLINGS: WeakValueDictionary[tuple[str, int], CharIds] = WeakValueDictionary()


class CharIds:
    """The spellings of a vocabulary, and of words that it lacks, which get numbers behind it as they come.

    Such a number holds as long as this object does: it is for reading a text now, never to be stored. Several threads
    may ask; a word has a number only once its row is written, so that an interrupt leaves nothing half done.

    tokens   of the vocabulary, by their ids
    longest  symbols of a word, its marks included; what is longer is read as far as it fits
    roles    of special tokens: the begin and the end of a text have symbols of their own
    """

    def __init__(self, tokens: Sequence[str], longest: int, roles: Mapping[str, int]) -> None:
        self.longest, self.size = longest, len(tokens)
        self._tokens, self._roles = tokens, dict(roles)
        self._numbers: dict[str, int] = {}
        self._words: list[str] = []  # the same, by their numbers
        self._rows: np.ndarray | None = None  # (at least as many as there are, longest)

    def char_rows(self, numbers: np.ndarray) -> np.ndarray:
        """(n, longest) symbols of the tokens with these numbers."""
        return self._table()[numbers]

    def oov_id(self, word: str) -> int:
        """The number of a word that is not in the vocabulary, the same for the same word."""
        with _LOCK:
            word_id = self._numbers.get(word)
            if word_id is None:
                word_id, table = self.size + len(self._numbers), self._table()
                if word_id >= len(table):
                    self._rows = table = np.concatenate((table, np.full_like(table, CHAR_MARKERS)))
                table[word_id] = self.encode_word(word)
                self._numbers[word] = word_id
            return word_id

    def word_of(self, number: int) -> str:
        """What a number stands for: a token of the vocabulary, or a word that came."""
        if number < self.size:
            return self._tokens[number]
        with _LOCK:
            if len(self._words) < len(self._numbers):  # numbers are given one after the other
                self._words = list(self._numbers)
            return self._words[number - self.size]

    def encode_word(self, word: str) -> np.ndarray:
        """(longest,) symbols."""
        return self._row(word.encode("utf-8", "replace")[: self.longest - NUM_WORD_MARKERS])

    def truncated_ids(self) -> np.ndarray:
        """The ids of those tokens of the vocabulary that are longer than is read."""
        max_bytes = self.longest - NUM_WORD_MARKERS
        special = set(self._roles.values())  # nobody writes them
        candidates = (
            token_id
            for token_id, token in enumerate(self._tokens)
            if len(token) * 4 > max_bytes and token_id not in special
        )
        return np.array(
            [token_id for token_id in candidates if len(self._tokens[token_id].encode("utf-8", "replace")) > max_bytes],
            np.int64,
        )

    def truncated_words(self) -> list[str]:
        """Words that the vocabulary lacks, of those that came, which are longer than is read."""
        return [
            word
            for word in list(self._numbers)
            if len(word.encode("utf-8", "replace")) > self.longest - NUM_WORD_MARKERS
        ]

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


def char_ids_for(tokens: Sequence[str], longest: int, roles: Mapping[str, int], key: str) -> CharIds:
    """One for all who read the same vocabulary, which `key` tells: to all of them a number means the same word."""
    with _LOCK:
        char_ids = _SPELLINGS.get((key, longest))
        if char_ids is None:
            char_ids = _SPELLINGS[key, longest] = CharIds(tokens, longest, roles)
        return char_ids


def truncation_stats(spelling: CharIds, tokens: Sequence[str], ids: np.ndarray) -> dict[str, Any]:
    """For a ledger: how many words of a vocabulary, and tokens of a text, are longer than is read, and some of them."""
    truncated = spelling.truncated_ids()
    counts = np.zeros(len(tokens), np.int64)
    for start in range(0, len(ids) if len(truncated) else 0, BLOCK_TOKENS):
        counts += np.bincount(ids[start : start + BLOCK_TOKENS], minlength=len(tokens))
    most_frequent = truncated[np.argsort(-counts[truncated], kind="stable")][:MAX_EXAMPLES]
    examples = [{"word": tokens[number], "tokens": int(counts[number])} for number in most_frequent.tolist()]
    stats = {
        "longest": spelling.longest - NUM_WORD_MARKERS,
        "words": len(truncated),
        "tokens": int(counts[truncated].sum()),
    }
    return stats | {"examples": examples}


# Words that a vocabulary lacks, numbered by how they are written, for a network that reads spellings.


def oov_ids(
    tokenizer: Tokenizer, spelling: CharIds, texts: Sequence[str], ids: np.ndarray, counts: np.ndarray
) -> np.ndarray:
    """The ids of texts, so many of each, with a number of its own for each unknown word instead of the one for all.

    A word is spelled as the vocabulary's own are: in small letters where those are.
    """
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
    """A tokenizer whose unknown words have numbers of their own, behind its ids, in this spelling.

    For reading a text by a network that has the same spelling, which then knows every word.
    """

    def __init__(self, plain: Tokenizer, spelling: CharIds) -> None:
        vars(self).update(vars(plain))  # it is the same in all else
        self.base, self.spelling = plain, spelling

    def __reduce__(self) -> tuple[Any, ...]:  # numbers hold in this process only
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


def base_tokenizer(tokenizer: Tokenizer) -> Tokenizer:
    """The tokenizer itself, without numbers for what it lacks."""
    return tokenizer.base if isinstance(tokenizer, OOVTokenizer) else tokenizer
