"""Every task with every encoder: saved runs predict the same, and batching has no effect on predictions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from adapted_runs import TASKS, adapt_small_run, adaptation_plan, task_file_text
from forebear.errors import InputError
from forebear.inference.run import Run
from forebear.objectives.batch import BatchKey, is_supervised
from forebear.tasks import task as predicting
from forebear.tasks.task import task_from_json
from forebear.tasks.task_batches import ExampleEpochs
from forebear.training.build_learner import build_task_model
from small_runs import ENCODER_MODELS, WORD_VECTOR_MODELS, train_small_run, weights_digest

ENCODERS = ["gpt", "bert", "albert", "roberta", "word2vec"]
FEW_ENCODERS = ["gpt", "bert", "word2vec"]  # one of each kind: causal, bidirectional, word vectors


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A small pre-trained run of each kind of encoder."""
    paths = {}
    for name in ENCODERS:
        folder = tmp_path_factory.mktemp(name)
        (folder / "text.txt").write_text(task_file_text("pairs", 150).replace("\t", " ").replace("\n", "\n\n"))
        options = {} if name in WORD_VECTOR_MODELS else {"context": 48}
        paths[name] = train_small_run(name, folder, steps=20, **options).path
    return paths


@pytest.mark.sample(8)
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", ENCODERS)
def test_saved_run_has_the_same_dev_metrics(name: str, task: str, runs: dict[str, Path], tmp_path: Path):
    plan = adaptation_plan(runs[name], task, tmp_path, steps=6)
    folder = adapt_small_run(runs[name], task, tmp_path, steps=6)
    assert folder.is_finished
    dev_metrics = folder.metadata["metrics"]["dev"]
    assert 0 <= dev_metrics[folder.task.metric] <= 1 or plan.task.metric == "spearman"
    assert task_from_json(folder.metadata["task"]) == folder.task
    run = Run.open(folder.path)
    assert plan.task.verb in run.capabilities
    assert "measure" in run.capabilities
    rows = plan.task.encode(plan.labeled_data.dev, run.tokenizer, run.folder.spec.input_format(run.tokenizer))
    computed = folder.task.evaluate(
        plan.labeled_data.dev,
        folder.task.predictions(plan.labeled_data.dev, rows, predicting.predict_logits(run.network, rows)),
    )
    assert computed == dev_metrics


def test_measuring_the_text_of_an_adapted_run_names_the_method_for_its_task(runs: dict[str, Path], tmp_path: Path):
    run = Run.open(adapt_small_run(runs["word2vec"], "classification", tmp_path, steps=2).path)
    with pytest.raises(InputError) as raised:
        run.measure([str(tmp_path / "text.txt")])
    method = raised.value.hint.removeprefix("run.").partition("(")[0]
    assert callable(getattr(run, method))


@pytest.mark.sample(5)
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", FEW_ENCODERS)
def test_logits_do_not_depend_on_the_batch(name: str, task: str, runs: dict[str, Path], tmp_path: Path, monkeypatch):
    folder = adapt_small_run(runs[name], task, tmp_path, steps=2)
    run = Run.open(folder.path)
    plan = adaptation_plan(runs[name], task, tmp_path, steps=2)
    rows = plan.task.encode(plan.labeled_data.train, run.tokenizer, run.folder.spec.input_format(run.tokenizer))
    batched = predicting.predict_logits(run.network, rows)
    monkeypatch.setattr(predicting, "BATCH_TOKENS", 1)
    single = predicting.predict_logits(run.network, rows)
    for head, arrays in batched.items():
        for batched_array, single_array in zip(arrays, single[head], strict=True):
            np.testing.assert_allclose(batched_array, single_array, atol=2e-5)


@pytest.mark.parametrize("length_grouping", [False, True])
@pytest.mark.parametrize("task", TASKS)
def test_an_epoch_contains_every_example_once(task: str, length_grouping: bool, runs: dict[str, Path], tmp_path: Path):
    plan = adaptation_plan(runs["bert"], task, tmp_path)
    rows = plan.task.encode(
        plan.labeled_data.train, plan.tokenizer, plan.spec.input_format(plan.tokenizer), is_training=True
    )
    objective = ExampleEpochs(length_grouping=length_grouping)
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
@pytest.mark.parametrize("name", FEW_ENCODERS)
def test_gradient_accumulation_does_not_change_gradients(name: str, task: str, runs: dict[str, Path], tmp_path: Path):
    import torch

    plan = adaptation_plan(runs[name], task, tmp_path)
    input_format = plan.spec.input_format(plan.tokenizer)
    rows = plan.task.encode(plan.labeled_data.train, plan.tokenizer, input_format, is_training=True)
    model = build_task_model(plan.spec, plan.tokenizer, plan.task, replace(plan.adaptation, dropout=0.0))
    model.initialize(0)
    batch = ExampleEpochs(plan.adaptation.language).batch(rows, 400, BatchKey(0, 0))

    def gradients(num_parts: int) -> dict[str, torch.Tensor]:
        model.zero_grad()
        for part in batch.split(num_parts):
            tensors = [
                {name: torch.from_numpy(array) for name, array in arrays.items()}
                for arrays in (part.inputs, part.targets)
            ]
            sum(model(*tensors).values()).backward()  # pyright: ignore[reportAttributeAccessIssue]
        return {
            key: parameter.grad.clone() for key, parameter in model.named_parameters() if parameter.grad is not None
        }

    expected, accumulated = gradients(1), gradients(3)
    assert expected.keys() == accumulated.keys()
    for key, gradient in expected.items():
        torch.testing.assert_close(accumulated[key], gradient, atol=2e-4, rtol=1e-3)


@pytest.mark.parametrize("how", ["finetune", "freeze", "features"])
def test_frozen_parameters_stay_unchanged(how: str, runs: dict[str, Path], tmp_path: Path):
    from safetensors.torch import load_file

    folder = adapt_small_run(runs["bert"], "classification", tmp_path, steps=3, how=how)
    before, after = load_file(runs["bert"] / "weights.safetensors"), load_file(folder.path / "weights.safetensors")
    unchanged = {name for name in after if name.startswith("encoder.") and after[name].equal(before[name])}
    blocks = {name.split(".")[2] for name in unchanged if name.startswith("encoder.blocks.")}
    if how == "finetune":
        assert not unchanged
    elif how == "freeze":
        assert blocks == {"0"}
        assert "encoder.embedding.token.weight" in unchanged
    else:
        assert unchanged == {name for name in after if name.startswith("encoder.")}
        assert "heads.label.mixture.layer_bias" in after


def test_layer_decay_lowers_learning_rates_of_lower_layers(runs: dict[str, Path], tmp_path: Path):
    plan = adaptation_plan(runs["bert"], "classification", tmp_path, layer_decay=0.5)
    model = plan.adaptation.build_model(
        plan.spec.build(plan.tokenizer), plan.task, plan.spec.input_format(plan.tokenizer)
    )
    lr_scales = plan.adaptation.lr_scales(model)
    assert lr_scales["encoder.embedding.token.weight"] == 0.5**3
    assert lr_scales["encoder.blocks.0.expand.weight"] == 0.5**2
    assert lr_scales["encoder.blocks.1.expand.weight"] == 0.5
    assert lr_scales["heads.label.choose.weight"] == 1


def test_shared_layers_cannot_be_frozen_separately(runs: dict[str, Path], tmp_path: Path):
    with pytest.raises(InputError, match="one and the same"):
        adapt_small_run(runs["albert"], "classification", tmp_path, how="freeze", freeze_layers=1)


def test_label_head_starts_from_the_pretrained_pooler(runs: dict[str, Path], tmp_path: Path):
    from safetensors.torch import load_file

    from forebear.experiments.training_run import AdaptSetup

    setup = AdaptSetup.from_plan(adaptation_plan(runs["bert"], "classification", tmp_path))
    setup.learner.initialize()
    pooler = load_file(runs["bert"] / "weights.safetensors")["heads.pair.pool.weight"]
    assert setup.learner.model.heads["label"].pool.weight.equal(pooler)


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", [*ENCODER_MODELS, *WORD_VECTOR_MODELS])
def test_every_network_trains_on_a_task_from_scratch(name: str, tmp_path: Path):
    """The task is to recognize scrambled English sentences, which a bag of words cannot."""
    folder = adapt_small_run(name, "classification", tmp_path, count=200, steps=8)
    assert folder.is_finished


def test_adaptation_settings_without_effect_are_refused(runs: dict[str, Path], tmp_path: Path):
    with pytest.raises(InputError, match="language"):
        adaptation_plan(runs["bert"], "classification", tmp_path, language=0.5)
    with pytest.raises(InputError, match="freeze-layers"):
        adaptation_plan(runs["bert"], "classification", tmp_path, freeze_layers=1)


def test_repeated_adaptation_opens_the_existing_run(runs: dict[str, Path], tmp_path: Path):
    first = adapt_small_run(runs["bert"], "classification", tmp_path, steps=3)
    second = adapt_small_run(runs["bert"], "classification", tmp_path, steps=3)
    assert weights_digest(first) == weights_digest(second)
    assert first.metadata["began"] == second.metadata["began"]
    with pytest.raises(InputError, match="another run"):
        adapt_small_run(runs["bert"], "classification", tmp_path, steps=4)
