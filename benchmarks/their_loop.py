"""The same weights and examples through transformers' own classes: what a model can do, whoever trains it."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from forebear.data.labeled.load import detect_format, read_examples


def fine_tuned(weights: Path, train: Path, test: Path, keep: Path, *, epochs: int, rate: float) -> dict[str, Any]:
    """Accuracy on the test of AutoModelForSequenceClassification after so many epochs of 16 examples a step.

    AdamW, a tenth of the steps to warm up and then a straight fall. `keep` holds the result, which is not made again.
    """
    recipe = {"train": str(train), "epochs": epochs, "rate": rate}
    if keep.exists() and (told := json.loads(keep.read_text(encoding="utf-8")))["recipe"] == recipe:
        return told
    from transformers import AutoModelForSequenceClassification, AutoTokenizer, get_linear_schedule_with_warmup

    torch.manual_seed(0)
    began = time.perf_counter()
    learned, asked = _read(train), _read(test)
    labels = sorted({label for _, label in learned})
    tokenizer = AutoTokenizer.from_pretrained(weights)
    network = AutoModelForSequenceClassification.from_pretrained(weights, num_labels=len(labels))
    steps = epochs * -(-len(learned) // 16)
    optimiser = torch.optim.AdamW(network.parameters(), lr=rate, weight_decay=0.01)
    schedule = get_linear_schedule_with_warmup(optimiser, steps // 10, steps)
    network.train()
    for epoch in range(epochs):
        order = np.random.default_rng(epoch).permutation(len(learned))
        for begin in range(0, len(order), 16):
            some = [learned[one] for one in order[begin : begin + 16]]
            rows = tokenizer([text for text, _ in some], padding=True, return_tensors="pt")
            network(**rows, labels=torch.tensor([labels.index(label) for _, label in some])).loss.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimiser.step()
            schedule.step()
            optimiser.zero_grad()
        print(f"    transformers, epoch {epoch + 1}: {time.perf_counter() - began:.0f} s", flush=True)
    seconds = time.perf_counter() - began
    told = {
        "figures": {"accuracy": _accuracy(network.eval(), tokenizer, asked, labels)},
        "seconds": seconds,
        "recipe": recipe,
    }
    told["parameters"] = sum(one.numel() for one in network.parameters())
    keep.write_text(json.dumps(told), encoding="utf-8")
    return told


def _read(file: Path) -> list[tuple[str, str]]:
    task, form, _ = detect_format(str(file), "classification")
    found: list[Any] = list(read_examples(str(file), task, form))
    return [(one.texts[0], one.label) for one in found]


@torch.no_grad()
def _accuracy(network: Any, tokenizer: Any, asked: Sequence[tuple[str, str]], labels: Sequence[str]) -> float:
    right = 0
    for begin in range(0, len(asked), 32):
        some = asked[begin : begin + 32]
        said = network(**tokenizer([text for text, _ in some], padding=True, return_tensors="pt")).logits.argmax(1)
        right += sum(labels[int(one)] == label for one, (_, label) in zip(said, some, strict=True))
    return right / len(asked)
