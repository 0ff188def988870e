"""Shared by the tests of threads and interrupts: small runs of every kind, calls of all their verbs, and new texts."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from adapted_runs import adapt_small_run
from forebear.experiments.unused_settings import learner_kind_for
from forebear.inference.run import Run
from forebear.registry import model_spec
from small_runs import TEXT_MODELS, small_text, train_small_run

KNOWN = ["The", "cat", "dog", "sat", "by", "the", "river", "saw", "old", "fox", "and", "ran", "to", "hill"]
SYLLABLES = "ba ko ri tu sen mal dro ved lin gho pax ume".split()
HAN = "春夏秋冬山水花鸟风月天地人大小上下"
PASSAGE = "Anna lives in Oslo. The cat of Anna lives in Rome, and the dog in Paris."
EXPENSIVE = {
    "generate",
    "stream",
    "ask",
    "choose",
    "answer",
    "translate",
    "fill",
    "next",
    "measure",
    "examine",
}  # per text
BATCH = 10  # texts in one call

Verb = Callable[[Run, Sequence[str]], Any]
TASKS = {
    "classification": ("ngram", "lstm", "bert"),
    "tagging": ("ngram", "hmm", "crf", "elmo", "bert"),
    "pairs": ("ngram", "bert"),
    "answering": ("ngram", "bert"),
    "choice": ("ngram", "bert"),
}
KINDS = [*TEXT_MODELS, *(f"{name}-{task}" for task, names in TASKS.items() for name in names), "word2vec-subwords"]


class Job(NamedTuple):
    """A verb and the texts of one call."""

    verb: str
    texts: tuple[str, ...]


def train_run(kind: str, folder: Path) -> Path:
    """A run of this kind after very few steps."""
    name, _, task = kind.partition("-")
    if task == "subwords":
        return train_small_run(name, folder, steps=2, subwords=True).path
    steps: dict[str, Any] = {"steps": 2} if learner_kind_for(model_spec(name)) in ("descending", "sweeping") else {}
    if not task:
        settings: dict[str, Any] = {"epochs": 1} if name == "hmm" else steps
        return train_small_run(name, folder, **settings).path
    base = train_small_run(name, folder, context=40, **steps).path if name in ("lstm", "elmo", "bert") else name
    if name == "hmm":
        steps = {"steps": None, "threads": None}  # it counts
    return adapt_small_run(base, task, folder, **steps).path


def verbs_of(kind: str, run: Run) -> dict[str, Verb]:
    """Every verb that such a run has."""
    names = set(run.capabilities) - {"measure"}
    file = str(run.folder.path.parent / "text.txt")
    is_table, composes = run.folder.spec.learning == "sweeping", "subwords" in kind
    zeros: dict[str, Any] = {"zeros": True} if is_table else {}

    def known_text(text: str) -> str:
        """The words of a text that a table of word vectors knows."""
        if not is_table:
            return text
        known = " ".join(["cat", *(word for word in text.split() if word in KNOWN)])
        return " ".join(f"{word}{len(text)}" for word in known.split()) if composes else known

    verbs: dict[str, Verb] = {
        "score": lambda run, texts: run.score(texts),
        "next": lambda run, texts: [run.next(item) for item in texts],
        "generate": lambda run, texts: run.generate(texts, length=3),
        "fill": lambda run, texts: [run.fill(f"{item} ____") for item in texts],
        "ask": lambda run, texts: run.ask(texts, labels=["cat", "dog"]),
        "embed": lambda run, texts: run.embed(texts, words=True, **zeros),
        "neighbours": lambda run, texts: run.neighbours(texts, among=[known_text(item) for item in texts], top=3),
        "similarity": lambda run, texts: [
            run.similarity(known_text(item), known_text(other)) for item, other in _pairs(texts)
        ],
        "odd-one-out": lambda run, texts: run.odd_one_out(
            [known_text(f"{item} dog cat") for item in (*texts[:3], "the hill")]
        ),
        "analogy": lambda run, texts: run.analogy("cat", "dog", "fox"),
        "classify": lambda run, texts: run.classify(list(_pairs(texts)) if "pairs" in kind else texts),
        "tag": lambda run, texts: run.tag(texts),
        "answer": lambda run, texts: run.answer([f"Where is {item}?" for item in texts], f"{PASSAGE} {texts[0]}"),
        "choose": lambda run, texts: [run.choose(item, [other, "the cat sat"]) for item, other in _pairs(texts)],
        "translate": lambda run, texts: run.translate(texts, length=4),
    }
    selected = {name: verb for name, verb in verbs.items() if name in names}
    if "score" in names and "token" not in run.heads:
        selected["totals"] = lambda run, texts: run.totals(texts)
        selected["stream"] = lambda run, texts: ["".join(run.stream(item, length=3)) for item in texts]
        selected["greedy"] = lambda run, texts: run.generate(texts, length=3, temperature=0)
    if not run.metadata.get("task") and "translation" not in run.heads:
        selected["measure"] = lambda run, texts: run.measure(file, limit=2000)
    missing = names - set(selected)
    assert not missing, f"{kind} can be asked to {missing}, which nobody tests"
    return selected


def _pairs(texts: Sequence[str]) -> Sequence[tuple[str, str]]:
    return [(text, texts[number - 1]) for number, text in enumerate(texts)]


def new_texts(count: int, seed: int) -> list[str]:
    """Texts of known and of invented words; some words occur in several texts."""
    rng = random.Random(seed)
    invented = ["".join(rng.choices(SYLLABLES, k=rng.randint(1, 4))) for _ in range(max(4, count))]
    texts = []
    for _ in range(count):
        words = rng.choices(invented, k=rng.randint(2, 5)) + rng.choices(KNOWN, k=3)
        rng.shuffle(words)
        marks = [rng.choice(["", "", "", ",", "-", "'s"]) for _ in words]
        words = [f"{word}{mark}" for word, mark in zip(words, marks, strict=True)]
        texts.append(" ".join(words) + rng.choice([".", "!", "", " " + "".join(rng.choices(HAN, k=4))]))
    return texts


def jobs_of(verbs: Mapping[str, Verb], count: int, seed: int, *, expensive_divisor: int = 20) -> list[Job]:
    """Calls of every verb with so many new texts; expensive ones about 1 / `expensive_divisor`."""
    jobs = []
    for number, verb in enumerate(sorted(verbs)):
        num_texts = (
            max(2, count // expensive_divisor) if verb in EXPENSIVE | {"greedy", "neighbours", "similarity"} else count
        )
        if verb in ("analogy", "measure"):  # takes no text
            num_texts = 1
        texts = new_texts(num_texts, seed * 100 + number)
        jobs += [Job(verb, tuple(texts[start : start + BATCH])) for start in range(0, num_texts, BATCH)]
    random.Random(seed).shuffle(jobs)
    return jobs


def answer_jobs(run: Run, verbs: Mapping[str, Verb], jobs: Sequence[Job]) -> list[Any]:
    return [flatten(verbs[job.verb](run, job.texts)) for job in jobs]


class FlatAnswer(NamedTuple):
    """An answer as its words and numbers."""

    words: tuple[Any, ...]
    numbers: np.ndarray

    def agrees(self, other: FlatAnswer, tolerance: float) -> bool:
        """Whether words are equal and numbers close."""
        if self.words != other.words or self.numbers.shape != other.numbers.shape:
            return False
        return bool(np.allclose(self.numbers, other.numbers, rtol=tolerance, atol=tolerance, equal_nan=True))


def flatten(answer: Any) -> FlatAnswer:
    words: list[Any] = []
    numbers: list[np.ndarray] = []
    _flatten(answer, words.append, numbers.append)
    return FlatAnswer(tuple(words), np.concatenate([np.zeros(0), *numbers]))


def _flatten(value: Any, word: Callable[[Any], None], number: Callable[[np.ndarray], None]) -> None:
    inner = partial(_flatten, word=word, number=number)
    if isinstance(value, np.ndarray | float | np.floating):
        number(np.asarray(value, np.float64).reshape(-1))
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            if field.name not in ("seconds", "took"):  # how long it took
                inner(getattr(value, field.name))
    elif isinstance(value, Mapping):
        for key, item in value.items():
            word(key)
            inner(item)
    elif isinstance(value, list | tuple):
        word(len(value))
        for item in value:
            inner(item)
    else:
        assert value is None or isinstance(value, str | int | np.integer | Path), type(value)
        word(value)


def folder_with_text(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "text.txt").write_text(small_text(), encoding="utf-8")
    return folder
