"""A run writes on in one of three ways: by chance, by search, by choice; what a way does not take is refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import signature
from typing import TYPE_CHECKING, Any

from forebear.errors import BadInput

if TYPE_CHECKING:
    from forebear.text.tokenizer import Tokenizer
    from forebear.using.continuing import Generated
    from forebear.using.predicting import Predictor

# By what asks for a way: what else it takes. What would change nothing is refused.
TAKES = {
    "": ("temperature", "top_k", "top_p", "repetition_penalty", "seed", "samples", "length", "stop"),
    "beams": ("best", "length_penalty", "length", "stop"),
    "choices": (),
}


def way(said: dict[str, Any]) -> str:
    """Which way is meant by the settings that were given (None: it was not); the empty one is by chance."""
    given = {name for name, value in said.items() if value is not None}
    ways = [name for name in TAKES if name in given]
    if len(ways) > 1:
        raise BadInput("beams and choices together", remedy="choices are all compared: leave the beams out")
    meant = ways[0] if ways else ""
    for name in given - {meant}:
        if name not in TAKES[meant]:
            others = " or ".join(f"--{other}" for other, takes in TAKES.items() if other and name in takes)
            remedy = f"it goes with {others}, or leave it out" if others else "leave it out, or draw by chance instead"
            behind = f"with --{meant}" if meant else "where tokens are drawn"
            raise BadInput(f"--{name.replace('_', '-')} changes nothing {behind}", remedy=remedy)
    return meant


def settled(said: dict[str, Any]) -> dict[str, Any]:
    """All settings of the way that is meant: those given, and the usual values of the others."""
    meant = way(said)
    usual = {name: one.default for name, one in signature(_of(meant)).parameters.items() if name in TAKES[meant]}
    told = usual | {name: value for name, value in said.items() if value is not None}
    return {**told, "stop": list(told["stop"])} if "stop" in told else told


def write(predictor: Predictor, tokenizer: Tokenizer, prompts: str | Sequence[str], **said: Any) -> list[Generated]:
    """Continues each prompt in the way that the settings ask for."""
    how = {name: value for name, value in said.items() if value is not None}
    return _of(way(how))(predictor, tokenizer, prompts, **how)


def _of(meant: str) -> Callable[..., list[Generated]]:
    if not meant:
        from forebear.using.generating import generate

        return generate
    from forebear.using import searching

    return searching.searched if meant == "beams" else searching.chosen
