"""The commands of the README with small numbers and in this process, block by block; every command line is parsed.

As printed, with the installed program and a shell, they are run by test_readme.py, which takes minutes."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from forebear.cli import main as front
from test_readme import ALREADY_DONE, HERE, READMES, Block, blocks, read, run

BLOCKS = blocks(read(READMES[0]))
RUN = [number for number, block in enumerate(BLOCKS) if block.runs and block.script.strip()]
SMALLER = [
    (r"(--(?:adapt-)?time) \d+s\b", r"\1 0.2s"),
    (r"--limit \d+k\b", "--limit 2k"),
    (r"--epochs \d+", "--epochs 1"),
    (r"--length \d+", "--length 8"),
    (r"\[:250\]", "[:40]"),
    (r"\b[14][05]0_000\b", "80_000"),
    (r"'\.'\), 400, 100\)", "'.'), 60, 20)"),
    (r"'\.'\), 3000, 50\)", "'.'), 200, 10)"),
    (r"--only ngram,gpt2,bert", "--only ngram,gpt2"),
]
# They start processes that load everything anew, or learn for long: only as printed.
LONG = ("forebear compare", "forebear distil")
PLACE = re.compile(r"[\w.-]+/[\w.-]+|[\w.-]+\.(?:txt|tsv|json|conll|npy|png|html|toml|arpa)\b|(?<=--to )\S+")


def in_short(line: str) -> str:
    for pattern, small in SMALLER:
        line = re.sub(pattern, small, line)
    return line


@functools.cache
def needed(number: int) -> list[int]:
    """The blocks that a block needs, in order: those that first name a file that it names, and what they need."""
    found: set[int] = set()
    for place in PLACE.findall(BLOCKS[number].script):
        first = next(other for other in RUN if place in PLACE.findall(BLOCKS[other].script))
        if first < number:
            found |= {first, *needed(first)}
    return sorted(found)


def carry_out(block: Block, folder: Path, capfd: pytest.CaptureFixture[str]) -> str:
    """What the commands print; whatever is not a plain call of forebear is left to a shell."""
    capfd.readouterr()
    lines = block.commands if not any(map(HERE.search, block.lines)) else [block.script]
    printed = ""
    for line in map(in_short, lines):
        if line.startswith((*ALREADY_DONE, *LONG)) or "chosen/" in line:
            continue
        if line.startswith("forebear ") and "|" not in line:
            words, _, file = line.partition(" > ")
            status = front.main(shlex.split(words)[1:])
            output, complaint = capfd.readouterr()
            printed += output
            assert status == 0, f"line {block.line}: {line}\n{output}\n{complaint}"
            if file:
                (folder / file.strip()).write_text(output, encoding="utf-8")
        else:
            status, output = run(line, folder)
            assert status == 0, f"line {block.line}: {line}\n{output}"
            printed += output
    return printed


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One folder for all blocks and all processes of this run of the tests."""
    base = tmp_path_factory.getbasetemp()
    made = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "readme-in-short"
    made.mkdir(exist_ok=True)
    for name, value in (("HOME", made), ("XDG_CACHE_HOME", made / ".cache"), ("FOREBEAR_CACHE", made / ".cache/f")):
        monkeypatch.setenv(name, str(value))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.chdir(made)
    return made


@contextlib.contextmanager
def alone(folder: Path, number: int) -> Iterator[Path]:
    """No other process carries out this block meanwhile; the file given says whether it was carried out before."""
    with (folder / f".{number}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder / f".{number}.done"


@pytest.mark.parametrize("number", RUN, ids=lambda number: f"line {BLOCKS[number].line}")
def test_a_block_succeeds(number: int, folder: Path, capfd: pytest.CaptureFixture[str]):
    for one in (*needed(number), number):  # in one order everywhere, so that no two wait for each other
        with alone(folder, one) as done:
            if not done.exists():
                printed = carry_out(BLOCKS[one], folder, capfd)
                done.write_text(printed, encoding="utf-8")
    lines = [line.split() for line in (folder / f".{number}.done").read_text(encoding="utf-8").splitlines()]
    for line in BLOCKS[number].prints:
        assert line.split() in lines


def parsed(command: str) -> list[str]:
    """The calls of forebear in a command line, parsed by the command itself; what it says of those it refuses."""
    refused = []
    for call in re.findall(r"(?:^|[|;&(] *)forebear +([^|;&>]*)", command):
        words = ["/dev/stdin" if word == "-" else word for word in shlex.split(call, comments=True)]
        if "--config" in words:
            del words[(at := words.index("--config")) : at + 2]
        try:
            front._app(front._command(words), None).parse_args(
                front._complete_switches(words), exit_on_error=False, print_error=False
            )
        except Exception as error:  # noqa: BLE001
            refused.append(f"{call}: {error}")
    return refused


def test_every_command_line_is_understood():
    """Also in blocks that are not run."""
    assert [fault for block in BLOCKS for command in block.commands for fault in parsed(command)] == []


@pytest.mark.parametrize(
    "command", ["forebear fly", "forebear score runs/a x --tokenz", "cat x | forebear runs --deep 3"]
)
def test_a_command_line_that_is_not_understood_is_found(command: str):
    assert len(parsed(command)) == 1


def test_what_a_block_needs_is_found():
    assert needed(RUN[0]) == []  # it makes the text that others read
    assert all(set(needed(other)) < set(needed(number)) for number in RUN for other in needed(number))
    assert sum(RUN[0] in needed(number) for number in RUN) > 10
