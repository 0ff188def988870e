"""Zero- and few-shot prompting: choose among labels or choices, fill a blank, summarize, reply.

Label scores are calibrated by default (Zhao et al. 2021; Holtzman et al. 2021): the probability of a label is divided
by its probability without the text. Otherwise the frequency of a word, or its fit with the template, decides in small
models. Choices are not calibrated: their prior probability is part of the question.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any, Literal, TypedDict, get_args

import numpy as np

from forebear.data.io.ledger import utf8_size
from forebear.data.sentences import split_sentences
from forebear.data.unicode import replace_surrogates
from forebear.errors import InputError, require_choice
from forebear.inference.generated_text import StopReason
from forebear.inference.measure import finite_or_none
from forebear.inference.next_tokens import BLANK_PATTERN, find_blank
from forebear.inference.predictor import (
    eos_id,
    make_row,
    oov_spelling_bits,
    reject_nan,
    row_log_probs,
    unknown_token_bytes,
)
from forebear.inference.prompt_templates import (
    CHINESE_QA_TEMPLATE,
    CHINESE_TEMPLATE,
    ENGLISH_QA_TEMPLATE,
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
    overlapping_tokens,
    parse_labels,
    validate_options,
)
from forebear.inference.sampling import GenerationOptions, log_normalizers, require_positive, sample_texts
from forebear.objectives.batch import token_batches

if TYPE_CHECKING:
    from typing_extensions import TypeIs

    from forebear.data.tokenizers.tokenizer import TokenEncoding, Tokenizer
    from forebear.inference.predictor import CausalLM
    from forebear.nn.masked_lm import MaskedTokenPredictor

# --- Many continuations of one prefix, scored along their prefix tree ---

BRANCH_BATCH = 64  # continuations scored together: bounds memory, does not affect results


def continuation_log_probs(
    predictor: CausalLM, prefix: np.ndarray, continuations: Sequence[Sequence[int]]
) -> np.ndarray:
    """(N,) log-probability of each continuation (one token or more) of the row `prefix`."""
    log_probs = np.zeros(len(continuations))
    order = sorted(range(len(continuations)), key=lambda number: tuple(continuations[number]))
    for start in range(0, len(order), BRANCH_BATCH):
        _score_tree(predictor, prefix, continuations, order[start : start + BRANCH_BATCH], log_probs)
    return log_probs


def _score_tree(
    predictor: CausalLM,
    prefix: np.ndarray,
    continuations: Sequence[Sequence[int]],
    indices: list[int],
    log_probs: np.ndarray,
) -> None:
    """Add the scores level by level, with one row for each shared prefix of the continuations."""
    state, depth = predictor.start_decoding([prefix], max(len(continuations[index]) for index in indices)), 0
    rows = [indices]  # indices of the continuations of each row
    while rows:
        scores = state.next_logits()
        normalizers, branches = log_normalizers(scores), []
        for row, row_indices in enumerate(rows):
            indices_by_token: dict[int, list[int]] = {}
            for index in row_indices:
                indices_by_token.setdefault(continuations[index][depth], []).append(index)
            for token, token_indices in indices_by_token.items():
                is_possible = scores[row, token] > -np.inf
                log_probs[token_indices] += float(scores[row, token]) - normalizers[row] if is_possible else -np.inf
                if remaining := [index for index in token_indices if len(continuations[index]) > depth + 1]:
                    branches.append((row, token, remaining))
        if branches:
            state.select(np.array([row for row, _, _ in branches]))
            state.append(np.array([token for _, token, _ in branches]))
        rows, depth = [remaining for _, _, remaining in branches], depth + 1


# --- Log-probability of words in context ---
#
# Every wording is inserted and the whole text tokenized, so token boundaries around it do not matter. A causal model
# scores the tokens from the first that overlaps the words to the end of the text. A masked model scores only tokens
# that overlap the words, each with itself and the later ones masked (Kauf and Ivanova 2023). Other tokens count only
# if wordings change the tokenization around them. Unknown tokens have spelling costs, as in `score`.

MIN_SHARED_TOKENS = 1 << 11  # shared tokens from which scoring along the prefix tree pays off
MASKED_BATCH_TOKENS = 1 << 12  # tokens per batch: bounds memory, does not affect results


@dataclass(frozen=True, slots=True)
class CountedSpan:
    """The ids of a text, of which those from `begin` to `end` are counted, and the log-probability of these."""

    ids: np.ndarray
    begin: int
    end: int
    bytes: int
    spelling_nats: float  # of the counted unknown tokens
    num_unknown: int  # tokens of the words that are unknown
    log_prob: float = math.nan  # with the spelling; NaN until it is scored


def score_wordings(
    scorer: CausalLM | MaskedTokenPredictor, tokenizer: Tokenizer, prompts: Sequence[FittedPrompt]
) -> list[list[CountedSpan]]:
    """Each wording of each prompt, scored in common batches."""
    groups = [
        list(_counted_spans(prompt, tokenizer, counts_to_end=not scorer.is_pseudo_likelihood)) for prompt in prompts
    ]
    spans = list(chain.from_iterable(groups))
    if is_masked_lm(scorer):
        log_probs = iter(_masked_log_probs(scorer, spans).tolist())
    else:
        log_probs = iter(_causal_log_probs(scorer, tokenizer, spans).tolist())
    return [[replace(span, log_prob=next(log_probs) - span.spelling_nats) for span in group] for group in groups]


def is_masked_lm(scorer: CausalLM | MaskedTokenPredictor) -> TypeIs[MaskedTokenPredictor]:
    """Whether the scorer is a masked language model."""
    return scorer.is_pseudo_likelihood


def _counted_spans(prompt: FittedPrompt, tokenizer: Tokenizer, *, counts_to_end: bool) -> Iterator[CountedSpan]:
    start, rows = prompt.frame.start, [encoding.ids for encoding in prompt.pieces]
    wordings = list(zip(prompt.pieces, prompt.wordings, strict=True))
    word_ranges = [_word_tokens(encoding, start, words) for encoding, words in wordings]
    # Words may change the tokenization around them: then tokens that differ count too.
    num_before = min(_common_prefix_length(rows), *(word_range.start for word_range in word_ranges))
    num_after = min(
        _common_prefix_length([row[::-1] for row in rows]),
        *(len(row) - word_range.stop for row, word_range in zip(rows, word_ranges, strict=True)),
    )
    for (encoding, words), word_range in zip(wordings, word_ranges, strict=True):
        text, end = prompt.frame.full_text(words), len(encoding.ids) - (0 if counts_to_end else num_after)
        unknown_bytes = unknown_token_bytes(text, encoding, tokenizer.unk_id)
        is_unknown = encoding.ids == (-1 if tokenizer.unk_id is None else tokenizer.unk_id)
        spelling_bits = oov_spelling_bits(
            int(is_unknown[num_before:end].sum()), int(unknown_bytes[num_before:end].sum())
        )
        num_bytes = utf8_size(text[start:].lstrip() if counts_to_end else words.lstrip())
        num_unknown = int(is_unknown[word_range.start : word_range.stop].sum())
        yield CountedSpan(encoding.ids, num_before, end, num_bytes, spelling_bits * math.log(2), num_unknown)


def _word_tokens(encoding: TokenEncoding, start: int, words: str) -> range:
    positions = overlapping_tokens(encoding.spans, start, start + len(words))
    if not positions:
        raise InputError(f"the run's tokenizer sees nothing in {words!r}", hint="choose words that it knows")
    return range(positions[0], positions[-1] + 1)


def _common_prefix_length(rows: Sequence[np.ndarray]) -> int:
    length = min(map(len, rows))
    differences = np.flatnonzero((np.stack([row[:length] for row in rows]) != rows[0][:length]).any(axis=0))
    return int(differences[0]) if len(differences) else length


def _causal_log_probs(predictor: CausalLM, tokenizer: Tokenizer, spans: Sequence[CountedSpan]) -> np.ndarray:
    """Score a few wordings as whole texts, many along their prefix tree."""
    eos, log_probs = eos_id(tokenizer), np.empty(len(spans))
    indices_by_prefix: dict[bytes, list[int]] = {}
    for index, span in enumerate(spans):
        indices_by_prefix.setdefault(span.ids[: span.begin].tobytes(), []).append(index)
    whole_text_indices: list[int] = []
    for indices in indices_by_prefix.values():
        first_span = spans[indices[0]]
        if (len(indices) - len(indices) // BRANCH_BATCH - 1) * first_span.begin < MIN_SHARED_TOKENS:
            whole_text_indices += indices
            continue
        continuations = [spans[index].ids[first_span.begin :].tolist() for index in indices]
        prefix = make_row(first_span.ids[: first_span.begin], eos, ends=False)
        log_probs[indices] = continuation_log_probs(predictor, prefix, continuations)
    rows = [make_row(spans[index].ids, eos, ends=False) for index in whole_text_indices]
    row_scores = (scores for batch in token_batches(rows, len) for scores in row_log_probs(predictor, batch))
    for index, scores in zip(whole_text_indices, row_scores, strict=True):
        log_probs[index] = scores[spans[index].begin : spans[index].end].sum()
    return log_probs


def _masked_log_probs(masked_lm: MaskedTokenPredictor, spans: Sequence[CountedSpan]) -> np.ndarray:
    """Score a copy for each token, masked from it to the last token of the words."""
    positions = [
        (span_index, position) for span_index, span in enumerate(spans) for position in range(span.begin, span.end)
    ]
    positions.sort(key=lambda position: len(spans[position[0]].ids))  # group similar lengths
    log_probs = np.zeros(len(spans))
    for batch in token_batches(positions, lambda position: len(spans[position[0]].ids) + 2, MASKED_BATCH_TOKENS):
        rows, targets = [], []
        for span_index, position in batch:
            span = spans[span_index]
            row = np.concatenate(([masked_lm.start_id], span.ids, [masked_lm.end_id])).astype(np.int64)
            row[position + 1 : span.end + 1] = masked_lm.mask_id
            target = np.full(len(row), -1, np.int64)
            target[position + 1] = span.ids[position]
            rows.append(row)
            targets.append(target)
        inputs = {"tokens": np.concatenate(rows), "lengths": np.array([len(row) for row in rows])}
        outputs = reject_nan(masked_lm.evaluate_batch(inputs, {"token": np.concatenate(targets)})["token"])
        np.add.at(log_probs, [span_index for span_index, _ in batch], outputs)
    return log_probs


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
    clean_texts, answers = _clean_texts(texts), []
    for start in range(0, len(clean_texts), BATCH_TEXTS):
        answers += prompt_scorer.answer_texts(clean_texts[start : start + BATCH_TEXTS], start + 1)
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
        prompts = _fit_prompts(texts, self.framer, self.shots, self.tokenizer, self.limit, first_number)
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


# --- Generated answers: summaries and replies ---

ENGLISH_CUE, CHINESE_CUE = "TL;DR:", "总之，"


@dataclass(frozen=True)
class PromptReply:
    """A text and what a run wrote about it: `answer` is the part of `generated_text` that was asked for."""

    text: str
    answer: str
    generated_text: str
    tokens: int
    stop_reason: StopReason
    prompt: str
    num_truncated: int  # tokens of the text that had no room in the prompt
    shots: int  # examples before it

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "text": self.text,
            "answer": self.answer,
            "written": self.generated_text,
            "tokens": self.tokens,
            "ended": self.stop_reason,
            "prompt": self.prompt,
            "cut_tokens": self.num_truncated,
            "shots": self.shots,
        }


def summarize(
    predictor: CausalLM,
    tokenizer: Tokenizer,
    texts: str | Sequence[str],
    *,
    cue: str | None = None,
    sentences: int = 3,
    length: int = 100,
    top_k: int = 2,
    seed: int = 0,
) -> list[PromptReply]:
    """What a run writes after each text and a cue on a line of its own: the first sentences of it are the summary.

    The numbers are those of GPT-2's paper (section 3.6). Without a cue it is TL;DR: or 总之， by the text's script. The
    beginning of a text goes where text, cue and `length` new tokens have no room together.
    """
    require_positive(sentences=sentences, length=length)
    if cue is not None and not cue.strip():
        raise InputError("the cue is empty", hint=f"write one, such as {ENGLISH_CUE!r}, or leave it out")

    def frame_text(text: str) -> FramedOptions:
        cue_text = replace_surrogates(cue or (CHINESE_CUE if is_chinese(text) else ENGLISH_CUE)).strip()
        return PromptFrame(left=text.rstrip(), lead=f"\n{cue_text}"), ("",)

    def first_sentences(generated: str) -> str:
        return "".join(split_sentences(generated)[:sentences]).strip()

    options: GenerationOptions = {"length": length, "temperature": 1.0, "top_k": top_k, "top_p": 1.0, "seed": seed}
    return _continue_prompts(predictor, tokenizer, texts, frame_text, first_sentences, (), options)


def generate_replies(
    predictor: CausalLM,
    tokenizer: Tokenizer,
    texts: str | Sequence[str],
    *,
    shots: Shots,
    template: str | None = None,
    length: int = 30,
) -> list[PromptReply]:
    """What a run writes after each text, behind as many examples (text, answer) as have room: likeliest tokens only.

    A reply ends with its line, or where the next example would begin. The template has {label} at its end, where the
    answer stands; else it is Q: and A:, or 问： and 答： where the examples are Chinese. Without examples a run goes on
    as any text would, which is no answer: they are not optional.
    """
    require_positive(length=length)
    if not shots:
        hint = "give some (--shots FILE: text TAB answer), or --labels or --choices to choose from"
        raise InputError("without examples a run does not know that it is asked", hint=hint)
    uses_chinese = is_chinese(*(part for shot in shots for part in shot))
    default_template = CHINESE_QA_TEMPLATE if uses_chinese else ENGLISH_QA_TEMPLATE
    parsed_template = PromptTemplate.parse(default_template if template is None else template)
    if parsed_template.label_first or parsed_template.after.strip():
        hint = f"write it there, as in {ENGLISH_QA_TEMPLATE!r}"
        raise InputError("{label} is not at the end of the template", hint=hint)

    def frame_text(text: str) -> FramedOptions:  # a space between belongs to what follows it
        return PromptFrame(head=parsed_template.before, left=text, lead=parsed_template.between.rstrip()), ("",)

    stop_strings = ["\n", *filter(None, [parsed_template.before.strip()])]
    options: GenerationOptions = {"length": length, "temperature": 0.0, "stop": stop_strings}
    return _continue_prompts(predictor, tokenizer, texts, frame_text, str, parsed_template.render_shots(shots), options)


def _continue_prompts(
    predictor: CausalLM,
    tokenizer: Tokenizer,
    texts: str | Sequence[str],
    frame_fn: Framer,
    extract_answer: Callable[[str], str],
    shots: Sequence[str],
    options: GenerationOptions,
) -> list[PromptReply]:
    """Generate after the frame of each text, shortened so that all new tokens have room."""
    limit = None if predictor.max_length is None else predictor.max_length - options.get("length", 0)
    texts = _clean_texts(texts)
    fitted = _fit_prompts(texts, frame_fn, shots, tokenizer, limit)
    prompts = [prompt.frame.full_text("") for prompt in fitted]
    replies = []
    for text, prompt, generated in zip(
        texts, fitted, sample_texts(predictor, tokenizer, prompts, **options), strict=True
    ):
        answer, counts = extract_answer(generated.text.strip()), (prompt.num_truncated, prompt.shots)
        outcome = (generated.text, len(generated.ids), generated.stop_reason, generated.prompt)
        replies.append(PromptReply(text, answer, *outcome, *counts))
    return replies


def _fit_prompts(
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


def _clean_texts(texts: str | Sequence[str]) -> list[str]:
    return [replace_surrogates(text) for text in ([texts] if isinstance(texts, str) else texts)]
