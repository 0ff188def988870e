"""What a milestone will see and must predict: one batch of its objective on a text, in tokens, with figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from forebear.errors import BadInput
from forebear.objectives.around import Around
from forebear.objectives.batch import NOTHING, Batch, Moment, Objective, Prepared
from forebear.objectives.masked_tokens import MaskedTokens
from forebear.objectives.next_token import NextToken
from forebear.text.sides import Sides
from forebear.training.corpora import Progress
from forebear.using.continuing import readable
from forebear.using.planning import Plan
from forebear.using.previewing_hidden import answers_of, fates_of, hidden_figures
from forebear.vectors.together import Together

if TYPE_CHECKING:
    from forebear.text.tokenizer import Tokenizer

WINDOWS = 12  # of word vectors that are shown


@dataclass(frozen=True)
class Seen:
    """One row of a batch: ids, the tokens they stand for, and for each target what it asks of each token, or of the
    whole row; None where nothing is asked."""

    ids: list[int]
    tokens: list[str]
    source: list[str] | None  # the tokens of the text that this row translates, if it does
    inputs: dict[str, list[int]]  # beside the tokens
    asked: dict[str, list[str | None]]
    asked_of_row: dict[str, str | None]
    fates: list[str]  # what became of each token where some are hidden: "masked", "random", "kept", or nothing


@dataclass(frozen=True)
class Preview:
    """The first rows of a batch, and figures of the whole of it."""

    rows: list[Seen]
    figures: dict[str, Any]
    tokenizer: dict[str, Any]
    end: str | None
    unknown: str | None
    windows: list[dict[str, Any]] | None = None  # of word2vec: words, those around, and those drawn by chance
    together: list[dict[str, Any]] | None = None  # of GloVe: two words, how often they stand together, what it matters

    def facts(self) -> dict[str, Any]:
        return asdict(self)


def preview(
    what: Plan, *, rows: int = 4, step: int = 0, workers: int | None = None, progress: Progress | None = None
) -> Preview:
    """Batch number `step` of what was planned, exactly as training would see it."""
    if rows < 1 or step < 0:
        raise BadInput(f"rows is {rows}, step is {step}", remedy="give at least one row, and a step of 0 or more")
    corpus = what.corpus(workers=workers, learning_progress=progress, progress=progress)
    with what.about():
        split, sides = corpus.split(what.recipe.held_out), corpus.tokenizer
        objective = what.milestone.objective(sides)
        objective.check(split.train)
        if isinstance(objective, Prepared):
            objective.prepare(split.train, progress)
    tokenizer, read_by = (sides.target, sides.source) if isinstance(sides, Sides) else (sides, None)
    batch = objective.batch(split.train, what.recipe.batch, Moment(what.recipe.seed, step))
    if not len(batch.inputs["lengths"]):
        raise BadInput(f"the batch of step {step} has no rows", remedy="choose another --step, or a larger --batch")
    steps = objective.steps(split.train, what.recipe.batch)
    end = tokenizer.roles.get("end")
    whole = isinstance(objective, NextToken) and objective.lead is not None  # then no row is cut by the context
    figures = batch_figures(batch, steps, tokenizer, None if whole else what.milestone.context)
    if isinstance(objective, MaskedTokens):
        figures |= hidden_figures(batch, split.train, objective)
    figures |= {"train_bytes": split.train.bytes, "held_out_bytes": split.held_out.bytes, "split_by": split.how}
    shown = [] if isinstance(objective, Together) else _rows(batch, tokenizer, rows, objective, read_by)
    return Preview(
        shown,
        figures,
        {name: sides.describe()[name] for name in ("kind", "size")},
        None if end is None else tokenizer.token(end),
        None if tokenizer.unknown is None else tokenizer.token(tokenizer.unknown),
        _windows(what, split.train, tokenizer, batch, step) if isinstance(objective, Around) else None,
        _together(batch, tokenizer) if isinstance(objective, Together) else None,
    )


def _windows(what: Plan, source: Any, tokenizer: Tokenizer, batch: Batch, step: int) -> list[dict[str, Any]]:
    """What word vectors would be learned from, window by window."""
    given, _ = what.beginning.tensors(what.milestone, tokenizer) if what.beginning else (None, [])
    network = what.milestone.network(tokenizer)
    network.meet(source, given)
    return network.windows(batch, rate=what.recipe.rate, moment=(what.recipe.seed, step), many=WINDOWS)


def _together(batch: Batch, tokenizer: Tokenizer) -> list[dict[str, Any]]:
    """The first entries of the table of words that stand together, as they would be shown."""
    words, beside = (batch.inputs[name][:WINDOWS].tolist() for name in ("tokens", "beside"))
    counts, weights = np.exp(batch.targets["together"][:WINDOWS]), batch.inputs["weights"][:WINDOWS]
    entries = zip(words, beside, counts.tolist(), weights.tolist(), strict=True)
    return [
        {"word": tokenizer.token(one), "beside": tokenizer.token(other), "count": count, "weight": weight}
        for one, other, count, weight in entries
    ]


def batch_figures(batch: Batch, steps: int, tokenizer: Tokenizer, context: int | None) -> dict[str, Any]:
    tokens, lengths = batch.inputs["tokens"], batch.inputs["lengths"]
    starts = np.cumsum(lengths) - lengths
    end, unknown = tokenizer.roles.get("end"), tokenizer.unknown
    asked = batch.asked()
    told: dict[str, Any] = {
        "rows": len(lengths),
        "tokens": batch.shown,
        "shortest_row": int(lengths.min()),
        "longest_row": int(lengths.max()),
        "steps_an_epoch": steps,
        "asked": asked,
        "asked_share": {name: count / len(batch.targets[name]) for name, count in asked.items()},
        "unknown_share": float((tokens == unknown).mean()) if unknown is not None else 0.0,
        "distinct_tokens": len(np.unique(tokens)),
    }
    of_words = "around" in batch.targets or "together" in batch.targets  # no end stands in such rows
    if end is not None and batch.places is None and "source" not in batch.inputs and not of_words:
        told["documents_begun"] = int(np.count_nonzero(tokens == end))
        told["rows_begun_inside_a_document"] = int(np.count_nonzero(tokens[starts] != end))
    if context is not None:
        told["rows_as_long_as_the_context"] = int(np.count_nonzero(lengths >= context))
    return told


def _rows(
    batch: Batch,
    tokenizer: Tokenizer,
    count: int,
    objective: Objective | None = None,
    read_by: Tokenizer | None = None,
) -> list[Seen]:
    lengths = batch.inputs["lengths"]
    fates = fates_of(batch, objective.mask) if isinstance(objective, MaskedTokens) else np.full(batch.tokens, "")
    answers = () if objective is None else answers_of(objective)
    ends, read = np.cumsum(lengths), np.cumsum([0, *batch.inputs.get("source_lengths", ())])
    made = []
    for number in range(min(count, len(lengths))):
        mine = slice(int(ends[number] - lengths[number]), int(ends[number]))
        ids = batch.inputs["tokens"][mine].tolist()
        others = _by_token(batch, batch.inputs, but=("tokens", "lengths", "source", "source_lengths"))
        source = None
        if read_by is not None:
            source = [readable(read_by, i) for i in batch.inputs["source"][read[number] : read[number + 1]].tolist()]
        targets = {} if isinstance(objective, Around) else _by_token(batch, batch.targets)
        of_rows = {name: int(target[number]) for name, target in batch.targets.items() if len(target) != batch.tokens}
        made.append(
            Seen(
                ids,
                [readable(tokenizer, i) for i in ids],
                source,
                {name: array[mine].tolist() for name, array in others.items()},
                {name: [_token(tokenizer, i) for i in array[mine].tolist()] for name, array in targets.items()},
                {name: _answer(value, answers) for name, value in of_rows.items()},
                fates[mine].tolist(),
            )
        )
    return made


def _by_token(batch: Batch, arrays: Mapping[str, np.ndarray], but: tuple[str, ...] = ()) -> dict[str, np.ndarray]:
    """Those that have an entry for each token; others have one for each row."""
    return {name: array for name, array in arrays.items() if len(array) == batch.tokens and name not in but}


def _token(tokenizer: Tokenizer, number: int) -> str | None:
    return None if number == NOTHING else readable(tokenizer, number)


def _answer(number: int, answers: Sequence[str]) -> str | None:
    """What a number among the answers to a question stands for."""
    return None if number == NOTHING else answers[number] if answers else str(number)
