"""Files of words and tags for a run that tags: in the other form than the one it learned from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import forebear as fb
from command_line import Captured, refused, said, told
from forebear.cli.main import main

SPEECH = [("the/d", "a/d"), ("cat/n", "dog/n", "bird/n"), ("sat/v", "ran/v", "sang/v")]
SLASHED = "".join(f"{a} {b} {c}\n" for a in SPEECH[0] for b in SPEECH[1] for c in SPEECH[2])
NAMES = ["Rome S-place", "New B-place\nYork E-place", "Los B-place\nSan I-place\nPedro E-place", "Kiev S-place"]
TEXTS = [(f"{a} O", name, f"{b} O") for a in ("in", "to") for name in NAMES for b in ("today", "now", "soon")]
IOBES = "".join("\n".join(one) + "\n\n" for one in TEXTS)
BIO = IOBES.replace("S-", "B-").replace("E-", "I-")


def columns(slashed: str) -> str:
    return slashed.replace("\n", "\n\n").replace(" ", "\n").replace("/", "\t")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs that learned from word/tag and from names in columns."""
    folder = tmp_path_factory.mktemp("tags")
    for name, text in (("speech.txt", SLASHED), ("names.conll", BIO)):
        (folder / name).write_text(text, encoding="utf-8")
        assert main(["pretrain", "crf", str(folder / name), "--to", str(folder / name[:5]), "--quiet"]) == 0
    return folder


@pytest.mark.parametrize(
    ("run", "name", "text"),
    [
        ("speec", "in.conll", columns(SLASHED)),
        ("speec", "in.txt", columns(SLASHED)),
        ("speec", "bare.conll", columns(SLASHED).replace("\td", "").replace("\tn", "").replace("\tv", "")),
        ("names", "in.txt", SLASHED),
        ("names", "in.conll", SLASHED),
        ("names", "columns.txt", columns(SLASHED)),
    ],
)
def test_words_are_taken_without_their_tags(
    home: Path, tmp_path: Path, capsys: Captured, run: str, name: str, text: str
):
    (tmp_path / name).write_text(text, encoding="utf-8")
    answers = told(capsys, "tag", home / run, "--in", tmp_path / name)["answers"]
    assert [one["words"] for one in answers[:2]] == [["the", "cat", "sat"], ["the", "cat", "ran"]]
    assert len(answers) == SLASHED.count("\n")


def test_figures_of_a_file_in_the_other_form(home: Path, tmp_path: Path, capsys: Captured):
    (tmp_path / "test.conll").write_text(columns(SLASHED), encoding="utf-8")
    measured = told(capsys, "measure", home / "speec", tmp_path / "test.conll")
    assert measured["accuracy"] == 1.0
    assert measured["notes"][0].endswith("otherwise than what was learned from: a word and its tag a line (CoNLL)")


def test_plain_text_is_plain(home: Path, tmp_path: Path, capsys: Captured):
    (tmp_path / "plain.txt").write_text("the cat sat\nand/or a dog ran\n", encoding="utf-8")
    assert said(capsys, "tag", home / "speec", "--in", tmp_path / "plain.txt").count("\n") == 2


def test_given_words_are_taken_without_their_tags_and_it_is_told(home: Path, tmp_path: Path, capsys: Captured):
    assert main(["tag", str(home / "speec"), "the/d cat/n ran/v", "the cat ran", "--json"]) == 0
    printed = capsys.readouterr()
    answers = json.loads(printed.out)["answers"]
    assert [one["words"] for one in answers] == [["the", "cat", "ran"]] * 2
    assert answers[0] == answers[1]
    assert "note: 1 text with tags already, word/tag as the run learned it: read without them" in printed.err
    (tmp_path / "few.txt").write_text("a/d dog/n ran/v\n", encoding="utf-8")  # too little to tell what the file is
    assert main(["tag", str(home / "speec"), "--in", str(tmp_path / "few.txt")]) == 0
    printed = capsys.readouterr()
    assert printed.out == "a/d dog/n ran/v\n"
    assert "note: 1 text with tags already" in printed.err


@pytest.mark.parametrize(
    ("run", "text"),
    [
        ("speec", "the/d cat/n and/or"),  # or is no tag
        ("speec", "the/d cat/n ran"),
        ("speec", "the/d /n"),
        ("speec", "the/d cat/"),
        ("names", "in/O Rome/B-place"),  # it learned from columns, and I/O may be a word
    ],
)
def test_slashes_of_other_text_are_text(home: Path, capsys: Captured, run: str, text: str):
    assert main(["tag", str(home / run), text, "--json"]) == 0
    printed = capsys.readouterr()
    assert "".join(json.loads(printed.out)["answers"][0]["words"]) == text.replace(" ", "")
    assert "without them" not in printed.err


def test_names_with_tags_are_taken_without_them_in_any_scheme(tmp_path: Path):
    slashed = IOBES.replace(" ", "/").replace("\n\n", "\t").replace("\n", " ").replace("\t", "\n")
    (tmp_path / "names.txt").write_text(slashed, encoding="utf-8")
    run = fb.pretrain("hmm", tmp_path / "names.txt", to=tmp_path / "run")
    for text in ("in/O New/B-place York/E-place now/O", "in/O New/B-place York/I-place now/O"):
        assert run.tag(text)[0].words == ("in", "New", "York", "now")
    assert run.tag("in/O New/B-person")[0].words != ("in", "New")


def scheme(name: str) -> str:
    """The same names in another scheme."""
    letters = {"BIO": "BBI", "IOB1": "III", "IOBES": "BSE", "BILOU": "BUL"}[name]
    first, only, last = (f"{letter}-" for letter in letters)
    return IOBES.replace("B-", "1-").replace("S-", "2-").replace("E-", last).replace("1-", first).replace("2-", only)


@pytest.mark.parametrize("name", ["BIO", "IOB1", "IOBES", "BILOU"])
def test_answers_are_in_the_scheme_that_was_taught(name: str, tmp_path: Path, capsys: Captured):
    (tmp_path / "names.conll").write_text(scheme(name), encoding="utf-8")
    made = told(capsys, "pretrain", "crf", tmp_path / "names.conll", "--to", tmp_path / "run")
    assert made["task"]["scheme"] == name
    (answer,) = told(capsys, "tag", tmp_path / "run", "in New York now")["answers"]
    words = scheme(name).replace("\n\n", " \n").split()
    at = words.index("New")
    assert (answer["scheme"], answer["tags"]) == (name, ["O", words[at + 1], words[at + 3], "O"])
    assert [(one["text"], one["kind"]) for one in answer["entities"]] == [("New York", "place")]
    for row, tag in zip(answer["table"], answer["tags"], strict=True):
        assert sum(row.values()) == pytest.approx(1, abs=1e-4)
        assert max(row, key=lambda label: row[label]) == tag
    written = tmp_path / "out.conll"
    told(capsys, "tag", tmp_path / "run", "--in", tmp_path / "names.conll", "--out", written)
    assert written.read_text().replace("\t", " ") == scheme(name)


@pytest.mark.parametrize("name", ["BIO", "IOB1", "IOBES", "BILOU"])
def test_names_are_compared_in_whichever_scheme_they_are_written(
    name: str, home: Path, tmp_path: Path, capsys: Captured
):
    (tmp_path / "test.conll").write_text(scheme(name), encoding="utf-8")
    measured = told(capsys, "measure", home / "names", tmp_path / "test.conll")
    assert (measured["f1"], measured["strict"]["f1"]) == (1.0, 1.0)
    notes = [note for note in measured["notes"] if f"are read as {name}" in note]
    assert len(notes) == (name != "BIO")


def test_what_breaks_every_scheme_is_still_refused(home: Path, tmp_path: Path, capsys: Captured):
    (tmp_path / "test.conll").write_text(BIO.replace("York I-place", "York I-person"), encoding="utf-8")
    assert "goes on with an entity" in refused(capsys, "measure", home / "names", tmp_path / "test.conll")


def test_tags_of_another_kind_are_refused_by_their_names(home: Path, tmp_path: Path, capsys: Captured):
    (tmp_path / "names.conll").write_text(BIO, encoding="utf-8")
    (tmp_path / "speech.txt").write_text(SLASHED, encoding="utf-8")
    told_of_speech = refused(capsys, "measure", home / "speec", tmp_path / "names.conll")
    assert "none of its tags (O, B-place, I-place) is one of those that were learned" in told_of_speech
    told_of_names = refused(capsys, "measure", home / "names", tmp_path / "speech.txt")
    assert "'d', make up no names" in told_of_names
    assert "repair" not in told_of_names


def test_tags_that_were_never_learned_are_told(home: Path, tmp_path: Path, capsys: Captured):
    (tmp_path / "more.txt").write_text(SLASHED + "the/d cat/n quickly/adv\n", encoding="utf-8")
    notes = told(capsys, "measure", home / "speec", tmp_path / "more.txt")["notes"]
    assert "words whose tag was never learned, and which count as mistakes: 1 (adv)" in notes


def test_a_tag_out_of_place_is_told_by_its_own_line(tmp_path: Path, capsys: Captured):
    (tmp_path / "names.conll").write_text("in O\nNew I-place\nYork I-place\n\n" + IOBES, encoding="utf-8")
    assert "names.conll:2: word 2 of the sentence" in refused(capsys, "pretrain", "crf", tmp_path / "names.conll")


@pytest.mark.parametrize("milestone", ["hmm", "crf"])
def test_words_that_training_did_not_have_are_counted_apart(milestone: str, tmp_path: Path, capsys: Captured):
    for name, text in (("train.txt", SLASHED), ("dev.txt", "the/d cow/n sang/v\na/d cat/n mooed/v\n")):
        (tmp_path / name).write_text(text, encoding="utf-8")
    run = tmp_path / "run"
    made = told(capsys, "adapt", milestone, tmp_path / "train.txt", "--dev", tmp_path / "dev.txt", "--to", run)
    (tmp_path / "train.txt").unlink()
    measured = told(capsys, "measure", run, tmp_path / "dev.txt")
    of_dev = made["metrics"]["dev"]
    assert measured["unknown_words"] == of_dev["unknown_words"] == 2
    assert measured["accuracy_unknown"] == of_dev["accuracy_unknown"]
    assert "accuracy unknown" in said(capsys, "measure", run, tmp_path / "dev.txt")


@pytest.mark.parametrize("milestone", ["hmm", "crf"])
def test_examples_that_taught_the_run_are_told(milestone: str, tmp_path: Path, capsys: Captured):
    run, train, test = tmp_path / "run", tmp_path / "train.txt", tmp_path / "test.conll"
    train.write_text(SLASHED, encoding="utf-8")
    made = told(capsys, "pretrain", milestone, train, "--to", run)
    taught = made["labelled"]["sides"]["train"]["count"]
    assert 0 < taught < SLASHED.count("\n")  # some are held out, and test it
    assert told(capsys, "measure", run, train)["learned_from"] == taught
    said_of_it = f"{taught} of these examples have a text that the run learned from: no test of it"
    assert said_of_it in said(capsys, "measure", run, train)
    test.write_text(columns(SLASHED + "the/d cow/n sang/v\n"), encoding="utf-8")  # in the other form
    assert told(capsys, "measure", run, test)["learned_from"] == taught
    test.write_text(columns("the/d cow/n sang/v\n"), encoding="utf-8")
    assert told(capsys, "measure", run, test)["learned_from"] == 0
    assert "no test of it" not in said(capsys, "measure", run, test)


def test_nobody_knows_what_taught_a_run_whose_examples_have_changed(tmp_path: Path, capsys: Captured):
    run, train, test = tmp_path / "run", tmp_path / "train.txt", tmp_path / "test.txt"
    for file in (train, test):
        file.write_text(SLASHED, encoding="utf-8")
    told(capsys, "pretrain", "hmm", train, "--to", run)
    assert told(capsys, "measure", run, test)["learned_from"] > 0
    train.write_text(SLASHED.replace("cat", "cow"), encoding="utf-8")
    assert told(capsys, "measure", run, test)["learned_from"] is None
    train.unlink()
    assert told(capsys, "measure", run, test)["learned_from"] is None
    assert "no test of it" not in said(capsys, "measure", run, test)
