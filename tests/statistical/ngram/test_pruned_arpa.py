"""ARPA files pruned by other programs: n-grams listed without their suffix are scored by definition."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from small_ngram_models import END, PADDING, VOCABULARY, counted_model, skewed_texts

from forebear.interop import arpa
from forebear.statistical.ngram.backoff import BackoffTable
from forebear.statistical.ngram.explain_probability import ngram_evidence
from forebear.statistical.ngram.hash_table import NgramStore
from forebear.statistical.ngram.language_model import NgramModel


def with_hash_table(model: NgramModel) -> NgramModel:
    """The same model with the hash table of large models."""
    backoff_table = model.probabilities()
    assert isinstance(backoff_table, BackoffTable)
    table = NgramModel(order=model.order, vocab_size=model.vocab_size, eos_id=model.eos_id, smoothing="given")
    table.use_store(NgramStore.build(backoff_table.ngrams, backoff_table.levels), backoff_table.arrays)
    return table


def log_prob_by_definition(listed: dict[tuple[int, ...], tuple[float, float]], ngram: tuple[int, ...]) -> float:
    """log P of the last token: listed, or the back-off of the context plus log P after the shorter context."""
    if ngram in listed or len(ngram) == 1:
        return listed[ngram][0]
    return listed.get(ngram[:-1], (0.0, 0.0))[1] + log_prob_by_definition(listed, ngram[1:])


@pytest.mark.parametrize("seed", range(4))
def test_ngrams_without_their_suffix_are_scored_by_definition(seed: int):
    rng, model = np.random.default_rng(seed), counted_model(skewed_texts(seed, 60), 4)
    ngrams, logs, backoffs = model.to_arpa()
    backoffs = [*backoffs, np.zeros(len(ngrams[-1]), np.float32)]
    for n in (4, 3, 2):  # half are dropped, except prefixes of others
        prefixes = {tuple(row[:n]) for longer in ngrams[n:] for row in longer.tolist()}
        keep = np.array([tuple(row) in prefixes or rng.random() < 0.5 for row in ngrams[n - 1].tolist()])
        ngrams[n - 1], logs[n - 1], backoffs[n - 1] = ngrams[n - 1][keep], logs[n - 1][keep], backoffs[n - 1][keep]
    entries = zip(ngrams, logs, backoffs, strict=True)
    listed = {
        tuple(row): (float(log), float(weight))
        for rows, row_logs, weights in entries
        for row, log, weight in zip(rows.tolist(), row_logs, weights, strict=True)
    }
    without_suffix = [ngram for ngram in listed if len(ngram) > 2 and ngram[1:] not in listed and END not in ngram[1:]]
    assert len(without_suffix) > 5
    loaded = NgramModel(order=4, vocab_size=VOCABULARY, eos_id=END, excluded_ids=[PADDING], smoothing="given")
    loaded.load_probabilities(ngrams, logs, backoffs[:-1])
    words = [token for token in range(VOCABULARY) if token not in (PADDING, END)]
    rows = [np.array([END, *rng.choice(words, rng.integers(1, 9))]) for _ in range(100)]
    rows += [np.array([END, *rng.choice(words, 3), *ngram] if ngram[0] != END else ngram) for ngram in without_suffix]
    for queried in (loaded, with_hash_table(loaded)):
        for row, scores in zip(rows, queried.score(rows), strict=True):
            expected = [
                log_prob_by_definition(listed, tuple(row[max(0, position - 3) : position + 1].tolist()))
                for position in range(1, len(row))
            ]
            np.testing.assert_allclose(scores, expected, atol=1e-5)
            last = queried.next_log_probs([row[:-1]])[0, row[-1]]
            assert last == pytest.approx(expected[-1], abs=1e-5)
            (evidence,) = ngram_evidence(queried, row[:-1], [int(row[-1])])
            assert evidence.probability == pytest.approx(np.exp(expected[-1]), abs=1e-6)


def arpa_files(data: Path) -> Sequence[Path]:
    return sorted((data / "weights" / "kenlm_arpa_fixtures").glob("*.arpa"))


def test_kenlms_own_arpa_files_score_as_in_kenlm(data: Path):
    """Scores and n-gram lengths of texts made of listed n-grams."""
    kenlm = pytest.importorskip("kenlm", reason="kenlm is not installed")
    rng, num_without_suffix = np.random.default_rng(0), 0
    for path in arpa_files(data):
        arpa_model = arpa.read_arpa(path)
        model = NgramModel(
            order=len(arpa_model.ngrams), vocab_size=len(arpa_model.words), eos_id=arpa_model.eos_id, smoothing="given"
        )
        model.load_probabilities(arpa_model.ngrams, arpa_model.log_probs, arpa_model.backoffs)
        kenlm_model, rows = kenlm.Model(str(path)), []
        for _ in range(300):
            ngrams = [
                arpa_model.ngrams[n][rng.integers(len(arpa_model.ngrams[n]))] for n in rng.integers(0, model.order, 3)
            ]
            row = [token for ngram in ngrams for token in ngram.tolist() if token != arpa_model.eos_id]
            rows.append(np.array([arpa_model.eos_id, *row, arpa_model.eos_id]))
        for row, scores, lengths in zip(rows, *model.score_with_lengths(rows), strict=True):
            expected = list(kenlm_model.full_scores(" ".join(arpa_model.words[token] for token in row[1:-1])))
            assert np.abs(scores / np.log(10) - [score for score, _, _ in expected]).max() < 1e-4
            assert lengths.tolist() == [length for _, length, _ in expected]
            next_scores = [model.next_log_probs([row[:position]])[0, row[position]] for position in range(1, len(row))]
            np.testing.assert_allclose(next_scores, scores, atol=1e-5)
        num_without_suffix += len(model.ngrams.last_tokens[-1]) > 0 and sum(model.probabilities().sizes) > sum(
            map(len, arpa_model.ngrams)
        )
    assert num_without_suffix  # at least one of the files was pruned this way
