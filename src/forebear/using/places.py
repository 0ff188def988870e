"""Where a run goes: a free folder, one that holds the same run already, or one that is to be replaced."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from forebear.errors import BadInput
from forebear.text.corpus import LEDGER, TOKENIZER
from forebear.training.folder import RUN, RunFolder


def place(folder: Path, asked: dict[str, Any], free: bool, overwrite: bool) -> tuple[Path, RunFolder | None]:
    """Where the run goes, and the run that is there: this one, or one to be replaced.

    A place of our own choice gets a number if it is taken.
    """
    number = 1
    while True:
        at = folder if number == 1 else folder.with_name(f"{folder.name}-{number}")
        if not at.exists() or (at.is_dir() and all(_begun(item.name) for item in at.iterdir())):
            return at, None
        try:
            there = RunFolder.open(at)
        except BadInput:
            if not free:
                raise BadInput("exists and is no run", file=at, remedy="choose another folder with --to") from None
            there = None
        if there is not None and (there.facts.get("asked") == asked or (overwrite and not free)):
            return at, there
        if not free:
            remedy = "add --overwrite to replace it, or choose another folder with --to"
            raise BadInput("holds another run", file=at, remedy=remedy)
        number += 1


def _begun(name: str) -> bool:
    """Whether a file may be left by a run that was killed before it was one."""
    return name in (TOKENIZER, LEDGER) or (name.startswith(".") and name.endswith(".tmp"))


@contextlib.contextmanager
def replaced(there: RunFolder | None) -> Iterator[None]:
    """While another run begins in its place, the old one stands aside; it comes back if that fails."""
    if there is None:
        yield
        return
    aside = there.path.with_name(f".{there.path.name}.replaced")
    with there.held():
        if (aside / RUN).is_file():  # of an earlier replacement that was killed
            shutil.rmtree(aside)
        there.path.rename(aside)
        try:
            yield
        except BaseException:
            shutil.rmtree(there.path, ignore_errors=True)
            aside.rename(there.path)
            raise
        shutil.rmtree(aside, ignore_errors=True)
