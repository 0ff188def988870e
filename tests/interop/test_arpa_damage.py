"""Damaged ARPA files: a sound reading or a complaint with its line, the same from both readers, whatever was done."""

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

SOUND = """\\data\\
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
PIECES = [
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
WAYS = [(b"\t", b" "), (b"\n", b"\r\n"), (b"\n", b"\r\r\n"), (b" ", b"\t"), (b"\t", b" \t "), (b"-0.", b"-.")]
CLAIMS = ["0", "1", "7", "1000000000000", "9" * 17, "9" * 30, "-1", "x", ""]


def spoilt(chance: random.Random, content: bytes) -> bytes:
    """The content with a byte flipped, a line lost, doubled, cut, moved, …"""
    lines, place = content.split(b"\n"), chance.randrange(len(content) + 1)
    line, other = chance.randrange(len(lines)), chance.randrange(len(lines))
    match chance.randrange(9):
        case 0:
            return content[:place] + bytes([chance.randrange(256)]) + content[place + 1 :]
        case 1:
            return content[:place]
        case 2:
            del lines[line]
        case 3:
            lines.insert(other, lines[line])
        case 4:
            lines[line] = lines[line][: chance.randrange(len(lines[line]) + 1)]
        case 5:
            at = chance.randrange(1, 4) % len(lines)
            lines[at] = lines[at].split(b"=")[0] + b"=" + chance.choice(CLAIMS).encode()
        case 6:
            return content[:place] + chance.choice(PIECES).encode() + content[place:]
        case 7:
            return content.replace(*chance.choice(WAYS))
        case _:
            lines[line], lines[other] = lines[other], lines[line]
    return b"\n".join(lines)


def outcome(path: Path, quickly: bool) -> Any:
    """What is read, as plain values, or the complaint."""
    try:
        told = arpa.read_arpa(path, quickly=quickly)
    except InputError as error:
        refused = error
    else:
        numbers = np.concatenate([*told.log_probs, *told.backoffs])
        assert (numbers < np.inf).all()
        return told.words, told.notes, [rows.tolist() for rows in told.ngrams], [f"{number:.12g}" for number in numbers]
    assert refused.file == str(path)
    assert refused.line is not None
    assert refused.line >= 1
    return refused.message, refused.line


@pytest.mark.parametrize("seed", range(4))
def test_spoilt_files(tmp_path: Path, seed: int):
    chance, path, complaints = random.Random(seed), tmp_path / "m", set()
    for _ in range(600):
        content = SOUND
        for _ in range(chance.choice([1, 1, 1, 2, 3])):
            content = spoilt(chance, content)
        path.write_bytes(content)
        quick = outcome(path, True)
        assert quick == outcome(path, False), content
        complaints.add(quick[0][:12] if len(quick) == 2 else "")
    assert "" in complaints  # some are sound
    assert len(complaints) > 12


@pytest.mark.parametrize("seed", range(2))
def test_spoilt_packed_files(tmp_path: Path, seed: int):
    chance, path, packed = random.Random(seed), tmp_path / "m.gz", gzip.compress(SOUND, mtime=0)
    refused = 0
    for _ in range(300):
        path.write_bytes(spoilt(chance, packed))
        quick = outcome(path, True)
        assert quick == outcome(path, False)
        refused += len(quick) == 2
    assert refused > 100


@pytest.mark.parametrize("quickly", [False, True])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize("level", [1, 2, 3])
def test_a_claim_of_many_ngrams_takes_no_memory(tmp_path: Path, quickly: bool, pack, level: int):
    sizes = {1: b"ngram 1=6", 2: b"ngram 2=4", 3: b"ngram 3=2"}
    path = tmp_path / "m"
    path.write_bytes(pack(SOUND.replace(sizes[level], sizes[level][:8] + b"1000000000000")))
    arpa.read_arpa(_sound(tmp_path), quickly=quickly)  # which loads the loops
    tracemalloc.start()
    with pytest.raises(InputError, match=f"fewer {level}-grams") as refused:
        arpa.read_arpa(path, quickly=quickly)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert refused.value.line == {1: 13, 2: 19, 3: 23}[level]
    assert peak < 12 << 20


def _sound(folder: Path) -> Path:
    path = folder / "sound"
    path.write_bytes(SOUND)
    return path


@pytest.mark.parametrize("quickly", [False, True])
def test_a_line_without_end(tmp_path: Path, monkeypatch, quickly: bool):
    monkeypatch.setattr(arpa, "BLOCK_BYTES", 1 << 16)
    path = tmp_path / "m.gz"
    path.write_bytes(gzip.compress(SOUND.replace(b"\ta\t", b"\t" + b"a" * (1 << 23) + b"\t")))
    with pytest.raises(InputError, match="does not end") as refused:
        arpa.read_arpa(path, quickly=quickly)
    assert refused.value.line == 10


@pytest.mark.parametrize("quickly", [False, True])
def test_a_fault_far_into_a_file_has_its_line(tmp_path: Path, monkeypatch, quickly: bool):
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
    for place, line, what in (
        (700, "-3\tw\udcff", "UTF-8"),
        (701, "-3\tw5", "twice"),
        (702, "-3\ta b c", "1 words"),
        (1500, "-1\tw3 nowhere", "nowhere"),
        (1501, "-1\tw9 w7", "twice"),
        (1502, "-1\tw8 \udcff", "UTF-8"),
        (1503, "-1\tw8 w9\t0.5", "weight"),
    ):
        path = tmp_path / "m"
        spoilt = [*lines[: place - 1], line, *lines[place:]]
        path.write_text("\n".join(spoilt), "utf-8", "surrogateescape")
        with pytest.raises(InputError, match=what) as refused:
            arpa.read_arpa(path, quickly=quickly)
        assert refused.value.line == place
