"""Duplicates: MinHash against brute-force Jaccard, exact groups with their places, recurring lines, fair samples."""

from __future__ import annotations

import random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from forebear.data.duplicates import (
    SHINGLE_CHARACTERS,
    DocumentSample,
    DuplicateCounter,
    ExactDuplicates,
    NearDuplicates,
    RepeatedLines,
    document_location,
    minhash_signature,
    text_digest,
)
from forebear.data.io.documents import Document, with_continuation


def shingles(text: str) -> set[str]:
    bare = "".join(text.lower().split())
    return {bare[i : i + SHINGLE_CHARACTERS] for i in range(len(bare) - SHINGLE_CHARACTERS + 1)}


def jaccard(one: str, other: str) -> float:
    a, b = shingles(one), shingles(other)
    return len(a & b) / len(a | b)


def made_up(chance: random.Random, length: int) -> str:
    alphabet = (
        "的一是不了人我在有他这中大来上国个到说们为子和你地出道也时年"
        if chance.random() < 0.5
        else "etaoinshrdlu mwfgyp"
    )
    return "".join(chance.choices(alphabet, k=length))


def changed(chance: random.Random, text: str, edits: int) -> str:
    letters = list(text)
    for _ in range(edits):
        letters[chance.randrange(len(letters))] = chance.choice("龘鱻麤qxz")
    return "".join(letters)


def test_minhash_against_brute_force() -> None:
    chance = random.Random(3)
    texts = []
    for _ in range(400):
        text = made_up(chance, chance.randint(100, 1500))
        texts += [text, changed(chance, text, chance.randint(0, max(1, len(text) // 14)))]
    near, reported, expected, seen_alike = NearDuplicates(), [], 0, 0
    for number, text in enumerate(texts):
        signed = minhash_signature(text)
        assert signed is not None
        found = near.find(signed)
        if number % 2:
            true = jaccard(texts[number - 1], text)
            expected += true >= 0.9
            seen_alike += true >= 0.9 and found is not None and found[0] == number - 1
        if found:
            reported.append(jaccard(texts[found[0]], text))
        assert near.add(signed) == number
    assert expected > 50
    assert seen_alike >= 0.95 * expected
    assert len(reported) > 50
    assert sum(true >= 0.7 for true in reported) >= 0.95 * len(reported)


def test_the_estimate_is_unbiased() -> None:
    chance = random.Random(8)
    errors = []
    for _ in range(200):
        text = made_up(chance, 600)
        other = changed(chance, text, chance.randint(0, 60))
        one, two = minhash_signature(text), minhash_signature(other)
        assert one is not None
        assert two is not None
        errors.append(float((one == two).mean()) - jaccard(text, other))
    assert abs(np.mean(errors)) < 0.01
    assert np.std(errors) < 0.06


def test_case_and_white_space_do_not_matter_and_short_text_is_left_out() -> None:
    text = "Many words about nothing in particular, going on and on for a while."
    one, two = minhash_signature(text), minhash_signature(text.upper().replace(" ", "\n\t "))
    assert one is not None
    assert two is not None
    assert (one == two).all()
    assert minhash_signature("short " * 9) is None


def test_memory_for_near_duplicates_has_a_limit() -> None:
    chance = random.Random(1)
    near = NearDuplicates(max_documents=20)
    numbers = [near.add(minhash_signature(made_up(chance, 200))) for _ in range(25)]  # pyright: ignore[reportArgumentType]
    assert numbers == [*range(20), *[None] * 5]
    assert near.is_full


def test_nothing_is_forgotten_while_the_table_grows() -> None:
    chance = random.Random(2)
    signed = [minhash_signature(made_up(chance, 80)) for _ in range(5000)]
    near = NearDuplicates()
    for it in signed:
        assert it is not None
        near.add(it)
    for number in range(0, 5000, 50):
        found = near.find(signed[number])  # pyright: ignore[reportArgumentType]
        assert found == (number, 1.0)


def test_exact_groups_name_the_first_place() -> None:
    exact = ExactDuplicates()
    assert [exact.check_and_add(text_digest(text), len(text), (file, line)) for text, file, line in (
        ("one", "a", 1), ("two", "a", 7), (" one\n", "b", 3), ("one", "c", 9),
    )] == [False, False, True, True]  # fmt: skip
    (group,) = exact.groups.values()
    assert (group.first, group.copies, group.characters) == (("a", 1), 2, 8)


def test_exact_says_when_it_is_full() -> None:
    exact = ExactDuplicates(max_documents=2)
    assert not any(exact.check_and_add(text_digest(text), 1, ("a", 1)) for text in "abcc")
    assert exact.is_full
    assert exact.check_and_add(text_digest("a"), 1, ("a", 2))


def test_repeated_lines_count_documents_not_occurrences() -> None:
    lines = RepeatedLines(max_repeats=2)
    banner = "Subscribe to our newsletter today!"
    assert lines.count([banner, banner, "short"], ("f", 1)) == [False, False, False]
    assert lines.count([f"  {banner} "], ("f", 5)) == [False]
    assert lines.count([banner], ("f", 6), continued=True) == [False]
    assert lines.count([banner, "short", banner], ("f", 9)) == [True, False, True]
    assert lines.most_common(5) == [(banner, 3, ("f", 9))]


def test_repeated_lines_forget_the_rare_ones() -> None:
    lines = RepeatedLines(max_repeats=2, max_lines=100)
    for i in range(1000):
        lines.count([f"a line of its own, number {i}", "the line that everyone has"], ("f", i))
    assert len(lines.counts) <= 101
    assert lines.is_full
    assert lines.most_common(1)[0][:2] == ("the line that everyone has", 1000)


def test_a_tally_keeps_documents_in_parts_apart() -> None:
    tally = DuplicateCounter(0.8, examples=3)
    text = made_up(random.Random(4), 300)
    for line in range(3):
        tally.add(text_digest(text), minhash_signature(text), 300, ("f", line), in_parts=line == 2)
    tally.add(text_digest(text + "!"), minhash_signature(text + "!"), 301, ("f", 9), in_parts=False)
    equal, alike, _ = tally.to_dict()
    assert (equal["documents"], equal["in_parts"], equal["characters_in_parts"]) == (2, 1, 300)
    assert equal["groups"] == [{"first": {"file": "f", "line": 0}, "copies": 2, "characters": 600}]
    assert (alike["documents"], alike["characters"]) == (1, 301)
    assert alike["groups"][0]["first"] == {"file": "f", "line": 0}
    assert alike["groups"][0]["examples"][0]["line"] == 9


@given(st.lists(st.text(min_size=1, max_size=30), unique_by=str.strip), st.randoms())
def test_a_sample_does_not_depend_on_order(texts: list[str], chance: random.Random) -> None:
    shuffled = list(texts)
    chance.shuffle(shuffled)
    samples = []
    for order in (texts, shuffled):
        sample = DocumentSample(100)
        for text in order:
            sample.add(text, text_digest(text))
        samples.append(sample.texts())
    assert samples[0] == samples[1]
    total = sum(map(len, texts))
    assert min(total, 100) <= sum(map(len, samples[0])) < 130


def test_a_long_document_is_sampled_in_excerpts() -> None:
    sample = DocumentSample(50_000)
    text = made_up(random.Random(5), 300_000)
    sample.add(text, text_digest(text))
    assert 50_000 <= sum(map(len, sample.texts())) < 70_000
    assert all(piece in text for piece in sample.texts())


def test_places_of_lines() -> None:
    assert document_location(Document("a\nb", "x.txt", 5), 1) == ("x.txt", 6)
    assert document_location(Document("a\nb", "x", 5, is_record=True), 1) == ("x", 5)


def test_ahead_tells_whether_a_document_goes_on() -> None:
    parts = [Document("", "f", 1, part) for part in (0, 0, 1, 2, 0)]
    assert [goes_on for _, goes_on in with_continuation(parts)] == [False, True, True, False, False]
    assert list(with_continuation([])) == []
