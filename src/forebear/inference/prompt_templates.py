"""What a run is shown that is asked without training: templates, the words of labels, examples, and what has room."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, takewhile
from typing import TYPE_CHECKING

import numpy as np

from forebear.data.tokenizers.char_level import code_points, is_han, replace_surrogates
from forebear.errors import InputError

if TYPE_CHECKING:
    from forebear.data.tokenizers.tokenizer import TokenEncoding, Tokenizer

LabelSpec = str | Sequence[str] | Mapping[str, str | Sequence[str]]
Shots = Sequence[tuple[str, str]]

ENGLISH_TEMPLATE, CHINESE_TEMPLATE = "{text} It was {label}.", "{text}\n这是{label}的。"
ENGLISH_QA_TEMPLATE, CHINESE_QA_TEMPLATE = "Q: {text}\nA: {label}", "问：{text}\n答：{label}"
BETWEEN_SHOTS = "\n\n"
MAINLY = 0.2  # the share of Chinese characters in what is Chinese
_COMMA = re.compile("[,，]")


# -- what can be answered


@dataclass(frozen=True)
class AnswerOption:
    """An answer by its name, and the words that stand for it in a text."""

    name: str
    wordings: tuple[str, ...]


def parse_labels(labels: LabelSpec) -> tuple[AnswerOption, ...]:
    """Labels as a person gives them: "good,bad", "good=fine|great,bad=poor", a list, or words by label."""
    if isinstance(labels, str):
        parts = [part.strip().partition("=") for part in _COMMA.split(labels)]
        made = [
            AnswerOption(name.strip(), _words(words.split("|") if equals else [name])) for name, equals, words in parts
        ]
    elif isinstance(labels, Mapping):
        made = [
            AnswerOption(name, _words([words] if isinstance(words, str) else words)) for name, words in labels.items()
        ]
    else:
        made = [AnswerOption(name, (name,)) for name in labels]
    return validate_options(made, "label", 'such as --labels "positive,negative" or "positive=great|good,negative=bad"')


def _words(words: Sequence[str]) -> tuple[str, ...]:
    return tuple(word.strip() for word in words)


def validate_options(options: Sequence[AnswerOption], what: str, hint: str) -> tuple[AnswerOption, ...]:
    """Two options at least, none empty, no two alike: else there is nothing to choose."""
    if len(options) < 2:
        raise InputError(f"with {len(options)} {what} there is nothing to choose", hint=f"give two or more, {hint}")
    names, wordings = [option.name for option in options], [word for option in options for word in option.wordings]
    if not all(name.strip() for name in names) or not all(word.strip() for word in wordings):
        raise InputError(f"a {what} is empty", hint=hint)
    for found in (names, wordings):
        if twice := [name for name in dict.fromkeys(found) if found.count(name) > 1]:
            raise InputError(f"{twice[0]!r} stands for two {what}s or twice", hint="give each once")
    return tuple(options)


def read_shots(file: str | os.PathLike[str]) -> list[tuple[str, str]]:
    """Examples from a file with `text TAB answer` a line; a first line that says just these words is a header."""
    from forebear.data.io.files import TextBlocks, find_sources
    from forebear.data.io.ledger import Ledger
    from forebear.data.io.reader import numbered_lines

    shots = []
    for source in find_sources([file]):
        for number, line, _ in numbered_lines(TextBlocks(source, "utf-8", "fail", Ledger())):
            parts = [part.strip() for part in line.split("\t")]
            if (number == 1 and parts == ["text", "label"]) or not line.strip():
                continue
            if len(parts) != 2 or not all(parts):
                what = f"{len(parts)} columns" if len(parts) != 2 else "an empty column"
                raise InputError(f"{what} in an example", file=source.name, line=number, hint="write: text TAB answer")
            shots.append((parts[0], parts[1]))
    if not shots:
        raise InputError("there are no examples", file=file, hint="write a line for each: text TAB answer")
    return shots


# -- where words are put


@dataclass(frozen=True)
class PromptFrame:
    """A place for words in a text: head left lead, the words, trail right tail. Left and right may be shortened.

    With `goes_on`, what stands before the words has its own tokens, and the words go on behind them.
    """

    head: str = ""
    left: str = ""
    lead: str = ""
    trail: str = ""
    right: str = ""
    tail: str = ""
    continues: bool = False

    @property
    def start(self) -> int:
        """Where the words begin."""
        return len(self.head) + len(self.left) + len(self.lead)

    def full_text(self, words: str) -> str:
        return f"{self.head}{self.left}{self.lead}{words}{self.trail}{self.right}{self.tail}"

    def text_after(self, shown: str) -> PromptFrame:
        """The same behind some examples."""
        return replace(self, head=shown + self.head)

    def shortened(self, spans: Sequence[tuple[int, int]], words: str, excess: int) -> tuple[PromptFrame, int] | None:
        """Without so many tokens that lie farthest from the words, and how many went; None: there are not so many.

        Whole characters go, so it may be more. `spans` are those of the tokens of the whole with these words.
        """
        first, last = len(self.head), len(self.head) + len(self.left)
        lefts = [spans[n] for n in overlapping_tokens(spans, first, last)]
        begin = self.start + len(words) + len(self.trail)
        rights = [spans[n] for n in overlapping_tokens(spans, begin, begin + len(self.right))]
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


def overlapping_tokens(spans: Sequence[tuple[int, int]], first: int, last: int) -> list[int]:
    """The numbers of the tokens that reach into a part of a text; one with an empty span is of the character before."""
    return [n for n, (a, b) in enumerate(spans) if (a < last and b > first if a < b else first < a <= last)]


@dataclass(frozen=True)
class PromptTemplate:
    """Text around {text} and {label}, in whichever order; all other braces are text."""

    before: str
    between: str
    after: str
    label_first: bool

    @classmethod
    def parse(cls, written: str) -> PromptTemplate:
        for mark in ("{text}", "{label}"):
            if (count := written.count(mark)) != 1:
                what = f"the template has {mark} {count} times" if count else f"the template has no {mark}"
                raise InputError(what, hint=f"write {{text}} and {{label}} once each, such as {ENGLISH_TEMPLATE!r}")
        text, label = written.index("{text}"), written.index("{label}")
        before, between, behind = re.split(r"\{text\}|\{label\}", written)
        return cls(before, between, behind, label < text)

    def frame(self, text: str) -> PromptFrame:
        """With the text in its place; where there is none at the edge of the whole, no space stands for it."""
        if self.label_first:
            between = self.between if text or self.after else self.between.rstrip()
            return PromptFrame(lead=self.before, trail=between, right=text, tail=self.after)
        between = self.between if text or self.before else self.between.lstrip()
        return PromptFrame(head=self.before, left=text, lead=between, trail=self.after)

    def render_shots(self, shots: Shots, wordings: Mapping[str, str] | None = None) -> list[str]:
        """Examples as they stand before what is asked; `wordings` gives the words for their labels."""
        labelled = [(text, label if wordings is None else wordings[label]) for text, label in shots]
        return [
            self.frame(replace_surrogates(text)).full_text(replace_surrogates(words)) + BETWEEN_SHOTS
            for text, words in labelled
        ]


def is_chinese(*texts: str) -> bool:
    """Whether a good part of the texts are Chinese characters: a foreign name makes none Chinese."""
    codes = code_points("".join(texts))
    return bool(len(codes)) and float(is_han(codes).mean()) > MAINLY


# -- what has room


@dataclass(frozen=True)
class FittedPrompt:
    """A frame with each wording as tokens; `cut` tokens of its text are left out, `shots` examples stand before it."""

    frame: PromptFrame
    wordings: tuple[str, ...]
    pieces: tuple[TokenEncoding, ...]
    num_truncated: int = 0
    shots: int = 0

    @property
    def max_length(self) -> int:
        """The number of the wording with most tokens."""
        return max(range(len(self.pieces)), key=lambda number: len(self.pieces[number].ids))

    @property
    def tokens(self) -> int:
        """How many those are."""
        return len(self.pieces[self.max_length].ids)


def continuation_tokens(before: str, words: str, tokenizer: Tokenizer) -> TokenEncoding:
    """The tokens of a text and of words that go on behind it; none reaches from one into the other, as words of Chinese
    may that are found in the two together. A space at the end of the text belongs to what follows it."""
    from forebear.data.tokenizers.tokenizer import TokenEncoding

    whole, border = tokenizer.encode(before + words), len(before.rstrip())
    own = tokenizer.encode(before[:border])
    count = len(own.ids)
    if np.array_equal(whole.ids[:count], own.ids) and all(begin >= border for begin, _ in whole.spans[count:]):
        return whole
    rest = tokenizer.encode((before + words)[border:])
    spans = [(begin + border, end + border) for begin, end in rest.spans]
    return TokenEncoding(np.concatenate((own.ids, rest.ids)), own.spans + spans, own.texts + rest.texts)


def whole_with(
    frame: PromptFrame, wordings: Sequence[str], tokenizer: Tokenizer, *, cut: int = 0, shots: int = 0
) -> FittedPrompt:
    """The frame with all its tokens, however many."""
    if frame.continues:
        before = frame.full_text("")
        pieces = tuple(continuation_tokens(before, words, tokenizer) for words in wordings)
    else:
        pieces = tuple(tokenizer.encode(frame.full_text(words)) for words in wordings)
    return FittedPrompt(frame, tuple(wordings), pieces, cut, shots)


def fit_prompt(frame: PromptFrame, wordings: Sequence[str], tokenizer: Tokenizer, limit: int | None) -> FittedPrompt:
    """The frame with its text shortened until each whole has at most `limit` tokens.

    What lies farthest from the words goes first: the beginning of what stands before them, the end of what follows.
    """
    found = whole_with(frame, wordings, tokenizer)
    while limit is not None and found.tokens > limit:
        words, spans = wordings[found.max_length], found.pieces[found.max_length].spans
        shorter = found.frame.shortened(spans, words, found.tokens - limit)
        if shorter is None:
            what = f"what stands around the text{f', with {words!r},' if words else ''} leaves it no room"
            raise InputError(
                f"{what}: there is room for {max(limit, 0)} tokens in all",
                hint="choose a shorter template or cue, shorter words, a smaller --length, or a run that sees more",
            )
        found = whole_with(shorter[0], wordings, tokenizer, cut=found.num_truncated + shorter[1])
    return found


def fit_with_shots(
    shots: Sequence[str], frame: PromptFrame, wordings: Sequence[str], tokenizer: Tokenizer, limit: int | None
) -> FittedPrompt:
    """The same behind as many of the examples, from the first on, as there is room for beside the uncut text."""
    found = fit_prompt(frame, wordings, tokenizer, limit)
    if found.num_truncated or not shots:
        return found
    count = len(shots)
    if limit is not None:
        room = limit - found.tokens
        taken = accumulate(len(tokenizer.encode(shot).ids) for shot in shots)
        count = len(list(takewhile(lambda tokens: tokens <= room, taken)))
    for shown in range(count, 0, -1):  # the tokens of the whole may be more than those of its parts
        more = whole_with(frame.text_after("".join(shots[:shown])), wordings, tokenizer, shots=shown)
        if limit is None or more.tokens <= limit:
            return more
    return found
