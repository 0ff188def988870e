"""The conditional random field (Lafferty, McCallum and Pereira 2001): all labels of a sentence are judged together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from forebear.errors import BadInput
from forebear.milestones import shape
from forebear.milestones.milestone import Milestone

if TYPE_CHECKING:
    import numpy as np

    from forebear.statistics.crf import CrfModel
    from forebear.text.tokenizer import Tokenizer

LONGEST = 256  # bytes of a word that a spelling holds; features are made of the word itself


@dataclass(frozen=True)
class Crf(Milestone):
    """Conditional Random Fields: Probabilistic Models for Segmenting and Labeling Sequence Data (2001).

    A hidden Markov model explains words by labels, and may look at no more of a word than the word. A conditional one
    asks only for the labels, given all words: it may look at anything, at endings, capitals and neighbours, however
    these depend on one another. What went before it (McCallum's maximum-entropy Markov model) was normalised word by
    word, and so hardly heard the words where few labels can follow; here a whole labelling of the sentence is set
    beside all others, by one sum that a walk forwards and back through the sentence finds. There is one best answer,
    and L-BFGS finds it. Until networks learned their own features this was how names, parts of speech and Chinese
    words were found, and as a last layer (`adapt --crf`) it still is.

    l2         what Σ weight² counts: weights stay small
    l1         what Σ |weight| counts: weights that matter little become 0, and the model small
    min_count  how often a feature must occur in the examples
    templates  what is looked at, such as "word[0] word[-1]+word[0] suffix2[0]"; "": what suits the words
    """

    sizes: ClassVar[dict[str, dict[str, Any]]] = {"full": {}, "small": {"min_count": 3}, "sparse": {"l1": 1.0}}
    size: ClassVar[str] = "full"
    learning: ClassVar[Literal["descending", "counting", "sweeping"]] = "counting"
    learns_from: ClassVar[Literal["text", "pairs", "tags"]] = "tags"
    learns_tags: ClassVar[bool] = True
    learns_tags_by: ClassVar[Literal["counting", "searching"]] = "searching"
    tokenizer: ClassVar[str] = "words"
    needs: ClassVar[tuple[str, ...]] = ()

    l2: float = 0.1
    l1: float = 0.0
    min_count: int = 1
    templates: str = ""

    def __post_init__(self) -> None:
        from forebear.statistics.crf_templates import templates_of

        shape.within(self, min_count=(1, None))
        for name, value in {"l1": self.l1, "l2": self.l2}.items():
            if value < 0:
                raise BadInput(f"{name} is {value}", remedy="give 0 or more")
        if self.templates:
            templates_of(self.templates)

    @property
    def spells(self) -> bool:
        return True

    def objective(self, tokenizer: Any) -> Any:
        raise BadInput("crf predicts no text: it learns from words and their tags", remedy="give it tagged words")

    def network(self, tokenizer: Any) -> Any:
        raise BadInput("crf predicts no text: it learns from words and their tags", remedy="give it tagged words")

    def tagger(self, tokenizer: Tokenizer, legal: tuple[np.ndarray, np.ndarray, np.ndarray]) -> CrfModel:
        from forebear.statistics.crf import CrfModel
        from forebear.statistics.crf_features import Written

        spelling = self._spelling(tokenizer)
        written = Written(self._plain(tokenizer).tokens(), spelling.word)
        return CrfModel(written, legal, self.templates, self.min_count, self.l1, self.l2)

    def reading(self, tokenizer: Tokenizer) -> Tokenizer:
        from forebear.text.unlisted import SpellingTokenizer

        made: Any = SpellingTokenizer(self._plain(tokenizer), self._spelling(tokenizer))
        return made

    def _spelling(self, tokenizer: Tokenizer) -> Any:
        from forebear.text.spelling import spelling_of

        made = self._plain(tokenizer)
        return spelling_of(made.tokens(), LONGEST, made.roles, made.digest)

    @staticmethod
    def _plain(tokenizer: Tokenizer) -> Tokenizer:
        from forebear.text.unlisted import plain

        return plain(tokenizer)

    def recipe(self) -> dict[str, Any]:
        return {"epochs": 60}
