"""Sequence to sequence beside plain torch.nn: the same weights and pairs, equal losses and translations; prints ratios.

    ./dev bench seq2seq                  training and translating, one thread
    ./dev bench seq2seq --run runs/de-en translate with a run of one's own
    ./dev bench seq2seq --write          put the figures into both READMEs

Text is Multi30k of ../shared/data (or $FOREBEAR_DATA), else a made-up language. Theirs is what tutorials write: rows
padded to the longest of a batch, nn.LSTM, a full softmax, fused AdamW; the writer token by token, as they do, and once
more with all tokens at once. Batches are the same, of like lengths, so that little is padded. Searching, theirs goes
through the sentences, each with its beams as a batch. Sides alternate in one process; figures are medians over the
rounds, in time of the processor. What training costs by the size of the vocabulary and the length of rows is printed.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from seq2seq_peers import Peer
from side_by_side import alternated, machine, sgemm, told, write_figures
from translate import LONGER, MORE, texts

import forebear as fb
from forebear.data.source import TextSource, TokenizerPairOptions, prepare_parallel_corpus
from forebear.inference.run import Run
from forebear.inference.translate import translate_texts
from forebear.objectives.batch import Batch, BatchKey
from forebear.registry import model_spec
from forebear.training.gradient_learner import DeviceConfig, GradientLearner
from forebear.training.settings import Recipe

SHAPE = {"width": 256, "inner": 512, "depth": 1}
PEERS = {
    "seq2seq": {"all tokens at once": True},
    "seq2seq_attention": {"token by token": False, "all tokens at once": True},
}
VOCABULARIES, LENGTHS = (2_000, 8_000, 32_000), (10, 25, 50, 100)
SIZE = 2048  # tokens in a step, of both sides
LEAST_SAME = 0.98  # of the translations
DEAREST = "seq2seq_attention"  # by which costs are told
CHINESE = {
    "training ": "训练 ",
    ", beside nn.LSTM, ": "，对手 nn.LSTM，",
    "token by token": "逐词元",
    "all tokens at once": "所有词元一次算完",
    ", beside a loop over sentences": "，对手逐句循环",
    " beams": " 束",
    " beam": " 束",
    " sentences": " 句",
}


def natural_batches(files: list[Path], vocabulary: int, count: int) -> tuple[list[Batch], int]:
    """The objective's own batches of these pairs, and the size of the vocabulary."""
    paths = tuple(map(str, files))
    corpus = prepare_parallel_corpus(
        TextSource(paths, pairs=True),
        TokenizerPairOptions(source_vocab_size=vocabulary),
        default="bytepair",
        held_out=0.05,
    )
    sides, train = corpus.tokenizer, corpus.split(0.05).train
    objective = model_spec("seq2seq")().objective(sides)
    return [objective.batch(train, SIZE, BatchKey(0, step)) for step in range(count)], sides.target.vocab_size


def made_batches(vocabulary: int, length: int, count: int) -> list[Batch]:
    """Rows of one length, of tokens by chance, frequent ones more often."""
    rng, rows, found = np.random.default_rng(0), max(1, SIZE // (2 * length)), []
    for _ in range(count):
        read, seen, asked = (np.minimum(rng.zipf(1.3, rows * length), vocabulary) - 1 for _ in range(3))
        lengths = np.full(rows, length)
        inputs = {"tokens": seen, "lengths": lengths, "source": read, "source_lengths": lengths}
        found.append(Batch(inputs, {"translation": asked}))
    return found


def compare_training(
    name: str, peer_name: str, batches: list[Batch], vocabulary: int, label: str, **shape: Any
) -> list[str]:
    """Tokens of both sides a second; losses must agree to 1e-3 at every step. Returns cells of the table."""
    side: Any = SimpleNamespace(vocab_size=vocabulary)
    fields = {**SHAPE, "dropout": 0.0, **shape}
    milestone = model_spec(name)(**fields)
    recipe = Recipe(steps=len(batches), batch=SIZE)
    sides = SimpleNamespace(source=side, target=side, is_shared=False)
    learner = GradientLearner(milestone.build(sides), recipe, DeviceConfig("cpu", torch.get_num_threads(), "float32"))
    learner.initialize()
    peer = Peer(learner.model, whole=PEERS[name][peer_name]).train()
    optimizer = torch.optim.AdamW(
        [
            {"params": [value for value in peer.parameters() if value.dim() > 1], "weight_decay": recipe.decay},
            {"params": [value for value in peer.parameters() if value.dim() == 1], "weight_decay": 0.0},
        ],
        lr=recipe.rate,
        betas=(0.9, recipe.memory),
        fused=True,
    )
    turns = {"ours": iter(batches), "theirs": iter(batches)}

    def ours() -> float:
        return learner.step(next(turns["ours"]), 0, 1.0)["translation"]

    def theirs() -> float:
        batch = next(turns["theirs"])
        inputs = {key: torch.from_numpy(value) for key, value in batch.inputs.items()}
        rows, read = inputs["lengths"].tolist(), inputs["source_lengths"].tolist()
        asked = torch.from_numpy(batch.targets["translation"]).split(rows)
        loss = peer.loss(inputs["source"].split(read), inputs["tokens"].split(rows), asked)
        loss.backward()
        for lstm in (peer.encoder, peer.decoder):  # ours has one bias, theirs two: the second stays as it is
            for key, value in lstm.named_parameters():
                if key.startswith("bias_hh"):
                    value.grad = None
        torch.nn.utils.clip_grad_norm_(peer.parameters(), recipe.clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.item()

    mine, others = [], []
    for our_loss, their_loss, own, other in alternated(ours, theirs, len(batches) - 1):
        assert abs(our_loss - their_loss) < 1e-3, f"{name}: losses {our_loss} and {their_loss} differ"
        mine.append(own)
        others.append(other)
    tokens = statistics.median(batch.num_target_tokens + len(batch.inputs["source"]) for batch in batches[1:])
    share = statistics.median(work(learner.model, batch) for batch in batches[1:]) / statistics.median(mine) / sgemm()
    return told(label, tokens, mine, others, f"{share:.2f}")


def work(network: Any, batch: Batch) -> float:
    """Floating-point operations of one step: 6 for each token and each weight of a matrix that it meets."""
    reader, writer, head = network.encoder.reader, network.encoder.writer, network.heads["translation"]
    read = sum(value.numel() for value in reader.layers.parameters() if value.dim() > 1)
    written = sum(value.numel() for value in writer.layers.parameters() if value.dim() > 1) + head.weight.numel()
    if writer.look is None:
        written += 0 if writer.narrow is None else writer.narrow.weight.numel()
    else:  # a key for each token of the source; what else it costs to look back is no product of matrices
        read += writer.look.similarity.key.weight.numel()
        written += writer.look.similarity.query.weight.numel() + 2 * writer.look.own.weight.numel()
    return 6 * (len(batch.inputs["source"]) * read + batch.num_target_tokens * written)


def compare_translating(run: Run, sentences: list[str], beams: int, rounds: int) -> list[str]:
    """Sentences a second; the translations must be the same."""
    sides, peer = run.folder.tokenizer_pair, Peer(run.network, whole=True).eval()
    end = sides.target.special_roles["end"]
    never = torch.tensor(sorted(sides.target.special_ids - {end}), dtype=torch.long)
    rows = [
        torch.tensor([*sides.source.encode(text).ids.tolist(), sides.source.special_roles["end"]]) for text in sentences
    ]

    def ours() -> list[str]:
        return [one.text for one in translate_texts(run.translator, sides, sentences, beams=beams)]

    def theirs() -> list[str]:
        most = [min(int(LONGER * len(row)) + MORE, run.translator.max_length) for row in rows]
        said = [peer.beam_search(row, beams, end, length, never) for row, length in zip(rows, most, strict=True)]
        return [sides.target.decode(ids).strip() for ids in said]

    mine, others, same = [], [], 0.0
    for said, their_words, own, other in alternated(ours, theirs, rounds):
        same = sum(one == two for one, two in zip(said, their_words, strict=True)) / len(rows)
        mine.append(own)
        others.append(other)
    if same < LEAST_SAME:
        raise SystemExit(f"only {same:.1%} of translations are the same: the comparison means nothing")
    ratio = statistics.median(other / own for own, other in zip(mine, others, strict=True))
    rate, name = len(rows) / statistics.median(mine), run.metadata["milestone"]
    label = f"{name}, {beams} beam{'s' * (beams > 1)}, beside a loop over sentences"
    print(f"{label:68}{rate:8,.0f} sentences/s   ours/theirs = {ratio:.2f}   {same:.1%} are the same", flush=True)
    return [label, f"{rate:,.0f} sentences", f"{ratio:.2f}", "–"]


def compare_all(given: argparse.Namespace, folder: Path) -> list[list[str]]:
    """Prints everything; rows of the table."""
    rounds, shape, vocabularies, lengths = given.rounds, {}, VOCABULARIES, LENGTHS
    how: dict[str, Any] = {"time": given.time}
    if given.quick:
        rounds, shape, vocabularies, lengths, given.sentences = 1, {"width": 16, "inner": 24}, (500,), (10,), 5
        how = {"steps": 20, "batch": 512, "vocabulary": 300, "held_out": 0.01, "depth": 1, "rate": 1e-2, **shape}
    files, sentences = texts(folder)
    batches, entries = natural_batches(files, min(vocabularies[1:] or vocabularies), rounds + 1)
    table = []
    for name, peers in PEERS.items():
        for peer in peers:
            label = f"training {name}, beside nn.LSTM, {peer}"
            table.append(compare_training(name, peer, batches, entries, label, **shape))
    for size in vocabularies:
        label = f"  a vocabulary of {size:,}, rows of 20 tokens"
        compare_training(DEAREST, "token by token", made_batches(size, 20, rounds + 1), size, label, **shape)
    for length in lengths:
        label = f"  rows of {length} tokens, a vocabulary of {entries:,}"
        compare_training(DEAREST, "token by token", made_batches(entries, length, rounds + 1), entries, label, **shape)
    run = (
        Run.open(given.run)
        if given.run
        else fb.pretrain(DEAREST, pairs=files, to=folder / "run", threads=given.threads, **how)
    )
    return table + [compare_translating(run, sentences[: given.sentences], beams, min(rounds, 3)) for beams in (1, 4)]


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--run", type=Path)
    asked.add_argument("--threads", type=int, default=1)
    asked.add_argument("--rounds", type=int, default=9)
    asked.add_argument("--sentences", type=int, default=200)
    asked.add_argument("--time", default="3m", help="how long to train where no --run is given")
    asked.add_argument("--write", action="store_true", help="put the figures into both READMEs")
    asked.add_argument("--quick", action="store_true", help="tiny networks and few sentences, to see that it works")
    given = asked.parse_args()
    torch.set_num_threads(given.threads)
    where = machine(given.threads, ("torch",))
    print(where, flush=True)
    with tempfile.TemporaryDirectory(prefix="forebear-seq2seq-") as place:
        table = compare_all(given, Path(place))
    if given.write:
        write_figures("seq2seq", table, where, given.rounds, CHINESE, peer="torch.nn")


if __name__ == "__main__":
    main()
