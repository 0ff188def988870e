"""Task metrics: classification, regression, question answering, calibration, entity F1, tagging accuracy.

Labels are ids into a list of names. A metric without a denominator (a class that is never predicted, constant numbers)
is 0.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import chain, compress
from typing import Any, Literal

import numpy as np

from forebear.data.labeled.examples import is_labeled
from forebear.data.labeled.tag_schemes import split_tag
from forebear.data.unicode import CLASS_IDS, MEAN_WORD_LENGTH, code_points, count_classes
from forebear.errors import InputError
from forebear.numerics import (
    finite_series,
    log_softmax,
    pearson,
    require_examples,
    require_same_length,
    sigmoid,
    softmax,
    spearman,
)

Average = Literal["macro", "micro", "weighted"]
TagSequences = Sequence[Sequence[str]]
MAX_CONFUSION_CLASSES = 200  # classes up to which the confusion matrix is reported


@dataclass(frozen=True)
class ClassCounts:
    """True positives, predictions and gold labels of each class."""

    hits: np.ndarray
    num_predicted: np.ndarray
    num_gold: np.ndarray

    @property
    def precision(self) -> np.ndarray:
        return _ratio(self.hits, self.num_predicted)

    @property
    def recall(self) -> np.ndarray:
        return _ratio(self.hits, self.num_gold)

    @property
    def f1(self) -> np.ndarray:
        return _ratio(2 * self.hits, self.num_predicted + self.num_gold)

    def average_f1(self, average: Average) -> float:
        """F1 averaged over classes (macro), over all examples (micro), or over classes by support (weighted)."""
        if average == "micro":
            return float(_ratio(2 * self.hits.sum(), self.num_predicted.sum() + self.num_gold.sum()))
        if average == "weighted":
            return float(_ratio((self.f1 * self.num_gold).sum(), self.num_gold.sum()))
        return float(self.f1.mean()) if len(self.f1) else 0.0

    @property
    def occurs(self) -> np.ndarray:
        """Whether each class occurs in predictions or gold labels."""
        return (self.num_predicted + self.num_gold) > 0

    def occurring(self) -> ClassCounts:
        """Only the classes that occur, so that others do not lower the mean."""
        return ClassCounts(self.hits[self.occurs], self.num_predicted[self.occurs], self.num_gold[self.occurs])

    def to_dict(self, names: Sequence[str]) -> dict[str, dict[str, Any]]:
        columns = {"precision": self.precision, "recall": self.recall, "f1": self.f1, "support": self.num_gold}
        rows = zip(*(column.tolist() for column in columns.values()), strict=True)
        return {name: dict(zip(columns, row, strict=True)) for name, row in zip(names, rows, strict=True)}


def classification_metrics(true: np.ndarray, predicted: np.ndarray, labels: Sequence[str]) -> dict[str, Any]:
    """Metrics of single-label classification; means are over occurring classes, rows of `confusion` are gold labels."""
    true, predicted = _validate_ids(true, predicted, len(labels))
    counts = class_counts_from_ids(true, predicted, len(labels))
    occurring = counts.occurring()
    return {
        "accuracy": accuracy(true, predicted),
        "macro_f1": occurring.average_f1("macro"),
        "micro_f1": occurring.average_f1("micro"),
        "weighted_f1": occurring.average_f1("weighted"),
        "mcc": matthews_correlation(counts, len(true)),
        "examples": len(true),
        "per_class": counts.to_dict(labels),
        "confusion": confusion(true, predicted, len(labels)).tolist() if len(labels) <= MAX_CONFUSION_CLASSES else None,
    }


def multi_label_metrics(true: np.ndarray, predicted: np.ndarray, labels: Sequence[str]) -> dict[str, Any]:
    """Metrics of multi-label classification from (N, L) booleans; the macro mean is over all labels."""
    true, predicted = np.asarray(true, bool), np.asarray(predicted, bool)
    if true.shape != predicted.shape or true.shape[1:] != (len(labels),):
        raise InputError(f"answers of the shape {predicted.shape}, not {true.shape}, for {len(labels)} labels")
    require_examples(len(true))
    counts = ClassCounts((true & predicted).sum(0), predicted.sum(0), true.sum(0))
    return {
        "exact_match": float((true == predicted).all(1).mean()),
        "micro_f1": counts.average_f1("micro"),
        "macro_f1": counts.average_f1("macro"),
        "weighted_f1": counts.average_f1("weighted"),
        "examples": len(true),
        "per_class": counts.to_dict(labels),
    }


def regression_metrics(true: np.ndarray, predicted: np.ndarray) -> dict[str, Any]:
    true, predicted = finite_series(true, predicted)
    return {
        "pearson": pearson(true, predicted),
        "spearman": spearman(true, predicted),
        "rmse": float(np.sqrt(np.mean((true - predicted) ** 2))),
        "mae": float(np.mean(np.abs(true - predicted))),
        "examples": len(true),
    }


def labeled_pairs(examples: Sequence[Any], predictions: Sequence[Any]) -> list[tuple[Any, Any]]:
    """The examples that have a gold answer, each with its prediction."""
    return [pair for pair in zip(examples, predictions, strict=True) if is_labeled(pair[0])]


def accuracy(true: np.ndarray, predicted: np.ndarray) -> float:
    return float(np.mean(np.asarray(true) == np.asarray(predicted)))


def confusion(true: np.ndarray, predicted: np.ndarray, num_classes: int) -> np.ndarray:
    """(classes, classes) confusion matrix: rows are gold labels, columns predictions."""
    true, predicted = _validate_ids(true, predicted, num_classes)
    cells = np.bincount(true * num_classes + predicted, minlength=num_classes**2)
    return cells.reshape(num_classes, num_classes)


def class_counts_from_ids(true: np.ndarray, predicted: np.ndarray, num_classes: int) -> ClassCounts:
    true, predicted = _validate_ids(true, predicted, num_classes)
    hits = np.bincount(true[true == predicted], minlength=num_classes)
    return ClassCounts(hits, np.bincount(predicted, minlength=num_classes), np.bincount(true, minlength=num_classes))


def matthews_correlation(counts: ClassCounts, num_examples: int) -> float:
    """Matthews correlation coefficient for any number of classes: 1 for perfect, 0 for random predictions."""
    # In floating point: the fourth power of a million exceeds 64-bit integers.
    predicted, gold, num_total = counts.num_predicted.astype(float), counts.num_gold.astype(float), float(num_examples)
    covariance = counts.hits.sum() * num_total - predicted @ gold
    variances = (num_total**2 - predicted @ predicted) * (num_total**2 - gold @ gold)
    return float(covariance / np.sqrt(variances)) if variances > 0 else 0.0


def _ratio(numerator: Any, denominator: Any) -> np.ndarray:
    return np.divide(numerator, denominator, out=np.zeros(np.shape(numerator)), where=np.asarray(denominator) != 0)


def _validate_ids(true: np.ndarray, predicted: np.ndarray, num_classes: int) -> tuple[np.ndarray, np.ndarray]:
    true, predicted = np.asarray(true), np.asarray(predicted)
    require_same_length(true, predicted)
    for ids in (true, predicted):
        if ids.dtype.kind not in "iu" or ids.min() < 0 or ids.max() >= num_classes:
            raise InputError(f"a label that is none of the numbers 0 to {num_classes - 1}")
    return true.astype(np.int64, copy=False), predicted.astype(np.int64, copy=False)


# --- Question answering: exact match and F1 as in SQuAD, for Chinese as in CMRC 2018 ---

Language = Literal["english", "chinese"]

ARTICLES = re.compile(r"\b(?:a|an|the)\b")
WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)
# The characters that CMRC 2018's script removes (its …… never matches: the script compares single characters).
CMRC_PUNCTUATION = str.maketrans("", "", "-:_*^/\\~`+=，。：？！“”；’《》·、「」（）－～『』")
CMRC_HAN = "\u4e00-\u9fa5"
# Between Chinese characters, Penn Treebank words, for which that script uses NLTK: punctuation is separate, except a
# comma before a digit and a full stop or apostrophe inside a word; 's and n't are words.
SEPARATE_PUNCTUATION = r";@#$%&?!\[\](){}<>\"–—―‘"
CONTRACTION = r"(?:'(?:s|m|d|ll|re|ve)|n't)(?!\w)"
# Only closing marks until the end or the next Chinese character.
CLOSING_LOOKAHEAD = rf"(?=[\])}}>\"'”’\s]*(?:$|[{CMRC_HAN}]))"
WORD_CHARACTER = rf"[^\s{CMRC_HAN}{SEPARATE_PUNCTUATION},.']|,(?=\d)|(?<!\.)\.(?!\.|{CLOSING_LOOKAHEAD})|(?<=\w)'(?=\w)"
WORD = re.compile(
    rf"[{CMRC_HAN}]|{CONTRACTION}|\.\.+|[{SEPARATE_PUNCTUATION}]|(?:(?!{CONTRACTION})(?:{WORD_CHARACTER}))+|[,.']"
)


def answer_scores(golds: TagSequences, predicted: Sequence[str], language: Language | None = None) -> dict[str, Any]:
    """Exact match and F1 (0 to 1) over all questions, and over answerable and unanswerable ones separately.

    An unanswerable question has no gold answers, and "" matches. Without a `language`, the definition for Chinese
    is used if more than half of the gold text is Chinese.
    """
    if len(golds) != len(predicted):
        raise InputError(f"{len(predicted)} answers to {len(golds)} questions")
    if not golds:
        raise InputError("there are no questions to measure with", hint="give at least one")
    metric_language = language or answer_language(golds)
    scores = np.array([answer_score(gold, text, metric_language) for gold, text in zip(golds, predicted, strict=True)])
    is_answerable = np.array([bool(gold) for gold in golds])
    metrics = {**_mean_scores(scores), "language": metric_language}
    for name, mask in (("has_answer", is_answerable), ("no_answer", ~is_answerable)):
        if mask.any():
            metrics[name] = _mean_scores(scores[mask])
    return metrics


def best_no_answer_threshold(golds: TagSequences, predicted: Sequence[str], margins: Sequence[float]) -> float:
    """The "no answer" threshold with the best F1; of several, the nearest to 0.

    `predicted` has the best candidate of each question, and `margins` the margin of "no answer" over it.
    """
    language = answer_language(golds)
    gains = [
        answer_score(gold, "", language)[1] - answer_score(gold, text, language)[1]
        for gold, text in zip(golds, predicted, strict=True)
    ]
    order = np.argsort(margins, kind="stable")
    sorted_margins = np.asarray(margins, float)[order]
    thresholds = np.concatenate(
        [sorted_margins[:1] - 1, (sorted_margins[1:] + sorted_margins[:-1]) / 2, sorted_margins[-1:] + 1]
    )
    totals = np.append(np.cumsum(np.array(gains)[order][::-1])[::-1], 0.0)  # total gain of each threshold
    is_best = totals >= totals.max() - 1e-9
    if is_best[np.searchsorted(sorted_margins, 0.0, side="right")]:
        return 0.0
    return float(thresholds[is_best][np.abs(thresholds[is_best]).argmin()])


def answer_score(golds: Sequence[str], predicted: str, language: Language) -> tuple[float, float]:
    """(exact match, F1) of an answer: the maximum over gold answers."""
    normalize, f1 = (normalize_chinese, chinese_f1) if language == "chinese" else (normalize_english, english_f1)
    references = [gold for gold in golds if normalize(gold)] or [""]
    is_exact = normalize(predicted) in [normalize(gold) for gold in references]
    return float(is_exact), max(f1(gold, predicted) for gold in references)


def answer_language(golds: TagSequences) -> Language:
    """The language of the gold answers; a Chinese character counts as much as a Latin word."""
    text = "".join(answer for gold in golds for answer in gold)
    _, counts = count_classes(code_points(text, surrogates="keep"), [len(text)])
    han, latin = int(counts[0, CLASS_IDS["Han"]]), int(counts[0, CLASS_IDS["Latin"]])
    return "chinese" if han * MEAN_WORD_LENGTH > latin else "english"


def normalize_english(text: str) -> str:
    """SQuAD's normalization: lower case, no punctuation, no articles, single spaces."""
    return " ".join(ARTICLES.sub(" ", text.lower().translate(WITHOUT_PUNCTUATION)).split())


def english_f1(gold: str, predicted: str) -> float:
    """F1 of shared words, in any order."""
    gold_words, predicted_words = normalize_english(gold).split(), normalize_english(predicted).split()
    return _f1((Counter(gold_words) & Counter(predicted_words)).total(), gold_words, predicted_words)


def normalize_chinese(text: str) -> str:
    """CMRC 2018's normalization: lower case, no punctuation; inner white space stays."""
    return text.lower().strip().translate(CMRC_PUNCTUATION)


def chinese_f1(gold: str, predicted: str) -> float:
    """F1 of the longest common run of Chinese characters and Latin words."""
    gold_words, predicted_words = WORD.findall(normalize_chinese(gold)), WORD.findall(normalize_chinese(predicted))
    return _f1(longest_common(gold_words, predicted_words), gold_words, predicted_words)


def longest_common(first: Sequence[str], second: Sequence[str]) -> int:
    """The length of the longest common run; fast if the sequences share few words."""
    positions: dict[str, list[int]] = {}
    for position, word in enumerate(second):
        positions.setdefault(word, []).append(position)
    max_length, run_lengths = 0, {}  # length of the common run that ends at each position of `second`
    for word in first:
        run_lengths = {position: run_lengths.get(position - 1, 0) + 1 for position in positions.get(word, ())}
        max_length = max(max_length, *run_lengths.values(), 0)
    return max_length


def _f1(common: int, gold: Sequence[str], predicted: Sequence[str]) -> float:
    if not gold or not predicted:
        return float(not gold and not predicted)
    return 2 * common / (len(gold) + len(predicted))


def _mean_scores(scores: np.ndarray) -> dict[str, Any]:
    exact, f1 = scores.mean(0).tolist()
    return {"exact_match": exact, "f1": f1, "questions": len(scores)}


# --- Calibration: reliability, expected calibration error, temperature scaling ---
#
# The targets decide what logits (N, C) mean: class ids (N,) for softmax, booleans (N, C) for sigmoid.

NUM_BINS = 10
MIN_TEMPERATURE, MAX_TEMPERATURE = 0.05, 20.0  # bounds, reached if all predictions are right or all are wrong
MIN_CALIBRATION_EXAMPLES = 50  # fewer examples are not enough to calibrate
MIN_TRUSTED_TEMPERATURE, MAX_TRUSTED_TEMPERATURE = 0.2, 5.0  # other temperatures are due to chance
TOLERANCE, MAX_NEWTON_STEPS = 1e-9, 200


def calibration(logits: np.ndarray, targets: np.ndarray, temperature: float = 1.0) -> dict[str, Any]:
    """Calibration metrics: expected calibration error, log loss in nats, Brier score, and the bins.

    With softmax, confidence is the probability of the best class; with sigmoid, each class of each example counts.
    """
    logits, targets = _validate_logits(logits, targets)
    class_probabilities = probabilities(logits, is_sigmoid=targets.ndim == 2, temperature=temperature)
    if targets.ndim == 2:
        confidences, is_right = class_probabilities.ravel(), targets.ravel()
    else:
        confidences, is_right = class_probabilities.max(1), class_probabilities.argmax(1) == targets
    bins = reliability(confidences, is_right)
    return {
        "calibration_error": calibration_error(bins),
        "log_loss": log_loss(logits, targets, temperature),
        "brier": brier(class_probabilities, targets),
        "temperature": float(temperature),
        "bins": bins,
    }


def reliability(confidence: np.ndarray, is_right: np.ndarray, num_bins: int = NUM_BINS) -> list[dict[str, Any]]:
    """Mean confidence and accuracy in confidence bins of equal width, upper ends included."""
    confidence, is_right = np.asarray(confidence, np.float64), np.asarray(is_right, np.float64)
    edges = np.arange(1, num_bins) / num_bins
    bin_ids = np.searchsorted(edges, confidence, side="left")
    counts = np.bincount(bin_ids, minlength=num_bins)
    divisors = np.maximum(counts, 1)
    mean_confidence = np.bincount(bin_ids, confidence, minlength=num_bins) / divisors
    accuracies = np.bincount(bin_ids, is_right, minlength=num_bins) / divisors
    return [
        {"from": index / num_bins, "to": (index + 1) / num_bins, "count": int(counts[index])}
        | ({"confidence": float(mean_confidence[index]), "accuracy": float(accuracies[index])} if counts[index] else {})
        for index in range(num_bins)
    ]


def calibration_error(bins: list[dict[str, Any]]) -> float:
    """Expected calibration error: mean distance between confidence and accuracy."""
    total = sum(row["count"] for row in bins)
    return sum(row["count"] * abs(row["confidence"] - row["accuracy"]) for row in bins if row["count"]) / max(total, 1)


def log_loss(logits: np.ndarray, targets: np.ndarray, temperature: float = 1.0) -> float:
    """Mean negative log-likelihood over examples (softmax), or over all classes of all examples (sigmoid)."""
    logits, targets = _validate_logits(logits, targets)
    scaled = logits / temperature
    if targets.ndim == 2:
        return float(np.mean(np.logaddexp(0.0, np.where(targets, -scaled, scaled))))
    return float(np.mean(-log_softmax(scaled)[np.arange(len(targets)), targets]))


def brier(class_probabilities: np.ndarray, targets: np.ndarray) -> float:
    """Brier score: squared error of probabilities, summed over classes (softmax) or averaged (sigmoid)."""
    targets = np.asarray(targets)
    if targets.ndim == 2:
        return float(np.mean((class_probabilities - targets) ** 2))
    gold_probabilities = np.asarray(class_probabilities)[np.arange(len(targets)), targets]
    return float(np.mean((np.square(class_probabilities)).sum(1) - 2 * gold_probabilities + 1))


def probabilities(logits: np.ndarray, *, is_sigmoid: bool = False, temperature: float = 1.0) -> np.ndarray:
    scaled = np.asarray(logits, np.float64) / temperature
    return sigmoid(scaled) if is_sigmoid else softmax(scaled)


def fit_temperature(logits: np.ndarray, targets: np.ndarray) -> float:
    """The best temperature within trusted bounds; 1 if there are too few examples."""
    if len(targets) < MIN_CALIBRATION_EXAMPLES:
        return 1.0
    return min(max(optimal_temperature(logits, targets), MIN_TRUSTED_TEMPERATURE), MAX_TRUSTED_TEMPERATURE)


def optimal_temperature(logits: np.ndarray, targets: np.ndarray) -> float:
    """The divisor of logits, from MIN_TEMPERATURE to MAX_TEMPERATURE, with the lowest log loss on held-out examples.

    It is 1 if all temperatures are equally good.
    """
    logits, targets = _validate_logits(logits, targets)
    if not (logits.any() if targets.ndim == 2 else np.ptp(logits, axis=1).any()):
        return 1.0
    # The loss is convex in 1/T: its derivative increases, so its zero can be bracketed.
    lower_bound, upper_bound = 1 / MAX_TEMPERATURE, 1 / MIN_TEMPERATURE
    if _loss_derivatives(logits, targets, lower_bound)[0] >= 0:
        return MAX_TEMPERATURE
    if _loss_derivatives(logits, targets, upper_bound)[0] <= 0:
        return MIN_TEMPERATURE
    inverse_temperature = 1.0
    for _ in range(MAX_NEWTON_STEPS):
        slope, curvature = _loss_derivatives(logits, targets, inverse_temperature)
        if slope < 0:
            lower_bound = inverse_temperature
        else:
            upper_bound = inverse_temperature
        step = inverse_temperature - slope / curvature if curvature > 0 else lower_bound
        previous_inverse = inverse_temperature
        # Newton's step, or the geometric mean of the bracket.
        inverse_temperature = step if lower_bound < step < upper_bound else (lower_bound * upper_bound) ** 0.5
        if abs(inverse_temperature - previous_inverse) <= TOLERANCE * previous_inverse:
            break
    return 1 / inverse_temperature


def _loss_derivatives(logits: np.ndarray, targets: np.ndarray, inverse_temperature: float) -> tuple[float, float]:
    """First and second derivative of the log loss with respect to 1/T."""
    class_probabilities = probabilities(logits * inverse_temperature, is_sigmoid=targets.ndim == 2)
    if targets.ndim == 2:
        slope = logits * (class_probabilities - targets)
        curvature = logits**2 * class_probabilities * (1 - class_probabilities)
    else:
        mean_logits = (class_probabilities * logits).sum(1)
        slope = mean_logits - logits[np.arange(len(targets)), targets]
        curvature = (class_probabilities * (logits - mean_logits[:, None]) ** 2).sum(1)
    return float(np.mean(slope)), float(np.mean(curvature))


def _validate_logits(logits: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    logits, targets = np.asarray(logits, np.float64), np.asarray(targets)
    if logits.ndim != 2 or targets.shape not in (logits.shape, logits.shape[:1]) or not len(logits):
        raise InputError(f"logits of the shape {logits.shape} for targets of the shape {targets.shape}")
    if not np.isfinite(logits).all():
        raise InputError("logits that are infinite or no numbers cannot be calibrated")
    return logits, targets


# --- Entity F1, lenient (conlleval) and strict (IOBES) ---

TAG_LETTERS = "OBIES"
OUTSIDE_TAG, BEGIN_TAG, INSIDE_TAG, END_TAG, SINGLE_TAG = range(len(TAG_LETTERS))
UNNAMED_TYPE = "_"  # entity type of a bare B, as in Chinese word segmentation


@dataclass(frozen=True)
class EntitySpans:
    """Entities of many concatenated sequences: start, end and type id of each."""

    start: np.ndarray
    end: np.ndarray
    type_id: np.ndarray
    is_valid: np.ndarray  # whether it is valid IOBES: from B to E, or S


def entity_f1(true: TagSequences, predicted: TagSequences) -> dict[str, Any]:
    """Entity metrics of IOBES sequences (or BIO, without meaningful strict metrics); span and type must both match.

    `precision`, `recall`, `f1`, `macro_f1` and `per_kind` follow conlleval and seqeval: an I after O or after another
    type starts an entity. The metrics in `strict` count only valid IOBES entities.
    """
    if [*map(len, true)] != [*map(len, predicted)]:
        raise InputError("the predicted sequences of tags are not as long as the true ones")
    tag_ids: dict[str, int] = {tag: tag_id for tag_id, tag in enumerate({"O"}.union(*true, *predicted))}
    split_tags = [split_tag(tag) for tag in tag_ids]
    entity_types = sorted({entity_type or UNNAMED_TYPE for letter, entity_type in split_tags if letter != "O"})
    type_ids = {entity_type: type_id for type_id, entity_type in enumerate(entity_types)}
    tag_codes = np.array([TAG_LETTERS.index(letter) for letter, _ in split_tags], np.int8)
    type_of_tag = np.array([type_ids.get(entity_type or UNNAMED_TYPE, -1) for _, entity_type in split_tags])
    flat_tags = (_flatten_tags(sequences, tag_ids, ("O",)) for sequences in (true, predicted))
    gold_entities, predicted_entities = (_entity_spans(tags, tag_codes, type_of_tag) for tags in flat_tags)
    lenient = _entity_metrics(_match_counts(gold_entities, predicted_entities, len(entity_types)), entity_types)
    valid_gold, valid_predicted = _valid_entities(gold_entities), _valid_entities(predicted_entities)
    strict = _entity_metrics(_match_counts(valid_gold, valid_predicted, len(entity_types)), entity_types)
    return {**lenient, "strict": strict, "sequences": len(true), "words": sum(map(len, true))}


def _flatten_tags(sequences: TagSequences, tag_ids: dict[str, int], separator: Sequence[str] = ()) -> np.ndarray:
    """The ids of all tags, with those of `separator` before each sequence and at the end."""
    tags = chain.from_iterable(chain(separator, tags) for tags in (*sequences, ()))
    return np.fromiter(map(tag_ids.__getitem__, tags), np.int64)


def _entity_spans(tag_sequence: np.ndarray, tag_codes: np.ndarray, type_of_tag: np.ndarray) -> EntitySpans:
    codes, types = tag_codes[tag_sequence], type_of_tag[tag_sequence]
    is_inside = codes == INSIDE_TAG
    may_continue, may_follow = is_inside | (codes == BEGIN_TAG), is_inside | (codes == END_TAG)
    continues = np.zeros(len(codes), bool)
    continues[1:] = may_continue[:-1] & may_follow[1:] & (types[:-1] == types[1:])
    boundaries = np.flatnonzero(~continues)  # starts of entities and of O tags; the last is the final O
    entity_starts = np.flatnonzero(codes[boundaries] != OUTSIDE_TAG)
    starts, ends = boundaries[entity_starts], boundaries[entity_starts + 1]
    is_valid = (codes[starts] == SINGLE_TAG) | ((codes[starts] == BEGIN_TAG) & (codes[ends - 1] == END_TAG))
    return EntitySpans(starts, ends, types[starts], is_valid)


def _valid_entities(entities: EntitySpans) -> EntitySpans:
    mask = entities.is_valid
    return EntitySpans(entities.start[mask], entities.end[mask], entities.type_id[mask], entities.is_valid[mask])


def _match_counts(gold: EntitySpans, predicted: EntitySpans, num_types: int) -> ClassCounts:
    """Match entities by their start; at most one entity starts at a position."""
    starts = gold.start, predicted.start
    _, gold_index, predicted_index = np.intersect1d(*starts, assume_unique=True, return_indices=True)
    has_same_end = gold.end[gold_index] == predicted.end[predicted_index]
    is_match = has_same_end & (gold.type_id[gold_index] == predicted.type_id[predicted_index])
    matched_types = (gold.type_id[gold_index[is_match]], predicted.type_id, gold.type_id)
    return ClassCounts(*(np.bincount(type_ids, minlength=num_types) for type_ids in matched_types))


def _entity_metrics(counts: ClassCounts, entity_types: Sequence[str]) -> dict[str, Any]:
    totals = ClassCounts(counts.hits.sum(), counts.num_predicted.sum(), counts.num_gold.sum())
    return {
        "precision": float(totals.precision),
        "recall": float(totals.recall),
        "f1": float(totals.f1),
        "macro_f1": counts.occurring().average_f1("macro"),
        "entities": int(totals.num_gold),
        "per_kind": counts.occurring().to_dict(list(compress(entity_types, counts.occurs))),
    }


# --- Accuracy of plain tags, such as parts of speech ---


def tagging_accuracy(true: TagSequences, predicted: TagSequences) -> dict[str, Any]:
    """Accuracy of words and of whole sentences, and metrics of each tag."""
    if [*map(len, true)] != [*map(len, predicted)]:
        raise InputError("the predicted sequences of tags are not as long as the true ones")
    names = sorted({*chain.from_iterable(true), *chain.from_iterable(predicted)})
    tag_ids = {name: index for index, name in enumerate(names)}
    gold_ids, predicted_ids = (_flatten_tags(sequences, tag_ids) for sequences in (true, predicted))
    is_right = gold_ids == predicted_ids
    counted_ids = (gold_ids[is_right], predicted_ids, gold_ids)
    counts = ClassCounts(*(np.bincount(ids, minlength=len(names)) for ids in counted_ids))
    num_exact = sum(tuple(gold) == tuple(tags) for gold, tags in zip(true, predicted, strict=True))
    return {
        "accuracy": float(is_right.mean()) if len(gold_ids) else 0.0,
        "sentence_accuracy": num_exact / len(true) if true else 0.0,
        "macro_f1": counts.average_f1("macro"),
        "per_kind": counts.to_dict(names),
        "sequences": len(true),
        "words": len(gold_ids),
    }


def unknown_word_accuracy(
    words: TagSequences, true: TagSequences, predicted: TagSequences, known_words: Collection[str]
) -> dict[str, Any]:
    """The number of out-of-vocabulary words (not in `known_words`, of the training data), and the accuracy on them."""
    words_with_tags = zip(*(chain.from_iterable(sequence) for sequence in (words, true, predicted)), strict=True)
    is_right = [gold == predicted_tag for word, gold, predicted_tag in words_with_tags if word not in known_words]
    return {"unknown_words": len(is_right), "accuracy_unknown": sum(is_right) / len(is_right) if is_right else None}


def oov_tagging_accuracy(
    examples: Sequence[Any], predictions: Sequence[Any], known_words: Collection[str]
) -> dict[str, Any]:
    """Accuracy on out-of-vocabulary words of tagged examples; unlabeled examples are ignored."""
    labeled = labeled_pairs(examples, predictions)
    words, true = [example.words for example, _ in labeled], [example.tags for example, _ in labeled]
    return unknown_word_accuracy(words, true, [prediction.tags for _, prediction in labeled], known_words)
