"""The project's own commands: what `./dev` prints; when a set-up is repeated, skipped or discarded. No network."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parent.parent


def load_dev():
    spec = importlib.util.spec_from_file_location("dev", PROJECT / "dev.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["dev"] = module
    spec.loader.exec_module(module)
    return module


dev = load_dev()
PYPROJECT = (
    '[project]\nname = "x"\n[project.optional-dependencies]\ndev = []\nplots = []\n[tool.ruff]\nline-length = 1\n'
)


def run_dev(*arguments: str, script: Path = PROJECT / "dev", folder: Path = PROJECT, **environment: str):
    environment = os.environ | environment
    return subprocess.run(
        [str(script), *arguments], capture_output=True, text=True, cwd=folder, env=environment, timeout=60
    )


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a venv whose Python is this one, and a stamp which says that the core is installed."""
    (tmp_path / "pyproject.toml").write_text(PYPROJECT)
    (tmp_path / "constraints.txt").write_text("torch==2.13.0\n")
    venv = dev.Venv(tmp_path)
    Path(venv.python).parent.mkdir(parents=True)
    Path(venv.python).symlink_to(sys.executable)
    mark_as_finished(venv)
    return tmp_path


def mark_as_finished(venv, extras: frozenset[str] = frozenset()) -> None:
    mark = dev.fingerprint(venv.root, venv.version())
    dev.write_stamp(venv.stamp, dev.Stamp(mark, extras, str(venv.root)))


@pytest.fixture
def stages(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the stages a set-up would go through; nothing is really run."""
    names: list[str] = []
    monkeypatch.setattr(dev, "stage", lambda name, command, folder: names.append(name))
    monkeypatch.setattr(dev, "find_pip", lambda venv: ["pip"])
    return names


def add_package(root: Path, name: str, *, complete: bool = True) -> None:
    folder = root / ".venv/lib/python3.11/site-packages" / f"{name}.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text("")
    if complete:
        (folder / "INSTALLER").write_text("pip\n")


# The script


def test_help_lists_the_commands():
    answer = run_dev("--help")
    assert answer.returncode == 0
    listed = [line.split()[0] for line in answer.stdout.splitlines() if line.startswith("  ")]
    assert list(dict.fromkeys(listed)) == ["setup", "demo", "test", "check", "bench", "stats"]


@pytest.mark.parametrize("arguments", [["tets"], []])
def test_unknown_command_exits_with_2_and_lists_the_commands(arguments: list[str]):
    answer = run_dev(*arguments)
    assert answer.returncode == 2
    assert answer.stdout == ""
    assert "bench NAME" in answer.stderr
    assert all(repr(word) in answer.stderr for word in arguments)


@pytest.mark.parametrize("arguments", [["nosuch"], ["../dev"], []])
def test_unknown_benchmark_exits_with_2_and_lists_the_benchmarks(arguments: list[str]):
    answer = run_dev("bench", *arguments)
    assert answer.returncode == 2
    names = [path.stem for path in (PROJECT / "benchmarks").glob("[!_]*.py")]
    assert "there are: " in answer.stderr
    assert all(name in answer.stderr for name in names)


def test_unknown_extra_exits_with_2():
    answer = run_dev("setup", "--extras", "onnx,onxn")
    assert answer.returncode == 2
    assert "'onxn'; there are: bench, dev, elmo, onnx, usearch" in answer.stderr


def test_dev_script_works_from_any_folder_through_links_and_with_spaces(tmp_path: Path):
    folder = tmp_path / "a place, 有空格"
    folder.mkdir()
    (folder / "dev").write_bytes((PROJECT / "dev").read_bytes())
    (folder / "dev").chmod(0o755)
    (folder / "dev.py").write_text("import os, sys; print(os.getcwd(), sys.argv[1:])")
    (tmp_path / "one").symlink_to(folder / "dev")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "two").symlink_to("../one")
    for script in (folder / "dev", tmp_path / "one", tmp_path / "bin" / "two"):
        answer = run_dev("a b", "*", script=script, folder=Path("/"), CDPATH=str(tmp_path))
        assert answer.stdout == f"{folder} ['a b', '*']\n", answer.stderr


def test_dev_script_with_an_old_python_prints_a_hint(tmp_path: Path):
    (tmp_path / "dev").write_bytes((PROJECT / "dev").read_bytes())
    (tmp_path / "python3").write_text('#!/bin/sh\n[ "$1" = --version ] && echo Python 3.9.9\nexit 0\n')
    (tmp_path / "dirname").write_text('#!/bin/sh\necho "${1%/*}"\n')
    for name in ("dev", "python3", "dirname"):
        (tmp_path / name).chmod(0o755)
    answer = run_dev("setup", script=tmp_path / "dev", PATH=str(tmp_path))
    assert answer.returncode == 2
    assert "needs Python 3.11" in answer.stderr
    assert "Python 3.9.9" in answer.stderr
    assert "remedy" in answer.stderr


# When a set-up is needed


def test_finished_setup_is_skipped(project: Path, stages: list[str]):
    dev.setup(project, frozenset())
    assert stages == []


def test_changed_linter_settings_need_no_setup(project: Path, stages: list[str]):
    (project / "pyproject.toml").write_text(PYPROJECT.replace("line-length = 1", "line-length = 2"))
    dev.setup(project, frozenset())
    assert stages == []


@pytest.mark.parametrize(("file", "old", "new"), [("pyproject.toml", '"x"', '"y"'), ("constraints.txt", "13", "14")])
def test_changed_requirements_need_a_setup_with_the_same_extras(
    project: Path, stages: list[str], file: str, old: str, new: str
):
    venv = dev.Venv(project)
    mark_as_finished(venv, frozenset({"plots"}))
    add_package(project, "torch-2.13.0")
    text = (project / file).read_text()
    (project / file).write_text(text.replace(old, new))
    assert text != text.replace(old, new)
    dev.setup(project, frozenset({"dev"}))
    assert stages == ["forebear[dev,plots]"]
    stages.clear()
    dev.setup(project, frozenset())
    assert stages == []


def test_setup_installs_only_missing_extras(project: Path, stages: list[str]):
    add_package(project, "torch-2.13.0")
    dev.setup(project, frozenset({"dev"}))
    assert stages == ["forebear[dev]"]
    dev.setup(project, frozenset())
    assert stages == ["forebear[dev]"]


@pytest.mark.parametrize("failure", [KeyboardInterrupt, dev.DevError("torch failed")])
def test_unfinished_setup_leaves_no_stamp(project: Path, monkeypatch: pytest.MonkeyPatch, failure: BaseException):
    def fail(*_: object) -> None:
        raise failure

    monkeypatch.setattr(dev, "stage", fail)
    monkeypatch.setattr(dev, "find_pip", lambda venv: ["pip"])
    with pytest.raises((KeyboardInterrupt, dev.DevError)):
        dev.setup(project, frozenset({"dev"}))
    assert not dev.Venv(project).stamp.exists()
    assert not dev.is_ready(dev.Venv(project), frozenset())


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"fingerprint": "x"}', '{"fingerprint": 1, "extras": 2, "root": 3}', "\0"]
)
def test_damaged_stamp_is_ignored(tmp_path: Path, text: str):
    (tmp_path / "stamp").write_text(text)
    assert dev.read_stamp(tmp_path / "stamp") == dev.Stamp()


@pytest.mark.parametrize("status", [0, 3])
def test_output_of_a_stage_is_printed_only_on_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str], status: int):
    command = [sys.executable, "-c", f"import sys; print('much talk'); sys.exit({status})"]
    if status:
        with pytest.raises(dev.DevError, match="numbers failed"):
            dev.stage("numbers", command, tmp_path)
    else:
        dev.stage("numbers", command, tmp_path)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("numbers … ")
    assert ("much talk" in printed.err) == bool(status)


# When a venv is discarded


def remake(project: Path, stages: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    kept = project / ".venv" / "kept"
    kept.write_text("")
    try:
        dev.make(dev.Venv(project), dev.read_stamp(dev.Venv(project).stamp))
    finally:
        assert kept.exists() != ("virtual environment" in stages)
    return capsys.readouterr().err


def test_intact_venv_is_reused_also_without_a_stamp(project: Path, stages: list[str], capsys):
    add_package(project, "numpy-2.0")
    dev.Venv(project).stamp.unlink()
    assert remake(project, stages, capsys) == ""
    assert stages == []


def test_venv_without_its_python_is_remade(project: Path, stages: list[str], capsys):
    python = Path(dev.Venv(project).python)
    python.unlink()
    python.symlink_to("/nonexistent/python")
    assert not dev.is_ready(dev.Venv(project), frozenset())
    assert "does not run" in remake(project, stages, capsys)


def test_venv_with_a_partly_installed_package_is_remade(project: Path, stages: list[str], capsys):
    add_package(project, "numpy-2.0")
    add_package(project, "torch-2.13.0", complete=False)
    assert "torch-2.13.0" in remake(project, stages, capsys)


def test_moved_venv_is_remade(project: Path, stages: list[str], capsys):
    moved = project.rename(project.with_name(project.name + " moved"))
    assert not dev.is_ready(dev.Venv(moved), frozenset())
    assert str(project) in remake(moved, stages, capsys)


# Small decisions


@pytest.mark.parametrize("arguments", [[], ["tests/x.py", "-k", "n"], ["--no-header"]])
def test_tests_run_on_all_cores(arguments: list[str]):
    assert dev.with_cores(arguments) == ["-n", "auto", "--dist", "worksteal", *arguments]


@pytest.mark.parametrize("argument", ["-n0", "-n", "--numprocesses=2", "-pno:xdist", "no:xdist", "--pdb", "-s"])
def test_given_number_of_cores_is_kept(argument: str):
    assert dev.with_cores(["x", argument]) == ["x", argument]


def test_short_names_of_test_folders_are_expanded():
    short = ["--all", "nn", "cli/test_prompt_commands.py", "-k", "nn", "tests/demo", "nosuch", "-n0", "--tb=short"]
    full = [
        "--all",
        "tests/nn",
        "tests/cli/test_prompt_commands.py",
        "-k",
        "nn",
        "tests/demo",
        "nosuch",
        "-n0",
        "--tb=short",
    ]
    assert dev.with_parts(PROJECT, short) == full


@pytest.mark.parametrize(
    ("ruff", "types", "pytest_status", "status"), [(0, 0, 0, 0), (1, 0, 0, 1), (0, 1, 0, 1), (0, 0, 5, 5), (1, 1, 2, 2)]
)
def test_failing_check_fails_the_tests(
    project: Path, monkeypatch: pytest.MonkeyPatch, ruff: int, types: int, pytest_status: int, status: int
):
    statuses = {"ruff": ruff, "basedpyright": types, "python": pytest_status}
    monkeypatch.setattr(dev, "run", lambda venv, program, *arguments: statuses[program])
    assert dev.test(dev.Venv(project), []) == status
    assert (project / ".results" / "test.json").exists() == (pytest_status in (0, 1))


@pytest.mark.parametrize(
    ("arguments", "recorded"),
    [([], True), (["-q", "-n", "2", "--durations=5"], True), (["--all"], False), (["text"], False), (["-x"], False)],
)
def test_cost_of_the_whole_suite_is_recorded_and_printed_last(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys, arguments: list[str], recorded: bool
):
    (project / ".results").mkdir()
    cost = project / ".results" / "test.json"
    cost.write_text('{"cpu_seconds": -1}')
    monkeypatch.setattr(dev, "run", lambda venv, program, *arguments: 0)
    seconds = iter([10.0, 130.0])
    monkeypatch.setattr(dev, "cpu_of_children", lambda: next(seconds))
    assert dev.test(dev.Venv(project), arguments) == 0
    assert json.loads(cost.read_text())["cpu_seconds"] == (120.0 if recorded else -1)
    assert capsys.readouterr().err.splitlines()[-1].startswith("dev: 2.0 CPU minutes")


def test_cpu_time_of_ended_children_is_counted():
    before = dev.cpu_of_children()
    subprocess.run([sys.executable, "-c", "sum(range(10**6))"], check=True)
    assert dev.cpu_of_children() > before


@pytest.mark.parametrize(
    ("cuda", "expected", "is_accepted"), [("None", "cpu", True), ("'13.0'", "cpu", False), ("None", "cuda", False)]
)
def test_kind_of_torch_is_verified(
    project: Path, monkeypatch: pytest.MonkeyPatch, cuda: str, expected: str, is_accepted: bool
):
    fake = project / "fake" / "torch"
    fake.mkdir(parents=True)
    (fake / "__init__.py").write_text(f"class version:\n    cuda = {cuda}\n")
    monkeypatch.setenv("PYTHONPATH", str(fake.parent))
    if is_accepted:
        dev.verify_torch(dev.Venv(project), expected)
    else:
        with pytest.raises(dev.DevError, match=r"(?s)not c.*pytorch\.org") as caught:
            dev.verify_torch(dev.Venv(project), expected)
        assert caught.value.status == 2


def test_pip_comes_from_ensurepip_or_a_hint_is_given(project: Path, monkeypatch: pytest.MonkeyPatch):
    venv = dev.Venv(project)
    monkeypatch.setattr(dev, "works", lambda command: command[2] == "ensurepip")
    assert dev.find_pip(venv) == [venv.python, "-m", "pip", "--python", venv.python]
    monkeypatch.setattr(dev, "works", lambda command: False)
    with pytest.raises(dev.DevError, match="remedy: install pip"):
        dev.find_pip(venv)


def test_constraints_pin_every_declared_requirement_without_suffix_or_address():
    lines = (PROJECT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = dict(line.split("==") for line in lines if not line.startswith("#"))
    assert "torch" in pins
    assert not any("+" in version or "/" in version for version in pins.values())
    project = dev.read_project(PROJECT)["project"]
    requirements = [
        *project["dependencies"],
        *(name for extra in project["optional-dependencies"].values() for name in extra),
    ]
    names = {normalized_name(name.partition(">=")[0]) for name in requirements}
    assert names <= {normalized_name(name) for name in pins}


def normalized_name(name: str) -> str:
    return name.lower().replace("_", "-")
