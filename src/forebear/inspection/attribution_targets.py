"""Targets of attribution (label, choice, tag, answer) and their scores; alignment of tokens with words.

The score is the log-odds ln p / (1 - p): it does not saturate as a probability does and does not depend on a constant
added to all logits. For several words, or start and end of an answer, log-odds are summed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from forebear.data.labeled.examples import Example, QuestionExample, TaggedExample, example_texts
from forebear.data.labeled.tag_schemes import TagTransitions
from forebear.data.segmentation import Segmenter, has_han
from forebear.data.tokenizers.tokenizer import TokenEncoding, Tokenizer
from forebear.errors import InputError
from forebear.numerics import log_softmax
from forebear.objectives.batch import IGNORE_INDEX
from forebear.objectives.input_format import InputFormat
from forebear.tasks.classification import Classification, LabelPrediction
from forebear.tasks.multiple_choice import ChoicePrediction, MultipleChoice
from forebear.tasks.question_answering import NO_ANSWER_POSITION, AnswerPrediction, QuestionAnswering
from forebear.tasks.tagging import FORBIDDEN_SCORE, SequenceTagging, TagPrediction
from forebear.tasks.task import Logits, Task
from forebear.tasks.task_batches import ExampleRows

if TYPE_CHECKING:
    from torch import Tensor

AttributionMethod = Literal["integrated", "gradients"]

# --- Alignment of tokens with words ---

APOSTROPHE_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)+")  # "didn't" is one word in any tokenization


@dataclass(frozen=True)
class WordSpan:
    """A word: characters `start` … `end` of text `text_index`."""

    text_index: int
    start: int
    end: int


@dataclass(frozen=True, eq=False)
class TokenTrace:
    """An encoded example, with the word of each token.

    texts      texts of the example
    words      in text order
    word_ids   (T,) index of each token's word; IGNORE_INDEX for special tokens and white space
    text_mask  (T,) whether a token belongs to a text (white space included)
    """

    rows: ExampleRows
    texts: tuple[str, ...]
    words: tuple[WordSpan, ...]
    word_ids: np.ndarray
    text_mask: np.ndarray

    def sum_by_word(self, values: np.ndarray) -> tuple[np.ndarray, float]:
        """Token values (T,) summed per word (words,), and the sum over tokens without a word."""
        known = self.word_ids != IGNORE_INDEX
        return np.bincount(self.word_ids[known], values[known], len(self.words)), float(values[~known].sum())


def trace_example(task: Task, example: Example, tokenizer: Tokenizer, input_format: InputFormat) -> TokenTrace:
    """Encode an example for its task and align its tokens with words."""
    tracing_tokenizer = _TracingTokenizer(tokenizer)
    rows = task.encode([example], tracing_tokenizer, input_format)
    is_text = rows.tokens >= tokenizer.vocab_size
    piece_numbers = rows.tokens[is_text] - tokenizer.vocab_size  # index of each token in the order of tokenization
    tokens, pieces = rows.tokens.copy(), tracing_tokenizer.pieces
    tokens[is_text] = np.concatenate([np.empty(0, np.int32), *(piece.ids for piece in pieces)])[piece_numbers]
    if isinstance(example, TaggedExample):  # pre-tokenized: each word was encoded on its own
        text, words = join_words(example.words)
        texts, word_numbers = (text,), np.repeat(np.arange(len(pieces)), [len(piece.ids) for piece in pieces])
    else:
        texts = example_texts(example)
        if len(pieces) < len(texts):  # a question equal to its passage was encoded once
            piece_numbers = piece_numbers + len(pieces[0].ids) * rows.segments[is_text]
            pieces = pieces * 2
        words, word_numbers = _align_words(texts, pieces)
    word_ids = np.full(len(tokens), IGNORE_INDEX)
    word_ids[is_text] = word_numbers[piece_numbers]
    return TokenTrace(replace(rows, tokens=tokens), texts, tuple(words), word_ids, is_text)


class _TracingTokenizer(Tokenizer):
    """A tokenizer whose ids are consecutive numbers above the vocabulary: the task's encoding shows where each goes."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        vars(self).update(vars(tokenizer))  # the same in every other respect
        self._tokenizer = tokenizer
        self.pieces: list[TokenEncoding] = []
        self._count = tokenizer.vocab_size

    def encode(self, text: str, *, specials: bool = False) -> TokenEncoding:
        pieces = self._tokenizer.encode(text, specials=specials)
        self.pieces.append(pieces)
        numbers = np.arange(self._count, self._count + len(pieces.ids), dtype=np.int32)
        self._count += len(numbers)
        return replace(pieces, ids=numbers)

    def encode_many(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        token_rows = [self.encode(text).ids for text in texts]
        counts = np.array([len(ids) for ids in token_rows], np.int32)
        return np.concatenate([np.empty(0, np.int32), *token_rows]), counts


def _align_words(texts: Sequence[str], encodings: Sequence[TokenEncoding]) -> tuple[list[WordSpan], np.ndarray]:
    """All words, and the word index of each token; white space belongs to no word."""
    words: list[WordSpan] = []
    word_numbers = []
    for text_index, (text, pieces) in enumerate(zip(texts, encodings, strict=True)):
        spans = list(_stripped_spans(text, pieces))
        ends = word_boundaries(text, spans)
        begins = [0, *ends[:-1]]
        numbers = np.full(len(ends) + 1, IGNORE_INDEX)
        for number, (begin, end) in enumerate(zip(begins, ends, strict=True)):
            if text[begin:end].strip():
                numbers[number] = len(words)
                words.append(WordSpan(text_index, begin, end))
        starts = np.array([begin for begin, _ in spans], np.int64)
        word_numbers.append(numbers[np.searchsorted(ends, starts, side="right")])
    return words, np.concatenate([np.empty(0, np.int64), *word_numbers])


def _stripped_spans(text: str, pieces: TokenEncoding) -> Iterator[tuple[int, int]]:
    """Token spans without leading white space; continuation bytes of a character have its span."""
    span = (0, 0)
    for begin, end in pieces.spans:
        if begin < end:
            visible = text[begin:end].lstrip()
            span = (end - len(visible), end) if visible else (begin, end)
        yield span


def word_boundaries(text: str, spans: Sequence[tuple[int, int]]) -> list[int]:
    """Ends of words. A token that crosses a boundary joins both words."""
    is_boundary = np.zeros(len(text) + 1, bool)
    is_boundary[[*Segmenter().word_ends(text), len(text)]] = True
    unbroken = [match.span() for match in APOSTROPHE_WORD.finditer(text) if not has_han(match.group())]
    for begin, end in (*spans, *unbroken):
        is_boundary[begin + 1 : end] = False
    is_boundary[0] = False
    return np.flatnonzero(is_boundary).tolist()


def join_words(words: Sequence[str]) -> tuple[str, list[WordSpan]]:
    """Join words into a text, with spaces except next to Chinese; also their spans."""
    text, spans = "", []
    for word in words:
        text += " " if text and not (has_han(text[-1]) or has_han(word[:1])) else ""
        spans.append(WordSpan(0, len(text), len(text) + len(word)))
        text += word
    return text, spans


Outputs = Mapping[str, "Tensor"]  # of each head, (S, …) for S copies of the example
Score = Callable[[Outputs], "Tensor"]  # → (S,)


@dataclass(frozen=True)
class TargetOutput:
    """A logit: head, index (example, sequence or token), class, and factor."""

    head: str
    index: int
    class_index: int | None = None
    scale: float = 1.0


@dataclass(frozen=True, eq=False)
class AttributionTarget:
    """An output to explain.

    name         of the output; `prediction` is the run's own
    probability  of the output; None for regression
    score        of the head outputs: label (S, 1, answers), choice (S, rows), tag (S, T, tags), start, end (S, T)
    outputs      logits whose weighted sum plus `offset` is the score: all that linear models need
    """

    name: str
    prediction: str
    probability: float | None
    score: Score
    outputs: tuple[TargetOutput, ...]
    offset: float = 0.0

    @property
    def heads(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(point.head for point in self.outputs))


def attribution_target(
    task: Task,
    example: Any,
    rows: ExampleRows,
    logits: Logits,
    override: str | None = None,
    location: str | int | None = None,
) -> AttributionTarget:
    """The target for an example: the run's prediction, or `override`; `location` selects a word, or start or end."""
    (prediction,) = task.predictions([example], rows, logits)
    if location is not None and not isinstance(task, SequenceTagging | QuestionAnswering):
        raise InputError(f"--at means nothing for {task.name}", hint="leave it out; it is for tagging and answering")
    match task:
        case Classification():
            return _label(task, prediction, override)
        case MultipleChoice():
            return _choice(task, prediction, override)
        case SequenceTagging():
            return _tags(task, prediction, rows, logits, override, location)
        case QuestionAnswering():
            return _answer(example, prediction, rows, logits, override, location)
    raise InputError(f"what {task.name} says cannot be explained yet")


def log_odds(scores: Tensor, index: int) -> Tensor:
    """(S, K) logits → (S,) log-odds of one class."""
    others = [other for other in range(scores.shape[1]) if other != index]
    return scores[:, index] - scores[:, others].logsumexp(1)


def _label(task: Classification, prediction: LabelPrediction, override: str | None) -> AttributionTarget:
    if task.kind == "number":
        if override is not None:
            raise InputError("--of means nothing where a number is told", hint="leave it out")
        name = f"{prediction.label:.4g}"
        outputs, centre, std = (TargetOutput("label", 0, scale=task.spread),), task.centre, task.spread
        return AttributionTarget(name, name, None, lambda out: out["label"][:, 0, 0] * std + centre, outputs, centre)
    likeliest = max(prediction.probabilities, key=lambda label: prediction.probabilities[label])
    predicted = ", ".join(prediction.label) if isinstance(prediction.label, tuple) else str(prediction.label)
    label = likeliest if override is None else override
    if label not in task.labels:
        raise InputError(f"no label is named {label!r}", hint=f"there are: {', '.join(task.labels)}")
    number, inverse_temperature = task.labels.index(label), 1 / task.temperature

    def score(out: Outputs) -> Tensor:
        logits = out["label"][:, 0] * inverse_temperature
        return logits[:, number] if task.kind == "several" else log_odds(logits, number)

    is_binary = task.kind == "one" and len(task.labels) == 2  # then logits are opposite, each half of the log-odds
    outputs = (TargetOutput("label", 0, number, 2 * inverse_temperature if is_binary else inverse_temperature),)
    return AttributionTarget(label, predicted or "(none)", prediction.probabilities[label], score, outputs)


def _choice(task: MultipleChoice, prediction: ChoicePrediction, override: str | None) -> AttributionTarget:
    number, choices = prediction.choice, prediction.choices
    if override is not None:
        names = [*choices, *(str(position) for position in range(1, len(choices) + 1))]
        if override not in names:
            hint = f"give one of the choices, or its number from 1 to {len(choices)}"
            raise InputError(f"{override!r} is none of the choices", hint=hint)
        number = names.index(override) % len(choices)
    inverse_temperature = 1 / task.temperature
    outputs = (TargetOutput("choice", number, scale=inverse_temperature),)

    def score(out: Outputs) -> Tensor:
        return log_odds(out["choice"] * inverse_temperature, number)

    probability = prediction.probabilities[number]
    return AttributionTarget(choices[number], choices[prediction.choice], probability, score, outputs)


def _tags(
    task: SequenceTagging,
    prediction: TagPrediction,
    rows: ExampleRows,
    logits: Logits,
    override: str | None,
    location: str | int | None,
) -> AttributionTarget:
    """A word's tag, or the tags of all words of an entity."""
    first, last = _select_words(prediction, location)
    tags = [_other_tag(task, tag, override, single=last - first == 1) for tag in prediction.tags[first:last]]
    numbers = [task.tags.index(tag) for tag in tags]
    assert rows.answer_spans is not None
    positions = np.full(len(prediction.words), IGNORE_INDEX)
    labeled_rows = np.flatnonzero(rows.answer_spans != IGNORE_INDEX)
    positions[rows.answer_spans[labeled_rows]] = labeled_rows
    transition_scores = logits.get("moves")

    def score(out: Outputs) -> Tensor:
        scores = out["tag"][:, positions.tolist()]
        if task.crf and transition_scores is not None:
            scores = _crf_scores(scores, task.transitions, transition_scores)
        return sum((log_odds(scores[:, first + n], tag) for n, tag in enumerate(numbers)), start=scores.new_zeros(()))

    text = join_words(prediction.words[first:last])[0]
    p = prediction.probabilities[range(first, last), numbers]
    outputs = tuple(TargetOutput("tag", int(positions[first + n]), tag) for n, tag in enumerate(numbers))
    name, predicted = (f"{text}: {' '.join(tag_names)}" for tag_names in (tags, prediction.tags[first:last]))
    return AttributionTarget(name, predicted, float(np.prod(p ** (1 / len(p)))), score, outputs)


def _select_words(prediction: TagPrediction, location: str | int | None) -> tuple[int, int]:
    """Words selected by text, entity or number; by default the most probable entity."""
    if location is None:
        if not prediction.entities:
            raise InputError("nothing was found in this text", hint="say of which word the tag is meant: --at WORD")
        surest = max(prediction.entities, key=lambda entity: entity.probability)
        return surest.start, surest.end
    entity_spans = [(entity.start, entity.end) for entity in prediction.entities if entity.text == str(location)]
    word_spans = [(number, number + 1) for number, word in enumerate(prediction.words) if word == str(location)]
    spans = [] if isinstance(location, int) else entity_spans or word_spans
    if len(spans) > 1:
        numbers = ", ".join(str(first + 1) for first, _ in spans)
        raise InputError(f"{location!r} stands here {len(spans)} times", hint=f"give the number of its word: {numbers}")
    if spans:
        return spans[0]
    if str(location).isdecimal() and 1 <= int(location) <= len(prediction.words):
        return int(location) - 1, int(location)
    hint = f"give a word or a name of the text, or the number of a word, from 1 to {len(prediction.words)}"
    raise InputError(f"there is no word {location!r}", hint=hint)


def _other_tag(task: SequenceTagging, tag: str, override: str | None, *, single: bool) -> str:
    """The tag itself; or another tag for a single word, or another entity type for each word of an entity."""
    if override is None:
        return tag
    if task.is_plain:
        if override not in task.tags:
            raise InputError(f"no tag {override!r} was learned", hint=f"there are: {', '.join(task.tags)}")
        return override
    prefix = tag.partition("-")[0]
    new_tag = override if single and override in task.tags else f"{'S' if prefix == 'O' else prefix}-{override}"
    if new_tag not in task.tags:
        types = sorted({known_tag.partition("-")[2] for known_tag in task.tags if known_tag != "O"})
        extra_hint = " (or a tag such as B-…, or O, for a single word)" if single else ""
        hint = f"there are: {', '.join(types)}{extra_hint}"
        raise InputError(f"nothing of the kind {override!r} was learned", hint=hint)
    return new_tag


def _crf_scores(scores: Tensor, allowed_transitions: TagTransitions, learned_scores: Sequence[np.ndarray]) -> Tensor:
    """(S, N, K) emissions → marginal log probabilities of a CRF, up to a constant."""
    import torch

    moves, start, end = (
        scores.new_tensor(np.where(is_allowed, learned, FORBIDDEN_SCORE))
        for is_allowed, learned in zip(allowed_transitions, learned_scores, strict=True)
    )
    words = scores.unbind(1)
    forwards, backwards = [words[0] + start], [end.expand_as(words[0])]
    for emission in words[1:]:
        forwards.append((forwards[-1][:, :, None] + moves).logsumexp(1) + emission)
    for emission in reversed(words[1:]):
        backwards.append((moves + (emission + backwards[-1])[:, None]).logsumexp(2))
    return torch.stack(forwards, 1) + torch.stack(backwards[::-1], 1)


def _answer(
    example: QuestionExample,
    prediction: AnswerPrediction,
    rows: ExampleRows,
    logits: Logits,
    override: str | None,
    location: str | int | None,
) -> AttributionTarget:
    """Start and end of an answer, or one of them, in the window with the highest probability."""
    if location not in (None, "start", "end"):
        raise InputError(f"--at is {location!r}", hint="give start or end; without it both are explained")
    if override is not None and (not override.strip() or override.strip() not in example.passage):
        hint = "give --of a part of the passage, word for word"
        raise InputError(f"{override!r} does not stand in the passage", hint=hint)
    predicted = prediction.text.strip()  # byte-level tokens include the space before them
    name, begin = predicted, IGNORE_INDEX
    if override is not None:
        name = override.strip()
        begin = example.passage.find(name)
    elif prediction.best is not None:
        begin = prediction.best.start + len(prediction.text) - len(prediction.text.lstrip())
    best = max(_answer_positions(rows, logits, begin, begin + len(name)), default=None)
    if best is None:
        raise InputError(f"{name!r} does not fit into one window", hint="give a shorter part of the passage")
    log_prob, row, first, last = best
    row_start, row_end = _row_ends(rows, row)
    positions, prefix = {"start": first, "end": last}, ""
    if location is not None:
        head, prefix = str(location), f"{location} of "
        positions = {head: positions[head]}
        log_probs = log_softmax(logits[head][row].astype(np.float64))
        log_prob = float(log_probs[positions[head] - row_start])

    def score(out: Outputs) -> Tensor:
        first_score, *others = (
            log_odds(out[head][:, row_start:row_end], position - row_start) for head, position in positions.items()
        )
        return sum(others, start=first_score)

    name, predicted = (prefix + (text or "(no answer)") for text in (name, predicted))
    outputs = tuple(TargetOutput(head, position) for head, position in positions.items())
    return AttributionTarget(name, predicted, float(np.exp(log_prob)), score, outputs)


def _answer_positions(rows: ExampleRows, logits: Logits, begin: int, end: int) -> Iterator[tuple[float, int, int, int]]:
    """(ln P, sequence, start token, end token) of a character span in every window that has it, or of "no answer"."""
    for row in rows.row_range(0):
        row_start, spans = _row_ends(rows, row)[0], rows.row_answer_spans(row)
        start, stop = (log_softmax(logits[head][row].astype(np.float64)) for head in ("start", "end"))
        start_positions, end_positions = np.array([NO_ANSWER_POSITION]), np.array([NO_ANSWER_POSITION])
        if begin != IGNORE_INDEX:
            covered = np.flatnonzero((spans[:, 0] < end) & (spans[:, 1] > begin) & (spans[:, 0] != IGNORE_INDEX))
            if not len(covered) or spans[covered[0], 0] > begin or spans[covered[-1], 1] < end:
                continue
            # Any of the tokens that are bytes of one character may be the boundary.
            start_positions = np.flatnonzero(spans[:, 0] == spans[covered[0], 0])
            end_positions = np.flatnonzero(spans[:, 1] == spans[covered[-1], 1])
        first = int(start_positions[start[start_positions].argmax()])
        last = int(end_positions[stop[end_positions].argmax()])
        yield float(start[first] + stop[last]), row, row_start + first, row_start + last


def _row_ends(rows: ExampleRows, row: int) -> tuple[int, int]:
    """Start and end of a sequence among all tokens."""
    end = int(rows.lengths[: row + 1].sum())
    return end - int(rows.lengths[row]), end
