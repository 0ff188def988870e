"""Measuring word vectors: files of every form, figures by hand and beside scipy and gensim, missing words told."""

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
from small_runs import opened

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


def written(folder: Path, text: str, name: str = "words.txt") -> Path:
    file = folder / name
    file.write_bytes(text.encode())
    return file


@pytest.mark.parametrize("form", FILES)
def test_pairs_are_read_however_they_are_written(form: str, tmp_path: Path):
    read = read_word_eval_file(written(tmp_path, FILES[form]))
    assert isinstance(read, WordPairSet)
    assert read.pairs == (("love", "sex"), ("tiger", "cat"))
    assert read.scores.tolist() == [6.77, 7.35]
    assert bool(read.headings) == (form in ("headed", "simlex", "persons", "numbered and headed"))


def test_analogies_are_read_by_section_and_kind(tmp_path: Path):
    google = ": capital\nAthens Greece Oslo Norway\n: gram1-adverb\nbad badly good well\nbad badly calm calmly\n"
    read = read_word_eval_file(written(tmp_path, google))
    assert isinstance(read, AnalogySet)
    assert [(one.name, one.kind, len(one.questions)) for one in read.sections] == [
        ("capital", "semantic", 1), ("gram1-adverb", "syntactic", 2),
    ]  # fmt: skip
    chinese = read_word_eval_file(written(tmp_path, ": A\r\n避 避一避 补 补一补\r\n", "morphological.txt"))
    assert isinstance(chinese, AnalogySet)
    assert chinese.sections[0].kind == "syntactic"
    assert chinese.sections[0].questions == (("避", "避一避", "补", "补一补"),)
    plain = read_word_eval_file(written(tmp_path, "a b c d\ne f g h\n", "plain.tsv"))
    assert isinstance(plain, AnalogySet)
    assert (plain.sections[0].name, plain.sections[0].kind) == ("", "")


@pytest.mark.parametrize(
    ("text", "line", "what"),
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
def test_bad_lines_are_named(tmp_path: Path, text: str, line: int | None, what: str):
    with pytest.raises(InputError, match=what) as told:
        read_word_eval_file(written(tmp_path, text))
    assert (told.value.line, told.value.file) == (line, str(tmp_path / "words.txt"))
    assert told.value.hint


def test_another_encoding_is_read_and_a_wrong_one_refused(tmp_path: Path):
    file = tmp_path / "words.txt"
    file.write_bytes("北京\t上海\t7.5\n钱\t现金\t8\n".encode("gb18030"))
    read = read_word_eval_file(file, "gb18030")
    assert isinstance(read, WordPairSet)
    assert read.pairs[0] == ("北京", "上海")
    with pytest.raises(InputError, match="utf-8"):
        read_word_eval_file(file)


# -- agreement

TABLE = WordVectors(
    ["a", "b", "c", "d", "new york"],
    np.array([(1, 0), (1, 1), (0, 1), (-1, 0), (0, 2)], np.float32),
    np.array([9, 8, 7, 6, 5]),
)


def pairs(*rows: tuple[str, str, float]) -> WordPairSet:
    return WordPairSet("pairs.tsv", tuple(row[:2] for row in rows), np.array([row[2] for row in rows]))


def test_agreement_by_hand_with_missing_pairs_left_out_or_at_the_mean():
    stats = pytest.importorskip("scipy.stats")
    given = pairs(("a", "b", 8), ("A", "c", 3), ("a", "d", 1), ("b", "zzz", 9), ("c", "new_york", 9), ("x", "x", 2))
    found = table_similarity_eval(TABLE, given)
    cosines = [np.sqrt(0.5), 0, -1, 1]
    scores = [8, 3, 1, 9]
    assert (found.covered, found.pairs, found.missing, found.by) == (4, 6, ("zzz", "x"), "words")
    assert found.spearman == pytest.approx(stats.spearmanr(scores, cosines).statistic)
    assert found.pearson == pytest.approx(stats.pearsonr(scores, cosines).statistic)
    mean = np.mean(cosines)
    everything, people = [*cosines[:3], mean, 1, mean], [8, 3, 1, 9, 9, 2]
    assert found.spearman_all == pytest.approx(stats.spearmanr(people, everything).statistic)
    assert found.pearson_all == pytest.approx(stats.pearsonr(people, everything).statistic)
    facts = found.to_dict()
    assert (facts["kind"], facts["missing_words"], facts["composed_words"]) == ("similarity", 2, 0)
    assert "left out" in facts["treatment"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["北京", "大学", "中国"], "the run's words are Chinese, and the file's are not"),
        (["King", "Queen", "the"], "2 of the missing words are there with other capitals (King, Queen)"),
        (["the", "of", "and"], "the run knows 3 words: more text, or a lower --min-count"),
        (["king", "queen", "water"], ""),
    ],
)
def test_where_most_words_are_missing_it_is_said_why(words: list[str], said: str):
    table = WordVectors(words, np.eye(3, dtype=np.float32))
    found = table_similarity_eval(table, pairs(("king", "queen", 8), ("king", "water", 3), ("boat", "king", 3)))
    assert found.note.startswith(said)
    assert bool(found.note) == bool(said)
    assert found.to_dict()["why"] == found.note
    asked = AnalogySet("asked", (AnalogySection("", "", (("king", "queen", "water", "boat"),)),))
    assert analogy_eval(Lexicon(table), asked).note.startswith(said)
    chinese = table_similarity_eval(WordVectors(["a"], np.ones((1, 1))), pairs(("北京", "上海", 8)))
    assert chinese.note.startswith("the file's words are Chinese, and the run's are not")


def test_what_never_changes_has_no_correlation():
    same = table_similarity_eval(TABLE, pairs(("a", "b", 5), ("a", "c", 5), ("a", "d", 5)))
    assert same.undefined == "all judgements of covered pairs are equal"
    alike = table_similarity_eval(TABLE, pairs(("a", "c", 5), ("c", "d", 1), ("a", "zzz", 3)))
    assert alike.undefined == "all cosines of covered pairs are equal"
    rows = {"a": np.array((1.0, 0.0)), "b": np.array((0.1, np.sqrt(0.99)))}
    tenths = pairs(("a", "b", 5), ("b", "a", 1), ("a", "b", 2), ("a", "zzz", 3))  # whose mean is more than a tenth
    for found in (same, alike, similarity_eval(tenths, rows.get, "words")):
        assert (found.spearman, found.pearson, found.spearman_all, found.pearson_all) == (None,) * 4
    partly = table_similarity_eval(TABLE, pairs(("a", "b", 5), ("a", "c", 5), ("a", "zzz", 3)))
    assert partly.spearman is None
    assert partly.spearman_all is not None
    assert table_similarity_eval(TABLE, pairs(("a", "b", 5))).undefined == "fewer than two pairs are covered"
    assert table_similarity_eval(TABLE, pairs(("a", "b", 5), ("a", "c", 4))).undefined == ""


def test_ties_share_their_ranks_as_in_scipy():
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(0)
    words = [f"w{number}" for number in range(40)]
    table = WordVectors(words, rng.integers(-1, 2, (40, 3)).astype(np.float32) + 0.5)
    chosen = rng.integers(0, 40, (200, 2))
    scores = rng.integers(0, 4, 200).astype(float)
    given = WordPairSet("f", tuple((words[a], words[b]) for a, b in chosen), scores)
    units = table.matrix / np.linalg.norm(table.matrix, axis=1, keepdims=True)
    cosines = np.round((units[chosen[:, 0]] * units[chosen[:, 1]]).sum(1), 6)
    assert table_similarity_eval(table, given).spearman == pytest.approx(
        stats.spearmanr(scores, cosines).statistic, abs=1e-9
    )


def test_what_nothing_covers_has_no_figure_and_composed_words_are_counted():
    nothing = table_similarity_eval(TABLE, pairs(("x", "y", 1), ("a", "x", 2)))
    assert (nothing.covered, nothing.spearman, nothing.spearman_all) == (0, None, None)
    composing = WordVectors(TABLE.words, TABLE.matrix, compose=lambda word: np.array([len(word), 1], np.float32))
    found = table_similarity_eval(composing, pairs(("x", "y", 1), ("a", "xxx", 2), ("a", "d", 0)))
    assert (found.covered, found.composed, found.missing) == (3, 3, ())
    assert found.pearson is not None


# -- analogies


def questions(*asked: tuple[str, str, str, str], name: str = "s") -> AnalogySet:
    from forebear.embeddings.evaluation import AnalogySection

    return AnalogySet("f", (AnalogySection(name, "", asked),))


def test_analogies_are_right_by_hand_and_missing_ones_wrong():
    words = ["man", "king", "woman", "queen", "rare"]
    rows = np.array([(1, 0, 0.1), (1, 0, 1), (0, 1, 0.1), (0, 1, 1), (0.1, 1, 1)], np.float32)
    lexicon = Lexicon(WordVectors(words, rows, np.array([9, 8, 7, 6, 1])))
    asked = questions(("man", "king", "woman", "queen"), ("Man", "KING", "woman", "rare"), ("man", "king", "x", "y"))
    found = analogy_eval(lexicon, asked, most_frequent=0)
    assert found.overall == AnalogyAccuracy(1, 2, 3)
    assert (found.overall.accuracy, found.overall.accuracy_all) == (0.5, pytest.approx(1 / 3))
    assert found.missing == ("x", "y")
    few = analogy_eval(lexicon, asked, most_frequent=4)
    assert (few.overall, few.words, few.missing) == (AnalogyAccuracy(1, 1, 3), 4, ("rare", "x", "y"))
    assert analogy_eval(lexicon, questions(("x", "y", "z", "w"))).overall.accuracy is None
    facts = found.to_dict()
    assert facts["sections"][0]["name"] == "s"
    assert "wrong" in facts["treatment"]


def test_a_word_beyond_the_most_frequent_may_be_there_in_small_letters():
    words = ["may", "might", "can", "could", "May"]
    lexicon = Lexicon(WordVectors(words, np.eye(5, dtype=np.float32), np.array([9, 8, 7, 6, 1])))
    assert analogy_eval(lexicon, questions(("May", "might", "can", "could")), most_frequent=4).overall.num_covered == 1


@pytest.mark.parametrize("wide", [64, 2048])
def test_all_analogies_at_once_as_gensim_one_by_one(tmp_path: Path, wide: int, monkeypatch: pytest.MonkeyPatch):
    gensim = pytest.importorskip("gensim.models")
    monkeypatch.setattr(lexicon, "MAX_BLOCK_WORDS", wide)
    monkeypatch.setattr(lexicon, "ANALOGY_BATCH", 7)
    rng = np.random.default_rng(5)
    count, most = 300, 200
    relation = rng.normal(size=(2, 8))
    rows = rng.normal(size=(count, 8))
    rows[1::2] = rows[::2] + relation[np.arange(count // 2) % 2] + 0.4 * rng.normal(size=(count // 2, 8))
    words = [f"w{number}" for number in range(count)]
    table = WordVectors(words, rows.astype(np.float32), np.arange(count, 0, -1))
    lines = []
    for name in ("first", "gram-second"):
        lines.append(f": {name}")
        for _ in range(60):
            one, other = 2 * rng.choice(count // 2, 2, replace=False)
            lines.append(f"w{one} w{one + 1} w{other} w{other + 1}")
    lines.append("w1 w2 nobody w3")
    file = written(tmp_path, "\n".join(lines))
    theirs = gensim.KeyedVectors(8)
    theirs.add_vectors(words, table.matrix)
    score, sections = theirs.evaluate_word_analogies(str(file), restrict_vocab=most, case_insensitive=False)
    read = read_word_eval_file(file)
    assert isinstance(read, AnalogySet)
    found = analogy_eval(Lexicon(table), read, most)
    assert found.overall.accuracy == pytest.approx(score)
    assert 0 < found.overall.num_correct < found.overall.num_covered < found.overall.total
    for (_, right), section in zip(found.sections, sections, strict=False):
        assert right.num_correct == len(section["correct"])
        assert right.num_covered == len(section["correct"]) + len(section["incorrect"])
    assert set(found.by_kind) == {"semantic", "syntactic"}
    strict, _ = theirs.evaluate_word_analogies(
        str(file), restrict_vocab=most, case_insensitive=False, dummy4unknown=True
    )
    assert found.overall.accuracy_all == pytest.approx(strict)


def test_real_files_are_read_whole(data: Path):
    """How many there are is known from those who made them."""
    folder = data / "words"
    counted = {"EN-WS-353-ALL.txt": 353, "EN-MTurk-771.txt": 771, "zh-wordsim-240.txt": 240, "zh-wordsim-297.txt": 297}
    for name, count in counted.items():
        read = read_word_eval_file(folder / name)
        assert isinstance(read, WordPairSet)
        assert (len(read.pairs), all(word == word.strip() for pair in read.pairs for word in pair)) == (count, True)
    asked = {
        "questions-words.txt": (19_544, {"semantic": 5, "syntactic": 9}),
        "CA8/semantic.txt": (7_636, {"semantic": 4}),
    }
    for name, (count, kinds) in asked.items():
        read = read_word_eval_file(folder / name)
        assert isinstance(read, AnalogySet)
        assert sum(len(one.questions) for one in read.sections) == count
        assert {kind: sum(one.kind == kind for one in read.sections) for kind in kinds} == kinds


def test_figures_are_gensims_on_real_files(data: Path):
    gensim = pytest.importorskip("gensim.models")
    file = data / "words" / "EN-WS-353-ALL.txt"
    read = read_word_eval_file(file)
    assert isinstance(read, WordPairSet)
    words = [*sorted({word.lower() for pair in read.pairs for word in pair})[::2], "tiger", "cat", "sex", "love"]
    words = list(dict.fromkeys(words))
    table = WordVectors(words, np.random.default_rng(0).normal(size=(len(words), 20)).astype(np.float32))
    theirs = gensim.KeyedVectors(20)
    theirs.add_vectors(words, table.matrix)
    pearson, spearman, missing = theirs.evaluate_word_pairs(str(file))
    found = table_similarity_eval(table, read)
    assert (found.spearman, found.pearson) == (pytest.approx(spearman[0]), pytest.approx(pearson[0], abs=1e-6))
    assert 1 - found.covered / found.pairs == pytest.approx(missing / 100)
    filled = theirs.evaluate_word_pairs(str(file), dummy4unknown=True)[2]
    assert filled == pytest.approx(missing)


def test_one_hot_vectors_solve_nothing_without_being_made():
    size = 2000
    table = WordVectors([f"w{row}" for row in range(size)], IdentityMatrix(size), np.arange(size, 0, -1))  # pyright: ignore
    found = analogy_eval(Lexicon(table), questions(("w1", "w2", "w3", "w4"), ("w5", "w6", "w7", "w0")), 0)
    assert found.overall == AnalogyAccuracy(1, 2, 2)  # all are equally far, and the most frequent comes first


# -- runs


def test_a_run_is_measured_by_words_or_by_texts(tmp_path: Path):
    file = written(tmp_path, "cat\tdog\t9\ncat\tmat\t3\nbird\ttree\t4\nwolf\tdog\t8\n")
    asked = written(tmp_path, ": place\ncat mat dog hill\n", "asked.txt")
    table = opened("word2vec", tmp_path, to="table", steps=10)
    pairs_found, solved = table.measure_words([file, asked])
    assert isinstance(pairs_found, SimilarityEval)
    assert isinstance(solved, AnalogyEval)
    assert (pairs_found.by, pairs_found.covered, pairs_found.missing) == ("words", 3, ("wolf",))
    assert (solved.words, solved.overall.num_covered) == (len(table.word_table.words), 1)
    pieces = opened("bert", tmp_path, to="pieces", steps=2)
    (found,) = pieces.measure_words(file)
    assert isinstance(found, SimilarityEval)
    assert (found.by, found.covered, found.pairs) == ("texts", 4, 4)
    with pytest.raises(InputError, match="answered from a table of words"):
        pieces.measure_words([file, asked])
    with pytest.raises(InputError, match="cannot be asked"):
        opened("ngram", tmp_path, to="counts").measure_words(file)
    with pytest.raises(InputError, match="--most-frequent is -1"):
        table.measure_words(asked, most_frequent=-1)
    with pytest.raises(InputError, match="method is"):
        table.measure_words(asked, method="guess")  # pyright: ignore[reportArgumentType]
