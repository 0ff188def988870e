"""The CRF from the command line: pretrain and adapt, killed runs, metrics, invalid input."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import forebear
from command_line import Captured, json_output, printed_output, refusal_message
from forebear.cli.main import main
from forebear.errors import InputError
from forebear.models.crf import CRFSpec
from forebear.training.run_folder import RunFolder
from small_runs import weights_digest

NOUNS, VERBS = ("猫", "小狗", "老鸟", "大鱼", "花猫"), ("看见", "喜欢", "吃", "想")
CODE = "from forebear.cli.main import run; run()"


def write_tagged_sentences(folder: Path, name: str = "speech.txt") -> Path:
    """Sentences in which 想 is a noun before 。 and a verb elsewhere, so that only neighboring words tell."""
    rows = [f"{a}/n {b}/v {c}/n 。/w\n" for a in NOUNS for b in VERBS for c in NOUNS]
    rows += [f"{a}/n 有/v 想/n 。/w\n" for a in NOUNS] + [f"{a}/n 没有/v 想/n 。/w\n" for a in NOUNS]
    (folder / name).write_text("".join(rows), encoding="utf-8")
    return folder / name


@pytest.fixture(scope="module")
def workdir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("crf")
    assert main(["pretrain", "crf", str(write_tagged_sentences(folder)), "--to", str(folder / "run"), "--quiet"]) == 0
    return folder


def test_crf_measures_and_tags(workdir: Path, capsys: Captured):
    metrics = json_output(capsys, "measure", workdir / "run", workdir / "speech.txt")
    assert (metrics["score"], metrics["accuracy"], metrics["sentence_accuracy"]) == ("accuracy", 1.0, 1.0)
    assert "小狗/n 有/v 想/n 。/w" in printed_output(capsys, "tag", workdir / "run", "小狗 有 想 。").replace("\n", " ")
    answer = json_output(capsys, "tag", workdir / "run", "新猫 喜欢 老鸟 。")["answers"][0]
    assert answer["tags"] == ["n", "v", "n", "w"]  # 新猫 has the suffix of 花猫
    assert sum(answer["table"][0].values()) == pytest.approx(1, abs=1e-4)


def test_crf_pretrain_equals_adapt(workdir: Path, tmp_path: Path, capsys: Captured):
    assert main(
        ["adapt", "crf", str(workdir / "speech.txt"), "--task", "tagging", "--to", str(tmp_path / "b"), "-q"]
    ) in (
        0,
        2,
    )
    adapted_metadata = json_output(
        capsys, "adapt", "crf", workdir / "speech.txt", "--task", "tagging", "--to", tmp_path / "other"
    )
    pretrained = RunFolder.open(workdir / "run")
    assert adapted_metadata["asked"] == pretrained.metadata["asked"]
    assert weights_digest(RunFolder.open(tmp_path / "other")) == weights_digest(pretrained)
    assert set(adapted_metadata["metrics"]["dev"]) == set(pretrained.metadata["metrics"]["dev"])


def test_crf_from_python(workdir: Path, tmp_path: Path):
    run = forebear.pretrain("crf", workdir / "speech.txt", to=tmp_path / "run", l1=0.1, l2=0.01, epochs=20)
    assert run.tag("猫 吃 大鱼 。")[0].tags == ("n", "v", "n", "w")
    assert run.folder.spec == CRFSpec(l1=0.1, l2=0.01)
    assert forebear.resume(tmp_path / "run").name == run.name


def test_killed_crf_run_resumes_bit_for_bit(workdir: Path, tmp_path: Path):
    arguments = [
        "pretrain",
        "crf",
        str(workdir / "speech.txt"),
        "--epochs",
        "40",
        "--l2",
        "1e-6",
        "--save-every",
        "0.001s",
    ]
    arguments += ["--threads", "1", "--quiet"]
    assert main([*arguments, "--to", str(tmp_path / "whole")]) == 0
    process = subprocess.Popen([sys.executable, "-c", CODE, *arguments, "--to", str(tmp_path / "cut")])
    deadline = time.monotonic() + 60
    while not list((tmp_path / "cut").glob("checkpoints/*/learner.safetensors")) and time.monotonic() < deadline:
        if process.poll() is not None:
            break
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert main(["pretrain", "--resume", str(tmp_path / "cut"), "--quiet"]) == 0
    complete, resumed = (RunFolder.open(tmp_path / name) for name in ("whole", "cut"))
    assert resumed.is_finished
    assert weights_digest(resumed) == weights_digest(complete)
    assert resumed.metadata["metrics"] == complete.metadata["metrics"]


def test_crf_tags_entities_by_characters(tmp_path: Path, capsys: Captured):
    rows = []
    for name, location in ((a, b) for a in ("王小明", "李华", "张三丰", "赵云") for b in ("北京", "上海", "南京市")):
        tagged = [*((char, f"{'B' if n == 0 else 'I'}-PER") for n, char in enumerate(name)), ("去", "O")]
        tagged += [(char, f"{'B' if n == 0 else 'I'}-LOC") for n, char in enumerate(location)] + [("。", "O")]
        rows.append("".join(f"{char} {tag}\n" for char, tag in tagged) + "\n")
    (tmp_path / "names.conll").write_text("".join(rows * 2), encoding="utf-8")
    metadata = json_output(capsys, "adapt", "crf", tmp_path / "names.conll", "--to", tmp_path / "run", "--epochs", "30")
    assert metadata["task"]["crf"] is True
    assert b"kind[0]" in RunFolder.open(tmp_path / "run").verified_weights()[0].read_bytes()
    entities = json_output(capsys, "tag", tmp_path / "run", "李小明去北京。")["answers"][0]["entities"]
    assert [(char["text"], char["kind"]) for char in entities] == [("李小明", "PER"), ("北京", "LOC")]


def test_crf_refuses_plain_text_and_names_the_format(tmp_path: Path, capsys: Captured):
    (tmp_path / "book.txt").write_text("The cat sat on the mat.\nIt was warm and dry there.\nYes.\n")
    complaint = refusal_message(capsys, "pretrain", "crf", tmp_path / "book.txt", "--to", tmp_path / "run")
    assert "looks like plain text" in complaint
    assert "word/tag" in complaint
    assert not (tmp_path / "run").exists()


def test_crf_refuses_settings_without_effect(workdir: Path, tmp_path: Path, capsys: Captured):
    file = workdir / "speech.txt"
    for options, message in (
        (["--tokenizer", "characters"], "--tokenizer means nothing to crf"),
        (["--sentences", "lines"], "--sentences means nothing to crf"),
        (["--rate", "0.1"], "--rate means nothing to crf"),
        (["--templates", "wurd[0]"], "'wurd[0]' is no template"),
        (["--l2", "-1"], "l2 is -1"),
        (["--min-count", "0"], "min_count"),
        (["--width", "3"], "--width is no setting of crf"),
    ):
        assert message in refusal_message(capsys, "pretrain", "crf", file, "--to", tmp_path / "run", *options)
    assert "2 files" in refusal_message(capsys, "pretrain", "crf", file, file, "--to", tmp_path / "run")
    reviews = tmp_path / "reviews.tsv"
    reviews.write_text("".join(f"good {n}\tyes\nbad {n}\tno\n" for n in range(20)))
    assert "crf learns to tag words" in refusal_message(capsys, "adapt", "crf", reviews, "--to", tmp_path / "run")


def test_crf_measures_unseen_tags_and_unusual_words(workdir: Path, tmp_path: Path, capsys: Captured):
    (tmp_path / "odd.txt").write_text("猫/n 飞/zz 。/w\n\u200b/x 😀/y \u0301\u0301/n 。/w\n" + "长" * 5000 + "/n\n")
    metrics = json_output(capsys, "measure", workdir / "run", tmp_path / "odd.txt")
    assert metrics["words"] == 8
    assert 0 < metrics["accuracy"] < 1
    assert json_output(capsys, "tag", workdir / "run", "")["answers"][0]["tags"] == []


def test_crf_trains_on_one_sentence_with_dev_set(tmp_path: Path, capsys: Captured):
    (tmp_path / "one.txt").write_text("猫/n 吃/v 鱼/n\n", encoding="utf-8")
    assert "too few" in refusal_message(capsys, "pretrain", "crf", tmp_path / "one.txt", "--to", tmp_path / "run")
    file = str(tmp_path / "one.txt")
    metadata = json_output(capsys, "adapt", "crf", file, "--task", "tagging", "--dev", file, "--to", tmp_path / "run")
    assert metadata["metrics"]["dev"]["accuracy"] == 1.0


def test_crf_trains_with_one_tag(tmp_path: Path, capsys: Captured):
    (tmp_path / "one.txt").write_text("".join(f"词{n}/n 字{n}/n\n" for n in range(40)), encoding="utf-8")
    metadata = json_output(capsys, "pretrain", "crf", tmp_path / "one.txt", "--to", tmp_path / "run")
    assert metadata["metrics"]["dev"]["accuracy"] == 1.0


def test_crf_takes_part_in_tagging_comparison(workdir: Path, tmp_path: Path, capsys: Captured):
    arguments = ["compare", "--only", "ngram,crf", "--task", "tagging", workdir / "speech.txt"]
    comparison = json_output(capsys, *arguments, "--to", tmp_path / "compared", "--adapt-time", "20s")
    assert [row["name"] for row in comparison["rows"]] == ["ngram", "crf"]
    assert comparison["rows"][1]["score"] == 1.0


def test_crf_preview_shows_words_and_tags(workdir: Path, capsys: Captured):
    preview = json_output(capsys, "preview", "crf", workdir / "speech.txt", "--rows", "2")
    assert preview["rows"][0]["tokens"] == ["猫", "看见", "猫", "。"]
    assert preview["rows"][0]["asked"]["tag"] == ["n", "v", "n", "w"]
    assert preview["figures"]["asked"]["tag"] == preview["figures"]["tokens"]
    assert "learns from words" in refusal_message(
        capsys, "preview", "crf", workdir / "speech.txt", "--tokenizer", "words"
    )
    assert "猫" in printed_output(capsys, "preview", "crf", workdir / "speech.txt")


def test_crf_attribution_names_a_neighboring_word(workdir: Path, capsys: Captured):
    result = json_output(capsys, "inspect", "why", workdir / "run", "小狗 有 想 。", "--at", "3")
    (explanation,) = result["texts"]
    assert explanation["said"] == "想: n"
    assert max(explanation["words"], key=lambda word: abs(word["attribution"]))["text"] in ("有", "想", "。")


def test_crf_spec_checks_templates():
    with pytest.raises(InputError, match="is no template"):
        CRFSpec(templates="nothing")
    assert CRFSpec(templates="word[0] suffix2[-1]").templates
