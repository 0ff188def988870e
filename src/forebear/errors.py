"""Exceptions with a message, a location and a hint for the user."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence


class ForebearError(Exception):
    """An error with a message for users, shown as `file:line: message` with a hint below it."""

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
        location = printable_path(self.file) if self.file is not None else ""
        if self.line is not None:
            location += f":{self.line}" if location else f"number {self.line}"
        if self.byte is not None:
            location += f", byte {self.byte:,}" if location else f"byte {self.byte:,}"
        message = f"{location}: {self.message}" if location else self.message
        return f"{message}\n  remedy: {self.hint}" if self.hint else message

    def __reduce__(self):  # errors of worker processes are pickled with all attributes
        return _rebuild_error, (type(self), self.message, self.file, self.line, self.byte, self.hint)


class InputError(ForebearError):
    """Invalid input or an invalid call, not a defect of the program."""

    exit_code = 2


class UserInterrupt(ForebearError):
    """The user pressed Ctrl-C; finished work has been saved."""

    exit_code = 130


def require_choice(setting: str, value: object, choices: Iterable[str]) -> None:
    """Raise InputError, which names the choices, unless the value is one of them."""
    names = tuple(choices)
    if value not in names:
        raise InputError(f"{setting} is {value!r}", hint=f"choose one of {', '.join(names)}")


def join_errors(messages: Sequence[str], max_messages: int = 8) -> str:
    """Join the first messages in one line, with the number of the others."""
    num_hidden = len(messages) - max_messages
    return "; ".join(messages[:max_messages]) + (f"; and {num_hidden} more" if num_hidden > 0 else "")


def list_names(names: Sequence[str], max_names: int) -> str:
    """The first names separated by commas, with an ellipsis if there are more."""
    return ", ".join(names[:max_names]) + (", …" if len(names) > max_names else "")


def printable_path(path: str | os.PathLike[str]) -> str:
    """The path as one printable line, whatever bytes it contains."""
    text = os.fspath(path)
    return text if text.isprintable() else ascii(text)


def _rebuild_error(
    error_type: type[ForebearError], message: str, file: str | None, line: int | None, byte: int | None, hint: str
):
    return error_type(message, file=file, line=line, byte=byte, hint=hint)
