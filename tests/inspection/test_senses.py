"""Word senses: contextual vectors separate the senses of a word, static vectors do not, and both are reported."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import forebear as fb
from forebear.demo.labeled_examples import sentences_with, words_of_two_meanings, write_sense_sentences
from forebear.errors import InputError
from forebear.inference.embed import ContextualWord, EmbeddedText
from forebear.inference.run import Run
from forebear.inspection import embedding_visualization
from forebear.inspection.senses import ANY_CONTEXT_NOTE
from forebear.inspection.senses import SAME_VECTOR_NOTE as IDENTICAL
from small_runs import open_small_run

SAME_IN_ANY_CONTEXT = IDENTICAL + ANY_CONTEXT_NOTE
NAMES = ("Ivy", "Ben", "Min", "Tao", "Ann", "Joe", "Lin", "Bo")
MONEY = [f"{who} opened an account at the bank." for who in NAMES]
RIVER = [
    f"The boat of {who} lay on the muddy bank <there> & sank." for who in ("Ivy", "Ben", "Min", "Tao", "Ann", "Joe")
]
TEXTS, GOLD_SENSES = MONEY + RIVER, ["money"] * len(MONEY) + ["river"] * len(RIVER)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    folder = tmp_path_factory.mktemp("senses")
    (folder / "text.txt").write_text("\n\n".join((*TEXTS, "Bank of the muddy boat.") * 3), encoding="utf-8")
    settings = {
        "bert": {"steps": 2, "tokenizer": "words", "pairs": "none"},
        "gpt2": {"steps": 2},
        "word2vec": {"steps": 2},
        "ngram": {},
    }
    return {name: open_small_run(name, folder, to=name, **own) for name, own in settings.items()}


def plant_vectors(run: Run, monkeypatch: pytest.MonkeyPatch, spread: float) -> None:
    """Replaces `embed` with vectors in two clusters: sentences with "boat", and the others."""
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(2, 20))

    def embed(texts: list[str], **options: object) -> list[EmbeddedText]:
        embeddings = []
        for text in texts:
            start = text.index("bank")
            vector = centers[int("boat" in text)] + spread * rng.normal(size=20)
            embeddings.append(EmbeddedText(text, vector, 1, 0, (ContextualWord("bank", start, start + 4, vector),)))
        return embeddings

    monkeypatch.setattr(run, "embed", embed)


def test_planted_senses_are_two_clusters_and_static_vectors_are_one(
    runs: dict[str, Run], monkeypatch: pytest.MonkeyPatch
):
    plant_vectors(runs["bert"], monkeypatch, 0.2)
    analysis = fb.analyze_senses(runs["bert"], "bank", TEXTS * 4, senses=GOLD_SENSES * 4, groups=2)
    # Repeated sentences count once
    assert [len(group.members) for group in analysis.result.groups] == [len(MONEY), len(RIVER)]
    assert analysis.label_counts(analysis.result.groups[0].members) == ": 8 money"
    assert analysis.result.agreement is not None
    assert [(agreement.purity, agreement.adjusted_rand) for agreement in analysis.result.agreement] == [(1.0, 1.0)] * 2
    assert "42 more are in sentences that were there before: each counts once" in analysis.notes
    (table,) = analysis.others
    assert (table.name, table.conclusion, table.clustering.num_clusters) == ("bert, its table", SAME_IN_ANY_CONTEXT, 1)
    assert table.agreement is not None
    assert (table.agreement[0].purity, table.agreement[0].adjusted_rand) == (pytest.approx(8 / 14), 0.0)
    assert "bert, its table: no 2 groups, as there are 1 different vectors" in analysis.notes


def test_number_of_senses_is_found_without_being_requested(runs: dict[str, Run], monkeypatch: pytest.MonkeyPatch):
    texts = [f"{number} {text}" for number in range(4) for text in TEXTS]
    plant_vectors(runs["bert"], monkeypatch, 0.4)
    analysis = fb.analyze_senses(runs["bert"], "bank", texts)
    assert analysis.result.clustering.num_clusters == 2
    assert "2 groups, silhouette 0." in analysis.result.conclusion
    assert (analysis.labels, analysis.result.agreement) == ((), None)
    plant_vectors(runs["bert"], monkeypatch, 9.0)
    scattered = fb.analyze_senses(runs["bert"], "bank", texts).result
    assert (scattered.clustering.num_clusters, scattered.note) == (1, "no groups beyond chance")
    assert "clouds without groups up to" in scattered.conclusion


def test_senses_of_a_real_run_are_compared_with_other_runs(runs: dict[str, Run]):
    analysis = fb.analyze_senses(
        runs["bert"], "BANK", TEXTS, senses=GOLD_SENSES, beside=[runs["word2vec"], runs["gpt2"]], groups=2
    )
    assert analysis.result.name == "bert, mean of layers 1 and 2"
    assert [item.name for item in analysis.others] == ["word2vec", "gpt2, mean of layers 1 and 2"]
    assert analysis.others[0].conclusion == SAME_IN_ANY_CONTEXT
    assert analysis.others[1].clustering.num_distinct > 1
    assert any("gpt2 looks back" in note for note in analysis.notes)
    data = analysis.to_dict()
    assert [item["size"] for item in data["vectors"]["groups"]] == [
        len(group.members) for group in analysis.result.groups
    ]
    assert data["vectors"]["groups"][0]["occurrences"][0].keys() >= {
        "sentence",
        "start",
        "x",
        "y",
        "silhouette",
        "sense",
    }
    static = fb.analyze_senses(runs["word2vec"], "bank", TEXTS)
    assert (static.result.conclusion, static.others) == (SAME_IN_ANY_CONTEXT, ())


def test_contextual_vector_is_that_of_the_word_in_its_sentence(runs: dict[str, Run]):
    """The layer-2 vector of the word in its sentence, normalized; of two words, their normalized sum."""
    from forebear.inspection.occurrences import SenseText, find_occurrences
    from forebear.inspection.senses import contextual_vectors

    sample = find_occurrences("bank", [SenseText(text) for text in TEXTS], max_occurrences=99)
    vectors = contextual_vectors(runs["bert"], sample, [2])
    words = runs["bert"].embed(TEXTS[0], words=True, layers=2)[0].words or ()
    position = [word.text for word in words].index("bank")
    expected = words[position].vector
    np.testing.assert_allclose(vectors.vectors[0], expected, atol=1e-6)
    phrase_vector = contextual_vectors(
        runs["bert"], find_occurrences("the bank", [SenseText(text) for text in MONEY], max_occurrences=99), [2]
    ).vectors[0]
    unnormalized = runs["bert"].embed(TEXTS[0], words=True, layers=2, normalise=False)[0].words or ()
    word_sum = unnormalized[position - 1].vector + unnormalized[position].vector
    assert unnormalized[position - 1].text == "the"
    np.testing.assert_allclose(phrase_vector, word_sum / np.linalg.norm(word_sum), atol=1e-6)


def test_static_vectors_differ_only_by_capitalization(runs: dict[str, Run]):
    analysis = fb.analyze_senses(runs["word2vec"], "bank", [*TEXTS, "Bank of Ivy.", "Bank of Ben."])
    assert (analysis.result.clustering.num_clusters, analysis.result.clustering.num_distinct) == (1, 2)
    assert analysis.result.conclusion.endswith("whatever stands around (bank, Bank)")
    assert (
        fb.analyze_senses(runs["word2vec"], "bank", [*TEXTS, "Bank of Ivy."], groups=2).result.clustering.num_clusters
        == 2
    )


def test_causal_model_has_identical_vectors_where_only_the_right_context_differs(runs: dict[str, Run]):
    senses = fb.analyze_senses(runs["gpt2"], "bank", [f"The muddy bank {name}." for name in NAMES]).result
    assert (senses.conclusion, senses.clustering.num_distinct) == (IDENTICAL, 1)


def test_sense_analysis_refuses_too_few_occurrences_and_bad_options(runs: dict[str, Run], tmp_path: Path):
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


def test_sense_plots_are_deterministic_and_pages_are_escaped(runs: dict[str, Run], monkeypatch: pytest.MonkeyPatch):
    plant_vectors(runs["bert"], monkeypatch, 0.2)
    analysis = fb.analyze_senses(runs["bert"], "bank", TEXTS, senses=GOLD_SENSES, groups=2)
    picture = embedding_visualization.plot_senses(analysis, "bert: bank", "svg")
    assert picture.startswith(b"<?xml")
    assert picture == embedding_visualization.plot_senses(analysis, "bert: bank", "svg")
    page = embedding_visualization.senses_page(analysis, "bert: bank")
    assert page.count("<li>") == len(TEXTS)
    assert "<mark>bank</mark> &lt;there&gt; &amp; sank." in page
    assert "<there>" not in page
    assert SAME_IN_ANY_CONTEXT in page
    assert embedding_visualization.occurrence_context(analysis.result.occurrences[0], 12)[0].startswith("…")
    by_spelling = fb.analyze_senses(runs["word2vec"], "bank", [*TEXTS, "Bank of Ivy."])
    assert embedding_visualization.plot_senses(by_spelling, "word2vec", "svg") != picture
    single_run = fb.analyze_senses(runs["bert"], "bank", TEXTS, beside=[])
    assert embedding_visualization.plot_senses(single_run, "bert", "png").startswith(b"\x89PNG")


def test_demo_sense_sentences_are_labeled_by_the_sense_of_the_word(tmp_path: Path):
    assert {"bank", "苹果"} <= set(words_of_two_meanings())
    assert "bank" not in words_of_two_meanings("zh")
    examples = list(sentences_with("bank", 40))
    assert [example.label for example in examples[:4]] == ["money", "river", "money", "river"]
    assert examples == list(sentences_with("bank", 50))[:40]
    assert all("bank" in example.text for example in examples)
    assert all(
        "boat" not in example.text or example.label == "river" or "money for a boat" in example.text
        for example in examples
    )
    file = write_sense_sentences(tmp_path / "apple.tsv", "苹果", 6)
    assert [line.split("\t")[0] for line in file.read_text("utf-8").splitlines()] == ["水果", "公司"] * 3
    with pytest.raises(InputError, match="no two meanings"):
        next(sentences_with("kite"))
