"""Translating with a small run that learned a made-up language: word by word, the words in reverse order."""

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

pytestmark = pytest.mark.slow  # the model that all share takes ten seconds to train


def sentences(count: int, seed: int) -> list[tuple[str, str]]:
    chance, made = random.Random(seed), []
    for _ in range(count):
        chosen = [chance.choice(list(WORDS)) for _ in range(chance.randint(1, 5))]
        made.append((" ".join(chosen), " ".join(WORDS[word] for word in reversed(chosen))))
    return made


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("translating")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FOREBEAR_CACHE", str(folder / "cache"))
        files = [folder / "a.de", folder / "a.en"]
        for file, side in zip(files, zip(*sentences(3000, 0), strict=True), strict=True):
            file.write_text("\n".join(side), encoding="utf-8")
        small = {"width": 64, "depth": 1, "heads": 4, "inner": 128, "context": 16, "dropout": 0.0}
        recipe = {"steps": 350, "batch": 768, "rate": 5e-3, "threads": 1}
        return fb.pretrain("transformer", pairs=files, to=folder / "run", tokenizer="words", **small, **recipe)


TESTED = sentences(60, 9)


@pytest.mark.slow
def test_it_has_learned_the_language(run: Run):
    told = evaluate_translations(run, *map(list, zip(*TESTED, strict=True)))
    assert told.bleu > 90
    assert told.nats_per_token < 0.5
    assert told.pairs == 60
    assert run.metadata["metrics"]["held_out"]["bleu"] > 90
    assert "BLEU" in (run.folder.path / "card.md").read_text() or "bleu" in (run.folder.path / "card.md").read_text()


def test_figures_are_sacrebleus():
    said, wanted = ["the cat sat on a mat", "no"], ["the cat sat on the mat", "yes"]
    bleu, chrf, signatures = bleu_and_chrf(said, wanted)
    assert bleu == pytest.approx(sacrebleu.corpus_bleu(said, [wanted]).score)
    assert chrf == pytest.approx(sacrebleu.corpus_chrf(said, [wanted]).score)
    assert "tok:13a" in signatures["bleu"]
    assert "tok:zh" in bleu_and_chrf(["今天下雨"], ["今天下雪"])[2]["bleu"]


@pytest.mark.slow
@settings(max_examples=10, deadline=None)
@given(st.integers(1, 5), st.integers(20, 4000), st.permutations(range(12)))
def test_batches_and_order_change_nothing(run: Run, beams: int, at_once: int, order: list[int]):
    texts = [TESTED[number][0] for number in order]
    together = translate_texts(run.translator, run.folder.tokenizer_pair, texts, beams=beams, batch_tokens=at_once)
    for text, found in zip(texts, together, strict=True):
        (alone,) = run.translate(text, beams=beams)
        assert found.text == alone.text
        assert found.hypotheses[0].log_prob == pytest.approx(alone.hypotheses[0].log_prob, abs=1e-3)


@pytest.mark.slow
def test_one_beam_is_the_likeliest_token_each_time_and_its_probability_that_of_teaching(run: Run):
    sides, end = run.folder.tokenizer_pair, run.folder.tokenizer_pair.target.special_roles["end"]
    source = np.append(sides.source.encode(TESTED[0][0]).ids, sides.source.special_roles["end"]).astype(np.int64)
    (found,) = run.translate(TESTED[0][0], beams=1)
    ids = np.append(sides.target.encode(found.text).ids, end).astype(np.int64)
    (scored,) = run.translator.score([source], [ids], end)
    assert found.hypotheses[0].log_prob == pytest.approx(float(scored.sum()), abs=1e-3)
    reader = run.translator.begin([source], end, 16)
    for token in ids.tolist():
        assert int(reader.next_logits()[0].argmax()) == token
        reader.append(np.array([token]))


def test_several_versions_are_ranked_and_different(run: Run):
    (found,) = run.translate("hund läuft und katze", beams=6, best=4)
    assert len({version.text for version in found.hypotheses}) == 4
    ranks = [version.score for version in found.hypotheses]
    assert ranks == sorted(ranks, reverse=True)
    with pytest.raises(InputError, match="the best 3 of 2 beams"):
        run.translate("hund", beams=2, best=3)


def test_more_beams_than_words_are_no_error(run: Run):
    (found,) = run.translate("hund", beams=200)
    assert found.text == "dog"


def test_nothing_stays_nothing_and_unknown_words_are_counted(run: Run):
    empty, blank, strange = run.translate(["", " \n", "hund zebra ☃"])
    assert (empty.text, blank.text, empty.num_parts) == ("", "", 0)
    assert strange.num_unknown == 2
    assert strange.text


def test_a_text_longer_than_the_context_is_translated_in_parts(run: Run):
    long = " ".join(["hund", "läuft"] * 20)
    (found,) = run.translate(long)
    assert found.num_parts >= 3
    assert len(found.text.split()) > len(run.translate(" ".join(["hund", "läuft"] * 7))[0].text.split())
    two, one = "hund läuft. Katze läuft.", "hund läuft"
    assert [run.translate(two, sentences=how)[0].num_parts for how in ("whole", "split")] == [1, 2]
    assert run.translate(one, sentences="split")[0].text == run.translate(one)[0].text


def test_what_makes_no_sense_is_refused(run: Run):
    for how, words in (
        ({"sentences": "none"}, "sentences is"),
        ({"length": 0}, "length is 0"),
        ({"beams": 0}, "beams"),
    ):
        with pytest.raises(InputError, match=words):
            run.translate("hund", **how)
    with pytest.raises(InputError, match="cannot be asked to generate"):
        run.require("generate")


@pytest.mark.slow
def test_english_into_chinese_has_a_vocabulary_for_each_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FOREBEAR_CACHE", str(tmp_path / "cache"))
    lines = [f"{en}\t{''.join(CHINESE[word] for word in en.split())}" for _, en in sentences(1500, 1)]
    (tmp_path / "zh.tsv").write_text("\n".join(lines), encoding="utf-8")
    small = {"width": 64, "depth": 1, "heads": 4, "inner": 128, "context": 32, "dropout": 0.0}
    recipe = {"steps": 220, "batch": 768, "rate": 5e-3, "threads": 1}
    run = fb.pretrain("transformer", pairs=tmp_path / "zh.tsv", to=tmp_path / "run", **small, **recipe)
    sides = Run.open(run.folder.path).folder.tokenizer_pair
    assert (sides.source.kind, sides.target.kind) == ("bytepair", "characters")
    assert not sides.is_shared
    assert run.translate("the dog runs")[0].text  # unread words are no obstacle
    assert run.translate("red cat and house")[0].text == "红猫和房子"


def test_attention_of_a_translation_looks_at_its_source(run: Run):
    """The language is written in reverse: so is where it looks."""
    cross, source, target = fb.attention_maps(run, "hund läuft und katze", "cat and runs dog")
    assert cross.columns == ("hund", "läuft", "und", "katze", "(end)")
    assert cross.rows == ("cat", "and", "runs", "dog", "(end)")
    assert (source.kind, target.kind, target.rows[0]) == ("self", "masked", "(start)")
    looked_at = cross.weights.mean(axis=(0, 1))[:4].argmax(axis=1).tolist()
    assert looked_at == [3, 2, 1, 0]
    assert fb.attention_maps(run, "hund läuft und katze")[0].rows == cross.rows  # its own translation
