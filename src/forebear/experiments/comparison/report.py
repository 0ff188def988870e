"""Comparison pages as self-contained HTML, and the table of a task comparison for page and terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from forebear.experiments.comparison import verdict
from forebear.experiments.comparison.cost_plot import COST_AXES, plot_task_comparison, plot_text_comparison
from forebear.experiments.comparison.results import (
    Comparison,
    ComparisonRow,
    TaskComparison,
    TaskComparisonRow,
    TextComparison,
    TextComparisonRow,
    pareto_front,
)
from forebear.reports.page import html_page, read_assets
from forebear.settings.units import format_bytes, format_count, format_duration

# Row colors run from ochre (oldest model) to blue (newest), for light and dark backgrounds.
LIGHT_COLORS = ("9a600b", "b23f5a", "7849a6", "2b56b5")
DARK_COLORS = ("e6ae5f", "f090a3", "c4a3ee", "93b6ff")
PARETO_MARK = "◆"  # on the Pareto front
TEXT_COLUMNS = (
    ("year", ""),
    ("milestone", ""),
    *((name, "number") for name in ("bits per byte", "own perplexity", "parameters", "learning", "tokens/s", "memory")),
    ("tokenizer", ""),
    ("unknown", "number"),
)


# --- Cells of a table ---


@dataclass(frozen=True)
class TableCell:
    """The text of a cell and the number to sort by, if any."""

    text: str
    value: float | None = None

    def __str__(self) -> str:
        return self.text

    def html(self, remark: str = "", css_class: str = "number") -> str:
        return _html_cell(escape(self.text) + remark, self.value, css_class)


def _cell(value: float | None, format_value: Callable[[float], str], mark: str = "") -> TableCell:
    return TableCell("—") if value is None else TableCell(format_value(value) + mark, value)


def _html_cell(content: str, value: Any, css_class: str = "") -> str:
    """A cell with the value by which its column is sorted."""
    class_attribute = f' class="{css_class}"' if css_class else ""
    return f'<td{class_attribute} data-value="{"" if value is None else escape(str(value))}">{content}</td>'


def _mark(text: str) -> str:
    """A small annotation after a name or number."""
    return f' <span class="mark">{text}</span>' if text else ""


def _error_mark(row: ComparisonRow) -> str:
    """The error of a seed, below the result of the other seeds."""
    return f'<span class="idea wrong">{escape(row.error)}</span>' if row.error else ""


# --- Parts that both pages share ---


def _page(comparison: Comparison, headline: str, conditions: Sequence[str], sections: Iterable[str]) -> str:
    """A page with the headline, the common conditions (the first is the data) and these sections."""
    subject, *other_conditions = conditions
    other_conditions += [f"{comparison.num_seeds} seeds"] if comparison.num_seeds > 1 else []
    other_conditions.append(str(comparison.facts.get("machine", "")))
    subtitle_parts = [f"<b>{escape(subject)}</b>" if subject else "", *map(escape, other_conditions)]
    status = "" if comparison.finished else " This comparison is not finished: the same command goes on."
    subtitle = f'<p class="given">{" · ".join(filter(None, subtitle_parts))}.{status}</p>'
    header = f"<header><h1>{escape(headline)}</h1>{subtitle}</header>"
    style, script = (read_assets("forebear.experiments.comparison", name) for name in ("page.css", "page.js"))
    style += _row_colors(len(comparison.rows))
    return html_page(headline, header + "".join(sections), style, f"<script>{script}</script>")


def _base_name(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2] or path


def _verdict(conclusions: Iterable[str]) -> str:
    return f'<div class="verdict">{"".join(f"<p>{escape(text)}</p>" for text in conclusions)}</div>'


def _legend(line: str, band: str, dots: str = "") -> str:
    """The meaning of lines, bands and dotted lines of a plot."""
    dots_html = f'<span><i class="dots"></i>{dots}</span>' if dots else ""
    lines_html = f'<span><i></i>{line}</span><span><i class="band"></i>{band}</span>{dots_html}'
    return f'<figcaption class="key">{lines_html}</figcaption>'


def _table(
    comparison: Comparison,
    title: str,
    caption: str,
    columns: Sequence[tuple[str, str]],
    rows: Iterable[tuple[str, Sequence[str]]],
    references: Iterable[tuple[str, str, str]],
) -> str:
    """A table with (name, CSS class) of each column, and a row for each of the comparison.

    rows        description, and cells after year and name; without cells the error is shown instead
    references  name, value and meaning of the last rows
    """
    head = "".join(f'<th scope="col" class="{css_class}">{escape(name)}</th>' for name, css_class in columns)
    body = ""
    for index, (row, (description, cells)) in enumerate(zip(comparison.rows, rows, strict=True)):
        is_best = comparison.best is not None and comparison.best.name == row.name
        annotations = ", ".join(filter(None, (escape(row.size), "best" * is_best)))
        results = "".join(cells) or f'<td class="wrong" colspan="{len(columns) - 2}">{escape(row.error)}</td>'
        body += (
            f'<tr data-row="{index}"{" class=is_best" if is_best else ""}>{_html_cell(str(row.year), row.year)}'
            f'<th scope="row" data-value="{escape(row.title)}"><span class="m{index} name">{escape(row.title)}</span>'
            f'{_mark(annotations)}<span class="idea">{escape(description)}</span></th>{results}</tr>'
        )
    foot = "".join(
        f'<tr><td></td><th scope="row">{escape(name)}</th><td class="number">{value}</td>'
        f'<td colspan="{len(columns) - 3}">{escape(meaning)}</td></tr>'
        for name, value, meaning in references
    )
    return (
        f'<h2>{title}</h2><div class="wide"><table><caption>{caption}.</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody><tfoot>{foot}</tfoot></table></div>"
    )


def _described_list(title: str, caption: str, entries: Sequence[str]) -> str:
    """A list of terms and descriptions; "" without entries."""
    html = f'<h2>{title}</h2><p class="small">{caption}</p><dl class="samples">{"".join(entries)}</dl>'
    return html if entries else ""


def _notes(title: str, notes: Iterable[str]) -> str:
    return f"<h2>{title}</h2>{''.join(f'<p>{note}</p>' for note in notes)}"


def _footer(comparison: Comparison, folders: str, usage: str = "") -> str:
    facts = comparison.facts
    credit = f"Made by forebear {escape(str(facts.get('forebear', '')))}, {escape(str(facts.get('when', '')))}."
    commands = [str(command) for command in (facts.get("command"), usage) if command]
    code = "".join(f"<br><code>{escape(command)}</code>" for command in commands)
    return (
        f'<footer class="small"><p>{credit} All figures stand in <code>comparison.json</code>, {folders}, both beside'
        f" this page.{code}</p></footer>"
    )


def _row_colors(num_rows: int) -> str:
    """The CSS color of each row, interpolated between the constant colors."""

    def color_rules(colors: Sequence[str]) -> str:
        positions = np.linspace(0, len(colors) - 1, num_rows)
        channels = zip(*map(bytes.fromhex, colors), strict=True)
        rows = zip(*(np.interp(positions, range(len(colors)), channel) for channel in channels), strict=True)
        hex_colors = ("#" + "".join(f"{round(value):02x}" for value in row) for row in rows)
        return "".join(f".m{index} {{ color: {name}; }}" for index, name in enumerate(hex_colors))

    light, dark = color_rules(LIGHT_COLORS), color_rules(DARK_COLORS)
    return f"{light} @media (prefers-color-scheme: dark) {{ {dark} }} @media print {{ {light} }}"


# --- Comparison on text ---


def text_comparison_page(comparison: TextComparison) -> str:
    """The HTML page of a text comparison."""
    facts, names = comparison.facts, [_base_name(text) for text in comparison.texts]
    conditions = [", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")]
    if "bytes" in facts:
        held_out = format_bytes(facts["held_out_bytes"])
        conditions.append(f"{format_bytes(facts['bytes'])} of text, {held_out} of it held out to examine")
    conditions.append(f"{comparison.settings.get('budget', '')} to learn for each")
    legend = _legend(
        "learning curve, ending in its result",
        "the lowest anyone had reached by then",
        "yardstick, not a milestone" if comparison.yardsticks else "",
    )
    samples = [
        f'<dt class="m{index}">{escape(row.title)}<span>{row.year}</span></dt>'
        f"<dd><mark>{escape(comparison.prompt)}</mark>{escape(sample)}</dd>"
        for index, row in enumerate(comparison.rows)
        if (sample := next((trial.sample for trial in row.trials if trial.sample), ""))
    ]
    sections = (
        f'<figure><div class="wide">{plot_text_comparison(comparison)}</div>{legend}</figure>',
        _verdict(verdict.text_conclusions(comparison)),
        _text_table(comparison),
        _described_list("How each goes on", "The same beginning, the same seed.", samples),
        _notes("How to read this", _text_notes(comparison)),
        _footer(comparison, "the runs in <code>runs/</code>"),
    )
    return _page(comparison, verdict.text_headline(comparison), conditions, sections)


def _text_table(comparison: TextComparison) -> str:
    columns = [*TEXT_COLUMNS, *((name, "number") for name in comparison.word_file_names)]
    max_bits = max((bits for row in comparison.rows if (bits := row.mean("bits_per_byte"))), default=1.0)
    caption = (
        "Bits per byte compares them all; perplexity is per token of each one’s own vocabulary, so compare it only"
        " where tokenizers are the same"
    )
    rows = (
        (f"{row.idea} ({row.authors})" if row.authors else row.idea, _text_cells(index, row, comparison, max_bits))
        for index, row in enumerate(comparison.rows)
    )
    references = [(baseline.name, baseline.bits_per_byte, baseline.meaning) for baseline in comparison.yardsticks]
    if comparison.limit is not None:
        meaning = "known, because the text was generated; no model can go below"
        references.append(("true entropy", comparison.limit, meaning))
    formatted = ((name, f"{bits:.3f}", meaning) for name, bits, meaning in references)
    return _table(comparison, "In the order of history", caption, columns, rows, formatted)


def _text_cells(index: int, row: TextComparisonRow, comparison: TextComparison, max_bits: float) -> list[str]:
    """The cells after year and name, as means over the seeds; none if there is an error and no result."""
    if row.error and not row.trial_values("bits_per_byte") and not row.other_metrics:
        return []
    tokenizer_kind = next((trial.tokenizer for trial in row.trials if trial.tokenizer), "")
    vocabulary = next((trial.vocabulary for trial in row.trials if trial.vocabulary), None)
    costs = {"parameters": format_count, "seconds": format_duration, "speed": format_count, "memory": format_bytes}
    formats = {"perplexity": "{:,.1f}".format, **costs}
    cells = [_bits_cell(index, row, max_bits)]
    cells += [_cell(row.mean(name), format_value).html() for name, format_value in formats.items()]
    cells.append(_html_cell(escape(tokenizer_kind) + (f", {vocabulary:,}" if vocabulary else ""), tokenizer_kind))
    cells.append(_cell(row.mean("unknown_rate"), "{:.2%}".format).html())
    for file in comparison.word_file_names:
        covered = row.word_coverage(file)
        coverage = "" if covered is None else _mark(f"{covered[0]:,} of {covered[1]:,}")
        cells.append(_cell(row.word_score(file), "{:.3f}".format).html(coverage))
    return cells


def _bits_cell(index: int, row: TextComparisonRow, max_bits: float) -> str:
    bits, spread = row.mean("bits_per_byte"), row.spread
    if bits is not None:
        spread_mark = _mark(f"± {spread:.3f}" if spread is not None else "")
        bar = f'<span class="bar m{index}" style="width:{max(bits / max_bits, 0):.1%}" aria-hidden="true"></span>'
        return _html_cell(f"{bits:.3f}{spread_mark}{bar}{_error_mark(row)}", bits, "number bits")
    text = "—"
    if row.other_metrics:
        text = f"—<span class='idea'>{escape(row.other_metrics)}</span>"
    elif num_impossible := sum(row.trial_values("impossible")):
        text = f"∞<span class='idea'>{num_impossible:,} tokens are impossible to it</span>"
    return _html_cell(text, None, "number bits")


def _text_notes(comparison: TextComparison) -> list[str]:
    notes = [
        "<b>Bits per byte</b> is how many bits a milestone needs to tell a byte of text it has never seen, if it"
        " is used to compress it. It is by bytes of the original text, however that was cut into tokens. A word that"
        " is not in the vocabulary is charged for its spelling, so that a small vocabulary cannot win; white space or"
        " case that a tokenizer does not keep is charged to nobody, and said above."
    ]
    if any(row.trial_values("told_apart") for row in comparison.rows):
        notes.append(
            "<b>Word vectors</b> predict no text. Of two words, one that stands beside a word in the held-out text and"
            " one that stands beside another, the nearer one by their vectors should be its own neighbour: the share of"
            " such choices that are right stands in the place of bits; by chance it is half."
        )
    if comparison.word_file_names:
        notes.append(
            f"Columns <b>{escape(', '.join(comparison.word_file_names))}</b>: how vectors of words agree with what"
            " people say of pairs of words (Spearman’s correlation over all pairs, a missing word having the mean"
            " cosine), or the share of analogies solved (a missing word being wrong); behind it how many pairs or"
            " analogies have all their words in the vocabulary. Encoders read a word as a text."
        )
    if any(row.trial_values("found") for row in comparison.rows):
        notes.append(
            "Milestones that <b>find hidden tokens</b> see a text from both sides, so that what they say of its tokens"
            " does not multiply to a probability: they have no bits per byte. Beside how many they find stands what"
            " always naming the commonest token would find; their perplexity is of hidden tokens."
        )
    if comparison.num_seeds > 1:
        notes.append("<b>±</b> is the standard deviation over the seeds; a small ring in the plot is one seed.")
    if comparison.facts.get("note"):
        notes.append(escape(comparison.facts["note"]))
    return notes


# --- Comparison on a task: the table, for page and terminal ---


def table_legend(comparison: TaskComparison) -> str:
    """The meaning of the marks in the table."""
    if comparison.whole:
        return "to the whole: difference in points, ± what chance alone may make of nothing"
    return f"{PARETO_MARK} nothing smaller, or faster, is as good"


COST_COLUMNS: dict[str, tuple[str, Callable[[float], str]]] = {  # name -> value of the trials and its format
    "parameters": ("parameters", format_count),
    "on disk": ("disk", format_bytes),
    "pre-training": ("pretraining", format_duration),
    "adapting": ("adapting", format_duration),
    "one takes": ("milliseconds", lambda value: f"{value:.2g} ms" if value < 99.5 else f"{value:,.0f} ms"),
    "a second": ("speed", format_count),
    "memory": ("memory", format_bytes),
}


def table_columns(comparison: TaskComparison) -> list[str]:
    """Names of the numeric columns after year and title."""
    if comparison.whole:  # ablations are about as large and fast as the reference
        return [verdict.metric_name(comparison), "to the whole", "parameters", "pre-training", "adapting", "memory"]
    return [verdict.metric_name(comparison), *COST_COLUMNS]


def table_cells(row: TaskComparisonRow, comparison: TaskComparison) -> list[TableCell]:
    """The cells of a row, as means over the seeds."""
    spread = "" if row.spread is None else f" ± {verdict.format_points(row.spread)}"
    cells = [_cell(row.score, verdict.format_points, spread)]
    if comparison.whole:
        value, noise = row.versus or (None, 0.0)
        cells.append(_cell(value, _format_difference, f" ± {verdict.format_points(noise)}"))
    for column in table_columns(comparison)[len(cells) :]:
        name, format_value = COST_COLUMNS[column]
        on_front = name in ("disk", "milliseconds") and row in pareto_front(comparison.rows, name)
        cells.append(_cell(row.mean(name), format_value, f" {PARETO_MARK}" if on_front else ""))
    return cells


def _format_difference(value: float) -> str:
    sign = "−" if value < 0 else "+" * (value > 0)
    return sign + verdict.format_points(abs(value))


# --- Comparison on a task: the page ---


def task_comparison_page(comparison: TaskComparison) -> str:
    """The HTML page of a task comparison."""
    settings, facts = comparison.settings, comparison.facts
    examples = facts.get("examples", {})
    conditions = [
        _base_name(str(facts.get("files", {}).get("train", ""))),
        comparison.task,
        f"{examples.get('train', 0):,} examples to learn from, {examples.get('test', 0):,} to be tested on",
    ]
    if comparison.texts:
        names = ", ".join(map(_base_name, comparison.texts[:3]))
        conditions.append(f"{settings.get('budget', '')} of pre-training on {names}")
    if settings.get("adapting_budget"):
        conditions.append(f"{settings['adapting_budget']} of adapting")
    papers = [
        f'<dt class="m{index}">{escape(row.title)}</dt><dd>{escape(row.papers)}</dd>'
        for index, row in enumerate(comparison.rows)
        if row.papers
    ]
    disk_figure, latency_figure = (
        f'<figure><div class="wide">{plot_task_comparison(comparison, axis)}</div>' for axis in COST_AXES
    )
    legend = _legend(
        "how far the test can tell (95 %)",
        "the front: nothing that costs less is as good",
        "baseline, nothing learned" if comparison.baselines else "",
    )
    best_trial = comparison.best.best if comparison.best is not None else None
    usage = "" if best_trial is None else f"forebear {comparison.verb} {best_trial.run} …"
    sections = (
        _verdict(verdict.task_conclusions(comparison)),
        "" if comparison.whole else f"{disk_figure}{legend}</figure>{latency_figure}</figure>",
        _task_table(comparison),
        _described_list("What papers found", "With far more text and far larger networks than here.", papers),
        _notes("Before you believe this", _task_notes(comparison)),
        _footer(comparison, "what was adapted in <code>tasks/</code>", usage),
    )
    return _page(comparison, verdict.task_headline(comparison), conditions, sections)


def _task_table(comparison: TaskComparison) -> str:
    columns = [("year", ""), ("model", ""), *((name, "number") for name in table_columns(comparison))]
    rows = []
    for row in comparison.rows:
        score, *costs = table_cells(row, comparison)
        cells = [score.html(_error_mark(row), "number bits"), *(cost.html() for cost in costs)]
        rows.append((row.differs or row.idea, [] if row.error and row.score is None else cells))
    references = (
        (baseline.name, verdict.format_points(baseline.score), baseline.meaning) for baseline in comparison.baselines
    )
    title, caption = "What each reached, and what it costs", table_legend(comparison)
    return _table(comparison, title, caption, columns, rows, references)


def _task_notes(comparison: TaskComparison) -> list[str]:
    notes = [escape(text) for text in comparison.remarks]
    if comparison.num_seeds > 1:
        notes.append("<b>±</b> behind a score is the standard deviation over the seeds.")
    if not comparison.whole:
        notes.append(
            f"<b>{escape(verdict.metric_name(comparison))}</b> is in points of a hundred. <b>One takes</b> is the"
            " median time for one example that is asked alone, <b>a second</b> how many are answered when many are"
            " asked together, <b>on disk</b> weights and tokenizer, <b>memory</b> the most that learning took."
        )
    return notes
