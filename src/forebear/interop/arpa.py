"""ARPA files, in which n-gram models travel: the n-grams of each length with log10 of probability and back-off weight.

As elsewhere here, logarithms are natural and one id stands for both marks: <s> where a text begins, </s> where it ends.
"""

from __future__ import annotations

import math
import os
import re
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from forebear.errors import ForebearError, InputError
from forebear.interop.word_vectors_files import PeekableStream, atomic_vector_file

if TYPE_CHECKING:
    from forebear.kernels.arpa import WordHashTable

# The lines of an ARPA file, understood one by one: whatever is not as it should be is refused with its line.


DATA = "\\data\\"  # what such a file begins with
BOS, EOS, UNK = "<s>", "</s>", "<unk>"
UNK_UPPER = "<UNK>"  # some programs write it so
BEGINS, ENDS = -1, 1  # what numbers of words <s> and </s> have; <unk> has 0
MARK = b"\xef\xbb\xbf"  # some programs begin UTF-8 with it
NOT_ONE = "give an ARPA file or a folder of transformers; text is trained on with forebear pretrain"
REPAIR_HINT = "mend this line, or have the program that wrote the file write it again"
CUT = "it was cut short: fetch or write it again"
ARPA_LINES_BLOCK, LONGEST = 1 << 20, 1 << 22  # bytes read at once, and of the longest line
MOST = 1 << 10  # the longest n-grams that are read; who says longer ones is damaged
LARGEST = 1e300  # back-off weights: beyond, none can be reckoned with
DIGITS = 18  # of a number of n-grams


@dataclass(frozen=True, eq=False)
class ArpaSection:
    """A section of a file: its n-grams, their logarithms to base 10, and the line of the first.

    The longest n-grams have no back-off weights: those are an empty array.
    """

    rows: np.ndarray  # (size, n) int32
    log_probs: np.ndarray
    backoffs: np.ndarray
    line: int


class ArpaLineReader:
    """The lines of a file, with the number of the one at hand for whoever must complain about it."""

    def __init__(self, path: Path) -> None:
        self.path, self.number = path, 0
        self.words = [UNK, EOS]
        self.numbers = {UNK: 0, UNK_UPPER: 0, EOS: ENDS, BOS: BEGINS}
        self.block, self.at, self._blocks = b"", 0, self._read()

    # -- bytes

    def _read(self) -> Iterator[bytes]:
        """Whole lines, many at a time, each with its end."""
        try:
            with PeekableStream(self.path) as stream:
                rest = stream.read(len(MARK)).removeprefix(MARK)
                while block := stream.read(ARPA_LINES_BLOCK):
                    cut = block.rfind(b"\n") + 1
                    if cut:
                        yield rest + block[:cut]
                    rest = block[cut:] if cut else rest + block
                    if len(rest) > LONGEST:
                        raise InputError(f"this line does not end within {LONGEST >> 20} MiB", hint=NOT_ONE)
                if rest:
                    yield rest + b"\n"
        except InputError as error:
            # Nobody knows how many lines were lost with what could not be unpacked.
            line = None if "cannot be read" in error.message else self.number + 1
            raise InputError(error.message, file=self.path, line=line, hint=error.hint) from error

    def has_more(self) -> bool:
        """Whether there are lines from the place `at` of `block` on; reads more of them where that is needed."""
        while self.at >= len(self.block):
            block = next(self._blocks, None)
            if block is None:
                return False
            self.block, self.at = block, 0
        return True

    def line(self) -> str | None:
        """The next line; None after the last."""
        if not self.has_more():
            return None
        begin, end = self.at, self.block.index(b"\n", self.at)
        self.at = end + 1
        self.number += 1
        return self.decoded(self.block[begin:end])

    def decoded(self, line: bytes) -> str:
        try:
            return line.rstrip(b"\r").decode()
        except UnicodeDecodeError:
            hint = "fetch it again, or make it UTF-8: iconv -f … -t UTF-8"
            raise self.error("is damaged or no UTF-8 text", hint) from None

    def error(self, what: str, hint: str = REPAIR_HINT) -> InputError:
        return InputError(what, file=self.path, line=max(self.number, 1), hint=hint)

    # -- what stands around the n-grams

    def read_line(self, wanted: str) -> str:
        """The next line that is not blank."""
        while (line := self.line()) is not None:
            if line.strip(" \t"):
                return line
        raise self.error(f"the file ends where {wanted} should be", CUT)

    def read_header(self) -> list[int]:
        """How many n-grams of each length the file says it has."""
        if (line := self.read_line(DATA).strip()) != DATA:
            raise self.error(f"no ARPA file: begins with {line[:40]!r} instead of {DATA}", NOT_ONE)
        sizes: list[int] = []
        while (line := self.line()) is not None:
            found = re.fullmatch(rf"ngram\s+(\d{{1,{DIGITS}}})\s*=\s*(\d{{1,{DIGITS}}})\s*", line)
            if found is None:
                break
            if int(found[1]) != len(sizes) + 1 or len(sizes) == MOST:
                raise self.error(f"the number of {len(sizes) + 1}-grams should stand here")
            sizes.append(int(found[2]))
        if not sizes or (line or "").strip():
            raise self.error("the numbers of n-grams (ngram 1=…) and then a blank line should stand here")
        return sizes

    def section(self, n: int, size: int, longest: bool) -> ArpaSection:
        """The n-grams of n words. Single words get their numbers here; the longer ones are made of those."""
        title = f"\\{n}-grams:"
        if self.read_line(title).strip() != title:
            raise self.error(f"{title} should stand here, or an n-gram more than the beginning of the file says")
        first = self.number + 1
        rows, logs, backoffs = self.read_entries(n, size, longest)
        if (self.line() or "").strip():
            raise self.error(f"more {n}-grams than the {size} that the beginning of the file says")
        return ArpaSection(rows, logs, backoffs, first)

    def read_end(self) -> None:
        if (line := self.read_line("\\end\\").strip()) != "\\end\\":
            raise self.error(f"\\end\\ should stand here, not {line[:40]!r}")
        while (line := self.line()) is not None:
            if line.strip():
                raise self.error(f"text after \\end\\: {line[:40]!r}")
        self.block = b""

    # -- n-grams

    def read_entries(self, n: int, size: int, longest: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The rows (size, n), log10 P and, but for the longest, back-off weights of the next lines."""
        rows, logs, backoffs = array("i"), array("d"), array("d")
        for _ in range(size):
            line = self.line()
            if line is None:
                raise self.missing_entries_error(n, size)
            value, found, backoff = self.read_entry(line, n, longest)
            rows.extend([self.read_unigram(found[0])] if n == 1 else self.word_ids(found))
            logs.append(value)
            if not longest:
                backoffs.append(backoff)
        made = np.frombuffer(rows, np.int32) if rows else np.zeros(0, np.int32)
        return made.reshape(-1, n), np.array(logs), np.array(backoffs)

    def missing_entries_error(self, n: int, size: int) -> InputError:
        return self.error(f"the file ends before its {size} {n}-grams do", CUT)

    def read_entry(self, line: str, n: int, longest: bool) -> tuple[float, list[str], float]:
        """log10 P, words, back-off weight (0 where none is told)."""
        if not line.strip():
            raise self.error(f"fewer {n}-grams than the beginning of the file says")
        fields = line.replace("\t", " ").split(" ")
        if "" in fields:
            fields = [mine for mine in fields if mine]
        try:
            if not n + 1 <= len(fields) <= n + 2:
                raise ValueError
            value, backoff = float(fields[0]), float(fields[n + 1]) if len(fields) == n + 2 else 0.0
        except ValueError:
            raise self.error(f"not log10 P, {n} words and perhaps a back-off weight: {line[:60]!r}") from None
        if not value <= 0 or not backoff < LARGEST:
            raise self.error(f"{fields[0]} is no log10 of a probability, or {backoff} no weight")
        if longest and backoff:
            raise self.error("one of the longest n-grams has a back-off weight")
        return value, fields[1 : n + 1], backoff

    def read_unigram(self, word: str) -> int:
        if word not in self.numbers:
            self.numbers[word] = len(self.words)
            self.words.append(word)
        return self.numbers[word]

    def word_ids(self, found: list[str]) -> list[int]:
        try:
            ids = [self.numbers[word] for word in found]
        except KeyError as error:
            raise self.error(f"{error} is not among the single words") from None
        if BEGINS in ids[1:] or ENDS in ids[:-1]:
            raise self.error(f"{BOS} is not the first word, or {EOS} not the last")
        return [ENDS if ids[0] == BEGINS else ids[0], *ids[1:]]


# The same as the lines of an ARPA file one by one, many at a time: what a large file is read with.
#
# Compiled loops read what has the usual form; a line that has not is understood, or refused, as `Lines` does it.


ARPA_BLOCKS_MARKS = {BOS: BEGINS, EOS: ENDS, UNK: 0, UNK_UPPER: 0}
LEAST = 1 << 12  # rows there is room for at first, where the file is packed and nobody knows its length


class ArpaBlockReader(ArpaLineReader):
    """Lines whose n-grams are read in blocks."""

    table: WordHashTable

    def read_entries(self, n: int, size: int, longest: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        # A line takes at least two bytes a field: what the file says of itself must not decide how much memory is used.
        room = min(size, max(LEAST, self.path.stat().st_size // (2 * n + 2)))
        rows, logs = np.empty((room, n), np.int32), np.empty(room)
        backoffs, names, read = None if longest else np.empty(room), [], 0
        while read < size:
            if not self.has_more():
                raise self.missing_entries_error(n, size)
            if read == len(logs):
                _resized(min(size, 2 * read), rows, logs, backoffs)
            weights = None if backoffs is None else backoffs[read:]
            if n == 1:
                names += self._single(logs[read:], weights)
                read = len(names)
            else:
                read += self._longer(rows[read:], logs[read:], weights)
        _resized(size, rows, logs, backoffs)
        if n == 1:
            rows[:, 0] = self._entered(names)
        return rows, logs, np.zeros(0) if backoffs is None else backoffs

    def _single(self, logs: np.ndarray, backoffs: np.ndarray | None) -> list[str]:
        """The words of the next lines; fills the arrays with their numbers."""
        from forebear.kernels.arpa import parse_unigram_lines

        text = np.frombuffer(self.block, np.uint8)
        count, at, pool, odd = parse_unigram_lines(text, self.at, logs, backoffs)
        sound = count
        try:
            names = pool.decode().split("\n")[:count]
        except UnicodeDecodeError as error:
            sound, names = pool.count(b"\n", 0, error.start), []
        for row, line in self._odd(odd, sound):
            logs[row], (name,), weight = self.read_entry(line, 1, backoffs is None)
            if backoffs is not None:
                backoffs[row] = weight
            if names:
                names[row] = name
        if sound < count:
            self.number += sound + 1
            self.decoded(pool.split(b"\n")[sound])  # which complains
        self.number, self.at = self.number + count, at
        return names

    def _longer(self, rows: np.ndarray, logs: np.ndarray, backoffs: np.ndarray | None) -> int:
        """Fills the arrays with the n-grams of the next lines; how many they are."""
        from forebear.kernels.arpa import parse_ngram_lines

        text = np.frombuffer(self.block, np.uint8)
        count, at, odd = parse_ngram_lines(text, self.at, self.table, rows, logs, backoffs)
        if len(odd) and len(self.numbers) == len(
            ARPA_BLOCKS_MARKS
        ):  # the table of the loops is no dictionary of Python's
            self.numbers.update((word, number) for number, word in enumerate(self.words) if number > ENDS)
        for row, line in self._odd(odd, count):
            logs[row], found, weight = self.read_entry(line, rows.shape[1], backoffs is None)
            rows[row] = self.word_ids(found)
            if backoffs is not None:
                backoffs[row] = weight
        self.number, self.at = self.number + count, at
        return count

    def _odd(self, odd: np.ndarray, before: int) -> Iterator[tuple[int, str]]:
        """Lines of no usual form, and which of the block's they are; while they are looked at, theirs is the number."""
        base = self.number
        for row, begin in odd.tolist():
            if row < before:
                self.number = base + row + 1
                yield row, self.decoded(self.block[begin : self.block.index(b"\n", begin)])
        self.number = base

    def _entered(self, names: list[str]) -> np.ndarray:
        """The numbers of all single words, which can be found from now on."""
        from forebear.kernels.arpa import build_word_table

        ids = np.zeros(len(names), np.int32)
        marks = [row for row, name in enumerate(names) if name in ARPA_BLOCKS_MARKS]
        plain = np.delete(np.arange(len(names)), marks)
        ids[plain] = np.arange(len(self.words), len(self.words) + len(plain))
        ids[marks] = [ARPA_BLOCKS_MARKS[names[row]] for row in marks]
        self.words += [name for name in names if name not in ARPA_BLOCKS_MARKS]
        self.table, again = build_word_table("".join(name + "\n" for name in names).encode(), ids)
        if again >= 0:
            ids[again] = ids[names.index(names[again])]
        return ids


def _resized(size: int, *arrays: np.ndarray | None) -> None:
    """Arrays that nothing else looks into can grow and shrink where they are."""
    for mine in arrays:
        if mine is not None and len(mine) != size:
            mine.resize((size, *mine.shape[1:]), refcheck=False)


ARPA_MARKERS = (BOS, EOS, UNK, UNK_UPPER)  # what readers of such files take for a mark
LOG_ZERO = -99.0  # what stands for log10 of 0 in such files, SRILM's too; the number itself no count comes near to
MUCH = 1 << 22  # bytes of a file; a smaller one is read before the compiled loops are loaded
MANY = 1 << 19  # n-grams; fewer are written before the compiled loops are loaded
BLOCK = 1 << 16  # n-grams written at once
MISSING = -100.0  # log10 P of unknown words where a file has no entry for them; KenLM takes the same


@dataclass(frozen=True, eq=False)
class ArpaModel:
    """What a file holds: words by id, and for n = 1, 2, … the n-grams (size, n) with log P and back-off weights.

    The longest n-grams have no back-off weights. `notes` tell what a person should know about the file.
    """

    words: list[str]
    ngrams: list[np.ndarray]
    log_probs: list[np.ndarray]
    backoffs: list[np.ndarray]
    notes: list[str] = field(default_factory=list)
    unk_id: int = 0
    eos_id: int = 1


# -- words


def escape_word(word: str) -> str:
    r"""A word as one that these files can hold: white space, control characters and \ become \u0020 and the like.

    So does the < of a word that looks like a mark.
    """
    if word in ARPA_MARKERS:
        return r"\u003c" + word[1:]
    if word.isprintable() and " " not in word and "\\" not in word:
        return word
    return "".join(map(_escaped, word))


def _escaped(character: str) -> str:
    odd = character.isspace() or ord(character) < 32 or ord(character) == 127 or character == "\\"
    return rf"\u{ord(character):04x}" if odd else character


def unescaped(word: str) -> str:
    """The word again. One that looked like a mark stays as it is: here too it must not be taken for one."""

    def plain(found: re.Match[str]) -> str:
        character = chr(int(found[1], 16))
        return character if _escaped(character) == found[0] else found[0]

    return re.sub(r"\\u([0-9a-f]{4})", plain, word) if "\\" in word else word


# -- writing


def write_arpa(
    path: str | os.PathLike[str],
    words: Sequence[str],
    ngrams: Sequence[np.ndarray],
    logs: Sequence[np.ndarray],
    backoffs: Sequence[np.ndarray],
    *,
    end: int,
    unknown: int | None,
    quickly: bool | None = None,
) -> None:
    """Writes such arrays, the file whole or not at all; packed where its name ends with .gz or .zst.

    Where nothing can be unknown, <unk> gets probability 0. `quickly`: with compiled loops, which gives the same bytes
    and pays for many n-grams; None: if there are many.
    """
    names = [*map(escape_word, words), BOS, UNK]
    begin = len(words)
    names[end] = EOS
    names[unknown if unknown is not None else -1] = UNK
    for rows in ngrams:
        if rows.size and not 0 <= rows.min() <= rows.max() < len(words):
            raise ForebearError(f"n-grams hold ids outside 0 to {len(words) - 1}, and there are no other words")
    # The beginning of a text becomes a word of its own, never predicted, and takes the end's weight with it.
    single = np.append(ngrams[0], [[begin]] if unknown is not None else [[begin], [begin + 1]], axis=0)
    more = np.zeros(len(single) - len(ngrams[0]))
    levels = [(single, np.append(logs[0], more - np.inf)), *zip(ngrams[1:], logs[1:], strict=True)]
    weights = [None if n == len(levels) else backoffs[n - 1] for n in range(1, len(levels) + 1)]
    if weights[0] is not None:
        weights[0] = np.append(weights[0], more)
        ends = single[:, 0] == end
        weights[0][single[:, 0] == begin], weights[0][ends] = weights[0][ends], 0.0
    laid = _laying(names, sum(map(len, ngrams)) >= MANY if quickly is None else quickly)
    with atomic_vector_file(path) as file:
        sizes = "".join(f"ngram {n}={len(rows)}\n" for n, (rows, _) in enumerate(levels, start=1))
        file.write(f"{DATA}\n{sizes}".encode())
        for n, ((rows, values), tails) in enumerate(zip(levels, weights, strict=True), start=1):
            file.write(f"\n\\{n}-grams:\n".encode())
            for at in range(0, len(rows), BLOCK):
                part = slice(at, at + BLOCK)
                mine = np.array(rows[part], np.int32)
                if n > 1:
                    mine[mine[:, 0] == end, 0] = begin
                tens = _tens(np.minimum(values[part], 0))  # rounding may exceed 0
                file.write(laid(mine, tens, None if tails is None else _tens(tails[part])))
        file.write(b"\n\\end\\\n")


def _tens(logs: np.ndarray) -> np.ndarray:
    return np.maximum(logs / math.log(10), LOG_ZERO)


def _laying(
    names: list[str], quickly: bool
) -> Callable[[np.ndarray, np.ndarray, np.ndarray | None], bytes | memoryview]:
    """What makes lines of n-grams (size, n), log10 P and back-off weights."""
    if not quickly:
        return partial(lines_of, names)
    from forebear.kernels.arpa import format_ngram_lines, word_bytes

    return partial(format_ngram_lines, word_bytes(names))


def lines_of(names: list[str], rows: np.ndarray, logs: np.ndarray, backoffs: np.ndarray | None) -> bytes:
    """The lines of n-grams as bytes."""
    words = [map(names.__getitem__, column.tolist()) for column in rows.T]
    fields = [map("%.9g".__mod__, logs.tolist()), map(" ".join, zip(*words, strict=True))]
    if backoffs is not None:
        fields.append(map("%.9g".__mod__, backoffs.tolist()))
    return "".join(line + "\n" for line in map("\t".join, zip(*fields, strict=True))).encode()


# -- reading


def read_arpa(path: str | os.PathLike[str], *, quickly: bool | None = None) -> ArpaModel:
    """Reads a file, plain or packed by gzip or zstd; whatever is not as such files are is refused with its line.

    `quickly`: with compiled loops, which gives the same and pays for large files; None: if it is one.
    """
    path = Path(path)
    if quickly is None:
        quickly = path.is_file() and path.stat().st_size >= MUCH
    lines = ArpaBlockReader(path) if quickly else ArpaLineReader(path)
    sizes = lines.read_header()
    single, notes = _single(path, lines.section(1, sizes[0], len(sizes) == 1))
    levels = [single, *(lines.section(n, size, n == len(sizes)) for n, size in enumerate(sizes[1:], start=2))]
    lines.read_end()
    _check(path, levels, len(lines.words), quickly)
    logs, backoffs = [level.log_probs for level in levels], [level.backoffs for level in levels[:-1]]
    unknown = int((logs[0][levels[0].rows[:, 0] == 0] == LOG_ZERO).sum())  # words, which many files hold impossible
    if zeros := sum(_impossible(values) for values in (*logs, *backoffs)) - unknown:
        told = "1 number of the file is" if zeros == 1 else f"{zeros:,} numbers of the file are"
        notes.append(f"{told} {LOG_ZERO:g}, which stands for a probability or weight of 0")
    with np.errstate(over="ignore"):
        for values in (*logs, *backoffs):
            values *= math.log(10)  # where they are: a copy of everything would be the peak of memory
    return ArpaModel([unescaped(word) for word in lines.words], [level.rows for level in levels], logs, backoffs, notes)


def _impossible(values: np.ndarray) -> int:
    """Makes log 0 of what stands for it, and says how often that is."""
    zeros = values == LOG_ZERO
    values[zeros] = -np.inf
    return int(zeros.sum())


def _single(path: Path, level: ArpaSection) -> tuple[ArpaSection, list[str]]:
    """Single words with the beginning of a text made part of the end: of each, the number that is used."""
    ids = level.rows[:, 0]
    places, firsts = np.unique(ids, return_index=True)
    if len(places) < len(ids):
        again = int(np.delete(np.arange(len(ids)), firsts).min())
        raise InputError("this word is there twice", file=path, line=level.line + again, hint=REPAIR_HINT)
    at = dict.fromkeys((BEGINS, ENDS, 0), -1) | {int(ids[row]): int(row) for row in firsts[: ENDS - BEGINS + 1]}
    if at[BEGINS] < 0 or at[ENDS] < 0:
        hint = "estimate the model again with sentence marks"
        raise InputError(f"no {BOS} or no {EOS} among the single words", file=path, line=level.line, hint=hint)
    backoffs = level.backoffs.copy() if len(level.backoffs) else np.zeros(len(ids))
    backoffs[at[ENDS]] = backoffs[at[BEGINS]]
    keep = ids != BEGINS
    ids, logs, backoffs, notes = ids[keep], level.log_probs[keep], backoffs[keep], []
    if at[0] < 0:
        notes.append(f"the file has no {UNK}: unknown words get log10 P = {MISSING:g}, as KenLM does")
        ids, logs, backoffs = np.append(ids, np.int32(0)), np.append(logs, MISSING), np.append(backoffs, 0.0)
    if abs((total := float((10.0**logs).sum())) - 1) > 1e-3:
        notes.append(f"the probabilities of single words sum to {total:.4f}, not to 1")
    return ArpaSection(ids[:, None], logs, backoffs, level.line), notes


def _check(path: Path, levels: list[ArpaSection], vocabulary: int, quickly: bool) -> None:
    """Every n-gram is there once, and so is what it begins with: without that it could not be found."""
    check: Callable[[list[Any], np.ndarray], tuple[int, int]] = partial(checked, vocabulary)
    if quickly:
        from forebear.kernels.arpa_checking import check_ngram_prefixes as check
    known: list[Any] = []
    for n, level in enumerate(levels[1:], start=2):
        lost, again = check(known, level.rows)
        if lost >= 0:
            what = f"the first {n - 1} words of this n-gram have no entry of their own"
            raise InputError(what, file=path, line=level.line + lost, hint=REPAIR_HINT)
        if again >= 0:
            raise InputError("this n-gram is there twice", file=path, line=level.line + again, hint=REPAIR_HINT)


def checked(vocabulary: int, known: list[np.ndarray], rows: np.ndarray) -> tuple[int, int]:
    """The first of these n-grams (size, n) whose first n - 1 words are no n-gram, or the first that was there before;
    -1 where there is none.

    `known` keeps, sorted, prefix · vocabulary + word of all n-grams of two words, of three, …
    """
    numbers, lost = rows[:, 0].astype(np.int64), np.zeros(len(rows), bool)
    for column, keys in enumerate(known, start=1):
        wanted = numbers * vocabulary + rows[:, column]
        numbers = np.searchsorted(keys, wanted)
        lost |= np.append(keys, -1)[numbers] != wanted
    if lost.any():
        return int(np.argmax(lost)), -1
    keys = numbers * vocabulary + rows[:, -1]
    order = np.argsort(keys, kind="stable")
    known.append(keys[order])
    again = order[1:][np.diff(known[-1]) == 0]
    return -1, int(again.min()) if len(again) else -1
