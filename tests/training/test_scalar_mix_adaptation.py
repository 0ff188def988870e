"""Task encoders over a scalar mix of recurrent layers ([x; ELMo]): in every task, frozen or fine-tuned."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from adapted_runs import TASKS, adapt_small_run, adaptation_plan, task_file_text
from forebear.data.labeled.examples import TaggedExample
from forebear.errors import InputError
from forebear.inference.run import Run
from forebear.inspection.layer_weights import layer_names, layer_weights
from forebear.models.elmo import ElmoSpec
from forebear.nn.encoder import States
from forebear.nn.model import Model
from forebear.nn.scalar_mix import ScalarMix
from forebear.nn.scalar_mix_task_encoder import ScalarMixEncoder
from forebear.tasks import task as predicting
from forebear.training.build_learner import build_task_model
from forebear.training.run_folder import RunFolder
from small_runs import open_small_run, small_tokenizer, train_small_run

RECURRENT = ("rnn", "lstm", "cnn_rnn", "elmo")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A small run of each recurrent model, trained on the texts of a few pairs."""
    paths = {}
    for name in RECURRENT:
        folder = tmp_path_factory.mktemp(name)
        (folder / "text.txt").write_text(task_file_text("pairs", 40).replace("\t", " ").replace("\n", "\n\n"))
        paths[name] = train_small_run(name, folder, steps=5).path
    return paths


def tensors(run: RunFolder | Path) -> dict[str, np.ndarray]:
    return load_file((run.path if isinstance(run, RunFolder) else run) / "weights.safetensors")


@pytest.mark.sample(3)
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", ["lstm", "elmo"])
def test_task_encoder_over_frozen_layers_learns_every_task(
    name: str, task: str, runs: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    mix_place = "both" if task == "tagging" else "before"
    adapted_run = adapt_small_run(
        runs[name], task, tmp_path, count=20, steps=2, reader="recurrent", how="freeze", mixture=mix_place
    )
    run = Run.open(adapted_run.path)
    assert run.task is not None
    assert run.task.verb in run.capabilities
    before, after = tensors(runs[name]), tensors(adapted_run)
    encoder_names = [tensor_name for tensor_name in before if tensor_name.startswith("encoder.")]
    assert encoder_names
    for tensor_name in encoder_names:  # frozen parameters stay, bit for bit
        assert np.array_equal(before[tensor_name], after[tensor_name.replace("encoder.", "encoder.inner.", 1)])
    assert np.abs(after["encoder.mixtures.before.layer_bias"]).max() > 0  # the layer weights are trained
    plan = adaptation_plan(
        runs[name], task, tmp_path, count=20, steps=2, reader="recurrent", how="freeze", mixture=mix_place
    )
    rows = run.task.encode(plan.labeled_data.train, run.tokenizer, run.folder.spec.input_format(run.tokenizer))
    together = predicting.predict_logits(run.network, rows)
    monkeypatch.setattr(predicting, "BATCH_TOKENS", 1)
    for head, arrays in predicting.predict_logits(run.network, rows).items():
        for alone, batched in zip(arrays, together[head], strict=True):
            np.testing.assert_allclose(alone, batched, atol=2e-5)


@pytest.mark.parametrize("how", ["freeze", "finetune"])
def test_dropout_applies_to_the_task_encoder_not_to_frozen_layers(how: str, runs: dict[str, Path], tmp_path: Path):
    plan = adaptation_plan(runs["elmo"], "tagging", tmp_path, count=20, reader="recurrent", how=how, dropout=0.4)
    spec: Any = replace(plan.spec, dropout=0.5)  # pyright: ignore[reportCallIssue]
    network = build_task_model(spec, plan.tokenizer, plan.task, plan.adaptation).initialize(0).train()
    encoder: Any = network.encoder
    assert encoder.dropout.p == 0.4
    assert encoder.inner.training == (how == "finetune")
    with torch.no_grad():
        first, second = (encoder.inner(torch.tensor([5, 6, 7]), (3,)).last for _ in range(2))
    assert torch.equal(first, second) == (how == "freeze")


@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent_encoder_is_fine_tuned_without_task_encoder(name: str, runs: dict[str, Path], tmp_path: Path):
    adapted_run = adapt_small_run(runs[name], "tagging", tmp_path, count=20, steps=2)
    before, after = tensors(runs[name]), tensors(adapted_run)
    assert not any(tensor_name.startswith("encoder.inner.") for tensor_name in after)
    moved = [
        tensor_name
        for tensor_name in before
        if tensor_name.startswith("encoder.") and not np.array_equal(before[tensor_name], after[tensor_name])
    ]
    assert moved


def test_char_level_encoder_distinguishes_unknown_words(runs: dict[str, Path], tmp_path: Path):
    """Of two out-of-vocabulary words: ELMo distinguishes them by characters, an LSTM with an embedding table cannot."""
    for name, is_char_level in (("elmo", True), ("lstm", False)):
        (tmp_path / name).mkdir()
        run = Run.open(adapt_small_run(runs[name], "tagging", tmp_path / name, count=20, steps=2).path)
        texts = [["Zorblatt", "went"], ["Quux", "went"]]
        assert run.tokenizer.token_to_id("Zorblatt") is None
        first, second = (tagged.probabilities for tagged in run.tag(texts))
        assert (np.abs(first - second).max() > 1e-7) == is_char_level


def test_oov_ids_are_shared_by_runs_of_one_vocabulary(runs: dict[str, Path], tmp_path: Path):
    """A run that is opened again predicts for rows whose out-of-vocabulary words another one numbered."""
    adapted_run = adapt_small_run(runs["elmo"], "tagging", tmp_path, count=20, steps=2)
    first, second = (Run.open(adapted_run.path) for _ in range(2))
    assert first.task is not None
    examples = [TaggedExample(("Zorblatt", "went", "Quux"), None)]
    rows = first.task.encode(examples, first.tokenizer, first.folder.spec.input_format(first.tokenizer))
    assert rows.tokens.max() >= first.tokenizer.vocab_size
    np.testing.assert_array_equal(
        predicting.predict_logits(first.network, rows)["tag"], predicting.predict_logits(second.network, rows)["tag"]
    )


@pytest.mark.parametrize("mix_place", ["before", "after", "both"])
def test_layers_of_other_width_are_not_mixed(mix_place: str, tmp_path: Path):
    """An LSTM's embeddings are often narrower than its hidden states: they are not mixed."""
    run = train_small_run("lstm", tmp_path, steps=2, width=6, inner=10, depth=2).path
    adapted_run = Run.open(
        adapt_small_run(run, "tagging", tmp_path, count=20, steps=2, reader="recurrent", mixture=mix_place).path
    )
    for mix in layer_weights(adapted_run):
        assert (mix.first_layer, len(mix.weights), layer_names(mix)) == (1, 2, ["1", "2, the last"])


@torch.no_grad()
def test_task_encoder_reads_word_vectors_next_to_their_scalar_mix():
    model = ElmoSpec(width=6, cells=8, characters=4, filters="1:4,2:4", highways=0, dropout=0.0).build(
        small_tokenizer("words")
    )
    network = (
        Model(ScalarMixEncoder(model.encoder, kind="mean", width=4, mix_position="both", normalize=True), {})
        .initialize(1)
        .eval()
    )
    encoder = network.encoder
    assert isinstance(encoder, ScalarMixEncoder)
    tokens, lengths = torch.tensor([5, 6, 7, 8, 9]), (3, 2)
    layers = encoder.inner(tokens, lengths).layers
    normed = [
        (layer - layer.mean(1, keepdim=True)) / (layer.var(1, unbiased=False, keepdim=True) + 1e-5).sqrt()
        for layer in layers
    ]
    mixed = sum(normed) / 3  # untrained, all layers have the same weight
    expected = torch.cat((layers[0][:, :6], mixed), 1)
    states = encoder(tokens, lengths)
    assert states.layers[0] == pytest.approx(expected.numpy(), abs=1e-5)
    assert states.last[:, 4:] == pytest.approx(mixed.numpy(), abs=1e-5)
    assert (encoder.width, encoder.widths) == (16, (18, 16))


def test_scalar_mix_is_gamma_times_the_weighted_sum_of_layers():
    scalar_mix = ScalarMix(2)
    scalar_mix.layer_bias = torch.nn.Parameter(torch.log(torch.tensor([1.0, 2.0, 5.0])))
    scalar_mix.gain_bias = torch.nn.Parameter(torch.tensor([1.0]))  # γ = 2
    states = States([torch.tensor([[8.0]]), torch.tensor([[4.0]]), torch.tensor([[1.6]])], (1,))
    assert scalar_mix(states, torch.tensor([0])).item() == pytest.approx(2 * (8 / 8 + 4 * 2 / 8 + 1.6 * 5 / 8))


def test_task_encoder_is_refused_where_it_has_no_effect(runs: dict[str, Path], tmp_path: Path):
    bert = open_small_run("bert", tmp_path, steps=2).folder.path
    with pytest.raises(InputError, match="encoder of its own"):
        adaptation_plan(bert, "classification", tmp_path, reader="recurrent")
    with pytest.raises(InputError, match="vectors of words are one layer"):
        adaptation_plan("word2vec", "classification", tmp_path, reader="recurrent", mixture="after")
    with pytest.raises(InputError, match="without a reader"):
        adaptation_plan(runs["elmo"], "classification", tmp_path, mixture="after")
    with pytest.raises(InputError, match="predict the next token"):
        adaptation_plan(runs["elmo"], "classification", tmp_path, language=0.5)
    with pytest.raises(InputError, match="would learn nothing"):
        adaptation_plan(runs["elmo"], "classification", tmp_path, reader="recurrent", how="features")
