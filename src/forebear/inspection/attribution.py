"""Attribution of a prediction to the words of its text: integrated gradients, gradient × input, or linear weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from forebear.data.labeled.examples import ChoiceExample, Example, LabeledExample, QuestionExample
from forebear.errors import InputError
from forebear.inspection.attribution_targets import (
    AttributionMethod,
    AttributionTarget,
    TokenTrace,
    attribution_target,
    trace_example,
)
from forebear.inspection.linear_attribution import LinearFeature, linear_attribution
from forebear.reports.page import html_page, html_table, read_assets
from forebear.tasks.task import Logits, predict_logits

if TYPE_CHECKING:
    from forebear.inference.run import Run

BASELINE_ROLES = ("mask", "unknown", "end")  # baseline token: the first of these roles that a tokenizer has


@dataclass(frozen=True)
class WordAttribution:
    """The attribution of a word, characters start … end of text `text_index`; truncated words are not visible."""

    text: str
    text_index: int
    start: int
    end: int
    attribution: float
    is_visible: bool = True

    @property
    def direction(self) -> str:
        return "for" if self.attribution > 0 else "against"

    def to_dict(self) -> dict[str, Any]:
        data = {"text": self.text, "of": self.text_index, "start": self.start, "end": self.end}
        return data | {"attribution": round(self.attribution, 6)} | ({} if self.is_visible else {"read": False})


@dataclass(frozen=True)
class Attribution:
    """Attribution of a prediction to words.

    texts        the texts; `text_roles` are their roles
    target       the explained output; `prediction` is the run's
    probability  of the target; None for regression
    words        in text order
    remainder    attribution of special tokens and white space; for linear models, of numeric features
    method       integrated, gradients, or weights (linear models)
    score        the explained score: log-odds in nats, the logit of a linear model, or the value
    baseline     the score with every word replaced by `replacement`; None: no baseline
    gap          completeness gap: score - baseline minus all attributions
    steps        integration steps
    features     n-grams and numeric features of a linear model, largest first
    """

    texts: tuple[str, ...]
    text_roles: tuple[str, ...]
    target: str
    prediction: str
    probability: float | None
    words: tuple[WordAttribution, ...]
    remainder: float
    method: str
    score: float
    baseline: float | None = None
    replacement: str | None = None
    gap: float | None = None
    steps: int | None = None
    features: tuple[LinearFeature, ...] = ()

    def strongest(self, count: int | None = None) -> list[WordAttribution]:
        """The words with the largest absolute attribution."""
        return sorted(self.words, key=lambda word: -abs(word.attribution))[:count]

    @property
    def strongest_value(self) -> float:
        """The largest absolute attribution, which scales the colors."""
        return max((abs(word.attribution) for word in self.words), default=0.0) or 1.0

    @property
    def description(self) -> str:
        """Method and totals in one sentence."""
        quantity = "the score" if self.method == "weights" else "the log-odds"
        quantity = quantity if self.probability is not None else "the number"
        if self.baseline is None:
            return f"Gradient × input at {quantity} {self.score:+.4g}: a first look, whose sum means nothing."
        score_change = f"{quantity} from {self.baseline:+.4g} to {self.score:+.4g}"
        remainder_note = f", all else {self.remainder:+.4g}" if self.remainder else ""
        attribution_note = f"words add {sum(word.attribution for word in self.words):+.4g}{remainder_note}"
        if self.method == "weights":
            return f"Weights of a linear model, from no words to these: {score_change}; {attribution_note}, exactly."
        method = f"Integrated gradients in {self.steps} steps, from the same text with every word hidden"
        return f"{method} ({self.replacement}): {score_change}; {attribution_note}, and miss {self.gap or 0:+.2g}."

    def to_dict(self) -> dict[str, Any]:
        data: dict[str, Any] = {"texts": list(self.texts), "target": self.target, "said": self.prediction}
        data |= {name: getattr(self, name) for name in ("probability", "method", "score", "baseline")}
        data |= {"hidden": self.replacement, "gap": self.gap, "steps": self.steps}
        data |= {"words": [word.to_dict() for word in self.words], "elsewhere": self.remainder}
        rounded_names = ("probability", "score", "baseline", "gap", "elsewhere")
        data |= {name: round(data[name], 6) for name in rounded_names if data[name] is not None}
        return data | ({"features": [feature.to_dict() for feature in self.features]} if self.features else {})


def attribute(
    run: Run,
    text: str | Sequence[str],
    *,
    of: str | None = None,
    at: str | int | None = None,
    method: AttributionMethod = "integrated",
) -> Attribution:
    """Attribute a run's prediction to the words of a text.

    Args:
        run: A run adapted to a task.
        text: One text; for pairs both; question and passage; premise and choices; for tagging also a list of words.
        of: Another label, choice (or its number), entity type, tag or part of the passage to explain.
        at: Tagging: a word, its number (from 1) or an entity, by default the most probable one. Question answering:
            "start" or "end", by default both.
        method: "integrated" gradients, or "gradients" × input, which is far cheaper and far rougher. Linear models are
            explained exactly by their weights.
    """
    if method not in get_args(AttributionMethod):
        raise InputError(f"--method is {method!r}", hint=f"there are: {', '.join(get_args(AttributionMethod))}")
    task = run.task
    if task is None:
        message = "was not adapted to a task: it says nothing that could be explained"
        hint = f"adapt it first (forebear adapt); it can be asked to: {', '.join(run.capabilities)}"
        raise InputError(message, file=run.folder.path, hint=hint)
    example = _make_example(run, text)
    trace = trace_example(task, example, run.tokenizer, run.folder.spec.input_format(run.tokenizer))
    logits = predict_logits(run.network, trace.rows)
    target = attribution_target(task, example, trace.rows, logits, of, at)
    fields = _explain_target(run, trace, target, logits, method)
    return Attribution(texts=trace.texts, text_roles=_text_roles(example), **fields)


def _make_example(run: Run, text: str | Sequence[str]) -> Example:
    """The task's example for this input; raises InputError if texts are missing or extra."""
    from forebear.inference import task_predictions

    task_name = run.task.name if run.task else ""
    if not isinstance(text, str):
        text = list(text)
    if task_name == "tagging":
        examples = task_predictions.word_examples(run, [text])
        if not examples[0].words or not all(examples[0].words):
            raise InputError("this text has no words", hint="give some text")
        return examples[0]
    texts = [text] if isinstance(text, str) else text
    if not texts or not all(part.strip() for part in texts):
        raise InputError("a text is empty", hint="write some text")
    if task_name == "answering":
        if len(texts) != 2:
            raise InputError(f"{len(texts)} texts came", hint="give a question and its passage")
        return task_predictions.question_examples(texts[0], texts[1])[0]
    if task_name == "choice":
        return task_predictions.choice_examples(texts[0], texts[1:])[0]
    num_texts = 1 if run.task is None else run.task.num_texts
    if len(texts) != num_texts:
        expected, hint = ("pairs of texts", "give two") if num_texts == 2 else ("single texts", "give one")
        raise InputError(f"this run is about {expected}, and {len(texts)} came", hint=hint)
    return task_predictions.text_examples(run, texts if num_texts == 1 else [(texts[0], texts[1])])[0]


def _text_roles(example: Example) -> tuple[str, ...]:
    """Roles of the texts of an example."""
    if isinstance(example, QuestionExample):
        return ("question", "passage")
    if isinstance(example, ChoiceExample):
        return ("text", *(f"choice {index}" for index in range(1, len(example.choices) + 1)))
    return ("first", "second") if isinstance(example, LabeledExample) and len(example.texts) == 2 else ("text",)


def _explain_target(
    run: Run, trace: TokenTrace, target: AttributionTarget, logits: Logits, method: AttributionMethod
) -> dict[str, Any]:
    fields: dict[str, Any] = {"target": target.name, "prediction": target.prediction, "probability": target.probability}
    if run.encoder is None:
        linear = linear_attribution(run.network, trace, target, logits, run.tokenizer)
        values, remainder = trace.sum_by_word(linear.values)
        fields |= {"method": "weights", "score": linear.score, "baseline": linear.baseline, "gap": 0.0}
        fields |= {"remainder": remainder + linear.remainder, "features": linear.features, "replacement": "no words"}
        return fields | {"words": _word_attributions(trace, values)}
    from forebear.inspection.gradients import integrated_gradients

    roles = run.tokenizer.special_roles
    baseline_id = next((roles[role] for role in BASELINE_ROLES if role in roles), None)
    inputs = trace.rows.make_batch([0]).inputs
    attribution = integrated_gradients(run.network, inputs, target, trace.text_mask, baseline_id, method)
    values, remainder = trace.sum_by_word(attribution.values)
    fields |= {"method": method, "score": attribution.score, "baseline": attribution.baseline}
    fields |= {"gap": attribution.gap, "steps": attribution.steps}
    fields |= {"remainder": remainder, "words": _word_attributions(trace, values)}
    if attribution.baseline is not None:
        fields["replacement"] = "zeros" if baseline_id is None else run.tokenizer.id_to_token(baseline_id)
    return fields


def _word_attributions(trace: TokenTrace, values: np.ndarray) -> tuple[WordAttribution, ...]:
    words = []
    for word_id, (span, value) in enumerate(zip(trace.words, values.tolist(), strict=True)):
        text, is_visible = trace.texts[span.text_index][span.start : span.end], word_id in trace.word_ids
        words.append(WordAttribution(text, span.text_index, span.start, span.end, value, is_visible))
    return tuple(words)


# --- HTML page: words colored by attribution ---

MAX_TABLE_WORDS = 30  # words in the table
MIN_COLORED_FRACTION = 0.02  # of the strongest attribution; weaker words are not colored


def attribution_page(attributions: Sequence[Attribution], run: str) -> str:
    """The HTML page with one section per attribution."""
    title = f"Why {run} says so"
    main_html = (
        f"<h1>{escape(title)}</h1>"
        '<p class="key"><span class="word for" style="--s:.8">speaks for it</span> '
        '<span class="word against" style="--s:.8">speaks against it</span> '
        "The stronger the colour, the more, measured by the strongest word of each text.</p>"
        f"{''.join(map(_section_html, attributions))}"
    )
    return html_page(title, main_html, read_assets("forebear.inspection", "page.css"))


def _section_html(attribution: Attribution) -> str:
    heading = escape(attribution.target)
    if attribution.probability is not None:
        heading += f' <span class="sure">{attribution.probability:.1%}</span>'
    if attribution.prediction != attribution.target:
        heading += f' <span class="sure">the run itself says {escape(attribution.prediction)}</span>'
    texts = "".join(_text_html(attribution, index, role) for index, role in enumerate(attribution.text_roles))
    return (
        f'<section><h2>{heading}</h2>{texts}<p class="about">{escape(attribution.description)}</p>'
        f"<details><summary>Figures</summary>{_tables_html(attribution)}</details></section>"
    )


def _text_html(attribution: Attribution, text_index: int, role: str) -> str:
    """The text with colored words."""
    text, position, pieces = attribution.texts[text_index], 0, []
    for word in (word for word in attribution.words if word.text_index == text_index):
        pieces += [escape(text[position : word.start]), _word_html(word, attribution.strongest_value)]
        position = word.end
    pieces.append(escape(text[position:]))
    label = f'<span class="part">{escape(role)}</span>' if len(attribution.text_roles) > 1 else ""
    return f'<div class="text">{label}<p>{"".join(pieces)}</p></div>'


def _word_html(word: WordAttribution, max_attribution: float) -> str:
    text_html, strength = escape(word.text), abs(word.attribution) / max_attribution
    if not word.is_visible:
        return f'<span class="unread" title="not read: it does not fit">{text_html}</span>'
    if strength < MIN_COLORED_FRACTION:
        return f'<span title="{word.attribution:+.4f}">{text_html}</span>'
    style = f'class="word {word.direction}" style="--s:{strength:.3f}"'
    return f'<span {style} title="{word.attribution:+.4f}">{text_html}</span>'


def _tables_html(attribution: Attribution) -> str:
    """The strongest words, and the n-grams of a linear model."""
    rows = []
    for word in attribution.strongest(MAX_TABLE_WORDS):
        width = abs(word.attribution) / attribution.strongest_value
        bar = f'<span class="bar {word.direction}" style="width:{width:.1%}"></span>'
        rows.append((escape(word.text), f"{word.attribution:+.4f}", bar))
    tables = html_table(("word", "#adds", ""), rows)
    if (num_hidden := len(attribution.words) - MAX_TABLE_WORDS) > 0:
        tables += f'<p class="about">{num_hidden:,} words that say less are not listed.</p>'
    if attribution.features:
        features = attribution.features[:MAX_TABLE_WORDS]
        rows = ((escape(feature.text), escape(feature.field), f"{feature.value:+.4f}") for feature in features)
        tables += html_table(("n-gram", "where", "#adds"), rows)
    return tables
