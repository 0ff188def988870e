"""Fonts for pictures: those installed here that together have every character, or an error that names what lacks."""

from __future__ import annotations

import io
import logging
import unicodedata
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from forebear.data.tokenizers.char_level import replace_surrogates
from forebear.errors import ForebearError, InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

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


def font_families(texts: Iterable[str], otherwise: str = "") -> list[str]:
    """Names of fonts in the order in which each character is looked up; an error where none has one of them."""
    chosen, lacking = _chosen(texts)
    if lacking:
        raise InputError(f"no font installed here has {_named(lacking)}", hint=_remedy(lacking) + otherwise)
    return chosen


def undrawable_texts(texts: Iterable[str]) -> list[str]:
    """Those of the texts that have a character which no font installed here has."""
    texts = list(texts)
    _, lacking = _chosen(texts)
    return [text for text in texts if not lacking.isdisjoint(text)]


@contextmanager
def silence_font_warnings() -> Iterator[None]:
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
    with silence_font_warnings():
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


# Pictures by matplotlib: with fonts that have every character, and without a trace in the caller's settings.


INK, SOFT, FAINT, ACCENT = "#22201d", "#6f6a63", "#d9d4cc", "#c2410c"
SHARP = 160  # dots in an inch
MAX_INCHES = 16.0  # inches, of a picture's sides


@contextmanager
def plot_style(texts: Iterable[str], otherwise: str = "") -> Iterator[None]:
    """Inside, figures are made and saved in the house's style, in fonts that have all characters of these texts.

    `otherwise` is what a person may do who has no such fonts.
    """
    import matplotlib

    style: Any = {
        "font.family": font_families([*texts, "0123456789.,-−·…×"], otherwise),
        "font.size": 9,
        "text.parse_math": False,  # a token $ is a dollar
        "axes.unicode_minus": True,
        "axes.edgecolor": SOFT,
        "axes.labelcolor": SOFT,
        "axes.titlesize": 9,
        "axes.linewidth": 0.6,
        "xtick.color": SOFT,
        "ytick.color": SOFT,
        "xtick.labelcolor": INK,
        "ytick.labelcolor": INK,
        "text.color": INK,
        "hatch.linewidth": 0.5,
        "figure.facecolor": "white",
        "savefig.facecolor": "white",
        "svg.hashsalt": "forebear",  # the same picture, the same bytes
    }
    with matplotlib.rc_context(style), silence_font_warnings():
        yield


def new_figure(width: float, height: float, layout: Literal["constrained", "compressed"] = "constrained") -> Figure:
    """In inches. No pyplot: nothing is kept anywhere, and no window is ever asked for.

    "compressed" is for maps whose cells are square: what leaves room beside them is moved together.
    """
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout=layout)


def figure_bytes(figure: Figure, form: str) -> bytes:
    """The picture's bytes; one with a box in place of a character is refused."""
    buffer = io.BytesIO()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        about = {"Date": None, "Title": figure.get_suptitle()}
        more: dict[str, Any] = {"metadata": about} if form == "svg" else {"dpi": SHARP}
        figure.savefig(buffer, format=form, bbox_inches="tight", pad_inches=0.12, **more)
    if boxes := [str(one.message) for one in told if "missing from" in str(one.message)]:
        raise ForebearError(f"a character could not be drawn: {boxes[0]}", hint="install a font that has it")
    return buffer.getvalue()


def blue_colormap() -> Colormap:
    """From a tint, so that nothing at all can be told from very little, to dark blue."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("weights", ["#eef3fb", "#a9c6ec", "#4a86cf", "#1c4f9c", "#0a2350"])


def hatch_background(axes: Axes, place: tuple[float, float, float, float]) -> None:
    """A ground (left, right, bottom, top) on which what is not filled is nothing, and not a zero."""
    from matplotlib.patches import Rectangle

    left, right, bottom, top = place
    how = {"facecolor": "white", "edgecolor": FAINT, "hatch": "//////", "lw": 0, "zorder": -1}
    axes.add_patch(Rectangle((left, bottom), right - left, top - bottom, **how))


def shorten_label(text: str, most: int = 14) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def title_quote(text: str, most: int = 48) -> str:
    """A text as it stands in a title: in one line, not too long, and nothing in it that does not print."""
    line = shorten_label(" ".join(replace_surrogates(text).split()), most)
    return f"“{line if line.isprintable() else repr(line)[1:-1]}”"


# Where the labels of dots go, so that none lies on another: the first come first, and some have no room.


Box = tuple[float, float, float, float]  # left, lower, right, upper
# Which way from its dot a label lies, the best first: of its width and height, how far its lower left corner is moved.
WAYS = ((0.0, -0.5), (-1.0, -0.5), (-0.5, 0.0), (-0.5, -1.0), (0.0, 0.0), (-1.0, 0.0), (0.0, -1.0), (-1.0, -1.0))


def place_point_labels(
    dots: np.ndarray, sizes: Sequence[tuple[float, float]], room: Box, *, gap: float
) -> list[Box | None]:
    """The box of each label beside its dot (n, 2), or None where it would lie on another label or beyond the room.

    Of the ways that are free the one that hides the fewest dots is taken. Everything is in one unit.
    """
    taken = np.empty((0, 4))
    made: list[Box | None] = []
    for dot, size in zip(dots, sizes, strict=True):
        free = [box for box in _around(dot, size, gap) if _inside(box, room) and not _on_any(box, taken)]
        best = min(free, key=lambda box: _hidden(box, dots), default=None)
        made.append(best)
        if best is not None:
            taken = np.vstack((taken, best))
    return made


def _around(dot: np.ndarray, size: tuple[float, float], gap: float) -> Iterator[Box]:
    wide, high = size
    for right, up in WAYS:
        left = float(dot[0]) + right * wide + gap * (1 if right == 0 else -1 if right == -1 else 0)
        lower = float(dot[1]) + up * high + gap * (1 if up == 0 else -1 if up == -1 else 0)
        yield left, lower, left + wide, lower + high


def _inside(box: Box, room: Box) -> bool:
    return box[0] >= room[0] and box[1] >= room[1] and box[2] <= room[2] and box[3] <= room[3]


def _on_any(box: Box, taken: np.ndarray) -> bool:
    left, lower, right, upper = box
    apart = (taken[:, 2] <= left) | (taken[:, 0] >= right) | (taken[:, 3] <= lower) | (taken[:, 1] >= upper)
    return not bool(apart.all())


def _hidden(box: Box, dots: np.ndarray) -> int:
    left, lower, right, upper = box
    return int(((dots[:, 0] > left) & (dots[:, 0] < right) & (dots[:, 1] > lower) & (dots[:, 1] < upper)).sum())
