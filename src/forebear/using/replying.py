"""A run writes an answer without having been trained to: a summary after a cue, or a reply after examples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from forebear.errors import BadInput
from forebear.text.characters import sound
from forebear.text.sentences import split_sentences
from forebear.using.continuing import Ending, Generated
from forebear.using.generating import Writing, generate
from forebear.using.prompts import (
    CHINESE_QUESTION,
    QUESTION,
    Fitted,
    Frame,
    Shots,
    Template,
    fitted_behind,
    is_chinese,
)
from forebear.using.sampling import at_least_one

if TYPE_CHECKING:
    from forebear.text.tokenizer import Tokenizer
    from forebear.using.predicting import Predictor

CUE, CHINESE_CUE = "TL;DR:", "总之，"


@dataclass(frozen=True)
class Written:
    """A text and what a run wrote about it: `answer` is the part of `written` that was asked for.

    `cut` tokens of the text had no room in the prompt; `shots` examples stood before it.
    """

    text: str
    answer: str
    written: str
    tokens: int
    ended: Ending
    prompt: str
    cut: int
    shots: int

    def facts(self) -> dict[str, Any]:
        """As JSON values."""
        told: dict[str, Any] = {"text": self.text, "answer": self.answer, "written": self.written}
        told |= {"tokens": self.tokens, "ended": self.ended, "prompt": self.prompt}
        return {**told, "cut_tokens": self.cut, "shots": self.shots}


def summarise(
    predictor: Predictor,
    tokenizer: Tokenizer,
    texts: str | Sequence[str],
    *,
    cue: str | None = None,
    sentences: int = 3,
    length: int = 100,
    top_k: int = 2,
    seed: int = 0,
) -> list[Written]:
    """What a run writes after each text and a cue on a line of its own: the first sentences of it are the summary.

    The numbers are those of GPT-2's paper (section 3.6). Without a cue it is TL;DR: or 总之， by the text's script. The
    beginning of a text goes where text, cue and `length` new tokens have no room together.
    """
    at_least_one(sentences=sentences, length=length)
    if cue is not None and not cue.strip():
        raise BadInput("the cue is empty", remedy=f"write one, such as {CUE!r}, or leave it out")
    texts, framed = _listed(texts), []
    for number, text in enumerate(texts, 1):
        lead = "\n" + sound(cue or (CHINESE_CUE if is_chinese(text) else CUE)).strip()
        framed.append(_fitted((), Frame(left=text.rstrip(), lead=lead), tokenizer, _room(predictor, length), number))
    how: Writing = {"length": length, "temperature": 1.0, "top_k": top_k, "top_p": 1.0, "seed": seed}
    told = generate(predictor, tokenizer, [_prompt(fit) for fit in framed], **how)
    answers = ("".join(split_sentences(one.text.strip())[:sentences]).strip() for one in told)
    return [_written(*one) for one in zip(texts, framed, told, answers, strict=True)]


def reply(
    predictor: Predictor,
    tokenizer: Tokenizer,
    texts: str | Sequence[str],
    *,
    shots: Shots,
    template: str | None = None,
    length: int = 30,
) -> list[Written]:
    """What a run writes after each text, behind as many examples (text, answer) as have room: likeliest tokens only.

    A reply ends with its line, or where the next example would begin. The template has {label} at its end, where the
    answer stands; else it is Q: and A:, or 问： and 答： where the examples are Chinese. Without examples a run goes on
    as any text would, which is no answer: they are not optional.
    """
    at_least_one(length=length)
    if not shots:
        remedy = "give some (--shots FILE: text TAB answer), or --labels or --choices to choose from"
        raise BadInput("without examples a run does not know that it is asked", remedy=remedy)
    chinese = is_chinese(*(part for shot in shots for part in shot))
    made = Template.of(template if template is not None else CHINESE_QUESTION if chinese else QUESTION)
    if made.label_first or made.behind.strip():
        raise BadInput("{label} is not at the end of the template", remedy=f"write it there, as in {QUESTION!r}")
    shown, stops = made.shown(shots), ["\n", *([made.before.strip()] if made.before.strip() else [])]
    texts, framed = _listed(texts), []
    for number, text in enumerate(texts, 1):
        frame = Frame(head=made.before, left=text, lead=made.between.rstrip())  # a space belongs to what follows it
        framed.append(_fitted(shown, frame, tokenizer, _room(predictor, length), number))
    how: Writing = {"length": length, "temperature": 0.0, "stop": stops}
    told = generate(predictor, tokenizer, [_prompt(fit) for fit in framed], **how)
    return [_written(text, fit, one, one.text.strip()) for text, fit, one in zip(texts, framed, told, strict=True)]


def _listed(texts: str | Sequence[str]) -> list[str]:
    return [sound(text) for text in ([texts] if isinstance(texts, str) else texts)]


def _room(predictor: Predictor, length: int) -> int | None:
    """Tokens that a prompt may have, so that all of it is seen until the last token is chosen."""
    return None if predictor.context is None else predictor.context - length


def _fitted(shots: Sequence[str], frame: Frame, tokenizer: Tokenizer, limit: int | None, number: int) -> Fitted:
    try:
        if not frame.left.strip():
            raise BadInput("this text is empty", remedy="leave it out, or write some text")
        return fitted_behind(shots, frame, ("",), tokenizer, limit)
    except BadInput as error:
        error.line = number
        raise


def _prompt(fit: Fitted) -> str:
    return fit.frame.whole("")


def _written(text: str, fit: Fitted, told: Generated, answer: str) -> Written:
    return Written(text, answer, told.text, len(told.ids), told.ended, _prompt(fit), fit.cut, fit.shots)
