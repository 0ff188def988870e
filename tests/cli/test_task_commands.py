"""adapt, classify, tag, answer, choose and measure on the command line; files; errors with hints."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from adapted_runs import SHORT_TRAINING, TASKS, folder_of_adapted_runs, task_file
from command_line import Captured, json_output, printed_output, refusal_message
from forebear.cli.main import main

TASK_INPUTS = {
    "classification": ["The cat sat."],
    "pairs": ["我很喜欢你。", "我很中意你。"],
    "tagging": ["爱因斯坦在柏林发表演讲"],
    "answering": ["今天的最高温度是多少", "天气预报显示今天最高温度 37 摄氏度"],
    "choice": ["The cat sat on", "the mat.", "the moon."],
}
TASK_COMMANDS = {
    "classification": "classify",
    "pairs": "classify",
    "tagging": "tag",
    "answering": "answer",
    "choice": "choose",
}


@pytest.fixture(scope="module")
def runs_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folder_of_adapted_runs(tmp_path_factory.mktemp("tasks"), TASKS)


@pytest.mark.parametrize("task", TASKS)
def test_task_commands_predict_with_probabilities(task: str, runs_folder: Path, capsys: Captured):
    (answer,) = json_output(capsys, TASK_COMMANDS[task], runs_folder / task, *TASK_INPUTS[task])["answers"]
    if task in ("classification", "pairs"):
        assert sum(answer["probabilities"].values()) == pytest.approx(1, abs=1e-5)
        assert answer["label"] == max(answer["probabilities"], key=answer["probabilities"].get)
    elif task == "tagging":
        assert "".join(answer["words"]) == TASK_INPUTS[task][0]
        assert len(answer["tags"]) == len(answer["table"]) == len(answer["words"])
        assert sum(answer["table"][0].values()) == pytest.approx(1, abs=1e-4)
    elif task == "answering":
        assert answer["answer"] in TASK_INPUTS[task][1]
        assert TASK_INPUTS[task][1][answer["start"] :].startswith(answer["answer"])
        assert answer["table"]
    else:
        assert answer["choice"] == TASK_INPUTS[task][1 + answer["chosen"]]
        assert sum(answer["probabilities"]) == pytest.approx(1, abs=1e-5)
    options = ["--table"] if task != "choice" else []
    assert main([TASK_COMMANDS[task], str(runs_folder / task), *TASK_INPUTS[task], *options]) == 0
    assert capsys.readouterr().out.strip()


@pytest.mark.parametrize("task", TASKS)
def test_measure_of_a_task_writes_mistakes(task: str, runs_folder: Path, tmp_path: Path, capsys: Captured):
    file = task_file(task, tmp_path, 12, seed=5)
    facts = json_output(capsys, "measure", runs_folder / task, file, "--errors", tmp_path / "mistakes.tsv")
    assert 0 <= facts[facts["score"]] <= 1
    rows = (tmp_path / "mistakes.tsv").read_text(encoding="utf-8").splitlines()
    assert len(rows) == facts["mistakes"] + 1
    assert main(["measure", str(runs_folder / task), str(file)]) == 0
    assert "mistakes" in capsys.readouterr().out


def test_classify_keeps_the_order_of_the_input_file(runs_folder: Path, tmp_path: Path, capsys: Captured):
    texts = [f"Text number {index} sat by the river." for index in range(50)]
    (tmp_path / "in.txt").write_text("\n".join(texts) + "\n")
    run = runs_folder / "classification"
    json_output(capsys, "classify", run, "--in", tmp_path / "in.txt", "--out", tmp_path / "out.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [line["text"] for line in lines] == texts
    json_output(capsys, "classify", run, "--in", tmp_path / "in.txt", "--out", tmp_path / "out.tsv")
    rows = [line.split("\t") for line in (tmp_path / "out.tsv").read_text().splitlines()]
    assert [row[1] for row in rows] == [line["label"] for line in lines]


def test_choose_prints_lines_or_tables(runs_folder: Path, tmp_path: Path, capsys: Captured):
    input_file = tmp_path / "asked.txt"
    input_file.write_text("The cat sat on\tthe mat.\tthe moon.\n" * 2)
    lines = printed_output(capsys, "choose", runs_folder / "choice", "--in", input_file).splitlines()
    assert len(lines) == 2
    assert all(line.startswith("The cat sat on: the m") and line.endswith("%") for line in lines)
    assert (
        printed_output(capsys, "choose", runs_folder / "choice", "--in", input_file, "--table").count("probability")
        == 2
    )


def test_classify_skips_an_empty_line_and_reports_it(runs_folder: Path, tmp_path: Path, capsys: Captured):
    (tmp_path / "in.txt").write_text("one text\n\nanother\n")
    facts = json_output(capsys, "classify", runs_folder / "classification", "--in", tmp_path / "in.txt")
    assert [answer["text"] for answer in facts["answers"]] == ["one text", "another"]
    assert [(bad["line"], bad["reason"]) for bad in facts["bad"]] == [(2, "a text is empty")]


def test_tag_writes_conll_columns(runs_folder: Path, tmp_path: Path, capsys: Captured):
    (tmp_path / "in.txt").write_text("李明在北京。\nLi Ming is here.\n")
    json_output(capsys, "tag", runs_folder / "tagging", "--in", tmp_path / "in.txt", "--out", tmp_path / "out.conll")
    sentences = (tmp_path / "out.conll").read_text().strip().split("\n\n")
    assert [row.split("\t")[0] for row in sentences[0].splitlines()] == list("李明在北京。")
    assert [row.split("\t")[0] for row in sentences[1].splitlines()] == ["Li", "Ming", "is", "here", "."]


def test_tag_of_an_empty_text_prints_nothing_found(runs_folder: Path, capsys: Captured):
    assert "nothing found" in printed_output(
        capsys, "tag", runs_folder / "tagging", "", "李明在37日去北京。", "--table"
    )


def test_answer_reads_the_format_of_the_training_file(runs_folder: Path, tmp_path: Path, capsys: Captured):
    file = task_file("answering", tmp_path, 6, seed=3)
    facts = json_output(capsys, "answer", runs_folder / "answering", "--in", file)
    questions = [
        question["question"]
        for article in json.loads(file.read_text())["data"]
        for question in article["paragraphs"][0]["qas"]
    ]
    assert [answer["question"] for answer in facts["answers"]] == questions


def test_wrong_task_command_names_the_capabilities_of_the_run(runs_folder: Path, capsys: Captured):
    assert "it can be asked to: classify, measure, embed" in refusal_message(
        capsys, "tag", runs_folder / "classification", "text"
    )
    assert "it can be asked to: fill" in refusal_message(capsys, "classify", runs_folder / "bert", "text")
    assert "did you mean bert?" in refusal_message(
        capsys, "adapt", "bertt", task_file("pairs", runs_folder, 40), "--task", "pairs"
    )
    assert "pairs of texts" in refusal_message(capsys, "classify", runs_folder / "pairs", "only one")


def test_adapt_refuses_faulty_examples_with_a_hint(runs_folder: Path, tmp_path: Path, capsys: Captured):
    single_label_file = tmp_path / "one.tsv"
    single_label_file.write_text("text\tlabel\n" + "".join(f"a text, the {number}th\tgood\n" for number in range(9)))
    assert "only one label" in refusal_message(
        capsys, "adapt", runs_folder / "bert", single_label_file, "--task", "classification", *SHORT_TRAINING
    )
    conflicting_file = tmp_path / "same.tsv"
    conflicting_file.write_text("text\tlabel\n" + "a text\tgood\na text\tbad\n" * 3)
    assert "too few different" in refusal_message(
        capsys, "adapt", runs_folder / "bert", conflicting_file, "--task", "classification", *SHORT_TRAINING
    )
    malformed_file = tmp_path / "torn.tsv"
    rest = "".join(f"more {number}\tgood\nless {number}\tbad\n" for number in range(5))
    malformed_file.write_text(f"text\tlabel\na text\tgood\nanother\tbad\nno label here\n{rest}")
    error_output = refusal_message(
        capsys, "adapt", runs_folder / "bert", malformed_file, "--task", "classification", *SHORT_TRAINING
    )
    assert f"{malformed_file}:4" in error_output
    assert "--on-bad-rows skip" in error_output
    command = [
        "adapt",
        str(runs_folder / "bert"),
        str(malformed_file),
        "--task",
        "classification",
        "--on-bad-rows",
        "skip",
        *SHORT_TRAINING,
    ]
    assert main([*command, "--to", str(tmp_path / "run")]) == 0
    nested_file = tmp_path / "nested.conll"
    nested_file.write_text("here\tO\n.\tO\n\nBank\tB-ORG\nof\tI-ORG\nChina\tI-ORG|B-LOC\n\n" * 3)
    error_output = refusal_message(
        capsys, "adapt", runs_folder / "bert", nested_file, "--task", "tagging", *SHORT_TRAINING
    )
    assert f"{nested_file}:4" in error_output
    assert "word 3 has several tags" in error_output
    invalid_tags_file = tmp_path / "broken.conll"
    invalid_tags_file.write_text("Li\tB-PER\nMing\tE-PER\nis\tO\n\nhere\tE-PER\n.\tO\n\n" * 3)
    error_output = refusal_message(
        capsys, "adapt", runs_folder / "bert", invalid_tags_file, "--task", "tagging", *SHORT_TRAINING
    )
    assert "--on-bad-tags repair" in error_output
    command = [
        "adapt",
        str(runs_folder / "bert"),
        str(invalid_tags_file),
        "--task",
        "tagging",
        "--on-bad-tags",
        "repair",
        *SHORT_TRAINING,
    ]
    assert main([*command, "--to", str(tmp_path / "tags")]) == 0


@pytest.mark.parametrize(
    ("base", "task", "options", "message"),
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
def test_adapt_refuses_options_without_effect(
    base: str, task: str, options: str, message: str, runs_folder: Path, tmp_path: Path, capsys: Captured
):
    run = base if base == "ngram" else runs_folder / base
    command = [
        "adapt",
        run,
        task_file(task, runs_folder, 40),
        "--task",
        task,
        *options.split(),
        "--to",
        tmp_path / "run",
    ]
    assert message in refusal_message(capsys, *command)
    assert not (tmp_path / "run").exists()


def test_measure_counts_unseen_labels_as_mistakes(runs_folder: Path, tmp_path: Path, capsys: Captured):
    file = tmp_path / "test.tsv"
    file.write_text("text\tlabel\nThe cat sat.\tcoherent\nsat cat The.\tpuzzling\n")
    facts = json_output(capsys, "measure", runs_folder / "classification", file)
    assert facts["unseen"] == ["puzzling"]
    assert facts["accuracy"] <= 0.5


def test_measure_refuses_a_file_without_labels(runs_folder: Path, tmp_path: Path, capsys: Captured):
    file = tmp_path / "test.tsv"
    file.write_text("text\tlabel\nThe cat sat.\t\nsat cat The.\t\n")
    assert "nothing to measure" in refusal_message(capsys, "measure", runs_folder / "classification", file)
    facts = json_output(capsys, "classify", runs_folder / "classification", "--in", file)
    assert facts["count"] == 2


def test_task_commands_take_very_long_texts(runs_folder: Path, capsys: Captured):
    words = " ".join(f"word{index}" for index in range(20_000))
    (answer,) = json_output(capsys, "answer", runs_folder / "answering", "Which word?", words)["answers"]
    assert answer["answer"] in words
    (tagged,) = json_output(capsys, "tag", runs_folder / "tagging", words)["answers"]
    assert len(tagged["tags"]) == 20_000
    (classified,) = json_output(capsys, "classify", runs_folder / "classification", words)["answers"]
    assert classified["label"]


def test_adapt_with_several_seeds_and_a_learning_curve(runs_folder: Path, tmp_path: Path, capsys: Captured):
    file = task_file("classification", tmp_path, 80)
    command = ["adapt", runs_folder / "bert", file, "--to", tmp_path / "run", *SHORT_TRAINING]
    facts = json_output(capsys, *command, "--seeds", 2, "--learning-curve")
    assert [seed_result["seed"] for seed_result in facts["seeds"]] == [0, 1]
    accuracies = [seed_result["dev"] for seed_result in facts["seeds"]]
    assert facts["spread"]["dev"]["mean"] == pytest.approx(sum(accuracies) / 2)
    assert facts["metrics"]["dev"]["accuracy"] == max(accuracies)
    sizes = [point["examples"] for point in facts["learning_curve"]]
    assert sizes == sorted(sizes)
    assert len(sizes) >= 3
    assert main([str(word) for word in ["classify", tmp_path / "run", "a text", "--quiet"]]) == 0
