"""Next-token objective: each token is supervised once an epoch in its own context, and batches are stateless."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebear.data.corpus.corpus import Corpus
from forebear.data.corpus.prepare import prepare_corpus
from forebear.data.tokenizers.train import train_tokenizer
from forebear.errors import InputError
from forebear.objectives.batch import IGNORE_INDEX, Batch, BatchKey
from forebear.objectives.next_token import NextToken

TEXTS = ["abcde", "fgh", "ij", "klmnopqrstu", "v", "wxyz"]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    folder: Path = tmp_path_factory.mktemp("next")
    (folder / "text.txt").write_text("\n\n".join(TEXTS))
    return prepare_corpus([folder / "text.txt"], train_tokenizer("characters", TEXTS), to=folder / "corpus")


def supervised_pairs(corpus: Corpus, batch: Batch) -> list[tuple[str, str]]:
    """The supervised pairs: the token before, and the target."""
    end = corpus.tokenizer.special_roles["end"]
    symbols = [*corpus.tokenizer.vocabulary()]
    symbols[end] = "|"
    pairs = zip(batch.inputs["tokens"].tolist(), batch.targets["next"].tolist(), strict=True)
    return [(symbols[token], symbols[target]) for token, target in pairs if target != IGNORE_INDEX]


ALL_PAIRS = Counter(zip("|" + "|".join(TEXTS), "|".join(TEXTS) + "|", strict=True))


@given(context=st.integers(1, 40), size=st.integers(1, 60), seed=st.integers(0, 9), document_mask=st.booleans())
def test_next_token_supervises_every_token_once_an_epoch(
    corpus: Corpus, context: int, size: int, seed: int, document_mask: bool
):
    objective = NextToken(context, corpus.tokenizer.special_roles["end"], document_mask)
    source = corpus.all_documents()
    rows = max(1, size // min(context, 32))
    windows = -(-32 // min(context, 32))
    epochs = [[], []]
    step = 0
    while step * rows < 2 * windows:
        batch = objective.batch(source, size, BatchKey(seed, step))
        width = min(context, 32)
        for row in range(rows):
            epoch = (step * rows + row) // windows
            if epoch < 2:
                span = slice(row * width, (row + 1) * width)
                part = Batch(
                    {"tokens": batch.inputs["tokens"][span], "lengths": np.array([width])},
                    {"next": batch.targets["next"][span]},
                )
                epochs[epoch] += supervised_pairs(corpus, part)
        step += 1
    assert Counter(epochs[0]) == Counter(epochs[1]) == ALL_PAIRS
    assert objective.steps(source, size) == -(-windows // rows)


def test_next_token_sequences_are_contiguous_text(corpus: Corpus):
    objective = NextToken(6, corpus.tokenizer.special_roles["end"])
    ring = "|".join(TEXTS) + "|"
    for step in range(20):
        batch = objective.batch(corpus.all_documents(), 12, BatchKey(1, step))
        assert batch.inputs["lengths"].tolist() == [6, 6]
        for row in (slice(0, 6), slice(6, 12)):
            tokens = [corpus.tokenizer.id_to_token(token) for token in batch.inputs["tokens"][row].tolist()]
            row_text = "".join(token if len(token) == 1 else "|" for token in tokens)
            assert row_text in ring + ring
            targets = [target for target in batch.targets["next"][row].tolist() if target != IGNORE_INDEX]
            assert (
                targets[: len(tokens) - 1] == batch.inputs["tokens"][row].tolist()[1 : len(targets) + 1][: len(targets)]
            )


def test_document_mask_splits_sequences_at_document_ends(corpus: Corpus):
    """Where attention must not cross documents, each sequence starts with an end token and has no other."""
    end = corpus.tokenizer.special_roles["end"]
    objective = NextToken(12, end, document_mask=True)
    for step in range(10):
        batch = objective.batch(corpus.all_documents(), 24, BatchKey(1, step))
        unmasked = NextToken(12, end).batch(corpus.all_documents(), 24, BatchKey(1, step))
        assert np.array_equal(batch.inputs["tokens"], unmasked.inputs["tokens"])
        assert batch.inputs["lengths"].sum() == 24
        starts = np.cumsum(batch.inputs["lengths"]) - batch.inputs["lengths"]
        ends = set(np.flatnonzero(batch.inputs["tokens"] == end).tolist())
        assert ends <= set(starts.tolist())
        assert set(starts.tolist()) - ends <= {0, 12}  # a window may start inside a document


def test_next_token_batch_is_determined_by_seed_and_step(corpus: Corpus):
    objective = NextToken(5, corpus.tokenizer.special_roles["end"])
    first, repeated = (objective.batch(corpus.all_documents(), 20, BatchKey(3, 8)) for _ in range(2))
    assert np.array_equal(first.inputs["tokens"], repeated.inputs["tokens"])
    others = [objective.batch(corpus.all_documents(), 20, key) for key in (BatchKey(3, 9), BatchKey(4, 8))]
    assert not any(np.array_equal(first.inputs["tokens"], other.inputs["tokens"]) for other in others)


@given(count=st.integers(1, 9), lengths=st.lists(st.integers(1, 5), min_size=1, max_size=7))
def test_batch_split_parts_concatenate_to_the_batch(count: int, lengths: list[int]):
    total = sum(lengths)
    batch = Batch(
        {"tokens": np.arange(total), "lengths": np.array(lengths)},
        {"next": np.where(np.arange(total) % 3, np.arange(total), IGNORE_INDEX), "label": np.arange(len(lengths))},
    )
    parts = batch.split(count)
    assert len(parts) == min(count, len(lengths))
    for name in batch.inputs:
        assert np.array_equal(np.concatenate([part.inputs[name] for part in parts]), batch.inputs[name])
    for name in batch.targets:
        assert np.array_equal(np.concatenate([part.targets[name] for part in parts]), batch.targets[name])
        assert sum(part.supervised_counts()[name] for part in parts) == batch.supervised_counts()[name]
    assert all(sum(part.inputs["lengths"]) == part.num_target_tokens for part in parts)
    # parts are of about equal size
    assert max(part.num_target_tokens for part in parts) <= total / len(parts) + max(lengths)


def test_next_token_windows_start_elsewhere_each_epoch(corpus: Corpus):
    """Windows of six start at other characters in another epoch, so each token gets another context."""
    objective = NextToken(6, corpus.tokenizer.special_roles["end"])
    steps = objective.steps(corpus.all_documents(), 6)

    def window_starts(epoch: int) -> set[tuple[int, ...]]:
        batches = [
            objective.batch(corpus.all_documents(), 6, BatchKey(5, epoch * steps + step)) for step in range(steps)
        ]
        return {tuple(batch.inputs["tokens"].tolist()[:2]) for batch in batches}

    assert len({frozenset(window_starts(epoch)) for epoch in range(4)}) > 2


@given(context=st.integers(1, 40), size=st.integers(1, 60), seed=st.integers(0, 9), lead=st.integers(0, 5))
def test_lead_tokens_give_every_target_its_full_window_once(
    corpus: Corpus, context: int, size: int, seed: int, lead: int
):
    """Windows of lead + 1 tokens since the last end token equal those of the text, wherever an epoch cuts it."""
    end, source = corpus.tokenizer.special_roles["end"], corpus.all_documents()
    objective = NextToken(context, end, lead_tokens=lead)
    steps, supervised, epoch = objective.steps(source, size), Counter(), -(-32 // min(context, 32))
    rows_left = epoch  # sequences left in this epoch: the last batch may hold some of the next
    for step in range(steps):
        batch = objective.batch(source, size, BatchKey(seed, step))
        ends = np.cumsum(batch.inputs["lengths"])
        for start, stop in list(zip(ends - batch.inputs["lengths"], ends, strict=True))[:rows_left]:
            tokens, targets = (
                arrays[start:stop].tolist() for arrays in (batch.inputs["tokens"], batch.targets["next"])
            )
            assert targets[:lead] == [IGNORE_INDEX] * lead
            for position, target in enumerate(targets):
                if target != IGNORE_INDEX:
                    supervised[_window(tokens[: position + 1], lead + 1, end), target] += 1
        rows_left -= len(ends)
    expected = Counter()
    for text in TEXTS:
        row = [end, *corpus.tokenizer.encode(text).ids.tolist(), end]
        expected.update((_window(row[:position], lead + 1, end), row[position]) for position in range(1, len(row)))
    assert supervised == expected


def _window(tokens: list[int], size: int, end: int) -> tuple[int, ...]:
    document_start = max([position for position, token in enumerate(tokens) if token == end], default=0)
    return tuple(([end] * size + tokens[document_start:])[-size:])


def test_lead_tokens_allow_text_shorter_than_the_window(corpus: Corpus):
    end = corpus.tokenizer.special_roles["end"]
    with pytest.raises(InputError, match="longer than the whole text"):
        NextToken(1000, end).check(corpus.all_documents())
    NextToken(1000, end, lead_tokens=3).check(corpus.all_documents())
