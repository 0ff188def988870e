"""What the tests of inspecting share: small runs whose truth is known, each made once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from planted_runs import Runs


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield Runs(tmp_path_factory.mktemp("runs"))
    torch.set_num_threads(threads)
