"""BERT's pre-training beside transformers: the same weights, the same rows, equal losses; prints the ratios.

    ./dev bench bert                   hidden tokens and next sentences, with one thread
    ./dev bench bert --threads 2       with two
    ./dev bench bert --memory          peak memory of a step of BERT-base, ours and theirs, each in its own process
    ./dev bench bert --write           put the figures into both READMEs

Text is WikiText-2 of ../shared/data (or $FOREBEAR_DATA), else the demo's, cut by WordPiece learned from it; rows are
neighbouring halves of it, hidden in by our own objective. Ours and theirs alternate in one process on the same batches;
figures are medians over the rounds, ratios the medians of rounds' ratios. Ours is the learner's step; theirs is a hand
loop around BertForPreTraining with fused AdamW over the same groups, clipping, and no dropout, as ours.
  natural     rows as long as two sentences happen to be; theirs are padded to the longest of the batch
  grouped     the same rows, but sorted by length into batches, so that there is hardly any padding
  full        all rows of the same length: nothing to pad
Making a batch is timed beside the step.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from functools import cache
from types import SimpleNamespace
from typing import Any

os.environ |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "TRANSFORMERS_VERBOSITY": "error"}

import numpy as np
import torch
from side_by_side import alternated, machine, natural_text, sgemm, told, write_figures
from transformers import BertConfig, BertForPreTraining

from forebear.interop import huggingface
from forebear.models.bert import BertSpec
from forebear.objectives.batch import IGNORE_INDEX, Batch, BatchKey
from forebear.training.gradient_learner import DeviceConfig, GradientLearner
from forebear.training.settings import Recipe

LEAST, MOST = 10, 128  # tokens in a row
GROUPED = 8  # times as many rows as are trained on are sorted by length


@dataclass(frozen=True)
class Case:
    label: str
    how: str  # natural, grouped or full
    vocabulary: int
    fields: dict[str, Any]
    rows: int = 32  # in a batch
    text: int = 2_000_000  # bytes of it

    def milestone(self) -> BertSpec:
        return BertSpec(**self.fields)

    def network(self):
        tokenizer: Any = SimpleNamespace(vocab_size=self.vocabulary)
        return self.milestone().build(tokenizer)


def small(how: str, vocabulary: int) -> Case:
    fields = {"width": 256, "depth": 4, "heads": 4, "context": 128}
    return Case(f"{how} lengths, 4 blocks of 256, {vocabulary:,} entries", how, vocabulary, fields)


CASES = [small("natural", 30_522), small("grouped", 30_522), small("grouped", 8000), small("full", 8000)]
TINY = Case("natural lengths, 1 block of 32", "natural", 600, {"width": 32, "depth": 1, "heads": 2}, 8, 200_000)
BASE = Case("BERT-base", "natural", 30_522, {}, 16)


# --- the rows ---


@cache
def prepared(vocabulary: int, size: int):
    """A corpus of the text, a line a document: its sentences are of natural length."""
    import tempfile
    from pathlib import Path

    from forebear.data.corpus.prepare import prepare_corpus
    from forebear.data.io.text_formats import TextFormat
    from forebear.data.tokenizers.train import train_tokenizer

    text = natural_text(size)
    folder = Path(tempfile.mkdtemp(prefix="forebear-bench-"))
    (folder / "text.txt").write_text(text, encoding="utf-8")
    tokenizer = train_tokenizer("wordpiece", text.split("\n"), size=vocabulary)
    return prepare_corpus(
        [folder / "text.txt"], tokenizer, text_format=TextFormat("lines"), to=folder / "corpus", workers=1
    )


def batches_of(case: Case, count: int) -> tuple[list[Batch], float]:
    """So many batches of our objective, and the seconds it takes for one of them.

    Natural and grouped: passages of a random part of the context, from LEAST tokens on, as sentences fall. Full: rows
    as long as the context, which theirs need not pad.
    """
    corpus = prepared(min(case.vocabulary, 8000), case.text)
    tokenizer: Any = SimpleNamespace(
        vocab_size=case.vocabulary,
        special_roles=corpus.tokenizer.special_roles,
        special_ids=corpus.tokenizer.special_ids,
    )
    objective = case.milestone().objective(tokenizer)
    source, rng = corpus.all_documents(), np.random.default_rng(0)
    objective.batch(source, 4096, BatchKey(0, 0))
    began, drawn = time.process_time(), 0
    shown: list[tuple[dict[str, np.ndarray], dict[str, np.ndarray]]] = []
    pool = count * (GROUPED if case.how == "grouped" else 1)  # batches to choose from
    while len(shown) < pool * case.rows:
        batch = objective.batch(source, 4096, BatchKey(0, drawn))
        drawn += 1
        shown += list(_rows(batch, case, rng))
    seconds = (time.process_time() - began) / drawn
    if case.how == "grouped":
        shown.sort(key=lambda row: len(row[0]["tokens"]))
    groups = [shown[at : at + case.rows] for at in range(0, pool * case.rows, case.rows)]
    return [_joined(groups[number]) for number in rng.permutation(pool)[:count]], seconds


def _rows(batch: Batch, case: Case, rng: np.random.Generator):
    """The rows of a batch, cut to the length that is wanted."""
    ends = np.cumsum(batch.inputs["lengths"])
    for number, (length, end) in enumerate(zip(batch.inputs["lengths"].tolist(), ends.tolist(), strict=True)):
        wanted = MOST if case.how == "full" else int(rng.integers(LEAST, MOST + 1))
        if length < wanted and case.how == "full":
            continue
        mine = slice(end - length, end - length + min(length, wanted))
        inputs = {name: array[mine] for name, array in batch.inputs.items() if name != "lengths"}
        yield inputs, {"token": batch.targets["token"][mine], "pair": batch.targets["pair"][number : number + 1]}


def _joined(rows: list[tuple[dict[str, np.ndarray], dict[str, np.ndarray]]]) -> Batch:
    rows = sorted(rows, key=lambda row: -len(row[0]["tokens"]))
    inputs = {name: np.concatenate([row[0][name] for row in rows]) for name in rows[0][0]}
    targets = {name: np.concatenate([row[1][name] for row in rows]) for name in rows[0][1]}
    targets["pair"] = np.maximum(targets["pair"], 0)  # theirs has to be asked of every row
    return Batch({**inputs, "lengths": np.array([len(row[0]["tokens"]) for row in rows])}, targets)


def padded(batch: Batch) -> dict[str, torch.Tensor]:
    """The same batch as theirs takes it."""
    lengths = batch.inputs["lengths"]
    inside = np.arange(lengths.max()) < lengths[:, None]

    def spread(array: np.ndarray, filler: int) -> torch.Tensor:
        made = np.full(inside.shape, filler)
        made[inside] = array
        return torch.from_numpy(made)

    labels = np.where(batch.targets["token"] == IGNORE_INDEX, -100, batch.targets["token"])
    return {
        "input_ids": spread(batch.inputs["tokens"], 0),
        "token_type_ids": spread(batch.inputs["segments"], 0),
        "attention_mask": torch.from_numpy(inside.astype(np.int64)),
        "labels": spread(labels, -100),
        "next_sentence_label": torch.from_numpy(batch.targets["pair"]),
    }


# --- the two sides ---


def learner_of(case: Case, rounds: int) -> GradientLearner:
    threads = torch.get_num_threads()
    learner = GradientLearner(case.network(), Recipe(steps=rounds), DeviceConfig("cpu", threads, "float32"))
    learner.initialize()
    return learner


def peer_of(case: Case, network) -> BertForPreTraining:
    """The same model there, with the same weights."""
    config, theirs = huggingface.to_hf_checkpoint("bert", asdict(case.milestone()), network.tensors(), {})
    peer = BertForPreTraining(BertConfig(**{**config, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}))
    missing, extra = peer.load_state_dict({name: value.clone() for name, value in theirs.items()}, strict=False)
    tied = {"cls.predictions.decoder.weight", "cls.predictions.decoder.bias"}
    assert set(missing) <= tied, missing
    assert set(extra) <= tied, extra
    peer.tie_weights()
    return peer.train()


def steps_of(peer: BertForPreTraining, recipe: Recipe):
    """Their loop."""
    groups = [
        {"params": [value for value in peer.parameters() if value.dim() > 1], "weight_decay": recipe.decay},
        {"params": [value for value in peer.parameters() if value.dim() == 1], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=recipe.rate, betas=(0.9, recipe.memory), fused=True)

    def step(batch: dict[str, torch.Tensor]) -> float:
        loss = peer(**batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(peer.parameters(), recipe.clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.item()

    return step


def compare(case: Case, rounds: int) -> list[str]:
    """Tokens a second, padding not counted; losses must agree to 1e-3 at every step. Returns cells of the table."""
    batches, making = batches_of(case, rounds + 1)
    learner = learner_of(case, rounds)
    step = steps_of(peer_of(case, learner.model), learner.recipe)
    mine, others = iter(batches), iter([padded(batch) for batch in batches])
    own, peers = [], []
    for our_losses, their_loss, our_seconds, their_seconds in alternated(
        lambda: learner.step(next(mine), 0, 1.0), lambda: step(next(others)), rounds
    ):
        ours = sum(our_losses.values())
        assert abs(ours - their_loss) < 1e-3, f"{case.label}: losses {ours} and {their_loss} differ"
        own.append(our_seconds)
        peers.append(their_seconds)
    tokens = statistics.mean(batch.num_target_tokens for batch in batches[1:])
    share = statistics.mean(work(case, batch) for batch in batches[1:]) / statistics.mean(own) / sgemm()
    cells = told(case.label, tokens, own, peers, f"{share:.2f}")
    filled = statistics.mean(batch.num_target_tokens / padded(batch)["input_ids"].numel() for batch in batches)
    making *= tokens / 4096
    told_making = f"making a batch takes {making / statistics.median(own):.1%} of a step"
    print(f"{'':52}{filled:.0%} of their tokens are text; {told_making}", flush=True)
    return cells


def work(case: Case, batch: Batch) -> float:
    """Floating-point operations of one step: 6 for each token and weight it meets, and attention's products.

    In our last block only what is asked about goes on, beside all keys and values: what is saved is not counted.
    """
    own = case.milestone()
    lengths = batch.inputs["lengths"].astype(np.float64)
    row = np.repeat(np.arange(len(lengths)), batch.inputs["lengths"])
    asked = batch.targets["token"] != IGNORE_INDEX
    asked[np.cumsum(batch.inputs["lengths"]) - batch.inputs["lengths"]] = True
    by_row = np.bincount(row, asked)
    weights = batch.num_target_tokens * ((own.depth - 1) * 12 + 2) + int(asked.sum()) * 10  # in squares of the width
    attention = 12 * own.width * float(((own.depth - 1) * lengths**2 + lengths * by_row).sum())
    wanted = batch.supervised_counts()
    heads = wanted["token"] * (own.width**2 + own.width * case.vocabulary) + wanted["pair"] * own.width**2
    return 6 * (weights * own.width**2 + heads) + attention


# --- memory ---


def one_step(case: Case, whose: str) -> dict[str, float]:
    """One step in this process; its peak of memory."""
    batches, _ = batches_of(case, 1)
    learner = learner_of(case, 1)
    if whose == "ours":
        learner.step(batches[0], 0, 1.0)
    else:
        peer = peer_of(case, learner.model)
        recipe = learner.recipe
        del learner
        steps_of(peer, recipe)(padded(batches[0]))
    return {
        "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "tokens": batches[0].num_target_tokens,
    }


def compare_memory() -> None:
    for whose in ("ours", "theirs"):
        done = subprocess.run([sys.executable, __file__, "--step", whose], capture_output=True, text=True, check=True)
        found = json.loads(done.stdout.splitlines()[-1])
        told_step = f"a step of BERT-base, {BASE.rows} rows, {found['tokens']:,} tokens"
        print(f"{told_step}, {whose}: peak of {found['megabytes']:,.0f} MB", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--memory", action="store_true", help="peak memory of a step of BERT-base instead")
    parser.add_argument("--step", choices=["ours", "theirs"], help=argparse.SUPPRESS)
    parser.add_argument("--write", action="store_true", help="put the figures into both READMEs")
    parser.add_argument("--quick", action="store_true", help="a tiny model and two rounds: a smoke test")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.step:
        print(json.dumps(one_step(BASE, options.step)))
        return
    if options.memory:
        compare_memory()
        return
    rounds, where = 2 if options.quick else options.rounds, machine(options.threads)
    print(where, flush=True)
    rows = [compare(case, rounds) for case in ([TINY] if options.quick else CASES)]
    if options.write:
        chinese = {"natural lengths, ": "自然长度，", "grouped lengths, ": "按长度分组，", "full lengths, ": "等长，"}
        chinese |= {" blocks of ": " 层，宽 ", " entries": " 词表"}
        write_figures("bert", rows, where, rounds, chinese)


if __name__ == "__main__":
    main()
