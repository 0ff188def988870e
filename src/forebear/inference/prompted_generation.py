"""Texts generated from prompts: summaries and few-shot replies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from forebear.data.sentences import split_sentences
from forebear.data.unicode import replace_surrogates
from forebear.errors import InputError
from forebear.inference.generated_text import StopReason
from forebear.inference.prompt_templates import (
    CHINESE_QA_TEMPLATE,
    ENGLISH_QA_TEMPLATE,
    PromptFrame,
    PromptTemplate,
    Shots,
    is_chinese,
)
from forebear.inference.prompting import FrameFn, PromptWithVerbalizers, clean_texts, fit_prompts
from forebear.inference.sampling import GenerationOptions, require_positive, sample_texts

if TYPE_CHECKING:
    from forebear.data.tokenizers.tokenizer import Tokenizer
    from forebear.inference.predictor_protocols import CausalLM

ENGLISH_CUE, CHINESE_CUE = "TL;DR:", "总之，"


@dataclass(frozen=True)
class PromptReply:
    """A text and the generated reply: `answer` is the requested part of `generated_text`."""

    text: str
    answer: str
    generated_text: str
    tokens: int
    stop_reason: StopReason
    prompt: str
    num_truncated: int  # tokens of the text that did not fit
    shots: int  # few-shot examples before it

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "text": self.text,
            "answer": self.answer,
            "written": self.generated_text,
            "tokens": self.tokens,
            "ended": self.stop_reason,
            "prompt": self.prompt,
            "cut_tokens": self.num_truncated,
            "shots": self.shots,
        }


def summarize(
    predictor: CausalLM,
    tokenizer: Tokenizer,
    texts: str | Sequence[str],
    *,
    cue: str | None = None,
    sentences: int = 3,
    length: int = 100,
    top_k: int = 2,
    seed: int = 0,
) -> list[PromptReply]:
    """Summarize each text: the first sentences generated after the text and a line with a cue.

    Defaults follow the GPT-2 paper (section 3.6); the default cue is TL;DR: or 总之， by the text's script. Texts are
    truncated on the left where text, cue and `length` new tokens do not fit together.
    """
    require_positive(sentences=sentences, length=length)
    if cue is not None and not cue.strip():
        raise InputError("the cue is empty", hint=f"write one, such as {ENGLISH_CUE!r}, or leave it out")

    def frame_text(text: str) -> PromptWithVerbalizers:
        cue_text = replace_surrogates(cue or (CHINESE_CUE if is_chinese(text) else ENGLISH_CUE)).strip()
        return PromptFrame(left=text.rstrip(), lead=f"\n{cue_text}"), ("",)

    def first_sentences(generated: str) -> str:
        return "".join(split_sentences(generated)[:sentences]).strip()

    options: GenerationOptions = {"length": length, "temperature": 1.0, "top_k": top_k, "top_p": 1.0, "seed": seed}
    return _continue_prompts(predictor, tokenizer, texts, frame_text, first_sentences, (), options)


def generate_replies(
    predictor: CausalLM,
    tokenizer: Tokenizer,
    texts: str | Sequence[str],
    *,
    shots: Shots,
    template: str | None = None,
    length: int = 30,
) -> list[PromptReply]:
    """Reply to each text by greedy decoding after as many few-shot examples (text, answer) as fit.

    A reply ends with its line, or where the next example would begin. The template ends with {label}; the default is
    Q: and A:, or 问： and 答： if the examples are Chinese. Examples are required: without them the model merely
    continues the text.
    """
    require_positive(length=length)
    if not shots:
        hint = "give some (--shots FILE: text TAB answer), or --labels or --choices to choose from"
        raise InputError("without examples a run does not know that it is asked", hint=hint)
    uses_chinese = is_chinese(*(part for shot in shots for part in shot))
    default_template = CHINESE_QA_TEMPLATE if uses_chinese else ENGLISH_QA_TEMPLATE
    parsed_template = PromptTemplate.parse(default_template if template is None else template)
    if parsed_template.label_first or parsed_template.after.strip():
        hint = f"write it there, as in {ENGLISH_QA_TEMPLATE!r}"
        raise InputError("{label} is not at the end of the template", hint=hint)

    def frame_text(text: str) -> PromptWithVerbalizers:  # stripped: a space is part of the token after it
        return PromptFrame(head=parsed_template.before, left=text, lead=parsed_template.between.rstrip()), ("",)

    stop_strings = ["\n", *filter(None, [parsed_template.before.strip()])]
    options: GenerationOptions = {"length": length, "temperature": 0.0, "stop": stop_strings}
    return _continue_prompts(predictor, tokenizer, texts, frame_text, str, parsed_template.render_shots(shots), options)


def _continue_prompts(
    predictor: CausalLM,
    tokenizer: Tokenizer,
    texts: str | Sequence[str],
    frame_fn: FrameFn,
    extract_answer: Callable[[str], str],
    shots: Sequence[str],
    options: GenerationOptions,
) -> list[PromptReply]:
    """Continue the prompt of each text, truncated so that all new tokens fit."""
    limit = None if predictor.max_length is None else predictor.max_length - options.get("length", 0)
    texts = clean_texts(texts)
    fitted = fit_prompts(texts, frame_fn, shots, tokenizer, limit)
    prompts = [prompt.frame.full_text("") for prompt in fitted]
    generated_texts, replies = sample_texts(predictor, tokenizer, prompts, **options), []
    for text, prompt, generated in zip(texts, fitted, generated_texts, strict=True):
        answer, counts = extract_answer(generated.text.strip()), (prompt.num_truncated, prompt.shots)
        outcome = (generated.text, len(generated.ids), generated.stop_reason, generated.prompt)
        replies.append(PromptReply(text, answer, *outcome, *counts))
    return replies
