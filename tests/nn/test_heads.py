"""Task heads against plain torch on one sequence at a time: pooling, losses, softmax over sequences, scalar mix."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from forebear.data.labeled.tag_schemes import iobes_transitions
from forebear.nn.crf import CRFLayer
from forebear.nn.encoder import States
from forebear.nn.heads import ChoiceHead, LabelHead, PointerHead, TagHead, group_means, pad_scores
from forebear.nn.layers import initial_values
from forebear.nn.scalar_mix import ScalarMix

WIDTH = 6


def initialize_head(head: torch.nn.Module) -> torch.nn.Module:
    for name, value in initial_values(head, 3).items():
        owner, _, last = name.rpartition(".")
        module = head.get_submodule(owner)
        setattr(module, last, torch.nn.Parameter(value + 0.1))
    return head.eval()


def states(*lengths: int, groups: list[int] | None = None, depth: int = 2) -> States:
    generator = torch.Generator().manual_seed(sum(lengths))
    layers = [torch.randn(sum(lengths), WIDTH, generator=generator) for _ in range(depth + 1)]
    return States(layers, lengths, groups=None if groups is None else torch.tensor(groups))


def split_sequences(sequence_states: States) -> list[torch.Tensor]:
    return list(sequence_states.last.split(list(sequence_states.lengths)))


@pytest.mark.parametrize("pooling", ["first", "last", "mean", "max"])
def test_label_head_pools_each_sequence(pooling: str):
    sequence_states = states(3, 1, 5)
    head = initialize_head(LabelHead(WIDTH, 4, pooling, dense=True))
    pool = {
        "first": lambda row: row[0],
        "last": lambda row: row[-1],
        "mean": lambda row: row.mean(0),
        "max": lambda row: row.amax(0),
    }[pooling]
    expected = torch.stack([head.choose(torch.tanh(head.pool(pool(row)))) for row in split_sequences(sequence_states)])
    torch.testing.assert_close(head(sequence_states), expected)


def test_label_head_losses_equal_torch_for_each_label_kind():
    sequence_states = states(3, 2, 4)
    single = initialize_head(LabelHead(WIDTH, 3, "first", dense=False))
    target = torch.tensor([2, -1, 0])
    logits = single(sequence_states)
    expected = functional.cross_entropy(logits[[0, 2]], target[[0, 2]], reduction="sum")
    torch.testing.assert_close(single.loss(sequence_states, target), expected)
    weighted = initialize_head(LabelHead(WIDTH, 3, "first", dense=False, class_weights=(1.0, 2.0, 5.0)))
    losses = functional.cross_entropy(logits[[0, 2]], target[[0, 2]], reduction="none")
    torch.testing.assert_close(weighted.loss(sequence_states, target), 5 * losses[0] + losses[1])
    multi_label = initialize_head(LabelHead(WIDTH, 3, "first", dense=False, kind="several"))
    gold = torch.tensor([[1, 0, 1], [-1, -1, -1], [0, 0, 1]])
    probs = torch.sigmoid(multi_label(sequence_states))
    by_hand = -sum(torch.log(probs[r, c] if gold[r, c] else 1 - probs[r, c]) for r in (0, 2) for c in range(3))
    torch.testing.assert_close(multi_label.loss(sequence_states, gold), by_hand)
    regression = initialize_head(LabelHead(WIDTH, 1, "first", dense=False, kind="number"))
    values = torch.tensor([0.5, float("nan"), -2.0])
    predicted = regression(sequence_states)[:, 0]
    torch.testing.assert_close(
        regression.loss(sequence_states, values), (predicted[0] - 0.5) ** 2 + (predicted[2] + 2) ** 2
    )


def test_label_head_averages_sequences_of_one_example():
    sequence_states = states(3, 2, 4, groups=[0, 0, 1])
    head = initialize_head(LabelHead(WIDTH, 3, "last", dense=False))
    sequences = split_sequences(sequence_states)
    expected = torch.stack([head.choose((sequences[0][-1] + sequences[1][-1]) / 2), head.choose(sequences[2][-1])])
    torch.testing.assert_close(head(sequence_states), expected)
    assert head.choose.bias is None  # softmax(hW), as in the paper


def test_choice_head_is_softmax_over_sequences_of_an_example():
    sequence_states = states(3, 2, 4, 2, 2, groups=[0, 0, 0, 1, 1])
    head = initialize_head(ChoiceHead(WIDTH, "first", dense=True))
    scores = head(sequence_states)
    expected = functional.cross_entropy(scores[None, :3], torch.tensor([1]))
    expected += functional.cross_entropy(scores[None, 3:], torch.tensor([0]))
    torch.testing.assert_close(head.loss(sequence_states, torch.tensor([1, 0])), expected)
    second_only = functional.cross_entropy(scores[None, 3:], torch.tensor([0]))
    torch.testing.assert_close(head.loss(sequence_states, torch.tensor([-1, 0])), second_only)


def test_pointer_head_is_softmax_over_tokens_of_a_sequence():
    sequence_states = states(3, 5)
    head = initialize_head(PointerHead(WIDTH))
    first, second = head(sequence_states).split([3, 5])
    expected = -torch.log_softmax(first, 0)[2] - torch.log_softmax(second, 0)[0]
    torch.testing.assert_close(head.loss(sequence_states, torch.tensor([2, 0])), expected)


@pytest.mark.parametrize("crf", [False, True])
def test_tag_head_is_supervised_at_first_token_of_words(crf: bool):
    tags = ("O", "B-X", "I-X", "E-X", "S-X")
    sequence_states = states(4, 3)
    head = initialize_head(TagHead(WIDTH, 5, crf=CRFLayer(*iobes_transitions(tags)) if crf else None))
    target = torch.tensor([-1, 0, -1, 4, 1, -1, 3])
    logits = head(sequence_states)[[1, 3, 4, 6]]
    if crf:
        expected = head.crf.loss(logits, (2, 2), torch.tensor([0, 4, 1, 3]))
    else:
        expected = functional.cross_entropy(logits, torch.tensor([0, 4, 1, 3]), reduction="sum")
    torch.testing.assert_close(head.loss(sequence_states, target), expected)


def test_scalar_mix_starts_as_mean_and_learns_layer_weights():
    sequence_states = states(3, 2)
    mixture = ScalarMix(2)
    mixture.layer_bias = torch.nn.Parameter(torch.zeros(3))
    mixture.gain_bias = torch.nn.Parameter(torch.zeros(1))
    token_indices = torch.tensor([0, 4])
    mean = torch.stack([layer[token_indices] for layer in sequence_states.layers]).mean(0)
    torch.testing.assert_close(mixture(sequence_states, token_indices), mean)
    mixture.layer_bias.data = torch.tensor([0.0, 1.0, 2.0])
    mixture.gain_bias.data = torch.tensor([0.5])
    s = torch.softmax(torch.tensor([0.0, 1.0, 2.0]), 0)
    expected = 1.5 * sum(weight * layer[token_indices] for weight, layer in zip(s, sequence_states.layers, strict=True))
    torch.testing.assert_close(mixture(sequence_states, token_indices), expected)
    torch.testing.assert_close(mixture.weights.sum(), torch.tensor(1.0))


def test_label_head_accepts_partially_computed_last_layer():
    """The last layer may hold supervised tokens only."""
    full = states(3, 4)
    positions = torch.tensor([0, 3])
    partial = States([*full.layers[:-1], full.last[positions]], full.lengths, positions)
    head = initialize_head(LabelHead(WIDTH, 3, "first", dense=True, mixture=ScalarMix(2)))
    torch.testing.assert_close(head(partial), head(full))


def test_pad_scores_and_group_means():
    padded = pad_scores(torch.tensor([1.0, 2.0, 3.0]), (1, 2))
    assert padded.tolist() == [[1.0, float("-inf")], [2.0, 3.0]]
    x = torch.arange(6.0).view(3, 2)
    assert group_means(x, torch.tensor([0, 0, 2]), 3).tolist() == [[1.0, 2.0], [0.0, 0.0], [4.0, 5.0]]
