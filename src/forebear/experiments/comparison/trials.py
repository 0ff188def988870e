"""One milestone, one seed, in a process of its own: its memory is its own, and if it is killed, the others go on."""

from __future__ import annotations

import json
import math
import os
import resource
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, cast

from forebear.data.corpora import TextSource
from forebear.data.io.child_processes import child_environment, python_command
from forebear.embeddings.evaluation import read_word_eval_file
from forebear.errors import ForebearError, InputError
from forebear.experiments.comparison.results import LearningCurve, TextTrial
from forebear.inference.run import Run
from forebear.registry import LINEAGE
from forebear.training.run_folder import METRICS_FILE, MetricsLog, RunFolder

if TYPE_CHECKING:
    from forebear.data.corpus.corpus import Corpus
    from forebear.embeddings.evaluation import AnalogyEval, SimilarityEval
    from forebear.experiments.plan import PretrainPlan

# A job in a process of its own: its memory is its own, and if it is killed, whoever asked for it goes on.


LOOK = 0.5  # seconds between two looks at how far it is
PATIENCE = 120  # seconds a job may take to save when it is interrupted

LineCallback = Callable[[dict[str, Any]], object]  # the last line of its metrics, whenever there is a new one


# -- the process's end of it


def serve_job(done: Callable[[dict[str, Any]], tuple[dict[str, Any], int]]) -> None:
    """A job's life: reads what it is, does it, tells the result; when its caller dies, it saves and ends."""
    job = json.loads(sys.stdin.readline())
    threading.Thread(target=_watch_caller, daemon=True).start()
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever else prints must not get into the answer
    told, code = done(job)
    answer.write(json.dumps(told))
    answer.flush()
    sys.stderr.flush()
    os._exit(code)  # the thread that watches still reads


def _watch_caller() -> None:
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGTERM)


def job_outcome(work: Callable[[], dict[str, Any]]) -> tuple[dict[str, Any], int]:
    """What the work tells, or what went wrong with it; and the exit code."""
    try:
        return work(), 0
    except ForebearError as error:
        return {"error": str(error)}, error.exit_code
    except KeyboardInterrupt:
        return {"error": "interrupted"}, 130
    except MemoryError:
        return {"error": "out of memory; a smaller size may fit"}, 1
    except Exception as error:  # noqa: BLE001 - whatever it is, it is a row of the table and not the table's end
        return {"error": f"{type(error).__name__}: {error}"}, 1


def reset_peak_ram() -> None:
    """From here on the peak of memory is counted anew, where the system can."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def peak_ram() -> int:
    """Bytes of memory this process has held at most."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024
    except (OSError, StopIteration):
        told = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return told if sys.platform == "darwin" else told * 1024


# -- the caller's end of it


@contextmanager
def start_job(program: str, job: Mapping[str, Any]) -> Iterator[subprocess.Popen[str]]:
    """A fresh interpreter that knows its job. A session of its own keeps Ctrl-C from it: it hears of that from us."""
    process = subprocess.Popen(
        python_command(program),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=child_environment(),
        text=True,
        start_new_session=True,
    )
    assert process.stdin is not None
    with suppress(BrokenPipeError):  # it is dead already: its exit code says so
        process.stdin.write(json.dumps(job) + "\n")
        process.stdin.flush()
    try:
        yield process
    except BaseException:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(PATIENCE)
        except BaseException:  # a second Ctrl-C, or it does not end: then at once
            process.kill()
            process.wait()
            raise
        raise
    finally:
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()


def follow_process(process: subprocess.Popen[str], log: Path, hear: LineCallback) -> tuple[dict[str, Any], int]:
    """Waits for the end, telling every new line of the log; the answer, and the exit code."""
    answers: list[str] = []
    assert process.stdout is not None
    reader = threading.Thread(target=lambda out: answers.append(out.read_lines()), args=[process.stdout], daemon=True)
    reader.start()
    step = None
    while reader.is_alive():
        reader.join(LOOK)
        for last in deque(MetricsLog(log).read_lines(), maxlen=1):
            if last.get("step") != step:
                step = last.get("step")
                hear(last)
    code = process.wait()
    try:
        told = json.loads(answers[0])
    except (IndexError, ValueError):
        told = {}
    return told, code


def job_error(told: dict[str, Any], code: int) -> str:
    """What went wrong with a job, by its answer and exit code; nothing where all went well."""
    if code < 0:
        name = signal.Signals(-code).name
        what = f"killed by {name}" + (", often for lack of memory" if code == -signal.SIGKILL else "")
        return f"{what}; a smaller size may fit"
    return told.get("error", "") if code == 0 else told.get("error", f"ended with code {code}")


ATTEMPT = "from forebear.experiments.comparison.trials import serve_trial; serve_trial()"
WORDS = 60  # tokens of a sample


@dataclass(frozen=True)
class TextTrialSpec:
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


def run_text_trial(job: TextTrialSpec, hear: LineCallback) -> TextTrial:
    """Runs the job and tells how it went; whatever happens there is told in the trial, not raised.

    KeyboardInterrupt is raised, after the trial has saved what it had.
    """
    seed, place = job.settings["seed"], Path(job.to)
    with start_job(ATTEMPT, asdict(job)) as process:
        told, code = follow_process(process, place / METRICS_FILE, hear)
    if error := job_error(told, code):
        return replace(_so_far(place), seed=seed, finished=False, error=error)
    return replace(text_trial_result(RunFolder.open(place)), sample=told["sample"], seed=seed)


def _so_far(place: Path) -> TextTrial:
    try:
        return text_trial_result(RunFolder.open(place))
    except (ForebearError, KeyError, TypeError):  # it did not come as far as to be a run
        return TextTrial(0)


def text_trial_result(run: RunFolder) -> TextTrial:
    """What a run folder says of its cost and quality."""
    facts = run.metadata
    measured = facts.get("metrics", {}).get("held_out", {})
    pseudo, judged = measured.get("pseudo", False), facts.get("words_judged", {})
    return TextTrial(
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
        finished=run.is_finished,
    )


def _curve(run: RunFolder, measured: dict[str, Any]) -> LearningCurve:
    """The held-out losses of the training log as bits per byte.

    They were taken on a sample of the held-out text. Their distance to the loss of the state that was kept is turned
    into bits per byte and put upon that state's final measurement, so that the curve leads to the result.
    """
    final = measured.get("bits_per_byte")
    if final is None or run.metadata.get("held_out_loss") is None or measured.get("pseudo"):
        return ()
    a_token = measured["tokens"] / measured["bytes"] / math.log(2)
    lines = [
        line
        for line in MetricsLog(run.path / METRICS_FILE).read_lines()
        if line.get("held_out", {}).get("next") is not None
    ]
    kept = [line["held_out"]["next"] for line in lines if line["step"] == run.metadata["best_step"]]
    points = ((line["seconds"], line["held_out"]["next"]) for line in lines if kept)
    return tuple((round(at, 3), round(final + (loss - kept[-1]) * a_token, 5)) for at, loss in points)


def rows_without_pair_task(runs: Path, rows: Iterable[Any]) -> list[str]:
    """Rows whose model was not asked about two halves, though its paper does: in sentences, with the reason."""
    titles: dict[str, list[str]] = {}
    for row in rows:
        for trial in row.trials:
            with suppress(ForebearError):
                reason = RunFolder.open(runs / f"{row.name}-{trial.seed}").metadata.get("unasked")
                if reason and row.title not in titles.setdefault(reason, []):
                    titles[reason].append(row.title)
    return [
        f"Pre-trained without the question about two halves of a row: {', '.join(found)}; {reason}."
        for reason, found in titles.items()
    ]


# -- the process's end of it


def serve_trial() -> None:
    """A trial's life, as a process."""
    serve_job(lambda told: _done(TextTrialSpec(**told)))


def _done(job: TextTrialSpec) -> tuple[dict[str, Any], int]:
    return job_outcome(lambda: {"sample": _run(job)})


def _run(job: TextTrialSpec) -> str:
    from forebear.experiments.pipeline import run_pretraining
    from forebear.experiments.plan import plan_pretraining
    from forebear.inference.run import Run

    source = TextSource.from_dict(job.source)
    what = plan_pretraining(
        job.milestone,
        source.paths,
        size=job.size,
        tokenizer=job.tokenizer,
        vocabulary=job.vocabulary,
        source=source,
        settings=job.settings,
    )
    # made, or found, before memory is watched: learning a tokenizer may need more than the milestone itself
    corpus = cast("Corpus", what.prepare_corpus())  # nobody here learns from pairs
    what, reason = (what, "") if "pairs" in job.settings else askable(what, corpus)
    reset_peak_ram()
    run = Run(run_pretraining(what, job.to, overwrite=job.overwrite, command=job.command, corpus=corpus))
    if reason and "unasked" not in run.metadata:
        note = f"{reason}: no question about two halves was asked"
        run.folder.update(unasked=reason, notes=[*run.metadata.get("notes", []), note])
    if "peak_memory" not in run.metadata:
        run.folder.update(peak_memory=peak_ram())
    if job.words and "words_judged" not in run.metadata:
        run.folder.update(words_judged=_judged(run, job.words))
    if "next" not in run.heads:
        return ""
    return run.generate(job.prompt, length=WORDS)[0].text


def _judged(run: Run, files: Iterable[str]) -> dict[str, dict[str, Any]]:
    """By the name of each file: how its vectors agree with people about all pairs, or the share of analogies solved,
    and how many are covered."""

    found: dict[str, dict[str, Any]] = {}
    for file in files:
        with suppress(InputError):  # it has no vectors, or none of words
            one = WordEvalResult.metric_name(run.measure_words(file)[0])
            figure = None if one.metric is None else round(one.metric, 6)
            found[one.file] = {"figure": figure, "covered": one.num_covered, "total": one.total}
    return found


def askable(what: PretrainPlan, corpus: Corpus) -> tuple[PretrainPlan, str]:
    """The plan, without a question about two halves where this text gives no occasion for it, and the reason then."""
    if what.spec.pairs == "none":
        return what, ""
    try:
        what.spec.objective(corpus.tokenizer).check(corpus.split(what.recipe.held_out).train)
    except InputError as error:
        alone: Any = {"pairs": "none"}
        return replace(what, spec=replace(what.spec, **alone)), error.message
    return what, ""


# Finished runs beside each other by files of words that people judged: nothing is trained, and nothing is written.


@dataclass(frozen=True)
class WordEvalResult:
    """What the vectors of a run reach on a file: of all pairs or analogies, what is missing counted as told there."""

    file: str
    metric: float | None
    num_covered: int
    total: int

    @classmethod
    def metric_name(cls, found: SimilarityEval | AnalogyEval) -> WordEvalResult:
        told = found.to_dict()
        if told["kind"] == "similarity":
            return cls(PurePath(found.file).stem, told["spearman_all"], told["covered"], told["pairs"])
        return cls(PurePath(found.file).stem, told["accuracy_all"], told["covered"], told["total"])


@dataclass(frozen=True)
class WordEvalRow:
    """A run and what each file says of it; with an error, why it could not be asked."""

    run: str
    title: str
    year: int
    num_words: int | None
    files: tuple[SimilarityEval | AnalogyEval, ...] = ()
    error: str = ""

    @property
    def results(self) -> dict[str, WordEvalResult]:
        """By the name of the file."""
        return {one.file: one for one in map(WordEvalResult.metric_name, self.files)}

    def to_dict(self) -> dict[str, Any]:
        told: dict[str, Any] = {"run": self.run, "milestone": self.title, "year": self.year, "words": self.num_words}
        return told | {"files": [one.to_dict() for one in self.files], "error": self.error}


def compare_words(runs: Sequence[str | os.PathLike[str]], files: Sequence[str | os.PathLike[str]]) -> list[WordEvalRow]:
    """Each run on each file; one that has no vectors of words is a row with its error."""
    for file in files:
        read_word_eval_file(file)  # what is wrong with it is told before any run is loaded
    return [_word_comparing_judged(Run.open(run), files) for run in runs]


def _word_comparing_judged(run: Run, files: Sequence[str | os.PathLike[str]]) -> WordEvalRow:
    entry = LINEAGE[run.metadata["milestone"]]
    try:
        found = tuple(run.measure_words(list(files)))
    except InputError as error:
        return WordEvalRow(str(run.folder.path), entry.title, entry.year, None, error=error.message)
    words = len(run.word_table.words) if "analogy" in run.capabilities else None
    return WordEvalRow(str(run.folder.path), entry.title, entry.year, words, found)
