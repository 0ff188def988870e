"""ERNIE (Sun et al. 2019): BERT with whole-word, phrase and entity masking."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from forebear.errors import InputError
from forebear.models.bert import BertSpec
from forebear.objectives.masked_tokens import AlternatingUnits, EntityUnits, MaskingUnits, WholeWords, WordNgrams


@dataclass(frozen=True)
class ErnieSpec(BertSpec):
    """ERNIE: Enhanced Representation through Knowledge Integration (Sun, Wang, Li, Feng, Chen, Zhang, et al.; Baidu).

    In Chinese a character that is hidden alone is mostly guessed from the rest of its word: 哈_滨 needs no knowledge of
    cities. ERNIE hides whole words, then whole phrases, then whole names of persons, places and organisations, so that
    only the world around them helps. Phrases are here what stands together without punctuation, two or three words;
    names come from a dictionary (--entities) or from the tags of a text that has them.

    The paper goes through its stages once. A run that ends by the clock cannot know beforehand where its thirds lie:
    here stages take turns, `stage` steps each.

    phrases  words in a phrase at most
    stage    steps until the next kind of unit is hidden
    """

    sizes: ClassVar[dict[str, dict[str, Any]]] = {name: BertSpec.sizes[name] for name in ("pocket", "laptop", "base")}
    published_vocab_size: ClassVar[int] = 18_000
    uses_entities: ClassVar[bool] = True

    context: int = 513
    activation: str = "relu"
    whole_words: bool = True
    phrases: int = 3
    stage: int = 50

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.whole_words:
            message = "whole_words is false, but ernie never hides a part of a word"
            raise InputError(message, hint="choose bert, or leave it out")
        if self.phrases < 2 or self.stage < 1:
            message = f"phrases {self.phrases}, stage {self.stage}"
            raise InputError(message, hint="give phrases of at least 2 words, and stages of at least 1 step")

    def masking_units(self) -> MaskingUnits:
        return AlternatingUnits((WholeWords(), WordNgrams(self.phrases, min_words=2), EntityUnits()), self.stage)
