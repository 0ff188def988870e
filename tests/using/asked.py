"""What the tests of asking share: the shares of answers, and a run that finds what is hidden and was never trained."""

from __future__ import annotations

import math

import torch

from forebear.milestones.bert import Bert
from forebear.networks.restorer import Restorer
from forebear.text.tokenizer import Tokenizer
from forebear.using.asking import Prompted


def shares(chosen: Prompted) -> dict[str, float]:
    return {answer.name: answer.probability for answer in chosen.answers}


def softmax(logs: list[float]) -> list[float]:
    weights = [math.exp(value - max(logs)) for value in logs]
    return [weight / sum(weights) for weight in weights]


def restorer_of(tokenizer: Tokenizer, context: int = 32) -> Restorer:
    """An untrained BERT whose answers differ clearly."""
    model = Bert(width=16, depth=2, heads=2, context=context).network(tokenizer).initialise(1)
    with torch.no_grad():
        for value in model.parameters():
            if value.dim() > 1:
                value.mul_(8)
    roles = tokenizer.roles
    return Restorer(model.eval(), start=roles["start"], end=roles["end"], mask=roles["mask"])
