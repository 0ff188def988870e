"""GPT-2 (Radford et al. 2019): GPT with pre-norm blocks, a final LayerNorm and twice the context."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from forebear.models.gpt import GPTSpec


@dataclass(frozen=True)
class GPT2Spec(GPTSpec):
    """Language Models are Unsupervised Multitask Learners (Radford, Wu, Child, Luan, Amodei, Sutskever; OpenAI, 2019).

    A Transformer that only looks back, trained to predict the next token of forty gigabytes of web pages, was found to
    do tasks that nobody had trained it for, when the task is put as the beginning of a text. Against GPT: LayerNorm
    stands before attention and feed-forward instead of after them, one more after the last block; what each block adds
    starts smaller the deeper the stack; 1,024 tokens of context; tokens are pieces of bytes, so nothing is unknown.
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
    published_vocab_size: ClassVar[int] = 50_257
    norm: ClassVar[Literal["pre", "post"]] = "pre"

    context: int = 1024

    def default_recipe(self) -> dict[str, Any]:
        """Pre-norm allows a higher learning rate."""
        return super().default_recipe() | {"rate": 0.384 / self.width}
