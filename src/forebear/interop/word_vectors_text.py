"""Text files of word vectors, one word and its numbers per line: word2vec and fastText with a header, GloVe without.

Words may contain spaces (some of GloVe's do): the last D fields of a line are numbers, everything before is the word.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np

from forebear.data.io.compression import CORRUPT_FILE_HINT, LOOKAHEAD, PeekableStream
from forebear.errors import InputError

# --- Collecting words and vectors of any format: words unique, numbers finite ---

ON_BAD_BYTES = ("fail", "replace", "skip")  # for words that are not UTF-8
MAX_EXAMPLES = 3  # named in a note
MAX_LINE_BYTES = 1 << 20  # also the largest plausible number of dimensions
EMPTY_FILE_HINT = "give a file with at least one word"


@dataclass(frozen=True, eq=False)
class WordVectorFile:
    """The contents of a word-vector file.

    words        the word of each row, unique
    matrix       (N, D) float32, in memory or, for safetensors, memory-mapped and read-only
    counts       (N,) word frequencies, if the file has them
    file_format  one of VECTOR_FORMATS
    notes        messages for the user
    """

    words: list[str]
    matrix: np.ndarray
    counts: np.ndarray | None
    file_format: str
    notes: list[str] = field(default_factory=list)


class AnomalyCount:
    """Counts occurrences of an anomaly and keeps the first few as examples."""

    def __init__(self) -> None:
        self.count, self.examples = 0, []

    def add(self, example: str) -> None:
        self.count += 1
        if self.count <= MAX_EXAMPLES:
            self.examples.append(example)

    def note(self, description: str) -> list[str]:
        if not self.count:
            return []
        examples = ", ".join(self.examples) + (", …" if self.count > MAX_EXAMPLES else "")
        return [f"{self.count:,} {'words are' if self.count > 1 else 'word is'} {description} ({examples})"]


class WordDecoder:
    """Decodes words and drops duplicates; positions in errors and notes are lines, bytes or word numbers."""

    def __init__(self, path: Path, unit: Literal["line", "byte", "word"], on_bad_bytes: str) -> None:
        if on_bad_bytes not in ON_BAD_BYTES:
            hint = f"the ways are: {', '.join(ON_BAD_BYTES)}"
            raise InputError(f"no way with bad bytes named {on_bad_bytes!r}", hint=hint)
        self.path, self.unit, self.on_bad_bytes = path, unit, on_bad_bytes
        self.known: set[str] = set()
        self.duplicates, self.undecodable = AnomalyCount(), AnomalyCount()

    def error_at(self, message: str, position: int, hint: str = "") -> InputError:
        """An error at this line, byte or word number."""
        if self.unit == "word":
            return InputError(f"word {position:,}: {message}", file=self.path, hint=hint)
        return InputError(message, file=self.path, hint=hint, **{self.unit: position})

    def decode_new_words(
        self, raw_words: Sequence[bytes], positions: Sequence[int]
    ) -> tuple[list[str], list[int] | None]:
        """The words that are not duplicates, and their rows; None instead of the rows if all are kept."""
        words: list[Any] = []
        with contextlib.suppress(UnicodeDecodeError):
            words = b"\n".join(raw_words).decode().split("\n")
        if len(words) != len(raw_words):
            words = [self._decode_word(word, position) for word, position in zip(raw_words, positions, strict=True)]
        distinct_words: set[Any] = set(words)
        if None not in distinct_words and len(distinct_words) == len(words) and self.known.isdisjoint(distinct_words):
            self.known |= distinct_words
            return words, None
        kept_rows = []
        for row, word in enumerate(words):
            if word is not None and word not in self.known:
                kept_rows.append(row)
                self.known.add(word)
            elif word is not None:
                self.duplicates.add(f"{word!r}, {self.unit} {positions[row]:,}")
        return [words[row] for row in kept_rows], kept_rows

    def _decode_word(self, raw_word: bytes, position: int) -> str | None:
        """The word; None if it is skipped."""
        try:
            return raw_word.decode()
        except UnicodeDecodeError as error:
            if self.on_bad_bytes == "fail":
                hint = "have bad bytes replaced, or such words skipped; or write the file anew as UTF-8"
                message = f"the word {printable_bytes(raw_word)} is no UTF-8 ({error.reason})"
                raise self.error_at(message, position, hint) from None
            self.undecodable.add(f"{self.unit} {position:,}")
            return raw_word.decode(errors="replace") if self.on_bad_bytes == "replace" else None

    def notes(self) -> list[str]:
        treatment = "U+FFFD stands for what is not" if self.on_bad_bytes == "replace" else "left out"
        return self.undecodable.note(f"no UTF-8, {treatment}") + self.duplicates.note("there again, the first is kept")

    def reject_non_finite(self, rows: np.ndarray, word_at: Callable[[int], str], positions: Sequence[int]) -> None:
        """Reject NaN and infinity; `word_at` gives the printable word of a row."""
        finite = np.isfinite(rows)
        if not finite.all():
            row = int(np.argmin(finite.all(1)))
            hint = "train these vectors again, or take this word out of the file"
            message = f"the vector of {word_at(row)} holds {rows[row][~finite[row]][0]}, no number to reckon with"
            raise self.error_at(message, positions[row], hint)


class VectorTableBuilder:
    """Collects blocks of words and vectors in one table."""

    def __init__(self, decoder: WordDecoder, width: int, capacity: int) -> None:
        self.decoder = decoder
        self.words: list[str] = []
        self._rows = np.empty((capacity, width), np.float32)  # untouched memory costs nothing

    def add(self, raw_words: Sequence[bytes], rows: np.ndarray, positions: Sequence[int]) -> None:
        """Add words as bytes, their vectors (n, D) and their positions."""
        self.decoder.reject_non_finite(rows, lambda row: printable_bytes(raw_words[row]), positions)
        words, kept_rows = self.decoder.decode_new_words(raw_words, positions)
        start, end = len(self.words), len(self.words) + len(words)
        if end > len(self._rows):
            self._rows.resize((max(end, len(self._rows) * 5 // 4), self._rows.shape[1]), refcheck=False)
        self._rows[start:end] = rows if kept_rows is None else rows[kept_rows]
        self.words += words

    def finish(self, file_format: str, limit: int | None, notes: Sequence[str] = ()) -> WordVectorFile:
        del self.words[len(self.words) if limit is None else limit :]
        if not self.words:
            raise InputError("it holds no vectors", file=self.decoder.path, hint=EMPTY_FILE_HINT)
        self._rows.resize((len(self.words), self._rows.shape[1]), refcheck=False)
        all_notes = [*notes, *self.decoder.notes(), *zero_vector_notes(self.words, self._rows)]
        return WordVectorFile(self.words, self._rows, None, file_format, all_notes)


def zero_vector_notes(words: Sequence[str], matrix: np.ndarray) -> list[str]:
    """A note on words with a zero vector, if there are any."""
    zeros = AnomalyCount()
    for row in np.flatnonzero(~matrix.any(1)).tolist():
        zeros.add(repr(words[row]))
    return zeros.note("given a vector of zeros, which is near to nothing")


def printable_bytes(raw: bytes) -> str:
    """A quoted word that can be printed whatever its bytes are."""
    return repr(raw[:40].decode(errors="backslashreplace"))


HEADER_PATTERN = re.compile(rb"\s*(\d{1,15})\s+(\d{1,15})\s*")
NUMBER_PATTERN = re.compile(rb"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
NUMBER_CHARACTERS = b"0123456789+-.eE \n"  # of regular numbers and their separators
BOM = b"\xef\xbb\xbf"  # some programs write it at the beginning of UTF-8
NUM_SAMPLED_LINES = 16  # lines from which the number of dimensions is detected
ROWS_PER_BLOCK = 1024  # rows written together
DIGIT_RANGE = range(6, 10)  # 6 decimal digits always survive float32, 9 always identify one

# (block of complete lines, D) → vectors (n, D) and the end of each word in the block, -1 for an irregular line
ParseFn = Callable[[bytes, int], tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class VectorTextLayout:
    """The layout of a file, from its beginning.

    count             number of words declared in the header; None without a header
    width             number of dimensions
    typical_width     numbers that most of the first lines have; 0 if they do not look like vectors
    typical_fraction  fraction of the first lines with at least that many
    header_bytes      bytes before the first vector: byte-order mark and header
    """

    count: int | None
    width: int
    typical_width: int
    typical_fraction: float
    header_bytes: int


def detect_layout(head: bytes, is_complete: bool) -> VectorTextLayout:
    """The layout of a file that begins with `head`; `is_complete`: `head` is the whole file."""
    bom_size = len(BOM) if head.startswith(BOM) else 0
    lines = head[bom_size:].split(b"\n", NUM_SAMPLED_LINES + 1)
    if len(lines) > NUM_SAMPLED_LINES + 1 or not is_complete or not lines[-1]:
        lines.pop()
    header = HEADER_PATTERN.fullmatch(lines[0]) if lines else None
    # Trailing fields of a line that are numbers; the first field is always the word.
    fields = [line.split()[1:] for line in lines[1 if header else 0 :] if line.strip()]
    number_counts = [sum(1 for _ in takewhile(_is_number, reversed(line_fields))) for line_fields in fields]
    if header and 2 * number_counts.count(int(header[2])) >= len(number_counts) > 0:
        typical_width = int(header[2])
    else:
        typical_width = max(number_counts, key=number_counts.count, default=0)
    fraction = sum(num_numbers >= typical_width for num_numbers in number_counts) / max(1, len(number_counts))
    if header is None:
        return VectorTextLayout(None, typical_width, typical_width, fraction, bom_size)
    return VectorTextLayout(int(header[1]), int(header[2]), typical_width, fraction, bom_size + len(lines[0]) + 1)


def _is_number(text: bytes) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return b"_" not in text  # Python's float takes 1_000


# --- Reading ---


def read_text_vectors(
    stream: PeekableStream,
    file_format: str,
    *,
    limit: int | None = None,
    on_bad_bytes: str = "fail",
    parse: ParseFn | None = None,
) -> WordVectorFile:
    """Read the words and vectors of a text file; `parse` replaces `parse_lines`."""
    layout = _validate_layout(stream, file_format)
    capacity = stream.max_plausible_rows(layout.count or stream.size, 2 * layout.width)
    decoder = WordDecoder(stream.path, "line", on_bad_bytes)
    builder = VectorTableBuilder(decoder, layout.width, min(capacity, limit or capacity))
    reader = _TextVectorReader(builder, layout, parse or parse_lines)
    stream.read(layout.header_bytes)
    for block in _line_blocks(stream, reader):
        reader.read_block(block)
        if limit is not None and len(builder.words) >= limit:
            break
    else:
        reader.finish()
    return builder.finish(file_format, limit, reader.notes())


def _validate_layout(stream: PeekableStream, file_format: str) -> VectorTextLayout:
    """The layout of a file in this format, if its header is plausible."""
    head, is_complete = stream.peek()
    layout = detect_layout(head, is_complete)
    layout_error = partial(InputError, file=stream.path, line=1)
    if not head.strip():
        raise layout_error("the file is empty", hint=CORRUPT_FILE_HINT)
    if file_format == "glove":
        if layout.count is not None and layout.typical_width > 1:
            message = "it begins with a line of two numbers, as GloVe's files do not"
            raise layout_error(message, hint="read it as word2vec")
        if layout.count is not None:  # a word that is a number, with one number
            layout = VectorTextLayout(None, 1, 1, 1.0, 0)
        if not layout.typical_width:
            raise layout_error("no word with numbers after it stands here", hint="give a file of word vectors")
        return layout
    if layout.count is None:
        message = 'it should begin with a line "N D": how many words of how many numbers'
        raise layout_error(message, hint="read it as glove")
    if not 0 < layout.width <= MAX_LINE_BYTES or not layout.count:
        message = f"it says that there are {layout.count:,} words of {layout.width:,} numbers"
        raise layout_error(message, hint=CORRUPT_FILE_HINT)
    if layout.typical_width and layout.typical_width != layout.width:
        message = f"it says that words have {layout.width:,} numbers, and the lines below have "
        raise layout_error(f"{message}{layout.typical_width:,}", hint=CORRUPT_FILE_HINT)
    return layout


def _line_blocks(stream: PeekableStream, reader: _TextVectorReader) -> Iterator[bytes]:
    """Blocks of complete lines, each line with its newline."""
    remainder = b""
    while block := stream.read():
        end = block.rfind(b"\n") + 1
        if end:
            yield remainder + block[:end]
        remainder = block[end:] if end else remainder + block
        if len(remainder) > LOOKAHEAD:
            raise reader.error(f"this line does not end within {LOOKAHEAD >> 20} MiB", reader.line + 1)
    if remainder:
        reader.lacks_final_newline = True
        yield remainder + b"\n"


class _TextVectorReader:
    """Parses blocks of lines and keeps the line number."""

    def __init__(self, builder: VectorTableBuilder, layout: VectorTextLayout, parse: ParseFn) -> None:
        self.builder, self.layout, self.parse = builder, layout, parse
        self.num_header_lines = 0 if layout.count is None else 1
        self.line = self.num_header_lines  # number of the last line read
        self.num_blank, self.lacks_final_newline, self.words_with_spaces = 0, False, AnomalyCount()

    @property
    def num_words(self) -> int:
        return self.line - self.num_header_lines - self.num_blank

    def error(self, message: str, line: int, hint: str = CORRUPT_FILE_HINT) -> InputError:
        return self.builder.decoder.error_at(message, line, hint)

    def read_block(self, block: bytes) -> None:
        """Parse complete lines, irregular ones one by one."""
        line_ends = _line_ends(block)
        last_bytes = np.frombuffer(block, np.uint8)[line_ends - 1]
        if np.isin(last_bytes, [ord("\r"), ord(" ")]).any():
            block = block.replace(b"\r\n", b"\n").replace(b" \n", b"\n")
            line_ends = _line_ends(block)
        rows, ends = self.parse(block, self.layout.width)
        line_starts = np.concatenate(([0], line_ends[:-1] + 1))
        words = [block[start:end] for start, end in zip(line_starts.tolist(), ends.tolist(), strict=True)]
        line_numbers: Sequence[int] = range(self.line + 1, self.line + 1 + len(words))
        blank_rows = []
        for row in np.flatnonzero(ends < 0).tolist():
            line = block[line_starts[row] : line_ends[row]]
            if not line.strip():
                blank_rows.append(row)
            else:
                with np.errstate(over="ignore"):  # infinity is rejected later, with its word
                    words[row], rows[row] = self._parse_irregular(line, line_numbers[row])
        self.line += len(words)
        if blank_rows:
            self.num_blank += len(blank_rows)
            kept_rows = np.delete(np.arange(len(words)), blank_rows).tolist()
            words, line_numbers = [words[row] for row in kept_rows], [line_numbers[row] for row in kept_rows]
            rows = rows[kept_rows]
        declared_count = self.layout.count
        if declared_count is not None and self.num_words > declared_count:
            message = f"a word more than the {declared_count:,} that the first line tells"
            raise self.error(message, line_numbers[declared_count - self.num_words])
        self.builder.add(words, rows, line_numbers)

    def _parse_irregular(self, line: bytes, line_number: int) -> tuple[bytes, list[float]]:
        """The word and the numbers of any valid line."""
        width = self.layout.width
        fields = line.split(b" ")
        if len(fields) == width + 1 and fields[0] and all(map(NUMBER_PATTERN.fullmatch, fields[1:])):
            return fields[0], [float(text) for text in fields[1:]]
        fields = line.rsplit(None, width)  # other whitespace, words with spaces
        if len(fields) == width and all(map(_is_number, fields)):
            message = f"there are {width:,} numbers, and no word before them"
            raise self.error(message, line_number, "take the line out")
        if len(fields) <= width:
            message = f"a word and {width:,} numbers should stand here, and there are {len(fields):,} fields"
            raise self.error(message, line_number)
        for text in fields[1:]:
            if not _is_number(text):
                raise self.error(f"{printable_bytes(text)} stands where a number should", line_number)
        if len(fields[0].split()) > 1:
            self.words_with_spaces.add(f"{printable_bytes(fields[0])}, line {line_number:,}")
        return fields[0], [float(text) for text in fields[1:]]

    def finish(self) -> None:
        """Check that the file has the declared number of words."""
        count, declared_count = self.num_words, self.layout.count
        if declared_count is not None and count < declared_count:
            message = f"the file ends after {count:,} of the {declared_count:,} words that its first line tells"
            raise self.error(message, self.line)

    def notes(self) -> list[str]:
        notes = self.words_with_spaces.note("written with spaces, read as all that stands before the numbers")
        if self.num_blank:
            notes.append(f"{self.num_blank:,} blank lines are left out")
        if self.lacks_final_newline:
            notes.append("the last line does not end: if the file was cut short, so was the last number")
        return notes


def _line_ends(block: bytes) -> np.ndarray:
    """The offsets of newlines."""
    return np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n"))


def parse_lines(block: bytes, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Vectors and word ends of complete lines; -1 for a line that is not a word and D numbers separated by spaces."""
    lines = block.split(b"\n")[:-1]
    rows, ends = np.zeros((len(lines), width), np.float32), np.full(len(lines), -1)
    regular_rows = [row for row, line in enumerate(lines) if line.count(b" ") == width and line[0] != ord(" ")]
    if not regular_rows:
        return rows, ends
    fields = [lines[row].partition(b" ") for row in regular_rows]
    text = b"\n".join(field[2] for field in fields)
    if text.translate(None, NUMBER_CHARACTERS):  # numpy would ignore unusual whitespace
        return rows, ends
    try:
        text = text.decode("ascii").split("\n")
        with np.errstate(all="ignore"):
            numbers = np.loadtxt(text, np.float32, comments=None, delimiter=" ", ndmin=2)  # pyright: ignore[reportArgumentType]
    except ValueError:  # one line is irregular: all are parsed one by one
        return rows, ends
    if numbers.shape == (len(regular_rows), width):
        rows[regular_rows] = numbers
        line_starts = np.cumsum([0, *(len(line) + 1 for line in lines)])[:-1]
        ends[regular_rows] = line_starts[regular_rows] + [len(field[0]) for field in fields]
    return rows, ends


# --- Writing ---


def write_text_vectors(file: IO[bytes], words: Sequence[str], matrix: np.ndarray, *, header: bool) -> None:
    """Write lines of words (without spaces) and the shortest decimals that identify each float32."""
    count, width = matrix.shape
    if header:
        file.write(b"%d %d\n" % (count, width))
    line = " ".join(["%s", *["%.9g"] * width]) + "\n"
    for start in range(0, count, ROWS_PER_BLOCK):
        rows = np.asarray(matrix[start : start + ROWS_PER_BLOCK], np.float32)
        block = words[start : start + ROWS_PER_BLOCK]
        if width == 1:  # "5 3" would look like a header
            lines = [f"{word} {value}\n" for word, value in zip(block, rows[:, 0], strict=True)]
        else:
            decimals = shortest_decimals(rows).tolist()
            lines = [line % (word, *row) for word, row in zip(block, decimals, strict=True)]
        file.write("".join(lines).encode())


def shortest_decimals(rows: np.ndarray) -> np.ndarray:
    """float64 rounded to the fewest digits (6 to 9) that identify the float32, except for huge and tiny numbers."""
    values = rows.astype(np.float64)
    absolute = np.abs(values)
    exponents = np.floor(np.log10(np.where(absolute > 0, absolute, 1))).astype(np.int64)
    decimals, is_unresolved = values.copy(), np.ones(rows.shape, bool)
    for digits in DIGIT_RANGE:
        decimal_places = digits - 1 - exponents  # digits after the point
        scale = 10.0 ** np.clip(decimal_places, 0, 22)  # powers of ten up to 22 are exact
        rounded = np.rint(values * scale) / scale
        is_exact = is_unresolved & (decimal_places >= 0) & (decimal_places <= 22) & (rounded.astype(np.float32) == rows)
        decimals[is_exact] = rounded[is_exact]
        is_unresolved &= ~is_exact
    return decimals
