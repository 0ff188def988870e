"""Zero- and few-shot prompting: choose among labels or choices, fill a blank, summarize, reply.

Label scores are calibrated by default (Zhao et al. 2021; Holtzman et al. 2021): the probability of a label is divided
by its probability after a content-free prompt. Otherwise word frequency, or the fit with the template, decides in small
models. Choices are not calibrated: their prior probability is part of the question.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Literal, TypedDict, get_args

import numpy as np

from forebear.data.unicode import replace_surrogates
from forebear.errors import InputError, require_choice
from forebear.inference.next_tokens import BLANK_PATTERN, find_blank
from forebear.inference.prompt_templates import (
    CHINESE_TEMPLATE,
    ENGLISH_TEMPLATE,
    AnswerOption,
    FittedPrompt,
    LabelSpec,
    PromptFrame,
    PromptTemplate,
    Shots,
    fit_prompt,
    fit_with_shots,
    is_chinese,
    parse_labels,
    validate_options,
)
from forebear.inference.score_continuations import ScoredSpan, is_masked_lm, score_verbalizers
from forebear.numerics import finite_or_none

if TYPE_CHECKING:
    from forebear.data.tokenizers.tokenizer import Tokenizer
    from forebear.inference.predictor_protocols import CausalLM
    from forebear.nn.masked_token_predictor import MaskedTokenPredictor

ScoreUnit = Literal["total", "token", "byte"]
PromptWithVerbalizers = tuple[PromptFrame, tuple[str, ...]]
FrameFn = Callable[[str], PromptWithVerbalizers]
CalibrationKey = tuple[tuple[str, ...], int]  # calibration depends on verbalizers and number of examples only

BATCH_TEXTS = 256  # texts per batch: bounds memory, does not affect results
TIE_TOLERANCE = 1e-6  # maximum difference of equal probabilities, a little above a network's rounding errors
CLOSING_PUNCTUATION = frozenset(",.;:!?)]}%”»…")  # no space before these
FIRST_WIDE_CHARACTER = "\u2e80"  # scripts from here on have no spaces between words


@dataclass(frozen=True)
class OptionScore:
    """An answer and its scores; natural logarithms."""

    name: str
    verbalizer: str  # the most probable one
    prompt: str  # the full text with that verbalizer
    probability: float  # exp(score), normalized over all answers
    score: float  # for comparison: `log_prob` minus `content_free_log_prob`, each per token or byte on request
    log_prob: float  # of all verbalizers together, each with the text after it
    content_free_log_prob: float | None  # the same after the content-free prompt; None: not calibrated
    tokens: int  # scored tokens
    bytes: int  # scored bytes
    num_unknown: int  # unknown tokens of the most probable verbalizer

    @property
    def bits_per_byte(self) -> float:
        """Bits per byte of an answer with one verbalizer."""
        return -self.log_prob / math.log(2) / self.bytes

    def to_dict(self) -> dict[str, Any]:
        """As JSON values; infinite values are null."""
        result: dict[str, Any] = {
            "name": self.name,
            "probability": self.probability,
            "score": finite_or_none(self.score),
            "log_probability": finite_or_none(self.log_prob),
            "wording": self.verbalizer,
            "whole": self.prompt,
            "tokens": self.tokens,
            "bytes": self.bytes,
            "unknown_tokens": self.num_unknown,
        }
        log_prob = self.content_free_log_prob
        return result if log_prob is None else {**result, "neutral": finite_or_none(log_prob)}


@dataclass(frozen=True)
class PromptAnswer:
    """A text and all answers in the given order."""

    text: str
    answers: tuple[OptionScore, ...]
    num_truncated: int  # tokens of the text that did not fit
    shots: int  # few-shot examples before it
    is_pseudo_likelihood: bool  # tokens were predicted from both sides

    @property
    def best(self) -> OptionScore | None:
        """The most probable answer, the first of ties; None if all are impossible."""
        first = max(self.answers, key=lambda answer: answer.probability)
        return first if first.probability > 0 else None

    @property
    def is_tied(self) -> bool:
        """Whether all answers are equally probable."""
        probabilities = [answer.probability for answer in self.answers]
        return self.best is not None and max(probabilities) - min(probabilities) < TIE_TOLERANCE

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "text": self.text,
            "answer": None if self.best is None else self.best.name,
            "tied": self.is_tied,
            "cut_tokens": self.num_truncated,
            "shots": self.shots,
            "pseudo": self.is_pseudo_likelihood,
            "answers": [answer.to_dict() for answer in self.answers],
        }


class PromptOptions(TypedDict, total=False):
    """Options of `score_options`."""

    labels: LabelSpec | None
    choices: Sequence[str] | None
    template: str | None
    shots: Shots
    calibrate: bool | None
    neutral: str | None
    per: ScoreUnit


def score_options(
    scorer: CausalLM | MaskedTokenPredictor,
    tokenizer: Tokenizer,
    texts: str | Sequence[str],
    *,
    labels: LabelSpec | None = None,
    choices: Sequence[str] | None = None,
    template: str | None = None,
    shots: Shots = (),
    calibrate: bool | None = None,
    neutral: str | None = None,
    per: ScoreUnit = "total",
) -> list[PromptAnswer]:
    """Score the labels or choices as completions of each text.

    Labels fill a template with {text} and {label}, after as many few-shot examples (text, label) as fit. A label may
    have several verbalizers; its probability is their sum. Choices continue the text, or fill its blank (____).
    `neutral` is the content-free text of calibration, by default empty.

    An overlong text is truncated where it is farthest from the answer; `num_truncated` counts the removed tokens.
    """
    if (labels is None) == (choices is None):
        message = f"{'neither labels nor' if labels is None else 'both labels and'} choices to choose from"
        raise InputError(message, hint='give --labels "good,bad", or --choices "this one" "that one"')
    require_choice("per", per, get_args(ScoreUnit))
    is_calibrated = labels is not None if calibrate is None else calibrate
    if neutral is not None and not is_calibrated:
        raise InputError("a neutral text changes nothing without calibration", hint="add --calibrate, or leave it out")
    content_free_text = replace_surrogates(neutral or "") if is_calibrated else None
    if labels is not None:
        options = parse_labels(labels)
        frame_fn, shot_texts = _label_frame_fn(options, template, shots)
    elif template is not None or shots:
        raise InputError("choices take no template and no examples", hint="write the text out, or give --labels")
    else:
        choice_options = [AnswerOption(name, (name,)) for name in choices or ()]
        options = validate_options(choice_options, "choice", "an argument for each")
        frame_fn, shot_texts = _choice_frame_fn(scorer, tokenizer, options), []
    prompt_scorer = _PromptScorer(scorer, tokenizer, options, frame_fn, shot_texts, content_free_text, per)
    cleaned, answers = clean_texts(texts), []
    for start in range(0, len(cleaned), BATCH_TEXTS):
        answers += prompt_scorer.answer_texts(cleaned[start : start + BATCH_TEXTS], start + 1)
    return answers


def _label_frame_fn(options: Sequence[AnswerOption], template: str | None, shots: Shots) -> tuple[FrameFn, list[str]]:
    """A function that puts a text into the template, by default in the language of the labels; rendered examples."""
    verbalizers = tuple(replace_surrogates(word) for option in options for word in option.verbalizers)
    default_template = CHINESE_TEMPLATE if is_chinese(*verbalizers) else ENGLISH_TEMPLATE
    parsed_template = PromptTemplate.parse(default_template if template is None else template)
    shot_verbalizers = {option.name: option.verbalizers[0] for option in options}
    for index, (text, label) in enumerate(shots, 1):
        if label not in shot_verbalizers:
            message = f"example {index} ({text[:40]!r}) has {label!r}, which is none of the labels"
            raise InputError(message, hint=f"there are: {', '.join(shot_verbalizers)}")
    rendered_shots = parsed_template.render_shots(shots, shot_verbalizers)
    return lambda text: (parsed_template.frame(text), verbalizers), rendered_shots


def _choice_frame_fn(
    scorer: CausalLM | MaskedTokenPredictor, tokenizer: Tokenizer, options: Sequence[AnswerOption]
) -> FrameFn:
    """A function that inserts choices into a text: at its blank (____ or mask token), or else at its end."""
    names = tuple(replace_surrogates(option.name) for option in options)
    mask = f"|(?:{re.escape(tokenizer.id_to_token(scorer.mask_id))})+" if is_masked_lm(scorer) else ""
    pattern = re.compile(f"{BLANK_PATTERN.pattern}{mask}")

    def frame_text(text: str) -> PromptWithVerbalizers:
        if (blank := find_blank(pattern, text)) is not None:
            return PromptFrame(left=text[: blank.start()], right=text[blank.end() :]), names
        spaced_names = tuple(" " * _needs_space(text, name) + name for name in names)
        return PromptFrame(left=text, is_continuation=not is_masked_lm(scorer)), spaced_names

    return frame_text


def _needs_space(text: str, words: str) -> bool:
    """Whether there must be a space between the text and the words."""
    last_character, first_character = text[-1:], words[0]
    if last_character.isspace() or first_character.isspace() or first_character in CLOSING_PUNCTUATION:
        return False
    return max(last_character, first_character) < FIRST_WIDE_CHARACTER


@dataclass
class _PromptScorer:
    """Scorer of the options for each text: log-probabilities and calibrated probabilities."""

    scorer: CausalLM | MaskedTokenPredictor
    tokenizer: Tokenizer
    options: tuple[AnswerOption, ...]
    frame_fn: FrameFn
    shots: Sequence[str]
    content_free_text: str | None  # replaces the text in calibration
    normalize_by: ScoreUnit
    calibration_cache: dict[CalibrationKey, list[ScoredSpan]] = field(default_factory=dict)

    @property
    def limit(self) -> int | None:
        """Maximum number of text tokens."""
        return self.scorer.max_text_tokens if is_masked_lm(self.scorer) else self.scorer.max_length

    @property
    def _first_verbalizers(self) -> list[int]:
        """Index of each option's first verbalizer among those of all options."""
        return [0, *accumulate(len(option.verbalizers) for option in self.options[:-1])]

    def answer_texts(self, texts: Sequence[str], first_line: int) -> list[PromptAnswer]:
        """Answer a batch of texts; `first_line` is the number of its first text, for errors."""
        prompts = fit_prompts(texts, self.frame_fn, self.shots, self.tokenizer, self.limit, first_line)
        content_free_prompts: dict[CalibrationKey, FittedPrompt] = {}
        if self.content_free_text is not None:
            frame, _ = self.frame_fn(self.content_free_text)
            for key in dict.fromkeys(map(_calibration_key, prompts)):
                if key not in self.calibration_cache:
                    verbalizers, num_shots = key
                    after_shots = frame.after_shots("".join(self.shots[:num_shots]))
                    content_free_prompts[key] = fit_prompt(after_shots, verbalizers, self.tokenizer, self.limit)
        spans = score_verbalizers(self.scorer, self.tokenizer, [*prompts, *content_free_prompts.values()])
        self.calibration_cache |= dict(zip(content_free_prompts, spans[len(prompts) :], strict=True))
        return [self._to_answer(*columns) for columns in zip(texts, prompts, spans, strict=False)]

    def _to_answer(self, text: str, prompt: FittedPrompt, spans: Sequence[ScoredSpan]) -> PromptAnswer:
        log_probs, scores = self._option_scores(spans), self._option_scores(spans, self.normalize_by)
        content_free_log_probs: list[float | None] = [None] * len(scores)
        if self.content_free_text is not None:
            content_free_spans = self.calibration_cache[_calibration_key(prompt)]
            content_free_log_probs = self._option_scores(content_free_spans).tolist()
            scores -= self._content_free_scores(content_free_spans)
        log_total = float(np.logaddexp.reduce(scores))
        probabilities = np.exp(scores - log_total) if log_total > -math.inf else np.zeros(len(scores))
        answers = []
        for index, (option, first) in enumerate(zip(self.options, self._first_verbalizers, strict=True)):
            best = max(range(first, first + len(option.verbalizers)), key=lambda position: spans[position].log_prob)
            words, full_text = option.verbalizers[best - first], prompt.frame.full_text(prompt.verbalizers[best])
            counts = (spans[best].end - spans[best].start, spans[best].bytes, spans[best].num_unknown)
            values = (float(probabilities[index]), float(scores[index]), float(log_probs[index]))
            content_free_log_prob = content_free_log_probs[index]
            answers.append(OptionScore(option.name, words, full_text, *values, content_free_log_prob, *counts))
        return PromptAnswer(text, tuple(answers), prompt.num_truncated, prompt.shots, self.scorer.is_pseudo_likelihood)

    def _option_scores(self, spans: Sequence[ScoredSpan], normalize_by: ScoreUnit = "total") -> np.ndarray:
        """(options,) log-sum over the verbalizers of each option."""
        counts = [{"total": 1, "token": span.end - span.start, "byte": span.bytes}[normalize_by] for span in spans]
        return np.logaddexp.reduceat([span.log_prob for span in spans] / np.array(counts), self._first_verbalizers)

    def _content_free_scores(self, content_free_spans: Sequence[ScoredSpan]) -> np.ndarray:
        """Scores to subtract in calibration; InputError if one is -inf."""
        scores = self._option_scores(content_free_spans, self.normalize_by)
        if (scores == -math.inf).any():
            name = self.options[int(np.argmin(scores))].name
            message = f"without the text {name!r} is impossible for this run, and nothing can be divided by that"
            raise InputError(message, hint="leave calibration out (--no-calibrate), or ask a run that smooths")
        return scores


def _calibration_key(prompt: FittedPrompt) -> CalibrationKey:
    return prompt.verbalizers, prompt.shots


def fit_prompts(
    texts: Sequence[str],
    frame_fn: FrameFn,
    shots: Sequence[str],
    tokenizer: Tokenizer,
    limit: int | None,
    first_line: int = 1,
) -> list[FittedPrompt]:
    """Fit the prompt of each text, with examples before it; errors carry the number of the text, from `first_line`."""
    fitted = []
    for line, text in enumerate(texts, first_line):
        try:
            if not text.strip():
                raise InputError("this text is empty", hint="leave it out, or write some text")
            fitted.append(fit_with_shots(shots, *frame_fn(text), tokenizer, limit))
        except InputError as error:
            error.line = line
            raise
    return fitted


def clean_texts(texts: str | Sequence[str]) -> list[str]:
    return [replace_surrogates(text) for text in ([texts] if isinstance(texts, str) else texts)]
