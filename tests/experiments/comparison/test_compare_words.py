"""Word vectors compared on word-similarity and analogy files, and their columns in comparison tables."""

from __future__ import annotations

import io
import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

import forebear as fb
from command_line import Captured, json_output, printed_output, refusal_message
from forebear.cli.compare import print_comparison
from forebear.cli.output import Console
from forebear.errors import InputError
from forebear.experiments.comparison.report import text_comparison_page
from forebear.experiments.comparison.results import TextComparison, TextComparisonRow, TextTrial
from forebear.experiments.comparison.trials import compare_words
from small_runs import open_small_run

SIMILARITY_PAIRS = "cat dog 8\nmat cat 3\ndog mat 2\nwolf cat 9\n"
ANALOGIES = ": place\ncat mat dog mat\nwolf mat dog cat\n"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("runs")
    paths = {
        name: open_small_run(name, folder, to=name, steps=5).folder.path for name in ("word2vec", "onehot", "ngram")
    }
    for name, content in (("pairs", SIMILARITY_PAIRS), ("asked", ANALOGIES)):
        paths[name] = folder / f"{name}.txt"
        paths[name].write_text(content, encoding="utf-8")
    return paths


def test_finished_runs_are_compared_on_word_files(runs: dict[str, Path], capsys: Captured):
    run_paths, files = [runs[name] for name in ("word2vec", "onehot", "ngram")], [runs["pairs"], runs["asked"]]
    rows = compare_words(run_paths, files)
    assert fb.compare(runs=run_paths, words=files) == rows
    with pytest.raises(InputError, match="by files of judged words"):
        fb.compare("book.txt", runs=run_paths, words=files)  # pyright: ignore[reportCallIssue]
    assert [row.title for row in rows] == ["word2vec", "one-hot", "N-gram"]
    results = rows[0].results
    assert (results["pairs"].num_covered, results["pairs"].total) == (3, 4)
    assert (results["asked"].num_covered, results["asked"].total) == (1, 2)
    assert rows[2].files == ()
    assert rows[2].error
    output = json_output(capsys, "compare", "--runs", *run_paths, "--words", *files)
    assert output["runs"] == json.loads(json.dumps([row.to_dict() for row in rows]))
    printed = printed_output(capsys, "compare", "--runs", *run_paths, "--words", *files)
    for text in (
        "pairs",
        "(3 of 4)",
        "(1 of 2)",
        "in brackets how many are covered",
        "cannot be asked for a similarity",
    ):
        assert text in printed
    assert not Path("comparison").exists()


def test_options_without_effect_on_word_comparison_are_refused(runs: dict[str, Path], capsys: Captured):
    arguments = ["compare", "--runs", runs["word2vec"], "--words", runs["pairs"]]
    for option in (["--time", "3s"], ["--seeds", "2"], ["--to", "elsewhere"], ["--overwrite"]):
        assert f"{option[0]} means nothing beside --runs and --words" in refusal_message(capsys, *arguments, *option)
    assert "compare runs by words" in refusal_message(capsys, "compare", "--runs", runs["word2vec"])


def test_comparison_table_shows_coverage_and_unbroken_headings_at_120_columns():
    files = ["/somewhere/EN-WS-353-ALL.txt", "/somewhere/questions-words.txt"]
    names = [Path(file).stem for file in files]
    costs = {"parameters": 1_465_400, "seconds": 63.0, "tokens": 10**8, "memory": 10**9, "finished": True}
    costs |= {"tokenizer": "wordpiece", "vocabulary": 30_000, "size": "pocket"}
    word_vector_trial = TextTrial(0, told_apart=0.627, words={names[0]: 0.5}, **costs)  # pyright: ignore[reportArgumentType]
    word_vector_trial = replace(word_vector_trial, covered={names[0]: (140, 353), names[1]: (0, 19_544)})
    masked_lm_trial = TextTrial(0, found=0.25, guess=0.1, perplexity=457.7, **costs)  # pyright: ignore[reportArgumentType]
    ngram_trial = TextTrial(0, bits_per_byte=2.5, perplexity=20_000.5, **costs)  # pyright: ignore[reportArgumentType]
    rows = [
        TextComparisonRow("word2vec", "word2vec", 2013, trials=(word_vector_trial,)),
        TextComparisonRow("ngram", "N-gram", 1948, trials=(ngram_trial,)),
    ]
    rows += [TextComparisonRow("bert", "BERT", 2018, trials=(masked_lm_trial,))]
    comparison = TextComparison(("a.txt",), {"words": files, "seeds": [0], "budget": "2 minutes"}, {}, tuple(rows))
    reloaded = TextComparison.from_dict(json.loads(json.dumps(comparison.to_dict())))
    assert asdict(reloaded.rows[1]) == asdict(comparison.rows[1])
    stream = io.StringIO()
    print_comparison(Console(file=stream, width=120), comparison, {"best": "ngram", "verdict": [], "page": "x"})
    printed = stream.getvalue()
    for text in ("neighbours told apart", "hidden tokens found", *names, "0.500 (140 of 353)", "— (0 of 19,544)"):
        assert text in printed
    for heading in ("milestone", "perplexity", "parameters", "learning", "tokens", "memory", "tokenizer"):
        assert heading in printed
    assert "140 of 353" in text_comparison_page(comparison)
