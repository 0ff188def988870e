"""Labeled data of a task: reading files of examples, tag conversion, splits, and leakage with earlier training data."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, get_args
from unicodedata import normalize

from forebear.data.io.atomic import file_digest
from forebear.data.io.sources import Paths, SourceFile, find_sources
from forebear.data.io.text_blocks import OnBadBytes
from forebear.data.labeled import readers, tag_schemes
from forebear.data.labeled.columns import FormatGuess
from forebear.data.labeled.dataset_stats import summarize_dataset
from forebear.data.labeled.detect_format import TAGGED_FORMAT_HELP, detect_format, format_like
from forebear.data.labeled.examples import (
    ChoiceExample,
    Example,
    LabeledExample,
    QuestionExample,
    TaggedExample,
    example_labels,
)
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
from forebear.data.labeled.split import SplitLeakage, split_examples, split_leakage
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
    labels: LabelPolicy = "wanted",
    on_bad_rows: OnBadRows = "fail",
    rejected: list[RejectedRow] | None = None,
    repaired: list[RejectedRow] | None = None,
    known_labels: Collection[str] | None = None,
    on_bad_bytes: OnBadBytes = "fail",
) -> Iterator[Example]:
    """Read the examples of all files in order, lazily.

    Args:
        labels: wanted: a row without label is bad; optional: its label is None; absent: labels are not read.
        on_bad_rows: fail: the first bad row raises InputError; skip: it is recorded in `rejected`.
        rejected: Receives the skipped rows.
        repaired: Receives repaired rows, such as answers with a wrong offset.
        known: Allowed labels (classification, pairs) or tags; a row with any other is bad.
    """
    check_format(task, file_format)
    require_choice("--labels", labels, get_args(LabelPolicy))
    require_choice("--on-bad-rows", on_bad_rows, get_args(OnBadRows))
    require_choice("--on-bad-bytes", on_bad_bytes, get_args(OnBadBytes))
    if known_labels is not None and task in ("answering", "choice"):
        raise ValueError(f"{task} has no labels that could be known")
    if labels == "wanted" and file_format.label is None and file_format.kind != "squad":
        first_file = next(find_sources(paths)).name
        if task == "tagging":
            raise InputError("its words have no tags", file=first_file, hint=TAGGED_FORMAT_HELP)
        raise InputError(
            f"no column of labels is known for {task}", file=first_file, hint="name it with --label-column"
        )
    error_policy = RowErrorPolicy(
        on_bad_rows, [] if rejected is None else rejected, [] if repaired is None else repaired
    )
    known_labels = frozenset(known_labels) if known_labels is not None and labels != "absent" else None
    return _iter_examples(
        paths, LabeledReadOptions(task, file_format, labels, known_labels, on_bad_bytes, error_policy)
    )


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


MAX_LISTED = 5  # bad rows, labels or words that are listed in a message
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
        labels: LabelPolicy = "optional" if split == "test" else "wanted"
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
    """Convert tags to IOBES, hold out dev and test examples, and return the tag scheme."""
    train_scheme = ""
    if source.task == "tagging":
        guess = tag_schemes.detect_scheme(example.tags for example in splits["train"] if example.tags is not None)
        notes.append(f"tags are read as {guess.scheme}: {guess.reason}")
        train_scheme = guess.scheme
        for split, path in source.split_paths().items():
            is_train = split == "train"
            scheme = train_scheme if is_train else _detect_file_scheme(splits[split], path, train_scheme, notes)
            splits[split] = _convert_tags(splits[split], path, scheme, source, notes)
    test_share = source.test_share if source.test is None else 0.0
    if source.dev is None or test_share:
        split = split_examples(splits["train"], dev=source.dev_share if source.dev is None else 0.0, test=test_share)
        notes += split.notes
        splits |= {"train": list(split.train)} | ({"dev": list(split.dev)} if source.dev is None else {})
        splits |= {"test": list(split.test)} if test_share else {}
    if source.part < 1:
        num_kept = max(2, round(source.part * len(splits["train"])))
        splits["train"] = sorted(splits["train"], key=_content_hash)[:num_kept]
    return train_scheme


def trained_examples(metadata: Mapping[str, Any], examples: Iterable[Example]) -> SplitLeakage | None:
    """How many of these examples a run was trained on; None if its training file has changed, so that it is unknown.

    `metadata` is the run's entry on its labeled data. Only the training file has to exist.
    """
    source = LabeledSource.from_dict(metadata["source"])
    try:
        if not os.path.isfile(source.train) or file_digest(source.train) != metadata["digests"]["train"]:
            return None
    except OSError:  # no longer readable
        return None
    splits: dict[str, list[Any]] = {"train": _read_split(source.train, source, "wanted", []), "dev": [], "test": []}
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


def count_form_mismatches(data: LabeledData) -> list[str]:
    """Notes on words that occur in training only in another Unicode form, such as full-width digits (１ for 1)."""
    train_words, notes = {word for example in data.train for word in example.words}, []
    normalized_words = {normalize("NFKC", word) for word in train_words}
    for split, examples in (("dev", data.dev), ("test", data.test)):
        unseen = Counter(word for example in examples for word in example.words if word not in train_words)
        mismatches = Counter(
            {word: count for word, count in unseen.items() if normalize("NFKC", word) in normalized_words}
        )
        fraction = mismatches.total() / max(1, sum(len(example.words) for example in examples))
        if fraction >= MIN_MISMATCH_FRACTION:
            words = ", ".join(word for word, _ in mismatches.most_common(MAX_LISTED))
            count = f"{fraction:.1%} of the words ({mismatches.total():,}, such as {words})"
            hint = "a run whose tokenizer was trained with --normalise nfkc reads both alike"
            notes.append(f"{split}: {count} are in the training examples in another form: {hint}")
    return notes


# What is hashed to order examples. Names of classes and fields are not: renaming one must not change the order.
HASHED_FIELDS: dict[type[Example], tuple[str, ...]] = {
    LabeledExample: ("labeled", "texts", "label"),
    TaggedExample: ("tagged", "words", "tags"),
    QuestionExample: ("question", "question", "passage", "answers"),
    ChoiceExample: ("choices", "text", "choices", "right"),
}


def _content_hash(example: Example) -> bytes:
    kind, *names = HASHED_FIELDS[type(example)]
    values = [getattr(example, name) for name in names]
    if isinstance(example, QuestionExample) and example.answers is not None:
        values[-1] = tuple((span.start, span.text) for span in example.answers)
    return hashlib.blake2b(repr((kind, *values)).encode("utf-8", "replace"), digest_size=8).digest()


def _read_split(path: str, source: LabeledSource, labels: LabelPolicy, notes: list[str]) -> list[Example]:
    rejected: list[RejectedRow] = []
    file_format = source.form if path == source.train else format_like(path, source.form)
    if file_format.kind != source.form.kind:
        notes.append(f"{path} is written otherwise than what was learned from: {LABELED_FORMATS[file_format.kind]}")
    on_bad_rows: Any = source.on_bad_rows
    examples = list(
        read_examples(path, source.task, file_format, labels=labels, on_bad_rows=on_bad_rows, rejected=rejected)
    )
    if rejected:
        more = f"; and {len(rejected) - MAX_LISTED:,} more" if len(rejected) > MAX_LISTED else ""
        notes.append(f"rows left out or mended: {'; '.join(map(str, rejected[:MAX_LISTED]))}{more}")
    for example in examples if source.task == "tagging" else ():
        tag_schemes.reject_nested_tags(example.tags or (), file=path, line=example.location.line)  # pyright: ignore[reportAttributeAccessIssue]
    if not examples:
        raise InputError("holds no example", file=path, hint="give a file with at least a few examples")
    return examples


def _detect_file_scheme(examples: list[Any], path: str, scheme: Any, notes: list[str]) -> Any:
    """The scheme of a further file: that of training, unless its tags violate it and fit another one."""
    tag_sequences = [example.tags for example in examples if example.tags is not None]
    is_plain = scheme == tag_schemes.PLAIN_SCHEME
    if is_plain or not any(tag_schemes.scheme_violations(tags, scheme) for tags in tag_sequences):
        return scheme
    file_guess = tag_schemes.detect_scheme(tag_sequences)
    if file_guess.scheme == tag_schemes.PLAIN_SCHEME:
        message = f"its tags, such as {tag_sequences[0][0]!r}, make up no names, and names ({scheme}) were learned"
        raise InputError(message, file=path, hint="give a file of names, or ask a run that learned such tags")
    if file_guess.num_violations or file_guess.scheme == scheme:
        return scheme
    scheme_text = f"{file_guess.scheme}: {file_guess.reason}"
    notes.append(f"tags of {path} are read as {scheme_text}; those learned from are {scheme}")
    return file_guess.scheme


def _convert_tags(examples: list[Any], path: str, scheme: Any, source: LabeledSource, notes: list[str]) -> list[Any]:
    """Convert tags to IOBES; violations raise InputError, or are repaired and counted."""
    repairs, converted = 0, []
    for example in examples:
        tags = example.tags
        if tags is not None:
            if source.on_bad_tags == "fail" and (violations := tag_schemes.scheme_violations(tags, scheme)):
                index, reason = violations[0]
                hint = "mend it, or let tags be repaired (and counted) with --on-bad-tags repair"
                message = f"word {index + 1} of the sentence, {example.words[index]!r}: {reason} ({scheme})"
                line = example.location.line
                if line is not None and source.form.kind == "conll":  # a word a line
                    line += index
                raise InputError(message, file=path, line=line, hint=hint)
            tags, count = tag_schemes.repair_tags(tags, scheme)
            repairs += count
            tags = tuple(tag_schemes.to_iobes(tags, scheme))
        converted.append(replace(example, tags=tags))
    if repairs:
        notes.append(f"{repairs:,} tags of {path} broke their scheme and were repaired")
    return converted


def read_extra_split(path: str, source: LabeledSource, scheme: str, notes: list[str]) -> list[Any]:
    """Read a further file like those of a source; labels are optional."""
    examples = _read_split(path, source, "optional", notes)
    if source.task != "tagging":
        return examples
    return _convert_tags(examples, path, _detect_file_scheme(examples, path, scheme, notes), source, notes)
