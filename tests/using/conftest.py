"""What the tests of using share: a cache of their own and a tokenizer of each kind."""

from pathlib import Path

import pytest

from forebear.text.tokenizer import Tokenizer
from forebear.text.training import train

LINES = ["the cat sat on the mat", "the dog sat on the log", "a cat and a dog", "我很喜欢你", "词性是动词，你好"]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREBEAR_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="session")
def tokenizers() -> dict[str, Tokenizer]:
    sizes = {"words": None, "characters": None, "wordpiece": 120, "bytepair": 300}
    return {kind: train(kind, LINES * 3, size=size, min_count=1) for kind, size in sizes.items()}


@pytest.fixture(params=["words", "characters", "wordpiece", "bytepair"])
def tokenizer(request: pytest.FixtureRequest, tokenizers: dict[str, Tokenizer]) -> Tokenizer:
    return tokenizers[request.param]


@pytest.fixture
def words(tokenizers: dict[str, Tokenizer]) -> Tokenizer:
    return tokenizers["words"]
