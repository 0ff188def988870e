"""Token traces: for every task, each word of the texts appears once and receives the values of its tokens."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cue_word_runs import RunCache, labeled_sentences
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


@pytest.fixture(scope="module")
def tokenizers() -> dict[str, Tokenizer]:
    lines = [text for text, _ in labeled_sentences(60)]
    sizes = {"words": None, "characters": None, "wordpiece": 150, "bytepair": 300}
    return {kind: train_tokenizer(kind, lines, size=size, min_count=1) for kind, size in sizes.items()}


INPUT_FORMAT = InputFormat((0,), (1,), (1,), "first", segments=True, both_orders=True, max_length=16)
TEXT = st.text(st.sampled_from("ab 喜欢电影。,'’-3\n\U0001f600é\x00"), min_size=1, max_size=40).filter(str.strip)


@pytest.mark.parametrize("kind", ["words", "characters", "wordpiece", "bytepair"])
@settings(max_examples=30)
@given(text=TEXT, text_b=TEXT)
def test_token_trace_covers_every_word_once_and_keeps_the_rows_of_the_task(
    kind: str, text: str, text_b: str, tokenizers: dict[str, Tokenizer]
):
    tokenizer = tokenizers[kind]
    tagging = SequenceTagging(tags=("O", "S-X", "B-X", "I-X", "E-X"))
    for task, example in [
        (Classification(labels=("a", "b")), LabeledExample((text,))),
        (PairClassification(labels=("a", "b")), LabeledExample((text, text_b))),
        (MultipleChoice(), ChoiceExample(text, (text_b, text))),
        (QuestionAnswering(), QuestionExample(text, text_b)),
        (tagging, TaggedExample(tagging.split_words(text))),
    ]:
        rows = task.encode([example], tokenizer, INPUT_FORMAT)
        trace = trace_example(task, example, tokenizer, INPUT_FORMAT)
        np.testing.assert_array_equal(trace.rows.tokens, rows.tokens)
        np.testing.assert_array_equal(trace.rows.lengths, rows.lengths)
        covered = [np.zeros(len(source_text), int) for source_text in trace.texts]
        for word in trace.words:
            covered[word.text_index][word.start : word.end] += 1
        for source_text, counts in zip(trace.texts, covered, strict=True):
            assert counts.max() <= 1
            assert all(count == 1 for character, count in zip(source_text, counts, strict=True) if character.strip())
        assert set(rows.tokens[~trace.text_mask].tolist()) <= {0, 1, tokenizer.unk_id}
        words, elsewhere = trace.sum_by_word(np.ones(len(rows.tokens)))
        assert words.sum() + elsewhere == len(rows.tokens)
        assert (trace.word_ids[~trace.text_mask] == IGNORE_INDEX).all()


def test_traced_words_follow_the_segmentation_of_the_language(tokenizers: dict[str, Tokenizer]):
    def words(kind: str, text: str) -> list[str]:
        trace = trace_example(
            Classification(labels=("a", "b")), LabeledExample((text,)), tokenizers[kind], INPUT_FORMAT
        )
        return [text[word.start : word.end] for word in trace.words]

    assert words("wordpiece", "I didn't, 我喜欢电影") == ["I", "didn't", ",", "我", "喜欢", "电影"]
    assert words("bytepair", "I didn't, 我喜欢电影") == ["I", "didn't", ",", "我", "喜欢", "电影"]
    assert words("characters", "a film") == ["a", "film"]


def test_token_trace_sums_values_of_tokens_by_word(runs: RunCache):
    """Spans from `encode` give the expected sums."""
    run = runs("bert")
    text = "dreadful 讨厌 dog"
    encoding = run.tokenizer.encode(text)
    task, input_format = run.task, run.folder.spec.input_format(run.tokenizer)
    assert task is not None
    trace = trace_example(task, LabeledExample((text,)), run.tokenizer, input_format)
    values = np.arange(len(trace.word_ids), dtype=float) ** 2
    words, elsewhere = trace.sum_by_word(values)
    expected = [
        sum(values[1 + index] for index, (token_start, _) in enumerate(encoding.spans) if begin <= token_start < end)
        for begin, end in ((0, 8), (9, 11), (12, 15))
    ]
    np.testing.assert_allclose(words, expected)
    assert elsewhere == values[0] + values[-1]
