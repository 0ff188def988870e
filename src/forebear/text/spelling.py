"""How tokens are written: a word as a row of symbols, its bytes between two marks, so that no word is unknown.

The symbols are those of ELMo's published files: 256 bytes, the begin and the end of a text, the begin and the end of a
word, and one for what lies beyond it. So any script is spelled, and files can be exchanged.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

TEXT_BEGINS, TEXT_ENDS, WORD_BEGINS, WORD_ENDS, BEYOND = range(256, 261)
SYMBOLS = 261
MARKS = 2  # of each word
EXAMPLES = 20  # words that a ledger names
BLOCK = 1 << 22  # tokens that are counted together
_LOCK = threading.RLock()  # of all spellings: a module's own, as networks that hold one are copied
_SPELLINGS: WeakValueDictionary[tuple[str, int], Spelling] = WeakValueDictionary()


class Spelling:
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

    def rows(self, numbers: np.ndarray) -> np.ndarray:
        """(n, longest) symbols of the tokens with these numbers."""
        return self._table()[numbers]

    def number(self, word: str) -> int:
        """The number of a word that is not in the vocabulary, the same for the same word."""
        with _LOCK:
            found = self._numbers.get(word)
            if found is None:
                found, table = self.size + len(self._numbers), self._table()
                if found >= len(table):
                    self._rows = table = np.concatenate((table, np.full_like(table, BEYOND)))
                table[found] = self.spelled(word)
                self._numbers[word] = found
            return found

    def word(self, number: int) -> str:
        """What a number stands for: a token of the vocabulary, or a word that came."""
        if number < self.size:
            return self._tokens[number]
        with _LOCK:
            if len(self._words) < len(self._numbers):  # numbers are given one after the other
                self._words = list(self._numbers)
            return self._words[number - self.size]

    def spelled(self, word: str) -> np.ndarray:
        """(longest,) symbols."""
        return self._row(word.encode("utf-8", "replace")[: self.longest - MARKS])

    def cut(self) -> np.ndarray:
        """The ids of those tokens of the vocabulary that are longer than is read."""
        most = self.longest - MARKS
        special = set(self._roles.values())  # nobody writes them
        long = (n for n, token in enumerate(self._tokens) if len(token) * 4 > most and n not in special)
        return np.array([n for n in long if len(self._tokens[n].encode("utf-8", "replace")) > most], np.int64)

    def longer(self) -> list[str]:
        """Words that the vocabulary lacks, of those that came, which are longer than is read."""
        return [word for word in list(self._numbers) if len(word.encode("utf-8", "replace")) > self.longest - MARKS]

    def _table(self) -> np.ndarray:
        with _LOCK:
            if self._rows is None:
                rows = np.full((max(1, self.size), self.longest), BEYOND, np.int16)
                for number, token in enumerate(self._tokens):
                    rows[number] = self.spelled(token)
                if "end" in self._roles:
                    rows[self._roles["end"]] = self._row([TEXT_ENDS])
                if "start" in self._roles:
                    rows[self._roles["start"]] = self._row([TEXT_BEGINS])
                self._rows = rows
            return self._rows

    def _row(self, inner: Sequence[int]) -> np.ndarray:
        row = np.full(self.longest, BEYOND, np.int16)
        row[0], row[len(inner) + 1] = WORD_BEGINS, WORD_ENDS
        row[1 : len(inner) + 1] = np.frombuffer(inner, np.uint8) if isinstance(inner, bytes) else inner
        return row


def spelling_of(tokens: Sequence[str], longest: int, roles: Mapping[str, int], key: str) -> Spelling:
    """One for all who read the same vocabulary, which `key` tells: to all of them a number means the same word."""
    with _LOCK:
        found = _SPELLINGS.get((key, longest))
        if found is None:
            found = _SPELLINGS[key, longest] = Spelling(tokens, longest, roles)
        return found


def cut_words(spelling: Spelling, tokens: Sequence[str], ids: np.ndarray) -> dict[str, Any]:
    """For a ledger: how many words of a vocabulary, and tokens of a text, are longer than is read, and some of them."""
    cut = spelling.cut()
    counts = np.zeros(len(tokens), np.int64)
    for at in range(0, len(ids) if len(cut) else 0, BLOCK):
        counts += np.bincount(ids[at : at + BLOCK], minlength=len(tokens))
    often = cut[np.argsort(-counts[cut], kind="stable")][:EXAMPLES]
    examples = [{"word": tokens[number], "tokens": int(counts[number])} for number in often.tolist()]
    told = {"longest": spelling.longest - MARKS, "words": len(cut), "tokens": int(counts[cut].sum())}
    return told | {"examples": examples}
