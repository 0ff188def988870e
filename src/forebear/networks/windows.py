"""How a row that is longer than the context is read: what is forgotten, and when."""

from __future__ import annotations

from collections.abc import Iterator


def beginning(length: int, context: int) -> int:
    """Where the part of a row of `length` tokens begins that the next token is predicted from.

    A row is read to the end of the context; then its older half is forgotten, again and again. So every token has at
    least half a context before it, a row is read about twice in all, and one that is generated token by token is read
    in the same parts as one that is scored at once.
    """
    forgotten = max(1, context - context // 2)
    return forgotten * -(-max(0, length - context) // forgotten)


def windows(length: int, context: int) -> Iterator[tuple[int, int, int]]:
    """(begin, first, end): tokens begin … end-1 are read, to predict those from first to end (end itself included).

    Together they predict tokens 1 … length-1, each once, from where `beginning` says.
    """
    first = 1
    while first < length:
        begin = beginning(first, context)
        end = min(begin + context, length - 1)
        yield begin, first, end
        first = end + 1
