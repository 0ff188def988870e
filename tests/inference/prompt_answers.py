"""Shared by the tests of prompting: probabilities of answers, and an untrained masked language model."""

from __future__ import annotations

import math

import torch

from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.inference.prompting import PromptAnswer
from forebear.models.bert import BertSpec
from forebear.nn.masked_token_predictor import MaskedTokenPredictor


def answer_probabilities(prompted: PromptAnswer) -> dict[str, float]:
    return {answer.name: answer.probability for answer in prompted.answers}


def softmax(logs: list[float]) -> list[float]:
    weights = [math.exp(value - max(logs)) for value in logs]
    return [weight / sum(weights) for weight in weights]


def untrained_masked_lm(tokenizer: Tokenizer, context: int = 32) -> MaskedTokenPredictor:
    """An untrained BERT whose answers differ clearly."""
    model = BertSpec(width=16, depth=2, heads=2, context=context).build(tokenizer).initialize(1)
    with torch.no_grad():
        for value in model.parameters():
            if value.dim() > 1:
                value.mul_(8)
    roles = tokenizer.special_roles
    return MaskedTokenPredictor(model.eval(), start_id=roles["start"], end_id=roles["end"], mask_id=roles["mask"])
