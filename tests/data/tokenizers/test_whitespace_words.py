"""Whitespace-separated words are numbered alike by a dictionary and by a compiled loop over bytes, for any text."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forebear.data.tokenizers import build_vocabulary, pretokens
from forebear.data.tokenizers.pretokens import WhitespaceWords
from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.data.tokenizers.train import train_tokenizer
from forebear.data.tokenizers.word_level import WORD_SEPARATORS
from forebear.data.unicode import replace_surrogates
from forebear.kernels import pretoken_table as tables
from hostile_texts import hostile_strings

ALL_GAPS = " " + WORD_SEPARATORS
# Of all lengths around eight bytes, with invisible characters, and words that are equal if NUL is ignored.
ODD = [
    "a",
    "a\0",
    "\0a",
    "\0",
    "1234567",
    "12345678",
    "123456789",
    "1234567\0",
    "é" * 4,
    "中文字",
    "中文字符",
    "a\x0bb",
    "\x7f",
]
words = st.one_of(st.sampled_from(ODD), hostile_strings())
text_lists = st.lists(st.lists(words, max_size=6).map(" ".join), max_size=5)


def reference_words(texts: list[str]) -> list[list[str]]:
    table = str.maketrans(dict.fromkeys(ALL_GAPS, " "))
    return [[word for word in replace_surrogates(text).translate(table).split(" ") if word] for text in texts]


def looked_up_words(index: WhitespaceWords, texts: list[str]) -> list[list[str]]:
    """The words of each text, by their numbers; asserts that they start where the texts have them."""
    lookup = index.look_up_texts(texts, with_starts=True)
    word_texts, joined = index.texts(), " ".join(map(replace_surrogates, texts))
    words_found = [word_texts[number] for number in lookup.ids.tolist()]
    for start, word in zip(lookup.starts.tolist(), words_found, strict=True):
        assert joined[start : start + len(word)] == word
    assert len(set(word_texts)) == len(word_texts) == len(index)
    assert lookup.new_pretokens == word_texts[len(word_texts) - len(lookup.new_pretokens) :]
    return [part.tolist() for part in np.split(np.array(words_found, object), lookup.ends[:-1])] if texts else []


@settings(max_examples=200, deadline=None)
@given(batches=st.lists(text_lists, min_size=1, max_size=3))
def test_compiled_and_dictionary_lookup_of_words_agree(batches):
    with pytest.MonkeyPatch.context() as patch:
        indexes = [WhitespaceWords(ALL_GAPS) for _ in range(3)]
        for number, texts in enumerate(batches):
            for index, compile_from in zip(
                indexes, (99, 0, 1), strict=True
            ):  # never compiled, always, from the second on
                patch.setattr(pretokens, "worth_compiling", lambda _, on=number >= compile_from: on)
                assert looked_up_words(index, texts) == reference_words(texts)
        assert indexes[0].texts() == indexes[1].texts() == indexes[2].texts()
        for index in indexes:
            characters, sizes = index.word_lengths()
            assert characters.tolist() == list(map(len, index.texts()))
            assert sizes.tolist() == [len(name.encode()) for name in index.texts()]
            assert index.texts_of(index.sorted_ids()) == sorted(index.texts())


def test_compiled_table_grows_without_losing_words(monkeypatch):
    monkeypatch.setattr(pretokens, "worth_compiling", lambda _: True)
    monkeypatch.setattr(tables.empty_pretoken_table, "__defaults__", (4, 8, np.uint32))
    index = WhitespaceWords(ALL_GAPS)
    text = " ".join(
        [*(names := [f"word number {n}".replace(" ", "-" * (n % 9)) for n in range(3000)]), "x" * 5000, *names]
    )
    assert looked_up_words(index, [text, text]) == [text.split(" ")] * 2


def test_words_with_equal_first_bytes_are_sorted(monkeypatch):
    monkeypatch.setattr(pretokens, "worth_compiling", lambda _: True)
    index = WhitespaceWords(ALL_GAPS)
    names = [f"{'same' * size}{rest}" for size in range(6) for rest in ("", "b", "a", "é", "中", "ab")]
    index.look_up_texts([" ".join(name for name in names if name)])
    assert index.texts_of(index.sorted_ids()) == sorted({name for name in names if name})


@pytest.mark.parametrize("compiled", [False, True])
@settings(max_examples=100, deadline=None)
@given(texts=text_lists, size=st.one_of(st.none(), st.integers(6, 12)), min_count=st.integers(1, 3))
def test_word_counts_and_vocabulary_order_equal_the_reference(compiled, texts, size, min_count):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pretokens, "worth_compiling", lambda _: compiled)
        word_counts = build_vocabulary.WordCounts.from_texts(texts, ALL_GAPS)
        counts = Counter(word for row in reference_words(texts) for word in row)
        assert dict(word_counts.word_counts()) == counts
        options = {"specials": ["[PAD]", "a", "12345678"], "size": size, "min_count": min_count}
        tokens, ids = word_counts.order_by_frequency(**options)
        assert tokens == build_vocabulary.order_vocabulary(counts, **options)
        token_ids = {name: number for number, name in enumerate(tokens) if number >= 3}
        assert ids.tolist() == [token_ids.get(name, -1) for name in word_counts.words.texts()]


@pytest.mark.parametrize("compiled", [False, True])
@settings(max_examples=100, deadline=None)
@given(training_texts=text_lists, texts=text_lists, min_count=st.integers(1, 2))
def test_cache_filled_by_counting_changes_no_token(compiled, training_texts, texts, min_count):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pretokens, "worth_compiling", lambda _: compiled)
        trained = train_tokenizer(
            "words", [*training_texts, "something to learn from"], split="spaces", min_count=min_count
        )
        fresh = Tokenizer(trained.spec)
        for batch in (training_texts, texts, training_texts):
            cached, uncached = trained.encode_batch(batch), fresh.encode_batch(batch)
            reference, counts = fresh.encode_many_reference(batch)
            assert cached.ids.tolist() == uncached.ids.tolist() == reference.tolist()
            assert cached.counts.tolist() == uncached.counts.tolist() == counts.tolist()
            assert cached.unknown_bytes.tolist() == uncached.unknown_bytes.tolist()
        trained.clear_cache()
        assert trained.encode_batch(training_texts).ids.tolist() == fresh.encode_batch(training_texts).ids.tolist()
