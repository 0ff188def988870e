"""Corrupt or incomplete ELMo files: each fault is named with its file and a hint."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from reference_elmo import WORDS, options, random_arrays, write_hdf5, write_published_elmo

from forebear.errors import InputError
from forebear.interop import elmo_hdf5

CELL = "RNN_0/RNN/MultiRNNCell/Cell1/LSTMCell"


def read_error(path: Path) -> InputError:
    with pytest.raises(InputError) as caught:
        elmo_hdf5.read_elmo(path)
    assert caught.value.hint
    assert caught.value.file is not None
    return caught.value


# -- weights


def test_elmo_missing_unexpected_and_misshapen_arrays_are_all_named(tmp_path: Path):
    arrays = write_published_elmo(tmp_path)
    del arrays["CNN_high_0/b_carry"], arrays[f"{CELL}/W_P_0"]
    arrays |= {"CNN/b_cnn_0": np.zeros(7, np.float32), f"{CELL}/W_F_diag": np.zeros(10, np.float32)}
    write_hdf5(tmp_path / "lm_weights.hdf5", arrays)
    error = read_error(tmp_path)
    for fault in (
        "CNN_high_0/b_carry is missing",
        f"{CELL}/W_P_0 is missing",
        "CNN/b_cnn_0 is 7 instead of 4",
        f"{CELL}/W_F_diag is not expected",
    ):
        assert fault in error.message
    assert error.file == str(tmp_path / "lm_weights.hdf5")


@pytest.mark.parametrize("name", sorted(random_arrays(options(), softmax=7)))
def test_elmo_every_missing_array_is_named(name: str, tmp_path: Path):
    arrays = write_published_elmo(tmp_path, softmax=7)
    del arrays[name]
    write_hdf5(tmp_path / "lm_weights.hdf5", arrays)
    assert f"{name} is missing" in read_error(tmp_path).message


def test_elmo_options_of_another_model_are_detected_by_shapes(tmp_path: Path):
    write_published_elmo(tmp_path)
    (tmp_path / "options.json").write_text(json.dumps(options({"n_layers": 3, "dim": 12}, {"n_highway": 0})))
    message = read_error(tmp_path).message
    assert f"{CELL}/W_0 is 12x40 instead of 12x48" in message
    assert "MultiRNNCell/Cell2/LSTMCell/B is missing" in message
    assert "CNN_high_0/W_carry is not expected" in message


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"char_embed": np.zeros((261, 3), np.int32)}, "char_embed holds no floating point numbers"),
        ({f"{CELL}/B": np.full(40, np.nan, np.float32)}, f"{CELL}/B has entries that are no numbers"),
        ({f"{CELL}/B": np.full(40, 1e300)}, f"{CELL}/B has entries that are no numbers"),
        ({"softmax/W": np.zeros((7, 5), np.float32)}, "softmax/W is 7x5"),
        ({"softmax/b": np.float32(1)}, "softmax/b is a single number"),
    ],
)
def test_elmo_invalid_weights_are_refused(change: dict[str, Any], message: str, tmp_path: Path):
    arrays = write_published_elmo(tmp_path, softmax=7)
    write_hdf5(tmp_path / "lm_weights.hdf5", arrays | change)
    assert message in read_error(tmp_path).message


def test_elmo_projection_of_equal_sizes_must_be_the_identity(tmp_path: Path):
    config = options({"dim": 6})
    arrays = write_published_elmo(tmp_path, config)
    for direction in range(2):
        for layer in range(2):
            arrays[f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell/W_P_0"] = np.eye(6, dtype=np.float32)
    write_hdf5(tmp_path / "lm_weights.hdf5", arrays)
    assert "encoder.onward.0.project.weight" not in elmo_hdf5.read_elmo(tmp_path).tensors  # the identity has no effect
    arrays[f"{CELL}/W_P_0"][0, 1] = 0.5
    write_hdf5(tmp_path / "lm_weights.hdf5", arrays)
    assert f"a projection between them: {CELL}/W_P_0" in read_error(tmp_path).message


def test_elmo_external_unwritten_and_linked_datasets_are_refused(tmp_path: Path):
    arrays = write_published_elmo(tmp_path)
    (tmp_path / "elsewhere").write_bytes(bytes(261 * 3 * 4))
    with h5py.File(tmp_path / "lm_weights.hdf5", "w") as file:
        for name, values in arrays.items():
            if name == "char_embed":
                external = [(str(tmp_path / "elsewhere"), 0, 261 * 3 * 4)]
                file.create_dataset(name, values.shape, "<f4", external=external)
            else:
                file.create_dataset(name, data=values)
    assert "char_embed lie in another file" in read_error(tmp_path).message
    with h5py.File(tmp_path / "lm_weights.hdf5", "a") as file:
        del file["char_embed"]
        file.create_dataset("char_embed", (261, 3), "<f4")
    assert "char_embed are not all there" in read_error(tmp_path).message
    with h5py.File(tmp_path / "lm_weights.hdf5", "a") as file:
        del file["char_embed"]
        file["char_embed"] = h5py.ExternalLink("other.hdf5", "/char_embed")
    assert "char_embed is missing" in read_error(tmp_path).message


def test_elmo_small_file_cannot_claim_huge_arrays(tmp_path: Path):
    config = options({"dim": 1 << 20, "projection_dim": 1 << 20})
    folder = tmp_path / "huge"
    folder.mkdir()
    (folder / "options.json").write_text(json.dumps(config))
    size = 1 << 20
    with h5py.File(folder / "lm_weights.hdf5", "w") as file:
        for name, values in random_arrays(options()).items():
            if name.startswith("RNN") and not name.endswith("W_P_0"):
                shape = (2 * size, 4 * size) if name.endswith("W_0") else (4 * size,)
                file.create_dataset(name, shape, "<f4", chunks=(1024,) * len(shape), compression="gzip")
            elif name.startswith("CNN_proj"):
                shape = (9, size) if name.endswith("W_proj") else (size,)
                file.create_dataset(name, shape, "<f4", chunks=(1,) * (len(shape) - 1) + (1024,), compression="gzip")
            elif not name.startswith("RNN"):
                file.create_dataset(name, data=values)
    assert "are not all there" in read_error(folder).message


# -- files


def test_elmo_truncated_file_is_refused_at_every_length(tmp_path: Path):
    write_published_elmo(tmp_path)
    path = tmp_path / "lm_weights.hdf5"
    content = path.read_bytes()
    for size in [0, 1, 8, 100, 2048, *range(4096, len(content), 4096), len(content) - 1]:
        path.write_bytes(content[:size])
        assert "not a whole HDF5 file" in read_error(tmp_path).message
    path.write_bytes(b"these are no weights\n" * 200)
    assert "not a whole HDF5 file" in read_error(tmp_path).message


def test_elmo_flipped_bytes_raise_only_input_errors(tmp_path: Path):
    write_published_elmo(tmp_path, softmax=7)
    path = tmp_path / "lm_weights.hdf5"
    content, rng = path.read_bytes(), random.Random(7)
    refusals = 0
    for _ in range(150):
        corrupt = bytearray(content)
        for _ in range(rng.choice((1, 8, 60))):
            corrupt[rng.randrange(len(corrupt))] = rng.randrange(256)
        path.write_bytes(corrupt)
        try:
            elmo_hdf5.read_elmo(tmp_path)
        except InputError:
            refusals += 1
    assert refusals > 30


@pytest.mark.parametrize(
    ("missing", "message", "hint"),
    [
        ("options.json", "there is no options.json", "published with"),
        ("lm_weights.hdf5", "no file of weights", "put the weights there"),
    ],
)
def test_elmo_missing_file_is_named(missing: str, message: str, hint: str, tmp_path: Path):
    write_published_elmo(tmp_path)
    (tmp_path / missing).unlink()
    assert elmo_hdf5.is_elmo(tmp_path)
    error = read_error(tmp_path)
    assert message in error.message
    assert hint in error.hint


def test_elmo_weights_are_found_among_several_hdf5_files(tmp_path: Path):
    arrays = write_published_elmo(tmp_path)
    write_hdf5(tmp_path / "a_embeddings.hdf5", {"0": np.zeros((2, 3, 6), np.float32)})
    (tmp_path / "b_torn.hdf5").write_bytes(b"torn")
    checkpoint = elmo_hdf5.read_elmo(tmp_path)
    assert np.array_equal(checkpoint.tensors["encoder.embedding.character.weight"], arrays["char_embed"])
    assert "its weights are those of lm_weights.hdf5" in checkpoint.notes()
    assert "b_torn.hdf5 is not a whole HDF5 file: left out" in checkpoint.notes()
    write_hdf5(tmp_path / "other.hdf5", random_arrays(options(), seed=1))
    assert "its weights are those of lm_weights.hdf5" in elmo_hdf5.read_elmo(tmp_path).notes()
    (tmp_path / "lm_weights.hdf5").rename(tmp_path / "first.hdf5")
    error = read_error(tmp_path)
    assert "several files have weights: first.hdf5; other.hdf5" in error.message
    assert "first.hdf5" in error.hint
    assert np.array_equal(
        elmo_hdf5.read_elmo(tmp_path / "other.hdf5").tensors["encoder.embedding.character.weight"],
        random_arrays(options(), seed=1)["char_embed"],
    )


def test_elmo_hdf5_files_without_elmo_weights_are_named(tmp_path: Path):
    write_published_elmo(tmp_path)
    write_hdf5(tmp_path / "lm_weights.hdf5", {"0": np.zeros((2, 3, 6), np.float32)})
    message = read_error(tmp_path).message
    assert "char_embed is missing" in message
    assert "0 is not expected" in message
    write_hdf5(tmp_path / "more.hdf5", {"0": np.zeros((2, 3, 6), np.float32)})
    assert "none of its HDF5 files has weights of an ELMo: lm_weights.hdf5; more.hdf5" in read_error(tmp_path).message


def test_elmo_vocabulary_in_another_encoding_is_refused_with_its_byte(tmp_path: Path):
    write_published_elmo(tmp_path)
    (tmp_path / "vocab.txt").write_bytes("<S>\n北京\n".encode("gb18030"))
    error = read_error(tmp_path)
    assert (error.byte, error.file) == (4, str(tmp_path / "vocab.txt"))


def test_word_level_elmo_needs_its_whole_vocabulary(tmp_path: Path):
    write_published_elmo(tmp_path, {"lstm": options()["lstm"]})
    assert elmo_hdf5.read_elmo(tmp_path).fields["reads"] == "words"
    (tmp_path / "vocab.txt").write_text("\n".join(WORDS[:-1]), encoding="utf-8")
    assert "7 of them, and there is no vocabulary of so many" in read_error(tmp_path).message
    (tmp_path / "vocab.txt").write_text("\n".join([*WORDS[:2], "a", *WORDS[3:]]), encoding="utf-8")
    assert "the vocabulary has no <UNK>" in read_error(tmp_path).message


# -- options


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ([], "this is not an object"),
        ({}, "lstm is missing"),
        ({"lstm": 3}, "lstm is 3, not an object"),
        (options({"dim": None}), "lstm.dim is missing"),
        (options({"dim": 0}), "lstm.dim is 0, not a whole number from 1"),
        (options({"dim": 10.5}), "lstm.dim is 10.5"),
        (options({"dim": True}), "lstm.dim is True"),
        (options({"dim": "10"}), "lstm.dim is '10'"),
        (options({"projection_dim": 1 << 60}), "lstm.projection_dim is 1152921504606846976"),
        (options({"n_layers": 10**9}), "lstm.n_layers is 1000000000, not a whole number from 1 to 64"),
        (options({"cell_clip": -3}), "lstm.cell_clip is -3"),
        (options({"proj_clip": float("nan")}), "lstm.proj_clip is nan"),
        (options({"use_skip_connections": "no"}), "lstm.use_skip_connections is 'no'; it must be false or true"),
        (options({}, {"activation": "gelu"}), 'char_cnn.activation is \'gelu\'; it must be "relu" or "tanh"'),
        (options({}, {"activation": None}), "char_cnn.activation is missing"),
        (options({}, {"n_characters": 60}), "char_cnn.n_characters is 60; it must be 262 or 261"),
        (options({}, {"n_highway": -1}), "char_cnn.n_highway is -1"),
        (options({}, {"embedding": {}}), "char_cnn.embedding.dim is missing"),
        (options({}, {"filters": []}), "char_cnn.filters is []"),
        (options({}, {"filters": [[1, 4], [2]]}), "char_cnn.filters is [[1, 4], [2]]"),
        (options({}, {"filters": [[13, 4]]}), "with widths up to the 12 characters of a word"),
        (options({}, {"filters": "1:4"}), "char_cnn.filters is '1:4'"),
        (options({}, {"max_characters_per_token": 1}), "char_cnn.max_characters_per_token is 1"),
        (options() | {"bidirectional": False}, "reads in one direction only"),
        (options() | {"dropout": 1.5}, "dropout is 1.5, not a number from 0 to 0.99"),
    ],
    ids=str,
)
def test_elmo_invalid_options_are_named(config: Any, message: str, tmp_path: Path):
    write_published_elmo(tmp_path)
    (tmp_path / "options.json").write_text(json.dumps(config))
    error = read_error(tmp_path)
    assert message in error.message
    assert error.file == str(tmp_path / "options.json")


def test_elmo_options_faults_are_all_reported_at_once(tmp_path: Path):
    write_published_elmo(tmp_path)
    config = options({"dim": None, "n_layers": -1}, {"filters": None})
    (tmp_path / "options.json").write_text(json.dumps(config))
    message = read_error(tmp_path).message
    assert "lstm.dim is missing" in message
    assert "lstm.n_layers is -1" in message
    assert "char_cnn.filters is missing" in message


def test_elmo_options_without_char_cnn_are_named_as_the_fault(tmp_path: Path):
    write_published_elmo(tmp_path)
    config = {name: value for name, value in options().items() if name != "char_cnn"}
    (tmp_path / "options.json").write_text(json.dumps(config))
    assert "options.json has no char_cnn" in read_error(tmp_path).message


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe{}", b"[" * 100_000])
def test_elmo_options_that_are_not_json_are_refused(content: bytes, tmp_path: Path):
    write_published_elmo(tmp_path)
    (tmp_path / "options.json").write_bytes(content)
    assert "this is not JSON" in read_error(tmp_path).message


# -- without the library


def test_elmo_without_h5py_hints_at_the_extra(tmp_path: Path):
    write_published_elmo(tmp_path)
    program = """
import sys
sys.modules["h5py"] = None
from pathlib import Path
from forebear.errors import InputError
from forebear.interop import elmo_hdf5
try:
    elmo_hdf5.read_elmo(Path(sys.argv[1]))
except InputError as error:
    print(error)
"""
    completed = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, timeout=60
    )
    assert "need h5py, which is not installed" in completed.stdout, completed.stderr
    assert "pip install 'forebear[elmo]'" in completed.stdout


def test_importing_interop_does_not_load_h5py():
    program = "import sys, forebear, forebear.interop.elmo_hdf5, forebear.interop.convert; print('h5py' in sys.modules)"
    completed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert completed.stdout.strip() == "False", completed.stderr
