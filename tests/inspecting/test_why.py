"""Which words speak for an answer: exact on networks that are linear or quadratic, complete, and right where a word was
planted; in both languages, for every task, and with linear models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from forebear.errors import BadInput
from forebear.inspecting.attributing import Why, why
from forebear.inspecting.gradients import MOST_STEPS, STEPS, TOLERANCE, Attributed, attributed
from forebear.inspecting.targets import Point, Target, odds
from forebear.inspecting.tracing import trace
from forebear.networks.answers import LabelHead
from forebear.networks.embedding import Embedding
from forebear.networks.model import Model
from forebear.networks.states import States
from forebear.objectives.batch import NOTHING
from forebear.objectives.layout import Layout
from forebear.tasks.answering import Answering
from forebear.tasks.choice import Choice
from forebear.tasks.classification import Classification
from forebear.tasks.examples import Asked, Choices, Labelled, Tagged
from forebear.tasks.pairs import Pairs
from forebear.tasks.predicting import predicted
from forebear.tasks.tagging import Tagging
from forebear.text.tokenizer import Tokenizer
from forebear.text.training import train
from forebear.using.run import Run
from planted_runs import BAD, GOOD, planted, sentences
from small_runs import trained

ENGLISH, CHINESE = "a splendid film about his dog", "上周在镇上放映这部讨厌的电影"
ASKED: dict[str, list[Any]] = {
    "classification": [ENGLISH, CHINESE],
    "pairs": [(ENGLISH, CHINESE)],
    "choice": [("now:", ENGLISH, CHINESE)],
    "tagging": [ENGLISH],
    "answering": [("how was it", ENGLISH), ("how was it", CHINESE)],
}


class Runs:
    """Runs that are made when they are first asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.made = folder, {}

    def __call__(self, milestone: str, task: str = "classification", **how: Any) -> Run:
        key = f"{milestone}-{task}-{sorted(how.items())}"
        if key not in self.made:
            folder = self.folder / str(len(self.made))
            folder.mkdir()
            self.made[key] = planted(folder, task, milestone, **how)
        return self.made[key]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory):
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield Runs(tmp_path_factory.mktemp("runs"))
    torch.set_num_threads(threads)


# -- exactly


class Bag(torch.nn.Module):
    """An encoder that is an embedding and nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.width, self.depth = Embedding(7, 3, positions=8, placing="none"), 3, 0

    def forward(self, tokens, lengths, segments=None, kept=None) -> States:
        rows = tuple(lengths.tolist())
        return States([self.embedding(tokens, rows)], rows)


class Square(torch.nn.Module):
    """(w · mean)² of each row, against 0."""

    def __init__(self, weight: torch.Tensor) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(weight)

    def forward(self, states: States) -> torch.Tensor:
        means = torch.stack([row.mean(0) for row in states.last.split(states.lengths)])
        return torch.stack((torch.zeros(len(means)), (means @ self.weight) ** 2), 1)

    def wanted(self, lengths, target) -> None:
        return None


LABEL = Target("yes", "yes", 0.5, lambda out: odds(out["label"][:, 0], 1), (Point("label", 0, 1),))
ROW, INSIDE = np.array([0, 3, 4, 4, 1]), np.array([False, True, True, True, False])


def found(model: Model, method: str, hidden: int | None = 2) -> Attributed:
    inputs = {"tokens": ROW, "lengths": np.array([len(ROW)])}
    return attributed(model, inputs, LABEL, INSIDE, hidden, method)  # pyright: ignore[reportArgumentType]


def bag(head: torch.nn.Module) -> tuple[Model, np.ndarray]:
    model = Model(Bag(), {"label": head}).initialise(3)
    model.encoder.embedding.token.weight = torch.nn.Parameter(torch.randn(7, 3, generator=torch.manual_seed(1)))
    return model, model.encoder.embedding.token.weight.detach().double().numpy()


def test_on_a_linear_network_both_ways_are_exact():
    model, table = bag(LabelHead(3, 2, "mean", dense=False))
    choose: Any = model.heads["label"].choose
    choose.weight = torch.nn.Parameter(torch.tensor([[1.0, -2.0, 0.5], [0.25, 3.0, -1.0]]))
    choose.bias = torch.nn.Parameter(torch.tensor([0.3, -0.1]))
    apart = np.array([-0.75, 5.0, -1.5])  # between the two rows of weights, by hand
    by_hand = table[ROW] @ apart / 5
    gradients = found(model, "gradients")
    np.testing.assert_allclose(gradients.values, by_hand, atol=1e-6)
    assert gradients.score == pytest.approx(by_hand.sum() - 0.4, abs=1e-6)
    integrated = found(model, "integrated")
    np.testing.assert_allclose(integrated.values, np.where(INSIDE, (table[ROW] - table[2]) @ apart / 5, 0), atol=1e-6)
    assert integrated.steps == STEPS
    zeros = found(model, "integrated", hidden=None)
    np.testing.assert_allclose(zeros.values, np.where(INSIDE, by_hand, 0), atol=1e-6)


def test_on_a_square_integrated_gradients_are_exact_and_gradients_are_not():
    """∫ of the slope along the way from x' to x: (w·x + w·x') · w (x - x')."""
    weight = np.array([0.7, -1.1, 2.0])
    model, table = bag(Square(torch.tensor(weight, dtype=torch.float32)))
    model.heads["label"].weight = torch.nn.Parameter(torch.tensor(weight, dtype=torch.float32))
    real, hidden = table[ROW], np.where(INSIDE[:, None], table[2], table[ROW])
    by_hand = (real.mean(0) + hidden.mean(0)) @ weight * ((real - hidden) @ weight) / 5
    integrated = found(model, "integrated")
    np.testing.assert_allclose(integrated.values, by_hand, atol=1e-5)
    gain = (real.mean(0) @ weight) ** 2 - (hidden.mean(0) @ weight) ** 2
    assert integrated.score - (integrated.baseline or 0) == pytest.approx(gain, abs=1e-5)
    np.testing.assert_allclose(found(model, "gradients").values.sum(), 2 * (real.mean(0) @ weight) ** 2, atol=1e-5)


def test_steps_are_doubled_while_something_is_missing():
    class Step(Square):
        def forward(self, states: States) -> torch.Tensor:
            means = torch.stack([row.mean(0) for row in states.last.split(states.lengths)])
            steep = torch.sigmoid(3000 * (means @ self.weight - self.middle))  # hardly any place sees it rise
            return torch.stack((torch.zeros(len(means)), steep), 1)

    head = Step(torch.tensor([0.7, -1.1, 2.0]))
    model, table = bag(head)
    hidden = np.where(INSIDE[:, None], table[2], table[ROW])
    weight = head.weight.detach().double().numpy()
    head.middle = float((0.6 * table[ROW].mean(0) + 0.4 * hidden.mean(0)) @ weight)
    attribution = found(model, "integrated")
    assert attribution.steps is not None
    assert STEPS < attribution.steps <= MOST_STEPS


# -- against the network itself, by another way: its answers, with an embedding that is changed from outside


def log_odds(run: Run, inputs: dict[str, torch.Tensor], label: int, change) -> float:
    hook = run.network.encoder.embedding.register_forward_hook(lambda module, given, output: change(output))
    try:
        with torch.no_grad():
            logits = run.network.answers(inputs)["label"][0].double() / run.task.temperature  # pyright: ignore
    finally:
        hook.remove()
    return float(logits[label] - torch.cat((logits[:label], logits[label + 1 :])).logsumexp(0))


def test_gradients_and_their_integral_agree_with_differences(runs: Runs):
    run = runs("bert")
    task, tokenizer = run.task, run.tokenizer
    assert task is not None
    rows = task.rows([Labelled((ENGLISH,))], tokenizer, run.folder.milestone.layout(tokenizer))
    inputs = {name: torch.from_numpy(array) for name, array in rows.batch([0]).inputs.items()}
    pieces = tokenizer.encode(ENGLISH)
    told = why(run, ENGLISH, method="gradients")
    label = task.labels.index(told.target)  # pyright: ignore[reportAttributeAccessIssue]
    at = next(word for word in told.words if word.text == "splendid")
    own = [n + 1 for n, (a, b) in enumerate(pieces.spans) if at.start <= a < at.end]  # [CLS] stands before

    def scaled(by: float):
        def change(x: torch.Tensor) -> torch.Tensor:
            x = x.clone()
            x[own] *= by
            return x

        return log_odds(run, inputs, label, change)

    assert at.attribution == pytest.approx((scaled(1.01) - scaled(0.99)) / 0.02, rel=0.02)
    assert told.score == pytest.approx(scaled(1.0), abs=1e-4)

    # Integrated gradients of all words together: along the straight way, by small differences.
    told = why(run, ENGLISH)
    hidden = inputs["tokens"].clone()
    hidden[1:-1] = tokenizer.roles["mask"]
    embedding = run.network.encoder.embedding
    with torch.no_grad():
        ends = [embedding(tokens, (len(hidden),), inputs["segments"]) for tokens in (hidden, inputs["tokens"])]
    assert told.baseline == pytest.approx(log_odds(run, inputs, label, lambda x: ends[0]), abs=1e-4)
    steps, little, total = 60, 1e-2, 0.0
    for number in range(steps):
        x = ends[0] + (number + 0.5) / steps * (ends[1] - ends[0])
        moved = torch.zeros_like(x)
        moved[own] = (ends[1] - ends[0])[own]
        sides = [log_odds(run, inputs, label, lambda _, x=x, m=moved, s=s: x + s * little * m) for s in (1, -1)]
        total += (sides[0] - sides[1]) / (2 * little) / steps
    assert next(word for word in told.words if word.text == "splendid").attribution == pytest.approx(total, rel=0.02)


# -- complete


def adds_up(told: Why) -> None:
    assert told.baseline is not None
    assert told.gap is not None
    gain = told.score - told.baseline
    assert sum(word.attribution for word in told.words) + told.elsewhere + told.gap == pytest.approx(gain, abs=1e-5)
    assert abs(told.gap) <= TOLERANCE * max(abs(gain), 0.1)


WAYS = [("bert", task, {}) for task in ASKED] + [
    ("bert", "tagging", {"crf": True, "steps": 15}),
    ("gpt", "pairs", {"steps": 8}),  # in both orders
    ("gpt", "classification", {}),
    ("albert", "classification", {"how": "features", "steps": 8}),  # a mixture of layers
    ("roberta", "choice", {"steps": 8}),
    *(("ngram", task, {}) for task in ASKED),
]


@pytest.mark.parametrize(("milestone", "task", "how"), WAYS)
def test_what_words_add_is_what_the_score_gains(milestone: str, task: str, how: dict[str, Any], runs: Runs):
    run = runs(milestone, task, **how)
    for text in ASKED[task]:
        told = why(run, text)
        adds_up(told)
        assert told.target == told.said
        assert [told.texts[word.of][word.start : word.end] for word in told.words] == [word.text for word in told.words]
        assert all(word.read for word in told.words)
        if milestone != "ngram":
            assert told.elsewhere == 0  # what stands around texts stays as it is
        if task != "answering" and (milestone != "ngram" or task == "classification"):
            assert told.probability == pytest.approx(1 / (1 + np.exp(-told.score)), abs=1e-4)


@pytest.mark.parametrize("milestone", ["bert", "gpt", "ngram"])
def test_the_word_that_decides_says_most(milestone: str, runs: Runs):
    run = runs(milestone)
    held_out = sentences(16, seed=7)
    right = 0
    for text, label in held_out:
        told = why(run, text)
        assert told.target == label
        strongest = told.strongest(1)[0]
        right += strongest.text in (*GOOD, *BAD) and strongest.attribution > 0
        other = why(run, text, of="bad" if label == "good" else "good")
        assert other.said == label
        assert other.probability == pytest.approx(1 - (told.probability or 0), abs=1e-4)
        # Of two labels what speaks for one speaks against the other.
        np.testing.assert_allclose(
            [word.attribution for word in other.words], [-word.attribution for word in told.words], atol=2e-3
        )
    assert right >= 15


@pytest.mark.parametrize(("task", "text"), [(task, text) for task in ("tagging", "answering") for text in ASKED[task]])
def test_the_word_itself_says_what_it_is(task: str, text: Any, runs: Runs):
    told = why(runs("bert", task), text)
    assert told.strongest(1)[0].text in (*GOOD, *BAD)
    assert told.strongest(1)[0].text in told.target


def test_of_pairs_the_text_that_decides(runs: Runs):
    told = why(runs("bert", "pairs"), (ENGLISH, CHINESE))
    assert told.target == "bad"
    assert (told.strongest(1)[0].text, told.strongest(1)[0].of) == ("讨厌", 1)


def test_a_linear_model_without_words_is_its_bias(runs: Runs):
    run = runs("ngram")
    told = why(run, ENGLISH)
    assert told.method == "weights"
    assert told.strongest(1)[0].text == "splendid"
    nothing = run.network.logits({"tokens": np.zeros(0, np.int64), "lengths": np.zeros(1, np.int64)})["label"][0]
    label = run.task.labels.index(told.target)  # pyright: ignore
    bias = (nothing[label] - nothing[1 - label]) / run.task.temperature  # pyright: ignore
    assert told.baseline == pytest.approx(bias, abs=1e-5)
    assert "splendid" in told.features[0].text
    assert sum(feature.value for feature in told.features) == pytest.approx(told.score - bias, abs=1e-5)


# -- what is asked


def test_a_crf_is_asked_as_a_whole(runs: Runs):
    run = runs("bert", "tagging", crf=True, steps=15)
    (answer,) = run.tag([ENGLISH])
    for number in range(len(answer.words)):
        for tag in ("O", "S-GOOD", "S-BAD"):
            told = why(run, ENGLISH, at=number + 1, of=tag, method="gradients")
            p = answer.probabilities[number, answer.labels.index(tag)]
            assert told.probability == pytest.approx(p, abs=1e-6)
            assert told.score == pytest.approx(np.log(p / (1 - p)), abs=1e-3)
    other = next(number for number, tag in enumerate(answer.tags, 1) if tag == "O")
    impossible = why(run, ENGLISH, at=len(answer.words), of="B-BAD")  # nothing follows that could end it
    assert impossible.probability == 0
    assert impossible.score < -1000
    assert why(run, ENGLISH, at=other).words[other - 1].attribution > 0


def test_of_tagging_words_and_names_and_kinds(runs: Runs):
    run = runs("bert", "tagging")
    assert why(run, ENGLISH).target == "splendid: S-GOOD"
    assert why(run, ENGLISH.split()).facts() == why(run, ENGLISH).facts()
    assert why(run, ENGLISH, at="splendid", of="BAD").target == "splendid: S-BAD"
    assert why(run, ENGLISH, at="film").target == "film: O"
    assert why(run, ENGLISH, at="3").target == "film: O"
    assert why(run, ENGLISH, at="film", of="GOOD").target == "film: S-GOOD"
    for text, how, word in [
        (ENGLISH, {"at": "cat"}, "there is no word 'cat'"),
        (ENGLISH, {"at": 0}, "there is no word 0"),
        (ENGLISH, {"at": "film", "of": "PER"}, "nothing of the kind 'PER' was learned"),
        ("the film about the dog", {"at": "the"}, "'the' stands here 2 times"),
        ("the film", {}, "nothing was found"),
        (" ", {}, "no words"),
    ]:
        with pytest.raises(BadInput, match=word) as refused:
            why(run, text, **how)
        assert refused.value.remedy


def test_of_answering_start_end_and_other_parts(runs: Runs):
    run = runs("bert", "answering")
    both = why(run, ("how was it", ENGLISH))
    start, end = (why(run, ("how was it", ENGLISH), at=part) for part in ("start", "end"))
    assert both.target == "splendid"
    assert start.target == "start of splendid"
    assert both.score == pytest.approx(start.score + end.score, abs=1e-4)
    assert both.probability == pytest.approx((start.probability or 0) * (end.probability or 0), rel=1e-4)
    assert both.probability == pytest.approx(run.answer("how was it", ENGLISH)[0].best.probability, rel=1e-4)
    other = why(run, ("how was it", ENGLISH), of="film about")
    assert (other.target, other.said) == ("film about", "splendid")
    assert (other.probability or 0) < 0.5
    for how, word in [({"of": "cat"}, "does not stand"), ({"of": " "}, "does not stand"), ({"at": "film"}, "--at is")]:
        with pytest.raises(BadInput, match=word):
            why(run, ("how was it", ENGLISH), **how)


def test_of_choices_another(runs: Runs):
    run = runs("bert", "choice")
    told = why(run, ASKED["choice"][0])
    assert (told.target, told.parts) == (ENGLISH, ("text", "choice 1", "choice 2"))
    assert why(run, ASKED["choice"][0], of="2").target == CHINESE
    assert why(run, ASKED["choice"][0], of=CHINESE).probability == pytest.approx(1 - (told.probability or 0), abs=1e-6)
    with pytest.raises(BadInput, match="none of the choices"):
        why(run, ASKED["choice"][0], of="3")


@pytest.mark.parametrize(
    ("task", "text", "how", "word"),
    [
        ("classification", ENGLISH, {"of": "worst"}, "no label is named 'worst'"),
        ("classification", " ", {}, "empty"),
        ("classification", (ENGLISH, CHINESE), {}, "single texts, and 2 came"),
        ("classification", ENGLISH, {"at": "film"}, "--at means nothing"),
        ("classification", ENGLISH, {"method": "guess"}, "--method is"),
        ("pairs", ENGLISH, {}, "pairs of texts, and 1 came"),
        ("answering", ENGLISH, {}, "1 texts came"),
        ("choice", ("now:", ENGLISH), {}, "nothing to choose"),
    ],
)
def test_what_cannot_be_explained_is_refused_with_a_remedy(task: str, text: Any, how: Any, word: str, runs: Runs):
    with pytest.raises(BadInput, match=word) as refused:
        why(runs("bert", task), text, **how)
    assert refused.value.remedy


def test_a_run_without_a_task_says_what_it_can_do(tmp_path: Path):
    run = Run(trained("ngram", tmp_path))
    with pytest.raises(BadInput, match="not adapted to a task") as refused:
        why(run, "a text")
    assert "generate" in refused.value.remedy


# -- long texts


def test_windows_of_a_long_text_are_joined(runs: Runs):
    run = runs("bert")
    text = f"{ENGLISH}. " * 14  # more than three rows
    told = why(run, text)
    adds_up(told)
    assert told.target == "good"
    assert [word.text for word in told.words] == text.replace(".", " .").split()
    assert all(word.read for word in told.words)
    said = {word: sum(one.attribution for one in told.words if one.text == word) for word in {*ENGLISH.split(), "."}}
    assert max(said, key=lambda word: said[word]) == "splendid"
    assert sum(one.attribution > 0 for one in told.words if one.text == "splendid") == 14


def test_what_is_not_read_is_said(runs: Runs):
    told = why(runs("bert", "pairs"), ("the film " * 40, CHINESE))
    assert [word.read for word in told.words[:5]] == [True] * 5
    unread = [word for word in told.words if not word.read]
    assert unread
    assert {word.attribution for word in unread} == {0.0}
    assert {word.of for word in unread} == {0}
    assert told.facts()["words"][79]["read"] is False
    adds_up(told)


# -- from tokens to words


@pytest.fixture(scope="module")
def cutters() -> dict[str, Tokenizer]:
    lines = [text for text, _ in sentences(60)]
    sizes = {"words": None, "characters": None, "wordpiece": 150, "bytepair": 300}
    return {kind: train(kind, lines, size=size, min_count=1) for kind, size in sizes.items()}


LAYOUT = Layout((0,), (1,), (1,), "first", segments=True, both_orders=True, context=16)
TEXT = st.text(st.sampled_from("ab 喜欢电影。,'’-3\n\U0001f600é\x00"), min_size=1, max_size=40).filter(str.strip)


@pytest.mark.parametrize("kind", ["words", "characters", "wordpiece", "bytepair"])
@settings(max_examples=30)
@given(one=TEXT, other=TEXT)
def test_every_word_stands_once_and_rows_are_the_task_s_own(
    kind: str, one: str, other: str, cutters: dict[str, Tokenizer]
):
    tokenizer = cutters[kind]
    tagging = Tagging(tags=("O", "S-X", "B-X", "I-X", "E-X"))
    for task, example in [
        (Classification(labels=("a", "b")), Labelled((one,))),
        (Pairs(labels=("a", "b")), Labelled((one, other))),
        (Choice(), Choices(one, (other, one))),
        (Answering(), Asked(one, other)),
        (tagging, Tagged(tagging.words(one))),
    ]:
        rows = task.rows([example], tokenizer, LAYOUT)
        traced = trace(task, example, tokenizer, LAYOUT)
        np.testing.assert_array_equal(traced.rows.tokens, rows.tokens)
        np.testing.assert_array_equal(traced.rows.lengths, rows.lengths)
        covered = [np.zeros(len(text), int) for text in traced.texts]
        for place in traced.words:
            covered[place.of][place.start : place.end] += 1
        for text, counts in zip(traced.texts, covered, strict=True):
            assert counts.max() <= 1
            assert all(count == 1 for character, count in zip(text, counts, strict=True) if character.strip())
        assert set(rows.tokens[~traced.inside].tolist()) <= {0, 1, tokenizer.unknown}
        words, elsewhere = traced.added_up(np.ones(len(rows.tokens)))
        assert words.sum() + elsewhere == len(rows.tokens)
        assert (traced.owners[~traced.inside] == NOTHING).all()


def test_words_are_those_of_the_language_and_never_less_than_a_token(cutters: dict[str, Tokenizer]):
    def words(kind: str, text: str) -> list[str]:
        traced = trace(Classification(labels=("a", "b")), Labelled((text,)), cutters[kind], LAYOUT)
        return [text[place.start : place.end] for place in traced.words]

    assert words("wordpiece", "I didn't, 我喜欢电影") == ["I", "didn't", ",", "我", "喜欢", "电影"]
    assert words("bytepair", "I didn't, 我喜欢电影") == ["I", "didn't", ",", "我", "喜欢", "电影"]
    assert words("characters", "a film") == ["a", "film"]


def test_tokens_of_a_word_count_for_it(runs: Runs):
    """The row of each token is known from `encode`, so that the sums can be made by hand."""
    run = runs("bert")
    text = "dreadful 讨厌 dog"
    pieces = run.tokenizer.encode(text)
    task, layout = run.task, run.folder.milestone.layout(run.tokenizer)
    assert task is not None
    traced = trace(task, Labelled((text,)), run.tokenizer, layout)
    values = np.arange(len(traced.owners), dtype=float) ** 2
    words, elsewhere = traced.added_up(values)
    by_hand = [
        sum(values[1 + n] for n, (a, _) in enumerate(pieces.spans) if begin <= a < end)
        for begin, end in ((0, 8), (9, 11), (12, 15))
    ]
    np.testing.assert_allclose(words, by_hand)
    assert elsewhere == values[0] + values[-1]
    assert predicted(run.network, traced.rows)["label"][0].shape == (2,)
