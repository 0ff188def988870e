"""Entities (persons, places, organizations) from a dictionary or from tags: whole words, never across sentences."""

import re
from itertools import islice, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hostile_texts
from forebear.data import segmentation
from forebear.data.corpus.document_encoder import DocumentEncoder
from forebear.data.corpus.prepare import prepare_corpus
from forebear.data.entities import EntityDictionary
from forebear.data.io.document import Document
from forebear.data.io.text_formats import TextFormat
from forebear.data.segmentation import Segmenter
from forebear.data.sentences import split_sentences
from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.data.tokenizers.train import train_tokenizer
from forebear.errors import InputError
from story_corpus import corpus_entities, entity_texts, read_documents

TAGGED = TextFormat(format="tagged")
TRAINING_TEXT = "江泽民在北京大学见了 Ann Smith of New York and Yahoo! today. 我们是大学生。"
TOKENIZERS = {
    "wordpiece": train_tokenizer("wordpiece", [TRAINING_TEXT] * 3, size=300, min_count=1, lower=False),
    "characters": train_tokenizer("characters", [TRAINING_TEXT]),
    "bytepair": train_tokenizer("bytepair", [TRAINING_TEXT] * 3, size=400, min_count=1),
}


def encode_text(text: str, *names: str, tokenizer: Tokenizer | None = None, words: tuple[str, ...] = (), **fields):
    """The text encoded with these names; the tokenizer is character-level by default."""
    encoder = DocumentEncoder(
        tokenizer or train_tokenizer("characters", [text]), "split", Segmenter(words), EntityDictionary(names)
    )
    return encoder.encode([Document(text, "f", 1, **fields)])


def entities_in(text: str, *names: str, **options) -> list[str]:
    tokenizer = options.pop("tokenizer", None) or train_tokenizer("characters", [text])
    encoded = encode_text(text, *names, tokenizer=tokenizer, **options)
    return entity_texts(tokenizer, encoded.ids, encoded.entities)


@pytest.fixture
def tagged_entities(tmp_path):
    """The entities of a character-level corpus of this tagged text."""

    def entities(text: str, **options) -> list[str]:
        path = tmp_path / "tagged.txt"
        path.write_text(text)
        plain = "".join(document.text for document in read_documents(path, format="tagged")[0])
        corpus = prepare_corpus([path], train_tokenizer("characters", [plain]), text_format=TAGGED, **options)
        assert corpus.metadata["counts"]["entities"] == len(corpus_entities(corpus))
        return corpus_entities(corpus)

    return entities


# -- a dictionary


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_longest_dictionary_names_are_found(kind):
    text = "江泽民在北京大学见了 Ann Smith of New York. AnnA, York and Ann."
    names = ("江泽民", "北京", "北京大学", "New York", "Ann Smith", "Ann", "York and")
    assert entities_in(text, *names, tokenizer=TOKENIZERS[kind]) == [
        "江泽民",
        "北京大学",  # the longest at a place
        "Ann Smith",
        "New York",
        "York and",  # but not AnnA: Latin names end where their word does
        "Ann",
    ]


def test_dictionary_names_are_found_by_word_tokenizers():
    text, names = "江泽民在北京见了 Ann Smith of New York .", ("江泽民", "北京", "New York", "Ann")
    for split in ("punctuation", "spaces"):
        tokenizer = train_tokenizer("words", [text], split=split, segmenter=Segmenter())
        assert tokenizer._cache is not None
        assert entities_in(text, *names, tokenizer=tokenizer) == ["江泽民", "北京", "Ann", "New York"]
        tokenizer.__dict__["_cache"] = None  # without the cache
        assert entities_in(text, *names, tokenizer=tokenizer) == ["江泽民", "北京", "Ann", "New York"]


def test_names_of_one_character_are_found():
    assert entities_in("京 and X, not XY", "京", "X") == ["京", "X"]
    assert entities_in("北京在京", "北京", "京") == ["北京", "京"]
    assert list(segmentation.DictionaryMatcher(("京津冀", "京")).find("京津，京津冀")) == [(0, 1), (3, 6)]


def test_entity_flags_match_a_worked_example():
    encoded = encode_text("她见了Ann Lee.", "Ann Lee", "她")
    assert encoded.entities is not None
    assert encoded.entities.tolist() == [1, 0, 0, 1, 2, 2, 2, 2, 2, 2, 0]
    assert encoded.ledger.stage("tokens").outputs["entities"] == 2


def test_entities_cover_whole_words():
    assert entities_in("北京大学生去了", "北京大学", words=("北京大学生",)) == ["北京大学生"]
    assert entities_in("北京大学生去了", "大学", words=("北京大学生",)) == ["北京大学生"]
    assert entities_in("unbelievable", "lie") == []  # not at the borders of a Latin word
    assert entities_in("an x-ray, x", "x") == ["x-ray", "x"]  # the first is one word for rjieba


def test_word_shared_by_two_names_belongs_to_the_first():
    # 甲乙丙丁 is one word; the second name extends into the next word and covers only that
    assert entities_in("甲乙丙丁戊己", "甲乙", "丙丁戊己", words=("甲乙丙丁", "戊己")) == ["甲乙丙丁", "戊己"]
    assert entities_in("甲乙丙丁戊己", "甲乙", "丙丁", words=("甲乙丙丁", "戊己")) == ["甲乙丙丁"]


def test_token_shared_by_two_names_belongs_to_the_first():
    tokenizer = train_tokenizer("bytepair", ["甲乙丙"] * 50, size=300, min_count=1)
    assert (
        tokenizer.encode("甲乙丙").texts[-1] != tokenizer.encode("丙").texts[-1]
    )  # one token for more than a character
    encoded = encode_text("甲乙丙", "甲乙", "丙", tokenizer=tokenizer, words=("甲乙",))
    assert encoded.entities is not None
    assert encoded.entities.tolist() == [1] + [2] * (len(encoded.ids) - 1)


def test_no_entity_crosses_a_sentence_end():
    text = "We saw Yahoo! New York."
    assert split_sentences(text) == ["We saw Yahoo!", " New York."]
    assert entities_in(text, "Yahoo! New York", "Yahoo", "York") == ["Yahoo", "York"]
    encoder = DocumentEncoder(
        TOKENIZERS["wordpiece"], "whole", Segmenter(), EntityDictionary(("Yahoo! New York", "Yahoo"))
    )
    encoded = encoder.encode([Document(text, "f", 1)])
    assert entity_texts(TOKENIZERS["wordpiece"], encoded.ids, encoded.entities) == ["Yahoo! New York"]
    assert entities_in("甲乙。丙", "乙。丙") == []
    assert entities_in("甲乙。丙丁", entity_spans=((1, 4),), words=()) == []  # nor an entity marked in the source
    assert entities_in("甲乙。丙丁", entity_spans=((0, 2), (3, 5))) == ["甲乙", "丙丁"]


def test_corpus_without_dictionary_or_tags_has_no_entities(tmp_path, story_path, wordpiece_tokenizer):
    corpus = prepare_corpus([story_path], wordpiece_tokenizer)
    assert corpus.entities is None
    assert corpus.words is None
    assert "entities" not in corpus.metadata["counts"]
    assert not {"entities", "entity_tags"} & corpus.metadata["made_from"].keys()  # so the key is what it always was
    assert not (corpus.folder / "entities.npy").exists()


# -- tags


def test_words_with_entity_tags_are_entities(tagged_entities):
    text = "新华社/nt  记者/n  从/p  北京/ns  壮族/nz  到/v  河北省/ns  张家口/ns  。/w\n中国/ns\n台湾/ns"
    assert tagged_entities(text) == ["新华社", "北京", "壮族", "河北省", "张家口", "中国", "台湾"]
    assert tagged_entities("今天/t 很/d 好/a") == []


def test_surname_and_given_name_are_one_entity(tagged_entities):
    assert tagged_entities("主席/n  江/nr  泽民/nr  和/c  李/nr  鹏/nr") == ["江泽民", "李鹏"]
    assert tagged_entities("赵/nr 志文/nr 王/nr 桦/nr 贾/nr 建舟/nr") == ["赵志文", "王桦", "贾建舟"]
    assert tagged_entities("克林顿/nr 叶利钦/nr") == ["克林顿", "叶利钦"]
    assert tagged_entities("欧阳/nr 修/nr 诸葛/nr 仓麟/nr 家贵/nr 军敏/nr") == ["欧阳修", "诸葛仓麟", "家贵", "军敏"]
    assert tagged_entities("焦/nr 秋生/nr 银春/nr 祝/nr 有容/nr 让·梅泰·亚彭德/nr") == [
        "焦秋生",
        "银春",
        "祝有容",
        "让·梅泰·亚彭德",
    ]
    assert tagged_entities("江/nr 的/u 泽民/nr 周/nr\n恩来/nr") == ["江", "泽民", "周", "恩来"]
    assert tagged_entities("江/nrf 泽民/nrg 北京/nsf") == ["江泽民", "北京"]


def test_compound_is_an_entity_by_its_own_tag(tagged_entities):
    assert tagged_entities("在/p [中央/n 人民/n 广播/vn 电台/n]nt 、/w [中国/ns 国际/n 电台/n]nt") == [
        "中央人民广播电台",
        "中国国际电台",
    ]
    assert tagged_entities("[中国/ns 银行/n]/nt 和/c [工商银行/n]/nt 的/u 和/c/c") == ["中国银行", "工商银行"]
    assert tagged_entities("[江/nr 泽民/nr 讲话/n]l") == ["江泽民"]
    assert tagged_entities("周/nr [江/nr]nz 泽民/nr [李/nr 鹏/nr 江/nr]l 泽民/nr") == [
        "周",
        "江",
        "泽民",
        "李鹏",
        "江",
        "泽民",
    ]
    assert tagged_entities("[中国/ns 国际/n\n电台/n]nt [/w 北京/ns ]/w 台/n]nt") == ["中国", "北京"]
    assert tagged_entities("[New/ns York/ns]ns Times/n Ann/nr Lee/nr") == ["New York", "Ann", "Lee"]


def test_compound_brackets_are_removed_from_the_text(tmp_path):
    path = tmp_path / "t.txt"
    path.write_text("[中国/ns 银行/n]/nt ，/w [工商/n 银行/n]nt a]/n [/w")
    assert [document.text for document in read_documents(path, format="tagged")[0]] == ["中国银行，工商银行a]["]
    path.write_text("[中国/ns /n")
    with pytest.raises(InputError, match="is not word/tag"):
        read_documents(path, format="tagged")


def test_tags_override_overlapping_dictionary_names(tagged_entities):
    text = "中国/ns 银行/n 和/c 银行/n 在/p 北京/ns 大学生/n"
    assert tagged_entities(text) == ["中国", "北京"]
    assert tagged_entities(text, entities=EntityDictionary(("中国银行", "银行", "大学"))) == [
        "中国",
        "银行",
        "北京",
        "大学生",
    ]
    assert tagged_entities(text, entities=EntityDictionary(("中国银行", "和银行", "北京大学"))) == [
        "中国",
        "和银行",
        "北京",
    ]


# -- by brute force

LATIN = re.compile("[^\\W_\u2e80-\U0010ffff]")


def reference_spans(text: str, names: set[str]) -> list[tuple[int, int]]:
    """From left to right, at each position the longest name that does not end inside a Latin word or number."""
    spans: list[tuple[int, int]] = []
    start = 0
    while start < len(text):
        for end in range(len(text), start, -1):
            inside = [at for at in (start, end) if 0 < at < len(text)]
            joined = any(LATIN.match(text[at - 1]) and LATIN.match(text[at]) for at in inside)
            if text[start:end] in names and not joined:
                spans.append((start, end))
                break
        start = spans[-1][1] if spans and spans[-1][0] == start else start + 1
    return spans


def reference_flags(tokenizer: Tokenizer, sentence: str, starts: list[bool], names: set[str]) -> list[int]:
    """Token by token and word by word, what a sentence's flags must be."""
    spans = tokenizer.encode(sentence).spans
    covered = [set(range(begin, end)) or {end - 1} for begin, end in spans]  # a further byte is of the one before it
    word = np.cumsum(starts).tolist()
    flags = [0] * len(spans)
    for begin, end in reference_spans(sentence, names):
        words = {word[n] for n, characters in enumerate(covered) if characters & set(range(begin, end))}
        numbers = [n for n in range(len(spans)) if word[n] in words and not flags[n]]
        for n in numbers:
            flags[n] = 1 if n == numbers[0] else 2
    return flags


NAMES = st.lists(
    st.sampled_from(
        [
            "江泽民",
            "泽民",
            "民在北",
            "北京",
            "京",
            "北京大学",
            "学生",
            "New York",
            "York",
            "Ann",
            "a1",
            "C++",
            "😀",
            "é",
        ]
    )
    | st.text("江泽民北京大学生 New1.", min_size=1, max_size=5).map(str.strip).filter(bool),
    max_size=6,
)
PIECES = st.sampled_from(
    [
        "江泽民",
        "北京",
        "大学",
        "生",
        "在",
        "，",
        "。",
        "! ",
        "\n",
        " ",
        "  ",
        "New",
        " York",
        "Ann",
        "a1",
        "C++",
        "😀",
        "é",
        "e\u0301",
    ]
)


@pytest.mark.parametrize("max_prefixes", [1000, 0])
@settings(max_examples=100)
@given(text=st.lists(PIECES, max_size=20).map("".join), names=NAMES)
def test_dictionary_matcher_equals_brute_force(max_prefixes, text, names):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segmentation, "_MAX_REGEX_PREFIXES", max_prefixes)  # both ways of looking for beginnings
        assert list(segmentation.DictionaryMatcher(names).find(text)) == reference_spans(text, set(names))


@pytest.mark.parametrize("kind", TOKENIZERS)
@settings(max_examples=100)
@given(
    texts=st.lists(
        st.lists(PIECES | hostile_texts.hostile_strings(surrogates=False), max_size=12).map("".join),
        min_size=1,
        max_size=3,
    ),
    names=NAMES,
)
def test_entity_flags_equal_brute_force(kind, texts, names):
    tokenizer = TOKENIZERS[kind]
    encoder = DocumentEncoder(tokenizer, "split", Segmenter(), EntityDictionary(tuple(names)))
    encoded = encoder.encode([Document(text, "f", 1) for text in texts])
    assert encoded.entities is not None
    assert encoded.words is not None
    tokens = iter(zip(encoded.words.tolist(), encoded.entities.tolist(), strict=True))
    for sentence in (sentence for text in texts for sentence in split_sentences(text)):
        sentence_tokens = list(islice(tokens, len(tokenizer.encode(sentence).ids)))
        starts, flags = [start for start, _ in sentence_tokens], [flag for _, flag in sentence_tokens]
        assert flags == reference_flags(tokenizer, sentence, starts, set(names))
    assert not list(tokens)
    assert encoded.ledger.stage("tokens").outputs["entities"] == encoded.entities.tolist().count(1)


@settings(max_examples=1000)
@given(
    items=st.lists(
        st.tuples(
            st.sampled_from(["江", "泽民", "北京", "欧阳", "，", "Ann", "[中国", "银行"]),
            st.sampled_from("nr ns nt n w n]nt n]l".split()),
        )
    )
)
def test_tagged_entities_are_whole_words_in_order(items, tmp_path_factory):
    path = tmp_path_factory.mktemp("tagged") / "t.txt"
    path.write_text("  ".join(f"{word}/{tag}" for word, tag in items))
    for document in read_documents(path, format="tagged")[0]:
        assert document.word_ends is not None
        assert document.entity_spans is not None
        bounds = [bound for span in document.entity_spans for bound in span]
        assert bounds == sorted(bounds)
        assert all(begin < end for begin, end in document.entity_spans)
        assert {*bounds} <= {0, *document.word_ends}


# -- real text


def test_entities_of_the_peoples_daily_match_its_tags(data, tmp_path):
    with open(data / "corpora" / "peoples-daily-1998-tagged.txt", encoding="utf-8") as file:
        lines = list(islice(file, 400))
    (tmp_path / "head.txt").write_text("".join(lines))
    plain = "".join(document.text for document in read_documents(tmp_path / "head.txt", format="tagged")[0])
    corpus = prepare_corpus([tmp_path / "head.txt"], train_tokenizer("characters", [plain]), text_format=TAGGED)
    entities = corpus_entities(corpus)
    words = [item.rpartition("/") for line in lines for item in line.split()]
    tags = sum(tag in ("nr", "ns", "nt", "nz") for _, _, tag in words)
    surnames = sum(a[2] == b[2] == "nr" and len(a[0]) == 1 for a, b in pairwise(words))
    assert tags - surnames <= len(entities) <= tags
    assert 0.02 < len(entities) / len(words) < 0.1
    assert entities.count("江泽民") == sum(line.count("江/nr  泽民/nr") for line in lines) > 5
    assert {"新华社", "中国", "香港", "邓小平"} <= set(entities)
