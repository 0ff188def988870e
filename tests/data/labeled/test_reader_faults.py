"""Bad rows of labeled files are named by file, line and reason, and refused or skipped; none is dropped silently."""

import json

import pytest

from forebear.data.labeled.examples import AnswerSpan, QuestionExample
from forebear.data.labeled.labeled_format import LabeledFormat, RejectedRow
from forebear.data.labeled.load import detect_format, read_examples
from forebear.data.labeled.readers import MAX_RECORD_LINES
from forebear.errors import InputError

TSV = LabeledFormat("tsv", (1,), 2, width=2)
TSV_PAIRS = LabeledFormat("tsv", (1, 2), 3, width=3)
TSV_WITH_HEADER = LabeledFormat("tsv", ("text",), "label", header=True)
CSV = LabeledFormat("csv", ("text",), "label", header=True)
NUMBERS = LabeledFormat("tsv", (1,), 2, answer="number", width=2)
LISTS = LabeledFormat("tsv", (1,), 2, answer="several", width=2)
JSONL = LabeledFormat("jsonl", ("text",), "label")
CONLL = LabeledFormat("conll", (1,), 2, width=2)
CONLL_OF_THREE = LabeledFormat("conll", (1,), 3, width=3)
WORD_LISTS = LabeledFormat("jsonl", ("words",), "tags")
CHOICES = LabeledFormat("jsonl", ("text",), "right", choices=("choices",))
LETTERS = LabeledFormat("jsonl", ("text",), "right", choices=("choices",), first="A")
SPELLED = LabeledFormat("jsonl", ("text",), "right", choices=("choices",), first="")
QUESTIONS = LabeledFormat("jsonl", ("question", "passage"), "answer", start="start")


@pytest.fixture
def file(tmp_path):
    def write(content, name="data.txt"):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def record(**fields):
    return json.dumps(fields, ensure_ascii=False) + "\n"


def question(passage="是他，不是她。他！", **fields):
    return record(question="谁？", passage=passage, **fields)


GOOD = {
    id(TSV): "fine\tx\n",
    id(TSV_PAIRS): "a\tb\tx\n",
    id(NUMBERS): "a\t1\n",
    id(LISTS): 'a\t["x"]\n',
    id(TSV_WITH_HEADER): "text\tlabel\nfine\tx\n",
    id(CSV): "text,label\nfine,x\n",
    id(JSONL): record(text="fine", label="x"),
    id(CONLL): "他\tO\n\n",
    id(CONLL_OF_THREE): "他 N O\n\n",
    id(WORD_LISTS): record(words=["他"], tags=["O"]),
    id(CHOICES): record(text="t", choices=["a", "b"], right=1),
    id(LETTERS): record(text="t", choices=["a", "b"], right="a"),
    id(SPELLED): record(text="t", choices=["a", "b"], right="b"),
    id(QUESTIONS): question(answer="她", start=5),
}
TASK = {
    id(TSV_PAIRS): "pairs",
    id(CONLL): "tagging",
    id(CONLL_OF_THREE): "tagging",
    id(WORD_LISTS): "tagging",
    id(QUESTIONS): "answering",
}
TASK |= {id(form): "choice" for form in (CHOICES, LETTERS, SPELLED)}


@pytest.mark.parametrize(
    ("form", "row", "reason"),
    [
        (TSV, "alone\n", "1 column, 2 are expected"),
        (TSV, "a\ttab\tx\n", "3 columns, 2 are expected"),
        (TSV, " \tx\n", "the text is empty"),
        (TSV, "text\t \n", "there is no label"),
        (TSV_PAIRS, "a\t\tx\n", "the second text is empty"),
        (NUMBERS, "a\tmany\n", "'many' is no number"),
        (NUMBERS, "a\tnan\n", "'nan' is not a finite number"),
        (LISTS, "a\tx\n", "'x' is no JSON list"),
        (LISTS, 'a\t[["x"]]\n', "not one label"),
        (TSV_WITH_HEADER, "short\n", "1 column, 2 are expected"),
        (TSV_WITH_HEADER, "text\tlabel\n", "the header stands here once more"),
        (CSV, '"a"b,x\n', "not well-formed CSV"),
        (CSV, "a,b,x\n", "3 columns"),
        (JSONL, "{'text': 1}\n", "not a JSON value"),
        (JSONL, "[1]\n", "no JSON object"),
        (JSONL, record(label="x"), "there is no text"),
        (JSONL, record(text=3, label="x"), "the text is 3"),
        (JSONL, record(text="a", label=None), "there is no label"),
        (JSONL, record(text="a", label={"x": 1}), "not one label"),
        (JSONL, record(text="a") + "", "there is no label"),
        (JSONL, '{"text": "\\ud800 half", "label": "x"}\n', "half a character"),
        (JSONL, "[" * 100_000 + "\n", "not a JSON value"),
        (CONLL, "来\n好\tO\n\n", "word 1 of the sentence, '来', has no tag"),
        (CONLL, "\tO\n\n", "the line has no word"),
        (CONLL, "a\tb\tO\n\n", "3 columns, 2 are expected"),
        (CONLL, "a\t\tO\n\n", "3 columns, 2 are expected: 'a\\t\\tO'"),
        (CONLL, "a b O\n\n", "3 columns, 2 are expected: 'a b O' (words that hold spaces need tabs"),
        (CONLL, "a O b\n\n", "3 columns, 2 are expected"),
        (CONLL, "a\tN O\n\n", "the tag 'N O' holds a space"),
        (CONLL, "a\n\n", "word 1 of the sentence, 'a', has no tag"),
        (CONLL, "a \n\n", "word 1 of the sentence, 'a', has no tag"),
        (CONLL, "a \t \n\n", "word 1 of the sentence, 'a', has no tag"),
        (CONLL_OF_THREE, "a N\tO\n\n", "2 columns, 3 are expected: 'a N\\tO' (its spaces part no columns"),
        (CONLL_OF_THREE, "a O\n\n", "2 columns, 3 are expected: 'a O'"),
        (WORD_LISTS, record(words=["a", "b"], tags=["O"]), "2 words, but the tags are 1"),
        (WORD_LISTS, record(words=["a", ""], tags=["O", "O"]), "the word is empty"),
        (WORD_LISTS, record(words=[], tags=[]), "no words"),
        (WORD_LISTS, record(words=["a"], tags=[None]), "word 1 has no tag"),
        (WORD_LISTS, record(words=["a"]), "no tags"),
        (CHOICES, record(text="t", choices=["a", ""], right=0), "choice number 2 is empty"),
        (CHOICES, record(text="t", choices=["a"], right=0), "one choice only"),
        (CHOICES, record(text="t", right=0), "no choices"),
        (CHOICES, record(text="t", choices=["a", "b"], right=2), "right choice is '2', but there are 2"),
        (CHOICES, record(text="t", choices=["a", "b"], right=-1), "right choice is '-1'"),
        (CHOICES, record(text="t", choices=["a", "b"]), "which choice is right"),
        (LETTERS, record(text="t", choices=["a", "b"], right="C"), "right choice is 'C'"),
        (SPELLED, record(text="t", choices=["a", "b"], right="c"), "none of the choices"),
        (SPELLED, record(text="t", choices=["a", "a"], right="a"), "more than one of the choices"),
        (QUESTIONS, question(answer="它", start=1), "does not stand in its passage"),
        (QUESTIONS, question(answer="他", start=0), "at 0, but more than once elsewhere"),
        (QUESTIONS, question(answer="他", start="x"), "no place in the passage"),
        (QUESTIONS, question(answer="他", start=1.5), "no place in the passage"),
        (QUESTIONS, question(answer={"text": ["他", "她"], "answer_start": [1]}), "2 answers, but 1 places"),
        (QUESTIONS, question(), "nobody has said"),
        (QUESTIONS, question(passage="", answer="他"), "the passage is empty"),
    ],
)
def test_bad_row_is_refused_or_skipped_with_its_line(file, form, row, reason):
    good, task = GOOD[id(form)], TASK.get(id(form), "classification")
    rest = good.split("\n", 1)[1] if form.header else good
    path = file(good + row + rest)
    with pytest.raises(InputError) as caught:
        list(read_examples(path, task, form))
    assert reason in caught.value.message
    assert (caught.value.file, caught.value.line) == (str(path), good.count("\n") + 1)
    assert "--on-bad-rows skip" in caught.value.hint
    bad = []
    examples = list(read_examples(path, task, form, on_bad_rows="skip", rejected=bad))
    assert len(examples) == 2
    assert [(row.file, row.line) for row in bad] == [(str(path), good.count("\n") + 1)]
    assert reason in bad[0].reason
    assert str(bad[0]).startswith(f"{path}:{good.count(chr(10)) + 1}: ")


@pytest.mark.parametrize("gap", ["\t", " ", "   ", " \t", "\t ", " \t  "])
def test_tabs_and_spaces_separate_word_and_tag_alike(file, gap):
    (example,) = read_examples(file(f"他{gap}O\n来\tB\n"), "tagging", CONLL)
    assert (example.words, example.tags) == (("他", "来"), ("O", "B"))


@pytest.mark.parametrize("blank", ["", "  ", "\t", " \t "])
def test_blank_line_separates_sentences(file, blank):
    assert [example.words for example in read_examples(file(f"他 O\n{blank}\n来 O\n"), "tagging", CONLL)] == [
        ("他",),
        ("来",),
    ]


def test_words_may_hold_spaces_where_tabs_separate_columns(file):
    (example,) = read_examples(file("New York\tB\n \tO\n"), "tagging", CONLL)
    assert example.words == ("New York", " ")


def test_misplaced_answer_is_repaired_or_dropped_and_reported(file):
    path = file(
        question(answer="她", start=0) + question(answer=[{"text": "他", "start": 1}, {"text": "它", "start": 0}])
    )
    repaired = []
    first, second = read_examples(path, "answering", QUESTIONS, repaired=repaired)
    assert first.answers == (AnswerSpan(5, "她"),)
    assert second.answers == (AnswerSpan(1, "他"),)
    assert repaired[0] == RejectedRow(str(path), 1, "the answer '她' begins at 5, not at 0")
    assert "left out" in repaired[1].reason
    assert repaired[1].line == 2


def test_bad_squad_question_is_named_by_its_id(file):
    questions = [
        {"id": "q1", "question": "谁？", "answers": [{"text": "它", "answer_start": 0}]},
        {"id": "q2", "question": "谁？", "answers": [{"text": "\ud800", "answer_start": 0}]},
        {"id": "q3", "question": "谁？", "answers": [{"text": "他", "answer_start": 1}]},
    ]
    path = file(json.dumps({"data": [{"paragraphs": [{"context": "是他。", "qas": questions}]}]}))
    with pytest.raises(InputError, match="'q1': the answer '它' does not stand in its passage") as caught:
        list(read_examples(path, "answering", LabeledFormat("squad")))
    assert caught.value.line is None
    bad = []
    (example,) = read_examples(path, "answering", LabeledFormat("squad"), on_bad_rows="skip", rejected=bad)
    assert example.location.name == "q3"
    assert [row.name for row in bad] == ["q1", "q2"]
    assert "half a character" in bad[1].reason


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"data": [', "not JSON"),
        ('{"data": {}}', "data is"),
        ('{"data": [{"paragraphs": [{"context": "x"}]}]}', "qas is"),
        ("[]", "no examples"),
    ],
)
def test_malformed_squad_is_refused(file, content, message):
    with pytest.raises(InputError, match=message):
        list(read_examples(file(content), "answering", LabeledFormat("squad")))


def test_lone_surrogates_follow_on_bad_bytes(file):
    path = file('{"text": "a\\ud800b", "label": "x"}\n{"text": "\\ud83d\\ude00", "label": "x"}\n')
    for policy, text in (("replace", "a\ufffdb"), ("skip", "ab")):
        examples = list(read_examples(path, "classification", JSONL, on_bad_bytes=policy))
        assert [example.texts[0] for example in examples] == [text, "😀"]


def test_unclosed_quote_is_refused_at_its_line(file):
    path = file("text,label\nfine,x\n" + '"open,x\n' + "fine,x\n" * 5)
    with pytest.raises(InputError, match="never closed") as caught:
        list(read_examples(path, "classification", CSV, on_bad_rows="skip"))
    assert caught.value.line == 3
    path = file("text,label\nfine,x\n" + '"open,x\n' + "fine,x\n" * 2 * MAX_RECORD_LINES + '"\n')
    with pytest.raises(InputError, match="never closed") as caught:
        list(read_examples(path, "classification", CSV, on_bad_rows="skip"))
    assert caught.value.line == 3


@pytest.mark.parametrize("content", ["", "\n\n", "text\tlabel\n", "text\tlabel\n\t\n \n"])
def test_file_without_examples_is_refused(file, content):
    with pytest.raises(InputError, match="no examples"):
        list(read_examples(file(content), "classification", TSV_WITH_HEADER))


def test_file_of_bad_rows_only_is_refused_even_with_skip(file):
    with pytest.raises(InputError, match="all rows are bad; this one: the text is empty") as caught:
        list(read_examples(file("\n \tx\n\ty\n"), "classification", TSV, on_bad_rows="skip"))
    assert caught.value.line == 2


def test_file_of_another_format_is_refused_at_its_first_row(file):
    with pytest.raises(InputError, match=r"no column called 'text'; the header is: a \| b") as caught:
        list(read_examples(file("a\tb\nx\ty\n"), "classification", TSV_WITH_HEADER))
    assert caught.value.line == 1
    with pytest.raises(InputError, match="no column called 'label'"):
        list(read_examples(file("text\nx\n"), "classification", TSV_WITH_HEADER))
    with pytest.raises(InputError, match="not a JSON array"):
        list(read_examples(file("{}"), "classification", LabeledFormat("json", ("text",), "label")))
    with pytest.raises(InputError, match="has no end") as caught:
        list(
            read_examples(
                file('[\n{"text": "a", "label": "b"}\n'), "classification", LabeledFormat("json", ("text",), "label")
            )
        )
    assert caught.value.line == 3


def test_format_that_does_not_fit_the_task_is_refused(file):
    path = file("x\ty\n")
    for task, form, message in (
        ("classification", CONLL, "CoNLL"),
        ("pairs", TSV, "reads 2 columns"),
        ("choice", TSV, "no choices"),
        ("classification", CHOICES, "names choices"),
        ("guessing", TSV, "no task is called"),
    ):
        with pytest.raises(InputError, match=message):
            read_examples(path, task, form)
    with pytest.raises(InputError, match="--labels is 'maybe'"):
        read_examples(path, "classification", TSV, labels="maybe")
    with pytest.raises(ValueError, match="no labels that could be known"):
        read_examples(path, "answering", QUESTIONS, known_labels=["x"])


def test_label_outside_the_known_ones_is_a_bad_row(file):
    path = file("a\tx\nb\tyy\nc\tx\n")
    with pytest.raises(InputError, match="the label 'yy' is not among those that are known: x, y") as caught:
        list(read_examples(path, "classification", TSV, known_labels=["y", "x"]))
    assert caught.value.line == 2
    bad = []
    assert (
        len(list(read_examples(path, "classification", TSV, known_labels=["x"], on_bad_rows="skip", rejected=bad))) == 2
    )
    assert [row.line for row in bad] == [2]
    assert len(list(read_examples(path, "classification", TSV, known_labels=["x"], labels="absent"))) == 3
    with pytest.raises(InputError, match="the tag 'B-X' is not among"):
        list(read_examples(file("他\tB-X\n"), "tagging", CONLL, known_labels=["O"]))


def test_byte_order_mark_line_ends_and_nul_are_not_part_of_labels(file):
    path = file("\ufefftext\tlabel\r\n好\x00看\tx\r\n“a\tx\r\n")
    task, form, _ = detect_format(path)
    assert form.texts == ("text",)
    examples = list(read_examples(path, task, form))
    assert [(example.texts[0], example.label) for example in examples] == [("好\x00看", "x"), ("“a", "x")]


def test_undecodable_bytes_are_refused_or_replaced(file):
    path = file("好\t1\n".encode() + b"\xff\t0\n")
    with pytest.raises(InputError, match="0xff"):
        list(read_examples(path, "classification", TSV))
    assert [example.texts[0] for example in read_examples(path, "classification", TSV, on_bad_bytes="replace")] == [
        "好",
        "\ufffd",
    ]


def test_every_example_has_its_file_and_line(file):
    for form in (TSV, TSV_WITH_HEADER, CSV, JSONL, CONLL, WORD_LISTS, CHOICES, QUESTIONS):
        path = file(GOOD[id(form)] + "\n")
        (example,) = read_examples(path, TASK.get(id(form), "classification"), form)
        assert (example.location.file, example.location.line) == (str(path), 1 + form.header)
        assert not isinstance(example, QuestionExample) or example.answers == (AnswerSpan(5, "她"),)
