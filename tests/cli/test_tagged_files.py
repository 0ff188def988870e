"""Tagged files for tagging runs: word/tag and CoNLL columns, tag schemes, tags unseen in training."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import forebear as fb
from command_line import Captured, json_output, printed_output, refusal_message
from forebear.cli.main import main

SPEECH = [("the/d", "a/d"), ("cat/n", "dog/n", "bird/n"), ("sat/v", "ran/v", "sang/v")]
SLASHED = "".join(f"{a} {b} {c}\n" for a in SPEECH[0] for b in SPEECH[1] for c in SPEECH[2])
NAMES = ["Rome S-place", "New B-place\nYork E-place", "Los B-place\nSan I-place\nPedro E-place", "Kiev S-place"]
TEXTS = [(f"{a} O", name, f"{b} O") for a in ("in", "to") for name in NAMES for b in ("today", "now", "soon")]
IOBES = "".join("\n".join(sentence) + "\n\n" for sentence in TEXTS)
BIO = IOBES.replace("S-", "B-").replace("E-", "I-")


def to_columns(slashed: str) -> str:
    return slashed.replace("\n", "\n\n").replace(" ", "\n").replace("/", "\t")


@pytest.fixture(scope="module")
def runs_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs trained on word/tag text and on entities in columns."""
    folder = tmp_path_factory.mktemp("tags")
    for name, text in (("speech.txt", SLASHED), ("names.conll", BIO)):
        (folder / name).write_text(text, encoding="utf-8")
        assert main(["pretrain", "crf", str(folder / name), "--to", str(folder / name[:5]), "--quiet"]) == 0
    return folder


@pytest.mark.parametrize(
    ("run", "name", "text"),
    [
        ("speec", "in.conll", to_columns(SLASHED)),
        ("speec", "in.txt", to_columns(SLASHED)),
        ("speec", "bare.conll", to_columns(SLASHED).replace("\td", "").replace("\tn", "").replace("\tv", "")),
        ("names", "in.txt", SLASHED),
        ("names", "in.conll", SLASHED),
        ("names", "columns.txt", to_columns(SLASHED)),
    ],
)
def test_tag_reads_the_words_of_tagged_files(
    runs_folder: Path, tmp_path: Path, capsys: Captured, run: str, name: str, text: str
):
    (tmp_path / name).write_text(text, encoding="utf-8")
    answers = json_output(capsys, "tag", runs_folder / run, "--in", tmp_path / name)["answers"]
    assert [answer["words"] for answer in answers[:2]] == [["the", "cat", "sat"], ["the", "cat", "ran"]]
    assert len(answers) == SLASHED.count("\n")


def test_measure_reads_tagged_files_in_the_other_format(runs_folder: Path, tmp_path: Path, capsys: Captured):
    (tmp_path / "test.conll").write_text(to_columns(SLASHED), encoding="utf-8")
    measured = json_output(capsys, "measure", runs_folder / "speec", tmp_path / "test.conll")
    assert measured["accuracy"] == 1.0
    assert measured["notes"][0].endswith("otherwise than what was learned from: a word and its tag a line (CoNLL)")


def test_plain_text_with_a_slash_is_not_read_as_tagged(runs_folder: Path, tmp_path: Path, capsys: Captured):
    (tmp_path / "plain.txt").write_text("the cat sat\nand/or a dog ran\n", encoding="utf-8")
    assert printed_output(capsys, "tag", runs_folder / "speec", "--in", tmp_path / "plain.txt").count("\n") == 2


def test_tags_of_given_texts_are_dropped_with_a_note(runs_folder: Path, tmp_path: Path, capsys: Captured):
    assert main(["tag", str(runs_folder / "speec"), "the/d cat/n ran/v", "the cat ran", "--json"]) == 0
    printed = capsys.readouterr()
    answers = json.loads(printed.out)["answers"]
    assert [answer["words"] for answer in answers] == [["the", "cat", "ran"]] * 2
    assert answers[0] == answers[1]
    assert "note: 1 text with tags already, word/tag as the run learned it: read without them" in printed.err
    (tmp_path / "few.txt").write_text("a/d dog/n ran/v\n", encoding="utf-8")  # too short to detect the format
    assert main(["tag", str(runs_folder / "speec"), "--in", str(tmp_path / "few.txt")]) == 0
    printed = capsys.readouterr()
    assert printed.out == "a/d dog/n ran/v\n"
    assert "note: 1 text with tags already" in printed.err


@pytest.mark.parametrize(
    ("run", "text"),
    [
        ("speec", "the/d cat/n and/or"),  # "or" is not a tag
        ("speec", "the/d cat/n ran"),
        ("speec", "the/d /n"),
        ("speec", "the/d cat/"),
        ("names", "in/O Rome/B-place"),  # it was trained on columns, and I/O may be a word
    ],
)
def test_slashes_that_are_not_tags_are_kept_as_text(runs_folder: Path, capsys: Captured, run: str, text: str):
    assert main(["tag", str(runs_folder / run), text, "--json"]) == 0
    printed = capsys.readouterr()
    assert "".join(json.loads(printed.out)["answers"][0]["words"]) == text.replace(" ", "")
    assert "without them" not in printed.err


def test_entity_tags_of_given_texts_are_dropped_in_any_scheme(tmp_path: Path):
    slashed = IOBES.replace(" ", "/").replace("\n\n", "\t").replace("\n", " ").replace("\t", "\n")
    (tmp_path / "names.txt").write_text(slashed, encoding="utf-8")
    run = fb.pretrain("hmm", tmp_path / "names.txt", to=tmp_path / "run")
    for text in ("in/O New/B-place York/E-place now/O", "in/O New/B-place York/I-place now/O"):
        assert run.tag(text)[0].words == ("in", "New", "York", "now")
    assert run.tag("in/O New/B-person")[0].words != ("in", "New")


def text_in_scheme(name: str) -> str:
    """The same entities in another tag scheme."""
    letters = {"BIO": "BBI", "IOB1": "III", "IOBES": "BSE", "BILOU": "BUL"}[name]
    first, only, last = (f"{letter}-" for letter in letters)
    return IOBES.replace("B-", "1-").replace("S-", "2-").replace("E-", last).replace("1-", first).replace("2-", only)


@pytest.mark.parametrize("name", ["BIO", "IOB1", "IOBES", "BILOU"])
def test_tag_answers_in_the_scheme_of_the_training_data(name: str, tmp_path: Path, capsys: Captured):
    (tmp_path / "names.conll").write_text(text_in_scheme(name), encoding="utf-8")
    metadata = json_output(capsys, "pretrain", "crf", tmp_path / "names.conll", "--to", tmp_path / "run")
    assert metadata["task"]["scheme"] == name
    (answer,) = json_output(capsys, "tag", tmp_path / "run", "in New York now")["answers"]
    words = text_in_scheme(name).replace("\n\n", " \n").split()
    index = words.index("New")
    assert (answer["scheme"], answer["tags"]) == (name, ["O", words[index + 1], words[index + 3], "O"])
    assert [(entity["text"], entity["kind"]) for entity in answer["entities"]] == [("New York", "place")]
    for row, tag in zip(answer["table"], answer["tags"], strict=True):
        assert sum(row.values()) == pytest.approx(1, abs=1e-4)
        assert max(row, key=lambda label: row[label]) == tag
    written = tmp_path / "out.conll"
    json_output(capsys, "tag", tmp_path / "run", "--in", tmp_path / "names.conll", "--out", written)
    assert written.read_text().replace("\t", " ") == text_in_scheme(name)


@pytest.mark.parametrize("name", ["BIO", "IOB1", "IOBES", "BILOU"])
def test_measure_compares_entities_across_tag_schemes(name: str, runs_folder: Path, tmp_path: Path, capsys: Captured):
    (tmp_path / "test.conll").write_text(text_in_scheme(name), encoding="utf-8")
    measured = json_output(capsys, "measure", runs_folder / "names", tmp_path / "test.conll")
    assert (measured["f1"], measured["strict"]["f1"]) == (1.0, 1.0)
    notes = [note for note in measured["notes"] if f"are read as {name}" in note]
    assert len(notes) == (name != "BIO")


def test_measure_refuses_tags_invalid_in_every_scheme(runs_folder: Path, tmp_path: Path, capsys: Captured):
    (tmp_path / "test.conll").write_text(BIO.replace("York I-place", "York I-person"), encoding="utf-8")
    assert "goes on with an entity" in refusal_message(
        capsys, "measure", runs_folder / "names", tmp_path / "test.conll"
    )


def test_measure_refuses_tags_of_another_task_by_name(runs_folder: Path, tmp_path: Path, capsys: Captured):
    (tmp_path / "names.conll").write_text(BIO, encoding="utf-8")
    (tmp_path / "speech.txt").write_text(SLASHED, encoding="utf-8")
    error_of_speech_run = refusal_message(capsys, "measure", runs_folder / "speec", tmp_path / "names.conll")
    assert "none of its tags (O, B-place, I-place) is one of those that were learned" in error_of_speech_run
    error_of_names_run = refusal_message(capsys, "measure", runs_folder / "names", tmp_path / "speech.txt")
    assert "'d', make up no names" in error_of_names_run
    assert "repair" not in error_of_names_run


def test_measure_notes_tags_unseen_in_training(runs_folder: Path, tmp_path: Path, capsys: Captured):
    (tmp_path / "more.txt").write_text(SLASHED + "the/d cat/n quickly/adv\n", encoding="utf-8")
    notes = json_output(capsys, "measure", runs_folder / "speec", tmp_path / "more.txt")["notes"]
    assert "words whose tag was never learned, and which count as mistakes: 1 (adv)" in notes


def test_invalid_tag_is_reported_with_its_line(tmp_path: Path, capsys: Captured):
    (tmp_path / "names.conll").write_text("in O\nNew I-place\nYork I-place\n\n" + IOBES, encoding="utf-8")
    assert "names.conll:2: word 2 of the sentence" in refusal_message(
        capsys, "pretrain", "crf", tmp_path / "names.conll"
    )


@pytest.mark.parametrize("model_name", ["hmm", "crf"])
def test_accuracy_of_oov_words_is_measured_separately(model_name: str, tmp_path: Path, capsys: Captured):
    for name, text in (("train.txt", SLASHED), ("dev.txt", "the/d cow/n sang/v\na/d cat/n mooed/v\n")):
        (tmp_path / name).write_text(text, encoding="utf-8")
    run = tmp_path / "run"
    metadata = json_output(
        capsys, "adapt", model_name, tmp_path / "train.txt", "--dev", tmp_path / "dev.txt", "--to", run
    )
    (tmp_path / "train.txt").unlink()
    measured = json_output(capsys, "measure", run, tmp_path / "dev.txt")
    dev_metrics = metadata["metrics"]["dev"]
    assert measured["unknown_words"] == dev_metrics["unknown_words"] == 2
    assert measured["accuracy_unknown"] == dev_metrics["accuracy_unknown"]
    assert "accuracy unknown" in printed_output(capsys, "measure", run, tmp_path / "dev.txt")


@pytest.mark.parametrize("model_name", ["hmm", "crf"])
def test_measure_reports_examples_seen_in_training(model_name: str, tmp_path: Path, capsys: Captured):
    run, train, test = tmp_path / "run", tmp_path / "train.txt", tmp_path / "test.conll"
    train.write_text(SLASHED, encoding="utf-8")
    metadata = json_output(capsys, "pretrain", model_name, train, "--to", run)
    num_train = metadata["labelled"]["sides"]["train"]["count"]
    assert 0 < num_train < SLASHED.count("\n")  # the rest is held out
    assert json_output(capsys, "measure", run, train)["learned_from"] == num_train
    note = f"{num_train} of these examples have a text that the run learned from: no test of it"
    assert note in printed_output(capsys, "measure", run, train)
    test.write_text(to_columns(SLASHED + "the/d cow/n sang/v\n"), encoding="utf-8")  # in the other format
    assert json_output(capsys, "measure", run, test)["learned_from"] == num_train
    test.write_text(to_columns("the/d cow/n sang/v\n"), encoding="utf-8")
    assert json_output(capsys, "measure", run, test)["learned_from"] == 0
    assert "no test of it" not in printed_output(capsys, "measure", run, test)


def test_training_overlap_is_unknown_when_the_training_file_has_changed(tmp_path: Path, capsys: Captured):
    run, train, test = tmp_path / "run", tmp_path / "train.txt", tmp_path / "test.txt"
    for file in (train, test):
        file.write_text(SLASHED, encoding="utf-8")
    json_output(capsys, "pretrain", "hmm", train, "--to", run)
    assert json_output(capsys, "measure", run, test)["learned_from"] > 0
    train.write_text(SLASHED.replace("cat", "cow"), encoding="utf-8")
    assert json_output(capsys, "measure", run, test)["learned_from"] is None
    train.unlink()
    assert json_output(capsys, "measure", run, test)["learned_from"] is None
    assert "no test of it" not in printed_output(capsys, "measure", run, test)
