"""Stories of the small world: well-formed language, reproducible, with exact information content."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable
from itertools import islice, pairwise
from math import isclose, log2
from pathlib import Path

import pytest

from forebear.demo import grammar, stories
from forebear.demo.demo_lexicon import past_participle, past_tense, plural, present_participle, with_article
from forebear.demo.labeled_examples import write_demo_tasks
from forebear.errors import InputError

BOTH_LANGUAGES = pytest.mark.parametrize("language", ["en", "zh"])
SAMPLE = 400_000
GRAMMAR_NOTATION = re.compile(r"[<>\[\]{}|@~_^¶*=]|None|  | \n|\n\n| [,.!?;]|[,;] ?[,.;]|\.\.|。。|，，|，。")


@pytest.fixture(scope="module")
def stories_by_language() -> dict[str, list[stories.DemoDocument]]:
    return {language: list(stories.world_documents(language, SAMPLE, 7)) for language in ("en", "zh")}


@BOTH_LANGUAGES
def test_story_depends_on_seed_and_number_alone(language: str):
    first_stories = list(islice(stories.world_documents(language, 50_000, 3), 20))
    assert first_stories == [stories.make_story(language, 3, number) for number in range(20)]
    assert stories.make_story(language, 4, 0) != first_stories[0]


@BOTH_LANGUAGES
def test_stories_differ_from_each_other_and_keep_their_language(language: str):
    """Hardly any story repeats, and all are in the requested language."""
    assert len({story.text for story in islice(stories.world_documents(language, 10**9, 0), 500)}) > 495
    assert all(story.language == language for story in stories.world_documents(language, 5_000, 1))


def test_stories_stop_at_the_requested_size():
    texts = [story.text for story in stories.world_documents("both", 100_000, 1)]
    assert 100_000 <= sum(len(text.encode()) for text in texts) < 103_000
    assert sum(len(text.encode()) for text in texts[:-1]) < 100_000


@BOTH_LANGUAGES
def test_every_story_has_one_derivation_with_its_bits(language: str):
    """So a story's bits are −log2 of the probability of its text; parsing it back proves it unambiguous."""
    node = stories.grammar_for(language).rules["document"]
    for number in range(60):
        story = stories.make_story(language, 123, number)
        (bits,) = grammar.derivation_bits(node, story.text)
        assert isclose(bits, story.bits, rel_tol=1e-9)


@BOTH_LANGUAGES
def test_equal_stories_have_equal_bits(language: str, stories_by_language: dict[str, list[stories.DemoDocument]]):
    bits: dict[str, float] = {}
    for story in stories_by_language[language]:
        assert isclose(bits.setdefault(story.text, story.bits), story.bits, rel_tol=1e-9)


def test_text_outside_the_world_has_infinite_information():
    assert stories.information_content("The quick brown fox.", "en") == float("inf")
    text = stories.make_story("zh", 0, 0).text
    assert stories.information_content(text[:-1], "zh") == float("inf")


@BOTH_LANGUAGES
def test_entropy_agrees_across_seeds_within_its_error(language: str):
    first, second = (stories.entropy(language, 300_000, seed) for seed in (1, 2))
    assert 0.1 < first.bits_per_byte < 2
    assert 0 < first.standard_error < 0.05 * first.bits_per_byte
    assert (
        abs(first.bits_per_byte - second.bits_per_byte)
        < 4 * (first.standard_error**2 + second.standard_error**2) ** 0.5
    )


def test_stories_in_both_languages_add_one_bit_for_the_language():
    mixed_stories = list(islice(stories.world_documents("both", 10**9, 5), 40))
    assert {story.language for story in mixed_stories} == {"en", "zh"}
    assert all(
        isclose(stories.information_content(s.text, s.language) + 1, s.bits, rel_tol=1e-9) for s in mixed_stories[:4]
    )


@BOTH_LANGUAGES
def test_trigram_cross_entropy_is_above_the_entropy_of_the_source(
    language: str, stories_by_language: dict[str, list[stories.DemoDocument]]
):
    """An interpolated trigram over words or characters, learned from the same source, stays above its entropy."""
    train, held_out = stories_by_language[language][::2], stories_by_language[language][1::2]
    tokenize = (lambda text: re.findall(r"\w+|\W", text)) if language == "en" else list
    counts: list[Counter[tuple[str, ...]]] = [Counter() for _ in range(3)]
    context_counts: list[Counter[tuple[str, ...]]] = [Counter() for _ in range(3)]
    for story in train:
        for order in range(3):
            tokens = ["<s>"] * order + tokenize(story.text) + ["</s>"]
            for end in range(order, len(tokens)):
                ngram = tuple(tokens[end - order : end + 1])
                counts[order][ngram] += 1
                context_counts[order][ngram[:-1]] += 1
    vocab_size = len(counts[0]) + 1
    bits = num_bytes = 0.0
    for story in held_out:
        tokens = ["<s>", "<s>", *tokenize(story.text), "</s>"]
        for end in range(2, len(tokens)):
            probability = 1 / vocab_size
            for order in range(3):
                ngram = tuple(tokens[end - order : end + 1])
                context_count = context_counts[order][ngram[:-1]]
                probability = (counts[order][ngram] + 2 * probability) / (context_count + 2)
            bits -= log2(probability)
        num_bytes += len(story.text.encode())
    entropy = sum(story.bits for story in held_out) / num_bytes
    assert 1.1 * entropy < bits / num_bytes < 8 * entropy


@BOTH_LANGUAGES
def test_stories_contain_no_grammar_notation(language: str, stories_by_language: dict[str, list[stories.DemoDocument]]):
    for story in stories_by_language[language]:
        assert not (match := GRAMMAR_NOTATION.search(story.text)), (match, story.text)
        assert story.text == story.text.strip()
        assert story.text.count("“") == story.text.count("”")


def test_english_stories_follow_english_spelling(stories_by_language: dict[str, list[stories.DemoDocument]]):
    for story in stories_by_language["en"]:
        text = story.text
        assert not re.search(r"\b[Aa] [aeiouAEIOU](?!ni|se|ne)\w", text), text
        assert not re.search(r"\b[Aa]n (?!hour|honest)[^aeiouAEIOU\W]", text), text
        assert not re.search(r"(?:^|[.!?] )[a-z]", text), text
        assert not re.search(r"\bi\b", text), text
        assert not re.search(r"\b(\w+) \1\b", text.replace("had had", "")), text
        assert not re.search(r"[\u3000-\uffef]", text), text
        assert not re.search(r"(?:dumplings|skewers|ribs|pancakes) (?:was|is) ", text), text


def test_chinese_stories_use_chinese_punctuation(stories_by_language: dict[str, list[stories.DemoDocument]]):
    for story in stories_by_language["zh"]:
        assert not re.search(r"[,;:!?()\"'A-Za-z]|\.", story.text), story.text
        assert not re.search(r"[\u4e00-\u9fff] +[\u4e00-\u9fff]", story.text), story.text
        assert not re.search(r"了了|的的|地地|在在", story.text), story.text


@BOTH_LANGUAGES
def test_pronouns_agree_with_the_gender_of_the_person(language: str):
    """In a biography every pronoun refers to the one person it is about."""
    rules = stories.grammar_for(language).rules["people.born"], stories.grammar_for(language).rules["people.work"]
    for number in range(200):
        state = grammar.GenerationState(stories.RandomSource(f"agree/{number}"))
        for node in rules:
            node.generate(state)
        he, she = ("he", "she") if language == "en" else ("他", "她")
        wrong = she if state.memory["P"].kind == "m" else he
        words = re.findall(r"\w+", state.text().lower()) if language == "en" else state.text()
        assert wrong not in words


@BOTH_LANGUAGES
def test_dialogue_has_two_speakers(language: str):
    """A story within a dialogue must not change the speakers."""
    rule = stories.grammar_for(language).rules["story.talk"]
    for number in range(300):
        state = grammar.GenerationState(stories.RandomSource(f"talk/{number}"))
        rule.generate(state)
        speakers = [re.split("[:：]", line)[0] for line in state.text().split("\n")]
        assert len(set(speakers)) == 2, state.text()
        assert speakers[0] == state.memory["A"].form(language)


@BOTH_LANGUAGES
def test_weather_persists_through_a_report(language: str):
    rule = stories.grammar_for(language).rules["story.weather"]
    rainy, snowy = ("umbrella", "shovelling") if language == "en" else ("伞", "铲雪")
    for number in range(300):
        state = grammar.GenerationState(stories.RandomSource(f"weather/{number}"))
        rule.generate(state)
        if state.memory["W"].kind == "snow":
            assert rainy not in state.text()
        else:
            assert snowy not in state.text()


def test_vocabulary_size_and_growth_are_like_natural_language(
    stories_by_language: dict[str, list[stories.DemoDocument]],
):
    english = re.findall(r"[A-Za-z]+", " ".join(story.text for story in stories_by_language["en"]).lower())
    counts = Counter(english)
    assert len(counts) > 1_500
    ranked = [count for _, count in counts.most_common()]
    assert 4 < ranked[0] / ranked[9] < 30 or ranked[0] > 2 * ranked[9]
    assert sum(ranked[:100]) / len(english) > 0.45  # in any text a hundred words make up about half
    types = [len(set(english[: 2**power])) for power in range(8, 16)]
    growth = [later / earlier for earlier, later in pairwise(types)]
    assert all(1.05 < ratio < 2 for ratio in growth)  # every doubling brings new words, but fewer and fewer
    assert growth[-1] < growth[0]
    chinese = "".join(story.text for story in stories_by_language["zh"])
    assert len(set(re.findall(r"[\u4e00-\u9fff]", chinese))) > 1_000
    rjieba = pytest.importorskip("rjieba")
    assert len({word for word in rjieba.cut(chinese) if "\u4e00" <= word[0] <= "\u9fff"}) > 2_000


@BOTH_LANGUAGES
def test_stories_have_a_few_sentences(language: str, stories_by_language: dict[str, list[stories.DemoDocument]]):
    lengths = [len(re.findall(r"[.!?。！？]", story.text)) for story in stories_by_language[language]]
    assert min(lengths) >= 2
    assert max(lengths) <= 20
    assert 4 < sum(lengths) / len(lengths) < 9


def test_english_inflections_match_worked_examples():
    assert [plural(word) for word in ("fox", "cherry", "key", "tomato", "church")] == [
        "foxes", "cherries", "keys", "tomatoes", "churches",
    ]  # fmt: skip
    assert [past_tense(word) for word in ("bake", "carry", "chop", "buy", "pack", "enjoy")] == [
        "baked", "carried", "chopped", "bought", "packed", "enjoyed",
    ]  # fmt: skip
    assert [present_participle(word) for word in ("bake", "carry", "chop", "see")] == [
        "baking",
        "carrying",
        "chopping",
        "seeing",
    ]
    assert [past_participle(word) for word in ("write", "bake", "steal")] == ["written", "baked", "stolen"]
    assert [with_article(word) for word in ("apple", "pear", "university", "owl")] == [
        "an apple", "a pear", "a university", "an owl",
    ]  # fmt: skip


def test_unknown_story_language_is_refused():
    with pytest.raises(InputError, match="'fr'"):
        stories.make_story("fr", 0, 0)  # type: ignore[arg-type]


def _sha256(texts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()


def test_stories_and_task_files_equal_those_of_version_0_1(tmp_path: Path):
    """Results measured on the demo's text and tasks stay comparable only while no byte of them changes."""
    texts = (stories.make_story("both", 0, number).text for number in range(1000))
    assert _sha256(texts) == "d43bb1888c46de4b9f643fc65842005f64350ba1a5cb99977514d848a45f66c6"
    task_files = write_demo_tasks(tmp_path, 40, 20, seed=1)
    texts = (file.read_text(encoding="utf-8") for pair in task_files.values() for file in pair)
    assert _sha256(texts) == "7d983b2b9d89085fb02c5fcb69a0119c88fc8145cd30ffc2c88c61e6ebd55880"
