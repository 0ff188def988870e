"""What a run loses when its weights become small integers: both are asked the same, on text that was held out."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from forebear.errors import BadInput, ForebearError
from forebear.tasks.examples import Example, is_labelled
from forebear.tasks.predicting import predicted
from forebear.text.ledger import Ledger
from forebear.text.parallel import PairReading
from forebear.text.portion import Portion
from forebear.text.sides import Sides
from forebear.training.corpora import corpus_again
from forebear.training.labelled import LabelledSource, labelled_source, read_labelled, side_of
from forebear.training.parallel_corpora import parallel_again
from forebear.using.measuring import prepared
from forebear.using.nearest import nearest
from forebear.using.run import Run
from forebear.using.translations import measure_translations

BYTES, EXAMPLES, PAIRS, SENTENCES = 100_000, 2000, 200, 1000  # that are looked at, where nobody says how many
LONG = 30  # characters; shorter sentences are headings and the like, which have no neighbours to speak of
Progress = Callable[[int, int], object]  # of the questions asked, how many are answered
Asked = Callable[[Run], Any]


def cost(
    run: Run, small: Run, on: Sequence[str], limit: int | None, progress: Progress | None = None
) -> dict[str, Any]:
    """Figures of the run of floats and of that of integers, and what they were measured on; on what was held out, also
    the `metrics` that the latter has of its own."""
    if limit is not None and limit < 1:
        raise BadInput(f"--limit is {limit}", remedy="give a number above 0")
    if run.task is not None:
        return _of_task(run, small, on, limit or EXAMPLES, progress)
    if "translation" in run.heads:
        return _of_translator(run, small, on, limit or PAIRS, progress)
    return _of_text(run, small, on, limit or BYTES, progress)


def _both(run: Run, small: Run, ask: Asked, progress: Progress | None, at: tuple[int, int]) -> tuple[Any, Any, dict]:
    """What each answers to the same question, and how long it took; question number at[0] of at[1]."""
    answers, seconds = [], []
    for number, one in enumerate((run, small)):
        one.ready_for(one.verbs[0])  # it is loaded before the clock starts
        began = time.monotonic()
        answers.append(ask(one))
        seconds.append(round(time.monotonic() - began, 3))
        if progress is not None:
            progress(2 * at[0] + number + 1, 2 * at[1])
    return answers[0], answers[1], {"floats": seconds[0], "integers": seconds[1]}


# --- of text


def _of_text(run: Run, small: Run, on: Sequence[str], limit: int, progress: Progress | None) -> dict[str, Any]:
    portion, name = _text(run, on)
    portion = portion.first(limit)
    sentences = _sentences(run, portion)
    predicts = "measure" in run.verbs
    questions = int(predicts) + 1
    told: dict[str, Any] = {"on": name, "text_bytes": portion.bytes}
    if predicts:
        one, two, seconds = _both(run, small, lambda asked: asked.measure(portion), progress, (0, questions))
        told["measuring_seconds"] = seconds
        for figure in ("perplexity", "bits_per_byte", "accuracy", "pair_accuracy"):
            before, after = one.facts()[figure], two.facts()[figure]
            if before is not None and after is not None:
                told[figure] = {"floats": before, "integers": after}
        told["pseudo"] = one.pseudo
        told["metrics"] = {} if on else {"held_out": two.facts()}
    if len(sentences) > 1:
        told |= _of_vectors(run, small, sentences, progress, (questions - 1, questions))
    return told


def _text(run: Run, on: Sequence[str]) -> tuple[Portion, str]:
    """Text to measure on, and its name: as given, else what the run held out, else Python's manual."""
    if on:
        return prepared(run, list(on)), ", ".join(on)
    data = run.facts.get("data")
    if data is not None:
        try:
            split = corpus_again(data, run.tokenizer).split(run.folder.recipe.held_out)
            return split.held_out, "the text that the run held out"
        except ForebearError as error:
            run.notes.append(f"not measured on its own held-out text: {error.what}")
    from forebear.demo.manual import documents

    with tempfile.TemporaryDirectory(prefix="forebear-quantise-") as folder:
        file = Path(folder) / "manual.txt"
        file.write_text("\n\n".join(documents()[:300]), encoding="utf-8")
        return prepared(run, [os.fspath(file)]), "Python's manual (--on TEXT names a better text)"


def _sentences(run: Run, portion: Portion) -> list[str]:
    """Some of the portion's sentences, evenly from all of it, none twice."""
    spans = portion.by_sentence().spans
    texts = dict.fromkeys(run.tokenizer.decode(portion.corpus.ids[begin:end]).strip() for begin, end in spans.tolist())
    long = [text for text in texts if len(text) >= LONG or len(text.encode()) >= 2 * LONG]
    found = long if len(long) > 1 else [text for text in texts if text]
    return found[:: max(1, len(found) // SENTENCES)][:SENTENCES]


def _of_vectors(
    run: Run, small: Run, sentences: list[str], progress: Progress | None, at: tuple[int, int]
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
    found = nearest(vectors, vectors, 2).rows
    own = np.arange(len(vectors))
    return np.where(found[:, 0] == own, found[:, 1], found[:, 0])


# --- of translators and tasks


def _of_translator(run: Run, small: Run, on: Sequence[str], limit: int, progress: Progress | None) -> dict[str, Any]:
    sources, references, name = _pairs(run, on, limit)
    one, two, seconds = _both(
        run, small, lambda asked: measure_translations(asked, sources, references), progress, (0, 1)
    )
    before, after = one.facts(), two.facts()
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
        found = list(islice(PairReading().read(list(on), Ledger()), limit))
        return [source for _, source, _ in found], [target for _, _, target in found], ", ".join(on)
    sides = run.folder.tokenizers
    assert isinstance(sides, Sides)
    try:
        corpus: Any = parallel_again(run.facts["data"], sides, run.folder.recipe.held_out)
    except BadInput as error:
        error.remedy = "name pairs to measure on: --on FILE [FILE]"
        raise
    portion: Any = corpus.split(run.folder.recipe.held_out).held_out
    return *portion.first(limit).texts(), "the pairs that the run held out"


def _of_task(run: Run, small: Run, on: Sequence[str], limit: int, progress: Progress | None) -> dict[str, Any]:
    examples, name = _examples(run, on, limit)
    task = run.task
    assert task is not None
    rows = task.rows(examples, run.tokenizer, run.folder.milestone.layout(run.tokenizer))

    def answers(asked: Run) -> Any:
        return task.answers(examples, rows, predicted(asked.network, rows))

    one, two, seconds = _both(run, small, answers, progress, (0, 1))
    measured = [task.measured(examples, said) for said in (one, two)]
    figures = [float(told[task.score]) for told in measured]
    said = [
        [task.verdict(example, answer).said for example, answer in zip(examples, all_, strict=True)]
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
    told, task = run.facts.get("labelled"), run.task
    assert task is not None
    source = LabelledSource.from_json(told["source"]) if told is not None else None
    if len(on) > 1:
        raise BadInput(f"{len(on)} files to measure on", remedy="examples stand in one file")
    if on:
        source = source or labelled_source(on[0], task=task.name)[0]
        found = side_of(on[0], source, task.scheme, [])
    elif source is not None and all(Path(path).is_file() for path in source.files().values()):
        found = read_labelled(source).dev
    else:
        what = "the examples that it was adapted with are not there"
        raise BadInput(what, file=run.folder.path, remedy="name a file of examples to measure on: --on FILE")
    labelled = [example for example in found if is_labelled(example)][:limit]
    if not labelled:
        raise BadInput("no example has a label", file=on[0] if on else None, remedy="measure on labelled examples")
    return labelled, ", ".join(on) or "the examples that were held out"
