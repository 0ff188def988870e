"""The n-gram model (Markov 1913, Shannon 1948): next-token probabilities from counts, with smoothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from forebear.errors import InputError
from forebear.models.spec import ModelSpec
from forebear.objectives.input_format import InputFormat
from forebear.objectives.ordered_texts import WholeTexts

if TYPE_CHECKING:
    from forebear.data.tokenizers.tokenizer import Tokenizer
    from forebear.statistical.ngram.language_model import NgramModel


@dataclass(frozen=True)
class NgramSpec(ModelSpec):
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
        from forebear.statistical.ngram.smoothing import NgramConfig

        num_limits = len(NgramConfig(self.order, self.smoothing, self.k, self.prune).min_count_by_length)
        if num_limits > self.order:
            message = f"--prune {self.prune!r} has {num_limits} numbers, and n-grams have {self.order} tokens at most"
            raise InputError(message, hint="give a number for each length, or fewer: the last is for all longer ones")
        WholeTexts(self.unit, eos_id=0)

    @property
    def unused_fields(self) -> dict[str, str]:
        return {} if self.smoothing == "add" else {"k": "smoothing"}

    def objective(self, tokenizer: Tokenizer) -> WholeTexts:
        return WholeTexts(self.unit, tokenizer.special_roles["end"])

    def build(self, tokenizer: Tokenizer) -> NgramModel:
        from forebear.statistical.ngram.language_model import NgramModel

        eos_id = tokenizer.special_roles["end"]
        return NgramModel(
            order=self.order,
            vocab_size=tokenizer.vocab_size,
            eos_id=eos_id,
            excluded_ids=tokenizer.special_ids - {eos_id, tokenizer.unk_id},
            smoothing=self.smoothing,
            k=self.k,
            prune=self.prune,
        )

    def input_format(self, tokenizer: Tokenizer) -> InputFormat:
        """Plain texts, with segment ids for pairs."""
        return InputFormat(segments=True)

    def default_recipe(self) -> dict[str, Any]:
        return {"batch": 1_000_000, "epochs": 1}
