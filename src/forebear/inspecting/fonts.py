"""Fonts for pictures: those installed here that together have every character, or an error that names what lacks."""

from __future__ import annotations

import logging
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache

from forebear.errors import BadInput

# Tried in this order; after them whatever else is installed.
PREFERRED = (
    "DejaVu Sans",
    "Noto Sans CJK SC",
    "Source Han Sans SC",
    "Noto Sans SC",
    "WenQuanYi Micro Hei",
    "WenQuanYi Zen Hei",
    "PingFang SC",
    "Hiragino Sans GB",
    "Microsoft YaHei",
    "SimHei",
    "Droid Sans Fallback",
    "Arial Unicode MS",
)
BOXES = "Last Resort"  # a font of boxes that says which character it could not draw
MOST = 12  # characters that are named


def families_for(texts: Iterable[str], otherwise: str = "") -> list[str]:
    """Names of fonts in the order in which each character is looked up; an error where none has one of them."""
    chosen, lacking = _chosen(texts)
    if lacking:
        raise BadInput(f"no font installed here has {_named(lacking)}", remedy=_remedy(lacking) + otherwise)
    return chosen


def undrawable(texts: Iterable[str]) -> list[str]:
    """Those of the texts that have a character which no font installed here has."""
    texts = list(texts)
    _, lacking = _chosen(texts)
    return [text for text in texts if not lacking.isdisjoint(text)]


@contextmanager
def unremarked() -> Iterator[None]:
    """Inside, matplotlib does not say on stderr which weight of a font it went without."""
    log = logging.getLogger("matplotlib.font_manager")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(level)


def _chosen(texts: Iterable[str]) -> tuple[list[str], set[str]]:
    """Fonts that have the characters, and the characters that none has."""
    lacking = {one for text in texts for one in text if not one.isspace()}
    chosen: list[str] = []
    with unremarked():
        for name, has in _fonts():
            found = {one for one in lacking if ord(one) in has}
            if found or not chosen:
                chosen.append(name)
                lacking -= found
            if not lacking:
                break
    return chosen, lacking


def _fonts() -> Iterator[tuple[str, frozenset[int]]]:
    """Each installed font and the characters it has; read one by one, since few are needed."""
    from matplotlib.font_manager import FontProperties, fontManager

    _learn_new_ones()
    installed = {font.name for font in fontManager.ttflist if not font.name.startswith(BOXES)}
    for name in (*(name for name in PREFERRED if name in installed), *sorted(installed - set(PREFERRED))):
        path = fontManager.findfont(FontProperties(family=[name]), fallback_to_default=False)
        yield name, characters_of(str(path))


@lru_cache(1)
def _learn_new_ones() -> None:
    """matplotlib keeps a list of fonts; those that were installed since it was made are added to it."""
    from matplotlib import font_manager

    known = {font.fname for font in font_manager.fontManager.ttflist}
    for path in font_manager.findSystemFonts():
        if path not in known:
            try:
                font_manager.fontManager.addfont(path)
            except (OSError, RuntimeError):  # a file that is no font of this kind
                continue


@lru_cache(256)
def characters_of(path: str) -> frozenset[int]:
    """The characters that a font can draw in any size: one of pictures (emoji) has none of them."""
    from matplotlib.ft2font import FT2Font

    font = FT2Font(path)
    return frozenset(font.get_charmap()) if font.scalable else frozenset()


def _named(lacking: set[str]) -> str:
    shown = " ".join(f"{one} (U+{ord(one):04X})" for one in sorted(lacking)[:MOST])
    more = f" and {len(lacking) - MOST} more" if len(lacking) > MOST else ""
    return shown + more


def _remedy(lacking: set[str]) -> str:
    chinese = any(unicodedata.name(one, "").startswith(("CJK", "FULLWIDTH", "IDEOGRAPHIC")) for one in lacking)
    which = "Chinese, such as the package fonts-noto-cjk or fonts-wqy-microhei" if chinese else "these characters"
    return f"install a font with {which}"
