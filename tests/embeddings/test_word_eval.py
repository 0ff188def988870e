"""Evaluation of word vectors: file formats, similarity and analogy scores against scipy and gensim, coverage."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from forebear.embeddings import lexicon
from forebear.embeddings.evaluation import (
    AnalogyAccuracy,
    AnalogyEval,
    AnalogySection,
    AnalogySet,
    SimilarityEval,
    WordPairSet,
    analogy_eval,
    read_word_eval_file,
    similarity_eval,
    table_similarity_eval,
)
from forebear.embeddings.lexicon import Lexicon
from forebear.embeddings.word_table import IdentityMatrix, WordVectors
from forebear.errors import InputError
from small_runs import open_small_run

FILES = {
    "tabs": "love\tsex\t6.77\r\ntiger\tcat\t7.35\r\n",
    "spaces": "love sex 6.77\ntiger cat 7.35\n",
    "headed": "Word 1,Word 2,Human (mean)\nlove,sex,6.77\ntiger,cat,7.35\n",
    "persons": "Word 1,Word 2,Human (mean),1,2\nlove,sex,6.77,9,6\ntiger,cat,7.35,8,7\n",
    "unheaded": "love\tsex\tN\t6.77\t3\ntiger\tcat\tN\t7.35\t4\n",
    "commented": "# people were asked\n\nlove\tsex\t6.77\n# and again\ntiger\tcat\t7.35",
    "simlex": "word1\tword2\tPOS\tSimLex999\tconc(w1)\nlove\tsex\tN\t6.77\t3\ntiger\tcat\tN\t7.35\t4\n",
    "judged": "love\tsex\t6.77\t9\t6\ntiger\tcat\t7.35\t8\t7\n",
    "numbered": "1\tlove\tsex\t6.77\n2\ttiger\tcat\t7.35\n",
    "numbered and headed": "id,w1,w2,score\n0,love,sex,6.77\n1,tiger,cat,7.35\n",
    "semicolons": "love;sex;6.77\ntiger;cat;7.35\n",
    "astray": " love\tsex \t6.77\ntiger\t cat\t7.35\n",
}


def write_file(folder: Path, text: str, name: str = "words.txt") -> Path:
    file = folder / name
    file.write_bytes(text.encode())
    return file


@pytest.mark.parametrize("form", FILES)
def test_word_pairs_are_read_in_every_file_format(form: str, tmp_path: Path):
    pair_set = read_word_eval_file(write_file(tmp_path, FILES[form]))
    assert isinstance(pair_set, WordPairSet)
    assert pair_set.pairs == (("love", "sex"), ("tiger", "cat"))
    assert pair_set.scores.tolist() == [6.77, 7.35]
    assert bool(pair_set.headings) == (form in ("headed", "simlex", "persons", "numbered and headed"))


def test_analogies_are_read_by_section_and_kind(tmp_path: Path):
    google = ": capital\nAthens Greece Oslo Norway\n: gram1-adverb\nbad badly good well\nbad badly calm calmly\n"
    google_set = read_word_eval_file(write_file(tmp_path, google))
    assert isinstance(google_set, AnalogySet)
    assert [(section.name, section.kind, len(section.questions)) for section in google_set.sections] == [
        ("capital", "semantic", 1), ("gram1-adverb", "syntactic", 2),
    ]  # fmt: skip
    chinese_set = read_word_eval_file(write_file(tmp_path, ": A\r\n避 避一避 补 补一补\r\n", "morphological.txt"))
    assert isinstance(chinese_set, AnalogySet)
    assert chinese_set.sections[0].kind == "syntactic"
    assert chinese_set.sections[0].questions == (("避", "避一避", "补", "补一补"),)
    plain_set = read_word_eval_file(write_file(tmp_path, "a b c d\ne f g h\n", "plain.tsv"))
    assert isinstance(plain_set, AnalogySet)
    assert (plain_set.sections[0].name, plain_set.sections[0].kind) == ("", "")


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("love sex 6.77\ntiger cat\n", 2, "no pair of words"),
        ("love sex 6.77\ntiger cat much\n", 2, "no pair of words"),
        ("love sex 6.77\ntiger cat nan\n", 2, "no pair of words"),
        ("love\tsex\t6,77\ntiger\tcat\t8.5\n", 1, "'6,77' is none"),
        ("love\tsex\tnan\ntiger\tcat\t8.5\n", 1, "'nan' is none"),
        ("love\tsex\t-inf\ntiger\tcat\t8.5\n", 1, "'-inf' is none"),
        ("love\tsex\t6.77\ntiger\tcat\tnan\t5\n", 2, "'nan' is none"),
        (": capital\nAthens Greece Oslo Norway\nOslo Norway Athens\n", 3, "no analogy of four words"),
        (": capital\n: currency\n", None, "no analogies"),
        ("\n# nothing\n", None, "nothing in this file"),
    ],
)
def test_word_eval_file_with_bad_line_is_refused_with_line_and_hint(
    tmp_path: Path, text: str, line: int | None, message: str
):
    with pytest.raises(InputError, match=message) as error:
        read_word_eval_file(write_file(tmp_path, text))
    assert (error.value.line, error.value.file) == (line, str(tmp_path / "words.txt"))
    assert error.value.hint


def test_word_eval_file_is_read_in_the_given_encoding_only(tmp_path: Path):
    file = tmp_path / "words.txt"
    file.write_bytes("北京\t上海\t7.5\n钱\t现金\t8\n".encode("gb18030"))
    pair_set = read_word_eval_file(file, "gb18030")
    assert isinstance(pair_set, WordPairSet)
    assert pair_set.pairs[0] == ("北京", "上海")
    with pytest.raises(InputError, match="utf-8"):
        read_word_eval_file(file)


# -- word similarity

VECTORS = WordVectors(
    ["a", "b", "c", "d", "new york"],
    np.array([(1, 0), (1, 1), (0, 1), (-1, 0), (0, 2)], np.float32),
    np.array([9, 8, 7, 6, 5]),
)


def pair_set_of(*rows: tuple[str, str, float]) -> WordPairSet:
    return WordPairSet("pairs.tsv", tuple(row[:2] for row in rows), np.array([row[2] for row in rows]))


def test_similarity_eval_equals_scipy_with_missing_pairs_skipped_or_at_the_mean():
    stats = pytest.importorskip("scipy.stats")
    pair_set = pair_set_of(
        ("a", "b", 8), ("A", "c", 3), ("a", "d", 1), ("b", "zzz", 9), ("c", "new_york", 9), ("x", "x", 2)
    )
    result = table_similarity_eval(VECTORS, pair_set)
    cosines = [np.sqrt(0.5), 0, -1, 1]
    scores = [8, 3, 1, 9]
    assert (result.covered, result.pairs, result.missing, result.by) == (4, 6, ("zzz", "x"), "words")
    assert result.spearman == pytest.approx(stats.spearmanr(scores, cosines).statistic)
    assert result.pearson == pytest.approx(stats.pearsonr(scores, cosines).statistic)
    mean = np.mean(cosines)
    all_cosines, all_scores = [*cosines[:3], mean, 1, mean], [8, 3, 1, 9, 9, 2]
    assert result.spearman_all == pytest.approx(stats.spearmanr(all_scores, all_cosines).statistic)
    assert result.pearson_all == pytest.approx(stats.pearsonr(all_scores, all_cosines).statistic)
    data = result.to_dict()
    assert (data["kind"], data["missing_words"], data["composed_words"]) == ("similarity", 2, 0)
    assert "left out" in data["treatment"]


@pytest.mark.parametrize(
    ("words", "note"),
    [
        (["北京", "大学", "中国"], "the run's words are Chinese, and the file's are not"),
        (["King", "Queen", "the"], "2 of the missing words are there with other capitals (King, Queen)"),
        (["the", "of", "and"], "the run knows 3 words: more text, or a lower --min-count"),
        (["king", "queen", "water"], ""),
    ],
)
def test_word_eval_with_low_coverage_notes_the_likely_cause(words: list[str], note: str):
    table = WordVectors(words, np.eye(3, dtype=np.float32))
    result = table_similarity_eval(table, pair_set_of(("king", "queen", 8), ("king", "water", 3), ("boat", "king", 3)))
    assert result.note.startswith(note)
    assert bool(result.note) == bool(note)
    assert result.to_dict()["why"] == result.note
    analogies = AnalogySet("asked", (AnalogySection("", "", (("king", "queen", "water", "boat"),)),))
    assert analogy_eval(Lexicon(table), analogies).note.startswith(note)
    chinese = table_similarity_eval(WordVectors(["a"], np.ones((1, 1))), pair_set_of(("北京", "上海", 8)))
    assert chinese.note.startswith("the file's words are Chinese, and the run's are not")


def test_similarity_eval_of_constant_scores_or_cosines_is_undefined():
    equal_scores = table_similarity_eval(VECTORS, pair_set_of(("a", "b", 5), ("a", "c", 5), ("a", "d", 5)))
    assert equal_scores.undefined == "all judgements of covered pairs are equal"
    equal_cosines = table_similarity_eval(VECTORS, pair_set_of(("a", "c", 5), ("c", "d", 1), ("a", "zzz", 3)))
    assert equal_cosines.undefined == "all cosines of covered pairs are equal"
    rows = {"a": np.array((1.0, 0.0)), "b": np.array((0.1, np.sqrt(0.99)))}
    # The mean of cosines is not exactly 0.1 in floating point
    nearly_equal = pair_set_of(("a", "b", 5), ("b", "a", 1), ("a", "b", 2), ("a", "zzz", 3))
    for result in (equal_scores, equal_cosines, similarity_eval(nearly_equal, rows.get, "words")):
        assert (result.spearman, result.pearson, result.spearman_all, result.pearson_all) == (None,) * 4
    partly_constant = table_similarity_eval(VECTORS, pair_set_of(("a", "b", 5), ("a", "c", 5), ("a", "zzz", 3)))
    assert partly_constant.spearman is None
    assert partly_constant.spearman_all is not None
    assert table_similarity_eval(VECTORS, pair_set_of(("a", "b", 5))).undefined == "fewer than two pairs are covered"
    assert table_similarity_eval(VECTORS, pair_set_of(("a", "b", 5), ("a", "c", 4))).undefined == ""


def test_spearman_with_ties_equals_scipy():
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(0)
    words = [f"w{number}" for number in range(40)]
    table = WordVectors(words, rng.integers(-1, 2, (40, 3)).astype(np.float32) + 0.5)
    rows = rng.integers(0, 40, (200, 2))
    scores = rng.integers(0, 4, 200).astype(float)
    pair_set = WordPairSet("f", tuple((words[a], words[b]) for a, b in rows), scores)
    units = table.matrix / np.linalg.norm(table.matrix, axis=1, keepdims=True)
    cosines = np.round((units[rows[:, 0]] * units[rows[:, 1]]).sum(1), 6)
    assert table_similarity_eval(table, pair_set).spearman == pytest.approx(
        stats.spearmanr(scores, cosines).statistic, abs=1e-9
    )


def test_similarity_eval_without_coverage_is_none_and_counts_composed_words():
    uncovered = table_similarity_eval(VECTORS, pair_set_of(("x", "y", 1), ("a", "x", 2)))
    assert (uncovered.covered, uncovered.spearman, uncovered.spearman_all) == (0, None, None)
    composing_table = WordVectors(
        VECTORS.words, VECTORS.matrix, compose=lambda word: np.array([len(word), 1], np.float32)
    )
    result = table_similarity_eval(composing_table, pair_set_of(("x", "y", 1), ("a", "xxx", 2), ("a", "d", 0)))
    assert (result.covered, result.composed, result.missing) == (3, 3, ())
    assert result.pearson is not None


# -- analogies


def analogy_set_of(*rows: tuple[str, str, str, str], name: str = "s") -> AnalogySet:
    from forebear.embeddings.evaluation import AnalogySection

    return AnalogySet("f", (AnalogySection(name, "", rows),))


def test_analogy_accuracy_matches_worked_example_with_missing_words_counted_wrong():
    words = ["man", "king", "woman", "queen", "rare"]
    rows = np.array([(1, 0, 0.1), (1, 0, 1), (0, 1, 0.1), (0, 1, 1), (0.1, 1, 1)], np.float32)
    lexicon = Lexicon(WordVectors(words, rows, np.array([9, 8, 7, 6, 1])))
    analogies = analogy_set_of(
        ("man", "king", "woman", "queen"), ("Man", "KING", "woman", "rare"), ("man", "king", "x", "y")
    )
    result = analogy_eval(lexicon, analogies, most_frequent=0)
    assert result.overall == AnalogyAccuracy(1, 2, 3)
    assert (result.overall.accuracy, result.overall.accuracy_all) == (0.5, pytest.approx(1 / 3))
    assert result.missing == ("x", "y")
    frequent = analogy_eval(lexicon, analogies, most_frequent=4)
    assert (frequent.overall, frequent.words, frequent.missing) == (AnalogyAccuracy(1, 1, 3), 4, ("rare", "x", "y"))
    assert analogy_eval(lexicon, analogy_set_of(("x", "y", "z", "w"))).overall.accuracy is None
    data = result.to_dict()
    assert data["sections"][0]["name"] == "s"
    assert "wrong" in data["treatment"]


def test_analogy_word_beyond_the_most_frequent_falls_back_to_lower_case():
    words = ["may", "might", "can", "could", "May"]
    lexicon = Lexicon(WordVectors(words, np.eye(5, dtype=np.float32), np.array([9, 8, 7, 6, 1])))
    assert (
        analogy_eval(lexicon, analogy_set_of(("May", "might", "can", "could")), most_frequent=4).overall.num_covered
        == 1
    )


@pytest.mark.parametrize("block_words", [64, 2048])
def test_batched_analogy_eval_equals_gensim_in_every_section(
    tmp_path: Path, block_words: int, monkeypatch: pytest.MonkeyPatch
):
    gensim = pytest.importorskip("gensim.models")
    monkeypatch.setattr(lexicon, "MAX_BLOCK_WORDS", block_words)
    monkeypatch.setattr(lexicon, "ANALOGY_BATCH", 7)
    rng = np.random.default_rng(5)
    count, most_frequent = 300, 200
    relation = rng.normal(size=(2, 8))
    rows = rng.normal(size=(count, 8))
    rows[1::2] = rows[::2] + relation[np.arange(count // 2) % 2] + 0.4 * rng.normal(size=(count // 2, 8))
    words = [f"w{number}" for number in range(count)]
    table = WordVectors(words, rows.astype(np.float32), np.arange(count, 0, -1))
    lines = []
    for name in ("first", "gram-second"):
        lines.append(f": {name}")
        for _ in range(60):
            first, second = 2 * rng.choice(count // 2, 2, replace=False)
            lines.append(f"w{first} w{first + 1} w{second} w{second + 1}")
    lines.append("w1 w2 nobody w3")
    file = write_file(tmp_path, "\n".join(lines))
    gensim_vectors = gensim.KeyedVectors(8)
    gensim_vectors.add_vectors(words, table.matrix)
    score, sections = gensim_vectors.evaluate_word_analogies(
        str(file), restrict_vocab=most_frequent, case_insensitive=False
    )
    analogies = read_word_eval_file(file)
    assert isinstance(analogies, AnalogySet)
    result = analogy_eval(Lexicon(table), analogies, most_frequent)
    assert result.overall.accuracy == pytest.approx(score)
    assert 0 < result.overall.num_correct < result.overall.num_covered < result.overall.total
    for (_, accuracy), section in zip(result.sections, sections, strict=False):
        assert accuracy.num_correct == len(section["correct"])
        assert accuracy.num_covered == len(section["correct"]) + len(section["incorrect"])
    assert set(result.by_kind) == {"semantic", "syntactic"}
    strict, _ = gensim_vectors.evaluate_word_analogies(
        str(file), restrict_vocab=most_frequent, case_insensitive=False, dummy4unknown=True
    )
    assert result.overall.accuracy_all == pytest.approx(strict)


def test_published_word_eval_files_have_their_published_sizes(data: Path):
    """The published numbers of pairs and questions."""
    folder = data / "words"
    num_pairs = {
        "EN-WS-353-ALL.txt": 353,
        "EN-MTurk-771.txt": 771,
        "zh-wordsim-240.txt": 240,
        "zh-wordsim-297.txt": 297,
    }
    for name, count in num_pairs.items():
        word_set = read_word_eval_file(folder / name)
        assert isinstance(word_set, WordPairSet)
        assert (len(word_set.pairs), all(word == word.strip() for pair in word_set.pairs for word in pair)) == (
            count,
            True,
        )
    num_questions = {
        "questions-words.txt": (19_544, {"semantic": 5, "syntactic": 9}),
        "CA8/semantic.txt": (7_636, {"semantic": 4}),
    }
    for name, (count, kinds) in num_questions.items():
        word_set = read_word_eval_file(folder / name)
        assert isinstance(word_set, AnalogySet)
        assert sum(len(section.questions) for section in word_set.sections) == count
        assert {kind: sum(section.kind == kind for section in word_set.sections) for kind in kinds} == kinds


def test_similarity_eval_of_wordsim353_equals_gensim(data: Path):
    gensim = pytest.importorskip("gensim.models")
    file = data / "words" / "EN-WS-353-ALL.txt"
    pair_set = read_word_eval_file(file)
    assert isinstance(pair_set, WordPairSet)
    words = [*sorted({word.lower() for pair in pair_set.pairs for word in pair})[::2], "tiger", "cat", "sex", "love"]
    words = list(dict.fromkeys(words))
    table = WordVectors(words, np.random.default_rng(0).normal(size=(len(words), 20)).astype(np.float32))
    gensim_vectors = gensim.KeyedVectors(20)
    gensim_vectors.add_vectors(words, table.matrix)
    pearson, spearman, missing = gensim_vectors.evaluate_word_pairs(str(file))
    result = table_similarity_eval(table, pair_set)
    assert (result.spearman, result.pearson) == (pytest.approx(spearman[0]), pytest.approx(pearson[0], abs=1e-6))
    assert 1 - result.covered / result.pairs == pytest.approx(missing / 100)
    missing_with_dummies = gensim_vectors.evaluate_word_pairs(str(file), dummy4unknown=True)[2]
    assert missing_with_dummies == pytest.approx(missing)


def test_onehot_analogy_eval_picks_the_most_frequent_word():
    size = 2000
    table = WordVectors([f"w{row}" for row in range(size)], IdentityMatrix(size), np.arange(size, 0, -1))  # pyright: ignore
    result = analogy_eval(Lexicon(table), analogy_set_of(("w1", "w2", "w3", "w4"), ("w5", "w6", "w7", "w0")), 0)
    assert result.overall == AnalogyAccuracy(1, 2, 2)  # all are equally distant: the most frequent word wins


# -- runs


def test_run_measures_similarity_by_words_or_texts_and_analogies_by_words(tmp_path: Path):
    file = write_file(tmp_path, "cat\tdog\t9\ncat\tmat\t3\nbird\ttree\t4\nwolf\tdog\t8\n")
    analogies = write_file(tmp_path, ": place\ncat mat dog hill\n", "asked.txt")
    table = open_small_run("word2vec", tmp_path, to="table", steps=10)
    similarity, analogy = table.measure_words([file, analogies])
    assert isinstance(similarity, SimilarityEval)
    assert isinstance(analogy, AnalogyEval)
    assert (similarity.by, similarity.covered, similarity.missing) == ("words", 3, ("wolf",))
    assert (analogy.words, analogy.overall.num_covered) == (len(table.word_table.words), 1)
    pieces = open_small_run("bert", tmp_path, to="pieces", steps=2)
    (result,) = pieces.measure_words(file)
    assert isinstance(result, SimilarityEval)
    assert (result.by, result.covered, result.pairs) == ("texts", 4, 4)
    with pytest.raises(InputError, match="answered from a table of words"):
        pieces.measure_words([file, analogies])
    with pytest.raises(InputError, match="cannot be asked"):
        open_small_run("ngram", tmp_path, to="counts").measure_words(file)
    with pytest.raises(InputError, match="--most-frequent is -1"):
        table.measure_words(analogies, most_frequent=-1)
    with pytest.raises(InputError, match="method is"):
        table.measure_words(analogies, method="guess")  # pyright: ignore[reportArgumentType]
