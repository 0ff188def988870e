"""Training GPT-2 beside transformers: the same weights, the same text, equal losses; prints the ratios.

    ./dev bench gpt2                   with one thread; generation is ./dev bench generate
    ./dev bench gpt2 --threads 2       with two
    ./dev bench gpt2 --write           put the figures into both READMEs

Text is WikiText-2 of ../shared/data (or $FOREBEAR_DATA), else the demo's, cut by a byte-pair tokenizer learned from it.
Ours and theirs alternate in one process; figures are medians over the rounds, ratios the medians of rounds' ratios.
Time is the processor's, so that others who use the machine disturb less; with several threads it is the clock's.
Ours is our learner's step; theirs is a hand loop with fused AdamW over the same groups, clipping and batches.
"""

from __future__ import annotations

import argparse
import os
import statistics
from dataclasses import asdict, dataclass
from functools import cache
from types import SimpleNamespace
from typing import Any

os.environ |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "TRANSFORMERS_VERBOSITY": "error"}

import numpy as np
import torch
from side_by_side import alternated, machine, natural_text, sgemm, told, write_figures
from transformers import GPT2Config, GPT2LMHeadModel

from forebear.interop.huggingface import to_hf_checkpoint
from forebear.models.gpt2 import GPT2Spec
from forebear.objectives.batch import Batch
from forebear.training.gradient_learner import DeviceConfig, GradientLearner
from forebear.training.settings import Recipe


@dataclass(frozen=True)
class Size:
    label: str
    fields: dict[str, Any]
    vocabulary: int
    batch: int  # tokens in a training step
    length: int  # tokens to generate
    text: int = 2_000_000  # bytes of it

    def milestone(self) -> GPT2Spec:
        return GPT2Spec(**self.fields)

    def network(self):
        tokenizer: Any = SimpleNamespace(vocab_size=self.vocabulary)
        return self.milestone().build(tokenizer)


def small(context: int) -> Size:
    fields = {"width": 256, "depth": 4, "heads": 4, "context": context}
    return Size(f"4 blocks of 256, context {context}", fields, 8000, 2048, 128)


TRAINED = [small(128), small(256)]
TRAINED += [Size("6 blocks of 384, context 256", {"width": 384, "depth": 6, "heads": 6, "context": 256}, 8000, 2048, 0)]
TINY = Size("1 block of 32", {"width": 32, "depth": 1, "heads": 2, "context": 64}, 400, 256, 8, 200_000)


# --- the text, the peer ---


@cache
def natural_ids(vocabulary: int, size: int) -> np.ndarray:
    """Text as ids, of a tokenizer learned from it."""
    from forebear.data.tokenizers.train import train_tokenizer

    text = natural_text(size)
    lines = [line for line in text.split("\n") if line.strip()]
    tokenizer = train_tokenizer("bytepair", lines, size=vocabulary)
    return tokenizer.encode_many(lines)[0].astype(np.int64)


def peer_of(size: Size, network) -> GPT2LMHeadModel:
    """The same model there, with the same weights."""
    milestone = size.milestone()
    tensors = {name: value.clone() for name, value in network.tensors().items()}
    config, theirs = to_hf_checkpoint("gpt2", asdict(milestone) | {"dropout": 0.0}, tensors, {})
    peer = GPT2LMHeadModel(GPT2Config(**config, bos_token_id=None, eos_token_id=None, pad_token_id=0))
    missing, extra = peer.load_state_dict(theirs, strict=False)
    assert (missing, extra) == (["lm_head.weight"], []), (missing, extra)
    return peer


# --- what is measured ---


def compare_training(size: Size, rounds: int) -> list[str]:
    """Tokens a second; losses must agree to 1e-3 at every step. Returns cells of the table."""
    context = size.fields["context"]
    rows = size.batch // context
    recipe = Recipe(steps=rounds, batch=size.batch)
    learner = GradientLearner(size.network(), recipe, DeviceConfig("cpu", torch.get_num_threads(), "float32"))
    learner.initialize()
    peer = peer_of(size, learner.model).train()
    matrices = [value for value in peer.parameters() if value.dim() > 1]
    vectors = [value for value in peer.parameters() if value.dim() == 1]
    groups = [{"params": matrices, "weight_decay": recipe.decay}, {"params": vectors, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=recipe.rate, betas=(0.9, recipe.memory), fused=True)
    ids = natural_ids(min(size.vocabulary, 8000), size.text)
    starts = np.random.default_rng(0).integers(0, len(ids) - context - 1, (rounds + 1, rows))
    batches = {"ours": iter(starts), "theirs": iter(starts)}

    def drawn(whose: str) -> np.ndarray:
        return np.stack([ids[start : start + context + 1] for start in next(batches[whose])])

    def ours() -> float:
        chunk = drawn("ours")
        inputs = {"tokens": chunk[:, :-1].ravel(), "lengths": np.full(rows, context)}
        return learner.step(Batch(inputs, {"next": chunk[:, 1:].ravel()}), 0, 1.0)["next"]

    def theirs() -> float:
        chunk = torch.from_numpy(drawn("theirs"))
        logits = peer(input_ids=chunk[:, :-1], use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), chunk[:, 1:].reshape(-1))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(peer.parameters(), recipe.clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.item()

    mine, others = [], []
    for our_loss, their_loss, our_seconds, their_seconds in alternated(ours, theirs, rounds):
        assert abs(our_loss - their_loss) < 1e-3, f"{size.label}: losses {our_loss} and {their_loss} differ"
        mine.append(our_seconds)
        others.append(their_seconds)
    share = work(size, learner.model) / statistics.median(mine) / sgemm()
    return told(f"training, {size.label}", size.batch, mine, others, f"{share:.2f}")


def work(size: Size, network) -> float:
    """Floating-point operations of one step: 6 for each token and weight, and attention's products over the past."""
    milestone = size.milestone()
    weights = network.num_parameters - milestone.context * milestone.width
    return 6 * size.batch * (weights + milestone.depth * milestone.width * milestone.context)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--write", action="store_true", help="put the figures into both READMEs")
    parser.add_argument("--quick", action="store_true", help="a tiny model and two rounds: a smoke test")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    rounds = 2 if options.quick else options.rounds
    where = machine(options.threads)
    print(where, flush=True)
    rows = [compare_training(size, rounds) for size in ([TINY] if options.quick else TRAINED)]
    if options.write:
        chinese = {"training, ": "训练，", ", context ": "，上下文 ", " blocks of ": " 层，宽 "}
        write_figures("gpt2", rows, where, rounds, chinese)


if __name__ == "__main__":
    main()
