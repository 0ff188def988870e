"""The contract of every model of the lineage; a new model needs no test of its own here."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forebear.data.corpus.corpus import Corpus
from forebear.errors import UserInterrupt
from forebear.experiments import training_run
from forebear.inference.run import Run
from forebear.objectives.batch import IGNORE_INDEX, BatchKey
from forebear.registry import LINEAGE, model_name, model_spec
from forebear.training.checkpoint import CheckpointStore
from forebear.training.run_folder import MetricsLog
from forebear.training.trainer import ProgressReport, TrainingCallback
from small_runs import (
    CAUSAL_MODELS,
    ENCODER_MODELS,
    LANGUAGE_MODELS,
    MASKED_MODELS,
    NEURAL_MODELS,
    TEXT_MODELS,
    WORD_VECTOR_MODELS,
    open_small_run,
    small_settings,
    train_small_run,
    weights_digest,
)

KINDS = ("words", "characters", "bytepair")


def models_by_tokenizer() -> list[Any]:
    """Every model with every kind of tokenizer; by default each model with one kind, and every kind with some model."""
    names = [name for name in TEXT_MODELS if name not in WORD_VECTOR_MODELS]
    return [
        pytest.param(name, kind, marks=() if number % len(KINDS) == turn else pytest.mark.slow)
        for number, name in enumerate(names)
        for turn, kind in enumerate(KINDS)
    ]


LONGER_TRAINING = {"steps": 400, "rate": 5e-3}  # few tokens are masked: learning takes longer


@cache
def trained_run(name: str, folder: Path) -> Run:
    return open_small_run(name, folder, **(LONGER_TRAINING if name in MASKED_MODELS else {}))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Run]:
    """A small trained run of any model, made once."""
    folder = tmp_path_factory.mktemp("contract")

    def run(name: str) -> Run:
        (folder / name).mkdir(exist_ok=True)
        return trained_run(name, folder / name)

    return run


@pytest.fixture(params=LANGUAGE_MODELS)
def run(request: pytest.FixtureRequest, runs: Callable[[str], Run]) -> Run:
    return runs(request.param)


@pytest.fixture(params=CAUSAL_MODELS)
def causal_run(request: pytest.FixtureRequest, runs: Callable[[str], Run]) -> Run:
    """A causal language model."""
    return runs(request.param)


@pytest.fixture(params=MASKED_MODELS)
def masked_run(request: pytest.FixtureRequest, runs: Callable[[str], Run]) -> Run:
    """A masked language model."""
    return runs(request.param)


def corpus_of(run: Run) -> Corpus:
    return Corpus.open(run.metadata["data"]["folder"])


def rows(run: Run) -> list[np.ndarray]:
    """A few texts of different lengths, as rows."""
    end = run.tokenizer.special_roles["end"]
    texts = ("The cat sat by the hill.", "The dog", "Number 3 is over, said the bird. The", "zebra ☃ the")
    return [np.append([end], run.tokenizer.encode(text).ids) for text in texts]


def test_lineage_is_ordered_by_year():
    assert all(earlier.year <= later.year for earlier, later in pairwise(LINEAGE.values()))


@pytest.mark.parametrize("name", TEXT_MODELS)
def test_spec_fields_survive_json(name: str):
    spec_type = model_spec(name)
    for size in ("", *spec_type.sizes):
        spec = spec_type(**spec_type.sizes.get(size, {}))
        assert spec_type(**json.loads(json.dumps(asdict(spec)))) == spec
        assert model_name(spec) == name
    assert spec_type.size in spec_type.sizes or not spec_type.sizes


def test_creating_a_spec_does_not_load_torch():
    code = "import sys; from forebear.registry import model_spec\n"
    code += f"for name in {TEXT_MODELS!r}:\n  model_spec(name)().default_recipe()\n"
    code += "  if 'torch' in sys.modules: sys.exit(name)"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (process.returncode, process.stderr) == (0, "")


def test_every_target_has_a_head(run: Run):
    objective = run.folder.spec.objective(run.tokenizer)
    batch = objective.batch(corpus_of(run).all_documents(), 100, BatchKey(0, 0))
    assert set(batch.targets) == set(run.heads)
    assert sum(batch.inputs["lengths"]) == len(batch.inputs["tokens"])
    assert all(
        len(target) in (batch.num_target_tokens, len(batch.inputs["lengths"])) for target in batch.targets.values()
    )
    assert all((target >= IGNORE_INDEX).all() for target in batch.targets.values())


@pytest.mark.parametrize("name", WORD_VECTOR_MODELS)
def test_every_target_of_word_vector_models_has_a_head(name: str, runs: Callable[[str], Run]):
    run = runs(name)
    batch = run.folder.spec.objective(run.tokenizer).batch(corpus_of(run).all_documents(), 100, BatchKey(0, 0))
    assert set(batch.targets) == set(run.heads)
    assert sum(batch.inputs["lengths"]) == len(batch.inputs["tokens"])


@pytest.mark.parametrize("name", [name for name in WORD_VECTOR_MODELS if name != "onehot"])
def test_word_vector_model_learns(name: str, tmp_path: Path):
    """Held-out loss is lower after many steps than after one."""
    first, last = (
        train_small_run(name, tmp_path, to=str(steps), steps=steps, rate=0.1).metadata["metrics"]["held_out"]["loss"]
        for steps in (1, 200)
    )
    assert last < 0.9 * first


@pytest.mark.parametrize("name", WORD_VECTOR_MODELS)
def test_saved_word_vectors_load_unchanged(name: str, runs: Callable[[str], Run]):
    vectors, reloaded = runs(name).word_table, Run.open(runs(name).folder.path).word_table
    assert vectors.words == reloaded.words
    assert len(vectors.words) > 10
    assert np.array_equal(vectors.matrix[:5], reloaded.matrix[:5])
    assert vectors.counts is not None
    assert (vectors.counts > 0).all()


def test_model_learns_more_than_unigram_frequencies(run: Run):
    """The held-out loss is well below that of unigram frequencies."""
    assert run.metadata["metrics"]["held_out"]["nats_per_token"] < 0.8 * run.metadata["unigram_nats"]


@pytest.mark.sample(8)
@pytest.mark.parametrize(("name", "kind"), models_by_tokenizer())
def test_model_learns_with_every_kind_of_tokenizer(name: str, kind: str, tmp_path: Path):
    changes = {"steps": 150, "rate": 5e-3} if name in (*MASKED_MODELS, "seq2seq_attention") else {}
    metadata = train_small_run(name, tmp_path, tokenizer=kind, **changes).metadata
    assert metadata["metrics"]["held_out"]["nats_per_token"] < metadata["unigram_nats"]


@pytest.mark.sample(8)
def test_saved_run_gives_the_same_scores(run: Run):
    reloaded = Run.open(run.folder.path)
    for scores, reloaded_scores in zip(run.scorer.score(rows(run)), reloaded.scorer.score(rows(run)), strict=True):
        assert np.array_equal(scores, reloaded_scores)


def test_saved_run_generates_the_same_text(causal_run: Run):
    reloaded = Run.open(causal_run.folder.path)
    texts, reloaded_texts = (run.generate("The", seed=3) for run in (causal_run, reloaded))
    assert [text.text for text in texts] == [text.text for text in reloaded_texts]


def test_next_token_probabilities_sum_to_1(causal_run: Run):
    sums = np.exp(np.asarray(causal_run.predictor.next_log_probs(rows(causal_run)), np.float64)).sum(axis=1)
    assert sums == pytest.approx(1, abs=1e-5)


def test_masked_token_probabilities_sum_to_1(masked_run: Run):
    masked_rows = [
        np.where(np.arange(len(row)) % 3 == 1, masked_run.masked_lm.mask_id, row)[1:] for row in rows(masked_run)
    ]
    for log_probs in masked_run.masked_lm.mask_log_probs(masked_rows):
        assert np.exp(log_probs.astype(np.float64)).sum(axis=1) == pytest.approx(1, abs=1e-5)


def test_scores_equal_next_token_log_probs(causal_run: Run):
    """The score of a token is its next-token log-probability after the tokens before it."""
    for row, scores in zip(rows(causal_run), causal_run.predictor.score(rows(causal_run)), strict=True):
        log_probs = causal_run.predictor.next_log_probs([row[:length] for length in range(1, len(row))])
        assert scores == pytest.approx(log_probs[np.arange(len(row) - 1), row[1:]], abs=1e-4)


def test_scores_equal_masked_token_log_probs(masked_run: Run):
    """The score of a token is its log-probability where it alone is masked."""
    row = rows(masked_run)[0]
    scores = masked_run.masked_lm.score([row])[0]
    for position in range(1, len(row)):
        masked = np.where(np.arange(len(row)) == position, masked_run.masked_lm.mask_id, row)[1:]
        assert scores[position - 1] == pytest.approx(
            masked_run.masked_lm.mask_log_probs([masked])[0][0, row[position]], abs=1e-4
        )


def test_scores_do_not_depend_on_later_tokens(causal_run: Run):
    row = rows(causal_run)[0]
    changed = np.append(row[:6], row[1:4])
    scores, changed_scores = (causal_run.predictor.score([tokens])[0] for tokens in (row, changed))
    assert scores[:5] == pytest.approx(changed_scores[:5], abs=1e-5)


def test_masked_token_scores_depend_on_later_tokens(masked_run: Run):
    """A later token changes the score of an earlier one."""
    row = rows(masked_run)[0]
    changed = np.append(row[:6], row[1:4])
    scores, changed_scores = (masked_run.masked_lm.score([tokens])[0] for tokens in (row, changed))
    assert np.abs(scores[:5] - changed_scores[:5]).max() > 1e-4


def test_batched_scores_equal_single_scores(run: Run):
    together = run.scorer.score(rows(run))
    for row, scores in zip(rows(run), together, strict=True):
        assert scores == pytest.approx(run.scorer.score([row])[0], abs=1e-5)


def test_batched_generation_equals_single_generation(causal_run: Run):
    prompts = ["The cat", "", "The young hare sat by", "Number 7 is over"]
    for options in ({"temperature": 0.0}, {"temperature": 1.0, "seed": 5}):
        together = [text.text for text in causal_run.generate(prompts, length=30, **options)]
        assert together == [causal_run.generate(prompt, length=30, **options)[0].text for prompt in prompts]


@pytest.mark.parametrize("name", ENCODER_MODELS)
def test_batched_embeddings_equal_single_embeddings(name: str, runs: Callable[[str], Run]):
    run, texts = runs(name), ["The cat sat.", "A bird", "The young hare sat by the red roof and ran to the hill."]
    for text, embedding in zip(texts, run.embed(texts, layers=[0, -1]), strict=True):
        assert embedding.vector == pytest.approx(run.embed(text, layers=[0, -1])[0].vector, abs=1e-5)


def test_evaluation_equals_the_held_out_metrics_of_the_run(run: Run):
    held_out = corpus_of(run).split(run.folder.recipe.held_out).held_out
    metrics = run.metadata["metrics"]["held_out"]
    assert run.measure(held_out).bits_per_byte == pytest.approx(metrics["bits_per_byte"])
    assert metrics["bytes"] == held_out.num_bytes
    assert metrics["nats_per_token"] == pytest.approx(math.log(metrics["perplexity"]))


class InterruptAtStep(TrainingCallback):
    """Interrupts like Ctrl-C once a step is reached."""

    def __init__(self, at: int) -> None:
        self.at = at

    def on_progress(self, report: ProgressReport) -> None:
        if report.step >= self.at:
            import os
            import signal

            self.at = 10**9
            os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.sample(10)
@pytest.mark.parametrize("name", TEXT_MODELS)
def test_interrupted_run_resumes_bit_for_bit(name: str, tmp_path: Path):
    is_single_pass = name in ("ngram", "onehot")  # they make one pass over the text
    changes = {"batch": 30} if is_single_pass else {"steps": 20, "evaluate_every": 7, "dropout": 0.1}
    if "dropout" not in small_settings(name) | asdict(model_spec(name)()):
        changes.pop("dropout", None)
    uninterrupted = train_small_run(name, tmp_path, to="whole", **changes)
    with pytest.raises(UserInterrupt) as raised:
        train_small_run(name, tmp_path, to="broken", callback=InterruptAtStep(13), **changes)
    assert raised.value.exit_code == 130
    assert f"--resume {tmp_path / 'broken'}" in raised.value.hint
    resumed = training_run.resume_pretraining(tmp_path / "broken")
    assert weights_digest(resumed) == weights_digest(uninterrupted)
    metric = "loss" if name in WORD_VECTOR_MODELS else "tokens"
    assert resumed.metadata["metrics"]["held_out"][metric] == uninterrupted.metadata["metrics"]["held_out"][metric]
    lines = [
        [(line["step"], line["losses"]) for line in MetricsLog(folder.path / "metrics.jsonl").read_lines()]
        for folder in (uninterrupted, resumed)
    ]
    assert lines[0] == lines[1]
    assert len(CheckpointStore(resumed.path / "checkpoints").list_all()) == 1


@pytest.mark.sample(8)
@pytest.mark.parametrize("name", TEXT_MODELS)
def test_same_seed_gives_the_same_weights_bit_for_bit(name: str, tmp_path: Path):
    changes = {"steps": 8} if name in NEURAL_MODELS else {}
    first, second = (weights_digest(train_small_run(name, tmp_path, to=to, seed=4, **changes)) for to in ("one", "two"))
    assert first == second
    if name in [*NEURAL_MODELS, *WORD_VECTOR_MODELS] and name != "onehot":
        assert weights_digest(train_small_run(name, tmp_path, to="three", seed=5, **changes)) != second


@pytest.mark.sample(5)
@pytest.mark.parametrize("name", NEURAL_MODELS)
def test_gradient_accumulation_gives_the_same_weights(name: str, tmp_path: Path):
    """Steps of 8 rows at once and of one row at a time give the same weights, except for rounding."""
    from safetensors.torch import load_file

    at_once, accumulated = (
        load_file(
            train_small_run(name, tmp_path, to=f"by-{parts}", steps=3, accumulate=parts).path / "weights.safetensors"
        )
        for parts in (1, 8)
    )
    for tensor in at_once:
        assert at_once[tensor].numpy() == pytest.approx(accumulated[tensor].numpy(), abs=1e-3)


@pytest.mark.sample(8)
@pytest.mark.parametrize("name", TEXT_MODELS)
def test_rerun_gives_the_same_weights_bit_for_bit(name: str, tmp_path: Path):
    run = train_small_run(name, tmp_path, **({"time": 0.1} if name in [*NEURAL_MODELS, *WORD_VECTOR_MODELS] else {}))
    rerun = training_run.repeat_run(run.path, tmp_path / "again")
    assert weights_digest(rerun) == weights_digest(run)
