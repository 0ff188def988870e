"""A teacher's opinion as targets: found in its own tokens, asked at the student's, and never of what examines."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from forebear.data.labeled.examples import AnswerSpan, ChoiceExample, LabeledExample, QuestionExample, TaggedExample
from forebear.errors import InputError
from forebear.models.gpt2 import GPT2Spec
from forebear.objectives.batch import IGNORE_INDEX, Batch, BatchKey
from forebear.tasks.classification import Classification
from forebear.tasks.multiple_choice import MultipleChoice
from forebear.tasks.question_answering import QuestionAnswering
from forebear.tasks.tagging import SequenceTagging
from forebear.training.soft_targets import (
    TEACHER_SUFFIX,
    DistillationConfig,
    DistillationObjective,
    Teacher,
    mask_labels,
)
from small_runs import tokenizer

TEXTS = ["The cat sat by the hill.", "The old fox saw the dog and ran.", "A bird sat."]


class Saying:
    """A model that counts: what it says of a row follows from its first tokens."""

    moves = None

    def __init__(self, name: str, answers: int, *, of_tokens: bool = False) -> None:
        self.name, self.answers, self.of_tokens = name, answers, of_tokens

    def logits(self, inputs):
        lengths = inputs["lengths"]
        firsts = inputs["tokens"] if self.of_tokens else inputs["tokens"][np.cumsum(lengths) - lengths]
        return {self.name: np.sin(np.outer(firsts, np.arange(1, self.answers + 1))).astype(np.float32)}


def test_a_teacher_need_not_cut_as_its_student_does():
    """Labels of whole texts, and tags of words: found by the teacher in its own tokens, asked at the student's."""
    theirs, own = tokenizer("characters"), tokenizer("words")
    milestone = GPT2Spec(width=16, depth=1, heads=1, context=64)
    layout = milestone.input_format(own)
    examples = [LabeledExample((text,), "a") for text in TEXTS]
    task = Classification(("a", "b", "c"))
    rows = task.encode(examples, own, layout)
    inner = replace(milestone.input_format(theirs), before=(), after=())
    teacher = Teacher(Saying("label", 3), task, theirs, inner)
    found = teacher.targets_for(examples, rows)[f"label{TEACHER_SUFFIX}"]
    firsts = [theirs.encode(text).ids[0] for text in TEXTS]
    assert found == pytest.approx(np.sin(np.outer(firsts, [1, 2, 3])).astype(np.float32))

    sentences = [TaggedExample(tuple(text.split())) for text in TEXTS]
    tagging = SequenceTagging(("O", "S-A"), characters=False)
    rows = tagging.encode(sentences, own, layout)
    found = Teacher(Saying("tag", 2, of_tokens=True), tagging, theirs, inner).targets_for(sentences, rows)[
        f"tag{TEACHER_SUFFIX}"
    ]
    asked = ~np.isnan(found[:, 0])
    assert asked.sum() == sum(len(one.words) for one in sentences)
    firsts = [theirs.encode(word).ids[0] for one in sentences for word in one.words]
    logits = np.sin(np.outer(firsts, [1, 2]))
    assert found[asked] == pytest.approx(logits - np.log(np.exp(logits).sum(1, keepdims=True)), abs=1e-5)


def test_choices_of_unequal_number_end_in_what_cannot_be():
    own = tokenizer("words")
    layout = GPT2Spec(width=16, depth=1, heads=1, context=64).input_format(own)
    examples = [ChoiceExample("The cat", ("sat.", "ran.", "saw."), 0), ChoiceExample("The dog", ("sat.", "ran."))]
    rows = mask_labels(MultipleChoice().encode(examples, own, layout), 1)

    class Scoring(Saying):
        def logits(self, inputs):
            return {"choice": inputs["lengths"].astype(np.float32)}

    found = Teacher(Scoring("choice", 1), MultipleChoice(), own, layout).targets_for(examples, rows)[
        f"choice{TEACHER_SUFFIX}"
    ]
    assert found.shape == (2, 3)
    assert np.isneginf(found).tolist() == [[False] * 3, [False, False, True]]
    assert rows.targets["choice"].tolist() == [0, IGNORE_INDEX]


def test_places_are_found_in_the_students_own_rows():
    own = tokenizer("words")
    layout = GPT2Spec(width=16, depth=1, heads=1, context=16).input_format(own)
    examples = [
        QuestionExample("Who sat?", TEXTS[0], (AnswerSpan(4, "cat"),)),
        QuestionExample("Who saw?", TEXTS[1] * 3),
    ]
    rows = mask_labels(QuestionAnswering(longest=3).encode(examples, own, layout, is_training=True), 1)
    assert rows.targets["start"][0] > 0
    assert (rows.targets["start"][rows.examples == 1] == IGNORE_INDEX).all()

    class Placing(Saying):
        def logits(self, inputs):
            return {"start": np.sin(inputs["tokens"]), "end": np.cos(inputs["tokens"])}

    found = Teacher(Placing("start", 1), QuestionAnswering(), own, layout).targets_for(examples, rows)
    assert set(found) == {f"start{TEACHER_SUFFIX}", f"end{TEACHER_SUFFIX}"}
    for row, length in enumerate(rows.lengths):
        tokens = rows.tokens[rows.lengths[:row].sum() :][:length]
        assert found[f"end{TEACHER_SUFFIX}"][row, :length] == pytest.approx(np.cos(tokens), abs=1e-6)
        assert np.isneginf(found[f"end{TEACHER_SUFFIX}"][row, length:]).all()


@pytest.mark.parametrize("wrong", [{"temperature": 0.0}, {"share": 1.5}, {"share": -0.1}, {"hidden": -1.0}])
def test_settings_that_mean_nothing_are_refused(wrong):
    with pytest.raises(InputError, match=next(iter(wrong))):
        DistillationConfig(**wrong)


class Rows:
    """An objective that always shows the same."""

    def steps(self, source, size):
        return 7

    def check(self, source): ...

    def batch(self, source, size, moment):
        return replace(
            Batch({"tokens": np.arange(19), "lengths": np.array([19])}, {"next": np.arange(19)}), weights={"next": 0.5}
        )


def test_only_what_teaches_is_taught():
    lessons = object()
    objective = DistillationObjective(Rows(), lessons, ("next",), ("hidden",), {"hidden": 2.0})
    taught, examined = (objective.batch(source, 1, BatchKey(0, 0)) for source in (lessons, object()))
    assert set(taught.targets) == {f"next{TEACHER_SUFFIX}", "hidden"}
    assert taught.supervised_counts()["hidden"] == 19
    assert taught.weights == {"next": 0.5, "hidden": 2.0}
    assert set(examined.targets) == {"next"}
    assert objective.steps(lessons, 1) == 7
