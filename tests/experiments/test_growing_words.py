"""Word vectors that go on with new text: old words keep what they learned, new ones are added, and both learn."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from forebear.embeddings.word2vec import Subwords
from forebear.errors import InputError
from forebear.experiments import pipeline, plan
from forebear.experiments.warm_start import InitFrom
from forebear.inference.run import Run
from forebear.training.run_folder import RunFolder
from small_runs import settings, text, trained, weights

NEW = "The wolf sat by the lake. The cat saw the wolf and ran to the rivers.\nThe wolf ran by the lake, said the cat."


def grown(name: str, run: RunFolder, to: Path, **changes) -> RunFolder:
    file = to.with_suffix(".txt")
    file.write_text("\n\n".join(f"{NEW} Day {number}." for number in range(20)))
    given = {field: value for field, value in settings(name, **changes).items() if field not in ("width", "window")}
    given = {field: value for field, value in given.items() if field not in ("min_count", "order", "phrases")}
    what = plan.plan_pretraining(name, [str(file)], settings=given, init_from=InitFrom.for_run(str(run.path)))
    return pipeline.run_pretraining(what, to)


@pytest.mark.parametrize("name", ["word2vec", "glove"])
def test_new_words_are_added_behind_the_old(name: str, tmp_path: Path):
    old = trained(name, tmp_path, to="old", steps=30)
    new = grown(name, old, tmp_path / "new", steps=1, rate=1e-12)
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


def test_what_is_learned_of_a_new_word(tmp_path: Path):
    old = trained("word2vec", tmp_path, to="old", steps=200)
    still = Run(grown("word2vec", old, tmp_path / "still", steps=1, rate=1e-12))
    moved = Run(grown("word2vec", old, tmp_path / "new", steps=300, rate=0.1))
    assert np.linalg.norm(moved.word_table.vector("wolf")) > 3 * np.linalg.norm(still.word_table.vector("wolf"))  # pyright: ignore
    losses = [run.metadata["metrics"]["held_out"]["loss"] for run in (still, moved)]
    assert losses[1] < 0.9 * losses[0]


def test_phrases_keep_their_vectors_when_the_vocabulary_grows(tmp_path: Path):
    old = trained("word2vec", tmp_path, to="old", steps=30, phrases=1)
    arrays = load_file(old.path / "weights.safetensors")
    new = grown("word2vec", old, tmp_path / "new", steps=1, rate=1e-12)
    arrays_of_new = load_file(new.path / "weights.safetensors")
    count = len(arrays["phrases"])
    assert count == len(arrays_of_new["phrases"])
    assert len(arrays_of_new["counts"]) > len(arrays["counts"])
    if count:
        assert np.allclose(arrays["inputs"][-count:], arrays_of_new["inputs"][-count:], atol=1e-6)


def test_with_a_tree_what_no_longer_fits_is_told(tmp_path: Path):
    old = trained("word2vec", tmp_path, to="old", steps=30, output="tree")
    new = grown("word2vec", old, tmp_path / "new", steps=5, output="tree")
    assert any("the tree is another one" in note for note in new.metadata["notes"])


def test_the_same_again_ends_in_the_same_bits(tmp_path: Path):
    old = trained("word2vec", tmp_path, to="old", steps=30)
    one, other = (grown("word2vec", old, tmp_path / name, steps=10) for name in ("one", "other"))
    assert weights(one) == weights(other)


def test_another_kind_is_refused(tmp_path: Path):
    old = trained("word2vec", tmp_path, to="old", steps=5)
    (tmp_path / "text.txt").write_text(text())
    what = plan.plan_pretraining(
        "word2vec",
        [str(tmp_path / "text.txt")],
        settings={"architecture": "cbow"},
        init_from=InitFrom.for_run(str(old.path)),
    )
    with pytest.raises(InputError, match="architecture was skipgram, not cbow"):
        pipeline.run_pretraining(what, tmp_path / "new")


def test_new_words_begin_with_what_is_known_of_their_letters(tmp_path: Path):
    old = trained("word2vec", tmp_path, to="old", steps=200, rate=0.1, subwords=True)
    new = grown("word2vec", old, tmp_path / "new", steps=1, rate=1e-12)
    (note,) = (note for note in new.metadata["notes"] if "new words" in note)
    assert "what is known of their letter groups" in note
    assert "wolf" in note
    table, before = Run(new).word_table, Run(old).word_table
    assert before.vector("wolf") is None, "no word that was there has any of its letter groups"
    known, vector = before.vector("rivers"), table.vector("rivers")
    assert known is not None, "river was there"
    assert vector is not None
    groups = len(Subwords().ngrams("rivers"))
    own = (groups + 1) * vector - groups * known  # the word's row and those of its letter groups, in the mean
    assert np.abs(own).max() < 1.01 / len(own), "a row by chance, as all begin"


def test_what_only_counts_counts_on(tmp_path: Path):
    old = trained("onehot", tmp_path, to="old", steps=1)
    new = grown("onehot", old, tmp_path / "new", steps=1)
    before, after = Run(old).word_table, Run(new).word_table
    assert before.counts is not None
    assert after.counts is not None
    assert after.counts[after.rows["river"]] == before.counts[before.rows["river"]]
    assert after.counts[after.rows["cat"]] > before.counts[before.rows["cat"]]
    assert after.counts[after.rows["wolf"]] > 0
    assert any("new words have places of their own" in note for note in new.metadata["notes"])


def test_text_in_another_language_is_cut_as_it_is(tmp_path: Path):
    old = trained("word2vec", tmp_path, to="old", steps=5)
    file = tmp_path / "new.txt"
    file.write_text("\n\n".join(f"今天老师去北京看朋友。第{number}天。" for number in range(60)), encoding="utf-8")
    what = plan.plan_pretraining(
        "word2vec", [str(file)], settings={"steps": 2}, init_from=InitFrom.for_run(str(old.path))
    )
    new = Run(pipeline.run_pretraining(what, tmp_path / "new"))
    assert {"老师", "北京", "朋友"} <= set(new.word_table.words)
    assert new.neighbours("老师去北京")[0].nearest
