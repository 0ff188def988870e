"""One-hot vectors (Salton et al. 1975): a word is its number in the vocabulary, and like no other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from forebear.milestones import shape
from forebear.milestones.milestone import Milestone
from forebear.milestones.read_words import LAYOUT, read_words
from forebear.objectives.which_words import WhichWords

if TYPE_CHECKING:
    from forebear.networks.model import Model
    from forebear.objectives.layout import Layout, Reader
    from forebear.text.tokenizer import Tokenizer
    from forebear.vectors.onehot import OneHotModel


@dataclass(frozen=True)
class OneHot(Milestone):
    """A Vector Space Model for Automatic Indexing (Salton, Wong, Yang; 1975).

    The simplest vector of a word has a place for every word and a one at its own: a text is the sum of its words, and
    texts that share words are near each other. Two different words never are: their cosine is 0, whether they are hotel
    and motel or hotel and Tuesday. Every network after this one begins by multiplying such a vector with a matrix,
    which is the same as taking one of its rows: [0 0 0 1 0] times a matrix of five rows is the fourth row. What the
    rows should be, so that words that mean alike are near, is what all the others learn.

    min_count  words seen less often are not in the vocabulary
    """

    learning: ClassVar[Literal["descending", "counting", "sweeping"]] = "sweeping"
    only_counts: ClassVar[bool] = True
    tokenizer: ClassVar[str] = "words"
    needs: ClassVar[tuple[str, ...]] = ()

    min_count: int = 1

    def __post_init__(self) -> None:
        shape.within(self, min_count=(1, None))

    @property
    def new_words(self) -> str:
        return "have places of their own, behind the others"

    @property
    def least_count(self) -> int:
        return self.min_count

    def objective(self, tokenizer: Tokenizer) -> WhichWords:
        return WhichWords()

    def network(self, tokenizer: Tokenizer) -> OneHotModel:
        from forebear.vectors.onehot import OneHotModel

        return OneHotModel(vocabulary=tokenizer.size, never=tokenizer.specials)

    def task_network(self, tokenizer: Tokenizer, reader: Reader) -> Model:
        return read_words(tokenizer.size, None, reader)

    def layout(self, tokenizer: Tokenizer) -> Layout:
        return LAYOUT

    def recipe(self) -> dict[str, Any]:
        return {"batch": 100_000, "epochs": 1, "warmup": 0}
