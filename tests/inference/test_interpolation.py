"""Interpolated models: EM weights equal the best of a fine grid, and the mixture is no worse than any model."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from toy_language_models import HashedLM, uniform_model

from forebear.data.tokenizers.train import train_tokenizer
from forebear.errors import InputError
from forebear.inference.interpolation import InterpolatedLM, best_weights, evaluate_interpolation, tune_weights
from forebear.inference.measure import evaluate_text
from forebear.inference.run import Run
from forebear.statistical.ngram import language_model
from forebear.statistical.ngram.hash_table import NgramStore
from forebear.statistical.ngram.language_model import NgramModel
from forebear.training.ngram_store import NGRAM_STORE_FILE
from small_runs import open_small_run, small_text, train_small_run

WORDS = train_tokenizer("words", ["the cat sat on the mat", "a dog sat on a log"], min_count=1)
TEXTS = ["the cat sat", "a dog sat on the mat", "the log"]


@given(seed=st.integers(0, 999), count=st.integers(1, 40), spread=st.floats(0.01, 5))
def test_em_weights_are_the_best_of_a_fine_grid(seed: int, count: int, spread: float):
    scores = np.random.default_rng(seed).normal(-2, spread, (2, count))
    first, second = best_weights(scores)
    assert first + second == pytest.approx(1)
    assert first >= 0 <= second

    def mean_log_prob(weight: float) -> float:
        return float(np.logaddexp(scores[0] + math.log(weight), scores[1] + math.log(1 - weight)).mean())

    grid = max(mean_log_prob(weight) for weight in np.linspace(0.0005, 0.9995, 1000))
    assert np.log(np.array([first, second]) @ np.exp(scores)).mean() >= grid - 1e-5


@given(seed=st.integers(0, 999), count=st.integers(1, 40), runs=st.integers(2, 4), worse=st.integers(-6, 0))
def test_mixture_is_no_worse_than_any_model_on_the_tuning_text(seed: int, count: int, runs: int, worse: int):
    """Also where all other models are worse at every token, by little or much."""
    rng = np.random.default_rng(seed)
    scores = np.tile(rng.normal(-3, 1, count), (runs, 1))
    scores[1:] -= abs(rng.normal(0, 10.0**worse, (runs - 1, count)))
    weights = best_weights(scores)
    assert weights.sum() == pytest.approx(1)
    mean_log_prob = float(np.log(weights @ np.exp(scores)).mean())
    assert mean_log_prob >= scores.mean(axis=1).max() - 1e-9


def test_weights_where_models_give_probability_0():
    scores = np.array([[np.log(0.5), -np.inf, np.log(0.5)], np.log([0.1, 0.4, 0.1])])
    weights = best_weights(scores)
    assert 0 < weights[0] < 1
    assert best_weights(np.full((2, 3), -np.inf)).tolist() == [0.5, 0.5]
    with_impossible_model = np.concatenate((scores, np.full((1, 3), -np.inf)))
    assert best_weights(with_impossible_model)[2] == 0


def test_mixture_is_a_consistent_language_model():
    """It sums to 1, scores by its next-token distributions, and decodes step by step as from the start."""
    models, end = [HashedLM(WORDS.vocab_size), uniform_model(WORDS)], WORDS.special_roles["end"]
    mixture = InterpolatedLM(models, [0.3, 0.7])
    rows = [np.append([end], WORDS.encode(text).ids) for text in TEXTS]
    expected = 0.3 * np.exp(models[0].next_log_probs(rows)) + 0.7 * np.exp(models[1].next_log_probs(rows))
    assert np.exp(mixture.next_log_probs(rows)) == pytest.approx(expected)
    assert np.exp(mixture.next_log_probs(rows)).sum(axis=1) == pytest.approx(1)
    for row, scores in zip(rows, mixture.score(rows), strict=True):
        tables = mixture.next_log_probs([row[:length] for length in range(1, len(row))])
        assert scores == pytest.approx(tables[np.arange(len(row) - 1), row[1:]])
    decoder = mixture.start_decoding(rows, 3)
    decoder.append(np.array([5, 6, 7]))
    decoder.select(np.array([2, 0]))
    longer = [np.append(rows[2], 7), np.append(rows[0], 5)]
    assert np.exp(decoder.next_logits()) == pytest.approx(np.exp(mixture.next_log_probs(longer)), abs=1e-5)


def test_tuned_mixture_is_no_worse_than_any_of_three_models():
    models = [HashedLM(WORDS.vocab_size), uniform_model(WORDS), HashedLM(WORDS.vocab_size, 7)]
    weights, tokens = tune_weights(models, WORDS, TEXTS)
    evaluation = evaluate_text(InterpolatedLM(models, weights), WORDS, TEXTS)
    assert evaluation.tokens == tokens
    assert evaluation.nats <= min(evaluate_text(model, WORDS, TEXTS).nats for model in models) + 1e-6


@pytest.fixture(scope="module")
def ngram_and_nnlm(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Run]:
    """An n-gram model and an NNLM with one tokenizer, and a text that neither was trained on."""
    folder = tmp_path_factory.mktemp("pair")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FOREBEAR_CACHE", str(folder / "cache"))
        (folder / "more.txt").write_text(small_text(60)[-2000:], encoding="utf-8")
        return open_small_run("ngram", folder, to="ngram"), open_small_run("nnlm", folder, to="nnlm")


def test_mixture_of_ngram_and_nnlm_is_better_than_both(ngram_and_nnlm: tuple[Run, Run]):
    other_text = ngram_and_nnlm[0].folder.path.parent / "more.txt"
    result = evaluate_interpolation(ngram_and_nnlm, other_text, tune=other_text)
    assert sum(result.weights) == pytest.approx(1)
    assert result.num_tuning_tokens == result.mixture.tokens
    for run, alone in zip(ngram_and_nnlm, result.individual, strict=True):
        evaluation = run.measure(other_text)
        assert alone.nats == pytest.approx(evaluation.nats, rel=1e-5)
        assert alone.bits_per_byte == pytest.approx(evaluation.bits_per_byte, rel=1e-5)
        assert (alone.tokens, alone.learned_from) == (evaluation.tokens, evaluation.learned_from)
        assert result.mixture.perplexity <= alone.perplexity + 1e-6
    equal_weights = evaluate_interpolation(ngram_and_nnlm, other_text)
    assert equal_weights.weights == (0.5, 0.5)
    assert equal_weights.mixture.nats >= result.mixture.nats - 1e-6
    assert evaluate_interpolation(ngram_and_nnlm, other_text, limit=200).mixture.bytes < result.mixture.bytes


def test_incompatible_models_are_not_mixed(ngram_and_nnlm: tuple[Run, Run], tmp_path: Path):
    other_text = ngram_and_nnlm[0].folder.path.parent / "more.txt"
    with pytest.raises(InputError, match="at least two"):
        evaluate_interpolation(ngram_and_nnlm[:1], other_text)
    other = open_small_run("ngram", tmp_path, tokenizer="characters")
    with pytest.raises(InputError, match="another tokenizer") as raised:
        evaluate_interpolation([ngram_and_nnlm[0], other], other_text)
    assert "tokenizer.json" in raised.value.hint
    sentences = open_small_run("ngram", ngram_and_nnlm[0].folder.path.parent, to="sentences", unit="sentence")
    with pytest.raises(InputError, match="takes a sentence"):
        evaluate_interpolation([ngram_and_nnlm[0], sentences], other_text)


def test_ngrams_of_several_orders_are_mixed_from_stored_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Large models answer from the table in their folder, and their counts are never read."""
    monkeypatch.setattr(language_model, "MIN_COMPILED_NGRAMS", -1)
    for order in (2, 3, 5):
        train_small_run("ngram", tmp_path, to=f"order{order}", order=order)
    (tmp_path / "more.txt").write_text(small_text(60)[-2000:], encoding="utf-8")
    (tmp_path / "other.txt").write_text(small_text(50)[-3000:], encoding="utf-8")
    folders = [tmp_path / f"order{order}" for order in (2, 3, 5)]
    assert all((folder / NGRAM_STORE_FILE).exists() for folder in folders)
    runs = [Run.open(folder) for folder in folders]
    result = evaluate_interpolation(runs, tmp_path / "more.txt", tune=tmp_path / "more.txt")
    assert sum(result.weights) == pytest.approx(1)
    assert result.mixture.nats <= min(evaluation.nats for evaluation in result.individual) + 1e-6
    assert result.mixture.known_nats <= result.mixture.nats
    for run, alone in zip(runs, result.individual, strict=True):
        assert isinstance(run.predictor, NgramModel)
        assert isinstance(run.predictor.probabilities(), NgramStore)
        assert run.predictor._load_arrays is not None
        run_evaluation = run.measure(tmp_path / "more.txt")
        assert (alone.nats, alone.known_nats) == pytest.approx((run_evaluation.nats, run_evaluation.known_nats))
        assert alone.perplexity_known == pytest.approx(run_evaluation.perplexity_known)
    tuned = evaluate_interpolation(runs, tmp_path / "more.txt", tune=tmp_path / "other.txt")
    assert tuned.mixture.nats >= result.mixture.nats - 1e-6
