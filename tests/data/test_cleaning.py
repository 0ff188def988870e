"""Cleaning: the ledger balances for any documents and rules, visible text is kept, output is complete or absent."""

from __future__ import annotations

import errno
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forebear.data import cleaning
from forebear.data.cleaning import CleaningRules, clean_documents, write_documents
from forebear.data.io.document import Document
from forebear.data.io.sources import SourceFile
from forebear.data.io.text_formats import TextFormat
from forebear.data.io.text_ledger import Ledger, LedgerError, utf8_size
from forebear.errors import ForebearError, InputError

NOTHING = CleaningRules(strip_controls=False, strip_invisible=False, drop_duplicates=False)


def ledger_of_reading(documents: list[Document]) -> Ledger:
    """The ledger after reading these documents."""
    ledger = Ledger()
    counts = {
        "documents": sum(document.part == 0 for document in documents),
        "characters": sum(len(document.text) for document in documents),
        "bytes": sum(utf8_size(document.text) for document in documents),
    }
    ledger.stage("read").add_in(**counts)
    ledger.stage("read").add_out(**counts)
    return ledger


def clean_texts(texts: list[str], rules: CleaningRules) -> tuple[list[str], Ledger]:
    documents = [Document(text, "f.txt", 10 * number) for number, text in enumerate(texts)]
    ledger = ledger_of_reading(documents)
    out = [document.text for document in clean_documents(documents, rules, ledger)]
    ledger.verify()
    return out, ledger


WHITE = ["a", "字", " ", "\n", "\n\n", "\r", "\r\n", "\t", "\f", "\x85", "\u2028", "\x1c", "\u3000", "\u2003", "word "]
ODD = ["\x00", "\x07", "\u200b", "\ufeff", "\ufffd", "Ã©", "锟斤拷", "ﬁ", "Å", "①", "，", "😀", "\u0301"]
wordpiece_tokenizer = st.sampled_from([*WHITE, *ODD, "the same line of text\n"])
texts = st.lists(wordpiece_tokenizer, min_size=1, max_size=12).map("".join) | st.text(min_size=1)


@st.composite
def streams(draw: st.DrawFn) -> list[Document]:
    """Documents, some in parts, some with words marked."""
    documents: list[Document] = []
    for line in range(draw(st.integers(0, 8))):
        parts = draw(st.integers(1, 3)) if draw(st.booleans()) else 1
        for part in range(parts):
            text = draw(texts)
            words = None
            if draw(st.booleans()):
                words = tuple(sorted({*draw(st.lists(st.integers(1, len(text)), max_size=4)), len(text)}))
            documents.append(Document(text, "f.txt", line + 1, part, words))
    return documents


fractions = st.sampled_from([0.0, 0.01, 0.5, 1.0])
rules = st.builds(
    CleaningRules,
    strip_controls=st.booleans(), strip_invisible=st.booleans(), nfkc=st.booleans(), squeeze_spaces=st.booleans(),
    drop_duplicates=st.booleans(), drop_shorter=st.sampled_from([0, 2, 5]), drop_mojibake=fractions,
    drop_replaced=fractions, drop_near_duplicates=fractions, drop_longer_lines=st.sampled_from([0, 3, 20]),
    drop_repeated_lines=st.sampled_from([0, 1, 2]),
)  # fmt: skip


def whole_texts(documents: list[Document]) -> list[str]:
    """The texts of whole documents."""
    texts: list[str] = []
    for document in documents:
        if document.part == 0:
            texts.append("")
        texts[-1] += document.text
    return texts


@settings(max_examples=300)
@given(streams(), rules)
def test_ledger_balances_for_any_documents_and_rules(documents: list[Document], rule: CleaningRules) -> None:
    ledger = ledger_of_reading(documents)
    out = list(clean_documents(documents, rule, ledger))
    ledger.verify()
    outputs = ledger.stage("clean").outputs
    assert outputs["documents"] == len(whole_texts(out))
    assert outputs["characters"] == sum(len(document.text) for document in out)
    assert outputs["bytes"] == sum(utf8_size(document.text) for document in out)
    dropped = sum(counts["documents"] for counts in ledger.stage("clean").dropped.values())
    assert len(whole_texts(documents)) == len(whole_texts(out)) + dropped
    for document in out:
        if document.word_ends is not None:
            assert list(document.word_ends) == sorted(set(document.word_ends))
            assert document.word_ends[-1:] in ((), (len(document.text),))


@settings(max_examples=200)
@given(streams(), rules, st.sampled_from(["out.txt", "out.jsonl", "out.txt.gz", "out.jsonl.zst"]))
def test_written_documents_are_read_back(documents: list[Document], rule: CleaningRules, name: str) -> None:
    ledger = ledger_of_reading(documents)
    out: list[Document] = []

    def cleaned_documents() -> Any:
        for document in clean_documents(documents, rule, ledger):
            out.append(document)
            yield document

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        write_documents(cleaned_documents(), path, ledger)
        assert sorted(file.name for file in Path(folder).iterdir()) == sorted([name, name + ".ledger.json"])
        reading_ledger = Ledger()
        read = whole_texts(list(TextFormat().documents_in([SourceFile(str(path), str(path))], reading_ledger)))
        written_ledger = json.loads(Path(f"{path}.ledger.json").read_text())
    expected = whole_texts(out)
    if "txt" in name:
        lines = ([line.rstrip("\r") for line in text.split("\n") if line.strip()] for text in expected)
        expected = ["\n".join(kept_lines) for kept_lines in lines]
    assert read == expected
    assert written_ledger["stages"]["write"]["given"]["characters"] == sum(map(len, expected))
    assert written_ledger["stages"]["write"]["given"]["documents"] == len(expected)


@given(st.lists(st.text(min_size=1)))
def test_default_rules_keep_every_visible_character(originals: list[str]) -> None:
    out, _ = clean_texts(originals, CleaningRules())

    def visible(text: str) -> str:
        without_invisibles = cleaning.INVISIBLES.sub("", cleaning.CONTROL_CHARS.sub("", text))
        return "".join(without_invisibles.split())

    assert {visible(text) for text in out} == {visible(text) for text in originals} - {""}


def test_each_rule_matches_a_worked_example() -> None:
    def apply(text: str, **rule: Any) -> list[str]:
        off = {"strip_controls": False, "strip_invisible": False, "drop_duplicates": False}
        return clean_texts([text], CleaningRules(**(off | rule)))[0]

    assert apply("a\x00b\x07\tc\r\nd\re\ff\x1cg", strip_controls=True) == ["ab\tc\nd\ne\nf g"]
    assert apply("\ufeffa\u200bb\u202ec 👨\u200d👩 می\u200cخواهم", strip_invisible=True) == [
        "abc 👨\u200d👩 می\u200cخواهم"
    ]
    assert apply("a \t b\u3000\n c", squeeze_spaces=True) == ["a b\n c"]
    assert apply("ＡＢ①ﬁ", nfkc=True) == ["AB1fi"]
    assert apply("abc", drop_shorter=4) == []
    assert apply("abcd", drop_shorter=4) == ["abcd"]
    assert apply("Ã©tÃ© is broken", drop_mojibake=0.2) == []
    assert apply("Ã© is broken once in a long text", drop_mojibake=0.2) != []
    assert apply("ab\ufffd", drop_replaced=0.3) == []
    assert apply("keep\n" + "x" * 50 + "\nkeep", drop_longer_lines=49) == ["keep\nkeep"]
    assert apply("text") == ["text"]


def test_exact_duplicates_keep_the_first_and_locate_the_others() -> None:
    out, ledger = clean_texts(["one", "two", " one\n", "one\x00"], CleaningRules())
    assert out == ["one", "two"]
    assert [(example["file"], example["line"]) for example in ledger.drops["exact duplicate"].examples] == [
        ("f.txt", 20),
        ("f.txt", 30),
    ]


def test_near_duplicates_are_dropped_only_on_request() -> None:
    text = "The council approved the plan for the new bridge over the river on Monday evening after a long debate. " * 2
    similar = text.replace("Monday", "Friday", 1)
    different = "Nothing in this sentence has anything to do with what the other one says about bridges and such. " * 2
    assert clean_texts([text, similar, different], CleaningRules())[0] == [text, similar, different]
    assert clean_texts([text, similar, different], CleaningRules(drop_near_duplicates=0.7))[0] == [text, different]


def test_repeated_lines_are_dropped_after_enough_documents() -> None:
    banner = "Subscribe to our newsletter!"
    out, ledger = clean_texts([f"text {i}\n{banner}\nend" for i in range(5)], CleaningRules(drop_repeated_lines=2))
    assert [banner in text for text in out] == [True, True, False, False, False]
    assert out[-1] == "text 4\nend"
    assert [example["line"] for example in ledger.drops["repeated line"].examples] == [21, 31, 41]


def test_nfkc_may_add_characters_and_the_ledger_balances() -> None:
    out, ledger = clean_texts(["ﷺ"], CleaningRules(nfkc=True))
    assert len(out[0]) == 18
    assert ledger.stage("clean").dropped["normalised (nfkc)"]["characters"] == -17


def test_document_in_parts_is_dropped_or_kept_as_a_whole() -> None:
    parts = [Document("Ã©" * 40, "f", 1, 0), Document("fine", "f", 1, 1), Document("other", "f", 9, 0)]
    ledger = ledger_of_reading(parts)
    assert whole_texts(list(clean_documents(parts, CleaningRules(drop_mojibake=0.5), ledger))) == ["other"]
    ledger.verify()
    assert ledger.stage("clean").dropped["mojibake"] == {"documents": 1, "characters": 84, "bytes": 164}
    duplicates = [Document(text, "f", line, part) for line in (1, 5) for part, text in enumerate(("one", "two"))]
    assert whole_texts(list(clean_documents(duplicates, CleaningRules(), ledger_of_reading(duplicates)))) == [
        "onetwo",
        "onetwo",
    ]


def test_part_cleaned_to_nothing_does_not_drop_the_rest() -> None:
    parts = [
        Document("\x01\x02", "f", 1, 0),
        Document("text", "f", 1, 1),
        Document("\x01", "f", 2, 0),
        Document("\x02", "f", 2, 1),
    ]
    ledger = ledger_of_reading(parts)
    out = list(clean_documents(parts, CleaningRules(), ledger))
    ledger.verify()
    assert [(document.text, document.part) for document in out] == [("text", 0)]
    assert ledger.stage("clean").dropped[cleaning.NOTHING_LEFT]["documents"] == 1


def test_word_ends_are_adjusted_by_cleaning() -> None:
    document = Document("迈\u200b向ＡＢ\n希望", "f", 1, 0, (3, 5, 6, 8))
    (out,) = clean_documents([document], CleaningRules(nfkc=True), ledger_of_reading([document]))
    assert (out.text, out.word_ends) == ("迈向AB\n希望", (2, 4, 5, 7))
    document = Document("一二\n三四五\n六", "f", 1, 0, (1, 2, 3, 6, 7, 8))
    (out,) = clean_documents([document], CleaningRules(drop_longer_lines=2), ledger_of_reading([document]))
    assert (out.text, out.word_ends) == ("一二\n六", (1, 2, 3, 4))
    document = Document("ab\nlonger\nc", "f", 1, 0, (9, 11))  # a "word" over several lines
    (out,) = clean_documents([document], CleaningRules(drop_longer_lines=3), ledger_of_reading([document]))
    assert (out.text, out.word_ends) == ("ab\nc", (3, 4))


@pytest.mark.parametrize("invalid", [{"drop_mojibake": 2.0}, {"drop_near_duplicates": -0.1}, {"drop_shorter": -1}])
def test_rule_values_out_of_range_are_refused(invalid: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="--drop-"):
        CleaningRules(**invalid)


# --- writing ---


def test_blank_lines_dropped_in_plain_text_are_in_the_ledger(tmp_path: Path) -> None:
    documents = [Document("a\n\n \nb", "f", 1), Document("c", "f", 9)]
    ledger = ledger_of_reading(documents)
    write_documents(documents, tmp_path / "o.txt", ledger)
    assert (tmp_path / "o.txt").read_text() == "a\nb\n\nc\n"
    assert ledger.stage("write").dropped == {"blank lines inside documents": {"characters": 3, "bytes": 3}}


def test_word_ends_are_written_to_jsonl_or_entered_as_lost(tmp_path: Path) -> None:
    documents = [Document("希望", "f", 1, 0, (2,))]
    write_documents(documents, tmp_path / "o.jsonl", ledger_of_reading(documents))
    assert json.loads((tmp_path / "o.jsonl").read_text()) == {"text": "希望", "words": [2]}
    ledger = ledger_of_reading(documents)
    write_documents(documents, tmp_path / "o.txt", ledger)
    assert ledger.stage("write").dropped == {"ends of words, which plain text does not mark": {"words": 1}}


def test_existing_file_is_overwritten_only_on_request(tmp_path: Path) -> None:
    out = tmp_path / "o.txt"
    out.write_text("precious")
    with pytest.raises(InputError, match="--overwrite"):
        write_documents([Document("a", "f", 1)], out, ledger_of_reading([Document("a", "f", 1)]))
    assert out.read_text() == "precious"
    write_documents([Document("a", "f", 1)], out, ledger_of_reading([Document("a", "f", 1)]), overwrite=True)
    assert out.read_text() == "a\n"
    with pytest.raises(InputError, match="folder"):
        write_documents([], tmp_path / "none" / "o.txt", Ledger())


def test_failed_cleaning_leaves_no_file(tmp_path: Path) -> None:
    def failing_documents() -> Any:
        yield Document("a", "f", 1)
        raise InputError("bad byte", file="f", line=2)

    with pytest.raises(InputError, match="bad byte"):
        write_documents(failing_documents(), tmp_path / "o.txt", Ledger())
    with pytest.raises(LedgerError):
        write_documents([Document("a", "f", 1)], tmp_path / "o.txt", ledger_of_reading([Document("ab", "f", 1)]))
    assert list(tmp_path.iterdir()) == []


def test_full_disk_is_an_error_and_leaves_no_cleaned_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(cleaning._ParagraphWriter, "write", full)
    with pytest.raises(ForebearError, match="No space left") as caught:
        write_documents([Document("a", "f", 1)], tmp_path / "o.txt", Ledger())
    assert caught.value.hint
    assert list(tmp_path.iterdir()) == []
