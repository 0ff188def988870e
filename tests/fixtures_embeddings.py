"""An isolated cache of co-occurrence tables."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def cooccurrence_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of cached co-occurrence tables."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("FOREBEAR_CACHE", str(folder))
    return folder / "cooccurrences"
