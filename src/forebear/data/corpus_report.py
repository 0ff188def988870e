"""The corpus doctor: one pass over documents, then a report of what is there, what is wrong with it and what to do."""

from __future__ import annotations

import hashlib
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
    DocumentSample,
    DuplicateCounter,
    document_location,
    document_location_dict,
    minhash_signature,
    text_digest,
)
from forebear.data.io.documents import Document, with_continuation
from forebear.data.io.ledger import Ledger
from forebear.data.sentences import split_sentences
from forebear.data.unicode import CLASS_IDS, CLASSES

if TYPE_CHECKING:
    from forebear.data.tokenizers.tokenizer import Tokenizer

# What the corpus doctor tells people: the report, and findings that name the very option that helps.


Facts = dict[str, Any]
Severity = Literal["good", "note", "warning", "problem"]

LONG_LINE = 10_000
SHORT = 20  # characters of a document that says little
NEAR, SUSPECT = 0.8, 0.01  # where --drop-near-duplicates, --drop-mojibake and --drop-replaced would draw the line


@dataclass(frozen=True)
class Issue:
    """What was found, with numbers, and the very option or command that helps."""

    severity: Severity
    what: str
    hint: str = ""


@dataclass
class CorpusReport:
    """All facts as plain JSON values, by subject, and the findings for people."""

    size: Facts = field(default_factory=dict)
    scripts: Facts = field(default_factory=dict)
    languages: dict[str, int] = field(default_factory=dict)
    chinese: Facts = field(default_factory=dict)
    characters: list[Facts] = field(default_factory=list)
    mojibake: list[Facts] = field(default_factory=list)
    lines: Facts = field(default_factory=dict)
    duplicates: Facts = field(default_factory=dict)
    near_duplicates: Facts = field(default_factory=dict)
    vocabulary: Facts = field(default_factory=dict)
    tokenizers: Facts = field(default_factory=dict)
    would_drop: list[Facts] = field(default_factory=list)
    findings: list[Issue] = field(default_factory=list)

    def to_dict(self) -> Facts:
        issues = [{"severity": one.severity, "what": one.what, "remedy": one.hint} for one in self.findings]
        return asdict(self) | {"findings": issues}


def find_issues(report: CorpusReport, ledger: Ledger) -> list[Issue]:
    found = [*_on_form(report), *_on_characters(report), *_on_copies(report), *_on_words(report), *_on_reading(ledger)]
    if not any(finding.severity in ("warning", "problem") for finding in found):
        found.append(Issue("good", "nothing here stands in the way of training"))
    order = ("problem", "warning", "note", "good")
    return sorted(found, key=lambda finding: order.index(finding.severity))


def _at(facts: Facts) -> str:
    return f"{facts['file']}:{facts['line']}"


def _on_form(report: CorpusReport) -> Iterator[Issue]:
    size, lines, chinese = report.size, report.lines, report.chinese
    documents = size["documents"]
    if not documents:
        yield Issue("problem", "there is no document with any text in it", "check the paths, --format and --encoding")
    if size["short"] > 0.2 * documents:
        what = f"{size['short']:,} of {documents:,} documents are shorter than {SHORT} characters"
        yield Issue(
            "note", what, f"--documents files or blank if they belong together, or --clean OUT --drop-shorter {SHORT}"
        )
    if documents < 10 and size["characters"] > 100_000:
        what = f"{size['characters']:,} characters are only {documents} documents: too few to hold some out"
        yield Issue("note", what, "--documents lines, or put blank lines between documents")
    if lines["overlong"]:
        longest = f"the longest has {lines['longest']['characters']:,} ({_at(lines['longest'])})"
        what = f"{lines['overlong']:,} lines are longer than {LONG_LINE:,} characters, {longest}"
        yield Issue("warning", what, f"look at them; --clean OUT --drop-longer-lines {LONG_LINE} leaves them out")
    if lines["breaks"] >= 20 and lines["breaks_inside_sentences"] > 0.3 * lines["breaks"]:
        share = lines["breaks_inside_sentences"] / lines["breaks"]
        yield Issue(
            "note", f"lines are wrapped: {share:.0%} of them end inside a sentence", "prepare with --sentences flow"
        )
    if chinese["is"] == "mixed":
        share = chinese["simplified"] / (chinese["simplified"] + chinese["traditional"])
        what = (
            f"simplified ({share:.0%}) and traditional ({1 - share:.0%}) Chinese are mixed: each word is learned twice"
        )
        yield Issue("note", what, "convert one into the other before training, for example with OpenCC")
    main = max(report.languages.values(), default=0)
    if main < 0.9 * documents:
        shares = ", ".join(f"{name} {count / documents:.0%}" for name, count in report.languages.items())
        yield Issue("note", f"documents are in several languages: {shares}", "give each language its own corpus")


def _on_characters(report: CorpusReport) -> Iterator[Issue]:
    says: dict[str, tuple[Severity, str]] = {
        "control": ("warning", "--clean OUT removes them (--strip-controls)"),
        "invisible": ("note", "--clean OUT removes them (--strip-invisible)"),
        "replacement": ("problem", f"read the original with its --encoding, or --clean OUT --drop-replaced {SUSPECT}"),
        "private use": ("note", "no other reader knows these characters: replace them in the source"),
        "unassigned": ("note", "no character has these numbers: look at the places"),
    }
    for kind, (severity, hint) in says.items():
        if them := [facts for facts in report.characters if facts["kind"] == kind]:
            names = ", ".join(f"{facts['point']} {facts['count']:,}×" for facts in them[:4])
            what = (
                f"{sum(facts['count'] for facts in them):,} {kind} characters: {names} ({_at(them[0]['examples'][0])})"
            )
            yield Issue(severity, what, hint)
    for facts in report.mojibake:
        example = facts["examples"][0]
        shows = f"“{example['text']}”" + (f" for “{example['meant']}”" if example["meant"] else "")
        extent = f"{facts['places']:,} places in {facts['documents']:,} documents"
        what = f"{extent}: {facts['mistake']}, {shows} ({_at(example)})"
        yield Issue(
            "problem" if facts["documents"] > 0.01 * report.size["documents"] else "warning", what, facts["remedy"]
        )


def _on_copies(report: CorpusReport) -> Iterator[Issue]:
    for facts, how, option in (
        (report.duplicates, "equal to", "--drop-duplicates, on by default"),
        (report.near_duplicates, "nearly equal to", f"--drop-near-duplicates {NEAR}"),
    ):
        if facts["documents"]:
            share = facts["characters"] / max(report.size["characters"], 1)
            largest = facts["groups"][0]
            most = f"{largest['copies']:,} times {_at(largest['first'])}"
            what = f"{facts['documents']:,} documents ({share:.1%} of the text) are {how} an earlier one; {most}"
            yield Issue("warning" if share > 0.01 else "note", what, f"--clean OUT drops them ({option})")
        if not facts["complete"]:
            yield Issue(
                "note", f"only {facts['remembered']:,} documents were remembered: there may be more {how} another"
            )
    often = report.lines["repeated"]
    if often["top"]:
        top = often["top"][0]
        most = f"{top['documents']:,} have “{top['text'][:40]}” ({_at(top)})"
        what = f"{often['lines']:,} lines repeat what stands in {MIN_REPEATS} earlier documents; {most}"
        yield Issue("note", what, f"--clean OUT --drop-repeated-lines {MIN_REPEATS}")


def _on_words(report: CorpusReport) -> Iterator[Issue]:
    if "beta" in (facts := report.vocabulary):
        what = (
            f"{facts['types']:,} different words (Chinese: characters) in {facts['words']:,};"
            f" {facts['once'] / facts['types']:.0%} occur once;"
            f" ten times the text would have {10 ** facts['beta']:.1f} times as many"
        )
        yield Issue("note", what)
    learned = report.tokenizers["trained_on"]["characters"]
    for name, facts in report.tokenizers["kinds"].items():
        if facts["unknown_share"] > 0.01:
            some = " ".join(facts["examples"][:6])
            own = f" (learned from {learned:,} characters of this)" if learned else ""
            what = f"tokenizer {name}{own} does not know {facts['unknown_share']:.1%} of its tokens here: {some}"
            yield Issue(
                "warning" if facts["unknown_share"] > 0.05 and not learned else "note",
                what,
                "learn one from this text (forebear tokenizer train --size …); bytepair knows every character",
            )


def _on_reading(ledger: Ledger) -> Iterator[Issue]:
    for reason, listed in ledger.drops.items():
        first = listed.examples[0]
        yield Issue("note", f"reading dropped {listed.count:,}: {reason} ({_at(first)})", "--json shows where")
    for how, listed in ledger.mended.items():
        first = listed.examples[0]
        yield Issue(
            "problem",
            f"{listed.count:,} bad bytes were {how} ({first['file']}, byte {first['byte']:,})",
            "name the right --encoding",
        )
    for reason, listed in ledger.aside.items():
        yield Issue(
            "note",
            f"{listed.count:,} files were set aside: {reason} ({listed.examples[0]['file']})",
            "name them to read them",
        )


EXAMPLES = 5
BATCH = 1 << 18  # characters looked at together: many short documents cost no more than one long one
OPTIONS = (
    "--strip-controls", "--strip-invisible", "--drop-duplicates", f"--drop-near-duplicates {NEAR}", "--nfkc",
    "--squeeze-spaces", f"--drop-shorter {SHORT}", f"--drop-mojibake {SUSPECT}", f"--drop-replaced {SUSPECT}",
    f"--drop-longer-lines {LONG_LINE}", f"--drop-repeated-lines {MIN_REPEATS}",
)  # fmt: skip
FEW = 20  # texts of a sample, fewer of which are halved by sentences
ENOUGH = 20_000  # characters of a sample that can be halved: one half to learn from, one to measure on
WRAPPED = re.compile(r"[a-z,]\n(?=[a-z])")  # a line end in the middle of an English sentence
SIZES = {"words": 30_000, "characters": 10_000, "wordpiece": 8_000, "bytepair": 8_000}


def text_report(
    documents: Iterable[Document],
    *,
    ledger: Ledger | None = None,
    tokenizers: Mapping[str, Tokenizer] | None = None,
    train: bool = True,
) -> CorpusReport:
    """Looks at every document once, in bounded memory. `ledger` is the one that reading them filled.

    Without `tokenizers`, small ones of each kind are trained on one half of a sample and measured on the other, or, of
    a text too short to be halved, on all of it (`train=False`: none).
    """
    looking = _ReportCounters()
    for batch in _batches(documents):
        looking.add(batch)
    report = looking.report()
    sample, learned = looking.sample.texts(), []
    if len(sample) < FEW:
        sample = [sentence for text in sample for sentence in split_sentences(text)]
    if tokenizers is None and train:
        learned = sample
        if sum(map(len, sample)) >= ENOUGH:
            learned, sample = sample[::2], sample[1::2]
        tokenizers = trained_on(learned)
    report.tokenizers = {"sample": {"documents": len(sample), "characters": sum(map(len, sample))}}
    report.tokenizers["trained_on"] = {"documents": len(learned), "characters": sum(map(len, learned))}
    report.tokenizers["kinds"] = measure_tokenizers(sample, tokenizers or {})
    report.findings = find_issues(report, ledger or Ledger())
    return report


def _batches(documents: Iterable[Document]) -> Iterator[list[tuple[Document, bool]]]:
    batch: list[tuple[Document, bool]] = []
    characters = 0
    for document, goes_on in with_continuation(documents):
        batch.append((document, goes_on))
        characters += len(document.text) + 1
        if characters >= BATCH:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


@dataclass
class _OpenDocument:
    """A document while its parts come in."""

    place: DocumentLocation
    start: str
    counts: np.ndarray = field(default_factory=lambda: np.zeros(len(CLASSES), np.int64))
    characters: int = 0
    suspect: int = 0
    marks: list[bytes] = field(default_factory=list)
    signed: np.ndarray | None = None


class _ReportCounters:
    """Everything that is counted on the way."""

    def __init__(self) -> None:
        self.size: Counter[str] = Counter(documents=0, characters=0, bytes=0, lines=0)
        self.lengths: Counter[int] = Counter()
        self.broken: Counter[str] = Counter()  # line ends within documents, and those within sentences
        self.longest = self.longest_line = (0, ("", 0))
        self.classes = np.zeros(len(CLASSES), np.int64)
        self.languages: Counter[str] = Counter()
        self.chinese = np.zeros(2, np.int64)
        self.special: dict[int, Facts] = {}
        self.mistakes: dict[str, Facts] = {}
        self.loss: dict[str, Counter[str]] = {option: Counter(documents=0, characters=0) for option in OPTIONS}
        self.tally, self.words, self.sample = DuplicateCounter(NEAR, EXAMPLES), unicode.WordCounter(), DocumentSample()
        self.whole = _OpenDocument(("", 0), "")

    def add(self, batch: list[tuple[Document, bool]]) -> None:
        text = "".join(document.text + "\n" for document, _ in batch)
        codes = unicode.code_points(text, surrogates="keep")
        lengths = [len(document.text) + 1 for document, _ in batch]
        ends = np.cumsum(lengths).tolist()
        classes, counts = unicode.count_classes(codes, lengths)
        counts[:, CLASS_IDS["white space"]] -= 1  # the line end between documents is ours
        self.classes += counts.sum(axis=0)
        self.size.update(bytes=len(text.encode("utf-8", "surrogatepass")) - len(batch))

        def where(at: int) -> Facts:  # counts line ends, so it is asked for examples only
            number = bisect_right(ends, at)
            return document_location_dict(
                document_location(batch[number][0], text.count("\n", ends[number] - lengths[number], at))
            )

        for kind, point, at, count in unicode.special_characters(codes, classes):
            fresh = {"point": f"U+{point:04X}", "name": unicodedata.name(chr(point), ""), "kind": kind}
            facts = self.special.setdefault(point, {**fresh, "count": 0, "examples": []})
            facts["count"] += count
            facts["examples"] += [where(at)] if len(facts["examples"]) < EXAMPLES else []
        suspect = [0] * len(batch)
        counted: set[tuple[str, int]] = set()
        for mistake, match in unicode.find_mojibake(text, codes):
            number = bisect_right(ends, match.start())
            fresh = {"places": 0, "documents": 0, "examples": [], "remedy": mistake.hint}
            facts = self.mistakes.setdefault(mistake.name, fresh)
            facts["places"] += 1
            facts["documents"] += (mistake.name, number) not in counted
            counted.add((mistake.name, number))
            suspect[number] += len(match[0])
            if len(facts["examples"]) < EXAMPLES:
                meant = mistake.decode(match[0][:400])
                facts["examples"].append({**where(match.start()), "text": match[0][:40], "meant": meant[:40]})
        for number, (document, goes_on) in enumerate(batch):
            han = codes[ends[number] - lengths[number] : ends[number]]
            self._add_one(document, goes_on, counts[number], han, suspect[number])

    def _add_one(self, document: Document, goes_on: bool, counts: np.ndarray, codes: np.ndarray, suspect: int) -> None:
        text = document.text
        if document.part == 0:
            self.whole = _OpenDocument(document_location(document), text[: unicode.LANGUAGE_PREFIX_CHARS])
        whole = self.whole
        whole.counts += counts
        whole.characters += len(text)
        whole.suspect += suspect
        whole.marks.append(text_digest(text))
        if (signed := minhash_signature(text)) is not None:
            whole.signed = signed if whole.signed is None else np.minimum(whole.signed, signed)
        if counts[CLASS_IDS["Han"]] and unicode.detect_language(counts, "") == "Chinese":
            self.chinese += unicode.count_simplified_traditional(codes)
        self._add_lines(document)
        self.words.add(text)
        self._lose("--squeeze-spaces", documents=0, characters=len(text) - len(squeeze_spaces(text)))
        if not unicodedata.is_normalized("NFKC", text):
            self._lose("--nfkc", characters=0)
        mark = whole.marks[0]
        if goes_on or document.part:
            self.sample.offer(text, whole.marks[-1])
            mark = hashlib.blake2b(b"".join(whole.marks), digest_size=16).digest()
        if not goes_on:
            self._end(mark, in_parts=document.part > 0, text=text)

    def _end(self, mark: bytes, *, in_parts: bool, text: str) -> None:
        whole, length = self.whole, self.whole.characters
        self.size.update(documents=1, characters=length, in_parts=in_parts)
        self.languages[unicode.detect_language(whole.counts, whole.start)] += 1
        step = 10 ** max(len(str(length)) - 3, 0)
        self.lengths[length // step * step] += 1
        self.longest = max(self.longest, (length, whole.place), key=lambda it: it[0])
        fresh = self.tally.add(mark, whole.signed, length, whole.place, in_parts=in_parts)
        if fresh and not in_parts:
            self.sample.offer(text, mark)
        if length < SHORT:
            self._lose(f"--drop-shorter {SHORT}", characters=length)
        if whole.suspect and whole.suspect >= SUSPECT * length:
            self._lose(f"--drop-mojibake {SUSPECT}", characters=length)
        lost = int(whole.counts[CLASS_IDS["replacement"]])
        if lost and lost >= SUSPECT * length:
            self._lose(f"--drop-replaced {SUSPECT}", characters=length)

    def _add_lines(self, document: Document) -> None:
        lines = document.text.split("\n")
        self.size.update(lines=len(lines) - (document.part > 0))
        self.broken.update(breaks=len(lines) - 1, inside=len(WRAPPED.findall(document.text)))
        self.tally.count(lines, document_location(document), continued=document.part > 0)
        longest = max(map(len, lines))
        if longest > self.longest_line[0]:
            at = next(number for number, line in enumerate(lines) if len(line) == longest)
            self.longest_line = (longest, document_location(document, at))
        if longest > LONG_LINE:
            long = [len(line) + 1 for line in lines if len(line) > LONG_LINE]
            self._lose(f"--drop-longer-lines {LONG_LINE}", documents=0, lines=len(long), characters=sum(long))

    def _lose(self, option: str, **counts: int) -> None:
        self.loss[option].update({"documents": 1} | counts)

    def report(self) -> CorpusReport:
        equal, alike, often = self.tally.to_dict()
        of = dict(zip(CLASSES, self.classes.tolist(), strict=True))
        for option, counts in (("--drop-duplicates", equal), (f"--drop-near-duplicates {NEAR}", alike)):
            kept = {"documents": counts["in_parts"], "characters": counts["characters_in_parts"]}
            self._lose(option, **{unit: counts[unit] - kept[unit] for unit in kept})
        self._lose(f"--drop-repeated-lines {often['allowed']}", documents=0, **self.tally.often)
        self._lose("--strip-controls", documents=0, characters=of["control"])
        self._lose("--strip-invisible", documents=0, characters=of["invisible"])
        one, other = self.chinese.tolist()
        short = self.loss[f"--drop-shorter {SHORT}"]["documents"]
        long = self.loss[f"--drop-longer-lines {LONG_LINE}"]
        return CorpusReport(
            size={
                **self.size, "median": self._quantile(0.5), "ninety_percent": self._quantile(0.9), "short": short,
                "longest": {"characters": self.longest[0], **document_location_dict(self.longest[1])},
            },
            scripts={"letters": {name: of[name] for name in unicode.LETTERS if of[name]}}
            | {name: of[name] for name in CLASSES[len(unicode.LETTERS) :]},
            languages={name: self.languages[name] for name in unicode.LANGUAGES if self.languages[name]},
            chinese={"simplified": one, "traditional": other, "is": unicode.chinese_script(one, other)},
            characters=sorted(self.special.values(), key=lambda facts: -facts["count"]),
            mojibake=[{"mistake": name, **facts} for name, facts in self.mistakes.items()],
            lines={
                "longest": {"characters": self.longest_line[0], **document_location_dict(self.longest_line[1])},
                "overlong": long["lines"], "repeated": often,
                "breaks": self.broken["breaks"], "breaks_inside_sentences": self.broken["inside"],
            },
            duplicates=equal,
            near_duplicates=alike,
            vocabulary=self.words.to_dict(),
            would_drop=[{"option": option, **counts} for option, counts in self.loss.items()],
        )  # fmt: skip

    def _quantile(self, share: float) -> int:
        """From the lengths, of which those above a thousand are rounded down to three digits."""
        passed, length = 0, 0
        for length in sorted(self.lengths):
            passed += self.lengths[length]
            if passed >= share * self.size["documents"]:
                break
        return length


def trained_on(texts: Sequence[str]) -> dict[str, Tokenizer]:
    """Small tokenizers of every kind."""
    from forebear.data.tokenizers.train import train_tokenizer

    return {kind: train_tokenizer(kind, texts, size=size) for kind, size in SIZES.items()} if texts else {}


def measure_tokenizers(texts: Sequence[str], tokenizers: Mapping[str, Tokenizer]) -> Facts:
    """How each tokenizer cuts the texts: length of tokens, what it does not know, texts that yield nothing."""
    characters = sum(map(len, texts))
    size = sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)
    facts: Facts = {}
    for name, tokenizer in tokenizers.items():
        ids, counts = tokenizer.encode_many(texts)
        missed = ids == (-1 if tokenizer.unk_id is None else tokenizer.unk_id)
        tokens = max(len(ids), 1)
        facts[name] = {
            "kind": tokenizer.kind, "size": tokenizer.vocab_size, "tokens": len(ids), "unknown": int(missed.sum()),
            "unknown_share": float(missed.sum() / tokens), "characters_per_token": characters / tokens,
            "bytes_per_token": size / tokens, "documents_without_tokens": int((counts == 0).sum()),
        }  # fmt: skip
        missing: Counter[str] = Counter()
        begins = np.cumsum(counts) - counts
        for number in np.unique(np.searchsorted(begins, np.flatnonzero(missed), "right") - 1)[:100]:
            text = texts[int(number)]
            pieces = tokenizer.encode(text)
            unknown = (span for span, i in zip(pieces.spans, pieces.ids, strict=True) if i == tokenizer.unk_id)
            missing.update(text[begin:end] for begin, end in unknown)
        facts[name]["examples"] = [word for word, _ in missing.most_common(10)]
    return facts
