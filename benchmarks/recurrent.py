"""Recurrent language models beside plain torch.nn: the same weights, the same text, equal losses; prints the ratios.

    ./dev bench recurrent                      layers, letters, softmaxes and whole steps of lstm and elmo, one thread
    ./dev bench recurrent --only steps         one of them
    ./dev bench recurrent --quality            perplexity of held-out text after equal time, of both sides
    ./dev bench recurrent --write              put the figures into both READMEs

Text is WikiText-2 of ../shared/data (or $FOREBEAR_DATA), else the demo's manual, cut into words once. Theirs is what
people write: nn.Embedding, or conv1d over every word padded to 50 symbols; nn.LSTM; a softmax over all words; clipped
gradients and fused AdamW. Ours is the learner's step. Sides alternate in one process; figures are medians over the
rounds, in time of the processor. Where the arithmetic is the same, outputs and gradients, or losses, must agree, else
it stops. An adaptive softmax is exact but has other weights, and a sampled one learns by other words: what that is
worth, --quality tells by exact probabilities of held-out text. Cost by the size of the vocabulary and by length is
printed.
"""

from __future__ import annotations

import argparse
import math
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from recurrent_parts import TOKENS, compared, layers, letters, projections, softmaxes
from recurrent_peers import Plain, stepped
from side_by_side import keep_memory, machine, natural_text, write_figures

from forebear.data.corpus.corpus import Corpus
from forebear.data.corpus.prepare import prepare_corpus
from forebear.data.tokenizers.train import train_tokenizer
from forebear.models.elmo import ElmoSpec
from forebear.nn.next_token_predictors import RecurrentPredictor
from forebear.objectives.batch import Batch, BatchKey
from forebear.registry import model_spec
from forebear.training.gradient_learner import DeviceConfig, GradientLearner
from forebear.training.settings import Recipe

HELD_OUT = 150_000  # bytes of held-out text that examine
SLOWLY = 0.05  # of the rate, where losses must agree: Adam makes much of how tiny gradients were rounded
FALL = 0.4  # the share of the time in which the rate falls to nothing
MORE = ElmoSpec.sizes["mini"] | {"width": 256, "cells": 512, "softmax": "sampled", "samples": 4096}


@dataclass(frozen=True)
class Sizes:
    """What is compared."""

    text: int = 20_000_000  # bytes
    words: int = 30_000
    vocabularies: tuple[int, ...] = (30_000, 100_000)  # of softmaxes
    projected: tuple[tuple[int, int], ...] = ((192, 384), (256, 2048), (512, 4096))
    widths: tuple[int, ...] = (256, 512)
    spelled: tuple[str, ...] = ("tiny", "original")
    cases: tuple[tuple[str, str, dict[str, Any]], ...] = (
        ("lstm", "tiny", {}),
        ("lstm", "small", {}),
        ("lstm", "512", {"width": 512, "inner": 512, "softmax": "sampled"}),
        ("elmo", "tiny", {}),
        ("elmo", "mini", {}),
        ("elmo", "512", MORE),
    )
    growing: tuple[int, ...] = (5_000, 30_000, 100_000)
    contexts: tuple[int, ...] = (8, 32, 128, 512)


FEW = {"width": 16, "context": 8, "softmax": "sampled", "samples": 64}
QUICK = Sizes(
    text=200_000,
    words=600,
    vocabularies=(1_500,),
    projected=((8, 16),),
    widths=(16,),
    spelled=("tiny",),
    cases=(("lstm", "tiny", FEW | {"inner": 16}), ("elmo", "tiny", FEW | {"cells": 24, "filters": "1:4,2:4"})),
    growing=(700,),
    contexts=(16,),
)


def prepared(folder: Path, size: int, words: int) -> Corpus:
    """So many bytes of text, cut into so many words, or as many as there are."""
    file = folder / "text.txt"
    file.write_text(natural_text(size), encoding="utf-8")
    tokenizer = train_tokenizer("words", file.read_text(encoding="utf-8").split("\n"), size=words, min_count=1)
    return prepare_corpus([file], tokenizer, to=folder / f"corpus-{words}", workers=1)


class Case:
    """A milestone of some size on this text, and the same with a full softmax in plain torch.nn.

    Dropout is off, which would be drawn differently. torch.nn has no clips of cells: where both are to agree, ours has
    none either.
    """

    def __init__(self, name: str, size: str, fields: dict[str, Any], corpus: Corpus, words: int = 0) -> None:
        kind = model_spec(name)
        self.label = f"{name} {size}"
        self.milestone: Any = kind(**kind.sizes.get(size, {}) | fields | {"dropout": 0.0})
        self.tokenizer: Any = (
            corpus.tokenizer if words <= corpus.tokenizer.vocab_size else _Larger(corpus.tokenizer, words)
        )
        self.recipe = Recipe(**self.milestone.default_recipe(), steps=1)
        self.source = corpus.split(0.05)
        self.alike: dict[str, Any] = {"softmax": "full"}
        self.alike |= {"cell_clip": 0.0, "project_clip": 0.0} if name == "elmo" else {}

    def learner(self, **fields: Any) -> GradientLearner:
        network = replace(self.milestone, **fields).build(self.tokenizer)
        learner = GradientLearner(network, self.recipe, DeviceConfig("cpu", torch.get_num_threads(), "float32"))
        learner.initialize()
        return learner

    def batch(self, step: int) -> Batch:
        return self.milestone.objective(self.tokenizer).batch(self.source.train, self.recipe.batch, BatchKey(0, step))

    def compare(self, rounds: int, label: str = "", *, full: bool = True) -> list[list[str]]:
        """A step beside theirs: with the same softmax, whose losses must agree, and with the milestone's own."""
        batches = [self.batch(step) for step in range(rounds + 1)]
        table = []
        for fields in ([self.alike] if full else []) + [{}]:
            learner, same = self.learner(**fields), bool(fields)
            peer = stepped(Plain(learner.model if same else self.learner(**self.alike).model), self.recipe)
            softmax, share = ("full", SLOWLY) if same else (self.milestone.softmax, 1.0)
            mine, others = iter(batches), iter(batches)
            table.append(
                compared(
                    f"{label or self.label}, {self.tokenizer.vocab_size:,} words, {softmax} softmax",
                    lambda ask=learner.step, turn=mine, share=share: sum(ask(next(turn), 0, share).values()),
                    lambda ask=peer, turn=others, share=share: ask(next(turn), share),
                    batches[0].num_target_tokens,
                    rounds,
                    agree=(lambda own, other: abs(own - other) < 1e-3) if same else None,
                )
            )
        return table

    def quality(self, seconds: float) -> None:
        """Both sides learn for so long by the processor's clock, then tell held-out text."""
        learner, theirs = self.learner(), Plain(self.learner(**self.alike).model)
        peer = stepped(theirs, self.recipe)
        seen = self.taught(lambda batch, step, share: learner.step(batch, step, share), seconds)
        other = self.taught(lambda batch, _, share: peer(batch, share), seconds)
        end = self.tokenizer.special_roles["end"]
        portion = self.source.held_out.first(HELD_OUT)
        rows = [np.array([end, *portion.corpus.ids[first:last].tolist(), end]) for first, last in portion.spans]
        count = sum(len(row) - 1 for row in rows)
        own = -sum(float(one.sum()) for one in RecurrentPredictor(learner.model).score(rows)) / count
        plain = sum(theirs.surprise(torch.from_numpy(row)) for row in rows) / count
        said = f"ours {seen:10,} tokens, perplexity {math.exp(own):7.1f}"
        said += f"   theirs {other:10,} tokens, perplexity {math.exp(plain):7.1f}"
        print(f"{self.label:20}{self.milestone.softmax:10}{said}   of {count:,} held-out tokens", flush=True)

    def taught(self, step: Callable[[Batch, int, float], object], seconds: float) -> int:
        """How many tokens were shown; a batch is made outside the clock."""
        spent, number, tokens = 0.0, 0, 0
        while spent < seconds:
            batch = self.batch(number)
            share = min(1.0, (number + 1) / 10, (1 - spent / seconds) / FALL)
            began = time.process_time()
            step(batch, number, share)
            spent += time.process_time() - began
            number, tokens = number + 1, tokens + batch.num_target_tokens
        return tokens


class _Larger:
    """A tokenizer that says it has more words than the text has."""

    def __init__(self, own: Any, words: int) -> None:
        self.vocab_size, self.special_roles, self.special_ids = words, own.special_roles, own.special_ids


def growth(corpus: Corpus, sizes: Sizes, rounds: int) -> None:
    """What a step costs by what may be large. Words that the text lacks are never asked for, but could be."""
    few = {} if sizes.words > 1000 else FEW
    for words in sizes.growing:
        with tempfile.TemporaryDirectory() as place:
            own = prepared(Path(place), sizes.text, words) if words < corpus.tokenizer.vocab_size else corpus
            Case("lstm", "tiny", few, own, words=words).compare(rounds, "  lstm tiny", full=False)
    for context in sizes.contexts:
        case = Case("lstm", "tiny", few | {"context": context}, corpus)
        case.compare(rounds, f"  lstm tiny, rows of {context}", full=False)


PARTS = ("layers", "letters", "softmaxes", "steps", "growth")


def measured(part: str, corpus: Corpus, cases: list[Case], sizes: Sizes, rounds: int) -> list[list[str]]:
    """Rows of the table; what grows is only printed."""
    if part == "layers":
        return projections(sizes.projected, rounds) + layers(corpus, sizes.widths, rounds)
    if part == "letters":
        return letters(corpus, sizes.spelled, rounds)
    if part == "softmaxes":
        return softmaxes(corpus, sizes.vocabularies, rounds)
    if part == "steps":
        return [row for case in cases for row in case.compare(rounds)]
    growth(corpus, sizes, rounds)
    return []


CHINESE = {
    "softmax over ": "softmax，词表 ",
    "LSTM of ": "LSTM ",
    " projected to ": " 投影到 ",
    "a loop over cells": "逐单元循环",
    ", beside padded rows": "，对手填充后的 nn.LSTM",
    ", beside packed rows": "，对手打包后的 nn.LSTM",
    ", beside conv1d over all words": "，对手对每个词做 conv1d",
    ", beside ": "，对手 ",
    "equal lengths": "等长",
    "natural lengths": "自然长度",
    "letters, ": "字母，",
    " words, ": "，",
    "adaptive": "自适应",
    "sampled": "采样",
    "full": "完整",
    ", ": "，",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=300, help="of --quality, for each side")
    parser.add_argument("--only", choices=PARTS, help="one part instead of all")
    parser.add_argument("--quality", action="store_true", help="what was learned in equal time instead")
    parser.add_argument("--write", action="store_true", help="put the figures into both READMEs")
    parser.add_argument("--quick", action="store_true", help="tiny networks and one round: a smoke test")
    given = parser.parse_args()
    if given.write and (given.only or given.quality or given.quick):
        parser.error("--write puts in all figures: leave --only, --quality and --quick out")
    torch.set_num_threads(given.threads)
    torch.manual_seed(0)
    keep_memory()
    sizes, rounds = (QUICK, 1) if given.quick else (Sizes(), given.rounds)
    where = machine(given.threads, ("torch",))
    print(where, flush=True)
    table: list[list[str]] = []
    with tempfile.TemporaryDirectory(prefix="forebear-recurrent-") as place:
        os.environ["FOREBEAR_CACHE"] = f"{place}/cache"
        corpus = prepared(Path(place), sizes.text, sizes.words)
        print(f"{len(corpus):,} tokens, {corpus.tokenizer.vocab_size:,} words, {TOKENS:,} tokens a step", flush=True)
        cases = [Case(name, size, fields, corpus) for name, size, fields in sizes.cases]
        if given.quality:
            for case in cases:
                case.quality(given.seconds)
            return
        for part in [given.only] if given.only else PARTS:
            table += measured(part, corpus, cases, sizes, rounds)
        if given.quick:
            cases[0].quality(0.2)
    if given.write:
        write_figures("recurrent", table, where, rounds, CHINESE, peer="torch.nn")


if __name__ == "__main__":
    main()
