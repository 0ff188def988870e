"""A vocabulary as lines for those who read ELMo: any token is one, and the three marks are always there."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from forebear.interop.elmo_hdf5 import (
    ELMO_MARKERS,
    UNPREDICTABLE_SCORE,
    add_marker_rows,
    drop_extra_rows,
    vocabulary_lines,
)

TOKEN, SCORES = "encoder.embedding.token.weight", "heads.next.softmax.scores"


def test_the_tokens_of_roles_become_marks():
    lines = vocabulary_lines(
        ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the"], {"padding": 0, "unknown": 1, "start": 2, "end": 3}
    )
    assert lines == ["[PAD]", "<UNK>", "<S>", "</S>", "the"]


def test_marks_without_a_token_of_their_own_stand_behind_all():
    assert vocabulary_lines(["<|end|>", "a"], {"start": 0, "end": 0}) == ["</S>", "a", "<S>", "<UNK>"]


def test_words_that_look_like_marks_are_none():
    lines = vocabulary_lines(["<S>", "[SEP]", "</S>"], {"end": 1})
    assert lines == [r"\u003cS>", "</S>", r"\u003c/S>", "<S>", "<UNK>"]


@given(st.lists(st.text(max_size=4), unique=True, max_size=8))
def test_every_token_is_a_line_of_its_own(tokens: list[str]):
    lines = vocabulary_lines([*tokens, "[UNK]"], {"unknown": len(tokens)})
    assert len(lines) == len(set(lines)) == len(tokens) + 3
    text = "".join(f"{line}\n" for line in lines)
    assert [line.strip() for line in text.split("\n")[:-1]] == lines  # as bilm-tf reads them
    assert set(ELMO_MARKERS.values()) <= set(lines)


def test_marks_that_are_added_are_read_as_the_end_and_never_said():
    drawn = np.random.default_rng(0)
    tensors = {
        TOKEN: drawn.normal(size=(2, 3)),
        f"{SCORES}.weight": drawn.normal(size=(2, 3)),
        f"{SCORES}.bias": np.ones(2),
    }
    lines = vocabulary_lines(["<|end|>", "a"], {"start": 0, "end": 0})
    made = add_marker_rows(tensors, lines, 0, shared_boundary=True)
    assert np.array_equal(made[TOKEN], tensors[TOKEN][[0, 1, 0, 0]])
    assert made[f"{SCORES}.bias"].tolist() == [1, 1, UNPREDICTABLE_SCORE, UNPREDICTABLE_SCORE]
    back = drop_extra_rows(made, 2)
    assert all(np.array_equal(back[name], tensors[name]) for name in tensors)


def test_where_one_token_does_both_a_text_begins_as_it_ends():
    table = np.arange(261.0)[:, None]
    tensors = {"encoder.embedding.character.weight": table}
    lines = vocabulary_lines(["<S>", "</S>", "<UNK>"], {"start": 0, "end": 1, "unknown": 2})
    made = add_marker_rows(tensors, lines, 1, shared_boundary=True)["encoder.embedding.character.weight"]
    assert made[256] == made[257] == table[257]
    assert table[256] == 256
    assert add_marker_rows(tensors, lines, 1, shared_boundary=False)["encoder.embedding.character.weight"] is table
