"""How good answers are: labels, several labels at once, and numbers, against what people said.

Labels are given as numbers into a list of names. Where a figure has nothing to divide by (a class that nobody
predicted, numbers that are all alike) it is 0.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal

import numpy as np

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
MOST_SHOWN = 200  # classes of which the table of confusions is worth its room


@dataclass(frozen=True)
class ClassCounts:
    """Of each class: how often it was said rightly, how often it was said at all, how often it was meant."""

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
        """Of all classes alike (macro), of all cases together (micro), or of classes by how often they are meant."""
        if average == "micro":
            return float(_ratio(2 * self.hits.sum(), self.num_predicted.sum() + self.num_gold.sum()))
        if average == "weighted":
            return float(_ratio((self.f1 * self.num_gold).sum(), self.num_gold.sum()))
        return float(self.f1.mean()) if len(self.f1) else 0.0

    def occurring(self) -> ClassCounts:
        """Without the classes that were neither said nor meant: they would lower a mean for nothing."""
        there = (self.num_predicted + self.num_gold) > 0
        return ClassCounts(self.hits[there], self.num_predicted[there], self.num_gold[there])

    def to_dict(self, names: Sequence[str]) -> dict[str, dict[str, Any]]:
        figures = zip(names, self.precision.tolist(), self.recall.tolist(), self.f1.tolist(), self.num_gold.tolist(),
                      strict=True)  # fmt: skip
        return {
            name: {"precision": precision, "recall": recall, "f1": f1, "support": int(support)}
            for name, precision, recall, f1, support in figures
        }


def classification_metrics(true: np.ndarray, predicted: np.ndarray, labels: Sequence[str]) -> dict[str, Any]:
    """One label a case. Means are over the classes that occur in either; rows of `confusion` are what was meant."""
    true, predicted = _ids(true, predicted, len(labels))
    counts = counted(true, predicted, len(labels))
    occurring = counts.occurring()
    return {
        "accuracy": accuracy(true, predicted),
        "macro_f1": occurring.average_f1("macro"),
        "micro_f1": occurring.average_f1("micro"),
        "weighted_f1": occurring.average_f1("weighted"),
        "mcc": matthews(counts, len(true)),
        "examples": len(true),
        "per_class": counts.to_dict(labels),
        "confusion": confusion(true, predicted, len(labels)).tolist() if len(labels) <= MOST_SHOWN else None,
    }


def multi_label_metrics(true: np.ndarray, predicted: np.ndarray, labels: Sequence[str]) -> dict[str, Any]:
    """Any number of labels a case, (N, L) yes or no. The macro mean is over all labels."""
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


def accuracy(true: np.ndarray, predicted: np.ndarray) -> float:
    return float(np.mean(np.asarray(true) == np.asarray(predicted)))


def confusion(true: np.ndarray, predicted: np.ndarray, classes: int) -> np.ndarray:
    """(classes, classes) how often what was meant (the row) was taken for what (the column)."""
    true, predicted = _ids(true, predicted, classes)
    return np.bincount(true * classes + predicted, minlength=classes * classes).reshape(classes, classes)


def counted(true: np.ndarray, predicted: np.ndarray, classes: int) -> ClassCounts:
    true, predicted = _ids(true, predicted, classes)
    hits = np.bincount(true[true == predicted], minlength=classes)
    return ClassCounts(hits, np.bincount(predicted, minlength=classes), np.bincount(true, minlength=classes))


def matthews(counts: ClassCounts, cases: int) -> float:
    """Matthews' correlation of what was said and what was meant, for any number of classes: 1 right, 0 by chance."""
    # In floating numbers: the fourth power of a million cases is more than 64 bits hold.
    said, meant, every = counts.num_predicted.astype(float), counts.num_gold.astype(float), float(cases)
    together = counts.hits.sum() * every - said @ meant
    alone = (every**2 - said @ said) * (every**2 - meant @ meant)
    return float(together / np.sqrt(alone)) if alone > 0 else 0.0


def _ratio(part: Any, whole: Any) -> np.ndarray:
    return np.divide(part, whole, out=np.zeros(np.shape(part)), where=np.asarray(whole) != 0)


def _ids(true: np.ndarray, predicted: np.ndarray, classes: int) -> tuple[np.ndarray, np.ndarray]:
    true, predicted = np.asarray(true), np.asarray(predicted)
    require_same_length(true, predicted)
    for ids in (true, predicted):
        if ids.dtype.kind not in "iu" or ids.min() < 0 or ids.max() >= classes:
            raise InputError(f"a label that is none of the numbers 0 to {classes - 1}")
    return true.astype(np.int64, copy=False), predicted.astype(np.int64, copy=False)


# How well a question was answered: exact match and F1 as SQuAD defines them, and for Chinese as CMRC 2018 does.


Language = Literal["english", "chinese"]

ARTICLES = re.compile(r"\b(?:a|an|the)\b")
WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)
# Just these, and no others, are removed by CMRC 2018's script (whose …… never matches, as it looks at one character).
CMRC_PUNCTUATION = str.maketrans("", "", "-:_*^/\\~`+=，。：？！“”；’《》·、「」（）－～『』")
CMRC_HAN = "\u4e00-\u9fa5"
# Between Chinese characters, words as in the Penn Treebank, which that script asks NLTK for: marks stand alone, but not
# a comma before a digit, nor a full stop or an apostrophe inside; 's and n't are words of their own.
MARKS = r";@#$%&?!\[\](){}<>\"–—―‘"
SHORTENED = r"(?:'(?:s|m|d|ll|re|ve)|n't)(?!\w)"
LAST = rf"(?=[\])}}>\"'”’\s]*(?:$|[{CMRC_HAN}]))"  # nothing but closing marks until the end, or the next Chinese one
INSIDE = rf"[^\s{CMRC_HAN}{MARKS},.']|,(?=\d)|(?<!\.)\.(?!\.|{LAST})|(?<=\w)'(?=\w)"
WORD = re.compile(rf"[{CMRC_HAN}]|{SHORTENED}|\.\.+|[{MARKS}]|(?:(?!{SHORTENED})(?:{INSIDE}))+|[,.']")


def answer_scores(
    golds: Sequence[Sequence[str]], predicted: Sequence[str], language: Language | None = None
) -> dict[str, Any]:
    """Shares from 0 to 1 over all questions, and apart over those that have an answer and those that have none.

    golds     the answers that people gave to each question; none if it has no answer, which "" then matches
    language  whose definition is asked for; by itself, Chinese if more than half of the golds' text is
    """
    if len(golds) != len(predicted):
        raise InputError(f"{len(predicted)} answers to {len(golds)} questions")
    if not golds:
        raise InputError("there are no questions to measure with", hint="give at least one")
    chosen = language or answer_language(golds)
    scores = np.array([answer_score(gold, text, chosen) for gold, text in zip(golds, predicted, strict=True)])
    answered = np.array([bool(gold) for gold in golds])
    facts = {**_means(scores), "language": chosen}
    for name, which in (("has_answer", answered), ("no_answer", ~answered)):
        if which.any():
            facts[name] = _means(scores[which])
    return facts


def best_no_answer_threshold(golds: Sequence[Sequence[str]], predicted: Sequence[str], gaps: Sequence[float]) -> float:
    """How large a gap has to be before nothing is answered, so that F1 is best; of several such, the nearest to 0.

    predicted  what would be answered
    gaps       how much likelier it seems that there is no answer
    """
    language = answer_language(golds)
    gains = [
        answer_score(gold, "", language)[1] - answer_score(gold, text, language)[1]
        for gold, text in zip(golds, predicted, strict=True)
    ]
    order = np.argsort(gaps, kind="stable")
    wide = np.asarray(gaps, float)[order]
    edges = np.concatenate([wide[:1] - 1, (wide[1:] + wide[:-1]) / 2, wide[-1:] + 1])
    totals = np.append(np.cumsum(np.array(gains)[order][::-1])[::-1], 0.0)  # gained with each edge as the threshold
    best = totals >= totals.max() - 1e-9
    if best[np.searchsorted(wide, 0.0, side="right")]:
        return 0.0
    return float(edges[best][np.abs(edges[best]).argmin()])


def answer_score(golds: Sequence[str], predicted: str, language: Language) -> tuple[float, float]:
    """(exact match, F1) of an answer: the best that it has with any of the golds."""
    plain, overlap = (plain_chinese, chinese_f1) if language == "chinese" else (plain_english, english_f1)
    wanted = [gold for gold in golds if plain(gold)] or [""]
    exact = plain(predicted) in [plain(gold) for gold in wanted]
    return float(exact), max(overlap(gold, predicted) for gold in wanted)


def answer_language(golds: Sequence[Sequence[str]]) -> Language:
    """By what the golds say: a Chinese character counts as much as a Latin word."""
    text = "".join(answer for gold in golds for answer in gold)
    _, counts = count_classes(code_points(text, surrogates="keep"), [len(text)])
    han, latin = int(counts[0, CLASS_IDS["Han"]]), int(counts[0, CLASS_IDS["Latin"]])
    return "chinese" if han * MEAN_WORD_LENGTH > latin else "english"


def plain_english(text: str) -> str:
    """SQuAD's normal form: in small letters, without punctuation and articles, single spaces."""
    return " ".join(ARTICLES.sub(" ", text.lower().translate(WITHOUT_PUNCTUATION)).split())


def english_f1(gold: str, predicted: str) -> float:
    """Of the words that both have, in any order."""
    wanted, given = plain_english(gold).split(), plain_english(predicted).split()
    return _f1((Counter(wanted) & Counter(given)).total(), wanted, given)


def plain_chinese(text: str) -> str:
    """CMRC 2018's normal form: in small letters, without punctuation; white space inside stays."""
    return text.lower().strip().translate(CMRC_PUNCTUATION)


def chinese_f1(gold: str, predicted: str) -> float:
    """Of the longest run of Chinese characters and Latin words that both have."""
    wanted, given = WORD.findall(plain_chinese(gold)), WORD.findall(plain_chinese(predicted))
    return _f1(longest_common(wanted, given), wanted, given)


def longest_common(left: Sequence[str], right: Sequence[str]) -> int:
    """The length of the longest run that stands in both; as fast as there are few words that both have."""
    places: dict[str, list[int]] = {}
    for place, word in enumerate(right):
        places.setdefault(word, []).append(place)
    longest, runs = 0, {}  # by the place in `right` where they end, those that end with the word before
    for word in left:
        runs = {place: runs.get(place - 1, 0) + 1 for place in places.get(word, ())}
        longest = max(longest, *runs.values(), 0)
    return longest


def _f1(common: int, wanted: Sequence[str], given: Sequence[str]) -> float:
    if not wanted or not given:
        return float(not wanted and not given)
    return 2 * common / (len(wanted) + len(given))


def _means(scores: np.ndarray) -> dict[str, Any]:
    exact, f1 = scores.mean(0).tolist()
    return {"exact_match": exact, "f1": f1, "questions": len(scores)}


# Whether a model is right as often as it says: reliability, calibration error, and the temperature that mends it.
#
# Everywhere targets decide what the logits (N, C) are: (N,) numbers of classes, of which one is right (softmax), or
# (N, C) yes or no, each class by itself (sigmoid).


BINS = 10
COLDEST, HOTTEST = 0.05, 20.0  # what is all right, or all wrong, has no best temperature
MIN_CALIBRATION_EXAMPLES = 50  # cases that say nothing about how sure a model may be
COLD, HOT = 0.2, 5.0  # temperatures beyond these are an accident of the cases
CLOSE_ENOUGH, MOST_STEPS = 1e-9, 200


def calibration(logits: np.ndarray, targets: np.ndarray, temperature: float = 1.0) -> dict[str, Any]:
    """What is known of a model's confidence: calibration error, log-loss in nats, Brier's score, and the bins.

    With softmax an answer's confidence is that of its best class; with sigmoid each class of each case counts.
    """
    logits, targets = _checked(logits, targets)
    probable = probabilities(logits, is_sigmoid=targets.ndim == 2, temperature=temperature)
    if targets.ndim == 2:
        confidence, right = probable.ravel(), targets.ravel()
    else:
        confidence, right = probable.max(1), probable.argmax(1) == targets
    bins = reliability(confidence, right)
    return {
        "calibration_error": calibration_error(bins),
        "log_loss": log_loss(logits, targets, temperature),
        "brier": brier(probable, targets),
        "temperature": float(temperature),
        "bins": bins,
    }


def reliability(confidence: np.ndarray, right: np.ndarray, bins: int = BINS) -> list[dict[str, Any]]:
    """Answers by confidence, in bins of equal width, upper ends included: how sure, and how often right, on average."""
    confidence, right = np.asarray(confidence, np.float64), np.asarray(right, np.float64)
    edges = np.arange(1, bins) / bins
    which = np.searchsorted(edges, confidence, side="left")
    count = np.bincount(which, minlength=bins)
    some = np.maximum(count, 1)
    sure = np.bincount(which, confidence, minlength=bins) / some
    often = np.bincount(which, right, minlength=bins) / some
    return [
        {"from": place / bins, "to": (place + 1) / bins, "count": int(count[place])}
        | ({"confidence": float(sure[place]), "accuracy": float(often[place])} if count[place] else {})
        for place in range(bins)
    ]


def calibration_error(bins: list[dict[str, Any]]) -> float:
    """The distance between confidence and accuracy, over all answers (expected calibration error)."""
    total = sum(one["count"] for one in bins)
    return sum(one["count"] * abs(one["confidence"] - one["accuracy"]) for one in bins if one["count"]) / max(total, 1)


def log_loss(logits: np.ndarray, targets: np.ndarray, temperature: float = 1.0) -> float:
    """−ln of the probability of what is true: a mean over cases, with sigmoid over every class of every case."""
    logits, targets = _checked(logits, targets)
    scaled = logits / temperature
    if targets.ndim == 2:
        return float(np.mean(np.logaddexp(0.0, np.where(targets, -scaled, scaled))))
    return float(np.mean(-log_softmax(scaled)[np.arange(len(targets)), targets]))


def brier(probable: np.ndarray, targets: np.ndarray) -> float:
    """The squared distance of probabilities to the truth: summed over classes (softmax), or a mean of all (sigmoid)."""
    targets = np.asarray(targets)
    if targets.ndim == 2:
        return float(np.mean((probable - targets) ** 2))
    meant = np.asarray(probable)[np.arange(len(targets)), targets]
    return float(np.mean((np.square(probable)).sum(1) - 2 * meant + 1))


def probabilities(logits: np.ndarray, *, is_sigmoid: bool = False, temperature: float = 1.0) -> np.ndarray:
    scaled = np.asarray(logits, np.float64) / temperature
    return sigmoid(scaled) if is_sigmoid else softmax(scaled)


def fit_temperature(logits: np.ndarray, targets: np.ndarray) -> float:
    """The best temperature, as far as these cases can be trusted; 1 where they are too few."""
    return 1.0 if len(targets) < MIN_CALIBRATION_EXAMPLES else min(max(temperature(logits, targets), COLD), HOT)


def temperature(logits: np.ndarray, targets: np.ndarray) -> float:
    """By what to divide the logits so that the log-loss of these cases is least, from COLDEST to HOTTEST.

    Give cases from which nothing was learned. 1 where every temperature is as good.
    """
    logits, targets = _checked(logits, targets)
    if not (logits.any() if targets.ndim == 2 else np.ptp(logits, axis=1).any()):
        return 1.0
    # The loss has no dents as a function of 1/T: its slope only rises, so that its zero is shut in from both sides.
    low, high = 1 / HOTTEST, 1 / COLDEST
    if _slope(logits, targets, low)[0] >= 0:
        return HOTTEST
    if _slope(logits, targets, high)[0] <= 0:
        return COLDEST
    at = 1.0
    for _ in range(MOST_STEPS):
        slope, curve = _slope(logits, targets, at)
        low, high = (at, high) if slope < 0 else (low, at)
        step = at - slope / curve if curve > 0 else low
        nearer = step if low < step < high else (low * high) ** 0.5  # Newton's step, or the middle of what is left
        if abs(nearer - at) <= CLOSE_ENOUGH * at:
            return 1 / nearer
        at = nearer
    return 1 / at


def _slope(logits: np.ndarray, targets: np.ndarray, cold: float) -> tuple[float, float]:
    """The log-loss's first and second derivative by 1/T, where that is `cold`."""
    if targets.ndim == 2:
        probable = sigmoid(logits * cold)
        return float(np.mean(logits * (probable - targets))), float(np.mean(logits**2 * probable * (1 - probable)))
    probable = probabilities(logits * cold)
    mean = (probable * logits).sum(1)
    spread = (probable * (logits - mean[:, None]) ** 2).sum(1)
    return float(np.mean(mean - logits[np.arange(len(targets)), targets])), float(np.mean(spread))


def _checked(logits: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    logits, targets = np.asarray(logits, np.float64), np.asarray(targets)
    if logits.ndim != 2 or targets.shape not in (logits.shape, logits.shape[:1]) or not len(logits):
        raise InputError(f"logits of the shape {logits.shape} for targets of the shape {targets.shape}")
    if not np.isfinite(logits).all():
        raise InputError("logits that are infinite or no numbers cannot be calibrated")
    return logits, targets


# How many entities a tagger finds: precision, recall and F1 of whole entities, read leniently and strictly.


LETTERS = "OBIES"
OUTSIDE, BEGIN, ENTITIES_METRIC_INSIDE, END, SINGLE = range(len(LETTERS))
UNNAMED = "_"  # the kind of a bare B, as of Chinese words


@dataclass(frozen=True)
class EntitySpans:
    """Entities of many sequences, laid one after the other: where each begins and ends, and the number of its kind."""

    first: np.ndarray
    end: np.ndarray
    kind: np.ndarray
    is_whole: np.ndarray  # written as IOBES demands: from B to E, or S


def entity_f1(true: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> dict[str, Any]:
    """Of sequences in IOBES (or in BIO, whose strict figures mean nothing): right are first, last and kind together.

    `precision`, `recall`, `f1`, `macro_f1` and `per_kind` read as conlleval and seqeval do: an I after O or after
    another kind begins an entity. Those in `strict` count what is written as IOBES demands and nothing else.
    """
    if [*map(len, true)] != [*map(len, predicted)]:
        raise InputError("the predicted sequences of tags are not as long as the true ones")
    numbers: dict[str, int] = {tag: number for number, tag in enumerate({"O"}.union(*true, *predicted))}
    parts = [split_tag(tag) for tag in numbers]
    kinds = sorted({kind or UNNAMED for letter, kind in parts if letter != "O"})
    places = {kind: number for number, kind in enumerate(kinds)}
    codes = np.array([LETTERS.index(letter) for letter, _ in parts], np.int8)
    kind_of = np.array([places.get(kind or UNNAMED, -1) for _, kind in parts])
    meant, said = (_found(_laid_out(sequences, numbers), codes, kind_of) for sequences in (true, predicted))
    words = sum(map(len, true))
    lenient = _facts(_counts(meant, said, len(kinds)), kinds)
    strict = _facts(_counts(_whole(meant), _whole(said), len(kinds)), kinds)
    return {**lenient, "strict": strict, "sequences": len(true), "words": words}


def _laid_out(sequences: Sequence[Sequence[str]], numbers: dict[str, int]) -> np.ndarray:
    """The numbers of all tags, with an O before each sequence and one at the end."""
    tags = chain.from_iterable(chain(("O",), tags) for tags in (*sequences, ()))
    return np.fromiter(map(numbers.__getitem__, tags), np.int64)


def _found(laid_out: np.ndarray, codes: np.ndarray, kind_of: np.ndarray) -> EntitySpans:
    code, kind = codes[laid_out], kind_of[laid_out]
    goes_on = np.zeros(len(code), bool)
    goes_on[1:] = ((code[:-1] == BEGIN) | (code[:-1] == ENTITIES_METRIC_INSIDE)) & (
        (code[1:] == ENTITIES_METRIC_INSIDE) | (code[1:] == END)
    )
    goes_on[1:] &= kind[:-1] == kind[1:]
    borders = np.flatnonzero(~goes_on)  # where anything begins: an entity or an O; the last is the O at the end
    begins = np.flatnonzero(code[borders] != OUTSIDE)
    first, end = borders[begins], borders[begins + 1]
    is_whole = (code[first] == SINGLE) | ((code[first] == BEGIN) & (code[end - 1] == END))
    return EntitySpans(first, end, kind[first], is_whole)


def _whole(found: EntitySpans) -> EntitySpans:
    keep = found.is_whole
    return EntitySpans(found.first[keep], found.end[keep], found.kind[keep], found.is_whole[keep])


def _counts(meant: EntitySpans, said: EntitySpans, kinds: int) -> ClassCounts:
    """At most one entity begins at a place, so that two are compared where both readings have one."""
    _, left, right = np.intersect1d(meant.first, said.first, assume_unique=True, return_indices=True)
    same = (meant.end[left] == said.end[right]) & (meant.kind[left] == said.kind[right])
    every = (meant.kind[left[same]], said.kind, meant.kind)
    return ClassCounts(*(np.bincount(some, minlength=kinds) for some in every))


def _facts(counts: ClassCounts, kinds: Sequence[str]) -> dict[str, Any]:
    total = ClassCounts(*(np.array([some.sum()]) for some in (counts.hits, counts.num_predicted, counts.num_gold)))
    there = (counts.num_predicted + counts.num_gold) > 0
    named = [kind for kind, is_there in zip(kinds, there, strict=True) if is_there]
    return {
        "precision": float(total.precision[0]),
        "recall": float(total.recall[0]),
        "f1": float(total.f1[0]),
        "macro_f1": counts.occurring().average_f1("macro"),
        "entities": int(counts.num_gold.sum()),
        "per_kind": counts.occurring().to_dict(named),
    }


# How often a tagger is right, word by word: for tags that stand for themselves, such as parts of speech.


def tagging_accuracy(true: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> dict[str, Any]:
    """`accuracy` of words, `sentence_accuracy` of sentences without any mistake, and each tag by itself."""
    if [*map(len, true)] != [*map(len, predicted)]:
        raise InputError("the predicted sequences of tags are not as long as the true ones")
    names = sorted({*chain.from_iterable(true), *chain.from_iterable(predicted)})
    numbers = {name: number for number, name in enumerate(names)}
    meant, said = (_words_metric_numbers(sequences, numbers) for sequences in (true, predicted))
    counts = ClassCounts(*(np.bincount(some, minlength=len(names)) for some in (meant[meant == said], said, meant)))
    whole = sum(tuple(one) == tuple(other) for one, other in zip(true, predicted, strict=True))
    return {
        "accuracy": float((meant == said).mean()) if len(meant) else 0.0,
        "sentence_accuracy": whole / len(true) if true else 0.0,
        "macro_f1": counts.occurring().average_f1("macro") if names else 0.0,
        "per_kind": counts.occurring().to_dict(names),
        "sequences": len(true),
        "words": len(meant),
    }


def of_unknown(
    words: Sequence[Sequence[str]],
    true: Sequence[Sequence[str]],
    predicted: Sequence[Sequence[str]],
    known: Collection[str],
) -> dict[str, Any]:
    """The same of words that are not among those `known`, the training examples' own: how many, and how often right."""
    every = zip(*(chain.from_iterable(one) for one in (words, true, predicted)), strict=True)
    right = [meant == said for word, meant, said in every if word not in known]
    return {"unknown_words": len(right), "accuracy_unknown": sum(right) / len(right) if right else None}


def oov_tagging_accuracy(examples: Sequence[Any], answers: Sequence[Any], known: Collection[str]) -> dict[str, Any]:
    """The same of tagged sentences and of what was said of them; those without tags do not count."""
    both = [(one, answer) for one, answer in zip(examples, answers, strict=True) if one.tags is not None]
    words, true = [one.words for one, _ in both], [one.tags for one, _ in both]
    return of_unknown(words, true, [answer.tags for _, answer in both], known)


def _words_metric_numbers(sequences: Sequence[Sequence[str]], numbers: dict[str, int]) -> np.ndarray:
    return np.fromiter(map(numbers.__getitem__, chain.from_iterable(sequences)), np.int64)
