"""GPT (Radford et al. 2018): a decoder-only Transformer, pre-trained as a causal language model and then fine-tuned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from forebear.models import spec
from forebear.models.spec import ModelSpec
from forebear.objectives.input_format import InputFormat
from forebear.objectives.next_token import NextToken

if TYPE_CHECKING:
    from forebear.data.tokenizers.tokenizer import Tokenizer
    from forebear.nn.model import Model


@dataclass(frozen=True)
class GPTSpec(ModelSpec):
    """Improving Language Understanding by Generative Pre-Training (Radford, Narasimhan, Salimans, Sutskever; 2018).

    Before it, a network for a task began with word vectors at best. GPT first learns a whole language model from seven
    thousand unpublished books, then the same network, with one layer more, learns the task. It is the right half of the
    Transformer without what looks at a left half: each token sees itself and those before it. Positions are learned,
    LayerNorm stands after each sum, as in the Transformer, and the table that reads tokens also scores them.

    width    numbers in the vector of a token
    depth    blocks, each attention and feed-forward
    heads    attention heads in a block
    context  tokens it can look back at
    inner    width inside the feed-forward layer; 0: four times the width
    dropout  share of numbers set to zero in training; the small models here see each text few times and want none
    epsilon  added to the variance in LayerNorm
    apart    attention does not cross the border of a document in training
    """

    sizes: ClassVar[dict[str, dict[str, Any]]] = {
        "tiny": {"width": 128, "depth": 4, "heads": 4, "context": 64},
        "mini": {"width": 192, "depth": 6, "heads": 6, "context": 128},
        "small": {"width": 384, "depth": 6, "heads": 6, "context": 256},
        "117M": {},
    }
    size: ClassVar[str] = "tiny"
    published_vocab_size: ClassVar[int] = 40_478
    norm: ClassVar[Literal["pre", "post"]] = "post"

    width: int = 768
    depth: int = 12
    heads: int = 12
    context: int = 512
    inner: int = 0
    dropout: float = 0.0
    epsilon: float = 1e-5
    apart: bool = False

    def __post_init__(self) -> None:
        spec.validate_transformer(self)

    def objective(self, tokenizer: Tokenizer) -> NextToken:
        (eos_id,) = spec.special_ids(tokenizer, self.required_roles)
        return NextToken(self.context, eos_id, self.apart)

    def build(self, tokenizer: Tokenizer) -> Model:
        from forebear.nn.embedding import InputEmbedding
        from forebear.nn.heads import LMHead
        from forebear.nn.model import Model
        from forebear.nn.transformer import Transformer

        embedding = InputEmbedding(tokenizer.vocab_size, self.width, positions=self.context, dropout=self.dropout)
        encoder = Transformer(
            embedding,
            depth=self.depth,
            width=self.width,
            num_heads=self.heads,
            inner=self.inner or 4 * self.width,
            norm=self.norm,
            sees="past",
            activation="gelu-tanh",
            epsilon=self.epsilon,
            dropout=self.dropout,
        )
        return Model(encoder, {"next": LMHead(embedding)})

    def input_format(self, tokenizer: Tokenizer) -> InputFormat:
        """Start, separator and end are the same token, as in pre-training; the last one is pooled."""
        (eos_id,) = spec.special_ids(tokenizer, self.required_roles)
        return InputFormat((eos_id,), (eos_id,), (eos_id,), "last", both_orders=True, max_length=self.context)

    def default_recipe(self) -> dict[str, Any]:
        """Small batches and high rates: in minutes, many steps beat large batches. Wider models need lower rates."""
        return {"rate": 0.256 / self.width, "batch": max(self.context, 6 * self.width)}
