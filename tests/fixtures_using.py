"""What the tests of using share: a cache of their own and a tokenizer of each kind."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.data.tokenizers.tokenizer_json import ROBERTA_SPECIALS
from forebear.data.tokenizers.train import train_tokenizer

LINES = ["the cat sat on the mat", "the dog sat on the log", "a cat and a dog", "我很喜欢你", "词性是动词，你好"]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREBEAR_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="session")
def tokenizers() -> dict[str, Tokenizer]:
    sizes = {"words": None, "characters": None, "wordpiece": 120, "bytepair": 300}
    return {kind: train_tokenizer(kind, LINES * 3, size=size, min_count=1) for kind, size in sizes.items()}


@pytest.fixture(params=["words", "characters", "wordpiece", "bytepair"])
def tokenizer(request: pytest.FixtureRequest, tokenizers: dict[str, Tokenizer]) -> Tokenizer:
    return tokenizers[request.param]


@pytest.fixture(scope="session")
def cutters() -> dict[str, Tokenizer]:
    """One of each kind again, all with a mask."""
    sizes = {"words": None, "characters": None, "wordpiece": 120, "bytepair": 320}
    return {
        kind: train_tokenizer(
            kind, LINES * 3, size=size, min_count=1, specials=ROBERTA_SPECIALS if kind == "bytepair" else None
        )
        for kind, size in sizes.items()
    }


@pytest.fixture(params=["words", "characters", "wordpiece", "bytepair"])
def cutter(request: pytest.FixtureRequest, cutters: dict[str, Tokenizer]) -> Tokenizer:
    return cutters[request.param]


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def words(tokenizers: dict[str, Tokenizer]) -> Tokenizer:
    return tokenizers["words"]
