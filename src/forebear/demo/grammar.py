"""The grammar engine: notation, generation and parsing of a probabilistic grammar with a memory.

The rules are in demo/data. Every node works in both directions: `generate` samples a text; `parse` finds all
derivations of the text from a position on. If a text has a single derivation, the bits of its choices are exactly its
information, so that the true entropy of the source is known.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import log2
from typing import NamedTuple, NoReturn, Protocol, TypeAlias

from forebear.demo.demo_lexicon import ChoiceProbabilities, DemoLexicon, LexiconEntry, RandomSource, zipf_weights
from forebear.errors import ForebearError

_REFERENCE = re.compile(
    r"(?P<silent>~)?(?:(?P<variable>[A-Z]\w*)=)?(?P<name>\w[\w.]*?)(?P<others>(?:-[A-Z]\w*)*)"
    r"(?:\.(?P<form>\w+))?(?:@(?P<condition>[A-Z]\w*))?(?:(?P<separator>[*+])(?P<count>\d))?"
)
_TOKEN = re.compile(r"[\[\]|]|<[^>]*>?|[^\[\]|<]+")  # of the notation of an alternative
_WEIGHT = re.compile(r"(\d+)\* ?")
ZIPF_SHIFT = 5  # for the weights of alternatives: the first of ten is three times as likely as the last
_SENTENCE_START = re.compile(
    r"(?:^|(?<=[.!?] )|(?<=[.!?]” )|(?<=\w: )|(?<=[“\n]))[a-z]"
)  # letters that English capitalizes


class EntityMention(NamedTuple):
    """A mention of a remembered entry in the piece with index `piece`."""

    piece: int
    variable: str
    entry: LexiconEntry
    key: str  # language.form

    @property
    def form(self) -> str:
        return self.key.partition(".")[2]


@dataclass(slots=True)
class GenerationState:
    """A text during generation: its pieces so far, and the remembered entries (people, places, outcomes)."""

    random_source: RandomSource
    pieces: list[str] = field(default_factory=list)
    memory: dict[str, LexiconEntry] = field(default_factory=dict)
    mentions: list[EntityMention] = field(default_factory=list)

    def add_entry(self, variable: str, entry: LexiconEntry, key: str) -> None:
        self.mentions.append(EntityMention(len(self.pieces), variable, entry, key))
        self.pieces.append(entry.forms[key])

    def text(self) -> str:
        return _SENTENCE_START.sub(lambda match: match[0].upper(), "".join(self.pieces))


class ParseInput:
    """A text that is parsed; at the start of a sentence a piece may be capitalized."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.sentence_starts = {match.start() for match in _SENTENCE_START.finditer(text.lower())}

    def starts_with(self, piece: str, position: int) -> bool:
        if self.text.startswith(piece, position):
            return True
        return position in self.sentence_starts and self.text.startswith(piece[:1].upper() + piece[1:], position)


Rest: TypeAlias = "tuple[GrammarNode, Rest] | tuple[()]"


class ParseState(NamedTuple):
    """A partial derivation: `rest` is a linked list of the nodes that must follow."""

    position: int
    memory: dict[str, LexiconEntry]
    rest: Rest
    bits: float


class GrammarNode(Protocol):
    """A node that can be generated and parsed."""

    def generate(self, generation: GenerationState) -> None: ...

    def parse(self, parse_input: ParseInput, state: ParseState) -> Iterator[ParseState]: ...


def derivation_bits(node: GrammarNode, text: str) -> Iterator[float]:
    """The bits of every derivation of exactly this text."""
    parse_input = ParseInput(text)
    agenda = [ParseState(0, {}, (node, ()), 0.0)]
    while agenda:
        state = agenda.pop()
        if state.rest:
            first, rest = state.rest
            agenda.extend(first.parse(parse_input, state._replace(rest=rest)))
        elif state.position == len(text):
            yield state.bits


def text_information(node: GrammarNode, text: str) -> float:
    """−log2 of the probability of this text over all derivations; infinite if the grammar cannot generate it."""
    all_bits = list(derivation_bits(node, text))
    min_bits = min(all_bits, default=float("inf"))
    return min_bits - log2(sum(2 ** (min_bits - bits) for bits in all_bits)) if all_bits else min_bits


class LiteralNode:
    """Fixed text."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        # A sentence that starts within the text is capitalized here; its first letter depends on what precedes.
        self.text = text[:1] + _SENTENCE_START.sub(lambda match: match[0].upper(), "x" + text)[2:]

    def generate(self, generation: GenerationState) -> None:
        generation.pieces.append(self.text)

    def parse(self, parse_input: ParseInput, state: ParseState) -> Iterator[ParseState]:
        if parse_input.starts_with(self.text, state.position):
            yield state._replace(position=state.position + len(self.text))


@dataclass(frozen=True, eq=False, slots=True)
class SequenceNode:
    """Nodes in sequence."""

    nodes: tuple[GrammarNode, ...]

    def generate(self, generation: GenerationState) -> None:
        for node in self.nodes:
            node.generate(generation)

    def parse(self, parse_input: ParseInput, state: ParseState) -> Iterator[ParseState]:
        rest = state.rest
        for node in reversed(self.nodes):
            rest = (node, rest)
        yield state._replace(rest=rest)


@dataclass(eq=False, slots=True)
class AlternativeNode:
    """One of several nodes; those of a rule are set after all rules exist, since rules may refer to one another."""

    nodes: tuple[GrammarNode, ...] = ()
    probabilities: ChoiceProbabilities = field(default_factory=lambda: ChoiceProbabilities([]))

    def generate(self, generation: GenerationState) -> None:
        self.nodes[generation.random_source.choose(self.probabilities)].generate(generation)

    def parse(self, parse_input: ParseInput, state: ParseState) -> Iterator[ParseState]:
        for node, bits in zip(self.nodes, self.probabilities.bits, strict=True):
            yield state._replace(rest=(node, state.rest), bits=state.bits + bits)


@dataclass(frozen=True, eq=False, slots=True)
class SubsetNode:
    """A number of different alternatives of a rule, in any order, with a separator between them.

    used  alternatives that are used already: in parsing, such a node represents the rest of the subset
    """

    rule: AlternativeNode
    count: int
    separator: str
    used: frozenset[int] = frozenset()

    def generate(self, generation: GenerationState) -> None:
        rule, excluded = self.rule, set[int]()
        for number in range(self.count):
            if number and self.separator:
                generation.pieces.append(self.separator)
            index = generation.random_source.choose_without(rule.probabilities, excluded)
            excluded.add(index)
            rule.nodes[index].generate(generation)

    def parse(self, parse_input: ParseInput, state: ParseState) -> Iterator[ParseState]:
        position = state.position
        if self.used and self.separator:
            if not parse_input.starts_with(self.separator, position):
                return
            position += len(self.separator)
        for index, node in enumerate(self.rule.nodes):
            if index not in self.used:
                used = self.used | {index}
                rest = state.rest if len(used) == self.count else (replace(self, used=used), state.rest)
                bits = state.bits + self.rule.probabilities.bits_without(index, self.used)
                yield ParseState(position, state.memory, (node, rest), bits)


@dataclass(frozen=True, eq=False, slots=True)
class LexiconNode:
    """Chooses an entry of a lexicon, remembers it if there is a variable, and generates it unless silent."""

    lexicon: DemoLexicon
    key: str
    variable: str
    excluded_variables: tuple[str, ...]
    is_silent: bool
    _by_first_char: dict[str, list[int]] = field(default_factory=dict)

    def generate(self, generation: GenerationState) -> None:
        excluded = self._excluded_indices(generation.memory)
        index = generation.random_source.choose_without(self.lexicon.probabilities, excluded)
        entry = self.lexicon.entries[index]
        if self.variable:
            generation.memory[self.variable] = entry
        if not self.is_silent:
            generation.add_entry(self.variable, entry, self.key)

    def parse(self, parse_input: ParseInput, state: ParseState) -> Iterator[ParseState]:
        excluded = self._excluded_indices(state.memory)
        for index in self._candidates(parse_input.text[state.position : state.position + 1]):
            entry = self.lexicon.entries[index]
            piece = "" if self.is_silent else entry.forms[self.key]
            if index not in excluded and parse_input.starts_with(piece, state.position):
                memory = {**state.memory, self.variable: entry} if self.variable else state.memory
                bits = state.bits + self.lexicon.probabilities.bits_without(index, excluded)
                yield ParseState(state.position + len(piece), memory, state.rest, bits)

    def _candidates(self, char: str) -> Sequence[int]:
        """The entries whose form begins with this character; there are too many people to try them all."""
        entries = self.lexicon.entries
        if self.is_silent:
            return range(len(entries))
        if not self._by_first_char:
            for index, entry in enumerate(entries):
                self._by_first_char.setdefault(entry.forms[self.key][:1].lower(), []).append(index)
        return self._by_first_char.get(char.lower(), ())

    def _excluded_indices(self, memory: dict[str, LexiconEntry]) -> set[int]:
        index_by_id = self.lexicon.indices
        return {index_by_id[id(memory[other])] for other in self.excluded_variables if id(memory[other]) in index_by_id}


@dataclass(frozen=True, eq=False, slots=True)
class ReferenceNode:
    """Generates a form of a remembered entry."""

    variable: str
    key: str

    def generate(self, generation: GenerationState) -> None:
        generation.add_entry(self.variable, generation.memory[self.variable], self.key)

    def parse(self, parse_input: ParseInput, state: ParseState) -> Iterator[ParseState]:
        piece = state.memory[self.variable].forms[self.key]
        if parse_input.starts_with(piece, state.position):
            yield state._replace(position=state.position + len(piece))


@dataclass(frozen=True, eq=False, slots=True)
class ConditionalNode:
    """The rule for the kind of a remembered entry, such as consequences of rain after rain."""

    variable: str
    rules: dict[str, AlternativeNode]

    def generate(self, generation: GenerationState) -> None:
        self.rules[generation.memory[self.variable].kind].generate(generation)

    def parse(self, parse_input: ParseInput, state: ParseState) -> Iterator[ParseState]:
        return self.rules[state.memory[self.variable].kind].parse(parse_input, state)


# --- The notation of rules ---
#
# A rule's name is not indented, its alternatives below it at four spaces, common ones first; deeper lines continue an
# alternative; lines that begin with # are comments. Within an alternative:
#
#     [a|b|]            a, b or nothing                3* before an alternative makes it three times as likely
#     <food>            an entry of the lexicon, or an alternative of the rule, of this name
#     <P=person>        a person, remembered as P      <Q=person-P> a person other than P   <~P=person> not written
#     <P.he>            the entry remembered as P, in its form `he`
#     <mood@W>          the rule `mood.K`, where K is the kind of the entry remembered as W
#     ¶ _               a new line; a space that is not stripped
#     <remark*2>        two different alternatives of the rule `remark`; with + instead of * without a space between


class Location(NamedTuple):
    """The file and line of an alternative."""

    rule: str
    file: str | None
    line: int


class RuleText(NamedTuple):
    """A rule before parsing: the text of its alternatives, each with its location."""

    name: str
    location: Location
    alternatives: list[tuple[str, Location]]


def parse_rules(text: str, language: str, file: str | None = None) -> list[RuleText]:
    """The rules of a text in the notation above; in English, a continuation line is joined with a space."""
    rules: list[RuleText] = []
    for number, line in enumerate(text.splitlines(), 1):
        depth, content = len(line) - len(line.lstrip()), line.strip()
        if not content or (depth == 0 and content.startswith("#")):
            continue
        if depth == 0:
            rules.append(RuleText(content, Location(content, file, number), []))
            continue
        if not rules:
            raise ForebearError("an alternative before the first rule", file=file, line=number)
        alternatives = rules[-1].alternatives
        if depth <= 4:
            location = Location(rules[-1].name, file, number)
            alternatives.append(
                (re.sub(r"(^|\* ?)-$", r"\1", content), location)
            )  # a single - is the empty alternative
        elif not alternatives:
            raise ForebearError(f"rule {rules[-1].name!r}: no alternative to continue", file=file, line=number)
        else:
            alternative, location = alternatives[-1]
            alternatives[-1] = (alternative + (" " if language == "en" else "") + content, location)
    return rules


Alternative: TypeAlias = tuple[int, list[GrammarNode]]  # weight, and nodes in sequence


class DemoGrammar:
    """The rules of one language over the lexicons of the world."""

    def __init__(self, language: str, lexicons: Mapping[str, DemoLexicon], rules: Iterable[RuleText]) -> None:
        self.language, self.lexicons = language, lexicons
        self.rules: dict[str, AlternativeNode] = {}
        texts = list(rules)
        for rule in texts:
            if rule.name in self.rules or rule.name in lexicons:
                file, line = rule.location.file, rule.location.line
                raise ForebearError(f"the {language} grammar has two things named {rule.name!r}", file=file, line=line)
            self.rules[rule.name] = AlternativeNode()
        for rule in texts:
            node = _alternative_node([self._parse_alternative(text, location) for text, location in rule.alternatives])
            self.rules[rule.name].nodes, self.rules[rule.name].probabilities = node.nodes, node.probabilities

    def _parse_alternative(self, text: str, location: Location) -> Alternative:
        text = text.replace("¶", "\n").replace("_", " ")
        brackets: list[list[Alternative]] = [[(1, [])]]  # alternatives of every open bracket, the outermost first
        for token in _TOKEN.findall(text):
            _, nodes = brackets[-1][-1]
            if token == "[":
                brackets.append([(1, [])])
            elif token == "|" and len(brackets) > 1:
                brackets[-1].append((1, []))
            elif token == "]" and len(brackets) > 1:
                choice = _alternative_node(brackets.pop())
                brackets[-1][-1][1].append(choice)
            elif token[0] == "<":
                nodes.append(self._reference(token, location))
            elif not nodes and (weight := _WEIGHT.match(token)):
                words = token[weight.end() :]
                brackets[-1][-1] = int(weight[1]), [LiteralNode(words)] if words else []
            else:
                nodes.append(LiteralNode(token))
        if len(brackets) > 1:
            self._fail(f"a [ that never closes in {text!r}", location)
        return brackets[0][0]

    def _reference(self, text: str, location: Location) -> GrammarNode:
        if not text.endswith(">"):
            self._fail(f"a < that never closes in {text!r}", location)
        match = _REFERENCE.fullmatch(text[1:-1])
        if not match:
            self._fail(f"{text} is no reference", location)
        name, form = match["name"], match["form"] or ""
        if not match["variable"] and name[0].isupper():
            return ReferenceNode(name, f"{self.language}.{form}")
        rule = f"{name}.{form}" if form else name
        if match["condition"]:
            rules = {key[len(rule) + 1 :]: node for key, node in self.rules.items() if key.startswith(f"{rule}.")}
            return ConditionalNode(match["condition"], rules or self._fail(f"no rules are named {rule}.…", location))
        if rule in self.rules:
            node = self.rules[rule]
            separator = " " if self.language == "en" and match["separator"] == "*" else ""
            return SubsetNode(node, int(match["count"]), separator) if match["count"] else node
        if name not in self.lexicons:
            self._fail(f"nothing is named {name!r}", location)
        excluded_variables, key = tuple(match["others"].split("-")[1:]), f"{self.language}.{form}"
        return LexiconNode(
            self.lexicons[name], key, match["variable"] or "", excluded_variables, is_silent=bool(match["silent"])
        )

    def _fail(self, message: str, location: Location) -> NoReturn:
        description = f"{self.language} grammar, rule {location.rule!r}: {message}"
        raise ForebearError(description, file=location.file, line=location.line)


def _alternative_node(alternatives: Sequence[Alternative]) -> AlternativeNode:
    weights = zipf_weights(len(alternatives), shift=ZIPF_SHIFT)
    probabilities = ChoiceProbabilities(
        [factor * weight for (factor, _), weight in zip(alternatives, weights, strict=True)]
    )
    sequences = (nodes[0] if len(nodes) == 1 else SequenceNode(tuple(nodes)) for _, nodes in alternatives)
    return AlternativeNode(tuple(sequences), probabilities)
