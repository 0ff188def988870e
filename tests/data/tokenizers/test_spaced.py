"""Words between gaps are numbered alike by a dictionary and by a compiled loop over bytes, whatever the text."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forebear.data.tokenizers import pretokens, vocabulary
from forebear.data.tokenizers.pretokens import WhitespaceWords
from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.data.tokenizers.train import train_tokenizer
from forebear.data.tokenizers.word_level import WORD_GAPS
from forebear.data.unicode import replace_surrogates
from forebear.kernels import pretokens as tables
from nasty import strings

ALL_GAPS = " " + WORD_GAPS
# Of all lengths around eight bytes, with signs that nobody sees, and such as would be alike if NUL were nothing.
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
words = st.one_of(st.sampled_from(ODD), strings())
texts_of = st.lists(st.lists(words, max_size=6).map(" ".join), max_size=5)


def by_hand(texts: list[str]) -> list[list[str]]:
    table = str.maketrans(dict.fromkeys(ALL_GAPS, " "))
    return [[word for word in replace_surrogates(text).translate(table).split(" ") if word] for text in texts]


def found(known: WhitespaceWords, texts: list[str]) -> list[list[str]]:
    """The words of each text, by their numbers; where they begin is compared with the texts themselves."""
    told = known.look_up_texts(texts, with_starts=True)
    names, whole = known.texts(), " ".join(map(replace_surrogates, texts))
    spoken = [names[number] for number in told.ids.tolist()]
    for begin, name in zip(told.starts.tolist(), spoken, strict=True):
        assert whole[begin : begin + len(name)] == name
    assert len(set(names)) == len(names) == len(known)
    assert told.new_pretokens == names[len(names) - len(told.new_pretokens) :]
    return [part.tolist() for part in np.split(np.array(spoken, object), told.ends[:-1])] if texts else []


@settings(max_examples=200, deadline=None)
@given(several=st.lists(texts_of, min_size=1, max_size=3))
def test_both_ways_are_one(several):
    with pytest.MonkeyPatch.context() as patch:
        ways = [WhitespaceWords(ALL_GAPS) for _ in range(3)]
        for turn, texts in enumerate(several):
            for way, first in zip(ways, (99, 0, 1), strict=True):  # never compiled, always, from the second on
                patch.setattr(pretokens, "worth_compiling", lambda _, on=turn >= first: on)
                assert found(way, texts) == by_hand(texts)
        assert ways[0].texts() == ways[1].texts() == ways[2].texts()
        for way in ways:
            characters, sizes = way.word_lengths()
            assert characters.tolist() == list(map(len, way.texts()))
            assert sizes.tolist() == [len(name.encode()) for name in way.texts()]
            assert way.texts_of(way.sorted_ids()) == sorted(way.texts())


def test_tables_grow_and_lose_nothing(monkeypatch):
    monkeypatch.setattr(pretokens, "worth_compiling", lambda _: True)
    monkeypatch.setattr(tables.empty_pretoken_table, "__defaults__", (4, 8, np.uint32))
    known = WhitespaceWords(ALL_GAPS)
    text = " ".join(
        [*(names := [f"word number {n}".replace(" ", "-" * (n % 9)) for n in range(3000)]), "x" * 5000, *names]
    )
    assert found(known, [text, text]) == [text.split(" ")] * 2


def test_words_alike_in_their_first_bytes_are_sorted(monkeypatch):
    monkeypatch.setattr(pretokens, "worth_compiling", lambda _: True)
    known = WhitespaceWords(ALL_GAPS)
    names = [f"{'same' * size}{rest}" for size in range(6) for rest in ("", "b", "a", "é", "中", "ab")]
    known.look_up_texts([" ".join(name for name in names if name)])
    assert known.texts_of(known.sorted_ids()) == sorted({name for name in names if name})


@pytest.mark.parametrize("compiled", [False, True])
@settings(max_examples=100, deadline=None)
@given(texts=texts_of, size=st.one_of(st.none(), st.integers(6, 12)), min_count=st.integers(1, 3))
def test_a_vocabulary_of_what_is_spoken(compiled, texts, size, min_count):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pretokens, "worth_compiling", lambda _: compiled)
        spoken = vocabulary.WordCounts.from_texts(texts, ALL_GAPS)
        counts = Counter(word for row in by_hand(texts) for word in row)
        assert dict(spoken.word_counts()) == counts
        asked = {"specials": ["[PAD]", "a", "12345678"], "size": size, "min_count": min_count}
        kept, ids = spoken.order_by_frequency(**asked)
        assert kept == vocabulary.order_vocabulary(counts, **asked)
        places = {name: number for number, name in enumerate(kept) if number >= 3}
        assert ids.tolist() == [places.get(name, -1) for name in spoken.words.texts()]


@pytest.mark.parametrize("compiled", [False, True])
@settings(max_examples=100, deadline=None)
@given(taught=texts_of, texts=texts_of, min_count=st.integers(1, 2))
def test_what_counting_remembers_changes_no_token(compiled, taught, texts, min_count):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pretokens, "worth_compiling", lambda _: compiled)
        made = train_tokenizer("words", [*taught, "something to learn from"], split="spaces", min_count=min_count)
        fresh = Tokenizer(made.spec)
        for some in (taught, texts, taught):
            mine, theirs = made.encode_batch(some), fresh.encode_batch(some)
            plain, counts = fresh.encode_many_reference(some)
            assert mine.ids.tolist() == theirs.ids.tolist() == plain.tolist()
            assert mine.counts.tolist() == theirs.counts.tolist() == counts.tolist()
            assert mine.unknown_bytes.tolist() == theirs.unknown_bytes.tolist()
        made.clear_cache()
        assert made.encode_batch(taught).ids.tolist() == fresh.encode_batch(taught).ids.tolist()
