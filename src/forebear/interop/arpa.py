"""Reading and writing ARPA files: the n-grams of each order with log10 probabilities and back-off weights.

In memory, logarithms are natural and one id serves as both <s> and </s>, as in our n-gram models.
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

from forebear.data.io.compression import PeekableStream, atomic_compressed_file
from forebear.errors import ForebearError, InputError

if TYPE_CHECKING:
    from forebear.kernels.arpa import WordHashTable

DATA_HEADER = "\\data\\"  # first line of the format
BOS, EOS, UNK = "<s>", "</s>", "<unk>"
UPPERCASE_UNK = "<UNK>"  # spelling of some programs
BOS_ID, EOS_ID = -1, 1  # while reading; <unk> is 0
MARKER_IDS = {BOS: BOS_ID, EOS: EOS_ID, UNK: 0, UPPERCASE_UNK: 0}  # words with a special meaning
BOM = b"\xef\xbb\xbf"  # some programs write it at the beginning of UTF-8
FORMAT_HINT = "give an ARPA file or a folder of transformers; text is trained on with forebear pretrain"
REPAIR_HINT = "mend this line, or have the program that wrote the file write it again"
TRUNCATED_HINT = "it was cut short: fetch or write it again"
BLOCK_BYTES, MAX_LINE_BYTES = 1 << 20, 1 << 22
MAX_ORDER = 1 << 10  # a file that declares a higher order is corrupt
MAX_BACKOFF = 1e300  # log10; larger weights overflow
MAX_COUNT_DIGITS = 18  # of an n-gram count in the header


@dataclass(frozen=True, eq=False)
class ArpaSection:
    """The n-grams of one order, their log10 probabilities and weights, and the line number of the first.

    The highest order has no back-off weights: an empty array.
    """

    ngrams: np.ndarray  # (size, n) int32 word ids
    log_probs: np.ndarray
    backoffs: np.ndarray
    first_line: int


class ArpaLineReader:
    """Parses an ARPA file line by line; errors name the current line."""

    def __init__(self, path: Path) -> None:
        self.path, self.line_number = path, 0
        self.words, self.id_by_word = [UNK, EOS], dict(MARKER_IDS)
        self.block, self.offset, self._blocks = b"", 0, self._read()

    # --- Bytes and lines ---

    def _read(self) -> Iterator[bytes]:
        """Blocks of complete lines, each line with its newline."""
        try:
            with PeekableStream(self.path) as stream:
                remainder = stream.read(len(BOM)).removeprefix(BOM)
                while block := stream.read(BLOCK_BYTES):
                    end = block.rfind(b"\n") + 1
                    if end:
                        yield remainder + block[:end]
                    remainder = block[end:] if end else remainder + block
                    if len(remainder) > MAX_LINE_BYTES:
                        raise InputError(f"this line does not end within {MAX_LINE_BYTES >> 20} MiB", hint=FORMAT_HINT)
                if remainder:
                    yield remainder + b"\n"
        except InputError as error:
            # How many lines the corrupt compressed part held is unknown.
            line = None if "cannot be read" in error.message else self.line_number + 1
            raise InputError(error.message, file=self.path, line=line, hint=error.hint) from error

    def has_more(self) -> bool:
        """Whether there is another line; reads the next block if this one is used up."""
        while self.offset >= len(self.block):
            self.block, self.offset = next(self._blocks, b""), 0
            if not self.block:
                return False
        return True

    def next_line(self) -> str | None:
        """The next line; None after the last."""
        if not self.has_more():
            return None
        start, end = self.offset, self.block.index(b"\n", self.offset)
        self.offset = end + 1
        self.line_number += 1
        return self.decode(self.block[start:end])

    def decode(self, line: bytes) -> str:
        try:
            return line.rstrip(b"\r").decode()
        except UnicodeDecodeError:
            hint = "fetch it again, or make it UTF-8: iconv -f … -t UTF-8"
            raise self.error("is damaged or no UTF-8 text", hint) from None

    def error(self, message: str, hint: str = REPAIR_HINT) -> InputError:
        return InputError(message, file=self.path, line=max(self.line_number, 1), hint=hint)

    # --- Header, section titles and end ---

    def read_line(self, expected: str) -> str:
        """The next non-blank line."""
        while (line := self.next_line()) is not None:
            if line.strip(" \t"):
                return line
        raise self.error(f"the file ends where {expected} should be", TRUNCATED_HINT)

    def read_header(self) -> list[int]:
        """The declared number of n-grams of each order."""
        if (line := self.read_line(DATA_HEADER).strip()) != DATA_HEADER:
            raise self.error(f"no ARPA file: begins with {line[:40]!r} instead of {DATA_HEADER}", FORMAT_HINT)
        sizes: list[int] = []
        while (line := self.next_line()) is not None:
            match = re.fullmatch(rf"ngram\s+(\d{{1,{MAX_COUNT_DIGITS}}})\s*=\s*(\d{{1,{MAX_COUNT_DIGITS}}})\s*", line)
            if match is None:
                break
            if int(match[1]) != len(sizes) + 1 or len(sizes) == MAX_ORDER:
                raise self.error(f"the number of {len(sizes) + 1}-grams should stand here")
            sizes.append(int(match[2]))
        if not sizes or (line or "").strip():
            raise self.error("the numbers of n-grams (ngram 1=…) and then a blank line should stand here")
        return sizes

    def read_section(self, n: int, size: int, is_highest: bool) -> ArpaSection:
        """The section of order n. The unigram section assigns the word ids that higher orders use."""
        title = f"\\{n}-grams:"
        if self.read_line(title).strip() != title:
            raise self.error(f"{title} should stand here, or an n-gram more than the beginning of the file says")
        first_line = self.line_number + 1
        ngrams, log_probs, backoffs = self.read_entries(n, size, is_highest)
        if (self.next_line() or "").strip():
            raise self.error(f"more {n}-grams than the {size} that the beginning of the file says")
        return ArpaSection(ngrams, log_probs, backoffs, first_line)

    def read_end(self) -> None:
        if (line := self.read_line("\\end\\").strip()) != "\\end\\":
            raise self.error(f"\\end\\ should stand here, not {line[:40]!r}")
        while (line := self.next_line()) is not None:
            if line.strip():
                raise self.error(f"text after \\end\\: {line[:40]!r}")
        self.block = b""

    # --- N-grams ---

    def read_entries(self, n: int, size: int, is_highest: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Word ids (size, n), log10 P and back-off weights (empty for the highest order) of the next lines."""
        word_ids, log_probs, backoffs = array("i"), array("d"), array("d")
        for _ in range(size):
            line = self.next_line()
            if line is None:
                raise self.error(f"the file ends before its {size} {n}-grams do", TRUNCATED_HINT)
            log_prob, words, backoff = self.read_entry(line, n, is_highest)
            if n > 1:
                word_ids.extend(self.ngram_ids(words))
            else:
                word_ids.append(self.id_by_word.setdefault(words[0], len(self.words)))
                if word_ids[-1] == len(self.words):
                    self.words.append(words[0])
            log_probs.append(log_prob)
            if not is_highest:
                backoffs.append(backoff)
        ngrams = np.frombuffer(word_ids, np.int32) if word_ids else np.zeros(0, np.int32)
        return ngrams.reshape(-1, n), np.array(log_probs), np.array(backoffs)

    def read_entry(self, line: str, n: int, is_highest: bool) -> tuple[float, list[str], float]:
        """log10 P, words and back-off weight (0 if the line has none)."""
        if not line.strip():
            raise self.error(f"fewer {n}-grams than the beginning of the file says")
        fields = line.replace("\t", " ").split(" ")
        if "" in fields:
            fields = [field for field in fields if field]
        try:
            if not n + 1 <= len(fields) <= n + 2:
                raise ValueError
            log10_prob, backoff = float(fields[0]), float(fields[n + 1]) if len(fields) == n + 2 else 0.0
        except ValueError:
            raise self.error(f"not log10 P, {n} words and perhaps a back-off weight: {line[:60]!r}") from None
        if not log10_prob <= 0 or not backoff < MAX_BACKOFF:
            raise self.error(f"{fields[0]} is no log10 of a probability, or {backoff} no weight")
        if is_highest and backoff:
            raise self.error("one of the longest n-grams has a back-off weight")
        return log10_prob, fields[1 : n + 1], backoff

    def ngram_ids(self, words: list[str]) -> list[int]:
        try:
            ids = [self.id_by_word[word] for word in words]
        except KeyError as error:
            raise self.error(f"{error} is not among the single words") from None
        if BOS_ID in ids[1:] or EOS_ID in ids[:-1]:
            raise self.error(f"{BOS} is not the first word, or {EOS} not the last")
        return [EOS_ID if ids[0] == BOS_ID else ids[0], *ids[1:]]


# --- Parsing in blocks, for large files ---
#
# Compiled loops parse regular lines; `ArpaLineReader` parses or rejects irregular ones.

MIN_CAPACITY = 1 << 12  # initial number of n-grams; the uncompressed size of a compressed file is unknown


class ArpaBlockReader(ArpaLineReader):
    """Parses the n-grams of a file in blocks, with compiled loops."""

    word_table: WordHashTable

    def read_entries(self, n: int, size: int, is_highest: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        # A line takes at least two bytes per field: memory must not depend on what the header declares.
        capacity = min(size, max(MIN_CAPACITY, self.path.stat().st_size // (2 * n + 2)))
        ngrams, log_probs = np.empty((capacity, n), np.int32), np.empty(capacity)
        backoffs, words, num_read = None if is_highest else np.empty(capacity), [], 0
        while num_read < size:
            if not self.has_more():
                raise self.error(f"the file ends before its {size} {n}-grams do", TRUNCATED_HINT)
            if num_read == len(log_probs):
                _resize_arrays(min(size, 2 * num_read), ngrams, log_probs, backoffs)
            block_backoffs = None if backoffs is None else backoffs[num_read:]
            if n == 1:
                words += self._read_unigram_lines(log_probs[num_read:], block_backoffs)
                num_read = len(words)
            else:
                num_read += self._read_ngram_lines(ngrams[num_read:], log_probs[num_read:], block_backoffs)
        _resize_arrays(size, ngrams, log_probs, backoffs)
        if n == 1:
            ngrams[:, 0] = self._assign_word_ids(words)
        return ngrams, log_probs, np.zeros(0) if backoffs is None else backoffs

    def _read_unigram_lines(self, log_probs: np.ndarray, backoffs: np.ndarray | None) -> list[str]:
        """Fill the arrays with the values of the next unigram lines; returns their words."""
        from forebear.kernels.arpa import parse_unigram_lines

        text = np.frombuffer(self.block, np.uint8)
        count, offset, word_bytes, irregular = parse_unigram_lines(text, self.offset, log_probs, backoffs)
        num_valid = count
        try:
            words = word_bytes.decode().split("\n")[:count]
        except UnicodeDecodeError as error:
            num_valid, words = word_bytes.count(b"\n", 0, error.start), []
        for row, line in self._irregular_lines(irregular, num_valid):
            log_probs[row], (word,), weight = self.read_entry(line, 1, backoffs is None)
            if backoffs is not None:
                backoffs[row] = weight
            if words:
                words[row] = word
        if num_valid < count:
            self.line_number += num_valid + 1
            self.decode(word_bytes.split(b"\n")[num_valid])  # raises the error
        self.line_number, self.offset = self.line_number + count, offset
        return words

    def _read_ngram_lines(self, ngrams: np.ndarray, log_probs: np.ndarray, backoffs: np.ndarray | None) -> int:
        """Fill the arrays with the n-grams of the next lines; returns their number."""
        from forebear.kernels.arpa import parse_ngram_lines

        text = np.frombuffer(self.block, np.uint8)
        count, offset, irregular = parse_ngram_lines(text, self.offset, self.word_table, ngrams, log_probs, backoffs)
        if len(irregular) and len(self.id_by_word) == len(MARKER_IDS):  # the compiled loops use a separate hash table
            self.id_by_word.update((word, word_id) for word_id, word in enumerate(self.words) if word_id > EOS_ID)
        for row, line in self._irregular_lines(irregular, count):
            log_probs[row], words, weight = self.read_entry(line, ngrams.shape[1], backoffs is None)
            ngrams[row] = self.ngram_ids(words)
            if backoffs is not None:
                backoffs[row] = weight
        self.line_number, self.offset = self.line_number + count, offset
        return count

    def _irregular_lines(self, irregular: np.ndarray, num_valid: int) -> Iterator[tuple[int, str]]:
        """Yield irregular lines with their rows; the line number is theirs while they are processed."""
        block_line = self.line_number
        for row, start in irregular.tolist():
            if row < num_valid:
                self.line_number = block_line + row + 1
                yield row, self.decode(self.block[start : self.block.index(b"\n", start)])
        self.line_number = block_line

    def _assign_word_ids(self, words: list[str]) -> np.ndarray:
        """Assign ids to all words of the unigram section and build the hash table."""
        from forebear.kernels.arpa import build_word_table

        ids = np.zeros(len(words), np.int32)
        marker_rows = [row for row, word in enumerate(words) if word in MARKER_IDS]
        word_rows = np.delete(np.arange(len(words)), marker_rows)
        ids[word_rows] = np.arange(len(self.words), len(self.words) + len(word_rows))
        ids[marker_rows] = [MARKER_IDS[words[row]] for row in marker_rows]
        self.words += [word for word in words if word not in MARKER_IDS]
        self.word_table, duplicate = build_word_table("".join(word + "\n" for word in words).encode(), ids)
        if duplicate >= 0:
            ids[duplicate] = ids[words.index(words[duplicate])]
        return ids


def _resize_arrays(size: int, *arrays: np.ndarray | None) -> None:
    """Resize arrays in place; nothing else may refer to their memory."""
    for values in arrays:
        if values is not None and len(values) != size:
            values.resize((size, *values.shape[1:]), refcheck=False)


# --- Whole files ---

ARPA_MARKERS = tuple(MARKER_IDS)
LOG10_ZERO = -99.0  # represents log10 of 0, as in SRILM; no real count comes near it
COMPILED_MIN_BYTES = 1 << 22  # below, reading takes less time than loading the compiled loops
COMPILED_MIN_NGRAMS = 1 << 19  # below, writing takes less time than loading the compiled loops
BLOCK_NGRAMS = 1 << 16  # n-grams per written block
MISSING_UNK_LOG_PROB = -100.0  # log10 P of unknown words if a file has no <unk>, as in KenLM


@dataclass(frozen=True, eq=False)
class ArpaModel:
    """The contents of a file: words by id, and by order the n-grams (size, n) with natural log P and back-off weights.

    The highest order has no back-off weights. `notes` are messages about the file for the user.
    """

    words: list[str]
    ngrams: list[np.ndarray]
    log_probs: list[np.ndarray]
    backoffs: list[np.ndarray]
    notes: list[str] = field(default_factory=list)
    unk_id: int = 0
    eos_id: int = 1


# --- Escaped words ---


def escape_word(word: str) -> str:
    r"""Replace whitespace, control characters, \ and the < of a word that equals a marker by \u0020 and the like."""
    if word in ARPA_MARKERS:
        return r"\u003c" + word[1:]
    if word.isprintable() and " " not in word and "\\" not in word:
        return word
    return "".join(map(_escape_character, word))


def _escape_character(character: str) -> str:
    needs_escape = character.isspace() or ord(character) < 32 or ord(character) == 127 or character == "\\"
    return rf"\u{ord(character):04x}" if needs_escape else character


def unescape_word(word: str) -> str:
    """The original word. An escaped marker stays escaped, so that it is not mistaken for the marker."""

    def unescape(match: re.Match[str]) -> str:
        character = chr(int(match[1], 16))
        return character if _escape_character(character) == match[0] else match[0]

    return re.sub(r"\\u([0-9a-f]{4})", unescape, word) if "\\" in word else word


# --- Writing ---


def write_arpa(
    path: str | os.PathLike[str],
    words: Sequence[str],
    ngrams: Sequence[np.ndarray],
    log_probs: Sequence[np.ndarray],
    backoffs: Sequence[np.ndarray],
    *,
    eos_id: int,
    unk_id: int | None,
    use_compiled: bool | None = None,
) -> None:
    """Write an ARPA file atomically; compressed if its name ends in .gz or .zst.

    Args:
        words: The vocabulary by id.
        ngrams: Per order, the n-grams (size, n) as word ids.
        log_probs: Per order, natural log probabilities.
        backoffs: Per order except the highest, natural log back-off weights.
        eos_id: The token that serves as both <s> and </s>.
        unk_id: The unknown token; None writes an <unk> of probability 0.
        use_compiled: Use compiled loops (same bytes); None: if there are many n-grams.
    """
    escaped_words = [*map(escape_word, words), BOS, UNK]
    bos_id = len(words)
    escaped_words[eos_id] = EOS
    escaped_words[unk_id if unk_id is not None else -1] = UNK
    for order_ngrams in ngrams:
        if order_ngrams.size and not 0 <= order_ngrams.min() <= order_ngrams.max() < len(words):
            raise ForebearError(f"n-grams hold ids outside 0 to {len(words) - 1}, and there are no other words")
    # <s> becomes a separate word that is never predicted and takes over the back-off weight of </s>.
    unigrams = np.append(ngrams[0], [[bos_id]] if unk_id is not None else [[bos_id], [bos_id + 1]], axis=0)
    marker_values = np.zeros(len(unigrams) - len(ngrams[0]))
    all_ngrams = [unigrams, *ngrams[1:]]
    all_log_probs = [np.append(log_probs[0], marker_values - np.inf), *log_probs[1:]]
    all_backoffs: list[np.ndarray | None] = [*backoffs[: len(ngrams) - 1], None]
    if all_backoffs[0] is not None:
        all_backoffs[0] = unigram_backoffs = np.append(all_backoffs[0], marker_values)
        is_eos = unigrams[:, 0] == eos_id
        unigram_backoffs[unigrams[:, 0] == bos_id] = unigram_backoffs[is_eos]
        unigram_backoffs[is_eos] = 0.0
    format_block: Callable[..., bytes | memoryview] = partial(format_lines, escaped_words)
    if use_compiled or (use_compiled is None and sum(map(len, ngrams)) >= COMPILED_MIN_NGRAMS):
        from forebear.kernels.arpa import format_ngram_lines, word_bytes

        format_block = partial(format_ngram_lines, word_bytes(escaped_words))
    with atomic_compressed_file(path) as file:
        header_counts = "".join(f"ngram {n}={len(order)}\n" for n, order in enumerate(all_ngrams, start=1))
        file.write(f"{DATA_HEADER}\n{header_counts}".encode())
        orders = zip(all_ngrams, all_log_probs, all_backoffs, strict=True)
        for n, (order_ngrams, order_log_probs, order_backoffs) in enumerate(orders, start=1):
            file.write(f"\n\\{n}-grams:\n".encode())
            for start in range(0, len(order_ngrams), BLOCK_NGRAMS):
                block = slice(start, start + BLOCK_NGRAMS)
                word_ids = np.array(order_ngrams[block], np.int32)
                if n > 1:
                    word_ids[word_ids[:, 0] == eos_id, 0] = bos_id
                log10_probs = _to_log10(np.minimum(order_log_probs[block], 0))  # rounding may exceed 0
                log10_backoffs = None if order_backoffs is None else _to_log10(order_backoffs[block])
                file.write(format_block(word_ids, log10_probs, log10_backoffs))
        file.write(b"\n\\end\\\n")


def _to_log10(log_probs: np.ndarray) -> np.ndarray:
    return np.maximum(log_probs / math.log(10), LOG10_ZERO)


def format_lines(words: list[str], ngrams: np.ndarray, log_probs: np.ndarray, backoffs: np.ndarray | None) -> bytes:
    """The lines of n-grams (size, n); the reference implementation of `kernels.arpa.format_ngram_lines`."""
    columns = [map(words.__getitem__, column.tolist()) for column in ngrams.T]
    fields = [map("%.9g".__mod__, log_probs.tolist()), map(" ".join, zip(*columns, strict=True))]
    if backoffs is not None:
        fields.append(map("%.9g".__mod__, backoffs.tolist()))
    return "".join(line + "\n" for line in map("\t".join, zip(*fields, strict=True))).encode()


# --- Reading ---


def read_arpa(path: str | os.PathLike[str], *, use_compiled: bool | None = None) -> ArpaModel:
    """Read an ARPA file (plain, gzip or zstd); errors name the line.

    use_compiled  use compiled loops (same result); None: if the file is large
    """
    path = Path(path)
    if use_compiled is None:
        use_compiled = path.is_file() and path.stat().st_size >= COMPILED_MIN_BYTES
    reader = ArpaBlockReader(path) if use_compiled else ArpaLineReader(path)
    sizes = reader.read_header()
    unigrams, notes = _merge_sentence_markers(path, reader.read_section(1, sizes[0], len(sizes) == 1))
    sections = [unigrams, *(reader.read_section(n, size, n == len(sizes)) for n, size in enumerate(sizes[1:], start=2))]
    reader.read_end()
    _check_ngrams(path, sections, len(reader.words), use_compiled)
    log_probs, backoffs = [section.log_probs for section in sections], [section.backoffs for section in sections[:-1]]
    # Not counting the unknown word, to which many files give probability 0.
    num_zeros = -int((log_probs[0][sections[0].ngrams[:, 0] == 0] == LOG10_ZERO).sum())
    for values in (*log_probs, *backoffs):  # in place: copies would raise the peak memory
        is_zero = values == LOG10_ZERO
        num_zeros += int(is_zero.sum())
        values[is_zero] = -np.inf
        with np.errstate(over="ignore"):
            values *= math.log(10)
    if num_zeros:
        subject = "1 number of the file is" if num_zeros == 1 else f"{num_zeros:,} numbers of the file are"
        notes.append(f"{subject} {LOG10_ZERO:g}, which stands for a probability or weight of 0")
    words = [unescape_word(word) for word in reader.words]
    return ArpaModel(words, [section.ngrams for section in sections], log_probs, backoffs, notes)


def _merge_sentence_markers(path: Path, section: ArpaSection) -> tuple[ArpaSection, list[str]]:
    """Unigrams with <s> merged into </s>: the probability of </s>, the back-off weight of <s>."""
    ids = section.ngrams[:, 0]
    known_ids, first_rows = np.unique(ids, return_index=True)
    if len(known_ids) < len(ids):
        duplicate = int(np.delete(np.arange(len(ids)), first_rows).min())
        raise InputError("this word is there twice", file=path, line=section.first_line + duplicate, hint=REPAIR_HINT)
    row_of = {int(ids[row]): int(row) for row in first_rows[: EOS_ID - BOS_ID + 1]}
    if BOS_ID not in row_of or EOS_ID not in row_of:
        hint = "estimate the model again with sentence marks"
        raise InputError(f"no {BOS} or no {EOS} among the single words", file=path, line=section.first_line, hint=hint)
    backoffs = section.backoffs.copy() if len(section.backoffs) else np.zeros(len(ids))
    backoffs[row_of[EOS_ID]] = backoffs[row_of[BOS_ID]]
    is_word = ids != BOS_ID
    ids, log_probs, backoffs, notes = ids[is_word], section.log_probs[is_word], backoffs[is_word], []
    if 0 not in row_of:
        notes.append(f"the file has no {UNK}: unknown words get log10 P = {MISSING_UNK_LOG_PROB:g}, as KenLM does")
        ids, backoffs = np.append(ids, np.int32(0)), np.append(backoffs, 0.0)
        log_probs = np.append(log_probs, MISSING_UNK_LOG_PROB)
    if abs((total_probability := float((10.0**log_probs).sum())) - 1) > 1e-3:
        notes.append(f"the probabilities of single words sum to {total_probability:.4f}, not to 1")
    return ArpaSection(ids[:, None], log_probs, backoffs, section.first_line), notes


def _check_ngrams(path: Path, sections: list[ArpaSection], vocab_size: int, use_compiled: bool) -> None:
    """Check that every n-gram occurs once and its prefix has an entry; lookup relies on both."""
    check: Callable[[list[Any], np.ndarray], tuple[int, int]] = partial(check_prefixes, vocab_size)
    if use_compiled:
        from forebear.kernels.arpa import check_ngram_prefixes as check
    keys_by_order: list[Any] = []
    for n, section in enumerate(sections[1:], start=2):
        orphan, duplicate = check(keys_by_order, section.ngrams)
        if orphan >= 0 or duplicate >= 0:
            message = f"the first {n - 1} words of this n-gram have no entry of their own"
            message = message if orphan >= 0 else "this n-gram is there twice"
            line = section.first_line + (orphan if orphan >= 0 else duplicate)
            raise InputError(message, file=path, line=line, hint=REPAIR_HINT)


def check_prefixes(vocab_size: int, keys_by_order: list[np.ndarray], ngrams: np.ndarray) -> tuple[int, int]:
    """The first n-gram (size, n) without an entry for its prefix, and the first duplicate; -1 if there is none.

    `keys_by_order` is extended by the sorted keys prefix · vocab_size + word of this order.
    """
    prefix_ids, is_orphan = ngrams[:, 0].astype(np.int64), np.zeros(len(ngrams), bool)
    for column, keys in enumerate(keys_by_order, start=1):
        targets = prefix_ids * vocab_size + ngrams[:, column]
        prefix_ids = np.searchsorted(keys, targets)
        is_orphan |= np.append(keys, -1)[prefix_ids] != targets
    if is_orphan.any():
        return int(np.argmax(is_orphan)), -1
    keys = prefix_ids * vocab_size + ngrams[:, -1]
    order = np.argsort(keys, kind="stable")
    keys_by_order.append(keys[order])
    duplicates = order[1:][np.diff(keys_by_order[-1]) == 0]
    return -1, int(duplicates.min()) if len(duplicates) else -1
