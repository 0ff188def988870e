"""Text that is cut into words already is told from text as people write it."""

from pathlib import Path

import pytest

from forebear.data.io.reader import TextFormat
from forebear.data.source import is_pretokenized

CUT = "The U.S. made 1 @,@ 000 , or 1,000 , of them ( No. 5 ) at 10:30 a.m. , said H. Smith .\n"
PLAIN = "The U.S. made 1,000 of them (No. 5) at 10:30 a.m., said H. Smith.\n"


def told(folder: Path, text: str) -> bool:
    (folder / "text.txt").write_text(text)
    return is_pretokenized([str(folder / "text.txt")], TextFormat())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (CUT * 30, True),
        (PLAIN * 30, False),
        ("one sentence without commas .\n" * 30, True),
        ("one sentence without commas.\n" * 30, False),
        ("今天 天气 很 好 ， 我们 去 公园 。\n" * 30, True),
        ("今天天气很好，我们去公园。\n" * 30, False),
        (CUT * 9 + PLAIN * 9, False),
        ("no marks at all\n" * 99, False),
        (CUT, False),  # too little to tell
    ],
)
def test_punctuation_tells(tmp_path, text, expected):
    assert told(tmp_path, text) is expected


@pytest.mark.parametrize("name", ["train", "valid", "test"])
def test_parts_of_one_corpus_are_taken_alike(data, name):
    assert is_pretokenized([str(data / "corpora" / "wikitext2" / f"{name}.txt")], TextFormat())


@pytest.mark.parametrize("name", ["tinyshakespeare.txt", "zhwiki.txt"])
def test_text_as_people_write_it(data, name):
    assert not is_pretokenized([str(data / "corpora" / name)], TextFormat())
