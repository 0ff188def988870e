"""The NNLM network: the paper's formula by hand, against plain torch, and windows that end at document starts."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_networks import inputs, rows_of
from torch import nn

from forebear.errors import InputError
from forebear.nn.model import Model
from forebear.nn.next_token_predictors import WindowPredictor, next_token_predictor_for
from forebear.nn.nnlm import NNLMEncoder, NNLMHead, WordEmbedding
from forebear.nn.softmax import AdaptiveSoftmax

VOCABULARY, END = 23, 3


def network(
    *,
    vocabulary: int = VOCABULARY,
    width: int = 5,
    window: int = 3,
    inner: int = 7,
    direct: bool = True,
    borders: tuple[int, ...] = (),
    seed: int = 1,
) -> Model:
    """A model with parameters so large that all of them matter, biases included."""
    encoder = NNLMEncoder(WordEmbedding(vocabulary, width), window=window, inner=inner, end_id=END)
    softmax = AdaptiveSoftmax(inner + (window * width if direct else 0), vocabulary, borders)
    model = Model(encoder, {"next": NNLMHead(softmax, direct=direct)}).initialize(seed)
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for value in model.parameters():
            value.mul_(2).add_(0.3 * torch.randn(value.shape, generator=generator))
    return model.eval()


def worked_example_model(direct: bool) -> Model:
    """Three words and the end token, embeddings of size 2, a window of two, one hidden unit."""
    model = network(vocabulary=4, width=2, window=2, inner=1, direct=direct)
    u, w = [[1.0], [2.0], [0.0], [-1.0]], [[1, 0, 0, 0], [0, 0, 0, 1], [0, 1, 1, 0], [0, 0, 0, 0]]
    values = {
        "encoder.embedding.token.weight": [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.5, -0.5]],
        "encoder.hidden.weight": [[1.0, 2.0, 3.0, 4.0]],
        "encoder.hidden.bias": [0.5],
        "heads.next.softmax.scores.weight": [a + b for a, b in zip(u, w, strict=True)] if direct else u,
        "heads.next.softmax.scores.bias": [0.0, 0.1, 0.2, 0.3],
    }
    return model.load({name: torch.tensor(value, dtype=torch.float32) for name, value in values.items()})


@pytest.mark.parametrize("direct", [False, True])
def test_nnlm_log_probs_match_formula_by_hand(direct: bool):
    """y = b + W x + U tanh(d + H x), after the words 0 and 1 and after the end token alone."""
    model = worked_example_model(direct)
    # x = (1, 0, 0, 1): d + H x = 0.5 + 1 + 4; W x = (1, 1, 0, 0)
    # x = (0.5, -0.5, 0.5, -0.5): d + H x = 0.5 + 0.5 - 1 + 1.5 - 2; W x = (0.5, -0.5, 0, 0)
    for row, preactivation, direct_part in (
        ([3, 0, 1], 5.5, (1.0, 1.0, 0.0, 0.0)),
        ([3], -0.5, (0.5, -0.5, 0.0, 0.0)),
    ):
        hidden = math.tanh(preactivation)
        y = [hidden, 2 * hidden + 0.1, 0.2, -hidden + 0.3]
        y = [logit + direct_logit for logit, direct_logit in zip(y, direct_part, strict=True)] if direct else y
        total = sum(math.exp(logit) for logit in y)
        log_probs = next_token_predictor_for(model).next_log_probs([np.array(row)])[0]
        assert log_probs == pytest.approx([logit - math.log(total) for logit in y], abs=1e-6)


class PlainNNLM(nn.Module):
    """The same network as in a textbook, for one window at a time."""

    def __init__(self, vocabulary: int, width: int, window: int, inner: int, *, direct: bool) -> None:
        super().__init__()
        self.vectors = nn.Embedding(vocabulary, width)
        self.hidden, self.output = nn.Linear(window * width, inner), nn.Linear(inner, vocabulary)
        self.direct_connection = nn.Linear(window * width, vocabulary, bias=False) if direct else None

    @torch.no_grad()
    def forward(self, words: list[int]) -> torch.Tensor:
        x = self.vectors(torch.tensor(words)).flatten()
        y = self.output(torch.tanh(self.hidden(x)))
        return torch.log_softmax(y if self.direct_connection is None else y + self.direct_connection(x), 0)


def plain_nnlm(model: Model, window: int, *, direct: bool) -> PlainNNLM:
    """With the weights of a model, in float64."""
    tensors = {name: value.double() for name, value in model.tensors().items()}
    plain = PlainNNLM(VOCABULARY, 5, window, 7, direct=direct).double()
    scores = tensors["heads.next.softmax.scores.weight"]
    values = {"vectors.weight": tensors["encoder.embedding.token.weight"], "output.weight": scores[:, :7]}
    values |= {f"hidden.{kind}": tensors[f"encoder.hidden.{kind}"] for kind in ("weight", "bias")}
    values |= {"output.bias": tensors["heads.next.softmax.scores.bias"]}
    plain.load_state_dict(values | ({"direct_connection.weight": scores[:, 7:]} if direct else {}))
    return plain


def reference_window(row: list[int], window: int) -> list[int]:
    """The last words since the last end token, padded with end tokens."""
    document_start = max([position for position, token in enumerate(row) if token == END], default=0)
    return ([END] * window + row[document_start:])[-window:]


@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize("window", [1, 2, 4])
def test_nnlm_scores_equal_plain_torch(window: int, direct: bool):
    model = network(window=window, direct=direct)
    plain, predictor = plain_nnlm(model, window, direct=direct), next_token_predictor_for(model)
    rows = [np.append([END], row) for row in rows_of(9, 1, 4, vocabulary=VOCABULARY)]
    rows[0][5] = END  # another document starts here
    for row, actual in zip(rows, predictor.score(rows), strict=True):
        ids = row.tolist()
        expected = [
            float(plain(reference_window(ids[:position], window))[ids[position]]) for position in range(1, len(ids))
        ]
        assert actual == pytest.approx(expected, abs=1e-5)
    tables = predictor.next_log_probs(rows)
    for row, actual in zip(rows, tables, strict=True):
        assert actual == pytest.approx(plain(reference_window(row.tolist(), window)).numpy(), abs=1e-5)


@given(
    rows=st.lists(st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=9), min_size=1, max_size=4),
    window=st.integers(1, 5),
)
def test_nnlm_windows_hold_last_words_of_the_document(rows: list[list[int]], window: int):
    encoder = NNLMEncoder(WordEmbedding(VOCABULARY, 2), window=window, inner=2, end_id=END)
    batch = inputs(rows)
    positions = encoder.window_positions(batch["tokens"], [len(row) for row in rows])
    words = torch.cat((batch["tokens"], torch.tensor([END])))[positions].tolist()
    assert words == [reference_window(row[: position + 1], window) for row in rows for position in range(len(row))]


@pytest.mark.parametrize("borders", [(), (4, 9)])
@pytest.mark.parametrize("direct", [False, True])
def test_nnlm_decoding_equals_full_forward(direct: bool, borders: tuple[int, ...]):
    """Token by token, with sequences dropped, repeated and reordered, and across an end token."""
    model = network(direct=direct, borders=borders)
    predictor = next_token_predictor_for(model)
    assert isinstance(predictor, WindowPredictor)
    rows = [np.append([END], row) for row in rows_of(1, 6, 2, vocabulary=VOCABULARY)]
    decoding, rng = predictor.start_decoding(rows, 9), np.random.default_rng(0)
    for step in range(9):
        logits = torch.from_numpy(decoding.next_logits()).log_softmax(1).numpy()
        assert logits == pytest.approx(predictor.next_log_probs(rows), abs=1e-5)
        next_ids = rng.integers(0, VOCABULARY, len(rows))
        next_ids[0] = END if step == 4 else next_ids[0]
        decoding.append(next_ids)
        rows = [np.append(row, index) for row, index in zip(rows, next_ids, strict=True)]
        if step in (2, 6):
            order = np.array([2, 0, 0, 1])[: 4 if step == 2 else 3]
            decoding.select(order)
            rows = [rows[index] for index in order.tolist()]


def test_nnlm_scores_and_next_log_probs_agree():
    for borders in ((), (4, 9)):
        predictor = next_token_predictor_for(network(borders=borders))
        rows = [np.append([END], row) for row in rows_of(7, 3, 12, vocabulary=VOCABULARY)]
        for row, scores in zip(rows, predictor.score(rows), strict=True):
            tables = predictor.next_log_probs([row[:length] for length in range(1, len(row))])
            assert np.exp(tables.astype(np.float64)).sum(1) == pytest.approx(1, abs=1e-5)
            assert scores == pytest.approx(tables[np.arange(len(row) - 1), row[1:]], abs=1e-5)
        assert [len(row_scores) for row_scores in predictor.score([rows[0], np.array([END])])] == [7, 0]


@pytest.mark.parametrize("borders", [(), (4, 9)])
@pytest.mark.parametrize("direct", [False, True])
def test_nnlm_gradients_equal_finite_differences(direct: bool, borders: tuple[int, ...]):
    """At the largest gradient of each parameter."""
    model = network(direct=direct, borders=borders).train()
    batch = inputs(rows_of(6, 3, vocabulary=VOCABULARY))
    target = torch.tensor([5, -1, 20, 4, 11, 9, -1, 1, 0])
    model(batch, {"next": target})["next"].backward()
    exact = network(direct=direct, borders=borders).double()
    step = 1e-6
    for (name, value), (_, copy) in zip(model.named_parameters(), exact.named_parameters(), strict=True):
        assert value.grad is not None
        index = int(value.grad.abs().argmax())
        with torch.no_grad():
            losses = []
            for change in (step, -2 * step):
                copy.view(-1)[index] += change
                losses.append(float(loss_of(exact, batch, target)))
            copy.view(-1)[index] += step
        slope = (losses[0] - losses[1]) / (2 * step)
        assert float(value.grad.view(-1)[index]) == pytest.approx(slope, rel=1e-3, abs=1e-4), name


def loss_of(model: Model, given: dict[str, torch.Tensor], target: torch.Tensor) -> torch.Tensor:
    """The loss from logits over the full vocabulary, in float64."""
    logits = model.logits(given)["next"]
    supervised = target >= 0
    return torch.nn.functional.cross_entropy(logits[supervised], target[supervised], reduction="sum")


@torch.no_grad()
def test_nnlm_computes_hidden_layer_at_supervised_positions_only():
    """With few targets, the hidden layer is computed at their tokens only, with the same loss."""
    model, rows = network(), rows_of(9, 5, vocabulary=VOCABULARY)
    target = torch.full((14,), -1)
    target[[2, 10]] = torch.tensor([7, 8])
    states = model.encode(inputs(rows), {"next": target})
    assert states.last.shape == (2, 7)
    assert states.layers[0].shape == (14, 5)
    full = model.encoder(**inputs(rows))
    assert torch.allclose(states.last, full.last[[2, 10]], atol=1e-6)
    head = model.heads["next"]
    assert float(head.loss(states, target)) == pytest.approx(float(head.loss(full, target)), rel=1e-6)


def test_nnlm_first_layer_is_the_word_embedding():
    model = network()
    states = model.encoder(**inputs([[4, 9, 4]]))
    table = model.encoder.embedding.token.weight
    assert torch.equal(states.layers[0], table[[4, 9, 4]])
    one_hot = torch.eye(VOCABULARY)[[4, 9, 4]]  # a product with the embedding matrix looks up a row
    assert torch.allclose(one_hot @ table, states.layers[0])
    assert torch.equal(states.windows[2], table[[4, 9, 4]].flatten())
    assert not torch.equal(states.last[0], states.last[2])  # the same word in another window


def test_window_causal_lm_refuses_model_without_head():
    model = network()
    with pytest.raises(InputError, match="does not predict the next token"):
        WindowPredictor(Model(model.encoder, {}))
