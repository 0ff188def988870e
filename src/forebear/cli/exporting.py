"""`forebear export`: a run becomes files that other programs read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from forebear.cli.printing import Speaking


def exported(
    run: Path,
    /,
    *,
    to: Path,
    form: Annotated[Literal["huggingface", "arpa"] | None, Parameter(name="--format")] = None,
    speaking: Speaking = Speaking(),
) -> None:
    """Write a run as a folder that transformers opens (GPT-2), or as an ARPA file that KenLM reads (n-gram).

    ```
    forebear export runs/book --to book-gpt2
    forebear export runs/ngram --format arpa --to book.arpa
    ```

    Parameters
    ----------
    run
        A run folder.
    to
        The folder or file to write.
    form
        huggingface or arpa. [default: what the run can be written as]
    """
    from forebear.using import exchanging
    from forebear.using.run import Run

    opened = Run.open(run)
    chosen = form or exchanging.form_of(opened)
    place = exchanging.exported(opened, chosen, str(to))
    facts = {"run": str(run), "format": chosen, "to": str(place)}
    speaking.tell(facts, lambda console: console.print(f"{chosen}: {place}", markup=False, soft_wrap=True))
