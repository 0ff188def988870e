"""The grammar: probabilities sum to one, parsing inverts generation, and errors name the rule."""

from __future__ import annotations

import re
from collections import Counter
from itertools import permutations
from math import inf, isclose, log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebear.demo import grammar
from forebear.demo.demo_lexicon import (
    ChoiceProbabilities,
    DemoLexicon,
    LexiconEntry,
    RandomSource,
    make_lexicon,
    parse_lexicon_file,
    section_lexicon,
    zipf_weights,
)
from forebear.demo.grammar import DemoGrammar, GenerationState, parse_rules
from forebear.errors import ForebearError

PEOPLE = make_lexicon(
    "person",
    [
        LexiconEntry("f", {"en.": "Ann", "en.she": "she", "zh.": "安"}),
        LexiconEntry("m", {"en.": "Bob", "en.she": "he", "zh.": "波"}),
        LexiconEntry("m", {"en.": "Bobby", "en.she": "he", "zh.": "波比"}),
    ],
    [3.0, 2.0, 1.0],
)


def noun_lexicon(name: str, rows: str) -> DemoLexicon:
    return section_lexicon(parse_lexicon_file(f"[{name}] nouns\n{rows}", "words.txt")[name])


THINGS = noun_lexicon("thing", "apple | 苹果 | 个\nleaf/leaves | 叶子 | 片")


def make_grammar(*rules: str) -> DemoGrammar:
    return DemoGrammar("en", {"person": PEOPLE, "thing": THINGS}, parse_rules("\n".join(rules), "en", "rules.txt"))


def generate(grammar: DemoGrammar, number: int) -> tuple[str, float]:
    state = GenerationState(RandomSource(f"test/{number}"))
    grammar.rules["top"].generate(state)
    return state.text(), state.random_source.bits


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=30))
def test_choice_probabilities_sum_to_one(weights: list[float]):
    probabilities = ChoiceProbabilities(weights)
    assert isclose(sum(2**-bits for bits in probabilities.bits), 1)
    excluded = set(range(0, len(weights), 2)) if len(weights) > 1 else set()
    remaining = [index for index in range(len(weights)) if index not in excluded]
    assert isclose(sum(2 ** -probabilities.bits_without(index, excluded) for index in remaining), 1, rel_tol=1e-6)


def test_sampled_choices_follow_their_probabilities():
    random_source, probabilities = RandomSource("often"), ChoiceProbabilities([5, 3, 2])
    counts = Counter(random_source.choose(probabilities) for _ in range(20_000))
    assert all(abs(counts[index] / 20_000 - share) < 0.015 for index, share in enumerate((0.5, 0.3, 0.2)))
    conditional_counts = Counter(random_source.choose_without(probabilities, {0}) for _ in range(20_000))
    assert set(conditional_counts) == {1, 2}
    assert abs(conditional_counts[1] / 20_000 - 0.6) < 0.015


def test_generation_bits_match_worked_example():
    rules = make_grammar("top", "    3* <P=person> eats [an apple|<thing.a>].", "    it rains.")
    first, second = zipf_weights(2, shift=5)
    share = 3 * first / (3 * first + second)
    text, bits = next(pair for pair in (generate(rules, n) for n in range(99)) if pair[0] == "Ann eats a leaf.")
    second_inside = second / (first + second)
    leaf = THINGS.probabilities.bits[1]
    assert isclose(bits, -log2(share) - log2(3 / 6) - log2(second_inside) + leaf)
    assert isclose(grammar.text_information(rules.rules["top"], text), bits)


def test_text_information_sums_over_all_derivations():
    """The bits of one derivation are only an upper bound of the information of an ambiguous text."""
    rules = make_grammar("top", "    <P=person> eats [an apple|<thing.a>].")
    node = rules.rules["top"]
    derivation_bits = list(grammar.derivation_bits(node, "Ann eats an apple."))
    assert len(derivation_bits) == 2
    assert isclose(
        grammar.text_information(node, "Ann eats an apple."), -log2(sum(2**-bits for bits in derivation_bits))
    )
    assert grammar.text_information(node, "Ann eats an apple.") < min(derivation_bits)


def test_probabilities_of_all_texts_of_a_grammar_sum_to_one():
    rules = make_grammar(
        "top",
        "    <P=person>[ and <Q=person-P>|] came. <P.she> <mood@P>.",
        "mood.f",
        "    [sang|slept]",
        "mood.m",
        "    [ran|2*slept]",
    )
    texts = {generate(rules, number)[0] for number in range(3000)}
    assert isclose(sum(2 ** -grammar.text_information(rules.rules["top"], text) for text in texts), 1, rel_tol=1e-9)
    assert "Bob and Bobby came. He ran." in texts
    assert not [text for text in texts if re.match(r"(\w+) and \1 |Ann.* He|Ann.* ran|Bob.* She|Bob.* sang", text)]


def test_repeated_choice_takes_none_twice_and_sums_to_one_over_orders():
    rules = make_grammar("top", "    <word*2>.", "word", "    red", "    blue", "    3* green")
    texts = {generate(rules, number)[0] for number in range(500)}
    assert texts == {f"{a.capitalize()} {b}." for a, b in permutations(("red", "blue", "green"), 2)}
    assert isclose(sum(2 ** -grammar.text_information(rules.rules["top"], text) for text in texts), 1)


@pytest.mark.parametrize("text", ["", "Ann", "Ann eats", "ann eats a leaf.", "Ann eats a leaf. ", "Ann eats a leaves."])
def test_text_outside_the_grammar_has_probability_zero(text: str):
    rules = make_grammar("top", "    <P=person> eats [an orange|<thing.a>].")
    assert grammar.text_information(rules.rules["top"], text) == inf


def test_sentences_are_capitalized():
    rules = make_grammar(
        "top",
        "    he said: “go [now|away]!” they went. [why|how]?",
        "        nobody knows.¶the end is near: it [is|was].",
    )
    text, bits = generate(rules, 1)
    assert text.startswith("He said: “Go ")
    assert "!” They went." in text
    assert "? Nobody knows.\nThe end is near: It " in text
    assert isclose(grammar.text_information(rules.rules["top"], text), bits)


@pytest.mark.parametrize(
    ("rules", "complaint"),
    [
        (["top", "    <nobody> came."], "'top': nothing is named 'nobody'"),
        (["top", "    <P person> came."], "'top': <P person> is no reference"),
        (["top", "    <mood@P>"], "'top': no rules are named mood."),
        (["top", "    [a|b"], "'top': a [ that never closes"),
        (["top", "    a", "top", "    b"], "two things named 'top'"),
        (["person", "    a"], "two things named 'person'"),
    ],
)
def test_faults_in_grammar_rules_are_named(rules: list[str], complaint: str):
    with pytest.raises(ForebearError, match=complaint.replace("[", r"\[")):
        make_grammar(*rules)


def test_duplicate_lexicon_names_are_refused():
    with pytest.raises(ForebearError, match=r"\['pear'\] twice in 'en'"):
        noun_lexicon("fruit", "pear | 梨 | 个\npear | 鸭梨 | 个")


def test_faults_in_grammar_files_are_named_with_file_and_line():
    with pytest.raises(ForebearError, match=r"^rules\.txt:3: en grammar, rule 'top': nothing is named 'nobody'"):
        make_grammar("top", "    it rains.", "    <nobody> came.")
    with pytest.raises(ForebearError, match=r"^rules\.txt:1: an alternative before the first rule"):
        make_grammar("    it rains.")
    with pytest.raises(ForebearError, match=r"^words\.txt:3: 3 cells separated by \| are expected, found 2"):
        noun_lexicon("fruit", "pear | 梨 | 个\napple | 苹果")
    with pytest.raises(ForebearError, match=r"^words\.txt:1: the first entry is not below a heading"):
        parse_lexicon_file("pear | 梨 | 个", "words.txt")
    with pytest.raises(ForebearError, match=r"^words\.txt:1: no type of lexicon is called 'fruits'"):
        section_lexicon(parse_lexicon_file("[fruit] fruits", "words.txt")["fruit"])
