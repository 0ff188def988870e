"""The word2vec model: losses against worked examples, training, determinism, saved arrays, degenerate texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from forebear.embeddings.word2vec import Subwords, Word2VecModel, huffman_tree
from forebear.errors import ForebearError, InputError

VARIANTS: list[dict[str, Any]] = [
    {"architecture": architecture, "output": output}
    for architecture in ("skipgram", "cbow")
    for output in ("negatives", "tree")
]
WITH_SUBWORDS = {"subwords": Subwords(buckets=50)}


def initialized_model(
    tokens: Sequence[int] | np.ndarray, vocab_size: int = 0, excluded_ids: Sequence[int] = (), **changes: Any
):
    size = vocab_size or int(np.max(tokens)) + 1
    settings = {"width": 8, "window": 3, "architecture": "skipgram", "output": "negatives", "sample": 0.0} | changes
    model = Word2VecModel(
        vocab_size=size, excluded_ids=excluded_ids, words=[f"w{word}" for word in range(size)], **settings
    )
    model.set_token_counts(np.bincount(tokens, minlength=size))
    model.initialize(1)
    return model


def two_group_text(size: int = 4000, seed: int = 0) -> np.ndarray:
    """Words 0 to 9 share contexts, so do 10 to 19: their vectors should become similar."""
    rng = np.random.default_rng(seed)
    return (rng.integers(0, 10, size) + 10 * (np.arange(size) // 20 % 2)).astype(np.int32)


def train(model: Word2VecModel, tokens: np.ndarray, times: int = 1, rate: float = 0.05, **options: Any) -> list[float]:
    lengths = np.array([len(tokens)])
    return [model.train_batch(tokens, lengths, rate=rate, rng_key=(5, step), **options) for step in range(times)]


@pytest.mark.parametrize("kind", [*VARIANTS, {"subwords": WITH_SUBWORDS["subwords"]}])
@pytest.mark.parametrize("deterministic", [False, True])
def test_words_with_shared_contexts_get_similar_vectors(kind: dict[str, Any], deterministic: bool):
    tokens = two_group_text()
    model = initialized_model(tokens, **kind)
    before, pairs_before = model.evaluate(tokens, np.array([len(tokens)]))
    losses = train(model, tokens, 20, deterministic=deterministic)
    after, pairs_after = model.evaluate(tokens, np.array([len(tokens)]))
    assert losses[-1] < losses[0]
    assert after < before
    assert pairs_before == pairs_after
    unit = model.matrix / np.linalg.norm(model.matrix, axis=1, keepdims=True)
    cosines = unit @ unit.T
    assert cosines[:10, :10].mean() > cosines[:10, 10:].mean() + 0.3
    assert model.heads == ("around",)


@pytest.mark.parametrize("kind", VARIANTS)
def test_untrained_model_has_the_loss_of_zero_logits(kind: dict[str, Any]):
    tokens = two_group_text()
    model = initialized_model(tokens, **kind)
    loss, num_pairs = model.evaluate(tokens, np.array([len(tokens)]))  # output vectors are all 0
    # A negative sample equal to the target is skipped
    assert loss / num_pairs == pytest.approx(model.mean_outputs * np.log(2), rel=0.06)


@pytest.mark.parametrize("kind", VARIANTS)
def test_evaluation_sums_over_full_windows_in_double_precision(kind: dict[str, Any]):
    """Evaluation is repeatable; with hierarchical softmax it equals the reference loss."""
    tokens, lengths = np.array([2, 0, 1, 1, 3, 0, 4, 2], np.int32), np.array([5, 3])
    model = initialized_model(tokens, excluded_ids=[4], window=2, **kind)
    train(model, tokens, 5)
    loss, num_pairs = model.evaluate(tokens, lengths)
    assert num_pairs == (14 + 2 if kind["architecture"] == "skipgram" else 5 + 2)
    assert model.evaluate(tokens, lengths) == (loss, num_pairs)
    loaded = initialized_model(tokens, excluded_ids=[4], window=2, **kind)
    loaded.load(model.arrays())
    assert loaded.evaluate(tokens, lengths) == (loss, num_pairs)
    if kind["output"] == "tree":
        assert loss == pytest.approx(hierarchical_softmax_loss(model, [[2, 0, 1, 1, 3], [0, 2]], 2), rel=1e-12)


def test_skipgram_loss_equals_sum_over_center_and_context_pairs():
    """Each word predicts its context words; summed over all pairs, the direction does not matter."""
    row, window = [2, 0, 1, 1, 3], 2
    model = initialized_model(row, window=window, output="tree")
    train(model, np.array(row, np.int32), 5)
    tree, total = model._variant.targets, 0.0
    inputs, outputs = (model.arrays()[name].astype(np.float64) for name in ("inputs", "outputs"))
    for center, word in enumerate(row):
        for context in row[max(0, center - window) : center] + row[center + 1 : center + 1 + window]:
            for step in range(tree.indptr[context], tree.indptr[context + 1]):
                sign = 1 - 2 * int(tree.codes[step])
                total += np.logaddexp(0, -sign * (inputs[word] @ outputs[tree.nodes[step]]))
    assert model.evaluate(np.array(row, np.int32), np.array([len(row)]))[0] == pytest.approx(total, rel=1e-12)


def hierarchical_softmax_loss(model: Word2VecModel, rows: list[list[int]], window: int) -> float:
    tree, total = model._variant.targets, 0.0
    inputs, outputs = (model.arrays()[name].astype(np.float64) for name in ("inputs", "outputs"))
    for row in rows:
        for center, word in enumerate(row):
            context = inputs[row[max(0, center - window) : center] + row[center + 1 : center + 1 + window]]
            context = context.mean(0, keepdims=True) if model.architecture == "cbow" else context
            for step in range(tree.indptr[word], tree.indptr[word + 1]):
                sign = 1 - 2 * int(tree.codes[step])
                total += np.logaddexp(0, -sign * (context @ outputs[tree.nodes[step]])).sum()
    return total


def test_hierarchical_softmax_of_trained_model_sums_to_one():
    """The probability of each word is the product along its path, from the matrices of the model."""
    tokens = two_group_text()
    model = initialized_model(tokens, output="tree")
    train(model, tokens, 5)
    inputs, outputs = (model.arrays()[name].astype(np.float64) for name in ("inputs", "outputs"))
    tree = huffman_tree(model.counts, model.allowed)
    for word in range(20):
        total = 0.0
        for other in range(20):
            steps = slice(tree.indptr[other], tree.indptr[other + 1])
            signs = 1 - 2 * tree.path_codes[steps].astype(int)
            total += float(np.prod(1 / (1 + np.exp(-signs * (outputs[tree.path_nodes[steps]] @ inputs[word])))))
        assert total == pytest.approx(1)


@pytest.mark.parametrize("kind", VARIANTS)
def test_training_is_repeatable_with_one_thread_and_with_several_if_deterministic(kind: dict[str, Any]):
    tokens = two_group_text(3000)
    results = []
    for threads, deterministic in ((1, False), (1, False), (1, True), (2, True), (4, True)):
        model = initialized_model(tokens, **kind)
        losses = train(model, tokens, 2, threads=threads, deterministic=deterministic)
        results.append((losses, {name: array.tobytes() for name, array in model.arrays().items()}))
    assert results[0] == results[1]
    assert results[2] == results[3] == results[4]


def test_context_windows_never_cross_rows():
    """Rows of one word have no context, so nothing is trained."""
    tokens = two_group_text(200)
    model = initialized_model(tokens)
    before = model.arrays()
    assert np.isnan(model.train_batch(tokens, np.ones(200, np.int64), rate=0.1, rng_key=(0, 0)))
    assert all(np.array_equal(before[name], array) for name, array in model.arrays().items())
    assert model.evaluate(tokens, np.ones(200, np.int64)) == (0.0, 0)


@pytest.mark.parametrize("kind", VARIANTS)
def test_excluded_tokens_have_no_effect_on_training(kind: dict[str, Any]):
    tokens = two_group_text(600)
    with_special = np.insert(tokens, np.arange(0, 600, 7), 20).astype(np.int32)
    models = []
    for text in (tokens, with_special):
        model = initialized_model(text, vocab_size=21, excluded_ids=[20], sample=0.05, **kind)
        assert np.isfinite(train(model, text, 3)).all()
        models.append(model)
    plain, special = models
    assert np.array_equal(plain.matrix, special.matrix)
    assert plain.evaluate(tokens, np.array([600])) == special.evaluate(with_special, np.array([len(with_special)]))
    untrained = initialized_model(with_special, vocab_size=21, excluded_ids=[20], sample=0.05, **kind)
    assert np.array_equal(special.matrix[20], untrained.matrix[20])


@pytest.mark.parametrize("kind", [*VARIANTS, WITH_SUBWORDS])
def test_text_of_excluded_tokens_only_has_nan_loss(kind: dict[str, Any]):
    model = initialized_model([0, 1, 0, 1], excluded_ids=[0, 1], **kind)
    assert np.isnan(train(model, np.array([0, 1, 0, 1], np.int32))).all()
    assert model.evaluate(np.array([0, 1]), np.array([2])) == (0.0, 0)
    assert np.isnan(model.train_batch(np.zeros(0, np.int32), np.zeros(0, np.int64), rate=1, rng_key=(0, 0)))


@pytest.mark.parametrize("kind", [*VARIANTS, WITH_SUBWORDS])
@pytest.mark.parametrize("deterministic", [False, True])
def test_one_word_vocabulary_with_width_one_trains_to_finite_vectors(kind: dict[str, Any], deterministic: bool):
    """No negative sample is possible, and training must still end."""
    tokens = np.zeros(50, np.int32)
    model = initialized_model(tokens, width=1, window=1, **kind)
    train(model, tokens, 3, deterministic=deterministic, threads=2)
    assert model.matrix.shape == (1, 1)
    assert np.isfinite(model.matrix).all()


def test_training_reaches_the_last_word_of_a_million_word_row():
    """The last two words occur only there."""
    tokens = np.append(np.random.default_rng(0).integers(0, 50, 10**6 - 2), [50, 51]).astype(np.int32)
    for deterministic in (False, True):
        model = initialized_model(tokens, window=1)
        before = model.matrix.copy()
        model.train_batch(tokens, np.array([10**6]), rate=0.1, rng_key=(0, 0), deterministic=deterministic)
        change = np.abs(model.matrix - before).sum(1)
        assert change[51] > 0
        assert change[50] > 0


@pytest.mark.parametrize("kind", VARIANTS)
@pytest.mark.parametrize("deterministic", [False, True])
def test_too_high_learning_rate_makes_the_loss_non_finite(kind: dict[str, Any], deterministic: bool):
    tokens = two_group_text(2000)
    model = initialized_model(tokens, **kind)
    losses = train(model, tokens, 3, rate=1e30, deterministic=deterministic)
    assert not np.isfinite(losses[1:]).any()
    assert not np.isfinite(model.matrix).all()


def test_subwords_compose_vectors_of_unknown_words():
    tokens = two_group_text()
    model = initialized_model(tokens, subwords=Subwords(3, 3, 5000))
    train(model, tokens, 3)
    inputs = model.arrays()["inputs"]
    assert inputs.shape == (20 + 5000, 8)
    indptr, rows = model.subwords.bucket_rows([f"w{word}" for word in range(20)])  # pyright: ignore
    assert rows[indptr[3] : indptr[4]].tolist() == model.subwords.bucket_rows(["w3"])[1].tolist()  # pyright: ignore
    rows_of_word = np.concatenate(([inputs[3]], inputs[20 + rows[indptr[3] : indptr[4]]]))
    assert np.allclose(model.matrix[3], rows_of_word.mean(0), atol=1e-6)
    unknown = model.compose_vector("w77")
    assert unknown is not None
    assert np.allclose(unknown, inputs[20 + model.subwords.bucket_rows(["w77"])[1]].mean(0), atol=1e-6)  # pyright: ignore
    assert model.compose_vector("") is None
    assert model.compose_vector("北京") is None  # shares no n-gram with a training word
    assert initialized_model(tokens).compose_vector("w77") is None
    with pytest.raises(ForebearError, match="words of all 20"):
        Word2VecModel(
            vocab_size=20, excluded_ids=[], width=2, window=2, architecture="cbow", output="tree", **WITH_SUBWORDS
        )


def test_composed_vector_is_closest_to_words_with_shared_ngrams():
    words = ["walk", "walks", "walked", "tree", "trees", "blue", "red", "sky", "sea"]
    tokens = np.array([0, 1, 2, 0, 3, 4, 5, 6, 7, 8, 1, 0, 2] * 20, np.int32)
    settings: dict[str, Any] = {"width": 12, "window": 3, "architecture": "skipgram", "output": "negatives"}
    model = Word2VecModel(vocab_size=9, excluded_ids=[], subwords=Subwords(buckets=5000), words=words, **settings)
    model.set_token_counts(np.bincount(tokens))
    model.initialize(0)
    train(model, tokens, 5, rate=0.1)
    composed = model.compose_vector("walking")
    assert composed is not None
    walk, red = (composed @ model.matrix[word] / np.linalg.norm(model.matrix[word]) for word in (0, 7))
    assert walk > red


def test_word2vec_load_refuses_mismatched_arrays_by_name():
    tokens = two_group_text(500)
    model = initialized_model(tokens)
    train(model, tokens)
    saved = model.arrays()
    assert {name: array.shape for name, array in saved.items()} == {
        "inputs": (20, 8), "outputs": (20, 8), "counts": (20,)
    }  # fmt: skip
    loaded = initialized_model(tokens, vocab_size=20)
    loaded.load(saved)
    assert train(loaded, tokens, 2) == train(model, tokens, 2)
    for arrays, message in (
        ({"inputs": saved["inputs"]}, "lacks .*counts.*outputs"),
        (saved | {"more": saved["counts"]}, "should not.*more"),
        (saved | {"outputs": saved["outputs"][:, :7]}, "'outputs' .*20, 7"),
        (saved | {"inputs": saved["inputs"].astype(np.float64)}, "'inputs' .*float64"),
        (saved | {"counts": saved["counts"][:19]}, "'counts' .*19"),
    ):
        before = model.arrays()
        with pytest.raises(ForebearError, match=message):
            model.load(arrays)
        assert all(np.array_equal(before[name], array) for name, array in model.arrays().items())


@pytest.mark.parametrize(
    "settings", [{"architecture": "glove"}, {"output": "softmax"}, {"width": 0}, {"window": 0}, {"negatives": 0}]
)
def test_word2vec_refuses_invalid_settings(settings: dict[str, Any]):
    with pytest.raises(InputError, match=str(next(iter(settings.values())))):
        initialized_model([0, 1], **settings)


def test_word2vec_refuses_ids_outside_the_vocabulary_and_bad_lengths():
    model = initialized_model(two_group_text(100))
    for tokens in ([0, 20], [-1, 3]):
        with pytest.raises(InputError, match="outside 0 to 19"):
            train(model, np.array(tokens, np.int32))
    with pytest.raises(ForebearError, match="rows of 3 ids"):
        model.train_batch(np.array([1, 2], np.int32), np.array([3]), rate=0.1, rng_key=(0, 0))
    with pytest.raises(ForebearError, match="counts of shape"):
        model.set_token_counts(np.zeros(3, np.int64))


def test_word2vec_description_lists_parameters_subwords_and_tokens():
    model = initialized_model(two_group_text(100), **WITH_SUBWORDS)
    assert model.num_parameters == 8 * (70 + 20)
    description = model.describe()
    assert description["subwords"]["buckets"] == 50
    assert description["tokens"] == 100
    assert initialized_model(two_group_text(100), output="tree").describe()["negatives"] is None
