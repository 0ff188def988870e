"""word2vec's model: a tree that is a probability, words drawn as often as they should, subwords, a strict state."""

from __future__ import annotations

import heapq

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forebear.errors import BadInput, ForebearError
from forebear.kernels.drawing import stream_of_words, thinning
from forebear.vectors.huffman import huffman
from forebear.vectors.subwords import Subwords, hashed
from forebear.vectors.word2vec import Word2vecModel

COUNTS = np.array([0, 50, 30, 20, 10, 5, 5, 3, 2, 1], np.int64)
ROW = np.array([1, 2, 3, 1, 4, 5, 6, 0, 7, 8, 9, 2, 1, 3] * 20, np.int32)


def model(**changes) -> Word2vecModel:
    given = {
        "vocabulary": 10,
        "never": [0],
        "width": 12,
        "window": 3,
        "architecture": "skipgram",
        "output": "negatives",
    }
    made = Word2vecModel(**given | changes)
    made.meet(COUNTS)
    made.begin(0)
    return made


def taught(made: Word2vecModel, steps: int = 30, **how) -> Word2vecModel:
    for step in range(steps):
        made.sweep(ROW, np.array([len(ROW)]), rate=0.1, moment=(0, step), **how)
    return made


@settings(deadline=None)
@given(st.lists(st.integers(0, 50), min_size=1, max_size=30))
def test_a_tree_is_a_probability_and_as_short_as_can_be(counts: list[int]):
    allowed = np.ones(len(counts), bool)
    tree = huffman(np.array(counts, np.int64), allowed)
    lengths = np.diff(tree.indptr)
    rng = np.random.default_rng(0)
    right = rng.random(max(1, len(counts)))  # of each inner node, the chance of turning right
    chances = [
        np.prod([right[n] if turn else 1 - right[n] for n, turn in zip(tree.nodes[a:b], tree.turns[a:b], strict=True)])
        for a, b in zip(tree.indptr[:-1], tree.indptr[1:], strict=True)
    ]
    assert sum(chances) == pytest.approx(1)
    heap = sorted(max(1, count) for count in counts)
    cost = 0
    while len(heap) > 1:
        joined = heapq.heappop(heap) + heapq.heappop(heap)
        cost += joined
        heapq.heappush(heap, joined)
    assert int((lengths * np.maximum(counts, 1)).sum()) == cost


def test_the_hierarchical_softmax_of_a_trained_model_sums_to_one():
    """Over all words, after any word: each chance by the turns of its path, from the model's own tables."""
    made = taught(model(output="tree", sample=0.0))
    arrays, tree = made.arrays(), huffman(COUNTS, made.allowed)
    for word in range(1, 10):
        total = 0.0
        for other in range(1, 10):
            steps = slice(tree.indptr[other], tree.indptr[other + 1])
            scores = arrays["outputs"][tree.nodes[steps]].astype(np.float64) @ arrays["inputs"][word]
            signs = 1 - 2 * tree.turns[steps].astype(int)
            total += float(np.prod(1 / (1 + np.exp(-signs * scores))))
        assert total == pytest.approx(1)


def test_words_are_drawn_by_the_power_of_their_counts():
    stream = stream_of_words(COUNTS, 0.75, COUNTS > 0, 1 << 16)
    shares = np.bincount(stream, minlength=10) / len(stream)
    expected = COUNTS**0.75 / (COUNTS**0.75).sum()
    assert shares == pytest.approx(expected, abs=1e-4)


def test_frequent_words_are_thinned_out_as_in_the_paper_s_program():
    kept = thinning(COUNTS, 0.01, np.arange(10) > 0) / 2**32
    total = COUNTS.sum()
    expected = [(np.sqrt(count / (0.01 * total)) + 1) * 0.01 * total / count for count in COUNTS[1:].tolist()]
    assert kept[1:] == pytest.approx(np.minimum(expected, 1))
    assert kept[0] == 0


@pytest.mark.parametrize("architecture", ["skipgram", "cbow"])
@pytest.mark.parametrize("output", ["negatives", "tree"])
def test_it_learns_and_never_touches_what_is_no_word(architecture: str, output: str):
    fresh, made = (model(architecture=architecture, output=output, sample=0.0) for _ in range(2))
    taught(made)
    loss, count = made.examine(ROW, np.array([len(ROW)]))
    assert loss / count < 0.9 * fresh.examine(ROW, np.array([len(ROW)]))[0] / count
    assert np.array_equal(made.matrix[0], fresh.matrix[0])
    assert made.examine(ROW, np.array([len(ROW)])) == (loss, count)


def test_what_is_no_word_takes_up_no_distance():
    with_holes = np.array([1, 0, 0, 0, 0, 2, 0, 0, 0, 3], np.int32)
    without = np.array([1, 2, 3], np.int32)
    one, other = model(window=1, sample=0.0), model(window=1, sample=0.0)
    assert one.examine(with_holes, np.array([10])) == other.examine(without, np.array([3]))


def test_no_pair_crosses_a_row():
    made = model(sample=0.0)
    assert made.examine(np.array([1, 2, 3], np.int32), np.array([1, 1, 1])) == (0.0, 0)
    assert np.isnan(made.sweep(np.array([1, 2, 3], np.int32), np.array([1, 1, 1]), rate=0.1, moment=(0, 0)))


def test_a_state_there_and_back():
    made = taught(model())
    other = model()
    other.load(made.arrays())
    assert np.array_equal(other.matrix, made.matrix)
    for name in made.arrays():
        with pytest.raises(ForebearError, match=name):
            other.load({key: array for key, array in made.arrays().items() if key != name})
        with pytest.raises(ForebearError, match=name):
            other.load({key: array[1:] if key == name else array for key, array in made.arrays().items()})
    with pytest.raises(ForebearError, match="more"):
        other.load(made.arrays() | {"more": np.zeros(1)})


def test_ids_that_are_none_are_refused():
    with pytest.raises(BadInput, match="ids outside 0 to 9"):
        model().sweep(np.array([1, 10], np.int32), np.array([2]), rate=0.1, moment=(0, 0))


def test_subwords_are_those_of_fasttext():
    assert hashed("") == 2166136261
    assert hashed("a") == 0xE40C292C  # FNV-1a's own test value
    own = Subwords()
    assert own.ngrams("cat") == ["<ca", "<cat", "<cat>", "cat", "cat>", "at>"]
    assert {"北", "京", "北京", "<北京"} <= set(own.ngrams("北京"))
    words = [f"word{number}" for number in range(2500)] + ["北京", "naïve"]
    for many, few in zip(own.rows(words), own.plain_rows(words), strict=True):
        assert np.array_equal(many, few)


def test_words_that_share_letters_share_vectors():
    words = ["[UNK]", "walk", "walks", "walked", "tree", "trees", "blue", "red", "sky", "sea"]
    made = taught(model(subwords=Subwords(buckets=5000), words=words), 5)
    composed = made.composed("walking")
    assert composed is not None

    def cosine(one: np.ndarray, other: np.ndarray) -> float:
        return float(one @ other / np.linalg.norm(one) / np.linalg.norm(other))

    assert cosine(composed, made.matrix[1]) > cosine(composed, made.matrix[8])
    assert model().composed("walking") is None
