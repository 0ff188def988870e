"""Beam search finds the texts that transformers finds with the same weights, one by one and in batches."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
import torch

from forebear.inference.beam_search import Stopping, beam_search
from forebear.interop.huggingface import to_hf_checkpoint
from forebear.models.gpt2 import GPT2Spec
from forebear.nn.causal_lm import TransformerCausalLM
from peers import model_of

transformers = pytest.importorskip("transformers")

VOCABULARY, END, LENGTH = 29, 3, 14
FIELDS: dict[str, Any] = {"width": 24, "depth": 2, "heads": 3, "context": 48, "inner": 40, "dropout": 0.0}
STOPPING: dict[Stopping, Any] = {"full": True, "unlikely": False, "impossible": "never"}


def both(seed: int) -> tuple[TransformerCausalLM, Any]:
    """Ours and theirs; weights so large that tokens differ clearly, and ends are not rare."""
    ours = model_of("gpt2", FIELDS, VOCABULARY).initialize(seed).eval()
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for value in ours.parameters():
            random = torch.randn(value.shape, generator=draw)
            value.copy_(0.2 * random if value.dim() > 1 else value + 0.2 * random)
    tensors = {name: value.clone() for name, value in ours.tensors().items()}
    config, weights = to_hf_checkpoint("gpt2", asdict(GPT2Spec(**FIELDS)), tensors, {})
    peer = transformers.GPT2LMHeadModel(
        transformers.GPT2Config(**config, bos_token_id=END, eos_token_id=END, pad_token_id=0)
    )
    peer.load_state_dict(weights, strict=False)
    return TransformerCausalLM(ours), peer.eval()


def theirs(peer: Any, prompts: list[np.ndarray], beams: int, penalty: float, stopping: Stopping) -> list[list[Any]]:
    """(ids, score) of all their texts, padded before."""
    longest = max(map(len, prompts))
    given = torch.tensor([[0] * (longest - len(prompt)) + prompt.tolist() for prompt in prompts])
    mask = torch.tensor([[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts])
    how = {"num_beams": beams, "num_return_sequences": beams, "length_penalty": penalty, "max_new_tokens": LENGTH}
    how |= {"early_stopping": STOPPING[stopping], "do_sample": False, "output_scores": True}
    with torch.inference_mode():
        told = peer.generate(given, attention_mask=mask, return_dict_in_generate=True, **how)
    texts = [row[: row.index(END)] if END in row else row for row in told.sequences[:, longest:].tolist()]
    pairs = list(zip(map(tuple, texts), told.sequences_scores.tolist(), strict=True))
    return [pairs[first : first + beams] for first in range(0, len(pairs), beams)]


@pytest.mark.sample(6)
@pytest.mark.parametrize("stopping", STOPPING)
@pytest.mark.parametrize(("beams", "penalty"), [(2, 1.0), (4, 1.0), (4, 0.0), (5, 2.0), (3, -0.5)])
def test_the_same_texts_and_scores(beams, penalty, stopping):
    lengths: set[int] = set()
    for seed in range(4):
        ours, peer = both(seed)
        draw = np.random.default_rng(seed)
        prompts = [draw.integers(4, VOCABULARY, length) for length in (7, 1, 12)]
        wanted = theirs(peer, prompts, beams, penalty, stopping)
        assert (
            theirs(peer, prompts[:1], beams, penalty, stopping)[0][0][0] == wanted[0][0][0]
        )  # padding changed nothing
        how = {"end_id": END, "beams": beams, "best": beams, "penalty": penalty, "stopping": stopping}
        together = beam_search(
            ours.start_decoding(prompts, LENGTH), len(prompts), lengths=[LENGTH] * len(prompts), **how
        )
        alone = [
            beam_search(ours.start_decoding([prompt], LENGTH), 1, lengths=[LENGTH], **how)[0] for prompt in prompts
        ]
        for found in (together, alone):
            for mine, other in zip(found, wanted, strict=True):
                assert [one.ids for one in mine] == [ids for ids, _ in other]
                np.testing.assert_allclose([one.score for one in mine], [score for _, score in other], atol=1e-4)
        lengths |= {len(one.ids) for mine in together for one in mine}
    assert min(lengths) < LENGTH == max(lengths)  # some ended, some were cut
