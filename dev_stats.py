"""The table of `./dev stats`: size of the code, names that say nothing or collide, copies (standard library only)."""

from __future__ import annotations

import argparse
import ast
import json
import keyword
import re
import sys
import textwrap
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent

# Words in -ing that the field uses as nouns: those of the tree, and the rooms.
FIELD_GERUNDS = set(
    "answering batching cleaning embedding packing plotting pooling prompting sampling serving setting smoothing "
    "tagging training".split()
)
NOT_GERUNDS = set("during king ring sibling spring string thing anything everything nothing something wing".split())

IRREGULAR_PARTICIPLES = set(
    "been begun bent bitten blown born borne bought bound broken brought built burnt caught chosen clung dealt done "
    "drawn driven dug eaten fallen fed felt flown forbidden forgotten fought found frozen given gone grown heard held "
    "hidden hung kept known laid lain learnt led left lent lit lost made meant met mown paid proven ridden risen rung "
    "said sawn seen sent sewn shaken shone shorn shot shown slain slept slid sold sought sown spelt spent spoken spun "
    "stolen stood struck stuck sung sunk sworn swept swollen swum swung taken taught thought thrown told torn trodden "
    "understood woken won worn wound woven written".split()
)
NOT_PARTICIPLES = set(
    "bed bleed breed deed embed exceed feed heed hundred indeed need proceed red seed shed speed succeed weed".split()
)
FIELD_PARTICIPLES = {
    "closed": "the file protocol of Python names it so",
    "unknown": "the unknown token",
    "wrapped": "the usual name of the function inside a decorator",
}

# Nodes of the syntax tree and their fields that hold identifiers.
NODES = (
    "Name id;Attribute attr;alias name asname;arg arg;keyword arg;Global names;Nonlocal names;FunctionDef name;"
    "AsyncFunctionDef name;ClassDef name;ExceptHandler name;MatchAs name;MatchStar name;MatchMapping rest"
)
IDENTIFIERS = {node: fields for node, *fields in map(str.split, NODES.split(";"))}

# A window of lines that differ in names only must have so many different shapes and so many symbols: fields of a
# class or rows of a table are alike without being a copy. Both were chosen so that the total agrees with `duplicates`.
WINDOW, MOST_PLACES, LEAST_SHAPES, LEAST_SYMBOLS = 6, 8, 3, 29


@dataclass(frozen=True)
class Module:
    """A Python file, read and parsed once."""

    path: str  # from the package's folder on: data/io/sources.py
    text: str
    tree: ast.Module
    nodes: list[Any]

    @property
    def parts(self) -> list[str]:
        return self.path.removesuffix(".py").split("/")

    @property
    def room(self) -> str:
        return self.parts[0] if len(self.parts) > 1 else "(root)"

    @property
    def stem(self) -> str:
        """The module's name; empty for `__init__` and `__main__`."""
        return "" if is_dunder(self.parts[-1]) else self.parts[-1]


@dataclass(frozen=True)
class Row:
    """One measure: its value, the limit, and the places that `--list` prints."""

    name: str
    description: str
    value: float | None
    bar: int
    places: list[str] = field(default_factory=list)

    @property
    def verdict(self) -> str:
        return "unknown" if self.value is None else "ok" if self.value <= self.bar else "over"


def read_modules(package: Path) -> list[Module]:
    modules = []
    for file in sorted(package.rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        tree = ast.parse(text, str(file))
        modules.append(Module(file.relative_to(package).as_posix(), text, tree, list(ast.walk(tree))))
    return modules


def repeated_classes(modules: list[Module]) -> dict[str, list[str]]:
    """Public top-level class names defined in two places or more, with the places."""
    places: dict[str, list[str]] = defaultdict(list)
    for module in modules:
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(f"{module.path}:{node.lineno}")
    return {name: where for name, where in sorted(places.items()) if len(where) > 1}


def repeated_stems(modules: list[Module]) -> dict[str, list[str]]:
    """Names of modules and packages in several rooms, beyond the three rules of the design.

    The rules: `cli/X` is the command for `inference/X`, `experiments/X`, `data/X` or the room X; `kernels/X` holds
    the loops of X; `models/X` is the paper of X.
    """
    places: dict[str, dict[str, str]] = defaultdict(dict)
    for module in modules:
        for depth, name in enumerate(module.parts[:-1], 1):
            places[name].setdefault(module.room, "/".join(module.parts[:depth]))
        if module.stem:
            places[module.stem].setdefault(module.room, module.path)
    repeated = {}
    for stem, rooms in sorted(places.items()):
        others = set(rooms) - {"kernels", "models"}
        if others & {"inference", "experiments", "data", stem}:
            others.discard("cli")
        if len(others) > 1:
            repeated[stem] = list(rooms.values())
    return repeated


def is_gerund(stem: str) -> bool:
    """Whether a part of the name ends in -ing (or -ings) and is not a word of the field."""
    words = (word.removesuffix("s") for word in stem.split("_"))
    return any(word.endswith("ing") and word not in FIELD_GERUNDS | NOT_GERUNDS for word in words)


def gerund_modules(modules: list[Module]) -> list[str]:
    """Packages and modules whose names are gerunds."""
    packages = {module.path.rpartition("/")[0] for module in modules}
    gerunds = [package + "/" for package in sorted(packages) if is_gerund(package.rpartition("/")[2])]
    return gerunds + [module.path for module in modules if is_gerund(module.stem)]


def is_participle(name: str) -> bool:
    """Whether a function's name is a single past participle; read, cut, put and the like may be the verb itself."""
    word = name.strip("_")
    if is_dunder(name) or word in {*FIELD_PARTICIPLES, *NOT_PARTICIPLES} or not (word.isalpha() and word.islower()):
        return False
    return word.endswith("ed") or word in IRREGULAR_PARTICIPLES or re.sub("^(un|re)", "", word) in IRREGULAR_PARTICIPLES


def is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def participle_functions(modules: list[Module]) -> list[str]:
    """Functions, methods and properties named by a participle alone."""
    return [
        f"{module.path}:{node.lineno}: {node.name}"
        for module in modules
        for node in module.nodes
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and is_participle(node.name)
    ]


def identifiers(nodes: list[Any]) -> Iterator[tuple[int, str]]:
    """(line, name) of every identifier: variables, attributes, parameters, keywords, definitions, imports, patterns."""
    for node in nodes:
        for attribute in IDENTIFIERS.get(type(node).__name__, ()):
            value = getattr(node, attribute)
            yield from ((node.lineno, name) for name in (value if isinstance(value, list) else [value]) if name)


def named(modules: list[Module], word: str) -> list[str]:
    """Places where an identifier is exactly this word, underscores around it aside."""
    places = []
    for module in modules:
        if word in module.text:
            lines = module.text.split("\n")
            numbers = sorted(line for line, name in identifiers(module.nodes) if name.strip("_") == word)
            places += [f"{module.path}:{line}: {lines[line - 1].strip()}" for line in numbers]
    return places


# Repeated lines

TOKEN = re.compile(
    r"(?P<string>[rbfuRBFU]{0,2}(?:\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'))|(?P<comment>#.*)"
    r"|(?P<number>\b\d[\w.]*)|(?P<name>[^\W\d]\w*)|(?P<symbol>[^\w\s])"
)
STANDS_FOR = {"string": "S", "number": "0", "name": "I", "comment": ""}


@dataclass(frozen=True)
class CodeLine:
    """A line that counts: its number, its text without outer white space, and its shape without names and values."""

    number: int
    text: str
    shape: tuple[str, ...]


@cache
def shape_of(line: str) -> tuple[str, ...]:
    symbols = []
    for match in TOKEN.finditer(line):
        kind = match.lastgroup if not keyword.iskeyword(match[0]) else ""
        symbols.append(STANDS_FOR.get(kind or "", match[0]))
    return tuple(filter(None, symbols))


def code_lines(module: Module) -> list[CodeLine]:
    """Lines without the blank ones, comments, imports, docstrings and lone punctuation."""
    skipped: set[int] = set()
    for node in module.nodes:
        is_text = (
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        )
        if is_text or isinstance(node, ast.Import | ast.ImportFrom):
            skipped.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines = ((number, " ".join(line.split())) for number, line in enumerate(module.text.split("\n"), 1))
    return [
        CodeLine(number, line, shape_of(line))
        for number, line in lines
        if number not in skipped and not line.startswith("#") and re.search(r"\w", line)
    ]


def is_large_enough(window: list[tuple[str, ...]]) -> bool:
    return len(set(window)) >= LEAST_SHAPES and sum(map(len, window)) >= LEAST_SYMBOLS


def shared_windows(
    files: list[list[CodeLine]], key: Callable[[CodeLine], object], counts: Callable[[list], bool]
) -> set[tuple[int, int, int, int]]:
    """(first file, second file, distance, index) of every window of lines that stands in both places."""
    ids: dict[object, int] = {}  # small integers are faster to hash than tuples of tuples
    places: dict[tuple, list[tuple[int, int]]] = defaultdict(list)
    for number, lines in enumerate(files):
        keys = [ids.setdefault(key(line), len(ids)) for line in lines]
        for index in range(len(keys) - WINDOW + 1):
            places[tuple(keys[index : index + WINDOW])].append((number, index))
    shared, keys_by_id = set(), list(ids)
    for window, where in places.items():
        if 2 <= len(where) <= MOST_PLACES and counts([keys_by_id[number] for number in window]):
            for position, (first, index) in enumerate(where):
                for second, other in where[position + 1 :]:
                    if first != second or other - index >= WINDOW:  # a window does not repeat itself
                        shared.add((first, second, other - index, index))
    return shared


def repeated_lines(modules: list[Module]) -> list[tuple[int, str]]:
    """(shared lines, both places) of every pair of files that share a run of lines; the longest run of each pair."""
    files = [code_lines(module) for module in modules]
    longest: dict[tuple[int, int], tuple[int, str]] = {}
    for kind, shared in (
        ("same lines", shared_windows(files, lambda line: line.text, lambda window: True)),
        ("same shape", shared_windows(files, lambda line: line.shape, is_large_enough)),
    ):
        for first, second, distance, start in sorted(shared):
            if (first, second, distance, start - 1) in shared:
                continue  # inside a run that was counted from its beginning
            end = start
            while (first, second, distance, end + 1) in shared:
                end += 1
            length = end - start + WINDOW
            if length > longest.get((first, second), (0, ""))[0]:
                texts = [
                    f"{modules[file].path}:{files[file][at].number}-{files[file][at + length - 1].number}"
                    for file, at in ((first, start), (second, start + distance))
                ]
                longest[first, second] = length, f"{' ~ '.join(texts)}: {length} lines, {kind}"
    return sorted(longest.values(), key=lambda pair: (-pair[0], pair[1]))


# The table


def test_cost(root: Path) -> dict:
    """What the last whole `./dev test` recorded; empty where there was none."""
    try:
        cost = json.loads((root / ".results" / "test.json").read_text(encoding="utf-8"))
        return cost if isinstance(cost.get("cpu_seconds"), int | float) else {}
    except (OSError, ValueError, AttributeError):
        return {}


def listed(repeated: dict[str, list[str]]) -> list[str]:
    return [f"{name}: {', '.join(places)}" for name, places in repeated.items()]


def measure(root: Path) -> list[Row]:
    modules = read_modules(root / "src" / "forebear")
    lines = {module.path: module.text.count("\n") for module in modules}
    sizes = [f"{count:6,} {path}" for path, count in sorted(lines.items(), key=lambda item: -item[1])]
    classes, stems, cost = repeated_classes(modules), repeated_stems(modules), test_cost(root)
    gerunds, participles, told = gerund_modules(modules), participle_functions(modules), named(modules, "told")
    pairs = [place for _, place in repeated_lines(modules)]
    minutes = round(cost["cpu_seconds"] / 60, 1) if cost else None
    return [
        Row("files", "Python files under src", len(lines), 330, sizes),
        Row("lines", "their lines", sum(lines.values()), 71_000, sizes),
        Row("classes", "public class names defined twice", len(classes), 0, listed(classes)),
        Row("stems", "module names in several rooms, beyond the rules", len(stems), 5, listed(stems)),
        Row("gerunds", "module names that are gerunds", len(gerunds), 0, gerunds),
        Row("participles", "functions named by a participle alone", len(participles), 0, participles),
        Row("told", "`told` as an identifier", len(told), 0, told),
        Row("cpu", "CPU minutes of the last whole ./dev test", minutes, 10, [json.dumps(cost)] if cost else []),
        Row("pairs", "pairs of places that share six or more lines", len(pairs), 100, pairs),
    ]


def table(rows: list[Row]) -> str:
    cells = [("name", "measure", "now", "bar", "")]
    for row in rows:
        now = "–" if row.value is None else f"{row.value:,}"
        cells.append((row.name, row.description, now, f"≤ {row.bar:,}" if row.bar else "0", row.verdict))
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ([f"{cell:{a}{w}}" for cell, a, w in zip(row, "<<>><", widths, strict=True)] for row in cells)
    return "\n".join("  ".join(line).rstrip() for line in lines)


TREE_START, TREE_END = "<!-- tree -->\n", "<!-- end of tree -->"


def tree(root: Path) -> str:
    """The packages with their first sentence, and the names of their modules."""
    package = root / "src" / "forebear"
    lines = ["```"]
    for folder in [package, *sorted(file.parent for file in package.rglob("*/__init__.py"))]:
        docstring = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))) or ""
        sentence = "the public interface and what every room may import" if folder == package else docstring
        names = sorted(file.stem for file in folder.glob("*.py") if file.stem != "__init__")
        label = "forebear/" + "".join(f"{part}/" for part in folder.relative_to(package).parts)
        lines.append(f"{label:<36}{sentence.partition(chr(10))[0]}")
        lines += textwrap.wrap(" · ".join(names), 116, initial_indent="    ", subsequent_indent="    ")
    return "\n".join([*lines, "```", ""])


def write_tree(root: Path) -> None:
    """Puts the tree between its marks in docs/design.md."""
    page = root / "docs" / "design.md"
    before, _, rest = page.read_text(encoding="utf-8").partition(TREE_START)
    page.write_text(f"{before}{TREE_START}{tree(root)}{TREE_END}{rest.partition(TREE_END)[2]}", encoding="utf-8")


def main(arguments: list[str], root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(prog="./dev stats", description="Measures the code under src against its limits.")
    parser.add_argument("--list", metavar="NAME", dest="listed", help="print the places of one row of the table")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--tree", action="store_true", help="write the tree of modules into docs/design.md")
    options = parser.parse_args(arguments)
    if options.tree:
        write_tree(root)
        return 0
    rows = {row.name: row for row in measure(root)}
    if options.listed:
        if options.listed not in rows:
            parser.error(f"unknown row {options.listed!r}; rows: {', '.join(rows)}")
        places = rows[options.listed].places
        print(json.dumps(places, ensure_ascii=False, indent=2) if options.json else "\n".join(places))
    elif options.json:
        values = {row.name: {"now": row.value, "bar": row.bar, "verdict": row.verdict} for row in rows.values()}
        print(json.dumps(values, ensure_ascii=False, indent=2))
    else:
        print(table(list(rows.values())))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
