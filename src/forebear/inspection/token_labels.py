"""Readable token labels, without the markers of a vocabulary and with numbered pieces of split characters."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from forebear.data.tokenizers.bpe import readable_token, token_bytes
from forebear.data.unicode import code_points, is_han
from forebear.errors import InputError

if TYPE_CHECKING:
    from forebear.data.tokenizers.tokenizer import Tokenizer

START_LABEL, END_LABEL = "(start)", "(end)"
CONTINUATION_MARK = "·"  # marks a continuation piece
MAX_CHARACTER_TOKENS = 8  # per character
CONTINUATION_NOTE = f"{CONTINUATION_MARK}x: goes on with the word before it"
SPLIT_CHARACTER_NOTE = "x 1/2: the first of two pieces of a character"
SPLIT_CHARACTER_LABEL = re.compile(r".+ \d/\d")


def token_labels(tokenizer: Tokenizer, ids: Sequence[int], boundary_id: int | None = None) -> tuple[str, ...]:
    """Labels of a sequence of tokens.

    Continuation pieces start with "·"; other tokens have no marker, neither ## nor a sign for the space. Tokens that
    are pieces of one character are numbered. `boundary_id` is the token around texts, labeled (start) and (end);
    default: the token with both roles.
    """
    if boundary_id is None and tokenizer.special_roles.get("start") == tokenizer.special_roles.get("end"):
        boundary_id = tokenizer.special_roles.get("end")
    split_labels = dict(_split_characters(tokenizer, ids))
    labels, previous_text = [], ""
    for position, token_id in enumerate(ids):
        if token_id == boundary_id:
            label, previous_text = START_LABEL if position == 0 else END_LABEL, ""
        elif position in split_labels:
            label, previous_text = split_labels[position]
        else:
            label, previous_text = _label(tokenizer, token_id, previous_text)
        labels.append(label if label.isprintable() else repr(label)[1:-1])
    return tuple(labels)


def next_label(tokenizer: Tokenizer, ids: Sequence[int], token_id: int) -> str:
    """The label of a token that follows `ids`."""
    return token_labels(tokenizer, [*ids[-1:], token_id])[-1]


def resolve_number(value: int, count: int, noun: str, verb: str = "give") -> int:
    """Resolve a number that counts from 1, or from the end if negative; raises InputError if it is out of range."""
    number = value if value > 0 else count + 1 + value
    if value == 0 or not 1 <= number <= count:
        raise InputError(f"there is no {noun} {value}", hint=f"{verb} 1 to {count}, or -1 (the last) to -{count}")
    return number


def label_notes(names: Sequence[str]) -> list[str]:
    """Explanations that these labels need."""
    has_continuation = any(name.startswith(CONTINUATION_MARK) and len(name) > 1 for name in names)
    has_split_character = any(map(SPLIT_CHARACTER_LABEL.fullmatch, names))
    return [CONTINUATION_NOTE] * has_continuation + [SPLIT_CHARACTER_NOTE] * has_split_character


def _label(tokenizer: Tokenizer, token_id: int, previous: str) -> tuple[str, str]:
    """The label of a token, and the text that precedes the next one."""
    text = readable_token(tokenizer, token_id)
    if token_id in tokenizer.special_ids:
        return text, ""
    if tokenizer.continuation_mask[token_id]:
        return CONTINUATION_MARK + text.removeprefix(tokenizer.continuation_prefix), text
    if tokenizer.kind != "bytepair":
        return text, text
    if len(text) > 1 and text[0] == "␣" and text[1] not in "␣⏎":
        return text[1:], text
    is_continuation = _is_spaced_script(previous[-1:]) and _is_spaced_script(text[:1])
    return (CONTINUATION_MARK + text if is_continuation else text), text


def _is_spaced_script(character: str) -> bool:
    """Whether the character is of a script that separates words by spaces."""
    return character.isalnum() and not is_han(code_points(character)).any()


def _split_characters(tokenizer: Tokenizer, ids: Sequence[int]) -> Iterator[tuple[int, tuple[str, str]]]:
    """Positions of tokens that are pieces of characters, each with its label and the text."""
    if tokenizer.kind != "bytepair":
        return
    token_texts = [
        b"" if token_id in tokenizer.special_ids else token_bytes(tokenizer.id_to_token(token_id)) for token_id in ids
    ]
    position = 0
    while position < len(token_texts):
        count = _num_character_tokens(token_texts[position : position + MAX_CHARACTER_TOKENS])
        if count > 1:
            text = b"".join(token_texts[position : position + count]).decode().strip(" ")
            yield from ((position + index, (f"{text} {index + 1}/{count}", text)) for index in range(count))
        position += count


def _num_character_tokens(token_texts: Sequence[bytes]) -> int:
    """Number of leading tokens that form whole characters; 1 if none do."""
    for count in range(1, len(token_texts) + 1):
        try:
            b"".join(token_texts[:count]).decode()
        except UnicodeDecodeError:
            if not token_texts[count - 1]:
                break
            continue
        return count
    return 1
