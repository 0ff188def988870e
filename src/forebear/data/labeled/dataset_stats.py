"""What labelled data holds, in one look: how many of which label, how long, what stands twice or contradicts itself."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from forebear.data.labeled.examples import (
    ChoiceExample,
    Example,
    ExampleLocation,
    LabeledExample,
    QuestionExample,
    TaggedExample,
)
from forebear.data.labeled.split import entity_kind, example_content, format_location, location_dict

FEW = 5  # examples of a label
LONG = 2000  # characters; most models see 512 tokens
SHOWN = 5  # contradictions
MANY = 20  # labels
SOME = 10  # examples, of which more than half have a label of their own: then those are no labels
What = Literal["labels", "tags", "right"]
WORDING = {"labels": "labels", "tags": "words by kind of tag", "right": "place of the right choice (the first is 1)"}


@dataclass(frozen=True)
class TextLengths:
    """How long texts are, in characters."""

    median: float
    p95: float  # 95 of 100 are not longer
    longest: int
    place: ExampleLocation | None = None  # of the longest

    @classmethod
    def from_texts(cls, lengths: array[int], place: ExampleLocation | None = None) -> TextLengths:
        if not lengths:
            return cls(0.0, 0.0, 0, place)
        numbers = np.frombuffer(lengths, dtype=np.int64)
        median, most = np.percentile(numbers, [50, 95])
        return cls(float(median), float(most), int(numbers.max()), place)

    def to_dict(self) -> dict[str, Any]:
        return {"median": self.median, "percentile_95": self.p95, "longest": self.longest}


@dataclass(frozen=True)
class DatasetSummary:
    """What there is.

    balance         label → how many examples have it; for tagging: kind → how many words; for choice: place → how often
    numbers         labels that are numbers: their least, mean, largest and deviation
    duplicates      examples that say, letter by letter, what one before them says; of questions: and ask the same
    contradictions  how many of those have another label; the first of them with both places
    names           names that more than one example bears
    answers         of questions: how long answers are, and how many questions have none
    """

    count: int
    num_unlabeled: int
    balance: dict[str, int]
    lengths: TextLengths
    long_texts: int
    duplicates: int
    contradictions: int
    contradicting: tuple[tuple[ExampleLocation, ExampleLocation], ...]
    names: int
    is_numeric: dict[str, float] | None = None
    answers: TextLengths | None = None
    unanswered: int = 0
    what: What = "labels"

    @property
    def num_labeled(self) -> int:
        return self.count - self.num_unlabeled

    @property
    def majority(self) -> float | None:
        """The share of the commonest label, which always naming it would get right; None: there are no such labels."""
        if not self.balance:
            return None
        return max(self.balance.values()) / (sum(self.balance.values()) if self.what == "tags" else self.num_labeled)

    @property
    def texts_for_labels(self) -> str:
        """That nearly every example has a label of its own, in words: then it is no label, but a text or a name."""
        single = self.what == "labels" and sum(self.balance.values()) == self.num_labeled
        if not single or self.num_labeled < SOME or 2 * len(self.balance) <= self.num_labeled:
            return ""
        return f"{len(self.balance):,} different labels in {self.num_labeled:,} rows: the label column looks like text"

    def to_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "count": self.count,
            "unlabelled": self.num_unlabeled,
            "balance": self.balance,
            "majority": self.majority,
            "characters": self.lengths.to_dict(),
            "long": self.long_texts,
            "duplicates": self.duplicates,
            "contradictions": self.contradictions,
            "contradicting": [[location_dict(one), location_dict(other)] for one, other in self.contradicting],
            "repeated_names": self.names,
        }
        if self.is_numeric is not None:
            found["numbers"] = self.is_numeric
        if self.answers is not None:
            found["answers"] = self.answers.to_dict()
            found["without_answer"] = self.unanswered / max(1, self.num_labeled)
        return found

    def notes(self) -> list[str]:
        """What a person should know, what is odd in it last."""
        unlabelled = f", {self.num_unlabeled:,} of them without a label" if self.num_unlabeled else ""
        one = self.lengths
        notes = [
            f"{self.count:,} example{'s' * (self.count != 1)}{unlabelled}; {one.median:,.0f} characters in the middle, "
            f"95 of 100 up to {one.p95:,.0f}, the longest {one.longest:,}"
        ]
        if self.balance and not self.texts_for_labels:
            shown = [f"{label} {count:,}" for label, count in list(self.balance.items())[:MANY]]
            more = f", and {len(self.balance) - MANY} more" if len(self.balance) > MANY else ""
            notes.append(f"{WORDING[self.what]}: {', '.join(shown)}{more}")
        if self.is_numeric is not None:
            notes.append(
                "labels are numbers from {least:g} to {largest:g}, {mean:.3g} on average".format(**self.is_numeric)
            )
        if self.answers is not None:
            one = self.answers
            notes.append(
                f"answers have {one.median:,.0f} characters in the middle, the longest {one.longest:,}; "
                f"{_many(self.unanswered, 'question has', 'questions have')} no answer"
            )
        return [*notes, *self.warnings()]

    def warnings(self) -> list[str]:
        """What may spoil training or its figures."""
        found: list[str] = []
        if len(self.balance) == 1:
            one = next(iter(self.balance))
            only = f"choice number {one} always is the right one" if self.what == "right" else f"all are {one!r}"
            found.append(f"{only}: nothing can be learned from it")
        if looks := self.texts_for_labels:
            found.append(f"{looks}; name that of the labels with --label-column")
        found += self._alike()
        rare = [label for label, count in self.balance.items() if count < FEW and self.what != "right"]
        if rare and not looks:
            shown = ", ".join(map(repr, rare[:MANY])) + (f" and {len(rare) - MANY} more" if len(rare) > MANY else "")
            found.append(f"fewer than {FEW} {'words' if self.what == 'tags' else 'examples'} of {shown}")
        if self.contradictions:
            one, other = self.contradicting[0]
            found.append(
                f"{_many(self.contradictions, 'example contradicts', 'examples contradict')} an earlier one"
                " that says the same; "
                f"the first: {format_location(other)} and {format_location(one)}"
            )
        if self.duplicates:
            found.append(f"{_many(self.duplicates, 'example says', 'examples say')} the same as an earlier one")
        if self.names:
            found.append(f"{_many(self.names, 'name (id) is', 'names (ids) are')} borne by more than one example")
        if self.long_texts:
            where = f", the longest at {format_location(self.lengths.place)}" if self.lengths.place else ""
            found.append(
                f"{self.long_texts:,} texts have more than {LONG:,} characters{where}: most models cannot see so far"
            )
        return found

    def _alike(self) -> list[str]:
        """Labels that differ only in case, or in the space around them."""
        ways: dict[str, list[str]] = {}
        for label in self.balance if self.what == "labels" and not self.texts_for_labels else ():
            ways.setdefault(" ".join(label.casefold().split()), []).append(label)
        alike = [" and ".join(map(repr, found)) for found in ways.values() if len(found) > 1]
        more = f"; and {len(alike) - SHOWN} more" if len(alike) > SHOWN else ""
        return [f"labels that differ only in case are different labels: {'; '.join(alike[:SHOWN])}{more}"] * bool(alike)


def _many(count: int, one: str, several: str) -> str:
    return f"{count:,} {one if count == 1 else several}"


def summarize_dataset(examples: Iterable[Example]) -> DatasetSummary:
    """Looks at every example once; remembers a hash, the label and the place of each."""
    tally = _DatasetCounter()
    for example in examples:
        tally.add(example)
    return tally.survey()


class _DatasetCounter:
    """What has been seen so far."""

    def __init__(self) -> None:
        self.count = self.unlabelled = self.duplicates = self.contradictions = self.unanswered = 0
        self.balance: Counter[str] = Counter()
        self.lengths, self.answers, self.numbers = array("q"), array("q"), array("d")
        self.longest, self.longest_place = -1, None
        self.seen: dict[int, tuple[Any, ExampleLocation]] = {}
        self.names: Counter[str] = Counter()
        self.contradicting: list[tuple[ExampleLocation, ExampleLocation]] = []
        self.what: What = "labels"
        self.asks = False

    def add(self, example: Example) -> None:
        self.count += 1
        length = sum(map(len, example_content(example))) + (
            len(example.question) if isinstance(example, QuestionExample) else 0
        )
        self.lengths.append(length)
        if length > self.longest:
            self.longest, self.longest_place = length, example.place
        if example.place.name is not None:
            self.names[example.place.name] += 1
        label = self._label(example)
        if label is None:
            self.unlabelled += 1
        self._compare(example, label)

    def _label(self, example: Example) -> Any:
        """Counts the label, and gives back what can be compared with another one; None where there is none."""
        if isinstance(example, LabeledExample):
            label = example.label
            if isinstance(label, str):
                self.balance[label] += 1
            elif isinstance(label, tuple):
                self.balance.update(label)
                return frozenset(label)
            elif label is not None:
                self.numbers.append(label)
            return label
        if isinstance(example, TaggedExample):
            self.what = "tags"
            if example.tags is not None:
                self.balance.update(map(entity_kind, example.tags))
            return example.tags
        if isinstance(example, ChoiceExample):
            self.what = "right"
            if example.right is not None:
                self.balance[str(example.right + 1)] += 1
            return example.right
        return self._answer(example)

    def _answer(self, example: QuestionExample) -> frozenset[str] | None:
        self.asks = True
        if example.answers is None:
            return None
        self.unanswered += not example.answers
        self.answers.extend(len(span.text) for span in example.answers)
        return frozenset(span.text for span in example.answers)

    def _compare(self, example: Example, label: Any) -> None:
        """With the first example that says the same."""
        said = (
            (*example_content(example), example.question)
            if isinstance(example, QuestionExample)
            else example_content(example)
        )
        key = hash(said)
        if (first := self.seen.get(key)) is None:
            self.seen[key] = label, example.place
            return
        self.duplicates += 1
        if label is not None and first[0] is not None and self._differ(first[0], label):
            self.contradictions += 1
            if len(self.contradicting) < SHOWN:
                self.contradicting.append((first[1], example.place))

    def _differ(self, one: Any, other: Any) -> bool:
        """Two people find an answer in other words; they contradict each other where they share none."""
        return bool(one or other) and one.isdisjoint(other) if self.asks else one != other

    def survey(self) -> DatasetSummary:
        numbers = None
        if self.numbers:
            found = np.frombuffer(self.numbers, dtype=np.float64)
            told = {"least": found.min(), "mean": found.mean(), "largest": found.max(), "deviation": found.std()}
            numbers = {name: float(value) for name, value in told.items()}
        return DatasetSummary(
            count=self.count,
            num_unlabeled=self.unlabelled,
            balance=dict(sorted(self.balance.items(), key=lambda item: (-item[1], item[0]))),
            lengths=TextLengths.from_texts(self.lengths, self.longest_place),
            long_texts=sum(length > LONG for length in self.lengths),
            duplicates=self.duplicates,
            contradictions=self.contradictions,
            contradicting=tuple(self.contradicting),
            names=sum(count > 1 for count in self.names.values()),
            is_numeric=numbers,
            answers=TextLengths.from_texts(self.answers) if self.asks else None,
            unanswered=self.unanswered,
            what=self.what,
        )
