"""Filling masks: candidates, probabilities and choices equal those of the network called directly."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from toy_language_models import HashedLM

from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.errors import ForebearError, InputError
from forebear.inference.fill import MAX_MASKS, fill_masks
from forebear.inference.score import score_texts
from forebear.models.bert import BertSpec
from forebear.nn.masked_token_predictor import MaskedTokenPredictor

pytestmark = pytest.mark.usefixtures("one_thread")


class RecordingMaskedLM(HashedLM):
    """A masked language model that hashes the whole row and records the rows it is called with."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        super().__init__(tokenizer.vocab_size)
        self.mask_id, self.called_rows = tokenizer.special_roles["mask"], []

    def mask_log_probs(self, rows: list[np.ndarray]) -> list[np.ndarray]:
        self.called_rows += [row.tolist() for row in rows]
        return [
            np.array([self._logs([position, *row]) for position in np.flatnonzero(row == self.mask_id)]).reshape(
                -1, self._size
            )
            for row in rows
        ]


def untrained_masked_lm(tokenizer: Tokenizer, context: int = 16) -> MaskedTokenPredictor:
    """An untrained BERT whose answers differ clearly."""
    model = BertSpec(width=16, depth=2, heads=2, context=context).build(tokenizer).initialize(1)
    with torch.no_grad():
        for value in model.parameters():
            if value.dim() > 1:
                value.mul_(8)
    roles = tokenizer.special_roles
    return MaskedTokenPredictor(model.eval(), start_id=roles["start"], end_id=roles["end"], mask_id=roles["mask"])


@torch.inference_mode()
def mask_probabilities(masked_lm: MaskedTokenPredictor, row: list[int]) -> np.ndarray:
    """(masks, V) P at each mask of a row, by the model called directly."""
    tokens = torch.tensor([masked_lm.start_id, *row, masked_lm.end_id])
    logits = masked_lm.model.logits({"tokens": tokens, "lengths": torch.tensor([len(tokens)])})["token"]
    return torch.softmax(logits.double(), -1)[tokens == masked_lm.mask_id].numpy()


def mask_token(tokenizer: Tokenizer) -> str:
    return tokenizer.id_to_token(tokenizer.special_roles["mask"])


# -- the row


def test_blank_becomes_a_mask_between_its_neighbor_tokens(mask_tokenizer: Tokenizer):
    mask, ids = mask_tokenizer.special_roles["mask"], lambda text: mask_tokenizer.encode(text).ids.tolist()
    space = "" if mask_tokenizer.kind == "bytepair" else " "  # there it belongs to what follows
    for blank in ("____", "＿＿＿", mask_token(mask_tokenizer)):
        expected = {
            f"the {blank} sat": [*ids("the" + space), mask, *ids(" sat")],
            blank: [mask],
            f"{blank} sat": [mask, *ids(" sat")],
            f"the {blank}": [*ids("the" + space), mask],
            f"我{blank}你": [*ids("我"), mask, *ids("你")],
            f"the ca{blank}": [*ids("the ca"), mask],
            f"{blank}, {blank}": [mask, *ids("," + space), mask],
            f"a {blank} {blank} b": [*ids("a" + space), mask, *ids(space), mask, *ids(" b")],
        }
        for text, row in expected.items():
            recording = RecordingMaskedLM(mask_tokenizer)
            filled = fill_masks(recording, mask_tokenizer, text)
            assert recording.called_rows[0] == row
            assert len(filled.blanks) == len(filled.chosen_tokens) == row.count(mask)


def test_adjacent_masks_are_one_blank(mask_tokenizer: Tokenizer):
    mask, mask_text = mask_tokenizer.special_roles["mask"], mask_token(mask_tokenizer)
    for text, tokens, num_masks in (
        (f"我{mask_text}{mask_text}你", 1, 2),
        (f"我{mask_text}{mask_text}你", 3, 2),  # a mask is one token, with any length of ____
        ("我____你", 3, 3),
        (f"我____很{mask_text}", 2, 3),
        (f"{mask_text} {mask_text}", 1, 2),
        ("____ ____", 2, 4),
    ):
        recording = RecordingMaskedLM(mask_tokenizer)
        filled = fill_masks(recording, mask_tokenizer, text, tokens=tokens)
        assert recording.called_rows[0].count(mask) == len(filled.blanks) == num_masks


def test_mask_token_of_another_tokenizer_is_plain_text(mask_tokenizers: dict[str, Tokenizer]):
    for kind, foreign_mask in (("bytepair", "[MASK]"), ("wordpiece", "<mask>")):
        with pytest.raises(InputError, match="no blank") as caught:
            fill_masks(RecordingMaskedLM(mask_tokenizers[kind]), mask_tokenizers[kind], f"the {foreign_mask} sat")
        assert mask_token(mask_tokenizers[kind]) in str(caught.value.hint)


# -- candidates


def fitting_ids(tokenizer: Tokenizer, before: str) -> list[int]:
    """The ids that may follow a text, from the spelling of tokens alone."""
    ids = []
    for i, token in enumerate(tokenizer.vocabulary()):
        if i in tokenizer.special_ids:
            continue
        if tokenizer.kind == "wordpiece":
            attached = before[-1:].isascii() and before[-1:].isalnum()
            fits = token.startswith("##") == attached
        elif tokenizer.kind == "bytepair":
            text = tokenizer.decode([i])
            fits = "\ufffd" not in text and bool(text.strip()) and token.startswith("Ġ") == before.endswith(" ")
        else:
            fits = bool(token.strip())
        ids += [i] if fits else []
    return ids


@pytest.mark.parametrize("text", ["the ____ sat", "____ sat", "我____你", "the ca____", "the ____ on the ____"])
def test_fill_probabilities_are_the_softmax_over_fitting_tokens(mask_tokenizer: Tokenizer, text: str):
    """Renormalized over fitting tokens: no special ones, and word starts or continuations as the text requires."""
    masked_lm = untrained_masked_lm(mask_tokenizer, context=32)
    filled = fill_masks(masked_lm, mask_tokenizer, text, top=mask_tokenizer.vocab_size)
    recording = RecordingMaskedLM(mask_tokenizer)
    fill_masks(recording, mask_tokenizer, text)
    probs_by_mask = mask_probabilities(masked_lm, recording.called_rows[0])
    parts = text.split("____")
    befores = ["____".join(parts[: number + 1]) for number in range(len(parts) - 1)]
    assert len(filled.blanks) == len(probs_by_mask) == len(befores)
    for table, probs, before in zip(filled.blanks, probs_by_mask, befores, strict=True):
        ids = fitting_ids(mask_tokenizer, before)
        expected = dict(zip(ids, (probs[ids] / probs[ids].sum()).tolist(), strict=True))
        assert {filler.id: filler.probability for filler in table} == pytest.approx(expected, rel=1e-5, abs=1e-6)
        probabilities = [filler.probability for filler in table]
        assert probabilities == sorted(probabilities, reverse=True)
        assert sum(probabilities) == pytest.approx(1)
        assert all(filler.token == mask_tokenizer.id_to_token(filler.id) for filler in table)


def test_top_is_the_number_of_candidates(mask_tokenizer: Tokenizer):
    for top in (1, 3):
        filled = fill_masks(RecordingMaskedLM(mask_tokenizer), mask_tokenizer, "a ____ b ____", top=top)
        assert [len(table) for table in filled.blanks] == [top, top]


def test_later_masks_of_a_blank_may_start_or_continue_words(mask_tokenizers: dict[str, Tokenizer]):
    tokenizer = mask_tokenizers["wordpiece"]
    filled = fill_masks(RecordingMaskedLM(tokenizer), tokenizer, "the ____ sat", tokens=2, top=tokenizer.vocab_size)
    first, second = ({filler.token for filler in table} for table in filled.blanks)
    assert not any(token.startswith("##") for token in first)
    assert second == {token for i, token in enumerate(tokenizer.vocabulary()) if i not in tokenizer.special_ids}


# -- the filled text


def greedy_fill(recording: RecordingMaskedLM, tokenizer: Tokenizer, row: list[int], fits: list[list[int]]):
    """The most confident mask first, each seeing those filled before: ids by position, and the log-probability."""
    row, positions, total = list(row), [n for n, token in enumerate(row) if token == recording.mask_id], 0.0
    open_masks = dict(zip(positions, fits, strict=True))
    while open_masks:
        probabilities = {}
        for position, ids in open_masks.items():
            scores = np.exp(recording._logs([position, *row]))[ids]
            probabilities[position] = scores / scores.sum()
        position = max(open_masks, key=lambda mask: probabilities[mask].max())
        row[position] = open_masks[position][int(probabilities[position].argmax())]
        total += math.log(probabilities[position].max())
        del open_masks[position]
    return [row[position] for position in positions], total


@pytest.mark.parametrize(
    "text", ["the ____ sat", "____", "____ cat ____ dog ____", "我____你____", "the ca____ and ____ dog"]
)
def test_masks_are_filled_from_the_most_confident_one(mask_tokenizer: Tokenizer, text: str):
    recording = RecordingMaskedLM(mask_tokenizer)
    filled = fill_masks(recording, mask_tokenizer, text)
    row = recording.called_rows[0]
    parts = text.split("____")
    fits = [fitting_ids(mask_tokenizer, "____".join(parts[: number + 1])) for number in range(len(parts) - 1)]
    ids, total = greedy_fill(RecordingMaskedLM(mask_tokenizer), mask_tokenizer, row, fits)
    assert [filler.id for filler in filled.chosen_tokens] == ids
    assert filled.log_prob == pytest.approx(total)
    assert math.fsum(math.log(filler.probability) for filler in filled.chosen_tokens) == pytest.approx(total)
    expected_text = parts[0]
    for number, i in enumerate(ids):
        expected_text += mask_tokenizer.decode([i]).strip().removeprefix("##") + parts[number + 1]
    assert filled.filled_text == expected_text
    assert filled.text == text
    json.dumps(filled.to_dict(), allow_nan=False)


def test_single_blank_takes_its_best_candidate(mask_tokenizer: Tokenizer):
    filled = fill_masks(untrained_masked_lm(mask_tokenizer), mask_tokenizer, "the ____ sat")
    assert filled.chosen_tokens[0] == filled.blanks[0][0]
    assert filled.log_prob == pytest.approx(math.log(filled.blanks[0][0].probability))


def test_tokens_of_one_blank_are_joined(mask_tokenizers: dict[str, Tokenizer]):
    for kind, text in (("characters", "我[MASK][MASK]你"), ("wordpiece", "the [MASK][MASK] sat")):
        tokenizer = mask_tokenizers[kind]
        filled = fill_masks(RecordingMaskedLM(tokenizer), tokenizer, text)
        before, after = text.split("[MASK][MASK]")
        ids = [filler.id for filler in filled.chosen_tokens]
        assert filled.filled_text == before + tokenizer.decode(ids).strip() + after


def test_text_around_blanks_is_left_as_it_is(mask_tokenizer: Tokenizer):
    """Case, spaces and accents that a tokenizer loses are kept from the input."""
    text = "  THE  ____\tSat,  é ____ !\n"
    filled = fill_masks(RecordingMaskedLM(mask_tokenizer), mask_tokenizer, text)
    parts = text.split("____")
    assert filled.filled_text.startswith(parts[0])
    assert filled.filled_text.endswith(parts[2])
    assert parts[1] in filled.filled_text


# -- long texts


def test_blanks_of_a_text_longer_than_the_context_are_filled_locally(mask_tokenizer: Tokenizer):
    """Blanks at both ends and far apart: each is filled from its surrounding text."""
    masked_lm = untrained_masked_lm(mask_tokenizer, context=12)
    filler_text = "the cat sat on the mat and " * 6
    filled = fill_masks(
        masked_lm, mask_tokenizer, f"____ {filler_text}____ {filler_text}____", top=mask_tokenizer.vocab_size
    )
    assert len(filled.blanks) == 3
    for table in filled.blanks:
        assert sum(filler.probability for filler in table) == pytest.approx(1)
    near_end = fill_masks(masked_lm, mask_tokenizer, f"____ {filler_text}", top=mask_tokenizer.vocab_size)
    probs, near_probs = (
        {filler.id: filler.probability for filler in filled.blanks[0]} for filled in (filled, near_end)
    )
    assert probs == pytest.approx(near_probs, abs=1e-6)  # what is far away is not seen


# -- invalid calls


def test_invalid_fill_calls_are_refused_with_a_hint(mask_tokenizer: Tokenizer):
    mask = mask_token(mask_tokenizer)
    for text, options in (
        ("the cat sat", {}),
        ("", {}),
        ("__init__ a_b", {}),
        (f"{mask} " * (MAX_MASKS + 1), {}),
        (mask * (MAX_MASKS + 1), {}),
        ("____ ____", {"tokens": MAX_MASKS // 2 + 1}),
        ("____", {"top": 0}),
        ("____", {"tokens": 0}),
        ("____", {"tokens": -1}),
    ):
        with pytest.raises(InputError) as caught:
            fill_masks(RecordingMaskedLM(mask_tokenizer), mask_tokenizer, text, **options)
        assert caught.value.hint
    assert len(fill_masks(RecordingMaskedLM(mask_tokenizer), mask_tokenizer, mask * MAX_MASKS).blanks) == MAX_MASKS


def test_network_with_nan_weights_is_refused(word_tokenizer: Tokenizer):
    masked_lm = untrained_masked_lm(word_tokenizer)
    with torch.no_grad():
        next(iter(masked_lm.model.parameters())).fill_(math.nan)
    with pytest.raises(ForebearError, match="no numbers"):
        fill_masks(masked_lm, word_tokenizer, "the ____")


def test_lone_surrogates_are_replaced_in_filled_text(mask_tokenizer: Tokenizer):
    assert fill_masks(RecordingMaskedLM(mask_tokenizer), mask_tokenizer, "the \ud800 ____").filled_text.startswith(
        "the \ufffd "
    )


# -- pseudo-log-likelihood


@pytest.mark.parametrize("text", ["the cat sat", "我很喜欢你", "the zebra ☃ sat", "a"])
def test_text_score_masks_each_token_alone(mask_tokenizer: Tokenizer, text: str):
    masked_lm = untrained_masked_lm(mask_tokenizer, context=40)
    (scored,) = score_texts(masked_lm, mask_tokenizer, text)
    assert scored.is_pseudo_likelihood
    ids = mask_tokenizer.encode(text).ids.tolist()
    assert len(scored.tokens) == len(ids)
    for position, (token, i) in enumerate(zip(scored.tokens, ids, strict=True)):
        row = [*ids[:position], masked_lm.mask_id, *ids[position + 1 :]]
        assert token.id == i
        assert token.log_prob == pytest.approx(math.log(mask_probabilities(masked_lm, row)[0, i]), abs=2e-5)


def test_masked_lm_score_with_ends_is_refused(word_tokenizer: Tokenizer):
    with pytest.raises(InputError) as caught:
        score_texts(untrained_masked_lm(word_tokenizer), word_tokenizer, "the cat", ends=True)
    assert "--ends" in str(caught.value.hint)
