"""Gradient by distance: how strongly a causal model's state depends on the token k positions before it.

The size of this derivative limits what the loss at one token can teach about an earlier one. In a plain RNN it is a
product of k matrices, which vanishes or explodes (Hochreiter 1991, Bengio et al. 1994); gates and attention were
designed to preserve it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from forebear.data.unicode import replace_surrogates
from forebear.errors import ForebearError, InputError
from forebear.inference.predictor_protocols import non_finite_error
from forebear.inspection.embedding_visualization import cluster_color
from forebear.reports.plotting import FAINT, SOFT, figure_bytes, new_figure, plot_style, shorten_label

if TYPE_CHECKING:
    from forebear.inference.run import Run
    from forebear.nn.encoder import Encoder

DEFAULT_DISTANCE = 50  # maximum distance in tokens
NUM_POSITIONS = 32  # sampled positions
NUM_DIRECTIONS = 4  # random directions per state
MAX_CHARACTERS = 400_000  # of text to sample positions from
VANISHED, EXPLODED = 1e-4, 1e4  # relative norm after DEFAULT_DISTANCE tokens
MIN_NORM = 1e-30  # smaller norms have vanished by underflow and are not a cut-off


@dataclass(frozen=True, eq=False)
class GradientReach:
    """Gradient size by distance.

    norms          (max_distance + 1,) mean |d(u · state) / d vector| over positions and unit directions u;
                   0 is the token itself
    num_positions  number of positions
    limit          why the distance is limited, if it is
    """

    name: str
    norms: np.ndarray
    num_positions: int
    limit: str = ""

    @property
    def max_distance(self) -> int:
        return len(self.norms) - 1

    @property
    def relative(self) -> np.ndarray:
        """(max_distance + 1,) norms relative to the token itself."""
        return self.norms / max(float(self.norms[0]), 1e-300)

    @property
    def max_nonzero_distance(self) -> int:
        """Distance of the farthest token with any effect."""
        return int(np.flatnonzero(self.norms)[-1]) if self.norms.any() else 0

    @property
    def is_cut_off(self) -> bool:
        """Whether the gradient ends at some distance instead of fading."""
        return self.max_nonzero_distance < self.max_distance and float(self.norms[self.max_nonzero_distance]) > MIN_NORM

    @property
    def decay_per_token(self) -> float | None:
        """Mean factor of the norm per token: the slope of its logarithm."""
        distances = np.arange(1, self.max_nonzero_distance + 1)
        if len(distances) < 2:
            return None
        return math.exp(float(np.polyfit(distances, np.log(self.norms[distances]), 1)[0]))

    @property
    def remaining_fraction(self) -> float:
        """Relative size at the maximum distance."""
        return float(self.relative[-1])

    @property
    def conclusion(self) -> str:
        if self.is_cut_off:
            return f"is cut off: nothing further back than {self.max_nonzero_distance} tokens is seen"
        if self.decay_per_token is None:
            return "was looked at over too few tokens to be told"
        half_life = math.log(2) / abs(math.log(self.decay_per_token)) if self.decay_per_token != 1 else math.inf
        is_within = half_life < self.max_distance
        interval = f"every {half_life:.1f} tokens" if is_within else f"in no {self.max_distance} tokens"
        rate = f"{'halves' if self.decay_per_token <= 1 else 'doubles'} {interval}"
        rate += f"; {self.remaining_fraction:.1e} is left after {self.max_distance}"
        log_change = DEFAULT_DISTANCE * math.log(self.decay_per_token)
        if log_change < math.log(VANISHED):
            return f"vanishes: {rate}"
        return f"explodes: {rate}" if log_change > math.log(EXPLODED) else f"survives: {rate}"

    def to_dict(self) -> dict[str, Any]:
        values = zip(self.norms.tolist(), self.relative.tolist(), strict=True)
        by_distance = [
            {"distance": distance, "size": float(f"{norm:.6g}"), "relative": float(f"{relative:.6g}")}
            for distance, (norm, relative) in enumerate(values)
        ]
        data: dict[str, Any] = {"run": self.name, "verdict": self.conclusion, "places": self.num_positions}
        data |= {"factor_per_token": None if self.decay_per_token is None else float(f"{self.decay_per_token:.6g}")}
        data |= {"left": float(f"{self.remaining_fraction:.4g}"), "reaches": self.max_nonzero_distance}
        return data | {"limit": self.limit, "by_distance": by_distance}


def gradient_reach(
    runs: Run | Sequence[Run], texts: str | Sequence[str], *, max_distance: int | None = None
) -> list[GradientReach]:
    """Gradient by distance for each run, on the same texts, up to `max_distance` tokens."""
    text_list = [texts] if isinstance(texts, str) else list(texts)
    run_list = list(runs) if isinstance(runs, Sequence) else [runs]
    if not run_list:
        raise InputError("there is no run", hint="name at least one run that looks back (rnn, lstm, gpt2, …)")
    distance = DEFAULT_DISTANCE if max_distance is None else max_distance
    return [measure_reach(run, text_list, distance) for run in run_list]


def measure_reach(run: Run, texts: Sequence[str], max_distance: int) -> GradientReach:
    if max_distance < 1:
        raise InputError(f"--far is {max_distance}", hint="look at least 1 token back")
    encoder, limit = _causal_encoder(run), ""
    if encoder.max_length is not None and max_distance >= encoder.max_length:
        max_distance = encoder.max_length - 1
        limit = f"its context is {encoder.max_length:,} tokens"
    window_size = 2 * max_distance + 1
    rows = _windows(_token_rows(run, texts), max_distance, min(window_size, encoder.max_length or window_size))
    if not rows:
        message = f"no text is long enough to look {max_distance:,} tokens back"
        raise InputError(message, hint="give a longer one (--in FILE), or look less far: --far 10")
    return GradientReach(run.name, gradient_norms(encoder, rows, max_distance, run.model.device), len(rows), limit)


def _causal_encoder(run: Run) -> Encoder:
    """The run's encoder, which must be causal."""
    hint = "look at a run that predicts the next token (nnlm, rnn, lstm, gpt2, …)"
    if run.folder.spec.learning != "descending":
        raise InputError("has no network whose gradients could be measured", file=run.folder.path, hint=hint)
    encoder = run.model.encoder
    if "translation" in run.heads or encoder.sees != "past":
        message = "does not only look back: its tokens see others than those before"
        raise InputError(message, file=run.folder.path, hint=hint)
    return encoder


def _token_rows(run: Run, texts: Sequence[str]) -> list[np.ndarray]:
    """Token ids of the texts, each with a start token, up to MAX_CHARACTERS."""
    eos_id, rows, num_characters = run.tokenizer.special_roles.get("end"), [], 0
    for text in texts:
        ids = run.tokenizer.encode(replace_surrogates(text[:MAX_CHARACTERS])).ids
        rows.append(np.concatenate(([] if eos_id is None else [eos_id], ids)).astype(np.int64))
        num_characters += len(text)
        if num_characters >= MAX_CHARACTERS:
            break
    return rows


def _windows(rows: Sequence[np.ndarray], max_distance: int, max_size: int) -> list[np.ndarray]:
    """Equally long windows within texts, sampled evenly; gradients are measured from the last token of each.

    Windows do not cross texts, since models reset at document boundaries. They are longer than the maximum distance if
    all texts are, so that the state has warmed up.
    """
    rows = [row for row in rows if len(row) > max_distance]
    if not rows:
        return []
    window_size = min(max_size, int(np.median([len(row) for row in rows])))
    starts = [(row, start) for row in rows for start in range(len(row) - window_size + 1)]
    indices = np.unique(np.linspace(0, len(starts) - 1, NUM_POSITIONS).round().astype(int)).tolist()
    return [row[start : start + window_size] for row, start in (starts[number] for number in indices)]


def gradient_norms(encoder: Encoder, rows: Sequence[np.ndarray], max_distance: int, device: Any = None) -> np.ndarray:
    """(max_distance + 1,) mean norm of the gradient of the last state by each token's vector, the last token first."""
    import torch

    from forebear.inspection.gradients import embedding_hook
    from forebear.nn.inference_mode import inference_mode

    num_rows, row_length = len(rows), len(rows[0])
    encoder.eval()
    detached_embedding: AbstractContextManager[None] = nullcontext()
    if encoder.embedding is not None:  # gradients start at its output, also for frozen weights
        detached_embedding = embedding_hook(encoder.embedding, lambda output: output.detach().requires_grad_())
    with inference_mode(False), detached_embedding:
        states = encoder(torch.from_numpy(np.concatenate(rows)).to(device), [row_length] * num_rows)
        vectors, last_layer = states.layers[0], states.last
        if not vectors.requires_grad:
            raise ForebearError("the vectors of this encoder's tokens have no gradient")
        last_states = last_layer.reshape(num_rows, row_length, -1)[:, -1]  # (rows, D)
        generator = torch.Generator().manual_seed(0)
        norm_sum = np.zeros(max_distance + 1)
        for _ in range(NUM_DIRECTIONS):
            directions = torch.randn(last_states.shape, generator=generator).to(last_states)
            projection = (last_states * directions / directions.norm(dim=1, keepdim=True)).sum()
            (grad,) = torch.autograd.grad(projection, vectors, retain_graph=True, allow_unused=True)
            if grad is None:
                raise ForebearError("this encoder's states do not depend on the vectors of its tokens")
            norms = grad.double().reshape(num_rows, row_length, -1).norm(dim=2).mean(0)  # (size,)
            norm_sum += norms.flip(0)[: max_distance + 1].cpu().numpy()
    if not np.isfinite(norm_sum).all():
        raise non_finite_error()
    return norm_sum / NUM_DIRECTIONS


# --- Figure: a line per run, logarithmic axis ---

PLOT_HEIGHT, LABEL_POINTS = 300, 11  # in points: approximate heights of the plot and of a label
MIN_PLOTTED = 1e-12  # smaller values are not drawn


def plot_gradient_reach(reaches: Sequence[GradientReach], file_format: str) -> bytes:
    names = [shorten_label(reach.name, 30) for reach in reaches]
    with plot_style([*names, *(reach.conclusion for reach in reaches)]):
        figure = new_figure(10.5, 5.9)
        axes = figure.subplots()
        curve_lengths = [int(np.append(reach.relative > MIN_PLOTTED, False).argmin()) for reach in reaches]
        curves = [reach.relative[:end] for reach, end in zip(reaches, curve_lengths, strict=True)]
        shifts = _label_shifts([float(curve[-1]) for curve in curves])
        style: Any = {"lw": 2, "marker": "o", "ms": 2.6, "zorder": 3}
        text_options: Any = {"textcoords": "offset points", "va": "center"}
        for index, (reach, curve, name, shift) in enumerate(zip(reaches, curves, names, shifts, strict=True)):
            color, label = cluster_color(index), f" {name}" + (" ends here" if reach.is_cut_off else "")
            axes.plot(curve, label=f"{name} {reach.conclusion}", color=color, **style)
            axes.annotate(label, (len(curve) - 1, float(curve[-1])), (4, shift), color=color, **text_options)
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}" if value >= 1e-4 else f"{value:.0e}")
        axes.set_xlim(-0.5, max(reach.max_distance for reach in reaches) * 1.02)
        axes.set(xlabel="tokens back", ylabel="size of the gradient, of that at the token itself")
        axes.grid(color=FAINT, lw=0.5)
        axes.set_axisbelow(True)
        axes.tick_params(length=0, which="both", labelsize=8)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize=8.5, loc="upper left", bbox_to_anchor=(0, -0.11), labelcolor=SOFT)
        figure.suptitle("how much a state depends on the token so far back", fontsize=12)
        return figure_bytes(figure, file_format)


def _label_shifts(end_values: Sequence[float]) -> list[float]:
    """Vertical shifts in points that separate the labels at line ends."""
    min_log = math.log10(min(end_values))
    points = [(math.log10(value) - min_log) / max(-min_log, 1e-9) * PLOT_HEIGHT for value in end_values]
    shifts, upper_limit = [0.0] * len(end_values), math.inf
    for index in sorted(range(len(end_values)), key=lambda index: -points[index]):
        upper_limit = min(points[index], upper_limit - LABEL_POINTS)
        shifts[index] = upper_limit - points[index]
    return shifts
