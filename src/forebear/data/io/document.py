"""Documents as readers yield them; splitting of long documents into parts, to bound memory; batches of documents."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

Item = TypeVar("Item")

PART_CHARACTERS = 1 << 20  # of a part; a document longer than two parts is split
SPLIT_SEPARATORS = (
    "\n",
    "。",
    ". ",
    "！",
    "？",
    "，",
    " ",
)  # best first; a document is split after one of them, but before a space


@dataclass(frozen=True)
class Document:
    """A document, or a part of a long one (`part` 0, 1, …), and its file and first line."""

    text: str
    file: str
    line: int
    part: int = 0
    word_ends: tuple[int, ...] | None = None  # offsets in `text`, if the source marks words
    entity_spans: tuple[tuple[int, int], ...] | None = None  # start and end of each, if the source marks entities
    is_record: bool = False  # whether it is one line of its file, even if `text` has line ends

    @cached_property
    def utf8(self) -> bytes:
        """The text in UTF-8, cached."""
        return self.text.encode()

    @property
    def utf8_size(self) -> int:
        """The number of bytes of the text in UTF-8."""
        return len(self.text) if self.text.isascii() else len(self.utf8)

    def __getstate__(self) -> dict[str, Any]:  # without the cache
        return {name: value for name, value in self.__dict__.items() if name != "utf8"}

    def line_at(self, number: int) -> int:
        """The line of the file with line `number` of the text, counted from 0."""
        return self.line if self.is_record else self.line + number


def is_too_long(text: str) -> bool:
    return len(text) > 2 * PART_CHARACTERS


def document_parts(
    text: str, file: str, line: int, separators: Sequence[str] = SPLIT_SEPARATORS, *, is_record: bool = False
) -> Iterator[Document]:
    """The document, as a whole or in parts."""
    if not is_too_long(text):
        yield Document(text, file, line, is_record=is_record)
        return
    start = part = 0
    while len(text) - start > 2 * PART_CHARACTERS:
        end = start + split_position(text[start : start + 2 * PART_CHARACTERS], separators)
        yield Document(text[start:end], file, line, part, is_record=is_record)
        start, part = end, part + 1
    yield Document(text[start:], file, line, part, is_record=is_record)


def split_position(text: str, separators: Sequence[str]) -> int:
    """The position at which to split a long text: the last line or sentence end of its first part, else the limit."""
    window = text[PART_CHARACTERS // 2 : PART_CHARACTERS]
    for separator in separators:
        position = window.rfind(separator)
        if position >= 0:
            # White space between sentences belongs to the next one.
            return PART_CHARACTERS // 2 + position + (1 if separator != " " else 0)
    return PART_CHARACTERS


def batches_by_size(items: Iterable[Item], size: Callable[[Item], int], limit: int) -> Iterator[list[Item]]:
    """The items in order, in batches whose total size reaches `limit` with their last item."""
    batch: list[Item] = []
    total = 0
    for item in items:
        batch.append(item)
        total += size(item)
        if total >= limit:
            yield batch
            batch, total = [], 0
    if batch:
        yield batch


def with_continuation(documents: Iterable[Document]) -> Iterator[tuple[Document, bool]]:
    """Each document, or part of one, and whether the next one continues it."""
    previous: Document | None = None
    for document in documents:
        if previous is not None:
            yield previous, document.part > 0
        previous = document
    if previous is not None:
        yield previous, False
