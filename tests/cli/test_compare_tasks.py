"""`forebear compare --task`: options, printed table, JSON and output files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from forebear.cli.main import main

WORDS = {"good": ("lovely", "fine", "很好"), "bad": ("awful", "dull", "很差")}


@pytest.fixture(autouse=True)
def labeled_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with labeled files and its own cache."""
    monkeypatch.setenv("FOREBEAR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("COLUMNS", "160")  # tables are not wrapped
    monkeypatch.chdir(tmp_path)
    for name, count, first in (("train", 90, 0), ("test", 30, 500)):
        rows = []
        for number in range(count):
            label = "bad" if number % 3 == 0 else "good"
            rows.append(f"Number {first + number} was {WORDS[label][number // 3 % 3]}.\t{label}\n")
        Path(f"{name}.tsv").write_text("text\tlabel\n" + "".join(rows), encoding="utf-8")
    return tmp_path


def test_compare_tasks_prints_table_verdict_and_next_command(capsys):
    assert main("compare --task classification train.tsv --test test.tsv --to c".split()) == 0
    printed = " ".join(capsys.readouterr().out.split())
    for expected in (
        "N-gram, linear 100.0",
        "majority 66.7",
        "The smallest that is within 1 point of the best is N-gram, linear",
        "30 test examples tell a score only so far",
        "test: 30 examples (test.tsv)",
        "what now: forebear classify c/tasks/ngram-0 …",
        "the page: c/comparison.html",
    ):
        assert expected in printed
    assert main(["classify", "c/tasks/ngram-0", "Number 3 was 很差.", "--json"]) == 0
    assert '"label": "bad"' in capsys.readouterr().out


def test_compare_tasks_json_is_complete_and_a_second_call_reuses_runs(capsys):
    command = "compare --task auto train.tsv --test-share 0.3 --to c --json".split()
    assert main(command) == 0
    first = json.loads(capsys.readouterr().out)
    assert (first["best"], first["figure"], first["page"]) == ("ngram", "accuracy", "c/comparison.html")
    assert first["rows"][0]["trials"][0]["figures"]["macro_f1"] == 1.0
    assert first["facts"]["examples"]["test"] > 10
    assert first["use"].startswith("forebear classify c/tasks/ngram-0")
    start_time = json.loads(Path("c/tasks/ngram-0/run.json").read_text())["began"]
    assert main(command) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == first["rows"]
    assert json.loads(Path("c/tasks/ngram-0/run.json").read_text())["began"] == start_time


def test_compare_tasks_applies_columns_and_encoding_to_the_examples(capsys):
    text = Path("train.tsv").read_text("utf-8").splitlines()[1:]
    swapped = "".join("\t".join(reversed(line.split("\t"))) + "\n" for line in text)
    Path("turned.tsv").write_text(swapped, encoding="gb18030")
    options = "--text-column 2 --label-column 1 --no-header --examples-encoding gb18030 --to c --json"
    assert main(f"compare --task classification turned.tsv {options}".split()) == 0
    assert json.loads(capsys.readouterr().out)["rows"][0]["score"] > 0.9


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("book.txt --test test.tsv", "--test means nothing without --task"),
        ("book.txt --runs a b", "--runs means nothing without --task"),
        ("book.txt --ablate nsp", "--ablate means nothing without --task"),
        ("book.txt --label-column 2", "--label-column means nothing without --task"),
        ("book.txt --examples-encoding gbk", "--examples-encoding means nothing without --task"),
        ("--task classification train.tsv --prompt x", "--prompt, --limit and --words mean nothing beside --task"),
        (
            "--task classification train.tsv --test test.tsv --test-share 0.3",
            "--test-share means nothing beside --test",
        ),
        ("--task classification train.tsv --only bert", "there is no text to pre-train bert on"),
        ("--task classification train.tsv --time 1m", "no text is given to pre-train on"),
        ("--task classification train.tsv --seeds 0", "--seeds is 0"),
        ("--task classification train.tsv --size bert", "--size is 'bert'"),
        ("--task classification none.tsv", "none.tsv"),
        ("--task nothing train.tsv", "nothing"),
        ("", "nothing to compare"),
    ],
)
def test_compare_tasks_refuses_options_without_effect(words: str, message: str, capsys):
    Path("book.txt").write_text("A text.\n")
    assert main(["compare", *words.split(), "--to", "c"]) == 2
    assert message in capsys.readouterr().err
    assert not Path("c/comparison.json").exists()
