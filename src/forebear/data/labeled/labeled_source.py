"""The files of a labeled data set and how they are read and split, as stored in a run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from forebear.data.io.atomic import file_digest
from forebear.data.labeled.detect_format import detect_format
from forebear.data.labeled.labeled_format import LabeledFormat


@dataclass(frozen=True)
class LabeledSource:
    """Labeled files and how to read them: everything that determines the examples of a run."""

    task: str
    train: str
    form: LabeledFormat
    dev: str | None = None
    test: str | None = None
    dev_share: float = 0.1  # of examples held out by content as dev set, without a dev file
    on_bad_rows: str = "fail"  # or skip and report
    on_bad_tags: str = "fail"  # tags that violate their scheme; or repair and count
    part: float = 1.0  # fraction of the training examples to use, for learning curves
    test_share: float = 0.0  # of examples held out as test set, without a test file

    def split_paths(self) -> dict[str, str]:
        paths = {"train": self.train, "dev": self.dev, "test": self.test}
        return {split: path for split, path in paths.items() if path is not None}

    def to_dict(self) -> dict[str, Any]:
        settings = {**asdict(self), "form": self.form.to_dict()}
        return {**settings, **{split: os.path.abspath(path) for split, path in self.split_paths().items()}}

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any]) -> LabeledSource:
        names = {setting.name for setting in fields(cls)} - {"form"}
        values = {name: value for name, value in settings.items() if name in names}
        return cls(form=LabeledFormat.from_dict(settings["form"]), **values)

    def digests(self) -> dict[str, str]:
        return {split: file_digest(path) for split, path in self.split_paths().items()}


def labeled_source(
    train: str,
    *,
    task: str | None = None,
    dev: str | None = None,
    test: str | None = None,
    form: Mapping[str, Any] | None = None,
    **settings: Any,
) -> tuple[LabeledSource, list[str]]:
    """A source, whose task and format are detected from the training file unless given; also notes on the detection."""
    task, file_format, notes = detect_format(train, task, **(form or {}))
    options = {name: value for name, value in settings.items() if value is not None}
    return LabeledSource(task, train, file_format, dev, test, **options), notes
