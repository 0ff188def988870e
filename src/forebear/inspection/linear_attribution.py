"""Exact attribution of a linear model's prediction, by the weights of its n-grams.

The score is the logit minus the mean over labels; for two labels, twice that: the log-odds. Weights trained with L2
have no common component, so the mean affects the bias only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.inspection.attribution_targets import AttributionTarget, TargetOutput, TokenTrace
from forebear.objectives.batch import TargetArrays
from forebear.statistical.linear import FeatureContribution, LinearModel
from forebear.tasks.task import Logits

# The segments in which an n-gram feature occurs, by its field.
FIELD_SEGMENTS = {"first": (0,), "second": (1,), "both": (0, 1), "text": (0, 1)}


@dataclass(frozen=True)
class LinearFeature:
    """A feature and its contribution.

    text   the n-gram, "" for a numeric feature
    field  where the n-gram is, such as the first text, or the name of a numeric feature
    """

    text: str
    field: str
    value: float

    def to_dict(self) -> dict[str, Any]:
        return {"text": self.text, "where": self.field, "value": round(self.value, 6)}


@dataclass(frozen=True, eq=False)
class LinearAttribution:
    """The contributions to a score.

    values     (T,) of each token
    remainder  of features outside the tokens
    score      with all words
    baseline   without words
    features   all features, the largest contribution first
    """

    values: np.ndarray
    remainder: float
    score: float
    baseline: float
    features: tuple[LinearFeature, ...]


def linear_attribution(
    network: Any, trace: TokenTrace, target: AttributionTarget, logits: Logits, tokenizer: Tokenizer
) -> LinearAttribution:
    """Divide each n-gram's contribution equally among its tokens; numeric features belong to no token."""
    inputs = trace.rows.make_batch([0]).inputs
    values, remainder, score, attributed_sum = np.zeros(len(trace.word_ids)), 0.0, target.offset, 0.0
    sums: dict[tuple[tuple[int, ...], str], float] = {}
    special_ids = network.special_ids if isinstance(network, LinearModel) else ()
    for output in target.outputs:
        head, index = output.head, output.index
        score += output.scale * _logit(logits, output, is_centered=network.kind in ("label", "tag"))
        for contribution in network.feature_contributions(inputs, index, head=head, answer=output.class_index):
            value = contribution.value * output.scale
            positions = _feature_positions(contribution, trace, inputs, head, index, special_ids) or [None]
            for position in positions:
                if position is None:
                    remainder += value / len(positions)
                else:
                    values[position] += value / len(positions)
            attributed_sum += value
            feature_key = (contribution.tokens, contribution.field)
            sums[feature_key] = sums.get(feature_key, 0.0) + value
    features = (LinearFeature(_ngram_text(tokenizer, tokens), field, value) for (tokens, field), value in sums.items())
    ordered = tuple(sorted(features, key=lambda feature: -abs(feature.value)))
    return LinearAttribution(values, remainder, score, score - attributed_sum, ordered)


def _logit(logits: Logits, output: TargetOutput, *, is_centered: bool) -> float:
    """The logit; `is_centered` subtracts the mean over classes."""
    if output.head == "choice":
        return float(logits["choice"][0][output.index])
    scores = logits["label"][0] if output.head == "label" else np.concatenate(logits[output.head])[output.index]
    if output.head in ("start", "end"):
        return float(scores)
    return float(scores[output.class_index or 0] - (scores.mean() if is_centered else 0.0))


def _feature_positions(
    contribution: FeatureContribution, trace: TokenTrace, inputs: TargetArrays, head: str, index: int, special_ids: Any
) -> list[int | None]:
    """Tokens of a feature: None for one outside the sequence, an empty list for a numeric feature."""
    tokens, ends = inputs["tokens"], np.cumsum(inputs["lengths"])
    if not contribution.tokens and contribution.position is None:
        return []
    if contribution.position is not None or head in ("tag", "start", "end"):
        row = int(np.searchsorted(ends, index, side="right"))
        sequence_positions = range(int(ends[row] - inputs["lengths"][row]), int(ends[row]))
        if contribution.position is not None:
            positions = (index + offset for offset in contribution.position)
            return [position if position in sequence_positions else None for position in positions]
        if contribution.field.lstrip("+-").isdigit():  # the offset of the last token
            last_position = index + int(contribution.field)
            positions = range(last_position - len(contribution.tokens) + 1, last_position + 1)
            expected = zip(positions, contribution.tokens, strict=True)
            return [
                position if position in sequence_positions and int(tokens[position]) == token else None
                for position, token in expected
            ]
        question_positions = (position for position in sequence_positions if trace.rows.segments[position] == 0)
        return [position for position in question_positions if (int(tokens[position]),) == contribution.tokens]
    rows = [index] if head == "choice" else range(len(ends))
    ngram, positions = np.array(contribution.tokens), []
    for row in rows:
        row_positions = np.arange(ends[row] - inputs["lengths"][row], ends[row])
        row_positions = row_positions[~np.isin(tokens[row_positions], np.asarray(special_ids))]
        for segment in FIELD_SEGMENTS[contribution.field]:
            text_positions = row_positions[trace.rows.segments[row_positions] == segment]
            if len(text_positions) >= len(ngram):
                windows = np.lib.stride_tricks.sliding_window_view(text_positions, len(ngram))
                is_match = (tokens[windows] == ngram).all(axis=1)
                positions += windows[is_match].ravel().tolist()
    return positions


def _ngram_text(tokenizer: Tokenizer, tokens: tuple[int, ...]) -> str:
    """A readable n-gram; "·" for positions outside the text."""
    texts = (
        tokenizer.decode([token]).strip() or tokenizer.id_to_token(token) if token >= 0 else "·" for token in tokens
    )
    return " ".join(texts)
