"""For every test: which run by default, what they cost, float32, no fsync; and the real data, if there are any."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

ROOT = Path(__file__).parent.parent
LONGEST_TESTS = (
    "test_readme_block_succeeds_in_process",
    "test_demo_compares_all_models_and_resumes",
)  # run first, so that none is left alone at the end
MAX_EXAMPLES = 15  # of one property in a default run; a test may ask for fewer
SLOW_SECONDS = 5.0  # CPU seconds of a test; from here on it needs the marker `slow`, and is reported without
MAX_SECONDS = 45.0  # of a test without the marker: a failure. The first to use a kernel in a fresh clone compiles it.
COSTS_FILE = ROOT / ".results" / "test-costs.json"
CRASH_TESTS = (
    "test_checkpoint_faults",
    "test_training_killed",
    "test_killed_at_end",
    "test_full_disk",
)  # these sync their files
COST = "cpu_seconds"

settings.register_profile("all", derandomize=True, deadline=None)  # the same examples every time
settings.register_profile("sample", settings.get_profile("all"), max_examples=MAX_EXAMPLES)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="also what is marked slow, and as many examples as tests ask")


def pytest_configure(config: pytest.Config) -> None:
    profile = "all" if config.getoption("--all") else "sample"
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", profile))


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of real corpora and weights; tests that need it are skipped where it is absent."""
    folder = Path(os.environ.get("FOREBEAR_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no real data at {folder}; set FOREBEAR_DATA to a copy of it")
    return folder


@pytest.fixture(autouse=True)
def float32_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """Training takes bfloat16 where the processor multiplies it in hardware: here results must not depend on that."""
    if (gradient := sys.modules.get("forebear.training.gradient_learner")) is not None:
        monkeypatch.setattr(gradient, "_has_bfloat16", lambda name: False)


@pytest.fixture(autouse=True)
def no_sync(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files reach the disk only in tests about crashes: a killed process loses nothing that it has written."""
    if request.node.path.stem not in CRASH_TESTS:
        monkeypatch.setattr(os, "fsync", lambda number: None)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: getattr(item, "originalname", item.name) not in LONGEST_TESTS)  # stable
    if config.getoption("--all"):
        return
    for item in items:
        limit_examples(item)
    if config.getoption("-m") or any("::" in argument for argument in config.args):
        return  # tests selected by marker or name all run
    deselected = {item for item in items if item.get_closest_marker("slow")} | unsampled(items)
    if deselected:
        config.hook.pytest_deselected(items=[item for item in items if item in deselected])
        items[:] = [item for item in items if item not in deselected]


def unsampled(items: list[pytest.Item]) -> set[pytest.Item]:
    """The cases of tests marked `sample` that a default run deselects.

    `sample(n)` keeps n cases, spread evenly; `sample` keeps as few as show every value of every parameter.
    """
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("sample") and not item.get_closest_marker("slow"):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    deselected: set[pytest.Item] = set()
    for group in cases.values():
        marker = group[0].get_closest_marker("sample")
        assert marker is not None
        selected = evenly_spaced(group, marker.args[0]) if marker.args else covering(group)
        deselected |= set(group) - set(selected)
    return deselected


def evenly_spaced(group: list[pytest.Item], number: int) -> list[pytest.Item]:
    return [group[index * len(group) // number] for index in range(min(number, len(group)))]


def covering(group: list[pytest.Item]) -> list[pytest.Item]:
    """Greedy: repeatedly the case with most values not covered yet, until all are covered."""
    values = {
        item: {(name, repr(value)) for name, value in getattr(item, "callspec").params.items()}  # noqa: B009
        for item in group
    }
    covered: set[tuple[str, str]] = set()
    selected: list[pytest.Item] = []
    while new := max((len(values[item] - covered) for item in group), default=0):
        item = next(item for item in group if len(values[item] - covered) == new)
        selected.append(item)
        covered |= values[item]
    return selected


def limit_examples(item: pytest.Item) -> None:
    """Caps the number of examples of a property whose test asks for more than the profile."""
    test = getattr(item, "obj", None)
    test = getattr(test, "__func__", test)
    requested = getattr(test, "_hypothesis_internal_use_settings", None)  # there is no public attribute
    if requested is not None and requested.max_examples > settings.default.max_examples:
        test._hypothesis_internal_use_settings = settings(requested, max_examples=settings.default.max_examples)


# The cost of a test: CPU seconds of its process and of those it started. A busy machine does not change them much.


def cpu_seconds() -> float:
    return sum(os.times()[:4])


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    item.stash[START] = cpu_seconds()
    return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    item.stash[CALL_START] = cpu_seconds()
    return (yield)


START, CALL_START = pytest.StashKey[float](), pytest.StashKey[float]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[Any]:
    report: pytest.TestReport = yield
    if report.when == "call":
        now = cpu_seconds()
        report.user_properties.append((COST, now - item.stash[START]))  # with the fixtures that it was the first to use
        cost = now - item.stash[CALL_START]
        if cost > MAX_SECONDS and report.passed and not may_be_slow(item):
            report.outcome = "failed"
            report.longrepr = (
                f"{item.nodeid} took {cost:.1f} CPU seconds. More than {SLOW_SECONDS:.0f} are for\n"
                "tests that are marked slow. Hint: a smaller model or text, a run that tests share, or the marker,\n"
                "with a sample of it left unmarked."
            )
    return report


def may_be_slow(item: pytest.Item) -> bool:
    return bool(item.config.getoption("--all") or item.get_closest_marker("slow"))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Prints the ten tests that cost most and the sum, and writes the cost of each test to a file."""
    reports = [report for name in ("passed", "failed") for report in terminalreporter.stats.get(name, [])]
    costs = [(dict(getattr(report, "user_properties", ())).get(COST), report.nodeid) for report in reports]
    costs = sorted(((cost, name) for cost, name in costs if cost), reverse=True)
    if not costs or costs[0][0] < 0.5:
        return
    COSTS_FILE.parent.mkdir(exist_ok=True)
    COSTS_FILE.write_text(json.dumps({name: round(cost, 3) for cost, name in costs}, indent=0) + "\n", encoding="utf-8")
    terminalreporter.section(f"CPU seconds: {sum(cost for cost, _ in costs):.0f} in all, most of them in")
    for cost, name in costs[:10]:
        note = "  <- should be marked slow" if cost > SLOW_SECONDS and not config.getoption("--all") else ""
        terminalreporter.line(f"{cost:8.1f}  {name}{note}")
