"""The HMM tagger: counts by hand, Viterbi tags, and unknown words tagged by their suffix."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_hmms import END, UNKNOWN

from forebear.errors import ForebearError, InputError
from forebear.statistical.hmm_tagger import HMMTagger, SuffixTagModel
from forebear.tasks import tagging

PADDING = 2
WORDS = ["<unk>", "</s>", "<pad>", "the", "dog", "dogs", "runs", "ran", "happily", "sadly"]
TAGS = ("article", "noun", "verb", "adverb")
OOV_WORDS = {len(WORDS): "madly", len(WORDS) + 1: "Ωμέγα", len(WORDS) + 2: ""}
SENTENCES = [
    "the/article dog/noun runs/verb happily/adverb",
    "the/article dogs/noun ran/verb sadly/adverb",
    "dogs/noun ran/verb",
    "the/article runs/noun",
]


def new_tagger(tags: int = len(TAGS), legal: tuple[np.ndarray, ...] | None = None) -> HMMTagger:
    all_legal = (np.ones((tags, tags), bool), np.ones(tags, bool), np.ones(tags, bool))
    return HMMTagger(
        words=WORDS,
        eos_id=END,
        unk_id=UNKNOWN,
        allowed=legal or all_legal,  # pyright: ignore[reportArgumentType]
        excluded_ids=frozenset({UNKNOWN, END, PADDING}),
        oov_words=lambda numbers: [OOV_WORDS[number] for number in numbers.tolist()],
    )


def tagged_batch(sentences: list[str]) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    pairs = [[item.split("/") for item in sentence.split()] for sentence in sentences]
    tokens = np.array([WORDS.index(word) for row in pairs for word, _ in row])
    tags = np.array([TAGS.index(tag) for row in pairs for _, tag in row])
    return {"tokens": tokens, "lengths": np.array([len(row) for row in pairs])}, {"tag": tags}


def fitted_tagger() -> HMMTagger:
    model = new_tagger()
    model.fit(*tagged_batch(SENTENCES))
    return model


def best_tags(model: HMMTagger, tokens: list[int]) -> list[str]:
    logits = model.logits({"tokens": np.array(tokens), "lengths": np.array([len(tokens)])})
    return [TAGS[tag] for tag in tagging.chain_viterbi(logits["tag"], [len(tokens)], *model.transitions)]


def test_tagger_counts_by_hand():
    arrays = fitted_tagger().arrays()
    transitions = arrays["moves"]
    article, noun, verb, adverb, border = range(5)
    expected = np.zeros((5, 5), int)
    for tag, next_tag, count in (
        (border, article, 3), (border, noun, 1), (article, noun, 3), (noun, verb, 3), (verb, adverb, 2),
        (adverb, border, 2), (verb, border, 1), (noun, border, 1),
    ):  # fmt: skip
        expected[tag, next_tag] = count
    assert transitions.tolist() == expected.tolist()
    runs = arrays["words"] == WORDS.index("runs")
    assert dict(zip(arrays["tags"][runs].tolist(), arrays["counts"][runs].tolist(), strict=True)) == {noun: 1, verb: 1}


def test_ambiguous_word_is_tagged_by_its_context():
    model = fitted_tagger()
    assert best_tags(model, [WORDS.index(word) for word in "the runs ran".split()]) == ["article", "noun", "verb"]
    assert best_tags(model, [WORDS.index(word) for word in "the dog runs".split()]) == ["article", "noun", "verb"]


def test_oov_word_is_tagged_by_its_suffix():
    model = fitted_tagger()
    assert best_tags(model, [3, 5, 7, len(WORDS)])[-1] == "adverb"  # the dogs ran madly
    scores = model.logits({"tokens": np.array([len(WORDS), len(WORDS) + 1, len(WORDS) + 2, UNKNOWN])})["tag"]
    assert np.isfinite(scores).all()
    assert scores[0].argmax() == TAGS.index("adverb")


def test_logits_and_transitions_of_the_tagger_are_normalized():
    model = fitted_tagger()
    states, (transitions, starts, ends) = model.probabilities().states, model.transitions
    assert np.exp(model.logits({"tokens": np.array([5])})["tag"][0]) == pytest.approx(states.emissions[5, :-1])
    assert np.exp(transitions).sum(1) + np.exp(ends) == pytest.approx(np.ones(4))
    assert np.exp(starts).sum() + states.transitions[-1, -1] == pytest.approx(1)


@given(st.lists(st.integers(0, len(WORDS) + 2), max_size=5))
def test_tagger_next_token_probabilities_sum_to_one(context: list[int]):
    probs = np.exp(fitted_tagger().next_log_probs([np.array([END, *context])])[0])
    assert probs.sum() == pytest.approx(1)
    assert probs[PADDING] == 0
    assert probs[UNKNOWN] > 0


def test_tagger_scores_equal_next_log_probs():
    model, row = fitted_tagger(), np.array([END, 3, len(WORDS), 7, END])
    scores = model.score([row])[0]
    log_probs = model.next_log_probs([row[:length] for length in range(1, len(row))])
    known_row = np.where(row < len(WORDS), row, UNKNOWN)
    assert scores == pytest.approx(log_probs[np.arange(4), known_row[1:]])


def test_illegal_transitions_have_probability_zero():
    legal_transitions = np.ones((4, 4), bool)
    legal_transitions[0, 1] = False
    model = new_tagger(legal=(legal_transitions, np.ones(4, bool), np.ones(4, bool)))
    model.fit(*tagged_batch(SENTENCES))
    assert model.transitions[0][0, 1] == -np.inf
    assert model.probabilities().states.transitions.sum(1) == pytest.approx(np.ones(5))


def test_tagger_does_not_count_words_without_a_tag():
    inputs, targets = tagged_batch(SENTENCES)
    targets["tag"][1] = -1
    model = new_tagger()
    model.fit(inputs, targets)
    arrays = model.arrays()
    assert arrays["counts"].sum() == 11
    assert arrays["moves"][0, 2] == 1  # its neighbors become adjacent


def test_saved_tagger_loads_with_equal_logits():
    model, loaded = fitted_tagger(), new_tagger()
    loaded.load(model.arrays())
    tokens = {"tokens": np.arange(len(WORDS) + 3)}
    assert np.array_equal(model.logits(tokens)["tag"], loaded.logits(tokens)["tag"])
    assert model.num_parameters == loaded.num_parameters > 10
    assert model.describe()["words"] == 12
    with pytest.raises(ForebearError, match="lacks"):
        new_tagger().load({})
    with pytest.raises(ForebearError, match="not of"):
        new_tagger(3).load(model.arrays())


def test_tagger_refuses_data_without_tags():
    inputs, _ = tagged_batch(SENTENCES[:1])
    with pytest.raises(InputError, match="nothing is asked"):
        new_tagger().fit(inputs, {"tag": np.full(4, -1)})
    with pytest.raises(ForebearError, match="tags of 4 kinds"):
        new_tagger().fit(inputs, {"tag": np.full(4, 4)})
    with pytest.raises(ForebearError, match="counted nothing"):
        new_tagger().logits(inputs)


def test_tagger_with_one_word_and_one_tag():
    all_legal = (np.ones((1, 1), bool), np.ones(1, bool), np.ones(1, bool))
    model = new_tagger(1, all_legal)
    model.fit({"tokens": np.array([3]), "lengths": np.array([1])}, {"tag": np.array([0])})
    assert np.exp(model.next_log_probs([np.array([END]), np.array([END, 3])])).sum(1) == pytest.approx(np.ones(2))


def test_suffix_model_backs_off_to_shorter_suffixes():
    words = ["gladly", "madly", "badly", "table", "cable", "北京市", "上海市", "走"]
    counts = np.zeros((len(words), 3))
    counts[:3, 0] = counts[3:5, 1] = counts[5:7, 1] = 1
    counts[7, 2] = 1
    tag_probs = SuffixTagModel(words, counts).tag_probs(["boldly", "fable", "武汉市", "zzz", "", "42"])
    assert tag_probs.sum(1) == pytest.approx(np.ones(6))
    assert tag_probs[:3].argmax(1).tolist() == [0, 1, 1]
    assert (tag_probs > 0).all()
