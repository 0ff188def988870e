"""Gradient magnitude by distance: recurrences with known gradients, finite context windows, and invalid input."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import forebear as fb
from forebear.errors import ForebearError, InputError
from forebear.inspection import gradient_reach
from forebear.inspection.gradient_reach import NUM_DIRECTIONS, GradientReach, gradient_norms
from forebear.nn.encoder import States
from small_runs import open_small_run, small_text

WIDTH = 6


class LinearRecurrence(nn.Module):
    """h = W h + x, so that d(u · h) / d x, k tokens back, is u W^k."""

    sees, depth, context, width = "past", 1, None, WIDTH

    def __init__(self, w: Tensor) -> None:
        super().__init__()
        # Frozen parameters receive gradients too
        self.w, self.embedding = (
            w,
            nn.Embedding(9, WIDTH).requires_grad_(False),
        )

    def forward(self, tokens: Tensor, lengths: list[int]) -> States:
        x = self.embedding(tokens)
        states = []
        for row in x.split(lengths):
            h = torch.zeros(WIDTH)
            for vector in row:
                h = self.w @ h + vector
                states.append(h)
        return States([x, torch.stack(states)], tuple(lengths))


def scaled_rotation(scale: float) -> Tensor:
    rotation, _ = torch.linalg.qr(torch.randn(WIDTH, WIDTH, generator=torch.Generator().manual_seed(1)))
    return scale * rotation


def linear_reach(w: Tensor, max_distance: int = 12) -> GradientReach:
    token_rows = [np.arange(start, start + 15) % 9 for start in range(3)]
    return GradientReach("linear", gradient_norms(LinearRecurrence(w), token_rows, max_distance), 3)


def test_gradient_magnitudes_of_linear_recurrence_match_matrix_powers():
    w = torch.randn(WIDTH, WIDTH, generator=torch.Generator().manual_seed(2)) / 2
    generator = torch.Generator().manual_seed(0)
    directions = [torch.randn(3, WIDTH, generator=generator) for _ in range(NUM_DIRECTIONS)]
    u = torch.cat([direction / direction.norm(dim=1, keepdim=True) for direction in directions]).double()
    expected = []
    for _ in range(13):
        expected.append(float(u.norm(dim=1).mean()))
        u = u @ w.double()
    np.testing.assert_allclose(linear_reach(w).norms, expected, rtol=1e-5)


@pytest.mark.parametrize(("scale", "verdict"), [
    (0.25, "vanishes: halves every 0.5 tokens; 6.0e-08 is left after 12"),
    (1.0, "survives: "),
    (0.9, "survives: halves every 6.6 tokens; 2.8e-01 is left after 12"),
    (4.0, "explodes: doubles every 0.5 tokens; 1.7e+07 is left after 12"),
])  # fmt: skip
def test_gradient_reach_of_scaled_rotation_vanishes_survives_or_explodes(scale: float, verdict: str):
    reach = linear_reach(scaled_rotation(scale))
    np.testing.assert_allclose(reach.relative, scale ** np.arange(13), rtol=1e-4)
    assert reach.decay_per_token == pytest.approx(scale, rel=1e-4)
    assert reach.conclusion.startswith(verdict)
    assert not reach.is_cut_off


def test_gradient_underflow_counts_as_vanishing_not_as_cut_off():
    underflowing, windowed = np.array([1.0, 1e-20, 1e-40, 0.0]), np.array([1.0, 0.5, 0.25, 0.0])
    assert GradientReach("a", underflowing, 1).conclusion.startswith("vanishes")
    assert "nothing further back than 2 tokens" in GradientReach("b", windowed, 1).conclusion


def test_gradient_reach_of_nnlm_ends_at_its_window_and_of_gpt2_at_its_context(tmp_path: Path):
    settings = {"tokenizer": "words", "steps": 3}
    nnlm = open_small_run("nnlm", tmp_path, to="nnlm", **settings)
    gpt2 = open_small_run("gpt2", tmp_path, to="gpt2", **settings)
    texts = small_text(20).split("\n\n")
    nnlm_reach, gpt2_reach = fb.gradient_reach([nnlm, gpt2], texts, max_distance=20)
    assert nnlm_reach.is_cut_off
    assert nnlm_reach.max_nonzero_distance == nnlm.network.encoder.window - 1
    assert (gpt2_reach.max_distance, gpt2_reach.limit) == (15, "its context is 16 tokens")
    assert (gpt2_reach.norms > 0).all()
    repeated = fb.gradient_reach(gpt2, texts, max_distance=20)[0]
    np.testing.assert_array_equal(gpt2_reach.norms, repeated.norms)
    assert all(parameter.grad is None for parameter in gpt2.network.parameters())
    assert gradient_reach.plot_gradient_reach([nnlm_reach, gpt2_reach], "png").startswith(b"\x89PNG")
    with pytest.raises(InputError, match="long enough to look 15 tokens back"):
        fb.gradient_reach(gpt2, "The cat sat.", max_distance=20)
    with pytest.raises(InputError, match="--far is 0"):
        fb.gradient_reach(gpt2, texts, max_distance=0)


def test_gradient_reach_refuses_bidirectional_and_count_based_models(tmp_path: Path):
    for name, message in (("bert", "does not only look back"), ("ngram", "has no network")):
        with pytest.raises(InputError, match=message):
            fb.gradient_reach(
                open_small_run(name, tmp_path, to=name, **({"steps": 1} if name == "bert" else {})), "a text"
            )
    with pytest.raises(InputError, match="no run"):
        fb.gradient_reach([], "a text")


def test_gradient_sizes_refuse_states_independent_of_the_tokens():
    class ConstantEncoder(LinearRecurrence):
        def forward(self, tokens: Tensor, lengths: list[int]) -> States:
            x = self.embedding(tokens)
            return States([x, torch.zeros(len(x), WIDTH, requires_grad=True)], tuple(lengths))

    with pytest.raises(ForebearError, match="do not depend"):
        gradient_norms(ConstantEncoder(scaled_rotation(1.0)), [np.zeros(15, np.int64)], 12)
