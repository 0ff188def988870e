"""A teacher's opinion as targets: found in its own tokens, asked at the student's, and never of what examines."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from forebear.errors import BadInput
from forebear.milestones.gpt2 import Gpt2
from forebear.objectives.batch import NOTHING, Batch, Moment
from forebear.tasks.answering import Answering
from forebear.tasks.choice import Choice
from forebear.tasks.classification import Classification
from forebear.tasks.examples import Asked, Choices, Labelled, Span, Tagged
from forebear.tasks.tagging import Tagging
from forebear.training.soft_targets import TAUGHT, Distillation, Taught, Teacher, unlabelled
from small_runs import tokenizer

TEXTS = ["The cat sat by the hill.", "The old fox saw the dog and ran.", "A bird sat."]


class Saying:
    """A model that counts: what it says of a row follows from its first tokens."""

    def __init__(self, name: str, answers: int, *, of_tokens: bool = False) -> None:
        self.name, self.answers, self.of_tokens = name, answers, of_tokens

    def logits(self, inputs):
        lengths = inputs["lengths"]
        firsts = inputs["tokens"] if self.of_tokens else inputs["tokens"][np.cumsum(lengths) - lengths]
        return {self.name: np.sin(np.outer(firsts, np.arange(1, self.answers + 1))).astype(np.float32)}


def test_a_teacher_need_not_cut_as_its_student_does():
    """Labels of whole texts, and tags of words: found by the teacher in its own tokens, asked at the student's."""
    theirs, own = tokenizer("characters"), tokenizer("words")
    milestone = Gpt2(width=16, depth=1, heads=1, context=64)
    layout = milestone.layout(own)
    examples = [Labelled((text,), "a") for text in TEXTS]
    task = Classification(("a", "b", "c"))
    rows = task.rows(examples, own, layout)
    inner = replace(milestone.layout(theirs), before=(), behind=())
    teacher = Teacher(Saying("label", 3), task, theirs, inner)
    found = teacher.says(examples, rows)[f"label{TAUGHT}"]
    firsts = [theirs.encode(text).ids[0] for text in TEXTS]
    assert found == pytest.approx(np.sin(np.outer(firsts, [1, 2, 3])).astype(np.float32))

    sentences = [Tagged(tuple(text.split())) for text in TEXTS]
    tagging = Tagging(("O", "S-A"), characters=False)
    rows = tagging.rows(sentences, own, layout)
    found = Teacher(Saying("tag", 2, of_tokens=True), tagging, theirs, inner).says(sentences, rows)[f"tag{TAUGHT}"]
    asked = ~np.isnan(found[:, 0])
    assert asked.sum() == sum(len(one.words) for one in sentences)
    firsts = [theirs.encode(word).ids[0] for one in sentences for word in one.words]
    logits = np.sin(np.outer(firsts, [1, 2]))
    assert found[asked] == pytest.approx(logits - np.log(np.exp(logits).sum(1, keepdims=True)), abs=1e-5)


def test_choices_of_unequal_number_end_in_what_cannot_be():
    own = tokenizer("words")
    layout = Gpt2(width=16, depth=1, heads=1, context=64).layout(own)
    examples = [Choices("The cat", ("sat.", "ran.", "saw."), 0), Choices("The dog", ("sat.", "ran."))]
    rows = unlabelled(Choice().rows(examples, own, layout), 1)

    class Scoring(Saying):
        def logits(self, inputs):
            return {"choice": inputs["lengths"].astype(np.float32)}

    found = Teacher(Scoring("choice", 1), Choice(), own, layout).says(examples, rows)[f"choice{TAUGHT}"]
    assert found.shape == (2, 3)
    assert np.isneginf(found).tolist() == [[False] * 3, [False, False, True]]
    assert rows.targets["choice"].tolist() == [0, NOTHING]


def test_places_are_found_in_the_students_own_rows():
    own = tokenizer("words")
    layout = Gpt2(width=16, depth=1, heads=1, context=16).layout(own)
    examples = [Asked("Who sat?", TEXTS[0], (Span(4, "cat"),)), Asked("Who saw?", TEXTS[1] * 3)]
    rows = unlabelled(Answering(longest=3).rows(examples, own, layout, learning=True), 1)
    assert rows.targets["start"][0] > 0
    assert (rows.targets["start"][rows.examples == 1] == NOTHING).all()

    class Placing(Saying):
        def logits(self, inputs):
            return {"start": np.sin(inputs["tokens"]), "end": np.cos(inputs["tokens"])}

    found = Teacher(Placing("start", 1), Answering(), own, layout).says(examples, rows)
    assert set(found) == {f"start{TAUGHT}", f"end{TAUGHT}"}
    for row, length in enumerate(rows.lengths):
        tokens = rows.tokens[rows.lengths[:row].sum() :][:length]
        assert found[f"end{TAUGHT}"][row, :length] == pytest.approx(np.cos(tokens), abs=1e-6)
        assert np.isneginf(found[f"end{TAUGHT}"][row, length:]).all()


@pytest.mark.parametrize("wrong", [{"temperature": 0.0}, {"share": 1.5}, {"share": -0.1}, {"hidden": -1.0}])
def test_settings_that_mean_nothing_are_refused(wrong):
    with pytest.raises(BadInput, match=next(iter(wrong))):
        Distillation(**wrong)


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
    objective = Taught(Rows(), lessons, ("next",), ("hidden",), {"hidden": 2.0})
    taught, examined = (objective.batch(source, 1, Moment(0, 0)) for source in (lessons, object()))
    assert set(taught.targets) == {f"next{TAUGHT}", "hidden"}
    assert taught.asked()["hidden"] == 19
    assert taught.weights == {"next": 0.5, "hidden": 2.0}
    assert set(examined.targets) == {"next"}
    assert objective.steps(lessons, 1) == 7
