"""NNLM: the paper's parameter counts, comparison with n-grams, and the features it shares with other models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from forebear.errors import InputError
from forebear.experiments import training_run
from forebear.experiments.distill import distill
from forebear.experiments.explain_model import explain_model
from forebear.experiments.plan import plan_pretraining
from forebear.experiments.preview import preview_batch
from forebear.experiments.quantize import quantize_run
from forebear.experiments.warm_start import InitFrom
from forebear.inference.interpolation import evaluate_interpolation
from forebear.inference.run import Run
from forebear.models.nnlm import NNLMSpec
from forebear.objectives.input_format import InputFormat
from forebear.training.adaptation import Adaptation
from small_runs import open_small_run


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREBEAR_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize("size", ["ap", "brown", "brown-direct"])
def test_nnlm_published_sizes_have_the_papers_parameter_count(size: str):
    """|V| (1 + n m + h) + h (1 + (n - 1) m), and without the direct connection |V| (n - 1) m fewer."""
    description = explain_model("nnlm").sizes[size]
    words, m, h = NNLMSpec.published_vocab_size, description["fields"]["width"], description["fields"]["inner"]
    n = description["fields"]["context"] + 1
    expected = words * (1 + n * m + h) + h * (1 + (n - 1) * m)
    expected -= 0 if description["fields"]["direct"] else words * (n - 1) * m
    assert description["figures"]["parameters"] == expected
    assert description["figures"]["longest_input"] == n - 1
    inputs = h + ((n - 1) * m if description["fields"]["direct"] else 0)
    assert description["figures"]["flops_per_token"] == 2 * ((n - 1) * m * h + inputs * words)


@pytest.mark.parametrize("fields", [{"width": 0}, {"inner": 0}, {"context": 0}, {"softmax": "hard"}])
def test_nnlm_spec_refuses_invalid_values(fields: dict[str, object]):
    with pytest.raises(InputError, match=next(iter(fields))):
        NNLMSpec(**fields)


@pytest.mark.parametrize("fields", [{"context": 1}, {"direct": True}, {"softmax": "full"}, {"inner": 50}])
def test_nnlm_variants_beat_the_unigram_baseline(fields: dict[str, object], tmp_path: Path):
    metadata = open_small_run("nnlm", tmp_path, **fields).metadata
    assert metadata["metrics"]["held_out"]["nats_per_token"] < 0.8 * metadata["unigram_nats"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("nnlm")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FOREBEAR_CACHE", str(folder / "cache"))
        return open_small_run("nnlm", folder, inner=20)


def test_nnlm_embeds_layers_of_different_width(run: Run):
    assert run.embed("The cat sat.", layers=0)[0].vector.shape == (32,)
    assert run.embed("The cat sat.")[0].vector.shape == (20,)
    with pytest.raises(InputError, match="no mean"):
        run.embed("The cat sat.", layers=[0, 1])
    with pytest.raises(InputError, match="cannot be mixed"):
        Adaptation(how="features").build_model(run.network, None, InputFormat())
    long = run.embed("The cat sat by the hill. " * 4000)[0]  # far longer than any window
    assert (long.tokens, long.num_truncated) == (7 * 4000, 0)


def test_nnlm_vectors_of_similar_words_are_similar(run: Run):
    """A place is more similar to another place than to an animal."""
    table = run.network.encoder.embedding.token.weight.detach().numpy()
    vectors = {word: table[run.tokenizer.token_to_id(word)] for word in ("hill", "river", "cat", "dog", "bird", "tree")}

    def cosine(first: str, second: str) -> float:
        return float(
            vectors[first] @ vectors[second] / np.linalg.norm(vectors[first]) / np.linalg.norm(vectors[second])
        )

    assert min(cosine("hill", "river"), cosine("cat", "dog")) > max(cosine("hill", "cat"), cosine("river", "dog"))


def test_quantized_nnlm_scores_are_close(run: Run, tmp_path: Path):
    quantized = quantize_run(run, to=tmp_path / "small")
    log_prob, quantized_log_prob = (
        each_run.score("The cat sat by the hill.")[0].log_prob for each_run in (run, quantized)
    )
    assert log_prob == pytest.approx(quantized_log_prob, abs=0.5)


def test_nnlm_refuses_logit_lens_and_distillation(run: Run, tmp_path: Path):
    from forebear.inspection.logit_lens import logit_lens

    with pytest.raises(InputError, match="one layer"):
        logit_lens(run, "The cat sat")
    with pytest.raises(InputError, match="only a Transformer"):
        distill(run.folder.path, [str(run.folder.path.parent / "text.txt")], to=tmp_path / "student")


def test_nnlm_preview_does_not_supervise_lead_tokens(run: Run):
    file = run.folder.path.parent / "text.txt"
    preview = preview_batch(plan_pretraining("nnlm", [str(file)], settings={"context": "4", "batch": "70"}))
    for row in preview.rows:
        assert row.asked["next"][:3] == [None] * 3
        assert row.asked["next"][3:-1] == row.tokens[4:]
    assert "rows_as_long_as_the_context" not in preview.figures  # no sequence is cut by the context


@pytest.mark.parametrize("grouped", [False, True])
def test_nnlm_vocabulary_can_be_extended(grouped: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from forebear.nn import softmax

    monkeypatch.setattr(softmax, "NUM_FREQUENT", 20)
    parent = open_small_run("nnlm", tmp_path, softmax="adaptive" if grouped else "full")
    assert bool(len(parent.network.heads["next"].softmax.groups)) == grouped
    (tmp_path / "words.txt").write_text("hilltop\nbankside\n", encoding="utf-8")
    warm_start = InitFrom.for_run(str(parent.folder.path), str(tmp_path / "words.txt"))
    settings = {**asdict(parent.folder.spec), "steps": 2, "threads": 1, "batch": 128, "held_out": 0.15}
    pretrain_plan = plan_pretraining("nnlm", [str(tmp_path / "text.txt")], settings=settings, init_from=warm_start)
    extended = Run(training_run.run_pretraining(pretrain_plan, tmp_path / "grown"))
    assert extended.tokenizer.vocab_size == parent.tokenizer.vocab_size + 2
    probabilities = np.exp(
        extended.predictor.next_log_probs([np.array([extended.tokenizer.special_roles["end"]])]).astype(np.float64)
    )
    assert probabilities.shape == (1, extended.tokenizer.vocab_size)
    assert probabilities.sum() == pytest.approx(1, abs=1e-5)


@pytest.fixture
def trained_on_wikitext(data: Path, tmp_path: Path) -> Callable[..., Run]:
    """Trains models on the first part of WikiText-2; valid.txt and test.txt are unseen text."""
    corpus = data / "corpora" / "wikitext2"
    lines = (corpus / "train.txt").read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / "part.txt").write_text("".join(lines[:1200]), encoding="utf-8")
    for name in ("valid", "test"):
        lines = (corpus / f"{name}.txt").read_text(encoding="utf-8").splitlines(keepends=True)
        (tmp_path / f"{name}.txt").write_text("".join(lines[:300]), encoding="utf-8")

    def train(name: str, to: str, **settings: object) -> Run:
        pretrain_plan = plan_pretraining(name, [str(tmp_path / "part.txt")], settings=settings)
        return Run(training_run.run_pretraining(pretrain_plan, tmp_path / to))

    return train


@pytest.mark.slow
def test_nnlm_beats_add_k_bigram_and_improves_kneser_ney(trained_on_wikitext: Callable[..., Run], tmp_path: Path):
    """On WikiText-2, as the paper found on the Brown corpus."""
    network = trained_on_wikitext("nnlm", "nnlm", steps=150, threads=1, batch=512)
    add_k_bigram = trained_on_wikitext("ngram", "added", order=2, smoothing="add", unit="document")
    kneser_ney = trained_on_wikitext("ngram", "smoothed", order=5, unit="document")
    test_text = tmp_path / "test.txt"
    assert network.measure(test_text).perplexity < 0.8 * add_k_bigram.measure(test_text).perplexity
    interpolation = evaluate_interpolation([network, kneser_ney], test_text, tune=tmp_path / "valid.txt")
    assert interpolation.mixture.perplexity < 0.97 * min(
        evaluation.perplexity for evaluation in interpolation.individual
    )
