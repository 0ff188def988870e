"""Imports between rooms (the table "Rooms" of docs/design.md), import cycles, and lengths of files and functions."""

from __future__ import annotations

import ast
import graphlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

PROJECT = Path(__file__).parent.parent
PACKAGE = PROJECT / "src" / "forebear"
DESIGN = PROJECT / "docs" / "design.md"

OPEN_TO_ALL = {"errors", "interrupts", "numerics", "capabilities", "_version"}
EMPTY_NAMES = {"utils", "util", "misc", "common", "helpers", "helper"}
LONGEST_FILE, LONGEST_FUNCTION = 700, 60  # the aim is 400 and 40


@dataclass(frozen=True)
class Rooms:
    """The table "Rooms" of the design."""

    may_import: dict[str, set[str]] = field(default_factory=dict)
    torch_free: dict[str, str] = field(default_factory=dict)  # room → yes, files or empty
    later: set[str] = field(default_factory=set)


def read_rooms(text: str) -> Rooms:
    """The rows below the heading `## Rooms`; a room may import only rooms above it."""
    rooms = Rooms()
    section = text.partition("\n## Rooms")[2].partition("\n## ")[0]
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("| ").split(" | ")] if line.startswith("| `") else []
        if not cells:
            continue
        name = cells[0].split("`")[1]
        torch_free = cells[3].strip(" |") if len(cells) > 3 else ""
        assert torch_free in ("yes", "files", ""), f"{name}: {torch_free!r} under torch-free"
        above = set(rooms.may_import)
        rooms.may_import[name] = allowed_rooms(name, cells[2].strip(" |"), above)
        rooms.torch_free[name] = torch_free
        if "(later)" in cells[0]:
            rooms.later.add(name)
    return rooms


def allowed_rooms(name: str, cell: str, above: set[str]) -> set[str]:
    """`nothing`, `data, kernels`, `all above`, `all above but demo` as a set of rooms."""
    every, exceptions = re.fullmatch(r"all above(?: but (.*))?", cell), set()
    if every and every[1]:
        exceptions = set(every[1].split(", "))
    allowed = above if every else set() if cell == "nothing" else set(cell.split(", "))
    assert allowed | exceptions <= above, f"{name}: {sorted((allowed | exceptions) - above)} not above it in the table"
    return allowed - exceptions


ROOMS = read_rooms(DESIGN.read_text(encoding="utf-8"))


def room_of(file: Path, package: Path) -> str:
    return file.relative_to(package).parts[0].removesuffix(".py")


def module_name(file: Path, package: Path) -> str:
    parts = file.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


def imports_in(nodes: Iterator[ast.AST], inside: list[str]) -> Iterator[tuple[int, str]]:
    """(line, module name) of the imports among the nodes of a module in package `inside`: also relative, by string."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = ".".join(inside[: len(inside) - node.level + 1]) if node.level else ""
            module = ".".join(filter(None, [start, node.module]))
            # `from forebear import data` imports a room; `from forebear.data import Corpus` only adds a harmless part
            yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Call) and node.args:
            name = ast.unparse(node.func).rpartition(".")[2]
            argument = node.args[0]
            if name in ("import_module", "__import__") and isinstance(argument, ast.Constant):
                yield node.lineno, str(argument.value)


def parse(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def forbidden_imports(package: Path, rooms: Rooms) -> list[str]:
    """Every import that the table forbids, as `file:line: complaint`."""
    complaints = []
    for file in sorted(package.rglob("*.py")):
        room, place = room_of(file, package), file.relative_to(package)
        if room not in rooms.may_import:
            complaints.append(f"{place}:1: no room named {room!r} in the design")
            continue
        allowed = rooms.may_import[room] | OPEN_TO_ALL | {room}
        for line, name in imports_in(ast.walk(parse(file)), ["forebear", *place.parent.parts]):
            first, _, rest = name.partition(".")
            if first == "torch" and rooms.torch_free[room] == "yes":
                complaints.append(f"{place}:{line}: {room} imports torch")
            if first == "forebear" and (target := imported_room(rest, package, rooms)) not in allowed:
                complaints.append(f"{place}:{line}: {room} imports {target}")
    return list(dict.fromkeys(complaints))  # one line may import several names


def imported_room(name: str, package: Path, rooms: Rooms) -> str:
    """The room of `data.corpus.Corpus`; a name of the package itself, as in `from forebear import Run`: `__init__`."""
    room = name.partition(".")[0]
    exists = (package / room).is_dir() or (package / f"{room}.py").is_file()
    return room if room and (exists or room in rooms.may_import) else "__init__"


def missing_or_empty_rooms(package: Path, rooms: Rooms) -> list[str]:
    """Rooms of the table that do not exist, and room folders without a Python file (left behind by a move)."""
    folders = [folder for folder in package.iterdir() if folder.is_dir() and folder.name != "__pycache__"]
    empty = sorted(folder.name for folder in folders if not any(folder.rglob("*.py")))
    complaints = [f"{name}: a folder without Python files" for name in empty]
    existing = {room_of(file, package) for file in package.rglob("*.py")}
    return complaints + [f"{name}: in the table only" for name in rooms.may_import.keys() - existing - rooms.later]


# Cycles


def top_level(tree: ast.Module) -> Iterator[ast.AST]:
    """The nodes that run when the module is imported: not those of functions, nor under `if TYPE_CHECKING`."""
    stack: list[ast.AST] = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        yield node
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            stack.extend(node.orelse)
        else:
            stack.extend(ast.iter_child_nodes(node))


def import_graph(package: Path) -> dict[str, set[str]]:
    """Each module with those that it imports when it is imported."""
    files = {module_name(file, package): file for file in sorted(package.rglob("*.py"))}
    graph = {}
    for module, file in files.items():
        inside = [package.name, *file.relative_to(package).parent.parts]
        names = {name for _, name in imports_in(top_level(parse(file)), inside)}
        targets = {name if name in files else name.rpartition(".")[0] for name in names}
        graph[module] = {target for target in targets if target in files and target != module}
    return graph


def import_cycle(package: Path) -> list[str]:
    """The modules of one import cycle, the first again at the end; empty where there is none."""
    try:
        list(graphlib.TopologicalSorter(import_graph(package)).static_order())
    except graphlib.CycleError as error:
        return list(reversed(error.args[1]))
    return []


# Lengths, docstrings and names


def body_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of the statements. Signature and docstring do not count: those of a command are its options and help."""
    statements = node.body[1:] if ast.get_docstring(node) else node.body
    return (node.end_lineno or node.lineno) - statements[0].lineno + 1 if statements else 0


def style_complaints(root: Path) -> list[str]:
    """Every file without a first-line docstring, too long, or with an empty name; every function too long."""
    complaints = []
    for file in sorted(root.rglob("*.py")) if root.is_dir() else [root]:
        text = file.read_text(encoding="utf-8")
        tree, place, lines = ast.parse(text), file.name if file == root else file.relative_to(root), text.count("\n")
        if not ast.get_docstring(tree) or tree.body[0].lineno != 1:
            complaints.append(f"{place}:1: the first line is not a docstring")
        if lines > LONGEST_FILE:
            complaints.append(f"{place}: {lines} lines, more than {LONGEST_FILE}")
        if EMPTY_NAMES & set(Path(place).with_suffix("").parts):
            complaints.append(f"{place}: the name says nothing")
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = body_lines(node)
                if length > LONGEST_FUNCTION:
                    complaints.append(f"{place}:{node.lineno}: {node.name} has {length} lines")
    return complaints


def modules_after_importing(names: list[str], watched: str) -> list[str]:
    """The modules of the package `watched` that are loaded after importing these, in a process of their own."""
    code = f"import importlib, json, sys; [importlib.import_module(name) for name in json.loads({json.dumps(names)!r})]"
    code += f"; print([name for name in sys.modules if name.partition('.')[0] == {watched!r}])"
    process = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=120)
    assert process.returncode == 0, process.stderr
    return ast.literal_eval(process.stdout.splitlines()[-1])


# forebear itself


def test_rooms_import_only_what_the_design_allows():
    assert forbidden_imports(PACKAGE, ROOMS) == []


def test_each_room_of_the_design_is_a_module_or_a_folder_with_python_files():
    assert missing_or_empty_rooms(PACKAGE, ROOMS) == []


def test_modules_do_not_import_each_other_in_a_cycle():
    assert import_cycle(PACKAGE) == []


@pytest.mark.parametrize("part", ["src/forebear", "tests", "benchmarks", "dev.py", "dev_stats.py"])
def test_files_are_short_and_start_with_a_docstring(part: str):
    assert style_complaints(PROJECT / part) == []


def test_torch_free_rooms_do_not_load_torch():
    """The syntax tree cannot see what another package loads; a process of its own can."""
    files = (file for file in sorted(PACKAGE.rglob("*.py")) if ROOMS.torch_free.get(room_of(file, PACKAGE)))
    names = [module_name(file, PACKAGE) for file in files]
    assert {"forebear.errors", "forebear.models.bert"} <= set(names)
    assert modules_after_importing(names, watched="torch") == []


# Small made-up trees, each with one fault, show that the checks can fail.


def make_package(root: Path, **files: str) -> Path:
    """A package with these modules: `data__io__files` is forebear/data/io/files.py."""
    for name, text in files.items():
        path = name if name.startswith("__") else name.replace("__", "/")
        file = root / "forebear" / f"{path}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text('"""A file."""\n' + text, encoding="utf-8")
    return root / "forebear"


@pytest.mark.parametrize(
    ("file", "line", "complaint"),
    [
        ("data__a", "import forebear.nn.model", "data imports nn"),
        ("data__a", "from forebear import objectives", "data imports objectives"),
        ("data__a", "from forebear.training.run_folder import RunFolder", "data imports training"),
        ("data__a", "from .. import cli", "data imports cli"),
        ("data__a", "from ..statistical import ngram", "data imports statistical"),
        ("data__deep__a", "from ...inference.score import score", "data imports inference"),
        ("data__a", "def f():\n    from forebear.tasks import tagging as tagging", "data imports tasks"),
        ("data__a", "import importlib\nimportlib.import_module('forebear.serving')", "data imports serving"),
        ("data__a", "from forebear import Run", "data imports __init__"),
        ("data__a", "import forebear", "data imports __init__"),
        ("data__a", "if 0:\n    import torch.nn", "data imports torch"),
        ("data__a", "def f():\n    from torch import nn", "data imports torch"),
        ("objectives__a", "from forebear.nn import masks", "objectives imports nn"),
        ("nn__a", "from forebear.settings import units", "nn imports settings"),
        ("inspection__a", "import forebear.experiments", "inspection imports experiments"),
        ("inspection__a", "import forebear.demo", "inspection imports demo"),
        ("experiments__a", "import forebear.inspection", "experiments imports inspection"),
        ("inference__a", "import forebear.demo", "inference imports demo"),
        ("interop__a", "import forebear.inference", "interop imports inference"),
        ("errors", "from forebear import data", "errors imports data"),
        ("registry", "import forebear.training", "registry imports training"),
        ("demo__a", "from ..training import trainer", "demo imports training"),
        ("cupboard__a", "", "no room named 'cupboard' in the design"),
        ("cupboard", "", "no room named 'cupboard' in the design"),
    ],
)
def test_forbidden_import_is_found(tmp_path: Path, file: str, line: str, complaint: str):
    (actual,) = forbidden_imports(make_package(tmp_path, **{file: line}), ROOMS)
    assert actual.endswith(f": {complaint}")


@pytest.mark.parametrize(
    ("file", "line"),
    [
        (
            "data__a",
            "from forebear.errors import InputError\nfrom . import b\nfrom .b import c\nimport forebear.kernels",
        ),
        ("data__a", "from forebear._version import __version__\nimport torchless\nimport numpy"),
        (
            "kernels__a",
            "from forebear import numerics as numerics; from forebear import capabilities as capabilities\n"
            "from forebear.interrupts import deferred_interrupts",
        ),
        ("nn__a", "import torch\nfrom ..data.corpus.corpus import Corpus"),
        ("models__a", "def build():\n    import torch\n    from forebear.nn import model as model"),
        ("training__a", "from forebear import registry, tasks, models, settings"),
        (
            "inspection__a",
            "from forebear.inference import run as run\nfrom forebear.reports import plotting as plotting",
        ),
        ("experiments__a", "from forebear import demo, inference, registry, reports"),
        (
            "cli__a",
            "from forebear.inference import score as score\nimport torch\nfrom forebear.demo import grammar as grammar",
        ),
        ("__main__", "from forebear.cli.main import main"),
    ],
)
def test_allowed_import_passes(tmp_path: Path, file: str, line: str):
    assert forbidden_imports(make_package(tmp_path, **{file: line}), ROOMS) == []


TABLE = """
## Rooms
| room | purpose | may import | torch-free |
|---|---|---|---|
| `errors` | errors | nothing | yes |
| `data` | text → ids | errors | yes |
| `nn` | networks | all above | |
| `models` | papers | all above but nn | files |
| `serving` *(later)* | HTTP | data, nn | |

## Another
| `cli` | commands | all above | |
"""


def test_table_of_rooms_is_parsed():
    rooms = read_rooms(TABLE)
    assert rooms.may_import == {
        "errors": set(),
        "data": {"errors"},
        "nn": {"errors", "data"},
        "models": {"errors", "data"},
        "serving": {"data", "nn"},
    }
    assert rooms.torch_free == {"errors": "yes", "data": "yes", "nn": "", "models": "files", "serving": ""}
    assert rooms.later == {"serving"}


@pytest.mark.parametrize(("old", "new"), [("| errors |", "| nn |"), ("but nn", "but cli"), ("files", "no")])
def test_invalid_table_of_rooms_is_refused(old: str, new: str):
    with pytest.raises(AssertionError):
        read_rooms(TABLE.replace(old, new))


def test_empty_folders_and_missing_rooms_are_found(tmp_path: Path):
    package = make_package(tmp_path, errors="", data__io__files="", models__bert="")
    (package / "text" / "__pycache__").mkdir(parents=True)
    assert missing_or_empty_rooms(package, read_rooms(TABLE)) == [
        "text: a folder without Python files",
        "nn: in the table only",
    ]


@pytest.mark.parametrize(
    ("files", "cycle"),
    [
        ({"a": "from forebear import b", "b": "from forebear.c import C", "c": "from .a import A"}, "abc"),
        ({"a": "class A:\n    from .b import B", "b": "try:\n    import forebear.a\nexcept ImportError: ..."}, "ab"),
        ({"a": "from .b import B", "b": "def f():\n    from .a import A"}, ""),
        ({"a": "from .b import B", "b": "if TYPE_CHECKING:\n    from .a import A"}, ""),
        ({"a": "from .b import B", "b": "import c", "c": "from . import a"}, ""),
    ],
)
def test_import_cycles_are_found(tmp_path: Path, files: dict[str, str], cycle: str):
    modules = import_cycle(make_package(tmp_path, **files))
    assert {name.removeprefix("forebear.") for name in modules} == set(cycle)
    assert not modules or modules[0] == modules[-1]


def test_long_files_and_functions_and_empty_names_are_found(tmp_path: Path):
    package = make_package(
        tmp_path,
        data__helpers="",
        data__long="\n" * LONGEST_FILE,
        data__wordy="class A:\n    def speak(self):\n" + "        pass\n" * (LONGEST_FUNCTION + 1),
        data__fine="def speak():\n" + "    pass\n" * LONGEST_FUNCTION,
    )
    (package / "data" / "mute.py").write_text("import os\n", encoding="utf-8")
    assert style_complaints(package) == [
        "data/helpers.py: the name says nothing",
        f"data/long.py: {LONGEST_FILE + 1} lines, more than {LONGEST_FILE}",
        "data/mute.py:1: the first line is not a docstring",
        f"data/wordy.py:3: speak has {LONGEST_FUNCTION + 1} lines",
    ]


def test_loaded_module_is_found():
    assert "json" in modules_after_importing(["forebear.errors", "json"], watched="json")
