"""A word in many sentences: runs that read in context tell its meanings apart, tables do not, and both are told."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import forebear as fb
from forebear.demo.labeled_examples import sentences_with, words_of_two_meanings, write_sense_sentences
from forebear.errors import InputError
from forebear.inference.embed import ContextualWord, EmbeddedText
from forebear.inference.run import Run
from forebear.inspection import embedding_plots
from forebear.inspection.senses import ANY_CONTEXT_NOTE
from forebear.inspection.senses import SAME_VECTOR_NOTE as EQUAL
from small_runs import opened

SAME_VECTOR_NOTE = EQUAL + ANY_CONTEXT_NOTE
PEOPLE = ("Ivy", "Ben", "Min", "Tao", "Ann", "Joe", "Lin", "Bo")
MONEY = [f"{who} opened an account at the bank." for who in PEOPLE]
RIVER = [
    f"The boat of {who} lay on the muddy bank <there> & sank." for who in ("Ivy", "Ben", "Min", "Tao", "Ann", "Joe")
]
TEXTS, KNOWN = MONEY + RIVER, ["money"] * len(MONEY) + ["river"] * len(RIVER)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    folder = tmp_path_factory.mktemp("senses")
    (folder / "text.txt").write_text("\n\n".join((*TEXTS, "Bank of the muddy boat.") * 3), encoding="utf-8")
    ways = {
        "bert": {"steps": 2, "tokenizer": "words", "pairs": "none"},
        "gpt2": {"steps": 2},
        "word2vec": {"steps": 2},
        "ngram": {},
    }
    return {name: opened(name, folder, to=name, **more) for name, more in ways.items()}


def planted(run: Run, monkeypatch: pytest.MonkeyPatch, spread: float) -> None:
    """Gives the run vectors that lie in two places, by what stands in the sentence."""
    chance = np.random.default_rng(0)
    middles = chance.normal(size=(2, 20))

    def embed(texts: list[str], **how: object) -> list[EmbeddedText]:
        made = []
        for text in texts:
            at = text.index("bank")
            vector = middles[int("boat" in text)] + spread * chance.normal(size=20)
            made.append(EmbeddedText(text, vector, 1, 0, (ContextualWord("bank", at, at + 4, vector),)))
        return made

    monkeypatch.setattr(run, "embed", embed)


def test_two_meanings_are_two_groups(runs: dict[str, Run], monkeypatch: pytest.MonkeyPatch):
    planted(runs["bert"], monkeypatch, 0.2)
    found = fb.analyze_senses(runs["bert"], "bank", TEXTS * 4, senses=KNOWN * 4, groups=2)
    assert [len(group.members) for group in found.result.groups] == [len(MONEY), len(RIVER)]  # the same ones count once
    assert found.label_counts(found.result.groups[0].members) == ": 8 money"
    assert found.result.agreement is not None
    assert [(one.purity, one.rand) for one in found.result.agreement] == [(1.0, 1.0)] * 2
    assert "42 more are in sentences that were there before: each counts once" in found.notes
    (table,) = found.others
    assert (table.name, table.conclusion, table.clustering.num_clusters) == ("bert, its table", SAME_VECTOR_NOTE, 1)
    assert table.agreement is not None
    assert (table.agreement[0].purity, table.agreement[0].rand) == (pytest.approx(8 / 14), 0.0)
    assert "bert, its table: no 2 groups, as there are 1 different vectors" in found.notes


def test_as_many_groups_as_there_are(runs: dict[str, Run], monkeypatch: pytest.MonkeyPatch):
    many = [f"{number} {text}" for number in range(4) for text in TEXTS]
    planted(runs["bert"], monkeypatch, 0.4)
    found = fb.analyze_senses(runs["bert"], "bank", many)
    assert found.result.clustering.num_clusters == 2
    assert "2 groups, silhouette 0." in found.result.conclusion
    assert (found.labels, found.result.agreement) == ((), None)
    planted(runs["bert"], monkeypatch, 9.0)
    lost = fb.analyze_senses(runs["bert"], "bank", many).result
    assert (lost.clustering.num_clusters, lost.note) == (1, "no groups beyond chance")
    assert "clouds without groups up to" in lost.conclusion


def test_a_real_network_and_tables_beside_it(runs: dict[str, Run]):
    found = fb.analyze_senses(
        runs["bert"], "BANK", TEXTS, senses=KNOWN, beside=[runs["word2vec"], runs["gpt2"]], groups=2
    )
    assert found.result.name == "bert, mean of layers 1 and 2"
    assert [one.name for one in found.others] == ["word2vec", "gpt2, mean of layers 1 and 2"]
    assert found.others[0].conclusion == SAME_VECTOR_NOTE
    assert found.others[1].clustering.num_distinct > 1
    assert any("gpt2 looks back" in note for note in found.notes)
    told = found.to_dict()
    assert [one["size"] for one in told["vectors"]["groups"]] == [len(group.members) for group in found.result.groups]
    assert told["vectors"]["groups"][0]["occurrences"][0].keys() >= {
        "sentence",
        "start",
        "x",
        "y",
        "silhouette",
        "sense",
    }
    own = fb.analyze_senses(runs["word2vec"], "bank", TEXTS)
    assert (own.result.conclusion, own.others) == (SAME_VECTOR_NOTE, ())


def test_the_vector_is_that_of_the_word_where_it_stands(runs: dict[str, Run]):
    """By hand: layer 2's vector of the word, from the row that the run reads, of length 1."""
    from forebear.inspection.occurrences import SenseText, find_occurrences
    from forebear.inspection.senses import contextual_vectors

    of = find_occurrences("bank", [SenseText(text) for text in TEXTS], max_occurrences=99)
    found = contextual_vectors(runs["bert"], of, [2])
    words = runs["bert"].embed(TEXTS[0], words=True, layers=2)[0].words or ()
    place = [word.text for word in words].index("bank")
    expected = words[place].vector
    np.testing.assert_allclose(found.vectors[0], expected, atol=1e-6)
    whole = contextual_vectors(
        runs["bert"], find_occurrences("the bank", [SenseText(text) for text in MONEY], max_occurrences=99), [2]
    ).vectors[0]
    raw = runs["bert"].embed(TEXTS[0], words=True, layers=2, normalise=False)[0].words or ()
    both = raw[place - 1].vector + raw[place].vector
    assert raw[place - 1].text == "the"
    np.testing.assert_allclose(whole, both / np.linalg.norm(both), atol=1e-6)


def test_capitals_that_a_table_tells_apart(runs: dict[str, Run]):
    found = fb.analyze_senses(runs["word2vec"], "bank", [*TEXTS, "Bank of Ivy.", "Bank of Ben."])
    assert (found.result.clustering.num_clusters, found.result.clustering.num_distinct) == (1, 2)
    assert found.result.conclusion.endswith("whatever stands around (bank, Bank)")
    assert (
        fb.analyze_senses(runs["word2vec"], "bank", [*TEXTS, "Bank of Ivy."], groups=2).result.clustering.num_clusters
        == 2
    )


def test_what_a_run_that_looks_back_cannot_see(runs: dict[str, Run]):
    same = fb.analyze_senses(runs["gpt2"], "bank", [f"The muddy bank {who}." for who in PEOPLE]).result
    assert (same.conclusion, same.clustering.num_distinct) == (EQUAL, 1)


def test_what_is_refused(runs: dict[str, Run], tmp_path: Path):
    with pytest.raises(InputError, match="too few to be grouped"):
        fb.analyze_senses(runs["bert"], "bank", TEXTS[:2])
    with pytest.raises(InputError, match="counts, and has no vectors"):
        fb.analyze_senses(runs["ngram"], "bank", TEXTS)
    with pytest.raises(InputError, match="it has no layers"):
        fb.analyze_senses(runs["word2vec"], "bank", TEXTS, layers=1)
    with pytest.raises(InputError, match="no vector for 'zeppelin'"):
        fb.analyze_senses(runs["word2vec"], "zeppelin", ["a zeppelin"] * 9)
    with pytest.raises(InputError, match="there is no layer 7"):
        fb.analyze_senses(runs["bert"], "bank", TEXTS, layers=7)
    with pytest.raises(InputError, match="one for each"):
        fb.analyze_senses(runs["bert"], "bank", TEXTS, senses=["money"])
    with pytest.raises(InputError, match="a list of texts"):
        fb.analyze_senses(runs["bert"], "bank", tmp_path / "text.txt", senses=["money"])


def test_pictures_and_pages(runs: dict[str, Run], monkeypatch: pytest.MonkeyPatch):
    planted(runs["bert"], monkeypatch, 0.2)
    found = fb.analyze_senses(runs["bert"], "bank", TEXTS, senses=KNOWN, groups=2)
    picture = embedding_plots.plot_senses(found, "bert: bank", "svg")
    assert picture.startswith(b"<?xml")
    assert picture == embedding_plots.plot_senses(found, "bert: bank", "svg")
    page = embedding_plots.senses_page(found, "bert: bank")
    assert page.count("<li>") == len(TEXTS)
    assert "<mark>bank</mark> &lt;there&gt; &amp; sank." in page
    assert "<there>" not in page
    assert SAME_VECTOR_NOTE in page
    assert embedding_plots.occurrence_context(found.result.occurrences[0], 12)[0].startswith("…")
    spelled = fb.analyze_senses(runs["word2vec"], "bank", [*TEXTS, "Bank of Ivy."])
    assert embedding_plots.plot_senses(spelled, "word2vec", "svg") != picture
    alone = fb.analyze_senses(runs["bert"], "bank", TEXTS, beside=[])
    assert embedding_plots.plot_senses(alone, "bert", "png").startswith(b"\x89PNG")


def test_sentences_of_the_small_world(tmp_path: Path):
    assert {"bank", "苹果"} <= set(words_of_two_meanings())
    assert "bank" not in words_of_two_meanings("zh")
    some = list(sentences_with("bank", 40))
    assert [one.label for one in some[:4]] == ["money", "river", "money", "river"]
    assert some == list(sentences_with("bank", 50))[:40]
    assert all("bank" in one.text for one in some)
    assert all("boat" not in one.text or one.label == "river" or "money for a boat" in one.text for one in some)
    file = write_sense_sentences(tmp_path / "apple.tsv", "苹果", 6)
    assert [line.split("\t")[0] for line in file.read_text("utf-8").splitlines()] == ["水果", "公司"] * 3
    with pytest.raises(InputError, match="no two meanings"):
        next(sentences_with("kite"))
