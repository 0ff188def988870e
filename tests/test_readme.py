"""Every command of the READMEs runs as printed, offline, in an empty folder; both languages have the same commands."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from preloaded_forebear import preloaded_programs

PROJECT = Path(__file__).parent.parent
READMES = ["README.md", "README.zh-CN.md"]
SECONDS = 180  # for one block
BUDGET = 1  # seconds for a command with a time budget: other tests show that it learns

FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>`{3,})(?P<tag>[^`\n]*)\n(?P<text>.*?)^ *(?P=ticks) *$", re.M | re.S)
TIME = re.compile(r"(--(?:adapt-)?time) \d+s\b")
HEREDOC = re.compile(r"<<-?\s*['\"]?(\w+)['\"]?")
# The test runs in a project that is set up; `./dev` would set it up a second time.
ALREADY_DONE = ("./dev", "git clone ", "cd forebear", ". .venv", "source .venv")


@dataclass(frozen=True)
class Block:
    """One ```sh block of a README; `no-run` after `sh` marks a block that is not run."""

    line: int
    runs: bool
    lines: tuple[str, ...]
    prints: tuple[str, ...] = ()  # the expected output, in the bare fence right after the block

    @property
    def script(self) -> str:
        lines = [line for line in self.lines if not line.lstrip().startswith(ALREADY_DONE)]
        return "".join(TIME.sub(rf"\1 {BUDGET}s", line) + "\n" for line in lines)

    @property
    def commands(self) -> list[str]:
        """The command lines alone: without comments and here-documents, and with continued lines joined."""
        lines, terminator = [], ""
        for line in "\n".join(self.lines).replace("\\\n", " ").split("\n"):
            if terminator:
                terminator = "" if line.strip() == terminator else terminator
                continue
            if heredoc := HEREDOC.search(line):
                terminator = heredoc[1]
            if command := " ".join(re.sub(r"(^|\s)#\s.*$", "", line).split()):
                lines.append(command)
        return lines


def blocks(markdown: str) -> list[Block]:
    result = []
    for match in FENCE.finditer(markdown):
        tag = match["tag"].split()
        if tag[:1] != ["sh"]:
            continue
        lines = [line.removeprefix(match["indent"]) for line in match["text"].splitlines()]
        if any(line.startswith("$ ") for line in lines):  # the rest is what the commands print
            lines = [line[2:] for line in lines if line.startswith("$ ")]
        after = FENCE.match(markdown, match.end() + 1)
        prints = tuple(after["text"].splitlines()) if after and not after["tag"].strip() else ()
        result.append(Block(markdown.count("\n", 0, match.start()) + 1, "no-run" not in tag, tuple(lines), prints))
    return result


def headings(markdown: str) -> list[int]:
    """The levels of the headings, in order."""
    return [len(marks) for marks in re.findall(r"^(#{1,6}) ", FENCE.sub("", markdown), re.M)]


def words_after(program: str, command: str) -> list[str]:
    """The first word that each call of the program in a command line is given."""
    return re.findall(rf"(?:^|[|;&(] *){re.escape(program)} +([\w-]+)", command)


def environment(folder: Path, *programs: Path) -> dict[str, str]:
    """Variables for the folder as home, without a network, and with these folders of programs first on PATH."""
    nowhere = "http://127.0.0.1:9"
    path = [*map(str, programs), str(Path(sys.executable).parent), os.environ["PATH"]]
    return os.environ | {
        "PATH": os.pathsep.join(path),
        "HOME": str(folder), "XDG_CACHE_HOME": str(folder / ".cache"), "XDG_DATA_HOME": str(folder / ".local"),
        "HF_HUB_OFFLINE": "1", "http_proxy": nowhere, "https_proxy": nowhere, "all_proxy": nowhere,
        "HTTP_PROXY": nowhere, "HTTPS_PROXY": nowhere, "ALL_PROXY": nowhere,
        "LC_ALL": "C.UTF-8", "NO_COLOR": "1", "COLUMNS": "120",
    }  # fmt: skip


def run(script: str, folder: Path, *programs: Path, seconds: float = SECONDS) -> tuple[int | None, str]:
    """Exit status (None: out of time) and output of a script in this folder."""
    with subprocess.Popen(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder, env=environment(folder, *programs), start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, encoding="utf-8",
    ) as process:  # fmt: skip
        try:
            output, _ = process.communicate(timeout=seconds)
            return process.returncode, output
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # with everything it started
            return None, process.communicate()[0]


def run_blocks(markdown: str, folder: Path, *programs: Path) -> list[str]:
    """Runs the blocks in order; a complaint for the first that fails, since the later ones build on it."""
    for block in blocks(markdown):
        if block.runs:
            status, output = run(block.script, folder, *programs)
            if status != 0:
                ended = f"no end within {SECONDS} s" if status is None else f"exit status {status}"
                return [f"line {block.line}: {ended}\n{block.script}\n{output}"]
            printed = [line.split() for line in output.splitlines()]
            for line in block.prints:
                if line.split() not in printed:
                    return [f"line {block.line}: does not print {line!r}, but\n{output}"]
    return []


def read(name: str) -> str:
    return (PROJECT / name).read_text(encoding="utf-8")


@pytest.mark.slow
def test_every_readme_command_succeeds(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory):
    """In the English README; the other has the same commands, as a test below checks.

    The first call of each command runs the installed program; later calls do not load torch again."""
    name = READMES[0]
    assert (Path(sys.executable).parent / "forebear").exists(), "forebear is not installed here: run the tests by ./dev"
    commands = [command for block in blocks(read(name)) if block.runs for command in block.commands]
    assert any(command.startswith("forebear ") for command in commands), f"{name} shows nothing to try"
    with preloaded_programs(tmp_path_factory.mktemp("loaded"), environment(tmp_path)) as programs:
        assert run_blocks(read(name), tmp_path, programs) == []
    for match in FENCE.finditer(read(name)):
        if match["tag"].strip() == "python":
            (tmp_path / "block.py").write_text(match["text"])
            assert run(f"{sys.executable} block.py", tmp_path) == (0, "")


@pytest.mark.parametrize("name", READMES)
def test_every_readme_subcommand_exists(name: str):
    """Also in blocks that are not run."""
    commands = [command for block in blocks(read(name)) for command in block.commands]
    of_dev = subprocess.run([PROJECT / "dev", "--help"], capture_output=True, text=True, check=True).stdout
    code = "from forebear.cli.main import main; main(['--help'])"
    of_forebear = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    for program, known in (("./dev", of_dev), ("forebear", of_forebear)):
        for word in (word for command in commands for word in words_after(program, command)):
            assert re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", known), f"{name}: {program} has no {word}"


def test_both_readmes_have_the_same_commands_and_headings():
    english, chinese = map(read, READMES)
    assert [block.commands for block in blocks(english)] == [block.commands for block in blocks(chinese)]
    assert headings(english) == headings(chinese)
    assert [m["tag"] for m in FENCE.finditer(english)] == [m["tag"] for m in FENCE.finditer(chinese)]
    codes = [[m["text"] for m in FENCE.finditer(text) if m["tag"].strip() == "python"] for text in (english, chinese)]
    assert [re.sub(r"  # .*", "", code) for code in codes[0]] == [re.sub(r"  # .*", "", code) for code in codes[1]]


# Made-up READMEs show that the test can fail.

SAMPLE = """\
# Title
```sh
git clone somewhere && false
cd forebear
./dev setup
# a comment
cat > 'a text.txt' <<'END'
forebear is not called here
# nor is this a comment
END
test -s 'a text.txt'   # another
printf '%s\\n' \\
  one > b.txt
```
Words.
```python
# not a heading, not a command
```
- a list
  ```sh
  $ cat b.txt
  one
  $ test "$HOME" = "$PWD"
  ```
```sh no-run
forebear fly --to moon && ./dev dance
```
## End
"""


def test_readme_blocks_are_parsed_and_run(tmp_path: Path):
    first, second, third = blocks(SAMPLE)
    assert first.commands[-3:] == ["cat > 'a text.txt' <<'END'", "test -s 'a text.txt'", "printf '%s\\n' one > b.txt"]
    assert "./dev setup" in first.commands
    assert second.commands == ["cat b.txt", 'test "$HOME" = "$PWD"']
    assert [block.runs for block in (first, second, third)] == [True, True, False]
    assert words_after("forebear", third.commands[0]) == ["fly"]
    assert words_after("./dev", third.commands[0]) == ["dance"]
    assert headings(SAMPLE) == [1, 2]
    assert run_blocks(SAMPLE, tmp_path) == []
    assert (tmp_path / "a text.txt").read_text() == "forebear is not called here\n# nor is this a comment\n"


@pytest.mark.parametrize("line", ["false", "false | true", "nosuchcommand", "echo $unset", "cat missing.txt"])
def test_failing_readme_command_is_reported_with_its_line(line: str, tmp_path: Path):
    (complaint,) = run_blocks(f"text\n\n```sh\n{line}\ntrue\n```\n", tmp_path)
    assert complaint.startswith("line 3: exit status ")


def test_readme_block_with_other_output_is_reported(tmp_path: Path):
    assert run_blocks("```sh\nprintf 'a  1\\nb 2\\n'\n```\n```\nb   2\n```\n", tmp_path) == []
    (complaint,) = run_blocks("```sh\necho a 1\n```\n```\na 2\n```\n", tmp_path)
    assert complaint.startswith("line 1: does not print 'a 2'")


def test_readme_command_without_end_is_killed_with_its_children(tmp_path: Path):
    status, output = run("sleep 600 & echo $!; wait", tmp_path, seconds=3)
    assert status is None
    deadline = time.monotonic() + 10
    while is_running(int(output)):
        assert time.monotonic() < deadline, "a child outlived its block"
        time.sleep(0.05)


def is_running(process: int) -> bool:
    stat = Path(f"/proc/{process}/stat")
    return stat.exists() and stat.read_text().split()[2] != "Z"  # a killed one may wait to be reaped
