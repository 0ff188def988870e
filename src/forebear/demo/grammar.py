"""A grammar with odds and a memory: it writes texts, and reads any text back into the decisions that make it.

Every node has the two directions. `write` draws; `read` finds every way in which the node can have made what stands in
a text from some position on. A document is unambiguous if it is read back in one way only; then the bits of its
decisions are exactly its information, and the true entropy of the source is known.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import log2
from typing import NamedTuple, NoReturn, Protocol, TypeAlias

from forebear.demo.lexicon import ChoiceProbabilities, DemoLexicon, LexiconEntry, RandomSource, zipf_weights
from forebear.errors import ForebearError

_HEAD = re.compile(r"(?:^|(?<=[.!?] )|(?<=[.!?]” )|(?<=\w: )|(?<=[“\n]))[a-z]")  # what English writes as a capital


class EntityMention(NamedTuple):
    """A known thing was named in piece number `piece`."""

    piece: int
    variable: str
    entry: LexiconEntry
    file_format: str


@dataclass(slots=True)
class GenerationState:
    """A text while it is written: its pieces so far and what is known by now (who, where, how it went)."""

    chooser: RandomSource
    pieces: list[str] = field(default_factory=list)
    memory: dict[str, LexiconEntry] = field(default_factory=dict)
    marks: list[EntityMention] = field(default_factory=list)

    def text(self) -> str:
        return _HEAD.sub(lambda found: found[0].upper(), "".join(self.pieces))


class ParseInput:
    """A text while it is read back; where a sentence begins, a piece may show a capital it was not written with."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.heads = {found.start() for found in _HEAD.finditer(text.lower())}

    def shows(self, piece: str, position: int) -> bool:
        if self.text.startswith(piece, position):
            return True
        return position in self.heads and self.text.startswith(piece[:1].upper() + piece[1:], position)


Rest: TypeAlias = "tuple[ParsableNode, Rest] | tuple[()]"


class ParseState(NamedTuple):
    """How far a reading has come: `rest` is what must still follow, nearest first."""

    position: int
    known: dict[str, LexiconEntry]
    rest: Rest
    bits: float


class ParsableNode(Protocol):
    """What can be found in a text."""

    def read(self, seen: ParseInput, state: ParseState) -> Iterator[ParseState]: ...


class GrammarNode(ParsableNode, Protocol):
    """What can also be written."""

    def write(self, telling: GenerationState) -> None: ...


def readings(node: GrammarNode, text: str) -> Iterator[float]:
    """The bits of every derivation of exactly this text."""
    seen = ParseInput(text)
    agenda = [ParseState(0, {}, (node, ()), 0.0)]
    while agenda:
        state = agenda.pop()
        if state.rest:
            first, rest = state.rest
            agenda.extend(first.read(seen, state._replace(rest=rest)))
        elif state.position == len(text):
            yield state.bits


def text_information(node: GrammarNode, text: str) -> float:
    """−log2 of the probability of this text, whatever its derivation: infinite if the grammar cannot write it."""
    found = list(readings(node, text))
    least = min(found, default=float("inf"))
    return least - log2(sum(2 ** (least - bits) for bits in found)) if found else least


class LiteralNode:
    """Fixed words."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        # A sentence that begins inside is begun here; one that begins with the piece depends on what stands before.
        self.text = text[:1] + _HEAD.sub(lambda found: found[0].upper(), "x" + text)[2:]

    def write(self, telling: GenerationState) -> None:
        telling.pieces.append(self.text)

    def read(self, seen: ParseInput, state: ParseState) -> Iterator[ParseState]:
        if seen.shows(self.text, state.position):
            yield state._replace(position=state.position + len(self.text))


class SequenceNode:
    """One after the other."""

    __slots__ = ("nodes",)

    def __init__(self, nodes: Sequence[GrammarNode]) -> None:
        self.nodes = tuple(nodes)

    def write(self, telling: GenerationState) -> None:
        for node in self.nodes:
            node.write(telling)

    def read(self, seen: ParseInput, state: ParseState) -> Iterator[ParseState]:
        rest = state.rest
        for node in reversed(self.nodes):
            rest = (node, rest)
        yield state._replace(rest=rest)


class AlternativeNode:
    """One of several."""

    __slots__ = ("nodes", "odds")

    def __init__(self, nodes: Sequence[GrammarNode], odds: ChoiceProbabilities) -> None:
        self.nodes, self.odds = tuple(nodes), odds

    def write(self, telling: GenerationState) -> None:
        self.nodes[telling.chooser.choose(self.odds)].write(telling)

    def read(self, seen: ParseInput, state: ParseState) -> Iterator[ParseState]:
        for node, bits in zip(self.nodes, self.odds.bits, strict=True):
            yield state._replace(rest=(node, state.rest), bits=state.bits + bits)


class RuleNode:
    """A named choice, filled in after it was first referred to: rules may speak of one another."""

    __slots__ = ("choice", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.choice = AlternativeNode((), ChoiceProbabilities([1.0]))

    def write(self, telling: GenerationState) -> None:
        self.choice.write(telling)

    def read(self, seen: ParseInput, state: ParseState) -> Iterator[ParseState]:
        return self.choice.read(seen, state)


class SubsetNode:
    """Some alternatives of a rule, none twice, in any order, with a joint between them."""

    __slots__ = ("count", "joint", "rule")

    def __init__(self, rule: RuleNode, count: int, joint: str) -> None:
        self.rule, self.count, self.joint = rule, count, joint

    def write(self, telling: GenerationState) -> None:
        choice, taken = self.rule.choice, set[int]()
        for number in range(self.count):
            if number and self.joint:
                telling.pieces.append(self.joint)
            index = telling.chooser.choose_without(choice.odds, taken)
            taken.add(index)
            choice.nodes[index].write(telling)

    def read(self, seen: ParseInput, state: ParseState) -> Iterator[ParseState]:
        return _SubsetContinuation(self, frozenset()).read(seen, state)


@dataclass(frozen=True, slots=True)
class _SubsetContinuation:
    """What is still to come of `Several` when some alternatives are taken; only readings meet it."""

    several: SubsetNode
    taken: frozenset[int]

    def read(self, seen: ParseInput, state: ParseState) -> Iterator[ParseState]:
        choice, position = self.several.rule.choice, state.position
        if self.taken and self.several.joint:
            if not seen.shows(self.several.joint, position):
                return
            position += len(self.several.joint)
        for index, node in enumerate(choice.nodes):
            if index not in self.taken:
                taken = self.taken | {index}
                rest = (
                    state.rest
                    if len(taken) == self.several.count
                    else (_SubsetContinuation(self.several, taken), state.rest)
                )
                bits = state.bits + choice.odds.bits_without(index, self.taken)
                yield ParseState(position, state.known, (node, rest), bits)


class LexiconNode:
    """Chooses an entry of a lexicon, remembers it under a name if one is given, and says it unless silent."""

    __slots__ = ("_by_sign", "form", "key", "lexicon", "others", "silent", "variable")

    def __init__(self, lexicon: DemoLexicon, key: str, variable: str, others: tuple[str, ...], silent: bool) -> None:
        self.lexicon, self.key, self.variable, self.others, self.silent = lexicon, key, variable, others, silent
        self.form = key.partition(".")[2]
        self._by_sign: dict[str, list[int]] = {}

    def write(self, telling: GenerationState) -> None:
        taken = self._taken(telling.memory)
        if taken:
            index = telling.chooser.choose_without(self.lexicon.odds, taken)
        else:
            index = telling.chooser.choose(self.lexicon.odds)
        entry = self.lexicon.entries[index]
        if self.variable:
            telling.memory[self.variable] = entry
        if not self.silent:
            telling.marks.append(EntityMention(len(telling.pieces), self.variable, entry, self.form))
            telling.pieces.append(entry.forms[self.key])

    def read(self, seen: ParseInput, state: ParseState) -> Iterator[ParseState]:
        taken = self._taken(state.known)
        for index in self._likely(seen.text[state.position : state.position + 1]):
            entry = self.lexicon.entries[index]
            piece = "" if self.silent else entry.forms[self.key]
            if index not in taken and seen.shows(piece, state.position):
                known = {**state.known, self.variable: entry} if self.variable else state.known
                bits = state.bits + self.lexicon.odds.bits_without(index, taken)
                yield ParseState(state.position + len(piece), known, state.rest, bits)

    def _likely(self, sign: str) -> Sequence[int]:
        """The entries whose form begins with this sign: thousands of people need not be tried one by one."""
        entries = self.lexicon.entries
        if self.silent:
            return range(len(entries))
        if not self._by_sign:
            for index, entry in enumerate(entries):
                self._by_sign.setdefault(entry.forms[self.key][:1].lower(), []).append(index)
        return self._by_sign.get(sign.lower(), ())

    def _taken(self, known: dict[str, LexiconEntry]) -> set[int]:
        places = self.lexicon.places
        return {places[id(known[other])] for other in self.others if id(known[other]) in places}


class ReferenceNode:
    """Says again, in some form, what is remembered under a name."""

    __slots__ = ("form", "key", "variable")

    def __init__(self, variable: str, key: str) -> None:
        self.variable, self.key, self.form = variable, key, key.partition(".")[2]

    def write(self, telling: GenerationState) -> None:
        entry = telling.memory[self.variable]
        telling.marks.append(EntityMention(len(telling.pieces), self.variable, entry, self.form))
        telling.pieces.append(entry.forms[self.key])

    def read(self, seen: ParseInput, state: ParseState) -> Iterator[ParseState]:
        piece = state.known[self.variable].forms[self.key]
        if seen.shows(piece, state.position):
            yield state._replace(position=state.position + len(piece))


class ConditionalNode:
    """The rule that belongs to the kind of what is remembered: after rain follows what rain does."""

    __slots__ = ("rules", "variable")

    def __init__(self, variable: str, rules: dict[str, RuleNode]) -> None:
        self.variable, self.rules = variable, rules

    def write(self, telling: GenerationState) -> None:
        self.rules[telling.memory[self.variable].kind].choice.write(telling)

    def read(self, seen: ParseInput, state: ParseState) -> Iterator[ParseState]:
        return self.rules[state.known[self.variable].kind].choice.read(seen, state)


# How the grammar is written down: rules as indented text, compiled into nodes.
#
# A rule's name stands at the margin, its alternatives below it at four spaces, common ones first; deeper lines continue
# an alternative. Within one:
#
#     [a|b|]            one of these, or nothing       3* before an alternative makes it three times as likely
#     <food>            some entry of the lexicon, or an alternative of the rule, of this name
#     <P=person>        some person, remembered as P   <Q=person-P> another one than P   <~P=person> without saying it
#     <P.he>            what is remembered as P, in its form `he`
#     <mood@W>          the rule `mood.K`, where K is the kind of what is remembered as W
#     ¶ _               a new line; a space that is kept at the margin
#     <remark*2>        two alternatives of the rule `remark`, not the same one twice; with + instead of * nothing between


_REFERENCE = re.compile(
    r"(?P<silent>~)?(?:(?P<variable>[A-Z]\w*)=)?(?P<name>\w[\w.]*?)(?P<others>(?:-[A-Z]\w*)*)"
    r"(?:\.(?P<form>\w+))?(?:@(?P<on>[A-Z]\w*))?(?:(?P<apart>[*+])(?P<count>\d))?"
)
_WEIGHT = re.compile(r"(\d+)\* ?")
FLATNESS = 5  # of the odds of alternatives, by rank: the first of ten is three times as likely as the last


class DemoGrammar:
    """The rules of one language over the lexicons of the world."""

    def __init__(self, language: str, lexicons: Mapping[str, DemoLexicon], texts: Iterable[str]) -> None:
        self.language, self.lexicons = language, lexicons
        self.rules: dict[str, RuleNode] = {}
        self._joint = " " if language == "en" else ""
        written = [pair for text in texts for pair in _written(text, self._joint)]
        for name, _ in written:
            if name in self.rules or name in lexicons:
                raise ForebearError(f"the {language} grammar has two things named {name!r}")
            self.rules[name] = RuleNode(name)
        for name, alternatives in written:
            self.rules[name].choice = self._choice(alternatives, name)

    def _choice(self, alternatives: list[str], rule: str) -> AlternativeNode:
        weights = zipf_weights(len(alternatives), shift=FLATNESS)
        bare = []
        for number, alternative in enumerate(alternatives):
            if found := _WEIGHT.match(alternative):
                weights[number] *= int(found[1])
                alternative = alternative[found.end() :]
            bare.append(alternative)
        return AlternativeNode([self._series(alternative, rule) for alternative in bare], ChoiceProbabilities(weights))

    def _series(self, text: str, rule: str) -> GrammarNode:
        nodes: list[GrammarNode] = []
        position = 0
        while position < len(text):
            end = _end(text, position, rule)
            part, position = text[position:end], end
            if part[0] == "[":
                nodes.append(self._choice(_alternatives(part[1:-1]), rule))
            elif part[0] == "<":
                nodes.append(self._reference(part[1:-1], rule))
            else:
                nodes.append(LiteralNode(part))
        return nodes[0] if len(nodes) == 1 else SequenceNode(nodes)

    def _reference(self, text: str, rule: str) -> GrammarNode:
        found = _REFERENCE.fullmatch(text)
        if not found:
            self._complain(f"<{text}> is no reference", rule)
        name, form = found["name"], found["form"] or ""
        if not found["variable"] and name[0].isupper():
            return ReferenceNode(name, f"{self.language}.{form}")
        full = f"{name}.{form}" if form else name
        if found["on"]:
            return self._depending(full, found["on"], rule)
        if full in self.rules:
            node = self.rules[full]
            joint = self._joint if found["apart"] == "*" else ""
            return SubsetNode(node, int(found["count"]), joint) if found["count"] else node
        if name not in self.lexicons:
            self._complain(f"nothing is named {name!r}", rule)
        others = tuple(found["others"].split("-")[1:])
        return LexiconNode(
            self.lexicons[name], f"{self.language}.{form}", found["variable"] or "", others, bool(found["silent"])
        )

    def _depending(self, name: str, variable: str, rule: str) -> GrammarNode:
        start = f"{name}."
        kinds = {full.removeprefix(start): node for full, node in self.rules.items() if full.startswith(start)}
        if not kinds:
            self._complain(f"no rules are named {start}…", rule)
        return ConditionalNode(variable, kinds)

    def _complain(self, what: str, rule: str) -> NoReturn:
        raise ForebearError(f"{self.language} grammar, rule {rule!r}: {what}")


def _written(text: str, joint: str) -> list[tuple[str, list[str]]]:
    rules: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        depth, line = len(line) - len(line.lstrip()), line.strip()
        if not line:
            continue
        if depth == 0:
            rules.append((line, []))
        elif depth <= 4:
            rules[-1][1].append(re.sub(r"(^|\* ?)-$", r"\1", line))  # a bare - is nothing
        else:
            rules[-1][1][-1] += joint + line
    return [(name, [_unfolded(alternative) for alternative in alternatives]) for name, alternatives in rules]


def _unfolded(alternative: str) -> str:
    return alternative.replace("¶", "\n").replace("_", " ")


def _end(text: str, start: int, rule: str) -> int:
    """Where the part that begins here ends: a bracket with all inside it, a reference, or plain words."""
    if text[start] == "<":
        return text.index(">", start) + 1
    if text[start] != "[":
        found = re.compile(r"[<\[]").search(text, start)
        return found.start() if found else len(text)
    depth = 0
    for position in range(start, len(text)):
        depth += (text[position] == "[") - (text[position] == "]")
        if depth == 0:
            return position + 1
    raise ForebearError(f"rule {rule!r}: a [ that never closes in {text!r}")


def _alternatives(text: str) -> list[str]:
    """Cut at the bars that stand in no inner bracket."""
    parts, depth = [""], 0
    for sign in text:
        depth += (sign == "[") - (sign == "]")
        if sign == "|" and depth == 0:
            parts.append("")
        else:
            parts[-1] += sign
    return parts
