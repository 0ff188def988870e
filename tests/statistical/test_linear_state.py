"""The linear model: its reasons, its state, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
from linear_texts import SIZE, Arrays, texts

from forebear.errors import ForebearError, InputError
from forebear.statistical.linear import LinearModel

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
            shares = model.feature_contributions(inputs, number, head=head)
            bias = model._bias if len(model._bias) else np.zeros(1)
            own = bias[0] / 2 * (1 if answer else -1) if kind == "label" and len(bias) == 1 else bias[answer or 0]
            wanted = scores[number] if answer is None else scores[number, answer]
            assert sum(share.value for share in shares) + own == pytest.approx(wanted, abs=1e-6)
            assert [abs(share.value) for share in shares] == sorted((abs(s.value) for s in shares), reverse=True)
            if answer is not None and kind == "label" and len(bias) == 1:
                other = model.feature_contributions(inputs, number, answer=1 - answer)
                assert [share.value for share in other] == [-share.value for share in shares]


def test_a_reason_names_its_ngram():
    inputs = {"tokens": np.array([5, 6, 7, 8, 5, 7]), "lengths": np.array([2, 2, 2])}
    model = LinearModel("label", vocabulary=SIZE, answers=2)
    model.fit(inputs, {"label": np.array([1, 0, 0])})
    told = {share.tokens: share.value for share in model.feature_contributions(inputs, 0)}
    assert set(told) == {(5,), (6,), (5, 6)}
    assert told[6,] > told[5,] > 0  # 5 stands in a text of the other label too
    (seven, *_) = (share for share in model.feature_contributions(inputs, 2, answer=1) if share.tokens == (7,))
    assert seven.value < 0


@pytest.mark.parametrize(("kind", "options"), KINDS)
def test_a_saved_model_answers_alike(kind: str, options: dict[str, object]):
    model, inputs = fitted(kind, options)
    arrays = model.arrays()
    assert all(array.dtype.kind in "uf" for array in arrays.values())
    assert model.num_parameters == sum(arrays[name].size for name in ("weights", "bias") if name in arrays)
    again = LinearModel(kind, vocabulary=SIZE, skipped=[0, 1], **options)  # type: ignore[arg-type]
    again.load({name: array.copy() for name, array in arrays.items()})
    for head, scores in model.logits(inputs).items():
        assert np.array_equal(scores, again.logits(inputs)[head])
    assert tuple(model.logits(inputs)) == model.heads
    assert model.skipped.tolist() == [0, 1]  # whoever looks for a reason's tokens has to leave out the same
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
    ],
)
def test_settings_that_make_no_model(options: dict, what: str):
    with pytest.raises(InputError, match=what):
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
    with pytest.raises(InputError, match="one number for each"):
        model.fit(inputs, {"label": np.zeros(10, int)}, weights=np.full(10, -1.0))
    with pytest.raises(ForebearError, match="outside of its row"):
        LinearModel("span", vocabulary=SIZE).fit(
            texts(10, pairs=True), {"start": np.full(10, 99), "end": np.zeros(10, int)}
        )
