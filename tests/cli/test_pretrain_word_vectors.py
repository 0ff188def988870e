"""`forebear pretrain` of word vectors: progress, suggested command, and explained defaults."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from command_line import Captured, printed_output
from forebear.cli.main import main
from small_runs import small_text


@pytest.fixture(autouse=True)
def working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREBEAR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "140")
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text(small_text(60), encoding="utf-8")


@pytest.mark.parametrize(("name", "unit"), [("word2vec", "tokens"), ("glove", "entries"), ("onehot", "tokens")])
def test_pretrain_of_word_vectors_suggests_a_command_that_works(name: str, unit: str, capsys: Captured):
    assert main(["pretrain", name, "text.txt", "--to", "a run", "--epochs", "1", "--min-count", "2"]) == 0
    printed = capsys.readouterr()
    assert f" {unit} a step" in printed.err
    assert name == "onehot" or f" {unit}/s" in printed.err, "a model without a loss has no progress line"
    (suggestion,) = (line for line in printed.out.splitlines() if line.startswith("what now: "))
    command = shlex.split(suggestion.removeprefix("what now: ").split("  (")[0])
    assert command[:3] == ["forebear", "neighbours", "a run"]
    assert len(command[3]) > 2
    assert main(command[1:]) == 0
    assert command[3] in capsys.readouterr().out


def test_explain_shows_training_defaults(capsys: Captured):
    defaults = "--epochs 5 --batch 50000 --rate 0.025 --warmup 0 --cooldown 1"
    assert f"Unless you say otherwise it learns with: {defaults}\n" in printed_output(capsys, "explain", "word2vec")
    assert "learns with: --time 5m --batch 1024 " in printed_output(capsys, "explain", "nnlm")
    help_text = " ".join(printed_output(capsys, "pretrain", "--help").replace("│", " ").split())
    assert "n-grams and word vectors: the epochs that forebear explain tells" in help_text
