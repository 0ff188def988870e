"""Recurrent runs that translate: what they learn, where they look, and what cannot be asked of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_translating import CHINESE, sentences

import forebear as fb
from forebear.errors import InputError
from forebear.experiments import distill
from forebear.experiments.explain import explain_model
from forebear.inference.run import Run
from forebear.inference.translate import evaluate_translations
from forebear.inspection.logit_lens import logit_lens
from forebear.reports.plotting import undrawable_texts
from forebear.training.soft_targets import DistillationConfig

SMALL = {"width": 48, "inner": 64, "depth": 1, "context": 24, "dropout": 0.0, "tied": True}
TEXT = "hund läuft und katze"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory):
    """A run with attention into made-up Chinese, words in reverse order, and one through a single vector."""
    folder = tmp_path_factory.mktemp("recurrent")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FOREBEAR_CACHE", str(folder / "cache"))
        pairs = folder / "zh.tsv"
        pairs.write_text("\n".join("\t".join(pair) for pair in chinese(1500, 0)), encoding="utf-8")
        how = {"pairs": pairs, "tokenizer": "words", "target_tokenizer": "characters", **SMALL}
        how |= {"batch": 512, "rate": 1e-2, "threads": 1}
        fb.pretrain("seq2seq_attention", to=folder / "looking", steps=200, **how)
        fb.pretrain("seq2seq", to=folder / "plain", steps=60, **how)
        yield folder


def chinese(count: int, seed: int) -> list[tuple[str, str]]:
    return [(one, "".join(CHINESE[word] for word in two.split())) for one, two in sentences(count, seed)]


@pytest.mark.slow
def test_the_language_is_learned_and_long_sentences_need_attention(home: Path):
    tested = list(map(list, zip(*chinese(60, 9), strict=True)))
    found = {name: evaluate_translations(Run.open(home / name), *tested) for name in ("looking", "plain")}
    assert found["looking"].bleu > 80
    assert 0 < found["plain"].bleu < found["looking"].bleu
    assert found["plain"].nats_per_token < Run.open(home / "plain").metadata["unigram_nats"]


@pytest.mark.slow
def test_the_alignment_is_that_of_the_language_and_has_chinese_labels(home: Path, tmp_path: Path):
    """The language is written in reverse: so is where it looks."""
    (cross,) = fb.attention_maps(Run.open(home / "looking"), TEXT, "猫和跑狗")
    assert cross.columns == ("hund", "läuft", "und", "katze", "(end)")
    assert cross.rows == ("猫", "和", "跑", "狗", "(end)")
    assert cross.weights.shape == (1, 1, 5, 5)
    assert cross.weights[0, 0, :4].argmax(axis=1).tolist() == [3, 2, 1, 0]
    from forebear.inspection.attention import attention_view
    from forebear.inspection.attention_plots import plot_attention

    if undrawable_texts(["".join(cross.rows)]):
        with pytest.raises(InputError) as caught:
            plot_attention(attention_view(cross), "alignment", "png", None)
        assert "fonts" in str(caught.value.hint)
    else:
        assert plot_attention(attention_view(cross), "alignment", "png", None).startswith(b"\x89PNG")


def test_what_cannot_be_asked_is_refused_with_a_remedy(home: Path):
    plain, looking = (Run.open(home / name) for name in ("plain", "looking"))
    with pytest.raises(InputError, match="has no attention") as caught:
        fb.attention_maps(plain, TEXT)
    assert "seq2seq_attention" in str(caught.value.hint)
    with pytest.raises(InputError, match="translates"):
        logit_lens(looking, TEXT)
    with pytest.raises(InputError, match="translates") as caught:
        distill.plan_distillation(str(home / "looking"), [], config=DistillationConfig())
    assert "quantise" in str(caught.value.hint)
    for verb in ("embed", "generate", "score", "classify"):
        with pytest.raises(InputError, match=verb):
            looking.require(verb)


def test_a_run_goes_on_from_another(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FOREBEAR_CACHE", str(tmp_path / "cache"))
    pairs = tmp_path / "more.tsv"
    pairs.write_text("\n".join("\t".join(pair) for pair in chinese(200, 5)), encoding="utf-8")
    how = {"pairs": pairs, "from_run": home / "looking", "steps": 1, "rate": 1e-30, "threads": 1}
    (before,), (after,) = (
        one.translate(TEXT)
        for one in (Run.open(home / "looking"), fb.pretrain("seq2seq_attention", to=tmp_path / "on", **how))
    )
    assert before.text == after.text
    assert Run.open(tmp_path / "on").folder.tokenizer_pair.target.kind == "characters"
    with pytest.raises(InputError, match="similarity was perceptron"):
        fb.pretrain("seq2seq_attention", to=tmp_path / "dot", similarity="dot", **how)
    (tmp_path / "words.txt").write_text("zebra\n")
    with pytest.raises(InputError, match="words cannot be added"):
        fb.pretrain("seq2seq_attention", to=tmp_path / "grown", add_words=tmp_path / "words.txt", **how)


def test_small_integers_translate_alike(home: Path, tmp_path: Path):
    small = fb.quantize(home / "looking", to=tmp_path / "small")
    told = small.metadata["quantised"]
    assert told["bytes"]["integers"] < 0.4 * told["bytes"]["floats"]
    assert told["perplexity"]["integers"] == pytest.approx(told["perplexity"]["floats"], rel=0.02)
    assert small.translate(TEXT)[0].text == Run.open(home / "looking").translate(TEXT)[0].text


def test_weights_are_those_counted_by_hand():
    """Of width D, state H and vocabulary V, with one layer: what a token costs, and what is kept."""
    d, h, n, v = 32, 48, 40, 1000
    fields = {"width": d, "inner": h, "depth": 1, "context": n, "tied": True, "shared": True}
    plain = explain_model("seq2seq", settings=fields, vocabulary=v).sizes["yours"]["figures"]
    lstm = 4 * h * (d + h) + 4 * h
    assert plain["parameters"] == v * d + 2 * lstm + h * d
    assert plain["flops_per_token"] == 2 * (2 * 4 * h * (d + h) + h * d + v * d)
    looking = explain_model("seq2seq_attention", settings=fields | {"similarity": "bilinear"}, vocabulary=v).sizes[
        "yours"
    ]["figures"]
    halves = 2 * (4 * h // 2 * (d + h // 2) + 4 * h // 2)
    assert looking["parameters"] == v * d + halves + lstm + h * h + 2 * h * d
    reading = 2 * 4 * h // 2 * (d + h // 2)
    assert looking["flops_per_token"] == 2 * (reading + 4 * h * (d + h) + h * h + 2 * n * h + 2 * h * d + v * d)
    kept = looking["memory_to_use"] - 4 * looking["parameters"]
    assert kept == 4 * (2 * h + n * (h + d))
