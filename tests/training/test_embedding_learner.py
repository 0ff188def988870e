"""Word vectors: determinism across threads, unused settings, too high learning rates, very long lines."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from forebear.errors import ForebearError, InputError
from forebear.experiments import plan as planning
from forebear.experiments import training_run
from forebear.inference.run import Run
from forebear.training.process_group import ProcessGroup
from forebear.training.run_folder import MetricsLog
from small_runs import (
    WORD_VECTOR_MODELS,
    NoteRecorder,
    small_pretrain_plan,
    small_text,
    train_small_run,
    weights_digest,
)

TRAINED = [name for name in WORD_VECTOR_MODELS if name != "onehot"]


@pytest.mark.parametrize("name", TRAINED)
def test_deterministic_training_is_independent_of_threads(name: str, tmp_path: Path):
    run_1, run_2, run_3 = (
        train_small_run(name, tmp_path, to=str(threads), threads=threads, deterministic=True, batch=2000, steps=20)
        for threads in (1, 2, 3)
    )
    assert weights_digest(run_1) == weights_digest(run_2) == weights_digest(run_3)


@pytest.mark.parametrize("name", TRAINED)
def test_training_with_two_threads_reduces_held_out_loss(name: str, tmp_path: Path):
    first = train_small_run(name, tmp_path, to="first", threads=2, steps=1, rate=0.1)
    last = train_small_run(name, tmp_path, to="last", threads=2, steps=200, rate=0.1)
    assert last.metadata["recipe"]["threads"] == 2
    assert last.metadata["metrics"]["held_out"]["loss"] < 0.9 * first.metadata["metrics"]["held_out"]["loss"]


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", [{}, {"architecture": "cbow"}, {"output": "tree"}, {"subwords": True}, {"phrases": 1}])
def test_each_word2vec_variant_reduces_held_out_loss(kind: dict, tmp_path: Path):
    kind = {"sample": 0.0, **kind}  # subsampling would leave little of such a small text
    first, last = (
        train_small_run("word2vec", tmp_path, to=str(steps), steps=steps, rate=0.1, **kind) for steps in (1, 150)
    )
    assert last.metadata["metrics"]["held_out"]["loss"] < 0.92 * first.metadata["metrics"]["held_out"]["loss"]
    run = Run(last)
    assert run.word_table.vector("cat") is not None
    assert (run.word_table.vector("catfish") is not None) == kind.get("subwords", False)


def test_held_out_loss_is_logged_after_every_epoch(tmp_path: Path):
    run = train_small_run("word2vec", tmp_path, epochs=4, batch=300)
    steps = [line["step"] for line in MetricsLog(run.path / "metrics.jsonl").read_lines() if line.get("held_out")]
    assert steps == [run.metadata["step"] * part // 4 for part in (1, 2, 3, 4)]


@pytest.mark.parametrize("name", WORD_VECTOR_MODELS)
@pytest.mark.parametrize("setting", [{"clip": 1.0}, {"precision": "bfloat16"}, {"accumulate": 2}, {"patience": 3}])
def test_settings_without_effect_on_word_vectors_are_refused(name: str, setting: dict):
    with pytest.raises(InputError, match=f"--{next(iter(setting))} means nothing to {name}"):
        planning.plan_pretraining(name, ["text.txt"], settings=setting)


@pytest.mark.parametrize("name", ["gpt2", "ngram"])
def test_deterministic_is_refused_for_other_models(name: str):
    with pytest.raises(InputError, match="--deterministic means nothing"):
        planning.plan_pretraining(name, ["text.txt"], settings={"deterministic": True})


@pytest.mark.parametrize("name", TRAINED)
def test_non_finite_loss_names_too_high_learning_rate(name: str, tmp_path: Path):
    with pytest.raises(ForebearError, match=r"the loss is (nan|inf) at step .* with a rate of") as raised:
        train_small_run(name, tmp_path, steps=400, rate=1e30, threads=1)
    assert "a lower rate" in raised.value.hint


def test_line_of_a_million_words_is_trained_to_its_end(tmp_path: Path):
    """The last words occur nowhere else: if their vectors have changed, the line was not truncated."""
    rng = np.random.default_rng(0)
    words = [f"w{number}" for number in rng.integers(50, size=1_000_000)]
    file = tmp_path / "line.txt"
    file.write_text(" ".join(words + ["omega", "psi"] * 50) + "\n" + "the end . " * 20, encoding="utf-8")
    settings = {"epochs": 1, "width": 8, "window": 2, "held_out": 0.0001, "threads": 1, "sample": 0.0}
    pretrain_plan = planning.plan_pretraining("word2vec", [str(file)], settings=settings)
    run = Run(training_run.run_pretraining(pretrain_plan, tmp_path / "run"))
    assert run.metadata["tokens"] > 999_000
    vectors = run.word_table
    if vectors.row_of("omega") is not None:  # else it was held out
        untrained_plan = planning.plan_pretraining("word2vec", [str(file)], settings=settings | {"rate": 1e-12})
        untrained_vectors = Run(training_run.run_pretraining(untrained_plan,
                                         tmp_path / "still")).word_table  # fmt: skip
        assert not np.allclose(vectors.vector("omega"), untrained_vectors.vector("omega"), atol=1e-4)  # pyright: ignore


def test_word2vec_trains_with_vocabulary_of_one_word(tmp_path: Path):
    file = tmp_path / "text.txt"
    file.write_text("\n\n".join(["la la la la la"] * 40))
    pretrain_plan = planning.plan_pretraining("word2vec", [str(file)], settings={"epochs": 2, "width": 1, "threads": 1})
    run = Run(training_run.run_pretraining(pretrain_plan, tmp_path / "run"))
    assert list(run.word_table.words) == ["la"]
    assert run.word_table.matrix.shape == (1, 1)


def test_text_without_adjacent_words_is_refused(tmp_path: Path):
    file = tmp_path / "text.txt"
    file.write_text("\n\n".join(["one", "two"] * 20))
    for name in TRAINED:
        with pytest.raises(InputError):
            training_run.run_pretraining(
                planning.plan_pretraining(name, [str(file)], settings={"epochs": 1}), tmp_path / name
            )


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", WORD_VECTOR_MODELS)
def test_word_vectors_train_and_answer_without_loading_torch(name: str, tmp_path: Path):
    (tmp_path / "text.txt").write_text(small_text())
    code = (
        "import sys; from forebear.cli.main import main;"
        f"code = main(['pretrain', {name!r}, 'text.txt', '--min-count', '1', '--to', 'run', '--quiet']);"
        "code = code or main(['neighbours', 'run', 'cat', '--quiet']);"
        "sys.exit(code or (3 if 'torch' in sys.modules else 0))"
    )
    process = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert process.returncode == 0, process.stderr


def test_command_line_of_plan_contains_deterministic(tmp_path: Path):
    (tmp_path / "text.txt").write_text(small_text())
    pretrain_plan = small_pretrain_plan("word2vec", tmp_path / "text.txt", deterministic=True)
    assert "--deterministic" in pretrain_plan.command_line(tmp_path / "run")


def test_min_count_above_all_counts_names_the_text_file(tmp_path: Path):
    (tmp_path / "text.txt").write_text(small_text())
    pretrain_plan = planning.plan_pretraining("word2vec", [str(tmp_path / "text.txt")], settings={"min_count": 100_000})
    with pytest.raises(InputError, match="no word of this text is seen 100000 times") as raised:
        training_run.run_pretraining(pretrain_plan, tmp_path / "run")
    assert raised.value.file == str(tmp_path / "text.txt")


@pytest.mark.parametrize("name", TRAINED)
def test_processes_are_refused_with_hint_to_use_threads(name: str, tmp_path: Path):
    (tmp_path / "text.txt").write_text(small_text())
    with pytest.raises(InputError, match="--processes 2 means nothing") as raised:
        training_run.run_pretraining(
            small_pretrain_plan(name, tmp_path / "text.txt"), tmp_path / "run", group=ProcessGroup(2)
        )
    assert raised.value.hint == "give --threads 2 instead"


@pytest.mark.parametrize("kind", ["characters", "wordpiece", "bytepair"])
def test_word2vec_trains_on_any_tokenizer(kind: str, tmp_path: Path):
    run = Run(train_small_run("word2vec", tmp_path, tokenizer=kind, steps=20))
    assert run.word_table.matrix.shape[1] == 32
    assert "analogy" in run.capabilities


def test_diverging_vectors_name_too_high_learning_rate(tmp_path: Path):
    with pytest.raises(ForebearError, match="the vectors grow without end") as raised:
        train_small_run("word2vec", tmp_path, steps=60, rate=0.7)
    assert "a lower rate" in raised.value.hint


def test_learned_phrases_are_noted(tmp_path: Path):
    notes = NoteRecorder()
    train_small_run("word2vec", tmp_path, steps=2, phrases=1, callback=notes)
    assert any("phrases are words of their own" in note for note in notes.messages)
