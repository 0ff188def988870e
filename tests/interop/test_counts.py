"""Parameters as the papers and transformers count them, at their vocabularies and contexts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from forebear.lineage import milestone_named


def parameters(milestone: str, vocabulary: int, **fields: Any) -> dict[str, int]:
    """How many numbers each tensor has; nothing is allocated."""
    network = milestone_named(milestone)(**fields).network(SimpleNamespace(size=vocabulary))  # pyright: ignore
    return {name: value.numel() for name, value in network.named_parameters()}


@pytest.mark.parametrize(
    ("milestone", "vocabulary", "fields", "published"),
    [
        ("bert", 30_522, {}, 109_482_240),
        ("bert", 30_522, {"width": 1024, "depth": 24, "heads": 16}, 335_141_888),
        ("albert", 30_000, {}, 11_683_584),
        ("gpt", 40_478, {}, 116_534_784),
        ("gpt2", 50_257, {}, 124_439_808),
    ],
)
def test_published_parameter_counts(milestone: str, vocabulary: int, fields: dict[str, Any], published: int):
    """Of the model without heads but with BERT's pooler, as BertModel, AlbertModel, … count them."""
    counts = parameters(milestone, vocabulary, **fields)
    assert sum(n for name, n in counts.items() if name.startswith(("encoder.", "heads.pair.pool."))) == published


def test_bert_without_biases_and_pooler():
    counts = parameters("bert", 30_522)
    linear = ("query_key_value", "output", "expand", "contract")
    counted = {name: n for name, n in counts.items() if name.startswith("encoder.")}
    weights = sum(n for name, n in counted.items() if not name.endswith(tuple(f"{part}.bias" for part in linear)))
    assert weights == 108_808_704
