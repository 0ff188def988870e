"""Fixtures of the tests of data: an isolated cache, a small story and a tokenizer for it."""

from pathlib import Path

import pytest

from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.data.tokenizers.train import train_tokenizer
from story_corpus import STORY


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREBEAR_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="session")
def wordpiece_tokenizer() -> Tokenizer:
    return train_tokenizer("wordpiece", [STORY] * 3, size=200, min_count=1)


@pytest.fixture
def story_path(tmp_path: Path) -> Path:
    path = tmp_path / "story.txt"
    path.write_text(STORY)
    return path
