"""How well hidden tokens are found: totals beside the network asked directly, row by row."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from forebear.data.corpus.corpus import Corpus
from forebear.data.corpus.prepare import prepare_corpus
from forebear.data.corpus.subset import Subset
from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.data.tokenizers.train import train_tokenizer
from forebear.errors import InputError
from forebear.inference import measure
from forebear.inference.measure import TextEvaluation, evaluate_masked_lm
from forebear.models.albert import AlbertSpec
from forebear.models.bert import BertSpec
from forebear.nn.masked_lm import MaskedLM
from forebear.objectives.batch import IGNORE_INDEX, BatchKey
from forebear.objectives.masked_tokens import MaskedTokens, SingleTokens
from small_runs import text

STRANGE = "The cat sat by the ☃ ☂.\nThe dog ran to the zebra.\n\n☃ ☃ ☃ the bird.\nThe bird sat by the hill.\n"


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer("words", [text(200)], min_count=1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hiding")


def prepared(folder: Path, written: str, tokenizer: Tokenizer) -> Corpus:
    (folder / "text.txt").write_text(written, encoding="utf-8")
    return prepare_corpus([folder / "text.txt"], tokenizer)


def milestone(**changes: object) -> BertSpec:
    return BertSpec(**{"width": 16, "depth": 1, "heads": 2, "context": 40, **changes})


def restorer_of(tokenizer: Tokenizer, made: BertSpec, spread: float = 1.0) -> MaskedLM:
    model = made.build(tokenizer).initialize(5)
    with torch.no_grad():
        for value in model.parameters():
            if value.dim() > 1:
                value.mul_(spread)
    start, end, mask = (tokenizer.special_roles[role] for role in ("start", "end", "mask"))
    return MaskedLM(model.eval(), start=start, end=end, mask=mask)


def measured(restorer: MaskedLM, tokenizer: Tokenizer, made: BertSpec, portion: Subset) -> TextEvaluation:
    return evaluate_masked_lm(restorer, tokenizer, made.objective(tokenizer), portion)


def test_a_network_that_knows_nothing_pays_for_every_token_alike(folder: Path, tokenizer: Tokenizer):
    made = milestone()
    told = measured(restorer_of(tokenizer, made), tokenizer, made, prepared(folder, text(), tokenizer).all_documents())
    assert told.nats_per_token == pytest.approx(math.log(tokenizer.vocab_size), abs=0.3)  # of logits a little apart
    still = restorer_of(tokenizer, made, 0.0)
    told = measured(still, tokenizer, made, prepared(folder, text(), tokenizer).all_documents())
    assert told.nats_per_token == pytest.approx(math.log(tokenizer.vocab_size))
    assert told.perplexity == pytest.approx(tokenizer.vocab_size)
    assert told.is_pseudo_likelihood
    assert told.pair_accuracy is not None


@torch.inference_mode()
def by_hand(restorer: MaskedLM, objective: MaskedTokens, portion: Subset) -> tuple[list[float], list[bool], Counter]:
    """Every row by itself: log P of what is hidden, whether it was the best, and how often each token was asked."""
    steps, logs, right, asked = objective.steps(portion, measure.BATCH_TOKENS), [], [], Counter()
    for step in range(steps):
        batch = objective.batch(portion, measure.BATCH_TOKENS, BatchKey(0, step))
        begin = 0
        for length in batch.inputs["lengths"].tolist():
            row = slice(begin, begin := begin + length)
            inputs = {name: torch.tensor(batch.inputs[name][row]) for name in batch.inputs if name != "lengths"}
            logits = restorer.model.logits({**inputs, "lengths": torch.tensor([length])})["token"].double()
            for place, target in enumerate(batch.targets["token"][row].tolist()):
                if target != IGNORE_INDEX:
                    assert int(inputs["tokens"][place]) == restorer.mask
                    logs.append(float(torch.log_softmax(logits[place], 0)[target]))
                    right.append(int(logits[place].argmax()) == target)
                    asked[target] += 1
    return logs, right, asked


@pytest.mark.parametrize("pairs", ["next", "order", "none"])
def test_totals_are_those_of_every_row_by_itself(folder: Path, tokenizer: Tokenizer, pairs: str):
    made = milestone(pairs=pairs)
    restorer, portion = restorer_of(tokenizer, made, 6.0), prepared(folder, text(120), tokenizer).all_documents()
    objective = made.objective(tokenizer)
    hidden = replace(objective, units=SingleTokens(), masked=1.0, random=0.0)
    logs, right, asked = by_hand(restorer, hidden, portion)
    told = measured(restorer, tokenizer, made, portion)
    assert told.num_masked == len(logs)
    assert told.nats_per_token == pytest.approx(-math.fsum(logs) / len(logs), rel=1e-5)
    assert told.accuracy == pytest.approx(sum(right) / len(right))
    assert told.majority_accuracy == pytest.approx(asked.most_common(1)[0][1] / len(logs))
    assert told.tokens == portion.num_tokens  # none is unknown
    assert told.nats == pytest.approx(told.nats_per_token * portion.num_tokens)
    assert told.bits_per_byte == pytest.approx(told.nats / math.log(2) / portion.num_bytes)
    assert (told.pair_accuracy is None) == (pairs == "none")
    assert told.documents == told.units == 120
    json.dumps(told.to_dict(), allow_nan=False)


def test_a_share_of_the_text_is_hidden(folder: Path, tokenizer: Tokenizer):
    portion = prepared(folder, text(200), tokenizer).all_documents()
    for share in (0.15, 0.4):
        made = milestone(share=share)
        told = measured(restorer_of(tokenizer, made), tokenizer, made, portion)
        assert told.num_masked is not None
        assert told.num_masked / portion.num_tokens == pytest.approx(share, abs=0.01)


def test_the_same_text_has_the_same_figures(folder: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch):
    made, portion = milestone(), prepared(folder, text(), tokenizer).all_documents()
    one, other = (measured(restorer_of(tokenizer, made, 6.0), tokenizer, made, portion) for _ in range(2))
    assert replace(one, seconds=0) == replace(other, seconds=0)


def test_runs_that_hide_otherwise_are_measured_alike(folder: Path, tokenizer: Tokenizer):
    """Single tokens behind the mask, whatever units a run has learned from."""
    portion = prepared(folder, text(), tokenizer).all_documents()
    restorer = restorer_of(tokenizer, milestone(), 6.0)
    tokens, words = (measured(restorer, tokenizer, milestone(whole_words=how), portion) for how in (False, True))
    assert replace(tokens, seconds=0) == replace(words, seconds=0)
    grouped = AlbertSpec(width=16, depth=1, heads=2, context=40, table=16, pairs="next")
    groups = evaluate_masked_lm(restorer, tokenizer, grouped.objective(tokenizer), portion)
    assert replace(tokens, seconds=0) == replace(groups, seconds=0)


def test_unknown_tokens_are_charged_their_spelling(folder: Path, tokenizer: Tokenizer):
    """☃ and ☂ of three bytes each, five of them; zebra of five. None of them is ever hidden."""
    made, portion = milestone(pairs="none", share=0.5), prepared(folder, STRANGE, tokenizer).all_documents()
    assert int((portion.corpus.ids == tokenizer.unk_id).sum()) == 6
    told = measured(restorer_of(tokenizer, made, 6.0), tokenizer, made, portion)
    assert told.unknown_tokens == 6
    assert told.unknown_bytes == 5 * 3 + 5
    assert told.tokens == portion.num_tokens - 6
    spelling = (6 + 20) * math.log2(257)
    bits = told.nats_per_token * (portion.num_tokens - 6) / math.log(2) + spelling
    assert told.bits_per_byte == pytest.approx(bits / portion.num_bytes)
    assert told.to_dict()["unknown_rate"] == pytest.approx(6 / portion.num_tokens)


def test_a_rate_of_unknown_tokens_is_a_share(folder: Path, tokenizer: Tokenizer):
    made, portion = (
        milestone(pairs="none", share=0.9),
        prepared(folder, "☃ ☃ ☃ the cat ☃ ☃.", tokenizer).all_documents(),
    )
    told = measured(restorer_of(tokenizer, made), tokenizer, made, portion)
    assert told.unknown_rate == pytest.approx(5 / 8)


def test_text_in_which_nothing_can_be_hidden_is_refused(folder: Path, tokenizer: Tokenizer):
    made = milestone(pairs="none")
    with pytest.raises(InputError, match="too little") as caught:
        measured(restorer_of(tokenizer, made), tokenizer, made, prepared(folder, "☃ ☃ ☃", tokenizer).all_documents())
    assert caught.value.hint


def test_a_corpus_of_another_tokenizer_is_refused(folder: Path, tokenizer: Tokenizer):
    other = train_tokenizer("characters", [text()], min_count=1)
    made = milestone()
    with pytest.raises(InputError, match="another tokenizer"):
        measured(restorer_of(tokenizer, made), tokenizer, made, prepared(folder, text(), other).all_documents())


def test_progress_ends_with_everything(folder: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(measure, "BATCH_TOKENS", 200)
    made, portion, heard = milestone(), prepared(folder, text(), tokenizer).all_documents(), []
    restorer = restorer_of(tokenizer, made)
    evaluate_masked_lm(
        restorer, tokenizer, made.objective(tokenizer), portion, progress=lambda done, of: heard.append((done, of))
    )
    assert len(heard) > 3
    assert heard == sorted(heard)
    assert heard[-1] == (portion.num_bytes, portion.num_bytes)


def test_one_document_can_be_measured_though_no_halves_are_asked(folder: Path, tokenizer: Tokenizer):
    made = milestone()
    told = measured(restorer_of(tokenizer, made), tokenizer, made, prepared(folder, text(1), tokenizer).all_documents())
    assert told.pair_accuracy is None
    assert told.num_masked
    assert np.isfinite(told.bits_per_byte)
