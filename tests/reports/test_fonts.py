"""Fonts for pictures: chosen by the characters that are drawn; what no font has is told, and never drawn as a box."""

from __future__ import annotations

import logging

import pytest

from forebear.errors import ForebearError, InputError
from forebear.reports import plotting
from forebear.reports.plotting import figure_bytes, font_families, new_figure, plot_style, undrawable_texts

HERE = [("Latin", frozenset(range(0x250))), ("Greek", frozenset(range(0x370, 0x400))), ("Han", frozenset({0x6211}))]


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three made-up fonts."""
    monkeypatch.setattr(plotting, "_fonts", lambda: iter(HERE))


def test_only_fonts_that_are_needed_are_taken(installed: None):
    assert font_families(["abc", " \n"]) == ["Latin"]
    assert font_families(["我"]) == ["Latin", "Han"]
    assert font_families(["我 λ a"]) == ["Latin", "Greek", "Han"]
    assert font_families([]) == ["Latin"]


def test_what_no_font_has_is_named_with_a_remedy(installed: None):
    with pytest.raises(InputError) as told:
        font_families(["我爱你 a", "你"], "; or go without")
    assert told.value.message == "no font installed here has 你 (U+4F60) 爱 (U+7231)"
    assert "fonts-noto-cjk" in told.value.hint
    assert told.value.hint.endswith("; or go without")
    with pytest.raises(InputError) as told:
        font_families(["😀"])
    assert "noto-cjk" not in told.value.hint
    with pytest.raises(InputError, match="and 8 more"):
        font_families(["".join(map(chr, range(0x5000, 0x5014)))])


def test_texts_that_cannot_be_drawn_are_found(installed: None):
    assert undrawable_texts(["a我", "a😀", "我爱", "λ"]) == ["a😀", "我爱"]
    assert undrawable_texts([]) == []


def test_fonts_of_this_machine():
    pytest.importorskip("matplotlib")
    assert font_families(["abc ␣ ⏎ … →"]) == ["DejaVu Sans"]  # which matplotlib brings along
    with pytest.raises(InputError, match=r"U\+10FFFD"):
        font_families(["\U0010fffd"])  # only a font of boxes would have it


def test_a_picture_leaves_the_settings_of_others_alone():
    matplotlib = pytest.importorskip("matplotlib")
    before = dict(matplotlib.rcParams)
    log = logging.getLogger("matplotlib.font_manager")
    level = log.level
    assert log.isEnabledFor(logging.WARNING)
    with plot_style(["a"]):
        assert not log.isEnabledFor(logging.WARNING)  # which weight a font lacks is no concern of who looks
        figure = new_figure(1, 1)
        figure.text(0, 0, "a $x")
        first = figure_bytes(figure, "svg")
        assert first == figure_bytes(figure, "svg")
    assert dict(matplotlib.rcParams) == before
    assert log.level == level
    assert b"<svg" in first


def test_a_box_is_an_error():
    pytest.importorskip("matplotlib")
    with plot_style(["a"]):
        figure = new_figure(1, 1)
        figure.text(0, 0, "\ue123")  # not among the texts that were announced
        with pytest.raises(ForebearError, match="could not be drawn"):
            figure_bytes(figure, "png")
