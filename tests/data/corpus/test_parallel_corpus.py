"""Parallel text from two files, tables and JSONL: pairs stay aligned, and malformed rows are named with their line."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebear.data.corpus.parallel import ParallelCorpus, ParallelFormat, first_misaligned_line, read_parallel
from forebear.data.corpus.prepare import prepare_corpus
from forebear.data.io.text_formats import TextFormat
from forebear.data.io.text_ledger import Ledger
from forebear.data.tokenizers.train import train_tokenizer
from forebear.errors import InputError

GERMAN = ["Ein Hund läuft.", "Zwei Männer spielen Schach.", "Es schneit.", "Die Katze schläft auf der Matte."]
ENGLISH = ["A dog runs.", "Two men play chess.", "It snows.", "The cat sleeps on the mat."]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("FOREBEAR_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_lines(name: str, lines: list[str]) -> str:
    Path(name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return name


def read_pairs(*paths: str, **options) -> list[tuple[int, str, str]]:
    return list(ParallelFormat(**options).read_pairs(paths, Ledger()))


EXPECTED = list(zip(range(1, 5), GERMAN, ENGLISH, strict=True))


def test_two_files_are_paired_line_by_line_also_compressed():
    write_lines("a.en", ENGLISH)
    Path("a.de.gz").write_bytes(gzip.compress("\n".join(GERMAN).encode()))
    assert read_pairs("a.de.gz", "a.en") == EXPECTED


@pytest.mark.parametrize(
    ("name", "lines", "options"),
    [
        ("plain.tsv", [f"{a}\t{b}\tby nobody" for a, b in zip(GERMAN, ENGLISH, strict=True)], {}),
        ("plain.txt", [f"{a}\t{b}" for a, b in zip(GERMAN, ENGLISH, strict=True)], {}),
        ("swapped.tsv", [f"{b}\t{a}" for a, b in zip(GERMAN, ENGLISH, strict=True)], {"columns": "2,1"}),
        ("headed.tsv", ["de\ten", *(f"{a}\t{b}" for a, b in zip(GERMAN, ENGLISH, strict=True))], {}),
        (
            "named.csv",
            ["id,en,de", *(f'1,"{b}","{a}"' for a, b in zip(GERMAN, ENGLISH, strict=True))],
            {"columns": "de,en"},
        ),
        ("a.jsonl", [json.dumps({"src": a, "tgt": b}) for a, b in zip(GERMAN, ENGLISH, strict=True)], {}),
        (
            "b.jsonl",
            [json.dumps({"translation": {"de": a, "en": b}}) for a, b in zip(GERMAN, ENGLISH, strict=True)],
            {},
        ),
        (
            "c.jsonl",
            [json.dumps({"x": {"y": b}, "z": a}) for a, b in zip(GERMAN, ENGLISH, strict=True)],
            {"columns": "z,x.y"},
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_both_languages_in_one_file_are_read(name, lines, options):
    rows = read_pairs(write_lines(name, lines), **options)
    has_header = lines[0].startswith(("de\t", "id,"))
    assert rows == [(line + has_header, source, target) for line, source, target in EXPECTED]


def test_first_pair_of_short_words_is_not_taken_for_a_header():
    assert read_pairs(write_lines("short.tsv", ["Hi.\t嗨。", "Run.\t跑。"])) == [
        (1, "Hi.", "嗨。"),
        (2, "Run.", "跑。"),
    ]


@pytest.mark.parametrize(("missing", "extra"), [((1200,), ()), ((1200, 40), ()), ((), (0,)), ((900,), (100, 101))])
def test_unequal_line_counts_are_refused_with_the_first_misaligned_line(missing, extra):
    rng = np.random.default_rng(3)
    left = ["x" * int(size) for size in rng.integers(10, 120, 2000)]
    right = ["y" * max(1, round(len(line) * 1.2 + rng.normal(0, 3))) for line in left]
    for index in missing:
        del right[index]
    for index in extra:
        right.insert(index, "y" * 60)
    with pytest.raises(InputError) as raised:
        read_pairs(write_lines("a", left), write_lines("b", right))
    assert "2,000" in str(raised.value)
    assert f"{len(right):,}" in str(raised.value)
    assert abs(raised.value.line - min([*missing, *extra]) - 1) <= 2


@given(st.lists(st.integers(0, 300), max_size=30), st.lists(st.integers(0, 300), max_size=30))
def test_first_misaligned_line_is_within_the_files(left, right):
    if len(left) != len(right):
        assert 1 <= first_misaligned_line(left, right) <= min(len(left), len(right)) + 1


def test_pairs_with_an_empty_side_are_dropped_into_the_ledger():
    lines = ["a\tb", "\u200b\tb", "a\t", "\t", "c\td"]
    ledger = Ledger()
    rows = list(ParallelFormat().read_pairs([write_lines("a.tsv", lines)], ledger))
    assert rows == [(1, "a", "b"), (5, "c", "d")]
    dropped = {reason: [item["line"] for item in drops.examples] for reason, drops in ledger.drops.items()}
    assert dropped == {"one side is empty": [2, 3], "both sides are empty": [4]}
    ledger.verify()


def test_line_breaks_inside_a_text_become_spaces():
    file = write_lines("a.jsonl", [json.dumps({"source": "one\ntwo\u2028three", "target": "eins\r\nzwei"})])
    assert read_pairs(file) == [(1, "one two three", "eins zwei")]


@pytest.mark.parametrize(
    ("lines", "name", "options", "message", "line"),
    [
        (["just one"], "a.tsv", {}, "there is one column", 1),
        (["a\tb", "c"], "a.tsv", {}, "the row has 1 columns", 2),
        (["a\tb"], "a.tsv", {"columns": "1,3"}, "there is no column 3", 1),
        (["a\tb"], "a.tsv", {"columns": "de,en"}, "no column is called 'de'", 1),
        (['{"a": "b", "c": "d", "e": "f"}'], "a.jsonl", {}, "which fields", 1),
        (['{"source": "a", "target": 3}'], "a.jsonl", {}, "field 'target' is 3", 1),
        (['{"source": "a"'], "a.jsonl", {}, "not a JSON value", 1),
        (['x,"y', "z"], "a.csv", {}, "not well-formed CSV", 2),
    ],
)
def test_malformed_pairs_are_refused_with_their_line(lines, name, options, message, line):
    with pytest.raises(InputError, match=message) as raised:
        read_pairs(write_lines(name, lines), **options)
    assert raised.value.line == line
    assert raised.value.hint


def test_more_than_two_files_and_columns_of_two_files_are_refused():
    files = [write_lines(name, GERMAN) for name in ("a", "b", "c")]
    with pytest.raises(InputError, match="3 files"):
        read_pairs(*files)
    with pytest.raises(InputError, match="--columns means nothing"):
        read_pairs(*files[:2], columns="1,2")
    with pytest.raises(InputError, match="--columns is 'de'"):
        read_pairs(write_lines("x.tsv", ["a\tb"]), columns="de")


def test_pair_files_are_written_once_and_hold_only_complete_pairs(monkeypatch):
    paths = [write_lines("a.de", [*GERMAN, ""]), write_lines("a.en", [*ENGLISH, "alone"])]
    files = read_parallel(paths, ParallelFormat())
    assert files.count == 4
    assert [Path(path).read_text(encoding="utf-8").split("\n")[:-1] for path in files.paths] == [GERMAN, ENGLISH]
    monkeypatch.setattr(ParallelFormat, "read_pairs", None)
    assert read_parallel(paths, ParallelFormat()) == files


def test_file_without_a_pair_is_refused():
    file = write_lines("e.tsv", ["\t", "a\t"])
    with pytest.raises(InputError, match="no pair of texts"):
        read_parallel([file], ParallelFormat())


def parallel_corpus(lines: list[str]) -> ParallelCorpus:
    """A parallel corpus whose tokenizer has no tokens for some texts."""
    files = read_parallel([write_lines("a.tsv", lines)], ParallelFormat())
    tokenizer = train_tokenizer("wordpiece", ["alpha beta gamma delta"] * 30, size=60)
    one_document_per_line = TextFormat(documents="lines", format="text")
    source, target = (
        prepare_corpus([path], tokenizer, text_format=one_document_per_line, sentences="whole") for path in files.paths
    )
    return ParallelCorpus(files, source, target)


def test_pairs_stay_aligned_where_one_side_has_no_tokens():
    corpus = parallel_corpus(["alpha\tbeta", "\x01\tgamma", "beta\t\x01", "gamma\tdelta"])
    aligned = corpus.all_pairs()
    assert len(aligned) == 2
    decoded = [
        [corpus.tokenizer.source.decode(side.corpus.ids[a:b]) for a, b in side.spans.tolist()]
        for side in (aligned.source, aligned.target)
    ]
    assert decoded == [["alpha", "gamma"], ["beta", "delta"]]
    assert aligned.texts() == (["alpha", "gamma"], ["beta", "delta"])


def test_split_keeps_all_translations_of_a_text_together():
    words = ("alpha", "beta", "gamma", "delta")
    corpus = parallel_corpus([f"{words[n % 4]} {words[n % 3]}\t{words[n % 2]} {n}" for n in range(48)])
    split = corpus.split(0.3)
    sides = [set(subset.texts()[0]) for subset in (split.train, split.held_out)]
    assert split.method == "content"
    assert all(sides)
    assert not sides[0] & sides[1]
    assert len(split.train) + len(split.held_out) == 48
    small_split = parallel_corpus(["alpha\tbeta", "gamma\tdelta"]).split(1e-9)
    assert (small_split.method, len(small_split.train), len(small_split.held_out)) == ("position", 1, 1)
