"""Where a word stands: whole words in their sentences, Chinese by the segmenter, each sentence once, evenly chosen."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from forebear.data.io.reader import TextFormat
from forebear.errors import InputError
from forebear.inspection.occurrences import (
    Occurrence,
    OccurrenceSample,
    SenseText,
    find_occurrences,
    read_labeled_sense_texts,
    read_sense_texts,
)


def found(word: str, *texts: str, most: int = 100) -> OccurrenceSample:
    return find_occurrences(word, [SenseText(text) for text in texts], max_occurrences=most)


def written(of: OccurrenceSample) -> list[tuple[str, str]]:
    return [(one.sentence, one.surface) for one in of.occurrences]


def test_whole_words_with_any_capitals():
    said = "The BANK of a riverbank. It's the bank's!\nNo bank_note, no 2bank. Banknotes?"
    of = found("Bank", said)
    assert written(of) == [("The BANK of a riverbank.", "BANK"), ("It's the bank's!", "bank")]
    assert of.within == {"riverbank": 1, "bank_note": 1, "2bank": 1, "Banknotes": 1}
    assert "riverbank (1)" in next(of.notes())
    assert written(found("new  york", "In New York. No newyork!")) == [("In New York.", "New York")]
    assert written(found("naïve", "A naïve café.")) == [("A naïve café.", "naïve")]
    assert written(found("C++", "C++ is old, C is older.")) == [("C++ is old, C is older.", "C++")]


def test_chinese_words_are_the_segmenters():
    of = found("打", "他打电话给我，打了三次。打他！我打算走。")
    assert written(of) == [("他打电话给我，打了三次。", "打"), ("打他！", "打")]
    assert [one.start for one in of.occurrences] == [7, 0]
    assert set(of.within) == {"打电话", "打算"}
    assert written(found("和服", "产品和服务。她穿和服。")) == [("她穿和服。", "和服")]
    assert written(found("AI", "用AI打印，AIDS")) == [("用AI打印，AIDS", "AI")]
    assert written(found("的苹果", "树上的苹果红了。")) == [
        ("树上的苹果红了。", "的苹果")
    ]  # two words of the segmenter


def test_what_never_stands_by_itself_is_told():
    with pytest.raises(InputError, match=r"'打' never stands by itself: it is a part of 打算 \(2\)"):
        found("打", "我打算走。他打算来。")
    with pytest.raises(InputError, match="no sentence has the word 'bnak'"):
        found("bnak", "the bank")
    with pytest.raises(InputError, match="empty"):
        found(" ", "the bank")
    with pytest.raises(InputError, match="--most is 0"):
        found("bank", "the bank", most=0)


def test_the_same_sentence_counts_once_and_many_are_chosen_evenly():
    of = found("bank", "A bank. A bank. The bank and the bank.", "A bank.")
    assert [(one.sentence, one.start) for one in of.occurrences] == [
        ("A bank.", 2), ("The bank and the bank.", 4), ("The bank and the bank.", 17),
    ]  # fmt: skip
    assert (of.total, of.repeated) == (3, 2)
    many = found("a", *(f"a {number}." for number in range(5001)), most=100)
    assert (many.total, len(many.occurrences)) == (5001, 100)
    numbers = [int(one.sentence[2:-1]) for one in many.occurrences]
    gaps = [after - before for before, after in pairwise(numbers)]
    assert (numbers[0], sorted(set(numbers))) == (0, numbers)
    assert numbers[-1] > 4900
    assert 45 <= min(gaps) <= max(gaps) <= 56
    assert "100 of 5,001" in next(many.notes())


def test_files_with_their_lines(tmp_path: Path):
    text, records, table = (tmp_path / name for name in ("a.txt", "b.jsonl", "c.tsv"))
    text.write_text("One.\nA bank. Two.\nThe bank.\n\nMy bank.\n", encoding="utf-8")
    records.write_text('{"text": "none"}\n{"text": "Two lines,\\nand one bank."}\n', encoding="utf-8")
    of = find_occurrences("bank", read_sense_texts([text, records], TextFormat()), max_occurrences=9)
    assert [(Path(one.file or "").name, one.line) for one in of.occurrences] == [
        ("a.txt", 2), ("a.txt", 3), ("a.txt", 5), ("b.jsonl", 2),
    ]  # fmt: skip
    table.write_text("money\tA bank. It lends.\nriver\tA bank.\n", encoding="utf-8")
    known = find_occurrences(
        "bank", read_labeled_sense_texts([table], TextFormat()), max_occurrences=9, sentences="whole"
    )
    assert [(one.sense, one.sentence, one.line) for one in known.occurrences] == [
        ("money", "A bank. It lends.", 1), ("river", "A bank.", 2),
    ]  # fmt: skip
    table.write_text("money\tA bank.\nno tab here\n", encoding="utf-8")
    with pytest.raises(InputError, match="no meaning before a tab") as told:
        list(read_labeled_sense_texts([table], TextFormat()))
    assert told.value.line == 2


def test_an_occurrence_as_facts():
    one = Occurrence("A bank.", 2, 6, "a.txt", 3, "money")
    assert one.to_dict() == {
        "sentence": "A bank.", "start": 2, "end": 6, "file": "a.txt", "line": 3, "sense": "money",
    }  # fmt: skip
