"""Words: white space and punctuation part them, and in Chinese, which writes no spaces, a segmenter does."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from forebear.errors import BadInput
from forebear.text import vocabulary
from forebear.text.blueprint import SEPARATOR, Blueprint, build, normalizer_of, stages
from forebear.text.characters import codes_of, is_han, sound
from forebear.text.segmentation import Segmenter, has_han
from forebear.text.spaced import SpacedWords

SPLITS = ("punctuation", "spaces")
SIZE, MIN_COUNT = 50_000, 1
GAPS = "\n\t\r" + SEPARATOR  # part words as a space does, whatever stands beside them
WHITE = re.compile(
    f"[\t-\r {SEPARATOR}\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"
)  # Unicode's own list


def pre_tokenizer(split: str) -> dict[str, Any]:
    """How text is parted: at the separator always, then as `split` says.

    "punctuation": runs of word characters (letters, marks, digits, _) or one other character; "spaces": white space.
    """
    if split not in SPLITS:
        raise BadInput(f"no way to split words named {split!r}", remedy=f"the ways are: {', '.join(SPLITS)}")
    pattern = {"Regex": r"\w+|[^\w\s" + SEPARATOR + "]"}
    words = {"type": "Split", "pattern": pattern, "behavior": "Removed", "invert": True}
    if split == "punctuation":
        return words  # the separator is neither a word character nor kept
    parted = {"type": "Split", "pattern": {"String": SEPARATOR}, "behavior": "Removed", "invert": False}
    return {"type": "Sequence", "pretokenizers": [parted, {"type": "WhitespaceSplit"}]}


def is_plain(stretch: str, split: str) -> bool:
    """Whether it is certainly one word: letters and digits of ASCII only; where spaces part words, anything visible."""
    if split == "spaces":  # white space is never printable, but for the space itself, which no stretch has
        return stretch != "" and (stretch.isprintable() or WHITE.search(stretch) is None)
    return stretch.isascii() and stretch.isalnum()


def borders(text: str, segmenter: Segmenter | None) -> np.ndarray:
    """Where the segmenter's words part inside the text at a Chinese character: positions, rising."""
    if segmenter is None or not has_han(text):
        return np.zeros(0, np.int64)
    cuts = np.array(segmenter.cuts(text), np.int64)[:-1]
    han = is_han(codes_of(text))
    return cuts[han[cuts - 1] | han[cuts]]


def parted(text: str, places: np.ndarray) -> list[str]:
    """The text cut at each of these places."""
    return [text[begin:end] for begin, end in pairwise([0, *places.tolist(), len(text)])]


def marked(text: str, places: np.ndarray) -> str:
    """The text with a separator put in at each of these places."""
    return SEPARATOR.join(parted(text, places)) if len(places) else text


def count(
    texts: Iterable[str], *, split: str, normalise: Sequence[str], segmenter: Segmenter | None
) -> tuple[Counter[str], bool]:
    """How often each word occurs, and whether the segmenter had anything to do."""
    segmented, cut = False, _cutter(split, normalise)

    def spaced() -> Iterator[str]:
        nonlocal segmented
        for text in map(sound, texts):
            places = borders(text, segmenter)
            segmented = segmented or len(places) > 0
            text = marked(text, places)
            for gap in GAPS:
                text = text.replace(gap, " ")
            yield text

    return vocabulary.counted(spaced(), cut), segmented


def _cutter(split: str, normalise: Sequence[str]) -> Callable[[str], Sequence[str]]:
    """What makes pieces of a stretch."""
    _, pieces = stages(normalizer_of(normalise), pre_tokenizer(split))

    def cut(stretch: str) -> Sequence[str]:
        return (stretch,) if not normalise and is_plain(stretch, split) else pieces(stretch)

    return cut


def count_spaced(texts: Iterable[str]) -> vocabulary.Spoken:
    """The same of words that white space alone parts, as far as gaps do: those may have other white space in them."""
    return vocabulary.Spoken.of(texts, " " + GAPS)


def pieces_of(spoken: vocabulary.Spoken, split: str) -> Counter[str]:
    """How often each word occurs, where some of these are several."""
    return vocabulary.settled(spoken.items(), _cutter(split, ()))


def are_plain(words: SpacedWords) -> bool:
    """Whether none of these, which no gap parts, has any white space in it."""
    whole = words.joined("_")
    return whole.isprintable() or WHITE.search(whole) is None


def blueprint(
    tokens: Sequence[str],
    *,
    specials: Mapping[str, str],
    normalise: Sequence[str],
    split: str,
    segmenter: Segmenter | None,
    facts: Mapping[str, Any],
) -> Blueprint:
    """These words, special tokens among them, in id order; all others are the unknown token."""
    if "unknown" not in specials:
        raise BadInput("a word vocabulary needs a token for unknown words", remedy="give `specials` the role 'unknown'")
    model = {
        "type": "WordLevel",
        "vocab": dict(zip(tokens, range(len(tokens)), strict=True)),
        "unk_token": specials["unknown"],
    }
    return build(
        model,
        kind="words",
        specials=specials,
        normalizer=normalizer_of(normalise),
        pre_tokenizer=pre_tokenizer(split),
        decoder=None,
        facts={"normalise": list(normalise), "split": split, "segmenter": segmented_by(segmenter), **facts},
    )


def segmented_by(segmenter: Segmenter | None) -> dict[str, Any] | None:
    """What a blueprint says of its segmenter."""
    return None if segmenter is None else {"made_with": segmenter.describe(), "dictionary": list(segmenter.dictionary)}
