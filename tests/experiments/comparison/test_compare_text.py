"""Comparisons on a text that really train: rows, failures, interruptions and resuming."""

import json
import shutil
from pathlib import Path

import pytest

from forebear.data.corpus.prepare import prepare_corpus
from forebear.data.tokenizers.train import train_tokenizer
from forebear.errors import InputError
from forebear.experiments.comparison import trials
from forebear.experiments.comparison.compare import UserInterrupt, compare
from forebear.experiments.comparison.results import TextComparison, TextTrial
from forebear.training.run_folder import lock_folder

MODELS = ["ngram", "gpt2"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """A finished comparison of an n-gram model with a network whose context is longer than the whole text."""
    folder = tmp_path_factory.mktemp("made")
    text = " ".join(f"Anna gave Ben {n} apples and he gave {n % 7} to Carla." for n in range(40))
    (folder / "short.txt").write_text("\n\n".join(text.split(". ")))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FOREBEAR_CACHE", str(folder / "cache"))
        settings = {"only": MODELS, "size": {"gpt2": "124M"}, "limit": 0.5}
        compare(folder / "short.txt", to=folder / "comparison", time="5s", **settings)
    return folder


@pytest.fixture
def copied(finished, tmp_path, monkeypatch) -> Path:
    """A copy of it that tests may change."""
    shutil.copytree(finished / "comparison", tmp_path / "comparison")
    monkeypatch.setenv("FOREBEAR_CACHE", str(finished / "cache"))
    return tmp_path / "comparison"


def load_comparison(folder: Path) -> TextComparison:
    return TextComparison.from_dict(json.loads((folder / "comparison.json").read_text()))


@pytest.fixture
def attempts(monkeypatch) -> list[str]:
    """The trials run from now on; each fails."""
    attempts = []

    def failing_trial(spec, on_line):
        attempts.append(f"{spec.milestone}-{spec.settings['seed']}")
        return TextTrial(spec.settings["seed"], error="made to fail")

    monkeypatch.setattr(trials, "run_text_trial", failing_trial)
    return attempts


def compare_again(finished: Path, folder: Path, **changes) -> TextComparison:
    settings = {"only": MODELS, "time": "5s", "size": {"gpt2": "124M"}, "limit": 0.5, **changes}
    return compare(finished / "short.txt", to=folder, **settings)


def test_comparison_has_a_row_for_every_model_even_if_its_trial_fails(finished):
    comparison = load_comparison(finished / "comparison")
    assert comparison.finished
    assert [row.name for row in comparison.rows] == ["ngram", "gpt2"]
    (ngram_trial,), (gpt2_trial,) = (row.trials for row in comparison.rows)
    assert 0 < ngram_trial.bits_per_byte < 4
    assert ngram_trial.perplexity > 1
    assert ngram_trial.finished
    assert ngram_trial.memory > 10_000_000
    assert ngram_trial.seconds > 0
    assert ngram_trial.parameters > 0
    assert ngram_trial.sample
    assert ngram_trial.curve[-1] == pytest.approx((ngram_trial.seconds, ngram_trial.bits_per_byte), abs=0.05)
    assert "context of 1,024 tokens is longer than the whole text" in gpt2_trial.error
    assert not gpt2_trial.finished
    assert gpt2_trial.bits_per_byte is None
    assert comparison.best.name == "ngram"
    assert [baseline.name for baseline in comparison.yardsticks if baseline.bits_per_byte > 0][-1] == "byte frequencies"
    assert (comparison.limit, comparison.prompt[:4]) == (0.5, "Anna")
    page = (finished / "comparison" / "comparison.html").read_text()
    assert f"{ngram_trial.bits_per_byte:.3f}" in page
    assert "is longer than the whole text" in page


def test_same_call_again_retries_only_failed_trials(finished, copied, attempts):
    previous_row = load_comparison(copied).find_row("ngram")
    comparison = compare_again(finished, copied)
    assert attempts == ["gpt2-0"]
    assert comparison.find_row("ngram") == previous_row
    assert load_comparison(copied).find_row("gpt2").error == "made to fail"


def test_more_seeds_add_trials_to_the_finished_ones(finished, copied, attempts):
    compare_again(finished, copied, seeds=3)
    assert attempts == ["gpt2-0", "gpt2-1", "gpt2-2"]  # counting does not depend on the seed


def test_fewer_seeds_keep_finished_trials(finished, copied, attempts):
    compare_again(finished, copied, seeds=3)
    comparison = compare_again(finished, copied, seeds=1)
    assert comparison.settings["seeds"] == [0, 1, 2]
    assert [trial.seed for trial in comparison.find_row("gpt2").trials] == [0, 1, 2]


def test_deleted_run_is_trained_again(finished, copied, attempts):
    shutil.rmtree(copied / "runs" / "ngram-0")
    compare_again(finished, copied, only=["ngram"])
    assert attempts == ["ngram-0"]


def test_corrupt_comparison_file_is_rebuilt_from_the_runs(finished, copied):
    start_time = json.loads((copied / "runs" / "ngram-0" / "run.json").read_text())["began"]
    (copied / "comparison.json").write_text('{"format": "forebear-comp')
    comparison = compare_again(finished, copied, only=["ngram"])
    assert comparison.find_row("ngram") == load_comparison(finished / "comparison").find_row("ngram")
    assert json.loads((copied / "runs" / "ngram-0" / "run.json").read_text())["began"] == start_time


def test_other_settings_or_text_in_the_same_folder_are_refused_without_overwrite(finished, copied, attempts, book):
    for changes in ({"time": "6s"}, {"held_out": 0.2}, {"tokenizer": "characters"}, {"prompt": "Once"}):
        with pytest.raises(InputError, match="other settings"):
            compare_again(finished, copied, **changes)
    with pytest.raises(InputError, match="another text"):
        compare(book, to=copied, only=MODELS, time="5s", size={"gpt2": "124M"})
    comparison = compare_again(finished, copied, time="6s", overwrite=True)
    assert attempts == ["ngram-0", "gpt2-0"]
    assert comparison.best is None


def test_interrupted_comparison_keeps_finished_rows(finished, tmp_path, monkeypatch):
    def interrupted_trial(spec, on_line):
        if spec.milestone == "gpt2":
            raise KeyboardInterrupt
        return TextTrial(0, bits_per_byte=2.0, seconds=1.0, finished=True)

    monkeypatch.setattr(trials, "run_text_trial", interrupted_trial)
    with pytest.raises(UserInterrupt, match="1 finished") as caught:
        compare_again(finished, tmp_path / "comparison")
    assert caught.value.exit_code == 130
    comparison = load_comparison(tmp_path / "comparison")
    assert [row.name for row in comparison.rows] == ["ngram"]
    assert not comparison.finished
    assert "not finished" in (tmp_path / "comparison" / "comparison.html").read_text()


def test_prepared_corpus_is_compared_with_its_own_tokenizer(book, tmp_path):
    prepare_corpus([book], train_tokenizer("characters", [book.read_text()]), to=tmp_path / "corpus")
    comparison = compare(tmp_path / "corpus", to=tmp_path / "c", only=["ngram"], size={"ngram": "bigram"})
    (ngram_trial,) = comparison.find_row("ngram").trials
    assert (ngram_trial.tokenizer, ngram_trial.error) == ("characters", "")
    assert ngram_trial.bits_per_byte > 0
    assert comparison.yardsticks == ()  # a prepared corpus holds no text to compress


def test_report_notes_different_held_out_sizes(finished, tmp_path, monkeypatch):
    sizes = iter((1000, 2000))
    monkeypatch.setattr(
        trials,
        "run_text_trial",
        lambda job, hear: TextTrial(0, bits_per_byte=2.0, seconds=1.0, finished=True, held_out_bytes=next(sizes)),
    )
    compare_again(finished, tmp_path / "comparison")
    assert "between 1,000 and 2,000 bytes" in (tmp_path / "comparison" / "comparison.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"only": ["ngarm"]}, "no milestone named"),
        ({"size": {"gpt2": "124"}}, "no size"),
        ({"size": {"bret": "tiny"}}, "no milestone named"),
        ({"seeds": []}, "nothing to compare"),
        ({"time": "soon"}, "no duration"),
    ],
)
def test_invalid_comparison_arguments_are_refused_before_training(book, tmp_path, attempts, arguments, message):
    with pytest.raises(InputError, match=message):
        compare(book, to=tmp_path / "c", **arguments)
    assert attempts == []


def test_single_pass_text_is_refused_for_comparison(tmp_path):
    with pytest.raises(InputError, match="only once"):
        compare("/dev/stdin", to=tmp_path / "c")


def test_two_comparisons_at_once_in_one_folder_are_refused(finished, copied, attempts):
    with lock_folder(copied, "x"), pytest.raises(InputError, match="another process is comparing in this folder"):
        compare_again(finished, copied)
    assert attempts == []
