"""Labeled data of a task: examples read from files, split into train, dev and test, and checked for leakage."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, get_args
from unicodedata import normalize

from forebear.data.io.atomic import file_digest
from forebear.data.io.sources import Paths, SourceFile, find_sources
from forebear.data.io.text_blocks import OnBadBytes
from forebear.data.labeled import readers, tag_schemes
from forebear.data.labeled.columns import FormatGuess
from forebear.data.labeled.dataset_stats import summarize_dataset
from forebear.data.labeled.detect_format import TAGGED_FORMAT_HELP, detect_format, format_like
from forebear.data.labeled.examples import Example, example_labels
from forebear.data.labeled.labeled_format import (
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
from forebear.data.labeled.labeled_source import LabeledSource
from forebear.data.labeled.split import SplitLeakage, sample_by_content, split_examples, split_leakage
from forebear.errors import InputError, require_choice

__all__ = ["TASKS", "FormatGuess", "LabeledFormat", "RejectedRow", "detect_format", "format_like", "read_examples"]

READERS: dict[str, Callable[[SourceFile, LabeledReadOptions], Iterator[Example]]] = {
    **dict.fromkeys(("tsv", "csv"), readers.read_table),
    **dict.fromkeys(("jsonl", "json"), readers.read_json),
    "squad": readers.read_squad,
    "conll": readers.read_conll,
    "tagged": readers.read_slash_tags,
}


def read_examples(
    paths: Paths,
    task: str,
    file_format: LabeledFormat,
    *,
    labels: LabelPolicy = "required",
    on_bad_rows: OnBadRows = "fail",
    rejected: list[RejectedRow] | None = None,
    repaired: list[RejectedRow] | None = None,
    known_labels: Collection[str] | None = None,
    on_bad_bytes: OnBadBytes = "fail",
) -> Iterator[Example]:
    """Read the examples of all files in order, lazily.

    Args:
        labels: required: a row without label is bad; optional: its label is None; absent: labels are not read.
        on_bad_rows: fail: the first bad row raises InputError; skip: it is recorded in `rejected`.
        rejected: Receives the skipped rows.
        repaired: Receives repaired rows, such as answers with a wrong offset.
        known_labels: Allowed labels (classification, pairs) or tags; a row with any other is bad.
    """
    check_format(task, file_format)
    require_choice("--labels", labels, get_args(LabelPolicy))
    require_choice("--on-bad-rows", on_bad_rows, get_args(OnBadRows))
    require_choice("--on-bad-bytes", on_bad_bytes, get_args(OnBadBytes))
    if known_labels is not None and task in ("answering", "choice"):
        raise ValueError(f"{task} has no labels that could be known")
    if labels == "required" and file_format.label is None and file_format.kind != "squad":
        first_file = next(find_sources(paths)).name
        if task == "tagging":
            raise InputError("its words have no tags", file=first_file, hint=TAGGED_FORMAT_HELP)
        message = f"no column of labels is known for {task}"
        raise InputError(message, file=first_file, hint="name it with --label-column")
    rejected, repaired = [] if rejected is None else rejected, [] if repaired is None else repaired
    known_labels = frozenset(known_labels) if known_labels is not None and labels != "absent" else None
    policy = RowErrorPolicy(on_bad_rows, rejected, repaired)
    return _iter_examples(paths, LabeledReadOptions(task, file_format, labels, known_labels, on_bad_bytes, policy))


def _iter_examples(paths: Paths, options: LabeledReadOptions) -> Iterator[Example]:
    is_empty = True
    source = None
    for source in find_sources(paths):
        for example in READERS[options.file_format.kind](source, options):
            is_empty = False
            yield example
    if is_empty and source is not None:
        first_error = options.error_policy.first_error
        if first_error is not None:
            message = f"all rows are bad; this one: {first_error.reason}"
            raise InputError(message, file=first_error.file, line=first_error.line, hint="mend them")
        hint = "a header or blank lines alone teach nothing"
        raise InputError("there are no examples in it", file=source.name, hint=hint)


MAX_LISTED = 5  # bad rows, labels or words listed in a message
MIN_MISMATCH_FRACTION = 0.002  # of words in another Unicode form; fewer are not reported


@dataclass(frozen=True, eq=False)
class LabeledData:
    """The examples of each split, the tag scheme of the files, notes, and statistics of each split."""

    train: list[Any]
    dev: list[Any]
    test: list[Any]
    tag_scheme: str
    notes: list[str] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)


def read_labeled(source: LabeledSource) -> LabeledData:
    """Read all examples of a source; problems raise InputError or are reported in the notes."""
    notes: list[str] = []
    splits: dict[str, list[Any]] = {"train": [], "dev": [], "test": []}
    for split, path in source.split_paths().items():
        labels: LabelPolicy = "optional" if split == "test" else "required"
        splits[split] = _read_split(path, source, labels, notes)
    scheme = _convert_and_split(splits, source, notes)
    if not splits["dev"]:
        message = "there are too few different examples to hold some out, by which the best weights are chosen"
        hint = "give more examples, or a file of them with --dev"
        if warning := summarize_dataset(splits["train"]).text_label_warning:
            message, hint = warning, "name the column of the labels with --label-column"
        raise InputError(message, file=source.train, hint=hint)
    metadata: dict[str, Any] = {}
    for split, examples in splits.items():
        if examples:
            summary = summarize_dataset(examples)
            metadata[split] = summary.to_dict()
            notes += summary.notes() if split == "train" else []
    for split in ("dev", "test"):
        if splits[split]:
            leakage = split_leakage(splits["train"], splits[split])
            metadata[split]["leaks"] = leakage.to_dict()
            notes += [f"{split}: {leakage}"] if leakage.count else []
            notes += _unseen_label_notes(split, splits[split], splits["train"])
    return LabeledData(splits["train"], splits["dev"], splits["test"], scheme, notes, metadata)


def _convert_and_split(splits: dict[str, list[Any]], source: LabeledSource, notes: list[str]) -> str:
    """Convert tags to IOBES, hold out dev and test examples, and return the tag scheme of the training file."""
    train_scheme = ""
    if source.task == "tagging":
        guess = tag_schemes.detect_scheme(example.tags for example in splits["train"] if example.tags is not None)
        notes.append(f"tags are read as {guess.scheme}: {guess.reason}")
        train_scheme = guess.scheme
        for split, path in source.split_paths().items():
            scheme = train_scheme
            if split != "train":
                scheme = tag_schemes.scheme_of_examples(splits[split], path, train_scheme, notes)
            splits[split] = _tags_to_iobes(splits[split], path, scheme, source, notes)
    dev_fraction = source.dev_share if source.dev is None else 0.0
    test_fraction = source.test_share if source.test is None else 0.0
    if source.dev is None or test_fraction:
        split = split_examples(splits["train"], dev=dev_fraction, test=test_fraction)
        notes += split.notes
        splits |= {"train": list(split.train)} | ({"dev": list(split.dev)} if source.dev is None else {})
        splits |= {"test": list(split.test)} if test_fraction else {}
    if source.part < 1:
        splits["train"] = sample_by_content(splits["train"], source.part)
    return train_scheme


def training_overlap(metadata: Mapping[str, Any], examples: Iterable[Example]) -> SplitLeakage | None:
    """The overlap of these examples with the training examples of a run; None if its training file has changed.

    `metadata` is the run's entry on its labeled data. Only the training file has to exist.
    """
    source = LabeledSource.from_dict(metadata["source"])
    try:
        if not os.path.isfile(source.train) or file_digest(source.train) != metadata["digests"]["train"]:
            return None
    except OSError:  # no longer readable
        return None
    splits: dict[str, list[Any]] = {"train": _read_split(source.train, source, "required", []), "dev": [], "test": []}
    _convert_and_split(splits, source, [])
    return split_leakage(splits["train"], examples)


def _unseen_label_notes(split: str, test_examples: list[Any], train_examples: list[Any]) -> list[str]:
    """A note on labels of a split that are not in the training examples."""
    train_labels = {label for example in train_examples for label in example_labels(example)}
    unseen = [labels for example in test_examples if (labels := {*example_labels(example)} - train_labels)]
    names = sorted(set().union(*unseen))
    if not names:
        return []
    more = f" and {len(names) - MAX_LISTED:,} more" if len(names) > MAX_LISTED else ""
    names_text = ", ".join(map(repr, names[:MAX_LISTED])) + more
    count_text = f"{len(unseen):,} example{' has' if len(unseen) == 1 else 's have'} what no training example has"
    return [f"{split}: {count_text}: the run can never answer {names_text}"]


def unicode_mismatch_notes(data: LabeledData) -> list[str]:
    """Notes on words that occur in training only in another Unicode form, such as full-width digits (１ for 1)."""
    train_words, notes = {word for example in data.train for word in example.words}, []
    normalized_words = {normalize("NFKC", word) for word in train_words}
    for split, examples in (("dev", data.dev), ("test", data.test)):
        unseen = Counter(word for example in examples for word in example.words if word not in train_words)
        mismatched = [word for word in unseen if normalize("NFKC", word) in normalized_words]
        mismatches = Counter({word: unseen[word] for word in mismatched})
        fraction = mismatches.total() / max(1, sum(len(example.words) for example in examples))
        if fraction >= MIN_MISMATCH_FRACTION:
            words = ", ".join(word for word, _ in mismatches.most_common(MAX_LISTED))
            count = f"{fraction:.1%} of the words ({mismatches.total():,}, such as {words})"
            hint = "a run whose tokenizer was trained with --normalise nfkc reads both alike"
            notes.append(f"{split}: {count} are in the training examples in another form: {hint}")
    return notes


def _read_split(path: str, source: LabeledSource, labels: LabelPolicy, notes: list[str]) -> list[Example]:
    rejected: list[RejectedRow] = []
    file_format = source.form if path == source.train else format_like(path, source.form)
    if file_format.kind != source.form.kind:
        notes.append(f"{path} is written otherwise than what was learned from: {LABELED_FORMATS[file_format.kind]}")
    options: dict[str, Any] = {"labels": labels, "on_bad_rows": source.on_bad_rows, "rejected": rejected}
    examples = list(read_examples(path, source.task, file_format, **options))
    if rejected:
        more = f"; and {len(rejected) - MAX_LISTED:,} more" if len(rejected) > MAX_LISTED else ""
        notes.append(f"rows left out or mended: {'; '.join(map(str, rejected[:MAX_LISTED]))}{more}")
    for example in examples if source.task == "tagging" else ():
        tag_schemes.reject_nested_tags(example.tags or (), file=path, line=example.location.line)  # pyright: ignore[reportAttributeAccessIssue]
    if not examples:
        raise InputError("holds no example", file=path, hint="give a file with at least a few examples")
    return examples


def read_extra_split(path: str, source: LabeledSource, scheme: str, notes: list[str]) -> list[Any]:
    """Read another file in the format of a source; labels are optional."""
    examples = _read_split(path, source, "optional", notes)
    if source.task != "tagging":
        return examples
    return _tags_to_iobes(examples, path, tag_schemes.scheme_of_examples(examples, path, scheme, notes), source, notes)


def _tags_to_iobes(examples: list[Any], path: str, scheme: Any, source: LabeledSource, notes: list[str]) -> list[Any]:
    repairs_tags, has_word_lines = source.on_bad_tags != "fail", source.form.kind == "conll"
    return tag_schemes.examples_to_iobes(
        examples, path, scheme, notes, repair=repairs_tags, has_word_lines=has_word_lines
    )
