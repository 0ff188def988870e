"""Where tokens look: equal to transformers' own maps, laid out as the milestone does, rolled out by the definition."""

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
from small_runs import opened

SAID = "The cat sat by the mat"


@pytest.fixture(scope="module")
def looked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    ways = {"gpt2": {"tokenizer": "words"}, "bert": {}, "albert": {}}
    return {
        name: opened(name, tmp_path_factory.mktemp(name), steps=40, context=40, **more) for name, more in ways.items()
    }


def made(weights: np.ndarray, kind="self", borders=()) -> AttentionMap:
    rows, columns = (
        tuple(f"{side}{n}" for n in range(count)) for side, count in zip("ab", weights.shape[2:], strict=True)
    )
    return AttentionMap(weights, rows, rows if kind != "cross" else columns, kind, kind, borders)


def drawn(layers=3, heads=2, n=5, m=None, kind="self") -> AttentionMap:
    rng = np.random.default_rng(1)
    raw = rng.random((layers, heads, n, m or n)) ** 4
    raw = np.tril(raw) if kind == "masked" else raw
    return made((raw / raw.sum(-1, keepdims=True)).astype(np.float32), kind)


@pytest.mark.parametrize("name", ["gpt2", "bert", "albert"])
def test_maps_are_those_of_transformers(name: str, looked: dict[str, Run], tmp_path: Path):
    transformers = pytest.importorskip("transformers")
    run = looked[name]
    (found,) = compute_attention_maps(run, [SAID, "The dog ran"])
    folder = run.export(tmp_path / "theirs")
    peer = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    layout = run.folder.spec.input_format(run.tokenizer)
    tokens, segments = layout.make_row(*(run.tokenizer.encode(text).ids for text in (SAID, "The dog ran")))
    more = {"token_type_ids": torch.from_numpy(segments).long()[None]} if layout.segments else {}
    with torch.no_grad():
        theirs = peer(torch.from_numpy(tokens).long()[None], output_attentions=True, **more).attentions
    wanted = torch.cat(theirs).numpy()
    assert found.weights.shape == wanted.shape
    np.testing.assert_allclose(found.weights, wanted, atol=1e-5)
    assert float(np.abs(wanted - np.roll(wanted, 1, axis=1)).max()) > 0.02  # heads differ: an exchanged one would show
    assert found.kind == ("masked" if name == "gpt2" else "self")
    assert found.text_starts == (int(np.flatnonzero(segments)[0]),)


def test_i_have_a_dream(tmp_path: Path):
    """The map of four words: four by four, each row sums to 1; with the mask, row i has weight on 1 … i only."""
    file = tmp_path / "text.txt"
    file.write_text("i have a dream\n" * 40, encoding="utf-8")
    for name, kind in (("bert", "self"), ("gpt2", "masked")):
        alone = {"pairs": "none"} if name == "bert" else {}
        run = opened(name, tmp_path, tokenizer="words", steps=2, to=name, **alone)
        (found,) = fb.attention_maps(run, "i have a dream", bare=True)
        assert (found.rows, found.kind) == (("i", "have", "a", "dream"), kind)
        assert found.weights.shape[2:] == (4, 4)
        np.testing.assert_allclose(found.weights.sum(-1), 1, atol=1e-6)
        assert bool((found.weights[..., found.visible_mask] > 0).all())
        assert bool((found.weights[..., ~found.visible_mask] == 0).all())
        assert found.visible_mask.sum() == (10 if kind == "masked" else 16)


def test_texts_are_laid_out_as_the_milestone_does(looked: dict[str, Run]):
    def words(name: str, *texts: str, **how: bool) -> str:
        return " ".join(compute_attention_maps(looked[name], texts, **how)[0].rows)

    assert words("bert", "cat", "dog").startswith("[CLS]")
    assert words("bert", "cat", "dog").count("[SEP]") == 2
    assert words("bert", "the ____ sat", bare=True).count("[MASK]") == 1
    assert words("bert", "the [MASK] sat").count("[MASK]") == 1
    end = looked["gpt2"].tokenizer.id_to_token(looked["gpt2"].tokenizer.special_roles["end"])
    assert words("gpt2", "cat").count(end) == 1  # as `next` reads it: that it ends is not known
    assert words("gpt2", "cat", "dog").count(end) == 3
    assert compute_attention_maps(looked["gpt2"], ["cat"])[0].text_starts == ()


def test_damaged_weights_are_told(tmp_path: Path):
    run = opened("gpt2", tmp_path, steps=2)
    with torch.no_grad():
        run.network.encoder.blocks[1].attention.query_key_value.weight[0] = math.nan
    with pytest.raises(ForebearError, match="no numbers"):
        compute_attention_maps(run, ["cat"])


def test_what_has_no_maps(looked: dict[str, Run], tmp_path: Path):
    with pytest.raises(InputError, match="no attention"):
        compute_attention_maps(opened("ngram", tmp_path), ["cat"])
    for texts, what in (([], "0 texts"), (["a"] * 3, "3 texts"), ([""], "no tokens"), (["cat " * 99], "context of 40")):
        with pytest.raises(InputError, match=what):
            compute_attention_maps(looked["gpt2"], texts)


@pytest.mark.parametrize("kind", ["self", "masked"])
def test_a_roll_out_is_the_product_of_layers(kind: str):
    found = drawn(kind=kind)
    mixed = [0.5 * layer.mean(0) + 0.5 * np.eye(5) for layer in found.weights.astype(np.float64)]
    mixed = [layer / layer.sum(1, keepdims=True) for layer in mixed]
    np.testing.assert_allclose(attention_rollout(found, 1), mixed[0], atol=1e-9)
    np.testing.assert_allclose(attention_rollout(found), np.linalg.multi_dot([mixed[2], mixed[1], mixed[0]]), atol=1e-9)
    np.testing.assert_allclose(attention_view(found, rollout=True).panels[0].weights.sum(1), 1, atol=1e-9)
    assert attention_view(found, -2, rollout=True).panels[0].title == "roll-out to layer 2"
    if kind == "masked":
        assert bool((attention_rollout(found)[~found.visible_mask] == 0).all())


def test_views_choose_layers_and_heads():
    found = drawn()

    def panels(**how) -> list[tuple]:
        return [(panel.layer, panel.head) for panel in attention_view(found, **how).panels]

    assert panels() == [(layer, head) for layer in (1, 2, 3) for head in (1, 2)]
    assert panels(layer=-1) == [(3, 1), (3, 2)]
    assert panels(head=-2) == [(1, 1), (2, 1), (3, 1)]
    assert panels(layer=2, head=2) == [(2, 2)]
    np.testing.assert_array_equal(attention_view(found, 2, 2).panels[0].weights, found.weights[1, 1])
    np.testing.assert_allclose(attention_view(found, 1, "mean").panels[0].weights, found.weights[0].mean(0))
    assert attention_view(found).across == 2
    for how, what in (({"layer": 4}, "no layer 4"), ({"layer": 0}, "no layer 0"), ({"head": -3}, "no head -3")):
        with pytest.raises(InputError, match=what):
            attention_view(found, **how)
    with pytest.raises(InputError, match="all heads"):
        attention_view(found, head=1, rollout=True)
    with pytest.raises(InputError, match="not rolled out"):
        attention_view(drawn(m=3, kind="cross"), rollout=True)


@given(st.integers(1, 60), st.integers(0, 3), st.sampled_from(["self", "masked"]))
def test_edges_are_the_strongest(top: int, layer: int, kind: str):
    found = drawn(kind=kind)
    one = attention_view(found, layer or None)
    share = max(1, top // len(one.panels))
    cells, next_ones = [], []
    for panel in one.panels:
        own = [(-float(panel.weights[i, j]), i, j) for i in range(5) for j in range(5) if found.visible_mask[i, j]]
        own = [cell for cell in own if kind == "self" or cell[1] > 0]  # the first token of a masked map has no choice
        cells += sorted(own)[:share]
        next_ones += sorted(own)[share : share + 1]
    wanted = sorted(cells + sorted(next_ones)[: max(0, top - len(cells))])[:top]  # what cannot be shared out evenly
    assert [(-edge.weight, edge.row, edge.column) for edge in one.strongest_edges(top)] == wanted


def test_long_texts_are_told_by_their_edges():
    short, long = (AttentionView(drawn(1, 1, n), (), 1).is_long for n in (MAX_LEGIBLE_TOKENS, MAX_LEGIBLE_TOKENS + 1))
    assert (short, long) == (False, True)
    facts = attention_view(drawn(2, 2, MAX_LEGIBLE_TOKENS + 1)).to_dict(MAX_EDGES)
    assert "panels" not in facts
    assert len(facts["edges"]) == MAX_EDGES
    first = facts["edges"][0]
    assert first["tokens"] == [f"a{first['from'] - 1}", f"a{first['to'] - 1}"]
    whole = attention_view(drawn(), 1, 1).to_dict(None)
    np.testing.assert_allclose(np.sum(whole["panels"][0]["weights"], axis=1), 1, atol=1e-5)


def test_a_map_must_fit_its_tokens():
    with pytest.raises(ValueError, match="for 2 × 2 tokens"):
        AttentionMap(np.ones((1, 1, 2, 3)), ("a", "b"), ("a", "b"), "self", "")
    with pytest.raises(ValueError, match="square"):
        AttentionMap(np.ones((1, 1, 2, 3)), ("a", "b"), ("a", "b", "c"), "masked", "")
    assert AttentionPanel(2, "mean", np.ones((1, 1))).title == "layer 2, mean of its heads"
