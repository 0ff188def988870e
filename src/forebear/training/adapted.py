"""A milestone's network with the heads of a task, to be taught or to be asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forebear.milestones.milestone import Milestone
from forebear.tasks.adaptation import Adaptation
from forebear.tasks.tagging import Tagging
from forebear.tasks.task import Task
from forebear.text.tokenizer import Tokenizer
from forebear.training.learner import Learner
from forebear.training.learners import filled
from forebear.training.recipe import Recipe

if TYPE_CHECKING:
    from torch import Tensor

POOLER = "heads.pair.pool."  # what BERT learned to read [CLS] with; a head that reads it too begins with it


def learner_for_task(
    milestone: Milestone,
    tokenizer: Tokenizer,
    task: Task,
    adaptation: Adaptation,
    recipe: Recipe,
    *,
    given: Mapping[str, Tensor] | None = None,
    weights: tuple[float, ...] | None = None,
) -> Learner:
    """`given` are the tensors of the pre-trained run; `weights` those of labels."""
    if milestone.learning == "counting":
        if searches(milestone, task):
            from forebear.training.chaining import Chaining

            return Chaining(linear(milestone, tokenizer, task, adaptation), recipe)
        from forebear.training.fitting import Fitting

        return Fitting(linear(milestone, tokenizer, task, adaptation), recipe, weights)
    from forebear.training.descending import Descending
    from forebear.training.device import chosen

    model = network_for(milestone, tokenizer, task, adaptation, weights)
    return Descending(model, recipe, chosen(recipe), taken(given or {}, model), adaptation.shares(model))


def searches(milestone: Milestone, task: Task) -> bool:
    """Whether it learns this task from all examples at once, in steps that lead to the best weights."""
    return milestone.learns_tags and milestone.learns_tags_by == "searching" and isinstance(task, Tagging)


def network_for(
    milestone: Milestone,
    tokenizer: Tokenizer,
    task: Task,
    adaptation: Adaptation,
    weights: tuple[float, ...] | None = None,
) -> Any:
    """The encoder with the task's heads, still without values."""
    encoder = milestone.task_network(tokenizer, adaptation.reading(task))
    return adaptation.network(encoder, task, milestone.layout(tokenizer), weights)


def taken(given: Mapping[str, Tensor], model: Any) -> dict[str, Tensor]:
    """Of a run's tensors those that this model has a place for: what read words may be read otherwise now."""
    wanted = {name: tuple(one.shape) for name, one in model.named_parameters()}
    own = {name: tensor for name, tensor in given.items() if name.startswith("encoder.")}
    inside = {f"encoder.inner.{name.removeprefix('encoder.')}": tensor for name, tensor in own.items()}
    own = own if not wanted.keys() & inside.keys() else inside  # something reads above it now
    found = {name: tensor for name, tensor in own.items() if wanted.get(name) == tuple(tensor.shape)}
    for name, tensor in given.items():
        if name.startswith(POOLER):
            for head in ("label", "choice"):
                other = f"heads.{head}.pool.{name.removeprefix(POOLER)}"
                found |= {other: tensor} if wanted.get(other) == tuple(tensor.shape) else {}
    return found


def loaded_for_task(
    milestone: Milestone,
    tokenizer: Tokenizer,
    task: Task,
    adaptation: Adaptation,
    weights: Path,
    *,
    quantised: bool = False,
) -> Any:
    """The network that was adapted, with these weights, strictly."""
    if milestone.learning == "counting":
        from safetensors.numpy import load_file

        model = linear(milestone, tokenizer, task, adaptation)
        model.load(load_file(weights))
        return model
    return filled(network_for(milestone, tokenizer, task, adaptation), weights, quantised)


def linear(milestone: Milestone, tokenizer: Tokenizer, task: Task, adaptation: Adaptation) -> Any:
    """A linear model over the n-grams of a milestone that counts, the honest baseline; of one that tags, its own."""
    if milestone.learns_tags and isinstance(task, Tagging):
        return milestone.tagger(tokenizer, task.legal)
    from forebear.statistics.linear import LinearModel
    from forebear.statistics.shapes import shapes_of

    kind, pairs = task.weighed_as
    most = 2 if tokenizer.kind == "words" else 3  # of characters and pieces it takes more to say something
    return LinearModel(
        kind,  # pyright: ignore[reportArgumentType]
        vocabulary=tokenizer.size,
        answers=task.answers_count,
        order=most if milestone.order is None else min(milestone.order, most),
        pairs=pairs,
        skipped=tokenizer.specials - {tokenizer.unknown},
        shapes=shapes_of(map(tokenizer.token, range(tokenizer.size))) if kind in ("tag", "span") else None,
    )


def balanced(task: Task, examples: Sequence[Any]) -> tuple[float, ...] | None:
    """Weights with which all labels count alike; None where there are no labels to weigh."""
    from collections import Counter

    labels = task.labels
    if not labels:
        return None
    counts = Counter(one for example in examples for one in _labels(example.label))
    if task.kind == "several":  # of each: those without it to those with it
        return tuple((len(examples) - counts[label]) / max(1, counts[label]) for label in labels)
    return tuple(len(examples) / (len(labels) * max(1, counts[label])) for label in labels)


def _labels(label: Any) -> tuple[str, ...]:
    return label if isinstance(label, tuple) else (str(label),)
