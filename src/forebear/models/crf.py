"""The conditional random field (Lafferty, McCallum and Pereira 2001): globally normalized scores of tag sequences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from forebear.errors import InputError
from forebear.models import spec
from forebear.models.spec import ModelSpec

if TYPE_CHECKING:
    import numpy as np

    from forebear.data.tokenizers.tokenizer import Tokenizer
    from forebear.statistical.crf import CRFModel

MAX_WORD_BYTES = 256  # bytes stored per out-of-vocabulary word; features use the word itself


@dataclass(frozen=True)
class CRFSpec(ModelSpec):
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
    required_roles: ClassVar[tuple[str, ...]] = ()
    char_level: ClassVar[bool] = True

    l2: float = 0.1
    l1: float = 0.0
    min_count: int = 1
    templates: str = ""

    def __post_init__(self) -> None:
        from forebear.statistical.crf_features import parse_templates

        spec.require_range(self, min_count=(1, None), l1=(0, None), l2=(0, None))
        if self.templates:
            parse_templates(self.templates)

    def objective(self, tokenizer: Any) -> Any:
        raise InputError("crf predicts no text: it learns from words and their tags", hint="give it tagged words")

    build = objective  # it predicts no text, so there is no language model to build

    def build_tagger(
        self, tokenizer: Tokenizer, allowed_transitions: tuple[np.ndarray, np.ndarray, np.ndarray]
    ) -> CRFModel:
        from forebear.data.tokenizers.char_ids import char_ids_for
        from forebear.statistical.crf import CRFModel
        from forebear.statistical.crf_features import WordAttributes

        attributes = WordAttributes(tokenizer.vocabulary(), char_ids_for(tokenizer, MAX_WORD_BYTES).id_to_word)
        return CRFModel(attributes, allowed_transitions, self.templates, self.min_count, self.l1, self.l2)

    def task_tokenizer(self, tokenizer: Tokenizer) -> Tokenizer:
        from forebear.data.tokenizers.char_ids import oov_tokenizer

        return oov_tokenizer(tokenizer, MAX_WORD_BYTES)

    def default_recipe(self) -> dict[str, Any]:
        return {"epochs": 60}
