"""Input and output files of task commands: order of lines, no overwritten input, errors with file and line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from adapted_runs import folder_of_adapted_runs
from command_line import Captured, json_output, printed_output, refusal_message

TASKS = ("classification", "tagging", "answering", "choice")


@pytest.fixture(scope="module")
def runs_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folder_of_adapted_runs(tmp_path_factory.mktemp("files"), TASKS)


@pytest.mark.parametrize("command", ["classify RUN --in FILE --out FILE", "score RUN --in FILE --out LINK"])
def test_output_file_must_not_be_the_input_file(command: str, tmp_path: Path, capsys: Captured):
    file, link = tmp_path / "f.tsv", tmp_path / "link.tsv"
    file.write_text("a text\n")
    link.symlink_to(file)
    names = {"FILE": file, "LINK": link, "RUN": tmp_path / "no-run"}
    assert "name another file" in refusal_message(capsys, *(names.get(word, word) for word in command.split()))
    assert file.read_text() == "a text\n"
    assert link.is_symlink()


def test_output_file_must_not_be_in_the_input_folder(tmp_path: Path, capsys: Captured):
    (tmp_path / "a.txt").write_text("a text\n")
    command = ["score", tmp_path / "no-run", "--in", tmp_path, "--out", tmp_path / "a.txt"]
    assert "would be replaced" in refusal_message(capsys, *command)
    errors = ["measure", tmp_path / "no-run", tmp_path / "a.txt", "--errors", tmp_path / "a.txt"]
    assert "would be replaced" in refusal_message(capsys, *errors)


@pytest.mark.parametrize("command", ["classify RUN text --out", "measure RUN texts.tsv --errors"])
def test_missing_output_folder_is_reported_before_the_run_is_opened(command: str, tmp_path: Path, capsys: Captured):
    error_output = refusal_message(capsys, *command.split(), tmp_path / "nodir" / "out.jsonl")
    assert f"there is no folder {tmp_path / 'nodir'}" in error_output
    assert "make it, or name another file" in error_output
    assert "is a folder" in refusal_message(capsys, *command.split(), tmp_path)


def test_undecodable_byte_loses_only_its_line(runs_folder: Path, tmp_path: Path, capsys: Captured):
    file = tmp_path / "in.txt"
    file.write_bytes(b"\xef\xbb\xbfone\ntwo\nth\xffree\n" + "四\n".encode())
    run = runs_folder / "classification"
    facts = json_output(capsys, "classify", run, "--in", file)
    assert [answer["text"] for answer in facts["answers"]] == ["one", "two", "四"]
    assert facts["bad"] == [{"file": str(file), "line": 3, "reason": "not utf-8: 0xff"}]
    error_output = refusal_message(capsys, "embed", run, "--in", file)
    assert f"{file}:3: not utf-8: 0xff" in error_output
    assert "--encoding" in error_output
    assert "--on-bad-bytes" not in error_output


def test_encoding_option_decodes_input_files(runs_folder: Path, tmp_path: Path, capsys: Captured):
    plain, table = tmp_path / "in.txt", tmp_path / "in.tsv"
    plain.write_text("我很喜欢你\n我在北京\n", encoding="gb18030")
    table.write_text("text\tlabel\n我很喜欢你\t\n我在北京\t\n", encoding="gb18030")
    run = runs_folder / "classification"
    for file in (plain, table):
        facts = json_output(capsys, "classify", run, "--in", file, "--encoding", "gb18030")
        assert [answer["text"] for answer in facts["answers"]] == ["我很喜欢你", "我在北京"]
        assert "no text encoding is called 'gb-nothing'" in refusal_message(
            capsys, "classify", run, "--in", file, "--encoding", "gb-nothing"
        )
        error_output = refusal_message(capsys, "classify", run, "--in", file)
        assert "--encoding" in error_output
        assert "--on-bad-bytes" not in error_output


def test_unreadable_lines_keep_their_positions_in_the_output(runs_folder: Path, tmp_path: Path, capsys: Captured):
    file, out = tmp_path / "in.txt", tmp_path / "out.jsonl"
    file.write_bytes(b"\none\n\xff\n\ntwo\n\n")
    run = runs_folder / "classification"
    assert json_output(capsys, "classify", run, "zero", "--in", file, "--out", out)["count"] == 3
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    empty = "a text is empty"
    assert [line.get("text", line.get("error")) for line in lines] == [
        *("zero", empty, "one", "not utf-8: 0xff", empty, "two", empty)
    ]
    assert [line["line"] for line in lines if "error" in line] == [1, 3, 4, 6]
    json_output(capsys, "classify", run, "--in", file, "--out", tmp_path / "out.tsv")
    rows = (tmp_path / "out.tsv").read_text().split("\n")
    assert [row.split("\t")[0] for row in rows] == ["", "one", "", "", "two", "", ""]


def test_rows_of_a_table_keep_their_positions_in_the_output(runs_folder: Path, tmp_path: Path, capsys: Captured):
    file, out = tmp_path / "in.tsv", tmp_path / "out.jsonl"
    rows = [f"text {number}\t" if number % 700 else "a\tb\tc\td" for number in range(1500)]  # more than one batch
    file.write_text("text\tlabel\n" + "\n".join(rows) + "\n")
    json_output(capsys, "classify", runs_folder / "classification", "--in", file, "--out", out)
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [number for number, line in enumerate(lines) if "error" in line] == [0, 700, 1400]
    assert all(line["text"] == f"text {number}" for number, line in enumerate(lines) if number % 700)


def test_conll_output_has_no_gaps_for_unreadable_lines(runs_folder: Path, tmp_path: Path, capsys: Captured):
    file, out = tmp_path / "in.txt", tmp_path / "out.conll"
    file.write_bytes("李明\n".encode() + b"\xff\n" + "北京\n".encode())
    json_output(capsys, "tag", runs_folder / "tagging", "--in", file, "--out", out)
    words = [
        [row.split("\t")[0] for row in sentence.split("\n")] for sentence in out.read_text().strip("\n").split("\n\n")
    ]
    assert words == [["李", "明"], ["北", "京"]]


def test_input_file_with_only_invalid_lines_is_refused(runs_folder: Path, tmp_path: Path, capsys: Captured):
    file, out = tmp_path / "in.txt", tmp_path / "out.jsonl"
    file.write_text("Who?\nWhere?\n")
    error_output = refusal_message(capsys, "answer", runs_folder / "answering", "--in", file, "--out", out)
    assert f"{file}:1: all lines are bad" in error_output
    assert "a question, a tab and its passage" in error_output
    assert not out.exists()
    assert "its choices with tabs" in refusal_message(capsys, "choose", runs_folder / "choice", "--in", file)
    table = tmp_path / "in.tsv"
    table.write_text("text\tlabel\na\tb\tc\nd\te\tf\n")
    error_output = refusal_message(capsys, "classify", runs_folder / "classification", "--in", table)
    assert "a table separated by tabs with the columns text, label" in error_output
    table.write_text("title\tlabel\na\tb\n")
    assert "the columns text, label" in refusal_message(
        capsys, "classify", runs_folder / "classification", "--in", table
    )


def test_empty_input_file_is_refused_without_output(runs_folder: Path, tmp_path: Path, capsys: Captured):
    (tmp_path / "in.txt").write_text("")
    command = ["classify", runs_folder / "classification", "--in", tmp_path / "in.txt", "--out", tmp_path / "out.tsv"]
    assert "there is nothing to do" in refusal_message(capsys, *command)
    assert not (tmp_path / "out.tsv").exists()


def test_tag_prints_the_original_text(
    runs_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
):
    monkeypatch.setattr("forebear.data.labeled.tag_schemes.entity_spans", lambda tags: [])
    (tmp_path / "in.txt").write_text("It's Rome, again\n")
    printed = printed_output(
        capsys, "tag", runs_folder / "tagging", "Barack Obama went to Paris", "--in", tmp_path / "in.txt"
    )
    assert printed.splitlines() == ["Barack Obama went to Paris: nothing found", "It's Rome, again: nothing found"]


def test_empty_text_on_the_command_line_is_refused_without_a_file_position(runs_folder: Path, capsys: Captured):
    assert "forebear: a text is empty\n" in refusal_message(capsys, "classify", runs_folder / "classification", "")
    assert "a text is empty (number 2 of 2)" in refusal_message(
        capsys, "classify", runs_folder / "classification", "one", " "
    )
    assert "forebear: a question or a passage is empty" in refusal_message(
        capsys, "answer", runs_folder / "answering", "Who?", ""
    )


def test_measure_reports_unlabeled_rows_and_unseen_labels(runs_folder: Path, tmp_path: Path, capsys: Captured):
    file = tmp_path / "test.tsv"
    file.write_text("text\tlabel\nThe cat sat.\tcoherent\nsat cat The.\tpuzzling\nThe dog sat.\t\n")
    printed = printed_output(capsys, "measure", runs_folder / "classification", file)
    assert "rows without a label, left out: 1" in printed
    assert "labels that the run never learned: puzzling" in printed


def test_mispredictions_are_printed_in_words(capsys: Captured):
    from forebear.cli.measure import _print_task_eval
    from forebear.cli.output import make_console
    from forebear.data.labeled.examples import TaggedExample
    from forebear.inference.measure import Misprediction, TaskEvaluation
    from forebear.tasks.task import AnswerComparison

    judgments = [
        AnswerComparison(False, "Rome place", ""),
        AnswerComparison(False, "", "Rome place"),
        AnswerComparison(False, "a | a | b | a", "c"),
    ]
    mistakes = tuple(Misprediction(TaggedExample(("Rome",)), judgment) for judgment in judgments)
    _print_task_eval(make_console(), TaskEvaluation("tagging", "f1", {}, None, mistakes, 0, (), 0.0), None)
    printed = capsys.readouterr().out
    assert "Rome place taken for nothing: Rome" in printed
    assert "nothing taken for Rome place: Rome" in printed
    assert "a | b taken for c: Rome" in printed


def test_console_prints_emoji_codes_of_a_text_unchanged(capsys: Captured):
    from forebear.cli.output import make_console

    console = make_console()
    console.plain("a :smile: b")
    console.table("text", rows=[("c :heart: d",)])
    printed = capsys.readouterr().out
    assert "a :smile: b" in printed
    assert "c :heart: d" in printed


@pytest.mark.parametrize(("verb", "form"), [("answer", "a question, a tab and its passage"), ("choose", "its choices")])
def test_help_describes_input_files(verb: str, form: str, capsys: Captured):
    printed = " ".join(printed_output(capsys, verb, "--help").replace("│", " ").split())
    assert form in printed
    assert "written as the file that the run learned from" in printed
    assert ".jsonl and .json a JSON object a line" in printed
