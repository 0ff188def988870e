"""What a model costs: parameters, floating-point operations and memory, measured on the network itself."""

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
SHORT_ROW_TOKENS = 8  # tokens of the row with which the cost is measured if there is no maximum length


@dataclass(frozen=True)
class ModelSize:
    """The size and cost of one network.

    flops        multiplications and additions per token in the forward pass of a full row, with every head.
                 A product of (a, b) and (b, c) counts 2·a·b·c; attention counts as if each token saw the whole row.
                 For a Transformer with L layers, hidden size D, feed-forward size F, vocabulary size V and rows of
                 n tokens that is L·(2·(4·D² + 2·D·F) + 4·n·D) + 2·V·D. Training takes about three times as much.
                 Of translation models it is one source token and one target token.
    activations  bytes kept between the forward and the backward pass of a batch
    """

    parameters: int
    max_length: int | None  # tokens of a row; None: any number
    flops: float
    weights: int  # bytes, as all below
    moments: int  # of the optimizer: Adam's two for every parameter, AdaGrad's one
    gradients: int = 0
    activations: int = 0
    batch_tokens: int = 0  # size of the batch that `activations` are for
    cache_bytes: int = 0  # keys and values of a full row, or the state of a recurrent network, while generating

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
    """The size of a model with this vocabulary; None for counting models, which grow with their text.

    The network is built, and one full row goes through it, on torch's meta device.
    """
    if spec.learning == "counting" and not spec.counts_again:
        return None
    network = spec.build(tokenizer)
    parameters = network.num_parameters
    if spec.counts_again:
        # Probabilities and expected counts are doubles; each token has a transition between any two states.
        num_states, double_bytes = network.states + 1, 2 * BYTES_PER_FLOAT * parameters
        flops, cache_bytes = 2 * num_states * num_states + 3 * num_states, 2 * BYTES_PER_FLOAT * num_states
        return ModelSize(parameters, None, flops, weights=double_bytes, moments=double_bytes, cache_bytes=cache_bytes)
    weight_bytes = BYTES_PER_FLOAT * parameters
    if spec.learning == "sweeping":
        # Rows of word vectors are updated in place: no gradients are kept. Embedding a text adds the rows of its words.
        moment_bytes = BYTES_PER_FLOAT * network.training_state_size
        return ModelSize(parameters, None, network.width, weight_bytes, moment_bytes)
    from forebear.nn.nnlm import NNLMEncoder

    encoder = network.encoder
    max_length = encoder.max_length or (encoder.window if isinstance(encoder, NNLMEncoder) else None)
    row_length = max_length or spec.context  # the training sequence length
    assert row_length is not None
    # Without a maximum length every token costs the same, so a short row is enough: each step takes milliseconds.
    row_tokens = row_length if max_length else min(row_length, SHORT_ROW_TOKENS)
    flops, activation_bytes = _row_costs(network, row_tokens)
    return ModelSize(
        parameters,
        max_length,
        flops / row_tokens,
        weight_bytes,
        moments=2 * weight_bytes,
        gradients=weight_bytes,
        activations=round(activation_bytes * max(batch_tokens, row_length) / row_tokens),
        batch_tokens=max(batch_tokens, row_length),
        cache_bytes=_decoding_state_bytes(network.encoder, row_length),
    )


def _decoding_state_bytes(encoder: Encoder, length: int) -> int:
    """Bytes kept between two generated tokens: the recurrent state or the KV cache."""
    if (state_size := encoder.state_size(length)) is not None:
        return BYTES_PER_FLOAT * state_size
    if not encoder.has_attention or not (encoder.has_decoder or encoder.sees == "past"):
        return 0
    keys_and_values = 2 * BYTES_PER_FLOAT * encoder.depth * length * encoder.width
    return 2 * keys_and_values if encoder.has_decoder else keys_and_values  # of the target and of the source


def _row_costs(network: Model, length: int) -> tuple[int, int]:
    """FLOPs of one full row, as torch counts them, and the bytes it keeps for the backward pass.

    Each storage is counted once, without weights.
    """
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    row = _full_row(network, length)
    # torch counts no FLOPs of the fused attention
    with FlopCounterMode(display=False) as counter, torch.no_grad(), _whole_row_kernels(attention=False):
        network.logits(row)
    weight_storages = {parameter.untyped_storage()._cdata for parameter in network.parameters()}
    saved: dict[int, int] = {}

    def record(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in weight_storages:
            saved[storage._cdata] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(record, lambda tensor: tensor), _whole_row_kernels():
        record(network.encoder(**row).last)
    return counter.get_total_flops(), sum(saved.values())


def _full_row(network: Model, length: int) -> dict[str, Any]:
    """Inputs of one row, with a source of the same length for encoder-decoders."""
    import torch

    tokens = torch.zeros(length, dtype=torch.long, device="meta")
    source = {"source": tokens, "source_lengths": [length]} if network.encoder.has_decoder else {}
    return {"tokens": tokens, "lengths": [length], **source}


def _whole_row_kernels(*, attention: bool = True) -> Any:
    """A context in which torch runs an LSTM, and attention, over a row as one operation on the meta device.

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
        (h, c), (by_input, by_state, bias, _) = state, weights
        i, f, g, o = (linear(x, by_input, bias) + linear(h.expand(len(x), -1, -1), by_state)).chunk(4, -1)
        cells = f.sigmoid() * c + i.sigmoid() * g.tanh()
        out = o.sigmoid() * cells.tanh()
        return out, out[-1:], cells[-1:]

    kernels: dict[Any, Any] = {torch.lstm: lstm} | ({scaled_dot_product_attention: attend} if attention else {})

    class WholeRowKernels(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return kernels.get(func, func)(*args, **(kwargs or {}))

    return WholeRowKernels()
