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

from forebear.errors import BadInput, ForebearError
from forebear.text.characters import sound
from forebear.using.texts import no_numbers

if TYPE_CHECKING:
    from forebear.networks.states import Encoder
    from forebear.using.run import Run

FAR = 50  # tokens back, where nobody says how far
PLACES = 32  # tokens that are asked
DIRECTIONS = 4  # in which each state is looked at
CHARACTERS = 400_000  # of text that are enough to choose places from
VANISHED, EXPLODED = 1e-4, 1e4  # what is left after FAR tokens at the pace at which it shrinks or grows
NOTHING = 1e-30  # below is what floats cannot hold: the derivative vanished, and is not cut off


@dataclass(frozen=True, eq=False)
class Reach:
    """How much a state depends on the token so many places before it.

    sizes   (far + 1,) |d(u · state) / d vector|, the mean over places and directions u of length 1; 0 is the token
            itself
    places  how many tokens were asked
    limit   why it is not looked at further back, where the run sets a limit
    """

    name: str
    sizes: np.ndarray
    places: int
    limit: str = ""

    @property
    def far(self) -> int:
        return len(self.sizes) - 1

    @property
    def relative(self) -> np.ndarray:
        """(far + 1,) of what it is at the token itself."""
        return self.sizes / max(float(self.sizes[0]), 1e-300)

    @property
    def last(self) -> int:
        """The furthest token that changes anything."""
        return int(np.flatnonzero(self.sizes)[-1]) if self.sizes.any() else 0

    @property
    def is_cut(self) -> bool:
        """Whether it ends at some distance, and does not fade."""
        return self.last < self.far and float(self.sizes[self.last]) > NOTHING

    @property
    def factor(self) -> float | None:
        """What is left of it with each token further back, on average: the slope of its logarithm."""
        at = np.arange(1, self.last + 1)
        if len(at) < 2:
            return None
        return math.exp(float(np.polyfit(at, np.log(self.sizes[at]), 1)[0]))

    @property
    def left(self) -> float:
        """At the furthest token, of what there is at the token itself."""
        return float(self.relative[-1])

    @property
    def verdict(self) -> str:
        if self.is_cut:
            return f"is cut off: nothing further back than {self.last} tokens is seen"
        if self.factor is None:
            return "was looked at over too few tokens to be told"
        pace = math.log(2) / abs(math.log(self.factor)) if self.factor != 1 else math.inf
        every = f"every {pace:.1f} tokens" if pace < self.far else f"in no {self.far} tokens"
        halves = f"{'halves' if self.factor <= 1 else 'doubles'} {every}; {self.left:.1e} is left after {self.far}"
        much = FAR * math.log(self.factor)
        if much < math.log(VANISHED):
            return f"vanishes: {halves}"
        return f"explodes: {halves}" if much > math.log(EXPLODED) else f"survives: {halves}"

    def facts(self) -> dict[str, Any]:
        factor = self.factor
        told: dict[str, Any] = {"run": self.name, "verdict": self.verdict, "places": self.places}
        told |= {
            "factor_per_token": None if factor is None else float(f"{factor:.6g}"),
            "left": float(f"{self.left:.4g}"),
        }
        told |= {"reaches": self.last, "limit": self.limit}
        told["by_distance"] = [
            {"distance": distance, "size": float(f"{size:.6g}"), "relative": float(f"{share:.6g}")}
            for distance, (size, share) in enumerate(zip(self.sizes.tolist(), self.relative.tolist(), strict=True))
        ]
        return told


def gradients(runs: Run | Sequence[Run], texts: str | Sequence[str], *, far: int | None = None) -> list[Reach]:
    """Of each run, on the same texts, up to `far` tokens back."""
    given = [texts] if isinstance(texts, str) else list(texts)
    several = list(runs) if isinstance(runs, Sequence) else [runs]
    if not several:
        raise BadInput("there is no run", remedy="name at least one run that looks back (rnn, lstm, gpt2, …)")
    return [reach(run, given, FAR if far is None else far) for run in several]


def reach(run: Run, texts: Sequence[str], far: int) -> Reach:
    if far < 1:
        raise BadInput(f"--far is {far}", remedy="look at least 1 token back")
    encoder = _encoder(run)
    limit = ""
    if encoder.context is not None and far >= encoder.context:
        far = encoder.context - 1
        limit = f"its context is {encoder.context:,} tokens"
    rows = _windows(_rows(run, texts), far, min(2 * far + 1, encoder.context or 2 * far + 1))
    if not rows:
        what = f"no text is long enough to look {far:,} tokens back"
        raise BadInput(what, remedy="give a longer one (--in FILE), or look less far: --far 10")
    return Reach(run.name, sizes_of(encoder, rows, far, run.model.device), len(rows), limit)


def _encoder(run: Run) -> Encoder:
    """One that looks back."""
    remedy = "look at a run that predicts the next token (nnlm, rnn, lstm, gpt2, …)"
    if run.folder.milestone.learning != "descending":
        raise BadInput("has no network whose gradients could be measured", file=run.folder.path, remedy=remedy)
    encoder = run.model.encoder
    if "translation" in run.heads or encoder.sees != "past":
        raise BadInput(
            "does not only look back: its tokens see others than those before", file=run.folder.path, remedy=remedy
        )
    return encoder


def _rows(run: Run, texts: Sequence[str]) -> list[np.ndarray]:
    """The tokens of each text, behind what a text begins with; enough of them."""
    end, made, read = run.tokenizer.roles.get("end"), [], 0
    for text in texts:
        ids = run.tokenizer.encode(sound(text[:CHARACTERS])).ids
        made.append(np.concatenate(([] if end is None else [end], ids)).astype(np.int64))
        read += len(text)
        if read >= CHARACTERS:
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
        raise no_numbers()
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
