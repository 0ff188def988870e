"""Published ELMo files, read and written: names, shapes and values as in bilm-tf and AllenNLP."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from reference_elmo import OPTIONS, WORDS, options, random_arrays, write_hdf5, write_published_elmo

from forebear.interop import elmo_hdf5


def same_arrays(first: dict[str, np.ndarray], second: dict[str, np.ndarray]) -> bool:
    return first.keys() == second.keys() and all(np.array_equal(first[name], second[name]) for name in first)


def test_elmo_options_become_model_fields(tmp_path: Path):
    write_published_elmo(tmp_path)
    assert elmo_hdf5.read_elmo(tmp_path).fields == {
        "width": 6,
        "cells": 10,
        "depth": 2,
        "cell_clip": 3.0,
        "project_clip": 3.0,
        "skip": True,
        "context": 20,
        "dropout": 0.1,
        "reads": "characters",
        "characters": 3,
        "filters": "1:4,3:5",
        "highways": 1,
        "activation": "relu",
        "longest": 12,
        "softmax": "full",
    }


def test_elmo_gates_are_reordered_and_forget_bias_gets_one(tmp_path: Path):
    arrays = write_published_elmo(tmp_path)
    tensors = elmo_hdf5.read_elmo(tmp_path).tensors
    cell_name, cells, width = "RNN_1/RNN/MultiRNNCell/Cell1/LSTMCell", 10, 6
    i, j, f, o = np.split(arrays[f"{cell_name}/B"], 4)
    assert np.array_equal(tensors["encoder.back.1.input.bias"], np.concatenate([i, f + 1, j, o]))
    i, j, f, o = np.split(arrays[f"{cell_name}/W_0"], 4, axis=1)
    assert np.array_equal(tensors["encoder.back.1.input.weight"], np.concatenate([i, f, j, o], 1)[:width].T)
    assert np.array_equal(tensors["encoder.back.1.state.weight"], np.concatenate([i, f, j, o], 1)[width:].T)
    assert tensors["encoder.back.1.state.weight"].shape == (4 * cells, width)


def test_elmo_char_cnn_filter_is_flattened_character_by_character(tmp_path: Path):
    arrays = write_published_elmo(tmp_path)
    kernel = arrays["CNN/W_cnn_1"]  # (1, 3, 3, 5)
    weight = elmo_hdf5.read_elmo(tmp_path).tensors["encoder.embedding.filters.1.weight"]
    assert weight.shape == (5, 9)
    assert weight[4, 2 * 3 + 1] == kernel[0, 2, 1, 4]


@pytest.mark.parametrize(
    "config",
    [
        options(),
        options({"n_layers": 1}),
        options({"n_layers": None, "use_skip_connections": None, "cell_clip": None, "proj_clip": None}),
        options({"dim": 6}),  # nothing is projected
        options(characters={"filters": [[2, 6]], "n_highway": None, "activation": "tanh", "n_characters": 261}),
        {"lstm": OPTIONS["lstm"]},  # reads words
    ],
    ids=["usual", "one layer", "optional options missing", "as many cells as width", "as many filters", "words"],
)
def test_elmo_write_and_read_round_trip_is_bit_for_bit(config: dict[str, Any], tmp_path: Path):
    write_published_elmo(tmp_path / "theirs", config, softmax=len(WORDS))
    first = elmo_hdf5.read_elmo(tmp_path / "theirs")
    elmo_hdf5.write_elmo(tmp_path / "ours", first.fields, first.tensors, first.words)
    second = elmo_hdf5.read_elmo(tmp_path / "ours")
    assert (first.fields, first.words, first.heads) == (second.fields, second.words, second.heads)
    assert same_arrays(first.tensors, second.tensors)
    elmo_hdf5.write_elmo(tmp_path / "again", second.fields, second.tensors, second.words)
    for name in ("options.json", "lm_weights.hdf5", "vocab.txt"):
        assert (tmp_path / "ours" / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


def test_allennlp_elmo_fixture_is_written_as_published(data: Path, tmp_path: Path):
    folder = data / "weights" / "elmo_allennlp_fixture"
    checkpoint = elmo_hdf5.read_elmo(folder)
    assert checkpoint.num_matched == 33
    elmo_hdf5.write_elmo(tmp_path, checkpoint.fields, checkpoint.tensors, checkpoint.words)
    with h5py.File(folder / "lm_weights.hdf5") as published, h5py.File(tmp_path / "lm_weights.hdf5") as written:
        names: list[str] = []
        published.visit(names.append)
        written.visit(names.append)
        for name in {name for name in names if isinstance(published.get(name), h5py.Dataset)}:
            assert written[name].dtype == np.float32  # pyright: ignore
            tolerance = 2e-7 if name.endswith("/B") else 0
            np.testing.assert_allclose(written[name][...], published[name][...], atol=tolerance)  # pyright: ignore
        assert len(set(names)) == len(names) / 2
    config, written_config = (json.loads((path / "options.json").read_text()) for path in (folder, tmp_path))
    assert {section: written_config[section] for section in config} == config


def test_elmo_forget_bias_round_trip_rounds_once_then_is_bit_for_bit(tmp_path: Path):
    write_published_elmo(tmp_path)
    checkpoint = elmo_hdf5.read_elmo(tmp_path)
    name = "encoder.onward.0.input.bias"
    learned = np.random.default_rng(1).normal(0, 2, 40).astype(np.float32)
    elmo_hdf5.write_elmo(tmp_path / "first", checkpoint.fields, checkpoint.tensors | {name: learned}, None)
    first = elmo_hdf5.read_elmo(tmp_path / "first")
    np.testing.assert_allclose(first.tensors[name], learned, rtol=1.2e-7, atol=1.2e-7)
    assert not np.array_equal(first.tensors[name], learned)
    elmo_hdf5.write_elmo(tmp_path / "second", first.fields, first.tensors, None)
    assert same_arrays(elmo_hdf5.read_elmo(tmp_path / "second").tensors, first.tensors)


def test_elmo_without_clipping_writes_null_not_zero(tmp_path: Path):
    write_published_elmo(tmp_path / "theirs", options({"cell_clip": None, "proj_clip": None}))
    checkpoint = elmo_hdf5.read_elmo(tmp_path / "theirs")
    elmo_hdf5.write_elmo(tmp_path / "ours", checkpoint.fields, checkpoint.tensors, None)
    config = json.loads((tmp_path / "ours" / "options.json").read_text())
    assert config["lstm"]["cell_clip"] is None
    assert config["lstm"]["proj_clip"] is None
    assert config["char_cnn"]["n_characters"] == 262
    assert not (tmp_path / "ours" / "vocab.txt").exists()


# -- softmax and vocabulary


def test_elmo_softmax_with_vocabulary_becomes_language_model_heads(tmp_path: Path):
    arrays = write_published_elmo(tmp_path, softmax=len(WORDS))
    checkpoint = elmo_hdf5.read_elmo(tmp_path)
    assert checkpoint.heads == ("next", "previous")
    assert np.array_equal(checkpoint.tensors["heads.next.softmax.scores.weight"], arrays["softmax/W"])
    assert checkpoint.words == WORDS
    assert checkpoint.skipped_tensors == {}


def test_elmo_softmax_in_a_separate_file_is_found(tmp_path: Path):
    config = options()
    write_published_elmo(tmp_path)
    (tmp_path / "lm_weights.hdf5").rename(tmp_path / "elmo_weights.hdf5")
    (tmp_path / "options.json").rename(tmp_path / "elmo_options.json")
    softmax_arrays = {
        name: array for name, array in random_arrays(config, softmax=7).items() if name.startswith("softmax")
    }
    write_hdf5(tmp_path / "elmo_softmax_weights.hdf5", softmax_arrays)
    checkpoint = elmo_hdf5.read_elmo(tmp_path)
    assert checkpoint.heads == ("next", "previous")
    assert checkpoint.num_matched == 25
    assert "its weights are those of elmo_weights.hdf5" in checkpoint.notes()


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (None, "no vocabulary"),
        (WORDS[:-1], "it has 7 rows, and the vocabulary 6 words"),
        ([*WORDS[:-1], "bank"], "it has 7 rows, and the vocabulary 6 words"),
        ([*WORDS[1:], "other"], "the vocabulary has no <S>"),
    ],
)
def test_elmo_softmax_without_matching_vocabulary_is_skipped_with_a_note(
    words: list[str] | None, reason: str, tmp_path: Path
):
    write_published_elmo(tmp_path, words=words, softmax=7)
    checkpoint = elmo_hdf5.read_elmo(tmp_path)
    assert checkpoint.heads == ()
    assert not any(name.startswith("heads.") for name in checkpoint.tensors)
    (skip_reason,) = checkpoint.skipped_tensors
    assert reason in skip_reason
    assert any(reason in note and "softmax/W" in note for note in checkpoint.notes())


def test_elmo_vocabulary_blank_and_duplicate_lines_are_noted(tmp_path: Path):
    write_published_elmo(tmp_path, words=["<S>", "</S>", "", "<UNK>", "the", " the ", "北京"])
    checkpoint = elmo_hdf5.read_elmo(tmp_path)
    assert checkpoint.words == ["<S>", "</S>", "<UNK>", "the", "北京"]
    assert any(note.startswith("2 lines of") for note in checkpoint.notes())


def test_elmo_float64_float16_and_compressed_arrays_are_read(tmp_path: Path):
    arrays = write_published_elmo(tmp_path)
    tensors = elmo_hdf5.read_elmo(tmp_path).tensors
    float64_arrays = {name: array.astype(">f8") for name, array in arrays.items()}
    write_hdf5(tmp_path / "lm_weights.hdf5", float64_arrays, compression="gzip", shuffle=True)
    assert same_arrays(elmo_hdf5.read_elmo(tmp_path).tensors, tensors)
    write_hdf5(tmp_path / "lm_weights.hdf5", {name: array.astype(np.float16) for name, array in arrays.items()})
    float16_tensors = elmo_hdf5.read_elmo(tmp_path).tensors
    assert all(array.dtype == np.float32 for array in float16_tensors.values())
    assert not same_arrays(float16_tensors, tensors)


def test_elmo_export_notes_limits_of_other_readers(tmp_path: Path):
    def export_notes(lstm: dict[str, Any], characters: dict[str, Any]) -> list[str]:
        write_published_elmo(tmp_path / "theirs", options(lstm, characters))
        checkpoint = elmo_hdf5.read_elmo(tmp_path / "theirs")
        return elmo_hdf5.write_elmo(tmp_path / "ours", checkpoint.fields, checkpoint.tensors, checkpoint.words)

    assert export_notes({}, {"max_characters_per_token": 50}) == []
    assert "AllenNLP always 50" in export_notes({}, {})[0]
    assert export_notes({"dim": 6}, {"max_characters_per_token": 50}) == []
    assert "more cells than the width (5 and 6)" in export_notes({"dim": 5}, {"max_characters_per_token": 50})[0]
    assert "more numbers in a word than the width" in export_notes({}, {"filters": [[1, 6]]})[0]
