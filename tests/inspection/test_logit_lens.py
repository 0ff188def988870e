"""Logit lens: the last layer is the model's prediction, every layer agrees with the hidden states of transformers."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from cue_word_runs import train_cue_word_run
from forebear.errors import InputError
from forebear.inference.run import Run
from forebear.inspection.logit_lens import logit_lens
from small_runs import open_small_run

TEXT, MASKED_TEXT = "The cat sat by the", "The ____ sat by the [MASK]."


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    names = ("gpt2", "gpt", "bert", "albert")
    return {name: open_small_run(name, tmp_path_factory.mktemp(name), steps=40) for name in names}


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ["gpt2", "gpt"])
def test_logit_lens_last_layer_equals_next_token_prediction(name: str, runs: dict[str, Run]):
    run = runs[name]
    for text in (TEXT, "cat " * 50, ""):  # also longer than the context, and empty
        lens, prediction = logit_lens(run, text, top=7), run.next(text, top=7)
        assert len(lens.layers) == run.network.encoder.depth + 1
        last_candidates = [(candidate.id, candidate.probability) for candidate in lens.layers[-1].candidates]
        assert last_candidates == [(candidate.id, candidate.probability) for candidate in prediction.candidates]
        assert (lens.layers[-1].rank, lens.layers[-1].divergence) == (1, 0.0)
    lens_at_3 = logit_lens(run, TEXT, at=3)
    ids = run.tokenizer.encode(TEXT).ids
    log_probs = run.predictor.next_log_probs([np.array([run.tokenizer.special_roles["end"], *ids[:3]])])[0]
    assert lens_at_3.predicted_token.probability == math.exp(np.float64(log_probs.max()))
    assert logit_lens(run, TEXT, at=-1) == logit_lens(run, TEXT)


@pytest.mark.parametrize("name", ["bert", "albert"])
def test_logit_lens_last_layer_equals_masked_token_prediction(name: str, runs: dict[str, Run]):
    from forebear.inference.fill import mask_blanks

    run = runs[name]
    sequence, positions = mask_blanks(MASKED_TEXT, run.tokenizer, run.tokenizer.special_roles["mask"])
    expected = run.masked_lm.mask_log_probs([sequence])[0]
    assert len(positions) == 2
    for number, at in ((0, None), (0, 1), (1, 2), (1, -1)):
        lens = logit_lens(run, MASKED_TEXT, at=at, top=4)
        best = np.argsort(-expected[number], kind="stable")[:4]
        assert [candidate.id for candidate in lens.layers[-1].candidates] == best.tolist()
        probabilities = [candidate.probability for candidate in lens.layers[-1].candidates]
        np.testing.assert_allclose(probabilities, np.exp(expected[number][best]), rtol=1e-5)
        assert lens.tokens[lens.position - 1] == "[MASK]"


@pytest.mark.parametrize(("name", "text"), [("gpt2", TEXT), ("bert", MASKED_TEXT), ("albert", MASKED_TEXT)])
def test_logit_lens_of_every_layer_matches_hidden_states_of_transformers(
    name: str, text: str, runs: dict[str, Run], tmp_path: Path
):
    transformers = pytest.importorskip("transformers")
    run = runs[name]
    lens = logit_lens(run, text, top=run.tokenizer.vocab_size)
    class_name = {"gpt2": "GPT2LMHeadModel", "bert": "BertForMaskedLM", "albert": "AlbertForMaskedLM"}[name]
    peer = getattr(transformers, class_name).from_pretrained(run.export(tmp_path / "theirs")).eval()
    ids = [run.tokenizer.token_to_id(token) for token in lens.tokens]
    ids = ids if None not in ids else _sequence_ids(run, text)
    with torch.no_grad():
        states = peer(torch.tensor([ids]), output_hidden_states=True).hidden_states
        for number, (layer, state) in enumerate(zip(lens.layers, states, strict=True)):
            x = state[0, lens.position - 1]
            if name == "gpt2":
                x = x if number == len(states) - 1 else peer.transformer.ln_f(x)
                logits = peer.lm_head(x)
            else:
                if name == "albert" and number == 0:
                    x = peer.albert.encoder.embedding_hidden_mapping_in(x) if x.shape[-1] == 16 else x
                logits = (peer.cls.predictions if name == "bert" else peer.predictions)(x)
            expected = torch.softmax(logits.double(), -1).numpy()
            probabilities = np.empty(len(expected))
            for candidate in layer.candidates:
                probabilities[candidate.id] = candidate.probability
            np.testing.assert_allclose(probabilities, expected, atol=2e-5)
            assert layer.entropy == pytest.approx(-(expected * np.log2(expected)).sum(), abs=1e-3)
            predicted = lens.predicted_token.id
            assert layer.probability == pytest.approx(expected[predicted], abs=2e-5)
            assert layer.rank == int((expected > expected[predicted]).sum()) + 1
            if number == len(states) - 1:
                final = expected
        first_layer = np.array(
            [
                candidate.probability
                for candidate in sorted(lens.layers[0].candidates, key=lambda candidate: candidate.id)
            ]
        )
        assert lens.layers[0].divergence == pytest.approx((final * np.log2(final / first_layer)).sum(), abs=1e-3)


def _sequence_ids(run: Run, text: str) -> list[int]:
    return [run.tokenizer.special_roles["end"], *run.tokenizer.encode(text).ids.tolist()]


def test_logit_lens_refuses_bad_positions_and_runs_without_layers_or_tokens(runs: dict[str, Run], tmp_path: Path):
    for run, text, options, message in (
        (runs["gpt2"], TEXT, {"at": 99}, "no token 99"),
        (runs["gpt2"], TEXT, {"at": 0}, "no token 0"),
        (runs["gpt2"], TEXT, {"top": 0}, "--top is 0"),
        (runs["bert"], "nothing here", {}, "no blank"),
        (runs["bert"], MASKED_TEXT, {"at": 3}, "no hidden token 3"),
        (runs["bert"], "cat " * 50 + "____", {}, "do not fit"),
        (open_small_run("ngram", tmp_path), TEXT, {}, "it has no layers"),
        (train_cue_word_run(tmp_path, "classification", steps=2), TEXT, {}, "predicts no tokens"),
    ):
        with pytest.raises(InputError, match=message):
            logit_lens(run, text, **options)
