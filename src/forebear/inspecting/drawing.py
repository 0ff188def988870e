"""Pictures by matplotlib: with fonts that have every character, and without a trace in the caller's settings."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from forebear.errors import ForebearError
from forebear.inspecting.fonts import families_for, unremarked
from forebear.text.characters import sound

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

INK, SOFT, FAINT, ACCENT = "#22201d", "#6f6a63", "#d9d4cc", "#c2410c"
SHARP = 160  # dots in an inch
LARGEST = 16.0  # inches, of a picture's sides


@contextmanager
def drawing(texts: Iterable[str], otherwise: str = "") -> Iterator[None]:
    """Inside, figures are made and saved in the house's style, in fonts that have all characters of these texts.

    `otherwise` is what a person may do who has no such fonts.
    """
    import matplotlib

    style: Any = {
        "font.family": families_for([*texts, "0123456789.,-−·…×"], otherwise),
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
    with matplotlib.rc_context(style), unremarked():
        yield


def new_figure(width: float, height: float, layout: Literal["constrained", "compressed"] = "constrained") -> Figure:
    """In inches. No pyplot: nothing is kept anywhere, and no window is ever asked for.

    "compressed" is for maps whose cells are square: what leaves room beside them is moved together.
    """
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout=layout)


def saved(figure: Figure, form: str) -> bytes:
    """The picture's bytes; one with a box in place of a character is refused."""
    buffer = io.BytesIO()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        about = {"Date": None, "Title": figure.get_suptitle()}
        more: dict[str, Any] = {"metadata": about} if form == "svg" else {"dpi": SHARP}
        figure.savefig(buffer, format=form, bbox_inches="tight", pad_inches=0.12, **more)
    if boxes := [str(one.message) for one in told if "missing from" in str(one.message)]:
        raise ForebearError(f"a character could not be drawn: {boxes[0]}", remedy="install a font that has it")
    return buffer.getvalue()


def blues() -> Colormap:
    """From a tint, so that nothing at all can be told from very little, to dark blue."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("weights", ["#eef3fb", "#a9c6ec", "#4a86cf", "#1c4f9c", "#0a2350"])


def hatched(axes: Axes, place: tuple[float, float, float, float]) -> None:
    """A ground (left, right, bottom, top) on which what is not filled is nothing, and not a zero."""
    from matplotlib.patches import Rectangle

    left, right, bottom, top = place
    how = {"facecolor": "white", "edgecolor": FAINT, "hatch": "//////", "lw": 0, "zorder": -1}
    axes.add_patch(Rectangle((left, bottom), right - left, top - bottom, **how))


def short(text: str, most: int = 14) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def quoted(text: str, most: int = 48) -> str:
    """A text as it stands in a title: in one line, not too long, and nothing in it that does not print."""
    line = short(" ".join(sound(text).split()), most)
    return f"“{line if line.isprintable() else repr(line)[1:-1]}”"
