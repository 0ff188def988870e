"""Common mistakes with n-gram models, HMMs and CRFs: each has a message with a hint that works."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import forebear as fb
from command_line import Captured, json_output, printed_output, refusal_message
from forebear.cli.main import main
from forebear.errors import InputError
from forebear.experiments.plan import plan_pretraining
from forebear.experiments.training_run import TrainingCallback, run_pretraining
from forebear.inference.run import Run
from forebear.interop.convert import export_run, import_model
from forebear.statistical.ngram import language_model
from forebear.statistical.ngram.hash_table import NgramStore
from forebear.training.load_model import load_counted_model
from forebear.training.ngram_store import NGRAM_STORE_FILE
from forebear.training.run_folder import RunFolder

TAGGED_TEXT = "the/d cat/n sat/v\na/d dog/n ran/v\nthe/d dog/n sat/v\na/d cat/n ran/v\n" * 5
TOKENIZED_LINES = "the cat , said he , sat .\nit is <unk> , so <unk> .\nand so on .\n" * 12


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREBEAR_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize(
    ("settings", "message"),
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
def test_ngram_plan_refuses_invalid_settings_before_reading_text(settings: dict[str, str], message: str):
    with pytest.raises(InputError, match=message):
        plan_pretraining("ngram", ["b"], settings=settings)


def test_crf_with_too_high_min_count_is_refused(tmp_path: Path):
    (tmp_path / "tagged.txt").write_text(TAGGED_TEXT, encoding="utf-8")
    with pytest.raises(InputError, match="no feature occurs 99 times"):
        fb.pretrain("crf", tmp_path / "tagged.txt", to=tmp_path / "run", min_count=99)


def test_hmm_trained_on_tags_refuses_a_number_of_states(tmp_path: Path):
    (tmp_path / "tagged.txt").write_text(TAGGED_TEXT, encoding="utf-8")
    with pytest.raises(InputError, match="its states are the tags"):
        fb.pretrain("hmm", tmp_path / "tagged.txt", to=tmp_path / "run", format="tagged", states=5)


def test_hmm_reads_tagged_text_with_one_word_per_line(tmp_path: Path):
    rows = TAGGED_TEXT.replace("/", "\t").replace(" ", "\n").split("\n")
    blocks = ["\n".join(rows[start : start + 3]) for start in range(0, len(rows) - 1, 3)]
    (tmp_path / "tagged.conll").write_text("\n\n".join(blocks) + "\n", encoding="utf-8")
    run = fb.pretrain("hmm", tmp_path / "tagged.conll", to=tmp_path / "run", format="tagged")
    assert run.tag("the dog ran")[0].tags == ("d", "n", "v")


@pytest.mark.parametrize("model", ["hmm", "crf"])
def test_tagged_text_is_detected_automatically(model: str, tmp_path: Path, capsys: Captured):
    (tmp_path / "some.txt").write_text(TAGGED_TEXT, encoding="utf-8")
    metadata = json_output(capsys, "pretrain", model, tmp_path / "some.txt", "--to", tmp_path / "run")
    assert metadata["task"]["tags"] == ["d", "n", "v"]
    (tmp_path / "some.conll").write_text(TAGGED_TEXT.replace("\n", "\n\n").replace(" ", "\n").replace("/", " "))
    metadata = json_output(capsys, "pretrain", model, tmp_path / "some.conll", "--to", tmp_path / "other")
    assert metadata["task"]["tags"] == ["d", "n", "v"]


def test_tagged_text_is_read_as_plain_text_with_format_text(tmp_path: Path, capsys: Captured):
    (tmp_path / "some.txt").write_text(TAGGED_TEXT, encoding="utf-8")
    command = ["pretrain", "hmm", tmp_path / "some.txt", "--to", tmp_path / "run", "--states", "3"]
    assert "learned as it stands: --format text" in refusal_message(capsys, *command)
    assert "task" not in json_output(capsys, *command, "--format", "text", "--epochs", "1")
    assert main(["pretrain", "hmm", str(tmp_path / "some.txt"), "--to", str(tmp_path / "tags")]) == 0
    assert "so hmm learns to tag (as text: --format text)" in capsys.readouterr().err


def test_missing_tag_is_refused_with_a_hint_that_works(tmp_path: Path):
    (tmp_path / "tagged.txt").write_text(TAGGED_TEXT * 9 + "the/d cat sat/v\n", encoding="utf-8")
    with pytest.raises(InputError, match="has no tag") as error:
        fb.pretrain("crf", tmp_path / "tagged.txt", to=tmp_path / "run")
    assert "--on-bad-rows skip" in error.value.hint
    fb.pretrain("crf", tmp_path / "tagged.txt", to=tmp_path / "run", on_bad_rows="skip", epochs=1)


def test_hmm_without_smoothing_trains_and_has_no_held_out_loss(tmp_path: Path):
    (tmp_path / "text.txt").write_text("\n\n".join(f"a b c w{i} ." for i in range(60)), encoding="utf-8")
    run = fb.pretrain("hmm", tmp_path / "text.txt", to=tmp_path / "run", states=3, smoothing=0.0, epochs=2)
    assert run.metadata["held_out_loss"] is None
    assert run.metadata["step"] > 0


def test_words_that_look_like_special_tokens_survive_the_arpa_round_trip(tmp_path: Path):
    """WikiText contains <unk>, which is a word of the text, not the unknown token of the model."""
    text = tmp_path / "text.txt"
    text.write_text(TOKENIZED_LINES, encoding="utf-8")
    run = fb.pretrain("ngram", text, to=tmp_path / "run", order=3)
    export_run(run, "arpa", str(tmp_path / "model.arpa"))
    assert any(r"\u003cunk>" in note for note in run.notes)
    imported = Run(import_model(str(tmp_path / "model.arpa"), str(tmp_path / "back")))
    measured, measured_again = run.measure(text), imported.measure(text)
    assert measured_again.unknown_tokens == measured.unknown_tokens == 0
    assert measured_again.units == measured.units == 36  # lines
    assert measured_again.perplexity == pytest.approx(measured.perplexity, rel=1e-5)


def test_next_why_of_stupid_backoff_shows_the_divisor(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "text.txt").write_text(TOKENIZED_LINES, encoding="utf-8")
    fb.pretrain("ngram", tmp_path / "text.txt", to=tmp_path / "run", order=2, smoothing="stupid")
    assert "÷" in printed_output(capsys, "next", tmp_path / "run", "the", "--why", "--top", "1")


@pytest.mark.parametrize(("unit", "units"), [("sentence", 6), ("document", 3)])
def test_measure_and_score_report_the_unit_that_is_scored_separately(
    unit: str, units: int, tmp_path: Path, capsys: Captured
):
    text = tmp_path / "text.txt"
    text.write_text("The cat sat here. The dog ran off.\n\n" * 3, encoding="utf-8")
    run = str(tmp_path / "run")
    assert main(["pretrain", "hmm", str(text), "--states", "2", "--epochs", "1", "--unit", unit, "--to", run]) == 0
    measured = json_output(capsys, "measure", run, text)
    assert (measured["unit"], measured["units"], measured["documents"]) == (unit, units, 3)
    printed = printed_output(capsys, "measure", run, text)
    assert f"{unit}s scored, each by itself" in printed
    assert ("pays for its end" in printed) is (unit == "sentence")
    scored = json_output(capsys, "score", run, "The cat sat. The dog ran.", "The cat sat.")
    assert scored.get("several_sentences") == (1 if unit == "sentence" else None)
    assert main(["score", run, "The cat sat. The dog ran."]) == 0
    assert ("1 text holds several sentences" in capsys.readouterr().err) is (unit == "sentence")


def test_tag_prints_singular_and_plural_and_crf_refuses_unsupported_commands(tmp_path: Path, capsys: Captured):
    (tmp_path / "some.txt").write_text(TAGGED_TEXT, encoding="utf-8")
    run, out = tmp_path / "run", tmp_path / "out.conll"
    command = ["pretrain", "crf", tmp_path / "some.txt", "--to", run]
    assert "--batch means nothing to crf, whose best weights are searched" in refusal_message(
        capsys, *command, "--batch", "9"
    )
    json_output(capsys, *command)
    assert "cannot be asked what comes next" in refusal_message(capsys, "next", run, "the")
    assert "cannot be asked to generate" in refusal_message(capsys, "generate", run, "the")
    (tmp_path / "in.txt").write_text("the cat sat\n", encoding="utf-8")
    assert printed_output(capsys, "tag", run, "--in", tmp_path / "in.txt", "--out", out).startswith("1 text: ")
    assert printed_output(capsys, "tag", run, "the cat", "--in", tmp_path / "in.txt", "--out", out).startswith(
        "2 texts: "
    )


@pytest.mark.parametrize("smoothing", ["none", "kneser-ney"])
def test_zero_probabilities_survive_the_arpa_round_trip(smoothing: str, tmp_path: Path, capsys: Captured):
    (tmp_path / "text.txt").write_text(TOKENIZED_LINES, encoding="utf-8")
    arpa = tmp_path / "run.arpa"
    run = fb.pretrain("ngram", tmp_path / "text.txt", to=tmp_path / "run", smoothing=smoothing, order=3)
    notes = json_output(capsys, "export", tmp_path / "run", "--format", "arpa", "--to", arpa)["notes"]
    imported = Run(import_model(str(arpa), str(tmp_path / "again")))
    texts = ["the cat , said he , sat .", "he sat the cat", "it is so on ."]
    scores, imported_scores = run.score(texts), imported.score(texts)
    for score, imported_score in zip(scores, imported_scores, strict=True):
        assert imported_score.log_prob == pytest.approx(score.log_prob, rel=1e-6)
    unsmoothed = smoothing == "none"
    assert (scores[1].log_prob == -float("inf")) is unsmoothed
    assert any("KenLM takes it" in note for note in notes) is unsmoothed
    assert any("stands for a probability" in note for note in imported.metadata["notes"]) is unsmoothed


def counted_run(folder: Path) -> RunFolder:
    (folder / "lines.txt").write_text(TOKENIZED_LINES, encoding="utf-8")
    fb.pretrain("ngram", folder / "lines.txt", to=folder / "run")
    return RunFolder.open(folder / "run")


def test_interrupted_count_based_run_notes_that_its_counts_are_partial(tmp_path: Path):
    run = counted_run(tmp_path)
    assert not [note for note in run.metadata["notes"] if "up to there" in note]
    for state, stopped in (("finished", 0), ("trained", 0), ("interrupted", 1), ("training", 1)):
        with run.lock():
            run.update(state=state)
        notes = load_counted_model(run)[1]
        assert len(notes) == stopped
        assert all("knows the text up to there alone" in note and f"--resume {run.path}" in note for note in notes)


def test_temporary_files_of_a_killed_process_are_removed(tmp_path: Path):
    run = counted_run(tmp_path)
    (run.path / ".counts-abc").mkdir()
    (run.path / f".{NGRAM_STORE_FILE}.12.tmp").write_bytes(b"half")
    load_counted_model(run)
    assert not [file.name for file in run.path.iterdir() if file.name.startswith((".counts", f".{NGRAM_STORE_FILE}"))]


@pytest.mark.parametrize("position", [0.2, 0.5, 0.99])
def test_damaged_ngram_store_is_detected_and_rebuilt(position: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Any flipped byte is found; an unchanged file is verified only after its time stamp changed."""
    monkeypatch.setattr(language_model, "MIN_COMPILED_NGRAMS", -1)
    run = counted_run(tmp_path)
    file, undamaged = run.path / NGRAM_STORE_FILE, load_counted_model(run)[0].probabilities()
    content = file.read_bytes()
    for damage in (bytes([content[int(position * len(content))] ^ 1]), bytes(64)):
        offset = int(position * len(content))
        file.write_bytes(content[:offset] + damage + content[offset + len(damage) :])
        if file.read_bytes() == content:  # the bytes were zero already
            continue
        network, notes = load_counted_model(run)
        assert any("damaged" in note and "made again" in note for note in notes)
        assert file.read_bytes() == content
        assert network.probabilities().lookup([5]) == undamaged.lookup([5])
    load_counted_model(run)  # records that the file was verified
    verified: list[Path] = []
    monkeypatch.setattr(NgramStore, "verify", lambda self: verified.append(self.file))
    assert not load_counted_model(run)[1]
    assert not verified
    file.touch()
    assert not load_counted_model(run)[1]
    assert not load_counted_model(run)[1]
    assert verified == [file]


def test_time_budget_of_ngram_model_is_ignored_with_a_note(tmp_path: Path):
    (tmp_path / "lines.txt").write_text(TOKENIZED_LINES, encoding="utf-8")
    notes: list[str] = []
    callback = TrainingCallback()
    callback.on_note = notes.append  # pyright: ignore[reportAttributeAccessIssue]
    run_pretraining(
        plan_pretraining("ngram", [str(tmp_path / "lines.txt")], settings={"time": "1s"}),
        tmp_path / "run",
        callback=callback,
    )
    assert any("--time is not heeded" in message for message in notes)


@pytest.mark.parametrize("texts", ["a list", [1], None])
def test_totals_refuse_anything_but_a_list_of_texts(texts: Any, tmp_path: Path):
    counted_run(tmp_path)
    with pytest.raises(InputError, match="several texts"):
        fb.load(tmp_path / "run").totals(texts)
