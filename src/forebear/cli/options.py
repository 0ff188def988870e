"""Options shared by commands: labeled examples, text, sentences, training of tokenizers, processes."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Group, Parameter

from forebear.cli.output import Switch
from forebear.data.io.text_blocks import OnBadBytes
from forebear.data.io.text_formats import DocumentBoundary, FileFormat, TextFormat
from forebear.data.sentences import SentenceMode
from forebear.data.source import TextSource, TokenizerTrainingOptions

if TYPE_CHECKING:
    from forebear.data.segmentation import Segmenter
    from forebear.inference.embed import LayerChoice

ResumedRun = Annotated[Path | None, Parameter(help="Go on with this run; nothing else is needed.")]
ReplaceRun = Annotated[bool, Parameter(negative="", show_default=False, help="Replace another run at --to.")]
TrainedVocabSize = Annotated[
    int | None, Parameter(help="Entries of a vocabulary that is learned. [default: by the size of the text]")
]

StringList = Annotated[list[str] | None, Parameter(negative="", consume_multiple=True)]


@Parameter(name="*", group="Examples")
@dataclass(frozen=True)
class LabeledDataOptions:
    """How files become examples; what is left out is guessed from their first rows, and told."""

    text_column: StringList = None
    "The text's column by name, or by number from 1; two for pairs, or for question and passage."
    label_column: str | None = None
    "The column of the label, the answer, the right choice or the tags."
    choice_column: StringList = None
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

    def detection_args(self) -> dict[str, Any]:
        """The arguments of format detection."""
        texts = [_column_key(name) for name in self.text_column or ()]
        choices = [_column_key(name) for name in self.choice_column or ()]
        label = None if self.label_column is None else _column_key(self.label_column)
        columns = {"text_columns": texts, "choice_columns": choices, "label_column": label}
        several = True if self.several == "list" else self.several or False
        return {"number": self.number, "header": self.header, "encoding": self.encoding, "several": several, **columns}

    def settings(self) -> dict[str, Any]:
        """The settings of `LabeledSource`."""
        return {"dev_share": self.dev_share, "on_bad_rows": self.on_bad_rows, "on_bad_tags": self.on_bad_tags}


@Parameter(name="*", group="Examples")
@dataclass(frozen=True)
class ComparisonDataOptions(LabeledDataOptions):
    """How files become examples, and what becomes of them."""

    encoding: Annotated[str, Parameter(name="--examples-encoding")] = "utf-8"
    "The encoding of the files of examples, such as gb18030."
    test_share: float = 0.2
    "The share of the examples that is held out for the test where there is no --test."


@Parameter(name="*", group="Examples")
@dataclass(frozen=True)
class TaggedTextOptions:
    """What becomes of faults in a file of words and their tags, where that teaches a milestone by itself."""

    on_bad_rows: Literal["fail", "skip"] | None = None
    "Words with tags: rows that are none: fail, or skip; each is named with its line and reason. [default: fail]"
    on_bad_tags: Literal["fail", "repair"] | None = None
    "Words with tags: tags that break their scheme: fail, or repair them; they are counted. [default: fail]"


def given_options(*groups: Any, **options: Any) -> dict[str, Any]:
    """Options that are not None, from dataclasses and keywords, under their Python names."""
    all_options = [item for group in groups for item in vars(group).items()] + list(options.items())
    return {name.replace("-", "_"): value for name, value in all_options if value is not None}


def chosen_layers(layers: str | None) -> LayerChoice | None:
    """The parsed value of --layers; None if it is not given."""
    from forebear.inference.embed import parse_layers

    return None if layers is None else parse_layers(layers)


def command_line() -> str:
    """The command as it was typed, for the card of a run."""
    return shlex.join(["forebear", *sys.argv[1:]])


def _column_key(name: str) -> str | int:
    return int(name) if name.isascii() and name.isdecimal() else name


@Parameter(name="*", group=Group("Learning a tokenizer"))
@dataclass(frozen=True)
class TokenizerOptions:
    """How a tokenizer is learned from the text, where it is not given as a file."""

    size: int | None = None
    "The most tokens it may have. [default: 50000 words, 30000 wordpiece, 16000 bytepair, all characters]"
    min_count: int | None = None
    "Leave out what occurs less often. [default: 1; 2 for wordpiece and bytepair]"
    lower: bool | None = None
    "Lower-case the text (and take accents off, as BERT does). [default: for wordpiece only]"
    normalise: Annotated[tuple[str, ...], Parameter(consume_multiple=True, negative="", show_default=False)] = ()
    "Explicit steps: nfkc, lower, accents. Offsets still refer to the original text. [default: none]"
    split: Literal["punctuation", "spaces"] = "punctuation"
    "Words: cut at spaces and punctuation, or at spaces only (for text that is tokenised already)."
    limit: int = 200_000_000
    "Characters to learn from; of more text a sample of this size is taken and its size recorded."

    def training_options(self) -> TokenizerTrainingOptions:
        return TokenizerTrainingOptions(self.size, self.min_count, self.lower, self.normalise, self.split, self.limit)


def segmenter_for(segment: bool, user_dict: Path | None) -> Segmenter | None:
    """The Chinese word segmenter, if the options request one."""
    if not segment and user_dict is None:
        return None
    from forebear.data.segmentation import Segmenter

    return Segmenter.from_file(user_dict)


TEXTS_HELP = "Text files (also .gz, .zst), folders, quoted globs such as 'texts/**/*.txt', or - for standard input."
TextFiles = Annotated[list[str], Parameter(help=TEXTS_HELP)]


@Parameter(name="*", group=Group("Reading"))
@dataclass(frozen=True)
class ReadingOptions:
    """How files become documents."""

    documents: DocumentBoundary = "blank"
    "What separates documents: blank lines, files, or line ends. JSONL, CSV and TSV have one document a record."
    format: FileFormat = "auto"
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

    def text_format(self) -> TextFormat:
        return TextFormat(self.documents, self.format, self.field, self.column, self.encoding, self.on_bad_bytes)

    def source(self, sentences: SentenceOptions, **parallel: Any) -> TextSource:
        """A text source without paths, which the plan sets."""
        return TextSource((), self.text_format(), **sentences.settings(), **parallel)


@Parameter(name="*")
@dataclass(frozen=True)
class SentenceOptions:
    """How documents become sentences, and Chinese sentences words."""

    sentences: SentenceMode = "split"
    "split: at punctuation and line ends; lines: each line is one; flow: line ends are spaces; whole: none."
    segment: Switch = False
    "Find Chinese words and store where they start."
    user_dict: Path | None = None
    "Your own words for the segmentation, a line each. Implies --segment."
    entities: Path | None = None
    "Names of persons, places and organisations, a line each, that ernie hides whole. Implies --segment."

    def settings(self) -> dict[str, Any]:
        """The fields of `TextSource`."""
        user_dict, entities = (None if file is None else str(file) for file in (self.user_dict, self.entities))
        segment = self.segment or user_dict is not None or entities is not None
        return {"sentences": self.sentences, "segment": segment, "user_dict": user_dict, "entities": entities}


@Parameter(name="*")
@dataclass(frozen=True)
class ProcessOptions:
    """Processes that train together."""

    processes: int | None = None
    "Processes that make each step together; the run is the same. [default: 1; under torchrun, those it started]"
    shard: Switch = False
    "Divide the network itself among the processes, where it is too large for each of them."
