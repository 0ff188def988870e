"""Heads of tasks against plain torch on one row at a time: losses, averages, softmaxes over rows; the mixture."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from forebear.data.labeled.tag_schemes import legal_transitions
from forebear.nn.crf import CRFLayer
from forebear.nn.encoder import ScalarMix, States
from forebear.nn.heads import ChoiceHead, LabelHead, PointerHead, TagHead, group_means, pad_scores
from forebear.nn.layers import initial_values

WIDTH = 6


def filled(head: torch.nn.Module) -> torch.nn.Module:
    for name, value in initial_values(head, 3).items():
        owner, _, last = name.rpartition(".")
        module = head.get_submodule(owner)
        setattr(module, last, torch.nn.Parameter(value + 0.1))
    return head.eval()


def states(*lengths: int, groups: list[int] | None = None, depth: int = 2) -> States:
    generator = torch.Generator().manual_seed(sum(lengths))
    layers = [torch.randn(sum(lengths), WIDTH, generator=generator) for _ in range(depth + 1)]
    return States(layers, lengths, groups=None if groups is None else torch.tensor(groups))


def rows(given: States) -> list[torch.Tensor]:
    return list(given.last.split(list(given.lengths)))


@pytest.mark.parametrize("read", ["first", "last", "mean", "max"])
def test_the_vector_of_a_row(read: str):
    given = states(3, 1, 5)
    head = filled(LabelHead(WIDTH, 4, read, dense=True))
    picked = {
        "first": lambda row: row[0],
        "last": lambda row: row[-1],
        "mean": lambda row: row.mean(0),
        "max": lambda row: row.amax(0),
    }[read]
    wanted = torch.stack([head.choose(torch.tanh(head.pool(picked(row)))) for row in rows(given)])
    torch.testing.assert_close(head(given), wanted)


def test_losses_of_the_three_kinds_of_label():
    given = states(3, 2, 4)
    one = filled(LabelHead(WIDTH, 3, "first", dense=False))
    target = torch.tensor([2, -1, 0])
    logits = one(given)
    wanted = functional.cross_entropy(logits[[0, 2]], target[[0, 2]], reduction="sum")
    torch.testing.assert_close(one.loss(given, target), wanted)
    heavy = filled(LabelHead(WIDTH, 3, "first", dense=False, class_weights=(1.0, 2.0, 5.0)))
    losses = functional.cross_entropy(logits[[0, 2]], target[[0, 2]], reduction="none")
    torch.testing.assert_close(heavy.loss(given, target), 5 * losses[0] + losses[1])
    several = filled(LabelHead(WIDTH, 3, "first", dense=False, kind="several"))
    marks = torch.tensor([[1, 0, 1], [-1, -1, -1], [0, 0, 1]])
    yes = torch.sigmoid(several(given))
    by_hand = -sum(torch.log(yes[r, c] if marks[r, c] else 1 - yes[r, c]) for r in (0, 2) for c in range(3))
    torch.testing.assert_close(several.loss(given, marks), by_hand)
    number = filled(LabelHead(WIDTH, 1, "first", dense=False, kind="number"))
    values = torch.tensor([0.5, float("nan"), -2.0])
    said = number(given)[:, 0]
    torch.testing.assert_close(number.loss(given, values), (said[0] - 0.5) ** 2 + (said[2] + 2) ** 2)


def test_rows_of_one_example_are_averaged():
    given = states(3, 2, 4, groups=[0, 0, 1])
    head = filled(LabelHead(WIDTH, 3, "last", dense=False))
    row = rows(given)
    wanted = torch.stack([head.choose((row[0][-1] + row[1][-1]) / 2), head.choose(row[2][-1])])
    torch.testing.assert_close(head(given), wanted)
    assert head.choose.bias is None  # softmax(hW), as in the paper


def test_a_choice_is_a_softmax_over_the_rows_of_its_example():
    given = states(3, 2, 4, 2, 2, groups=[0, 0, 0, 1, 1])
    head = filled(ChoiceHead(WIDTH, "first", dense=True))
    scores = head(given)
    wanted = functional.cross_entropy(scores[None, :3], torch.tensor([1]))
    wanted += functional.cross_entropy(scores[None, 3:], torch.tensor([0]))
    torch.testing.assert_close(head.loss(given, torch.tensor([1, 0])), wanted)
    alone = functional.cross_entropy(scores[None, 3:], torch.tensor([0]))
    torch.testing.assert_close(head.loss(given, torch.tensor([-1, 0])), alone)


def test_a_place_is_a_softmax_over_the_row():
    given = states(3, 5)
    head = filled(PointerHead(WIDTH))
    first, second = head(given).split([3, 5])
    wanted = -torch.log_softmax(first, 0)[2] - torch.log_softmax(second, 0)[0]
    torch.testing.assert_close(head.loss(given, torch.tensor([2, 0])), wanted)


@pytest.mark.parametrize("crf", [False, True])
def test_tags_are_asked_where_a_word_begins(crf: bool):
    tags = ("O", "B-X", "I-X", "E-X", "S-X")
    given = states(4, 3)
    head = filled(TagHead(WIDTH, 5, crf=CRFLayer(*legal_transitions(tags)) if crf else None))
    target = torch.tensor([-1, 0, -1, 4, 1, -1, 3])
    logits = head(given)[[1, 3, 4, 6]]
    if crf:
        wanted = head.crf.loss(logits, (2, 2), torch.tensor([0, 4, 1, 3]))
    else:
        wanted = functional.cross_entropy(logits, torch.tensor([0, 4, 1, 3]), reduction="sum")
    torch.testing.assert_close(head.loss(given, target), wanted)


def test_a_mixture_begins_as_the_mean_and_learns_its_weights():
    given = states(3, 2)
    mixture = ScalarMix(2)
    mixture.layer_bias = torch.nn.Parameter(torch.zeros(3))
    mixture.gain_bias = torch.nn.Parameter(torch.zeros(1))
    numbers = torch.tensor([0, 4])
    mean = torch.stack([layer[numbers] for layer in given.layers]).mean(0)
    torch.testing.assert_close(mixture(given, numbers), mean)
    mixture.layer_bias.data = torch.tensor([0.0, 1.0, 2.0])
    mixture.gain_bias.data = torch.tensor([0.5])
    s = torch.softmax(torch.tensor([0.0, 1.0, 2.0]), 0)
    wanted = 1.5 * sum(weight * layer[numbers] for weight, layer in zip(s, given.layers, strict=True))
    torch.testing.assert_close(mixture(given, numbers), wanted)
    torch.testing.assert_close(mixture.weights.sum(), torch.tensor(1.0))


def test_where_only_some_tokens_were_computed():
    """The last layer may hold the asked tokens alone; heads find theirs in it."""
    whole = states(3, 4)
    kept = torch.tensor([0, 3])
    some = States([*whole.layers[:-1], whole.last[kept]], whole.lengths, kept)
    head = filled(LabelHead(WIDTH, 3, "first", dense=True, mixture=ScalarMix(2)))
    torch.testing.assert_close(head(some), head(whole))


def test_laying_out_and_averaging():
    table = pad_scores(torch.tensor([1.0, 2.0, 3.0]), (1, 2))
    assert table.tolist() == [[1.0, float("-inf")], [2.0, 3.0]]
    x = torch.arange(6.0).view(3, 2)
    assert group_means(x, torch.tensor([0, 0, 2]), 3).tolist() == [[1.0, 2.0], [0.0, 0.0], [4.0, 5.0]]
