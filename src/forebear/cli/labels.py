"""The options that say how labelled examples are read; the same for every command that takes them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

from cyclopts import Group, Parameter

EXAMPLES = Group("Examples")
Names = Annotated[list[str] | None, Parameter(negative="", consume_multiple=True)]


@Parameter(name="*", group=EXAMPLES)
@dataclass(frozen=True)
class ExamplesOptions:
    """How files become examples; what is left out is guessed from their first rows, and told."""

    text_column: Names = None
    "The text's column by name, or by number from 1; two for pairs, or for question and passage."
    label_column: str | None = None
    "The column of the label, the answer, the right choice or the tags."
    choice_column: Names = None
    "Choice: a column for each, or the field that lists them."
    several: str | None = None
    'A row may have several labels, with this between them; "list" where they are a JSON list.'
    number: bool | None = None
    "Labels are numbers to be estimated. [default: if they have decimals]"
    header: bool | None = None
    "The first row names the columns. [default: if it looks so]"
    encoding: str = "utf-8"
    "The files' encoding, such as gb18030."
    dev_share: float = 0.1
    "The share of the examples that is held out where there is no --dev."
    on_bad_rows: Literal["fail", "skip"] = "fail"
    "Rows that are no examples: fail, or skip; each is named with its line and reason."
    on_bad_tags: Literal["fail", "repair"] = "fail"
    "Tags that break their scheme: fail, or repair them; they are counted."

    def form(self) -> dict[str, Any]:
        """What `tasks.files.guessing.guess` is told."""
        told: dict[str, Any] = {"number": self.number, "header": self.header, "encoding": self.encoding}
        told["several"] = True if self.several == "list" else self.several or False
        told["text_columns"] = [_column(one) for one in self.text_column or ()]
        told["choice_columns"] = [_column(one) for one in self.choice_column or ()]
        told["label_column"] = None if self.label_column is None else _column(self.label_column)
        return told

    def settings(self) -> dict[str, Any]:
        """Those of training.labelled.LabelledSource."""
        return {"dev_share": self.dev_share, "on_bad_rows": self.on_bad_rows, "on_bad_tags": self.on_bad_tags}


@Parameter(name="*", group=EXAMPLES)
@dataclass(frozen=True)
class TagOptions:
    """What becomes of faults in a file of words and their tags, where that teaches a milestone by itself."""

    on_bad_rows: Literal["fail", "skip"] | None = None
    "Words with tags: rows that are none: fail, or skip; each is named with its line and reason. [default: fail]"
    on_bad_tags: Literal["fail", "repair"] | None = None
    "Words with tags: tags that break their scheme: fail, or repair them; they are counted. [default: fail]"

    def settings(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value is not None}


NO_TAGS = TagOptions()


def _column(name: str) -> str | int:
    return int(name) if name.isascii() and name.isdecimal() else name
