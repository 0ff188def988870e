"""Statistics of labeled data: class counts, text lengths, duplicates and conflicting labels."""

from __future__ import annotations

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
    example_content,
    example_labels,
)
from forebear.data.labeled.split import format_location, location_dict
from forebear.data.labeled.tag_schemes import entity_type
from forebear.errors import join_errors

MIN_LABEL_COUNT = 5  # examples of a label; fewer give a warning
LONG_TEXT = 2000  # characters; most models see 512 tokens
MAX_SHOWN_CONFLICTS, MAX_SHOWN_LABELS = 5, 20
MIN_ROWS_FOR_LABEL_CHECK = 10  # examples; if more than half of them have distinct labels, these are probably text
LabelType = Literal["labels", "tags", "choice"]
LABEL_TYPE_TEXT = {
    "labels": "labels", "tags": "words by kind of tag", "choice": "place of the right choice (the first is 1)",
}  # fmt: skip


@dataclass(frozen=True)
class TextLengths:
    """Text lengths in characters."""

    median: float
    p95: float  # 95th percentile
    max_length: int
    location: ExampleLocation | None = None  # of the longest

    @classmethod
    def from_lengths(cls, lengths: list[int], location: ExampleLocation | None = None) -> TextLengths:
        if not lengths:
            return cls(0.0, 0.0, 0, location)
        median, p95 = np.percentile(lengths, [50, 95])
        return cls(float(median), float(p95), max(lengths), location)

    def to_dict(self) -> dict[str, Any]:
        return {"median": self.median, "percentile_95": self.p95, "longest": self.max_length}


@dataclass(frozen=True)
class DatasetSummary:
    """Statistics of one split."""

    count: int
    num_unlabeled: int
    label_counts: dict[
        str, int
    ]  # examples of each label; tagging: words of each entity type; choice: of each right choice
    lengths: TextLengths
    long_texts: int  # texts above LONG_TEXT characters
    duplicates: int  # examples with exactly the content of an earlier one (for questions: and the same question)
    label_conflicts: int  # duplicates with another label
    conflict_locations: tuple[tuple[ExampleLocation, ExampleLocation], ...]  # of the first of them
    num_duplicate_ids: int  # ids that several examples share
    number_stats: dict[str, float] | None = None  # minimum, mean, maximum and standard deviation of numeric labels
    answers: TextLengths | None = None  # of gold answers
    num_unanswered: int = 0  # unanswerable questions
    label_type: LabelType = "labels"  # what `label_counts` counts

    @property
    def num_labeled(self) -> int:
        return self.count - self.num_unlabeled

    @property
    def majority_accuracy(self) -> float | None:
        """The accuracy of the majority-class baseline; None without class labels."""
        if not self.label_counts:
            return None
        total = sum(self.label_counts.values()) if self.label_type == "tags" else self.num_labeled
        return max(self.label_counts.values()) / total

    @property
    def text_label_warning(self) -> str:
        """A warning if most examples have a distinct label (the column is probably text or ids); else ""."""
        is_single_label = self.label_type == "labels" and sum(self.label_counts.values()) == self.num_labeled
        are_distinct = 2 * len(self.label_counts) > self.num_labeled >= MIN_ROWS_FOR_LABEL_CHECK
        if not (is_single_label and are_distinct):
            return ""
        counts_text = f"{len(self.label_counts):,} different labels in {self.num_labeled:,} rows"
        return f"{counts_text}: the label column looks like text"

    def to_dict(self) -> dict[str, Any]:
        summary: dict[str, Any] = {
            "count": self.count, "unlabelled": self.num_unlabeled,
            "balance": self.label_counts, "majority": self.majority_accuracy, "characters": self.lengths.to_dict(),
            "long": self.long_texts, "duplicates": self.duplicates, "contradictions": self.label_conflicts,
            "contradicting": [[*map(location_dict, pair)] for pair in self.conflict_locations],
            "repeated_names": self.num_duplicate_ids,
        }  # fmt: skip
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
        quantiles = f"{lengths.median:,.0f} characters in the middle, 95 of 100 up to {lengths.p95:,.0f}"
        examples = f"{self.count:,} example{'s' * (self.count != 1)}{unlabeled_text}"
        notes = [f"{examples}; {quantiles}, the longest {lengths.max_length:,}"]
        if self.label_counts and not self.text_label_warning:
            shown_counts = [f"{label} {count:,}" for label, count in list(self.label_counts.items())[:MAX_SHOWN_LABELS]]
            more = (
                f", and {len(self.label_counts) - MAX_SHOWN_LABELS} more"
                if len(self.label_counts) > MAX_SHOWN_LABELS
                else ""
            )
            notes.append(f"{LABEL_TYPE_TEXT[self.label_type]}: {', '.join(shown_counts)}{more}")
        if self.number_stats is not None:
            template = "labels are numbers from {least:g} to {largest:g}, {mean:.3g} on average"
            notes.append(template.format(**self.number_stats))
        if self.answers is not None:
            quantiles = f"{self.answers.median:,.0f} characters in the middle, the longest {self.answers.max_length:,}"
            unanswered = _count_text(self.num_unanswered, "question has", "questions have")
            notes.append(f"answers have {quantiles}; {unanswered} no answer")
        return [*notes, *self.warnings()]

    def warnings(self) -> list[str]:
        """Warnings about data that may harm training or evaluation."""
        warnings: list[str] = []
        if len(self.label_counts) == 1:
            only_label = next(iter(self.label_counts))
            description = f"all are {only_label!r}"
            if self.label_type == "choice":
                description = f"choice number {only_label} always is the right one"
            warnings.append(f"{description}: nothing can be learned from it")
        if label_warning := self.text_label_warning:
            warnings.append(f"{label_warning}; name that of the labels with --label-column")
        elif self.label_type == "labels":  # labels that differ only in case or white space
            variants: dict[str, list[str]] = {}
            for label in self.label_counts:
                variants.setdefault(" ".join(label.casefold().split()), []).append(label)
            if similar := [" and ".join(map(repr, labels)) for labels in variants.values() if len(labels) > 1]:
                different = join_errors(similar, MAX_SHOWN_CONFLICTS)
                warnings.append(f"labels that differ only in case are different labels: {different}")
        rare = [label for label, count in self.label_counts.items() if count < MIN_LABEL_COUNT]
        if rare and self.label_type != "choice" and not label_warning:
            more = f" and {len(rare) - MAX_SHOWN_LABELS} more" if len(rare) > MAX_SHOWN_LABELS else ""
            rare_text = ", ".join(map(repr, rare[:MAX_SHOWN_LABELS])) + more
            unit = "words" if self.label_type == "tags" else "examples"
            warnings.append(f"fewer than {MIN_LABEL_COUNT} {unit} of {rare_text}")
        if self.label_conflicts:
            first, repeat = map(format_location, self.conflict_locations[0])
            count = _count_text(self.label_conflicts, "example contradicts", "examples contradict")
            warnings.append(f"{count} an earlier one that says the same; the first: {repeat} and {first}")
        if self.duplicates:
            count = _count_text(self.duplicates, "example says", "examples say")
            warnings.append(f"{count} the same as an earlier one")
        if self.num_duplicate_ids:
            count = _count_text(self.num_duplicate_ids, "name (id) is", "names (ids) are")
            warnings.append(f"{count} borne by more than one example")
        if self.long_texts:
            location = self.lengths.location
            location_text = f", the longest at {format_location(location)}" if location else ""
            size = f"{self.long_texts:,} texts have more than {LONG_TEXT:,} characters"
            warnings.append(f"{size}{location_text}: most models cannot see so far")
        return warnings


def _count_text(count: int, singular: str, plural: str) -> str:
    return f"{count:,} {singular if count == 1 else plural}"


def summarize_dataset(examples: Iterable[Example]) -> DatasetSummary:
    """Compute the statistics of examples of one kind."""
    example_list = list(examples)
    kind = type(example_list[0]) if example_list else None
    labels = list(map(_comparable_label, example_list))
    lengths = [sum(map(len, _compared_texts(example))) for example in example_list]
    longest = example_list[lengths.index(max(lengths))].location if lengths else None
    label_counts = Counter(label for example in example_list for label in _counted_labels(example))
    numbers = np.array([label for label in labels if isinstance(label, float)])
    stats = {"least": np.min, "mean": np.mean, "largest": np.max, "deviation": np.std}
    answers = [span.text for example in example_list if kind is QuestionExample for span in example.answers or ()]  # pyright: ignore[reportAttributeAccessIssue]
    names = Counter(example.location.name for example in example_list if example.location.name is not None)
    num_duplicates, conflicts = _find_duplicates(example_list, labels)
    return DatasetSummary(
        count=len(example_list),
        num_unlabeled=labels.count(None),
        label_counts=dict(sorted(label_counts.items(), key=lambda item: (-item[1], item[0]))),
        lengths=TextLengths.from_lengths(lengths, longest),
        long_texts=sum(length > LONG_TEXT for length in lengths),
        duplicates=num_duplicates,
        label_conflicts=len(conflicts),
        conflict_locations=tuple(conflicts[:MAX_SHOWN_CONFLICTS]),
        num_duplicate_ids=sum(count > 1 for count in names.values()),
        number_stats={name: float(stat(numbers)) for name, stat in stats.items()} if len(numbers) else None,
        answers=TextLengths.from_lengths(list(map(len, answers))) if kind is QuestionExample else None,
        num_unanswered=labels.count(frozenset()) if kind is QuestionExample else 0,
        label_type="tags" if kind is TaggedExample else "choice" if kind is ChoiceExample else "labels",
    )


def _comparable_label(example: Example) -> Any:
    """The label, or several labels or answers without order; None if unlabeled."""
    match example:
        case LabeledExample(label=label):
            return frozenset(label) if isinstance(label, tuple) else label
        case TaggedExample(tags=tags):
            return tags
        case ChoiceExample(answer_index=answer_index):
            return answer_index
        case QuestionExample(answers=answers):
            return None if answers is None else frozenset(span.text for span in answers)


def _counted_labels(example: Example) -> Iterable[str]:
    """The labels of an example that `label_counts` counts."""
    if isinstance(example, TaggedExample):
        return map(entity_type, example.tags or ())
    if isinstance(example, ChoiceExample):
        return () if example.answer_index is None else (str(example.answer_index + 1),)
    return example_labels(example)


def _compared_texts(example: Example) -> tuple[str, ...]:
    """The texts that are equal in duplicates."""
    content = example_content(example)
    return (*content, example.question) if isinstance(example, QuestionExample) else content


def _find_duplicates(
    examples: list[Example], labels: list[Any]
) -> tuple[int, list[tuple[ExampleLocation, ExampleLocation]]]:
    """The number of examples whose texts occurred before, and the locations of those with conflicting labels."""
    first_examples: dict[int, tuple[Any, ExampleLocation]] = {}
    num_duplicates, conflicts = 0, []
    for example, label in zip(examples, labels, strict=True):
        key = hash(_compared_texts(example))
        if key not in first_examples:
            first_examples[key] = label, example.location
            continue
        num_duplicates += 1
        first_label, first_location = first_examples[key]
        if label is None or first_label is None:
            continue
        if isinstance(example, QuestionExample):  # answers conflict only if none is shared
            is_conflict = bool(first_label or label) and first_label.isdisjoint(label)
        else:
            is_conflict = first_label != label
        if is_conflict:
            conflicts.append((first_location, example.location))
    return num_duplicates, conflicts
