"""Tables of vectors: bits that threads do not change, idle settings, rates that are too high, very long lines."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from forebear.errors import ForebearError, InputError
from forebear.experiments import pipeline
from forebear.experiments import plan as planning
from forebear.inference.run import Run
from forebear.training.run_folder import MetricsLog
from forebear.training.worker_processes import ProcessGroup
from small_runs import TABLES, Notes, plan, text, trained, weights

LEARNED = [name for name in TABLES if name != "onehot"]


@pytest.mark.parametrize("name", LEARNED)
def test_threads_change_nothing_where_it_is_asked(name: str, tmp_path: Path):
    one, two, three = (
        trained(name, tmp_path, to=str(threads), threads=threads, deterministic=True, batch=2000, steps=20)
        for threads in (1, 2, 3)
    )
    assert weights(one) == weights(two) == weights(three)


@pytest.mark.parametrize("name", LEARNED)
def test_several_threads_learn_too(name: str, tmp_path: Path):
    first = trained(name, tmp_path, to="first", threads=2, steps=1, rate=0.1)
    last = trained(name, tmp_path, to="last", threads=2, steps=200, rate=0.1)
    assert last.metadata["recipe"]["threads"] == 2
    assert last.metadata["metrics"]["held_out"]["loss"] < 0.9 * first.metadata["metrics"]["held_out"]["loss"]


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", [{}, {"architecture": "cbow"}, {"output": "tree"}, {"subwords": True}, {"phrases": 1}])
def test_every_kind_of_word2vec_learns(kind: dict, tmp_path: Path):
    kind = {"sample": 0.0, **kind}  # of so small a text little would be left
    first, last = (trained("word2vec", tmp_path, to=str(steps), steps=steps, rate=0.1, **kind) for steps in (1, 150))
    assert last.metadata["metrics"]["held_out"]["loss"] < 0.92 * first.metadata["metrics"]["held_out"]["loss"]
    run = Run(last)
    assert run.word_table.vector("cat") is not None
    assert (run.word_table.vector("catfish") is not None) == kind.get("subwords", False)


def test_the_held_out_loss_is_told_after_every_epoch(tmp_path: Path):
    run = trained("word2vec", tmp_path, epochs=4, batch=300)
    steps = [line["step"] for line in MetricsLog(run.path / "metrics.jsonl").read_lines() if line.get("held_out")]
    assert steps == [run.metadata["step"] * part // 4 for part in (1, 2, 3, 4)]


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("setting", [{"clip": 1.0}, {"precision": "bfloat16"}, {"accumulate": 2}, {"patience": 3}])
def test_what_means_nothing_is_refused(name: str, setting: dict):
    with pytest.raises(InputError, match=f"--{next(iter(setting))} means nothing to {name}"):
        planning.plan_pretraining(name, ["text.txt"], settings=setting)


@pytest.mark.parametrize("name", ["gpt2", "ngram"])
def test_others_are_not_asked_to_be_deterministic(name: str):
    with pytest.raises(InputError, match="--deterministic means nothing"):
        planning.plan_pretraining(name, ["text.txt"], settings={"deterministic": True})


@pytest.mark.parametrize("name", LEARNED)
def test_a_rate_that_is_too_high_is_named(name: str, tmp_path: Path):
    with pytest.raises(ForebearError, match=r"the loss is (nan|inf) at step .* with a rate of") as raised:
        trained(name, tmp_path, steps=400, rate=1e30, threads=1)
    assert "a lower rate" in raised.value.hint


def test_a_line_of_a_million_words_is_used_to_its_last(tmp_path: Path):
    """The last words stand nowhere else: if they have learned something, nothing was left away."""
    rng = np.random.default_rng(0)
    words = [f"w{number}" for number in rng.integers(50, size=1_000_000)]
    file = tmp_path / "line.txt"
    file.write_text(" ".join(words + ["omega", "psi"] * 50) + "\n" + "the end . " * 20, encoding="utf-8")
    settings = {"epochs": 1, "width": 8, "window": 2, "held_out": 0.0001, "threads": 1, "sample": 0.0}
    what = planning.plan_pretraining("word2vec", [str(file)], settings=settings)
    run = Run(pipeline.run_pretraining(what, tmp_path / "run"))
    assert run.metadata["tokens"] > 999_000
    known = run.word_table
    if known.row_of("omega") is not None:  # else it was held out
        unchanged = planning.plan_pretraining("word2vec", [str(file)], settings=settings | {"rate": 1e-12})
        begun = Run(pipeline.run_pretraining(unchanged,
                                         tmp_path / "still")).word_table  # fmt: skip
        assert not np.allclose(known.vector("omega"), begun.vector("omega"), atol=1e-4)  # pyright: ignore


def test_a_vocabulary_of_one_word(tmp_path: Path):
    file = tmp_path / "text.txt"
    file.write_text("\n\n".join(["la la la la la"] * 40))
    what = planning.plan_pretraining("word2vec", [str(file)], settings={"epochs": 2, "width": 1, "threads": 1})
    run = Run(pipeline.run_pretraining(what, tmp_path / "run"))
    assert list(run.word_table.words) == ["la"]
    assert run.word_table.matrix.shape == (1, 1)


def test_a_text_without_two_words_side_by_side(tmp_path: Path):
    file = tmp_path / "text.txt"
    file.write_text("\n\n".join(["one", "two"] * 20))
    for name in LEARNED:
        with pytest.raises(InputError):
            pipeline.run_pretraining(
                planning.plan_pretraining(name, [str(file)], settings={"epochs": 1}), tmp_path / name
            )


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", TABLES)
def test_word_vectors_are_learned_and_asked_without_torch(name: str, tmp_path: Path):
    (tmp_path / "text.txt").write_text(text())
    code = (
        "import sys; from forebear.cli.main import main;"
        f"code = main(['pretrain', {name!r}, 'text.txt', '--min-count', '1', '--to', 'run', '--quiet']);"
        "code = code or main(['neighbours', 'run', 'cat', '--quiet']);"
        "sys.exit(code or (3 if 'torch' in sys.modules else 0))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_the_plan_of_a_run_is_its_command(tmp_path: Path):
    (tmp_path / "text.txt").write_text(text())
    made = plan("word2vec", tmp_path / "text.txt", deterministic=True)
    assert "--deterministic" in made.command_line(tmp_path / "run")


def test_a_word_must_be_seen_so_often_is_told_with_the_remedy(tmp_path: Path):
    (tmp_path / "text.txt").write_text(text())
    what = planning.plan_pretraining("word2vec", [str(tmp_path / "text.txt")], settings={"min_count": 100_000})
    with pytest.raises(InputError, match="no word of this text is seen 100000 times") as raised:
        pipeline.run_pretraining(what, tmp_path / "run")
    assert raised.value.file == str(tmp_path / "text.txt")


@pytest.mark.parametrize("name", LEARNED)
def test_several_processes_are_refused_before_any_work(name: str, tmp_path: Path):
    (tmp_path / "text.txt").write_text(text())
    with pytest.raises(InputError, match="--processes 2 means nothing") as raised:
        pipeline.run_pretraining(plan(name, tmp_path / "text.txt"), tmp_path / "run", group=ProcessGroup(2))
    assert raised.value.hint == "give --threads 2 instead"


@pytest.mark.parametrize("kind", ["characters", "wordpiece", "bytepair"])
def test_any_tokens_have_vectors(kind: str, tmp_path: Path):
    run = Run(trained("word2vec", tmp_path, tokenizer=kind, steps=20))
    assert run.word_table.matrix.shape[1] == 32
    assert "analogy" in run.capabilities


def test_a_rate_at_which_vectors_grow_without_end_is_named(tmp_path: Path):
    with pytest.raises(ForebearError, match="the vectors grow without end") as raised:
        trained("word2vec", tmp_path, steps=60, rate=0.7)
    assert "a lower rate" in raised.value.hint


def test_phrases_are_told(tmp_path: Path):
    notes = Notes()
    trained("word2vec", tmp_path, steps=2, phrases=1, watcher=notes)
    assert any("phrases are words of their own" in note for note in notes.words)
