"""A word in many sentences: runs that read in context tell its meanings apart, tables do not, and both are told."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import forebear as fb
from forebear.demo.sense_sentences import sentences_with, words_of_two_meanings, write_sentences
from forebear.errors import BadInput
from forebear.inspecting import senses_page, senses_picture
from forebear.inspecting.senses import AROUND
from forebear.inspecting.senses import SAME as EQUAL
from forebear.using.run import Run
from forebear.using.vectors import Embedded, Word
from small_runs import opened

SAME = EQUAL + AROUND
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

    def embed(texts: list[str], **how: object) -> list[Embedded]:
        made = []
        for text in texts:
            at = text.index("bank")
            vector = middles[int("boat" in text)] + spread * chance.normal(size=20)
            made.append(Embedded(text, vector, 1, 0, (Word("bank", at, at + 4, vector),)))
        return made

    monkeypatch.setattr(run, "embed", embed)


def test_two_meanings_are_two_groups(runs: dict[str, Run], monkeypatch: pytest.MonkeyPatch):
    planted(runs["bert"], monkeypatch, 0.2)
    found = fb.senses(runs["bert"], "bank", TEXTS * 4, known=KNOWN * 4, groups=2)
    assert [len(group.members) for group in found.own.groups] == [len(MONEY), len(RIVER)]  # the same ones count once
    assert found.meant(found.own.groups[0].members) == ": 8 money"
    assert found.own.agreement is not None
    assert [(one.purity, one.rand) for one in found.own.agreement] == [(1.0, 1.0)] * 2
    assert "42 more are in sentences that were there before: each counts once" in found.notes
    (table,) = found.beside
    assert (table.name, table.verdict, table.grouping.count) == ("bert, its table", SAME, 1)
    assert table.agreement is not None
    assert (table.agreement[0].purity, table.agreement[0].rand) == (pytest.approx(8 / 14), 0.0)
    assert "bert, its table: no 2 groups, as there are 1 different vectors" in found.notes


def test_as_many_groups_as_there_are(runs: dict[str, Run], monkeypatch: pytest.MonkeyPatch):
    many = [f"{number} {text}" for number in range(4) for text in TEXTS]
    planted(runs["bert"], monkeypatch, 0.4)
    found = fb.senses(runs["bert"], "bank", many)
    assert found.own.grouping.count == 2
    assert "2 groups, silhouette 0." in found.own.verdict
    assert (found.known, found.own.agreement) == ((), None)
    planted(runs["bert"], monkeypatch, 9.0)
    lost = fb.senses(runs["bert"], "bank", many).own
    assert (lost.grouping.count, lost.remark) == (1, "no groups beyond chance")
    assert "clouds without groups up to" in lost.verdict


def test_a_real_network_and_tables_beside_it(runs: dict[str, Run]):
    found = fb.senses(runs["bert"], "BANK", TEXTS, known=KNOWN, beside=[runs["word2vec"], runs["gpt2"]], groups=2)
    assert found.own.name == "bert, mean of layers 1 and 2"
    assert [one.name for one in found.beside] == ["word2vec", "gpt2, mean of layers 1 and 2"]
    assert found.beside[0].verdict == SAME
    assert found.beside[1].grouping.distinct > 1
    assert any("gpt2 looks back" in note for note in found.notes)
    told = found.facts()
    assert [one["size"] for one in told["vectors"]["groups"]] == [len(group.members) for group in found.own.groups]
    assert told["vectors"]["groups"][0]["occurrences"][0].keys() >= {
        "sentence",
        "start",
        "x",
        "y",
        "silhouette",
        "sense",
    }
    own = fb.senses(runs["word2vec"], "bank", TEXTS)
    assert (own.own.verdict, own.beside) == (SAME, ())


def test_the_vector_is_that_of_the_word_where_it_stands(runs: dict[str, Run]):
    """By hand: layer 2's vector of the word, from the row that the run reads, of length 1."""
    from forebear.inspecting.occurrences import Text, occurrences
    from forebear.inspecting.sense_vectors import embedded

    of = occurrences("bank", [Text(text) for text in TEXTS], most=99)
    found = embedded(runs["bert"], of, [2])
    words = runs["bert"].embed(TEXTS[0], words=True, layers=2)[0].words or ()
    place = [word.text for word in words].index("bank")
    expected = words[place].vector
    np.testing.assert_allclose(found.vectors[0], expected, atol=1e-6)
    whole = embedded(runs["bert"], occurrences("the bank", [Text(text) for text in MONEY], most=99), [2]).vectors[0]
    raw = runs["bert"].embed(TEXTS[0], words=True, layers=2, normalise=False)[0].words or ()
    both = raw[place - 1].vector + raw[place].vector
    assert raw[place - 1].text == "the"
    np.testing.assert_allclose(whole, both / np.linalg.norm(both), atol=1e-6)


def test_capitals_that_a_table_tells_apart(runs: dict[str, Run]):
    found = fb.senses(runs["word2vec"], "bank", [*TEXTS, "Bank of Ivy.", "Bank of Ben."])
    assert (found.own.grouping.count, found.own.grouping.distinct) == (1, 2)
    assert found.own.verdict.endswith("whatever stands around (bank, Bank)")
    assert fb.senses(runs["word2vec"], "bank", [*TEXTS, "Bank of Ivy."], groups=2).own.grouping.count == 2


def test_what_a_run_that_looks_back_cannot_see(runs: dict[str, Run]):
    same = fb.senses(runs["gpt2"], "bank", [f"The muddy bank {who}." for who in PEOPLE]).own
    assert (same.verdict, same.grouping.distinct) == (EQUAL, 1)


def test_what_is_refused(runs: dict[str, Run], tmp_path: Path):
    with pytest.raises(BadInput, match="too few to be grouped"):
        fb.senses(runs["bert"], "bank", TEXTS[:2])
    with pytest.raises(BadInput, match="counts, and has no vectors"):
        fb.senses(runs["ngram"], "bank", TEXTS)
    with pytest.raises(BadInput, match="it has no layers"):
        fb.senses(runs["word2vec"], "bank", TEXTS, layers=1)
    with pytest.raises(BadInput, match="no vector for 'zeppelin'"):
        fb.senses(runs["word2vec"], "zeppelin", ["a zeppelin"] * 9)
    with pytest.raises(BadInput, match="there is no layer 7"):
        fb.senses(runs["bert"], "bank", TEXTS, layers=7)
    with pytest.raises(BadInput, match="one for each"):
        fb.senses(runs["bert"], "bank", TEXTS, known=["money"])
    with pytest.raises(BadInput, match="a list of texts"):
        fb.senses(runs["bert"], "bank", tmp_path / "text.txt", known=["money"])


def test_pictures_and_pages(runs: dict[str, Run], monkeypatch: pytest.MonkeyPatch):
    planted(runs["bert"], monkeypatch, 0.2)
    found = fb.senses(runs["bert"], "bank", TEXTS, known=KNOWN, groups=2)
    picture = senses_picture.picture(found, "bert: bank", "svg")
    assert picture.startswith(b"<?xml")
    assert picture == senses_picture.picture(found, "bert: bank", "svg")
    page = senses_page.page(found, "bert: bank")
    assert page.count("<li>") == len(TEXTS)
    assert "<mark>bank</mark> &lt;there&gt; &amp; sank." in page
    assert "<there>" not in page
    assert SAME in page
    assert senses_picture.around(found.own.occurrences[0], 12)[0].startswith("…")
    spelled = fb.senses(runs["word2vec"], "bank", [*TEXTS, "Bank of Ivy."])
    assert senses_picture.picture(spelled, "word2vec", "svg") != picture
    alone = fb.senses(runs["bert"], "bank", TEXTS, beside=[])
    assert senses_picture.picture(alone, "bert", "png").startswith(b"\x89PNG")


def test_sentences_of_the_small_world(tmp_path: Path):
    assert {"bank", "苹果"} <= set(words_of_two_meanings())
    assert "bank" not in words_of_two_meanings("zh")
    some = list(sentences_with("bank", 40))
    assert [one.label for one in some[:4]] == ["money", "river", "money", "river"]
    assert some == list(sentences_with("bank", 50))[:40]
    assert all("bank" in one.text for one in some)
    assert all("boat" not in one.text or one.label == "river" or "money for a boat" in one.text for one in some)
    file = write_sentences(tmp_path / "apple.tsv", "苹果", 6)
    assert [line.split("\t")[0] for line in file.read_text("utf-8").splitlines()] == ["水果", "公司"] * 3
    with pytest.raises(BadInput, match="no two meanings"):
        next(sentences_with("kite"))
