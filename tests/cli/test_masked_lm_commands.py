"""fill, embed, score and measure of a masked language model on the command line; and preview."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from command_line import json_output
from forebear.cli.main import main
from small_runs import open_small_run, small_text


@pytest.fixture(scope="module")
def bert_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return open_small_run("bert", tmp_path_factory.mktemp("hidden"), steps=300, rate=5e-3).folder.path


def test_fill_prints_candidates_and_the_filled_text(bert_run: Path, capsys: pytest.CaptureFixture[str]):
    (answer,) = json_output(capsys, "fill", bert_run, "The ____ sat by the [MASK].", "--top", "3")["texts"]
    assert [len(candidates) for candidates in answer["blanks"]] == [3, 3]
    assert "____" not in answer["whole"]
    assert "[MASK]" not in answer["whole"]
    assert main(["fill", str(bert_run), "The ____ sat by the mat."]) == 0
    assert "sat by the mat." in capsys.readouterr().out


def test_fill_reads_and_writes_files_and_names_bad_lines(
    bert_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "in.txt").write_text("The ____ sat.\nThe cat ____ by the mat.\n", encoding="utf-8")
    json_output(capsys, "fill", bert_run, "--in", tmp_path / "in.txt", "--out", tmp_path / "out.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [line["text"] for line in lines] == ["The ____ sat.", "The cat ____ by the mat."]
    (tmp_path / "bad.txt").write_text("The ____ sat.\nNo blank here.\n", encoding="utf-8")
    assert main(["fill", str(bert_run), "--in", str(tmp_path / "bad.txt"), "--out", str(tmp_path / "no.jsonl")]) == 2
    assert "bad.txt:2" in capsys.readouterr().err
    assert not (tmp_path / "no.jsonl").exists()


def test_embed_writes_vectors_and_prints_cosines(bert_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    texts = json_output(capsys, "embed", bert_run, "The cat sat.", "The dog sat.", "--layers", "0:0.5,2:0.5")["texts"]
    assert [len(text["vector"]) for text in texts] == [32, 32]
    json_output(capsys, "embed", bert_run, "The cat sat.", "The dog sat.", "--out", tmp_path / "v.npy")
    vectors = np.load(tmp_path / "v.npy", allow_pickle=False)
    assert vectors.shape == (2, 32)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-5)
    words = json_output(capsys, "embed", bert_run, "The cat sat.", "--words")["texts"][0]["words"]
    assert [word["text"] for word in words] == ["The", "cat", "sat", "."]
    assert main(["embed", str(bert_run), "The cat sat.", "The dog sat."]) == 0
    assert "cosine" in capsys.readouterr().out
    assert main(["embed", str(bert_run), "a", "--layers", "9"]) == 2
    assert "there is no layer 9" in capsys.readouterr().err


def test_scores_of_a_masked_language_model_are_marked_as_pseudo_likelihood(
    bert_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    answers = json_output(capsys, "score", bert_run, "The cat sat by the mat.", "mat the by sat cat the.")["texts"]
    assert all(answer["pseudo"] for answer in answers)
    assert answers[0]["log_probability"] > answers[1]["log_probability"]
    assert main(["score", str(bert_run), "The cat sat."]) == 0
    assert "pseudo-likelihood" in capsys.readouterr().out
    assert main(["score", str(bert_run), "The cat sat.", "--ends"]) == 2
    assert "--ends" in capsys.readouterr().err
    (tmp_path / "more.txt").write_text(small_text(50), encoding="utf-8")
    measured = json_output(capsys, "measure", bert_run, tmp_path / "more.txt")
    assert measured["pseudo"]
    assert measured["accuracy"] > measured["guess"]
    assert main(["measure", str(bert_run), str(tmp_path / "more.txt")]) == 0
    assert "hidden tokens found" in capsys.readouterr().out


def test_next_and_generate_of_a_masked_language_model_are_refused(bert_run: Path, capsys: pytest.CaptureFixture[str]):
    for command in ("next", "generate"):
        assert main([command, str(bert_run), "The"]) == 2
        assert "it can be asked to: fill, ask, score, measure, embed" in capsys.readouterr().err


def test_preview_shows_masking_statistics(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "t.txt").write_text(small_text(40), encoding="utf-8")
    figures = json_output(capsys, "preview", "bert", tmp_path / "t.txt", "--whole-words", "--context", "40")["figures"]
    assert (figures["mixed_halves"], figures["words_half_hidden"]) == (0, 0)
    assert sum(figures["fates"].values()) == pytest.approx(1)
    assert set(figures["pairs"]) == {"follows", "from elsewhere"}
    assert main(["preview", "albert", str(tmp_path / "t.txt"), "--context", "40"]) == 0
    assert "swapped" in capsys.readouterr().out


def test_boolean_model_option_with_or_without_value(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "t.txt").write_text(small_text(40), encoding="utf-8")
    for options, expected in ((["--whole-words"], True), (["--whole-words", "false"], False), ([], False)):
        fields = json_output(capsys, "explain", "bert", *options)["fields"]
        assert fields["whole_words"]["value"] is expected
    assert main(["preview", "bert", "--whole-words", str(tmp_path / "t.txt"), "--context", "40"]) == 0


@pytest.mark.parametrize("name", ["ngram", "gpt2", "bert"])
def test_preview_and_pretrain_show_the_nine_stages(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "t.txt").write_text(small_text(40), encoding="utf-8")
    size = [] if name == "ngram" else ["--context", "40", "--width", "32", "--heads", "2"]
    stages = json_output(capsys, "preview", name, tmp_path / "t.txt", "--stages", *size)["stages"]
    names = ["prepare", "tokenise", "mask", "pack", "batch", "initialise", "loss", "Adam", "evaluate"]
    assert [(stage["number"], stage["name"]) for stage in stages] == [*enumerate(names, 1)]
    if name == "bert":
        losses, chance = (stages[6]["figures"][key] for key in ("losses", "chance"))
        assert losses["token"] == pytest.approx(chance["token"], abs=0.3)
        assert losses["pair"] == pytest.approx(chance["pair"], abs=0.1)
    json_output(capsys, "pretrain", name, tmp_path / "t.txt", "--to", tmp_path / "r", *size, *_short(name))
    assert main(["pretrain", name, str(tmp_path / "t.txt"), "--to", str(tmp_path / "r2"), *size, *_short(name)]) == 0
    assert "9/9 evaluate" in capsys.readouterr().err


def _short(name: str) -> list[str]:
    return [] if name == "ngram" else ["--steps", "2"]
