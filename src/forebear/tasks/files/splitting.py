"""Examples divided into train, dev and test so that what says the same stays on one side; and leaks between them."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from forebear.errors import BadInput
from forebear.tasks.examples import Asked, Choices, Example, Labelled, Place, Tagged

SIDES = ("train", "dev", "test")
SHOWN = 5  # places
RANKS = 1 << 64


@dataclass(frozen=True)
class Split:
    """The examples of each side in their order, and what had to be done, in sentences for people."""

    train: list[Example]
    dev: list[Example]
    test: list[Example]
    notes: list[str]


@dataclass(frozen=True)
class Leaks:
    """How many examples that examine have a text that also teaches: letter by letter, or but for case and space."""

    count: int
    exact: int
    folded: int  # those among them included
    places: tuple[tuple[Place, Place], ...]  # first ones: where it examines, where it teaches
    what: str = "text"

    def facts(self) -> dict[str, Any]:
        places = [{"test": place_facts(one), "train": place_facts(other)} for one, other in self.places]
        return {"of": self.what, "count": self.count, "exact": self.exact, "folded": self.folded, "places": places}

    def __str__(self) -> str:
        if not self.folded:
            return f"no {self.what} of {self.count:,} example{'s' * (self.count != 1)} is in the training data too"
        share = f"{self.folded:,} of {self.count:,} examples ({self.folded / self.count:.1%})"
        first = "".join(f"; the first: {told(one)}, as in {told(other)}" for one, other in self.places[:1])
        return f"{share} have a {self.what} that is in the training data too, {self.exact:,} letter by letter{first}"


def place_facts(place: Place) -> dict[str, Any]:
    known = {"file": place.file, "line": place.line, "name": place.name}
    return {name: value for name, value in known.items() if value is not None}


def told(place: Place) -> str:
    """A place as a person finds it."""
    at = f"{place.file or ''}:{place.line}" if place.line is not None else place.file or "an example"
    return f"{at} {place.name}" if place.name is not None else at


def content(example: Example) -> tuple[str, ...]:
    """What an example says. Of questions it is the passage: whoever knows that has half of the answer."""
    if isinstance(example, Labelled):
        return example.texts
    if isinstance(example, Tagged):
        return example.words
    if isinstance(example, Asked):
        return (example.passage,)
    return example.text, *example.choices


def folded(example: Example) -> str:
    """The same for examples that say the same, but for case and white space and the order of two texts."""
    if isinstance(example, Tagged):
        return " ".join(" ".join(example.words).casefold().split())
    texts = [" ".join(text.casefold().split()) for text in content(example)]
    if isinstance(example, Choices):
        return "\0".join([texts[0], *sorted(texts[1:])])
    return texts[0] if len(texts) == 1 else "\0".join(sorted(texts))


def labels_of(example: Example) -> tuple[str, ...]:
    """What training must have seen at least once: labels, or kinds of tags."""
    if isinstance(example, Labelled):
        label = example.label
        return (label,) if isinstance(label, str) else label if isinstance(label, tuple) else ()
    if isinstance(example, Tagged) and example.tags is not None:
        return tuple(dict.fromkeys(map(kind_of, example.tags)))
    return ()


def kind_of(tag: str) -> str:
    """PER of B-PER; a tag without a place is its own kind."""
    return tag[2:] if tag[1:2] in ("-", "_") and tag[0] in "BIESLUM" and len(tag) > 2 else tag


def divided(examples: Iterable[Example], *, dev: float = 0.1, test: float = 0.0, seed: int = 0) -> Split:
    """Each example by a hash of what it says: what says the same stays together, and stays there when rows are added.

    A side that would be empty gets what is nearest to it, if there is enough; training gets at least one example of
    every label. Both are told in the notes.
    """
    if not (0 <= dev < 1 and 0 <= test < 1 and dev + test < 1):
        remedy = "give shares such as 0.1, which leave something to train on"
        raise BadInput(f"the shares are {dev:g} for dev and {test:g} for test", remedy=remedy)
    kept = list(examples)
    owners = [_rank(example, seed) for example in kept]
    shares = {0: 1 - dev - test, 1: dev, 2: test}
    below_test, below_dev = round(test * RANKS), round((test + dev) * RANKS)
    side = {rank: 2 if rank < below_test else 1 if rank < below_dev else 0 for rank in owners}
    notes: list[str] = []
    present = set(side.values())
    if side and any(share and number not in present for number, share in shares.items()):
        _divide_few(side, {1: dev, 2: test}, notes)
    _complete(side, owners, [labels_of(example) for example in kept], notes)
    sides: tuple[list[Example], ...] = ([], [], [])
    for rank, example in zip(owners, kept, strict=True):
        sides[side[rank]].append(example)
    return Split(*sides, notes)


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


def leaks(train: Iterable[Example], test: Iterable[Example]) -> Leaks:
    """How much of `test` also stands in `train`."""
    exact: dict[tuple[str, ...], Place] = {}
    loose: dict[int, Place] = {}
    for example in train:
        exact.setdefault(content(example), example.place)
        loose.setdefault(hash(folded(example)), example.place)
    count = same = alike = 0
    what = "text"
    places: list[tuple[Place, Place]] = []
    for example in test:
        count += 1
        what = "passage" if isinstance(example, Asked) else what
        found = exact.get(content(example))
        same += found is not None
        found = found or loose.get(hash(folded(example)))
        if found is not None:
            alike += 1
            if len(places) < SHOWN:
                places.append((example.place, found))
    return Leaks(count, same, alike, tuple(places), what)
