"""What every test may ask for, the real data beside the project where it exists; and where and when each test runs."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).parent.parent
# What a person would run: first, so that nobody waits for them at last, and with all cores, as a person has them.
LONG = ("test_every_command_succeeds", "test_the_demo_runs_and_goes_on")
CORES = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()

settings.register_profile("forebear", derandomize=True, deadline=None)  # the same examples every time
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "forebear"))


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of real corpora and weights; tests that need it are skipped where it is absent."""
    folder = Path(os.environ.get("FOREBEAR_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no real data at {folder}; set FOREBEAR_DATA to a copy of it")
    return folder


def pytest_configure() -> None:
    """Where every core has a worker, each stays on its own: threads that take turns there wait for each other in vain.

    How many threads a test asks for stays as it is. It is done before any test is read: torch counts cores when loaded.
    """
    if own := own_core():
        os.sched_setaffinity(0, own)


def own_core() -> set[int]:
    """The core of this worker; empty where there is none, or where there are more cores than workers."""
    worker, workers = (os.environ.get(f"PYTEST_XDIST_WORKER{more}", "") for more in ("", "_COUNT"))
    if not worker or not CORES or int(workers) < len(CORES):
        return set()
    return {sorted(CORES)[int(worker.removeprefix("gw")) % len(CORES)]}


@pytest.fixture(autouse=True)
def all_cores(request: pytest.FixtureRequest) -> Iterator[None]:
    """For the long ones."""
    own = own_core()
    if request.node.name not in LONG or not own:
        yield
        return
    os.sched_setaffinity(0, CORES)
    yield
    os.sched_setaffinity(0, own)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.name not in LONG)  # all others stay in their order
