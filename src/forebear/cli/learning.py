"""The options that say how a tokenizer is learned and how Chinese words are found."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Group, Parameter

from forebear.text.choosing import Learning

if TYPE_CHECKING:
    from forebear.text.segmentation import Segmenter

LEARNING = Group("Learning a tokenizer")


@Parameter(name="*", group=LEARNING)
@dataclass(frozen=True)
class LearningOptions:
    """How a tokenizer is learned from the text, where it is not given as a file."""

    size: int | None = None
    "The most tokens it may have. [default: 50000 words, 30000 wordpiece, 16000 bytepair, all characters]"
    min_count: int | None = None
    "Leave out what occurs less often. [default: 1; 2 for wordpiece and bytepair]"
    lower: bool | None = None
    "Lower-case the text (and take accents off, as BERT does). [default: for wordpiece only]"
    normalise: Annotated[tuple[str, ...], Parameter(consume_multiple=True, negative="", show_default=False)] = ()
    "Explicit steps: nfkc, lower, accents. Offsets still refer to the original text. [default: none]"
    split: Literal["punctuation", "spaces"] = "punctuation"
    "Words: cut at spaces and punctuation, or at spaces only (for text that is tokenised already)."
    limit: int = 200_000_000
    "Characters to learn from; of more text a sample of this size is taken and its size recorded."

    def learning(self) -> Learning:
        return Learning(self.size, self.min_count, self.lower, self.normalise, self.split, self.limit)


def segmenter_of(segment: bool, user_dict: Path | None) -> Segmenter | None:
    """The Chinese word segmenter that the options ask for, if any."""
    if not segment and user_dict is None:
        return None
    from forebear.text.segmentation import Segmenter

    return Segmenter.from_file(user_dict)
