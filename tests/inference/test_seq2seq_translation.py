"""Recurrent translation runs: training, alignment by attention, continued training, quantization, refused calls."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_translate import CHINESE, sentence_pairs

import forebear as fb
from forebear.errors import InputError
from forebear.experiments import distill
from forebear.experiments.explain_model import explain_model
from forebear.inference.run import Run
from forebear.inference.translate import evaluate_translations
from forebear.inspection.logit_lens import logit_lens
from forebear.reports.plotting import undrawable_texts
from forebear.training.distillation_targets import DistillationConfig

SMALL = {"width": 48, "inner": 64, "depth": 1, "context": 24, "dropout": 0.0, "tied": True}
TEXT = "hund läuft und katze"


@pytest.fixture(scope="module")
def runs_folder(tmp_path_factory: pytest.TempPathFactory):
    """Runs into made-up Chinese, words in reverse order: one with attention, one with a fixed-length vector."""
    folder = tmp_path_factory.mktemp("recurrent")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FOREBEAR_CACHE", str(folder / "cache"))
        pairs = folder / "zh.tsv"
        pairs.write_text("\n".join("\t".join(pair) for pair in chinese_pairs(1500, 0)), encoding="utf-8")
        options = {"pairs": pairs, "tokenizer": "words", "target_tokenizer": "characters", **SMALL}
        options |= {"batch": 512, "rate": 1e-2, "threads": 1}
        fb.pretrain("seq2seq_attention", to=folder / "looking", steps=200, **options)
        fb.pretrain("seq2seq", to=folder / "plain", steps=60, **options)
        yield folder


def chinese_pairs(count: int, seed: int) -> list[tuple[str, str]]:
    return [
        (source, "".join(CHINESE[word] for word in target.split())) for source, target in sentence_pairs(count, seed)
    ]


@pytest.mark.slow
def test_attention_translates_better_than_a_fixed_vector(runs_folder: Path):
    test_texts = list(map(list, zip(*chinese_pairs(60, 9), strict=True)))
    evaluations = {
        name: evaluate_translations(Run.open(runs_folder / name), *test_texts) for name in ("looking", "plain")
    }
    assert evaluations["looking"].bleu > 80
    assert 0 < evaluations["plain"].bleu < evaluations["looking"].bleu
    assert evaluations["plain"].nats_per_token < Run.open(runs_folder / "plain").metadata["unigram_nats"]


@pytest.mark.slow
def test_cross_attention_aligns_reversed_words_with_chinese_labels(runs_folder: Path, tmp_path: Path):
    """The made-up language reverses the order of words, and so does the attention."""
    (cross,) = fb.attention_maps(Run.open(runs_folder / "looking"), TEXT, "猫和跑狗")
    assert cross.columns == ("hund", "läuft", "und", "katze", "(end)")
    assert cross.rows == ("猫", "和", "跑", "狗", "(end)")
    assert cross.weights.shape == (1, 1, 5, 5)
    assert cross.weights[0, 0, :4].argmax(axis=1).tolist() == [3, 2, 1, 0]
    from forebear.inspection.attention import attention_view
    from forebear.inspection.attention_visualization import plot_attention

    if undrawable_texts(["".join(cross.rows)]):
        with pytest.raises(InputError) as caught:
            plot_attention(attention_view(cross), "alignment", "png", None)
        assert "fonts" in str(caught.value.hint)
    else:
        assert plot_attention(attention_view(cross), "alignment", "png", None).startswith(b"\x89PNG")


def test_unsupported_seq2seq_calls_are_refused_with_a_hint(runs_folder: Path):
    fixed_vector, with_attention = (Run.open(runs_folder / name) for name in ("plain", "looking"))
    with pytest.raises(InputError, match="has no attention") as caught:
        fb.attention_maps(fixed_vector, TEXT)
    assert "seq2seq_attention" in str(caught.value.hint)
    with pytest.raises(InputError, match="translates"):
        logit_lens(with_attention, TEXT)
    with pytest.raises(InputError, match="translates") as caught:
        distill.plan_distillation(str(runs_folder / "looking"), [], config=DistillationConfig())
    assert "quantise" in str(caught.value.hint)
    for verb in ("embed", "generate", "score", "classify"):
        with pytest.raises(InputError, match=verb):
            with_attention.require(verb)


def test_seq2seq_training_continues_from_another_run(
    runs_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("FOREBEAR_CACHE", str(tmp_path / "cache"))
    pairs = tmp_path / "more.tsv"
    pairs.write_text("\n".join("\t".join(pair) for pair in chinese_pairs(200, 5)), encoding="utf-8")
    options = {"pairs": pairs, "from_run": runs_folder / "looking", "steps": 1, "rate": 1e-30, "threads": 1}
    (before,), (after,) = (
        run.translate(TEXT)
        for run in (Run.open(runs_folder / "looking"), fb.pretrain("seq2seq_attention", to=tmp_path / "on", **options))
    )
    assert before.text == after.text
    assert Run.open(tmp_path / "on").folder.tokenizer_pair.target.kind == "characters"
    with pytest.raises(InputError, match="similarity was perceptron"):
        fb.pretrain("seq2seq_attention", to=tmp_path / "dot", similarity="dot", **options)
    (tmp_path / "words.txt").write_text("zebra\n")
    with pytest.raises(InputError, match="words cannot be added"):
        fb.pretrain("seq2seq_attention", to=tmp_path / "grown", add_words=tmp_path / "words.txt", **options)


def test_quantized_seq2seq_translates_alike(runs_folder: Path, tmp_path: Path):
    quantized = fb.quantize(runs_folder / "looking", to=tmp_path / "small")
    report = quantized.metadata["quantised"]
    assert report["bytes"]["integers"] < 0.4 * report["bytes"]["floats"]
    assert report["perplexity"]["integers"] == pytest.approx(report["perplexity"]["floats"], rel=0.02)
    assert quantized.translate(TEXT)[0].text == Run.open(runs_folder / "looking").translate(TEXT)[0].text


def test_seq2seq_parameters_and_flops_match_a_worked_example():
    """Of width D, state H and vocabulary V, with one layer: parameters, FLOPs per token, cached numbers."""
    d, h, n, v = 32, 48, 40, 1000
    fields = {"width": d, "inner": h, "depth": 1, "context": n, "tied": True, "shared": True}
    fixed_vector = explain_model("seq2seq", settings=fields, vocabulary=v).sizes["yours"]["figures"]
    lstm = 4 * h * (d + h) + 4 * h
    assert fixed_vector["parameters"] == v * d + 2 * lstm + h * d
    assert fixed_vector["flops_per_token"] == 2 * (2 * 4 * h * (d + h) + h * d + v * d)
    with_attention = explain_model(
        "seq2seq_attention", settings=fields | {"similarity": "bilinear"}, vocabulary=v
    ).sizes["yours"]["figures"]
    bidirectional = 2 * (4 * h // 2 * (d + h // 2) + 4 * h // 2)
    assert with_attention["parameters"] == v * d + bidirectional + lstm + h * h + 2 * h * d
    encoder_flops = 2 * 4 * h // 2 * (d + h // 2)
    assert with_attention["flops_per_token"] == 2 * (
        encoder_flops + 4 * h * (d + h) + h * h + 2 * n * h + 2 * h * d + v * d
    )
    cache_bytes = with_attention["memory_to_use"] - 4 * with_attention["parameters"]
    assert cache_bytes == 4 * (2 * h + n * (h + d))
