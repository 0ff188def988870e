"""WordPiece, as in BERT: split at spaces, punctuation and Chinese characters, then into the longest known subwords."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from typing import Any, Unpack

from forebear.data.tokenizers import build_vocabulary
from forebear.data.tokenizers.tokenizer_json import (
    SpecSettings,
    TokenizerSpec,
    bert_normalizer,
    build_tokenizer_spec,
    make_normalizer,
    preprocessing_steps,
)
from forebear.data.unicode import replace_surrogates

CONTINUATION_PREFIX = "##"  # prefix of continuation pieces
MAX_REPEATS_PER_STRING = 8192  # of a word in the training input
MAX_WORD_LENGTH = 100  # characters of a word; a longer one is unknown, as in BERT

# The Chinese characters that BERT separates.
BERT_CJK_BLOCKS = (
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B81F),
    (0x2B920, 0x2CEAF),  # BERT's paper code says 2B820; its fast version, from which vocabularies now come, 2B920
    (0x2F800, 0x2FA1F),
)
BERT_CJK_CLASS = "".join(f"{chr(first)}-{chr(last)}" for first, last in BERT_CJK_BLOCKS)  # for the [ ] of a pattern
_CJK_OR_OTHER = re.compile(f"[{BERT_CJK_CLASS}]|[^{BERT_CJK_CLASS}]+")


def make_wordpiece_normalizer(*, lower: bool, normalise: Sequence[str]) -> dict[str, Any]:
    """BERT's normalizer after the named steps; lowercasing also strips accents, as in BERT."""
    steps = [make_normalizer((step,)) for step in normalise if step != "lower"]
    basic = bert_normalizer(lower=lower)
    return {"type": "Sequence", "normalizers": [*steps, basic]} if steps else basic


def count_wordpiece_words(texts: Iterable[str], *, lower: bool, normalise: Sequence[str]) -> Counter[str]:
    """Count words; each Chinese character is a word."""
    normalizer = make_wordpiece_normalizer(lower=lower, normalise=normalise)
    _, pretokenize = preprocessing_steps(normalizer, {"type": "BertPreTokenizer"})
    # With spaces between Chinese characters, each of them is one pretoken instead of each sentence.
    separated = (" ".join(_CJK_OR_OTHER.findall(replace_surrogates(text))) for text in texts)
    return build_vocabulary.count_pieces(separated, pretokenize)


def train_wordpiece(counts: Mapping[str, int], *, size: int, min_count: int, specials: Mapping[str, str]) -> list[str]:
    """Train the vocabulary in id order: special tokens, characters, continuation characters, then learned subwords.

    The Rust trainer numbers continuation characters in the order of a randomly seeded hash table and breaks ties of
    pairs by number, so the vocabulary would vary between runs. Passing all of them as special tokens fixes the order.
    """
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    special_tokens = list(dict.fromkeys(specials.values()))
    alphabet = _alphabet(counts, max_pieces=size - len(special_tokens))
    if not alphabet:
        return special_tokens
    alphabet_set = set(alphabet)
    words = {
        word: count
        for word, count in counts.items()
        if len(word) <= MAX_WORD_LENGTH
        and alphabet_set.issuperset([word[0], *map(CONTINUATION_PREFIX.__add__, word[1:])])
    }
    initial_chars = sorted(piece for piece in alphabet if len(piece) == 1)
    continuation_chars = sorted(piece for piece in alphabet if len(piece) > 1)
    trainer = trainers.WordPieceTrainer(
        vocab_size=size,
        min_frequency=min_count,
        special_tokens=[*special_tokens, *initial_chars, *continuation_chars],
        continuing_subword_prefix=CONTINUATION_PREFIX,
        show_progress=False,
    )
    model = models.WordPiece(unk_token=specials["unknown"], continuing_subword_prefix=CONTINUATION_PREFIX)
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    repeated = (  # each word as often as it occurs, many in one string: the trainer takes no counts
        " ".join(repeat(word, min(MAX_REPEATS_PER_STRING, count - start)))
        for word, count in words.items()
        for start in range(0, count, MAX_REPEATS_PER_STRING)
    )
    tokenizer.train_from_iterator(repeated, trainer)
    vocab = json.loads(tokenizer.to_str())["model"]["vocab"]
    return sorted(vocab, key=vocab.__getitem__)


def _alphabet(counts: Mapping[str, int], *, max_pieces: int) -> list[str]:
    """Characters, with a prefix inside words, by descending count, as many as fit into the vocabulary.

    Rare characters are included: a missing one makes every word with it unknown.
    """
    piece_counts: Counter[str] = Counter()
    for word, count in counts.items():
        if len(word) <= MAX_WORD_LENGTH:
            piece_counts[word[0]] += count
            for character in word[1:]:
                piece_counts[CONTINUATION_PREFIX + character] += count
    return build_vocabulary.order_vocabulary(piece_counts, specials=(), size=max(max_pieces, 1), min_count=1)


def wordpiece_spec(tokens: Sequence[str], *, lower: bool, **settings: Unpack[SpecSettings]) -> TokenizerSpec:
    """The specification of a WordPiece tokenizer with these tokens in id order."""
    settings["metadata"] = {"lower": lower, **settings["metadata"]}
    model = {
        "type": "WordPiece",
        "unk_token": settings["specials"].get("unknown"),
        "continuing_subword_prefix": CONTINUATION_PREFIX,
        "max_input_chars_per_word": MAX_WORD_LENGTH,
        "vocab": {token: i for i, token in enumerate(tokens)},
    }
    return build_tokenizer_spec(
        model,
        kind="wordpiece",
        normalizer=make_wordpiece_normalizer(lower=lower, normalise=settings.get("normalise", ())),
        pre_tokenizer={"type": "BertPreTokenizer"},
        decoder={"type": "WordPiece", "prefix": CONTINUATION_PREFIX, "cleanup": True},
        **settings,
    )
