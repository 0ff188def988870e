"""Prompt templates, verbalizers of labels and few-shot examples, and prompts that fit the maximum length."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, takewhile
from typing import TYPE_CHECKING

import numpy as np

from forebear.data.unicode import code_points, is_han, replace_surrogates
from forebear.errors import InputError

if TYPE_CHECKING:
    from forebear.data.tokenizers.tokenizer import TokenEncoding, Tokenizer

LabelSpec = str | Sequence[str] | Mapping[str, str | Sequence[str]]
Shots = Sequence[tuple[str, str]]

ENGLISH_TEMPLATE, CHINESE_TEMPLATE = "{text} It was {label}.", "{text}\n这是{label}的。"
ENGLISH_QA_TEMPLATE, CHINESE_QA_TEMPLATE = "Q: {text}\nA: {label}", "问：{text}\n答：{label}"
BETWEEN_SHOTS = "\n\n"
MIN_CHINESE_FRACTION = 0.2  # minimum fraction of Chinese characters in Chinese text
_COMMA = re.compile("[,，]")


# --- Answer options ---


@dataclass(frozen=True)
class AnswerOption:
    """An answer and its verbalizers: the words that express it in a text."""

    name: str
    verbalizers: tuple[str, ...]


def parse_labels(labels: LabelSpec) -> tuple[AnswerOption, ...]:
    """Parse labels: "good,bad", "good=fine|great,bad=poor", a list, or verbalizers by label."""
    if isinstance(labels, str):
        partitions = [part.strip().partition("=") for part in _COMMA.split(labels)]
        pairs = [(name.strip(), words.split("|") if separator else [name]) for name, separator, words in partitions]
        options = [AnswerOption(name, tuple(map(str.strip, words))) for name, words in pairs]
    elif isinstance(labels, Mapping):
        pairs = [(name, [words] if isinstance(words, str) else words) for name, words in labels.items()]
        options = [AnswerOption(name, tuple(map(str.strip, words))) for name, words in pairs]
    else:
        options = [AnswerOption(name, (name,)) for name in labels]
    hint = 'such as --labels "positive,negative" or "positive=great|good,negative=bad"'
    return validate_options(options, "label", hint)


def validate_options(options: Sequence[AnswerOption], noun: str, hint: str) -> tuple[AnswerOption, ...]:
    """Raise InputError unless there are at least two options, none empty or repeated."""
    if len(options) < 2:
        raise InputError(f"with {len(options)} {noun} there is nothing to choose", hint=f"give two or more, {hint}")
    names, words = [option.name for option in options], [word for option in options for word in option.verbalizers]
    if not all(text.strip() for text in (*names, *words)):
        raise InputError(f"a {noun} is empty", hint=hint)
    for values in (names, words):
        if duplicates := [name for name in dict.fromkeys(values) if values.count(name) > 1]:
            raise InputError(f"{duplicates[0]!r} stands for two {noun}s or twice", hint="give each once")
    return tuple(options)


def read_shots(file: str | os.PathLike[str]) -> list[tuple[str, str]]:
    """Read few-shot examples from a TSV file of text and answer; a header "text TAB label" is skipped."""
    from forebear.data.io.sources import find_sources
    from forebear.data.io.text_blocks import TextBlocks
    from forebear.data.io.text_formats import numbered_lines
    from forebear.data.io.text_ledger import Ledger

    shots = []
    for source in find_sources([file]):
        for number, line, _ in numbered_lines(TextBlocks(source, "utf-8", "fail", Ledger())):
            columns = [part.strip() for part in line.split("\t")]
            if (number == 1 and columns == ["text", "label"]) or not line.strip():
                continue
            if len(columns) != 2 or not all(columns):
                message = f"{len(columns)} columns" if len(columns) != 2 else "an empty column"
                hint = "write: text TAB answer"
                raise InputError(f"{message} in an example", file=source.name, line=number, hint=hint)
            shots.append((columns[0], columns[1]))
    if not shots:
        raise InputError("there are no examples", file=file, hint="write a line for each: text TAB answer")
    return shots


# --- Templates ---


@dataclass(frozen=True)
class PromptFrame:
    """The text around a verbalizer: head, left and lead before it; trail, right and tail after it.

    Only left and right may be shortened. With `is_continuation`, the text before the verbalizer is tokenized by itself.
    """

    head: str = ""
    left: str = ""
    lead: str = ""
    trail: str = ""
    right: str = ""
    tail: str = ""
    is_continuation: bool = False

    @property
    def start(self) -> int:
        """Offset of the verbalizer."""
        return len(self.head) + len(self.left) + len(self.lead)

    def full_text(self, words: str) -> str:
        return f"{self.head}{self.left}{self.lead}{words}{self.trail}{self.right}{self.tail}"

    def after_shots(self, shot_text: str) -> PromptFrame:
        return replace(self, head=shot_text + self.head)

    def shorten(self, spans: Sequence[tuple[int, int]], words: str, excess: int) -> tuple[PromptFrame, int] | None:
        """Remove the `excess` tokens farthest from `words`; return the frame and the number removed, or None.

        Whole characters are removed, so it may be more tokens. `spans` are those of all tokens of the full text.
        """
        first, last = len(self.head), len(self.head) + len(self.left)
        left_spans = [spans[index] for index in overlapping_tokens(spans, first, last)]
        right_start = self.start + len(words) + len(self.trail)
        right_spans = [spans[index] for index in overlapping_tokens(spans, right_start, right_start + len(self.right))]
        num_kept = len(left_spans) + len(right_spans) - excess
        if num_kept < 1:
            return None
        # Tokens are removed evenly from both sides if both have enough.
        left_kept = min(len(left_spans), max(num_kept - len(right_spans), num_kept - num_kept // 2))
        left, right, num_removed = self.left, self.right, 0
        if left_kept < len(left_spans):
            cut = left_spans[-left_kept][0] if left_kept else last
            left, num_removed = left[cut - first :], sum(end <= cut for _, end in left_spans)
            left = left.lstrip() if self.head[-1:].isspace() else left  # a second space would cost a token
        if (cut := num_kept - left_kept) < len(right_spans):
            while cut and right_spans[cut][0] == right_spans[cut][1]:  # a further byte of the same character
                cut -= 1
            right = right[: right_spans[cut - 1][1] - right_start if cut else 0]
            num_removed += len(right_spans) - cut
        return replace(self, left=left, right=right), num_removed


def overlapping_tokens(spans: Sequence[tuple[int, int]], start: int, end: int) -> list[int]:
    """Indices of tokens that overlap a span; a token with an empty span belongs to the character before."""
    return [
        index
        for index, (token_start, token_end) in enumerate(spans)
        if (token_start < end and token_end > start if token_start < token_end else start < token_start <= end)
    ]


@dataclass(frozen=True)
class PromptTemplate:
    """Text around {text} and {label} in either order; other braces are literal."""

    before: str
    between: str
    after: str
    label_first: bool

    @classmethod
    def parse(cls, pattern: str) -> PromptTemplate:
        for placeholder in ("{text}", "{label}"):
            if (count := pattern.count(placeholder)) != 1:
                problem = f"{placeholder} {count} times" if count else f"no {placeholder}"
                hint = f"write {{text}} and {{label}} once each, such as {ENGLISH_TEMPLATE!r}"
                raise InputError(f"the template has {problem}", hint=hint)
        before, between, after = re.split(r"\{text\}|\{label\}", pattern)
        return cls(before, between, after, pattern.index("{label}") < pattern.index("{text}"))

    def frame(self, text: str) -> PromptFrame:
        """The frame of this text; next to an empty text at the edge of the template, spaces are stripped."""
        if self.label_first:
            between = self.between if text or self.after else self.between.rstrip()
            return PromptFrame(lead=self.before, trail=between, right=text, tail=self.after)
        between = self.between if text or self.before else self.between.lstrip()
        return PromptFrame(head=self.before, left=text, lead=between, trail=self.after)

    def render_shots(self, shots: Shots, verbalizers: Mapping[str, str] | None = None) -> list[str]:
        """Few-shot examples as text; `verbalizers` maps labels to verbalizers."""
        pairs = ((text, label if verbalizers is None else verbalizers[label]) for text, label in shots)
        clean_pairs = (map(replace_surrogates, pair) for pair in pairs)
        return [self.frame(text).full_text(words) + BETWEEN_SHOTS for text, words in clean_pairs]


def is_chinese(*texts: str) -> bool:
    """Whether more than MIN_CHINESE_FRACTION of the characters are Chinese."""
    codes = code_points("".join(texts))
    return bool(len(codes)) and float(is_han(codes).mean()) > MIN_CHINESE_FRACTION


# --- Fitting prompts to the maximum length ---


@dataclass(frozen=True)
class FittedPrompt:
    """A frame tokenized with each verbalizer, after `shots` examples and without `num_truncated` tokens."""

    frame: PromptFrame
    verbalizers: tuple[str, ...]
    encodings: tuple[TokenEncoding, ...]
    num_truncated: int = 0
    shots: int = 0

    @property
    def longest(self) -> int:
        """Index of the verbalizer with the most tokens."""
        return max(range(len(self.encodings)), key=lambda index: len(self.encodings[index].ids))

    @property
    def tokens(self) -> int:
        """Number of tokens with the longest verbalizer."""
        return len(self.encodings[self.longest].ids)


def continuation_tokens(before: str, words: str, tokenizer: Tokenizer) -> TokenEncoding:
    """Tokenize a text and the words that continue it, so that no token spans the boundary, as a Chinese word might.

    A space at the end of `before` is tokenized with the words.
    """
    from forebear.data.tokenizers.tokenizer import TokenEncoding

    encoding, boundary = tokenizer.encode(before + words), len(before.rstrip())
    prefix = tokenizer.encode(before[:boundary])
    has_boundary = all(start >= boundary for start, _ in encoding.spans[len(prefix.ids) :])
    if has_boundary and np.array_equal(encoding.ids[: len(prefix.ids)], prefix.ids):
        return encoding
    rest_encoding = tokenizer.encode((before + words)[boundary:])
    spans = prefix.spans + [(start + boundary, end + boundary) for start, end in rest_encoding.spans]
    return TokenEncoding(np.concatenate((prefix.ids, rest_encoding.ids)), spans, prefix.texts + rest_encoding.texts)


def encode_prompt(
    frame: PromptFrame, verbalizers: Sequence[str], tokenizer: Tokenizer, *, num_truncated: int = 0, num_shots: int = 0
) -> FittedPrompt:
    """The frame tokenized with each verbalizer, without a length limit."""
    if frame.is_continuation:
        encodings = [continuation_tokens(frame.full_text(""), words, tokenizer) for words in verbalizers]
    else:
        encodings = [tokenizer.encode(frame.full_text(words)) for words in verbalizers]
    return FittedPrompt(frame, tuple(verbalizers), tuple(encodings), num_truncated, num_shots)


def fit_prompt(frame: PromptFrame, verbalizers: Sequence[str], tokenizer: Tokenizer, limit: int | None) -> FittedPrompt:
    """Shorten the text of a frame until it has at most `limit` tokens with each verbalizer.

    Text farthest from the verbalizer is removed first: the start of the left part, the end of the right part.
    """
    fitted = encode_prompt(frame, verbalizers, tokenizer)
    while limit is not None and fitted.tokens > limit:
        words, spans = verbalizers[fitted.longest], fitted.encodings[fitted.longest].spans
        shortened = fitted.frame.shorten(spans, words, fitted.tokens - limit)
        if shortened is None:
            subject = f"what stands around the text{f', with {words!r},' if words else ''}"
            message = f"{subject} leaves it no room: there is room for {max(limit, 0)} tokens in all"
            hint = "choose a shorter template or cue, shorter words, a smaller --length, or a run that sees more"
            raise InputError(message, hint=hint)
        fitted = encode_prompt(shortened[0], verbalizers, tokenizer, num_truncated=fitted.num_truncated + shortened[1])
    return fitted


def fit_with_shots(
    shots: Sequence[str], frame: PromptFrame, verbalizers: Sequence[str], tokenizer: Tokenizer, limit: int | None
) -> FittedPrompt:
    """`fit_prompt` with as many examples before it, from the first, as fit in addition to the full text."""
    fitted = fit_prompt(frame, verbalizers, tokenizer, limit)
    if fitted.num_truncated:
        return fitted
    max_shots = len(shots)
    if limit is not None:
        free_tokens = limit - fitted.tokens
        total_tokens = accumulate(len(tokenizer.encode(shot).ids) for shot in shots)
        max_shots = len(list(takewhile(lambda tokens: tokens <= free_tokens, total_tokens)))
    for num_shots in range(max_shots, 0, -1):  # the joined text may have more tokens than its parts
        frame_after_shots = frame.after_shots("".join(shots[:num_shots]))
        candidate = encode_prompt(frame_after_shots, verbalizers, tokenizer, num_shots=num_shots)
        if limit is None or candidate.tokens <= limit:
            return candidate
    return fitted
