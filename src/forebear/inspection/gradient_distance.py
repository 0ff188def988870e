"""How far back a run can learn from: the size of the gradient by distance.

A run that looks back has a state at each token. How much that state depends on the vector of the token k places before
it is the size of a derivative, and it is also what a mistake here can teach about there. In a plain recurrent network
it is a product of k matrices, and vanishes or explodes (Hochreiter 1991, Bengio et al. 1994); gates, and attention,
were made to keep it.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from forebear.data.tokenizers.char_level import replace_surrogates
from forebear.errors import ForebearError, InputError
from forebear.inference.predictor import non_finite_error
from forebear.inspection.embedding_plots import CLUSTER_COLORS
from forebear.reports.plotting import FAINT, SOFT, figure_bytes, new_figure, plot_style, shorten_label

if TYPE_CHECKING:
    from forebear.inference.run import Run
    from forebear.nn.encoder import Encoder

FAR = 50  # tokens back, where nobody says how far
PLACES = 32  # tokens that are asked
DIRECTIONS = 4  # in which each state is looked at
MAX_CHARACTERS = 400_000  # of text that are enough to choose places from
VANISHED, EXPLODED = 1e-4, 1e4  # what is left after FAR tokens at the pace at which it shrinks or grows
NOTHING = 1e-30  # below is what floats cannot hold: the derivative vanished, and is not cut off


@dataclass(frozen=True, eq=False)
class GradientReach:
    """How much a state depends on the token so many places before it.

    sizes   (far + 1,) |d(u · state) / d vector|, the mean over places and directions u of length 1; 0 is the token
            itself
    places  how many tokens were asked
    limit   why it is not looked at further back, where the run sets a limit
    """

    name: str
    magnitudes: np.ndarray
    num_positions: int
    limit: str = ""

    @property
    def max_distance(self) -> int:
        return len(self.magnitudes) - 1

    @property
    def relative(self) -> np.ndarray:
        """(far + 1,) of what it is at the token itself."""
        return self.magnitudes / max(float(self.magnitudes[0]), 1e-300)

    @property
    def farthest(self) -> int:
        """The furthest token that changes anything."""
        return int(np.flatnonzero(self.magnitudes)[-1]) if self.magnitudes.any() else 0

    @property
    def is_cut(self) -> bool:
        """Whether it ends at some distance, and does not fade."""
        return self.farthest < self.max_distance and float(self.magnitudes[self.farthest]) > NOTHING

    @property
    def factor(self) -> float | None:
        """What is left of it with each token further back, on average: the slope of its logarithm."""
        at = np.arange(1, self.farthest + 1)
        if len(at) < 2:
            return None
        return math.exp(float(np.polyfit(at, np.log(self.magnitudes[at]), 1)[0]))

    @property
    def remaining_fraction(self) -> float:
        """At the furthest token, of what there is at the token itself."""
        return float(self.relative[-1])

    @property
    def conclusion(self) -> str:
        if self.is_cut:
            return f"is cut off: nothing further back than {self.farthest} tokens is seen"
        if self.factor is None:
            return "was looked at over too few tokens to be told"
        pace = math.log(2) / abs(math.log(self.factor)) if self.factor != 1 else math.inf
        every = f"every {pace:.1f} tokens" if pace < self.max_distance else f"in no {self.max_distance} tokens"
        halves = f"{'halves' if self.factor <= 1 else 'doubles'} {every}; {self.remaining_fraction:.1e} is left after {self.max_distance}"
        much = FAR * math.log(self.factor)
        if much < math.log(VANISHED):
            return f"vanishes: {halves}"
        return f"explodes: {halves}" if much > math.log(EXPLODED) else f"survives: {halves}"

    def to_dict(self) -> dict[str, Any]:
        factor = self.factor
        told: dict[str, Any] = {"run": self.name, "verdict": self.conclusion, "places": self.num_positions}
        told |= {
            "factor_per_token": None if factor is None else float(f"{factor:.6g}"),
            "left": float(f"{self.remaining_fraction:.4g}"),
        }
        told |= {"reaches": self.farthest, "limit": self.limit}
        told["by_distance"] = [
            {"distance": distance, "size": float(f"{size:.6g}"), "relative": float(f"{share:.6g}")}
            for distance, (size, share) in enumerate(zip(self.magnitudes.tolist(), self.relative.tolist(), strict=True))
        ]
        return told


def gradient_reach(
    runs: Run | Sequence[Run], texts: str | Sequence[str], *, far: int | None = None
) -> list[GradientReach]:
    """Of each run, on the same texts, up to `far` tokens back."""
    given = [texts] if isinstance(texts, str) else list(texts)
    several = list(runs) if isinstance(runs, Sequence) else [runs]
    if not several:
        raise InputError("there is no run", hint="name at least one run that looks back (rnn, lstm, gpt2, …)")
    return [reach(run, given, FAR if far is None else far) for run in several]


def reach(run: Run, texts: Sequence[str], far: int) -> GradientReach:
    if far < 1:
        raise InputError(f"--far is {far}", hint="look at least 1 token back")
    encoder = _encoder(run)
    limit = ""
    if encoder.max_length is not None and far >= encoder.max_length:
        far = encoder.max_length - 1
        limit = f"its context is {encoder.max_length:,} tokens"
    rows = _windows(_rows(run, texts), far, min(2 * far + 1, encoder.max_length or 2 * far + 1))
    if not rows:
        what = f"no text is long enough to look {far:,} tokens back"
        raise InputError(what, hint="give a longer one (--in FILE), or look less far: --far 10")
    return GradientReach(run.name, sizes_of(encoder, rows, far, run.model.device), len(rows), limit)


def _encoder(run: Run) -> Encoder:
    """One that looks back."""
    hint = "look at a run that predicts the next token (nnlm, rnn, lstm, gpt2, …)"
    if run.folder.spec.learning != "descending":
        raise InputError("has no network whose gradients could be measured", file=run.folder.path, hint=hint)
    encoder = run.model.encoder
    if "translation" in run.heads or encoder.sees != "past":
        raise InputError(
            "does not only look back: its tokens see others than those before", file=run.folder.path, hint=hint
        )
    return encoder


def _rows(run: Run, texts: Sequence[str]) -> list[np.ndarray]:
    """The tokens of each text, behind what a text begins with; enough of them."""
    end, made, read = run.tokenizer.special_roles.get("end"), [], 0
    for text in texts:
        ids = run.tokenizer.encode(replace_surrogates(text[:MAX_CHARACTERS])).ids
        made.append(np.concatenate(([] if end is None else [end], ids)).astype(np.int64))
        read += len(text)
        if read >= MAX_CHARACTERS:
            break
    return made


def _windows(rows: Sequence[np.ndarray], far: int, most: int) -> list[np.ndarray]:
    """Stretches of rows that are long enough, evenly from all places; the last token of each is asked.

    None reaches over two texts: what is known of one may well be forgotten at the beginning of the next. They are
    equally long, and longer than is looked back where all rows are, so that a state has begun before.
    """
    rows = [row for row in rows if len(row) > far]
    if not rows:
        return []
    size = min(most, int(np.median([len(row) for row in rows])))
    rows = [row for row in rows if len(row) >= size]
    ends = np.cumsum([len(row) - size + 1 for row in rows])  # of the places at which a stretch may begin
    made = []
    for place in np.unique(np.linspace(0, ends[-1] - 1, PLACES).round().astype(int)).tolist():
        number = int(np.searchsorted(ends, place, side="right"))
        begin = place - (int(ends[number - 1]) if number else 0)
        made.append(rows[number][begin : begin + size])
    return made


def sizes_of(encoder: Encoder, rows: Sequence[np.ndarray], far: int, device: Any = None) -> np.ndarray:
    """(far + 1,) the mean size of the derivative of the last state of rows that are equally long, by the vectors of
    their tokens: of the last one, of the one before it, and so on."""
    import torch

    count, size = len(rows), len(rows[0])
    encoder.eval()
    with torch.enable_grad(), _as_beginning(encoder):
        states = encoder(torch.from_numpy(np.concatenate(rows)).to(device), [size] * count)
        vectors, last = states.layers[0], states.last
        if not vectors.requires_grad:
            raise ForebearError("the vectors of this encoder's tokens have no gradient")
        ends = last.reshape(count, size, -1)[:, -1]  # (rows, D)
        chance = torch.Generator().manual_seed(0)
        total = np.zeros(far + 1)
        for _ in range(DIRECTIONS):
            u = torch.randn(ends.shape, generator=chance).to(ends)
            seen = (ends * u / u.norm(dim=1, keepdim=True)).sum()
            (slope,) = torch.autograd.grad(seen, vectors, retain_graph=True, allow_unused=True)
            if slope is None:
                raise ForebearError("this encoder's states do not depend on the vectors of its tokens")
            norms = slope.double().reshape(count, size, -1).norm(dim=2).mean(0)  # (size,)
            total += norms.flip(0)[: far + 1].cpu().numpy()
    if not np.isfinite(total).all():
        raise non_finite_error()
    return total / DIRECTIONS


@contextmanager
def _as_beginning(encoder: Encoder) -> Iterator[None]:
    """While inside, derivatives begin at what the embedding gives, also of weights that do not learn."""
    embedding = encoder.embedding
    if embedding is None:
        yield
        return
    thread = threading.get_ident()  # others may ask the same network meanwhile

    def begun(_module: Any, _given: Any, output: Any) -> Any:
        return output.detach().requires_grad_() if threading.get_ident() == thread else None

    hook = embedding.register_forward_hook(begun)
    try:
        yield
    finally:
        hook.remove()


# Gradients by distance as a picture: a line for each run, on a logarithmic axis.


HIGH, LETTERS = 300, 11  # points: about what the lines take, and what a name does
LOWEST = 1e-12  # what is smaller is not drawn: a line that falls so far has vanished


def plot_gradient_reach(found: Sequence[GradientReach], form: str) -> bytes:
    names = [shorten_label(one.name, 30) for one in found]
    with plot_style([*names, *(one.conclusion for one in found)]):
        figure = new_figure(10.5, 5.9)
        axes = figure.subplots()
        lines = [_drawn(one) for one in found]
        for number, ((at, shares), one, name) in enumerate(zip(lines, found, names, strict=True)):
            how: Any = {
                "color": CLUSTER_COLORS[number % len(CLUSTER_COLORS)],
                "lw": 2,
                "marker": "o",
                "ms": 2.6,
                "zorder": 3,
            }
            axes.plot(at, shares, label=f"{name} {one.conclusion}", **how)
        for number, shift in enumerate(_shifts([float(shares[-1]) for _, shares in lines])):
            (at, shares), colour = lines[number], CLUSTER_COLORS[number % len(CLUSTER_COLORS)]
            told = f" {names[number]}" + (" ends here" if found[number].is_cut else "")
            place: Any = {"textcoords": "offset points", "va": "center", "color": colour}
            axes.annotate(told, (float(at[-1]), float(shares[-1])), (4, shift), **place)
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(lambda share, _: f"{share:g}" if share >= 1e-4 else f"{share:.0e}")
        axes.set_xlim(-0.5, max(one.max_distance for one in found) * 1.02)
        axes.set(xlabel="tokens back", ylabel="size of the gradient, of that at the token itself")
        axes.grid(color=FAINT, lw=0.5)
        axes.set_axisbelow(True)
        axes.tick_params(length=0, which="both", labelsize=8)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize=8.5, loc="upper left", bbox_to_anchor=(0, -0.11), labelcolor=SOFT)
        figure.suptitle("how much a state depends on the token so far back", fontsize=12)
        return figure_bytes(figure, form)


def _drawn(one: GradientReach) -> tuple[np.ndarray, np.ndarray]:
    """Distances and shares, as far as a line goes without a gap."""
    at = np.flatnonzero(one.relative > LOWEST)
    at = at[at == np.arange(len(at))]
    return at, one.relative[at]


def _shifts(ends: Sequence[float]) -> list[float]:
    """How many points the name at each line's end is moved down, so that none lies on another."""
    lowest, highest = math.log10(min(ends)), 0.0
    points = {
        number: (math.log10(end) - lowest) / max(highest - lowest, 1e-9) * HIGH for number, end in enumerate(ends)
    }
    moved, above = dict(points), math.inf
    for number in sorted(points, key=lambda number: -points[number]):
        above = moved[number] = min(points[number], above - LETTERS)
    return [moved[number] - points[number] for number in range(len(ends))]
