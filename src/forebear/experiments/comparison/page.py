"""A comparison as one HTML page that needs nothing else: no network, no library, no script to be readable."""

from __future__ import annotations

from html import escape
from importlib.resources import files
from typing import Any

from forebear.experiments.comparison.plot import plot_text_comparison
from forebear.experiments.comparison.results import TextComparison, TextComparisonRow
from forebear.experiments.comparison.verdict import text_conclusions, text_headline
from forebear.settings.units import format_bytes, format_count, format_duration

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


def text_comparison_page(comparison: TextComparison) -> str:
    """The whole page."""
    title = text_headline(comparison)
    body = "".join(
        (
            f"<header><h1>{escape(title)}</h1>{_given(comparison)}</header>",
            f'<figure><div class="wide">{plot_text_comparison(comparison)}</div>{_key(comparison)}</figure>',
            f'<div class="verdict">{"".join(f"<p>{escape(text)}</p>" for text in text_conclusions(comparison))}</div>',
            _table(comparison),
            _samples(comparison),
            _reading(comparison),
            _footer(comparison),
        )
    )
    return html_page(title, body, len(comparison.rows))


def html_page(title: str, body: str, rows: int) -> str:
    """A whole page with this in it, with a colour for each row, closed to the network."""
    style, script = (
        files("forebear.experiments.comparison").joinpath(name).read_text("utf-8") for name in ("page.css", "page.js")
    )
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


def _given(comparison: TextComparison) -> str:
    """What everyone was given: the same text, the same split, the same budget."""
    facts, names = comparison.facts, [text.rstrip("/").rpartition("/")[2] or text for text in comparison.texts]
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    told = [f"<b>{escape(shown)}</b>" if shown else ""]
    if "bytes" in facts:
        told.append(
            f"{format_bytes(facts['bytes'])} of text, {format_bytes(facts['held_out_bytes'])} of it held out to examine"
        )
    told.append(f"{escape(str(comparison.settings.get('budget', '')))} to learn for each")
    if (seeds := len(comparison.settings.get("seeds", ()))) > 1:
        told.append(f"{seeds} seeds")
    told.append(escape(str(facts.get("machine", ""))))
    more = "" if comparison.finished else " This comparison is not finished: the same command goes on."
    return f'<p class="given">{" · ".join(filter(None, told))}.{more}</p>'


def _key(comparison: TextComparison) -> str:
    parts = ["<span><i></i>learning curve, ending in its result</span>"]
    parts.append('<span><i class="band"></i>the lowest anyone had reached by then</span>')
    if comparison.yardsticks:
        parts.append('<span><i class="dots"></i>yardstick, not a milestone</span>')
    return f'<figcaption class="key">{"".join(parts)}</figcaption>'


def _table(comparison: TextComparison) -> str:
    columns = [*COLUMNS, *((escape(name), "number") for name in comparison.measured_rows)]
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


def _beside(comparison: TextComparison) -> list[tuple[str, float, str]]:
    told = [(stick.name, stick.bits_per_byte, stick.meaning) for stick in comparison.yardsticks]
    if comparison.limit is not None:
        told.append(("true entropy", comparison.limit, "known, because the text was generated; no model can go below"))
    return told


def _row(number: int, row: TextComparisonRow, comparison: TextComparison, widest: float) -> str:
    best = comparison.best is not None and comparison.best.name == row.name
    marks = [escape(mark) for mark in (row.size, "best" if best else "") if mark]
    name = f'<span class="m{number} name">{escape(row.title)}</span>' + html_mark(", ".join(marks))
    about = f"{row.idea} ({row.authors})" if row.authors else row.idea
    cells = [
        html_cell(str(row.year), row.year),
        f'<th scope="row" data-value="{escape(row.title)}">{name}<span class="idea">{escape(about)}</span></th>',
    ]
    if row.error and not row.values("bits_per_byte") and not row.finds:
        width = len(COLUMNS) + len(comparison.measured_rows) - 2
        cells.append(f'<td class="wrong" colspan="{width}">{escape(row.error)}</td>')
    else:
        cells += [_bits(number, row, widest), *_figures(row)]
        cells += [_judged(row.word_figures(name), row.word_coverage(name)) for name in comparison.measured_rows]
    return f'<tr data-row="{number}"{" class=best" if best else ""}>{"".join(cells)}</tr>'


def html_mark(text: str) -> str:
    """Something small behind a name or a figure."""
    return f' <span class="mark">{text}</span>' if text else ""


def _bits(number: int, row: TextComparisonRow, widest: float) -> str:
    bits, spread = row.mean("bits_per_byte"), row.spread
    if bits is None:
        lost = sum(row.values("impossible"))
        if row.finds:
            return html_cell(f"—<span class='idea'>{escape(row.finds)}</span>", "", "number bits")
        told = f"∞<span class='idea'>{lost:,} tokens are impossible to it</span>" if lost else "—"
        return html_cell(told, "", "number bits")
    wrong = f'<span class="idea wrong">{escape(row.error)}</span>' if row.error else ""
    told = f"{bits:.3f}" + html_mark(f"± {spread:.3f}" if spread is not None else "")
    bar = f'<span class="bar m{number}" style="width:{max(bits / widest, 0):.1%}" aria-hidden="true"></span>'
    return html_cell(told + bar + wrong, bits, "number bits")


def _figures(row: TextComparisonRow) -> list[str]:
    """The cells after bits per byte: means over the seeds."""
    perplexity, parameters, seconds = row.mean("perplexity"), row.mean("parameters"), row.mean("seconds")
    speed, memory, unknown = row.mean("speed"), row.mean("memory"), row.mean("unknown_rate")
    kind = next((trial.tokenizer for trial in row.trials if trial.tokenizer), "")
    vocabulary = next((trial.vocabulary for trial in row.trials if trial.vocabulary), None)
    cutting = f"{escape(kind)}, {vocabulary:,}" if vocabulary else escape(kind)
    return [
        _number(perplexity, "" if perplexity is None else f"{perplexity:,.1f}"),
        _number(parameters, "" if parameters is None else format_count(parameters)),
        _number(seconds, "" if seconds is None else format_duration(seconds)),
        _number(speed, "" if speed is None else format_count(speed)),
        _number(memory, "" if memory is None else format_bytes(memory)),
        html_cell(cutting, kind),
        _number(unknown, "" if unknown is None else f"{unknown:.2%}"),
    ]


def _judged(value: float | None, covered: tuple[int, int] | None) -> str:
    known = "" if covered is None else html_mark(f"{covered[0]:,} of {covered[1]:,}")
    return _number(value, ("—" if value is None else f"{value:.3f}") + known)


def _number(value: float | None, shown: str) -> str:
    return html_cell(shown or "—", "" if value is None else value, "number")


def html_cell(shown: str, value: Any, kind: str = "") -> str:
    """A cell with the value that its column is sorted by."""
    return f'<td{f" class={chr(34)}{kind}{chr(34)}" if kind else ""} data-value="{escape(str(value))}">{shown}</td>'


def _samples(comparison: TextComparison) -> str:
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


def _reading(comparison: TextComparison) -> str:
    texts = [
        "<b>Bits per byte</b> is how many bits a milestone needs to tell a byte of text it has never seen, if it"
        " is used to compress it. It is by bytes of the original text, however that was cut into tokens. A word that"
        " is not in the vocabulary is charged for its spelling, so that a small vocabulary cannot win; white space or"
        " case that a tokenizer does not keep is charged to nobody, and said above."
    ]
    if any(row.values("told_apart") for row in comparison.rows):
        texts.append(
            "<b>Word vectors</b> predict no text. Of two words, one that stands beside a word in the held-out text and"
            " one that stands beside another, the nearer one by their vectors should be its own neighbour: the share of"
            " such choices that are right stands in the place of bits; by chance it is half."
        )
    if comparison.measured_rows:
        texts.append(
            f"Columns <b>{escape(', '.join(comparison.measured_rows))}</b>: how vectors of words agree with what people say of"
            " pairs of words (Spearman’s correlation over all pairs, a missing word having the mean cosine), or the"
            " share of analogies solved (a missing word being wrong); behind it how many pairs or analogies have all"
            " their words in the vocabulary. Encoders read a word as a text."
        )
    if any(row.values("found") for row in comparison.rows):
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


def _footer(comparison: TextComparison) -> str:
    facts = comparison.facts
    made = f"Made by forebear {escape(str(facts.get('forebear', '')))}, {escape(str(facts.get('when', '')))}."
    command = f"<br><code>{escape(str(facts['command']))}</code>" if facts.get("command") else ""
    return (
        f'<footer class="small"><p>{made} All figures stand in <code>comparison.json</code>, the runs in'
        f" <code>runs/</code>, both beside this page.{command}</p></footer>"
    )
