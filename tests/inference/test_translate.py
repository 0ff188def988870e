"""Translation with a small run trained on a made-up language: word by word, the words in reverse order."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st

import forebear as fb
from forebear.errors import InputError
from forebear.inference.run import Run
from forebear.inference.translate import bleu_and_chrf, evaluate_translations, translate_texts

WORDS = {"hund": "dog", "katze": "cat", "rot": "red", "läuft": "runs", "schnee": "snow", "und": "and", "haus": "house"}
CHINESE = {"dog": "狗", "cat": "猫", "red": "红", "runs": "跑", "snow": "雪", "and": "和", "house": "房子"}

pytestmark = pytest.mark.slow  # the shared model takes ten seconds to train


def sentence_pairs(count: int, seed: int) -> list[tuple[str, str]]:
    rng, pairs = random.Random(seed), []
    for _ in range(count):
        words = [rng.choice(list(WORDS)) for _ in range(rng.randint(1, 5))]
        pairs.append((" ".join(words), " ".join(WORDS[word] for word in reversed(words))))
    return pairs


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("translating")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FOREBEAR_CACHE", str(folder / "cache"))
        files = [folder / "a.de", folder / "a.en"]
        for file, side in zip(files, zip(*sentence_pairs(3000, 0), strict=True), strict=True):
            file.write_text("\n".join(side), encoding="utf-8")
        small = {"width": 64, "depth": 1, "heads": 4, "inner": 128, "context": 16, "dropout": 0.0}
        recipe = {"steps": 350, "batch": 768, "rate": 5e-3, "threads": 1}
        return fb.pretrain("transformer", pairs=files, to=folder / "run", tokenizer="words", **small, **recipe)


TEST_PAIRS = sentence_pairs(60, 9)


@pytest.mark.slow
def test_trained_run_translates_the_language(run: Run):
    evaluation = evaluate_translations(run, *map(list, zip(*TEST_PAIRS, strict=True)))
    assert evaluation.bleu > 90
    assert evaluation.nats_per_token < 0.5
    assert evaluation.pairs == 60
    assert run.metadata["metrics"]["held_out"]["bleu"] > 90
    assert "BLEU" in (run.folder.path / "card.md").read_text() or "bleu" in (run.folder.path / "card.md").read_text()


def test_bleu_and_chrf_equal_those_of_sacrebleu():
    translations, references = ["the cat sat on a mat", "no"], ["the cat sat on the mat", "yes"]
    bleu, chrf, signatures = bleu_and_chrf(translations, references)
    assert bleu == pytest.approx(sacrebleu.corpus_bleu(translations, [references]).score)
    assert chrf == pytest.approx(sacrebleu.corpus_chrf(translations, [references]).score)
    assert "tok:13a" in signatures["bleu"]
    assert "tok:zh" in bleu_and_chrf(["今天下雨"], ["今天下雪"])[2]["bleu"]


@pytest.mark.slow
@settings(max_examples=10, deadline=None)
@given(st.integers(1, 5), st.integers(20, 4000), st.permutations(range(12)))
def test_translations_do_not_depend_on_batches_and_order(run: Run, beams: int, batch_tokens: int, order: list[int]):
    texts = [TEST_PAIRS[number][0] for number in order]
    together = translate_texts(run.translator, run.folder.tokenizer_pair, texts, beams=beams, batch_tokens=batch_tokens)
    for text, batched in zip(texts, together, strict=True):
        (alone,) = run.translate(text, beams=beams)
        assert batched.text == alone.text
        assert batched.hypotheses[0].log_prob == pytest.approx(alone.hypotheses[0].log_prob, abs=1e-3)


@pytest.mark.slow
def test_one_beam_is_greedy_and_scored_as_by_teacher_forcing(run: Run):
    tokenizers, end = run.folder.tokenizer_pair, run.folder.tokenizer_pair.target.special_roles["end"]
    source = np.append(tokenizers.source.encode(TEST_PAIRS[0][0]).ids, tokenizers.source.special_roles["end"]).astype(
        np.int64
    )
    (translation,) = run.translate(TEST_PAIRS[0][0], beams=1)
    ids = np.append(tokenizers.target.encode(translation.text).ids, end).astype(np.int64)
    (scored,) = run.translator.score([source], [ids], end)
    assert translation.hypotheses[0].log_prob == pytest.approx(float(scored.sum()), abs=1e-3)
    decoder = run.translator.start_decoding([source], end, 16)
    for token in ids.tolist():
        assert int(decoder.next_logits()[0].argmax()) == token
        decoder.append(np.array([token]))


def test_several_translations_are_ranked_and_distinct(run: Run):
    (translation,) = run.translate("hund läuft und katze", beams=6, best=4)
    assert len({hypothesis.text for hypothesis in translation.hypotheses}) == 4
    ranks = [hypothesis.score for hypothesis in translation.hypotheses]
    assert ranks == sorted(ranks, reverse=True)
    with pytest.raises(InputError, match="the best 3 of 2 beams"):
        run.translate("hund", beams=2, best=3)


def test_more_beams_than_words_are_allowed(run: Run):
    (translation,) = run.translate("hund", beams=200)
    assert translation.text == "dog"


def test_empty_text_stays_empty_and_unknown_words_are_counted(run: Run):
    empty, blank, with_unknown = run.translate(["", " \n", "hund zebra ☃"])
    assert (empty.text, blank.text, empty.num_parts) == ("", "", 0)
    assert with_unknown.num_unknown == 2
    assert with_unknown.text


def test_text_longer_than_the_context_is_translated_in_parts(run: Run):
    long = " ".join(["hund", "läuft"] * 20)
    (translation,) = run.translate(long)
    assert translation.num_parts >= 3
    assert len(translation.text.split()) > len(run.translate(" ".join(["hund", "läuft"] * 7))[0].text.split())
    two_sentences, one_sentence = "hund läuft. Katze läuft.", "hund läuft"
    assert [run.translate(two_sentences, sentences=mode)[0].num_parts for mode in ("whole", "split")] == [1, 2]
    assert run.translate(one_sentence, sentences="split")[0].text == run.translate(one_sentence)[0].text


def test_invalid_translation_options_are_refused(run: Run):
    for options, message in (
        ({"sentences": "none"}, "sentences is"),
        ({"length": 0}, "length is 0"),
        ({"beams": 0}, "beams"),
    ):
        with pytest.raises(InputError, match=message):
            run.translate("hund", **options)
    with pytest.raises(InputError, match="cannot be asked to generate"):
        run.require("generate")


@pytest.mark.slow
def test_english_to_chinese_has_a_tokenizer_per_language(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FOREBEAR_CACHE", str(tmp_path / "cache"))
    lines = [f"{en}\t{''.join(CHINESE[word] for word in en.split())}" for _, en in sentence_pairs(1500, 1)]
    (tmp_path / "zh.tsv").write_text("\n".join(lines), encoding="utf-8")
    small = {"width": 64, "depth": 1, "heads": 4, "inner": 128, "context": 32, "dropout": 0.0}
    recipe = {"steps": 220, "batch": 768, "rate": 5e-3, "threads": 1}
    run = fb.pretrain("transformer", pairs=tmp_path / "zh.tsv", to=tmp_path / "run", **small, **recipe)
    tokenizers = Run.open(run.folder.path).folder.tokenizer_pair
    assert (tokenizers.source.kind, tokenizers.target.kind) == ("bytepair", "characters")
    assert not tokenizers.is_shared
    assert run.translate("the dog runs")[0].text  # unseen words are translated too
    assert run.translate("red cat and house")[0].text == "红猫和房子"


def test_cross_attention_of_a_translation_aligns_reversed_words(run: Run):
    """The made-up language reverses the order of words, and so does the attention."""
    cross, source, target = fb.attention_maps(run, "hund läuft und katze", "cat and runs dog")
    assert cross.columns == ("hund", "läuft", "und", "katze", "(end)")
    assert cross.rows == ("cat", "and", "runs", "dog", "(end)")
    assert (source.kind, target.kind, target.rows[0]) == ("self", "masked", "(start)")
    aligned = cross.weights.mean(axis=(0, 1))[:4].argmax(axis=1).tolist()
    assert aligned == [3, 2, 1, 0]
    assert fb.attention_maps(run, "hund läuft und katze")[0].rows == cross.rows  # its own translation
