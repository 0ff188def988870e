"""Tokens as people read them beside a map: without the marks of a vocabulary, and parts of a character by its name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from forebear.data.tokenizers.char_level import code_points, is_han
from forebear.inference.stream_decode import readable_token, token_bytes

if TYPE_CHECKING:
    from forebear.data.tokenizers.tokenizer import Tokenizer

START, END = "(start)", "(end)"
JOINED = "·"  # before a piece that goes on with the word before it
PARTS = 8  # tokens: no character has more bytes, and few share one
WHY_JOINED = f"{JOINED}x: goes on with the word before it"
WHY_PARTS = "x 1/2: the first of two pieces of a character"
PART = re.compile(r".+ \d/\d")


def token_labels(tokenizer: Tokenizer, ids: Sequence[int], end: int | None = None) -> tuple[str, ...]:
    """A row's tokens.

    A piece that goes on with a word has a point before it, and one that begins a word nothing: no ##, and no sign for
    a space. Pieces of bytes that only together are a character are numbered parts of it. `end` is the token that
    stands before and behind texts, by itself one that does both: (start) and (end).
    """
    if end is None and tokenizer.special_roles.get("start") == tokenizer.special_roles.get("end"):
        end = tokenizer.special_roles.get("end")
    whole = dict(_parts(tokenizer, ids))
    made, before = [], ""
    for place, number in enumerate(ids):
        if number == end:
            told, before = START if place == 0 else END, ""
        elif place in whole:
            told, before = whole[place]
        else:
            told, before = _label(tokenizer, number, before)
        made.append(told if told.isprintable() else repr(told)[1:-1])
    return tuple(made)


def next_label(tokenizer: Tokenizer, ids: Sequence[int], number: int) -> str:
    """The label of a token that stands behind these."""
    return token_labels(tokenizer, [*ids[-1:], number])[-1]


def label_notes(names: Sequence[str]) -> list[str]:
    """What has to be said of these labels for them to be understood."""
    joined = any(name.startswith(JOINED) and len(name) > 1 for name in names)
    return [WHY_JOINED] * joined + [WHY_PARTS] * any(map(PART.fullmatch, names))


def _label(tokenizer: Tokenizer, number: int, before: str) -> tuple[str, str]:
    """What is written, and what of it the next token stands behind."""
    text = readable_token(tokenizer, number)
    if number in tokenizer.special_ids:
        return text, ""
    if tokenizer.continuation_mask[number]:
        return JOINED + text.removeprefix(tokenizer.continuation_prefix), text
    if tokenizer.kind != "bytepair":
        return text, text
    if len(text) > 1 and text[0] == "␣" and text[1] not in "␣⏎":
        return text[1:], text
    return (JOINED + text if _in_words(before[-1:]) and _in_words(text[:1]) else text), text


def _in_words(character: str) -> bool:
    """Whether it is of a script that has spaces between words."""
    return character.isalnum() and not is_han(code_points(character)).any()


def _parts(tokenizer: Tokenizer, ids: Sequence[int]) -> Iterator[tuple[int, tuple[str, str]]]:
    """Places of tokens that only together spell text; what is written there, and the text."""
    if tokenizer.kind != "bytepair":
        return
    spelled = [b"" if number in tokenizer.special_ids else token_bytes(tokenizer.id_to_token(number)) for number in ids]
    place = 0
    while place < len(spelled):
        count = _together(spelled[place : place + PARTS])
        if count > 1:
            text = b"".join(spelled[place : place + count]).decode().strip(" ")
            yield from ((place + part, (f"{text} {part + 1}/{count}", text)) for part in range(count))
        place += count


def _together(spelled: Sequence[bytes]) -> int:
    """How many of these, from the first, are needed for whole characters; 1 where none suffice."""
    for count in range(1, len(spelled) + 1):
        try:
            b"".join(spelled[:count]).decode()
        except UnicodeDecodeError:
            if not spelled[count - 1]:
                break
            continue
        return count
    return 1
