"""Quantized runs (int8): measured cost, predictions close to the original, and refused training."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import forebear as fb
from forebear.cli.main import main
from forebear.demo import stories
from forebear.demo.labeled_examples import write_demo_tasks
from forebear.errors import InputError
from forebear.inference.run import Run

SMALL = {"width": 64, "depth": 2, "heads": 4, "threads": 1}


@pytest.fixture(scope="module")
def runs_folder(tmp_path_factory: pytest.TempPathFactory):
    """A folder with a GPT-2, a BERT, a classifier, a translator and an n-gram, and their text."""
    folder = tmp_path_factory.mktemp("quantising")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FOREBEAR_CACHE", str(folder / "cache"))
        text = folder / "town.txt"
        documents = (document.text for document in stories.world_documents("both", 60_000, 0))
        text.write_text("\n\n".join(documents), encoding="utf-8")
        fb.pretrain("gpt2", text, to=folder / "gpt2", steps=60, batch=1024, context=64, **SMALL)
        fb.pretrain("bert", text, to=folder / "bert", steps=30, batch=1024, context=64, **SMALL)
        fb.pretrain("ngram", text, to=folder / "ngram")
        write_demo_tasks(folder, 120, 40)
        fb.adapt(folder / "bert", folder / "coherence.train.tsv", to=folder / "classifier", steps=20, threads=1)
        pairs = folder / "pairs.tsv"
        pairs.write_text("\n".join(f"{'ab c'[: 1 + n % 4]}x{n}\t{n} y{'de f'[: 1 + n % 4]}" for n in range(300)))
        settings = {"inner": 64, "context": 24, "steps": 20, "batch": 512}
        fb.pretrain("transformer", pairs=pairs, tokenizer="characters", to=folder / "translator", **SMALL, **settings)
        for name in ("gpt2", "bert", "classifier", "translator"):
            fb.quantize(folder / name, to=folder / f"{name}-8")
        yield folder


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gpt2", "bert", "classifier", "translator"])
def test_quantized_run_is_smaller_and_records_its_cost(runs_folder: Path, name: str):
    record = json.loads((runs_folder / f"{name}-8" / "run.json").read_text())["quantised"]
    # In so small a network, norms take a large share
    assert record["bytes"]["integers"] < 0.5 * record["bytes"]["floats"]
    assert "held out" in record["on"]
    assert (
        "perplexity, integers" in (card := (runs_folder / f"{name}-8" / "card.md").read_text())
        or "same answers" in card
    )
    line = next(line for line in fb.runs(runs_folder) if line.folder.endswith(f"{name}-8"))
    assert (line.state, line.size.endswith("int8")) == ("finished", True)
    metric = {"gpt2": line.bits_per_byte, "bert": line.found, "classifier": line.score, "translator": line.score}[name]
    assert metric is not None
    if name == "gpt2":
        assert metric == record["bits_per_byte"]["integers"]
    if name in ("gpt2", "bert", "translator"):
        assert record["perplexity"]["integers"] == pytest.approx(record["perplexity"]["floats"], rel=0.01)
    if name in ("gpt2", "bert"):
        assert record["cosine"]["mean"] > 0.995
        assert record["sentences"] > 10
    else:
        assert record["same_answers"] > 0.9


def test_recorded_perplexities_equal_those_of_measure(runs_folder: Path):
    record = Run.open(runs_folder / "gpt2-8").metadata["quantised"]
    text = runs_folder / "town.txt"
    remeasured = fb.quantize(runs_folder / "gpt2", to=runs_folder / "gpt2-on", on=text, limit=20_000).metadata[
        "quantised"
    ]
    for name, precision in (("gpt2", "floats"), ("gpt2-on", "integers")):
        measured = Run.open(runs_folder / name).measure(text, limit=20_000)
        assert remeasured["perplexity"][precision] == pytest.approx(measured.perplexity, rel=1e-6)
    assert remeasured["on"] == str(text)
    assert record["perplexity"]["floats"] != remeasured["perplexity"]["floats"]


def test_quantized_run_predicts_like_the_original(runs_folder: Path):
    original, quantized = Run.open(runs_folder / "gpt2"), Run.open(runs_folder / "gpt2-8")
    assert original.capabilities == quantized.capabilities
    texts = ["The tall doctor sold a red kite.", "小明在公园里。"]
    for score, quantized_score in zip(original.score(texts), quantized.score(texts), strict=True):
        assert quantized_score.bits_per_byte == pytest.approx(score.bits_per_byte, rel=0.02)
    generated = quantized.generate("The", length=12, temperature=0)[0].text
    # Alone and in a batch
    assert generated == quantized.generate(["The", "A tall doctor"], length=12, temperature=0)[0].text
    assert quantized.generate("The", length=12, beams=3)[0].text
    original_bert, quantized_bert = Run.open(runs_folder / "bert"), Run.open(runs_folder / "bert-8")
    assert quantized_bert.fill("The ____ doctor.").blanks[0]
    vectors = [np.stack([original.vector for original in run.embed(texts)]) for run in (original_bert, quantized_bert)]
    assert (vectors[0] * vectors[1]).sum(1).min() > 0.99
    for number in range(1, 4):  # alone and in a batch, however short
        words = " ".join(["a"] * number)
        alone, in_batch = quantized_bert.embed(words)[0], quantized_bert.embed([words, *texts])[0]
        np.testing.assert_allclose(alone.vector, in_batch.vector, atol=1e-5)
    assert Run.open(runs_folder / "classifier-8").classify(texts)[0].probabilities
    assert Run.open(runs_folder / "translator-8").translate("abx5")[0].text is not None


def test_quantized_classifier_has_attributions(runs_folder: Path):
    assert fb.attribute(Run.open(runs_folder / "classifier-8"), "The tall doctor sold a red kite.").words


@pytest.mark.parametrize(
    "command",
    [
        ["pretrain", "gpt2", "{home}/town.txt", "--from", "{home}/gpt2-8", "--steps", "1", "--to", "{home}/no"],
        ["pretrain", "--resume", "{home}/gpt2-8"],
        ["rerun", "{home}/gpt2-8", "--to", "{home}/no"],
        ["adapt", "{home}/bert-8", "{home}/coherence.train.tsv", "--to", "{home}/no"],
        ["adapt", "--resume", "{home}/classifier-8"],
        ["distil", "{home}/gpt2-8", "--to", "{home}/no"],
        ["quantise", "{home}/gpt2-8", "--to", "{home}/no"],
        ["quantise", "{home}/ngram", "--to", "{home}/no"],
        ["quantise", "{home}/gpt2", "--to", "{home}/gpt2"],
        ["quantise", "{home}/gpt2", "--to", "{home}/bert"],
        ["quantise", "{home}/gpt2", "--to", "{home}/no", "--on", "{home}/nothing.txt"],
        ["quantise", "{home}/gpt2", "--to", "{home}/no", "--limit", "0"],
        ["export", "{home}/gpt2-8", "--to", "{home}/no"],
    ],
)
def test_training_exporting_or_requantizing_a_quantized_run_is_refused(
    runs_folder: Path, command: list[str], capsys: pytest.CaptureFixture[str]
):
    before = {path.name for path in runs_folder.iterdir()}
    assert main([part.format(home=runs_folder) for part in command]) == 2
    assert "remedy:" in capsys.readouterr().err
    assert {path.name for path in runs_folder.iterdir()} == before


def test_quantize_command_prints_cost_and_needs_overwrite(runs_folder: Path, capsys: pytest.CaptureFixture[str]):
    command = ["quantise", str(runs_folder / "gpt2"), "--to", str(runs_folder / "told"), "--limit", "10k"]
    assert main(command) == 0
    printed = capsys.readouterr().out
    assert "perplexity changes by" in printed
    assert "the nearest neighbour" in printed
    assert main(command) == 2  # the folder exists
    assert main([*command, "--overwrite", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["bytes"]["integers"] > 0
    assert not list(runs_folder.glob(".told*"))


def test_damaged_quantized_weights_are_refused(runs_folder: Path):
    fb.quantize(runs_folder / "gpt2", to=runs_folder / "damaged", limit=2000)
    file = runs_folder / "damaged" / "weights.safetensors"
    content = bytearray(file.read_bytes())
    content[-20] ^= 1
    file.write_bytes(content)
    with pytest.raises(Exception, match="not what was written"):
        Run.open(runs_folder / "damaged").generate("The")


@pytest.mark.slow
def test_imported_run_without_text_is_measured_on_the_manual(runs_folder: Path, tmp_path: Path):
    folder = fb.load(runs_folder / "gpt2").export(tmp_path / "there")
    imported = fb.import_run(folder, to=tmp_path / "imported")
    record = fb.quantize(imported, to=tmp_path / "small").metadata["quantised"]
    assert "manual" in record["on"]
    with pytest.raises(InputError, match="examples"):
        fb.quantize(
            runs_folder / "classifier", to=tmp_path / "no", on=[runs_folder / "town.txt", runs_folder / "town.txt"]
        )
