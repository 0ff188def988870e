"""Runs mixed: weights by expectation and maximisation against a fine grid, and a mixture that is no worse than any."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from bigrams import Dreaming, uniform
from hypothesis import given
from hypothesis import strategies as st

from forebear.data.tokenizers.train import train_tokenizer
from forebear.errors import InputError
from forebear.inference.ensemble import InterpolatedLM, best_weights, evaluate_interpolation, tune_weights
from forebear.inference.measure import evaluate_text
from forebear.inference.run import Run
from forebear.statistical.ngram import language_model
from forebear.statistical.ngram.hash_table import NgramStore
from forebear.statistical.ngram.language_model import NgramModel
from forebear.training.load_model import NGRAM_STORE_FILE
from small_runs import opened, text, trained

WORDS = train_tokenizer("words", ["the cat sat on the mat", "a dog sat on a log"], min_count=1)
TEXTS = ["the cat sat", "a dog sat on the mat", "the log"]


@given(seed=st.integers(0, 999), count=st.integers(1, 40), spread=st.floats(0.01, 5))
def test_weights_are_the_best_of_a_fine_grid(seed: int, count: int, spread: float):
    scores = np.random.default_rng(seed).normal(-2, spread, (2, count))
    first, second = best_weights(scores)
    assert first + second == pytest.approx(1)
    assert first >= 0 <= second

    def reached(weight: float) -> float:
        return float(np.logaddexp(scores[0] + math.log(weight), scores[1] + math.log(1 - weight)).mean())

    grid = max(reached(weight) for weight in np.linspace(0.0005, 0.9995, 1000))
    assert np.log(np.array([first, second]) @ np.exp(scores)).mean() >= grid - 1e-5


@given(seed=st.integers(0, 999), count=st.integers(1, 40), runs=st.integers(2, 4), worse=st.integers(-6, 0))
def test_no_one_alone_is_better_on_the_text_for_tuning(seed: int, count: int, runs: int, worse: int):
    """Also where all others are worse at every token, a little or much."""
    rng = np.random.default_rng(seed)
    scores = np.tile(rng.normal(-3, 1, count), (runs, 1))
    scores[1:] -= abs(rng.normal(0, 10.0**worse, (runs - 1, count)))
    weights = best_weights(scores)
    assert weights.sum() == pytest.approx(1)
    reached = float(np.log(weights @ np.exp(scores)).mean())
    assert reached >= scores.mean(axis=1).max() - 1e-9


def test_what_one_holds_impossible_the_other_explains():
    scores = np.array([[np.log(0.5), -np.inf, np.log(0.5)], np.log([0.1, 0.4, 0.1])])
    weights = best_weights(scores)
    assert 0 < weights[0] < 1
    assert best_weights(np.full((2, 3), -np.inf)).tolist() == [0.5, 0.5]
    nothing = np.concatenate((scores, np.full((1, 3), -np.inf)))
    assert best_weights(nothing)[2] == 0


def test_a_mixture_is_a_predictor():
    """It sums to 1, scores what its tables say, and reads on as it reads anew."""
    parts, end = [Dreaming(WORDS.vocab_size), uniform(WORDS)], WORDS.special_roles["end"]
    both = InterpolatedLM(parts, [0.3, 0.7])
    rows = [np.append([end], WORDS.encode(one).ids) for one in TEXTS]
    expected = 0.3 * np.exp(parts[0].next_log_probs(rows)) + 0.7 * np.exp(parts[1].next_log_probs(rows))
    assert np.exp(both.next_log_probs(rows)) == pytest.approx(expected)
    assert np.exp(both.next_log_probs(rows)).sum(axis=1) == pytest.approx(1)
    for row, scores in zip(rows, both.score(rows), strict=True):
        tables = both.next_log_probs([row[:place] for place in range(1, len(row))])
        assert scores == pytest.approx(tables[np.arange(len(row) - 1), row[1:]])
    reader = both.start_decoding(rows, 3)
    reader.append(np.array([5, 6, 7]))
    reader.select(np.array([2, 0]))
    longer = [np.append(rows[2], 7), np.append(rows[0], 5)]
    assert np.exp(reader.next_logits()) == pytest.approx(np.exp(both.next_log_probs(longer)), abs=1e-5)


def test_tuned_text_is_no_less_probable_than_to_any():
    parts = [Dreaming(WORDS.vocab_size), uniform(WORDS), Dreaming(WORDS.vocab_size, 7)]
    weights, tokens = tune_weights(parts, WORDS, TEXTS)
    together = evaluate_text(InterpolatedLM(parts, weights), WORDS, TEXTS)
    assert together.tokens == tokens
    assert together.nats <= min(evaluate_text(one, WORDS, TEXTS).nats for one in parts) + 1e-6


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Run]:
    """An n-gram and a network of one tokenizer, and text of neither beside them."""
    folder = tmp_path_factory.mktemp("pair")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FOREBEAR_CACHE", str(folder / "cache"))
        (folder / "more.txt").write_text(text(60)[-2000:], encoding="utf-8")
        return opened("ngram", folder, to="ngram"), opened("nnlm", folder, to="nnlm")


def test_an_ngram_and_a_network_are_better_together(pair: tuple[Run, Run]):
    more = pair[0].folder.path.parent / "more.txt"
    found = evaluate_interpolation(pair, more, tune=more)
    assert sum(found.weights) == pytest.approx(1)
    assert found.num_tuning_tokens == found.mixture.tokens
    for run, alone in zip(pair, found.individual, strict=True):
        told = run.measure(more)
        assert alone.nats == pytest.approx(told.nats, rel=1e-5)
        assert alone.bits_per_byte == pytest.approx(told.bits_per_byte, rel=1e-5)
        assert (alone.tokens, alone.learned_from) == (told.tokens, told.learned_from)
        assert found.mixture.perplexity <= alone.perplexity + 1e-6
    even = evaluate_interpolation(pair, more)
    assert even.weights == (0.5, 0.5)
    assert even.mixture.nats >= found.mixture.nats - 1e-6
    assert evaluate_interpolation(pair, more, limit=200).mixture.bytes < found.mixture.bytes


def test_what_cannot_be_mixed_is_refused(pair: tuple[Run, Run], tmp_path: Path):
    more = pair[0].folder.path.parent / "more.txt"
    with pytest.raises(InputError, match="at least two"):
        evaluate_interpolation(pair[:1], more)
    other = opened("ngram", tmp_path, tokenizer="characters")
    with pytest.raises(InputError, match="another tokenizer") as raised:
        evaluate_interpolation([pair[0], other], more)
    assert "tokenizer.json" in raised.value.hint
    sentences = opened("ngram", pair[0].folder.path.parent, to="sentences", unit="sentence")
    with pytest.raises(InputError, match="takes a sentence"):
        evaluate_interpolation([pair[0], sentences], more)


def test_ngrams_of_several_orders_are_mixed_from_their_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Large ones: each answers from the table in its folder, and its counts are never read."""
    monkeypatch.setattr(language_model, "MIN_COMPILED_NGRAMS", -1)
    for order in (2, 3, 5):
        trained("ngram", tmp_path, to=f"order{order}", order=order)
    (tmp_path / "more.txt").write_text(text(60)[-2000:], encoding="utf-8")
    (tmp_path / "other.txt").write_text(text(50)[-3000:], encoding="utf-8")
    folders = [tmp_path / f"order{order}" for order in (2, 3, 5)]
    assert all((folder / NGRAM_STORE_FILE).exists() for folder in folders)
    runs = [Run.open(folder) for folder in folders]
    found = evaluate_interpolation(runs, tmp_path / "more.txt", tune=tmp_path / "more.txt")
    assert sum(found.weights) == pytest.approx(1)
    assert found.mixture.nats <= min(one.nats for one in found.individual) + 1e-6
    assert found.mixture.known_nats <= found.mixture.nats
    for run, alone in zip(runs, found.individual, strict=True):
        assert isinstance(run.predictor, NgramModel)
        assert isinstance(run.predictor.probabilities(), NgramStore)
        assert run.predictor._load_arrays is not None
        told = run.measure(tmp_path / "more.txt")
        assert (alone.nats, alone.known_nats) == pytest.approx((told.nats, told.known_nats))
        assert alone.perplexity_known == pytest.approx(told.perplexity_known)
    tuned = evaluate_interpolation(runs, tmp_path / "more.txt", tune=tmp_path / "other.txt")
    assert tuned.mixture.nats >= found.mixture.nats - 1e-6
