"""Notes of `adapt`: leakage from the parent run, no gain over the majority class, early stopping, suspicious labels."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from adapted_runs import adapt_small_run, adaptation_plan, task_file
from command_line import printed_output
from forebear.cli.main import main
from forebear.data.labeled.dataset_stats import summarize_dataset
from forebear.data.labeled.examples import LabeledExample
from forebear.data.labeled.labeled_source import labeled_source
from forebear.data.labeled.load import read_labeled, unicode_mismatch_notes
from forebear.data.tokenizers.train import train_tokenizer
from forebear.errors import InputError, UserInterrupt
from forebear.experiments import adapt, training_run
from forebear.experiments.run_evaluation import leaked_splits
from forebear.training import trainer
from forebear.training.run_folder import RunFolder
from small_runs import NoteRecorder, train_small_run

LEAKAGE_NOTE = "the run it begins with has learned from {} already: figures on held-out parts of it say too much"


@pytest.fixture(scope="module")
def runs_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small BERT and a run adapted from it."""
    folder = tmp_path_factory.mktemp("notes")
    train_small_run("bert", folder, steps=5, context=40, to="bert")
    adapt_small_run(folder / "bert", "pairs", folder, to="first", steps=2)
    return folder


def write_table(file: Path, *rows: tuple[str, str | None]) -> Path:
    file.write_text("text\tlabel\n" + "".join(f"{text}\t{label or ''}\n" for text, label in rows), encoding="utf-8")
    return file


def write_reviews(file: Path, count: int = 40) -> Path:
    return write_table(
        file, *((f"number {n} is {'fine' if n % 2 else 'dull'}", "good" if n % 2 else "bad") for n in range(count))
    )


# -- leakage from the parent run


def test_adapting_a_run_again_to_the_same_file_notes_leakage(runs_folder: Path):
    notes = NoteRecorder()
    run = adapt_small_run(runs_folder / "first", "pairs", runs_folder, to="second", steps=2, callback=notes)
    note = LEAKAGE_NOTE.format(task_file("pairs", runs_folder))
    assert note in notes.messages
    assert note in run.metadata["notes"]
    assert not any("already" in each_note for each_note in RunFolder.open(runs_folder / "first").metadata["notes"])


def test_leakage_is_traced_through_parents_and_only_to_evaluated_files(runs_folder: Path):
    adapt_small_run(runs_folder / "first", "pairs", runs_folder, to="between", count=50, steps=2)
    source, _ = labeled_source(str(task_file("pairs", runs_folder)), task="pairs")
    parent = str(runs_folder / "between")
    assert leaked_splits(parent, source, source.digests()) == ["train"]
    separate, _ = labeled_source(source.train, task="pairs", dev=str(task_file("pairs", runs_folder, 20, 7)))
    # No training file of the parent is evaluated on
    assert leaked_splits(parent, separate, separate.digests()) == []
    tested, _ = labeled_source(separate.dev or "", task="pairs", dev=separate.dev, test=source.train)
    assert leaked_splits(parent, tested, tested.digests()) == ["test"]
    assert leaked_splits(str(runs_folder / "bert"), source, source.digests()) == []
    assert leaked_splits(str(runs_folder / "gone"), source, source.digests()) == []
    assert leaked_splits(None, source, source.digests()) == []


# -- the majority class


def test_run_no_better_than_the_majority_class_gets_a_note(runs_folder: Path, tmp_path: Path):
    rows = [(f"number {n}", "rare" if n % 4 == 0 else "common") for n in range(80)]
    source, _ = labeled_source(str(write_table(tmp_path / "t.tsv", *rows)), task="classification")
    notes = NoteRecorder()
    plan = training_run.plan_adaptation(
        str(runs_folder / "bert"), source, settings={"steps": 1, "rate": 1e-9, "threads": 1}
    )
    run = training_run.run_adaptation(plan, tmp_path / "run", callback=notes)
    (majority_note,) = [note for note in notes.messages if "no better than" in note]
    assert "give it more time or examples, another --rate" in majority_note
    assert majority_note in run.metadata["notes"]
    assert run.metadata["metrics"]["dev"]["accuracy"] <= float(majority_note.partition("(")[2].partition(")")[0]) + 5e-4


def test_run_better_than_the_majority_class_gets_no_note(tmp_path: Path):
    source, _ = labeled_source(str(write_reviews(tmp_path / "t.tsv")), task="classification")
    run = training_run.run_adaptation(training_run.plan_adaptation("ngram", source), tmp_path / "run")
    assert run.metadata["metrics"]["dev"]["accuracy"] == 1.0
    assert not any("no better" in note for note in run.metadata["notes"])


def test_majority_baseline_is_printed_and_recorded_with_the_scores(tmp_path: Path, capsys):
    """Three of four examples have the majority label: accuracy 0.75."""
    rows = [(f"number {n}", "rare" if n % 4 == 0 else "common") for n in range(80)]
    train, test = write_table(tmp_path / "t.tsv", *rows), write_table(tmp_path / "test.tsv", *rows[:40])
    printed = printed_output(capsys, "adapt", "ngram", train, "--test", test, "--to", tmp_path / "run")
    assert "test, without a model: 0.7500, always 'common'" in printed
    assert RunFolder.open(tmp_path / "run").metadata["baseline"]["score"] == 0.75
    assert "majority, test | 0.75 |" in (tmp_path / "run" / "card.md").read_text(encoding="utf-8")


# -- several runs and stopping


def test_seeds_of_deterministic_model_are_refused_before_writing_files(tmp_path: Path, capsys):
    file = write_reviews(tmp_path / "t.tsv")
    command = ["adapt", "ngram", file, "--to", tmp_path / "run", "--seeds", 3, "--learning-curve"]
    assert main([str(argument) for argument in command]) == 2
    assert "it is the same for every seed" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["t.tsv"]


def test_interrupted_series_of_runs_resumes_with_the_same_command(runs_folder: Path, monkeypatch, capsys):
    plan = adaptation_plan(runs_folder / "bert", "pairs", runs_folder, steps=6)
    with pytest.raises(InputError, match="--seeds is 1"):
        adapt.adapt_with_seeds(plan, runs_folder / "several", 1)
    monkeypatch.setattr(
        trainer.SignalGuard, "is_requested", property(lambda self: True, lambda self, value: None), raising=False
    )
    for train in (
        lambda: adapt.adapt_with_seeds(plan, runs_folder / "several", 2),
        lambda: adapt.learning_curve(plan, runs_folder / "several"),
    ):
        with pytest.raises(UserInterrupt, match="everything is saved") as error:
            train()
        assert error.value.hint.startswith("give the same command again")
    assert main(["runs", str(runs_folder / "several.seeds")]) == 0
    printed = capsys.readouterr().out
    assert "give the command again" in printed
    assert "--resume" not in printed
    shutil.rmtree(runs_folder / "several.seeds")
    shutil.rmtree(runs_folder / "several.curve")


def test_early_stopping_prints_the_step_of_the_best_weights(runs_folder: Path, capsys):
    command = ["adapt", runs_folder / "bert", task_file("pairs", runs_folder), "--task", "pairs"]
    command += ["--to", runs_folder / "early", "--steps", 400]
    command += ["--rate", 1e-9, "--evaluate-every", 1, "--patience", 3, "--threads", 1]
    assert main([str(argument) for argument in command]) == 0
    metadata = RunFolder.open(runs_folder / "early").metadata
    message = f"stopped early: at step {metadata['step']} of 400, no better for 3 looks; the weights of step"
    assert f"{message} {metadata['best_step']} are kept" in " ".join(capsys.readouterr().out.split())
    assert metadata["step"] < 400


def test_single_step_is_printed_in_the_singular(tmp_path: Path, capsys):
    assert main(["adapt", "ngram", str(write_reviews(tmp_path / "t.tsv")), "--to", str(tmp_path / "run")]) == 0
    assert "1 step in" in " ".join(capsys.readouterr().out.split())


# -- held-out examples


def test_evaluation_interval_grows_with_the_dev_set(runs_folder: Path, tmp_path: Path):
    """Evaluating a token costs about a third of training on it."""
    source, _ = labeled_source(str(write_reviews(tmp_path / "t.tsv")), task="classification")
    header, *rows = Path(source.train).read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / "d.tsv").write_text(header + "".join(40 * rows), encoding="utf-8")
    large_dev, _ = labeled_source(source.train, task="classification", dev=str(tmp_path / "d.tsv"))
    small_dev_plan, large_dev_plan = (
        training_run.plan_adaptation(str(runs_folder / "bert"), each_source, settings={"time": "1m"})
        for each_source in (source, large_dev)
    )
    assert large_dev_plan.recipe.evaluate_every > small_dev_plan.recipe.evaluate_every
    trained_tokens = large_dev_plan.recipe.evaluate_every * large_dev_plan.recipe.batch
    assert training_run.AdaptSetup.from_plan(large_dev_plan).eval_examples.example_lengths.sum() / 3 == pytest.approx(
        0.1 * trained_tokens, rel=0.02
    )


# -- labels


def test_unlabeled_test_set_gets_a_note_with_a_classify_command(tmp_path: Path):
    test = write_table(tmp_path / "test.tsv", ("number 1 is fine", None), ("number 2 is dull", None))
    source, _ = labeled_source(str(write_reviews(tmp_path / "t.tsv")), task="classification", test=str(test))
    notes = NoteRecorder()
    training_run.run_adaptation(training_run.plan_adaptation("ngram", source), tmp_path / "run", callback=notes)
    assert any(note.endswith(f"forebear classify {tmp_path / 'run'} --in {test}") for note in notes.messages)
    assert main(["classify", str(tmp_path / "run"), "--in", str(test), "--quiet"]) == 0


def test_labels_that_occur_only_in_the_test_set_are_noted(tmp_path: Path):
    test = write_table(tmp_path / "test.tsv", ("number 1 is fine", "good"), ("it is so so", "neutral"))
    source, _ = labeled_source(str(write_reviews(tmp_path / "t.tsv")), task="classification", test=str(test))
    notes = [note for note in read_labeled(source).notes if "never answer" in note]
    assert notes == ["test: 1 example has what no training example has: the run can never answer 'neutral'"]


def test_words_of_the_test_set_in_another_unicode_form_are_noted(tmp_path: Path):
    """As in MSRA: the test file has full-width digits, the training file has not."""
    train, test = tmp_path / "train.txt", tmp_path / "test.txt"
    train.write_text("\n\n".join(f"北 B-LOC\n京 I-LOC\n{n % 10} O\n日 O\n{n} O" for n in range(30)), encoding="utf-8")
    test.write_text("北 B-LOC\n京 I-LOC\n１ O\n日 O\n陛 O", encoding="utf-8")
    source, _ = labeled_source(str(train), task="tagging", test=str(test))
    notes = unicode_mismatch_notes(read_labeled(source))
    form = "20.0% of the words (1, such as １) are in the training examples in another form"
    assert notes == [f"test: {form}: a run whose tokenizer was trained with --normalise nfkc reads both alike"]
    for normalise, count in ([], 1), (["nfkc"], 0):
        tokenizer = train_tokenizer("characters", ["北京1日"], normalise=normalise)
        plan = replace(training_run.plan_adaptation("word2vec", source, settings={"steps": 1}), tokenizer=tokenizer)
        assert sum("another form" in note for note in training_run.AdaptSetup.from_plan(plan).notes) == count


def test_label_column_that_looks_like_text_is_refused(tmp_path: Path):
    rows = [("ab"[n % 2] + str(n), f"a sentence of its own, {n}") for n in range(30)]
    source, _ = labeled_source(str(write_table(tmp_path / "t.tsv", *rows)), task="classification")
    with pytest.raises(InputError, match="30 different labels in 30 rows: the label column looks like text") as error:
        read_labeled(source)
    assert "--label-column" in error.value.hint
    with_dev, _ = labeled_source(source.train, task="classification", dev=source.train)
    notes = read_labeled(with_dev).notes
    assert sum("looks like text" in note for note in notes) == 1
    assert not any("a sentence of its own" in note for note in notes)
    few = summarize_dataset([LabeledExample((str(n),), str(n)) for n in range(5)])
    assert few.text_label_warning == ""  # five examples are too few for the warning
    multi_label = summarize_dataset([LabeledExample((str(n),), (f"a{n}", f"b{n}")) for n in range(30)])
    assert multi_label.text_label_warning == ""


def test_labels_that_differ_only_in_case_are_warned_about():
    stats = summarize_dataset(
        [LabeledExample((str(n),), ("Positive", "positive", "negative")[n % 3]) for n in range(30)]
    )
    assert stats.warnings() == ["labels that differ only in case are different labels: 'Positive' and 'positive'"]


def test_single_duplicate_and_conflict_are_reported_in_the_singular():
    stats = summarize_dataset([LabeledExample(("a",), "x"), LabeledExample(("a",), "y"), LabeledExample(("b",), "y")])
    assert any(note.startswith("1 example contradicts an earlier one") for note in stats.warnings())
    assert "1 example says the same as an earlier one" in stats.warnings()
