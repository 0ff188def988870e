"""From tokens back to words: whatever a task makes of texts, every word stands once and gets what its tokens say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forebear.data.labeled.examples import ChoiceExample, LabeledExample, QuestionExample, TaggedExample
from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.data.tokenizers.train import train_tokenizer
from forebear.inspection.attribution_targets import trace_example
from forebear.objectives.batch import IGNORE_INDEX
from forebear.objectives.input_format import InputFormat
from forebear.tasks.classification import Classification, PairClassification
from forebear.tasks.multiple_choice import MultipleChoice
from forebear.tasks.question_answering import QuestionAnswering
from forebear.tasks.tagging import SequenceTagging
from planted_runs import Runs, sentences


@pytest.fixture(scope="module")
def cutters() -> dict[str, Tokenizer]:
    lines = [text for text, _ in sentences(60)]
    sizes = {"words": None, "characters": None, "wordpiece": 150, "bytepair": 300}
    return {kind: train_tokenizer(kind, lines, size=size, min_count=1) for kind, size in sizes.items()}


LAYOUT = InputFormat((0,), (1,), (1,), "first", segments=True, both_orders=True, max_length=16)
TEXT = st.text(st.sampled_from("ab 喜欢电影。,'’-3\n\U0001f600é\x00"), min_size=1, max_size=40).filter(str.strip)


@pytest.mark.parametrize("kind", ["words", "characters", "wordpiece", "bytepair"])
@settings(max_examples=30)
@given(one=TEXT, other=TEXT)
def test_every_word_stands_once_and_rows_are_the_task_s_own(
    kind: str, one: str, other: str, cutters: dict[str, Tokenizer]
):
    tokenizer = cutters[kind]
    tagging = SequenceTagging(tags=("O", "S-X", "B-X", "I-X", "E-X"))
    for task, example in [
        (Classification(labels=("a", "b")), LabeledExample((one,))),
        (PairClassification(labels=("a", "b")), LabeledExample((one, other))),
        (MultipleChoice(), ChoiceExample(one, (other, one))),
        (QuestionAnswering(), QuestionExample(one, other)),
        (tagging, TaggedExample(tagging.split_words(one))),
    ]:
        rows = task.encode([example], tokenizer, LAYOUT)
        traced = trace_example(task, example, tokenizer, LAYOUT)
        np.testing.assert_array_equal(traced.rows.tokens, rows.tokens)
        np.testing.assert_array_equal(traced.rows.lengths, rows.lengths)
        covered = [np.zeros(len(text), int) for text in traced.texts]
        for place in traced.words:
            covered[place.text_index][place.start : place.end] += 1
        for text, counts in zip(traced.texts, covered, strict=True):
            assert counts.max() <= 1
            assert all(count == 1 for character, count in zip(text, counts, strict=True) if character.strip())
        assert set(rows.tokens[~traced.text_mask].tolist()) <= {0, 1, tokenizer.unk_id}
        words, elsewhere = traced.sum_by_word(np.ones(len(rows.tokens)))
        assert words.sum() + elsewhere == len(rows.tokens)
        assert (traced.word_ids[~traced.text_mask] == IGNORE_INDEX).all()


def test_words_are_those_of_the_language_and_never_less_than_a_token(cutters: dict[str, Tokenizer]):
    def words(kind: str, text: str) -> list[str]:
        traced = trace_example(Classification(labels=("a", "b")), LabeledExample((text,)), cutters[kind], LAYOUT)
        return [text[place.start : place.end] for place in traced.words]

    assert words("wordpiece", "I didn't, 我喜欢电影") == ["I", "didn't", ",", "我", "喜欢", "电影"]
    assert words("bytepair", "I didn't, 我喜欢电影") == ["I", "didn't", ",", "我", "喜欢", "电影"]
    assert words("characters", "a film") == ["a", "film"]


def test_tokens_of_a_word_count_for_it(runs: Runs):
    """The row of each token is known from `encode`, so that the sums can be made by hand."""
    run = runs("bert")
    text = "dreadful 讨厌 dog"
    pieces = run.tokenizer.encode(text)
    task, layout = run.task, run.folder.spec.input_format(run.tokenizer)
    assert task is not None
    traced = trace_example(task, LabeledExample((text,)), run.tokenizer, layout)
    values = np.arange(len(traced.word_ids), dtype=float) ** 2
    words, elsewhere = traced.sum_by_word(values)
    by_hand = [
        sum(values[1 + n] for n, (a, _) in enumerate(pieces.spans) if begin <= a < end)
        for begin, end in ((0, 8), (9, 11), (12, 15))
    ]
    np.testing.assert_allclose(words, by_hand)
    assert elsewhere == values[0] + values[-1]
