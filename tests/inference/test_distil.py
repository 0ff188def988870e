"""A run teaches a smaller one: without its share nothing changes, broken off it ends alike, and it pays."""

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
from forebear.data.labeled.source import labeled_source
from forebear.demo.labeled_examples import demo_examples
from forebear.errors import InputError
from forebear.experiments import distill, pipeline, plan
from forebear.experiments.distill import num_encoder_parameters, smaller_spec
from forebear.inference.measure import evaluate_task
from forebear.inference.run import Run
from forebear.models.albert import AlbertSpec
from forebear.models.bert import BertSpec
from forebear.models.gpt2 import GPT2Spec
from forebear.training.checkpoint import CheckpointStore
from forebear.training.run_folder import RunFolder
from forebear.training.trainer import ProgressReport, TrainingCallback
from small_runs import tokenizer, trained, weights

QUICK: dict[str, Any] = {"threads": 1, "steps": 9, "evaluate_every": 3}
ON_TEXT: dict[str, Any] = {**QUICK, "batch": 128, "rate": 3e-3, "held_out": 0.15}
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def school(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Language models, a task that a larger one of them does, and its examples."""
    folder = tmp_path_factory.mktemp("school")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FOREBEAR_CACHE", str(folder / "cache"))
        trained("gpt2", folder, to="gpt2", steps=30)
        trained("bert", folder, to="bert", steps=10)
        trained("gpt", folder, to="words", steps=10, tokenizer="words", depth=1)
        write(folder / "opinion.tsv", 60)
        source, _ = labeled_source(str(folder / "opinion.tsv"))
        pipeline.run_adaptation(
            pipeline.plan_adaptation(str(folder / "bert"), source, settings=QUICK), folder / "teacher"
        )
        yield folder


def write(file: Path, count: int, seed: int = 0, task: str = "opinion") -> Path:
    rows = [f"{one.text}\t{one.label}\n" for one in demo_examples(task, count, seed, "en")]  # pyright: ignore[reportAttributeAccessIssue]
    file.write_text("text\tlabel\n" + "".join(rows), encoding="utf-8")
    return file


class Killed(BaseException):
    """As if the process were no more."""


class Killer(TrainingCallback):
    def __init__(self, at: int) -> None:
        self.at = at

    def on_progress(self, report: ProgressReport) -> None:
        if report.step >= self.at:
            raise Killed


def broken(at: int, *given: Any, **how: Any) -> None:
    with pytest.raises(Killed):
        distill.distill(*given, callback=Killer(at), **how)


# -- language models


def test_without_its_share_it_is_pretraining_bit_for_bit(school: Path, tmp_path: Path):
    run = distill.distill(
        school / "gpt2", school / "text.txt", to=tmp_path / "run", share=0, depth=1, layers="none", **ON_TEXT
    )
    fields = {name: value for name, value in run.metadata["fields"].items() if name not in ON_TEXT}
    teacher = RunFolder.open(school / "gpt2")
    what = plan.plan_pretraining(
        "gpt2", [str(school / "text.txt")], tokenizer=teacher.tokenizer, settings={**fields, **ON_TEXT}
    )
    assert weights(run.folder) == weights(pipeline.run_pretraining(what, tmp_path / "plain"))


@pytest.mark.parametrize("name", ["gpt2", "bert"])
def test_a_broken_distillation_of_text_ends_where_an_unbroken_one_does(name: str, school: Path, tmp_path: Path):
    """Also what leads from one width to another, which is no part of the student."""
    how = {"hidden": 1.0, "width": 16, **ON_TEXT}
    whole = distill.distill(school / name, [school / "text.txt"], to=tmp_path / "whole", **how)
    broken(5, school / name, [school / "text.txt"], to=tmp_path / "broken", **how)
    there = RunFolder.open(tmp_path / "broken")
    assert not there.is_finished
    assert CheckpointStore(there.path / "checkpoints").list_all()
    again = distill.resume_distillation(tmp_path / "broken")
    assert weights(again.folder) == weights(whole.folder)
    assert again.metadata["parent"] == str((school / name).absolute())
    assert again.metadata["distilled"]["temperature"] == 2.0
    assert again.metadata["price"][1]["held_out"] == whole.metadata["price"][1]["held_out"]
    assert (
        again.metadata["price"][1]["held_out"]
        == again.metadata["metrics"]["held_out"][again.metadata["price"][1]["score"]]
    )


def test_the_student_has_at_most_half_the_parameters(school: Path, tmp_path: Path):
    words = tokenizer("words")
    for milestone in (
        GPT2Spec(width=64, depth=12, heads=4, context=64),
        GPT2Spec(width=64, depth=1, heads=4),
        GPT2Spec(width=30, depth=2, heads=3, inner=50),
        BertSpec(width=64, depth=8, heads=4),
        AlbertSpec(width=64, depth=4, heads=4, table=64),
    ):
        small = smaller_spec(milestone, words)
        assert 0 < num_encoder_parameters(small, words) <= num_encoder_parameters(milestone, words) / 2
    small = smaller_spec(GPT2Spec(width=64, depth=12, heads=4, context=64), words)
    assert (small.width, small.depth) == (64, 4)  # as wide: it can begin with the teacher's layers
    run = distill.distill(school / "gpt2", school / "text.txt", to=tmp_path / "run", **{**ON_TEXT, "steps": 2})
    teacher, student = run.metadata["price"]
    assert student["parameters"] <= teacher["parameters"] / 2
    assert any("of the teacher's" in note for note in run.metadata["notes"])


def test_a_recurrent_teacher_of_a_task_has_a_smaller_one_of_its_kind_as_student(tmp_path: Path):
    trained("lstm", tmp_path, to="lstm", steps=2, width=32, inner=32)
    source, _ = labeled_source(str(write(tmp_path / "opinion.tsv", 60)))
    pipeline.run_adaptation(
        pipeline.plan_adaptation(str(tmp_path / "lstm"), source, settings=QUICK), tmp_path / "teacher"
    )
    run = distill.distill(tmp_path / "teacher", to=tmp_path / "run", steps=2, threads=1)
    assert run.metadata["milestone"] == "lstm"
    assert run.metadata["parameters"] < RunFolder.open(tmp_path / "teacher").metadata["parameters"]
    assert not any("say too much" in note for note in run.metadata["notes"])  # both hold out the same examples


def test_a_student_that_is_larger_is_told(school: Path, tmp_path: Path):
    how = {**ON_TEXT, "steps": 1, "width": 256}
    run = distill.distill(school / "gpt2", school / "text.txt", to=tmp_path / "run", **how)
    assert any("it is the larger of the two" in note for note in run.metadata["notes"])


def test_a_student_as_wide_begins_with_the_teachers_layers(school: Path, tmp_path: Path):
    """With no rate to learn with it stays what it began as."""
    from safetensors.torch import load_file

    still = {**ON_TEXT, "steps": 1, "rate": 1e-30, "decay": 0.0}
    run = distill.distill(school / "gpt2", school / "text.txt", to=tmp_path / "run", depth=1, **still)
    own, theirs = (
        load_file(run.folder.verified_weights()[0]),
        load_file(RunFolder.open(school / "gpt2").verified_weights()[0]),
    )
    assert run.metadata["distilled"]["layers"] == "every-second"
    assert own["encoder.blocks.0.expand.weight"].equal(theirs["encoder.blocks.1.expand.weight"])
    assert own["encoder.embedding.token.weight"].equal(theirs["encoder.embedding.token.weight"])


# -- tasks


def test_without_its_share_it_is_adapting_bit_for_bit(school: Path, tmp_path: Path):
    run = distill.distill(school / "teacher", to=tmp_path / "run", student=school / "bert", share=0, **QUICK)
    source, _ = labeled_source(str(school / "opinion.tsv"))
    plain = pipeline.run_adaptation(
        pipeline.plan_adaptation(str(school / "bert"), source, settings=QUICK), tmp_path / "plain"
    )
    assert weights(run.folder) == weights(plain)
    assert run.metadata["metrics"] == plain.metadata["metrics"]


def test_a_broken_distillation_of_a_task_ends_where_an_unbroken_one_does(school: Path, tmp_path: Path):
    """The student cuts texts otherwise, predicts the next token beside, and hears of texts that have no label."""
    (tmp_path / "more.txt").write_text("I loved it.\n\nNever again!\n", encoding="utf-8")
    how = {"student": school / "words", "texts": tmp_path / "more.txt", "temperature": 3, **QUICK}
    whole = distill.distill(school / "teacher", to=tmp_path / "whole", **how)
    broken(5, school / "teacher", to=tmp_path / "broken", **how)
    assert (tmp_path / "broken" / distill.SOFT_TARGETS_FILE).is_file()
    again = distill.resume_distillation(tmp_path / "broken")
    assert weights(again.folder) == weights(whole.folder)
    assert not (tmp_path / "broken" / distill.SOFT_TARGETS_FILE).exists()
    assert again.metadata["milestone"] == "gpt"
    assert again.classify("I loved it.")[0].label in ("positive", "negative")
    assert (
        distill.distill(school / "teacher", to=tmp_path / "broken", **how).metadata["asked"] == whole.metadata["asked"]
    )


def test_insides_are_matched_in_a_task_too(school: Path, tmp_path: Path):
    run = distill.distill(school / "teacher", to=tmp_path / "run", hidden=1, attention=1, depth=1, **QUICK)
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert set(lines[0]["losses"]) == {"label", "label_taught", "hidden", "attention"}
    assert lines[-1]["losses"]["hidden"] < lines[0]["losses"]["hidden"]
    assert set(lines[-1]["held_out"]) == {"label", "accuracy"}
    assert set(Run.open(tmp_path / "run").heads) == {"label"}
    assert run.metadata["price"][0]["dev"] == pytest.approx(
        RunFolder.open(school / "teacher").metadata["metrics"]["dev"]["accuracy"]
    )


def test_the_price_is_told_side_by_side(school: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    training = TrainingOptions(steps="6", threads=1)
    how: dict[str, Any] = {"to": tmp_path / "run", "training": training, "compare": True, "depth": "1"}
    command(str(school / "teacher"), speaking=Output(json=True, quiet=True), **how)
    told = json.loads(capsys.readouterr().out)
    assert [row["who"] for row in told["price"]] == ["teacher", "student", "student alone"]
    teacher, student, alone = told["price"]
    assert teacher["kept"] == 1.0
    assert student["kept"] == pytest.approx(student["dev"] / teacher["dev"])
    assert student["parameters"] == alone["parameters"] < teacher["parameters"]
    assert all(row["milliseconds"] > 0 and row["megabytes"] > 0 for row in told["price"])
    command(str(school / "teacher"), speaking=Output(quiet=True), **how)  # finished already: only told again
    drawn = capsys.readouterr().out
    assert "student alone" in drawn
    assert f"{student['parameters']:,}" in drawn


@pytest.mark.slow
def test_a_student_of_less_than_half_keeps_nearly_all_and_beats_the_same_student_alone(tmp_path: Path):
    """Few examples, and texts without labels of which the teacher says what it thinks."""
    source, _ = labeled_source(str(write(tmp_path / "many.tsv", 400, seed=10)))
    planned = pipeline.plan_adaptation("bert", source, settings={"threads": 1, "epochs": 4})
    small = replace(planned, spec=BertSpec(width=64, depth=2, heads=2, context=64))
    teacher = pipeline.run_adaptation(small, tmp_path / "teacher")
    few = write(tmp_path / "few.tsv", 40, seed=11)
    texts = (" ".join(one.text.split()) for one in demo_examples("opinion", 250, 12, "en"))  # pyright: ignore[reportAttributeAccessIssue]
    (tmp_path / "texts.txt").write_text("\n".join(texts), encoding="utf-8")
    how: dict[str, Any] = {"width": 48, "depth": 1, "threads": 1, "steps": 100, "evaluate_every": 33}
    how |= {"share": 0.9, "texts": tmp_path / "texts.txt", "compare": True}
    told = distill.distill(teacher.path, few, to=tmp_path / "run", **how).metadata["price"]
    assert told[1]["parameters"] == told[2]["parameters"] < told[0]["parameters"] / 2
    test = write(tmp_path / "test.tsv", 200, seed=13)
    knows, taught, alone = (evaluate_task(Run.open(row["run"]), test).metrics["accuracy"] for row in told)
    assert taught >= 0.95 * knows
    assert taught > alone + 0.1


# -- what cannot be


@pytest.mark.parametrize(
    ("teacher", "given", "words"),
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
def test_what_cannot_be_is_refused_before_anything_is_written(
    teacher: str, given: dict[str, Any], words: str, school: Path, tmp_path: Path
):
    paths = {name: school / given[name] for name in ("data", "texts") if name in given}
    if given.get("student") == "words":
        paths["student"] = school / "words"
    with pytest.raises(InputError, match=words) as told:
        distill.distill(school / teacher, to=tmp_path / "run", **{**given, **paths})
    assert told.value.hint
    assert not (tmp_path / "run").exists()


def test_what_changed_since_it_began_is_not_gone_on_with(school: Path, tmp_path: Path):
    data = write(tmp_path / "own.tsv", 30)
    broken(5, school / "teacher", data, to=tmp_path / "run", depth=1, **QUICK)
    write(data, 30, seed=9)
    with pytest.raises(InputError, match="changed"):
        distill.resume_distillation(tmp_path / "run")
    with pytest.raises(InputError, match="not distilled"):
        distill.resume_distillation(school / "teacher")


def test_a_line_that_is_no_example_is_named(school: Path, tmp_path: Path):
    (tmp_path / "more.txt").write_text("very good\n\na\tpair\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"more\.txt:3") as told:
        distill.distill(school / "teacher", to=tmp_path / "run", texts=tmp_path / "more.txt")
    assert "tabs" in told.value.hint
