"""Real labelled data is read without any option, as outside truth has it; other files of a task are read alike."""

import csv
import io
import json
import tracemalloc
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forebear.data.labeled.examples import AnswerSpan, ExampleLocation, LabeledExample, TaggedExample
from forebear.data.labeled.row_to_example import LabeledFormat, make_labeled, make_location
from forebear.data.labeled.source import detect_format, read_examples

TWO = LabeledFormat("tsv", (1,), 2, width=2)


@pytest.fixture
def file(tmp_path):
    def write(content, name="data.txt"):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


@pytest.mark.parametrize(
    ("path", "texts", "label", "counts"),
    [
        ("sst2/train.tsv", (1,), 2, {"0": 3310, "1": 3610}),
        ("sst2/dev.tsv", (1,), 2, {"0": 428, "1": 444}),
        ("sst2/test.tsv", (1,), 2, {"0": 912, "1": 909}),
        ("chnsenticorp/train.tsv", ("text_a",), "label", {"0": 4801, "1": 4799}),
        ("chnsenticorp/dev.tsv", ("text_a",), "label", {"0": 607, "1": 593}),
        ("mrpc/msr_paraphrase_train.txt", ("#1 String", "#2 String"), "Quality", {"0": 1323, "1": 2753}),
        ("mrpc/msr_paraphrase_test.txt", ("#1 String", "#2 String"), "Quality", {"0": 578, "1": 1147}),
        ("afqmc/dev.txt", (1, 2), 3, {"0": 2978, "1": 1338}),
    ],
)
def test_real_tables_are_what_another_reader_and_the_papers_say(data, path, texts, label, counts):
    path = data / "tasks" / path
    task, form, _ = detect_format(path)
    assert (task, form.texts, form.label) == ("pairs" if len(texts) == 2 else "classification", texts, label)
    kept = list(read_examples(path, task, form))
    with open(path, encoding="utf-8-sig", newline="") as written:
        rows = list(csv.reader(written, delimiter="\t", quoting=csv.QUOTE_NONE))
    header = rows.pop(0) if form.header else [*range(1, len(rows[0]) + 1)]
    at = {name: place for place, name in enumerate(header)}
    assert [example.label for example in kept] == [row[at[label]] for row in rows]
    assert [example.texts for example in kept] == [tuple(row[at[text]] for text in texts) for row in rows]
    assert Counter(example.label for example in kept) == counts


def test_a_real_file_without_labels_is_read_by_the_form_of_one_with_labels(data):
    folder = data / "tasks/afqmc"
    task, form, _ = detect_format(folder / "train.txt")
    kept = list(read_examples(folder / "test.txt", task, form, labels="optional"))
    assert len(kept) == 3861
    assert all(example.label is None and len(example.texts) == 2 for example in kept)
    assert detect_format(folder / "test.txt").task == "pairs"
    assert detect_format(folder / "test.txt").file_format.label is None


@pytest.mark.parametrize(
    ("path", "sentences", "words", "entities"),
    [
        ("wnut17/wnut17train.conll", 3394, 62730, 1975),  # as its paper counts them
        ("wnut17/emerging.dev.conll", 1009, 15733, 836),
        ("wnut17/emerging.test.annotated", 1287, 23394, 1079),
        ("msra_ner/test.txt", 3442, 172601, None),
    ],
)
def test_real_words_and_tags(data, path, sentences, words, entities):
    path = data / "tasks" / path
    task, form, _ = detect_format(path)
    kept = list(read_examples(path, task, form))
    assert (task, len(kept), sum(len(one.words) for one in kept)) == ("tagging", sentences, words)
    if entities is not None:
        assert sum(tag.startswith("B-") for one in kept for tag in one.tags) == entities
    lines = path.read_text(encoding="utf-8").split("\n")
    for one in kept[::50]:
        assert lines[one.location.line - 1].split("\t") == [one.words[0], one.tags[0]]


def test_a_train_file_of_spaces_and_a_test_file_of_tabs_are_read_by_one_form(data, file):
    folder = data / "tasks/msra_ner"
    with open(folder / "train.txt", encoding="utf-8") as whole:
        task, form, _ = detect_format(file(whole.read(100_000).rpartition("\n\n")[0]))
    assert len(list(read_examples(folder / "test.txt", task, form))) == 3442


@pytest.mark.parametrize(
    ("path", "count", "bad", "mended"),
    [("squad/dev-v1.1.json", 10570, 0, 0), ("cmrc2018/train.json", 10142, 1, 20), ("cmrc2018/dev.json", 3219, 0, 200)],
)
def test_real_questions(data, path, count, bad, mended):
    path = data / "tasks" / path
    task, form, _ = detect_format(path)
    left_out, put_right = [], []
    kept = list(read_examples(path, task, form, on_bad_rows="skip", rejected=left_out, repaired=put_right))
    assert (task, len(kept) + len(left_out), len(left_out), len(put_right)) == ("answering", count, bad, mended)
    for one in kept:
        assert one.answers
        assert all(one.passage[span.start :].startswith(span.text) for span in one.answers)
    told = json.loads(path.read_text(encoding="utf-8"))["data"]
    asked = {q["id"]: (p["context"], q) for a in told for p in a["paragraphs"] for q in p["qas"]}
    assert {row.name for row in left_out} | {one.location.name for one in kept} == set(asked)
    moved = {row.name for row in put_right}
    for one in kept:
        passage, question = asked[one.location.name]
        assert (one.passage, one.question) == (passage, question["question"])
        if one.location.name not in moved:
            assert one.answers == tuple(AnswerSpan(it["answer_start"], it["text"]) for it in question["answers"])


def test_squad_2_marks_what_cannot_be_answered(file):
    questions = [
        {"id": "a", "question": "who", "answers": [{"text": "he", "answer_start": 0}], "is_impossible": False},
        {"id": "c", "question": "who", "answers": [{"text": "she", "answer_start": 0}], "is_impossible": True},
        {"id": "b", "question": "who", "answers": [], "plausible_answers": [{"text": "he"}], "is_impossible": True},
    ]
    path = file(json.dumps({"version": "v2.0", "data": [{"paragraphs": [{"context": "he", "qas": questions}]}]}))
    for labels in ("wanted", "optional"):
        answers = [one.answers for one in read_examples(path, "answering", LabeledFormat("squad"), labels=labels)]
        assert answers == [(AnswerSpan(0, "he"),), (), ()]
    assert [one.answers for one in read_examples(path, "answering", LabeledFormat("squad"), labels="absent")] == [
        None
    ] * 3


def test_labels_that_are_optional_or_not_read(file):
    path = file("good\tx\nso so\t\nfine\nbad\ty\n")
    assert [one.label for one in read_examples(path, "classification", TWO, labels="optional")] == [
        "x",
        None,
        None,
        "y",
    ]
    assert [one.label for one in read_examples(path, "classification", TWO, labels="absent")] == [None] * 4
    path = file("one\ttwo\nthree\tfour\n")
    for texts, label in (((2, 3), 1), ((1, 3), 2), ((1, 2), 3)):
        kept = list(read_examples(path, "pairs", LabeledFormat("tsv", texts, label, width=3), labels="absent"))
        assert [one.texts for one in kept] == [("one", "two"), ("three", "four")]
    named = LabeledFormat("tsv", ("text",), "label", header=True)
    path = file("text\tid\nfine\t3\n")
    assert [one.label for one in read_examples(path, "classification", named, labels="optional")] == [None]
    path = file("他\n来\n\n好\tO\n")
    words = LabeledFormat("conll", (1,), 2, width=2)
    tags = [one.tags for one in read_examples(path, "tagging", words, labels="optional")]
    assert tags == [None, ("O",)]


def test_columns_are_found_by_name_in_any_order_and_rows_keep_their_names(file):
    form = detect_format(file("id,text,label\n7,some text,x\n8,other text,y\n")).file_format
    (one,) = read_examples(file("extra,label,id,text\nz,x,9,moved\n"), "classification", form)
    assert one == LabeledExample(("moved",), "x", ExampleLocation(str(one.location.file), 2, "9"))


def test_order_and_places_are_kept_over_blocks(file):
    count = 60_000  # more than a block of text
    path = file("".join(f"第{n}句话，说的是第{n}件事\t{n % 7}\n" + "\n" * (n % 5 == 0) for n in range(count)))
    at = 1
    for n, one in enumerate(read_examples(path, "classification", TWO)):
        assert one == LabeledExample((f"第{n}句话，说的是第{n}件事",), str(n % 7), ExampleLocation(str(path), at))
        at += 1 + (n % 5 == 0)
    assert n == count - 1


def test_memory_does_not_grow_with_the_file(file):
    def peak(rows):
        path = file(f"{'some text that is as long as a page. ' * 20}\tlabel\n" * rows)
        tracemalloc.start()
        count = sum(1 for _ in read_examples(path, "classification", TWO))
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert count == rows
        return most

    assert peak(20_000) < 1.2 * peak(10_000)  # of 15 and of 7 million characters


def test_swift_making_makes_the_same():
    place = make_location("f", 3, None)
    assert place == ExampleLocation("f", 3)
    assert hash(place) == hash(ExampleLocation("f", 3))
    made = make_labeled(("a",), "x", place)
    assert made == LabeledExample(("a",), "x", ExampleLocation("f", 3))
    with pytest.raises(AttributeError):
        made.label = "y"


CELLS = st.text(st.characters(codec="utf-8", exclude_characters="\r\x00"), min_size=1).filter(str.strip)
LABELS = st.sampled_from(["好", "bad", "a b"])


@settings(max_examples=50)
@given(st.lists(st.tuples(CELLS, CELLS, LABELS), min_size=1), st.sampled_from(",;|\t"))
def test_what_csv_writes_is_read_back(tmp_path_factory, rows, delimiter):
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter).writerows(rows)
    path = tmp_path_factory.mktemp("csv") / "rows.csv"
    path.write_bytes(out.getvalue().encode())
    form = LabeledFormat("csv", (1, 2), 3, width=3, delimiter=delimiter)
    kept = list(read_examples(path, "pairs", form))
    rows = [(a.removeprefix("\ufeff") if n == 0 else a, b, label) for n, (a, b, label) in enumerate(rows)]
    assert [(*one.texts, one.label) for one in kept] == rows


@settings(max_examples=50)
@given(
    st.lists(st.lists(st.tuples(st.sampled_from(["他", "　", "a-b", '"', "#"]), st.sampled_from("OBI")), min_size=1))
)
def test_sentences_are_read_back(tmp_path_factory, sentences):
    path = tmp_path_factory.mktemp("conll") / "words.txt"
    for gap in "\t", " ":
        blocks = ["".join(f"{word}{gap}{tag}\n" for word, tag in sentence) for sentence in sentences]
        path.write_text("\n".join(blocks) or "-DOCSTART-\tO\n\n他\tO\n", encoding="utf-8")
        kept = list(read_examples(path, "tagging", LabeledFormat("conll", (1,), 2, width=2)))
        expected = sentences or [[("他", "O")]]
        assert [list(zip(one.words, one.tags, strict=True)) for one in kept] == expected
        assert all(isinstance(one, TaggedExample) for one in kept)
