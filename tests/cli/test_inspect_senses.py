"""`inspect senses`, `inspect layers` and `inspect gradients`: terminal, JSON, pictures, pages, refused input."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from command_line import Captured, json_output, printed_output, refusal_message
from cue_word_runs import train_cue_word_run
from small_runs import small_text, train_small_run

PEOPLE = ("Ivy", "Ben", "Min", "Tao", "Ann", "Joe", "Lin", "Bo")
MONEY = [f"money\t{who} opened an account at the bank." for who in PEOPLE]
RIVER = [f"river\tThe boat of {who} lay on the muddy bank." for who in PEOPLE]


@pytest.fixture(autouse=True)
def sense_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setenv("COLUMNS", "140")
    (tmp_path / "known.tsv").write_text("\n".join(MONEY + RIVER) + "\n", encoding="utf-8")
    plain_text = "\n\n".join(line.split("\t")[1] for line in MONEY + RIVER)
    (tmp_path / "plain.txt").write_text(plain_text + "\n\nA riverbank.\n", encoding="utf-8")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("runs")
    lines = [line.split("\t")[1] for line in MONEY + RIVER]
    (folder / "text.txt").write_text("\n\n".join(lines * 3) + "\n\n" + small_text(10), encoding="utf-8")
    settings = {"gpt2": {"tokenizer": "words", "steps": 2}, "word2vec": {"steps": 2}, "nnlm": {"steps": 2}, "ngram": {}}
    return {name: train_small_run(name, folder, to=name, **options).path for name, options in settings.items()}


def test_inspect_senses_groups_occurrences(capsys: Captured, runs: dict[str, Path], tmp_path: Path):
    command = ("inspect", "senses", runs["gpt2"], "bank", "--in")
    facts = json_output(capsys, *command, "known.tsv", "--senses", "--beside", runs["word2vec"], "--groups", "2")
    vectors, (table,) = facts["vectors"], facts["beside"]
    assert (facts["what"], facts["senses"], vectors["occurrences"]) == ("senses", ["money", "river"], 16)
    assert [group["size"] for group in vectors["groups"]] == [8, 8]
    assert vectors["agreement"]["adjusted_rand_index"] == 1.0
    assert (table["verdict"], table["agreement"]["adjusted_rand_index"]) == (
        "every occurrence has the same vector, whatever stands around", 0.0,
    )  # fmt: skip
    assert {occurrence["line"] for group in vectors["groups"] for occurrence in group["occurrences"]} == set(
        range(1, 17)
    )
    printed = printed_output(capsys, *command, "plain.txt", "--groups", "2", "--top", "1", "--to", "look.png")
    assert re.search(r"group 1  8 of 16, mean cosine \d\.\d+$", printed, re.M)
    assert re.search(r"^  \w+ opened an account at the «bank»\.$", printed, re.M)
    assert "riverbank (1)" in printed
    assert "gpt2 looks back" in printed
    assert "gpt2, its table" in printed
    assert "written: look.png" in printed
    assert (tmp_path / "look.png").read_bytes().startswith(b"\x89PNG")
    printed_few = printed_output(
        capsys, *command, "known.tsv", "--column", "2", "--layer", "-1", "--most", "6", "--to", "look.html"
    )
    assert "6 of 16 occurrences were taken" in printed_few
    assert (tmp_path / "look.html").read_text("utf-8").count("<li>") == 6
    assert "of joined groups" in printed_output(capsys, *command, "known.tsv", "--senses")


def test_inspect_senses_refuses_invalid_input(capsys: Captured, runs: dict[str, Path], tmp_path: Path):
    command = ("inspect", "senses", runs["gpt2"])
    assert "no sentence has the word 'zebra'" in refusal_message(capsys, *command, "zebra", "--in", "plain.txt")
    assert "--in" in refusal_message(capsys, *command, "bank")
    assert "no such file" in refusal_message(capsys, *command, "bank", "--in", "none.txt")
    assert "plain.txt:1: this line has no meaning" in refusal_message(
        capsys, *command, "bank", "--in", "plain.txt", "--senses"
    )
    assert "how else to read is told" in refusal_message(
        capsys, *command, "bank", "--in", "known.tsv", "--senses", "--sentences", "flow"
    )
    assert "there is no layer 9" in refusal_message(capsys, *command, "bank", "--in", "plain.txt", "--layers", "9")
    assert "--groups is 99" in refusal_message(capsys, *command, "bank", "--in", "plain.txt", "--groups", "99")
    assert ".png, .svg, .html" in refusal_message(capsys, *command, "bank", "--in", "plain.txt", "--to", "look.gif")
    assert "counts" in refusal_message(capsys, "inspect", "senses", runs["ngram"], "bank", "--in", "plain.txt")


def test_inspect_layers_shows_layer_weights(capsys: Captured, runs: dict[str, Path], tmp_path: Path):
    run = train_cue_word_run(tmp_path, model_name="gpt2", how="features", steps=3).folder.path
    facts = json_output(capsys, "inspect", "layers", run, run, "--to", "layers.png")
    assert [(mixture["task"], mixture["place"], len(mixture["weights"])) for mixture in facts["mixtures"]] == [
        ("classification", "head label", 3)
    ] * 2
    assert (tmp_path / "layers.png").read_bytes().startswith(b"\x89PNG")
    printed = printed_output(capsys, "inspect", "layers", run)
    assert re.search(r"2, the last +0\.3\d+ +█+", printed)
    assert "--how features" in refusal_message(capsys, "inspect", "layers", runs["gpt2"])
    assert ".png, .svg" in refusal_message(capsys, "inspect", "layers", run, "--to", "look.html")


def test_inspect_gradients_shows_gradients_by_distance(capsys: Captured, runs: dict[str, Path], tmp_path: Path):
    (tmp_path / "long.txt").write_text(small_text(30), encoding="utf-8")
    command = ("inspect", "gradients", runs["gpt2"], runs["nnlm"])
    facts = json_output(capsys, *command, "--in", "long.txt", "--far", "12", "--to", "reach.svg")
    first, second = facts["runs"]
    assert [len(run_result["by_distance"]) for run_result in (first, second)] == [13, 13]
    assert first["by_distance"][0]["relative"] == 1.0
    assert "is cut off" in second["verdict"]
    assert (tmp_path / "reach.svg").read_bytes().startswith(b"<?xml")
    printed = printed_output(capsys, *command, "--text", small_text(1), "--far", "8")
    assert "tokens back" in printed
    assert re.search(r"^nnlm is cut off: nothing further back than \d tokens is seen$", printed, re.M)
    assert "there is no text" in refusal_message(capsys, *command)
    assert "two texts" in refusal_message(capsys, *command, "--text", "a", "--in", "long.txt")
    assert "--far 10" in refusal_message(capsys, *command, "--text", "The cat sat.")
    assert "has no network" in refusal_message(capsys, "inspect", "gradients", runs["ngram"], "--text", "a")
