"""The corpus doctor: one pass over documents, then a report of what is there, what is wrong with it and what to do."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from forebear.text import scripts
from forebear.text.cleaning import squeezed
from forebear.text.documents import Document, ahead
from forebear.text.duplicates import REPEATED, Place, Sample, Tally, digest, place, shown, signature
from forebear.text.findings import LONG_LINE, NEAR, SHORT, SUSPECT, Facts, Report, findings
from forebear.text.ledger import Ledger
from forebear.text.scripts import CLASSES, NUMBER
from forebear.text.sentences import split_sentences

if TYPE_CHECKING:
    from forebear.text.tokenizer import Tokenizer

EXAMPLES = 5
BATCH = 1 << 18  # characters looked at together: many short documents cost no more than one long one
OPTIONS = (
    "--strip-controls", "--strip-invisible", "--drop-duplicates", f"--drop-near-duplicates {NEAR}", "--nfkc",
    "--squeeze-spaces", f"--drop-shorter {SHORT}", f"--drop-mojibake {SUSPECT}", f"--drop-replaced {SUSPECT}",
    f"--drop-longer-lines {LONG_LINE}", f"--drop-repeated-lines {REPEATED}",
)  # fmt: skip
FEW = 20  # texts of a sample, fewer of which are halved by sentences
ENOUGH = 20_000  # characters of a sample that can be halved: one half to learn from, one to measure on
WRAPPED = re.compile(r"[a-z,]\n(?=[a-z])")  # a line end in the middle of an English sentence
SIZES = {"words": 30_000, "characters": 10_000, "wordpiece": 8_000, "bytepair": 8_000}


def examine(
    documents: Iterable[Document],
    *,
    ledger: Ledger | None = None,
    tokenizers: Mapping[str, Tokenizer] | None = None,
    train: bool = True,
) -> Report:
    """Looks at every document once, in bounded memory. `ledger` is the one that reading them filled.

    Without `tokenizers`, small ones of each kind are trained on one half of a sample and measured on the other, or, of
    a text too short to be halved, on all of it (`train=False`: none).
    """
    looking = _Looking()
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
    report.findings = findings(report, ledger or Ledger())
    return report


def _batches(documents: Iterable[Document]) -> Iterator[list[tuple[Document, bool]]]:
    batch: list[tuple[Document, bool]] = []
    characters = 0
    for document, goes_on in ahead(documents):
        batch.append((document, goes_on))
        characters += len(document.text) + 1
        if characters >= BATCH:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


@dataclass
class _Whole:
    """A document while its parts come in."""

    place: Place
    start: str
    counts: np.ndarray = field(default_factory=lambda: np.zeros(len(CLASSES), np.int64))
    characters: int = 0
    suspect: int = 0
    marks: list[bytes] = field(default_factory=list)
    signed: np.ndarray | None = None


class _Looking:
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
        self.tally, self.words, self.sample = Tally(NEAR, EXAMPLES), scripts.Vocabulary(), Sample()
        self.whole = _Whole(("", 0), "")

    def add(self, batch: list[tuple[Document, bool]]) -> None:
        text = "".join(document.text + "\n" for document, _ in batch)
        codes = scripts.points(text)
        lengths = [len(document.text) + 1 for document, _ in batch]
        ends = np.cumsum(lengths).tolist()
        classes, counts = scripts.count_classes(codes, lengths)
        counts[:, NUMBER["white space"]] -= 1  # the line end between documents is ours
        self.classes += counts.sum(axis=0)
        self.size.update(bytes=len(text.encode("utf-8", "surrogatepass")) - len(batch))

        def where(at: int) -> Facts:  # counts line ends, so it is asked for examples only
            number = bisect_right(ends, at)
            return shown(place(batch[number][0], text.count("\n", ends[number] - lengths[number], at)))

        for kind, point, at, count in scripts.special_characters(codes, classes):
            fresh = {"point": f"U+{point:04X}", "name": unicodedata.name(chr(point), ""), "kind": kind}
            facts = self.special.setdefault(point, {**fresh, "count": 0, "examples": []})
            facts["count"] += count
            facts["examples"] += [where(at)] if len(facts["examples"]) < EXAMPLES else []
        suspect = [0] * len(batch)
        counted: set[tuple[str, int]] = set()
        for mistake, match in scripts.find_mojibake(text, codes):
            number = bisect_right(ends, match.start())
            fresh = {"places": 0, "documents": 0, "examples": [], "remedy": mistake.remedy}
            facts = self.mistakes.setdefault(mistake.name, fresh)
            facts["places"] += 1
            facts["documents"] += (mistake.name, number) not in counted
            counted.add((mistake.name, number))
            suspect[number] += len(match[0])
            if len(facts["examples"]) < EXAMPLES:
                meant = mistake.meant(match[0][:400])
                facts["examples"].append({**where(match.start()), "text": match[0][:40], "meant": meant[:40]})
        for number, (document, goes_on) in enumerate(batch):
            han = codes[ends[number] - lengths[number] : ends[number]]
            self._add_one(document, goes_on, counts[number], han, suspect[number])

    def _add_one(self, document: Document, goes_on: bool, counts: np.ndarray, codes: np.ndarray, suspect: int) -> None:
        text = document.text
        if document.part == 0:
            self.whole = _Whole(place(document), text[: scripts.LOOKED_AT])
        whole = self.whole
        whole.counts += counts
        whole.characters += len(text)
        whole.suspect += suspect
        whole.marks.append(digest(text))
        if (signed := signature(text)) is not None:
            whole.signed = signed if whole.signed is None else np.minimum(whole.signed, signed)
        if counts[NUMBER["Han"]] and scripts.language(counts, "") == "Chinese":
            self.chinese += scripts.count_chinese(codes)
        self._add_lines(document)
        self.words.add(text)
        self._lose("--squeeze-spaces", documents=0, characters=len(text) - len(squeezed(text)))
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
        self.languages[scripts.language(whole.counts, whole.start)] += 1
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
        lost = int(whole.counts[NUMBER["replacement"]])
        if lost and lost >= SUSPECT * length:
            self._lose(f"--drop-replaced {SUSPECT}", characters=length)

    def _add_lines(self, document: Document) -> None:
        lines = document.text.split("\n")
        self.size.update(lines=len(lines) - (document.part > 0))
        self.broken.update(breaks=len(lines) - 1, inside=len(WRAPPED.findall(document.text)))
        self.tally.look(lines, place(document), continued=document.part > 0)
        longest = max(map(len, lines))
        if longest > self.longest_line[0]:
            at = next(number for number, line in enumerate(lines) if len(line) == longest)
            self.longest_line = (longest, place(document, at))
        if longest > LONG_LINE:
            long = [len(line) + 1 for line in lines if len(line) > LONG_LINE]
            self._lose(f"--drop-longer-lines {LONG_LINE}", documents=0, lines=len(long), characters=sum(long))

    def _lose(self, option: str, **counts: int) -> None:
        self.loss[option].update({"documents": 1} | counts)

    def report(self) -> Report:
        equal, alike, often = self.tally.facts()
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
        return Report(
            size={
                **self.size, "median": self._quantile(0.5), "ninety_percent": self._quantile(0.9), "short": short,
                "longest": {"characters": self.longest[0], **shown(self.longest[1])},
            },
            scripts={"letters": {name: of[name] for name in scripts.LETTERS if of[name]}}
            | {name: of[name] for name in CLASSES[len(scripts.LETTERS) :]},
            languages={name: self.languages[name] for name in scripts.LANGUAGES if self.languages[name]},
            chinese={"simplified": one, "traditional": other, "is": scripts.name_chinese(one, other)},
            characters=sorted(self.special.values(), key=lambda facts: -facts["count"]),
            mojibake=[{"mistake": name, **facts} for name, facts in self.mistakes.items()],
            lines={
                "longest": {"characters": self.longest_line[0], **shown(self.longest_line[1])},
                "overlong": long["lines"], "repeated": often,
                "breaks": self.broken["breaks"], "breaks_inside_sentences": self.broken["inside"],
            },
            duplicates=equal,
            near_duplicates=alike,
            vocabulary=self.words.facts(),
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
    from forebear.text.training import train

    return {kind: train(kind, texts, size=size) for kind, size in SIZES.items()} if texts else {}


def measure_tokenizers(texts: Sequence[str], tokenizers: Mapping[str, Tokenizer]) -> Facts:
    """How each tokenizer cuts the texts: length of tokens, what it does not know, texts that yield nothing."""
    characters = sum(map(len, texts))
    size = sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)
    facts: Facts = {}
    for name, tokenizer in tokenizers.items():
        ids, counts = tokenizer.encode_many(texts)
        missed = ids == (-1 if tokenizer.unknown is None else tokenizer.unknown)
        tokens = max(len(ids), 1)
        facts[name] = {
            "kind": tokenizer.kind, "size": tokenizer.size, "tokens": len(ids), "unknown": int(missed.sum()),
            "unknown_share": float(missed.sum() / tokens), "characters_per_token": characters / tokens,
            "bytes_per_token": size / tokens, "documents_without_tokens": int((counts == 0).sum()),
        }  # fmt: skip
        missing: Counter[str] = Counter()
        begins = np.cumsum(counts) - counts
        for number in np.unique(np.searchsorted(begins, np.flatnonzero(missed), "right") - 1)[:100]:
            text = texts[int(number)]
            pieces = tokenizer.encode(text)
            unknown = (span for span, i in zip(pieces.spans, pieces.ids, strict=True) if i == tokenizer.unknown)
            missing.update(text[begin:end] for begin, end in unknown)
        facts[name]["examples"] = [word for word, _ in missing.most_common(10)]
    return facts
