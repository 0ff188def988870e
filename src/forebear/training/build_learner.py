"""Build the model and the learner of a training run: for pre-training and for tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from forebear.data.corpus.parallel import TokenizerPair
from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.models.spec import ModelSpec
from forebear.tasks.tagging import SequenceTagging
from forebear.tasks.task import Task
from forebear.training.adaptation import Adaptation
from forebear.training.learner import Learner
from forebear.training.settings import Recipe

if TYPE_CHECKING:
    from torch import Tensor


def learner_for(
    spec: ModelSpec,
    tokenizer: Tokenizer | TokenizerPair,
    recipe: Recipe,
    initial_tensors: Mapping[str, Any] | None = None,
) -> Learner:
    """The learner that pre-trains this model, from random weights or from `initial_tensors`."""
    model = spec.build(tokenizer)
    if spec.learning in ("counting", "sweeping"):
        # Imported here: opening a run and gradient descent need none of these, whose loops load numba.
        from forebear.training.learners_without_torch import CountingLearner, EmbeddingLearner, EMLearner

        if spec.learning == "sweeping":
            return EmbeddingLearner(model, recipe, initial_tensors)
        return (EMLearner if spec.counts_again else CountingLearner)(model, recipe)
    from forebear.training.gradient_learner import GradientLearner, choose_device

    return GradientLearner(model, recipe, choose_device(recipe), initial_tensors)


POOLER_PREFIX = "heads.pair.pool."  # BERT's pooler of [CLS], which initializes that of task heads


def task_learner(
    spec: ModelSpec,
    tokenizer: Tokenizer,
    task: Task,
    adaptation: Adaptation,
    recipe: Recipe,
    *,
    pretrained: Mapping[str, Tensor] | None = None,
    label_weights: tuple[float, ...] | None = None,
) -> Learner:
    """The learner of a task; `pretrained` are the tensors of the pre-trained run."""
    if spec.learning == "counting":
        from forebear.training.learners_without_torch import CRFLearner, LinearLearner

        model = build_linear_model(spec, tokenizer, task, adaptation)
        if uses_full_batch(spec, task):
            return CRFLearner(model, recipe)
        return LinearLearner(model, recipe, label_weights)
    from forebear.training.gradient_learner import GradientLearner, choose_device

    model = build_task_model(spec, tokenizer, task, adaptation, label_weights)
    initial_tensors = select_pretrained_tensors(pretrained or {}, model)
    return GradientLearner(model, recipe, choose_device(recipe), initial_tensors, adaptation.lr_scales(model))


def uses_full_batch(spec: ModelSpec, task: Task) -> bool:
    """Whether this task is learned by full-batch optimization (L-BFGS)."""
    return spec.learns_tags and spec.learns_tags_by == "searching" and isinstance(task, SequenceTagging)


def build_task_model(
    spec: ModelSpec,
    tokenizer: Tokenizer,
    task: Task,
    adaptation: Adaptation,
    label_weights: tuple[float, ...] | None = None,
) -> Any:
    """The encoder with the task's heads, uninitialized."""
    encoder = spec.build_task_encoder(tokenizer, adaptation.task_encoder_config(task))
    return adaptation.build_model(encoder, task, spec.input_format(tokenizer), label_weights)


def select_pretrained_tensors(pretrained: Mapping[str, Tensor], model: Any) -> dict[str, Tensor]:
    """The tensors of a pre-trained run that fit the parameters of this model, renamed to those."""
    shapes = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    candidates = {name: tensor for name, tensor in pretrained.items() if name.startswith("encoder.")}
    inner_tensors = {name.replace("encoder.", "encoder.inner.", 1): tensor for name, tensor in candidates.items()}
    if shapes.keys() & inner_tensors.keys():  # a task encoder wraps it
        candidates = inner_tensors
    for name, tensor in pretrained.items():
        if name.startswith(POOLER_PREFIX):
            part = name.removeprefix(POOLER_PREFIX)
            candidates |= {f"heads.{head}.pool.{part}": tensor for head in ("label", "choice")}
    return {name: tensor for name, tensor in candidates.items() if shapes.get(name) == tuple(tensor.shape)}


def build_linear_model(spec: ModelSpec, tokenizer: Tokenizer, task: Task, adaptation: Adaptation) -> Any:
    """The linear model over n-gram features that a counting model becomes for a task; for tagging, its own tagger."""
    if spec.learns_tags and isinstance(task, SequenceTagging):
        return spec.build_tagger(tokenizer, task.transitions)
    from forebear.data.unicode import word_shapes
    from forebear.statistical.linear import LinearModel

    kind, is_pair_task = task.linear_kind
    max_order = 2 if tokenizer.kind == "words" else 3  # characters and subwords carry less information
    return LinearModel(
        kind,  # pyright: ignore[reportArgumentType]
        vocab_size=tokenizer.vocab_size,
        num_classes=task.num_classes,
        order=max_order if spec.order is None else min(spec.order, max_order),
        is_pair=is_pair_task,
        special_ids=tokenizer.special_ids - {tokenizer.unk_id},
        shapes=word_shapes(tokenizer.vocabulary()) if kind in ("tag", "span") else None,
    )


def balanced_label_weights(task: Task, examples: Sequence[Any]) -> tuple[float, ...] | None:
    """The class weights that balance the labels; None for tasks without labels."""
    labels = task.labels
    if not labels:
        return None
    label_sets = [example.label if isinstance(example.label, tuple) else (str(example.label),) for example in examples]
    counts = Counter(chain.from_iterable(label_sets))
    if task.kind == "several":  # for each label: negatives per positive
        return tuple((len(examples) - counts[label]) / max(1, counts[label]) for label in labels)
    return tuple(len(examples) / (len(labels) * max(1, counts[label])) for label in labels)
