"""word2vec's model: what it learns and keeps, and texts that are too short, too long, or of one word."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from forebear.embeddings.word2vec import Subwords, Word2VecModel, huffman_tree
from forebear.errors import ForebearError, InputError

KINDS: list[dict[str, Any]] = [
    {"architecture": architecture, "output": output}
    for architecture in ("skipgram", "cbow")
    for output in ("negatives", "tree")
]
SPELLED = {"subwords": Subwords(buckets=50)}


def made(tokens: Sequence[int] | np.ndarray, vocabulary: int = 0, never: Sequence[int] = (), **given: Any):
    size = vocabulary or int(np.max(tokens)) + 1
    how = {"width": 8, "window": 3, "architecture": "skipgram", "output": "negatives", "sample": 0.0} | given
    model = Word2VecModel(vocabulary=size, never=never, words=[f"w{word}" for word in range(size)], **how)
    model.prepass(np.bincount(tokens, minlength=size))
    model.initialize(1)
    return model


def pairs_text(size: int = 4000, seed: int = 0) -> np.ndarray:
    """Words 0 to 9 come in runs, so do 10 to 19: those that keep the same company should end alike."""
    rng = np.random.default_rng(seed)
    return (rng.integers(0, 10, size) + 10 * (np.arange(size) // 20 % 2)).astype(np.int32)


def sweep(model: Word2VecModel, tokens: np.ndarray, times: int = 1, rate: float = 0.05, **how: Any) -> list[float]:
    lengths = np.array([len(tokens)])
    return [model.train_batch(tokens, lengths, rate=rate, moment=(5, step), **how) for step in range(times)]


@pytest.mark.parametrize("kind", [*KINDS, {"subwords": SPELLED["subwords"]}])
@pytest.mark.parametrize("deterministic", [False, True])
def test_words_that_keep_the_same_company_become_alike(kind: dict[str, Any], deterministic: bool):
    tokens = pairs_text()
    model = made(tokens, **kind)
    before, many = model.evaluate(tokens, np.array([len(tokens)]))
    losses = sweep(model, tokens, 20, deterministic=deterministic)
    after, same = model.evaluate(tokens, np.array([len(tokens)]))
    assert losses[-1] < losses[0]
    assert after < before
    assert many == same
    unit = model.matrix / np.linalg.norm(model.matrix, axis=1, keepdims=True)
    alike = unit @ unit.T
    assert alike[:10, :10].mean() > alike[:10, 10:].mean() + 0.3
    assert model.heads == ("around",)


@pytest.mark.parametrize("kind", KINDS)
def test_what_vectors_lose_that_know_nothing(kind: dict[str, Any]):
    tokens = pairs_text()
    model = made(tokens, **kind)
    loss, many = model.evaluate(tokens, np.array([len(tokens)]))  # against outputs that are all 0
    assert loss / many == pytest.approx(
        model.mean_outputs * np.log(2), rel=0.06
    )  # a drawn word that is the word itself is none


@pytest.mark.parametrize("kind", KINDS)
def test_examining_is_a_sum_over_whole_windows_in_double_precision(kind: dict[str, Any]):
    """By hand, for words told by a tree: negatives are drawn, but always the same."""
    tokens, lengths = np.array([2, 0, 1, 1, 3, 0, 4, 2], np.int32), np.array([5, 3])
    model = made(tokens, never=[4], window=2, **kind)
    sweep(model, tokens, 5)
    loss, many = model.evaluate(tokens, lengths)
    assert many == (14 + 2 if kind["architecture"] == "skipgram" else 5 + 2)
    assert model.evaluate(tokens, lengths) == (loss, many)
    other = made(tokens, never=[4], window=2, **kind)
    other.load(model.arrays())
    assert other.evaluate(tokens, lengths) == (loss, many)
    if kind["output"] == "tree":
        assert loss == pytest.approx(by_hand(model, [[2, 0, 1, 1, 3], [0, 2]], 2), rel=1e-12)


def test_skip_gram_predicts_the_words_around_from_the_word():
    """Each of two neighbours predicts the other: whichever is taken for the word, the sum is the same."""
    row, window = [2, 0, 1, 1, 3], 2
    model = made(row, window=window, output="tree")
    sweep(model, np.array(row, np.int32), 5)
    tree, total = model._variant.targets, 0.0
    inputs, outputs = (model.arrays()[name].astype(np.float64) for name in ("inputs", "outputs"))
    for here, word in enumerate(row):
        for around in row[max(0, here - window) : here] + row[here + 1 : here + 1 + window]:
            for step in range(tree.indptr[around], tree.indptr[around + 1]):
                sign = 1 - 2 * int(tree.turns[step])
                total += np.logaddexp(0, -sign * (inputs[word] @ outputs[tree.nodes[step]]))
    assert model.evaluate(np.array(row, np.int32), np.array([len(row)]))[0] == pytest.approx(total, rel=1e-12)


def by_hand(model: Word2VecModel, rows: list[list[int]], window: int) -> float:
    tree, total = model._variant.targets, 0.0
    inputs, outputs = (model.arrays()[name].astype(np.float64) for name in ("inputs", "outputs"))
    for row in rows:
        for here, word in enumerate(row):
            around = inputs[row[max(0, here - window) : here] + row[here + 1 : here + 1 + window]]
            around = around.mean(0, keepdims=True) if model.architecture == "cbow" else around
            for step in range(tree.indptr[word], tree.indptr[word + 1]):
                sign = 1 - 2 * int(tree.turns[step])
                total += np.logaddexp(0, -sign * (around @ outputs[tree.nodes[step]])).sum()
    return total


def test_the_hierarchical_softmax_of_a_trained_model_sums_to_one():
    """Over all words, after any word: each chance by the turns of its path, from the model's own tables."""
    tokens = pairs_text()
    model = made(tokens, output="tree")
    sweep(model, tokens, 5)
    inputs, outputs = (model.arrays()[name].astype(np.float64) for name in ("inputs", "outputs"))
    tree = huffman_tree(model.counts, model.allowed)
    for word in range(20):
        total = 0.0
        for other in range(20):
            steps = slice(tree.indptr[other], tree.indptr[other + 1])
            signs = 1 - 2 * tree.path_turns[steps].astype(int)
            total += float(np.prod(1 / (1 + np.exp(-signs * (outputs[tree.path_nodes[steps]] @ inputs[word])))))
        assert total == pytest.approx(1)


@pytest.mark.parametrize("kind", KINDS)
def test_one_thread_ends_alike_every_time_and_several_do_in_step(kind: dict[str, Any]):
    tokens = pairs_text(3000)
    ends = []
    for threads, deterministic in ((1, False), (1, False), (1, True), (2, True), (4, True)):
        model = made(tokens, **kind)
        losses = sweep(model, tokens, 2, threads=threads, deterministic=deterministic)
        ends.append((losses, {name: array.tobytes() for name, array in model.arrays().items()}))
    assert ends[0] == ends[1]
    assert ends[2] == ends[3] == ends[4]


def test_windows_never_cross_rows():
    """Alone in their rows, words have no others to learn from."""
    tokens = pairs_text(200)
    model = made(tokens)
    before = model.arrays()
    assert np.isnan(model.train_batch(tokens, np.ones(200, np.int64), rate=0.1, moment=(0, 0)))
    assert all(np.array_equal(before[name], array) for name, array in model.arrays().items())
    assert model.evaluate(tokens, np.ones(200, np.int64)) == (0.0, 0)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_never_looked_at_is_as_if_it_were_not_there(kind: dict[str, Any]):
    tokens = pairs_text(600)
    with_marks = np.insert(tokens, np.arange(0, 600, 7), 20).astype(np.int32)
    ends = []
    for text in (tokens, with_marks):
        model = made(text, vocabulary=21, never=[20], sample=0.05, **kind)
        assert np.isfinite(sweep(model, text, 3)).all()
        ends.append(model)
    one, other = ends
    assert np.array_equal(one.matrix, other.matrix)
    assert one.evaluate(tokens, np.array([600])) == other.evaluate(with_marks, np.array([len(with_marks)]))
    begun = made(with_marks, vocabulary=21, never=[20], sample=0.05, **kind)
    assert np.array_equal(other.matrix[20], begun.matrix[20])


@pytest.mark.parametrize("kind", [*KINDS, SPELLED])
def test_a_text_in_which_nothing_counts(kind: dict[str, Any]):
    model = made([0, 1, 0, 1], never=[0, 1], **kind)
    assert np.isnan(sweep(model, np.array([0, 1, 0, 1], np.int32))).all()
    assert model.evaluate(np.array([0, 1]), np.array([2])) == (0.0, 0)
    assert np.isnan(model.train_batch(np.zeros(0, np.int32), np.zeros(0, np.int64), rate=1, moment=(0, 0)))


@pytest.mark.parametrize("kind", [*KINDS, SPELLED])
@pytest.mark.parametrize("deterministic", [False, True])
def test_one_word_one_number(kind: dict[str, Any], deterministic: bool):
    """There is no other word to be drawn: it must end all the same."""
    tokens = np.zeros(50, np.int32)
    model = made(tokens, width=1, window=1, **kind)
    sweep(model, tokens, 3, deterministic=deterministic, threads=2)
    assert model.matrix.shape == (1, 1)
    assert np.isfinite(model.matrix).all()


def test_a_row_of_a_million_words_is_used_to_its_last():
    """The last two words stand nowhere else."""
    tokens = np.append(np.random.default_rng(0).integers(0, 50, 10**6 - 2), [50, 51]).astype(np.int32)
    for deterministic in (False, True):
        model = made(tokens, window=1)
        before = model.matrix.copy()
        model.train_batch(tokens, np.array([10**6]), rate=0.1, moment=(0, 0), deterministic=deterministic)
        moved = np.abs(model.matrix - before).sum(1)
        assert moved[51] > 0
        assert moved[50] > 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("deterministic", [False, True])
def test_a_rate_that_is_too_high_shows_in_the_loss(kind: dict[str, Any], deterministic: bool):
    tokens = pairs_text(2000)
    model = made(tokens, **kind)
    losses = sweep(model, tokens, 3, rate=1e30, deterministic=deterministic)
    assert not np.isfinite(losses[1:]).any()
    assert not np.isfinite(model.matrix).all()


def test_subwords_give_vectors_to_unknown_words():
    tokens = pairs_text()
    model = made(tokens, subwords=Subwords(3, 3, 5000))
    sweep(model, tokens, 3)
    inputs = model.arrays()["inputs"]
    assert inputs.shape == (20 + 5000, 8)
    indptr, rows = model.subwords.bucket_rows([f"w{word}" for word in range(20)])  # pyright: ignore
    assert rows[indptr[3] : indptr[4]].tolist() == model.subwords.bucket_rows(["w3"])[1].tolist()  # pyright: ignore
    own = np.concatenate(([inputs[3]], inputs[20 + rows[indptr[3] : indptr[4]]]))
    assert np.allclose(model.matrix[3], own.mean(0), atol=1e-6)
    unknown = model.compose_vector("w77")
    assert unknown is not None
    assert np.allclose(unknown, inputs[20 + model.subwords.bucket_rows(["w77"])[1]].mean(0), atol=1e-6)  # pyright: ignore
    assert model.compose_vector("") is None
    assert model.compose_vector("北京") is None  # no word that was seen has anything of it
    assert made(tokens).compose_vector("w77") is None
    with pytest.raises(ForebearError, match="words of all 20"):
        Word2VecModel(vocabulary=20, never=[], width=2, window=2, architecture="cbow", output="tree", **SPELLED)


def test_words_that_share_letters_share_vectors():
    words = ["walk", "walks", "walked", "tree", "trees", "blue", "red", "sky", "sea"]
    tokens = np.array([0, 1, 2, 0, 3, 4, 5, 6, 7, 8, 1, 0, 2] * 20, np.int32)
    how: dict[str, Any] = {"width": 12, "window": 3, "architecture": "skipgram", "output": "negatives"}
    model = Word2VecModel(vocabulary=9, never=[], subwords=Subwords(buckets=5000), words=words, **how)
    model.prepass(np.bincount(tokens))
    model.initialize(0)
    sweep(model, tokens, 5, rate=0.1)
    composed = model.compose_vector("walking")
    assert composed is not None
    near, far = (composed @ model.matrix[word] / np.linalg.norm(model.matrix[word]) for word in (0, 7))
    assert near > far


def test_its_state_is_refused_by_name_where_it_does_not_fit():
    tokens = pairs_text(500)
    model = made(tokens)
    sweep(model, tokens)
    state = model.arrays()
    assert {name: array.shape for name, array in state.items()} == {
        "inputs": (20, 8), "outputs": (20, 8), "counts": (20,)
    }  # fmt: skip
    again = made(tokens, vocabulary=20)
    again.load(state)
    assert sweep(again, tokens, 2) == sweep(model, tokens, 2)
    for odd, named in (
        ({"inputs": state["inputs"]}, "lacks .*counts.*outputs"),
        (state | {"more": state["counts"]}, "should not.*more"),
        (state | {"outputs": state["outputs"][:, :7]}, "'outputs' .*20, 7"),
        (state | {"inputs": state["inputs"].astype(np.float64)}, "'inputs' .*float64"),
        (state | {"counts": state["counts"][:19]}, "'counts' .*19"),
    ):
        before = model.arrays()
        with pytest.raises(ForebearError, match=named):
            model.load(odd)
        assert all(np.array_equal(before[name], array) for name, array in model.arrays().items())


@pytest.mark.parametrize(
    "odd", [{"architecture": "glove"}, {"output": "softmax"}, {"width": 0}, {"window": 0}, {"negatives": 0}]
)
def test_what_is_no_word2vec(odd: dict[str, Any]):
    with pytest.raises(InputError, match=str(next(iter(odd.values())))):
        made([0, 1], **odd)


def test_ids_that_are_not_in_the_vocabulary():
    model = made(pairs_text(100))
    for tokens in ([0, 20], [-1, 3]):
        with pytest.raises(InputError, match="outside 0 to 19"):
            sweep(model, np.array(tokens, np.int32))
    with pytest.raises(ForebearError, match="rows of 3 ids"):
        model.train_batch(np.array([1, 2], np.int32), np.array([3]), rate=0.1, moment=(0, 0))
    with pytest.raises(ForebearError, match="counts of shape"):
        model.prepass(np.zeros(3, np.int64))


def test_what_it_tells_of_itself():
    model = made(pairs_text(100), **SPELLED)
    assert model.num_parameters == 8 * (70 + 20)
    told = model.describe()
    assert told["subwords"]["buckets"] == 50
    assert told["tokens"] == 100
    assert made(pairs_text(100), output="tree").describe()["negatives"] is None
