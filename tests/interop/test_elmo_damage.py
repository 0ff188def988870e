"""Published ELMos that are not whole: what is missing, odd or torn is named, with the file and a remedy."""

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
from published_elmo import WORDS, arrays, options, publish, store

from forebear.errors import InputError
from forebear.interop import elmo_hdf5

CELL = "RNN_0/RNN/MultiRNNCell/Cell1/LSTMCell"


def refused(path: Path) -> InputError:
    with pytest.raises(InputError) as told:
        elmo_hdf5.read_elmo(path)
    assert told.value.hint
    assert told.value.file is not None
    return told.value


# -- weights


def test_every_missing_further_and_misshapen_array_is_named(tmp_path: Path):
    made = publish(tmp_path)
    del made["CNN_high_0/b_carry"], made[f"{CELL}/W_P_0"]
    made |= {"CNN/b_cnn_0": np.zeros(7, np.float32), f"{CELL}/W_F_diag": np.zeros(10, np.float32)}
    store(tmp_path / "lm_weights.hdf5", made)
    told = refused(tmp_path)
    for part in (
        "CNN_high_0/b_carry is missing",
        f"{CELL}/W_P_0 is missing",
        "CNN/b_cnn_0 is 7 instead of 4",
        f"{CELL}/W_F_diag is not expected",
    ):
        assert part in told.message
    assert told.file == str(tmp_path / "lm_weights.hdf5")


@pytest.mark.parametrize("name", sorted(arrays(options(), softmax=7)))
def test_no_array_can_be_missing(name: str, tmp_path: Path):
    made = publish(tmp_path, softmax=7)
    del made[name]
    store(tmp_path / "lm_weights.hdf5", made)
    assert f"{name} is missing" in refused(tmp_path).message


def test_options_of_another_model_are_told_by_the_shapes(tmp_path: Path):
    publish(tmp_path)
    (tmp_path / "options.json").write_text(json.dumps(options({"n_layers": 3, "dim": 12}, {"n_highway": 0})))
    told = refused(tmp_path).message
    assert f"{CELL}/W_0 is 12x40 instead of 12x48" in told
    assert "MultiRNNCell/Cell2/LSTMCell/B is missing" in told
    assert "CNN_high_0/W_carry is not expected" in told


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"char_embed": np.zeros((261, 3), np.int32)}, "char_embed holds no floating point numbers"),
        ({f"{CELL}/B": np.full(40, np.nan, np.float32)}, f"{CELL}/B has entries that are no numbers"),
        ({f"{CELL}/B": np.full(40, 1e300)}, f"{CELL}/B has entries that are no numbers"),
        ({"softmax/W": np.zeros((7, 5), np.float32)}, "softmax/W is 7x5"),
        ({"softmax/b": np.float32(1)}, "softmax/b is a single number"),
    ],
)
def test_what_is_no_weight_is_refused(change: dict[str, Any], said: str, tmp_path: Path):
    made = publish(tmp_path, softmax=7)
    store(tmp_path / "lm_weights.hdf5", made | change)
    assert said in refused(tmp_path).message


def test_a_projection_that_has_no_place_here_is_refused(tmp_path: Path):
    told = options({"dim": 6})
    made = publish(tmp_path, told)
    for way in range(2):
        for layer in range(2):
            made[f"RNN_{way}/RNN/MultiRNNCell/Cell{layer}/LSTMCell/W_P_0"] = np.eye(6, dtype=np.float32)
    store(tmp_path / "lm_weights.hdf5", made)
    assert "encoder.onward.0.project.weight" not in elmo_hdf5.read_elmo(tmp_path).tensors  # it changes nothing
    made[f"{CELL}/W_P_0"][0, 1] = 0.5
    store(tmp_path / "lm_weights.hdf5", made)
    assert f"a projection between them: {CELL}/W_P_0" in refused(tmp_path).message


def test_numbers_that_were_never_written_or_lie_elsewhere_are_no_weights(tmp_path: Path):
    made = publish(tmp_path)
    (tmp_path / "elsewhere").write_bytes(bytes(261 * 3 * 4))
    with h5py.File(tmp_path / "lm_weights.hdf5", "w") as stored:
        for name, numbers in made.items():
            if name == "char_embed":
                place = [(str(tmp_path / "elsewhere"), 0, 261 * 3 * 4)]
                stored.create_dataset(name, numbers.shape, "<f4", external=place)
            else:
                stored.create_dataset(name, data=numbers)
    assert "char_embed lie in another file" in refused(tmp_path).message
    with h5py.File(tmp_path / "lm_weights.hdf5", "a") as stored:
        del stored["char_embed"]
        stored.create_dataset("char_embed", (261, 3), "<f4")
    assert "char_embed are not all there" in refused(tmp_path).message
    with h5py.File(tmp_path / "lm_weights.hdf5", "a") as stored:
        del stored["char_embed"]
        stored["char_embed"] = h5py.ExternalLink("other.hdf5", "/char_embed")
    assert "char_embed is missing" in refused(tmp_path).message


def test_a_small_file_cannot_ask_for_all_memory(tmp_path: Path):
    told = options({"dim": 1 << 20, "projection_dim": 1 << 20})
    folder = tmp_path / "huge"
    folder.mkdir()
    (folder / "options.json").write_text(json.dumps(told))
    wide = 1 << 20
    with h5py.File(folder / "lm_weights.hdf5", "w") as stored:
        for name, numbers in arrays(options()).items():
            if name.startswith("RNN") and not name.endswith("W_P_0"):
                shape = (2 * wide, 4 * wide) if name.endswith("W_0") else (4 * wide,)
                stored.create_dataset(name, shape, "<f4", chunks=(1024,) * len(shape), compression="gzip")
            elif name.startswith("CNN_proj"):
                shape = (9, wide) if name.endswith("W_proj") else (wide,)
                stored.create_dataset(name, shape, "<f4", chunks=(1,) * (len(shape) - 1) + (1024,), compression="gzip")
            elif not name.startswith("RNN"):
                stored.create_dataset(name, data=numbers)
    assert "are not all there" in refused(folder).message


# -- files


def test_files_that_are_cut_short_are_refused_wherever_that_is(tmp_path: Path):
    publish(tmp_path)
    file = tmp_path / "lm_weights.hdf5"
    whole = file.read_bytes()
    for size in [0, 1, 8, 100, 2048, *range(4096, len(whole), 4096), len(whole) - 1]:
        file.write_bytes(whole[:size])
        assert "not a whole HDF5 file" in refused(tmp_path).message
    file.write_bytes(b"these are no weights\n" * 200)
    assert "not a whole HDF5 file" in refused(tmp_path).message


def test_bytes_that_were_changed_make_no_other_error(tmp_path: Path):
    publish(tmp_path, softmax=7)
    file = tmp_path / "lm_weights.hdf5"
    whole, drawn = file.read_bytes(), random.Random(7)
    seen = 0
    for _ in range(150):
        torn = bytearray(whole)
        for _ in range(drawn.choice((1, 8, 60))):
            torn[drawn.randrange(len(torn))] = drawn.randrange(256)
        file.write_bytes(torn)
        try:
            elmo_hdf5.read_elmo(tmp_path)
        except InputError:
            seen += 1
    assert seen > 30


@pytest.mark.parametrize(
    ("gone", "said", "hint"),
    [
        ("options.json", "there is no options.json", "published with"),
        ("lm_weights.hdf5", "no file of weights", "put the weights there"),
    ],
)
def test_a_missing_file_is_named(gone: str, said: str, hint: str, tmp_path: Path):
    publish(tmp_path)
    (tmp_path / gone).unlink()
    assert elmo_hdf5.is_elmo(tmp_path)
    told = refused(tmp_path)
    assert said in told.message
    assert hint in told.hint


def test_of_several_files_that_with_the_weights_is_taken(tmp_path: Path):
    made = publish(tmp_path)
    store(tmp_path / "a_embeddings.hdf5", {"0": np.zeros((2, 3, 6), np.float32)})
    (tmp_path / "b_torn.hdf5").write_bytes(b"torn")
    found = elmo_hdf5.read_elmo(tmp_path)
    assert np.array_equal(found.tensors["encoder.embedding.character.weight"], made["char_embed"])
    assert "its weights are those of lm_weights.hdf5" in found.notes()
    assert "b_torn.hdf5 is not a whole HDF5 file: left out" in found.notes()
    store(tmp_path / "other.hdf5", arrays(options(), seed=1))
    assert "its weights are those of lm_weights.hdf5" in elmo_hdf5.read_elmo(tmp_path).notes()
    (tmp_path / "lm_weights.hdf5").rename(tmp_path / "first.hdf5")
    told = refused(tmp_path)
    assert "several files have weights: first.hdf5; other.hdf5" in told.message
    assert "first.hdf5" in told.hint
    assert np.array_equal(
        elmo_hdf5.read_elmo(tmp_path / "other.hdf5").tensors["encoder.embedding.character.weight"],
        arrays(options(), seed=1)["char_embed"],
    )


def test_files_without_weights_of_an_elmo_are_told(tmp_path: Path):
    publish(tmp_path)
    store(tmp_path / "lm_weights.hdf5", {"0": np.zeros((2, 3, 6), np.float32)})
    told = refused(tmp_path).message
    assert "char_embed is missing" in told
    assert "0 is not expected" in told
    store(tmp_path / "more.hdf5", {"0": np.zeros((2, 3, 6), np.float32)})
    assert "none of its HDF5 files has weights of an ELMo: lm_weights.hdf5; more.hdf5" in refused(tmp_path).message


def test_a_vocabulary_in_another_encoding_is_refused_with_its_byte(tmp_path: Path):
    publish(tmp_path)
    (tmp_path / "vocab.txt").write_bytes("<S>\n北京\n".encode("gb18030"))
    told = refused(tmp_path)
    assert (told.byte, told.file) == (4, str(tmp_path / "vocab.txt"))


def test_what_reads_words_needs_all_of_them(tmp_path: Path):
    publish(tmp_path, {"lstm": options()["lstm"]})
    assert elmo_hdf5.read_elmo(tmp_path).fields["reads"] == "words"
    (tmp_path / "vocab.txt").write_text("\n".join(WORDS[:-1]), encoding="utf-8")
    assert "7 of them, and there is no vocabulary of so many" in refused(tmp_path).message
    (tmp_path / "vocab.txt").write_text("\n".join([*WORDS[:2], "a", *WORDS[3:]]), encoding="utf-8")
    assert "the vocabulary has no <UNK>" in refused(tmp_path).message


# -- options


@pytest.mark.parametrize(
    ("told", "said"),
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
def test_absurd_options_are_named(told: Any, said: str, tmp_path: Path):
    publish(tmp_path)
    (tmp_path / "options.json").write_text(json.dumps(told))
    fault = refused(tmp_path)
    assert said in fault.message
    assert fault.file == str(tmp_path / "options.json")


def test_all_that_is_wrong_with_options_is_told_at_once(tmp_path: Path):
    publish(tmp_path)
    told = options({"dim": None, "n_layers": -1}, {"filters": None})
    (tmp_path / "options.json").write_text(json.dumps(told))
    what = refused(tmp_path).message
    assert "lstm.dim is missing" in what
    assert "lstm.n_layers is -1" in what
    assert "char_cnn.filters is missing" in what


def test_options_that_do_not_tell_of_letters_are_named_as_the_fault(tmp_path: Path):
    publish(tmp_path)
    told = {name: value for name, value in options().items() if name != "char_cnn"}
    (tmp_path / "options.json").write_text(json.dumps(told))
    assert "options.json has no char_cnn" in refused(tmp_path).message


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe{}", b"[" * 100_000])
def test_options_that_are_no_json_are_refused(content: bytes, tmp_path: Path):
    publish(tmp_path)
    (tmp_path / "options.json").write_bytes(content)
    assert "this is not JSON" in refused(tmp_path).message


# -- without the library


def test_where_h5py_is_lacking_the_remedy_is_told(tmp_path: Path):
    publish(tmp_path)
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
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, timeout=60)
    assert "need h5py, which is not installed" in done.stdout, done.stderr
    assert "pip install 'forebear[elmo]'" in done.stdout


def test_reading_other_models_loads_no_h5py():
    program = "import sys, forebear, forebear.interop.elmo_hdf5, forebear.interop.convert; print('h5py' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "False", done.stderr
