"""Explanations as one HTML page that needs nothing else: words coloured by how much they speak for what was said."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib.resources import files

from forebear.inspecting.attributing import Why, Word

CLOSED = "default-src 'none'; style-src 'unsafe-inline'"  # the page runs nothing and cannot call home
ROWS = 30  # words in a table, the strongest
FAINT = 0.02  # of the strongest word: less is not coloured


def page(whys: Sequence[Why], run: str) -> str:
    """The whole page: one explanation below the other."""
    style = files("forebear.inspecting").joinpath("page.css").read_text("utf-8")
    title = f"Why {run} says so"
    made = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{CLOSED}">'
        f"<title>{escape(title)}</title><style>{style}</style></head><body><main><h1>{escape(title)}</h1>"
        '<p class="key"><span class="word for" style="--s:.8">speaks for it</span> '
        '<span class="word against" style="--s:.8">speaks against it</span> '
        "The stronger the colour, the more, measured by the strongest word of each text.</p>"
        f"{''.join(map(_section, whys))}</main></body></html>\n"
    )
    return made.encode("utf-8", "replace").decode("utf-8")


def _section(why: Why) -> str:
    sure = "" if why.probability is None else f' <span class="sure">{why.probability:.1%}</span>'
    other = f' <span class="sure">the run itself says {escape(why.said)}</span>' if why.said != why.target else ""
    texts = "".join(_text(why, number, part) for number, part in enumerate(why.parts))
    return (
        f"<section><h2>{escape(why.target)}{sure}{other}</h2>{texts}"
        f'<p class="about">{escape(why.about)}</p><details><summary>Figures</summary>{_table(why)}{_features(why)}'
        "</details></section>"
    )


def _text(why: Why, number: int, part: str) -> str:
    """A text as it is written, its words coloured."""
    text, done, parts = why.texts[number], 0, []
    for word in (word for word in why.words if word.of == number):
        parts += [escape(text[done : word.start]), _word(word, why.most)]
        done = word.end
    parts.append(escape(text[done:]))
    label = f'<span class="part">{escape(part)}</span>' if len(why.parts) > 1 else ""
    return f'<div class="text">{label}<p>{"".join(parts)}</p></div>'


def _word(word: Word, most: float) -> str:
    shown, strength = escape(word.text), abs(word.attribution) / most
    if not word.read:
        return f'<span class="unread" title="not read: it does not fit">{shown}</span>'
    if strength < FAINT:
        return f'<span title="{word.attribution:+.4f}">{shown}</span>'
    side = "for" if word.attribution > 0 else "against"
    return f'<span class="word {side}" style="--s:{strength:.3f}" title="{word.attribution:+.4f}">{shown}</span>'


def _table(why: Why) -> str:
    rows = "".join(
        f'<tr><td>{escape(word.text)}</td><td class="number">{word.attribution:+.4f}</td>'
        f"<td>{_bar(word, why.most)}</td></tr>"
        for word in why.strongest(ROWS)
    )
    left = len(why.words) - ROWS
    more = f'<p class="about">{left:,} words that say less are not listed.</p>' if left > 0 else ""
    head = "<thead><tr><th>word</th><th class=number>adds</th><th></th></tr></thead>"
    return f"<table>{head}<tbody>{rows}</tbody></table>{more}"


def _bar(word: Word, most: float) -> str:
    side = "for" if word.attribution > 0 else "against"
    return f'<span class="bar {side}" style="width:{abs(word.attribution) / most:.1%}"></span>'


def _features(why: Why) -> str:
    if not why.features:
        return ""
    rows = "".join(
        f'<tr><td>{escape(one.text)}</td><td>{escape(one.where)}</td><td class="number">{one.value:+.4f}</td></tr>'
        for one in why.features[:ROWS]
    )
    head = "<thead><tr><th>n-gram</th><th>where</th><th class=number>adds</th></tr></thead>"
    return f"<table>{head}<tbody>{rows}</tbody></table>"
