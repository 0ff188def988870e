"""Files of n-grams that somebody else pruned: `a b c` may be listed without `b c`, and every way of asking knows it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from tiny_models import END, PADDING, VOCABULARY, made, many

from forebear.interop import arpa
from forebear.statistical.ngram.backoff import BackoffTable
from forebear.statistical.ngram.explain_probability import ngram_evidence
from forebear.statistical.ngram.hash_table import NgramStore
from forebear.statistical.ngram.language_model import NgramModel


def tabled(model: NgramModel) -> NgramModel:
    """The same model as if it were large."""
    settled = model.probabilities()
    assert isinstance(settled, BackoffTable)
    table = NgramModel(order=model.order, vocabulary=model.vocab_size, end=model.end, smoothing="given")
    table.use_store(NgramStore.build(settled.ngrams, settled.levels), settled.arrays)
    return table


def by_definition(listed: dict[tuple[int, ...], tuple[float, float]], ngram: tuple[int, ...]) -> float:
    """log P of the last token: what is listed, or the context's back-off and log P after the shorter context."""
    if ngram in listed or len(ngram) == 1:
        return listed[ngram][0]
    return listed.get(ngram[:-1], (0.0, 0.0))[1] + by_definition(listed, ngram[1:])


@pytest.mark.parametrize("seed", range(4))
def test_what_lacks_its_suffix_is_found(seed: int):
    rng, model = np.random.default_rng(seed), made(many(seed, 60), 4)
    ngrams, logs, backoffs = model.to_arpa()
    backoffs = [*backoffs, np.zeros(len(ngrams[-1]), np.float32)]
    for n in (4, 3, 2):  # half are left out, but for those that another begins with
        begun = {tuple(row[:n]) for longer in ngrams[n:] for row in longer.tolist()}
        keep = np.array([tuple(row) in begun or rng.random() < 0.5 for row in ngrams[n - 1].tolist()])
        ngrams[n - 1], logs[n - 1], backoffs[n - 1] = ngrams[n - 1][keep], logs[n - 1][keep], backoffs[n - 1][keep]
    entries = zip(ngrams, logs, backoffs, strict=True)
    listed = {
        tuple(row): (float(log), float(weight))
        for rows, mine, weights in entries
        for row, log, weight in zip(rows.tolist(), mine, weights, strict=True)
    }
    lacking = [ngram for ngram in listed if len(ngram) > 2 and ngram[1:] not in listed and END not in ngram[1:]]
    assert len(lacking) > 5
    given = NgramModel(order=4, vocabulary=VOCABULARY, end=END, never=[PADDING], smoothing="given")
    given.load_probabilities(ngrams, logs, backoffs[:-1])
    words = [token for token in range(VOCABULARY) if token not in (PADDING, END)]
    rows = [np.array([END, *rng.choice(words, rng.integers(1, 9))]) for _ in range(100)]
    rows += [np.array([END, *rng.choice(words, 3), *ngram] if ngram[0] != END else ngram) for ngram in lacking]
    for asked in (given, tabled(given)):
        for row, scores in zip(rows, asked.score(rows), strict=True):
            expected = [
                by_definition(listed, tuple(row[max(0, at - 3) : at + 1].tolist())) for at in range(1, len(row))
            ]
            np.testing.assert_allclose(scores, expected, atol=1e-5)
            last = asked.next_log_probs([row[:-1]])[0, row[-1]]
            assert last == pytest.approx(expected[-1], abs=1e-5)
            (found,) = ngram_evidence(asked, row[:-1], [int(row[-1])])
            assert found.probability == pytest.approx(np.exp(expected[-1]), abs=1e-6)


def files(data: Path) -> Sequence[Path]:
    return sorted((data / "weights" / "kenlm_arpa_fixtures").glob("*.arpa"))


def test_files_of_kenlm_itself(data: Path):
    """Scores and lengths of n-grams, of texts that touch what is listed."""
    kenlm = pytest.importorskip("kenlm", reason="kenlm is not installed")
    rng, lacking = np.random.default_rng(0), 0
    for path in files(data):
        told = arpa.read_arpa(path)
        model = NgramModel(order=len(told.ngrams), vocabulary=len(told.words), end=told.eos_id, smoothing="given")
        model.load_probabilities(told.ngrams, told.log_probs, told.backoffs)
        theirs, rows = kenlm.Model(str(path)), []
        for _ in range(300):
            ngrams = [told.ngrams[n][rng.integers(len(told.ngrams[n]))] for n in rng.integers(0, model.order, 3)]
            row = [token for ngram in ngrams for token in ngram.tolist() if token != told.eos_id]
            rows.append(np.array([told.eos_id, *row, told.eos_id]))
        for row, scores, lengths in zip(rows, *model.score_with_lengths(rows), strict=True):
            expected = list(theirs.full_scores(" ".join(told.words[token] for token in row[1:-1])))
            assert np.abs(scores / np.log(10) - [score for score, _, _ in expected]).max() < 1e-4
            assert lengths.tolist() == [length for _, length, _ in expected]
            followed = [model.next_log_probs([row[:at]])[0, row[at]] for at in range(1, len(row))]
            np.testing.assert_allclose(followed, scores, atol=1e-5)
        lacking += len(model.ngrams.words[-1]) > 0 and sum(model.probabilities().sizes) > sum(map(len, told.ngrams))
    assert lacking  # at least one of the files was pruned so
