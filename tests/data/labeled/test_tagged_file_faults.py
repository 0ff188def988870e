"""Faults in small tagged files: named by file and line, and not misread as another format."""

from __future__ import annotations

from pathlib import Path

import pytest

import forebear as fb
from command_line import Captured, json_output, refusal_message
from forebear.data.labeled.load import detect_format, read_examples
from forebear.errors import InputError

SLASHED = "the/DT dog/NN barks/VB\na/DT cat/NN sleeps/VB\n{}\na/DT man/NN walks/VB\n"
COLUMNS = "the\tDT\ndog\tNN\nbarks\tVB\n\na\tDT\n{}\nsleeps\tVB\n\na\tDT\nman\tNN\nwalks\tVB\n"
FAULTS = [
    (SLASHED.format("the/DT bird sings/VB"), 3, "word 2 of the sentence, 'bird', has no tag: word/tag is expected"),
    (SLASHED.format("the bird sings loudly"), 3, "word 1 of the sentence, 'the', has no tag: word/tag is expected"),
    (SLASHED.format("the\tDT\nbird\tNN\nsings\tVB"), 3, "this line has a word and its tag in columns"),
    (SLASHED.format("the/DT bird/ sings/VB"), 3, "'bird/' is not word/tag"),
    (COLUMNS.format("cat"), 6, "word 2 of the sentence, 'cat', has no tag"),
    (COLUMNS.format("cat NN"), 0, ""),
    (COLUMNS.format("the/DT bird/NN sings/VB"), 6, "this line is word/tag word/tag"),
    (COLUMNS.replace("\t", "\tx\t").format("cat\tNN"), 6, "the line has 2 columns, 3 are expected: 'cat\\tNN'"),
]


@pytest.mark.parametrize(("content", "line", "message"), FAULTS)
def test_line_with_the_fault_is_named(content: str, line: int, message: str, tmp_path: Path):
    path = tmp_path / "few.txt"
    path.write_text(content, encoding="utf-8")
    task, form, _ = detect_format(str(path), "tagging")
    if not message:
        assert len(list(read_examples(str(path), task, form))) == 3
        return
    with pytest.raises(InputError) as error:
        list(read_examples(str(path), task, form))
    assert (error.value.file, error.value.line) == (str(path), line)
    assert error.value.message.startswith(message)
    assert "mend it" in error.value.hint


@pytest.mark.parametrize("command", [("pretrain", "crf"), ("pretrain", "hmm", "--format", "tagged"), ("adapt", "crf")])
@pytest.mark.parametrize("content", [content for content, line, _ in FAULTS if line])
def test_every_command_reports_the_same_fault(command: tuple[str, ...], content: str, tmp_path: Path, capsys: Captured):
    path = tmp_path / "few.txt"
    path.write_text(content, encoding="utf-8")
    line, message = next((line, message) for fault_content, line, message in FAULTS if fault_content == content)
    complaint = refusal_message(capsys, *command[:2], path, *command[2:], "--to", tmp_path / "run")
    assert f"few.txt:{line}: {message}" in complaint
    assert "remedy: mend it" in complaint


SENTENCES = "".join(
    f"the/DT {noun}/NN {verb}/VB\n" for noun in ("dog", "cat", "man") for verb in ("runs", "eats", "is")
)


@pytest.mark.parametrize("model", ["hmm", "crf"])
def test_pretrain_skips_bad_rows_on_request(model: str, tmp_path: Path, capsys: Captured):
    path, run = tmp_path / "many.txt", tmp_path / "run"
    path.write_text(SENTENCES + "the/DT bird sings/VB\n" + SENTENCES.replace("the/", "a/"), encoding="utf-8")
    hint = refusal_message(capsys, "pretrain", model, path, "--to", run).splitlines()[-1]
    assert hint == "  remedy: mend it, or leave bad rows out with --on-bad-rows skip"  # an option of this command
    assert "many.txt:10: " in refusal_message(capsys, "preview", model, path)
    metadata = json_output(capsys, "pretrain", model, path, "--to", run, "--on-bad-rows", "skip")
    assert sum(metadata["labelled"]["sides"][side]["count"] for side in ("train", "dev")) == 18
    assert any("rows left out or mended" in note and "many.txt:10: word 2" in note for note in metadata["notes"])
    json_output(capsys, "preview", model, path, "--on-bad-rows", "skip")
    rerun = fb.pretrain(model, path, to=tmp_path / "again", on_bad_rows="skip")
    assert rerun.metadata["labelled"]["sides"] == metadata["labelled"]["sides"]


def test_pretrain_repairs_tags_on_request(tmp_path: Path, capsys: Captured):
    path, names = tmp_path / "names.conll", "in O\nRome B-place\n\n"
    others = "".join(f"{word} O\nNew B-place\nYork I-place\n\n" for word in ("to", "near", "from"))
    path.write_text(f"to O\nYork I-place\n\n{names}{others}", encoding="utf-8")
    hint = refusal_message(capsys, "pretrain", "crf", path, "--to", tmp_path / "run").splitlines()[-1]
    assert hint.endswith("--on-bad-tags repair")
    metadata = json_output(capsys, "pretrain", "crf", path, "--to", tmp_path / "run", "--on-bad-tags", "repair")
    assert any(note.startswith("1 tags") and "were repaired" in note for note in metadata["notes"])


@pytest.mark.parametrize("model", ["hmm", "ngram"])
def test_on_bad_rows_is_refused_for_plain_text(model: str, tmp_path: Path, capsys: Captured):
    (tmp_path / "plain.txt").write_text("a dog barks\na cat sleeps\n" * 9, encoding="utf-8")
    arguments = ("pretrain", model, tmp_path / "plain.txt", "--to", tmp_path / "run", "--on-bad-rows", "skip")
    assert f"--on-bad-rows is for words with their tags, and {model} learns from" in refusal_message(capsys, *arguments)


def test_detection_note_counts_tags_of_tagged_words(tmp_path: Path):
    (tmp_path / "few.txt").write_text(FAULTS[1][0], encoding="utf-8")
    assert "3 tags among the first 9 words: DT, NN, VB" in detect_format(str(tmp_path / "few.txt"), "tagging").notes[0]


def test_conll_suffix_means_tagging(tmp_path: Path):
    (tmp_path / "few.conll").write_text(COLUMNS.format("cat"), encoding="utf-8")
    assert detect_format(str(tmp_path / "few.conll")).task == "tagging"


@pytest.mark.parametrize("content", ["hello world\nhow are you\ngoodbye now\nwhat is it to you\n", "你好。\n再见。\n"])
def test_plain_text_is_refused_by_tagging_models(content: str, tmp_path: Path, capsys: Captured):
    path = tmp_path / "plain.txt"
    path.write_text(content, encoding="utf-8")
    assert "plain text" in refusal_message(capsys, "pretrain", "crf", path, "--to", tmp_path / "run")
    complaint = refusal_message(capsys, "adapt", "crf", path, "--to", tmp_path / "run")
    assert "words have no tags" in complaint
    assert "a word and its tag a line" in complaint


def test_conllu_comments_are_not_taken_for_plain_text(tmp_path: Path, capsys: Captured):
    row = "\t_" * 6
    rows = "".join(f"# id = {n}\n# text = a dog\n1\ta\ta\tDET{row}\n2\tdog\tdog\tNOUN{row}\n\n" for n in range(3))
    (tmp_path / "some.txt").write_text(rows, encoding="utf-8")
    assert "too few different examples" in refusal_message(
        capsys, "pretrain", "crf", tmp_path / "some.txt", "--to", tmp_path / "run"
    )
