"""Files of the verbs of tasks: what comes in keeps its line, what goes out replaces nothing, what is bad is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command_line import Captured, refused, said, told
from labelled_texts import home_of_runs

TASKS = ("classification", "tagging", "answering", "choice")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return home_of_runs(tmp_path_factory.mktemp("files"), TASKS)


@pytest.mark.parametrize("command", ["classify RUN --in FILE --out FILE", "score RUN --in FILE --out LINK"])
def test_what_is_read_is_not_replaced(command: str, tmp_path: Path, capsys: Captured):
    file, link = tmp_path / "f.tsv", tmp_path / "link.tsv"
    file.write_text("a text\n")
    link.symlink_to(file)
    names = {"FILE": file, "LINK": link, "RUN": tmp_path / "no-run"}
    assert "name another file" in refused(capsys, *(names.get(part, part) for part in command.split()))
    assert file.read_text() == "a text\n"
    assert link.is_symlink()


def test_a_file_of_a_folder_that_is_read_is_not_replaced(tmp_path: Path, capsys: Captured):
    (tmp_path / "a.txt").write_text("a text\n")
    command = ["score", tmp_path / "no-run", "--in", tmp_path, "--out", tmp_path / "a.txt"]
    assert "would be replaced" in refused(capsys, *command)
    errors = ["measure", tmp_path / "no-run", tmp_path / "a.txt", "--errors", tmp_path / "a.txt"]
    assert "would be replaced" in refused(capsys, *errors)


@pytest.mark.parametrize("command", ["classify RUN text --out", "measure RUN texts.tsv --errors"])
def test_a_folder_that_is_not_there_is_told_before_any_work(command: str, tmp_path: Path, capsys: Captured):
    complaint = refused(capsys, *command.split(), tmp_path / "nodir" / "out.jsonl")
    assert f"there is no folder {tmp_path / 'nodir'}" in complaint
    assert "make it, or name another file" in complaint
    assert "is a folder" in refused(capsys, *command.split(), tmp_path)


def test_a_bad_byte_loses_its_line_only(home: Path, tmp_path: Path, capsys: Captured):
    file = tmp_path / "in.txt"
    file.write_bytes(b"\xef\xbb\xbfone\ntwo\nth\xffree\n" + "四\n".encode())
    run = home / "classification"
    facts = told(capsys, "classify", run, "--in", file)
    assert [answer["text"] for answer in facts["answers"]] == ["one", "two", "四"]
    assert facts["bad"] == [{"file": str(file), "line": 3, "reason": "not utf-8: 0xff"}]
    complaint = refused(capsys, "embed", run, "--in", file)
    assert f"{file}:3: not utf-8: 0xff" in complaint
    assert "--encoding" in complaint
    assert "--on-bad-bytes" not in complaint


def test_the_encoding_of_a_file_is_named(home: Path, tmp_path: Path, capsys: Captured):
    plain, table = tmp_path / "in.txt", tmp_path / "in.tsv"
    plain.write_text("我很喜欢你\n我在北京\n", encoding="gb18030")
    table.write_text("text\tlabel\n我很喜欢你\t\n我在北京\t\n", encoding="gb18030")
    run = home / "classification"
    for file in (plain, table):
        facts = told(capsys, "classify", run, "--in", file, "--encoding", "gb18030")
        assert [answer["text"] for answer in facts["answers"]] == ["我很喜欢你", "我在北京"]
        assert "no text encoding is called 'gb-nothing'" in refused(
            capsys, "classify", run, "--in", file, "--encoding", "gb-nothing"
        )
        complaint = refused(capsys, "classify", run, "--in", file)
        assert "--encoding" in complaint
        assert "--on-bad-bytes" not in complaint


def test_what_cannot_be_read_keeps_its_place(home: Path, tmp_path: Path, capsys: Captured):
    file, out = tmp_path / "in.txt", tmp_path / "out.jsonl"
    file.write_bytes(b"\none\n\xff\n\ntwo\n\n")
    run = home / "classification"
    assert told(capsys, "classify", run, "zero", "--in", file, "--out", out)["count"] == 3
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    empty = "a text is empty"
    assert [line.get("text", line.get("error")) for line in lines] == [
        *("zero", empty, "one", "not utf-8: 0xff", empty, "two", empty)
    ]
    assert [line["line"] for line in lines if "error" in line] == [1, 3, 4, 6]
    told(capsys, "classify", run, "--in", file, "--out", tmp_path / "out.tsv")
    rows = (tmp_path / "out.tsv").read_text().split("\n")
    assert [row.split("\t")[0] for row in rows] == ["", "one", "", "", "two", "", ""]


def test_the_rows_of_a_table_keep_their_places(home: Path, tmp_path: Path, capsys: Captured):
    file, out = tmp_path / "in.tsv", tmp_path / "out.jsonl"
    rows = [
        f"text {number}\t" if number % 700 else "a\tb\tc\td" for number in range(1500)
    ]  # more than are read at once
    file.write_text("text\tlabel\n" + "\n".join(rows) + "\n")
    told(capsys, "classify", home / "classification", "--in", file, "--out", out)
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [number for number, line in enumerate(lines) if "error" in line] == [0, 700, 1400]
    assert all(line["text"] == f"text {number}" for number, line in enumerate(lines) if number % 700)


def test_columns_of_words_have_no_gaps(home: Path, tmp_path: Path, capsys: Captured):
    file, out = tmp_path / "in.txt", tmp_path / "out.conll"
    file.write_bytes("李明\n".encode() + b"\xff\n" + "北京\n".encode())
    told(capsys, "tag", home / "tagging", "--in", file, "--out", out)
    words = [[row.split("\t")[0] for row in one.split("\n")] for one in out.read_text().strip("\n").split("\n\n")]
    assert words == [["李", "明"], ["北", "京"]]


def test_a_file_of_bad_lines_alone(home: Path, tmp_path: Path, capsys: Captured):
    file, out = tmp_path / "in.txt", tmp_path / "out.jsonl"
    file.write_text("Who?\nWhere?\n")
    complaint = refused(capsys, "answer", home / "answering", "--in", file, "--out", out)
    assert f"{file}:1: all lines are bad" in complaint
    assert "a question, a tab and its passage" in complaint
    assert not out.exists()
    assert "its choices with tabs" in refused(capsys, "choose", home / "choice", "--in", file)
    table = tmp_path / "in.tsv"
    table.write_text("text\tlabel\na\tb\tc\nd\te\tf\n")
    complaint = refused(capsys, "classify", home / "classification", "--in", table)
    assert "a table separated by tabs with the columns text, label" in complaint
    table.write_text("title\tlabel\na\tb\n")
    assert "the columns text, label" in refused(capsys, "classify", home / "classification", "--in", table)


def test_an_empty_file_leaves_nothing_behind(home: Path, tmp_path: Path, capsys: Captured):
    (tmp_path / "in.txt").write_text("")
    command = ["classify", home / "classification", "--in", tmp_path / "in.txt", "--out", tmp_path / "out.tsv"]
    assert "there is nothing to do" in refused(capsys, *command)
    assert not (tmp_path / "out.tsv").exists()


def test_tagged_text_is_shown_as_it_was_given(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
):
    monkeypatch.setattr("forebear.data.labeled.tag_schemes.entity_spans", lambda tags: [])
    (tmp_path / "in.txt").write_text("It's Rome, again\n")
    shown = said(capsys, "tag", home / "tagging", "Barack Obama went to Paris", "--in", tmp_path / "in.txt")
    assert shown.splitlines() == ["Barack Obama went to Paris: nothing found", "It's Rome, again: nothing found"]


def test_a_text_that_is_empty_has_no_stray_place(home: Path, capsys: Captured):
    assert "forebear: a text is empty\n" in refused(capsys, "classify", home / "classification", "")
    assert "a text is empty (number 2 of 2)" in refused(capsys, "classify", home / "classification", "one", " ")
    assert "forebear: a question or a passage is empty" in refused(capsys, "answer", home / "answering", "Who?", "")


def test_what_was_not_measured_is_told(home: Path, tmp_path: Path, capsys: Captured):
    file = tmp_path / "test.tsv"
    file.write_text("text\tlabel\nThe cat sat.\tcoherent\nsat cat The.\tpuzzling\nThe dog sat.\t\n")
    shown = said(capsys, "measure", home / "classification", file)
    assert "rows without a label, left out: 1" in shown
    assert "labels that the run never learned: puzzling" in shown


def test_mistakes_are_told_in_words(capsys: Captured):
    from forebear.cli.measure import _print_task_eval
    from forebear.cli.output import make_console
    from forebear.data.labeled.examples import TaggedExample
    from forebear.inference.measure import Misprediction, TaskEvaluation
    from forebear.tasks.task import Judgment

    verdicts = [
        Judgment(False, "Rome place", ""),
        Judgment(False, "", "Rome place"),
        Judgment(False, "a | a | b | a", "c"),
    ]
    mistakes = tuple(Misprediction(TaggedExample(("Rome",)), verdict) for verdict in verdicts)
    _print_task_eval(make_console(), TaskEvaluation("tagging", "f1", {}, None, mistakes, 0, (), 0.0), None)
    shown = capsys.readouterr().out
    assert "Rome place taken for nothing: Rome" in shown
    assert "nothing taken for Rome place: Rome" in shown
    assert "a | b taken for c: Rome" in shown


@pytest.mark.parametrize(("verb", "form"), [("answer", "a question, a tab and its passage"), ("choose", "its choices")])
def test_help_says_what_files_hold(verb: str, form: str, capsys: Captured):
    shown = " ".join(said(capsys, verb, "--help").replace("│", " ").split())
    assert form in shown
    assert "written as the file that the run learned from" in shown
    assert ".jsonl and .json a JSON object a line" in shown
