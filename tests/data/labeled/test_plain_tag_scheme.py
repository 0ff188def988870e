"""Tags without a span scheme, such as parts of speech: word/tag files, metrics, predictions and whole runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from command_line import Captured, json_output
from forebear.data.labeled.detect_format import is_slash_tagged
from forebear.data.labeled.examples import TaggedExample
from forebear.data.labeled.labeled_source import labeled_source
from forebear.data.labeled.load import detect_format, read_examples, read_labeled
from forebear.data.labeled.readers import parse_slash_tags
from forebear.errors import InputError
from forebear.experiments.comparison.significance import example_scores
from forebear.tasks.baselines import task_baseline
from forebear.tasks.metrics import tagging_accuracy, unknown_word_accuracy
from forebear.tasks.tagging import SequenceTagging
from forebear.tasks.task import task_from_json

SENTENCES = """我/r 爱/v 北京/ns 。/w
他/r 在/p [中央/n 人民/n 电台/n]nt 工作/v 。/w

“/w 1/2/m 与/c //w [/w 和/c ]/w ”/w
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "tagged.txt"
    path.write_text(SENTENCES, encoding="utf-8")
    return path


def test_word_slash_tag_lines_are_read(file: Path):
    task, form, notes = detect_format(str(file))
    assert (task, form.kind) == ("tagging", "tagged")
    assert notes == ["a sentence a line, word/tag word/tag: 8 tags among the first 19 words: c, m, n, ns, p, r, v, w"]
    examples = list(read_examples(str(file), task, form))
    assert [example.location.line for example in examples] == [1, 2, 4]
    assert examples[1] == TaggedExample(
        ("他", "在", "中央", "人民", "电台", "工作", "。"), ("r", "p", "n", "n", "n", "v", "w"), examples[1].location
    )
    assert examples[2] == TaggedExample(
        ("“", "1/2", "与", "/", "[", "和", "]", "”"), ("w", "m", "c", "w", "w", "c", "w", "w"), examples[2].location
    )


def test_word_without_tag_is_refused(file: Path):
    form = detect_format(str(file)).file_format
    file.write_text("我/r 爱/v\n你 好/a\n", encoding="utf-8")
    with pytest.raises(InputError, match="word 1 of the sentence, '你', has no tag") as error:
        list(read_examples(str(file), "tagging", form))
    assert (error.value.file, error.value.line) == (str(file), 2)
    file.write_text("我/ 爱/v\n", encoding="utf-8")
    with pytest.raises(InputError, match="'我/' is not word/tag"):
        list(read_examples(str(file), "tagging", form))
    file.write_text("你 好\n", encoding="utf-8")
    (untagged,) = read_examples(str(file), "tagging", form, labels="optional")
    assert (untagged.words, untagged.tags) == (("你", "好"), None)  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["the/DT cat/NN sat/VBD ./.", "it/PRP slept/VBD ./."], True),
        (["good and/or bad\tyes", "either/or\tno"], False),
        (["1/2/2003 4/5/2004", "6/7/2005"], False),
        (["http://a.example/one", "http://a.example/two", "http://a.example/three"], False),
        (["O/O\tO", "B-PER\tx"], False),
        ([], False),
    ],
)
def test_slash_tagged_lines_are_recognized(lines: list[str], expected: bool):
    assert is_slash_tagged(lines) is expected


def test_unclosed_bracket_keeps_its_words():
    assert parse_slash_tags("[中央/n 电台/n 。/w") == (("中央", "电台", "。"), ("n", "n", "w"))


def test_tagging_metrics_match_a_worked_example():
    true, predicted = [["n", "v", "w"], ["n", "n"]], [["n", "n", "w"], ["n", "n"]]
    metrics = tagging_accuracy(true, predicted)
    assert (metrics["accuracy"], metrics["sentence_accuracy"], metrics["words"]) == (0.8, 0.5, 5)
    assert metrics["per_kind"]["n"] == {"precision": 0.75, "recall": 1.0, "f1": pytest.approx(6 / 7), "support": 3}
    assert metrics["macro_f1"] == pytest.approx((6 / 7 + 0 + 1) / 3)
    words = [["cat", "eats", "."], ["dog", "cat"]]
    assert unknown_word_accuracy(words, true, predicted, {"cat", "."}) == {"unknown_words": 2, "accuracy_unknown": 0.5}
    assert unknown_word_accuracy(words, true, predicted, {"cat", ".", "eats", "dog"})["accuracy_unknown"] is None
    assert tagging_accuracy([], [])["accuracy"] == 0.0
    with pytest.raises(InputError, match="not as long"):
        tagging_accuracy([["n"]], [[]])


def test_plain_tagging_task_predicts_and_judges_each_word():
    examples = [
        TaggedExample(("我", "爱", "北京"), ("r", "v", "ns")),
        TaggedExample(("他", "去", "上海"), ("r", "v", "ns")),
    ]
    task = SequenceTagging.from_examples(examples, scheme="plain")
    assert (task.tags, task.metric, task.segmented, task.characters) == (("ns", "r", "v"), "accuracy", True, False)
    assert all(allowed.all() for allowed in task.transitions)
    assert task_from_json(task.to_dict()) == task
    assert task.split_words("我爱北京") == ("我", "爱", "北京")
    assert task.split_words("我 爱 北京天安门 。") == ("我", "爱", "北京天安门", "。")  # segmented already
    prediction = task._make_prediction(("我", "去"), np.array([1, 2]), np.full((2, 3), 1 / 3))
    assert (prediction.tags, prediction.entities, prediction.is_plain) == (("r", "v"), (), True)
    verdict = task.compare_to_gold(TaggedExample(("我", "去"), ("r", "ns")), prediction)
    assert (verdict.is_right, verdict.expected, verdict.predicted) == (False, "去/ns", "去/v")


def test_mean_of_example_scores_is_the_accuracy():
    task = SequenceTagging(("n", "v"), scheme="plain")
    examples = [TaggedExample(("a", "b", "c"), ("n", "v", "n")), TaggedExample(("a",), ("v",))]
    predictions = [
        task._make_prediction(example.words, np.zeros(len(example.words), int), np.ones((len(example.words), 2)) / 2)
        for example in examples
    ]
    scores = example_scores(task, examples, predictions)
    assert scores.mean() == pytest.approx(task.evaluate(examples, predictions)["accuracy"]) == pytest.approx(0.5)


def test_baseline_gives_each_word_its_most_frequent_tag():
    task = SequenceTagging(("n", "v"), scheme="plain")
    train = [TaggedExample(("saw", "saw", "saw", "cat"), ("v", "v", "n", "n")), TaggedExample(("dog",), ("n",))]
    test = [TaggedExample(("saw", "new", "dog"), ("v", "n", "v"))]
    baseline = task_baseline(task, train, test)
    assert (baseline.name, baseline.score) == ("commonest tag", pytest.approx(2 / 3))


def test_entity_tags_are_scored_by_f1():
    assert SequenceTagging(("O", "S-PER")).metric == "f1"
    assert not SequenceTagging(("O", "S-PER")).is_plain


def test_plain_scheme_is_detected_for_part_of_speech_tags(tmp_path: Path):
    path = tmp_path / "speech.txt"
    path.write_text("".join(f"词{n}/n 是/v 字{n}/n 。/w\n" for n in range(60)), encoding="utf-8")
    source, _ = labeled_source(str(path))
    data = read_labeled(source)
    assert data.tag_scheme == "plain"
    assert {tag for example in data.train for tag in example.tags} == {"n", "v", "w"}
    assert any(note.startswith("tags are read as plain") for note in data.notes)


@pytest.mark.parametrize(("model", "options"), [("ngram", []), ("bert", ["--size", "tiny", "--steps", "12"])])
def test_plain_tags_are_trained_and_predicted_from_the_command_line(
    tmp_path: Path, capsys: Captured, model: str, options: list[str]
):
    path, to = tmp_path / "speech.txt", str(tmp_path / "run")
    nouns, verbs = ("猫", "小狗", "老鸟", "大鱼"), ("看见", "喜欢", "吃")
    rows = [f"{a}/n {b}/v {c}/n 。/w\n" for a in nouns for b in verbs for c in nouns]
    path.write_text("".join(rows), encoding="utf-8")
    metadata = json_output(capsys, "adapt", model, str(path), "--task", "tagging", "--to", to, *options)
    metrics = metadata["metrics"]["dev"]
    assert metrics["words"] == 4 * metrics["examples"]
    assert {"accuracy", "sentence_accuracy", "accuracy_unknown"} <= metrics.keys()
    assert metadata["baseline"]["score"] == 1.0
    measured = json_output(capsys, "measure", to, str(path))
    assert measured["score"] == "accuracy"
    if model == "ngram":
        assert measured["accuracy"] == 1.0
    tagged = json_output(capsys, "tag", to, "--in", str(path))
    assert tagged["count"] == len(rows)
    assert tagged["answers"][0]["words"] == ["猫", "看见", "猫", "。"]
