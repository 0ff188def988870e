"""The lines of an ARPA file, understood one by one: whatever is not as it should be is refused with its line."""

from __future__ import annotations

import gzip
import math
import re
import zlib
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from forebear.errors import BadInput
from forebear.interop.word_vectors_files import GZIP, ZSTD

DATA = "\\data\\"  # what such a file begins with
BEGIN, END, UNKNOWN = "<s>", "</s>", "<unk>"
OTHER_UNKNOWN = "<UNK>"  # some programs write it so
BEGINS, ENDS = -1, 1  # what numbers of words <s> and </s> have; <unk> has 0
BLOCK = 1 << 16  # lines understood at once

Block = tuple[np.ndarray, np.ndarray, np.ndarray]  # ids (size, n), log10 P, back-off weights


@dataclass(frozen=True, eq=False)
class Level:
    """A section of a file: its n-grams, their logarithms to base 10, and the line of the first."""

    rows: np.ndarray
    logs: np.ndarray
    backoffs: np.ndarray
    line: int


class Lines:
    """The lines of a file, with the number of the one at hand for whoever must complain about it."""

    def __init__(self, path: Path) -> None:
        self.path, self.number = path, 0
        self.words = [UNKNOWN, END]
        self.numbers = {UNKNOWN: 0, OTHER_UNKNOWN: 0, END: ENDS, BEGIN: BEGINS}
        self._lines = self._read()

    def _read(self) -> Iterator[str]:
        try:
            with open(self.path, "rb") as file:
                begin = file.read(4)
            if begin == ZSTD:
                raise self.bad(
                    "is packed by zstd, and ARPA files are read plain or gzipped", "unpack it first: zstd -d"
                )
            packed = begin.startswith(GZIP)
            with (gzip.open if packed else open)(self.path, "rt", encoding="utf-8-sig", newline="\n") as file:
                for self.number, line in enumerate(file, start=1):
                    yield line.rstrip("\r\n")
        except (UnicodeDecodeError, EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise self.bad(f"is damaged or no UTF-8 text ({error})") from error
        except OSError as error:
            raise BadInput(f"cannot be read ({error.strerror})", file=self.path) from error

    def bad(self, what: str, remedy: str = "") -> BadInput:
        return BadInput(what, file=self.path, line=max(self.number, 1), remedy=remedy)

    def next(self, wanted: str) -> str:
        """The next line that is not blank."""
        for line in self._lines:
            if line.strip(" \t"):
                return line
        raise self.bad(f"the file ends where {wanted} should be", "it was cut short: fetch or write it again")

    def header(self) -> list[int]:
        """How many n-grams of each length the file says it has."""
        if (line := self.next(DATA).strip()) != DATA:
            remedy = "give an ARPA file or a folder of transformers; text is trained on with forebear pretrain"
            raise self.bad(f"no ARPA file: begins with {line[:40]!r} instead of {DATA}", remedy)
        sizes: list[int] = []
        for line in self._lines:
            found = re.fullmatch(r"ngram\s+(\d+)\s*=\s*(\d+)\s*", line)
            if found is None:
                break
            if int(found[1]) != len(sizes) + 1:
                raise self.bad(f"the number of {len(sizes) + 1}-grams should stand here")
            sizes.append(int(found[2]))
        if not sizes or line.strip():
            raise self.bad("the numbers of n-grams (ngram 1=…) and then a blank line should stand here")
        return sizes

    def section(self, n: int, size: int, longest: bool) -> Level:
        """The n-grams of n words. Single words get their numbers here; the longer ones are made of those."""
        title = f"\\{n}-grams:"
        if self.next(title).strip() != title:
            raise self.bad(f"{title} should stand here, or an n-gram more than the beginning of the file says")
        first = self.number + 1
        parts: list[Block] = [(np.zeros((0, n), np.int64), np.zeros(0), np.zeros(0))]
        for begin in range(0, size, BLOCK):
            lines = list(islice(self._lines, min(BLOCK, size - begin)))
            number = self.number - len(lines)
            if begin + len(lines) < min(begin + BLOCK, size):
                remedy = "it was cut short: fetch or write it again"
                raise self.bad(f"the file ends before its {size} {n}-grams do", remedy)
            part = None if n == 1 else at_once(lines, n, self.numbers)
            parts.append(part or self._one_by_one(lines, n, number))
            if longest and parts[-1][2].any():
                self.number = number + 1 + int(np.argmax(parts[-1][2] != 0))
                raise self.bad("one of the longest n-grams has a back-off weight")
        if next(self._lines, "").strip():
            raise self.bad(f"more {n}-grams than the {size} that the beginning of the file says")
        rows, logs, backoffs = (np.concatenate(mine) for mine in zip(*parts, strict=True))
        return Level(rows, logs, backoffs, first)

    def _one_by_one(self, lines: list[str], n: int, number: int) -> Block:
        """The same as `at_once` of lines of any sound form, which knows the line to complain about."""
        rows, logs, backoffs = array("q"), array("d"), array("d")
        for self.number, line in enumerate(lines, start=number + 1):
            if not line.strip():
                raise self.bad(f"fewer {n}-grams than the beginning of the file says")
            value, found, backoff = self._entry(line, n)
            rows.extend([self._single(found[0])] if n == 1 else self._numbers(found))
            logs.append(value)
            backoffs.append(backoff)
        return np.array(rows, np.int64).reshape(-1, n), np.array(logs), np.array(backoffs)

    def _entry(self, line: str, n: int) -> tuple[float, list[str], float]:
        """log10 P, words, back-off weight (0 where none is told)."""
        fields = line.replace("\t", " ").split(" ")
        if "" in fields:
            fields = [mine for mine in fields if mine]
        try:
            if not n + 1 <= len(fields) <= n + 2:
                raise ValueError
            value, backoff = float(fields[0]), float(fields[n + 1]) if len(fields) == n + 2 else 0.0
        except ValueError:
            raise self.bad(f"not log10 P, {n} words and perhaps a back-off weight: {line[:60]!r}") from None
        if not value <= 0 or not backoff < math.inf:
            raise self.bad(f"{fields[0]} is no log10 of a probability, or {backoff} no weight")
        return value, fields[1 : n + 1], backoff

    def _single(self, word: str) -> int:
        if word not in self.numbers:
            self.numbers[word] = len(self.words)
            self.words.append(word)
        return self.numbers[word]

    def _numbers(self, found: list[str]) -> list[int]:
        try:
            ids = [self.numbers[word] for word in found]
        except KeyError as error:
            raise self.bad(f"{error} is not among the single words") from None
        if BEGINS in ids[1:] or ENDS in ids[:-1]:
            raise self.bad(f"{BEGIN} is not the first word, or {END} not the last")
        return [ENDS if ids[0] == BEGINS else ids[0], *ids[1:]]

    def finish(self) -> None:
        if (line := self.next("\\end\\").strip()) != "\\end\\":
            raise self.bad(f"\\end\\ should stand here, not {line[:40]!r}")
        for line in self._lines:
            if line.strip():
                raise self.bad(f"text after \\end\\: {line[:40]!r}")


def at_once(lines: list[str], n: int, numbers: dict[str, int]) -> Block | None:
    """The ids (size, n), log10 P and back-off weights of lines of the usual form; None if one of them is not."""
    parts = [line.split("\t") for line in lines]
    try:
        logs = np.array([float(part[0]) for part in parts])
        backoffs = np.array([float(part[2]) if len(part) > 2 else 0.0 for part in parts])
        texts = [part[1] for part in parts]
        ids = [numbers[word] for word in " ".join(texts).split(" ")]
    except (ValueError, KeyError, IndexError):
        return None
    usual = all(len(part) <= 3 for part in parts) and all(text.count(" ") == n - 1 for text in texts)
    if not usual or not (logs <= 0).all() or not (backoffs < np.inf).all():
        return None
    rows = np.array(ids, np.int64).reshape(-1, n)
    if (rows[:, 1:] == BEGINS).any() or (rows[:, :-1] == ENDS).any():
        return None
    rows[rows == BEGINS] = ENDS
    return rows, logs, backoffs
