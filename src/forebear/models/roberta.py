"""RoBERTa (Liu et al. 2019): BERT without sentence pairs, with byte-level BPE, trained longer on more text."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from forebear.models.bert import BertSpec
from forebear.objectives.input_format import InputFormat

if TYPE_CHECKING:
    from forebear.data.tokenizers.tokenizer import Tokenizer


@dataclass(frozen=True)
class RobertaSpec(BertSpec):
    """RoBERTa: A Robustly Optimized BERT Pretraining Approach (Liu, Ott, Goyal, Du, Joshi, Chen, Levy, Lewis, et al.).

    The authors trained BERT again and found it undertrained. Asking whether two halves belong together did not help, so
    a row is as many whole sentences of one document as it holds (the variant they call DOC-SENTENCES and found best;
    rows of unequal length, their reason against it, cost nothing here). What is hidden is drawn anew each time a text
    is shown. Tokens are GPT-2's pieces of bytes.
    """

    sizes: ClassVar[dict[str, dict[str, Any]]] = {
        name: BertSpec.sizes[name] for name in ("pocket", "laptop", "base", "large")
    }
    tokenizer: ClassVar[str] = "bytepair"
    published_vocab_size: ClassVar[int] = 50_265
    segments: ClassVar[int] = 1

    epsilon: float = 1e-5
    pairs: str = "none"

    def input_format(self, tokenizer: Tokenizer) -> InputFormat:
        """<s> A </s></s> B </s>: without segment ids, two end tokens separate the texts."""
        bert_format = super().input_format(tokenizer)
        return replace(bert_format, between=bert_format.between * 2)
