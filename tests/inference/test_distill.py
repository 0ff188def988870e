"""Knowledge distillation: equal to plain training with share 0, resumed bit for bit, and better than training alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from forebear.cli.distill import distil as command
from forebear.cli.output import Output
from forebear.cli.pretrain import TrainingOptions
from forebear.data.labeled.labeled_source import labeled_source
from forebear.demo.labeled_examples import demo_examples
from forebear.errors import InputError
from forebear.experiments import distill, plan, training_run
from forebear.experiments.distill import num_encoder_parameters, smaller_spec
from forebear.inference.measure import evaluate_task
from forebear.inference.run import Run
from forebear.models.albert import AlbertSpec
from forebear.models.bert import BertSpec
from forebear.models.gpt2 import GPT2Spec
from forebear.training.checkpoint import CheckpointStore
from forebear.training.run_folder import RunFolder
from forebear.training.trainer import ProgressReport, TrainingCallback
from small_runs import small_tokenizer, train_small_run, weights_digest

QUICK: dict[str, Any] = {"threads": 1, "steps": 9, "evaluate_every": 3}
ON_TEXT: dict[str, Any] = {**QUICK, "batch": 128, "rate": 3e-3, "held_out": 0.15}
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def runs_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Language models, a teacher adapted to a task, and the examples of the task."""
    folder = tmp_path_factory.mktemp("school")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FOREBEAR_CACHE", str(folder / "cache"))
        train_small_run("gpt2", folder, to="gpt2", steps=30)
        train_small_run("bert", folder, to="bert", steps=10)
        train_small_run("gpt", folder, to="words", steps=10, tokenizer="words", depth=1)
        write_task_file(folder / "opinion.tsv", 60)
        source, _ = labeled_source(str(folder / "opinion.tsv"))
        training_run.run_adaptation(
            training_run.plan_adaptation(str(folder / "bert"), source, settings=QUICK), folder / "teacher"
        )
        yield folder


def write_task_file(file: Path, count: int, seed: int = 0, task: str = "opinion") -> Path:
    rows = [f"{example.text}\t{example.label}\n" for example in demo_examples(task, count, seed, "en")]  # pyright: ignore[reportAttributeAccessIssue]
    file.write_text("text\tlabel\n" + "".join(rows), encoding="utf-8")
    return file


class Killed(BaseException):
    """Stands for the end of the process."""


class KillAtStep(TrainingCallback):
    def __init__(self, at: int) -> None:
        self.at = at

    def on_progress(self, report: ProgressReport) -> None:
        if report.step >= self.at:
            raise Killed


def distill_until_killed(at: int, *arguments: Any, **options: Any) -> None:
    with pytest.raises(Killed):
        distill.distill(*arguments, callback=KillAtStep(at), **options)


# -- language models


def test_distillation_with_share_0_equals_pretraining_bit_for_bit(runs_folder: Path, tmp_path: Path):
    run = distill.distill(
        runs_folder / "gpt2", runs_folder / "text.txt", to=tmp_path / "run", share=0, depth=1, layers="none", **ON_TEXT
    )
    fields = {name: value for name, value in run.metadata["fields"].items() if name not in ON_TEXT}
    teacher = RunFolder.open(runs_folder / "gpt2")
    plain_plan = plan.plan_pretraining(
        "gpt2", [str(runs_folder / "text.txt")], tokenizer=teacher.tokenizer, settings={**fields, **ON_TEXT}
    )
    assert weights_digest(run.folder) == weights_digest(training_run.run_pretraining(plain_plan, tmp_path / "plain"))


@pytest.mark.parametrize("name", ["gpt2", "bert"])
def test_killed_distillation_on_text_resumes_bit_for_bit(name: str, runs_folder: Path, tmp_path: Path):
    """Also with the projection between two widths, which is not part of the student."""
    options = {"hidden": 1.0, "width": 16, **ON_TEXT}
    uninterrupted = distill.distill(runs_folder / name, [runs_folder / "text.txt"], to=tmp_path / "whole", **options)
    distill_until_killed(5, runs_folder / name, [runs_folder / "text.txt"], to=tmp_path / "broken", **options)
    killed_run = RunFolder.open(tmp_path / "broken")
    assert not killed_run.is_finished
    assert CheckpointStore(killed_run.path / "checkpoints").list_all()
    resumed = distill.resume_distillation(tmp_path / "broken")
    assert weights_digest(resumed.folder) == weights_digest(uninterrupted.folder)
    assert resumed.metadata["parent"] == str((runs_folder / name).absolute())
    assert resumed.metadata["distilled"]["temperature"] == 2.0
    assert resumed.metadata["price"][1]["held_out"] == uninterrupted.metadata["price"][1]["held_out"]
    assert (
        resumed.metadata["price"][1]["held_out"]
        == resumed.metadata["metrics"]["held_out"][resumed.metadata["price"][1]["score"]]
    )


def test_default_student_has_at_most_half_the_parameters(runs_folder: Path, tmp_path: Path):
    words = small_tokenizer("words")
    for teacher_spec in (
        GPT2Spec(width=64, depth=12, heads=4, context=64),
        GPT2Spec(width=64, depth=1, heads=4),
        GPT2Spec(width=30, depth=2, heads=3, inner=50),
        BertSpec(width=64, depth=8, heads=4),
        AlbertSpec(width=64, depth=4, heads=4, table=64),
    ):
        student_spec = smaller_spec(teacher_spec, words)
        assert 0 < num_encoder_parameters(student_spec, words) <= num_encoder_parameters(teacher_spec, words) / 2
    student_spec = smaller_spec(GPT2Spec(width=64, depth=12, heads=4, context=64), words)
    assert (student_spec.width, student_spec.depth) == (64, 4)  # of equal width: it can start with the teacher's layers
    run = distill.distill(
        runs_folder / "gpt2", runs_folder / "text.txt", to=tmp_path / "run", **{**ON_TEXT, "steps": 2}
    )
    teacher, student = run.metadata["price"]
    assert student["parameters"] <= teacher["parameters"] / 2
    assert any("of the teacher's" in note for note in run.metadata["notes"])


def test_recurrent_teacher_gets_a_smaller_recurrent_student(tmp_path: Path):
    train_small_run("lstm", tmp_path, to="lstm", steps=2, width=32, inner=32)
    source, _ = labeled_source(str(write_task_file(tmp_path / "opinion.tsv", 60)))
    training_run.run_adaptation(
        training_run.plan_adaptation(str(tmp_path / "lstm"), source, settings=QUICK), tmp_path / "teacher"
    )
    run = distill.distill(tmp_path / "teacher", to=tmp_path / "run", steps=2, threads=1)
    assert run.metadata["milestone"] == "lstm"
    assert run.metadata["parameters"] < RunFolder.open(tmp_path / "teacher").metadata["parameters"]
    assert not any("say too much" in note for note in run.metadata["notes"])  # both hold out the same examples


def test_student_larger_than_the_teacher_is_noted(runs_folder: Path, tmp_path: Path):
    options = {**ON_TEXT, "steps": 1, "width": 256}
    run = distill.distill(runs_folder / "gpt2", runs_folder / "text.txt", to=tmp_path / "run", **options)
    assert any("it is the larger of the two" in note for note in run.metadata["notes"])


def test_student_of_equal_width_starts_with_the_teachers_layers(runs_folder: Path, tmp_path: Path):
    """With a learning rate near 0 it keeps its initial weights."""
    from safetensors.torch import load_file

    no_learning = {**ON_TEXT, "steps": 1, "rate": 1e-30, "decay": 0.0}
    run = distill.distill(runs_folder / "gpt2", runs_folder / "text.txt", to=tmp_path / "run", depth=1, **no_learning)
    student_weights, teacher_weights = (
        load_file(run.folder.verified_weights()[0]),
        load_file(RunFolder.open(runs_folder / "gpt2").verified_weights()[0]),
    )
    assert run.metadata["distilled"]["layers"] == "every-second"
    assert student_weights["encoder.blocks.0.expand.weight"].equal(teacher_weights["encoder.blocks.1.expand.weight"])
    assert student_weights["encoder.embedding.token.weight"].equal(teacher_weights["encoder.embedding.token.weight"])


# -- tasks


def test_distillation_with_share_0_equals_adapting_bit_for_bit(runs_folder: Path, tmp_path: Path):
    run = distill.distill(runs_folder / "teacher", to=tmp_path / "run", student=runs_folder / "bert", share=0, **QUICK)
    source, _ = labeled_source(str(runs_folder / "opinion.tsv"))
    adapted = training_run.run_adaptation(
        training_run.plan_adaptation(str(runs_folder / "bert"), source, settings=QUICK), tmp_path / "plain"
    )
    assert weights_digest(run.folder) == weights_digest(adapted)
    assert run.metadata["metrics"] == adapted.metadata["metrics"]


def test_killed_distillation_of_a_task_resumes_bit_for_bit(runs_folder: Path, tmp_path: Path):
    """The student has another tokenizer and an auxiliary LM loss, and also learns from unlabeled texts."""
    (tmp_path / "more.txt").write_text("I loved it.\n\nNever again!\n", encoding="utf-8")
    options = {"student": runs_folder / "words", "texts": tmp_path / "more.txt", "temperature": 3, **QUICK}
    uninterrupted = distill.distill(runs_folder / "teacher", to=tmp_path / "whole", **options)
    distill_until_killed(5, runs_folder / "teacher", to=tmp_path / "broken", **options)
    assert (tmp_path / "broken" / distill.SOFT_TARGETS_FILE).is_file()
    resumed = distill.resume_distillation(tmp_path / "broken")
    assert weights_digest(resumed.folder) == weights_digest(uninterrupted.folder)
    assert not (tmp_path / "broken" / distill.SOFT_TARGETS_FILE).exists()
    assert resumed.metadata["milestone"] == "gpt"
    assert resumed.classify("I loved it.")[0].label in ("positive", "negative")
    assert (
        distill.distill(runs_folder / "teacher", to=tmp_path / "broken", **options).metadata["asked"]
        == uninterrupted.metadata["asked"]
    )


def test_hidden_states_and_attention_are_matched_in_a_task(runs_folder: Path, tmp_path: Path):
    run = distill.distill(runs_folder / "teacher", to=tmp_path / "run", hidden=1, attention=1, depth=1, **QUICK)
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert set(lines[0]["losses"]) == {"label", "label_taught", "hidden", "attention"}
    assert lines[-1]["losses"]["hidden"] < lines[0]["losses"]["hidden"]
    assert set(lines[-1]["held_out"]) == {"label", "accuracy"}
    assert set(Run.open(tmp_path / "run").heads) == {"label"}
    assert run.metadata["price"][0]["dev"] == pytest.approx(
        RunFolder.open(runs_folder / "teacher").metadata["metrics"]["dev"]["accuracy"]
    )


def test_costs_of_teacher_student_and_student_alone_are_printed(
    runs_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    training = TrainingOptions(steps="6", threads=1)
    options: dict[str, Any] = {"to": tmp_path / "run", "training": training, "compare": True, "depth": "1"}
    command(str(runs_folder / "teacher"), output=Output(json=True, quiet=True), **options)
    printed = json.loads(capsys.readouterr().out)
    assert [row["who"] for row in printed["price"]] == ["teacher", "student", "student alone"]
    teacher, student, alone = printed["price"]
    assert teacher["kept"] == 1.0
    assert student["kept"] == pytest.approx(student["dev"] / teacher["dev"])
    assert student["parameters"] == alone["parameters"] < teacher["parameters"]
    assert all(row["milliseconds"] > 0 and row["megabytes"] > 0 for row in printed["price"])
    command(str(runs_folder / "teacher"), output=Output(quiet=True), **options)  # finished already: only printed again
    table = capsys.readouterr().out
    assert "student alone" in table
    assert f"{student['parameters']:,}" in table


@pytest.mark.slow
def test_small_student_keeps_teacher_accuracy_and_beats_training_alone(tmp_path: Path):
    """From few examples, and unlabeled texts with the teacher's soft targets."""
    source, _ = labeled_source(str(write_task_file(tmp_path / "many.tsv", 400, seed=10)))
    planned = training_run.plan_adaptation("bert", source, settings={"threads": 1, "epochs": 4})
    small = replace(planned, spec=BertSpec(width=64, depth=2, heads=2, context=64))
    teacher = training_run.run_adaptation(small, tmp_path / "teacher")
    few = write_task_file(tmp_path / "few.tsv", 40, seed=11)
    texts = (" ".join(example.text.split()) for example in demo_examples("opinion", 250, 12, "en"))  # pyright: ignore[reportAttributeAccessIssue]
    (tmp_path / "texts.txt").write_text("\n".join(texts), encoding="utf-8")
    options: dict[str, Any] = {"width": 48, "depth": 1, "threads": 1, "steps": 100, "evaluate_every": 33}
    options |= {"share": 0.9, "texts": tmp_path / "texts.txt", "compare": True}
    costs = distill.distill(teacher.path, few, to=tmp_path / "run", **options).metadata["price"]
    assert costs[1]["parameters"] == costs[2]["parameters"] < costs[0]["parameters"] / 2
    test = write_task_file(tmp_path / "test.tsv", 200, seed=13)
    teacher_accuracy, student_accuracy, alone_accuracy = (
        evaluate_task(Run.open(row["run"]), test).metrics["accuracy"] for row in costs
    )
    assert student_accuracy >= 0.95 * teacher_accuracy
    assert student_accuracy > alone_accuracy + 0.1


# -- refusals


@pytest.mark.parametrize(
    ("teacher", "options", "message"),
    [
        ("gpt2", {}, "on text"),
        ("gpt2", {"data": "text.txt", "texts": "text.txt"}, "--texts"),
        ("gpt2", {"data": "text.txt", "student": "ngram"}, "ngram"),
        ("gpt2", {"data": "text.txt", "student": "words"}, "tokens cannot be compared"),
        ("gpt2", {"data": "text.txt", "context": 32}, "32"),
        ("gpt2", {"data": "text.txt", "attention": 1, "width": 16, "heads": 1}, "head by head"),
        ("gpt2", {"data": "text.txt", "student": "bert"}, "none predicts tokens in both"),
        ("gpt2", {"data": "text.txt", "layers": "every-second", "width": 16}, "layers"),
        ("bert", {"data": "text.txt", "student": "gpt2"}, "none predicts tokens in both"),
        ("teacher", {"student": "words", "hidden": 1}, "tokens cannot be compared"),
        ("teacher", {"student": "words", "size": "pocket"}, "--size"),
        ("teacher", {"texts": "text.txt", "share": 0}, "--share 0"),
        ("teacher", {"data": "gone.tsv"}, "not there"),
        ("teacher", {"wdith": 3}, "wdith"),
        ("teacher", {"temperature": 0}, "--temperature"),
    ],
)
def test_invalid_distillation_is_refused_before_writing(
    teacher: str, options: dict[str, Any], message: str, runs_folder: Path, tmp_path: Path
):
    paths = {name: runs_folder / options[name] for name in ("data", "texts") if name in options}
    if options.get("student") == "words":
        paths["student"] = runs_folder / "words"
    with pytest.raises(InputError, match=message) as caught:
        distill.distill(runs_folder / teacher, to=tmp_path / "run", **{**options, **paths})
    assert caught.value.hint
    assert not (tmp_path / "run").exists()


def test_distillation_is_not_resumed_with_changed_data(runs_folder: Path, tmp_path: Path):
    data = write_task_file(tmp_path / "own.tsv", 30)
    distill_until_killed(5, runs_folder / "teacher", data, to=tmp_path / "run", depth=1, **QUICK)
    write_task_file(data, 30, seed=9)
    with pytest.raises(InputError, match="changed"):
        distill.resume_distillation(tmp_path / "run")
    with pytest.raises(InputError, match="not distilled"):
        distill.resume_distillation(runs_folder / "teacher")


def test_malformed_line_of_unlabeled_texts_is_named(runs_folder: Path, tmp_path: Path):
    (tmp_path / "more.txt").write_text("very good\n\na\tpair\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"more\.txt:3") as caught:
        distill.distill(runs_folder / "teacher", to=tmp_path / "run", texts=tmp_path / "more.txt")
    assert "tabs" in caught.value.hint
