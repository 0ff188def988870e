"""Example comparisons on a task, for the tests of the report, the plot, the table and the verdict."""

from forebear.experiments.comparison.results import TaskBaseline, TaskComparison, TaskComparisonRow, TaskTrial


def trial(score, disk, milliseconds, seed=0, **changes) -> TaskTrial:
    fields = {"run": f"tasks/x-{seed}", "low": score - 0.02, "high": score + 0.02, "parameters": disk // 4}
    fields |= {"pretraining": 20.0, "adapting": 5.0, "speed": 500.0, "memory": 4 * 10**8, "finished": True}
    return TaskTrial(seed, score=score, disk=disk, milliseconds=milliseconds, **(fields | changes))


def row(name, year, *trials, **fields) -> TaskComparisonRow:
    fields = {"milestone": name if name in ("ngram", "gpt", "bert") else "bert", **fields}
    return TaskComparisonRow(
        name, fields.pop("title", name.title()), year, f"the idea of {name}", trials=trials, **fields
    )


def comparison(*rows, **changes) -> TaskComparison:
    metadata = {
        "examples": {"train": 900, "dev": 100, "test": 500},
        "files": {"train": "d/train.tsv"},
        "machine": "2 cores",
    }
    settings = {"seeds": [0], "budget": "2 min", "test_share": 0.2}
    fields = {"settings": settings, "facts": metadata, "rows": rows, "finished": True, **changes}
    return TaskComparison("classification", "accuracy", "classify", ("book.txt",), **fields)


LINEAR = row("ngram", 1948, trial(0.80, 100_000, 0.5, run="tasks/ngram-0"))
SMALL = row("gpt", 2018, trial(0.891, 2_000_000, 20.0))
BEST = row("bert", 2018, trial(0.90, 4_000_000, 10.0, run="tasks/bert-0"), trial(0.898, 4_000_000, 12.0, seed=1))
BROKEN = row("roberta", 2019, TaskTrial(0, error="killed by SIGKILL"))
MAJORITY = TaskBaseline("majority", 0.55, "always 'good'")
ALL_MODELS = comparison(LINEAR, SMALL, BEST, BROKEN, baselines=(MAJORITY,))
