"""Tags as states: counted by hand, judged as a chain, and words that nobody has seen by how they are written."""

from __future__ import annotations

import numpy as np
import pytest
from hidden_chains import END, UNKNOWN
from hypothesis import given
from hypothesis import strategies as st

from forebear.errors import ForebearError, InputError
from forebear.statistical.hmm_tagger import HMMTagger, SuffixTagModel
from forebear.tasks import tagging

PADDING = 2
WORDS = ["<unk>", "</s>", "<pad>", "the", "dog", "dogs", "runs", "ran", "happily", "sadly"]
TAGS = ("article", "noun", "verb", "adverb")
BEYOND = {len(WORDS): "madly", len(WORDS) + 1: "Ωμέγα", len(WORDS) + 2: ""}
SENTENCES = [
    "the/article dog/noun runs/verb happily/adverb",
    "the/article dogs/noun ran/verb sadly/adverb",
    "dogs/noun ran/verb",
    "the/article runs/noun",
]


def tagger(tags: int = len(TAGS), legal: tuple[np.ndarray, ...] | None = None) -> HMMTagger:
    free = (np.ones((tags, tags), bool), np.ones(tags, bool), np.ones(tags, bool))
    return HMMTagger(
        words=WORDS,
        end=END,
        unknown=UNKNOWN,
        legal=legal or free,  # pyright: ignore[reportArgumentType]
        never=frozenset({UNKNOWN, END, PADDING}),
        spelled=lambda numbers: [BEYOND[number] for number in numbers.tolist()],
    )


def batch(sentences: list[str]) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    pairs = [[item.split("/") for item in sentence.split()] for sentence in sentences]
    tokens = np.array([WORDS.index(word) for row in pairs for word, _ in row])
    tags = np.array([TAGS.index(tag) for row in pairs for _, tag in row])
    return {"tokens": tokens, "lengths": np.array([len(row) for row in pairs])}, {"tag": tags}


def fitted() -> HMMTagger:
    model = tagger()
    model.fit(*batch(SENTENCES))
    return model


def best(model: HMMTagger, tokens: list[int]) -> list[str]:
    logits = model.logits({"tokens": np.array(tokens), "lengths": np.array([len(tokens)])})
    return [TAGS[one] for one in tagging.chain_viterbi(logits["tag"], [len(tokens)], *model.moves)]


def test_counts_are_those_by_hand():
    arrays = fitted().arrays()
    moves = arrays["moves"]
    article, noun, verb, adverb, border = range(5)
    wanted = np.zeros((5, 5), int)
    for one, other, many in (
        (border, article, 3), (border, noun, 1), (article, noun, 3), (noun, verb, 3), (verb, adverb, 2),
        (adverb, border, 2), (verb, border, 1), (noun, border, 1),
    ):  # fmt: skip
        wanted[one, other] = many
    assert moves.tolist() == wanted.tolist()
    runs = arrays["words"] == WORDS.index("runs")
    assert dict(zip(arrays["tags"][runs].tolist(), arrays["counts"][runs].tolist(), strict=True)) == {noun: 1, verb: 1}


def test_a_word_is_judged_with_those_around_it():
    model = fitted()
    assert best(model, [WORDS.index(word) for word in "the runs ran".split()]) == ["article", "noun", "verb"]
    assert best(model, [WORDS.index(word) for word in "the dog runs".split()]) == ["article", "noun", "verb"]


def test_a_word_that_nobody_has_seen_is_judged_by_its_ending():
    model = fitted()
    assert best(model, [3, 5, 7, len(WORDS)])[-1] == "adverb"  # the dogs ran madly
    told = model.logits({"tokens": np.array([len(WORDS), len(WORDS) + 1, len(WORDS) + 2, UNKNOWN])})["tag"]
    assert np.isfinite(told).all()
    assert told[0].argmax() == TAGS.index("adverb")


def test_logits_and_moves_are_the_tables_of_one_model():
    model = fitted()
    states, (between, begin, end) = model.finalize().states, model.moves
    assert np.exp(model.logits({"tokens": np.array([5])})["tag"][0]) == pytest.approx(states.emissions[5, :-1])
    assert np.exp(between).sum(1) + np.exp(end) == pytest.approx(np.ones(4))
    assert np.exp(begin).sum() + states.moves[-1, -1] == pytest.approx(1)


@given(st.lists(st.integers(0, len(WORDS) + 2), max_size=5))
def test_what_follows_is_probability(context: list[int]):
    shares = np.exp(fitted().next_log_probs([np.array([END, *context])])[0])
    assert shares.sum() == pytest.approx(1)
    assert shares[PADDING] == 0
    assert shares[UNKNOWN] > 0


def test_scores_are_what_follows():
    model, row = fitted(), np.array([END, 3, len(WORDS), 7, END])
    scores = model.score([row])[0]
    tables = model.next_log_probs([row[:place] for place in range(1, len(row))])
    known = np.where(row < len(WORDS), row, UNKNOWN)
    assert scores == pytest.approx(tables[np.arange(4), known[1:]])


def test_what_may_not_follow_never_does():
    between = np.ones((4, 4), bool)
    between[0, 1] = False
    model = tagger(legal=(between, np.ones(4, bool), np.ones(4, bool)))
    model.fit(*batch(SENTENCES))
    assert model.moves[0][0, 1] == -np.inf
    assert model.finalize().states.moves.sum(1) == pytest.approx(np.ones(5))


def test_words_without_a_tag_are_not_counted():
    inputs, targets = batch(SENTENCES)
    targets["tag"][1] = -1
    model = tagger()
    model.fit(inputs, targets)
    arrays = model.arrays()
    assert arrays["counts"].sum() == 11
    assert arrays["moves"][0, 2] == 1  # what stands on both sides of it is beside each other


def test_a_state_is_the_same_again():
    one, other = fitted(), tagger()
    other.load(one.arrays())
    tokens = {"tokens": np.arange(len(WORDS) + 3)}
    assert np.array_equal(one.logits(tokens)["tag"], other.logits(tokens)["tag"])
    assert one.num_parameters == other.num_parameters > 10
    assert one.describe()["words"] == 12
    with pytest.raises(ForebearError, match="lacks"):
        tagger().load({})
    with pytest.raises(ForebearError, match="not of"):
        tagger(3).load(one.arrays())


def test_nothing_to_count_is_refused():
    inputs, _ = batch(SENTENCES[:1])
    with pytest.raises(InputError, match="nothing is asked"):
        tagger().fit(inputs, {"tag": np.full(4, -1)})
    with pytest.raises(ForebearError, match="tags of 4 kinds"):
        tagger().fit(inputs, {"tag": np.full(4, 4)})
    with pytest.raises(ForebearError, match="counted nothing"):
        tagger().logits(inputs)


def test_one_word_with_one_tag():
    free = (np.ones((1, 1), bool), np.ones(1, bool), np.ones(1, bool))
    model = tagger(1, free)
    model.fit({"tokens": np.array([3]), "lengths": np.array([1])}, {"tag": np.array([0])})
    assert np.exp(model.next_log_probs([np.array([END]), np.array([END, 3])])).sum(1) == pytest.approx(np.ones(2))


def test_endings_lean_on_shorter_ones():
    words = ["gladly", "madly", "badly", "table", "cable", "北京市", "上海市", "走"]
    counts = np.zeros((len(words), 3))
    counts[:3, 0] = counts[3:5, 1] = counts[5:7, 1] = 1
    counts[7, 2] = 1
    found = SuffixTagModel(words, counts).tag_probs(["boldly", "fable", "武汉市", "zzz", "", "42"])
    assert found.sum(1) == pytest.approx(np.ones(6))
    assert found[:3].argmax(1).tolist() == [0, 1, 1]
    assert (found > 0).all()
