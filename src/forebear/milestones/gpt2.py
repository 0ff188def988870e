"""GPT-2 (Radford et al. 2019): GPT with the norms moved before each layer, a final norm, and twice the context."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from forebear.errors import BadInput
from forebear.milestones.milestone import Milestone
from forebear.objectives.next_token import NextToken

if TYPE_CHECKING:
    from forebear.networks.model import Model
    from forebear.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class Gpt2(Milestone):
    """Language Models are Unsupervised Multitask Learners (Radford, Wu, Child, Luan, Amodei, Sutskever; OpenAI, 2019).

    A Transformer that only looks back, trained to predict the next token of forty gigabytes of web pages, was found to
    do tasks that nobody had trained it for, when the task is put as the beginning of a text. Against GPT: LayerNorm
    stands before attention and feed-forward instead of after them, one more after the last block; what each block adds
    starts smaller the deeper the stack; 1,024 tokens of context; tokens are pieces of bytes, so nothing is unknown.

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
        "124M": {},
        "355M": {"width": 1024, "depth": 24, "heads": 16},
        "774M": {"width": 1280, "depth": 36, "heads": 20},
        "1.5B": {"width": 1600, "depth": 48, "heads": 25},
    }
    size: ClassVar[str] = "tiny"
    tokenizer: ClassVar[str] = "bytepair"

    width: int = 768
    depth: int = 12
    heads: int = 12
    context: int = 1024
    inner: int = 0
    dropout: float = 0.0
    epsilon: float = 1e-5
    apart: bool = False

    def __post_init__(self) -> None:
        for name in ("width", "depth", "heads", "context", "epsilon"):
            if not getattr(self, name) > 0:
                raise BadInput(f"{name} is {getattr(self, name)}", remedy="give a number above 0")
        if not 0 <= self.dropout < 1 or self.inner < 0:
            raise BadInput(f"dropout {self.dropout}, inner {self.inner}", remedy="give a dropout from 0 to below 1")
        if self.width % self.heads:
            remedy = f"choose heads that divide it, such as {max(1, self.width // 64)}"
            raise BadInput(f"a width of {self.width} cannot be shared by {self.heads} heads", remedy=remedy)

    def objective(self, tokenizer: Tokenizer) -> NextToken:
        return NextToken(self.context, tokenizer.roles["end"], self.apart)

    def network(self, tokenizer: Tokenizer) -> Model:
        from forebear.networks.embedding import Embedding
        from forebear.networks.heads import TokenHead
        from forebear.networks.model import Model
        from forebear.networks.transformer import Transformer

        embedding = Embedding(tokenizer.size, self.width, positions=self.context, dropout=self.dropout)
        encoder = Transformer(
            embedding,
            depth=self.depth,
            width=self.width,
            heads=self.heads,
            inner=self.inner or 4 * self.width,
            norm="pre",
            sees="past",
            activation="gelu-tanh",
            epsilon=self.epsilon,
            dropout=self.dropout,
        )
        return Model(encoder, {"next": TokenHead(embedding)})

    def recipe(self) -> dict[str, Any]:
        """Small batches and high rates: where minutes count, many steps beat large ones. Wider models want less."""
        return {"rate": 0.384 / self.width, "batch": max(self.context, 6 * self.width)}
