"""NNLM as a milestone: the paper's number of parameters, what it beats, and what it shares with the rest of a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from forebear.errors import InputError
from forebear.experiments import pipeline
from forebear.experiments.distill import distill
from forebear.experiments.explain import explain_model
from forebear.experiments.plan import plan_pretraining
from forebear.experiments.preview import preview_batch
from forebear.experiments.quantize import quantize_run
from forebear.experiments.warm_start import InitFrom
from forebear.inference.ensemble import evaluate_interpolation
from forebear.inference.run import Run
from forebear.models.nnlm import NNLMSpec
from forebear.objectives.input_format import InputFormat
from forebear.training.adaptation import Adaptation
from small_runs import opened


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREBEAR_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize("size", ["ap", "brown", "brown-direct"])
def test_published_sizes_have_the_papers_number_of_parameters(size: str):
    """|V| (1 + n m + h) + h (1 + (n - 1) m), and without the direct connection |V| (n - 1) m fewer."""
    told = explain_model("nnlm").sizes[size]
    words, m, h = NNLMSpec.entries, told["fields"]["width"], told["fields"]["inner"]
    n = told["fields"]["context"] + 1
    expected = words * (1 + n * m + h) + h * (1 + (n - 1) * m)
    expected -= 0 if told["fields"]["direct"] else words * (n - 1) * m
    assert told["figures"]["parameters"] == expected
    assert told["figures"]["longest_input"] == n - 1
    inputs = h + ((n - 1) * m if told["fields"]["direct"] else 0)
    assert told["figures"]["flops_per_token"] == 2 * ((n - 1) * m * h + inputs * words)


@pytest.mark.parametrize("more", [{"width": 0}, {"inner": 0}, {"context": 0}, {"softmax": "hard"}])
def test_what_is_no_network_is_refused(more: dict[str, object]):
    with pytest.raises(InputError, match=next(iter(more))):
        NNLMSpec(**more)


@pytest.mark.parametrize("fields", [{"context": 1}, {"direct": True}, {"softmax": "full"}, {"inner": 50}])
def test_every_shape_learns(fields: dict[str, object], tmp_path: Path):
    facts = opened("nnlm", tmp_path, **fields).metadata
    assert facts["metrics"]["held_out"]["nats_per_token"] < 0.8 * facts["unigram_nats"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("nnlm")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FOREBEAR_CACHE", str(folder / "cache"))
        return opened("nnlm", folder, inner=20)


def test_its_layers_are_of_different_widths(run: Run):
    assert run.embed("The cat sat.", layers=0)[0].vector.shape == (32,)
    assert run.embed("The cat sat.")[0].vector.shape == (20,)
    with pytest.raises(InputError, match="no mean"):
        run.embed("The cat sat.", layers=[0, 1])
    with pytest.raises(InputError, match="cannot be mixed"):
        Adaptation(how="features").build_model(run.network, None, InputFormat())
    long = run.embed("The cat sat by the hill. " * 4000)[0]  # far longer than any window
    assert (long.tokens, long.num_truncated) == (7 * 4000, 0)


def test_words_that_are_used_alike_have_vectors_that_are_alike(run: Run):
    """A place is more like another place than like an animal."""
    table = run.network.encoder.embedding.token.weight.detach().numpy()
    at = {word: table[run.tokenizer.token_to_id(word)] for word in ("hill", "river", "cat", "dog", "bird", "tree")}

    def cosine(one: str, other: str) -> float:
        return float(at[one] @ at[other] / np.linalg.norm(at[one]) / np.linalg.norm(at[other]))

    assert min(cosine("hill", "river"), cosine("cat", "dog")) > max(cosine("hill", "cat"), cosine("river", "dog"))


def test_it_is_made_of_small_integers_and_answers_nearly_alike(run: Run, tmp_path: Path):
    small = quantize_run(run, to=tmp_path / "small")
    one, other = (made.score("The cat sat by the hill.")[0].log_prob for made in (run, small))
    assert one == pytest.approx(other, abs=0.5)


def test_what_it_cannot_be_asked_is_refused(run: Run, tmp_path: Path):
    from forebear.inspection.logit_lens import logit_lens

    with pytest.raises(InputError, match="one layer"):
        logit_lens(run, "The cat sat")
    with pytest.raises(InputError, match="only a Transformer"):
        distill(run.folder.path, [str(run.folder.path.parent / "text.txt")], to=tmp_path / "student")


def test_a_preview_shows_the_lead_and_asks_nothing_of_it(run: Run):
    file = run.folder.path.parent / "text.txt"
    told = preview_batch(plan_pretraining("nnlm", [str(file)], settings={"context": "4", "batch": "70"}))
    for row in told.rows:
        assert row.asked["next"][:3] == [None] * 3
        assert row.asked["next"][3:-1] == row.tokens[4:]
    assert "rows_as_long_as_the_context" not in told.figures  # none is cut by it


@pytest.mark.parametrize("grouped", [False, True])
def test_words_can_be_added_to_its_vocabulary(grouped: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from forebear.nn import softmax

    monkeypatch.setattr(softmax, "NUM_FREQUENT", 20)
    own = opened("nnlm", tmp_path, softmax="adaptive" if grouped else "full")
    assert bool(len(own.network.heads["next"].softmax.groups)) == grouped
    (tmp_path / "words.txt").write_text("hilltop\nbankside\n", encoding="utf-8")
    beginning = InitFrom.for_run(str(own.folder.path), str(tmp_path / "words.txt"))
    settings = {**asdict(own.folder.spec), "steps": 2, "threads": 1, "batch": 128, "held_out": 0.15}
    made = plan_pretraining("nnlm", [str(tmp_path / "text.txt")], settings=settings, init_from=beginning)
    grown = Run(pipeline.run_pretraining(made, tmp_path / "grown"))
    assert grown.tokenizer.vocab_size == own.tokenizer.vocab_size + 2
    told = np.exp(grown.predictor.next_log_probs([np.array([grown.tokenizer.special_roles["end"]])]).astype(np.float64))
    assert told.shape == (1, grown.tokenizer.vocab_size)
    assert told.sum() == pytest.approx(1, abs=1e-5)


@pytest.fixture
def learned(data: Path, tmp_path: Path) -> Callable[..., Run]:
    """Runs on the first part of WikiText-2; `held` and `tune` are text that they have not seen."""
    corpus = data / "corpora" / "wikitext2"
    lines = (corpus / "train.txt").read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / "part.txt").write_text("".join(lines[:1200]), encoding="utf-8")
    for name in ("valid", "test"):
        lines = (corpus / f"{name}.txt").read_text(encoding="utf-8").splitlines(keepends=True)
        (tmp_path / f"{name}.txt").write_text("".join(lines[:300]), encoding="utf-8")

    def learn(name: str, to: str, **settings: object) -> Run:
        made = plan_pretraining(name, [str(tmp_path / "part.txt")], settings=settings)
        return Run(pipeline.run_pretraining(made, tmp_path / to))

    return learn


@pytest.mark.slow
def test_it_beats_added_counts_and_makes_kneser_ney_better(learned: Callable[..., Run], tmp_path: Path):
    """On WikiText-2, as the paper found on the Brown corpus."""
    network = learned("nnlm", "nnlm", steps=150, threads=1, batch=512)
    added = learned("ngram", "added", order=2, smoothing="add", unit="document")
    smoothed = learned("ngram", "smoothed", order=5, unit="document")
    held = tmp_path / "test.txt"
    assert network.measure(held).perplexity < 0.8 * added.measure(held).perplexity
    found = evaluate_interpolation([network, smoothed], held, tune=tmp_path / "valid.txt")
    assert found.mixture.perplexity < 0.97 * min(one.perplexity for one in found.individual)
