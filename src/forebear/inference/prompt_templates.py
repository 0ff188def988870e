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
MIN_CHINESE_SHARE = 0.2  # the share of Chinese characters in what is Chinese
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
        options = [
            AnswerOption(name.strip(), _strip_words(words.split("|") if has_words else [name]))
            for name, has_words, words in parts
        ]
    elif isinstance(labels, Mapping):
        options = [
            AnswerOption(name, _strip_words([words] if isinstance(words, str) else words))
            for name, words in labels.items()
        ]
    else:
        options = [AnswerOption(name, (name,)) for name in labels]
    return validate_options(
        options, "label", 'such as --labels "positive,negative" or "positive=great|good,negative=bad"'
    )


def _strip_words(words: Sequence[str]) -> tuple[str, ...]:
    return tuple(word.strip() for word in words)


def validate_options(options: Sequence[AnswerOption], noun: str, hint: str) -> tuple[AnswerOption, ...]:
    """Two options at least, none empty, no two alike: else there is nothing to choose."""
    if len(options) < 2:
        raise InputError(f"with {len(options)} {noun} there is nothing to choose", hint=f"give two or more, {hint}")
    names, wordings = [option.name for option in options], [word for option in options for word in option.wordings]
    if not all(name.strip() for name in names) or not all(word.strip() for word in wordings):
        raise InputError(f"a {noun} is empty", hint=hint)
    for values in (names, wordings):
        if duplicates := [name for name in dict.fromkeys(values) if values.count(name) > 1]:
            raise InputError(f"{duplicates[0]!r} stands for two {noun}s or twice", hint="give each once")
    return tuple(options)


def read_shots(file: str | os.PathLike[str]) -> list[tuple[str, str]]:
    """Examples from a file with `text TAB answer` a line; a first line that says just these words is a header."""
    from forebear.data.io.files import TextBlocks, find_sources
    from forebear.data.io.ledger import Ledger
    from forebear.data.io.reader import numbered_lines

    shots = []
    for source in find_sources([file]):
        for number, line, _ in numbered_lines(TextBlocks(source, "utf-8", "fail", Ledger())):
            columns = [part.strip() for part in line.split("\t")]
            if (number == 1 and columns == ["text", "label"]) or not line.strip():
                continue
            if len(columns) != 2 or not all(columns):
                message = f"{len(columns)} columns" if len(columns) != 2 else "an empty column"
                raise InputError(
                    f"{message} in an example", file=source.name, line=number, hint="write: text TAB answer"
                )
            shots.append((columns[0], columns[1]))
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

    def text_after(self, shot_text: str) -> PromptFrame:
        """The same behind some examples."""
        return replace(self, head=shot_text + self.head)

    def shortened(self, spans: Sequence[tuple[int, int]], words: str, excess: int) -> tuple[PromptFrame, int] | None:
        """Without so many tokens that lie farthest from the words, and how many went; None: there are not so many.

        Whole characters go, so it may be more. `spans` are those of the tokens of the whole with these words.
        """
        first, last = len(self.head), len(self.head) + len(self.left)
        left_spans = [spans[index] for index in overlapping_tokens(spans, first, last)]
        right_start = self.start + len(words) + len(self.trail)
        right_spans = [spans[index] for index in overlapping_tokens(spans, right_start, right_start + len(self.right))]
        num_kept = len(left_spans) + len(right_spans) - excess
        if num_kept < 1:
            return None
        left_kept = min(
            len(left_spans), max(num_kept - len(right_spans), num_kept - num_kept // 2)
        )  # of both sides alike, where both have so many
        left, right, num_removed = self.left, self.right, 0
        if left_kept < len(left_spans):
            cut = left_spans[-left_kept][0] if left_kept else last
            left, num_removed = left[cut - first :], sum(end <= cut for _, end in left_spans)
            left = left.lstrip() if self.head[-1:].isspace() else left  # one space is enough, and two cost a token
        if (cut := num_kept - left_kept) < len(right_spans):
            while (
                cut and right_spans[cut][0] == right_spans[cut][1]
            ):  # a further byte of a character, which goes as a whole
                cut -= 1
            right, num_removed = (
                right[: right_spans[cut - 1][1] - right_start if cut else 0],
                num_removed + len(right_spans) - cut,
            )
        return replace(self, left=left, right=right), num_removed


def overlapping_tokens(spans: Sequence[tuple[int, int]], first: int, last: int) -> list[int]:
    """The numbers of the tokens that reach into a part of a text; one with an empty span is of the character before."""
    return [
        index
        for index, (begin, stop) in enumerate(spans)
        if (begin < last and stop > first if begin < stop else first < begin <= last)
    ]


@dataclass(frozen=True)
class PromptTemplate:
    """Text around {text} and {label}, in whichever order; all other braces are text."""

    before: str
    between: str
    after: str
    label_first: bool

    @classmethod
    def parse(cls, pattern: str) -> PromptTemplate:
        for placeholder in ("{text}", "{label}"):
            if (count := pattern.count(placeholder)) != 1:
                message = (
                    f"the template has {placeholder} {count} times" if count else f"the template has no {placeholder}"
                )
                raise InputError(message, hint=f"write {{text}} and {{label}} once each, such as {ENGLISH_TEMPLATE!r}")
        text_position, label_position = pattern.index("{text}"), pattern.index("{label}")
        before, between, after = re.split(r"\{text\}|\{label\}", pattern)
        return cls(before, between, after, label_position < text_position)

    def frame(self, text: str) -> PromptFrame:
        """With the text in its place; where there is none at the edge of the whole, no space stands for it."""
        if self.label_first:
            between = self.between if text or self.after else self.between.rstrip()
            return PromptFrame(lead=self.before, trail=between, right=text, tail=self.after)
        between = self.between if text or self.before else self.between.lstrip()
        return PromptFrame(head=self.before, left=text, lead=between, trail=self.after)

    def render_shots(self, shots: Shots, wordings: Mapping[str, str] | None = None) -> list[str]:
        """Examples as they stand before what is asked; `wordings` gives the words for their labels."""
        answered = [(text, label if wordings is None else wordings[label]) for text, label in shots]
        return [
            self.frame(replace_surrogates(text)).full_text(replace_surrogates(words)) + BETWEEN_SHOTS
            for text, words in answered
        ]


def is_chinese(*texts: str) -> bool:
    """Whether a good part of the texts are Chinese characters: a foreign name makes none Chinese."""
    codes = code_points("".join(texts))
    return bool(len(codes)) and float(is_han(codes).mean()) > MIN_CHINESE_SHARE


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

    encoding, boundary = tokenizer.encode(before + words), len(before.rstrip())
    prefix_encoding = tokenizer.encode(before[:boundary])
    num_prefix = len(prefix_encoding.ids)
    if np.array_equal(encoding.ids[:num_prefix], prefix_encoding.ids) and all(
        begin >= boundary for begin, _ in encoding.spans[num_prefix:]
    ):
        return encoding
    rest = tokenizer.encode((before + words)[boundary:])
    spans = [(begin + boundary, end + boundary) for begin, end in rest.spans]
    return TokenEncoding(
        np.concatenate((prefix_encoding.ids, rest.ids)),
        prefix_encoding.spans + spans,
        prefix_encoding.texts + rest.texts,
    )


def whole_with(
    frame: PromptFrame, wordings: Sequence[str], tokenizer: Tokenizer, *, cut: int = 0, shots: int = 0
) -> FittedPrompt:
    """The frame with all its tokens, however many."""
    if frame.continues:
        before = frame.full_text("")
        encodings = tuple(continuation_tokens(before, words, tokenizer) for words in wordings)
    else:
        encodings = tuple(tokenizer.encode(frame.full_text(words)) for words in wordings)
    return FittedPrompt(frame, tuple(wordings), encodings, cut, shots)


def fit_prompt(frame: PromptFrame, wordings: Sequence[str], tokenizer: Tokenizer, limit: int | None) -> FittedPrompt:
    """The frame with its text shortened until each whole has at most `limit` tokens.

    What lies farthest from the words goes first: the beginning of what stands before them, the end of what follows.
    """
    fitted = whole_with(frame, wordings, tokenizer)
    while limit is not None and fitted.tokens > limit:
        words, spans = wordings[fitted.max_length], fitted.pieces[fitted.max_length].spans
        shorter = fitted.frame.shortened(spans, words, fitted.tokens - limit)
        if shorter is None:
            message = f"what stands around the text{f', with {words!r},' if words else ''} leaves it no room"
            raise InputError(
                f"{message}: there is room for {max(limit, 0)} tokens in all",
                hint="choose a shorter template or cue, shorter words, a smaller --length, or a run that sees more",
            )
        fitted = whole_with(shorter[0], wordings, tokenizer, cut=fitted.num_truncated + shorter[1])
    return fitted


def fit_with_shots(
    shots: Sequence[str], frame: PromptFrame, wordings: Sequence[str], tokenizer: Tokenizer, limit: int | None
) -> FittedPrompt:
    """The same behind as many of the examples, from the first on, as there is room for beside the uncut text."""
    fitted = fit_prompt(frame, wordings, tokenizer, limit)
    if fitted.num_truncated or not shots:
        return fitted
    count = len(shots)
    if limit is not None:
        room = limit - fitted.tokens
        total_tokens = accumulate(len(tokenizer.encode(shot).ids) for shot in shots)
        count = len(list(takewhile(lambda tokens: tokens <= room, total_tokens)))
    for num_shown in range(count, 0, -1):  # the tokens of the whole may be more than those of its parts
        longer = whole_with(frame.text_after("".join(shots[:num_shown])), wordings, tokenizer, shots=num_shown)
        if limit is None or longer.tokens <= limit:
            return longer
    return fitted
