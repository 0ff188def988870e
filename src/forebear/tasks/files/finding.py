"""Answers as files write them, found in their passages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from forebear.tasks.examples import Span
from forebear.tasks.files.forms import Bad, shown, text_of

STARTS = ("answer_start", "start", "offset")
Written = tuple[str, int | None]  # an answer, and where it begins, if the file says so


def answers_in(value: Any, start: Any, is_optional: bool) -> list[Written] | None:
    """The answers, however they are written; []: there is none in the passage; None: nobody has said."""
    if value is None:
        return None
    if isinstance(value, str):
        return [(value, _start(start))] if value.strip() else None if is_optional else []
    if isinstance(value, dict):  # {"text": [...], "answer_start": [...]}, or one answer
        texts, starts = value.get("text"), next((value[key] for key in STARTS if key in value), None)
        if not isinstance(texts, list):
            value = [value]
        else:
            starts = starts if isinstance(starts, list) else [None] * len(texts)
            if len(starts) != len(texts):
                raise Bad(f"there are {len(texts)} answers, but {len(starts)} places where they begin")
            value = [{"text": text, "start": at} for text, at in zip(texts, starts, strict=True)]
    if not isinstance(value, list):
        raise Bad(f"the answer is {shown(value)}, which is no text")
    starts = start if isinstance(start, list) and len(start) == len(value) else [None] * len(value)
    return [written(one, at) for one, at in zip(value, starts, strict=True)]


def written(answer: Any, start: Any = None) -> Written:
    """One answer of a list: a text, or an object with its text and its start."""
    if isinstance(answer, dict):
        start = next((answer[key] for key in STARTS if key in answer), start)
        answer = answer.get("text")
    return text_of(answer, "answer"), _start(start)


def _start(value: Any) -> int | None:
    if value is None or value == "":
        return None
    try:
        if isinstance(value, bool) or int(value) != float(value):
            raise ValueError
        return int(value)
    except (ValueError, TypeError, OverflowError):
        raise Bad(f"the answer's start is {shown(value)}, which is no place in the passage") from None


def placed(passage: str, answers: list[Written], mend: Callable[[str], None]) -> tuple[Span, ...]:
    """Each answer where it stands. One that stands elsewhere, and only there, is moved; one that stands nowhere is
    left out if the question has another."""
    spans, lost = [], []
    for text, start in answers:
        if start is None and text in passage:
            spans.append(Span(passage.index(text), text))
        elif start is not None and start >= 0 and passage.startswith(text, start):
            spans.append(Span(start, text))
        elif start is not None and passage.count(text) == 1:
            spans.append(Span(passage.index(text), text))
            mend(f"the answer {shown(text)} begins at {spans[-1].start}, not at {start}")
        else:
            where = "" if start is None or text not in passage else f" at {start}, but more than once elsewhere"
            lost.append(f"the answer {shown(text)} does not stand in its passage{where}")
    if lost and not spans:
        raise Bad(lost[0])
    for reason in lost:
        mend(f"{reason}; it was left out, the question has another")
    return tuple(spans)
