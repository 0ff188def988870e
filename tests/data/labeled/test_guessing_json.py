"""JSON objects, choices, answers and SQuAD's form are recognised by their fields, however people name them."""

import json

import pytest

from forebear.data.labeled.examples import AnswerSpan, ChoiceExample, LabeledExample, QuestionExample, TaggedExample
from forebear.data.labeled.source import detect_format, read_examples


@pytest.fixture
def file(tmp_path):
    def write(content, name="data.txt"):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def lines(*records):
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


def read(path, task=None):
    """Guessed and read; without places."""
    task, form, _ = detect_format(path, task)
    return task, [bare(example) for example in read_examples(path, task, form)]


def bare(example):
    kind = type(example)
    return kind(*(getattr(example, name) for name in kind.__slots__ if name != "location"))


@pytest.mark.parametrize(
    ("record", "task", "made"),
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
def test_json_objects(file, record, task, made, kind):
    content = lines(record) if kind == "jsonl" else json.dumps([record], ensure_ascii=False, indent=1)
    assert detect_format(file(content)).file_format.kind == kind
    assert read(file(content)) == (task, [made])


def test_columns_of_choices_and_of_answers_in_a_table(file):
    rows = "".join(f"beginning {n}\tend {n}\tother end {n}\tthird {n}\t{'ABC'[n % 3]}\n" for n in range(6))
    task, made = read(file("question\tA\tB\tC\tanswer\n" + rows))
    assert task == "choice"
    assert made[1] == ChoiceExample("beginning 1", ("end 1", "other end 1", "third 1"), 1)
    task, made = read(file(rows.replace("A\n", "1\n").replace("B\n", "2\n").replace("C\n", "3\n")), "choice")
    assert [one.right for one in made] == [0, 1, 2, 0, 1, 2]
    task, made = read(file('question,context,answer\nwho?,"it was 他, no",他\nwhen?,never,\n'))
    assert task == "answering"
    assert [one.answers for one in made] == [(AnswerSpan(7, "他"),), ()]


def test_the_right_choice_is_counted_from_one_where_zero_never_is_right(file):
    records = [{"text": "t", "choices": ["a", "b", "c"], "label": 1 + n % 2} for n in range(30)]
    task, form, notes = detect_format(file(lines(*records)))
    assert (task, form.first) == ("choice", "1")
    assert "counted from 1" in notes[0]


def test_squad_by_its_form_not_by_its_name(file):
    told = {"data": [{"paragraphs": [{"context": "是他。", "qas": [{"id": "a", "question": "谁？", "answers": []}]}]}]}
    told["data"][0]["paragraphs"][0]["qas"][0]["answers"] = [{"text": "他", "answer_start": 1}]
    for content in (json.dumps(told), json.dumps(told, indent=2), json.dumps(told["data"])):
        assert read(file(content)) == ("answering", [QuestionExample("谁？", "是他。", (AnswerSpan(1, "他"),))])
