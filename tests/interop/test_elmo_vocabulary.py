"""vocab.txt for ELMo readers: every token has a line, and the three markers are always there."""

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


def test_special_tokens_become_elmo_markers():
    lines = vocabulary_lines(
        ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the"], {"padding": 0, "unknown": 1, "start": 2, "end": 3}
    )
    assert lines == ["[PAD]", "<UNK>", "<S>", "</S>", "the"]


def test_missing_elmo_markers_are_appended():
    assert vocabulary_lines(["<|end|>", "a"], {"start": 0, "end": 0}) == ["</S>", "a", "<S>", "<UNK>"]


def test_tokens_that_look_like_elmo_markers_are_escaped():
    lines = vocabulary_lines(["<S>", "[SEP]", "</S>"], {"end": 1})
    assert lines == [r"\u003cS>", "</S>", r"\u003c/S>", "<S>", "<UNK>"]


@given(st.lists(st.text(max_size=4), unique=True, max_size=8))
def test_every_token_has_its_own_vocabulary_line(tokens: list[str]):
    lines = vocabulary_lines([*tokens, "[UNK]"], {"unknown": len(tokens)})
    assert len(lines) == len(set(lines)) == len(tokens) + 3
    text = "".join(f"{line}\n" for line in lines)
    assert [line.strip() for line in text.split("\n")[:-1]] == lines  # as bilm-tf reads them
    assert set(ELMO_MARKERS.values()) <= set(lines)


def test_appended_elmo_markers_copy_the_end_vector_and_are_never_predicted():
    rng = np.random.default_rng(0)
    tensors = {
        TOKEN: rng.normal(size=(2, 3)),
        f"{SCORES}.weight": rng.normal(size=(2, 3)),
        f"{SCORES}.bias": np.ones(2),
    }
    lines = vocabulary_lines(["<|end|>", "a"], {"start": 0, "end": 0})
    extended = add_marker_rows(tensors, lines, 0, shared_boundary=True)
    assert np.array_equal(extended[TOKEN], tensors[TOKEN][[0, 1, 0, 0]])
    assert extended[f"{SCORES}.bias"].tolist() == [1, 1, UNPREDICTABLE_SCORE, UNPREDICTABLE_SCORE]
    restored = drop_extra_rows(extended, 2)
    assert all(np.array_equal(restored[name], tensors[name]) for name in tensors)


def test_shared_boundary_token_gives_equal_start_and_end_characters():
    name, table = "encoder.embedding.character.weight", np.arange(261.0)[:, None]
    tensors = {name: table}
    lines = vocabulary_lines(["<S>", "</S>", "<UNK>"], {"start": 0, "end": 1, "unknown": 2})
    table_with_boundaries = add_marker_rows(tensors, lines, 1, shared_boundary=True)[name]
    assert table_with_boundaries[256] == table_with_boundaries[257] == table[257]
    assert table[256] == 256
    assert add_marker_rows(tensors, lines, 1, shared_boundary=False)[name] is table
