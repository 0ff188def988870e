"""Statistics of labeled data: class counts, text lengths, duplicates and conflicting labels."""

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

MIN_LABEL_COUNT = 5  # examples of a label
LONG_TEXT = 2000  # characters; most models see 512 tokens
MAX_SHOWN = 5  # contradictions
MAX_SHOWN_LABELS = 20  # labels
MIN_ROWS_FOR_LABEL_CHECK = 10  # examples, of which more than half have a label of their own: then those are no labels
LabelType = Literal["labels", "tags", "right"]
LABEL_TYPE_TEXT = {
    "labels": "labels",
    "tags": "words by kind of tag",
    "right": "place of the right choice (the first is 1)",
}


@dataclass(frozen=True)
class TextLengths:
    """Text lengths in characters."""

    median: float
    p95: float  # 95th percentile
    max_length: int
    location: ExampleLocation | None = None  # of the longest

    @classmethod
    def from_texts(cls, lengths: array[int], place: ExampleLocation | None = None) -> TextLengths:
        if not lengths:
            return cls(0.0, 0.0, 0, place)
        numbers = np.frombuffer(lengths, dtype=np.int64)
        median, p95 = np.percentile(numbers, [50, 95])
        return cls(float(median), float(p95), int(numbers.max()), place)

    def to_dict(self) -> dict[str, Any]:
        return {"median": self.median, "percentile_95": self.p95, "longest": self.max_length}


@dataclass(frozen=True)
class DatasetSummary:
    """Statistics of one split.

    Attributes:
        count: Number of examples.
        num_unlabeled: Number of examples without label.
        balance: Label → number of examples; tagging: entity type → number of words; choice: right choice → number.
        lengths: Lengths of texts.
        long_texts: Number of texts above LONG characters.
        duplicates: Examples with exactly the content of an earlier one (for questions: and the same question).
        contradictions: Duplicates with another label.
        contradicting: Locations of the first of them.
        names: Number of ids that several examples share.
        is_numeric: Minimum, mean, maximum and standard deviation of numeric labels.
        answers: Lengths of gold answers.
        unanswered: Number of unanswerable questions.
        what: What `balance` counts.
    """

    count: int
    num_unlabeled: int
    balance: dict[str, int]
    lengths: TextLengths
    long_texts: int
    duplicates: int
    contradictions: int
    contradiction_locations: tuple[tuple[ExampleLocation, ExampleLocation], ...]
    num_repeated_names: int
    number_stats: dict[str, float] | None = None
    answers: TextLengths | None = None
    num_unanswered: int = 0
    label_type: LabelType = "labels"

    @property
    def num_labeled(self) -> int:
        return self.count - self.num_unlabeled

    @property
    def majority(self) -> float | None:
        """The accuracy of the majority-class baseline; None without class labels."""
        if not self.balance:
            return None
        return max(self.balance.values()) / (
            sum(self.balance.values()) if self.label_type == "tags" else self.num_labeled
        )

    @property
    def text_label_warning(self) -> str:
        """A warning if most examples have a distinct label (the column is probably text or ids); else ""."""
        is_single_label = self.label_type == "labels" and sum(self.balance.values()) == self.num_labeled
        if (
            not is_single_label
            or self.num_labeled < MIN_ROWS_FOR_LABEL_CHECK
            or 2 * len(self.balance) <= self.num_labeled
        ):
            return ""
        return f"{len(self.balance):,} different labels in {self.num_labeled:,} rows: the label column looks like text"

    def to_dict(self) -> dict[str, Any]:
        summary: dict[str, Any] = {
            "count": self.count,
            "unlabelled": self.num_unlabeled,
            "balance": self.balance,
            "majority": self.majority,
            "characters": self.lengths.to_dict(),
            "long": self.long_texts,
            "duplicates": self.duplicates,
            "contradictions": self.contradictions,
            "contradicting": [
                [location_dict(first), location_dict(second)] for first, second in self.contradiction_locations
            ],
            "repeated_names": self.num_repeated_names,
        }
        if self.number_stats is not None:
            summary["numbers"] = self.number_stats
        if self.answers is not None:
            summary["answers"] = self.answers.to_dict()
            summary["without_answer"] = self.num_unanswered / max(1, self.num_labeled)
        return summary

    def notes(self) -> list[str]:
        """Notes for the user, warnings last."""
        unlabeled_text = f", {self.num_unlabeled:,} of them without a label" if self.num_unlabeled else ""
        lengths = self.lengths
        notes = [
            f"{self.count:,} example{'s' * (self.count != 1)}{unlabeled_text}; "
            f"{lengths.median:,.0f} characters in the middle, "
            f"95 of 100 up to {lengths.p95:,.0f}, the longest {lengths.max_length:,}"
        ]
        if self.balance and not self.text_label_warning:
            label_counts = [f"{label} {count:,}" for label, count in list(self.balance.items())[:MAX_SHOWN_LABELS]]
            more = f", and {len(self.balance) - MAX_SHOWN_LABELS} more" if len(self.balance) > MAX_SHOWN_LABELS else ""
            notes.append(f"{LABEL_TYPE_TEXT[self.label_type]}: {', '.join(label_counts)}{more}")
        if self.number_stats is not None:
            notes.append(
                "labels are numbers from {least:g} to {largest:g}, {mean:.3g} on average".format(**self.number_stats)
            )
        if self.answers is not None:
            lengths = self.answers
            notes.append(
                f"answers have {lengths.median:,.0f} characters in the middle, the longest {lengths.max_length:,}; "
                f"{_count_text(self.num_unanswered, 'question has', 'questions have')} no answer"
            )
        return [*notes, *self.warnings()]

    def warnings(self) -> list[str]:
        """Warnings about data that may harm training or evaluation."""
        warnings: list[str] = []
        if len(self.balance) == 1:
            only_label = next(iter(self.balance))
            message = (
                f"choice number {only_label} always is the right one"
                if self.label_type == "right"
                else f"all are {only_label!r}"
            )
            warnings.append(f"{message}: nothing can be learned from it")
        if label_warning := self.text_label_warning:
            warnings.append(f"{label_warning}; name that of the labels with --label-column")
        warnings += self._similar_labels()
        rare = [
            label for label, count in self.balance.items() if count < MIN_LABEL_COUNT and self.label_type != "right"
        ]
        if rare and not label_warning:
            rare_text = ", ".join(map(repr, rare[:MAX_SHOWN_LABELS])) + (
                f" and {len(rare) - MAX_SHOWN_LABELS} more" if len(rare) > MAX_SHOWN_LABELS else ""
            )
            warnings.append(
                f"fewer than {MIN_LABEL_COUNT} {'words' if self.label_type == 'tags' else 'examples'} of {rare_text}"
            )
        if self.contradictions:
            only_label, repeat = self.contradiction_locations[0]
            warnings.append(
                f"{_count_text(self.contradictions, 'example contradicts', 'examples contradict')} an earlier one"
                " that says the same; "
                f"the first: {format_location(repeat)} and {format_location(only_label)}"
            )
        if self.duplicates:
            warnings.append(
                f"{_count_text(self.duplicates, 'example says', 'examples say')} the same as an earlier one"
            )
        if self.num_repeated_names:
            warnings.append(
                f"{_count_text(self.num_repeated_names, 'name (id) is', 'names (ids) are')} borne by more than one"
                " example"
            )
        if self.long_texts:
            where = f", the longest at {format_location(self.lengths.location)}" if self.lengths.location else ""
            warnings.append(
                f"{self.long_texts:,} texts have more than {LONG_TEXT:,} characters{where}: most models cannot see so"
                " far"
            )
        return warnings

    def _similar_labels(self) -> list[str]:
        """Warnings about labels that differ only in case or white space."""
        variants: dict[str, list[str]] = {}
        for label in self.balance if self.label_type == "labels" and not self.text_label_warning else ():
            variants.setdefault(" ".join(label.casefold().split()), []).append(label)
        similar = [" and ".join(map(repr, labels)) for labels in variants.values() if len(labels) > 1]
        more = f"; and {len(similar) - MAX_SHOWN} more" if len(similar) > MAX_SHOWN else ""
        return [f"labels that differ only in case are different labels: {'; '.join(similar[:MAX_SHOWN])}{more}"] * bool(
            similar
        )


def _count_text(count: int, one: str, several: str) -> str:
    return f"{count:,} {one if count == 1 else several}"


def summarize_dataset(examples: Iterable[Example]) -> DatasetSummary:
    """Compute statistics in one pass; a hash, the label and the location of each example are kept."""
    tally = _DatasetCounter()
    for example in examples:
        tally.add(example)
    return tally.summarize()


class _DatasetCounter:
    """Accumulates statistics example by example."""

    def __init__(self) -> None:
        self.count = self.unlabelled = self.duplicates = self.contradictions = self.unanswered = 0
        self.balance: Counter[str] = Counter()
        self.lengths, self.answers, self.numbers = array("q"), array("q"), array("d")
        self.longest, self.longest_place = -1, None
        self.seen: dict[int, tuple[Any, ExampleLocation]] = {}
        self.names: Counter[str] = Counter()
        self.contradicting: list[tuple[ExampleLocation, ExampleLocation]] = []
        self.what: LabelType = "labels"
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
        """Count the label, and return a comparable form of it; None if unlabeled."""
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
        """Compare the label with that of the first example of equal content."""
        content = (
            (*example_content(example), example.question)
            if isinstance(example, QuestionExample)
            else example_content(example)
        )
        key = hash(content)
        if (first := self.seen.get(key)) is None:
            self.seen[key] = label, example.place
            return
        self.duplicates += 1
        if label is not None and first[0] is not None and self._differ(first[0], label):
            self.contradictions += 1
            if len(self.contradicting) < MAX_SHOWN:
                self.contradicting.append((first[1], example.place))

    def _differ(self, first: Any, second: Any) -> bool:
        """Whether labels conflict; answer sets conflict only if they share no answer."""
        return bool(first or second) and first.isdisjoint(second) if self.asks else first != second

    def summarize(self) -> DatasetSummary:
        numbers = None
        if self.numbers:
            values = np.frombuffer(self.numbers, dtype=np.float64)
            stats = {"least": values.min(), "mean": values.mean(), "largest": values.max(), "deviation": values.std()}
            numbers = {name: float(value) for name, value in stats.items()}
        return DatasetSummary(
            count=self.count,
            num_unlabeled=self.unlabelled,
            balance=dict(sorted(self.balance.items(), key=lambda item: (-item[1], item[0]))),
            lengths=TextLengths.from_texts(self.lengths, self.longest_place),
            long_texts=sum(length > LONG_TEXT for length in self.lengths),
            duplicates=self.duplicates,
            contradictions=self.contradictions,
            contradiction_locations=tuple(self.contradicting),
            num_repeated_names=sum(count > 1 for count in self.names.values()),
            number_stats=numbers,
            answers=TextLengths.from_texts(self.answers) if self.asks else None,
            num_unanswered=self.unanswered,
            label_type=self.what,
        )
