"""Trials of a comparison, each a model with a seed in a process; and word evaluations of finished runs."""

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
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from forebear.data.corpus.corpus import TOKENIZER_FILE
from forebear.data.io.atomic import atomic_write
from forebear.data.io.workers import child_environment, python_command
from forebear.data.labeled.labeled_source import LabeledSource
from forebear.data.source import TextSource
from forebear.embeddings.evaluation import read_word_eval_file
from forebear.errors import ForebearError, InputError
from forebear.experiments.comparison.participants import read_splits
from forebear.experiments.comparison.results import LearningCurve, TaskTrial, TextTrial
from forebear.experiments.comparison.significance import confidence_interval, example_scores
from forebear.inference.run import Run
from forebear.registry import LINEAGE
from forebear.training.run_folder import METRICS_FILE, MetricsLog, RunFolder

if TYPE_CHECKING:
    from forebear.data.corpus.corpus import Corpus
    from forebear.embeddings.evaluation import AnalogyEval, SimilarityEval
    from forebear.experiments.plan import PretrainPlan

# --- Trials in separate processes: peak memory is measured, and a crash does not end the comparison ---

POLL_SECONDS = 0.5  # between two reads of the training log
SAVE_TIMEOUT = 120  # seconds that a trial may take to save after an interrupt

LineCallback = Callable[[dict[str, Any]], object]  # receives each new last line of metrics.jsonl
TrialT = TypeVar("TrialT", TextTrial, TaskTrial)


def run_job_from_stdin(work: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Main function of a trial process: read the job from stdin, run it, print the outcome; exit if the parent dies."""
    job = json.loads(sys.stdin.readline())

    def watch_parent() -> None:
        sys.stdin.read()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch_parent, daemon=True).start()
    stdout = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # keeps other output apart from the outcome
    outcome, code = job_outcome(lambda: work(job))
    stdout.write(json.dumps(outcome))
    stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # without waiting for the thread


def job_outcome(work: Callable[[], dict[str, Any]]) -> tuple[dict[str, Any], int]:
    """The result of the work, or its error, and the exit code."""
    try:
        return work(), 0
    except ForebearError as error:
        return {"error": str(error)}, error.exit_code
    except KeyboardInterrupt:
        return {"error": "interrupted"}, 130
    except MemoryError:
        return {"error": "out of memory; a smaller size may fit"}, 1
    except Exception as error:  # noqa: BLE001 - any error becomes a row of the table
        return {"error": f"{type(error).__name__}: {error}"}, 1


def reset_peak_ram() -> None:
    """Reset the peak memory of this process, if the system supports it."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_ram() -> int:
    """Peak memory of this process in bytes."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024
    except (OSError, StopIteration):
        max_rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return max_rss if sys.platform == "darwin" else max_rss * 1024


def follow_process(process: subprocess.Popen[str], log: Path, on_line: LineCallback) -> tuple[dict[str, Any], int]:
    """Wait for the process, passing on new log lines; returns its outcome and exit code."""
    outputs: list[str] = []
    assert process.stdout is not None
    reader = threading.Thread(target=lambda out: outputs.append(out.read()), args=[process.stdout], daemon=True)
    reader.start()
    step = None
    while reader.is_alive():
        reader.join(POLL_SECONDS)
        for last_line in deque(MetricsLog(log).read_lines(), maxlen=1):
            if last_line.get("step") != step:
                step = last_line.get("step")
                on_line(last_line)
    code = process.wait()
    with suppress(IndexError, ValueError):
        return json.loads(outputs[0]), code
    return {}, code


def _run_trial(
    program: str,
    spec: TextTrialSpec | TaskTrialSpec,
    on_line: LineCallback,
    read_result: Callable[[RunFolder], TrialT],
    empty_trial: TrialT,
) -> tuple[dict[str, Any], TrialT]:
    """Run a trial in a new interpreter: its outcome, and its result, with an error if it failed.

    The interpreter has its own session: it receives Ctrl-C only from this process, and then has time to save.
    """
    process = subprocess.Popen(
        python_command(program),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=child_environment(),
        text=True,
        start_new_session=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(BrokenPipeError):  # it has already exited, see its exit code
        process.stdin.write(json.dumps(asdict(spec)) + "\n")
        process.stdin.flush()
    try:
        outcome, code = follow_process(process, Path(spec.to) / METRICS_FILE, on_line)
    except BaseException:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(SAVE_TIMEOUT)
        except BaseException:  # a second Ctrl-C, or a timeout: kill it
            process.kill()
            process.wait()
            raise
        raise
    finally:
        for pipe in (process.stdin, process.stdout):
            with suppress(BrokenPipeError):
                pipe.close()
    error = outcome.get("error", "") if code == 0 else outcome.get("error", f"ended with code {code}")
    if code < 0:
        likely_cause = ", often for lack of memory" if code == -signal.SIGKILL else ""
        error = f"killed by {signal.Signals(-code).name}{likely_cause}; a smaller size may fit"
    if error:
        partial_trial = stored_trial(Path(spec.to), read_result) or empty_trial
        return outcome, replace(partial_trial, finished=False, error=error)
    return outcome, read_result(RunFolder.open(spec.to))


def stored_trial(run: Path, read_result: Callable[[RunFolder], TrialT]) -> TrialT | None:
    """The result of a trial from its run folder, which may be partial; None if there is no such run."""
    try:
        return read_result(RunFolder.open(run))
    except (ForebearError, KeyError, TypeError, OSError):
        return None


# --- Text trials ---

TEXT_TRIAL_PROGRAM = "from forebear.experiments.comparison.trials import text_trial_main; text_trial_main()"
SAMPLE_TOKENS = 60  # length of a generated sample


@dataclass(frozen=True)
class TextTrialSpec:
    """A trial on text, as sent to its process in JSON."""

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
    words: list[str] = field(default_factory=list)  # word-evaluation files


def run_text_trial(spec: TextTrialSpec, on_line: LineCallback) -> TextTrial:
    """Run a trial in a process; errors are part of the result, and KeyboardInterrupt is raised after saving."""
    seed = spec.settings["seed"]
    outcome, trial = _run_trial(TEXT_TRIAL_PROGRAM, spec, on_line, text_trial_result, TextTrial(seed))
    return replace(trial, seed=seed, sample=outcome.get("sample", ""))


def text_trial_result(run: RunFolder) -> TextTrial:
    """Cost and quality of a run, from its metadata."""
    metadata = run.metadata
    held_out_metrics = metadata.get("metrics", {}).get("held_out", {})
    is_pseudo, word_results = held_out_metrics.get("pseudo", False), metadata.get("words_judged", {})
    return TextTrial(
        metadata["recipe"].get("seed", 0),
        run=f"{run.path.parent.name}/{run.path.name}",
        size=metadata.get("size") or "",
        **{name: metadata.get(name) for name in ("parameters", "seconds", "tokens")},
        memory=metadata.get("peak_memory"),
        bits_per_byte=None if is_pseudo else held_out_metrics.get("bits_per_byte"),
        pseudo_bits=held_out_metrics.get("bits_per_byte") if is_pseudo else None,
        **{name: held_out_metrics.get(name) for name in ("guess", "told_apart", "perplexity", "unknown_rate")},
        found=held_out_metrics.get("accuracy"),
        paired=held_out_metrics.get("pair_accuracy"),
        words={file: result["figure"] for file, result in word_results.items() if result["figure"] is not None},
        covered={file: (result["covered"], result["total"]) for file, result in word_results.items()},
        impossible=held_out_metrics.get("impossible_tokens", 0),
        tokenizer=metadata["tokenizer"]["kind"],
        vocabulary=metadata["tokenizer"]["size"],
        forgotten=tuple(held_out_metrics.get("forgotten", ())),
        held_out_bytes=held_out_metrics.get("bytes"),
        unit=held_out_metrics.get("unit", "document"),
        ends=held_out_metrics.get("units"),
        curve=_bits_curve(run, held_out_metrics),
        finished=run.is_finished,
    )


def _bits_curve(run: RunFolder, held_out_metrics: dict[str, Any]) -> LearningCurve:
    """The held-out losses of the training log as bits per byte.

    The losses are of a sample of the held-out text. Their difference to the loss of the best checkpoint is converted to
    bits per byte and added to the final result, so that the curve ends there.
    """
    final_bits = held_out_metrics.get("bits_per_byte")
    if final_bits is None or run.metadata.get("held_out_loss") is None or held_out_metrics.get("pseudo"):
        return ()
    bits_per_nat_token = held_out_metrics["tokens"] / held_out_metrics["bytes"] / math.log(2)
    points = [
        (line["step"], line["seconds"], loss)
        for line in MetricsLog(run.path / METRICS_FILE).read_lines()
        if (loss := line.get("held_out", {}).get("next")) is not None
    ]
    best_losses = [loss for step, _, loss in points if step == run.metadata["best_step"]]
    if not best_losses:
        return ()
    curve = ((seconds, final_bits + (loss - best_losses[-1]) * bits_per_nat_token) for _, seconds, loss in points)
    return tuple((round(seconds, 3), round(bits, 5)) for seconds, bits in curve)


def missing_pair_task_notes(runs_folder: Path, rows: Iterable[Any]) -> list[str]:
    """Notes on rows trained without NSP or SOP although the paper uses it, with the reason."""
    titles: dict[str, list[str]] = {}
    for row in rows:
        for trial in row.trials:
            with suppress(ForebearError):
                reason = RunFolder.open(runs_folder / f"{row.name}-{trial.seed}").metadata.get("unasked")
                if reason and row.title not in titles.setdefault(reason, []):
                    titles[reason].append(row.title)
    return [
        f"Pre-trained without the question about two halves of a row: {', '.join(row_titles)}; {reason}."
        for reason, row_titles in titles.items()
    ]


def text_trial_main() -> None:
    """Main function of the process of a text trial."""
    run_job_from_stdin(lambda job: {"sample": _run_text_trial(TextTrialSpec(**job))})


def _run_text_trial(spec: TextTrialSpec) -> str:
    """Train and measure the model; returns its sample."""
    from forebear.experiments.plan import plan_pretraining
    from forebear.experiments.training_run import run_pretraining

    source = TextSource.from_dict(spec.source)
    options = {name: getattr(spec, name) for name in ("size", "tokenizer", "vocabulary", "settings")}
    plan = plan_pretraining(spec.milestone, source.paths, source=source, **options)
    # prepared before peak memory is reset: training a tokenizer may need more memory than the model
    corpus = cast("Corpus", plan.prepare_corpus())  # parallel corpora are not compared
    plan, reason = (plan, "") if "pairs" in spec.settings else drop_unsupported_pair_task(plan, corpus)
    reset_peak_ram()
    run = Run(run_pretraining(plan, spec.to, overwrite=spec.overwrite, command=spec.command, corpus=corpus))
    if reason and "unasked" not in run.metadata:
        note = f"{reason}: no question about two halves was asked"
        run.folder.update(unasked=reason, notes=[*run.metadata.get("notes", []), note])
    if "peak_memory" not in run.metadata:
        run.folder.update(peak_memory=peak_ram())
    if spec.words and "words_judged" not in run.metadata:
        run.folder.update(words_judged=_evaluate_word_files(run, spec.words))
    return run.generate(spec.prompt, length=SAMPLE_TOKENS)[0].text if "next" in run.heads else ""


def _evaluate_word_files(run: Run, files: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Score and coverage by word-evaluation file; empty for a model without word vectors."""
    results: dict[str, dict[str, Any]] = {}
    for file in files:
        with suppress(InputError):  # it has no word vectors
            result = WordEvalResult.from_evaluation(run.measure_words(file)[0])
            score = None if result.metric is None else round(result.metric, 6)
            results[result.file] = {"figure": score, "covered": result.num_covered, "total": result.total}
    return results


def drop_unsupported_pair_task(plan: PretrainPlan, corpus: Corpus) -> tuple[PretrainPlan, str]:
    """The plan, without NSP or SOP if this text does not support it, and the reason why."""
    if plan.spec.pairs == "none":
        return plan, ""
    try:
        plan.spec.objective(corpus.tokenizer).check(corpus.split(plan.recipe.held_out).train)
    except InputError as error:
        without_pairs: Any = {"pairs": "none"}
        return replace(plan, spec=replace(plan.spec, **without_pairs)), error.message
    return plan, ""


# --- Task trials ---

TASK_TRIAL_PROGRAM = "from forebear.experiments.comparison.trials import task_trial_main; task_trial_main()"
EXAMPLE_SCORES_FILE = "test_parts.npy"  # in the run folder: per-example scores
LATENCY_EXAMPLES = 50  # examples timed one by one
WARMUP_EXAMPLES = 3  # untimed examples before them


@dataclass(frozen=True)
class TaskTrialSpec:
    """A trial on a task, as sent to its process in JSON.

    start_from       a run folder, or the name of a model to train from scratch
    adaptation       fields of `Adaptation`
    start_untrained  use only settings and tokenizer of the run: the ablation of pre-training
    """

    start_from: str
    source: dict[str, Any]
    settings: dict[str, Any]
    adaptation: dict[str, Any]
    size: str | None
    start_untrained: bool
    to: str
    seed: int
    overwrite: bool
    command: str


def run_task_trial(spec: TaskTrialSpec, on_line: LineCallback) -> TaskTrial:
    """Run a trial on a task in a process; errors are part of the result and not raised."""
    _, trial = _run_trial(TASK_TRIAL_PROGRAM, spec, on_line, task_trial_result, TaskTrial(spec.seed))
    return replace(trial, seed=spec.seed, score=None if trial.error else trial.score)


def task_trial_result(run: RunFolder) -> TaskTrial:
    """Cost and quality of an adapted run, from its metadata."""
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
        **{name: comparison_data.get(name) for name in ("low", "high", "milliseconds", "speed")},
        parameters=metadata.get("parameters"),
        disk=None if weights is None else weights["bytes"] + (run.path / TOKENIZER_FILE).stat().st_size,
        adapting=metadata.get("seconds"),
        steps=metadata.get("step"),
        memory=metadata.get("peak_memory"),
        finished=run.is_finished and bool(comparison_data),
    )


def trial_example_scores(run: Path) -> np.ndarray | None:
    """(N,) per-example scores of a trial; None if the file is missing."""
    try:
        return np.load(run / EXAMPLE_SCORES_FILE, allow_pickle=False)
    except (OSError, ValueError):
        return None


def task_trial_main() -> None:
    """Main function of the process of a task trial."""
    run_job_from_stdin(lambda job: _run_task_trial(TaskTrialSpec(**job)))


def _run_task_trial(spec: TaskTrialSpec) -> dict[str, Any]:
    from forebear.experiments import training_run

    source = LabeledSource.from_dict(spec.source)
    data = read_splits(source)
    options: dict[str, Any] = {"how": spec.adaptation, "settings": spec.settings, "size": spec.size}
    plan = training_run.plan_adaptation(spec.start_from, source, data=data, **options)
    if spec.start_untrained:  # random initialization, and the learning rate of training from scratch
        rate = plan.spec.default_recipe().get("rate", plan.recipe.rate)
        plan = replace(plan, init_from=None, recipe=replace(plan.recipe, rate=rate))
    reset_peak_ram()
    folder = training_run.run_adaptation(plan, spec.to, overwrite=spec.overwrite, command=spec.command)
    if "compared" not in folder.metadata or trial_example_scores(folder.path) is None:
        if "peak_memory" not in folder.metadata:
            folder.update(peak_memory=peak_ram())
        folder.update(compared=measure_task_trial(Run(folder), data.test))
    return {}


def measure_task_trial(run: Run, examples: Sequence[Any]) -> dict[str, Any]:
    """Latency, throughput and confidence interval of a run; its per-example scores are saved in its folder."""
    from forebear.inference.task_predictions import predict

    task = run.task
    assert task is not None

    def timed_predictions(batch: Sequence[Any]) -> tuple[list[Any], float]:
        start_time = time.perf_counter()
        predictions = list(predict(run, batch))
        return predictions, time.perf_counter() - start_time

    num_examples = len(examples)  # evenly spaced, or repeated if there are few
    last_index = max(num_examples, LATENCY_EXAMPLES) - 1
    example_indices = np.linspace(0, last_index, LATENCY_EXAMPLES).round().astype(int) % num_examples
    for index in example_indices[:WARMUP_EXAMPLES]:
        timed_predictions([examples[index]])
    latencies = [timed_predictions([examples[index]])[1] for index in example_indices]
    predictions, batch_seconds = timed_predictions(examples)
    per_example_scores = example_scores(task, examples, predictions)
    with atomic_write(run.folder.path / EXAMPLE_SCORES_FILE) as file:
        np.save(file, per_example_scores)
    low, high = confidence_interval(per_example_scores)
    return {
        "score": task.metric,
        "low": low,
        "high": high,
        "milliseconds": 1000 * float(np.median(latencies)),
        "speed": num_examples / batch_seconds,
    }


# --- Word evaluations of finished runs ---


@dataclass(frozen=True)
class WordEvalResult:
    """Score of a run on a word-evaluation file over all pairs or analogies, and coverage."""

    file: str
    metric: float | None
    num_covered: int
    total: int

    @classmethod
    def from_evaluation(cls, evaluation: SimilarityEval | AnalogyEval) -> WordEvalResult:
        data = evaluation.to_dict()
        metric, total = ("spearman_all", "pairs") if data["kind"] == "similarity" else ("accuracy_all", "total")
        return cls(PurePath(evaluation.file).stem, data[metric], data["covered"], data[total])


@dataclass(frozen=True)
class WordEvalRow:
    """A run and its evaluation on each file, or the error why it has none."""

    run: str
    title: str
    year: int
    num_words: int | None
    files: tuple[SimilarityEval | AnalogyEval, ...] = ()
    error: str = ""

    @property
    def results(self) -> dict[str, WordEvalResult]:
        """Results by file name."""
        return {result.file: result for result in map(WordEvalResult.from_evaluation, self.files)}

    def to_dict(self) -> dict[str, Any]:
        result: dict[str, Any] = {"run": self.run, "milestone": self.title, "year": self.year, "words": self.num_words}
        return result | {"files": [evaluation.to_dict() for evaluation in self.files], "error": self.error}


def compare_words(runs: Sequence[str | os.PathLike[str]], files: Sequence[str | os.PathLike[str]]) -> list[WordEvalRow]:
    """Evaluate each run on each file; a run without word vectors becomes a row with an error."""
    for file in files:
        read_word_eval_file(file)  # errors are raised before any run is loaded
    rows = []
    for run in map(Run.open, runs):
        entry = LINEAGE[run.metadata["milestone"]]
        row = WordEvalRow(str(run.folder.path), entry.title, entry.year, None)
        try:
            evaluations = tuple(run.measure_words(list(files)))
        except InputError as error:
            rows.append(replace(row, error=error.message))
            continue
        num_words = len(run.word_table.words) if "analogy" in run.capabilities else None
        rows.append(replace(row, num_words=num_words, files=evaluations))
    return rows
