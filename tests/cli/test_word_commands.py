"""Word-vector commands without torch: similarity, odd-one-out, analogy, neighbours, embed, measure --words."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from command_line import Captured, json_output, printed_output, refusal_message
from forebear.cli.main import main
from forebear.inference.run import Run
from small_runs import open_small_run


@pytest.fixture(autouse=True)
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREBEAR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "140")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("words")


@pytest.fixture(scope="module")
def word2vec_run(folder: Path) -> Path:
    return open_small_run("word2vec", folder, to="table", steps=15).folder.path


@pytest.fixture(scope="module")
def bert_run(folder: Path) -> Path:
    return open_small_run("bert", folder, to="network", steps=3).folder.path


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


def test_neighbours_of_words_and_of_sentences(word2vec_run: Path, files: dict[str, Path], capsys: Captured):
    facts = json_output(capsys, "neighbours", word2vec_run, "cat", "the dog", "--top", 3)
    assert (facts["run"], facts["words"]) == ("table", len(Run.open(word2vec_run).word_table.words))
    cat, dog = facts["texts"]
    (expected,) = Run.open(word2vec_run).neighbours("cat", top=3)
    assert cat["nearest"] == expected.to_dict()["nearest"]
    assert dog["note"] == "the mean of 2 words: the, dog"
    printed = printed_output(capsys, "neighbours", word2vec_run, "cat")
    assert "seen" in printed
    assert printed.count("\n") > 10
    out = files["words.txt"].with_suffix(".jsonl")
    assert (
        json_output(capsys, "neighbours", word2vec_run, "--in", files["words.txt"], "--out", out, "--top", 3)["texts"]
        == 2
    )
    assert [json.loads(line) for line in out.read_text().splitlines()] == [cat, dog]
    among = json_output(
        capsys, "neighbours", word2vec_run, "The cat sat", "--among", files["sentences.txt"], "--pooling", "sif"
    )
    assert among["texts"][0]["nearest"][0]["line"] == 1
    assert len(among["texts"][0]["nearest"]) == 3


def test_approximate_neighbours_of_words(word2vec_run: Path, capsys: Captured):
    pytest.importorskip("usearch")
    facts = json_output(capsys, "neighbours", word2vec_run, "cat", "--approximate", "--top", 4)
    assert facts["recall"] > 0.9
    exact = json_output(capsys, "neighbours", word2vec_run, "cat", "--top", 4)
    assert [neighbor["word"] for neighbor in facts["texts"][0]["nearest"]] == [
        neighbor["word"] for neighbor in exact["texts"][0]["nearest"]
    ]
    assert "of the nearest" in printed_output(capsys, "analogy", word2vec_run, "cat", "mat", "dog", "--approximate")


def test_oov_words_are_reported_with_their_line(word2vec_run: Path, files: dict[str, Path], capsys: Captured):
    error_output = refusal_message(capsys, "neighbours", word2vec_run, "catt")
    assert "no vector for 'catt'" in error_output
    assert "did you mean: cat" in error_output
    files["strange.txt"].write_text("qqq\nzzz\n")
    error_output = refusal_message(capsys, "neighbours", word2vec_run, "--in", files["strange.txt"])
    assert "strange.txt:1: no vector for 'qqq'" in error_output
    assert "nor have the other 1" in error_output
    assert "none of this text's words" in refusal_message(capsys, "embed", word2vec_run, "the cat", "qqq zzz")
    assert "no vector for 'wolf'" in refusal_message(capsys, "analogy", word2vec_run, "cat", "wolf", "dog")
    files["bad.tsv"].write_text("cat dog\n")
    out = files["bad.tsv"].with_suffix(".jsonl")
    assert "bad.tsv:1: 1 columns" in refusal_message(
        capsys, "similarity", word2vec_run, "--in", files["bad.tsv"], "--out", out
    )
    assert not out.exists()


def test_neighbours_keep_the_positions_of_lines_without_a_vector(
    word2vec_run: Path, files: dict[str, Path], capsys: Captured
):
    input_file, out = files["strange.txt"], files["strange.txt"].with_suffix(".jsonl")
    input_file.write_text("cat\nqqq\n\nthe dog\nzzz\n")
    assert main(["neighbours", str(word2vec_run), "--in", str(input_file), "--out", str(out), "--top", "2"]) == 0
    notes = capsys.readouterr().err
    assert "3 lines have no answer, of 5 texts: 2, 3, 5" in notes
    assert "line 2: no vector for 'qqq'" in notes
    records = [json.loads(line) for line in out.read_text().splitlines()]
    assert [record.get("line") for record in records] == [None, 2, 3, None, 5]
    assert [record["text"] for record in records] == ["cat", "qqq", "", "the dog", "zzz"]
    assert "no words" in records[2]["error"]
    assert records[3] == json_output(capsys, "neighbours", word2vec_run, "the dog", "--top", 2)["texts"][0]
    assert main(["neighbours", str(word2vec_run), "cat", "catt"]) == 0
    printed = capsys.readouterr()
    assert "no vector for 'catt'" in printed.err
    assert "did you mean: cat" in printed.err
    assert "cosine" in printed.out


def test_similarity_keeps_the_positions_of_pairs_without_a_vector(
    word2vec_run: Path, files: dict[str, Path], capsys: Captured
):
    input_file, out = files["unknown.tsv"], files["unknown.tsv"].with_suffix(".jsonl")
    input_file.write_text("cat\twolf\ncat\tdog\n\ncat\n")
    assert json_output(capsys, "similarity", word2vec_run, "--in", input_file, "--out", out) == {
        "run": "table", "pairs": 4, "out": str(out), "unanswered": 3,
    }  # fmt: skip
    records = [json.loads(line) for line in out.read_text().splitlines()]
    assert [record["texts"] for record in records] == [["cat", "wolf"], ["cat", "dog"], [""], ["cat"]]
    assert "no vector for 'wolf'" in records[0]["error"]
    assert records[1] == json_output(capsys, "similarity", word2vec_run, "cat", "dog")["pairs"][0]
    assert records[3] | {"remedy": ""} == {"texts": ["cat"], "line": 4, "error": "1 columns, not two", "remedy": ""}
    assert main(["similarity", str(word2vec_run), "cat", "dog", "cat", "wolf"]) == 0
    assert "no vector for 'wolf'" in capsys.readouterr().err


def test_one_hot_vectors_report_that_all_words_are_equally_far(tmp_path: Path, capsys: Captured):
    onehot_run = open_small_run("onehot", tmp_path).folder.path
    for command in (
        ["neighbours", onehot_run, "cat"],
        ["analogy", onehot_run, "cat", "mat", "dog"],
        ["similarity", onehot_run, "cat", "dog"],
    ):
        assert (
            printed_output(capsys, *command).count("equally far (cosine 0), which is why later milestones exist") == 1
        )
    assert printed_output(capsys, "neighbours", onehot_run, "cat").count("\n") == 1
    printed = printed_output(capsys, "odd-one-out", onehot_run, "cat", "dog", "mat")
    assert "none is the odd one" in printed
    assert json_output(capsys, "odd-one-out", onehot_run, "cat", "dog", "mat")["odd"] is None
    assert printed_output(capsys, "inspect", "neighbours", onehot_run, "cat").count("\n") == 1
    assert "nothing to draw" in refusal_message(
        capsys, "inspect", "neighbours", onehot_run, "cat", "--to", tmp_path / "near.png"
    )
    assert "means nothing" in printed_output(capsys, "inspect", "projection", onehot_run, "cat", "dog", "mat")
    norms = printed_output(capsys, "inspect", "norms", onehot_run)
    assert "all vectors have the length 1" in norms
    assert "longest" not in norms
    assert "length and frequency: none: all lengths are equal" in norms
    facts = json_output(capsys, "inspect", "norms", onehot_run)
    assert (facts["spearman"], facts["neighbours_spearman"]) == (None, None)
    scores = tmp_path / "scores.tsv"
    scores.write_text("first\tsecond\tscore\ncat\tdog\t9\ncat\tmat\t3\n")
    measured = printed_output(capsys, "measure", onehot_run, "--words", scores)
    assert "none: all cosines of covered pairs are equal" in measured
    assert r"taken for headings: 'first\tsecond\tscore'" in measured
    assert json_output(capsys, "measure", onehot_run, "--words", scores)["files"][0]["spearman"] is None
    text = tmp_path / "some.txt"
    text.write_text("the cat sat\n\nthe dog ran\n\na mat lay\n" * 5, encoding="utf-8")
    assert "nothing has to be predicted" in " ".join(printed_output(capsys, "preview", "onehot", text).split())


def test_word_commands_refuse_options_without_effect(word2vec_run: Path, bert_run: Path, capsys: Captured):
    for options in (["--layers", "0"], ["--long", "truncate"]):
        assert "means nothing to a table" in refusal_message(capsys, "embed", word2vec_run, "the cat", *options)
        assert "for searching texts" in refusal_message(capsys, "neighbours", word2vec_run, "cat", *options)
    assert "--compile is for networks" in refusal_message(capsys, "embed", word2vec_run, "the cat", "--compile")
    assert "for searching texts" in refusal_message(capsys, "neighbours", word2vec_run, "cat", "--vectors", "v.npy")
    assert "pooling is 'sif'" in refusal_message(capsys, "embed", bert_run, "the cat", "--pooling", "sif")
    assert "not words" in refusal_message(capsys, "neighbours", bert_run, "cat")
    assert "cannot be asked for an analogy" in refusal_message(capsys, "analogy", bert_run, "a", "b", "c")
    assert "'dog' is left over" in refusal_message(capsys, "similarity", word2vec_run, "cat", "mat", "dog")
    assert "no two texts" in refusal_message(capsys, "similarity", word2vec_run)
    assert "--top is 0" in refusal_message(capsys, "neighbours", word2vec_run, "cat", "--top", 0)
    assert "none is the odd one" in refusal_message(capsys, "odd-one-out", word2vec_run, "cat", "dog")


def test_similarity_of_given_pairs_and_of_a_file(
    word2vec_run: Path, bert_run: Path, files: dict[str, Path], capsys: Captured
):
    opened_run = Run.open(word2vec_run)
    facts = json_output(capsys, "similarity", word2vec_run, "cat", "dog", "--in", files["pairs.tsv"])
    assert [pair["texts"] for pair in facts["pairs"]] == [["cat", "dog"], ["cat", "dog"], ["cat", "the mat"]]
    assert facts["pairs"][2]["cosine"] == opened_run.similarity("cat", "the mat").to_dict()["cosine"]
    assert "the mean of 2 words" in printed_output(capsys, "similarity", word2vec_run, "cat", "the mat")
    out = files["pairs.tsv"].with_suffix(".jsonl")
    assert json_output(capsys, "similarity", word2vec_run, "--in", files["pairs.tsv"], "--out", out)["pairs"] == 2
    assert [json.loads(line) for line in out.read_text().splitlines()] == facts["pairs"][1:]
    (texts,) = json_output(capsys, "similarity", bert_run, "a cat", "a dog", "--layers", "1")["pairs"]
    assert texts["by"] == "texts"
    assert texts["cosine"] == Run.open(bert_run).similarity("a cat", "a dog", layers=[1]).to_dict()["cosine"]


def test_odd_one_out_and_analogies_equal_the_python_api(word2vec_run: Path, capsys: Captured):
    facts = json_output(capsys, "odd-one-out", word2vec_run, "cat", "dog", "Number")
    assert facts["odd"] == Run.open(word2vec_run).odd_one_out(["cat", "dog", "Number"]).outlier
    assert facts["odd"] + " is the odd one" in printed_output(
        capsys, "odd-one-out", word2vec_run, "cat", "dog", "Number"
    )
    for method in ("add", "multiply"):
        facts = json_output(capsys, "analogy", word2vec_run, "cat", "mat", "dog", "--method", method, "--top", 2)
        expected = Run.open(word2vec_run).analogy("cat", "mat", "dog", method=method, top=2)  # pyright: ignore[reportArgumentType]
        assert facts["nearest"] == expected.to_dict()["nearest"]
    assert f"cat is to mat as dog is to {facts['nearest'][0]['word']}" in printed_output(
        capsys, "analogy", word2vec_run, "cat", "mat", "dog", "--method", "multiply"
    )


def test_embed_reports_the_number_of_oov_words(word2vec_run: Path, files: dict[str, Path], capsys: Captured):
    facts = json_output(capsys, "embed", word2vec_run, "the cat qqq", "--words")
    (text,) = facts["texts"]
    assert (text["tokens"], text["cut"], [word["text"] for word in text["words"]]) == (2, 1, ["the", "cat"])
    assert "1 left away" in printed_output(capsys, "embed", word2vec_run, "the cat qqq")
    out = files["words.txt"].with_suffix(".npy")
    assert "vectors of 3 texts, 1 token left away" in printed_output(
        capsys, "embed", word2vec_run, "qqq cat", "--in", files["words.txt"], "--out", out, "--pooling", "sif"
    )
    expected = Run.open(word2vec_run).embed(["qqq cat", "cat", "the dog"], pooling="sif")
    assert np.load(out) == pytest.approx(np.stack([embedding.vector for embedding in expected]), abs=1e-6)


def test_measure_words_by_similarity_and_analogies(
    word2vec_run: Path, bert_run: Path, files: dict[str, Path], capsys: Captured
):
    facts = json_output(
        capsys, "measure", word2vec_run, "--words", files["scores.txt"], files["asked.txt"], "--most-frequent", "0"
    )
    pairs, analogies = facts["files"]
    assert (pairs["kind"], pairs["covered"], pairs["pairs"], pairs["missing"]) == ("similarity", 3, 4, ["wolf"])
    assert (analogies["kind"], analogies["covered"], analogies["total"]) == ("analogies", 2, 3)
    assert [section["name"] for section in analogies["sections"]] == ["place", "gram1"]
    assert set(analogies["kinds"]) == {"semantic", "syntactic"}
    printed = printed_output(capsys, "measure", word2vec_run, "--words", files["scores.txt"], files["asked.txt"])
    for word in ("Spearman", "3 of 4", "place", "in all", "syntactic", "1 word is missing: wolf", "left out", "wrong"):
        assert word in printed
    (by_texts,) = json_output(capsys, "measure", bert_run, "--words", files["scores.txt"])["files"]
    assert (by_texts["by"], by_texts["covered"]) == ("texts", 4)
    assert "table of words" in refusal_message(capsys, "measure", bert_run, "--words", files["asked.txt"])


def test_measure_words_refuses_options_without_effect(word2vec_run: Path, files: dict[str, Path], capsys: Captured):
    words = ["--words", str(files["scores.txt"])]
    for options, message in (
        (["--limit", "10k"], "--limit and --words do not go together"),
        (["--documents", "lines"], "only --encoding matters"),
        (["--method", "add"], "about analogies"),
        (["--most-frequent", "5"], "about analogies"),
    ):
        assert message in refusal_message(capsys, "measure", word2vec_run, *words, *options)
    assert "texts and --words do not go together" in refusal_message(
        capsys, "measure", word2vec_run, files["sentences.txt"], *words
    )
    assert "nothing to measure with" in refusal_message(capsys, "measure", word2vec_run)
    assert "--method is about analogies" in refusal_message(
        capsys, "measure", word2vec_run, files["sentences.txt"], "--method", "add"
    )


def test_word_commands_do_not_load_torch(word2vec_run: Path, files: dict[str, Path]):
    """Commands on word vectors must not load what only networks need."""
    commands = [
        ["neighbours", word2vec_run, "cat"],
        ["neighbours", word2vec_run, "the cat", "--among", files["sentences.txt"]],
        ["similarity", word2vec_run, "cat", "dog"],
        ["odd-one-out", word2vec_run, "cat", "dog", "mat"],
        ["analogy", word2vec_run, "cat", "mat", "dog"],
        ["embed", word2vec_run, "the cat", "--pooling", "sif"],
        ["measure", word2vec_run, "--words", files["scores.txt"], files["asked.txt"]],
        ["inspect", "neighbours", word2vec_run, "cat"],
        ["inspect", "projection", word2vec_run],
        ["inspect", "norms", word2vec_run],
    ]
    program = (
        "import json, sys\nfrom forebear.cli.main import main\n"
        "for command in json.loads(sys.argv[1]):\n"
        "    assert main(command) == 0, command\n"
        "    assert 'torch' not in sys.modules, command\n"
        "    assert 'matplotlib' not in sys.modules, command\n"
    )
    commands_json = json.dumps([[str(word) for word in command] for command in commands])
    process = subprocess.run(
        [sys.executable, "-c", program, commands_json], capture_output=True, text=True, timeout=120
    )
    assert process.returncode == 0, process.stderr[-2000:]
