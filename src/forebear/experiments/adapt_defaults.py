"""Defaults of task adaptation: task encoder, tokenizer, learning rate, batch size and epochs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from forebear.data.labeled.examples import example_texts
from forebear.data.labeled.load import LabeledData
from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.data.tokenizers.train import extend_vocabulary, missing_words
from forebear.errors import InputError
from forebear.experiments.unused_settings import flag_name
from forebear.experiments.warm_start import InitFrom
from forebear.models.spec import ModelSpec
from forebear.registry import model_name
from forebear.tasks.task import Task
from forebear.training.adaptation import Adaptation
from forebear.training.build_learner import uses_full_batch
from forebear.training.settings import Recipe, merge_recipe

EXAMPLES_PER_STEP = 16  # on average
EXAMPLES_PER_STEP_FROM_SCRATCH = 32  # on average
MIN_STEPS = 300  # for a task, even with few examples
EPOCH_RANGE = (3, 40)  # minimum and maximum, without a budget
MAX_EVALUATIONS = 12  # of the dev set during a run
MAX_EVAL_FRACTION = 0.1  # of the duration of a run, for these evaluations
MAX_EVAL_EXAMPLES = 2000  # dev examples that are evaluated during training
TRAINING_COST_FACTOR = 3  # cost of a token in training, relative to evaluation
MIN_COUNT_OF_NEW_WORDS = 2  # in the examples, of words that are added to the vocabulary
UNLIMITED_VOCAB_SIZE = 1 << 20  # for pre-tokenized words
TASK_ENCODER_RATE = 3e-3  # learning rate of a task encoder above word vectors
FEATURE_HEAD_RATE = 1e-2  # learning rate of a head above frozen word vectors, without a task encoder
MIN_STEPS_FROZEN = 2000  # with frozen word vectors: steps are cheap, and the vectors cannot overfit
HEAD_RATE = 2e-3  # learning rate where only a head is trained
MAX_FINETUNING_RATE_FACTOR = 0.7  # times the learning rate of training from scratch
GPT_LM_WEIGHT = 0.5  # of the auxiliary language-model loss in GPT's paper
# With fewer examples that loss did not help, in the paper and in forebear, and it costs as much as the task.
MIN_EXAMPLES_FOR_LM_LOSS = 20_000


def choose_adaptation(
    spec: ModelSpec, init_from: InitFrom | None, num_examples: int, options: Mapping[str, Any]
) -> Adaptation:
    """The adaptation with the given options, and defaults for the model and the number of examples."""
    values = {name: value for name, value in options.items() if value is not None}
    if not values.get("mixture_norm"):
        values.pop("mixture_norm", None)
    predicts_next = spec.learning == "descending" and "next" in _pretraining_heads(spec, init_from)
    predicts_next = predicts_next and not spec.char_level and not values.get("reader")  # no LM loss over characters
    if values.get("language") and not predicts_next:
        message = "--language is for encoders that predict the next token, such as gpt"
        raise InputError(message, hint="leave it out")
    values = _add_task_encoder_defaults(spec, init_from, values)
    is_finetuned = init_from is not None and values.get("how", "finetune") == "finetune"
    uses_lm_loss = predicts_next and is_finetuned and num_examples >= MIN_EXAMPLES_FOR_LM_LOSS
    return Adaptation(**{"language": GPT_LM_WEIGHT if uses_lm_loss else 0.0, **values})


def _add_task_encoder_defaults(spec: ModelSpec, init_from: InitFrom | None, values: dict[str, Any]) -> dict[str, Any]:
    """Add the task encoder above word vectors: that of the run, if it was adapted before, or a default."""
    options = [name for name in values if name.startswith(("reader", "mixture"))]
    reason = ", which has an encoder of its own"
    hint = "leave it out, or begin with vectors of words, such as a run of word2vec"
    if spec.needs_task_encoder:
        options = [name for name in options if name.startswith("mixture")]
        reason, hint = ": vectors of words are one layer", "leave it out, or begin with a recurrent run, such as elmo"
    if options and (spec.needs_task_encoder or not spec.accepts_task_encoder):
        raise InputError(f"{flag_name(options[0])} means nothing to {model_name(spec)}{reason}", hint=hint)
    run = None if init_from is None else init_from.folder
    run_options = {} if run is None or run.task is None else run.adaptation.to_dict()
    if not spec.needs_task_encoder:
        inherited = {name: run_options[name] for name in run_options if name.startswith(("reader", "mixture"))}
        values = {**inherited, **values} if spec.accepts_task_encoder else values
        return {"mixture": "before", **values} if values.get("reader") else values
    if values.get("freeze_layers") and not run_options:
        message = f"--freeze-layers {values['freeze_layers']}: what reads the vectors has learned nothing yet"
        raise InputError(message, hint="--how freeze alone keeps the vectors as they are")
    inherited = {name: run_options[name] for name in run_options if name in ("reader", "reader_width")}
    return {"reader": "mean", **inherited, **values}


def _pretraining_heads(spec: ModelSpec, init_from: InitFrom | None) -> Sequence[str]:
    from forebear.experiments.explain_model import sample_batch

    heads = init_from.folder.metadata.get("heads") if init_from else None
    return heads if heads is not None else tuple(sample_batch(spec)[0].targets)


def adaptation_tokenizer(
    spec: ModelSpec, init_from: InitFrom | None, adaptation: Adaptation, task: str, data: LabeledData
) -> Tokenizer:
    """The tokenizer of the run, or one trained on the examples.

    When word vectors are fine-tuned, frequent words of the examples without a vector are added.
    """
    if init_from is None or (task == "tagging" and spec.learns_tags):  # its words are those of the tagged examples
        return spec.task_tokenizer(_train_task_tokenizer(spec, task, data))
    if not spec.needs_task_encoder or adaptation.how != "finetune":
        return spec.task_tokenizer(init_from.tokenizer)
    texts = [text for example in data.train for text in example_texts(example)]
    new_words = missing_words(init_from.tokenizer, texts, MIN_COUNT_OF_NEW_WORDS)
    return extend_vocabulary(init_from.tokenizer, new_words, are_from_text=True)[0]


def _train_task_tokenizer(spec: ModelSpec, task: str, data: LabeledData) -> Tokenizer:
    """A tokenizer of the model's default kind, trained on the training set."""
    from forebear.data.source import suggest_vocab_size
    from forebear.data.tokenizers.tokenizer_json import ROBERTA_SPECIALS
    from forebear.data.tokenizers.train import train_tokenizer

    texts = [text for example in data.train for text in example_texts(example)]
    kind, options = spec.tokenizer, dict[str, Any]()
    if task == "tagging" and spec.learns_tags:
        return train_tokenizer("words", texts, split="spaces", segmenter=None, size=UNLIMITED_VOCAB_SIZE)
    if task == "tagging" and spec.learning == "counting":
        kind, options["lower"] = "wordpiece", False  # subwords and case help with unseen names
    if kind == "bytepair" and "mask" in spec.required_roles:
        options["specials"] = ROBERTA_SPECIALS
    size = suggest_vocab_size(kind, sum(len(text.encode("utf-8", "replace")) for text in texts))
    return train_tokenizer(kind, texts, size=size, **options)


def _adaptation_rate(spec: ModelSpec, adaptation: Adaptation, *, from_scratch: bool) -> float:
    if adaptation.reader is not None:
        return FEATURE_HEAD_RATE if adaptation.how == "features" else TASK_ENCODER_RATE
    default_rate = spec.default_recipe()["rate"]
    if from_scratch or adaptation.how == "features":
        return default_rate if from_scratch else HEAD_RATE
    # BERT-base's rate, scaled by hidden size. Narrow networks need far higher rates: of 2e-4 to 2e-3, 1e-3 was best at
    # a hidden size of 128.
    hidden_size: int = spec.width  # pyright: ignore[reportAttributeAccessIssue]
    scaled_rate = 2e-5 * (768 / hidden_size) ** (2.2 if hidden_size < 768 else 1)
    return min(scaled_rate, MAX_FINETUNING_RATE_FACTOR * default_rate)


def adaptation_recipe(
    spec: ModelSpec,
    tokenizer: Tokenizer,
    task: Task,
    adaptation: Adaptation,
    data: LabeledData,
    settings: Mapping[str, Any],
    *,
    from_scratch: bool,
) -> Recipe:
    """The recipe: defaults for the encoder's size and the number of examples, overridden by `settings`."""
    input_format = spec.input_format(tokenizer)
    rows = task.encode(data.train[: 20 * EXAMPLES_PER_STEP_FROM_SCRATCH], tokenizer, input_format, is_training=True)
    mean_tokens = float(rows.example_lengths.mean()) if len(rows) else 1.0  # tokens per example, in all its windows
    if spec.learning == "counting":
        all_tokens = max(1, round(2 * mean_tokens * len(data.train)))  # enough for a single batch
        defaults = spec.default_recipe() if uses_full_batch(spec, task) else {"epochs": 1}
        return merge_recipe({"batch": all_tokens, **defaults}, settings)
    rate = _adaptation_rate(spec, adaptation, from_scratch=from_scratch)
    has_task_encoder = adaptation.reader is not None
    examples_per_step = EXAMPLES_PER_STEP_FROM_SCRATCH if from_scratch or has_task_encoder else EXAMPLES_PER_STEP
    # a text is truncated to the maximum length, unless a task encoder reads it
    row_tokens = mean_tokens if has_task_encoder else min(mean_tokens, input_format.max_length or mean_tokens)
    batch = max(1, round(examples_per_step * row_tokens))
    defaults: dict[str, Any] = {"rate": rate, "batch": batch, "decay": 0.01, "memory": 0.98}
    batch = merge_recipe(defaults, {"batch": settings.get("batch")}).batch
    steps_per_epoch = max(1, round(mean_tokens * len(data.train) / batch))
    min_steps = MIN_STEPS_FROZEN if has_task_encoder and adaptation.how != "finetune" else MIN_STEPS
    defaults["epochs"] = float(min(max(EPOCH_RANGE[0], -(-min_steps // steps_per_epoch)), EPOCH_RANGE[1]))
    recipe = merge_recipe(defaults, settings)
    if recipe.evaluate_every is None:
        steps = recipe.steps or round((recipe.epochs or 0) * steps_per_epoch) or 4 * steps_per_epoch
        num_evaluations = min(MAX_EVALUATIONS, max(1, steps // 10))  # at least ten steps apart
        num_eval_tokens = mean_tokens * min(len(data.dev), MAX_EVAL_EXAMPLES)
        eval_cost = num_eval_tokens / recipe.batch / TRAINING_COST_FACTOR  # in steps
        recipe = replace(recipe, evaluate_every=max(1, steps // num_evaluations, round(eval_cost / MAX_EVAL_FRACTION)))
    return recipe
