"""How the grammar is written down: rules as indented text, compiled into nodes.

A rule's name stands at the margin, its alternatives below it at four spaces, common ones first; deeper lines continue
an alternative. Within one:

    [a|b|]            one of these, or nothing       3* before an alternative makes it three times as likely
    <food>            some entry of the lexicon, or an alternative of the rule, of this name
    <P=person>        some person, remembered as P   <Q=person-P> another one than P   <~P=person> without saying it
    <P.he>            what is remembered as P, in its form `he`
    <mood@W>          the rule `mood.K`, where K is the kind of what is remembered as W
    ¶ _               a new line; a space that is kept at the margin
    <remark*2>        two alternatives of the rule `remark`, not the same one twice; with + instead of * nothing between
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NoReturn

from forebear.demo.chooser import Odds, zipf
from forebear.demo.grammar import Choice, Depending, Node, Pick, Rule, Say, Series, Several, Words
from forebear.demo.lexicon import Lexicon
from forebear.errors import ForebearError

_REFERENCE = re.compile(
    r"(?P<silent>~)?(?:(?P<variable>[A-Z]\w*)=)?(?P<name>\w[\w.]*?)(?P<others>(?:-[A-Z]\w*)*)"
    r"(?:\.(?P<form>\w+))?(?:@(?P<on>[A-Z]\w*))?(?:(?P<apart>[*+])(?P<count>\d))?"
)
_WEIGHT = re.compile(r"(\d+)\* ?")
FLATNESS = 5  # of the odds of alternatives, by rank: the first of ten is three times as likely as the last


class Grammar:
    """The rules of one language over the lexicons of the world."""

    def __init__(self, language: str, lexicons: Mapping[str, Lexicon], texts: Iterable[str]) -> None:
        self.language, self.lexicons = language, lexicons
        self.rules: dict[str, Rule] = {}
        self._joint = " " if language == "en" else ""
        written = [pair for text in texts for pair in _written(text, self._joint)]
        for name, _ in written:
            if name in self.rules or name in lexicons:
                raise ForebearError(f"the {language} grammar has two things named {name!r}")
            self.rules[name] = Rule(name)
        for name, alternatives in written:
            self.rules[name].choice = self._choice(alternatives, name)

    def _choice(self, alternatives: list[str], rule: str) -> Choice:
        weights = zipf(len(alternatives), shift=FLATNESS)
        bare = []
        for number, alternative in enumerate(alternatives):
            if found := _WEIGHT.match(alternative):
                weights[number] *= int(found[1])
                alternative = alternative[found.end() :]
            bare.append(alternative)
        return Choice([self._series(alternative, rule) for alternative in bare], Odds(weights))

    def _series(self, text: str, rule: str) -> Node:
        nodes: list[Node] = []
        position = 0
        while position < len(text):
            end = _end(text, position, rule)
            part, position = text[position:end], end
            if part[0] == "[":
                nodes.append(self._choice(_alternatives(part[1:-1]), rule))
            elif part[0] == "<":
                nodes.append(self._reference(part[1:-1], rule))
            else:
                nodes.append(Words(part))
        return nodes[0] if len(nodes) == 1 else Series(nodes)

    def _reference(self, text: str, rule: str) -> Node:
        found = _REFERENCE.fullmatch(text)
        if not found:
            self._complain(f"<{text}> is no reference", rule)
        name, form = found["name"], found["form"] or ""
        if not found["variable"] and name[0].isupper():
            return Say(name, f"{self.language}.{form}")
        full = f"{name}.{form}" if form else name
        if found["on"]:
            return self._depending(full, found["on"], rule)
        if full in self.rules:
            node = self.rules[full]
            joint = self._joint if found["apart"] == "*" else ""
            return Several(node, int(found["count"]), joint) if found["count"] else node
        if name not in self.lexicons:
            self._complain(f"nothing is named {name!r}", rule)
        others = tuple(found["others"].split("-")[1:])
        return Pick(
            self.lexicons[name], f"{self.language}.{form}", found["variable"] or "", others, bool(found["silent"])
        )

    def _depending(self, name: str, variable: str, rule: str) -> Node:
        start = f"{name}."
        kinds = {full.removeprefix(start): node for full, node in self.rules.items() if full.startswith(start)}
        if not kinds:
            self._complain(f"no rules are named {start}…", rule)
        return Depending(variable, kinds)

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
