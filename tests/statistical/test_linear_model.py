"""The linear model: what scikit-learn finds on the same features, for every kind of answer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from linear_texts import SIZE, Arrays, sums, texts

from forebear.data.tokenizers.train import train_tokenizer
from forebear.statistical.feature_matrix import FeatureMatrix
from forebear.statistical.linear import LinearModel

linear_models = pytest.importorskip("sklearn.linear_model", reason="scikit-learn is not installed")


def table(model: LinearModel, inputs: Arrays, places: np.ndarray | None = None) -> np.ndarray:
    """The model's own features, written out."""
    making = model._config
    matrix: FeatureMatrix = making.matrix(model._require_fitted(), making.rows(inputs), inputs.get("groups"), places)
    return matrix.multiply(np.eye(matrix.shape[1]))


def softmax(logits: np.ndarray) -> np.ndarray:
    shares = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return shares / shares.sum(axis=-1, keepdims=True)


def logistic(**options: object):
    return linear_models.LogisticRegression(tol=1e-10, max_iter=100_000, **options)


# -- the optimum is scikit-learn's


@pytest.mark.sample(1)
@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize("answers", [2, 4])
def test_one_label(answers: int, pairs: bool):
    inputs, others = texts(150, pairs=pairs), texts(50, 1, pairs=pairs)
    right = np.digitize(sums(inputs), np.linspace(-2, 2, answers - 1))
    model = LinearModel("label", vocabulary=SIZE, answers=answers, pairs=pairs, penalty=0.1)
    assert model.fit(inputs, {"label": right}).stop_reason == "found"
    peer = logistic(C=10).fit(table(model, inputs), right)
    mine = softmax(model.logits(others)["label"])
    assert mine.shape == (50, answers)
    assert np.abs(mine - peer.predict_proba(table(model, others))).max() < 1e-4


def test_weights_of_examples():
    inputs = texts(150)
    right, much = (sums(inputs) > 0).astype(int), np.random.default_rng(2).uniform(0, 3, 150)
    model = LinearModel("label", vocabulary=SIZE, answers=2, penalty=0.5)
    model.fit(inputs, {"label": right}, weights=much)
    peer = logistic(C=2).fit(table(model, inputs), right, sample_weight=much)
    mine = softmax(model.logits(inputs)["label"])
    assert np.abs(mine - peer.predict_proba(table(model, inputs))).max() < 1e-4
    plain = LinearModel("label", vocabulary=SIZE, answers=2, penalty=0.5)
    plain.fit(inputs, {"label": right})
    assert np.abs(mine - softmax(plain.logits(inputs)["label"])).max() > 0.01


def test_any_of_several_labels():
    inputs = texts(150)
    right = np.stack([sums(inputs, seed) > 0 for seed in (3, 4, 5)], axis=1).astype(int)
    model = LinearModel("labels", vocabulary=SIZE, answers=3, penalty=0.2)
    model.fit(inputs, {"label": right})
    chances = 1 / (1 + np.exp(-model.logits(inputs)["label"]))
    for column in range(3):
        peer = logistic(C=5).fit(table(model, inputs), right[:, column])
        assert np.abs(chances[:, column] - peer.predict_proba(table(model, inputs))[:, 1]).max() < 1e-4


def test_a_number():
    inputs, others = texts(150), texts(50, 1)
    right = 1000 + 20 * sums(inputs)
    model = LinearModel("number", vocabulary=SIZE, penalty=0.7)
    model.fit(inputs, {"label": right})
    peer = linear_models.Ridge(alpha=0.7).fit(table(model, inputs), right)
    told = model.logits(others)["label"]
    assert told.shape == (50, 1)
    assert np.abs(told[:, 0] - peer.predict(table(model, others))).max() < 1e-4 * right.std()


def test_a_tag_for_each_word_that_is_asked():
    inputs, others = texts(80), texts(20, 1)
    right = (inputs["tokens"] + np.roll(inputs["tokens"], 1)) % 3
    right[::4] = -1
    model = LinearModel("tag", vocabulary=SIZE, answers=3, penalty=1.0)
    model.fit(inputs, {"tag": right})
    asked = np.flatnonzero(right >= 0)
    peer = logistic(C=1).fit(table(model, inputs, asked), right[asked])
    mine = softmax(model.logits(others)["tag"])
    assert mine.shape == (len(others["tokens"]), 3)
    assert np.abs(mine - peer.predict_proba(table(model, others))).max() < 1e-4


def test_a_choice_between_two_is_logistic_regression_of_their_difference():
    inputs = texts(160, pairs=True) | {"groups": np.repeat(np.arange(80), 2)}
    right = sums(inputs).reshape(80, 2).argmax(axis=1)
    model = LinearModel("choice", vocabulary=SIZE, pairs=True, penalty=0.5)
    model.fit(inputs, {"choice": right})
    rows = table(model, inputs)
    peer = logistic(C=2, fit_intercept=False).fit(rows[1::2] - rows[::2], right)
    scores = model.logits(inputs)["choice"]
    assert scores.shape == (160,)
    assert np.abs(softmax(scores.reshape(80, 2)) - peer.predict_proba(rows[1::2] - rows[::2])).max() < 1e-4


def test_a_span_is_at_the_lowest_point_of_its_loss():
    optimize = pytest.importorskip("scipy.optimize")
    inputs = texts(40, pairs=True)
    ends = np.cumsum(inputs["lengths"])
    begins = ends - inputs["lengths"]
    right = {
        name: np.array([int(np.argmax(inputs["tokens"][a:b])) for a, b in zip(begins, ends, strict=True)]) - shift
        for name, shift in (("start", 0), ("end", 0))
    }
    right["end"][::5] = -1  # nobody said
    model = LinearModel("span", vocabulary=SIZE, penalty=0.5)
    model.fit(inputs, right)
    rows = table(model, inputs)
    for name, scores in model.logits(inputs).items():

        def loss(weights: np.ndarray, name: str = name) -> float:
            told, total = rows @ weights, 0.25 * float(weights @ weights)
            for begin, end, place in zip(begins, ends, right[name], strict=True):
                if place >= 0:
                    total -= np.log(softmax(told[begin:end])[place])
            return total

        def slope(weights: np.ndarray, name: str = name) -> np.ndarray:
            told, wrong = rows @ weights, np.zeros(len(rows))
            for begin, end, place in zip(begins, ends, right[name], strict=True):
                if place >= 0:
                    wrong[begin:end] = softmax(told[begin:end])
                    wrong[begin + place] -= 1
            return rows.T @ wrong + 0.5 * weights

        best = optimize.minimize(loss, np.zeros(rows.shape[1]), jac=slope, method="L-BFGS-B", options={"gtol": 1e-9})
        wanted = rows @ best.x
        for begin, end in zip(begins, ends, strict=True):
            assert np.abs(softmax(scores[begin:end]) - softmax(wanted[begin:end])).max() < 1e-3


# -- what is asked, and how far


def test_what_nobody_labelled_teaches_nothing():
    inputs = texts(100)
    right = (sums(inputs) > 0).astype(int)
    right[50:] = -1
    some = LinearModel("label", vocabulary=SIZE, answers=2)
    some.fit(inputs, {"label": right})
    weighed = LinearModel("label", vocabulary=SIZE, answers=2)
    weighed.fit(inputs, {"label": np.abs(right)}, weights=(right >= 0).astype(float))
    assert np.array_equal(some.logits(inputs)["label"], weighed.logits(inputs)["label"])


def test_rows_of_one_example_are_judged_together():
    inputs = texts(100) | {"groups": np.repeat(np.arange(50), 2)}
    right = (sums(inputs).reshape(50, 2).sum(axis=1) > 0).astype(int)
    model = LinearModel("label", vocabulary=SIZE, answers=2)
    model.fit(inputs, {"label": right})
    together = model.logits(inputs)["label"]
    alone = model.logits({name: inputs[name] for name in ("tokens", "lengths")})["label"]
    assert np.allclose(together, alone.reshape(50, 2, 2).mean(axis=1))


def test_time_and_progress():
    inputs = texts(150)
    right = {"label": (sums(inputs) > 0).astype(int)}
    told: list[tuple[int, float]] = []
    model = LinearModel("label", vocabulary=SIZE, answers=2)
    whole = model.fit(inputs, right, progress=lambda *step: told.append(step))
    assert [number for number, _ in told] == list(range(1, whole.iterations + 1))
    assert told[-1][1] == whole.loss < told[0][1]
    first = model.logits(inputs)["label"]
    model.fit(inputs, right)
    assert np.array_equal(first, model.logits(inputs)["label"])  # nothing is left to chance
    assert model.fit(inputs, right, seconds=0).stop_reason == "time"
    assert np.array_equal(model.logits(inputs)["label"], np.zeros((150, 2)))


def test_chinese_questions_alike_or_not():
    alike = [
        ("我很喜欢你", "我很中意你"),
        ("今天天气好", "今天天气不错"),
        ("怎么还款", "如何还款"),
        ("他在北京", "他在北京市"),
    ]
    apart = [("我很喜欢你", "今天下雨"), ("天气好", "怎么还款"), ("如何还款", "他在北京"), ("他走了", "鱼在水里")]
    tokenizer = train_tokenizer("characters", [text for pair in alike + apart for text in pair])

    def laid(pairs: list[tuple[str, str]]) -> Arrays:
        rows = [[tokenizer.encode(text).ids for text in pair] for pair in pairs]
        return {
            "tokens": np.concatenate([ids for row in rows for ids in row]),
            "lengths": np.array([sum(map(len, row)) for row in rows]),
            "segments": np.concatenate([np.full(len(ids), number) for row in rows for number, ids in enumerate(row)]),
        }

    model = LinearModel("label", vocabulary=tokenizer.vocab_size, answers=2, pairs=True)
    model.fit(laid(alike + apart), {"label": np.array([1] * 4 + [0] * 4)})
    told = model.logits(laid([("鱼很喜欢水", "鱼很中意水"), ("鱼很喜欢水", "今天天气好")]))["label"]
    assert told.argmax(axis=1).tolist() == [1, 0]


# -- real texts


def test_sst2(data: Path):
    """The usual figure of unigrams and bigrams is about 0.80 to 0.82."""

    def read(name: str) -> tuple[list[str], np.ndarray]:
        lines = (data / "tasks" / "sst2" / f"{name}.tsv").read_text(encoding="utf-8").splitlines()
        return [line.split("\t")[0] for line in lines], np.array([int(line.split("\t")[1]) for line in lines])

    (teach, right), (examine, wanted) = read("train"), read("test")
    tokenizer = train_tokenizer("words", teach, lower=True)
    rows = [tokenizer.encode_batch(texts) for texts in (teach, examine)]
    given, asked = ({"tokens": one.ids, "lengths": one.counts} for one in rows)
    model = LinearModel("label", vocabulary=tokenizer.vocab_size, answers=2)
    model.fit(given, {"label": right})
    assert (model.logits(asked)["label"].argmax(axis=1) == wanted).mean() > 0.81
