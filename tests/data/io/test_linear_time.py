"""Linear time: every regular expression and every processing step on hostile strings of a megabyte."""

import importlib
import pkgutil
import re
import time
from pathlib import Path

import pytest

import forebear.data
from forebear.data.io.document import Document
from forebear.data.io.sources import find_sources
from forebear.data.io.text_formats import TextFormat
from forebear.data.io.text_ledger import Ledger

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
WITH_END = slice(1, 2)  # the hostile text with an end that makes a match fail


def data_modules():
    return [
        importlib.import_module(info.name) for info in pkgutil.walk_packages(forebear.data.__path__, "forebear.data.")
    ]


PATTERNS = sorted(
    {
        (f"{module.__name__}.{name}", value)
        for module in data_modules()
        for name, value in vars(module).items()
        if isinstance(value, re.Pattern)
    },
    key=lambda entry: entry[0],
)


def hostile_texts(unit: str, size: int) -> list[str]:
    """The unit repeated: alone, and with an end that makes a match fail at the last character."""
    text = (unit * (size // len(unit) + 1))[:size]
    return [text, text + "\x01", "x" + text + "y"]


def cpu_seconds(work, text: str) -> float:
    """CPU seconds: other programs on the machine do not count."""
    start = time.process_time()
    work(text)
    return time.process_time() - start


def assert_linear(work, unit: str, cases: slice = slice(None)) -> None:
    """Four times the text may take at most about four times the time: what is quadratic takes seconds for this much."""
    pairs = zip(hostile_texts(unit, LARGE // 64), hostile_texts(unit, LARGE // 16), strict=True)
    for small, large in list(pairs)[cases]:
        large_seconds = cpu_seconds(work, large)
        if large_seconds > 0.5 and large_seconds > 9 * (
            small_seconds := min(cpu_seconds(work, small) for _ in range(3))
        ):
            large_seconds = min(
                large_seconds, cpu_seconds(work, large), cpu_seconds(work, large)
            )  # a busy machine deserves another chance
            assert large_seconds < 9 * small_seconds, (
                f"{len(large):,} characters took {large_seconds:.2f} s, a quarter of them {small_seconds:.2f} s"
            )


def assert_a_megabyte_takes_seconds(work, unit: str) -> None:
    assert cpu_seconds(work, hostile_texts(unit, LARGE)[1]) < 20


def test_patterns_of_the_data_modules_are_collected():
    assert len(PATTERNS) > 30


def search_function(name: str, pattern: re.Pattern[str]):
    if name.endswith(("ID_NAME", "NUMBERED_NAME")):  # only ever matched with a whole column name
        return pattern.fullmatch
    return lambda text: sum(1 for _ in pattern.finditer(text))


@pytest.mark.parametrize(("name", "pattern"), PATTERNS, ids=[name for name, _ in PATTERNS])
def test_regular_expression_takes_linear_time(name, pattern):
    for unit in HOSTILE.values():
        assert_linear(search_function(name, pattern), unit)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "pattern"), PATTERNS, ids=[name for name, _ in PATTERNS])
def test_regular_expression_takes_seconds_on_a_megabyte(name, pattern):
    for unit in HOSTILE.values():
        assert_a_megabyte_takes_seconds(search_function(name, pattern), unit)


def reading_function(path: Path):
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
def test_reading_takes_linear_time(unit, tmp_path):
    assert_linear(reading_function(tmp_path / "hostile.txt"), unit, WITH_END)


@pytest.mark.slow
@pytest.mark.parametrize("unit", HOSTILE.values(), ids=HOSTILE)
def test_reading_a_megabyte_takes_linear_time_and_seconds(unit, tmp_path):
    work = reading_function(tmp_path / "hostile.txt")
    assert_linear(work, unit)
    assert_a_megabyte_takes_seconds(work, unit)


def steps_after_reading(unit: str):
    """A function that runs all steps after reading: report, cleaning, sentences, segmentation, tokenization."""
    from forebear.data.cleaning import CleaningRules, clean_documents
    from forebear.data.corpus_report import corpus_report
    from forebear.data.segmentation import Segmenter
    from forebear.data.sentences import split_sentences
    from forebear.data.tokenizers.train import train_tokenizer

    texts = ["some text 一些文字 " + unit * 10]
    tokenizers = [train_tokenizer(kind, texts, min_count=1) for kind in ("words", "wordpiece", "bytepair")]
    rules = CleaningRules(nfkc=True, squeeze_spaces=True, drop_near_duplicates=0.8, drop_repeated_lines=10)
    segmenter = Segmenter(("文字", unit * 3))

    def work(text):
        documents = [Document(text, "x", 1)]
        corpus_report(documents, train=False)
        list(clean_documents(documents, rules, Ledger()))
        for mode in ("split", "lines", "flow"):
            split_sentences(text, mode)
        assert segmenter.word_ends(text)[-1] == len(text)
        for tokenizer in tokenizers:
            tokenizer.encode_many([text])

    return work


@pytest.mark.sample(8)
@pytest.mark.parametrize("unit", HOSTILE.values(), ids=HOSTILE)
def test_steps_after_reading_take_linear_time(unit):
    assert_linear(steps_after_reading(unit), unit, WITH_END)


@pytest.mark.slow
@pytest.mark.parametrize("unit", HOSTILE.values(), ids=HOSTILE)
def test_steps_after_reading_a_megabyte_take_linear_time_and_seconds(unit):
    work = steps_after_reading(unit)
    assert_linear(work, unit)
    assert_a_megabyte_takes_seconds(work, unit)
