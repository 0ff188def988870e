"""Training that goes on from another run: its weights to begin with, words added, and what cannot be is refused."""

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
from forebear.experiments import pipeline
from forebear.experiments import plan as planning
from forebear.experiments.warm_start import InitFrom
from forebear.inference.run import Run
from forebear.models.bert import BertSpec
from forebear.training.run_folder import RunFolder
from forebear.training.trainer import ProgressReport, Trainer, TrainingCallback
from small_runs import allowed_to_refuse, text, trained, weights

STILL = {"steps": 1, "rate": 1e-35, "evaluate_every": 100}  # a step that changes no number
TABLE, BIAS = "encoder.embedding.token.weight", "heads.token.bias"


@pytest.fixture(scope="module")
def parents(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., RunFolder]:
    """Small trained runs, each made once."""
    folder, made = tmp_path_factory.mktemp("parents"), {}

    def parent(name: str = "bert", **changes: Any) -> RunFolder:
        key = f"{name}-{sorted(changes.items())}"
        if key not in made:
            place = folder / str(len(made))
            place.mkdir()
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("FOREBEAR_CACHE", str(place / "cache"))
                made[key] = trained(name, place, **{"steps": 12, **changes})
        return made[key]

    return parent


def texts(folder: Path) -> str:
    """Another text than that of the parents."""
    file = folder / "more.txt"
    file.write_text(text(30).replace("cat", "zebra").replace("hill", "pond"), encoding="utf-8")
    return str(file)


def plan(parent: RunFolder, folder: Path, words: list[str] | None = None, **changes: Any) -> planning.PretrainPlan:
    listed = None
    if words is not None:
        listed = folder / "words.txt"
        listed.write_text("\n".join(words), encoding="utf-8")
    name = parent.metadata["milestone"]
    own = {"batch": 128, "threads": 1, "held_out": 0.15, "steps": 3, **changes}
    beginning = InitFrom.for_run(str(parent.path), None if listed is None else str(listed))
    return planning.plan_pretraining(name, [texts(folder)], settings=own, init_from=beginning)


def continued(parent: RunFolder, folder: Path, words: list[str] | None = None, **changes: Any) -> RunFolder:
    return pipeline.run_pretraining(plan(parent, folder, words, **changes), folder / "run")


def tensors(run: RunFolder) -> dict[str, torch.Tensor]:
    return load_file(run.path / "weights.safetensors")


def alike(one: torch.Tensor, other: torch.Tensor) -> bool:
    """But for what a step of STILL changes, which no number but 0 can tell."""
    return one.shape == other.shape and bool((one - other).abs().max() < 1e-30)


# -- the beginning


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", ["bert", "albert", "roberta", "gpt2"])
def test_training_begins_with_the_weights_of_the_run(name: str, parents: Callable[..., RunFolder], tmp_path: Path):
    parent = parents(name)
    run = continued(parent, tmp_path, **STILL)
    before, after = tensors(parent), tensors(run)
    assert before.keys() == after.keys()
    assert all(alike(before[tensor], after[tensor]) for tensor in before)
    assert run.metadata["fields"] == parent.metadata["fields"]
    assert run.metadata["tokenizer"] == parent.metadata["tokenizer"]
    assert run.metadata["parent"] == str(parent.path)
    assert Path(run.metadata["data"]["source"]["paths"][0]).name == "more.txt"


def test_training_then_goes_on_with_the_new_text(parents: Callable[..., RunFolder], tmp_path: Path):
    """A few steps from there know more than as many from nothing; and more slowly than a run of its own would."""
    parent = parents("gpt2", steps=60)
    run = continued(parent, tmp_path, steps=10)
    fresh = trained("gpt2", tmp_path, to="fresh", steps=10)
    told = [one.metadata["metrics"]["held_out"]["nats_per_token"] for one in (run, fresh)]
    assert told[0] < told[1]
    assert weights(run) != weights(parent)
    assert 0 < run.recipe.rate < parent.spec.default_recipe()["rate"]


def test_the_parent_is_left_as_it_was(parents: Callable[..., RunFolder], tmp_path: Path):
    parent = parents()
    before = {file: file.read_bytes() for file in parent.path.rglob("*") if file.is_file()}
    continued(parent, tmp_path, ["zebra"])
    assert {file: file.read_bytes() for file in parent.path.rglob("*") if file.is_file()} == before


def test_a_head_that_the_run_had_not_begins_from_nothing(parents: Callable[..., RunFolder], tmp_path: Path):
    parent = parents("bert", pairs="none")
    run = continued(parent, tmp_path, pairs="next", **STILL)
    before, after = tensors(parent), tensors(run)
    fresh = BertSpec(**run.metadata["fields"]).build(run.tokenizer).initialize(run.recipe.seed).tensors()
    assert {name.split(".")[1] for name in after.keys() - before.keys()} == {"pair"}
    for name, tensor in after.items():
        assert alike(tensor, before[name] if name in before else fresh[name])
    assert any("no head pair" in note for note in run.metadata["notes"])
    assert set(Run(run).heads) == {"token", "pair"}


def test_a_head_that_is_not_wanted_is_left_out_and_said(parents: Callable[..., RunFolder], tmp_path: Path):
    run = continued(parents(), tmp_path, pairs="none", **STILL)
    assert set(Run(run).heads) == {"token"}
    assert any("pair" in note for note in run.metadata["notes"])


# -- added words


def test_added_words_begin_as_the_mean_of_their_pieces(parents: Callable[..., RunFolder], tmp_path: Path):
    """Beside rows looked up by hand: what was cut into pieces, what was unknown, what was there already."""
    parent = parents()
    old = parent.tokenizer
    cut = next(word for word in ("therat", "numberis", "saidoverthe", "bytheriver") if len(old.encode(word).ids) > 1)
    assert old.encode("zzzebra").ids.tolist() == [old.unk_id]
    assert len(old.encode("cat").ids) == 1
    run = continued(parent, tmp_path, [cut, "zzzebra", "cat", cut], **STILL)
    before, after, new = tensors(parent), tensors(run), run.tokenizer
    assert new.vocab_size == old.vocab_size + 2
    assert new.vocabulary()[: old.vocab_size] == old.vocabulary()
    pieces = old.encode(cut).ids.tolist()
    for name in (TABLE, BIAS):
        assert alike(after[name][: old.vocab_size], before[name])
        assert after[name][new.token_to_id(cut)].numpy() == pytest.approx(
            before[name][pieces].mean(0).numpy(), abs=1e-6
        )
        assert after[name][new.token_to_id("zzzebra")].numpy() == pytest.approx(before[name].mean(0).numpy(), abs=1e-6)
    assert all(alike(after[name], before[name]) for name in before if name not in (TABLE, BIAS))
    for word in (cut, "zzzebra", "cat"):
        assert new.encode(word).texts == [word]
        assert new.encode(f"the {word}, {word.upper()}.").texts == ["the", word, ",", word, "."]
    (note,) = [note for note in run.metadata["notes"] if "added" in note]
    assert "2 of 3 words" in note
    assert "1 had been unknown" in note
    assert Run(run).fill("the ____ sat").filled_text


def test_words_that_are_known_already_change_nothing(parents: Callable[..., RunFolder], tmp_path: Path):
    parent = parents()
    run = continued(parent, tmp_path, ["cat", "dog", "Cat"], **STILL)
    assert run.tokenizer.digest == parent.tokenizer.digest
    assert all(alike(tensor, tensors(parent)[name]) for name, tensor in tensors(run).items())
    assert any(note.startswith("0 of 3 words") for note in run.metadata["notes"])


def test_a_run_with_added_words_can_be_gone_on_from(parents: Callable[..., RunFolder], tmp_path: Path):
    (tmp_path / "more").mkdir()
    one = continued(parents(), tmp_path, ["zebra"])
    other = continued(one, tmp_path / "more", ["zebra", "giraffe"])
    assert other.tokenizer.vocab_size == one.tokenizer.vocab_size + 1
    assert other.tokenizer.encode("zebra giraffe").texts == ["zebra", "giraffe"]


def test_byte_pieces_take_no_words(parents: Callable[..., RunFolder], tmp_path: Path):
    with pytest.raises(InputError, match="bytepair") as caught:
        continued(parents("roberta"), tmp_path, ["zebra"])
    assert "without adding" in str(caught.value.hint)


def test_a_word_that_cannot_be_added_is_named_by_its_line(parents: Callable[..., RunFolder], tmp_path: Path):
    with pytest.raises(InputError, match="new-york") as caught:
        continued(parents(), tmp_path, ["zebra", "", "yak", "new-york", "ant"])
    assert caught.value.line in (None, 4)
    assert not (tmp_path / "run").exists()


# -- what cannot be


@pytest.mark.parametrize(
    "changes", [{"width": 64}, {"depth": 3}, {"depth": 1}, {"context": 50}, {"inner": 64}, {"heads": 4}], ids=str
)
def test_fields_that_the_weights_do_not_fit_are_refused(
    changes: dict[str, int], parents: Callable[..., RunFolder], tmp_path: Path
):
    """Other shapes, layers lacking or left over, and other heads, for which the same numbers mean another thing."""
    with pytest.raises(InputError) as caught:
        continued(parents(), tmp_path, **changes)
    assert "leave out" in str(caught.value.hint)
    assert not (tmp_path / "run").exists()


def test_what_the_run_decides_is_not_asked_for_again(parents: Callable[..., RunFolder], tmp_path: Path):
    parent, file = parents(), texts(tmp_path)
    beginning = InitFrom.for_run(str(parent.path))
    for how in ({"size": "pocket"}, {"tokenizer": "words"}, {"vocabulary": 500}):
        with pytest.raises(InputError, match="--from") as caught:
            planning.plan_pretraining("bert", [file], init_from=beginning, **how)
        assert caught.value.hint
    with pytest.raises(InputError, match="not of albert"):
        planning.plan_pretraining("albert", [file], init_from=beginning)


def test_a_corpus_of_another_tokenizer_is_refused(parents: Callable[..., RunFolder], tmp_path: Path):
    other = trained("bert", tmp_path, tokenizer="words", steps=1)
    beginning = InitFrom.for_run(str(parents().path))
    what = planning.plan_pretraining(
        "bert", [other.metadata["data"]["folder"]], settings={"steps": 1}, init_from=beginning
    )
    with pytest.raises(InputError, match="tokenizer"):
        pipeline.run_pretraining(what, tmp_path / "run")


def test_what_counts_cannot_be_gone_on_from(parents: Callable[..., RunFolder]):
    with pytest.raises(InputError, match="counts") as caught:
        InitFrom.for_run(str(parents("ngram", steps=1).path))
    assert caught.value.hint


def test_a_run_that_is_not_there(tmp_path: Path):
    with pytest.raises(InputError) as caught:
        InitFrom.for_run(str(tmp_path / "nowhere"))
    assert caught.value.hint


class Stopping(TrainingCallback):
    """Interrupts once a step is reached."""

    def on_progress(self, report: ProgressReport) -> None:
        if report.step >= 10:
            os.kill(os.getpid(), signal.SIGINT)


def test_a_run_that_is_not_finished_is_taken_as_it_is_or_refused(tmp_path: Path):
    with pytest.raises(UserInterrupt):
        trained("bert", tmp_path, steps=40, watcher=Stopping())
    with allowed_to_refuse():
        InitFrom.for_run(str(tmp_path / "run"))


def test_a_parent_that_has_changed_is_noticed(parents: Callable[..., RunFolder], tmp_path: Path):
    shutil.copytree(parents().path, tmp_path / "parent")
    what = plan(RunFolder.open(tmp_path / "parent"), tmp_path)
    shutil.rmtree(tmp_path / "parent")
    shutil.copytree(parents("bert", seed=5).path, tmp_path / "parent")
    assert what.init_from is not None
    with pytest.raises(InputError, match="other weights") as caught:
        pipeline.run_pretraining(replace(what, init_from=InitFrom.from_dict(asdict(what.init_from))), tmp_path / "run")
    assert caught.value.hint


# -- broken off


def test_one_killed_before_its_first_checkpoint_goes_on(
    parents: Callable[..., RunFolder], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    whole = continued(parents(), tmp_path, ["zebra"], steps=6)
    for how in ("resume", "again"):
        folder, what = tmp_path / how, plan(parents(), tmp_path, ["zebra"], steps=6)
        with monkeypatch.context() as patch:
            patch.setattr(Trainer, "_step", _killed)
            with pytest.raises(MemoryError):
                pipeline.run_pretraining(what, folder)
        assert not list(folder.glob("checkpoints/*/weights.safetensors"))
        assert RunFolder.open(folder).tokenizer.encode("zebra").texts == ["zebra"]
        run = pipeline.resume_pretraining(folder) if how == "resume" else pipeline.run_pretraining(what, folder)
        assert weights(run) == weights(whole)


def _killed(*_: object) -> None:
    raise MemoryError


def test_one_that_was_interrupted_ends_where_an_unbroken_one_does(parents: Callable[..., RunFolder], tmp_path: Path):
    how = {"steps": 25, "words": ["zebra"]}
    whole = continued(parents(), tmp_path, **how)
    with pytest.raises(UserInterrupt):
        pipeline.run_pretraining(plan(parents(), tmp_path, **how), tmp_path / "broken", watcher=Stopping())
    assert weights(pipeline.resume_pretraining(tmp_path / "broken")) == weights(whole)


def test_what_has_a_checkpoint_needs_its_parent_no_more(parents: Callable[..., RunFolder], tmp_path: Path):
    """A run is a folder: nothing else is needed to go on with it."""
    shutil.copytree(parents().path, tmp_path / "parent")
    parent = RunFolder.open(tmp_path / "parent")
    with pytest.raises(UserInterrupt):
        pipeline.run_pretraining(plan(parent, tmp_path, steps=25), tmp_path / "broken", watcher=Stopping())
    shutil.rmtree(tmp_path / "parent")
    assert pipeline.resume_pretraining(tmp_path / "broken").is_finished


def test_without_its_parent_and_without_a_checkpoint_it_says_so(
    parents: Callable[..., RunFolder], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    shutil.copytree(parents().path, tmp_path / "parent")
    with monkeypatch.context() as patch, contextlib.suppress(MemoryError):
        patch.setattr(Trainer, "_step", _killed)
        pipeline.run_pretraining(plan(RunFolder.open(tmp_path / "parent"), tmp_path), tmp_path / "broken")
    shutil.rmtree(tmp_path / "parent")
    with pytest.raises(InputError, match="no such run") as caught:
        pipeline.resume_pretraining(tmp_path / "broken")
    assert caught.value.hint


def test_the_same_again_is_opened_and_other_words_are_another_run(parents: Callable[..., RunFolder], tmp_path: Path):
    one = continued(parents(), tmp_path, ["zebra"])
    began = one.metadata["began"]
    assert continued(parents(), tmp_path, ["zebra"]).metadata["began"] == began
    for other in (["zebra", "yak"], None):
        with pytest.raises(InputError, match="another run"):
            continued(parents(), tmp_path, other)


@pytest.mark.sample(8)
def test_a_rerun_repeats_every_bit(parents: Callable[..., RunFolder], tmp_path: Path):
    run = continued(parents(), tmp_path, ["zebra"], steps=8)
    again = pipeline.repeat_run(run.path, tmp_path / "again")
    assert weights(again) == weights(run)
    assert again.tokenizer.digest == run.tokenizer.digest


def test_the_command_in_its_folder_says_what_was_begun_with(parents: Callable[..., RunFolder], tmp_path: Path):
    command = shlex.split(continued(parents(), tmp_path, ["zebra"]).metadata["command"])
    assert command[command.index("--from") + 1] == str(parents().path)
    assert "--add-words" in command
