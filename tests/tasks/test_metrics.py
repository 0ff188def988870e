"""Figures of labels, label sets, numbers and entities against scikit-learn, scipy and seqeval, also at the edges."""

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

pytestmark = [  # what the peers say about edges; our own figures are taken with every warning an error
    pytest.mark.filterwarnings("ignore:A single label was found"),
    pytest.mark.filterwarnings("ignore:Mean of empty slice"),
    pytest.mark.filterwarnings("ignore:invalid value encountered"),
]
NAMES = ["好", "bad", "so-so", "none"]
labels = st.integers(1, 30).flatmap(
    lambda size: st.tuples(*(arrays.arrays(np.int64, size, elements=st.integers(0, 3)) for _ in range(2)))
)
sets = st.integers(1, 12).flatmap(lambda size: st.tuples(*(arrays.arrays(bool, (size, 4)) for _ in range(2))))
# Few different values, so that there are ties; no subnormal ones, whose squares no peer can take.
values = st.sampled_from([0.0, 1.0, 2.5, -3.0, 1e6, 0.1, 0.30000000000000004, 0.3]) | st.floats(-1e3, 1e3).filter(
    lambda number: not 0 < abs(number) < 1e-3
)
series = st.integers(2, 30).flatmap(
    lambda size: st.tuples(*(arrays.arrays(np.float64, size, elements=values) for _ in range(2)))
)


def is_flat(numbers) -> bool:
    return numbers.min() == numbers.max()


@settings(max_examples=40)
@given(labels)
def test_labels_equal_scikit_learn(pair):
    true, predicted = pair
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = classification_metrics(true, predicted, NAMES)
    assert found["accuracy"] == pytest.approx(peer.accuracy_score(true, predicted), abs=1e-12)
    for average in ("macro", "micro", "weighted"):
        wanted = peer.f1_score(true, predicted, average=average, zero_division=0)
        assert found[f"{average}_f1"] == pytest.approx(wanted, abs=1e-12)
    assert found["mcc"] == pytest.approx(peer.matthews_corrcoef(true, predicted), abs=1e-12)
    every = range(len(NAMES))
    assert found["confusion"] == peer.confusion_matrix(true, predicted, labels=every).tolist()
    by_class = peer.precision_recall_fscore_support(true, predicted, labels=every, zero_division=0)
    for name, *figures in zip(NAMES, *by_class, strict=True):
        assert [*found["per_class"][name].values()] == pytest.approx(figures, abs=1e-12)
    assert json.loads(json.dumps(found)) == found


@settings(max_examples=40)
@given(sets)
def test_label_sets_equal_scikit_learn(pair):
    true, predicted = pair
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = multi_label_metrics(true, predicted, NAMES)
    assert found["exact_match"] == pytest.approx(peer.accuracy_score(true, predicted), abs=1e-12)
    for average in ("macro", "micro", "weighted"):
        wanted = peer.f1_score(true, predicted, average=average, zero_division=0)
        assert found[f"{average}_f1"] == pytest.approx(wanted, abs=1e-12)
    by_class = peer.precision_recall_fscore_support(true, predicted, zero_division=0)
    for name, *figures in zip(NAMES, *by_class, strict=True):
        assert [*found["per_class"][name].values()] == pytest.approx(figures, abs=1e-12)


@settings(max_examples=40)
@given(series)
def test_numbers_equal_scipy(pair):
    true, predicted = pair
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = regression_metrics(true, predicted)
    assert found["rmse"] == pytest.approx(np.sqrt(peer.mean_squared_error(true, predicted)), rel=1e-12)
    assert found["mae"] == pytest.approx(peer.mean_absolute_error(true, predicted), rel=1e-12)
    if is_flat(true) or is_flat(predicted):
        assert found["pearson"] == found["spearman"] == 0
        return
    assert found["spearman"] == pytest.approx(stats.spearmanr(true, predicted).statistic, abs=1e-12)
    if min(np.ptp(true) / abs(true).max(), np.ptp(predicted) / abs(predicted).max()) > 1e-3:
        assert found["pearson"] == pytest.approx(stats.pearsonr(true, predicted).statistic, abs=1e-12)


def test_correlations_of_the_very_large_the_very_small_and_the_nearly_alike():
    ramp = np.arange(5.0)
    for numbers in (ramp * 1e300, ramp * 1e-300, 1 + ramp * 2**-52, -ramp * 1e300 + 1):
        assert abs(pearson(ramp, numbers)) == pytest.approx(1, abs=1e-12)
    assert pearson(np.full(3, 0.1), ramp[:3]) == 0  # its mean is not quite 0.1
    assert spearman([1, 2, 2, 3], [1, 3, 2, 4]) == pytest.approx(np.sqrt(0.9))  # by hand: ranks 1 2.5 2.5 4
    assert pearson([1.0], [2.0]) == 0


def test_one_class_only():
    found = classification_metrics(np.zeros(3, int), np.zeros(3, int), ["a", "b"])
    assert (found["accuracy"], found["macro_f1"], found["mcc"]) == (1, 1, 0)
    assert found["per_class"]["b"] == {"precision": 0, "recall": 0, "f1": 0, "support": 0}
    never = classification_metrics(np.array([0, 0, 1]), np.array([0, 0, 0]), ["a", "b"])
    assert never["per_class"]["b"] == {"precision": 0, "recall": 0, "f1": 0, "support": 1}
    assert never["macro_f1"] == pytest.approx(0.4)


def test_a_million_answers_take_no_second():
    rng = np.random.default_rng(0)
    true, predicted = rng.integers(0, 50, (2, 1_000_000))
    began = time.process_time()
    found = classification_metrics(true, predicted, [str(number) for number in range(50)])
    numbers = regression_metrics(true, predicted)
    assert time.process_time() - began < 1
    assert found["mcc"] == pytest.approx(peer.matthews_corrcoef(true, predicted), abs=1e-12)
    assert numbers["spearman"] == pytest.approx(stats.spearmanr(true, predicted).statistic, abs=1e-12)


def test_many_classes_have_no_table_of_confusions():
    names = [str(number) for number in range(MAX_CONFUSION_CLASSES + 1)]
    found = classification_metrics(np.arange(9), np.arange(9), names)
    assert found["confusion"] is None
    assert found["macro_f1"] == 1


@pytest.mark.parametrize(
    ("measure", "complaint"),
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
def test_what_cannot_be_measured_is_refused(measure, complaint):
    with pytest.raises(InputError, match=complaint):
        measure()


# --- entities ---

TAGS = ["O", *(f"{letter}-{kind}" for letter in "BIES" for kind in ("PER", "my-kind", "地名")), "B", "I", "E", "S"]
pairs_of_tags = st.lists(
    st.integers(0, 8).flatmap(
        lambda size: st.tuples(*(st.lists(st.sampled_from(TAGS), min_size=size, max_size=size) for _ in range(2)))
    ),
    min_size=1,
    max_size=4,
)


def reported(true, predicted, **how):
    return classification_report(true, predicted, output_dict=True, zero_division=0, **how)


def same_figures(found, wanted) -> None:
    """Ours and seqeval's, over all and of each kind."""
    averages = {name: wanted.pop(name) for name in [*wanted] if name.endswith(" avg")}
    assert {*found["per_kind"]} == {*wanted}
    for kind, figures in found["per_kind"].items():
        assert [*figures.values()] == pytest.approx([*wanted[kind].values()], abs=1e-12)
    if not wanted:
        assert (found["precision"], found["recall"], found["f1"], found["macro_f1"]) == (0, 0, 0, 0)
        return
    micro = [found[name] for name in ("precision", "recall", "f1", "entities")]
    assert micro == pytest.approx([*averages["micro avg"].values()], abs=1e-12)
    assert found["macro_f1"] == pytest.approx(averages["macro avg"]["f1-score"], abs=1e-12)


def peers(true, predicted, **how):
    """seqeval cannot report on no entity at all."""
    try:
        return reported(true, predicted, **how)
    except ValueError:
        return {}


@given(pairs_of_tags)
def test_entities_equal_seqeval_also_where_tags_are_broken(pairs):
    true, predicted = ([list(tags) for tags in side] for side in zip(*pairs, strict=True))
    found = entity_f1(true, predicted)
    same_figures(found, peers(true, predicted))
    same_figures(found["strict"], peers(true, predicted, mode="strict", scheme=IOBES))
    assert json.loads(json.dumps(found)) == found


def test_entities_by_hand():
    true = ["B-PER I-PER E-PER O S-LOC".split(), ["O", "S-PER"]]
    predicted = ["B-PER I-PER I-PER O S-LOC".split(), ["B-PER", "E-PER"]]
    found = entity_f1(true, predicted)
    assert (found["precision"], found["recall"], found["f1"]) == (2 / 3, 2 / 3, 2 / 3)
    assert found["per_kind"]["LOC"] == {"precision": 1, "recall": 1, "f1": 1, "support": 1}
    assert (found["strict"]["precision"], found["strict"]["recall"]) == (1 / 2, 1 / 3)  # the first has no end
    assert (found["entities"], found["sequences"], found["words"]) == (3, 2, 7)
    assert entity_f1([], [])["f1"] == 0


def test_entities_of_real_text_are_found_faster_than_by_seqeval(data: Path):
    true: list[list[str]] = [[]]
    for line in (data / "tasks/wnut17/wnut17train.conll").read_text(encoding="utf-8").splitlines():
        true[-1].append(line.split("\t")[1]) if line.strip() else true.append([])
    seen = sorted({tag for tags in true for tag in tags})
    rng = np.random.default_rng(0)
    predicted = [[rng.choice(seen) if rng.random() < 0.1 else tag for tag in tags] for tags in true]
    began = time.process_time()
    found = entity_f1(true, predicted)
    ours = time.process_time() - began
    began = time.process_time()
    wanted = reported(true, predicted)
    assert 3 * ours < time.process_time() - began
    same_figures(found, wanted)
