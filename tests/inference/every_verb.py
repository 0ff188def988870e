"""Shared by tests of threads and of interrupts: small runs of every kind, all their verbs, and texts of new words."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from forebear.experiments.unused_settings import settings_kind
from forebear.inference.run import Run
from forebear.registry import model_spec
from labelled_texts import adapted
from small_runs import NAMES, text, trained

KNOWN = ["The", "cat", "dog", "sat", "by", "the", "river", "saw", "old", "fox", "and", "ran", "to", "hill"]
SYLLABLES = "ba ko ri tu sen mal dro ved lin gho pax ume".split()
HAN = "春夏秋冬山水花鸟风月天地人大小上下"
PASSAGE = "Anna lives in Oslo. The cat of Anna lives in Rome, and the dog in Paris."
DEAR = {"generate", "stream", "ask", "choose", "answer", "translate", "fill", "next", "measure", "examine"}  # per text
BATCH = 10  # texts that are asked at once

Verb = Callable[[Run, Sequence[str]], Any]
TASKS = {
    "classification": ("ngram", "lstm", "bert"),
    "tagging": ("ngram", "hmm", "crf", "elmo", "bert"),
    "pairs": ("ngram", "bert"),
    "answering": ("ngram", "bert"),
    "choice": ("ngram", "bert"),
}
KINDS = [*NAMES, *(f"{name}-{task}" for task, names in TASKS.items() for name in names), "word2vec-subwords"]


class Job(NamedTuple):
    """A verb, and the texts it is asked about together."""

    verb: str
    texts: tuple[str, ...]


def made(kind: str, folder: Path) -> Path:
    """A run of this kind, hardly trained."""
    name, _, task = kind.partition("-")
    if task == "subwords":
        return trained(name, folder, steps=2, subwords=True).path
    steps: dict[str, Any] = {"steps": 2} if settings_kind(model_spec(name)) in ("descending", "sweeping") else {}
    if not task:
        how: dict[str, Any] = {"epochs": 1} if name == "hmm" else steps
        return trained(name, folder, **how).path
    begin = trained(name, folder, context=40, **steps).path if name in ("lstm", "elmo", "bert") else name
    if name == "hmm":
        steps = {"steps": None, "threads": None}  # it counts
    return adapted(begin, task, folder, **steps).path


def verbs_of(kind: str, run: Run) -> dict[str, Verb]:
    """Every verb that such a run has."""
    names = set(run.capabilities) - {"measure"}
    file = str(run.folder.path.parent / "text.txt")
    is_table, composes = run.folder.spec.learning == "sweeping", "subwords" in kind
    zeros: dict[str, Any] = {"zeros": True} if is_table else {}

    def said(text: str) -> str:
        """What a table has a vector of."""
        if not is_table:
            return text
        known = " ".join(["cat", *(word for word in text.split() if word in KNOWN)])
        return " ".join(f"{word}{len(text)}" for word in known.split()) if composes else known

    verbs: dict[str, Verb] = {
        "score": lambda run, texts: run.score(texts),
        "next": lambda run, texts: [run.next(one) for one in texts],
        "generate": lambda run, texts: run.generate(texts, length=3),
        "fill": lambda run, texts: [run.fill(f"{one} ____") for one in texts],
        "ask": lambda run, texts: run.ask(texts, labels=["cat", "dog"]),
        "embed": lambda run, texts: run.embed(texts, words=True, **zeros),
        "neighbours": lambda run, texts: run.neighbours(texts, among=[said(one) for one in texts], top=3),
        "similarity": lambda run, texts: [run.similarity(said(one), said(two)) for one, two in _pairs(texts)],
        "odd-one-out": lambda run, texts: run.odd_one_out([said(f"{one} dog cat") for one in (*texts[:3], "the hill")]),
        "analogy": lambda run, texts: run.analogy("cat", "dog", "fox"),
        "classify": lambda run, texts: run.classify(list(_pairs(texts)) if "pairs" in kind else texts),
        "tag": lambda run, texts: run.tag(texts),
        "answer": lambda run, texts: run.answer([f"Where is {one}?" for one in texts], f"{PASSAGE} {texts[0]}"),
        "choose": lambda run, texts: [run.choose(one, [two, "the cat sat"]) for one, two in _pairs(texts)],
        "translate": lambda run, texts: run.translate(texts, length=4),
    }
    chosen = {name: verb for name, verb in verbs.items() if name in names}
    if "score" in names and "token" not in run.heads:
        chosen["totals"] = lambda run, texts: run.totals(texts)
        chosen["stream"] = lambda run, texts: ["".join(run.stream(one, length=3)) for one in texts]
        chosen["greedy"] = lambda run, texts: run.generate(texts, length=3, temperature=0)
    if not run.metadata.get("task") and "translation" not in run.heads:
        chosen["measure"] = lambda run, texts: run.measure(file, limit=2000)
    missing = names - set(chosen)
    assert not missing, f"{kind} can be asked to {missing}, which nobody tests"
    return chosen


def _pairs(texts: Sequence[str]) -> Sequence[tuple[str, str]]:
    return [(one, texts[number - 1]) for number, one in enumerate(texts)]


def new_texts(count: int, seed: int) -> list[str]:
    """Texts of known words and of words that nobody has met; some words are in several texts."""
    chance = random.Random(seed)
    invented = ["".join(chance.choices(SYLLABLES, k=chance.randint(1, 4))) for _ in range(max(4, count))]
    made = []
    for _ in range(count):
        words = chance.choices(invented, k=chance.randint(2, 5)) + chance.choices(KNOWN, k=3)
        chance.shuffle(words)
        marks = [chance.choice(["", "", "", ",", "-", "'s"]) for _ in words]
        words = [f"{word}{mark}" for word, mark in zip(words, marks, strict=True)]
        made.append(" ".join(words) + chance.choice([".", "!", "", " " + "".join(chance.choices(HAN, k=4))]))
    return made


def jobs_of(verbs: Mapping[str, Verb], count: int, seed: int, *, dear: int = 20) -> list[Job]:
    """Every verb, asked about so many new texts; those that cost much per text about one in `dear`."""
    made = []
    for number, verb in enumerate(sorted(verbs)):
        own = max(2, count // dear) if verb in DEAR | {"greedy", "neighbours", "similarity"} else count
        if verb in ("analogy", "measure"):  # asked about no text
            own = 1
        texts = new_texts(own, seed * 100 + number)
        made += [Job(verb, tuple(texts[at : at + BATCH])) for at in range(0, own, BATCH)]
    random.Random(seed).shuffle(made)
    return made


def answered(run: Run, verbs: Mapping[str, Verb], jobs: Sequence[Job]) -> list[Any]:
    return [plain(verbs[job.verb](run, job.texts)) for job in jobs]


class Plain(NamedTuple):
    """An answer as its words and its numbers."""

    words: tuple[Any, ...]
    numbers: np.ndarray

    def agrees(self, other: Plain, tolerance: float) -> bool:
        """Numbers may differ by so much where networks make them; all else may not."""
        if self.words != other.words or self.numbers.shape != other.numbers.shape:
            return False
        return bool(np.allclose(self.numbers, other.numbers, rtol=tolerance, atol=tolerance, equal_nan=True))


def plain(answer: Any) -> Plain:
    words: list[Any] = []
    numbers: list[np.ndarray] = []
    _flatten(answer, words.append, numbers.append)
    return Plain(tuple(words), np.concatenate([np.zeros(0), *numbers]))


def _flatten(value: Any, word: Callable[[Any], None], number: Callable[[np.ndarray], None]) -> None:
    inner = partial(_flatten, word=word, number=number)
    if isinstance(value, np.ndarray | float | np.floating):
        number(np.asarray(value, np.float64).reshape(-1))
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            if field.name not in ("seconds", "took"):  # how long it took
                inner(getattr(value, field.name))
    elif isinstance(value, Mapping):
        for key, one in value.items():
            word(key)
            inner(one)
    elif isinstance(value, list | tuple):
        word(len(value))
        for one in value:
            inner(one)
    else:
        assert value is None or isinstance(value, str | int | np.integer | Path), type(value)
        word(value)


def folder_with_text(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "text.txt").write_text(text(), encoding="utf-8")
    return folder
