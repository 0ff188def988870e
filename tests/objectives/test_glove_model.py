"""The GloVe model: loss, determinism across threads, resuming, loading, and divergence."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from forebear.data.corpus.subset import Subset
from forebear.embeddings import glove
from forebear.embeddings.glove import GloveModel
from forebear.errors import ForebearError, InputError
from forebear.kernels import glove as kernels
from forebear.kernels import vector_tables
from forebear.objectives.batch import Batch, BatchKey
from forebear.objectives.cooccurrence import Cooccurrences
from small_subsets import random_documents, subset_of

WORDS = 300


@pytest.fixture(scope="module")
def batches() -> list[Batch]:
    source = subset_of(random_documents(WORDS, 30_000))
    objective = Cooccurrences(WORDS, frozenset({0}), window=5, text_unit="document", x_max=10.0, alpha=0.75)
    with pytest.MonkeyPatch.context() as patch:
        import tempfile

        patch.setenv("FOREBEAR_CACHE", tempfile.mkdtemp())
        return [objective.batch(source, 8000, BatchKey(0, step)) for step in range(4 * objective.steps(source, 8000))]


def model(width: int = 10, seed: int = 0, excluded_ids: tuple[int, ...] = (0,)) -> GloveModel:
    glove_model = GloveModel(vocab_size=WORDS, excluded_ids=excluded_ids, width=width)
    glove_model.initialize(seed)
    return glove_model


def equal_models(first: GloveModel, second: GloveModel) -> bool:
    pairs = [(each_model.arrays() | each_model.training_state()) for each_model in (first, second)]
    return all(np.array_equal(array, pairs[1][name]) for name, array in pairs[0].items())


def paper_loss(learner: GloveModel, batch: Batch) -> float:
    """The paper's loss over all entries, by its formula."""
    arrays, inputs = learner.arrays(), batch.inputs
    rows, columns = inputs["tokens"], inputs["beside"]
    products = (arrays["words.vectors"][rows] * arrays["contexts.vectors"][columns]).sum(axis=1)
    errors = products + arrays["words.biases"][rows] + arrays["contexts.biases"][columns] - batch.targets["together"]
    return float((0.5 * inputs["weights"] * errors**2).sum())


def test_glove_train_batch_returns_loss_before_update_and_reduces_it(batches: list[Batch]):
    learner = model()
    total, count = paper_loss(learner, batches[0]), batches[0].num_target_tokens
    assert learner.evaluate(batches[0])[1] == count
    assert learner.evaluate(batches[0])[0] < total, "how long a text is, is not asked"
    first = [learner.train_batch(batch, rate=0.05) for batch in batches[:3]]
    assert first[0] < total / count, "entries of a batch that share words learn from each other"
    for _ in range(5):
        last = [learner.train_batch(batch, rate=0.05) for batch in batches[:3]]
    assert np.mean(last) < 0.85 * np.mean(first)
    inputs = {name: array[:1] for name, array in batches[0].inputs.items()}
    single_entry = Batch(inputs, {"together": batches[0].targets["together"][:1]})
    before = paper_loss(learner, single_entry)
    assert learner.train_batch(single_entry, rate=0.05) == pytest.approx(before, rel=1e-4)
    assert paper_loss(learner, single_entry) < before


def test_glove_evaluation_fits_scale_and_offset_of_counts(batches: list[Batch]):
    learner = model()
    for batch in batches[:3]:
        learner.train_batch(batch, rate=0.05)
    total, count = learner.evaluate(batches[3])
    shifted = Batch(batches[3].inputs, {"together": batches[3].targets["together"] - np.float32(2)})
    assert learner.evaluate(shifted) == (pytest.approx(total, rel=1e-4), count)
    arrays = {name: array.astype(np.float64) for name, array in learner.arrays().items()}
    rows, columns, weights = (batches[3].inputs[name] for name in ("tokens", "beside", "weights"))
    errors = (arrays["words.vectors"][rows] * arrays["contexts.vectors"][columns]).sum(axis=1)
    errors += arrays["words.biases"][rows] + arrays["contexts.biases"][columns] - batches[3].targets["together"]
    log_counts = batches[3].targets["together"].astype(np.float64)
    slope, offset = np.polyfit(errors + log_counts, log_counts, 1, w=np.sqrt(weights))
    assert total == pytest.approx(
        0.5 * (weights * (log_counts - slope * (errors + log_counts) - offset) ** 2).sum(), rel=1e-4
    )
    halved = Batch(batches[3].inputs, {"together": batches[3].targets["together"] / np.float32(2)})
    assert learner.evaluate(halved) == (pytest.approx(total / 4, rel=1e-4), count)
    negated = Batch(batches[3].inputs, {"together": -batches[3].targets["together"]})
    constant_fit_loss = 0.5 * (weights * (log_counts - np.average(log_counts, weights=weights)) ** 2).sum()
    assert learner.evaluate(negated)[0] == pytest.approx(constant_fit_loss, rel=1e-4), (
        "no line may turn what is told around"
    )


def test_glove_held_out_loss_falls_every_epoch():
    """With only a scale factor fitted, the held-out loss rose and fell randomly and ended above its start."""
    text, epochs = random_documents(WORDS, 20_000), 12
    objective = Cooccurrences(WORDS, frozenset({0}), window=5, text_unit="document", x_max=10.0, alpha=0.75)
    train, held_out_source = subset_of(text[len(text) // 20 :]), subset_of(text[: len(text) // 20])
    learner, held_out, held_out_losses = model(width=50), objective.batch(held_out_source, 1 << 30, BatchKey(0, 0)), []
    steps = objective.steps(train, 8000)
    for step in range(epochs * steps):
        learner.train_batch(objective.batch(train, 8000, BatchKey(0, step)), rate=0.05, rng_key=(0, step))
        if not (step + 1) % steps:
            held_out_losses.append(learner.evaluate(held_out)[0])
    assert all(later < earlier for earlier, later in pairwise(held_out_losses)), held_out_losses
    assert held_out_losses[-1] < 0.9 * held_out_losses[0], held_out_losses


def test_glove_training_is_bit_identical_for_any_number_of_threads(
    batches: list[Batch], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(glove, "MIN_THREADED_ENTRIES", 0)
    learners, losses = [], []
    for threads in (1, 2, 5, 40):
        learner = model()
        losses.append([learner.train_batch(batch, rate=0.05, threads=threads) for batch in batches])
        learners.append(learner)
    assert all(equal_models(learners[0], other) for other in learners[1:])
    assert all(each_losses == losses[0] for each_losses in losses)
    assert not equal_models(learners[0], model())


def test_glove_loss_equals_float64_reference_sweep(batches: list[Batch]):
    learner = model(width=20)
    float64_tables = [table.astype(np.float64) for table in learner._tables.values()]
    rng = np.random.default_rng(0)
    for number, batch in enumerate(batches[:6]):
        loss = learner.train_batch(batch, rate=0.05)
        entries = batch.inputs["tokens"], batch.inputs["beside"], batch.targets["together"], batch.inputs["weights"]
        reference_loss = (
            kernels.adagrad_pass_reference(
                rng.permutation(batch.num_target_tokens),
                *entries,
                *float64_tables,
                vector_tables.padded_width(20),
                0.05,
            )
            / batch.num_target_tokens
        )
        assert loss == pytest.approx(reference_loss, rel=0.08 if not number else 0.04), "another order is as good"


def test_glove_resumes_and_warm_starts_from_saved_arrays(batches: list[Batch]):
    uninterrupted, interrupted = model(), model()
    for batch in batches[:2]:
        uninterrupted.train_batch(batch, rate=0.05)
        interrupted.train_batch(batch, rate=0.05)
    resumed = model(seed=9)
    resumed.load(interrupted.arrays())
    assert np.array_equal(resumed.matrix, interrupted.matrix)
    resumed.load_training_state(interrupted.training_state())
    for batch in batches[2:4]:
        uninterrupted.train_batch(batch, rate=0.05)
        resumed.train_batch(batch, rate=0.05)
    assert equal_models(uninterrupted, resumed)
    warm_started = model(seed=9)
    warm_started.warm_start(interrupted.arrays())
    assert np.array_equal(warm_started.matrix, interrupted.matrix)
    assert all((array == 1).all() for array in warm_started.training_state().values())


def test_glove_initialization_and_description():
    assert equal_models(model(seed=3), model(seed=3))
    assert not equal_models(model(seed=3), model(seed=4))
    glove_model = model(width=8, excluded_ids=(0, 7))
    for name, array in glove_model.arrays().items():
        assert not array[[0, 7]].any(), "what is no word has no vector"
        if name == "counts":
            continue
        assert 0.04 < np.abs(array).max() <= 0.5 / 8, name
    assert np.array_equal(
        glove_model.matrix, glove_model.arrays()["words.vectors"] + glove_model.arrays()["contexts.vectors"]
    )
    assert glove_model.num_parameters == 2 * WORDS * 9
    assert glove_model.describe() == {"vocabulary": WORDS, "words": WORDS - 2, "width": 8}
    assert glove_model.notes == []
    assert glove_model.heads == ("together",)


@pytest.mark.parametrize("defect", ["lacks", "has", "shape", "kind"])
def test_glove_load_refuses_arrays_that_do_not_fit(defect: str):
    glove_model, arrays = model(), model().arrays()
    if defect == "lacks":
        del arrays["words.biases"]
    elif defect == "has":
        arrays["more"] = np.zeros(1, np.float32)
    elif defect == "shape":
        arrays["words.biases"] = arrays["words.biases"][:-1]
    else:
        arrays["words.biases"] = arrays["words.biases"].astype(np.float64)
    with pytest.raises(ForebearError, match="more" if defect == "has" else r"words\.biases"):
        glove_model.load(arrays)
    assert equal_models(glove_model, model()), "nothing of it was taken"


@pytest.mark.parametrize("rate", [1e9, 1e30])
def test_glove_loss_is_not_finite_for_too_high_learning_rate(batches: list[Batch], rate: float):
    learner = model()
    assert not np.isfinite([learner.train_batch(batch, rate=rate) for batch in batches[:4]]).all()


def test_glove_trains_on_two_words_and_on_no_entries():
    source: Subset = subset_of([[[1, 1, 1, 2]]])
    objective = Cooccurrences(3, frozenset({0}), window=1, text_unit="sentence", x_max=100.0, alpha=0.75)
    glove_model = GloveModel(vocab_size=3, excluded_ids=[0], width=1)
    glove_model.initialize(0)
    losses = [
        glove_model.train_batch(objective.batch(source, 100, BatchKey(0, step)), rate=0.05, threads=3)
        for step in range(500)
    ]
    assert losses[-1] < 0.1 * losses[0]
    empty_batch = objective.batch(subset_of([[[1]]]), 100, BatchKey(0, 0))
    assert glove_model.train_batch(empty_batch, rate=0.05) == 0
    assert glove_model.evaluate(empty_batch) == (0, 0)
    with pytest.raises(InputError, match="width"):
        GloveModel(vocab_size=3, width=0)
