"""Labeled files: real data sets are read without options as independent counts have it; other files of a task alike."""

import csv
import io
import json
import tracemalloc
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forebear.data.labeled.examples import AnswerSpan, ExampleLocation, LabeledExample, TaggedExample
from forebear.data.labeled.labeled_format import LabeledFormat
from forebear.data.labeled.load import detect_format, read_examples
from forebear.data.labeled.row_to_example import make_labeled, make_location

TSV = LabeledFormat("tsv", (1,), 2, width=2)


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
def test_real_tables_match_the_csv_module_and_published_counts(data, path, texts, label, counts):
    path = data / "tasks" / path
    task, form, _ = detect_format(path)
    assert (task, form.texts, form.label) == ("pairs" if len(texts) == 2 else "classification", texts, label)
    examples = list(read_examples(path, task, form))
    with open(path, encoding="utf-8-sig", newline="") as text_file:
        rows = list(csv.reader(text_file, delimiter="\t", quoting=csv.QUOTE_NONE))
    header = rows.pop(0) if form.header else [*range(1, len(rows[0]) + 1)]
    column = {name: index for index, name in enumerate(header)}
    assert [example.label for example in examples] == [row[column[label]] for row in rows]
    assert [example.texts for example in examples] == [tuple(row[column[text]] for text in texts) for row in rows]
    assert Counter(example.label for example in examples) == counts


def test_unlabeled_file_is_read_by_the_format_of_a_labeled_one(data):
    folder = data / "tasks/afqmc"
    task, form, _ = detect_format(folder / "train.txt")
    examples = list(read_examples(folder / "test.txt", task, form, labels="optional"))
    assert len(examples) == 3861
    assert all(example.label is None and len(example.texts) == 2 for example in examples)
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
def test_real_tagged_files_match_published_counts(data, path, sentences, words, entities):
    path = data / "tasks" / path
    task, form, _ = detect_format(path)
    examples = list(read_examples(path, task, form))
    assert (task, len(examples), sum(len(example.words) for example in examples)) == ("tagging", sentences, words)
    if entities is not None:
        assert sum(tag.startswith("B-") for example in examples for tag in example.tags) == entities
    lines = path.read_text(encoding="utf-8").split("\n")
    for example in examples[::50]:
        assert lines[example.location.line - 1].split("\t") == [example.words[0], example.tags[0]]


def test_format_of_a_space_separated_file_reads_a_tab_separated_one(data, file):
    folder = data / "tasks/msra_ner"
    with open(folder / "train.txt", encoding="utf-8") as train_file:
        task, form, _ = detect_format(file(train_file.read(100_000).rpartition("\n\n")[0]))
    assert len(list(read_examples(folder / "test.txt", task, form))) == 3442


@pytest.mark.parametrize(
    ("path", "count", "num_bad", "num_repaired"),
    [("squad/dev-v1.1.json", 10570, 0, 0), ("cmrc2018/train.json", 10142, 1, 20), ("cmrc2018/dev.json", 3219, 0, 200)],
)
def test_real_question_files_match_their_json(data, path, count, num_bad, num_repaired):
    path = data / "tasks" / path
    task, form, _ = detect_format(path)
    bad_rows, repaired_rows = [], []
    examples = list(read_examples(path, task, form, on_bad_rows="skip", rejected=bad_rows, repaired=repaired_rows))
    assert (task, len(examples) + len(bad_rows), len(bad_rows), len(repaired_rows)) == (
        "answering",
        count,
        num_bad,
        num_repaired,
    )
    for example in examples:
        assert example.answers
        assert all(example.passage[span.start :].startswith(span.text) for span in example.answers)
    articles = json.loads(path.read_text(encoding="utf-8"))["data"]
    questions = {q["id"]: (p["context"], q) for a in articles for p in a["paragraphs"] for q in p["qas"]}
    assert {row.name for row in bad_rows} | {example.location.name for example in examples} == set(questions)
    moved = {row.name for row in repaired_rows}
    for example in examples:
        passage, question = questions[example.location.name]
        assert (example.passage, example.question) == (passage, question["question"])
        if example.location.name not in moved:
            assert example.answers == tuple(
                AnswerSpan(answer["answer_start"], answer["text"]) for answer in question["answers"]
            )


def test_squad_2_unanswerable_questions_have_no_answers(file):
    questions = [
        {"id": "a", "question": "who", "answers": [{"text": "he", "answer_start": 0}], "is_impossible": False},
        {"id": "c", "question": "who", "answers": [{"text": "she", "answer_start": 0}], "is_impossible": True},
        {"id": "b", "question": "who", "answers": [], "plausible_answers": [{"text": "he"}], "is_impossible": True},
    ]
    path = file(json.dumps({"version": "v2.0", "data": [{"paragraphs": [{"context": "he", "qas": questions}]}]}))
    for labels in ("required", "optional"):
        answers = [
            example.answers for example in read_examples(path, "answering", LabeledFormat("squad"), labels=labels)
        ]
        assert answers == [(AnswerSpan(0, "he"),), (), ()]
    assert [
        example.answers for example in read_examples(path, "answering", LabeledFormat("squad"), labels="absent")
    ] == [None] * 3


def test_labels_may_be_optional_or_absent(file):
    path = file("good\tx\nso so\t\nfine\nbad\ty\n")
    assert [example.label for example in read_examples(path, "classification", TSV, labels="optional")] == [
        "x",
        None,
        None,
        "y",
    ]
    assert [example.label for example in read_examples(path, "classification", TSV, labels="absent")] == [None] * 4
    path = file("one\ttwo\nthree\tfour\n")
    for texts, label in (((2, 3), 1), ((1, 3), 2), ((1, 2), 3)):
        examples = list(read_examples(path, "pairs", LabeledFormat("tsv", texts, label, width=3), labels="absent"))
        assert [example.texts for example in examples] == [("one", "two"), ("three", "four")]
    with_header = LabeledFormat("tsv", ("text",), "label", header=True)
    path = file("text\tid\nfine\t3\n")
    assert [example.label for example in read_examples(path, "classification", with_header, labels="optional")] == [
        None
    ]
    path = file("他\n来\n\n好\tO\n")
    conll = LabeledFormat("conll", (1,), 2, width=2)
    tags = [example.tags for example in read_examples(path, "tagging", conll, labels="optional")]
    assert tags == [None, ("O",)]


def test_columns_are_found_by_name_in_any_order(file):
    form = detect_format(file("id,text,label\n7,some text,x\n8,other text,y\n")).file_format
    (example,) = read_examples(file("extra,label,id,text\nz,x,9,moved\n"), "classification", form)
    assert example == LabeledExample(("moved",), "x", ExampleLocation(str(example.location.file), 2, "9"))


def test_order_and_lines_are_kept_across_blocks(file):
    count = 60_000  # more than a block of text
    path = file("".join(f"第{n}句话，说的是第{n}件事\t{n % 7}\n" + "\n" * (n % 5 == 0) for n in range(count)))
    line = 1
    for n, example in enumerate(read_examples(path, "classification", TSV)):
        assert example == LabeledExample((f"第{n}句话，说的是第{n}件事",), str(n % 7), ExampleLocation(str(path), line))
        line += 1 + (n % 5 == 0)
    assert n == count - 1


def test_memory_does_not_grow_with_the_file(file):
    def peak(rows):
        path = file(f"{'some text that is as long as a page. ' * 20}\tlabel\n" * rows)
        tracemalloc.start()
        count = sum(1 for _ in read_examples(path, "classification", TSV))
        peak_bytes = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert count == rows
        return peak_bytes

    assert peak(20_000) < 1.2 * peak(10_000)  # of 15 and of 7 million characters


def test_fast_constructors_equal_the_dataclasses():
    location = make_location("f", 3, None)
    assert location == ExampleLocation("f", 3)
    assert hash(location) == hash(ExampleLocation("f", 3))
    example = make_labeled(("a",), "x", location)
    assert example == LabeledExample(("a",), "x", ExampleLocation("f", 3))
    with pytest.raises(AttributeError):
        example.label = "y"


CELLS = st.text(st.characters(codec="utf-8", exclude_characters="\r\x00"), min_size=1).filter(str.strip)
LABELS = st.sampled_from(["好", "bad", "a b"])


@settings(max_examples=50)
@given(st.lists(st.tuples(CELLS, CELLS, LABELS), min_size=1), st.sampled_from(",;|\t"))
def test_rows_of_the_csv_module_are_read_back(tmp_path_factory, rows, delimiter):
    buffer = io.StringIO()
    csv.writer(buffer, delimiter=delimiter).writerows(rows)
    path = tmp_path_factory.mktemp("csv") / "rows.csv"
    path.write_bytes(buffer.getvalue().encode())
    form = LabeledFormat("csv", (1, 2), 3, width=3, delimiter=delimiter)
    examples = list(read_examples(path, "pairs", form))
    rows = [(a.removeprefix("\ufeff") if n == 0 else a, b, label) for n, (a, b, label) in enumerate(rows)]
    assert [(*example.texts, example.label) for example in examples] == rows


@settings(max_examples=50)
@given(
    st.lists(st.lists(st.tuples(st.sampled_from(["他", "　", "a-b", '"', "#"]), st.sampled_from("OBI")), min_size=1))
)
def test_conll_sentences_are_read_back(tmp_path_factory, sentences):
    path = tmp_path_factory.mktemp("conll") / "words.txt"
    for separator in "\t", " ":
        blocks = ["".join(f"{word}{separator}{tag}\n" for word, tag in sentence) for sentence in sentences]
        path.write_text("\n".join(blocks) or "-DOCSTART-\tO\n\n他\tO\n", encoding="utf-8")
        examples = list(read_examples(path, "tagging", LabeledFormat("conll", (1,), 2, width=2)))
        expected = sentences or [[("他", "O")]]
        assert [list(zip(example.words, example.tags, strict=True)) for example in examples] == expected
        assert all(isinstance(example, TaggedExample) for example in examples)
