"""`forebear measure --with`: two runs beside their mixture, and what cannot be mixed."""

from pathlib import Path

import pytest

from command_line import refused, said, told
from small_runs import text, trained


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("together")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FOREBEAR_CACHE", str(folder / "cache"))
        for name, more in (("ngram", {}), ("nnlm", {}), ("letters", {"tokenizer": "characters"})):
            trained("ngram" if name == "letters" else name, folder, to=name, **more)
        trained("bert", folder, to="bert", steps=2)
        lines = text(60).splitlines(keepends=True)
        (folder / "tune.txt").write_text("".join(lines[-60:-30]), encoding="utf-8")
        (folder / "test.txt").write_text("".join(lines[-30:]), encoding="utf-8")
    return folder


@pytest.fixture(autouse=True)
def folder(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREBEAR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "140")
    monkeypatch.chdir(place)


def test_two_runs_and_their_mixture(capsys):
    facts = told(capsys, "measure", "nnlm", "test.txt", "--with", "ngram", "--tune", "tune.txt")
    assert [one["run"] for one in facts["alone"]] == ["nnlm", "ngram"]
    assert sum(one["weight"] for one in facts["alone"]) == pytest.approx(1)
    assert facts["tuned_tokens"] > 100
    for one in facts["alone"]:
        alone = told(capsys, "measure", one["run"], "test.txt")
        assert alone["perplexity"] == pytest.approx(one["perplexity"], rel=1e-5)
        assert alone["tokens"] == facts["mixture"]["tokens"]
    printed = said(capsys, "measure", "nnlm", "test.txt", "--with", "ngram", "--tune", "tune.txt", "--quiet")
    assert f"{facts['mixture']['perplexity']:.2f}" in printed
    for word in ("nnlm", "ngram", "together", "weights found by"):
        assert word in printed
    even = told(capsys, "measure", "nnlm", "test.txt", "--with", "ngram", "--limit", "300")
    assert [one["weight"] for one in even["alone"]] == [0.5, 0.5]
    assert even["mixture"]["bytes"] < facts["mixture"]["bytes"]


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
    ids=lambda it: " ".join(it) if isinstance(it, list) else None,
)
def test_bad_use_is_refused(capsys, arguments: list[str], words: str):
    assert words in refused(capsys, "measure", *arguments)
