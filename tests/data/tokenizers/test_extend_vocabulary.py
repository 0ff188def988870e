"""Words added to a vocabulary become one token, are never added twice, and are refused if encoding cannot find them."""

from __future__ import annotations

import numpy as np
import pytest

from forebear.data.segmentation import Segmenter
from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.data.tokenizers.train import extend_vocabulary, missing_words, train_tokenizer
from small_runs import input_error_allowed, small_text


@pytest.mark.parametrize("kind", ["words", "characters", "wordpiece"])
def test_texts_without_added_words_are_encoded_as_before(kind: str):
    """In texts without the added words no token changes."""
    old = train_tokenizer(kind, [small_text(), "我喜欢你。他们很好。"], min_count=1)
    word = "们" if kind == "characters" else "qqzz"
    new, added = extend_vocabulary(old, [word])
    assert list(added) == ([] if old.token_to_id(word) is not None else [word])
    for sample in (small_text(3), "我喜欢你", "They said: 好! [MASK] zz"):
        assert new.encode(sample).ids.tolist() == old.encode(sample).ids.tolist()
        assert np.array_equal(new.encode_many([sample])[0], new.encode(sample).ids)


@pytest.mark.parametrize("kind", ["words", "wordpiece", "characters"])
@pytest.mark.parametrize(
    "word",
    ["zebra", "Zebra", "喜欢你们", "欢你", "北京", "龘", "e-mail", "new york", "é", "ﬁne", "ok2", "[MASK]", "##ing"],
)
def test_added_word_is_one_token_or_refused(kind: str, word: str):
    """A word that encoding would never find is not added, with any kind of tokenizer."""
    old = train_tokenizer(kind, ["the cat sat", "我喜欢你。他们很好。"] * 2, min_count=1)
    new, added = old, {}
    with input_error_allowed() as refused:
        new, added = extend_vocabulary(old, [word])
    if refused:
        return
    assert len(added) <= 1
    if word != "[MASK]":
        assert len(new.encode(word).ids) == 1
        assert new.encode(word).ids[0] != new.unk_id
        ids_in_context = new.encode(f"我 {word} the").ids.tolist()
        assert new.encode(word).ids[0] in ids_in_context
    assert not set(new.encode(word).ids.tolist()) & (new.special_ids - {new.unk_id})


def test_missing_words_of_texts_can_be_added():
    old = train_tokenizer("words", ["the cat sat on the mat", "我喜欢你。"], min_count=1)
    texts = ["The zebra saw the okapi", "zebra, okapi! zebra 首都机场", "the cat in 首都机场", ""]
    missing = missing_words(old, texts, 2)
    assert missing[0] == "zebra"  # three times
    assert set(missing) == {"zebra", "okapi", "首都机场"} or set(missing) == {"zebra", "okapi", "首都", "机场"}
    assert "The" in missing_words(old, texts, 1)
    new, added = extend_vocabulary(old, missing, are_from_text=True)
    assert list(added) == missing
    assert old.unk_id not in new.encode("zebra okapi").ids
    assert missing_words(new, texts, 2) == []
    assert missing_words(train_tokenizer("bytepair", texts, size=300), ["zebra 龘"], 1) == []


def test_first_added_chinese_words_bring_their_segmenter():
    english, text = train_tokenizer("words", ["the cat sat on the mat"] * 3), "老师去北京。The cat sat."
    new_words = [token for token in train_tokenizer("words", [text]).vocabulary() if token in text]
    for split in ("punctuation", "spaces"):
        old = train_tokenizer("words", ["the cat sat on the mat"] * 3, split=split)
        words = [word for word in new_words if split == "punctuation" or word.isalpha()]
        new, _ = extend_vocabulary(old, words, are_from_text=True,
                          segmenter=Segmenter())  # fmt: skip
        assert (new.segmenter is not None) == (split == "punctuation"), "where spaces part words, nothing else does"
    new, _ = extend_vocabulary(english, new_words, are_from_text=True, segmenter=Segmenter())
    assert new.unk_id not in new.encode(text).ids
    assert new.encode("the cat sat").ids.tolist() == english.encode("the cat sat").ids.tolist()
    reloaded = Tokenizer(new.spec)
    assert reloaded.encode(text).ids.tolist() == new.encode(text).ids.tolist()
    assert extend_vocabulary(english, ["okapi"], are_from_text=True, segmenter=Segmenter())[0].segmenter is None
