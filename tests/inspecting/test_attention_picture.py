"""Pictures of attention: of every form and kind, never huge, with all tokens; what cannot be seen is left empty."""

from __future__ import annotations

import struct
from xml.etree import ElementTree

import numpy as np
import pytest
from test_maps import drawn

from forebear.errors import BadInput
from forebear.inspecting import attention_picture
from forebear.inspecting.attention_picture import picture
from forebear.inspecting.drawing import SHARP
from forebear.inspecting.maps import Map
from forebear.inspecting.views import EDGES, view

pytest.importorskip("matplotlib")

CHINESE = ("我", "有", "一个", "梦想", "。")
LARGEST = 20 * SHARP


def size(png: bytes) -> tuple[int, int]:
    assert png.startswith(b"\x89PNG")
    return struct.unpack(">II", png[16:24])


@pytest.fixture
def axes(monkeypatch: pytest.MonkeyPatch) -> list:
    """What every map was drawn with."""
    seen: list = []
    heat = attention_picture._heat

    def kept(axes, *how):
        seen.append((axes, image := heat(axes, *how)))
        return image

    monkeypatch.setattr(attention_picture, "_heat", kept)
    return seen


@pytest.mark.parametrize("kind", ["self", "masked"])
def test_one_head_has_its_tokens_on_both_sides_and_its_numbers(kind: str, axes: list):
    found = drawn(kind=kind)
    one = view(found, 2, 1)
    picture(one, "run: “a $b_1$ text”", "png")
    ((drawn_on, image),) = axes
    assert [label.get_text() for label in drawn_on.get_yticklabels()] == list(found.rows)
    assert [label.get_text() for label in drawn_on.get_xticklabels()] == list(found.columns)
    values = image.get_array()
    np.testing.assert_array_equal(np.ma.getmaskarray(values), ~found.seen)  # empty, not zero
    assert len(drawn_on.texts) == found.seen.sum()
    assert drawn_on.texts[0].get_text() == f"{values[0, 0]:.2f}".removeprefix("0").replace("1.00", "1")
    assert "layer 2, head 1" in drawn_on.figure.get_suptitle()


def test_grids_share_one_scale_and_say_which_head_is_which(axes: list):
    picture(view(drawn()), "run", "svg")
    assert [on.get_title() for on, _ in axes] == [
        f"layer {layer} · head {head}" for layer in (1, 2, 3) for head in (1, 2)
    ]
    assert len({image.get_clim() for _, image in axes}) == 1


@pytest.mark.parametrize("how", [{}, {"layer": 1}, {"head": "mean"}])
def test_many_maps_stand_in_one_system_of_coordinates(how: dict, axes: list):
    found = drawn(17, 20, 6, kind="masked")
    one = view(found, **how)
    picture(one, "run", "png")
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
        assert names == [one.brief(panel) for panel in one.panels]
    for panel, (_, image) in zip(one.panels, axes, strict=True):
        np.testing.assert_array_equal(image.get_array().compressed(), panel.weights[found.seen].astype(np.float32))


def test_a_map_need_not_be_square(axes: list):
    found = drawn(2, 2, 3, 6, "cross")
    for one, top in ((view(found), None), (view(found, 1, "mean"), None), (view(found), 8)):
        wide, high = size(picture(one, "run", "png", top))
        assert max(wide, high) < LARGEST
    assert all(image.get_array().shape == (3, 6) for _, image in axes)


def test_borders_between_texts_are_marked(axes: list):
    weights = drawn(1, 1, 5).weights
    picture(view(Map(weights, ("a",) * 5, ("a",) * 5, "self", "self", (3,)), 1, 1), "run", "svg")
    ((on, _),) = axes
    assert sorted(line.get_xdata()[0] for line in on.lines) == [-0.5, 2.5]


@pytest.mark.parametrize("n", [1, 2, 61, 400])
def test_pictures_are_never_huge(n: int):
    found = drawn(2, 3, n)
    one = view(found)
    top = EDGES if one.is_long else None
    wide, high = size(picture(one, "run", "png", top))
    assert min(wide, high) > 300
    assert max(wide, high) < LARGEST


def test_a_picture_of_chinese_has_its_characters_or_none():
    weights = drawn(1, 2, 5).weights
    one = view(Map(weights, CHINESE, CHINESE, "self", "self-attention"))
    try:
        made = picture(one, "run", "svg")
    except BadInput as error:
        pytest.skip(f"told, and nothing drawn: {error.what}")
    ElementTree.fromstring(made)
