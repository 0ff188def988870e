"""Comparisons on a task that really train: rows, failures, interruptions, resuming, and ablations of BERT."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from forebear.errors import InputError, UserInterrupt
from forebear.experiments.comparison import trials
from forebear.experiments.comparison.compare import compare, compare_on_task
from forebear.experiments.comparison.results import TaskComparison, TaskTrial
from forebear.experiments.comparison.trials import TaskTrialSpec
from forebear.inference.run import Run
from forebear.training.run_folder import RunFolder
from review_files import review_lines, write_reviews
from small_runs import train_small_run


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished comparison of the linear model with a pre-trained run, two seeds."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "text.txt").write_text("\n\n".join(line.split("\t")[0] for line in review_lines(60, 5)), encoding="utf-8")
    write_reviews(folder / "train.tsv", 90)
    write_reviews(folder / "test.tsv", 40, seed=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FOREBEAR_CACHE", str(folder / "cache"))
        patch.setenv("OMP_NUM_THREADS", "1")
        train_small_run("bert", folder, steps=8, to="tiny", context=32, pairs="none")
        compare_on_examples(folder, folder / "comparison")
    return folder


def compare_on_examples(folder: Path, to: Path, **changes) -> TaskComparison:
    arguments = {
        "task": ("auto", folder / "train.tsv"),
        "test": folder / "test.tsv",
        "runs": [folder / "tiny"],
        "seeds": 2,
    }
    return compare(to=to, **{**arguments, "adapt_time": 0.4, "threads": 1, **changes})


@pytest.fixture
def copied(finished: Path, tmp_path: Path) -> Path:
    """A copy of it that tests may change."""
    shutil.copytree(finished / "comparison", tmp_path / "comparison")
    return tmp_path / "comparison"


def load_comparison(folder: Path) -> TaskComparison:
    return TaskComparison.from_dict(json.loads((folder / "comparison.json").read_text()))


@pytest.fixture
def attempts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The trials run from now on; each fails."""
    attempts = []

    def failing_trial(spec, on_line):
        attempts.append(Path(spec.to).name)
        return TaskTrial(spec.seed, error="made to fail")

    monkeypatch.setattr(trials, "run_task_trial", failing_trial)
    return attempts


def test_task_comparison_rows_have_score_and_costs(finished: Path):
    comparison = load_comparison(finished / "comparison")
    assert comparison.finished
    assert (comparison.task, comparison.figure, comparison.verb) == ("classification", "accuracy", "classify")
    linear, bert = comparison.rows
    assert (linear.name, bert.name) == ("ngram", "tiny")
    assert [len(row.trials) for row in comparison.rows] == [1, 2]  # the linear model does not depend on the seed
    assert linear.score > 0.9
    assert comparison.baselines[0].score == pytest.approx(26 / 40)
    for trial in (*linear.trials, *bert.trials):
        assert not trial.error
        assert trial.finished
        assert 0 <= trial.low <= trial.score <= trial.high <= 1
        assert trial.parameters > 0
        assert trial.disk > 1000
        assert trial.milliseconds > 0
        assert trial.speed > 1
        assert trial.memory > 10_000_000
    pretrained = RunFolder.open(finished / "tiny").metadata
    assert [trial.pretraining for trial in bert.trials] == [pretrained["seconds"]] * 2
    assert linear.trials[0].pretraining is None
    assert bert.trials[0].disk > linear.trials[0].disk
    assert comparison.facts["examples"]["test"] == 40
    page = (finished / "comparison" / "comparison.html").read_text()
    assert "N-gram, linear" in page
    assert "forebear classify tasks/ngram-0" in page


def test_best_task_run_is_saved_and_classifies(finished: Path):
    comparison = load_comparison(finished / "comparison")
    folder = finished / "comparison" / comparison.best.best.run
    run = Run.open(folder)
    assert run.classify("The 港口 was awful.")[0].label == "bad"
    example_scores = np.load(folder / "test_parts.npy", allow_pickle=False)
    assert example_scores.mean() == pytest.approx(comparison.best.score)
    assert comparison.best.score == run.metadata["metrics"]["test"]["accuracy"]


def test_linear_task_trial_does_not_load_torch(finished: Path, tmp_path: Path):
    source = load_comparison(finished / "comparison").settings["examples"]
    spec = TaskTrialSpec("ngram", source, {}, {}, None, False, str(tmp_path / "run"), 0, False, "")
    imports = "import sys\nfrom forebear.experiments.comparison.trials import TaskTrialSpec, _run_task_trial\n"
    code = f"{imports}_run_task_trial({spec!r})\n"
    completed = subprocess.run(
        [sys.executable, "-c", f"{code}print('torch' in sys.modules)"], capture_output=True, text=True
    )
    assert completed.stdout.strip() == "False", completed.stderr


def test_same_task_call_again_runs_only_missing_trials(finished: Path, copied: Path, attempts: list[str]):
    compare_on_examples(finished, copied)
    assert attempts == []
    shutil.rmtree(copied / "tasks" / "tiny-1")
    comparison = compare_on_examples(finished, copied)
    assert attempts == ["tiny-1"]
    assert comparison.find_row("tiny").trials[0] == load_comparison(finished / "comparison").find_row("tiny").trials[0]
    assert comparison.find_row("tiny").error == "made to fail"
    assert comparison.find_row("tiny").score is not None
    compare_on_examples(finished, copied, seeds=3)
    assert attempts == ["tiny-1", "tiny-1", "tiny-2"]  # failed trials are retried


def test_run_of_the_same_name_with_other_weights_is_adapted_again(finished: Path, copied: Path, attempts: list[str]):
    copied_run = copied / "elsewhere" / "tiny"
    shutil.copytree(finished / "tiny", copied_run)
    compare_on_examples(finished, copied, runs=[copied_run])
    assert attempts == []  # the same weights
    metadata = json.loads((copied_run / "run.json").read_text())
    metadata["weights"]["sha256"] = "0" * 64
    (copied_run / "run.json").write_text(json.dumps(metadata))
    compare_on_examples(finished, copied, runs=[copied_run])
    assert attempts == ["tiny-0", "tiny-1"]


def test_corrupt_task_comparison_file_is_rebuilt_from_the_runs(finished: Path, copied: Path):
    (copied / "comparison.json").write_text('{"format": "forebear-task')
    comparison = compare_on_examples(finished, copied, runs=[])
    assert comparison.find_row("ngram") == load_comparison(finished / "comparison").find_row("ngram")


def test_other_data_or_settings_in_the_same_folder_are_refused_without_overwrite(
    finished: Path, copied: Path, attempts: list[str], book: Path
):
    other_examples = write_reviews(copied / "other.tsv", 50, seed=2)
    for changes in ({"adapt_time": 9.0}, {"test": None}, {"task": ("classification", other_examples)}):
        with pytest.raises(InputError, match="other settings"):
            compare_on_examples(finished, copied, **changes)
    with pytest.raises(InputError, match="other settings"):
        compare(book, to=copied, only=["ngram"])
    comparison = compare_on_examples(finished, copied, adapt_time=9.0, overwrite=True)
    assert attempts == ["ngram-0", "tiny-0", "tiny-1"]
    assert comparison.best is None


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "killed by SIGKILL, often for lack of memory"),
        ("raise SystemExit(3)", "ended with code 3"),
    ],
)
def test_killed_trial_becomes_a_row_and_the_others_continue(
    finished: Path, tmp_path: Path, monkeypatch, program, message
):
    monkeypatch.setattr(trials, "TASK_TRIAL_PROGRAM", program)
    comparison = compare_on_examples(finished, tmp_path / "c")
    assert [row.name for row in comparison.rows] == ["ngram", "tiny"]
    assert all(message in trial.error for row in comparison.rows for trial in row.trials)
    assert comparison.finished
    assert comparison.best is None
    assert message in (tmp_path / "c" / "comparison.html").read_text()


def test_error_inside_a_task_trial_is_reported(finished: Path, tmp_path: Path):
    source = load_comparison(finished / "comparison").settings["examples"]
    spec = TaskTrialSpec(str(tmp_path / "gone"), source, {}, {}, None, False, str(tmp_path / "run"), 4, False, "")
    trial = trials.run_task_trial(spec, lambda line: None)
    assert "there is no such run" in trial.error
    assert (trial.seed, trial.finished, trial.score) == (4, False, None)


def test_interrupted_task_comparison_keeps_finished_rows(finished: Path, tmp_path: Path, monkeypatch):
    def interrupted_trial(spec, on_line):
        if "tiny" in spec.to:
            raise KeyboardInterrupt
        return TaskTrial(0, score=0.8, finished=True)

    monkeypatch.setattr(trials, "run_task_trial", interrupted_trial)
    with pytest.raises(UserInterrupt, match="1 finished"):
        compare_on_examples(finished, tmp_path / "c")
    comparison = load_comparison(tmp_path / "c")
    assert [row.name for row in comparison.rows] == ["ngram"]
    assert not comparison.finished


def test_failed_pretraining_becomes_a_row(finished: Path, book: Path, tmp_path: Path, monkeypatch, attempts):
    from forebear.experiments.comparison.results import TextTrial

    monkeypatch.setattr(trials, "run_text_trial", lambda spec, on_line: TextTrial(0, error="no room"))
    arguments = {"task": ("classification", finished / "train.tsv"), "to": tmp_path / "c", "only": ["bert", "ngram"]}
    comparison = compare_on_task(book, **arguments)
    assert comparison.find_row("bert").error == "pre-training: no room"
    assert attempts == ["ngram-0"]  # the other model is tried all the same


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"seeds": []}, "nothing to compare"),
        ({"adapt_time": "soon"}, "no duration"),
        ({"task": ("clasification", "train.tsv")}, "clasification"),
        ({"time": "1s"}, "no text is given"),
        ({"tokenizer": "words"}, "no text is given"),
        ({"only": ["bert"]}, "no text to pre-train bert"),
    ],
)
def test_invalid_task_comparison_arguments_are_refused_before_training(
    finished: Path, tmp_path: Path, attempts: list[str], arguments, message
):
    with pytest.raises(InputError, match=message):
        compare_on_examples(finished, tmp_path / "c", **arguments)
    assert attempts == []


def test_unreadable_text_is_refused_before_any_trial(finished: Path, tmp_path: Path, attempts: list[str]):
    (tmp_path / "bad.txt").write_bytes("中文".encode()[:-1])
    with pytest.raises(InputError, match="not utf-8"):
        compare(tmp_path / "bad.txt", task=("auto", finished / "train.tsv"), to=tmp_path / "c", only=["bert"])
    assert attempts == []


# -- ablations


@pytest.fixture(scope="module")
def ablated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """BERT unchanged, left to right, and without pre-training; each trained for about a second."""
    folder = tmp_path_factory.mktemp("ablated")
    text = "\n\n".join(" ".join(line.split("\t")[0] for line in review_lines(12, number)) for number in range(60))
    (folder / "text.txt").write_text(text, encoding="utf-8")
    write_reviews(folder / "train.tsv", 60)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FOREBEAR_CACHE", str(folder / "cache"))
        patch.setenv("OMP_NUM_THREADS", "1")
        arguments = {"ablate": ["direction", "pretraining"], "time": 1, "adapt_time": 0.5, "threads": 1}
        compare(folder / "text.txt", task=("classification", folder / "train.tsv"), to=folder / "c", **arguments)
    return folder / "c"


@pytest.mark.slow
def test_ablations_are_compared_with_the_full_model(ablated: Path):
    comparison = load_comparison(ablated)
    assert [row.name for row in comparison.rows] == ["bert", "left-to-right", "without-pretraining"]
    assert [row.error for row in comparison.rows] == ["", "", ""]
    assert comparison.rows[0].versus is None
    for row in comparison.rows[1:]:
        value, noise = row.versus
        assert value == pytest.approx(row.score - comparison.rows[0].score)
        assert noise > 0
        assert row.papers
    assert comparison.facts["examples"]["test"] > 0
    assert comparison.settings["test_share"] == 0.2
    assert "What papers found" in (ablated / "comparison.html").read_text()


@pytest.mark.slow
def test_ablations_have_the_tokenizer_and_shape_of_the_full_model(ablated: Path):
    full, direction, from_scratch = (
        RunFolder.open(ablated / "tasks" / f"{name}-0").metadata
        for name in ("bert", "left-to-right", "without-pretraining")
    )
    assert full["tokenizer"]["digest"] == direction["tokenizer"]["digest"] == from_scratch["tokenizer"]["digest"]
    for name in ("width", "depth", "heads", "context"):
        assert full["fields"][name] == direction["fields"][name] == from_scratch["fields"][name]
    assert (direction["milestone"], direction["adaptation"]["language"]) == ("gpt", 0.0)
    assert full["parent"] is not None
    assert from_scratch["parent"] is None
    assert from_scratch["recipe"]["rate"] > full["recipe"]["rate"]  # training from scratch uses a higher learning rate
    assert load_comparison(ablated).find_row("without-pretraining").trials[0].pretraining is None


@pytest.mark.slow
def test_test_split_of_a_comparison_does_not_leak_into_training(ablated: Path):
    metadata = RunFolder.open(ablated / "tasks" / "bert-0").metadata
    splits = metadata["labelled"]["sides"]
    assert sum(splits[split]["count"] for split in ("train", "dev", "test")) == 60
    assert metadata["labelled"]["source"]["test_share"] == 0.2  # recorded in run.json
    assert splits["test"]["leaks"]["folded"] == 0
