"""Model: seeded initialization, strict loading, tied embeddings, summed losses."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import load_file, save_file
from small_networks import VOCABULARY, decoder_model, inputs, rows_of

from forebear.errors import ForebearError, InputError
from forebear.nn.embedding import InputEmbedding
from forebear.nn.heads import LMHead
from forebear.nn.model import Model
from forebear.nn.transformer import Transformer


def uninitialized_model(depth: int = 2, **options) -> Model:
    embedding = InputEmbedding(VOCABULARY, 32, positions=24)
    switches = {"norm": "pre", "sees": "past", "activation": "gelu"} | options
    return Model(
        Transformer(embedding, depth=depth, width=32, num_heads=4, inner=64, **switches), {"next": LMHead(embedding)}
    )


def test_model_is_on_meta_device_until_initialized():
    model = uninitialized_model()
    assert {value.device.type for value in model.parameters()} == {"meta"}
    assert model.initialize(1).device.type == "cpu"


def test_initialization_depends_on_seed_only():
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        first = uninitialized_model().initialize(5).tensors()
        torch.set_num_threads(2)
        torch.manual_seed(99)  # the global random state has no effect
        second = uninitialized_model().initialize(5).tensors()
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(first[name], second[name]) for name in first)
    other = uninitialized_model().initialize(6).tensors()
    assert not torch.equal(first["encoder.embedding.token.weight"], other["encoder.embedding.token.weight"])


def test_initialization_of_a_layer_is_independent_of_depth():
    shallow, deep = (
        uninitialized_model(depth, norm="post").initialize(5).tensors()["encoder.blocks.1.expand.weight"]
        for depth in (2, 3)
    )
    assert torch.equal(shallow, deep)


@pytest.mark.parametrize(("width", "spread"), [(768, 0.02), (1024, 0.02), (192, 0.04)])
def test_initial_std_is_that_of_gpt2_and_larger_for_narrow_models(width, spread):
    """A quarter of the width has twice the standard deviation, so sums over the width are as large."""
    embedding = InputEmbedding(500, width, positions=64)
    encoder = Transformer(
        embedding, depth=8, width=width, num_heads=4, inner=2 * width, norm="pre", sees="past", activation="gelu-tanh"
    )
    values = Model(encoder, {"next": LMHead(embedding)}).initialize(0).tensors()
    assert float(values["encoder.embedding.token.weight"].std()) == pytest.approx(spread, rel=0.02)
    assert float(values["encoder.blocks.3.expand.weight"].std()) == pytest.approx(spread, rel=0.02)
    for name in ("attention.output", "contract"):  # smaller by √(2·8)
        assert float(values[f"encoder.blocks.3.{name}.weight"].std()) == pytest.approx(spread / 4, rel=0.03)
        assert not values[f"encoder.blocks.3.{name}.bias"].any()
    assert bool((values["encoder.final_norm.weight"] == 1).all())


def test_tied_embedding_is_saved_once_and_stays_tied(tmp_path):
    model = decoder_model()
    names = list(model.tensors())
    assert "encoder.embedding.token.weight" in names
    assert not [name for name in names if name.startswith("heads")]
    save_file(model.tensors(), tmp_path / "weights.safetensors")
    restored = uninitialized_like(model).load(load_file(tmp_path / "weights.safetensors"))
    assert restored.heads["next"].weight is restored.encoder.embedding.token.weight
    rows = inputs(rows_of(9, 4))
    assert torch.equal(model.logits(rows)["next"], restored.eval().logits(rows)["next"])


def uninitialized_like(model: Model) -> Model:
    return decoder_model(depth=model.encoder.depth).to("meta")


def test_training_loaded_weights_leaves_file_unchanged(tmp_path):
    file = tmp_path / "weights.safetensors"
    save_file(decoder_model().tensors(), file)
    before = file.read_bytes()
    model = decoder_model().load(load_file(file))
    with torch.no_grad():
        for value in model.parameters():
            value.add_(1.0)
    assert file.read_bytes() == before


def test_load_names_every_tensor_that_does_not_fit():
    model = decoder_model()
    tensors = model.tensors()
    del tensors["encoder.final_norm.bias"]
    tensors["encoder.blocks.0.expand.weight"] = torch.zeros(3, 4)
    tensors["encoder.blocks.9.expand.weight"] = torch.zeros(3, 4)
    with pytest.raises(ForebearError) as caught:
        model.load(tensors, file="weights.safetensors")
    message = str(caught.value)
    assert "weights.safetensors: " in message
    assert "encoder.final_norm.bias is missing" in message
    assert "encoder.blocks.0.expand.weight has the shape (3, 4), not (128, 32)" in message
    assert "encoder.blocks.9.expand.weight belongs to no part of this model" in message
    with pytest.raises(ForebearError, match="and 20 more"):
        model.load({})


def test_loss_is_sum_over_supervised_positions():
    model, rows = decoder_model(), rows_of(6, 9, 3)
    target = torch.from_numpy(rows_of(18, seed=1)[0])
    target[[0, 5, 17]] = -1
    loss = model(inputs(rows), {"next": target})["next"]
    logits = model.logits(inputs(rows))["next"]
    expected = torch.nn.functional.cross_entropy(logits, target, ignore_index=-1, reduction="sum")
    assert loss.item() == pytest.approx(expected.item(), rel=1e-6)
    assert model(inputs(rows), {"next": torch.full((18,), -1)})["next"].item() == 0.0


def test_gradients_of_batch_parts_sum_to_gradient_of_batch():
    rows, target = rows_of(6, 9, 3, 9), torch.from_numpy(rows_of(27, seed=1)[0])
    full, parts = decoder_model(), decoder_model()
    full(inputs(rows), {"next": target})["next"].backward()
    parts(inputs(rows[:2]), {"next": target[:15]})["next"].backward()
    parts(inputs(rows[2:]), {"next": target[15:]})["next"].backward()
    for name, value in full.named_parameters():
        torch.testing.assert_close(dict(parts.named_parameters())[name].grad, value.grad, rtol=1e-4, atol=1e-5)


def test_width_not_divisible_by_heads_is_refused():
    embedding = InputEmbedding(VOCABULARY, 30, positions=8)
    with pytest.raises(InputError, match="30 cannot be divided among 4 heads"):
        Transformer(embedding, depth=1, width=30, num_heads=4, inner=8, norm="pre", sees="past", activation="relu")
