"""Plots: fonts are selected by the characters drawn, and characters without a font are refused."""

from __future__ import annotations

import logging

import pytest

from forebear.errors import ForebearError, InputError
from forebear.reports import plotting
from forebear.reports.plotting import figure_bytes, font_families, new_figure, plot_style, undrawable_texts

FONTS = [("Latin", frozenset(range(0x250))), ("Greek", frozenset(range(0x370, 0x400))), ("Han", frozenset({0x6211}))]


@pytest.fixture
def installed_fonts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three fake fonts."""
    monkeypatch.setattr(plotting, "_fonts", lambda: iter(FONTS))


def test_font_families_include_only_needed_fonts(installed_fonts: None):
    assert font_families(["abc", " \n"]) == ["Latin"]
    assert font_families(["我"]) == ["Latin", "Han"]
    assert font_families(["我 λ a"]) == ["Latin", "Greek", "Han"]
    assert font_families([]) == ["Latin"]


def test_characters_without_a_font_are_named_with_a_hint(installed_fonts: None):
    with pytest.raises(InputError) as caught:
        font_families(["我爱你 a", "你"], "; or go without")
    assert caught.value.message == "no font installed here has 你 (U+4F60) 爱 (U+7231)"
    assert "fonts-noto-cjk" in caught.value.hint
    assert caught.value.hint.endswith("; or go without")
    with pytest.raises(InputError) as caught:
        font_families(["😀"])
    assert "noto-cjk" not in caught.value.hint
    with pytest.raises(InputError, match="and 8 more"):
        font_families(["".join(map(chr, range(0x5000, 0x5014)))])


def test_undrawable_texts_are_listed(installed_fonts: None):
    assert undrawable_texts(["a我", "a😀", "我爱", "λ"]) == ["a😀", "我爱"]
    assert undrawable_texts([]) == []


def test_font_families_of_installed_fonts():
    pytest.importorskip("matplotlib")
    assert font_families(["abc ␣ ⏎ … →"]) == ["DejaVu Sans"]  # part of matplotlib
    with pytest.raises(InputError, match=r"U\+10FFFD"):
        font_families(["\U0010fffd"])  # only a last-resort font of boxes would have it


def test_plot_style_restores_matplotlib_settings_and_log_level():
    matplotlib = pytest.importorskip("matplotlib")
    settings_before = dict(matplotlib.rcParams)
    log = logging.getLogger("matplotlib.font_manager")
    level = log.level
    assert log.isEnabledFor(logging.WARNING)
    with plot_style(["a"]):
        assert not log.isEnabledFor(logging.WARNING)  # a missing font weight is not the reader's concern
        figure = new_figure(1, 1)
        figure.text(0, 0, "a $x")
        svg = figure_bytes(figure, "svg")
        assert svg == figure_bytes(figure, "svg")
    assert dict(matplotlib.rcParams) == settings_before
    assert log.level == level
    assert b"<svg" in svg


def test_drawing_a_missing_glyph_is_an_error():
    pytest.importorskip("matplotlib")
    with plot_style(["a"]):
        figure = new_figure(1, 1)
        figure.text(0, 0, "\ue123")  # not among the texts given to plot_style
        with pytest.raises(ForebearError, match="could not be drawn"):
            figure_bytes(figure, "png")
