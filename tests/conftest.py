"""What every test may ask for: the real data beside the project, where it exists; and which tests come first."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).parent.parent
LONG = ("test_every_command_succeeds", "test_the_demo_runs_and_goes_on")  # first, so that nobody waits for them at last

settings.register_profile("forebear", derandomize=True, deadline=None)  # the same examples every time
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "forebear"))


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of real corpora and weights; tests that need it are skipped where it is absent."""
    folder = Path(os.environ.get("FOREBEAR_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no real data at {folder}; set FOREBEAR_DATA to a copy of it")
    return folder


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.name not in LONG)  # all others stay in their order
