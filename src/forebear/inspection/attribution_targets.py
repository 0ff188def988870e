"""What is to be explained: a label, a choice, a name or an answer, and the score whose causes are looked for.

The score is the log-odds of what is explained, ln p / (1 - p): it does not saturate as a probability does, and is the
same whatever is added to all logits. Of several words, or of a start and an end, the log-odds add up.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from forebear.data.labeled.examples import Example, QuestionExample, TaggedExample, example_texts
from forebear.data.labeled.tag_schemes import TagTransitions
from forebear.data.segmentation import Segmenter, has_han
from forebear.data.tokenizers.tokenizer import TokenEncoding, Tokenizer
from forebear.errors import InputError
from forebear.objectives.batch import IGNORE_INDEX
from forebear.objectives.input_format import InputFormat
from forebear.tasks.classification import Classification, LabelPrediction
from forebear.tasks.multiple_choice import ChoicePrediction, MultipleChoice
from forebear.tasks.question_answering import NO_ANSWER, AnswerPrediction, QuestionAnswering
from forebear.tasks.tagging import FORBIDDEN_SCORE, SequenceTagging, TagPrediction
from forebear.tasks.task import Logits, Task
from forebear.tasks.task_batches import ExampleRows

if TYPE_CHECKING:
    from torch import Tensor

# Where the tokens of a task's rows come from: which word of which text, so that what is said of tokens is of words.


SHORTENED = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)+")  # didn't is one word, whatever cuts it


@dataclass(frozen=True)
class WordSpan:
    """Where a word stands: characters `start` to before `end` of the text with the number `of`."""

    text_index: int
    start: int
    end: int


@dataclass(frozen=True, eq=False)
class TokenTrace:
    """An example as rows, and the word of each token.

    texts   what is written in the example
    words   in the order of the texts
    owners  (T,) the number of the word that each token of the rows is of; NOTHING for those that stand around texts
    inside  (T,) whether a token is of a text: white space is, though it is no word's
    """

    rows: ExampleRows
    texts: tuple[str, ...]
    words: tuple[WordSpan, ...]
    word_ids: np.ndarray
    text_mask: np.ndarray

    def added_up(self, values: np.ndarray) -> tuple[np.ndarray, float]:
        """What is said of tokens (T,), of words: (words,), and the sum of what is no word's."""
        known = self.word_ids != IGNORE_INDEX
        return np.bincount(self.word_ids[known], values[known], len(self.words)), float(values[~known].sum())

    @property
    def visible_words(self) -> np.ndarray:
        """(words,) whether a row holds any of it: what does not fit is not read."""
        return np.isin(np.arange(len(self.words)), self.word_ids)


def trace_example(task: Task, example: Example, tokenizer: Tokenizer, layout: InputFormat) -> TokenTrace:
    """The rows that the task makes of an example, with the way back to its words."""
    numbering = _TracingTokenizer(tokenizer)
    rows = task.encode([example], numbering, layout)
    inside = rows.tokens >= tokenizer.vocab_size
    numbers = rows.tokens[inside] - tokenizer.vocab_size  # of pieces, in the order in which they were cut
    tokens, pieces = rows.tokens.copy(), numbering.pieces
    tokens[inside] = np.concatenate([np.empty(0, np.int32), *(one.ids for one in pieces)])[numbers]
    if isinstance(example, TaggedExample):  # its words are given, each was cut by itself
        text, words = join_words(example.words)
        texts, owned = (text,), np.repeat(np.arange(len(pieces)), [len(one.ids) for one in pieces])
    else:
        texts = example_texts(example)
        if len(pieces) < len(texts):  # a question that is its own passage was cut only once
            numbers = numbers + len(pieces[0].ids) * rows.segments[inside]
            pieces = pieces * 2
        words, owned = _cut(texts, pieces)
    owners = np.full(len(tokens), IGNORE_INDEX)
    owners[inside] = owned[numbers]
    return TokenTrace(replace(rows, tokens=tokens), texts, tuple(words), owners, inside)


class _TracingTokenizer(Tokenizer):
    """A tokenizer that gives each piece a number of its own, above all ids: whatever a task makes of them, its rows
    then tell which piece stands where, without anybody knowing how it cuts windows or orders texts."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        vars(self).update(vars(tokenizer))  # it is the same in all else
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
        cuts = [self.encode(text).ids for text in texts]
        return np.concatenate([np.empty(0, np.int32), *cuts]), np.array([len(ids) for ids in cuts], np.int32)


def _cut(texts: Sequence[str], cuts: Sequence[TokenEncoding]) -> tuple[list[WordSpan], np.ndarray]:
    """All words, and for each piece the number of its word; white space is no word."""
    words: list[WordSpan] = []
    owned = []
    for of, (text, pieces) in enumerate(zip(texts, cuts, strict=True)):
        spans = list(_stripped(text, pieces))
        ends = borders(text, spans)
        begins = [0, *ends[:-1]]
        numbers = np.full(len(ends) + 1, IGNORE_INDEX)
        for number, (begin, end) in enumerate(zip(begins, ends, strict=True)):
            if text[begin:end].strip():
                numbers[number] = len(words)
                words.append(WordSpan(of, begin, end))
        places = np.array([begin for begin, _ in spans], np.int64)
        owned.append(numbers[np.searchsorted(ends, places, side="right")])
    return words, np.concatenate([np.empty(0, np.int64), *owned])


def _stripped(text: str, pieces: TokenEncoding) -> Iterator[tuple[int, int]]:
    """The span of each piece without white space before it; a further byte of a character has that of the first."""
    span = (0, 0)
    for begin, end in pieces.spans:
        if begin < end:
            written = text[begin:end].lstrip()
            span = (end - len(written), end) if written else (begin, end)
        yield span


def borders(text: str, spans: Sequence[tuple[int, int]]) -> list[int]:
    """Where words end. A token that reaches over a border leaves no border there: nobody could say whose it is."""
    kept = np.zeros(len(text) + 1, bool)
    kept[[*Segmenter().word_ends(text), len(text)]] = True
    whole = [found.span() for found in SHORTENED.finditer(text) if not has_han(found.group())]
    for begin, end in (*spans, *whole):
        kept[begin + 1 : end] = False
    kept[0] = False
    return np.flatnonzero(kept).tolist()


def join_words(words: Sequence[str]) -> tuple[str, list[WordSpan]]:
    """Words as one text, and where each of them stands in it: with spaces between, but not beside Chinese."""
    text, places = "", []
    for word in words:
        text += " " if text and not (has_han(text[-1]) or has_han(word[:1])) else ""
        places.append(WordSpan(0, len(text), len(text) + len(word)))
        text += word
    return text, places


Outputs = Mapping[str, "Tensor"]  # of each head, (S, …) for S copies of the example
Score = Callable[[Outputs], "Tensor"]  # → (S,)


@dataclass(frozen=True)
class TargetOutput:
    """A number that a head gives: of which example (label), row (choice) or token, for which answer; times `scale`."""

    head: str
    index: int
    class_index: int | None = None
    scale: float = 1.0


@dataclass(frozen=True, eq=False)
class AttributionTarget:
    """What is explained.

    name         in words, and what the run says itself
    probability  of it; None where a number is told
    score        of a network's outputs: label (S, 1, answers), choice (S, rows), tag (S, T, tags), start, end (S, T)
    points       the logits that speak for it, plus `shift`: all that a linear model needs
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
    task: Task, example: Any, rows: ExampleRows, logits: Logits, of: str | None = None, at: str | int | None = None
) -> AttributionTarget:
    """What is explained of an example: what the run says, or `of` instead; `at` a word, or the start or end."""
    (answer,) = task.predictions([example], rows, logits)
    if at is not None and not isinstance(task, SequenceTagging | QuestionAnswering):
        raise InputError(f"--at means nothing for {task.name}", hint="leave it out; it is for tagging and answering")
    match task:
        case Classification():
            return _label(task, answer, of)
        case MultipleChoice():
            return _choice(task, answer, of)
        case SequenceTagging():
            return _tags(task, answer, rows, logits, of, at)
        case QuestionAnswering():
            return _answer(example, answer, rows, logits, of, at)
    raise InputError(f"what {task.name} says cannot be explained yet")


def odds(scores: Tensor, one: int) -> Tensor:
    """(S, K) logits → (S,) ln p / (1 - p) of one of them."""
    others = [other for other in range(scores.shape[1]) if other != one]
    return scores[:, one] - scores[:, others].logsumexp(1)


def _label(task: Classification, answer: LabelPrediction, of: str | None) -> AttributionTarget:
    if task.kind == "number":
        if of is not None:
            raise InputError("--of means nothing where a number is told", hint="leave it out")
        name = f"{answer.label:.4g}"
        points, centre, spread = (TargetOutput("label", 0, scale=task.spread),), task.centre, task.spread
        return AttributionTarget(name, name, None, lambda out: out["label"][:, 0, 0] * spread + centre, points, centre)
    likeliest = max(answer.probabilities, key=lambda label: answer.probabilities[label])
    said = ", ".join(answer.label) if isinstance(answer.label, tuple) else str(answer.label)
    label = likeliest if of is None else of
    if label not in task.labels:
        raise InputError(f"no label is named {label!r}", hint=f"there are: {', '.join(task.labels)}")
    number, cold = task.labels.index(label), 1 / task.temperature

    def score(out: Outputs) -> Tensor:
        logits = out["label"][:, 0] * cold
        return logits[:, number] if task.kind == "several" else odds(logits, number)

    two = task.kind == "one" and len(task.labels) == 2  # then one logit is the other's negative: half of the odds
    points = (TargetOutput("label", 0, number, 2 * cold if two else cold),)
    return AttributionTarget(label, said or "(none)", answer.probabilities[label], score, points)


def _choice(task: MultipleChoice, answer: ChoicePrediction, of: str | None) -> AttributionTarget:
    number = answer.choice
    if of is not None:
        names = [*answer.choices, *(str(one) for one in range(1, len(answer.choices) + 1))]
        if of not in names:
            hint = f"give one of the choices, or its number from 1 to {len(answer.choices)}"
            raise InputError(f"{of!r} is none of the choices", hint=hint)
        number = names.index(of) % len(answer.choices)
    cold = 1 / task.temperature
    said, name = answer.choices[answer.choice], answer.choices[number]
    points = (TargetOutput("choice", number, scale=cold),)
    return AttributionTarget(
        name, said, answer.probabilities[number], lambda out: odds(out["choice"] * cold, number), points
    )


def _tags(
    task: SequenceTagging,
    answer: TagPrediction,
    rows: ExampleRows,
    logits: Logits,
    of: str | None,
    at: str | int | None,
) -> AttributionTarget:
    """Of a word its tag; of a name the tags of all its words."""
    first, last = _meant(answer, at)
    wanted = [_other_tag(task, tag, of, single=last - first == 1) for tag in answer.tags[first:last]]
    numbers = [task.tags.index(tag) for tag in wanted]
    assert rows.answer_spans is not None
    places = np.full(len(answer.words), IGNORE_INDEX)
    asked = np.flatnonzero(rows.answer_spans != IGNORE_INDEX)
    places[rows.answer_spans[asked]] = asked
    learned = logits.get("moves")

    def score(out: Outputs) -> Tensor:
        scores = out["tag"][:, places.tolist()]
        if task.crf and learned is not None:
            scores = _chained(scores, task.transitions, learned)
        return sum((odds(scores[:, first + n], tag) for n, tag in enumerate(numbers)), start=scores.new_zeros(()))

    text = join_words(answer.words[first:last])[0]
    p = answer.probabilities[range(first, last), numbers]
    points = tuple(TargetOutput("tag", int(places[first + n]), tag) for n, tag in enumerate(numbers))
    name, said = (f"{text}: {' '.join(one)}" for one in (wanted, answer.tags[first:last]))
    return AttributionTarget(name, said, float(np.prod(p ** (1 / len(p)))), score, points)


def _meant(answer: TagPrediction, at: str | int | None) -> tuple[int, int]:
    """The words that are asked about: a name or a word by its text, a word by its number, or the surest name."""
    if at is None:
        if not answer.entities:
            raise InputError("nothing was found in this text", hint="say of which word the tag is meant: --at WORD")
        surest = max(answer.entities, key=lambda entity: entity.probability)
        return surest.start, surest.end
    named = [(entity.start, entity.end) for entity in answer.entities if entity.text == str(at)]
    alike = [(number, number + 1) for number, word in enumerate(answer.words) if word == str(at)]
    found = [] if isinstance(at, int) else named or alike
    if len(found) > 1:
        numbers = ", ".join(str(first + 1) for first, _ in found)
        raise InputError(f"{at!r} stands here {len(found)} times", hint=f"give the number of its word: {numbers}")
    if found:
        return found[0]
    if str(at).isdecimal() and 1 <= int(at) <= len(answer.words):
        return int(at) - 1, int(at)
    hint = f"give a word or a name of the text, or the number of a word, from 1 to {len(answer.words)}"
    raise InputError(f"there is no word {at!r}", hint=hint)


def _other_tag(task: SequenceTagging, tag: str, of: str | None, *, single: bool) -> str:
    """The tag itself; or `of`: another tag for a single word, or the same part of a name of another kind."""
    if of is None:
        return tag
    if task.is_plain:
        if of not in task.tags:
            raise InputError(f"no tag {of!r} was learned", hint=f"there are: {', '.join(task.tags)}")
        return of
    part = tag.partition("-")[0]
    named = of if single and of in task.tags else f"{'S' if part == 'O' else part}-{of}"
    if named not in task.tags:
        kinds = sorted({one.partition("-")[2] for one in task.tags if one != "O"})
        more = " (or a tag such as B-…, or O, for a single word)" if single else ""
        raise InputError(f"nothing of the kind {of!r} was learned", hint=f"there are: {', '.join(kinds)}{more}")
    return named


def _chained(scores: Tensor, legal: TagTransitions, learned: Sequence[np.ndarray]) -> Tensor:
    """(S, N, K) emissions → what a CRF makes of them: ln P of each label at each word, up to a constant."""
    import torch

    allowed = zip(legal, learned, strict=True)
    moves, start, end = (scores.new_tensor(np.where(may, one, FORBIDDEN_SCORE)) for may, one in allowed)
    words = scores.unbind(1)
    forwards, backwards = [words[0] + start], [end.expand_as(words[0])]
    for emission in words[1:]:
        forwards.append((forwards[-1][:, :, None] + moves).logsumexp(1) + emission)
    for emission in reversed(words[1:]):
        backwards.append((moves + (emission + backwards[-1])[:, None]).logsumexp(2))
    return torch.stack(forwards, 1) + torch.stack(backwards[::-1], 1)


def _answer(
    example: QuestionExample,
    answer: AnswerPrediction,
    rows: ExampleRows,
    logits: Logits,
    of: str | None,
    at: str | int | None,
) -> AttributionTarget:
    """Start and end of an answer, or one of them, in the window that finds it likeliest."""
    if at not in (None, "start", "end"):
        raise InputError(f"--at is {at!r}", hint="give start or end; without it both are explained")
    if of is not None and (not of.strip() or of.strip() not in example.passage):
        raise InputError(f"{of!r} does not stand in the passage", hint="give --of a part of the passage, word for word")
    said = answer.text.strip()  # pieces of bytes take the space before them with them
    name, begin = said, IGNORE_INDEX
    if of is not None:
        name = of.strip()
        begin = example.passage.find(name)
    elif answer.best is not None:
        begin = answer.best.start + len(answer.text) - len(answer.text.lstrip())
    found = max(_places(rows, logits, begin, begin + len(name)), default=None)
    if found is None:
        raise InputError(f"{name!r} does not fit into one window", hint="give a shorter part of the passage")
    sure, row, first, last = found
    whole = range(*_row_ends(rows, row))
    places = {"start": first, "end": last} if at is None else {str(at): first if at == "start" else last}

    def score(out: Outputs) -> Tensor:
        sums = [odds(out[head][:, whole.start : whole.stop], place - whole.start) for head, place in places.items()]
        return sum(sums[1:], start=sums[0])

    if at is not None:
        other = _log_softmax(logits[str(at)][row])
        sure = float(other[places[str(at)] - whole.start])
    part = f"{at} of " if at is not None else ""
    names = [part + (one or "(no answer)") for one in (name, said)]
    points = tuple(TargetOutput(head, place) for head, place in places.items())
    return AttributionTarget(names[0], names[1], float(np.exp(sure)), score, points)


def _places(rows: ExampleRows, logits: Logits, begin: int, end: int) -> Iterator[tuple[float, int, int, int]]:
    """(ln P, row, token of the start, token of the end) of these characters of the passage, in every row that has them;
    without a begin those of "no answer"."""
    for row in rows.row_range(0):
        at, marks = _row_ends(rows, row)[0], rows.row_answer_spans(row)
        start, stop = (_log_softmax(logits[head][row]) for head in ("start", "end"))
        firsts, lasts = np.array([NO_ANSWER]), np.array([NO_ANSWER])
        if begin != IGNORE_INDEX:
            held = np.flatnonzero((marks[:, 0] < end) & (marks[:, 1] > begin) & (marks[:, 0] != IGNORE_INDEX))
            if not len(held) or marks[held[0], 0] > begin or marks[held[-1], 1] < end:
                continue
            # Of the tokens that are the bytes of one character, any may have been meant.
            firsts = np.flatnonzero(marks[:, 0] == marks[held[0], 0])
            lasts = np.flatnonzero(marks[:, 1] == marks[held[-1], 1])
        first, last = int(firsts[start[firsts].argmax()]), int(lasts[stop[lasts].argmax()])
        yield float(start[first] + stop[last]), row, at + first, at + last


def _row_ends(rows: ExampleRows, row: int) -> tuple[int, int]:
    """Where a row begins and ends among all tokens."""
    end = int(rows.lengths[: row + 1].sum())
    return end - int(rows.lengths[row]), end


def _log_softmax(scores: np.ndarray) -> np.ndarray:
    shifted = scores.astype(np.float64) - scores.max()
    return shifted - np.log(np.exp(shifted).sum())
