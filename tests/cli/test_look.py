"""inspect attention, positions and next on the command line: terminal, JSON, pictures, pages, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from command_line import Captured, refused, said, told
from forebear.inspection import attention
from forebear.inspection.attention import AttentionMap
from forebear.reports import plotting
from small_runs import trained

SAID, CHINESE = "The cat sat", "我有梦"


@pytest.fixture(autouse=True)
def known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setenv("COLUMNS", "120")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    ways = {"gpt2": {"tokenizer": "words", "context": 100, "steps": 2}, "bert": {"steps": 2}, "ngram": {}}
    return {name: trained(name, tmp_path_factory.mktemp(name), **more).path for name, more in ways.items()}


def test_numbers_of_a_map(capsys: Captured, runs: dict[str, Path]):
    facts = told(capsys, "inspect", "attention", runs["gpt2"], SAID, "--layer", "-1", "--head", "mean", "--bare")
    (found,) = facts["maps"]
    assert (found["kind"], found["rows"], len(found["panels"])) == ("masked", ["The", "cat", "sat"], 1)
    assert found["panels"][0]["weights"][0] == [1.0, 0.0, 0.0]
    assert sum(found["panels"][0]["weights"][2]) == pytest.approx(1, abs=1e-5)
    every = told(capsys, "inspect", "attention", runs["gpt2"], SAID)["maps"][0]
    assert len(every["panels"]) == 4
    few = told(capsys, "inspect", "attention", runs["gpt2"], SAID, "--top", "3")["maps"][0]
    assert len(few["edges"]) == 3
    assert "panels" not in few
    rolled = told(capsys, "inspect", "attention", runs["bert"], SAID, "the dog", "--rollout")["maps"][0]
    assert rolled["panels"][0]["head"] == "roll-out"
    assert len(rolled["borders"]) == 1


def test_a_map_in_the_terminal(capsys: Captured, runs: dict[str, Path]):
    shown = said(capsys, "inspect", "attention", runs["gpt2"], SAID, "--layer", "1", "--head", "1", "--bare")
    assert re.search(r"^ +The +cat +sat$", shown, re.M)
    assert re.search(r"^The +1 *$", shown, re.M)  # what comes later is empty
    assert re.search(r"^cat +\.\d\d +\.\d\d *$", shown, re.M)
    assert "the strongest edges of layer 1, head 1" in shown
    assert "\x1b" not in shown
    small = said(capsys, "inspect", "attention", runs["gpt2"], SAID)
    assert "layer 1" in small
    assert "██ · · ·" in small
    long = said(capsys, "inspect", "attention", runs["gpt2"], "cat " * 70)
    assert "71 tokens" in long
    assert "██" not in long


def test_wide_characters_stay_in_their_columns(capsys: Captured, runs: dict[str, Path], tmp_path: Path):
    from rich.cells import cell_len

    file = tmp_path / "text.txt"
    file.write_text("我有一个梦想\n\n" * 20, encoding="utf-8")
    folder = trained("bert", tmp_path, steps=2, tokenizer="characters", pairs="none").path
    shown = said(capsys, "inspect", "attention", folder, CHINESE, "ab", "--layer", "1", "--head", "2")
    lines = [line for line in shown.splitlines() if "│" in line]
    assert len(lines) == 9  # the tokens' names and eight rows
    assert len({cell_len(line.partition("│")[0]) for line in lines}) == 1
    assert "┼" in shown


def test_colours_where_there_are_some(capsys: Captured, runs: dict[str, Path], monkeypatch: pytest.MonkeyPatch):
    for name, value in (("FORCE_COLOR", "1"), ("COLORTERM", "truecolor"), ("TERM", "xterm-256color")):
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("NO_COLOR", raising=False)
    shown = said(capsys, "inspect", "attention", runs["gpt2"], SAID, "--layer", "1", "--head", "1", "--bare")
    assert re.search("^The\x1b\\[38;2;255;255;255;48;2;24;72;150m +1\x1b\\[0m", shown, re.M)


def test_strange_characters_do_no_harm(capsys: Captured, runs: dict[str, Path], tmp_path: Path):
    shown = said(capsys, "inspect", "attention", runs["bert"], "a \x1b[31m[bold]$x$\ud800", "--to", "look.svg")
    assert "\x1b" not in shown
    assert (tmp_path / "look.svg").exists()


@pytest.mark.parametrize("name", ["look.png", "look.svg", "look.html"])
def test_files_of_attention(name: str, capsys: Captured, runs: dict[str, Path], tmp_path: Path):
    facts = told(capsys, "inspect", "attention", runs["bert"], "the $5 cat [x] <b>", "a dog", "--to", name)
    assert facts["to"] == [name]
    begins = {"png": b"\x89PNG", "svg": b"<?xml", "html": b"<!doctype html>"}[name[-4:].removeprefix(".")]
    assert (tmp_path / name).read_bytes().startswith(begins)
    shown = said(capsys, "inspect", "attention", runs["gpt2"], "cat " * 70, "--to", name)
    assert f"written: {name}" in shown


def test_runs_with_several_maps(
    capsys: Captured, runs: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """As an encoder and decoder have them: one of them need not be square."""
    source, target = ("ein", "Hund", "läuft"), ("a", "dog")
    both = [
        AttentionMap(np.full((1, 2, 3, 3), 1 / 3, np.float32), source, source, "self", "the source"),
        AttentionMap(
            np.array([[[[0.2, 0.8, 0], [0, 0.1, 0.9]]] * 2], np.float32), target, source, "cross", "to the source"
        ),
    ]
    monkeypatch.setattr(attention, "compute_attention_maps", lambda run, texts, bare: both)
    look = ("inspect", "attention", runs["gpt2"], SAID)
    facts = told(capsys, *look, "--to", "look.png")
    assert facts["to"] == ["look-1.png", "look-2.png"]
    assert sorted(file.name for file in tmp_path.iterdir()) == facts["to"]
    assert (facts["maps"][1]["rows"], facts["maps"][1]["columns"]) == (list(target), list(source))
    assert told(capsys, *look, "--to", "look.html")["to"] == ["look.html"]
    assert [one["name"] for one in told(capsys, *look, "--rollout")["maps"]] == ["the source"]
    shown = said(capsys, *look, "--layer", "1", "--head", "1")
    assert re.search(r"^  a +\.20 +\.80 +\.00 *$", shown, re.M)
    assert "2 tokens that look at 3" in shown


def test_a_font_that_is_missing_is_told_and_nothing_is_written(
    capsys: Captured, runs: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(plotting, "_fonts", lambda: iter([("DejaVu Sans", frozenset(range(0x3000)))]))
    words = refused(capsys, "inspect", "attention", runs["gpt2"], CHINESE, "--to", "look.png")
    assert "我 (U+6211)" in words
    assert "fonts-noto-cjk" in words
    assert "--to FILE.html" in words
    assert "html" not in refused(capsys, "inspect", "next", runs["gpt2"], CHINESE, "--to", "look.png")  # it has no page
    assert list(tmp_path.iterdir()) == []
    assert told(capsys, "inspect", "attention", runs["gpt2"], CHINESE, "--to", "look.html")["to"] == ["look.html"]


def test_positions(capsys: Captured, runs: dict[str, Path], tmp_path: Path):
    facts = told(capsys, "inspect", "positions", "--width", "16", "--positions", "20", "--to", "waves.png")
    assert (facts["placing"], facts["width"], facts["positions"]) == ("sinusoid", 16, 20)
    assert len(facts["cosine_by_distance"]) == 20
    assert max(step["rotation_error"] for step in facts["steps"]) < 1e-6
    learned = told(capsys, "inspect", "positions", runs["bert"], "--to", "learned.svg")
    assert (learned["placing"], learned["steps"][0]["rotation_error"]) == ("learned", None)
    assert (tmp_path / "waves.png").stat().st_size > 10_000
    assert (tmp_path / "learned.svg").read_bytes().startswith(b"<?xml")
    assert "rotation's largest error" in said(capsys, "inspect", "positions")
    assert "a sinusoid's" in said(capsys, "inspect", "positions", runs["bert"])


def test_how_a_prediction_forms(capsys: Captured, runs: dict[str, Path], tmp_path: Path):
    facts = told(capsys, "inspect", "next", runs["gpt2"], SAID, "--top", "3", "--to", "forming.png")
    assert [layer["layer"] for layer in facts["layers"]] == [0, 1, 2]
    plain = told(capsys, "next", runs["gpt2"], SAID, "--top", "3")["texts"][0]["candidates"]
    kept = ("id", "probability")
    last = [{key: one[key] for key in kept} for one in facts["layers"][-1]["candidates"]]
    assert last == [{key: one[key] for key in kept} for one in plain]
    assert (tmp_path / "forming.png").read_bytes().startswith(b"\x89PNG")
    shown = said(capsys, "inspect", "next", runs["bert"], "the ____ sat", "--to", "forming.svg")
    assert "in place of [MASK]" in shown
    assert "KL to the end" in shown


def test_what_is_refused(capsys: Captured, runs: dict[str, Path], tmp_path: Path):
    gpt2, look = runs["gpt2"], ("inspect", "attention")
    assert "0 texts" in refused(capsys, *look, gpt2)
    assert "no layer 9" in refused(capsys, *look, gpt2, SAID, "--layer", "9")
    assert "heads are 1 to 2" in refused(capsys, *look, gpt2, SAID, "--head", "7")
    assert "mean" in refused(capsys, *look, gpt2, SAID, "--head", "middle")
    assert "all heads" in refused(capsys, *look, gpt2, SAID, "--head", "1", "--rollout")
    assert "--top is 0" in refused(capsys, *look, gpt2, SAID, "--top", "0")
    assert ".png, .svg, .html" in refused(capsys, *look, gpt2, SAID, "--to", "look.gif")
    assert "does not exist" in refused(capsys, *look, gpt2, SAID, "--to", "nowhere/look.png")
    assert "no attention" in refused(capsys, *look, runs["ngram"], SAID)
    assert "it has no layers" in refused(capsys, "inspect", "next", runs["ngram"], SAID)
    assert ".png, .svg" in refused(capsys, "inspect", "next", gpt2, SAID, "--to", "look.html")
    assert "no table of positions" in refused(capsys, "inspect", "positions", runs["ngram"])
    assert "no such run" in refused(capsys, *look, tmp_path / "none", SAID)
