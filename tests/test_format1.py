"""Run folders, corpora and comparisons of format 1 are opened, asked and gone on with as the code that made them did.

They were made once, by tests/stored/make_format1.py; what they are asked is in format1_answers.py.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from format1_answers import ANSWERS, answers, comparison_answers, corpus_answers, listing, resumed, shown_again, unpack
from small_runs import sampled

KNOWN = json.loads(ANSWERS.read_text(encoding="utf-8"))
COMPILING = ("hmm", "word2vec")  # going on with these takes long where their loops are not yet machine code
# Numbers of 32 bits, summed in another order by another processor; and the same after some steps of learning.
CLOSE, LEARNED = {"rel_tol": 1e-4, "abs_tol": 2e-5}, {"rel_tol": 2e-3, "abs_tol": 2e-3}


@pytest.fixture(scope="module", autouse=True)
def work(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The stored files, unpacked, as the working folder; tests that change something copy it."""
    folder = tmp_path_factory.mktemp("format1")
    unpack(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FOREBEAR_CACHE", str(folder / "cache"))
        patch.chdir(folder)
        yield folder


def unlike(found: Any, known: Any, close: dict[str, float], where: str = "") -> list[str]:
    """Where answers are other than they were: numbers by more than `close` allows, all else at all."""
    if isinstance(known, dict) and isinstance(found, dict) and set(known) == set(found):
        return [line for name in known for line in unlike(found[name], known[name], close, f"{where}.{name}")]
    if isinstance(known, list) and isinstance(found, list) and len(known) == len(found):
        both = enumerate(zip(found, known, strict=True))
        return [line for number, (one, other) in both for line in unlike(one, other, close, f"{where}[{number}]")]
    numbers = all(isinstance(one, int | float) and not isinstance(one, bool) for one in (found, known))
    same = math.isclose(found, known, **close) if numbers else found == known
    return [] if same else [f"{where}: {found!r}, and was {known!r}"]


@pytest.mark.parametrize("name", KNOWN["finished"])
def test_a_finished_run_gives_the_answers_it_gave(name: str) -> None:
    assert unlike(answers(f"finished/{name}"), KNOWN["finished"][name], CLOSE) == []


@pytest.mark.parametrize("name", sampled(KNOWN["unfinished"], set(KNOWN["unfinished"]) - set(COMPILING)))
def test_an_interrupted_run_goes_on_to_the_end_it_came_to(name: str) -> None:
    folder = f"resumed/{name}"
    shutil.copytree(f"unfinished/{name}", folder)
    resumed(folder)
    assert unlike(answers(folder), KNOWN["unfinished"][name], LEARNED) == []


def test_the_runs_are_listed() -> None:
    assert unlike(listing("finished") | listing("unfinished"), KNOWN["runs"], CLOSE) == []


@pytest.mark.parametrize("name", KNOWN["corpora"])
def test_a_corpus_opens(name: str) -> None:
    assert corpus_answers(f"corpora/{name}") == KNOWN["corpora"][name]


@pytest.mark.parametrize("name", KNOWN["comparisons"])
def test_a_comparison_opens_and_is_shown_again(name: str) -> None:
    assert unlike(comparison_answers(f"comparisons/{name}"), KNOWN["comparisons"][name], CLOSE) == []
    folder = Path(f"shown/{name}")
    shutil.copytree(f"comparisons/{name}", folder)
    assert unlike(shown_again(str(folder)), KNOWN["comparisons"][name], CLOSE) == []  # not one number is made anew
    assert (folder / "comparison.html").is_file()
