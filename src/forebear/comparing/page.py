"""A comparison as one HTML page that needs nothing else: no network, no library, no script to be readable."""

from __future__ import annotations

from html import escape
from importlib.resources import files
from typing import Any

from forebear.comparing.outcomes import Comparison, Row
from forebear.comparing.plot import draw
from forebear.comparing.verdict import headline, sentences
from forebear.comparing.wording import duration, short, size

# Colour is the place in history, from old ochre to new blue, on light paper and on dark.
LIGHT = ((0x9A, 0x60, 0x0B), (0xB2, 0x3F, 0x5A), (0x78, 0x49, 0xA6), (0x2B, 0x56, 0xB5))
DARK = ((0xE6, 0xAE, 0x5F), (0xF0, 0x90, 0xA3), (0xC4, 0xA3, 0xEE), (0x93, 0xB6, 0xFF))
CLOSED = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"  # the page cannot call home
COLUMNS = (
    ("year", ""),
    ("milestone", ""),
    ("bits per byte", "number"),
    ("own perplexity", "number"),
    ("parameters", "number"),
    ("learning", "number"),
    ("tokens/s", "number"),
    ("memory", "number"),
    ("tokenizer", ""),
    ("unknown", "number"),
)


def page(comparison: Comparison) -> str:
    """The whole page."""
    title = headline(comparison)
    body = "".join(
        (
            f"<header><h1>{escape(title)}</h1>{_given(comparison)}</header>",
            f'<figure><div class="wide">{draw(comparison)}</div>{_key(comparison)}</figure>',
            f'<div class="verdict">{"".join(f"<p>{escape(text)}</p>" for text in sentences(comparison))}</div>',
            _table(comparison),
            _samples(comparison),
            _reading(comparison),
            _footer(comparison),
        )
    )
    return framed(title, body, len(comparison.rows))


def framed(title: str, body: str, rows: int) -> str:
    """A whole page with this in it, with a colour for each row, closed to the network."""
    style, script = (files("forebear.comparing").joinpath(name).read_text("utf-8") for name in ("page.css", "page.js"))
    made = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{CLOSED}">'
        f"<title>{escape(title)}</title><style>{style}{_colours(rows)}</style></head>"
        f"<body><main>{body}</main><script>{script}</script></body></html>\n"
    )
    return made.encode("utf-8", "replace").decode("utf-8")  # a file name may hold what UTF-8 cannot


def _colours(count: int) -> str:
    def rules(anchors: tuple[tuple[int, int, int], ...]) -> str:
        return "".join(f".m{n} {{ color: {_between(anchors, n / max(count - 1, 1))}; }}" for n in range(count))

    return f"{rules(LIGHT)} @media (prefers-color-scheme: dark) {{ {rules(DARK)} }} @media print {{ {rules(LIGHT)} }}"


def _between(anchors: tuple[tuple[int, int, int], ...], share: float) -> str:
    at = share * (len(anchors) - 1)
    first = min(int(at), len(anchors) - 2)
    pairs = zip(anchors[first], anchors[first + 1], strict=True)
    return "#" + "".join(f"{round(a + (b - a) * (at - first)):02x}" for a, b in pairs)


def _given(comparison: Comparison) -> str:
    """What everyone was given: the same text, the same split, the same budget."""
    facts, names = comparison.facts, [text.rstrip("/").rpartition("/")[2] or text for text in comparison.texts]
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    told = [f"<b>{escape(shown)}</b>" if shown else ""]
    if "bytes" in facts:
        told.append(f"{size(facts['bytes'])} of text, {size(facts['held_out_bytes'])} of it held out to examine")
    told.append(f"{escape(str(comparison.settings.get('budget', '')))} to learn for each")
    if (seeds := len(comparison.settings.get("seeds", ()))) > 1:
        told.append(f"{seeds} seeds")
    told.append(escape(str(facts.get("machine", ""))))
    more = "" if comparison.finished else " This comparison is not finished: the same command goes on."
    return f'<p class="given">{" · ".join(filter(None, told))}.{more}</p>'


def _key(comparison: Comparison) -> str:
    parts = ["<span><i></i>learning curve, ending in its result</span>"]
    parts.append('<span><i class="band"></i>the lowest anyone had reached by then</span>')
    if comparison.yardsticks:
        parts.append('<span><i class="dots"></i>yardstick, not a milestone</span>')
    return f'<figcaption class="key">{"".join(parts)}</figcaption>'


def _table(comparison: Comparison) -> str:
    columns = [*COLUMNS, *((escape(name), "number") for name in comparison.judged)]
    head = "".join(f'<th scope="col" class="{kind}">{name}</th>' for name, kind in columns)
    widest = max((bits for row in comparison.rows if (bits := row.mean("bits_per_byte"))), default=1.0)
    body = "".join(_row(number, row, comparison, widest) for number, row in enumerate(comparison.rows))
    foot = "".join(
        f'<tr><td></td><th scope="row">{escape(name)}</th><td class="number">{bits:.3f}</td>'
        f'<td colspan="{len(columns) - 3}">{escape(meaning)}</td></tr>'
        for name, bits, meaning in _beside(comparison)
    )
    return (
        f'<h2>In the order of history</h2><div class="wide"><table><caption>Bits per byte compares them all; perplexity'
        " is per token of each one’s own vocabulary, so compare it only where tokenizers are the same.</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody><tfoot>{foot}</tfoot></table></div>"
    )


def _beside(comparison: Comparison) -> list[tuple[str, float, str]]:
    told = [(stick.name, stick.bits_per_byte, stick.meaning) for stick in comparison.yardsticks]
    if comparison.limit is not None:
        told.append(("true entropy", comparison.limit, "known, because the text was generated; no model can go below"))
    return told


def _row(number: int, row: Row, comparison: Comparison, widest: float) -> str:
    best = comparison.best is not None and comparison.best.name == row.name
    marks = [escape(mark) for mark in (row.size, "best" if best else "") if mark]
    name = f'<span class="m{number} name">{escape(row.title)}</span>' + marked(", ".join(marks))
    about = f"{row.idea} ({row.authors})" if row.authors else row.idea
    cells = [
        cell(str(row.year), row.year),
        f'<th scope="row" data-value="{escape(row.title)}">{name}<span class="idea">{escape(about)}</span></th>',
    ]
    if row.error and not row.of("bits_per_byte") and not row.finds:
        width = len(COLUMNS) + len(comparison.judged) - 2
        cells.append(f'<td class="wrong" colspan="{width}">{escape(row.error)}</td>')
    else:
        cells += [_bits(number, row, widest), *_figures(row)]
        cells += [_judged(row.words(name), row.covered(name)) for name in comparison.judged]
    return f'<tr data-row="{number}"{" class=best" if best else ""}>{"".join(cells)}</tr>'


def marked(text: str) -> str:
    """Something small behind a name or a figure."""
    return f' <span class="mark">{text}</span>' if text else ""


def _bits(number: int, row: Row, widest: float) -> str:
    bits, spread = row.mean("bits_per_byte"), row.spread
    if bits is None:
        lost = sum(row.of("impossible"))
        if row.finds:
            return cell(f"—<span class='idea'>{escape(row.finds)}</span>", "", "number bits")
        told = f"∞<span class='idea'>{lost:,} tokens are impossible to it</span>" if lost else "—"
        return cell(told, "", "number bits")
    wrong = f'<span class="idea wrong">{escape(row.error)}</span>' if row.error else ""
    told = f"{bits:.3f}" + marked(f"± {spread:.3f}" if spread is not None else "")
    bar = f'<span class="bar m{number}" style="width:{max(bits / widest, 0):.1%}" aria-hidden="true"></span>'
    return cell(told + bar + wrong, bits, "number bits")


def _figures(row: Row) -> list[str]:
    """The cells after bits per byte: means over the seeds."""
    perplexity, parameters, seconds = row.mean("perplexity"), row.mean("parameters"), row.mean("seconds")
    speed, memory, unknown = row.mean("speed"), row.mean("memory"), row.mean("unknown_rate")
    kind = next((trial.tokenizer for trial in row.trials if trial.tokenizer), "")
    vocabulary = next((trial.vocabulary for trial in row.trials if trial.vocabulary), None)
    cutting = f"{escape(kind)}, {vocabulary:,}" if vocabulary else escape(kind)
    return [
        _number(perplexity, "" if perplexity is None else f"{perplexity:,.1f}"),
        _number(parameters, "" if parameters is None else short(parameters)),
        _number(seconds, "" if seconds is None else duration(seconds)),
        _number(speed, "" if speed is None else short(speed)),
        _number(memory, "" if memory is None else size(memory)),
        cell(cutting, kind),
        _number(unknown, "" if unknown is None else f"{unknown:.2%}"),
    ]


def _judged(value: float | None, covered: tuple[int, int] | None) -> str:
    known = "" if covered is None else marked(f"{covered[0]:,} of {covered[1]:,}")
    return _number(value, ("—" if value is None else f"{value:.3f}") + known)


def _number(value: float | None, shown: str) -> str:
    return cell(shown or "—", "" if value is None else value, "number")


def cell(shown: str, value: Any, kind: str = "") -> str:
    """A cell with the value that its column is sorted by."""
    return f'<td{f" class={chr(34)}{kind}{chr(34)}" if kind else ""} data-value="{escape(str(value))}">{shown}</td>'


def _samples(comparison: Comparison) -> str:
    told = [(number, row, trial) for number, row in enumerate(comparison.rows) for trial in row.trials if trial.sample]
    if not told:
        return ""
    firsts = {row.name: (number, row, trial) for number, row, trial in reversed(told)}
    parts = "".join(
        f'<dt class="m{number}">{escape(row.title)}<span>{row.year}</span></dt>'
        f"<dd><mark>{escape(comparison.prompt)}</mark>{escape(trial.sample)}</dd>"
        for number, row, trial in sorted(firsts.values(), key=lambda it: it[0])
    )
    about = '<p class="small">The same beginning, the same seed.</p>'
    return f'<h2>How each goes on</h2>{about}<dl class="samples">{parts}</dl>'


def _reading(comparison: Comparison) -> str:
    texts = [
        "<b>Bits per byte</b> is how many bits a milestone needs to tell a byte of text it has never seen, if it"
        " is used to compress it. It is by bytes of the original text, however that was cut into tokens. A word that"
        " is not in the vocabulary is charged for its spelling, so that a small vocabulary cannot win; white space or"
        " case that a tokenizer does not keep is charged to nobody, and said above."
    ]
    if any(row.of("told_apart") for row in comparison.rows):
        texts.append(
            "<b>Word vectors</b> predict no text. Of two words, one that stands beside a word in the held-out text and"
            " one that stands beside another, the nearer one by their vectors should be its own neighbour: the share of"
            " such choices that are right stands in the place of bits; by chance it is half."
        )
    if comparison.judged:
        texts.append(
            f"Columns <b>{escape(', '.join(comparison.judged))}</b>: how vectors of words agree with what people say of"
            " pairs of words (Spearman’s correlation over all pairs, a missing word having the mean cosine), or the"
            " share of analogies solved (a missing word being wrong); behind it how many pairs or analogies have all"
            " their words in the vocabulary. Encoders read a word as a text."
        )
    if any(row.of("found") for row in comparison.rows):
        texts.append(
            "Milestones that <b>find hidden tokens</b> see a text from both sides, so that what they say of its tokens"
            " does not multiply to a probability: they have no bits per byte. Beside how many they find stands what"
            " always naming the commonest token would find; their perplexity is of hidden tokens."
        )
    if comparison.settings.get("seeds", ()) and len(comparison.settings["seeds"]) > 1:
        texts.append("<b>±</b> is the standard deviation over the seeds; a small ring in the plot is one seed.")
    if comparison.facts.get("note"):
        texts.append(escape(comparison.facts["note"]))
    return f"<h2>How to read this</h2>{''.join(f'<p>{text}</p>' for text in texts)}"


def _footer(comparison: Comparison) -> str:
    facts = comparison.facts
    made = f"Made by forebear {escape(str(facts.get('forebear', '')))}, {escape(str(facts.get('when', '')))}."
    command = f"<br><code>{escape(str(facts['command']))}</code>" if facts.get("command") else ""
    return (
        f'<footer class="small"><p>{made} All figures stand in <code>comparison.json</code>, the runs in'
        f" <code>runs/</code>, both beside this page.{command}</p></footer>"
    )
