"""Run folders, corpora and comparisons of format 1 open, answer and resume as with the code that wrote them.

They were made once, by tests/stored/make_format1.py; the calls are in format1_answers.py.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from format1_answers import (
    ANSWERS,
    answers,
    comparison_answers,
    corpus_answers,
    listing,
    resumed,
    reused_comparison_answers,
    unpack,
)
from small_runs import sample_params

KNOWN = json.loads(ANSWERS.read_text(encoding="utf-8"))
COMPILING = ("hmm", "word2vec")  # resuming these is slow where their kernels are not compiled yet
# For float32 sums in another order on another processor, and for the same after some training steps.
TOLERANCE, TOLERANCE_AFTER_TRAINING = {"rel_tol": 1e-4, "abs_tol": 2e-5}, {"rel_tol": 2e-3, "abs_tol": 2e-3}


@pytest.fixture(scope="module", autouse=True)
def work(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The stored files, unpacked, as the working folder; tests that change something copy it."""
    folder = tmp_path_factory.mktemp("format1")
    unpack(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FOREBEAR_CACHE", str(folder / "cache"))
        patch.chdir(folder)
        yield folder


def differences(actual: Any, expected: Any, tolerance: dict[str, float], path: str = "") -> list[str]:
    """The paths where answers differ: numbers by more than the tolerance, everything else at all."""
    if isinstance(expected, dict) and isinstance(actual, dict) and set(expected) == set(actual):
        return [
            line for name in expected for line in differences(actual[name], expected[name], tolerance, f"{path}.{name}")
        ]
    if isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        pairs = enumerate(zip(actual, expected, strict=True))
        return [
            line
            for number, (item, expected_item) in pairs
            for line in differences(item, expected_item, tolerance, f"{path}[{number}]")
        ]
    numbers = all(isinstance(item, int | float) and not isinstance(item, bool) for item in (actual, expected))
    is_same = math.isclose(actual, expected, **tolerance) if numbers else actual == expected
    return [] if is_same else [f"{path}: {actual!r}, and was {expected!r}"]


@pytest.mark.parametrize("name", KNOWN["finished"])
def test_finished_run_gives_the_stored_answers(name: str) -> None:
    assert differences(answers(f"finished/{name}"), KNOWN["finished"][name], TOLERANCE) == []


@pytest.mark.parametrize("name", sample_params(KNOWN["unfinished"], set(KNOWN["unfinished"]) - set(COMPILING)))
def test_unfinished_run_resumes_to_the_stored_answers(name: str) -> None:
    folder = f"resumed/{name}"
    shutil.copytree(f"unfinished/{name}", folder)
    resumed(folder)
    assert differences(answers(folder), KNOWN["unfinished"][name], TOLERANCE_AFTER_TRAINING) == []


def test_runs_are_listed_as_stored() -> None:
    assert differences(listing("finished") | listing("unfinished"), KNOWN["runs"], TOLERANCE) == []


@pytest.mark.parametrize("name", KNOWN["corpora"])
def test_corpus_opens_with_the_stored_facts(name: str) -> None:
    assert corpus_answers(f"corpora/{name}") == KNOWN["corpora"][name]


@pytest.mark.parametrize("name", KNOWN["comparisons"])
def test_comparison_opens_and_is_reused_without_computing(name: str) -> None:
    assert differences(comparison_answers(f"comparisons/{name}"), KNOWN["comparisons"][name], TOLERANCE) == []
    folder = Path(f"shown/{name}")
    shutil.copytree(f"comparisons/{name}", folder)
    assert (
        differences(reused_comparison_answers(str(folder)), KNOWN["comparisons"][name], TOLERANCE) == []
    )  # no number is computed again
    assert (folder / "comparison.html").is_file()
