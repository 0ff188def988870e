"""The linear model: feature contributions, saved state, and refused settings and targets."""

from __future__ import annotations

import numpy as np
import pytest
from random_texts import VOCABULARY, Arrays, random_texts

from forebear.errors import ForebearError, InputError
from forebear.statistical.linear import LinearModel

KINDS: list[tuple[str, dict[str, object]]] = [
    ("label", {"answers": 2}), ("label", {"answers": 3, "order": 3}), ("label", {"answers": 2, "pairs": True}),
    ("labels", {"answers": 2, "order": 1}), ("number", {}), ("tag", {"answers": 3}), ("choice", {"pairs": True}),
    ("span", {}),
]  # fmt: skip


def fitted_model(kind: str, options: dict[str, object]) -> tuple[LinearModel, Arrays]:
    inputs = random_texts(60, pairs=True) | ({"groups": np.repeat(np.arange(20), 3)} if kind == "choice" else {})
    model = LinearModel(kind, vocabulary=VOCABULARY, skipped=[0, 1], **options)  # type: ignore[arg-type]
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
def test_feature_contributions_add_up_to_the_logit(kind: str, options: dict[str, object]):
    model, inputs = fitted_model(kind, options)
    for head, scores in model.logits(inputs).items():
        for index in (0, 7):
            answer = None if scores.ndim == 1 else int(scores[index].argmax())
            contributions = model.feature_contributions(inputs, index, head=head)
            bias = model._bias if len(model._bias) else np.zeros(1)
            bias_share = (
                bias[0] / 2 * (1 if answer else -1) if kind == "label" and len(bias) == 1 else bias[answer or 0]
            )
            logit = scores[index] if answer is None else scores[index, answer]
            assert sum(contribution.value for contribution in contributions) + bias_share == pytest.approx(
                logit, abs=1e-6
            )
            assert [abs(contribution.value) for contribution in contributions] == sorted(
                (abs(c.value) for c in contributions), reverse=True
            )
            if answer is not None and kind == "label" and len(bias) == 1:
                other = model.feature_contributions(inputs, index, answer=1 - answer)
                assert [contribution.value for contribution in other] == [
                    -contribution.value for contribution in contributions
                ]


def test_feature_contributions_name_their_ngrams():
    inputs = {"tokens": np.array([5, 6, 7, 8, 5, 7]), "lengths": np.array([2, 2, 2])}
    model = LinearModel("label", vocabulary=VOCABULARY, answers=2)
    model.fit(inputs, {"label": np.array([1, 0, 0])})
    value_by_ngram = {
        contribution.tokens: contribution.value for contribution in model.feature_contributions(inputs, 0)
    }
    assert set(value_by_ngram) == {(5,), (6,), (5, 6)}
    assert value_by_ngram[6,] > value_by_ngram[5,] > 0  # 5 is in a text of the other label too
    (contribution_of_7, *_) = (
        contribution for contribution in model.feature_contributions(inputs, 2, answer=1) if contribution.tokens == (7,)
    )
    assert contribution_of_7.value < 0


@pytest.mark.parametrize(("kind", "options"), KINDS)
def test_saved_linear_model_loads_with_equal_logits_and_damage_is_refused(kind: str, options: dict[str, object]):
    model, inputs = fitted_model(kind, options)
    arrays = model.arrays()
    assert all(array.dtype.kind in "uf" for array in arrays.values())
    assert model.num_parameters == sum(arrays[name].size for name in ("weights", "bias") if name in arrays)
    loaded = LinearModel(kind, vocabulary=VOCABULARY, skipped=[0, 1], **options)  # type: ignore[arg-type]
    loaded.load({name: array.copy() for name, array in arrays.items()})
    for head, scores in model.logits(inputs).items():
        assert np.array_equal(scores, loaded.logits(inputs)[head])
    assert tuple(model.logits(inputs)) == model.heads
    assert model.skipped.tolist() == [0, 1]  # needed to find the tokens of a contribution
    for name, array in arrays.items():
        with pytest.raises(ForebearError, match=name.replace(".", r"\.")):
            loaded.load({other: values for other, values in arrays.items() if other != name})
        with pytest.raises(ForebearError, match=name.replace(".", r"\.")):
            loaded.load(arrays | {name: array[:-1]})
        if array.dtype.kind == "f":
            with pytest.raises(ForebearError, match=name):
                loaded.load(arrays | {name: np.full_like(array, np.nan)})
    with pytest.raises(ForebearError, match="extra"):
        loaded.load(arrays | {"extra": arrays["weights"]})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "labell"}, "no kind of linear model"),
        ({"kind": "label", "answers": 1}, "1 answers"),
        ({"kind": "number", "answers": 2}, "2 answers"),
        ({"kind": "label", "answers": 2, "order": 0}, "n-grams of up to 0"),
        ({"kind": "label", "answers": 2, "least": 0}, "occur 0 times"),
        ({"kind": "label", "answers": 2, "penalty": 0.0}, "penalty is 0"),
    ],
)
def test_invalid_linear_model_settings_are_refused(options: dict, message: str):
    with pytest.raises(InputError, match=message):
        LinearModel(vocabulary=VOCABULARY, **options)


def test_invalid_linear_model_targets_are_refused():
    inputs = random_texts(10)
    model = LinearModel("label", vocabulary=VOCABULARY, answers=2)
    with pytest.raises(ForebearError, match="learned nothing yet"):
        model.logits(inputs)
    for gold, message in (
        (np.full(10, 2), "answer 2 of 2"),
        (np.zeros(9, int), "9 targets for 10"),
        (np.full(10, -1), "nothing is asked"),
    ):
        with pytest.raises(ForebearError, match=message):
            model.fit(inputs, {"label": gold})
    with pytest.raises(InputError, match="one number for each"):
        model.fit(inputs, {"label": np.zeros(10, int)}, weights=np.full(10, -1.0))
    with pytest.raises(ForebearError, match="outside of its row"):
        LinearModel("span", vocabulary=VOCABULARY).fit(
            random_texts(10, pairs=True), {"start": np.full(10, 99), "end": np.zeros(10, int)}
        )
