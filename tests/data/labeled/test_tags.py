"""Schemes of tags into each other without loss, broken tags as seqeval reads them, legal moves, and the best path."""

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
    from_iobes,
    iobes_labels,
    legal_transitions,
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
    found, at = [], 0
    for _ in range(draw(st.integers(0, 5))):
        at += draw(st.integers(0, 2))
        length = draw(st.integers(1, 4))
        found.append((at, at + length, draw(st.sampled_from(KINDS))))
        at += length
    return found, at + draw(st.integers(0, 2))


any_tags = st.lists(
    st.builds(lambda letter, kind: f"{letter}-{kind}" if kind else letter, st.sampled_from("BIES"),
              st.sampled_from(KINDS)) | st.just("O"),
    max_size=9,
)  # fmt: skip
strange_tags = st.lists(any_tags.map(lambda tags: tags[0] if tags else "M-PER") | st.sampled_from(["", "Q-PER", "B-"]))


@given(texts_with_entities(), st.sampled_from(SCHEMES), st.sampled_from(SCHEMES))
def test_entities_survive_every_scheme(given_text, one, other):
    found, words = given_text
    ours = entities_to_iobes(found, words)
    assert len(ours) == words
    assert entity_spans(ours) == found
    theirs = from_iobes(ours, one)
    assert scheme_violations(theirs, one) == []
    assert entity_spans(theirs) == found
    assert to_iobes(theirs, one) == ours
    assert from_iobes(to_iobes(theirs, one), other) == from_iobes(ours, other)
    assert {tag[0] for tag in theirs} <= {"O", "B", *SCHEME_LETTERS[one]}


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
def test_each_scheme_as_it_is_known(scheme, tags):
    ours = "S-PER B-PER E-PER O B-地名 I-地名 E-地名 S-a-b".split()
    assert from_iobes(ours, scheme) == tags.split()
    assert to_iobes(tags.split(), scheme) == ours
    assert detect_scheme([tags.split(), ["O"]]).scheme == scheme
    assert entity_spans(tags.split()) == [(0, 1, "PER"), (1, 3, "PER"), (4, 7, "地名"), (7, 8, "a-b")]


@given(texts_with_entities())
def test_seqeval_reads_what_we_write(given_text):
    found, words = given_text
    ours = entities_to_iobes([(first, end, kind or "_") for first, end, kind in found], words)
    for scheme, theirs in {"IOBES": IOBES, "BIO": IOB2, "BILOU": BILOU}.items():
        (read,) = Entities([from_iobes(ours, scheme)], theirs).entities
        assert [(one.start, one.end, one.tag) for one in read] == entity_spans(ours)


def test_seqeval_reads_our_iob1():
    tags = from_iobes("S-X S-X S-Y O B-X E-X".split(), "IOB1")
    assert tags == "I-X B-X I-Y O I-X I-X".split()
    (read,) = Entities([tags], IOB1).entities
    assert [(one.start, one.end, one.tag) for one in read] == [(0, 1, "X"), (1, 2, "X"), (2, 3, "Y"), (4, 6, "X")]


@given(any_tags)
def test_broken_tags_are_read_as_seqeval_reads_them(tags):
    wanted = [(first, last + 1, kind) for kind, first, last in get_entities(tags)]
    assert [(first, end, kind or "_") for first, end, kind in entity_spans(tags)] == wanted
    assert entity_spans(repair_tags(tags)[0]) == entity_spans(tags)


@given(strange_tags, st.sampled_from(SCHEMES))
def test_repairs_leave_nothing_to_repair_and_are_counted(tags, scheme):
    right, changed = repair_tags(tags, scheme)
    assert repair_tags(right, scheme) == (right, 0)
    assert entity_spans(right) == entity_spans(tags)
    assert [place for place, _ in scheme_violations(tags, scheme)] == [
        i for i, tag in enumerate(tags) if tag != right[i]
    ]
    assert changed == len(scheme_violations(tags, scheme))
    assert scheme_violations(right, scheme) == []


@pytest.mark.parametrize(
    ("scheme", "tags", "mended", "place", "reason"),
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
def test_faults_are_named_and_mended(scheme, tags, mended, place, reason):
    assert scheme_violations(tags.split(), scheme) == [(place, reason)]
    assert repair_tags(tags.split(), scheme) == (mended.split(), 1)
    with pytest.raises(InputError, match=f"^word {place + 1}: "):
        to_iobes(tags.split(), scheme)


@pytest.mark.parametrize(
    ("sequences", "scheme", "wrong"),
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
def test_schemes_are_recognised_over_a_whole_data_set(sequences, scheme, wrong):
    found = detect_scheme([tags.split() for tags in sequences])
    assert (found.scheme, found.num_violations) == (scheme, wrong)
    assert detect_scheme([tags.split() for tags in sequences]).scheme == scheme


def test_the_reason_says_why():
    assert detect_scheme([["S-X"]]).reason == "no tag breaks it; IOBES, BMES fit alike, and it is the simplest"
    assert detect_scheme([["B-X", "I-X"]]).reason == "no tag breaks it, fewer than any other"
    broken = [["B-X", "I-X", "O", "I-X", "O", "B-Y"]]
    assert detect_scheme(broken).reason == "1 of 4 tags break it, fewer than any other"


def test_tags_of_something_else_stand_for_themselves():
    found = detect_scheme([["DT", "NN", "VB"]])
    assert (found.scheme, found.num_violations) == ("plain", 0)
    assert found.reason.startswith("DT, NN, VB are no tags of entities")
    assert detect_scheme([["O", "O", "V", "N", "N", "B-PER"]]).scheme == "plain"  # most that say anything
    assert scheme_violations(["DT", "NN"], "plain") == []
    assert to_iobes(["DT", "NN"], "plain") == from_iobes(["DT", "NN"], "plain") == ["DT", "NN"]
    assert repair_tags(["DT", "I-X"], "plain") == (["DT", "I-X"], 0)


def test_tags_of_entities_that_break_every_scheme_are_refused():
    with pytest.raises(InputError, match="most of them break every scheme"):
        detect_scheme([["E-X", "E-Y"]])
    with pytest.raises(InputError, match="no scheme of tags is called 'IOE2'"):
        scheme_violations(["O"], "IOE2")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("tag", ["B-PER|B-ORG", "O|B-ORG", "B-PER\tI-ORG", "B-人,B-地"])
def test_nested_tags_are_refused(tag):
    with pytest.raises(InputError, match="word 2 has several tags") as error:
        reject_nested_tags(["O", tag], file="a.conll", line=7)
    assert (error.value.file, error.value.line) == ("a.conll", 7)
    for read in (
        entity_spans,
        scheme_violations,
        repair_tags,
        lambda tags: detect_scheme([tags]),
        lambda tags: to_iobes(tags, "BIO"),
    ):
        with pytest.raises(InputError, match="entities inside others"):
            read(["O", tag])
    with pytest.raises(InputError, match="two entities share word 3"):
        entities_to_iobes([(0, 3, "PER"), (2, 4, "ORG")], 5)


def test_a_kind_with_such_marks_is_no_nesting():
    reject_nested_tags(["B-R&D", "I-a|b", "S-x/y"])
    assert entity_spans(["B-R&D", "I-R&D"]) == [(0, 2, "R&D")]


def test_entities_beyond_the_text_are_refused():
    for first, end in ((2, 4), (-1, 1), (1, 1)):
        with pytest.raises(InputError, match="in a text of 3 words"):
            entities_to_iobes([(first, end, "X")], 3)


def test_labels_are_those_of_the_lineage():
    labels = iobes_labels(["PER", "LOC", "ORG"])
    assert len(labels) == 13
    assert labels[:5] == ["O", "B-PER", "I-PER", "E-PER", "S-PER"]
    assert [split_tag(label)[0] for label in labels[:5]] == [*"OBIES"]
    for wrong in ("M-PER", "O-PER", "PER", ""):
        with pytest.raises(InputError, match="no tag of IOBES"):
            legal_transitions([*labels, wrong])


def test_legal_moves_are_just_those_of_legal_sequences():
    labels = iobes_labels(["地名", "a-b"])
    moves, start, end = legal_transitions(labels)
    for length in (1, 2, 3):
        for path in product(range(len(labels)), repeat=length):
            allowed = start[path[0]] and end[path[-1]] and all(moves[a, b] for a, b in pairwise(path))
            assert allowed == (not scheme_violations([labels[label] for label in path]))


@given(st.integers(0, 4), st.integers(0, 2**32 - 1))
def test_the_best_path_is_the_best_of_all(words, seed):
    labels = iobes_labels(["X"])
    rules = legal_transitions(labels)
    scores = np.log(np.random.default_rng(seed).dirichlet(np.ones(len(labels)), words)).reshape(words, len(labels))
    found = constrained_viterbi(scores, [words], *rules)
    ways = [
        path
        for path in product(range(len(labels)), repeat=words)
        if not scheme_violations([labels[one] for one in path])
    ]
    best = max(ways, key=lambda path: sum(scores[word, label] for word, label in enumerate(path)))
    assert tuple(found) == best


def test_the_best_path_where_something_is_impossible():
    rules = legal_transitions(iobes_labels(["X"]))
    sure = np.full((3, 5), -np.inf)
    sure[[0, 1, 2], [1, 2, 0]] = 0  # B-X I-X O: nothing legal is possible
    assert scheme_violations([iobes_labels(["X"])[label] for label in constrained_viterbi(sure, [3], *rules)]) == []
    alone = legal_transitions(["B-X", "I-X"])  # from which nothing can end
    assert constrained_viterbi(np.array([[0.0, -1.0], [0.0, -1.0]]), [2], *alone).tolist() == [0, 1]


@pytest.mark.parametrize(
    ("file", "found", "wrong"), [("msra_ner/test.txt", 6_190, 0), ("wnut17/wnut17train.conll", 1_975, 0)]
)
def test_real_data(data: Path, file: str, found: int, wrong: int):
    sequences: list[list[str]] = [[]]
    for line in (data / "tasks" / file).read_text(encoding="utf-8").splitlines():
        sequences[-1].append(line.split()[1]) if len(line.split()) > 1 else sequences.append([])
    told = detect_scheme(sequences)
    assert (told.scheme, told.num_violations) == ("BIO", wrong)
    mended = [repair_tags(tags, "BIO") for tags in sequences]
    assert sum(changed for _, changed in mended) == wrong
    assert sum(len(entity_spans(tags)) for tags in sequences) == found
    for tags, _ in mended[:: len(mended) // 500]:
        assert from_iobes(to_iobes(tags, "BIO"), "BIO") == tags
