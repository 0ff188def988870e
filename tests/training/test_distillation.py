"""Distillation: losses against torch on full logits, hidden-state and attention losses, saving and evaluation."""

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
from forebear.training.distillation_targets import TEACHER_SUFFIX, DistillationConfig
from forebear.training.gradient_learner import DeviceConfig
from forebear.training.learner import WEIGHTS_FILE
from forebear.training.settings import Recipe
from small_runs import small_tokenizer as trained_tokenizer

tokenizer = lru_cache(trained_tokenizer)


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


# -- tokens: the loss over the vocabulary, computed in chunks


def reference_loss(x, weight, bias, target, teacher_arguments, config):
    """The definition, on full logits."""
    z, teacher_logits = functional.linear(x, weight, bias), functional.linear(*teacher_arguments)
    t = config.temperature
    soft = functional.kl_div((z / t).log_softmax(1), (teacher_logits / t).softmax(1), reduction="sum")
    return (1 - config.share) * functional.cross_entropy(z, target, reduction="sum") + config.share * t * t * soft


def random_problem(rows: int, vocabulary: int, *, biased: bool):
    torch.manual_seed(5)
    arguments = [torch.randn(rows, 12) * 2, torch.randn(vocabulary, 12), torch.randn(vocabulary) if biased else None]
    teacher_arguments = (
        torch.randn(rows, 20),
        torch.randn(vocabulary, 20),
        torch.randn(vocabulary) if biased else None,
    )
    return arguments, torch.randint(0, vocabulary, (rows,)), teacher_arguments


def loss_and_gradients(loss_function, tensors, target, teacher_arguments, config):
    leaves = [tensor.clone().requires_grad_() if tensor is not None else None for tensor in tensors]
    value = loss_function(*leaves, target, teacher_arguments, config)
    (value / 3).backward()
    return value.detach(), *(leaf.grad for leaf in leaves if leaf is not None)


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("temperature", [0.5, 1.0, 4.0])
def test_mixed_cross_entropy_and_gradients_equal_full_logits(temperature, share, biased, monkeypatch):
    monkeypatch.setattr(softmax, "MIN_ROWS", 16)
    monkeypatch.setattr(softmax, "MAX_SCORES", 1)  # several chunks, the last one smaller
    problem = [*random_problem(37, 101, biased=biased), DistillationConfig(temperature, share)]
    actual, expected = (
        loss_and_gradients(loss_function, *problem)
        for loss_function in (distillation.mixed_cross_entropy, reference_loss)
    )
    for tensor, expected_tensor in zip(actual, expected, strict=True):
        torch.testing.assert_close(tensor, expected_tensor, rtol=1e-4, atol=1e-4)


def test_mixed_cross_entropy_computes_logits_in_chunks(monkeypatch):
    monkeypatch.setattr(softmax, "MIN_ROWS", 16)
    monkeypatch.setattr(softmax, "MAX_SCORES", 1)
    plain_scores, chunk_rows = distillation._scores, []
    monkeypatch.setattr(
        distillation, "_scores", lambda *arguments: chunk_rows.append(len(arguments[0])) or plain_scores(*arguments)
    )
    loss_and_gradients(distillation.mixed_cross_entropy, *random_problem(37, 11, biased=False), DistillationConfig())
    assert chunk_rows == [16, 16, 16, 16, 5, 5]


def test_mixed_cross_entropy_in_bfloat16_is_close_to_float32():
    problem = [*random_problem(40, 50, biased=True), DistillationConfig(2.0, 0.5)]
    expected = loss_and_gradients(reference_loss, *problem)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        actual = loss_and_gradients(distillation.mixed_cross_entropy, *problem)
    for tensor, expected_tensor in zip(actual, expected, strict=True):
        assert tensor.dtype == torch.float32
        assert float((tensor - expected_tensor).norm() / expected_tensor.norm()) < 0.03


def student_and_teacher(kind=GPT2Spec, *, width=16, depth=2, heads=2, dropout=0.0) -> tuple[Model, Model]:
    """A student, and a teacher of twice the number of layers."""
    small = kind(width=width, depth=depth, heads=heads, context=16, dropout=dropout)
    large = kind(width=16, depth=4, heads=2, context=16)
    return tuple(spec.build(tokenizer()).initialize(seed) for seed, spec in enumerate((small, large), 1))


def batch(names=("next",)) -> Batch:
    """Sequences of very different lengths; most supervised positions are in the last."""
    tokens = np.arange(19) % 7 + 5
    target = np.where(np.arange(19) < 2, IGNORE_INDEX, (tokens + 1) % 12)
    return Batch({"tokens": tokens, "lengths": np.array([1, 2, 16])}, dict.fromkeys(names, target))


def tensors(arrays):
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


@pytest.mark.parametrize(("kind", "name"), [(GPT2Spec, "next"), (BertSpec, "token")])
def test_token_distillation_of_a_model_equals_loss_on_full_logits(kind, name):
    """Also for a head with its own layer, and where the last layer is computed at supervised positions only."""
    student, teacher = student_and_teacher(kind)
    config = DistillationConfig(3.0, 0.6)
    pair = StudentModel(
        student, {name + TEACHER_SUFFIX: TokenDistillation(student.heads[name], teacher.heads[name], config)}, teacher
    ).train()
    example = batch((name + TEACHER_SUFFIX,))
    target = np.where(np.arange(19) % 5 == 0, example.targets[name + TEACHER_SUFFIX], IGNORE_INDEX)
    loss = pair(tensors(example.inputs), tensors({name + TEACHER_SUFFIX: target}))[name + TEACHER_SUFFIX]
    supervised, inputs = target != IGNORE_INDEX, tensors(example.inputs)
    z, teacher_logits = (
        model.heads[name](model.encoder(**inputs))[supervised].detach() for model in (student, teacher)
    )
    eye, gold = torch.eye(z.shape[1]), torch.from_numpy(target[supervised])
    expected = reference_loss(z, eye, None, gold, (teacher_logits, eye, None), config)
    assert float(loss.detach()) == pytest.approx(float(expected), rel=1e-4)


# -- tasks: teacher logits as targets


def states(width=8, lengths=(3, 2, 4), groups=None) -> States:
    torch.manual_seed(1)
    layers = [torch.randn(sum(lengths), width, requires_grad=True)]
    return States(layers, lengths, None, None if groups is None else torch.tensor(groups))


def initialize_head(head, seed=3):
    return Model(torch.nn.Identity(), {"one": head}).initialize(seed).heads["one"].eval()


def kl_divergence(z, teacher_logits, t):
    p = torch.softmax(teacher_logits / t, -1)
    return float((t * t * p * (p.log() - torch.log_softmax(z / t, -1))).sum())


def test_label_distillation_is_kl_divergence_from_teacher_logits():
    head = initialize_head(LabelHead(8, 4, "first", dense=True))
    target = torch.randn(3, 4)
    target[1] = torch.nan
    z = head(states())[[0, 2]].detach()
    loss = LogitDistillation(head, 2.5).loss(states(), target)
    assert float(loss.detach()) == pytest.approx(kl_divergence(z, target[[0, 2]], 2.5), rel=1e-5)


def test_multi_label_distillation_is_binary_kl_per_label():
    head = initialize_head(LabelHead(8, 3, "mean", kind="several", dense=False))
    target, t = torch.randn(3, 3), 3.0
    z = head(states()).detach()
    p, q = (torch.sigmoid(logits / t).double() for logits in (target, z))
    expected = t * t * (p * (p / q).log() + (1 - p) * ((1 - p) / (1 - q)).log()).sum()
    assert float(LogitDistillation(head, t).loss(states(), target).detach()) == pytest.approx(float(expected), rel=1e-4)


def test_regression_distillation_is_squared_error():
    head = initialize_head(LabelHead(8, 1, "mean", kind="number", dense=False))
    target = torch.tensor([[1.0], [torch.nan], [-2.0]])
    expected = (head(states())[[0, 2]] - target[[0, 2]]).square().sum()
    assert float(LogitDistillation(head, 9.0).loss(states(), target).detach()) == pytest.approx(
        float(expected.detach())
    )


def test_choice_distillation_is_softmax_over_sequences_of_an_example():
    head = initialize_head(ChoiceHead(8, "last", dense=False))
    target = torch.tensor([[0.3, -0.7, -torch.inf], [torch.nan, torch.nan, torch.nan]])
    choice_states = states(lengths=(3, 2, 4, 1, 2), groups=(0, 0, 1, 1, 1))
    loss = LogitDistillation(head, 2.0).loss(choice_states, target)
    z = head(choice_states)[:2].detach()
    assert float(loss.detach()) == pytest.approx(kl_divergence(z[None], target[:1, :2], 2.0), rel=1e-4)


def test_pointer_distillation_is_softmax_over_tokens_of_a_sequence():
    head = initialize_head(PointerHead(8))
    target = torch.full((3, 7), -torch.inf)  # wider than the longest sequence of this batch
    for row, length in enumerate((3, 2, 4)):
        target[row, :length] = torch.randn(length)
    rows = head(states()).detach().split((3, 2, 4))
    expected = sum(kl_divergence(z, target[row, : len(z)], 2.0) for row, z in enumerate(rows))
    loss = LogitDistillation(head, 2.0).loss(states(), target)
    assert float(loss.detach()) == pytest.approx(expected, rel=1e-4)
    (gradient,) = torch.autograd.grad(loss, next(iter(head.parameters())))
    assert bool(torch.isfinite(gradient).all())


def test_tag_distillation_is_supervised_at_first_token_of_words():
    head = initialize_head(TagHead(8, 5))
    target = torch.full((9, 5), torch.nan)
    target[[0, 2, 6]] = torch.randn(3, 5)
    z = head(states())[[0, 2, 6]].detach()
    loss = LogitDistillation(head, 2.0).loss(states(), target)
    assert float(loss.detach()) == pytest.approx(kl_divergence(z, target[[0, 2, 6]], 2.0), rel=1e-5)
    assert LogitDistillation(head, 2.0).supervised_positions((3, 2, 4), target).tolist() == [0, 2, 6]


# -- hidden states and attention maps


@given(st.integers(1, 30), st.integers(1, 30))
def test_matching_teacher_layers_are_evenly_spaced_up_to_the_last(student, teacher):
    layers = matching_teacher_layers(student, teacher)
    assert len(layers) == student
    assert layers[-1] == teacher
    assert min(layers) >= 0
    gaps = np.diff([0, *layers])
    assert gaps.max() - gaps.min() <= 1
    if teacher % student == 0:
        assert layers == [number * (teacher // student) for number in range(1, student + 1)]


@pytest.mark.parametrize(("kind", "width"), [(GPT2Spec, 16), (BertSpec, 16), (GPT2Spec, 8)])
def test_hidden_state_loss_compares_matching_layers(kind, width):
    student, teacher = student_and_teacher(kind, width=width)
    config = DistillationConfig(share=0.0, hidden=1.0)
    pair = (
        StudentModel(student, layer_distillations(config, student.encoder, teacher.encoder), teacher)
        .initialize(1)
        .train()
    )
    inputs = tensors(batch().inputs)
    loss = pair(inputs, {"hidden": torch.zeros(19, dtype=torch.int64)})["hidden"]
    student_states, teacher_states = student.encoder(**inputs).layers, teacher.encoder(**inputs).layers
    project = pair.heads["hidden"].project or [torch.nn.Identity()] * 2
    expected = (
        sum((project[n](student_states[n + 1]) - teacher_states[2 * n + 2]).square().mean(1).sum() for n in range(2))
        / 2
    )
    assert float(loss.detach()) == pytest.approx(float(expected.detach()), rel=1e-5)
    loss.backward()
    assert all(parameter.grad is None for parameter in teacher.parameters())
    assert (pair.heads["hidden"].project is None) == (width == 16)


@pytest.mark.parametrize("kind", [GPT2Spec, BertSpec])
def test_attention_loss_compares_maps_head_by_head(kind):
    student, teacher = student_and_teacher(kind)
    distillations = layer_distillations(DistillationConfig(share=0.0, attention=1.0), student.encoder, teacher.encoder)
    pair = StudentModel(student, distillations, teacher).train()
    inputs = tensors(batch().inputs)
    loss = pair(inputs, {"attention": torch.zeros(19, dtype=torch.int64)})["attention"]
    student_maps, teacher_maps = (model.encoder.attention_maps(**inputs) for model in (student, teacher))
    expected = 0.0
    for layer in range(2):
        for q, p in zip(student_maps[layer], teacher_maps[2 * layer + 1], strict=True):
            visible = p > 0
            expected += float((p[visible] * (p[visible] / q[visible]).log()).sum().detach()) / len(p) / 2
    assert float(loss.detach()) == pytest.approx(expected, rel=1e-3, abs=1e-6)
    loss.backward()
    assert float(student.encoder.blocks[0].attention.query_key_value.weight.grad.abs().max()) > 0


def test_attention_loss_refuses_unequal_number_of_heads():
    student, teacher = student_and_teacher(heads=4)
    with pytest.raises(InputError, match="head by head") as error:
        layer_distillations(DistillationConfig(attention=1.0), student.encoder, teacher.encoder)
    assert "--heads 2" in error.value.hint


# -- the learner


def learner(*, accumulate=1, width=8) -> DistillationLearner:
    student, teacher = student_and_teacher(width=width)
    config = DistillationConfig(2.0, 0.5, hidden=0.7)
    distillations = layer_distillations(config, student.encoder, teacher.encoder)
    distillations[f"next{TEACHER_SUFFIX}"] = TokenDistillation(student.heads["next"], teacher.heads["next"], config)
    recipe = Recipe(steps=1, clip=1e9, accumulate=accumulate)
    result = DistillationLearner(
        StudentModel(student, distillations, teacher), recipe, DeviceConfig("cpu", 1, "float32")
    )
    result.initialize()
    return result


def distillation_batch() -> Batch:
    token_batch = batch((f"next{TEACHER_SUFFIX}",))
    return replace(
        token_batch, targets={**token_batch.targets, "hidden": np.zeros(19, np.int64)}, weights={"hidden": 0.7}
    )


def test_distillation_with_accumulation_has_gradient_of_full_batch():
    full, accumulated = learner(), learner(accumulate=3)
    losses = [model_learner.step(distillation_batch(), 0, 1.0) for model_learner in (full, accumulated)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    for name, first_moment in full.optimizer.state["exp_avg"].items():
        accumulated_moment = accumulated.optimizer.state["exp_avg"][name]
        assert first_moment.numpy() == pytest.approx(accumulated_moment.numpy(), rel=1e-3, abs=1e-7), name
        assert float(first_moment.abs().max()) > 0


def test_saved_student_omits_projection_to_teacher_width(tmp_path: Path):
    from safetensors.torch import load_file

    trained, restored = learner(), learner()
    trained.step(distillation_batch(), 0, 1.0)
    trained.save(tmp_path)
    assert set(load_file(tmp_path / WEIGHTS_FILE)) == set(dict(student_and_teacher(width=8)[0].named_parameters()))
    restored.load(tmp_path)
    for model_learner in (trained, restored):
        model_learner.step(distillation_batch(), 1, 1.0)
    for name, tensor in trained.model.named_parameters():
        assert torch.equal(tensor, dict(restored.model.named_parameters())[name]), name


def test_evaluate_computes_only_hard_label_loss():
    model_learner = learner()
    student = student_and_teacher(width=8)[0].initialize(model_learner.recipe.seed).eval()
    losses = model_learner.evaluate(batch())
    expected = student(tensors(batch().inputs), tensors(batch().targets))
    assert losses == {"next": pytest.approx(float(expected["next"].detach()))}
    assert set(model_learner.model.logits(tensors(batch().inputs))) == {"next"}


def test_inherit_layers_copies_matching_teacher_layers():
    student, teacher = student_and_teacher()
    inherited = inherit_layers(teacher.tensors(), student, (2, 4))
    assert set(inherited) == set(dict(student.named_parameters()))
    for student_layer, teacher_layer in ((0, 1), (1, 3)):
        name = "encoder.blocks.{}.expand.weight"
        assert torch.equal(inherited[name.format(student_layer)], teacher.tensors()[name.format(teacher_layer)])
    short = GPT2Spec(width=16, depth=2, heads=2, context=8).build(tokenizer())
    position = "encoder.embedding.position.weight"
    assert torch.equal(inherit_layers(teacher.tensors(), short, (2, 4))[position], teacher.tensors()[position][:8])
