"""A reader above a mixture of a recurrent encoder's layers ([x; ELMo]): in every task, frozen or not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from forebear.data.labeled.examples import TaggedExample
from forebear.errors import InputError
from forebear.inference.run import Run
from forebear.inspection.layer_weights import layer_names, layer_weights
from forebear.models.elmo import ElmoSpec
from forebear.nn.encoder import ScalarMix, States
from forebear.nn.model import Model
from forebear.nn.task_encoders import ScalarMixEncoder
from forebear.tasks import task as predicting
from forebear.training.load_model import build_task_model
from forebear.training.run_folder import RunFolder
from labelled_texts import TASKS, adapted, planned, written
from small_runs import opened, tokenizer, trained

RECURRENT = ("rnn", "lstm", "cnn_rnn", "elmo")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A small run of each, on half of what tasks speak of."""
    made = {}
    for name in RECURRENT:
        folder = tmp_path_factory.mktemp(name)
        (folder / "text.txt").write_text(written("pairs", 40).replace("\t", " ").replace("\n", "\n\n"))
        made[name] = trained(name, folder, steps=5).path
    return made


def weights(run: RunFolder | Path) -> dict[str, np.ndarray]:
    return load_file((run.path if isinstance(run, RunFolder) else run) / "weights.safetensors")


@pytest.mark.sample(3)
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", ["lstm", "elmo"])
def test_every_task_is_learned_above_every_recurrent_encoder(
    name: str, task: str, runs: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    place = "both" if task == "tagging" else "before"
    made = adapted(runs[name], task, tmp_path, count=20, steps=2, reader="recurrent", how="freeze", mixture=place)
    run = Run.open(made.path)
    assert run.task is not None
    assert run.task.verb in run.capabilities
    before, after = weights(runs[name]), weights(made)
    inner = [one for one in before if one.startswith("encoder.")]
    assert inner
    for one in inner:  # what is frozen stays, bit for bit
        assert np.array_equal(before[one], after[one.replace("encoder.", "encoder.inner.", 1)])
    assert np.abs(after["encoder.mixtures.before.layer_bias"]).max() > 0  # the weights of layers learn
    plan = planned(runs[name], task, tmp_path, count=20, steps=2, reader="recurrent", how="freeze", mixture=place)
    rows = run.task.encode(plan.labeled_data.train, run.tokenizer, run.folder.spec.input_format(run.tokenizer))
    together = predicting.predict_logits(run.network, rows)
    monkeypatch.setattr(predicting, "BATCH_TOKENS", 1)
    for head, arrays in predicting.predict_logits(run.network, rows).items():
        for one, other in zip(arrays, together[head], strict=True):
            np.testing.assert_allclose(one, other, atol=2e-5)


@pytest.mark.parametrize("how", ["freeze", "finetune"])
def test_dropout_is_the_readers_and_what_is_frozen_gives_what_it_always_gives(
    how: str, runs: dict[str, Path], tmp_path: Path
):
    plan = planned(runs["elmo"], "tagging", tmp_path, count=20, reader="recurrent", how=how, dropout=0.4)
    milestone: Any = replace(plan.spec, dropout=0.5)  # pyright: ignore[reportCallIssue]
    network = build_task_model(milestone, plan.tokenizer, plan.task, plan.adaptation).initialize(0).train()
    encoder: Any = network.encoder
    assert encoder.dropout.p == 0.4
    assert encoder.inner.training == (how == "finetune")
    with torch.no_grad():
        one, other = (encoder.inner(torch.tensor([5, 6, 7]), (3,)).last for _ in range(2))
    assert torch.equal(one, other) == (how == "freeze")


@pytest.mark.parametrize("name", RECURRENT)
def test_its_own_encoder_learns_a_task_alone(name: str, runs: dict[str, Path], tmp_path: Path):
    made = adapted(runs[name], "tagging", tmp_path, count=20, steps=2)
    before, after = weights(runs[name]), weights(made)
    assert not any(one.startswith("encoder.inner.") for one in after)
    moved = [one for one in before if one.startswith("encoder.") and not np.array_equal(before[one], after[one])]
    assert moved


def test_unknown_words_are_read_by_their_letters(runs: dict[str, Path], tmp_path: Path):
    """Two words that the vocabulary lacks: an ELMo tells them apart, an LSTM with a table cannot."""
    for name, apart in (("elmo", True), ("lstm", False)):
        (tmp_path / name).mkdir()
        run = Run.open(adapted(runs[name], "tagging", tmp_path / name, count=20, steps=2).path)
        texts = [["Zorblatt", "went"], ["Quux", "went"]]
        assert run.tokenizer.token_to_id("Zorblatt") is None
        one, other = (told.probabilities for told in run.tag(texts))
        assert (np.abs(one - other).max() > 1e-7) == apart


def test_numbers_of_unknown_words_hold_for_all_who_read_the_same_vocabulary(runs: dict[str, Path], tmp_path: Path):
    """A run that is opened again, gone on with or made smaller answers rows that another of them has numbered."""
    made = adapted(runs["elmo"], "tagging", tmp_path, count=20, steps=2)
    one, other = (Run.open(made.path) for _ in range(2))
    assert one.task is not None
    words = [TaggedExample(("Zorblatt", "went", "Quux"), None)]
    rows = one.task.encode(words, one.tokenizer, one.folder.spec.input_format(one.tokenizer))
    assert rows.tokens.max() >= one.tokenizer.vocab_size
    np.testing.assert_array_equal(
        predicting.predict_logits(one.network, rows)["tag"], predicting.predict_logits(other.network, rows)["tag"]
    )


@pytest.mark.parametrize("place", ["before", "after", "both"])
def test_layers_of_another_width_than_the_last_are_not_mixed(place: str, tmp_path: Path):
    """An LSTM's vectors are often narrower than its states: they are read by themselves."""
    run = trained("lstm", tmp_path, steps=2, width=6, inner=10, depth=2).path
    made = Run.open(adapted(run, "tagging", tmp_path, count=20, steps=2, reader="recurrent", mixture=place).path)
    for one in layer_weights(made):
        assert (one.first_layer, len(one.weights), layer_names(one)) == (1, 2, ["1", "2, the last"])


@torch.no_grad()
def test_what_is_read_is_words_beside_their_mixture():
    model = ElmoSpec(width=6, cells=8, characters=4, filters="1:4,2:4", highways=0, dropout=0.0).build(
        tokenizer("words")
    )
    made = (
        Model(ScalarMixEncoder(model.encoder, kind="mean", width=4, mix_position="both", normalize=True), {})
        .initialize(1)
        .eval()
    )
    encoder = made.encoder
    assert isinstance(encoder, ScalarMixEncoder)
    tokens, lengths = torch.tensor([5, 6, 7, 8, 9]), (3, 2)
    found = encoder.inner(tokens, lengths).layers
    normed = [
        (layer - layer.mean(1, keepdim=True)) / (layer.var(1, unbiased=False, keepdim=True) + 1e-5).sqrt()
        for layer in found
    ]
    mixed = sum(normed) / 3  # untaught, all layers count alike
    read = torch.cat((found[0][:, :6], mixed), 1)
    told = encoder(tokens, lengths)
    assert told.layers[0] == pytest.approx(read.numpy(), abs=1e-5)
    assert told.last[:, 4:] == pytest.approx(mixed.numpy(), abs=1e-5)
    assert (encoder.width, encoder.widths) == (16, (18, 16))


def test_a_mixture_is_gamma_times_the_weighed_layers():
    mixture = ScalarMix(2)
    mixture.layer_bias = torch.nn.Parameter(torch.log(torch.tensor([1.0, 2.0, 5.0])))
    mixture.gain_bias = torch.nn.Parameter(torch.tensor([1.0]))  # γ = 2
    states = States([torch.tensor([[8.0]]), torch.tensor([[4.0]]), torch.tensor([[1.6]])], (1,))
    assert mixture(states, torch.tensor([0])).item() == pytest.approx(2 * (8 / 8 + 4 * 2 / 8 + 1.6 * 5 / 8))


def test_a_reader_is_refused_where_it_means_nothing(runs: dict[str, Path], tmp_path: Path):
    bert = opened("bert", tmp_path, steps=2).folder.path
    with pytest.raises(InputError, match="encoder of its own"):
        planned(bert, "classification", tmp_path, reader="recurrent")
    with pytest.raises(InputError, match="vectors of words are one layer"):
        planned("word2vec", "classification", tmp_path, reader="recurrent", mixture="after")
    with pytest.raises(InputError, match="without a reader"):
        planned(runs["elmo"], "classification", tmp_path, mixture="after")
    with pytest.raises(InputError, match="predict the next token"):
        planned(runs["elmo"], "classification", tmp_path, language=0.5)
    with pytest.raises(InputError, match="would learn nothing"):
        planned(runs["elmo"], "classification", tmp_path, reader="recurrent", how="features")
