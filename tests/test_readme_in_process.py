"""The commands of the README in this process, with small numbers, block by block; every command line is parsed.

test_readme.py runs them as printed, with the installed program and a shell, which takes minutes."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from forebear.cli import main as front
from test_readme import ALREADY_DONE, HEREDOC, READMES, Block, blocks, read, run

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
# Above 5 CPU seconds: only with --all, as in test_readme.py.
LONG = ("forebear pretrain crf",)
# These start new processes or train for long: they run only as printed.
ONLY_AS_PRINTED = ("forebear compare", "forebear distil")
FILE_NAME = re.compile(r"[\w.-]+/[\w.-]+|[\w.-]+\.(?:txt|tsv|json|conll|npy|png|html|toml|arpa)\b|(?<=--to )\S+")


def shorten(line: str) -> str:
    for pattern, small in SMALLER:
        line = re.sub(pattern, small, line)
    return line


@functools.cache
def dependencies_of(number: int) -> list[int]:
    """The blocks that a block depends on, in order: the first to name one of its files, and their own dependencies."""
    dependencies: set[int] = set()
    for file_name in FILE_NAME.findall(BLOCKS[number].script):
        first = next(other for other in RUN if file_name in FILE_NAME.findall(BLOCKS[other].script))
        if first < number:
            dependencies |= {first, *dependencies_of(first)}
    return sorted(dependencies)


def run_block(block: Block, folder: Path, capfd: pytest.CaptureFixture[str]) -> str:
    """Runs a block and returns its output; a shell runs what is not a plain call of forebear."""
    capfd.readouterr()
    lines = block.commands if not any(map(HEREDOC.search, block.lines)) else [block.script]
    printed = ""
    for line in map(shorten, lines):
        if line.startswith((*ALREADY_DONE, *ONLY_AS_PRINTED)) or "chosen/" in line:
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
    shared_folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "readme-in-short"
    shared_folder.mkdir(exist_ok=True)
    for name, value in (
        ("HOME", shared_folder),
        ("XDG_CACHE_HOME", shared_folder / ".cache"),
        ("FOREBEAR_CACHE", shared_folder / ".cache/f"),
    ):
        monkeypatch.setenv(name, str(value))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.chdir(shared_folder)
    return shared_folder


@contextlib.contextmanager
def block_lock(folder: Path, number: int) -> Iterator[Path]:
    """A lock: no other process runs this block meanwhile; the file yielded exists if it has been run."""
    with (folder / f".{number}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder / f".{number}.done"


def block_params() -> list[Any]:
    """The blocks by their line; long ones are marked slow."""
    is_long = {number: any(map(BLOCKS[number].script.__contains__, LONG)) for number in RUN}
    return [
        pytest.param(number, id=f"line {BLOCKS[number].line}", marks=[pytest.mark.slow] * is_long[number])
        for number in RUN
    ]


@pytest.mark.parametrize("number", block_params())
def test_readme_block_succeeds_in_process(number: int, folder: Path, capfd: pytest.CaptureFixture[str]):
    for block_number in (*dependencies_of(number), number):  # in the same order everywhere: no deadlock
        with block_lock(folder, block_number) as done:
            if not done.exists():
                printed = run_block(BLOCKS[block_number], folder, capfd)
                done.write_text(printed, encoding="utf-8")
    lines = [line.split() for line in (folder / f".{number}.done").read_text(encoding="utf-8").splitlines()]
    for line in BLOCKS[number].prints:
        assert line.split() in lines


def parse_errors(command: str) -> list[str]:
    """The errors of parsing the calls of forebear in a command line."""
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


def test_every_readme_command_line_is_parsed():
    """Also in blocks that are not run."""
    assert [fault for block in BLOCKS for command in block.commands for fault in parse_errors(command)] == []


@pytest.mark.parametrize(
    "command", ["forebear fly", "forebear score runs/a x --tokenz", "cat x | forebear runs --deep 3"]
)
def test_invalid_command_line_is_found(command: str):
    assert len(parse_errors(command)) == 1


def test_dependencies_of_readme_blocks_are_found():
    assert dependencies_of(RUN[0]) == []  # it writes the text that others read
    assert all(
        set(dependencies_of(other)) < set(dependencies_of(number))
        for number in RUN
        for other in dependencies_of(number)
    )
    assert sum(RUN[0] in dependencies_of(number) for number in RUN) > 10
