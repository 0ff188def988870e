"""Soft losses against torch's own on whole logits; what is compared inside; what is saved and what is asked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional

from forebear.errors import InputError
from forebear.models.bert import BertSpec
from forebear.models.gpt2 import GPT2Spec
from forebear.nn import softmax
from forebear.nn.encoder import States
from forebear.nn.heads import ChoiceHead, LabelHead, PointerHead, TagHead
from forebear.nn.model import Model
from forebear.objectives.batch import IGNORE_INDEX, Batch
from forebear.training import distillation
from forebear.training.distillation import (
    DistillationLearner,
    LogitDistillation,
    StudentModel,
    TokenDistillation,
    inherit_layers,
    layer_distillations,
    matching_teacher_layers,
)
from forebear.training.gradient import DeviceConfig
from forebear.training.learners import WEIGHTS_FILE
from forebear.training.settings import Recipe
from forebear.training.soft_targets import TEACHER_SUFFIX, DistillationConfig
from small_runs import tokenizer as trained_tokenizer

tokenizer = lru_cache(trained_tokenizer)


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


# -- tokens: a loss of very many scores


def plainly(x, weight, bias, target, taught, how):
    """By the definition, on whole logits."""
    z, theirs = functional.linear(x, weight, bias), functional.linear(*taught)
    t = how.temperature
    soft = functional.kl_div((z / t).log_softmax(1), (theirs / t).softmax(1), reduction="sum")
    return (1 - how.share) * functional.cross_entropy(z, target, reduction="sum") + how.share * t * t * soft


def problem(rows: int, vocabulary: int, *, biased: bool):
    torch.manual_seed(5)
    made = [torch.randn(rows, 12) * 2, torch.randn(vocabulary, 12), torch.randn(vocabulary) if biased else None]
    taught = (torch.randn(rows, 20), torch.randn(vocabulary, 20), torch.randn(vocabulary) if biased else None)
    return made, torch.randint(0, vocabulary, (rows,)), taught


def with_gradients(cost, made, target, taught, how):
    leaves = [tensor.clone().requires_grad_() if tensor is not None else None for tensor in made]
    value = cost(*leaves, target, taught, how)
    (value / 3).backward()
    return value.detach(), *(leaf.grad for leaf in leaves if leaf is not None)


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("temperature", [0.5, 1.0, 4.0])
def test_cost_and_gradients_equal_those_of_whole_logits(temperature, share, biased, monkeypatch):
    monkeypatch.setattr(softmax, "MIN_ROWS", 16)
    monkeypatch.setattr(softmax, "MAX_SCORES", 1)  # several parts, the last of them smaller
    asked = [*problem(37, 101, biased=biased), DistillationConfig(temperature, share)]
    found, wanted = (with_gradients(cost, *asked) for cost in (distillation.mixed_cross_entropy, plainly))
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_scores_are_held_for_a_part_at_a_time(monkeypatch):
    monkeypatch.setattr(softmax, "MIN_ROWS", 16)
    monkeypatch.setattr(softmax, "MAX_SCORES", 1)
    made, heights = distillation._scores, []
    monkeypatch.setattr(distillation, "_scores", lambda *given: heights.append(len(given[0])) or made(*given))
    with_gradients(distillation.mixed_cross_entropy, *problem(37, 11, biased=False), DistillationConfig())
    assert heights == [16, 16, 16, 16, 5, 5]


def test_in_sixteen_bits_it_is_about_the_same():
    asked = [*problem(40, 50, biased=True), DistillationConfig(2.0, 0.5)]
    wanted = with_gradients(plainly, *asked)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = with_gradients(distillation.mixed_cross_entropy, *asked)
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype == torch.float32
        assert float((one - other).norm() / other.norm()) < 0.03


def networks(kind=GPT2Spec, *, width=16, depth=2, heads=2, dropout=0.0) -> tuple[Model, Model]:
    """A student, and a teacher with twice the depth."""
    small = kind(width=width, depth=depth, heads=heads, context=16, dropout=dropout)
    large = kind(width=16, depth=4, heads=2, context=16)
    return tuple(one.build(tokenizer()).initialize(seed) for seed, one in enumerate((small, large), 1))


def batch(names=("next",)) -> Batch:
    """Rows of very different lengths, of which most asks come from the last."""
    tokens = np.arange(19) % 7 + 5
    target = np.where(np.arange(19) < 2, IGNORE_INDEX, (tokens + 1) % 12)
    return Batch({"tokens": tokens, "lengths": np.array([1, 2, 16])}, dict.fromkeys(names, target))


def tensors(arrays):
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


@pytest.mark.parametrize(("kind", "name"), [(GPT2Spec, "next"), (BertSpec, "token")])
def test_the_mixture_of_a_model_is_that_of_its_whole_logits(kind, name):
    """For a head with a layer of its own too, and where the last layer is computed for what is asked alone."""
    student, teacher = networks(kind)
    how = DistillationConfig(3.0, 0.6)
    both = StudentModel(
        student, {name + TEACHER_SUFFIX: TokenDistillation(student.heads[name], teacher.heads[name], how)}, teacher
    ).train()
    asked = batch((name + TEACHER_SUFFIX,))
    target = np.where(np.arange(19) % 5 == 0, asked.targets[name + TEACHER_SUFFIX], IGNORE_INDEX)
    found = both(tensors(asked.inputs), tensors({name + TEACHER_SUFFIX: target}))[name + TEACHER_SUFFIX]
    places, inputs = target != IGNORE_INDEX, tensors(asked.inputs)
    z, theirs = (model.heads[name](model.encoder(**inputs))[places].detach() for model in (student, teacher))
    eye, right = torch.eye(z.shape[1]), torch.from_numpy(target[places])
    wanted = plainly(z, eye, None, right, (theirs, eye, None), how)
    assert float(found.detach()) == pytest.approx(float(wanted), rel=1e-4)


# -- tasks: logits of the teacher as targets


def states(width=8, lengths=(3, 2, 4), groups=None) -> States:
    torch.manual_seed(1)
    layers = [torch.randn(sum(lengths), width, requires_grad=True)]
    return States(layers, lengths, None, None if groups is None else torch.tensor(groups))


def filled(head, seed=3):
    return Model(torch.nn.Identity(), {"one": head}).initialize(seed).heads["one"].eval()


def divergence(z, theirs, t):
    p = torch.softmax(theirs / t, -1)
    return float((t * t * p * (p.log() - torch.log_softmax(z / t, -1))).sum())


def test_labels_are_held_against_the_teachers_logits():
    head = filled(LabelHead(8, 4, "first", dense=True))
    target = torch.randn(3, 4)
    target[1] = torch.nan
    z = head(states())[[0, 2]].detach()
    found = LogitDistillation(head, 2.5).loss(states(), target)
    assert float(found.detach()) == pytest.approx(divergence(z, target[[0, 2]], 2.5), rel=1e-5)


def test_each_of_several_labels_is_held_against_its_absence():
    head = filled(LabelHead(8, 3, "mean", kind="several", dense=False))
    target, t = torch.randn(3, 3), 3.0
    z = head(states()).detach()
    p, q = (torch.sigmoid(one / t).double() for one in (target, z))
    wanted = t * t * (p * (p / q).log() + (1 - p) * ((1 - p) / (1 - q)).log()).sum()
    assert float(LogitDistillation(head, t).loss(states(), target).detach()) == pytest.approx(float(wanted), rel=1e-4)


def test_numbers_are_held_against_numbers():
    head = filled(LabelHead(8, 1, "mean", kind="number", dense=False))
    target = torch.tensor([[1.0], [torch.nan], [-2.0]])
    wanted = (head(states())[[0, 2]] - target[[0, 2]]).square().sum()
    assert float(LogitDistillation(head, 9.0).loss(states(), target).detach()) == pytest.approx(float(wanted.detach()))


def test_choices_are_a_softmax_over_the_rows_of_an_example():
    head = filled(ChoiceHead(8, "last", dense=False))
    target = torch.tensor([[0.3, -0.7, -torch.inf], [torch.nan, torch.nan, torch.nan]])
    given = states(lengths=(3, 2, 4, 1, 2), groups=(0, 0, 1, 1, 1))
    found = LogitDistillation(head, 2.0).loss(given, target)
    z = head(given)[:2].detach()
    assert float(found.detach()) == pytest.approx(divergence(z[None], target[:1, :2], 2.0), rel=1e-4)


def test_places_are_a_softmax_over_the_tokens_of_a_row():
    head = filled(PointerHead(8))
    target = torch.full((3, 7), -torch.inf)  # the longest row of all is not in this batch
    for row, length in enumerate((3, 2, 4)):
        target[row, :length] = torch.randn(length)
    rows = head(states()).detach().split((3, 2, 4))
    wanted = sum(divergence(z, target[row, : len(z)], 2.0) for row, z in enumerate(rows))
    found = LogitDistillation(head, 2.0).loss(states(), target)
    assert float(found.detach()) == pytest.approx(wanted, rel=1e-4)
    (slope,) = torch.autograd.grad(found, next(iter(head.parameters())))
    assert bool(torch.isfinite(slope).all())


def test_tags_are_asked_where_words_begin():
    head = filled(TagHead(8, 5))
    target = torch.full((9, 5), torch.nan)
    target[[0, 2, 6]] = torch.randn(3, 5)
    z = head(states())[[0, 2, 6]].detach()
    found = LogitDistillation(head, 2.0).loss(states(), target)
    assert float(found.detach()) == pytest.approx(divergence(z, target[[0, 2, 6]], 2.0), rel=1e-5)
    assert LogitDistillation(head, 2.0).supervised_positions((3, 2, 4), target).tolist() == [0, 2, 6]


# -- the inside


@given(st.integers(1, 30), st.integers(1, 30))
def test_layers_are_evenly_apart_and_end_with_the_last(student, teacher):
    chosen = matching_teacher_layers(student, teacher)
    assert len(chosen) == student
    assert chosen[-1] == teacher
    assert min(chosen) >= 0
    gaps = np.diff([0, *chosen])
    assert gaps.max() - gaps.min() <= 1
    if teacher % student == 0:
        assert chosen == [number * (teacher // student) for number in range(1, student + 1)]


@pytest.mark.parametrize(("kind", "width"), [(GPT2Spec, 16), (BertSpec, 16), (GPT2Spec, 8)])
def test_hidden_states_are_compared_layer_by_layer(kind, width):
    student, teacher = networks(kind, width=width)
    how = DistillationConfig(share=0.0, hidden=1.0)
    both = (
        StudentModel(student, layer_distillations(how, student.encoder, teacher.encoder), teacher).initialize(1).train()
    )
    inputs = tensors(batch().inputs)
    found = both(inputs, {"hidden": torch.zeros(19, dtype=torch.int64)})["hidden"]
    own, theirs = student.encoder(**inputs).layers, teacher.encoder(**inputs).layers
    project = both.heads["hidden"].project or [torch.nn.Identity()] * 2
    wanted = sum((project[n](own[n + 1]) - theirs[2 * n + 2]).square().mean(1).sum() for n in range(2)) / 2
    assert float(found.detach()) == pytest.approx(float(wanted.detach()), rel=1e-5)
    found.backward()
    assert all(one.grad is None for one in teacher.parameters())
    assert (both.heads["hidden"].project is None) == (width == 16)


@pytest.mark.parametrize("kind", [GPT2Spec, BertSpec])
def test_attention_maps_are_compared_head_by_head(kind):
    student, teacher = networks(kind)
    more = layer_distillations(DistillationConfig(share=0.0, attention=1.0), student.encoder, teacher.encoder)
    both = StudentModel(student, more, teacher).train()
    inputs = tensors(batch().inputs)
    found = both(inputs, {"attention": torch.zeros(19, dtype=torch.int64)})["attention"]
    own, theirs = (model.encoder.attention_maps(**inputs) for model in (student, teacher))
    wanted = 0.0
    for layer in range(2):
        for q, p in zip(own[layer], theirs[2 * layer + 1], strict=True):
            seen = p > 0
            wanted += float((p[seen] * (p[seen] / q[seen]).log()).sum().detach()) / len(p) / 2
    assert float(found.detach()) == pytest.approx(wanted, rel=1e-3, abs=1e-6)
    found.backward()
    assert float(student.encoder.blocks[0].attention.query_key_value.weight.grad.abs().max()) > 0


def test_attention_of_unequal_heads_is_refused():
    student, teacher = networks(heads=4)
    with pytest.raises(InputError, match="head by head") as told:
        layer_distillations(DistillationConfig(attention=1.0), student.encoder, teacher.encoder)
    assert "--heads 2" in told.value.hint


# -- who learns


def learner(*, accumulate=1, width=8) -> DistillationLearner:
    student, teacher = networks(width=width)
    how = DistillationConfig(2.0, 0.5, hidden=0.7)
    more = layer_distillations(how, student.encoder, teacher.encoder)
    more[f"next{TEACHER_SUFFIX}"] = TokenDistillation(student.heads["next"], teacher.heads["next"], how)
    recipe = Recipe(steps=1, clip=1e9, accumulate=accumulate)
    made = DistillationLearner(StudentModel(student, more, teacher), recipe, DeviceConfig("cpu", 1, "float32"))
    made.initialize()
    return made


def lesson() -> Batch:
    named = batch((f"next{TEACHER_SUFFIX}",))
    return replace(named, targets={**named.targets, "hidden": np.zeros(19, np.int64)}, weights={"hidden": 0.7})


def test_a_divided_step_has_the_gradient_of_the_whole():
    whole, divided = learner(), learner(accumulate=3)
    told = [one.step(lesson(), 0, 1.0) for one in (whole, divided)]
    assert told[0] == pytest.approx(told[1], rel=1e-4)
    for name, moment in whole.optimizer.state["exp_avg"].items():
        other = divided.optimizer.state["exp_avg"][name]
        assert moment.numpy() == pytest.approx(other.numpy(), rel=1e-3, abs=1e-7), name
        assert float(moment.abs().max()) > 0


def test_what_led_to_the_teachers_width_is_no_part_of_the_student(tmp_path: Path):
    from safetensors.torch import load_file

    one, other = learner(), learner()
    one.step(lesson(), 0, 1.0)
    one.save(tmp_path)
    assert set(load_file(tmp_path / WEIGHTS_FILE)) == set(dict(networks(width=8)[0].named_parameters()))
    other.load(tmp_path)
    for learned in (one, other):
        learned.step(lesson(), 1, 1.0)
    for name, tensor in one.model.named_parameters():
        assert torch.equal(tensor, dict(other.model.named_parameters())[name]), name


def test_examining_asks_for_the_truth_alone():
    one = learner()
    plain = networks(width=8)[0].initialize(one.recipe.seed).eval()
    told = one.evaluate(batch())
    wanted = plain(tensors(batch().inputs), tensors(batch().targets))
    assert told == {"next": pytest.approx(float(wanted["next"].detach()))}
    assert set(one.model.logits(tensors(batch().inputs))) == {"next"}


def test_a_student_begins_with_layers_of_its_teacher():
    student, teacher = networks()
    found = inherit_layers(teacher.tensors(), student, (2, 4))
    assert set(found) == set(dict(student.named_parameters()))
    for own, theirs in ((0, 1), (1, 3)):
        name = "encoder.blocks.{}.expand.weight"
        assert torch.equal(found[name.format(own)], teacher.tensors()[name.format(theirs)])
    short = GPT2Spec(width=16, depth=2, heads=2, context=8).build(tokenizer())
    position = "encoder.embedding.position.weight"
    assert torch.equal(inherit_layers(teacher.tensors(), short, (2, 4))[position], teacher.tensors()[position][:8])
