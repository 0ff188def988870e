"""Word vectors as students of a Transformer: far smaller and faster, and trained on its soft targets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from forebear.data.labeled.labeled_source import labeled_source
from forebear.demo.labeled_examples import demo_examples
from forebear.errors import InputError
from forebear.experiments import distill, training_run
from forebear.inference.measure import evaluate_task
from forebear.inference.run import Run
from forebear.models.bert import BertSpec
from forebear.training.run_folder import RunFolder
from small_runs import train_small_run, weights_digest

QUICK: dict[str, Any] = {"threads": 1, "steps": 6, "evaluate_every": 3}
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def runs_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A teacher, unlabeled texts, and word vectors trained on these texts."""
    folder = tmp_path_factory.mktemp("school")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FOREBEAR_CACHE", str(folder / "cache"))
        source, _ = labeled_source(str(write_task_file(folder / "many.tsv", 400, seed=10)))
        planned = training_run.plan_adaptation("bert", source, settings={"threads": 1, "epochs": 4})
        training_run.run_adaptation(
            replace(planned, spec=BertSpec(width=64, depth=2, heads=2, context=64)), folder / "teacher"
        )
        texts = [" ".join(example.text.split()) for example in demo_examples("opinion", 250, 12, "en")]  # pyright: ignore[reportAttributeAccessIssue]
        (folder / "texts.txt").write_text("\n".join(texts), encoding="utf-8")
        (folder / "text.txt").write_text("\n\n".join(texts), encoding="utf-8")
        train_small_run("word2vec", folder, to="word2vec")
        write_task_file(folder / "few.tsv", 40, seed=11)
        yield folder


def write_task_file(file: Path, count: int, seed: int = 0) -> Path:
    rows = [f"{example.text}\t{example.label}\n" for example in demo_examples("opinion", count, seed, "en")]  # pyright: ignore[reportAttributeAccessIssue]
    file.write_text("text\tlabel\n" + "".join(rows), encoding="utf-8")
    return file


@pytest.mark.slow
def test_word_vector_student_keeps_teacher_accuracy_and_beats_training_alone(runs_folder: Path, tmp_path: Path):
    options: dict[str, Any] = {"threads": 1, "steps": 120, "evaluate_every": 40, "share": 0.9, "compare": True}
    options |= {"student": runs_folder / "word2vec", "texts": runs_folder / "texts.txt"}
    run = distill.distill(runs_folder / "teacher", runs_folder / "few.tsv", to=tmp_path / "run", **options)
    costs = run.metadata["price"]
    assert costs[1]["parameters"] == costs[2]["parameters"] < costs[0]["parameters"] / 2
    test = write_task_file(tmp_path / "test.tsv", 200, seed=13)
    teacher_accuracy, student_accuracy, alone_accuracy = (
        evaluate_task(Run.open(row["run"]), test).metrics["accuracy"] for row in costs
    )
    assert student_accuracy >= 0.95 * teacher_accuracy
    assert student_accuracy > alone_accuracy + 0.03


@pytest.mark.sample(1)
@pytest.mark.parametrize("reader", ["convolution", "recurrent"])
def test_word2vec_student_uses_the_teachers_tokenizer(reader: str, runs_folder: Path, tmp_path: Path):
    run = distill.distill(
        runs_folder / "teacher", to=tmp_path / "run", student="word2vec", reader=reader, width=16, **QUICK
    )
    assert run.tokenizer.digest == RunFolder.open(runs_folder / "teacher").tokenizer.digest
    assert run.metadata["adaptation"]["reader"] == reader
    assert run.network.encoder.width == 16
    assert run.classify("I loved it.")[0].label in ("positive", "negative")
    assert any(f"{run.num_parameters:,} parameters" in note for note in run.metadata["notes"])


def test_word_vector_distillation_with_share_0_equals_adapting(runs_folder: Path, tmp_path: Path):
    options = {"reader": "convolution", "reader_width": 12}
    run = distill.distill(
        runs_folder / "teacher", to=tmp_path / "run", student=runs_folder / "word2vec", share=0, **options, **QUICK
    )
    source, _ = labeled_source(str(runs_folder / "many.tsv"))
    plan = training_run.plan_adaptation(str(runs_folder / "word2vec"), source, how=options, settings=QUICK)
    assert weights_digest(run.folder) == weights_digest(training_run.run_adaptation(plan, tmp_path / "plain"))


def test_hidden_states_are_not_matched_where_tokens_differ(runs_folder: Path, tmp_path: Path):
    """A Transformer puts special tokens around a text, which a task encoder over words does not read."""
    with pytest.raises(InputError, match="one by one"):
        distill.distill(runs_folder / "teacher", to=tmp_path / "run", student="word2vec", hidden=1, **QUICK)


def test_word_vector_teacher_gets_a_smaller_student(runs_folder: Path, tmp_path: Path):
    source, _ = labeled_source(str(runs_folder / "few.tsv"))
    plan = training_run.plan_adaptation(
        str(runs_folder / "word2vec"), source, how={"reader": "recurrent"}, settings=QUICK
    )
    training_run.run_adaptation(plan, tmp_path / "teacher")
    run = distill.distill(tmp_path / "teacher", to=tmp_path / "run", hidden=1, **QUICK)
    teacher, student = run.metadata["price"]
    assert student["parameters"] <= 0.51 * teacher["parameters"]
    assert run.metadata["adaptation"]["reader"] == "recurrent"


def test_invalid_word_vector_distillation_is_refused(runs_folder: Path, tmp_path: Path):
    with pytest.raises(InputError, match="encoder of its own"):
        distill.distill(runs_folder / "teacher", to=tmp_path / "run", reader="mean", **QUICK)
    with pytest.raises(InputError, match="--width"):
        distill.distill(
            runs_folder / "teacher", to=tmp_path / "run", student=runs_folder / "word2vec", width=16, **QUICK
        )
    assert not (tmp_path / "run").exists()
