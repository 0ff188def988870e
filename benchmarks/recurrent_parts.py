"""Parts of recurrent language models beside torch.nn, as they learn: layers, words by their letters, softmaxes."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from recurrent_peers import CellLoop, Characters, lstm_of
from side_by_side import alternated, sgemm, told
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

from forebear.data.corpus.corpus import Corpus
from forebear.models.elmo import ElmoSpec
from forebear.models.recurrent_spec import char_cnn_embedding
from forebear.nn.layers import initial_values
from forebear.nn.lstm_scan import ClipLimits
from forebear.nn.recurrent import LSTMLayer, RecurrentLayer
from forebear.nn.softmax import AdaptiveSoftmax, cluster_cutoffs
from forebear.training.gradient_learner import AdamW

ROWS, TOKENS, UNROLLED = 32, 1024, 20  # rows and tokens of a batch; tokens of a row in the published training of ELMo
WIDTH, SAMPLES = 256, 4096  # of a softmax: numbers that come in, and words that are drawn
Answers = list[Tensor]
limit = cache(sgemm)  # measured once


def compared(
    label: str,
    ours: Callable[[], Any],
    theirs: Callable[[], Any],
    tokens: float,
    rounds: int,
    *,
    agree: Callable[[Any, Any], bool] | None = None,
    work: float = 0.0,
) -> list[str]:
    """Prints one comparison, in which both sides must agree where they can; returns cells of the table."""
    mine, others = [], []
    for our_answer, their_answer, own, other in alternated(ours, theirs, rounds):
        if agree is not None and not agree(our_answer, their_answer):
            raise SystemExit(f"{label}: the sides say different things, so that the comparison means nothing")
        mine.append(own)
        others.append(other)
    share = f"{work / statistics.median(mine) / limit():.2f}" if work else ""
    return told(label, tokens, mine, others, share)


def filled(module: Any, seed: int = 0) -> Any:
    """With the values that training begins with."""
    values = initial_values(module, seed)
    for prefix, part in module.named_modules():
        for name, _ in list(part.named_parameters(recurse=False)):
            setattr(part, name, nn.Parameter(values[f"{prefix}.{name}" if prefix else name]))
    return module


def learned(way: Callable[[Tensor], Tensor], x: Tensor, wanted: Tensor, weights: Sequence[Tensor]) -> Answers:
    """What is found, and the gradients of x and the weights, where each number that is found is wanted so much."""
    found = way(x)
    return [found.detach(), *torch.autograd.grad((found * wanted).sum(), [x, *weights])]


def near(ours: Answers, theirs: Answers) -> bool:
    """Outputs and gradients, to rounding."""
    return all(float((a - b).norm()) <= 1e-3 * float(b.norm()) + 1e-6 for a, b in zip(ours, theirs, strict=True))


# --- layers ---


@dataclass(frozen=True)
class Rows:
    """The same rows one after the other, and padded; and how much of each number that is found is wanted."""

    lengths: tuple[int, ...]
    x: Tensor
    wanted: Tensor
    laid: Tensor
    wanted_laid: Tensor

    @classmethod
    def drawn(cls, lengths: tuple[int, ...], inputs: int, outputs: int) -> Rows:
        flat = [torch.randn(sum(lengths), size) for size in (inputs, outputs)]
        laid = [pad_sequence(list(one.split(lengths)), batch_first=True) for one in flat]
        return cls(lengths, flat[0].requires_grad_(), flat[1], laid[0].requires_grad_(), laid[1])

    def without_padding(self, laid: Tensor) -> Tensor:
        return torch.cat([row[:length] for row, length in zip(laid, self.lengths, strict=True)])


def beside(label: str, layer: RecurrentLayer, batches: list[Rows], peer: nn.Module, packed: bool = False) -> list[str]:
    """One layer of ours and one of theirs, batch by batch."""
    turns, last = (iter(batches), iter(batches)), [batches[0]]
    own = list(layer.parameters())
    weights = [value for value in peer.parameters() if value.requires_grad]
    by_size = (
        sorted(range(len(own)), key=lambda number: own[number].shape),
        sorted(  # both sides in one order
            range(len(weights)), key=lambda number: weights[number].shape
        ),
    )

    def ours() -> Answers:
        rows = last[0] = next(turns[0])
        found = learned(lambda x: layer(x, rows.lengths)[0], rows.x, rows.wanted, own)
        return [*found[:2], *(found[2 + number] for number in by_size[0])]

    def theirs() -> Answers:
        rows = next(turns[1])

        def way(x: Tensor) -> Tensor:
            if not packed:
                out = peer(x)
                return out[0] if isinstance(out, tuple) else out
            given = pack_padded_sequence(x, torch.tensor(rows.lengths), batch_first=True, enforce_sorted=False)
            return pad_packed_sequence(peer(given)[0], batch_first=True)[0]

        found = learned(way, rows.laid, rows.wanted_laid, weights)
        return [*found[:2], *(found[2 + number] for number in by_size[1])]

    def agree(mine: Answers, other: Answers) -> bool:
        return near(mine, [*map(last[0].without_padding, other[:2]), *other[2:]])

    tokens = statistics.mean(len(rows.x) for rows in batches[1:])
    work = 6.0 * tokens * sum(value.numel() for value in own if value.dim() > 1)
    return compared(label, ours, theirs, tokens, len(batches) - 1, agree=agree, work=work)


def projections(sizes: Sequence[tuple[int, int]], rounds: int) -> list[list[str]]:
    """ELMo's LSTM, clipped and projected. torch.nn has no clips; what training begins with does not reach them."""
    table = []
    for width, cells in sizes:
        layer = filled(LSTMLayer(width, cells, project=width, clip_limits=ClipLimits(3.0, 3.0)))
        batches = [Rows.drawn((UNROLLED,) * (TOKENS // UNROLLED), width, width) for _ in range(rounds + 1)]
        for name, peer in (("a loop over cells", CellLoop(layer)), ("nn.LSTM", lstm_of(layer))):
            table.append(beside(f"LSTM of {cells:,} projected to {width}, beside {name}", layer, batches, peer))
    return table


def layers(corpus: Corpus, widths: Sequence[int], rounds: int) -> list[list[str]]:
    """An LSTM alone, with rows of one length, and of the lengths of sentences as they stand in the text."""
    lengths = np.diff(corpus.sentences)
    natural = lengths[lengths > 0][: ROWS * (rounds + 1)].reshape(-1, ROWS).tolist()
    table = []
    for width in widths:
        layer = filled(LSTMLayer(width, width))
        equal = [Rows.drawn((TOKENS // ROWS,) * ROWS, width, width) for _ in range(rounds + 1)]
        ragged = [Rows.drawn(tuple(some), width, width) for some in natural]
        for name, batches, packed in (
            ("equal lengths, beside nn.LSTM", equal, False),
            ("natural lengths, beside padded rows", ragged, False),
            ("natural lengths, beside packed rows", ragged, True),
        ):
            table.append(beside(f"LSTM of {width}, {name}", layer, batches, lstm_of(layer), packed))
    return table


# --- words by their letters ---


def letters(corpus: Corpus, sizes: Sequence[str], rounds: int) -> list[list[str]]:
    """ELMo's filters and highways over the words of a batch of running text."""
    table = []
    for size in sizes:
        milestone = ElmoSpec(**ElmoSpec.sizes[size])
        ours = filled(char_cnn_embedding(milestone, corpus.tokenizer))
        theirs = Characters(ours)
        ids = np.asarray(corpus.ids[: TOKENS * (rounds + 1)], np.int64).reshape(-1, TOKENS)
        batches = [(torch.from_numpy(some), torch.randn(TOKENS, milestone.width)) for some in ids]
        turns = iter(batches), iter(batches)

        def answers(way: Any, turn: int, turns: Any = turns) -> Answers:
            tokens, wanted = next(turns[turn])
            found = way(tokens[None] if turn else tokens).view_as(wanted)
            (found * wanted).sum().backward()
            gradient = way.character.weight.grad
            way.zero_grad()
            return [found.detach(), gradient]

        label = f"letters, ELMo {size}, beside conv1d over all words"
        table.append(
            compared(
                label,
                lambda ours=ours, answers=answers: answers(ours, 0),
                lambda theirs=theirs, answers=answers: answers(theirs, 1),
                TOKENS,
                rounds,
                agree=near,
            )
        )
    return table


# --- softmaxes ---


def targets(corpus: Corpus, words: int, count: int) -> list[Tensor]:
    """Words of running text. Where the vocabulary is larger than the text's, they lie as far apart as to fill it."""
    ids = np.asarray(corpus.ids[: TOKENS * count], np.int64)
    known = corpus.tokenizer.vocab_size
    return list(torch.from_numpy(ids * words // known if words > known else np.minimum(ids, words - 1)).split(TOKENS))


def softmaxes(corpus: Corpus, vocabularies: Sequence[int], rounds: int) -> list[list[str]]:
    """Learning from 1,024 words, the optimiser included. Only the full one is the same arithmetic."""
    table = []
    for words in vocabularies:
        asked = targets(corpus, words, rounds + 1)
        x = torch.randn(TOKENS, WIDTH, requires_grad=True)
        kinds = {"adaptive": (cluster_cutoffs(words), 0), "sampled": ((), min(SAMPLES, words // 2)), "full": ((), 0)}
        for name, (borders, sampled) in kinds.items():
            ours = filled(AdaptiveSoftmax(WIDTH, words, borders, num_samples=sampled))
            theirs = nn.Linear(WIDTH, words)
            if name == "full":
                theirs.load_state_dict(ours.scores.state_dict())
            label = f"softmax over {words:,} words, {name}"
            agree = (lambda own, other: abs(own - other) < 1e-3) if name == "full" else None
            own_step, their_step = softmax_steps(ours, theirs, x, asked)
            table.append(compared(label, own_step, their_step, TOKENS, rounds, agree=agree))
    return table


def softmax_steps(
    ours: AdaptiveSoftmax, theirs: nn.Linear, x: Tensor, asked: list[Tensor]
) -> tuple[Callable[[], float], Callable[[], float]]:
    mine = AdamW(dict(ours.named_parameters()), weight_decay=0.01, beta2=0.99)
    other = torch.optim.AdamW(
        [{"params": [theirs.weight]}, {"params": [theirs.bias], "weight_decay": 0.0}],
        lr=1e-3, betas=(0.9, 0.99), weight_decay=0.01, fused=True,
    )  # fmt: skip
    turns = iter(asked), iter(asked)

    def own_step() -> float:
        x.grad = None
        cost = ours.loss(x, next(turns[0])) / TOKENS
        cost.backward()
        mine.step(1e-3)
        mine.zero_grad()
        return cost.item()

    def their_step() -> float:
        x.grad = None
        cost = nn.functional.cross_entropy(theirs(x), next(turns[1]))
        cost.backward()
        other.step()
        other.zero_grad(set_to_none=True)
        return cost.item()

    return own_step, their_step
