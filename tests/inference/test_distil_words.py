"""Word vectors as the student of a Transformer: far smaller and faster, and taught what it thinks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from forebear.data.labeled.source import labeled_source
from forebear.demo.labeled_examples import demo_examples
from forebear.errors import InputError
from forebear.experiments import distill, pipeline
from forebear.inference.measure import evaluate_task
from forebear.inference.run import Run
from forebear.models.bert import BertSpec
from forebear.training.run_folder import RunFolder
from small_runs import trained, weights

QUICK: dict[str, Any] = {"threads": 1, "steps": 6, "evaluate_every": 3}
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def school(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A teacher, texts that it can judge, and vectors of the words they are written in."""
    folder = tmp_path_factory.mktemp("school")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FOREBEAR_CACHE", str(folder / "cache"))
        source, _ = labeled_source(str(write(folder / "many.tsv", 400, seed=10)))
        planned = pipeline.plan_adaptation("bert", source, settings={"threads": 1, "epochs": 4})
        pipeline.run_adaptation(
            replace(planned, spec=BertSpec(width=64, depth=2, heads=2, context=64)), folder / "teacher"
        )
        texts = [" ".join(one.text.split()) for one in demo_examples("opinion", 250, 12, "en")]  # pyright: ignore[reportAttributeAccessIssue]
        (folder / "texts.txt").write_text("\n".join(texts), encoding="utf-8")
        (folder / "text.txt").write_text("\n\n".join(texts), encoding="utf-8")
        trained("word2vec", folder, to="word2vec")
        write(folder / "few.tsv", 40, seed=11)
        yield folder


def write(file: Path, count: int, seed: int = 0) -> Path:
    rows = [f"{one.text}\t{one.label}\n" for one in demo_examples("opinion", count, seed, "en")]  # pyright: ignore[reportAttributeAccessIssue]
    file.write_text("text\tlabel\n" + "".join(rows), encoding="utf-8")
    return file


@pytest.mark.slow
def test_vectors_of_words_keep_nearly_all_and_beat_themselves_alone(school: Path, tmp_path: Path):
    how: dict[str, Any] = {"threads": 1, "steps": 120, "evaluate_every": 40, "share": 0.9, "compare": True}
    how |= {"student": school / "word2vec", "texts": school / "texts.txt"}
    run = distill.distill(school / "teacher", school / "few.tsv", to=tmp_path / "run", **how)
    told = run.metadata["price"]
    assert told[1]["parameters"] == told[2]["parameters"] < told[0]["parameters"] / 2
    test = write(tmp_path / "test.tsv", 200, seed=13)
    knows, taught, alone = (evaluate_task(Run.open(row["run"]), test).metrics["accuracy"] for row in told)
    assert taught >= 0.95 * knows
    assert taught > alone + 0.03


@pytest.mark.sample(1)
@pytest.mark.parametrize("reader", ["convolution", "recurrent"])
def test_a_milestone_of_word_vectors_begins_with_the_teachers_own_tokens(reader: str, school: Path, tmp_path: Path):
    run = distill.distill(school / "teacher", to=tmp_path / "run", student="word2vec", reader=reader, width=16, **QUICK)
    assert run.tokenizer.digest == RunFolder.open(school / "teacher").tokenizer.digest
    assert run.metadata["adaptation"]["reader"] == reader
    assert run.network.encoder.width == 16
    assert run.classify("I loved it.")[0].label in ("positive", "negative")
    assert any(f"{run.num_parameters:,} parameters" in note for note in run.metadata["notes"])


def test_without_its_share_it_is_adapting_bit_for_bit(school: Path, tmp_path: Path):
    how = {"reader": "convolution", "reader_width": 12}
    run = distill.distill(school / "teacher", to=tmp_path / "run", student=school / "word2vec", share=0, **how, **QUICK)
    source, _ = labeled_source(str(school / "many.tsv"))
    plan = pipeline.plan_adaptation(str(school / "word2vec"), source, how=how, settings=QUICK)
    assert weights(run.folder) == weights(pipeline.run_adaptation(plan, tmp_path / "plain"))


def test_layers_may_be_compared_where_tokens_are_the_same(school: Path, tmp_path: Path):
    """But a Transformer puts tokens around a text that a reader of words knows nothing of."""
    with pytest.raises(InputError, match="one by one"):
        distill.distill(school / "teacher", to=tmp_path / "run", student="word2vec", hidden=1, **QUICK)


def test_vectors_of_words_teach_smaller_ones(school: Path, tmp_path: Path):
    source, _ = labeled_source(str(school / "few.tsv"))
    plan = pipeline.plan_adaptation(str(school / "word2vec"), source, how={"reader": "recurrent"}, settings=QUICK)
    pipeline.run_adaptation(plan, tmp_path / "teacher")
    run = distill.distill(tmp_path / "teacher", to=tmp_path / "run", hidden=1, **QUICK)
    teacher, student = run.metadata["price"]
    assert student["parameters"] <= 0.51 * teacher["parameters"]
    assert run.metadata["adaptation"]["reader"] == "recurrent"


def test_what_cannot_be_is_refused(school: Path, tmp_path: Path):
    with pytest.raises(InputError, match="encoder of its own"):
        distill.distill(school / "teacher", to=tmp_path / "run", reader="mean", **QUICK)
    with pytest.raises(InputError, match="--width"):
        distill.distill(school / "teacher", to=tmp_path / "run", student=school / "word2vec", width=16, **QUICK)
    assert not (tmp_path / "run").exists()
