"""A comparison on a task as one HTML page that needs nothing else: no network, no library, no script to be readable."""

from __future__ import annotations

from html import escape

from forebear.experiments.comparison.page import html_cell, html_mark, html_page
from forebear.experiments.comparison.report import table_cells, table_columns, table_legend
from forebear.experiments.comparison.results import TaskComparison, TaskComparisonRow
from forebear.experiments.comparison.task_plot import COST_AXES, plot_task_comparison
from forebear.experiments.comparison.verdict import format_points, metric_name, task_conclusions, task_headline


def task_comparison_page(comparison: TaskComparison) -> str:
    """The whole page."""
    verdict = "".join(f"<p>{escape(text)}</p>" for text in task_conclusions(comparison))
    body = "".join(
        (
            f"<header><h1>{escape(task_headline(comparison))}</h1>{_given(comparison)}</header>",
            f'<div class="verdict">{verdict}</div>',
            "" if comparison.whole else _pictures(comparison),
            _table(comparison),
            _papers(comparison),
            _reading(comparison),
            _footer(comparison),
        )
    )
    return html_page(task_headline(comparison), body, len(comparison.rows))


def _short(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2] or path


def _given(comparison: TaskComparison) -> str:
    """What everyone was given: the same text, examples and budget."""
    settings, facts = comparison.settings, comparison.facts
    examples = facts.get("examples", {})
    told = [f"<b>{escape(_short(str(facts.get('files', {}).get('train', ''))))}</b>", escape(comparison.task)]
    told.append(f"{examples.get('train', 0):,} examples to learn from, {examples.get('test', 0):,} to be tested on")
    if comparison.texts:
        names = ", ".join(map(_short, comparison.texts[:3]))
        told.append(f"{escape(str(settings.get('budget', '')))} of pre-training on {escape(names)}")
    if settings.get("adapting_budget"):
        told.append(f"{escape(str(settings['adapting_budget']))} of adapting")
    if (seeds := len(settings.get("seeds", ()))) > 1:
        told.append(f"{seeds} seeds")
    told.append(escape(str(facts.get("machine", ""))))
    more = "" if comparison.finished else " This comparison is not finished: the same command goes on."
    return f'<p class="given">{" · ".join(filter(None, told))}.{more}</p>'


def _pictures(comparison: TaskComparison) -> str:
    first, second = (
        f'<figure><div class="wide">{plot_task_comparison(comparison, price)}</div>' for price in COST_AXES
    )
    return f"{first}{_key(comparison)}</figure>{second}</figure>"


def _key(comparison: TaskComparison) -> str:
    parts = ["<span><i></i>how far the test can tell (95 %)</span>"]
    parts.append('<span><i class="band"></i>the front: nothing that costs less is as good</span>')
    if comparison.baselines:
        parts.append('<span><i class="dots"></i>baseline, nothing learned</span>')
    return f'<figcaption class="key">{"".join(parts)}</figcaption>'


def _table(comparison: TaskComparison) -> str:
    names = [("year", ""), ("model", ""), *((name, "number") for name in table_columns(comparison))]
    head = "".join(f'<th scope="col" class="{kind}">{escape(name)}</th>' for name, kind in names)
    body = "".join(_row(number, row, comparison, len(names)) for number, row in enumerate(comparison.rows))
    foot = "".join(
        f'<tr><td></td><th scope="row">{escape(base.name)}</th><td class="number">{format_points(base.score)}</td>'
        f'<td colspan="{len(names) - 3}">{escape(base.meaning)}</td></tr>'
        for base in comparison.baselines
    )
    return (
        '<h2>What each reached, and what it costs</h2><div class="wide">'
        f"<table><caption>{table_legend(comparison)}.</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody><tfoot>{foot}</tfoot></table></div>"
    )


def _row(number: int, row: TaskComparisonRow, comparison: TaskComparison, width: int) -> str:
    best = comparison.best is not None and comparison.best.name == row.name
    marks = ", ".join(escape(mark) for mark in (row.size, "best" if best else "") if mark)
    name = f'<span class="m{number} name">{escape(row.title)}</span>{html_mark(marks)}'
    about = escape(row.differs or row.idea)
    first = [
        html_cell(str(row.year), row.year),
        f'<th scope="row" data-value="{escape(row.title)}">{name}<span class="idea">{about}</span></th>',
    ]
    if row.error and row.score is None:
        first.append(f'<td class="wrong" colspan="{width - 2}">{escape(row.error)}</td>')
    else:
        figures = table_cells(row, comparison)
        wrong = f'<span class="idea wrong">{escape(row.error)}</span>' if row.error else ""
        for place, one in enumerate(figures):
            value = "" if one.value is None else one.value
            first.append(
                html_cell(escape(str(one)) + (wrong if not place else ""), value, "number" + " bits" * (not place))
            )
    return f'<tr data-row="{number}"{" class=best" if best else ""}>{"".join(first)}</tr>'


def _papers(comparison: TaskComparison) -> str:
    told = [(number, row) for number, row in enumerate(comparison.rows) if row.papers]
    if not told:
        return ""
    parts = "".join(
        f'<dt class="m{number}">{escape(row.title)}</dt><dd>{escape(row.papers)}</dd>' for number, row in told
    )
    about = '<p class="small">With far more text and far larger networks than here.</p>'
    return f'<h2>What papers found</h2>{about}<dl class="samples">{parts}</dl>'


def _reading(comparison: TaskComparison) -> str:
    told = [escape(text) for text in comparison.remarks]
    if len(comparison.settings.get("seeds", ())) > 1:
        told.append("<b>±</b> behind a score is the standard deviation over the seeds.")
    if not comparison.whole:
        told.append(
            f"<b>{escape(metric_name(comparison))}</b> is in points of a hundred. <b>One takes</b> is the median time for"
            " one example that is asked alone, <b>a second</b> how many are answered when many are asked together,"
            " <b>on disk</b> weights and tokenizer, <b>memory</b> the most that learning took."
        )
    return f"<h2>Before you believe this</h2>{''.join(f'<p>{text}</p>' for text in told)}"


def _footer(comparison: TaskComparison) -> str:
    facts = comparison.facts
    made = f"Made by forebear {escape(str(facts.get('forebear', '')))}, {escape(str(facts.get('when', '')))}."
    command = f"<br><code>{escape(str(facts['command']))}</code>" if facts.get("command") else ""
    best = comparison.best.best if comparison.best is not None else None
    use = f"<br><code>forebear {escape(comparison.verb)} {escape(best.run)} …</code>" if best is not None else ""
    return (
        f'<footer class="small"><p>{made} All figures stand in <code>comparison.json</code>, what was adapted in'
        f" <code>tasks/</code>, both beside this page.{command}{use}</p></footer>"
    )
