"""What a network weighs before it exists: parameters, work for a token and memory, computed and not quoted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from forebear.milestones.milestone import Milestone
    from forebear.networks.model import Model
    from forebear.networks.states import Encoder
    from forebear.statistics.hmm import HmmModel
    from forebear.text.sides import Sides
    from forebear.text.tokenizer import Tokenizer

NUMBER = 4  # bytes of a float32
FEW = 8  # tokens


@dataclass(frozen=True)
class Weight:
    """One network's figures, in numbers and bytes.

    flops        multiplications and additions to read one token of a full row forward, and answer with every head.
                 A product of (a, b) and (b, c) counts 2·a·b·c; attention counts as if each token saw the whole row.
                 For a Transformer of depth L, width D, inner width F, vocabulary V and rows of n tokens that is
                 L·(2·(4·D² + 2·D·F) + 4·n·D) + 2·V·D. Training takes about three times as much. Of what translates
                 it is one token read and one written.
    activations  what is kept between the forward and the backward pass of a batch
    """

    parameters: int
    longest: int | None  # tokens of a row; None: any number
    flops: float
    weights: int
    gradients: int
    moments: int  # Adam's two for every parameter, AdaGrad's one
    activations: int
    batch: int  # tokens, to which `activations` belongs
    cache: int  # keys and values of a full row, or the state of a recurrent network, while generating

    @property
    def to_train(self) -> int:
        return self.weights + self.gradients + self.moments + self.activations

    @property
    def to_use(self) -> int:
        return self.weights + self.cache

    def facts(self) -> dict[str, Any]:
        return {
            "parameters": self.parameters,
            "longest_input": self.longest,
            "flops_per_token": self.flops,
            "memory_to_train": self.to_train,
            "memory_to_train_parts": {
                "weights": self.weights,
                "gradients": self.gradients,
                "moments": self.moments,
                "activations": self.activations,
                "batch_tokens": self.batch,
            },
            "memory_to_use": self.to_use,
        }


def weigh(milestone: Milestone, tokenizer: Tokenizer | Sides, batch: int) -> Weight | None:
    """The figures of this milestone's network with this vocabulary; None for one that counts and grows with its text.

    The network is built, and one full row goes through it, on torch's meta device: shapes without numbers.
    """
    if milestone.learning == "counting" and not milestone.counts_again:
        return None
    network = milestone.network(tokenizer)
    if milestone.counts_again:
        return _of_states(network)
    if milestone.learning == "sweeping":
        return _of_tables(network)
    from forebear.networks.window import Window

    encoder = network.encoder
    own = encoder.context or (encoder.window if isinstance(encoder, Window) else None)
    longest = own or milestone.context  # what it learns from at a time
    assert longest is not None
    # Where a row may be of any length, every token costs the same, and a few tell it: without numbers a step takes ms.
    row = longest if own else min(longest, FEW)
    parameters = network.parameter_count
    return Weight(
        parameters=parameters,
        longest=own,
        flops=_flops(network, row) / row,
        weights=NUMBER * parameters,
        gradients=NUMBER * parameters,
        moments=2 * NUMBER * parameters,
        activations=round(_kept(network, row) * max(batch, longest) / row),
        batch=max(batch, longest),
        cache=_cache(network.encoder, longest),
    )


def _of_tables(network: Any) -> Weight:
    """Rows are moved where they lie: there are no gradients to keep. A text costs the addition of its words' rows."""
    parameters, width = network.parameter_count, network.width
    nothing = {"gradients": 0, "moments": NUMBER * network.remembered_count, "activations": 0, "batch": 0, "cache": 0}
    return Weight(parameters=parameters, longest=None, flops=width, weights=NUMBER * parameters, **nothing)


def _of_states(network: HmmModel) -> Weight:
    """Probabilities are double numbers, as many are expected beside them, and a token moves each state to any other."""
    parameters, states = network.parameter_count, network.states + 1
    nothing = {"gradients": 0, "activations": 0, "batch": 0}
    own = {"weights": 2 * NUMBER * parameters, "moments": 2 * NUMBER * parameters, "cache": 2 * NUMBER * states}
    return Weight(parameters=parameters, longest=None, flops=2 * states * states + 3 * states, **nothing, **own)


def _cache(encoder: Encoder, longest: int) -> int:
    """Only what writes on keeps anything between two tokens: its state, and what its attention looks at."""
    if (remembered := encoder.remembered(longest)) is not None:
        return NUMBER * remembered
    if not encoder.has_attention:
        return 0
    if encoder.has_decoder:  # of what is written, and of the source
        return 2 * 2 * NUMBER * encoder.depth * longest * encoder.width
    return 2 * NUMBER * encoder.depth * longest * encoder.width if encoder.sees == "past" else 0


def _flops(network: Model, longest: int) -> int:
    """Of one full row, as torch counts them."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counted, torch.no_grad(), _at_once():
        network.answers(_row(network, longest))
    return counted.get_total_flops()


def _kept(network: Model, longest: int) -> int:
    """Bytes that one full row leaves for the backward pass: every different piece of memory once, weights left out."""
    import torch

    own = {parameter.untyped_storage()._cdata for parameter in network.parameters()}
    kept: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        memory = tensor.untyped_storage()
        if memory._cdata not in own:
            kept[memory._cdata] = memory.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor), _fused_attention(), _at_once():
        states = network.encoder(**_row(network, longest))
    alive = kept.copy()
    alive[states.last.untyped_storage()._cdata] = states.last.untyped_storage().nbytes()
    return sum(alive.values())


def _row(network: Model, length: int) -> dict[str, Any]:
    """A full row, and a source as long for what reads one."""
    import torch

    tokens = torch.zeros(length, dtype=torch.long, device="meta")
    source = {"source": tokens, "source_lengths": [length]} if network.encoder.has_decoder else {}
    return {"tokens": tokens, "lengths": [length], **source}


def _fused_attention() -> Any:
    """Without numbers torch would compute attention by its definition and keep every row's square of weights; with
    numbers it never holds that square. Inside this, it takes the shapes of the latter."""
    import torch
    from torch.nn import functional
    from torch.overrides import TorchFunctionMode

    class Fused(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func is not functional.scaled_dot_product_attention:
                return func(*args, **(kwargs or {}))
            causal = (kwargs or {}).get("is_causal", False)
            return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(*args[:3], is_causal=causal)[0]

    return Fused()


def _at_once() -> Any:
    """Without numbers torch would take an LSTM token by token, at a thousandth of a second for each operation. Inside
    this all its tokens are one product, of the same sizes and leaving as much behind, as if their states were known."""
    import torch
    from torch.nn.functional import linear
    from torch.overrides import TorchFunctionMode

    class AtOnce(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func is not torch.lstm:
                return func(*args, **(kwargs or {}))
            x, (h, c), (by_input, by_state, bias, _) = args[:3]
            i, f, g, o = (linear(x, by_input, bias) + linear(h.expand(len(x), -1, -1), by_state)).chunk(4, -1)
            cells = f.sigmoid() * c + i.sigmoid() * g.tanh()
            out = o.sigmoid() * cells.tanh()
            return out, out[-1:], cells[-1:]

    return AtOnce()
