"""Corrupt ARPA files: read, or refused with a line, and both readers (compiled and reference) agree."""

from __future__ import annotations

import gzip
import random
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forebear.errors import InputError
from forebear.interop import arpa

VALID = """\\data\\
ngram 1=6
ngram 2=4
ngram 3=2

\\1-grams:
-0.7\t<unk>
-99\t<s>\t-0.3
-0.4\t</s>
-0.5\ta\t-0.2
-6e-1\t中文
-inf\twwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwww\t0.5

\\2-grams:
-0.1\t<s> a\t-1
-0.2\ta 中文\t0.25
-0.3\t中文 </s>
-1.25\ta a

\\3-grams:
-0.1\t<s> a a
-0.25 <s> a 中文

\\end\\
""".encode()
INSERTIONS = [
    " ",
    "\t",
    "\r",
    "\n",
    "e",
    "-",
    ".",
    "+",
    "\0",
    "\u3000",
    "\x0b",
    "nan",
    "inf",
    "1e400",
    "_1",
    "\ufeff",
    "<s>",
    "１",
]
REPLACEMENTS = [(b"\t", b" "), (b"\n", b"\r\n"), (b"\n", b"\r\r\n"), (b" ", b"\t"), (b"\t", b" \t "), (b"-0.", b"-.")]
CLAIMS = ["0", "1", "7", "1000000000000", "9" * 17, "9" * 30, "-1", "x", ""]


def corrupt(rng: random.Random, content: bytes) -> bytes:
    """The content with a byte flipped, or a line deleted, repeated, truncated or moved."""
    lines, position = content.split(b"\n"), rng.randrange(len(content) + 1)
    line, other_line = rng.randrange(len(lines)), rng.randrange(len(lines))
    match rng.randrange(9):
        case 0:
            return content[:position] + bytes([rng.randrange(256)]) + content[position + 1 :]
        case 1:
            return content[:position]
        case 2:
            del lines[line]
        case 3:
            lines.insert(other_line, lines[line])
        case 4:
            lines[line] = lines[line][: rng.randrange(len(lines[line]) + 1)]
        case 5:
            header_line = rng.randrange(1, 4) % len(lines)
            lines[header_line] = lines[header_line].split(b"=")[0] + b"=" + rng.choice(CLAIMS).encode()
        case 6:
            return content[:position] + rng.choice(INSERTIONS).encode() + content[position:]
        case 7:
            return content.replace(*rng.choice(REPLACEMENTS))
        case _:
            lines[line], lines[other_line] = lines[other_line], lines[line]
    return b"\n".join(lines)


def read_outcome(path: Path, use_compiled: bool) -> Any:
    """The model as plain values, or the message and line of the error."""
    try:
        model = arpa.read_arpa(path, use_compiled=use_compiled)
    except InputError as error:
        caught = error
    else:
        values = np.concatenate([*model.log_probs, *model.backoffs])
        assert (values < np.inf).all()
        return (
            model.words,
            model.notes,
            [rows.tolist() for rows in model.ngrams],
            [f"{number:.12g}" for number in values],
        )
    assert caught.file == str(path)
    assert caught.line is not None
    assert caught.line >= 1
    return caught.message, caught.line


@pytest.mark.parametrize("seed", range(4))
def test_arpa_corrupt_files_give_the_same_result_in_both_readers(tmp_path: Path, seed: int):
    rng, path, messages = random.Random(seed), tmp_path / "m", set()
    for _ in range(600):
        content = VALID
        for _ in range(rng.choice([1, 1, 1, 2, 3])):
            content = corrupt(rng, content)
        path.write_bytes(content)
        compiled = read_outcome(path, True)
        assert compiled == read_outcome(path, False), content
        messages.add(compiled[0][:12] if len(compiled) == 2 else "")
    assert "" in messages  # some are still valid
    assert len(messages) > 12


@pytest.mark.parametrize("seed", range(2))
def test_arpa_corrupt_gzip_files_give_the_same_result_in_both_readers(tmp_path: Path, seed: int):
    rng, path, compressed = random.Random(seed), tmp_path / "m.gz", gzip.compress(VALID, mtime=0)
    refusals = 0
    for _ in range(300):
        path.write_bytes(corrupt(rng, compressed))
        compiled = read_outcome(path, True)
        assert compiled == read_outcome(path, False)
        refusals += len(compiled) == 2
    assert refusals > 100


@pytest.mark.parametrize("use_compiled", [False, True])
@pytest.mark.parametrize("compress", [bytes, gzip.compress])
@pytest.mark.parametrize("level", [1, 2, 3])
def test_arpa_header_claiming_many_ngrams_takes_no_memory(tmp_path: Path, use_compiled: bool, compress, level: int):
    sizes = {1: b"ngram 1=6", 2: b"ngram 2=4", 3: b"ngram 3=2"}
    path = tmp_path / "m"
    path.write_bytes(compress(VALID.replace(sizes[level], sizes[level][:8] + b"1000000000000")))
    arpa.read_arpa(write_valid_file(tmp_path), use_compiled=use_compiled)  # loads the kernels
    tracemalloc.start()
    with pytest.raises(InputError, match=f"fewer {level}-grams") as caught:
        arpa.read_arpa(path, use_compiled=use_compiled)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert caught.value.line == {1: 13, 2: 19, 3: 23}[level]
    assert peak < 12 << 20


def write_valid_file(folder: Path) -> Path:
    path = folder / "sound"
    path.write_bytes(VALID)
    return path


@pytest.mark.parametrize("use_compiled", [False, True])
def test_arpa_endless_line_is_refused(tmp_path: Path, monkeypatch, use_compiled: bool):
    monkeypatch.setattr(arpa, "BLOCK_BYTES", 1 << 16)
    path = tmp_path / "m.gz"
    path.write_bytes(gzip.compress(VALID.replace(b"\ta\t", b"\t" + b"a" * (1 << 23) + b"\t")))
    with pytest.raises(InputError, match="does not end") as caught:
        arpa.read_arpa(path, use_compiled=use_compiled)
    assert caught.value.line == 10


@pytest.mark.parametrize("use_compiled", [False, True])
def test_arpa_fault_in_a_later_block_has_its_line(tmp_path: Path, monkeypatch, use_compiled: bool):
    monkeypatch.setattr(arpa, "BLOCK_BYTES", 512)
    words = [f"w{i}" for i in range(1000)]
    lines = ["\\data\\", "ngram 1=1002", "ngram 2=1000", "", "\\1-grams:", "-1\t<s>", "-1\t</s>"]
    lines += [
        *(f"-3\t{word}" for word in words),
        "",
        "\\2-grams:",
        *(f"-1\t{word} w7" for word in words),
        "",
        "\\end\\",
    ]
    for line_number, line, message in (
        (700, "-3\tw\udcff", "UTF-8"),
        (701, "-3\tw5", "twice"),
        (702, "-3\ta b c", "1 words"),
        (1500, "-1\tw3 nowhere", "nowhere"),
        (1501, "-1\tw9 w7", "twice"),
        (1502, "-1\tw8 \udcff", "UTF-8"),
        (1503, "-1\tw8 w9\t0.5", "weight"),
    ):
        path = tmp_path / "m"
        corrupt_lines = [*lines[: line_number - 1], line, *lines[line_number:]]
        path.write_text("\n".join(corrupt_lines), "utf-8", "surrogateescape")
        with pytest.raises(InputError, match=message) as caught:
            arpa.read_arpa(path, use_compiled=use_compiled)
        assert caught.value.line == line_number
