"""Parallel text: two files line by line, a table or JSONL, brought into two files whose lines belong together."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import re
import shutil
import sys
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from forebear.data.corpus.corpus import DROPPED_FILE, TOKENIZER_FILE, Corpus
from forebear.data.corpus.subset import CorpusSplit, Subset, document_bounds, held_out_mask
from forebear.data.io.atomic import cache_folder, explain_disk_errors, sync_file, sync_folder, write_json
from forebear.data.io.files import OnBadBytes, SourceFile, TextBlocks, find_sources, sources_digest
from forebear.data.io.ledger import Ledger, utf8_size
from forebear.data.io.reader import INVISIBLE_CHARS, TextFormat, numbered_lines
from forebear.errors import InputError

if TYPE_CHECKING:
    from forebear.data.tokenizers.tokenizer import Tokenizer

# Where two files that should be parallel part: a missing line shows in the lengths of all that follow it.


NEAR = 3  # lines that may be missing or too many at once, beside the difference of both files
DOUBT = 12.0  # how much worse lines must fit, all in all, before another distance is believed


def first_misaligned_line(left: Sequence[int], right: Sequence[int]) -> int:
    """The first line (from 1) of the shorter file from which on the files belong together at another distance.

    Lines that belong together have lengths in about the same ratio. The likeliest course of the distance between them,
    from none to the difference of both files, is found as a hidden Markov model finds its states.
    """
    one, two = (np.log(np.asarray(side, np.float64) + 1) for side in (left, right))
    shorter, longer = (one, two) if len(one) < len(two) else (two, one)
    count, apart = len(shorter), len(longer) - len(shorter)
    if not count:
        return 1
    distances = np.array(sorted({*range(-NEAR, NEAR + 1), *range(apart - NEAR, apart + NEAR + 1)}))
    ratio = float(np.median(longer[:count] - shorter))
    cost = np.where(distances == 0, 0.0, np.inf)  # of the best course that ends at each distance
    stayed = np.empty((count, len(distances)), bool)
    came_from = np.empty(count, np.int64)
    for line in range(count):
        came_from[line] = best = int(cost.argmin())
        stayed[line] = cost <= cost[best] + DOUBT
        places = line + distances
        fits = (places >= 0) & (places < len(longer))
        apart_by = np.abs(longer[np.clip(places, 0, len(longer) - 1)] - shorter[line] - ratio)
        cost = np.where(stayed[line], cost, cost[best] + DOUBT) + np.where(fits, apart_by, np.inf)
    at = int(np.flatnonzero(distances == apart)[0])
    first = count + 1
    for line in range(count - 1, -1, -1):
        if distances[at] != 0:
            first = line + 1
        at = at if stayed[line, at] else int(came_from[line])
    return first


FORMAT = "forebear-pairs/1"
SIDES = ("source.txt", "target.txt")
FACTS = "pairs.json"
LINE_ENDS = re.compile(r"[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]++")
SUSPICIOUS = 60  # characters of a suspicious line that are shown
UNSURE = 2  # of the last lines their lengths alone cannot tell whether one is missing before or behind them
NAMES = (("source", "target"), ("src", "tgt"), ("source_text", "target_text"), ("input", "output"))
LANGUAGE = re.compile(r"[a-z]{2,3}(?:[-_][A-Za-z]{2,4})?")  # de, zho, zh-CN

Progress = Callable[[int, int], object]
Row = tuple[int, str, str]  # line, and the two sides


@dataclass(frozen=True)
class ParallelFormat:
    """How parallel text is read. `columns` names those of the two sides (de,en), or numbers them from 1 (1,2)."""

    columns: str = ""
    encoding: str = "utf-8"
    on_bad_bytes: OnBadBytes = "fail"

    def identity(self) -> dict[str, str]:
        """Its part of a key in the cache; the names in it are data and stay when fields are renamed."""
        return {"columns": self.columns, "encoding": self.encoding, "on_bad_bytes": self.on_bad_bytes}

    def read_pairs(self, paths: Sequence[str], ledger: Ledger) -> Iterator[tuple[int, str, str]]:
        """(line, source, target) of all pairs; what lacks a side is dropped into the ledger. Two files must be equally
        long."""
        if len(paths) == 2 and os.path.realpath(paths[0]) == os.path.realpath(paths[1]):
            hint = "give the translations as the second file"
            raise InputError("the same file stands for both sides", file=paths[0], hint=hint)
        sources = list(find_sources(paths))
        if len(sources) > 2:
            what = f"{len(sources)} files are no parallel text"
            raise InputError(what, hint="give two files, line by line, or one table or JSONL file")
        if len(sources) == 2 and self.columns:
            what = "--columns means nothing to two files that are read line by line"
            raise InputError(what, file=sources[0].name, hint="leave it out")
        first, last = sources[0], sources[-1]
        rows = self._two_files(first, last, ledger) if len(sources) == 2 else self._one_file(first, ledger)
        books, name = ledger.stage("read"), sources[0].name
        for line, *both in rows:
            one, two = (LINE_ENDS.sub(" ", str(text)).strip(INVISIBLE_CHARS) for text in both)
            units = {"documents": 1, "characters": len(one) + len(two), "bytes": utf8_size(one) + utf8_size(two)}
            books.add_in(**units)
            if one and two:
                books.add_out(**units)
                yield line, one, two
            else:
                reason = "both sides are empty" if not one and not two else "one side is empty"
                ledger.drop("read", reason, file=name, line=line, excerpt=one or two, **units)

    def _two_files(self, one: SourceFile, two: SourceFile, ledger: Ledger) -> Iterator[Row]:
        sizes = array("i"), array("i")
        for line, (left, right) in enumerate(zip_longest(self._lines(one, ledger), self._lines(two, ledger)), 1):
            for sizes_here, text in zip(sizes, (left, right), strict=True):
                if text is not None:
                    sizes_here.append(len(text))
            if left is not None and right is not None:
                yield line, left, right
        if len(sizes[0]) != len(sizes[1]):
            raise self._unequal(one, two, *sizes)

    def _unequal(self, one: SourceFile, two: SourceFile, left: Sequence[int], right: Sequence[int]) -> InputError:
        line, shorter = first_misaligned_line(left, right), min(len(left), len(right))
        if line > shorter - UNSURE:  # all that is there fits: the end is missing
            line = shorter + 1
        shown = []
        for source in (one, two):
            lines = (text for number, text in enumerate(self._lines(source, Ledger()), 1) if number == line)
            shown.append(f"{source.name}: {(next(lines, None) or '(nothing)')[:SUSPICIOUS]!r}")
        return InputError(
            f"{one.name} has {len(left):,} lines and {two.name} {len(right):,}: they are not parallel. By their "
            f"lengths, lines seem to part at line {line:,}: {'; '.join(shown)}",
            file=one.name,
            line=line,
            hint="look there for a line that is missing or doubled; both files need a line for each pair",
        )

    def _lines(self, source: SourceFile, ledger: Ledger) -> Iterator[str]:
        blocks = TextBlocks(source, self.encoding, self.on_bad_bytes, ledger)
        return (line for _, line, _ in numbered_lines(blocks))

    def _one_file(self, source: SourceFile, ledger: Ledger) -> Iterator[Row]:
        form = TextFormat().format_of(source)
        blocks = TextBlocks(source, self.encoding, self.on_bad_bytes, ledger)
        return self._from_jsonl(blocks) if form == "jsonl" else self._from_table(blocks, form)

    def _from_jsonl(self, blocks: TextBlocks) -> Iterator[Row]:
        name = blocks.source.name
        fields: tuple[str, str] | None = self._named()
        for line, text, _ in numbered_lines(blocks):
            if not text.strip():
                continue
            try:
                record = json.loads(text)
            except (ValueError, RecursionError) as error:
                hint = "one JSON object a line is expected"
                raise InputError(f"not a JSON value: {error}", file=name, line=line, hint=hint) from error
            fields = fields or _fields_of(record, name, line)
            both = [_field(record, field, name, line) for field in fields]
            yield line, both[0], both[1]

    def _from_table(self, blocks: TextBlocks, form: str) -> Iterator[Row]:
        name, named = blocks.source.name, self._named()
        places: tuple[int, int] | None = None
        for line, row in _rows(blocks, form):
            if places is None:
                places, is_header = _columns(row, named, name, line)
                if is_header:
                    continue
            if max(places) >= len(row):
                what = f"the row has {len(row)} columns, column {max(places) + 1} is wanted"
                raise InputError(what, file=name, line=line, hint="mend the row, or name others with --columns")
            yield line, row[places[0]], row[places[1]]

    def _named(self) -> tuple[str, str] | None:
        if not self.columns:
            return None
        names = [name.strip() for name in self.columns.split(",")]
        if len(names) != 2 or not all(names) or names[0] == names[1]:
            hint = "name two, the one to translate from first: --columns de,en or --columns 1,2"
            raise InputError(f"--columns is {self.columns!r}", hint=hint)
        return names[0], names[1]


def _rows(blocks: TextBlocks, form: str) -> Iterator[tuple[int, list[str]]]:
    """The rows of a table with their lines; what is not CSV is divided by tabs, without quoting. Blank ones are not."""
    lines = numbered_lines(blocks)
    if form != "csv":
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
        place = {"file": blocks.source.name, "line": reader.line_num}
        raise InputError(f"not well-formed CSV: {error}", **place, hint="mend the quoting") from error


def _columns(first: list[str], named: tuple[str, str] | None, file: str, line: int) -> tuple[tuple[int, int], bool]:
    """Which columns hold the two sides, and whether this first row is a header."""
    if named is None:
        if len(first) < 2:
            what = "there is one column, and a pair needs two"
            raise InputError(what, file=file, line=line, hint="divide the sides by a tab, or give two files")
        cells = tuple(cell.strip().lower() for cell in first[:2])
        return (0, 1), cells in NAMES or (cells[0] != cells[1] and all(map(LANGUAGE.fullmatch, cells)))
    if all(name.isdecimal() and name.isascii() for name in named):
        places = int(named[0]) - 1, int(named[1]) - 1
        if not all(0 <= place < len(first) for place in places):
            what = f"there is no column {max(map(int, named))}; the first row has {len(first)}"
            raise InputError(what, file=file, line=line, hint="count from 1")
        return places, False
    for name in named:
        if name not in first:
            what = f"no column is called {name!r}; the first row is: {' | '.join(first)[:200]}"
            raise InputError(what, file=file, line=line, hint="give --columns by name, or by number from 1")
    return (first.index(named[0]), first.index(named[1])), True


def _fields_of(record: Any, file: str, line: int) -> tuple[str, str]:
    """The two fields of a record that are the sides of a pair, where nobody says."""
    if isinstance(record, dict):
        for one, two in NAMES:
            if one in record and two in record:
                return one, two
        inner = record.get("translation")
        if isinstance(inner, dict) and len(inner) == 2:
            one, two = inner
            return f"translation.{one}", f"translation.{two}"
        texts = [name for name, value in record.items() if isinstance(value, str)]
        if len(texts) == 2:
            return texts[0], texts[1]
    there = ", ".join(map(str, record)) if isinstance(record, dict) else type(record).__name__
    hint = "name the two fields: --columns de,en (inner ones as translation.de,translation.en)"
    raise InputError(f"which fields are the two sides? The record has: {there}", file=file, line=line, hint=hint)


def _field(record: Any, field: str, file: str, line: int) -> str:
    value = record
    for key in field.split("."):
        if not isinstance(value, dict) or key not in value:
            there = ", ".join(map(str, value)) if isinstance(value, dict) else type(value).__name__
            hint = "name two that there are with --columns"
            raise InputError(f"there is no field {field!r}; there is: {there}", file=file, line=line, hint=hint)
        value = value[key]
    if not isinstance(value, str):
        what = f"field {field!r} is {json.dumps(value)[:40]}, not text"
        raise InputError(what, file=file, line=line, hint="name the two fields with --columns, or mend the record")
    return value


@dataclass(frozen=True)
class AlignedFiles:
    """A folder with the two sides as text, a line each, none of them empty, and the books of how they were read."""

    folder: Path
    metadata: dict[str, Any]

    @property
    def paths(self) -> tuple[str, str]:
        one, two = (str(self.folder / side) for side in SIDES)
        return one, two

    @property
    def count(self) -> int:
        return self.metadata["pairs"]

    @property
    def ledger(self) -> Ledger:
        return Ledger.from_dict(self.metadata["ledger"])


def read_parallel(paths: Sequence[str], reading: ParallelFormat) -> AlignedFiles:
    """The pairs of these files, read once and kept under what they say and how they are read."""
    text = sources_digest(find_sources(paths))
    told = json.dumps([FORMAT, text, reading.identity(), [TextFormat().format_of(one) for one in find_sources(paths)]])
    folder = cache_folder() / "pairs" / hashlib.sha256(told.encode()).hexdigest()[:32]
    with explain_disk_errors(folder):
        if not (folder / FACTS).is_file():
            _written(paths, reading, folder)
        return AlignedFiles(folder, json.loads((folder / FACTS).read_text()))


def _written(paths: Sequence[str], reading: ParallelFormat, folder: Path) -> None:
    aside = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    ledger, count = Ledger(), 0
    try:
        with open(aside / SIDES[0], "w", encoding="utf-8") as one, open(aside / SIDES[1], "w", encoding="utf-8") as two:
            for _, source, target in reading.read_pairs(paths, ledger):
                one.write(source + "\n")
                two.write(target + "\n")
                count += 1
            sync_file(one)
            sync_file(two)
        if not count:
            raise InputError("there is no pair of texts in it", file=paths[0], hint="give text in both languages")
        ledger.verify()
        write_json(aside / FACTS, {"format": FORMAT, "pairs": count, "ledger": ledger.to_dict()})
        if not folder.exists():  # another process may have been quicker
            aside.rename(folder)
            sync_folder(folder.parent)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


# The tokenizers of parallel text: one for what is read and one for what is written, often one and the same.


TARGET_TOKENIZER_FILE = "target-tokenizer.json"


@dataclass(frozen=True, eq=False)
class TokenizerPair:
    """Where a single vocabulary is meant, it is that of the target, in which answers are given."""

    source: Tokenizer
    target: Tokenizer

    @property
    def is_shared(self) -> bool:
        """Whether both are the same."""
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
        told = {"kind": self.kind, "size": self.vocab_size, "digest": self.digest}
        return told if self.is_shared else told | {"source": self.source.describe(), "target": self.target.describe()}

    def save(self, file: str | os.PathLike[str]) -> None:
        """The source's under this name, and beside it the target's where that is another."""
        self.source.save(file)
        if not self.is_shared:
            self.target.save(Path(file).with_name(TARGET_TOKENIZER_FILE))

    @classmethod
    def load(cls, folder: Path) -> TokenizerPair:
        from forebear.data.tokenizers.tokenizer import Tokenizer

        source = Tokenizer.load(folder / TOKENIZER_FILE)
        other = folder / TARGET_TOKENIZER_FILE
        return cls(source, Tokenizer.load(other) if other.exists() else source)


# A corpus of parallel text: two corpora on disk, and which document of the one belongs to which of the other.


@dataclass(frozen=True, eq=False)
class ParallelSubset:
    """Pairs that belong together: unit number i of the source to unit number i of the target."""

    source: Subset
    target: Subset
    lines: np.ndarray  # (n,) where each pair stands in `files`, from 0
    files: AlignedFiles | None = None

    def __len__(self) -> int:
        return len(self.lines)

    @cached_property
    def lengths(self) -> np.ndarray:
        """(n, 2) tokens of either side."""
        return np.stack([side.spans[:, 1] - side.spans[:, 0] for side in (self.source, self.target)], axis=1)

    def within_length(self, most: int) -> tuple[np.ndarray, int]:
        """The numbers of the pairs of which neither side has more than so many tokens, and the tokens of all those."""
        if most not in self._fitting:
            numbers = np.flatnonzero((self.lengths <= most).all(axis=1))
            self._fitting[most] = numbers, int(self.lengths[numbers].sum())
        return self._fitting[most]

    @cached_property
    def _fitting(self) -> dict[int, tuple[np.ndarray, int]]:
        return {}  # looked up for every batch

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

    def select(self, numbers: np.ndarray) -> ParallelSubset:
        """Only the pairs with these numbers."""
        one, two = (Subset(side.corpus, side.units[numbers]) for side in (self.source, self.target))
        return ParallelSubset(one, two, self.lines[numbers], self.files)

    def first(self, count: int) -> ParallelSubset:
        return self if count >= len(self) else self.select(np.arange(count))

    def texts(self) -> tuple[list[str], list[str]]:
        """The sources and the targets, as they were written."""
        assert self.files is not None
        found = []
        for path in self.files.paths:
            with open(path, encoding="utf-8") as file:
                lines = file.read().split("\n")
            found.append([lines[line] for line in self.lines.tolist()])
        return found[0], found[1]


@dataclass(frozen=True, eq=False)
class ParallelCorpus:
    """Both sides, cut into tokens. `units` (n, 3) numbers the documents that are pairs, in either corpus, and the lines
    of the files where they stand."""

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
        one, two = self.source.tokenizer, self.target.tokenizer
        return TokenizerPair(one, one if one.digest == two.digest else two)

    @cached_property
    def ledger(self) -> Ledger:
        return self.files.ledger

    @cached_property
    def pair_rows(self) -> np.ndarray:
        places = [_places(corpus, self.files.count) for corpus in (self.source, self.target)]
        both = np.flatnonzero(np.all([place >= 0 for place in places], axis=0))
        return np.stack([*(place[both] for place in places), both], axis=1)

    @cached_property
    def metadata(self) -> dict[str, Any]:
        sides = (self.source, self.target)
        counts = {name: sum(one.metadata["counts"][name] for one in sides) for name in ("tokens", "bytes", "unknown")}
        return {"counts": {"documents": len(self.pair_rows), **counts}}

    def __len__(self) -> int:
        return len(self.source) + len(self.target)

    @property
    def hashes(self) -> np.ndarray:
        """(n,) what both sides of each pair say, in 64 bits."""
        return self.source.hashes[self.pair_rows[:, 0]] * np.uint64(3) + self.target.hashes[self.pair_rows[:, 1]]

    @property
    def sizes(self) -> np.ndarray:
        return self.target.sizes

    def all_pairs(self) -> ParallelSubset:
        one, two = (
            Subset(corpus, document_bounds(corpus)[self.pair_rows[:, side]])
            for side, corpus in enumerate((self.source, self.target))
        )
        return ParallelSubset(one, two, self.pair_rows[:, 2], self.files)

    def split(self, held_out: float = 0.05) -> CorpusSplit:
        """Pairs set apart by what their source says, so that all translations of a text are on one side; where that
        sets all or none apart, the last pairs are."""
        if not 0 < held_out < 1:
            raise InputError(f"the held-out share is {held_out}", hint="choose a share between 0 and 1, such as 0.05")
        if len(self.pair_rows) < 2:
            raise InputError("there is a single pair, of which nothing can be held out", hint="give more text")
        apart, how = held_out_pairs(np.asarray(self.source.hashes)[self.pair_rows[:, 0]], held_out)
        whole = self.all_pairs()
        train, examined = whole.select(np.flatnonzero(~apart)), whole.select(np.flatnonzero(apart))
        return CorpusSplit(train, examined, how)


def held_out_pairs(hashes: np.ndarray, share: float) -> tuple[np.ndarray, Literal["content", "position"]]:
    """Which pairs examine, by what their sources say, in 64 bits; or the last ones."""
    apart = held_out_mask(hashes, share)
    if apart.any() and not apart.all():
        return apart, "content"
    return np.arange(len(apart)) >= min(len(apart) - 1, round(len(apart) * (1 - share))), "position"


def _places(corpus: Corpus, count: int) -> np.ndarray:
    """(count,) the number of the document of each line; -1 where a line has no tokens, and so no document."""
    silent = np.zeros(count, bool)
    if len(corpus.documents) - 1 < count:
        for item in (corpus.folder / DROPPED_FILE).read_text(encoding="utf-8").splitlines():
            silent[json.loads(item)["line"] - 1] = True
    places = np.cumsum(~silent) - 1
    return np.where(silent, -1, places)
