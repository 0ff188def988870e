"""Corrupt files of word vectors: refused with their line or byte and a hint."""

from __future__ import annotations

import json
import struct
import tracemalloc
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from forebear.errors import ForebearError, InputError
from forebear.interop.word_vectors import VECTOR_FORMATS, detect_vector_format, read_word_vectors, write_word_vectors
from forebear.kernels import float_text

WORDS = ["the", "北京", "😀", "of", "naïve", "</s>"]


def float32_bytes(*values: float) -> bytes:
    return struct.pack(f"<{len(values)}f", *values)


@pytest.mark.parametrize(
    ("file_format", "content", "line", "message"),
    [
        (None, b"", None, "empty"),
        (None, b" \n\n", None, "empty"),
        (None, b"just words\n", None, "no file of word vectors"),
        (None, b"PK\x03\x04", None, "zip"),
        (None, b"\x80\x04\x95 1 2\n", None, "pickle"),
        (None, b"\xba\x16\x4f\x2f\x0c\0\0\0", None, "fastText's own model"),
        (None, b"\x93NUMPY\x01\0v\0", None, "without words"),
        ("word2vec", b"", None, "empty"),
        ("glove", b"", None, "empty"),
        ("glove", b"just words\n", 1, "no word with numbers"),
        ("glove", b"2 2\na 1 2\nb 3 4\n", 1, "as GloVe's files do not"),
        ("word2vec", b"a 1 2\nb 3 4\n", 1, '"N D"'),
        ("word2vec", b"0 2\n", 1, "0 words"),
        ("word2vec", b"2 0\na\nb\n", 1, "0 numbers"),
        ("word2vec", b"2 99999999999\na 1 2\n", 1, "99,999,999,999 numbers"),
        (None, b"2 3\na 1 2\nb 3 4\n", 1, "3 numbers, and the lines below have 2"),
        (None, b"2 2\na 1 2 3\nb 4 5 6\n", 1, "2 numbers, and the lines below have 3"),
        (None, b"3 2\na 1 2\nb 3 4\n", 3, "ends after 2 of the 3 words"),
        (None, b"999999999999 2\na 1 2\nb 3 4\n", 3, "ends after 2 of the 999,999,999,999 words"),
        (None, b"2 2\n\na 1 2\nb 3 4\nc 5 6\n\nd 5 6\n", 5, "a word more than the 2"),
        (None, b"2 2\na 1 2\nb 3\n", 3, "there are 2 fields"),
        (None, b"2 2\na 1 2\nb\n", 3, "there are 1 fields"),
        (None, b"a 1 2\n3 4\nb 5 6\n", 2, "no word before"),
        (None, b"a 1 2\n 3 4\nb 5 6\n", 2, "no word before"),
        (None, b"a 1 2\nb 3 x\nc 5 6\n", 2, "'x' stands where a number"),
        (None, b"a 1 2\nb 3 1_0\nc 5 6\n", 2, "'1_0' stands where a number"),
        (None, b"a 1 2\nb 3 0x10\nc 5 6\n", 2, "'0x10' stands where a number"),
        (None, "a 1 2\nb 3 ４\nc 5 6\n".encode(), 2, "'４' stands where a number"),
        (None, b"a 1 2\nb 3 4;5\nc 5 6\n", 2, "'4;5' stands where a number"),
        (None, b"a 1 2\nb 3 \x1f4\nc 5 6\n", 2, "'\\x1f4' stands where a number"),
        (None, b"a 1 2\nb 3 nan\nc 5 6\n", 2, "'b' holds nan"),
        (None, b"a 1 2\nb 3 -inf\nc 5 6\n", 2, "'b' holds -inf"),
        (None, b"a 1 2\nb 3 1e39\nc 5 6\n", 2, "'b' holds inf"),
        (None, b"a 1 2\nb c 3 1e39\nc 5 6\n", 2, "'b c' holds inf"),
        (None, b"a 1 2\nb\xff\xfe 3 4\nc 5 6\n", 2, "is no UTF-8"),
        (None, b"a 1 2\nb c\xff 3 4\nc 5 6\n", 2, "is no UTF-8"),
    ],
)
@pytest.mark.filterwarnings("error")
def test_invalid_text_word_vectors_are_refused_with_their_line(
    tmp_path: Path, file_format: str | None, content: bytes, line: int | None, message: str
):
    (tmp_path / "v").write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_word_vectors(tmp_path / "v", form=file_format)
    assert message in caught.value.message
    assert (caught.value.line, caught.value.file) == (line, str(tmp_path / "v"))
    assert caught.value.hint


@pytest.mark.parametrize(
    ("content", "line", "byte", "message"),
    [
        (b"", None, None, "empty"),
        (b"a 1 2\n", 1, None, '"N D"'),
        (b"0 2\n", 1, None, "0 words"),
        (b"1 9999999999\na 1234", 1, None, "9,999,999,999 numbers"),
        (b"2 2\na " + float32_bytes(1, 2), None, 14, "ends after 1 of the 2 words"),
        (b"2 2\na " + float32_bytes(1, 2) + b"\n", None, 14, "ends after 1 of the 2 words"),
        (b"999999999999 2\na " + float32_bytes(1, 2) + b"\n", None, 25, "ends after 1 of the 999,999,999,999 words"),
        (b"2 2\na " + float32_bytes(1, 2) + b"\nbb", None, 14, "ends inside the word"),
        (b"2 2\na " + float32_bytes(1, 2) + b"\nb " + float32_bytes(1), None, 14, "ends inside the word"),
        (b"1 2\na " + float32_bytes(1, 2) + b"\nb " + float32_bytes(1, 2), None, 14, "more than the 1 words"),
        (b"2 2\na " + float32_bytes(1, 2) + b" " + float32_bytes(1, 2), None, 14, "no word before it"),
        (b"2 2\na " + float32_bytes(1, 2) + b"b " + float32_bytes(1, float("nan")), None, 14, "'b' holds nan"),
        (b"2 2\na " + float32_bytes(1, 2) + b"\xff\xff " + float32_bytes(1, 2), None, 14, "is no UTF-8"),
        (b"2 2\na " + float32_bytes(1, 2) + b"x" * 70_000, None, 14, "no word ends within"),
    ],
)
def test_invalid_binary_word_vectors_are_refused_with_line_or_byte(
    tmp_path: Path, content: bytes, line: int | None, byte: int | None, message: str
):
    (tmp_path / "v").write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_word_vectors(tmp_path / "v", form="word2vec-binary")
    assert message in caught.value.message
    assert (caught.value.line, caught.value.byte, caught.value.file) == (line, byte, str(tmp_path / "v"))
    assert caught.value.hint


def write_safetensors(tmp_path: Path, **changes: Any) -> Path:
    """A safetensors file of two words, with changes to the header or to the data."""
    header = {
        "ends": {"dtype": "I64", "shape": [2], "data_offsets": [0, 16]},
        "vectors": {"dtype": "F32", "shape": [2, 1], "data_offsets": [16, 24]},
        "words": {"dtype": "U8", "shape": [2], "data_offsets": [24, 26]},
    }
    content = bytearray(struct.pack("<qq", 1, 2) + float32_bytes(1, 2) + b"ab")
    for name, change in changes.items():
        if name in header:
            header[name] |= change
        elif name == "data":
            content[change[0] : change[0] + len(change[1])] = change[1]
    header_bytes = json.dumps(header | changes.get("more", {})).encode()
    (tmp_path / "v").write_bytes(len(header_bytes).to_bytes(8, "little") + header_bytes + bytes(content))
    return tmp_path / "v"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"vectors": {"shape": [3, 1]}}, "vectors is not as its header says"),
        ({"vectors": {"shape": [2, "1"]}}, "vectors is not as its header says"),
        ({"vectors": {"shape": [2, -1]}}, "vectors is not as its header says"),
        ({"vectors": {"shape": [1 << 40, 1 << 40]}}, "vectors is not as its header says"),
        ({"vectors": {"data_offsets": [16, 240]}}, "vectors is not as its header says"),
        ({"vectors": {"data_offsets": [240, 248]}}, "vectors is not as its header says"),
        ({"vectors": {"data_offsets": None}}, "vectors is not as its header says"),
        ({"vectors": {"dtype": "BF16"}}, "no safetensors file with a table"),
        ({"vectors": {"shape": [2]}}, "no safetensors file with a table"),
        ({"vectors": {"shape": [1, 2]}}, "1 vectors and 2 words"),
        ({"words": {"dtype": "F8"}}, "words is not as its header says"),
        ({"ends": {"dtype": "F64"}}, "ends does not say"),
        ({"data": (0, struct.pack("<qq", 2, 1))}, "ends does not say"),
        ({"data": (0, struct.pack("<qq", 1, 9))}, "ends does not say"),
        ({"data": (16, float32_bytes(1, float("inf")))}, "word 2: the vector of 'b' holds inf"),
        ({"data": (24, b"a\xff")}, "word 2: the word '\\\\xff' is no UTF-8"),
        ({"more": {"counts": {"dtype": "I64", "shape": [1], "data_offsets": [0, 8]}}}, "counts does not say"),
        ({"more": {"ends": None}}, "ends is not as its header says"),
    ],
)
def test_invalid_safetensors_word_vectors_are_refused(tmp_path: Path, changes: dict[str, Any], message: str):
    with pytest.raises(InputError) as caught:
        read_word_vectors(write_safetensors(tmp_path, **changes), form="safetensors")
    assert message in caught.value.message
    assert caught.value.hint
    assert read_word_vectors(write_safetensors(tmp_path)).words == ["a", "b"]  # without the changes it is valid


@pytest.mark.parametrize("file_format", ["word2vec", "glove", "word2vec-binary", "safetensors"])
@pytest.mark.parametrize("on_bad_bytes", ["replace", "skip"])
def test_words_with_invalid_utf8_are_replaced_or_skipped_and_counted(
    tmp_path: Path, file_format: str, on_bad_bytes: str
):
    matrix = np.arange(10, dtype=np.float32).reshape(5, 2)
    write_word_vectors(tmp_path / "v", file_format, ["a", "bQQ", "c", "dQQ", "e"], matrix)
    (tmp_path / "v").write_bytes((tmp_path / "v").read_bytes().replace(b"QQ", b"\xe5\x8c"))
    vectors = read_word_vectors(tmp_path / "v", on_bad_bytes=on_bad_bytes)
    if on_bad_bytes == "replace":
        assert vectors.words == ["a", "b\ufffd", "c", "d\ufffd", "e"]
        assert np.array_equal(vectors.matrix, matrix)
    else:
        assert vectors.words == ["a", "c", "e"]
        assert np.array_equal(vectors.matrix, matrix[::2])
    (note,) = vectors.notes
    assert note.startswith("2 words are no UTF-8, " + ("U+FFFD stands" if on_bad_bytes == "replace" else "left out"))
    locations = {"word2vec": "line 3, line 5", "glove": "line 2, line 4", "safetensors": "word 2, word 4"}
    assert locations.get(file_format, "byte ") in note
    with pytest.raises(InputError, match="no UTF-8"):
        read_word_vectors(tmp_path / "v")
    with pytest.raises(InputError, match="no way with bad bytes"):
        read_word_vectors(tmp_path / "v", on_bad_bytes="ignore")


@pytest.mark.parametrize("suffix", ["gz", "zst"])
def test_corrupt_compressed_word_vectors_are_refused(tmp_path: Path, suffix: str):
    path, matrix = tmp_path / f"v.{suffix}", np.random.default_rng(0).normal(size=(5000, 3))
    write_word_vectors(path, "glove", [f"w{row}" for row in range(5000)], matrix)
    whole_file = path.read_bytes()
    for content in (
        whole_file[:-20],
        whole_file[: len(whole_file) // 2],
        whole_file[:500] + bytes(50) + whole_file[550:],
    ):
        path.write_bytes(content)
        for file_format in (None, "glove"):
            with pytest.raises(InputError, match="packed file is damaged"):
                read_word_vectors(path, form=file_format)


def test_endless_line_of_word_vectors_is_refused(tmp_path: Path):
    (tmp_path / "v").write_bytes(b"a 1 2\nb 3 4\n" + b"x" * (10 << 20))
    with pytest.raises(InputError, match="does not end within") as caught:
        read_word_vectors(tmp_path / "v")
    assert caught.value.line == 3


def test_missing_word_vectors_folders_and_unknown_formats_are_refused(tmp_path: Path):
    for path in (tmp_path, tmp_path / "absent"):
        with pytest.raises(InputError, match="cannot be read"):
            read_word_vectors(path)
        for file_format in VECTOR_FORMATS:
            with pytest.raises(InputError, match="cannot be read"):
                read_word_vectors(path, form=file_format)
    with pytest.raises(InputError, match="no form of word vectors"):
        read_word_vectors(__file__, form="pickle")


@pytest.mark.parametrize(
    ("words", "matrix", "message"),
    [
        (["a", "b"], np.ones((1, 2)), "not a vector for each word"),
        (["a"], np.ones(2), "not a vector for each word"),
        ([], np.ones((0, 2)), "not a vector for each word"),
        (["a", "b", "a"], np.ones((3, 2)), "'a' is there twice"),
        (["a", "b"], np.array([[1, 2], [3, np.nan]]), "'b' holds a number that is none"),
        (["a", "b"], np.array([[1, 2], [3, 1e39]]), "'b' holds a number that is none"),
        (["a", "\ud800"], np.ones((2, 2)), "is no text"),
    ],
)
def test_writing_invalid_word_vectors_is_refused(tmp_path: Path, words: list[str], matrix: np.ndarray, message: str):
    for file_format in VECTOR_FORMATS:
        with pytest.raises(InputError, match=message):
            write_word_vectors(tmp_path / "v", file_format, words, matrix)
    assert list(tmp_path.iterdir()) == []


# -- fuzzing


def valid_content(path: Path, file_format: str, compressed: bool) -> bytes:
    path = path / f"sound{'.gz' if compressed else ''}"
    write_word_vectors(
        path, file_format, WORDS, np.random.default_rng(1).normal(size=(len(WORDS), 3)).astype(np.float32)
    )
    return path.read_bytes()


@settings(max_examples=300)
@given(
    file_format=st.sampled_from(VECTOR_FORMATS),
    is_format_given=st.booleans(),
    compressed=st.booleans(),
    truncated_to=st.integers(0, 400),
    flips=st.lists(st.tuples(st.integers(0, 399), st.integers(0, 255)), max_size=4),
    on_bad_bytes=st.sampled_from(["fail", "replace", "skip"]),
)
@example(
    file_format="word2vec",
    is_format_given=True,
    compressed=False,
    truncated_to=400,
    flips=[(0, ord("9")), (1, ord("9"))],
    on_bad_bytes="fail",
)
@example(
    file_format="word2vec-binary",
    is_format_given=True,
    compressed=False,
    truncated_to=400,
    flips=[(1, ord("9")), (2, ord("9"))],
    on_bad_bytes="fail",
)
@example(
    file_format="safetensors",
    is_format_given=True,
    compressed=False,
    truncated_to=400,
    flips=[(5, 1)],
    on_bad_bytes="fail",
)
def test_corrupt_word_vectors_are_read_or_refused_alike_by_both_parsers(
    tmp_path_factory: pytest.TempPathFactory,
    file_format: str,
    is_format_given: bool,
    compressed: bool,
    truncated_to: int,
    flips: list[tuple[int, int]],
    on_bad_bytes: str,
):
    folder = tmp_path_factory.getbasetemp()
    content = bytearray(valid_content(folder, file_format, compressed and file_format != "safetensors")[:truncated_to])
    for position, value in flips:
        if position < len(content):
            content[position] = value
    path = folder / "damaged"
    path.write_bytes(content)
    detect_vector_format(path)
    tracemalloc.start()
    outcomes, peak_memory = [], 0
    for parse in (None, float_text.parse_decimals):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                vectors = read_word_vectors(
                    path, form=file_format if is_format_given else None, on_bad_bytes=on_bad_bytes, parse=parse
                )
            assert len(vectors.words) == len(set(vectors.words)) == len(vectors.matrix) > 0
            assert np.isfinite(vectors.matrix).all()
            outcomes.append((vectors.words, vectors.matrix.tobytes(), vectors.notes))
        except ForebearError as error:
            outcomes.append(str(error))
        peak_memory = max(peak_memory, tracemalloc.get_traced_memory()[1])
    tracemalloc.stop()
    assert isinstance(outcomes[0], tuple) or str(path) in outcomes[0]
    assert outcomes[0] == outcomes[1]  # with either parser
    assert peak_memory < 64 << 20


@settings(max_examples=200)
@given(content=st.binary(max_size=60), file_format=st.sampled_from([None, *VECTOR_FORMATS]))
def test_random_bytes_are_read_or_refused_with_a_hint(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, file_format: str | None
):
    path = tmp_path_factory.getbasetemp() / "bytes"
    for start in (b"", b"1 1\n", b"a 1 "):
        path.write_bytes(start + content)
        try:
            result = read_word_vectors(path, form=file_format).words
        except InputError as error:
            result = error.hint
        assert result


@pytest.mark.filterwarnings("error")
def test_values_beyond_float32_are_refused(tmp_path: Path):
    numpy_files = pytest.importorskip("safetensors.numpy")
    numpy_files.save_file({"vectors": np.array([[1.0], [1e39]])}, tmp_path / "v.safetensors")
    (tmp_path / "vocab.txt").write_text("a\nb\n", encoding="utf-8")
    with pytest.raises(InputError, match="'b' holds inf"):
        read_word_vectors(tmp_path / "v.safetensors")
