"""Labeled JSON objects, choices, answers and SQuAD files are recognized by their fields, under any usual name."""

import json

import pytest

from forebear.data.labeled.examples import AnswerSpan, ChoiceExample, LabeledExample, QuestionExample, TaggedExample
from forebear.data.labeled.load import detect_format, read_examples


@pytest.fixture
def file(tmp_path):
    def write(content, name="data.txt"):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def json_lines(*records):
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


def read(path, task=None):
    """The task and the examples, without locations, read by the detected format."""
    task, form, _ = detect_format(path, task)
    return task, [without_location(example) for example in read_examples(path, task, form)]


def without_location(example):
    kind = type(example)
    return kind(*(getattr(example, name) for name in kind.__slots__ if name != "location"))


@pytest.mark.parametrize(
    ("record", "task", "expected"),
    [
        ({"text": "很好", "label": 1}, "classification", LabeledExample(("很好",), "1")),
        ({"id": "7", "content": "ok", "category": "a b"}, "classification", LabeledExample(("ok",), "a b")),
        ({"text": "ok", "label": True}, "classification", LabeledExample(("ok",), "true")),
        ({"text": "ok", "labels": ["a", "b", "a"]}, "classification", LabeledExample(("ok",), ("a", "b"))),
        ({"text": "ok", "score": 3.25}, "classification", LabeledExample(("ok",), 3.25)),
        ({"sentence1": "一", "sentence2": "二", "label": "0"}, "pairs", LabeledExample(("一", "二"), "0")),
        (
            {"question": "is it?", "passage": "it is", "answer": True},
            "pairs",
            LabeledExample(("is it?", "it is"), "true"),
        ),
        ({"question": "Is?", "context": "No, so.", "label": "yes"}, "pairs", LabeledExample(("Is?", "No, so."), "yes")),
        (
            {
                "id": "1",
                "title": "t",
                "question": "谁？",
                "context": "是他。",
                "answers": {"text": ["他"], "answer_start": [1]},
            },
            "answering",
            QuestionExample("谁？", "是他。", (AnswerSpan(1, "他"),)),
        ),
        (
            {"question": "谁？", "context": "是他。", "answers": [{"text": "他", "answer_start": 1}]},
            "answering",
            QuestionExample("谁？", "是他。", (AnswerSpan(1, "他"),)),
        ),
        ({"question": "谁？", "context": "是他。", "answers": []}, "answering", QuestionExample("谁？", "是他。", ())),
        (
            {"question": "who", "context": "he, he", "answers": ["he"]},
            "answering",
            QuestionExample("who", "he, he", (AnswerSpan(0, "he"),)),
        ),
        (
            {"question": "who", "context": "he, he", "answer": "he", "answer_start": 4},
            "answering",
            QuestionExample("who", "he, he", (AnswerSpan(4, "he"),)),
        ),
        ({"tokens": ["他", "在"], "tags": ["B-PER", "O"]}, "tagging", TaggedExample(("他", "在"), ("B-PER", "O"))),
        ({"tokens": ["a", "b"], "ner_tags": [0, 3], "id": 1}, "tagging", TaggedExample(("a", "b"), ("0", "3"))),
        ({"text": "他在", "labels": ["B-PER", "O"]}, "tagging", TaggedExample(("他", "在"), ("B-PER", "O"))),
        ({"text": "他", "choices": ["来了", "走了"], "label": 1}, "choice", ChoiceExample("他", ("来了", "走了"), 1)),
        (
            {"text": "he", "choices": ["came", "went"], "label": "went"},
            "choice",
            ChoiceExample("he", ("came", "went"), 1),
        ),
        ({"question": "2+2", "options": [3, 4], "answer": "B"}, "choice", ChoiceExample("2+2", ("3", "4"), 1)),
        ({"text": "he", "choices": ["came", "went"], "label": 2}, "choice", ChoiceExample("he", ("came", "went"), 1)),
        (
            {"question": "q", "choices": {"text": ["x", "y"], "label": ["A", "B"]}, "answerKey": "B"},
            "choice",
            ChoiceExample("q", ("x", "y"), 1),
        ),
        (
            {
                "id": "z",
                "question": {"stem": "q", "choices": [{"text": "x", "label": "1"}, {"text": "y", "label": "2"}]},
                "answerKey": "2",
            },
            "choice",
            ChoiceExample("q", ("x", "y"), 1),
        ),
        ({"premise": "p", "choice1": "x", "choice2": "y", "label": 0}, "choice", ChoiceExample("p", ("x", "y"), 0)),
        (
            {"startphrase": "p", "ending0": "x", "ending1": "y", "ending2": "z", "label": 2},
            "choice",
            ChoiceExample("p", ("x", "y", "z"), 2),
        ),
    ],
)
@pytest.mark.parametrize("kind", ["jsonl", "json"])
def test_json_fields_decide_task_and_example(file, record, task, expected, kind):
    content = json_lines(record) if kind == "jsonl" else json.dumps([record], ensure_ascii=False, indent=1)
    assert detect_format(file(content)).file_format.kind == kind
    assert read(file(content)) == (task, [expected])


def test_choice_and_answer_columns_of_tables_are_detected(file):
    rows = "".join(f"beginning {n}\tend {n}\tother end {n}\tthird {n}\t{'ABC'[n % 3]}\n" for n in range(6))
    task, examples = read(file("question\tA\tB\tC\tanswer\n" + rows))
    assert task == "choice"
    assert examples[1] == ChoiceExample("beginning 1", ("end 1", "other end 1", "third 1"), 1)
    task, examples = read(file(rows.replace("A\n", "1\n").replace("B\n", "2\n").replace("C\n", "3\n")), "choice")
    assert [example.answer_index for example in examples] == [0, 1, 2, 0, 1, 2]
    task, examples = read(file('question,context,answer\nwho?,"it was 他, no",他\nwhen?,never,\n'))
    assert task == "answering"
    assert [example.answers for example in examples] == [(AnswerSpan(7, "他"),), ()]


def test_choice_labels_count_from_one_where_zero_never_occurs(file):
    records = [{"text": "t", "choices": ["a", "b", "c"], "label": 1 + n % 2} for n in range(30)]
    task, form, notes = detect_format(file(json_lines(*records)))
    assert (task, form.first) == ("choice", "1")
    assert "counted from 1" in notes[0]


def test_squad_is_detected_by_structure_not_by_name(file):
    squad = {"data": [{"paragraphs": [{"context": "是他。", "qas": [{"id": "a", "question": "谁？", "answers": []}]}]}]}
    squad["data"][0]["paragraphs"][0]["qas"][0]["answers"] = [{"text": "他", "answer_start": 1}]
    for content in (json.dumps(squad), json.dumps(squad, indent=2), json.dumps(squad["data"])):
        assert read(file(content)) == ("answering", [QuestionExample("谁？", "是他。", (AnswerSpan(1, "他"),))])
