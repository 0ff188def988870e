"""Quantize a run to int8, and measure what that costs on held-out data."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from forebear.data.corpus.parallel import ParallelFormat, TokenizerPair
from forebear.data.corpus.subset import Subset
from forebear.data.io.ledger import Ledger
from forebear.data.labeled.examples import Example, is_labeled
from forebear.data.labeled.source import LabeledSource, labeled_source, read_extra_split, read_labeled
from forebear.data.source import reopen_corpus, reopen_parallel_corpus
from forebear.embeddings.knn import nearest_rows
from forebear.errors import ForebearError, InputError
from forebear.experiments.pipeline import replace_run
from forebear.inference.measure import prepare_texts
from forebear.inference.run import Run
from forebear.inference.translate import evaluate_translations
from forebear.tasks.task import predict_logits
from forebear.training.card import write_card
from forebear.training.create_run import create_run
from forebear.training.run_folder import RunFolder

MAX_BYTES, MAX_EXAMPLES, MAX_PAIRS, MAX_SENTENCES = 100_000, 2000, 200, 1000  # default limits of the measurement
MIN_SENTENCE_LENGTH = (
    30  # characters; shorter sentences are headings and the like, which have no neighbours to speak of
)
ProgressFn = Callable[[int, int], object]  # measurements done, of how many
Measurement = Callable[[Run], Any]


def quantization_cost(
    run: Run, small: Run, on: Sequence[str], limit: int | None, progress: ProgressFn | None = None
) -> dict[str, Any]:
    """Metrics of the float run and of the int8 run on the same data, and the name of that data.

    On held-out data they include the `metrics` of the int8 run.
    """
    if limit is not None and limit < 1:
        raise InputError(f"--limit is {limit}", hint="give a number above 0")
    if run.task is not None:
        return _cost_on_examples(run, small, on, limit or MAX_EXAMPLES, progress)
    if "translation" in run.heads:
        return _cost_on_pairs(run, small, on, limit or MAX_PAIRS, progress)
    return _cost_on_text(run, small, on, limit or MAX_BYTES, progress)


def _evaluate_both(
    run: Run, small: Run, evaluate: Measurement, progress: ProgressFn | None, position: tuple[int, int]
) -> tuple[Any, Any, dict]:
    """The result of both runs and their durations; measurement number position[0] of position[1]."""
    answers, seconds = [], []
    for number, model in enumerate((run, small)):
        model.require(model.capabilities[0])  # loads the model before the clock starts
        began = time.monotonic()
        answers.append(evaluate(model))
        seconds.append(round(time.monotonic() - began, 3))
        if progress is not None:
            progress(2 * position[0] + number + 1, 2 * position[1])
    return answers[0], answers[1], {"floats": seconds[0], "integers": seconds[1]}


# --- Cost on text ---


def _cost_on_text(run: Run, small: Run, on: Sequence[str], limit: int, progress: ProgressFn | None) -> dict[str, Any]:
    subset, name = _measured_text(run, on)
    subset = subset.first(limit)
    sentences = _sample_sentences(run, subset)
    can_measure = "measure" in run.capabilities
    num_questions = int(can_measure) + 1
    results: dict[str, Any] = {"on": name, "text_bytes": subset.num_bytes}
    if can_measure:
        float_result, int8_result, seconds = _evaluate_both(
            run, small, lambda model: model.measure(subset), progress, (0, num_questions)
        )
        results["measuring_seconds"] = seconds
        for metric in ("perplexity", "bits_per_byte", "accuracy", "pair_accuracy"):
            float_value, int8_value = float_result.to_dict()[metric], int8_result.to_dict()[metric]
            if float_value is not None and int8_value is not None:
                results[metric] = {"floats": float_value, "integers": int8_value}
        results["pseudo"] = float_result.is_pseudo_likelihood
        results["metrics"] = {} if on else {"held_out": int8_result.to_dict()}
    if len(sentences) > 1:
        results |= _cost_of_embeddings(run, small, sentences, progress, (num_questions - 1, num_questions))
    return results


def _measured_text(run: Run, on: Sequence[str]) -> tuple[Subset, str]:
    """Text to measure on, and its name: the given one, or held-out text, or Python's manual."""
    if on:
        return prepare_texts(run, list(on)), ", ".join(on)
    data = run.metadata.get("data")
    if data is not None:
        try:
            split = reopen_corpus(data, run.tokenizer).split(run.folder.recipe.held_out)
            return split.held_out, "the text that the run held out"
        except ForebearError as error:
            run.notes.append(f"not measured on its own held-out text: {error.message}")
    from forebear.demo.demo_text import manual_documents

    with tempfile.TemporaryDirectory(prefix="forebear-quantise-") as folder:
        file = Path(folder) / "manual.txt"
        file.write_text("\n\n".join(manual_documents()[:300]), encoding="utf-8")
        return prepare_texts(run, [os.fspath(file)]), "Python's manual (--on TEXT names a better text)"


def _sample_sentences(run: Run, subset: Subset) -> list[str]:
    """Distinct sentences, evenly spaced over the text."""
    spans = subset.by_sentence().spans
    texts = dict.fromkeys(run.tokenizer.decode(subset.corpus.ids[start:stop]).strip() for start, stop in spans.tolist())
    long_texts = [
        text for text in texts if len(text) >= MIN_SENTENCE_LENGTH or len(text.encode()) >= 2 * MIN_SENTENCE_LENGTH
    ]
    candidates = long_texts if len(long_texts) > 1 else [text for text in texts if text]
    return candidates[:: max(1, len(candidates) // MAX_SENTENCES)][:MAX_SENTENCES]


def _cost_of_embeddings(
    run: Run, small: Run, sentences: list[str], progress: ProgressFn | None, at: tuple[int, int]
) -> dict[str, Any]:
    def vectors(model: Run) -> np.ndarray:
        return np.stack([embedding.vector for embedding in model.embed(sentences)])

    float_vectors, int8_vectors, seconds = _evaluate_both(run, small, vectors, progress, at)
    cosines = (float_vectors * int8_vectors).sum(1)
    is_same = _nearest_neighbors(float_vectors) == _nearest_neighbors(int8_vectors)
    return {
        "cosine": {"mean": float(cosines.mean()), "least": float(cosines.min())},
        "same_neighbour": float(is_same.mean()),
        "sentences": len(sentences),
        "embedding_seconds": seconds,
    }


def _nearest_neighbors(vectors: np.ndarray) -> np.ndarray:
    """(N,) the row of each vector's nearest neighbor."""
    neighbor_rows = nearest_rows(vectors, vectors, 2).rows
    row_numbers = np.arange(len(vectors))
    return np.where(neighbor_rows[:, 0] == row_numbers, neighbor_rows[:, 1], neighbor_rows[:, 0])


# --- Cost on translations and tasks ---


def _cost_on_pairs(run: Run, small: Run, on: Sequence[str], limit: int, progress: ProgressFn | None) -> dict[str, Any]:
    sources, references, name = _measured_pairs(run, on, limit)
    float_result, int8_result, seconds = _evaluate_both(
        run, small, lambda model: evaluate_translations(model, sources, references), progress, (0, 1)
    )
    float_metrics, int8_metrics = float_result.to_dict(), int8_result.to_dict()
    results = {
        metric: {"floats": float_metrics[metric], "integers": int8_metrics[metric]}
        for metric in ("perplexity", "bleu", "chrf")
    }
    is_same = [a.text == b.text for a, b in zip(float_result.translations, int8_result.translations, strict=True)]
    return {
        "on": name,
        "metrics": {} if on else {"held_out": int8_metrics},
        **results,
        "same_answers": float(np.mean(is_same)),
        "pairs": len(is_same),
        "measuring_seconds": seconds,
    }


def _measured_pairs(run: Run, on: Sequence[str], limit: int) -> tuple[list[str], list[str], str]:
    if on:
        pairs = list(islice(ParallelFormat().read_pairs(list(on), Ledger()), limit))
        return [source for _, source, _ in pairs], [target for _, _, target in pairs], ", ".join(on)
    tokenizers = run.folder.tokenizers
    assert isinstance(tokenizers, TokenizerPair)
    try:
        corpus: Any = reopen_parallel_corpus(run.metadata["data"], tokenizers, run.folder.recipe.held_out)
    except InputError as error:
        error.hint = "name pairs to measure on: --on FILE [FILE]"
        raise
    held_out: Any = corpus.split(run.folder.recipe.held_out).held_out
    return *held_out.first(limit).texts(), "the pairs that the run held out"


def _cost_on_examples(
    run: Run, small: Run, on: Sequence[str], limit: int, progress: ProgressFn | None
) -> dict[str, Any]:
    examples, name = _measured_examples(run, on, limit)
    task = run.task
    assert task is not None
    rows = task.encode(examples, run.tokenizer, run.folder.spec.input_format(run.tokenizer))

    def answers(model: Run) -> Any:
        return task.predictions(examples, rows, predict_logits(model.network, rows))

    float_answers, int8_answers, seconds = _evaluate_both(run, small, answers, progress, (0, 1))
    metrics = [task.evaluate(examples, answers) for answers in (float_answers, int8_answers)]
    scores = [float(model_metrics[task.score]) for model_metrics in metrics]
    predicted = [
        [task.judge(example, answer).predicted for example, answer in zip(examples, model_answers, strict=True)]
        for model_answers in (float_answers, int8_answers)
    ]
    return {
        "on": name,
        "metrics": {} if on else {"dev": metrics[1]},
        task.score: {"floats": scores[0], "integers": scores[1]},
        "same_answers": float(np.mean([a == b for a, b in zip(*predicted, strict=True)])),
        "examples": len(examples),
        "measuring_seconds": seconds,
    }


def _measured_examples(run: Run, on: Sequence[str], limit: int) -> tuple[list[Example], str]:
    entry, task = run.metadata.get("labelled"), run.task
    assert task is not None
    source = LabeledSource.from_dict(entry["source"]) if entry is not None else None
    if len(on) > 1:
        raise InputError(f"{len(on)} files to measure on", hint="examples stand in one file")
    if on:
        source = source or labeled_source(on[0], task=task.name)[0]
        examples = read_extra_split(on[0], source, task.scheme, [])
    elif source is not None and all(Path(path).is_file() for path in source.split_paths().values()):
        examples = read_labeled(source).dev
    else:
        message = "the examples that it was adapted with are not there"
        raise InputError(message, file=run.folder.path, hint="name a file of examples to measure on: --on FILE")
    labeled = [example for example in examples if is_labeled(example)][:limit]
    if not labeled:
        raise InputError("no example has a label", file=on[0] if on else None, hint="measure on labelled examples")
    return labeled, ", ".join(on) or "the examples that were held out"


# --- Quantized run ---

PathLike = str | os.PathLike[str]
UNCOPIED_KEYS = (
    "asked",
    "weights",
    "tokenizer",
    "began",
    "versions",
    "hardware",
    "state",
    "name",
    "command",
    "processes",
)
RESULT_KEYS = ("metrics", "baseline", "price")  # of the float run


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
        on: Text, examples or pairs to measure on; by default held-out data, or text that comes with forebear.
        limit: Maximum number of bytes, examples or pairs to measure on.
        overwrite: Replace another run in this folder.
        progress: Receives the progress of the measurement.
    """
    source_run = run if isinstance(run, Run) else Run.open(run)
    target, metadata = Path(to), source_run.metadata
    if source_run.folder.spec.learning == "counting":
        raise InputError(
            "counts: it has no weights to make smaller", file=source_run.folder.path, hint="use it as it is"
        )
    if source_run.folder.spec.learning == "sweeping" and source_run.task is None:
        raise InputError("is a table of words, not a network", file=source_run.folder.path, hint="use it as it is")
    source_run.folder.require_float_weights("is quantised already", "quantise")
    if "weights" not in metadata:
        hint = f"finish it first: {source_run.folder.resume_command}"
        raise InputError(
            "is not finished: there are no weights to make smaller", file=source_run.folder.path, hint=hint
        )
    existing = _check_target(target, source_run.folder.path, overwrite)
    extra_metadata = {name: value for name, value in metadata.items() if name not in (*UNCOPIED_KEYS, *RESULT_KEYS)}
    extra_metadata |= {"parent": str(source_run.folder.path.absolute()), "quantised": {"bits": 8}, "notes": []}
    extra_metadata["size"] = " ".join(filter(None, (metadata.get("size"), "int8")))
    paths = [os.fspath(path) for path in ([on] if isinstance(on, str | os.PathLike) else on)]
    with replace_run(existing):
        name, tokenizers = metadata["milestone"], source_run.folder.tokenizers
        weights = partial(_quantized_tensors, source_run.network)
        run_folder = create_run(target, source_run.folder.spec, name, tokenizers, weights, extra_metadata)
        quantized = Run(run_folder)
        try:
            cost = quantization_cost(source_run, quantized, paths, limit, progress)
        except BaseException:
            shutil.rmtree(target, ignore_errors=True)
            raise
    cost["bytes"] = {"floats": metadata["weights"]["bytes"], "integers": run_folder.metadata["weights"]["bytes"]}
    run_folder.update(metrics=cost.pop("metrics", {}), quantised=run_folder.metadata["quantised"] | cost)
    write_card(run_folder)
    quantized.notes += source_run.notes
    return quantized


def _quantized_tensors(network: Any) -> dict[str, Any]:
    from forebear.nn.quantized import quantized_copy

    return quantized_copy(network).tensors()


def _check_target(target: Path, source: Path, overwrite: bool) -> RunFolder | None:
    """The run in the target folder that is to be replaced; an error if it may not be."""
    if target.exists() and target.resolve() == source.resolve():
        raise InputError("is the run itself", file=target, hint="choose another folder with --to")
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return None
    if not overwrite:
        raise InputError("exists already", file=target, hint="choose another folder with --to, or --overwrite")
    return RunFolder.open(target)
