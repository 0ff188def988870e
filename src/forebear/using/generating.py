"""A run continues a text: token by token, several prompts and samples at once, each as if it were alone."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import TYPE_CHECKING, TypedDict

import numpy as np

from forebear.errors import BadInput
from forebear.using.continuing import Continuation, Ending, Generated
from forebear.using.sampling import Permitted, Sampling, at_least_one
from forebear.using.texts import end_of, row_of

if TYPE_CHECKING:
    from forebear.text.tokenizer import Tokenizer
    from forebear.using.predicting import Predictor

BATCH = 16  # rows continued at once: bounds memory, changes no text


@dataclass(eq=False)
class _Row:
    """A text under way. Its chance follows from seed, sample and prompt alone, one number a token."""

    number: int
    prompt: str
    sample: int
    ids: np.ndarray
    rng: np.random.Generator
    continuation: Continuation
    chosen: list[int] = field(default_factory=list)
    ended: Ending | None = None

    def take(self, token: int, end: int, length: int) -> str:
        """Enters a chosen token, sees whether the text is over, and returns what may be shown of it."""
        if token == end:
            self.ended = "end"
            return self.continuation.finish()
        self.chosen.append(token)
        piece = self.continuation.take(token)
        if not self.continuation.stopped and len(self.chosen) == length:
            piece += self.continuation.finish()
            self.ended = "length"
        if self.continuation.stopped:
            self.ended = "stop"
        return piece


class Writing(TypedDict, total=False):
    """How a text is to be continued: what `stream` takes."""

    length: int
    temperature: float
    top_k: int | None
    top_p: float
    repetition_penalty: float
    stop: str | Sequence[str]
    seed: int


def generate(
    predictor: Predictor,
    tokenizer: Tokenizer,
    prompts: str | Sequence[str],
    *,
    length: int = 100,
    temperature: float = 0.8,
    top_k: int | None = None,
    top_p: float = 0.95,
    repetition_penalty: float = 1.0,
    stop: str | Sequence[str] = (),
    seed: int = 0,
    samples: int = 1,
    batch: int = BATCH,
    hear: Callable[[int, str], object] | None = None,
) -> list[Generated]:
    """Continues each prompt, which may be empty, by up to `length` tokens: all samples of the first, then the next.

    A text is over when the run says so, before a stop string, or after `length` tokens. What comes of a prompt does
    not depend on the others. `hear` is called with the number of a result and each piece of its text as it comes.
    """
    prompts = [prompts] if isinstance(prompts, str) else list(prompts)
    sampling = Sampling(temperature, top_k, top_p, repetition_penalty)
    at_least_one(length=length, samples=samples, batch=batch)
    rows = _rows(tokenizer, prompts, stops(stop), seed, samples)
    for first in range(0, len(rows), batch):
        for row, piece in _continued(predictor, tokenizer, rows[first : first + batch], sampling, length):
            if hear is not None:
                hear(row.number, piece)
    return [
        Generated(row.prompt, row.sample, row.continuation.text, tuple(row.chosen), row.ended or "length")
        for row in rows
    ]


def stream(
    predictor: Predictor,
    tokenizer: Tokenizer,
    prompt: str = "",
    *,
    length: int = 100,
    temperature: float = 0.8,
    top_k: int | None = None,
    top_p: float = 0.95,
    repetition_penalty: float = 1.0,
    stop: str | Sequence[str] = (),
    seed: int = 0,
) -> Iterator[str]:
    """The continuation of one prompt, piece by piece; joined, what `generate` gives for it."""
    sampling = Sampling(temperature, top_k, top_p, repetition_penalty)
    at_least_one(length=length)
    rows = _rows(tokenizer, [prompt], stops(stop), seed, samples=1)
    return (piece for _, piece in _continued(predictor, tokenizer, rows, sampling, length))


def stops(stop: str | Sequence[str]) -> tuple[str, ...]:
    """One string or several that end a text."""
    given = (stop,) if isinstance(stop, str) else tuple(stop)
    if "" in given:
        raise BadInput("a stop string is empty", remedy="give at least one character, or leave it out")
    return given


def _rows(tokenizer: Tokenizer, prompts: Sequence[str], stop: tuple[str, ...], seed: int, samples: int) -> list[_Row]:
    if seed < 0 or not isinstance(seed, Integral):
        raise BadInput(f"the seed is {seed}", remedy="choose 0 or above, a whole number")
    rows: list[_Row] = []
    for prompt in prompts:
        ids = tokenizer.encode(prompt).ids.astype(np.int64)
        digest = hashlib.blake2b(ids.astype("<i8").tobytes(), digest_size=16).digest()
        for sample in range(samples):
            rng = np.random.default_rng([seed, sample, *np.frombuffer(digest, "<u4").tolist()])
            rows.append(_Row(len(rows), prompt, sample, ids, rng, Continuation(tokenizer, ids, stop)))
    return rows


def _continued(
    predictor: Predictor, tokenizer: Tokenizer, rows: Sequence[_Row], sampling: Sampling, length: int
) -> Iterator[tuple[_Row, str]]:
    """Continues all rows until each has ended; yields pieces of text as they are certain."""
    end, permitted = end_of(tokenizer), Permitted.by(tokenizer, predictor.vocabulary)
    reader = predictor.read([row_of(row.ids, end, ends=False) for row in rows], length)
    alive = list(rows)
    while alive:
        chosen: list[int] = []
        for row, scores in zip(alive, reader.next(), strict=True):
            said = [*row.ids.tolist(), *row.chosen] if sampling.repetition_penalty != 1 else ()
            token = sampling.choose(permitted.of(scores), said, row.rng.random())
            chosen.append(token)
            if piece := row.take(token, end, length):
                yield row, piece
        left = [n for n, row in enumerate(alive) if row.ended is None]
        if left and len(left) < len(alive):
            reader.keep(np.array(left))
        if left:
            reader.take(np.array([chosen[n] for n in left]))
        alive = [alive[n] for n in left]
