"""Compiled loops for ARPA files give what their readable twins give: arrays read, bytes written, faults found."""

from __future__ import annotations

import gzip
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from forebear.interop import arpa
from forebear.kernels import arpa as arpa_reading
from forebear.kernels import arpa as arpa_writing


def assert_same(path: Path) -> arpa.ArpaModel:
    quick, plain = arpa.read_arpa(path, quickly=True), arpa.read_arpa(path, quickly=False)
    assert quick.words == plain.words
    assert quick.notes == plain.notes
    for mine, theirs in zip((*quick.ngrams, *quick.log_probs), (*plain.ngrams, *plain.log_probs), strict=True):
        assert mine.dtype == theirs.dtype
        np.testing.assert_allclose(mine, theirs, rtol=1e-12, atol=0)
    for mine, theirs in zip(quick.backoffs, plain.backoffs, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-12, atol=0)
    return quick


def text_of(single: list[str], *longer: list[str]) -> str:
    levels = (single, *longer)
    sizes = "".join(f"ngram {n}={len(lines)}\n" for n, lines in enumerate(levels, start=1))
    parts = [f"\\{n}-grams:\n" + "".join(line + "\n" for line in lines) for n, lines in enumerate(levels, start=1)]
    return "\n".join([f"\\data\\\n{sizes}", *parts, "\\end\\\n"])


@pytest.mark.parametrize("name", ["test", "test_nounk", "toy0", "toy1"])
def test_published_files(data: Path, name: str):
    path = data / "weights" / "kenlm_arpa_fixtures" / f"{name}.arpa"
    if not path.is_file():
        pytest.skip(f"no such fixture: {path}")
    assert_same(path)


MARKS = ["-1\t<unk>", "-99\t<s>\t-0.5", "-1\t</s>"]
ODD = [
    "何",
    "北京大学",
    "😀",
    "\\u0020",
    "a\u3000b",
    "\xa0",
    "w" * 100_000,
    "-1",
    "1e5",
    "a\x00b",
    "x\u2028y",
    "a\rb",
    "<S>",
]


def test_odd_words(tmp_path: Path):
    pairs = [f"-1.5\t{first} {second}" for first in ODD for second in ODD]
    (tmp_path / "m").write_text(text_of([*MARKS, *(f"-2\t{word}\t-1" for word in ODD)], pairs), "utf-8", newline="\n")
    told = assert_same(tmp_path / "m")
    assert told.words[2:] == [arpa.unescape_word(word) for word in ODD]
    assert told.ngrams[1].tolist() == [[2 + i, 2 + j] for i in range(len(ODD)) for j in range(len(ODD))]


NUMBERS = (
    "-99 -inf 0 -0 -0.0 -1e-5 -1E-05 -.5 -5. -1e-400 -1e300 -0.69314718055994531 -1_0 -１ -2e+0"
    " -123456789012345678901234567890e-29 -0.00000000000000000000000000000012345"
).split()


def test_odd_numbers(tmp_path: Path):
    single = [*MARKS, *(f"{number}\tw{i}\t{number}" for i, number in enumerate(NUMBERS))]
    pairs = [f"{number}\tw0 w{i}" for i, number in enumerate(NUMBERS)]
    (tmp_path / "m").write_text(text_of(single, pairs), "utf-8")
    told = assert_same(tmp_path / "m")
    expected = [-np.inf, *(float(number) * np.log(10) for number in NUMBERS[1:])]  # -99 stands for log10 of 0
    for found in (told.log_probs[0][2:], told.log_probs[1], told.backoffs[0][2:]):
        np.testing.assert_allclose(found, expected, rtol=1e-15, atol=0)


@given(st.lists(st.floats(-1e290, 0), min_size=1, max_size=20), st.integers(1, 25))
@settings(max_examples=100)
def test_any_decimal_is_read_as_python_reads_it(tmp_path_factory, values: list[float], digits: int):
    path = tmp_path_factory.mktemp("arpa") / "m"
    single = [*MARKS, *(f"{value:.{digits}g}\tw{i}\t{-value:.{digits}e}" for i, value in enumerate(values))]
    path.write_text(text_of(single, []), "utf-8")
    quick, plain = (arpa.read_arpa(path, quickly=quickly) for quickly in (True, False))
    for mine, theirs in ((quick.log_probs[0], plain.log_probs[0]), (quick.backoffs[0], plain.backoffs[0])):
        np.testing.assert_allclose(mine, theirs, rtol=1e-15, atol=0)


def made(words: int, order: int, size: int, seed: int = 0) -> tuple[list[str], list[np.ndarray], list[np.ndarray]]:
    """Words, and random n-grams (each with what it begins with) with random logarithms."""
    rng = np.random.default_rng(seed)
    rows = np.unique(rng.integers(2, words, (size, order)), axis=0)
    ngrams = [np.unique(rows[:, :n], axis=0) for n in range(1, order + 1)]
    ngrams[0] = np.arange(words)[:, None]
    return (
        ["<unk>", "</s>", *(f"字{i}"[i % 2 :] * (1 + i % 5) for i in range(2, words))],
        ngrams,
        [-rng.exponential(2, len(rows)) for rows in ngrams],
    )


@pytest.mark.parametrize("order", [1, 2, 3, 6])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    "change", [lambda text: text, lambda text: text.replace(b"\t", b" \t").replace(b"\n", b"\r\n")]
)
def test_lines_across_blocks(tmp_path: Path, monkeypatch, order: int, packed: bool, change):
    """With small blocks, little room at first and few odd lines at a time, everything that is done twice is done."""
    words, ngrams, logs = made(300, order, 500)
    arpa.write_arpa(tmp_path / "m", words, ngrams, logs, logs[:-1], eos_id=1, unk_id=0)
    content = change((tmp_path / "m").read_bytes()).replace(b"-0.1", b"-0_0.1")  # Python's form: odd lines
    (tmp_path / "m").write_bytes(gzip.compress(content) if packed else content)
    whole = assert_same(tmp_path / "m")
    monkeypatch.setattr(arpa, "BLOCK_BYTES", 997)
    monkeypatch.setattr(arpa, "MIN_CAPACITY", 8)
    monkeypatch.setattr(arpa_reading, "MAX_UNUSUAL", 3)
    parts = assert_same(tmp_path / "m")
    assert all(map(np.array_equal, whole.ngrams + whole.log_probs, parts.ngrams + parts.log_probs))
    np.testing.assert_allclose(np.concatenate(parts.log_probs[1:] or [[]]), np.concatenate(logs[1:] or [[]]), rtol=1e-8)


@given(st.data())
@settings(max_examples=200)
def test_checks(data: Any):
    """What is lost or twice is found as sorting finds it, and as looking at all pairs does."""
    known: list[Any] = []
    keys: list[np.ndarray] = []
    before: list[list[int]] = []
    for n in range(2, data.draw(st.integers(2, 5)) + 1):
        row = st.lists(st.integers(0, 2), min_size=n, max_size=n)
        if before:
            row |= st.tuples(st.sampled_from(before), st.integers(0, 2)).map(lambda both: [*both[0], both[1]])
        rows = data.draw(st.lists(row, max_size=9))
        lost = [i for i, row in enumerate(rows) if n > 2 and row[:-1] not in before]
        again = [i for i, row in enumerate(rows) if row in rows[:i] and not lost]
        expected = (lost or [-1])[0], (again or [-1])[0]
        array = np.array(rows, np.int32).reshape(-1, n)
        assert arpa_reading.check_ngram_prefixes(known, array) == expected
        assert arpa.check_prefixes(3, keys, array) == expected
        if expected != (-1, -1):
            return
        before = rows


def test_checks_of_many():
    _, ngrams, _ = made(200, 4, 30_000)
    rng = np.random.default_rng(1)
    shuffled = [rng.permutation(rows).astype(np.int32) for rows in ngrams]
    for spoil, place in ((None, -1), ("lost", 1234), ("again", 20_000)):
        rows = shuffled[3].copy()
        if spoil == "lost":
            rows[place, 2] = 1
        if spoil == "again":
            rows[place] = rows[77]
        known: list[Any] = []
        keys: list[np.ndarray] = []
        for level in shuffled[1:3]:
            assert arpa_reading.check_ngram_prefixes(known, level) == arpa.check_prefixes(200, keys, level) == (-1, -1)
        expected = place if spoil == "lost" else -1, place if spoil == "again" else -1
        assert arpa_reading.check_ngram_prefixes(known, rows) == arpa.check_prefixes(200, keys, rows) == expected


# -- writing

FLOATS = st.floats(-99, 0) | st.floats(-1e-3, 0) | st.integers(-(10**9), 0).map(lambda whole: whole / 10**8)


@given(st.lists(FLOATS | st.floats(-1e300, 1e300), min_size=1, max_size=30))
@example([0.0, -0.0, -99.0, -9.9999999999, -0.99999999951, -1e-5, -0.0001, -0.00009999999999, -1.0, -10.0, 123456789.5])
@example([-0.5 - 2.0**-31, -1234567885e-10, -100000000.5, 1e9, 999999999.5, 5e-324, 1e22, -0.3010299956639812])
@example([1e100, -1.5e-100, 1e8, 1e-4, 9.999999995e-5, 3e-14, 3e-15])
def test_numbers_are_written_as_python_writes_them(values: list[float]):
    names, rows = arpa_writing.word_bytes(["a"]), np.zeros((len(values), 1), np.int32)
    numbers = np.array(values)
    plain = arpa.format_lines(["a"], rows, numbers, -numbers)
    assert bytes(arpa_writing.format_ngram_lines(names, rows, numbers, -numbers)) == plain
    assert plain.split(b"\t")[0] == b"%.9g" % values[0]


@pytest.mark.parametrize("order", [1, 3])
@pytest.mark.parametrize("unknown", [0, None])
def test_the_same_bytes_are_written(tmp_path: Path, monkeypatch, order: int, unknown: int | None):
    words, ngrams, logs = made(50, order, 100)
    words[5] = words[5] + " \\何"
    ngrams[-1] = np.append(ngrams[-1], [[1, *range(2, order + 1)]], axis=0) if order > 1 else ngrams[-1]
    logs[-1] = np.append(logs[-1], -np.inf) if order > 1 else logs[-1]
    monkeypatch.setattr(arpa, "BLOCK_NGRAMS", 64)
    for name, quickly in (("quick", True), ("plain", False)):
        arpa.write_arpa(tmp_path / name, words, ngrams, logs, logs[:-1], eos_id=1, unk_id=unknown, quickly=quickly)
    assert (tmp_path / "quick").read_bytes() == (tmp_path / "plain").read_bytes()
    assert arpa.ArpaLineReader(tmp_path / "quick").read_header() == [
        len(rows) + (n == 0) * (1 if unknown == 0 else 2) for n, rows in enumerate(ngrams)
    ]


def test_packed_where_the_name_says_so(tmp_path: Path):
    words, ngrams, logs = made(50, 2, 100)
    for name in ("m.arpa", "m.arpa.gz", "m.arpa.zst"):
        arpa.write_arpa(tmp_path / name, words, ngrams, logs, logs[:-1], eos_id=1, unk_id=0)
    plain = (tmp_path / "m.arpa").read_bytes()
    assert gzip.decompress((tmp_path / "m.arpa.gz").read_bytes()) == plain
    told = [arpa.read_arpa(tmp_path / name) for name in ("m.arpa", "m.arpa.gz", "m.arpa.zst")]
    assert all(np.array_equal(mine.log_probs[1], told[0].log_probs[1]) for mine in told)


def test_reading_takes_little_more_memory_than_the_arrays(tmp_path: Path):
    words, ngrams, logs = made(1000, 4, 60_000)
    arpa.write_arpa(tmp_path / "m", words, ngrams, logs, logs[:-1], eos_id=1, unk_id=0, quickly=True)
    arpa.read_arpa(tmp_path / "m", quickly=True)  # which loads the loops
    fields = sum(rows.size + 2 * len(rows) for rows in ngrams)
    tracemalloc.start()
    told = arpa.read_arpa(tmp_path / "m", quickly=True)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert sum(map(len, told.ngrams)) > 150_000
    assert peak < 8 * fields + 4 * arpa.BLOCK_BYTES
