"""What every task promises with every encoder: a saved run answers alike, and how rows are batched is all one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from forebear.errors import InputError
from forebear.inference.run import Run
from forebear.objectives.batch import BatchKey, is_supervised
from forebear.tasks import task as predicting
from forebear.tasks.task import task_from_json
from forebear.tasks.task_batches import ExampleEpochs
from forebear.training.load_model import build_task_model
from labelled_texts import TASKS, adapted, planned, written
from small_runs import ENCODING, TABLES, trained, weights

SOME = ["gpt", "bert", "albert", "roberta", "word2vec"]
FEW = ["gpt", "bert", "word2vec"]  # one of each kind: that looks back, that looks both ways, that knows words alone


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A small pre-trained run of each kind of encoder."""
    made = {}
    for name in SOME:
        folder = tmp_path_factory.mktemp(name)
        (folder / "text.txt").write_text(written("pairs", 150).replace("\t", " ").replace("\n", "\n\n"))
        context = {} if name in TABLES else {"context": 48}
        made[name] = trained(name, folder, steps=20, **context).path
    return made


@pytest.mark.sample(8)
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", SOME)
def test_a_saved_run_answers_alike(name: str, task: str, runs: dict[str, Path], tmp_path: Path):
    plan = planned(runs[name], task, tmp_path, steps=6)
    made = adapted(runs[name], task, tmp_path, steps=6)
    assert made.is_finished
    told = made.metadata["metrics"]["dev"]
    assert 0 <= told[made.task.score] <= 1 or plan.task.score == "spearman"
    assert task_from_json(made.metadata["task"]) == made.task
    run = Run.open(made.path)
    assert plan.task.verb in run.capabilities
    assert "measure" in run.capabilities
    rows = plan.task.encode(plan.labeled_data.dev, run.tokenizer, run.folder.spec.input_format(run.tokenizer))
    again = made.task.evaluate(
        plan.labeled_data.dev,
        made.task.predictions(plan.labeled_data.dev, rows, predicting.predict_logits(run.network, rows)),
    )
    assert again == told


@pytest.mark.sample(5)
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", FEW)
def test_it_does_not_matter_who_stands_beside_whom(
    name: str, task: str, runs: dict[str, Path], tmp_path: Path, monkeypatch
):
    made = adapted(runs[name], task, tmp_path, steps=2)
    run = Run.open(made.path)
    plan = planned(runs[name], task, tmp_path, steps=2)
    rows = plan.task.encode(plan.labeled_data.train, run.tokenizer, run.folder.spec.input_format(run.tokenizer))
    together = predicting.predict_logits(run.network, rows)
    monkeypatch.setattr(predicting, "BATCH_TOKENS", 1)
    alone = predicting.predict_logits(run.network, rows)
    for head, arrays in together.items():
        for one, other in zip(arrays, alone[head], strict=True):
            np.testing.assert_allclose(one, other, atol=2e-5)


@pytest.mark.parametrize("alike", [False, True])
@pytest.mark.parametrize("task", TASKS)
def test_an_epoch_shows_every_example_once(task: str, alike: bool, runs: dict[str, Path], tmp_path: Path):
    plan = planned(runs["bert"], task, tmp_path)
    rows = plan.task.encode(
        plan.labeled_data.train, plan.tokenizer, plan.spec.input_format(plan.tokenizer), is_training=True
    )
    objective = ExampleEpochs(length_grouping=alike)
    steps = objective.steps(rows, 300)
    for epoch in range(2):
        batches = [objective.batch(rows, 300, BatchKey(3, epoch * steps + step)) for step in range(steps)]
        assert sum(batch.num_target_tokens for batch in batches) == len(rows.tokens)
        seen = np.sort(np.concatenate([batch.inputs["tokens"] for batch in batches]))
        np.testing.assert_array_equal(seen, np.sort(rows.tokens))
        for name, target in rows.targets.items():
            assert sum(batch.supervised_counts()[name] for batch in batches) == np.count_nonzero(is_supervised(target))
    first = objective.batch(rows, 300, BatchKey(3, 0))
    again = objective.batch(rows, 300, BatchKey(3, 0))
    np.testing.assert_array_equal(first.inputs["tokens"], again.inputs["tokens"])


@pytest.mark.sample(5)
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", FEW)
def test_accumulation_changes_nothing(name: str, task: str, runs: dict[str, Path], tmp_path: Path):
    import torch

    plan = planned(runs[name], task, tmp_path)
    layout = plan.spec.input_format(plan.tokenizer)
    rows = plan.task.encode(plan.labeled_data.train, plan.tokenizer, layout, is_training=True)
    model = build_task_model(plan.spec, plan.tokenizer, plan.task, replace(plan.adaptation, dropout=0.0))
    model.initialize(0)
    batch = ExampleEpochs(plan.adaptation.language).batch(rows, 400, BatchKey(0, 0))

    def gradients(parts: int) -> dict[str, torch.Tensor]:
        model.zero_grad()
        for part in batch.split(parts):
            tensors = [
                {name: torch.from_numpy(array) for name, array in side.items()} for side in (part.inputs, part.targets)
            ]
            sum(model(*tensors).values()).backward()  # pyright: ignore[reportAttributeAccessIssue]
        return {key: one.grad.clone() for key, one in model.named_parameters() if one.grad is not None}

    whole, parts = gradients(1), gradients(3)
    assert whole.keys() == parts.keys()
    for key, gradient in whole.items():
        torch.testing.assert_close(parts[key], gradient, atol=2e-4, rtol=1e-3)


@pytest.mark.parametrize("how", ["finetune", "freeze", "features"])
def test_what_is_frozen_stays(how: str, runs: dict[str, Path], tmp_path: Path):
    from safetensors.torch import load_file

    made = adapted(runs["bert"], "classification", tmp_path, steps=3, how=how)
    before, after = load_file(runs["bert"] / "weights.safetensors"), load_file(made.path / "weights.safetensors")
    stays = {name for name in after if name.startswith("encoder.") and after[name].equal(before[name])}
    blocks = {name.split(".")[2] for name in stays if name.startswith("encoder.blocks.")}
    if how == "finetune":
        assert not stays
    elif how == "freeze":
        assert blocks == {"0"}
        assert "encoder.embedding.token.weight" in stays
    else:
        assert stays == {name for name in after if name.startswith("encoder.")}
        assert "heads.label.mixture.layer_bias" in after


def test_lower_layers_learn_less(runs: dict[str, Path], tmp_path: Path):
    plan = planned(runs["bert"], "classification", tmp_path, layer_decay=0.5)
    model = plan.adaptation.build_model(
        plan.spec.build(plan.tokenizer), plan.task, plan.spec.input_format(plan.tokenizer)
    )
    shares = plan.adaptation.lr_scales(model)
    assert shares["encoder.embedding.token.weight"] == 0.5**3
    assert shares["encoder.blocks.0.expand.weight"] == 0.5**2
    assert shares["encoder.blocks.1.expand.weight"] == 0.5
    assert shares["heads.label.choose.weight"] == 1


def test_layers_that_are_one_cannot_be_frozen_apart(runs: dict[str, Path], tmp_path: Path):
    with pytest.raises(InputError, match="one and the same"):
        adapted(runs["albert"], "classification", tmp_path, how="freeze", freeze_layers=1)


def test_a_head_that_reads_the_first_token_begins_with_what_was_learned_of_it(runs: dict[str, Path], tmp_path: Path):
    from safetensors.torch import load_file

    from forebear.experiments.pipeline import AdaptSetup

    ready = AdaptSetup.from_plan(planned(runs["bert"], "classification", tmp_path))
    ready.learner.initialize()
    pooler = load_file(runs["bert"] / "weights.safetensors")["heads.pair.pool.weight"]
    assert ready.learner.model.heads["label"].pool.weight.equal(pooler)


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", [*ENCODING, *TABLES])
def test_every_network_learns_a_task_from_nothing(name: str, tmp_path: Path):
    """Whether a sentence is scrambled: what a bag of words cannot know, in English here."""
    made = adapted(name, "classification", tmp_path, count=200, steps=8)
    assert made.is_finished


def test_a_setting_that_means_nothing_is_refused(runs: dict[str, Path], tmp_path: Path):
    with pytest.raises(InputError, match="language"):
        planned(runs["bert"], "classification", tmp_path, language=0.5)
    with pytest.raises(InputError, match="freeze-layers"):
        planned(runs["bert"], "classification", tmp_path, freeze_layers=1)


def test_the_same_again_opens_what_is_there(runs: dict[str, Path], tmp_path: Path):
    first = adapted(runs["bert"], "classification", tmp_path, steps=3)
    again = adapted(runs["bert"], "classification", tmp_path, steps=3)
    assert weights(first) == weights(again)
    assert first.metadata["began"] == again.metadata["began"]
    with pytest.raises(InputError, match="another run"):
        adapted(runs["bert"], "classification", tmp_path, steps=4)
