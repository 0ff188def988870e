"""Gradients by distance: a linear recurrence whose answer is known, a window that ends, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import forebear as fb
from forebear.errors import ForebearError, InputError
from forebear.inspection import gradient_distance
from forebear.inspection.gradient_distance import NUM_DIRECTIONS, GradientReach, gradient_norms
from forebear.nn.encoder import States
from small_runs import opened, text

WIDTH = 6


class Linear(nn.Module):
    """h = W h + x, so that d(u · h) / d x, k tokens back, is u W^k."""

    sees, depth, context, width = "past", 1, None, WIDTH

    def __init__(self, w: Tensor) -> None:
        super().__init__()
        self.w, self.embedding = (
            w,
            nn.Embedding(9, WIDTH).requires_grad_(False),
        )  # what does not learn has gradients too

    def forward(self, tokens: Tensor, lengths: list[int]) -> States:
        x = self.embedding(tokens)
        made = []
        for row in x.split(lengths):
            h = torch.zeros(WIDTH)
            for one in row:
                h = self.w @ h + one
                made.append(h)
        return States([x, torch.stack(made)], tuple(lengths))


def turned(scale: float) -> Tensor:
    made, _ = torch.linalg.qr(torch.randn(WIDTH, WIDTH, generator=torch.Generator().manual_seed(1)))
    return scale * made


def measured(w: Tensor, far: int = 12) -> GradientReach:
    rows = [np.arange(begin, begin + 15) % 9 for begin in range(3)]
    return GradientReach("linear", gradient_norms(Linear(w), rows, far), 3)


def test_a_linear_recurrence_by_hand():
    w = torch.randn(WIDTH, WIDTH, generator=torch.Generator().manual_seed(2)) / 2
    chance = torch.Generator().manual_seed(0)
    drawn = [torch.randn(3, WIDTH, generator=chance) for _ in range(NUM_DIRECTIONS)]
    u = torch.cat([one / one.norm(dim=1, keepdim=True) for one in drawn]).double()
    expected = []
    for _ in range(13):
        expected.append(float(u.norm(dim=1).mean()))
        u = u @ w.double()
    np.testing.assert_allclose(measured(w).magnitudes, expected, rtol=1e-5)


@pytest.mark.parametrize(("scale", "verdict"), [
    (0.25, "vanishes: halves every 0.5 tokens; 6.0e-08 is left after 12"),
    (1.0, "survives: "),
    (0.9, "survives: halves every 6.6 tokens; 2.8e-01 is left after 12"),
    (4.0, "explodes: doubles every 0.5 tokens; 1.7e+07 is left after 12"),
])  # fmt: skip
def test_a_rotation_keeps_shrinks_or_grows(scale: float, verdict: str):
    found = measured(turned(scale))
    np.testing.assert_allclose(found.relative, scale ** np.arange(13), rtol=1e-4)
    assert found.factor == pytest.approx(scale, rel=1e-4)
    assert found.conclusion.startswith(verdict)
    assert not found.is_cut_off


def test_what_floats_cannot_hold_has_vanished_and_is_not_cut_off():
    faded, cut = np.array([1.0, 1e-20, 1e-40, 0.0]), np.array([1.0, 0.5, 0.25, 0.0])
    assert GradientReach("a", faded, 1).conclusion.startswith("vanishes")
    assert "nothing further back than 2 tokens" in GradientReach("b", cut, 1).conclusion


def test_runs_that_look_back(tmp_path: Path):
    words = {"tokenizer": "words", "steps": 3}
    window = opened("nnlm", tmp_path, to="nnlm", **words)
    network = opened("gpt2", tmp_path, to="gpt2", **words)
    texts = text(20).split("\n\n")
    near, far = fb.gradient_reach([window, network], texts, max_distance=20)
    assert near.is_cut_off
    assert near.farthest == window.network.encoder.window - 1
    assert (far.max_distance, far.limit) == (15, "its context is 16 tokens")
    assert (far.magnitudes > 0).all()
    again = fb.gradient_reach(network, texts, max_distance=20)[0]
    np.testing.assert_array_equal(far.magnitudes, again.magnitudes)
    assert all(parameter.grad is None for parameter in network.network.parameters())
    assert gradient_distance.plot_gradient_reach([near, far], "png").startswith(b"\x89PNG")
    with pytest.raises(InputError, match="long enough to look 15 tokens back"):
        fb.gradient_reach(network, "The cat sat.", max_distance=20)
    with pytest.raises(InputError, match="--far is 0"):
        fb.gradient_reach(network, texts, max_distance=0)


def test_what_does_not_look_back_is_refused(tmp_path: Path):
    for name, what in (("bert", "does not only look back"), ("ngram", "has no network")):
        with pytest.raises(InputError, match=what):
            fb.gradient_reach(opened(name, tmp_path, to=name, **({"steps": 1} if name == "bert" else {})), "a text")
    with pytest.raises(InputError, match="no run"):
        fb.gradient_reach([], "a text")


def test_states_that_do_not_depend_on_their_tokens():
    class Deaf(Linear):
        def forward(self, tokens: Tensor, lengths: list[int]) -> States:
            x = self.embedding(tokens)
            return States([x, torch.zeros(len(x), WIDTH, requires_grad=True)], tuple(lengths))

    with pytest.raises(ForebearError, match="do not depend"):
        gradient_norms(Deaf(turned(1.0)), [np.zeros(15, np.int64)], 12)
