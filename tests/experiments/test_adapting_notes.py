"""What `adapt` says by itself: a run that knows the examples, one that learned nothing, labels that are none."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from command_line import said
from forebear.cli.main import main
from forebear.data.labeled.dataset_stats import summarize_dataset
from forebear.data.labeled.examples import LabeledExample
from forebear.data.labeled.source import count_form_mismatches, labeled_source, read_labeled
from forebear.data.tokenizers.train import train_tokenizer
from forebear.errors import InputError, UserInterrupt
from forebear.experiments import adapt, pipeline
from forebear.experiments.evaluator import leaked_splits
from forebear.training import trainer
from forebear.training.run_folder import RunFolder
from labelled_texts import adapted, file_of, planned
from small_runs import Notes, trained

KNOWN = "the run it begins with has learned from {} already: figures on held-out parts of it say too much"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small BERT, and what was made of it."""
    folder = tmp_path_factory.mktemp("notes")
    trained("bert", folder, steps=5, context=40, to="bert")
    adapted(folder / "bert", "pairs", folder, to="first", steps=2)
    return folder


def table(file: Path, *rows: tuple[str, str | None]) -> Path:
    file.write_text("text\tlabel\n" + "".join(f"{text}\t{label or ''}\n" for text, label in rows), encoding="utf-8")
    return file


def opinions(file: Path, count: int = 40) -> Path:
    return table(
        file, *((f"number {n} is {'fine' if n % 2 else 'dull'}", "good" if n % 2 else "bad") for n in range(count))
    )


# -- a run that knows the examples


def test_a_run_that_learned_from_the_same_file_is_told(home: Path):
    notes = Notes()
    run = adapted(home / "first", "pairs", home, to="second", steps=2, watcher=notes)
    told = KNOWN.format(file_of("pairs", home))
    assert told in notes.words
    assert told in run.metadata["notes"]
    assert not any("already" in note for note in RunFolder.open(home / "first").metadata["notes"])


def test_grandparents_count_and_files_of_their_own_do_not(home: Path):
    adapted(home / "first", "pairs", home, to="between", count=50, steps=2)
    source, _ = labeled_source(str(file_of("pairs", home)), task="pairs")
    parent = str(home / "between")
    assert leaked_splits(parent, source, source.digests()) == ["train"]
    apart, _ = labeled_source(source.train, task="pairs", dev=str(file_of("pairs", home, 20, 7)))
    assert leaked_splits(parent, apart, apart.digests()) == []  # nothing of what was learned examines
    tested, _ = labeled_source(apart.dev or "", task="pairs", dev=apart.dev, test=source.train)
    assert leaked_splits(parent, tested, tested.digests()) == ["test"]
    assert leaked_splits(str(home / "bert"), source, source.digests()) == []
    assert leaked_splits(str(home / "gone"), source, source.digests()) == []
    assert leaked_splits(None, source, source.digests()) == []


# -- one that learned nothing


def test_a_run_that_learned_nothing_says_so(home: Path, tmp_path: Path):
    rows = [(f"number {n}", "rare" if n % 4 == 0 else "common") for n in range(80)]
    source, _ = labeled_source(str(table(tmp_path / "t.tsv", *rows)), task="classification")
    notes = Notes()
    what = pipeline.plan_adaptation(str(home / "bert"), source, settings={"steps": 1, "rate": 1e-9, "threads": 1})
    run = pipeline.run_adaptation(what, tmp_path / "run", watcher=notes)
    (told,) = [note for note in notes.words if "no better than" in note]
    assert "give it more time or examples, another --rate" in told
    assert told in run.metadata["notes"]
    assert run.metadata["metrics"]["dev"]["accuracy"] <= float(told.partition("(")[2].partition(")")[0]) + 5e-4


def test_a_run_that_learned_something_does_not(tmp_path: Path):
    source, _ = labeled_source(str(opinions(tmp_path / "t.tsv")), task="classification")
    run = pipeline.run_adaptation(pipeline.plan_adaptation("ngram", source), tmp_path / "run")
    assert run.metadata["metrics"]["dev"]["accuracy"] == 1.0
    assert not any("no better" in note for note in run.metadata["notes"])


def test_what_is_reached_without_a_model_stands_beside_the_figures(tmp_path: Path, capsys):
    """Three of four examples are common: always saying so is right that often."""
    rows = [(f"number {n}", "rare" if n % 4 == 0 else "common") for n in range(80)]
    train, test = table(tmp_path / "t.tsv", *rows), table(tmp_path / "test.tsv", *rows[:40])
    shown = said(capsys, "adapt", "ngram", train, "--test", test, "--to", tmp_path / "run")
    assert "test, without a model: 0.7500, always 'common'" in shown
    assert RunFolder.open(tmp_path / "run").metadata["baseline"]["score"] == 0.75
    assert "majority, test | 0.75 |" in (tmp_path / "run" / "card.md").read_text(encoding="utf-8")


# -- several runs


def test_seeds_that_mean_nothing_are_refused_before_anything_is_made(tmp_path: Path, capsys):
    words = ["adapt", "ngram", opinions(tmp_path / "t.tsv"), "--to", tmp_path / "run", "--seeds", 3, "--learning-curve"]
    assert main([str(word) for word in words]) == 2
    assert "it is the same for every seed" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["t.tsv"]


def test_one_of_several_that_is_broken_off_is_gone_on_with_by_the_same_command(home: Path, monkeypatch, capsys):
    what = planned(home / "bert", "pairs", home, steps=6)
    with pytest.raises(InputError, match="--seeds is 1"):
        adapt.adapt_with_seeds(what, home / "several", 1)
    monkeypatch.setattr(
        trainer.SignalGuard, "is_requested", property(lambda self: True, lambda self, value: None), raising=False
    )
    for make in (
        lambda: adapt.adapt_with_seeds(what, home / "several", 2),
        lambda: adapt.learning_curve(what, home / "several"),
    ):
        with pytest.raises(UserInterrupt, match="everything is saved") as broken:
            make()
        assert broken.value.hint.startswith("give the same command again")
    assert main(["runs", str(home / "several.seeds")]) == 0
    shown = capsys.readouterr().out
    assert "give the command again" in shown
    assert "--resume" not in shown
    shutil.rmtree(home / "several.seeds")
    shutil.rmtree(home / "several.curve")


def test_stopping_early_is_said_with_the_step_that_is_kept(home: Path, capsys):
    words = ["adapt", home / "bert", file_of("pairs", home), "--task", "pairs", "--to", home / "early", "--steps", 400]
    words += ["--rate", 1e-9, "--evaluate-every", 1, "--patience", 3, "--threads", 1]
    assert main([str(word) for word in words]) == 0
    facts = RunFolder.open(home / "early").metadata
    told = f"stopped early: at step {facts['step']} of 400, no better for 3 looks; the weights of step"
    assert f"{told} {facts['best_step']} are kept" in " ".join(capsys.readouterr().out.split())
    assert facts["step"] < 400


def test_one_step_is_no_steps(tmp_path: Path, capsys):
    assert main(["adapt", "ngram", str(opinions(tmp_path / "t.tsv")), "--to", str(tmp_path / "run")]) == 0
    assert "1 step in" in " ".join(capsys.readouterr().out.split())


# -- held-out examples


def test_looks_at_many_held_out_examples_are_seldom(home: Path, tmp_path: Path):
    """A token that is only read costs about a third of one that teaches."""
    source, _ = labeled_source(str(opinions(tmp_path / "t.tsv")), task="classification")
    first, *rows = Path(source.train).read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / "d.tsv").write_text(first + "".join(40 * rows), encoding="utf-8")
    many, _ = labeled_source(source.train, task="classification", dev=str(tmp_path / "d.tsv"))
    usual, seldom = (
        pipeline.plan_adaptation(str(home / "bert"), one, settings={"time": "1m"}) for one in (source, many)
    )
    assert seldom.recipe.evaluate_every > usual.recipe.evaluate_every
    taught = seldom.recipe.evaluate_every * seldom.recipe.batch
    assert pipeline.AdaptSetup.from_plan(seldom).eval_examples.example_lengths.sum() / 3 == pytest.approx(
        0.1 * taught, rel=0.02
    )


# -- labels


def test_a_test_without_labels_is_answered_by_a_command(tmp_path: Path):
    test = table(tmp_path / "test.tsv", ("number 1 is fine", None), ("number 2 is dull", None))
    source, _ = labeled_source(str(opinions(tmp_path / "t.tsv")), task="classification", test=str(test))
    notes = Notes()
    pipeline.run_adaptation(pipeline.plan_adaptation("ngram", source), tmp_path / "run", watcher=notes)
    assert any(note.endswith(f"forebear classify {tmp_path / 'run'} --in {test}") for note in notes.words)
    assert main(["classify", str(tmp_path / "run"), "--in", str(test), "--quiet"]) == 0


def test_labels_that_nothing_teaches_are_named(tmp_path: Path):
    test = table(tmp_path / "test.tsv", ("number 1 is fine", "good"), ("it is so so", "neutral"))
    source, _ = labeled_source(str(opinions(tmp_path / "t.tsv")), task="classification", test=str(test))
    told = [note for note in read_labeled(source).notes if "never answer" in note]
    assert told == ["test: 1 example has what no training example has: the run can never answer 'neutral'"]


def test_words_that_are_written_otherwise_than_taught_ones_are_told(tmp_path: Path):
    """MSRA's test has wide digits, which its training file has not."""
    train, test = tmp_path / "train.txt", tmp_path / "test.txt"
    train.write_text("\n\n".join(f"北 B-LOC\n京 I-LOC\n{n % 10} O\n日 O\n{n} O" for n in range(30)), encoding="utf-8")
    test.write_text("北 B-LOC\n京 I-LOC\n１ O\n日 O\n陛 O", encoding="utf-8")
    source, _ = labeled_source(str(train), task="tagging", test=str(test))
    told = count_form_mismatches(read_labeled(source))
    form = "20.0% of the words (1, such as １) are in the training examples in another form"
    assert told == [f"test: {form}: a run whose tokenizer was trained with --normalise nfkc reads both alike"]
    for normalise, count in ([], 1), (["nfkc"], 0):
        characters = train_tokenizer("characters", ["北京1日"], normalise=normalise)
        plan = replace(pipeline.plan_adaptation("word2vec", source, settings={"steps": 1}), tokenizer=characters)
        assert sum("another form" in note for note in pipeline.AdaptSetup.from_plan(plan).notes) == count


def test_a_column_of_texts_is_not_taken_for_labels(tmp_path: Path):
    rows = [("ab"[n % 2] + str(n), f"a sentence of its own, {n}") for n in range(30)]
    source, _ = labeled_source(str(table(tmp_path / "t.tsv", *rows)), task="classification")
    with pytest.raises(InputError, match="30 different labels in 30 rows: the label column looks like text") as error:
        read_labeled(source)
    assert "--label-column" in error.value.hint
    given, _ = labeled_source(source.train, task="classification", dev=source.train)
    notes = read_labeled(given).notes
    assert sum("looks like text" in note for note in notes) == 1
    assert not any("a sentence of its own" in note for note in notes)
    few = summarize_dataset([LabeledExample((str(n),), str(n)) for n in range(5)])
    assert few.text_label_warning == ""  # of five nobody can say
    several = summarize_dataset([LabeledExample((str(n),), (f"a{n}", f"b{n}")) for n in range(30)])
    assert several.text_label_warning == ""


def test_labels_that_differ_in_case_are_told():
    found = summarize_dataset(
        [LabeledExample((str(n),), ("Positive", "positive", "negative")[n % 3]) for n in range(30)]
    )
    assert found.warnings() == ["labels that differ only in case are different labels: 'Positive' and 'positive'"]


def test_one_is_one():
    same = summarize_dataset([LabeledExample(("a",), "x"), LabeledExample(("a",), "y"), LabeledExample(("b",), "y")])
    assert any(note.startswith("1 example contradicts an earlier one") for note in same.warnings())
    assert "1 example says the same as an earlier one" in same.warnings()
