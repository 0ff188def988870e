"""Word vectors adapted to tasks: every task encoder, frozen or trained, in every task."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from adapted_runs import TASKS, adapt_small_run, adaptation_plan, task_file, task_file_text
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
from small_runs import WORD_VECTOR_MODELS, train_small_run

TASK_ENCODERS = ("mean", "convolution", "recurrent")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A small run of each word-vector model, trained on text about the topics of the tasks."""
    paths = {}
    for name in WORD_VECTOR_MODELS:
        folder = tmp_path_factory.mktemp(name)
        (folder / "text.txt").write_text(task_file_text("pairs", 40).replace("\t", " ").replace("\n", "\n\n"))
        paths[name] = train_small_run(name, folder, steps=20).path
    return paths


def token_table(folder: Path | RunFolder) -> np.ndarray:
    from safetensors.numpy import load_file

    return load_file((folder.path if isinstance(folder, RunFolder) else folder) / "weights.safetensors")[
        TOKEN_TABLE_TENSOR
    ]


@pytest.mark.sample
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("reader", TASK_ENCODERS)
def test_each_task_encoder_adapts_to_each_task(
    reader: str, task: str, runs: dict[str, Path], tmp_path: Path, monkeypatch
):
    adapted_run = adapt_small_run(runs["word2vec"], task, tmp_path, steps=5, reader=reader)
    run = Run.open(adapted_run.path)
    assert run.task is not None
    assert run.task.verb in run.capabilities
    assert adapted_run.adaptation.reader == reader
    plan = adaptation_plan(runs["word2vec"], task, tmp_path, steps=5, reader=reader)
    rows = run.task.encode(plan.labeled_data.train, run.tokenizer, run.folder.spec.input_format(run.tokenizer))
    batched = predicting.predict_logits(run.network, rows)
    monkeypatch.setattr(predicting, "BATCH_TOKENS", 1)
    for head, arrays in predicting.predict_logits(run.network, rows).items():
        for single, batched_row in zip(arrays, batched[head], strict=True):
            np.testing.assert_allclose(single, batched_row, atol=2e-5)


@pytest.mark.parametrize("how", ["freeze", "features"])
@pytest.mark.parametrize("name", ["word2vec", "glove"])
def test_frozen_word_vectors_stay_bit_for_bit(name: str, how: str, runs: dict[str, Path], tmp_path: Path):
    adapted_run = adapt_small_run(runs[name], "classification", tmp_path, steps=5, how=how)
    parent, learned = Run.open(runs[name]), token_table(adapted_run)
    ids = [i for i, token in enumerate(parent.tokenizer.vocabulary()) if token in parent.word_table.rows]
    assert len(ids) > 50
    assert np.array_equal(
        learned[ids], parent.word_table.matrix[[parent.word_table.rows[parent.tokenizer.id_to_token(i)] for i in ids]]
    )
    # frozen vectors: the vocabulary is not extended
    assert Run.open(adapted_run.path).tokenizer.digest == parent.tokenizer.digest
    assert ("encoder.body.layer.weight" in parameter_names(adapted_run)) == (how == "freeze")


def parameter_names(adapted_run: RunFolder) -> set[str]:
    return set(dict(Run(adapted_run).network.named_parameters()))


def test_trained_word_vectors_move_and_new_words_get_vectors(runs: dict[str, Path], tmp_path: Path):
    adapted_run = adapt_small_run(runs["word2vec"], "classification", tmp_path, steps=5)
    before, after = Run.open(runs["word2vec"]), Run.open(adapted_run.path)
    words = after.tokenizer.vocabulary()
    new = words[before.tokenizer.vocab_size :]
    assert words[: before.tokenizer.vocab_size] == before.tokenizer.vocabulary()
    assert new
    text = task_file("classification", tmp_path).read_text(encoding="utf-8")
    assert all(text.count(word) > 1 for word in new)
    assert after.tokenizer.unk_id not in after.tokenizer.encode(new[0]).ids
    learned, known = token_table(adapted_run), before.network.matrix
    moved = [i for i, word in enumerate(words[: len(known)]) if word in before.word_table.rows]
    assert not np.allclose(learned[moved], known[moved], atol=1e-6)
    # each new word has its own initial vector
    assert len(np.unique(learned[before.tokenizer.vocab_size :].round(5), axis=0)) == len(new)


def test_special_tokens_start_with_the_mean_vector(runs: dict[str, Path]):
    from forebear.experiments.warm_start import pretrained_rows

    folder = RunFolder.open(runs["word2vec"])
    (tensors, _), run = pretrained_rows(folder, folder.tokenizer, 0), Run(folder)
    rows = tensors[TOKEN_TABLE_TENSOR].numpy()
    specials = list(folder.tokenizer.special_ids)
    np.testing.assert_allclose(rows[specials], np.tile(run.word_table.matrix.mean(0), (len(specials), 1)), atol=1e-6)
    assert np.array_equal(rows, pretrained_rows(folder, folder.tokenizer, 0)[0][TOKEN_TABLE_TENSOR].numpy())


def test_character_vectors_can_be_adapted(tmp_path: Path):
    run = train_small_run("word2vec", tmp_path, steps=20, tokenizer="characters")
    assert run.metadata["metrics"]["held_out"]
    adapted_run = adapt_small_run(run.path, "pairs", tmp_path, steps=3, reader="convolution")
    assert Run(adapted_run).tokenizer.kind == "characters"
    row = Run(run).tokenizer.token_to_id("t")
    # it started from the pre-trained vector
    assert np.abs(token_table(adapted_run)[row] - Run(run).network.matrix[row]).max() < 0.1


def test_imported_word_vectors_can_be_adapted(tmp_path: Path):
    words = dict.fromkeys(task_file_text("classification", 60).lower().split())
    rows = [f"{word} {' '.join(f'{len(word) / (index + 1):.3f}' for index in range(10))}" for word in words]
    (tmp_path / "vectors.txt").write_text("\n".join(rows), encoding="utf-8")
    imported = import_run(tmp_path / "vectors.txt", to=tmp_path / "given")
    frozen = adapt_small_run(tmp_path / "given", "classification", tmp_path, steps=3, how="freeze", to="frozen")
    row = imported.tokenizer.token_to_id("the")
    assert np.array_equal(token_table(frozen)[row], imported.word_table.vector("the"))
    assert adapt_small_run(tmp_path / "given", "tagging", tmp_path, steps=3, reader="recurrent", to="tags").is_finished


def test_onehot_adaptation_starts_from_random_table(runs: dict[str, Path], tmp_path: Path):
    adapted_run = adapt_small_run(runs["onehot"], "classification", tmp_path, steps=3, reader_width=24)
    assert token_table(adapted_run).shape == (Run(adapted_run).tokenizer.vocab_size, 24)
    assert Run(adapted_run).network.encoder.width == 24


def test_adapted_run_passes_its_task_encoder_to_another_task(runs: dict[str, Path], tmp_path: Path):
    first = adapt_small_run(runs["word2vec"], "classification", tmp_path, steps=5, reader="convolution", to="first")
    plan = adaptation_plan(first.path, "tagging", tmp_path, steps=1)
    assert plan.adaptation.reader == "convolution"
    from forebear.experiments.training_run import AdaptSetup

    setup = AdaptSetup.from_plan(plan)
    setup.learner.initialize()
    parent_parameters = dict(Run(first).network.named_parameters())
    parameters = dict(setup.learner.model.named_parameters())
    assert parameters["encoder.body.filters.0.weight"].equal(parent_parameters["encoder.body.filters.0.weight"])
    assert parameters[TOKEN_TABLE_TENSOR][: len(parent_parameters[TOKEN_TABLE_TENSOR])].equal(
        parent_parameters[TOKEN_TABLE_TENSOR]
    )
    # only the vectors are reused
    other = adapt_small_run(first.path, "pairs", tmp_path, steps=2, reader="recurrent", to="other")
    assert other.is_finished


@pytest.mark.sample(1)
@pytest.mark.parametrize("reader", TASK_ENCODERS)
def test_each_task_encoder_learns_question_answer_matching(reader: str, runs: dict[str, Path], tmp_path: Path):
    from forebear.demo.labeled_examples import demo_examples, format_task_file

    file = tmp_path / "matching.tsv"
    file.write_text("".join(format_task_file("matching", demo_examples("matching", 500, 0, "en"))), encoding="utf-8")
    command = ["adapt", runs["word2vec"], file, "--to", tmp_path / "run", "--reader", reader, "--steps", 100]
    assert main([str(argument) for argument in (*command, "--threads", 1, "--quiet")]) == 0
    assert RunFolder.open(tmp_path / "run").metadata["metrics"]["dev"]["accuracy"] > 0.8


def test_adapted_word_vectors_support_attribution_and_embedding(runs: dict[str, Path], tmp_path: Path):
    run = Run.open(adapt_small_run(runs["word2vec"], "pairs", tmp_path, steps=5, reader="convolution").path)
    attributions = attribute(run, ("The cat sat.", "The dog sat."))
    assert len([word for word in attributions.words if word.text.strip()]) >= 6
    assert run.embed("The cat sat.")[0].vector.shape == (run.network.encoder.width,)
    assert run.word_table.matrix.shape[1] == run.network.encoder.embedding.width


def test_adaptation_settings_without_effect_are_refused(
    runs: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(InputError, match="encoder of its own"):
        adaptation_plan("bert", "classification", tmp_path, reader="mean")
    with pytest.raises(InputError, match="learn nothing"):
        adaptation_plan(runs["word2vec"], "classification", tmp_path, how="features", reader="recurrent")
    with pytest.raises(InputError, match="--reader-width"):
        adaptation_plan(runs["word2vec"], "classification", tmp_path, how="features", reader_width=10)
    with pytest.raises(InputError, match="learned nothing yet"):
        adaptation_plan(runs["word2vec"], "classification", tmp_path, how="freeze", freeze_layers=1)
    with pytest.raises(InputError, match="--reader is"):
        Adaptation(reader="eyes")  # pyright: ignore[reportArgumentType]
    arguments = [
        "adapt",
        str(runs["word2vec"]),
        str(task_file("classification", tmp_path)),
        "--deterministic",
        "--json",
    ]
    assert main(arguments) == 2
    assert "deterministic" in capsys.readouterr().err


def test_adaptation_dict_omits_task_encoder_by_default(tmp_path: Path):
    assert not [name for name in Adaptation().to_dict() if name.startswith("reader")]
    assert Adaptation(**json.loads(json.dumps(Adaptation(reader="mean").to_dict()))) == Adaptation(reader="mean")
    assert Word2VecSpec().needs_task_encoder
