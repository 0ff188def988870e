"""GPT in OpenAI's own format: what AllenNLP's tiny fixture holds, what others make of it, and what is refused."""

from __future__ import annotations

import io
import json
import os
import shutil
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch

from forebear.errors import InputError
from forebear.interop import openai_gpt
from forebear.interop.tensor_names import GPT, to_hf_names
from peers import Rows, model_of, our_answers

FIXTURE = "weights/openai_gpt_fixture"


def shapes(width: int, depth: int, vocabulary: int, context: int, wide: int) -> list[list[int]]:
    """As OpenAI wrote them: weights of layers have a 1 in front."""
    block = [[1, width, 3 * width], [3 * width], [1, width, width], [width], [width], [width]]
    block += [[1, width, wide], [wide], [1, wide, width], [width], [width], [width]]
    return [[context, width], [vocabulary, width], *(block * depth)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A random model of three files."""
    folder = tmp_path / "model"
    folder.mkdir()
    told = shapes(width=8, depth=2, vocabulary=11, context=7, wide=20)
    numbers = np.random.default_rng(0).normal(0, 0.3, sum(int(np.prod(shape)) for shape in told)).astype(np.float32)
    for number, part in enumerate(np.array_split(numbers, 3)):
        np.save(folder / f"params_{number}.npy", part)
    (folder / "params_shapes.json").write_text(json.dumps(told))
    return folder


def archived(folder: Path, file: Path, prefix: str = "model/") -> Path:
    with tarfile.open(file, "w:gz") as archive:
        for item in sorted(folder.iterdir()):
            member = archive.gettarinfo(item)
            member.name = prefix + item.name
            archive.addfile(member, io.BytesIO(item.read_bytes()))
    return file


def test_the_numbers_are_where_openai_put_them(folder, tmp_path):
    found = openai_gpt.read_openai_gpt(folder, heads=2)
    wanted = {"width": 8, "depth": 2, "heads": 2, "context": 7, "inner": 20, "dropout": 0.1, "epsilon": 1e-5}
    assert (found.model, found.heads, found.fields) == ("gpt", ("next",), wanted)
    numbers = np.concatenate([np.load(folder / f"params_{n}.npy") for n in range(3)])
    tensors = {name: value.numpy() for name, value in found.tensors.items()}
    assert (tensors["encoder.embedding.position.weight"].ravel() == numbers[:56]).all()
    assert (tensors["encoder.embedding.token.weight"].ravel() == numbers[56:144]).all()
    first = tensors["encoder.blocks.0.attention.query_key_value.weight"]
    assert first.shape == (24, 8)
    assert (first.T.ravel() == numbers[144 : 144 + 192]).all()
    assert (tensors["encoder.blocks.1.feedforward_norm.bias"] == numbers[-8:]).all()
    packed = openai_gpt.read_openai_gpt(archived(folder, tmp_path / "model.tar.gz"), heads=2)
    assert packed.fields == found.fields
    assert all(torch.equal(packed.tensors[name], value) for name, value in found.tensors.items())


def test_the_fixture_of_allennlp_is_what_transformers_computes(data):
    transformers = pytest.importorskip("transformers")
    found = openai_gpt.read_openai_gpt(data / FIXTURE / "transformer_small.tar.gz", heads=2)
    assert {name: found.fields[name] for name in ("width", "depth", "heads", "context", "inner")} == {
        "width": 10, "depth": 2, "heads": 2, "context": 50, "inner": 0,
    }  # fmt: skip
    config = transformers.OpenAIGPTConfig(vocab_size=50, n_embd=10, n_layer=2, n_head=2, n_positions=50)
    peer = transformers.OpenAIGPTLMHeadModel(config).eval()
    theirs = to_hf_names(GPT.name_map, found.tensors, depth=2)
    told = peer.load_state_dict(theirs, strict=False)
    assert (told.missing_keys, told.unexpected_keys) == (["lm_head.weight"], [])
    model = model_of("gpt", found.fields, 50).load(found.tensors).eval()
    rows = Rows.drawn((12,), vocabulary=50)
    told = peer(rows.tokens[None], output_hidden_states=True)
    states = model.encoder(rows.tokens, [12])
    for layer, wanted in zip(states.layers, told.hidden_states, strict=True):
        torch.testing.assert_close(layer, wanted[0], rtol=0, atol=1e-5)
    torch.testing.assert_close(our_answers(model, rows, ("next",))["next"], told.logits[0], rtol=0, atol=1e-4)


def test_the_fixture_of_allennlp_by_its_definition(data):
    """The whole of GPT in a few lines of numpy, from the files' own order."""
    with tarfile.open(data / FIXTURE / "transformer_small.tar.gz") as archive:
        read = {
            Path(member.name).name: archive.extractfile(member) for member in archive.getmembers() if member.isfile()
        }
        told = json.load(read["params_shapes.json"])
        numbers = np.concatenate([np.load(io.BytesIO(read[f"params_{n}.npy"].read())) for n in range(2)])
    cuts = np.cumsum([np.prod(shape) for shape in told])[:-1]
    position, token, *rest = (part.reshape(shape) for part, shape in zip(np.split(numbers, cuts), told, strict=True))
    ids = np.array([3, 17, 4, 44, 8, 0, 21])

    def norm(x, weight, bias):
        x = x - x.mean(-1, keepdims=True)
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * weight + bias

    def attend(x):
        query, key, value = (part.reshape(len(ids), 2, 5).transpose(1, 0, 2) for part in np.split(x, 3, -1))
        scores = query @ key.transpose(0, 2, 1) / np.sqrt(5)
        scores = np.where(np.tril(np.ones((len(ids), len(ids)), bool)), scores, -1e9)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        return ((weights / weights.sum(-1, keepdims=True)) @ value).transpose(1, 0, 2).reshape(len(ids), 10)

    x = token[ids] + position[: len(ids)]
    for number in range(2):
        qkv, qkv_bias, out, out_bias, norm_1, norm_1_bias, wide, wide_bias, back, back_bias, norm_2, norm_2_bias = rest[
            12 * number : 12 * number + 12
        ]
        x = norm(x + attend(x @ qkv + qkv_bias) @ out + out_bias, norm_1, norm_1_bias)
        inner = x @ wide + wide_bias
        inner = 0.5 * inner * (1 + np.tanh(np.sqrt(2 / np.pi) * (inner + 0.044715 * inner**3)))
        x = norm(x + inner @ back + back_bias, norm_2, norm_2_bias)
    found = openai_gpt.read_openai_gpt(data / FIXTURE / "transformer_small.tar.gz", heads=2)
    states = model_of("gpt", found.fields, 50).load(found.tensors).eval().encoder(torch.from_numpy(ids), [len(ids)])
    assert states.last.detach().numpy() == pytest.approx(x, abs=1e-5)


def test_the_published_model_gives_the_published_vectors(data):
    """What AllenNLP kept is the last layer of the full model, to five decimals; it is 460 MB, and seldom at hand."""
    place = Path(os.environ.get("FOREBEAR_OPENAI_GPT", data / "weights" / "openai_gpt"))
    if not place.exists():
        pytest.skip(f"no GPT of OpenAI's at {place}; set FOREBEAR_OPENAI_GPT to the folder or archive")
    h5py = pytest.importorskip("h5py")
    found = openai_gpt.read_openai_gpt(place)
    model = (
        model_of("gpt", found.fields, len(found.tensors["encoder.embedding.token.weight"])).load(found.tensors).eval()
    )
    for number, ids in enumerate(json.loads((data / FIXTURE / "indexed_text.json").read_text())):
        with h5py.File(data / FIXTURE / "expected_embeddings.hdf5") as file, torch.inference_mode():
            last = model.encoder(torch.tensor(ids), [len(ids)]).last
            assert last.numpy() == pytest.approx(file[str(number)][...], abs=2e-5)


def test_heads_are_told_where_they_cannot_be_known(folder, tmp_path):
    with pytest.raises(InputError, match="do not tell how many heads") as caught:
        openai_gpt.read_openai_gpt(folder)
    assert "--heads" in caught.value.hint
    with pytest.raises(InputError, match="cannot be shared by 3 heads"):
        openai_gpt.read_openai_gpt(folder, heads=3)
    told = shapes(width=128, depth=1, vocabulary=3, context=2, wide=512)
    shutil.rmtree(folder)
    folder.mkdir()
    (folder / "params_shapes.json").write_text(json.dumps(told))
    np.save(folder / "params_0.npy", np.zeros(sum(int(np.prod(shape)) for shape in told), np.float16))
    assert openai_gpt.read_openai_gpt(folder).fields["heads"] == 2


def refused(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        openai_gpt.read_openai_gpt(path, heads=2)
    assert caught.value.hint
    return str(caught.value)


def test_files_that_are_not_whole(folder):
    last = np.load(folder / "params_2.npy")
    np.save(folder / "params_2.npy", last[:-1])
    assert "numbers, and the files have" in refused(folder)
    np.save(folder / "params_2.npy", np.append(last, last))
    assert "the files have more" in refused(folder)
    np.save(folder / "params_2.npy", np.where(last == last[0], np.nan, last))
    assert "holds what is no number" in refused(folder)
    np.save(folder / "params_2.npy", last.astype(np.int32))
    assert "not a row of floating point numbers" in refused(folder)
    np.save(folder / "params_2.npy", np.array([{"a": 1}]), allow_pickle=True)
    assert "params_2.npy is not a whole array" in refused(folder)
    (folder / "params_2.npy").write_bytes(b"\x93NUMPY torn")
    assert "params_2.npy is not a whole array" in refused(folder)
    (folder / "params_1.npy").unlink()
    assert "missing: params_1.npy" in refused(folder)


@pytest.mark.parametrize(
    "nonsense", ["{", "{}", "[[1, 2]]", '[["a"]]', "[[0, 8], [1, 8]]", "[[1,2,3,4],[1]]", "[[true]]"]
)
def test_shapes_that_are_none(folder, nonsense):
    (folder / "params_shapes.json").write_text(nonsense)
    assert "params_shapes.json is not" in refused(folder) or "are not two tables" in refused(folder)


def test_archives_that_lead_outside_or_are_torn(folder, tmp_path):
    for prefix in ("../", "/tmp/", "model/../../"):
        assert "leads outside" in refused(archived(folder, tmp_path / "model.tar.gz", prefix))
    whole = archived(folder, tmp_path / "model.tar.gz").read_bytes()
    (tmp_path / "model.tar.gz").write_bytes(whole[: len(whole) // 2])
    assert "not a whole archive" in refused(tmp_path / "model.tar.gz")
    (tmp_path / "model.tar.gz").write_bytes(b"nothing of the kind")
    assert "not a whole archive" in refused(tmp_path / "model.tar.gz")
    with tarfile.open(tmp_path / "twice.tar", "w") as archive:
        for place in ("a", "b"):
            archive.add(folder / "params_0.npy", f"{place}/params_0.npy")
    assert "is there twice" in refused(tmp_path / "twice.tar")
    with tarfile.open(tmp_path / "empty.tar", "w"):
        pass
    assert "there is no params_shapes.json" in refused(tmp_path / "empty.tar")
    with tarfile.open(tmp_path / "linked.tar", "w") as archive:
        link = tarfile.TarInfo("model/params_shapes.json")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    assert "there is no params_shapes.json" in refused(tmp_path / "linked.tar")
