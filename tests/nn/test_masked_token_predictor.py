"""Masked-LM predictions against the model called directly, position by position and window by window."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_networks import VOCABULARY, decoder_model, rows_of
from torch.nn import functional

from forebear.errors import ForebearError
from forebear.nn import encode_rows, masked_token_predictor
from forebear.nn.embedding import InputEmbedding
from forebear.nn.heads import LMHead, PoolerHead
from forebear.nn.masked_token_predictor import MaskedTokenPredictor
from forebear.nn.model import Model
from forebear.nn.transformer import Transformer

START, END, MASK = 2, 3, 4
CONTEXT = 12
ROOM = CONTEXT - 2


def encoder_model(*, table: int = 32, transform: str | None = "gelu", pair: bool = True, shared: bool = False) -> Model:
    """A bidirectional model with weights so large that its predictions differ clearly between positions."""
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
    """Such small networks are slower with several threads."""
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
def predictor(model: Model) -> MaskedTokenPredictor:
    return MaskedTokenPredictor(model, start_id=START, end_id=END, mask_id=MASK)


@torch.inference_mode()
def reference_log_probs(model: Model, row: list[int], position: int) -> np.ndarray:
    """Log-probabilities at one position of [start, row, end], from the head's formula and the model's tensors."""
    tokens = torch.tensor([START, *row, END])
    x = model.encoder(tokens, [len(tokens)]).last[position + 1]
    tensors = model.tensors()
    if "heads.token.transform.weight" in tensors:
        x = functional.gelu(tensors["heads.token.transform.weight"] @ x + tensors["heads.token.transform.bias"])
        scale, shift = (tensors[f"heads.token.transform_norm.{name}"] for name in ("weight", "bias"))
        x = functional.layer_norm(x, (len(x),), scale, shift, 1e-12)
    logits = tensors["encoder.embedding.token.weight"] @ x + tensors["heads.token.bias"]
    return (logits.double() - torch.logsumexp(logits.double(), 0)).numpy()


def random_texts(*lengths: int, seed: int = 0) -> list[list[int]]:
    return [np.maximum(row, 5).tolist() for row in rows_of(*lengths, seed=seed)]


def mask_positions(row: list[int], *positions: int) -> list[int]:
    return [MASK if position in positions else token for position, token in enumerate(row)]


def centered_windows(length: int, first: int, last: int) -> list[int]:
    """Starts of the windows that contain both positions and are most symmetric around them, by trying all."""
    if length <= ROOM:
        return [0]
    starts = [start for start in range(length - ROOM + 1) if start <= first and last < start + ROOM]
    asymmetry = [abs((first - start) - (start + ROOM - 1 - last)) for start in starts]
    return [start for start, difference in zip(starts, asymmetry, strict=True) if difference == min(asymmetry)]


# -- fill


def test_mask_log_probs_of_one_mask_equal_head_softmax(model: Model, predictor: MaskedTokenPredictor):
    for length in range(1, ROOM + 1):
        row = random_texts(length, seed=length)[0]
        for position in range(length):
            log_probs = predictor.mask_log_probs([np.array(mask_positions(row, position))])
            assert len(log_probs) == 1
            assert log_probs[0].shape == (1, VOCABULARY)
            assert log_probs[0][0] == pytest.approx(
                reference_log_probs(model, mask_positions(row, position), position), abs=2e-5
            )


def test_mask_log_probs_of_several_masks_in_several_texts(model: Model, predictor: MaskedTokenPredictor):
    """All masks of a text are masked at once; texts are independent."""
    rows = [
        mask_positions(row, *positions)
        for row, positions in zip(random_texts(10, 4, 7), [(0, 3, 9), (), (2, 3)], strict=True)
    ]
    log_probs = predictor.mask_log_probs([np.array(row) for row in rows])
    assert [len(row_log_probs) for row_log_probs in log_probs] == [3, 0, 2]
    for row, mask_rows in zip(rows, log_probs, strict=True):
        positions = [position for position, token in enumerate(row) if token == MASK]
        for position, mask_row in zip(positions, mask_rows, strict=True):
            assert mask_row == pytest.approx(reference_log_probs(model, row, position), abs=2e-5)


def test_mask_log_probs_of_masks_only(model: Model, predictor: MaskedTokenPredictor):
    row = [MASK] * ROOM
    for position, log_probs in enumerate(predictor.mask_log_probs([np.array(row)])[0]):
        assert log_probs == pytest.approx(reference_log_probs(model, row, position), abs=2e-5)


BIDIRECTIONAL_MODEL = encoder_model()


@settings(max_examples=40)
@given(length=st.integers(1, 40), data=st.data())
def test_long_text_window_is_centered_on_its_masks(length: int, data: st.DataObject):
    model = BIDIRECTIONAL_MODEL
    first = data.draw(st.integers(0, length - 1))
    last = data.draw(st.integers(first, min(length - 1, first + ROOM - 1)))
    row = mask_positions(random_texts(length, seed=length)[0], first, last)
    log_probs = MaskedTokenPredictor(model, start_id=START, end_id=END, mask_id=MASK).mask_log_probs([np.array(row)])[0]
    for position, mask_log_probs in zip(sorted({first, last}), log_probs, strict=True):
        expected = [
            reference_log_probs(model, row[start : start + ROOM], position - start)
            for start in centered_windows(length, first, last)
        ]
        assert min(np.abs(mask_log_probs - candidate).max() for candidate in expected) < 2e-5


@pytest.mark.parametrize("positions", [(0, 17, 34), (3, 3 + ROOM), (0, ROOM, 2 * ROOM)])
def test_masks_too_far_apart_are_predicted_in_separate_windows(
    predictor: MaskedTokenPredictor, positions: tuple[int, ...]
):
    """In text order, each from its own window."""
    row = mask_positions(random_texts(35)[0], *positions)
    log_probs = predictor.mask_log_probs([np.array(row)])[0]
    assert log_probs.shape == (len(positions), VOCABULARY)
    for position, mask_log_probs in zip(positions, log_probs, strict=True):
        expected = [
            reference_log_probs(predictor.model, row[start : start + ROOM], position - start)
            for start in centered_windows(35, position, position)
        ]
        assert min(np.abs(mask_log_probs - candidate).max() for candidate in expected) < 2e-5


# -- score


def brute_force(model: Model, text: list[int]) -> list[list[float]]:
    """For each token, its log-probability in each of the most symmetric windows where it alone is masked."""
    scores = []
    for position, token in enumerate(text):
        row = mask_positions(text, position)
        starts = centered_windows(len(text), position, position)
        scores.append(
            [reference_log_probs(model, row[start : start + ROOM], position - start)[token] for start in starts]
        )
    return scores


@pytest.mark.parametrize("at_once", [1, 40, 4096])
def test_pseudo_log_likelihood_masks_each_token_alone(
    model: Model, predictor: MaskedTokenPredictor, at_once: int, monkeypatch: pytest.MonkeyPatch
):
    """For any batch size: short texts, a single token, one that just fits and longer ones."""
    monkeypatch.setattr(encode_rows, "BATCH_TOKENS", at_once)
    monkeypatch.setattr(masked_token_predictor, "BATCH_TOKENS", at_once)
    texts = random_texts(5, 1, ROOM, ROOM + 1, 23, 5, seed=at_once)
    results = predictor.score([np.array([END, *text]) for text in texts])
    assert [len(scores) for scores in results] == [len(text) for text in texts]
    for text, scores in zip(texts, results, strict=True):
        for score, expected in zip(scores.tolist(), brute_force(model, text), strict=True):
            assert min(abs(score - candidate) for candidate in expected) < 5e-5


def test_masked_lm_score_ignores_the_start_token(predictor: MaskedTokenPredictor):
    text = random_texts(6)[0]
    with_end, with_start = predictor.score([np.array([END, *text]), np.array([START, *text])])
    assert np.array_equal(with_end, with_start)
    assert [len(scores) for scores in predictor.score([np.array([END]), np.array([END, 7])])] == [0, 1]


def test_masked_lm_leaves_input_unchanged(predictor: MaskedTokenPredictor):
    row = np.array([END, *random_texts(20)[0]])
    before = row.copy()
    predictor.score([row])
    predictor.mask_log_probs([row])
    assert np.array_equal(row, before)


# -- evaluate


def test_evaluate_batch_gives_token_log_probs_and_accuracies():
    """Two sequences with segments: log-probabilities of labels, MLM accuracy and sentence-pair accuracy."""
    model = encoder_model()
    rows, first_lengths = [[START, 7, MASK, END, 9, 10, END], [START, MASK, 8, END, 11, END]], [4, 4]
    segments = [
        [0] * first_length + [1] * (len(row) - first_length)
        for row, first_length in zip(rows, first_lengths, strict=True)
    ]
    targets = np.full(13, -1)
    targets[[2, 5, 8]] = [20, 10, 21]
    inputs = {
        "tokens": np.concatenate(rows),
        "lengths": np.array([len(row) for row in rows]),
        "segments": np.concatenate(segments),
    }
    with torch.inference_mode():
        logits = [
            model.logits(
                {"tokens": torch.tensor(row), "lengths": torch.tensor([len(row)]), "segments": torch.tensor(segment)}
            )
            for row, segment in zip(rows, segments, strict=True)
        ]
    token = torch.log_softmax(torch.cat([row_logits["token"] for row_logits in logits]).double(), -1).numpy()
    pair = torch.cat([row_logits["pair"] for row_logits in logits]).argmax(1).numpy()
    predictor = MaskedTokenPredictor(model, start_id=START, end_id=END, mask_id=MASK)
    best = token.argmax(1)
    for labels in (targets, np.where(targets >= 0, best, -1)):
        for pairs in (pair, 1 - pair, np.array([-1, pair[1]]), np.array([-1, -1])):
            results = predictor.evaluate_batch(inputs, {"token": labels, "pair": pairs})
            positions = np.flatnonzero(labels >= 0)
            assert results["token"] == pytest.approx(token[positions, labels[positions]], abs=2e-5)
            assert results["right"].tolist() == (best[positions] == labels[positions]).tolist()
            assert results["pair"].tolist() == [
                guess == gold for guess, gold in zip(pair.tolist(), pairs.tolist(), strict=True) if gold >= 0
            ]


def test_evaluate_batch_without_supervised_positions():
    inputs = {"tokens": np.array([START, 7, END]), "lengths": np.array([3])}
    results = MaskedTokenPredictor(encoder_model(), start_id=START, end_id=END, mask_id=MASK).evaluate_batch(
        inputs, {"token": np.full(3, -1)}
    )
    assert len(results["token"]) == len(results["right"]) == 0


def test_masked_lm_refuses_model_without_mlm_head():
    with pytest.raises(ForebearError, match="hidden tokens") as caught:
        MaskedTokenPredictor(decoder_model(), start_id=START, end_id=END, mask_id=MASK)
    assert caught.value.hint
