"""What stands where something is hidden: beside the model called directly, place by place and window by window."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from building import VOCABULARY, decoder_model, rows_of
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from forebear.errors import ForebearError
from forebear.nn import encode_rows, masked_lm
from forebear.nn.embedding import InputEmbedding
from forebear.nn.heads import LMHead, PoolerHead
from forebear.nn.masked_lm import MaskedLM
from forebear.nn.model import Model
from forebear.nn.transformer import Transformer

START, END, MASK = 2, 3, 4
CONTEXT = 12
ROOM = CONTEXT - 2


def encoder_model(*, table: int = 32, transform: str | None = "gelu", pair: bool = True, shared: bool = False) -> Model:
    """One that sees both sides, with weights large enough that its answers differ clearly from place to place."""
    embedding = InputEmbedding(VOCABULARY, table, positions=CONTEXT, num_segments=2, norm=True, epsilon=1e-12)
    encoder = Transformer(
        embedding,
        depth=2,
        width=32,
        num_heads=4,
        inner=64,
        norm="post",
        sees="all",
        activation="gelu",
        shared=shared,
        epsilon=1e-12,
    )
    heads: dict[str, torch.nn.Module] = {
        "token": LMHead(embedding, width=32, bias=True, transform=transform, epsilon=1e-12)
    }
    if pair:
        heads["pair"] = PoolerHead(32, 2)
    model = Model(encoder, heads).initialize(3)
    with torch.no_grad():
        for name, value in model.named_parameters():
            if value.dim() > 1:
                value.mul_(6)
            elif name.endswith("bias"):
                value.normal_(0, 0.5, generator=torch.Generator().manual_seed(len(name)))
    return model.eval()


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Networks so small only lose by more."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module", params=["bert", "albert", "bare"])
def model(request: pytest.FixtureRequest) -> Model:
    if request.param == "albert":
        return encoder_model(table=8, shared=True)
    return encoder_model(transform="gelu" if request.param == "bert" else None)


@pytest.fixture(scope="module")
def asked(model: Model) -> MaskedLM:
    return MaskedLM(model, start=START, end=END, mask=MASK)


@torch.inference_mode()
def directly(model: Model, row: list[int], place: int) -> np.ndarray:
    """log P at one place of [start, row, end], by the formula of the head and the model's own numbers."""
    tokens = torch.tensor([START, *row, END])
    x = model.encoder(tokens, [len(tokens)]).last[place + 1]
    own = model.tensors()
    if "heads.token.transform.weight" in own:
        x = functional.gelu(own["heads.token.transform.weight"] @ x + own["heads.token.transform.bias"])
        scale, shift = (own[f"heads.token.transform_norm.{name}"] for name in ("weight", "bias"))
        x = functional.layer_norm(x, (len(x),), scale, shift, 1e-12)
    logits = own["encoder.embedding.token.weight"] @ x + own["heads.token.bias"]
    return (logits.double() - torch.logsumexp(logits.double(), 0)).numpy()


def ordinary(*lengths: int, seed: int = 0) -> list[list[int]]:
    return [np.maximum(row, 5).tolist() for row in rows_of(*lengths, seed=seed)]


def hidden(row: list[int], *places: int) -> list[int]:
    return [MASK if place in places else token for place, token in enumerate(row)]


def windows(length: int, first: int, last: int) -> list[int]:
    """Where a window may begin that holds these places: those with the most even sides, found by trying all."""
    if length <= ROOM:
        return [0]
    able = [begin for begin in range(length - ROOM + 1) if begin <= first and last < begin + ROOM]
    uneven = [abs((first - begin) - (begin + ROOM - 1 - last)) for begin in able]
    return [begin for begin, sides in zip(able, uneven, strict=True) if sides == min(uneven)]


# -- fill


def test_one_blank_has_the_softmax_of_the_head(model: Model, asked: MaskedLM):
    for length in range(1, ROOM + 1):
        row = ordinary(length, seed=length)[0]
        for place in range(length):
            told = asked.mask_log_probs([np.array(hidden(row, place))])
            assert len(told) == 1
            assert told[0].shape == (1, VOCABULARY)
            assert told[0][0] == pytest.approx(directly(model, hidden(row, place), place), abs=2e-5)


def test_several_blanks_of_several_rows(model: Model, asked: MaskedLM):
    """Each sees the others hidden; the rows do not know of each other."""
    rows = [hidden(row, *places) for row, places in zip(ordinary(10, 4, 7), [(0, 3, 9), (), (2, 3)], strict=True)]
    told = asked.mask_log_probs([np.array(row) for row in rows])
    assert [len(one) for one in told] == [3, 0, 2]
    for row, answers in zip(rows, told, strict=True):
        places = [place for place, token in enumerate(row) if token == MASK]
        for place, answer in zip(places, answers, strict=True):
            assert answer == pytest.approx(directly(model, row, place), abs=2e-5)


def test_nothing_but_blanks(model: Model, asked: MaskedLM):
    row = [MASK] * ROOM
    for place, answer in enumerate(asked.mask_log_probs([np.array(row)])[0]):
        assert answer == pytest.approx(directly(model, row, place), abs=2e-5)


LARGE = encoder_model()


@settings(max_examples=40)
@given(length=st.integers(1, 40), data=st.data())
def test_a_window_holds_what_is_asked_in_its_middle(length: int, data: st.DataObject):
    model = LARGE
    first = data.draw(st.integers(0, length - 1))
    last = data.draw(st.integers(first, min(length - 1, first + ROOM - 1)))
    row = hidden(ordinary(length, seed=length)[0], first, last)
    told = MaskedLM(model, start=START, end=END, mask=MASK).mask_log_probs([np.array(row)])[0]
    for place, answer in zip(sorted({first, last}), told, strict=True):
        expected = [directly(model, row[begin : begin + ROOM], place - begin) for begin in windows(length, first, last)]
        assert min(np.abs(answer - one).max() for one in expected) < 2e-5


@pytest.mark.parametrize("places", [(0, 17, 34), (3, 3 + ROOM), (0, ROOM, 2 * ROOM)])
def test_blanks_too_far_apart_for_one_row_are_asked_apart(asked: MaskedLM, places: tuple[int, ...]):
    """At both ends and in the middle, or just too far: in the order of the text, each from its own window."""
    row = hidden(ordinary(35)[0], *places)
    told = asked.mask_log_probs([np.array(row)])[0]
    assert told.shape == (len(places), VOCABULARY)
    for place, answer in zip(places, told, strict=True):
        expected = [
            directly(asked.model, row[begin : begin + ROOM], place - begin) for begin in windows(35, place, place)
        ]
        assert min(np.abs(answer - one).max() for one in expected) < 2e-5


# -- score


def brute_force(model: Model, text: list[int]) -> list[list[float]]:
    """For each token what each most even window says of it, where it alone is hidden."""
    told = []
    for place, token in enumerate(text):
        row = hidden(text, place)
        begins = windows(len(text), place, place)
        told.append([directly(model, row[begin : begin + ROOM], place - begin)[token] for begin in begins])
    return told


@pytest.mark.parametrize("at_once", [1, 40, 4096])
def test_scores_are_those_of_each_token_hidden_alone(
    model: Model, asked: MaskedLM, at_once: int, monkeypatch: pytest.MonkeyPatch
):
    """Whatever is read at once: short texts, one of a single token, one that just fits, ones that do not."""
    monkeypatch.setattr(encode_rows, "BATCH_TOKENS", at_once)
    monkeypatch.setattr(masked_lm, "BATCH_TOKENS", at_once)
    texts = ordinary(5, 1, ROOM, ROOM + 1, 23, 5, seed=at_once)
    told = asked.score([np.array([END, *text]) for text in texts])
    assert [len(scores) for scores in told] == [len(text) for text in texts]
    for text, scores in zip(texts, told, strict=True):
        for score, expected in zip(scores.tolist(), brute_force(model, text), strict=True):
            assert min(abs(score - one) for one in expected) < 5e-5


def test_what_stands_first_in_a_row_only_says_that_a_text_begins(asked: MaskedLM):
    text = ordinary(6)[0]
    one, other = asked.score([np.array([END, *text]), np.array([START, *text])])
    assert np.array_equal(one, other)
    assert [len(scores) for scores in asked.score([np.array([END]), np.array([END, 7])])] == [0, 1]


def test_asking_leaves_the_texts_as_they_are(asked: MaskedLM):
    row = np.array([END, *ordinary(20)[0]])
    before = row.copy()
    asked.score([row])
    asked.mask_log_probs([row])
    assert np.array_equal(row, before)


# -- examine


def test_a_batch_is_examined_place_by_place():
    """Two rows with segments: log P of what is asked, whether it was the best, and the answer about the halves."""
    model = encoder_model()
    rows, halves = [[START, 7, MASK, END, 9, 10, END], [START, MASK, 8, END, 11, END]], [4, 4]
    segments = [[0] * half + [1] * (len(row) - half) for row, half in zip(rows, halves, strict=True)]
    targets = np.full(13, -1)
    targets[[2, 5, 8]] = [20, 10, 21]
    inputs = {
        "tokens": np.concatenate(rows),
        "lengths": np.array([len(row) for row in rows]),
        "segments": np.concatenate(segments),
    }
    with torch.inference_mode():
        answers = [
            model.logits(
                {"tokens": torch.tensor(row), "lengths": torch.tensor([len(row)]), "segments": torch.tensor(segment)}
            )
            for row, segment in zip(rows, segments, strict=True)
        ]
    token = torch.log_softmax(torch.cat([one["token"] for one in answers]).double(), -1).numpy()
    pair = torch.cat([one["pair"] for one in answers]).argmax(1).numpy()
    asked = MaskedLM(model, start=START, end=END, mask=MASK)
    best = token.argmax(1)
    for wanted in (targets, np.where(targets >= 0, best, -1)):
        for pairs in (pair, 1 - pair, np.array([-1, pair[1]]), np.array([-1, -1])):
            told = asked.evaluate_batch(inputs, {"token": wanted, "pair": pairs})
            places = np.flatnonzero(wanted >= 0)
            assert told["token"] == pytest.approx(token[places, wanted[places]], abs=2e-5)
            assert told["right"].tolist() == (best[places] == wanted[places]).tolist()
            assert told["pair"].tolist() == [
                guess == answer for guess, answer in zip(pair.tolist(), pairs.tolist(), strict=True) if answer >= 0
            ]


def test_a_batch_in_which_nothing_is_asked():
    inputs = {"tokens": np.array([START, 7, END]), "lengths": np.array([3])}
    told = MaskedLM(encoder_model(), start=START, end=END, mask=MASK).evaluate_batch(inputs, {"token": np.full(3, -1)})
    assert len(told["token"]) == len(told["right"]) == 0


def test_a_model_without_the_head_is_refused():
    with pytest.raises(ForebearError, match="hidden tokens") as caught:
        MaskedLM(decoder_model(), start=START, end=END, mask=MASK)
    assert caught.value.hint
