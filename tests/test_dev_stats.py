"""Each row of `./dev stats`, counted on small made-up projects."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

PROJECT = Path(__file__).parent.parent


def load_stats():
    spec = importlib.util.spec_from_file_location("dev_stats", PROJECT / "dev_stats.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["dev_stats"] = module
    spec.loader.exec_module(module)
    return module


stats = load_stats()


def make_project(root: Path, **files: str) -> Path:
    """A project with these modules: `data__io__files` (or `data/io/files`) is src/forebear/data/io/files.py."""
    for name, text in files.items():
        file = root / "src" / "forebear" / ((name if "/" in name else name.replace("__", "/")) + ".py")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(text), encoding="utf-8")
    return root


def measure(root: Path, **files: str) -> dict:
    return {row.name: row for row in stats.measure(make_project(root, **files))}


def test_files_and_lines_are_counted(tmp_path: Path):
    rows = measure(tmp_path, errors="A = 1\n", data__text="\n\n\n")
    assert (rows["files"].value, rows["lines"].value) == (2, 4)
    assert rows["lines"].places == ["     3 data/text.py", "     1 errors.py"]
    assert rows["lines"].verdict == "ok"


def test_public_top_level_classes_defined_twice_are_counted(tmp_path: Path):
    text = "class Batch:\n    class Inner: ...\nclass _Private: ...\n"
    row = measure(tmp_path, data__a=text, nn__b=text, nn__c="class Other: ...\n")["classes"]
    assert (row.value, row.places, row.verdict) == (1, ["Batch: data/a.py:1, nn/b.py:1"], "over")


@pytest.mark.parametrize(
    ("places", "repeated"),
    [
        (["cli__score", "inference__score"], False),
        (["cli__corpus", "data__corpus__corpus"], False),
        (["cli__demo", "demo__grammar"], False),
        (["kernels__hmm", "statistical__hmm", "models__hmm"], False),
        (["statistical__ngram__counts", "models__ngram"], False),
        (["data__a__source", "data__b__source"], False),
        (["data/__init__", "nn/__init__"], False),
        (["nn__crf", "statistical__crf", "models__crf"], True),
        (["cli__attention", "inspection__attention"], True),
        (["heads", "nn__heads"], True),
        (["settings__units", "training__settings"], True),
    ],
)
def test_module_name_in_several_rooms_is_counted(tmp_path: Path, places: list[str], repeated: bool):
    row = measure(tmp_path, **dict.fromkeys(places, ""))["stems"]
    assert row.value == int(repeated)


@pytest.mark.parametrize(
    ("stem", "gerund"),
    [
        ("tagging", False),
        ("embeddings", False),
        ("question_answering", False),
        ("settings", False),
        ("string", False),
        ("heeding", True),
        ("findings", True),
        ("task_comparing", True),
    ],
)
def test_gerund_names_are_recognized(stem: str, gerund: bool):
    assert stats.is_gerund(stem) == gerund


@pytest.mark.parametrize("name", ["trained", "_told", "unspoken", "rebuilt", "found", "undefined"])
def test_participle_names_are_recognized(name: str):
    assert stats.is_participle(name)


@pytest.mark.parametrize("name", ["train", "is_trained", "embed", "speed", "read", "put", "split", "closed", "unknown"])
def test_other_names_are_not_taken_for_participles(name: str):
    assert not stats.is_participle(name)


def test_packages_and_modules_are_searched_for_gerunds(tmp_path: Path):
    row = measure(tmp_path, **dict.fromkeys(["using/opened", "using/doing", "training/__init__", "heeding"], ""))[
        "gerunds"
    ]
    assert row.places == ["using/", "heeding.py", "using/doing.py"]


def test_functions_methods_and_properties_are_searched_for_participles(tmp_path: Path):
    text = """\
    def made(): ...
    class Run:
        @property
        def trained(self): ...
        async def _kept(self): ...
        def __set__(self): ...
        def score(self, given): ...
    found = 1
    """
    row = measure(tmp_path, a=text)["participles"]
    assert row.places == ["a.py:1: made", "a.py:4: trained", "a.py:5: _kept"]


def test_told_is_counted_in_every_kind_of_identifier(tmp_path: Path):
    text = """\
    from a import told, b as told
    def told(told, *, x): "told"
    told.x = x.told
    f(told=1, x="told")  # told
    retold = f"{told}"
    match x:
        case {"a": 1, **told}: ...
        case [*told]: ...
    def g():
        global told
    """
    row = measure(tmp_path, a=text)["told"]
    lines = [int(place.split(":")[1]) for place in row.places]
    assert sorted(lines) == [1, 1, 2, 2, 3, 3, 4, 5, 7, 8, 10]


STEPS = """
import os
def train(model, batch, rate):
    '''Train.'''
    loss = model.loss(batch)  # of one batch
    loss.backward()

    for name, weight in model.weights():
        # the step
        weight -= rate * weight.gradient
        weight.gradient = None
    return loss.item() + 1
"""


def pairs(root: Path, **files: str) -> list[str]:
    return measure(root, **files)["pairs"].places


def test_same_lines_in_two_files_are_one_pair(tmp_path: Path):
    spaced = STEPS.replace("    ", "  ").replace("'''Train.'''", "'''Other words.'''")
    assert pairs(tmp_path, a=STEPS, b="x = 1\n" + spaced) == ["a.py:3-12 ~ b.py:4-13: 7 lines, same lines"]


def test_same_structure_with_other_names_is_a_pair(tmp_path: Path):
    other = STEPS
    for old, new in [("model", "net"), ("loss", "error"), ("weight", "row"), ("1", "2.5")]:
        other = other.replace(old, new)
    (place,) = pairs(tmp_path, a=STEPS, b=other)
    assert place.endswith("7 lines, same shape")


def test_copy_within_one_file_is_one_pair(tmp_path: Path):
    assert len(pairs(tmp_path, a=STEPS + STEPS.replace("+ 1", "- [1]"))) == 1


def test_several_copies_in_two_files_count_once_by_the_longest(tmp_path: Path):
    a, b = STEPS.replace("model", "a"), STEPS.replace("model", "b").replace("+ 1", "- [1]")
    places = pairs(tmp_path, a=a + b, b=a + "c = [1, 2, 3]\n" + b)
    (place,) = (place for place in places if place.startswith("a.py") and "~ b.py" in place)
    assert "7 lines" in place


@pytest.mark.parametrize(
    "text",
    [
        STEPS.replace("    return loss.item() + 1\n", "").replace("    loss.backward()\n", ""),  # five lines
        "\n".join(f"from a import b{number}" for number in range(9)),
        "# a\n" * 9,
        '"""' + "a docstring of many lines\n" * 9 + '"""\n',
    ],
)
def test_short_copies_imports_comments_and_docstrings_are_not_counted(tmp_path: Path, text: str):
    assert pairs(tmp_path, a=text, b=text) == []


def test_similar_field_lists_are_not_counted(tmp_path: Path):
    a, b = ("\n".join(f"{name}{number}: int = {number}" for number in range(12)) for name in "ab")
    assert pairs(tmp_path, a=a, b=b) == []


def test_copy_in_too_many_places_is_not_counted(tmp_path: Path):
    assert len(pairs(tmp_path / "few", **{f"m{number}": STEPS for number in range(3)})) == 3
    assert pairs(tmp_path / "many", **{f"m{number}": STEPS for number in range(9)}) == []


@pytest.mark.parametrize("content", [None, "", "[]", '{"cpu_seconds": null}'])
def test_test_cost_without_a_recorded_run_is_unknown(tmp_path: Path, content: str | None):
    (tmp_path / ".results").mkdir()
    if content is not None:
        (tmp_path / ".results" / "test.json").write_text(content)
    row = measure(tmp_path, a="")["cpu"]
    assert (row.value, row.verdict) == (None, "unknown")


def test_test_cost_of_the_last_run_is_shown_in_minutes(tmp_path: Path):
    (tmp_path / ".results").mkdir()
    (tmp_path / ".results" / "test.json").write_text('{"cpu_seconds": 630.0, "wall": 400.0, "arguments": []}')
    row = measure(tmp_path, a="")["cpu"]
    assert (row.value, row.verdict) == (10.5, "over")


def test_stats_are_printed_as_table_list_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    make_project(tmp_path, a="def made(): ...\n")
    assert stats.main([], tmp_path) == 0
    printed = capsys.readouterr().out.splitlines()
    assert [
        line.split()[0] for line in printed[1:]
    ] == "files lines classes stems gerunds participles told cpu pairs".split()
    assert stats.main(["--list", "participles"], tmp_path) == 0
    assert capsys.readouterr().out == "a.py:1: made\n"
    assert stats.main(["--json"], tmp_path) == 0
    assert json.loads(capsys.readouterr().out)["participles"] == {"now": 1, "bar": 0, "verdict": "over"}
    assert stats.main(["--list", "told", "--json"], tmp_path) == 0
    assert json.loads(capsys.readouterr().out) == []
    with pytest.raises(SystemExit):
        stats.main(["--list", "nothing"], tmp_path)


def test_dev_stats_runs_without_a_venv():
    program = [sys.executable, "-I", "-S", str(PROJECT / "dev_stats.py"), "--help"]
    assert "--list" in subprocess.run(program, capture_output=True, text=True, check=True).stdout


def test_tree_in_the_design_matches_the_files():
    page = (PROJECT / "docs" / "design.md").read_text(encoding="utf-8")
    assert stats.tree(PROJECT) in page, "run ./dev stats --tree"
