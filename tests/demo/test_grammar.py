"""The grammar: odds that add up, reading as the inverse of writing, and complaints that name the rule."""

from __future__ import annotations

import re
from collections import Counter
from itertools import permutations
from math import inf, isclose, log2

import pytest
from hypothesis import given
from hypothesis import strategies as some

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


def nouns(name: str, rows: str) -> DemoLexicon:
    return section_lexicon(parse_lexicon_file(f"[{name}] nouns\n{rows}", "words.txt")[name])


THINGS = nouns("thing", "apple | 苹果 | 个\nleaf/leaves | 叶子 | 片")


def made(*rules: str) -> DemoGrammar:
    return DemoGrammar("en", {"person": PEOPLE, "thing": THINGS}, parse_rules("\n".join(rules), "en", "rules.txt"))


def written(grammar: DemoGrammar, number: int) -> tuple[str, float]:
    telling = GenerationState(RandomSource(f"test/{number}"))
    grammar.rules["top"].write(telling)
    return telling.text(), telling.chooser.bits


@given(some.lists(some.floats(0.01, 100), min_size=1, max_size=30))
def test_odds_add_up_to_one(weights: list[float]):
    odds = ChoiceProbabilities(weights)
    assert isclose(sum(2**-bits for bits in odds.bits), 1)
    taken = set(range(0, len(weights), 2)) if len(weights) > 1 else set()
    left = [index for index in range(len(weights)) if index not in taken]
    assert isclose(sum(2 ** -odds.bits_without(index, taken) for index in left), 1, rel_tol=1e-6)


def test_choices_come_as_often_as_their_odds_say():
    chooser, odds = RandomSource("often"), ChoiceProbabilities([5, 3, 2])
    counts = Counter(chooser.choose(odds) for _ in range(20_000))
    assert all(abs(counts[index] / 20_000 - share) < 0.015 for index, share in enumerate((0.5, 0.3, 0.2)))
    others = Counter(chooser.choose_without(odds, {0}) for _ in range(20_000))
    assert set(others) == {1, 2}
    assert abs(others[1] / 20_000 - 0.6) < 0.015


def test_bits_are_worked_by_hand():
    rules = made("top", "    3* <P=person> eats [an apple|<thing.a>].", "    it rains.")
    first, second = zipf_weights(2, shift=5)
    share = 3 * first / (3 * first + second)
    text, bits = next(pair for pair in (written(rules, n) for n in range(99)) if pair[0] == "Ann eats a leaf.")
    second_inside = second / (first + second)
    leaf = THINGS.odds.bits[1]
    assert isclose(bits, -log2(share) - log2(3 / 6) - log2(second_inside) + leaf)
    assert isclose(grammar.text_information(rules.rules["top"], text), bits)


def test_two_origins_of_one_text_are_both_counted():
    """Here the derivation's bits are only an upper bound; the text's information is the sum over its origins."""
    rules = made("top", "    <P=person> eats [an apple|<thing.a>].")
    node = rules.rules["top"]
    found = list(grammar.derivation_bits(node, "Ann eats an apple."))
    assert len(found) == 2
    assert isclose(grammar.text_information(node, "Ann eats an apple."), -log2(sum(2**-bits for bits in found)))
    assert grammar.text_information(node, "Ann eats an apple.") < min(found)


def test_the_texts_of_a_small_grammar_have_probability_one():
    rules = made(
        "top",
        "    <P=person>[ and <Q=person-P>|] came. <P.she> <mood@P>.",
        "mood.f",
        "    [sang|slept]",
        "mood.m",
        "    [ran|2*slept]",
    )
    texts = {written(rules, number)[0] for number in range(3000)}
    assert isclose(sum(2 ** -grammar.text_information(rules.rules["top"], text) for text in texts), 1, rel_tol=1e-9)
    assert "Bob and Bobby came. He ran." in texts
    assert not [text for text in texts if re.match(r"(\w+) and \1 |Ann.* He|Ann.* ran|Bob.* She|Bob.* sang", text)]


def test_several_takes_none_twice_and_its_orders_add_up():
    rules = made("top", "    <word*2>.", "word", "    red", "    blue", "    3* green")
    texts = {written(rules, number)[0] for number in range(500)}
    assert texts == {f"{a.capitalize()} {b}." for a, b in permutations(("red", "blue", "green"), 2)}
    assert isclose(sum(2 ** -grammar.text_information(rules.rules["top"], text) for text in texts), 1)


@pytest.mark.parametrize("text", ["", "Ann", "Ann eats", "ann eats a leaf.", "Ann eats a leaf. ", "Ann eats a leaves."])
def test_what_cannot_be_told_has_no_probability(text: str):
    rules = made("top", "    <P=person> eats [an orange|<thing.a>].")
    assert grammar.text_information(rules.rules["top"], text) == inf


def test_capitals_stand_where_sentences_begin():
    rules = made(
        "top",
        "    he said: “go [now|away]!” they went. [why|how]?",
        "        nobody knows.¶the end is near: it [is|was].",
    )
    text, bits = written(rules, 1)
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
def test_mistakes_in_rules_are_named(rules: list[str], complaint: str):
    with pytest.raises(ForebearError, match=complaint.replace("[", r"\[")):
        made(*rules)


def test_things_of_one_name_are_refused():
    with pytest.raises(ForebearError, match=r"\['pear'\] twice in 'en'"):
        nouns("fruit", "pear | 梨 | 个\npear | 鸭梨 | 个")


def test_mistakes_in_files_are_named_with_file_and_line():
    with pytest.raises(ForebearError, match=r"^rules\.txt:3: en grammar, rule 'top': nothing is named 'nobody'"):
        made("top", "    it rains.", "    <nobody> came.")
    with pytest.raises(ForebearError, match=r"^rules\.txt:1: an alternative before the first rule"):
        made("    it rains.")
    with pytest.raises(ForebearError, match=r"^words\.txt:3: 3 cells separated by \| are expected, found 2"):
        nouns("fruit", "pear | 梨 | 个\napple | 苹果")
    with pytest.raises(ForebearError, match=r"^words\.txt:1: the first entry is not below a heading"):
        parse_lexicon_file("pear | 梨 | 个", "words.txt")
    with pytest.raises(ForebearError, match=r"^words\.txt:1: no type of lexicon is called 'fruits'"):
        section_lexicon(parse_lexicon_file("[fruit] fruits", "words.txt")["fruit"])
