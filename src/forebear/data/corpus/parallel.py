"""Parallel text: readers of two files, a table or JSONL; aligned files, tokenizer pairs and the parallel corpus."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import re
import sys
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import islice, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from forebear.data.corpus.corpus import DROPPED_FILE, TOKENIZER_FILE, Corpus
from forebear.data.corpus.subset import CorpusSplit, Subset, document_bounds, held_out_mask
from forebear.data.io.atomic import cache_folder, explain_disk_errors, new_folder, sync_file, write_json
from forebear.data.io.sources import SourceFile, find_sources, sources_digest
from forebear.data.io.text_blocks import OnBadBytes, TextBlocks
from forebear.data.io.text_formats import (
    INVISIBLE_CHARS,
    TextFormat,
    available_fields,
    is_column_number,
    named_column,
    numbered_column,
    numbered_lines,
    parse_json_line,
    record_text,
)
from forebear.data.io.text_ledger import Ledger, utf8_size
from forebear.errors import InputError

if TYPE_CHECKING:
    from forebear.data.tokenizers.tokenizer import Tokenizer

# --- Alignment check: a missing line shows in the lengths of all lines that follow ---

MAX_SHIFT = 3  # lines missing or added at one position, in addition to the difference of both files
SHIFT_COST = 12.0  # cost of changing the shift, in units of the log ratio of lengths


def first_misaligned_line(source_lengths: Sequence[int], target_lengths: Sequence[int]) -> int:
    """The first line (from 1) of the shorter file from which the files are aligned with another shift.

    The lengths of aligned lines have about the same ratio. The most likely sequence of shifts, from 0 to the difference
    of both files, is found with the Viterbi algorithm.
    """
    source, target = (np.log(np.asarray(lengths, np.float64) + 1) for lengths in (source_lengths, target_lengths))
    shorter, longer = (source, target) if len(source) < len(target) else (target, source)
    count, difference = len(shorter), len(longer) - len(shorter)
    if not count:
        return 1
    shifts = np.arange(-MAX_SHIFT, MAX_SHIFT + 1)
    distances = np.union1d(shifts, shifts + difference)
    ratio = float(np.median(longer[:count] - shorter))
    cost = np.where(distances == 0, 0.0, np.inf)  # of the best path to each shift
    keeps_shift = np.empty((count, len(distances)), bool)
    backpointers = np.empty(count, np.int64)
    for line in range(count):
        backpointers[line] = best_shift = int(cost.argmin())
        keeps_shift[line] = cost <= cost[best_shift] + SHIFT_COST
        positions = line + distances
        fits = (positions >= 0) & (positions < len(longer))
        deviations = np.abs(longer[np.clip(positions, 0, len(longer) - 1)] - shorter[line] - ratio)
        cost = np.where(keeps_shift[line], cost, cost[best_shift] + SHIFT_COST) + np.where(fits, deviations, np.inf)
    state = int(np.flatnonzero(distances == difference)[0])
    first = count + 1
    for line in range(count - 1, -1, -1):
        if distances[state] != 0:
            first = line + 1
        state = state if keeps_shift[line, state] else int(backpointers[line])
    return first


PAIRS_FORMAT = "forebear-pairs/1"
SIDE_FILES = ("source.txt", "target.txt")
METADATA_FILE = "pairs.json"
LINE_ENDS = re.compile(r"[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]++")
MAX_EXCERPT_CHARS = 60  # characters of a suspicious line that are shown
NUM_UNCERTAIN_LINES = 2  # last lines, whose lengths do not show whether a line is missing before or after them
SIDE_NAMES = (("source", "target"), ("src", "tgt"), ("source_text", "target_text"), ("input", "output"))
LANGUAGE_CODE = re.compile(r"[a-z]{2,3}(?:[-_][A-Za-z]{2,4})?")  # de, zho, zh-CN

Row = tuple[int, str, str]  # line, source, target


@dataclass(frozen=True)
class ParallelFormat:
    """How parallel text is read. `columns` are names (de,en) or numbers from 1 (1,2): source and target."""

    columns: str = ""
    encoding: str = "utf-8"
    on_bad_bytes: OnBadBytes = "fail"

    def read_pairs(self, paths: Sequence[str], ledger: Ledger) -> Iterator[Row]:
        """(line, source, target) of the pairs in one file, or in two with equally many lines; drop incomplete ones."""
        if len(paths) == 2 and os.path.realpath(paths[0]) == os.path.realpath(paths[1]):
            hint = "give the translations as the second file"
            raise InputError("the same file stands for both sides", file=paths[0], hint=hint)
        sources = list(find_sources(paths))
        stage, name = ledger.stage("read"), sources[0].name
        if len(sources) > 2:
            description = f"{len(sources)} files are no parallel text"
            raise InputError(description, hint="give two files, line by line, or one table or JSONL file")
        if len(sources) == 2 and self.columns:
            description = "--columns means nothing to two files that are read line by line"
            raise InputError(description, file=name, hint="leave it out")
        if len(sources) == 2:
            rows = self._two_files(sources[0], sources[1], ledger)
        else:
            blocks = TextBlocks(sources[0], self.encoding, self.on_bad_bytes, ledger)
            file_format = TextFormat().format_of(sources[0])
            rows = self._from_jsonl(blocks) if file_format == "jsonl" else self._from_table(blocks, file_format)
        for line, *sides in rows:
            source_text, target_text = (LINE_ENDS.sub(" ", str(text)).strip(INVISIBLE_CHARS) for text in sides)
            units = {"documents": 1, "characters": len(source_text) + len(target_text)}
            units["bytes"] = utf8_size(source_text) + utf8_size(target_text)
            stage.add_in(**units)
            if source_text and target_text:
                stage.add_out(**units)
                yield line, source_text, target_text
            else:
                reason = "both sides are empty" if not source_text and not target_text else "one side is empty"
                ledger.drop("read", reason, file=name, line=line, excerpt=source_text or target_text, **units)

    def _two_files(self, source_file: SourceFile, target_file: SourceFile, ledger: Ledger) -> Iterator[Row]:
        source_sizes, target_sizes = array("i"), array("i")
        both_lines = zip_longest(self._lines(source_file, ledger), self._lines(target_file, ledger))
        for line, (source_line, target_line) in enumerate(both_lines, 1):
            if source_line is not None:
                source_sizes.append(len(source_line))
            if target_line is not None:
                target_sizes.append(len(target_line))
            if source_line is not None and target_line is not None:
                yield line, source_line, target_line
        if len(source_sizes) == len(target_sizes):
            return
        line, shorter = first_misaligned_line(source_sizes, target_sizes), min(len(source_sizes), len(target_sizes))
        if line > shorter - NUM_UNCERTAIN_LINES:  # all lines are aligned: lines are missing at the end
            line = shorter + 1
        excerpts = []
        for source in (source_file, target_file):
            text = next(islice(self._lines(source, Ledger()), line - 1, None), "")
            excerpts.append(f"{source.name}: {(text or '(nothing)')[:MAX_EXCERPT_CHARS]!r}")
        counts = f"{source_file.name} has {len(source_sizes):,} lines and {target_file.name} {len(target_sizes):,}"
        raise InputError(
            f"{counts}: they are not parallel. By their lengths, lines seem to part at line {line:,}: "
            + "; ".join(excerpts),
            file=source_file.name,
            line=line,
            hint="look there for a line that is missing or doubled; both files need a line for each pair",
        )

    def _lines(self, source: SourceFile, ledger: Ledger) -> Iterator[str]:
        blocks = TextBlocks(source, self.encoding, self.on_bad_bytes, ledger)
        return (line for _, line, _ in numbered_lines(blocks))

    def _from_jsonl(self, blocks: TextBlocks) -> Iterator[Row]:
        name = blocks.source.name
        fields: tuple[str, str] | None = self._column_names()
        for line, text, _ in numbered_lines(blocks):
            if not text.strip():
                continue
            record = parse_json_line(text, name, line)
            fields = fields or _fields_of(record, name, line)
            hint = "name the two fields with --columns, or mend the record"
            source_text, target_text = (record_text(record, field, name, line, hint=hint) for field in fields)
            yield line, source_text, target_text

    def _from_table(self, blocks: TextBlocks, file_format: str) -> Iterator[Row]:
        name, names = blocks.source.name, self._column_names()
        columns: tuple[int, int] | None = None
        for line, row in _rows(blocks, file_format):
            if columns is None:
                columns, is_header = _columns(row, names, name, line)
                if is_header:
                    continue
            if max(columns) >= len(row):
                description = f"the row has {len(row)} columns, column {max(columns) + 1} is wanted"
                raise InputError(description, file=name, line=line, hint="mend the row, or name others with --columns")
            yield line, row[columns[0]], row[columns[1]]

    def _column_names(self) -> tuple[str, str] | None:
        if not self.columns:
            return None
        names = [name.strip() for name in self.columns.split(",")]
        if len(names) != 2 or not all(names) or names[0] == names[1]:
            hint = "name two, the one to translate from first: --columns de,en or --columns 1,2"
            raise InputError(f"--columns is {self.columns!r}", hint=hint)
        return names[0], names[1]


def _rows(blocks: TextBlocks, file_format: str) -> Iterator[tuple[int, list[str]]]:
    """(line, cells) of the rows of a table that are not blank; a table that is not CSV is split at tabs."""
    lines = numbered_lines(blocks)
    if file_format != "csv":
        yield from ((line, text.split("\t")) for line, text, _ in lines if text.strip() or "\t" in text)
        return
    csv.field_size_limit(sys.maxsize)
    reader = csv.reader((text + end for _, text, end in lines), strict=True)
    try:
        line = 1
        for row in reader:
            if row:
                yield line, row
            line = reader.line_num + 1
    except csv.Error as error:
        location = {"file": blocks.source.name, "line": reader.line_num}
        raise InputError(f"not well-formed CSV: {error}", **location, hint="mend the quoting") from error


def _columns(first_row: list[str], names: tuple[str, str] | None, file: str, line: int) -> tuple[tuple[int, int], bool]:
    """The columns of source and target, and whether the first row is a header."""
    if names is None:
        if len(first_row) < 2:
            description = "there is one column, and a pair needs two"
            raise InputError(description, file=file, line=line, hint="divide the sides by a tab, or give two files")
        cells = tuple(cell.strip().lower() for cell in first_row[:2])
        return (0, 1), cells in SIDE_NAMES or (cells[0] != cells[1] and all(map(LANGUAGE_CODE.fullmatch, cells)))
    source_name, target_name = names
    if is_column_number(source_name) and is_column_number(target_name):
        source_column, target_column = (numbered_column(name, first_row, file, line) for name in names)
        return (source_column, target_column), False
    hint = "give --columns by name, or by number from 1"
    source_column, target_column = (named_column(name, first_row, file, line, hint=hint) for name in names)
    return (source_column, target_column), True


def _fields_of(record: Any, file: str, line: int) -> tuple[str, str]:
    """The fields of source and target in a record, by their names or because there are only two."""
    if isinstance(record, dict):
        for source_field, target_field in SIDE_NAMES:
            if source_field in record and target_field in record:
                return source_field, target_field
        translation = record.get("translation")
        if isinstance(translation, dict) and len(translation) == 2:
            source_field, target_field = translation
            return f"translation.{source_field}", f"translation.{target_field}"
        texts = [name for name, value in record.items() if isinstance(value, str)]
        if len(texts) == 2:
            return texts[0], texts[1]
    description = f"which fields are the two sides? The record has: {available_fields(record)}"
    hint = "name the two fields: --columns de,en (inner ones as translation.de,translation.en)"
    raise InputError(description, file=file, line=line, hint=hint)


@dataclass(frozen=True)
class AlignedFiles:
    """A folder with source and target as text files of equally many lines, none of them empty, and their ledger."""

    folder: Path
    metadata: dict[str, Any]

    @property
    def paths(self) -> tuple[str, str]:
        source_path, target_path = (str(self.folder / side) for side in SIDE_FILES)
        return source_path, target_path

    @property
    def count(self) -> int:
        return self.metadata["pairs"]


def read_parallel(paths: Sequence[str], parallel_format: ParallelFormat) -> AlignedFiles:
    """The pairs of these files, read once and cached by their content and format."""
    content_digest = sources_digest(find_sources(paths))
    formats = [TextFormat().format_of(source_file) for source_file in find_sources(paths)]
    # The names of the fields of ParallelFormat are part of the key.
    identity = json.dumps([PAIRS_FORMAT, content_digest, asdict(parallel_format), formats])
    folder = cache_folder() / "pairs" / hashlib.sha256(identity.encode()).hexdigest()[:32]
    with explain_disk_errors(folder):
        if not (folder / METADATA_FILE).is_file():
            _write_aligned(paths, parallel_format, folder)
        return AlignedFiles(folder, json.loads((folder / METADATA_FILE).read_text()))


def _write_aligned(paths: Sequence[str], parallel_format: ParallelFormat, folder: Path) -> None:
    ledger, count = Ledger(), 0
    with new_folder(folder, may_exist=True) as temp_folder:
        source_path, target_path = (temp_folder / name for name in SIDE_FILES)
        with open(source_path, "w", encoding="utf-8") as sources, open(target_path, "w", encoding="utf-8") as targets:
            for _, source, target in parallel_format.read_pairs(paths, ledger):
                sources.write(source + "\n")
                targets.write(target + "\n")
                count += 1
            sync_file(sources)
            sync_file(targets)
        if not count:
            raise InputError("there is no pair of texts in it", file=paths[0], hint="give text in both languages")
        ledger.verify()
        write_json(temp_folder / METADATA_FILE, {"format": PAIRS_FORMAT, "pairs": count, "ledger": ledger.to_dict()})


# --- Tokenizers of source and target ---

TARGET_TOKENIZER_FILE = "target-tokenizer.json"


@dataclass(frozen=True, eq=False)
class TokenizerPair:
    """The tokenizers of source and target; a single vocabulary is the target's."""

    source: Tokenizer
    target: Tokenizer

    @property
    def is_shared(self) -> bool:
        """Whether source and target have the same tokenizer."""
        return self.source is self.target or self.source.digest == self.target.digest

    @property
    def vocab_size(self) -> int:
        return self.target.vocab_size

    @property
    def kind(self) -> str:
        return self.target.kind if self.is_shared else f"{self.source.kind} and {self.target.kind}"

    @property
    def special_roles(self) -> dict[str, int]:
        return self.target.special_roles

    @property
    def digest(self) -> str:
        if self.is_shared:
            return self.source.digest
        return hashlib.sha256(f"{self.source.digest} {self.target.digest}".encode()).hexdigest()

    def describe(self) -> dict[str, Any]:
        description = {"kind": self.kind, "size": self.vocab_size, "digest": self.digest}
        if not self.is_shared:
            description |= {"source": self.source.describe(), "target": self.target.describe()}
        return description

    def save(self, file: str | os.PathLike[str]) -> None:
        """Write the source tokenizer to `file`, and the target tokenizer next to it if it is another one."""
        self.source.save(file)
        if not self.is_shared:
            self.target.save(Path(file).with_name(TARGET_TOKENIZER_FILE))

    @classmethod
    def load(cls, folder: Path) -> TokenizerPair:
        from forebear.data.tokenizers.tokenizer import Tokenizer

        source = Tokenizer.load(folder / TOKENIZER_FILE)
        target_path = folder / TARGET_TOKENIZER_FILE
        return cls(source, Tokenizer.load(target_path) if target_path.exists() else source)


# --- The parallel corpus: two corpora, and the documents that are pairs ---


@dataclass(frozen=True, eq=False)
class ParallelSubset:
    """Pairs of text: unit i of the source and unit i of the target."""

    source: Subset
    target: Subset
    lines: np.ndarray  # (n,) the line of each pair in `files`, from 0
    files: AlignedFiles | None = None

    def __len__(self) -> int:
        return len(self.lines)

    @cached_property
    def lengths(self) -> np.ndarray:
        """(n, 2) the numbers of tokens of source and target."""
        return np.stack([side.spans[:, 1] - side.spans[:, 0] for side in (self.source, self.target)], axis=1)

    def within_length(self, max_tokens: int) -> tuple[np.ndarray, int]:
        """The indices of the pairs with at most `max_tokens` on either side, and the sum of their tokens."""
        if max_tokens not in self._within_length:
            indices = np.flatnonzero((self.lengths <= max_tokens).all(axis=1))
            self._within_length[max_tokens] = indices, int(self.lengths[indices].sum())
        return self._within_length[max_tokens]

    @cached_property
    def _within_length(self) -> dict[int, tuple[np.ndarray, int]]:
        return {}  # by `max_tokens`: needed for every batch

    @property
    def targets_only(self) -> Subset:
        """The text whose tokens are predicted."""
        return self.target

    @property
    def num_tokens(self) -> int:
        return self.source.num_tokens + self.target.num_tokens

    @property
    def num_bytes(self) -> int:
        return self.source.num_bytes + self.target.num_bytes

    def select(self, indices: np.ndarray) -> ParallelSubset:
        source, target = (Subset(side.corpus, side.units[indices]) for side in (self.source, self.target))
        return ParallelSubset(source, target, self.lines[indices], self.files)

    def first(self, count: int) -> ParallelSubset:
        return self if count >= len(self) else self.select(np.arange(count))

    def texts(self) -> tuple[list[str], list[str]]:
        assert self.files is not None
        sides = []
        for path in self.files.paths:
            with open(path, encoding="utf-8") as file:
                lines = file.read().split("\n")
            sides.append([lines[line] for line in self.lines.tolist()])
        return sides[0], sides[1]


@dataclass(frozen=True, eq=False)
class ParallelCorpus:
    """The corpora of source and target."""

    files: AlignedFiles
    source: Corpus
    target: Corpus

    @property
    def key(self) -> str:
        return hashlib.sha256(f"{self.source.key} {self.target.key}".encode()).hexdigest()

    @property
    def folder(self) -> Path:
        return self.files.folder

    @cached_property
    def tokenizer(self) -> TokenizerPair:
        source, target = self.source.tokenizer, self.target.tokenizer
        return TokenizerPair(source, source if source.digest == target.digest else target)

    @cached_property
    def ledger(self) -> Ledger:
        return Ledger.from_dict(self.files.metadata["ledger"])

    @cached_property
    def pair_rows(self) -> np.ndarray:
        """(n, 3) the documents of each pair in both corpora, and its line in the files."""
        rows = [_documents_of_lines(corpus, self.files.count) for corpus in (self.source, self.target)]
        lines = np.flatnonzero(np.all([row >= 0 for row in rows], axis=0))
        return np.stack([*(row[lines] for row in rows), lines], axis=1)

    @cached_property
    def metadata(self) -> dict[str, Any]:
        sides = [corpus.metadata["counts"] for corpus in (self.source, self.target)]
        counts = {unit: sum(side[unit] for side in sides) for unit in ("tokens", "bytes", "unknown")}
        return {"counts": {"documents": len(self.pair_rows), **counts}}

    def __len__(self) -> int:
        return len(self.source) + len(self.target)

    @property
    def hashes(self) -> np.ndarray:
        """(n,) hashes of the content of each pair, in 64 bits."""
        return self.source.hashes[self.pair_rows[:, 0]] * np.uint64(3) + self.target.hashes[self.pair_rows[:, 1]]

    @property
    def sizes(self) -> np.ndarray:
        return self.target.sizes

    def all_pairs(self) -> ParallelSubset:
        source_rows, target_rows, lines = self.pair_rows.T
        source = Subset(self.source, document_bounds(self.source)[source_rows])
        target = Subset(self.target, document_bounds(self.target)[target_rows])
        return ParallelSubset(source, target, lines, self.files)

    def split(self, held_out: float = 0.05) -> CorpusSplit:
        """Split by the content hash of the source, so that all translations of a text are in one split.

        If one split would be empty, the last pairs are held out instead.
        """
        if not 0 < held_out < 1:
            raise InputError(f"the held-out share is {held_out}", hint="choose a share between 0 and 1, such as 0.05")
        if len(self.pair_rows) < 2:
            raise InputError("there is a single pair, of which nothing can be held out", hint="give more text")
        is_held_out, method = held_out_pairs(np.asarray(self.source.hashes)[self.pair_rows[:, 0]], held_out)
        pairs = self.all_pairs()
        train, held_out_part = pairs.select(np.flatnonzero(~is_held_out)), pairs.select(np.flatnonzero(is_held_out))
        return CorpusSplit(train, held_out_part, method)


def held_out_pairs(hashes: np.ndarray, fraction: float) -> tuple[np.ndarray, Literal["content", "position"]]:
    """Whether each pair is held out, by the content hash of its source or by position; and the method."""
    is_held_out = held_out_mask(hashes, fraction)
    if is_held_out.any() and not is_held_out.all():
        return is_held_out, "content"
    num_pairs = len(is_held_out)
    return np.arange(num_pairs) >= min(num_pairs - 1, round(num_pairs * (1 - fraction))), "position"


def _documents_of_lines(corpus: Corpus, count: int) -> np.ndarray:
    """(count,) the document of each line; -1 for a line without tokens, which has no document."""
    is_empty = np.zeros(count, bool)
    if len(corpus.documents) - 1 < count:
        for item in (corpus.folder / DROPPED_FILE).read_text(encoding="utf-8").splitlines():
            is_empty[json.loads(item)["line"] - 1] = True
    documents = np.cumsum(~is_empty) - 1
    return np.where(is_empty, -1, documents)
