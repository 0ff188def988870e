"""The options that say how text is read; the same for every command that takes text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from cyclopts import Group, Parameter

from forebear.text.blocks import OnBadBytes
from forebear.text.reading import Division, Format, Reading

READING = Group("Reading")

Texts = Annotated[
    list[str],
    Parameter(
        help="Text files (also .gz, .zst), folders, quoted globs such as 'texts/**/*.txt', or - for standard input."
    ),
]


@Parameter(name="*", group=READING)
@dataclass(frozen=True)
class ReadingOptions:
    """How files become documents."""

    documents: Division = "blank"
    "What separates documents: blank lines, files, or line ends. JSONL, CSV and TSV have one document a record."
    format: Format = "auto"
    """What the files hold; auto goes by their names. `tagged` is word/tag text: tags go, word and name borders stay;
    those who learn by tags (hmm) keep them, and see by themselves that there are some unless this is text."""
    field: str = "text"
    "JSONL: the field that holds the text; inner fields as a.b."
    column: Annotated[str, Parameter(show_default=False)] = ""
    "CSV and TSV: the text's column by name, or by number from 1 where there is no header row."
    encoding: str = "utf-8"
    "The files' encoding, such as gb18030 or big5."
    on_bad_bytes: OnBadBytes = "fail"
    "Bytes that are not in the encoding: fail, replace by U+FFFD, or skip; each is entered in the ledger."

    def reading(self) -> Reading:
        return Reading(self.documents, self.format, self.field, self.column, self.encoding, self.on_bad_bytes)
