"""The nine steps of pre-training, as they will be, or are, taken for one plan: from text to evaluation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from forebear.data.corpus.parallel import ParallelCorpus, ParallelSubset, TokenizerPair
from forebear.data.labeled.examples import TaggedExample
from forebear.data.source import ProgressFn
from forebear.errors import InputError
from forebear.experiments.plan import AdaptPlan, PretrainPlan
from forebear.inference.stream_decode import readable_token
from forebear.objectives.batch import IGNORE_INDEX, Batch, BatchKey, Objective, PrepassObjective, batch_unit
from forebear.objectives.context_windows import ContextWindows
from forebear.objectives.cooccurrence import Cooccurrences
from forebear.objectives.masked_tokens import MaskedTokens, word_starts
from forebear.objectives.next_token import BidirectionalLM, NextToken
from forebear.objectives.sentence_pairs import DocSentences
from forebear.objectives.seq2seq import SequenceToSequence
from forebear.tasks.task_batches import FullBatch
from forebear.training.load_model import learner_for, prepass

if TYPE_CHECKING:
    from forebear.data.corpus.corpus import Corpus
    from forebear.data.corpus.subset import CorpusSplit, Subset
    from forebear.data.tokenizers.tokenizer import Tokenizer
    from forebear.training.learners import Learner
    from forebear.training.settings import Recipe

# Figures of a batch in which something is hidden: what became of it, and that nothing is half hidden or mixed up.


def mask_actions(batch: Batch, mask: int) -> np.ndarray:
    """(T,) "masked", "random" or "kept" where a token is asked for, and nothing elsewhere."""
    seen, asked = batch.inputs["tokens"], batch.targets["token"]
    told = np.where(seen == mask, "masked", np.where(seen == asked, "kept", "random"))
    return np.where(asked == IGNORE_INDEX, "", told)


def answers_of(objective: Objective) -> tuple[str, ...]:
    """What may be answered about the two halves of a row, where that is asked beside what is hidden."""
    inner = objective.inner if isinstance(objective, MaskedTokens) else None
    return inner.label_names if isinstance(inner, DocSentences) else ()


def masking_stats(batch: Batch, source: Subset, objective: MaskedTokens) -> dict[str, Any]:
    """Of the whole batch; and of the whole text, what was too long for a row."""
    assert batch.positions is not None
    fates = mask_actions(batch, objective.mask)
    asked = max(1, int(np.count_nonzero(fates != "")))
    text = int(np.count_nonzero(batch.positions != IGNORE_INDEX))
    told: dict[str, Any] = {
        "hidden_share": float(np.count_nonzero(fates != "") / max(1, text)),
        "fates": {fate: float(np.count_nonzero(fates == fate) / asked) for fate in ("masked", "random", "kept")},
        "mixed_halves": _mixed(batch, source),
        "words_half_hidden": _half_hidden(batch, source),
    }
    answers = answers_of(objective)
    if "pair" in batch.targets:
        pairs = batch.targets["pair"]
        told["pairs"] = {answer: int(np.count_nonzero(pairs == number)) for number, answer in enumerate(answers)}
        told["pairs_unasked"] = int(np.count_nonzero(pairs == IGNORE_INDEX))
    if isinstance(objective.inner, DocSentences):
        pieces = objective.inner.sentence_chunks(source)
        told |= {"long_sentences": pieces.num_split, "tokens_left_away": pieces.num_dropped}
    return told


def _mixed(batch: Batch, source: Subset) -> int:
    """Stretches of text within a row, from one special token to the next, that lie in more than one document."""
    assert batch.positions is not None
    inside = batch.positions != IGNORE_INDEX
    starts = source.corpus.document_starts
    document = np.searchsorted(starts, np.maximum(batch.positions, 0), side="right")
    together = inside[1:] & inside[:-1]
    return int(np.count_nonzero(together & (document[1:] != document[:-1])))


def _half_hidden(batch: Batch, source: Subset) -> int | None:
    """Words of which a part is hidden and a part is not; None where nobody knows where words begin."""
    try:
        words = np.cumsum(word_starts(batch, source))
    except InputError:
        return None
    hidden = (batch.targets["token"] != IGNORE_INDEX).astype(np.int64)
    sizes, parts = np.bincount(words), np.bincount(words, hidden)
    return int(np.count_nonzero((parts > 0) & (parts < sizes)))


@dataclass(frozen=True)
class PipelineStage:
    """One of the nine: what is done, in words and in figures."""

    number: int
    name: str
    words: str
    figures: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def pipeline_summary(
    what: PretrainPlan, *, workers: int | None = None, progress: ProgressFn | None = None
) -> list[PipelineStage]:
    """All nine, without training: the losses are those of the values to begin with."""
    corpus = what.prepare_corpus(workers=workers, learning_progress=progress, progress=progress)
    with what.error_context():
        split = corpus.split(what.recipe.held_out)
        objective = what.spec.objective(corpus.tokenizer)
        objective.check(split.train)
        tokenizer: Any = corpus.tokenizer
        given, _ = what.init_from.initial_tensors(what.spec, tokenizer) if what.init_from else (None, [])
    learner = learner_for(what.spec, corpus.tokenizer, what.recipe, given)
    prepass(learner, objective, split.train)
    return pipeline_stages(what, corpus, split, objective, learner, try_loss=True)


def pipeline_stages(
    what: PretrainPlan,
    corpus: Corpus | ParallelCorpus,
    split: CorpusSplit,
    objective: Objective,
    learner: Learner,
    *,
    try_loss: bool,
) -> list[PipelineStage]:
    """All nine, of what training is made of; with `try_loss` a batch goes through the untrained network."""
    recipe, way = what.recipe, "recounting" if what.spec.counts_again else what.spec.learning
    counting = way == "counting"
    batch = objective.batch(split.train, recipe.batch, BatchKey(recipe.seed, 0))
    steps = objective.steps(split.train, recipe.batch)
    shown = f"{batch.num_tokens:,} {batch_unit(objective)}"
    begins = f"those of {what.init_from.run}" if what.init_from else f"drawn by chance, from seed {recipe.seed}"
    told = [
        ("prepare", *_prepared(corpus)),
        ("tokenise", *_tokenised(corpus)),
        ("mask", *_asked(batch, split, objective)),
        ("pack", *_packed(batch)),
        ("batch", f"{shown} a step, {steps:,} steps show everything once", {"steps": steps}),
        ("initialise", *_initialised(learner, begins, counting)),
        ("loss", *_lost(learner, batch, corpus.tokenizer.vocab_size, way, try_loss)),
        ("descent" if way == "sweeping" else "Adam", *_descended(learner, recipe, way)),
        ("evaluate", *_evaluated(split)),
    ]
    return [PipelineStage(number, name, words, figures) for number, (name, words, figures) in enumerate(told, 1)]


Told = tuple[str, dict[str, Any]]


def _prepared(corpus: Corpus | ParallelCorpus) -> Told:
    counts = {name: corpus.metadata["counts"][name] for name in ("documents", "bytes")}
    if isinstance(corpus, ParallelCorpus):
        return f"{counts['documents']:,} pairs, {counts['bytes']:,} bytes", counts
    counts |= {"sentences": len(corpus.sizes)}
    words = f"{counts['documents']:,} documents of {counts['sentences']:,} sentences, {counts['bytes']:,} bytes"
    return words, counts


def _tokenised(corpus: Corpus | ParallelCorpus) -> Told:
    tokenizer, unknown = corpus.tokenizer, corpus.metadata["counts"]["unknown"]
    figures = {"kind": tokenizer.kind, "entries": tokenizer.vocab_size, "tokens": len(corpus), "unknown": unknown}
    words = f"{tokenizer.kind} of {tokenizer.vocab_size:,} entries: {len(corpus):,} tokens, {unknown:,} of them unknown"
    return words, figures


def _asked(batch: Batch, split: CorpusSplit, objective: Objective) -> Told:
    asked = batch.supervised_counts()
    if isinstance(objective, MaskedTokens):
        figures = masking_stats(batch, split.train, objective) | {"asked": asked}
        fates = " / ".join(f"{share:.0%}" for share in figures["fates"].values())
        pairs = ", ".join(f"{count:,} {answer}" for answer, count in figures.get("pairs", {}).items())
        words = f"{figures['hidden_share']:.1%} of the tokens are asked for, {fates} masked / random / shown"
        return words + (f"; halves: {pairs}" if pairs else ""), figures
    if isinstance(objective, SequenceToSequence):
        words = f"nothing is hidden: {asked['translation']:,} tokens of translations are asked"
        return f"{words}, seen the source and those before", {"asked": asked}
    if not asked:
        return "nothing is asked: which words there are is all there is to know", {}
    if isinstance(objective, ContextWindows):
        words = f"nothing is hidden: each of {asked['around']:,} words is asked with those around it"
        return words, {"asked": asked}
    if isinstance(objective, Cooccurrences):
        return (
            f"nothing is hidden: of {asked['together']:,} pairs of words it is asked how often they stand together",
            {"asked": asked},
        )
    if isinstance(objective, BidirectionalLM):
        words = f"nothing is hidden: {asked['next']:,} tokens are asked, seen only those before, and as many, seen only"
        return f"{words} those behind", {"asked": asked}
    told = ", ".join(f"{name} of {count:,}" for name, count in asked.items())
    return f"nothing is hidden: the {told} tokens of the first batch is asked, seen only those before", {"asked": asked}


def _packed(batch: Batch) -> Told:
    if "beside" in batch.inputs:
        return f"{batch.num_target_tokens:,} entries of the table of words that stand together", {
            "entries": batch.num_target_tokens
        }
    lengths = batch.inputs["lengths"]
    padded = int(lengths.max()) * len(lengths) if len(lengths) else 0
    saved = 1 - batch.num_target_tokens / max(1, padded)
    figures = {"rows": len(lengths), "longest": int(lengths.max(initial=0)), "padding_saved": saved}
    mean = float(np.mean(lengths)) if len(lengths) else 0.0
    words = f"in the first batch {len(lengths):,} rows of {mean:.0f} tokens in the mean, one after the other unpadded"
    return f"{words} ({saved:.0%} of a padded batch would be nothing)", figures


def _initialised(learner: Learner, begins: str, counting: bool) -> Told:
    if counting:
        return "counts begin at zero", {}
    count = learner.model.num_parameters
    if not count:
        return "nothing to begin with: a word's place in the vocabulary is its vector", {"parameters": 0}
    return f"{count:,} parameters, {begins}", {"parameters": count}


def _lost(learner: Learner, batch: Batch, vocabulary: int, way: str, try_loss: bool) -> Told:
    if way == "counting":
        return "what is counted has no loss while it is counted", {}
    if way == "sweeping":
        return learner.model.loss, {}
    chance = {name: math.log(2 if name == "pair" else vocabulary) for name in batch.targets}
    told = ", ".join(f"{name} {nats:.3f}" for name, nats in chance.items())
    if not try_loss:
        return f"nats for each that is asked; by pure chance {told}", {"chance": chance}
    learner.initialize()
    asked = batch.supervised_counts()
    losses = {name: total / max(1, asked[name]) for name, total in learner.evaluate(batch).items()}
    before = ", ".join(f"{name} {loss:.3f}" for name, loss in losses.items())
    return f"before the first step {before}; by pure chance {told}", {"losses": losses, "chance": chance}


def _descended(learner: Learner, recipe: Recipe, way: str) -> Told:
    if way == "counting":
        return "no descent: everything is counted once", {}
    if way == "recounting":
        return "no descent: states are counted as often as they are expected, anew in every epoch", {}
    if way == "sweeping":
        if not learner.model.heads:
            return learner.model.update_rule, {}
        return f"{learner.model.update_rule}, rate {recipe.rate:.2g}", {"rate": recipe.rate}
    figures = {"rate": recipe.rate, "decay": recipe.decay, "memory": recipe.memory, "clip": recipe.clip}
    falling = f"over the last {recipe.cooldown:.0%}" if recipe.schedule != "root" else "as 1/√step"
    words = f"AdamW, rate up to {recipe.rate:.2g}, falling {falling}; decay {recipe.decay}"
    return f"{words}, β₂ {recipe.memory}, gradients clipped at {recipe.clip}", figures


def _evaluated(split: CorpusSplit) -> Told:
    if not len(split.held_out):
        return "nothing is held out: all of the text teaches (forebear measure tells how well, on other text)", {}
    figures = {"documents": len(split.held_out), "bytes": split.held_out.num_bytes, "by": split.method}
    unit = "pairs" if isinstance(split.held_out, ParallelSubset) else "documents"
    words = f"{len(split.held_out):,} held-out {unit} of {split.held_out.num_bytes:,} bytes, chosen by {split.method}"
    return words, figures


# What a milestone will see and must predict: one batch of its objective on a text, in tokens, with figures.


WINDOWS = 12  # of word vectors that are shown


@dataclass(frozen=True)
class PreviewRow:
    """One row of a batch: ids, the tokens they stand for, and for each target what it asks of each token, or of the
    whole row; None where nothing is asked."""

    ids: list[int]
    tokens: list[str]
    source: list[str] | None  # the tokens of the text that this row translates, if it does
    inputs: dict[str, list[int]]  # beside the tokens
    asked: dict[str, list[str | None]]
    asked_of_row: dict[str, str | None]
    fates: list[str]  # what became of each token where some are hidden: "masked", "random", "kept", or nothing


@dataclass(frozen=True)
class Preview:
    """The first rows of a batch, and figures of the whole of it."""

    rows: list[PreviewRow]
    figures: dict[str, Any]
    tokenizer: dict[str, Any]
    end: str | None
    unknown: str | None
    windows: list[dict[str, Any]] | None = None  # of word2vec: words, those around, and those drawn by chance
    together: list[dict[str, Any]] | None = None  # of GloVe: two words, how often they stand together, what it matters

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def preview_batch(
    what: PretrainPlan, *, rows: int = 4, step: int = 0, workers: int | None = None, progress: ProgressFn | None = None
) -> Preview:
    """Batch number `step` of what was planned, exactly as training would see it."""
    if rows < 1 or step < 0:
        raise InputError(f"rows is {rows}, step is {step}", hint="give at least one row, and a step of 0 or more")
    corpus = what.prepare_corpus(workers=workers, learning_progress=progress, progress=progress)
    with what.error_context():
        split, sides = corpus.split(what.recipe.held_out), corpus.tokenizer
        objective = what.spec.objective(sides)
        objective.check(split.train)
        if isinstance(objective, PrepassObjective):
            objective.prepass(split.train, progress)
    tokenizer, read_by = (sides.target, sides.source) if isinstance(sides, TokenizerPair) else (sides, None)
    batch = objective.batch(split.train, what.recipe.batch, BatchKey(what.recipe.seed, step))
    if not len(batch.inputs["lengths"]):
        raise InputError(f"the batch of step {step} has no rows", hint="choose another --step, or a larger --batch")
    steps = objective.steps(split.train, what.recipe.batch)
    end = tokenizer.special_roles.get("end")
    whole = isinstance(objective, NextToken) and objective.lead_tokens is not None  # then no row is cut by the context
    figures = batch_stats(batch, steps, tokenizer, None if whole else what.spec.context)
    if isinstance(objective, MaskedTokens):
        figures |= masking_stats(batch, split.train, objective)
    figures |= {"train_bytes": split.train.num_bytes, "held_out_bytes": split.held_out.num_bytes, "split_by": split.method}
    shown = [] if isinstance(objective, Cooccurrences) else _rows(batch, tokenizer, rows, objective, read_by)
    return Preview(
        shown,
        figures,
        {name: sides.describe()[name] for name in ("kind", "size")},
        None if end is None else tokenizer.id_to_token(end),
        None if tokenizer.unk_id is None else tokenizer.id_to_token(tokenizer.unk_id),
        _windows(what, split.train, tokenizer, batch, step) if isinstance(objective, ContextWindows) else None,
        _together(batch, tokenizer) if isinstance(objective, Cooccurrences) else None,
    )


def _windows(what: PretrainPlan, source: Any, tokenizer: Tokenizer, batch: Batch, step: int) -> list[dict[str, Any]]:
    """What word vectors would be learned from, window by window."""
    given, _ = what.init_from.initial_tensors(what.spec, tokenizer) if what.init_from else (None, [])
    network = what.spec.build(tokenizer)
    network.prepass(source, given)
    return network.windows(batch, rate=what.recipe.rate, moment=(what.recipe.seed, step), num_windows=WINDOWS)


def _together(batch: Batch, tokenizer: Tokenizer) -> list[dict[str, Any]]:
    """The first entries of the table of words that stand together, as they would be shown."""
    words, beside = (batch.inputs[name][:WINDOWS].tolist() for name in ("tokens", "beside"))
    counts, weights = np.exp(batch.targets["together"][:WINDOWS]), batch.inputs["weights"][:WINDOWS]
    entries = zip(words, beside, counts.tolist(), weights.tolist(), strict=True)
    return [
        {"word": tokenizer.id_to_token(one), "beside": tokenizer.id_to_token(other), "count": count, "weight": weight}
        for one, other, count, weight in entries
    ]


def batch_stats(batch: Batch, steps: int, tokenizer: Tokenizer, context: int | None) -> dict[str, Any]:
    tokens, lengths = batch.inputs["tokens"], batch.inputs["lengths"]
    starts = np.cumsum(lengths) - lengths
    end, unknown = tokenizer.special_roles.get("end"), tokenizer.unk_id
    asked = batch.supervised_counts()
    told: dict[str, Any] = {
        "rows": len(lengths),
        "tokens": batch.num_tokens,
        "shortest_row": int(lengths.min()),
        "longest_row": int(lengths.max()),
        "steps_an_epoch": steps,
        "asked": asked,
        "asked_share": {name: count / len(batch.targets[name]) for name, count in asked.items()},
        "unknown_share": float((tokens == unknown).mean()) if unknown is not None else 0.0,
        "distinct_tokens": len(np.unique(tokens)),
    }
    of_words = "around" in batch.targets or "together" in batch.targets  # no end stands in such rows
    if end is not None and batch.positions is None and "source" not in batch.inputs and not of_words:
        told["documents_begun"] = int(np.count_nonzero(tokens == end))
        told["rows_begun_inside_a_document"] = int(np.count_nonzero(tokens[starts] != end))
    if context is not None:
        told["rows_as_long_as_the_context"] = int(np.count_nonzero(lengths >= context))
    return told


def _rows(
    batch: Batch,
    tokenizer: Tokenizer,
    count: int,
    objective: Objective | None = None,
    read_by: Tokenizer | None = None,
) -> list[PreviewRow]:
    lengths = batch.inputs["lengths"]
    fates = (
        mask_actions(batch, objective.mask)
        if isinstance(objective, MaskedTokens)
        else np.full(batch.num_target_tokens, "")
    )
    answers = () if objective is None else answers_of(objective)
    ends, read = np.cumsum(lengths), np.cumsum([0, *batch.inputs.get("source_lengths", ())])
    made = []
    for number in range(min(count, len(lengths))):
        mine = slice(int(ends[number] - lengths[number]), int(ends[number]))
        ids = batch.inputs["tokens"][mine].tolist()
        others = _by_token(batch, batch.inputs, but=("tokens", "lengths", "source", "source_lengths"))
        source = None
        if read_by is not None:
            source = [
                readable_token(read_by, i) for i in batch.inputs["source"][read[number] : read[number + 1]].tolist()
            ]
        targets = {} if isinstance(objective, ContextWindows) else _by_token(batch, batch.targets)
        of_rows = {
            name: int(target[number])
            for name, target in batch.targets.items()
            if len(target) != batch.num_target_tokens
        }
        made.append(
            PreviewRow(
                ids,
                [readable_token(tokenizer, i) for i in ids],
                source,
                {name: array[mine].tolist() for name, array in others.items()},
                {name: [_token(tokenizer, i) for i in array[mine].tolist()] for name, array in targets.items()},
                {name: _answer(value, answers) for name, value in of_rows.items()},
                fates[mine].tolist(),
            )
        )
    return made


def _by_token(batch: Batch, arrays: Mapping[str, np.ndarray], but: tuple[str, ...] = ()) -> dict[str, np.ndarray]:
    """Those that have an entry for each token; others have one for each row."""
    return {name: array for name, array in arrays.items() if len(array) == batch.num_target_tokens and name not in but}


def _token(tokenizer: Tokenizer, number: int) -> str | None:
    return None if number == IGNORE_INDEX else readable_token(tokenizer, number)


def _answer(number: int, answers: Sequence[str]) -> str | None:
    """What a number among the answers to a question stands for."""
    return None if number == IGNORE_INDEX else answers[number] if answers else str(number)


# What a milestone that tags teach will see: sentences as they are read, with the tag of each word beneath it.


def preview_tags(what: AdaptPlan, *, rows: int = 4) -> Preview:
    """The first sentences that teach, and figures of all of them."""
    if rows < 1:
        raise InputError(f"rows is {rows}", hint="give at least one row")
    taught, tokenizer = what.labeled_data.train, what.tokenizer
    laid_out = what.task.encode(taught, tokenizer, what.spec.input_format(tokenizer))
    batch = FullBatch().batch(laid_out, what.recipe.batch, BatchKey(what.recipe.seed, 0))
    figures = batch_stats(batch, 1, tokenizer, None)
    figures |= {"train_bytes": _bytes(taught), "held_out_bytes": _bytes(what.labeled_data.dev)}
    figures["split_by"] = "a file of its own" if what.source.dev is not None else "what sentences say"
    shown = [
        PreviewRow([], list(one.words), None, {}, {"tag": list(one.tags or ())}, {}, [""] * len(one.words))
        for one in taught[:rows]
    ]
    described = {name: tokenizer.describe()[name] for name in ("kind", "size")}
    unknown = None if tokenizer.unk_id is None else tokenizer.id_to_token(tokenizer.unk_id)
    return Preview(shown, figures, described, None, unknown)


def _bytes(examples: Sequence[TaggedExample]) -> int:
    return sum(len(word.encode("utf-8", "replace")) for one in examples for word in one.words)
