"""NNLM's network: the paper's formula by hand, against plain torch, and windows that end where documents begin."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from building import inputs, rows_of
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from forebear.errors import InputError
from forebear.nn.causal_lm import WindowCausalLM, causal_lm_for
from forebear.nn.model import Model
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
    """With values so large that every part matters, biases too."""
    encoder = NNLMEncoder(WordEmbedding(vocabulary, width), window=window, inner=inner, end_id=END)
    softmax = AdaptiveSoftmax(inner + (window * width if direct else 0), vocabulary, borders)
    model = Model(encoder, {"next": NNLMHead(softmax, direct=direct)}).initialize(seed)
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for value in model.parameters():
            value.mul_(2).add_(0.3 * torch.randn(value.shape, generator=generator))
    return model.eval()


def given_values(direct: bool) -> Model:
    """Three words and the end, vectors of two numbers, a window of two, one hidden unit."""
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
def test_the_formula_by_hand(direct: bool):
    """y = b + W x + U tanh(d + H x), for the words 0 and 1 and then for what follows the end alone."""
    model = given_values(direct)
    # x = (1, 0, 0, 1): d + H x = 0.5 + 1 + 4; W x = (1, 1, 0, 0)
    # x = (0.5, -0.5, 0.5, -0.5): d + H x = 0.5 + 0.5 - 1 + 1.5 - 2; W x = (0.5, -0.5, 0, 0)
    for row, inside, straight in (
        ([3, 0, 1], 5.5, (1.0, 1.0, 0.0, 0.0)),
        ([3], -0.5, (0.5, -0.5, 0.0, 0.0)),
    ):
        hidden = math.tanh(inside)
        y = [hidden, 2 * hidden + 0.1, 0.2, -hidden + 0.3]
        y = [one + more for one, more in zip(y, straight, strict=True)] if direct else y
        total = sum(math.exp(one) for one in y)
        told = causal_lm_for(model).next_log_probs([np.array(row)])[0]
        assert told == pytest.approx([one - math.log(total) for one in y], abs=1e-6)


class Plain(nn.Module):
    """The same network as a textbook writes it, for one window at a time."""

    def __init__(self, vocabulary: int, width: int, window: int, inner: int, *, direct: bool) -> None:
        super().__init__()
        self.vectors = nn.Embedding(vocabulary, width)
        self.hidden, self.output = nn.Linear(window * width, inner), nn.Linear(inner, vocabulary)
        self.straight = nn.Linear(window * width, vocabulary, bias=False) if direct else None

    @torch.no_grad()
    def forward(self, words: list[int]) -> torch.Tensor:
        x = self.vectors(torch.tensor(words)).flatten()
        y = self.output(torch.tanh(self.hidden(x)))
        return torch.log_softmax(y if self.straight is None else y + self.straight(x), 0)


def plain_of(model: Model, window: int, *, direct: bool) -> Plain:
    """With the weights of a model, in double precision."""
    at = {name: value.double() for name, value in model.tensors().items()}
    made = Plain(VOCABULARY, 5, window, 7, direct=direct).double()
    scores = at["heads.next.softmax.scores.weight"]
    values = {"vectors.weight": at["encoder.embedding.token.weight"], "output.weight": scores[:, :7]}
    values |= {f"hidden.{part}": at[f"encoder.hidden.{part}"] for part in ("weight", "bias")}
    values |= {"output.bias": at["heads.next.softmax.scores.bias"]}
    made.load_state_dict(values | ({"straight.weight": scores[:, 7:]} if direct else {}))
    return made


def window_of(row: list[int], window: int) -> list[int]:
    """The last words of a row, since its last end; before it, ends."""
    since = max([at for at, token in enumerate(row) if token == END], default=0)
    return ([END] * window + row[since:])[-window:]


@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize("window", [1, 2, 4])
def test_it_is_the_textbooks_network(window: int, direct: bool):
    model = network(window=window, direct=direct)
    plain, predictor = plain_of(model, window, direct=direct), causal_lm_for(model)
    rows = [np.append([END], row) for row in rows_of(9, 1, 4, vocabulary=VOCABULARY)]
    rows[0][5] = END  # another document begins here
    for row, found in zip(rows, predictor.score(rows), strict=True):
        ids = row.tolist()
        expected = [float(plain(window_of(ids[:place], window))[ids[place]]) for place in range(1, len(ids))]
        assert found == pytest.approx(expected, abs=1e-5)
    tables = predictor.next_log_probs(rows)
    for row, found in zip(rows, tables, strict=True):
        assert found == pytest.approx(plain(window_of(row.tolist(), window)).numpy(), abs=1e-5)


@given(
    rows=st.lists(st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=9), min_size=1, max_size=4),
    window=st.integers(1, 5),
)
def test_windows_hold_the_last_words_of_the_document(rows: list[list[int]], window: int):
    encoder = NNLMEncoder(WordEmbedding(VOCABULARY, 2), window=window, inner=2, end_id=END)
    given = inputs(rows)
    places = encoder.window_positions(given["tokens"], [len(row) for row in rows])
    words = torch.cat((given["tokens"], torch.tensor([END])))[places].tolist()
    assert words == [window_of(row[: at + 1], window) for row in rows for at in range(len(row))]


@pytest.mark.parametrize("borders", [(), (4, 9)])
@pytest.mark.parametrize("direct", [False, True])
def test_reading_on_is_reading_anew(direct: bool, borders: tuple[int, ...]):
    """Token by token, with rows dropped, doubled and put in another order, and across an end."""
    model = network(direct=direct, borders=borders)
    predictor = causal_lm_for(model)
    assert isinstance(predictor, WindowCausalLM)
    rows = [np.append([END], row) for row in rows_of(1, 6, 2, vocabulary=VOCABULARY)]
    reader, rng = predictor.start_decoding(rows, 9), np.random.default_rng(0)
    for step in range(9):
        logits = torch.from_numpy(reader.next_logits()).log_softmax(1).numpy()
        assert logits == pytest.approx(predictor.next_log_probs(rows), abs=1e-5)
        taken = rng.integers(0, VOCABULARY, len(rows))
        taken[0] = END if step == 4 else taken[0]
        reader.append(taken)
        rows = [np.append(row, one) for row, one in zip(rows, taken, strict=True)]
        if step in (2, 6):
            order = np.array([2, 0, 0, 1])[: 4 if step == 2 else 3]
            reader.select(order)
            rows = [rows[one] for one in order.tolist()]


def test_scores_and_tables_are_one_distribution():
    for borders in ((), (4, 9)):
        predictor = causal_lm_for(network(borders=borders))
        rows = [np.append([END], row) for row in rows_of(7, 3, 12, vocabulary=VOCABULARY)]
        for row, scores in zip(rows, predictor.score(rows), strict=True):
            tables = predictor.next_log_probs([row[:place] for place in range(1, len(row))])
            assert np.exp(tables.astype(np.float64)).sum(1) == pytest.approx(1, abs=1e-5)
            assert scores == pytest.approx(tables[np.arange(len(row) - 1), row[1:]], abs=1e-5)
        assert [len(one) for one in predictor.score([rows[0], np.array([END])])] == [7, 0]


@pytest.mark.parametrize("borders", [(), (4, 9)])
@pytest.mark.parametrize("direct", [False, True])
def test_gradients_are_those_of_the_numbers(direct: bool, borders: tuple[int, ...]):
    """Each parameter's gradient of the loss, against the difference that a small change makes."""
    model = network(direct=direct, borders=borders).train()
    given = inputs(rows_of(6, 3, vocabulary=VOCABULARY))
    target = torch.tensor([5, -1, 20, 4, 11, 9, -1, 1, 0])
    model(given, {"next": target})["next"].backward()
    exact = network(direct=direct, borders=borders).double()
    step = 1e-6
    for (name, value), (_, copy) in zip(model.named_parameters(), exact.named_parameters(), strict=True):
        assert value.grad is not None
        at = int(value.grad.abs().argmax())
        with torch.no_grad():
            losses = []
            for change in (step, -2 * step):
                copy.view(-1)[at] += change
                losses.append(float(loss_of(exact, given, target)))
            copy.view(-1)[at] += step
        slope = (losses[0] - losses[1]) / (2 * step)
        assert float(value.grad.view(-1)[at]) == pytest.approx(slope, rel=1e-3, abs=1e-4), name


def loss_of(model: Model, given: dict[str, torch.Tensor], target: torch.Tensor) -> torch.Tensor:
    """By the table of all words, in double precision."""
    logits = model.logits(given)["next"]
    asked = target >= 0
    return torch.nn.functional.cross_entropy(logits[asked], target[asked], reduction="sum")


@torch.no_grad()
def test_only_what_is_asked_is_computed():
    """Few targets: the layer is made for their tokens alone, and says the same."""
    model, rows = network(), rows_of(9, 5, vocabulary=VOCABULARY)
    target = torch.full((14,), -1)
    target[[2, 10]] = torch.tensor([7, 8])
    states = model.encode(inputs(rows), {"next": target})
    assert states.last.shape == (2, 7)
    assert states.layers[0].shape == (14, 5)
    whole = model.encoder(**inputs(rows))
    assert torch.allclose(states.last, whole.last[[2, 10]], atol=1e-6)
    head = model.heads["next"]
    assert float(head.loss(states, target)) == pytest.approx(float(head.loss(whole, target)), rel=1e-6)


def test_the_vectors_of_words_are_the_first_layer():
    model = network()
    states = model.encoder(**inputs([[4, 9, 4]]))
    table = model.encoder.embedding.token.weight
    assert torch.equal(states.layers[0], table[[4, 9, 4]])
    one_hot = torch.eye(VOCABULARY)[[4, 9, 4]]  # a product with the matrix Q is the lookup of a row
    assert torch.allclose(one_hot @ table, states.layers[0])
    assert torch.equal(states.windows[2], table[[4, 9, 4]].flatten())
    assert not torch.equal(states.last[0], states.last[2])  # the same word in another window


def test_another_network_is_refused():
    model = network()
    with pytest.raises(InputError, match="does not predict the next token"):
        WindowCausalLM(Model(model.encoder, {}))
