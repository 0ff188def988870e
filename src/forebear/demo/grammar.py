"""A grammar with odds and a memory: it writes texts, and reads any text back into the decisions that make it.

Every node has the two directions. `write` draws; `read` finds every way in which the node can have made what stands in
a text from some position on. A document is unambiguous if it is read back in one way only; then the bits of its
decisions are exactly its information, and the true entropy of the source is known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import log2
from typing import NamedTuple, Protocol, TypeAlias

from forebear.demo.chooser import Chooser, Odds
from forebear.demo.lexicon import Entry, Lexicon

_HEAD = re.compile(r"(?:^|(?<=[.!?] )|(?<=[.!?]” )|(?<=\w: )|(?<=[“\n]))[a-z]")  # what English writes as a capital


class Mark(NamedTuple):
    """A known thing was named in piece number `piece`."""

    piece: int
    variable: str
    entry: Entry
    form: str


@dataclass(slots=True)
class Telling:
    """A text while it is written: its pieces so far and what is known by now (who, where, how it went)."""

    chooser: Chooser
    pieces: list[str] = field(default_factory=list)
    known: dict[str, Entry] = field(default_factory=dict)
    marks: list[Mark] = field(default_factory=list)

    def text(self) -> str:
        return _HEAD.sub(lambda found: found[0].upper(), "".join(self.pieces))


class Seen:
    """A text while it is read back; where a sentence begins, a piece may show a capital it was not written with."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.heads = {found.start() for found in _HEAD.finditer(text.lower())}

    def shows(self, piece: str, position: int) -> bool:
        if self.text.startswith(piece, position):
            return True
        return position in self.heads and self.text.startswith(piece[:1].upper() + piece[1:], position)


Rest: TypeAlias = "tuple[Readable, Rest] | tuple[()]"


class State(NamedTuple):
    """How far a reading has come: `rest` is what must still follow, nearest first."""

    position: int
    known: dict[str, Entry]
    rest: Rest
    bits: float


class Readable(Protocol):
    """What can be found in a text."""

    def read(self, seen: Seen, state: State) -> Iterator[State]: ...


class Node(Readable, Protocol):
    """What can also be written."""

    def write(self, telling: Telling) -> None: ...


def readings(node: Node, text: str) -> Iterator[float]:
    """The bits of every derivation of exactly this text."""
    seen = Seen(text)
    agenda = [State(0, {}, (node, ()), 0.0)]
    while agenda:
        state = agenda.pop()
        if state.rest:
            first, rest = state.rest
            agenda.extend(first.read(seen, state._replace(rest=rest)))
        elif state.position == len(text):
            yield state.bits


def information(node: Node, text: str) -> float:
    """−log2 of the probability of this text, whatever its derivation: infinite if the grammar cannot write it."""
    found = list(readings(node, text))
    least = min(found, default=float("inf"))
    return least - log2(sum(2 ** (least - bits) for bits in found)) if found else least


class Words:
    """Fixed words."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        # A sentence that begins inside is begun here; one that begins with the piece depends on what stands before.
        self.text = text[:1] + _HEAD.sub(lambda found: found[0].upper(), "x" + text)[2:]

    def write(self, telling: Telling) -> None:
        telling.pieces.append(self.text)

    def read(self, seen: Seen, state: State) -> Iterator[State]:
        if seen.shows(self.text, state.position):
            yield state._replace(position=state.position + len(self.text))


class Series:
    """One after the other."""

    __slots__ = ("nodes",)

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = tuple(nodes)

    def write(self, telling: Telling) -> None:
        for node in self.nodes:
            node.write(telling)

    def read(self, seen: Seen, state: State) -> Iterator[State]:
        rest = state.rest
        for node in reversed(self.nodes):
            rest = (node, rest)
        yield state._replace(rest=rest)


class Choice:
    """One of several."""

    __slots__ = ("nodes", "odds")

    def __init__(self, nodes: Sequence[Node], odds: Odds) -> None:
        self.nodes, self.odds = tuple(nodes), odds

    def write(self, telling: Telling) -> None:
        self.nodes[telling.chooser.choose(self.odds)].write(telling)

    def read(self, seen: Seen, state: State) -> Iterator[State]:
        for node, bits in zip(self.nodes, self.odds.bits, strict=True):
            yield state._replace(rest=(node, state.rest), bits=state.bits + bits)


class Rule:
    """A named choice, filled in after it was first referred to: rules may speak of one another."""

    __slots__ = ("choice", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.choice = Choice((), Odds([1.0]))

    def write(self, telling: Telling) -> None:
        self.choice.write(telling)

    def read(self, seen: Seen, state: State) -> Iterator[State]:
        return self.choice.read(seen, state)


class Several:
    """Some alternatives of a rule, none twice, in any order, with a joint between them."""

    __slots__ = ("count", "joint", "rule")

    def __init__(self, rule: Rule, count: int, joint: str) -> None:
        self.rule, self.count, self.joint = rule, count, joint

    def write(self, telling: Telling) -> None:
        choice, taken = self.rule.choice, set[int]()
        for number in range(self.count):
            if number and self.joint:
                telling.pieces.append(self.joint)
            index = telling.chooser.choose_without(choice.odds, taken)
            taken.add(index)
            choice.nodes[index].write(telling)

    def read(self, seen: Seen, state: State) -> Iterator[State]:
        return _Further(self, frozenset()).read(seen, state)


@dataclass(frozen=True, slots=True)
class _Further:
    """What is still to come of `Several` when some alternatives are taken; only readings meet it."""

    several: Several
    taken: frozenset[int]

    def read(self, seen: Seen, state: State) -> Iterator[State]:
        choice, position = self.several.rule.choice, state.position
        if self.taken and self.several.joint:
            if not seen.shows(self.several.joint, position):
                return
            position += len(self.several.joint)
        for index, node in enumerate(choice.nodes):
            if index not in self.taken:
                taken = self.taken | {index}
                rest = state.rest if len(taken) == self.several.count else (_Further(self.several, taken), state.rest)
                bits = state.bits + choice.odds.bits_without(index, self.taken)
                yield State(position, state.known, (node, rest), bits)


class Pick:
    """Chooses an entry of a lexicon, remembers it under a name if one is given, and says it unless silent."""

    __slots__ = ("_by_sign", "form", "key", "lexicon", "others", "silent", "variable")

    def __init__(self, lexicon: Lexicon, key: str, variable: str, others: tuple[str, ...], silent: bool) -> None:
        self.lexicon, self.key, self.variable, self.others, self.silent = lexicon, key, variable, others, silent
        self.form = key.partition(".")[2]
        self._by_sign: dict[str, list[int]] = {}

    def write(self, telling: Telling) -> None:
        taken = self._taken(telling.known)
        if taken:
            index = telling.chooser.choose_without(self.lexicon.odds, taken)
        else:
            index = telling.chooser.choose(self.lexicon.odds)
        entry = self.lexicon.entries[index]
        if self.variable:
            telling.known[self.variable] = entry
        if not self.silent:
            telling.marks.append(Mark(len(telling.pieces), self.variable, entry, self.form))
            telling.pieces.append(entry.forms[self.key])

    def read(self, seen: Seen, state: State) -> Iterator[State]:
        taken = self._taken(state.known)
        for index in self._likely(seen.text[state.position : state.position + 1]):
            entry = self.lexicon.entries[index]
            piece = "" if self.silent else entry.forms[self.key]
            if index not in taken and seen.shows(piece, state.position):
                known = {**state.known, self.variable: entry} if self.variable else state.known
                bits = state.bits + self.lexicon.odds.bits_without(index, taken)
                yield State(state.position + len(piece), known, state.rest, bits)

    def _likely(self, sign: str) -> Sequence[int]:
        """The entries whose form begins with this sign: thousands of people need not be tried one by one."""
        entries = self.lexicon.entries
        if self.silent:
            return range(len(entries))
        if not self._by_sign:
            for index, entry in enumerate(entries):
                self._by_sign.setdefault(entry.forms[self.key][:1].lower(), []).append(index)
        return self._by_sign.get(sign.lower(), ())

    def _taken(self, known: dict[str, Entry]) -> set[int]:
        places = self.lexicon.places
        return {places[id(known[other])] for other in self.others if id(known[other]) in places}


class Say:
    """Says again, in some form, what is remembered under a name."""

    __slots__ = ("form", "key", "variable")

    def __init__(self, variable: str, key: str) -> None:
        self.variable, self.key, self.form = variable, key, key.partition(".")[2]

    def write(self, telling: Telling) -> None:
        entry = telling.known[self.variable]
        telling.marks.append(Mark(len(telling.pieces), self.variable, entry, self.form))
        telling.pieces.append(entry.forms[self.key])

    def read(self, seen: Seen, state: State) -> Iterator[State]:
        piece = state.known[self.variable].forms[self.key]
        if seen.shows(piece, state.position):
            yield state._replace(position=state.position + len(piece))


class Depending:
    """The rule that belongs to the kind of what is remembered: after rain follows what rain does."""

    __slots__ = ("rules", "variable")

    def __init__(self, variable: str, rules: dict[str, Rule]) -> None:
        self.variable, self.rules = variable, rules

    def write(self, telling: Telling) -> None:
        self.rules[telling.known[self.variable].kind].choice.write(telling)

    def read(self, seen: Seen, state: State) -> Iterator[State]:
        return self.rules[state.known[self.variable].kind].choice.read(seen, state)
