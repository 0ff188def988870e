"""Settings without effect and values out of range are refused before any text is read."""

from __future__ import annotations

from typing import Any

import pytest

from forebear.errors import InputError
from forebear.experiments.comparison.compare import applicable_settings
from forebear.experiments.plan import plan_pretraining

NO_EFFECT = "means nothing"


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("word2vec", {"output": "tree", "negatives": "10"}, "--negatives means nothing beside --output tree"),
        ("word2vec", {"phrases": "7"}, "phrases is 7"),
        ("word2vec", {"phrases": -1}, "phrases is -1"),
        ("word2vec", {"sample": 2.0}, "sample is 2"),
        ("word2vec", {"sample": -1e-3}, "sample is -0.001"),
        ("word2vec", {"window": 0}, "window is 0"),
        ("word2vec", {"negatives": 0}, "negatives is 0"),
        ("word2vec", {"min_count": 0}, "min_count is 0"),
        ("word2vec", {"output": "softmax"}, "output is 'softmax'"),
        ("word2vec", {"architecture": "glove"}, "architecture is 'glove'"),
        ("word2vec", {"clip": 1.0}, "--clip means nothing to word2vec, which has no network"),
        ("onehot", {"min_count": 0}, "min_count is 0"),
        ("onehot", {"rate": 0.1}, "--rate means nothing to onehot, which counts"),
        ("onehot", {"cooldown": 0.5}, "--cooldown means nothing to onehot, which counts"),
        ("onehot", {"threads": 2}, "--threads means nothing to onehot, which counts"),
        ("onehot", {"deterministic": True}, "--deterministic means nothing to onehot, which counts"),
        ("onehot", {"epochs": 3}, "onehot counts every text once"),
        ("glove", {"window": 0}, "window is 0"),
        ("glove", {"power": -1.0}, "power is -1"),
        ("glove", {"decay": 0.1}, "--decay means nothing to glove"),
        ("nnlm", {"context": 0}, "context is 0"),
        ("nnlm", {"inner": -1}, "inner is -1"),
        ("nnlm", {"softmax": "tree"}, "softmax is 'tree'"),
        ("nnlm", {"deterministic": True}, "--deterministic means nothing to nnlm"),
    ],
)
def test_unused_or_invalid_setting_is_refused_with_hint(name: str, settings: dict[str, Any], message: str):
    with pytest.raises(InputError, match=message) as error:
        plan_pretraining(name, ["text.txt"], settings=settings)
    assert error.value.hint


def test_unused_setting_of_a_recipe_file_is_refused():
    with pytest.raises(InputError, match=NO_EFFECT):
        plan_pretraining("word2vec", ["text.txt"], recipe={"fields": {"output": "tree", "negatives": 10}})
    with pytest.raises(InputError, match=NO_EFFECT):
        plan_pretraining("word2vec", ["text.txt"], recipe={"fields": {"negatives": 10}}, settings={"output": "tree"})


def test_unused_default_is_not_refused():
    plan = plan_pretraining("word2vec", ["text.txt"], settings={"output": "tree"})
    assert (plan.spec.output, plan.spec.negatives) == ("tree", 5)
    assert plan_pretraining("word2vec", ["text.txt"], settings={"negatives": 10, "phrases": 4}).spec.negatives == 10
    assert plan_pretraining("onehot", ["text.txt"], settings={"batch": 100, "epochs": 1}).recipe.batch == 100


def test_applicable_settings_keep_only_those_the_model_uses():
    settings = {"rate": 0.1, "clip": 1.0, "batch": 64}
    assert applicable_settings("ngram", settings) == applicable_settings("onehot", settings) == {"batch": 64}
    assert applicable_settings("word2vec", settings) == {"rate": 0.1, "batch": 64}
    assert applicable_settings("nnlm", settings) == settings
