"""ARPA files, in which n-gram models travel: the n-grams of each length with log10 of probability and back-off weight.

As elsewhere here, logarithms are natural and one id stands for both marks: <s> where a text begins, </s> where it ends.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from forebear.errors import BadInput, ForebearError
from forebear.interop.arpa_blocks import Blocks
from forebear.interop.arpa_lines import BEGIN, BEGINS, DATA, END, ENDS, MEND, OTHER_UNKNOWN, UNKNOWN, Level, Lines
from forebear.interop.word_vectors_files import written_whole

MARKS = (BEGIN, END, UNKNOWN, OTHER_UNKNOWN)  # what readers of such files take for a mark
ZERO = -99.0  # what stands for log10 of 0 in such files, SRILM's too; the number itself no count comes near to
MUCH = 1 << 22  # bytes of a file; a smaller one is read before the compiled loops are loaded
MANY = 1 << 19  # n-grams; fewer are written before the compiled loops are loaded
BLOCK = 1 << 16  # n-grams written at once
MISSING = -100.0  # log10 P of unknown words where a file has no entry for them; KenLM takes the same


@dataclass(frozen=True, eq=False)
class Arpa:
    """What a file holds: words by id, and for n = 1, 2, … the n-grams (size, n) with log P and back-off weights.

    The longest n-grams have no back-off weights. `notes` tell what a person should know about the file.
    """

    words: list[str]
    ngrams: list[np.ndarray]
    logs: list[np.ndarray]
    backoffs: list[np.ndarray]
    notes: list[str] = field(default_factory=list)
    unknown: int = 0
    end: int = 1


# -- words


def escaped(word: str) -> str:
    r"""A word as one that these files can hold: white space, control characters and \ become \u0020 and the like.

    So does the < of a word that looks like a mark.
    """
    if word in MARKS:
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


def write(
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
    names = [*map(escaped, words), BEGIN, UNKNOWN]
    begin = len(words)
    names[end] = END
    names[unknown if unknown is not None else -1] = UNKNOWN
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
    with written_whole(path) as file:
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
    return np.maximum(logs / math.log(10), ZERO)


def _laying(
    names: list[str], quickly: bool
) -> Callable[[np.ndarray, np.ndarray, np.ndarray | None], bytes | memoryview]:
    """What makes lines of n-grams (size, n), log10 P and back-off weights."""
    if not quickly:
        return partial(lines_of, names)
    from forebear.kernels.arpa_writing import lines, names_of

    return partial(lines, names_of(names))


def lines_of(names: list[str], rows: np.ndarray, logs: np.ndarray, backoffs: np.ndarray | None) -> bytes:
    """The lines of n-grams as bytes."""
    words = [map(names.__getitem__, column.tolist()) for column in rows.T]
    fields = [map("%.9g".__mod__, logs.tolist()), map(" ".join, zip(*words, strict=True))]
    if backoffs is not None:
        fields.append(map("%.9g".__mod__, backoffs.tolist()))
    return "".join(line + "\n" for line in map("\t".join, zip(*fields, strict=True))).encode()


# -- reading


def read(path: str | os.PathLike[str], *, quickly: bool | None = None) -> Arpa:
    """Reads a file, plain or packed by gzip or zstd; whatever is not as such files are is refused with its line.

    `quickly`: with compiled loops, which gives the same and pays for large files; None: if it is one.
    """
    path = Path(path)
    if quickly is None:
        quickly = path.is_file() and path.stat().st_size >= MUCH
    lines = Blocks(path) if quickly else Lines(path)
    sizes = lines.header()
    single, notes = _single(path, lines.section(1, sizes[0], len(sizes) == 1))
    levels = [single, *(lines.section(n, size, n == len(sizes)) for n, size in enumerate(sizes[1:], start=2))]
    lines.finish()
    _check(path, levels, len(lines.words), quickly)
    logs, backoffs = [level.logs for level in levels], [level.backoffs for level in levels[:-1]]
    unknown = int((logs[0][levels[0].rows[:, 0] == 0] == ZERO).sum())  # words, which many files hold impossible
    if zeros := sum(_impossible(values) for values in (*logs, *backoffs)) - unknown:
        told = "1 number of the file is" if zeros == 1 else f"{zeros:,} numbers of the file are"
        notes.append(f"{told} {ZERO:g}, which stands for a probability or weight of 0")
    with np.errstate(over="ignore"):
        for values in (*logs, *backoffs):
            values *= math.log(10)  # where they are: a copy of everything would be the peak of memory
    return Arpa([unescaped(word) for word in lines.words], [level.rows for level in levels], logs, backoffs, notes)


def _impossible(values: np.ndarray) -> int:
    """Makes log 0 of what stands for it, and says how often that is."""
    zeros = values == ZERO
    values[zeros] = -np.inf
    return int(zeros.sum())


def _single(path: Path, level: Level) -> tuple[Level, list[str]]:
    """Single words with the beginning of a text made part of the end: of each, the number that is used."""
    ids = level.rows[:, 0]
    places, firsts = np.unique(ids, return_index=True)
    if len(places) < len(ids):
        again = int(np.delete(np.arange(len(ids)), firsts).min())
        raise BadInput("this word is there twice", file=path, line=level.line + again, remedy=MEND)
    at = dict.fromkeys((BEGINS, ENDS, 0), -1) | {int(ids[row]): int(row) for row in firsts[: ENDS - BEGINS + 1]}
    if at[BEGINS] < 0 or at[ENDS] < 0:
        remedy = "estimate the model again with sentence marks"
        raise BadInput(f"no {BEGIN} or no {END} among the single words", file=path, line=level.line, remedy=remedy)
    backoffs = level.backoffs.copy() if len(level.backoffs) else np.zeros(len(ids))
    backoffs[at[ENDS]] = backoffs[at[BEGINS]]
    keep = ids != BEGINS
    ids, logs, backoffs, notes = ids[keep], level.logs[keep], backoffs[keep], []
    if at[0] < 0:
        notes.append(f"the file has no {UNKNOWN}: unknown words get log10 P = {MISSING:g}, as KenLM does")
        ids, logs, backoffs = np.append(ids, np.int32(0)), np.append(logs, MISSING), np.append(backoffs, 0.0)
    if abs((total := float((10.0**logs).sum())) - 1) > 1e-3:
        notes.append(f"the probabilities of single words sum to {total:.4f}, not to 1")
    return Level(ids[:, None], logs, backoffs, level.line), notes


def _check(path: Path, levels: list[Level], vocabulary: int, quickly: bool) -> None:
    """Every n-gram is there once, and so is what it begins with: without that it could not be found."""
    check: Callable[[list[Any], np.ndarray], tuple[int, int]] = partial(checked, vocabulary)
    if quickly:
        from forebear.kernels.arpa_checking import checked as check
    known: list[Any] = []
    for n, level in enumerate(levels[1:], start=2):
        lost, again = check(known, level.rows)
        if lost >= 0:
            what = f"the first {n - 1} words of this n-gram have no entry of their own"
            raise BadInput(what, file=path, line=level.line + lost, remedy=MEND)
        if again >= 0:
            raise BadInput("this n-gram is there twice", file=path, line=level.line + again, remedy=MEND)


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
