"""Pre-training plans: precedence of flags, recipes and sizes, held-out text, prepared corpora, recipe files."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

import forebear as fb
import small_runs
from forebear.cli.main import main
from forebear.data.source import TextSource
from forebear.errors import InputError
from forebear.experiments import training_run
from forebear.experiments.plan import RECIPE_FILE_KEYS, plan_pretraining
from forebear.experiments.pretrain_tagger import plan_tagging
from forebear.inference.run import Run
from forebear.models.gpt2 import GPT2Spec
from forebear.registry import LINEAGE, model_spec
from forebear.training.settings import read_recipe

RECIPES = sorted((Path(__file__).parents[2] / "recipes").glob("*.toml"))


def test_every_model_has_a_recipe_file_numbered_in_lineage_order():
    names = [read_recipe(file, RECIPE_FILE_KEYS)["milestone"] for file in RECIPES]
    assert names == list(LINEAGE)
    assert [file.stem for file in RECIPES] == [f"{number:02}-{name}" for number, name in enumerate(names, 1)]


@pytest.mark.parametrize("file", RECIPES, ids=lambda file: file.stem)
def test_recipe_file_makes_a_plan(file: Path, tmp_path: Path):
    recipe = read_recipe(file, RECIPE_FILE_KEYS)
    if model_spec(recipe["milestone"]).learns_from == "tags":
        (tmp_path / "tagged.txt").write_text("the/d cat/n sat/v\na/d dog/n ran/v\n" * 9, encoding="utf-8")
        plan, _ = plan_tagging(recipe["milestone"], [str(tmp_path / "tagged.txt")], TextSource(()), recipe=recipe)
        assert all(getattr(plan.recipe, name) is not None for name in recipe["recipe"])
        return
    pairs = TextSource((), pairs=model_spec(recipe["milestone"]).learns_from == "pairs")
    plan = plan_pretraining(recipe["milestone"], ["book.txt"], recipe=recipe, source=pairs)
    assert plan.tokenizer == recipe.get("tokenizer")
    assert all(getattr(plan.recipe, name) is not None for name in recipe["recipe"])


def test_flags_override_the_recipe_and_the_recipe_overrides_the_size():
    recipe = {"milestone": "gpt2", "size": "tiny", "fields": {"depth": 3}, "recipe": {"time": "1m", "rate": 0.5}}
    plan = plan_pretraining("gpt2", ["b"], recipe=recipe, settings={"width": "64", "steps": "2k"})
    assert plan.spec == GPT2Spec(width=64, depth=3, heads=4, context=64)
    assert (plan.recipe.steps, plan.recipe.time, plan.recipe.rate) == (2000, None, 0.5)


def test_fields_override_a_size_and_the_small_size_is_the_default():
    assert plan_pretraining("gpt2", ["b"], size="124M").spec == GPT2Spec()
    assert plan_pretraining("gpt2", ["b"], size="tiny", settings={"heads": 2}).spec == GPT2Spec(
        width=128, depth=4, heads=2, context=64
    )
    assert plan_pretraining("gpt2", ["b"]).size == GPT2Spec.size
    assert plan_pretraining("gpt2", ["b"], settings={"context": 32}).spec == GPT2Spec(
        **{**GPT2Spec.sizes["tiny"], "context": 32}
    )


def test_recipe_for_another_model_is_refused():
    with pytest.raises(InputError, match="is for gpt2, not for ngram"):
        plan_pretraining("ngram", ["b"], recipe={"milestone": "gpt2"})


def test_gpt2_networks_of_published_sizes_have_published_parameters():
    """Radford et al. 2019, table 2, with the counts of the published weights."""
    counts = {"124M": 124_439_808, "355M": 354_823_168, "774M": 774_030_080, "1.5B": 1_557_611_200}

    class Published:
        vocab_size = 50257
        special_roles = {"end": 50256}  # noqa: RUF012

    for size, count in counts.items():
        network = plan_pretraining("gpt2", ["b"], size=size).spec.build(Published())  # pyright: ignore[reportArgumentType]
        assert network.num_parameters == count


def test_held_out_end_of_a_document_adds_no_words_to_the_vocabulary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """One document: its end is held out, and words that occur only there are out of vocabulary."""
    from forebear.experiments.training_run import run_pretraining

    monkeypatch.setenv("FOREBEAR_CACHE", str(tmp_path / "cache"))
    story = "The cat sat on the mat. The dog ran to the cat. " * 40
    (tmp_path / "novel.txt").write_text(story + "A zebra flew over Zanzibar. Nobody saw the zebra.", encoding="utf-8")
    run = run_pretraining(
        plan_pretraining("ngram", [str(tmp_path / "novel.txt")], settings={"held_out": 0.04}), tmp_path / "run"
    )
    assert run.metadata["data"]["split"]["by"] == "position"
    assert run.tokenizer.token_to_id("zebra") is None
    assert run.metadata["metrics"]["held_out"]["unknown_tokens"] > 3
    assert any("the end of the text is held out" in note for note in run.metadata["notes"])


@pytest.mark.parametrize("share", ["1", "1.5", "-0.1", "nan"])
def test_held_out_share_outside_its_range_is_refused(share: str):
    with pytest.raises(InputError, match="--held-out is"):
        plan_pretraining("ngram", ["b"], settings={"held_out": share})


def test_held_out_zero_is_allowed_only_for_count_based_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Only count-based models: gradient training needs held-out text to select the best checkpoint."""
    monkeypatch.setenv("FOREBEAR_CACHE", str(tmp_path / "cache"))
    text = tmp_path / "text.txt"
    text.write_text(small_runs.small_text(), encoding="utf-8")
    run = training_run.run_pretraining(
        plan_pretraining("ngram", [str(text)], settings={"held_out": "0"}), to=tmp_path / "run"
    )
    assert run.metadata["data"]["split"] == {"train": run.metadata["data"]["tokens"], "held_out": 0, "by": "nothing"}
    assert run.metadata["held_out_loss"] is None
    assert "metrics" not in run.metadata
    with pytest.raises(InputError, match="text that it has not seen"):
        plan_pretraining("gpt2", [str(text)], settings={"held_out": "0"})


def test_pretokenized_text_is_counted_line_by_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FOREBEAR_CACHE", str(tmp_path / "cache"))
    text = tmp_path / "text.txt"
    text.write_text("the cat , said he , sat .\nit 's @-@ <unk> .\n\nand so on .\n" * 9, encoding="utf-8")
    plan = plan_pretraining("ngram", [str(text)])
    assert (plan.tokenizer, plan.source.sentences, plan.recipe.held_out) == ("spaces", "lines", 0.0)
    assert plan.spec.unit == "sentence"  # pyright: ignore[reportAttributeAccessIssue]
    run = Run(training_run.run_pretraining(plan, to=tmp_path / "run"))
    assert run.network.describe()["ngrams"][0] == run.tokenizer.vocab_size == 19
    assert run.measure(text).units == 27  # lines
    assert run.measure(text).unknown_tokens == 0
    for options in ({"settings": {"unit": "document"}}, {"tokenizer": "words"}):
        assert plan_pretraining("ngram", [str(text)], **options).source.sentences == "split"
    plain = tmp_path / "plain.txt"
    plain.write_text("The cat, said he, sat. It's so.\n\nAnd so on.\n" * 9, encoding="utf-8")
    assert plan_pretraining("ngram", [str(plain)]).recipe.held_out == 0.05
    assert plan_pretraining("nnlm", [str(text)]).source.sentences == "split"


def test_token_budget_counts_the_tokens_of_each_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A batch of 100 tokens holds six sequences of 16: 96 tokens per step."""
    from small_runs import train_small_run

    monkeypatch.setenv("FOREBEAR_CACHE", str(tmp_path / "cache"))
    run = train_small_run("gpt2", tmp_path, tokens=960, batch=100)
    assert (run.metadata["tokens"], run.metadata["step"]) == (960, 10)


@pytest.mark.parametrize("setting", ["rate", "patience", "accumulate"])
def test_setting_without_effect_on_ngram_is_refused(setting: str):
    with pytest.raises(InputError, match=f"--{setting} means nothing to ngram, which counts"):
        plan_pretraining("ngram", ["b"], settings={setting: "1"})
    with pytest.raises(InputError, match="means nothing"):
        plan_pretraining("ngram", ["b"], recipe={"milestone": "ngram", "recipe": {setting: 1}})


def test_prepared_corpus_refuses_another_tokenizer_or_input_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Its text is already tokenized: another tokenizer or input format would be ignored."""
    monkeypatch.setenv("FOREBEAR_CACHE", str(tmp_path / "cache"))
    (tmp_path / "book.txt").write_text(small_runs.small_text(), encoding="utf-8")
    corpus = plan_pretraining("ngram", [str(tmp_path / "book.txt")]).prepare_corpus()
    paths, tokenizer_file = [str(corpus.folder)], str(corpus.folder / "tokenizer.json")
    for requested in (None, "words", tokenizer_file, corpus.tokenizer):
        assert plan_pretraining("gpt2", paths, tokenizer=requested).prepare_corpus().key == corpus.key
    assert plan_pretraining("gpt2", paths, vocabulary=corpus.tokenizer.vocab_size).prepare_corpus().key == corpus.key
    for requested in ({"tokenizer": "characters"}, {"vocabulary": 77}, {"tokenizer": small_runs.small_tokenizer()}):
        with pytest.raises(InputError, match=r"cut by another tokenizer \(words, "):
            plan_pretraining("gpt2", paths, **requested).prepare_corpus()
    with pytest.raises(InputError, match="is a corpus already"):
        plan_pretraining("gpt2", paths, source=TextSource((), sentences="lines"))


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", small_runs.LANGUAGE_MODELS)
def test_recorded_command_of_a_python_run_reopens_the_same_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The recorded command describes the same run, so it finds the run finished."""
    monkeypatch.setenv("FOREBEAR_CACHE", str(tmp_path / "cache"))
    (tmp_path / "my book.txt").write_text(small_runs.small_text(), encoding="utf-8")
    settings = small_runs.small_settings(name, seed=3, held_out=0.2, save_every="7s")
    is_masked_lm = name in small_runs.MASKED_MODELS
    run = fb.pretrain(
        name,
        tmp_path / "my book.txt",
        to=tmp_path / "run",
        tokenizer="words" if is_masked_lm else "characters",
        documents="blank" if is_masked_lm else "lines",  # the sentence-pair task needs documents of two sentences
        sentences="lines",
        segment=True,
        **settings,
    )
    metadata = (tmp_path / "run" / "run.json").read_bytes()
    assert main(shlex.split(run.metadata["command"])[1:]) == 0
    assert (tmp_path / "run" / "run.json").read_bytes() == metadata


def test_context_longer_than_the_text_is_refused_with_a_hint_that_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Preview and pretrain refuse it alike; the hint works."""
    monkeypatch.setenv("FOREBEAR_CACHE", str(tmp_path / "cache"))
    (tmp_path / "short.txt").write_text("A short text. " * 9, encoding="utf-8")
    for command in (["preview", "gpt2"], ["pretrain", "gpt2", "--to", str(tmp_path / "run")]):
        assert main([*command, str(tmp_path / "short.txt"), "--context", "1000"]) == 2
    with pytest.raises(InputError, match=r"longer than the whole text") as error:
        fb.pretrain("gpt2", tmp_path / "short.txt", to=tmp_path / "run", context=1000)
    shorter = int(error.value.hint.split("--context ")[1])
    run = fb.pretrain("gpt2", tmp_path / "short.txt", to=tmp_path / "run", context=shorter, steps=2)
    assert run.folder.is_finished


@pytest.mark.parametrize(
    ("name", "recipe", "message"),
    [
        ("gpt2", {"fields": {"widht": 32}}, "gpt2 has no field 'widht'"),
        ("gpt2", {"fields": {"width": 32.0}}, "--width is 32.0"),
        ("gpt2", {"fields": {"width": [1]}}, r"--width is \[1\]"),
        ("gpt2", {"fields": {"width": True}}, "--width is True"),
        ("gpt2", {"fields": {"epsilon": float("inf")}}, "--epsilon is inf"),
        ("gpt2", {"fields": {"apart": 2}}, "--apart is 2"),
        ("ngram", {"fields": {"order": 2.5}}, "--order is 2.5"),
        ("gpt2", {"size": 3}, "gpt2 has no size 3"),
        ("gpt2", {"tokenizer": 5}, "--tokenizer is 5"),
        ("gpt2", {"vocabulary": "many"}, "--vocabulary is 'many'"),
        ("gpt2", {"tokenizer": "x.json", "vocabulary": 9}, "means nothing beside a tokenizer that is not learned"),
        ("gpt2", {"recipe": {"time": True}}, "'True' is no duration"),
        ("gpt2", {"recipe": {"time": "1m", "fall": 3}}, "--fall is a step"),
        ("ngram", {"recipe": {"epochs": 3}}, "counts every text once"),
    ],
)
def test_invalid_values_of_recipe_files_are_refused(name: str, recipe: dict[str, Any], message: str):
    with pytest.raises(InputError, match=message):
        plan_pretraining(name, ["b"], recipe=recipe)


def test_plan_names_its_size_only_if_all_fields_match():
    assert plan_pretraining("ngram", ["b"], settings={"order": 3}).size == "trigram"
    assert plan_pretraining("gpt2", ["b"], settings={"width": 64}).size is None
    assert plan_pretraining("gpt2", ["b"], recipe={"vocabulary": "2k"}).vocab_size == 2000


def test_measure_reports_the_share_of_documents_trained_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """With the end of the text held out, documents after the split were not trained on."""
    monkeypatch.setenv("FOREBEAR_CACHE", str(tmp_path / "cache"))
    book = tmp_path / "book.txt"
    book.write_text("The cat sat on the mat. " * 40 + "\n\n" + "A dog ran. " * 9, encoding="utf-8")
    run = fb.pretrain("ngram", book, to=tmp_path / "run", held_out=0.2)
    assert run.metadata["data"]["split"]["by"] == "position"
    (tmp_path / "end.txt").write_text("A dog ran. " * 9, encoding="utf-8")
    assert run.metadata["metrics"]["held_out"]["learned_from"] is None
    assert run.measure(book).learned_from == 1
    assert run.measure(book, limit=300).learned_from == 1
    assert run.measure(tmp_path / "end.txt").learned_from == 0


def test_long_held_out_document_adds_no_words_to_the_vocabulary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """It is read in parts; the hash of the whole decides the split, for the vocabulary too."""
    monkeypatch.setenv("FOREBEAR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("forebear.data.io.document.PART_CHARACTERS", 1000)
    short = [f"Story {number} tells of a cat and a dog." for number in range(60)]
    for number in range(40):  # until the long document is held out
        long = f"Long {number}. " + "The zebra flew. " * 400
        (tmp_path / "book.txt").write_text("\n\n".join([*short, long]) + "\n", encoding="utf-8")
        corpus = plan_pretraining("ngram", [str(tmp_path / "book.txt")], settings={"held_out": 0.3}).prepare_corpus()
        if corpus.split(0.3).held_out.num_tokens > 1000:
            break
    assert corpus.split(0.3).held_out.num_tokens > 1000
    assert corpus.tokenizer.token_to_id("zebra") is None
    assert corpus.tokenizer.token_to_id("cat") is not None
