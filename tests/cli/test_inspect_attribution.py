"""`inspect why`: attributions of words as JSON, in the terminal with and without color, and as a page."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from command_line import Captured, json_output, printed_output, refusal_message
from cue_word_runs import CHINESE_TEXT, ENGLISH_TEXT, train_cue_word_run
from forebear.cli import main as front
from small_runs import train_small_run


@pytest.fixture(autouse=True)
def working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(front.COMMANDS, "inspect", front.COMMANDS.get("inspect", "Look inside a run."))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FORCE_COLOR", raising=False)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    def planted_run(task: str, milestone: str = "ngram", **options: int) -> Path:
        return train_cue_word_run(tmp_path_factory.mktemp(task), task, milestone, **options).folder.path

    task_runs = {task: planted_run(task) for task in ("classification", "pairs", "choice", "answering", "tagging")}
    return task_runs | {"bert": planted_run("classification", "bert", steps=10)}


def test_inspect_why_json_has_words_spans_and_attributions(capsys: Captured, runs: dict[str, Path]):
    facts = json_output(capsys, "inspect", "why", runs["bert"], ENGLISH_TEXT, CHINESE_TEXT)
    assert (facts["what"], len(facts["texts"])) == ("why", 2)
    for text, attribution in zip((ENGLISH_TEXT, CHINESE_TEXT), facts["texts"], strict=True):
        assert attribution["texts"] == [text]
        assert attribution["method"] == "integrated"
        assert attribution["hidden"] == "[MASK]"
        assert [text[word["start"] : word["end"]] for word in attribution["words"]] == [
            word["text"] for word in attribution["words"]
        ]
        gain = attribution["score"] - attribution["baseline"]
        assert sum(word["attribution"] for word in attribution["words"]) == pytest.approx(
            gain - attribution["gap"], abs=1e-4
        )
        assert 0 < attribution["probability"] < 1
    assert "".join(word["text"] for word in facts["texts"][1]["words"]) == CHINESE_TEXT
    by_gradients = json_output(capsys, "inspect", "why", runs["bert"], ENGLISH_TEXT, "--method", "gradients")["texts"][
        0
    ]
    assert (by_gradients["method"], by_gradients["gap"], by_gradients["baseline"]) == ("gradients", None, None)


def test_inspect_why_explains_another_label(capsys: Captured, runs: dict[str, Path]):
    attribution = json_output(capsys, "inspect", "why", runs["classification"], ENGLISH_TEXT, "--of", "bad")["texts"][0]
    assert (attribution["target"], attribution["said"]) == ("bad", "good")
    assert min(attribution["words"], key=lambda word: word["attribution"])["text"] == "splendid"
    printed = printed_output(capsys, "inspect", "why", runs["classification"], ENGLISH_TEXT, "--of", "bad")
    assert "the run itself says good" in printed


def test_inspect_why_prints_signs_without_color(capsys: Captured, runs: dict[str, Path]):
    printed = printed_output(capsys, "inspect", "why", runs["classification"], ENGLISH_TEXT)
    assert printed.startswith("good ")
    assert "splendid(+++)" in printed
    assert "\x1b" not in printed
    row = next(line for line in printed.splitlines() if line.strip().startswith("splendid "))
    assert re.search(r"\+\d\.\d{4} +█{16}", row)
    assert "exactly" in printed
    assert "n-gram" in printed
    printed_without_table = printed_output(capsys, "inspect", "why", runs["classification"], ENGLISH_TEXT, "--top", "0")
    assert "█" not in printed_without_table
    assert "splendid(+++)" in printed_without_table


def test_inspect_why_prints_colors_in_a_color_terminal(
    capsys: Captured, runs: dict[str, Path], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    printed = printed_output(capsys, "inspect", "why", runs["classification"], CHINESE_TEXT)
    assert re.search(
        "\x1b\\[38;2;255;255;255;48;2;31;95;208m讨厌\x1b\\[0m", printed
    )  # the strongest positive attribution
    assert "(+++)" not in printed


def test_inspect_why_escapes_control_characters(capsys: Captured, runs: dict[str, Path]):
    printed = printed_output(capsys, "inspect", "why", runs["classification"], "a \x1b[31m[bold]splendid[/]\nfilm")
    assert "\x1b" not in printed
    assert "[bold]" in printed
    assert "\\x1b" in printed


@pytest.mark.parametrize(
    ("task", "texts", "expected_groups"),
    [
        ("pairs", [ENGLISH_TEXT, CHINESE_TEXT, CHINESE_TEXT, ENGLISH_TEXT], 2),
        ("answering", ["how was it", ENGLISH_TEXT, "how was it", CHINESE_TEXT], 2),
        ("choice", ["now:", ENGLISH_TEXT, CHINESE_TEXT], 1),
        ("tagging", [ENGLISH_TEXT], 1),
    ],
)
def test_inspect_why_groups_texts_by_task(
    task: str, texts: list[str], expected_groups: int, capsys: Captured, runs: dict[str, Path]
):
    facts = json_output(capsys, "inspect", "why", runs[task], *texts)
    assert len(facts["texts"]) == expected_groups
    assert [text for group in facts["texts"] for text in group["texts"]] == texts
    printed = printed_output(capsys, "inspect", "why", runs[task], *texts)
    assert printed.count("Weights of a linear model") == expected_groups
    if task == "pairs":
        assert "first: " in printed
        assert "second: " in printed


class TagChecker(HTMLParser):
    """Fails where tags are not closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.opened: list[str] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.opened.append(tag)
        assert not any(name.startswith("on") or name in ("src", "href") for name, _ in attrs)
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.words.append(data)


def test_inspect_why_writes_a_safe_html_page(capsys: Captured, runs: dict[str, Path], tmp_path: Path):
    hostile_text = 'a splendid </p><script>alert("x")</script> film & more'
    facts = json_output(
        capsys, "inspect", "why", runs["classification"], ENGLISH_TEXT, CHINESE_TEXT, hostile_text, "--html", "why.html"
    )
    assert facts["html"] == "why.html"
    page = (tmp_path / "why.html").read_text("utf-8")
    checker = TagChecker()
    checker.feed(page)
    assert checker.open == []
    assert "script" not in checker.opened
    assert checker.opened.count("section") == 3
    text = "".join(checker.words)
    for expected in (ENGLISH_TEXT, CHINESE_TEXT, hostile_text):
        assert expected in text
    assert "http" not in page.replace("http-equiv", "")
    assert "prefers-color-scheme: dark" in page
    assert re.search(r'<span class="word for" style="--s:1\.000" title="\+[\d.]+">splendid</span>', page)
    assert re.search(r'<span class="word against" style="--s:0\.\d+" title="-[\d.]+">', page)


def test_inspect_why_page_of_pairs_names_both_texts(capsys: Captured, runs: dict[str, Path], tmp_path: Path):
    printed = printed_output(
        capsys, "inspect", "why", runs["pairs"], ENGLISH_TEXT, "a dog", "--html", tmp_path / "pairs.html"
    )
    assert f"page: {tmp_path / 'pairs.html'}" in printed
    page = (tmp_path / "pairs.html").read_text("utf-8")
    assert '<span class="part">first</span>' in page
    assert '<span class="part">second</span>' in page
    attribution = json_output(capsys, "inspect", "why", runs["pairs"], ENGLISH_TEXT, "a dog")["texts"][0]
    dense_features = [feature for feature in attribution["features"] if not feature["text"]]
    assert [feature["where"] for feature in dense_features] == [
        "length of the shorter by the longer"
    ]  # the pair shares no n-gram
    assert attribution["elsewhere"] == pytest.approx(sum(feature["value"] for feature in dense_features), abs=1e-4)


def test_inspect_why_refuses_invalid_input(capsys: Captured, runs: dict[str, Path], tmp_path: Path):
    run = runs["classification"]
    assert "there is no text" in refusal_message(capsys, "inspect", "why", run)
    assert "2: a text is empty" in refusal_message(capsys, "inspect", "why", run, ENGLISH_TEXT, " ")
    assert "there are: bad, good" in refusal_message(capsys, "inspect", "why", run, ENGLISH_TEXT, "--of", "fine")
    assert "one text is left over" in refusal_message(capsys, "inspect", "why", runs["pairs"], ENGLISH_TEXT)
    assert "one text is left over" in refusal_message(capsys, "inspect", "why", runs["answering"], ENGLISH_TEXT)
    assert "at least two choices" in refusal_message(capsys, "inspect", "why", runs["choice"], "now:", ENGLISH_TEXT)
    assert "--top" in refusal_message(capsys, "inspect", "why", run, ENGLISH_TEXT, "--top", "-1")
    assert "does not exist" in refusal_message(
        capsys, "inspect", "why", run, ENGLISH_TEXT, "--html", "nowhere/why.html"
    )
    assert "is a folder" in refusal_message(capsys, "inspect", "why", run, ENGLISH_TEXT, "--html", tmp_path)
    assert "no such run" in refusal_message(capsys, "inspect", "why", tmp_path / "none", ENGLISH_TEXT)
    assert "integrated" in refusal_message(capsys, "inspect", "why", run, ENGLISH_TEXT, "--method", "guess")
    assert "forebear inspect --help" in refusal_message(capsys, "inspect", "sideways", run, ENGLISH_TEXT)


def test_inspect_why_of_a_run_without_task_names_its_capabilities(capsys: Captured, tmp_path: Path):
    folder = train_small_run("ngram", tmp_path).path
    error_output = refusal_message(capsys, "inspect", "why", folder, ENGLISH_TEXT)
    assert "not adapted to a task" in error_output
    assert "it can be asked to: score, next, generate" in error_output
