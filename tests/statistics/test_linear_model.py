"""The linear model: what scikit-learn finds on the same features, for every kind of answer; its state; its reasons."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from forebear.errors import BadInput, ForebearError
from forebear.statistics.linear import LinearModel
from forebear.statistics.matrices import Matrix
from forebear.text.training import train

linear_models = pytest.importorskip("sklearn.linear_model", reason="scikit-learn is not installed")

SIZE = 40  # ids of these made-up texts
Arrays = dict[str, np.ndarray]


def texts(count: int, seed: int = 0, *, pairs: bool = False) -> Arrays:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(4, 12, count)
    told = {"tokens": rng.integers(0, SIZE, lengths.sum()), "lengths": lengths}
    if pairs:
        places = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        told["segments"] = (places >= np.repeat(lengths // 2, lengths)).astype(np.int64)
    return told


def sums(inputs: Arrays, seed: int = 9) -> np.ndarray:
    """Something to learn: the sum of a number that each id has, by row, and some noise."""
    rng = np.random.default_rng(seed)
    rows = np.repeat(np.arange(len(inputs["lengths"])), inputs["lengths"])
    return np.bincount(rows, rng.normal(size=SIZE)[inputs["tokens"]]) + rng.normal(size=len(inputs["lengths"]))


def table(model: LinearModel, inputs: Arrays, places: np.ndarray | None = None) -> np.ndarray:
    """The model's own features, written out."""
    making = model._making
    matrix: Matrix = making.matrix(model._settled(), making.rows(inputs), inputs.get("groups"), places)
    return matrix.times(np.eye(matrix.shape[1]))


def softmax(logits: np.ndarray) -> np.ndarray:
    shares = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return shares / shares.sum(axis=-1, keepdims=True)


def logistic(**options: object):
    return linear_models.LogisticRegression(tol=1e-10, max_iter=100_000, **options)


# -- the optimum is scikit-learn's


@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize("answers", [2, 4])
def test_one_label(answers: int, pairs: bool):
    inputs, others = texts(150, pairs=pairs), texts(50, 1, pairs=pairs)
    right = np.digitize(sums(inputs), np.linspace(-2, 2, answers - 1))
    model = LinearModel("label", vocabulary=SIZE, answers=answers, pairs=pairs, penalty=0.1)
    assert model.fit(inputs, {"label": right}).ended == "found"
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
    assert model.fit(inputs, right, seconds=0).ended == "time"
    assert np.array_equal(model.logits(inputs)["label"], np.zeros((150, 2)))


def test_chinese_questions_alike_or_not():
    alike = [
        ("我很喜欢你", "我很中意你"),
        ("今天天气好", "今天天气不错"),
        ("怎么还款", "如何还款"),
        ("他在北京", "他在北京市"),
    ]
    apart = [("我很喜欢你", "今天下雨"), ("天气好", "怎么还款"), ("如何还款", "他在北京"), ("他走了", "鱼在水里")]
    tokenizer = train("characters", [text for pair in alike + apart for text in pair])

    def laid(pairs: list[tuple[str, str]]) -> Arrays:
        rows = [[tokenizer.encode(text).ids for text in pair] for pair in pairs]
        return {
            "tokens": np.concatenate([ids for row in rows for ids in row]),
            "lengths": np.array([sum(map(len, row)) for row in rows]),
            "segments": np.concatenate([np.full(len(ids), number) for row in rows for number, ids in enumerate(row)]),
        }

    model = LinearModel("label", vocabulary=tokenizer.size, answers=2, pairs=True)
    model.fit(laid(alike + apart), {"label": np.array([1] * 4 + [0] * 4)})
    told = model.logits(laid([("鱼很喜欢水", "鱼很中意水"), ("鱼很喜欢水", "今天天气好")]))["label"]
    assert told.argmax(axis=1).tolist() == [1, 0]


# -- its reasons, and its state

KINDS: list[tuple[str, dict[str, object]]] = [
    ("label", {"answers": 2}), ("label", {"answers": 3, "order": 3}), ("label", {"answers": 2, "pairs": True}),
    ("labels", {"answers": 2, "order": 1}), ("number", {}), ("tag", {"answers": 3}), ("choice", {"pairs": True}),
    ("span", {}),
]  # fmt: skip


def fitted(kind: str, options: dict[str, object]) -> tuple[LinearModel, Arrays]:
    inputs = texts(60, pairs=True) | ({"groups": np.repeat(np.arange(20), 3)} if kind == "choice" else {})
    model = LinearModel(kind, vocabulary=SIZE, skipped=[0, 1], **options)  # type: ignore[arg-type]
    rng = np.random.default_rng(7)
    targets = {
        "label": {"label": rng.integers(0, model.answers, 60)},
        "labels": {"label": rng.integers(0, 2, (60, model.answers))},
        "number": {"label": rng.normal(size=60)},
        "tag": {"tag": rng.integers(0, model.answers, len(inputs["tokens"]))},
        "choice": {"choice": rng.integers(0, 3, 20)},
        "span": {"start": rng.integers(0, 4, 60), "end": rng.integers(0, 4, 60)},
    }
    model.fit(inputs, targets[kind])
    return model, inputs


@pytest.mark.parametrize(("kind", "options"), KINDS)
def test_reasons_add_up_to_the_score(kind: str, options: dict[str, object]):
    model, inputs = fitted(kind, options)
    for head, scores in model.logits(inputs).items():
        for number in (0, 7):
            answer = None if scores.ndim == 1 else int(scores[number].argmax())
            shares = model.weights_of(inputs, number, head=head)
            bias = model._bias if len(model._bias) else np.zeros(1)
            own = bias[0] / 2 * (1 if answer else -1) if kind == "label" and len(bias) == 1 else bias[answer or 0]
            wanted = scores[number] if answer is None else scores[number, answer]
            assert sum(share.value for share in shares) + own == pytest.approx(wanted, abs=1e-6)
            assert [abs(share.value) for share in shares] == sorted((abs(s.value) for s in shares), reverse=True)
            if answer is not None and kind == "label" and len(bias) == 1:
                other = model.weights_of(inputs, number, answer=1 - answer)
                assert [share.value for share in other] == [-share.value for share in shares]


def test_a_reason_names_its_ngram():
    inputs = {"tokens": np.array([5, 6, 7, 8, 5, 7]), "lengths": np.array([2, 2, 2])}
    model = LinearModel("label", vocabulary=SIZE, answers=2)
    model.fit(inputs, {"label": np.array([1, 0, 0])})
    told = {share.tokens: share.value for share in model.weights_of(inputs, 0)}
    assert set(told) == {(5,), (6,), (5, 6)}
    assert told[6,] > told[5,] > 0  # 5 stands in a text of the other label too
    (seven, *_) = (share for share in model.weights_of(inputs, 2, answer=1) if share.tokens == (7,))
    assert seven.value < 0


@pytest.mark.parametrize(("kind", "options"), KINDS)
def test_a_saved_model_answers_alike(kind: str, options: dict[str, object]):
    model, inputs = fitted(kind, options)
    arrays = model.arrays()
    assert all(array.dtype.kind in "uf" for array in arrays.values())
    assert model.parameter_count == sum(arrays[name].size for name in ("weights", "bias") if name in arrays)
    again = LinearModel(kind, vocabulary=SIZE, skipped=[0, 1], **options)  # type: ignore[arg-type]
    again.load({name: array.copy() for name, array in arrays.items()})
    for head, scores in model.logits(inputs).items():
        assert np.array_equal(scores, again.logits(inputs)[head])
    assert tuple(model.logits(inputs)) == model.heads
    for name, array in arrays.items():
        with pytest.raises(ForebearError, match=name.replace(".", r"\.")):
            again.load({other: kept for other, kept in arrays.items() if other != name})
        with pytest.raises(ForebearError, match=name.replace(".", r"\.")):
            again.load(arrays | {name: array[:-1]})
        if array.dtype.kind == "f":
            with pytest.raises(ForebearError, match=name):
                again.load(arrays | {name: np.full_like(array, np.nan)})
    with pytest.raises(ForebearError, match="extra"):
        again.load(arrays | {"extra": arrays["weights"]})


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"kind": "labell"}, "no kind of linear model"),
        ({"kind": "label", "answers": 1}, "1 answers"),
        ({"kind": "number", "answers": 2}, "2 answers"),
        ({"kind": "label", "answers": 2, "order": 0}, "n-grams of up to 0"),
        ({"kind": "label", "answers": 2, "least": 0}, "occur 0 times"),
        ({"kind": "label", "answers": 2, "penalty": 0.0}, "penalty is 0"),
        ({"kind": "tag", "answers": 2, "order": 3}, "features of its own"),
        ({"kind": "span", "least": 2}, "features of its own"),
    ],
)
def test_settings_that_make_no_model(options: dict, what: str):
    with pytest.raises(BadInput, match=what):
        LinearModel(vocabulary=SIZE, **options)


def test_targets_that_fit_nothing():
    inputs = texts(10)
    model = LinearModel("label", vocabulary=SIZE, answers=2)
    with pytest.raises(ForebearError, match="learned nothing yet"):
        model.logits(inputs)
    for right, what in (
        (np.full(10, 2), "answer 2 of 2"),
        (np.zeros(9, int), "9 targets for 10"),
        (np.full(10, -1), "nothing is asked"),
    ):
        with pytest.raises(ForebearError, match=what):
            model.fit(inputs, {"label": right})
    with pytest.raises(BadInput, match="one number for each"):
        model.fit(inputs, {"label": np.zeros(10, int)}, weights=np.full(10, -1.0))
    with pytest.raises(ForebearError, match="outside of its row"):
        LinearModel("span", vocabulary=SIZE).fit(
            texts(10, pairs=True), {"start": np.full(10, 99), "end": np.zeros(10, int)}
        )


# -- real texts


def test_sst2(data: Path):
    """The usual figure of unigrams and bigrams is about 0.80 to 0.82."""

    def read(name: str) -> tuple[list[str], np.ndarray]:
        lines = (data / "tasks" / "sst2" / f"{name}.tsv").read_text(encoding="utf-8").splitlines()
        return [line.split("\t")[0] for line in lines], np.array([int(line.split("\t")[1]) for line in lines])

    (teach, right), (examine, wanted) = read("train"), read("test")
    tokenizer = train("words", teach, lower=True)
    rows = [tokenizer.encode_all(texts) for texts in (teach, examine)]
    given, asked = ({"tokens": one.ids, "lengths": one.counts} for one in rows)
    model = LinearModel("label", vocabulary=tokenizer.size, answers=2)
    model.fit(given, {"label": right})
    assert (model.logits(asked)["label"].argmax(axis=1) == wanted).mean() > 0.81
