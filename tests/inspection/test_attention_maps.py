"""Attention maps: equal to those of transformers, in the input format of the model; roll-out, views and edges."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import forebear as fb
from forebear.errors import ForebearError, InputError
from forebear.inference.run import Run
from forebear.inspection.attention import (
    MAX_EDGES,
    MAX_LEGIBLE_TOKENS,
    AttentionMap,
    AttentionPanel,
    AttentionView,
    attention_rollout,
    attention_view,
    compute_attention_maps,
)
from small_runs import open_small_run

TEXT = "The cat sat by the mat"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    settings = {"gpt2": {"tokenizer": "words"}, "bert": {}, "albert": {}}
    return {
        name: open_small_run(name, tmp_path_factory.mktemp(name), steps=40, context=40, **own)
        for name, own in settings.items()
    }


def map_of(weights: np.ndarray, kind="self", text_starts=()) -> AttentionMap:
    rows, columns = (
        tuple(f"{letter}{n}" for n in range(count)) for letter, count in zip("ab", weights.shape[2:], strict=True)
    )
    return AttentionMap(weights, rows, rows if kind != "cross" else columns, kind, kind, text_starts)


def random_map(layers=3, heads=2, n=5, m=None, kind="self") -> AttentionMap:
    rng = np.random.default_rng(1)
    raw = rng.random((layers, heads, n, m or n)) ** 4
    raw = np.tril(raw) if kind == "masked" else raw
    return map_of((raw / raw.sum(-1, keepdims=True)).astype(np.float32), kind)


@pytest.mark.parametrize("name", ["gpt2", "bert", "albert"])
def test_attention_maps_equal_those_of_transformers(name: str, runs: dict[str, Run], tmp_path: Path):
    transformers = pytest.importorskip("transformers")
    run = runs[name]
    (attention_map,) = compute_attention_maps(run, [TEXT, "The dog ran"])
    folder = run.export(tmp_path / "theirs")
    peer = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    input_format = run.folder.spec.input_format(run.tokenizer)
    tokens, segments = input_format.make_row(*(run.tokenizer.encode(text).ids for text in (TEXT, "The dog ran")))
    segment_inputs = {"token_type_ids": torch.from_numpy(segments).long()[None]} if input_format.segments else {}
    with torch.no_grad():
        attentions = peer(torch.from_numpy(tokens).long()[None], output_attentions=True, **segment_inputs).attentions
    expected = torch.cat(attentions).numpy()
    assert attention_map.weights.shape == expected.shape
    np.testing.assert_allclose(attention_map.weights, expected, atol=1e-5)
    # Heads differ, so swapped heads would fail
    assert float(np.abs(expected - np.roll(expected, 1, axis=1)).max()) > 0.02
    assert attention_map.kind == ("masked" if name == "gpt2" else "self")
    assert attention_map.text_starts == (int(np.flatnonzero(segments)[0]),)


def test_attention_map_of_four_words_is_normalized_and_respects_the_causal_mask(tmp_path: Path):
    """Four words give a 4 × 4 map whose rows sum to 1; with a causal mask, row i has weight on 1 … i only."""
    file = tmp_path / "text.txt"
    file.write_text("i have a dream\n" * 40, encoding="utf-8")
    for name, kind in (("bert", "self"), ("gpt2", "masked")):
        settings = {"pairs": "none"} if name == "bert" else {}
        run = open_small_run(name, tmp_path, tokenizer="words", steps=2, to=name, **settings)
        (attention_map,) = fb.attention_maps(run, "i have a dream", bare=True)
        assert (attention_map.rows, attention_map.kind) == (("i", "have", "a", "dream"), kind)
        assert attention_map.weights.shape[2:] == (4, 4)
        np.testing.assert_allclose(attention_map.weights.sum(-1), 1, atol=1e-6)
        assert bool((attention_map.weights[..., attention_map.visible_mask] > 0).all())
        assert bool((attention_map.weights[..., ~attention_map.visible_mask] == 0).all())
        assert attention_map.visible_mask.sum() == (10 if kind == "masked" else 16)


def test_attention_map_rows_follow_the_input_format_of_the_model(runs: dict[str, Run]):
    def row_tokens(name: str, *texts: str, **options: bool) -> str:
        return " ".join(compute_attention_maps(runs[name], texts, **options)[0].rows)

    assert row_tokens("bert", "cat", "dog").startswith("[CLS]")
    assert row_tokens("bert", "cat", "dog").count("[SEP]") == 2
    assert row_tokens("bert", "the ____ sat", bare=True).count("[MASK]") == 1
    assert row_tokens("bert", "the [MASK] sat").count("[MASK]") == 1
    end = runs["gpt2"].tokenizer.id_to_token(runs["gpt2"].tokenizer.special_roles["end"])
    assert row_tokens("gpt2", "cat").count(end) == 1  # as in `next`: no end-of-text token after the text
    assert row_tokens("gpt2", "cat", "dog").count(end) == 3
    assert compute_attention_maps(runs["gpt2"], ["cat"])[0].text_starts == ()


def test_attention_maps_refuse_nan_weights(tmp_path: Path):
    run = open_small_run("gpt2", tmp_path, steps=2)
    with torch.no_grad():
        run.network.encoder.blocks[1].attention.query_key_value.weight[0] = math.nan
    with pytest.raises(ForebearError, match="no numbers"):
        compute_attention_maps(run, ["cat"])


def test_attention_maps_refuse_models_without_attention_and_bad_texts(runs: dict[str, Run], tmp_path: Path):
    with pytest.raises(InputError, match="no attention"):
        compute_attention_maps(open_small_run("ngram", tmp_path), ["cat"])
    for texts, message in (
        ([], "0 texts"),
        (["a"] * 3, "3 texts"),
        ([""], "no tokens"),
        (["cat " * 99], "context of 40"),
    ):
        with pytest.raises(InputError, match=message):
            compute_attention_maps(runs["gpt2"], texts)


@pytest.mark.parametrize("kind", ["self", "masked"])
def test_attention_rollout_is_product_of_mean_heads_mixed_with_identity(kind: str):
    attention_map = random_map(kind=kind)
    mixed = [0.5 * layer.mean(0) + 0.5 * np.eye(5) for layer in attention_map.weights.astype(np.float64)]
    mixed = [layer / layer.sum(1, keepdims=True) for layer in mixed]
    np.testing.assert_allclose(attention_rollout(attention_map, 1), mixed[0], atol=1e-9)
    np.testing.assert_allclose(
        attention_rollout(attention_map), np.linalg.multi_dot([mixed[2], mixed[1], mixed[0]]), atol=1e-9
    )
    np.testing.assert_allclose(attention_view(attention_map, rollout=True).panels[0].weights.sum(1), 1, atol=1e-9)
    assert attention_view(attention_map, -2, rollout=True).panels[0].title == "roll-out to layer 2"
    if kind == "masked":
        assert bool((attention_rollout(attention_map)[~attention_map.visible_mask] == 0).all())


def test_attention_view_selects_layers_and_heads():
    attention_map = random_map()

    def panels(**selection) -> list[tuple]:
        return [(panel.layer, panel.head) for panel in attention_view(attention_map, **selection).panels]

    assert panels() == [(layer, head) for layer in (1, 2, 3) for head in (1, 2)]
    assert panels(layer=-1) == [(3, 1), (3, 2)]
    assert panels(head=-2) == [(1, 1), (2, 1), (3, 1)]
    assert panels(layer=2, head=2) == [(2, 2)]
    np.testing.assert_array_equal(attention_view(attention_map, 2, 2).panels[0].weights, attention_map.weights[1, 1])
    np.testing.assert_allclose(
        attention_view(attention_map, 1, "mean").panels[0].weights, attention_map.weights[0].mean(0)
    )
    assert attention_view(attention_map).num_columns == 2
    for selection, message in (
        ({"layer": 4}, "no layer 4"),
        ({"layer": 0}, "no layer 0"),
        ({"head": -3}, "no head -3"),
    ):
        with pytest.raises(InputError, match=message):
            attention_view(attention_map, **selection)
    with pytest.raises(InputError, match="all heads"):
        attention_view(attention_map, head=1, rollout=True)
    with pytest.raises(InputError, match="not rolled out"):
        attention_view(random_map(m=3, kind="cross"), rollout=True)


@given(st.integers(1, 60), st.integers(0, 3), st.sampled_from(["self", "masked"]))
def test_attention_edges_are_the_strongest_of_each_panel(top: int, layer: int, kind: str):
    attention_map = random_map(kind=kind)
    view = attention_view(attention_map, layer or None)
    share = max(1, top // len(view.panels))
    cells, runners_up = [], []
    for panel in view.panels:
        cells_of_panel = [
            (-float(panel.weights[i, j]), i, j) for i in range(5) for j in range(5) if attention_map.visible_mask[i, j]
        ]
        # The first token of a causal map can only attend to itself
        cells_of_panel = [cell for cell in cells_of_panel if kind == "self" or cell[1] > 0]
        cells += sorted(cells_of_panel)[:share]
        runners_up += sorted(cells_of_panel)[share : share + 1]
    # The remainder goes to the strongest
    expected = sorted(cells + sorted(runners_up)[: max(0, top - len(cells))])[:top]
    assert [(-edge.weight, edge.row, edge.column) for edge in view.strongest_edges(top)] == expected


def test_attention_view_of_long_text_lists_edges_instead_of_weights():
    short_is_long, long_is_long = (
        AttentionView(random_map(1, 1, n), (), 1).is_long for n in (MAX_LEGIBLE_TOKENS, MAX_LEGIBLE_TOKENS + 1)
    )
    assert (short_is_long, long_is_long) == (False, True)
    data = attention_view(random_map(2, 2, MAX_LEGIBLE_TOKENS + 1)).to_dict(MAX_EDGES)
    assert "panels" not in data
    assert len(data["edges"]) == MAX_EDGES
    first = data["edges"][0]
    assert first["tokens"] == [f"a{first['from'] - 1}", f"a{first['to'] - 1}"]
    short_data = attention_view(random_map(), 1, 1).to_dict(None)
    np.testing.assert_allclose(np.sum(short_data["panels"][0]["weights"], axis=1), 1, atol=1e-5)


def test_attention_map_shape_must_match_its_tokens():
    with pytest.raises(ValueError, match="for 2 × 2 tokens"):
        AttentionMap(np.ones((1, 1, 2, 3)), ("a", "b"), ("a", "b"), "self", "")
    with pytest.raises(ValueError, match="square"):
        AttentionMap(np.ones((1, 1, 2, 3)), ("a", "b"), ("a", "b", "c"), "masked", "")
    assert AttentionPanel(2, "mean", np.ones((1, 1))).title == "layer 2, mean of its heads"
