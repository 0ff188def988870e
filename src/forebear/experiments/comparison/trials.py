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
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from forebear.data.corpus.corpus import TOKENIZER_FILE
from forebear.data.io.atomic import atomic_write
from forebear.data.io.child_processes import child_environment, python_command
from forebear.data.labeled.source import LabeledSource
from forebear.data.source import TextSource
from forebear.embeddings.evaluation import read_word_eval_file
from forebear.errors import ForebearError, InputError
from forebear.experiments.comparison.contenders import read_splits
from forebear.experiments.comparison.results import LearningCurve, TaskTrial, TextTrial
from forebear.experiments.comparison.significance import confidence_interval, example_scores
from forebear.inference.run import Run
from forebear.registry import LINEAGE
from forebear.training.run_folder import METRICS_FILE, MetricsLog, RunFolder

if TYPE_CHECKING:
    from forebear.data.corpus.corpus import Corpus
    from forebear.embeddings.evaluation import AnalogyEval, SimilarityEval
    from forebear.experiments.pipeline import AdaptPlan
    from forebear.experiments.plan import PretrainPlan

# A job in a process of its own: its memory is its own, and if it is killed, whoever asked for it goes on.


POLL_SECONDS = 0.5  # seconds between two looks at how far it is
SAVE_TIMEOUT = 120  # seconds a job may take to save when it is interrupted

LineCallback = Callable[[dict[str, Any]], object]  # the last line of its metrics, whenever there is a new one


# -- the process's end of it


def serve_job(handle: Callable[[dict[str, Any]], tuple[dict[str, Any], int]]) -> None:
    """A job's life: reads what it is, does it, tells the result; when its caller dies, it saves and ends."""
    job = json.loads(sys.stdin.readline())
    threading.Thread(target=_watch_caller, daemon=True).start()
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever else prints must not get into the answer
    outcome, code = handle(job)
    answer.write(json.dumps(outcome))
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
        max_rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return max_rss if sys.platform == "darwin" else max_rss * 1024


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
            process.wait(SAVE_TIMEOUT)
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


def follow_process(process: subprocess.Popen[str], log: Path, on_line: LineCallback) -> tuple[dict[str, Any], int]:
    """Waits for the end, telling every new line of the log; the answer, and the exit code."""
    answers: list[str] = []
    assert process.stdout is not None
    reader = threading.Thread(target=lambda out: answers.append(out.read()), args=[process.stdout], daemon=True)
    reader.start()
    step = None
    while reader.is_alive():
        reader.join(POLL_SECONDS)
        for last in deque(MetricsLog(log).read_lines(), maxlen=1):
            if last.get("step") != step:
                step = last.get("step")
                on_line(last)
    code = process.wait()
    try:
        outcome = json.loads(answers[0])
    except (IndexError, ValueError):
        outcome = {}
    return outcome, code


def job_error(outcome: dict[str, Any], code: int) -> str:
    """What went wrong with a job, by its answer and exit code; nothing where all went well."""
    if code < 0:
        name = signal.Signals(-code).name
        message = f"killed by {name}" + (", often for lack of memory" if code == -signal.SIGKILL else "")
        return f"{message}; a smaller size may fit"
    return outcome.get("error", "") if code == 0 else outcome.get("error", f"ended with code {code}")


ATTEMPT = "from forebear.experiments.comparison.trials import serve_trial; serve_trial()"
SAMPLE_TOKENS = 60  # tokens of a sample


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


def run_text_trial(job: TextTrialSpec, on_line: LineCallback) -> TextTrial:
    """Runs the job and tells how it went; whatever happens there is told in the trial, not raised.

    KeyboardInterrupt is raised, after the trial has saved what it had.
    """
    seed, folder = job.settings["seed"], Path(job.to)
    with start_job(ATTEMPT, asdict(job)) as process:
        outcome, code = follow_process(process, folder / METRICS_FILE, on_line)
    if error := job_error(outcome, code):
        return replace(_partial_text_trial(folder), seed=seed, finished=False, error=error)
    return replace(text_trial_result(RunFolder.open(folder)), sample=outcome["sample"], seed=seed)


def _partial_text_trial(folder: Path) -> TextTrial:
    try:
        return text_trial_result(RunFolder.open(folder))
    except (ForebearError, KeyError, TypeError):  # it did not come as far as to be a run
        return TextTrial(0)


def text_trial_result(run: RunFolder) -> TextTrial:
    """What a run folder says of its cost and quality."""
    metadata = run.metadata
    measured = metadata.get("metrics", {}).get("held_out", {})
    is_pseudo, word_results = measured.get("pseudo", False), metadata.get("words_judged", {})
    return TextTrial(
        metadata["recipe"].get("seed", 0),
        run=f"{run.path.parent.name}/{run.path.name}",
        size=metadata.get("size") or "",
        parameters=metadata.get("parameters"),
        seconds=metadata.get("seconds"),
        tokens=metadata.get("tokens"),
        memory=metadata.get("peak_memory"),
        bits_per_byte=None if is_pseudo else measured.get("bits_per_byte"),
        pseudo_bits=measured.get("bits_per_byte") if is_pseudo else None,
        found=measured.get("accuracy"),
        guess=measured.get("guess"),
        paired=measured.get("pair_accuracy"),
        told_apart=measured.get("told_apart"),
        words={file: result["figure"] for file, result in word_results.items() if result["figure"] is not None},
        covered={file: (result["covered"], result["total"]) for file, result in word_results.items()},
        perplexity=measured.get("perplexity"),
        impossible=measured.get("impossible_tokens", 0),
        tokenizer=metadata["tokenizer"]["kind"],
        vocabulary=metadata["tokenizer"]["size"],
        unknown_rate=measured.get("unknown_rate"),
        forgotten=tuple(measured.get("forgotten", ())),
        held_out_bytes=measured.get("bytes"),
        unit=measured.get("unit", "document"),
        ends=measured.get("units"),
        curve=_bits_curve(run, measured),
        finished=run.is_finished,
    )


def _bits_curve(run: RunFolder, measured: dict[str, Any]) -> LearningCurve:
    """The held-out losses of the training log as bits per byte.

    They were taken on a sample of the held-out text. Their distance to the loss of the state that was kept is turned
    into bits per byte and put upon that state's final measurement, so that the curve leads to the result.
    """
    final = measured.get("bits_per_byte")
    if final is None or run.metadata.get("held_out_loss") is None or measured.get("pseudo"):
        return ()
    bits_per_nat_token = measured["tokens"] / measured["bytes"] / math.log(2)
    lines = [
        line
        for line in MetricsLog(run.path / METRICS_FILE).read_lines()
        if line.get("held_out", {}).get("next") is not None
    ]
    kept_losses = [line["held_out"]["next"] for line in lines if line["step"] == run.metadata["best_step"]]
    points = ((line["seconds"], line["held_out"]["next"]) for line in lines if kept_losses)
    return tuple(
        (round(seconds, 3), round(final + (loss - kept_losses[-1]) * bits_per_nat_token, 5)) for seconds, loss in points
    )


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
        f"Pre-trained without the question about two halves of a row: {', '.join(row_titles)}; {reason}."
        for reason, row_titles in titles.items()
    ]


# -- the process's end of it


def serve_trial() -> None:
    """A trial's life, as a process."""
    serve_job(lambda data: _serve_text_trial(TextTrialSpec(**data)))


def _serve_text_trial(job: TextTrialSpec) -> tuple[dict[str, Any], int]:
    return job_outcome(lambda: {"sample": _run_text_trial(job)})


def _run_text_trial(job: TextTrialSpec) -> str:
    from forebear.experiments.pipeline import run_pretraining
    from forebear.experiments.plan import plan_pretraining
    from forebear.inference.run import Run

    source = TextSource.from_dict(job.source)
    plan = plan_pretraining(
        job.milestone,
        source.paths,
        size=job.size,
        tokenizer=job.tokenizer,
        vocabulary=job.vocabulary,
        source=source,
        settings=job.settings,
    )
    # made, or found, before memory is watched: learning a tokenizer may need more than the milestone itself
    corpus = cast("Corpus", plan.prepare_corpus())  # nobody here learns from pairs
    plan, reason = (plan, "") if "pairs" in job.settings else askable(plan, corpus)
    reset_peak_ram()
    run = Run(run_pretraining(plan, job.to, overwrite=job.overwrite, command=job.command, corpus=corpus))
    if reason and "unasked" not in run.metadata:
        note = f"{reason}: no question about two halves was asked"
        run.folder.update(unasked=reason, notes=[*run.metadata.get("notes", []), note])
    if "peak_memory" not in run.metadata:
        run.folder.update(peak_memory=peak_ram())
    if job.words and "words_judged" not in run.metadata:
        run.folder.update(words_judged=_evaluate_word_files(run, job.words))
    if "next" not in run.heads:
        return ""
    return run.generate(job.prompt, length=SAMPLE_TOKENS)[0].text


def _evaluate_word_files(run: Run, files: Iterable[str]) -> dict[str, dict[str, Any]]:
    """By the name of each file: how its vectors agree with people about all pairs, or the share of analogies solved,
    and how many are covered."""

    results: dict[str, dict[str, Any]] = {}
    for file in files:
        with suppress(InputError):  # it has no vectors, or none of words
            result = WordEvalResult.metric_name(run.measure_words(file)[0])
            score = None if result.metric is None else round(result.metric, 6)
            results[result.file] = {"figure": score, "covered": result.num_covered, "total": result.total}
    return results


def askable(plan: PretrainPlan, corpus: Corpus) -> tuple[PretrainPlan, str]:
    """The plan, without a question about two halves where this text gives no occasion for it, and the reason then."""
    if plan.spec.pairs == "none":
        return plan, ""
    try:
        plan.spec.objective(corpus.tokenizer).check(corpus.split(plan.recipe.held_out).train)
    except InputError as error:
        without_pairs: Any = {"pairs": "none"}
        return replace(plan, spec=replace(plan.spec, **without_pairs)), error.message
    return plan, ""


# --- Task trials ---


TASK_TRIAL_ATTEMPT = "from forebear.experiments.comparison.trials import serve_task_trial; serve_task_trial()"
EXAMPLE_SCORES_FILE = "test_parts.npy"  # in the run's folder: each test example's part in the score
LATENCY_EXAMPLES = 50  # examples that are asked one at a time
WARMUP_EXAMPLES = 3  # that are asked before, and not counted


@dataclass(frozen=True)
class TaskTrialSpec:
    """What a trial is to do; travels as JSON.

    begin  a run's folder, or a milestone's name, which begins from nothing
    fresh  of the run only fields and tokenizer are taken: what is it worth to have been pre-trained?
    """

    begin: str
    source: dict[str, Any]
    settings: dict[str, Any]
    how: dict[str, Any]
    size: str | None
    fresh: bool
    to: str
    seed: int
    overwrite: bool
    command: str


def run_task_trial(job: TaskTrialSpec, on_line: LineCallback) -> TaskTrial:
    """Runs the job and tells how it went; whatever happens there is told in the trial, not raised.

    KeyboardInterrupt is raised, after the trial has saved what it had.
    """
    folder = Path(job.to)
    with start_job(TASK_TRIAL_ATTEMPT, asdict(job)) as process:
        outcome, code = follow_process(process, folder / METRICS_FILE, on_line)
    if error := job_error(outcome, code):
        return replace(_partial_task_trial(folder), seed=job.seed, finished=False, score=None, error=error)
    return replace(task_trial_result(RunFolder.open(folder)), seed=job.seed)


def _partial_task_trial(folder: Path) -> TaskTrial:
    try:
        return task_trial_result(RunFolder.open(folder))
    except (ForebearError, KeyError, TypeError, OSError):  # it did not come as far as to be a run
        return TaskTrial(0)


def task_trial_result(run: RunFolder) -> TaskTrial:
    """What the folder of an adapted run says of its cost and quality."""
    metadata = run.metadata
    comparison_data = metadata.get("compared", {})
    test_metrics = metadata.get("metrics", {}).get("test", {})
    weights = metadata.get("weights")
    return TaskTrial(
        metadata["recipe"].get("seed", 0),
        run=f"{run.path.parent.name}/{run.path.name}",
        size=metadata.get("size") or "",
        score=test_metrics.get(comparison_data.get("score")),
        figures={name: value for name, value in test_metrics.items() if isinstance(value, int | float)},
        low=comparison_data.get("low"),
        high=comparison_data.get("high"),
        parameters=metadata.get("parameters"),
        disk=None if weights is None else weights["bytes"] + (run.path / TOKENIZER_FILE).stat().st_size,
        adapting=metadata.get("seconds"),
        steps=metadata.get("step"),
        milliseconds=comparison_data.get("milliseconds"),
        speed=comparison_data.get("speed"),
        memory=metadata.get("peak_memory"),
        finished=run.is_finished and bool(comparison_data),
    )


def trial_example_scores(run: Path) -> np.ndarray | None:
    """Each test example's part in the score of a trial; None where it is gone."""
    try:
        return np.load(run / EXAMPLE_SCORES_FILE, allow_pickle=False)
    except (OSError, ValueError):
        return None


# -- the process's end of it


def serve_task_trial() -> None:
    """A trial's life, as a process."""
    serve_job(lambda data: job_outcome(lambda: _run_task_trial(TaskTrialSpec(**data))))


def _run_task_trial(job: TaskTrialSpec) -> dict[str, Any]:
    from forebear.experiments import pipeline
    from forebear.inference.run import Run

    source = LabeledSource.from_dict(job.source)
    data = read_splits(source)
    plan = pipeline.plan_adaptation(job.begin, source, how=job.how, settings=job.settings, size=job.size, data=data)
    plan = _without_pretraining(plan) if job.fresh else plan
    reset_peak_ram()
    folder = pipeline.run_adaptation(plan, job.to, overwrite=job.overwrite, command=job.command)
    if "compared" not in folder.metadata or trial_example_scores(folder.path) is None:
        if "peak_memory" not in folder.metadata:
            folder.update(peak_memory=peak_ram())
        folder.update(compared=measure_task_trial(Run(folder), data.test))
    return {}


def _without_pretraining(plan: AdaptPlan) -> AdaptPlan:
    """The same network and tokenizer with first values, and the rate of one that has to learn everything."""
    rate = plan.spec.default_recipe().get("rate", plan.recipe.rate)
    return replace(plan, init_from=None, recipe=replace(plan.recipe, rate=rate))


def measure_task_trial(run: Run, examples: Sequence[Any]) -> dict[str, Any]:
    """How fast it answers and how sure its score is; each example's part in that is kept beside the run."""
    from forebear.inference.predict import predict

    task = run.task
    assert task is not None
    single_examples = [examples[number % len(examples)] for number in _evenly_spaced(len(examples))]
    for example in single_examples[:WARMUP_EXAMPLES]:
        list(predict(run, [example]))
    latencies = []
    for example in single_examples:
        start_time = time.perf_counter()
        list(predict(run, [example]))
        latencies.append(time.perf_counter() - start_time)
    start_time = time.perf_counter()
    answers = list(predict(run, examples))
    batch_seconds = time.perf_counter() - start_time
    scores = example_scores(task, examples, answers)
    with atomic_write(run.folder.path / EXAMPLE_SCORES_FILE) as file:
        np.save(file, scores)
    low, high = confidence_interval(scores)
    return {
        "score": task.score,
        "low": low,
        "high": high,
        "milliseconds": 1000 * float(np.median(latencies)),
        "speed": len(examples) / batch_seconds,
    }


def _evenly_spaced(count: int) -> list[int]:
    """Numbers of ALONE examples, evenly over all; of few examples some come again."""
    return (
        list(range(LATENCY_EXAMPLES))
        if count <= LATENCY_EXAMPLES
        else np.linspace(0, count - 1, LATENCY_EXAMPLES).round().astype(int).tolist()
    )


# --- Word evaluations of finished runs ---


@dataclass(frozen=True)
class WordEvalResult:
    """What the vectors of a run reach on a file: of all pairs or analogies, what is missing counted as told there."""

    file: str
    metric: float | None
    num_covered: int
    total: int

    @classmethod
    def metric_name(cls, evaluation: SimilarityEval | AnalogyEval) -> WordEvalResult:
        data = evaluation.to_dict()
        if data["kind"] == "similarity":
            return cls(PurePath(evaluation.file).stem, data["spearman_all"], data["covered"], data["pairs"])
        return cls(PurePath(evaluation.file).stem, data["accuracy_all"], data["covered"], data["total"])


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
        return {result.file: result for result in map(WordEvalResult.metric_name, self.files)}

    def to_dict(self) -> dict[str, Any]:
        result: dict[str, Any] = {"run": self.run, "milestone": self.title, "year": self.year, "words": self.num_words}
        return result | {"files": [evaluation.to_dict() for evaluation in self.files], "error": self.error}


def compare_words(runs: Sequence[str | os.PathLike[str]], files: Sequence[str | os.PathLike[str]]) -> list[WordEvalRow]:
    """Each run on each file; one that has no vectors of words is a row with its error."""
    for file in files:
        read_word_eval_file(file)  # what is wrong with it is told before any run is loaded
    return [_evaluate_run(Run.open(run), files) for run in runs]


def _evaluate_run(run: Run, files: Sequence[str | os.PathLike[str]]) -> WordEvalRow:
    entry = LINEAGE[run.metadata["milestone"]]
    try:
        evaluations = tuple(run.measure_words(list(files)))
    except InputError as error:
        return WordEvalRow(str(run.folder.path), entry.title, entry.year, None, error=error.message)
    words = len(run.word_table.words) if "analogy" in run.capabilities else None
    return WordEvalRow(str(run.folder.path), entry.title, entry.year, words, evaluations)
