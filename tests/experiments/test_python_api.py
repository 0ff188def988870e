"""The Python API: the same names as on the command line, typed, documented and imported lazily."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

import forebear as fb
from forebear.errors import InputError
from small_runs import small_text


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREBEAR_CACHE", str(tmp_path / "cache"))


def test_python_api_trains_queries_measures_exports_and_reruns(tmp_path: Path):
    text_file = tmp_path / "book.txt"
    text_file.write_text(small_text(), encoding="utf-8")
    run = fb.pretrain("ngram", text_file, to=tmp_path / "run", order=3, held_out=0.15)
    likely, unlikely = run.score(["The cat sat by the mat.", "mat the by sat cat The."])
    assert likely.log_prob > unlikely.log_prob
    assert run.next("The cat sat by the").candidates[0].probability > 0.1
    assert run.generate("The", seed=1, length=5)[0].text
    assert "".join(run.stream("The", seed=1, length=5)) == run.generate("The", seed=1, length=5)[0].text
    assert [line.folder for line in fb.runs(tmp_path)] == [str(tmp_path / "run")]
    assert run.export(tmp_path / "book.arpa").read_text().startswith("\\data\\")
    assert "NextToken" in fb.explain("gpt2").sentence
    loaded = fb.load(tmp_path / "run")
    assert loaded.score("The cat")[0].log_prob == run.score("The cat")[0].log_prob
    measured = loaded.measure(text_file, limit="1k")
    assert measured.bits_per_byte > 0
    assert 900 < measured.bytes < 1300
    with pytest.raises(InputError, match="no such file"):
        loaded.measure("The cat sat.")
    assert (
        fb.rerun(tmp_path / "run", to=tmp_path / "again").metadata["weights"]["sha256"]
        == run.metadata["weights"]["sha256"]
    )
    assert fb.resume(tmp_path / "run").metadata == run.metadata


def test_import_loads_neither_numpy_nor_torch():
    code = "import sys; import forebear; forebear.__version__; print('numpy' in sys.modules, 'torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False False\n"


def test_openmp_spin_count_is_limited_unless_set():
    code = "import os, forebear; print(os.environ['GOMP_SPINCOUNT'])"
    environment = {name: value for name, value in os.environ.items() if name != "GOMP_SPINCOUNT"}
    for changes, expected in (({}, "2000"), ({"GOMP_SPINCOUNT": "7"}, "7")):
        result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment | changes)
        assert result.stdout.strip() == expected


def test_every_public_name_is_typed_and_documented():
    for name in set(dir(fb)) - {"__version__"}:
        value = getattr(fb, name)
        assert value.__doc__
        assert name in dir(fb)
        if inspect.isfunction(value):
            signature = inspect.signature(value)
            assert signature.return_annotation is not inspect.Signature.empty
            assert all(
                parameter.annotation is not inspect.Parameter.empty for parameter in signature.parameters.values()
            )


def test_python_parameters_have_the_names_of_command_line_options():
    from forebear.cli.options import ProcessOptions, SentenceOptions, TaggedTextOptions
    from forebear.cli.pretrain import ParallelOptions, TrainingOptions, pretrain
    from forebear.experiments.plan import COMMAND_OPTIONS, ERROR_POLICIES
    from forebear.training.settings import Recipe

    groups = {"sentences", "processes", "parallel", "training", "reading", "tags", "output"}
    options = set(inspect.signature(pretrain).parameters) - groups - {"fields", "resume"}
    for group in (SentenceOptions, ProcessOptions, ParallelOptions):
        options |= set(group.__dataclass_fields__)
    assert options <= set(inspect.signature(fb.pretrain).parameters)
    assert set(COMMAND_OPTIONS) <= {*options, "resume", "from"}  # "from" is a keyword in Python
    assert set(TaggedTextOptions.__dataclass_fields__) == set(ERROR_POLICIES)  # these are among the settings
    assert set(TrainingOptions.__dataclass_fields__) <= set(Recipe.__dataclass_fields__)


def test_unknown_attribute_raises_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'petrain'"):
        fb.petrain  # noqa: B018
