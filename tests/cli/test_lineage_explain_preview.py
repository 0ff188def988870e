"""The commands lineage, explain, preview, runs and compare."""

from pathlib import Path

import pytest

from command_line import json_output, printed_output
from forebear.cli.main import main
from forebear.registry import LINEAGE

DOCUMENTS = [f"Day {n}: Anna saw {n % 7} birds and {n % 5} cats. 今天有{n % 9}只鸟。" for n in range(120)]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("FOREBEAR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("COLUMNS", "140")
    monkeypatch.chdir(tmp_path)
    Path("diary.txt").write_text("\n\n".join(DOCUMENTS), encoding="utf-8")
    return tmp_path


def test_lineage_lists_models_in_historical_order(capsys):
    facts = json_output(capsys, "lineage")["milestones"]
    assert [model["name"] for model in facts] == list(LINEAGE)
    assert all(model["ready"] and model["verbs"] for model in facts)
    printed = printed_output(capsys, "lineage")
    for entry in LINEAGE.values():
        assert entry.name in printed
        assert str(entry.year) in printed
    assert "generate" in printed


def test_explain_ngram_shows_fields_and_capabilities(capsys):
    facts = json_output(capsys, "explain", "ngram", "--order", "4")
    assert facts["fields"]["order"] == {"value": 4, "meaning": facts["fields"]["order"]["meaning"]}
    assert facts["verbs"] == ["score", "next", "generate", "ask", "measure"]
    printed = printed_output(capsys, "explain", "ngram")
    for word in ("Markov", "WholeTexts", "--smoothing", "bigram", "cat", "parameter for each different n-gram"):
        assert word in printed


def test_explain_gpt2_shows_sizes_and_parameters(capsys):
    printed = printed_output(
        capsys, "explain", "gpt2", "--width", "96", "--heads", "3", "--depth", "2", "--context", "64"
    )
    for word in ("Unsupervised Multitask", "LMHead", "124,439,808", "yours", "--context", "50,257"):
        assert word in printed


def test_preview_shows_tokens_above_targets_and_statistics(capsys):
    facts = json_output(capsys, "preview", "ngram", "diary.txt", "--rows", "2")
    assert len(facts["rows"]) == 2
    assert facts["rows"][0]["asked"]["next"][:-1] == facts["rows"][0]["tokens"][1:]
    printed = printed_output(
        capsys, "preview", "gpt2", "diary.txt", "--context", "24", "--batch", "96", "--rows", "1", "--quiet"
    )
    lines = printed.splitlines()
    assert lines[1].startswith("seen")
    assert lines[2].startswith("next")
    assert "4, of 24 to 24 tokens" in printed
    assert "held out, by content" in printed
    assert "今" in printed


def test_compare_and_runs_show_the_same_results(capsys):
    command = ["compare", "diary.txt", "--only", "ngram", "--time", "5s", "--to", "c", "--size", "ngram=bigram"]
    facts = json_output(capsys, *command)
    (row,) = facts["rows"]
    assert facts["best"] == "ngram"
    assert row["bits_per_byte"] > 0
    assert row["trials"][0]["size"] == "bigram"
    assert Path(facts["page"]).read_text().startswith("<!doctype html>")
    printed = printed_output(capsys, *command, "--quiet")
    assert f"{row['bits_per_byte']:.3f}" in printed
    assert "best" in printed
    assert "yardstick" in printed
    assert "c/comparison.html" in printed
    (run_entry,) = json_output(capsys, "runs", "c")["runs"]
    assert (run_entry["milestone"], run_entry["state"], run_entry["size"]) == ("ngram", "finished", "bigram")
    assert run_entry["bits_per_byte"] == pytest.approx(row["bits_per_byte"])
    Path("c/runs/torn").mkdir()
    Path("c/runs/torn/run.json").write_text("{")
    printed = printed_output(capsys, "runs", "c")
    assert "broken: cannot be read" in printed
    assert "finished" in printed


def test_runs_of_an_empty_folder_says_so(capsys):
    Path("runs").mkdir()
    assert "no runs in runs" in printed_output(capsys, "runs")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["explain", "gtp2"], "did you mean gpt2?"),
        (["explain", "gpt2", "--size", "12M"], "did you mean"),
        (["explain", "gpt2", "--widht", "9"], "did you mean --width?"),
        (["explain", "gpt2", "--width", "wide"], "--width is 'wide'"),
        (["preview", "ngarm", "diary.txt"], "did you mean ngram?"),
        (["preview", "ngram", "missing.txt"], "no such file"),
        (["preview", "ngram", "diary.txt", "--rows", "0"], "at least one row"),
        (["runs", "nowhere"], "there is no such folder"),
        (["compare", "diary.txt", "--only", "bret"], "no milestone named 'bret'"),
        (["compare", "diary.txt", "--size", "mini"], "say which milestone's"),
        (["compare", "diary.txt", "--seeds", "0"], "--seeds is 0"),
        (["compare", "diary.txt", "--time", "later"], "no duration"),
        (["compare", "missing.txt"], "no such file"),
        (["compare", "-"], "only once"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_lineage_commands_refuse_invalid_arguments(capsys, arguments, words):
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert words in printed.err
    assert "Traceback" not in printed.err
