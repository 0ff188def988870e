"""The linear model finds scikit-learn's optimum on the same features, for every kind of target."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from random_texts import VOCABULARY, Arrays, random_texts, token_weight_sums

from forebear.data.tokenizers.train import train_tokenizer
from forebear.statistical.feature_matrix import FeatureMatrix
from forebear.statistical.linear import LinearModel

linear_models = pytest.importorskip("sklearn.linear_model", reason="scikit-learn is not installed")


def dense_features(model: LinearModel, inputs: Arrays, positions: np.ndarray | None = None) -> np.ndarray:
    """The model's features as a dense matrix."""
    config = model._config
    matrix: FeatureMatrix = config.matrix(model._require_fitted(), config.rows(inputs), inputs.get("groups"), positions)
    return matrix.multiply(np.eye(matrix.shape[1]))


def softmax(logits: np.ndarray) -> np.ndarray:
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def logistic(**options: object):
    return linear_models.LogisticRegression(tol=1e-10, max_iter=100_000, **options)


# -- the optimum is scikit-learn's


@pytest.mark.sample(1)
@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize("answers", [2, 4])
def test_label_probabilities_equal_scikit_learns_logistic_regression(answers: int, pairs: bool):
    inputs, test_inputs = random_texts(150, pairs=pairs), random_texts(50, 1, pairs=pairs)
    gold = np.digitize(token_weight_sums(inputs), np.linspace(-2, 2, answers - 1))
    model = LinearModel("label", vocabulary=VOCABULARY, answers=answers, pairs=pairs, penalty=0.1)
    assert model.fit(inputs, {"label": gold}).stop_reason == "found"
    peer = logistic(C=10).fit(dense_features(model, inputs), gold)
    probs = softmax(model.logits(test_inputs)["label"])
    assert probs.shape == (50, answers)
    assert np.abs(probs - peer.predict_proba(dense_features(model, test_inputs))).max() < 1e-4


def test_example_weights_have_scikit_learns_effect():
    inputs = random_texts(150)
    gold, example_weights = (token_weight_sums(inputs) > 0).astype(int), np.random.default_rng(2).uniform(0, 3, 150)
    model = LinearModel("label", vocabulary=VOCABULARY, answers=2, penalty=0.5)
    model.fit(inputs, {"label": gold}, weights=example_weights)
    peer = logistic(C=2).fit(dense_features(model, inputs), gold, sample_weight=example_weights)
    probs = softmax(model.logits(inputs)["label"])
    assert np.abs(probs - peer.predict_proba(dense_features(model, inputs))).max() < 1e-4
    plain = LinearModel("label", vocabulary=VOCABULARY, answers=2, penalty=0.5)
    plain.fit(inputs, {"label": gold})
    assert np.abs(probs - softmax(plain.logits(inputs)["label"])).max() > 0.01


def test_multi_label_probabilities_equal_one_logistic_regression_each():
    inputs = random_texts(150)
    gold = np.stack([token_weight_sums(inputs, seed) > 0 for seed in (3, 4, 5)], axis=1).astype(int)
    model = LinearModel("labels", vocabulary=VOCABULARY, answers=3, penalty=0.2)
    model.fit(inputs, {"label": gold})
    probs = 1 / (1 + np.exp(-model.logits(inputs)["label"]))
    for column in range(3):
        peer = logistic(C=5).fit(dense_features(model, inputs), gold[:, column])
        assert np.abs(probs[:, column] - peer.predict_proba(dense_features(model, inputs))[:, 1]).max() < 1e-4


def test_regression_equals_scikit_learns_ridge():
    inputs, test_inputs = random_texts(150), random_texts(50, 1)
    gold = 1000 + 20 * token_weight_sums(inputs)
    model = LinearModel("number", vocabulary=VOCABULARY, penalty=0.7)
    model.fit(inputs, {"label": gold})
    peer = linear_models.Ridge(alpha=0.7).fit(dense_features(model, inputs), gold)
    predictions = model.logits(test_inputs)["label"]
    assert predictions.shape == (50, 1)
    assert np.abs(predictions[:, 0] - peer.predict(dense_features(model, test_inputs))).max() < 1e-4 * gold.std()


def test_tag_probabilities_equal_scikit_learns_with_some_words_untagged():
    inputs, test_inputs = random_texts(80), random_texts(20, 1)
    gold = (inputs["tokens"] + np.roll(inputs["tokens"], 1)) % 3
    gold[::4] = -1
    model = LinearModel("tag", vocabulary=VOCABULARY, answers=3, penalty=1.0)
    model.fit(inputs, {"tag": gold})
    tagged = np.flatnonzero(gold >= 0)
    peer = logistic(C=1).fit(dense_features(model, inputs, tagged), gold[tagged])
    probs = softmax(model.logits(test_inputs)["tag"])
    assert probs.shape == (len(test_inputs["tokens"]), 3)
    assert np.abs(probs - peer.predict_proba(dense_features(model, test_inputs))).max() < 1e-4


def test_choice_of_two_equals_logistic_regression_of_their_difference():
    inputs = random_texts(160, pairs=True) | {"groups": np.repeat(np.arange(80), 2)}
    gold = token_weight_sums(inputs).reshape(80, 2).argmax(axis=1)
    model = LinearModel("choice", vocabulary=VOCABULARY, pairs=True, penalty=0.5)
    model.fit(inputs, {"choice": gold})
    rows = dense_features(model, inputs)
    peer = logistic(C=2, fit_intercept=False).fit(rows[1::2] - rows[::2], gold)
    scores = model.logits(inputs)["choice"]
    assert scores.shape == (160,)
    assert np.abs(softmax(scores.reshape(80, 2)) - peer.predict_proba(rows[1::2] - rows[::2])).max() < 1e-4


def test_span_scores_minimize_their_loss():
    optimize = pytest.importorskip("scipy.optimize")
    inputs = random_texts(40, pairs=True)
    ends = np.cumsum(inputs["lengths"])
    begins = ends - inputs["lengths"]
    gold = {
        name: np.array([int(np.argmax(inputs["tokens"][a:b])) for a, b in zip(begins, ends, strict=True)]) - shift
        for name, shift in (("start", 0), ("end", 0))
    }
    gold["end"][::5] = -1  # no gold answer
    model = LinearModel("span", vocabulary=VOCABULARY, penalty=0.5)
    model.fit(inputs, gold)
    rows = dense_features(model, inputs)
    for name, scores in model.logits(inputs).items():

        def loss(weights: np.ndarray, name: str = name) -> float:
            logits, total = rows @ weights, 0.25 * float(weights @ weights)
            for begin, end, position in zip(begins, ends, gold[name], strict=True):
                if position >= 0:
                    total -= np.log(softmax(logits[begin:end])[position])
            return total

        def slope(weights: np.ndarray, name: str = name) -> np.ndarray:
            logits, errors = rows @ weights, np.zeros(len(rows))
            for begin, end, position in zip(begins, ends, gold[name], strict=True):
                if position >= 0:
                    errors[begin:end] = softmax(logits[begin:end])
                    errors[begin + position] -= 1
            return rows.T @ errors + 0.5 * weights

        optimum = optimize.minimize(loss, np.zeros(rows.shape[1]), jac=slope, method="L-BFGS-B", options={"gtol": 1e-9})
        expected = rows @ optimum.x
        for begin, end in zip(begins, ends, strict=True):
            assert np.abs(softmax(scores[begin:end]) - softmax(expected[begin:end])).max() < 1e-3


# -- missing targets, groups, time


def test_unlabeled_examples_have_no_effect():
    inputs = random_texts(100)
    gold = (token_weight_sums(inputs) > 0).astype(int)
    gold[50:] = -1
    partly_labeled = LinearModel("label", vocabulary=VOCABULARY, answers=2)
    partly_labeled.fit(inputs, {"label": gold})
    weighted = LinearModel("label", vocabulary=VOCABULARY, answers=2)
    weighted.fit(inputs, {"label": np.abs(gold)}, weights=(gold >= 0).astype(float))
    assert np.array_equal(partly_labeled.logits(inputs)["label"], weighted.logits(inputs)["label"])


def test_logits_of_rows_of_one_example_are_averaged():
    inputs = random_texts(100) | {"groups": np.repeat(np.arange(50), 2)}
    gold = (token_weight_sums(inputs).reshape(50, 2).sum(axis=1) > 0).astype(int)
    model = LinearModel("label", vocabulary=VOCABULARY, answers=2)
    model.fit(inputs, {"label": gold})
    grouped = model.logits(inputs)["label"]
    single = model.logits({name: inputs[name] for name in ("tokens", "lengths")})["label"]
    assert np.allclose(grouped, single.reshape(50, 2, 2).mean(axis=1))


def test_fit_reports_progress_is_deterministic_and_stops_out_of_time():
    inputs = random_texts(150)
    gold = {"label": (token_weight_sums(inputs) > 0).astype(int)}
    reported: list[tuple[int, float]] = []
    model = LinearModel("label", vocabulary=VOCABULARY, answers=2)
    result = model.fit(inputs, gold, progress=lambda *step: reported.append(step))
    assert [number for number, _ in reported] == list(range(1, result.iterations + 1))
    assert reported[-1][1] == result.loss < reported[0][1]
    first = model.logits(inputs)["label"]
    model.fit(inputs, gold)
    assert np.array_equal(first, model.logits(inputs)["label"])  # deterministic
    assert model.fit(inputs, gold, seconds=0).stop_reason == "time"
    assert np.array_equal(model.logits(inputs)["label"], np.zeros((150, 2)))


def test_linear_model_tells_chinese_paraphrases_from_other_pairs():
    paraphrases = [
        ("我很喜欢你", "我很中意你"),
        ("今天天气好", "今天天气不错"),
        ("怎么还款", "如何还款"),
        ("他在北京", "他在北京市"),
    ]
    other_pairs = [("我很喜欢你", "今天下雨"), ("天气好", "怎么还款"), ("如何还款", "他在北京"), ("他走了", "鱼在水里")]
    tokenizer = train_tokenizer("characters", [text for pair in paraphrases + other_pairs for text in pair])

    def pair_inputs(pairs: list[tuple[str, str]]) -> Arrays:
        rows = [[tokenizer.encode(text).ids for text in pair] for pair in pairs]
        return {
            "tokens": np.concatenate([ids for row in rows for ids in row]),
            "lengths": np.array([sum(map(len, row)) for row in rows]),
            "segments": np.concatenate([np.full(len(ids), number) for row in rows for number, ids in enumerate(row)]),
        }

    model = LinearModel("label", vocabulary=tokenizer.vocab_size, answers=2, pairs=True)
    model.fit(pair_inputs(paraphrases + other_pairs), {"label": np.array([1] * 4 + [0] * 4)})
    logits = model.logits(pair_inputs([("鱼很喜欢水", "鱼很中意水"), ("鱼很喜欢水", "今天天气好")]))["label"]
    assert logits.argmax(axis=1).tolist() == [1, 0]


# -- real texts


def test_linear_model_accuracy_on_sst2(data: Path):
    """The usual figure of unigrams and bigrams is about 0.80 to 0.82."""

    def read(name: str) -> tuple[list[str], np.ndarray]:
        lines = (data / "tasks" / "sst2" / f"{name}.tsv").read_text(encoding="utf-8").splitlines()
        return [line.split("\t")[0] for line in lines], np.array([int(line.split("\t")[1]) for line in lines])

    (train_texts, train_labels), (test_texts, test_labels) = read("train"), read("test")
    tokenizer = train_tokenizer("words", train_texts, lower=True)
    rows = [tokenizer.encode_batch(random_texts) for random_texts in (train_texts, test_texts)]
    train_inputs, test_inputs = ({"tokens": encoded.ids, "lengths": encoded.counts} for encoded in rows)
    model = LinearModel("label", vocabulary=tokenizer.vocab_size, answers=2)
    model.fit(train_inputs, {"label": train_labels})
    assert (model.logits(test_inputs)["label"].argmax(axis=1) == test_labels).mean() > 0.81
