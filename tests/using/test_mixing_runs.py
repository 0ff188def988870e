"""Runs mixed: weights by expectation and maximisation against a fine grid, and a mixture that is no worse than any."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from bigrams import Dreaming, uniform
from hypothesis import given
from hypothesis import strategies as st

from forebear.errors import BadInput
from forebear.statistics import ngram
from forebear.statistics.ngram import NgramModel
from forebear.statistics.table import Table
from forebear.text.training import train
from forebear.training.counted import TABLE
from forebear.using.measuring import measure
from forebear.using.mixing import MixedPredictor, best_weights, mixed, weighed
from forebear.using.run import Run
from small_runs import opened, text, trained

WORDS = train("words", ["the cat sat on the mat", "a dog sat on a log"], min_count=1)
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
    parts, end = [Dreaming(WORDS.size), uniform(WORDS)], WORDS.roles["end"]
    both = MixedPredictor(parts, [0.3, 0.7])
    rows = [np.append([end], WORDS.encode(one).ids) for one in TEXTS]
    expected = 0.3 * np.exp(parts[0].follow(rows)) + 0.7 * np.exp(parts[1].follow(rows))
    assert np.exp(both.follow(rows)) == pytest.approx(expected)
    assert np.exp(both.follow(rows)).sum(axis=1) == pytest.approx(1)
    for row, scores in zip(rows, both.score(rows), strict=True):
        tables = both.follow([row[:place] for place in range(1, len(row))])
        assert scores == pytest.approx(tables[np.arange(len(row) - 1), row[1:]])
    reader = both.read(rows, 3)
    reader.take(np.array([5, 6, 7]))
    reader.keep(np.array([2, 0]))
    longer = [np.append(rows[2], 7), np.append(rows[0], 5)]
    assert np.exp(reader.next()) == pytest.approx(np.exp(both.follow(longer)), abs=1e-5)


def test_tuned_text_is_no_less_probable_than_to_any():
    parts = [Dreaming(WORDS.size), uniform(WORDS), Dreaming(WORDS.size, 7)]
    weights, tokens = weighed(parts, WORDS, TEXTS)
    together = measure(MixedPredictor(parts, weights), WORDS, TEXTS)
    assert together.tokens == tokens
    assert together.nats <= min(measure(one, WORDS, TEXTS).nats for one in parts) + 1e-6


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
    found = mixed(pair, more, tune=more)
    assert sum(found.weights) == pytest.approx(1)
    assert found.tuned == found.together.tokens
    for run, alone in zip(pair, found.alone, strict=True):
        told = run.measure(more)
        assert alone.nats == pytest.approx(told.nats, rel=1e-5)
        assert alone.bits_per_byte == pytest.approx(told.bits_per_byte, rel=1e-5)
        assert (alone.tokens, alone.learned_from) == (told.tokens, told.learned_from)
        assert found.together.perplexity <= alone.perplexity + 1e-6
    even = mixed(pair, more)
    assert even.weights == (0.5, 0.5)
    assert even.together.nats >= found.together.nats - 1e-6
    assert mixed(pair, more, limit=200).together.bytes < found.together.bytes


def test_what_cannot_be_mixed_is_refused(pair: tuple[Run, Run], tmp_path: Path):
    more = pair[0].folder.path.parent / "more.txt"
    with pytest.raises(BadInput, match="at least two"):
        mixed(pair[:1], more)
    other = opened("ngram", tmp_path, tokenizer="characters")
    with pytest.raises(BadInput, match="another tokenizer") as raised:
        mixed([pair[0], other], more)
    assert "tokenizer.json" in raised.value.remedy
    sentences = opened("ngram", pair[0].folder.path.parent, to="sentences", unit="sentence")
    with pytest.raises(BadInput, match="takes a sentence"):
        mixed([pair[0], sentences], more)


def test_ngrams_of_several_orders_are_mixed_from_their_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Large ones: each answers from the table in its folder, and its counts are never read."""
    monkeypatch.setattr(ngram, "MUCH", -1)
    for order in (2, 3, 5):
        trained("ngram", tmp_path, to=f"order{order}", order=order)
    (tmp_path / "more.txt").write_text(text(60)[-2000:], encoding="utf-8")
    (tmp_path / "other.txt").write_text(text(50)[-3000:], encoding="utf-8")
    folders = [tmp_path / f"order{order}" for order in (2, 3, 5)]
    assert all((folder / TABLE).exists() for folder in folders)
    runs = [Run.open(folder) for folder in folders]
    found = mixed(runs, tmp_path / "more.txt", tune=tmp_path / "more.txt")
    assert sum(found.weights) == pytest.approx(1)
    assert found.together.nats <= min(one.nats for one in found.alone) + 1e-6
    assert found.together.known_nats <= found.together.nats
    for run, alone in zip(runs, found.alone, strict=True):
        assert isinstance(run.predictor, NgramModel)
        assert isinstance(run.predictor.settle(), Table)
        assert run.predictor._later is not None
        told = run.measure(tmp_path / "more.txt")
        assert (alone.nats, alone.known_nats) == pytest.approx((told.nats, told.known_nats))
        assert alone.perplexity_known == pytest.approx(told.perplexity_known)
    tuned = mixed(runs, tmp_path / "more.txt", tune=tmp_path / "other.txt")
    assert tuned.together.nats >= found.together.nats - 1e-6
