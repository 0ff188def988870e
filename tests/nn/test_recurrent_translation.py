"""Recurrent translation against torch.nn.LSTM with the same weights, and writing by tokens against whole rows."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from building import rows_of
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_sequence, pad_packed_sequence

from forebear.inference.beam_search import Hypothesis, beam_search
from forebear.nn.attention import AdditiveScore, BilinearScore, ConcatScore, DotProductScore
from forebear.nn.embedding import InputEmbedding
from forebear.nn.heads import LMHead
from forebear.nn.model import Model
from forebear.nn.quantized import quantized_copy
from forebear.nn.seq2seq import (
    AttentionEncoderDecoder,
    GlobalAttention,
    ReadingDirection,
    RecurrentEncoderDecoder,
    RecurrentSeq2Seq,
    Seq2SeqDecoder,
    Seq2SeqEncoder,
    seq2seq_for,
)

VOCABULARY, WIDTH, INNER, DEPTH, CONTEXT, START, SCALE = 53, 16, 24, 2, 24, 0, 1.5
LENGTHS = {"equal": ((9, 9, 9), (6, 6, 6)), "ragged": ((7, 24, 1, 12, 12), (3, 1, 24, 9, 9))}
LOOKS = {
    "dot": lambda: DotProductScore(scaled=False),
    "bilinear": lambda: BilinearScore(INNER, INNER),
    "concatenated": lambda: ConcatScore(INNER, INNER),
    "perceptron": lambda: AdditiveScore(INNER, INNER, 7),
}


def ours(
    way: ReadingDirection, look: str = "", *, tied: bool = True, vocabulary: int = VOCABULARY, spread: float = 0.4
) -> Model:
    """Untrained, with weights large enough that a wrong part would change what it says."""
    read, written, others = (
        InputEmbedding(vocabulary, WIDTH, positions=CONTEXT, placing="none", scale=SCALE) for _ in range(3)
    )
    scored = written if tied else others
    looks = GlobalAttention(LOOKS[look](), inner=INNER, width=WIDTH) if look else None
    reader = Seq2SeqEncoder(read, depth=DEPTH, inner=INNER, way=way)
    writer = Seq2SeqDecoder(written, scored, depth=DEPTH, inner=INNER, attention=looks)
    kind = AttentionEncoderDecoder if look else RecurrentEncoderDecoder
    model = Model(kind(reader, writer), {"translation": LMHead(scored)}).initialize(3)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for value in model.parameters():
            value.copy_(spread * torch.randn(value.shape, generator=generator))
    return model


class Peer:
    """torch's own LSTMs, of padded and packed rows; attention by a loop over rows and tokens."""

    def __init__(self, model: Model, way: ReadingDirection, look: str) -> None:
        self.model, self.way, self.look, self.values = model, way, look, model.tensors()
        halves = way == "both"
        self.reader = nn.LSTM(WIDTH, INNER // 2 if halves else INNER, DEPTH, bidirectional=halves)
        self.writer = nn.LSTM(WIDTH, INNER, DEPTH)
        for number in range(DEPTH):
            sides = {"": "halves.0.", "_reverse": "halves.1."} if halves else {"": ""}
            for suffix, inside in sides.items():
                self.fill(self.reader, f"l{number}{suffix}", f"encoder.reader.layers.{number}.{inside}")
            self.fill(self.writer, f"l{number}", f"encoder.writer.layers.{number}.")

    def fill(self, lstm: nn.LSTM, theirs: str, mine: str) -> None:
        with torch.no_grad():
            getattr(lstm, f"weight_ih_{theirs}").copy_(self.values[f"{mine}input.weight"])
            getattr(lstm, f"weight_hh_{theirs}").copy_(self.values[f"{mine}state.weight"])
            getattr(lstm, f"bias_ih_{theirs}").copy_(self.values[f"{mine}input.bias"])
            getattr(lstm, f"bias_hh_{theirs}").zero_()

    def __call__(self, sources: list[Tensor], rows: list[Tensor]) -> Tensor:
        turned = [row.flip(0) for row in sources] if self.way == "backward" else sources
        tables = [
            SCALE * self.model.encoder.get_submodule(f"{half}.embedding.token").weight for half in ("reader", "writer")
        ]
        packed = pack_sequence([tables[0][row] for row in turned], enforce_sorted=False)
        read, (h, c) = self.reader(packed)
        memory = [one[: len(row)] for one, row in zip(pad_packed_sequence(read, True)[0], sources, strict=True)]
        if self.way == "both":  # the layers of both directions in turn: side by side
            h, c = (part.unflatten(0, (DEPTH, 2)).transpose(1, 2).flatten(2) for part in (h, c))
        written, _ = self.writer(pack_sequence([tables[1][row] for row in rows], enforce_sorted=False), (h, c))
        states = [one[: len(row)] for one, row in zip(pad_packed_sequence(written, True)[0], rows, strict=True)]
        weight = self.model.heads["translation"].weight
        return torch.cat([self.said(*one) for one in zip(states, memory, strict=True)]) @ weight.T

    def said(self, states: Tensor, memory: Tensor) -> Tensor:
        if not self.look:
            return states @ self.model.encoder.writer.narrow.weight.T
        look = self.model.encoder.writer.look
        found = []
        for h in states:
            scores = torch.stack([look.similarity(h[None], s[None]).squeeze() for s in memory])
            found.append(scores.softmax(0) @ memory)
        return torch.tanh(torch.stack(found) @ look.found.weight.T + states @ look.own.weight.T)


def inputs(sources: list[Tensor], rows: list[Tensor]) -> dict[str, Tensor]:
    return {
        "tokens": torch.cat(rows),
        "lengths": torch.tensor([len(row) for row in rows]),
        "source": torch.cat(sources),
        "source_lengths": torch.tensor([len(row) for row in sources]),
    }


def texts(lengths: tuple[int, ...], seed: int) -> list[Tensor]:
    return [torch.from_numpy(row) for row in rows_of(*lengths, seed=seed)]


@pytest.mark.parametrize(("way", "look"), [("backward", ""), ("forward", ""), *(("both", look) for look in LOOKS)])
@pytest.mark.parametrize("lengths", LENGTHS)
def test_logits_and_gradients_are_torchs(lengths: str, way: ReadingDirection, look: str):
    read, written = LENGTHS[lengths]
    sources, rows = texts(read, 0), texts(written, 1)
    (target,) = texts((sum(written),), 2)
    model = ours(way, look, tied=way != "forward")
    peer = Peer(model, way, look)
    wanted = peer(sources, rows)
    found = model.logits(inputs(sources, rows))["translation"]
    assert float(wanted.detach().std()) > 0.2
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
    nn.functional.cross_entropy(wanted, target, reduction="sum").backward()
    table = model.encoder.reader.embedding.token.weight
    theirs = {
        "table": table.grad.clone(),
        "read": peer.reader.weight_hh_l0.grad,
        "written": peer.writer.weight_ih_l1.grad,
    }
    model.zero_grad()
    model(inputs(sources, rows), {"translation": target})["translation"].backward()
    first = model.encoder.reader.layers[0]
    first = first.halves[0] if way == "both" else first
    mine = {"read": first.state.weight.grad, "written": model.encoder.writer.layers[1].input.weight.grad}
    for name, gradient in {"table": table.grad, **mine}.items():
        torch.testing.assert_close(gradient, theirs[name], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("look", ["", "bilinear"])
def test_what_is_written_depends_on_its_own_source_and_on_nothing_later(look: str):
    model = ours("both", look)
    sources, rows = texts((5, 8), 0), texts((6, 4), 1)
    before = model.logits(inputs(sources, rows))["translation"]
    other = [sources[0], torch.flip(sources[1], (0,))]
    after = model.logits(inputs(other, rows))["translation"]
    torch.testing.assert_close(before[:6], after[:6])
    assert not torch.allclose(before[6:], after[6:], atol=1e-3)
    changed = [torch.cat((rows[0][:-1], (rows[0][-1:] + 1) % VOCABULARY)), rows[1]]
    torch.testing.assert_close(model.logits(inputs(sources, changed))["translation"][:5], before[:5])
    alone = [model.logits(inputs([one], [row]))["translation"] for one, row in zip(sources, rows, strict=True)]
    torch.testing.assert_close(torch.cat(alone), before, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("look", LOOKS)
def test_weights_of_attention_sum_to_one_and_never_go_beyond_the_source(look: str):
    model = ours("both", look)
    sources, rows = texts((7, 2, 11), 0), texts((5, 9, 1), 1)
    (together,) = model.encoder.attention_maps(**inputs(sources, rows))["cross"]
    assert [tuple(one.shape) for one in together] == [(1, 5, 7), (1, 9, 2), (1, 1, 11)]
    for weights, source, row in zip(together, sources, rows, strict=True):
        torch.testing.assert_close(weights.sum(-1), torch.ones(1, len(row)))
        ((alone,),) = model.encoder.attention_maps(**inputs([source], [row]))["cross"]
        torch.testing.assert_close(weights, alone, rtol=1e-4, atol=1e-5)
    padded = model.encoder.writer.look.attend(torch.randn(15, INNER), (5, 9, 1), torch.randn(20, INNER), (7, 2, 11))[1]
    assert not padded[1, :, 2:].any()
    assert not padded[0, :, 7:].any()


@pytest.mark.parametrize("small", [False, True], ids=["floats", "integers"])
@pytest.mark.parametrize("look", ["", *LOOKS])
def test_writing_by_tokens_says_what_whole_rows_say(look: str, small: bool):
    """Also where rows are dropped, repeated and reordered on the way, as beams are."""
    model = ours("both" if look else "backward", look)
    translator = seq2seq_for(quantized_copy(model) if small else model)
    assert isinstance(translator, RecurrentSeq2Seq)
    sources, targets = rows_of(7, 3, 12, 3), rows_of(6, 6, 6, 6, seed=1)
    of, written = np.arange(4), np.array(targets)
    reader = translator.begin(sources, START, 6)
    for place, chosen in enumerate([[0, 1, 2, 3], [3, 1, 1, 0, 2, 2], [5, 0, 3, 3], [2, 1], [1], [0]]):
        told = torch.from_numpy(reader.next_logits()).log_softmax(1)
        wanted = translator.score([sources[one] for one in of], list(written[:, : place + 1]), START)
        found = told[np.arange(len(of)), written[:, place]]
        np.testing.assert_allclose(found, [one[-1] for one in wanted], rtol=1e-4, atol=0.02 if small else 1e-4)
        reader.append(written[:, place])
        reader.select(np.array(chosen))
        of, written = of[chosen], written[chosen]


def every_text(translator: RecurrentSeq2Seq, source: np.ndarray, vocabulary: int, most: int) -> list[Hypothesis]:
    """All texts of up to `most` tokens, best first by the mean of their tokens: the definition."""
    found, others = [], list(range(1, vocabulary))
    for length in range(1, most + 1):
        lasts = [START, *others] if length == most else [START]
        rows = [np.array(ids) for ids in itertools.product(*[others] * (length - 1), lasts)]
        for ids, scores in zip(rows, translator.score([source] * len(rows), rows, START), strict=True):
            value, ended = float(scores.sum()), ids[-1] == START
            text = tuple(ids[: length - ended].tolist())
            found.append(Hypothesis(text, value, value / length, bool(ended)))
    return sorted(found, key=lambda one: -one.score)


@pytest.mark.parametrize("look", ["", "perceptron"])
def test_beams_find_what_trying_all_texts_finds_and_one_is_greedy(look: str):
    model = ours("both" if look else "backward", look, vocabulary=4, spread=0.6)
    translator = RecurrentSeq2Seq(model)
    sources = rows_of(5, 2, 7, vocabulary=4)
    beams, lengths = 4**4, [4, 4, 4]
    found = beam_search(translator.begin(sources, START, 4), 3, end_id=START, beams=beams, best=20, lengths=lengths)
    for source, hypotheses in zip(sources, found, strict=True):
        wanted = every_text(translator, source, 4, 4)[:20]
        assert [(one.ids, one.is_finished) for one in hypotheses] == [(one.ids, one.is_finished) for one in wanted]
        np.testing.assert_allclose([one.score for one in hypotheses], [one.score for one in wanted], atol=1e-4)
    greedy = beam_search(translator.begin(sources, START, 8), 3, end_id=START, beams=1, lengths=[8, 8, 8])
    for source, (one,) in zip(sources, greedy, strict=True):
        row: list[int] = []
        while len(row) < 8 and (not row or row[-1] != START):
            tried = [np.array([*row, token]) for token in range(4)]
            row.append(int(np.argmax([scores[-1] for scores in translator.score([source] * 4, tried, START)])))
        assert [*one.ids, *[START] * one.is_finished] == row


def test_dropout_leaves_out_the_same_numbers_of_all_tokens_of_a_row():
    model = ours("backward")
    model.encoder.writer.dropout.drop.p = 0.5
    sources, rows = texts((5, 8), 0), texts((6, 4), 1)
    model.train()
    torch.manual_seed(1)
    states = model.encoder(**inputs(sources, rows))
    gone = [(part == 0).all(0) for part in states.last.split([6, 4])]
    for part, none in zip(states.last.split([6, 4]), gone, strict=True):
        assert 2 < int(none.sum()) < WIDTH - 2
        assert bool((part[:, ~none] != 0).all())
    assert not torch.equal(*gone)
