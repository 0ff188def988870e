"""From a person's labelled files to the examples that a run learns from, and back to the same from what it says."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, get_args
from unicodedata import normalize

from forebear.data.io.atomic import file_digest
from forebear.data.io.files import OnBadBytes, Paths, SourceFile, find_sources
from forebear.data.labeled import readers, tag_schemes
from forebear.data.labeled.dataset_stats import summarize_dataset
from forebear.data.labeled.detect_format import TAGGED_FORMAT_HELP, FormatGuess, detect_format, format_like
from forebear.data.labeled.examples import ChoiceExample, Example, LabeledExample, QuestionExample, TaggedExample
from forebear.data.labeled.row_to_example import (
    LABELED_FORMATS,
    TASKS,
    LabeledFormat,
    LabeledReadOptions,
    LabelPolicy,
    OnBadRows,
    RejectedRow,
    RowErrorPolicy,
    check_format,
)
from forebear.data.labeled.split import SplitLeakage, example_labels, split_examples, split_leakage
from forebear.errors import InputError

# Labelled data in a person's own files becomes examples: tables, JSON, SQuAD, CoNLL and word/tag, one by one.


__all__ = ["TASKS", "FormatGuess", "LabeledFormat", "RejectedRow", "detect_format", "format_like", "read_examples"]

READERS: dict[str, Callable[[SourceFile, LabeledReadOptions], Iterator[Example]]] = {
    "tsv": readers.read_table,
    "csv": readers.read_table,
    "jsonl": readers.read_json,
    "json": readers.read_json,
    "squad": readers.read_squad,
    "conll": readers.read_conll,
    "tagged": readers.read_slash_tags,
}


def read_examples(
    paths: Paths,
    task: str,
    form: LabeledFormat,
    *,
    labels: LabelPolicy = "wanted",
    on_bad_rows: OnBadRows = "fail",
    bad: list[RejectedRow] | None = None,
    mended: list[RejectedRow] | None = None,
    known: Collection[str] | None = None,
    on_bad_bytes: OnBadBytes = "fail",
) -> Iterator[Example]:
    """The examples of all files in order, one by one; a bad row is named by file and line.

    labels       wanted: a row without one is bad; optional: its label is None; absent: what is there is not read
    on_bad_rows  fail: the first bad row is a BadInput; skip: it is left out and entered in `bad`
    mended       gets what was put right on the way, such as an answer that stands elsewhere than the file says
    known        the labels (classification, pairs) or tags there may be; any other is bad
    """
    check_format(task, form)
    for option, value, choices in (
        ("labels", labels, get_args(LabelPolicy)),
        ("on-bad-rows", on_bad_rows, get_args(OnBadRows)),
        ("on-bad-bytes", on_bad_bytes, get_args(OnBadBytes)),
    ):
        if value not in choices:
            raise InputError(f"--{option} is {value!r}", hint=f"choose one of {', '.join(choices)}")
    if known is not None and task in ("answering", "choice"):
        raise ValueError(f"{task} has no labels that could be known")
    if labels == "wanted" and form.label is None and form.kind != "squad":
        first = next(find_sources(paths)).name
        if task == "tagging":
            raise InputError("its words have no tags", file=first, hint=TAGGED_FORMAT_HELP)
        raise InputError(f"no column of labels is known for {task}", file=first, hint="name it with --label-column")
    faults = RowErrorPolicy(on_bad_rows, [] if bad is None else bad, [] if mended is None else mended)
    told = frozenset(known) if known is not None and labels != "absent" else None
    return _all(paths, LabeledReadOptions(task, form, labels, told, on_bad_bytes, faults))


def _all(paths: Paths, wanted: LabeledReadOptions) -> Iterator[Example]:
    none = True
    source = None
    for source in find_sources(paths):
        for example in READERS[wanted.file_format.kind](source, wanted):
            none = False
            yield example
    if none and source is not None:
        first = wanted.error_policy.first
        if first is not None:
            raise InputError(
                f"all rows are bad; this one: {first.reason}", file=first.file, line=first.line, hint="mend them"
            )
        raise InputError(
            "there are no examples in it", file=source.name, hint="a header or blank lines alone teach nothing"
        )


FEW_NAMED = 5  # bad rows, labels or words that are told one by one
TOLD_SHARE = 0.002  # of words in another form; fewer are not told


@dataclass(frozen=True)
class LabeledSource:
    """Files of examples and how to take them: everything that decides what a run learns from.

    task         what they are examples of
    form         how they are written
    dev, test    files of their own; without `dev` a share of the examples is held out by what they say
    on_bad_rows  fail, or skip (each is named)
    test_share   of the examples that are held out for the test, where there is no file for it
    on_bad_tags  tags that break their scheme: fail, or repair (they are counted)
    part         share of the examples to learn from, for learning curves
    """

    task: str
    train: str
    form: LabeledFormat
    dev: str | None = None
    test: str | None = None
    dev_share: float = 0.1
    on_bad_rows: str = "fail"
    on_bad_tags: str = "fail"
    part: float = 1.0
    test_share: float = 0.0

    def files(self) -> dict[str, str]:
        named = {"train": self.train, "dev": self.dev, "test": self.test}
        return {side: path for side, path in named.items() if path is not None}

    def to_dict(self) -> dict[str, Any]:
        told = {**asdict(self), "form": self.form.to_dict()}
        return {**told, **{side: os.path.abspath(path) for side, path in self.files().items()}}

    @classmethod
    def from_dict(cls, told: Mapping[str, Any]) -> LabeledSource:
        known = {one.name for one in fields(cls)}
        rest = {name: value for name, value in told.items() if name in known - {"form"}}
        return cls(form=LabeledFormat.from_dict(told["form"]), **rest)

    def digests(self) -> dict[str, str]:
        """sha256 of each file: what the same is."""
        return {side: file_digest(Path(path)) for side, path in self.files().items()}


def labeled_source(
    train: str,
    *,
    task: str | None = None,
    dev: str | None = None,
    test: str | None = None,
    form: Mapping[str, Any] | None = None,
    **settings: Any,
) -> tuple[LabeledSource, list[str]]:
    """A source, with what is not said guessed from the file, and what was guessed in words."""
    task, guessed, notes = detect_format(train, task, **(form or {}))
    given = {name: value for name, value in settings.items() if value is not None}
    return LabeledSource(task, train, guessed, dev, test, **given), notes


@dataclass(frozen=True, eq=False)
class LabeledData:
    """The examples, what is to be said of them, and the facts of each side. `scheme` is that of tags."""

    train: list[Any]
    dev: list[Any]
    test: list[Any]
    scheme: str
    notes: list[str] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)


def read_labeled(source: LabeledSource) -> LabeledData:
    """All examples of a source; what is wrong with them is an error, or told."""
    notes: list[str] = []
    sides: dict[str, list[Any]] = {"train": [], "dev": [], "test": []}
    for side, path in source.files().items():
        labels: LabelPolicy = "optional" if side == "test" else "wanted"
        sides[side] = _read(path, source, labels, notes)
    scheme = _parted(sides, source, notes)
    if not sides["dev"]:
        raise _nothing_held_out(source, sides["train"])
    facts: dict[str, Any] = {}
    for side, found in sides.items():
        if found:
            told = summarize_dataset(found)
            facts[side] = told.to_dict()
            notes += told.notes() if side == "train" else []
    for side in ("dev", "test"):
        if sides[side]:
            leaked = split_leakage(sides["train"], sides[side])
            facts[side]["leaks"] = leaked.to_dict()
            notes += [f"{side}: {leaked}"] if leaked.count else []
            notes += _unheard_of(side, sides[side], sides["train"])
    return LabeledData(sides["train"], sides["dev"], sides["test"], scheme, notes, facts)


def _parted(sides: dict[str, list[Any]], source: LabeledSource, notes: list[str]) -> str:
    """Brings tags into one form, which it returns, and takes from what was read to teach what is to examine."""
    scheme = _into_iobes(sides, source, notes) if source.task == "tagging" else ""
    share = source.test_share if source.test is None else 0.0
    if source.dev is None or share:
        split = split_examples(sides["train"], dev=source.dev_share if source.dev is None else 0.0, test=share)
        notes += split.notes
        sides |= {"train": list(split.train)} | ({"dev": list(split.dev)} if source.dev is None else {})
        sides |= {"test": list(split.test)} if share else {}
    if source.part < 1:
        kept = max(2, round(source.part * len(sides["train"])))
        sides["train"] = sorted(sides["train"], key=_by_content)[:kept]
    return scheme


def trained_examples(labelled: Mapping[str, Any], found: Iterable[Example]) -> SplitLeakage | None:
    """How many of these examples have taught a run; None where their file is not as it was, so that nobody knows.

    `labelled` is what the run says of its examples. Its other files need not be there.
    """
    source = LabeledSource.from_dict(labelled["source"])
    try:
        same = os.path.isfile(source.train) and file_digest(Path(source.train)) == labelled["digests"]["train"]
    except OSError:  # it may not be read any more
        same = False
    if not same:
        return None
    sides: dict[str, list[Any]] = {"train": _read(source.train, source, "wanted", []), "dev": [], "test": []}
    _parted(sides, source, [])
    return split_leakage(sides["train"], found)


def _nothing_held_out(source: LabeledSource, found: list[Any]) -> InputError:
    if looks := summarize_dataset(found).texts_for_labels:
        return InputError(looks, file=source.train, hint="name the column of the labels with --label-column")
    what = "there are too few different examples to hold some out, by which the best weights are chosen"
    return InputError(what, file=source.train, hint="give more examples, or a file of them with --dev")


def _unheard_of(side: str, examining: list[Any], teaching: list[Any]) -> list[str]:
    """Labels of a side that nothing teaches."""
    taught = {label for one in teaching for label in example_labels(one)}
    found = [fresh for one in examining if (fresh := {*example_labels(one)} - taught)]
    names = sorted({label for fresh in found for label in fresh})
    if not names:
        return []
    more = f" and {len(names) - FEW_NAMED:,} more" if len(names) > FEW_NAMED else ""
    shown = ", ".join(map(repr, names[:FEW_NAMED])) + more
    have = f"{len(found):,} example{' has' if len(found) == 1 else 's have'} what no training example has"
    return [f"{side}: {have}: the run can never answer {shown}"]


def count_form_mismatches(data: LabeledData) -> list[str]:
    """Words to be tagged that are the same as taught ones and written otherwise, such as wide digits: １ for 1."""
    taught, notes = {word for one in data.train for word in one.words}, []
    forms = {normalize("NFKC", word) for word in taught}
    for side, examining in (("dev", data.dev), ("test", data.test)):
        fresh = Counter(word for one in examining for word in one.words if word not in taught)
        other = Counter({word: count for word, count in fresh.items() if normalize("NFKC", word) in forms})
        share = other.total() / max(1, sum(len(one.words) for one in examining))
        if share >= TOLD_SHARE:
            shown = f"({other.total():,}, such as {', '.join(word for word, _ in other.most_common(FEW_NAMED))})"
            what = f"{share:.1%} of the words {shown} are in the training examples in another form"
            notes.append(f"{side}: {what}: a run whose tokenizer was trained with --normalise nfkc reads both alike")
    return notes


# What is hashed to order examples. Names of classes and fields are not: renaming one must not change the order.
CONTENT: dict[type[Example], tuple[str, ...]] = {
    LabeledExample: ("labeled", "texts", "label"),
    TaggedExample: ("tagged", "words", "tags"),
    QuestionExample: ("question", "question", "passage", "answers"),
    ChoiceExample: ("choices", "text", "choices", "right"),
}


def _by_content(example: Example) -> bytes:
    import hashlib

    kind, *names = CONTENT[type(example)]
    values = [getattr(example, name) for name in names]
    if isinstance(example, QuestionExample) and example.answers is not None:
        values[-1] = tuple((span.start, span.text) for span in example.answers)
    return hashlib.blake2b(repr((kind, *values)).encode("utf-8", "replace"), digest_size=8).digest()


def _read(path: str, source: LabeledSource, labels: LabelPolicy, notes: list[str]) -> list[Example]:
    bad: list[RejectedRow] = []
    form = source.form if path == source.train else format_like(path, source.form)
    if form.kind != source.form.kind:
        notes.append(f"{path} is written otherwise than what was learned from: {LABELED_FORMATS[form.kind]}")
    found = list(read_examples(path, source.task, form, labels=labels, on_bad_rows=source.on_bad_rows, bad=bad))  # pyright: ignore[reportArgumentType]
    notes += _told(bad)
    for one in found if source.task == "tagging" else ():
        tag_schemes.reject_nested_tags(one.tags or (), file=path, line=one.place.line)  # pyright: ignore[reportAttributeAccessIssue]
    if not found:
        raise InputError("holds no example", file=path, hint="give a file with at least a few examples")
    return found


def _told(bad: list[RejectedRow]) -> list[str]:
    more = f"; and {len(bad) - FEW_NAMED:,} more" if len(bad) > FEW_NAMED else ""
    return [f"rows left out or mended: {'; '.join(map(str, bad[:FEW_NAMED]))}{more}"] if bad else []


def _into_iobes(sides: dict[str, list[Any]], source: LabeledSource, notes: list[str]) -> str:
    """Tags of whatever scheme as IOBES; the scheme is that of the examples to learn from."""
    taught: Iterable[TaggedExample] = (one for one in sides["train"] if one.tags is not None)
    known = tag_schemes.detect_scheme(one.tags for one in taught)  # pyright: ignore[reportArgumentType]
    notes.append(f"tags are read as {known.scheme}: {known.reason}")
    for side, path in source.files().items():
        scheme = known.scheme if side == "train" else _own_scheme(sides[side], path, known.scheme, notes)
        sides[side] = _rewritten(sides[side], path, scheme, source, notes)
    return known.scheme


def _own_scheme(found: list[Any], path: str, scheme: Any, notes: list[str]) -> Any:
    """The scheme of one more file: that which was learned, unless only another one holds in all of it."""
    written = [one.tags for one in found if one.tags is not None]
    if scheme == tag_schemes.PLAIN_SCHEME or not any(tag_schemes.scheme_violations(one, scheme) for one in written):
        return scheme
    own = tag_schemes.detect_scheme(written)
    if own.scheme == tag_schemes.PLAIN_SCHEME:
        what = f"its tags, such as {written[0][0]!r}, make up no names, and names ({scheme}) were learned"
        raise InputError(what, file=path, hint="give a file of names, or ask a run that learned such tags")
    if own.num_violations or own.scheme == scheme:
        return scheme
    notes.append(f"tags of {path} are read as {own.scheme}: {own.reason}; those learned from are {scheme}")
    return own.scheme


def _rewritten(found: list[Any], path: str, scheme: Any, source: LabeledSource, notes: list[str]) -> list[Any]:
    """What breaks the scheme is refused, or repaired and counted."""
    repairs, made = 0, []
    for one in found:
        own = one.tags
        if own is not None:
            if source.on_bad_tags == "fail" and (faults := tag_schemes.scheme_violations(own, scheme)):
                place, reason = faults[0]
                hint = "mend it, or let tags be repaired (and counted) with --on-bad-tags repair"
                what = f"word {place + 1} of the sentence, {one.words[place]!r}: {reason} ({scheme})"
                line = one.place.line
                if line is not None and source.form.kind == "conll":  # a word a line
                    line += place
                raise InputError(what, file=path, line=line, hint=hint)
            own, count = tag_schemes.repair_tags(own, scheme)
            repairs += count
            own = tuple(tag_schemes.to_iobes(own, scheme))
        made.append(replace(one, tags=own))
    if repairs:
        notes.append(f"{repairs:,} tags of {path} broke their scheme and were repaired")
    return made


def read_extra_split(path: str, source: LabeledSource, scheme: str, notes: list[str]) -> list[Any]:
    """The examples of one more file, read as those of a source are; they may lack labels."""
    found = _read(path, source, "optional", notes)
    if source.task != "tagging":
        return found
    return _rewritten(found, path, _own_scheme(found, path, scheme, notes), source, notes)
