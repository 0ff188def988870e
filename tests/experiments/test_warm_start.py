"""Continued pre-training (--from): initial weights, added words, refused settings, interruption and reproducibility."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from forebear.errors import InputError, UserInterrupt
from forebear.experiments import plan as planning
from forebear.experiments import training_run
from forebear.experiments.warm_start import InitFrom
from forebear.inference.run import Run
from forebear.models.bert import BertSpec
from forebear.training.run_folder import RunFolder
from forebear.training.trainer import ProgressReport, Trainer, TrainingCallback
from small_runs import input_error_allowed, small_text, train_small_run, weights_digest

NO_CHANGE = {"steps": 1, "rate": 1e-35, "evaluate_every": 100}  # a step that changes no weight
EMBEDDING, BIAS = "encoder.embedding.token.weight", "heads.token.bias"


@pytest.fixture(scope="module")
def parents(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., RunFolder]:
    """Small trained runs, each trained once."""
    folder, runs = tmp_path_factory.mktemp("parents"), {}

    def parent(name: str = "bert", **changes: Any) -> RunFolder:
        key = f"{name}-{sorted(changes.items())}"
        if key not in runs:
            run_folder = folder / str(len(runs))
            run_folder.mkdir()
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("FOREBEAR_CACHE", str(run_folder / "cache"))
                runs[key] = train_small_run(name, run_folder, **{"steps": 12, **changes})
        return runs[key]

    return parent


def new_text(folder: Path) -> str:
    """A text that the parents were not trained on."""
    file = folder / "more.txt"
    file.write_text(small_text(30).replace("cat", "zebra").replace("hill", "pond"), encoding="utf-8")
    return str(file)


def plan(parent: RunFolder, folder: Path, words: list[str] | None = None, **changes: Any) -> planning.PretrainPlan:
    words_file = None
    if words is not None:
        words_file = folder / "words.txt"
        words_file.write_text("\n".join(words), encoding="utf-8")
    model = parent.metadata["milestone"]
    settings = {"batch": 128, "threads": 1, "held_out": 0.15, "steps": 3, **changes}
    init_from = InitFrom.for_run(str(parent.path), None if words_file is None else str(words_file))
    return planning.plan_pretraining(model, [new_text(folder)], settings=settings, init_from=init_from)


def continued(parent: RunFolder, folder: Path, words: list[str] | None = None, **changes: Any) -> RunFolder:
    return training_run.run_pretraining(plan(parent, folder, words, **changes), folder / "run")


def tensors(run: RunFolder) -> dict[str, torch.Tensor]:
    return load_file(run.path / "weights.safetensors")


def nearly_equal(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Equal but for a step of NO_CHANGE, which only weights of 0 show."""
    return first.shape == second.shape and bool((first - second).abs().max() < 1e-30)


# -- initial weights


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", ["bert", "albert", "roberta", "gpt2"])
def test_warm_start_begins_with_the_weights_of_the_parent(name: str, parents: Callable[..., RunFolder], tmp_path: Path):
    parent = parents(name)
    run = continued(parent, tmp_path, **NO_CHANGE)
    before, after = tensors(parent), tensors(run)
    assert before.keys() == after.keys()
    assert all(nearly_equal(before[tensor], after[tensor]) for tensor in before)
    assert run.metadata["fields"] == parent.metadata["fields"]
    assert run.metadata["tokenizer"] == parent.metadata["tokenizer"]
    assert run.metadata["parent"] == str(parent.path)
    assert Path(run.metadata["data"]["source"]["paths"][0]).name == "more.txt"


def test_warm_start_learns_faster_than_from_scratch(parents: Callable[..., RunFolder], tmp_path: Path):
    """Its loss is lower than after as many steps from scratch, and its learning rate below the default."""
    parent = parents("gpt2", steps=60)
    run = continued(parent, tmp_path, steps=10)
    fresh = train_small_run("gpt2", tmp_path, to="fresh", steps=10)
    losses = [each_run.metadata["metrics"]["held_out"]["nats_per_token"] for each_run in (run, fresh)]
    assert losses[0] < losses[1]
    assert weights_digest(run) != weights_digest(parent)
    assert 0 < run.recipe.rate < parent.spec.default_recipe()["rate"]


def test_warm_start_leaves_the_parent_unchanged(parents: Callable[..., RunFolder], tmp_path: Path):
    parent = parents()
    before = {file: file.read_bytes() for file in parent.path.rglob("*") if file.is_file()}
    continued(parent, tmp_path, ["zebra"])
    assert {file: file.read_bytes() for file in parent.path.rglob("*") if file.is_file()} == before


def test_head_missing_in_the_parent_is_randomly_initialized(parents: Callable[..., RunFolder], tmp_path: Path):
    parent = parents("bert", pairs="none")
    run = continued(parent, tmp_path, pairs="next", **NO_CHANGE)
    before, after = tensors(parent), tensors(run)
    fresh = BertSpec(**run.metadata["fields"]).build(run.tokenizer).initialize(run.recipe.seed).tensors()
    assert {name.split(".")[1] for name in after.keys() - before.keys()} == {"pair"}
    for name, tensor in after.items():
        assert nearly_equal(tensor, before[name] if name in before else fresh[name])
    assert any("no head pair" in note for note in run.metadata["notes"])
    assert set(Run(run).heads) == {"token", "pair"}


def test_unused_head_of_the_parent_is_dropped_with_a_note(parents: Callable[..., RunFolder], tmp_path: Path):
    run = continued(parents(), tmp_path, pairs="none", **NO_CHANGE)
    assert set(Run(run).heads) == {"token"}
    assert any("pair" in note for note in run.metadata["notes"])


# -- added words


def test_added_words_are_initialized_to_the_mean_of_their_pieces(parents: Callable[..., RunFolder], tmp_path: Path):
    """A word of several pieces gets their mean, an unknown word the mean of all rows, a known word its own."""
    parent = parents()
    old = parent.tokenizer
    split_word = next(
        word for word in ("therat", "numberis", "saidoverthe", "bytheriver") if len(old.encode(word).ids) > 1
    )
    assert old.encode("zzzebra").ids.tolist() == [old.unk_id]
    assert len(old.encode("cat").ids) == 1
    run = continued(parent, tmp_path, [split_word, "zzzebra", "cat", split_word], **NO_CHANGE)
    before, after, new = tensors(parent), tensors(run), run.tokenizer
    assert new.vocab_size == old.vocab_size + 2
    assert new.vocabulary()[: old.vocab_size] == old.vocabulary()
    pieces = old.encode(split_word).ids.tolist()
    for name in (EMBEDDING, BIAS):
        assert nearly_equal(after[name][: old.vocab_size], before[name])
        assert after[name][new.token_to_id(split_word)].numpy() == pytest.approx(
            before[name][pieces].mean(0).numpy(), abs=1e-6
        )
        assert after[name][new.token_to_id("zzzebra")].numpy() == pytest.approx(before[name].mean(0).numpy(), abs=1e-6)
    assert all(nearly_equal(after[name], before[name]) for name in before if name not in (EMBEDDING, BIAS))
    for word in (split_word, "zzzebra", "cat"):
        assert new.encode(word).texts == [word]
        assert new.encode(f"the {word}, {word.upper()}.").texts == ["the", word, ",", word, "."]
    (note,) = [note for note in run.metadata["notes"] if "added" in note]
    assert "2 of 3 words" in note
    assert "1 had been unknown" in note
    assert Run(run).fill("the ____ sat").filled_text


def test_adding_known_words_leaves_tokenizer_and_weights_unchanged(parents: Callable[..., RunFolder], tmp_path: Path):
    parent = parents()
    run = continued(parent, tmp_path, ["cat", "dog", "Cat"], **NO_CHANGE)
    assert run.tokenizer.digest == parent.tokenizer.digest
    assert all(nearly_equal(tensor, tensors(parent)[name]) for name, tensor in tensors(run).items())
    assert any(note.startswith("0 of 3 words") for note in run.metadata["notes"])


def test_warm_start_from_a_run_with_added_words_adds_more(parents: Callable[..., RunFolder], tmp_path: Path):
    (tmp_path / "more").mkdir()
    first = continued(parents(), tmp_path, ["zebra"])
    second = continued(first, tmp_path / "more", ["zebra", "giraffe"])
    assert second.tokenizer.vocab_size == first.tokenizer.vocab_size + 1
    assert second.tokenizer.encode("zebra giraffe").texts == ["zebra", "giraffe"]


def test_adding_words_to_byte_level_bpe_is_refused_with_hint(parents: Callable[..., RunFolder], tmp_path: Path):
    with pytest.raises(InputError, match="bytepair") as error:
        continued(parents("roberta"), tmp_path, ["zebra"])
    assert "without adding" in str(error.value.hint)


def test_word_that_cannot_be_added_is_refused_with_its_line(parents: Callable[..., RunFolder], tmp_path: Path):
    with pytest.raises(InputError, match="new-york") as error:
        continued(parents(), tmp_path, ["zebra", "", "yak", "new-york", "ant"])
    assert error.value.line in (None, 4)
    assert not (tmp_path / "run").exists()


# -- refused settings


@pytest.mark.parametrize(
    "changes", [{"width": 64}, {"depth": 3}, {"depth": 1}, {"context": 50}, {"inner": 64}, {"heads": 4}], ids=str
)
def test_warm_start_refuses_fields_that_do_not_fit_the_weights(
    changes: dict[str, int], parents: Callable[..., RunFolder], tmp_path: Path
):
    """Other shapes, missing or extra layers, and another number of heads, which changes the meaning of the weights."""
    with pytest.raises(InputError) as error:
        continued(parents(), tmp_path, **changes)
    assert "leave out" in str(error.value.hint)
    assert not (tmp_path / "run").exists()


def test_warm_start_refuses_size_tokenizer_and_model_of_its_own(parents: Callable[..., RunFolder], tmp_path: Path):
    parent, file = parents(), new_text(tmp_path)
    init_from = InitFrom.for_run(str(parent.path))
    for options in ({"size": "pocket"}, {"tokenizer": "words"}, {"vocabulary": 500}):
        with pytest.raises(InputError, match="--from") as error:
            planning.plan_pretraining("bert", [file], init_from=init_from, **options)
        assert error.value.hint
    with pytest.raises(InputError, match="not of albert"):
        planning.plan_pretraining("albert", [file], init_from=init_from)


def test_warm_start_refuses_a_corpus_of_another_tokenizer(parents: Callable[..., RunFolder], tmp_path: Path):
    other = train_small_run("bert", tmp_path, tokenizer="words", steps=1)
    init_from = InitFrom.for_run(str(parents().path))
    new_plan = planning.plan_pretraining(
        "bert", [other.metadata["data"]["folder"]], settings={"steps": 1}, init_from=init_from
    )
    with pytest.raises(InputError, match="tokenizer"):
        training_run.run_pretraining(new_plan, tmp_path / "run")


def test_warm_start_from_count_based_model_is_refused_with_hint(parents: Callable[..., RunFolder]):
    with pytest.raises(InputError, match="counts") as error:
        InitFrom.for_run(str(parents("ngram", steps=1).path))
    assert error.value.hint


def test_warm_start_from_missing_run_is_refused_with_hint(tmp_path: Path):
    with pytest.raises(InputError) as error:
        InitFrom.for_run(str(tmp_path / "nowhere"))
    assert error.value.hint


class InterruptAtStep10(TrainingCallback):
    """Sends SIGINT from step 10 on."""

    def on_progress(self, report: ProgressReport) -> None:
        if report.step >= 10:
            os.kill(os.getpid(), signal.SIGINT)


def test_warm_start_from_unfinished_run_works_or_is_refused(tmp_path: Path):
    with pytest.raises(UserInterrupt):
        train_small_run("bert", tmp_path, steps=40, callback=InterruptAtStep10())
    with input_error_allowed():
        InitFrom.for_run(str(tmp_path / "run"))


def test_warm_start_from_a_parent_with_changed_weights_is_refused(parents: Callable[..., RunFolder], tmp_path: Path):
    shutil.copytree(parents().path, tmp_path / "parent")
    new_plan = plan(RunFolder.open(tmp_path / "parent"), tmp_path)
    shutil.rmtree(tmp_path / "parent")
    shutil.copytree(parents("bert", seed=5).path, tmp_path / "parent")
    assert new_plan.init_from is not None
    with pytest.raises(InputError, match="other weights") as error:
        training_run.run_pretraining(
            replace(new_plan, init_from=InitFrom.from_dict(asdict(new_plan.init_from))), tmp_path / "run"
        )
    assert error.value.hint


# -- interruption and reproducibility


def test_warm_start_killed_before_its_first_checkpoint_resumes_bit_for_bit(
    parents: Callable[..., RunFolder], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    uninterrupted = continued(parents(), tmp_path, ["zebra"], steps=6)
    for how in ("resume", "again"):
        folder, new_plan = tmp_path / how, plan(parents(), tmp_path, ["zebra"], steps=6)
        with monkeypatch.context() as patch:
            patch.setattr(Trainer, "_step", _raise_memory_error)
            with pytest.raises(MemoryError):
                training_run.run_pretraining(new_plan, folder)
        assert not list(folder.glob("checkpoints/*/weights.safetensors"))
        assert RunFolder.open(folder).tokenizer.encode("zebra").texts == ["zebra"]
        run = (
            training_run.resume_pretraining(folder)
            if how == "resume"
            else training_run.run_pretraining(new_plan, folder)
        )
        assert weights_digest(run) == weights_digest(uninterrupted)


def _raise_memory_error(*_: object) -> None:
    raise MemoryError


def test_interrupted_warm_start_resumes_bit_for_bit(parents: Callable[..., RunFolder], tmp_path: Path):
    options = {"steps": 25, "words": ["zebra"]}
    uninterrupted = continued(parents(), tmp_path, **options)
    with pytest.raises(UserInterrupt):
        training_run.run_pretraining(
            plan(parents(), tmp_path, **options), tmp_path / "broken", callback=InterruptAtStep10()
        )
    assert weights_digest(training_run.resume_pretraining(tmp_path / "broken")) == weights_digest(uninterrupted)


def test_resume_with_a_checkpoint_does_not_need_the_parent(parents: Callable[..., RunFolder], tmp_path: Path):
    """Resuming needs nothing but the folder of the run."""
    shutil.copytree(parents().path, tmp_path / "parent")
    parent = RunFolder.open(tmp_path / "parent")
    with pytest.raises(UserInterrupt):
        training_run.run_pretraining(
            plan(parent, tmp_path, steps=25), tmp_path / "broken", callback=InterruptAtStep10()
        )
    shutil.rmtree(tmp_path / "parent")
    assert training_run.resume_pretraining(tmp_path / "broken").is_finished


def test_resume_without_parent_and_checkpoint_is_refused_with_hint(
    parents: Callable[..., RunFolder], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    shutil.copytree(parents().path, tmp_path / "parent")
    with monkeypatch.context() as patch, contextlib.suppress(MemoryError):
        patch.setattr(Trainer, "_step", _raise_memory_error)
        training_run.run_pretraining(plan(RunFolder.open(tmp_path / "parent"), tmp_path), tmp_path / "broken")
    shutil.rmtree(tmp_path / "parent")
    with pytest.raises(InputError, match="no such run") as error:
        training_run.resume_pretraining(tmp_path / "broken")
    assert error.value.hint


def test_same_warm_start_reopens_the_run_and_other_words_are_refused(parents: Callable[..., RunFolder], tmp_path: Path):
    first = continued(parents(), tmp_path, ["zebra"])
    started = first.metadata["began"]
    assert continued(parents(), tmp_path, ["zebra"]).metadata["began"] == started
    for words in (["zebra", "yak"], None):
        with pytest.raises(InputError, match="another run"):
            continued(parents(), tmp_path, words)


@pytest.mark.sample(8)
def test_rerun_of_warm_start_is_bit_identical(parents: Callable[..., RunFolder], tmp_path: Path):
    run = continued(parents(), tmp_path, ["zebra"], steps=8)
    repeated = training_run.repeat_run(run.path, tmp_path / "again")
    assert weights_digest(repeated) == weights_digest(run)
    assert repeated.tokenizer.digest == run.tokenizer.digest


def test_recorded_command_of_warm_start_names_parent_and_added_words(parents: Callable[..., RunFolder], tmp_path: Path):
    command = shlex.split(continued(parents(), tmp_path, ["zebra"]).metadata["command"])
    assert command[command.index("--from") + 1] == str(parents().path)
    assert "--add-words" in command
