"""Masking units: whole words from subwords or a segmenter, word n-grams and entities, against hand counts."""

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


def wordpiece_tokenizer(text: str, size: int = 60) -> Tokenizer:
    return train_tokenizer("wordpiece", [text] * 3, size=size, min_count=1)


def units_of_text(
    units: MaskingUnits, corpus: Corpus, context: int = 200, seed: int = 0, step: int = 0
) -> list[list[list[int]]]:
    """The units of each sequence of the text, as token positions in the corpus; IGNORE_INDEX for special tokens."""
    roles = corpus.tokenizer.special_roles
    batch = DocSentences(context, roles["start"], roles["end"]).batch(
        corpus.all_documents(), 10**6, BatchKey(seed, step)
    )
    return split_into_units(units, batch, corpus, seed, step)


def split_into_units(
    units: MaskingUnits, batch: Batch, corpus: Corpus, seed: int = 0, step: int = 0
) -> list[list[list[int]]]:
    starts, _ = units.unit_boundaries(batch, corpus.all_documents(), step, np.random.default_rng(seed))
    assert starts.dtype == bool
    assert len(starts) == batch.num_target_tokens
    assert batch.positions is not None
    rows, offset = [], 0
    for length in batch.inputs["lengths"].tolist():
        assert starts[offset], "a unit would go on from the row before"
        row: list[list[int]] = []
        for position, is_start in zip(
            batch.positions[offset : offset + length], starts[offset : offset + length], strict=True
        ):
            row += [[]] if is_start else []
            row[-1].append(int(position))
        rows.append(row)
        offset += length
    for row in rows:
        for unit in row:
            assert unit == [IGNORE_INDEX] or (
                IGNORE_INDEX not in unit and unit == list(range(unit[0], unit[0] + len(unit)))
            )
    return rows


def texts_of(rows: list[list[list[int]]], corpus: Corpus) -> list[str]:
    """All units in text order, as strings."""
    units = sorted(unit for row in rows for unit in row if unit != [IGNORE_INDEX])
    tokens = corpus.tokenizer.vocabulary()
    return ["".join(tokens[i].removeprefix("##") for i in corpus.ids[unit]) for unit in units]


# -- words


def test_single_tokens_are_units_of_one_token(folder: Path):
    corpus = prepared(folder, ENGLISH, wordpiece_tokenizer(ENGLISH))
    rows = units_of_text(SingleTokens(), corpus)
    assert sorted(unit for row in rows for unit in row if unit != [IGNORE_INDEX]) == [[n] for n in range(len(corpus))]


@pytest.mark.parametrize("size", [60, 90, 200])
@pytest.mark.parametrize("segmented", [False, True])
def test_wordpiece_subwords_form_whole_words(folder: Path, size: int, segmented: bool):
    corpus = prepared(folder, ENGLISH, wordpiece_tokenizer(ENGLISH, size), Segmenter() if segmented else None)
    assert (corpus.words is not None) == segmented
    words = texts_of(units_of_text(WholeWords(), corpus), corpus)
    expected = "unbelievable kindness , said the unkind fisherwoman . nobody believes it ! fishing is kind ."
    assert words == expected.split()
    assert size > 100 or len(corpus) > len(words)  # there are words of several subwords


@pytest.mark.parametrize("kind", ["wordpiece", "characters"])
def test_chinese_whole_words_follow_stored_segmentation(folder: Path, kind: str):
    tokenizer = train_tokenizer(kind, [CHINESE] * 3, min_count=1)
    corpus = prepared(folder, CHINESE, tokenizer, Segmenter())
    words = texts_of(units_of_text(WholeWords(), corpus), corpus)
    assert "".join(words) == CHINESE.replace("\n", "")
    assert words == "我 喜欢 北京大学 。 他们 提供 产品 和 服务 。 她 也 喜欢 北京 。".split()


def test_user_dictionary_words_are_whole_units(folder: Path):
    """Even where the segmenter alone would split them, and wherever they occur."""
    tokenizer = train_tokenizer("wordpiece", [CHINESE] * 3, min_count=1)
    corpus = prepared(folder, CHINESE, tokenizer, Segmenter(("和服", "喜欢北京", "们提")))
    words = texts_of(units_of_text(WholeWords(), corpus), corpus)
    assert {"和服", "喜欢北京", "们提"} <= set(words)
    assert words.count("喜欢北京") == 2


def test_whole_words_of_unsegmented_chinese_are_refused(folder: Path):
    corpus = prepared(folder, CHINESE, train_tokenizer("wordpiece", [CHINESE] * 3, min_count=1))
    with pytest.raises(InputError, match="words start") as caught:
        units_of_text(WholeWords(), corpus)
    assert "--segment" in str(caught.value.hint)


def test_whole_words_accept_a_little_unsegmented_chinese(folder: Path):
    """Word boundaries are checked for the whole text, not for the batch that holds a quotation."""
    text = "\n\n".join([ENGLISH.replace("\n", " ")] * 60 + ["他们喜欢北京。"])
    corpus = prepared(folder, text, train_tokenizer("wordpiece", [text], min_count=1))
    objective = DocSentences(24, CLS, SEP)
    for step in range(objective.steps(corpus.all_documents(), 60)):
        batch = objective.batch(corpus.all_documents(), 60, BatchKey(0, step))
        split_into_units(WholeWords(), batch, corpus)


@pytest.mark.parametrize("units", [WholeWords(), WordNgrams(3), EntityUnits()])
@pytest.mark.parametrize("kind", ["characters", "bytepair"])
def test_units_of_tokens_without_word_boundaries_are_refused_with_hint(folder: Path, kind: str, units: MaskingUnits):
    roles = {"start": "[CLS]", "end": "[SEP]", "mask": "[MASK]"} if kind == "bytepair" else None
    corpus = prepared(folder, ENGLISH, train_tokenizer(kind, [ENGLISH], specials=roles, min_count=1))
    with pytest.raises(InputError, match="words start") as caught:
        units_of_text(units, corpus)
    assert "--segment" in str(caught.value.hint)


def test_byte_level_bpe_forms_whole_words_with_segmentation(folder: Path):
    text = ENGLISH + " " + CHINESE
    roles = {"start": "[CLS]", "end": "[SEP]", "mask": "[MASK]"}
    corpus = prepared(folder, text, train_tokenizer("bytepair", [text], specials=roles, size=300), Segmenter())
    units = sorted(unit for row in units_of_text(WholeWords(), corpus) for unit in row if unit != [IGNORE_INDEX])
    decoded = [corpus.tokenizer.decode(corpus.ids[unit]) for unit in units]
    assert "".join("".join(decoded).split()) == "".join(text.split())
    assert not any("\ufffd" in word for word in decoded)  # no partial character
    assert {"北京大学", "喜欢", "unkind"} <= {word.strip() for word in decoded}


def test_word_split_by_a_window_is_two_units():
    """Words of 5 tokens in windows of 4: the rest starts a new unit in the next sequence."""
    words = np.arange(20) % 5 == 0
    corpus = corpus_of([[20]], words=words, tokenizer=train_tokenizer("words", ["a"], min_count=1))
    batch = DocSentences(6, CLS, SEP).batch(corpus.all_documents(), 10**6, BatchKey(0, 0))
    rows = split_into_units(WholeWords(), batch, corpus)
    assert all(sum(map(len, row)) <= 6 for row in rows)
    assert sorted(position for row in rows for unit in row for position in unit if position >= 0) == list(range(20))
    assert all(not words[unit[1:]].any() for row in rows for unit in row if unit != [IGNORE_INDEX])


# -- word n-grams

LETTERS = "abcdefghijklmnopqrstuvwxyz"


@pytest.fixture(scope="module")
def letter_tokenizer() -> Tokenizer:
    """Letters are words; two punctuation marks."""
    return train_tokenizer("words", [" ".join([*LETTERS, ".", ","])], min_count=1)


def letter_corpus(tokenizer: Tokenizer, documents: list[list[str]], words: np.ndarray | None = None) -> Corpus:
    """Documents of sentences of letters and punctuation."""
    ids = np.array([tokenizer.token_to_id(letter) for document in documents for text in document for letter in text])
    return corpus_of(
        [[len(text) for text in document] for document in documents], ids=ids, words=words, tokenizer=tokenizer
    )


@pytest.mark.parametrize(("least", "most"), [(1, 3), (2, 3), (1, 1), (1, 5), (2, 2)])
def test_word_ngram_lengths_are_proportional_to_one_over_n(letter_tokenizer: Tokenizer, least: int, most: int):
    rng = np.random.default_rng(1)
    corpus = letter_corpus(letter_tokenizer, [["".join(rng.choice(list(LETTERS), 20_000))]])
    rows = units_of_text(WordNgrams(most, least), corpus, context=20_002)
    sizes = Counter(len(unit) for row in rows for unit in row[1:-2])  # the last one ends with the sentence
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
def test_word_ngrams_stop_at_punctuation_sentences_and_sequences(
    letter_tokenizer: Tokenizer, documents: list[list[str]], context: int, seed: int, pairs: bool
):
    corpus = letter_corpus(letter_tokenizer, documents)
    kind = NextSentence if pairs else DocSentences
    batch = kind(context, CLS, SEP).batch(corpus.all_documents(), 10**6, BatchKey(seed, 0))
    rows = split_into_units(WordNgrams(4), batch, corpus, seed)
    letters = [letter for document in documents for text in document for letter in text]
    sentence = [number for number, text in enumerate(t for d in documents for t in d) for _ in text]
    for row in rows:
        for unit in row:
            if unit != [IGNORE_INDEX]:
                assert len(unit) == 1 or not set(".,") & {letters[position] for position in unit}
                assert len({sentence[position] for position in unit}) == 1
                assert len(unit) <= 4
    assert sorted(p for row in rows for unit in row for p in unit if p >= 0) == list(range(len(letters)))


def test_word_ngrams_consist_of_whole_words(folder: Path):
    corpus = prepared(folder, ENGLISH, wordpiece_tokenizer(ENGLISH))
    for seed in range(20):
        words = [tuple(unit) for row in units_of_text(WholeWords(), corpus, seed=seed) for unit in row]
        word_starts = {unit[0] for unit in words}
        for row in units_of_text(WordNgrams(3), corpus, seed=seed):
            for unit in row:
                assert unit[0] in word_starts
                assert len([position for position in unit if position in word_starts]) <= 3


def test_punctuation_is_tokens_without_letters_or_digits():
    tokenizer = train_tokenizer("wordpiece", ["a1 é 词 。 , … — 't ½ x_ $ 我"] * 3, min_count=1)
    is_punctuation = punctuation(tokenizer)
    punctuation_tokens = {tokenizer.id_to_token(i) for i in np.flatnonzero(is_punctuation)}
    assert {"。", ",", "…", "—", "'", "_", "$"} <= punctuation_tokens
    assert not punctuation_tokens & {"a", "##1", "e", "词", "我", "t", "[UNK]", "[MASK]"}


# -- entities


def corpus_with_entities(tokenizer: Tokenizer, letters: str, flags: str, words: str | None = None) -> Corpus:
    word_starts = None if words is None else np.array([flag == "1" for flag in words])
    corpus = letter_corpus(tokenizer, [[letters]], word_starts)
    entities = np.array([int(flag) for flag in flags], np.uint8)
    result = replace(corpus, entities=entities)
    result.__dict__["tokenizer"] = tokenizer
    return result


def entity_units(corpus: Corpus, context: int = 40) -> list[tuple[list[int], bool]]:
    """The units of the text, and whether they are leading."""
    batch = DocSentences(context, CLS, SEP).batch(corpus.all_documents(), 10**6, BatchKey(0, 0))
    starts, has_priority = EntityUnits().unit_boundaries(batch, corpus.all_documents(), 0, np.random.default_rng(0))
    assert has_priority is not None
    assert batch.positions is not None
    units = []
    for position, is_start, is_leading in zip(batch.positions.tolist(), starts, has_priority, strict=True):
        if position == IGNORE_INDEX:
            assert is_start
            assert not is_leading
            units.append(([], False))
        elif is_start:
            units.append(([position], bool(is_leading)))
        else:
            units[-1][0].append(position)
            assert units[-1][1] == is_leading  # the same for all tokens of a unit
    return sorted((unit, is_leading) for unit, is_leading in units if unit)


def test_entities_are_leading_units_and_the_rest_are_words(letter_tokenizer: Tokenizer):
    units = entity_units(corpus_with_entities(letter_tokenizer, "abcdefghij", "0120112200", words="1101111011"))
    expected = [([0], False), ([1, 2], True), ([3], False), ([4], True), ([5, 6, 7], True), ([8], False), ([9], False)]
    assert units == expected


def test_adjacent_entities_of_several_words_stay_separate(letter_tokenizer: Tokenizer):
    """Every token is a word: an entity joins several words, and two entities stay two."""
    units = entity_units(corpus_with_entities(letter_tokenizer, "abcdef", "121220"))
    assert units == [([0, 1], True), ([2, 3, 4], True), ([5], False)]


def test_entity_split_by_a_window_is_two_leading_units(letter_tokenizer: Tokenizer):
    # sequences of abcd, efgh
    units = entity_units(corpus_with_entities(letter_tokenizer, "abcdefgh", "00012200"), context=6)
    assert units == [([0], False), ([1], False), ([2], False), ([3], True), ([4, 5], True), ([6], False), ([7], False)]


def test_entity_at_the_first_token_of_the_text(letter_tokenizer: Tokenizer):
    assert entity_units(corpus_with_entities(letter_tokenizer, "abc", "120"))[0] == ([0, 1], True)


def test_entity_units_without_entities_are_whole_words(letter_tokenizer: Tokenizer):
    corpus = letter_corpus(letter_tokenizer, [["abc", "de."]])
    batch = DocSentences(20, CLS, SEP).batch(corpus.all_documents(), 10**6, BatchKey(0, 0))
    rng = np.random.default_rng(0)
    names, words = (
        units.unit_boundaries(batch, corpus.all_documents(), 0, rng) for units in (EntityUnits(), WholeWords())
    )
    assert names.has_priority is None
    assert np.array_equal(names.starts, words.starts)


# -- alternating units


def test_alternating_units_change_after_stage_steps(letter_tokenizer: Tokenizer):
    corpus = letter_corpus(letter_tokenizer, [["abcdefgh" * 4]])
    batch = DocSentences(40, CLS, SEP).batch(corpus.all_documents(), 10**6, BatchKey(0, 0))
    alternating = AlternatingUnits((SingleTokens(), WordNgrams(2, 2), WordNgrams(4, 4)), 3)

    def longest(step: int) -> int:
        return max(len(unit) for row in split_into_units(alternating, batch, corpus, step=step) for unit in row)

    assert [longest(step) for step in range(21)] == ([1] * 3 + [2] * 3 + [4] * 3) * 2 + [1] * 3
    assert longest(9 * 10**9 + 4) == 2


def test_special_tokens_are_separate_units(letter_tokenizer: Tokenizer):
    assert [letter_tokenizer.id_to_token(i) for i in (PAD, UNK, CLS, SEP, MASK)] == [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
    ]
    corpus = letter_corpus(letter_tokenizer, [["abc", "abc"], ["abc"]])
    batch = NextSentence(9, CLS, SEP).batch(corpus.all_documents(), 10**6, BatchKey(0, 0))
    for masking_units in (SingleTokens(), WholeWords(), WordNgrams(3), EntityUnits()):
        for row in split_into_units(masking_units, batch, corpus):
            assert [unit for unit in row if IGNORE_INDEX in unit] == [[IGNORE_INDEX]] * sum(
                unit == [IGNORE_INDEX] for unit in row
            )
            assert row[0] == row[-1] == [IGNORE_INDEX]
