"""GloVe's model: what it learns, the same bits whatever the threads, what it keeps, and what it refuses."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from forebear.data.corpus.subset import Subset
from forebear.embeddings import glove
from forebear.embeddings.glove import GloveModel
from forebear.errors import ForebearError, InputError
from forebear.kernels import glove as kernels
from forebear.kernels import layout
from forebear.objectives.batch import Batch, BatchKey
from forebear.objectives.cooccurrence import Cooccurrences
from small_portions import portion_of, random_text

WORDS = 300


@pytest.fixture(scope="module")
def batches() -> list[Batch]:
    source = portion_of(random_text(WORDS, 30_000))
    objective = Cooccurrences(WORDS, frozenset({0}), window=5, text_unit="document", count_cap=10.0, power=0.75)
    with pytest.MonkeyPatch.context() as patch:
        import tempfile

        patch.setenv("FOREBEAR_CACHE", tempfile.mkdtemp())
        return [objective.batch(source, 8000, BatchKey(0, step)) for step in range(4 * objective.steps(source, 8000))]


def model(width: int = 10, seed: int = 0, never: tuple[int, ...] = (0,)) -> GloveModel:
    made = GloveModel(vocabulary=WORDS, never=never, width=width)
    made.initialize(seed)
    return made


def same(one: GloveModel, other: GloveModel) -> bool:
    pairs = [(mine.arrays() | mine.training_state()) for mine in (one, other)]
    return all(np.array_equal(array, pairs[1][name]) for name, array in pairs[0].items())


def whole_loss(learner: GloveModel, batch: Batch) -> float:
    """The paper's loss of all entries, by its formula."""
    arrays, inputs = learner.arrays(), batch.inputs
    rows, columns = inputs["tokens"], inputs["beside"]
    products = (arrays["words.vectors"][rows] * arrays["contexts.vectors"][columns]).sum(axis=1)
    errors = products + arrays["words.biases"][rows] + arrays["contexts.biases"][columns] - batch.targets["together"]
    return float((0.5 * inputs["weights"] * errors**2).sum())


def test_the_loss_falls_and_is_told_before_learning(batches: list[Batch]):
    learner = model()
    total, count = whole_loss(learner, batches[0]), batches[0].num_target_tokens
    assert learner.evaluate(batches[0])[1] == count
    assert learner.evaluate(batches[0])[0] < total, "how long a text is, is not asked"
    first = [learner.train_batch(batch, rate=0.05) for batch in batches[:3]]
    assert first[0] < total / count, "entries of a batch that share words learn from each other"
    for _ in range(5):
        last = [learner.train_batch(batch, rate=0.05) for batch in batches[:3]]
    assert np.mean(last) < 0.85 * np.mean(first)
    inputs = {name: array[:1] for name, array in batches[0].inputs.items()}
    one = Batch(inputs, {"together": batches[0].targets["together"][:1]})
    before = whole_loss(learner, one)
    assert learner.train_batch(one, rate=0.05) == pytest.approx(before, rel=1e-4)
    assert whole_loss(learner, one) < before


def test_a_text_of_any_length_can_examine(batches: list[Batch]):
    learner = model()
    for batch in batches[:3]:
        learner.train_batch(batch, rate=0.05)
    total, count = learner.evaluate(batches[3])
    fewer = Batch(batches[3].inputs, {"together": batches[3].targets["together"] - np.float32(2)})
    assert learner.evaluate(fewer) == (pytest.approx(total, rel=1e-4), count)
    arrays = {name: array.astype(np.float64) for name, array in learner.arrays().items()}
    rows, columns, weights = (batches[3].inputs[name] for name in ("tokens", "beside", "weights"))
    errors = (arrays["words.vectors"][rows] * arrays["contexts.vectors"][columns]).sum(axis=1)
    errors += arrays["words.biases"][rows] + arrays["contexts.biases"][columns] - batches[3].targets["together"]
    logs = batches[3].targets["together"].astype(np.float64)
    slope, height = np.polyfit(errors + logs, logs, 1, w=np.sqrt(weights))
    assert total == pytest.approx(0.5 * (weights * (logs - slope * (errors + logs) - height) ** 2).sum(), rel=1e-4)
    nearer = Batch(batches[3].inputs, {"together": batches[3].targets["together"] / np.float32(2)})
    assert learner.evaluate(nearer) == (pytest.approx(total / 4, rel=1e-4), count)
    against = Batch(batches[3].inputs, {"together": -batches[3].targets["together"]})
    nothing = 0.5 * (weights * (logs - np.average(logs, weights=weights)) ** 2).sum()
    assert learner.evaluate(against)[0] == pytest.approx(nothing, rel=1e-4), "no line may turn what is told around"


def test_held_out_loss_falls_while_it_learns():
    """With but a factor taken out it rose and fell by chance, and ended above where it began."""
    text, epochs = random_text(WORDS, 20_000), 12
    objective = Cooccurrences(WORDS, frozenset({0}), window=5, text_unit="document", count_cap=10.0, power=0.75)
    taught, examining = portion_of(text[len(text) // 20 :]), portion_of(text[: len(text) // 20])
    learner, held_out, told = model(width=50), objective.batch(examining, 1 << 30, BatchKey(0, 0)), []
    steps = objective.steps(taught, 8000)
    for step in range(epochs * steps):
        learner.train_batch(objective.batch(taught, 8000, BatchKey(0, step)), rate=0.05, moment=(0, step))
        if not (step + 1) % steps:
            told.append(learner.evaluate(held_out)[0])
    assert all(later < earlier for earlier, later in pairwise(told)), told
    assert told[-1] < 0.9 * told[0], told


def test_the_same_bits_whatever_the_threads(batches: list[Batch], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(glove, "MIN_THREADED_ENTRIES", 0)
    learned, told = [], []
    for threads in (1, 2, 5, 40):
        learner = model()
        told.append([learner.train_batch(batch, rate=0.05, threads=threads) for batch in batches])
        learned.append(learner)
    assert all(same(learned[0], other) for other in learned[1:])
    assert all(losses == told[0] for losses in told)
    assert not same(learned[0], model())


def test_it_learns_what_single_steps_in_double_precision_do(batches: list[Batch]):
    learner = model(width=20)
    exact = [table.astype(np.float64) for table in learner._tables.values()]
    rng = np.random.default_rng(0)
    for number, batch in enumerate(batches[:6]):
        mine = learner.train_batch(batch, rate=0.05)
        rows = batch.inputs["tokens"], batch.inputs["beside"], batch.targets["together"], batch.inputs["weights"]
        theirs = (
            kernels.sweep_reference(
                rng.permutation(batch.num_target_tokens), *rows, *exact, layout.padded_width(20), 0.05
            )
            / batch.num_target_tokens
        )
        assert mine == pytest.approx(theirs, rel=0.08 if not number else 0.04), "another order is as good"


def test_it_goes_on_where_it_was(batches: list[Batch]):
    unbroken, broken = model(), model()
    for batch in batches[:2]:
        unbroken.train_batch(batch, rate=0.05)
        broken.train_batch(batch, rate=0.05)
    resumed = model(seed=9)
    resumed.load(broken.arrays())
    assert np.array_equal(resumed.matrix, broken.matrix)
    resumed.load_training_state(broken.training_state())
    for batch in batches[2:4]:
        unbroken.train_batch(batch, rate=0.05)
        resumed.train_batch(batch, rate=0.05)
    assert same(unbroken, resumed)
    anew = model(seed=9)
    anew.warm_start(broken.arrays())
    assert np.array_equal(anew.matrix, broken.matrix)
    assert all((array == 1).all() for array in anew.training_state().values())


def test_what_it_begins_with():
    assert same(model(seed=3), model(seed=3))
    assert not same(model(seed=3), model(seed=4))
    made = model(width=8, never=(0, 7))
    for name, array in made.arrays().items():
        assert not array[[0, 7]].any(), "what is no word has no vector"
        if name == "counts":
            continue
        assert 0.04 < np.abs(array).max() <= 0.5 / 8, name
    assert np.array_equal(made.matrix, made.arrays()["words.vectors"] + made.arrays()["contexts.vectors"])
    assert made.num_parameters == 2 * WORDS * 9
    assert made.describe() == {"vocabulary": WORDS, "words": WORDS - 2, "width": 8}
    assert made.notes == []
    assert made.heads == ("together",)


@pytest.mark.parametrize("what", ["lacks", "has", "shape", "kind"])
def test_loading_is_strict(what: str):
    made, arrays = model(), model().arrays()
    if what == "lacks":
        del arrays["words.biases"]
    elif what == "has":
        arrays["more"] = np.zeros(1, np.float32)
    elif what == "shape":
        arrays["words.biases"] = arrays["words.biases"][:-1]
    else:
        arrays["words.biases"] = arrays["words.biases"].astype(np.float64)
    with pytest.raises(ForebearError, match="more" if what == "has" else r"words\.biases"):
        made.load(arrays)
    assert same(made, model()), "nothing of it was taken"


@pytest.mark.parametrize("rate", [1e9, 1e30])
def test_a_rate_that_is_too_high_is_seen(batches: list[Batch], rate: float):
    learner = model()
    assert not np.isfinite([learner.train_batch(batch, rate=rate) for batch in batches[:4]]).all()


def test_small_shapes():
    source: Subset = portion_of([[[1, 1, 1, 2]]])
    objective = Cooccurrences(3, frozenset({0}), window=1, text_unit="sentence", count_cap=100.0, power=0.75)
    made = GloveModel(vocabulary=3, never=[0], width=1)
    made.initialize(0)
    losses = [
        made.train_batch(objective.batch(source, 100, BatchKey(0, step)), rate=0.05, threads=3) for step in range(500)
    ]
    assert losses[-1] < 0.1 * losses[0]
    nothing = objective.batch(portion_of([[[1]]]), 100, BatchKey(0, 0))
    assert made.train_batch(nothing, rate=0.05) == 0
    assert made.evaluate(nothing) == (0, 0)
    with pytest.raises(InputError, match="width"):
        GloveModel(vocabulary=3, width=0)
