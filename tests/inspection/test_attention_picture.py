"""Pictures of attention: of every form and kind, never huge, with all tokens; what cannot be seen is left empty."""

from __future__ import annotations

import struct
from xml.etree import ElementTree

import numpy as np
import pytest
from test_maps import drawn

from forebear.errors import InputError
from forebear.inspection import attention_plots
from forebear.inspection.attention import MAX_EDGES, AttentionEdge, AttentionMap, AttentionPanel, attention_view
from forebear.inspection.attention_plots import _line_offsets, plot_attention
from forebear.inspection.token_labels import CONTINUATION_NOTE
from forebear.reports.plotting import DOTS_PER_INCH

pytest.importorskip("matplotlib")

CHINESE = ("我", "有", "一个", "梦想", "。")
LARGEST = 20 * DOTS_PER_INCH


def size(png: bytes) -> tuple[int, int]:
    assert png.startswith(b"\x89PNG")
    return struct.unpack(">II", png[16:24])


@pytest.fixture
def axes(monkeypatch: pytest.MonkeyPatch) -> list:
    """What every map was drawn with."""
    seen: list = []
    heat = attention_plots._draw_heatmap

    def kept(axes, *how):
        seen.append((axes, image := heat(axes, *how)))
        return image

    monkeypatch.setattr(attention_plots, "_draw_heatmap", kept)
    return seen


@pytest.mark.parametrize("kind", ["self", "masked"])
def test_one_head_has_its_tokens_on_both_sides_and_its_numbers(kind: str, axes: list):
    found = drawn(kind=kind)
    one = attention_view(found, 2, 1)
    plot_attention(one, "run: “a $b_1$ text”", "png")
    ((drawn_on, image),) = axes
    assert [label.get_text() for label in drawn_on.get_yticklabels()] == list(found.rows)
    assert [label.get_text() for label in drawn_on.get_xticklabels()] == list(found.columns)
    values = image.get_array()
    np.testing.assert_array_equal(np.ma.getmaskarray(values), ~found.visible_mask)  # empty, not zero
    assert len(drawn_on.texts) == found.visible_mask.sum()
    assert drawn_on.texts[0].get_text() == f"{values[0, 0]:.2f}".removeprefix("0").replace("1.00", "1")
    assert "layer 2, head 1" in drawn_on.figure.get_suptitle()


@pytest.mark.parametrize(("rollout", "kind"), [(False, "self"), (False, "cross"), (True, "self")])
def test_the_sides_say_who_looks_at_whom(rollout: bool, kind: str, axes: list):
    one = attention_view(drawn(2, 2, 4, kind=kind), 1, None if rollout else 1, rollout=rollout)
    plot_attention(one, "run", "png")
    ((on, _),) = axes
    assert (on.get_ylabel(), on.get_xlabel()) == one.axis_labels
    words = {"self": "looks at", "cross": "of the source"}["cross" if kind == "cross" else "self"]
    assert ("so much of" if rollout else words) in on.get_xlabel()


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("layers", "heads", "n"), [(1, 1, 3), (1, 1, 60), (2, 2, 14), (2, 2, 40), (4, 4, 16), (12, 12, 9)]
)
def test_pictures_fit_a_page_and_their_letters_can_be_read(layers: int, heads: int, n: int, axes: list):
    one = attention_view(drawn(layers, heads, n))
    wide, high = size(plot_attention(one, "run", "png"))
    assert max(wide, high) < 12.5 * DOTS_PER_INCH
    cells = [image.get_window_extent() for _, image in axes]
    assert all(cell.width == pytest.approx(cell.height, rel=0.01) for cell in cells)  # squares
    filled = (
        sum(cell.width * cell.height for cell in cells) / axes[0][0].figure.dpi ** 2 * DOTS_PER_INCH**2 / (wide * high)
    )
    assert filled > (0.25 if n < 5 else 0.5)  # of the picture is maps
    for on in {on for on, _ in axes}:
        names = [*on.get_xticklabels(), *on.get_yticklabels()]
        assert all(name.get_fontsize() >= 6 for name in names if name.get_text())


def test_pieces_of_words_are_explained_where_there_are_any(axes: list):
    weights = drawn(1, 1, 3).weights
    for names, told in ((("do", "·ing", "."), True), (("do", "ing", "·"), False)):
        plot_attention(
            attention_view(AttentionMap(weights, names, names, "self", "self-attention"), 1, 1), "run", "png"
        )
        assert (CONTINUATION_NOTE in (axes[-1][0].figure.get_supxlabel() or "")) == told


def test_letters_of_an_svg_need_no_font_and_its_title_can_be_found():
    made = plot_attention(attention_view(drawn(), 1, 1), "run: “a text”", "svg")
    tree = ElementTree.fromstring(made)
    assert not list(tree.iter("{http://www.w3.org/2000/svg}text"))
    title, *_ = tree.iter("{http://purl.org/dc/elements/1.1/}title")
    assert title.text == "run: “a text”\nself, layer 1, head 1"


def test_the_same_edge_of_several_heads_is_drawn_side_by_side():
    edges = [
        AttentionEdge(AttentionPanel(layer, 1, np.eye(2)), row, 0, 0.5)
        for layer, row in ((1, 0), (2, 0), (3, 1), (4, 0))
    ]
    first, second, alone, third = _line_offsets(edges)
    assert alone == 0
    assert first < second < third
    assert first == pytest.approx(-third)
    assert len(set(_line_offsets(edges[:1] * 50))) == 50
    assert max(_line_offsets(edges[:1] * 50)) < 0.5  # never as far as the next token


def test_grids_share_one_scale_and_say_which_head_is_which(axes: list):
    plot_attention(attention_view(drawn()), "run", "svg")
    assert [on.get_title() for on, _ in axes] == [
        f"layer {layer} · head {head}" for layer in (1, 2, 3) for head in (1, 2)
    ]
    assert len({image.get_clim() for _, image in axes}) == 1


@pytest.mark.sample(1)
@pytest.mark.parametrize("how", [{}, {"layer": 1}, {"head": "mean"}])
def test_many_maps_stand_in_one_system_of_coordinates(how: dict, axes: list):
    found = drawn(17, 20, 6, kind="masked")
    one = attention_view(found, **how)
    plot_attention(one, "run", "png")
    assert len({id(on) for on, _ in axes}) == 1
    assert len(axes) == len(one.panels)
    places = [tuple(image.get_extent()) for _, image in axes]
    assert len(set(places)) == len(places)
    on, wide = axes[0][0], {round(right - left, 6) for left, right, *_ in places}
    assert wide == {1.0}
    names = [label.get_text() for label in (*on.get_xticklabels(), *on.get_yticklabels(), *on.texts)]
    if not how:
        assert names == [*(f"head {n}" for n in range(1, 21)), *(f"layer {n}" for n in range(1, 18))]
    else:
        assert names == [one.summary(panel) for panel in one.panels]
    for panel, (_, image) in zip(one.panels, axes, strict=True):
        np.testing.assert_array_equal(
            image.get_array().compressed(), panel.weights[found.visible_mask].astype(np.float32)
        )


def test_a_map_need_not_be_square(axes: list):
    found = drawn(2, 2, 3, 6, "cross")
    for one, top in (
        (attention_view(found), None),
        (attention_view(found, 1, "mean"), None),
        (attention_view(found), 8),
    ):
        wide, high = size(plot_attention(one, "run", "png", top))
        assert max(wide, high) < LARGEST
    assert all(image.get_array().shape == (3, 6) for _, image in axes)


def test_borders_between_texts_are_marked(axes: list):
    weights = drawn(1, 1, 5).weights
    plot_attention(
        attention_view(AttentionMap(weights, ("a",) * 5, ("a",) * 5, "self", "self", (3,)), 1, 1), "run", "svg"
    )
    ((on, _),) = axes
    assert sorted(line.get_xdata()[0] for line in on.lines) == [-0.5, 2.5]


@pytest.mark.parametrize("n", [1, 2, 61, 400])
def test_pictures_are_never_huge(n: int):
    found = drawn(2, 3, n)
    one = attention_view(found)
    top = MAX_EDGES if one.is_long else None
    wide, high = size(plot_attention(one, "run", "png", top))
    assert min(wide, high) > 300
    assert max(wide, high) < LARGEST


def test_a_picture_of_chinese_has_its_characters_or_none():
    weights = drawn(1, 2, 5).weights
    one = attention_view(AttentionMap(weights, CHINESE, CHINESE, "self", "self-attention"))
    try:
        made = plot_attention(one, "run", "svg")
    except InputError as error:
        pytest.skip(f"told, and nothing drawn: {error.message}")
    ElementTree.fromstring(made)
