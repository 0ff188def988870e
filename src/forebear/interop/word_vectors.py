"""Reading and writing word-vector files (word2vec, GloVe, fastText, safetensors), and runs from and to them."""

from __future__ import annotations

import io
import math
import os
import re
from collections import Counter
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypedDict, Unpack

import numpy as np

from forebear.data.io.arrays import map_tensor, read_safetensors_header, safetensors_header
from forebear.data.io.compression import CORRUPT_FILE_HINT, PeekableStream, atomic_compressed_file
from forebear.data.io.sources import ProgressFn
from forebear.data.segmentation import Segmenter, has_han
from forebear.data.tokenizers import word_level
from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.data.tokenizers.tokenizer_json import SPECIAL_TOKEN_NAMES
from forebear.errors import InputError
from forebear.interop import word_vectors_text as text
from forebear.interop.word_vectors_text import (
    EMPTY_FILE_HINT,
    HEADER_PATTERN,
    MAX_LINE_BYTES,
    AnomalyCount,
    VectorTableBuilder,
    WordDecoder,
    WordVectorFile,
    zero_vector_notes,
)
from forebear.registry import model_spec
from forebear.training.create_finished_run import create_run

if TYPE_CHECKING:
    from forebear.interop.exportable import ExportableRun
    from forebear.training.run_folder import RunFolder

VECTOR_FORMATS = ("word2vec", "word2vec-binary", "glove", "fasttext", "safetensors")
# The fraction of the first lines that must look like a word with one number, or with several.
MIN_SCALAR_FRACTION, MIN_VECTOR_FRACTION = 0.9, 0.5
NUM_SAMPLED_ROWS = 64  # rows from which the size of a text file is estimated
UNSUPPORTED_FORMATS = {
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
MAX_WORD_BYTES = 1 << 16  # of one word in a binary file
ROWS_PER_BLOCK = 4096  # rows written or validated together
LARGE_EXPORT_BYTES = 100_000_000  # larger exports are announced before they are written
COMPRESSED_SUFFIXES = (".gz", ".zst")
COMPILED_MIN_BYTES = 1 << 25  # below, numpy finishes before numba is loaded
BOM = "\ufeff"  # ignored at the beginning of a file


def detect_vector_format(path: str | os.PathLike[str]) -> str | None:
    """The format of a file (one of VECTOR_FORMATS), by its content; None if it has none of them or does not exist.

    word2vec and fastText have the same text format: a name that ends in .vec (.vec.gz, .vec.zst) counts as fastText.
    """
    path = Path(path)
    if not path.is_file():
        return None
    header = _read_header(path)
    if _matrix_name(header) is not None and ("words" in header or _vocab_file(path) is not None):
        return "safetensors"
    try:
        with PeekableStream(path) as stream:
            return _detect_format(path, *stream.peek())
    except InputError:  # corrupt: the format is unknown
        return None


def _detect_format(path: Path, head: bytes, is_complete: bool) -> str | None:
    if head.startswith(tuple(UNSUPPORTED_FORMATS)):
        return None
    layout = text.detect_layout(head, is_complete)
    min_fraction = MIN_SCALAR_FRACTION if layout.typical_width == 1 else MIN_VECTOR_FRACTION
    if layout.count is None:
        return "glove" if layout.typical_width and layout.typical_fraction >= min_fraction else None
    if layout.typical_width == layout.width:
        # With one dimension, "N D" may also be a word and its value that happen to agree with the file.
        num_fields = len(head[layout.header_bytes :].split()) if layout.width == 1 and is_complete else None
        is_glove = num_fields not in (None, 2 * layout.count)
    elif is_binary_vectors(head, is_complete):
        return "word2vec-binary"
    else:
        is_glove = layout.typical_width == 1 and layout.typical_fraction >= min_fraction
    if is_glove:
        return "glove"
    name = path.name.lower().removesuffix(".gz").removesuffix(".zst")
    return "fasttext" if name.endswith(".vec") else "word2vec"


def read_word_vectors(
    path: str | os.PathLike[str],
    *,
    form: str | None = None,
    limit: int | None = None,
    on_bad_bytes: str = "fail",
    progress: ProgressFn | None = None,
    parse: text.ParseFn | None = None,
) -> WordVectorFile:
    """Read the words and vectors of a file (plain, gzip or zstd); errors name the line, byte or word.

    Args:
        form: One of VECTOR_FORMATS; None detects it.
        limit: Read only the first words.
        on_bad_bytes: For words that are not UTF-8: "fail", "replace" (by U+FFFD) or "skip".
        progress: Called with the bytes read and the file size.
        parse: A faster `word_vectors_text.parse_lines`.
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
            return read_safetensors_vectors(path, limit=limit, on_bad_bytes=on_bad_bytes, progress=progress)
        if form == "word2vec-binary":
            return read_binary_vectors(stream, limit=limit, on_bad_bytes=on_bad_bytes)
        _validate_format(form)
        return text.read_text_vectors(stream, form, limit=limit, on_bad_bytes=on_bad_bytes, parse=parse)


def reject_unsupported_vectors(path: str | os.PathLike[str]) -> bytes:
    """Reject files that are empty, corrupt or in a known unsupported format; returns the first bytes, decompressed."""
    with PeekableStream(path) as stream:
        head = stream.peek()[0]
    if not head.strip():
        raise InputError("the file is empty", file=path, hint="fetch or write it again")
    for magic, (message, hint) in UNSUPPORTED_FORMATS.items():
        if head.startswith(magic):
            raise InputError(message, file=path, hint=hint.format(stem=Path(path).name.partition(".bin")[0]))
    return head


def _validate_format(file_format: str) -> None:
    if file_format not in VECTOR_FORMATS:
        hint = f"the forms are: {', '.join(VECTOR_FORMATS)}"
        raise InputError(f"no form of word vectors named {file_format!r}", hint=hint)


def write_word_vectors(
    path: str | os.PathLike[str],
    file_format: str,
    words: Sequence[str],
    matrix: np.ndarray,
    counts: np.ndarray | None = None,
) -> list[str]:
    """Write words and their vectors (N, D) atomically; returns notes on changed words.

    `matrix` needs only a shape and slices of rows. Text formats use the fewest digits that identify each float32. If
    the name ends in .gz or .zst, the file is compressed.
    """
    path = Path(path)
    _validate_format(file_format)
    _validate_table(words, matrix, counts)
    notes: list[str] = []
    if file_format != "safetensors":
        words, notes = escape_words(words)
        if counts is not None:
            notes.append("how often words were seen is not kept: only safetensors has a place for it")
    elif path.suffix in COMPRESSED_SUFFIXES:
        hint = f"choose a name without {path.suffix}"
        raise InputError("safetensors are mapped and cannot be packed", file=path, hint=hint)
    with atomic_compressed_file(path) as file:
        if file_format == "safetensors":
            write_safetensors_vectors(file, words, matrix, counts)
        elif file_format == "word2vec-binary":
            write_binary_vectors(file, words, matrix)
        else:
            text.write_text_vectors(file, words, matrix, header=file_format != "glove")
    return notes


def estimate_file_size(file_format: str, words: Sequence[str], matrix: np.ndarray) -> int:
    """The approximate uncompressed size in bytes; for text, estimated from the first rows."""
    word_bytes = sum(map(len, words))
    if file_format in ("safetensors", "word2vec-binary"):
        return 4 * math.prod(matrix.shape) + word_bytes
    buffer, sample = io.BytesIO(), matrix[:NUM_SAMPLED_ROWS]
    text.write_text_vectors(buffer, ["w"] * len(sample), sample, header=False)
    return word_bytes + buffer.tell() * len(words) // max(1, len(sample))


def _validate_table(words: Sequence[str], matrix: np.ndarray, counts: np.ndarray | None) -> None:
    shape = matrix.shape
    if len(shape) != 2 or shape[0] != len(words) or 0 in shape:
        raise InputError(f"{len(words):,} words and a table of {shape} are not a vector for each word")
    if counts is not None and np.shape(counts) != (len(words),):
        raise InputError(f"{len(words):,} words and {np.shape(counts)} counts are not one for each word")
    if len(set(words)) < len(words):
        duplicate_word = next(word for word, count in Counter(words).items() if count > 1)
        raise InputError(f"the word {duplicate_word!r} is there twice", hint="keep one vector of each word")
    try:
        "".join(words).encode()
    except UnicodeEncodeError:
        invalid_word = next(word for word in words if word != word.encode(errors="ignore").decode())
        hint = "leave it out: it holds half a character"
        raise InputError(f"the word {invalid_word!r} is no text", hint=hint) from None
    for start in range(0, len(words), ROWS_PER_BLOCK):
        with np.errstate(over="ignore"):
            is_finite = np.isfinite(np.asarray(matrix[start : start + ROWS_PER_BLOCK], np.float32)).all(1)
        if not is_finite.all():
            word = words[start + int(np.argmin(is_finite))]
            raise InputError(f"the vector of {word!r} holds a number that is none", hint="train these vectors again")


def escape_words(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Words without whitespace, as text formats need them, and notes on those that were changed.

    Whitespace becomes _, as in word2vec's phrases: some readers split lines at any whitespace.
    """
    used_words, escaped_words, changed_words = set(words), [], AnomalyCount()
    for word in words:
        escaped = word
        if word.split() != [word] or word.startswith(BOM):
            escaped = re.sub(rf"[\s{BOM}]", "_", word) or "_"
            while escaped in used_words:
                escaped += "_"
            used_words.add(escaped)
            changed_words.add(f"{word!r} as {escaped!r}")
        escaped_words.append(escaped)
    return escaped_words, changed_words.note("written otherwise: lines of text hold no white space inside a word")


# --- Importing word vectors as runs, and exporting them ---


class VectorFileOptions(TypedDict, total=False):
    """Options for reading a word-vector file: see `read_word_vectors`."""

    form: str | None
    limit: int
    on_bad_bytes: str
    progress: ProgressFn


def import_vectors(path: Path, target: Path, **options: Unpack[VectorFileOptions]) -> RunFolder:
    """Create a run from a word-vector file; each word becomes a token."""
    parse = None
    if path.is_file() and path.stat().st_size >= COMPILED_MIN_BYTES:
        from forebear.kernels.float_text import parse_decimals as parse
    vectors = read_word_vectors(path, parse=parse, **options)
    tokenizer, notes = _tokenizer_for_words(vectors.words, path)
    spec = model_spec("word2vec")(width=vectors.matrix.shape[1], output="given")  # pyright: ignore[reportCallIssue]
    network = spec.build(tokenizer)
    network.set_vectors(vectors.matrix, vectors.counts)
    metadata = {"imported": str(path), "notes": [*vectors.notes, *notes], "parameters": network.num_parameters}
    return create_run(target, spec, "word2vec", tokenizer, network.arrays, metadata)


def _tokenizer_for_words(words: Sequence[str], path: Path) -> tuple[Tokenizer, list[str]]:
    """A word-level tokenizer with exactly these words, and notes on it.

    A file does not say how its text was tokenized and normalized: our own pre-tokenization is used, with lowercasing
    if no word has a capital letter.
    """
    special_tokens, known_words = {}, set(words)
    for role in ("unknown", "end"):
        names = SPECIAL_TOKEN_NAMES[role]
        special_tokens[role] = next((name for name in names if name not in known_words), names[0])
        while special_tokens[role] in known_words:
            special_tokens[role] = f"<{special_tokens[role]}>"
    is_lowercase = all(word == word.lower() for word in words) and any(word != word.upper() for word in words)
    has_chinese = any(map(has_han, words))
    tokenizer_spec = word_level.word_tokenizer_spec(
        [*special_tokens.values(), *words],
        specials=special_tokens,
        normalise=("lower",) if is_lowercase else (),
        split="punctuation",
        segmenter=Segmenter() if has_chinese else None,
        metadata={"source": path.name},
    )
    splitting = "at white space and punctuation" + (", Chinese by rjieba" if has_chinese else "")
    case_note = ", all in small letters as in the file" if is_lowercase else ""
    notes = [f"text is cut {splitting}{case_note}: words that were cut otherwise are found by name only"]
    if unknown_names := [name for name in SPECIAL_TOKEN_NAMES["unknown"] if name in known_words]:
        notes.append(f"{unknown_names[0]} is a word like others: text that the file does not know has no vector")
    return Tokenizer(tokenizer_spec, file=path), notes


def vector_export_note(run: ExportableRun, file_format: str, target: Path) -> str:
    """The size of a large export, with a smaller alternative; "" for small ones."""
    table = run.word_table
    count, width = table.matrix.shape
    num_bytes = estimate_file_size(file_format, table.words, table.matrix)
    if num_bytes < LARGE_EXPORT_BYTES or target.suffix in COMPRESSED_SUFFIXES:
        return ""
    note = f"about {num_bytes / 1e6:,.0f} MB will be written: {count:,} words of {width:,} numbers"
    if not isinstance(table.matrix, np.ndarray):
        flags = f"--format word2vec --to {target.stem}.gz" if file_format == "safetensors" else f"--to {target.name}.gz"
        return f"{note}, all of them 0 but one; packed it is far smaller: {flags}"
    binary_size = estimate_file_size("safetensors", table.words, table.matrix)
    return note + (f"; --format safetensors takes {binary_size / 1e6:,.0f} MB" if binary_size < 0.8 * num_bytes else "")


def export_vectors(run: ExportableRun, target: Path, file_format: str) -> list[str]:
    """Write the words of a run and their vectors; returns notes on the file."""
    table = run.word_table
    notes = write_word_vectors(target, file_format, table.words, table.matrix, table.counts)
    if table.compose is not None:
        limitation = "vectors of words that are not in it cannot be composed of the file"
        notes.append(f"{limitation}: it holds those of whole words")
    return notes


# --- word2vec's binary format: a line "N D", then for each word: word, space, D float32, optional newline ---


def is_binary_vectors(head: bytes, is_complete: bool) -> bool:
    """Whether bytes that begin with a line "N D" continue as a binary file, not as text."""
    line, _, remainder = head.partition(b"\n")
    header = HEADER_PATTERN.fullmatch(line)
    if header is None or not 0 < int(header[2]) <= MAX_LINE_BYTES or b" " not in remainder[: MAX_WORD_BYTES + 1]:
        return False
    if any(byte in remainder[:MAX_WORD_BYTES] for byte in (0, 1, 2, 3, 4, 5, 6, 7, 8, 0x7F)):
        return True
    try:
        remainder[:MAX_WORD_BYTES].decode()
    except UnicodeDecodeError as error:
        if len(remainder) - error.start > 3:  # more than one truncated character at the end
            return True
    if not is_complete:
        return False
    offset, vector_bytes = 0, 4 * int(header[2])
    for _ in range(int(header[1])):
        offset = remainder.find(b" ", offset) + 1 + vector_bytes
        if offset <= vector_bytes or offset > len(remainder):
            return False
    return not remainder[offset:].strip(b"\n")


def read_binary_vectors(
    stream: PeekableStream, *, limit: int | None = None, on_bad_bytes: str = "fail"
) -> WordVectorFile:
    """Read a binary file into memory: its vectors are not contiguous on disk, so they cannot be memory-mapped."""
    head, _ = stream.peek()
    line = head[:100].partition(b"\n")[0]
    header = HEADER_PATTERN.fullmatch(line)
    count, width = map(int, header.groups()) if header else (0, 0)
    if not count or not 0 < width <= MAX_LINE_BYTES:
        message = 'it should begin with a line "N D": how many words of how many numbers'
        if header:
            message = f"it says that there are {count:,} words of {width:,} numbers"
        elif not head:
            message = "the file is empty"
        raise InputError(message, file=stream.path, line=1, hint=CORRUPT_FILE_HINT)
    decoder, vector_bytes = WordDecoder(stream.path, "byte", on_bad_bytes), 4 * width
    builder = VectorTableBuilder(decoder, width, stream.max_plausible_rows(min(count, limit or count), vector_bytes))
    corrupt_error = partial(decoder.error_at, hint=CORRUPT_FILE_HINT)
    stream.read(len(line) + 1)
    num_read, remainder, offset = 0, b"", len(line) + 1  # offset: of the remainder in the (decompressed) file
    while num_read < count and (limit is None or len(builder.words) < limit):
        if not (data := stream.read()):
            message = f"the file ends inside the word that begins here, or inside its {width:,} numbers"
            if not remainder.strip(b"\n"):
                message = f"the file ends after {num_read:,} of the {count:,} words that its first line tells"
            raise corrupt_error(message, offset)
        block = remainder + data
        words, word_starts, vector_starts, end = _split_binary(block, count - num_read, vector_bytes)
        positions = [offset + start for start in word_starts]
        if b"" in words:
            raise corrupt_error("a vector stands here with no word before it", positions[words.index(b"")])
        if words:
            # A vector at every byte offset.
            unaligned = np.ndarray(len(block) - vector_bytes + 1, f"V{vector_bytes}", block, strides=1)
            builder.add(words, unaligned[vector_starts].view("<f4").reshape(-1, width), positions)
        num_read, remainder, offset = num_read + len(words), block[end:], offset + end
        if num_read < count and len(remainder) >= MAX_WORD_BYTES and b" " not in remainder[:MAX_WORD_BYTES]:
            raise corrupt_error(f"no word ends within {MAX_WORD_BYTES:,} bytes from here", offset)
    while limit is None and not remainder.strip(b"\n") and (data := stream.read()):
        remainder, offset = data, offset + len(remainder)
    if limit is None and remainder.strip(b"\n"):
        message = f"there is more than the {count:,} words of {width:,} numbers that the first line tells"
        raise corrupt_error(message, offset)
    return builder.finish("word2vec-binary", limit)


def _split_binary(block: bytes, max_words: int, vector_bytes: int) -> tuple[list[bytes], list[int], list[int], int]:
    """The words of a block, the offsets of words and vectors (`vector_bytes` each), and the end of the last vector."""
    words, word_starts, vector_starts, offset = [], [], [], 0
    while len(words) < max_words:
        space = block.find(b" ", offset, offset + MAX_WORD_BYTES)
        if space < 0 or space + 1 + vector_bytes > len(block):
            break
        words.append(block[offset:space].lstrip(b"\n"))
        word_starts.append(offset)
        vector_starts.append(space + 1)
        offset = space + 1 + vector_bytes
    return words, word_starts, vector_starts, offset


def write_binary_vectors(file: IO[bytes], words: Sequence[str], matrix: np.ndarray) -> None:
    """Write the format of the original word2vec, with a newline after each vector."""
    count, width = matrix.shape
    file.write(b"%d %d\n" % (count, width))
    for start in range(0, count, ROWS_PER_BLOCK):
        rows = np.ascontiguousarray(matrix[start : start + ROWS_PER_BLOCK], "<f4")
        words_and_rows = zip(words[start : start + ROWS_PER_BLOCK], rows, strict=True)
        file.write(b"".join(b"%b %b\n" % (word.encode(), row.tobytes()) for word, row in words_and_rows))


# --- safetensors, memory-mapped ---
#
# Tensors: vectors (N, D) F32; words U8, UTF-8 without separators; ends (N,) I64; counts (N,) I64, if known.
# Without the tensor `words` they are read from NAME.vocab.txt or vocab.txt next to the file, one word per line.


def _read_header(path: Path) -> dict[str, Any]:
    """The header of a safetensors file, with its size in bytes under ""; empty if it is not one."""
    try:
        header, data_start = read_safetensors_header(path)
    except (ValueError, RecursionError, OSError):
        return {}
    return {"": data_start, **header} if "" not in header else {}


def _matrix_name(header: dict[str, Any]) -> str | None:
    """The name of the tensor that holds the vectors: `vectors`, or that of the only matrix."""
    matrix_names = [
        name
        for name, entry in header.items()
        if isinstance(entry, dict) and entry.get("dtype") in ("F32", "F16", "F64")
        if isinstance(shape := entry.get("shape"), list) and len(shape) == 2
    ]
    if "vectors" in matrix_names:
        return "vectors"
    return matrix_names[0] if len(matrix_names) == 1 else None


def _vocab_file(path: Path) -> Path | None:
    names = (path.name.removesuffix(".safetensors") + ".vocab.txt", "vocab.txt")
    return next((file for file in map(path.with_name, names) if file.is_file()), None)


def read_safetensors_vectors(
    path: Path, *, limit: int | None = None, on_bad_bytes: str = "fail", progress: ProgressFn | None = None
) -> WordVectorFile:
    """Read words and memory-map their vectors, which are scanned once to reject NaN and infinity."""
    header, file_size = _read_header(path), path.stat().st_size
    tensor_name = _matrix_name(header)
    if tensor_name is None:
        hint = "give a file with a tensor of rows and columns, named vectors"
        raise InputError("no safetensors file with a table of vectors in it", file=path, hint=hint)
    matrix, decoder = _map_tensor(path, header, tensor_name, 2), WordDecoder(path, "word", on_bad_bytes)
    word_bytes = _word_bytes(path, header)
    counts = _map_tensor(path, header, "counts", 1) if "counts" in header else None
    if len(word_bytes) != len(matrix):
        message = f"there are {len(matrix):,} vectors and {len(word_bytes):,} words"
        raise InputError(message, file=path, hint="the two do not belong together: write them again")
    if counts is not None and (len(counts) != len(word_bytes) or counts.dtype != np.int64 or counts.min(initial=0) < 0):
        raise InputError("counts does not say how often each word was seen", file=path, hint=CORRUPT_FILE_HINT)
    words, kept_rows = decoder.decode_new_words(word_bytes, range(1, len(word_bytes) + 1))
    words, kept_rows = words[:limit], slice(0, limit) if kept_rows is None else kept_rows[:limit]
    matrix, notes = matrix[kept_rows], decoder.notes()
    if not matrix.size:
        raise InputError("it holds no vectors", file=path, hint=EMPTY_FILE_HINT)
    if matrix.dtype != np.float32:
        notes.append(f"its numbers are {header[tensor_name]['dtype']}: read into memory as float32")
        with np.errstate(over="ignore"):  # values that overflow are rejected below
            matrix = np.asarray(matrix, np.float32)
    for start in range(0, len(words), ROWS_PER_BLOCK):
        word_numbers = range(start + 1, len(words) + 1)
        decoder.reject_non_finite(
            matrix[start : start + ROWS_PER_BLOCK], lambda row, start=start: repr(words[start + row]), word_numbers
        )
        if progress is not None:
            progress(min(start + ROWS_PER_BLOCK, len(words)) * file_size // len(words), file_size)
    notes += zero_vector_notes(words, matrix)
    return WordVectorFile(words, matrix, None if counts is None else np.array(counts[kept_rows]), "safetensors", notes)


def _map_tensor(path: Path, header: dict[str, Any], name: str, rank: int) -> np.ndarray:
    """A memory-mapped tensor, validated against its header and the file size."""
    try:
        tensor = map_tensor(path, header.get(name), header[""])
    except (KeyError, TypeError, ValueError):
        tensor = None
    if tensor is None or tensor.ndim != rank:
        message = f"the tensor {name} is not as its header says, or is of a kind that cannot be read here"
        raise InputError(message, file=path, hint=CORRUPT_FILE_HINT)
    return tensor


def _word_bytes(path: Path, header: dict[str, Any]) -> list[bytes]:
    if "words" in header:
        all_words, ends = _map_tensor(path, header, "words", 1).tobytes(), _map_tensor(path, header, "ends", 1)
        word_lengths = np.diff(ends, prepend=0)
        if ends.dtype != np.int64 or word_lengths.min(initial=0) < 0 or len(all_words) != word_lengths.sum():
            raise InputError("ends does not say where its words end", file=path, hint=CORRUPT_FILE_HINT)
        return [all_words[start:end] for start, end in pairwise([0, *ends.tolist()])]
    vocab_file = _vocab_file(path)
    if vocab_file is None:
        hint = f"put {path.stem}.vocab.txt beside it, a word a line"
        raise InputError("it holds vectors, and no words", file=path, hint=hint)
    return vocab_file.read_bytes().replace(b"\r\n", b"\n").removesuffix(b"\n").split(b"\n")


def write_safetensors_vectors(
    file: IO[bytes], words: Sequence[str], matrix: np.ndarray, counts: np.ndarray | None
) -> None:
    """Write words and vectors; words may contain any characters."""
    word_bytes = [word.encode() for word in words]
    index_arrays = {"ends": np.cumsum([len(word) for word in word_bytes], dtype="<i8")}
    if counts is not None:
        index_arrays["counts"] = np.asarray(counts, "<i8")
    # Widest type first, so that all tensors are aligned.
    tensor_specs = {name: ("I64", array.shape) for name, array in index_arrays.items()}
    tensor_specs |= {"vectors": ("F32", matrix.shape), "words": ("U8", (sum(map(len, word_bytes)),))}
    file.write(safetensors_header(tensor_specs, {"words": "UTF-8, one after the other; ends says where each ends"}))
    for array in index_arrays.values():
        file.write(array.tobytes())
    for offset in range(0, len(word_bytes), ROWS_PER_BLOCK):
        file.write(np.ascontiguousarray(matrix[offset : offset + ROWS_PER_BLOCK], "<f4").tobytes())
    file.write(b"".join(word_bytes))
