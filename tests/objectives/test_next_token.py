"""Next-token training: every token is asked exactly once an epoch, in its own context, and batches need no memory."""

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


def pairs(corpus: Corpus, batch: Batch) -> list[tuple[str, str]]:
    """What is asked: the token before, and the one to predict."""
    end = corpus.tokenizer.special_roles["end"]
    shown = [*corpus.tokenizer.vocabulary()]
    shown[end] = "|"
    told = zip(batch.inputs["tokens"].tolist(), batch.targets["next"].tolist(), strict=True)
    return [(shown[seen], shown[asked]) for seen, asked in told if asked != IGNORE_INDEX]


WHOLE = Counter(zip("|" + "|".join(TEXTS), "|".join(TEXTS) + "|", strict=True))


@given(context=st.integers(1, 40), size=st.integers(1, 60), seed=st.integers(0, 9), apart=st.booleans())
def test_an_epoch_asks_for_everything_once(corpus: Corpus, context: int, size: int, seed: int, apart: bool):
    objective = NextToken(context, corpus.tokenizer.special_roles["end"], apart)
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
                cut = slice(row * width, (row + 1) * width)
                part = Batch(
                    {"tokens": batch.inputs["tokens"][cut], "lengths": np.array([width])},
                    {"next": batch.targets["next"][cut]},
                )
                epochs[epoch] += pairs(corpus, part)
        step += 1
    assert Counter(epochs[0]) == Counter(epochs[1]) == WHOLE
    assert objective.steps(source, size) == -(-windows // rows)


def test_a_row_is_a_stretch_of_the_text(corpus: Corpus):
    objective = NextToken(6, corpus.tokenizer.special_roles["end"])
    ring = "|".join(TEXTS) + "|"
    for step in range(20):
        batch = objective.batch(corpus.all_documents(), 12, BatchKey(1, step))
        assert batch.inputs["lengths"].tolist() == [6, 6]
        for row in (slice(0, 6), slice(6, 12)):
            tokens = [corpus.tokenizer.id_to_token(token) for token in batch.inputs["tokens"][row].tolist()]
            shown = "".join(token if len(token) == 1 else "|" for token in tokens)
            assert shown in ring + ring
            asked = [target for target in batch.targets["next"][row].tolist() if target != IGNORE_INDEX]
            assert asked[: len(tokens) - 1] == batch.inputs["tokens"][row].tolist()[1 : len(asked) + 1][: len(asked)]


def test_documents_apart(corpus: Corpus):
    """Where attention must not cross documents, every row begins with an end and has no other."""
    end = corpus.tokenizer.special_roles["end"]
    objective = NextToken(12, end, document_mask=True)
    for step in range(10):
        batch = objective.batch(corpus.all_documents(), 24, BatchKey(1, step))
        together = NextToken(12, end).batch(corpus.all_documents(), 24, BatchKey(1, step))
        assert np.array_equal(batch.inputs["tokens"], together.inputs["tokens"])
        assert batch.inputs["lengths"].sum() == 24
        begins = np.cumsum(batch.inputs["lengths"]) - batch.inputs["lengths"]
        ends = set(np.flatnonzero(batch.inputs["tokens"] == end).tolist())
        assert ends <= set(begins.tolist())
        assert set(begins.tolist()) - ends <= {0, 12}  # a window may begin inside a document


def test_a_batch_is_a_function_of_seed_and_step(corpus: Corpus):
    objective = NextToken(5, corpus.tokenizer.special_roles["end"])
    one, same = (objective.batch(corpus.all_documents(), 20, BatchKey(3, 8)) for _ in range(2))
    assert np.array_equal(one.inputs["tokens"], same.inputs["tokens"])
    others = [objective.batch(corpus.all_documents(), 20, moment) for moment in (BatchKey(3, 9), BatchKey(4, 8))]
    assert not any(np.array_equal(one.inputs["tokens"], other.inputs["tokens"]) for other in others)


@given(count=st.integers(1, 9), lengths=st.lists(st.integers(1, 5), min_size=1, max_size=7))
def test_parts_are_the_whole(count: int, lengths: list[int]):
    total = sum(lengths)
    whole = Batch(
        {"tokens": np.arange(total), "lengths": np.array(lengths)},
        {"next": np.where(np.arange(total) % 3, np.arange(total), IGNORE_INDEX), "label": np.arange(len(lengths))},
    )
    parts = whole.split(count)
    assert len(parts) == min(count, len(lengths))
    for name in whole.inputs:
        assert np.array_equal(np.concatenate([part.inputs[name] for part in parts]), whole.inputs[name])
    for name in whole.targets:
        assert np.array_equal(np.concatenate([part.targets[name] for part in parts]), whole.targets[name])
        assert sum(part.supervised_counts()[name] for part in parts) == whole.supervised_counts()[name]
    assert all(sum(part.inputs["lengths"]) == part.num_target_tokens for part in parts)
    assert max(part.num_target_tokens for part in parts) <= total / len(parts) + max(
        lengths
    )  # about as much work in each


def test_every_epoch_cuts_elsewhere(corpus: Corpus):
    """Rows of six begin at other letters in another epoch, so that each token is asked in another context."""
    objective = NextToken(6, corpus.tokenizer.special_roles["end"])
    steps = objective.steps(corpus.all_documents(), 6)

    def begun(epoch: int) -> set[tuple[int, ...]]:
        batches = [
            objective.batch(corpus.all_documents(), 6, BatchKey(5, epoch * steps + step)) for step in range(steps)
        ]
        return {tuple(batch.inputs["tokens"].tolist()[:2]) for batch in batches}

    assert len({frozenset(begun(epoch)) for epoch in range(4)}) > 2


@given(context=st.integers(1, 40), size=st.integers(1, 60), seed=st.integers(0, 9), lead=st.integers(0, 5))
def test_with_a_lead_every_token_is_asked_once_and_sees_all_that_it_looks_back_at(
    corpus: Corpus, context: int, size: int, seed: int, lead: int
):
    """Windows of lead + 1 tokens, since the last end, are those of the text wherever an epoch cuts it."""
    end, source = corpus.tokenizer.special_roles["end"], corpus.all_documents()
    objective = NextToken(context, end, lead_tokens=lead)
    steps, asked, epoch = objective.steps(source, size), Counter(), -(-32 // min(context, 32))
    left = epoch  # rows of this epoch: the last batch may hold some of the next
    for step in range(steps):
        batch = objective.batch(source, size, BatchKey(seed, step))
        ends = np.cumsum(batch.inputs["lengths"])
        for begin, stop in list(zip(ends - batch.inputs["lengths"], ends, strict=True))[:left]:
            tokens, targets = (
                arrays[begin:stop].tolist() for arrays in (batch.inputs["tokens"], batch.targets["next"])
            )
            assert targets[:lead] == [IGNORE_INDEX] * lead
            for at, target in enumerate(targets):
                if target != IGNORE_INDEX:
                    asked[_window(tokens[: at + 1], lead + 1, end), target] += 1
        left -= len(ends)
    expected = Counter()
    for text in TEXTS:
        row = [end, *corpus.tokenizer.encode(text).ids.tolist(), end]
        expected.update((_window(row[:at], lead + 1, end), row[at]) for at in range(1, len(row)))
    assert asked == expected


def _window(tokens: list[int], size: int, end: int) -> tuple[int, ...]:
    since = max([at for at, token in enumerate(tokens) if token == end], default=0)
    return tuple(([end] * size + tokens[since:])[-size:])


def test_with_a_lead_any_text_will_do(corpus: Corpus):
    end = corpus.tokenizer.special_roles["end"]
    with pytest.raises(InputError, match="longer than the whole text"):
        NextToken(1000, end).check(corpus.all_documents())
    NextToken(1000, end, lead_tokens=3).check(corpus.all_documents())
