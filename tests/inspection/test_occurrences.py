"""Occurrences of a word: whole words in sentences, segmented Chinese, repeated sentences once, even sampling."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from forebear.data.io.text_formats import TextFormat
from forebear.errors import InputError
from forebear.inspection.occurrences import (
    Occurrence,
    OccurrenceSample,
    SenseText,
    find_occurrences,
    read_labeled_sense_texts,
    read_sense_texts,
)


def sample_of(word: str, *texts: str, max_occurrences: int = 100) -> OccurrenceSample:
    return find_occurrences(word, [SenseText(text) for text in texts], max_occurrences=max_occurrences)


def sentences_and_surfaces(sample: OccurrenceSample) -> list[tuple[str, str]]:
    return [(occurrence.sentence, occurrence.surface) for occurrence in sample.occurrences]


def test_occurrences_are_whole_words_in_any_case():
    text = "The BANK of a riverbank. It's the bank's!\nNo bank_note, no 2bank. Banknotes?"
    sample = sample_of("Bank", text)
    assert sentences_and_surfaces(sample) == [("The BANK of a riverbank.", "BANK"), ("It's the bank's!", "bank")]
    assert sample.longer_words == {"riverbank": 1, "bank_note": 1, "2bank": 1, "Banknotes": 1}
    assert "riverbank (1)" in next(sample.notes())
    assert sentences_and_surfaces(sample_of("new  york", "In New York. No newyork!")) == [("In New York.", "New York")]
    assert sentences_and_surfaces(sample_of("naïve", "A naïve café.")) == [("A naïve café.", "naïve")]
    assert sentences_and_surfaces(sample_of("C++", "C++ is old, C is older.")) == [("C++ is old, C is older.", "C++")]


def test_chinese_occurrences_respect_word_segmentation():
    sample = sample_of("打", "他打电话给我，打了三次。打他！我打算走。")
    assert sentences_and_surfaces(sample) == [("他打电话给我，打了三次。", "打"), ("打他！", "打")]
    assert [occurrence.start for occurrence in sample.occurrences] == [7, 0]
    assert set(sample.longer_words) == {"打电话", "打算"}
    assert sentences_and_surfaces(sample_of("和服", "产品和服务。她穿和服。")) == [("她穿和服。", "和服")]
    assert sentences_and_surfaces(sample_of("AI", "用AI打印，AIDS")) == [("用AI打印，AIDS", "AI")]
    # Spans two segmented words
    assert sentences_and_surfaces(sample_of("的苹果", "树上的苹果红了。")) == [("树上的苹果红了。", "的苹果")]


def test_word_that_occurs_only_inside_others_or_not_at_all_is_refused():
    with pytest.raises(InputError, match=r"'打' never stands by itself: it is a part of 打算 \(2\)"):
        sample_of("打", "我打算走。他打算来。")
    with pytest.raises(InputError, match="no sentence has the word 'bnak'"):
        sample_of("bnak", "the bank")
    with pytest.raises(InputError, match="empty"):
        sample_of(" ", "the bank")
    with pytest.raises(InputError, match="--most is 0"):
        sample_of("bank", "the bank", max_occurrences=0)


def test_repeated_sentences_count_once_and_many_occurrences_are_sampled_evenly():
    sample = sample_of("bank", "A bank. A bank. The bank and the bank.", "A bank.")
    assert [(occurrence.sentence, occurrence.start) for occurrence in sample.occurrences] == [
        ("A bank.", 2), ("The bank and the bank.", 4), ("The bank and the bank.", 17),
    ]  # fmt: skip
    assert (sample.total, sample.num_repeated) == (3, 2)
    large = sample_of("a", *(f"a {number}." for number in range(5001)), max_occurrences=100)
    assert (large.total, len(large.occurrences)) == (5001, 100)
    numbers = [int(occurrence.sentence[2:-1]) for occurrence in large.occurrences]
    gaps = [after - before for before, after in pairwise(numbers)]
    assert (numbers[0], sorted(set(numbers))) == (0, numbers)
    assert numbers[-1] > 4900
    assert 45 <= min(gaps) <= max(gaps) <= 56
    assert "100 of 5,001" in next(large.notes())


def test_occurrences_in_files_carry_file_line_and_sense(tmp_path: Path):
    text, records, table = (tmp_path / name for name in ("a.txt", "b.jsonl", "c.tsv"))
    text.write_text("One.\nA bank. Two.\nThe bank.\n\nMy bank.\n", encoding="utf-8")
    records.write_text('{"text": "none"}\n{"text": "Two lines,\\nand one bank."}\n', encoding="utf-8")
    sample = find_occurrences("bank", read_sense_texts([text, records], TextFormat()), max_occurrences=9)
    assert [(Path(occurrence.file or "").name, occurrence.line) for occurrence in sample.occurrences] == [
        ("a.txt", 2), ("a.txt", 3), ("a.txt", 5), ("b.jsonl", 2),
    ]  # fmt: skip
    table.write_text("money\tA bank. It lends.\nriver\tA bank.\n", encoding="utf-8")
    labeled = find_occurrences(
        "bank", read_labeled_sense_texts([table], TextFormat()), max_occurrences=9, sentences="whole"
    )
    assert [(occurrence.sense, occurrence.sentence, occurrence.line) for occurrence in labeled.occurrences] == [
        ("money", "A bank. It lends.", 1), ("river", "A bank.", 2),
    ]  # fmt: skip
    table.write_text("money\tA bank.\nno tab here\n", encoding="utf-8")
    with pytest.raises(InputError, match="no meaning before a tab") as error:
        list(read_labeled_sense_texts([table], TextFormat()))
    assert error.value.line == 2


def test_occurrence_to_dict_lists_every_field():
    occurrence = Occurrence("A bank.", 2, 6, "a.txt", 3, "money")
    assert occurrence.to_dict() == {
        "sentence": "A bank.", "start": 2, "end": 6, "file": "a.txt", "line": 3, "sense": "money",
    }  # fmt: skip
