"""Text generation by sampling, by beam search, or with the most probable of given choices."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np

from forebear.errors import InputError
from forebear.inference import beam_search as beam
from forebear.inference.generated_text import GeneratedText
from forebear.inference.next_tokens import BLANK_PATTERN
from forebear.inference.predictor_protocols import eos_id, make_row
from forebear.inference.prompt_templates import continuation_tokens
from forebear.inference.prompting import score_options
from forebear.inference.sampling import (
    GENERATION_BATCH,
    AllowedTokens,
    GenerationOptions,
    generation_rows,
    require_positive,
    sample_texts,
    stop_strings,
)
from forebear.inference.stream_decode import TextStream

if TYPE_CHECKING:
    from forebear.data.tokenizers.tokenizer import Tokenizer
    from forebear.inference.predictor_protocols import CausalLM

# The result of a search without hypotheses: all continuations have probability 0.
IMPOSSIBLE_HYPOTHESIS = beam.Hypothesis((), -math.inf, -math.inf, is_finished=True)
MAX_CHARACTER_BYTES = 4  # maximum bytes, and so byte tokens, of a character


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
    """Continue each prompt by beam search, returning the `best` continuations of up to `length` tokens, best first.

    Scores are log P / tokens^length_penalty, end token included; see `beam_search`. A single beam is greedy decoding.
    """
    require_positive(length=length, batch=batch)
    beam.validate_beams(beams, best, length_penalty)
    if beams == 1 and length_penalty != 1:
        raise InputError("a length penalty changes nothing with one beam", hint="search with more, or leave it out")
    prompts, stop_texts = [prompts] if isinstance(prompts, str) else list(prompts), stop_strings(stop)
    eos, allowed = eos_id(tokenizer), AllowedTokens.for_tokenizer(tokenizer, predictor.vocab_size)
    prompt_ids = [tokenizer.encode(prompt).ids.astype(np.int64) for prompt in prompts]
    prompts_per_batch, results = max(1, batch // beams), []
    for start in range(0, len(prompts), prompts_per_batch):
        batch_ids = prompt_ids[start : start + prompts_per_batch]
        hypotheses_by_prompt = beam.beam_search(
            predictor.start_decoding([make_row(ids, eos, ends=False) for ids in batch_ids], length),
            len(batch_ids),
            eos_id=eos,
            beams=beams,
            best=best,
            lengths=[length] * len(batch_ids),
            penalty=length_penalty,
            mask_logits=allowed.mask_rows,
            ends_text=_stop_condition(tokenizer, batch_ids, stop_texts) if stop_texts else None,
        )
        for prompt, ids, hypotheses in zip(prompts[start:], batch_ids, hypotheses_by_prompt, strict=False):
            for rank, hypothesis in enumerate(hypotheses or [IMPOSSIBLE_HYPOTHESIS]):
                stream = _text_stream(tokenizer, ids, stop_texts, hypothesis.ids)
                stream.finish()
                stop_reason = "stop" if stream.stopped else "end" if hypothesis.is_finished else "length"
                scores = hypothesis.log_prob, hypothesis.score
                results.append(GeneratedText(prompt, rank, stream.text, hypothesis.ids, stop_reason, *scores))
    return results


def _stop_condition(
    tokenizer: Tokenizer, prompts: Sequence[np.ndarray], stop: tuple[str, ...]
) -> Callable[[int, np.ndarray], bool]:
    """Whether the last tokens spell a stop string; only as many tokens are decoded as the longest can have."""
    max_tokens = MAX_CHARACTER_BYTES * (max(map(len, stop)) + 1)

    def ends_text(source: int, ids: np.ndarray) -> bool:
        context = prompts[source] if len(ids) <= max_tokens else ids[-max_tokens - 1 : -max_tokens]
        return _text_stream(tokenizer, context, stop, ids[-max_tokens:].tolist()).stopped

    return ends_text


def _text_stream(tokenizer: Tokenizer, context: np.ndarray, stop: tuple[str, ...], ids: Sequence[int]) -> TextStream:
    stream = TextStream(tokenizer, context, stop)
    for token in ids:
        stream.append(token)
    return stream


def choose_continuations(
    predictor: CausalLM, tokenizer: Tokenizer, prompts: str | Sequence[str], *, choices: Sequence[str]
) -> list[GeneratedText]:
    """Continue each prompt with its most probable choice; results have the probabilities of all choices."""
    prompts = [prompts] if isinstance(prompts, str) else list(prompts)
    for index, prompt in enumerate(prompts, 1):
        if BLANK_PATTERN.search(prompt):
            hint = "forebear ask RUN TEXT --choices fills blanks; what is generated stands at the end"
            raise InputError("this text has a blank", line=index, hint=hint)
    results = []
    for prompt, answer in zip(prompts, score_options(predictor, tokenizer, prompts, choices=choices), strict=True):
        option = answer.best or answer.answers[0]
        text = option.name
        if option.prompt.endswith(f" {option.name}") and not prompt[-1:].isspace():
            text = f" {option.name}"
        ids = continuation_tokens(option.prompt[: -len(text)], text, tokenizer).ids[-option.tokens :].tolist()
        probabilities = tuple((score.name, score.probability) for score in answer.answers)
        scores = option.log_prob, option.score
        results.append(GeneratedText(prompt, 0, text, tuple(ids), "choice", *scores, probabilities))
    return results


# --- Methods: sampling, beam search, choices ---


class AllGenerationOptions(GenerationOptions, total=False):
    """The options of all methods."""

    samples: int
    beams: int
    best: int
    length_penalty: float
    choices: Sequence[str]


# Option that selects a method ("": sampling) → options of the method; others are rejected.
METHOD_OPTIONS = {
    "": ("temperature", "top_k", "top_p", "repetition_penalty", "seed", "samples", "length", "stop"),
    "beams": ("best", "length_penalty", "length", "stop"),
    "choices": (),
}


def generation_method(options: dict[str, Any]) -> str:
    """The method selected by the given options (None: not given); "" is sampling."""
    given_names = {name for name, value in options.items() if value is not None}
    methods = [name for name in METHOD_OPTIONS if name in given_names]
    if len(methods) > 1:
        raise InputError("beams and choices together", hint="choices are all compared: leave the beams out")
    method = methods[0] if methods else ""
    for name in given_names - {method}:
        if name not in METHOD_OPTIONS[method]:
            other_methods = [f"--{other}" for other, names in METHOD_OPTIONS.items() if other and name in names]
            hint = "leave it out, or draw by chance instead"
            if other_methods:
                hint = f"it goes with {' or '.join(other_methods)}, or leave it out"
            context = f"with --{method}" if method else "where tokens are drawn"
            raise InputError(f"--{name.replace('_', '-')} changes nothing {context}", hint=hint)
    return method


GENERATORS: dict[str, Callable[..., list[GeneratedText]]] = {
    "": sample_texts,
    "beams": beam_search_texts,
    "choices": choose_continuations,
}


def resolve_generation_options(options: dict[str, Any]) -> dict[str, Any]:
    """All options of the selected method: the given ones, and defaults for the others."""
    method = generation_method(options)
    parameters = signature(GENERATORS[method] if method else generation_rows).parameters.values()
    names = METHOD_OPTIONS[method]
    defaults = {parameter.name: parameter.default for parameter in parameters if parameter.name in names}
    resolved = defaults | {name: value for name, value in options.items() if value is not None}
    return {**resolved, "stop": list(resolved["stop"])} if "stop" in resolved else resolved


def generate_texts(
    predictor: CausalLM, tokenizer: Tokenizer, prompts: str | Sequence[str], **options: Any
) -> list[GeneratedText]:
    """Continue each prompt with the method selected by the options."""
    given_options = {name: value for name, value in options.items() if value is not None}
    return GENERATORS[generation_method(given_options)](predictor, tokenizer, prompts, **given_options)
