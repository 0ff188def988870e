"""What the corpus doctor tells people: the report, and findings that name the very option that helps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from forebear.text.duplicates import REPEATED
from forebear.text.ledger import Ledger

Facts = dict[str, Any]
Severity = Literal["good", "note", "warning", "problem"]

LONG_LINE = 10_000
SHORT = 20  # characters of a document that says little
NEAR, SUSPECT = 0.8, 0.01  # where --drop-near-duplicates, --drop-mojibake and --drop-replaced would draw the line


@dataclass(frozen=True)
class Finding:
    """What was found, with numbers, and the very option or command that helps."""

    severity: Severity
    what: str
    remedy: str = ""


@dataclass
class Report:
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
    findings: list[Finding] = field(default_factory=list)

    def to_json(self) -> Facts:
        return asdict(self)


def findings(report: Report, ledger: Ledger) -> list[Finding]:
    found = [*_on_form(report), *_on_characters(report), *_on_copies(report), *_on_words(report), *_on_reading(ledger)]
    if not any(finding.severity in ("warning", "problem") for finding in found):
        found.append(Finding("good", "nothing here stands in the way of training"))
    order = ("problem", "warning", "note", "good")
    return sorted(found, key=lambda finding: order.index(finding.severity))


def _at(facts: Facts) -> str:
    return f"{facts['file']}:{facts['line']}"


def _on_form(report: Report) -> Iterator[Finding]:
    size, lines, chinese = report.size, report.lines, report.chinese
    documents = size["documents"]
    if not documents:
        yield Finding("problem", "there is no document with any text in it", "check the paths, --format and --encoding")
    if size["short"] > 0.2 * documents:
        what = f"{size['short']:,} of {documents:,} documents are shorter than {SHORT} characters"
        yield Finding(
            "note", what, f"--documents files or blank if they belong together, or --clean OUT --drop-shorter {SHORT}"
        )
    if documents < 10 and size["characters"] > 100_000:
        what = f"{size['characters']:,} characters are only {documents} documents: too few to hold some out"
        yield Finding("note", what, "--documents lines, or put blank lines between documents")
    if lines["overlong"]:
        longest = f"the longest has {lines['longest']['characters']:,} ({_at(lines['longest'])})"
        what = f"{lines['overlong']:,} lines are longer than {LONG_LINE:,} characters, {longest}"
        yield Finding("warning", what, f"look at them; --clean OUT --drop-longer-lines {LONG_LINE} leaves them out")
    if lines["breaks"] >= 20 and lines["breaks_inside_sentences"] > 0.3 * lines["breaks"]:
        share = lines["breaks_inside_sentences"] / lines["breaks"]
        yield Finding(
            "note", f"lines are wrapped: {share:.0%} of them end inside a sentence", "prepare with --sentences flow"
        )
    if chinese["is"] == "mixed":
        share = chinese["simplified"] / (chinese["simplified"] + chinese["traditional"])
        what = (
            f"simplified ({share:.0%}) and traditional ({1 - share:.0%}) Chinese are mixed: each word is learned twice"
        )
        yield Finding("note", what, "convert one into the other before training, for example with OpenCC")
    main = max(report.languages.values(), default=0)
    if main < 0.9 * documents:
        shares = ", ".join(f"{name} {count / documents:.0%}" for name, count in report.languages.items())
        yield Finding("note", f"documents are in several languages: {shares}", "give each language its own corpus")


def _on_characters(report: Report) -> Iterator[Finding]:
    says: dict[str, tuple[Severity, str]] = {
        "control": ("warning", "--clean OUT removes them (--strip-controls)"),
        "invisible": ("note", "--clean OUT removes them (--strip-invisible)"),
        "replacement": ("problem", f"read the original with its --encoding, or --clean OUT --drop-replaced {SUSPECT}"),
        "private use": ("note", "no other reader knows these characters: replace them in the source"),
        "unassigned": ("note", "no character has these numbers: look at the places"),
    }
    for kind, (severity, remedy) in says.items():
        if them := [facts for facts in report.characters if facts["kind"] == kind]:
            names = ", ".join(f"{facts['point']} {facts['count']:,}×" for facts in them[:4])
            what = (
                f"{sum(facts['count'] for facts in them):,} {kind} characters: {names} ({_at(them[0]['examples'][0])})"
            )
            yield Finding(severity, what, remedy)
    for facts in report.mojibake:
        example = facts["examples"][0]
        shows = f"“{example['text']}”" + (f" for “{example['meant']}”" if example["meant"] else "")
        extent = f"{facts['places']:,} places in {facts['documents']:,} documents"
        what = f"{extent}: {facts['mistake']}, {shows} ({_at(example)})"
        yield Finding(
            "problem" if facts["documents"] > 0.01 * report.size["documents"] else "warning", what, facts["remedy"]
        )


def _on_copies(report: Report) -> Iterator[Finding]:
    for facts, how, option in (
        (report.duplicates, "equal to", "--drop-duplicates, on by default"),
        (report.near_duplicates, "nearly equal to", f"--drop-near-duplicates {NEAR}"),
    ):
        if facts["documents"]:
            share = facts["characters"] / max(report.size["characters"], 1)
            largest = facts["groups"][0]
            most = f"{largest['copies']:,} times {_at(largest['first'])}"
            what = f"{facts['documents']:,} documents ({share:.1%} of the text) are {how} an earlier one; {most}"
            yield Finding("warning" if share > 0.01 else "note", what, f"--clean OUT drops them ({option})")
        if not facts["complete"]:
            yield Finding(
                "note", f"only {facts['remembered']:,} documents were remembered: there may be more {how} another"
            )
    often = report.lines["repeated"]
    if often["top"]:
        top = often["top"][0]
        most = f"{top['documents']:,} have “{top['text'][:40]}” ({_at(top)})"
        what = f"{often['lines']:,} lines repeat what stands in {REPEATED} earlier documents; {most}"
        yield Finding("note", what, f"--clean OUT --drop-repeated-lines {REPEATED}")


def _on_words(report: Report) -> Iterator[Finding]:
    if "beta" in (facts := report.vocabulary):
        what = (
            f"{facts['types']:,} different words (Chinese: characters) in {facts['words']:,};"
            f" {facts['once'] / facts['types']:.0%} occur once;"
            f" ten times the text would have {10 ** facts['beta']:.1f} times as many"
        )
        yield Finding("note", what)
    learned = report.tokenizers["trained_on"]["characters"]
    for name, facts in report.tokenizers["kinds"].items():
        if facts["unknown_share"] > 0.01:
            some = " ".join(facts["examples"][:6])
            own = f" (learned from {learned:,} characters of this)" if learned else ""
            what = f"tokenizer {name}{own} does not know {facts['unknown_share']:.1%} of its tokens here: {some}"
            yield Finding(
                "warning" if facts["unknown_share"] > 0.05 and not learned else "note",
                what,
                "learn one from this text (forebear tokenizer train --size …); bytepair knows every character",
            )


def _on_reading(ledger: Ledger) -> Iterator[Finding]:
    for reason, listed in ledger.drops.items():
        first = listed.examples[0]
        yield Finding("note", f"reading dropped {listed.count:,}: {reason} ({_at(first)})", "--json shows where")
    for how, listed in ledger.mended.items():
        first = listed.examples[0]
        yield Finding(
            "problem",
            f"{listed.count:,} bad bytes were {how} ({first['file']}, byte {first['byte']:,})",
            "name the right --encoding",
        )
    for reason, listed in ledger.aside.items():
        yield Finding(
            "note",
            f"{listed.count:,} files were set aside: {reason} ({listed.examples[0]['file']})",
            "name them to read them",
        )
