"""A run of small integers from one of floats, in a folder of its own, with its cost measured on held-out text."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from forebear.errors import BadInput
from forebear.training.card import write_card
from forebear.training.folder import RunFolder
from forebear.using.founding import founded
from forebear.using.places import replaced
from forebear.using.quantising_cost import Progress, cost
from forebear.using.run import Run

PathLike = str | os.PathLike[str]
OWN = ("asked", "weights", "tokenizer", "began", "versions", "hardware", "state", "name", "command", "processes")
FIGURES = ("metrics", "baseline", "price")  # of the run it was made of, which are not its own


def quantise(
    run: PathLike | Run,
    *,
    to: PathLike,
    on: PathLike | Sequence[PathLike] = (),
    limit: int | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Run:
    """The same run with integers of 8 bits for weights, for reading only; facts["quantised"] tells what it costs.

    `on` is text that it is measured on (for a task examples, for a translator pairs), at most `limit` bytes, examples
    or pairs of it: by default what the run held out, or text that comes with forebear where that is gone.
    """
    opened = run if isinstance(run, Run) else Run.open(run)
    target, facts = Path(to), opened.facts
    if opened.folder.milestone.learning == "counting":
        raise BadInput("counts: it has no weights to make smaller", file=opened.folder.path, remedy="use it as it is")
    if opened.folder.milestone.learning == "sweeping" and opened.task is None:
        raise BadInput("is a table of words, not a network", file=opened.folder.path, remedy="use it as it is")
    opened.folder.is_of_floats("is quantised already", "quantise")
    if "weights" not in facts:
        remedy = f"finish it first: {opened.folder.going_on}"
        raise BadInput("is not finished: there are no weights to make smaller", file=opened.folder.path, remedy=remedy)
    there = _cleared(target, opened.folder.path, overwrite)
    more = {name: value for name, value in facts.items() if name not in (*OWN, *FIGURES)}
    more |= {"parent": str(opened.folder.path.absolute()), "quantised": {"bits": 8}, "notes": []}
    more["size"] = " ".join(filter(None, (facts.get("size"), "int8")))
    paths = [os.fspath(one) for one in ([on] if isinstance(on, str | os.PathLike) else on)]
    with replaced(there):
        name, tokenizers = facts["milestone"], opened.folder.tokenizers
        made = founded(target, opened.folder.milestone, name, tokenizers, _writing(opened.network), more)
        small = Run(made)
        try:
            told = cost(opened, small, paths, limit, progress)
        except BaseException:
            shutil.rmtree(target, ignore_errors=True)
            raise
    told["bytes"] = {"floats": facts["weights"]["bytes"], "integers": made.facts["weights"]["bytes"]}
    made.tell(metrics=told.pop("metrics", {}), quantised=made.facts["quantised"] | told)
    write_card(made)
    small.notes += opened.notes
    return small


def _writing(network: Any) -> Callable[[Path], None]:
    """What writes the weights of a network as integers to a file."""

    def write(file: Path) -> None:
        from safetensors.torch import save_file

        from forebear.networks.quantised import small_copy

        save_file(small_copy(network).tensors(), file)

    return write


def _cleared(target: Path, source: Path, overwrite: bool) -> RunFolder | None:
    """The run that stands there and is to be replaced; an error where nothing may be written."""
    if target.exists() and target.resolve() == source.resolve():
        raise BadInput("is the run itself", file=target, remedy="choose another folder with --to")
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return None
    if not overwrite:
        raise BadInput("exists already", file=target, remedy="choose another folder with --to, or --overwrite")
    return RunFolder.open(target)
