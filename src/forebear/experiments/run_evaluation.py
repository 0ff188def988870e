"""Evaluate runs: task metrics, latency, and notes on leakage and on baselines that are not beaten."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from forebear.data.corpus.corpus import Corpus
from forebear.data.labeled.examples import is_labeled
from forebear.data.labeled.labeled_source import LabeledSource
from forebear.errors import ForebearError
from forebear.experiments.plan import AdaptPlan
from forebear.inference.measure import TextEvaluation
from forebear.inference.run import Run
from forebear.inference.task_predictions import predict
from forebear.tasks.baselines import TaskBaseline
from forebear.tasks.metrics import oov_tagging_accuracy
from forebear.tasks.tagging import SequenceTagging
from forebear.tasks.task import Task
from forebear.training.run_folder import RunFolder
from forebear.training.settings import Recipe

MAX_EVAL_BYTES = 1_000_000  # of held-out text in the final measurement
NUM_TIMED_EXAMPLES = 30  # examples whose latency is measured


def leaked_splits(ancestor: str | None, source: LabeledSource, digests: Mapping[str, str]) -> list[str]:
    """Evaluation splits from files that an ancestor of the run was trained on; `ancestor` is its parent's folder."""
    known_digests, visited = set[str](), set[str]()
    while ancestor and ancestor not in visited:
        visited.add(ancestor)
        try:
            metadata = RunFolder.open(ancestor).metadata
        except ForebearError:  # it is missing, and so is the record of its parents
            break
        known_digests.add((metadata.get("labelled") or {}).get("digests", {}).get("train", ""))
        ancestor = metadata.get("parent")
    is_split = source.dev is None or (source.test is None and source.test_share > 0)
    return [split for split in digests if (split != "train" or is_split) and digests[split] in known_digests]


def leakage_notes(run: RunFolder, source: LabeledSource) -> list[str]:
    """Notes that the parent run was trained on examples that are held out now."""
    if "distilled" in run.metadata:  # the teacher held out the same examples
        return []
    files = source.split_paths()
    splits = leaked_splits(run.metadata.get("parent"), source, run.metadata["labelled"]["digests"])
    return [
        f"the run it begins with has learned from {file} already: figures on held-out parts of it say too much"
        for file in dict.fromkeys(files[split] for split in splits)
    ]


def baseline_notes(plan: AdaptPlan, baseline: TaskBaseline, metrics: Mapping[str, Any]) -> list[str]:
    """A note if the run does not beat this baseline."""
    score = float(metrics[plan.task.metric])
    if score > baseline.score or score == 1 or metrics.get("entities") == 0:
        return []
    hint = "more examples may help"
    if plan.spec.learning != "counting":
        hint = "give it more time or examples, another --rate, or a run that was pre-trained longer"
    return [f"it does no better than this: {baseline.meaning} ({baseline.score:.3f}); {hint}"]


def task_metrics(plan: AdaptPlan, task: Task, examples: Sequence[Any], predictions: Sequence[Any]) -> dict[str, Any]:
    """The metrics of the task; for tags also the accuracy on words that are not in the training set."""
    metrics = task.evaluate(examples, predictions)
    if not isinstance(task, SequenceTagging) or not task.is_plain:
        return metrics
    train_words = {word for example in plan.labeled_data.train for word in example.words}
    return metrics | oov_tagging_accuracy(examples, predictions, train_words)


def measure_on_examples(run: Run, plan: AdaptPlan) -> dict[str, Any]:
    """The task metric on each labeled split of the plan, and the latency of a single text."""
    task = run.task
    assert task is not None
    metrics: dict[str, Any] = {"score": task.metric}
    for split in ("dev", "test"):
        if examples := [example for example in getattr(plan.labeled_data, split) if is_labeled(example)]:
            metrics[split] = float(task.evaluate(examples, list(predict(run, examples)))[task.metric])
    seconds = []
    for example in plan.labeled_data.dev[:NUM_TIMED_EXAMPLES]:
        start = time.perf_counter()
        list(predict(run, [example]))
        seconds.append(time.perf_counter() - start)
    return metrics | {"milliseconds": round(1000 * median(seconds), 3) if seconds else None}


def measure_on_text(run: Run, corpus: Corpus, recipe: Recipe) -> dict[str, Any]:
    """Bits per byte or masked-LM accuracy on held-out text, and latency."""
    held_out = corpus.split(recipe.held_out).held_out.first(MAX_EVAL_BYTES)
    evaluation = run.measure(held_out)
    assert isinstance(evaluation, TextEvaluation)  # a student trained on text predicts it
    # short durations are measured again: the first is slow
    seconds = evaluation.seconds if evaluation.seconds > 1 else min(run.measure(held_out).seconds for _ in range(3))
    score = "accuracy" if evaluation.is_pseudo_likelihood else "bits_per_byte"
    milliseconds = round(1000 * seconds / max(1, evaluation.units), 3)
    return {"score": score, "held_out": evaluation.to_dict()[score], "milliseconds": milliseconds}
