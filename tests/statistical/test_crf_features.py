"""The conditional random field over features: gradients, CRFsuite's optimum and answers, networks.crf, faults."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forebear.data.labeled.tag_schemes import free_transitions, iobes_labels, legal_transitions
from forebear.errors import ForebearError, InputError
from forebear.kernels import crf as kernels
from forebear.statistical.crf import CRFModel, CRFProblem, FeatureLabelPairs
from forebear.statistical.crf_features import WordAttributes
from forebear.statistical.lbfgs import LBFGSOptimizer, pseudo_gradient
from forebear.tasks import tagging

WORDS = [*"abcdefgh", "北京", "Paris", "1998年", "3.14", "，", "\u200b", "😀", "x" * 300]


def sentences(count: int, labels: int, seed: int = 0) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Words by chance, and labels that depend on them and on one another."""
    chance = np.random.default_rng(seed)
    lengths = chance.integers(1, 9, count)
    tokens = chance.integers(0, len(WORDS), lengths.sum())
    right = (tokens + np.roll(tokens, 1) * (chance.random(len(tokens)) < 0.5) + 1) % labels
    return {"tokens": tokens, "lengths": lengths}, right


def model(labels: int, **how: Any) -> CRFModel:
    rules = how.pop("legal", free_transitions(labels))
    return CRFModel(WordAttributes(WORDS, lambda number: f"new{number}"), tuple(rules), **how)


def found(problem: CRFProblem, l1: float = 0.0, most: int = 400) -> LBFGSOptimizer:
    search = LBFGSOptimizer(problem.objective, np.zeros(problem.size), memory=6, curvature=problem.curvature, l1=l1)
    for _ in range(most):
        if not search.step() or search.recent_decrease() < 1e-11 * abs(search.value):
            break
    return search


def moves_of(made: CRFModel) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    assert made.moves is not None
    return made.moves


def test_the_gradient_is_that_of_the_cost():
    inputs, right = sentences(12, 3)
    problem = model(3, l2=0.3, templates="word[0] word[-1]+word[0] shape[0]").make_problem(inputs, right)
    point = np.random.default_rng(1).normal(size=problem.size) * problem.is_free
    _, gradient = problem.objective(point)
    for number in np.flatnonzero(problem.is_free)[::3].tolist():
        step = np.zeros(problem.size)
        step[number] = 1e-5
        slope = (problem.objective(point + step)[0] - problem.objective(point - step)[0]) / 2e-5
        assert slope == pytest.approx(gradient[number], abs=1e-6)
    assert not gradient[~problem.is_free].any()


def test_the_cost_is_that_of_all_labellings():
    inputs, right = sentences(3, 2, seed=4)
    made = model(2, l2=0.0, templates="word[0] word[1]")
    problem = made.make_problem(inputs, right)
    point = np.random.default_rng(2).normal(size=problem.size) * problem.is_free
    made.set_weights(point)
    scores, (moves, start, end) = made.logits(inputs)["tag"], moves_of(made)
    cost, at = 0.0, 0
    for size in inputs["lengths"].tolist():
        own = scores[at : at + size]
        total = {
            one: start[one[0]]
            + end[one[-1]]
            + sum(own[word, label] for word, label in enumerate(one))
            + sum(moves[one[word - 1], one[word]] for word in range(1, size))
            for one in product(range(2), repeat=size)
        }
        cost += np.log(sum(np.exp(value) for value in total.values())) - total[tuple(right[at : at + size].tolist())]
        at += size
    assert problem.objective(point)[0] == pytest.approx(cost, rel=1e-12)


@pytest.mark.parametrize("l1", [0.0, 0.4])
def test_the_optimum_and_the_answers_are_crfsuites(tmp_path: Path, l1: float):
    pycrfsuite = pytest.importorskip("pycrfsuite")
    inputs, right = sentences(150, 4)
    made = model(4, l2=0.2, templates="word[0] word[-1] word[1]+word[0] shape[0]")
    problem = made.make_problem(inputs, right)
    search = found(problem, l1)
    trainer = pycrfsuite.Trainer(verbose=False)
    how = {"c1": l1, "c2": 0.2, "max_iterations": 2000, "epsilon": 1e-9, "delta": 1e-12, "period": 10}
    trainer.set_params({**how, "feature.possible_transitions": True})
    seen, at = [], 0
    for size in inputs["lengths"].tolist():
        own = [[str(one) for one in row if one >= 0] for row in problem.features[at : at + size].tolist()]
        own[0].append("start")
        own[-1].append("end")
        trainer.append(own, [str(label) for label in right[at : at + size]])
        seen.append(own)
        at += size
    trainer.train(str(tmp_path / "model"))
    assert trainer.logparser.featgen_num_features == problem.is_free.sum()
    assert search.value == pytest.approx(trainer.logparser.last_iteration["loss"], rel=2e-6)
    tagger = pycrfsuite.Tagger()
    tagger.open(str(tmp_path / "model"))
    made.set_weights(search.point)
    told = [int(label) for own in seen for label in tagger.tag(own)]
    scores, moves = made.logits(inputs)["tag"], moves_of(made)
    said = tagging.chain_viterbi(scores, inputs["lengths"].tolist(), *moves)
    assert np.mean(said == told) > 0.995  # but for ties
    at = int(inputs["lengths"][0])
    tagger.set(seen[0])
    marginals = tagging.chain_marginals(scores[:at], [at], *moves)
    for word in range(at):
        for label in range(4):
            assert marginals[word, label] == pytest.approx(tagger.marginal(str(label), word), abs=2e-3)
    if l1:
        assert np.count_nonzero(search.point) < 0.8 * problem.is_free.sum()


@settings(deadline=None, max_examples=10)
@given(st.lists(st.integers(1, 7), min_size=1, max_size=4), st.sampled_from(["plain", "names"]), st.integers(0, 1000))
def test_the_networks_layer_has_the_same_definition(lengths: list[int], kind: str, seed: int):
    import torch

    from forebear.nn.crf import CRFLayer

    names = iobes_labels(["X"])
    rules = free_transitions(5) if kind == "plain" else legal_transitions(names)
    chance = np.random.default_rng(seed)
    words, layer = sum(lengths), CRFLayer(*rules)
    moves, start, end = (chance.normal(size=one.shape) for one in rules)
    layer.to_empty(device="cpu").double()
    with torch.no_grad():
        for parameter, values in zip(layer.parameters(), (moves, start, end), strict=True):
            parameter.copy_(torch.from_numpy(values))
    right = np.zeros(words, np.int64)  # O is legal everywhere
    scores = chance.normal(size=(words, 5))
    tensor = torch.from_numpy(scores).requires_grad_()
    loss = layer.loss(tensor, lengths, torch.from_numpy(right))
    loss.backward()
    offsets = np.arange(0, 8 * words + 1, 8)
    pairs = FeatureLabelPairs(offsets, np.tile(np.arange(8, dtype=np.uint16), words), np.ones(8 * words, bool))
    problem = CRFProblem(
        np.arange(words, dtype=np.int32)[:, None],
        np.array(lengths),
        right,
        pairs,
        (rules.allowed_transitions, rules.may_start, rules.may_end),
    )
    wide = np.zeros((words, 8))
    wide[:, :5] = scores
    point = np.concatenate((wide.ravel(), moves.ravel(), start, end))
    cost, gradient = problem.objective(point)
    assert cost == pytest.approx(float(loss.detach()), rel=1e-9, abs=1e-9)
    assert tensor.grad is not None
    np.testing.assert_allclose(gradient[: 8 * words].reshape(words, 8)[:, :5], tensor.grad.numpy(), atol=1e-9)
    learned = problem.is_free[8 * words :]
    theirs = np.concatenate([one.grad.double().numpy().ravel() for one in layer.parameters()])  # pyright: ignore[reportOptionalMemberAccess]
    np.testing.assert_allclose(gradient[8 * words :][learned], theirs[learned], atol=1e-8)
    costs = [np.where(may, one, -1e4) for may, one in zip(rules, (moves, start, end), strict=True)]
    np.testing.assert_allclose(
        tagging.chain_marginals(scores, lengths, *costs), layer.marginals(tensor.detach(), lengths).numpy(), atol=1e-9
    )
    assert (
        kernels.viterbi(scores, np.array(lengths), *costs) == np.concatenate(layer.viterbi(tensor.detach(), lengths))
    ).all()


def test_pytorch_crf_agrees():
    torchcrf = pytest.importorskip("torchcrf")
    import torch

    lengths, labels = [6, 3, 1], 4
    chance = np.random.default_rng(0)
    scores, right = chance.normal(size=(sum(lengths), labels)), chance.integers(0, labels, sum(lengths))
    moves, start, end = chance.normal(size=(labels, labels)), chance.normal(size=labels), chance.normal(size=labels)
    theirs = torchcrf.CRF(labels, batch_first=True).double()
    with torch.no_grad():
        for parameter, values in (
            (theirs.transitions, moves),
            (theirs.start_transitions, start),
            (theirs.end_transitions, end),
        ):
            parameter.copy_(torch.from_numpy(values))
    padded, tags, mask = torch.zeros(3, 6, labels).double(), torch.zeros(3, 6).long(), torch.zeros(3, 6).bool()
    at = 0
    for row, size in enumerate(lengths):
        padded[row, :size], tags[row, :size] = (
            torch.from_numpy(scores[at : at + size]),
            torch.from_numpy(right[at : at + size]),
        )
        mask[row, :size] = True
        at += size
    wide, room = scores.copy(), np.empty(labels)
    levels = kernels.exponentials(wide, labels, room, room.view(np.int64))
    expected, edges = np.zeros((labels, labels)), np.zeros((2, labels))
    powers = np.exp(moves), np.exp(start), np.exp(end)
    total = kernels.forward_backward(wide, np.array(lengths), powers, right, expected, edges) + levels.sum()
    firsts = np.cumsum([0, *lengths[:-1]])
    inner = [place for place in range(len(right)) if place not in firsts]
    reached = (
        scores[np.arange(len(right)), right].sum()
        + start[right[firsts]].sum()
        + end[right[np.cumsum(lengths) - 1]].sum()
    )
    reached += sum(moves[right[place - 1], right[place]] for place in inner)
    loss = -float(theirs(padded, tags, mask=mask, reduction="sum").detach())
    assert total - reached == pytest.approx(loss, rel=1e-12)
    best = [label for row in theirs.decode(padded, mask=mask) for label in row]
    assert kernels.viterbi(scores, np.array(lengths), moves, start, end).tolist() == best


def test_threads_and_blocks_change_no_bit(monkeypatch: pytest.MonkeyPatch):
    inputs, right = sentences(300, 5)
    results = []
    for threads in (1, 2, 3):
        monkeypatch.setattr("forebear.statistical.crf.BLOCK", 64)
        problem = model(5, l2=0.1).make_problem(inputs, right, threads)
        point = np.random.default_rng(0).normal(size=problem.size) * problem.is_free
        results.append(problem.objective(point))
    assert results[0][0] == results[1][0] == results[2][0]
    assert (results[0][1] == results[1][1]).all()
    assert (results[0][1] == results[2][1]).all()


def test_a_search_that_was_broken_off_goes_on_bit_for_bit():
    inputs, right = sentences(60, 3)
    problem = model(3, l2=0.5).make_problem(inputs, right)
    for l1 in (0.0, 0.3):
        whole, first = (
            LBFGSOptimizer(problem.objective, np.zeros(problem.size), memory=6, curvature=problem.curvature, l1=l1)
            for _ in range(2)
        )
        for _ in range(12):
            whole.step()
        for _ in range(5):
            first.step()
        rest = LBFGSOptimizer(
            problem.objective,
            np.zeros(problem.size),
            memory=6,
            curvature=problem.curvature,
            l1=l1,
            state=first.arrays(),
        )
        for _ in range(7):
            rest.step()
        assert (rest.point == whole.point).all()
        assert rest.value == whole.value


def test_l1_ends_where_nothing_leads_lower():
    inputs, right = sentences(80, 3)
    problem = model(3, l2=0.01, templates="word[0] word[-1]").make_problem(inputs, right)
    search = found(problem, l1=0.8)
    slope = pseudo_gradient(search.point, search.gradient, 0.8)
    assert np.abs(slope).max() < 5e-3
    assert (np.abs(search.gradient[search.point == 0]) <= 0.8 + 5e-3).all()


def test_what_was_learned_is_saved_and_loaded():
    inputs, right = sentences(60, 3)
    made = model(3, l2=0.1)
    problem = made.make_problem(inputs, right)
    made.set_weights(found(problem, l1=0.2, most=30).point)
    again = model(3)
    again.load(made.arrays())
    np.testing.assert_allclose(again.logits(inputs)["tag"], made.logits(inputs)["tag"], atol=1e-5)
    assert again.num_parameters == made.num_parameters
    unlisted = {"tokens": np.array([1, len(WORDS) + 3, 2]), "lengths": np.array([3])}
    np.testing.assert_allclose(again.logits(unlisted)["tag"], made.logits(unlisted)["tag"], atol=1e-5)
    for name, change in (
        ("labels", lambda one: one + 7),
        ("weights", lambda one: one[:-1]),
        ("keys", lambda one: one[1:]),
    ):
        arrays = made.arrays()
        arrays[name] = change(arrays[name])
        with pytest.raises(ForebearError):
            model(3).load(arrays)
    with pytest.raises(ForebearError, match="lacks"):
        model(3).load({})


def test_what_a_feature_adds_is_what_the_score_is():
    inputs, right = sentences(40, 3)
    made = model(3, l2=0.1)
    made.set_weights(found(made.make_problem(inputs, right), most=10).point)
    scores = made.logits(inputs)["tag"]
    for number in (0, 5, len(right) - 1):
        shares = made.feature_contributions(inputs, number, answer=1)
        assert sum(share.value for share in shares) == pytest.approx(scores[number, 1] - scores[number].mean())
        assert all("[" in share.field for share in shares)


def test_words_that_ask_for_nothing_are_seen_but_no_part_of_the_chain():
    inputs, right = sentences(30, 3)
    right[::4] = -1
    problem = model(3).make_problem(inputs, right)
    assert len(problem.gold_labels) == (right >= 0).sum() == problem.lengths.sum()
    with pytest.raises(InputError, match="no word has a tag"):
        model(3).make_problem(inputs, np.full(len(right), -1))


@pytest.mark.parametrize("labels", [1, 2])
def test_one_sentence_and_empty_ones(labels: int):
    inputs = {"tokens": np.array([0, 1, 2]), "lengths": np.array([0, 3, 0])}
    made = model(labels, l2=1.0)
    problem = made.make_problem(inputs, np.zeros(3, np.int64))
    made.set_weights(found(problem, most=5).point)
    assert tagging.chain_viterbi(
        made.logits(inputs)["tag"], inputs["lengths"].tolist(), *(moves_of(made))
    ).tolist() == [0, 0, 0]
    nothing = {"tokens": np.empty(0, np.int64), "lengths": np.array([0, 0])}
    assert made.logits(nothing)["tag"].shape == (0, labels)


def test_a_sentence_of_a_hundred_thousand_words():
    tokens = np.arange(100_000) % len(WORDS)
    inputs = {"tokens": tokens, "lengths": np.array([100_000])}
    made = model(3, l2=0.1, templates="word[0] word[-1]")
    problem = made.make_problem(inputs, tokens % 3)
    made.set_weights(found(problem, most=3).point)
    scores, moves = made.logits(inputs)["tag"], moves_of(made)
    assert np.isfinite(problem.objective(np.ones(problem.size) * problem.is_free)[0])
    assert (kernels.viterbi(scores, inputs["lengths"], *moves) == tokens % 3).mean() > 0.9


def test_rare_features_are_left_out():
    inputs, right = sentences(50, 3)
    every, often = model(3), model(3, min_count=3)
    every.make_problem(inputs, right)
    often.make_problem(inputs, right)
    assert every.index is not None
    assert often.index is not None
    assert 0 < often.index.size < every.index.size
