"""Files of word vectors, read and written: word2vec's text and binary, GloVe's, fastText's .vec, safetensors."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, TypedDict, Unpack

import numpy as np

from forebear.data.segmentation import Segmenter, has_han
from forebear.data.tokenizers import word_level
from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.data.tokenizers.tokenizer_json import SPECIAL_TOKEN_NAMES
from forebear.errors import InputError
from forebear.interop import word_vectors_safetensors as safetensors
from forebear.interop import word_vectors_text as text
from forebear.interop.word_vectors_files import (
    CORRUPT_FILE_HINT,
    MAX_LINE_BYTES,
    PeekableStream,
    ProgressFn,
    atomic_vector_file,
)
from forebear.interop.word_vectors_text import HEADER, AnomalyCount, VectorTableBuilder, WordDecoder, WordVectorFile
from forebear.registry import model_spec
from forebear.training.create_run import create_run

if TYPE_CHECKING:
    from forebear.inference.run import Run
    from forebear.training.run_folder import RunFolder

# Word vectors as word2vec's binary files: a line "N D", then each word, a space and D float32, perhaps a line end.


LONGEST = 1 << 16  # bytes of a word
WORD_VECTORS_BINARY_ROWS = 4096  # written at once


def is_binary_vectors(head: bytes, whole: bool) -> bool:
    """Whether bytes that begin with a line "N D" go on as a binary file does, and not as text."""
    line, _, rest = head.partition(b"\n")
    told = HEADER.fullmatch(line)
    if told is None or not 0 < int(told[2]) <= MAX_LINE_BYTES or b" " not in rest[: LONGEST + 1]:
        return False
    if any(byte in rest[:LONGEST] for byte in (0, 1, 2, 3, 4, 5, 6, 7, 8, 0x7F)):
        return True
    try:
        rest[:LONGEST].decode()
    except UnicodeDecodeError as error:
        if len(rest) - error.start > 3:  # not only cut inside a character
            return True
    return whole and _fits(rest, int(told[1]), int(told[2]))


def _fits(rest: bytes, count: int, width: int) -> bool:
    begin = 0
    for _ in range(count):
        begin = rest.find(b" ", begin) + 1 + 4 * width
        if begin <= 4 * width or begin > len(rest):
            return False
    return not rest[begin:].strip(b"\n")


def read_binary_vectors(
    stream: PeekableStream, *, limit: int | None = None, on_bad_bytes: str = "fail"
) -> WordVectorFile:
    """The words and vectors, the latter in memory: on the disk they lie apart and unaligned, which no array can."""
    head, _ = stream.peek()
    line = head[:100].partition(b"\n")[0]
    told = HEADER.fullmatch(line)
    if told is None:
        what = 'it should begin with a line "N D": how many words of how many numbers'
        raise InputError("the file is empty" if not head else what, file=stream.path, line=1, hint=CORRUPT_FILE_HINT)
    count, width = int(told[1]), int(told[2])
    if not count or not 0 < width <= MAX_LINE_BYTES:
        what = f"it says that there are {count:,} words of {width:,} numbers"
        raise InputError(what, file=stream.path, line=1, hint=CORRUPT_FILE_HINT)
    room = stream.bytes_left(min(count, limit or count), 4 * width)
    gathering = VectorTableBuilder(WordDecoder(stream.path, "byte", on_bad_bytes), width, room)
    stream.read(len(line) + 1)
    reader = _BinaryVectorReader(stream, gathering, count, width, len(line) + 1)
    while reader.found < count and (limit is None or len(gathering.words) < limit):
        reader.take()
    if limit is None:
        reader.finish()
    return gathering.finish("word2vec-binary", limit)


class _BinaryVectorReader:
    """Words and vectors, as many at a time as are read at once; knows the byte at hand.

    found  words so far
    place  where in the (unpacked) file the bytes at hand begin
    """

    def __init__(
        self, stream: PeekableStream, gathering: VectorTableBuilder, count: int, width: int, place: int
    ) -> None:
        self.stream, self.gathering, self.count, self.width = stream, gathering, count, width
        self.found, self.place, self.rest = 0, place, b""

    def take(self) -> None:
        """As many as the next bytes hold."""
        more, size = self.stream.read(), 4 * self.width
        if not more:
            raise self._ended()
        block, begin, left = self.rest + more, 0, self.count - self.found
        words, places, starts = [], [], []
        while len(words) < left:
            space = block.find(b" ", begin, begin + LONGEST)
            if space < 0 or space + 1 + size > len(block):
                break
            words.append(block[begin:space].lstrip(b"\n"))
            places.append(self.place + begin)
            starts.append(space + 1)
            begin = space + 1 + size
        if words:
            self._add(block, words, places, starts)
        if len(words) < left and len(block) - begin >= LONGEST and b" " not in block[begin : begin + LONGEST]:
            raise self.gathering.decoding.location(
                f"no word ends within {LONGEST:,} bytes from here", self.place + begin, CORRUPT_FILE_HINT
            )
        self.rest, self.place = block[begin:], self.place + begin

    def _add(self, block: bytes, words: list[bytes], places: list[int], starts: list[int]) -> None:
        if b"" in words:
            raise self.gathering.decoding.location(
                "a vector stands here with no word before it", places[words.index(b"")], CORRUPT_FILE_HINT
            )
        size = 4 * self.width
        anywhere = np.ndarray(len(block) - size + 1, f"V{size}", block, strides=1)  # a vector from every byte on
        self.gathering.add(words, anywhere[starts].view("<f4").reshape(-1, self.width), places)
        self.found += len(words)

    def _ended(self) -> InputError:
        if not self.rest.strip(b"\n"):
            what = f"the file ends after {self.found:,} of the {self.count:,} words that its first line tells"
        else:
            what = f"the file ends inside the word that begins here, or inside its {self.width:,} numbers"
        return self.gathering.decoding.location(what, self.place, CORRUPT_FILE_HINT)

    def finish(self) -> None:
        """The end of the file, if it is where the first line says."""
        rest = self.rest
        while (more := self.stream.read()) and not rest.strip(b"\n"):
            self.place, rest = self.place + len(rest), more
        if rest.strip(b"\n"):
            what = f"there is more than the {self.count:,} words of {self.width:,} numbers that the first line tells"
            raise self.gathering.decoding.location(what, self.place, CORRUPT_FILE_HINT)


def write_binary_vectors(file: IO[bytes], words: Sequence[str], matrix: np.ndarray) -> None:
    """As the original program does, with a line end after each vector."""
    count, width = matrix.shape
    file.write(b"%d %d\n" % (count, width))
    for begin in range(0, count, WORD_VECTORS_BINARY_ROWS):
        rows = np.ascontiguousarray(matrix[begin : begin + WORD_VECTORS_BINARY_ROWS], "<f4")
        told = zip(words[begin : begin + WORD_VECTORS_BINARY_ROWS], rows, strict=True)
        file.write(b"".join(b"%b %b\n" % (word.encode(), row.tobytes()) for word, row in told))


VECTOR_FORMATS = ("word2vec", "word2vec-binary", "glove", "fasttext", "safetensors")
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

__all__ = [
    "VECTOR_FORMATS",
    "WordVectorFile",
    "detect_vector_format",
    "estimate_file_size",
    "read_word_vectors",
    "write_word_vectors",
]


def detect_vector_format(path: str | os.PathLike[str]) -> str | None:
    """Which of `FORMS` a file is, by what is in it; None where it is none of them, or is not there.

    word2vec's and fastText's text are one thing: a name that ends with .vec (or .vec.gz, .vec.zst) is fastText's.
    """
    path = Path(path)
    if not path.is_file():
        return None
    if safetensors.is_safetensors_vectors(path):
        return "safetensors"
    try:
        with PeekableStream(path) as stream:
            return _recognised(path, *stream.peek())
    except InputError:  # damaged, so that nobody can tell
        return None


def _recognised(path: Path, head: bytes, whole: bool) -> str | None:
    if head.startswith(tuple(OTHERS)):
        return None
    shape = text.detect_layout(head, whole)
    if shape.count is None:
        return (
            "glove"
            if shape.typical_width and shape.typical_fractioner_bytes >= (SURE if shape.typical_width == 1 else LIKELY)
            else None
        )
    named = "fasttext" if path.name.lower().removesuffix(".gz").removesuffix(".zst").endswith(".vec") else "word2vec"
    if shape.typical_width == shape.width:
        # Of width 1, "N D" may as well be a word and its number: then it is true by chance only.
        alike = shape.width == 1 and whole and len(head[shape.first :].split()) != 2 * shape.count
        return "glove" if alike else named
    if is_binary_vectors(head, whole):
        return "word2vec-binary"
    return "glove" if shape.typical_width == 1 and shape.typical_fractioner_bytes >= SURE else named


def read_word_vectors(
    path: str | os.PathLike[str],
    *,
    form: str | None = None,
    limit: int | None = None,
    on_bad_bytes: str = "fail",
    progress: ProgressFn | None = None,
    parse: text.ParseFn | None = None,
) -> WordVectorFile:
    """The words and vectors of a file, plain, gzip or zstd; whatever is not as it should be is refused with its place.

    form          one of `FORMS`; None: what the file looks like
    limit         no more words than these, from the beginning
    on_bad_bytes  with a word that is no UTF-8: "fail", "replace" what is not by U+FFFD, or "skip" it
    progress      told the bytes read and how many there are
    parse         a faster `word_vectors_text.parsed`
    """
    path = Path(path)
    if limit is not None and limit < 1:
        raise InputError(f"a limit of {limit} words leaves none", hint="give 1 or more")
    form = form or detect_vector_format(path)
    if form != "safetensors" and b"\0" in reject_unsupported_vectors(path) and form not in (None, "word2vec-binary"):
        hint = "leave out the form, or give word2vec-binary"
        raise InputError(f"holds bytes that no text has, and is no {form}", file=path, hint=hint)
    with PeekableStream(path, progress) as stream:
        if form is None:
            hint = f"give one of: {', '.join(VECTOR_FORMATS)}; or say which it is meant to be"
            raise InputError("no file of word vectors", file=path, hint=hint)
        if form == "safetensors":
            return safetensors.read_safetensors_vectors(path, limit=limit, on_bad_bytes=on_bad_bytes, progress=progress)
        if form == "word2vec-binary":
            return read_binary_vectors(stream, limit=limit, on_bad_bytes=on_bad_bytes)
        return text.read_text_vectors(stream, _known(form), limit=limit, on_bad_bytes=on_bad_bytes, parse=parse)


def reject_unsupported_vectors(path: str | os.PathLike[str]) -> bytes:
    """Refuses what other programs keep word vectors in and what is not read here, with what to do about it; also what
    is empty or damaged. Returns how the file begins, unpacked."""
    with PeekableStream(path) as stream:
        begin = stream.peek()[0]
    if not begin.strip():
        raise InputError("the file is empty", file=path, hint="fetch or write it again")
    for mark, (what, hint) in OTHERS.items():
        if begin.startswith(mark):
            raise InputError(what, file=path, hint=hint.format(stem=Path(path).name.partition(".bin")[0]))
    return begin


def _known(form: str | None) -> str:
    if form not in VECTOR_FORMATS:
        raise InputError(f"no form of word vectors named {form!r}", hint=f"the forms are: {', '.join(VECTOR_FORMATS)}")
    return form


def write_word_vectors(
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
        raise InputError(
            "safetensors are mapped and cannot be packed", file=path, hint=f"choose a name without {path.suffix}"
        )
    with atomic_vector_file(path) as file:
        if form == "safetensors":
            safetensors.write_safetensors_vectors(file, words, matrix, counts)
        elif form == "word2vec-binary":
            write_binary_vectors(file, words, matrix)
        else:
            text.write_text_vectors(file, words, matrix, header=form != "glove")
    return notes


def estimate_file_size(form: str, words: Sequence[str], matrix: np.ndarray) -> int:
    """About how many bytes `write` takes for these, unpacked: of text, by its first rows."""
    count, width = matrix.shape
    names = sum(map(len, words))
    if form in ("safetensors", "word2vec-binary"):
        return 4 * count * width + names
    into = io.BytesIO()
    some = min(count, LOOKED_AT)
    text.write_text_vectors(into, ["w"] * some, matrix[:some], header=False)
    return names + into.tell() * count // max(1, some)


def _check(words: Sequence[str], matrix: np.ndarray, counts: np.ndarray | None) -> None:
    shape = matrix.shape
    if len(shape) != 2 or shape[0] != len(words) or 0 in shape:
        raise InputError(f"{len(words):,} words and a table of {shape} are not a vector for each word")
    if counts is not None and np.shape(counts) != (len(words),):
        raise InputError(f"{len(words):,} words and {np.shape(counts)} counts are not one for each word")
    if len(set(words)) < len(words):
        seen: set[str] = set()
        again = next(word for word in words if word in seen or seen.add(word))
        raise InputError(f"the word {again!r} is there twice", hint="keep one vector of each word")
    try:
        "".join(words).encode()
    except UnicodeEncodeError:
        odd = next(word for word in words if not word.isascii() and word != word.encode(errors="ignore").decode())
        raise InputError(f"the word {odd!r} is no text", hint="leave it out: it holds half a character") from None
    for begin in range(0, len(words), ROWS):
        with np.errstate(over="ignore"):
            finite = np.isfinite(np.asarray(matrix[begin : begin + ROWS], np.float32)).all(1)
        if not finite.all():
            word = words[begin + int(np.argmin(finite))]
            raise InputError(f"the vector of {word!r} holds a number that is none", hint="train these vectors again")


def writable(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Words that readers of lines take for one word, and what was done to them.

    White space becomes _, as in word2vec's phrases: readers part fields at spaces, and some at white space of any kind.
    """
    taken, made, odd = set(words), [], AnomalyCount()
    for word in words:
        written = word
        if word.split() != [word] or word.startswith(MARK):
            written = "".join("_" if letter.isspace() or letter == MARK else letter for letter in word) or "_"
            while written in taken:
                written += "_"
            taken.add(written)
            odd.add(f"{word!r} as {written!r}")
        made.append(written)
    return made, odd.note("written otherwise: lines of text hold no white space inside a word")


# Word vectors to and from other programs: a run around the vectors of a file, and a run's words as such a file.


LARGE = 100_000_000  # bytes of a file, of which a person wants to know before
PACKED = (".gz", ".zst")
MUCH = 1 << 25  # bytes of a file; of fewer, numpy is done before numba is loaded


class VectorFileOptions(TypedDict, total=False):
    """What may be asked of a file of word vectors: see `word_vectors.read`."""

    form: str | None
    limit: int
    on_bad_bytes: str
    progress: ProgressFn


def import_vectors(path: Path, target: Path, **how: Unpack[VectorFileOptions]) -> RunFolder:
    """A run around the vectors of a file, each of its words a token."""
    parse = None
    if path.is_file() and path.stat().st_size >= MUCH:
        from forebear.kernels.float_text import parse_decimals as parse
    read_ = read_word_vectors(path, parse=parse, **how)
    tokenizer, notes = _tokenizer_of(read_.words, path)
    milestone = model_spec("word2vec")(width=read_.matrix.shape[1], output="given")  # pyright: ignore[reportCallIssue]
    network = milestone.build(tokenizer)
    network.give(read_.matrix, read_.counts)

    def write(file: Path) -> None:
        from safetensors.numpy import save_file

        save_file(network.arrays(), file)

    told = {"imported": str(path), "notes": [*read_.notes, *notes], "parameters": network.num_parameters}
    return create_run(target, milestone, "word2vec", tokenizer, write, told)


def _tokenizer_of(names: Sequence[str], path: Path) -> tuple[Tokenizer, list[str]]:
    """A tokenizer that knows exactly these words, and what is to be said of it.

    A file does not tell how its text was cut, nor what was done to it before. So it is cut as words are here; where no
    word has a capital letter, none is looked for.
    """
    specials = {role: _free(SPECIAL_TOKEN_NAMES[role], names) for role in ("unknown", "end")}
    lower = all(name == name.lower() for name in names) and any(name != name.upper() for name in names)
    chinese = any(map(has_han, names))
    blueprint = word_level.word_tokenizer_spec(
        [*specials.values(), *names],
        specials=specials,
        normalise=("lower",) if lower else (),
        split="punctuation",
        segmenter=Segmenter() if chinese else None,
        facts={"source": path.name},
    )
    cut = "at white space and punctuation" + (", Chinese by rjieba" if chinese else "")
    letters = ", all in small letters as in the file" if lower else ""
    notes = [f"text is cut {cut}{letters}: words that were cut otherwise are found by name only"]
    if marks := [mark for mark in SPECIAL_TOKEN_NAMES["unknown"] if mark in names]:
        notes.append(f"{marks[0]} is a word like others: text that the file does not know has no vector")
    return Tokenizer(blueprint, file=path), notes


def _free(usual: Sequence[str], names: Sequence[str]) -> str:
    """A name for a special token that no word of the file has: what is in the file is a word."""
    taken = set(names)
    name = next((name for name in usual if name not in taken), usual[0])
    while name in taken:
        name = f"<{name}>"
    return name


def vector_export_note(run: Run, form: str, target: Path) -> str:
    """What a person should know before a large file of vectors is written; nothing of one that is small."""
    table = run.word_table
    count, width = table.matrix.shape
    size = estimate_file_size(form, table.words, table.matrix)
    if size < LARGE or target.suffix in PACKED:
        return ""
    told = f"about {size / 1e6:,.0f} MB will be written: {count:,} words of {width:,} numbers"
    if not isinstance(table.matrix, np.ndarray):
        way = f"--format word2vec --to {target.stem}.gz" if form == "safetensors" else f"--to {target.name}.gz"
        return f"{told}, all of them 0 but one; packed it is far smaller: {way}"
    binary = estimate_file_size("safetensors", table.words, table.matrix)
    smaller = f"; --format safetensors takes {binary / 1e6:,.0f} MB" if binary < 0.8 * size else ""
    return f"{told}{smaller}"


def export_vectors(run: Run, form: str, target: Path) -> list[str]:
    """Writes the words of a run and their vectors; returns what is to be said of the file."""
    table = run.word_table
    notes = write_word_vectors(target, form, table.words, table.matrix, table.counts)
    if table.compose is not None:
        notes.append(
            "vectors of words that are not in it cannot be composed of the file: it holds those of whole words"
        )
    return notes
