"""Comparisons that really train: rows, failures, interruptions, and going on."""

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

BOTH = ["ngram", "gpt2"]


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A finished comparison of counting with a network whose context is longer than the whole text."""
    folder = tmp_path_factory.mktemp("made")
    text = " ".join(f"Anna gave Ben {n} apples and he gave {n % 7} to Carla." for n in range(40))
    (folder / "short.txt").write_text("\n\n".join(text.split(". ")))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FOREBEAR_CACHE", str(folder / "cache"))
        more = {"only": BOTH, "size": {"gpt2": "124M"}, "limit": 0.5}
        compare(folder / "short.txt", to=folder / "comparison", time="5s", **more)
    return folder


@pytest.fixture
def there(made, tmp_path, monkeypatch) -> Path:
    """A copy of it that may be spoiled."""
    shutil.copytree(made / "comparison", tmp_path / "comparison")
    monkeypatch.setenv("FOREBEAR_CACHE", str(made / "cache"))
    return tmp_path / "comparison"


def told(folder: Path) -> TextComparison:
    return TextComparison.from_dict(json.loads((folder / "comparison.json").read_text()))


@pytest.fixture
def attempts(monkeypatch) -> list[str]:
    """The milestones that are tried from now on; each fails."""
    tried = []

    def failing(job, hear):
        tried.append(f"{job.milestone}-{job.settings['seed']}")
        return TextTrial(job.settings["seed"], error="made to fail")

    monkeypatch.setattr(trials, "run_text_trial", failing)
    return tried


def again(made: Path, folder: Path, **more) -> TextComparison:
    given = {"only": BOTH, "time": "5s", "size": {"gpt2": "124M"}, "limit": 0.5, **more}
    return compare(made / "short.txt", to=folder, **given)


def test_every_milestone_is_a_row_also_one_that_fails(made):
    found = told(made / "comparison")
    assert found.finished
    assert [row.name for row in found.rows] == ["ngram", "gpt2"]
    (counted,), (failed,) = (row.trials for row in found.rows)
    assert 0 < counted.bits_per_byte < 4
    assert counted.perplexity > 1
    assert counted.finished
    assert counted.memory > 10_000_000
    assert counted.seconds > 0
    assert counted.parameters > 0
    assert counted.sample
    assert counted.curve[-1] == pytest.approx((counted.seconds, counted.bits_per_byte), abs=0.05)
    assert "context of 1,024 tokens is longer than the whole text" in failed.error
    assert not failed.finished
    assert failed.bits_per_byte is None
    assert found.best.name == "ngram"
    assert [stick.name for stick in found.yardsticks if stick.bits_per_byte > 0][-1] == "byte frequencies"
    assert (found.limit, found.prompt[:4]) == (0.5, "Anna")
    page = (made / "comparison" / "comparison.html").read_text()
    assert f"{counted.bits_per_byte:.3f}" in page
    assert "is longer than the whole text" in page


def test_the_same_call_goes_on_and_tries_only_what_failed(made, there, attempts):
    before = told(there).find_row("ngram")
    found = again(made, there)
    assert attempts == ["gpt2-0"]
    assert found.find_row("ngram") == before
    assert told(there).find_row("gpt2").error == "made to fail"


def test_more_seeds_are_added_to_those_that_are_there(made, there, attempts):
    again(made, there, seeds=3)
    assert attempts == ["gpt2-0", "gpt2-1", "gpt2-2"]  # counting does not depend on chance


def test_fewer_seeds_take_nothing_away(made, there, attempts):
    again(made, there, seeds=3)
    found = again(made, there, seeds=1)
    assert found.settings["seeds"] == [0, 1, 2]
    assert [trial.seed for trial in found.find_row("gpt2").trials] == [0, 1, 2]


def test_a_run_that_is_gone_is_made_again(made, there, attempts):
    shutil.rmtree(there / "runs" / "ngram-0")
    again(made, there, only=["ngram"])
    assert attempts == ["ngram-0"]


def test_a_torn_table_is_made_again_from_the_runs(made, there):
    began = json.loads((there / "runs" / "ngram-0" / "run.json").read_text())["began"]
    (there / "comparison.json").write_text('{"format": "forebear-comp')
    found = again(made, there, only=["ngram"])
    assert found.find_row("ngram") == told(made / "comparison").find_row("ngram")
    assert json.loads((there / "runs" / "ngram-0" / "run.json").read_text())["began"] == began


def test_other_settings_are_another_comparison(made, there, attempts, book):
    for more in ({"time": "6s"}, {"held_out": 0.2}, {"tokenizer": "characters"}, {"prompt": "Once"}):
        with pytest.raises(InputError, match="other settings"):
            again(made, there, **more)
    with pytest.raises(InputError, match="another text"):
        compare(book, to=there, only=BOTH, time="5s", size={"gpt2": "124M"})
    found = again(made, there, time="6s", overwrite=True)
    assert attempts == ["ngram-0", "gpt2-0"]
    assert found.best is None


def test_an_interrupt_keeps_the_rows_so_far(made, tmp_path, monkeypatch):
    def interrupted(job, hear):
        if job.milestone == "gpt2":
            raise KeyboardInterrupt
        return TextTrial(0, bits_per_byte=2.0, seconds=1.0, finished=True)

    monkeypatch.setattr(trials, "run_text_trial", interrupted)
    with pytest.raises(UserInterrupt, match="1 finished") as stopped:
        again(made, tmp_path / "comparison")
    assert stopped.value.exit_code == 130
    found = told(tmp_path / "comparison")
    assert [row.name for row in found.rows] == ["ngram"]
    assert not found.finished
    assert "not finished" in (tmp_path / "comparison" / "comparison.html").read_text()


def test_a_prepared_corpus_is_compared_on_as_it_is(book, tmp_path):
    prepare_corpus([book], train_tokenizer("characters", [book.read_text()]), to=tmp_path / "corpus")
    found = compare(tmp_path / "corpus", to=tmp_path / "c", only=["ngram"], size={"ngram": "bigram"})
    (counted,) = found.find_row("ngram").trials
    assert (counted.tokenizer, counted.error) == ("characters", "")
    assert counted.bits_per_byte > 0
    assert found.yardsticks == ()  # a corpus holds no text any more


def test_different_held_out_text_is_told(made, tmp_path, monkeypatch):
    sizes = iter((1000, 2000))
    monkeypatch.setattr(
        trials,
        "run_text_trial",
        lambda job, hear: TextTrial(0, bits_per_byte=2.0, seconds=1.0, finished=True, held_out_bytes=next(sizes)),
    )
    again(made, tmp_path / "comparison")
    assert "between 1,000 and 2,000 bytes" in (tmp_path / "comparison" / "comparison.html").read_text()


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"only": ["ngarm"]}, "no milestone named"),
        ({"size": {"gpt2": "124"}}, "no size"),
        ({"size": {"bret": "tiny"}}, "no milestone named"),
        ({"seeds": []}, "nothing to compare"),
        ({"time": "soon"}, "no duration"),
    ],
)
def test_bad_use_is_refused_before_anything_is_trained(book, tmp_path, attempts, more, words):
    with pytest.raises(InputError, match=words):
        compare(book, to=tmp_path / "c", **more)
    assert attempts == []


def test_text_that_can_be_read_once_is_refused(tmp_path):
    with pytest.raises(InputError, match="only once"):
        compare("/dev/stdin", to=tmp_path / "c")


def test_two_at_once_in_one_folder_are_one_too_many(made, there, attempts):
    with lock_folder(there, "x"), pytest.raises(InputError, match="another process is comparing in this folder"):
        again(made, there)
    assert attempts == []
