"""What a run loses when its weights become small integers: both are asked the same, on text that was held out."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
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

BYTES, EXAMPLES, PAIRS, SENTENCES = 100_000, 2000, 200, 1000  # that are looked at, where nobody says how many
LONG = 30  # characters; shorter sentences are headings and the like, which have no neighbours to speak of
ProgressFn = Callable[[int, int], object]  # of the questions asked, how many are answered
Asked = Callable[[Run], Any]


def quantization_cost(
    run: Run, small: Run, on: Sequence[str], limit: int | None, progress: ProgressFn | None = None
) -> dict[str, Any]:
    """Figures of the run of floats and of that of integers, and what they were measured on; on what was held out, also
    the `metrics` that the latter has of its own."""
    if limit is not None and limit < 1:
        raise InputError(f"--limit is {limit}", hint="give a number above 0")
    if run.task is not None:
        return _of_task(run, small, on, limit or EXAMPLES, progress)
    if "translation" in run.heads:
        return _of_translator(run, small, on, limit or PAIRS, progress)
    return _of_text(run, small, on, limit or BYTES, progress)


def _both(run: Run, small: Run, ask: Asked, progress: ProgressFn | None, at: tuple[int, int]) -> tuple[Any, Any, dict]:
    """What each answers to the same question, and how long it took; question number at[0] of at[1]."""
    answers, seconds = [], []
    for number, one in enumerate((run, small)):
        one.require(one.capabilities[0])  # it is loaded before the clock starts
        began = time.monotonic()
        answers.append(ask(one))
        seconds.append(round(time.monotonic() - began, 3))
        if progress is not None:
            progress(2 * at[0] + number + 1, 2 * at[1])
    return answers[0], answers[1], {"floats": seconds[0], "integers": seconds[1]}


# --- of text


def _of_text(run: Run, small: Run, on: Sequence[str], limit: int, progress: ProgressFn | None) -> dict[str, Any]:
    portion, name = _text(run, on)
    portion = portion.first(limit)
    sentences = _sentences(run, portion)
    predicts = "measure" in run.capabilities
    questions = int(predicts) + 1
    told: dict[str, Any] = {"on": name, "text_bytes": portion.num_bytes}
    if predicts:
        one, two, seconds = _both(run, small, lambda asked: asked.measure(portion), progress, (0, questions))
        told["measuring_seconds"] = seconds
        for figure in ("perplexity", "bits_per_byte", "accuracy", "pair_accuracy"):
            before, after = one.to_dict()[figure], two.to_dict()[figure]
            if before is not None and after is not None:
                told[figure] = {"floats": before, "integers": after}
        told["pseudo"] = one.is_pseudo_likelihood
        told["metrics"] = {} if on else {"held_out": two.to_dict()}
    if len(sentences) > 1:
        told |= _of_vectors(run, small, sentences, progress, (questions - 1, questions))
    return told


def _text(run: Run, on: Sequence[str]) -> tuple[Subset, str]:
    """Text to measure on, and its name: as given, else what the run held out, else Python's manual."""
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


def _sentences(run: Run, portion: Subset) -> list[str]:
    """Some of the portion's sentences, evenly from all of it, none twice."""
    spans = portion.by_sentence().spans
    texts = dict.fromkeys(run.tokenizer.decode(portion.corpus.ids[begin:end]).strip() for begin, end in spans.tolist())
    long = [text for text in texts if len(text) >= LONG or len(text.encode()) >= 2 * LONG]
    found = long if len(long) > 1 else [text for text in texts if text]
    return found[:: max(1, len(found) // SENTENCES)][:SENTENCES]


def _of_vectors(
    run: Run, small: Run, sentences: list[str], progress: ProgressFn | None, at: tuple[int, int]
) -> dict[str, Any]:
    def vectors(asked: Run) -> np.ndarray:
        return np.stack([one.vector for one in asked.embed(sentences)])

    one, two, seconds = _both(run, small, vectors, progress, at)
    cosines = (one * two).sum(1)
    same = _neighbours(one) == _neighbours(two)
    return {
        "cosine": {"mean": float(cosines.mean()), "least": float(cosines.min())},
        "same_neighbour": float(same.mean()),
        "sentences": len(sentences),
        "embedding_seconds": seconds,
    }


def _neighbours(vectors: np.ndarray) -> np.ndarray:
    """(N,) the number of each vector's nearest other one."""
    found = nearest_rows(vectors, vectors, 2).rows
    own = np.arange(len(vectors))
    return np.where(found[:, 0] == own, found[:, 1], found[:, 0])


# --- of translators and tasks


def _of_translator(run: Run, small: Run, on: Sequence[str], limit: int, progress: ProgressFn | None) -> dict[str, Any]:
    sources, references, name = _pairs(run, on, limit)
    one, two, seconds = _both(
        run, small, lambda asked: evaluate_translations(asked, sources, references), progress, (0, 1)
    )
    before, after = one.to_dict(), two.to_dict()
    told = {figure: {"floats": before[figure], "integers": after[figure]} for figure in ("perplexity", "bleu", "chrf")}
    alike = [a.text == b.text for a, b in zip(one.translations, two.translations, strict=True)]
    return {
        "on": name,
        "metrics": {} if on else {"held_out": after},
        **told,
        "same_answers": float(np.mean(alike)),
        "pairs": len(alike),
        "measuring_seconds": seconds,
    }


def _pairs(run: Run, on: Sequence[str], limit: int) -> tuple[list[str], list[str], str]:
    if on:
        found = list(islice(ParallelFormat().read_pairs(list(on), Ledger()), limit))
        return [source for _, source, _ in found], [target for _, _, target in found], ", ".join(on)
    sides = run.folder.tokenizers
    assert isinstance(sides, TokenizerPair)
    try:
        corpus: Any = reopen_parallel_corpus(run.metadata["data"], sides, run.folder.recipe.held_out)
    except InputError as error:
        error.hint = "name pairs to measure on: --on FILE [FILE]"
        raise
    portion: Any = corpus.split(run.folder.recipe.held_out).held_out
    return *portion.first(limit).texts(), "the pairs that the run held out"


def _of_task(run: Run, small: Run, on: Sequence[str], limit: int, progress: ProgressFn | None) -> dict[str, Any]:
    examples, name = _examples(run, on, limit)
    task = run.task
    assert task is not None
    rows = task.encode(examples, run.tokenizer, run.folder.spec.input_format(run.tokenizer))

    def answers(asked: Run) -> Any:
        return task.predictions(examples, rows, predict_logits(asked.network, rows))

    one, two, seconds = _both(run, small, answers, progress, (0, 1))
    measured = [task.evaluate(examples, said) for said in (one, two)]
    figures = [float(told[task.score]) for told in measured]
    said = [
        [task.judge(example, answer).said for example, answer in zip(examples, all_, strict=True)]
        for all_ in (one, two)
    ]
    return {
        "on": name,
        "metrics": {} if on else {"dev": measured[1]},
        task.score: {"floats": figures[0], "integers": figures[1]},
        "same_answers": float(np.mean([a == b for a, b in zip(*said, strict=True)])),
        "examples": len(examples),
        "measuring_seconds": seconds,
    }


def _examples(run: Run, on: Sequence[str], limit: int) -> tuple[list[Example], str]:
    told, task = run.metadata.get("labelled"), run.task
    assert task is not None
    source = LabeledSource.from_dict(told["source"]) if told is not None else None
    if len(on) > 1:
        raise InputError(f"{len(on)} files to measure on", hint="examples stand in one file")
    if on:
        source = source or labeled_source(on[0], task=task.name)[0]
        found = read_extra_split(on[0], source, task.scheme, [])
    elif source is not None and all(Path(path).is_file() for path in source.files().values()):
        found = read_labeled(source).dev
    else:
        what = "the examples that it was adapted with are not there"
        raise InputError(what, file=run.folder.path, hint="name a file of examples to measure on: --on FILE")
    labelled = [example for example in found if is_labeled(example)][:limit]
    if not labelled:
        raise InputError("no example has a label", file=on[0] if on else None, hint="measure on labelled examples")
    return labelled, ", ".join(on) or "the examples that were held out"


# A run of small integers from one of floats, in a folder of its own, with its cost measured on held-out text.


PathLike = str | os.PathLike[str]
OWN = ("asked", "weights", "tokenizer", "began", "versions", "hardware", "state", "name", "command", "processes")
FIGURES = ("metrics", "baseline", "price")  # of the run it was made of, which are not its own


def quantize_run(
    run: PathLike | Run,
    *,
    to: PathLike,
    on: PathLike | Sequence[PathLike] = (),
    limit: int | None = None,
    overwrite: bool = False,
    progress: ProgressFn | None = None,
) -> Run:
    """The same run with integers of 8 bits for weights, for reading only; facts["quantised"] tells what it costs.

    `on` is text that it is measured on (for a task examples, for a translator pairs), at most `limit` bytes, examples
    or pairs of it: by default what the run held out, or text that comes with forebear where that is gone.
    """
    opened = run if isinstance(run, Run) else Run.open(run)
    target, facts = Path(to), opened.metadata
    if opened.folder.spec.learning == "counting":
        raise InputError("counts: it has no weights to make smaller", file=opened.folder.path, hint="use it as it is")
    if opened.folder.spec.learning == "sweeping" and opened.task is None:
        raise InputError("is a table of words, not a network", file=opened.folder.path, hint="use it as it is")
    opened.folder.require_float_weights("is quantised already", "quantise")
    if "weights" not in facts:
        hint = f"finish it first: {opened.folder.resume_command}"
        raise InputError("is not finished: there are no weights to make smaller", file=opened.folder.path, hint=hint)
    there = _cleared(target, opened.folder.path, overwrite)
    more = {name: value for name, value in facts.items() if name not in (*OWN, *FIGURES)}
    more |= {"parent": str(opened.folder.path.absolute()), "quantised": {"bits": 8}, "notes": []}
    more["size"] = " ".join(filter(None, (facts.get("size"), "int8")))
    paths = [os.fspath(one) for one in ([on] if isinstance(on, str | os.PathLike) else on)]
    with replace_run(there):
        name, tokenizers = facts["milestone"], opened.folder.tokenizers
        made = create_run(target, opened.folder.spec, name, tokenizers, _writing(opened.network), more)
        small = Run(made)
        try:
            told = quantization_cost(opened, small, paths, limit, progress)
        except BaseException:
            shutil.rmtree(target, ignore_errors=True)
            raise
    told["bytes"] = {"floats": facts["weights"]["bytes"], "integers": made.metadata["weights"]["bytes"]}
    made.update(metrics=told.pop("metrics", {}), quantised=made.metadata["quantised"] | told)
    write_card(made)
    small.notes += opened.notes
    return small


def _writing(network: Any) -> Callable[[Path], None]:
    """What writes the weights of a network as integers to a file."""

    def write(file: Path) -> None:
        from safetensors.torch import save_file

        from forebear.nn.quantized import quantized_copy

        save_file(quantized_copy(network).tensors(), file)

    return write


def _cleared(target: Path, source: Path, overwrite: bool) -> RunFolder | None:
    """The run that stands there and is to be replaced; an error where nothing may be written."""
    if target.exists() and target.resolve() == source.resolve():
        raise InputError("is the run itself", file=target, hint="choose another folder with --to")
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return None
    if not overwrite:
        raise InputError("exists already", file=target, hint="choose another folder with --to, or --overwrite")
    return RunFolder.open(target)
