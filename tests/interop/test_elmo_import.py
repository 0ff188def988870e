"""Published ELMos as runs: the published vectors of the published sentences, and export back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from reference_elmo import OPTIONS, WORDS, ReferenceBiLM, options, write_published_elmo

from forebear.cli.main import main
from forebear.data.tokenizers.train import train_tokenizer
from forebear.errors import InputError
from forebear.inference.run import Run
from forebear.interop.convert import default_export_format, export_run, import_model
from forebear.models.elmo import ElmoSpec
from forebear.training.create_finished_run import create_run

FIXTURES = {"elmo_allennlp_fixture": "sentences.json", "elmo_fixture/model": "lm_embeddings_sentences.json"}


def tokens_of(run: Run, words: list[str]) -> list[int]:
    """Token ids between the two boundary tokens; out-of-vocabulary words are spelled."""
    token_ids = {token: number for number, token in enumerate(run.tokenizer.vocabulary())}
    spelling = run.network.encoder.embedding.char_ids
    ids = [token_ids[word] if word in token_ids else spelling.oov_id(word) for word in words]
    return [run.tokenizer.special_roles["start"], *ids, run.tokenizer.special_roles["end"]]


def encode_rows(run: Run, rows: list[list[str]], states: Any = None) -> tuple[list[list[np.ndarray]], Any]:
    """The layers of each row, without the boundary tokens, and the final states."""
    ids = [tokens_of(run, row) for row in rows]
    lengths = tuple(map(len, ids))
    with torch.inference_mode():
        layers, states = run.network.eval().encoder.run_layers(torch.tensor(np.concatenate(ids)), lengths, states)
    split_layers = [[row[1:-1].numpy() for row in layer.split(lengths)] for layer in layers]
    return [list(row) for row in zip(*split_layers, strict=True)], states


@pytest.mark.parametrize("folder", FIXTURES)
def test_imported_elmo_gives_the_published_sentence_vectors(folder: str, data: Path, tmp_path: Path):
    """The files hold the top layer in both directions; the other layers are compared with the reference."""
    source = data / "weights" / folder
    run = Run.open(import_model(str(source), str(tmp_path / "run")).path)
    config = json.loads((source / "options.json").read_text())
    with h5py.File(source / "lm_weights.hdf5") as stored:
        names: list[str] = []
        stored.visit(names.append)
        arrays = {name: stored[name][...] for name in names if isinstance(stored[name], h5py.Dataset)}  # pyright: ignore
    columns = json.loads((source / FIXTURES[folder]).read_text())
    reference_models, states, count = [ReferenceBiLM(config, arrays) for _ in columns], None, 0
    files = [h5py.File(source / f"lm_embeddings_{number}.hdf5") for number in range(len(columns))]
    for number, rows in enumerate(zip(*columns, strict=True)):
        row_layers, states = encode_rows(run, [row.split() for row in rows], states)
        for row, layers, reference_model, file in zip(rows, row_layers, reference_models, files, strict=True):
            published = np.concatenate(list(file[str(number)][...]), 1)  # pyright: ignore
            assert np.abs(layers[2] - published).max() < 1e-5
            for layer, reference in zip(layers, reference_model.layers(row.split()), strict=True):
                assert np.abs(layer - reference).max() < 1e-5
            count += len(layers[2])
    assert count == 744


def test_imported_elmo_gives_the_published_token_vectors(data: Path, tmp_path: Path):
    source = data / "weights" / "elmo_allennlp_fixture"
    run = Run.open(import_model(str(source), str(tmp_path / "run")).path)
    with h5py.File(source / "elmo_token_embeddings.hdf5") as stored:
        published = stored["embedding"][...]  # pyright: ignore
    words = (source / "vocab_test.txt").read_text(encoding="utf-8").split("\n")
    with torch.inference_mode():
        vectors = run.network.encoder.embedding(torch.arange(len(words)))
    assert np.abs(vectors.numpy() - published).max() < 1e-5
    assert run.tokenizer.vocabulary() == words


@pytest.mark.parametrize(
    "config",
    [
        options({"n_layers": 1}),
        options({"n_layers": 3, "cell_clip": 0.3, "proj_clip": 0.2}),
        options({"use_skip_connections": False, "cell_clip": None, "proj_clip": None}),
        options({"dim": 6}),
        options({"dim": 5}),
        options({}, {"filters": [[2, 6]], "n_highway": None, "activation": "tanh", "max_characters_per_token": 5}),
    ],
    ids=["one layer", "clipped", "neither clipped nor skipping", "not projected", "widened", "bare filters"],
)
def test_imported_elmo_layers_equal_the_reference_implementation(config: dict[str, Any], tmp_path: Path):
    arrays = write_published_elmo(tmp_path / "elmo", config)
    run = Run.open(import_model(str(tmp_path / "elmo"), str(tmp_path / "run")).path)
    rows = [["the", "bank", "北京", "of", "incomprehensibilities"], ["naïve"], ["银行", "the", "the"]]
    row_layers, _ = encode_rows(run, rows)
    for row, layers in zip(rows, row_layers, strict=True):
        for layer, reference in zip(layers, ReferenceBiLM(config, arrays).layers(row), strict=True):
            np.testing.assert_allclose(layer, reference, atol=1e-5)


def test_word_level_elmo_is_imported_with_its_embeddings(tmp_path: Path):
    config = {"lstm": OPTIONS["lstm"]}
    arrays = write_published_elmo(tmp_path / "elmo", config, softmax=len(WORDS))
    run = Run.open(import_model(str(tmp_path / "elmo"), str(tmp_path / "run")).path)
    assert run.heads == ("next", "previous")
    with torch.inference_mode():
        x = run.network.encoder.embedding(torch.tensor([3, 4]))
    assert np.array_equal(x.numpy(), arrays["embedding"][[3, 4]])


# -- inference


def test_imported_elmo_embeds_words_and_texts_as_the_reference(tmp_path: Path):
    config = options()
    arrays = write_published_elmo(tmp_path / "elmo", config)
    run = Run.open(import_model(str(tmp_path / "elmo"), str(tmp_path / "run")).path)
    texts = [["the", "bank", "北京"], ["unheard", "the", "unheard", "银行"], ["北京"]]
    for words, embedding in zip(texts, run.embed(list(map(" ".join, texts)), words=True, normalise=False), strict=True):
        reference = ReferenceBiLM(config, arrays).layers(words)[-1]
        assert [word.text for word in embedding.words or ()] == words
        np.testing.assert_allclose(np.stack([word.vector for word in embedding.words or ()]), reference, atol=1e-5)
        (text_embedding,) = run.embed(" ".join(words), normalise=False)
        np.testing.assert_allclose(text_embedding.vector, embedding.vector, atol=1e-5)


def test_imported_elmo_softmax_predicts_next_and_previous_tokens(tmp_path: Path):
    config = options()
    arrays = write_published_elmo(tmp_path / "elmo", config, softmax=len(WORDS))
    run = Run.open(import_model(str(tmp_path / "elmo"), str(tmp_path / "run")).path)
    assert run.heads == ("next", "previous")
    words = ["the", "bank", "北京"]
    rows = torch.tensor(tokens_of(run, words))
    with torch.inference_mode():
        states = run.network.eval().encoder(rows, (len(rows),))
        forward, backward = (run.network.heads[name](states)[1:-1].log_softmax(1).numpy() for name in run.heads)
    top = ReferenceBiLM(config, arrays).layers(words)[-1]
    for log_probs, half in ((forward, top[:, :6]), (backward, top[:, 6:])):
        scores = half @ arrays["softmax/W"].T + arrays["softmax/b"]
        np.testing.assert_allclose(log_probs, scores - np.log(np.exp(scores).sum(1, keepdims=True)), atol=3e-5)
    next_log_probs = run.predictor.next_log_probs([np.array(tokens_of(run, words)[:-1])])
    np.testing.assert_allclose(next_log_probs[0], forward[-1], atol=1e-5)


def test_imported_elmo_without_softmax_embeds_but_does_not_score(tmp_path: Path):
    write_published_elmo(tmp_path / "elmo", words=None)
    run = Run.open(import_model(str(tmp_path / "elmo"), str(tmp_path / "run")).path)
    assert run.heads == ()
    assert run.tokenizer.vocabulary() == ["<S>", "</S>", "<UNK>"]
    with pytest.raises(InputError, match="does not predict the next token"):
        run.score("the bank")
    known, unknown = run.embed(["the bank", "the 银行"])
    assert known.vector.shape == (12,)
    assert abs(known.vector - unknown.vector).max() > 0.01  # words are read as characters, without a vocabulary
    assert any("no softmax" in note for note in run.metadata["notes"])


# -- export


def weight_arrays(run: Run) -> dict[str, np.ndarray]:
    return {name: value.numpy() for name, value in run.network.tensors().items()}


@pytest.mark.parametrize("config", [options(), {"lstm": OPTIONS["lstm"]}], ids=["characters", "words"])
def test_elmo_import_export_import_is_bit_for_bit(config: dict[str, Any], tmp_path: Path):
    write_published_elmo(tmp_path / "elmo", config, softmax=len(WORDS))
    first = Run.open(import_model(str(tmp_path / "elmo"), str(tmp_path / "first")).path)
    assert default_export_format(first) == "elmo"
    export_run(first, "elmo", str(tmp_path / "back"))
    second = Run.open(import_model(str(tmp_path / "back"), str(tmp_path / "second")).path)
    assert first.metadata["fields"] == second.metadata["fields"]
    assert first.tokenizer.vocabulary() == second.tokenizer.vocabulary() == WORDS
    assert (tmp_path / "back" / "vocab.txt").read_text(encoding="utf-8").split("\n") == [*WORDS, ""]
    first_weights, second_weights = weight_arrays(first), weight_arrays(second)
    assert first_weights.keys() == second_weights.keys()
    assert all(np.array_equal(first_weights[name], second_weights[name]) for name in first_weights)


@pytest.fixture(scope="module")
def untrained_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """An untrained ELMo run for Chinese and English."""
    tokenizer = train_tokenizer("words", ["the bank of the river", "银行在河边", "the river is deep", "河很深"])
    spec = ElmoSpec(width=8, cells=12, characters=4, filters="1:6,2:8", softmax="full")
    network = spec.build(tokenizer).initialize(1)
    folder = tmp_path_factory.mktemp("trained") / "run"
    return Run(create_run(folder, spec, "elmo", tokenizer, network.tensors, {}))


def test_exported_elmo_gives_the_same_layers_by_the_reference(untrained_run: Run, tmp_path: Path):
    """Here one boundary token begins and ends a text; the exported <S> and </S> must both be read as that token."""
    export_run(untrained_run, "elmo", str(tmp_path / "elmo"))
    config = json.loads((tmp_path / "elmo" / "options.json").read_text())
    with h5py.File(tmp_path / "elmo" / "lm_weights.hdf5") as file:
        names: list[str] = []
        file.visit(names.append)
        arrays = {name: file[name][...] for name in names if isinstance(file[name], h5py.Dataset)}  # pyright: ignore
    lines = (tmp_path / "elmo" / "vocab.txt").read_text(encoding="utf-8").splitlines()
    assert {"<S>", "</S>", "<UNK>", "银行", "river"} <= set(lines)
    assert len(lines) == len(set(lines)) == config["n_tokens_vocab"] == len(arrays["softmax/W"])
    end = untrained_run.tokenizer.special_roles["end"]
    row = torch.tensor([end, lines.index("银行"), lines.index("river"), end])
    with torch.inference_mode():
        layers = untrained_run.network.eval().encoder(row, (4,)).layers
    for layer, reference in zip(layers, ReferenceBiLM(config, arrays).layers(["银行", "river"]), strict=True):
        np.testing.assert_allclose(layer[1:-1].numpy(), reference, atol=1e-5)


def test_exported_elmo_is_imported_with_weights_and_tokenizer(untrained_run: Run, tmp_path: Path):
    export_run(untrained_run, "elmo", str(tmp_path / "elmo"))
    back = Run.open(import_model(str(tmp_path / "elmo"), str(tmp_path / "run")).path)
    assert back.tokenizer.vocabulary() == untrained_run.tokenizer.vocabulary()
    assert back.tokenizer.segmenter is not None
    original_weights, imported_weights = weight_arrays(untrained_run), weight_arrays(back)
    assert original_weights.keys() == imported_weights.keys()
    for name, value in original_weights.items():
        imported = imported_weights[name]
        if name == "encoder.embedding.character.weight":  # the start token is read as the end token
            value, imported = np.delete(value, 256, 0), np.delete(imported, 256, 0)
        np.testing.assert_allclose(imported, value, rtol=0, atol=2e-7 if name.endswith("input.bias") else 0)
    vocabulary_file = tmp_path / "elmo" / "vocab.txt"
    vocabulary_file.write_text(vocabulary_file.read_text(encoding="utf-8").replace("river", "brook"), encoding="utf-8")
    with pytest.raises(InputError, match="other words than this tokenizer"):
        import_model(str(tmp_path / "elmo"), str(tmp_path / "other"))


def test_elmo_export_skips_adaptive_softmax_with_a_note(tmp_path: Path):
    tokenizer = train_tokenizer("words", [" ".join(f"word{number}" for number in range(1500))])
    spec = ElmoSpec(width=8, cells=12, characters=4, filters="1:6,2:8", softmax="adaptive")
    network = spec.build(tokenizer).initialize(1)
    assert any("groups" in name for name in network.tensors())
    metadata: dict[str, Any] = {"notes": []}
    folder = tmp_path / "run"
    run = Run(create_run(folder, spec, "elmo", tokenizer, network.tensors, metadata))
    export_run(run, "elmo", str(tmp_path / "elmo"))
    assert any("rare words in groups" in note for note in run.notes)
    assert Run.open(import_model(str(tmp_path / "elmo"), str(tmp_path / "back")).path).heads == ()


def test_import_and_export_commands_report_elmo(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    write_published_elmo(tmp_path / "elmo")
    assert main(["import", str(tmp_path / "elmo"), "--to", str(tmp_path / "run"), "--json"]) == 0
    output = json.loads(capsys.readouterr().out)
    assert (output["milestone"], output["heads"], output["report"]["matched"]) == ("elmo", [], 23)
    assert main(["export", str(tmp_path / "run"), "--format", "elmo", "--to", str(tmp_path / "back"), "--json"]) == 0
    output = json.loads(capsys.readouterr().out)
    assert output["format"] == "elmo"
    assert any("AllenNLP always 50" in note for note in output["notes"])
    assert sorted(item.name for item in (tmp_path / "back").iterdir()) == [
        "lm_weights.hdf5", "options.json", "tokenizer.json", "vocab.txt",
    ]  # fmt: skip
    (tmp_path / "elmo" / "options.json").unlink()
    assert main(["import", str(tmp_path / "elmo"), "--to", str(tmp_path / "other")]) == 2
    assert "there is no options.json" in capsys.readouterr().err
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [({"task": "pairs"}, "--task is for"), ({"heads": 2}, "--heads is for"), ({"limit": 3}, "--limit is for")],
)
def test_elmo_import_refuses_options_of_other_formats(options: dict[str, Any], message: str, tmp_path: Path):
    write_published_elmo(tmp_path / "elmo")
    with pytest.raises(InputError, match=message):
        import_model(str(tmp_path / "elmo"), str(tmp_path / "run"), **options)
