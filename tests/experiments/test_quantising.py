"""Runs of small integers: what they cost is measured, they answer alike, and they refuse to learn."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import forebear as fb
from forebear.cli.main import main
from forebear.demo import world
from forebear.demo.labeled_examples import write_demo_tasks
from forebear.errors import InputError
from forebear.inference.run import Run

SMALL = {"width": 64, "depth": 2, "heads": 4, "threads": 1}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory):
    """A folder with a GPT-2, a BERT, a classifier, a translator and an n-gram, and their text."""
    folder = tmp_path_factory.mktemp("quantising")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FOREBEAR_CACHE", str(folder / "cache"))
        text = folder / "town.txt"
        documents = (one.text for one in world.world_documents("both", 60_000, 0))
        text.write_text("\n\n".join(documents), encoding="utf-8")
        fb.pretrain("gpt2", text, to=folder / "gpt2", steps=60, batch=1024, context=64, **SMALL)
        fb.pretrain("bert", text, to=folder / "bert", steps=30, batch=1024, context=64, **SMALL)
        fb.pretrain("ngram", text, to=folder / "ngram")
        write_demo_tasks(folder, 120, 40)
        fb.adapt(folder / "bert", folder / "coherence.train.tsv", to=folder / "classifier", steps=20, threads=1)
        pairs = folder / "pairs.tsv"
        pairs.write_text("\n".join(f"{'ab c'[: 1 + n % 4]}x{n}\t{n} y{'de f'[: 1 + n % 4]}" for n in range(300)))
        how = {"inner": 64, "context": 24, "steps": 20, "batch": 512}
        fb.pretrain("transformer", pairs=pairs, tokenizer="characters", to=folder / "translator", **SMALL, **how)
        for name in ("gpt2", "bert", "classifier", "translator"):
            fb.quantize(folder / name, to=folder / f"{name}-8")
        yield folder


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gpt2", "bert", "classifier", "translator"])
def test_it_is_smaller_and_its_cost_is_told(home: Path, name: str):
    told = json.loads((home / f"{name}-8" / "run.json").read_text())["quantised"]
    assert told["bytes"]["integers"] < 0.5 * told["bytes"]["floats"]  # of so small a network, norms are a part
    assert "held out" in told["on"]
    assert "perplexity, integers" in (card := (home / f"{name}-8" / "card.md").read_text()) or "same answers" in card
    line = next(line for line in fb.runs(home) if line.folder.endswith(f"{name}-8"))
    assert (line.state, line.size.endswith("int8")) == ("finished", True)
    own = {"gpt2": line.bits_per_byte, "bert": line.found, "classifier": line.score, "translator": line.score}[name]
    assert own is not None
    if name == "gpt2":
        assert own == told["bits_per_byte"]["integers"]
    if name in ("gpt2", "bert", "translator"):
        assert told["perplexity"]["integers"] == pytest.approx(told["perplexity"]["floats"], rel=0.01)
    if name in ("gpt2", "bert"):
        assert told["cosine"]["mean"] > 0.995
        assert told["sentences"] > 10
    else:
        assert told["same_answers"] > 0.9


def test_figures_are_those_that_measure_tells(home: Path):
    told = Run.open(home / "gpt2-8").metadata["quantised"]
    text = home / "town.txt"
    again = fb.quantize(home / "gpt2", to=home / "gpt2-on", on=text, limit=20_000).metadata["quantised"]
    for name, side in (("gpt2", "floats"), ("gpt2-on", "integers")):
        measured = Run.open(home / name).measure(text, limit=20_000)
        assert again["perplexity"][side] == pytest.approx(measured.perplexity, rel=1e-6)
    assert again["on"] == str(text)
    assert told["perplexity"]["floats"] != again["perplexity"]["floats"]


def test_it_answers_what_the_run_answers(home: Path):
    one, two = Run.open(home / "gpt2"), Run.open(home / "gpt2-8")
    assert one.capabilities == two.capabilities
    texts = ["The tall doctor sold a red kite.", "小明在公园里。"]
    for a, b in zip(one.score(texts), two.score(texts), strict=True):
        assert b.bits_per_byte == pytest.approx(a.bits_per_byte, rel=0.02)
    written = two.generate("The", length=12, temperature=0)[0].text
    assert (
        written == two.generate(["The", "A tall doctor"], length=12, temperature=0)[0].text
    )  # alone and beside others
    assert two.generate("The", length=12, beams=3)[0].text
    bert, small = Run.open(home / "bert"), Run.open(home / "bert-8")
    assert small.fill("The ____ doctor.").blanks[0]
    vectors = [np.stack([one.vector for one in run.embed(texts)]) for run in (bert, small)]
    assert (vectors[0] * vectors[1]).sum(1).min() > 0.99
    for number in range(1, 4):  # alone and among others, however short
        words = " ".join(["a"] * number)
        alone, among = small.embed(words)[0], small.embed([words, *texts])[0]
        np.testing.assert_allclose(alone.vector, among.vector, atol=1e-5)
    assert Run.open(home / "classifier-8").classify(texts)[0].probabilities
    assert Run.open(home / "translator-8").translate("abx5")[0].text is not None


def test_why_is_answered_with_the_same_weights(home: Path):
    assert fb.attribute(Run.open(home / "classifier-8"), "The tall doctor sold a red kite.").words


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
def test_what_cannot_be_is_refused(home: Path, command: list[str], capsys: pytest.CaptureFixture[str]):
    before = {path.name for path in home.iterdir()}
    assert main([part.format(home=home) for part in command]) == 2
    assert "remedy:" in capsys.readouterr().err
    assert {path.name for path in home.iterdir()} == before


def test_the_command_tells_sizes_and_costs(home: Path, capsys: pytest.CaptureFixture[str]):
    given = ["quantise", str(home / "gpt2"), "--to", str(home / "told"), "--limit", "10k"]
    assert main(given) == 0
    shown = capsys.readouterr().out
    assert "perplexity changes by" in shown
    assert "the nearest neighbour" in shown
    assert main(given) == 2  # it stands there already
    assert main([*given, "--overwrite", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["bytes"]["integers"] > 0
    assert not list(home.glob(".told*"))


def test_damaged_integers_are_refused(home: Path):
    fb.quantize(home / "gpt2", to=home / "damaged", limit=2000)
    file = home / "damaged" / "weights.safetensors"
    whole = bytearray(file.read_bytes())
    whole[-20] ^= 1
    file.write_bytes(whole)
    with pytest.raises(Exception, match="not what was written"):
        Run.open(home / "damaged").generate("The")


@pytest.mark.slow
def test_a_run_whose_text_is_gone_is_measured_on_other_text(home: Path, tmp_path: Path):
    folder = fb.load(home / "gpt2").export(tmp_path / "there")
    imported = fb.import_run(folder, to=tmp_path / "imported")
    told = fb.quantize(imported, to=tmp_path / "small").metadata["quantised"]
    assert "manual" in told["on"]
    with pytest.raises(InputError, match="examples"):
        fb.quantize(home / "classifier", to=tmp_path / "no", on=[home / "town.txt", home / "town.txt"])
