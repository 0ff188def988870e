"""ALBERT (Lan et al. 2019): BERT with shared layers, factorized embeddings, sentence order and n-gram masking."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from forebear.errors import InputError
from forebear.models.bert import BertSpec
from forebear.objectives.masked_tokens import MaskingUnits, WordNgrams

if TYPE_CHECKING:
    from forebear.data.tokenizers.tokenizer import Tokenizer
    from forebear.nn.model import Model


@dataclass(frozen=True)
class AlbertSpec(BertSpec):
    """ALBERT: A Lite BERT for Self-supervised Learning of Language Representations (Lan, Chen, Goodman, et al.).

    What a token means by itself needs fewer numbers than what it means in its context: the table of tokens is narrow,
    and one matrix leads from it to the width of the blocks. All blocks are one and the same. In place of BERT's random
    second halves, which differ in topic and are told apart by that alone, two halves of one text are swapped or not:
    which came first? And what is hidden are groups of up to three words, short ones more often.

    table   width of the table of tokens
    groups  words that are hidden together at most; n of them with a weight of 1/n
    """

    sizes: ClassVar[dict[str, dict[str, Any]]] = {
        "pocket": {"width": 128, "depth": 2, "heads": 2, "context": 64, "table": 64},
        "laptop": {"width": 256, "depth": 4, "heads": 4, "context": 256, "short_rows": 64, "table": 128},
        "base": {},
        "large": {"width": 1024, "depth": 24, "heads": 16},
        "xlarge": {"width": 2048, "depth": 24, "heads": 16},
        "xxlarge": {"width": 4096, "depth": 12, "heads": 64},
    }
    published_vocab_size: ClassVar[int] = 30_000

    pairs: str = "order"
    whole_words: bool = True
    table: int = 128
    groups: int = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.table < 1 or self.groups < 1:
            raise InputError(f"table {self.table}, groups {self.groups}", hint="give numbers above 0")
        if self.groups > 1 and not self.whole_words:
            message = "whole_words is false, but groups are groups of whole words"
            raise InputError(message, hint="give groups 1 too, or leave it out")

    def masking_units(self) -> MaskingUnits:
        return WordNgrams(self.groups) if self.groups > 1 else super().masking_units()

    def build(self, tokenizer: Tokenizer) -> Model:
        return self._build_model(tokenizer, self.table, shared_layers=True)
