"""Zero- and few-shot prompting: choose among labels or choices, fill a blank, summarize, reply.

Label scores are calibrated by default (Zhao et al. 2021; Holtzman et al. 2021): the probability of a label is divided
by its probability without the text. Otherwise the frequency of a word, or its fit with the template, decides in small
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
from forebear.inference.measure import finite_or_none
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
from forebear.inference.score_continuations import CountedSpan, is_masked_lm, score_wordings

if TYPE_CHECKING:
    from forebear.data.tokenizers.tokenizer import Tokenizer
    from forebear.inference.predictor_protocols import CausalLM
    from forebear.nn.masked_token_predictor import MaskedTokenPredictor

ScoreUnit = Literal["total", "token", "byte"]
FramedOptions = tuple[PromptFrame, tuple[str, ...]]  # and its wordings
Framer = Callable[[str], FramedOptions]

BATCH_TEXTS = 256  # texts per batch: bounds memory, does not affect results
TIE_TOLERANCE = 1e-6  # probabilities that differ by less are equal: a network's own rounding is not far below
CLOSING_PUNCTUATION = frozenset(",.;:!?)]}%”»…")  # no space before these
FIRST_WIDE_CHARACTER = "\u2e80"  # scripts from here on have no spaces between words


@dataclass(frozen=True)
class OptionScore:
    """An answer and its scores; natural logarithms."""

    name: str
    verbalizer: str  # the likeliest wording
    prompt: str  # the text with that wording in place
    probability: float  # the share of exp(score) among all answers
    score: float  # for comparison: `log_prob` less `neutral_log_probability`, each per token or byte on request
    log_prob: float  # of the answer's words and what follows them, of all its wordings together
    neutral_log_probability: float | None  # the same without the text; None: not calibrated
    tokens: int  # counted tokens of the prompt
    bytes: int  # and bytes
    num_unknown: int  # tokens of the likeliest wording that the run's vocabulary lacks

    @property
    def bits_per_byte(self) -> float:
        """For an answer with one wording."""
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
        neutral = self.neutral_log_probability
        return result if neutral is None else {**result, "neutral": finite_or_none(neutral)}


@dataclass(frozen=True)
class PromptAnswer:
    """A text and all answers in the given order."""

    text: str
    answers: tuple[OptionScore, ...]
    num_truncated: int  # tokens of the text that had no room
    shots: int  # examples before it
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
    """Which of the labels, or of the choices, each text is best completed by.

    Labels stand in a template with {text} and {label}, behind as many examples (text, label) as have room. Several
    words may stand for one label: it is as likely as all of them together. Choices continue the text, or fill its
    blank (____). `neutral` replaces the text in calibration; by default it is empty.

    A text too long for the run's context loses its tokens farthest from the answer, which `num_truncated` counts.
    """
    if (labels is None) == (choices is None):
        message = f"{'neither labels nor' if labels is None else 'both labels and'} choices to choose from"
        raise InputError(message, hint='give --labels "good,bad", or --choices "this one" "that one"')
    require_choice("per", per, get_args(ScoreUnit))
    is_calibrated = labels is not None if calibrate is None else calibrate
    if neutral is not None and not is_calibrated:
        raise InputError("a neutral text changes nothing without calibration", hint="add --calibrate, or leave it out")
    neutral_text = replace_surrogates(neutral or "") if is_calibrated else None
    if labels is not None:
        options = parse_labels(labels)
        frame_fn, shot_texts = _label_framer(options, template, shots)
    elif template is not None or shots:
        raise InputError("choices take no template and no examples", hint="write the text out, or give --labels")
    else:
        choice_options = [AnswerOption(name, (name,)) for name in choices or ()]
        options = validate_options(choice_options, "choice", "an argument for each")
        frame_fn, shot_texts = _choice_framer(scorer, tokenizer, options), []
    prompt_scorer = _PromptScorer(scorer, tokenizer, options, frame_fn, shot_texts, neutral_text, per)
    cleaned, answers = clean_texts(texts), []
    for start in range(0, len(cleaned), BATCH_TEXTS):
        answers += prompt_scorer.answer_texts(cleaned[start : start + BATCH_TEXTS], start + 1)
    return answers


def _label_framer(options: Sequence[AnswerOption], template: str | None, shots: Shots) -> tuple[Framer, list[str]]:
    """A function that puts a text into the template, by default in the language of the labels, and the examples."""
    wordings = tuple(replace_surrogates(word) for option in options for word in option.wordings)
    default_template = CHINESE_TEMPLATE if is_chinese(*wordings) else ENGLISH_TEMPLATE
    parsed_template = PromptTemplate.parse(default_template if template is None else template)
    verbalizers = {option.name: option.wordings[0] for option in options}
    for index, (text, label) in enumerate(shots, 1):
        if label not in verbalizers:
            message = f"example {index} ({text[:40]!r}) has {label!r}, which is none of the labels"
            raise InputError(message, hint=f"there are: {', '.join(verbalizers)}")
    return lambda text: (parsed_template.frame(text), wordings), parsed_template.render_shots(shots, verbalizers)


def _choice_framer(
    scorer: CausalLM | MaskedTokenPredictor, tokenizer: Tokenizer, options: Sequence[AnswerOption]
) -> Framer:
    """A function that frames a text: at its blank (____ or mask token), or else at its end."""
    names = tuple(replace_surrogates(option.name) for option in options)
    mask = f"|(?:{re.escape(tokenizer.id_to_token(scorer.mask_id))})+" if is_masked_lm(scorer) else ""
    pattern = re.compile(f"{BLANK_PATTERN.pattern}{mask}")

    def frame_text(text: str) -> FramedOptions:
        if (blank := find_blank(pattern, text)) is not None:
            return PromptFrame(left=text[: blank.start()], right=text[blank.end() :]), names
        spaced_names = tuple(" " * _is_apart(text, name) + name for name in names)
        return PromptFrame(left=text, continues=not is_masked_lm(scorer)), spaced_names

    return frame_text


def _is_apart(text: str, words: str) -> bool:
    """Whether a space belongs between text and words."""
    last_character, first_character = text[-1:], words[0]
    if last_character.isspace() or first_character.isspace() or first_character in CLOSING_PUNCTUATION:
        return False
    return max(last_character, first_character) < FIRST_WIDE_CHARACTER


@dataclass
class _PromptScorer:
    """Scores the options for each text: frames, log-probabilities, calibrated probabilities."""

    scorer: CausalLM | MaskedTokenPredictor
    tokenizer: Tokenizer
    options: tuple[AnswerOption, ...]
    framer: Framer
    shots: Sequence[str]
    neutral_text: str | None  # replaces the text in calibration
    per: ScoreUnit
    neutral_cache: dict[tuple[tuple[str, ...], int], list[CountedSpan]] = field(default_factory=dict)

    @property
    def limit(self) -> int | None:
        """Maximum number of text tokens."""
        return self.scorer.max_text_tokens if is_masked_lm(self.scorer) else self.scorer.max_length

    @property
    def _first_wordings(self) -> list[int]:
        """Index of each option's first wording among all wordings."""
        return [0, *accumulate(len(option.wordings) for option in self.options[:-1])]

    def answer_texts(self, texts: Sequence[str], first_number: int) -> list[PromptAnswer]:
        """Answers to a batch of texts; `first_number` is that of its first text, for errors."""
        prompts = fit_prompts(texts, self.framer, self.shots, self.tokenizer, self.limit, first_number)
        neutral_prompts: dict[tuple[tuple[str, ...], int], FittedPrompt] = {}
        if self.neutral_text is not None:
            frame, _ = self.framer(self.neutral_text)
            for wordings, num_shots in dict.fromkeys(map(_calibration_key, prompts)):
                if (wordings, num_shots) not in self.neutral_cache:
                    after_shots = frame.after_shots("".join(self.shots[:num_shots]))
                    neutral_prompts[wordings, num_shots] = fit_prompt(after_shots, wordings, self.tokenizer, self.limit)
        spans = score_wordings(self.scorer, self.tokenizer, [*prompts, *neutral_prompts.values()])
        self.neutral_cache |= dict(zip(neutral_prompts, spans[len(prompts) :], strict=True))
        return [self._to_answer(*columns) for columns in zip(texts, prompts, spans, strict=False)]

    def _to_answer(self, text: str, fit: FittedPrompt, spans: Sequence[CountedSpan]) -> PromptAnswer:
        log_probs, scores, neutral = self._option_scores(spans), self._option_scores(spans, self.per), None
        if self.neutral_text is not None:
            neutral_spans = self.neutral_cache[_calibration_key(fit)]
            neutral = self._option_scores(neutral_spans).tolist()
            scores -= self._neutral_divisors(neutral_spans)
        log_total = float(np.logaddexp.reduce(scores))
        probabilities = np.exp(scores - log_total) if log_total > -math.inf else np.zeros(len(scores))
        answers = []
        for number, (option, first_wording) in enumerate(zip(self.options, self._first_wordings, strict=True)):
            best_wording = max(range(len(option.wordings)), key=lambda index: spans[first_wording + index].log_prob)
            span = spans[first_wording + best_wording]
            full_text = fit.frame.full_text(fit.wordings[first_wording + best_wording])
            scores_of_option = (float(probabilities[number]), float(scores[number]), float(log_probs[number]))
            counts = (span.end - span.begin, span.bytes, span.num_unknown)
            neutral_log_prob = None if neutral is None else neutral[number]
            answers.append(
                OptionScore(
                    option.name, option.wordings[best_wording], full_text, *scores_of_option, neutral_log_prob, *counts
                )
            )
        return PromptAnswer(text, tuple(answers), fit.num_truncated, fit.shots, self.scorer.is_pseudo_likelihood)

    def _option_scores(self, spans: Sequence[CountedSpan], per: ScoreUnit = "total") -> np.ndarray:
        """(options,) log-sum over the wordings of each option."""
        counts = [{"total": 1, "token": span.end - span.begin, "byte": span.bytes}[per] for span in spans]
        return np.logaddexp.reduceat([span.log_prob for span in spans] / np.array(counts), self._first_wordings)

    def _neutral_divisors(self, neutral_spans: Sequence[CountedSpan]) -> np.ndarray:
        divisors = self._option_scores(neutral_spans, self.per)
        if (divisors == -math.inf).any():
            name = self.options[int(np.argmin(divisors))].name
            message = f"without the text {name!r} is impossible for this run, and nothing can be divided by that"
            raise InputError(message, hint="leave calibration out (--no-calibrate), or ask a run that smooths")
        return divisors


def _calibration_key(prompt: FittedPrompt) -> tuple[tuple[str, ...], int]:
    """What the calibration of a prompt depends on."""
    return prompt.wordings, prompt.shots


def fit_prompts(
    texts: Sequence[str],
    frame_fn: Framer,
    shots: Sequence[str],
    tokenizer: Tokenizer,
    limit: int | None,
    first_number: int = 1,
) -> list[FittedPrompt]:
    """Each text in its frame after the examples; errors carry the number of the text, from `first_number`."""
    fitted = []
    for index, text in enumerate(texts, first_number):
        try:
            if not text.strip():
                raise InputError("this text is empty", hint="leave it out, or write some text")
            fitted.append(fit_with_shots(shots, *frame_fn(text), tokenizer, limit))
        except InputError as error:
            error.line = index
            raise
    return fitted


def clean_texts(texts: str | Sequence[str]) -> list[str]:
    return [replace_surrogates(text) for text in ([texts] if isinstance(texts, str) else texts)]
