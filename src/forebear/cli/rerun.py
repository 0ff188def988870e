"""`forebear rerun`: a finished run is made again, and compared."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from forebear.cli.printing import Speaking
from forebear.cli.watching import watching

if TYPE_CHECKING:
    from forebear.training.folder import RunFolder


def rerun(
    run: Path,
    /,
    *,
    to: Path | None = None,
    overwrite: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    speaking: Speaking = Speaking(),
) -> int:
    """Make a finished run again, step by step, from the same text, and say whether every weight is the same.

    Given a time, a run decides on its way how many steps it can make; the repetition makes as many.

    ```
    forebear rerun runs/book --to runs/book-again
    ```

    Parameters
    ----------
    run
        A finished run.
    to
        Where the repetition goes. [default: beside it, with -again at its name]
    overwrite
        Replace another run there.
    """
    from forebear.training.folder import RunFolder
    from forebear.using import pretraining

    before = RunFolder.open(run)
    with watching(speaking) as watcher:
        place = to or run.with_name(f"{run.name}-again")
        after = pretraining.again(run, place, overwrite=overwrite, watcher=watcher)
    same = before.facts["weights"]["sha256"] == after.facts["weights"]["sha256"]
    facts = {"folder": str(after.path), "same": same, **after.facts}
    words = "every weight is the same" if same else f"the weights differ: {_why(before)}"
    speaking.tell(facts, lambda console: console.print(f"{words}: {after.path}", markup=False, soft_wrap=True))
    return 0 if same else 1


def _why(run: RunFolder) -> str:
    recipe = run.recipe
    if run.milestone.learning == "sweeping" and not recipe.deterministic and recipe.threads != 1:
        return "threads that learn freely never end alike; --deterministic, or --threads 1, does"
    return "other versions, hardware or threads"
