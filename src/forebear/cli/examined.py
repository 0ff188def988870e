"""How well a run does its task, for people: figures, per class and kind, confusion, how sure it may be, mistakes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from forebear.cli.many import plain
from forebear.cli.printing import Speaking, bar, counted, table
from forebear.errors import BadInput, several

if TYPE_CHECKING:
    from rich.console import Console

    from forebear.using.examining import Examined
    from forebear.using.run import Run

FIGURES = (
    "accuracy",
    "accuracy_unknown",
    "sentence_accuracy",
    "exact_match",
    "f1",
    "precision",
    "recall",
    "macro_f1",
    "micro_f1",
    "weighted_f1",
    "mcc",
)
FIGURES += ("pearson", "spearman", "rmse", "mae", "chance")
CONFUSED = 12  # labels whose confusion fits on a screen


def told_of(
    run: Run, files: list[str], errors: Path | None, speaking: Speaking, *, on_bad_rows: str, on_bad_tags: str
) -> None:
    """Measures a run on a file of examples and tells what was found."""
    from forebear.using.examining import examine, write_mistakes

    if len(files) != 1:
        raise BadInput(f"{len(files)} files of examples", remedy="give one file at a time")
    with speaking.counting("examples") as progress:
        how: dict[str, Any] = {"on_bad_rows": on_bad_rows, "on_bad_tags": on_bad_tags}
        found = examine(run, files[0], progress=progress, **how)
    facts = {"run": run.name, **found.facts()}
    if errors is not None:
        write_mistakes(found, errors)
        facts["errors"] = str(errors)
    speaking.tell(facts, lambda console: _draw(console, found, errors))


def headline(told: dict[str, Any]) -> str:
    """The figures of a task in one line."""
    shown = [f"{name.replace('_', ' ')} {told[name]:.4f}" for name in FIGURES if isinstance(told.get(name), float)]
    return f"{', '.join(shown)} ({counted(told.get('examples', 0), 'example')})"


def _draw(console: Console, found: Examined, errors: Path | None) -> None:
    figures = found.figures
    made = table("", ">")
    for name in FIGURES:
        if isinstance(figures.get(name), float):
            made.add_row(name.replace("_", " "), f"{figures[name]:.4f}", style="bold" if name == found.score else "")
    made.add_row("examples", f"{figures.get('examples', 0):,}")
    console.print(made)
    each = figures.get("per_class") or figures.get("per_kind") or {}
    if each:
        made = table("label", ">precision", ">recall", ">f1", ">examples")
        for label, told in each.items():
            cells = (f"{told[name]:.4f}" for name in ("precision", "recall", "f1"))
            made.add_row(plain(label), *cells, f"{told['support']:,}")
        console.print(made)
    _confusion(console, figures)
    if found.calibration is not None:
        _reliability(console, found.calibration)
    if found.unlabelled:
        console.print(f"[yellow]rows without a label, left out: {found.unlabelled:,}[/]", soft_wrap=True)
    if unseen := figures.get("unseen"):
        told = plain(several([str(label) for label in unseen]))
        console.print(f"[yellow]labels that the run never learned: {told}[/]", soft_wrap=True)
    if (known := found.known) is not None and known.exact:
        told = f"{known.exact:,} of these examples have a {known.what} that the run learned from: no test of it"
        console.print(f"[yellow]{told}[/]", soft_wrap=True)
    for note in found.notes:
        console.print(f"[yellow]{plain(note)}[/]", soft_wrap=True)
    where = f"all in {errors}" if errors is not None else "--errors FILE lists them"
    console.print(f"{counted(len(found.mistakes), 'example')} with mistakes ({where})", markup=False, soft_wrap=True)
    for mistake in found.mistakes[:3]:
        told = mistake.facts()
        text = " / ".join(told["texts"])
        wanted = " | ".join(dict.fromkeys(told["wanted"].split(" | ")))  # people often found the same
        said = f"{wanted or 'nothing'} taken for {told['said'] or 'nothing'}"
        console.print(f"  {said}: {text[:100]}", markup=False, soft_wrap=True)


def _confusion(console: Console, figures: dict[str, Any]) -> None:
    rows, labels = figures.get("confusion"), list(figures.get("per_class") or ())
    if not rows or len(labels) > CONFUSED:
        return
    made = table("is ╲ said", *(f">{plain(label)}" for label in labels), title="Confusion")
    for label, row in zip(labels, rows, strict=True):
        made.add_row(plain(label), *(f"{count:,}" if count else "·" for count in row))
    console.print(made)


def _reliability(console: Console, told: dict[str, Any]) -> None:
    """Of answers given with some confidence, how many were right: as many, if probabilities are probabilities."""
    made = table("confidence", ">examples", ">right", "", title=f"Calibration error {told['calibration_error']:.4f}")
    for one in told["bins"]:
        if one["count"]:
            right = one["accuracy"]
            made.add_row(f"{one['from']:.1f} to {one['to']:.1f}", f"{one['count']:,}", f"{right:.3f}", bar(right, 20))
    console.print(made)
