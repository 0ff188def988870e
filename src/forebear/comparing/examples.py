"""A person's labelled examples, divided the same way for everyone."""

from __future__ import annotations

from dataclasses import replace

from forebear.errors import BadInput
from forebear.tasks.examples import is_labelled
from forebear.tasks.task import Task, task_named
from forebear.training.labelled import LabelledData, LabelledSource, read_labelled


def divided_source(source: LabelledSource, share: float) -> LabelledSource:
    """The same; where no file is for the test, this share of the examples is, by what they say."""
    if source.test is None and not 0 < share < 1:
        raise BadInput(f"--test-share is {share}", remedy="give a share between 0 and 1, such as 0.2, or a --test file")
    return replace(source, test_share=0.0 if source.test is not None else share)


def read(source: LabelledSource) -> LabelledData:
    """All sides, the test with labels on every example."""
    found = read_labelled(source)
    tested = [example for example in found.test if is_labelled(example)]
    if not tested:
        few = "there are too few examples to hold some out for a test"
        what = "no test example has a label" if source.test else few
        remedy = "give examples with labels: --test FILE"
        raise BadInput(what, file=source.test or source.train, remedy=remedy)
    return replace(found, test=tested)


def task_of(source: LabelledSource, data: LabelledData) -> Task:
    """The task as it is learned from the training side."""
    return task_named(source.task).learned(data.train, **({"scheme": data.scheme} if data.scheme else {}))
