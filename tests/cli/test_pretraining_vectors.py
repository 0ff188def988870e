"""Word vectors learned on the command line: what is said on the way and at the end, in words that can be pasted."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from command_line import Captured, said
from forebear.cli.main import main
from small_runs import text


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREBEAR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "140")
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text(text(60), encoding="utf-8")


@pytest.mark.parametrize(("name", "shown"), [("word2vec", "tokens"), ("glove", "entries"), ("onehot", "tokens")])
def test_what_now_can_be_pasted_and_what_is_shown_has_its_name(name: str, shown: str, capsys: Captured):
    assert main(["pretrain", name, "text.txt", "--to", "a run", "--epochs", "1", "--min-count", "2"]) == 0
    printed = capsys.readouterr()
    assert f" {shown} a step" in printed.err
    assert name == "onehot" or f" {shown}/s" in printed.err, "what has no loss is not reported of"
    (now,) = (line for line in printed.out.splitlines() if line.startswith("what now: "))
    command = shlex.split(now.removeprefix("what now: ").split("  (")[0])
    assert command[:3] == ["forebear", "neighbours", "a run"]
    assert len(command[3]) > 2
    assert main(command[1:]) == 0
    assert command[3] in capsys.readouterr().out


def test_how_long_and_how_fast_is_explained(capsys: Captured):
    asked = "--epochs 5 --batch 50000 --rate 0.025 --warmup 0 --cooldown 1"
    assert f"Unless you say otherwise it learns with: {asked}\n" in said(capsys, "explain", "word2vec")
    assert "learns with: --time 5m --batch 1024 " in said(capsys, "explain", "nnlm")
    told = " ".join(said(capsys, "pretrain", "--help").replace("│", " ").split())
    assert "n-grams and word vectors: the epochs that forebear explain tells" in told
