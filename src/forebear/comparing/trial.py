"""One milestone, one seed, in a process of its own: its memory is its own, and if it is killed, the others go on."""

from __future__ import annotations

import math
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from forebear.comparing import processes
from forebear.comparing.outcomes import Curve, Trial
from forebear.comparing.processes import Hear
from forebear.comparing.processes import followed as _followed
from forebear.errors import BadInput, ForebearError
from forebear.training.corpora import TextSource
from forebear.training.folder import METRICS, RunFolder
from forebear.training.metrics import Metrics

if TYPE_CHECKING:
    from forebear.text.corpus import Corpus
    from forebear.using.planning import Plan
    from forebear.using.run import Run

ATTEMPT = "from forebear.comparing.trial import serve; serve()"
WORDS = 60  # tokens of a sample


@dataclass(frozen=True)
class Job:
    """What a trial is to do; travels as JSON."""

    milestone: str
    source: dict[str, Any]
    size: str | None
    tokenizer: str | None
    vocabulary: int | None
    settings: dict[str, Any]
    to: str
    prompt: str
    overwrite: bool
    command: str
    words: list[str] = field(default_factory=list)  # files of words that people judged


def attempt(job: Job, hear: Hear) -> Trial:
    """Runs the job and tells how it went; whatever happens there is told in the trial, not raised.

    KeyboardInterrupt is raised, after the trial has saved what it had.
    """
    seed, place = job.settings["seed"], Path(job.to)
    with processes.started(ATTEMPT, asdict(job)) as process:
        told, code = _followed(process, place / METRICS, hear)
    if error := processes.fault(told, code):
        return replace(_so_far(place), seed=seed, finished=False, error=error)
    return replace(result(RunFolder.open(place)), sample=told["sample"], seed=seed)


def _so_far(place: Path) -> Trial:
    try:
        return result(RunFolder.open(place))
    except (ForebearError, KeyError, TypeError):  # it did not come as far as to be a run
        return Trial(0)


def result(run: RunFolder) -> Trial:
    """What a run folder says of its cost and quality."""
    facts = run.facts
    measured = facts.get("metrics", {}).get("held_out", {})
    pseudo, judged = measured.get("pseudo", False), facts.get("words_judged", {})
    return Trial(
        facts["recipe"].get("seed", 0),
        run=f"{run.path.parent.name}/{run.path.name}",
        size=facts.get("size") or "",
        parameters=facts.get("parameters"),
        seconds=facts.get("seconds"),
        tokens=facts.get("tokens"),
        memory=facts.get("peak_memory"),
        bits_per_byte=None if pseudo else measured.get("bits_per_byte"),
        pseudo_bits=measured.get("bits_per_byte") if pseudo else None,
        found=measured.get("accuracy"),
        guess=measured.get("guess"),
        paired=measured.get("pair_accuracy"),
        told_apart=measured.get("told_apart"),
        words={file: one["figure"] for file, one in judged.items() if one["figure"] is not None},
        covered={file: (one["covered"], one["total"]) for file, one in judged.items()},
        perplexity=measured.get("perplexity"),
        impossible=measured.get("impossible_tokens", 0),
        tokenizer=facts["tokenizer"]["kind"],
        vocabulary=facts["tokenizer"]["size"],
        unknown_rate=measured.get("unknown_rate"),
        forgotten=tuple(measured.get("forgotten", ())),
        held_out_bytes=measured.get("bytes"),
        unit=measured.get("unit", "document"),
        ends=measured.get("units"),
        curve=_curve(run, measured),
        finished=run.finished,
    )


def _curve(run: RunFolder, measured: dict[str, Any]) -> Curve:
    """The held-out losses of the training log as bits per byte.

    They were taken on a sample of the held-out text. Their distance to the loss of the state that was kept is turned
    into bits per byte and put upon that state's final measurement, so that the curve leads to the result.
    """
    final = measured.get("bits_per_byte")
    if final is None or run.facts.get("held_out_loss") is None or measured.get("pseudo"):
        return ()
    a_token = measured["tokens"] / measured["bytes"] / math.log(2)
    lines = [line for line in Metrics(run.path / METRICS).read() if line.get("held_out", {}).get("next") is not None]
    kept = [line["held_out"]["next"] for line in lines if line["step"] == run.facts["best_step"]]
    points = ((line["seconds"], line["held_out"]["next"]) for line in lines if kept)
    return tuple((round(at, 3), round(final + (loss - kept[-1]) * a_token, 5)) for at, loss in points)


def unasked(runs: Path, rows: Iterable[Any]) -> list[str]:
    """Rows whose model was not asked about two halves, though its paper does: in sentences, with the reason."""
    titles: dict[str, list[str]] = {}
    for row in rows:
        for trial in row.trials:
            with suppress(ForebearError):
                reason = RunFolder.open(runs / f"{row.name}-{trial.seed}").facts.get("unasked")
                if reason and row.title not in titles.setdefault(reason, []):
                    titles[reason].append(row.title)
    return [
        f"Pre-trained without the question about two halves of a row: {', '.join(found)}; {reason}."
        for reason, found in titles.items()
    ]


# -- the process's end of it


def serve() -> None:
    """A trial's life, as a process."""
    processes.serve(lambda told: _done(Job(**told)))


def _done(job: Job) -> tuple[dict[str, Any], int]:
    return processes.outcome(lambda: {"sample": _run(job)})


def _run(job: Job) -> str:
    from forebear.using.planning import plan
    from forebear.using.pretraining import pretrain
    from forebear.using.run import Run

    source = TextSource.from_json(job.source)
    what = plan(
        job.milestone,
        source.paths,
        size=job.size,
        tokenizer=job.tokenizer,
        vocabulary=job.vocabulary,
        source=source,
        settings=job.settings,
    )
    # made, or found, before memory is watched: learning a tokenizer may need more than the milestone itself
    corpus = cast("Corpus", what.corpus())  # nobody here learns from pairs
    what, reason = (what, "") if "pairs" in job.settings else askable(what, corpus)
    processes.forget_peak()
    run = Run(pretrain(what, job.to, overwrite=job.overwrite, command=job.command, corpus=corpus))
    if reason and "unasked" not in run.facts:
        note = f"{reason}: no question about two halves was asked"
        run.folder.tell(unasked=reason, notes=[*run.facts.get("notes", []), note])
    if "peak_memory" not in run.facts:
        run.folder.tell(peak_memory=processes.peak())
    if job.words and "words_judged" not in run.facts:
        run.folder.tell(words_judged=_judged(run, job.words))
    if "next" not in run.heads:
        return ""
    return run.generate(job.prompt, length=WORDS)[0].text


def _judged(run: Run, files: Iterable[str]) -> dict[str, dict[str, Any]]:
    """By the name of each file: how its vectors agree with people about all pairs, or the share of analogies solved,
    and how many are covered."""
    from forebear.comparing.word_comparing import Judged

    found: dict[str, dict[str, Any]] = {}
    for file in files:
        with suppress(BadInput):  # it has no vectors, or none of words
            one = Judged.of(run.measure_words(file)[0])
            figure = None if one.figure is None else round(one.figure, 6)
            found[one.file] = {"figure": figure, "covered": one.covered, "total": one.total}
    return found


def askable(what: Plan, corpus: Corpus) -> tuple[Plan, str]:
    """The plan, without a question about two halves where this text gives no occasion for it, and the reason then."""
    if what.milestone.pairs == "none":
        return what, ""
    try:
        what.milestone.objective(corpus.tokenizer).check(corpus.split(what.recipe.held_out).train)
    except BadInput as error:
        alone: Any = {"pairs": "none"}
        return replace(what, milestone=replace(what.milestone, **alone)), error.what
    return what, ""
