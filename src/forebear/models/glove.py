"""GloVe (Pennington et al. 2014): word vectors whose dot products fit the logarithms of co-occurrence counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from forebear.errors import InputError
from forebear.models import spec
from forebear.models.spec import WordVectorSpec
from forebear.objectives.cooccurrence import Cooccurrences

if TYPE_CHECKING:
    from forebear.data.tokenizers.tokenizer import Tokenizer
    from forebear.embeddings.glove import GloveModel


@dataclass(frozen=True)
class GloveSpec(WordVectorSpec):
    """GloVe: Global Vectors for Word Representation (Pennington, Socher, Manning; 2014).

    word2vec goes through the text window by window and never sees how often two words stand together in all of it;
    older methods factor the table of these counts, but let the most frequent pairs decide. GloVe does both: it counts
    once, near words more than far ones, and then learns from the table alone: w·c + b + b' shall be the log of a count.
    The difference of two vectors then tells how much more often each of two words stands beside a third: ice and steam
    differ where solid and gas do. Rare pairs, which are mostly chance, matter less, and frequent ones no more than
    `largest`. The text is read once, however long one learns. Each word has two vectors, as a row and as a column,
    which differ only by chance, and their sum is better than either.

    width      numbers in the vector of a word
    window     how many words away another one may be; it counts the less the further it is
    largest    from this count on all pairs matter alike; the paper's suits billions of words, and of the few millions
               that a laptop reads ("small") hardly any pair would come near it
    power      below, a pair matters as much as its share of `largest` to this power
    min_count  words seen less often have no vector
    unit       what no window reaches beyond: a "sentence" or a "document"
    """

    sizes: ClassVar[dict[str, dict[str, Any]]] = {
        "small": {"largest": 10.0},
        "50d": {"width": 50},
        "100d": {},
        "300d": {"width": 300},
    }
    size: ClassVar[str] = "small"

    width: int = 100
    window: int = 10
    largest: float = 100.0
    power: float = 0.75
    min_count: int = 5
    unit: str = "document"

    def __post_init__(self) -> None:
        spec.require_range(self, width=(1, None), window=(1, None), min_count=(1, None))
        for name, value in {"largest": self.largest, "power": self.power}.items():
            if not 0 < value < float("inf"):
                raise InputError(f"{name} is {value}", hint="give a number above 0")
        Cooccurrences(0, frozenset(), self.window, self.unit, self.largest, self.power)

    def objective(self, tokenizer: Tokenizer) -> Cooccurrences:
        return Cooccurrences(
            tokenizer.vocab_size, tokenizer.special_ids, self.window, self.unit, self.largest, self.power
        )

    def build(self, tokenizer: Tokenizer) -> GloveModel:
        from forebear.embeddings.glove import GloveModel

        return GloveModel(vocab_size=tokenizer.vocab_size, excluded_ids=tokenizer.special_ids, width=self.width)

    def default_recipe(self) -> dict[str, Any]:
        return {"rate": 0.05, "batch": 250_000, "epochs": 25, "warmup": 0}
