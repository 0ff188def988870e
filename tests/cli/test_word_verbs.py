"""Words on the command line: similarity, odd-one-out, analogy, neighbours, embed, measure --words; without torch."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from command_line import Captured, refused, said, told
from forebear.cli.main import main
from forebear.inference.run import Run
from small_runs import opened


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREBEAR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "140")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("words")


@pytest.fixture(scope="module")
def run(folder: Path) -> Path:
    return opened("word2vec", folder, to="table", steps=15).folder.path


@pytest.fixture(scope="module")
def network(folder: Path) -> Path:
    return opened("bert", folder, to="network", steps=3).folder.path


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    contents = {
        "pairs.tsv": "cat\tdog\ncat\tthe mat\n",
        "bad.tsv": "cat\tdog\ncat\n",
        "unknown.tsv": "cat\tdog\ncat\twolf\n",
        "scores.txt": "cat\tdog\t9\ncat\tmat\t3\nbird\ttree\t4\nwolf\tdog\t8\n",
        "asked.txt": ": place\ncat mat dog hill\ncat mat wolf hill\n: gram1\nran sat saw is\n",
        "words.txt": "cat\nthe dog\n",
        "sentences.txt": "The cat sat.\nNumber 7 is over\nThe dog ran.\n",
        "strange.txt": "the cat\nqqq zzz\n",
    }
    for name, content in contents.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    return {name: tmp_path / name for name in contents}


def test_neighbours_of_words_beside_those_of_sentences(run: Path, files: dict[str, Path], capsys: Captured):
    facts = told(capsys, "neighbours", run, "cat", "the dog", "--top", 3)
    assert (facts["run"], facts["words"]) == ("table", len(Run.open(run).word_table.words))
    cat, dog = facts["texts"]
    (expected,) = Run.open(run).neighbours("cat", top=3)
    assert cat["nearest"] == expected.to_dict()["nearest"]
    assert dog["note"] == "the mean of 2 words: the, dog"
    printed = said(capsys, "neighbours", run, "cat")
    assert "seen" in printed
    assert printed.count("\n") > 10
    out = files["words.txt"].with_suffix(".jsonl")
    assert told(capsys, "neighbours", run, "--in", files["words.txt"], "--out", out, "--top", 3)["texts"] == 2
    assert [json.loads(line) for line in out.read_text().splitlines()] == [cat, dog]
    among = told(capsys, "neighbours", run, "The cat sat", "--among", files["sentences.txt"], "--pooling", "sif")
    assert among["texts"][0]["nearest"][0]["line"] == 1
    assert len(among["texts"][0]["nearest"]) == 3


def test_neighbours_by_an_index(run: Path, capsys: Captured):
    pytest.importorskip("usearch")
    facts = told(capsys, "neighbours", run, "cat", "--approximate", "--top", 4)
    assert facts["recall"] > 0.9
    exact = told(capsys, "neighbours", run, "cat", "--top", 4)
    assert [one["word"] for one in facts["texts"][0]["nearest"]] == [
        one["word"] for one in exact["texts"][0]["nearest"]
    ]
    assert "of the nearest" in said(capsys, "analogy", run, "cat", "mat", "dog", "--approximate")


def test_words_that_are_not_there_are_named_with_the_line(run: Path, files: dict[str, Path], capsys: Captured):
    complaint = refused(capsys, "neighbours", run, "catt")
    assert "no vector for 'catt'" in complaint
    assert "did you mean: cat" in complaint
    files["strange.txt"].write_text("qqq\nzzz\n")
    complaint = refused(capsys, "neighbours", run, "--in", files["strange.txt"])
    assert "strange.txt:1: no vector for 'qqq'" in complaint
    assert "nor have the other 1" in complaint
    assert "none of this text's words" in refused(capsys, "embed", run, "the cat", "qqq zzz")
    assert "no vector for 'wolf'" in refused(capsys, "analogy", run, "cat", "wolf", "dog")
    files["bad.tsv"].write_text("cat dog\n")
    out = files["bad.tsv"].with_suffix(".jsonl")
    assert "bad.tsv:1: 1 columns" in refused(capsys, "similarity", run, "--in", files["bad.tsv"], "--out", out)
    assert not out.exists()


def test_lines_without_an_answer_keep_their_places(run: Path, files: dict[str, Path], capsys: Captured):
    asked, out = files["strange.txt"], files["strange.txt"].with_suffix(".jsonl")
    asked.write_text("cat\nqqq\n\nthe dog\nzzz\n")
    assert main(["neighbours", str(run), "--in", str(asked), "--out", str(out), "--top", "2"]) == 0
    noted = capsys.readouterr().err
    assert "3 lines have no answer, of 5 texts: 2, 3, 5" in noted
    assert "line 2: no vector for 'qqq'" in noted
    records = [json.loads(line) for line in out.read_text().splitlines()]
    assert [one.get("line") for one in records] == [None, 2, 3, None, 5]
    assert [one["text"] for one in records] == ["cat", "qqq", "", "the dog", "zzz"]
    assert "no words" in records[2]["error"]
    assert records[3] == told(capsys, "neighbours", run, "the dog", "--top", 2)["texts"][0]
    assert main(["neighbours", str(run), "cat", "catt"]) == 0
    printed = capsys.readouterr()
    assert "no vector for 'catt'" in printed.err
    assert "did you mean: cat" in printed.err
    assert "cosine" in printed.out


def test_pairs_without_an_answer_keep_their_places(run: Path, files: dict[str, Path], capsys: Captured):
    asked, out = files["unknown.tsv"], files["unknown.tsv"].with_suffix(".jsonl")
    asked.write_text("cat\twolf\ncat\tdog\n\ncat\n")
    assert told(capsys, "similarity", run, "--in", asked, "--out", out) == {
        "run": "table", "pairs": 4, "out": str(out), "unanswered": 3,
    }  # fmt: skip
    records = [json.loads(line) for line in out.read_text().splitlines()]
    assert [one["texts"] for one in records] == [["cat", "wolf"], ["cat", "dog"], [""], ["cat"]]
    assert "no vector for 'wolf'" in records[0]["error"]
    assert records[1] == told(capsys, "similarity", run, "cat", "dog")["pairs"][0]
    assert records[3] | {"remedy": ""} == {"texts": ["cat"], "line": 4, "error": "1 columns, not two", "remedy": ""}
    assert main(["similarity", str(run), "cat", "dog", "cat", "wolf"]) == 0
    assert "no vector for 'wolf'" in capsys.readouterr().err


def test_one_hot_vectors_say_on_one_line_that_all_words_are_equally_far(tmp_path: Path, capsys: Captured):
    run = opened("onehot", tmp_path).folder.path
    for command in (
        ["neighbours", run, "cat"],
        ["analogy", run, "cat", "mat", "dog"],
        ["similarity", run, "cat", "dog"],
    ):
        assert said(capsys, *command).count("equally far (cosine 0), which is why later milestones exist") == 1
    assert said(capsys, "neighbours", run, "cat").count("\n") == 1
    odd = said(capsys, "odd-one-out", run, "cat", "dog", "mat")
    assert "none is the odd one" in odd
    assert told(capsys, "odd-one-out", run, "cat", "dog", "mat")["odd"] is None
    assert said(capsys, "inspect", "neighbours", run, "cat").count("\n") == 1
    assert "nothing to draw" in refused(capsys, "inspect", "neighbours", run, "cat", "--to", tmp_path / "near.png")
    assert "means nothing" in said(capsys, "inspect", "projection", run, "cat", "dog", "mat")
    norms = said(capsys, "inspect", "norms", run)
    assert "all vectors have the length 1" in norms
    assert "longest" not in norms
    assert "length and frequency: none: all lengths are equal" in norms
    facts = told(capsys, "inspect", "norms", run)
    assert (facts["spearman"], facts["neighbours_spearman"]) == (None, None)
    scores = tmp_path / "scores.tsv"
    scores.write_text("first\tsecond\tscore\ncat\tdog\t9\ncat\tmat\t3\n")
    measured = said(capsys, "measure", run, "--words", scores)
    assert "none: all cosines of covered pairs are equal" in measured
    assert r"taken for headings: 'first\tsecond\tscore'" in measured
    assert told(capsys, "measure", run, "--words", scores)["files"][0]["spearman"] is None
    text = tmp_path / "some.txt"
    text.write_text("the cat sat\n\nthe dog ran\n\na mat lay\n" * 5, encoding="utf-8")
    assert "nothing has to be predicted" in " ".join(said(capsys, "preview", "onehot", text).split())


def test_what_means_nothing_is_refused(run: Path, network: Path, capsys: Captured):
    for options in (["--layers", "0"], ["--long", "truncate"]):
        assert "means nothing to a table" in refused(capsys, "embed", run, "the cat", *options)
        assert "for searching texts" in refused(capsys, "neighbours", run, "cat", *options)
    assert "--compile is for networks" in refused(capsys, "embed", run, "the cat", "--compile")
    assert "for searching texts" in refused(capsys, "neighbours", run, "cat", "--vectors", "v.npy")
    assert "pooling is 'sif'" in refused(capsys, "embed", network, "the cat", "--pooling", "sif")
    assert "not words" in refused(capsys, "neighbours", network, "cat")
    assert "cannot be asked for an analogy" in refused(capsys, "analogy", network, "a", "b", "c")
    assert "'dog' is left over" in refused(capsys, "similarity", run, "cat", "mat", "dog")
    assert "no two texts" in refused(capsys, "similarity", run)
    assert "--top is 0" in refused(capsys, "neighbours", run, "cat", "--top", 0)
    assert "none is the odd one" in refused(capsys, "odd-one-out", run, "cat", "dog")


def test_similarity_of_pairs_given_or_of_a_file(run: Path, network: Path, files: dict[str, Path], capsys: Captured):
    using = Run.open(run)
    facts = told(capsys, "similarity", run, "cat", "dog", "--in", files["pairs.tsv"])
    assert [one["texts"] for one in facts["pairs"]] == [["cat", "dog"], ["cat", "dog"], ["cat", "the mat"]]
    assert facts["pairs"][2]["cosine"] == using.similarity("cat", "the mat").to_dict()["cosine"]
    assert "the mean of 2 words" in said(capsys, "similarity", run, "cat", "the mat")
    out = files["pairs.tsv"].with_suffix(".jsonl")
    assert told(capsys, "similarity", run, "--in", files["pairs.tsv"], "--out", out)["pairs"] == 2
    assert [json.loads(line) for line in out.read_text().splitlines()] == facts["pairs"][1:]
    (texts,) = told(capsys, "similarity", network, "a cat", "a dog", "--layers", "1")["pairs"]
    assert texts["by"] == "texts"
    assert texts["cosine"] == Run.open(network).similarity("a cat", "a dog", layers=[1]).to_dict()["cosine"]


def test_the_odd_one_and_analogies(run: Path, capsys: Captured):
    facts = told(capsys, "odd-one-out", run, "cat", "dog", "Number")
    assert facts["odd"] == Run.open(run).odd_one_out(["cat", "dog", "Number"]).outlier
    assert facts["odd"] + " is the odd one" in said(capsys, "odd-one-out", run, "cat", "dog", "Number")
    for method in ("add", "multiply"):
        facts = told(capsys, "analogy", run, "cat", "mat", "dog", "--method", method, "--top", 2)
        expected = Run.open(run).analogy("cat", "mat", "dog", method=method, top=2)  # pyright: ignore[reportArgumentType]
        assert facts["nearest"] == expected.to_dict()["nearest"]
    assert f"cat is to mat as dog is to {facts['nearest'][0]['word']}" in said(
        capsys, "analogy", run, "cat", "mat", "dog", "--method", "multiply"
    )


def test_embedding_tells_how_many_words_it_lacks(run: Path, files: dict[str, Path], capsys: Captured):
    facts = told(capsys, "embed", run, "the cat qqq", "--words")
    (text,) = facts["texts"]
    assert (text["tokens"], text["cut"], [word["text"] for word in text["words"]]) == (2, 1, ["the", "cat"])
    assert "1 left away" in said(capsys, "embed", run, "the cat qqq")
    out = files["words.txt"].with_suffix(".npy")
    assert "vectors of 3 texts, 1 token left away" in said(
        capsys, "embed", run, "qqq cat", "--in", files["words.txt"], "--out", out, "--pooling", "sif"
    )
    expected = Run.open(run).embed(["qqq cat", "cat", "the dog"], pooling="sif")
    assert np.load(out) == pytest.approx(np.stack([one.vector for one in expected]), abs=1e-6)


def test_measuring_words(run: Path, network: Path, files: dict[str, Path], capsys: Captured):
    facts = told(capsys, "measure", run, "--words", files["scores.txt"], files["asked.txt"], "--most-frequent", "0")
    pairs, asked = facts["files"]
    assert (pairs["kind"], pairs["covered"], pairs["pairs"], pairs["missing"]) == ("similarity", 3, 4, ["wolf"])
    assert (asked["kind"], asked["covered"], asked["total"]) == ("analogies", 2, 3)
    assert [one["name"] for one in asked["sections"]] == ["place", "gram1"]
    assert set(asked["kinds"]) == {"semantic", "syntactic"}
    printed = said(capsys, "measure", run, "--words", files["scores.txt"], files["asked.txt"])
    for word in ("Spearman", "3 of 4", "place", "in all", "syntactic", "1 word is missing: wolf", "left out", "wrong"):
        assert word in printed
    (by_texts,) = told(capsys, "measure", network, "--words", files["scores.txt"])["files"]
    assert (by_texts["by"], by_texts["covered"]) == ("texts", 4)
    assert "table of words" in refused(capsys, "measure", network, "--words", files["asked.txt"])


def test_measure_refuses_what_words_have_nothing_to_do_with(run: Path, files: dict[str, Path], capsys: Captured):
    words = ["--words", str(files["scores.txt"])]
    for options, what in (
        (["--limit", "10k"], "--limit and --words do not go together"),
        (["--documents", "lines"], "only --encoding matters"),
        (["--method", "add"], "about analogies"),
        (["--most-frequent", "5"], "about analogies"),
    ):
        assert what in refused(capsys, "measure", run, *words, *options)
    assert "texts and --words do not go together" in refused(capsys, "measure", run, files["sentences.txt"], *words)
    assert "nothing to measure with" in refused(capsys, "measure", run)
    assert "--method is about analogies" in refused(capsys, "measure", run, files["sentences.txt"], "--method", "add")


def test_none_of_this_loads_torch(run: Path, files: dict[str, Path]):
    """Asking a table of words must not pay for what only networks need."""
    commands = [
        ["neighbours", run, "cat"],
        ["neighbours", run, "the cat", "--among", files["sentences.txt"]],
        ["similarity", run, "cat", "dog"],
        ["odd-one-out", run, "cat", "dog", "mat"],
        ["analogy", run, "cat", "mat", "dog"],
        ["embed", run, "the cat", "--pooling", "sif"],
        ["measure", run, "--words", files["scores.txt"], files["asked.txt"]],
        ["inspect", "neighbours", run, "cat"],
        ["inspect", "projection", run],
        ["inspect", "norms", run],
    ]
    program = (
        "import json, sys\nfrom forebear.cli.main import main\n"
        "for command in json.loads(sys.argv[1]):\n"
        "    assert main(command) == 0, command\n"
        "    assert 'torch' not in sys.modules, command\n"
        "    assert 'matplotlib' not in sys.modules, command\n"
    )
    given = json.dumps([[str(part) for part in command] for command in commands])
    done = subprocess.run([sys.executable, "-c", program, given], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
