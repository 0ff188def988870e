"""Targets of attribution (label, choice, tag, answer) and their scores; alignment of tokens with words.

The score is the log-odds ln p / (1 - p), which do not saturate as probabilities do and do not change when a constant is
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
        is_in_word = self.word_ids != IGNORE_INDEX
        word_sums = np.bincount(self.word_ids[is_in_word], values[is_in_word], len(self.words))
        return word_sums, float(values[~is_in_word].sum())


def trace_example(task: Task, example: Example, tokenizer: Tokenizer, input_format: InputFormat) -> TokenTrace:
    """Encode an example for its task and align its tokens with words."""
    tracing_tokenizer = _TracingTokenizer(tokenizer)
    rows = task.encode([example], tracing_tokenizer, input_format)
    is_text = rows.tokens >= tokenizer.vocab_size
    token_order = rows.tokens[is_text] - tokenizer.vocab_size  # index of each token in the order of tokenization
    tokens, encodings = rows.tokens.copy(), tracing_tokenizer.encodings
    tokens[is_text] = np.concatenate([np.empty(0, np.int32), *(encoding.ids for encoding in encodings)])[token_order]
    if isinstance(example, TaggedExample):  # pre-tokenized: each word was encoded separately
        text, words = join_words(example.words)
        texts = (text,)
        word_of_token = np.repeat(np.arange(len(encodings)), [len(encoding.ids) for encoding in encodings])
    else:
        texts = example_texts(example)
        if len(encodings) < len(texts):  # a question equal to its passage was encoded once
            token_order = token_order + len(encodings[0].ids) * rows.segments[is_text]
            encodings = encodings * 2
        words, word_of_token = _align_words(texts, encodings)
    word_ids = np.full(len(tokens), IGNORE_INDEX)
    word_ids[is_text] = word_of_token[token_order]
    return TokenTrace(replace(rows, tokens=tokens), texts, tuple(words), word_ids, is_text)


class _TracingTokenizer(Tokenizer):
    """A tokenizer whose ids are consecutive numbers above the vocabulary, so that tokens can be traced in a batch."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        vars(self).update(vars(tokenizer))
        self._tokenizer = tokenizer
        self.encodings: list[TokenEncoding] = []
        self._count = tokenizer.vocab_size

    def encode(self, text: str, *, specials: bool = False) -> TokenEncoding:
        encoding = self._tokenizer.encode(text, specials=specials)
        self.encodings.append(encoding)
        tracing_ids = np.arange(self._count, self._count + len(encoding.ids), dtype=np.int32)
        self._count += len(tracing_ids)
        return replace(encoding, ids=tracing_ids)

    def encode_many(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        token_rows = [self.encode(text).ids for text in texts]
        counts = np.array([len(ids) for ids in token_rows], np.int32)
        return np.concatenate([np.empty(0, np.int32), *token_rows]), counts


def _align_words(texts: Sequence[str], encodings: Sequence[TokenEncoding]) -> tuple[list[WordSpan], np.ndarray]:
    """All words, and the word index of each token; white space belongs to no word."""
    words: list[WordSpan] = []
    word_ids = []
    for text_index, (text, encoding) in enumerate(zip(texts, encodings, strict=True)):
        spans = list(_stripped_spans(text, encoding))
        ends = word_boundaries(text, spans)
        span_starts = [0, *ends[:-1]]
        word_of_span = np.full(len(ends) + 1, IGNORE_INDEX)
        for span_index, (start, end) in enumerate(zip(span_starts, ends, strict=True)):
            if text[start:end].strip():
                word_of_span[span_index] = len(words)
                words.append(WordSpan(text_index, start, end))
        token_starts = np.array([start for start, _ in spans], np.int64)
        word_ids.append(word_of_span[np.searchsorted(ends, token_starts, side="right")])
    return words, np.concatenate([np.empty(0, np.int64), *word_ids])


def _stripped_spans(text: str, encoding: TokenEncoding) -> Iterator[tuple[int, int]]:
    """Token spans without leading white space; continuation bytes of a character have its span."""
    span = (0, 0)
    for start, end in encoding.spans:
        if start < end:
            visible = text[start:end].lstrip()
            span = (end - len(visible), end) if visible else (start, end)
        yield span


def word_boundaries(text: str, spans: Sequence[tuple[int, int]]) -> list[int]:
    """Ends of words. A token that crosses a boundary joins both words."""
    is_boundary = np.zeros(len(text) + 1, bool)
    is_boundary[[*Segmenter().word_ends(text), len(text)]] = True
    unbroken_spans = [match.span() for match in APOSTROPHE_WORD.finditer(text) if not has_han(match.group())]
    for start, end in (*spans, *unbroken_spans):
        is_boundary[start + 1 : end] = False
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


HeadOutputs = Mapping[str, "Tensor"]  # of each head, (S, …) for S copies of the example
ScoreFn = Callable[[HeadOutputs], "Tensor"]  # → (S,)


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

    name         of the output; `prediction` is the run's output
    probability  of the output; None for regression
    score        of the head outputs: label (S, 1, answers), choice (S, rows), tag (S, T, tags), start, end (S, T)
    outputs      logits whose weighted sum plus `offset` is the score, for linear models
    """

    name: str
    prediction: str
    probability: float | None
    score: ScoreFn
    outputs: tuple[TargetOutput, ...]
    offset: float = 0.0

    @property
    def heads(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(output.head for output in self.outputs))


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
            return _label_target(task, prediction, override)
        case MultipleChoice():
            return _choice_target(task, prediction, override)
        case SequenceTagging():
            return _tag_target(task, prediction, rows, logits, override, location)
        case QuestionAnswering():
            return _answer_target(example, prediction, rows, logits, override, location)
    raise InputError(f"what {task.name} says cannot be explained yet")


def log_odds(scores: Tensor, index: int) -> Tensor:
    """(S, K) logits → (S,) log-odds of one class."""
    other_classes = [class_index for class_index in range(scores.shape[1]) if class_index != index]
    return scores[:, index] - scores[:, other_classes].logsumexp(1)


def _label_target(task: Classification, prediction: LabelPrediction, override: str | None) -> AttributionTarget:
    if task.kind == "number":
        if override is not None:
            raise InputError("--of means nothing where a number is told", hint="leave it out")
        name = f"{prediction.label:.4g}"
        outputs, centre, std = (TargetOutput("label", 0, scale=task.spread),), task.centre, task.spread
        return AttributionTarget(name, name, None, lambda out: out["label"][:, 0, 0] * std + centre, outputs, centre)
    prediction_text = ", ".join(prediction.label) if isinstance(prediction.label, tuple) else str(prediction.label)
    label = override
    if label is None:
        label = max(prediction.probabilities, key=lambda name: prediction.probabilities[name])
    if label not in task.labels:
        raise InputError(f"no label is named {label!r}", hint=f"there are: {', '.join(task.labels)}")
    label_index, inverse_temperature = task.labels.index(label), 1 / task.temperature

    def score(head_outputs: HeadOutputs) -> Tensor:
        logits = head_outputs["label"][:, 0] * inverse_temperature
        return logits[:, label_index] if task.kind == "several" else log_odds(logits, label_index)

    is_binary = task.kind == "one" and len(task.labels) == 2  # opposite logits, each half of the log-odds
    outputs = (TargetOutput("label", 0, label_index, 2 * inverse_temperature if is_binary else inverse_temperature),)
    return AttributionTarget(label, prediction_text or "(none)", prediction.probabilities[label], score, outputs)


def _choice_target(task: MultipleChoice, prediction: ChoicePrediction, override: str | None) -> AttributionTarget:
    choice_index, choices = prediction.choice, prediction.choices
    if override is not None:
        names = [*choices, *map(str, range(1, len(choices) + 1))]
        if override not in names:
            hint = f"give one of the choices, or its number from 1 to {len(choices)}"
            raise InputError(f"{override!r} is none of the choices", hint=hint)
        choice_index = names.index(override) % len(choices)
    inverse_temperature = 1 / task.temperature
    outputs = (TargetOutput("choice", choice_index, scale=inverse_temperature),)

    def score(out: HeadOutputs) -> Tensor:
        return log_odds(out["choice"] * inverse_temperature, choice_index)

    probability = prediction.probabilities[choice_index]
    return AttributionTarget(choices[choice_index], choices[prediction.choice], probability, score, outputs)


def _tag_target(
    task: SequenceTagging,
    prediction: TagPrediction,
    rows: ExampleRows,
    logits: Logits,
    override: str | None,
    location: str | int | None,
) -> AttributionTarget:
    """A word's tag, or the tags of all words of an entity."""
    first_word, last_word = _select_words(prediction, location)
    predicted_tags, is_single = prediction.tags[first_word:last_word], last_word - first_word == 1
    tags = [_override_tag(task, tag, override, is_single=is_single) for tag in predicted_tags]
    tag_ids = [task.tags.index(tag) for tag in tags]
    assert rows.token_sources is not None
    positions = np.full(len(prediction.words), IGNORE_INDEX)
    labeled_rows = np.flatnonzero(rows.token_sources != IGNORE_INDEX)
    positions[rows.token_sources[labeled_rows]] = labeled_rows
    transition_scores = logits.get("transitions")

    def score(out: HeadOutputs) -> Tensor:
        scores = out["tag"][:, positions.tolist()]
        if task.crf and transition_scores is not None:
            scores = _crf_scores(scores, task.transitions, transition_scores)
        word_scores = (log_odds(scores[:, word], tag) for word, tag in enumerate(tag_ids, first_word))
        return sum(word_scores, start=scores.new_zeros(()))

    text = join_words(prediction.words[first_word:last_word])[0]
    probabilities = prediction.probabilities[range(first_word, last_word), tag_ids]
    mean_probability = float(np.prod(probabilities ** (1 / len(probabilities))))  # geometric
    outputs = tuple(TargetOutput("tag", int(positions[word]), tag) for word, tag in enumerate(tag_ids, first_word))
    name, prediction_text = (f"{text}: {' '.join(tag_names)}" for tag_names in (tags, predicted_tags))
    return AttributionTarget(name, prediction_text, mean_probability, score, outputs)


def _select_words(prediction: TagPrediction, location: str | int | None) -> tuple[int, int]:
    """Words selected by text, entity or number; by default the most probable entity."""
    if location is None:
        if not prediction.entities:
            raise InputError("nothing was found in this text", hint="say of which word the tag is meant: --at WORD")
        most_probable = max(prediction.entities, key=lambda entity: entity.probability)
        return most_probable.start, most_probable.end
    entity_spans = [(entity.start, entity.end) for entity in prediction.entities if entity.text == str(location)]
    word_spans = [(index, index + 1) for index, word in enumerate(prediction.words) if word == str(location)]
    spans = [] if isinstance(location, int) else entity_spans or word_spans
    if len(spans) > 1:
        word_numbers = ", ".join(str(first_word + 1) for first_word, _ in spans)
        hint = f"give the number of its word: {word_numbers}"
        raise InputError(f"{location!r} stands here {len(spans)} times", hint=hint)
    if spans:
        return spans[0]
    if str(location).isdecimal() and 1 <= int(location) <= len(prediction.words):
        return int(location) - 1, int(location)
    hint = f"give a word or a name of the text, or the number of a word, from 1 to {len(prediction.words)}"
    raise InputError(f"there is no word {location!r}", hint=hint)


def _override_tag(task: SequenceTagging, tag: str, override: str | None, *, is_single: bool) -> str:
    """The predicted tag, or one of the requested entity type; for a single word also the requested tag itself."""
    if override is None:
        return tag
    if task.is_plain:
        if override not in task.tags:
            raise InputError(f"no tag {override!r} was learned", hint=f"there are: {', '.join(task.tags)}")
        return override
    prefix = tag.partition("-")[0]
    new_tag = override if is_single and override in task.tags else f"{'S' if prefix == 'O' else prefix}-{override}"
    if new_tag not in task.tags:
        types = sorted({known_tag.partition("-")[2] for known_tag in task.tags if known_tag != "O"})
        extra_hint = " (or a tag such as B-…, or O, for a single word)" if is_single else ""
        hint = f"there are: {', '.join(types)}{extra_hint}"
        raise InputError(f"nothing of the kind {override!r} was learned", hint=hint)
    return new_tag


def _crf_scores(scores: Tensor, allowed_transitions: TagTransitions, learned_scores: Sequence[np.ndarray]) -> Tensor:
    """(S, N, K) emissions → marginal log probabilities of a CRF, up to a constant."""
    import torch

    transitions, start, end = (
        scores.new_tensor(np.where(is_allowed, learned, FORBIDDEN_SCORE))
        for is_allowed, learned in zip(allowed_transitions, learned_scores, strict=True)
    )
    words = scores.unbind(1)
    alpha, beta = [words[0] + start], [end.expand_as(words[0])]  # forward and backward log scores
    for emission in words[1:]:
        alpha.append((alpha[-1][:, :, None] + transitions).logsumexp(1) + emission)
    for emission in reversed(words[1:]):
        beta.append((transitions + (emission + beta[-1])[:, None]).logsumexp(2))
    return torch.stack(alpha, 1) + torch.stack(beta[::-1], 1)


def _answer_target(
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
    prediction_text = prediction.text.strip()  # byte-level tokens include the space before them
    name, start = prediction_text, IGNORE_INDEX
    if override is not None:
        name = override.strip()
        start = example.passage.find(name)
    elif prediction.best is not None:
        start = prediction.best.start + len(prediction.text) - len(prediction.text.lstrip())
    best_position = max(_answer_positions(rows, logits, start, start + len(name)), default=None)
    if best_position is None:
        raise InputError(f"{name!r} does not fit into one window", hint="give a shorter part of the passage")
    log_prob, row, first_token, last_token = best_position
    row_start, row_end = _row_ends(rows, row)
    positions, prefix = {"start": first_token, "end": last_token}, ""
    if location is not None:
        head, prefix = str(location), f"{location} of "
        positions = {head: positions[head]}
        log_probs = log_softmax(logits[head][row].astype(np.float64))
        log_prob = float(log_probs[positions[head] - row_start])

    def score(out: HeadOutputs) -> Tensor:
        first_score, *others = (
            log_odds(out[head][:, row_start:row_end], position - row_start) for head, position in positions.items()
        )
        return sum(others, start=first_score)

    name, prediction_text = (prefix + (text or "(no answer)") for text in (name, prediction_text))
    outputs = tuple(TargetOutput(head, position) for head, position in positions.items())
    return AttributionTarget(name, prediction_text, float(np.exp(log_prob)), score, outputs)


def _answer_positions(
    rows: ExampleRows, logits: Logits, span_start: int, span_end: int
) -> Iterator[tuple[float, int, int, int]]:
    """(ln P, sequence, start token, end token) of a character span, or of "no answer", in every window that has it."""
    for row in rows.row_range(0):
        row_start, spans = _row_ends(rows, row)[0], rows.row_token_sources(row)
        start_log_probs, end_log_probs = (log_softmax(logits[head][row].astype(float)) for head in ("start", "end"))
        start_positions, end_positions = np.array([NO_ANSWER_POSITION]), np.array([NO_ANSWER_POSITION])
        if span_start != IGNORE_INDEX:
            starts, ends = spans.T
            covered = np.flatnonzero((starts < span_end) & (ends > span_start) & (starts != IGNORE_INDEX))
            if not len(covered) or starts[covered[0]] > span_start or ends[covered[-1]] < span_end:
                continue
            # Any of the tokens that are bytes of one character may be the boundary.
            start_positions = np.flatnonzero(starts == starts[covered[0]])
            end_positions = np.flatnonzero(ends == ends[covered[-1]])
        first_token = int(start_positions[start_log_probs[start_positions].argmax()])
        last_token = int(end_positions[end_log_probs[end_positions].argmax()])
        log_prob = float(start_log_probs[first_token] + end_log_probs[last_token])
        yield log_prob, row, row_start + first_token, row_start + last_token


def _row_ends(rows: ExampleRows, row: int) -> tuple[int, int]:
    """Start and end of a sequence among all tokens."""
    end = int(rows.lengths[: row + 1].sum())
    return end - int(rows.lengths[row]), end
