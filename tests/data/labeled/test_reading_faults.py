"""Bad rows are named by file, line and reason, and end the reading or are left out; nothing is swallowed in silence."""

import json

import pytest

from forebear.data.labeled.examples import AnswerSpan, QuestionExample
from forebear.data.labeled.readers import MAX_RECORD_LINES
from forebear.data.labeled.row_to_example import LabeledFormat, RejectedRow
from forebear.data.labeled.source import detect_format, read_examples
from forebear.errors import InputError

TWO = LabeledFormat("tsv", (1,), 2, width=2)
THREE = LabeledFormat("tsv", (1, 2), 3, width=3)
NAMED = LabeledFormat("tsv", ("text",), "label", header=True)
QUOTED = LabeledFormat("csv", ("text",), "label", header=True)
NUMBERS = LabeledFormat("tsv", (1,), 2, answer="number", width=2)
LISTS = LabeledFormat("tsv", (1,), 2, answer="several", width=2)
RECORDS = LabeledFormat("jsonl", ("text",), "label")
WORDS = LabeledFormat("conll", (1,), 2, width=2)
MORE = LabeledFormat("conll", (1,), 3, width=3)
LISTED = LabeledFormat("jsonl", ("words",), "tags")
CHOICES = LabeledFormat("jsonl", ("text",), "right", choices=("choices",))
LETTERS = LabeledFormat("jsonl", ("text",), "right", choices=("choices",), first="A")
SPELLED = LabeledFormat("jsonl", ("text",), "right", choices=("choices",), first="")
ASKED = LabeledFormat("jsonl", ("question", "passage"), "answer", start="start")


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
    id(TWO): "fine\tx\n",
    id(THREE): "a\tb\tx\n",
    id(NUMBERS): "a\t1\n",
    id(LISTS): 'a\t["x"]\n',
    id(NAMED): "text\tlabel\nfine\tx\n",
    id(QUOTED): "text,label\nfine,x\n",
    id(RECORDS): record(text="fine", label="x"),
    id(WORDS): "他\tO\n\n",
    id(MORE): "他 N O\n\n",
    id(LISTED): record(words=["他"], tags=["O"]),
    id(CHOICES): record(text="t", choices=["a", "b"], right=1),
    id(LETTERS): record(text="t", choices=["a", "b"], right="a"),
    id(SPELLED): record(text="t", choices=["a", "b"], right="b"),
    id(ASKED): question(answer="她", start=5),
}
TASK = {id(THREE): "pairs", id(WORDS): "tagging", id(MORE): "tagging", id(LISTED): "tagging", id(ASKED): "answering"}
TASK |= {id(form): "choice" for form in (CHOICES, LETTERS, SPELLED)}


@pytest.mark.parametrize(
    ("form", "row", "reason"),
    [
        (TWO, "alone\n", "1 column, 2 are expected"),
        (TWO, "a\ttab\tx\n", "3 columns, 2 are expected"),
        (TWO, " \tx\n", "the text is empty"),
        (TWO, "text\t \n", "there is no label"),
        (THREE, "a\t\tx\n", "the second text is empty"),
        (NUMBERS, "a\tmany\n", "'many' is no number"),
        (NUMBERS, "a\tnan\n", "'nan' is not a finite number"),
        (LISTS, "a\tx\n", "'x' is no JSON list"),
        (LISTS, 'a\t[["x"]]\n', "not one label"),
        (NAMED, "short\n", "1 column, 2 are expected"),
        (NAMED, "text\tlabel\n", "the header stands here once more"),
        (QUOTED, '"a"b,x\n', "not well-formed CSV"),
        (QUOTED, "a,b,x\n", "3 columns"),
        (RECORDS, "{'text': 1}\n", "not a JSON value"),
        (RECORDS, "[1]\n", "no JSON object"),
        (RECORDS, record(label="x"), "there is no text"),
        (RECORDS, record(text=3, label="x"), "the text is 3"),
        (RECORDS, record(text="a", label=None), "there is no label"),
        (RECORDS, record(text="a", label={"x": 1}), "not one label"),
        (RECORDS, record(text="a") + "", "there is no label"),
        (RECORDS, '{"text": "\\ud800 half", "label": "x"}\n', "half a character"),
        (RECORDS, "[" * 100_000 + "\n", "not a JSON value"),
        (WORDS, "来\n好\tO\n\n", "word 1 of the sentence, '来', has no tag"),
        (WORDS, "\tO\n\n", "the line has no word"),
        (WORDS, "a\tb\tO\n\n", "3 columns, 2 are expected"),
        (WORDS, "a\t\tO\n\n", "3 columns, 2 are expected: 'a\\t\\tO'"),
        (WORDS, "a b O\n\n", "3 columns, 2 are expected: 'a b O' (words that hold spaces need tabs"),
        (WORDS, "a O b\n\n", "3 columns, 2 are expected"),
        (WORDS, "a\tN O\n\n", "the tag 'N O' holds a space"),
        (WORDS, "a\n\n", "word 1 of the sentence, 'a', has no tag"),
        (WORDS, "a \n\n", "word 1 of the sentence, 'a', has no tag"),
        (WORDS, "a \t \n\n", "word 1 of the sentence, 'a', has no tag"),
        (MORE, "a N\tO\n\n", "2 columns, 3 are expected: 'a N\\tO' (its spaces part no columns"),
        (MORE, "a O\n\n", "2 columns, 3 are expected: 'a O'"),
        (LISTED, record(words=["a", "b"], tags=["O"]), "2 words, but the tags are 1"),
        (LISTED, record(words=["a", ""], tags=["O", "O"]), "the word is empty"),
        (LISTED, record(words=[], tags=[]), "no words"),
        (LISTED, record(words=["a"], tags=[None]), "word 1 has no tag"),
        (LISTED, record(words=["a"]), "no tags"),
        (CHOICES, record(text="t", choices=["a", ""], right=0), "choice number 2 is empty"),
        (CHOICES, record(text="t", choices=["a"], right=0), "one choice only"),
        (CHOICES, record(text="t", right=0), "no choices"),
        (CHOICES, record(text="t", choices=["a", "b"], right=2), "right choice is '2', but there are 2"),
        (CHOICES, record(text="t", choices=["a", "b"], right=-1), "right choice is '-1'"),
        (CHOICES, record(text="t", choices=["a", "b"]), "which choice is right"),
        (LETTERS, record(text="t", choices=["a", "b"], right="C"), "right choice is 'C'"),
        (SPELLED, record(text="t", choices=["a", "b"], right="c"), "none of the choices"),
        (SPELLED, record(text="t", choices=["a", "a"], right="a"), "more than one of the choices"),
        (ASKED, question(answer="它", start=1), "does not stand in its passage"),
        (ASKED, question(answer="他", start=0), "at 0, but more than once elsewhere"),
        (ASKED, question(answer="他", start="x"), "no place in the passage"),
        (ASKED, question(answer="他", start=1.5), "no place in the passage"),
        (ASKED, question(answer={"text": ["他", "她"], "answer_start": [1]}), "2 answers, but 1 places"),
        (ASKED, question(), "nobody has said"),
        (ASKED, question(passage="", answer="他"), "the passage is empty"),
    ],
)
def test_a_bad_row_is_named_and_left_out(file, form, row, reason):
    good, task = GOOD[id(form)], TASK.get(id(form), "classification")
    again = good.split("\n", 1)[1] if form.header else good
    path = file(good + row + again)
    with pytest.raises(InputError) as caught:
        list(read_examples(path, task, form))
    assert reason in caught.value.message
    assert (caught.value.file, caught.value.line) == (str(path), good.count("\n") + 1)
    assert "--on-bad-rows skip" in caught.value.hint
    bad = []
    kept = list(read_examples(path, task, form, on_bad_rows="skip", rejected=bad))
    assert len(kept) == 2
    assert [(row.file, row.line) for row in bad] == [(str(path), good.count("\n") + 1)]
    assert reason in bad[0].reason
    assert str(bad[0]).startswith(f"{path}:{good.count(chr(10)) + 1}: ")


@pytest.mark.parametrize("gap", ["\t", " ", "   ", " \t", "\t ", " \t  "])
def test_tabs_and_spaces_between_a_word_and_its_tag_are_the_same(file, gap):
    (only,) = read_examples(file(f"他{gap}O\n来\tB\n"), "tagging", WORDS)
    assert (only.words, only.tags) == (("他", "来"), ("O", "B"))


@pytest.mark.parametrize("blank", ["", "  ", "\t", " \t "])
def test_a_line_of_white_space_alone_parts_sentences(file, blank):
    assert [one.words for one in read_examples(file(f"他 O\n{blank}\n来 O\n"), "tagging", WORDS)] == [("他",), ("来",)]


def test_words_hold_spaces_where_tabs_part_columns(file):
    (only,) = read_examples(file("New York\tB\n \tO\n"), "tagging", WORDS)
    assert only.words == ("New York", " ")


def test_an_answer_that_stands_elsewhere_is_put_right_and_told(file):
    path = file(
        question(answer="她", start=0) + question(answer=[{"text": "他", "start": 1}, {"text": "它", "start": 0}])
    )
    mended = []
    first, second = read_examples(path, "answering", ASKED, repaired=mended)
    assert first.answers == (AnswerSpan(5, "她"),)
    assert second.answers == (AnswerSpan(1, "他"),)
    assert mended[0] == RejectedRow(str(path), 1, "the answer '她' begins at 5, not at 0")
    assert "left out" in mended[1].reason
    assert mended[1].line == 2


def test_what_is_bad_in_squad_is_named_by_its_id(file):
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
    (kept,) = read_examples(path, "answering", LabeledFormat("squad"), on_bad_rows="skip", rejected=bad)
    assert kept.location.name == "q3"
    assert [row.name for row in bad] == ["q1", "q2"]
    assert "half a character" in bad[1].reason


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ('{"data": [', "not JSON"),
        ('{"data": {}}', "data is"),
        ('{"data": [{"paragraphs": [{"context": "x"}]}]}', "qas is"),
        ("[]", "no examples"),
    ],
)
def test_what_is_not_of_squads_form_is_refused(file, content, what):
    with pytest.raises(InputError, match=what):
        list(read_examples(file(content), "answering", LabeledFormat("squad")))


def test_halves_of_characters_are_replaced_where_bad_bytes_are(file):
    path = file('{"text": "a\\ud800b", "label": "x"}\n{"text": "\\ud83d\\ude00", "label": "x"}\n')
    for how, text in (("replace", "a\ufffdb"), ("skip", "ab")):
        kept = list(read_examples(path, "classification", RECORDS, on_bad_bytes=how))
        assert [one.texts[0] for one in kept] == [text, "😀"]


def test_a_quote_never_closed_does_not_swallow_the_file(file):
    path = file("text,label\nfine,x\n" + '"open,x\n' + "fine,x\n" * 5)
    with pytest.raises(InputError, match="never closed") as caught:
        list(read_examples(path, "classification", QUOTED, on_bad_rows="skip"))
    assert caught.value.line == 3
    path = file("text,label\nfine,x\n" + '"open,x\n' + "fine,x\n" * 2 * MAX_RECORD_LINES + '"\n')
    with pytest.raises(InputError, match="never closed") as caught:
        list(read_examples(path, "classification", QUOTED, on_bad_rows="skip"))
    assert caught.value.line == 3


@pytest.mark.parametrize("content", ["", "\n\n", "text\tlabel\n", "text\tlabel\n\t\n \n"])
def test_nothing_is_an_error(file, content):
    with pytest.raises(InputError, match="no examples"):
        list(read_examples(file(content), "classification", NAMED))


def test_only_bad_rows_are_an_error_even_if_they_are_skipped(file):
    with pytest.raises(InputError, match="all rows are bad; this one: the text is empty") as caught:
        list(read_examples(file("\n \tx\n\ty\n"), "classification", TWO, on_bad_rows="skip"))
    assert caught.value.line == 2


def test_a_file_of_another_form_is_refused_at_its_first_row(file):
    with pytest.raises(InputError, match=r"no column called 'text'; the header is: a \| b") as caught:
        list(read_examples(file("a\tb\nx\ty\n"), "classification", NAMED))
    assert caught.value.line == 1
    with pytest.raises(InputError, match="no column called 'label'"):
        list(read_examples(file("text\nx\n"), "classification", NAMED))
    with pytest.raises(InputError, match="not a JSON array"):
        list(read_examples(file("{}"), "classification", LabeledFormat("json", ("text",), "label")))
    with pytest.raises(InputError, match="has no end") as caught:
        list(
            read_examples(
                file('[\n{"text": "a", "label": "b"}\n'), "classification", LabeledFormat("json", ("text",), "label")
            )
        )
    assert caught.value.line == 3


def test_form_and_task_must_fit(file):
    path = file("x\ty\n")
    for task, form, what in (
        ("classification", WORDS, "CoNLL"),
        ("pairs", TWO, "reads 2 columns"),
        ("choice", TWO, "no choices"),
        ("classification", CHOICES, "names choices"),
        ("guessing", TWO, "no task is called"),
    ):
        with pytest.raises(InputError, match=what):
            read_examples(path, task, form)
    with pytest.raises(InputError, match="--labels is 'maybe'"):
        read_examples(path, "classification", TWO, labels="maybe")
    with pytest.raises(ValueError, match="no labels that could be known"):
        read_examples(path, "answering", ASKED, known_labels=["x"])


def test_a_label_nobody_knows_is_bad_where_labels_are_known(file):
    path = file("a\tx\nb\tyy\nc\tx\n")
    with pytest.raises(InputError, match="the label 'yy' is not among those that are known: x, y") as caught:
        list(read_examples(path, "classification", TWO, known_labels=["y", "x"]))
    assert caught.value.line == 2
    bad = []
    assert (
        len(list(read_examples(path, "classification", TWO, known_labels=["x"], on_bad_rows="skip", rejected=bad))) == 2
    )
    assert [row.line for row in bad] == [2]
    assert len(list(read_examples(path, "classification", TWO, known_labels=["x"], labels="absent"))) == 3
    with pytest.raises(InputError, match="the tag 'B-X' is not among"):
        list(read_examples(file("他\tB-X\n"), "tagging", WORDS, known_labels=["O"]))


def test_marks_line_ends_and_nul_are_no_part_of_labels(file):
    path = file("\ufefftext\tlabel\r\n好\x00看\tx\r\n“a\tx\r\n")
    task, form, _ = detect_format(path)
    assert form.texts == ("text",)
    kept = list(read_examples(path, task, form))
    assert [(one.texts[0], one.label) for one in kept] == [("好\x00看", "x"), ("“a", "x")]


def test_bad_bytes_are_named_or_mended(file):
    path = file("好\t1\n".encode() + b"\xff\t0\n")
    with pytest.raises(InputError, match="0xff"):
        list(read_examples(path, "classification", TWO))
    assert [one.texts[0] for one in read_examples(path, "classification", TWO, on_bad_bytes="replace")] == [
        "好",
        "\ufffd",
    ]


def test_an_example_of_each_kind_says_where_it_stands(file):
    for form in (TWO, NAMED, QUOTED, RECORDS, WORDS, LISTED, CHOICES, ASKED):
        path = file(GOOD[id(form)] + "\n")
        (one,) = read_examples(path, TASK.get(id(form), "classification"), form)
        assert (one.location.file, one.location.line) == (str(path), 1 + form.header)
        assert not isinstance(one, QuestionExample) or one.answers == (AnswerSpan(5, "她"),)
