"""Word-level tokenization: word boundaries, counting of words, and the specification of a word tokenizer.

Words are separated by white space and punctuation, in Chinese by a segmenter.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Unpack

import numpy as np

from forebear.data.segmentation import Segmenter, has_han
from forebear.data.tokenizers import build_vocabulary
from forebear.data.tokenizers.tokenizer_json import (
    SEPARATOR,
    SpecSettings,
    TokenizerSpec,
    build_tokenizer_spec,
    make_normalizer,
    preprocessing_steps,
)
from forebear.data.unicode import code_points, is_han, replace_surrogates
from forebear.errors import InputError

WORD_SPLITS = ("punctuation", "spaces")
WORD_SEPARATORS = "\n\t\r" + SEPARATOR  # like a space, these separate words in any context
# Unicode's White_Space
WHITESPACE = re.compile(f"[\t-\r {SEPARATOR}\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]")


def word_pretokenizer(split: str) -> dict[str, Any]:
    """The pre-tokenizer: splits at the separator, then as `split` says.

    "punctuation": runs of word characters (letters, marks, digits, _) or one other character; "spaces": white space.
    """
    if split not in WORD_SPLITS:
        raise InputError(f"no way to split words named {split!r}", hint=f"the ways are: {', '.join(WORD_SPLITS)}")
    pattern = {"Regex": r"\w+|[^\w\s" + SEPARATOR + "]"}
    words = {"type": "Split", "pattern": pattern, "behavior": "Removed", "invert": True}
    if split == "punctuation":
        return words  # the separator matches no word: it is removed
    separator_split = {"type": "Split", "pattern": {"String": SEPARATOR}, "behavior": "Removed", "invert": False}
    return {"type": "Sequence", "pretokenizers": [separator_split, {"type": "WhitespaceSplit"}]}


def is_plain_word(pretoken: str, split: str) -> bool:
    """Whether it is certainly one word: ASCII letters and digits; if words are split at spaces, anything visible."""
    if split == "spaces":  # no white space is printable except the space itself, which no pretoken has
        return pretoken != "" and (pretoken.isprintable() or WHITESPACE.search(pretoken) is None)
    return pretoken.isascii() and pretoken.isalnum()


def segment_boundaries(text: str, segmenter: Segmenter | None) -> np.ndarray:
    """Word boundaries of the segmenter next to Chinese characters, ascending."""
    if segmenter is None or not has_han(text):
        return np.zeros(0, np.int64)
    word_ends = np.array(segmenter.word_ends(text), np.int64)[:-1]
    is_han_char = is_han(code_points(text))
    return word_ends[is_han_char[word_ends - 1] | is_han_char[word_ends]]


def split_at(text: str, boundaries: np.ndarray) -> list[str]:
    return [text[begin:end] for begin, end in pairwise([0, *boundaries.tolist(), len(text)])]


def insert_separators(text: str, boundaries: np.ndarray) -> str:
    """Insert a separator at each of these positions."""
    return SEPARATOR.join(split_at(text, boundaries)) if len(boundaries) else text


def count_words(
    texts: Iterable[str], *, split: str, normalise: Sequence[str], segmenter: Segmenter | None
) -> tuple[Counter[str], bool]:
    """The counts of words, and whether the segmenter split anything."""
    is_segmented, split_pretoken = False, _pretoken_splitter(split, normalise)

    def spaced_texts() -> Iterator[str]:
        nonlocal is_segmented
        for text in map(replace_surrogates, texts):
            boundaries = segment_boundaries(text, segmenter)
            is_segmented = is_segmented or len(boundaries) > 0
            text = insert_separators(text, boundaries)
            for separator in WORD_SEPARATORS:
                text = text.replace(separator, " ")
            yield text

    return build_vocabulary.count_pieces(spaced_texts(), split_pretoken), is_segmented


def _pretoken_splitter(split: str, normalise: Sequence[str]) -> Callable[[str], Sequence[str]]:
    """A function that splits a pretoken into words."""
    _, pretokenize = preprocessing_steps(make_normalizer(normalise), word_pretokenizer(split))

    def split_pretoken(pretoken: str) -> Sequence[str]:
        return (pretoken,) if not normalise and is_plain_word(pretoken, split) else pretokenize(pretoken)

    return split_pretoken


def split_counts(counts: build_vocabulary.WordCounts) -> Counter[str] | None:
    """The counts after splitting entries at all kinds of white space; None if each entry is a single word."""
    joined = counts.words.gather("_")
    if joined.isprintable() or WHITESPACE.search(joined) is None:
        return None
    return build_vocabulary.count_pieces_of_pretokens(counts.word_counts(), _pretoken_splitter("spaces", ()))


def word_tokenizer_spec(
    tokens: Sequence[str], *, split: str, segmenter: Segmenter | None = None, **settings: Unpack[SpecSettings]
) -> TokenizerSpec:
    """The specification of a word tokenizer with these tokens in id order."""
    vocab = dict(zip(tokens, range(len(tokens)), strict=True))
    model = {"type": "WordLevel", "vocab": vocab, "unk_token": settings["specials"].get("unknown")}
    settings["metadata"] = {"split": split, "segmenter": segmenter_spec(segmenter), **settings["metadata"]}
    return build_tokenizer_spec(model, kind="words", pre_tokenizer=word_pretokenizer(split), decoder=None, **settings)


def segmenter_spec(segmenter: Segmenter | None) -> dict[str, Any] | None:
    """The entry of a segmenter in a specification."""
    return None if segmenter is None else {"made_with": segmenter.describe(), "dictionary": list(segmenter.dictionary)}
