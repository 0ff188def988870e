"""Recurrent seq2seq models against torch.nn.LSTM with equal weights, and decoding against full sequences."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from small_networks import rows_of
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_sequence, pad_packed_sequence

from forebear.inference.beam_search import Hypothesis, beam_search
from forebear.nn.attention_scores import AdditiveScore, BilinearScore, ConcatScore, DotProductScore
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
ATTENTION_SCORES = {
    "dot": lambda: DotProductScore(scaled=False),
    "bilinear": lambda: BilinearScore(INNER, INNER),
    "concatenated": lambda: ConcatScore(INNER, INNER),
    "perceptron": lambda: AdditiveScore(INNER, INNER, 7),
}


def seq2seq_model(
    way: ReadingDirection, look: str = "", *, tied: bool = True, vocabulary: int = VOCABULARY, spread: float = 0.4
) -> Model:
    """An untrained model whose weights are large enough that any error changes the logits."""
    source_embedding, target_embedding, untied_embedding = (
        InputEmbedding(vocabulary, WIDTH, positions=CONTEXT, placing="none", scale=SCALE) for _ in range(3)
    )
    output_embedding = target_embedding if tied else untied_embedding
    attention = GlobalAttention(ATTENTION_SCORES[look](), inner=INNER, width=WIDTH) if look else None
    reader = Seq2SeqEncoder(source_embedding, depth=DEPTH, inner=INNER, direction=way)
    writer = Seq2SeqDecoder(target_embedding, output_embedding, depth=DEPTH, inner=INNER, attention=attention)
    model_class = AttentionEncoderDecoder if look else RecurrentEncoderDecoder
    model = Model(model_class(reader, writer), {"translation": LMHead(output_embedding)}).initialize(3)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for value in model.parameters():
            value.copy_(spread * torch.randn(value.shape, generator=generator))
    return model


class TorchSeq2Seq:
    """torch's LSTMs over packed sequences; attention as a loop over sequences and tokens."""

    def __init__(self, model: Model, way: ReadingDirection, look: str) -> None:
        self.model, self.way, self.look, self.values = model, way, look, model.tensors()
        is_bidirectional = way == "both"
        self.reader = nn.LSTM(WIDTH, INNER // 2 if is_bidirectional else INNER, DEPTH, bidirectional=is_bidirectional)
        self.writer = nn.LSTM(WIDTH, INNER, DEPTH)
        for number in range(DEPTH):
            prefixes = {"": "halves.0.", "_reverse": "halves.1."} if is_bidirectional else {"": ""}
            for suffix, prefix in prefixes.items():
                self.fill(self.reader, f"l{number}{suffix}", f"encoder.reader.layers.{number}.{prefix}")
            self.fill(self.writer, f"l{number}", f"encoder.writer.layers.{number}.")

    def fill(self, lstm: nn.LSTM, torch_suffix: str, prefix: str) -> None:
        with torch.no_grad():
            getattr(lstm, f"weight_ih_{torch_suffix}").copy_(self.values[f"{prefix}input.weight"])
            getattr(lstm, f"weight_hh_{torch_suffix}").copy_(self.values[f"{prefix}state.weight"])
            getattr(lstm, f"bias_ih_{torch_suffix}").copy_(self.values[f"{prefix}input.bias"])
            getattr(lstm, f"bias_hh_{torch_suffix}").zero_()

    def __call__(self, sources: list[Tensor], rows: list[Tensor]) -> Tensor:
        ordered_sources = [row.flip(0) for row in sources] if self.way == "backward" else sources
        tables = [
            SCALE * self.model.encoder.get_submodule(f"{half}.embedding.token").weight for half in ("reader", "writer")
        ]
        packed = pack_sequence([tables[0][row] for row in ordered_sources], enforce_sorted=False)
        encoder_output, (h, c) = self.reader(packed)
        memory = [
            outputs[: len(row)]
            for outputs, row in zip(pad_packed_sequence(encoder_output, True)[0], sources, strict=True)
        ]
        if self.way == "both":  # torch interleaves directions: concatenate them per layer
            h, c = (state.unflatten(0, (DEPTH, 2)).transpose(1, 2).flatten(2) for state in (h, c))
        decoder_output, _ = self.writer(pack_sequence([tables[1][row] for row in rows], enforce_sorted=False), (h, c))
        states = [
            outputs[: len(row)] for outputs, row in zip(pad_packed_sequence(decoder_output, True)[0], rows, strict=True)
        ]
        weight = self.model.heads["translation"].weight
        return torch.cat([self.output_states(*row) for row in zip(states, memory, strict=True)]) @ weight.T

    def output_states(self, states: Tensor, memory: Tensor) -> Tensor:
        if not self.look:
            return states @ self.model.encoder.writer.narrow.weight.T
        look = self.model.encoder.writer.look
        contexts = []
        for h in states:
            scores = torch.stack([look.similarity(h[None], s[None]).squeeze() for s in memory])
            contexts.append(scores.softmax(0) @ memory)
        return torch.tanh(torch.stack(contexts) @ look.found.weight.T + states @ look.own.weight.T)


def inputs(sources: list[Tensor], rows: list[Tensor]) -> dict[str, Tensor]:
    return {
        "tokens": torch.cat(rows),
        "lengths": torch.tensor([len(row) for row in rows]),
        "source": torch.cat(sources),
        "source_lengths": torch.tensor([len(row) for row in sources]),
    }


def texts(lengths: tuple[int, ...], seed: int) -> list[Tensor]:
    return [torch.from_numpy(row) for row in rows_of(*lengths, seed=seed)]


@pytest.mark.parametrize(
    ("way", "look"), [("backward", ""), ("forward", ""), *(("both", look) for look in ATTENTION_SCORES)]
)
@pytest.mark.parametrize("lengths", LENGTHS)
def test_seq2seq_logits_and_gradients_equal_torch(lengths: str, way: ReadingDirection, look: str):
    source_lengths, target_lengths = LENGTHS[lengths]
    sources, rows = texts(source_lengths, 0), texts(target_lengths, 1)
    (target,) = texts((sum(target_lengths),), 2)
    model = seq2seq_model(way, look, tied=way != "forward")
    peer = TorchSeq2Seq(model, way, look)
    expected = peer(sources, rows)
    actual = model.logits(inputs(sources, rows))["translation"]
    assert float(expected.detach().std()) > 0.2
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)
    nn.functional.cross_entropy(expected, target, reduction="sum").backward()
    table = model.encoder.reader.embedding.token.weight
    expected_gradients = {
        "table": table.grad.clone(),
        "read": peer.reader.weight_hh_l0.grad,
        "written": peer.writer.weight_ih_l1.grad,
    }
    model.zero_grad()
    model(inputs(sources, rows), {"translation": target})["translation"].backward()
    first_layer = model.encoder.reader.layers[0]
    first_layer = first_layer.halves[0] if way == "both" else first_layer
    gradients = {"read": first_layer.state.weight.grad, "written": model.encoder.writer.layers[1].input.weight.grad}
    for name, gradient in {"table": table.grad, **gradients}.items():
        torch.testing.assert_close(gradient, expected_gradients[name], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("look", ["", "bilinear"])
def test_seq2seq_logits_depend_on_own_source_and_past_targets_only(look: str):
    model = seq2seq_model("both", look)
    sources, rows = texts((5, 8), 0), texts((6, 4), 1)
    before = model.logits(inputs(sources, rows))["translation"]
    other_sources = [sources[0], torch.flip(sources[1], (0,))]
    after = model.logits(inputs(other_sources, rows))["translation"]
    torch.testing.assert_close(before[:6], after[:6])
    assert not torch.allclose(before[6:], after[6:], atol=1e-3)
    changed_rows = [torch.cat((rows[0][:-1], (rows[0][-1:] + 1) % VOCABULARY)), rows[1]]
    torch.testing.assert_close(model.logits(inputs(sources, changed_rows))["translation"][:5], before[:5])
    single = [model.logits(inputs([source], [row]))["translation"] for source, row in zip(sources, rows, strict=True)]
    torch.testing.assert_close(torch.cat(single), before, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("look", ATTENTION_SCORES)
def test_attention_weights_sum_to_one_and_skip_padding(look: str):
    model = seq2seq_model("both", look)
    sources, rows = texts((7, 2, 11), 0), texts((5, 9, 1), 1)
    (batched,) = model.encoder.attention_maps(**inputs(sources, rows))["cross"]
    assert [tuple(weights.shape) for weights in batched] == [(1, 5, 7), (1, 9, 2), (1, 1, 11)]
    for weights, source, row in zip(batched, sources, rows, strict=True):
        torch.testing.assert_close(weights.sum(-1), torch.ones(1, len(row)))
        ((alone,),) = model.encoder.attention_maps(**inputs([source], [row]))["cross"]
        torch.testing.assert_close(weights, alone, rtol=1e-4, atol=1e-5)
    padded = model.encoder.writer.look.attend(torch.randn(15, INNER), (5, 9, 1), torch.randn(20, INNER), (7, 2, 11))[1]
    assert not padded[1, :, 2:].any()
    assert not padded[0, :, 7:].any()


@pytest.mark.parametrize("small", [False, True], ids=["floats", "integers"])
@pytest.mark.parametrize("look", ["", *ATTENTION_SCORES])
def test_seq2seq_decoding_equals_scores_of_full_sequences(look: str, small: bool):
    """Also where sequences are dropped, repeated and reordered, as in beam search."""
    model = seq2seq_model("both" if look else "backward", look)
    translator = seq2seq_for(quantized_copy(model) if small else model)
    assert isinstance(translator, RecurrentSeq2Seq)
    sources, targets = rows_of(7, 3, 12, 3), rows_of(6, 6, 6, 6, seed=1)
    source_rows, target_ids = np.arange(4), np.array(targets)
    decoding = translator.start_decoding(sources, START, 6)
    for position, selected in enumerate([[0, 1, 2, 3], [3, 1, 1, 0, 2, 2], [5, 0, 3, 3], [2, 1], [1], [0]]):
        log_probs = torch.from_numpy(decoding.next_logits()).log_softmax(1)
        expected = translator.score(
            [sources[index] for index in source_rows], list(target_ids[:, : position + 1]), START
        )
        actual = log_probs[np.arange(len(source_rows)), target_ids[:, position]]
        np.testing.assert_allclose(actual, [scores[-1] for scores in expected], rtol=1e-4, atol=0.02 if small else 1e-4)
        decoding.append(target_ids[:, position])
        decoding.select(np.array(selected))
        source_rows, target_ids = source_rows[selected], target_ids[selected]


def enumerate_hypotheses(
    translator: RecurrentSeq2Seq, source: np.ndarray, vocabulary: int, most: int
) -> list[Hypothesis]:
    """All texts of up to `most` tokens, best first by mean log-probability: the definition."""
    hypotheses, other_ids = [], list(range(1, vocabulary))
    for length in range(1, most + 1):
        last_ids = [START, *other_ids] if length == most else [START]
        rows = [np.array(ids) for ids in itertools.product(*[other_ids] * (length - 1), last_ids)]
        for ids, scores in zip(rows, translator.score([source] * len(rows), rows, START), strict=True):
            value, is_finished = float(scores.sum()), ids[-1] == START
            text = tuple(ids[: length - is_finished].tolist())
            hypotheses.append(Hypothesis(text, value, value / length, bool(is_finished)))
    return sorted(hypotheses, key=lambda hypothesis: -hypothesis.score)


@pytest.mark.parametrize("look", ["", "perceptron"])
def test_full_beam_search_equals_enumeration_and_one_beam_is_greedy(look: str):
    model = seq2seq_model("both" if look else "backward", look, vocabulary=4, spread=0.6)
    translator = RecurrentSeq2Seq(model)
    sources = rows_of(5, 2, 7, vocabulary=4)
    beams, lengths = 4**4, [4, 4, 4]
    results = beam_search(
        translator.start_decoding(sources, START, 4), 3, eos_id=START, beams=beams, best=20, lengths=lengths
    )
    for source, hypotheses in zip(sources, results, strict=True):
        expected = enumerate_hypotheses(translator, source, 4, 4)[:20]
        assert [(hypothesis.ids, hypothesis.is_finished) for hypothesis in hypotheses] == [
            (hypothesis.ids, hypothesis.is_finished) for hypothesis in expected
        ]
        np.testing.assert_allclose(
            [hypothesis.score for hypothesis in hypotheses], [hypothesis.score for hypothesis in expected], atol=1e-4
        )
    greedy = beam_search(translator.start_decoding(sources, START, 8), 3, eos_id=START, beams=1, lengths=[8, 8, 8])
    for source, (hypothesis,) in zip(sources, greedy, strict=True):
        row: list[int] = []
        while len(row) < 8 and (not row or row[-1] != START):
            candidates = [np.array([*row, token]) for token in range(4)]
            row.append(int(np.argmax([scores[-1] for scores in translator.score([source] * 4, candidates, START)])))
        assert [*hypothesis.ids, *[START] * hypothesis.is_finished] == row


def test_seq2seq_dropout_is_locked_along_a_sequence():
    model = seq2seq_model("backward")
    model.encoder.writer.dropout.drop.p = 0.5
    sources, rows = texts((5, 8), 0), texts((6, 4), 1)
    model.train()
    torch.manual_seed(1)
    states = model.encoder(**inputs(sources, rows))
    is_dropped = [(row_states == 0).all(0) for row_states in states.last.split([6, 4])]
    for row_states, dropped_units in zip(states.last.split([6, 4]), is_dropped, strict=True):
        assert 2 < int(dropped_units.sum()) < WIDTH - 2
        assert bool((row_states[:, ~dropped_units] != 0).all())
    assert not torch.equal(*is_dropped)
