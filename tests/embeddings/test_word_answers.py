"""Words asked by their vectors: by hand, and beside gensim on the same vectors; words that are not there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from forebear.embeddings import knn as searching
from forebear.embeddings.lexicon import ONEHOT_NOTE, Lexicon, solve_analogies
from forebear.embeddings.word_table import IdentityMatrix, WordVectors
from forebear.errors import InputError
from small_runs import opened

WORDS = ("king", "queen", "man", "woman", "york", "new", "new york", "water")
#        royal, female, place, fluid
ROWS = np.array(
    [(3, 0, 0, 0), (3, 3, 0, 0), (1, 0, 0, 0.5), (1, 3, 0, 0.5), (0, 0, 2, 0), (0, 1, 1, 0), (0, 0, 5, 0), (0, 0, 0, 1)]
)
COUNTS = np.array([50, 40, 30, 20, 9, 8, 7, 6])


def by_hand(**how: object) -> Lexicon:
    return Lexicon(WordVectors(WORDS, ROWS.astype(np.float32), COUNTS, **how))  # pyright: ignore[reportArgumentType]


def chance(words: int = 400, width: int = 12) -> WordVectors:
    rows = np.random.default_rng(3).normal(size=(words, width)).astype(np.float32)
    return WordVectors([f"w{number}" for number in range(words)], rows, np.arange(words, 0, -1))


def cosine(a: object, b: object) -> float:
    one, other = np.asarray(a, float), np.asarray(b, float)
    return float(one @ other / np.sqrt((one @ one) * (other @ other)))


def test_neighbours_are_the_nearest_without_the_word_itself():
    (found,) = by_hand().neighbors("king", 3)
    expected = sorted(((cosine(ROWS[0], row), word) for word, row in zip(WORDS, ROWS, strict=True)), reverse=True)
    assert [(one.word, round(one.cosine, 5)) for one in found.nearest] == [
        (word, round(score, 5)) for score, word in expected if word != "king"
    ][:3]
    assert [one.count for one in found.nearest] == [30, 40, 20]
    assert found.to_dict()["nearest"][1] == {"word": "queen", "cosine": 0.707107, "count": 40}
    assert len(by_hand().neighbors("king", 100)[0].nearest) == len(WORDS) - 1
    with pytest.raises(InputError, match="--top is 0"):
        by_hand().neighbors("king", 0)


def test_a_phrase_is_its_own_row_and_other_texts_are_the_mean_of_their_words():
    lexicon = by_hand()
    row, mean = lexicon.find("new york"), lexicon.find("new water")
    assert (row.rows, row.note, row.vector.tolist()) == ((6,), "", [0, 0, 5, 0])
    assert mean.note == "the mean of 2 words: new, water"
    assert mean.vector.tolist() == [0, 0.5, 0.5, 0.5]
    (near,) = lexicon.neighbors(["new water"], 100)
    assert {one.word for one in near.nearest} == set(WORDS) - {"new", "water"}
    capital = lexicon.find("New York")
    assert (capital.rows, capital.note) == ((6,), "as 'new york'")


def test_a_word_without_a_vector_is_named_with_those_that_are_spelled_alike():
    with pytest.raises(InputError, match="no vector for 'watre'") as told:
        by_hand().neighbors(["king", "watre"])
    assert "did you mean: water" in told.value.hint
    assert told.value.line == 2
    with pytest.raises(InputError, match="no vector for 'queeen'"):
        by_hand().find("king queeen")
    with pytest.raises(InputError, match="has no words"):
        by_hand().find("  ")


def test_a_word_is_composed_of_its_parts_where_the_table_can():
    lexicon = by_hand(compose=lambda word: np.full(4, len(word), np.float32) if word.isalpha() else None)
    found = lexicon.find("kinglet")
    assert found.vector.tolist() == [7, 7, 7, 7]
    assert (found.rows, found.note) == ((), "not in the vocabulary: from its parts")
    assert lexicon.find("king ab").vector.tolist() == [2.5, 1, 1, 1]
    assert "king" in [one.word for one in lexicon.neighbors("kinglet", 100)[0].nearest]
    with pytest.raises(InputError, match="no vector for '123'"):
        lexicon.find("123")


def test_analogies_by_hand_add_and_multiply():
    for method in ("add", "multiply"):
        found = by_hand().analogy("man", "king", "woman", method=method, top=8)
        assert found.nearest[0].word == "queen"
        assert not {"man", "king", "woman"} & {one.word for one in found.nearest}
        assert len(found.nearest) == len(WORDS) - 3
    units = [row / np.linalg.norm(row) for row in ROWS]
    added = by_hand().analogy("man", "king", "woman").nearest[0].cosine
    assert added == pytest.approx(cosine(units[0] - units[2] + units[3], ROWS[1]), abs=1e-5)
    shifted = [(1 + cosine(ROWS[row], ROWS[1])) / 2 for row in (0, 3, 2)]
    product = by_hand().analogy("man", "king", "woman", method="multiply").nearest[0].cosine
    assert product == pytest.approx(shifted[0] * shifted[1] / (shifted[2] + 1e-6), abs=1e-5)
    with pytest.raises(InputError, match="method is 'guess'"):
        by_hand().analogy("man", "king", "woman", method="guess")  # pyright: ignore[reportArgumentType]


@pytest.fixture(scope="module")
def theirs():
    gensim = pytest.importorskip("gensim.models")
    table = chance()
    vectors = gensim.KeyedVectors(table.matrix.shape[1])
    vectors.add_vectors(list(table.words), table.matrix)
    return vectors


@pytest.mark.parametrize("words", [["w3", "w77", "w399"], ["w0"]])
def test_neighbours_as_in_gensim(theirs, words: list[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(searching, "BLOCK_BYTES", 500)  # several blocks
    for answer in Lexicon(chance()).neighbors(words, 15):
        expected = theirs.most_similar(answer.text, topn=15)
        assert [one.word for one in answer.nearest] == [word for word, _ in expected]
        assert [one.cosine for one in answer.nearest] == pytest.approx([score for _, score in expected], abs=2e-6)


@pytest.mark.parametrize("method", ["add", "multiply"])
def test_analogies_as_in_gensim(theirs, method: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(searching, "BLOCK_BYTES", 500)
    lexicon, ask = Lexicon(chance()), theirs.most_similar if method == "add" else theirs.most_similar_cosmul
    rng = np.random.default_rng(0)
    asked = np.stack([rng.choice(400, 3, replace=False) for _ in range(60)])
    at_once = solve_analogies(lexicon, np.arange(400), asked, method)  # pyright: ignore[reportArgumentType]
    for rows, best in zip(asked.tolist(), at_once.tolist(), strict=True):
        first, second, third = (f"w{row}" for row in rows)
        expected = ask(positive=[second, third], negative=[first], topn=5)
        found = lexicon.analogy(first, second, third, top=5, method=method)  # pyright: ignore[reportArgumentType]
        assert [one.word for one in found.nearest] == [word for word, _ in expected]
        assert [one.cosine for one in found.nearest] == pytest.approx([score for _, score in expected], abs=3e-5)
        assert f"w{best}" == expected[0][0]


def test_an_index_finds_what_exact_search_does_and_is_kept(tmp_path: Path):
    pytest.importorskip("usearch")
    lexicon = Lexicon(chance(), index_path=lambda: tmp_path / "words.usearch")
    exact, quick = lexicon.neighbors(["w5", "w6"], 5), lexicon.neighbors(["w5", "w6"], 5, approximate=True)
    assert [[one.word for one in answer.nearest] for answer in quick] == [
        [one.word for one in answer.nearest] for answer in exact
    ]
    assert (tmp_path / "words.usearch").is_file()
    added = lexicon.analogy("w1", "w2", "w3", approximate=True, top=3)
    for one, other in zip(added.nearest, lexicon.analogy("w1", "w2", "w3", top=3).nearest, strict=True):
        assert (one.word, one.count) == (other.word, other.count)
        assert one.cosine == pytest.approx(other.cosine, abs=2e-6)
    with pytest.raises(InputError, match="near a vector"):
        lexicon.analogy("w1", "w2", "w3", approximate=True, method="multiply")


def test_one_hot_vectors_are_never_all_made(monkeypatch: pytest.MonkeyPatch):
    size, most = 3000, 0
    rows = IdentityMatrix.__getitem__

    def watched(self: IdentityMatrix, which: object) -> np.ndarray:
        nonlocal most
        made = rows(self, which)
        most = max(most, made.size)
        return made

    monkeypatch.setattr(IdentityMatrix, "__getitem__", watched)
    table = WordVectors([f"w{row}" for row in range(size)], IdentityMatrix(size), np.arange(size, 0, -1))  # pyright: ignore
    lexicon = Lexicon(table)
    assert lexicon.neighbors("w7", 3)[0].nearest == lexicon.analogy("w1", "w2", "w3", top=1).nearest == ()
    near = searching.nearest_rows(np.asarray(table.matrix[7:8]), table.matrix, 3, lexicon.norms)
    assert (near.rows.tolist(), near.cosines.tolist()) == ([[7, 0, 1]], [[1, 0, 0]])
    assert solve_analogies(lexicon, np.arange(size), np.array([[1, 2, 3], [0, 1, 2]])).tolist() == [0, 3]
    assert most < size * size / 100
    with pytest.raises(InputError, match="need no index"):
        lexicon.neighbors("w7", 3, approximate=True)


# -- runs


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("words")
    made = {name: opened(name, folder, to=name, steps=20) for name in ("onehot", "word2vec")}
    made["network"] = opened("gpt2", folder, to="gpt2", tokenizer="words", steps=3)
    made["pieces"] = opened("bert", folder, to="bert", steps=3)
    made["pairs"] = opened("transformer", folder, to="pairs", steps=3)
    made["counts"] = opened("ngram", folder, to="ngram")
    return made


def test_every_run_of_words_has_neighbours_and_analogies(runs):
    for name in ("word2vec", "network"):
        run = runs[name]
        (near,) = run.neighbours("cat")
        assert len(near.nearest) == 10
        assert (near.nearest[0].count is None) == (name == "network")
        assert run.analogy("cat", "mat", "dog", top=2).nearest
        assert run.neighbours("cat", top=1)[0].nearest == near.nearest[:1]
    assert runs["word2vec"].neighbours("THE CAT")[0].note == "the mean of 2 words: THE, CAT"


def test_one_hot_vectors_present_no_word_as_near_and_say_why(runs):
    run = runs["onehot"]
    (near,) = run.neighbours("cat")
    assert (near.nearest, near.note) == ((), ONEHOT_NOTE)
    assert run.neighbours("The cat")[0].note.startswith("the mean of 2 words: The, cat; one-hot vectors")
    for method in ("add", "multiply"):
        found = run.analogy("cat", "mat", "dog", method=method)
        assert (found.nearest, found.notes) == ((), (ONEHOT_NOTE,))
    assert run.similarity("cat", "dog").notes == (ONEHOT_NOTE,)
    assert (run.similarity("cat", "cat").cosine, run.similarity("cat", "cat").notes) == (1, ())
    none = run.odd_one_out(["cat", "dog", "mat"])
    assert (none.outlier, none.cosines, none.notes) == (None, (0, 0, 0), (ONEHOT_NOTE,))
    assert none.to_dict()["odd"] is None
    assert run.odd_one_out(["cat", "dog", "cat"]).outlier == "dog"
    assert runs["pieces"].odd_one_out(["a cat"] * 3).outlier is None


def test_a_vector_of_zeros_is_near_to_nothing():
    lexicon = Lexicon(WordVectors(["a", "b", "c"], np.array([(0, 0), (1, 0), (1, 1)], np.float32)))
    nowhere, somewhere = lexicon.neighbors(["a", "b"], 2)
    assert (nowhere.nearest, nowhere.note) == ((), "its vector is all zeros, and near to nothing")
    assert [one.word for one in somewhere.nearest] == ["c", "a"]


def test_the_only_word_has_no_other():
    found = Lexicon(WordVectors(["hello"], np.ones((1, 3), np.float32)), lambda text: [text]).neighbors(["hello"])
    assert (found[0].nearest, found[0].note) == ((), "there is no other word")


def test_a_word_gives_its_numbers(runs):
    for name in ("word2vec", "network", "onehot"):
        run = runs[name]
        vector = run.vector("cat")
        assert (vector.dtype, vector.shape) == (np.float32, run.word_table.matrix.shape[1:])
        assert vector.tolist() == run.word_table.matrix[run.word_table.rows["cat"]].tolist()
        vector[:] = 0
        assert run.vector("cat").any()  # it was a copy
        assert run.vector("cat dog") == pytest.approx((run.vector("cat") + run.vector("dog")) / 2, abs=1e-6)
    with pytest.raises(InputError, match="no vector for 'catt'"):
        runs["word2vec"].vector("catt")
    with pytest.raises(InputError, match="tokens are wordpiece, not words"):
        runs["pieces"].vector("cat")


def test_cosines_have_one_name(runs):
    run = runs["word2vec"]
    near, found = run.neighbours("cat", top=1)[0], run.analogy("cat", "mat", "dog", top=1)
    assert near.to_dict()["nearest"][0].keys() == found.to_dict()["nearest"][0].keys() == {"word", "cosine", "count"}
    assert run.analogy("cat", "mat", "dog", method="multiply").to_dict()["nearest"][0].keys() == {
        "word",
        "score",
        "count",
    }
    assert "cosine" in run.similarity("cat", "dog").to_dict()
    assert "cosine" in run.odd_one_out(["cat", "dog", "mat"]).to_dict()["texts"][0]


def test_similarity_is_by_words_where_there_are_words_and_else_by_texts(runs):
    table = runs["word2vec"]
    same, mixed = table.similarity("cat", "cat"), table.similarity("the cat", "dog")
    assert (same.vector_kind, same.cosine) == ("words", pytest.approx(1, abs=1e-5))
    assert mixed.notes == ("'the cat': the mean of 2 words: the, cat",)
    assert mixed.cosine == pytest.approx(cosine(*(one.vector for one in table.embed(["the cat", "dog"]))), abs=1e-5)
    rows = {word: row for row, word in enumerate(table.word_table.words)}
    expected = cosine(*(table.word_table.matrix[rows[word]] for word in ("cat", "dog")))
    assert table.similarity("cat", "dog").cosine == pytest.approx(expected, abs=1e-5)
    assert runs["onehot"].similarity("cat", "dog").cosine == 0
    network = runs["network"]
    assert (network.similarity("cat", "dog").vector_kind, network.similarity("the cat", "dog").vector_kind) == (
        "words",
        "texts",
    )
    for pair, how in ((("the cat", "dog"), {}), (("cat", "dog"), {"layers": 1})):
        found = network.similarity(*pair, **how)
        assert found.vector_kind == "texts"
        assert found.cosine == pytest.approx(cosine(*(one.vector for one in network.embed(pair, **how))), abs=1e-5)
    pieces = runs["pieces"].similarity("a cat", "a dog", pooling="max")
    assert (pieces.vector_kind, abs(pieces.cosine) <= 1) == ("texts", True)


def test_the_odd_one_is_that_of_gensim(runs):
    gensim = pytest.importorskip("gensim.models")
    run = runs["word2vec"]
    vectors = gensim.KeyedVectors(run.word_table.matrix.shape[1])
    vectors.add_vectors(list(run.word_table.words), run.word_table.matrix)
    rng = np.random.default_rng(0)
    for _ in range(30):
        words = [run.word_table.words[row] for row in rng.choice(len(run.word_table.words), 5, replace=False)]
        assert run.odd_one_out(words).outlier == vectors.doesnt_match(words)
    found = run.odd_one_out(["cat", "dog", "Number"])
    units = [row / np.linalg.norm(row) for row in (run.word_table.vector(word) for word in ("cat", "dog", "Number"))]
    assert found.cosines[0] == pytest.approx((units[0] @ units[1] + units[0] @ units[2]) / 2, abs=1e-5)
    assert runs["pieces"].odd_one_out(["a cat", "a cat", "Number 7"]).outlier == "Number 7"
    with pytest.raises(InputError, match="of 2 texts none"):
        run.odd_one_out(["cat", "dog"])


def test_runs_without_vectors_or_words_say_what_they_can_do(runs):
    with pytest.raises(InputError, match="tokens are wordpiece, not words") as told:
        runs["pieces"].neighbours("cat")
    assert "--among" in told.value.hint
    for name in ("counts", "pairs"):
        for ask in (
            lambda run: run.neighbours("cat"),
            lambda run: run.similarity("a", "b"),
            lambda run: run.odd_one_out(["a", "b", "c"]),
            lambda run: run.analogy("a", "b", "c"),
        ):
            with pytest.raises(InputError, match="cannot be asked"):
                ask(runs[name])
    with pytest.raises(InputError, match="cannot be asked for an analogy"):
        runs["pieces"].analogy("a", "b", "c")
    with pytest.raises(InputError, match="--layers is for searching texts"):
        runs["word2vec"].neighbours("cat", layers=0)
