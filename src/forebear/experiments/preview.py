"""Preview a training: the nine steps of its pipeline, and the first rows of a batch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from forebear.data.corpus.corpus import Corpus
from forebear.data.corpus.parallel import ParallelCorpus, ParallelSubset, TokenizerPair
from forebear.data.corpus.subset import CorpusSplit, Subset
from forebear.data.labeled.examples import TaggedExample
from forebear.data.source import ProgressFn
from forebear.data.tokenizers.bpe import readable_token
from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.errors import InputError
from forebear.experiments.plan import AdaptPlan, PretrainPlan
from forebear.objectives.batch import IGNORE_INDEX, Batch, BatchKey
from forebear.objectives.cooccurrence import Cooccurrences
from forebear.objectives.masked_tokens import MaskedTokens, word_starts
from forebear.objectives.next_token import BidirectionalLM, NextToken
from forebear.objectives.objective import FirstPassObjective, Objective, batch_unit
from forebear.objectives.sentence_pairs import DocSentences
from forebear.objectives.seq2seq import SequenceToSequence
from forebear.objectives.word2vec_token_blocks import TokenBlocks
from forebear.tasks.task_batches import FullBatch
from forebear.training.build_learner import learner_for
from forebear.training.learner import Learner


def mask_actions(batch: Batch, mask_id: int) -> np.ndarray:
    """(T,) "masked", "random" or "kept" for supervised tokens, else ""."""
    inputs, targets = batch.inputs["tokens"], batch.targets["token"]
    actions = np.where(inputs == mask_id, "masked", np.where(inputs == targets, "kept", "random"))
    return np.where(targets == IGNORE_INDEX, "", actions)


def pair_label_names(objective: Objective) -> tuple[str, ...]:
    """The labels of the sentence-pair task (NSP or SOP), if the objective has one."""
    base_objective = objective.base_objective if isinstance(objective, MaskedTokens) else None
    return base_objective.label_names if isinstance(base_objective, DocSentences) else ()


def masking_stats(batch: Batch, source: Subset, objective: MaskedTokens) -> dict[str, Any]:
    """Masking statistics of a batch, and the number of too long sentences in the whole text."""
    assert batch.positions is not None
    actions = mask_actions(batch, objective.mask_id)
    action_counts = {action: int(np.count_nonzero(actions == action)) for action in ("masked", "random", "kept")}
    num_masked = sum(action_counts.values())
    is_text_token = batch.positions != IGNORE_INDEX
    document_index = np.searchsorted(source.corpus.document_starts, np.maximum(batch.positions, 0), side="right")
    # Adjacent tokens of different documents, without a special token between them.
    crosses_documents = is_text_token[1:] & is_text_token[:-1] & (document_index[1:] != document_index[:-1])
    stats: dict[str, Any] = {
        "hidden_share": num_masked / max(1, int(np.count_nonzero(is_text_token))),
        "fates": {action: action_counts[action] / max(1, num_masked) for action in action_counts},
        "mixed_halves": int(np.count_nonzero(crosses_documents)),
        "words_half_hidden": _count_partially_masked_words(batch, source),
    }
    if "pair" in batch.targets:
        pairs, label_names = batch.targets["pair"], pair_label_names(objective)
        stats["pairs"] = {answer: int(np.count_nonzero(pairs == number)) for number, answer in enumerate(label_names)}
        stats["pairs_unasked"] = int(np.count_nonzero(pairs == IGNORE_INDEX))
    if isinstance(objective.base_objective, DocSentences):
        chunks = objective.base_objective.sentence_chunks(source)
        stats |= {"long_sentences": chunks.num_split, "tokens_left_away": chunks.num_dropped}
    return stats


def _count_partially_masked_words(batch: Batch, source: Subset) -> int | None:
    """The number of partially masked words; None if word boundaries are unknown."""
    try:
        words = np.cumsum(word_starts(batch, source))
    except InputError:
        return None
    is_masked = (batch.targets["token"] != IGNORE_INDEX).astype(np.int64)
    sizes, num_masked = np.bincount(words), np.bincount(words, is_masked)
    return int(np.count_nonzero((num_masked > 0) & (num_masked < sizes)))


@dataclass(frozen=True)
class PipelineStage:
    """One of the nine steps: `words` describe it, `figures` are its statistics."""

    number: int
    name: str
    words: str
    figures: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def _prepare_objective(
    plan: PretrainPlan, progress: ProgressFn | None
) -> tuple[Corpus | ParallelCorpus, CorpusSplit, Objective]:
    """The corpus of a plan, its split, and the objective, ready for batches."""
    corpus = plan.prepare_corpus(learning_progress=progress, progress=progress)
    with plan.error_context():
        split, objective = corpus.split(plan.recipe.held_out), plan.spec.objective(corpus.tokenizer)
        objective.check(split.train)
        if isinstance(objective, FirstPassObjective):
            objective.run_first_pass(split.train, progress)
    return corpus, split, objective


def pipeline_summary(plan: PretrainPlan, *, progress: ProgressFn | None = None) -> list[PipelineStage]:
    """All nine steps, without training; the losses are those of the initial weights."""
    corpus, split, objective = _prepare_objective(plan, progress)
    tokenizer: Any = corpus.tokenizer
    initial_tensors, _ = plan.init_from.initial_tensors(plan.spec, tokenizer) if plan.init_from else (None, [])
    learner = learner_for(plan.spec, tokenizer, plan.recipe, initial_tensors)
    learner.run_first_pass(objective, split.train)
    return pipeline_stages(plan, corpus, split, objective, learner, with_loss=True)


def pipeline_stages(
    plan: PretrainPlan,
    corpus: Corpus | ParallelCorpus,
    split: CorpusSplit,
    objective: Objective,
    learner: Learner,
    *,
    with_loss: bool,
) -> list[PipelineStage]:
    """All nine steps; `with_loss` computes the loss of a batch with the initial weights."""
    recipe = plan.recipe
    batch = objective.batch(split.train, recipe.batch, BatchKey(recipe.seed, 0))
    steps = objective.steps(split.train, recipe.batch)
    batch_text = f"{batch.num_tokens:,} {batch_unit(objective)}"
    stages = [
        *_corpus_stages(corpus),
        ("mask", *_mask_stage(batch, split, objective)),
        ("pack", *_pack_stage(batch)),
        ("batch", f"{batch_text} a step, {steps:,} steps show everything once", {"steps": steps}),
        *_learner_stages(plan, learner, batch, corpus.tokenizer.vocab_size, with_loss),
        ("evaluate", *_evaluate_stage(split)),
    ]
    return [PipelineStage(number, name, words, figures) for number, (name, words, figures) in enumerate(stages, 1)]


StageText = tuple[str, dict[str, Any]]
NamedStage = tuple[str, str, dict[str, Any]]


def _corpus_stages(corpus: Corpus | ParallelCorpus) -> list[NamedStage]:
    counts = {name: corpus.metadata["counts"][name] for name in ("documents", "bytes")}
    if isinstance(corpus, ParallelCorpus):
        units = f"{counts['documents']:,} pairs"
    else:
        counts["sentences"] = len(corpus.sizes)
        units = f"{counts['documents']:,} documents of {counts['sentences']:,} sentences"
    tokenizer, unknown = corpus.tokenizer, corpus.metadata["counts"]["unknown"]
    kind, vocab_size, num_tokens = tokenizer.kind, tokenizer.vocab_size, len(corpus)
    stats = {"kind": kind, "entries": vocab_size, "tokens": num_tokens, "unknown": unknown}
    description = f"{kind} of {vocab_size:,} entries: {num_tokens:,} tokens, {unknown:,} of them unknown"
    return [("prepare", f"{units}, {counts['bytes']:,} bytes", counts), ("tokenise", description, stats)]


def _mask_stage(batch: Batch, split: CorpusSplit, objective: Objective) -> StageText:
    counts = batch.supervised_counts()
    if isinstance(objective, MaskedTokens):
        stats = masking_stats(batch, split.train, objective) | {"asked": counts}
        actions = " / ".join(f"{share:.0%}" for share in stats["fates"].values())
        pairs = ", ".join(f"{count:,} {answer}" for answer, count in stats.get("pairs", {}).items())
        description = f"{stats['hidden_share']:.1%} of the tokens are asked for, {actions} masked / random / shown"
        return description + (f"; halves: {pairs}" if pairs else ""), stats
    if not counts:
        return "nothing is asked: which words there are is all there is to know", {}
    match objective:
        case SequenceToSequence():
            count = counts["translation"]
            description = f"{count:,} tokens of translations are asked, seen the source and those before"
        case TokenBlocks():
            description = f"each of {counts['around']:,} words is asked with those around it"
        case Cooccurrences():
            description = f"of {counts['together']:,} pairs of words it is asked how often they stand together"
        case BidirectionalLM():
            count = counts["next"]
            description = f"{count:,} tokens are asked, seen only those before, and as many, seen only those behind"
        case _:
            listed = ", ".join(f"{name} of {count:,}" for name, count in counts.items())
            description = f"the {listed} tokens of the first batch is asked, seen only those before"
    return f"nothing is hidden: {description}", {"asked": counts}


def _pack_stage(batch: Batch) -> StageText:
    num_tokens, lengths = batch.num_target_tokens, batch.inputs["lengths"]
    if "beside" in batch.inputs:
        return f"{num_tokens:,} entries of the table of words that stand together", {"entries": num_tokens}
    longest = int(lengths.max(initial=0))
    padding_saved = 1 - num_tokens / max(1, longest * len(lengths))
    mean_length = float(np.mean(lengths)) if len(lengths) else 0.0
    description = f"in the first batch {len(lengths):,} rows of {mean_length:.0f} tokens in the mean, "
    description += f"one after the other unpadded ({padding_saved:.0%} of a padded batch would be nothing)"
    return description, {"rows": len(lengths), "longest": longest, "padding_saved": padding_saved}


def _learner_stages(
    plan: PretrainPlan, learner: Learner, batch: Batch, vocab_size: int, with_loss: bool
) -> list[NamedStage]:
    """Initialization, loss and update."""
    if plan.spec.learning == "counting" and not plan.spec.counts_again:
        loss = "what is counted has no loss while it is counted"
        update = "no descent: everything is counted once"
        return [("initialise", "counts begin at zero", {}), ("loss", loss, {}), ("Adam", update, {})]
    recipe, model = plan.recipe, learner.model
    num_parameters = model.num_parameters
    origin = f"those of {plan.init_from.run}" if plan.init_from else f"drawn by chance, from seed {recipe.seed}"
    init_text = f"{num_parameters:,} parameters, {origin}"
    if not num_parameters:
        init_text = "nothing to begin with: a word's place in the vocabulary is its vector"
    initialization = ("initialise", init_text, {"parameters": num_parameters})
    if plan.spec.learning == "sweeping":
        rate = {"rate": recipe.rate} if model.heads else {}
        update = f"{model.update_rule}, rate {recipe.rate:.2g}" if model.heads else model.update_rule
        return [initialization, ("loss", model.loss, {}), ("descent", update, rate)]
    loss = ("loss", *_loss_stage(learner, batch, vocab_size, with_loss))
    if plan.spec.counts_again:
        update = "no descent: states are counted as often as they are expected, anew in every epoch"
        return [initialization, loss, ("Adam", update, {})]
    cooldown_text = "as 1/√step" if recipe.schedule == "root" else f"over the last {recipe.cooldown:.0%}"
    update = f"AdamW, rate up to {recipe.rate:.2g}, falling {cooldown_text}; decay {recipe.decay}, β₂ {recipe.memory}, "
    update += f"gradients clipped at {recipe.clip}"
    stats = {"rate": recipe.rate, "decay": recipe.decay, "memory": recipe.memory, "clip": recipe.clip}
    return [initialization, loss, ("Adam", update, stats)]


def _loss_stage(learner: Learner, batch: Batch, vocab_size: int, with_loss: bool) -> StageText:
    uniform_losses = {name: math.log(2 if name == "pair" else vocab_size) for name in batch.targets}
    uniform_text = ", ".join(f"{name} {nats:.3f}" for name, nats in uniform_losses.items())
    if not with_loss:
        return f"nats for each that is asked; by pure chance {uniform_text}", {"chance": uniform_losses}
    learner.initialize()
    counts = batch.supervised_counts()
    losses = {name: total / max(1, counts[name]) for name, total in learner.evaluate(batch).items()}
    losses_text = ", ".join(f"{name} {loss:.3f}" for name, loss in losses.items())
    description = f"before the first step {losses_text}; by pure chance {uniform_text}"
    return description, {"losses": losses, "chance": uniform_losses}


def _evaluate_stage(split: CorpusSplit) -> StageText:
    held_out = split.held_out
    if not len(held_out):
        return "nothing is held out: all of the text teaches (forebear measure tells how well, on other text)", {}
    unit = "pairs" if isinstance(held_out, ParallelSubset) else "documents"
    description = f"{len(held_out):,} held-out {unit} of {held_out.num_bytes:,} bytes, chosen by {split.method}"
    return description, {"documents": len(held_out), "bytes": held_out.num_bytes, "by": split.method}


# --- Preview of a batch ---

NUM_WINDOWS = 12  # context windows, or entries of a co-occurrence matrix, that are shown


@dataclass(frozen=True)
class PreviewRow:
    """One sequence of a batch: ids, tokens, and labels of each target by token or sequence; None: unsupervised."""

    ids: list[int]
    tokens: list[str]
    source: list[str] | None  # the source tokens of a translation
    inputs: dict[str, list[int]]  # other than the tokens
    asked: dict[str, list[str | None]]
    asked_of_row: dict[str, str | None]
    fates: list[str]  # mask action of each token: "masked", "random", "kept", or ""


@dataclass(frozen=True)
class Preview:
    """The first sequences of a batch, and statistics of the whole batch."""

    rows: list[PreviewRow]
    figures: dict[str, Any]
    tokenizer: dict[str, Any]
    end: str | None
    unknown: str | None
    windows: list[dict[str, Any]] | None = None  # of word2vec: words, contexts and negative samples
    together: list[dict[str, Any]] | None = None  # of GloVe: co-occurring words, their count and its weight

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def preview_batch(plan: PretrainPlan, *, rows: int = 4, step: int = 0, progress: ProgressFn | None = None) -> Preview:
    """Preview batch number `step` of a plan, exactly as in training."""
    if rows < 1 or step < 0:
        raise InputError(f"rows is {rows}, step is {step}", hint="give at least one row, and a step of 0 or more")
    corpus, split, objective = _prepare_objective(plan, progress)
    tokenizer = corpus.tokenizer.target if isinstance(corpus.tokenizer, TokenizerPair) else corpus.tokenizer
    batch = objective.batch(split.train, plan.recipe.batch, BatchKey(plan.recipe.seed, step))
    if not len(batch.inputs["lengths"]):
        raise InputError(f"the batch of step {step} has no rows", hint="choose another --step, or a larger --batch")
    steps, eos_id = objective.steps(split.train, plan.recipe.batch), tokenizer.special_roles.get("end")
    # with lead tokens, no sequence is truncated to the maximum length
    has_lead_tokens = isinstance(objective, NextToken) and objective.lead_tokens is not None
    stats = batch_stats(batch, steps, tokenizer, None if has_lead_tokens else plan.spec.context)
    if isinstance(objective, MaskedTokens):
        stats |= masking_stats(batch, split.train, objective)
    stats |= {"train_bytes": split.train.num_bytes, "held_out_bytes": split.held_out.num_bytes}
    stats["split_by"] = split.method
    windows = None
    if isinstance(objective, TokenBlocks):
        initial_arrays, _ = plan.init_from.initial_tensors(plan.spec, tokenizer) if plan.init_from else (None, [])
        model, rng_key = plan.spec.build(tokenizer), (plan.recipe.seed, step)
        model.run_first_pass(split.train, initial_arrays)
        windows = model.windows(batch, rate=plan.recipe.rate, rng_key=rng_key, num_windows=NUM_WINDOWS)
    is_cooccurrence = isinstance(objective, Cooccurrences)
    return Preview(
        [] if is_cooccurrence else _build_rows(batch, corpus.tokenizer, rows, objective),
        stats,
        {name: corpus.tokenizer.describe()[name] for name in ("kind", "size")},
        None if eos_id is None else tokenizer.id_to_token(eos_id),
        _unknown_token(tokenizer),
        windows,
        _preview_cooccurrences(batch, tokenizer) if is_cooccurrence else None,
    )


def _unknown_token(tokenizer: Tokenizer) -> str | None:
    return None if tokenizer.unk_id is None else tokenizer.id_to_token(tokenizer.unk_id)


def _preview_cooccurrences(batch: Batch, tokenizer: Tokenizer) -> list[dict[str, Any]]:
    """The first entries of the co-occurrence matrix."""
    words, neighbors = (
        [tokenizer.id_to_token(token_id) for token_id in batch.inputs[name][:NUM_WINDOWS].tolist()]
        for name in ("tokens", "beside")
    )
    counts, weights = np.exp(batch.targets["together"][:NUM_WINDOWS]), batch.inputs["weights"][:NUM_WINDOWS]
    entries = zip(words, neighbors, counts.tolist(), weights.tolist(), strict=True)
    return [dict(zip(("word", "beside", "count", "weight"), entry, strict=True)) for entry in entries]


def batch_stats(batch: Batch, steps: int, tokenizer: Tokenizer, context: int | None) -> dict[str, Any]:
    tokens, lengths = batch.inputs["tokens"], batch.inputs["lengths"]
    starts = np.cumsum(lengths) - lengths
    eos_id, unk_id = tokenizer.special_roles.get("end"), tokenizer.unk_id
    counts = batch.supervised_counts()
    stats: dict[str, Any] = {
        "rows": len(lengths),
        "tokens": batch.num_tokens,
        "shortest_row": int(lengths.min()),
        "longest_row": int(lengths.max()),
        "steps_an_epoch": steps,
        "asked": counts,
        "asked_share": {name: count / len(batch.targets[name]) for name, count in counts.items()},
        "unknown_share": float((tokens == unk_id).mean()) if unk_id is not None else 0.0,
        "distinct_tokens": len(np.unique(tokens)),
    }
    is_word_batch = "around" in batch.targets or "together" in batch.targets  # such rows have no end-of-text token
    if eos_id is not None and batch.positions is None and "source" not in batch.inputs and not is_word_batch:
        stats["documents_begun"] = int(np.count_nonzero(tokens == eos_id))
        stats["rows_begun_inside_a_document"] = int(np.count_nonzero(tokens[starts] != eos_id))
    if context is not None:
        stats["rows_as_long_as_the_context"] = int(np.count_nonzero(lengths >= context))
    return stats


def _build_rows(batch: Batch, tokenizer: Any, num_rows: int, objective: Objective) -> list[PreviewRow]:
    is_pair = isinstance(tokenizer, TokenizerPair)
    tokenizer, source_tokenizer = (tokenizer.target, tokenizer.source) if is_pair else (tokenizer, None)

    def readable(ids: np.ndarray, tokenizer: Tokenizer) -> list[Any]:
        return [None if i == IGNORE_INDEX else readable_token(tokenizer, i) for i in ids.tolist()]

    def per_token(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {name: array for name, array in arrays.items() if len(array) == batch.num_target_tokens}

    inputs, targets = dict(batch.inputs), per_token(batch.targets)
    tokens, lengths = inputs.pop("tokens"), inputs.pop("lengths")
    source_ids: Any = inputs.pop("source", None)
    ends, source_ends = np.cumsum(lengths), np.cumsum(inputs.pop("source_lengths", ()))
    row_targets = {name: target for name, target in batch.targets.items() if name not in targets}
    if isinstance(objective, TokenBlocks):  # they are shown as windows
        targets = {}
    actions = np.full(batch.num_target_tokens, "")
    if isinstance(objective, MaskedTokens):
        actions = mask_actions(batch, objective.mask_id)
    label_names = {IGNORE_INDEX: None, **dict(enumerate(pair_label_names(objective)))}
    other_inputs, rows = per_token(inputs), []
    for row, (end, length) in enumerate(zip(ends[:num_rows], lengths[:num_rows], strict=True)):
        span, source = slice(end - length, end), None
        if source_tokenizer is not None:
            source_length = batch.inputs["source_lengths"][row]
            source = readable(source_ids[source_ends[row] - source_length : source_ends[row]], source_tokenizer)
        labels = {name: int(target[row]) for name, target in row_targets.items()}
        rows.append(
            PreviewRow(
                tokens[span].tolist(),
                readable(tokens[span], tokenizer),
                source,
                {name: array[span].tolist() for name, array in other_inputs.items()},
                {name: readable(array[span], tokenizer) for name, array in targets.items()},
                {name: label_names.get(label, str(label)) for name, label in labels.items()},
                actions[span].tolist(),
            )
        )
    return rows


def preview_tags(plan: AdaptPlan, *, rows: int = 4) -> Preview:
    """The first sentences of the training set, and statistics of all of them."""
    if rows < 1:
        raise InputError(f"rows is {rows}", hint="give at least one row")
    train, tokenizer = plan.labeled_data.train, plan.tokenizer
    train_rows = plan.task.encode(train, tokenizer, plan.spec.input_format(tokenizer))
    batch = FullBatch().batch(train_rows, plan.recipe.batch, BatchKey(plan.recipe.seed, 0))
    stats = batch_stats(batch, 1, tokenizer, None)
    stats |= {"train_bytes": _num_bytes(train), "held_out_bytes": _num_bytes(plan.labeled_data.dev)}
    stats["split_by"] = "a file of its own" if plan.source.dev is not None else "what sentences say"
    preview_rows = [
        PreviewRow([], list(example.words), None, {}, {"tag": list(example.tags or ())}, {}, [""] * len(example.words))
        for example in train[:rows]
    ]
    tokenizer_stats = {name: tokenizer.describe()[name] for name in ("kind", "size")}
    return Preview(preview_rows, stats, tokenizer_stats, None, _unknown_token(tokenizer))


def _num_bytes(examples: Sequence[TaggedExample]) -> int:
    return sum(len(word.encode("utf-8", "replace")) for example in examples for word in example.words)
