"""Comparisons on a task that really train: rows, failures, interruptions, going on, and variants of BERT."""

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
from labels import lines, write
from small_runs import trained


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished comparison of the linear model with a run that was pre-trained before, two seeds."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "text.txt").write_text("\n\n".join(line.split("\t")[0] for line in lines(60, 5)), encoding="utf-8")
    write(folder / "train.tsv", 90)
    write(folder / "test.tsv", 40, seed=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FOREBEAR_CACHE", str(folder / "cache"))
        patch.setenv("OMP_NUM_THREADS", "1")
        trained("bert", folder, steps=8, to="tiny", context=32, pairs="none")
        given(folder, folder / "comparison")
    return folder


def given(made: Path, to: Path, **more) -> TaskComparison:
    words = {"task": ("auto", made / "train.tsv"), "test": made / "test.tsv", "runs": [made / "tiny"], "seeds": 2}
    return compare(to=to, **{**words, "adapt_time": 1, "threads": 1, **more})


@pytest.fixture
def there(made: Path, tmp_path: Path) -> Path:
    """A copy of it that may be spoiled."""
    shutil.copytree(made / "comparison", tmp_path / "comparison")
    return tmp_path / "comparison"


def told(folder: Path) -> TaskComparison:
    return TaskComparison.from_dict(json.loads((folder / "comparison.json").read_text()))


@pytest.fixture
def attempts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is adapted from now on; each fails."""
    tried = []

    def failing(job, hear):
        tried.append(Path(job.to).name)
        return TaskTrial(job.seed, error="made to fail")

    monkeypatch.setattr(trials, "run_task_trial", failing)
    return tried


def test_every_model_is_a_row_with_its_score_and_its_costs(made: Path):
    found = told(made / "comparison")
    assert found.finished
    assert (found.task, found.figure, found.verb) == ("classification", "accuracy", "classify")
    linear, bert = found.rows
    assert (linear.name, bert.name) == ("ngram", "tiny")
    assert [len(row.trials) for row in found.rows] == [1, 2]  # chance has no part in what is weighed
    assert linear.score > 0.9
    assert found.baselines[0].score == pytest.approx(26 / 40)
    for trial in (*linear.trials, *bert.trials):
        assert not trial.error
        assert trial.finished
        assert 0 <= trial.low <= trial.score <= trial.high <= 1
        assert trial.parameters > 0
        assert trial.disk > 1000
        assert trial.milliseconds > 0
        assert trial.speed > 1
        assert trial.memory > 10_000_000
    pretrained = RunFolder.open(made / "tiny").metadata
    assert [trial.pretraining for trial in bert.trials] == [pretrained["seconds"]] * 2
    assert linear.trials[0].pretraining is None
    assert bert.trials[0].disk > linear.trials[0].disk
    assert found.facts["examples"]["test"] == 40
    page = (made / "comparison" / "comparison.html").read_text()
    assert "N-gram, linear" in page
    assert "forebear classify tasks/ngram-0" in page


def test_the_best_is_saved_and_can_be_used(made: Path):
    found = told(made / "comparison")
    folder = made / "comparison" / found.best.best.run
    run = Run.open(folder)
    assert run.classify("The 港口 was awful.")[0].label == "bad"
    values = np.load(folder / "test_parts.npy", allow_pickle=False)
    assert values.mean() == pytest.approx(found.best.score)
    assert found.best.score == run.metadata["metrics"]["test"]["accuracy"]


def test_the_linear_model_needs_no_torch(made: Path, tmp_path: Path):
    source = told(made / "comparison").settings["examples"]
    job = TaskTrialSpec("ngram", source, {}, {}, None, False, str(tmp_path / "run"), 0, False, "")
    imports = "import sys\nfrom forebear.experiments.comparison.trials import TaskTrialSpec, _run_task_trial\n"
    code = f"{imports}_run_task_trial({job!r})\n"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}print('torch' in sys.modules)"], capture_output=True, text=True
    )
    assert done.stdout.strip() == "False", done.stderr


def test_the_same_call_goes_on_and_tries_only_what_is_missing(made: Path, there: Path, attempts: list[str]):
    given(made, there)
    assert attempts == []
    shutil.rmtree(there / "tasks" / "tiny-1")
    found = given(made, there)
    assert attempts == ["tiny-1"]
    assert found.find_row("tiny").trials[0] == told(made / "comparison").find_row("tiny").trials[0]
    assert found.find_row("tiny").error == "made to fail"
    assert found.find_row("tiny").score is not None
    given(made, there, seeds=3)
    assert attempts == ["tiny-1", "tiny-1", "tiny-2"]  # what failed is tried again


def test_another_run_of_the_same_name_is_another_run(made: Path, there: Path, attempts: list[str]):
    other = there / "elsewhere" / "tiny"
    shutil.copytree(made / "tiny", other)
    given(made, there, runs=[other])
    assert attempts == []  # the same weights
    facts = json.loads((other / "run.json").read_text())
    facts["weights"]["sha256"] = "0" * 64
    (other / "run.json").write_text(json.dumps(facts))
    given(made, there, runs=[other])
    assert attempts == ["tiny-0", "tiny-1"]


def test_a_torn_table_is_made_again_from_the_runs(made: Path, there: Path):
    (there / "comparison.json").write_text('{"format": "forebear-task')
    found = given(made, there, runs=[])
    assert found.find_row("ngram") == told(made / "comparison").find_row("ngram")


def test_other_data_or_settings_are_another_comparison(made: Path, there: Path, attempts: list[str], book: Path):
    other = write(there / "other.tsv", 50, seed=2)
    for more in ({"adapt_time": 9.0}, {"test": None}, {"task": ("classification", other)}):
        with pytest.raises(InputError, match="other settings"):
            given(made, there, **more)
    with pytest.raises(InputError, match="other settings"):
        compare(book, to=there, only=["ngram"])
    found = given(made, there, adapt_time=9.0, overwrite=True)
    assert attempts == ["ngram-0", "tiny-0", "tiny-1"]
    assert found.best is None


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "killed by SIGKILL, often for lack of memory"),
        ("raise SystemExit(3)", "ended with code 3"),
    ],
)
def test_one_that_is_killed_is_a_row_and_the_others_go_on(made: Path, tmp_path: Path, monkeypatch, program, words):
    monkeypatch.setattr(trials, "TASK_TRIAL_PROGRAM", program)
    found = given(made, tmp_path / "c")
    assert [row.name for row in found.rows] == ["ngram", "tiny"]
    assert all(words in trial.error for row in found.rows for trial in row.trials)
    assert found.finished
    assert found.best is None
    assert words in (tmp_path / "c" / "comparison.html").read_text()


def test_what_goes_wrong_inside_is_told(made: Path, tmp_path: Path):
    source = told(made / "comparison").settings["examples"]
    job = TaskTrialSpec(str(tmp_path / "gone"), source, {}, {}, None, False, str(tmp_path / "run"), 4, False, "")
    trial = trials.run_task_trial(job, lambda line: None)
    assert "there is no such run" in trial.error
    assert (trial.seed, trial.finished, trial.score) == (4, False, None)


def test_an_interrupt_keeps_the_rows_so_far(made: Path, tmp_path: Path, monkeypatch):
    def interrupted(job, hear):
        if "tiny" in job.to:
            raise KeyboardInterrupt
        return TaskTrial(0, score=0.8, finished=True)

    monkeypatch.setattr(trials, "run_task_trial", interrupted)
    with pytest.raises(UserInterrupt, match="1 finished"):
        given(made, tmp_path / "c")
    found = told(tmp_path / "c")
    assert [row.name for row in found.rows] == ["ngram"]
    assert not found.finished


def test_a_milestone_that_cannot_be_pretrained_is_a_row(made: Path, book: Path, tmp_path: Path, monkeypatch, attempts):
    from forebear.experiments.comparison.results import TextTrial

    monkeypatch.setattr(trials, "run_text_trial", lambda job, hear: TextTrial(0, error="no room"))
    words = {"task": ("classification", made / "train.tsv"), "to": tmp_path / "c", "only": ["bert", "ngram"]}
    found = compare_on_task(book, **words)
    assert found.find_row("bert").error == "pre-training: no room"
    assert attempts == ["ngram-0"]  # the other one is tried all the same


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"seeds": []}, "nothing to compare"),
        ({"adapt_time": "soon"}, "no duration"),
        ({"task": ("clasification", "train.tsv")}, "clasification"),
        ({"time": "1s"}, "no text is given"),
        ({"tokenizer": "words"}, "no text is given"),
        ({"only": ["bert"]}, "no text to pre-train bert"),
    ],
)
def test_bad_use_is_refused_before_anything_is_trained(made: Path, tmp_path: Path, attempts: list[str], more, words):
    with pytest.raises(InputError, match=words):
        given(made, tmp_path / "c", **more)
    assert attempts == []


def test_a_text_that_cannot_be_read_is_refused_at_once(made: Path, tmp_path: Path, attempts: list[str]):
    (tmp_path / "bad.txt").write_bytes("中文".encode()[:-1])
    with pytest.raises(InputError, match="not utf-8"):
        compare(tmp_path / "bad.txt", task=("auto", made / "train.tsv"), to=tmp_path / "c", only=["bert"])
    assert attempts == []


# -- variants


@pytest.fixture(scope="module")
def ablated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """BERT as it is, left to right, and without pre-training; each for a moment."""
    folder = tmp_path_factory.mktemp("ablated")
    text = "\n\n".join(" ".join(line.split("\t")[0] for line in lines(12, number)) for number in range(60))
    (folder / "text.txt").write_text(text, encoding="utf-8")
    write(folder / "train.tsv", 60)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FOREBEAR_CACHE", str(folder / "cache"))
        patch.setenv("OMP_NUM_THREADS", "1")
        words = {"ablate": ["direction", "pretraining"], "time": 1, "adapt_time": 0.5, "threads": 1}
        compare(folder / "text.txt", task=("classification", folder / "train.tsv"), to=folder / "c", **words)
    return folder / "c"


@pytest.mark.slow
def test_variants_are_held_against_the_whole(ablated: Path):
    found = told(ablated)
    assert [row.name for row in found.rows] == ["bert", "left-to-right", "without-pretraining"]
    assert [row.error for row in found.rows] == ["", "", ""]
    assert found.rows[0].versus is None
    for row in found.rows[1:]:
        value, noise = row.versus
        assert value == pytest.approx(row.score - found.rows[0].score)
        assert noise > 0
        assert row.papers
    assert found.facts["examples"]["test"] > 0
    assert found.settings["test_share"] == 0.2
    assert "What papers found" in (ablated / "comparison.html").read_text()


@pytest.mark.slow
def test_variants_have_the_same_tokenizer_and_shape(ablated: Path):
    whole, direction, fresh = (
        RunFolder.open(ablated / "tasks" / f"{name}-0").metadata
        for name in ("bert", "left-to-right", "without-pretraining")
    )
    assert whole["tokenizer"]["digest"] == direction["tokenizer"]["digest"] == fresh["tokenizer"]["digest"]
    for name in ("width", "depth", "heads", "context"):
        assert whole["fields"][name] == direction["fields"][name] == fresh["fields"][name]
    assert (direction["milestone"], direction["adaptation"]["language"]) == ("gpt", 0.0)
    assert whole["parent"] is not None
    assert fresh["parent"] is None
    assert fresh["recipe"]["rate"] > whole["recipe"]["rate"]  # what has to learn everything learns faster
    assert told(ablated).find_row("without-pretraining").trials[0].pretraining is None


@pytest.mark.slow
def test_examples_that_are_held_out_teach_nobody(ablated: Path):
    facts = RunFolder.open(ablated / "tasks" / "bert-0").metadata
    sides = facts["labelled"]["sides"]
    assert sum(sides[side]["count"] for side in ("train", "dev", "test")) == 60
    assert facts["labelled"]["source"]["test_share"] == 0.2  # said in the folder
    assert sides["test"]["leaks"]["folded"] == 0
