"""The cost of a model: parameters, FLOPs and memory, measured on torch's meta device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from forebear.data.corpus.parallel import TokenizerPair
from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.models.spec import ModelSpec

if TYPE_CHECKING:
    from forebear.nn.encoder import Encoder
    from forebear.nn.model import Model

BYTES_PER_FLOAT = 4  # float32
SHORT_LENGTH = 8  # tokens of the sequence on which the cost is measured if there is no maximum length


@dataclass(frozen=True)
class ModelSize:
    """The size and cost of a model.

    flops        multiplications and additions per token in the forward pass of a full sequence, with all heads.
                 A product of (a, b) and (b, c) counts 2·a·b·c; attention counts as if all tokens attended to all.
                 For a Transformer with L layers, hidden size D, feed-forward size F, vocabulary size V and sequences
                 of n tokens: L·(2·(4·D² + 2·D·F) + 4·n·D) + 2·V·D. Training takes about three times as much.
                 For translation models: of one source token and one target token together.
    activations  bytes kept between the forward and the backward pass of a batch
    """

    parameters: int
    max_length: int | None  # tokens of a sequence; None: unlimited
    flops: float
    weights: int  # bytes, as all below
    moments: int  # of the optimizer: Adam's two for every parameter, AdaGrad's one
    gradients: int = 0
    activations: int = 0
    batch_tokens: int = 0  # size of the batch that `activations` are for
    cache_bytes: int = 0  # KV cache of a full sequence, or the state of a recurrent network, while generating

    @property
    def bytes_to_use(self) -> int:
        return self.weights + self.cache_bytes

    def to_dict(self) -> dict[str, Any]:
        memory_parts = {name: getattr(self, name) for name in ("weights", "gradients", "moments", "activations")}
        return {
            "parameters": self.parameters,
            "longest_input": self.max_length,
            "flops_per_token": self.flops,
            "memory_to_train": sum(memory_parts.values()),
            "memory_to_train_parts": memory_parts | {"batch_tokens": self.batch_tokens},
            "memory_to_use": self.bytes_to_use,
        }


def model_size(spec: ModelSpec, tokenizer: Tokenizer | TokenizerPair, batch_tokens: int) -> ModelSize | None:
    """The size of a model with this vocabulary; None for n-gram models and CRFs, which grow with their data.

    A network is built and run on one full sequence on torch's meta device.
    """
    if spec.learning == "counting" and not spec.counts_again:
        return None
    model = spec.build(tokenizer)
    parameters = model.num_parameters
    if spec.counts_again:
        # Probabilities and expected counts are doubles; each token has a transition between any two states.
        num_states, double_bytes = model.states + 1, 2 * BYTES_PER_FLOAT * parameters
        flops, cache_bytes = 2 * num_states * num_states + 3 * num_states, 2 * BYTES_PER_FLOAT * num_states
        return ModelSize(parameters, None, flops, weights=double_bytes, moments=double_bytes, cache_bytes=cache_bytes)
    weight_bytes = BYTES_PER_FLOAT * parameters
    if spec.learning == "sweeping":
        # Word vectors are updated in place, without storing gradients. Embedding a text adds the vectors of its words.
        moment_bytes = BYTES_PER_FLOAT * model.training_state_size
        return ModelSize(parameters, None, model.width, weight_bytes, moment_bytes)
    from forebear.nn.nnlm import NNLMEncoder

    encoder = model.encoder
    max_length = encoder.max_length or (encoder.window if isinstance(encoder, NNLMEncoder) else None)
    length = max_length or spec.context  # the training sequence length
    assert length is not None
    # Without a maximum length every token costs the same, so a short sequence is enough: each step takes milliseconds.
    measured_tokens = length if max_length else min(length, SHORT_LENGTH)
    flops, activation_bytes = _sequence_costs(model, measured_tokens)
    return ModelSize(
        parameters,
        max_length,
        flops / measured_tokens,
        weight_bytes,
        moments=2 * weight_bytes,
        gradients=weight_bytes,
        activations=round(activation_bytes * max(batch_tokens, length) / measured_tokens),
        batch_tokens=max(batch_tokens, length),
        cache_bytes=_decoding_state_bytes(encoder, length),
    )


def _decoding_state_bytes(encoder: Encoder, length: int) -> int:
    """Bytes kept between two generated tokens: the recurrent state or the KV cache."""
    if (state_size := encoder.state_size(length)) is not None:
        return BYTES_PER_FLOAT * state_size
    if not encoder.has_attention or not (encoder.has_decoder or encoder.sees == "past"):
        return 0
    keys_and_values = 2 * BYTES_PER_FLOAT * encoder.depth * length * encoder.width
    return 2 * keys_and_values if encoder.has_decoder else keys_and_values  # of the target and of the source


def _sequence_costs(network: Model, length: int) -> tuple[int, int]:
    """FLOPs of one full sequence, as torch counts them, and the bytes saved for the backward pass, without weights."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    inputs = _full_sequence(network, length)
    # torch counts no FLOPs of the fused attention
    with FlopCounterMode(display=False) as counter, torch.no_grad(), _full_sequence_kernels(attention=False):
        network.logits(inputs)
    weight_storages = {parameter.untyped_storage()._cdata for parameter in network.parameters()}
    saved: dict[int, int] = {}  # bytes by storage, each counted once

    def record(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in weight_storages:
            saved[storage._cdata] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(record, lambda tensor: tensor), _full_sequence_kernels():
        record(network.encoder(**inputs).last)
    return counter.get_total_flops(), sum(saved.values())


def _full_sequence(network: Model, length: int) -> dict[str, Any]:
    """Inputs of one sequence, with a source of the same length for encoder-decoders."""
    import torch

    tokens = torch.zeros(length, dtype=torch.long, device="meta")
    source = {"source": tokens, "source_lengths": [length]} if network.encoder.has_decoder else {}
    return {"tokens": tokens, "lengths": [length], **source}


def _full_sequence_kernels(*, attention: bool = True) -> Any:
    """A context in which torch runs an LSTM, and attention, over a sequence as one operation on the meta device.

    Otherwise it would run the LSTM token by token, at a millisecond per operation (sizes and saved memory are the
    same), and materialize the attention weights, which it never does on real devices.
    """
    import torch
    from torch.nn.functional import linear, scaled_dot_product_attention
    from torch.overrides import TorchFunctionMode

    def attend(query: Any, key: Any, value: Any, *_: Any, is_causal: bool = False, **__: Any) -> Any:
        flash_attention = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
        return flash_attention(query, key, value, is_causal=is_causal)[0]

    def lstm(x: Any, state: Any, weights: Any, *_: Any, **__: Any) -> Any:
        (h, c), (weight_ih, weight_hh, bias, _) = state, weights
        i, f, g, o = (linear(x, weight_ih, bias) + linear(h.expand(len(x), -1, -1), weight_hh)).chunk(4, -1)
        cells = f.sigmoid() * c + i.sigmoid() * g.tanh()
        out = o.sigmoid() * cells.tanh()
        return out, out[-1:], cells[-1:]

    kernels: dict[Any, Any] = {torch.lstm: lstm} | ({scaled_dot_product_attention: attend} if attention else {})

    class FullSequenceKernels(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return kernels.get(func, func)(*args, **(kwargs or {}))

    return FullSequenceKernels()
