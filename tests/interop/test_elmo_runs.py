"""Published ELMos as runs: the layers that their publishers give for their sentences, and the way back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from published_elmo import OPTIONS, WORDS, Reader, options, publish

from forebear.cli.main import main
from forebear.data.tokenizers.train import train_tokenizer
from forebear.errors import InputError
from forebear.inference.run import Run
from forebear.interop.convert import default_export_format, export_run, import_model
from forebear.models.elmo import ElmoSpec
from forebear.training.create_run import create_run

FIXTURES = {"elmo_allennlp_fixture": "sentences.json", "elmo_fixture/model": "lm_embeddings_sentences.json"}


def tokens_of(run: Run, words: list[str]) -> list[int]:
    """As a sentence stands between the two marks; what the vocabulary lacks is spelled."""
    known = {token: number for number, token in enumerate(run.tokenizer.vocabulary())}
    spelling = run.network.encoder.embedding.char_ids
    inner = [known[word] if word in known else spelling.oov_id(word) for word in words]
    return [run.tokenizer.special_roles["start"], *inner, run.tokenizer.special_roles["end"]]


def read(run: Run, rows: list[list[str]], states: Any = None) -> tuple[list[list[np.ndarray]], Any]:
    """Of each row its layers, without those of the marks, and the states that are left."""
    ids = [tokens_of(run, row) for row in rows]
    lengths = tuple(map(len, ids))
    with torch.inference_mode():
        layers, states = run.network.eval().encoder.run_layers(torch.tensor(np.concatenate(ids)), lengths, states)
    parts = [[part[1:-1].numpy() for part in layer.split(lengths)] for layer in layers]
    return [list(row) for row in zip(*parts, strict=True)], states


@pytest.mark.parametrize("folder", FIXTURES)
def test_the_published_sentences_have_the_published_vectors(folder: str, data: Path, tmp_path: Path):
    """Their top layer stands in the files, onward and back; of the others the publisher's equations tell."""
    place = data / "weights" / folder
    run = Run.open(import_model(str(place), str(tmp_path / "run")).path)
    told = json.loads((place / "options.json").read_text())
    with h5py.File(place / "lm_weights.hdf5") as stored:
        names: list[str] = []
        stored.visit(names.append)
        made = {name: stored[name][...] for name in names if isinstance(stored[name], h5py.Dataset)}  # pyright: ignore
    columns = json.loads((place / FIXTURES[folder]).read_text())
    readers, states, count = [Reader(told, made) for _ in columns], None, 0
    files = [h5py.File(place / f"lm_embeddings_{number}.hdf5") for number in range(len(columns))]
    for number, rows in enumerate(zip(*columns, strict=True)):
        found, states = read(run, [row.split() for row in rows], states)
        for row, layers, reader, file in zip(rows, found, readers, files, strict=True):
            published = np.concatenate(list(file[str(number)][...]), 1)  # pyright: ignore
            assert np.abs(layers[2] - published).max() < 1e-5
            for layer, by_hand in zip(layers, reader.layers(row.split()), strict=True):
                assert np.abs(layer - by_hand).max() < 1e-5
            count += len(layers[2])
    assert count == 744


def test_words_by_themselves_have_the_published_vectors(data: Path, tmp_path: Path):
    place = data / "weights" / "elmo_allennlp_fixture"
    run = Run.open(import_model(str(place), str(tmp_path / "run")).path)
    with h5py.File(place / "elmo_token_embeddings.hdf5") as stored:
        published = stored["embedding"][...]  # pyright: ignore
    words = (place / "vocab_test.txt").read_text(encoding="utf-8").split("\n")
    with torch.inference_mode():
        found = run.network.encoder.embedding(torch.arange(len(words)))
    assert np.abs(found.numpy() - published).max() < 1e-5
    assert run.tokenizer.vocabulary() == words


@pytest.mark.parametrize(
    "told",
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
def test_every_kind_has_the_layers_of_its_equations(told: dict[str, Any], tmp_path: Path):
    made = publish(tmp_path / "elmo", told)
    run = Run.open(import_model(str(tmp_path / "elmo"), str(tmp_path / "run")).path)
    rows = [["the", "bank", "北京", "of", "incomprehensibilities"], ["naïve"], ["银行", "the", "the"]]
    found, _ = read(run, rows)
    for row, layers in zip(rows, found, strict=True):
        for layer, by_hand in zip(layers, Reader(told, made).layers(row), strict=True):
            np.testing.assert_allclose(layer, by_hand, atol=1e-5)


def test_a_model_that_reads_words_is_a_run_too(tmp_path: Path):
    told = {"lstm": OPTIONS["lstm"]}
    made = publish(tmp_path / "elmo", told, softmax=len(WORDS))
    run = Run.open(import_model(str(tmp_path / "elmo"), str(tmp_path / "run")).path)
    assert run.heads == ("next", "previous")
    with torch.inference_mode():
        x = run.network.encoder.embedding(torch.tensor([3, 4]))
    assert np.array_equal(x.numpy(), made["embedding"][[3, 4]])


# -- what it can be asked


def test_a_text_has_the_vectors_of_its_equations(tmp_path: Path):
    told = options()
    made = publish(tmp_path / "elmo", told)
    run = Run.open(import_model(str(tmp_path / "elmo"), str(tmp_path / "run")).path)
    texts = [["the", "bank", "北京"], ["unheard", "the", "unheard", "银行"], ["北京"]]
    for words, found in zip(texts, run.embed(list(map(" ".join, texts)), words=True, normalise=False), strict=True):
        by_hand = Reader(told, made).layers(words)[-1]
        assert [word.text for word in found.words or ()] == words
        np.testing.assert_allclose(np.stack([word.vector for word in found.words or ()]), by_hand, atol=1e-5)
        (whole,) = run.embed(" ".join(words), normalise=False)
        np.testing.assert_allclose(whole.vector, found.vector, atol=1e-5)


def test_a_softmax_answers_in_both_directions(tmp_path: Path):
    told = options()
    made = publish(tmp_path / "elmo", told, softmax=len(WORDS))
    run = Run.open(import_model(str(tmp_path / "elmo"), str(tmp_path / "run")).path)
    assert run.heads == ("next", "previous")
    words = ["the", "bank", "北京"]
    rows = torch.tensor(tokens_of(run, words))
    with torch.inference_mode():
        states = run.network.eval().encoder(rows, (len(rows),))
        onward, back = (run.network.heads[name](states)[1:-1].log_softmax(1).numpy() for name in run.heads)
    top = Reader(told, made).layers(words)[-1]
    for found, half in ((onward, top[:, :6]), (back, top[:, 6:])):
        scores = half @ made["softmax/W"].T + made["softmax/b"]
        np.testing.assert_allclose(found, scores - np.log(np.exp(scores).sum(1, keepdims=True)), atol=3e-5)
    follow = run.predictor.next_log_probs([np.array(tokens_of(run, words)[:-1])])
    np.testing.assert_allclose(follow[0], onward[-1], atol=1e-5)


def test_without_a_softmax_only_vectors_can_be_asked_for(tmp_path: Path):
    publish(tmp_path / "elmo", words=None)
    run = Run.open(import_model(str(tmp_path / "elmo"), str(tmp_path / "run")).path)
    assert run.heads == ()
    assert run.tokenizer.vocabulary() == ["<S>", "</S>", "<UNK>"]
    with pytest.raises(InputError, match="does not predict the next token"):
        run.score("the bank")
    one, other = run.embed(["the bank", "the 银行"])
    assert one.vector.shape == (12,)
    assert abs(one.vector - other.vector).max() > 0.01  # a vocabulary is not needed to tell words apart
    assert any("no softmax" in note for note in run.metadata["notes"])


# -- the way back


def weights(run: Run) -> dict[str, np.ndarray]:
    return {name: value.numpy() for name, value in run.network.tensors().items()}


@pytest.mark.parametrize("told", [options(), {"lstm": OPTIONS["lstm"]}], ids=["characters", "words"])
def test_what_was_imported_is_exported_and_imported_to_the_same_bits(told: dict[str, Any], tmp_path: Path):
    publish(tmp_path / "elmo", told, softmax=len(WORDS))
    first = Run.open(import_model(str(tmp_path / "elmo"), str(tmp_path / "first")).path)
    assert default_export_format(first) == "elmo"
    export_run(first, "elmo", str(tmp_path / "back"))
    second = Run.open(import_model(str(tmp_path / "back"), str(tmp_path / "second")).path)
    assert first.metadata["fields"] == second.metadata["fields"]
    assert first.tokenizer.vocabulary() == second.tokenizer.vocabulary() == WORDS
    assert (tmp_path / "back" / "vocab.txt").read_text(encoding="utf-8").split("\n") == [*WORDS, ""]
    ours, theirs = weights(first), weights(second)
    assert ours.keys() == theirs.keys()
    assert all(np.array_equal(ours[name], theirs[name]) for name in ours)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run of our own, of Chinese and English, as it stands before its first step."""
    tokenizer = train_tokenizer("words", ["the bank of the river", "银行在河边", "the river is deep", "河很深"])
    milestone = ElmoSpec(width=8, cells=12, characters=4, filters="1:6,2:8", softmax="full")
    network = milestone.build(tokenizer).initialize(1)
    folder = tmp_path_factory.mktemp("trained") / "run"
    return Run(create_run(folder, milestone, "elmo", tokenizer, network.tensors, {}))


def test_what_was_trained_here_is_read_by_others_as_it_is_read_here(trained: Run, tmp_path: Path):
    """Here one token stands before and behind a text: what others put there must be read as that one."""
    export_run(trained, "elmo", str(tmp_path / "elmo"))
    told = json.loads((tmp_path / "elmo" / "options.json").read_text())
    with h5py.File(tmp_path / "elmo" / "lm_weights.hdf5") as stored:
        names: list[str] = []
        stored.visit(names.append)
        made = {name: stored[name][...] for name in names if isinstance(stored[name], h5py.Dataset)}  # pyright: ignore
    lines = (tmp_path / "elmo" / "vocab.txt").read_text(encoding="utf-8").splitlines()
    assert {"<S>", "</S>", "<UNK>", "银行", "river"} <= set(lines)
    assert len(lines) == len(set(lines)) == told["n_tokens_vocab"] == len(made["softmax/W"])
    end = trained.tokenizer.special_roles["end"]
    row = torch.tensor([end, lines.index("银行"), lines.index("river"), end])
    with torch.inference_mode():
        layers = trained.network.eval().encoder(row, (4,)).layers
    for layer, by_hand in zip(layers, Reader(told, made).layers(["银行", "river"]), strict=True):
        np.testing.assert_allclose(layer[1:-1].numpy(), by_hand, atol=1e-5)


def test_what_was_trained_here_comes_back_with_its_tokenizer(trained: Run, tmp_path: Path):
    export_run(trained, "elmo", str(tmp_path / "elmo"))
    back = Run.open(import_model(str(tmp_path / "elmo"), str(tmp_path / "run")).path)
    assert back.tokenizer.vocabulary() == trained.tokenizer.vocabulary()
    assert back.tokenizer.segmenter is not None
    ours, theirs = weights(trained), weights(back)
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        there = theirs[name]
        if name == "encoder.embedding.character.weight":  # where a text begins is read as where it ends
            value, there = np.delete(value, 256, 0), np.delete(there, 256, 0)
        np.testing.assert_allclose(there, value, rtol=0, atol=2e-7 if name.endswith("input.bias") else 0)
    other = tmp_path / "elmo" / "vocab.txt"
    other.write_text(other.read_text(encoding="utf-8").replace("river", "brook"), encoding="utf-8")
    with pytest.raises(InputError, match="other words than this tokenizer"):
        import_model(str(tmp_path / "elmo"), str(tmp_path / "other"))


def test_a_softmax_in_groups_is_left_out_and_told(tmp_path: Path):
    tokenizer = train_tokenizer("words", [" ".join(f"word{number}" for number in range(1500))])
    milestone = ElmoSpec(width=8, cells=12, characters=4, filters="1:6,2:8", softmax="adaptive")
    network = milestone.build(tokenizer).initialize(1)
    assert any("groups" in name for name in network.tensors())
    told: dict[str, Any] = {"notes": []}
    place = tmp_path / "run"
    run = Run(create_run(place, milestone, "elmo", tokenizer, network.tensors, told))
    export_run(run, "elmo", str(tmp_path / "elmo"))
    assert any("rare words in groups" in note for note in run.notes)
    assert Run.open(import_model(str(tmp_path / "elmo"), str(tmp_path / "back")).path).heads == ()


def test_the_command_line_tells_what_was_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    publish(tmp_path / "elmo")
    assert main(["import", str(tmp_path / "elmo"), "--to", str(tmp_path / "run"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["milestone"], told["heads"], told["report"]["matched"]) == ("elmo", [], 23)
    assert main(["export", str(tmp_path / "run"), "--format", "elmo", "--to", str(tmp_path / "back"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["format"] == "elmo"
    assert any("AllenNLP always 50" in note for note in told["notes"])
    assert sorted(item.name for item in (tmp_path / "back").iterdir()) == [
        "lm_weights.hdf5", "options.json", "tokenizer.json", "vocab.txt",
    ]  # fmt: skip
    (tmp_path / "elmo" / "options.json").unlink()
    assert main(["import", str(tmp_path / "elmo"), "--to", str(tmp_path / "other")]) == 2
    assert "there is no options.json" in capsys.readouterr().err
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("asked", "said"),
    [({"task": "pairs"}, "--task is for"), ({"heads": 2}, "--heads is for"), ({"limit": 3}, "--limit is for")],
)
def test_what_means_nothing_here_is_refused(asked: dict[str, Any], said: str, tmp_path: Path):
    publish(tmp_path / "elmo")
    with pytest.raises(InputError, match=said):
        import_model(str(tmp_path / "elmo"), str(tmp_path / "run"), **asked)
