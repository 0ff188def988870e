"""Teacher outputs as targets: computed on the teacher's tokens and aligned to the student's, only for training."""

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
from forebear.training.distillation_targets import (
    TEACHER_SUFFIX,
    DistillationConfig,
    DistillationObjective,
    Teacher,
    mask_labels,
)
from small_runs import small_tokenizer

TEXTS = ["The cat sat by the hill.", "The old fox saw the dog and ran.", "A bird sat."]


class FakeTeacherModel:
    """A model whose logits follow from the first token of a sequence."""

    transitions = None

    def __init__(self, name: str, answers: int, *, per_token: bool = False) -> None:
        self.name, self.answers, self.per_token = name, answers, per_token

    def logits(self, inputs):
        lengths = inputs["lengths"]
        firsts = inputs["tokens"] if self.per_token else inputs["tokens"][np.cumsum(lengths) - lengths]
        return {self.name: np.sin(np.outer(firsts, np.arange(1, self.answers + 1))).astype(np.float32)}


def test_teacher_may_tokenize_differently_from_student():
    """Labels of texts and tags of words, computed on teacher tokens and aligned to student tokens."""
    teacher_tokenizer, student_tokenizer = small_tokenizer("characters"), small_tokenizer("words")
    spec = GPT2Spec(width=16, depth=1, heads=1, context=64)
    input_format = spec.input_format(student_tokenizer)
    examples = [LabeledExample((text,), "a") for text in TEXTS]
    task = Classification(("a", "b", "c"))
    rows = task.encode(examples, student_tokenizer, input_format)
    teacher_format = replace(spec.input_format(teacher_tokenizer), before=(), after=())
    teacher = Teacher(FakeTeacherModel("label", 3), task, teacher_tokenizer, teacher_format)
    targets = teacher.targets_for(examples, rows)[f"label{TEACHER_SUFFIX}"]
    first_ids = [teacher_tokenizer.encode(text).ids[0] for text in TEXTS]
    assert targets == pytest.approx(np.sin(np.outer(first_ids, [1, 2, 3])).astype(np.float32))

    sentences = [TaggedExample(tuple(text.split())) for text in TEXTS]
    tagging = SequenceTagging(("O", "S-A"), characters=False)
    rows = tagging.encode(sentences, student_tokenizer, input_format)
    targets = Teacher(
        FakeTeacherModel("tag", 2, per_token=True), tagging, teacher_tokenizer, teacher_format
    ).targets_for(sentences, rows)[f"tag{TEACHER_SUFFIX}"]
    supervised = ~np.isnan(targets[:, 0])
    assert supervised.sum() == sum(len(sentence.words) for sentence in sentences)
    first_ids = [teacher_tokenizer.encode(word).ids[0] for sentence in sentences for word in sentence.words]
    logits = np.sin(np.outer(first_ids, [1, 2]))
    assert targets[supervised] == pytest.approx(logits - np.log(np.exp(logits).sum(1, keepdims=True)), abs=1e-5)


def test_choice_targets_are_padded_with_minus_infinity():
    student_tokenizer = small_tokenizer("words")
    input_format = GPT2Spec(width=16, depth=1, heads=1, context=64).input_format(student_tokenizer)
    examples = [ChoiceExample("The cat", ("sat.", "ran.", "saw."), 0), ChoiceExample("The dog", ("sat.", "ran."))]
    rows = mask_labels(MultipleChoice().encode(examples, student_tokenizer, input_format), 1)

    class LengthTeacherModel(FakeTeacherModel):
        def logits(self, inputs):
            return {"choice": inputs["lengths"].astype(np.float32)}

    targets = Teacher(LengthTeacherModel("choice", 1), MultipleChoice(), student_tokenizer, input_format).targets_for(
        examples, rows
    )[f"choice{TEACHER_SUFFIX}"]
    assert targets.shape == (2, 3)
    assert np.isneginf(targets).tolist() == [[False] * 3, [False, False, True]]
    assert rows.targets["choice"].tolist() == [0, IGNORE_INDEX]


def test_answer_positions_follow_the_student_sequences():
    student_tokenizer = small_tokenizer("words")
    input_format = GPT2Spec(width=16, depth=1, heads=1, context=16).input_format(student_tokenizer)
    examples = [
        QuestionExample("Who sat?", TEXTS[0], (AnswerSpan(4, "cat"),)),
        QuestionExample("Who saw?", TEXTS[1] * 3),
    ]
    rows = mask_labels(
        QuestionAnswering(longest=3).encode(examples, student_tokenizer, input_format, is_training=True), 1
    )
    assert rows.targets["start"][0] > 0
    assert (rows.targets["start"][rows.examples == 1] == IGNORE_INDEX).all()

    class PositionTeacherModel(FakeTeacherModel):
        def logits(self, inputs):
            return {"start": np.sin(inputs["tokens"]), "end": np.cos(inputs["tokens"])}

    targets = Teacher(
        PositionTeacherModel("start", 1), QuestionAnswering(), student_tokenizer, input_format
    ).targets_for(examples, rows)
    assert set(targets) == {f"start{TEACHER_SUFFIX}", f"end{TEACHER_SUFFIX}"}
    for row, length in enumerate(rows.lengths):
        tokens = rows.tokens[rows.lengths[:row].sum() :][:length]
        assert targets[f"end{TEACHER_SUFFIX}"][row, :length] == pytest.approx(np.cos(tokens), abs=1e-6)
        assert np.isneginf(targets[f"end{TEACHER_SUFFIX}"][row, length:]).all()


@pytest.mark.parametrize("wrong", [{"temperature": 0.0}, {"share": 1.5}, {"share": -0.1}, {"hidden": -1.0}])
def test_distillation_config_refuses_invalid_values(wrong):
    with pytest.raises(InputError, match=next(iter(wrong))):
        DistillationConfig(**wrong)


class FixedBatchObjective:
    """An objective with one fixed batch."""

    def steps(self, source, batch_size):
        return 7

    def check(self, source): ...

    def batch(self, source, batch_size, key):
        return replace(
            Batch({"tokens": np.arange(19), "lengths": np.array([19])}, {"next": np.arange(19)}), weights={"next": 0.5}
        )


def test_distillation_targets_are_added_to_training_batches_only():
    train = object()
    objective = DistillationObjective(FixedBatchObjective(), train, ("next",), ("hidden",), {"hidden": 2.0})
    train_batch, held_out_batch = (objective.batch(source, 1, BatchKey(0, 0)) for source in (train, object()))
    assert set(train_batch.targets) == {f"next{TEACHER_SUFFIX}", "hidden"}
    assert train_batch.supervised_counts()["hidden"] == 19
    assert train_batch.weights == {"next": 0.5, "hidden": 2.0}
    assert set(held_out_batch.targets) == {"next"}
    assert objective.steps(train, 1) == 7
