"""What a run that was adapted to a task says of texts: classify, tag, answer, choose; one by one or very many."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

from forebear.data.labeled.examples import ChoiceExample, LabeledExample, QuestionExample, TaggedExample
from forebear.data.labeled.readers import parse_slash_tags
from forebear.data.labeled.row_to_example import BadRowError
from forebear.data.tokenizers.char_level import replace_surrogates
from forebear.errors import InputError
from forebear.tasks.task import ProgressFn, predict_logits

if TYPE_CHECKING:
    from forebear.inference.run import Run
    from forebear.tasks.tagging import SequenceTagging

TOGETHER = 1024  # examples that are sorted by length and answered at once


def predict(run: Run, examples: Iterable[Any], progress: ProgressFn | None = None) -> Iterator[Any]:
    """The answer to each example, in order; however many there are, only some are held at once."""
    task = run.task
    assert task is not None
    layout = run.folder.spec.input_format(run.tokenizer)
    waiting, count = iter(examples), 0
    while group := list(islice(waiting, TOGETHER)):
        rows = task.encode(group, run.tokenizer, layout)
        yield from task.predictions(group, rows, predict_logits(run.network, rows))
        count += len(group)
        if progress is not None:
            progress(count, count)


def format_predictions(run: Run, examples: Iterable[Any], progress: ProgressFn | None = None) -> Iterator[Any]:
    """The same for people: written as the examples that the run learned from."""
    assert run.task is not None
    return map(run.task.to_source_format, predict(run, examples, progress))


def labeled_examples(run: Run, texts: str | Sequence[str] | Sequence[tuple[str, str]]) -> list[LabeledExample]:
    """Texts, or pairs of texts, as examples without a label; an error where it is the other that is wanted."""
    wanted: int = cast(Any, run.task).texts
    given = [texts] if isinstance(texts, str) else list(texts)
    if wanted == 2 and isinstance(texts, tuple) and len(texts) == 2 and all(isinstance(one, str) for one in texts):
        given = [cast(tuple[str, str], texts)]
    made = []
    for number, one in enumerate(given, 1):
        parts = (one,) if isinstance(one, str) else tuple(one)
        if len(parts) != wanted:
            told = "pairs of texts" if wanted == 2 else "single texts"
            hint = 'give ("one", "other")' if wanted == 2 else "give one text at a time"
            raise InputError(f"this run is about {told}, and {len(parts)} came{_which(number, given)}", hint=hint)
        if not all(part.strip() for part in parts):
            what = f"a text is empty{_which(number, given)}"
            raise InputError(what, hint="leave it out, or write some text")
        made.append(LabeledExample(tuple(map(replace_surrogates, parts))))
    return made


def _which(number: int, given: Sequence[Any]) -> str:
    """Which of those given is meant, where there are several."""
    return f" (number {number} of {len(given)})" if len(given) > 1 else ""


def tagged_examples(run: Run, texts: str | Sequence[str | Sequence[str]]) -> list[TaggedExample]:
    """Texts, or lists of words, as sentences without tags; word/tag as the run learned it, as its words."""
    given = [texts] if isinstance(texts, str) else list(texts)
    return [
        TaggedExample(
            _words(run, replace_surrogates(one)) if isinstance(one, str) else tuple(map(replace_surrogates, one))
        )
        for one in given
    ]


def _words(run: Run, text: str) -> tuple[str, ...]:
    return strip_tags(run, text) or cast("SequenceTagging", run.task).split_words(text)


def strip_tags(run: Run, text: str) -> tuple[str, ...] | None:
    """The words of a text whose every word has a tag with it, word/tag, as in what the run learned from; else None.

    A tag that the run does not know is none: and/or, km/s and 1/2 are words.
    """
    task, learned = cast("SequenceTagging", run.task), run.metadata.get("labelled")
    if learned is None or learned["source"]["form"]["kind"] != "tagged":
        return None
    try:
        words, tags = parse_slash_tags(text)
    except BadRowError:
        return None
    return words if tags and task.has_tag(tags) else None


def question_examples(question: str | Sequence[str], passage: str | Sequence[str]) -> list[QuestionExample]:
    """Questions with their passages; one passage may serve all questions."""
    questions = [question] if isinstance(question, str) else list(question)
    passages = [passage] * len(questions) if isinstance(passage, str) else list(passage)
    if len(questions) != len(passages):
        what = f"{len(questions)} questions and {len(passages)} passages"
        raise InputError(what, hint="give one passage, or one for each question")
    for number, parts in enumerate(zip(questions, passages, strict=True), 1):
        if not all(part.strip() for part in parts):
            raise InputError(f"a question or a passage is empty{_which(number, questions)}", hint="give both")
    return [
        QuestionExample(replace_surrogates(one), replace_surrogates(other))
        for one, other in zip(questions, passages, strict=True)
    ]


def choice_examples(text: str, given: Sequence[str]) -> list[ChoiceExample]:
    if len(given) < 2 or not all(one.strip() for one in given):
        raise InputError("there is nothing to choose from", hint="give at least two choices, none of them empty")
    return [ChoiceExample(replace_surrogates(text), tuple(map(replace_surrogates, given)))]
