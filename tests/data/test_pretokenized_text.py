"""Pre-tokenized text is distinguished from ordinary text."""

from pathlib import Path

import pytest

from forebear.data.io.text_formats import TextFormat
from forebear.data.source import is_pretokenized

PRETOKENIZED = "The U.S. made 1 @,@ 000 , or 1,000 , of them ( No. 5 ) at 10:30 a.m. , said H. Smith .\n"
PLAIN = "The U.S. made 1,000 of them (No. 5) at 10:30 a.m., said H. Smith.\n"


def is_pretokenized_file(folder: Path, text: str) -> bool:
    (folder / "text.txt").write_text(text)
    return is_pretokenized([str(folder / "text.txt")], TextFormat())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (PRETOKENIZED * 30, True),
        (PLAIN * 30, False),
        ("one sentence without commas .\n" * 30, True),
        ("one sentence without commas.\n" * 30, False),
        ("今天 天气 很 好 ， 我们 去 公园 。\n" * 30, True),
        ("今天天气很好，我们去公园。\n" * 30, False),
        (PRETOKENIZED * 9 + PLAIN * 9, False),
        ("no marks at all\n" * 99, False),
        (PRETOKENIZED, False),  # too little text to decide
    ],
)
def test_spaces_around_punctuation_mean_pretokenized_text(tmp_path, text, expected):
    assert is_pretokenized_file(tmp_path, text) is expected


@pytest.mark.parametrize("name", ["train", "valid", "test"])
def test_all_splits_of_wikitext2_are_pretokenized(data, name):
    assert is_pretokenized([str(data / "corpora" / "wikitext2" / f"{name}.txt")], TextFormat())


@pytest.mark.parametrize("name", ["tinyshakespeare.txt", "zhwiki.txt"])
def test_ordinary_corpora_are_not_pretokenized(data, name):
    assert not is_pretokenized([str(data / "corpora" / name)], TextFormat())
