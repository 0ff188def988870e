"""Duplicates: MinHash against brute-force Jaccard, exact groups with locations, repeated lines, stable samples."""

from __future__ import annotations

import random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from forebear.data.corpus_report import DocumentSample
from forebear.data.duplicates import (
    SHINGLE_CHARACTERS,
    DuplicateCounter,
    ExactDuplicates,
    NearDuplicates,
    RepeatedLines,
    document_location,
    minhash_signature,
    text_digest,
)
from forebear.data.io.document import Document, with_continuation


def shingles(text: str) -> set[str]:
    bare = "".join(text.lower().split())
    return {bare[i : i + SHINGLE_CHARACTERS] for i in range(len(bare) - SHINGLE_CHARACTERS + 1)}


def jaccard(text: str, other_text: str) -> float:
    a, b = shingles(text), shingles(other_text)
    return len(a & b) / len(a | b)


def random_text(rng: random.Random, length: int) -> str:
    alphabet = (
        "的一是不了人我在有他这中大来上国个到说们为子和你地出道也时年" if rng.random() < 0.5 else "etaoinshrdlu mwfgyp"
    )
    return "".join(rng.choices(alphabet, k=length))


def edit_text(rng: random.Random, text: str, edits: int) -> str:
    letters = list(text)
    for _ in range(edits):
        letters[rng.randrange(len(letters))] = rng.choice("龘鱻麤qxz")
    return "".join(letters)


def test_minhash_finds_near_duplicates_of_brute_force_jaccard() -> None:
    rng = random.Random(3)
    texts = []
    for _ in range(400):
        text = random_text(rng, rng.randint(100, 1500))
        texts += [text, edit_text(rng, text, rng.randint(0, max(1, len(text) // 14)))]
    near, reported, expected, detected = NearDuplicates(), [], 0, 0
    for number, text in enumerate(texts):
        signature = minhash_signature(text)
        assert signature is not None
        match = near.find(signature)
        if number % 2:
            similarity = jaccard(texts[number - 1], text)
            expected += similarity >= 0.9
            detected += similarity >= 0.9 and match is not None and match[0] == number - 1
        if match:
            reported.append(jaccard(texts[match[0]], text))
        assert near.add(signature) == number
    assert expected > 50
    assert detected >= 0.95 * expected
    assert len(reported) > 50
    assert sum(similarity >= 0.7 for similarity in reported) >= 0.95 * len(reported)


def test_minhash_estimate_is_unbiased() -> None:
    rng = random.Random(8)
    errors = []
    for _ in range(200):
        text = random_text(rng, 600)
        other = edit_text(rng, text, rng.randint(0, 60))
        signature, other_signature = minhash_signature(text), minhash_signature(other)
        assert signature is not None
        assert other_signature is not None
        errors.append(float((signature == other_signature).mean()) - jaccard(text, other))
    assert abs(np.mean(errors)) < 0.01
    assert np.std(errors) < 0.06


def test_minhash_ignores_case_and_white_space_and_skips_short_text() -> None:
    text = "Many words about nothing in particular, going on and on for a while."
    signature, other_signature = minhash_signature(text), minhash_signature(text.upper().replace(" ", "\n\t "))
    assert signature is not None
    assert other_signature is not None
    assert (signature == other_signature).all()
    assert minhash_signature("short " * 9) is None


def test_near_duplicate_table_has_a_size_limit() -> None:
    rng = random.Random(1)
    near = NearDuplicates(max_documents=20)
    numbers = [near.add(minhash_signature(random_text(rng, 200))) for _ in range(25)]  # pyright: ignore[reportArgumentType]
    assert numbers == [*range(20), *[None] * 5]
    assert near.is_full


def test_near_duplicates_are_found_while_the_table_grows() -> None:
    rng = random.Random(2)
    signatures = [minhash_signature(random_text(rng, 80)) for _ in range(5000)]
    near = NearDuplicates()
    for signature in signatures:
        assert signature is not None
        near.add(signature)
    for number in range(0, 5000, 50):
        match = near.find(signatures[number])  # pyright: ignore[reportArgumentType]
        assert match == (number, 1.0)


def test_exact_duplicate_groups_name_the_first_location() -> None:
    exact = ExactDuplicates()
    assert [exact.check_and_add(text_digest(text), len(text), (file, line)) for text, file, line in (
        ("one", "a", 1), ("two", "a", 7), (" one\n", "b", 3), ("one", "c", 9),
    )] == [False, False, True, True]  # fmt: skip
    (group,) = exact.groups.values()
    assert (group.first, group.copies, group.characters) == (("a", 1), 2, 8)


def test_exact_duplicate_table_reports_that_it_is_full() -> None:
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


def test_repeated_lines_forget_rare_lines_when_full() -> None:
    lines = RepeatedLines(max_repeats=2, max_lines=100)
    for i in range(1000):
        lines.count([f"a line of its own, number {i}", "the line that everyone has"], ("f", i))
    assert len(lines.counts) <= 101
    assert lines.is_full
    assert lines.most_common(1)[0][:2] == ("the line that everyone has", 1000)


def test_duplicate_counter_separates_documents_in_parts() -> None:
    counter = DuplicateCounter(0.8, examples=3)
    text = random_text(random.Random(4), 300)
    for line in range(3):
        counter.add(text_digest(text), minhash_signature(text), 300, ("f", line), in_parts=line == 2)
    counter.add(text_digest(text + "!"), minhash_signature(text + "!"), 301, ("f", 9), in_parts=False)
    exact, near, _ = counter.to_dict()
    assert (exact["documents"], exact["in_parts"], exact["characters_in_parts"]) == (2, 1, 300)
    assert exact["groups"] == [{"first": {"file": "f", "line": 0}, "copies": 2, "characters": 600}]
    assert (near["documents"], near["characters"]) == (1, 301)
    assert near["groups"][0]["first"] == {"file": "f", "line": 0}
    assert near["groups"][0]["examples"][0]["line"] == 9


@given(st.lists(st.text(min_size=1, max_size=30), unique_by=str.strip), st.randoms())
def test_document_sample_does_not_depend_on_order(texts: list[str], rng: random.Random) -> None:
    shuffled = list(texts)
    rng.shuffle(shuffled)
    samples = []
    for order in (texts, shuffled):
        sample = DocumentSample(100)
        for text in order:
            sample.add(text, text_digest(text))
        samples.append(sample.texts())
    assert samples[0] == samples[1]
    total = sum(map(len, texts))
    assert min(total, 100) <= sum(map(len, samples[0])) < 130


def test_long_document_is_sampled_in_excerpts() -> None:
    sample = DocumentSample(50_000)
    text = random_text(random.Random(5), 300_000)
    sample.add(text, text_digest(text))
    assert 50_000 <= sum(map(len, sample.texts())) < 70_000
    assert all(piece in text for piece in sample.texts())


def test_line_of_a_document_is_located() -> None:
    assert document_location(Document("a\nb", "x.txt", 5), 1) == ("x.txt", 6)
    assert document_location(Document("a\nb", "x", 5, is_record=True), 1) == ("x", 5)


def test_continuation_flag_marks_documents_with_more_parts() -> None:
    parts = [Document("", "f", 1, part) for part in (0, 0, 1, 2, 0)]
    assert [is_continued for _, is_continued in with_continuation(parts)] == [False, True, True, False, False]
    assert list(with_continuation([])) == []
