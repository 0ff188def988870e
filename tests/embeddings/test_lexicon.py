"""Lexicon queries (neighbors, analogies, similarity, odd one out): worked examples and parity with gensim."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from forebear.embeddings import knn
from forebear.embeddings.lexicon import ONEHOT_NOTE, Lexicon, solve_analogies
from forebear.embeddings.word_table import IdentityMatrix, WordVectors
from forebear.errors import InputError
from small_runs import open_small_run

WORDS = ("king", "queen", "man", "woman", "york", "new", "new york", "water")
#        royal, female, place, fluid
ROWS = np.array(
    [(3, 0, 0, 0), (3, 3, 0, 0), (1, 0, 0, 0.5), (1, 3, 0, 0.5), (0, 0, 2, 0), (0, 1, 1, 0), (0, 0, 5, 0), (0, 0, 0, 1)]
)
COUNTS = np.array([50, 40, 30, 20, 9, 8, 7, 6])


def small_lexicon(**options: object) -> Lexicon:
    return Lexicon(WordVectors(WORDS, ROWS.astype(np.float32), COUNTS, **options))  # pyright: ignore[reportArgumentType]


def random_vectors(num_words: int = 400, width: int = 12) -> WordVectors:
    rows = np.random.default_rng(3).normal(size=(num_words, width)).astype(np.float32)
    return WordVectors([f"w{number}" for number in range(num_words)], rows, np.arange(num_words, 0, -1))


def cosine(a: object, b: object) -> float:
    first, second = np.asarray(a, float), np.asarray(b, float)
    return float(first @ second / np.sqrt((first @ first) * (second @ second)))


def test_neighbors_are_sorted_by_cosine_without_the_query_word():
    (answer,) = small_lexicon().neighbors("king", 3)
    expected = sorted(((cosine(ROWS[0], row), word) for word, row in zip(WORDS, ROWS, strict=True)), reverse=True)
    assert [(neighbor.word, round(neighbor.cosine, 5)) for neighbor in answer.nearest] == [
        (word, round(score, 5)) for score, word in expected if word != "king"
    ][:3]
    assert [neighbor.count for neighbor in answer.nearest] == [30, 40, 20]
    assert answer.to_dict()["nearest"][1] == {"word": "queen", "cosine": 0.707107, "count": 40}
    assert len(small_lexicon().neighbors("king", 100)[0].nearest) == len(WORDS) - 1
    with pytest.raises(InputError, match="--top is 0"):
        small_lexicon().neighbors("king", 0)


def test_phrase_has_its_own_row_and_other_texts_are_the_mean_of_their_words():
    lexicon = small_lexicon()
    phrase, mean = lexicon.find("new york"), lexicon.find("new water")
    assert (phrase.rows, phrase.note, phrase.vector.tolist()) == ((6,), "", [0, 0, 5, 0])
    assert mean.note == "the mean of 2 words: new, water"
    assert mean.vector.tolist() == [0, 0.5, 0.5, 0.5]
    (answer,) = lexicon.neighbors(["new water"], 100)
    assert {neighbor.word for neighbor in answer.nearest} == set(WORDS) - {"new", "water"}
    capitalized = lexicon.find("New York")
    assert (capitalized.rows, capitalized.note) == ((6,), "as 'new york'")


def test_unknown_word_is_refused_with_spelling_suggestions_and_line():
    with pytest.raises(InputError, match="no vector for 'watre'") as error:
        small_lexicon().neighbors(["king", "watre"])
    assert "did you mean: water" in error.value.hint
    assert error.value.line == 2
    with pytest.raises(InputError, match="no vector for 'queeen'"):
        small_lexicon().find("king queeen")
    with pytest.raises(InputError, match="has no words"):
        small_lexicon().find("  ")


def test_unknown_word_is_composed_of_subwords_if_the_table_can():
    lexicon = small_lexicon(compose=lambda word: np.full(4, len(word), np.float32) if word.isalpha() else None)
    match = lexicon.find("kinglet")
    assert match.vector.tolist() == [7, 7, 7, 7]
    assert (match.rows, match.note) == ((), "not in the vocabulary: from its parts")
    assert lexicon.find("king ab").vector.tolist() == [2.5, 1, 1, 1]
    assert "king" in [neighbor.word for neighbor in lexicon.neighbors("kinglet", 100)[0].nearest]
    with pytest.raises(InputError, match="no vector for '123'"):
        lexicon.find("123")


def test_analogies_by_addition_and_multiplication_match_worked_example():
    for method in ("add", "multiply"):
        answer = small_lexicon().analogy("man", "king", "woman", method=method, top=8)
        assert answer.nearest[0].word == "queen"
        assert not {"man", "king", "woman"} & {neighbor.word for neighbor in answer.nearest}
        assert len(answer.nearest) == len(WORDS) - 3
    units = [row / np.linalg.norm(row) for row in ROWS]
    added = small_lexicon().analogy("man", "king", "woman").nearest[0].cosine
    assert added == pytest.approx(cosine(units[0] - units[2] + units[3], ROWS[1]), abs=1e-5)
    shifted = [(1 + cosine(ROWS[row], ROWS[1])) / 2 for row in (0, 3, 2)]
    product = small_lexicon().analogy("man", "king", "woman", method="multiply").nearest[0].cosine
    assert product == pytest.approx(shifted[0] * shifted[1] / (shifted[2] + 1e-6), abs=1e-5)
    with pytest.raises(InputError, match="method is 'guess'"):
        small_lexicon().analogy("man", "king", "woman", method="guess")  # pyright: ignore[reportArgumentType]


@pytest.fixture(scope="module")
def gensim_vectors():
    gensim = pytest.importorskip("gensim.models")
    table = random_vectors()
    vectors = gensim.KeyedVectors(table.matrix.shape[1])
    vectors.add_vectors(list(table.words), table.matrix)
    return vectors


@pytest.mark.parametrize("words", [["w3", "w77", "w399"], ["w0"]])
def test_neighbors_equal_those_of_gensim(gensim_vectors, words: list[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(knn, "VALUES_PER_BLOCK", 500)  # several blocks per search
    for answer in Lexicon(random_vectors()).neighbors(words, 15):
        expected = gensim_vectors.most_similar(answer.text, topn=15)
        assert [neighbor.word for neighbor in answer.nearest] == [word for word, _ in expected]
        assert [neighbor.cosine for neighbor in answer.nearest] == pytest.approx(
            [score for _, score in expected], abs=2e-6
        )


@pytest.mark.parametrize("method", ["add", "multiply"])
def test_analogies_equal_those_of_gensim(gensim_vectors, method: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(knn, "VALUES_PER_BLOCK", 500)
    lexicon, gensim_analogy = (
        Lexicon(random_vectors()),
        gensim_vectors.most_similar if method == "add" else gensim_vectors.most_similar_cosmul,
    )
    rng = np.random.default_rng(0)
    questions = np.stack([rng.choice(400, 3, replace=False) for _ in range(60)])
    solved = solve_analogies(lexicon, np.arange(400), questions, method)  # pyright: ignore[reportArgumentType]
    for rows, best in zip(questions.tolist(), solved.tolist(), strict=True):
        first, second, third = (f"w{row}" for row in rows)
        expected = gensim_analogy(positive=[second, third], negative=[first], topn=5)
        answer = lexicon.analogy(first, second, third, top=5, method=method)  # pyright: ignore[reportArgumentType]
        assert [neighbor.word for neighbor in answer.nearest] == [word for word, _ in expected]
        assert [neighbor.cosine for neighbor in answer.nearest] == pytest.approx(
            [score for _, score in expected], abs=3e-5
        )
        assert f"w{best}" == expected[0][0]


def test_approximate_neighbors_equal_exact_search_and_the_index_is_saved(tmp_path: Path):
    pytest.importorskip("usearch")
    lexicon = Lexicon(random_vectors(), index_path=lambda: tmp_path / "words.usearch")
    exact, approximate = lexicon.neighbors(["w5", "w6"], 5), lexicon.neighbors(["w5", "w6"], 5, approximate=True)
    assert [[neighbor.word for neighbor in answer.nearest] for answer in approximate] == [
        [neighbor.word for neighbor in answer.nearest] for answer in exact
    ]
    assert (tmp_path / "words.usearch").is_file()
    analogy = lexicon.analogy("w1", "w2", "w3", approximate=True, top=3)
    for neighbor, exact_neighbor in zip(analogy.nearest, lexicon.analogy("w1", "w2", "w3", top=3).nearest, strict=True):
        assert (neighbor.word, neighbor.count) == (exact_neighbor.word, exact_neighbor.count)
        assert neighbor.cosine == pytest.approx(exact_neighbor.cosine, abs=2e-6)
    with pytest.raises(InputError, match="near a vector"):
        lexicon.analogy("w1", "w2", "w3", approximate=True, method="multiply")


def test_onehot_queries_never_build_the_full_matrix(monkeypatch: pytest.MonkeyPatch):
    size, largest = 3000, 0
    get_rows = IdentityMatrix.__getitem__

    def counted(self: IdentityMatrix, index: object) -> np.ndarray:
        nonlocal largest
        result = get_rows(self, index)
        largest = max(largest, result.size)
        return result

    monkeypatch.setattr(IdentityMatrix, "__getitem__", counted)
    table = WordVectors([f"w{row}" for row in range(size)], IdentityMatrix(size), np.arange(size, 0, -1))  # pyright: ignore
    lexicon = Lexicon(table)
    assert lexicon.neighbors("w7", 3)[0].nearest == lexicon.analogy("w1", "w2", "w3", top=1).nearest == ()
    result = knn.nearest_rows(np.asarray(table.matrix[7:8]), table.matrix, 3, lexicon.norms)
    assert (result.rows.tolist(), result.cosines.tolist()) == ([[7, 0, 1]], [[1, 0, 0]])
    assert solve_analogies(lexicon, np.arange(size), np.array([[1, 2, 3], [0, 1, 2]])).tolist() == [0, 3]
    assert largest < size * size / 100
    with pytest.raises(InputError, match="need no index"):
        lexicon.neighbors("w7", 3, approximate=True)


# -- runs


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("words")
    runs_by_name = {name: open_small_run(name, folder, to=name, steps=20) for name in ("onehot", "word2vec")}
    runs_by_name["network"] = open_small_run("gpt2", folder, to="gpt2", tokenizer="words", steps=3)
    runs_by_name["pieces"] = open_small_run("bert", folder, to="bert", steps=3)
    runs_by_name["pairs"] = open_small_run("transformer", folder, to="pairs", steps=3)
    runs_by_name["counts"] = open_small_run("ngram", folder, to="ngram")
    return runs_by_name


def test_runs_with_word_vectors_answer_neighbors_and_analogies(runs):
    for name in ("word2vec", "network"):
        run = runs[name]
        (answer,) = run.neighbours("cat")
        assert len(answer.nearest) == 10
        assert (answer.nearest[0].count is None) == (name == "network")
        assert run.analogy("cat", "mat", "dog", top=2).nearest
        assert run.neighbours("cat", top=1)[0].nearest == answer.nearest[:1]
    assert runs["word2vec"].neighbours("THE CAT")[0].note == "the mean of 2 words: THE, CAT"


def test_onehot_run_returns_no_neighbors_and_notes_why(runs):
    run = runs["onehot"]
    (answer,) = run.neighbours("cat")
    assert (answer.nearest, answer.note) == ((), ONEHOT_NOTE)
    assert run.neighbours("The cat")[0].note.startswith("the mean of 2 words: The, cat; one-hot vectors")
    for method in ("add", "multiply"):
        analogy = run.analogy("cat", "mat", "dog", method=method)
        assert (analogy.nearest, analogy.notes) == ((), (ONEHOT_NOTE,))
    assert run.similarity("cat", "dog").notes == (ONEHOT_NOTE,)
    assert (run.similarity("cat", "cat").cosine, run.similarity("cat", "cat").notes) == (1, ())
    odd = run.odd_one_out(["cat", "dog", "mat"])
    assert (odd.outlier, odd.cosines, odd.notes) == (None, (0, 0, 0), (ONEHOT_NOTE,))
    assert odd.to_dict()["odd"] is None
    assert run.odd_one_out(["cat", "dog", "cat"]).outlier == "dog"
    assert runs["pieces"].odd_one_out(["a cat"] * 3).outlier is None


def test_zero_vector_has_no_neighbors_and_a_note():
    lexicon = Lexicon(WordVectors(["a", "b", "c"], np.array([(0, 0), (1, 0), (1, 1)], np.float32)))
    of_zeros, of_b = lexicon.neighbors(["a", "b"], 2)
    assert (of_zeros.nearest, of_zeros.note) == ((), "its vector is all zeros, and near to nothing")
    assert [neighbor.word for neighbor in of_b.nearest] == ["c", "a"]


def test_single_word_lexicon_has_no_neighbors_and_a_note():
    answers = Lexicon(WordVectors(["hello"], np.ones((1, 3), np.float32)), lambda text: [text]).neighbors(["hello"])
    assert (answers[0].nearest, answers[0].note) == ((), "there is no other word")


def test_run_vector_returns_a_copy_of_the_word_vector(runs):
    for name in ("word2vec", "network", "onehot"):
        run = runs[name]
        vector = run.vector("cat")
        assert (vector.dtype, vector.shape) == (np.float32, run.word_table.matrix.shape[1:])
        assert vector.tolist() == run.word_table.matrix[run.word_table.rows["cat"]].tolist()
        vector[:] = 0
        assert run.vector("cat").any()  # the result is a copy
        assert run.vector("cat dog") == pytest.approx((run.vector("cat") + run.vector("dog")) / 2, abs=1e-6)
    with pytest.raises(InputError, match="no vector for 'catt'"):
        runs["word2vec"].vector("catt")
    with pytest.raises(InputError, match="tokens are wordpiece, not words"):
        runs["pieces"].vector("cat")


def test_word_queries_report_cosine_under_one_key(runs):
    run = runs["word2vec"]
    answer, analogy = run.neighbours("cat", top=1)[0], run.analogy("cat", "mat", "dog", top=1)
    assert (
        answer.to_dict()["nearest"][0].keys() == analogy.to_dict()["nearest"][0].keys() == {"word", "cosine", "count"}
    )
    assert run.analogy("cat", "mat", "dog", method="multiply").to_dict()["nearest"][0].keys() == {
        "word",
        "score",
        "count",
    }
    assert "cosine" in run.similarity("cat", "dog").to_dict()
    assert "cosine" in run.odd_one_out(["cat", "dog", "mat"]).to_dict()["texts"][0]


def test_similarity_uses_word_vectors_for_words_and_embeddings_for_texts(runs):
    table = runs["word2vec"]
    same, mixed = table.similarity("cat", "cat"), table.similarity("the cat", "dog")
    assert (same.vector_kind, same.cosine) == ("words", pytest.approx(1, abs=1e-5))
    assert mixed.notes == ("'the cat': the mean of 2 words: the, cat",)
    assert mixed.cosine == pytest.approx(
        cosine(*(embedding.vector for embedding in table.embed(["the cat", "dog"]))), abs=1e-5
    )
    rows = {word: row for row, word in enumerate(table.word_table.words)}
    expected = cosine(*(table.word_table.matrix[rows[word]] for word in ("cat", "dog")))
    assert table.similarity("cat", "dog").cosine == pytest.approx(expected, abs=1e-5)
    assert runs["onehot"].similarity("cat", "dog").cosine == 0
    network = runs["network"]
    assert (network.similarity("cat", "dog").vector_kind, network.similarity("the cat", "dog").vector_kind) == (
        "words",
        "texts",
    )
    for pair, options in ((("the cat", "dog"), {}), (("cat", "dog"), {"layers": 1})):
        similarity = network.similarity(*pair, **options)
        assert similarity.vector_kind == "texts"
        assert similarity.cosine == pytest.approx(
            cosine(*(embedding.vector for embedding in network.embed(pair, **options))), abs=1e-5
        )
    pieces = runs["pieces"].similarity("a cat", "a dog", pooling="max")
    assert (pieces.vector_kind, abs(pieces.cosine) <= 1) == ("texts", True)


def test_odd_one_out_equals_that_of_gensim(runs):
    gensim = pytest.importorskip("gensim.models")
    run = runs["word2vec"]
    vectors = gensim.KeyedVectors(run.word_table.matrix.shape[1])
    vectors.add_vectors(list(run.word_table.words), run.word_table.matrix)
    rng = np.random.default_rng(0)
    for _ in range(30):
        words = [run.word_table.words[row] for row in rng.choice(len(run.word_table.words), 5, replace=False)]
        assert run.odd_one_out(words).outlier == vectors.doesnt_match(words)
    answer = run.odd_one_out(["cat", "dog", "Number"])
    units = [row / np.linalg.norm(row) for row in (run.word_table.vector(word) for word in ("cat", "dog", "Number"))]
    assert answer.cosines[0] == pytest.approx((units[0] @ units[1] + units[0] @ units[2]) / 2, abs=1e-5)
    assert runs["pieces"].odd_one_out(["a cat", "a cat", "Number 7"]).outlier == "Number 7"
    with pytest.raises(InputError, match="of 2 texts none"):
        run.odd_one_out(["cat", "dog"])


def test_word_queries_on_unsuitable_runs_are_refused_with_hint(runs):
    with pytest.raises(InputError, match="tokens are wordpiece, not words") as error:
        runs["pieces"].neighbours("cat")
    assert "--among" in error.value.hint
    for name in ("counts", "pairs"):
        for query in (
            lambda run: run.neighbours("cat"),
            lambda run: run.similarity("a", "b"),
            lambda run: run.odd_one_out(["a", "b", "c"]),
            lambda run: run.analogy("a", "b", "c"),
        ):
            with pytest.raises(InputError, match="cannot be asked"):
                query(runs[name])
    with pytest.raises(InputError, match="cannot be asked for an analogy"):
        runs["pieces"].analogy("a", "b", "c")
    with pytest.raises(InputError, match="--layers is for searching texts"):
        runs["word2vec"].neighbours("cat", layers=0)
