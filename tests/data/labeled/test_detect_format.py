"""The format of labeled files is detected from their first rows and described in notes, for every usual format."""

import csv
import gzip
import io
import json

import pytest
import zstandard

from forebear.data.labeled.examples import LabeledExample, TaggedExample
from forebear.data.labeled.labeled_format import LabeledFormat
from forebear.data.labeled.load import detect_format, read_examples
from forebear.errors import InputError


@pytest.fixture
def file(tmp_path):
    def write(content, name="data.txt"):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def json_lines(*records):
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


def read(path, task=None, **options):
    """The task and the examples, without locations, read by the detected format after a JSON round trip."""
    detected = detect_format(path, task, **options)
    form = LabeledFormat.from_dict(json.loads(json.dumps(detected.file_format.to_dict())))
    assert form == detected.file_format
    labels = "optional" if form.label is None and form.kind != "squad" else "required"
    return detected.task, [
        without_location(example) for example in read_examples(path, detected.task, form, labels=labels)
    ]


def without_location(example):
    kind = type(example)
    return kind(*(getattr(example, name) for name in kind.__slots__ if name != "location"))


REVIEWS = "I loved every minute of it|What a waste of time|好看极了，值得再看一遍|剧情拖沓，毫无新意".split("|")


@pytest.mark.parametrize(
    ("content", "texts", "label"),
    [
        ("".join(f"{word}\t{number % 2}\n" for number, word in enumerate(REVIEWS)), (1,), 2),
        ("".join(f"{number % 2}\t{word}\n" for number, word in enumerate(REVIEWS)), (2,), 1),
        ("".join(f"{word}\t{'好评' if number % 2 else '差评'}\n" for number, word in enumerate(REVIEWS)), (1,), 2),
        (
            "label\ttext_a\n" + "".join(f"{number % 2}\t{word}\n" for number, word in enumerate(REVIEWS)),
            ("text_a",),
            "label",
        ),
        ("内容\t类别\n" + "".join(f"{word}\t{number % 2}\n" for number, word in enumerate(REVIEWS)), ("内容",), "类别"),
        ("a\tb\n" + "".join(f"{word}\t{number % 2}\n" for number, word in enumerate(REVIEWS)), ("a",), "b"),
        (
            "id\tremark\tverdict\n"
            + "".join(f"{n}\t{REVIEWS[n % 4]} {n}\t{'good' if n % 2 else 'bad'}\n" for n in range(30)),
            ("remark",),
            "verdict",
        ),
        ("".join(f"{1000 + n}\t{REVIEWS[n % 4]} {n}\t{n % 3}\n" for n in range(30)), (2,), 3),
        ("".join(f"what is {n}?\tquestion\nit is {n}.\tanswer\n" for n in range(9)), (1,), 2),
        ("good movie\tpos\nbad one\tneg\n", (1,), 2),
        ("很好\t1\n很差\t0\n", (1,), 2),
        ("很好\t1\n", (1,), 2),
    ],
)
def test_text_and_label_columns_of_tsv_are_detected(file, content, texts, label):
    task, form, notes = detect_format(file(content))
    assert (task, form.kind, form.texts, form.label, form.answer) == ("classification", "tsv", texts, label, "one")
    assert form.header == isinstance(label, str)
    assert ("with a header" if form.header else "no header") in notes[0]
    examples = list(read_examples(file(content), task, form))
    assert len(examples) == content.count("\n") - form.header
    assert all(example.label and len(example.texts) == 1 for example in examples)


def test_detection_notes_describe_the_table(file):
    assert detect_format(file("很好\tx\n很差啊\ty\n")).notes == [
        "a table separated by tabs, no header; column 1 is the text, column 2 the label "
        "(2 classes in the first 2 rows: x, y)"
    ]
    content = "id,title,text,label\n" + "".join(f'{n},"t, {n}",some text {n},{n % 2}\n' for n in range(5))
    assert detect_format(file(content)).notes == [
        "a table separated by commas, with a header; 'text' is the text, 'label' the label "
        "(2 classes in the first 5 rows: 0, 1)",
        "not used: 'title'",
    ]


def test_tables_of_common_benchmarks_are_detected(file):
    cola = "".join(f"gj04\t{n % 2}\t{'' if n % 2 else '*'}\tThe sailors rode number {n}.\n" for n in range(30))
    assert detect_format(file(cola))[1].role_columns()[:2] == (4, 2)
    header = "index\tgenre\tsentence1_parse\tsentence2_parse\tsentence1\tsentence2\tlabel1\tgold_label\n"
    rows = "".join(f"{n}\tx\t( a {n} )\t( b {n} )\ta {n}\tb {n}\tno\tyes\n" for n in range(30))
    assert detect_format(file(header + rows)).file_format.role_columns()[:3] == ("sentence1", "sentence2", "gold_label")
    news = "".join(f'"{n % 4}","Title {n}","A much longer description of the news number {n}"\n' for n in range(30))
    assert detect_format(file(news, "train.csv")).file_format.role_columns()[:2] == (3, 1)
    sentiment140 = "".join(f'"0","{n:09}","NO_QUERY","user {n}","what user number {n} says"\n' for n in range(30))
    assert detect_format(file(sentiment140)).file_format.role_columns()[:2] == (5, 1)
    intents = "".join(f"please do {n} for me\tintent {n % 150}\n" for n in range(1200))
    assert detect_format(file(intents)).file_format.label == 2
    assert detect_format(file("a,b;1\nc, or d, or e;0\n"), kind="csv").file_format.delimiter == ";"
    chinese = "".join(f"第{n}个很好\t{'好' if n % 2 else '差'}\n" + "\n" * (n == 9) for n in range(60))
    assert detect_format(file(chinese)).task == "classification"


@pytest.mark.parametrize(
    "header",
    [
        "sentence1 sentence2",
        "text_a text_b",
        "premise hypothesis",
        "question1 question2",
        "s1 s2",
        "句子1 句子2",
        "Q1 Q2",
    ],
)
def test_text_pairs_are_detected_by_column_names(file, header):
    first, second = header.split()
    rows = "".join(f"{n}\tfirst text {n}\tthe second {n}\t{'yes' if n % 2 else 'no'}\n" for n in range(12))
    task, form, _ = detect_format(file(f"id\t{first}\t{second}\tlabel\n{rows}"))
    assert (task, form.texts, form.label, form.name) == ("pairs", (first, second), "label", "id")


@pytest.mark.parametrize("delimiter", [",", ";", "|", "\t"])
@pytest.mark.parametrize("name", ["data.csv", "data.txt"])
@pytest.mark.parametrize("header", [True, False])
def test_csv_with_quotes_and_newlines_is_detected_and_read(file, delimiter, name, header):
    texts = ['he said "no", twice', "two\nlines", f"a {delimiter} b", "第一行\n\n“第二行”，完", 'ends with "'] * 4
    buffer = io.StringIO()
    writer = csv.writer(buffer, delimiter=delimiter, lineterminator="\r\n")
    writer.writerows(([["review", "stars"]] if header else []) + [[text, n % 2] for n, text in enumerate(texts)])
    path = file(buffer.getvalue(), name)
    task, form, _ = detect_format(path)
    assert (task, form.kind, form.delimiter) == ("classification", "csv", delimiter)
    examples = list(read_examples(path, task, form))
    assert [example.texts[0] for example in examples] == texts
    assert examples[2].location.line == 2 + header + 2  # behind a record of two lines


def test_prose_with_commas_is_not_taken_for_csv(file):
    content = "One, two.\nThree, four, five.\nSix.\n"
    task, form, notes = detect_format(file(content))
    assert (task, form.kind, form.label, form.width) == ("classification", "tsv", None, 1)
    assert "no column looks like a label" in notes
    with pytest.raises(InputError, match="no column of labels"):
        read_examples(file(content), task, form)


def test_quotes_in_tsv_are_kept_as_text(file):
    content = 'He "said" so\t1\n"Never!\t0\nend"\t1\n'
    assert read(file(content))[1] == [
        LabeledExample(('He "said" so',), "1"),
        LabeledExample(('"Never!',), "0"),
        LabeledExample(('end"',), "1"),
    ]


@pytest.mark.parametrize(
    ("content", "words", "tags"),
    [
        ("他\tB-PER\n来\tO\n\n好\tO\n", ("他", "来"), ("B-PER", "O")),
        ("他 B-PER\n来 O\n \n好 O\n", ("他", "来"), ("B-PER", "O")),
        ("EU NNP B-NP B-ORG\nrejects VBZ B-VP O\n\nPeter NNP B-NP B-PER\n", ("EU", "rejects"), ("B-ORG", "O")),
        ("-DOCSTART- -X- O O\n\nEU NNP B-NP B-ORG\nsays VBZ B-VP O\n\nB X Y O\n", ("EU", "says"), ("B-ORG", "O")),
        (
            "the\tDET\ncat\tNOUN\nsat\tVERB\n\nthe\tDET\ndog\tNOUN\nsat\tVERB\n",
            ("the", "cat", "sat"),
            ("DET", "NOUN", "VERB"),
        ),
        ("中 B\n国 E\n人 S\n\n他 S\n", ("中", "国", "人"), ("B", "E", "S")),
        ("　 O\n他 B-PER\n", ("　", "他"), ("O", "B-PER")),
        ("　\tO\n他\tB-PER\n", ("　", "他"), ("O", "B-PER")),
        ("他 B-PER\n  O\n" + "\n来 O\n" * 20, ("他", " "), ("B-PER", "O")),
        ("# id = 1\nfoo\tO\n#\tO\n\n# id = 2\nbar\tO\n", ("foo", "#"), ("O", "O")),
        ("他\tB-PER\n来\tO\n\t\n好\tO\n", ("他", "来"), ("B-PER", "O")),
    ],
)
def test_tagged_formats_are_detected_and_read(file, content, words, tags):
    task, examples = read(file(content))
    assert task == "tagging"
    assert examples[0] == TaggedExample(words, tags)


def test_universal_dependencies_skip_multiword_and_empty_tokens(file):
    rows = [
        "# sent_id = 1",
        "# text = vámonos al mar",
        "1-2\tvámonos\t_\t_\t_\t_\t_\t_\t_\t_",
        "1\tvamos\tir\tVERB\t_\t_\t0\troot\t_\t_",
        "2\tnos\tnosotros\tPRON\t_\t_\t1\tobj\t_\t_",
        "2.1\tempty\t_\tX\t_\t_\t_\t_\t_\t_",
        "",
        "1\t海\t海\tNOUN\t_\t_\t0\troot\t_\t_",
    ]
    task, examples = read(file("\n".join(rows)))
    assert task == "tagging"
    assert examples == [TaggedExample(("vamos", "nos"), ("VERB", "PRON")), TaggedExample(("海",), ("NOUN",))]


def test_numeric_and_multiple_labels_are_detected(file):
    rows = "".join(f"text number {n}\t{n % 5}.{n % 4}\n" for n in range(10))
    assert read(file(rows))[1][3].label == 3.3
    assert read(file(rows), number=False)[1][3].label == "3.3"
    assert read(file("some text\t1\nother text\t2\n"), number=True)[1][1].label == 2.0
    rows = "".join(f"text number {n}\t{'a|b' if n % 2 else 'c'}\n" for n in range(10))
    assert [example.label for example in read(file(rows), several=True)[1][:2]] == [("c",), ("a", "b")]
    assert [example.label for example in read(file(rows), several="|")[1][:2]] == [("c",), ("a", "b")]
    assert read(file(rows))[1][1].label == "a|b"
    rows = "".join(f"text number {n}\t{json.dumps(['a', '乙'][: n % 3])}\n" for n in range(10))
    assert [example.label for example in read(file(rows))[1][:3]] == [(), ("a",), ("a", "乙")]


def test_given_columns_override_detection(file):
    content = "1\tlong text of the row\tx\tshort\n0\tanother long text of it\ty\tbrief\n" * 3
    assert read(file(content), text_columns=["4"], label_column=3)[1][0] == LabeledExample(("short",), "x")
    task, examples = read(file(content), text_columns=[2, 4], label_column="1")
    assert (task, examples[0]) == ("pairs", LabeledExample(("long text of the row", "short"), "1"))
    with_header = file("a\tb\nsome text\t1\n", "named.tsv")
    assert read(with_header, text_columns=["a"], label_column="b")[1] == [LabeledExample(("some text",), "1")]
    assert len(read(with_header, header=False)[1]) == 2
    tagged = file("1\t他\tx\tO\n2\t来\ty\tB-X\n", "words.tsv")
    assert read(tagged, "tagging", text_columns=["2"])[1] == [TaggedExample(("他", "来"), ("O", "B-X"))]
    assert read(tagged, "tagging", text_columns=["2"], label_column="3")[1] == [TaggedExample(("他", "来"), ("x", "y"))]


def test_compressed_files_folders_and_encodings_are_read(file, tmp_path):
    content = "好看\t1\n难看\t0\n"
    for compress, name in ((gzip.compress, "a.tsv.gz"), (zstandard.compress, "a.tsv.zst")):
        assert read(file(compress(content.encode()), name))[1] == [
            LabeledExample(("好看",), "1"),
            LabeledExample(("难看",), "0"),
        ]
    assert read(file(content.encode("gb18030"), "b.tsv"), encoding="gb18030")[1][0].texts == ("好看",)
    folder = tmp_path / "folder"
    folder.mkdir()
    for number in range(3):
        (folder / f"{number}.tsv").write_text(f"text\tlabel\n第{number}句\tx\n", encoding="utf-8")
    assert [example.texts[0] for example in read(folder)[1]] == ["第0句", "第1句", "第2句"]


@pytest.mark.parametrize(
    ("content", "task", "message", "hint"),
    [
        ("他\tB-PER\n来\tO\n\n好\tO\n", "classification", "CoNLL", "--task tagging"),
        ('{"data": [{"paragraphs": []}]}', "pairs", "SQuAD", "--task answering"),
        ("some text here\t1\nanother text\t0\n", "answering", "needs a question", "--task classification"),
        ("some text here\t1\nanother text\t0\n", "pairs", "1 column may hold text", "--task classification"),
        ("the first text\tthe second\t1\nand again\ta pair\t0\n" * 9, "classification", "2 columns", "--task pairs"),
        (json_lines({"text": "x", "label": "y"}), "choice", "at least two choices", "--task classification"),
        (json_lines({"text": "x", "label": "y"}), "tagging", "list of words", "--task classification"),
        ("a\t1\n", "translation", "no task is called 'translation'", "classification, pairs"),
        (
            "one text here\tand a second one\tand a third text\nall new\tof course it is\tso it is\n",
            None,
            "3 columns may hold text",
            "--text-column",
        ),
        ("", None, "holds nothing", "examples"),
        ("\n \n\t\n", None, "holds nothing", "examples"),
        ("text\tlabel\n", None, "no row below", "examples"),
        ('{"a": \n', None, "not known", "one object a line"),
        ("{}\n{}\n", None, "no fields", "text"),
    ],
)
def test_task_that_does_not_fit_is_refused_with_the_likely_one(file, content, task, message, hint):
    with pytest.raises(InputError, match=message) as caught:
        detect_format(file(content), task)
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    "options", [{"text_columns": ["x"]}, {"label_column": "3"}, {"label_column": 0}, {"text_columns": ["-1"]}]
)
def test_missing_column_is_refused(file, options):
    with pytest.raises(InputError, match="there is no column"):
        detect_format(file("some text\t1\nother text\t0\n"), **options)


def test_utf_16_without_encoding_is_refused(file):
    with pytest.raises(InputError, match="NUL") as caught:
        detect_format(file("good text\t1\nbad text\t0\n".encode("utf-16-le")))
    assert "--encoding" in caught.value.hint


def test_stored_format_is_validated():
    form = LabeledFormat("tsv", ("a", 2), label="b", header=True)
    assert LabeledFormat.from_dict(form.to_dict()) == form
    for invalid in (
        {},
        {"kind": "xls"},
        {"kind": "tsv", "width": "2"},
        {"kind": "tsv", "texts": [0]},
        {"kind": "tsv", "x": 1},
    ):
        with pytest.raises(InputError, match="the form of the data"):
            LabeledFormat.from_dict(invalid)
