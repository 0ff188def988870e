"""Made-up comparisons on a task for the tests of the page, the plot, the table and the verdict."""

from forebear.experiments.comparison.results import TaskBaseline, TaskComparison, TaskComparisonRow, TaskTrial


def trial(score, disk, milliseconds, seed=0, **more) -> TaskTrial:
    given = {"run": f"tasks/x-{seed}", "low": score - 0.02, "high": score + 0.02, "parameters": disk // 4}
    given |= {"pretraining": 20.0, "adapting": 5.0, "speed": 500.0, "memory": 4 * 10**8, "finished": True}
    return TaskTrial(seed, score=score, disk=disk, milliseconds=milliseconds, **(given | more))


def row(name, year, *trials, **more) -> TaskComparisonRow:
    more = {"milestone": name if name in ("ngram", "gpt", "bert") else "bert", **more}
    return TaskComparisonRow(name, more.pop("title", name.title()), year, f"the idea of {name}", trials=trials, **more)


def comparison(*rows, **more) -> TaskComparison:
    facts = {
        "examples": {"train": 900, "dev": 100, "test": 500},
        "files": {"train": "d/train.tsv"},
        "machine": "2 cores",
    }
    settings = {"seeds": [0], "budget": "2 min", "test_share": 0.2}
    given = {"settings": settings, "facts": facts, "rows": rows, "finished": True, **more}
    return TaskComparison("classification", "accuracy", "classify", ("book.txt",), **given)


LINEAR = row("ngram", 1948, trial(0.80, 100_000, 0.5, run="tasks/ngram-0"))
SMALL = row("gpt", 2018, trial(0.891, 2_000_000, 20.0))
BEST = row("bert", 2018, trial(0.90, 4_000_000, 10.0, run="tasks/bert-0"), trial(0.898, 4_000_000, 12.0, seed=1))
BROKEN = row("roberta", 2019, TaskTrial(0, error="killed by SIGKILL"))
MAJORITY = TaskBaseline("majority", 0.55, "always 'good'")
ALL = comparison(LINEAR, SMALL, BEST, BROKEN, baselines=(MAJORITY,))
