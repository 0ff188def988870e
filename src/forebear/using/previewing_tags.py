"""What a milestone that tags teach will see: sentences as they are read, with the tag of each word beneath it."""

from __future__ import annotations

from collections.abc import Sequence

from forebear.errors import BadInput
from forebear.objectives.batch import Moment
from forebear.tasks.every_example import AllExamples
from forebear.tasks.examples import Tagged
from forebear.using.previewing import Preview, Seen, batch_figures
from forebear.using.task_plans import Plan


def tags_preview(what: Plan, *, rows: int = 4) -> Preview:
    """The first sentences that teach, and figures of all of them."""
    if rows < 1:
        raise BadInput(f"rows is {rows}", remedy="give at least one row")
    taught, tokenizer = what.data.train, what.tokenizer
    laid_out = what.task.rows(taught, tokenizer, what.milestone.layout(tokenizer))
    batch = AllExamples().batch(laid_out, what.recipe.batch, Moment(what.recipe.seed, 0))
    figures = batch_figures(batch, 1, tokenizer, None)
    figures |= {"train_bytes": _bytes(taught), "held_out_bytes": _bytes(what.data.dev)}
    figures["split_by"] = "a file of its own" if what.source.dev is not None else "what sentences say"
    shown = [
        Seen([], list(one.words), None, {}, {"tag": list(one.tags or ())}, {}, [""] * len(one.words))
        for one in taught[:rows]
    ]
    described = {name: tokenizer.describe()[name] for name in ("kind", "size")}
    unknown = None if tokenizer.unknown is None else tokenizer.token(tokenizer.unknown)
    return Preview(shown, figures, described, None, unknown)


def _bytes(examples: Sequence[Tagged]) -> int:
    return sum(len(word.encode("utf-8", "replace")) for one in examples for word in one.words)
