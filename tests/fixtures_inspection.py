"""Fixtures of the tests of inspection: small runs with a known truth, each trained once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cue_word_runs import RunCache


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunCache]:
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield RunCache(tmp_path_factory.mktemp("runs"))
    torch.set_num_threads(threads)
