"""The corpus report: statistics of a text in one pass, its issues, and the options that fix them."""

from __future__ import annotations

import hashlib
import heapq
import re
import unicodedata
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from forebear.data import unicode
from forebear.data.cleaning import squeeze_spaces
from forebear.data.duplicates import (
    MIN_REPEATS,
    DocumentLocation,
    DuplicateCounter,
    document_location,
    document_location_dict,
    minhash_signature,
    text_digest,
)
from forebear.data.io.document import Document, batches_by_size, with_continuation
from forebear.data.io.text_ledger import Ledger
from forebear.data.sentences import split_sentences
from forebear.data.unicode import CLASS_IDS, CLASSES

if TYPE_CHECKING:
    from forebear.data.tokenizers.tokenizer import Tokenizer

# --- The report and its issues ---

Stats = dict[str, Any]
Severity = Literal["good", "note", "warning", "problem"]

LONG_LINE = 10_000  # characters
SHORT_DOCUMENT = 20  # characters
# Thresholds suggested for --drop-near-duplicates, --drop-mojibake and --drop-replaced
NEAR_THRESHOLD = 0.8
SUSPECT_FRACTION = 0.01


@dataclass(frozen=True)
class Issue:
    """An issue of a text, with numbers, and the option or command that fixes it."""

    severity: Severity
    message: str
    hint: str = ""


@dataclass
class CorpusReport:
    """All statistics as JSON values, by subject, and the issues for people."""

    size: Stats = field(default_factory=dict)
    scripts: Stats = field(default_factory=dict)
    languages: dict[str, int] = field(default_factory=dict)
    chinese: Stats = field(default_factory=dict)
    characters: list[Stats] = field(default_factory=list)
    mojibake: list[Stats] = field(default_factory=list)
    lines: Stats = field(default_factory=dict)
    duplicates: Stats = field(default_factory=dict)
    near_duplicates: Stats = field(default_factory=dict)
    vocabulary: Stats = field(default_factory=dict)
    tokenizers: Stats = field(default_factory=dict)
    would_drop: list[Stats] = field(default_factory=list)
    findings: list[Issue] = field(default_factory=list)

    def to_dict(self) -> Stats:
        issues = [{"severity": issue.severity, "what": issue.message, "remedy": issue.hint} for issue in self.findings]
        return asdict(self) | {"findings": issues}


def find_issues(report: CorpusReport, ledger: Ledger) -> list[Issue]:
    finders = _format_issues, _character_issues, _duplicate_issues, _vocabulary_issues
    issues = [*(issue for find in finders for issue in find(report)), *_reading_issues(ledger)]
    if not any(issue.severity in ("warning", "problem") for issue in issues):
        issues.append(Issue("good", "nothing here stands in the way of training"))
    order = ("problem", "warning", "note", "good")
    return sorted(issues, key=lambda issue: order.index(issue.severity))


def _format_location(location: Stats) -> str:
    return f"{location['file']}:{location['line']}"


def _format_issues(report: CorpusReport) -> Iterator[Issue]:
    size, lines, chinese = report.size, report.lines, report.chinese
    documents = size["documents"]
    if not documents:
        yield Issue("problem", "there is no document with any text in it", "check the paths, --format and --encoding")
    if size["short"] > 0.2 * documents:
        description = f"{size['short']:,} of {documents:,} documents are shorter than {SHORT_DOCUMENT} characters"
        hint = f"--documents files or blank if they belong together, or --clean OUT --drop-shorter {SHORT_DOCUMENT}"
        yield Issue("note", description, hint)
    if documents < 10 and size["characters"] > 100_000:
        description = f"{size['characters']:,} characters are only {documents} documents: too few to hold some out"
        yield Issue("note", description, "--documents lines, or put blank lines between documents")
    if lines["overlong"]:
        longest = f"the longest has {lines['longest']['characters']:,} ({_format_location(lines['longest'])})"
        description = f"{lines['overlong']:,} lines are longer than {LONG_LINE:,} characters, {longest}"
        hint = f"look at them; --clean OUT --drop-longer-lines {LONG_LINE} leaves them out"
        yield Issue("warning", description, hint)
    if lines["breaks"] >= 20 and lines["breaks_inside_sentences"] > 0.3 * lines["breaks"]:
        share = lines["breaks_inside_sentences"] / lines["breaks"]
        description = f"lines are wrapped: {share:.0%} of them end inside a sentence"
        yield Issue("note", description, "prepare with --sentences flow")
    if chinese["is"] == "mixed":
        share = chinese["simplified"] / (chinese["simplified"] + chinese["traditional"])
        variants = f"simplified ({share:.0%}) and traditional ({1 - share:.0%}) Chinese"
        hint = "convert one into the other before training, for example with OpenCC"
        yield Issue("note", f"{variants} are mixed: each word is learned twice", hint)
    num_in_main_language = max(report.languages.values(), default=0)
    if num_in_main_language < 0.9 * documents:
        shares = ", ".join(f"{name} {count / documents:.0%}" for name, count in report.languages.items())
        yield Issue("note", f"documents are in several languages: {shares}", "give each language its own corpus")


def _character_issues(report: CorpusReport) -> Iterator[Issue]:
    advice: dict[str, tuple[Severity, str]] = {
        "control": ("warning", "--clean OUT removes them (--strip-controls)"),
        "invisible": ("note", "--clean OUT removes them (--strip-invisible)"),
        "replacement": (
            "problem",
            f"read the original with its --encoding, or --clean OUT --drop-replaced {SUSPECT_FRACTION}",
        ),
        "private use": ("note", "no other reader knows these characters: replace them in the source"),
        "unassigned": ("note", "no character has these numbers: look at the places"),
    }
    for char_class, (severity, hint) in advice.items():
        if items := [item for item in report.characters if item["kind"] == char_class]:
            names = ", ".join(f"{item['point']} {item['count']:,}×" for item in items[:4])
            count, location = sum(item["count"] for item in items), _format_location(items[0]["examples"][0])
            yield Issue(severity, f"{count:,} {char_class} characters: {names} ({location})", hint)
    for item in report.mojibake:
        example = item["examples"][0]
        excerpt = f"“{example['text']}”" + (f" for “{example['meant']}”" if example["meant"] else "")
        extent = f"{item['places']:,} places in {item['documents']:,} documents"
        severity = "problem" if item["documents"] > 0.01 * report.size["documents"] else "warning"
        yield Issue(severity, f"{extent}: {item['mistake']}, {excerpt} ({_format_location(example)})", item["remedy"])


def _duplicate_issues(report: CorpusReport) -> Iterator[Issue]:
    for stats, relation, option in (
        (report.duplicates, "equal to", "--drop-duplicates, on by default"),
        (report.near_duplicates, "nearly equal to", f"--drop-near-duplicates {NEAR_THRESHOLD}"),
    ):
        if stats["documents"]:
            share = stats["characters"] / max(report.size["characters"], 1)
            largest = stats["groups"][0]
            example = f"{largest['copies']:,} times {_format_location(largest['first'])}"
            count = f"{stats['documents']:,} documents ({share:.1%} of the text)"
            description = f"{count} are {relation} an earlier one; {example}"
            yield Issue("warning" if share > 0.01 else "note", description, f"--clean OUT drops them ({option})")
        if not stats["complete"]:
            memory = f"only {stats['remembered']:,} documents were remembered"
            yield Issue("note", f"{memory}: there may be more {relation} another")
    repeated = report.lines["repeated"]
    if repeated["top"]:
        top = repeated["top"][0]
        example = f"{top['documents']:,} have “{top['text'][:40]}” ({_format_location(top)})"
        description = f"{repeated['lines']:,} lines repeat what stands in {MIN_REPEATS} earlier documents; {example}"
        yield Issue("note", description, f"--clean OUT --drop-repeated-lines {MIN_REPEATS}")


def _vocabulary_issues(report: CorpusReport) -> Iterator[Issue]:
    if "beta" in (stats := report.vocabulary):
        description = (
            f"{stats['types']:,} different words (Chinese: characters) in {stats['words']:,};"
            f" {stats['once'] / stats['types']:.0%} occur once;"
            f" ten times the text would have {10 ** stats['beta']:.1f} times as many"
        )
        yield Issue("note", description)
    num_trained = report.tokenizers["trained_on"]["characters"]
    for name, stats in report.tokenizers["kinds"].items():
        if stats["unknown_share"] > 0.01:
            examples = " ".join(stats["examples"][:6])
            source = f" (learned from {num_trained:,} characters of this)" if num_trained else ""
            share = f"{stats['unknown_share']:.1%} of its tokens here"
            severity = "warning" if stats["unknown_share"] > 0.05 and not num_trained else "note"
            hint = "learn one from this text (forebear tokenizer train --size …); bytepair knows every character"
            yield Issue(severity, f"tokenizer {name}{source} does not know {share}: {examples}", hint)


def _reading_issues(ledger: Ledger) -> Iterator[Issue]:
    for reason, items in ledger.drops.items():
        location = _format_location(items.examples[0])
        yield Issue("note", f"reading dropped {items.count:,}: {reason} ({location})", "--json shows where")
    for action, items in ledger.repaired.items():
        location = "{file}, byte {byte:,}".format(**items.examples[0])
        yield Issue("problem", f"{items.count:,} bad bytes were {action} ({location})", "name the right --encoding")
    for reason, items in ledger.skipped_files.items():
        description = f"{items.count:,} files were set aside: {reason} ({items.examples[0]['file']})"
        yield Issue("note", description, "name them to read them")


# --- Statistics, counted in one pass ---

MAX_EXAMPLES = 5
BATCH_CHARACTERS = 1 << 18  # processed at a time, so that many short documents take no longer than a long one
CLEANING_OPTIONS = (
    "--strip-controls", "--strip-invisible", "--drop-duplicates", f"--drop-near-duplicates {NEAR_THRESHOLD}", "--nfkc",
    "--squeeze-spaces", f"--drop-shorter {SHORT_DOCUMENT}", f"--drop-mojibake {SUSPECT_FRACTION}",
    f"--drop-replaced {SUSPECT_FRACTION}", f"--drop-longer-lines {LONG_LINE}", f"--drop-repeated-lines {MIN_REPEATS}",
)  # fmt: skip
MIN_SAMPLE_TEXTS = 20  # documents of a sample; a smaller one is split into sentences
MIN_SPLIT_CHARACTERS = 20_000  # of a sample that is split: one half for training tokenizers, one for evaluating them
WRAPPED_LINE = re.compile(r"[a-z,]\n(?=[a-z])")  # a line end in the middle of an English sentence
VOCAB_SIZES = {"words": 30_000, "characters": 10_000, "wordpiece": 8_000, "bytepair": 8_000}


def corpus_report(
    documents: Iterable[Document],
    *,
    ledger: Ledger | None = None,
    tokenizers: Mapping[str, Tokenizer] | None = None,
    train: bool = True,
) -> CorpusReport:
    """Report on documents, which are read once, in bounded memory.

    Args:
        ledger: The ledger that is filled while they are read.
        tokenizers: Tokenizers to evaluate. By default small ones of each kind are trained on one half of a sample and
            evaluated on the other, or on all of a text that is too short to be divided.
        train: Whether to train tokenizers if none are given.
    """
    counters = _ReportCounters()
    for batch in batches_by_size(with_continuation(documents), lambda pair: len(pair[0].text) + 1, BATCH_CHARACTERS):
        counters.add(batch)
    report = counters.report()
    sample, training_texts = counters.sample.texts(), []
    if len(sample) < MIN_SAMPLE_TEXTS:
        sample = [sentence for text in sample for sentence in split_sentences(text)]
    if tokenizers is None and train and sample:
        from forebear.data.tokenizers.train import train_tokenizer

        training_texts = sample
        if sum(map(len, sample)) >= MIN_SPLIT_CHARACTERS:
            training_texts, sample = sample[::2], sample[1::2]
        tokenizers = {kind: train_tokenizer(kind, training_texts, size=size) for kind, size in VOCAB_SIZES.items()}
    report.tokenizers = {"sample": {"documents": len(sample), "characters": sum(map(len, sample))}}
    report.tokenizers["trained_on"] = {"documents": len(training_texts), "characters": sum(map(len, training_texts))}
    report.tokenizers["kinds"] = measure_tokenizers(sample, tokenizers or {})
    report.findings = find_issues(report, ledger or Ledger())
    return report


@dataclass
class _PartialDocument:
    """The statistics of the parts read so far of a document."""

    location: DocumentLocation
    start: str
    counts: np.ndarray = field(default_factory=lambda: np.zeros(len(CLASSES), np.int64))
    characters: int = 0
    num_suspect: int = 0
    digests: list[bytes] = field(default_factory=list)
    signature: np.ndarray | None = None


class _ReportCounters:
    """The counts of a corpus report, updated batch by batch."""

    def __init__(self) -> None:
        self.size: Counter[str] = Counter(documents=0, characters=0, bytes=0, lines=0)
        self.lengths: Counter[int] = Counter()
        self.line_breaks: Counter[str] = Counter()  # line ends within documents, and those within sentences
        self.longest = self.longest_line = (0, ("", 0))
        self.classes = np.zeros(len(CLASSES), np.int64)
        self.languages: Counter[str] = Counter()
        self.chinese = np.zeros(2, np.int64)
        self.special_characters: dict[int, Stats] = {}
        self.mojibake_entries: dict[str, Stats] = {}
        self.dropped_by_option = {option: Counter(documents=0, characters=0) for option in CLEANING_OPTIONS}
        self.duplicates = DuplicateCounter(NEAR_THRESHOLD, MAX_EXAMPLES)
        self.words, self.sample = unicode.WordCounter(), DocumentSample()
        self.document = _PartialDocument(("", 0), "")

    def add(self, batch: list[tuple[Document, bool]]) -> None:
        text = "".join(document.text + "\n" for document, _ in batch)
        codes = unicode.code_points(text, surrogates="keep")
        lengths = [len(document.text) + 1 for document, _ in batch]
        ends = np.cumsum(lengths).tolist()
        classes, counts = unicode.count_classes(codes, lengths)
        counts[:, CLASS_IDS["white space"]] -= 1  # without the line ends that are inserted between documents
        self.classes += counts.sum(axis=0)
        self.size.update(bytes=len(text.encode("utf-8", "surrogatepass")) - len(batch))

        def location_of(position: int) -> Stats:  # slow, as it counts line ends: for examples only
            index = bisect_right(ends, position)
            line = text.count("\n", ends[index] - lengths[index], position)
            return document_location_dict(document_location(batch[index][0], line))

        for char_class, point, position, count in unicode.special_characters(codes, classes):
            initial = {"point": f"U+{point:04X}", "name": unicodedata.name(chr(point), ""), "kind": char_class}
            entry = self.special_characters.setdefault(point, {**initial, "count": 0, "examples": []})
            entry["count"] += count
            entry["examples"] += [location_of(position)] if len(entry["examples"]) < MAX_EXAMPLES else []
        num_suspect = [0] * len(batch)
        counted: set[tuple[str, int]] = set()
        for pattern, match in unicode.find_mojibake(text, codes):
            index = bisect_right(ends, match.start())
            initial = {"places": 0, "documents": 0, "examples": [], "remedy": pattern.hint}
            entry = self.mojibake_entries.setdefault(pattern.name, initial)
            entry["places"] += 1
            entry["documents"] += (pattern.name, index) not in counted
            counted.add((pattern.name, index))
            num_suspect[index] += len(match[0])
            if len(entry["examples"]) < MAX_EXAMPLES:
                decoded = pattern.decode(match[0][:400])
                entry["examples"].append({**location_of(match.start()), "text": match[0][:40], "meant": decoded[:40]})
        for index, (document, continues) in enumerate(batch):
            document_codes = codes[ends[index] - lengths[index] : ends[index]]
            self._add_document(document, continues, counts[index], document_codes, num_suspect[index])

    def _add_document(
        self, document: Document, continues: bool, counts: np.ndarray, codes: np.ndarray, num_suspect: int
    ) -> None:
        text = document.text
        if document.part == 0:
            self.document = _PartialDocument(document_location(document), text[: unicode.LANGUAGE_PREFIX_CHARS])
        partial = self.document
        partial.counts += counts
        partial.characters += len(text)
        partial.num_suspect += num_suspect
        partial.digests.append(text_digest(text))
        if (signature := minhash_signature(text)) is not None:
            earlier = partial.signature
            partial.signature = signature if earlier is None else np.minimum(earlier, signature)
        if counts[CLASS_IDS["Han"]] and unicode.detect_language(counts, "") == "Chinese":
            self.chinese += unicode.count_simplified_traditional(codes)
        self._add_lines(document)
        self.words.add(text)
        self._count_dropped("--squeeze-spaces", documents=0, characters=len(text) - len(squeeze_spaces(text)))
        if not unicodedata.is_normalized("NFKC", text):
            self._count_dropped("--nfkc", characters=0)
        digest = partial.digests[0]
        if continues or document.part:
            self.sample.add(text, partial.digests[-1])
            digest = hashlib.blake2b(b"".join(partial.digests), digest_size=16).digest()
        if not continues:
            self._finish_document(digest, in_parts=document.part > 0, text=text)

    def _finish_document(self, digest: bytes, *, in_parts: bool, text: str) -> None:
        partial, length = self.document, self.document.characters
        self.size.update(documents=1, characters=length, in_parts=in_parts)
        self.languages[unicode.detect_language(partial.counts, partial.start)] += 1
        bin_width = 10 ** max(len(str(length)) - 3, 0)
        self.lengths[length // bin_width * bin_width] += 1
        self.longest = max(self.longest, (length, partial.location), key=lambda item: item[0])
        is_new = self.duplicates.add(digest, partial.signature, length, partial.location, in_parts=in_parts)
        if is_new and not in_parts:
            self.sample.add(text, digest)
        if length < SHORT_DOCUMENT:
            self._count_dropped(f"--drop-shorter {SHORT_DOCUMENT}", characters=length)
        if partial.num_suspect and partial.num_suspect >= SUSPECT_FRACTION * length:
            self._count_dropped(f"--drop-mojibake {SUSPECT_FRACTION}", characters=length)
        num_replaced = int(partial.counts[CLASS_IDS["replacement"]])
        if num_replaced and num_replaced >= SUSPECT_FRACTION * length:
            self._count_dropped(f"--drop-replaced {SUSPECT_FRACTION}", characters=length)

    def _add_lines(self, document: Document) -> None:
        lines = document.text.split("\n")
        self.size.update(lines=len(lines) - (document.part > 0))
        self.line_breaks.update(breaks=len(lines) - 1, inside=len(WRAPPED_LINE.findall(document.text)))
        self.duplicates.count(lines, document_location(document), continued=document.part > 0)
        longest = max(map(len, lines))
        if longest > self.longest_line[0]:
            index = next(index for index, line in enumerate(lines) if len(line) == longest)
            self.longest_line = (longest, document_location(document, index))
        if longest > LONG_LINE:
            long = [len(line) + 1 for line in lines if len(line) > LONG_LINE]
            self._count_dropped(f"--drop-longer-lines {LONG_LINE}", documents=0, lines=len(long), characters=sum(long))

    def _count_dropped(self, option: str, **counts: int) -> None:
        self.dropped_by_option[option].update({"documents": 1} | counts)

    def report(self) -> CorpusReport:
        equal, near, repeated = self.duplicates.to_dict()
        by_class = dict(zip(CLASSES, self.classes.tolist(), strict=True))
        for option, counts in (("--drop-duplicates", equal), (f"--drop-near-duplicates {NEAR_THRESHOLD}", near)):
            in_parts = {"documents": counts["in_parts"], "characters": counts["characters_in_parts"]}
            self._count_dropped(option, **{unit: counts[unit] - in_parts[unit] for unit in in_parts})
        option = f"--drop-repeated-lines {repeated['allowed']}"
        self._count_dropped(option, documents=0, **self.duplicates.repeated_counts)
        self._count_dropped("--strip-controls", documents=0, characters=by_class["control"])
        self._count_dropped("--strip-invisible", documents=0, characters=by_class["invisible"])
        simplified, traditional = self.chinese.tolist()
        chinese_script = unicode.chinese_script(simplified, traditional)
        num_short = self.dropped_by_option[f"--drop-shorter {SHORT_DOCUMENT}"]["documents"]
        long = self.dropped_by_option[f"--drop-longer-lines {LONG_LINE}"]
        return CorpusReport(
            size={
                **self.size, "median": self._quantile(0.5), "ninety_percent": self._quantile(0.9), "short": num_short,
                "longest": {"characters": self.longest[0], **document_location_dict(self.longest[1])},
            },
            scripts={"letters": {name: by_class[name] for name in unicode.LETTERS if by_class[name]}}
            | {name: by_class[name] for name in CLASSES[len(unicode.LETTERS) :]},
            languages={name: self.languages[name] for name in unicode.LANGUAGES if self.languages[name]},
            chinese={"simplified": simplified, "traditional": traditional, "is": chinese_script},
            characters=sorted(self.special_characters.values(), key=lambda item: -item["count"]),
            mojibake=[{"mistake": name, **item} for name, item in self.mojibake_entries.items()],
            lines={
                "longest": {"characters": self.longest_line[0], **document_location_dict(self.longest_line[1])},
                "overlong": long["lines"], "repeated": repeated,
                "breaks": self.line_breaks["breaks"], "breaks_inside_sentences": self.line_breaks["inside"],
            },
            duplicates=equal,
            near_duplicates=near,
            vocabulary=self.words.to_dict(),
            would_drop=[{"option": option, **counts} for option, counts in self.dropped_by_option.items()],
        )  # fmt: skip

    def _quantile(self, fraction: float) -> int:
        """A quantile of document lengths, which are rounded down to three digits."""
        cumulative, length = 0, 0
        for length in sorted(self.lengths):
            cumulative += self.lengths[length]
            if cumulative >= fraction * self.size["documents"]:
                break
        return length


SAMPLE_CHARACTERS = 1_000_000
EXCERPT_CHARACTERS = 20_000  # longer documents are sampled in excerpts of this length


class DocumentSample:
    """A sample of documents, those with the smallest digests, of `limit` characters; independent of their order."""

    def __init__(self, limit: int = SAMPLE_CHARACTERS) -> None:
        self.limit, self.characters = limit, 0
        self.heap: list[tuple[int, str]] = []

    def add(self, text: str, digest: bytes) -> None:
        for start in range(0, len(text), EXCERPT_CHARACTERS):
            excerpt = text[start : start + EXCERPT_CHARACTERS]
            rank = -int.from_bytes(text_digest(excerpt) if len(text) > EXCERPT_CHARACTERS else digest)
            if self.characters >= self.limit and rank < self.heap[0][0]:
                continue
            heapq.heappush(self.heap, (rank, excerpt))
            self.characters += len(excerpt)
            while self.characters - len(self.heap[0][1]) >= self.limit:
                self.characters -= len(heapq.heappop(self.heap)[1])

    def texts(self) -> list[str]:
        return [text for _, text in sorted(self.heap, reverse=True)]


def measure_tokenizers(texts: Sequence[str], tokenizers: Mapping[str, Tokenizer]) -> Stats:
    """Statistics of each tokenizer on these texts: characters per token, unknown tokens, texts without tokens."""
    characters = sum(map(len, texts))
    num_bytes = sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)
    stats: Stats = {}
    for name, tokenizer in tokenizers.items():
        ids, counts = tokenizer.encode_many(texts)
        is_unknown = ids == (-1 if tokenizer.unk_id is None else tokenizer.unk_id)
        tokens = max(len(ids), 1)
        stats[name] = {
            "kind": tokenizer.kind, "size": tokenizer.vocab_size, "tokens": len(ids), "unknown": int(is_unknown.sum()),
            "unknown_share": float(is_unknown.sum() / tokens), "characters_per_token": characters / tokens,
            "bytes_per_token": num_bytes / tokens, "documents_without_tokens": int((counts == 0).sum()),
        }  # fmt: skip
        unknown_words: Counter[str] = Counter()
        starts = np.cumsum(counts) - counts
        for index in np.unique(np.searchsorted(starts, np.flatnonzero(is_unknown), "right") - 1)[:100]:
            text = texts[int(index)]
            encoding = tokenizer.encode(text)
            tokens_in_text = zip(encoding.spans, encoding.ids, strict=True)
            unknown_words.update(text[start:end] for (start, end), i in tokens_in_text if i == tokenizer.unk_id)
        stats[name]["examples"] = [word for word, _ in unknown_words.most_common(10)]
    return stats
