"""`inspect attention`, `inspect positions` and `inspect next`: terminal, JSON, pictures, pages, refused input."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from command_line import Captured, json_output, printed_output, refusal_message
from forebear.inspection import attention
from forebear.inspection.attention import AttentionMap
from forebear.reports import plotting
from small_runs import train_small_run

TEXT, CHINESE_TEXT = "The cat sat", "我有梦"


@pytest.fixture(autouse=True)
def working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setenv("COLUMNS", "120")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    settings = {"gpt2": {"tokenizer": "words", "context": 100, "steps": 2}, "bert": {"steps": 2}, "ngram": {}}
    return {
        name: train_small_run(name, tmp_path_factory.mktemp(name), **options).path for name, options in settings.items()
    }


def test_inspect_attention_json_has_maps_edges_and_rollout(capsys: Captured, runs: dict[str, Path]):
    facts = json_output(capsys, "inspect", "attention", runs["gpt2"], TEXT, "--layer", "-1", "--head", "mean", "--bare")
    (attention_map,) = facts["maps"]
    assert (attention_map["kind"], attention_map["rows"], len(attention_map["panels"])) == (
        "masked",
        ["The", "cat", "sat"],
        1,
    )
    assert attention_map["panels"][0]["weights"][0] == [1.0, 0.0, 0.0]
    assert sum(attention_map["panels"][0]["weights"][2]) == pytest.approx(1, abs=1e-5)
    all_heads = json_output(capsys, "inspect", "attention", runs["gpt2"], TEXT)["maps"][0]
    assert len(all_heads["panels"]) == 4
    top_edges = json_output(capsys, "inspect", "attention", runs["gpt2"], TEXT, "--top", "3")["maps"][0]
    assert len(top_edges["edges"]) == 3
    assert "panels" not in top_edges
    rollout = json_output(capsys, "inspect", "attention", runs["bert"], TEXT, "the dog", "--rollout")["maps"][0]
    assert rollout["panels"][0]["head"] == "roll-out"
    assert len(rollout["borders"]) == 1


def test_inspect_attention_prints_weights_and_heatmaps(capsys: Captured, runs: dict[str, Path]):
    printed = printed_output(
        capsys, "inspect", "attention", runs["gpt2"], TEXT, "--layer", "1", "--head", "1", "--bare"
    )
    assert re.search(r"^ +The +cat +sat$", printed, re.M)
    assert re.search(r"^The +1 *$", printed, re.M)  # later tokens are empty
    assert re.search(r"^cat +\.\d\d +\.\d\d *$", printed, re.M)
    assert "the strongest edges of layer 1, head 1" in printed
    assert "\x1b" not in printed
    printed_heads = printed_output(capsys, "inspect", "attention", runs["gpt2"], TEXT)
    assert "layer 1" in printed_heads
    assert "██ · · ·" in printed_heads
    printed_long = printed_output(capsys, "inspect", "attention", runs["gpt2"], "cat " * 70)
    assert "71 tokens" in printed_long
    assert "██" not in printed_long


def test_inspect_attention_aligns_wide_characters(capsys: Captured, runs: dict[str, Path], tmp_path: Path):
    from rich.cells import cell_len

    file = tmp_path / "text.txt"
    file.write_text("我有一个梦想\n\n" * 20, encoding="utf-8")
    folder = train_small_run("bert", tmp_path, steps=2, tokenizer="characters", pairs="none").path
    printed = printed_output(capsys, "inspect", "attention", folder, CHINESE_TEXT, "ab", "--layer", "1", "--head", "2")
    lines = [line for line in printed.splitlines() if "│" in line]
    assert len(lines) == 9  # the header of tokens and eight rows
    assert len({cell_len(line.partition("│")[0]) for line in lines}) == 1
    assert "┼" in printed


def test_inspect_attention_prints_colors_in_a_color_terminal(
    capsys: Captured, runs: dict[str, Path], monkeypatch: pytest.MonkeyPatch
):
    for name, value in (("FORCE_COLOR", "1"), ("COLORTERM", "truecolor"), ("TERM", "xterm-256color")):
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("NO_COLOR", raising=False)
    printed = printed_output(
        capsys, "inspect", "attention", runs["gpt2"], TEXT, "--layer", "1", "--head", "1", "--bare"
    )
    assert re.search("^The\x1b\\[38;2;255;255;255;48;2;24;72;150m +1\x1b\\[0m", printed, re.M)


def test_inspect_attention_escapes_control_characters(capsys: Captured, runs: dict[str, Path], tmp_path: Path):
    printed = printed_output(
        capsys, "inspect", "attention", runs["bert"], "a \x1b[31m[bold]$x$\ud800", "--to", "look.svg"
    )
    assert "\x1b" not in printed
    assert (tmp_path / "look.svg").exists()


@pytest.mark.parametrize("name", ["look.png", "look.svg", "look.html"])
def test_inspect_attention_writes_pictures_and_pages(
    name: str, capsys: Captured, runs: dict[str, Path], tmp_path: Path
):
    facts = json_output(capsys, "inspect", "attention", runs["bert"], "the $5 cat [x] <b>", "a dog", "--to", name)
    assert facts["to"] == [name]
    magic_bytes = {"png": b"\x89PNG", "svg": b"<?xml", "html": b"<!doctype html>"}[name[-4:].removeprefix(".")]
    assert (tmp_path / name).read_bytes().startswith(magic_bytes)
    printed = printed_output(capsys, "inspect", "attention", runs["gpt2"], "cat " * 70, "--to", name)
    assert f"written: {name}" in printed


def test_inspect_attention_of_several_maps_numbers_the_pictures(
    capsys: Captured, runs: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Self-attention and cross-attention, as in an encoder–decoder; the latter is not square."""
    source, target = ("ein", "Hund", "läuft"), ("a", "dog")
    attention_maps = [
        AttentionMap(np.full((1, 2, 3, 3), 1 / 3, np.float32), source, source, "self", "the source"),
        AttentionMap(
            np.array([[[[0.2, 0.8, 0], [0, 0.1, 0.9]]] * 2], np.float32), target, source, "cross", "to the source"
        ),
    ]
    monkeypatch.setattr(attention, "compute_attention_maps", lambda run, texts, bare: attention_maps)
    command = ("inspect", "attention", runs["gpt2"], TEXT)
    facts = json_output(capsys, *command, "--to", "look.png")
    assert facts["to"] == ["look-1.png", "look-2.png"]
    assert sorted(file.name for file in tmp_path.iterdir()) == facts["to"]
    assert (facts["maps"][1]["rows"], facts["maps"][1]["columns"]) == (list(target), list(source))
    assert json_output(capsys, *command, "--to", "look.html")["to"] == ["look.html"]
    assert [attention_map["name"] for attention_map in json_output(capsys, *command, "--rollout")["maps"]] == [
        "the source"
    ]
    printed = printed_output(capsys, *command, "--layer", "1", "--head", "1")
    assert re.search(r"^  a +\.20 +\.80 +\.00 *$", printed, re.M)
    assert "2 tokens that look at 3" in printed


def test_missing_font_is_reported_and_no_picture_written(
    capsys: Captured, runs: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(plotting, "_fonts", lambda: iter([("DejaVu Sans", frozenset(range(0x3000)))]))
    error_output = refusal_message(capsys, "inspect", "attention", runs["gpt2"], CHINESE_TEXT, "--to", "look.png")
    assert "我 (U+6211)" in error_output
    assert "fonts-noto-cjk" in error_output
    assert "--to FILE.html" in error_output
    assert "html" not in refusal_message(
        capsys, "inspect", "next", runs["gpt2"], CHINESE_TEXT, "--to", "look.png"
    )  # it has no HTML output
    assert list(tmp_path.iterdir()) == []
    assert json_output(capsys, "inspect", "attention", runs["gpt2"], CHINESE_TEXT, "--to", "look.html")["to"] == [
        "look.html"
    ]


def test_inspect_positions_of_sinusoids_and_learned_embeddings(capsys: Captured, runs: dict[str, Path], tmp_path: Path):
    facts = json_output(capsys, "inspect", "positions", "--width", "16", "--positions", "20", "--to", "waves.png")
    assert (facts["placing"], facts["width"], facts["positions"]) == ("sinusoid", 16, 20)
    assert len(facts["cosine_by_distance"]) == 20
    assert max(step["rotation_error"] for step in facts["steps"]) < 1e-6
    learned = json_output(capsys, "inspect", "positions", runs["bert"], "--to", "learned.svg")
    assert (learned["placing"], learned["steps"][0]["rotation_error"]) == ("learned", None)
    assert (tmp_path / "waves.png").stat().st_size > 10_000
    assert (tmp_path / "learned.svg").read_bytes().startswith(b"<?xml")
    assert "rotation's largest error" in printed_output(capsys, "inspect", "positions")
    assert "a sinusoid's" in printed_output(capsys, "inspect", "positions", runs["bert"])


def test_inspect_next_shows_predictions_by_layer(capsys: Captured, runs: dict[str, Path], tmp_path: Path):
    facts = json_output(capsys, "inspect", "next", runs["gpt2"], TEXT, "--top", "3", "--to", "forming.png")
    assert [layer["layer"] for layer in facts["layers"]] == [0, 1, 2]
    candidates = json_output(capsys, "next", runs["gpt2"], TEXT, "--top", "3")["texts"][0]["candidates"]
    keys = ("id", "probability")
    last = [{key: candidate[key] for key in keys} for candidate in facts["layers"][-1]["candidates"]]
    assert last == [{key: candidate[key] for key in keys} for candidate in candidates]
    assert (tmp_path / "forming.png").read_bytes().startswith(b"\x89PNG")
    printed = printed_output(capsys, "inspect", "next", runs["bert"], "the ____ sat", "--to", "forming.svg")
    assert "in place of [MASK]" in printed
    assert "KL to the end" in printed


def test_inspect_attention_refuses_invalid_input(capsys: Captured, runs: dict[str, Path], tmp_path: Path):
    gpt2, command = runs["gpt2"], ("inspect", "attention")
    assert "0 texts" in refusal_message(capsys, *command, gpt2)
    assert "no layer 9" in refusal_message(capsys, *command, gpt2, TEXT, "--layer", "9")
    assert "heads are 1 to 2" in refusal_message(capsys, *command, gpt2, TEXT, "--head", "7")
    assert "mean" in refusal_message(capsys, *command, gpt2, TEXT, "--head", "middle")
    assert "all heads" in refusal_message(capsys, *command, gpt2, TEXT, "--head", "1", "--rollout")
    assert "--top is 0" in refusal_message(capsys, *command, gpt2, TEXT, "--top", "0")
    assert ".png, .svg, .html" in refusal_message(capsys, *command, gpt2, TEXT, "--to", "look.gif")
    assert "does not exist" in refusal_message(capsys, *command, gpt2, TEXT, "--to", "nowhere/look.png")
    assert "no attention" in refusal_message(capsys, *command, runs["ngram"], TEXT)
    assert "it has no layers" in refusal_message(capsys, "inspect", "next", runs["ngram"], TEXT)
    assert ".png, .svg" in refusal_message(capsys, "inspect", "next", gpt2, TEXT, "--to", "look.html")
    assert "no table of positions" in refusal_message(capsys, "inspect", "positions", runs["ngram"])
    assert "no such run" in refusal_message(capsys, *command, tmp_path / "none", TEXT)
