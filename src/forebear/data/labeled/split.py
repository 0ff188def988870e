"""Train/dev/test split and sampling by content, so that equal texts stay together, and leakage between splits."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from forebear.data.labeled.examples import (
    ChoiceExample,
    Example,
    ExampleLocation,
    LabeledExample,
    QuestionExample,
    TaggedExample,
    example_content,
    example_labels,
    normalized_content,
)
from forebear.errors import InputError

SPLIT_NAMES = ("train", "dev", "test")
MAX_LOCATIONS = 5  # of overlapping examples, listed with a leakage
RANK_RANGE = 1 << 64


@dataclass(frozen=True)
class ExampleSplit:
    """The examples of each split in their original order, with notes on what had to be moved."""

    train: list[Example]
    dev: list[Example]
    test: list[Example]
    notes: list[str]


@dataclass(frozen=True)
class SplitLeakage:
    """How many test examples have a text that is also in the training data, exactly or up to case and white space."""

    count: int
    num_exact: int
    num_normalized: int  # up to case and white space, exact ones included
    locations: tuple[tuple[ExampleLocation, ExampleLocation], ...]  # first pairs: in test, in train
    description: str = "text"

    def to_dict(self) -> dict[str, Any]:
        locations = [{"test": location_dict(test), "train": location_dict(train)} for test, train in self.locations]
        counts = {"count": self.count, "exact": self.num_exact, "folded": self.num_normalized}
        return {"of": self.description, **counts, "places": locations}

    def __str__(self) -> str:
        if not self.num_normalized:
            examples = f"{self.count:,} example{'s' * (self.count != 1)}"
            return f"no {self.description} of {examples} is in the training data too"
        count_text = f"{self.num_normalized:,} of {self.count:,} examples ({self.num_normalized / self.count:.1%})"
        first_test, first_train = map(format_location, self.locations[0])
        return (
            f"{count_text} have a {self.description} that is in the training data too, "
            f"{self.num_exact:,} letter by letter; the first: {first_test}, as in {first_train}"
        )


def location_dict(location: ExampleLocation) -> dict[str, Any]:
    fields = {"file": location.file, "line": location.line, "name": location.name}
    return {name: value for name, value in fields.items() if value is not None}


def format_location(location: ExampleLocation) -> str:
    position = f"{location.file or ''}:{location.line}" if location.line is not None else location.file or "an example"
    return f"{position} {location.name}" if location.name is not None else position


def split_examples(examples: Iterable[Example], *, dev: float = 0.1, test: float = 0.0, seed: int = 0) -> ExampleSplit:
    """Assign each example to a split by a hash of its content: equal content stays together, also when rows are added.

    A split that would be empty gets the contents nearest to it, if there are enough; training gets at least one
    example of every label. Both are reported in the notes.
    """
    if not (0 <= dev < 1 and 0 <= test < 1 and dev + test < 1):
        hint = "give shares such as 0.1, which leave something to train on"
        raise InputError(f"the shares are {dev:g} for dev and {test:g} for test", hint=hint)
    example_list = list(examples)
    ranks = [_content_rank(example, seed) for example in example_list]
    fractions = {0: 1 - dev - test, 1: dev, 2: test}
    test_bound, dev_bound = round(test * RANK_RANGE), round((test + dev) * RANK_RANGE)
    split_of_rank = {rank: 2 if rank < test_bound else 1 if rank < dev_bound else 0 for rank in ranks}
    notes: list[str] = []
    present = set(split_of_rank.values())
    if split_of_rank and any(fraction and split_index not in present for split_index, fraction in fractions.items()):
        _split_few_contents(split_of_rank, {1: dev, 2: test}, notes)
    _cover_labels(split_of_rank, ranks, [example_labels(example) for example in example_list], notes)
    splits: tuple[list[Example], ...] = ([], [], [])
    for rank, example in zip(ranks, example_list, strict=True):
        splits[split_of_rank[rank]].append(example)
    return ExampleSplit(*splits, notes)


def _content_rank(example: Example, seed: int) -> int:
    """A number below RANK_RANGE that depends only on content and seed; the lowest ranks go to test."""
    data = f"{seed}\0{normalized_content(example)}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest())


def _split_few_contents(split_of_rank: dict[int, int], fractions: dict[int, float], notes: list[str]) -> None:
    """Split few contents by rank order, so that each requested split has one, dev before test."""
    num_contents = len(split_of_rank)
    counts = {index: max(1, round(fraction * num_contents)) for index, fraction in fractions.items() if fraction}
    while sum(counts.values()) >= num_contents and any(counts.values()):
        largest = max(counts, key=lambda index: (counts[index], index))
        counts[largest] -= 1
    num_test = counts.get(2, 0)
    for position, rank in enumerate(sorted(split_of_rank)):
        split_of_rank[rank] = 2 if position < num_test else 1 if position < num_test + counts.get(1, 0) else 0
    description = f"{num_contents} different text{'s' * (num_contents != 1)}"
    empty_names = [SPLIT_NAMES[index] for index, count in counts.items() if not count]
    if len(empty_names) < len(counts):
        notes.append(f"there are only {description}: they were divided by rank, so that no side is empty by chance")
    if empty_names:
        notes.append(f"there are only {description}: nothing is left for {' and '.join(empty_names)}")


def _cover_labels(
    split_of_rank: dict[int, int], ranks: list[int], labels: list[tuple[str, ...]], notes: list[str]
) -> None:
    """Move one content of each missing label to training, and refill a dev or test split that becomes empty."""
    train_labels = set[str]().union(
        *(row_labels for rank, row_labels in zip(ranks, labels, strict=True) if split_of_rank[rank] == 0)
    )
    rank_of_label: dict[str, int] = {}
    for rank, row_labels in zip(ranks, labels, strict=True):
        for label in row_labels:
            if label not in train_labels:
                rank_of_label[label] = max(rank, rank_of_label.get(label, -1))
    if not rank_of_label:
        return
    labels_of_rank: dict[int, set[str]] = {rank: set() for rank in split_of_rank}
    for rank, row_labels in zip(ranks, labels, strict=True):
        labels_of_rank[rank].update(row_labels)
    previous_splits = set(split_of_rank.values())
    for label, rank in rank_of_label.items():
        if label not in train_labels:  # otherwise it was moved together with another label
            only_split = SPLIT_NAMES[split_of_rank[rank]]
            notes.append(f"the label {label!r} was only in {only_split}: a text with it was moved to train")
            split_of_rank[rank] = 0
            train_labels |= labels_of_rank[rank]
    for split_index in sorted(previous_splits - set(split_of_rank.values())):
        train_ranks = [rank for rank, split in split_of_rank.items() if split == 0]
        counts = Counter(label for rank in train_ranks for label in labels_of_rank[rank])
        movable = [rank for rank in train_ranks if all(counts[label] > 1 for label in labels_of_rank[rank])]
        if movable:
            split_of_rank[min(movable)] = split_index
        else:
            notes.append(f"nothing is left for {SPLIT_NAMES[split_index]}: training needs all texts for its labels")


def split_leakage(train: Iterable[Example], test: Iterable[Example]) -> SplitLeakage:
    """Count the examples of `test` whose content is also in `train`."""
    exact: dict[tuple[str, ...], ExampleLocation] = {}
    normalized: dict[int, ExampleLocation] = {}
    for example in train:
        exact.setdefault(example_content(example), example.location)
        normalized.setdefault(hash(normalized_content(example)), example.location)
    count = num_exact = num_normalized = 0
    content_type = "text"
    locations: list[tuple[ExampleLocation, ExampleLocation]] = []
    for example in test:
        count += 1
        content_type = "passage" if isinstance(example, QuestionExample) else content_type
        train_location = exact.get(example_content(example))
        num_exact += train_location is not None
        train_location = train_location or normalized.get(hash(normalized_content(example)))
        if train_location is not None:
            num_normalized += 1
            if len(locations) < MAX_LOCATIONS:
                locations.append((example.location, train_location))
    return SplitLeakage(count, num_exact, num_normalized, tuple(locations), content_type)


# For each class, a fixed name and the fields that are hashed by value: renaming a class or field changes no hash.
HASHED_FIELDS: dict[type[Example], tuple[str, ...]] = {
    LabeledExample: ("labeled", "texts", "label"),
    TaggedExample: ("tagged", "words", "tags"),
    QuestionExample: ("question", "question", "passage", "answers"),
    ChoiceExample: ("choices", "text", "choices", "answer_index"),
}


def _content_hash(example: Example) -> bytes:
    class_name, *names = HASHED_FIELDS[type(example)]
    values = [getattr(example, name) for name in names]
    if isinstance(example, QuestionExample) and example.answers is not None:
        values[-1] = tuple((span.start, span.text) for span in example.answers)
    return hashlib.blake2b(repr((class_name, *values)).encode("utf-8", "replace"), digest_size=8).digest()


def sample_by_content(examples: list[Any], fraction: float) -> list[Any]:
    """A fraction of the examples, at least two, sampled by content: a larger fraction includes a smaller one."""
    return sorted(examples, key=_content_hash)[: max(2, round(fraction * len(examples)))]
