"""Examples divided into train, dev and test so that what says the same stays on one side; and leaks between them."""

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
)
from forebear.errors import InputError

SIDES = ("train", "dev", "test")
SHOWN = 5  # places
RANKS = 1 << 64


@dataclass(frozen=True)
class ExampleSplit:
    """The examples of each side in their order, and what had to be done, in sentences for people."""

    train: list[Example]
    dev: list[Example]
    test: list[Example]
    notes: list[str]


@dataclass(frozen=True)
class SplitLeakage:
    """How many examples that examine have a text that also teaches: letter by letter, or but for case and space."""

    count: int
    num_exact: int
    folded: int  # those among them included
    locations: tuple[tuple[ExampleLocation, ExampleLocation], ...]  # first ones: where it examines, where it teaches
    description: str = "text"

    def to_dict(self) -> dict[str, Any]:
        places = [{"test": location_dict(one), "train": location_dict(other)} for one, other in self.locations]
        return {
            "of": self.description,
            "count": self.count,
            "exact": self.num_exact,
            "folded": self.folded,
            "places": places,
        }

    def __str__(self) -> str:
        if not self.folded:
            return (
                f"no {self.description} of {self.count:,} example{'s' * (self.count != 1)} is in the training data too"
            )
        share = f"{self.folded:,} of {self.count:,} examples ({self.folded / self.count:.1%})"
        first = "".join(
            f"; the first: {format_location(one)}, as in {format_location(other)}" for one, other in self.locations[:1]
        )
        return f"{share} have a {self.description} that is in the training data too, {self.num_exact:,} letter by letter{first}"


def location_dict(place: ExampleLocation) -> dict[str, Any]:
    known = {"file": place.file, "line": place.line, "name": place.name}
    return {name: value for name, value in known.items() if value is not None}


def format_location(place: ExampleLocation) -> str:
    """A place as a person finds it."""
    at = f"{place.file or ''}:{place.line}" if place.line is not None else place.file or "an example"
    return f"{at} {place.name}" if place.name is not None else at


def example_content(example: Example) -> tuple[str, ...]:
    """What an example says. Of questions it is the passage: whoever knows that has half of the answer."""
    if isinstance(example, LabeledExample):
        return example.texts
    if isinstance(example, TaggedExample):
        return example.words
    if isinstance(example, QuestionExample):
        return (example.passage,)
    return example.text, *example.choices


def folded(example: Example) -> str:
    """The same for examples that say the same, but for case and white space and the order of two texts."""
    if isinstance(example, TaggedExample):
        return " ".join(" ".join(example.words).casefold().split())
    texts = [" ".join(text.casefold().split()) for text in example_content(example)]
    if isinstance(example, ChoiceExample):
        return "\0".join([texts[0], *sorted(texts[1:])])
    return texts[0] if len(texts) == 1 else "\0".join(sorted(texts))


def example_labels(example: Example) -> tuple[str, ...]:
    """What training must have seen at least once: labels, or kinds of tags."""
    if isinstance(example, LabeledExample):
        label = example.label
        return (label,) if isinstance(label, str) else label if isinstance(label, tuple) else ()
    if isinstance(example, TaggedExample) and example.tags is not None:
        return tuple(dict.fromkeys(map(entity_kind, example.tags)))
    return ()


def entity_kind(tag: str) -> str:
    """PER of B-PER; a tag without a place is its own kind."""
    return tag[2:] if tag[1:2] in ("-", "_") and tag[0] in "BIESLUM" and len(tag) > 2 else tag


def split_examples(examples: Iterable[Example], *, dev: float = 0.1, test: float = 0.0, seed: int = 0) -> ExampleSplit:
    """Each example by a hash of what it says: what says the same stays together, and stays there when rows are added.

    A side that would be empty gets what is nearest to it, if there is enough; training gets at least one example of
    every label. Both are told in the notes.
    """
    if not (0 <= dev < 1 and 0 <= test < 1 and dev + test < 1):
        hint = "give shares such as 0.1, which leave something to train on"
        raise InputError(f"the shares are {dev:g} for dev and {test:g} for test", hint=hint)
    kept = list(examples)
    owners = [_rank(example, seed) for example in kept]
    shares = {0: 1 - dev - test, 1: dev, 2: test}
    below_test, below_dev = round(test * RANKS), round((test + dev) * RANKS)
    side = {rank: 2 if rank < below_test else 1 if rank < below_dev else 0 for rank in owners}
    notes: list[str] = []
    present = set(side.values())
    if side and any(share and number not in present for number, share in shares.items()):
        _divide_few(side, {1: dev, 2: test}, notes)
    _complete(side, owners, [example_labels(example) for example in kept], notes)
    sides: tuple[list[Example], ...] = ([], [], [])
    for rank, example in zip(owners, kept, strict=True):
        sides[side[rank]].append(example)
    return ExampleSplit(*sides, notes)


def _rank(example: Example, seed: int) -> int:
    """A number below RANKS that depends on what is said and the seed alone; the lowest examine."""
    data = f"{seed}\0{folded(example)}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest())


def _divide_few(side: dict[int, int], shares: dict[int, float], notes: list[str]) -> None:
    """Few contents: their order decides, so that each side that is wanted has one, dev before test."""
    counts = {number: max(1, round(share * len(side))) for number, share in shares.items() if share}
    while sum(counts.values()) >= len(side) and any(counts.values()):
        most = max(counts, key=lambda number: (counts[number], number))
        counts[most] -= 1
    examining = counts.get(2, 0)
    for place, rank in enumerate(sorted(side)):
        side[rank] = 2 if place < examining else 1 if place < examining + counts.get(1, 0) else 0
    many = f"{len(side)} different text{'s' * (len(side) != 1)}"
    empty = [SIDES[number] for number, count in counts.items() if not count]
    if len(empty) < len(counts):
        notes.append(f"there are only {many}: they were divided by rank, so that no side is empty by chance")
    if empty:
        notes.append(f"there are only {many}: nothing is left for {' and '.join(empty)}")


def _complete(side: dict[int, int], owners: list[int], labels: list[tuple[str, ...]], notes: list[str]) -> None:
    """Moves to training one content of each label that it lacks, and from it what dev or test then lack."""
    taught = {label for rank, found in zip(owners, labels, strict=True) if side[rank] == 0 for label in found}
    holders: dict[str, int] = {}
    for rank, found in zip(owners, labels, strict=True):
        for label in found:
            if label not in taught:
                holders[label] = max(rank, holders.get(label, -1))
    if not holders:
        return
    together: dict[int, set[str]] = {rank: set() for rank in side}
    for rank, found in zip(owners, labels, strict=True):
        together[rank].update(found)
    before = set(side.values())
    for label, rank in holders.items():
        if label not in taught:  # else it came along with another one
            notes.append(f"the label {label!r} was only in {SIDES[side[rank]]}: a text with it was moved to train")
            side[rank] = 0
            taught |= together[rank]
    for number in sorted(before - set(side.values())):
        counts = Counter(label for rank, found in together.items() if side[rank] == 0 for label in found)
        able = [rank for rank, where in side.items() if where == 0 and all(counts[it] > 1 for it in together[rank])]
        if able:
            side[min(able)] = number
        else:
            notes.append(f"nothing is left for {SIDES[number]}: training needs all texts for its labels")


def split_leakage(train: Iterable[Example], test: Iterable[Example]) -> SplitLeakage:
    """How much of `test` also stands in `train`."""
    exact: dict[tuple[str, ...], ExampleLocation] = {}
    loose: dict[int, ExampleLocation] = {}
    for example in train:
        exact.setdefault(example_content(example), example.place)
        loose.setdefault(hash(folded(example)), example.place)
    count = same = alike = 0
    what = "text"
    places: list[tuple[ExampleLocation, ExampleLocation]] = []
    for example in test:
        count += 1
        what = "passage" if isinstance(example, QuestionExample) else what
        found = exact.get(example_content(example))
        same += found is not None
        found = found or loose.get(hash(folded(example)))
        if found is not None:
            alike += 1
            if len(places) < SHOWN:
                places.append((example.place, found))
    return SplitLeakage(count, same, alike, tuple(places), what)
