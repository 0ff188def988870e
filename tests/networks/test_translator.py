"""Writing token by token against the whole network at once: the same logits, whatever rows are kept, in any order."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from building import rows_of
from hypothesis import given, settings
from hypothesis import strategies as st
from test_encoder_decoder import VOCABULARY, inputs, ours

from forebear.networks.translator import Translator

START = 3


def wanted(model, source: np.ndarray, written: list[int]) -> np.ndarray:
    """Logits after these tokens, from the whole at once: what teaching sees."""
    rows = [torch.tensor([START, *written])]
    with torch.inference_mode():
        return model.answers(inputs([torch.from_numpy(source)], rows))["translation"][-1].numpy()


@settings(max_examples=25, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 12), min_size=1, max_size=4), norm=st.sampled_from(["post", "pre"]), data=st.data()
)
def test_step_by_step_is_teaching(lengths, norm, data):
    model = ours(norm, joint=False)
    sources = rows_of(*lengths, seed=len(lengths))
    reader = Translator(model).begin(sources, START, 8)
    rows: list[tuple[int, list[int]]] = [(number, []) for number in range(len(sources))]
    for _ in range(data.draw(st.integers(1, 5))):
        found = reader.next()
        for (number, written), logits in zip(rows, found, strict=True):
            np.testing.assert_allclose(logits, wanted(model, sources[number], written), rtol=1e-4, atol=1e-4)
        kept = sorted(data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1, max_size=6)))
        kept = sorted(kept, key=lambda row: rows[row][0])
        ids = [data.draw(st.integers(0, VOCABULARY - 1)) for _ in kept]
        reader.keep(np.array(kept))
        reader.take(np.array(ids))
        rows = [(rows[row][0], [*rows[row][1], token]) for row, token in zip(kept, ids, strict=True)]


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_scores_are_those_of_teaching_and_of_no_batch(norm):
    model = ours(norm, joint=True)
    sources, targets = rows_of(5, 9, 1, 9, seed=1), rows_of(3, 1, 7, 4, seed=2)
    together = Translator(model).score(sources, targets, START)
    for source, target, found in zip(sources, targets, together, strict=True):
        (alone,) = Translator(model).score([source], [target], START)
        np.testing.assert_allclose(found, alone, rtol=1e-5, atol=1e-5)
        for place, token in enumerate(target):
            logits = torch.from_numpy(wanted(model, source, target[:place].tolist()))
            assert found[place] == pytest.approx(float(torch.log_softmax(logits, -1)[token]), abs=1e-4)
