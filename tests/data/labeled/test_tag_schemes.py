"""Tag schemes: conversion without loss, broken tags read as by seqeval, legal transitions, constrained Viterbi."""

from __future__ import annotations

from itertools import pairwise, product
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from seqeval.metrics.sequence_labeling import get_entities
from seqeval.scheme import BILOU, IOB1, IOB2, IOBES, Entities

from forebear.data.labeled.tag_schemes import (
    SCHEME_LETTERS,
    Scheme,
    detect_scheme,
    entities_to_iobes,
    entity_spans,
    entity_type,
    from_iobes,
    iobes_labels,
    iobes_transitions,
    reject_nested_tags,
    repair_tags,
    scheme_violations,
    split_tag,
    to_iobes,
)
from forebear.errors import InputError
from forebear.tasks.tagging import constrained_viterbi

KINDS = ("PER", "my-kind", "地名", "")
SCHEMES: tuple[Scheme, ...] = get_args(Scheme)


@st.composite
def texts_with_entities(draw):
    """Entities, some of them side by side, and the number of words."""
    entities, position = [], 0
    for _ in range(draw(st.integers(0, 5))):
        position += draw(st.integers(0, 2))
        length = draw(st.integers(1, 4))
        entities.append((position, position + length, draw(st.sampled_from(KINDS))))
        position += length
    return entities, position + draw(st.integers(0, 2))


any_tags = st.lists(
    st.builds(lambda letter, kind: f"{letter}-{kind}" if kind else letter, st.sampled_from("BIES"),
              st.sampled_from(KINDS)) | st.just("O"),
    max_size=9,
)  # fmt: skip
strange_tags = st.lists(any_tags.map(lambda tags: tags[0] if tags else "M-PER") | st.sampled_from(["", "Q-PER", "B-"]))


@given(texts_with_entities(), st.sampled_from(SCHEMES), st.sampled_from(SCHEMES))
def test_entities_survive_conversion_between_schemes(given_text, scheme, other_scheme):
    entities, words = given_text
    iobes = entities_to_iobes(entities, words)
    assert len(iobes) == words
    assert entity_spans(iobes) == entities
    converted = from_iobes(iobes, scheme)
    assert scheme_violations(converted, scheme) == []
    assert entity_spans(converted) == entities
    assert to_iobes(converted, scheme) == iobes
    assert from_iobes(to_iobes(converted, scheme), other_scheme) == from_iobes(iobes, other_scheme)
    assert {tag[0] for tag in converted} <= {"O", "B", *SCHEME_LETTERS[scheme]}


@pytest.mark.parametrize(
    ("scheme", "tags"),
    [
        ("IOBES", "S-PER B-PER E-PER O B-地名 I-地名 E-地名 S-a-b"),
        ("BIO", "B-PER B-PER I-PER O B-地名 I-地名 I-地名 B-a-b"),
        ("IOB1", "I-PER B-PER I-PER O I-地名 I-地名 I-地名 I-a-b"),
        ("BMES", "S-PER B-PER E-PER O B-地名 M-地名 E-地名 S-a-b"),
        ("BMEWO", "W-PER B-PER E-PER O B-地名 M-地名 E-地名 W-a-b"),
        ("BILOU", "U-PER B-PER L-PER O B-地名 I-地名 L-地名 U-a-b"),
    ],
)
def test_each_scheme_matches_its_known_example(scheme, tags):
    iobes = "S-PER B-PER E-PER O B-地名 I-地名 E-地名 S-a-b".split()
    assert from_iobes(iobes, scheme) == tags.split()
    assert to_iobes(tags.split(), scheme) == iobes
    assert detect_scheme([tags.split(), ["O"]]).scheme == scheme
    assert entity_spans(tags.split()) == [(0, 1, "PER"), (1, 3, "PER"), (4, 7, "地名"), (7, 8, "a-b")]


@given(texts_with_entities())
def test_seqeval_reads_our_tags(given_text):
    entities, words = given_text
    iobes = entities_to_iobes([(first, end, kind or "_") for first, end, kind in entities], words)
    for scheme, seqeval_scheme in {"IOBES": IOBES, "BIO": IOB2, "BILOU": BILOU}.items():
        (parsed,) = Entities([from_iobes(iobes, scheme)], seqeval_scheme).entities
        assert [(entity.start, entity.end, entity.tag) for entity in parsed] == entity_spans(iobes)


def test_seqeval_reads_our_iob1():
    tags = from_iobes("S-X S-X S-Y O B-X E-X".split(), "IOB1")
    assert tags == "I-X B-X I-Y O I-X I-X".split()
    (parsed,) = Entities([tags], IOB1).entities
    assert [(entity.start, entity.end, entity.tag) for entity in parsed] == [
        (0, 1, "X"),
        (1, 2, "X"),
        (2, 3, "Y"),
        (4, 6, "X"),
    ]


@given(any_tags)
def test_broken_tags_are_read_as_seqeval_reads_them(tags):
    expected = [(first, last + 1, kind) for kind, first, last in get_entities(tags)]
    assert [(first, end, kind or "_") for first, end, kind in entity_spans(tags)] == expected
    assert entity_spans(repair_tags(tags)[0]) == entity_spans(tags)


@given(strange_tags, st.sampled_from(SCHEMES))
def test_repaired_tags_are_valid_and_repairs_are_counted(tags, scheme):
    repaired, num_repaired = repair_tags(tags, scheme)
    assert repair_tags(repaired, scheme) == (repaired, 0)
    assert entity_spans(repaired) == entity_spans(tags)
    assert [position for position, _ in scheme_violations(tags, scheme)] == [
        i for i, tag in enumerate(tags) if tag != repaired[i]
    ]
    assert num_repaired == len(scheme_violations(tags, scheme))
    assert scheme_violations(repaired, scheme) == []


@pytest.mark.parametrize(
    ("scheme", "tags", "repaired", "position", "reason"),
    [
        ("BIO", "O I-X I-X", "O B-X I-X", 1, "I-X goes on with an entity, but before it stands O"),
        ("BIO", "I-X O", "B-X O", 0, "I-X goes on with an entity, but before it stands nothing"),
        ("BIO", "B-X I-Y", "B-X B-Y", 1, "I-Y goes on with an entity, but before it stands B-X"),
        ("IOBES", "O E-X", "O S-X", 1, "E-X goes on with an entity, but before it stands O"),
        ("IOBES", "B-X O", "S-X O", 0, "B-X leaves its entity open, but after it stands O"),
        ("IOBES", "B-X I-X", "B-X E-X", 1, "I-X leaves its entity open, but after it stands nothing"),
        ("IOBES", "B-X M-X E-X", "B-X I-X E-X", 1, "'M-X' is no tag of IOBES, which has O and B, I, E, S with a kind"),
        ("BIO", "X-PER O", "O O", 0, "'X-PER' is no tag of BIO, which has O and B, I with a kind"),
        ("IOB1", "O B-X", "O I-X", 1, "B-X follows O, and IOB1 begins with B only right after an entity of the same "
                                      "kind"),
    ],
)  # fmt: skip
def test_violations_are_named_and_repaired(scheme, tags, repaired, position, reason):
    assert scheme_violations(tags.split(), scheme) == [(position, reason)]
    assert repair_tags(tags.split(), scheme) == (repaired.split(), 1)
    with pytest.raises(InputError, match=f"^word {position + 1}: "):
        to_iobes(tags.split(), scheme)


@pytest.mark.parametrize(
    ("sequences", "scheme", "num_violations"),
    [
        (["O O", ""], "BIO", 0),
        ([], "BIO", 0),
        (["B-X O B-Y"], "BIO", 0),
        (["I-X I-X O I-Y"], "IOB1", 0),
        (["S-X O", "S-Y"], "IOBES", 0),  # also BMES
        (["B E S B M E"], "BMES", 0),  # Chinese words
        (["B E S B E"], "IOBES", 0),
        (["U-X O B-X L-X"], "BILOU", 0),
        (["B-X I-X O"] * 9 + ["O I-X"], "BIO", 1),  # one mistake makes it no other scheme
        (["B-X E-X O"] * 9 + ["B-X O"], "IOBES", 1),
    ],
)
def test_scheme_is_detected_over_a_whole_data_set(sequences, scheme, num_violations):
    detected = detect_scheme([tags.split() for tags in sequences])
    assert (detected.scheme, detected.num_violations) == (scheme, num_violations)
    assert detect_scheme([tags.split() for tags in sequences]).scheme == scheme


def test_detection_reason_counts_violations():
    assert detect_scheme([["S-X"]]).reason == "no tag breaks it; IOBES, BMES fit alike, and it is the simplest"
    assert detect_scheme([["B-X", "I-X"]]).reason == "no tag breaks it, fewer than any other"
    broken = [["B-X", "I-X", "O", "I-X", "O", "B-Y"]]
    assert detect_scheme(broken).reason == "1 of 4 tags break it, fewer than any other"


def test_tags_without_span_scheme_are_plain():
    detected = detect_scheme([["DT", "NN", "VB"]])
    assert (detected.scheme, detected.num_violations) == ("plain", 0)
    assert detected.reason.startswith("DT, NN, VB are no tags of entities")
    assert detect_scheme([["O", "O", "V", "N", "N", "B-PER"]]).scheme == "plain"  # most of those other than O
    assert scheme_violations(["DT", "NN"], "plain") == []
    assert to_iobes(["DT", "NN"], "plain") == from_iobes(["DT", "NN"], "plain") == ["DT", "NN"]
    assert repair_tags(["DT", "I-X"], "plain") == (["DT", "I-X"], 0)


def test_entity_tags_that_break_every_scheme_are_refused():
    with pytest.raises(InputError, match="most of them break every scheme"):
        detect_scheme([["E-X", "E-Y"]])
    with pytest.raises(InputError, match="no scheme of tags is called 'IOE2'"):
        scheme_violations(["O"], "IOE2")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("tag", ["B-PER|B-ORG", "O|B-ORG", "B-PER\tI-ORG", "B-人,B-地"])
def test_nested_tags_are_refused(tag):
    with pytest.raises(InputError, match="word 2 has several tags") as error:
        reject_nested_tags(["O", tag], file="a.conll", line=7)
    assert (error.value.file, error.value.line) == ("a.conll", 7)
    for function in (
        entity_spans,
        scheme_violations,
        repair_tags,
        lambda tags: detect_scheme([tags]),
        lambda tags: to_iobes(tags, "BIO"),
    ):
        with pytest.raises(InputError, match="entities inside others"):
            function(["O", tag])
    with pytest.raises(InputError, match="two entities share word 3"):
        entities_to_iobes([(0, 3, "PER"), (2, 4, "ORG")], 5)


def test_separator_characters_inside_an_entity_type_are_no_nesting():
    reject_nested_tags(["B-R&D", "I-a|b", "S-x/y"])
    assert entity_spans(["B-R&D", "I-R&D"]) == [(0, 2, "R&D")]


def test_entities_outside_the_text_are_refused():
    for first, end in ((2, 4), (-1, 1), (1, 1)):
        with pytest.raises(InputError, match="in a text of 3 words"):
            entities_to_iobes([(first, end, "X")], 3)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_entity_type_of_a_tag_of_any_scheme_is_without_its_letter(scheme: Scheme):
    assert {entity_type(f"{letter}-PER") for letter in SCHEME_LETTERS[scheme]} == {"PER"}
    assert [entity_type(tag) for tag in ("O", "B", "W-", "NN-PER")] == ["O", "B", "W-", "NN-PER"]


def test_iobes_labels_are_listed_by_entity_type():
    labels = iobes_labels(["PER", "LOC", "ORG"])
    assert len(labels) == 13
    assert labels[:5] == ["O", "B-PER", "I-PER", "E-PER", "S-PER"]
    assert [split_tag(label)[0] for label in labels[:5]] == [*"OBIES"]
    for invalid in ("M-PER", "O-PER", "PER", ""):
        with pytest.raises(InputError, match="no tag of IOBES"):
            iobes_transitions([*labels, invalid])


def test_iobes_transitions_are_exactly_those_of_valid_sequences():
    labels = iobes_labels(["地名", "a-b"])
    transitions, start, end = iobes_transitions(labels)
    for length in (1, 2, 3):
        for path in product(range(len(labels)), repeat=length):
            allowed = start[path[0]] and end[path[-1]] and all(transitions[a, b] for a, b in pairwise(path))
            assert allowed == (not scheme_violations([labels[label] for label in path]))


@given(st.integers(0, 4), st.integers(0, 2**32 - 1))
def test_constrained_viterbi_equals_brute_force(words, seed):
    labels = iobes_labels(["X"])
    rules = iobes_transitions(labels)
    scores = np.log(np.random.default_rng(seed).dirichlet(np.ones(len(labels)), words)).reshape(words, len(labels))
    decoded = constrained_viterbi(scores, [words], *rules)
    valid_paths = [
        path
        for path in product(range(len(labels)), repeat=words)
        if not scheme_violations([labels[index] for index in path])
    ]
    best = max(valid_paths, key=lambda path: sum(scores[word, label] for word, label in enumerate(path)))
    assert tuple(decoded) == best


def test_constrained_viterbi_where_no_legal_path_is_possible():
    rules = iobes_transitions(iobes_labels(["X"]))
    scores = np.full((3, 5), -np.inf)
    scores[[0, 1, 2], [1, 2, 0]] = 0  # B-X I-X O: nothing legal is possible
    assert scheme_violations([iobes_labels(["X"])[label] for label in constrained_viterbi(scores, [3], *rules)]) == []
    without_end = iobes_transitions(["B-X", "I-X"])  # no label that may end a sequence
    assert constrained_viterbi(np.array([[0.0, -1.0], [0.0, -1.0]]), [2], *without_end).tolist() == [0, 1]


@pytest.mark.parametrize(
    ("file", "num_entities", "num_violations"),
    [("msra_ner/test.txt", 6_190, 0), ("wnut17/wnut17train.conll", 1_975, 0)],
)
def test_scheme_of_real_data_is_detected(data: Path, file: str, num_entities: int, num_violations: int):
    sequences: list[list[str]] = [[]]
    for line in (data / "tasks" / file).read_text(encoding="utf-8").splitlines():
        sequences[-1].append(line.split()[1]) if len(line.split()) > 1 else sequences.append([])
    detected = detect_scheme(sequences)
    assert (detected.scheme, detected.num_violations) == ("BIO", num_violations)
    repaired = [repair_tags(tags, "BIO") for tags in sequences]
    assert sum(num_repaired for _, num_repaired in repaired) == num_violations
    assert sum(len(entity_spans(tags)) for tags in sequences) == num_entities
    for tags, _ in repaired[:: len(repaired) // 500]:
        assert from_iobes(to_iobes(tags, "BIO"), "BIO") == tags
