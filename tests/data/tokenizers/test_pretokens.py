"""Pretokens are numbered alike by a dictionary and by a compiled loop, for any text."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forebear.data.tokenizers import build_vocabulary, pretokens
from forebear.data.tokenizers.pretokens import CLASS_GAP, CLASS_RUN, CLASS_SINGLE, PretokenIndex
from forebear.data.unicode import code_points, replace_surrogates
from forebear.kernels import pretoken_table as loops
from hostile_texts import hostile_strings

CLASSES = np.full(0x110000, CLASS_RUN, np.int8)
CLASSES[[ord(c) for c in " \t"]] = CLASS_GAP
CLASSES[[ord(c) for c in ".,，。"]] = CLASS_SINGLE


def lookup(index: PretokenIndex, text: str, cuts: list[int] | None = None) -> list[tuple[int, str]]:
    """The start and the text of each pretoken."""
    codes = code_points(text + " ")
    starts, numbers, new_pretokens = index.look_up(codes, np.array([len(text)]), np.array(cuts or [], np.int64))
    assert not new_pretokens or index.texts()[-len(new_pretokens) :] == new_pretokens
    names = index.texts()
    assert len(set(names)) == len(names) == len(index)
    return [(start, names[number]) for start, number in zip(starts.tolist(), numbers.tolist(), strict=True)]


@pytest.fixture(params=["by names", "by loops"])
def index(request, monkeypatch) -> PretokenIndex:
    monkeypatch.setattr(pretokens, "worth_compiling", lambda _: request.param == "by loops")
    return PretokenIndex(CLASSES)


def test_pretokens_match_a_worked_example(index):
    assert lookup(index, "the cat, the 猫。the") == [
        (0, "the"), (4, "cat"), (7, ","), (9, "the"), (13, "猫"), (14, "。"), (15, "the")
    ]  # fmt: skip
    assert sorted(index.texts()) == sorted(["the", "cat", ",", "猫", "。"])
    assert lookup(index, "", []) == []
    assert lookup(index, "abab", [2]) == [(0, "ab"), (2, "ab")]
    assert lookup(index, "ab.ab", [0, 2, 3, 5]) == [(0, "ab"), (2, "."), (3, "ab")]
    assert index.characters == sum(map(len, index.texts()))


def test_boundaries_split_pretokens(index):
    is_boundary = np.array([False, False, True, False, False])
    starts, numbers, new_pretokens = index.look_up(code_points("abab "), np.array([4]), is_boundary=is_boundary)
    assert (starts.tolist(), numbers.tolist(), new_pretokens) == ([0, 2], [0, 0], ["ab"])


@settings(max_examples=200, deadline=None)
@given(texts=st.lists(hostile_strings(), min_size=1, max_size=5), seed=st.integers(0, 99))
def test_compiled_and_dictionary_lookup_of_pretokens_agree(texts, seed):
    rng = np.random.default_rng(seed)
    with pytest.MonkeyPatch.context() as patch:
        indexes = [PretokenIndex(CLASSES), PretokenIndex(CLASSES), PretokenIndex(CLASSES)]
        for number, text in enumerate(texts):
            cuts = np.flatnonzero(rng.random(len(text)) < 0.1).tolist()
            lookups = []
            for index, compile_from in zip(
                indexes, (99, 0, len(texts) // 2), strict=True
            ):  # never compiled, always, from there on
                patch.setattr(pretokens, "worth_compiling", lambda _, on=number >= compile_from: on)
                lookups.append(lookup(index, text, cuts))
            assert lookups[0] == lookups[1] == lookups[2]
    assert sorted(indexes[0].texts()) == sorted(indexes[1].texts()) == sorted(indexes[2].texts())


def test_compiled_table_grows_without_losing_pretokens(monkeypatch):
    monkeypatch.setattr(pretokens, "worth_compiling", lambda _: True)
    monkeypatch.setattr(loops, "INITIAL_CAPACITY", 4)
    monkeypatch.setattr(loops.empty_pretoken_table, "__defaults__", (4, 8, np.uint32))
    index = PretokenIndex(CLASSES)
    words = [f"w{number}" for number in range(3000)]
    text = " ".join([*words, "x" * 5000, *words])
    assert [name for _, name in lookup(index, text)] == text.split(" ")
    assert len(index) == 3001


@pytest.mark.parametrize("loaded", [False, True])
def test_lookup_is_compiled_only_for_much_text(monkeypatch, loaded):
    monkeypatch.setattr(pretokens.sys, "modules", {"numba": None} if loaded else {})
    limit = pretokens.COMPILE_AFTER_IF_LOADED if loaded else pretokens.COMPILE_AFTER
    assert not pretokens.worth_compiling(limit)
    assert pretokens.worth_compiling(limit + 1)


@settings(max_examples=100, deadline=None)
@given(texts=st.lists(hostile_strings(), max_size=6), compiled_from=st.integers(0, 40))
def test_piece_counts_equal_plain_counting(texts, compiled_from):
    sound_texts = [replace_surrogates(text) for text in texts]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build_vocabulary, "MAX_PRETOKENS", 3)
        patch.setattr(build_vocabulary, "BLOCK_CHARACTERS", 5)
        for module in (pretokens, build_vocabulary):
            patch.setattr(module, "worth_compiling", lambda seen: seen > compiled_from)
        counts = build_vocabulary.count_pieces(sound_texts, str.split)
    assert counts == Counter(
        piece for text in sound_texts for pretoken in text.split(" ") for piece in pretoken.split()
    )
