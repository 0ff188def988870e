"""Many texts of which some have no answer: they keep their places with what is wrong, and are told at the end."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from forebear.errors import BadInput

if TYPE_CHECKING:
    from forebear.cli.many import Line

Ask = Callable[[list[str]], list[Any]]
NAMED = 5  # texts without an answer that are told one by one; of lines, twice as many numbers


@dataclass(frozen=True)
class Unanswered:
    """A text that has no answer, where it stands, and why; `asked` is how its record names it."""

    asked: dict[str, Any]
    file: str | None
    line: int | None
    error: BadInput

    def facts(self) -> dict[str, Any]:
        return {**self.asked, "line": self.line, "error": self.error.what, "remedy": self.error.remedy}


@dataclass
class Partly:
    """Asks of what can be answered, and keeps what cannot.

    record  how a text is named in the record of one without an answer
    """

    record: Callable[[str], dict[str, Any]] = lambda text: {"text": text}
    answered: int = 0
    without: list[Unanswered] = field(default_factory=list)

    @property
    def count(self) -> int:
        return self.answered + len(self.without)

    def asked(self, group: list[Line], ask: Ask) -> list[Any]:
        """An answer, or an Unanswered, for every line."""
        made = []
        for line, answer in zip(group, _each([line.text for line in group], ask), strict=True):
            if isinstance(answer, BadInput):
                answer = Unanswered(self.record(line.text), line.file, line.line, answer)
                self.without.append(answer)
            else:
                self.answered += 1
            made.append(answer)
        return made

    def settle(self) -> None:
        """An error where nothing at all was answered: that of the first text."""
        if self.answered or not self.without:
            return
        first = self.without[0]
        others = f"; nor have the other {len(self.without) - 1:,} an answer" if len(self.without) > 1 else ""
        what, remedy = f"{first.error.what}{others}", first.error.remedy
        raise BadInput(what, file=first.file, line=first.line, remedy=remedy) from first.error

    def tell(self, facts: dict[str, Any], *, quiet: bool) -> None:
        """Says what has no answer: how many among the facts, and which on stderr."""
        if not self.without:
            return
        facts["unanswered"] = len(self.without)
        for note in () if quiet else self._notes():
            print(f"note: {note}", file=sys.stderr)  # noqa: T201

    def _notes(self) -> list[str]:
        given = [one for one in self.without if one.line is None]
        lines = [one for one in self.without if one.line is not None]
        notes = [_why(one) for one in given[:NAMED]]
        if len(given) > NAMED:
            notes.append(f"{len(given) - NAMED:,} more texts have no answer")
        if lines:
            numbers = ", ".join(f"{one.line:,}" for one in lines[: 2 * NAMED]) + " …" * (len(lines) > 2 * NAMED)
            has = "1 line has" if len(lines) == 1 else f"{len(lines):,} lines have"
            notes.append(f"{has} no answer, of {self.count:,} texts: {numbers}")
            notes.append(f"line {lines[0].line:,}: {_why(lines[0])}")
        return notes


def _why(one: Unanswered) -> str:
    return "; ".join(filter(None, (one.error.what, one.error.remedy)))


def _each(texts: list[str], ask: Ask) -> list[Any]:
    """What `ask` says of each, or its complaint: one about a text parts those before it from those behind."""
    made: list[Any] = []
    while texts:
        try:
            return made + list(ask(texts))
        except BadInput as error:
            at = 1 if len(texts) == 1 else error.line
            if at is None or error.file is not None:
                raise
            made += [*_each(texts[: at - 1], ask), error]
            texts = texts[at:]
    return made
