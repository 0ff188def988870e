"""Small runs for tests: a text with some structure, milestones that train in a moment, and what they say."""

from __future__ import annotations

import contextlib
from collections.abc import Container, Iterable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from forebear.data.source import TextSource
from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.data.tokenizers.train import train_tokenizer
from forebear.errors import InputError
from forebear.experiments import pipeline
from forebear.experiments import plan as planning
from forebear.experiments.explain import model_capabilities
from forebear.experiments.unused_settings import settings_kind
from forebear.inference.run import Run
from forebear.registry import LINEAGE, model_spec, tag_only_models, text_models
from forebear.training.run_folder import RunFolder
from forebear.training.trainer import TrainingCallback

SMALL = {"width": 32, "depth": 2, "heads": 2, "context": 16, "order": 3, "window": 3, "min_count": 1, "states": 16}
NAMES = [name for name in LINEAGE if name not in tag_only_models()]  # who learns from text, alone or in pairs
TABLES = [name for name in NAMES if model_spec(name).learning == "sweeping"]  # word vectors: they predict no text
READING = [name for name in text_models() if name not in TABLES]
NEURAL = [name for name in NAMES if model_spec(name).learning == "descending"]
ENCODING = [name for name in NEURAL if name in READING]  # their encoder reads one text; the Transformer reads pairs
TRANSFORMERS = [name for name in ENCODING if "heads" in {field.name for field in fields(model_spec(name))}]
WAYS = ["ngram", "gpt2", "bert"]  # one of each: that counts, that predicts, that finds what is hidden
PREDICTING = [name for name in NAMES if "generate" in model_capabilities(name)[0]]
HIDING = [name for name in NAMES if "fill" in model_capabilities(name)[0]]

_ANIMALS, _PLACES = ("cat", "dog", "bird", "old fox", "young hare"), ("mat", "tree", "hill", "river", "red roof")


def sampled(names: Iterable[str], sample: Container[str]) -> list[Any]:
    """All of them as parameters of a test; those outside the sample only where all tests are asked for."""
    return [name if name in sample else pytest.param(name, marks=pytest.mark.slow) for name in names]


def text(documents: int = 40) -> str:
    """So many little documents; what comes next can be guessed, but not always."""
    told = []
    for number in range(documents):
        one, other = _ANIMALS[number % 5], _ANIMALS[(number // 5 + 1) % 5]
        place = _PLACES[number * 7 % 5]
        told.append(f"The {one} sat by the {place}. The {other} saw the {one} and ran to the {place}.")
        told[-1] += f"\nNumber {number} is over, said the {other}."
    return "\n\n".join(told) + "\n"


def tokenizer(kind: str = "characters") -> Tokenizer:
    return train_tokenizer(kind, text().split("\n\n"), size=300 if kind == "bytepair" else None)


def settings(name: str, **changes: Any) -> dict[str, Any]:
    """The small values of the fields this milestone has, and a short recipe."""
    own = {field.name for field in fields(model_spec(name))}
    small = {field: value for field, value in SMALL.items() if field in own}
    if model_spec(name).learns_from == "pairs":
        small |= {"context": 40, "inner": 64, "dropout": 0.0, "smoothing": 0.0}
    if "pairs" in own:  # rows that hold two sentences
        small |= {"context": 40} | ({"table": 16} if "table" in own else {})
    if name == "nnlm":
        small |= {"context": 4}
    if {"inner", "softmax"} <= own:  # layers as wide as each other can be mixed
        small |= {"inner": SMALL["width"]}
    if "state" in own or name == "elmo":
        small |= {"dropout": 0.0, "softmax": "full"}
    if name == "cnn_rnn":  # one above the other begin to learn late
        small |= {"depth": 1}
    if "filters" in own:
        small |= {"filters": "1:8,2:8,3:16", "characters": 8, "highways": 1}
    small |= {"cells": 48} if "cells" in own else {}
    recipe = {
        "counting": {"epochs": 1, "batch": 300},
        "only counts": {"epochs": 1, "batch": 300},
        "recounting": {"epochs": 30, "batch": 300},
        "descending": {"steps": 60, "batch": 128, "rate": 3e-3, "threads": 1, "precision": "float32"},
        "searching": {"epochs": 30, "threads": 1},
        "sweeping": {"steps": 60, "batch": 300, "threads": 1},
    }[settings_kind(model_spec(name))]
    recipe |= {"rate": 2e-2} if "state" in own or name == "elmo" else {}
    budget = {"steps", "tokens", "time", "epochs"}
    if budget & set(changes):
        recipe = {setting: value for setting, value in recipe.items() if setting not in budget}
    return small | recipe | {"held_out": 0.15} | changes


def to_be_killed(name: str, *, quick: bool = False) -> dict[str, Any]:
    """What makes a run long enough to be killed again and again: many small steps, and a save after each."""
    many = {"onehot": 10_000, "hmm": 600}.get(name, 150 if name in NEURAL else 300)
    many = 120 if quick and name == "hmm" else 28 if quick and name in NEURAL else 42 if quick else many
    steps = {"steps": many, "evaluate_every": 5}
    batch = {"onehot": 2, "hmm": 1000}.get(name, 16)  # of hmm an epoch is over many times, and often is not
    return {"batch": batch, "save_every": 0.001, **(steps if name != "ngram" else {})}


def plan(name: str, file: Path, **changes: Any) -> planning.PretrainPlan:
    kind, source = changes.pop("tokenizer", None), None
    if model_spec(name).learns_from == "pairs":
        file, source = translated(file), TextSource((), pairs=True)
    return planning.plan_pretraining(
        name, [str(file)], tokenizer=kind, source=source, settings=settings(name, **changes)
    )


def translated(file: Path) -> Path:
    """The sentences of a text, each beside itself with its words in reverse order and in capitals."""
    sides = file.with_suffix(".tsv")
    if not sides.exists():
        lines = [line for line in file.read_text(encoding="utf-8").split("\n") if line]
        sentences = [sentence.strip(".") for line in lines for sentence in line.split(". ")]
        pairs = [f"{sentence}\t{' '.join(reversed(sentence.upper().split()))}" for sentence in sentences]
        sides.write_text("\n".join(pairs), encoding="utf-8")
    return sides


def trained(
    name: str, folder: Path, *, callback: TrainingCallback | None = None, to: str = "run", **changes: Any
) -> RunFolder:
    """A small run in `folder`, on the text that is put there."""
    file = folder / "text.txt"
    if not file.exists():
        file.write_text(text(), encoding="utf-8")
    return pipeline.run_pretraining(plan(name, file, **changes), folder / to, callback=callback)


def opened(name: str, folder: Path, **changes: Any) -> Run:
    return Run(trained(name, folder, **changes))


def weights(run: RunFolder) -> str:
    """What was learned, in a word."""
    return run.metadata["weights"]["sha256"]


class Notes(TrainingCallback):
    """Hears everything."""

    def __init__(self) -> None:
        self.words: list[str] = []

    def on_note(self, message: str) -> None:
        self.words.append(message)


@contextlib.contextmanager
def allowed_to_refuse() -> Iterator[list[str]]:
    """Either it works, or it is refused with a remedy; the list is then no longer empty."""
    refused: list[str] = []
    try:
        yield refused
    except InputError as error:
        refused.append(str(error.hint or ""))
        if not refused[0]:
            raise
