"""inspect why on the command line: words for and against, as JSON, with and without colours, and as a page."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from command_line import Captured, refused, said, told
from forebear.cli import main as front
from planted_runs import SAID, SAID_IN_CHINESE, planted
from small_runs import trained


@pytest.fixture(autouse=True)
def known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(front.COMMANDS, "inspect", front.COMMANDS.get("inspect", "Look inside a run."))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FORCE_COLOR", raising=False)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    def made(task: str, milestone: str = "ngram", **how: int) -> Path:
        return planted(tmp_path_factory.mktemp(task), task, milestone, **how).folder.path

    found = {task: made(task) for task in ("classification", "pairs", "choice", "answering", "tagging")}
    return found | {"bert": made("classification", "bert", steps=10)}


def test_json_tells_words_spans_and_what_they_add(capsys: Captured, runs: dict[str, Path]):
    facts = told(capsys, "inspect", "why", runs["bert"], SAID, SAID_IN_CHINESE)
    assert (facts["what"], len(facts["texts"])) == ("why", 2)
    for text, one in zip((SAID, SAID_IN_CHINESE), facts["texts"], strict=True):
        assert one["texts"] == [text]
        assert one["method"] == "integrated"
        assert one["hidden"] == "[MASK]"
        assert [text[word["start"] : word["end"]] for word in one["words"]] == [word["text"] for word in one["words"]]
        gain = one["score"] - one["baseline"]
        assert sum(word["attribution"] for word in one["words"]) == pytest.approx(gain - one["gap"], abs=1e-4)
        assert 0 < one["probability"] < 1
    assert "".join(word["text"] for word in facts["texts"][1]["words"]) == SAID_IN_CHINESE
    rough = told(capsys, "inspect", "why", runs["bert"], SAID, "--method", "gradients")["texts"][0]
    assert (rough["method"], rough["gap"], rough["baseline"]) == ("gradients", None, None)


def test_another_label(capsys: Captured, runs: dict[str, Path]):
    one = told(capsys, "inspect", "why", runs["classification"], SAID, "--of", "bad")["texts"][0]
    assert (one["target"], one["said"]) == ("bad", "good")
    assert min(one["words"], key=lambda word: word["attribution"])["text"] == "splendid"
    shown = said(capsys, "inspect", "why", runs["classification"], SAID, "--of", "bad")
    assert "the run itself says good" in shown


def test_people_see_signs_where_there_are_no_colours(capsys: Captured, runs: dict[str, Path]):
    shown = said(capsys, "inspect", "why", runs["classification"], SAID)
    assert shown.startswith("good ")
    assert "splendid(+++)" in shown
    assert "\x1b" not in shown
    row = next(line for line in shown.splitlines() if line.strip().startswith("splendid "))
    assert re.search(r"\+\d\.\d{4} +█{16}", row)
    assert "exactly" in shown
    assert "n-gram" in shown
    bare = said(capsys, "inspect", "why", runs["classification"], SAID, "--top", "0")
    assert "█" not in bare
    assert "splendid(+++)" in bare


def test_people_see_colours_where_there_are_some(
    capsys: Captured, runs: dict[str, Path], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    shown = said(capsys, "inspect", "why", runs["classification"], SAID_IN_CHINESE)
    assert re.search("\x1b\\[38;2;255;255;255;48;2;31;95;208m讨厌\x1b\\[0m", shown)  # the strongest, for
    assert "(+++)" not in shown


def test_what_a_terminal_must_not_be_given(capsys: Captured, runs: dict[str, Path]):
    shown = said(capsys, "inspect", "why", runs["classification"], "a \x1b[31m[bold]splendid[/]\nfilm")
    assert "\x1b" not in shown
    assert "[bold]" in shown
    assert "\\x1b" in shown


@pytest.mark.parametrize(
    ("task", "texts", "of"),
    [
        ("pairs", [SAID, SAID_IN_CHINESE, SAID_IN_CHINESE, SAID], 2),
        ("answering", ["how was it", SAID, "how was it", SAID_IN_CHINESE], 2),
        ("choice", ["now:", SAID, SAID_IN_CHINESE], 1),
        ("tagging", [SAID], 1),
    ],
)
def test_texts_go_together_as_the_task_wants(
    task: str, texts: list[str], of: int, capsys: Captured, runs: dict[str, Path]
):
    facts = told(capsys, "inspect", "why", runs[task], *texts)
    assert len(facts["texts"]) == of
    assert [text for one in facts["texts"] for text in one["texts"]] == texts
    shown = said(capsys, "inspect", "why", runs[task], *texts)
    assert shown.count("Weights of a linear model") == of
    if task == "pairs":
        assert "first: " in shown
        assert "second: " in shown


class Reader(HTMLParser):
    """Complains where tags are not closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        assert not any(name.startswith("on") or name in ("src", "href") for name, _ in attrs)
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.words.append(data)


def test_a_page_of_its_own(capsys: Captured, runs: dict[str, Path], tmp_path: Path):
    nasty = 'a splendid </p><script>alert("x")</script> film & more'
    facts = told(capsys, "inspect", "why", runs["classification"], SAID, SAID_IN_CHINESE, nasty, "--html", "why.html")
    assert facts["html"] == "why.html"
    page = (tmp_path / "why.html").read_text("utf-8")
    reader = Reader()
    reader.feed(page)
    assert reader.open == []
    assert "script" not in reader.seen
    assert reader.seen.count("section") == 3
    text = "".join(reader.words)
    for given in (SAID, SAID_IN_CHINESE, nasty):
        assert given in text
    assert "http" not in page.replace("http-equiv", "")
    assert "prefers-color-scheme: dark" in page
    assert re.search(r'<span class="word for" style="--s:1\.000" title="\+[\d.]+">splendid</span>', page)
    assert re.search(r'<span class="word against" style="--s:0\.\d+" title="-[\d.]+">', page)


def test_a_page_of_pairs_names_the_sides(capsys: Captured, runs: dict[str, Path], tmp_path: Path):
    shown = said(capsys, "inspect", "why", runs["pairs"], SAID, "a dog", "--html", tmp_path / "pairs.html")
    assert f"page: {tmp_path / 'pairs.html'}" in shown
    page = (tmp_path / "pairs.html").read_text("utf-8")
    assert '<span class="part">first</span>' in page
    assert '<span class="part">second</span>' in page
    one = told(capsys, "inspect", "why", runs["pairs"], SAID, "a dog")["texts"][0]
    figures = [feature for feature in one["features"] if not feature["text"]]
    assert [feature["where"] for feature in figures] == ["length of the shorter by the longer"]  # nothing is shared
    assert one["elsewhere"] == pytest.approx(sum(feature["value"] for feature in figures), abs=1e-4)


def test_what_is_refused(capsys: Captured, runs: dict[str, Path], tmp_path: Path):
    ours = runs["classification"]
    assert "there is no text" in refused(capsys, "inspect", "why", ours)
    assert "2: a text is empty" in refused(capsys, "inspect", "why", ours, SAID, " ")
    assert "there are: bad, good" in refused(capsys, "inspect", "why", ours, SAID, "--of", "fine")
    assert "one text is left over" in refused(capsys, "inspect", "why", runs["pairs"], SAID)
    assert "one text is left over" in refused(capsys, "inspect", "why", runs["answering"], SAID)
    assert "at least two choices" in refused(capsys, "inspect", "why", runs["choice"], "now:", SAID)
    assert "--top" in refused(capsys, "inspect", "why", ours, SAID, "--top", "-1")
    assert "does not exist" in refused(capsys, "inspect", "why", ours, SAID, "--html", "nowhere/why.html")
    assert "is a folder" in refused(capsys, "inspect", "why", ours, SAID, "--html", tmp_path)
    assert "no such run" in refused(capsys, "inspect", "why", tmp_path / "none", SAID)
    assert "integrated" in refused(capsys, "inspect", "why", ours, SAID, "--method", "guess")
    assert "forebear inspect --help" in refused(capsys, "inspect", "sideways", ours, SAID)


def test_a_run_without_a_task_says_what_it_can_do(capsys: Captured, tmp_path: Path):
    folder = trained("ngram", tmp_path).path
    words = refused(capsys, "inspect", "why", folder, SAID)
    assert "not adapted to a task" in words
    assert "it can be asked to: score, next, generate" in words
