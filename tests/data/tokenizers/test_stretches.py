"""Stretches of text are numbered alike by a dictionary and by a compiled loop, whatever the text."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forebear.data.tokenizers import pretokens, vocabulary
from forebear.data.tokenizers.pretokens import CLASS_GAP, CLASS_RUN, CLASS_SINGLE, PretokenIndex
from forebear.data.unicode import code_points, replace_surrogates
from forebear.kernels import pretokens as loops
from nasty import strings

CLASSES = np.full(0x110000, CLASS_RUN, np.int8)
CLASSES[[ord(c) for c in " \t"]] = CLASS_GAP
CLASSES[[ord(c) for c in ".,，。"]] = CLASS_SINGLE


def looked_up(known: PretokenIndex, text: str, cuts: list[int] | None = None) -> list[tuple[int, str]]:
    """Where each stretch begins, and what it is."""
    codes = code_points(text + " ")
    begins, numbers, fresh = known.look_up(codes, np.array([len(text)]), np.array(cuts or [], np.int64))
    assert not fresh or known.texts()[-len(fresh) :] == fresh
    names = known.texts()
    assert len(set(names)) == len(names) == len(known)
    return [(begin, names[number]) for begin, number in zip(begins.tolist(), numbers.tolist(), strict=True)]


@pytest.fixture(params=["by names", "by loops"])
def known(request, monkeypatch) -> PretokenIndex:
    monkeypatch.setattr(pretokens, "worth_compiling", lambda _: request.param == "by loops")
    return PretokenIndex(CLASSES)


def test_stretches_by_hand(known):
    assert looked_up(known, "the cat, the 猫。the") == [
        (0, "the"), (4, "cat"), (7, ","), (9, "the"), (13, "猫"), (14, "。"), (15, "the")
    ]  # fmt: skip
    assert sorted(known.texts()) == sorted(["the", "cat", ",", "猫", "。"])
    assert looked_up(known, "", []) == []
    assert looked_up(known, "abab", [2]) == [(0, "ab"), (2, "ab")]
    assert looked_up(known, "ab.ab", [0, 2, 3, 5]) == [(0, "ab"), (2, "."), (3, "ab")]
    assert known.characters == sum(map(len, known.texts()))


def test_places_cut_as_well(known):
    places = np.array([False, False, True, False, False])
    begins, numbers, fresh = known.look_up(code_points("abab "), np.array([4]), is_boundary=places)
    assert (begins.tolist(), numbers.tolist(), fresh) == ([0, 2], [0, 0], ["ab"])


@settings(max_examples=200, deadline=None)
@given(texts=st.lists(strings(), min_size=1, max_size=5), seed=st.integers(0, 99))
def test_both_ways_are_one(texts, seed):
    rng = np.random.default_rng(seed)
    with pytest.MonkeyPatch.context() as patch:
        ways = [PretokenIndex(CLASSES), PretokenIndex(CLASSES), PretokenIndex(CLASSES)]
        for number, text in enumerate(texts):
            cuts = np.flatnonzero(rng.random(len(text)) < 0.1).tolist()
            found = []
            for way, first in zip(ways, (99, 0, len(texts) // 2), strict=True):  # never compiled, always, from there on
                patch.setattr(pretokens, "worth_compiling", lambda _, on=number >= first: on)
                found.append(looked_up(way, text, cuts))
            assert found[0] == found[1] == found[2]
    assert sorted(ways[0].texts()) == sorted(ways[1].texts()) == sorted(ways[2].texts())


def test_tables_grow_and_lose_nothing(monkeypatch):
    monkeypatch.setattr(pretokens, "worth_compiling", lambda _: True)
    monkeypatch.setattr(loops, "INITIAL_CAPACITY", 4)
    monkeypatch.setattr(loops.empty_pretoken_table, "__defaults__", (4, 8, np.uint32))
    known = PretokenIndex(CLASSES)
    words = [f"w{number}" for number in range(3000)]
    text = " ".join([*words, "x" * 5000, *words])
    assert [name for _, name in looked_up(known, text)] == text.split(" ")
    assert len(known) == 3001


@pytest.mark.parametrize("loaded", [False, True])
def test_much_text_is_worth_compiling(monkeypatch, loaded):
    monkeypatch.setattr(pretokens.sys, "modules", {"numba": None} if loaded else {})
    border = pretokens.COMPILE_AFTER_IF_LOADED if loaded else pretokens.COMPILE_AFTER
    assert not pretokens.worth_compiling(border)
    assert pretokens.worth_compiling(border + 1)


@settings(max_examples=100, deadline=None)
@given(texts=st.lists(strings(), max_size=6), compiled_from=st.integers(0, 40))
def test_pieces_are_counted_alike(texts, compiled_from):
    sound_texts = [replace_surrogates(text) for text in texts]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vocabulary, "MAX_PRETOKENS", 3)
        patch.setattr(vocabulary, "BLOCK_CHARACTERS", 5)
        for module in (pretokens, vocabulary):
            patch.setattr(module, "worth_compiling", lambda seen: seen > compiled_from)
        found = vocabulary.count_pieces(sound_texts, str.split)
    assert found == Counter(piece for text in sound_texts for stretch in text.split(" ") for piece in stretch.split())
