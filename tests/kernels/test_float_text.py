"""Parsing lines of decimals gives exactly what Python's float gives, or leaves the line to Python."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from forebear.interop import word_vectors_text
from forebear.kernels import float_text

DECIMALS = st.one_of(
    st.floats(width=32, allow_nan=False, allow_infinity=False).map(lambda value: str(np.float32(value))),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.floats(-1, 1).map("{:.6f}".format),
    st.floats(-1, 1).map("{:.18e}".format),
    st.from_regex(r"[+-]?([0-9]{1,30}\.?|[0-9]{0,25}\.[0-9]{1,30})([eE][+-]?[0-9]{1,5})?", fullmatch=True),
)
FIELDS = st.one_of(DECIMALS, st.from_regex(r"[-+.eE0-9 xnaif_\r\t]{0,6}", fullmatch=True))


def parse_uncompiled(block: bytes, width: int) -> tuple[np.ndarray, np.ndarray]:
    text = np.frombuffer(block, np.uint8)
    rows = np.empty((block.count(b"\n"), width), np.float32)
    with mock.patch.object(float_text, "parse_number", float_text.parse_number.py_func):
        return rows, float_text.parse_decimals_kernel(text, rows, float_text.POWERS_OF_TEN)


@pytest.mark.filterwarnings("ignore:overflow")
@settings(max_examples=300)
@given(st.lists(st.tuples(st.text(max_size=3), st.lists(FIELDS, min_size=1, max_size=3)), min_size=1, max_size=4))
@example([("a", ["9007199254740993", "1e22", "1e23"])])
@example([("a", ["16777217", "16777217.0000000000000001", "1.00000017881393432617187499"])])  # next to a tie
@example([("a", ["-0", "1e9999", "1e-9999"])])
@example([("", ["1"]), ("a", []), ("a", [".", "1."])])
def test_parsed_decimals_equal_pythons_float_bit_for_bit(lines: list[tuple[str, list[str]]]):
    block = "".join(" ".join([word.replace("\n", ""), *fields]) + "\n" for word, fields in lines).encode()
    for parse in (float_text.parse_decimals, parse_uncompiled):
        rows, ends = parse(block, 2)
        begin = 0
        for line, row, end in zip(block.split(b"\n"), rows, ends, strict=False):
            if end >= 0:
                assert block[begin:end] == line.split(b" ")[0] != b""
                expected = [float(text) for text in line.split(b" ")[1:]]
                assert np.array(expected).astype(np.float32).tobytes() == row.tobytes()
            begin += len(line) + 1


@pytest.mark.parametrize("form", ["{}", "{:.6f}", "{:.4g}", "{:.18e}", "{:.17g}"])
def test_usual_lines_are_parsed_like_the_reference_and_odd_ones_left(form: str):
    matrix = np.random.default_rng(0).normal(0, 0.3, (300, 20)) * 10.0 ** np.arange(-3, 2, 0.25)
    lines = [f"w{row} {' '.join(map(form.format, values))}\n" for row, values in enumerate(matrix)]
    odd_lines = [
        "\n",
        ". . " + lines[7],
        "x y\n",
        "x\n",
        lines[8].rpartition(" ")[0] + "\n",
        lines[9].replace("\n", " 1\n"),
    ]
    lines[7:7] = odd_lines
    block = "".join(lines).encode()
    rows, ends = float_text.parse_decimals(block, 20)
    reference_rows, reference_ends = word_vectors_text.parse_lines(block, 20)
    assert np.flatnonzero(ends < 0).tolist() == [7, 8, 9, 10, 11, 12]
    assert np.array_equal(ends, reference_ends)
    assert np.array_equal(rows[ends >= 0], reference_rows[ends >= 0])
