"""From ids back to text: exact for bytes and characters, readable for words and pieces of words."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING

from forebear.text.characters import codes_of, is_han

if TYPE_CHECKING:
    from forebear.text.tokenizer import Tokenizer

DOUBLED = set("…—")  # Chinese writes two of them for one
CLOSING = set(".,;:!?%)]}'’”")  # no space before
OPENING = set("([{$#“‘")  # no space after
CLITICS = {"s", "t", "d", "m", "ll", "re", "ve", "em"}  # what an apostrophe joins to the word before it


def decoded(tokenizer: Tokenizer, ids: Sequence[int], *, specials: bool) -> str:
    """The text of these ids; see `Tokenizer.decode`."""
    hidden = set() if specials else tokenizer.specials - {tokenizer.unknown}
    kept = [i for i in ids if i not in hidden]
    tokens = [tokenizer.token(i) for i in kept]
    if tokenizer.kind == "characters":
        return "".join(tokens)
    if tokenizer.kind == "words" and tokenizer.segmenter is None and tokenizer.split == "spaces":
        return " ".join(tokens)
    if tokenizer.kind in ("words", "wordpiece"):
        return _joined(tokens, tokenizer.continues[kept].tolist() if kept else [], len(tokenizer.prefix))
    return tokenizer._special.decode(kept, skip_special_tokens=False)


def _joined(tokens: Sequence[str], continuing: Sequence[bool], prefix: int) -> str:
    """Words with spaces between them as people write: none beside Chinese, none before a full stop."""
    parts: list[str] = []
    before = ""
    for token, continues in zip(tokens, continuing, strict=True):
        if continues:
            parts.append(token[prefix:])
        else:
            twice = before == token and token in DOUBLED
            joined = twice or (before in ("'", "’") and token.lower() in CLITICS)
            if before and not (
                joined or _tight(before[-1]) or before in OPENING or _tight(token[0]) or token in CLOSING
            ):
                parts.append(" ")
            parts.append(token)
        before = parts[-1]
    return "".join(parts)


def _tight(character: str) -> bool:
    """Whether a character is written without spaces around it: Chinese characters, kana, wide punctuation."""
    wide = unicodedata.east_asian_width(character) in "WF" and unicodedata.category(character)[0] == "P"
    return wide or "\u3040" <= character <= "\u30ff" or bool(is_han(codes_of(character))[0])
