"""The vectors of one word in many sentences, grouped by likeness: whether a run tells the meanings of a word apart."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from forebear.errors import BadInput
from forebear.inspecting.agreement import Agreement
from forebear.inspecting.grouping import EQUAL, LEAST, Grouping, by_size, cut, distances, grouped, tree
from forebear.inspecting.occurrences import Found, Occurrence, Text, occurrences, read
from forebear.inspecting.projection import plane
from forebear.inspecting.sense_vectors import Embedded, before_context, embedded, is_spelled
from forebear.text.reading import Reading
from forebear.text.sentences import Mode
from forebear.using.words import is_table

if TYPE_CHECKING:
    from forebear.using.run import Run
    from forebear.using.vectors import Layers

MOST = 200  # occurrences, where nobody says how many
NEAR = 6  # characters to either side by which two sentences are worded alike
SHOWN = 4  # ways of writing a word that are told
SAME = "every occurrence has the same vector"
LOOKS_BACK = "looks back: what it makes of a word does not know what comes behind it"
SPELLED = "occurrences that are written alike have the same vector"
AROUND = ", whatever stands around"


@dataclass(frozen=True, eq=False)
class Group:
    """Occurrences that are alike.

    members   their numbers, the most typical first: those nearest to the mean of all
    cohesion  the mean cosine of two of them
    """

    members: tuple[int, ...]
    cohesion: float

    @classmethod
    def of(cls, vectors: np.ndarray, mine: np.ndarray) -> Group:
        order = np.argsort(-np.round(vectors @ vectors[mine].mean(0), 9), kind="stable")
        return cls(tuple(int(number) for number in order if mine[number]), mean_cosine(vectors[mine]))


@dataclass(frozen=True, eq=False)
class Vectors:
    """What one run makes of the occurrences.

    points     (n, 2) where their vectors lie in the plane in which they differ most
    shares     of the variance, what either direction shows
    static     whether they cannot know what stands around
    spelled    whether a vector follows from how the word is written
    alike      the mean cosine of any two
    agreement  with known meanings: of these groups, and of as many groups as there are meanings
    """

    name: str
    occurrences: tuple[Occurrence, ...]
    grouping: Grouping
    groups: tuple[Group, ...]
    points: np.ndarray
    shares: tuple[float, float]
    static: bool
    spelled: bool
    alike: float
    agreement: tuple[Agreement, Agreement] | None

    @property
    def verdict(self) -> str:
        """In a few words, what the groups are worth."""
        found = self.grouping
        around = AROUND if self.static else ""
        if found.distinct == 1:
            return SAME + around
        if self.spelled:
            return (
                f"{SPELLED}{around} ({', '.join(list(dict.fromkeys(one.written for one in self.occurrences))[:SHOWN])})"
            )
        if found.count > 1:
            return f"{found.count} groups, silhouette {found.silhouette:.2f}{self._chance(found.count)}"
        if found.best is None:
            return "one group, as was asked"
        best = f"the best {found.best.groups} have a silhouette of {found.best.silhouette:.2f}"
        return f"no groups beyond chance: {best}{self._chance(found.best.groups)}"

    def _chance(self, groups: int) -> str:
        """Beside the silhouette of so many groups: what sets them apart, and what that is of clouds."""
        own, chance = next((one for one in self.grouping.tried if one.groups == groups), None), self.grouping.chance
        if own is None or chance is None:
            return ""
        return f"; where they lie apart {own.apart:.2f}, clouds without groups up to {chance.apart:.2f}"

    @property
    def remark(self) -> str:
        """What is to be known of them beside their figures."""
        if self.spelled:
            return self.verdict
        return "no groups beyond chance" if self.grouping.tried and self.grouping.count == 1 else ""

    def typical(self, group: int, most: int) -> list[Occurrence]:
        """The most typical of a group; one that stands between the same words as one before it is left out."""
        chosen: dict[tuple[str, str], Occurrence] = {}
        for member in self.groups[group].members if most else ():
            one = self.occurrences[member]
            sides = one.sentence[: one.start][-NEAR:].casefold(), one.sentence[one.end :][:NEAR].casefold()
            chosen.setdefault(sides, one)
            if len(chosen) == most:
                break
        return list(chosen.values())

    def facts(self) -> dict[str, Any]:
        found, silhouette = self.grouping, self.grouping.silhouette
        told: dict[str, Any] = {"name": self.name, "occurrences": len(self.occurrences), "verdict": self.verdict}
        told |= {"distinct_vectors": found.distinct, "mean_cosine": round(self.alike, 4)}
        told |= {"silhouette": None if silhouette is None else round(silhouette, 4)}
        told |= {"tried": [one.facts() for one in found.tried]}
        told |= {"by_chance": None if found.chance is None else found.chance.facts()}
        if self.agreement is not None:
            own, known = self.agreement
            told |= {"agreement": own.facts(), "agreement_in_as_many_groups": known.facts()}
        told["explained_variance"] = [round(share, 4) for share in self.shares]
        told["groups"] = [
            {"size": len(group.members), "cohesion": round(group.cohesion, 4)}
            | {"occurrences": [self._occurrence(number) for number in group.members]}
            for group in self.groups
        ]
        return told

    def _occurrence(self, number: int) -> dict[str, Any]:
        x, y = self.points[number].tolist()
        own = {"x": round(x, 4), "y": round(y, 4), "silhouette": round(float(self.grouping.silhouettes[number]), 4)}
        return self.occurrences[number].facts() | own


@dataclass(frozen=True, eq=False)
class Senses:
    """A word, what a run makes of it, and beside it what others do, or the run itself before it looks around.

    known  the meanings that are known
    """

    word: str
    own: Vectors
    beside: tuple[Vectors, ...]
    known: tuple[str, ...]
    notes: tuple[str, ...]

    def meant(self, members: Sequence[int]) -> str:
        """How many of a group are of which meaning, the commonest first; nothing where that is not known."""
        counts = Counter(self.own.occurrences[member].sense for member in members)
        return ": " + ", ".join(f"{count:,} {sense}" for sense, count in counts.most_common()) if self.known else ""

    def facts(self) -> dict[str, Any]:
        told: dict[str, Any] = {"word": self.word, "senses": list(self.known), "notes": list(self.notes)}
        return told | {"vectors": self.own.facts(), "beside": [one.facts() for one in self.beside]}


def senses(
    run: Run,
    word: str,
    texts: str | os.PathLike[str] | Sequence[str],
    *,
    known: Sequence[str] | None = None,
    layers: Layers | None = None,
    groups: int | None = None,
    most: int = MOST,
    beside: Sequence[Run] | None = None,
    sentences: Mode = "split",
    reading: Reading | None = None,
) -> Senses:
    """Groups the vectors of a word in the sentences of texts, or of a file.

    known   the meaning of the word in each text, which is then taken as one sentence
    layers  as `embed` takes them; by itself the mean of all above the embedding
    groups  so many; by itself as many as hang together best, or one
    most    occurrences at most, evenly chosen
    beside  runs to compare with; by itself the run's own vectors before it looks around
    """
    if isinstance(texts, str | os.PathLike):
        if known is not None:
            raise BadInput("known meanings are of texts that are given one by one", remedy="give a list of texts")
        given: Iterable[Text] = read([texts], reading or Reading())
    elif known is None:
        given = (Text(text) for text in texts)
    elif len(known) == len(texts):
        given, sentences = (Text(text, sense=sense) for text, sense in zip(texts, known, strict=True)), "whole"
    else:
        raise BadInput(f"{len(known):,} meanings are known of {len(texts):,} texts", remedy="give one for each")
    found = occurrences(word, given, most=most, sentences=sentences)
    return looked_at(run, found, layers=layers, groups=groups, beside=beside)


def looked_at(
    run: Run,
    found: Found,
    *,
    layers: Layers | None = None,
    groups: int | None = None,
    beside: Sequence[Run] | None = None,
) -> Senses:
    """`senses` of occurrences that were found."""
    every = [embedded(run, found, layers)]
    if beside is not None:
        every += [embedded(other, found) for other in beside]
    elif not is_table(run):
        every.append(before_context(run, found))
    notes = list(found.notes())
    for one in every:
        if lacking := len(found.occurrences) - len(one.occurrences):
            notes.append(f"{one.name}: {lacking:,} occurrences have no vector of their own")
    notes += [f"{other.name} {LOOKS_BACK}" for other in (run, *(beside or ())) if _looks_back(other)]
    own, *others = [_grouped(one, found.word, groups) for one in every]
    for one in (own, *others):
        if groups is not None and one.grouping.count < groups:
            notes.append(f"{one.name}: no {groups} groups, as there are {one.grouping.distinct} different vectors")
    known = dict.fromkeys(one.sense for one in found.occurrences if one.sense is not None)
    return Senses(found.word, own, tuple(others), tuple(known), tuple(notes))


def _looks_back(run: Run) -> bool:
    return not is_table(run) and run.model.encoder.sees == "past"


def _grouped(of: Embedded, word: str, groups: int | None) -> Vectors:
    vectors, count = of.vectors, len(of.occurrences)
    if count < LEAST:
        what = f"{word!r} stands in {count} places: too few to be grouped"
        raise BadInput(what, remedy=f"give text in which it stands at least {LEAST} times")
    spelled = is_spelled(of, EQUAL)
    grouping = grouped(vectors, 1 if groups is None and spelled else groups)
    parts = tuple(Group.of(vectors, grouping.owners == number) for number in range(grouping.count))
    points, shares = plane(vectors)
    agreement = _agreement(vectors, grouping, [one.sense for one in of.occurrences if one.sense is not None])
    alike = mean_cosine(vectors)
    return Vectors(of.name, of.occurrences, grouping, parts, points, shares, of.static, spelled, alike, agreement)


def mean_cosine(vectors: np.ndarray) -> float:
    """Of any two of them; of one alone, 1."""
    count = len(vectors)
    return float(((vectors.sum(0) ** 2).sum() - count) / (count * (count - 1))) if count > 1 else 1.0


def _agreement(vectors: np.ndarray, grouping: Grouping, known: Sequence[str]) -> tuple[Agreement, Agreement] | None:
    if len(known) < len(vectors):
        return None
    kinds = min(len(set(known)), grouping.distinct)
    owners = by_size(cut(tree(distances(vectors)), kinds))
    return Agreement.of(grouping.owners, known), Agreement.of(owners, known)
