"""What holds for every test: which are run by default, in which order, at what cost; and the real data, if any."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

ROOT = Path(__file__).parent.parent
LONG = ("test_every_command_succeeds", "test_the_demo_runs_and_goes_on")  # first, so that nobody waits for them at last
EXAMPLES = 25  # of one property in a default run; a test may ask for fewer
TOLD, REFUSED = 5.0, 10.0  # CPU seconds of one test that is not marked slow: from here on told, and a failure
COST = "cpu_seconds"

settings.register_profile("all", derandomize=True, deadline=None)  # the same examples every time
settings.register_profile("sample", settings.get_profile("all"), max_examples=EXAMPLES)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="also what is marked slow, and as many examples as tests ask")


def pytest_configure(config: pytest.Config) -> None:
    chosen = "all" if config.getoption("--all") else "sample"
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", chosen))


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of real corpora and weights; tests that need it are skipped where it is absent."""
    folder = Path(os.environ.get("FOREBEAR_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no real data at {folder}; set FOREBEAR_DATA to a copy of it")
    return folder


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: getattr(item, "originalname", item.name) not in LONG)  # all others stay in their order
    if config.getoption("--all"):
        return
    for item in items:
        with_fewer_examples(item)
    if config.getoption("-m") or any("::" in argument for argument in config.args):
        return  # who chooses by marker or by name gets what was chosen
    if slow := [item for item in items if item.get_closest_marker("slow")]:
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if not item.get_closest_marker("slow")]


def with_fewer_examples(item: pytest.Item) -> None:
    """A property whose test says itself how many examples it wants is content with the profile's number."""
    test = getattr(item, "obj", None)
    test = getattr(test, "__func__", test)
    wanted = getattr(test, "_hypothesis_internal_use_settings", None)  # there is no public way to ask a test
    if wanted is not None and wanted.max_examples > settings.default.max_examples:
        test._hypothesis_internal_use_settings = settings(wanted, max_examples=settings.default.max_examples)


# What a test costs, in CPU seconds of its process and of those it started: a busy machine does not change them much.


def spent() -> float:
    return sum(os.times()[:4])


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    item.stash[BEGUN] = spent()
    return (yield)


BEGUN = pytest.StashKey[float]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[Any]:
    report: pytest.TestReport = yield
    if report.when == "call":
        cost = spent() - item.stash[BEGUN]
        report.user_properties.append((COST, cost))
        if cost > REFUSED and report.passed and not exempt(item):
            report.outcome = "failed"
            report.longrepr = (
                f"{item.nodeid} took {cost:.1f} CPU seconds, with its fixtures; more than {TOLD:.0f} are for tests\n"
                "that are marked slow. Remedy: a smaller model or text, a run that tests share, or the marker, with a\n"
                "sample of it left unmarked."
            )
    return report


def exempt(item: pytest.Item) -> bool:
    return bool(item.config.getoption("--all") or item.get_closest_marker("slow"))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """The ten tests that cost most, and what all cost together."""
    reports = [report for name in ("passed", "failed") for report in terminalreporter.stats.get(name, [])]
    told = [dict(getattr(report, "user_properties", ())).get(COST) for report in reports]
    costs = sorted(((cost, report.nodeid) for cost, report in zip(told, reports, strict=True) if cost), reverse=True)
    if not costs or costs[0][0] < 0.5:
        return
    terminalreporter.section(f"CPU seconds: {sum(cost for cost, _ in costs):.0f} in all, most of them in")
    for cost, name in costs[:10]:
        note = "  <- should be marked slow" if cost > TOLD and not config.getoption("--all") else ""
        terminalreporter.line(f"{cost:8.1f}  {name}{note}")
