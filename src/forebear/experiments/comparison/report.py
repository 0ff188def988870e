"""Comparison pages as self-contained HTML, and the table of a task comparison for page and terminal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from typing import Any

from forebear.experiments.comparison.cost_plot import COST_AXES, plot_task_comparison, plot_text_comparison
from forebear.experiments.comparison.results import (
    TaskComparison,
    TaskComparisonRow,
    TextComparison,
    TextComparisonRow,
    pareto_front,
)
from forebear.experiments.comparison.verdict import (
    format_points,
    metric_name,
    task_conclusions,
    task_headline,
    text_conclusions,
    text_headline,
)
from forebear.settings.units import format_bytes, format_count, format_duration

# Row colors run from ochre (oldest model) to blue (newest), for light and dark backgrounds.
LIGHT_COLORS = ((0x9A, 0x60, 0x0B), (0xB2, 0x3F, 0x5A), (0x78, 0x49, 0xA6), (0x2B, 0x56, 0xB5))
DARK_COLORS = ((0xE6, 0xAE, 0x5F), (0xF0, 0x90, 0xA3), (0xC4, 0xA3, 0xEE), (0x93, 0xB6, 0xFF))
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"  # no network access from the page
)
PARETO_MARK = "◆"  # on the Pareto front
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
    """The HTML page of a text comparison."""
    title = text_headline(comparison)
    body = "".join(
        (
            f"<header><h1>{escape(title)}</h1>{_text_subtitle(comparison)}</header>",
            f'<figure><div class="wide">{plot_text_comparison(comparison)}</div>{_text_legend(comparison)}</figure>',
            f'<div class="verdict">{"".join(f"<p>{escape(text)}</p>" for text in text_conclusions(comparison))}</div>',
            _text_table(comparison),
            _text_samples(comparison),
            _text_notes(comparison),
            _text_footer(comparison),
        )
    )
    return html_page(title, body, len(comparison.rows))


def html_page(title: str, body: str, rows: int) -> str:
    """A self-contained page around `body`, with a color for each row and no network access."""
    style, script = (
        files("forebear.experiments.comparison").joinpath(name).read_text("utf-8") for name in ("page.css", "page.js")
    )
    page = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{CONTENT_SECURITY_POLICY}">'
        f"<title>{escape(title)}</title><style>{style}{_row_colors(rows)}</style></head>"
        f"<body><main>{body}</main><script>{script}</script></body></html>\n"
    )
    return page.encode("utf-8", "replace").decode("utf-8")  # a file name may hold characters that UTF-8 cannot encode


def _row_colors(count: int) -> str:
    def rules(anchors: tuple[tuple[int, int, int], ...]) -> str:
        return "".join(
            f".m{index} {{ color: {_interpolate_color(anchors, index / max(count - 1, 1))}; }}"
            for index in range(count)
        )

    light, dark = rules(LIGHT_COLORS), rules(DARK_COLORS)
    return f"{light} @media (prefers-color-scheme: dark) {{ {dark} }} @media print {{ {light} }}"


def _interpolate_color(anchors: tuple[tuple[int, int, int], ...], share: float) -> str:
    position = share * (len(anchors) - 1)
    first = min(int(position), len(anchors) - 2)
    pairs = zip(anchors[first], anchors[first + 1], strict=True)
    return "#" + "".join(f"{round(start + (end - start) * (position - first)):02x}" for start, end in pairs)


def _text_subtitle(comparison: TextComparison) -> str:
    """The common conditions: text, split and budget."""
    metadata, names = comparison.facts, [text.rstrip("/").rpartition("/")[2] or text for text in comparison.texts]
    text_names = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    parts = [f"<b>{escape(text_names)}</b>" if text_names else ""]
    if "bytes" in metadata:
        parts.append(
            f"{format_bytes(metadata['bytes'])} of text,"
            f" {format_bytes(metadata['held_out_bytes'])} of it held out to examine"
        )
    parts.append(f"{escape(str(comparison.settings.get('budget', '')))} to learn for each")
    if (seeds := len(comparison.settings.get("seeds", ()))) > 1:
        parts.append(f"{seeds} seeds")
    parts.append(escape(str(metadata.get("machine", ""))))
    status = "" if comparison.finished else " This comparison is not finished: the same command goes on."
    return f'<p class="given">{" · ".join(filter(None, parts))}.{status}</p>'


def _text_legend(comparison: TextComparison) -> str:
    parts = ["<span><i></i>learning curve, ending in its result</span>"]
    parts.append('<span><i class="band"></i>the lowest anyone had reached by then</span>')
    if comparison.yardsticks:
        parts.append('<span><i class="dots"></i>yardstick, not a milestone</span>')
    return f'<figcaption class="key">{"".join(parts)}</figcaption>'


def _text_table(comparison: TextComparison) -> str:
    columns = [*COLUMNS, *((escape(name), "number") for name in comparison.word_file_names)]
    head = "".join(f'<th scope="col" class="{css_class}">{name}</th>' for name, css_class in columns)
    widest = max((bits for row in comparison.rows if (bits := row.mean("bits_per_byte"))), default=1.0)
    body = "".join(_text_row(index, row, comparison, widest) for index, row in enumerate(comparison.rows))
    foot = "".join(
        f'<tr><td></td><th scope="row">{escape(name)}</th><td class="number">{bits:.3f}</td>'
        f'<td colspan="{len(columns) - 3}">{escape(meaning)}</td></tr>'
        for name, bits, meaning in _reference_rows(comparison)
    )
    return (
        f'<h2>In the order of history</h2><div class="wide"><table><caption>Bits per byte compares them all; perplexity'
        " is per token of each one’s own vocabulary, so compare it only where tokenizers are the same.</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody><tfoot>{foot}</tfoot></table></div>"
    )


def _reference_rows(comparison: TextComparison) -> list[tuple[str, float, str]]:
    rows = [(baseline.name, baseline.bits_per_byte, baseline.meaning) for baseline in comparison.yardsticks]
    if comparison.limit is not None:
        rows.append(("true entropy", comparison.limit, "known, because the text was generated; no model can go below"))
    return rows


def _text_row(index: int, row: TextComparisonRow, comparison: TextComparison, widest: float) -> str:
    best = comparison.best is not None and comparison.best.name == row.name
    labels = [escape(mark) for mark in (row.size, "best" if best else "") if mark]
    name = f'<span class="m{index} name">{escape(row.title)}</span>' + html_mark(", ".join(labels))
    description = f"{row.idea} ({row.authors})" if row.authors else row.idea
    cells = [
        html_cell(str(row.year), row.year),
        f'<th scope="row" data-value="{escape(row.title)}">{name}<span class="idea">{escape(description)}</span></th>',
    ]
    if row.error and not row.trial_values("bits_per_byte") and not row.other_metrics:
        width = len(COLUMNS) + len(comparison.word_file_names) - 2
        cells.append(f'<td class="wrong" colspan="{width}">{escape(row.error)}</td>')
    else:
        cells += [_bits_cell(index, row, widest), *_metric_cells(row)]
        cells += [
            _word_eval_cell(row.word_figures(name), row.word_coverage(name)) for name in comparison.word_file_names
        ]
    return f'<tr data-row="{index}"{" class=best" if best else ""}>{"".join(cells)}</tr>'


def html_mark(text: str) -> str:
    """A small annotation after a name or number."""
    return f' <span class="mark">{text}</span>' if text else ""


def _bits_cell(index: int, row: TextComparisonRow, widest: float) -> str:
    bits, spread = row.mean("bits_per_byte"), row.spread
    if bits is None:
        num_impossible = sum(row.trial_values("impossible"))
        if row.other_metrics:
            return html_cell(f"—<span class='idea'>{escape(row.other_metrics)}</span>", "", "number bits")
        text = f"∞<span class='idea'>{num_impossible:,} tokens are impossible to it</span>" if num_impossible else "—"
        return html_cell(text, "", "number bits")
    error = f'<span class="idea wrong">{escape(row.error)}</span>' if row.error else ""
    text = f"{bits:.3f}" + html_mark(f"± {spread:.3f}" if spread is not None else "")
    bar = f'<span class="bar m{index}" style="width:{max(bits / widest, 0):.1%}" aria-hidden="true"></span>'
    return html_cell(text + bar + error, bits, "number bits")


def _metric_cells(row: TextComparisonRow) -> list[str]:
    """The cells after bits per byte, as means over the seeds."""
    perplexity, parameters, seconds = row.mean("perplexity"), row.mean("parameters"), row.mean("seconds")
    speed, memory, unknown_rate = row.mean("speed"), row.mean("memory"), row.mean("unknown_rate")
    tokenizer_kind = next((trial.tokenizer for trial in row.trials if trial.tokenizer), "")
    vocabulary = next((trial.vocabulary for trial in row.trials if trial.vocabulary), None)
    tokenizer_text = f"{escape(tokenizer_kind)}, {vocabulary:,}" if vocabulary else escape(tokenizer_kind)
    return [
        _number_cell(perplexity, "" if perplexity is None else f"{perplexity:,.1f}"),
        _number_cell(parameters, "" if parameters is None else format_count(parameters)),
        _number_cell(seconds, "" if seconds is None else format_duration(seconds)),
        _number_cell(speed, "" if speed is None else format_count(speed)),
        _number_cell(memory, "" if memory is None else format_bytes(memory)),
        html_cell(tokenizer_text, tokenizer_kind),
        _number_cell(unknown_rate, "" if unknown_rate is None else f"{unknown_rate:.2%}"),
    ]


def _word_eval_cell(value: float | None, covered: tuple[int, int] | None) -> str:
    coverage = "" if covered is None else html_mark(f"{covered[0]:,} of {covered[1]:,}")
    return _number_cell(value, ("—" if value is None else f"{value:.3f}") + coverage)


def _number_cell(value: float | None, shown: str) -> str:
    return html_cell(shown or "—", "" if value is None else value, "number")


def html_cell(shown: str, value: Any, css_class: str = "") -> str:
    """A cell with the value by which its column is sorted."""
    class_attribute = f' class="{css_class}"' if css_class else ""
    return f'<td{class_attribute} data-value="{escape(str(value))}">{shown}</td>'


def _text_samples(comparison: TextComparison) -> str:
    samples = [(index, row, trial) for index, row in enumerate(comparison.rows) for trial in row.trials if trial.sample]
    if not samples:
        return ""
    first_samples = {row.name: (index, row, trial) for index, row, trial in reversed(samples)}
    parts = "".join(
        f'<dt class="m{index}">{escape(row.title)}<span>{row.year}</span></dt>'
        f"<dd><mark>{escape(comparison.prompt)}</mark>{escape(trial.sample)}</dd>"
        for index, row, trial in sorted(first_samples.values(), key=lambda sample: sample[0])
    )
    caption = '<p class="small">The same beginning, the same seed.</p>'
    return f'<h2>How each goes on</h2>{caption}<dl class="samples">{parts}</dl>'


def _text_notes(comparison: TextComparison) -> str:
    texts = [
        "<b>Bits per byte</b> is how many bits a milestone needs to tell a byte of text it has never seen, if it"
        " is used to compress it. It is by bytes of the original text, however that was cut into tokens. A word that"
        " is not in the vocabulary is charged for its spelling, so that a small vocabulary cannot win; white space or"
        " case that a tokenizer does not keep is charged to nobody, and said above."
    ]
    if any(row.trial_values("told_apart") for row in comparison.rows):
        texts.append(
            "<b>Word vectors</b> predict no text. Of two words, one that stands beside a word in the held-out text and"
            " one that stands beside another, the nearer one by their vectors should be its own neighbour: the share of"
            " such choices that are right stands in the place of bits; by chance it is half."
        )
    if comparison.word_file_names:
        texts.append(
            f"Columns <b>{escape(', '.join(comparison.word_file_names))}</b>: how vectors of words agree with what"
            " people say of pairs of words (Spearman’s correlation over all pairs, a missing word having the mean"
            " cosine), or the share of analogies solved (a missing word being wrong); behind it how many pairs or"
            " analogies have all their words in the vocabulary. Encoders read a word as a text."
        )
    if any(row.trial_values("found") for row in comparison.rows):
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


def _text_footer(comparison: TextComparison) -> str:
    metadata = comparison.facts
    credit = f"Made by forebear {escape(str(metadata.get('forebear', '')))}, {escape(str(metadata.get('when', '')))}."
    command = f"<br><code>{escape(str(metadata['command']))}</code>" if metadata.get("command") else ""
    return (
        f'<footer class="small"><p>{credit} All figures stand in <code>comparison.json</code>, the runs in'
        f" <code>runs/</code>, both beside this page.{command}</p></footer>"
    )


# --- Task comparison: the table ---


@dataclass(frozen=True)
class TableCell:
    """The text of a cell and the number to sort by, if any."""

    text: str
    value: float | None = None
    is_marked: bool = False  # on the Pareto front

    def __str__(self) -> str:
        return f"{self.text} {PARETO_MARK}" if self.is_marked else self.text


def table_legend(comparison: TaskComparison) -> str:
    """The meaning of the marks in the table."""
    if comparison.whole:
        return "to the whole: difference in points, ± what chance alone may make of nothing"
    return f"{PARETO_MARK} nothing smaller, or faster, is as good"


def table_columns(comparison: TaskComparison) -> list[str]:
    """Names of the numeric columns after year and title."""
    if comparison.whole:  # ablations are about as large and fast as the reference
        return [metric_name(comparison), "to the whole", "parameters", "pre-training", "adapting", "memory"]
    costs = ["parameters", "on disk", "pre-training", "adapting", "one takes", "a second", "memory"]
    return [metric_name(comparison), *costs]


def table_cells(row: TaskComparisonRow, comparison: TaskComparison) -> list[TableCell]:
    """The cells of a row, as means over the seeds."""
    cells = {
        metric_name(comparison): _score_cell(row),
        "to the whole": _difference_cell(row),
        "parameters": _cell(row.mean("parameters"), format_count),
        "on disk": _cell(row.mean("disk"), format_bytes, marked=row in pareto_front(comparison.rows, "disk")),
        "pre-training": _cell(row.mean("pretraining"), format_duration),
        "adapting": _cell(row.mean("adapting"), format_duration),
        "one takes": _cell(
            row.mean("milliseconds"), _format_milliseconds, marked=row in pareto_front(comparison.rows, "milliseconds")
        ),
        "a second": _cell(row.mean("speed"), format_count),
        "memory": _cell(row.mean("memory"), format_bytes),
    }
    return [cells[name] for name in table_columns(comparison)]


def _score_cell(row: TaskComparisonRow) -> TableCell:
    if row.score is None:
        return TableCell("—")
    spread = "" if row.spread is None else f" ± {format_points(row.spread)}"
    return TableCell(format_points(row.score) + spread, row.score)


def _difference_cell(row: TaskComparisonRow) -> TableCell:
    if row.versus is None:
        return TableCell("—")
    value, noise = row.versus
    sign = "+" if value > 0 else "−" if value < 0 else ""
    return TableCell(f"{sign}{format_points(abs(value))} ± {format_points(noise)}", value)


def _format_milliseconds(value: float) -> str:
    return f"{value:.2g} ms" if value < 99.5 else f"{value:,.0f} ms"


def _cell(value: float | None, format_value: Callable[[float], str], *, marked: bool = False) -> TableCell:
    return TableCell("—") if value is None else TableCell(format_value(value), value, marked)


# --- Task comparison: the page ---


def task_comparison_page(comparison: TaskComparison) -> str:
    """The HTML page of a task comparison."""
    verdict = "".join(f"<p>{escape(text)}</p>" for text in task_conclusions(comparison))
    body = "".join(
        (
            f"<header><h1>{escape(task_headline(comparison))}</h1>{_task_subtitle(comparison)}</header>",
            f'<div class="verdict">{verdict}</div>',
            "" if comparison.whole else _task_plots(comparison),
            _task_table(comparison),
            _paper_findings(comparison),
            _task_notes(comparison),
            _task_footer(comparison),
        )
    )
    return html_page(task_headline(comparison), body, len(comparison.rows))


def _base_name(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2] or path


def _task_subtitle(comparison: TaskComparison) -> str:
    """The common conditions: text, examples and budget."""
    settings, metadata = comparison.settings, comparison.facts
    examples = metadata.get("examples", {})
    parts = [f"<b>{escape(_base_name(str(metadata.get('files', {}).get('train', ''))))}</b>", escape(comparison.task)]
    parts.append(f"{examples.get('train', 0):,} examples to learn from, {examples.get('test', 0):,} to be tested on")
    if comparison.texts:
        names = ", ".join(map(_base_name, comparison.texts[:3]))
        parts.append(f"{escape(str(settings.get('budget', '')))} of pre-training on {escape(names)}")
    if settings.get("adapting_budget"):
        parts.append(f"{escape(str(settings['adapting_budget']))} of adapting")
    if (seeds := len(settings.get("seeds", ()))) > 1:
        parts.append(f"{seeds} seeds")
    parts.append(escape(str(metadata.get("machine", ""))))
    status = "" if comparison.finished else " This comparison is not finished: the same command goes on."
    return f'<p class="given">{" · ".join(filter(None, parts))}.{status}</p>'


def _task_plots(comparison: TaskComparison) -> str:
    first, second = (f'<figure><div class="wide">{plot_task_comparison(comparison, axis)}</div>' for axis in COST_AXES)
    return f"{first}{_task_legend(comparison)}</figure>{second}</figure>"


def _task_legend(comparison: TaskComparison) -> str:
    parts = ["<span><i></i>how far the test can tell (95 %)</span>"]
    parts.append('<span><i class="band"></i>the front: nothing that costs less is as good</span>')
    if comparison.baselines:
        parts.append('<span><i class="dots"></i>baseline, nothing learned</span>')
    return f'<figcaption class="key">{"".join(parts)}</figcaption>'


def _task_table(comparison: TaskComparison) -> str:
    names = [("year", ""), ("model", ""), *((name, "number") for name in table_columns(comparison))]
    head = "".join(f'<th scope="col" class="{css_class}">{escape(name)}</th>' for name, css_class in names)
    body = "".join(_task_row(index, row, comparison, len(names)) for index, row in enumerate(comparison.rows))
    foot = "".join(
        f'<tr><td></td><th scope="row">{escape(baseline.name)}</th>'
        f'<td class="number">{format_points(baseline.score)}</td>'
        f'<td colspan="{len(names) - 3}">{escape(baseline.meaning)}</td></tr>'
        for baseline in comparison.baselines
    )
    return (
        '<h2>What each reached, and what it costs</h2><div class="wide">'
        f"<table><caption>{table_legend(comparison)}.</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody><tfoot>{foot}</tfoot></table></div>"
    )


def _task_row(index: int, row: TaskComparisonRow, comparison: TaskComparison, width: int) -> str:
    best = comparison.best is not None and comparison.best.name == row.name
    labels = ", ".join(escape(mark) for mark in (row.size, "best" if best else "") if mark)
    name = f'<span class="m{index} name">{escape(row.title)}</span>{html_mark(labels)}'
    description = escape(row.differs or row.idea)
    cells = [
        html_cell(str(row.year), row.year),
        f'<th scope="row" data-value="{escape(row.title)}">{name}<span class="idea">{description}</span></th>',
    ]
    if row.error and row.score is None:
        cells.append(f'<td class="wrong" colspan="{width - 2}">{escape(row.error)}</td>')
    else:
        metric_cells = table_cells(row, comparison)
        error = f'<span class="idea wrong">{escape(row.error)}</span>' if row.error else ""
        for column, cell in enumerate(metric_cells):
            value = "" if cell.value is None else cell.value
            cells.append(
                html_cell(escape(str(cell)) + (error if not column else ""), value, "number" + " bits" * (not column))
            )
    return f'<tr data-row="{index}"{" class=best" if best else ""}>{"".join(cells)}</tr>'


def _paper_findings(comparison: TaskComparison) -> str:
    rows = [(index, row) for index, row in enumerate(comparison.rows) if row.papers]
    if not rows:
        return ""
    parts = "".join(
        f'<dt class="m{index}">{escape(row.title)}</dt><dd>{escape(row.papers)}</dd>' for index, row in rows
    )
    caption = '<p class="small">With far more text and far larger networks than here.</p>'
    return f'<h2>What papers found</h2>{caption}<dl class="samples">{parts}</dl>'


def _task_notes(comparison: TaskComparison) -> str:
    notes = [escape(text) for text in comparison.remarks]
    if len(comparison.settings.get("seeds", ())) > 1:
        notes.append("<b>±</b> behind a score is the standard deviation over the seeds.")
    if not comparison.whole:
        notes.append(
            f"<b>{escape(metric_name(comparison))}</b> is in points of a hundred. <b>One takes</b> is the median time"
            " for one example that is asked alone, <b>a second</b> how many are answered when many are asked together,"
            " <b>on disk</b> weights and tokenizer, <b>memory</b> the most that learning took."
        )
    return f"<h2>Before you believe this</h2>{''.join(f'<p>{text}</p>' for text in notes)}"


def _task_footer(comparison: TaskComparison) -> str:
    metadata = comparison.facts
    credit = f"Made by forebear {escape(str(metadata.get('forebear', '')))}, {escape(str(metadata.get('when', '')))}."
    command = f"<br><code>{escape(str(metadata['command']))}</code>" if metadata.get("command") else ""
    best_trial = comparison.best.best if comparison.best is not None else None
    usage = (
        f"<br><code>forebear {escape(comparison.verb)} {escape(best_trial.run)} …</code>"
        if best_trial is not None
        else ""
    )
    return (
        f'<footer class="small"><p>{credit} All figures stand in <code>comparison.json</code>, what was adapted in'
        f" <code>tasks/</code>, both beside this page.{command}{usage}</p></footer>"
    )
