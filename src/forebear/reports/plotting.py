"""Matplotlib figures: fonts that cover all characters, the common style, and placement of point labels."""

from __future__ import annotations

import io
import logging
import unicodedata
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from forebear.data.unicode import replace_surrogates
from forebear.errors import ForebearError, InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

# Preferred fonts, in order; then all other installed fonts.
PREFERRED_FONTS = (
    "DejaVu Sans", "Noto Sans CJK SC", "Source Han Sans SC", "Noto Sans SC", "WenQuanYi Micro Hei", "WenQuanYi Zen Hei",
    "PingFang SC", "Hiragino Sans GB", "Microsoft YaHei", "SimHei", "Droid Sans Fallback", "Arial Unicode MS",
)  # fmt: skip
FALLBACK_FONT = "Last Resort"  # a font of placeholder boxes
MAX_LISTED_CHARACTERS = 12  # missing ones, in an error


def font_families(texts: Iterable[str], hint_suffix: str = "") -> list[str]:
    """Font names in fallback order; raises InputError if a character is in none of them."""
    families, missing = _choose_fonts(texts)
    if missing:
        characters = " ".join(f"{char} (U+{ord(char):04X})" for char in sorted(missing)[:MAX_LISTED_CHARACTERS])
        rest = f" and {len(missing) - MAX_LISTED_CHARACTERS} more" if len(missing) > MAX_LISTED_CHARACTERS else ""
        names = [unicodedata.name(character, "") for character in missing]
        is_chinese = any(name.startswith(("CJK", "FULLWIDTH", "IDEOGRAPHIC")) for name in names)
        chinese_fonts = "Chinese, such as the package fonts-noto-cjk or fonts-wqy-microhei"
        hint = f"install a font with {chinese_fonts if is_chinese else 'these characters'}{hint_suffix}"
        raise InputError(f"no font installed here has {characters}{rest}", hint=hint)
    return families


def undrawable_texts(texts: Iterable[str]) -> list[str]:
    """Texts with a character that no installed font has."""
    texts = list(texts)
    _, missing = _choose_fonts(texts)
    return [text for text in texts if not missing.isdisjoint(text)]


@contextmanager
def silence_font_warnings() -> Iterator[None]:
    """While active, matplotlib does not log missing font weights."""
    logger = logging.getLogger("matplotlib.font_manager")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def _choose_fonts(texts: Iterable[str]) -> tuple[list[str], set[str]]:
    """Fonts that cover the characters, and the characters that no font has."""
    missing = {character for text in texts for character in text if not character.isspace()}
    families: list[str] = []
    with silence_font_warnings():
        for name, characters in _fonts():
            covered = {character for character in missing if ord(character) in characters}
            if covered or not families:
                families.append(name)
                missing -= covered
            if not missing:
                break
    return families, missing


def _fonts() -> Iterator[tuple[str, frozenset[int]]]:
    """Installed fonts with their characters, loaded lazily since only a few are needed."""
    from matplotlib.font_manager import FontProperties, fontManager

    _register_new_fonts()
    installed = {font.name for font in fontManager.ttflist if not font.name.startswith(FALLBACK_FONT)}
    for name in (*(name for name in PREFERRED_FONTS if name in installed), *sorted(installed - set(PREFERRED_FONTS))):
        path = fontManager.findfont(FontProperties(family=[name]), fallback_to_default=False)
        yield name, font_characters(str(path))


@lru_cache(1)
def _register_new_fonts() -> None:
    """Add fonts installed since matplotlib built its font list."""
    from matplotlib import font_manager

    known_paths = {font.fname for font in font_manager.fontManager.ttflist}
    for path in font_manager.findSystemFonts():
        if path not in known_paths:
            with suppress(OSError, RuntimeError):  # not a usable font
                font_manager.fontManager.addfont(path)


@lru_cache(256)
def font_characters(path: str) -> frozenset[int]:
    """Characters of a scalable font; bitmap (emoji) fonts have none."""
    from matplotlib.ft2font import FT2Font

    font = FT2Font(path)
    return frozenset(font.get_charmap()) if font.scalable else frozenset()


# --- Figures: style and output ---

INK, SOFT, FAINT, ACCENT, BLUE = "#22201d", "#6f6a63", "#d9d4cc", "#c2410c", "#1c4f9c"
DOTS_PER_INCH = 160  # resolution of bitmaps
MAX_INCHES = 16.0  # maximum side length


@contextmanager
def plot_style(texts: Iterable[str], hint_suffix: str = "") -> Iterator[None]:
    """While active, figures use the common style and fonts that cover these texts; otherwise raise InputError.

    `hint_suffix` is appended to the hint of that error.
    """
    import matplotlib

    style: Any = {
        "font.family": font_families([*texts, "0123456789.,-−·…×"], hint_suffix),
        **dict.fromkeys(("font.size", "axes.titlesize"), 9),
        "text.parse_math": False,  # a "$" token is a dollar sign
        "axes.unicode_minus": True,
        **dict.fromkeys(("axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), SOFT),
        **dict.fromkeys(("xtick.labelcolor", "ytick.labelcolor", "text.color"), INK),
        **dict.fromkeys(("figure.facecolor", "savefig.facecolor"), "white"),
        "axes.linewidth": 0.6,
        "hatch.linewidth": 0.5,
        "svg.hashsalt": "forebear",  # reproducible bytes
    }
    with matplotlib.rc_context(style), silence_font_warnings():
        yield


def new_figure(width: float, height: float, layout: Literal["constrained", "compressed"] = "constrained") -> Figure:
    """A figure of this size in inches, without pyplot: no global state and no windows.

    The layout "compressed" removes free space between heatmaps with square cells.
    """
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout=layout)


def figure_bytes(figure: Figure, file_format: str) -> bytes:
    """The bytes of the figure file; raises ForebearError if a character was drawn as a box."""
    buffer = io.BytesIO()
    with warnings.catch_warnings(record=True) as caught_warnings:
        warnings.simplefilter("always")
        metadata = {"Date": None, "Title": figure.get_suptitle()}
        options: dict[str, Any] = {"metadata": metadata} if file_format == "svg" else {"dpi": DOTS_PER_INCH}
        figure.savefig(buffer, format=file_format, bbox_inches="tight", pad_inches=0.12, **options)
    messages = [str(warning.message) for warning in caught_warnings]
    if missing := [message for message in messages if "missing from" in message]:
        raise ForebearError(f"a character could not be drawn: {missing[0]}", hint="install a font that has it")
    return buffer.getvalue()


def blue_colormap() -> Colormap:
    """A colormap from a light tint, which distinguishes 0 from masked cells, to dark blue."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("weights", ["#eef3fb", "#a9c6ec", "#4a86cf", "#1c4f9c", "#0a2350"])


def hatch_background(axes: Axes, extent: tuple[float, float, float, float]) -> None:
    """Draw a hatched background for masked cells; `extent` is (left, right, bottom, top)."""
    from matplotlib.patches import Rectangle

    left, right, bottom, top = extent
    style = {"facecolor": "white", "edgecolor": FAINT, "hatch": "//////", "lw": 0, "zorder": -1}
    axes.add_patch(Rectangle((left, bottom), right - left, top - bottom, **style))


def shorten_label(text: str, max_length: int = 14) -> str:
    return text if len(text) <= max_length else text[: max_length - 1] + "…"


def title_quote(text: str, max_length: int = 48) -> str:
    """A text quoted for a title: one line, truncated, printable."""
    line = shorten_label(" ".join(replace_surrogates(text).split()), max_length)
    return f"“{line if line.isprintable() else repr(line)[1:-1]}”"


# --- Placement of point labels without overlaps ---

Box = tuple[float, float, float, float]  # left, lower, right, upper
# Anchors of a label relative to its dot in order of preference: shift of the lower left corner by width and height.
LABEL_ANCHORS = np.array(
    ((0.0, -0.5), (-1.0, -0.5), (-0.5, 0.0), (-0.5, -1.0), (0.0, 0.0), (-1.0, 0.0), (0.0, -1.0), (-1.0, -1.0))
)


def place_point_labels(
    dots: np.ndarray, sizes: Sequence[tuple[float, float]], area: Box, *, gap: float
) -> list[Box | None]:
    """The box of each label next to its dot (n, 2), at the free anchor that hides the fewest dots; else None.

    All values have the same unit; a label of infinite size is never placed.
    """
    gaps = gap * np.select([LABEL_ANCHORS == 0, LABEL_ANCHORS == -1], [1, -1])
    occupied = np.empty((0, 1, 4))
    boxes: list[Box | None] = []
    for dot, size in zip(dots, sizes, strict=True):
        if np.isinf(size).any():
            boxes.append(None)
            continue
        low = dot + LABEL_ANCHORS * size + gaps  # (8, 2) lower left corners, then upper right ones
        high = low + size
        is_inside = ((low >= area[:2]) & (high <= area[2:])).all(axis=1)
        overlaps = ((occupied[..., :2] < high) & (occupied[..., 2:] > low)).all(axis=2).any(axis=0)
        low, high = low[is_inside & ~overlaps], high[is_inside & ~overlaps]
        if not len(low):
            boxes.append(None)
            continue
        best = ((dots[:, None] > low) & (dots[:, None] < high)).all(axis=2).sum(axis=0).argmin()
        occupied = np.vstack((occupied, np.hstack((low[best], high[best]))[None, None]))
        left, lower, right, upper = occupied[-1, 0].tolist()
        boxes.append((left, lower, right, upper))
    return boxes
