"""How a prediction forms: the last layer is what the run says, the others what the states of transformers say."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from forebear.errors import InputError
from forebear.inference.run import Run
from forebear.inspection.logit_lens import logit_lens
from planted_runs import planted
from small_runs import opened

SAID, HIDDEN = "The cat sat by the", "The ____ sat by the [MASK]."


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    names = ("gpt2", "gpt", "bert", "albert")
    return {name: opened(name, tmp_path_factory.mktemp(name), steps=40) for name in names}


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ["gpt2", "gpt"])
def test_the_last_layer_is_what_next_says(name: str, runs: dict[str, Run]):
    run = runs[name]
    for text in (SAID, "cat " * 50, ""):  # also one longer than the context, and none at all
        found, said = logit_lens(run, text, top=7), run.next(text, top=7)
        assert len(found.layers) == run.network.encoder.depth + 1
        last = [(one.id, one.probability) for one in found.layers[-1].candidates]
        assert last == [(one.id, one.probability) for one in said.candidates]
        assert (found.layers[-1].rank, found.layers[-1].divergence) == (1, 0.0)
    begun = logit_lens(run, SAID, at=3)
    ids = run.tokenizer.encode(SAID).ids
    scores = run.predictor.next_log_probs([np.array([run.tokenizer.special_roles["end"], *ids[:3]])])[0]
    assert begun.predicted_token.probability == math.exp(np.float64(scores.max()))
    assert logit_lens(run, SAID, at=-1) == logit_lens(run, SAID)


@pytest.mark.parametrize("name", ["bert", "albert"])
def test_the_last_layer_is_what_is_found_in_the_blank(name: str, runs: dict[str, Run]):
    from forebear.inference.fill import mask_blanks

    run = runs[name]
    row, places = mask_blanks(HIDDEN, run.tokenizer, run.tokenizer.special_roles["mask"])
    wanted = run.masked_lm.mask_log_probs([row])[0]
    assert len(places) == 2
    for number, at in ((0, None), (0, 1), (1, 2), (1, -1)):
        found = logit_lens(run, HIDDEN, at=at, top=4)
        best = np.argsort(-wanted[number], kind="stable")[:4]
        assert [one.id for one in found.layers[-1].candidates] == best.tolist()
        told = [one.probability for one in found.layers[-1].candidates]
        np.testing.assert_allclose(told, np.exp(wanted[number][best]), rtol=1e-5)
        assert found.tokens[found.position - 1] == "[MASK]"


@pytest.mark.parametrize(("name", "text"), [("gpt2", SAID), ("bert", HIDDEN), ("albert", HIDDEN)])
def test_every_layer_is_what_the_states_of_transformers_say(name: str, text: str, runs: dict[str, Run], tmp_path: Path):
    transformers = pytest.importorskip("transformers")
    run = runs[name]
    found = logit_lens(run, text, top=run.tokenizer.vocab_size)
    kind = {"gpt2": "GPT2LMHeadModel", "bert": "BertForMaskedLM", "albert": "AlbertForMaskedLM"}[name]
    peer = getattr(transformers, kind).from_pretrained(run.export(tmp_path / "theirs")).eval()
    ids = [run.tokenizer.token_to_id(token) for token in found.tokens]
    ids = ids if None not in ids else _ids(run, text)
    with torch.no_grad():
        states = peer(torch.tensor([ids]), output_hidden_states=True).hidden_states
        for number, (layer, state) in enumerate(zip(found.layers, states, strict=True)):
            x = state[0, found.position - 1]
            if name == "gpt2":
                x = x if number == len(states) - 1 else peer.transformer.ln_f(x)
                logits = peer.lm_head(x)
            else:
                if name == "albert" and number == 0:
                    x = peer.albert.encoder.embedding_hidden_mapping_in(x) if x.shape[-1] == 16 else x
                logits = (peer.cls.predictions if name == "bert" else peer.predictions)(x)
            wanted = torch.softmax(logits.double(), -1).numpy()
            told = np.empty(len(wanted))
            for one in layer.candidates:
                told[one.id] = one.probability
            np.testing.assert_allclose(told, wanted, atol=2e-5)
            assert layer.entropy == pytest.approx(-(wanted * np.log2(wanted)).sum(), abs=1e-3)
            chosen = found.predicted_token.id
            assert layer.probability == pytest.approx(wanted[chosen], abs=2e-5)
            assert layer.rank == int((wanted > wanted[chosen]).sum()) + 1
            if number == len(states) - 1:
                final = wanted
        first = np.array([one.probability for one in sorted(found.layers[0].candidates, key=lambda one: one.id)])
        assert found.layers[0].divergence == pytest.approx((final * np.log2(final / first)).sum(), abs=1e-3)


def _ids(run: Run, text: str) -> list[int]:
    return [run.tokenizer.special_roles["end"], *run.tokenizer.encode(text).ids.tolist()]


def test_what_has_no_lens(runs: dict[str, Run], tmp_path: Path):
    for run, text, how, what in (
        (runs["gpt2"], SAID, {"at": 99}, "no token 99"),
        (runs["gpt2"], SAID, {"at": 0}, "no token 0"),
        (runs["gpt2"], SAID, {"top": 0}, "--top is 0"),
        (runs["bert"], "nothing here", {}, "no blank"),
        (runs["bert"], HIDDEN, {"at": 3}, "no hidden token 3"),
        (runs["bert"], "cat " * 50 + "____", {}, "do not fit"),
        (opened("ngram", tmp_path), SAID, {}, "it has no layers"),
        (planted(tmp_path, "classification", steps=2), SAID, {}, "predicts no tokens"),
    ):
        with pytest.raises(InputError, match=what):
            logit_lens(run, text, **how)
