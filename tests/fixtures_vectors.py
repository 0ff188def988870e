"""Tables that these tests count are kept where nobody else looks."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def kept(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where tables of words that stand together are kept."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("FOREBEAR_CACHE", str(folder))
    return folder / "cooccurrences"
