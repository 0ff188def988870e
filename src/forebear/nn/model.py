"""The neural model: an encoder and named heads, whose losses add up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from forebear.errors import ForebearError, join_errors
from forebear.nn.bptt_state import BPTTState
from forebear.nn.encoder import Encoder, States
from forebear.nn.heads import LMHead
from forebear.nn.layers import initial_values
from forebear.nn.softmax import AdaptiveSoftmax

StateDict = dict[str, Tensor]
MAX_PARTIAL_FRACTION = 0.5  # fraction of tokens from which on computing all of them is as fast


class Model(nn.Module):
    """An encoder and heads; built on the meta device without values, which `initialize` or `load` assigns."""

    def __init__(self, encoder: Encoder, heads: Mapping[str, nn.Module]) -> None:
        super().__init__()
        self.encoder = encoder
        self.heads = nn.ModuleDict(dict(heads))

    def forward(self, inputs: Mapping[str, Tensor], targets: Mapping[str, Tensor]) -> StateDict:
        """Loss of each target, summed over supervised positions; the last layer is computed for those alone."""
        states = self.encode(inputs, targets)
        losses: StateDict = {}
        for name, target in targets.items():
            head: Any = self.heads[name]
            losses[name] = head.loss(states, target)
        return losses

    def logits(self, inputs: Mapping[str, Tensor], heads: Iterable[str] | None = None) -> StateDict:
        """Logits of all heads, or of these."""
        names = dict.fromkeys(self.heads if heads is None else heads)
        states = self.encode(inputs, names)
        return {name: self.heads[name](states) for name in names}

    def encode(self, inputs: Mapping[str, Tensor], targets: Mapping[str, Tensor | None]) -> States:
        """Encoder states; the last layer only where these targets need it."""
        encoder_inputs = {name: array for name, array in inputs.items() if name != "groups"}
        return replace(
            self.encoder(**encoder_inputs, positions=self._supervised_positions(inputs, targets)),
            groups=inputs.get("groups"),
        )

    def _supervised_positions(
        self, inputs: Mapping[str, Tensor], targets: Mapping[str, Tensor | None]
    ) -> Tensor | None:
        """Ascending indices of the tokens that any target needs; None if they are most of the tokens."""
        tokens, input_lengths = inputs["tokens"], inputs["lengths"]
        lengths = tuple(input_lengths.tolist() if isinstance(input_lengths, Tensor) else input_lengths)
        is_needed = torch.zeros(len(tokens), dtype=torch.bool, device=tokens.device)
        for name, target in targets.items():
            head: Any = self.heads[name]
            token_indices = head.supervised_positions(lengths, target)
            if token_indices is None:
                return None
            is_needed[token_indices] = True
        positions = is_needed.nonzero().squeeze(1)
        return positions if len(positions) < MAX_PARTIAL_FRACTION * len(tokens) else None

    def with_heads(self, heads: Iterable[str]) -> Model:
        """Drop all other heads: imported weights may lack some, which must not answer with random weights."""
        names = list(heads)
        if missing := sorted(set(names) - set(self.heads)):
            available = ", ".join(self.heads)
            raise ForebearError(f"this model cannot have a head {', '.join(missing)}", hint=f"it can have: {available}")
        self.heads = nn.ModuleDict({name: head for name, head in self.heads.items() if name in names})
        return self

    def initialize(self, seed: int, overrides: Mapping[str, Tensor] | None = None) -> Model:
        """Assign initial values, which depend on seed and names alone; `overrides` replace some of them."""
        copies = {name: tensor.clone() for name, tensor in (overrides or {}).items()}
        return self._assign_tensors({**initial_values(self, seed), **copies})

    def load(self, tensors: Mapping[str, Tensor], *, file: str | None = None) -> Model:
        """Assign exactly these tensors, without copying; an error names every missing, extra or misshapen one."""
        parameters = dict(self.named_parameters())
        errors = [f"{name} is missing" for name in parameters if name not in tensors]
        errors += [f"{name} belongs to no part of this model" for name in tensors if name not in parameters]
        for name in parameters.keys() & tensors.keys():
            shape, expected_shape = tuple(tensors[name].shape), tuple(parameters[name].shape)
            if shape != expected_shape:
                errors.append(f"{name} has the shape {shape}, not {expected_shape}")
        if errors:
            raise ForebearError(
                f"the weights do not fit the model: {join_errors(sorted(errors))}",
                file=file,
                hint="load weights that were saved from a model with the same fields and vocabulary",
            )
        return self._assign_tensors(tensors)

    def tensors(self) -> StateDict:
        """All parameters by name for saving, tied ones once."""
        return {name: parameter.detach() for name, parameter in self.named_parameters()}

    @property
    def bptt_state(self) -> BPTTState | None:
        """State carried from one training step to the next, if there is any."""
        return self.encoder.bptt_state

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    @property
    def is_random(self) -> bool:
        """Whether training uses random numbers: dropout or a sampled softmax."""
        return any(
            (isinstance(module, nn.Dropout) and module.p > 0)
            or (isinstance(module, LMHead | AdaptiveSoftmax) and module.num_samples > 0)
            for module in self.modules()
        )

    @property
    def num_parameters(self) -> int:
        return sum(parameter.numel() for parameter in self.parameters())

    def _assign_tensors(self, tensors: Mapping[str, Tensor]) -> Model:
        for prefix, module in self.named_modules():
            for name, parameter in list(module.named_parameters(recurse=False)):
                value = tensors[f"{prefix}.{name}" if prefix else name]
                setattr(module, name, nn.Parameter(value.to(parameter.dtype), requires_grad=parameter.requires_grad))
        return self
