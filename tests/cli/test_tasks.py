"""The command line of tasks: adapt, use, measure; files in and out; what goes wrong is said with the remedy."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command_line import Captured, refused, said, told
from forebear.cli.main import main
from labelled_texts import SHORT, TASKS, file_of, home_of_runs

GIVEN = {
    "classification": ["The cat sat."],
    "pairs": ["我很喜欢你。", "我很中意你。"],
    "tagging": ["爱因斯坦在柏林发表演讲"],
    "answering": ["今天的最高温度是多少", "天气预报显示今天最高温度 37 摄氏度"],
    "choice": ["The cat sat on", "the mat.", "the moon."],
}
VERBS = {"classification": "classify", "pairs": "classify", "tagging": "tag", "answering": "answer", "choice": "choose"}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return home_of_runs(tmp_path_factory.mktemp("tasks"), TASKS)


@pytest.mark.parametrize("task", TASKS)
def test_a_text_is_answered_with_a_table(task: str, home: Path, capsys: Captured):
    (answer,) = told(capsys, VERBS[task], home / task, *GIVEN[task])["answers"]
    if task in ("classification", "pairs"):
        assert sum(answer["probabilities"].values()) == pytest.approx(1, abs=1e-5)
        assert answer["label"] == max(answer["probabilities"], key=answer["probabilities"].get)
    elif task == "tagging":
        assert "".join(answer["words"]) == GIVEN[task][0]
        assert len(answer["tags"]) == len(answer["table"]) == len(answer["words"])
        assert sum(answer["table"][0].values()) == pytest.approx(1, abs=1e-4)
    elif task == "answering":
        assert answer["answer"] in GIVEN[task][1]
        assert GIVEN[task][1][answer["start"] :].startswith(answer["answer"])
        assert answer["table"]
    else:
        assert answer["choice"] == GIVEN[task][1 + answer["chosen"]]
        assert sum(answer["probabilities"]) == pytest.approx(1, abs=1e-5)
    more = ["--table"] if task != "choice" else []
    assert main([VERBS[task], str(home / task), *GIVEN[task], *more]) == 0
    assert capsys.readouterr().out.strip()


@pytest.mark.parametrize("task", TASKS)
def test_measuring_and_mistakes(task: str, home: Path, tmp_path: Path, capsys: Captured):
    file = file_of(task, tmp_path, 12, seed=5)
    facts = told(capsys, "measure", home / task, file, "--errors", tmp_path / "mistakes.tsv")
    assert 0 <= facts[facts["score"]] <= 1
    rows = (tmp_path / "mistakes.tsv").read_text(encoding="utf-8").splitlines()
    assert len(rows) == facts["mistakes"] + 1
    assert main(["measure", str(home / task), str(file)]) == 0
    assert "mistakes" in capsys.readouterr().out


def test_files_in_and_out_keep_their_order(home: Path, tmp_path: Path, capsys: Captured):
    texts = [f"Text number {number} sat by the river." for number in range(50)]
    (tmp_path / "in.txt").write_text("\n".join(texts) + "\n")
    run = home / "classification"
    told(capsys, "classify", run, "--in", tmp_path / "in.txt", "--out", tmp_path / "out.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [line["text"] for line in lines] == texts
    told(capsys, "classify", run, "--in", tmp_path / "in.txt", "--out", tmp_path / "out.tsv")
    rows = [line.split("\t") for line in (tmp_path / "out.tsv").read_text().splitlines()]
    assert [row[1] for row in rows] == [line["label"] for line in lines]


def test_choices_of_a_file_are_lines_or_tables(home: Path, tmp_path: Path, capsys: Captured):
    asked = tmp_path / "asked.txt"
    asked.write_text("The cat sat on\tthe mat.\tthe moon.\n" * 2)
    lines = said(capsys, "choose", home / "choice", "--in", asked).splitlines()
    assert len(lines) == 2
    assert all(line.startswith("The cat sat on: the m") and line.endswith("%") for line in lines)
    assert said(capsys, "choose", home / "choice", "--in", asked, "--table").count("probability") == 2


def test_a_bad_line_does_not_lose_the_rest(home: Path, tmp_path: Path, capsys: Captured):
    (tmp_path / "in.txt").write_text("one text\n\nanother\n")
    facts = told(capsys, "classify", home / "classification", "--in", tmp_path / "in.txt")
    assert [answer["text"] for answer in facts["answers"]] == ["one text", "another"]
    assert [(bad["line"], bad["reason"]) for bad in facts["bad"]] == [(2, "a text is empty")]


def test_tagged_text_is_written_as_columns(home: Path, tmp_path: Path, capsys: Captured):
    (tmp_path / "in.txt").write_text("李明在北京。\nLi Ming is here.\n")
    told(capsys, "tag", home / "tagging", "--in", tmp_path / "in.txt", "--out", tmp_path / "out.conll")
    sentences = (tmp_path / "out.conll").read_text().strip().split("\n\n")
    assert [row.split("\t")[0] for row in sentences[0].splitlines()] == list("李明在北京。")
    assert [row.split("\t")[0] for row in sentences[1].splitlines()] == ["Li", "Ming", "is", "here", "."]


def test_an_empty_text_has_no_table(home: Path, capsys: Captured):
    assert "nothing found" in said(capsys, "tag", home / "tagging", "", "李明在37日去北京。", "--table")


def test_a_file_of_examples_is_read_as_the_run_learned_it(home: Path, tmp_path: Path, capsys: Captured):
    file = file_of("answering", tmp_path, 6, seed=3)
    facts = told(capsys, "answer", home / "answering", "--in", file)
    questions = [qa["question"] for one in json.loads(file.read_text())["data"] for qa in one["paragraphs"][0]["qas"]]
    assert [answer["question"] for answer in facts["answers"]] == questions


def test_what_a_run_cannot_do_is_told_with_what_it_can(home: Path, capsys: Captured):
    assert "it can be asked to: classify, measure, embed" in refused(capsys, "tag", home / "classification", "text")
    assert "it can be asked to: fill" in refused(capsys, "classify", home / "bert", "text")
    assert "did you mean bert?" in refused(capsys, "adapt", "bertt", file_of("pairs", home, 40), "--task", "pairs")
    assert "pairs of texts" in refused(capsys, "classify", home / "pairs", "only one")


def test_faults_of_examples(home: Path, tmp_path: Path, capsys: Captured):
    one = tmp_path / "one.tsv"
    one.write_text("text\tlabel\n" + "".join(f"a text, the {number}th\tgood\n" for number in range(9)))
    assert "only one label" in refused(capsys, "adapt", home / "bert", one, "--task", "classification", *SHORT)
    same = tmp_path / "same.tsv"
    same.write_text("text\tlabel\n" + "a text\tgood\na text\tbad\n" * 3)
    assert "too few different" in refused(capsys, "adapt", home / "bert", same, "--task", "classification", *SHORT)
    torn = tmp_path / "torn.tsv"
    rest = "".join(f"more {number}\tgood\nless {number}\tbad\n" for number in range(5))
    torn.write_text(f"text\tlabel\na text\tgood\nanother\tbad\nno label here\n{rest}")
    said = refused(capsys, "adapt", home / "bert", torn, "--task", "classification", *SHORT)
    assert f"{torn}:4" in said
    assert "--on-bad-rows skip" in said
    command = ["adapt", str(home / "bert"), str(torn), "--task", "classification", "--on-bad-rows", "skip", *SHORT]
    assert main([*command, "--to", str(tmp_path / "run")]) == 0
    nested = tmp_path / "nested.conll"
    nested.write_text("here\tO\n.\tO\n\nBank\tB-ORG\nof\tI-ORG\nChina\tI-ORG|B-LOC\n\n" * 3)
    said = refused(capsys, "adapt", home / "bert", nested, "--task", "tagging", *SHORT)
    assert f"{nested}:4" in said
    assert "word 3 has several tags" in said
    broken = tmp_path / "broken.conll"
    broken.write_text("Li\tB-PER\nMing\tE-PER\nis\tO\n\nhere\tE-PER\n.\tO\n\n" * 3)
    said = refused(capsys, "adapt", home / "bert", broken, "--task", "tagging", *SHORT)
    assert "--on-bad-tags repair" in said
    command = ["adapt", str(home / "bert"), str(broken), "--task", "tagging", "--on-bad-tags", "repair", *SHORT]
    assert main([*command, "--to", str(tmp_path / "tags")]) == 0


@pytest.mark.parametrize(
    ("begin", "task", "given", "said"),
    [
        ("ngram", "classification", "--how features", "--how means nothing here: a model that counts has no layers"),
        ("ngram", "classification", "--layer-decay 0.9", "--layer-decay means nothing"),
        ("ngram", "classification", "--read mean", "--read means nothing"),
        ("ngram", "classification", "--head-dropout 0.3", "--head-dropout means nothing"),
        ("ngram", "classification", "--dropout 0.3", "--dropout means nothing to a model that counts"),
        ("ngram", "classification", "--rate 0.1", "--rate means nothing to ngram, which counts"),
        ("bert", "classification", "--held-out 0.3", "--dev-share says how many examples are held out"),
        ("bert", "classification", "--how features --dropout 0.3", "--dropout means nothing where the encoder"),
        ("bert", "classification", "--how prompt", "forebear ask RUN TEXT --labels A,B"),
        ("bert", "tagging", "--balanced", "--balanced means nothing here: it is for examples with labels"),
        ("bert", "answering", "--read mean", "--read means nothing here: it is for texts that are judged as a whole"),
    ],
)
def test_what_would_change_nothing_is_refused(
    begin: str, task: str, given: str, said: str, home: Path, tmp_path: Path, capsys: Captured
):
    run = begin if begin == "ngram" else home / begin
    command = ["adapt", run, file_of(task, home, 40), "--task", task, *given.split(), "--to", tmp_path / "run"]
    assert said in refused(capsys, *command)
    assert not (tmp_path / "run").exists()


def test_a_label_unseen_in_training_is_a_mistake_that_is_told(home: Path, tmp_path: Path, capsys: Captured):
    file = tmp_path / "test.tsv"
    file.write_text("text\tlabel\nThe cat sat.\tcoherent\nsat cat The.\tpuzzling\n")
    facts = told(capsys, "measure", home / "classification", file)
    assert facts["unseen"] == ["puzzling"]
    assert facts["accuracy"] <= 0.5


def test_a_test_file_without_labels(home: Path, tmp_path: Path, capsys: Captured):
    file = tmp_path / "test.tsv"
    file.write_text("text\tlabel\nThe cat sat.\t\nsat cat The.\t\n")
    assert "nothing to measure" in refused(capsys, "measure", home / "classification", file)
    facts = told(capsys, "classify", home / "classification", "--in", file)
    assert facts["count"] == 2


def test_a_long_passage_and_a_long_sentence(home: Path, capsys: Captured):
    words = " ".join(f"word{number}" for number in range(20_000))
    (answer,) = told(capsys, "answer", home / "answering", "Which word?", words)["answers"]
    assert answer["answer"] in words
    (tagged,) = told(capsys, "tag", home / "tagging", words)["answers"]
    assert len(tagged["tags"]) == 20_000
    (classified,) = told(capsys, "classify", home / "classification", words)["answers"]
    assert classified["label"]


def test_several_seeds_and_a_learning_curve(home: Path, tmp_path: Path, capsys: Captured):
    file = file_of("classification", tmp_path, 80)
    command = ["adapt", home / "bert", file, "--to", tmp_path / "run", *SHORT]
    facts = told(capsys, *command, "--seeds", 2, "--learning-curve")
    assert [one["seed"] for one in facts["seeds"]] == [0, 1]
    figures = [one["dev"] for one in facts["seeds"]]
    assert facts["spread"]["dev"]["mean"] == pytest.approx(sum(figures) / 2)
    assert facts["metrics"]["dev"]["accuracy"] == max(figures)
    sizes = [point["examples"] for point in facts["learning_curve"]]
    assert sizes == sorted(sizes)
    assert len(sizes) >= 3
    assert main([str(part) for part in ["classify", tmp_path / "run", "a text", "--quiet"]]) == 0
