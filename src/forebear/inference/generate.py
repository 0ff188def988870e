"""A run continues texts by what is likeliest as a whole: found by beam search, or one of the choices that are given."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np

from forebear.errors import InputError
from forebear.inference import beam_search as beam
from forebear.inference.next import BLANK_PATTERN
from forebear.inference.predictor import eos_id, make_row
from forebear.inference.prompt_templates import continuation_tokens
from forebear.inference.prompting import score_options
from forebear.inference.sampling import GENERATION_BATCH, AllowedTokens, require_positive, stop_strings
from forebear.inference.stream_decode import GeneratedText, TextStream

if TYPE_CHECKING:
    from forebear.data.tokenizers.tokenizer import Tokenizer
    from forebear.inference.beam_search import Hypothesis
    from forebear.inference.predictor import CausalLM
    from forebear.inference.prompting import PromptAnswer

IMPOSSIBLE = beam.Hypothesis((), -math.inf, -math.inf, is_finished=True)  # the run holds no continuation possible
BYTES = 4  # of a character, at most: tokens that may spell it together


def beam_search_texts(
    predictor: CausalLM,
    tokenizer: Tokenizer,
    prompts: str | Sequence[str],
    *,
    beams: int,
    best: int = 1,
    length_penalty: float = 1.0,
    length: int = 100,
    stop: str | Sequence[str] = (),
    batch: int = GENERATION_BATCH,
) -> list[GeneratedText]:
    """The `best` continuations of each prompt by up to `length` tokens, the best first; nothing is random.

    They are compared by log P / tokens^length_penalty, the end being a token too; see `beams`. A single beam takes
    the likeliest token each time, and has nothing to compare.
    """
    require_positive(length=length, batch=batch)
    beam.validate_beams(beams, best, length_penalty)
    if beams == 1 and length_penalty != 1:
        raise InputError("a length penalty changes nothing with one beam", hint="search with more, or leave it out")
    prompts, until = [prompts] if isinstance(prompts, str) else list(prompts), stop_strings(stop)
    end, permitted = eos_id(tokenizer), AllowedTokens.for_tokenizer(tokenizer, predictor.vocab_size)
    given = [tokenizer.encode(prompt).ids.astype(np.int64) for prompt in prompts]
    at_once, told = max(1, batch // beams), []
    for first in range(0, len(prompts), at_once):
        mine = given[first : first + at_once]
        found = beam.beam_search(
            predictor.read([make_row(ids, end, ends=False) for ids in mine], length),
            len(mine),
            end=end,
            beams=beams,
            best=best,
            lengths=[length] * len(mine),
            penalty=length_penalty,
            permitted=permitted.of_rows,
            over=_stopped(tokenizer, mine, until) if until else None,
        )
        for prompt, ids, hypotheses in zip(prompts[first:], mine, found, strict=False):
            told += [_written(tokenizer, prompt, ids, until, *one) for one in enumerate(hypotheses or [IMPOSSIBLE])]
    return told


def _stopped(
    tokenizer: Tokenizer, prompts: Sequence[np.ndarray], stop: tuple[str, ...]
) -> Callable[[int, np.ndarray], bool]:
    """Whether tokens spell a stop string at their end. Only as many are read as it may consist of."""
    most = BYTES * (max(map(len, stop)) + 1)

    def over(source: int, ids: np.ndarray) -> bool:
        before = prompts[source] if len(ids) <= most else ids[-most - 1 : -most]
        text = TextStream(tokenizer, before, stop)
        for token in ids[-most:].tolist():
            text.append(token)
        return text.stopped

    return over


def _written(
    tokenizer: Tokenizer, prompt: str, given: np.ndarray, stop: tuple[str, ...], rank: int, found: Hypothesis
) -> GeneratedText:
    text = TextStream(tokenizer, given, stop)
    for token in found.ids:
        text.append(token)
    text.finish()
    ended = "stop" if text.stopped else "end" if found.is_finished else "length"
    return GeneratedText(prompt, rank, text.text, found.ids, ended, found.log_prob, found.score)


def choose_continuations(
    predictor: CausalLM, tokenizer: Tokenizer, prompts: str | Sequence[str], *, choices: Sequence[str]
) -> list[GeneratedText]:
    """Each prompt continued by the likeliest of the choices, with the shares of all: what `ask` answers, as a text."""
    prompts = [prompts] if isinstance(prompts, str) else list(prompts)
    for number, prompt in enumerate(prompts, 1):
        if BLANK_PATTERN.search(prompt):
            hint = "forebear ask RUN TEXT --choices fills blanks; what is generated stands at the end"
            raise InputError("this text has a blank", line=number, hint=hint)
    answers = score_options(predictor, tokenizer, prompts, choices=choices)
    return [_continued(tokenizer, *one) for one in zip(prompts, answers, strict=True)]


def _continued(tokenizer: Tokenizer, prompt: str, answer: PromptAnswer) -> GeneratedText:
    one = answer.best or answer.answers[0]
    spaced = one.prompt.endswith(f" {one.name}") and not prompt[-1:].isspace()
    shares = tuple((each.name, each.probability) for each in answer.answers)
    text = " " * spaced + one.name
    ids = continuation_tokens(one.prompt[: -len(text)], text, tokenizer).ids[-one.tokens :].tolist()
    return GeneratedText(prompt, 0, text, tuple(ids), "choice", one.log_prob, one.score, shares)


# A run writes on in one of three ways: by chance, by search, by choice; what a way does not take is refused.


# By what asks for a way: what else it takes. What would change nothing is refused.
TAKES = {
    "": ("temperature", "top_k", "top_p", "repetition_penalty", "seed", "samples", "length", "stop"),
    "beams": ("best", "length_penalty", "length", "stop"),
    "choices": (),
}


def generation_method(said: dict[str, Any]) -> str:
    """Which way is meant by the settings that were given (None: it was not); the empty one is by chance."""
    given = {name for name, value in said.items() if value is not None}
    ways = [name for name in TAKES if name in given]
    if len(ways) > 1:
        raise InputError("beams and choices together", hint="choices are all compared: leave the beams out")
    meant = ways[0] if ways else ""
    for name in given - {meant}:
        if name not in TAKES[meant]:
            others = " or ".join(f"--{other}" for other, takes in TAKES.items() if other and name in takes)
            hint = f"it goes with {others}, or leave it out" if others else "leave it out, or draw by chance instead"
            behind = f"with --{meant}" if meant else "where tokens are drawn"
            raise InputError(f"--{name.replace('_', '-')} changes nothing {behind}", hint=hint)
    return meant


def resolve_generation_options(said: dict[str, Any]) -> dict[str, Any]:
    """All settings of the way that is meant: those given, and the usual values of the others."""
    meant = generation_method(said)
    usual = {name: one.default for name, one in signature(_of(meant)).parameters.items() if name in TAKES[meant]}
    told = usual | {name: value for name, value in said.items() if value is not None}
    return {**told, "stop": list(told["stop"])} if "stop" in told else told


def generate_texts(
    predictor: CausalLM, tokenizer: Tokenizer, prompts: str | Sequence[str], **said: Any
) -> list[GeneratedText]:
    """Continues each prompt in the way that the settings ask for."""
    how = {name: value for name, value in said.items() if value is not None}
    return _of(generation_method(how))(predictor, tokenizer, prompts, **how)


def _of(meant: str) -> Callable[..., list[GeneratedText]]:
    if not meant:
        from forebear.inference.sampling import sample_texts

        return sample_texts

    return beam_search_texts if meant == "beams" else choose_continuations
