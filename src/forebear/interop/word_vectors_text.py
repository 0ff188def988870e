"""Word vectors as text, a word and its numbers a line: word2vec's and fastText's after a line "N D", GloVe's without.

A word may hold spaces (GloVe's do): the last D fields of a line are its numbers, and what stands before is the word.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np

from forebear.errors import InputError
from forebear.interop.word_vectors_files import BLOCK, CORRUPT_FILE_HINT, MAX_LINE_BYTES, PeekableStream

# Words and their vectors, gathered as a file is read: each word once, each number finite, what is odd counted.


WAYS = ("fail", "replace", "skip")  # with a word that is no UTF-8
NAMED = 3  # places that a note names
EMPTY_FILE_HINT = "give a file with at least one word"


@dataclass(frozen=True, eq=False)
class WordVectorFile:
    """What a file holds.

    words   the name of each row; none twice
    matrix  (N, D) float32: in memory, or, of safetensors, mapped from the file and not to be written to
    counts  (N,) how often each word was seen, where the file tells
    form    which kind of file it was
    notes   what a person should know about it
    """

    words: list[str]
    matrix: np.ndarray
    counts: np.ndarray | None
    file_format: str
    notes: list[str] = field(default_factory=list)


class AnomalyCount:
    """How often something odd was met, and where at first."""

    def __init__(self) -> None:
        self.count, self.first = 0, []

    def add(self, place: str) -> None:
        self.count += 1
        if self.count <= NAMED:
            self.first.append(place)

    def note(self, what: str) -> list[str]:
        if not self.count:
            return []
        places = ", ".join(self.first) + (", …" if self.count > NAMED else "")
        return [f"{self.count:,} {'words are' if self.count > 1 else 'word is'} {what} ({places})"]


class WordDecoder:
    """Bytes as words, each once, with their places: lines, bytes where they begin, or numbers of words."""

    def __init__(self, path: Path, unit: Literal["line", "byte", "word"], on_bad_bytes: str) -> None:
        if on_bad_bytes not in WAYS:
            raise InputError(f"no way with bad bytes named {on_bad_bytes!r}", hint=f"the ways are: {', '.join(WAYS)}")
        self.path, self.unit, self.on_bad_bytes = path, unit, on_bad_bytes
        self.seen: set[str] = set()
        self.again, self.bad = AnomalyCount(), AnomalyCount()

    def location(self, what: str, place: int, hint: str = "") -> InputError:
        """The error of this place."""
        if self.unit == "word":
            return InputError(f"word {place:,}: {what}", file=self.path, hint=hint)
        return InputError(what, file=self.path, hint=hint, **{self.unit: place})

    def words(self, raw: Sequence[bytes], places: Sequence[int]) -> tuple[list[str], list[int] | None]:
        """The words that are new, and which of those given they are; None: all."""
        words = self._decoded(raw, places)
        new: set[Any] = set(words)
        if None not in new and len(new) == len(words) and self.seen.isdisjoint(new):
            self.seen |= new
            return words, None
        kept = []
        for row, word in enumerate(words):
            if word is not None and word not in self.seen:
                kept.append(row)
                self.seen.add(word)
            elif word is not None:
                self.again.add(f"{word!r}, {self.unit} {places[row]:,}")
        return [words[row] for row in kept], kept

    def _decoded(self, raw: Sequence[bytes], places: Sequence[int]) -> list[Any]:
        """The words; None for one that is to be skipped."""
        try:
            words = b"\n".join(raw).decode().split("\n")
            if len(words) == len(raw):
                return words
        except UnicodeDecodeError:
            pass
        return [self._word(word, place) for word, place in zip(raw, places, strict=True)]

    def _word(self, raw: bytes, place: int) -> str | None:
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            if self.on_bad_bytes == "fail":
                hint = "have bad bytes replaced, or such words skipped; or write the file anew as UTF-8"
                raise self.location(
                    f"the word {printable_bytes(raw)} is no UTF-8 ({error.reason})", place, hint
                ) from None
            self.bad.add(f"{self.unit} {place:,}")
            return raw.decode(errors="replace") if self.on_bad_bytes == "replace" else None

    def notes(self) -> list[str]:
        done = "U+FFFD stands for what is not" if self.on_bad_bytes == "replace" else "left out"
        return self.bad.note(f"no UTF-8, {done}") + self.again.note("there again, the first is kept")

    def reject_empty(self, rows: np.ndarray, name: Callable[[int], str], places: Sequence[int]) -> None:
        """Refuses rows with a number that is none; `name` tells a row's word as it is to be shown."""
        finite = np.isfinite(rows)
        if not finite.all():
            row = int(np.argmin(finite.all(1)))
            hint = "train these vectors again, or take this word out of the file"
            what = f"the vector of {name(row)} holds {rows[row][~finite[row]][0]}, no number to reckon with"
            raise self.location(what, places[row], hint)


class VectorTableBuilder:
    """Rows one block after the other, into one table."""

    def __init__(self, decoding: WordDecoder, width: int, room: int) -> None:
        self.decoding = decoding
        self.words: list[str] = []
        self._rows = np.empty((room, width), np.float32)  # memory that is not touched costs nothing

    def add(self, raw: Sequence[bytes], rows: np.ndarray, places: Sequence[int]) -> None:
        """Words as they are written, their vectors (n, D) and their places."""
        self.decoding.reject_empty(rows, lambda row: printable_bytes(raw[row]), places)
        words, keep = self.decoding.words(raw, places)
        begin, end = len(self.words), len(self.words) + len(words)
        if end > len(self._rows):
            self._rows.resize((max(end, len(self._rows) * 5 // 4), self._rows.shape[1]), refcheck=False)
        self._rows[begin:end] = rows if keep is None else rows[keep]
        self.words += words

    def finish(self, form: str, limit: int | None, notes: Sequence[str] = ()) -> WordVectorFile:
        del self.words[len(self.words) if limit is None else limit :]
        if not self.words:
            raise InputError("it holds no vectors", file=self.decoding.path, hint=EMPTY_FILE_HINT)
        self._rows.resize((len(self.words), self._rows.shape[1]), refcheck=False)
        told = [*notes, *self.decoding.notes(), *zero_vector_notes(self.words, self._rows)]
        return WordVectorFile(self.words, self._rows, None, form, told)


def zero_vector_notes(words: Sequence[str], matrix: np.ndarray) -> list[str]:
    """What is to be said of words whose vectors point nowhere."""
    found = AnomalyCount()
    for row in np.flatnonzero(~matrix.any(1)).tolist():
        found.add(repr(words[row]))
    return found.note("given a vector of zeros, which is near to nothing")


def printable_bytes(raw: bytes) -> str:
    """A word for people, whatever its bytes are."""
    return repr(raw[:40].decode(errors="backslashreplace"))


HEADER = re.compile(rb"\s*(\d{1,15})\s+(\d{1,15})\s*")
NUMBER = re.compile(rb"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
OF_NUMBERS = b"0123456789+-.eE \n"  # characters of usual ones and of what stands between them
MARK = b"\xef\xbb\xbf"  # some programs begin UTF-8 with it
SAMPLED = 16  # lines looked at to learn how many numbers there are
ROWS = 1024  # written at once
DIGITS = range(6, 10)  # 6 digits of a decimal always survive float32, and 9 always tell one

# (block of whole lines, D) → rows (n, D) and where in the block each word ends, -1 for a line that wants a closer look
ParseFn = Callable[[bytes, int], tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class VectorTextLayout:
    """What the beginning of a text tells.

    count  how many words there are, as the first line says; None: it does not
    width  of how many numbers
    usual  numbers that most of the first lines really have; 0: they do not look like vectors
    share  of the first lines that have so many
    first  bytes before the first vector: a mark, and the line "N D"
    """

    count: int | None
    width: int
    typical_width: int
    typical_fractioner_bytes: float
    first: int


def detect_layout(head: bytes, whole: bool) -> VectorTextLayout:
    """The shape of a text that begins so; `whole`: there is no more of it."""
    mark = len(MARK) if head.startswith(MARK) else 0
    lines = head[mark:].split(b"\n", SAMPLED + 1)
    if len(lines) > SAMPLED + 1 or not whole or not lines[-1]:
        lines.pop()
    told = HEADER.fullmatch(lines[0]) if lines else None
    found = [_numbers(line) for line in lines[1 if told else 0 :] if line.strip()]
    if told and 2 * found.count(int(told[2])) >= len(found) > 0:
        usual = int(told[2])
    else:
        usual = max(found, key=found.count, default=0)
    share = sum(numbers >= usual for numbers in found) / max(1, len(found))
    if told is None:
        return VectorTextLayout(None, usual, usual, share, mark)
    return VectorTextLayout(int(told[1]), int(told[2]), usual, share, mark + len(lines[0]) + 1)


def _numbers(line: bytes) -> int:
    """How many fields at the end of a line are numbers; the first is a word whatever it looks like."""
    count = 0
    for text in reversed(line.split()[1:]):
        if not _is_number(text):
            break
        count += 1
    return count


def _is_number(text: bytes) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return b"_" not in text  # Python's float takes 1_000


# -- reading


def read_text_vectors(
    stream: PeekableStream,
    form: str,
    *,
    limit: int | None = None,
    on_bad_bytes: str = "fail",
    parse: ParseFn | None = None,
) -> WordVectorFile:
    """The words and vectors of a text; `parse` does what `parsed` does, perhaps faster."""
    shape = _checked(stream, form)
    room = stream.bytes_left(shape.count or stream.size, 2 * shape.width)
    gathering = VectorTableBuilder(
        WordDecoder(stream.path, "line", on_bad_bytes), shape.width, min(room, limit or room)
    )
    reader = _TextVectorReader(gathering, shape, parse or parsed)
    stream.read(shape.first)
    for block in _blocks(stream, reader):
        reader.take(block)
        if limit is not None and len(gathering.words) >= limit:
            break
    else:
        reader.finish()
    return gathering.finish(form, limit, reader.notes())


def _checked(stream: PeekableStream, form: str) -> VectorTextLayout:
    """The shape of a file of this form, if what it says of itself can be true."""
    head, whole = stream.peek()
    shape = detect_layout(head, whole)

    def bad(what: str, hint: str = CORRUPT_FILE_HINT) -> InputError:
        return InputError(what, file=stream.path, line=1, hint=hint)

    if not head.strip():
        raise bad("the file is empty")
    if form == "glove":
        if shape.count is not None and shape.typical_width > 1:
            raise bad("it begins with a line of two numbers, as GloVe's files do not", "read it as word2vec")
        if shape.count is not None:  # a word that is a number, with one number
            shape = VectorTextLayout(None, 1, 1, 1.0, 0)
        if not shape.typical_width:
            raise bad("no word with numbers after it stands here", "give a file of word vectors")
        return shape
    if shape.count is None:
        raise bad('it should begin with a line "N D": how many words of how many numbers', "read it as glove")
    if not 0 < shape.width <= MAX_LINE_BYTES or not shape.count:
        raise bad(f"it says that there are {shape.count:,} words of {shape.width:,} numbers")
    if shape.typical_width and shape.typical_width != shape.width:
        raise bad(f"it says that words have {shape.width:,} numbers, and the lines below have {shape.typical_width:,}")
    return shape


def _blocks(stream: PeekableStream, reader: _TextVectorReader) -> Iterator[bytes]:
    """Whole lines, many at a time, each with its end."""
    rest = b""
    while block := stream.read():
        cut = block.rfind(b"\n") + 1
        if cut:
            yield rest + block[:cut]
            rest = block[cut:]
        else:
            rest += block
        if len(rest) > BLOCK:
            raise reader.bad(f"this line does not end within {BLOCK >> 20} MiB", reader.line + 1)
    if rest:
        reader.unended = True
        yield rest + b"\n"


class _TextVectorReader:
    """Lines into rows; knows the number of the line at hand."""

    def __init__(self, gathering: VectorTableBuilder, shape: VectorTextLayout, parse: ParseFn) -> None:
        self.gathering, self.shape, self.parse = gathering, shape, parse
        self.before = 0 if shape.count is None else 1
        self.line = self.before  # of the last line that was read
        self.blank, self.unended, self.spaced = 0, False, AnomalyCount()

    def bad(self, what: str, line: int, hint: str = CORRUPT_FILE_HINT) -> InputError:
        return self.gathering.decoding.location(what, line, hint)

    def take(self, block: bytes) -> None:
        """Whole lines, parsed at once but for those that want a closer look."""
        breaks = _breaks(block)
        before = np.frombuffer(block, np.uint8)[breaks - 1]
        if np.isin(before, [ord("\r"), ord(" ")]).any():
            block = block.replace(b"\r\n", b"\n").replace(b" \n", b"\n")
            breaks = _breaks(block)
        rows, ends = self.parse(block, self.shape.width)
        begins = np.concatenate(([0], breaks[:-1] + 1))
        words = [block[begin:end] for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)]
        places: Sequence[int] = range(self.line + 1, self.line + 1 + len(words))
        odd, blank = np.flatnonzero(ends < 0).tolist(), []
        for row in odd:
            line = block[begins[row] : breaks[row]]
            if not line.strip():
                blank.append(row)
            else:
                with np.errstate(over="ignore"):  # what is too large is refused with its word
                    words[row], rows[row] = self._closely(line, places[row])
        self.line += len(words)
        if blank:
            self.blank += len(blank)
            kept = np.delete(np.arange(len(words)), blank).tolist()
            words, rows, places = [words[row] for row in kept], rows[kept], [places[row] for row in kept]
        if self.shape.count is not None and self.line - self.before - self.blank > self.shape.count:
            over = self.line - self.before - self.blank - self.shape.count
            raise self.bad(f"a word more than the {self.shape.count:,} that the first line tells", places[-over])
        self.gathering.add(words, rows, places)

    def _closely(self, line: bytes, place: int) -> tuple[bytes, list[float]]:
        """The word and the numbers of a line of any sound form."""
        width = self.shape.width
        fields = line.split(b" ")
        if len(fields) == width + 1 and fields[0] and all(map(NUMBER.fullmatch, fields[1:])):
            return fields[0], [float(text) for text in fields[1:]]
        fields = line.rsplit(None, width)  # other white space, words with spaces
        if len(fields) <= width:
            what = f"a word and {width:,} numbers should stand here, and there are {len(fields):,} fields"
            if len(fields) == width and all(map(_is_number, fields)):
                raise self.bad(f"there are {width:,} numbers, and no word before them", place, "take the line out")
            raise self.bad(what, place)
        for text in fields[1:]:
            if not _is_number(text):
                raise self.bad(f"{printable_bytes(text)} stands where a number should", place)
        if len(fields[0].split()) > 1:
            self.spaced.add(f"{printable_bytes(fields[0])}, line {place:,}")
        return fields[0], [float(text) for text in fields[1:]]

    def finish(self) -> None:
        """The end of the file, if it is where the first line says."""
        told, found = self.shape.count, self.line - self.before - self.blank
        if told is not None and found < told:
            raise self.bad(f"the file ends after {found:,} of the {told:,} words that its first line tells", self.line)

    def notes(self) -> list[str]:
        told = self.spaced.note("written with spaces, read as all that stands before the numbers")
        if self.blank:
            told.append(f"{self.blank:,} blank lines are left out")
        if self.unended:
            told.append("the last line does not end: if the file was cut short, so was the last number")
        return told


def _breaks(block: bytes) -> np.ndarray:
    """Where lines end."""
    return np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n"))


def parsed(block: bytes, width: int) -> tuple[np.ndarray, np.ndarray]:
    """The rows of whole lines, where their words end, and -1 for a line that is not a word, D spaces and D numbers."""
    lines = block.split(b"\n")[:-1]
    rows, ends = np.zeros((len(lines), width), np.float32), np.full(len(lines), -1)
    plain = [row for row, line in enumerate(lines) if line.count(b" ") == width and line[0] != ord(" ")]
    if not plain:
        return rows, ends
    parts = [lines[row].partition(b" ") for row in plain]
    text = b"\n".join(part[2] for part in parts)
    if text.translate(None, OF_NUMBERS):  # numpy would take strange white space for none
        return rows, ends
    try:
        text = text.decode("ascii").split("\n")
        with np.errstate(all="ignore"):
            found = np.loadtxt(text, np.float32, comments=None, delimiter=" ", ndmin=2)  # pyright: ignore[reportArgumentType]
    except ValueError:  # one of them is odd: all are looked at one by one
        return rows, ends
    if found.shape == (len(plain), width):
        rows[plain] = found
        begins = np.cumsum([0, *(len(line) + 1 for line in lines)])[:-1]
        ends[plain] = begins[plain] + [len(part[0]) for part in parts]
    return rows, ends


# -- writing


def write_text_vectors(file: IO[bytes], words: Sequence[str], matrix: np.ndarray, *, header: bool) -> None:
    """Lines of words that hold no space, and numbers that tell each float32 from all others."""
    count, width = matrix.shape
    if header:
        file.write(b"%d %d\n" % (count, width))
    line = " ".join(["%s", *["%.9g"] * width]) + "\n"
    for begin in range(0, count, ROWS):
        rows = np.asarray(matrix[begin : begin + ROWS], np.float32)
        if width == 1:  # a whole number after a number would look like the first line of a file
            lines = [f"{word} {value}\n" for word, value in zip(words[begin : begin + ROWS], rows[:, 0], strict=True)]
        else:
            told = zip(words[begin : begin + ROWS], shortest(rows).tolist(), strict=True)
            lines = [line % (word, *row) for word, row in told]
        file.write("".join(lines).encode())


def shortest(rows: np.ndarray) -> np.ndarray:
    """float64 that a decimal of 9 digits tells, and fewer where fewer tell the float32 (but for huge and tiny ones)."""
    exact = rows.astype(np.float64)
    sizes = np.abs(exact)
    places = np.floor(np.log10(np.where(sizes > 0, sizes, 1))).astype(np.int64)
    told, open_ = exact.copy(), np.ones(rows.shape, bool)
    for digits in DIGITS:
        behind = digits - 1 - places  # digits after the point
        scale = 10.0 ** np.clip(behind, 0, 22)  # powers of ten up to here are exact, and so is the quotient below
        near = np.rint(exact * scale) / scale
        fits = open_ & (behind >= 0) & (behind <= 22) & (near.astype(np.float32) == rows)
        told[fits] = near[fits]
        open_ &= ~fits
    return told
