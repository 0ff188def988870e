"""Parallel text from two files, tables and JSONL: pairs stay pairs, and what is not is named with its line."""

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
from forebear.data.io.ledger import Ledger
from forebear.data.io.reader import TextFormat
from forebear.data.tokenizers.train import train_tokenizer
from forebear.errors import InputError

GERMAN = ["Ein Hund läuft.", "Zwei Männer spielen Schach.", "Es schneit.", "Die Katze schläft auf der Matte."]
ENGLISH = ["A dog runs.", "Two men play chess.", "It snows.", "The cat sleeps on the mat."]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("FOREBEAR_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(name: str, lines: list[str]) -> str:
    Path(name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return name


def pairs(*paths: str, **how) -> list[tuple[int, str, str]]:
    return list(ParallelFormat(**how).read_pairs(paths, Ledger()))


WANTED = list(zip(range(1, 5), GERMAN, ENGLISH, strict=True))


def test_two_files_line_by_line_also_packed():
    write("a.en", ENGLISH)
    Path("a.de.gz").write_bytes(gzip.compress("\n".join(GERMAN).encode()))
    assert pairs("a.de.gz", "a.en") == WANTED


@pytest.mark.parametrize(
    ("name", "lines", "how"),
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
def test_one_file_with_both_sides(name, lines, how):
    found = pairs(write(name, lines), **how)
    first = lines[0].startswith(("de\t", "id,"))
    assert found == [(line + first, one, two) for line, one, two in WANTED]


def test_a_first_pair_of_short_words_is_no_header():
    assert pairs(write("short.tsv", ["Hi.\t嗨。", "Run.\t跑。"])) == [(1, "Hi.", "嗨。"), (2, "Run.", "跑。")]


@pytest.mark.parametrize(("missing", "extra"), [((1200,), ()), ((1200, 40), ()), ((), (0,)), ((900,), (100, 101))])
def test_unequal_files_are_told_by_their_numbers_and_the_first_line_that_does_not_fit(missing, extra):
    rng = np.random.default_rng(3)
    left = ["x" * int(size) for size in rng.integers(10, 120, 2000)]
    right = ["y" * max(1, round(len(line) * 1.2 + rng.normal(0, 3))) for line in left]
    for place in missing:
        del right[place]
    for place in extra:
        right.insert(place, "y" * 60)
    with pytest.raises(InputError) as raised:
        pairs(write("a", left), write("b", right))
    assert "2,000" in str(raised.value)
    assert f"{len(right):,}" in str(raised.value)
    assert abs(raised.value.line - min([*missing, *extra]) - 1) <= 2


@given(st.lists(st.integers(0, 300), max_size=30), st.lists(st.integers(0, 300), max_size=30))
def test_any_two_files_have_a_first_suspicious_line(left, right):
    if len(left) != len(right):
        assert 1 <= first_misaligned_line(left, right) <= min(len(left), len(right)) + 1


def test_pairs_that_lack_a_side_are_dropped_into_the_ledger_with_their_lines():
    lines = ["a\tb", "\u200b\tb", "a\t", "\t", "c\td"]
    ledger = Ledger()
    found = list(ParallelFormat().read_pairs([write("a.tsv", lines)], ledger))
    assert found == [(1, "a", "b"), (5, "c", "d")]
    dropped = {reason: [item["line"] for item in listed.examples] for reason, listed in ledger.drops.items()}
    assert dropped == {"one side is empty": [2, 3], "both sides are empty": [4]}
    ledger.verify()


def test_line_ends_inside_a_text_become_spaces():
    file = write("a.jsonl", [json.dumps({"source": "one\ntwo\u2028three", "target": "eins\r\nzwei"})])
    assert pairs(file) == [(1, "one two three", "eins zwei")]


@pytest.mark.parametrize(
    ("lines", "name", "how", "words", "line"),
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
def test_what_is_no_pair_is_named(lines, name, how, words, line):
    with pytest.raises(InputError, match=words) as raised:
        pairs(write(name, lines), **how)
    assert raised.value.line == line
    assert raised.value.hint


def test_too_many_files_and_columns_of_two_files_are_refused():
    files = [write(name, GERMAN) for name in ("a", "b", "c")]
    with pytest.raises(InputError, match="3 files"):
        pairs(*files)
    with pytest.raises(InputError, match="--columns means nothing"):
        pairs(*files[:2], columns="1,2")
    with pytest.raises(InputError, match="--columns is 'de'"):
        pairs(write("x.tsv", ["a\tb"]), columns="de")


def test_files_of_pairs_are_made_once_and_hold_nothing_else(monkeypatch):
    paths = [write("a.de", [*GERMAN, ""]), write("a.en", [*ENGLISH, "alone"])]
    made = read_parallel(paths, ParallelFormat())
    assert made.count == 4
    assert [Path(path).read_text(encoding="utf-8").split("\n")[:-1] for path in made.paths] == [GERMAN, ENGLISH]
    monkeypatch.setattr(ParallelFormat, "read_pairs", None)
    assert read_parallel(paths, ParallelFormat()) == made


def test_a_file_without_a_pair_is_refused():
    file = write("e.tsv", ["\t", "a\t"])
    with pytest.raises(InputError, match="no pair of texts"):
        read_parallel([file], ParallelFormat())


def corpus_of(lines: list[str]) -> ParallelCorpus:
    """Cut by a tokenizer to which some texts have no tokens at all."""
    files = read_parallel([write("a.tsv", lines)], ParallelFormat())
    tokenizer = train_tokenizer("wordpiece", ["alpha beta gamma delta"] * 30, size=60)
    lines_of = TextFormat(documents="lines", format="text")
    one, two = (prepare_corpus([path], tokenizer, text_format=lines_of, sentences="whole") for path in files.paths)
    return ParallelCorpus(files, one, two)


def test_pairs_stay_pairs_where_one_side_has_no_tokens():
    corpus = corpus_of(["alpha\tbeta", "\x01\tgamma", "beta\t\x01", "gamma\tdelta"])
    whole = corpus.all_pairs()
    assert len(whole) == 2
    decoded = [
        [corpus.tokenizer.source.decode(side.corpus.ids[a:b]) for a, b in side.spans.tolist()]
        for side in (whole.source, whole.target)
    ]
    assert decoded == [["alpha", "gamma"], ["beta", "delta"]]
    assert whole.texts() == (["alpha", "gamma"], ["beta", "delta"])


def test_translations_of_one_text_are_all_on_one_side():
    words = ("alpha", "beta", "gamma", "delta")
    corpus = corpus_of([f"{words[n % 4]} {words[n % 3]}\t{words[n % 2]} {n}" for n in range(48)])
    split = corpus.split(0.3)
    sides = [set(portion.texts()[0]) for portion in (split.train, split.held_out)]
    assert split.method == "content"
    assert all(sides)
    assert not sides[0] & sides[1]
    assert len(split.train) + len(split.held_out) == 48
    few = corpus_of(["alpha\tbeta", "gamma\tdelta"]).split(1e-9)
    assert (few.method, len(few.train), len(few.held_out)) == ("position", 1, 1)
