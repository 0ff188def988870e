"""Why a run says what it says of a text: how much each word speaks for it, or against it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from forebear.data.labeled.examples import ChoiceExample, Example, LabeledExample, QuestionExample, TaggedExample
from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.errors import InputError
from forebear.inspection.attribution_targets import (
    AttributionTarget,
    TargetOutput,
    TokenTrace,
    attribution_target,
    trace_example,
)
from forebear.objectives.batch import TargetArrays
from forebear.statistical.linear import LinearModel
from forebear.tasks.task import Logits, predict_logits

if TYPE_CHECKING:
    from forebear.inference.run import Run

AttributionMethod = Literal["integrated", "gradients"]
HIDING = ("mask", "unknown", "end")  # the first of these roles that a tokenizer has stands for hidden words


@dataclass(frozen=True)
class WordAttribution:
    """A word: where it stands (characters of the text with the number `of`), and how much it speaks for the target.

    `read` is False where it did not fit into a row, and could not speak at all.
    """

    text: str
    text_index: int
    start: int
    end: int
    attribution: float
    is_visible: bool = True

    def to_dict(self) -> dict[str, Any]:
        told = {"text": self.text, "of": self.text_index, "start": self.start, "end": self.end}
        return told | {"attribution": round(self.attribution, 6)} | ({} if self.is_visible else {"read": False})


@dataclass(frozen=True)
class Attribution:
    """What speaks for a prediction, word by word.

    texts        what was given, and what each is: `parts`
    target       what is explained, and what the run says itself
    probability  of the target; None where it is a number
    words        in the order of the texts
    elsewhere    what speaks for it that is no word: tokens around texts, white space; of a linear model its figures
    method       integrated, gradients, or weights (of a linear model)
    score        what is explained: log-odds in nats, the logit of a linear model, or the number itself
    baseline     the same where every word is hidden, and what hides them; None: there is none
    gap          what the words and `elsewhere` miss of score - baseline
    steps        on the way from the baseline
    features     the n-grams and figures of a linear model, the weightiest first
    """

    texts: tuple[str, ...]
    parts: tuple[str, ...]
    target: str
    said: str
    probability: float | None
    words: tuple[WordAttribution, ...]
    elsewhere: float
    method: str
    score: float
    baseline: float | None = None
    hidden: str | None = None
    gap: float | None = None
    steps: int | None = None
    features: tuple[LinearFeature, ...] = ()

    def strongest(self, count: int | None = None) -> list[WordAttribution]:
        """The words that say most, for or against."""
        return sorted(self.words, key=lambda word: -abs(word.attribution))[:count]

    @property
    def strongest_value(self) -> float:
        """What the strongest word says: by this colours are measured."""
        return max((abs(word.attribution) for word in self.words), default=0.0) or 1.0

    @property
    def description(self) -> str:
        """How the figures were found, and what they add up to, in one sentence."""
        what = "the score" if self.method == "weights" else "the log-odds"
        what = what if self.probability is not None else "the number"
        if self.baseline is None:
            return f"Gradient × input at {what} {self.score:+.4g}: a first look, whose sum means nothing."
        way = f"{what} from {self.baseline:+.4g} to {self.score:+.4g}"
        others = f", all else {self.elsewhere:+.4g}" if self.elsewhere else ""
        sums = f"words add {sum(word.attribution for word in self.words):+.4g}{others}"
        if self.method == "weights":
            return f"Weights of a linear model, from no words to these: {way}; {sums}, exactly."
        how = f"Integrated gradients in {self.steps} steps, from the same text with every word hidden ({self.hidden})"
        return f"{how}: {way}; {sums}, and miss {self.gap or 0:+.2g}."

    def to_dict(self) -> dict[str, Any]:
        def rounded(value: float | None) -> float | None:
            return None if value is None else round(value, 6)

        return {
            "texts": list(self.texts),
            "target": self.target,
            "said": self.said,
            "probability": rounded(self.probability),
            "method": self.method,
            "score": rounded(self.score),
            "baseline": rounded(self.baseline),
            "hidden": self.hidden,
            "gap": rounded(self.gap),
            "steps": self.steps,
            "words": [word.to_dict() for word in self.words],
            "elsewhere": rounded(self.elsewhere),
        } | ({"features": [feature.to_dict() for feature in self.features]} if self.features else {})


def attribute(
    run: Run,
    text: str | Sequence[str],
    *,
    of: str | None = None,
    at: str | int | None = None,
    method: AttributionMethod = "integrated",
) -> Attribution:
    """Which words speak for what a run says of a text, or against it.

    text    one text; of pairs both; a question and its passage; a beginning and all choices; for tagging also words
    of      another label, choice (or its number), kind of name or tag, or part of the passage than the run says
    at      of tagging the word, its number (from 1) or the name that is meant, by itself the surest name; of answering
            "start" or "end", by itself both
    method  integrated: integrated gradients; gradients: gradient × input, far cheaper and far rougher. A linear model
            is told exactly by its weights, whatever the method
    """
    if method not in get_args(AttributionMethod):
        raise InputError(f"--method is {method!r}", hint=f"there are: {', '.join(get_args(AttributionMethod))}")
    task = run.task
    if task is None:
        what = "was not adapted to a task: it says nothing that could be explained"
        hint = f"adapt it first (forebear adapt); it can be asked to: {', '.join(run.capabilities)}"
        raise InputError(what, file=run.folder.path, hint=hint)
    example = _example(run, text)
    traced = trace_example(task, example, run.tokenizer, run.folder.spec.input_format(run.tokenizer))
    logits = predict_logits(run.network, traced.rows)
    target = attribution_target(task, example, traced.rows, logits, of, at)
    told = _explained(run, traced, target, logits, method)
    return Attribution(texts=traced.texts, parts=_parts(example), **told)


def _example(run: Run, text: str | Sequence[str]) -> Example:
    """What was given, as the task's own kind of example; an error where it is too little or too much."""
    from forebear.inference import predict

    name = run.task.name if run.task else ""
    if not isinstance(text, str):
        text = list(text)
    if name == "tagging":
        given = predict.tagged_examples(run, [text])
        if not given[0].words or not all(given[0].words):
            raise InputError("this text has no words", hint="give some text")
        return given[0]
    parts = [text] if isinstance(text, str) else text
    if not parts or not all(part.strip() for part in parts):
        raise InputError("a text is empty", hint="write some text")
    if name == "answering":
        if len(parts) != 2:
            raise InputError(f"{len(parts)} texts came", hint="give a question and its passage")
        return predict.question_examples(parts[0], parts[1])[0]
    if name == "choice":
        return predict.choice_examples(parts[0], parts[1:])[0]
    wanted = 1 if run.task is None else run.task.texts
    if len(parts) != wanted:
        told, hint = ("pairs of texts", "give two") if wanted == 2 else ("single texts", "give one")
        raise InputError(f"this run is about {told}, and {len(parts)} came", hint=hint)
    return (
        predict.labeled_examples(run, parts) if wanted == 1 else predict.labeled_examples(run, [(parts[0], parts[1])])
    )[0]


def _parts(example: Example) -> tuple[str, ...]:
    """What each text of an example is."""
    match example:
        case LabeledExample():
            return ("text",) if len(example.texts) == 1 else ("first", "second")
        case TaggedExample():
            return ("text",)
        case QuestionExample():
            return ("question", "passage")
        case ChoiceExample():
            return ("text", *(f"choice {number}" for number in range(1, len(example.choices) + 1)))


def _explained(
    run: Run, traced: TokenTrace, target: AttributionTarget, logits: Logits, method: AttributionMethod
) -> dict[str, Any]:
    told: dict[str, Any] = {"target": target.name, "said": target.prediction, "probability": target.probability}
    if run.encoder is None:
        linear = linear_attribution(run.network, traced, target, logits, run.tokenizer)
        values, elsewhere = traced.added_up(linear.values)
        told |= {"method": "weights", "score": linear.score, "baseline": linear.baseline, "gap": 0.0}
        told |= {"elsewhere": elsewhere + linear.elsewhere, "features": linear.features, "hidden": "no words"}
        return told | {"words": _words(traced, values)}
    from forebear.inspection.gradients import integrated_gradients

    roles = run.tokenizer.special_roles
    hidden = next((roles[role] for role in HIDING if role in roles), None)
    inputs = traced.rows.make_batch([0]).inputs
    found = integrated_gradients(run.network, inputs, target, traced.text_mask, hidden, method)
    values, elsewhere = traced.added_up(found.values)
    told |= {"method": method, "score": found.score, "baseline": found.baseline, "gap": found.completeness_gap}
    told |= {"steps": found.steps, "elsewhere": elsewhere, "words": _words(traced, values)}
    if found.baseline is not None:
        told["hidden"] = "zeros" if hidden is None else run.tokenizer.id_to_token(hidden)
    return told


def _words(traced: TokenTrace, values: np.ndarray) -> tuple[WordAttribution, ...]:
    rows = zip(traced.words, values.tolist(), traced.visible_words.tolist(), strict=True)
    return tuple(
        WordAttribution(traced.texts[at.text_index][at.start : at.end], at.text_index, at.start, at.end, value, read)
        for at, value, read in rows
    )


# Explanations as one HTML page that needs nothing else: words coloured by how much they speak for what was said.


CONTENT_SECURITY_POLICY = "default-src 'none'; style-src 'unsafe-inline'"  # the page runs nothing and cannot call home
ROWS = 30  # words in a table, the strongest
FAINT = 0.02  # of the strongest word: less is not coloured


def attribution_page(whys: Sequence[Attribution], run: str) -> str:
    """The whole page: one explanation below the other."""
    style = files("forebear.inspection").joinpath("page.css").read_text("utf-8")
    title = f"Why {run} says so"
    made = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{CONTENT_SECURITY_POLICY}">'
        f"<title>{escape(title)}</title><style>{style}</style></head><body><main><h1>{escape(title)}</h1>"
        '<p class="key"><span class="word for" style="--s:.8">speaks for it</span> '
        '<span class="word against" style="--s:.8">speaks against it</span> '
        "The stronger the colour, the more, measured by the strongest word of each text.</p>"
        f"{''.join(map(_section, whys))}</main></body></html>\n"
    )
    return made.encode("utf-8", "replace").decode("utf-8")


def _section(why: Attribution) -> str:
    sure = "" if why.probability is None else f' <span class="sure">{why.probability:.1%}</span>'
    other = f' <span class="sure">the run itself says {escape(why.said)}</span>' if why.said != why.target else ""
    texts = "".join(_text(why, number, part) for number, part in enumerate(why.parts))
    return (
        f"<section><h2>{escape(why.target)}{sure}{other}</h2>{texts}"
        f'<p class="about">{escape(why.description)}</p><details><summary>Figures</summary>{_table(why)}{_features(why)}'
        "</details></section>"
    )


def _text(why: Attribution, number: int, part: str) -> str:
    """A text as it is written, its words coloured."""
    text, done, parts = why.texts[number], 0, []
    for word in (word for word in why.words if word.text_index == number):
        parts += [escape(text[done : word.start]), _word(word, why.strongest_value)]
        done = word.end
    parts.append(escape(text[done:]))
    label = f'<span class="part">{escape(part)}</span>' if len(why.parts) > 1 else ""
    return f'<div class="text">{label}<p>{"".join(parts)}</p></div>'


def _word(word: WordAttribution, most: float) -> str:
    shown, strength = escape(word.text), abs(word.attribution) / most
    if not word.is_visible:
        return f'<span class="unread" title="not read: it does not fit">{shown}</span>'
    if strength < FAINT:
        return f'<span title="{word.attribution:+.4f}">{shown}</span>'
    side = "for" if word.attribution > 0 else "against"
    return f'<span class="word {side}" style="--s:{strength:.3f}" title="{word.attribution:+.4f}">{shown}</span>'


def _table(why: Attribution) -> str:
    rows = "".join(
        f'<tr><td>{escape(word.text)}</td><td class="number">{word.attribution:+.4f}</td>'
        f"<td>{_bar(word, why.strongest_value)}</td></tr>"
        for word in why.strongest(ROWS)
    )
    left = len(why.words) - ROWS
    more = f'<p class="about">{left:,} words that say less are not listed.</p>' if left > 0 else ""
    head = "<thead><tr><th>word</th><th class=number>adds</th><th></th></tr></thead>"
    return f"<table>{head}<tbody>{rows}</tbody></table>{more}"


def _bar(word: WordAttribution, most: float) -> str:
    side = "for" if word.attribution > 0 else "against"
    return f'<span class="bar {side}" style="width:{abs(word.attribution) / most:.1%}"></span>'


def _features(why: Attribution) -> str:
    if not why.features:
        return ""
    rows = "".join(
        f'<tr><td>{escape(one.text)}</td><td>{escape(one.position)}</td><td class="number">{one.value:+.4f}</td></tr>'
        for one in why.features[:ROWS]
    )
    head = "<thead><tr><th>n-gram</th><th>where</th><th class=number>adds</th></tr></thead>"
    return f"<table>{head}<tbody>{rows}</tbody></table>"


# How much each word speaks for what a linear model says: exactly the weights of the n-grams that it is part of.
#
# The score is the logit above the mean of all labels' (of two labels times two: the log-odds). Weights that were learned
# with a penalty have no common part, so that the mean changes nothing but what there is without any word.


SIDES = {"first": (0,), "second": (1,), "both": (0, 1), "text": (0, 1)}  # where n-grams of texts are found


@dataclass(frozen=True)
class LinearFeature:
    """What a linear model looks at: an n-gram as text, or "" for a figure; where it stands, or the figure's name; and
    what it adds to the score."""

    text: str
    position: str
    value: float

    def to_dict(self) -> dict[str, Any]:
        return {"text": self.text, "where": self.position, "value": round(self.value, 6)}


@dataclass(frozen=True, eq=False)
class LinearAttribution:
    """values (T,) of tokens; what no token can be blamed for; the score, what it is without any word; all features."""

    values: np.ndarray
    elsewhere: float
    score: float
    baseline: float
    features: tuple[LinearFeature, ...]


def linear_attribution(
    network: Any, traced: TokenTrace, target: AttributionTarget, logits: Logits, tokenizer: Tokenizer
) -> LinearAttribution:
    """An n-gram's share is divided alike among its tokens, wherever they stand; that of a figure is no token's."""
    inputs = traced.rows.make_batch([0]).inputs
    values, elsewhere, score, told = np.zeros(len(traced.word_ids)), 0.0, target.offset, 0.0
    features: dict[tuple[tuple[int, ...], str], float] = {}
    for point in target.outputs:
        score += point.scale * _logit(logits, point, centred=network.kind in ("label", "tag"))
        for share in network.feature_contributions(inputs, point.index, head=point.head, answer=point.class_index):
            value = share.value * point.scale
            skipped = network.skipped if isinstance(network, LinearModel) else ()
            places = _places(share, traced, inputs, point.head, point.index, skipped)
            width = max(1, len(places))
            for place in places:
                if place is None:
                    elsewhere += value / width
                else:
                    values[place] += value / width
            elsewhere += 0.0 if places else value
            told += value
            key = (share.tokens, share.field)
            features[key] = features.get(key, 0.0) + value
    named = (
        LinearFeature(_shares_text(tokenizer, tokens), where, value) for (tokens, where), value in features.items()
    )
    ordered = sorted(named, key=lambda one: -abs(one.value))
    return LinearAttribution(values, elsewhere, score, score - told, tuple(ordered))


def _logit(logits: Logits, point: TargetOutput, *, centred: bool) -> float:
    """The logit; `centred`: above the mean of all answers', as what they have in common says nothing."""
    if point.head == "choice":
        return float(logits["choice"][0][point.index])
    found = logits["label"][0] if point.head == "label" else np.concatenate(logits[point.head])[point.index]
    if point.head in ("start", "end"):
        return float(found)
    return float(found[point.class_index or 0] - (found.mean() if centred else 0.0))


def _places(
    share: Any, traced: TokenTrace, inputs: TargetArrays, head: str, number: int, skipped: Any
) -> list[int | None]:
    """The tokens that a feature is made of; None for one that lies outside of the row; none for a figure."""
    if share.position is not None:
        begin, end = _row_of(inputs, number)
        return [number + one if begin <= number + one < end else None for one in share.position]
    if not share.tokens:
        return []
    if head in ("tag", "start", "end"):
        asked = not share.where.lstrip("+-").isdigit()  # else it is how far the feature is from the token
        return list(_asked(share, traced, inputs, number) if asked else _around(share, inputs, number))
    rows = [number] if head == "choice" else range(len(inputs["lengths"]))
    ends = np.cumsum(inputs["lengths"])
    wanted, places = np.array(share.tokens), []
    for row in rows:
        here = np.arange(ends[row] - inputs["lengths"][row], ends[row])
        here = here[~np.isin(inputs["tokens"][here], np.asarray(skipped))]
        for side in SIDES[share.where]:
            own = here[traced.rows.segments[here] == side]
            if len(own) >= len(wanted):
                windows = np.lib.stride_tricks.sliding_window_view(own, len(wanted))
                matching = (inputs["tokens"][windows] == wanted).all(axis=1)
                places += windows[matching].ravel().tolist()
    return places


def _row_of(inputs: TargetArrays, number: int) -> tuple[int, int]:
    """Where the row of a token begins and ends."""
    ends = np.cumsum(inputs["lengths"])
    row = int(np.searchsorted(ends, number, side="right"))
    return int(ends[row] - inputs["lengths"][row]), int(ends[row])


def _asked(share: Any, traced: TokenTrace, inputs: TargetArrays, number: int) -> Iterator[int]:
    """Of a word of the question: wherever it stands there."""
    begin, end = _row_of(inputs, number)
    for place in range(begin, end):
        if traced.rows.segments[place] == 0 and (int(inputs["tokens"][place]),) == share.tokens:
            yield place


def _around(share: Any, inputs: TargetArrays, number: int) -> Iterator[int | None]:
    """Of a feature around a word: its last token stands so far from the word as its name says."""
    begin, end = _row_of(inputs, number)
    for back, token in enumerate(reversed(share.tokens)):
        place = number + int(share.where) - back
        yield place if begin <= place < end and int(inputs["tokens"][place]) == token else None


def _shares_text(tokenizer: Tokenizer, tokens: tuple[int, ...]) -> str:
    """An n-gram as a person reads it; what lies outside of the text is a dot."""
    parts = [
        tokenizer.decode([token]).strip() or tokenizer.id_to_token(token) if token >= 0 else "·" for token in tokens
    ]
    return " ".join(parts)
