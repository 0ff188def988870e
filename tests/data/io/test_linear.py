"""No input makes us slow: every regular expression and every step is linear on hostile strings of a megabyte."""

import importlib
import pkgutil
import re
import time
from pathlib import Path

import pytest

import forebear.data
from forebear.data.io.documents import Document
from forebear.data.io.files import find_sources
from forebear.data.io.ledger import Ledger
from forebear.data.io.reader import TextFormat

HOSTILE = {
    "spaces": " ",
    "newlines": "\n",
    "blank lines": " \n\t\n",
    "dots": ".",
    "letters": "a",
    "initials": "A.",
    "spaced dots": ". ",
    "quotes": '"',
    "quoted ends": '。"',
    "brackets": "([{",
    "digits": "1.",
    "Han": "中",
    "ellipses": "…",
    "marks": "a\u0301\u0301",
    "nuls": "\x00",
    "surrogate pairs": "😀",
    "mojibake": "Ã©â€™ä¸",
    "tags": "中/n ",
    "slashes": "/a",
    "hyphens": "-",
    "at": "x@",
    "tabs": "\t",
    "zero width": "\u200b",
    "separators": "\x1f",
}
LARGE = 1_000_000
ENDED = slice(1, 2)  # of the hostile texts, that with an end that denies a match


def modules():
    return [importlib.import_module(it.name) for it in pkgutil.walk_packages(forebear.data.__path__, "forebear.data.")]


PATTERNS = sorted(
    {
        (f"{module.__name__}.{name}", value)
        for module in modules()
        for name, value in vars(module).items()
        if isinstance(value, re.Pattern)
    },
    key=lambda it: it[0],
)


def hostile(unit: str, size: int) -> list[str]:
    """The unit repeated: alone, and with an end that denies a match to whatever ran up to it."""
    text = (unit * (size // len(unit) + 1))[:size]
    return [text, text + "\x01", "x" + text + "y"]


def seconds(work, text: str) -> float:
    """CPU seconds: other programs on the machine do not count."""
    start = time.process_time()
    work(text)
    return time.process_time() - start


def assert_linear(work, unit: str, which: slice = slice(None)) -> None:
    """Four times the text may take at most about four times the time: what is quadratic takes seconds for this much."""
    pairs = zip(hostile(unit, LARGE // 64), hostile(unit, LARGE // 16), strict=True)
    for small, large in list(pairs)[which]:
        many = seconds(work, large)
        if many > 0.5 and many > 9 * (few := min(seconds(work, small) for _ in range(3))):
            many = min(many, seconds(work, large), seconds(work, large))  # a busy machine deserves another chance
            assert many < 9 * few, f"{len(large):,} characters took {many:.2f} s, a quarter of them {few:.2f} s"


def assert_a_megabyte_takes_seconds(work, unit: str) -> None:
    assert seconds(work, hostile(unit, LARGE)[1]) < 20


def test_there_are_patterns_to_test():
    assert len(PATTERNS) > 30


def found_by(name: str, pattern: re.Pattern[str]):
    if name.endswith(("ID_NAME", "NUMBERED_NAME")):  # only ever matched with a whole column name
        return pattern.fullmatch
    return lambda text: sum(1 for _ in pattern.finditer(text))


@pytest.mark.parametrize(("name", "pattern"), PATTERNS, ids=[name for name, _ in PATTERNS])
def test_every_regular_expression(name, pattern):
    for unit in HOSTILE.values():
        assert_linear(found_by(name, pattern), unit)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "pattern"), PATTERNS, ids=[name for name, _ in PATTERNS])
def test_every_regular_expression_on_a_megabyte(name, pattern):
    for unit in HOSTILE.values():
        assert_a_megabyte_takes_seconds(found_by(name, pattern), unit)


def read_from(path: Path):
    def work(text):
        path.write_text(text)
        for division in ("blank", "lines", "files"):
            ledger = Ledger()
            assert sum(
                len(d.text) for d in TextFormat(documents=division).documents_in(find_sources([path]), ledger)
            ) <= len(text)
            ledger.verify()

    return work


@pytest.mark.parametrize("unit", HOSTILE.values(), ids=HOSTILE)
def test_reading(unit, tmp_path):
    assert_linear(read_from(tmp_path / "hostile.txt"), unit, ENDED)


@pytest.mark.slow
@pytest.mark.parametrize("unit", HOSTILE.values(), ids=HOSTILE)
def test_reading_a_megabyte(unit, tmp_path):
    work = read_from(tmp_path / "hostile.txt")
    assert_linear(work, unit)
    assert_a_megabyte_takes_seconds(work, unit)


def every_step(unit: str):
    """All that is done to a text after it was read."""
    from forebear.data.cleaning import CleaningRules, clean_documents
    from forebear.data.corpus_report import text_report
    from forebear.data.segmentation import Segmenter
    from forebear.data.sentences import split_sentences
    from forebear.data.tokenizers.train import train_tokenizer

    texts = ["some text 一些文字 " + unit * 10]
    kinds = [train_tokenizer(kind, texts, min_count=1) for kind in ("words", "wordpiece", "bytepair")]
    rules = CleaningRules(nfkc=True, squeeze_spaces=True, drop_near_duplicates=0.8, drop_repeated_lines=10)
    segmenter = Segmenter(("文字", unit * 3))

    def work(text):
        documents = [Document(text, "x", 1)]
        text_report(documents, train=False)
        list(clean_documents(documents, rules, Ledger()))
        for mode in ("split", "lines", "flow"):
            split_sentences(text, mode)
        assert segmenter.word_ends(text)[-1] == len(text)
        for tokenizer in kinds:
            tokenizer.encode_many([text])

    return work


@pytest.mark.sample(8)
@pytest.mark.parametrize("unit", HOSTILE.values(), ids=HOSTILE)
def test_every_step_after_reading(unit):
    assert_linear(every_step(unit), unit, ENDED)


@pytest.mark.slow
@pytest.mark.parametrize("unit", HOSTILE.values(), ids=HOSTILE)
def test_every_step_after_reading_a_megabyte(unit):
    work = every_step(unit)
    assert_linear(work, unit)
    assert_a_megabyte_takes_seconds(work, unit)
