"""Warm start of word vectors: old words keep their vectors, new words are added, and both are trained."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from forebear.embeddings.word2vec import Subwords
from forebear.errors import InputError
from forebear.experiments import plan, training_run
from forebear.experiments.warm_start import InitFrom
from forebear.inference.run import Run
from forebear.training.run_folder import RunFolder
from small_runs import small_settings, small_text, train_small_run, weights_digest

NEW_TEXT = (
    "The wolf sat by the lake. The cat saw the wolf and ran to the rivers.\nThe wolf ran by the lake, said the cat."
)


def continued(name: str, run: RunFolder, to: Path, **changes) -> RunFolder:
    file = to.with_suffix(".txt")
    file.write_text("\n\n".join(f"{NEW_TEXT} Day {number}." for number in range(20)))
    own_settings = {
        field: value for field, value in small_settings(name, **changes).items() if field not in ("width", "window")
    }
    own_settings = {
        field: value for field, value in own_settings.items() if field not in ("min_count", "order", "phrases")
    }
    continued_plan = plan.plan_pretraining(
        name, [str(file)], settings=own_settings, init_from=InitFrom.for_run(str(run.path))
    )
    return training_run.run_pretraining(continued_plan, to)


@pytest.mark.parametrize("name", ["word2vec", "glove"])
def test_new_words_are_appended_to_the_vocabulary_and_counts_grow(name: str, tmp_path: Path):
    old = train_small_run(name, tmp_path, to="old", steps=30)
    new = continued(name, old, tmp_path / "new", steps=1, rate=1e-12)
    before, after = Run(old).word_table, Run(new).word_table
    assert "wolf" not in before.rows
    assert {"wolf", "lake"} <= set(after.words)
    tokens = [RunFolder.open(run.path).tokenizer.vocabulary() for run in (old, new)]
    assert tokens[1][: len(tokens[0])] == tokens[0]
    assert np.allclose(before.vector("river"), after.vector("river"), atol=1e-6)  # pyright: ignore[reportArgumentType]
    assert after.counts is not None
    assert before.counts is not None
    assert after.counts[after.rows["cat"]] > before.counts[before.rows["cat"]]
    assert any("new words have vectors that begin by chance" in note for note in new.metadata["notes"])


def test_continued_training_moves_new_vectors_and_lowers_the_loss(tmp_path: Path):
    old = train_small_run("word2vec", tmp_path, to="old", steps=200)
    untrained = Run(continued("word2vec", old, tmp_path / "still", steps=1, rate=1e-12))
    trained_further = Run(continued("word2vec", old, tmp_path / "new", steps=300, rate=0.1))
    before, after = (np.linalg.norm(run.word_table.vector("wolf")) for run in (untrained, trained_further))  # pyright: ignore
    assert after > 3 * before
    losses = [run.metadata["metrics"]["held_out"]["loss"] for run in (untrained, trained_further)]
    assert losses[1] < 0.9 * losses[0]


def test_phrases_keep_their_vectors_when_the_vocabulary_grows(tmp_path: Path):
    old = train_small_run("word2vec", tmp_path, to="old", steps=30, phrases=1)
    arrays = load_file(old.path / "weights.safetensors")
    new = continued("word2vec", old, tmp_path / "new", steps=1, rate=1e-12)
    arrays_of_new = load_file(new.path / "weights.safetensors")
    count = len(arrays["phrases"])
    assert count == len(arrays_of_new["phrases"])
    assert len(arrays_of_new["counts"]) > len(arrays["counts"])
    if count:
        assert np.allclose(arrays["inputs"][-count:], arrays_of_new["inputs"][-count:], atol=1e-6)


def test_warm_start_with_hierarchical_softmax_notes_the_new_tree(tmp_path: Path):
    old = train_small_run("word2vec", tmp_path, to="old", steps=30, output="tree")
    new = continued("word2vec", old, tmp_path / "new", steps=5, output="tree")
    assert any("the tree is another one" in note for note in new.metadata["notes"])


def test_warm_start_of_word_vectors_is_bit_identical_when_repeated(tmp_path: Path):
    old = train_small_run("word2vec", tmp_path, to="old", steps=30)
    first, second = (continued("word2vec", old, tmp_path / name, steps=10) for name in ("one", "other"))
    assert weights_digest(first) == weights_digest(second)


def test_warm_start_with_another_architecture_is_refused(tmp_path: Path):
    old = train_small_run("word2vec", tmp_path, to="old", steps=5)
    (tmp_path / "text.txt").write_text(small_text())
    continued_plan = plan.plan_pretraining(
        "word2vec",
        [str(tmp_path / "text.txt")],
        settings={"architecture": "cbow"},
        init_from=InitFrom.for_run(str(old.path)),
    )
    with pytest.raises(InputError, match="architecture was skipgram, not cbow"):
        training_run.run_pretraining(continued_plan, tmp_path / "new")


def test_new_words_are_initialized_from_their_known_subwords(tmp_path: Path):
    old = train_small_run("word2vec", tmp_path, to="old", steps=200, rate=0.1, subwords=True)
    new = continued("word2vec", old, tmp_path / "new", steps=1, rate=1e-12)
    (note,) = (note for note in new.metadata["notes"] if "new words" in note)
    assert "what is known of their letter groups" in note
    assert "wolf" in note
    table, before = Run(new).word_table, Run(old).word_table
    assert before.vector("wolf") is None, "no old word shares an n-gram with it"
    known, vector = before.vector("rivers"), table.vector("rivers")
    assert known is not None, "river is an old word"
    assert vector is not None
    num_ngrams = len(Subwords().ngrams("rivers"))
    word_row = (num_ngrams + 1) * vector - num_ngrams * known  # undo the mean of the word row and its subword rows
    assert np.abs(word_row).max() < 1.01 / len(word_row), "the word row is randomly initialized"


def test_warm_start_of_onehot_adds_words_and_counts(tmp_path: Path):
    old = train_small_run("onehot", tmp_path, to="old", steps=1)
    new = continued("onehot", old, tmp_path / "new", steps=1)
    before, after = Run(old).word_table, Run(new).word_table
    assert before.counts is not None
    assert after.counts is not None
    assert after.counts[after.rows["river"]] == before.counts[before.rows["river"]]
    assert after.counts[after.rows["cat"]] > before.counts[before.rows["cat"]]
    assert after.counts[after.rows["wolf"]] > 0
    assert any("new words have places of their own" in note for note in new.metadata["notes"])


def test_warm_start_on_chinese_text_segments_it_into_words(tmp_path: Path):
    old = train_small_run("word2vec", tmp_path, to="old", steps=5)
    file = tmp_path / "new.txt"
    file.write_text("\n\n".join(f"今天老师去北京看朋友。第{number}天。" for number in range(60)), encoding="utf-8")
    continued_plan = plan.plan_pretraining(
        "word2vec", [str(file)], settings={"steps": 2}, init_from=InitFrom.for_run(str(old.path))
    )
    new = Run(training_run.run_pretraining(continued_plan, tmp_path / "new"))
    assert {"老师", "北京", "朋友"} <= set(new.word_table.words)
    assert new.neighbours("老师去北京")[0].nearest
