"""Attention plots: every view and kind of attention, all tokens labeled, bounded size, masked cells empty."""

from __future__ import annotations

import struct
from xml.etree import ElementTree

import numpy as np
import pytest
from test_attention_maps import random_map

from forebear.errors import InputError
from forebear.inspection import attention_visualization
from forebear.inspection.attention import MAX_EDGES, AttentionEdge, AttentionMap, AttentionPanel, attention_view
from forebear.inspection.attention_visualization import _line_offsets, plot_attention
from forebear.inspection.token_labels import CONTINUATION_NOTE
from forebear.reports.plotting import DOTS_PER_INCH

pytest.importorskip("matplotlib")

CHINESE_TOKENS = ("我", "有", "一个", "梦想", "。")
MAX_PIXELS = 20 * DOTS_PER_INCH


def png_size(png: bytes) -> tuple[int, int]:
    assert png.startswith(b"\x89PNG")
    return struct.unpack(">II", png[16:24])


@pytest.fixture
def axes(monkeypatch: pytest.MonkeyPatch) -> list:
    """The axes and the image of every heat map that is drawn."""
    heatmaps: list = []
    draw_heatmap = attention_visualization._draw_heatmap

    def record(axes, *arguments):
        heatmaps.append((axes, image := draw_heatmap(axes, *arguments)))
        return image

    monkeypatch.setattr(attention_visualization, "_draw_heatmap", record)
    return heatmaps


@pytest.mark.parametrize("kind", ["self", "masked"])
def test_single_head_plot_labels_tokens_and_writes_weights_of_visible_cells(kind: str, axes: list):
    attention_map = random_map(kind=kind)
    view = attention_view(attention_map, 2, 1)
    plot_attention(view, "run: “a $b_1$ text”", "png")
    ((heatmap_axes, image),) = axes
    assert [label.get_text() for label in heatmap_axes.get_yticklabels()] == list(attention_map.rows)
    assert [label.get_text() for label in heatmap_axes.get_xticklabels()] == list(attention_map.columns)
    values = image.get_array()
    # Masked cells are empty, not zero
    np.testing.assert_array_equal(np.ma.getmaskarray(values), ~attention_map.visible_mask)
    assert len(heatmap_axes.texts) == attention_map.visible_mask.sum()
    assert heatmap_axes.texts[0].get_text() == f"{values[0, 0]:.2f}".removeprefix("0").replace("1.00", "1")
    assert "layer 2, head 1" in heatmap_axes.figure.get_suptitle()


@pytest.mark.parametrize(("rollout", "kind"), [(False, "self"), (False, "cross"), (True, "self")])
def test_attention_plot_axis_labels_name_query_and_key(rollout: bool, kind: str, axes: list):
    view = attention_view(random_map(2, 2, 4, kind=kind), 1, None if rollout else 1, rollout=rollout)
    plot_attention(view, "run", "png")
    ((heatmap_axes, _),) = axes
    assert (heatmap_axes.get_ylabel(), heatmap_axes.get_xlabel()) == view.axis_labels
    words = {"self": "looks at", "cross": "of the source"}["cross" if kind == "cross" else "self"]
    assert ("so much of" if rollout else words) in heatmap_axes.get_xlabel()


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("layers", "heads", "n"), [(1, 1, 3), (1, 1, 60), (2, 2, 14), (2, 2, 40), (4, 4, 16), (12, 12, 9)]
)
def test_attention_plot_fits_a_page_with_square_cells_and_readable_labels(layers: int, heads: int, n: int, axes: list):
    view = attention_view(random_map(layers, heads, n))
    width, height = png_size(plot_attention(view, "run", "png"))
    assert max(width, height) < 12.5 * DOTS_PER_INCH
    cells = [image.get_window_extent() for _, image in axes]
    assert all(cell.width == pytest.approx(cell.height, rel=0.01) for cell in cells)  # squares
    covered = (
        sum(cell.width * cell.height for cell in cells)
        / axes[0][0].figure.dpi ** 2
        * DOTS_PER_INCH**2
        / (width * height)
    )
    assert covered > (0.25 if n < 5 else 0.5)  # share of the figure that heat maps cover
    for heatmap_axes in {heatmap_axes for heatmap_axes, _ in axes}:
        labels = [*heatmap_axes.get_xticklabels(), *heatmap_axes.get_yticklabels()]
        assert all(label.get_fontsize() >= 6 for label in labels if label.get_text())


def test_attention_plot_explains_continuation_marks_only_where_tokens_have_them(axes: list):
    weights = random_map(1, 1, 3).weights
    for tokens, has_note in ((("do", "·ing", "."), True), (("do", "ing", "·"), False)):
        plot_attention(
            attention_view(AttentionMap(weights, tokens, tokens, "self", "self-attention"), 1, 1), "run", "png"
        )
        assert (CONTINUATION_NOTE in (axes[-1][0].figure.get_supxlabel() or "")) == has_note


def test_attention_svg_has_text_as_paths_and_a_title_in_its_metadata():
    svg = plot_attention(attention_view(random_map(), 1, 1), "run: “a text”", "svg")
    tree = ElementTree.fromstring(svg)
    assert not list(tree.iter("{http://www.w3.org/2000/svg}text"))
    title, *_ = tree.iter("{http://purl.org/dc/elements/1.1/}title")
    assert title.text == "run: “a text”\nself, layer 1, head 1"


def test_edges_between_the_same_tokens_are_offset_side_by_side():
    edges = [
        AttentionEdge(AttentionPanel(layer, 1, np.eye(2)), row, 0, 0.5)
        for layer, row in ((1, 0), (2, 0), (3, 1), (4, 0))
    ]
    first, second, alone, third = _line_offsets(edges)
    assert alone == 0
    assert first < second < third
    assert first == pytest.approx(-third)
    assert len(set(_line_offsets(edges[:1] * 50))) == 50
    assert max(_line_offsets(edges[:1] * 50)) < 0.5  # less than half the distance to the next token


def test_attention_grid_names_layer_and_head_and_shares_one_color_scale(axes: list):
    plot_attention(attention_view(random_map()), "run", "svg")
    assert [heatmap_axes.get_title() for heatmap_axes, _ in axes] == [
        f"layer {layer} · head {head}" for layer in (1, 2, 3) for head in (1, 2)
    ]
    assert len({image.get_clim() for _, image in axes}) == 1


@pytest.mark.sample(1)
@pytest.mark.parametrize("selection", [{}, {"layer": 1}, {"head": "mean"}])
def test_attention_mosaic_draws_all_panels_in_one_axes(selection: dict, axes: list):
    attention_map = random_map(17, 20, 6, kind="masked")
    view = attention_view(attention_map, **selection)
    plot_attention(view, "run", "png")
    assert len({id(heatmap_axes) for heatmap_axes, _ in axes}) == 1
    assert len(axes) == len(view.panels)
    extents = [tuple(image.get_extent()) for _, image in axes]
    assert len(set(extents)) == len(extents)
    heatmap_axes, widths = axes[0][0], {round(right - left, 6) for left, right, *_ in extents}
    assert widths == {1.0}
    labels = [
        label.get_text()
        for label in (*heatmap_axes.get_xticklabels(), *heatmap_axes.get_yticklabels(), *heatmap_axes.texts)
    ]
    if not selection:
        assert labels == [*(f"head {n}" for n in range(1, 21)), *(f"layer {n}" for n in range(1, 18))]
    else:
        assert labels == [view.summary(panel) for panel in view.panels]
    for panel, (_, image) in zip(view.panels, axes, strict=True):
        np.testing.assert_array_equal(
            image.get_array().compressed(), panel.weights[attention_map.visible_mask].astype(np.float32)
        )


def test_cross_attention_plot_of_non_square_map_has_bounded_size(axes: list):
    attention_map = random_map(2, 2, 3, 6, "cross")
    for view, top in (
        (attention_view(attention_map), None),
        (attention_view(attention_map, 1, "mean"), None),
        (attention_view(attention_map), 8),
    ):
        width, height = png_size(plot_attention(view, "run", "png", top))
        assert max(width, height) < MAX_PIXELS
    assert all(image.get_array().shape == (3, 6) for _, image in axes)


def test_attention_plot_draws_lines_at_text_boundaries(axes: list):
    weights = random_map(1, 1, 5).weights
    plot_attention(
        attention_view(AttentionMap(weights, ("a",) * 5, ("a",) * 5, "self", "self", (3,)), 1, 1), "run", "svg"
    )
    ((heatmap_axes, _),) = axes
    assert sorted(line.get_xdata()[0] for line in heatmap_axes.lines) == [-0.5, 2.5]


@pytest.mark.parametrize("n", [1, 2, 61, 400])
def test_attention_plot_size_is_bounded_for_any_number_of_tokens(n: int):
    attention_map = random_map(2, 3, n)
    view = attention_view(attention_map)
    top = MAX_EDGES if view.is_long else None
    width, height = png_size(plot_attention(view, "run", "png", top))
    assert min(width, height) > 300
    assert max(width, height) < MAX_PIXELS


def test_attention_plot_of_chinese_tokens_is_drawn_or_refused_for_missing_fonts():
    weights = random_map(1, 2, 5).weights
    view = attention_view(AttentionMap(weights, CHINESE_TOKENS, CHINESE_TOKENS, "self", "self-attention"))
    try:
        svg = plot_attention(view, "run", "svg")
    except InputError as error:
        pytest.skip(f"refused without a Chinese font: {error.message}")
    ElementTree.fromstring(svg)
