"""Evaluation of masked language models: totals equal those of the network called directly, row by row."""

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
from forebear.nn.masked_token_predictor import MaskedTokenPredictor
from forebear.objectives.batch import IGNORE_INDEX, BatchKey
from forebear.objectives.masked_tokens import MaskedTokens, SingleTokens
from small_runs import small_text

TEXT_WITH_UNKNOWN = "The cat sat by the ☃ ☂.\nThe dog ran to the zebra.\n\n☃ ☃ ☃ the bird.\nThe bird sat by the hill.\n"


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer("words", [small_text(200)], min_count=1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hiding")


def prepare_text(folder: Path, content: str, tokenizer: Tokenizer) -> Corpus:
    (folder / "text.txt").write_text(content, encoding="utf-8")
    return prepare_corpus([folder / "text.txt"], tokenizer)


def bert_spec(**changes: object) -> BertSpec:
    return BertSpec(**{"width": 16, "depth": 1, "heads": 2, "context": 40, **changes})


def masked_lm_of(tokenizer: Tokenizer, spec: BertSpec, spread: float = 1.0) -> MaskedTokenPredictor:
    model = spec.build(tokenizer).initialize(5)
    with torch.no_grad():
        for value in model.parameters():
            if value.dim() > 1:
                value.mul_(spread)
    start, end, mask = (tokenizer.special_roles[role] for role in ("start", "end", "mask"))
    return MaskedTokenPredictor(model.eval(), start_id=start, end_id=end, mask_id=mask)


def evaluate(masked_lm: MaskedTokenPredictor, tokenizer: Tokenizer, spec: BertSpec, subset: Subset) -> TextEvaluation:
    return evaluate_masked_lm(masked_lm, tokenizer, spec.objective(tokenizer), subset)


def test_untrained_network_has_nearly_uniform_loss(folder: Path, tokenizer: Tokenizer):
    spec = bert_spec()
    evaluation = evaluate(
        masked_lm_of(tokenizer, spec), tokenizer, spec, prepare_text(folder, small_text(), tokenizer).all_documents()
    )
    assert evaluation.nats_per_token == pytest.approx(math.log(tokenizer.vocab_size), abs=0.3)  # logits differ a little
    zero_weights = masked_lm_of(tokenizer, spec, 0.0)
    evaluation = evaluate(zero_weights, tokenizer, spec, prepare_text(folder, small_text(), tokenizer).all_documents())
    assert evaluation.nats_per_token == pytest.approx(math.log(tokenizer.vocab_size))
    assert evaluation.perplexity == pytest.approx(tokenizer.vocab_size)
    assert evaluation.is_pseudo_likelihood
    assert evaluation.pair_accuracy is not None


@torch.inference_mode()
def reference_totals(
    masked_lm: MaskedTokenPredictor, objective: MaskedTokens, subset: Subset
) -> tuple[list[float], list[bool], Counter]:
    """Each row alone: log P of masked tokens, whether the prediction was right, and the counts of target tokens."""
    steps, log_probs, correct, target_counts = objective.steps(subset, measure.BATCH_TOKENS), [], [], Counter()
    for step in range(steps):
        batch = objective.batch(subset, measure.BATCH_TOKENS, BatchKey(0, step))
        start = 0
        for length in batch.inputs["lengths"].tolist():
            row = slice(start, start := start + length)
            inputs = {name: torch.tensor(batch.inputs[name][row]) for name in batch.inputs if name != "lengths"}
            logits = masked_lm.model.logits({**inputs, "lengths": torch.tensor([length])})["token"].double()
            for position, target in enumerate(batch.targets["token"][row].tolist()):
                if target != IGNORE_INDEX:
                    assert int(inputs["tokens"][position]) == masked_lm.mask_id
                    log_probs.append(float(torch.log_softmax(logits[position], 0)[target]))
                    correct.append(int(logits[position].argmax()) == target)
                    target_counts[target] += 1
    return log_probs, correct, target_counts


@pytest.mark.parametrize("pairs", ["next", "order", "none"])
def test_evaluation_totals_equal_those_of_each_row_alone(folder: Path, tokenizer: Tokenizer, pairs: str):
    spec = bert_spec(pairs=pairs)
    masked_lm, subset = (
        masked_lm_of(tokenizer, spec, 6.0),
        prepare_text(folder, small_text(120), tokenizer).all_documents(),
    )
    objective = spec.objective(tokenizer)
    masking = replace(objective, units=SingleTokens(), mask_fraction=1.0, random_fraction=0.0)
    log_probs, correct, target_counts = reference_totals(masked_lm, masking, subset)
    evaluation = evaluate(masked_lm, tokenizer, spec, subset)
    assert evaluation.num_masked == len(log_probs)
    assert evaluation.nats_per_token == pytest.approx(-math.fsum(log_probs) / len(log_probs), rel=1e-5)
    assert evaluation.accuracy == pytest.approx(sum(correct) / len(correct))
    assert evaluation.majority_accuracy == pytest.approx(target_counts.most_common(1)[0][1] / len(log_probs))
    assert evaluation.tokens == subset.num_tokens  # none is unknown
    assert evaluation.nats == pytest.approx(evaluation.nats_per_token * subset.num_tokens)
    assert evaluation.bits_per_byte == pytest.approx(evaluation.nats / math.log(2) / subset.num_bytes)
    assert (evaluation.pair_accuracy is None) == (pairs == "none")
    assert evaluation.documents == evaluation.units == 120
    json.dumps(evaluation.to_dict(), allow_nan=False)


def test_evaluation_masks_the_mask_rate_of_the_text(folder: Path, tokenizer: Tokenizer):
    subset = prepare_text(folder, small_text(200), tokenizer).all_documents()
    for share in (0.15, 0.4):
        spec = bert_spec(share=share)
        evaluation = evaluate(masked_lm_of(tokenizer, spec), tokenizer, spec, subset)
        assert evaluation.num_masked is not None
        assert evaluation.num_masked / subset.num_tokens == pytest.approx(share, abs=0.01)


def test_evaluation_of_the_same_text_is_deterministic(
    folder: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
):
    spec, subset = bert_spec(), prepare_text(folder, small_text(), tokenizer).all_documents()
    first, second = (evaluate(masked_lm_of(tokenizer, spec, 6.0), tokenizer, spec, subset) for _ in range(2))
    assert replace(first, seconds=0) == replace(second, seconds=0)


def test_evaluation_does_not_depend_on_masking_units(folder: Path, tokenizer: Tokenizer):
    """Single tokens are masked, whatever units a run was trained with."""
    subset = prepare_text(folder, small_text(), tokenizer).all_documents()
    masked_lm = masked_lm_of(tokenizer, bert_spec(), 6.0)
    tokens, words = (
        evaluate(masked_lm, tokenizer, bert_spec(whole_words=whole_words), subset) for whole_words in (False, True)
    )
    assert replace(tokens, seconds=0) == replace(words, seconds=0)
    albert = AlbertSpec(width=16, depth=1, heads=2, context=40, table=16, pairs="next")
    ngrams = evaluate_masked_lm(masked_lm, tokenizer, albert.objective(tokenizer), subset)
    assert replace(tokens, seconds=0) == replace(ngrams, seconds=0)


def test_unknown_tokens_are_charged_by_spelling(folder: Path, tokenizer: Tokenizer):
    """☃ and ☂ of three bytes each, five of them; zebra of five. None of them is ever masked."""
    spec, subset = (
        bert_spec(pairs="none", share=0.5),
        prepare_text(folder, TEXT_WITH_UNKNOWN, tokenizer).all_documents(),
    )
    assert int((subset.corpus.ids == tokenizer.unk_id).sum()) == 6
    evaluation = evaluate(masked_lm_of(tokenizer, spec, 6.0), tokenizer, spec, subset)
    assert evaluation.unknown_tokens == 6
    assert evaluation.unknown_bytes == 5 * 3 + 5
    assert evaluation.tokens == subset.num_tokens - 6
    spelling = (6 + 20) * math.log2(257)
    bits = evaluation.nats_per_token * (subset.num_tokens - 6) / math.log(2) + spelling
    assert evaluation.bits_per_byte == pytest.approx(bits / subset.num_bytes)
    assert evaluation.to_dict()["unknown_rate"] == pytest.approx(6 / subset.num_tokens)


def test_unknown_rate_is_the_share_of_unknown_tokens(folder: Path, tokenizer: Tokenizer):
    spec, subset = (
        bert_spec(pairs="none", share=0.9),
        prepare_text(folder, "☃ ☃ ☃ the cat ☃ ☃.", tokenizer).all_documents(),
    )
    evaluation = evaluate(masked_lm_of(tokenizer, spec), tokenizer, spec, subset)
    assert evaluation.unknown_rate == pytest.approx(5 / 8)


def test_text_without_maskable_tokens_is_refused(folder: Path, tokenizer: Tokenizer):
    spec = bert_spec(pairs="none")
    with pytest.raises(InputError, match="too little") as caught:
        evaluate(
            masked_lm_of(tokenizer, spec), tokenizer, spec, prepare_text(folder, "☃ ☃ ☃", tokenizer).all_documents()
        )
    assert caught.value.hint


def test_corpus_of_another_tokenizer_is_refused(folder: Path, tokenizer: Tokenizer):
    other_tokenizer = train_tokenizer("characters", [small_text()], min_count=1)
    spec = bert_spec()
    with pytest.raises(InputError, match="another tokenizer"):
        evaluate(
            masked_lm_of(tokenizer, spec),
            tokenizer,
            spec,
            prepare_text(folder, small_text(), other_tokenizer).all_documents(),
        )


def test_evaluation_progress_ends_with_all_bytes(folder: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(measure, "BATCH_TOKENS", 200)
    spec, subset, reports = bert_spec(), prepare_text(folder, small_text(), tokenizer).all_documents(), []
    masked_lm = masked_lm_of(tokenizer, spec)
    evaluate_masked_lm(
        masked_lm, tokenizer, spec.objective(tokenizer), subset, progress=lambda done, of: reports.append((done, of))
    )
    assert len(reports) > 3
    assert reports == sorted(reports)
    assert reports[-1] == (subset.num_bytes, subset.num_bytes)


def test_single_document_is_evaluated_without_sentence_pairs(folder: Path, tokenizer: Tokenizer):
    spec = bert_spec()
    evaluation = evaluate(
        masked_lm_of(tokenizer, spec), tokenizer, spec, prepare_text(folder, small_text(1), tokenizer).all_documents()
    )
    assert evaluation.pair_accuracy is None
    assert evaluation.num_masked
    assert np.isfinite(evaluation.bits_per_byte)
