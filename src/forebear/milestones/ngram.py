"""The n-gram (Markov 1913, Shannon 1948): the next word is guessed from the few before it, by counting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from forebear.errors import BadInput
from forebear.milestones.milestone import Milestone
from forebear.objectives.every_text import EveryText
from forebear.objectives.layout import Layout

if TYPE_CHECKING:
    from forebear.statistics.ngram import NgramModel
    from forebear.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class Ngram(Milestone):
    """An Example of Statistical Investigation of the Text "Eugene Onegin" (Markov, 1913).

    Markov counted by hand which of twenty thousand letters were vowels, given the letters before them, and so made the
    first language model. Shannon (A Mathematical Theory of Communication, 1948) let counts of letter and word n-grams
    write English and measured its entropy. What was never seen has no count: Laplace's rule adds one to each, Kneser
    and Ney (Improved Backing-off for M-gram Language Modeling, 1995) take a little from each count and let a shorter
    context share it out by how many different words it was seen after, and Chen and Goodman (An Empirical Study of
    Smoothing Techniques for Language Modeling, 1998) found three discounts better than one. That is still what an
    n-gram is today, and the first thing a network has to beat.

    order      tokens of the longest n-gram: all but the last are looked at, the last is predicted
    smoothing  "none": shares of counts; "add": k more for each; "witten-bell" (1991); "stupid" back-off (Brants et al.
               2007), made to sum to 1; "kneser-ney"; "given": probabilities from elsewhere
    k          what "add" adds; 1 is Laplace's rule
    prune      "0 0 1": n-grams of one, two, three and more tokens that are seen no more often than so are left out
    unit       what begins and ends by itself: a "sentence" or a "document"
    """

    sizes: ClassVar[dict[str, dict[str, Any]]] = {
        "unigram": {"order": 1},
        "bigram": {"order": 2},
        "trigram": {"order": 3},
        "five": {"order": 5},
    }
    size: ClassVar[str] = "five"
    learning: ClassVar[Literal["descending", "counting"]] = "counting"
    tokenizer: ClassVar[str] = "words"
    takes_lines: ClassVar[bool] = True

    order: int = 5
    smoothing: str = "kneser-ney"
    k: float = 1.0
    prune: str = ""
    unit: str = "document"

    def __post_init__(self) -> None:
        from forebear.statistics.ways import Way

        if (numbers := len(Way(self.order, self.smoothing, self.k, self.prune).least)) > self.order:
            what = f"--prune {self.prune!r} has {numbers} numbers, and n-grams have {self.order} tokens at most"
            raise BadInput(what, remedy="give a number for each length, or fewer: the last is for all longer ones")
        EveryText(self.unit, end=0)

    @property
    def idle_fields(self) -> dict[str, str]:
        return {} if self.smoothing == "add" else {"k": "smoothing"}

    def objective(self, tokenizer: Tokenizer) -> EveryText:
        return EveryText(self.unit, tokenizer.roles["end"])

    def network(self, tokenizer: Tokenizer) -> NgramModel:
        from forebear.statistics.ngram import NgramModel

        end = tokenizer.roles["end"]
        return NgramModel(
            order=self.order,
            vocabulary=tokenizer.size,
            end=end,
            never=tokenizer.specials - {end, tokenizer.unknown},
            smoothing=self.smoothing,
            k=self.k,
            prune=self.prune,
        )

    def layout(self, tokenizer: Tokenizer) -> Layout:
        """Texts as they are; which of two a token belongs to is told."""
        return Layout(segments=True)

    def recipe(self) -> dict[str, Any]:
        return {"batch": 1_000_000, "epochs": 1}
