"""Files next to a text, in a run or in a corpus folder are data: no command imports one in place of a module."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from small_runs import small_text

# Without what `python -m` imports itself before the first line of the package runs (contextlib and its imports).
NAMES = (
    "__future__ abc argparse ast asyncio base64 bisect conftest copy csv ctypes cyclopts dataclasses datetime decimal "
    "difflib email enum fractions gzip hashlib heapq hmac html huggingface_hub inspect io json llvmlite locale "
    "logging math matplotlib multiprocessing numba numpy orjson pathlib pickle pkgutil platform platformdirs queue "
    "random re resource rich rjieba sacrebleu safetensors select shutil signal site sitecustomize socket statistics "
    "string struct subprocess tempfile textwrap threading tokenizers tomllib torch traceback typing unicodedata "
    "urllib usercustomize uuid weakref zlib zstandard"
).split()
TINY_TRAINING = (
    "--width 8 --depth 1 --heads 1 --context 16 --batch 32 --steps 2 --threads 1 --tokenizer characters".split()
)


@pytest.fixture
def trap_folder(tmp_path: Path) -> Path:
    """A working folder with a text and a corpus, in which modules of many names leave a mark when imported."""
    folder = tmp_path / "work"
    (folder / "texts").mkdir(parents=True)
    (folder / "texts" / "a.txt").write_text(small_text(), encoding="utf-8")
    (folder / "b.txt").write_text(small_text(60), encoding="utf-8")
    (tmp_path / "marks").mkdir()
    set_traps(folder)
    set_traps(folder / "texts")
    return folder


def set_traps(folder: Path) -> None:
    for name in NAMES:
        mark = next(parent for parent in folder.parents if (parent / "marks").is_dir()) / "marks" / name
        (folder / f"{name}.py").write_text(f"open({str(mark)!r}, 'w').close()\n", encoding="utf-8")


def run(folder: Path, *arguments: str, module: bool = False) -> None:
    """Runs a command in `folder`, by the console script or by `python -m`; no trap may have been imported."""
    script = "import sys; sys.argv[0] = 'forebear'; del sys.path[0]; from forebear.cli.main import run; run()"
    start = ["-m", "forebear"] if module else ["-c", script]  # sys.path is that of the console script
    environment = {**os.environ, "FOREBEAR_CACHE": str(folder.parent / "cache")}
    process = subprocess.run(
        [sys.executable, *start, *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )
    marks = {path.name for path in (folder.parent / "marks").iterdir()}
    assert not marks, f"{arguments[0]} imported from the working folder: {marks}"
    assert process.returncode == 0, process.stderr


def test_compare_imports_nothing_from_the_working_folder(trap_folder: Path):
    run(trap_folder, "compare", "texts/*.txt", "--only", "ngram", "--time", "1s", "--threads", "1", "--quiet")


def test_prepare_with_workers_imports_nothing_from_the_working_folder(trap_folder: Path):
    (trap_folder / "b.txt").write_text(small_text(6_000), encoding="utf-8")  # enough for two shards
    run(trap_folder, "prepare", "b.txt", "--tokenizer", "words", "--workers", "2", "--to", "corpus", "--quiet")


@pytest.mark.slow
def test_distributed_training_imports_nothing_from_the_working_folder(trap_folder: Path):
    run(trap_folder, "pretrain", "gpt2", "b.txt", *TINY_TRAINING, "--processes", "2", "--to", "runs/gpt2", "--quiet")
    set_traps(trap_folder / "runs" / "gpt2")
    run(trap_folder, "score", "runs/gpt2", "The cat sat.", module=True)


def test_python_m_imports_nothing_from_the_working_folder(trap_folder: Path):
    run(trap_folder, "lineage", module=True)
    run(trap_folder, "corpus", "texts", module=True)


def test_search_path_of_children_excludes_the_working_folder(trap_folder: Path, monkeypatch: pytest.MonkeyPatch):
    from forebear.data.io.workers import child_environment, python_command

    monkeypatch.chdir(trap_folder)
    monkeypatch.setattr(sys, "path", ["", ".", str(trap_folder), "texts/..", *sys.path])
    program = "import forebear.data.io.workers; import random, json, sys; print(sys.path)"
    process = subprocess.run(
        python_command(program), env=child_environment(), capture_output=True, text=True, timeout=60
    )
    assert process.returncode == 0, process.stderr
    assert repr(str(trap_folder)) not in process.stdout
    assert list((trap_folder.parent / "marks").iterdir()) == []


def test_package_in_the_working_folder_is_found_but_no_module_next_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A checkout that is not installed: the package is found, but no file next to it replaces a module."""
    import forebear
    from forebear.data.io.workers import child_environment, python_command

    (tmp_path / "marks").mkdir()
    source = tmp_path / "with:colon"
    source.mkdir()
    (source / "forebear").symlink_to(Path(forebear.__file__).parent)
    set_traps(source)
    monkeypatch.chdir(source)
    others = [path for path in sys.path if not (Path(path) / "forebear").exists()]
    monkeypatch.setattr(sys, "path", [str(source), *others])
    program = "import forebear.data.io.workers; import forebear, random; print(forebear.__file__)"
    process = subprocess.run(
        python_command(program), env=child_environment(), capture_output=True, text=True, timeout=60
    )
    assert process.returncode == 0, process.stderr
    assert list((tmp_path / "marks").iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("module", [False, True])
def test_no_command_with_children_imports_from_the_working_folder(trap_folder: Path, module: bool):
    rows = "".join(f"{'good' if number % 2 else 'bad'}\tThe cat {number} sat.\n" for number in range(60))
    (trap_folder / "labels.tsv").write_text(rows, encoding="utf-8")
    run(trap_folder, "compare", "b.txt", "--only", "ngram,gpt2,word2vec", "--time", "1s", "--quiet", module=module)
    run(trap_folder, "compare", "b.txt", "--task", "classification", "labels.tsv", "--only", "ngram", "--time", "1s",
        "--to", "tasks", "--quiet", module=module)  # fmt: skip
    run(trap_folder, "prepare", "b.txt", "--workers", "2", "--to", "corpus", "--quiet", module=module)
    run(trap_folder, "pretrain", "bert", "b.txt", *TINY_TRAINING, "--pairs", "none", "--processes", "2",
        "--to", "runs/bert", "--quiet", module=module)  # fmt: skip
    set_traps(trap_folder / "runs" / "bert")
    run(trap_folder, "adapt", "runs/bert", "labels.tsv", "--steps", "2", "--processes", "2", "--to", "runs/labels",
        "--quiet", module=module)  # fmt: skip
    set_traps(trap_folder / "runs" / "labels")
    run(trap_folder, "classify", "runs/labels", "The cat sat.", module=module)
    run(trap_folder, "fill", "runs/bert", "The ____ sat.", module=module)
    run(trap_folder, "inspect", "attention", "runs/bert", "The cat sat.", module=module)
    run(trap_folder, "measure", "runs/bert", "b.txt", "--quiet", module=module)
    run(trap_folder, "runs", "runs", module=module)
