"""Word vectors as the first layer of a task's network: with every reader, frozen or not, in every task."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from forebear import import_run
from forebear.cli.main import main
from forebear.errors import InputError
from forebear.inference.embed import TOKEN_TABLE_TENSOR
from forebear.inference.run import Run
from forebear.inspection.attribution import attribute
from forebear.models.word2vec import Word2VecSpec
from forebear.tasks import task as predicting
from forebear.training.adaptation import Adaptation
from forebear.training.run_folder import RunFolder
from labelled_texts import TASKS, adapted, file_of, planned, written
from small_runs import TABLES, trained

READERS = ("mean", "convolution", "recurrent")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A small run of each milestone that has nothing but vectors of words, on half of what tasks speak of."""
    made = {}
    for name in TABLES:
        folder = tmp_path_factory.mktemp(name)
        (folder / "text.txt").write_text(written("pairs", 40).replace("\t", " ").replace("\n", "\n\n"))
        made[name] = trained(name, folder, steps=20).path
    return made


def table(folder: Path | RunFolder) -> np.ndarray:
    from safetensors.numpy import load_file

    return load_file((folder.path if isinstance(folder, RunFolder) else folder) / "weights.safetensors")[
        TOKEN_TABLE_TENSOR
    ]


@pytest.mark.sample
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("reader", READERS)
def test_every_reader_serves_every_task(reader: str, task: str, runs: dict[str, Path], tmp_path: Path, monkeypatch):
    made = adapted(runs["word2vec"], task, tmp_path, steps=5, reader=reader)
    run = Run.open(made.path)
    assert run.task is not None
    assert run.task.verb in run.capabilities
    assert made.adaptation.reader == reader
    plan = planned(runs["word2vec"], task, tmp_path, steps=5, reader=reader)
    rows = run.task.encode(plan.labeled_data.train, run.tokenizer, run.folder.spec.input_format(run.tokenizer))
    together = predicting.predict_logits(run.network, rows)
    monkeypatch.setattr(predicting, "BATCH_TOKENS", 1)
    for head, arrays in predicting.predict_logits(run.network, rows).items():
        for one, other in zip(arrays, together[head], strict=True):
            np.testing.assert_allclose(one, other, atol=2e-5)


@pytest.mark.parametrize("how", ["freeze", "features"])
@pytest.mark.parametrize("name", ["word2vec", "glove"])
def test_frozen_vectors_stay_bit_for_bit(name: str, how: str, runs: dict[str, Path], tmp_path: Path):
    made = adapted(runs[name], "classification", tmp_path, steps=5, how=how)
    own, learned = Run.open(runs[name]), table(made)
    ids = [i for i, token in enumerate(own.tokenizer.vocabulary()) if token in own.word_table.rows]
    assert len(ids) > 50
    assert np.array_equal(
        learned[ids], own.word_table.matrix[[own.word_table.rows[own.tokenizer.id_to_token(i)] for i in ids]]
    )
    assert Run.open(made.path).tokenizer.digest == own.tokenizer.digest  # nothing could be learned of other words
    assert ("encoder.body.layer.weight" in names(made)) == (how == "freeze")


def names(made: RunFolder) -> set[str]:
    return set(dict(Run(made).network.named_parameters()))


def test_vectors_that_learn_move_and_new_words_get_some(runs: dict[str, Path], tmp_path: Path):
    made = adapted(runs["word2vec"], "classification", tmp_path, steps=5)
    before, after = Run.open(runs["word2vec"]), Run.open(made.path)
    words = after.tokenizer.vocabulary()
    new = words[before.tokenizer.vocab_size :]
    assert words[: before.tokenizer.vocab_size] == before.tokenizer.vocabulary()
    assert new
    text = file_of("classification", tmp_path).read_text(encoding="utf-8")
    assert all(text.count(word) > 1 for word in new)
    assert after.tokenizer.unk_id not in after.tokenizer.encode(new[0]).ids
    learned, known = table(made), before.network.matrix
    moved = [i for i, word in enumerate(words[: len(known)]) if word in before.word_table.rows]
    assert not np.allclose(learned[moved], known[moved], atol=1e-6)
    assert len(np.unique(learned[before.tokenizer.vocab_size :].round(5), axis=0)) == len(new)  # each begins by itself


def test_nothing_is_known_of_unknown_words_but_what_all_are(runs: dict[str, Path]):
    from forebear.experiments.warm_start import pretrained_rows

    folder = RunFolder.open(runs["word2vec"])
    (tensors, _), run = pretrained_rows(folder, folder.tokenizer, 0), Run(folder)
    found = tensors[TOKEN_TABLE_TENSOR].numpy()
    specials = list(folder.tokenizer.special_ids)
    np.testing.assert_allclose(found[specials], np.tile(run.word_table.matrix.mean(0), (len(specials), 1)), atol=1e-6)
    assert np.array_equal(found, pretrained_rows(folder, folder.tokenizer, 0)[0][TOKEN_TABLE_TENSOR].numpy())


def test_vectors_of_characters_serve_as_well(tmp_path: Path):
    run = trained("word2vec", tmp_path, steps=20, tokenizer="characters")
    assert run.metadata["metrics"]["held_out"]
    made = adapted(run.path, "pairs", tmp_path, steps=3, reader="convolution")
    assert Run(made).tokenizer.kind == "characters"
    row = Run(run).tokenizer.token_to_id("t")
    assert np.abs(table(made)[row] - Run(run).network.matrix[row]).max() < 0.1  # it began with what was there


def test_vectors_of_other_programs_serve_as_well(tmp_path: Path):
    words = dict.fromkeys(written("classification", 60).lower().split())
    rows = [f"{word} {' '.join(f'{len(word) / (place + 1):.3f}' for place in range(10))}" for word in words]
    (tmp_path / "vectors.txt").write_text("\n".join(rows), encoding="utf-8")
    given = import_run(tmp_path / "vectors.txt", to=tmp_path / "given")
    frozen = adapted(tmp_path / "given", "classification", tmp_path, steps=3, how="freeze", to="frozen")
    row = given.tokenizer.token_to_id("the")
    assert np.array_equal(table(frozen)[row], given.word_table.vector("the"))
    assert adapted(tmp_path / "given", "tagging", tmp_path, steps=3, reader="recurrent", to="tags").is_finished


def test_one_hot_vectors_are_a_table_that_begins_by_chance(runs: dict[str, Path], tmp_path: Path):
    made = adapted(runs["onehot"], "classification", tmp_path, steps=3, reader_width=24)
    assert table(made).shape == (Run(made).tokenizer.vocab_size, 24)
    assert Run(made).network.encoder.width == 24


def test_an_adapted_run_teaches_another_task_what_its_reader_knows(runs: dict[str, Path], tmp_path: Path):
    first = adapted(runs["word2vec"], "classification", tmp_path, steps=5, reader="convolution", to="first")
    plan = planned(first.path, "tagging", tmp_path, steps=1)
    assert plan.adaptation.reader == "convolution"
    from forebear.experiments.pipeline import AdaptSetup

    ready = AdaptSetup.from_plan(plan)
    ready.learner.initialize()
    own = dict(Run(first).network.named_parameters())
    new = dict(ready.learner.model.named_parameters())
    assert new["encoder.body.filters.0.weight"].equal(own["encoder.body.filters.0.weight"])
    assert new[TOKEN_TABLE_TENSOR][: len(own[TOKEN_TABLE_TENSOR])].equal(own[TOKEN_TABLE_TENSOR])
    other = adapted(first.path, "pairs", tmp_path, steps=2, reader="recurrent", to="other")  # only vectors fit
    assert other.is_finished


@pytest.mark.sample(1)
@pytest.mark.parametrize("reader", READERS)
def test_it_learns_whether_a_sentence_answers_a_question(reader: str, runs: dict[str, Path], tmp_path: Path):
    from forebear.demo.labeled_examples import demo_examples, format_task_file

    file = tmp_path / "matching.tsv"
    file.write_text("".join(format_task_file("matching", demo_examples("matching", 500, 0, "en"))), encoding="utf-8")
    command = ["adapt", runs["word2vec"], file, "--to", tmp_path / "run", "--reader", reader, "--steps", 100]
    assert main([str(word) for word in (*command, "--threads", 1, "--quiet")]) == 0
    assert RunFolder.open(tmp_path / "run").metadata["metrics"]["dev"]["accuracy"] > 0.8


def test_it_can_be_asked_why_and_for_vectors(runs: dict[str, Path], tmp_path: Path):
    run = Run.open(adapted(runs["word2vec"], "pairs", tmp_path, steps=5, reader="convolution").path)
    told = attribute(run, ("The cat sat.", "The dog sat."))
    assert len([word for word in told.words if word.text.strip()]) >= 6
    assert run.embed("The cat sat.")[0].vector.shape == (run.network.encoder.width,)
    assert run.word_table.matrix.shape[1] == run.network.encoder.embedding.width


def test_what_means_nothing_is_refused(runs: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(InputError, match="encoder of its own"):
        planned("bert", "classification", tmp_path, reader="mean")
    with pytest.raises(InputError, match="learn nothing"):
        planned(runs["word2vec"], "classification", tmp_path, how="features", reader="recurrent")
    with pytest.raises(InputError, match="--reader-width"):
        planned(runs["word2vec"], "classification", tmp_path, how="features", reader_width=10)
    with pytest.raises(InputError, match="learned nothing yet"):
        planned(runs["word2vec"], "classification", tmp_path, how="freeze", freeze_layers=1)
    with pytest.raises(InputError, match="--reader is"):
        Adaptation(reader="eyes")  # pyright: ignore[reportArgumentType]
    words = ["adapt", str(runs["word2vec"]), str(file_of("classification", tmp_path)), "--deterministic", "--json"]
    assert main(words) == 2
    assert "deterministic" in capsys.readouterr().err


def test_other_runs_say_nothing_of_readers(tmp_path: Path):
    assert not [name for name in Adaptation().to_dict() if name.startswith("reader")]
    assert Adaptation(**json.loads(json.dumps(Adaptation(reader="mean").to_dict()))) == Adaptation(reader="mean")
    assert Word2VecSpec().needs_task_encoder
