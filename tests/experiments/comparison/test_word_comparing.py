"""Word vectors side by side: finished runs by files of words, and what a table of milestones says of them."""

from __future__ import annotations

import io
import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

import forebear as fb
from command_line import Captured, refused, said, told
from forebear.cli.compare import print_comparison
from forebear.cli.output import Console
from forebear.errors import InputError
from forebear.experiments.comparison.report import text_comparison_page
from forebear.experiments.comparison.results import TextComparison, TextComparisonRow, TextTrial
from forebear.experiments.comparison.trials import compare_words
from small_runs import opened

PAIRS = "cat dog 8\nmat cat 3\ndog mat 2\nwolf cat 9\n"
ASKED = ": place\ncat mat dog mat\nwolf mat dog cat\n"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("runs")
    made = {name: opened(name, folder, to=name, steps=5).folder.path for name in ("word2vec", "onehot", "ngram")}
    for name, text in (("pairs", PAIRS), ("asked", ASKED)):
        made[name] = folder / f"{name}.txt"
        made[name].write_text(text, encoding="utf-8")
    return made


def test_finished_runs_are_compared_by_words_without_a_text(runs: dict[str, Path], capsys: Captured):
    contenders, files = [runs[name] for name in ("word2vec", "onehot", "ngram")], [runs["pairs"], runs["asked"]]
    found = compare_words(contenders, files)
    assert fb.compare(runs=contenders, words=files) == found
    with pytest.raises(InputError, match="by files of judged words"):
        fb.compare("book.txt", runs=contenders, words=files)  # pyright: ignore[reportCallIssue]
    assert [one.title for one in found] == ["word2vec", "one-hot", "N-gram"]
    judged = found[0].results
    assert (judged["pairs"].num_covered, judged["pairs"].total) == (3, 4)
    assert (judged["asked"].num_covered, judged["asked"].total) == (1, 2)
    assert found[2].files == ()
    assert found[2].error
    facts = told(capsys, "compare", "--runs", *contenders, "--words", *files)
    assert facts["runs"] == json.loads(json.dumps([one.to_dict() for one in found]))
    printed = said(capsys, "compare", "--runs", *contenders, "--words", *files)
    for text in (
        "pairs",
        "(3 of 4)",
        "(1 of 2)",
        "in brackets how many are covered",
        "cannot be asked for a similarity",
    ):
        assert text in printed
    assert not Path("comparison").exists()


def test_what_means_nothing_beside_runs_and_words_is_refused(runs: dict[str, Path], capsys: Captured):
    given = ["compare", "--runs", runs["word2vec"], "--words", runs["pairs"]]
    for option in (["--time", "3s"], ["--seeds", "2"], ["--to", "elsewhere"], ["--overwrite"]):
        assert f"{option[0]} means nothing beside --runs and --words" in refused(capsys, *given, *option)
    assert "compare runs by words" in refused(capsys, "compare", "--runs", runs["word2vec"])


def test_covered_pairs_stand_beside_figures_and_no_heading_breaks_at_120_columns():
    files = ["/somewhere/EN-WS-353-ALL.txt", "/somewhere/questions-words.txt"]
    names = [Path(file).stem for file in files]
    costs = {"parameters": 1_465_400, "seconds": 63.0, "tokens": 10**8, "memory": 10**9, "finished": True}
    costs |= {"tokenizer": "wordpiece", "vocabulary": 30_000, "size": "pocket"}
    spoken = TextTrial(0, told_apart=0.627, words={names[0]: 0.5}, **costs)  # pyright: ignore[reportArgumentType]
    spoken = replace(spoken, covered={names[0]: (140, 353), names[1]: (0, 19_544)})
    hidden = TextTrial(0, found=0.25, guess=0.1, perplexity=457.7, **costs)  # pyright: ignore[reportArgumentType]
    counted = TextTrial(0, bits_per_byte=2.5, perplexity=20_000.5, **costs)  # pyright: ignore[reportArgumentType]
    rows = [
        TextComparisonRow("word2vec", "word2vec", 2013, trials=(spoken,)),
        TextComparisonRow("ngram", "N-gram", 1948, trials=(counted,)),
    ]
    rows += [TextComparisonRow("bert", "BERT", 2018, trials=(hidden,))]
    whole = TextComparison(("a.txt",), {"words": files, "seeds": [0], "budget": "2 minutes"}, {}, tuple(rows))
    again = TextComparison.from_dict(json.loads(json.dumps(whole.to_dict())))
    assert asdict(again.rows[1]) == asdict(whole.rows[1])
    into = io.StringIO()
    print_comparison(Console(file=into, width=120), whole, {"best": "ngram", "verdict": [], "page": "x"})
    printed = into.getvalue()
    for text in ("neighbours told apart", "hidden tokens found", *names, "0.500 (140 of 353)", "— (0 of 19,544)"):
        assert text in printed
    for heading in ("milestone", "perplexity", "parameters", "learning", "tokens", "memory", "tokenizer"):
        assert heading in printed
    assert "140 of 353" in text_comparison_page(whole)
