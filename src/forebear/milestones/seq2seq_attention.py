"""Sequence to sequence with attention (Bahdanau et al. 2015): what is written looks back at the source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from forebear.errors import BadInput
from forebear.milestones import shape
from forebear.milestones.seq2seq import LAPTOP, Seq2seq

if TYPE_CHECKING:
    from forebear.networks.model import Model
    from forebear.text.sides import Sides

SIMILARITIES = ("dot", "bilinear", "concatenated", "perceptron")


@dataclass(frozen=True)
class Seq2seqAttention(Seq2seq):
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
        "tiny": {"width": 128, "inner": 128, **LAPTOP},
        "small": {"width": 256, "inner": 256, **LAPTOP},
        "rnnsearch": {},
        "luong": {"width": 1000, "depth": 4, "dropout": 0.2, "similarity": "bilinear", "both_ways": False},
    }
    entries: ClassVar[int] = 30_000

    width: int = 620
    depth: int = 1
    similarity: str = "perceptron"
    both_ways: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        shape.one_of("similarity", self.similarity, SIMILARITIES)
        if self.both_ways and (self.inner or self.width) % 2:
            what = f"a state of {self.inner or self.width} numbers has no halves, one for each way of reading"
            raise BadInput(what, remedy="give an even --inner, or --both-ways false")

    @property
    def idle_fields(self) -> dict[str, str]:
        return {"reversed": "both_ways"} if self.both_ways else {}

    def network(self, tokenizer: Sides) -> Model:  # pyright: ignore[reportIncompatibleMethodOverride]
        from forebear.networks import similarities
        from forebear.networks.model import Model
        from forebear.networks.recurrent_translation import (
            AttentiveEncoderDecoder,
            LookingBack,
            RecurrentReader,
            RecurrentWriter,
        )

        inner = self.inner or self.width
        similarity = {
            "dot": lambda: similarities.Dot(),
            "bilinear": lambda: similarities.Bilinear(inner, inner, scaled=True),
            "concatenated": lambda: similarities.Concatenated(inner, inner),
            "perceptron": lambda: similarities.Perceptron(inner, inner, inner),
        }[self.similarity]()
        read, written, scored = self.tables(tokenizer)
        same: dict[str, Any] = {"depth": self.depth, "inner": inner, "dropout": self.dropout}
        way = "both" if self.both_ways else "backward" if self.reversed else "forward"
        look = LookingBack(similarity, inner=inner, width=self.width)
        reader, writer = RecurrentReader(read, way=way, **same), RecurrentWriter(written, scored, look=look, **same)
        return Model(AttentiveEncoderDecoder(reader, writer), {"translation": self.head(scored)})
