"""Small runs for tests: a text with some structure, the models grouped by what they do, and runs of a few steps."""

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
from forebear.experiments import plan as planning
from forebear.experiments import training_run
from forebear.experiments.explain_model import model_capabilities
from forebear.experiments.unused_settings import learner_kind_for
from forebear.inference.run import Run
from forebear.registry import LINEAGE, model_spec, tag_only_models, text_models
from forebear.training.run_folder import RunFolder
from forebear.training.trainer import TrainingCallback

SMALL = {"width": 32, "depth": 2, "heads": 2, "context": 16, "order": 3, "window": 3, "min_count": 1, "states": 16}
TEXT_MODELS = [name for name in LINEAGE if name not in tag_only_models()]  # trained on texts or pairs of texts
WORD_VECTOR_MODELS = [name for name in TEXT_MODELS if model_spec(name).learning == "sweeping"]  # no language models
LANGUAGE_MODELS = [name for name in text_models() if name not in WORD_VECTOR_MODELS]
NEURAL_MODELS = [name for name in TEXT_MODELS if model_spec(name).learning == "descending"]
ENCODER_MODELS = [
    name for name in NEURAL_MODELS if name in LANGUAGE_MODELS
]  # an encoder of one text; the Transformer reads pairs
TRANSFORMER_MODELS = [name for name in ENCODER_MODELS if "heads" in {field.name for field in fields(model_spec(name))}]
SAMPLE_MODELS = ["ngram", "gpt2", "bert"]  # a counted, a causal and a masked language model
CAUSAL_MODELS = [name for name in TEXT_MODELS if "generate" in model_capabilities(name)[0]]
MASKED_MODELS = [name for name in TEXT_MODELS if "fill" in model_capabilities(name)[0]]

_ANIMALS, _PLACES = ("cat", "dog", "bird", "old fox", "young hare"), ("mat", "tree", "hill", "river", "red roof")


def sample_params(names: Iterable[str], sample: Container[str]) -> list[Any]:
    """All names as parameters of a test; those outside the sample are marked slow."""
    return [name if name in sample else pytest.param(name, marks=pytest.mark.slow) for name in names]


def small_text(documents: int = 40) -> str:
    """A text of short documents in which the next word is often, but not always, predictable."""
    texts = []
    for number in range(documents):
        animal, other_animal = _ANIMALS[number % 5], _ANIMALS[(number // 5 + 1) % 5]
        place = _PLACES[number * 7 % 5]
        texts.append(f"The {animal} sat by the {place}. The {other_animal} saw the {animal} and ran to the {place}.")
        texts[-1] += f"\nNumber {number} is over, said the {other_animal}."
    return "\n\n".join(texts) + "\n"


def small_tokenizer(kind: str = "characters") -> Tokenizer:
    return train_tokenizer(kind, small_text().split("\n\n"), size=300 if kind == "bytepair" else None)


def small_settings(name: str, **changes: Any) -> dict[str, Any]:
    """Small values of the fields of this model, and a short recipe."""
    field_names = {field.name for field in fields(model_spec(name))}
    small = {field: value for field, value in SMALL.items() if field in field_names}
    if model_spec(name).learns_from == "pairs":
        small |= {"context": 40, "inner": 64, "dropout": 0.0, "smoothing": 0.0}
    if "pairs" in field_names:  # rows with two sentences
        small |= {"context": 40} | ({"table": 16} if "table" in field_names else {})
    if name == "nnlm":
        small |= {"context": 4}
    if {"inner", "softmax"} <= field_names:  # only layers of equal width are mixed
        small |= {"inner": SMALL["width"]}
    if "state" in field_names or name == "elmo":
        small |= {"dropout": 0.0, "softmax": "full"}
    if name == "cnn_rnn":  # stacked layers learn late
        small |= {"depth": 1}
    if "filters" in field_names:
        small |= {"filters": "1:8,2:8,3:16", "characters": 8, "highways": 1}
    small |= {"cells": 48} if "cells" in field_names else {}
    recipe = {
        "counting": {"epochs": 1, "batch": 300},
        "only counts": {"epochs": 1, "batch": 300},
        "recounting": {"epochs": 30, "batch": 300},
        "descending": {"steps": 60, "batch": 128, "rate": 3e-3, "threads": 1, "precision": "float32"},
        "searching": {"epochs": 30, "threads": 1},
        "sweeping": {"steps": 60, "batch": 300, "threads": 1},
    }[learner_kind_for(model_spec(name))]
    recipe |= {"rate": 2e-2} if "state" in field_names or name == "elmo" else {}
    budget = {"steps", "tokens", "time", "epochs"}
    if budget & set(changes):
        recipe = {setting: value for setting, value in recipe.items() if setting not in budget}
    return small | recipe | {"held_out": 0.15} | changes


def settings_for_kills(name: str, *, quick: bool = False) -> dict[str, Any]:
    """Settings of a run long enough to be killed repeatedly: many small steps, and a checkpoint after each."""
    num_steps = {"onehot": 10_000, "hmm": 600}.get(name, 150 if name in NEURAL_MODELS else 300)
    num_steps = (
        120 if quick and name == "hmm" else 28 if quick and name in NEURAL_MODELS else 42 if quick else num_steps
    )
    steps = {"steps": num_steps, "evaluate_every": 5}
    batch = {"onehot": 2, "hmm": 1000}.get(name, 16)  # many hmm epochs end between the kills, others do not
    return {"batch": batch, "save_every": 0.001, **(steps if name != "ngram" else {})}


def small_pretrain_plan(name: str, file: Path, **changes: Any) -> planning.PretrainPlan:
    kind, source = changes.pop("tokenizer", None), None
    if model_spec(name).learns_from == "pairs":
        file, source = write_parallel(file), TextSource((), pairs=True)
    return planning.plan_pretraining(
        name, [str(file)], tokenizer=kind, source=source, settings=small_settings(name, **changes)
    )


def write_parallel(file: Path) -> Path:
    """A parallel file of the sentences of a text and the same with words reversed and in capitals."""
    path = file.with_suffix(".tsv")
    if not path.exists():
        lines = [line for line in file.read_text(encoding="utf-8").split("\n") if line]
        sentences = [sentence.strip(".") for line in lines for sentence in line.split(". ")]
        pairs = [f"{sentence}\t{' '.join(reversed(sentence.upper().split()))}" for sentence in sentences]
        path.write_text("\n".join(pairs), encoding="utf-8")
    return path


def train_small_run(
    name: str, folder: Path, *, callback: TrainingCallback | None = None, to: str = "run", **changes: Any
) -> RunFolder:
    """The folder of a small run on the sample text, which is written to `folder`."""
    file = folder / "text.txt"
    if not file.exists():
        file.write_text(small_text(), encoding="utf-8")
    return training_run.run_pretraining(small_pretrain_plan(name, file, **changes), folder / to, callback=callback)


def open_small_run(name: str, folder: Path, **changes: Any) -> Run:
    return Run(train_small_run(name, folder, **changes))


def weights_digest(run: RunFolder) -> str:
    """The checksum of the weights."""
    return run.metadata["weights"]["sha256"]


class NoteRecorder(TrainingCallback):
    """Records the notes of a training."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def on_note(self, message: str) -> None:
        self.messages.append(message)


@contextlib.contextmanager
def input_error_allowed() -> Iterator[list[str]]:
    """Accepts success, or an InputError with a hint, which is added to the list."""
    hints: list[str] = []
    try:
        yield hints
    except InputError as error:
        hints.append(str(error.hint or ""))
        if not hints[0]:
            raise
