"""What every milestone must do, asked of every line of the lineage; a new milestone adds no test of these."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from forebear.errors import Interrupted
from forebear.lineage import LINEAGE, milestone_named, name_of
from forebear.objectives.batch import NOTHING, Moment
from forebear.text.corpus import Corpus
from forebear.training.checkpoint import Checkpoints
from forebear.training.metrics import Metrics
from forebear.training.trainer import Report, Watcher
from forebear.using import pretraining
from forebear.using.run import Run
from small_runs import NAMES, NEURAL, opened, settings, trained, weights

KINDS = ("words", "characters", "bytepair")


@pytest.fixture(scope="module", params=NAMES)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A small trained run of each milestone."""
    return opened(request.param, tmp_path_factory.mktemp(request.param))


def corpus_of(run: Run) -> Corpus:
    return Corpus.open(run.facts["data"]["folder"])


def rows(run: Run) -> list[np.ndarray]:
    """A few texts of different lengths, as rows."""
    end = run.tokenizer.roles["end"]
    texts = ("The cat sat by the hill.", "The dog", "Number 3 is over, said the bird. The", "zebra ☃ the")
    return [np.append([end], run.tokenizer.encode(text).ids) for text in texts]


def test_the_table_is_in_the_order_of_history():
    assert all(one.year <= other.year for one, other in pairwise(LINEAGE.values()))


@pytest.mark.parametrize("name", NAMES)
def test_fields_survive_json(name: str):
    kind = milestone_named(name)
    for size in ("", *kind.sizes):
        made = kind(**kind.sizes.get(size, {}))
        assert kind(**json.loads(json.dumps(asdict(made)))) == made
        assert name_of(made) == name
    assert kind.size in kind.sizes or not kind.sizes


@pytest.mark.parametrize("name", NAMES)
def test_naming_a_milestone_never_loads_torch(name: str):
    code = f"import sys; from forebear.lineage import milestone_named; m = milestone_named({name!r})(); m.recipe()"
    code += "; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_every_target_has_a_head(run: Run):
    objective = run.folder.milestone.objective(run.tokenizer)
    batch = objective.batch(corpus_of(run).whole(), 100, Moment(0, 0))
    assert set(batch.targets) == set(run.heads)
    assert sum(batch.inputs["lengths"]) == len(batch.inputs["tokens"])
    assert all(len(target) in (batch.tokens, len(batch.inputs["lengths"])) for target in batch.targets.values())
    assert all((target >= NOTHING).all() for target in batch.targets.values())


def test_it_learns(run: Run):
    """Held-out text is cheaper than by token frequencies alone."""
    assert run.facts["metrics"]["held_out"]["nats_per_token"] < 0.8 * run.facts["unigram_nats"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NAMES)
def test_it_learns_from_every_kind_of_token(name: str, kind: str, tmp_path: Path):
    facts = trained(name, tmp_path, tokenizer=kind).facts
    assert facts["metrics"]["held_out"]["nats_per_token"] < facts["unigram_nats"]


def test_a_saved_run_answers_alike(run: Run):
    again = Run.open(run.folder.path)
    for one, other in zip(run.predictor.score(rows(run)), again.predictor.score(rows(run)), strict=True):
        assert np.array_equal(one, other)
    assert [one.text for one in run.generate("The", seed=3)] == [one.text for one in again.generate("The", seed=3)]


def test_probability_is_probability(run: Run):
    shares = np.exp(np.asarray(run.predictor.follow(rows(run)), np.float64)).sum(axis=1)
    assert shares == pytest.approx(1, abs=1e-5)


def test_scores_are_the_next_tables(run: Run):
    """What `score` says of a token is what `follow` says of it after the tokens before."""
    for row, scores in zip(rows(run), run.predictor.score(rows(run)), strict=True):
        tables = run.predictor.follow([row[:place] for place in range(1, len(row))])
        assert scores == pytest.approx(tables[np.arange(len(row) - 1), row[1:]], abs=1e-4)


def test_no_head_peeks_ahead(run: Run):
    row = rows(run)[0]
    changed = np.append(row[:6], row[1:4])
    one, other = run.predictor.score([row])[0], run.predictor.score([changed])[0]
    assert one[:5] == pytest.approx(other[:5], abs=1e-5)


def test_a_batch_changes_nothing(run: Run):
    together = run.predictor.score(rows(run))
    for row, scores in zip(rows(run), together, strict=True):
        assert scores == pytest.approx(run.predictor.score([row])[0], abs=1e-5)


def test_prompts_together_give_what_each_gives_alone(run: Run):
    prompts = ["The cat", "", "The young hare sat by", "Number 7 is over"]
    for how in ({"temperature": 0.0}, {"temperature": 1.0, "seed": 5}):
        together = [one.text for one in run.generate(prompts, length=30, **how)]
        assert together == [run.generate(prompt, length=30, **how)[0].text for prompt in prompts]


def test_measuring_adds_up(run: Run):
    held_out = corpus_of(run).split(run.folder.recipe.held_out).held_out
    told = run.facts["metrics"]["held_out"]
    assert run.measure(held_out).bits_per_byte == pytest.approx(told["bits_per_byte"])
    assert told["bytes"] == held_out.bytes
    assert told["nats_per_token"] == pytest.approx(math.log(told["perplexity"]))


class Stopping(Watcher):
    """Interrupts like Ctrl-C once a step is reached."""

    def __init__(self, at: int) -> None:
        self.at = at

    def report(self, report: Report) -> None:
        if report.step >= self.at:
            import os
            import signal

            self.at = 10**9
            os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize("name", NAMES)
def test_an_interrupted_run_ends_where_an_unbroken_one_does(name: str, tmp_path: Path):
    changes = {"steps": 40, "evaluate_every": 7, "dropout": 0.1} if name in NEURAL else {"batch": 30}
    if name in NEURAL and "dropout" not in settings(name) | asdict(milestone_named(name)()):
        del changes["dropout"]
    whole = trained(name, tmp_path, to="whole", **changes)
    with pytest.raises(Interrupted) as raised:
        trained(name, tmp_path, to="broken", watcher=Stopping(13), **changes)
    assert raised.value.exit_code == 130
    assert f"--resume {tmp_path / 'broken'}" in raised.value.remedy
    broken = pretraining.resume(tmp_path / "broken")
    assert weights(broken) == weights(whole)
    assert (
        broken.facts["metrics"]["held_out"].items() >= {"tokens": whole.facts["metrics"]["held_out"]["tokens"]}.items()
    )
    lines = [
        [(line["step"], line["losses"]) for line in Metrics(one.path / "metrics.jsonl").read()]
        for one in (whole, broken)
    ]
    assert lines[0] == lines[1]
    assert len(Checkpoints(broken.path / "checkpoints").all()) == 1


@pytest.mark.parametrize("name", NAMES)
def test_the_same_seed_gives_the_same_bits(name: str, tmp_path: Path):
    assert weights(trained(name, tmp_path, to="one", seed=4)) == weights(trained(name, tmp_path, to="two", seed=4))
    if name in NEURAL:
        assert weights(trained(name, tmp_path, to="three", seed=5)) != weights(
            trained(name, tmp_path, to="two", seed=4)
        )


@pytest.mark.parametrize("name", NEURAL)
def test_accumulation_changes_nothing(name: str, tmp_path: Path):
    """A step of 8 rows at once and one row at a time: the same weights, but for rounding."""
    from safetensors.torch import load_file

    one, other = (
        load_file(trained(name, tmp_path, to=f"by-{parts}", steps=5, accumulate=parts).path / "weights.safetensors")
        for parts in (1, 8)
    )
    for tensor in one:
        assert one[tensor].numpy() == pytest.approx(other[tensor].numpy(), abs=2e-4)


@pytest.mark.parametrize("name", NAMES)
def test_a_rerun_repeats_every_bit(name: str, tmp_path: Path):
    run = trained(name, tmp_path, **({"time": 2} if name in NEURAL else {}))
    again = pretraining.again(run.path, tmp_path / "again")
    assert weights(again) == weights(run)
