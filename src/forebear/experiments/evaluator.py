"""What a run knows by descent: the examples that taught it, and those that taught the runs it began with."""

from __future__ import annotations

from collections.abc import Mapping

from forebear.data.labeled.source import LabeledSource
from forebear.errors import ForebearError
from forebear.training.run_folder import RunFolder


def already_trained_on(parent: str | None, source: LabeledSource, digests: Mapping[str, str]) -> list[str]:
    """Sides whose files taught this run before, or one that it began with, and out of which some now examine."""
    known: set[str] = set()
    seen: set[str] = set()
    while parent and parent not in seen:
        seen.add(parent)
        try:
            facts = RunFolder.open(parent).metadata
        except ForebearError:  # it is gone, and what it knew of its own parents with it
            break
        known.add((facts.get("labelled") or {}).get("digests", {}).get("train", ""))
        parent = facts.get("parent")
    parted = source.dev is None or (source.test is None and source.test_share > 0)
    return [side for side in digests if (side != "train" or parted) and digests[side] in known]
