"""What people stumble over with models that count: each is told in words, with a remedy that holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import forebear as fb
from command_line import Captured, refused, said, told
from forebear.cli.main import main
from forebear.errors import InputError
from forebear.experiments.pipeline import TrainingCallback, run_pretraining
from forebear.experiments.plan import plan_pretraining
from forebear.inference.run import Run
from forebear.interop.convert import export_run, import_model
from forebear.statistical.ngram import language_model
from forebear.statistical.ngram.hash_table import NgramStore
from forebear.training.load_model import NGRAM_STORE_FILE, load_counted_model
from forebear.training.run_folder import RunFolder

TAGGED = "the/d cat/n sat/v\na/d dog/n ran/v\nthe/d dog/n sat/v\na/d cat/n ran/v\n" * 5
LINES = "the cat , said he , sat .\nit is <unk> , so <unk> .\nand so on .\n" * 12


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREBEAR_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"smoothing": "given"}, "nothing to count"),
        ({"k": "0.1"}, "--k means nothing beside --smoothing kneser-ney"),
        ({"order": "3", "prune": "0 0 1 2"}, "has 4 numbers"),
        ({"prune": "1"}, "single tokens"),
        ({"prune": "0 2 1"}, "without the shorter ones"),
        ({"prune": "0 x"}, "--prune"),
        ({"prune": "0 1", "smoothing": "none"}, "has no use for --prune"),
        ({"order": "11"}, "order 11"),
    ],
)
def test_settings_that_make_no_model_are_refused_before_anything_is_written(settings: dict[str, str], what: str):
    with pytest.raises(InputError, match=what):
        plan_pretraining("ngram", ["b"], settings=settings)


def test_features_that_never_occur_so_often(tmp_path: Path):
    (tmp_path / "tagged.txt").write_text(TAGGED, encoding="utf-8")
    with pytest.raises(InputError, match="no feature occurs 99 times"):
        fb.pretrain("crf", tmp_path / "tagged.txt", to=tmp_path / "run", min_count=99)


def test_fields_of_states_mean_nothing_where_tags_are_the_states(tmp_path: Path):
    (tmp_path / "tagged.txt").write_text(TAGGED, encoding="utf-8")
    with pytest.raises(InputError, match="its states are the tags"):
        fb.pretrain("hmm", tmp_path / "tagged.txt", to=tmp_path / "run", format="tagged", states=5)


def test_hmm_takes_a_word_and_its_tag_a_line(tmp_path: Path):
    rows = TAGGED.replace("/", "\t").replace(" ", "\n").split("\n")
    blocks = ["\n".join(rows[at : at + 3]) for at in range(0, len(rows) - 1, 3)]
    (tmp_path / "tagged.conll").write_text("\n\n".join(blocks) + "\n", encoding="utf-8")
    run = fb.pretrain("hmm", tmp_path / "tagged.conll", to=tmp_path / "run", format="tagged")
    assert run.tag("the dog ran")[0].tags == ("d", "n", "v")


@pytest.mark.parametrize("milestone", ["hmm", "crf"])
def test_words_with_tags_are_seen_without_being_told(milestone: str, tmp_path: Path, capsys: Captured):
    (tmp_path / "some.txt").write_text(TAGGED, encoding="utf-8")
    made = told(capsys, "pretrain", milestone, tmp_path / "some.txt", "--to", tmp_path / "run")
    assert made["task"]["tags"] == ["d", "n", "v"]
    (tmp_path / "some.conll").write_text(TAGGED.replace("\n", "\n\n").replace(" ", "\n").replace("/", " "))
    made = told(capsys, "pretrain", milestone, tmp_path / "some.conll", "--to", tmp_path / "other")
    assert made["task"]["tags"] == ["d", "n", "v"]


def test_tags_are_text_where_that_is_asked_for(tmp_path: Path, capsys: Captured):
    (tmp_path / "some.txt").write_text(TAGGED, encoding="utf-8")
    command = ["pretrain", "hmm", tmp_path / "some.txt", "--to", tmp_path / "run", "--states", "3"]
    assert "learned as it stands: --format text" in refused(capsys, *command)
    assert "task" not in told(capsys, *command, "--format", "text", "--epochs", "1")
    assert main(["pretrain", "hmm", str(tmp_path / "some.txt"), "--to", str(tmp_path / "tags")]) == 0
    assert "so hmm learns to tag (as text: --format text)" in capsys.readouterr().err


def test_a_mistake_in_a_tagged_file_names_an_option_that_there_is(tmp_path: Path):
    (tmp_path / "tagged.txt").write_text(TAGGED * 9 + "the/d cat sat/v\n", encoding="utf-8")
    with pytest.raises(InputError, match="has no tag") as raised:
        fb.pretrain("crf", tmp_path / "tagged.txt", to=tmp_path / "run")
    assert "--on-bad-rows skip" in raised.value.hint
    fb.pretrain("crf", tmp_path / "tagged.txt", to=tmp_path / "run", on_bad_rows="skip", epochs=1)


def test_states_that_hold_something_impossible_learn_all_the_same(tmp_path: Path):
    (tmp_path / "text.txt").write_text("\n\n".join(f"a b c w{i} ." for i in range(60)), encoding="utf-8")
    run = fb.pretrain("hmm", tmp_path / "text.txt", to=tmp_path / "run", states=3, smoothing=0.0, epochs=2)
    assert run.metadata["held_out_loss"] is None
    assert run.metadata["step"] > 0


def test_words_that_look_like_marks_come_back_as_words(tmp_path: Path):
    """WikiText writes <unk>: a word of the text, and not what the model takes for unknown."""
    text = tmp_path / "text.txt"
    text.write_text(LINES, encoding="utf-8")
    run = fb.pretrain("ngram", text, to=tmp_path / "run", order=3)
    export_run(run, "arpa", str(tmp_path / "model.arpa"))
    assert any(r"\u003cunk>" in note for note in run.notes)
    again = Run(import_model(str(tmp_path / "model.arpa"), str(tmp_path / "back")))
    told, back = run.measure(text), again.measure(text)
    assert back.unknown_tokens == told.unknown_tokens == 0
    assert back.units == told.units == 36  # lines
    assert back.perplexity == pytest.approx(told.perplexity, rel=1e-5)


def test_stupid_backoff_tells_what_it_was_divided_by(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "text.txt").write_text(LINES, encoding="utf-8")
    fb.pretrain("ngram", tmp_path / "text.txt", to=tmp_path / "run", order=2, smoothing="stupid")
    assert "÷" in said(capsys, "next", tmp_path / "run", "the", "--why", "--top", "1")


@pytest.mark.parametrize(("unit", "units"), [("sentence", 6), ("document", 3)])
def test_what_is_scored_by_itself_is_told(unit: str, units: int, tmp_path: Path, capsys: Captured):
    text = tmp_path / "text.txt"
    text.write_text("The cat sat here. The dog ran off.\n\n" * 3, encoding="utf-8")
    run = str(tmp_path / "run")
    assert main(["pretrain", "hmm", str(text), "--states", "2", "--epochs", "1", "--unit", unit, "--to", run]) == 0
    measured = told(capsys, "measure", run, text)
    assert (measured["unit"], measured["units"], measured["documents"]) == (unit, units, 3)
    drawn = said(capsys, "measure", run, text)
    assert f"{unit}s scored, each by itself" in drawn
    assert ("pays for its end" in drawn) is (unit == "sentence")
    scored = told(capsys, "score", run, "The cat sat. The dog ran.", "The cat sat.")
    assert scored.get("several_sentences") == (1 if unit == "sentence" else None)
    assert main(["score", run, "The cat sat. The dog ran."]) == 0
    assert ("1 text holds several sentences" in capsys.readouterr().err) is (unit == "sentence")


def test_words_are_right_of_one_and_of_many(tmp_path: Path, capsys: Captured):
    (tmp_path / "some.txt").write_text(TAGGED, encoding="utf-8")
    run, out = tmp_path / "run", tmp_path / "out.conll"
    command = ["pretrain", "crf", tmp_path / "some.txt", "--to", run]
    assert "--batch means nothing to crf, whose best weights are searched" in refused(capsys, *command, "--batch", "9")
    told(capsys, *command)
    assert "cannot be asked what comes next" in refused(capsys, "next", run, "the")
    assert "cannot be asked to generate" in refused(capsys, "generate", run, "the")
    (tmp_path / "in.txt").write_text("the cat sat\n", encoding="utf-8")
    assert said(capsys, "tag", run, "--in", tmp_path / "in.txt", "--out", out).startswith("1 text: ")
    assert said(capsys, "tag", run, "the cat", "--in", tmp_path / "in.txt", "--out", out).startswith("2 texts: ")


@pytest.mark.parametrize("smoothing", ["none", "kneser-ney"])
def test_what_is_impossible_is_so_after_a_journey_through_arpa(smoothing: str, tmp_path: Path, capsys: Captured):
    (tmp_path / "text.txt").write_text(LINES, encoding="utf-8")
    place = tmp_path / "run.arpa"
    run = fb.pretrain("ngram", tmp_path / "text.txt", to=tmp_path / "run", smoothing=smoothing, order=3)
    notes = told(capsys, "export", tmp_path / "run", "--format", "arpa", "--to", place)["notes"]
    again = Run(import_model(str(place), str(tmp_path / "again")))
    texts = ["the cat , said he , sat .", "he sat the cat", "it is so on ."]
    own, back = run.score(texts), again.score(texts)
    for one, other in zip(own, back, strict=True):
        assert other.log_prob == pytest.approx(one.log_prob, rel=1e-6)
    strict = smoothing == "none"
    assert (own[1].log_prob == -float("inf")) is strict
    assert any("KenLM takes it" in note for note in notes) is strict
    assert any("stands for a probability" in note for note in again.metadata["notes"]) is strict


def counted_run(folder: Path) -> RunFolder:
    (folder / "lines.txt").write_text(LINES, encoding="utf-8")
    fb.pretrain("ngram", folder / "lines.txt", to=folder / "run")
    return RunFolder.open(folder / "run")


def test_a_run_that_stopped_while_counting_says_so(tmp_path: Path):
    run = counted_run(tmp_path)
    assert not [note for note in run.metadata["notes"] if "up to there" in note]
    for state, stopped in (("finished", 0), ("trained", 0), ("interrupted", 1), ("training", 1)):
        with run.lock():
            run.update(state=state)
        notes = load_counted_model(run)[1]
        assert len(notes) == stopped
        assert all("knows the text up to there alone" in note and f"--resume {run.path}" in note for note in notes)


def test_what_a_killed_process_left_is_taken_away(tmp_path: Path):
    run = counted_run(tmp_path)
    (run.path / ".counts-abc").mkdir()
    (run.path / f".{NGRAM_STORE_FILE}.12.tmp").write_bytes(b"half")
    load_counted_model(run)
    assert not [file.name for file in run.path.iterdir() if file.name.startswith((".counts", f".{NGRAM_STORE_FILE}"))]


@pytest.mark.parametrize("place", [0.2, 0.5, 0.99])
def test_a_table_that_was_damaged_is_made_again(place: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Each byte of it counts; who opens it unharmed reads it only if it was touched."""
    monkeypatch.setattr(language_model, "BLOCK_NGRAMS", -1)
    run = counted_run(tmp_path)
    file, right = run.path / NGRAM_STORE_FILE, load_counted_model(run)[0].probabilities()
    whole = file.read_bytes()
    for spoilt in (bytes([whole[int(place * len(whole))] ^ 1]), bytes(64)):
        at = int(place * len(whole))
        file.write_bytes(whole[:at] + spoilt + whole[at + len(spoilt) :])
        if file.read_bytes() == whole:  # there was nothing but zeros
            continue
        network, notes = load_counted_model(run)
        assert any("damaged" in note and "made again" in note for note in notes)
        assert file.read_bytes() == whole
        assert network.probabilities().lookup([5]) == right.lookup([5])
    load_counted_model(run)  # and remembers that it is whole
    verified: list[Path] = []
    monkeypatch.setattr(NgramStore, "verify", lambda self: verified.append(self.file))
    assert not load_counted_model(run)[1]
    assert not verified
    file.touch()
    assert not load_counted_model(run)[1]
    assert not load_counted_model(run)[1]
    assert verified == [file]


def test_a_time_is_not_heeded_where_all_is_counted_once(tmp_path: Path):
    (tmp_path / "lines.txt").write_text(LINES, encoding="utf-8")
    heard: list[str] = []
    watcher = TrainingCallback()
    watcher.on_note = heard.append  # pyright: ignore[reportAttributeAccessIssue]
    run_pretraining(
        plan_pretraining("ngram", [str(tmp_path / "lines.txt")], settings={"time": "1s"}),
        tmp_path / "run",
        watcher=watcher,
    )
    assert any("--time is not heeded" in note for note in heard)


@pytest.mark.parametrize("texts", ["a list", [1], None])
def test_totals_are_asked_of_several_texts(texts: Any, tmp_path: Path):
    counted_run(tmp_path)
    with pytest.raises(InputError, match="several texts"):
        fb.load(tmp_path / "run").totals(texts)
