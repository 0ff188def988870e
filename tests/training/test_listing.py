"""Runs in a folder: whatever their state, each is a line."""

import json

import pytest

from forebear.errors import InputError
from forebear.training.run_folder import FORMAT, RunFolder, list_runs


def made(folder, state="finished", began="2026-01-01T00:00:00+00:00", **facts):
    folder.mkdir(parents=True)
    told = {
        "format": FORMAT,
        "milestone": "gpt2",
        "size": "tiny",
        "state": state,
        "began": began,
        "recipe": {},
        **facts,
    }
    (folder / "run.json").write_text(json.dumps(told))
    return folder


def states(folder) -> dict[str, str]:
    return {line.folder.rpartition("/")[2]: line.state for line in list_runs(folder)}


def test_what_run_json_says(tmp_path):
    measured = {"held_out": {"bits_per_byte": 2.25}}
    made(tmp_path / "a", step=7, seconds=9.5, parameters=3, pace={"total": 8}, metrics=measured)
    (line,) = list_runs(tmp_path)
    assert (line.milestone, line.size, line.step, line.steps) == ("gpt2", "tiny", 7, 8)
    assert (line.bits_per_byte, line.seconds, line.parameters, line.state) == (2.25, 9.5, 3, "finished")


def test_a_run_under_way_is_as_far_as_its_log(tmp_path):
    folder = made(tmp_path / "a", state="training", recipe={"steps": 100})
    (folder / "metrics.jsonl").write_text('{"step": 10, "seconds": 1.5}\n{"step": 20, "seconds": 3.0}\n{"step": 3')
    with RunFolder.open(folder).lock():
        (line,) = list_runs(tmp_path)
        assert (line.state, line.step, line.steps, line.seconds) == ("running", 20, 100, 3.0)
    assert states(tmp_path) == {"a": "interrupted"}  # it says "training", but nobody trains it


def test_broken_folders_are_listed_with_the_reason_and_last(tmp_path):
    made(tmp_path / "good")
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn" / "run.json").write_text('{"format": ')
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "run.json").write_text('{"format": "forebear-run/0"}')
    made(tmp_path / "odd").joinpath("run.json").write_text(json.dumps({"format": FORMAT}))
    (tmp_path / "half" / "checkpoints").mkdir(parents=True)
    (tmp_path / "half" / "tokenizer.json").touch()
    lines = list_runs(tmp_path)
    assert [line.state for line in lines] == ["finished"] + ["broken"] * 4
    assert all(line.reason for line in lines[1:])
    reasons = {line.folder.rpartition("/")[2]: line.reason for line in lines}
    assert "forebear-run/0" in reasons["other"]
    assert "no run.json" in reasons["half"]


def test_newest_first_also_in_folders_below_and_nothing_inside_a_run(tmp_path):
    made(tmp_path / "a", began="2026-01-01T00:00:00+00:00")
    made(tmp_path / "deep" / "er" / "b", began="2026-03-01T00:00:00+00:00")
    made(tmp_path / "a" / "checkpoints" / "inner")
    made(tmp_path / ".hidden")
    assert [line.folder.rpartition("/")[2] for line in list_runs(tmp_path)] == ["b", "a"]
    assert list(states(tmp_path / "a")) == ["a"]  # the folder itself may be one


@pytest.mark.parametrize("name", ["missing", "file"])
def test_what_is_no_folder_is_refused(tmp_path, name):
    (tmp_path / "file").touch()
    with pytest.raises(InputError):
        list_runs(tmp_path / name)
    assert list_runs(tmp_path) == []
