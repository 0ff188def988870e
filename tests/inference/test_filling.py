"""Blanks filled by what hides behind them: every table and every choice beside the network asked directly."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from bigrams import Dreaming

from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.errors import ForebearError, InputError
from forebear.inference.fill import MAX_MASKS, fill_masks
from forebear.inference.score import score_texts
from forebear.models.bert import BertSpec
from forebear.nn.masked_lm import MaskedLM

pytestmark = pytest.mark.usefixtures("one_thread")


class Recording(Dreaming):
    """Answers that depend on every token of a row, by the rows that it was asked about; nothing is learned."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        super().__init__(tokenizer.vocab_size)
        self.mask, self.asked = tokenizer.special_roles["mask"], []

    def mask_log_probs(self, rows: list[np.ndarray]) -> list[np.ndarray]:
        self.asked += [row.tolist() for row in rows]
        return [
            np.array([self._logs([place, *row]) for place in np.flatnonzero(row == self.mask)]).reshape(-1, self._size)
            for row in rows
        ]


def network_of(tokenizer: Tokenizer, context: int = 16) -> MaskedLM:
    """An untrained BERT whose answers differ clearly."""
    model = BertSpec(width=16, depth=2, heads=2, context=context).build(tokenizer).initialize(1)
    with torch.no_grad():
        for value in model.parameters():
            if value.dim() > 1:
                value.mul_(8)
    roles = tokenizer.special_roles
    return MaskedLM(model.eval(), start=roles["start"], end=roles["end"], mask=roles["mask"])


@torch.inference_mode()
def directly(restorer: MaskedLM, row: list[int]) -> np.ndarray:
    """(hidden, V) P at each mask of a row, by all heads of the model."""
    tokens = torch.tensor([restorer.start, *row, restorer.end])
    logits = restorer.model.logits({"tokens": tokens, "lengths": torch.tensor([len(tokens)])})["token"]
    return torch.softmax(logits.double(), -1)[tokens == restorer.mask].numpy()


def mask_of(tokenizer: Tokenizer) -> str:
    return tokenizer.id_to_token(tokenizer.special_roles["mask"])


# -- the row


def test_a_blank_is_a_mask_between_the_tokens_around_it(cutter: Tokenizer):
    mask, ids = cutter.special_roles["mask"], lambda text: cutter.encode(text).ids.tolist()
    space = "" if cutter.kind == "bytepair" else " "  # there it belongs to what follows
    for blank in ("____", "＿＿＿", mask_of(cutter)):
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
            recording = Recording(cutter)
            filled = fill_masks(recording, cutter, text)
            assert recording.asked[0] == row
            assert len(filled.blanks) == len(filled.chosen_ids) == row.count(mask)


def test_masks_that_touch_are_one_blank(cutter: Tokenizer):
    mask, written = cutter.special_roles["mask"], mask_of(cutter)
    for text, tokens, hidden in (
        (f"我{written}{written}你", 1, 2),
        (f"我{written}{written}你", 3, 2),  # the mask hides one token, whatever ____ does
        ("我____你", 3, 3),
        (f"我____很{written}", 2, 3),
        (f"{written} {written}", 1, 2),
        ("____ ____", 2, 4),
    ):
        recording = Recording(cutter)
        filled = fill_masks(recording, cutter, text, tokens=tokens)
        assert recording.asked[0].count(mask) == len(filled.blanks) == hidden


def test_what_looks_like_a_mask_of_another_kind_is_text(cutters: dict[str, Tokenizer]):
    for kind, written in (("bytepair", "[MASK]"), ("wordpiece", "<mask>")):
        with pytest.raises(InputError, match="no blank") as caught:
            fill_masks(Recording(cutters[kind]), cutters[kind], f"the {written} sat")
        assert mask_of(cutters[kind]) in str(caught.value.hint)


# -- the tables


def allowed(tokenizer: Tokenizer, before: str) -> list[int]:
    """What may stand after a text: worked out from the spelling of tokens alone."""
    found = []
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
        found += [i] if fits else []
    return found


@pytest.mark.parametrize("text", ["the ____ sat", "____ sat", "我____你", "the ca____", "the ____ on the ____"])
def test_a_table_is_the_softmax_of_the_model_s_own_head(cutter: Tokenizer, text: str):
    """Shared out among the tokens that fit: nothing special, and a word begins or goes on as the text says."""
    restorer = network_of(cutter, context=32)
    filled = fill_masks(restorer, cutter, text, top=cutter.vocab_size)
    recording = Recording(cutter)
    fill_masks(recording, cutter, text)
    told = directly(restorer, recording.asked[0])
    parts = text.split("____")
    befores = ["____".join(parts[: number + 1]) for number in range(len(parts) - 1)]
    assert len(filled.blanks) == len(told) == len(befores)
    for table, shares, before in zip(filled.blanks, told, befores, strict=True):
        fit = allowed(cutter, before)
        expected = dict(zip(fit, (shares[fit] / shares[fit].sum()).tolist(), strict=True))
        assert {filler.id: filler.probability for filler in table} == pytest.approx(expected, rel=1e-5, abs=1e-6)
        falling = [filler.probability for filler in table]
        assert falling == sorted(falling, reverse=True)
        assert sum(falling) == pytest.approx(1)
        assert all(filler.token == cutter.id_to_token(filler.id) for filler in table)


def test_top_says_how_many(cutter: Tokenizer):
    for top in (1, 3):
        filled = fill_masks(Recording(cutter), cutter, "a ____ b ____", top=top)
        assert [len(table) for table in filled.blanks] == [top, top]


def test_further_tokens_of_a_blank_may_begin_or_go_on(cutters: dict[str, Tokenizer]):
    tokenizer = cutters["wordpiece"]
    filled = fill_masks(Recording(tokenizer), tokenizer, "the ____ sat", tokens=2, top=tokenizer.vocab_size)
    first, second = ({filler.token for filler in table} for table in filled.blanks)
    assert not any(token.startswith("##") for token in first)
    assert second == {token for i, token in enumerate(tokenizer.vocabulary()) if i not in tokenizer.special_ids}


# -- the whole


def greedily(recording: Recording, tokenizer: Tokenizer, row: list[int], fits: list[list[int]]):
    """The surest place first, then the others, each seeing what is filled: ids by place, and the log-probability."""
    row, places, total = list(row), [n for n, token in enumerate(row) if token == recording.mask], 0.0
    left = dict(zip(places, fits, strict=True))
    while left:
        shares = {}
        for place, fit in left.items():
            scores = np.exp(recording._logs([place, *row]))[fit]
            shares[place] = scores / scores.sum()
        place = max(left, key=lambda place: shares[place].max())
        row[place] = left[place][int(shares[place].argmax())]
        total += math.log(shares[place].max())
        del left[place]
    return [row[place] for place in places], total


@pytest.mark.parametrize(
    "text", ["the ____ sat", "____", "____ cat ____ dog ____", "我____你____", "the ca____ and ____ dog"]
)
def test_the_whole_is_filled_from_the_surest_place(cutter: Tokenizer, text: str):
    recording = Recording(cutter)
    filled = fill_masks(recording, cutter, text)
    row = recording.asked[0]
    parts = text.split("____")
    fits = [allowed(cutter, "____".join(parts[: number + 1])) for number in range(len(parts) - 1)]
    ids, total = greedily(Recording(cutter), cutter, row, fits)
    assert [filler.id for filler in filled.chosen_ids] == ids
    assert filled.log_prob == pytest.approx(total)
    assert math.fsum(math.log(filler.probability) for filler in filled.chosen_ids) == pytest.approx(total)
    made = parts[0]
    for number, i in enumerate(ids):
        made += cutter.decode([i]).strip().removeprefix("##") + parts[number + 1]
    assert filled.filled_text == made
    assert filled.text == text
    json.dumps(filled.to_dict(), allow_nan=False)


def test_a_single_blank_takes_the_best_of_its_table(cutter: Tokenizer):
    filled = fill_masks(network_of(cutter), cutter, "the ____ sat")
    assert filled.chosen_ids[0] == filled.blanks[0][0]
    assert filled.log_prob == pytest.approx(math.log(filled.blanks[0][0].probability))


def test_tokens_of_one_blank_are_written_together(cutters: dict[str, Tokenizer]):
    for kind, text in (("characters", "我[MASK][MASK]你"), ("wordpiece", "the [MASK][MASK] sat")):
        tokenizer = cutters[kind]
        filled = fill_masks(Recording(tokenizer), tokenizer, text)
        before, after = text.split("[MASK][MASK]")
        ids = [filler.id for filler in filled.chosen_ids]
        assert filled.filled_text == before + tokenizer.decode(ids).strip() + after


def test_text_around_blanks_is_left_as_it_is(cutter: Tokenizer):
    """Capitals, spaces and marks that a tokenizer forgets are the writer's."""
    text = "  THE  ____\tSat,  é ____ !\n"
    filled = fill_masks(Recording(cutter), cutter, text)
    parts = text.split("____")
    assert filled.filled_text.startswith(parts[0])
    assert filled.filled_text.endswith(parts[2])
    assert parts[1] in filled.filled_text


# -- long texts


def test_a_text_longer_than_the_context(cutter: Tokenizer):
    """Blanks at both ends of it, and far apart: each is answered from what stands around it."""
    restorer = network_of(cutter, context=12)
    around = "the cat sat on the mat and " * 6
    filled = fill_masks(restorer, cutter, f"____ {around}____ {around}____", top=cutter.vocab_size)
    assert len(filled.blanks) == 3
    for table in filled.blanks:
        assert sum(filler.probability for filler in table) == pytest.approx(1)
    near = fill_masks(restorer, cutter, f"____ {around}", top=cutter.vocab_size)
    one, other = ({filler.id: filler.probability for filler in filled.blanks[0]} for filled in (filled, near))
    assert one == pytest.approx(other, abs=1e-6)  # what is far away is not seen


# -- what makes no sense


def test_what_makes_no_sense_is_refused_with_a_remedy(cutter: Tokenizer):
    mask = mask_of(cutter)
    for text, how in (
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
            fill_masks(Recording(cutter), cutter, text, **how)
        assert caught.value.hint
    assert len(fill_masks(Recording(cutter), cutter, mask * MAX_MASKS).blanks) == MAX_MASKS


def test_a_damaged_network_is_no_answer(words: Tokenizer):
    restorer = network_of(words)
    with torch.no_grad():
        next(iter(restorer.model.parameters())).fill_(math.nan)
    with pytest.raises(ForebearError, match="no numbers"):
        fill_masks(restorer, words, "the ____")


def test_lone_surrogates_do_no_harm(cutter: Tokenizer):
    assert fill_masks(Recording(cutter), cutter, "the \ud800 ____").filled_text.startswith("the \ufffd ")


# -- how probable a text is


@pytest.mark.parametrize("text", ["the cat sat", "我很喜欢你", "the zebra ☃ sat", "a"])
def test_the_score_of_a_text_is_that_of_each_token_hidden_alone(cutter: Tokenizer, text: str):
    restorer = network_of(cutter, context=40)
    (scored,) = score_texts(restorer, cutter, text)
    assert scored.is_pseudo_likelihood
    ids = cutter.encode(text).ids.tolist()
    assert len(scored.tokens) == len(ids)
    for place, (token, i) in enumerate(zip(scored.tokens, ids, strict=True)):
        row = [*ids[:place], restorer.mask, *ids[place + 1 :]]
        assert token.id == i
        assert token.log_prob == pytest.approx(math.log(directly(restorer, row)[0, i]), abs=2e-5)


def test_whether_a_text_ends_is_not_asked(words: Tokenizer):
    with pytest.raises(InputError) as caught:
        score_texts(network_of(words), words, "the cat", ends=True)
    assert "--ends" in str(caught.value.hint)
