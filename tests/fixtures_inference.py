"""Fixtures of the tests of inference: an isolated cache and a tokenizer of each kind."""

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
def mask_tokenizers() -> dict[str, Tokenizer]:
    """A tokenizer of each kind, all with a mask token."""
    sizes = {"words": None, "characters": None, "wordpiece": 120, "bytepair": 320}
    return {
        kind: train_tokenizer(
            kind, LINES * 3, size=size, min_count=1, specials=ROBERTA_SPECIALS if kind == "bytepair" else None
        )
        for kind, size in sizes.items()
    }


@pytest.fixture(params=["words", "characters", "wordpiece", "bytepair"])
def mask_tokenizer(request: pytest.FixtureRequest, mask_tokenizers: dict[str, Tokenizer]) -> Tokenizer:
    return mask_tokenizers[request.param]


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def word_tokenizer(tokenizers: dict[str, Tokenizer]) -> Tokenizer:
    return tokenizers["words"]
