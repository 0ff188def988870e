"""One-hot vectors (Salton et al. 1975): a word is its index in the vocabulary, equally far from every other word."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from forebear.models import spec
from forebear.models.spec import WordVectorSpec
from forebear.objectives.word2vec_token_blocks import WordFrequencies

if TYPE_CHECKING:
    from forebear.data.tokenizers.tokenizer import Tokenizer
    from forebear.embeddings.word_table import OnehotModel


@dataclass(frozen=True)
class OnehotSpec(WordVectorSpec):
    """A Vector Space Model for Automatic Indexing (Salton, Wong, Yang; 1975).

    The simplest vector of a word has a place for every word and a one at its own: a text is the sum of its words, and
    texts that share words are near each other. Two different words never are: their cosine is 0, whether they are hotel
    and motel or hotel and Tuesday. Every network after this one begins by multiplying such a vector with a matrix,
    which is the same as taking one of its rows: [0 0 0 1 0] times a matrix of five rows is the fourth row. What the
    rows should be, so that words that mean alike are near, is what all the others learn.

    min_count  words seen less often are not in the vocabulary
    """

    is_untrained: ClassVar[bool] = True

    min_count: int = 1

    def __post_init__(self) -> None:
        spec.require_range(self, min_count=(1, None))

    @property
    def new_word_note(self) -> str:
        return "have places of their own, behind the others"

    def objective(self, tokenizer: Tokenizer) -> WordFrequencies:
        return WordFrequencies()

    def build(self, tokenizer: Tokenizer) -> OnehotModel:
        from forebear.embeddings.word_table import OnehotModel

        return OnehotModel(vocab_size=tokenizer.vocab_size, excluded_ids=tokenizer.special_ids)

    def default_recipe(self) -> dict[str, Any]:
        return {"batch": 100_000, "epochs": 1, "warmup": 0}
