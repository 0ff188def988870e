"""What every milestone must do, asked of every line of the lineage; a new milestone adds no test of these."""

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
from forebear.experiments import pipeline
from forebear.inference.run import Run
from forebear.objectives.batch import IGNORE_INDEX, BatchKey
from forebear.registry import LINEAGE, model_name, model_spec
from forebear.training.checkpoint import CheckpointStore
from forebear.training.run_folder import MetricsLog
from forebear.training.trainer import ProgressReport, TrainingCallback
from small_runs import ENCODING, HIDING, NAMES, NEURAL, PREDICTING, READING, TABLES, opened, settings, trained, weights

KINDS = ("words", "characters", "bytepair")


def of_every_kind() -> list[Any]:
    """Every milestone with every kind of token; each with one kind and all kinds among them, unless all is asked."""
    names = [name for name in NAMES if name not in TABLES]
    return [
        pytest.param(name, kind, marks=() if number % len(KINDS) == turn else pytest.mark.slow)
        for number, name in enumerate(names)
        for turn, kind in enumerate(KINDS)
    ]


LEARNT = {"steps": 400, "rate": 5e-3}  # hidden tokens are asked seldom: to find them takes longer


@cache
def run_of(name: str, folder: Path) -> Run:
    return opened(name, folder, **(LEARNT if name in HIDING else {}))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Run]:
    """A small trained run of any milestone, made once."""
    folder = tmp_path_factory.mktemp("contract")

    def run(name: str) -> Run:
        (folder / name).mkdir(exist_ok=True)
        return run_of(name, folder / name)

    return run


@pytest.fixture(params=READING)
def run(request: pytest.FixtureRequest, runs: Callable[[str], Run]) -> Run:
    return runs(request.param)


@pytest.fixture(params=PREDICTING)
def predicting(request: pytest.FixtureRequest, runs: Callable[[str], Run]) -> Run:
    """One that predicts the next token."""
    return runs(request.param)


@pytest.fixture(params=HIDING)
def hiding(request: pytest.FixtureRequest, runs: Callable[[str], Run]) -> Run:
    """One that finds hidden tokens."""
    return runs(request.param)


def corpus_of(run: Run) -> Corpus:
    return Corpus.open(run.metadata["data"]["folder"])


def rows(run: Run) -> list[np.ndarray]:
    """A few texts of different lengths, as rows."""
    end = run.tokenizer.special_roles["end"]
    texts = ("The cat sat by the hill.", "The dog", "Number 3 is over, said the bird. The", "zebra ☃ the")
    return [np.append([end], run.tokenizer.encode(text).ids) for text in texts]


def test_the_table_is_in_the_order_of_history():
    assert all(one.year <= other.year for one, other in pairwise(LINEAGE.values()))


@pytest.mark.parametrize("name", NAMES)
def test_fields_survive_json(name: str):
    kind = model_spec(name)
    for size in ("", *kind.sizes):
        made = kind(**kind.sizes.get(size, {}))
        assert kind(**json.loads(json.dumps(asdict(made)))) == made
        assert model_name(made) == name
    assert kind.size in kind.sizes or not kind.sizes


def test_naming_a_milestone_never_loads_torch():
    code = "import sys; from forebear.registry import model_spec\n"
    code += f"for name in {NAMES!r}:\n  model_spec(name)().default_recipe()\n"
    code += "  if 'torch' in sys.modules: sys.exit(name)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_every_target_has_a_head(run: Run):
    objective = run.folder.spec.objective(run.tokenizer)
    batch = objective.batch(corpus_of(run).all_documents(), 100, BatchKey(0, 0))
    assert set(batch.targets) == set(run.heads)
    assert sum(batch.inputs["lengths"]) == len(batch.inputs["tokens"])
    assert all(
        len(target) in (batch.num_target_tokens, len(batch.inputs["lengths"])) for target in batch.targets.values()
    )
    assert all((target >= IGNORE_INDEX).all() for target in batch.targets.values())


@pytest.mark.parametrize("name", TABLES)
def test_every_target_of_a_table_has_a_head(name: str, runs: Callable[[str], Run]):
    run = runs(name)
    batch = run.folder.spec.objective(run.tokenizer).batch(corpus_of(run).all_documents(), 100, BatchKey(0, 0))
    assert set(batch.targets) == set(run.heads)
    assert sum(batch.inputs["lengths"]) == len(batch.inputs["tokens"])


@pytest.mark.parametrize("name", [name for name in TABLES if name != "onehot"])
def test_a_table_learns(name: str, tmp_path: Path):
    """Held-out text costs less after many steps than after one."""
    first, last = (
        trained(name, tmp_path, to=str(steps), steps=steps, rate=0.1).metadata["metrics"]["held_out"]["loss"]
        for steps in (1, 200)
    )
    assert last < 0.9 * first


@pytest.mark.parametrize("name", TABLES)
def test_a_saved_table_is_the_same(name: str, runs: Callable[[str], Run]):
    one, other = runs(name).word_table, Run.open(runs(name).folder.path).word_table
    assert one.words == other.words
    assert len(one.words) > 10
    assert np.array_equal(one.matrix[:5], other.matrix[:5])
    assert one.counts is not None
    assert (one.counts > 0).all()


def test_it_learns(run: Run):
    """Held-out text is cheaper than by token frequencies alone."""
    assert run.metadata["metrics"]["held_out"]["nats_per_token"] < 0.8 * run.metadata["unigram_nats"]


@pytest.mark.sample(8)
@pytest.mark.parametrize(("name", "kind"), of_every_kind())
def test_it_learns_from_every_kind_of_token(name: str, kind: str, tmp_path: Path):
    more = {"steps": 150, "rate": 5e-3} if name in (*HIDING, "seq2seq_attention") else {}
    facts = trained(name, tmp_path, tokenizer=kind, **more).metadata
    assert facts["metrics"]["held_out"]["nats_per_token"] < facts["unigram_nats"]


@pytest.mark.sample(8)
def test_a_saved_run_answers_alike(run: Run):
    again = Run.open(run.folder.path)
    for one, other in zip(run.scorer.score(rows(run)), again.scorer.score(rows(run)), strict=True):
        assert np.array_equal(one, other)


def test_a_saved_run_writes_alike(predicting: Run):
    again = Run.open(predicting.folder.path)
    one, other = (run.generate("The", seed=3) for run in (predicting, again))
    assert [text.text for text in one] == [text.text for text in other]


def test_probability_is_probability(predicting: Run):
    shares = np.exp(np.asarray(predicting.predictor.next_log_probs(rows(predicting)), np.float64)).sum(axis=1)
    assert shares == pytest.approx(1, abs=1e-5)


def test_probability_of_what_is_hidden_is_probability(hiding: Run):
    hidden = [np.where(np.arange(len(row)) % 3 == 1, hiding.masked_lm.mask, row)[1:] for row in rows(hiding)]
    for told in hiding.masked_lm.mask_log_probs(hidden):
        assert np.exp(told.astype(np.float64)).sum(axis=1) == pytest.approx(1, abs=1e-5)


def test_scores_are_the_next_tables(predicting: Run):
    """What `score` says of a token is what `follow` says of it after the tokens before."""
    for row, scores in zip(rows(predicting), predicting.predictor.score(rows(predicting)), strict=True):
        tables = predicting.predictor.next_log_probs([row[:place] for place in range(1, len(row))])
        assert scores == pytest.approx(tables[np.arange(len(row) - 1), row[1:]], abs=1e-4)


def test_scores_are_what_fills_a_blank(hiding: Run):
    """What `score` says of a token is what `fill` says of it where it alone is hidden."""
    row = rows(hiding)[0]
    scores = hiding.masked_lm.score([row])[0]
    for place in range(1, len(row)):
        alone = np.where(np.arange(len(row)) == place, hiding.masked_lm.mask, row)[1:]
        assert scores[place - 1] == pytest.approx(hiding.masked_lm.mask_log_probs([alone])[0][0, row[place]], abs=1e-4)


def test_no_head_peeks_ahead(predicting: Run):
    row = rows(predicting)[0]
    changed = np.append(row[:6], row[1:4])
    one, other = (predicting.predictor.score([one])[0] for one in (row, changed))
    assert one[:5] == pytest.approx(other[:5], abs=1e-5)


def test_what_is_hidden_is_seen_from_both_sides(hiding: Run):
    """A later token changes what is said of an earlier one."""
    row = rows(hiding)[0]
    changed = np.append(row[:6], row[1:4])
    one, other = (hiding.masked_lm.score([one])[0] for one in (row, changed))
    assert np.abs(one[:5] - other[:5]).max() > 1e-4


def test_a_batch_changes_nothing(run: Run):
    together = run.scorer.score(rows(run))
    for row, scores in zip(rows(run), together, strict=True):
        assert scores == pytest.approx(run.scorer.score([row])[0], abs=1e-5)


def test_prompts_together_give_what_each_gives_alone(predicting: Run):
    prompts = ["The cat", "", "The young hare sat by", "Number 7 is over"]
    for how in ({"temperature": 0.0}, {"temperature": 1.0, "seed": 5}):
        together = [one.text for one in predicting.generate(prompts, length=30, **how)]
        assert together == [predicting.generate(prompt, length=30, **how)[0].text for prompt in prompts]


@pytest.mark.parametrize("name", ENCODING)
def test_texts_together_have_the_vectors_they_have_alone(name: str, runs: Callable[[str], Run]):
    run, texts = runs(name), ["The cat sat.", "A bird", "The young hare sat by the red roof and ran to the hill."]
    for text, one in zip(texts, run.embed(texts, layers=[0, -1]), strict=True):
        assert one.vector == pytest.approx(run.embed(text, layers=[0, -1])[0].vector, abs=1e-5)


def test_measuring_adds_up(run: Run):
    held_out = corpus_of(run).split(run.folder.recipe.held_out).held_out
    told = run.metadata["metrics"]["held_out"]
    assert run.measure(held_out).bits_per_byte == pytest.approx(told["bits_per_byte"])
    assert told["bytes"] == held_out.num_bytes
    assert told["nats_per_token"] == pytest.approx(math.log(told["perplexity"]))


class Stopping(TrainingCallback):
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
@pytest.mark.parametrize("name", NAMES)
def test_an_interrupted_run_ends_where_an_unbroken_one_does(name: str, tmp_path: Path):
    once = name in ("ngram", "onehot")  # they see every text once
    changes = {"batch": 30} if once else {"steps": 20, "evaluate_every": 7, "dropout": 0.1}
    if "dropout" not in settings(name) | asdict(model_spec(name)()):
        changes.pop("dropout", None)
    whole = trained(name, tmp_path, to="whole", **changes)
    with pytest.raises(UserInterrupt) as raised:
        trained(name, tmp_path, to="broken", callback=Stopping(13), **changes)
    assert raised.value.exit_code == 130
    assert f"--resume {tmp_path / 'broken'}" in raised.value.hint
    broken = pipeline.resume_pretraining(tmp_path / "broken")
    assert weights(broken) == weights(whole)
    told = "loss" if name in TABLES else "tokens"
    assert broken.metadata["metrics"]["held_out"][told] == whole.metadata["metrics"]["held_out"][told]
    lines = [
        [(line["step"], line["losses"]) for line in MetricsLog(one.path / "metrics.jsonl").read_lines()]
        for one in (whole, broken)
    ]
    assert lines[0] == lines[1]
    assert len(CheckpointStore(broken.path / "checkpoints").list_all()) == 1


@pytest.mark.sample(8)
@pytest.mark.parametrize("name", NAMES)
def test_the_same_seed_gives_the_same_bits(name: str, tmp_path: Path):
    few = {"steps": 8} if name in NEURAL else {}
    one, two = (weights(trained(name, tmp_path, to=to, seed=4, **few)) for to in ("one", "two"))
    assert one == two
    if name in [*NEURAL, *TABLES] and name != "onehot":
        assert weights(trained(name, tmp_path, to="three", seed=5, **few)) != two


@pytest.mark.sample(5)
@pytest.mark.parametrize("name", NEURAL)
def test_accumulation_changes_nothing(name: str, tmp_path: Path):
    """A step of 8 rows at once and one row at a time: the same weights, but for rounding."""
    from safetensors.torch import load_file

    one, other = (
        load_file(trained(name, tmp_path, to=f"by-{parts}", steps=3, accumulate=parts).path / "weights.safetensors")
        for parts in (1, 8)
    )
    for tensor in one:
        assert one[tensor].numpy() == pytest.approx(other[tensor].numpy(), abs=1e-3)


@pytest.mark.sample(8)
@pytest.mark.parametrize("name", NAMES)
def test_a_rerun_repeats_every_bit(name: str, tmp_path: Path):
    run = trained(name, tmp_path, **({"time": 0.1} if name in [*NEURAL, *TABLES] else {}))
    again = pipeline.repeat_run(run.path, tmp_path / "again")
    assert weights(again) == weights(run)
