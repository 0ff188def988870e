"""A run continues a text: token by token, several prompts and samples at once, each as if it were alone."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import numpy as np

from forebear.errors import BadInput
from forebear.using.continuing import Continuation
from forebear.using.sampling import Permitted, Sampling
from forebear.using.texts import end_of, row_of

if TYPE_CHECKING:
    from forebear.text.tokenizer import Tokenizer
    from forebear.using.predicting import Predictor

Ending = Literal["end", "stop", "length"]

BATCH = 16  # rows continued at once: bounds memory, changes no text


@dataclass(frozen=True)
class Generated:
    """A prompt and what a run makes of it. `ids` are the tokens chosen, also those that spell a stop string."""

    prompt: str
    sample: int
    text: str
    ids: tuple[int, ...]
    ended: Ending

    @property
    def whole(self) -> str:
        """Prompt and continuation, with one space between them where both would bring one."""
        doubled = self.prompt[-1:].isspace() and self.text[:1] == " "
        return self.prompt + self.text[1 if doubled else 0 :]

    def facts(self) -> dict[str, Any]:
        """As JSON values."""
        told = {"prompt": self.prompt, "sample": self.sample, "text": self.text, "whole": self.whole}
        return {**told, "tokens": len(self.ids), "ended": self.ended}


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
    _checked(length=length, samples=samples, batch=batch)
    rows = _rows(tokenizer, prompts, _stops(stop), seed, samples)
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
    _checked(length=length)
    rows = _rows(tokenizer, [prompt], _stops(stop), seed, samples=1)
    return (piece for _, piece in _continued(predictor, tokenizer, rows, sampling, length))


def _checked(**counts: int) -> None:
    for name, count in counts.items():
        if count < 1:
            raise BadInput(f"{name} is {count}", remedy=f"give a {name} of at least 1")


def _stops(stop: str | Sequence[str]) -> tuple[str, ...]:
    stops = (stop,) if isinstance(stop, str) else tuple(stop)
    if "" in stops:
        raise BadInput("a stop string is empty", remedy="give at least one character, or leave it out")
    return stops


def _rows(tokenizer: Tokenizer, prompts: Sequence[str], stop: tuple[str, ...], seed: int, samples: int) -> list[_Row]:
    if seed < 0:
        raise BadInput(f"the seed is {seed}", remedy="choose 0 or above")
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
    end = end_of(tokenizer)
    beyond = range(tokenizer.size, predictor.vocabulary)  # entries that only round the vocabulary up
    never = [*(tokenizer.specials - {end, tokenizer.unknown}), *beyond]
    permitted = Permitted(np.array(never, np.int64), tokenizer.unknown, end)
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
