"""The nine steps of pre-training, as they will be, or are, taken for one plan: from text to evaluation."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from forebear.objectives.around import Around
from forebear.objectives.batch import Batch, Moment, Objective, counted_in
from forebear.objectives.both_directions import BothDirections
from forebear.objectives.masked_tokens import MaskedTokens
from forebear.objectives.translation import Translation
from forebear.text.pairs import PairedPortion, ParallelCorpus
from forebear.training.corpora import Progress
from forebear.training.learners import introduced, learner_for
from forebear.using.previewing_hidden import hidden_figures
from forebear.vectors.together import Together

if TYPE_CHECKING:
    from forebear.text.corpus import Corpus
    from forebear.text.portion import Split
    from forebear.training.learner import Learner
    from forebear.training.recipe import Recipe
    from forebear.using.planning import Plan


@dataclass(frozen=True)
class Stage:
    """One of the nine: what is done, in words and in figures."""

    number: int
    name: str
    words: str
    figures: dict[str, Any]

    def facts(self) -> dict[str, Any]:
        return asdict(self)


def stages(what: Plan, *, workers: int | None = None, progress: Progress | None = None) -> list[Stage]:
    """All nine, without training: the losses are those of the values to begin with."""
    corpus = what.corpus(workers=workers, learning_progress=progress, progress=progress)
    with what.about():
        split = corpus.split(what.recipe.held_out)
        objective = what.milestone.objective(corpus.tokenizer)
        objective.check(split.train)
        tokenizer: Any = corpus.tokenizer
        given, _ = what.beginning.tensors(what.milestone, tokenizer) if what.beginning else (None, [])
    learner = learner_for(what.milestone, corpus.tokenizer, what.recipe, given)
    introduced(learner, objective, split.train)
    return nine(what, corpus, split, objective, learner, try_loss=True)


def nine(
    what: Plan, corpus: Corpus | ParallelCorpus, split: Split, objective: Objective, learner: Learner, *, try_loss: bool
) -> list[Stage]:
    """All nine, of what training is made of; with `try_loss` a batch goes through the untrained network."""
    recipe, way = what.recipe, "recounting" if what.milestone.counts_again else what.milestone.learning
    counting = way == "counting"
    batch = objective.batch(split.train, recipe.batch, Moment(recipe.seed, 0))
    steps = objective.steps(split.train, recipe.batch)
    shown = f"{batch.shown:,} {counted_in(objective)}"
    begins = f"those of {what.beginning.run}" if what.beginning else f"drawn by chance, from seed {recipe.seed}"
    told = [
        ("prepare", *_prepared(corpus)),
        ("tokenise", *_tokenised(corpus)),
        ("mask", *_asked(batch, split, objective)),
        ("pack", *_packed(batch)),
        ("batch", f"{shown} a step, {steps:,} steps show everything once", {"steps": steps}),
        ("initialise", *_initialised(learner, begins, counting)),
        ("loss", *_lost(learner, batch, corpus.tokenizer.size, way, try_loss)),
        ("descent" if way == "sweeping" else "Adam", *_descended(learner, recipe, way)),
        ("evaluate", *_evaluated(split)),
    ]
    return [Stage(number, name, words, figures) for number, (name, words, figures) in enumerate(told, 1)]


Told = tuple[str, dict[str, Any]]


def _prepared(corpus: Corpus | ParallelCorpus) -> Told:
    counts = {name: corpus.facts["counts"][name] for name in ("documents", "bytes")}
    if isinstance(corpus, ParallelCorpus):
        return f"{counts['documents']:,} pairs, {counts['bytes']:,} bytes", counts
    counts |= {"sentences": len(corpus.sizes)}
    words = f"{counts['documents']:,} documents of {counts['sentences']:,} sentences, {counts['bytes']:,} bytes"
    return words, counts


def _tokenised(corpus: Corpus | ParallelCorpus) -> Told:
    tokenizer, unknown = corpus.tokenizer, corpus.facts["counts"]["unknown"]
    figures = {"kind": tokenizer.kind, "entries": tokenizer.size, "tokens": len(corpus), "unknown": unknown}
    words = f"{tokenizer.kind} of {tokenizer.size:,} entries: {len(corpus):,} tokens, {unknown:,} of them unknown"
    return words, figures


def _asked(batch: Batch, split: Split, objective: Objective) -> Told:
    asked = batch.asked()
    if isinstance(objective, MaskedTokens):
        figures = hidden_figures(batch, split.train, objective) | {"asked": asked}
        fates = " / ".join(f"{share:.0%}" for share in figures["fates"].values())
        pairs = ", ".join(f"{count:,} {answer}" for answer, count in figures.get("pairs", {}).items())
        words = f"{figures['hidden_share']:.1%} of the tokens are asked for, {fates} masked / random / shown"
        return words + (f"; halves: {pairs}" if pairs else ""), figures
    if isinstance(objective, Translation):
        words = f"nothing is hidden: {asked['translation']:,} tokens of translations are asked"
        return f"{words}, seen the source and those before", {"asked": asked}
    if not asked:
        return "nothing is asked: which words there are is all there is to know", {}
    if isinstance(objective, Around):
        words = f"nothing is hidden: each of {asked['around']:,} words is asked with those around it"
        return words, {"asked": asked}
    if isinstance(objective, Together):
        return (
            f"nothing is hidden: of {asked['together']:,} pairs of words it is asked how often they stand together",
            {"asked": asked},
        )
    if isinstance(objective, BothDirections):
        words = f"nothing is hidden: {asked['next']:,} tokens are asked, seen only those before, and as many, seen only"
        return f"{words} those behind", {"asked": asked}
    told = ", ".join(f"{name} of {count:,}" for name, count in asked.items())
    return f"nothing is hidden: the {told} tokens of the first batch is asked, seen only those before", {"asked": asked}


def _packed(batch: Batch) -> Told:
    if "beside" in batch.inputs:
        return f"{batch.tokens:,} entries of the table of words that stand together", {"entries": batch.tokens}
    lengths = batch.inputs["lengths"]
    padded = int(lengths.max()) * len(lengths) if len(lengths) else 0
    saved = 1 - batch.tokens / max(1, padded)
    figures = {"rows": len(lengths), "longest": int(lengths.max(initial=0)), "padding_saved": saved}
    mean = float(np.mean(lengths)) if len(lengths) else 0.0
    words = f"in the first batch {len(lengths):,} rows of {mean:.0f} tokens in the mean, one after the other unpadded"
    return f"{words} ({saved:.0%} of a padded batch would be nothing)", figures


def _initialised(learner: Learner, begins: str, counting: bool) -> Told:
    if counting:
        return "counts begin at zero", {}
    count = learner.network.parameter_count
    if not count:
        return "nothing to begin with: a word's place in the vocabulary is its vector", {"parameters": 0}
    return f"{count:,} parameters, {begins}", {"parameters": count}


def _lost(learner: Learner, batch: Batch, vocabulary: int, way: str, try_loss: bool) -> Told:
    if way == "counting":
        return "what is counted has no loss while it is counted", {}
    if way == "sweeping":
        return learner.network.loss, {}
    chance = {name: math.log(2 if name == "pair" else vocabulary) for name in batch.targets}
    told = ", ".join(f"{name} {nats:.3f}" for name, nats in chance.items())
    if not try_loss:
        return f"nats for each that is asked; by pure chance {told}", {"chance": chance}
    learner.begin()
    asked = batch.asked()
    losses = {name: total / max(1, asked[name]) for name, total in learner.examine(batch).items()}
    before = ", ".join(f"{name} {loss:.3f}" for name, loss in losses.items())
    return f"before the first step {before}; by pure chance {told}", {"losses": losses, "chance": chance}


def _descended(learner: Learner, recipe: Recipe, way: str) -> Told:
    if way == "counting":
        return "no descent: everything is counted once", {}
    if way == "recounting":
        return "no descent: states are counted as often as they are expected, anew in every epoch", {}
    if way == "sweeping":
        if not learner.network.heads:
            return learner.network.descent, {}
        return f"{learner.network.descent}, rate {recipe.rate:.2g}", {"rate": recipe.rate}
    figures = {"rate": recipe.rate, "decay": recipe.decay, "memory": recipe.memory, "clip": recipe.clip}
    falling = f"over the last {recipe.cooldown:.0%}" if recipe.schedule != "root" else "as 1/√step"
    words = f"AdamW, rate up to {recipe.rate:.2g}, falling {falling}; decay {recipe.decay}"
    return f"{words}, β₂ {recipe.memory}, gradients clipped at {recipe.clip}", figures


def _evaluated(split: Split) -> Told:
    if not len(split.held_out):
        return "nothing is held out: all of the text teaches (forebear measure tells how well, on other text)", {}
    figures = {"documents": len(split.held_out), "bytes": split.held_out.bytes, "by": split.how}
    unit = "pairs" if isinstance(split.held_out, PairedPortion) else "documents"
    words = f"{len(split.held_out):,} held-out {unit} of {split.held_out.bytes:,} bytes, chosen by {split.how}"
    return words, figures
