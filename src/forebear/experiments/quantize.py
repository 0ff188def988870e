"""Quantize a run to int8, and measure what that costs on held-out data."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, cast

import numpy as np

from forebear.data.corpus.parallel import ParallelFormat
from forebear.data.corpus.subset import Subset
from forebear.data.io.sources import PathLike
from forebear.data.io.text_ledger import Ledger
from forebear.data.labeled.examples import Example, is_labeled
from forebear.data.labeled.labeled_source import LabeledSource, labeled_source
from forebear.data.labeled.load import read_extra_split, read_labeled
from forebear.embeddings.knn import nearest_rows
from forebear.errors import ForebearError, InputError
from forebear.experiments.training_run import reopen_run_corpus, replace_run
from forebear.inference.measure import prepare_texts
from forebear.inference.run import Run
from forebear.inference.translate import evaluate_translations
from forebear.tasks.task import predict_logits
from forebear.training.card import write_model_card
from forebear.training.create_finished_run import create_run
from forebear.training.run_folder import RunFolder

MAX_BYTES, MAX_EXAMPLES, MAX_PAIRS, MAX_SENTENCES = 100_000, 2000, 200, 1000  # default limits of the measurement
MIN_SENTENCE_LENGTH = 30  # characters; shorter sentences, such as headings, have no meaningful neighbors
UNCOPIED_KEYS = (
    *("asked", "weights", "tokenizer", "began", "versions", "hardware", "state", "name", "command", "processes"),
    *("metrics", "baseline", "price"),  # results of the float run
)
ProgressFn = Callable[[int, int], object]  # finished measurements, and their number in total


def quantization_cost(
    run: Run, quantized: Run, data_files: Sequence[str], limit: int | None, progress: ProgressFn | None = None
) -> dict[str, Any]:
    """Metrics of the float run and of the int8 run on the same data, and the name of that data.

    On held-out data they include the `metrics` of the int8 run.
    """
    if limit is not None and limit < 1:
        raise InputError(f"--limit is {limit}", hint="give a number above 0")
    if run.task is not None:
        return _cost_on_examples(run, quantized, data_files, limit or MAX_EXAMPLES, progress)
    if "translation" in run.heads:
        return _cost_on_pairs(run, quantized, data_files, limit or MAX_PAIRS, progress)
    return _cost_on_text(run, quantized, data_files, limit or MAX_BYTES, progress)


def _evaluate_both(
    run: Run,
    quantized: Run,
    evaluate: Callable[[Run], Any],
    progress: ProgressFn | None,
    index: int = 0,
    num_measurements: int = 1,
) -> tuple[Any, Any, dict[str, float]]:
    """The results of both runs, and their durations in seconds; this is measurement `index` of `num_measurements`."""
    results, seconds = [], []
    for measured_run in (run, quantized):
        measured_run.require(measured_run.capabilities[0])  # loads the model before the clock starts
        start = time.monotonic()
        results.append(evaluate(measured_run))
        seconds.append(round(time.monotonic() - start, 3))
        if progress is not None:
            progress(2 * index + len(results), 2 * num_measurements)
    return results[0], results[1], {"floats": seconds[0], "integers": seconds[1]}


def _cost_on_text(
    run: Run, quantized: Run, data_files: Sequence[str], limit: int, progress: ProgressFn | None
) -> dict[str, Any]:
    subset, name = _measured_text(run, data_files)
    subset = subset.first(limit)
    sentences = _sample_sentences(run, subset)
    can_measure = "measure" in run.capabilities
    results: dict[str, Any] = {"on": name, "text_bytes": subset.num_bytes}
    if can_measure:
        both_results = _evaluate_both(run, quantized, lambda measured: measured.measure(subset), progress, 0, 2)
        float_result, int8_result, results["measuring_seconds"] = both_results
        float_metrics, int8_metrics = float_result.to_dict(), int8_result.to_dict()
        for metric in ("perplexity", "bits_per_byte", "accuracy", "pair_accuracy"):
            if float_metrics[metric] is not None and int8_metrics[metric] is not None:
                results[metric] = {"floats": float_metrics[metric], "integers": int8_metrics[metric]}
        results["pseudo"] = float_result.is_pseudo_likelihood
        results["metrics"] = {} if data_files else {"held_out": int8_metrics}
    if len(sentences) > 1:

        def embed(measured: Run) -> np.ndarray:
            return np.stack([text.vector for text in measured.embed(sentences)])

        *vectors, seconds = _evaluate_both(run, quantized, embed, progress, *((1, 2) if can_measure else (0, 1)))
        cosines = (vectors[0] * vectors[1]).sum(1)
        is_same = np.equal(*(_nearest_neighbors(matrix) for matrix in vectors))
        results["cosine"] = {"mean": float(cosines.mean()), "least": float(cosines.min())}
        results |= {"same_neighbour": float(is_same.mean()), "sentences": len(sentences), "embedding_seconds": seconds}
    return results


def _measured_text(run: Run, data_files: Sequence[str]) -> tuple[Subset, str]:
    """The text to measure on, and its name: the given text, or held-out text, or Python's manual."""
    if data_files:
        return prepare_texts(run, list(data_files)), ", ".join(data_files)
    if run.metadata.get("data") is not None:
        try:
            split = reopen_run_corpus(run.folder).split(run.folder.recipe.held_out)
            return cast("Subset", split.held_out), "the text that the run held out"
        except ForebearError as error:
            run.notes.append(f"not measured on its own held-out text: {error.message}")
    from forebear.demo.python_manual import manual_documents

    with tempfile.TemporaryDirectory(prefix="forebear-quantise-") as folder:
        file = Path(folder) / "manual.txt"
        file.write_text("\n\n".join(manual_documents()[:300]), encoding="utf-8")
        return prepare_texts(run, [os.fspath(file)]), "Python's manual (--on TEXT names a better text)"


def _sample_sentences(run: Run, subset: Subset) -> list[str]:
    """Distinct sentences, evenly spaced over the text."""
    spans = subset.by_sentence().spans
    texts = dict.fromkeys(run.tokenizer.decode(subset.corpus.ids[start:stop]).strip() for start, stop in spans.tolist())
    long_texts = [text for text in texts if max(len(text), len(text.encode()) / 2) >= MIN_SENTENCE_LENGTH]
    candidates = long_texts if len(long_texts) > 1 else [text for text in texts if text]
    return candidates[:: max(1, len(candidates) // MAX_SENTENCES)][:MAX_SENTENCES]


def _nearest_neighbors(vectors: np.ndarray) -> np.ndarray:
    """(N,) the index of the nearest neighbor of each vector."""
    neighbor_rows = nearest_rows(vectors, vectors, 2).rows
    is_itself = neighbor_rows[:, 0] == np.arange(len(vectors))
    return np.where(is_itself, neighbor_rows[:, 1], neighbor_rows[:, 0])


def _cost_on_pairs(
    run: Run, quantized: Run, data_files: Sequence[str], limit: int, progress: ProgressFn | None
) -> dict[str, Any]:
    if data_files:
        pairs = list(islice(ParallelFormat().read_pairs(list(data_files), Ledger()), limit))
        sources, references = [source for _, source, _ in pairs], [target for _, _, target in pairs]
    else:
        try:
            corpus = reopen_run_corpus(run.folder)
        except InputError as error:
            error.hint = "name pairs to measure on: --on FILE [FILE]"
            raise
        held_out: Any = corpus.split(run.folder.recipe.held_out).held_out
        sources, references = held_out.first(limit).texts()

    def evaluate(measured: Run) -> Any:
        return evaluate_translations(measured, sources, references)

    float_result, int8_result, seconds = _evaluate_both(run, quantized, evaluate, progress)
    float_metrics, int8_metrics = float_result.to_dict(), int8_result.to_dict()
    is_same = [a.text == b.text for a, b in zip(float_result.translations, int8_result.translations, strict=True)]
    return {
        "on": ", ".join(data_files) or "the pairs that the run held out",
        "metrics": {} if data_files else {"held_out": int8_metrics},
        **{
            metric: {"floats": float_metrics[metric], "integers": int8_metrics[metric]}
            for metric in ("perplexity", "bleu", "chrf")
        },
        "same_answers": float(np.mean(is_same)),
        "pairs": len(is_same),
        "measuring_seconds": seconds,
    }


def _cost_on_examples(
    run: Run, quantized: Run, data_files: Sequence[str], limit: int, progress: ProgressFn | None
) -> dict[str, Any]:
    examples, name = _measured_examples(run, data_files, limit)
    task = run.task
    assert task is not None
    rows = task.encode(examples, run.tokenizer, run.folder.spec.input_format(run.tokenizer))

    def predict(measured: Run) -> list[Any]:
        return task.predictions(examples, rows, predict_logits(measured.network, rows))

    *predictions, seconds = _evaluate_both(run, quantized, predict, progress)
    float_metrics, int8_metrics = (task.evaluate(examples, run_predictions) for run_predictions in predictions)
    is_same = [
        task.compare_to_gold(example, a).predicted == task.compare_to_gold(example, b).predicted
        for example, a, b in zip(examples, *predictions, strict=True)
    ]
    return {
        "on": name,
        "metrics": {} if data_files else {"dev": int8_metrics},
        task.metric: {"floats": float(float_metrics[task.metric]), "integers": float(int8_metrics[task.metric])},
        "same_answers": float(np.mean(is_same)),
        "examples": len(examples),
        "measuring_seconds": seconds,
    }


def _measured_examples(run: Run, data_files: Sequence[str], limit: int) -> tuple[list[Example], str]:
    labeled_entry, task = run.metadata.get("labelled"), run.task
    assert task is not None
    source = LabeledSource.from_dict(labeled_entry["source"]) if labeled_entry is not None else None
    if len(data_files) > 1:
        raise InputError(f"{len(data_files)} files to measure on", hint="examples stand in one file")
    if data_files:
        source = source or labeled_source(data_files[0], task=task.name)[0]
        examples = read_extra_split(data_files[0], source, task.scheme, [])
    elif source is not None and all(Path(path).is_file() for path in source.split_paths().values()):
        examples = read_labeled(source).dev
    else:
        message = "the examples that it was adapted with are not there"
        raise InputError(message, file=run.folder.path, hint="name a file of examples to measure on: --on FILE")
    labeled = [example for example in examples if is_labeled(example)][:limit]
    if not labeled:
        file = data_files[0] if data_files else None
        raise InputError("no example has a label", file=file, hint="measure on labelled examples")
    return labeled, ", ".join(data_files) or "the examples that were held out"


def quantize_run(
    run: PathLike | Run,
    *,
    to: PathLike,
    on: PathLike | Sequence[PathLike] = (),
    limit: int | None = None,
    overwrite: bool = False,
    progress: ProgressFn | None = None,
) -> Run:
    """Quantize a run to int8, for inference only; metadata["quantised"] has the measured cost.

    Args:
        run: The run or its folder.
        to: The folder of the quantized run.
        on: Text, examples or pairs to measure on; by default held-out data, or Python's manual.
        limit: Maximum number of bytes, examples or pairs to measure on.
        overwrite: Replace another run in this folder.
        progress: Receives the progress of the measurement.
    """
    source_run = run if isinstance(run, Run) else Run.open(run)
    source, target, metadata = source_run.folder, Path(to), source_run.metadata
    if source.spec.learning == "counting":
        raise InputError("counts: it has no weights to make smaller", file=source.path, hint="use it as it is")
    if source.spec.learning == "sweeping" and source_run.task is None:
        raise InputError("is a table of words, not a network", file=source.path, hint="use it as it is")
    source.require_float_weights("is quantised already", "quantise")
    if "weights" not in metadata:
        message = "is not finished: there are no weights to make smaller"
        raise InputError(message, file=source.path, hint=f"finish it first: {source.resume_command}")
    existing = _check_target(target, source.path, overwrite)
    entries = {name: value for name, value in metadata.items() if name not in UNCOPIED_KEYS}
    entries |= {"parent": str(source.path.absolute()), "quantised": {"bits": 8}, "notes": []}
    entries["size"] = " ".join(filter(None, (metadata.get("size"), "int8")))
    paths = [os.fspath(path) for path in ([on] if isinstance(on, str | os.PathLike) else on)]

    def quantized_tensors() -> dict[str, Any]:
        from forebear.nn.quantized import quantized_copy

        return quantized_copy(source_run.network).tensors()

    with replace_run(existing):
        folder = create_run(target, source.spec, metadata["milestone"], source.tokenizers, quantized_tensors, entries)
        quantized = Run(folder)
        try:
            cost = quantization_cost(source_run, quantized, paths, limit, progress)
        except BaseException:
            shutil.rmtree(target, ignore_errors=True)
            raise
    cost["bytes"] = {"floats": metadata["weights"]["bytes"], "integers": folder.metadata["weights"]["bytes"]}
    folder.update(metrics=cost.pop("metrics", {}), quantised=folder.metadata["quantised"] | cost)
    write_model_card(folder)
    quantized.notes += source_run.notes
    return quantized


def _check_target(target: Path, source: Path, overwrite: bool) -> RunFolder | None:
    """The run to replace in the target folder, if any. Raise InputError if it may not be replaced."""
    if target.exists() and target.resolve() == source.resolve():
        raise InputError("is the run itself", file=target, hint="choose another folder with --to")
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return None
    if not overwrite:
        raise InputError("exists already", file=target, hint="choose another folder with --to, or --overwrite")
    return RunFolder.open(target)
