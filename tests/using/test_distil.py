"""A run teaches a smaller one: without its share nothing changes, broken off it ends alike, and it pays."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from forebear.cli.distil import distil as command
from forebear.cli.pretrain import TrainingOptions
from forebear.cli.printing import Speaking
from forebear.demo.examples import examples
from forebear.errors import BadInput
from forebear.milestones.albert import Albert
from forebear.milestones.bert import Bert
from forebear.milestones.gpt2 import Gpt2
from forebear.training.checkpoint import Checkpoints
from forebear.training.folder import RunFolder
from forebear.training.labelled import labelled_source
from forebear.training.trainer import Report, Watcher
from forebear.using import adapting, distilling, planning, pretraining
from forebear.using.examining import examine
from forebear.using.run import Run
from forebear.using.students import parameters, smaller
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
        source, _ = labelled_source(str(folder / "opinion.tsv"))
        adapting.adapt(adapting.plan(str(folder / "bert"), source, settings=QUICK), folder / "teacher")
        yield folder


def write(file: Path, count: int, seed: int = 0, task: str = "opinion") -> Path:
    rows = [f"{one.text}\t{one.label}\n" for one in examples(task, count, seed, "en")]  # pyright: ignore[reportAttributeAccessIssue]
    file.write_text("text\tlabel\n" + "".join(rows), encoding="utf-8")
    return file


class Killed(BaseException):
    """As if the process were no more."""


class Killer(Watcher):
    def __init__(self, at: int) -> None:
        self.at = at

    def report(self, report: Report) -> None:
        if report.step >= self.at:
            raise Killed


def broken(at: int, *given: Any, **how: Any) -> None:
    with pytest.raises(Killed):
        distilling.distil(*given, watcher=Killer(at), **how)


# -- language models


def test_without_its_share_it_is_pretraining_bit_for_bit(school: Path, tmp_path: Path):
    run = distilling.distil(
        school / "gpt2", school / "text.txt", to=tmp_path / "run", share=0, depth=1, layers="none", **ON_TEXT
    )
    fields = {name: value for name, value in run.facts["fields"].items() if name not in ON_TEXT}
    teacher = RunFolder.open(school / "gpt2")
    what = planning.plan(
        "gpt2", [str(school / "text.txt")], tokenizer=teacher.tokenizer, settings={**fields, **ON_TEXT}
    )
    assert weights(run.folder) == weights(pretraining.pretrain(what, tmp_path / "plain"))


@pytest.mark.parametrize("name", ["gpt2", "bert"])
def test_a_broken_distillation_of_text_ends_where_an_unbroken_one_does(name: str, school: Path, tmp_path: Path):
    """Also what leads from one width to another, which is no part of the student."""
    how = {"hidden": 1.0, "width": 16, **ON_TEXT}
    whole = distilling.distil(school / name, [school / "text.txt"], to=tmp_path / "whole", **how)
    broken(5, school / name, [school / "text.txt"], to=tmp_path / "broken", **how)
    there = RunFolder.open(tmp_path / "broken")
    assert not there.finished
    assert Checkpoints(there.path / "checkpoints").all()
    again = distilling.resume(tmp_path / "broken")
    assert weights(again.folder) == weights(whole.folder)
    assert again.facts["parent"] == str((school / name).absolute())
    assert again.facts["distilled"]["temperature"] == 2.0
    assert again.facts["price"][1]["held_out"] == whole.facts["price"][1]["held_out"]
    assert again.facts["price"][1]["held_out"] == again.facts["metrics"]["held_out"][again.facts["price"][1]["score"]]


def test_the_student_has_at_most_half_the_parameters(school: Path, tmp_path: Path):
    words = tokenizer("words")
    for milestone in (
        Gpt2(width=64, depth=12, heads=4, context=64),
        Gpt2(width=64, depth=1, heads=4),
        Gpt2(width=30, depth=2, heads=3, inner=50),
        Bert(width=64, depth=8, heads=4),
        Albert(width=64, depth=4, heads=4, table=64),
    ):
        small = smaller(milestone, words)
        assert 0 < parameters(small, words) <= parameters(milestone, words) / 2
    small = smaller(Gpt2(width=64, depth=12, heads=4, context=64), words)
    assert (small.width, small.depth) == (64, 4)  # as wide: it can begin with the teacher's layers
    run = distilling.distil(school / "gpt2", school / "text.txt", to=tmp_path / "run", **{**ON_TEXT, "steps": 2})
    teacher, student = run.facts["price"]
    assert student["parameters"] <= teacher["parameters"] / 2
    assert any("of the teacher's" in note for note in run.facts["notes"])


def test_a_recurrent_teacher_of_a_task_has_a_smaller_one_of_its_kind_as_student(tmp_path: Path):
    trained("lstm", tmp_path, to="lstm", steps=2, width=32, inner=32)
    source, _ = labelled_source(str(write(tmp_path / "opinion.tsv", 60)))
    adapting.adapt(adapting.plan(str(tmp_path / "lstm"), source, settings=QUICK), tmp_path / "teacher")
    run = distilling.distil(tmp_path / "teacher", to=tmp_path / "run", steps=2, threads=1)
    assert run.facts["milestone"] == "lstm"
    assert run.facts["parameters"] < RunFolder.open(tmp_path / "teacher").facts["parameters"]
    assert not any("say too much" in note for note in run.facts["notes"])  # both hold out the same examples


def test_a_student_that_is_larger_is_told(school: Path, tmp_path: Path):
    how = {**ON_TEXT, "steps": 1, "width": 256}
    run = distilling.distil(school / "gpt2", school / "text.txt", to=tmp_path / "run", **how)
    assert any("it is the larger of the two" in note for note in run.facts["notes"])


def test_a_student_as_wide_begins_with_the_teachers_layers(school: Path, tmp_path: Path):
    """With no rate to learn with it stays what it began as."""
    from safetensors.torch import load_file

    still = {**ON_TEXT, "steps": 1, "rate": 1e-30, "decay": 0.0}
    run = distilling.distil(school / "gpt2", school / "text.txt", to=tmp_path / "run", depth=1, **still)
    own, theirs = load_file(run.folder.weights()[0]), load_file(RunFolder.open(school / "gpt2").weights()[0])
    assert run.facts["distilled"]["layers"] == "every-second"
    assert own["encoder.blocks.0.expand.weight"].equal(theirs["encoder.blocks.1.expand.weight"])
    assert own["encoder.embedding.token.weight"].equal(theirs["encoder.embedding.token.weight"])


# -- tasks


def test_without_its_share_it_is_adapting_bit_for_bit(school: Path, tmp_path: Path):
    run = distilling.distil(school / "teacher", to=tmp_path / "run", student=school / "bert", share=0, **QUICK)
    source, _ = labelled_source(str(school / "opinion.tsv"))
    plain = adapting.adapt(adapting.plan(str(school / "bert"), source, settings=QUICK), tmp_path / "plain")
    assert weights(run.folder) == weights(plain)
    assert run.facts["metrics"] == plain.facts["metrics"]


def test_a_broken_distillation_of_a_task_ends_where_an_unbroken_one_does(school: Path, tmp_path: Path):
    """The student cuts texts otherwise, predicts the next token beside, and hears of texts that have no label."""
    (tmp_path / "more.txt").write_text("I loved it.\n\nNever again!\n", encoding="utf-8")
    how = {"student": school / "words", "texts": tmp_path / "more.txt", "temperature": 3, **QUICK}
    whole = distilling.distil(school / "teacher", to=tmp_path / "whole", **how)
    broken(5, school / "teacher", to=tmp_path / "broken", **how)
    assert (tmp_path / "broken" / distilling.SOFT).is_file()
    again = distilling.resume(tmp_path / "broken")
    assert weights(again.folder) == weights(whole.folder)
    assert not (tmp_path / "broken" / distilling.SOFT).exists()
    assert again.facts["milestone"] == "gpt"
    assert again.classify("I loved it.")[0].label in ("positive", "negative")
    assert distilling.distil(school / "teacher", to=tmp_path / "broken", **how).facts["asked"] == whole.facts["asked"]


def test_insides_are_matched_in_a_task_too(school: Path, tmp_path: Path):
    run = distilling.distil(school / "teacher", to=tmp_path / "run", hidden=1, attention=1, depth=1, **QUICK)
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert set(lines[0]["losses"]) == {"label", "label_taught", "hidden", "attention"}
    assert lines[-1]["losses"]["hidden"] < lines[0]["losses"]["hidden"]
    assert set(lines[-1]["held_out"]) == {"label", "accuracy"}
    assert set(Run.open(tmp_path / "run").heads) == {"label"}
    assert run.facts["price"][0]["dev"] == pytest.approx(
        RunFolder.open(school / "teacher").facts["metrics"]["dev"]["accuracy"]
    )


def test_the_price_is_told_side_by_side(school: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    training = TrainingOptions(steps="6", threads=1)
    how: dict[str, Any] = {"to": tmp_path / "run", "training": training, "compare": True, "depth": "1"}
    command(str(school / "teacher"), speaking=Speaking(json=True, quiet=True), **how)
    told = json.loads(capsys.readouterr().out)
    assert [row["who"] for row in told["price"]] == ["teacher", "student", "student alone"]
    teacher, student, alone = told["price"]
    assert teacher["kept"] == 1.0
    assert student["kept"] == pytest.approx(student["dev"] / teacher["dev"])
    assert student["parameters"] == alone["parameters"] < teacher["parameters"]
    assert all(row["milliseconds"] > 0 and row["megabytes"] > 0 for row in told["price"])
    command(str(school / "teacher"), speaking=Speaking(quiet=True), **how)  # finished already: only told again
    drawn = capsys.readouterr().out
    assert "student alone" in drawn
    assert f"{student['parameters']:,}" in drawn


def test_a_student_of_less_than_half_keeps_nearly_all_and_beats_the_same_student_alone(tmp_path: Path):
    """Few examples, and texts without labels of which the teacher says what it thinks."""
    source, _ = labelled_source(str(write(tmp_path / "many.tsv", 400, seed=10)))
    planned = adapting.plan("bert", source, settings={"threads": 1, "epochs": 4})
    small = replace(planned, milestone=Bert(width=64, depth=2, heads=2, context=64))
    teacher = adapting.adapt(small, tmp_path / "teacher")
    few = write(tmp_path / "few.tsv", 40, seed=11)
    texts = (" ".join(one.text.split()) for one in examples("opinion", 250, 12, "en"))  # pyright: ignore[reportAttributeAccessIssue]
    (tmp_path / "texts.txt").write_text("\n".join(texts), encoding="utf-8")
    how: dict[str, Any] = {"width": 48, "depth": 1, "threads": 1, "steps": 100, "evaluate_every": 33}
    how |= {"share": 0.9, "texts": tmp_path / "texts.txt", "compare": True}
    told = distilling.distil(teacher.path, few, to=tmp_path / "run", **how).facts["price"]
    assert told[1]["parameters"] == told[2]["parameters"] < told[0]["parameters"] / 2
    test = write(tmp_path / "test.tsv", 200, seed=13)
    knows, taught, alone = (examine(Run.open(row["run"]), test).figures["accuracy"] for row in told)
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
    with pytest.raises(BadInput, match=words) as told:
        distilling.distil(school / teacher, to=tmp_path / "run", **{**given, **paths})
    assert told.value.remedy
    assert not (tmp_path / "run").exists()


def test_what_changed_since_it_began_is_not_gone_on_with(school: Path, tmp_path: Path):
    data = write(tmp_path / "own.tsv", 30)
    broken(5, school / "teacher", data, to=tmp_path / "run", depth=1, **QUICK)
    write(data, 30, seed=9)
    with pytest.raises(BadInput, match="changed"):
        distilling.resume(tmp_path / "run")
    with pytest.raises(BadInput, match="not distilled"):
        distilling.resume(school / "teacher")


def test_a_line_that_is_no_example_is_named(school: Path, tmp_path: Path):
    (tmp_path / "more.txt").write_text("very good\n\na\tpair\n", encoding="utf-8")
    with pytest.raises(BadInput, match=r"more\.txt:3") as told:
        distilling.distil(school / "teacher", to=tmp_path / "run", texts=tmp_path / "more.txt")
    assert "tabs" in told.value.remedy
