"""`forebear rerun`: repeat a finished run and compare the weights."""

from __future__ import annotations

from pathlib import Path

from forebear.cli.output import Output, Switch, training_progress


def rerun(run: Path, /, *, to: Path | None = None, overwrite: Switch = False, output: Output = Output()) -> int:
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
    from forebear.experiments import training_run
    from forebear.training.run_folder import RunFolder

    original = RunFolder.open(run)
    with training_progress(output) as callback:
        target = to or run.with_name(f"{run.name}-again")
        repeated_run = training_run.repeat_run(run, target, overwrite=overwrite, callback=callback)
    is_identical = original.metadata["weights"]["sha256"] == repeated_run.metadata["weights"]["sha256"]
    result = {"folder": str(repeated_run.path), "same": is_identical, **repeated_run.metadata}
    reason, recipe = "other versions, hardware or threads", original.recipe
    if original.spec.learning == "sweeping" and not recipe.deterministic and recipe.threads != 1:
        reason = "threads that learn freely never end alike; --deterministic, or --threads 1, does"
    conclusion = "every weight is the same" if is_identical else f"the weights differ: {reason}"
    output.emit_summary(result, f"{conclusion}: {repeated_run.path}")
    return 0 if is_identical else 1
