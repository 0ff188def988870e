"""Learners without torch: counting, CRF, EM, linear models and word vectors."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

from forebear.data.corpus.subset import Subset
from forebear.data.io.workers import cpu_count
from forebear.objectives.batch import Batch, is_supervised
from forebear.objectives.objective import Objective
from forebear.objectives.ordered_texts import WholeTexts
from forebear.statistical.crf import CRFModel, CRFProblem
from forebear.statistical.lbfgs import LBFGSOptimizer
from forebear.statistical.linear import LinearModel
from forebear.statistical.ngram.language_model import NgramModel
from forebear.training.learner import LEARNER_STATE_FILE, WEIGHTS_FILE, Learner
from forebear.training.settings import Recipe

# --- Counting: n-grams ---


class CountingLearner(Learner):
    """Counts each text once: no training state but the counts. Also the base of the CRF, EM and linear learners."""

    def __init__(self, model: Any, recipe: Recipe) -> None:
        self.model, self.recipe = model, recipe
        self.notes: list[str] = []
        if isinstance(model, NgramModel):
            model.counter.threads = recipe.threads or cpu_count()
            model.counter.memory = recipe.max_memory or model.counter.memory

    def initialize(self) -> None:
        """Do nothing: counts start at zero."""

    def step(self, batch: Batch, step: int, lr_fraction: float) -> dict[str, float]:
        self.model.add_batch(batch.inputs["tokens"], batch.inputs["lengths"], batch.targets["next"])
        return {}

    def finish_training(self) -> None:
        """Count the buffered text, so that the time for it is measured."""
        if isinstance(self.model, NgramModel):
            _ = self.model.counts

    def evaluate(self, batch: Batch) -> dict[str, float]:
        tokens, targets = batch.inputs["tokens"], batch.targets["next"]
        bounds = np.concatenate(([0], np.cumsum(batch.inputs["lengths"])))
        rows = [np.append(tokens[start:stop], targets[stop - 1]) for start, stop in pairwise(bounds.tolist())]
        return {"next": -float(sum(scores.sum() for scores in self.model.score(rows)))}

    def time_step(self, batch: Batch) -> float:
        return 0.0

    def resolved_settings(self) -> dict[str, Any]:
        return {}

    def save(self, folder: Path) -> None:
        if isinstance(self.model, NgramModel):
            self.model.save(folder / WEIGHTS_FILE)
        else:
            save_file(self.model.arrays(), folder / WEIGHTS_FILE)

    def load(self, folder: Path) -> None:
        self.model.load(load_file(folder / WEIGHTS_FILE))


LBFGS_HISTORY = 6  # history size of L-BFGS in steps; more cost memory and help little
MIN_RELATIVE_DECREASE = 1e-4  # converged if ten steps decrease the loss by a smaller fraction
MIN_RELATIVE_GRADIENT = 1e-5  # converged if |gradient| / |weights| is below this


class CRFLearner(CountingLearner):
    """Trains a CRF by L-BFGS: each step is one step of the optimizer over all sentences.

    The state of the optimizer is saved with every checkpoint, so that a resumed run is bit-identical.
    """

    model: CRFModel

    def __init__(self, model: CRFModel, recipe: Recipe) -> None:
        super().__init__(model, recipe)
        self.has_converged = False
        self.threads = recipe.threads or len(os.sched_getaffinity(0))
        self._problem: CRFProblem | None = None
        self._optimizer: LBFGSOptimizer | None = None
        self._state: dict[str, np.ndarray] | None = None

    def initialize(self) -> None:
        """All weights start at 0."""
        self._optimizer = self._state = None
        self.has_converged = False

    def step(self, batch: Batch, step: int, lr_fraction: float) -> dict[str, float]:
        problem, optimizer = self._problem_and_optimizer(batch)
        loss = optimizer.value
        is_stuck = not optimizer.step()
        gradient_norm, weight_norm = (float(np.linalg.norm(x)) for x in (optimizer.pseudo_gradient, optimizer.point))
        is_gradient_small = gradient_norm <= MIN_RELATIVE_GRADIENT * max(1.0, weight_norm)
        has_stalled = optimizer.recent_decrease() < MIN_RELATIVE_DECREASE * abs(optimizer.value)
        self.has_converged = is_stuck or is_gradient_small or has_stalled
        self.model.set_weights(optimizer.point)
        return {"tag": loss / max(1, len(problem.gold_labels))}

    def _problem_and_optimizer(self, batch: Batch) -> tuple[CRFProblem, LBFGSOptimizer]:
        if self._problem is None:
            self._problem = self.model.make_problem(batch.inputs, batch.targets["tag"], self.threads)
        if self._optimizer is None:
            self._optimizer = LBFGSOptimizer(
                self._problem.objective,
                np.zeros(self._problem.size),
                memory=LBFGS_HISTORY,
                l1=self.model.l1,
                state=self._state,
                curvature=self._problem.curvature,
            )
            self._state = None
        return self._problem, self._optimizer

    def evaluate(self, batch: Batch) -> dict[str, float]:
        """No loss: the model is evaluated by its predictions."""
        return {}

    def time_step(self, batch: Batch) -> float:
        """Duration of one evaluation of the objective in seconds; a step takes hardly longer."""
        problem, _ = self._problem_and_optimizer(batch)
        start = time.monotonic()
        problem.objective(np.zeros(problem.size))
        return time.monotonic() - start

    def save(self, folder: Path) -> None:
        assert self._optimizer is not None
        save_file(self.model.arrays(), folder / WEIGHTS_FILE)
        state = self._optimizer.arrays() | {"ended": np.array([self.has_converged])}
        save_file({name: np.ascontiguousarray(array) for name, array in state.items()}, folder / LEARNER_STATE_FILE)

    def load(self, folder: Path) -> None:
        self._optimizer, self._state = None, load_file(folder / LEARNER_STATE_FILE)
        self.has_converged = bool(self._state.pop("ended")[0])
        self.model.load(load_file(folder / WEIGHTS_FILE))


# --- EM: expected counts, epoch by epoch ---

BLOCK_TOKENS = 1 << 22  # tokens counted at once


class EMLearner(CountingLearner):
    """Trains by EM: sums expected counts over the batches of an epoch, then updates the parameters.

    Parameters stay the same for a whole epoch, so that the result does not depend on the batch size.
    """

    def __init__(self, model: Any, recipe: Recipe) -> None:
        super().__init__(model, recipe)
        self.steps_per_epoch = 1

    def run_first_pass(self, objective: Objective, source: Subset) -> None:
        """Count the tokens of the text and the steps of an epoch."""
        self.steps_per_epoch = objective.steps(source, self.recipe.batch)
        counts = np.zeros(self.model.vocab_size, np.int64)
        for start in range(0, source.num_tokens, BLOCK_TOKENS):
            ids, _ = source.token_slice(start, min(start + BLOCK_TOKENS, source.num_tokens))
            counts += np.bincount(ids, minlength=len(counts))
        unit = objective.text_unit if isinstance(objective, WholeTexts) else "document"
        counts[self.model.eos_id] += len(source.by_sentence() if unit == "sentence" else source)
        self.model.set_token_counts(counts)

    def initialize(self) -> None:
        self.model.initialize(self.recipe.seed)

    def step(self, batch: Batch, step: int, lr_fraction: float) -> dict[str, float]:
        targets = batch.targets["next"]
        loss = self.model.accumulate(batch.inputs["tokens"], batch.inputs["lengths"], targets)
        if (step + 1) % self.steps_per_epoch == 0:
            self.model.update()
        return {"next": loss / len(targets)} if len(targets) else {}

    def finish_training(self) -> None:
        """Update the parameters from the text read so far if the time budget ended within the first epoch."""
        if not self.model.iterations and self.model.has_expectations:
            self.model.update()
            self.notes.append("time was up before all text was seen once: it learned from a part of it (--time)")

    def save(self, folder: Path) -> None:
        super().save(folder)
        if self.model.has_expectations:  # else an epoch has just ended
            save_file(self.model.training_state(), folder / LEARNER_STATE_FILE)

    def load(self, folder: Path) -> None:
        super().load(folder)
        if (folder / LEARNER_STATE_FILE).exists():
            self.model.load_training_state(load_file(folder / LEARNER_STATE_FILE))


# --- Linear models, fitted in one step ---

MAX_FIT_SECONDS = 300.0  # without a time budget: a baseline should be fast


class LinearLearner(CountingLearner):
    """Fits a linear model to all examples in one step; `label_weights` are the class weights of the loss."""

    def __init__(self, model: LinearModel, recipe: Recipe, label_weights: tuple[float, ...] | None = None) -> None:
        super().__init__(model, recipe)
        self.label_weights = label_weights

    def step(self, batch: Batch, step: int, lr_fraction: float) -> dict[str, float]:
        max_seconds = self.recipe.time if self.recipe.time is not None else MAX_FIT_SECONDS
        labels, weights = batch.targets.get("label"), None
        if self.label_weights is not None and labels is not None and labels.ndim == 1:
            weights = np.where(is_supervised(labels), np.array(self.label_weights)[np.maximum(labels, 0)], 0.0)
        fitted = self.model.fit(batch.inputs, batch.targets, weights=weights, seconds=max_seconds)
        if fitted.stop_reason == "time":
            subject = f"after {max_seconds:,.0f} s the best weights were not found yet"
            self.notes.append(f"{subject}: the best so far are kept; --time gives more")
        return {self.model.heads[0]: fitted.loss}

    def evaluate(self, batch: Batch) -> dict[str, float]:
        """No loss: the model is evaluated by its predictions."""
        return {}


# --- Word vectors: compiled loops update the rows of tables in place ---


class EmbeddingLearner(Learner):
    """Trains word vectors, from random ones or from `initial_arrays`.

    Threads update the same rows without locks (Hogwild): fast, but not deterministic. With `deterministic` the result
    is bit-identical for any number of threads.
    """

    def __init__(self, model: Any, recipe: Recipe, initial_arrays: Mapping[str, np.ndarray] | None = None) -> None:
        self.model, self.recipe, self.initial_arrays = model, recipe, initial_arrays
        self.threads = recipe.threads or cpu_count()
        self.notes: list[str] = []

    def run_first_pass(self, objective: Objective, source: Subset) -> None:
        """Count the words of the text."""
        self.model.run_first_pass(source, self.initial_arrays)
        self.notes += self.model.notes

    def initialize(self) -> None:
        self.model.initialize(self.recipe.seed)
        if self.initial_arrays is not None:
            num_notes = len(self.model.notes)
            self.model.warm_start(self.initial_arrays)
            self.notes += self.model.notes[num_notes:]

    def step(self, batch: Batch, step: int, lr_fraction: float) -> dict[str, float]:
        loss = self.model.train_batch(
            batch,
            rate=self.recipe.rate * lr_fraction,
            rng_key=(self.recipe.seed, step),
            threads=self.threads,
            deterministic=bool(self.recipe.deterministic),
        )
        return {} if loss is None else {name: float(loss) for name in self.model.heads}

    def evaluate(self, batch: Batch) -> dict[str, float]:
        """The mean loss of a pair times the number of supervised words: there are more pairs than words."""
        total, num_pairs = self.model.evaluate(batch)
        counts = batch.supervised_counts()
        return {name: total / max(1, num_pairs) * count for name, count in counts.items()}

    def resolved_settings(self) -> dict[str, Any]:
        return {"threads": self.threads}

    def save(self, folder: Path) -> None:
        save_file(self.model.arrays(), folder / WEIGHTS_FILE)
        if training_state := self.model.training_state():
            save_file(training_state, folder / LEARNER_STATE_FILE)

    def load(self, folder: Path) -> None:
        self.model.load(load_file(folder / WEIGHTS_FILE))
        if self.model.training_state():
            self.model.load_training_state(load_file(folder / LEARNER_STATE_FILE))
