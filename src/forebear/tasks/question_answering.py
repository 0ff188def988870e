"""Where in the passage is the answer? A start and an end, each with a probability for every token."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from forebear.data.labeled.examples import QuestionExample
from forebear.errors import InputError
from forebear.numerics import log_softmax
from forebear.objectives.batch import IGNORE_INDEX
from forebear.objectives.input_format import InputFormat
from forebear.tasks import metrics
from forebear.tasks.metrics import answer_scores, best_no_answer_threshold
from forebear.tasks.task import HeadSpec, Judgment, Logits, Task
from forebear.tasks.task_batches import ExampleRow, ExampleRows

if TYPE_CHECKING:
    from torch import nn

    from forebear.data.tokenizers.tokenizer import TokenEncoding, Tokenizer

OVERLAP = 4  # a window repeats at least a fourth of the one before it, and as much as the longest answer, up to half
OTHERS = 2  # windows without the answer that are learned from, for each example
BEST = 20  # starts and ends that are tried with each other
LEAST = 1e-300  # probability that still has a logarithm
NO_ANSWER = 0  # the place in a row that stands for "not here": its first token


@dataclass(frozen=True)
class AnswerCandidate:
    """A part of the passage that may be the answer."""

    text: str
    start: int
    probability: float

    def to_dict(self) -> dict[str, Any]:
        return {"text": self.text, "start": self.start, "probability": round(self.probability, 6)}


@dataclass(frozen=True)
class AnswerPrediction:
    """The answer to a question: the best of the candidates, or None where there seems to be none.

    table  the tokens of the window that holds the best: their text, and how probably each begins and ends the answer
    """

    question: str
    passage: str
    best: AnswerCandidate | None
    candidates: tuple[AnswerCandidate, ...]
    no_answer_score: float  # how probable it is that there is no answer
    is_linear: tuple[tuple[str, float, float], ...]

    @property
    def text(self) -> str:
        return "" if self.best is None else self.best.text

    @property
    def margin(self) -> float:
        """How much likelier "no answer" is than the best candidate, in nats."""
        candidate = self.candidates[0].probability if self.candidates else 0.0
        return float(np.log(max(self.no_answer_score, LEAST)) - np.log(max(candidate, LEAST)))

    def to_dict(self) -> dict[str, Any]:
        return {
            "question": self.question,
            "answer": None if self.best is None else self.best.text,
            "start": None if self.best is None else self.best.start,
            "probability": None if self.best is None else round(self.best.probability, 6),
            "no_answer": round(self.no_answer_score, 6),
            "candidates": [one.to_dict() for one in self.candidates],
            "table": [{"token": token, "start": round(s, 6), "end": round(e, 6)} for token, s, e in self.is_linear],
        }


@dataclass(frozen=True)
class QuestionAnswering(Task):
    """longest     tokens of an answer at most
    unanswered  whether some questions have no answer; else one is always given
    threshold   by how much "no answer" must be likelier (in nats) before it is said
    top         candidates that are told
    """

    verb: ClassVar[str] = "answer"
    score: ClassVar[str] = "f1"

    longest: int = 30
    unanswered: bool = False
    threshold: float = 0.0
    top: int = 5

    @classmethod
    def from_examples(cls, examples: Sequence[QuestionExample], **options: Any) -> QuestionAnswering:
        given = [example.answers for example in examples if example.answers is not None]
        if not any(given):
            raise InputError("no question has an answer", hint="give answers that stand in their passages")
        # A token is at least a character: no answer has more tokens than the longest has characters.
        longest = max(len(span.text) for answers in given for span in answers)
        return cls(**{"longest": min(longest, 80), "unanswered": not all(given), **options})

    @property
    def linear_kind(self) -> tuple[str, bool]:
        return "span", True

    def encode(
        self, examples: Sequence[QuestionExample], tokenizer: Tokenizer, layout: InputFormat, *, learning: bool = False
    ) -> ExampleRows:
        made: list[ExampleRow] = []
        cut = 0
        cutting = _CachingTokenizer(tokenizer)
        for number, example in enumerate(examples):
            question = cutting.of(example.question).ids
            kept = question[: max(1, layout.max_text_tokens(2) // 2)]
            cut += len(question) - len(kept)
            windows = list(self._windows(number, kept, cutting.of(example.passage), example, layout))
            made += _taught(windows, number) if learning else windows
        return ExampleRows.from_rows(made, tells=layout.segments, grouped=False, cut=cut)

    def _windows(
        self, number: int, question: np.ndarray, passage: TokenEncoding, example: QuestionExample, layout: InputFormat
    ) -> Iterator[ExampleRow]:
        room = layout.max_text_tokens(2) - len(question)
        first, last = _tokens_of(passage, example)
        length, begin = len(passage.ids), 0
        while True:
            window = passage.ids[begin : begin + room]
            at = layout.last_text_start(question, window)
            inside = begin <= first and last < begin + len(window) and first >= 0
            places = (at + first - begin, at + last - begin) if inside else (NO_ANSWER, NO_ANSWER)
            places = (IGNORE_INDEX, IGNORE_INDEX) if example.answers is None else places
            marks = np.full((at + len(window) + len(layout.after), 2), IGNORE_INDEX, np.int64)
            marks[at : at + len(window)] = passage.spans[begin : begin + len(window)] or 0
            yield ExampleRow(number, *layout.make_row(question, window), {"start": places[0], "end": places[1]}, marks)
            if begin + room >= length:
                return
            begin += max(1, room - min(room // 2, max(room // OVERLAP, self.longest)))

    def build_heads(self, making: HeadSpec) -> dict[str, nn.Module]:
        from forebear.nn.heads import PointerHead

        how: dict[str, Any] = {"dropout": making.dropout}
        return {name: PointerHead(making.width, mixture=making.make_mix(), **how) for name in ("start", "end")}

    def predictions(
        self, examples: Sequence[QuestionExample], rows: ExampleRows, logits: Logits
    ) -> list[AnswerPrediction]:
        made = []
        for number, example in enumerate(examples):
            windows = [
                _PassageWindow(
                    rows.row_answer_spans(row),
                    log_softmax(logits["start"][row].astype(np.float64)),
                    log_softmax(logits["end"][row].astype(np.float64)),
                )
                for row in rows.row_range(number)
            ]
            made.append(self._answer(example, windows))
        return made

    def _answer(self, example: QuestionExample, windows: Sequence[_PassageWindow]) -> AnswerPrediction:
        found: list[tuple[float, int, int, int]] = []  # log P, window, first and last token
        for number, window in enumerate(windows):
            found += [(score, number, first, last) for score, first, last in window.spans(self.longest)]
        found.sort(key=lambda one: -one[0])
        candidates: dict[tuple[int, int], AnswerCandidate] = {}  # windows overlap: the same place may be found twice
        for score, number, first, last in found:
            begin, end = int(windows[number].marks[first, 0]), int(windows[number].marks[last, 1])
            written = example.passage[begin:end]
            begin += len(written) - len(written.lstrip())  # pieces of bytes take the space before a word with them
            if begin < end and len(candidates) < self.top:
                one = AnswerCandidate(example.passage[begin:end], begin, float(np.exp(score)))
                candidates.setdefault((begin, end), one)
        told = tuple(candidates.values())
        none = min((float(window.start[NO_ANSWER] + window.end[NO_ANSWER]) for window in windows), default=0.0)
        best = told[0] if told else None
        table = windows[found[0][1]].table(example.passage) if found else ()
        answer = AnswerPrediction(example.question, example.passage, best, told, float(np.exp(none)), table)
        return replace(answer, best=None) if self.unanswered and answer.margin > self.threshold else answer

    def calibrate(self, examples: Sequence[QuestionExample], rows: ExampleRows, logits: Logits) -> QuestionAnswering:
        """With the threshold for "no answer" with which the held-out questions are answered best."""
        always = replace(self, threshold=np.inf).predictions(examples, rows, logits)
        told = [(one, answer) for one, answer in zip(examples, always, strict=True) if one.answers is not None]
        if not self.unanswered or len(told) < metrics.MIN_CALIBRATION_EXAMPLES:
            return self
        golds = [_texts(one) for one, _ in told]
        found = best_no_answer_threshold(
            golds, [answer.text for _, answer in told], [answer.margin for _, answer in told]
        )
        return replace(self, threshold=found)

    def judge(self, example: QuestionExample, answer: AnswerPrediction) -> Judgment:
        wanted = _texts(example)
        right = answer_scores([wanted], [answer.text])["exact_match"] == 1
        return Judgment(
            right, " | ".join(wanted), answer.text, answer.best.probability if answer.best else answer.no_answer_score
        )

    def evaluate(self, examples: Sequence[QuestionExample], answers: Sequence[AnswerPrediction]) -> dict[str, Any]:
        told = [(one, answer) for one, answer in zip(examples, answers, strict=True) if one.answers is not None]
        return answer_scores([_texts(one) for one, _ in told], [answer.text for _, answer in told]) | {
            "examples": len(told)
        }


def _texts(example: QuestionExample) -> tuple[str, ...]:
    return tuple(span.text for span in example.answers or ())


@dataclass(frozen=True, eq=False)
class _PassageWindow:
    """What a row says of the part of the passage that it holds: log P of each token as the answer's start and end."""

    marks: np.ndarray
    start: np.ndarray
    end: np.ndarray

    def spans(self, longest: int) -> Iterator[tuple[float, int, int]]:
        """The likeliest pairs of a first and a last token that make a span."""
        places = np.flatnonzero(self.marks[:, 0] != IGNORE_INDEX)
        if not len(places):
            return
        firsts = places[np.argsort(-self.start[places])[:BEST]]
        lasts = places[np.argsort(-self.end[places])[:BEST]]
        spans = (lasts[None] >= firsts[:, None]) & (lasts[None] < firsts[:, None] + longest)
        scores = np.where(spans, self.start[firsts][:, None] + self.end[lasts][None], -np.inf)
        for best in np.argsort(-scores, axis=None, kind="stable")[: min(BEST, np.count_nonzero(spans))].tolist():
            first, last = divmod(best, len(lasts))
            yield float(scores[first, last]), int(firsts[first]), int(lasts[last])

    def table(self, passage: str) -> tuple[tuple[str, float, float], ...]:
        inside = self.marks[:, 0] != IGNORE_INDEX
        told = zip(self.marks[inside].tolist(), np.exp(self.start[inside]), np.exp(self.end[inside]), strict=True)
        return tuple((passage[begin:end], float(s), float(e)) for (begin, end), s, e in told)


class _CachingTokenizer:
    """A tokenizer that remembers the last texts: many questions are asked of one passage."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.of = lru_cache(maxsize=64)(tokenizer.encode)


def _tokens_of(passage: TokenEncoding, example: QuestionExample) -> tuple[int, int]:
    """The first and the last token of the (first) answer; -1 where there is none."""
    if not example.answers:
        return -1, -1
    span = example.answers[0]
    begin, end = span.start, span.start + len(span.text)
    inside = [number for number, (a, b) in enumerate(passage.spans) if a < end and b > begin]
    return (inside[0], inside[-1]) if inside else (-1, -1)


def _taught(windows: Sequence[ExampleRow], number: int) -> list[ExampleRow]:
    """Those with the answer and a few of the others: of a long passage nearly all windows would teach "not here"."""
    holding = [row for row in windows if row.targets["start"] not in (NO_ANSWER, IGNORE_INDEX)]
    others = [row for row in windows if row.targets["start"] in (NO_ANSWER, IGNORE_INDEX)]
    if len(others) > OTHERS:
        chosen = np.random.default_rng(number).choice(len(others), OTHERS, replace=False)
        others = [others[one] for one in sorted(chosen.tolist())]
    return holding + others
