"""The lines of an ARPA file, understood one by one: whatever is not as it should be is refused with its line."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from forebear.errors import BadInput
from forebear.interop.word_vectors_files import Stream

DATA = "\\data\\"  # what such a file begins with
BEGIN, END, UNKNOWN = "<s>", "</s>", "<unk>"
OTHER_UNKNOWN = "<UNK>"  # some programs write it so
BEGINS, ENDS = -1, 1  # what numbers of words <s> and </s> have; <unk> has 0
MARK = b"\xef\xbb\xbf"  # some programs begin UTF-8 with it
NOT_ONE = "give an ARPA file or a folder of transformers; text is trained on with forebear pretrain"
MEND = "mend this line, or have the program that wrote the file write it again"
CUT = "it was cut short: fetch or write it again"
BLOCK, LONGEST = 1 << 20, 1 << 22  # bytes read at once, and of the longest line
MOST = 1 << 10  # the longest n-grams that are read; who says longer ones is damaged
LARGEST = 1e300  # back-off weights: beyond, none can be reckoned with
DIGITS = 18  # of a number of n-grams


@dataclass(frozen=True, eq=False)
class Level:
    """A section of a file: its n-grams, their logarithms to base 10, and the line of the first.

    The longest n-grams have no back-off weights: those are an empty array.
    """

    rows: np.ndarray  # (size, n) int32
    logs: np.ndarray
    backoffs: np.ndarray
    line: int


class Lines:
    """The lines of a file, with the number of the one at hand for whoever must complain about it."""

    def __init__(self, path: Path) -> None:
        self.path, self.number = path, 0
        self.words = [UNKNOWN, END]
        self.numbers = {UNKNOWN: 0, OTHER_UNKNOWN: 0, END: ENDS, BEGIN: BEGINS}
        self.block, self.at, self._blocks = b"", 0, self._read()

    # -- bytes

    def _read(self) -> Iterator[bytes]:
        """Whole lines, many at a time, each with its end."""
        try:
            with Stream(self.path) as stream:
                rest = stream.read(len(MARK)).removeprefix(MARK)
                while block := stream.read(BLOCK):
                    cut = block.rfind(b"\n") + 1
                    if cut:
                        yield rest + block[:cut]
                    rest = block[cut:] if cut else rest + block
                    if len(rest) > LONGEST:
                        raise BadInput(f"this line does not end within {LONGEST >> 20} MiB", remedy=NOT_ONE)
                if rest:
                    yield rest + b"\n"
        except BadInput as error:
            # Nobody knows how many lines were lost with what could not be unpacked.
            line = None if "cannot be read" in error.what else self.number + 1
            raise BadInput(error.what, file=self.path, line=line, remedy=error.remedy) from error

    def more(self) -> bool:
        """Whether there are lines from the place `at` of `block` on; reads more of them where that is needed."""
        while self.at >= len(self.block):
            block = next(self._blocks, None)
            if block is None:
                return False
            self.block, self.at = block, 0
        return True

    def line(self) -> str | None:
        """The next line; None after the last."""
        if not self.more():
            return None
        begin, end = self.at, self.block.index(b"\n", self.at)
        self.at = end + 1
        self.number += 1
        return self.decoded(self.block[begin:end])

    def decoded(self, line: bytes) -> str:
        try:
            return line.rstrip(b"\r").decode()
        except UnicodeDecodeError:
            remedy = "fetch it again, or make it UTF-8: iconv -f … -t UTF-8"
            raise self.bad("is damaged or no UTF-8 text", remedy) from None

    def bad(self, what: str, remedy: str = MEND) -> BadInput:
        return BadInput(what, file=self.path, line=max(self.number, 1), remedy=remedy)

    # -- what stands around the n-grams

    def next(self, wanted: str) -> str:
        """The next line that is not blank."""
        while (line := self.line()) is not None:
            if line.strip(" \t"):
                return line
        raise self.bad(f"the file ends where {wanted} should be", CUT)

    def header(self) -> list[int]:
        """How many n-grams of each length the file says it has."""
        if (line := self.next(DATA).strip()) != DATA:
            raise self.bad(f"no ARPA file: begins with {line[:40]!r} instead of {DATA}", NOT_ONE)
        sizes: list[int] = []
        while (line := self.line()) is not None:
            found = re.fullmatch(rf"ngram\s+(\d{{1,{DIGITS}}})\s*=\s*(\d{{1,{DIGITS}}})\s*", line)
            if found is None:
                break
            if int(found[1]) != len(sizes) + 1 or len(sizes) == MOST:
                raise self.bad(f"the number of {len(sizes) + 1}-grams should stand here")
            sizes.append(int(found[2]))
        if not sizes or (line or "").strip():
            raise self.bad("the numbers of n-grams (ngram 1=…) and then a blank line should stand here")
        return sizes

    def section(self, n: int, size: int, longest: bool) -> Level:
        """The n-grams of n words. Single words get their numbers here; the longer ones are made of those."""
        title = f"\\{n}-grams:"
        if self.next(title).strip() != title:
            raise self.bad(f"{title} should stand here, or an n-gram more than the beginning of the file says")
        first = self.number + 1
        rows, logs, backoffs = self.entries(n, size, longest)
        if (self.line() or "").strip():
            raise self.bad(f"more {n}-grams than the {size} that the beginning of the file says")
        return Level(rows, logs, backoffs, first)

    def finish(self) -> None:
        if (line := self.next("\\end\\").strip()) != "\\end\\":
            raise self.bad(f"\\end\\ should stand here, not {line[:40]!r}")
        while (line := self.line()) is not None:
            if line.strip():
                raise self.bad(f"text after \\end\\: {line[:40]!r}")
        self.block = b""

    # -- n-grams

    def entries(self, n: int, size: int, longest: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The rows (size, n), log10 P and, but for the longest, back-off weights of the next lines."""
        rows, logs, backoffs = array("i"), array("d"), array("d")
        for _ in range(size):
            line = self.line()
            if line is None:
                raise self.too_short(n, size)
            value, found, backoff = self.entry(line, n, longest)
            rows.extend([self.single(found[0])] if n == 1 else self.numbers_of(found))
            logs.append(value)
            if not longest:
                backoffs.append(backoff)
        made = np.frombuffer(rows, np.int32) if rows else np.zeros(0, np.int32)
        return made.reshape(-1, n), np.array(logs), np.array(backoffs)

    def too_short(self, n: int, size: int) -> BadInput:
        return self.bad(f"the file ends before its {size} {n}-grams do", CUT)

    def entry(self, line: str, n: int, longest: bool) -> tuple[float, list[str], float]:
        """log10 P, words, back-off weight (0 where none is told)."""
        if not line.strip():
            raise self.bad(f"fewer {n}-grams than the beginning of the file says")
        fields = line.replace("\t", " ").split(" ")
        if "" in fields:
            fields = [mine for mine in fields if mine]
        try:
            if not n + 1 <= len(fields) <= n + 2:
                raise ValueError
            value, backoff = float(fields[0]), float(fields[n + 1]) if len(fields) == n + 2 else 0.0
        except ValueError:
            raise self.bad(f"not log10 P, {n} words and perhaps a back-off weight: {line[:60]!r}") from None
        if not value <= 0 or not backoff < LARGEST:
            raise self.bad(f"{fields[0]} is no log10 of a probability, or {backoff} no weight")
        if longest and backoff:
            raise self.bad("one of the longest n-grams has a back-off weight")
        return value, fields[1 : n + 1], backoff

    def single(self, word: str) -> int:
        if word not in self.numbers:
            self.numbers[word] = len(self.words)
            self.words.append(word)
        return self.numbers[word]

    def numbers_of(self, found: list[str]) -> list[int]:
        try:
            ids = [self.numbers[word] for word in found]
        except KeyError as error:
            raise self.bad(f"{error} is not among the single words") from None
        if BEGINS in ids[1:] or ENDS in ids[:-1]:
            raise self.bad(f"{BEGIN} is not the first word, or {END} not the last")
        return [ENDS if ids[0] == BEGINS else ids[0], *ids[1:]]
