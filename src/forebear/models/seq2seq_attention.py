"""Sequence to sequence with attention (Bahdanau et al. 2015): the decoder attends to all encoder states."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from forebear.errors import InputError
from forebear.models import spec
from forebear.models.seq2seq import LAPTOP_FIELDS, Seq2SeqSpec

if TYPE_CHECKING:
    from forebear.data.corpus.parallel import TokenizerPair
    from forebear.nn.model import Model

SIMILARITIES = ("dot", "bilinear", "concatenated", "perceptron")


@dataclass(frozen=True)
class Seq2SeqAttentionSpec(Seq2SeqSpec):
    """Neural Machine Translation by Jointly Learning to Align and Translate (Bahdanau, Cho, Bengio; ICLR 2015).

    Whatever its length, a sentence had to fit into one vector, and long ones were translated badly. Here all states of
    the reader are kept, one for each token of the source. Before each token is written, every one of them is compared
    with the writer's state, and their mean, weighted by how alike they are, is what the token is written from. The
    weights are learned with all the rest: an alignment that nobody wrote down. The source is read from both ends, so
    that each of its states knows what stands on either side.

    Attention stands above the last layer, as in Effective Approaches to Attention-based Neural Machine Translation
    (Luong, Pham, Manning; EMNLP 2015): a token is predicted from tanh(W c + U h), where c is what the state h found.
    That is not fed into the next step, so that all steps are learned at once. Cells are LSTM's, as in the milestone
    before.

    similarity  how alike a state h of the writer and one s of the reader are: "perceptron" vᵀtanh(Wh + Us) (Bahdanau);
                "bilinear" hᵀWs (Luong) and "dot" hᵀs, both by the root of the width; "concatenated" w·[h; s], which
                weighs the source alike for every token, and is there to show that it does
    both_ways   the source is read from both ends, each with half of the state; else as `reversed` says
    """

    sizes: ClassVar[dict[str, dict[str, Any]]] = {
        "tiny": {"width": 128, "inner": 128, **LAPTOP_FIELDS},
        "small": {"width": 256, "inner": 256, **LAPTOP_FIELDS},
        "rnnsearch": {},
        "luong": {"width": 1000, "depth": 4, "dropout": 0.2, "similarity": "bilinear", "both_ways": False},
    }
    published_vocab_size: ClassVar[int] = 30_000

    width: int = 620
    depth: int = 1
    similarity: str = "perceptron"
    both_ways: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        spec.require_choice("similarity", self.similarity, SIMILARITIES)
        if self.both_ways and (self.inner or self.width) % 2:
            message = f"a state of {self.inner or self.width} numbers has no halves, one for each way of reading"
            raise InputError(message, hint="give an even --inner, or --both-ways false")

    @property
    def unused_fields(self) -> dict[str, str]:
        return {"reversed": "both_ways"} if self.both_ways else {}

    def build(self, tokenizer: TokenizerPair) -> Model:  # pyright: ignore[reportIncompatibleMethodOverride]
        from forebear.nn import attention_scores
        from forebear.nn.model import Model
        from forebear.nn.seq2seq import AttentionEncoderDecoder, GlobalAttention, Seq2SeqDecoder, Seq2SeqEncoder

        inner = self.inner or self.width
        score = {
            "dot": lambda: attention_scores.DotProductScore(),
            "bilinear": lambda: attention_scores.BilinearScore(inner, inner, scaled=True),
            "concatenated": lambda: attention_scores.ConcatScore(inner, inner),
            "perceptron": lambda: attention_scores.AdditiveScore(inner, inner, inner),
        }[self.similarity]()
        source_embedding, target_embedding, output_embedding = self.embeddings(tokenizer)
        options: dict[str, Any] = {"depth": self.depth, "inner": inner, "dropout": self.dropout}
        direction = "both" if self.both_ways else "backward" if self.reversed else "forward"
        attention_layer = GlobalAttention(score, inner=inner, width=self.width)
        encoder = Seq2SeqEncoder(source_embedding, direction=direction, **options)
        decoder = Seq2SeqDecoder(target_embedding, output_embedding, attention=attention_layer, **options)
        return Model(AttentionEncoderDecoder(encoder, decoder), {"translation": self.head(output_embedding)})
