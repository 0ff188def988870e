"""Compiled ARPA kernels against their reference implementations: arrays read, bytes written, faults detected."""

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
from forebear.kernels import arpa as arpa_kernels


def read_with_both_readers(path: Path) -> arpa.ArpaModel:
    """The model, after a check that the compiled and the reference reader agree."""
    compiled, reference = arpa.read_arpa(path, use_compiled=True), arpa.read_arpa(path, use_compiled=False)
    assert compiled.words == reference.words
    assert compiled.notes == reference.notes
    for actual, expected in zip(
        (*compiled.ngrams, *compiled.log_probs), (*reference.ngrams, *reference.log_probs), strict=True
    ):
        assert actual.dtype == expected.dtype
        np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=0)
    for actual, expected in zip(compiled.backoffs, reference.backoffs, strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=0)
    return compiled


def arpa_text(unigrams: list[str], *higher_orders: list[str]) -> str:
    levels = (unigrams, *higher_orders)
    sizes = "".join(f"ngram {n}={len(lines)}\n" for n, lines in enumerate(levels, start=1))
    sections = [f"\\{n}-grams:\n" + "".join(line + "\n" for line in lines) for n, lines in enumerate(levels, start=1)]
    return "\n".join([f"\\data\\\n{sizes}", *sections, "\\end\\\n"])


@pytest.mark.parametrize("name", ["test", "test_nounk", "toy0", "toy1"])
def test_arpa_published_files_are_read_alike_by_both_readers(data: Path, name: str):
    path = data / "weights" / "kenlm_arpa_fixtures" / f"{name}.arpa"
    if not path.is_file():
        pytest.skip(f"no such fixture: {path}")
    read_with_both_readers(path)


MARKERS = ["-1\t<unk>", "-99\t<s>\t-0.5", "-1\t</s>"]
UNUSUAL_WORDS = [
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


def test_arpa_unusual_words_are_read_alike_by_both_readers(tmp_path: Path):
    pairs = [f"-1.5\t{first} {second}" for first in UNUSUAL_WORDS for second in UNUSUAL_WORDS]
    (tmp_path / "m").write_text(
        arpa_text([*MARKERS, *(f"-2\t{word}\t-1" for word in UNUSUAL_WORDS)], pairs), "utf-8", newline="\n"
    )
    model = read_with_both_readers(tmp_path / "m")
    assert model.words[2:] == [arpa.unescape_word(word) for word in UNUSUAL_WORDS]
    assert model.ngrams[1].tolist() == [
        [2 + i, 2 + j] for i in range(len(UNUSUAL_WORDS)) for j in range(len(UNUSUAL_WORDS))
    ]


NUMBERS = (
    "-99 -inf 0 -0 -0.0 -1e-5 -1E-05 -.5 -5. -1e-400 -1e300 -0.69314718055994531 -1_0 -１ -2e+0"
    " -123456789012345678901234567890e-29 -0.00000000000000000000000000000012345"
).split()


def test_arpa_unusual_numbers_are_read_alike_by_both_readers(tmp_path: Path):
    unigrams = [*MARKERS, *(f"{number}\tw{i}\t{number}" for i, number in enumerate(NUMBERS))]
    pairs = [f"{number}\tw0 w{i}" for i, number in enumerate(NUMBERS)]
    (tmp_path / "m").write_text(arpa_text(unigrams, pairs), "utf-8")
    model = read_with_both_readers(tmp_path / "m")
    expected = [-np.inf, *(float(number) * np.log(10) for number in NUMBERS[1:])]  # -99 stands for log10 of 0
    for log_probs in (model.log_probs[0][2:], model.log_probs[1], model.backoffs[0][2:]):
        np.testing.assert_allclose(log_probs, expected, rtol=1e-15, atol=0)


@given(st.lists(st.floats(-1e290, 0), min_size=1, max_size=20), st.integers(1, 25))
@settings(max_examples=100)
def test_arpa_decimals_are_parsed_as_by_python(tmp_path_factory, values: list[float], digits: int):
    path = tmp_path_factory.mktemp("arpa") / "m"
    unigrams = [*MARKERS, *(f"{value:.{digits}g}\tw{i}\t{-value:.{digits}e}" for i, value in enumerate(values))]
    path.write_text(arpa_text(unigrams, []), "utf-8")
    compiled, reference = (arpa.read_arpa(path, use_compiled=use_compiled) for use_compiled in (True, False))
    for actual, expected in (
        (compiled.log_probs[0], reference.log_probs[0]),
        (compiled.backoffs[0], reference.backoffs[0]),
    ):
        np.testing.assert_allclose(actual, expected, rtol=1e-15, atol=0)


def random_ngrams(
    words: int, order: int, num_rows: int, seed: int = 0
) -> tuple[list[str], list[np.ndarray], list[np.ndarray]]:
    """Words, and random n-grams, each with its prefix, with random log probabilities."""
    rng = np.random.default_rng(seed)
    rows = np.unique(rng.integers(2, words, (num_rows, order)), axis=0)
    ngrams = [np.unique(rows[:, :n], axis=0) for n in range(1, order + 1)]
    ngrams[0] = np.arange(words)[:, None]
    return (
        ["<unk>", "</s>", *(f"字{i}"[i % 2 :] * (1 + i % 5) for i in range(2, words))],
        ngrams,
        [-rng.exponential(2, len(rows)) for rows in ngrams],
    )


@pytest.mark.parametrize("order", [1, 2, 3, 6])
@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize(
    "change", [lambda text: text, lambda text: text.replace(b"\t", b" \t").replace(b"\n", b"\r\n")]
)
def test_arpa_lines_across_blocks_are_read_alike(tmp_path: Path, monkeypatch, order: int, compressed: bool, change):
    """Small blocks, a small initial capacity and few unusual lines at a time reach every resizing path."""
    words, ngrams, log_probs = random_ngrams(300, order, 500)
    arpa.write_arpa(tmp_path / "m", words, ngrams, log_probs, log_probs[:-1], eos_id=1, unk_id=0)
    # Underscores in numbers, which Python allows, make the lines unusual.
    content = change((tmp_path / "m").read_bytes()).replace(b"-0.1", b"-0_0.1")
    (tmp_path / "m").write_bytes(gzip.compress(content) if compressed else content)
    one_block = read_with_both_readers(tmp_path / "m")
    monkeypatch.setattr(arpa, "BLOCK_BYTES", 997)
    monkeypatch.setattr(arpa, "MIN_CAPACITY", 8)
    monkeypatch.setattr(arpa_kernels, "MAX_UNPARSED", 3)
    many_blocks = read_with_both_readers(tmp_path / "m")
    assert all(map(np.array_equal, one_block.ngrams + one_block.log_probs, many_blocks.ngrams + many_blocks.log_probs))
    np.testing.assert_allclose(
        np.concatenate(many_blocks.log_probs[1:] or [[]]), np.concatenate(log_probs[1:] or [[]]), rtol=1e-8
    )


@given(st.data())
@settings(max_examples=200)
def test_missing_prefixes_and_duplicate_ngrams_are_detected_as_by_brute_force(data: Any):
    """The kernel and the reference, which sorts, agree with a comparison of all pairs."""
    known: list[Any] = []
    keys: list[np.ndarray] = []
    previous_rows: list[list[int]] = []
    for n in range(2, data.draw(st.integers(2, 5)) + 1):
        row = st.lists(st.integers(0, 2), min_size=n, max_size=n)
        if previous_rows:
            row |= st.tuples(st.sampled_from(previous_rows), st.integers(0, 2)).map(lambda both: [*both[0], both[1]])
        rows = data.draw(st.lists(row, max_size=9))
        without_prefix = [i for i, row in enumerate(rows) if n > 2 and row[:-1] not in previous_rows]
        duplicates = [i for i, row in enumerate(rows) if row in rows[:i] and not without_prefix]
        expected = (without_prefix or [-1])[0], (duplicates or [-1])[0]
        array = np.array(rows, np.int32).reshape(-1, n)
        assert arpa_kernels.check_ngram_prefixes(known, array) == expected
        assert arpa.check_prefixes(3, keys, array) == expected
        if expected != (-1, -1):
            return
        previous_rows = rows


def test_missing_prefixes_and_duplicates_are_detected_among_30_000_ngrams():
    _, ngrams, _ = random_ngrams(200, 4, 30_000)
    rng = np.random.default_rng(1)
    shuffled = [rng.permutation(rows).astype(np.int32) for rows in ngrams]
    for fault, position in ((None, -1), ("lost", 1234), ("again", 20_000)):
        rows = shuffled[3].copy()
        if fault == "lost":
            rows[position, 2] = 1
        if fault == "again":
            rows[position] = rows[77]
        known: list[Any] = []
        keys: list[np.ndarray] = []
        for level in shuffled[1:3]:
            assert arpa_kernels.check_ngram_prefixes(known, level) == arpa.check_prefixes(200, keys, level) == (-1, -1)
        expected = position if fault == "lost" else -1, position if fault == "again" else -1
        assert arpa_kernels.check_ngram_prefixes(known, rows) == arpa.check_prefixes(200, keys, rows) == expected


# -- writing

FLOATS = st.floats(-99, 0) | st.floats(-1e-3, 0) | st.integers(-(10**9), 0).map(lambda whole: whole / 10**8)


@given(st.lists(FLOATS | st.floats(-1e300, 1e300), min_size=1, max_size=30))
@example([0.0, -0.0, -99.0, -9.9999999999, -0.99999999951, -1e-5, -0.0001, -0.00009999999999, -1.0, -10.0, 123456789.5])
@example([-0.5 - 2.0**-31, -1234567885e-10, -100000000.5, 1e9, 999999999.5, 5e-324, 1e22, -0.3010299956639812])
@example([1e100, -1.5e-100, 1e8, 1e-4, 9.999999995e-5, 3e-14, 3e-15])
def test_arpa_numbers_are_formatted_as_by_python(values: list[float]):
    words_as_bytes, rows = arpa_kernels.word_bytes(["a"]), np.zeros((len(values), 1), np.int32)
    log_probs = np.array(values)
    reference = arpa.format_lines(["a"], rows, log_probs, -log_probs)
    assert bytes(arpa_kernels.format_ngram_lines(words_as_bytes, rows, log_probs, -log_probs)) == reference
    assert reference.split(b"\t")[0] == b"%.9g" % values[0]


@pytest.mark.parametrize("order", [1, 3])
@pytest.mark.parametrize("unk_id", [0, None])
def test_arpa_kernel_writes_the_same_bytes_as_the_reference(
    tmp_path: Path, monkeypatch, order: int, unk_id: int | None
):
    words, ngrams, log_probs = random_ngrams(50, order, 100)
    words[5] = words[5] + " \\何"
    ngrams[-1] = np.append(ngrams[-1], [[1, *range(2, order + 1)]], axis=0) if order > 1 else ngrams[-1]
    log_probs[-1] = np.append(log_probs[-1], -np.inf) if order > 1 else log_probs[-1]
    monkeypatch.setattr(arpa, "BLOCK_NGRAMS", 64)
    for name, use_compiled in (("quick", True), ("plain", False)):
        options: Any = {"eos_id": 1, "unk_id": unk_id, "use_compiled": use_compiled}
        arpa.write_arpa(tmp_path / name, words, ngrams, log_probs, log_probs[:-1], **options)
    assert (tmp_path / "quick").read_bytes() == (tmp_path / "plain").read_bytes()
    assert arpa.ArpaLineReader(tmp_path / "quick").read_header() == [
        len(rows) + (n == 0) * (1 if unk_id == 0 else 2) for n, rows in enumerate(ngrams)
    ]


def test_arpa_compression_follows_the_file_name(tmp_path: Path):
    words, ngrams, log_probs = random_ngrams(50, 2, 100)
    for name in ("m.arpa", "m.arpa.gz", "m.arpa.zst"):
        arpa.write_arpa(tmp_path / name, words, ngrams, log_probs, log_probs[:-1], eos_id=1, unk_id=0)
    uncompressed = (tmp_path / "m.arpa").read_bytes()
    assert gzip.decompress((tmp_path / "m.arpa.gz").read_bytes()) == uncompressed
    models = [arpa.read_arpa(tmp_path / name) for name in ("m.arpa", "m.arpa.gz", "m.arpa.zst")]
    assert all(np.array_equal(model.log_probs[1], models[0].log_probs[1]) for model in models)


def test_arpa_reading_takes_little_more_memory_than_its_arrays(tmp_path: Path):
    words, ngrams, log_probs = random_ngrams(1000, 4, 60_000)
    arpa.write_arpa(tmp_path / "m", words, ngrams, log_probs, log_probs[:-1], eos_id=1, unk_id=0, use_compiled=True)
    arpa.read_arpa(tmp_path / "m", use_compiled=True)  # loads the kernels
    num_values = sum(rows.size + 2 * len(rows) for rows in ngrams)
    tracemalloc.start()
    model = arpa.read_arpa(tmp_path / "m", use_compiled=True)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert sum(map(len, model.ngrams)) > 150_000
    assert peak < 8 * num_values + 4 * arpa.BLOCK_BYTES
