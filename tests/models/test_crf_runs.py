"""The conditional random field from the command line: pretrain and adapt alike, killed runs, figures, faults."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import forebear
from command_line import Captured, refused, said, told
from forebear.cli.main import main
from forebear.errors import InputError
from forebear.models.crf import CRFSpec
from forebear.training.run_folder import RunFolder
from small_runs import weights

NOUNS, VERBS = ("猫", "小狗", "老鸟", "大鱼", "花猫"), ("看见", "喜欢", "吃", "想")
CODE = "from forebear.cli.main import run; run()"


def speech(folder: Path, name: str = "speech.txt") -> Path:
    """Sentences in which 想 is a noun before 。 and a verb elsewhere, so that only neighbours tell."""
    rows = [f"{a}/n {b}/v {c}/n 。/w\n" for a in NOUNS for b in VERBS for c in NOUNS]
    rows += [f"{a}/n 有/v 想/n 。/w\n" for a in NOUNS] + [f"{a}/n 没有/v 想/n 。/w\n" for a in NOUNS]
    (folder / name).write_text("".join(rows), encoding="utf-8")
    return folder / name


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("crf")
    assert main(["pretrain", "crf", str(speech(folder)), "--to", str(folder / "run"), "--quiet"]) == 0
    return folder


def test_it_tags(home: Path, capsys: Captured):
    measured = told(capsys, "measure", home / "run", home / "speech.txt")
    assert (measured["score"], measured["accuracy"], measured["sentence_accuracy"]) == ("accuracy", 1.0, 1.0)
    assert "小狗/n 有/v 想/n 。/w" in said(capsys, "tag", home / "run", "小狗 有 想 。").replace("\n", " ")
    answer = told(capsys, "tag", home / "run", "新猫 喜欢 老鸟 。")["answers"][0]
    assert answer["tags"] == ["n", "v", "n", "w"]  # 新猫 ends as 花猫 does
    assert sum(answer["table"][0].values()) == pytest.approx(1, abs=1e-4)


def test_pretrain_is_adapt_from_nothing(home: Path, tmp_path: Path, capsys: Captured):
    assert main(["adapt", "crf", str(home / "speech.txt"), "--task", "tagging", "--to", str(tmp_path / "b"), "-q"]) in (
        0,
        2,
    )
    other = told(capsys, "adapt", "crf", home / "speech.txt", "--task", "tagging", "--to", tmp_path / "other")
    first = RunFolder.open(home / "run")
    assert other["asked"] == first.metadata["asked"]
    assert weights(RunFolder.open(tmp_path / "other")) == weights(first)
    assert set(other["metrics"]["dev"]) == set(first.metadata["metrics"]["dev"])


def test_pythons_words(home: Path, tmp_path: Path):
    run = forebear.pretrain("crf", home / "speech.txt", to=tmp_path / "run", l1=0.1, l2=0.01, epochs=20)
    assert run.tag("猫 吃 大鱼 。")[0].tags == ("n", "v", "n", "w")
    assert run.folder.spec == CRFSpec(l1=0.1, l2=0.01)
    assert forebear.resume(tmp_path / "run").name == run.name


def test_a_killed_run_ends_in_the_same_bits(home: Path, tmp_path: Path):
    words = ["pretrain", "crf", str(home / "speech.txt"), "--epochs", "40", "--l2", "1e-6", "--save-every", "0.001s"]
    words += ["--threads", "1", "--quiet"]
    assert main([*words, "--to", str(tmp_path / "whole")]) == 0
    process = subprocess.Popen([sys.executable, "-c", CODE, *words, "--to", str(tmp_path / "cut")])
    until = time.monotonic() + 60
    while not list((tmp_path / "cut").glob("checkpoints/*/learner.safetensors")) and time.monotonic() < until:
        if process.poll() is not None:
            break
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert main(["pretrain", "--resume", str(tmp_path / "cut"), "--quiet"]) == 0
    whole, cut = (RunFolder.open(tmp_path / name) for name in ("whole", "cut"))
    assert cut.is_finished
    assert weights(cut) == weights(whole)
    assert cut.metadata["metrics"] == whole.metadata["metrics"]


def test_names_are_found_by_characters(tmp_path: Path, capsys: Captured):
    rows = []
    for name, place in ((a, b) for a in ("王小明", "李华", "张三丰", "赵云") for b in ("北京", "上海", "南京市")):
        said_of = [*((one, f"{'B' if n == 0 else 'I'}-PER") for n, one in enumerate(name)), ("去", "O")]
        said_of += [(one, f"{'B' if n == 0 else 'I'}-LOC") for n, one in enumerate(place)] + [("。", "O")]
        rows.append("".join(f"{one} {tag}\n" for one, tag in said_of) + "\n")
    (tmp_path / "names.conll").write_text("".join(rows * 2), encoding="utf-8")
    made = told(capsys, "adapt", "crf", tmp_path / "names.conll", "--to", tmp_path / "run", "--epochs", "30")
    assert made["task"]["crf"] is True
    assert b"kind[0]" in RunFolder.open(tmp_path / "run").verified_weights()[0].read_bytes()
    found = told(capsys, "tag", tmp_path / "run", "李小明去北京。")["answers"][0]["entities"]
    assert [(one["text"], one["kind"]) for one in found] == [("李小明", "PER"), ("北京", "LOC")]


def test_plain_text_is_refused_with_what_is_wanted(tmp_path: Path, capsys: Captured):
    (tmp_path / "book.txt").write_text("The cat sat on the mat.\nIt was warm and dry there.\nYes.\n")
    complaint = refused(capsys, "pretrain", "crf", tmp_path / "book.txt", "--to", tmp_path / "run")
    assert "looks like plain text" in complaint
    assert "word/tag" in complaint
    assert not (tmp_path / "run").exists()


def test_what_means_nothing_is_refused(home: Path, tmp_path: Path, capsys: Captured):
    file = home / "speech.txt"
    for words, what in (
        (["--tokenizer", "characters"], "--tokenizer means nothing to crf"),
        (["--sentences", "lines"], "--sentences means nothing to crf"),
        (["--rate", "0.1"], "--rate means nothing to crf"),
        (["--templates", "wurd[0]"], "'wurd[0]' is no template"),
        (["--l2", "-1"], "l2 is -1"),
        (["--min-count", "0"], "min_count"),
        (["--width", "3"], "--width is no setting of crf"),
    ):
        assert what in refused(capsys, "pretrain", "crf", file, "--to", tmp_path / "run", *words)
    assert "2 files" in refused(capsys, "pretrain", "crf", file, file, "--to", tmp_path / "run")
    reviews = tmp_path / "reviews.tsv"
    reviews.write_text("".join(f"good {n}\tyes\nbad {n}\tno\n" for n in range(20)))
    assert "crf learns to tag words" in refused(capsys, "adapt", "crf", reviews, "--to", tmp_path / "run")


def test_tags_that_nothing_teaches_and_strange_words(home: Path, tmp_path: Path, capsys: Captured):
    (tmp_path / "odd.txt").write_text("猫/n 飞/zz 。/w\n\u200b/x 😀/y \u0301\u0301/n 。/w\n" + "长" * 5000 + "/n\n")
    measured = told(capsys, "measure", home / "run", tmp_path / "odd.txt")
    assert measured["words"] == 8
    assert 0 < measured["accuracy"] < 1
    assert told(capsys, "tag", home / "run", "")["answers"][0]["tags"] == []


def test_one_sentence_with_its_own_dev(tmp_path: Path, capsys: Captured):
    (tmp_path / "one.txt").write_text("猫/n 吃/v 鱼/n\n", encoding="utf-8")
    assert "too few" in refused(capsys, "pretrain", "crf", tmp_path / "one.txt", "--to", tmp_path / "run")
    file = str(tmp_path / "one.txt")
    made = told(capsys, "adapt", "crf", file, "--task", "tagging", "--dev", file, "--to", tmp_path / "run")
    assert made["metrics"]["dev"]["accuracy"] == 1.0


def test_one_tag(tmp_path: Path, capsys: Captured):
    (tmp_path / "one.txt").write_text("".join(f"词{n}/n 字{n}/n\n" for n in range(40)), encoding="utf-8")
    made = told(capsys, "pretrain", "crf", tmp_path / "one.txt", "--to", tmp_path / "run")
    assert made["metrics"]["dev"]["accuracy"] == 1.0


def test_it_is_compared_where_words_are_tagged(home: Path, tmp_path: Path, capsys: Captured):
    words = ["compare", "--only", "ngram,crf", "--task", "tagging", home / "speech.txt"]
    found = told(capsys, *words, "--to", tmp_path / "compared", "--adapt-time", "20s")
    assert [row["name"] for row in found["rows"]] == ["ngram", "crf"]
    assert found["rows"][1]["score"] == 1.0


def test_what_it_will_see(home: Path, capsys: Captured):
    shown = told(capsys, "preview", "crf", home / "speech.txt", "--rows", "2")
    assert shown["rows"][0]["tokens"] == ["猫", "看见", "猫", "。"]
    assert shown["rows"][0]["asked"]["tag"] == ["n", "v", "n", "w"]
    assert shown["figures"]["asked"]["tag"] == shown["figures"]["tokens"]
    assert "learns from words" in refused(capsys, "preview", "crf", home / "speech.txt", "--tokenizer", "words")
    assert "猫" in said(capsys, "preview", "crf", home / "speech.txt")


def test_why(home: Path, capsys: Captured):
    shown = told(capsys, "inspect", "why", home / "run", "小狗 有 想 。", "--at", "3")
    (why,) = shown["texts"]
    assert why["said"] == "想: n"
    assert max(why["words"], key=lambda one: abs(one["attribution"]))["text"] in ("有", "想", "。")


def test_fields_are_checked():
    with pytest.raises(InputError, match="is no template"):
        CRFSpec(templates="nothing")
    assert CRFSpec(templates="word[0] suffix2[-1]").templates
