"""The CRF over features: gradients, CRFsuite's optimum and tags, nn.crf and pytorch-crf, faults."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forebear.data.labeled.tag_schemes import iobes_labels, iobes_transitions, unconstrained_transitions
from forebear.errors import ForebearError, InputError
from forebear.kernels import crf as kernels
from forebear.statistical.crf import CRFModel, CRFProblem, FeatureLabelPairs
from forebear.statistical.crf_features import WordAttributes
from forebear.statistical.lbfgs import LBFGSOptimizer, pseudo_gradient
from forebear.tasks import tagging

WORDS = [*"abcdefgh", "北京", "Paris", "1998年", "3.14", "，", "\u200b", "😀", "x" * 300]


def random_sentences(count: int, labels: int, seed: int = 0) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Random words, and labels that depend on them and on one another."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 9, count)
    tokens = rng.integers(0, len(WORDS), lengths.sum())
    gold = (tokens + np.roll(tokens, 1) * (rng.random(len(tokens)) < 0.5) + 1) % labels
    return {"tokens": tokens, "lengths": lengths}, gold


def crf_model(labels: int, **options: Any) -> CRFModel:
    legal = options.pop("legal", unconstrained_transitions(labels))
    return CRFModel(WordAttributes(WORDS, lambda number: f"new{number}"), tuple(legal), **options)


def optimize(problem: CRFProblem, l1: float = 0.0, max_steps: int = 400) -> LBFGSOptimizer:
    optimizer = LBFGSOptimizer(problem.objective, np.zeros(problem.size), memory=6, curvature=problem.curvature, l1=l1)
    for _ in range(max_steps):
        if not optimizer.step() or optimizer.recent_decrease() < 1e-11 * abs(optimizer.value):
            break
    return optimizer


def transitions_of(model: CRFModel) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    assert model.transitions is not None
    return model.transitions


def test_crf_gradient_equals_finite_differences_of_the_loss():
    inputs, gold = random_sentences(12, 3)
    problem = crf_model(3, l2=0.3, templates="word[0] word[-1]+word[0] shape[0]").make_problem(inputs, gold)
    point = np.random.default_rng(1).normal(size=problem.size) * problem.is_free
    _, gradient = problem.objective(point)
    for number in np.flatnonzero(problem.is_free)[::3].tolist():
        step = np.zeros(problem.size)
        step[number] = 1e-5
        slope = (problem.objective(point + step)[0] - problem.objective(point - step)[0]) / 2e-5
        assert slope == pytest.approx(gradient[number], abs=1e-6)
    assert not gradient[~problem.is_free].any()


def test_crf_loss_equals_a_sum_over_all_labelings():
    inputs, gold = random_sentences(3, 2, seed=4)
    crf = crf_model(2, l2=0.0, templates="word[0] word[1]")
    problem = crf.make_problem(inputs, gold)
    point = np.random.default_rng(2).normal(size=problem.size) * problem.is_free
    crf.set_weights(point)
    scores, (transitions, start, end) = crf.logits(inputs)["tag"], transitions_of(crf)
    loss, start_word = 0.0, 0
    for size in inputs["lengths"].tolist():
        sentence_scores = scores[start_word : start_word + size]
        total = {
            labeling: start[labeling[0]]
            + end[labeling[-1]]
            + sum(sentence_scores[word, label] for word, label in enumerate(labeling))
            + sum(transitions[labeling[word - 1], labeling[word]] for word in range(1, size))
            for labeling in product(range(2), repeat=size)
        }
        loss += (
            np.log(sum(np.exp(value) for value in total.values()))
            - total[tuple(gold[start_word : start_word + size].tolist())]
        )
        start_word += size
    assert problem.objective(point)[0] == pytest.approx(loss, rel=1e-12)


@pytest.mark.parametrize("l1", [0.0, 0.4])
def test_crf_optimum_and_marginals_equal_crfsuites(tmp_path: Path, l1: float):
    pycrfsuite = pytest.importorskip("pycrfsuite")
    inputs, gold = random_sentences(150, 4)
    crf = crf_model(4, l2=0.2, templates="word[0] word[-1] word[1]+word[0] shape[0]")
    problem = crf.make_problem(inputs, gold)
    optimizer = optimize(problem, l1)
    trainer = pycrfsuite.Trainer(verbose=False)
    options = {"c1": l1, "c2": 0.2, "max_iterations": 2000, "epsilon": 1e-9, "delta": 1e-12, "period": 10}
    trainer.set_params({**options, "feature.possible_transitions": True})
    sentence_features, start = [], 0
    for size in inputs["lengths"].tolist():
        features = [
            [str(feature) for feature in row if feature >= 0] for row in problem.features[start : start + size].tolist()
        ]
        features[0].append("start")
        features[-1].append("end")
        trainer.append(features, [str(label) for label in gold[start : start + size]])
        sentence_features.append(features)
        start += size
    trainer.train(str(tmp_path / "model"))
    assert trainer.logparser.featgen_num_features == problem.is_free.sum()
    assert optimizer.value == pytest.approx(trainer.logparser.last_iteration["loss"], rel=2e-6)
    tagger = pycrfsuite.Tagger()
    tagger.open(str(tmp_path / "model"))
    crf.set_weights(optimizer.point)
    crfsuite_labels = [int(label) for features in sentence_features for label in tagger.tag(features)]
    scores, transitions = crf.logits(inputs)["tag"], transitions_of(crf)
    labels = tagging.chain_viterbi(scores, inputs["lengths"].tolist(), *transitions)
    assert np.mean(labels == crfsuite_labels) > 0.995  # except for ties
    start = int(inputs["lengths"][0])
    tagger.set(sentence_features[0])
    marginals = tagging.chain_marginals(scores[:start], [start], *transitions)
    for word in range(start):
        for label in range(4):
            assert marginals[word, label] == pytest.approx(tagger.marginal(str(label), word), abs=2e-3)
    if l1:
        assert np.count_nonzero(optimizer.point) < 0.8 * problem.is_free.sum()


@settings(deadline=None, max_examples=10)
@given(st.lists(st.integers(1, 7), min_size=1, max_size=4), st.sampled_from(["plain", "names"]), st.integers(0, 1000))
def test_crf_layer_of_networks_has_the_same_loss_gradients_and_marginals(lengths: list[int], kind: str, seed: int):
    import torch

    from forebear.nn.crf import CRFLayer

    names = iobes_labels(["X"])
    legal = unconstrained_transitions(5) if kind == "plain" else iobes_transitions(names)
    rng = np.random.default_rng(seed)
    words, layer = sum(lengths), CRFLayer(*legal)
    transitions, start, end = (rng.normal(size=values_of_rule.shape) for values_of_rule in legal)
    layer.to_empty(device="cpu").double()
    with torch.no_grad():
        for parameter, values in zip(layer.parameters(), (transitions, start, end), strict=True):
            parameter.copy_(torch.from_numpy(values))
    gold = np.zeros(words, np.int64)  # O is legal everywhere
    scores = rng.normal(size=(words, 5))
    tensor = torch.from_numpy(scores).requires_grad_()
    loss = layer.loss(tensor, lengths, torch.from_numpy(gold))
    loss.backward()
    offsets = np.arange(0, 8 * words + 1, 8)
    pairs = FeatureLabelPairs(offsets, np.tile(np.arange(8, dtype=np.uint16), words), np.ones(8 * words, bool))
    problem = CRFProblem(
        np.arange(words, dtype=np.int32)[:, None],
        np.array(lengths),
        gold,
        pairs,
        (legal.allowed_transitions, legal.may_start, legal.may_end),
    )
    padded = np.zeros((words, 8))
    padded[:, :5] = scores
    point = np.concatenate((padded.ravel(), transitions.ravel(), start, end))
    loss_of_problem, gradient = problem.objective(point)
    assert loss_of_problem == pytest.approx(float(loss.detach()), rel=1e-9, abs=1e-9)
    assert tensor.grad is not None
    np.testing.assert_allclose(gradient[: 8 * words].reshape(words, 8)[:, :5], tensor.grad.numpy(), atol=1e-9)
    is_free = problem.is_free[8 * words :]
    layer_gradients = np.concatenate(
        [values_of_rule.grad.double().numpy().ravel() for values_of_rule in layer.parameters()]
    )  # pyright: ignore[reportOptionalMemberAccess]
    np.testing.assert_allclose(gradient[8 * words :][is_free], layer_gradients[is_free], atol=1e-8)
    costs = [
        np.where(allowed, values_of_rule, -1e4)
        for allowed, values_of_rule in zip(legal, (transitions, start, end), strict=True)
    ]
    np.testing.assert_allclose(
        tagging.chain_marginals(scores, lengths, *costs), layer.marginals(tensor.detach(), lengths).numpy(), atol=1e-9
    )
    assert (
        kernels.viterbi(scores, np.array(lengths), *costs) == np.concatenate(layer.viterbi(tensor.detach(), lengths))
    ).all()


def test_crf_kernels_equal_pytorch_crf():
    torchcrf = pytest.importorskip("torchcrf")
    import torch

    lengths, labels = [6, 3, 1], 4
    rng = np.random.default_rng(0)
    scores, gold = rng.normal(size=(sum(lengths), labels)), rng.integers(0, labels, sum(lengths))
    transitions, start, end = rng.normal(size=(labels, labels)), rng.normal(size=labels), rng.normal(size=labels)
    peer = torchcrf.CRF(labels, batch_first=True).double()
    with torch.no_grad():
        for parameter, values in (
            (peer.transitions, transitions),
            (peer.start_transitions, start),
            (peer.end_transitions, end),
        ):
            parameter.copy_(torch.from_numpy(values))
    padded, tags, mask = torch.zeros(3, 6, labels).double(), torch.zeros(3, 6).long(), torch.zeros(3, 6).bool()
    start_word = 0
    for row, size in enumerate(lengths):
        padded[row, :size], tags[row, :size] = (
            torch.from_numpy(scores[start_word : start_word + size]),
            torch.from_numpy(gold[start_word : start_word + size]),
        )
        mask[row, :size] = True
        start_word += size
    exponentials, workspace = scores.copy(), np.empty(labels)
    levels = kernels.exponentials(exponentials, labels, workspace, workspace.view(np.int64))
    expected, edges = np.zeros((labels, labels)), np.zeros((2, labels))
    powers = np.exp(transitions), np.exp(start), np.exp(end)
    total = kernels.forward_backward(exponentials, np.array(lengths), powers, gold, expected, edges) + levels.sum()
    firsts = np.cumsum([0, *lengths[:-1]])
    inner_positions = [position for position in range(len(gold)) if position not in firsts]
    gold_score = (
        scores[np.arange(len(gold)), gold].sum() + start[gold[firsts]].sum() + end[gold[np.cumsum(lengths) - 1]].sum()
    )
    gold_score += sum(transitions[gold[position - 1], gold[position]] for position in inner_positions)
    loss = -float(peer(padded, tags, mask=mask, reduction="sum").detach())
    assert total - gold_score == pytest.approx(loss, rel=1e-12)
    best = [label for row in peer.decode(padded, mask=mask) for label in row]
    assert kernels.viterbi(scores, np.array(lengths), transitions, start, end).tolist() == best


def test_crf_objective_is_bit_identical_for_any_number_of_threads(monkeypatch: pytest.MonkeyPatch):
    inputs, gold = random_sentences(300, 5)
    results = []
    for threads in (1, 2, 3):
        monkeypatch.setattr("forebear.statistical.crf.WORDS_PER_BLOCK", 64)
        problem = crf_model(5, l2=0.1).make_problem(inputs, gold, threads)
        point = np.random.default_rng(0).normal(size=problem.size) * problem.is_free
        results.append(problem.objective(point))
    assert results[0][0] == results[1][0] == results[2][0]
    assert (results[0][1] == results[1][1]).all()
    assert (results[0][1] == results[2][1]).all()


def test_lbfgs_resumed_from_its_state_is_bit_identical():
    inputs, gold = random_sentences(60, 3)
    problem = crf_model(3, l2=0.5).make_problem(inputs, gold)
    for l1 in (0.0, 0.3):
        uninterrupted, interrupted = (
            LBFGSOptimizer(problem.objective, np.zeros(problem.size), memory=6, curvature=problem.curvature, l1=l1)
            for _ in range(2)
        )
        for _ in range(12):
            uninterrupted.step()
        for _ in range(5):
            interrupted.step()
        resumed = LBFGSOptimizer(
            problem.objective,
            np.zeros(problem.size),
            memory=6,
            curvature=problem.curvature,
            l1=l1,
            state=interrupted.arrays(),
        )
        for _ in range(7):
            resumed.step()
        assert (resumed.point == uninterrupted.point).all()
        assert resumed.value == uninterrupted.value


def test_l1_optimum_has_a_vanishing_pseudo_gradient():
    inputs, gold = random_sentences(80, 3)
    problem = crf_model(3, l2=0.01, templates="word[0] word[-1]").make_problem(inputs, gold)
    optimizer = optimize(problem, l1=0.8)
    slope = pseudo_gradient(optimizer.point, optimizer.gradient, 0.8)
    assert np.abs(slope).max() < 5e-3
    assert (np.abs(optimizer.gradient[optimizer.point == 0]) <= 0.8 + 5e-3).all()


def test_saved_crf_loads_with_equal_logits_and_damaged_arrays_are_refused():
    inputs, gold = random_sentences(60, 3)
    crf = crf_model(3, l2=0.1)
    problem = crf.make_problem(inputs, gold)
    crf.set_weights(optimize(problem, l1=0.2, max_steps=30).point)
    loaded = crf_model(3)
    loaded.load(crf.arrays())
    np.testing.assert_allclose(loaded.logits(inputs)["tag"], crf.logits(inputs)["tag"], atol=1e-5)
    assert loaded.num_parameters == crf.num_parameters
    oov_inputs = {"tokens": np.array([1, len(WORDS) + 3, 2]), "lengths": np.array([3])}
    np.testing.assert_allclose(loaded.logits(oov_inputs)["tag"], crf.logits(oov_inputs)["tag"], atol=1e-5)
    for name, change in (
        ("labels", lambda array: array + 7),
        ("weights", lambda array: array[:-1]),
        ("keys", lambda array: array[1:]),
    ):
        arrays = crf.arrays()
        arrays[name] = change(arrays[name])
        with pytest.raises(ForebearError):
            crf_model(3).load(arrays)
    with pytest.raises(ForebearError, match="lacks"):
        crf_model(3).load({})


def test_feature_contributions_add_up_to_the_emission_score():
    inputs, gold = random_sentences(40, 3)
    crf = crf_model(3, l2=0.1)
    crf.set_weights(optimize(crf.make_problem(inputs, gold), max_steps=10).point)
    scores = crf.logits(inputs)["tag"]
    for word in (0, 5, len(gold) - 1):
        contributions = crf.feature_contributions(inputs, word, answer=1)
        assert sum(contribution.value for contribution in contributions) == pytest.approx(
            scores[word, 1] - scores[word].mean()
        )
        assert all("[" in contribution.field for contribution in contributions)


def test_words_without_a_tag_are_features_but_not_part_of_the_sequence():
    inputs, gold = random_sentences(30, 3)
    gold[::4] = -1
    problem = crf_model(3).make_problem(inputs, gold)
    assert len(problem.gold_labels) == (gold >= 0).sum() == problem.lengths.sum()
    with pytest.raises(InputError, match="no word has a tag"):
        crf_model(3).make_problem(inputs, np.full(len(gold), -1))


@pytest.mark.parametrize("labels", [1, 2])
def test_crf_tags_one_sentence_among_empty_ones(labels: int):
    inputs = {"tokens": np.array([0, 1, 2]), "lengths": np.array([0, 3, 0])}
    crf = crf_model(labels, l2=1.0)
    problem = crf.make_problem(inputs, np.zeros(3, np.int64))
    crf.set_weights(optimize(problem, max_steps=5).point)
    assert tagging.chain_viterbi(
        crf.logits(inputs)["tag"], inputs["lengths"].tolist(), *(transitions_of(crf))
    ).tolist() == [0, 0, 0]
    empty_inputs = {"tokens": np.empty(0, np.int64), "lengths": np.array([0, 0])}
    assert crf.logits(empty_inputs)["tag"].shape == (0, labels)


def test_crf_tags_a_sentence_of_a_hundred_thousand_words():
    tokens = np.arange(100_000) % len(WORDS)
    inputs = {"tokens": tokens, "lengths": np.array([100_000])}
    crf = crf_model(3, l2=0.1, templates="word[0] word[-1]")
    problem = crf.make_problem(inputs, tokens % 3)
    crf.set_weights(optimize(problem, max_steps=3).point)
    scores, transitions = crf.logits(inputs)["tag"], transitions_of(crf)
    assert np.isfinite(problem.objective(np.ones(problem.size) * problem.is_free)[0])
    assert (kernels.viterbi(scores, inputs["lengths"], *transitions) == tokens % 3).mean() > 0.9


def test_min_count_drops_rare_features():
    inputs, gold = random_sentences(50, 3)
    unpruned, pruned = crf_model(3), crf_model(3, min_count=3)
    unpruned.make_problem(inputs, gold)
    pruned.make_problem(inputs, gold)
    assert unpruned.index is not None
    assert pruned.index is not None
    assert 0 < pruned.index.size < unpruned.index.size
