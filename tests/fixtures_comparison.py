"""Fixtures of the tests of comparisons: an isolated cache, and a text that models can learn from."""

from pathlib import Path

import pytest

NAMES = "Anna Ben Carla David Emma Frank".split()
PLACES = "garden market library station harbour".split()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREBEAR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@pytest.fixture
def book(tmp_path: Path) -> Path:
    """Two hundred short documents, all different and of similar structure."""
    texts = [
        f"{NAMES[n % 6]} went to the {PLACES[n % 5]} with {NAMES[(n * 5 + 1) % 6]}. It was day {n}."
        f" They talked about the {PLACES[(n * 3 + 2) % 5]}, and then they went home."
        for n in range(200)
    ]
    path = tmp_path / "book.txt"
    path.write_text("\n\n".join(texts) + "\n", encoding="utf-8")
    return path
