"""Linear baseline: logistic, softmax and squared-error models over n-gram features, fitted to the optimum."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from forebear.errors import ForebearError, InputError
from forebear.numerics import require_finite, require_names
from forebear.statistical.feature_matrix import FeatureMatrix, SparseMatrix
from forebear.statistical.lbfgs import LBFGSProgressFn, LBFGSResult, minimize, stable_dot
from forebear.statistical.linear_features import TextFeatures, TokenRows, WordFeatures
from forebear.statistical.passage_features import PassageFeatures

# --- Features by kind of target ---

LinearKind = Literal["label", "labels", "number", "tag", "choice", "span"]
FeatureExtractor = TextFeatures | WordFeatures | PassageFeatures


@dataclass(frozen=True, eq=False)
class FeatureConfig:
    """Settings of feature extraction; see `LinearModel`."""

    kind: LinearKind
    vocab_size: int
    order: int
    is_pair: bool
    special_ids: np.ndarray
    min_count: int | None
    shapes: np.ndarray | None = None

    def rows(self, inputs: Mapping[str, np.ndarray]) -> TokenRows:
        return TokenRows.from_rows(inputs, vocab_size=self.vocab_size, is_segmented=self.is_pair)

    def fit(self, rows: TokenRows, positions: np.ndarray) -> FeatureExtractor:
        """Learn features from training rows; `positions` are the tokens with targets."""
        options = {"vocab_size": self.vocab_size, "special_ids": self.special_ids}
        if self.kind == "tag":
            return WordFeatures.fit(rows, positions, min_count=self.min_count, shapes=self.shapes, **options)
        if self.kind == "span":
            return PassageFeatures.fit(rows, shapes=self._shapes, **options)
        return TextFeatures.fit(rows, order=self.order, is_pair=self.is_pair, min_count=self.min_count, **options)

    def feature_names(self) -> set[str]:
        """Names of the arrays of the learned features."""
        if self.kind == "span":
            return {"weights_of_tokens", "asking"}
        order = 2 if self.kind == "tag" else self.order
        levels = {f"words.{n}" for n in range(2, order + 1)} | {f"continuations.{n}" for n in range(1, order)}
        return levels | ({"weights_of_ngrams"} if self.kind != "tag" else set())

    def load(self, arrays: Mapping[str, np.ndarray]) -> FeatureExtractor:
        """Load from such arrays; raise ForebearError for misshapen ones."""
        options = {"vocab_size": self.vocab_size, "special_ids": self.special_ids}
        if self.kind == "tag":
            return WordFeatures.load(arrays, shapes=self.shapes, **options)
        if self.kind == "span":
            return PassageFeatures.load(arrays, shapes=self._shapes, **options)
        return TextFeatures.load(arrays, order=self.order, is_pair=self.is_pair, **options)

    @property
    def _shapes(self) -> np.ndarray:
        """Word shapes of ids; all alike if unknown."""
        return np.zeros(self.vocab_size + 1, np.int64) if self.shapes is None else self.shapes

    def matrix(
        self,
        features: FeatureExtractor,
        rows: TokenRows,
        groups: np.ndarray | None = None,
        positions: np.ndarray | None = None,
    ) -> FeatureMatrix:
        """A row for each example, token (tag: those at `positions`, or all; span) or row (choice)."""
        if isinstance(features, WordFeatures):
            return features.transform(rows, np.arange(len(rows.tokens)) if positions is None else positions)
        matrix = features.transform(rows)
        if isinstance(matrix, SparseMatrix) and self.kind != "choice" and groups is not None:
            return matrix.average_groups(groups)
        return matrix


# --- Losses ---

# Scores (R, C) → the sum of the losses, and its gradient (R, C).
LossFn = Callable[[np.ndarray], tuple[float, np.ndarray]]


def softmax_loss(gold: np.ndarray, weights: np.ndarray) -> LossFn:
    """Cross-entropy of a softmax over the columns, with gold column indices (R,)."""
    rows = np.arange(len(gold))

    def loss(scores: np.ndarray) -> tuple[float, np.ndarray]:
        max_scores = scores.max(axis=1, keepdims=True)
        probs = np.exp(scores - max_scores)
        total = probs.sum(axis=1, keepdims=True)
        value = float(weights @ ((max_scores + np.log(total))[:, 0] - scores[rows, gold]))
        probs /= total
        probs[rows, gold] -= 1
        return value, probs * weights[:, None]

    return loss


def logistic_loss(gold: np.ndarray, weights: np.ndarray) -> LossFn:
    """Binary cross-entropy of each column, with targets 0 and 1 (R, C)."""

    def loss(scores: np.ndarray) -> tuple[float, np.ndarray]:
        value = float(weights @ (np.logaddexp(0, scores) - gold * scores).sum(axis=1))
        # tanh does not overflow.
        return value, ((1 + np.tanh(scores / 2)) / 2 - gold) * weights[:, None]

    return loss


def squared_loss(gold: np.ndarray, weights: np.ndarray) -> LossFn:
    """Half the squared error from `gold` (R, C)."""

    def loss(scores: np.ndarray) -> tuple[float, np.ndarray]:
        errors = scores - gold
        return float(weights @ (errors * errors).sum(axis=1)) / 2, errors * weights[:, None]

    return loss


def group_softmax_loss(starts: np.ndarray, gold: np.ndarray, weights: np.ndarray) -> LossFn:
    """Cross-entropy of a softmax over the rows of each group, separately for each column.

    starts   (G,) the first row of each group; no group is empty
    gold     (G, C) the gold row, counted over all rows; -1: no target
    weights  (G, C)
    """
    weights = np.where(gold < 0, 0.0, weights)
    columns = np.arange(gold.shape[1])

    def loss(scores: np.ndarray) -> tuple[float, np.ndarray]:
        sizes = np.diff(np.append(starts, len(scores)))
        max_scores = np.maximum.reduceat(scores, starts, axis=0)
        probs = np.exp(scores - np.repeat(max_scores, sizes, axis=0))
        total = np.add.reduceat(probs, starts, axis=0)
        value = float((weights * (max_scores + np.log(total) - scores[gold, columns])).sum())
        probs *= np.repeat(weights / total, sizes, axis=0)
        np.subtract.at(probs, (gold, columns), weights)
        return value, probs

    return loss


# --- Fitting ---

WEIGHT_TOLERANCE = 1e-4  # maximum distance of the weights from the optimum, relative to their norm
TYPICAL_CURVATURE = 0.0005  # a typical p(1 - p) at the optimum: curvature of the loss per squared feature
LARGE_NUM_ROWS, MIN_DECREASE = (1 << 15, 1e-4)  # with more rows, ten steps must decrease the loss by this fraction


class LinearProblem(NamedTuple):
    """The optimization problem: features, loss, total example weight, and scale and shift of the scores."""

    matrix: FeatureMatrix
    loss: LossFn
    total_weight: float
    scale: float = 1.0
    shift: float = 0.0


def fit_linear(
    problem: LinearProblem,
    num_columns: int,
    *,
    penalty: float,
    has_bias: bool,
    seconds: float | None,
    progress: LBFGSProgressFn | None,
) -> tuple[np.ndarray, np.ndarray, LBFGSResult]:
    """Minimize Σ loss + penalty/2 · Σ weight², with an unregularized bias.

    Returns weights (F, C), bias (C,) or (0,), and the optimizer's result, whose value is the mean regularized loss.

    The curvature is at least `penalty`, so the distance to the optimum is at most |gradient| / penalty: the
    optimizer stops when that is a small fraction of the weights.
    """
    matrix, loss, total_weight, *_ = problem
    num_rows, width = matrix.shape
    num_weights = width * num_columns
    # The curvature along common features is thousands of times that along rare ones. Rescaled to about equal
    # curvature, the optimizer takes a fifth of the steps.
    scales = np.repeat(1 / np.sqrt(penalty + TYPICAL_CURVATURE * matrix.column_square_sums()), num_columns)
    if has_bias:
        scales = np.append(scales, np.full(num_columns, 1 / np.sqrt(TYPICAL_CURVATURE * total_weight)))

    def function(point: np.ndarray) -> tuple[float, np.ndarray]:
        point = point * scales
        weights = point[:num_weights].reshape(width, num_columns)
        scores = matrix.multiply(weights)
        value, score_gradient = loss(scores + point[num_weights:] if has_bias else scores)
        gradient = np.empty_like(point)
        gradient[:num_weights] = (matrix.transposed_multiply(score_gradient) + penalty * weights).ravel()
        gradient[num_weights:] = score_gradient.sum(axis=0)[: len(point) - num_weights]
        value += penalty / 2 * stable_dot(point[:num_weights], point[:num_weights])
        return value / total_weight, gradient * scales / total_weight

    def has_converged(point: np.ndarray, gradient: np.ndarray) -> bool:
        size = max(1.0, float(np.linalg.norm(point[:num_weights] * scales[:num_weights])))
        return float(np.linalg.norm(gradient / scales)) * total_weight <= WEIGHT_TOLERANCE * penalty * size

    options = {"min_decrease": MIN_DECREASE if num_rows > LARGE_NUM_ROWS else 0.0, "seconds": seconds}
    result = minimize(function, np.zeros(len(scales)), has_converged, progress=progress, **options)
    point = result.solution * scales
    return point[:num_weights].reshape(width, num_columns), point[num_weights:], result


# --- The model ---

Arrays = Mapping[str, np.ndarray]

HEADS = {"tag": ("tag",), "choice": ("choice",), "span": ("start", "end")}  # of all other kinds: label
# Tuned on SST-2 and ChnSentiCorp (label), MRPC and AFQMC (pairs), MSRA (tag) and CMRC 2018 (span).
DEFAULT_PENALTIES = {"label": 0.1, "labels": 0.1, "number": 1.0, "tag": 0.3, "choice": 2.0, "span": 1.0}
PAIR_PENALTY = 1.0
RETRY_HINT = "use an earlier checkpoint; what another version of forebear made has to be adapted anew, with --overwrite"


@dataclass(frozen=True)
class FeatureContribution:
    """The contribution of one feature to a score: an n-gram (its ids) and its field, or a named dense feature."""

    tokens: tuple[int, ...]
    field: str
    value: float
    position: tuple[int, ...] | None = None  # offsets of its parts from the word, if known


@dataclass(frozen=True)
class FitReport:
    """Result of the optimization: iterations, mean regularized loss, and why it stopped.

    stop_reason  "found": at the optimum; "still": hardly any progress; "exact": limit of precision; "time" or
                 "iterations": stopped early
    """

    iterations: int
    loss: float
    stop_reason: str


class LinearModel:
    """Scores that are linear in the features of a text, a pair, a word, a choice or a token of a passage.

    kind         "label": one of `num_classes`; "labels": any of them; "number"; "tag": one class for each word;
                 "choice": which row of an example; "span": which token of a row begins the answer, and which ends it
    vocab_size   number of ids
    order        tokens of the longest n-gram; "tag" and "span" have features of their own
    is_pair      rows have two texts, with segment ids 0 and 1; always for "span"
    special_ids  ids without meaning, such as [CLS]
    shapes       for "tag" and "span": the word shape of each id; None: not used
    min_count    minimum count of an n-gram; None: 1, in large training sets 2
    penalty      λ in Σ loss + λ/2 · Σ weight², 1/C of scikit-learn; None: the default of the kind
    """

    transitions: None = None  # no transitions between tags

    def __init__(
        self,
        kind: LinearKind,
        *,
        vocab_size: int,
        num_classes: int = 1,
        order: int = 2,
        is_pair: bool = False,
        special_ids: Iterable[int] = (),
        shapes: np.ndarray | None = None,
        min_count: int | None = None,
        penalty: float | None = None,
    ) -> None:
        if kind not in get_args(LinearKind):
            hint = f"there are: {', '.join(DEFAULT_PENALTIES)}"
            raise InputError(f"no kind of linear model is named {kind!r}", hint=hint)
        min_classes = 2 if kind in ("label", "tag") else 1
        max_classes = 1 if kind in ("number", "choice", "span") else num_classes
        if not min_classes <= num_classes <= max_classes:
            hint = "it takes 1" if max_classes == 1 else f"it takes {min_classes} or more"
            raise InputError(f"{num_classes} answers of the kind {kind!r}", hint=hint)
        if order < 1 or (min_count is not None and min_count < 1):
            raise InputError(f"n-grams of up to {order} tokens that occur {min_count} times", hint="give 1 or more")
        if penalty is not None and not 0 < penalty < float("inf"):
            raise InputError(f"the penalty is {penalty}", hint="give a number above 0, such as 0.1")
        self.kind, self.num_classes, self.order, self.is_pair = kind, num_classes, order, is_pair or kind == "span"
        self.special_ids = np.array(sorted(set(special_ids)), np.int64)
        self._config = FeatureConfig(kind, vocab_size, order, self.is_pair, self.special_ids, min_count, shapes)
        default_penalty = PAIR_PENALTY if is_pair and kind in ("label", "labels") else DEFAULT_PENALTIES[kind]
        self.penalty = default_penalty if penalty is None else penalty
        self._features: FeatureExtractor | None = None
        self._weights = self._bias = np.zeros(0, np.float32)

    @property
    def heads(self) -> tuple[str, ...]:
        """The names of its outputs, as of a network's heads."""
        return HEADS.get(self.kind, ("label",))

    @property
    def num_parameters(self) -> int:
        return self._weights.size + self._bias.size

    def describe(self) -> dict[str, Any]:
        """Metadata as JSON values."""
        metadata = {"kind": self.kind, "answers": self.num_classes, "order": self.order, "pairs": self.is_pair}
        return metadata | {"penalty": self.penalty, "features": len(self._weights), "parameters": self.num_parameters}

    # -- training

    def fit(
        self,
        inputs: Arrays,
        targets: Arrays,
        *,
        weights: np.ndarray | None = None,
        seconds: float | None = None,
        progress: LBFGSProgressFn | None = None,
    ) -> FitReport:
        """Fit on all rows at once, to the optimum or for `seconds`; on many rows until progress is small.

        Inputs and targets are those of a batch. `weights` are example weights; `progress` receives the iteration and
        mean loss.
        """
        rows = self._config.rows(inputs)
        gold = np.stack([np.asarray(targets[name]) for name in self.heads], axis=-1)
        gold = gold[..., 0] if len(self.heads) == 1 else gold
        has_target = self._target_mask(gold)
        example_weights = np.ones(len(gold)) if weights is None else np.asarray(weights, np.float64)
        is_valid = np.isfinite(example_weights) & (example_weights >= 0)
        if example_weights.shape != (len(gold),) or not is_valid.all():
            raise InputError("the weights of examples are not one number for each, of 0 or more")
        example_weights = np.where(has_target, example_weights, 0.0)
        if not example_weights.any():
            raise InputError("nothing is asked that counts", hint="give examples with labels")
        features = self._config.fit(rows, np.flatnonzero(has_target))
        problem = self._problem(features, rows, inputs, gold, example_weights)
        fitted, bias, result = fit_linear(
            problem, self._columns, penalty=self.penalty, has_bias=self._is_biased, seconds=seconds, progress=progress
        )
        self._features = features
        self._weights = (fitted * problem.scale).astype(np.float32)
        self._bias = (bias * problem.scale + problem.shift).astype(np.float32)
        return FitReport(result.iterations, result.value, result.stop_reason)

    def _target_mask(self, gold: np.ndarray) -> np.ndarray:
        """Which entries have a target; raises for invalid ones."""
        if self.kind == "number":
            return ~np.isnan(gold)
        is_multi = gold.ndim == 2
        max_target = {"label": self.num_classes, "labels": 2, "tag": self.num_classes}.get(self.kind)
        if self.kind == "labels" and is_multi and gold.shape[1] != self.num_classes:
            raise ForebearError(f"{gold.shape[1]} labels to answer, and not {self.num_classes}")
        if max_target is not None and len(gold) and gold.max() >= max_target:
            raise ForebearError(f"the answer {gold.max()} of {max_target} is wanted")
        is_answered = np.asarray(gold >= 0)
        return np.asarray(is_answered.any(axis=1)) if is_multi else is_answered

    def _problem(
        self, features: FeatureExtractor, rows: TokenRows, inputs: Arrays, gold: np.ndarray, example_weights: np.ndarray
    ) -> LinearProblem:
        """`gold` and `example_weights` have an entry for each example, token (tag) or row (span)."""
        total, positions = float(example_weights.sum()), None
        if self.kind == "tag":
            _check(len(gold), len(rows.tokens))
            positions = np.flatnonzero(gold >= 0)
            gold, example_weights = gold[positions], example_weights[positions]
        matrix = self._config.matrix(features, rows, inputs.get("groups"), positions)
        if self.kind in ("choice", "span"):
            group_starts = np.cumsum(rows.lengths) - rows.lengths
            if self.kind == "choice":
                group_starts = np.flatnonzero(np.diff(inputs["groups"], prepend=-1))
            _check(len(gold), len(group_starts))
            gold, sizes = gold.reshape(len(group_starts), -1), np.diff(np.append(group_starts, matrix.shape[0]))
            if (gold >= sizes[:, None]).any() or not sizes.all():
                raise ForebearError("a target lies outside of its row or example")
            positions = np.where(gold < 0, -1, gold + group_starts[:, None])
            return LinearProblem(matrix, group_softmax_loss(group_starts, positions, example_weights[:, None]), total)
        _check(len(gold), matrix.shape[0])
        if self.kind == "number":
            values = np.where(example_weights > 0, gold, 0.0)
            shift = float(example_weights @ values) / total
            scale = float(np.sqrt(example_weights @ (values - shift) ** 2 / total)) or 1.0
            loss = squared_loss(((values - shift) / scale)[:, None], example_weights)
            return LinearProblem(matrix, loss, total, scale, shift)
        if self._columns < self.num_classes or self.kind == "labels":
            return LinearProblem(matrix, logistic_loss(gold.reshape(len(gold), -1), example_weights), total)
        return LinearProblem(matrix, softmax_loss(gold, example_weights), total)

    @property
    def _columns(self) -> int:
        """Number of scores per row; one for binary logistic regression."""
        return 2 if self.kind == "span" else 1 if self.kind == "label" and self.num_classes == 2 else self.num_classes

    @property
    def _is_biased(self) -> bool:
        """A bias cannot distinguish the rows of one example."""
        return self.kind not in ("choice", "span")

    # -- prediction

    def logits(self, inputs: Arrays) -> dict[str, np.ndarray]:
        """Logits of each head: label (E, classes), tag (T, classes), choice (B,), start, end (T,).

        For "number", label (E, 1) is the value itself.
        """
        matrix = self._config.matrix(self._require_fitted(), self._config.rows(inputs), inputs.get("groups"))
        scores = matrix.multiply(self._weights)
        scores = scores + self._bias if self._is_biased else scores
        if self.kind in ("choice", "span"):
            return dict(zip(self.heads, scores.T, strict=True))
        return {self.heads[0]: scores @ np.array([[-0.5, 0.5]]) if self._columns < self.num_classes else scores}

    def feature_contributions(
        self, inputs: Arrays, number: int = 0, *, head: str = "", answer: int | None = None
    ) -> list[FeatureContribution]:
        """Contribution of each feature to a score, the largest first; with the bias they add up to the logit.

        number  of the example, the row (choice) or the token (tag, start, end)
        head    start or end, where there are both
        answer  which score; None: the highest
        """
        features, rows = self._require_fitted(), self._config.rows(inputs)
        columns, values = self._config.matrix(features, rows, inputs.get("groups")).get_row(number)
        feature_weights, feature_values = self._weights[columns], values.astype(np.float64)
        if self.kind == "span":
            if head not in self.heads:
                raise InputError(f"there is no answer named {head!r}", hint=f"choose one of {', '.join(self.heads)}")
            column = self.heads.index(head)
        elif self._columns == 1:
            column = 0
            if self.num_classes == 2:
                score = float(feature_values @ feature_weights[:, 0] + self._bias[0])
                feature_values = feature_values * ((score > 0 if answer is None else answer) - 0.5)
        else:
            column = int(np.argmax(feature_values @ feature_weights + self._bias)) if answer is None else answer
        totals: defaultdict[int, float] = defaultdict(float)
        for feature, value in zip(columns.tolist(), feature_values * feature_weights[:, column], strict=True):
            totals[feature] += float(value)
        nonzero = [(feature, value) for feature, value in totals.items() if value]
        contributions = [FeatureContribution(*features.feature(feature), value) for feature, value in nonzero]
        return sorted(
            contributions, key=lambda contribution: (-abs(contribution.value), contribution.field, contribution.tokens)
        )

    def _require_fitted(self) -> FeatureExtractor:
        if self._features is None:
            raise ForebearError("this linear model has learned nothing yet", hint="fit it, or load what was learned")
        return self._features

    # -- saved state

    def arrays(self) -> dict[str, np.ndarray]:
        """The complete state."""
        weights = {"weights": self._weights} | ({"bias": self._bias} if self._is_biased else {})
        return self._require_fitted().arrays() | weights

    def load(self, arrays: Arrays) -> None:
        """Load such a state; raise ForebearError for a missing, extra or misshapen array."""
        bias_shape = {"bias": (self._columns,)} if self._is_biased else {}
        names = self._config.feature_names() | {"weights"} | bias_shape.keys()
        require_names(f"a linear model of the kind {self.kind!r}", arrays, names, hint=RETRY_HINT)
        features = self._config.load(arrays)
        shapes = {"weights": (features.width, self._columns)} | bias_shape
        require_finite("the linear model", arrays, shapes, hint=RETRY_HINT)
        self._features, self._weights = features, arrays["weights"]
        self._bias = arrays["bias"] if self._is_biased else np.zeros(0, np.float32)


def _check(targets: int, units: int) -> None:
    if targets != units:
        raise ForebearError(f"there are {targets} targets for {units} of what they are asked about")
