"""What `./dev` does: makes .venv, then runs the demo, tests, checks or a benchmark in it (standard library only)."""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

USAGE = """\
usage: ./dev COMMAND [arguments]

  setup [--extras a,b] [--torch cpu|cuda]   make or reuse .venv, install forebear[dev] and extras
  demo [arguments]                          set up what forebear itself needs, then run `forebear demo`
  test [PART] [pytest arguments]            set up with dev, then check, then pytest (on all cores unless -n is given)
  test --all [PART]                         the same with the tests marked slow; PART: a folder of tests, as in `text`
  check                                     ruff check, ruff format --check, basedpyright
  bench NAME [arguments]                    set up with dev and bench, then run benchmarks/NAME.py
  stats [--list NAME] [--json]              measure the code under src against its limits

To have .venv made by another Python, remove .venv and put that Python first on PATH."""

ROOT = Path(__file__).resolve().parent


class DevError(Exception):
    """The command ends here, with a message for people and an exit status: 2 for bad use, 1 for failure."""

    def __init__(self, message: str, status: int = 1) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Venv:
    """The virtual environment of the project in `root`."""

    root: Path

    @property
    def folder(self) -> Path:
        return self.root / ".venv"

    @property
    def python(self) -> str:
        return self.program("python")

    @property
    def stamp(self) -> Path:
        return self.folder / "forebear-setup.json"  # inside, so that it goes when .venv goes

    def program(self, name: str) -> str:
        return str(self.folder / "bin" / name)

    def version(self) -> str | None:
        """The version of the Python inside ("3.11"), asked of itself; None where it does not run or is too old."""
        question = "import sys; print(*sys.version_info[:2], sep='.') if sys.version_info >= (3, 11) else sys.exit(1)"
        try:
            answer = subprocess.run([self.python, "-I", "-S", "-c", question], capture_output=True, text=True)
        except OSError:
            return None
        return answer.stdout.strip() if answer.returncode == 0 else None

    def packages(self, pattern: str) -> list[Path]:
        return sorted(self.folder.glob(f"lib/python*/site-packages/{pattern}.dist-info"))

    def half_installed(self) -> list[str]:
        """Packages whose installation was cut short: pip writes INSTALLER last, but later trusts the folder alone."""
        return [folder.name for folder in self.packages("*") if not (folder / "INSTALLER").exists()]


@dataclass(frozen=True)
class Stamp:
    """What the last finished set-up left in the venv; an empty one matches nothing."""

    fingerprint: str = ""
    extras: frozenset[str] = frozenset()
    root: str = ""


def read_stamp(file: Path) -> Stamp:
    try:
        written = json.loads(file.read_text(encoding="utf-8"))
        return Stamp(str(written["fingerprint"]), frozenset(map(str, written["extras"])), str(written["root"]))
    except (OSError, ValueError, KeyError, TypeError):
        return Stamp()


def write_stamp(file: Path, stamp: Stamp) -> None:
    """Written aside and renamed: a stamp is whole or absent."""
    aside = file.with_suffix(".part")
    fields = {"fingerprint": stamp.fingerprint, "extras": sorted(stamp.extras), "root": stamp.root}
    aside.write_text(json.dumps(fields) + "\n", encoding="utf-8")
    aside.replace(file)


def fingerprint(root: Path, python_version: str) -> str:
    """Changes when what is to be installed changes; a linter's setting in pyproject.toml does not count."""
    project = read_project(root)
    parts = {
        "project": [project.get("build-system"), project.get("project"), project.get("tool", {}).get("hatch")],
        "constraints": (root / "constraints.txt").read_text(encoding="utf-8"),
        "python": python_version,
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def read_project(root: Path) -> dict[str, Any]:
    return tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))


def chosen_extras(text: str, known: list[str]) -> frozenset[str]:
    """`a,b` as a set; pip would only warn of an extra that does not exist."""
    extras = frozenset(part.strip() for part in text.split(",") if part.strip())
    if unknown := sorted(extras - set(known)):
        raise DevError(f"no extra named {', '.join(map(repr, unknown))}; there are: {', '.join(known)}", 2)
    return extras


@contextlib.contextmanager
def alone(root: Path) -> Iterator[None]:
    """One set-up at a time in one project; a second one waits, then finds the work done."""
    handle = os.open(root, os.O_RDONLY)  # closing it gives the lock back, however this ends
    try:
        with contextlib.suppress(OSError):  # a file system without locks: no worse than before
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def stage(name: str, command: list[str], folder: Path) -> None:
    """Runs one step of the set-up quietly, with its seconds; what it printed is shown only if it fails."""
    print(f"{name} … ", end="", file=sys.stderr, flush=True)
    start = time.monotonic()
    pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
    done = subprocess.run(command, cwd=folder, stdin=nothing, stdout=pipe, stderr=subprocess.STDOUT)
    say(f"{time.monotonic() - start:.1f} s" if done.returncode == 0 else "failed")
    if done.returncode != 0:
        say(done.stdout.decode(errors="replace").rstrip())
        raise DevError(f"{name} failed; above is what it printed. Mend the cause and call again.")


def base_python() -> str:
    """The Python behind this one, should this one live in a .venv that is about to be remade."""
    return getattr(sys, "_base_executable", None) or sys.executable


def find_pip(venv: Venv) -> list[str]:
    """A pip that can install into the venv: of a Python at hand, of the venv, else one that ensurepip puts there."""
    pythons = [base_python(), shutil.which("python3"), shutil.which("python"), venv.python]
    commands = [[python, "-m", "pip", "--python", venv.python] for python in dict.fromkeys(pythons) if python]
    for command in commands:
        if works([*command, "--version"]):  # also tells a pip too old (before 22.3) to know --python
            return command
    if works([venv.python, "-m", "ensurepip"]):
        return commands[-1]
    raise DevError(
        "no pip was found for any Python here, and Python's own ensurepip is missing too.\n"
        "  remedy: install pip (Debian, Ubuntu: apt install python3-pip; Fedora: dnf install python3-pip), call again."
    )


def works(command: list[str]) -> bool:
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True).returncode == 0


def setup(root: Path, wanted: frozenset[str], torch: str | None = None) -> Venv:
    """Makes .venv as asked, or finds that it is already so. There is no stamp while the work is going on."""
    venv = Venv(root)
    if not is_ready(venv, wanted):
        with alone(root):
            if not is_ready(venv, wanted):  # another set-up may have ended while this one waited
                before = read_stamp(venv.stamp)
                extras = wanted | before.extras  # nothing that was asked for earlier is taken away
                make(venv, before)
                venv.stamp.unlink(missing_ok=True)
                install(venv, extras, torch)
                write_stamp(venv.stamp, Stamp(fingerprint(root, venv.version() or ""), extras, str(root)))
    if torch:
        verify_torch(venv, torch)
    return venv


def is_ready(venv: Venv, wanted: frozenset[str]) -> bool:
    stamp = read_stamp(venv.stamp)
    if not wanted <= stamp.extras or stamp.root != str(venv.root):
        return False
    version = venv.version()
    return version is not None and stamp.fingerprint == fingerprint(venv.root, version)


def make(venv: Venv, stamp: Stamp) -> None:
    """Makes the venv, unless a sound one is there; one that is broken, half filled or moved is made anew."""
    if venv.folder.exists() or venv.folder.is_symlink():
        if not (fault := unsound(venv, stamp)):
            return
        say(f".venv is made anew: {fault}")
        if venv.folder.is_symlink() or venv.folder.is_file():
            venv.folder.unlink()
        else:
            shutil.rmtree(venv.folder)
    stage("virtual environment", [base_python(), "-m", "venv", "--without-pip", str(venv.folder)], venv.root)


def unsound(venv: Venv, stamp: Stamp) -> str:
    """Why the venv cannot be reused; empty if it can."""
    if venv.version() is None:
        return "its Python does not run or is older than 3.11"
    if half := venv.half_installed():
        return f"an installation was cut short ({', '.join(half[:3])})"
    if stamp.root and stamp.root != str(venv.root):
        return f"it was made in {stamp.root}, and its programs point there"
    return ""


def install(venv: Venv, extras: frozenset[str], torch: str | None) -> None:
    """Torch alone first, so that the rest is resolved around the one chosen; always under the tested constraints."""
    # Modules are compiled when first imported: of many thousand files few are ever used.
    options = ["--no-input", "--no-user", "--disable-pip-version-check", "-c", "constraints.txt"]
    command = [*find_pip(venv), "install", *options]
    if not venv.packages("torch-*"):
        stage("torch (the largest part)", [*command, "torch"], venv.root)
        if torch:
            verify_torch(venv, torch)
    names = f"[{','.join(sorted(extras))}]" if extras else ""
    stage(f"forebear{names}", [*command, "-e", f".{names}"], venv.root)


def verify_torch(venv: Venv, wanted: str) -> None:
    """Stops unless the installed torch is of the wanted kind; which kind comes is decided by where pip looks."""
    question = "import torch; print('cuda' if torch.version.cuda else 'cpu')"
    answer = subprocess.run([venv.python, "-c", question], capture_output=True, text=True)
    if answer.returncode != 0:
        raise DevError(f"torch is installed but cannot be imported:\n{answer.stderr.rstrip()}")
    found = answer.stdout.split()[-1]
    if found != wanted:
        raise DevError(
            f"the torch that pip found is a {found} build, not {wanted}.\n"
            "  remedy: choose your system under 'Get started' on pytorch.org, set PIP_EXTRA_INDEX_URL to the address\n"
            f"  shown there after --index-url, remove .venv, then call ./dev setup --torch {wanted} again.",
            2,
        )


def run(venv: Venv, program: str, *arguments: str) -> int:
    """Runs a program of the venv in the project's folder; its exit status."""
    # A test starts hundreds of Python processes; without bytecode files each would compile the package again.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with subprocess.Popen([venv.program(program), *arguments], cwd=venv.root, env=environment) as process:
        try:
            status = process.wait()
        except KeyboardInterrupt:
            process.wait()  # the program was told too, and ends in its own way
            raise
    return 128 - status if status < 0 else status  # as a shell reports a signal


def check(venv: Venv) -> int:
    """All three, also after the first complaint, so that one call shows everything; 0 only if all are content."""
    ruff = run(venv, "ruff", "check"), run(venv, "ruff", "format", "--check")
    types = run(venv, "basedpyright", "--pythonpath", venv.python)
    return int(any((*ruff, types)))


def test(venv: Venv, arguments: list[str]) -> int:
    """The checks, then pytest whatever they said; the complaint is repeated at the end, where it is seen."""
    start, cpu_before = time.monotonic(), cpu_of_children()
    checked = check(venv)
    tested = run(venv, "python", "-m", "pytest", *with_cores(with_parts(venv.root, arguments)))
    if checked:
        say("dev: check failed (see above, before the tests)")
    cpu, wall = cpu_of_children() - cpu_before, time.monotonic() - start
    if tested in (0, 1) and is_whole_suite(arguments):  # 1: all ran, some failed
        record_cost(venv.root, {"cpu_seconds": round(cpu, 1), "wall": round(wall, 1), "arguments": arguments})
    say(f"dev: {cpu / 60:.1f} CPU minutes, {wall / 60:.1f} minutes of wall time")
    return tested or checked


def cpu_of_children() -> float:
    """Seconds of CPU, user and system, of all child processes that have ended, and of theirs."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def is_whole_suite(arguments: list[str]) -> bool:
    """Whether the arguments select no tests: only verbosity, processes and the list of the slowest are set."""
    return all(re.fullmatch(r"-q+|-v+|-n|(-n)?(auto|\d+)|--durations=\d+", argument) for argument in arguments)


def record_cost(root: Path, cost: dict[str, Any]) -> None:
    """Keeps the cost of the whole default suite for `./dev stats`."""
    file = root / ".results" / "test.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(cost) + "\n", encoding="utf-8")


def with_parts(root: Path, arguments: list[str]) -> list[str]:
    """A part of the tests may be called by its short name: `text` is tests/text, unless it is an option's value."""
    value_of = [a if a.startswith("-") and a not in ("--all", "-x", "-q", "-v") else "" for a in ["", *arguments]]
    parts = {f.relative_to(root / "tests").as_posix() for f in [*root.glob("tests/*"), *root.glob("tests/*/*")]}
    return [a if option or a not in parts else f"tests/{a}" for option, a in zip(value_of, arguments, strict=False)]


def with_cores(arguments: list[str]) -> list[str]:
    """On all cores, unless the caller decides about processes or wants to talk to the tests.

    A core that has nothing left takes tests from another: else one may end with many long ones while others wait."""
    decided = ("-n", "--numprocesses", "--dist", "-s", "--capture=no", "--pdb", "--trace")
    if any(a.startswith(decided) or a.endswith("no:xdist") for a in arguments):
        return arguments
    return ["-n", "auto", "--dist", "worksteal", *arguments]


def bench(root: Path, arguments: list[str]) -> int:
    """Runs one benchmark by name; without a known name, lists those there are."""
    names = sorted(path.stem for path in (root / "benchmarks").glob("[!_]*.py"))
    if not arguments or arguments[0] not in names:
        wrong = f"no benchmark named {arguments[0]!r}" if arguments else "bench needs a name"
        raise DevError(f"{wrong}; there are: {', '.join(names) or '(none yet)'}", 2)
    venv = setup(root, frozenset({"dev", "bench"}))
    return run(venv, "python", f"benchmarks/{arguments[0]}.py", *arguments[1:])


def stats(root: Path, arguments: list[str]) -> int:
    """Runs dev_stats.py with this Python: it needs no venv."""
    return subprocess.run([sys.executable, "-I", "-S", str(root / "dev_stats.py"), *arguments]).returncode


def setup_command(root: Path, arguments: list[str]) -> int:
    known = sorted(read_project(root)["project"].get("optional-dependencies", {}))
    parser = argparse.ArgumentParser(prog="./dev setup", description="Makes or reuses .venv and installs forebear.")
    parser.add_argument("--extras", default="", metavar="a,b", help=f"beside dev: {', '.join(known)}")
    parser.add_argument("--torch", choices=["cpu", "cuda"], help="stop unless the torch found is of this kind")
    options = parser.parse_args(arguments)
    setup(root, chosen_extras(options.extras, known) | {"dev"}, options.torch)
    say(f"ready: {Venv(root).program('forebear')}")
    return 0


def main(arguments: list[str], root: Path = ROOT) -> int:
    command, rest = (arguments[0], arguments[1:]) if arguments else ("", [])
    match command:
        case "--help" | "-h" | "help":
            print(USAGE)
            return 0
        case "setup":
            return setup_command(root, rest)
        case "demo":
            return run(setup(root, frozenset()), "forebear", "demo", *rest)
        case "test":
            return test(setup(root, frozenset({"dev"})), rest)
        case "check":
            return check(setup(root, frozenset({"dev"})))
        case "bench":
            return bench(root, rest)
        case "stats":
            return stats(root, rest)
    raise DevError(f"no command named {command!r}\n\n{USAGE}" if command else USAGE, 2)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except DevError as stop:
        say(f"dev: {stop}")
        sys.exit(stop.status)
    except KeyboardInterrupt:
        say("\ndev: interrupted")
        sys.exit(130)
