"""Published ELMos, read and written: names, shapes and numbers, as others write them and as they read them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from published_elmo import OPTIONS, WORDS, arrays, options, publish, store

from forebear.interop import elmo_hdf5


def same(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)


def test_the_numbers_of_the_options_become_fields(tmp_path: Path):
    publish(tmp_path)
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


def test_gates_are_put_in_order_and_forgetting_gets_its_one(tmp_path: Path):
    made = publish(tmp_path)
    ours = elmo_hdf5.read_elmo(tmp_path).tensors
    there, cells, width = "RNN_1/RNN/MultiRNNCell/Cell1/LSTMCell", 10, 6
    i, j, f, o = np.split(made[f"{there}/B"], 4)
    assert np.array_equal(ours["encoder.back.1.input.bias"], np.concatenate([i, f + 1, j, o]))
    i, j, f, o = np.split(made[f"{there}/W_0"], 4, axis=1)
    assert np.array_equal(ours["encoder.back.1.input.weight"], np.concatenate([i, f, j, o], 1)[:width].T)
    assert np.array_equal(ours["encoder.back.1.state.weight"], np.concatenate([i, f, j, o], 1)[width:].T)
    assert ours["encoder.back.1.state.weight"].shape == (4 * cells, width)


def test_a_filter_sees_one_symbol_after_the_other(tmp_path: Path):
    made = publish(tmp_path)
    kernel = made["CNN/W_cnn_1"]  # (1, 3, 3, 5)
    ours = elmo_hdf5.read_elmo(tmp_path).tensors["encoder.embedding.filters.1.weight"]
    assert ours.shape == (5, 9)
    assert ours[4, 2 * 3 + 1] == kernel[0, 2, 1, 4]


@pytest.mark.parametrize(
    "told",
    [
        options(),
        options({"n_layers": 1}),
        options({"n_layers": None, "use_skip_connections": None, "cell_clip": None, "proj_clip": None}),
        options({"dim": 6}),  # nothing is projected
        options(characters={"filters": [[2, 6]], "n_highway": None, "activation": "tanh", "n_characters": 261}),
        {"lstm": OPTIONS["lstm"]},  # reads words
    ],
    ids=["usual", "one layer", "without what may be left out", "as many cells as width", "as many filters", "words"],
)
def test_what_was_read_is_written_and_read_to_the_same_bits(told: dict[str, Any], tmp_path: Path):
    publish(tmp_path / "theirs", told, softmax=len(WORDS))
    first = elmo_hdf5.read_elmo(tmp_path / "theirs")
    elmo_hdf5.write_elmo(tmp_path / "ours", first.fields, first.tensors, first.words)
    second = elmo_hdf5.read_elmo(tmp_path / "ours")
    assert (first.fields, first.words, first.heads) == (second.fields, second.words, second.heads)
    assert same(first.tensors, second.tensors)
    elmo_hdf5.write_elmo(tmp_path / "again", second.fields, second.tensors, second.words)
    for name in ("options.json", "lm_weights.hdf5", "vocab.txt"):
        assert (tmp_path / "ours" / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


def test_the_fixture_is_written_as_it_was_published(data: Path, tmp_path: Path):
    folder = data / "weights" / "elmo_allennlp_fixture"
    found = elmo_hdf5.read_elmo(folder)
    assert found.num_matched == 33
    elmo_hdf5.write_elmo(tmp_path, found.fields, found.tensors, found.words)
    with h5py.File(folder / "lm_weights.hdf5") as theirs, h5py.File(tmp_path / "lm_weights.hdf5") as ours:
        names: list[str] = []
        theirs.visit(names.append)
        ours.visit(names.append)
        for name in {name for name in names if isinstance(theirs.get(name), h5py.Dataset)}:
            assert ours[name].dtype == np.float32  # pyright: ignore
            np.testing.assert_allclose(ours[name][...], theirs[name][...], atol=2e-7 if name.endswith("/B") else 0)  # pyright: ignore
        assert len(set(names)) == len(names) / 2
    told, written = (json.loads((place / "options.json").read_text()) for place in (folder, tmp_path))
    assert {part: written[part] for part in told} == told


def test_a_bias_learned_here_comes_back_but_for_rounding_and_from_then_on_to_the_bit(tmp_path: Path):
    publish(tmp_path)
    found = elmo_hdf5.read_elmo(tmp_path)
    name = "encoder.onward.0.input.bias"
    learned = np.random.default_rng(1).normal(0, 2, 40).astype(np.float32)
    elmo_hdf5.write_elmo(tmp_path / "first", found.fields, found.tensors | {name: learned}, None)
    first = elmo_hdf5.read_elmo(tmp_path / "first")
    np.testing.assert_allclose(first.tensors[name], learned, rtol=1.2e-7, atol=1.2e-7)
    assert not np.array_equal(first.tensors[name], learned)
    elmo_hdf5.write_elmo(tmp_path / "second", first.fields, first.tensors, None)
    assert same(elmo_hdf5.read_elmo(tmp_path / "second").tensors, first.tensors)


def test_no_clipping_is_null_there_because_nought_would_cut_everything_off(tmp_path: Path):
    publish(tmp_path / "theirs", options({"cell_clip": None, "proj_clip": None}))
    found = elmo_hdf5.read_elmo(tmp_path / "theirs")
    elmo_hdf5.write_elmo(tmp_path / "ours", found.fields, found.tensors, None)
    told = json.loads((tmp_path / "ours" / "options.json").read_text())
    assert told["lstm"]["cell_clip"] is None
    assert told["lstm"]["proj_clip"] is None
    assert told["char_cnn"]["n_characters"] == 262
    assert not (tmp_path / "ours" / "vocab.txt").exists()


# -- softmax and words


def test_a_softmax_with_its_words_makes_heads(tmp_path: Path):
    made = publish(tmp_path, softmax=len(WORDS))
    found = elmo_hdf5.read_elmo(tmp_path)
    assert found.heads == ("next", "previous")
    assert np.array_equal(found.tensors["heads.next.softmax.scores.weight"], made["softmax/W"])
    assert found.words == WORDS
    assert found.skipped_tensors == {}


def test_a_softmax_in_a_file_of_its_own_is_found(tmp_path: Path):
    told = options()
    publish(tmp_path)
    (tmp_path / "lm_weights.hdf5").rename(tmp_path / "elmo_weights.hdf5")
    (tmp_path / "options.json").rename(tmp_path / "elmo_options.json")
    more = {name: one for name, one in arrays(told, softmax=7).items() if name.startswith("softmax")}
    store(tmp_path / "elmo_softmax_weights.hdf5", more)
    found = elmo_hdf5.read_elmo(tmp_path)
    assert found.heads == ("next", "previous")
    assert found.num_matched == 25
    assert "its weights are those of elmo_weights.hdf5" in found.notes()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (None, "no vocabulary"),
        (WORDS[:-1], "it has 7 rows, and the vocabulary 6 words"),
        ([*WORDS[:-1], "bank"], "it has 7 rows, and the vocabulary 6 words"),
        ([*WORDS[1:], "other"], "the vocabulary has no <S>"),
    ],
)
def test_a_softmax_without_its_words_is_left_out_and_told(words: list[str] | None, why: str, tmp_path: Path):
    publish(tmp_path, words=words, softmax=7)
    found = elmo_hdf5.read_elmo(tmp_path)
    assert found.heads == ()
    assert not any(name.startswith("heads.") for name in found.tensors)
    (reason,) = found.skipped_tensors
    assert why in reason
    assert any(why in note and "softmax/W" in note for note in found.notes())


def test_lines_of_a_vocabulary_that_are_no_words_are_told(tmp_path: Path):
    publish(tmp_path, words=["<S>", "</S>", "", "<UNK>", "the", " the ", "北京"])
    found = elmo_hdf5.read_elmo(tmp_path)
    assert found.words == ["<S>", "</S>", "<UNK>", "the", "北京"]
    assert any(note.startswith("2 lines of") for note in found.notes())


def test_numbers_of_other_kinds_and_packed_ones_are_read(tmp_path: Path):
    made = publish(tmp_path)
    plain = elmo_hdf5.read_elmo(tmp_path).tensors
    wide = {name: one.astype(">f8") for name, one in made.items()}
    store(tmp_path / "lm_weights.hdf5", wide, compression="gzip", shuffle=True)
    assert same(elmo_hdf5.read_elmo(tmp_path).tensors, plain)
    store(tmp_path / "lm_weights.hdf5", {name: one.astype(np.float16) for name, one in made.items()})
    half = elmo_hdf5.read_elmo(tmp_path).tensors
    assert all(one.dtype == np.float32 for one in half.values())
    assert not same(half, plain)


def test_what_readers_do_otherwise_is_told(tmp_path: Path):
    def told(lstm: dict[str, Any], characters: dict[str, Any]) -> list[str]:
        publish(tmp_path / "theirs", options(lstm, characters))
        found = elmo_hdf5.read_elmo(tmp_path / "theirs")
        return elmo_hdf5.write_elmo(tmp_path / "ours", found.fields, found.tensors, found.words)

    assert told({}, {"max_characters_per_token": 50}) == []
    assert "AllenNLP always 50" in told({}, {})[0]
    assert told({"dim": 6}, {"max_characters_per_token": 50}) == []
    assert "more cells than the width (5 and 6)" in told({"dim": 5}, {"max_characters_per_token": 50})[0]
    assert "more numbers in a word than the width" in told({}, {"filters": [[1, 6]]})[0]
