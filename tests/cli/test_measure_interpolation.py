"""`forebear measure --with`: interpolation of two runs, and runs that cannot be interpolated."""

from pathlib import Path

import pytest

from command_line import json_output, printed_output, refusal_message
from small_runs import small_text, train_small_run


@pytest.fixture(scope="module")
def runs_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    working_folder = tmp_path_factory.mktemp("together")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FOREBEAR_CACHE", str(working_folder / "cache"))
        for name, options in (("ngram", {}), ("nnlm", {}), ("letters", {"tokenizer": "characters"})):
            train_small_run("ngram" if name == "letters" else name, working_folder, to=name, **options)
        train_small_run("bert", working_folder, to="bert", steps=2)
        lines = small_text(60).splitlines(keepends=True)
        (working_folder / "tune.txt").write_text("".join(lines[-60:-30]), encoding="utf-8")
        (working_folder / "test.txt").write_text("".join(lines[-30:]), encoding="utf-8")
    return working_folder


@pytest.fixture(autouse=True)
def working_folder(runs_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREBEAR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "140")
    monkeypatch.chdir(runs_folder)


def test_measure_with_interpolates_two_runs(capsys):
    facts = json_output(capsys, "measure", "nnlm", "test.txt", "--with", "ngram", "--tune", "tune.txt")
    assert [run_result["run"] for run_result in facts["alone"]] == ["nnlm", "ngram"]
    assert sum(run_result["weight"] for run_result in facts["alone"]) == pytest.approx(1)
    assert facts["tuned_tokens"] > 100
    for run_result in facts["alone"]:
        measured = json_output(capsys, "measure", run_result["run"], "test.txt")
        assert measured["perplexity"] == pytest.approx(run_result["perplexity"], rel=1e-5)
        assert measured["tokens"] == facts["mixture"]["tokens"]
    printed = printed_output(capsys, "measure", "nnlm", "test.txt", "--with", "ngram", "--tune", "tune.txt", "--quiet")
    assert f"{facts['mixture']['perplexity']:.2f}" in printed
    for word in ("nnlm", "ngram", "together", "weights found by"):
        assert word in printed
    equal_weights = json_output(capsys, "measure", "nnlm", "test.txt", "--with", "ngram", "--limit", "300")
    assert [run_result["weight"] for run_result in equal_weights["alone"]] == [0.5, 0.5]
    assert equal_weights["mixture"]["bytes"] < facts["mixture"]["bytes"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nnlm", "test.txt", "--tune", "tune.txt"], "name others with --with"),
        (["nnlm", "test.txt", "--with", "letters"], "another tokenizer"),
        (["nnlm", "test.txt", "--with", "bert"], "does not predict the next token"),
        (["bert", "test.txt", "--with", "nnlm"], "cannot be mixed"),
        (["nnlm", "test.txt", "--with", "nowhere"], "nowhere"),
        (["nnlm", "test.txt", "--with", "ngram", "--tune", "missing.txt"], "missing.txt"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_measure_with_refuses_incompatible_runs(capsys, arguments: list[str], words: str):
    assert words in refusal_message(capsys, "measure", *arguments)
