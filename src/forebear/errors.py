"""What can go wrong, said so that a person can act on it: where, what, and the remedy."""

from __future__ import annotations

import os
from collections.abc import Sequence


class ForebearError(Exception):
    """A failure with a message for people: `file:line: what happened` and, below it, the remedy."""

    exit_code = 1

    def __init__(
        self,
        message: str,
        *,
        file: str | os.PathLike[str] | None = None,
        line: int | None = None,
        byte: int | None = None,
        hint: str = "",
    ) -> None:
        super().__init__(message)
        self.message, self.line, self.byte, self.hint = message, line, byte, hint
        self.file = None if file is None else os.fspath(file)

    def __str__(self) -> str:
        place = printable_path(self.file) if self.file is not None else ""
        if self.line is not None:
            place += f":{self.line}" if place else f"number {self.line}"
        if self.byte is not None:
            place += f", byte {self.byte:,}" if place else f"byte {self.byte:,}"
        message = f"{place}: {self.message}" if place else self.message
        return f"{message}\n  remedy: {self.hint}" if self.hint else message

    def __reduce__(self):  # a worker's error travels to the parent whole
        return _rebuilt, (type(self), self.message, self.file, self.line, self.byte, self.hint)


class InputError(ForebearError):
    """The input or the way the command was called is at fault, not the program."""

    exit_code = 2


class UserInterrupt(ForebearError):
    """Someone pressed Ctrl-C; what was finished is kept."""

    exit_code = 130


def join_faults(faults: Sequence[str], most: int = 8) -> str:
    """Faults one by one, as long as they are few: a list of hundreds helps nobody."""
    more = f"; and {len(faults) - most} more" if len(faults) > most else ""
    return "; ".join(faults[:most]) + more


def printable_path(path: str | os.PathLike[str]) -> str:
    """The path as one printable line, whatever bytes its name is made of."""
    text = os.fspath(path)
    return text if text.isprintable() else ascii(text)


def _rebuilt(kind: type[ForebearError], what: str, file: str | None, line: int | None, byte: int | None, hint: str):
    return kind(what, file=file, line=line, byte=byte, hint=hint)
