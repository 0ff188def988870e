"""Predictions of a run adapted to a task: classify, tag, answer, choose."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

from forebear.data.labeled.examples import ChoiceExample, LabeledExample, QuestionExample, TaggedExample
from forebear.data.labeled.labeled_format import BadRowError
from forebear.data.labeled.readers import parse_slash_tags
from forebear.data.unicode import replace_surrogates
from forebear.errors import InputError
from forebear.tasks.task import ProgressFn, predict_logits

if TYPE_CHECKING:
    from forebear.inference.run import Run
    from forebear.tasks.tagging import SequenceTagging

BATCH_EXAMPLES = 1024  # examples sorted by length and predicted together


def predict(run: Run, examples: Iterable[Any], progress: ProgressFn | None = None) -> Iterator[Any]:
    """Predict each example, in order and with constant memory."""
    task = run.task
    assert task is not None
    input_format = run.folder.spec.input_format(run.tokenizer)
    remaining, num_predicted = iter(examples), 0
    while batch := list(islice(remaining, BATCH_EXAMPLES)):
        rows = task.encode(batch, run.tokenizer, input_format)
        yield from task.predictions(batch, rows, predict_logits(run.network, rows))
        num_predicted += len(batch)
        if progress is not None:
            progress(num_predicted, num_predicted)  # the total is unknown


def format_predictions(run: Run, examples: Iterable[Any], progress: ProgressFn | None = None) -> Iterator[Any]:
    """`predict`, in the format of the training data."""
    assert run.task is not None
    return map(run.task.to_source_format, predict(run, examples, progress))


def text_examples(run: Run, texts: str | Sequence[str] | Sequence[tuple[str, str]]) -> list[LabeledExample]:
    """Texts or text pairs as unlabeled examples; InputError if the task expects the other."""
    num_texts: int = cast(Any, run.task).num_texts
    inputs = [texts] if isinstance(texts, str) else list(texts)
    if num_texts == 2 and isinstance(texts, tuple) and len(texts) == 2 and all(isinstance(item, str) for item in texts):
        inputs = [cast(tuple[str, str], texts)]
    examples = []
    for index, item in enumerate(inputs, 1):
        item_texts = (item,) if isinstance(item, str) else tuple(item)
        if len(item_texts) != num_texts:
            expected, hint = "single texts", "give one text at a time"
            if num_texts == 2:
                expected, hint = "pairs of texts", 'give ("one", "other")'
            message = f"this run is about {expected}, and {len(item_texts)} came{_item_number(index, inputs)}"
            raise InputError(message, hint=hint)
        if not all(part.strip() for part in item_texts):
            message = f"a text is empty{_item_number(index, inputs)}"
            raise InputError(message, hint="leave it out, or write some text")
        examples.append(LabeledExample(tuple(map(replace_surrogates, item_texts))))
    return examples


def _item_number(number: int, items: Sequence[Any]) -> str:
    """Position of an item in messages, if there are several."""
    return f" (number {number} of {len(items)})" if len(items) > 1 else ""


def word_examples(run: Run, texts: str | Sequence[str | Sequence[str]]) -> list[TaggedExample]:
    """Texts or lists of words as untagged examples; tags of word/tag texts are stripped."""
    examples = []
    for item in [texts] if isinstance(texts, str) else texts:
        if isinstance(item, str):
            text = replace_surrogates(item)
            words = strip_tags(run, text) or cast("SequenceTagging", run.task).split_words(text)
        else:
            words = tuple(map(replace_surrogates, item))
        examples.append(TaggedExample(words))
    return examples


def strip_tags(run: Run, text: str) -> tuple[str, ...] | None:
    """The words of a text in word/tag format, if the run was trained on it; else None.

    Tags that the run does not know are not tags: and/or, km/s and 1/2 are words.
    """
    task, labeled_data = cast("SequenceTagging", run.task), run.metadata.get("labelled")
    if labeled_data is None or labeled_data["source"]["form"]["kind"] != "tagged":
        return None
    try:
        words, tags = parse_slash_tags(text)
    except BadRowError:
        return None
    return words if tags and task.has_tag(tags) else None


def question_examples(question: str | Sequence[str], passage: str | Sequence[str]) -> list[QuestionExample]:
    """Questions with their passages; several questions may share one passage."""
    questions = [question] if isinstance(question, str) else list(question)
    passages = [passage] * len(questions) if isinstance(passage, str) else list(passage)
    if len(questions) != len(passages):
        message = f"{len(questions)} questions and {len(passages)} passages"
        raise InputError(message, hint="give one passage, or one for each question")
    examples = []
    for index, (question_text, passage_text) in enumerate(zip(questions, passages, strict=True), 1):
        if not question_text.strip() or not passage_text.strip():
            raise InputError(f"a question or a passage is empty{_item_number(index, questions)}", hint="give both")
        examples.append(QuestionExample(replace_surrogates(question_text), replace_surrogates(passage_text)))
    return examples


def choice_examples(text: str, choices: Sequence[str]) -> list[ChoiceExample]:
    if len(choices) < 2 or not all(choice.strip() for choice in choices):
        raise InputError("there is nothing to choose from", hint="give at least two choices, none of them empty")
    return [ChoiceExample(replace_surrogates(text), tuple(map(replace_surrogates, choices)))]
