"""Extractive question answering: start and end probabilities for every token of a passage."""

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
from forebear.tasks.task import AnswerComparison, HeadSpec, Logits, Task
from forebear.tasks.task_batches import ExampleRow, ExampleRows

if TYPE_CHECKING:
    from torch import nn

    from forebear.data.tokenizers.tokenizer import TokenEncoding, Tokenizer

Examples = Sequence[QuestionExample]

OVERLAP_DIVISOR = 4  # windows overlap by a fourth or by the maximum answer length, but at most by half
MAX_NEGATIVE_WINDOWS = 2  # training windows without the answer, per example
MAX_SPAN_CANDIDATES = 20  # the best starts and ends, which are combined
MIN_PROBABILITY = 1e-300  # avoids log(0)
NO_ANSWER_POSITION = 0  # the position for "no answer": the first token


@dataclass(frozen=True)
class AnswerCandidate:
    """A candidate answer span."""

    text: str
    start: int
    probability: float

    def to_dict(self) -> dict[str, Any]:
        return {"text": self.text, "start": self.start, "probability": round(self.probability, 6)}


@dataclass(frozen=True)
class AnswerPrediction:
    """The answer to a question: the best candidate, or None if the question seems unanswerable."""

    question: str
    passage: str
    best: AnswerCandidate | None
    candidates: tuple[AnswerCandidate, ...]
    no_answer_score: float  # probability of no answer
    token_table: tuple[tuple[str, float, float], ...]  # (token, P(start), P(end)) in the window of the best candidate

    @property
    def text(self) -> str:
        return "" if self.best is None else self.best.text

    @property
    def margin(self) -> float:
        """Log-probability of no answer minus that of the best candidate, in nats."""
        candidate = self.candidates[0].probability if self.candidates else 0.0
        return float(np.log(max(self.no_answer_score, MIN_PROBABILITY)) - np.log(max(candidate, MIN_PROBABILITY)))

    def to_dict(self) -> dict[str, Any]:
        return {
            "question": self.question,
            "answer": None if self.best is None else self.best.text,
            "start": None if self.best is None else self.best.start,
            "probability": None if self.best is None else round(self.best.probability, 6),
            "no_answer": round(self.no_answer_score, 6),
            "candidates": [candidate.to_dict() for candidate in self.candidates],
            "table": [
                {"token": row[0], "start": round(row[1], 6), "end": round(row[2], 6)} for row in self.token_table
            ],
        }


@dataclass(frozen=True)
class QuestionAnswering(Task):
    """Extractive question answering."""

    verb: ClassVar[str] = "answer"
    metric: ClassVar[str] = "f1"
    linear_kind: ClassVar[tuple[str, bool]] = ("span", True)

    longest: int = 30  # maximum tokens of an answer
    unanswered: bool = False  # whether questions may be unanswerable
    threshold: float = 0.0  # minimum margin (nats) of "no answer" over the best candidate
    top: int = 5  # candidates in a prediction

    @classmethod
    def from_examples(cls, examples: Examples, **options: Any) -> QuestionAnswering:
        answer_lists = [example.answers for example in examples if example.answers is not None]
        if not any(answer_lists):
            raise InputError("no question has an answer", hint="give answers that stand in their passages")
        # A token has at least one character, so characters bound the tokens of an answer.
        longest = max(len(span.text) for answers in answer_lists for span in answers)
        return cls(**{"longest": min(longest, 80), "unanswered": not all(answer_lists), **options})

    def encode(
        self, examples: Examples, tokenizer: Tokenizer, input_format: InputFormat, *, is_training: bool = False
    ) -> ExampleRows:
        rows: list[ExampleRow] = []
        num_truncated = 0
        encode = lru_cache(maxsize=64)(tokenizer.encode)  # many questions share a passage
        for index, example in enumerate(examples):
            question = encode(example.question).ids
            truncated = question[: max(1, input_format.max_text_tokens(2) // 2)]
            num_truncated += len(question) - len(truncated)
            windows = list(self._windows(index, truncated, encode(example.passage), example, input_format))
            rows += _select_training_windows(windows, index) if is_training else windows
        uses_segments = input_format.segments
        return ExampleRows.from_rows(rows, uses_segments=uses_segments, groups_rows=False, num_truncated=num_truncated)

    def _windows(
        self,
        example_index: int,
        question: np.ndarray,
        passage: TokenEncoding,
        example: QuestionExample,
        input_format: InputFormat,
    ) -> Iterator[ExampleRow]:
        max_tokens = input_format.max_text_tokens(2) - len(question)
        first_answer_token, last_answer_token = _answer_tokens(passage, example)
        num_tokens, start = len(passage.ids), 0
        while True:
            window = passage.ids[start : start + max_tokens]
            offset = input_format.last_text_start(question, window)
            targets = {"start": NO_ANSWER_POSITION, "end": NO_ANSWER_POSITION}
            if example.answers is None:
                targets = {"start": IGNORE_INDEX, "end": IGNORE_INDEX}
            elif start <= first_answer_token and last_answer_token < start + len(window) and first_answer_token >= 0:
                targets = {"start": offset + first_answer_token - start, "end": offset + last_answer_token - start}
            token_spans = np.full((offset + len(window) + len(input_format.after), 2), IGNORE_INDEX, np.int64)
            token_spans[offset : offset + len(window)] = passage.spans[start : start + len(window)] or 0
            yield ExampleRow(example_index, *input_format.make_row(question, window), targets, token_spans)
            if start + max_tokens >= num_tokens:
                return
            start += max(1, max_tokens - min(max_tokens // 2, max(max_tokens // OVERLAP_DIVISOR, self.longest)))

    def build_heads(self, head_spec: HeadSpec) -> dict[str, nn.Module]:
        from forebear.nn.heads import PointerHead

        return {
            name: PointerHead(head_spec.width, mixture=head_spec.make_mix(), dropout=head_spec.dropout)
            for name in ("start", "end")
        }

    def predictions(self, examples: Examples, rows: ExampleRows, logits: Logits) -> list[AnswerPrediction]:
        predictions = []
        for example_index, example in enumerate(examples):
            windows = [
                _PassageWindow(
                    rows.row_token_sources(row),
                    log_softmax(logits["start"][row].astype(np.float64)),
                    log_softmax(logits["end"][row].astype(np.float64)),
                )
                for row in rows.row_range(example_index)
            ]
            predictions.append(self._predict_answer(example, windows))
        return predictions

    def _predict_answer(self, example: QuestionExample, windows: Sequence[_PassageWindow]) -> AnswerPrediction:
        spans: list[tuple[float, int, int, int]] = []  # log P, window, first and last token
        for window_index, window in enumerate(windows):
            spans += [(score, window_index, first, last) for score, first, last in window.spans(self.longest)]
        spans.sort(key=lambda span: -span[0])
        candidates: dict[tuple[int, int], AnswerCandidate] = {}  # windows overlap: a span may occur twice
        for score, window_index, first, last in spans:
            start, end = int(windows[window_index].offsets[first, 0]), int(windows[window_index].offsets[last, 1])
            raw_text = example.passage[start:end]
            start += len(raw_text) - len(raw_text.lstrip())  # byte-level tokens include the preceding space
            if start < end and len(candidates) < self.top:
                candidate = AnswerCandidate(example.passage[start:end], start, float(np.exp(score)))
                candidates.setdefault((start, end), candidate)
        sorted_candidates = tuple(candidates.values())
        no_answer_scores = (window.start[NO_ANSWER_POSITION] + window.end[NO_ANSWER_POSITION] for window in windows)
        no_answer_probability = float(np.exp(min(map(float, no_answer_scores), default=0.0)))
        best = sorted_candidates[0] if sorted_candidates else None
        table = windows[spans[0][1]].token_table(example.passage) if spans else ()
        outputs = best, sorted_candidates, no_answer_probability, table
        prediction = AnswerPrediction(example.question, example.passage, *outputs)
        return replace(prediction, best=None) if self.unanswered and prediction.margin > self.threshold else prediction

    def calibrate(self, examples: Examples, rows: ExampleRows, logits: Logits) -> QuestionAnswering:
        """Choose the "no answer" threshold with the best F1 on the dev set."""
        forced_predictions = replace(self, threshold=np.inf).predictions(examples, rows, logits)
        labeled = metrics.labeled_pairs(examples, forced_predictions)
        if not self.unanswered or len(labeled) < metrics.MIN_CALIBRATION_EXAMPLES:
            return self
        golds = [_answer_texts(example) for example, _ in labeled]
        predicted, margins = [answer.text for _, answer in labeled], [answer.margin for _, answer in labeled]
        return replace(self, threshold=metrics.best_no_answer_threshold(golds, predicted, margins))

    def compare_to_gold(self, example: QuestionExample, prediction: AnswerPrediction) -> AnswerComparison:
        expected = _answer_texts(example)
        is_right = metrics.answer_scores([expected], [prediction.text])["exact_match"] == 1
        probability = prediction.best.probability if prediction.best else prediction.no_answer_score
        return AnswerComparison(is_right, " | ".join(expected), prediction.text, probability)

    def evaluate(self, examples: Examples, predictions: Sequence[AnswerPrediction]) -> dict[str, Any]:
        labeled = metrics.labeled_pairs(examples, predictions)
        golds = [_answer_texts(example) for example, _ in labeled]
        return metrics.answer_scores(golds, [answer.text for _, answer in labeled]) | {"examples": len(labeled)}


def _answer_texts(example: QuestionExample) -> tuple[str, ...]:
    return tuple(span.text for span in example.answers or ())


@dataclass(frozen=True, eq=False)
class _PassageWindow:
    """A window of the passage with log-probabilities of each token as start and end of the answer."""

    offsets: np.ndarray
    start: np.ndarray
    end: np.ndarray

    def spans(self, max_tokens: int) -> Iterator[tuple[float, int, int]]:
        """The most probable (score, first token, last token) spans."""
        positions = np.flatnonzero(self.offsets[:, 0] != IGNORE_INDEX)
        if not len(positions):
            return
        start_positions = positions[np.argsort(-self.start[positions])[:MAX_SPAN_CANDIDATES]]
        end_positions = positions[np.argsort(-self.end[positions])[:MAX_SPAN_CANDIDATES]]
        starts, ends = start_positions[:, None], end_positions[None]
        is_valid = (ends >= starts) & (ends < starts + max_tokens)
        scores = np.where(is_valid, self.start[starts] + self.end[ends], -np.inf)
        count = min(MAX_SPAN_CANDIDATES, np.count_nonzero(is_valid))
        for best in np.argsort(-scores, axis=None, kind="stable")[:count].tolist():
            first, last = divmod(best, len(end_positions))
            yield float(scores[first, last]), int(start_positions[first]), int(end_positions[last])

    def token_table(self, passage: str) -> tuple[tuple[str, float, float], ...]:
        is_passage = self.offsets[:, 0] != IGNORE_INDEX
        texts = [passage[begin:end] for begin, end in self.offsets[is_passage].tolist()]
        start, end = (np.exp(scores[is_passage]).tolist() for scores in (self.start, self.end))
        return tuple(zip(texts, start, end, strict=True))


def _answer_tokens(passage: TokenEncoding, example: QuestionExample) -> tuple[int, int]:
    """The first and the last token of the first answer; -1 without one."""
    if not example.answers:
        return -1, -1
    start = example.answers[0].start
    end = start + len(example.answers[0].text)
    tokens = [index for index, (first, last) in enumerate(passage.spans) if first < end and last > start]
    return (tokens[0], tokens[-1]) if tokens else (-1, -1)


def _select_training_windows(windows: Sequence[ExampleRow], example_index: int) -> list[ExampleRow]:
    """Windows with the answer and a few others; otherwise "no answer" dominates in long passages."""
    positives = [row for row in windows if row.targets["start"] not in (NO_ANSWER_POSITION, IGNORE_INDEX)]
    negatives = [row for row in windows if row.targets["start"] in (NO_ANSWER_POSITION, IGNORE_INDEX)]
    if len(negatives) > MAX_NEGATIVE_WINDOWS:
        sampled = np.random.default_rng(example_index).choice(len(negatives), MAX_NEGATIVE_WINDOWS, replace=False)
        negatives = [negatives[index] for index in sorted(sampled.tolist())]
    return positives + negatives
