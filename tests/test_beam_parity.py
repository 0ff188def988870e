"""Beam search gives the texts and scores of transformers with the same weights, one by one and in batches."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
import torch

from forebear.inference.beam_search import Stopping, beam_search
from forebear.interop.huggingface import to_hf_checkpoint
from forebear.models.gpt2 import GPT2Spec
from forebear.nn.next_token_predictors import TransformerPredictor
from hf_peers import build_model

transformers = pytest.importorskip("transformers")

VOCABULARY, END, LENGTH = 29, 3, 14
FIELDS: dict[str, Any] = {"width": 24, "depth": 2, "heads": 3, "context": 48, "inner": 40, "dropout": 0.0}
STOPPING: dict[Stopping, Any] = {"full": True, "unlikely": False, "impossible": "never"}


def model_pair(seed: int) -> tuple[TransformerPredictor, Any]:
    """A model and its copy in transformers; weights so large that tokens differ clearly and ends are not rare."""
    model = build_model("gpt2", FIELDS, VOCABULARY).initialize(seed).eval()
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for value in model.parameters():
            random = torch.randn(value.shape, generator=draw)
            value.copy_(0.2 * random if value.dim() > 1 else value + 0.2 * random)
    tensors = {name: value.clone() for name, value in model.tensors().items()}
    config, weights = to_hf_checkpoint("gpt2", asdict(GPT2Spec(**FIELDS)), tensors, {})
    peer = transformers.GPT2LMHeadModel(
        transformers.GPT2Config(**config, bos_token_id=END, eos_token_id=END, pad_token_id=0)
    )
    peer.load_state_dict(weights, strict=False)
    return TransformerPredictor(model), peer.eval()


def transformers_beams(
    peer: Any, prompts: list[np.ndarray], beams: int, penalty: float, stopping: Stopping
) -> list[list[Any]]:
    """(ids, score) of all texts of transformers, with prompts padded on the left."""
    longest = max(map(len, prompts))
    inputs = torch.tensor([[0] * (longest - len(prompt)) + prompt.tolist() for prompt in prompts])
    mask = torch.tensor([[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts])
    options = {"num_beams": beams, "num_return_sequences": beams, "length_penalty": penalty, "max_new_tokens": LENGTH}
    options |= {"early_stopping": STOPPING[stopping], "do_sample": False, "output_scores": True}
    with torch.inference_mode():
        output = peer.generate(inputs, attention_mask=mask, return_dict_in_generate=True, **options)
    texts = [row[: row.index(END)] if END in row else row for row in output.sequences[:, longest:].tolist()]
    pairs = list(zip(map(tuple, texts), output.sequences_scores.tolist(), strict=True))
    return [pairs[first : first + beams] for first in range(0, len(pairs), beams)]


@pytest.mark.sample(6)
@pytest.mark.parametrize("stopping", STOPPING)
@pytest.mark.parametrize(("beams", "penalty"), [(2, 1.0), (4, 1.0), (4, 0.0), (5, 2.0), (3, -0.5)])
def test_beam_search_equals_that_of_transformers(beams, penalty, stopping):
    lengths: set[int] = set()
    for seed in range(4):
        model, peer = model_pair(seed)
        draw = np.random.default_rng(seed)
        prompts = [draw.integers(4, VOCABULARY, length) for length in (7, 1, 12)]
        expected = transformers_beams(peer, prompts, beams, penalty, stopping)
        assert (
            transformers_beams(peer, prompts[:1], beams, penalty, stopping)[0][0][0] == expected[0][0][0]
        )  # padding has no effect
        options = {"eos_id": END, "beams": beams, "best": beams, "penalty": penalty, "stopping": stopping}
        together = beam_search(
            model.start_decoding(prompts, LENGTH), len(prompts), lengths=[LENGTH] * len(prompts), **options
        )
        alone = [
            beam_search(model.start_decoding([prompt], LENGTH), 1, lengths=[LENGTH], **options)[0] for prompt in prompts
        ]
        for results in (together, alone):
            for hypotheses, expected_pairs in zip(results, expected, strict=True):
                assert [hypothesis.ids for hypothesis in hypotheses] == [ids for ids, _ in expected_pairs]
                np.testing.assert_allclose(
                    [hypothesis.score for hypothesis in hypotheses], [score for _, score in expected_pairs], atol=1e-4
                )
        lengths |= {len(hypothesis.ids) for hypotheses in together for hypothesis in hypotheses}
    assert min(lengths) < LENGTH == max(lengths)  # some ended, some were cut
