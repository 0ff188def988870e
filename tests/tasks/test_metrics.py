"""Metrics of labels, label sets, numbers and entities against scikit-learn, scipy and seqeval, also in edge cases."""

from __future__ import annotations

import json
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy import stats
from seqeval.metrics import classification_report
from seqeval.scheme import IOBES
from sklearn import metrics as peer

from forebear.errors import InputError
from forebear.tasks.metrics import (
    MAX_CONFUSION_CLASSES,
    class_counts_from_ids,
    classification_metrics,
    confusion,
    entity_f1,
    multi_label_metrics,
    pearson,
    regression_metrics,
    spearman,
)

pytestmark = [  # warnings of the peers in edge cases; in our own metrics every warning is an error
    pytest.mark.filterwarnings("ignore:A single label was found"),
    pytest.mark.filterwarnings("ignore:Mean of empty slice"),
    pytest.mark.filterwarnings("ignore:invalid value encountered"),
]
NAMES = ["好", "bad", "so-so", "none"]
label_pairs = st.integers(1, 30).flatmap(
    lambda size: st.tuples(*(arrays.arrays(np.int64, size, elements=st.integers(0, 3)) for _ in range(2)))
)
label_set_pairs = st.integers(1, 12).flatmap(
    lambda size: st.tuples(*(arrays.arrays(bool, (size, 4)) for _ in range(2)))
)
# Few different values, so that there are ties; no subnormal ones, which no peer can square.
values = st.sampled_from([0.0, 1.0, 2.5, -3.0, 1e6, 0.1, 0.30000000000000004, 0.3]) | st.floats(-1e3, 1e3).filter(
    lambda number: not 0 < abs(number) < 1e-3
)
number_pairs = st.integers(2, 30).flatmap(
    lambda size: st.tuples(*(arrays.arrays(np.float64, size, elements=values) for _ in range(2)))
)


def is_flat(numbers) -> bool:
    return numbers.min() == numbers.max()


@settings(max_examples=40)
@given(label_pairs)
def test_classification_metrics_equal_scikit_learns(pair):
    true, predicted = pair
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        metrics = classification_metrics(true, predicted, NAMES)
    assert metrics["accuracy"] == pytest.approx(peer.accuracy_score(true, predicted), abs=1e-12)
    for average in ("macro", "micro", "weighted"):
        expected = peer.f1_score(true, predicted, average=average, zero_division=0)
        assert metrics[f"{average}_f1"] == pytest.approx(expected, abs=1e-12)
    assert metrics["mcc"] == pytest.approx(peer.matthews_corrcoef(true, predicted), abs=1e-12)
    class_ids = range(len(NAMES))
    assert metrics["confusion"] == peer.confusion_matrix(true, predicted, labels=class_ids).tolist()
    by_class = peer.precision_recall_fscore_support(true, predicted, labels=class_ids, zero_division=0)
    for name, *values in zip(NAMES, *by_class, strict=True):
        assert [*metrics["per_class"][name].values()] == pytest.approx(values, abs=1e-12)
    assert json.loads(json.dumps(metrics)) == metrics


@settings(max_examples=40)
@given(label_set_pairs)
def test_multi_label_metrics_equal_scikit_learns(pair):
    true, predicted = pair
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        metrics = multi_label_metrics(true, predicted, NAMES)
    assert metrics["exact_match"] == pytest.approx(peer.accuracy_score(true, predicted), abs=1e-12)
    for average in ("macro", "micro", "weighted"):
        expected = peer.f1_score(true, predicted, average=average, zero_division=0)
        assert metrics[f"{average}_f1"] == pytest.approx(expected, abs=1e-12)
    by_class = peer.precision_recall_fscore_support(true, predicted, zero_division=0)
    for name, *values in zip(NAMES, *by_class, strict=True):
        assert [*metrics["per_class"][name].values()] == pytest.approx(values, abs=1e-12)


@settings(max_examples=40)
@given(number_pairs)
def test_regression_metrics_equal_scipys(pair):
    true, predicted = pair
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        metrics = regression_metrics(true, predicted)
    assert metrics["rmse"] == pytest.approx(np.sqrt(peer.mean_squared_error(true, predicted)), rel=1e-12)
    assert metrics["mae"] == pytest.approx(peer.mean_absolute_error(true, predicted), rel=1e-12)
    if is_flat(true) or is_flat(predicted):
        assert metrics["pearson"] == metrics["spearman"] == 0
        return
    assert metrics["spearman"] == pytest.approx(stats.spearmanr(true, predicted).statistic, abs=1e-12)
    if min(np.ptp(true) / abs(true).max(), np.ptp(predicted) / abs(predicted).max()) > 1e-3:
        assert metrics["pearson"] == pytest.approx(stats.pearsonr(true, predicted).statistic, abs=1e-12)


def test_correlations_of_huge_tiny_and_nearly_equal_numbers():
    ramp = np.arange(5.0)
    for numbers in (ramp * 1e300, ramp * 1e-300, 1 + ramp * 2**-52, -ramp * 1e300 + 1):
        assert abs(pearson(ramp, numbers)) == pytest.approx(1, abs=1e-12)
    assert pearson(np.full(3, 0.1), ramp[:3]) == 0  # its mean is not exactly 0.1
    assert spearman([1, 2, 2, 3], [1, 3, 2, 4]) == pytest.approx(np.sqrt(0.9))  # by hand: ranks 1 2.5 2.5 4
    assert pearson([1.0], [2.0]) == 0


def test_classification_metrics_of_a_single_class():
    metrics = classification_metrics(np.zeros(3, int), np.zeros(3, int), ["a", "b"])
    assert (metrics["accuracy"], metrics["macro_f1"], metrics["mcc"]) == (1, 1, 0)
    assert metrics["per_class"]["b"] == {"precision": 0, "recall": 0, "f1": 0, "support": 0}
    metrics_of_missed_class = classification_metrics(np.array([0, 0, 1]), np.array([0, 0, 0]), ["a", "b"])
    assert metrics_of_missed_class["per_class"]["b"] == {"precision": 0, "recall": 0, "f1": 0, "support": 1}
    assert metrics_of_missed_class["macro_f1"] == pytest.approx(0.4)


def test_metrics_of_a_million_predictions_take_less_than_a_second():
    rng = np.random.default_rng(0)
    true, predicted = rng.integers(0, 50, (2, 1_000_000))
    start_time = time.process_time()
    metrics = classification_metrics(true, predicted, [str(index) for index in range(50)])
    regression = regression_metrics(true, predicted)
    assert time.process_time() - start_time < 1
    assert metrics["mcc"] == pytest.approx(peer.matthews_corrcoef(true, predicted), abs=1e-12)
    assert regression["spearman"] == pytest.approx(stats.spearmanr(true, predicted).statistic, abs=1e-12)


def test_many_classes_have_no_confusion_matrix():
    names = [str(index) for index in range(MAX_CONFUSION_CLASSES + 1)]
    metrics = classification_metrics(np.arange(9), np.arange(9), names)
    assert metrics["confusion"] is None
    assert metrics["macro_f1"] == 1


@pytest.mark.parametrize(
    ("measure", "message"),
    [
        (lambda: classification_metrics(np.array([0, 1]), np.array([0]), NAMES), "answers to"),
        (lambda: classification_metrics(np.array([0, 4]), np.array([0, 1]), NAMES), "none of the numbers 0 to 3"),
        (lambda: classification_metrics(np.array([0.0]), np.array([0.0]), NAMES), "none of the numbers"),
        (lambda: class_counts_from_ids(np.array([-1]), np.array([0]), 2), "none of the numbers"),
        (lambda: confusion(np.array([], int), np.array([], int), 2), "no examples"),
        (lambda: multi_label_metrics(np.zeros((2, 3)), np.zeros((2, 4)), NAMES), "shape"),
        (lambda: multi_label_metrics(np.zeros((0, 4)), np.zeros((0, 4)), NAMES), "no examples"),
        (lambda: regression_metrics([1.0, np.nan], [1.0, 2.0]), "no number at all"),
        (lambda: entity_f1([["O"]], [["O", "O"]]), "not as long"),
        (lambda: entity_f1([["O"]], [["M-X"]]), "'M-X' is no tag of IOBES"),
        (lambda: entity_f1([["O-X"]], [["O"]]), "'O-X' is no tag of IOBES"),
    ],
)
def test_metrics_refuse_invalid_predictions(measure, message):
    with pytest.raises(InputError, match=message):
        measure()


# --- entities ---

TAGS = ["O", *(f"{letter}-{kind}" for letter in "BIES" for kind in ("PER", "my-kind", "地名")), "B", "I", "E", "S"]
tag_sequence_pairs = st.lists(
    st.integers(0, 8).flatmap(
        lambda size: st.tuples(*(st.lists(st.sampled_from(TAGS), min_size=size, max_size=size) for _ in range(2)))
    ),
    min_size=1,
    max_size=4,
)


def seqeval_report(true, predicted, **options):
    return classification_report(true, predicted, output_dict=True, zero_division=0, **options)


def assert_equals_seqeval(metrics, report) -> None:
    """Checks our metrics against seqeval's, in total and for each entity type."""
    averages = {name: report.pop(name) for name in [*report] if name.endswith(" avg")}
    assert {*metrics["per_kind"]} == {*report}
    for kind, values in metrics["per_kind"].items():
        assert [*values.values()] == pytest.approx([*report[kind].values()], abs=1e-12)
    if not report:
        assert (metrics["precision"], metrics["recall"], metrics["f1"], metrics["macro_f1"]) == (0, 0, 0, 0)
        return
    micro = [metrics[name] for name in ("precision", "recall", "f1", "entities")]
    assert micro == pytest.approx([*averages["micro avg"].values()], abs=1e-12)
    assert metrics["macro_f1"] == pytest.approx(averages["macro avg"]["f1-score"], abs=1e-12)


def report_or_empty(true, predicted, **options):
    """seqeval's report; empty where it fails because there are no entities."""
    try:
        return seqeval_report(true, predicted, **options)
    except ValueError:
        return {}


@given(tag_sequence_pairs)
def test_entity_f1_equals_seqevals_also_for_invalid_tags(pairs):
    true, predicted = ([list(tags) for tags in column] for column in zip(*pairs, strict=True))
    metrics = entity_f1(true, predicted)
    assert_equals_seqeval(metrics, report_or_empty(true, predicted))
    assert_equals_seqeval(metrics["strict"], report_or_empty(true, predicted, mode="strict", scheme=IOBES))
    assert json.loads(json.dumps(metrics)) == metrics


def test_entity_f1_by_hand():
    true = ["B-PER I-PER E-PER O S-LOC".split(), ["O", "S-PER"]]
    predicted = ["B-PER I-PER I-PER O S-LOC".split(), ["B-PER", "E-PER"]]
    metrics = entity_f1(true, predicted)
    assert (metrics["precision"], metrics["recall"], metrics["f1"]) == (2 / 3, 2 / 3, 2 / 3)
    assert metrics["per_kind"]["LOC"] == {"precision": 1, "recall": 1, "f1": 1, "support": 1}
    assert (metrics["strict"]["precision"], metrics["strict"]["recall"]) == (1 / 2, 1 / 3)  # the first has no end tag
    assert (metrics["entities"], metrics["sequences"], metrics["words"]) == (3, 2, 7)
    assert entity_f1([], [])["f1"] == 0


def test_entity_f1_of_wnut_is_faster_than_seqeval(data: Path):
    true: list[list[str]] = [[]]
    for line in (data / "tasks/wnut17/wnut17train.conll").read_text(encoding="utf-8").splitlines():
        true[-1].append(line.split("\t")[1]) if line.strip() else true.append([])
    tag_set = sorted({tag for tags in true for tag in tags})
    rng = np.random.default_rng(0)
    predicted = [[rng.choice(tag_set) if rng.random() < 0.1 else tag for tag in tags] for tags in true]
    start_time = time.process_time()
    metrics = entity_f1(true, predicted)
    our_time = time.process_time() - start_time
    start_time = time.process_time()
    report = seqeval_report(true, predicted)
    assert 3 * our_time < time.process_time() - start_time
    assert_equals_seqeval(metrics, report)
