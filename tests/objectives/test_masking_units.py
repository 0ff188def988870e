"""What is hidden as one: whole words by their pieces or by a segmenter, groups of words, names; counted by hand."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_corpora import CLS, MASK, PAD, SEP, UNK, corpus_of

from forebear.data.corpus.corpus import Corpus
from forebear.data.corpus.prepare import prepare_corpus
from forebear.data.segmentation import Segmenter
from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.data.tokenizers.train import train_tokenizer
from forebear.errors import InputError
from forebear.objectives.batch import IGNORE_INDEX, Batch, BatchKey
from forebear.objectives.masked_tokens import (
    AlternatingUnits,
    EntityUnits,
    MaskingUnits,
    SingleTokens,
    WholeWords,
    WordNgrams,
    punctuation,
)
from forebear.objectives.sentence_pairs import DocSentences, NextSentence

ENGLISH = "Unbelievable kindness, said the unkind fisherwoman. Nobody believes it!\n\nFishing is kind."
CHINESE = "我喜欢北京大学。他们提供产品和服务。\n\n她也喜欢北京。"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("units")


@pytest.fixture(autouse=True)
def cache(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREBEAR_CACHE", str(folder / "cache"))


def prepared(folder: Path, text: str, tokenizer: Tokenizer, segmenter: Segmenter | None = None) -> Corpus:
    file = folder / "text.txt"
    file.write_text(text, encoding="utf-8")
    return prepare_corpus([file], tokenizer, segmenter=segmenter)


def pieces(text: str, size: int = 60) -> Tokenizer:
    return train_tokenizer("wordpiece", [text] * 3, size=size, min_count=1)


def units_of(
    way: MaskingUnits, corpus: Corpus, context: int = 200, seed: int = 0, step: int = 0
) -> list[list[list[int]]]:
    """For each row of the whole text its units, each the places of its tokens in the corpus; NOTHING for specials."""
    roles = corpus.tokenizer.special_roles
    batch = DocSentences(context, roles["start"], roles["end"]).batch(
        corpus.all_documents(), 10**6, BatchKey(seed, step)
    )
    return divided(way, batch, corpus, seed, step)


def divided(way: MaskingUnits, batch: Batch, corpus: Corpus, seed: int = 0, step: int = 0) -> list[list[list[int]]]:
    begins, _ = way.unit_boundaries(batch, corpus.all_documents(), step, np.random.default_rng(seed))
    assert begins.dtype == bool
    assert len(begins) == batch.num_target_tokens
    assert batch.positions is not None
    rows, at = [], 0
    for length in batch.inputs["lengths"].tolist():
        assert begins[at], "a unit would go on from the row before"
        row: list[list[int]] = []
        for place, begun in zip(batch.positions[at : at + length], begins[at : at + length], strict=True):
            row += [[]] if begun else []
            row[-1].append(int(place))
        rows.append(row)
        at += length
    for row in rows:
        for unit in row:
            assert unit == [IGNORE_INDEX] or (
                IGNORE_INDEX not in unit and unit == list(range(unit[0], unit[0] + len(unit)))
            )
    return rows


def texts_of(rows: list[list[list[int]]], corpus: Corpus) -> list[str]:
    """All units in the order of the text, as they are written."""
    units = sorted(unit for row in rows for unit in row if unit != [IGNORE_INDEX])
    tokens = corpus.tokenizer.vocabulary()
    return ["".join(tokens[i].removeprefix("##") for i in corpus.ids[unit]) for unit in units]


# -- words


def test_every_token_is_a_unit(folder: Path):
    corpus = prepared(folder, ENGLISH, pieces(ENGLISH))
    rows = units_of(SingleTokens(), corpus)
    assert sorted(unit for row in rows for unit in row if unit != [IGNORE_INDEX]) == [[n] for n in range(len(corpus))]


@pytest.mark.parametrize("size", [60, 90, 200])
@pytest.mark.parametrize("segmented", [False, True])
def test_pieces_of_wordpiece_make_whole_words(folder: Path, size: int, segmented: bool):
    corpus = prepared(folder, ENGLISH, pieces(ENGLISH, size), Segmenter() if segmented else None)
    assert (corpus.words is not None) == segmented
    told = texts_of(units_of(WholeWords(), corpus), corpus)
    expected = "unbelievable kindness , said the unkind fisherwoman . nobody believes it ! fishing is kind ."
    assert told == expected.split()
    assert size > 100 or len(corpus) > len(told)  # there are words of several pieces


@pytest.mark.parametrize("kind", ["wordpiece", "characters"])
def test_chinese_words_are_those_of_the_stored_segmentation(folder: Path, kind: str):
    tokenizer = train_tokenizer(kind, [CHINESE] * 3, min_count=1)
    corpus = prepared(folder, CHINESE, tokenizer, Segmenter())
    told = texts_of(units_of(WholeWords(), corpus), corpus)
    assert "".join(told) == CHINESE.replace("\n", "")
    assert told == "我 喜欢 北京大学 。 他们 提供 产品 和 服务 。 她 也 喜欢 北京 。".split()


def test_words_of_an_own_dictionary_are_whole(folder: Path):
    """Even where a segmenter by itself would cut them, and wherever they stand."""
    tokenizer = train_tokenizer("wordpiece", [CHINESE] * 3, min_count=1)
    corpus = prepared(folder, CHINESE, tokenizer, Segmenter(("和服", "喜欢北京", "们提")))
    told = texts_of(units_of(WholeWords(), corpus), corpus)
    assert {"和服", "喜欢北京", "们提"} <= set(told)
    assert told.count("喜欢北京") == 2


def test_without_segmentation_chinese_tells_no_words(folder: Path):
    corpus = prepared(folder, CHINESE, train_tokenizer("wordpiece", [CHINESE] * 3, min_count=1))
    with pytest.raises(InputError, match="words start") as caught:
        units_of(WholeWords(), corpus)
    assert "--segment" in str(caught.value.hint)


def test_a_little_chinese_stops_no_training_on_its_way(folder: Path):
    """Whether words can be told is a matter of the whole text, not of the batch that happens to hold a quotation."""
    text = "\n\n".join([ENGLISH.replace("\n", " ")] * 60 + ["他们喜欢北京。"])
    corpus = prepared(folder, text, train_tokenizer("wordpiece", [text], min_count=1))
    objective = DocSentences(24, CLS, SEP)
    for step in range(objective.steps(corpus.all_documents(), 60)):
        batch = objective.batch(corpus.all_documents(), 60, BatchKey(0, step))
        divided(WholeWords(), batch, corpus)


@pytest.mark.parametrize("way", [WholeWords(), WordNgrams(3), EntityUnits()])
@pytest.mark.parametrize("kind", ["characters", "bytepair"])
def test_tokens_that_tell_no_words_are_refused_with_a_remedy(folder: Path, kind: str, way: MaskingUnits):
    roles = {"start": "[CLS]", "end": "[SEP]", "mask": "[MASK]"} if kind == "bytepair" else None
    corpus = prepared(folder, ENGLISH, train_tokenizer(kind, [ENGLISH], specials=roles, min_count=1))
    with pytest.raises(InputError, match="words start") as caught:
        units_of(way, corpus)
    assert "--segment" in str(caught.value.hint)


def test_byte_pieces_make_whole_words_where_words_were_segmented(folder: Path):
    text = ENGLISH + " " + CHINESE
    roles = {"start": "[CLS]", "end": "[SEP]", "mask": "[MASK]"}
    corpus = prepared(folder, text, train_tokenizer("bytepair", [text], specials=roles, size=300), Segmenter())
    units = sorted(unit for row in units_of(WholeWords(), corpus) for unit in row if unit != [IGNORE_INDEX])
    told = [corpus.tokenizer.decode(corpus.ids[unit]) for unit in units]
    assert "".join("".join(told).split()) == "".join(text.split())
    assert not any("\ufffd" in word for word in told)  # no half of a character
    assert {"北京大学", "喜欢", "unkind"} <= {word.strip() for word in told}


def test_a_word_that_a_window_cuts_is_two_units():
    """Words of 5 in rows of 4: what does not fit begins anew in the next row."""
    words = np.arange(20) % 5 == 0
    corpus = corpus_of([[20]], words=words, tokenizer=train_tokenizer("words", ["a"], min_count=1))
    batch = DocSentences(6, CLS, SEP).batch(corpus.all_documents(), 10**6, BatchKey(0, 0))
    rows = divided(WholeWords(), batch, corpus)
    assert all(sum(map(len, row)) <= 6 for row in rows)
    assert sorted(place for row in rows for unit in row for place in unit if place >= 0) == list(range(20))
    assert all(not words[unit[1:]].any() for row in rows for unit in row if unit != [IGNORE_INDEX])


# -- groups

LETTERS = "abcdefghijklmnopqrstuvwxyz"


@pytest.fixture(scope="module")
def lettered() -> Tokenizer:
    """Letters are words; two marks."""
    return train_tokenizer("words", [" ".join([*LETTERS, ".", ","])], min_count=1)


def written(tokenizer: Tokenizer, documents: list[list[str]], words: np.ndarray | None = None) -> Corpus:
    """Documents of sentences of letters and marks."""
    ids = np.array([tokenizer.token_to_id(letter) for document in documents for text in document for letter in text])
    return corpus_of(
        [[len(text) for text in document] for document in documents], ids=ids, words=words, tokenizer=tokenizer
    )


@pytest.mark.parametrize(("least", "most"), [(1, 3), (2, 3), (1, 1), (1, 5), (2, 2)])
def test_sizes_of_groups_are_drawn_in_proportion_to_one_by_n(lettered: Tokenizer, least: int, most: int):
    rng = np.random.default_rng(1)
    corpus = written(lettered, [["".join(rng.choice(list(LETTERS), 20_000))]])
    rows = units_of(WordNgrams(most, least), corpus, context=20_002)
    sizes = Counter(len(unit) for row in rows for unit in row[1:-2])  # the last ends with the sentence
    weights = {n: 1 / n for n in range(least, most + 1)}
    total = sum(sizes.values())
    assert sizes.keys() == weights.keys()
    for n, weight in weights.items():
        share = weight / sum(weights.values())
        assert abs(sizes[n] / total - share) < 3.5 * (share * (1 - share) / total) ** 0.5 + 1e-12


SENTENCES = st.lists(
    st.lists(st.text("abcdefg.,", min_size=1, max_size=9), min_size=1, max_size=4), min_size=1, max_size=4
)


@given(documents=SENTENCES, context=st.integers(8, 20), seed=st.integers(0, 20), pairs=st.booleans())
def test_groups_stop_at_punctuation_sentences_and_rows(
    lettered: Tokenizer, documents: list[list[str]], context: int, seed: int, pairs: bool
):
    corpus = written(lettered, documents)
    kind = NextSentence if pairs else DocSentences
    batch = kind(context, CLS, SEP).batch(corpus.all_documents(), 10**6, BatchKey(seed, 0))
    rows = divided(WordNgrams(4), batch, corpus, seed)
    letters = [letter for document in documents for text in document for letter in text]
    sentence = [number for number, text in enumerate(t for d in documents for t in d) for _ in text]
    for row in rows:
        for unit in row:
            if unit != [IGNORE_INDEX]:
                assert len(unit) == 1 or not set(".,") & {letters[place] for place in unit}
                assert len({sentence[place] for place in unit}) == 1
                assert len(unit) <= 4
    assert sorted(p for row in rows for unit in row for p in unit if p >= 0) == list(range(len(letters)))


def test_groups_are_of_whole_words(folder: Path):
    corpus = prepared(folder, ENGLISH, pieces(ENGLISH))
    for seed in range(20):
        words = [tuple(unit) for row in units_of(WholeWords(), corpus, seed=seed) for unit in row]
        begins = {unit[0] for unit in words}
        for row in units_of(WordNgrams(3), corpus, seed=seed):
            for unit in row:
                assert unit[0] in begins
                assert len([place for place in unit if place in begins]) <= 3


def test_marks_are_what_has_neither_letter_nor_digit():
    tokenizer = train_tokenizer("wordpiece", ["a1 é 词 。 , … — 't ½ x_ $ 我"] * 3, min_count=1)
    marks = punctuation(tokenizer)
    told = {tokenizer.id_to_token(i) for i in np.flatnonzero(marks)}
    assert {"。", ",", "…", "—", "'", "_", "$"} <= told
    assert not told & {"a", "##1", "e", "词", "我", "t", "[UNK]", "[MASK]"}


# -- names


def named(tokenizer: Tokenizer, letters: str, flags: str, words: str | None = None) -> Corpus:
    told = None if words is None else np.array([flag == "1" for flag in words])
    corpus = written(tokenizer, [[letters]], told)
    entities = np.array([int(flag) for flag in flags], np.uint8)
    made = replace(corpus, entities=entities)
    made.__dict__["tokenizer"] = tokenizer
    return made


def told_of(corpus: Corpus, context: int = 40) -> list[tuple[list[int], bool]]:
    """Units of the text, and whether they come first."""
    batch = DocSentences(context, CLS, SEP).batch(corpus.all_documents(), 10**6, BatchKey(0, 0))
    begins, leading = EntityUnits().unit_boundaries(batch, corpus.all_documents(), 0, np.random.default_rng(0))
    assert leading is not None
    assert batch.positions is not None
    found = []
    for place, begun, first in zip(batch.positions.tolist(), begins, leading, strict=True):
        if place == IGNORE_INDEX:
            assert begun
            assert not first
            found.append(([], False))
        elif begun:
            found.append(([place], bool(first)))
        else:
            found[-1][0].append(place)
            assert found[-1][1] == first  # all of a unit, or nothing
    return sorted((unit, first) for unit, first in found if unit)


def test_names_are_whole_and_first_and_the_rest_are_words(lettered: Tokenizer):
    told = told_of(named(lettered, "abcdefghij", "0120112200", words="1101111011"))
    expected = [([0], False), ([1, 2], True), ([3], False), ([4], True), ([5, 6, 7], True), ([8], False), ([9], False)]
    assert told == expected


def test_names_of_several_words_and_side_by_side(lettered: Tokenizer):
    """Every token is a word here: a name holds what are two words else, and two names stay two."""
    told = told_of(named(lettered, "abcdef", "121220"))
    assert told == [([0, 1], True), ([2, 3, 4], True), ([5], False)]


def test_a_name_that_a_window_cuts_is_hidden_in_parts_but_first(lettered: Tokenizer):
    told = told_of(named(lettered, "abcdefgh", "00012200"), context=6)  # rows of abcd, efgh
    assert told == [([0], False), ([1], False), ([2], False), ([3], True), ([4, 5], True), ([6], False), ([7], False)]


def test_a_name_at_the_first_token_of_the_text(lettered: Tokenizer):
    assert told_of(named(lettered, "abc", "120"))[0] == ([0, 1], True)


def test_where_no_names_are_known_words_are_taken(lettered: Tokenizer):
    corpus = written(lettered, [["abc", "de."]])
    batch = DocSentences(20, CLS, SEP).batch(corpus.all_documents(), 10**6, BatchKey(0, 0))
    rng = np.random.default_rng(0)
    names, words = (way.unit_boundaries(batch, corpus.all_documents(), 0, rng) for way in (EntityUnits(), WholeWords()))
    assert names.leading is None
    assert np.array_equal(names.starts, words.starts)


# -- turns


def test_ways_take_turns(lettered: Tokenizer):
    corpus = written(lettered, [["abcdefgh" * 4]])
    batch = DocSentences(40, CLS, SEP).batch(corpus.all_documents(), 10**6, BatchKey(0, 0))
    turns = AlternatingUnits((SingleTokens(), WordNgrams(2, 2), WordNgrams(4, 4)), 3)

    def longest(step: int) -> int:
        return max(len(unit) for row in divided(turns, batch, corpus, step=step) for unit in row)

    assert [longest(step) for step in range(21)] == ([1] * 3 + [2] * 3 + [4] * 3) * 2 + [1] * 3
    assert longest(9 * 10**9 + 4) == 2


def test_special_tokens_are_units_of_their_own(lettered: Tokenizer):
    assert [lettered.id_to_token(i) for i in (PAD, UNK, CLS, SEP, MASK)] == [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
    ]
    corpus = written(lettered, [["abc", "abc"], ["abc"]])
    batch = NextSentence(9, CLS, SEP).batch(corpus.all_documents(), 10**6, BatchKey(0, 0))
    for way in (SingleTokens(), WholeWords(), WordNgrams(3), EntityUnits()):
        for row in divided(way, batch, corpus):
            assert [unit for unit in row if IGNORE_INDEX in unit] == [[IGNORE_INDEX]] * sum(
                unit == [IGNORE_INDEX] for unit in row
            )
            assert row[0] == row[-1] == [IGNORE_INDEX]
