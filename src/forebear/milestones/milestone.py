"""A milestone is a frozen record of a paper's numbers, with two methods: what is predicted, and by what."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from forebear.errors import BadInput

if TYPE_CHECKING:
    import numpy as np

    from forebear.objectives.batch import Objective
    from forebear.objectives.layout import Layout, Reader
    from forebear.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class Milestone(ABC):
    """Fields are the paper's numbers. `sizes` are fields by name, published ones and ones for a laptop."""

    sizes: ClassVar[dict[str, dict[str, Any]]] = {}
    size: ClassVar[str] = ""  # the one to begin with on a laptop
    learning: ClassVar[Literal["descending", "counting", "sweeping"]] = "descending"
    counts_again: ClassVar[bool] = False  # whether what was counted changes what is counted next, epoch after epoch
    only_counts: ClassVar[bool] = False  # whether, for all its tables, there is nothing to learn but what there is
    # From plain text, from texts and their translations, or from words with their tags and nothing else.
    learns_from: ClassVar[Literal["text", "pairs", "tags"]] = "text"
    learns_tags: ClassVar[bool] = False  # whether words with their tags teach it by themselves, as a tagger of its own
    learns_tags_by: ClassVar[Literal["counting", "searching"]] = "counting"  # all at once, or step by step to the best
    takes_lines: ClassVar[bool] = False  # whether all of a text may teach, line by line where it is made for that
    tokenizer: ClassVar[str] = "bytepair"  # the kind that is learned from the text unless another is asked for

    # Fields that only some have, and what they say where there is none; to the rest they are no fields.
    if TYPE_CHECKING:
        context: int | None = None
        depth: int | None = None
        dropout: float | None = None
        order: int | None = None
        output: str | None = None
        pairs: str = "none"
        unit: str = "document"
        tied: bool = False
        weight_dropout: float = 0.0
        word_dropout: float = 0.0
    else:
        context = depth = dropout = order = output = None
        pairs, unit, tied, weight_dropout, word_dropout = "none", "document", False, 0.0, 0.0

    entries: ClassVar[int] = 50_257  # of the published vocabulary, where there was one; GPT-2's elsewhere
    needs: ClassVar[tuple[str, ...]] = ("end",)  # special tokens that its rows are made with, by their roles

    @property
    def carries(self) -> bool:
        """Whether a step of training goes on with what it knew at the end of the step before."""
        return False

    @property
    def spells(self) -> bool:
        """Whether it reads words by how they are written, so that none is unknown to it."""
        return False

    @property
    def wants_words(self) -> bool:
        """Whether it must know where words begin, Chinese ones too."""
        return False

    @property
    def wants_names(self) -> bool:
        """Whether it makes use of names of persons, places and organisations."""
        return False

    @property
    def learns_tasks_by(self) -> str:
        """How it learns a task: a table of words does as networks do, with one above it."""
        return "counting" if self.learning == "counting" else "descending"

    @property
    def idle_fields(self) -> dict[str, str]:
        """Fields that mean nothing beside the value of another, by the name of that."""
        return {}

    @property
    def new_words(self) -> str:
        """What becomes of words that a run to go on from did not know, where it is a table of words."""
        return "have vectors that begin by chance"

    @property
    def least_count(self) -> int | None:
        """How often a word must occur to be in a vocabulary of all words; None: the most frequent ones are."""
        return None

    @abstractmethod
    def objective(self, tokenizer: Any) -> Objective:
        """What is predicted from what; one that translates is given the tokenizers of both `Sides`."""

    @abstractmethod
    def network(self, tokenizer: Any) -> Any:
        """What does the predicting: a `networks.model.Model`, one of `statistics` that counts, or `vectors`."""

    @property
    def takes_reader(self) -> bool:
        """Whether something may read its layers, mixed, when it serves a task; else its own encoder does it alone."""
        return self.wants_reader

    def tagger(self, tokenizer: Tokenizer, legal: tuple[np.ndarray, np.ndarray, np.ndarray]) -> Any:
        """What learns to tag, of one that `learns_tags`: a model of `statistics` with `logits`, whose `moves` say what
        follows what. `legal` are which of K tags may follow which (K, K), begin (K,) and end (K,)."""
        what = f"{type(self).__name__} has no tagger of its own"
        raise BadInput(what, remedy="choose hmm or crf, or adapt another to --task tagging")

    def reading(self, tokenizer: Tokenizer) -> Tokenizer:
        """The tokenizer for a task: where words are read by how they are written, none is unknown."""
        return tokenizer

    @property
    def wants_reader(self) -> bool:
        """Whether all it has is vectors of words, which want something that reads them when they serve a task."""
        return self.learning == "sweeping"

    def task_network(self, tokenizer: Any, reader: Reader) -> Any:
        """The encoder that serves a task: its own, or its vectors of words with this reader above them."""
        return self.network(tokenizer)

    def layout(self, tokenizer: Tokenizer) -> Layout:
        """How texts are laid out for it when it serves a task: as they are, unless it knows tokens around them."""
        from forebear.objectives.layout import Layout

        return Layout()

    def recipe(self) -> dict[str, Any]:
        """What of the training recipe this milestone wants otherwise than the defaults, found by trying."""
        return {}
