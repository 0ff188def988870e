"""Files of word vectors, read and written: word2vec's text and binary, GloVe's, fastText's .vec, safetensors."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from forebear.errors import BadInput
from forebear.interop import word_vectors_binary as binary
from forebear.interop import word_vectors_safetensors as safetensors
from forebear.interop import word_vectors_text as text
from forebear.interop.word_vectors_files import Progress, Stream, written_whole
from forebear.interop.word_vectors_gathering import Tally, WordVectors

FORMS = ("word2vec", "word2vec-binary", "glove", "fasttext", "safetensors")
SURE, LIKELY = 0.9, 0.5  # the share of the first lines that must look like a word with one number, or with more
ROWS = 4096  # looked at at once
LOOKED_AT = 64  # rows by which it is said how large a file of text will be
OTHERS = {
    b"PK\x03\x04": ("is a zip archive", "unpack it first, and give the file inside"),
    b"\x80": (
        "looks like a pickle, which can run code when it is opened",
        "have gensim write it where you trust it: model.wv.save_word2vec_format(FILE)",
    ),
    b"\xba\x16\x4f\x2f": (
        "is fastText's own model, of which only the vectors are read",
        "give the .vec that fastText wrote beside it ({stem}.vec), or have it print-word-vectors",
    ),
    b"\x93NUMPY": ("is an array without words", "write it with its words, as any of the forms that are read"),
}
MARK = "\ufeff"  # not read where a file begins with it

__all__ = ["FORMS", "WordVectors", "expected_size", "read", "recognised", "write"]


def recognised(path: str | os.PathLike[str]) -> str | None:
    """Which of `FORMS` a file is, by what is in it; None where it is none of them, or is not there.

    word2vec's and fastText's text are one thing: a name that ends with .vec (or .vec.gz, .vec.zst) is fastText's.
    """
    path = Path(path)
    if not path.is_file():
        return None
    if safetensors.looks_so(path):
        return "safetensors"
    try:
        with Stream(path) as stream:
            return _recognised(path, *stream.look())
    except BadInput:  # damaged, so that nobody can tell
        return None


def _recognised(path: Path, head: bytes, whole: bool) -> str | None:
    if head.startswith(tuple(OTHERS)):
        return None
    shape = text.shape_of(head, whole)
    if shape.count is None:
        return "glove" if shape.usual and shape.share >= (SURE if shape.usual == 1 else LIKELY) else None
    named = "fasttext" if path.name.lower().removesuffix(".gz").removesuffix(".zst").endswith(".vec") else "word2vec"
    if shape.usual == shape.width:
        # Of width 1, "N D" may as well be a word and its number: then it is true by chance only.
        alike = shape.width == 1 and whole and len(head[shape.first :].split()) != 2 * shape.count
        return "glove" if alike else named
    if binary.looks_so(head, whole):
        return "word2vec-binary"
    return "glove" if shape.usual == 1 and shape.share >= SURE else named


def read(
    path: str | os.PathLike[str],
    *,
    form: str | None = None,
    limit: int | None = None,
    on_bad_bytes: str = "fail",
    progress: Progress | None = None,
    parse: text.Parse | None = None,
) -> WordVectors:
    """The words and vectors of a file, plain, gzip or zstd; whatever is not as it should be is refused with its place.

    form          one of `FORMS`; None: what the file looks like
    limit         no more words than these, from the beginning
    on_bad_bytes  with a word that is no UTF-8: "fail", "replace" what is not by U+FFFD, or "skip" it
    progress      told the bytes read and how many there are
    parse         a faster `word_vectors_text.parsed`
    """
    path = Path(path)
    if limit is not None and limit < 1:
        raise BadInput(f"a limit of {limit} words leaves none", remedy="give 1 or more")
    form = form or recognised(path)
    if form != "safetensors" and b"\0" in refuse_others(path) and form not in (None, "word2vec-binary"):
        remedy = "leave out the form, or give word2vec-binary"
        raise BadInput(f"holds bytes that no text has, and is no {form}", file=path, remedy=remedy)
    with Stream(path, progress) as stream:
        if form is None:
            remedy = f"give one of: {', '.join(FORMS)}; or say which it is meant to be"
            raise BadInput("no file of word vectors", file=path, remedy=remedy)
        if form == "safetensors":
            return safetensors.read(path, limit=limit, on_bad_bytes=on_bad_bytes, progress=progress)
        if form == "word2vec-binary":
            return binary.read(stream, limit=limit, on_bad_bytes=on_bad_bytes)
        return text.read(stream, _known(form), limit=limit, on_bad_bytes=on_bad_bytes, parse=parse)


def refuse_others(path: str | os.PathLike[str]) -> bytes:
    """Refuses what other programs keep word vectors in and what is not read here, with what to do about it; also what
    is empty or damaged. Returns how the file begins, unpacked."""
    with Stream(path) as stream:
        begin = stream.look()[0]
    if not begin.strip():
        raise BadInput("the file is empty", file=path, remedy="fetch or write it again")
    for mark, (what, remedy) in OTHERS.items():
        if begin.startswith(mark):
            raise BadInput(what, file=path, remedy=remedy.format(stem=Path(path).name.partition(".bin")[0]))
    return begin


def _known(form: str | None) -> str:
    if form not in FORMS:
        raise BadInput(f"no form of word vectors named {form!r}", remedy=f"the forms are: {', '.join(FORMS)}")
    return form


def write(
    path: str | os.PathLike[str],
    form: str,
    words: Sequence[str],
    matrix: np.ndarray,
    counts: np.ndarray | None = None,
) -> list[str]:
    """Writes words and their vectors (N, D), the file whole or not at all; returns what had to be written otherwise.

    The table may be anything that has a shape and gives its rows for a slice. Numbers of text are as long as it takes
    to tell each float32 from all others. A name that ends with .gz or .zst is packed.
    """
    path, form = Path(path), _known(form)
    _check(words, matrix, counts)
    notes: list[str] = []
    if form != "safetensors":
        words, notes = writable(words)
        if counts is not None:
            notes.append("how often words were seen is not kept: only safetensors has a place for it")
    elif path.suffix in (".gz", ".zst"):
        raise BadInput(
            "safetensors are mapped and cannot be packed", file=path, remedy=f"choose a name without {path.suffix}"
        )
    with written_whole(path) as file:
        if form == "safetensors":
            safetensors.write(file, words, matrix, counts)
        elif form == "word2vec-binary":
            binary.write(file, words, matrix)
        else:
            text.write(file, words, matrix, header=form != "glove")
    return notes


def expected_size(form: str, words: Sequence[str], matrix: np.ndarray) -> int:
    """About how many bytes `write` takes for these, unpacked: of text, by its first rows."""
    count, width = matrix.shape
    names = sum(map(len, words))
    if form in ("safetensors", "word2vec-binary"):
        return 4 * count * width + names
    into = io.BytesIO()
    some = min(count, LOOKED_AT)
    text.write(into, ["w"] * some, matrix[:some], header=False)
    return names + into.tell() * count // max(1, some)


def _check(words: Sequence[str], matrix: np.ndarray, counts: np.ndarray | None) -> None:
    shape = matrix.shape
    if len(shape) != 2 or shape[0] != len(words) or 0 in shape:
        raise BadInput(f"{len(words):,} words and a table of {shape} are not a vector for each word")
    if counts is not None and np.shape(counts) != (len(words),):
        raise BadInput(f"{len(words):,} words and {np.shape(counts)} counts are not one for each word")
    if len(set(words)) < len(words):
        seen: set[str] = set()
        again = next(word for word in words if word in seen or seen.add(word))
        raise BadInput(f"the word {again!r} is there twice", remedy="keep one vector of each word")
    try:
        "".join(words).encode()
    except UnicodeEncodeError:
        odd = next(word for word in words if not word.isascii() and word != word.encode(errors="ignore").decode())
        raise BadInput(f"the word {odd!r} is no text", remedy="leave it out: it holds half a character") from None
    for begin in range(0, len(words), ROWS):
        with np.errstate(over="ignore"):
            finite = np.isfinite(np.asarray(matrix[begin : begin + ROWS], np.float32)).all(1)
        if not finite.all():
            word = words[begin + int(np.argmin(finite))]
            raise BadInput(f"the vector of {word!r} holds a number that is none", remedy="train these vectors again")


def writable(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Words that readers of lines take for one word, and what was done to them.

    White space becomes _, as in word2vec's phrases: readers part fields at spaces, and some at white space of any kind.
    """
    taken, made, odd = set(words), [], Tally()
    for word in words:
        written = word
        if word.split() != [word] or word.startswith(MARK):
            written = "".join("_" if letter.isspace() or letter == MARK else letter for letter in word) or "_"
            while written in taken:
                written += "_"
            taken.add(written)
            odd.add(f"{word!r} as {written!r}")
        made.append(written)
    return made, odd.told("written otherwise: lines of text hold no white space inside a word")
