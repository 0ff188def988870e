"""What a run is shown that is asked without training: templates, the words of labels, examples, and what has room."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, takewhile
from typing import TYPE_CHECKING

import numpy as np

from forebear.errors import BadInput
from forebear.text.characters import codes_of, is_han, sound

if TYPE_CHECKING:
    from forebear.text.tokenizer import Pieces, Tokenizer

Labels = str | Sequence[str] | Mapping[str, str | Sequence[str]]
Shots = Sequence[tuple[str, str]]

ENGLISH, CHINESE = "{text} It was {label}.", "{text}\n这是{label}的。"
QUESTION, CHINESE_QUESTION = "Q: {text}\nA: {label}", "问：{text}\n答：{label}"
BETWEEN_SHOTS = "\n\n"
MAINLY = 0.2  # the share of Chinese characters in what is Chinese
_COMMA = re.compile("[,，]")


# -- what can be answered


@dataclass(frozen=True)
class Option:
    """An answer by its name, and the words that stand for it in a text."""

    name: str
    wordings: tuple[str, ...]


def options_of(labels: Labels) -> tuple[Option, ...]:
    """Labels as a person gives them: "good,bad", "good=fine|great,bad=poor", a list, or words by label."""
    if isinstance(labels, str):
        parts = [part.strip().partition("=") for part in _COMMA.split(labels)]
        made = [Option(name.strip(), _words(words.split("|") if equals else [name])) for name, equals, words in parts]
    elif isinstance(labels, Mapping):
        made = [Option(name, _words([words] if isinstance(words, str) else words)) for name, words in labels.items()]
    else:
        made = [Option(name, (name,)) for name in labels]
    return told_apart(made, "label", 'such as --labels "positive,negative" or "positive=great|good,negative=bad"')


def _words(words: Sequence[str]) -> tuple[str, ...]:
    return tuple(word.strip() for word in words)


def told_apart(options: Sequence[Option], what: str, remedy: str) -> tuple[Option, ...]:
    """Two options at least, none empty, no two alike: else there is nothing to choose."""
    if len(options) < 2:
        raise BadInput(f"with {len(options)} {what} there is nothing to choose", remedy=f"give two or more, {remedy}")
    names, wordings = [option.name for option in options], [word for option in options for word in option.wordings]
    if not all(name.strip() for name in names) or not all(word.strip() for word in wordings):
        raise BadInput(f"a {what} is empty", remedy=remedy)
    for found in (names, wordings):
        if twice := [name for name in dict.fromkeys(found) if found.count(name) > 1]:
            raise BadInput(f"{twice[0]!r} stands for two {what}s or twice", remedy="give each once")
    return tuple(options)


def read_shots(file: str | os.PathLike[str]) -> list[tuple[str, str]]:
    """Examples from a file with `text TAB answer` a line; a first line that says just these words is a header."""
    from forebear.text.blocks import Blocks
    from forebear.text.ledger import Ledger
    from forebear.text.records import numbered_lines
    from forebear.text.sources import find

    shots = []
    for source in find([file]):
        for number, line, _ in numbered_lines(Blocks(source, "utf-8", "fail", Ledger())):
            parts = [part.strip() for part in line.split("\t")]
            if (number == 1 and parts == ["text", "label"]) or not line.strip():
                continue
            if len(parts) != 2 or not all(parts):
                what = f"{len(parts)} columns" if len(parts) != 2 else "an empty column"
                raise BadInput(f"{what} in an example", file=source.name, line=number, remedy="write: text TAB answer")
            shots.append((parts[0], parts[1]))
    if not shots:
        raise BadInput("there are no examples", file=file, remedy="write a line for each: text TAB answer")
    return shots


# -- where words are put


@dataclass(frozen=True)
class Frame:
    """A place for words in a text: head left lead, the words, trail right tail. Left and right may be shortened.

    With `goes_on`, what stands before the words has its own tokens, and the words go on behind them.
    """

    head: str = ""
    left: str = ""
    lead: str = ""
    trail: str = ""
    right: str = ""
    tail: str = ""
    goes_on: bool = False

    @property
    def start(self) -> int:
        """Where the words begin."""
        return len(self.head) + len(self.left) + len(self.lead)

    def whole(self, words: str) -> str:
        return f"{self.head}{self.left}{self.lead}{words}{self.trail}{self.right}{self.tail}"

    def after(self, shown: str) -> Frame:
        """The same behind some examples."""
        return replace(self, head=shown + self.head)

    def shortened(self, spans: Sequence[tuple[int, int]], words: str, excess: int) -> tuple[Frame, int] | None:
        """Without so many tokens that lie farthest from the words, and how many went; None: there are not so many.

        Whole characters go, so it may be more. `spans` are those of the tokens of the whole with these words.
        """
        first, last = len(self.head), len(self.head) + len(self.left)
        lefts = [spans[n] for n in reaching(spans, first, last)]
        begin = self.start + len(words) + len(self.trail)
        rights = [spans[n] for n in reaching(spans, begin, begin + len(self.right))]
        keep = len(lefts) + len(rights) - excess
        if keep < 1:
            return None
        kept = min(
            len(lefts), max(keep - len(rights), keep - keep // 2)
        )  # of both sides alike, where both have so many
        left, right, gone = self.left, self.right, 0
        if kept < len(lefts):
            at = lefts[-kept][0] if kept else last
            left, gone = left[at - first :], sum(end <= at for _, end in lefts)
            left = left.lstrip() if self.head[-1:].isspace() else left  # one space is enough, and two cost a token
        if (at := keep - kept) < len(rights):
            while at and rights[at][0] == rights[at][1]:  # a further byte of a character, which goes as a whole
                at -= 1
            right, gone = right[: rights[at - 1][1] - begin if at else 0], gone + len(rights) - at
        return replace(self, left=left, right=right), gone


def reaching(spans: Sequence[tuple[int, int]], first: int, last: int) -> list[int]:
    """The numbers of the tokens that reach into a part of a text; one with an empty span is of the character before."""
    return [n for n, (a, b) in enumerate(spans) if (a < last and b > first if a < b else first < a <= last)]


@dataclass(frozen=True)
class Template:
    """Text around {text} and {label}, in whichever order; all other braces are text."""

    before: str
    between: str
    behind: str
    label_first: bool

    @classmethod
    def of(cls, written: str) -> Template:
        for mark in ("{text}", "{label}"):
            if (count := written.count(mark)) != 1:
                what = f"the template has {mark} {count} times" if count else f"the template has no {mark}"
                raise BadInput(what, remedy=f"write {{text}} and {{label}} once each, such as {ENGLISH!r}")
        text, label = written.index("{text}"), written.index("{label}")
        before, between, behind = re.split(r"\{text\}|\{label\}", written)
        return cls(before, between, behind, label < text)

    def frame(self, text: str) -> Frame:
        """With the text in its place; where there is none at the edge of the whole, no space stands for it."""
        if self.label_first:
            between = self.between if text or self.behind else self.between.rstrip()
            return Frame(lead=self.before, trail=between, right=text, tail=self.behind)
        between = self.between if text or self.before else self.between.lstrip()
        return Frame(head=self.before, left=text, lead=between, trail=self.behind)

    def shown(self, shots: Shots, wordings: Mapping[str, str] | None = None) -> list[str]:
        """Examples as they stand before what is asked; `wordings` gives the words for their labels."""
        labelled = [(text, label if wordings is None else wordings[label]) for text, label in shots]
        return [self.frame(sound(text)).whole(sound(words)) + BETWEEN_SHOTS for text, words in labelled]


def is_chinese(*texts: str) -> bool:
    """Whether a good part of the texts are Chinese characters: a foreign name makes none Chinese."""
    codes = codes_of("".join(texts))
    return bool(len(codes)) and float(is_han(codes).mean()) > MAINLY


# -- what has room


@dataclass(frozen=True)
class Fitted:
    """A frame with each wording as tokens; `cut` tokens of its text are left out, `shots` examples stand before it."""

    frame: Frame
    wordings: tuple[str, ...]
    pieces: tuple[Pieces, ...]
    cut: int = 0
    shots: int = 0

    @property
    def longest(self) -> int:
        """The number of the wording with most tokens."""
        return max(range(len(self.pieces)), key=lambda number: len(self.pieces[number].ids))

    @property
    def tokens(self) -> int:
        """How many those are."""
        return len(self.pieces[self.longest].ids)


def going_on(before: str, words: str, tokenizer: Tokenizer) -> Pieces:
    """The tokens of a text and of words that go on behind it; none reaches from one into the other, as words of Chinese
    may that are found in the two together. A space at the end of the text belongs to what follows it."""
    from forebear.text.tokenizer import Pieces

    whole, border = tokenizer.encode(before + words), len(before.rstrip())
    own = tokenizer.encode(before[:border])
    count = len(own.ids)
    if np.array_equal(whole.ids[:count], own.ids) and all(begin >= border for begin, _ in whole.spans[count:]):
        return whole
    rest = tokenizer.encode((before + words)[border:])
    spans = [(begin + border, end + border) for begin, end in rest.spans]
    return Pieces(np.concatenate((own.ids, rest.ids)), own.spans + spans, own.texts + rest.texts)


def whole_with(frame: Frame, wordings: Sequence[str], tokenizer: Tokenizer, *, cut: int = 0, shots: int = 0) -> Fitted:
    """The frame with all its tokens, however many."""
    if frame.goes_on:
        before = frame.whole("")
        pieces = tuple(going_on(before, words, tokenizer) for words in wordings)
    else:
        pieces = tuple(tokenizer.encode(frame.whole(words)) for words in wordings)
    return Fitted(frame, tuple(wordings), pieces, cut, shots)


def fitted(frame: Frame, wordings: Sequence[str], tokenizer: Tokenizer, limit: int | None) -> Fitted:
    """The frame with its text shortened until each whole has at most `limit` tokens.

    What lies farthest from the words goes first: the beginning of what stands before them, the end of what follows.
    """
    found = whole_with(frame, wordings, tokenizer)
    while limit is not None and found.tokens > limit:
        words, spans = wordings[found.longest], found.pieces[found.longest].spans
        shorter = found.frame.shortened(spans, words, found.tokens - limit)
        if shorter is None:
            what = f"what stands around the text{f', with {words!r},' if words else ''} leaves it no room"
            raise BadInput(
                f"{what}: there is room for {max(limit, 0)} tokens in all",
                remedy="choose a shorter template or cue, shorter words, a smaller --length, or a run that sees more",
            )
        found = whole_with(shorter[0], wordings, tokenizer, cut=found.cut + shorter[1])
    return found


def fitted_behind(
    shots: Sequence[str], frame: Frame, wordings: Sequence[str], tokenizer: Tokenizer, limit: int | None
) -> Fitted:
    """The same behind as many of the examples, from the first on, as there is room for beside the uncut text."""
    found = fitted(frame, wordings, tokenizer, limit)
    if found.cut or not shots:
        return found
    count = len(shots)
    if limit is not None:
        room = limit - found.tokens
        taken = accumulate(len(tokenizer.encode(shot).ids) for shot in shots)
        count = len(list(takewhile(lambda tokens: tokens <= room, taken)))
    for shown in range(count, 0, -1):  # the tokens of the whole may be more than those of its parts
        more = whole_with(frame.after("".join(shots[:shown])), wordings, tokenizer, shots=shown)
        if limit is None or more.tokens <= limit:
            return more
    return found
