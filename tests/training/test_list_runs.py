"""The list of runs in a folder: one line for each run, whatever its state."""

import json

import pytest

from forebear.errors import InputError
from forebear.training.run_folder import FORMAT, RunFolder, list_runs


def write_run(folder, state="finished", started_at="2026-01-01T00:00:00+00:00", **metadata):
    folder.mkdir(parents=True)
    run_json = {
        "format": FORMAT,
        "milestone": "gpt2",
        "size": "tiny",
        "state": state,
        "began": started_at,
        "recipe": {},
        **metadata,
    }
    (folder / "run.json").write_text(json.dumps(run_json))
    return folder


def states(folder) -> dict[str, str]:
    return {line.folder.rpartition("/")[2]: line.state for line in list_runs(folder)}


def test_list_runs_reads_run_json(tmp_path):
    held_out = {"held_out": {"bits_per_byte": 2.25}}
    write_run(tmp_path / "a", step=7, seconds=9.5, parameters=3, pace={"total": 8}, metrics=held_out)
    (line,) = list_runs(tmp_path)
    assert (line.milestone, line.size, line.step, line.steps) == ("gpt2", "tiny", 7, 8)
    assert (line.bits_per_byte, line.seconds, line.parameters, line.state) == (2.25, 9.5, 3, "finished")


def test_list_runs_reads_progress_of_running_run_from_its_log(tmp_path):
    folder = write_run(tmp_path / "a", state="training", recipe={"steps": 100})
    (folder / "metrics.jsonl").write_text('{"step": 10, "seconds": 1.5}\n{"step": 20, "seconds": 3.0}\n{"step": 3')
    with RunFolder.open(folder).lock():
        (line,) = list_runs(tmp_path)
        assert (line.state, line.step, line.steps, line.seconds) == ("running", 20, 100, 3.0)
    assert states(tmp_path) == {"a": "interrupted"}  # its state is "training", but no process trains it


def test_list_runs_puts_broken_folders_last_with_reason(tmp_path):
    write_run(tmp_path / "good")
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn" / "run.json").write_text('{"format": ')
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "run.json").write_text('{"format": "forebear-run/0"}')
    write_run(tmp_path / "odd").joinpath("run.json").write_text(json.dumps({"format": FORMAT}))
    (tmp_path / "half" / "checkpoints").mkdir(parents=True)
    (tmp_path / "half" / "tokenizer.json").touch()
    lines = list_runs(tmp_path)
    assert [line.state for line in lines] == ["finished"] + ["broken"] * 4
    assert all(line.reason for line in lines[1:])
    reasons = {line.folder.rpartition("/")[2]: line.reason for line in lines}
    assert "forebear-run/0" in reasons["other"]
    assert "no run.json" in reasons["half"]


def test_list_runs_searches_subfolders_newest_first_but_not_inside_runs(tmp_path):
    write_run(tmp_path / "a", started_at="2026-01-01T00:00:00+00:00")
    write_run(tmp_path / "deep" / "er" / "b", started_at="2026-03-01T00:00:00+00:00")
    write_run(tmp_path / "a" / "checkpoints" / "inner")
    write_run(tmp_path / ".hidden")
    assert [line.folder.rpartition("/")[2] for line in list_runs(tmp_path)] == ["b", "a"]
    assert list(states(tmp_path / "a")) == ["a"]  # the folder itself may be a run


@pytest.mark.parametrize("name", ["missing", "file"])
def test_list_runs_refuses_missing_folder_and_file(tmp_path, name):
    (tmp_path / "file").touch()
    with pytest.raises(InputError):
        list_runs(tmp_path / name)
    assert list_runs(tmp_path) == []
