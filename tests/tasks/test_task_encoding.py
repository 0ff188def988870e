"""Encoding of examples into rows, and predictions from a perfect head's logits, at any length."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forebear.data.labeled.examples import AnswerSpan, ChoiceExample, LabeledExample, QuestionExample, TaggedExample
from forebear.data.tokenizers.train import train_tokenizer
from forebear.models.bert import BertSpec
from forebear.models.gpt import GPTSpec
from forebear.objectives.batch import IGNORE_INDEX
from forebear.objectives.input_format import InputFormat
from forebear.tasks import tagging
from forebear.tasks.classification import Classification, PairClassification, truncate_pair
from forebear.tasks.multiple_choice import MultipleChoice
from forebear.tasks.question_answering import NO_ANSWER_POSITION, QuestionAnswering
from forebear.tasks.tagging import SequenceTagging
from forebear.tasks.task import BATCH_TOKENS, predict_logits

TEXT = "我在柏林看见爱因斯坦。 the quick brown fox saw Einstein in Berlin, and it ran 37 miles. 今天最高温度 37 摄氏度"
WORDPIECE = train_tokenizer("wordpiece", [TEXT] * 3, size=400)
BYTE_BPE = train_tokenizer("bytepair", [TEXT] * 3, size=300)
BERT_FORMAT = BertSpec(width=8, depth=1, heads=1, context=16).input_format(WORDPIECE)
GPT_FORMAT = GPTSpec(width=8, depth=1, heads=1, context=16).input_format(BYTE_BPE)
FORMATS = {"bert": (WORDPIECE, BERT_FORMAT), "gpt": (BYTE_BPE, GPT_FORMAT)}


def test_bert_encodes_a_pair_as_in_the_paper():
    word_tokenizer = train_tokenizer("words", ["I like dogs I like cats"])
    tokenizer = train_tokenizer("wordpiece", ["I like dogs I like cats"] * 3, size=100)
    input_format = BertSpec(width=8, depth=1, heads=1, context=32).input_format(tokenizer)
    rows = PairClassification(labels=("a", "b")).encode(
        [LabeledExample(("I like dogs", "I like cats"), "a")], tokenizer, input_format
    )
    tokens = [tokenizer.id_to_token(int(token)) for token in rows.tokens]
    assert (tokens[0], tokens[-1], tokens.count("[SEP]")) == ("[CLS]", "[SEP]", 2)
    second_start = tokens.index("[SEP]") + 1
    assert rows.segments.tolist() == [0] * second_start + [1] * (len(tokens) - second_start)
    assert len(word_tokenizer.encode("I like dogs").ids) == 3


def test_causal_model_encodes_a_pair_in_both_orders():
    example = LabeledExample(("the fox", "Berlin"), "a")
    both_orders = PairClassification(labels=("a", "b")).encode([example], BYTE_BPE, GPT_FORMAT)
    assert (len(both_orders.lengths), both_orders.groups_rows) == (2, True)
    ordered = PairClassification(labels=("a", "b"), ordered=True).encode([example], BYTE_BPE, GPT_FORMAT)
    assert (len(ordered.lengths), ordered.groups_rows) == (1, False)
    first_row, second_row = np.split(both_orders.tokens, [int(both_orders.lengths[0])])
    end = GPT_FORMAT.before[0]
    sentences = [np.split(row, np.flatnonzero(row == end))[1:3] for row in (first_row, second_row)]
    np.testing.assert_array_equal(sentences[0][0], sentences[1][1])
    np.testing.assert_array_equal(sentences[0][1], sentences[1][0])


@given(st.integers(0, 60), st.integers(0, 60), st.integers(2, 40))
def test_truncate_pair_shortens_the_longer_text(first_length: int, second_length: int, max_tokens: int):
    first, second = truncate_pair(np.arange(first_length), np.arange(second_length), max_tokens)
    assert len(first) + len(second) == min(first_length + second_length, max_tokens)
    if first_length + second_length > max_tokens:
        assert min(first_length, second_length) <= len(first) <= first_length or abs(len(first) - len(second)) <= 1
        assert len(first) == first_length or len(first) >= len(second) - 1 or len(second) == second_length


@given(st.integers(0, 500), st.integers(1, 40), st.integers(1, 9))
def test_long_text_is_encoded_in_windows(length: int, window_size: int, max_windows: int):
    input_format = InputFormat(before=(1,), after=(2,), pooling="first", max_length=window_size + 2)
    task = Classification(labels=("a", "b"), windows=max_windows)

    class FakeTokenizer:
        def encode_many(self, texts):
            return np.arange(10, 10 + length), np.array([length])

    rows = task.encode([LabeledExample(("x",), "a")], FakeTokenizer(), input_format)  # pyright: ignore[reportArgumentType]
    assert len(rows.lengths) == min(max(1, -(-length // window_size)), max_windows)
    assert rows.lengths.max() <= window_size + 2
    seen = {int(token) for token in rows.tokens} - {1, 2}
    if -(-length // window_size) <= max_windows:
        assert seen == set(range(10, 10 + length))
        assert rows.num_truncated == 0
    else:
        assert rows.num_truncated == length - window_size * max_windows
        assert {10, 9 + length if max_windows > 1 else 10} <= seen


@settings(max_examples=60)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=80), st.integers(8, 30))
def test_word_windows_predict_every_word_once(sizes: list[int], max_tokens: int):
    sizes = [min(size, max_tokens) for size in sizes]
    predicted = []
    for begin, end, words in tagging._word_windows(sizes, max_tokens):
        assert sum(sizes[begin:end]) <= max_tokens
        assert begin <= words.start < words.stop <= end
        predicted += list(words)
    assert predicted == list(range(len(sizes)))


def perfect_logits(rows, tags) -> dict[str, list[np.ndarray]]:
    """Logits of a head that is always correct."""
    ends = np.cumsum(rows.lengths)
    target = rows.targets["tag"]
    logits = np.where(np.arange(len(tags))[None] == target[:, None], 9.0, 0.0)
    return {"tag": [logits[end - length : end] for end, length in zip(ends, rows.lengths, strict=True)]}


ENTITY_TYPES = ("PER", "地点")
WORD_CHOICES = ("我", "Berlin", "fox", "37", "柏", "unseen🙂word", "\u200b")


@st.composite
def tagged_sentences(draw) -> TaggedExample:
    words, tags = [], []
    for _ in range(draw(st.integers(1, 12))):
        entity_type = draw(st.sampled_from(("", *ENTITY_TYPES)))
        count = draw(st.integers(1, 4))
        entity_words = [
            draw(st.sampled_from(("我", "Berlin", "fox", "37", "柏", "unseen🙂word", "\u200b"))) for _ in range(count)
        ]
        words += entity_words
        if not entity_type:
            tags += ["O"] * count
        else:
            tags += (
                [f"S-{entity_type}"]
                if count == 1
                else [f"B-{entity_type}", *[f"I-{entity_type}"] * (count - 2), f"E-{entity_type}"]
            )
    return TaggedExample(tuple(words), tuple(tags))


@settings(max_examples=80)
@given(tagged_sentences(), st.sampled_from(sorted(FORMATS)), st.booleans())
def test_tagging_predicts_the_gold_tags_from_perfect_logits(example: TaggedExample, name: str, crf: bool):
    tokenizer, input_format = FORMATS[name]
    task = SequenceTagging(
        tags=("O", *(f"{letter}-{entity_type}" for entity_type in ENTITY_TYPES for letter in "BIES")), crf=crf
    )
    rows = task.encode([example], tokenizer, input_format)
    assert rows.lengths.max() <= input_format.max_length
    logits = perfect_logits(rows, task.tags)
    if crf:
        count = len(task.tags)
        logits["transitions"] = [np.zeros((count, count)), np.zeros(count), np.zeros(count)]
    (prediction,) = task.predictions([example], rows, logits)
    assert prediction.tags == example.tags
    assert "".join(prediction.words) == "".join(example.words)
    metrics = task.evaluate([example], [prediction])
    assert metrics["f1"] == (1.0 if prediction.entities else 0.0)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("begin", [0, 7, 30, 95])
def test_question_answering_predicts_the_gold_span_in_any_window(name: str, begin: int):
    tokenizer, input_format = FORMATS[name]
    input_format = replace(input_format, max_length=40)
    words = [f"fox{index % 7}" for index in range(100)]
    passage = " ".join([*words[:begin], "37 miles", *words[begin:]])
    start = passage.index("37 miles")
    example = QuestionExample("how far?", passage, (AnswerSpan(start, "37 miles"),))
    task = QuestionAnswering(longest=20)
    rows = task.encode([example], tokenizer, input_format)
    rows_with_answer = np.flatnonzero(rows.targets["start"] != NO_ANSWER_POSITION)
    assert len(rows.lengths) > 5
    assert len(rows_with_answer) >= 1
    logits: dict[str, list[np.ndarray]] = {"start": [], "end": []}
    for row, length in enumerate(rows.lengths.tolist()):
        for head in logits:
            scores = np.zeros(length)
            scores[rows.targets[head][row]] = 9.0
            logits[head].append(scores)
    (prediction,) = task.predictions([example], rows, logits)
    assert (prediction.text, prediction.best.start) == ("37 miles", start)
    assert task.evaluate([example], [prediction])["exact_match"] == 1
    training_rows = task.encode([example], tokenizer, input_format, is_training=True)
    assert len(rows_with_answer) < len(training_rows.lengths) <= len(rows_with_answer) + 2


def test_logits_of_a_long_passage_are_computed_in_batches():
    """Its windows are scored in batches, so memory does not grow with its length."""
    batch_sizes: list[int] = []

    class FakeModel:
        transitions = None  # no CRF

        def logits(self, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
            batch_sizes.append(len(inputs["tokens"]))
            return {name: inputs["tokens"].astype(float) for name in ("start", "end")}

    example = QuestionExample("Where?", TEXT * 400)
    rows = QuestionAnswering().encode([example], WORDPIECE, BERT_FORMAT)
    logits_of_rows = predict_logits(FakeModel(), rows)
    assert sum(batch_sizes) == len(rows.tokens) > 5 * BATCH_TOKENS
    assert max(batch_sizes) <= BATCH_TOKENS
    np.testing.assert_array_equal(
        np.concatenate(list(logits_of_rows["start"])), rows.tokens
    )  # each row has its own logits
    assert (
        len(QuestionAnswering().predictions([example], rows, logits_of_rows)[0].candidates) == QuestionAnswering().top
    )


def test_question_answering_predicts_no_answer_only_if_allowed():
    example = QuestionExample("who?", "the fox saw Berlin", ())
    task = QuestionAnswering(unanswered=True)
    rows = task.encode([example], WORDPIECE, BERT_FORMAT)
    assert rows.targets["start"].tolist() == [NO_ANSWER_POSITION] * len(rows.lengths)
    logits = {
        head: [np.eye(1, int(length), NO_ANSWER_POSITION)[0] * 9 for length in rows.lengths]
        for head in ("start", "end")
    }
    (prediction,) = task.predictions([example], rows, logits)
    assert prediction.best is None
    assert prediction.candidates
    (forced,) = replace(task, unanswered=False).predictions([example], rows, logits)
    assert forced.text


def test_multiple_choice_takes_any_number_of_choices():
    examples = [ChoiceExample("the fox", ("ran", "saw Berlin"), 1), ChoiceExample("我", ("在", "看见", "柏林"), None)]
    rows = MultipleChoice().encode(examples, WORDPIECE, BERT_FORMAT)
    assert [len(rows.row_range(index)) for index in range(2)] == [2, 3]
    assert rows.targets["choice"].tolist() == [1, IGNORE_INDEX]
    predictions = MultipleChoice().predictions(
        examples, rows, {"choice": [np.array([0.0, 1.0]), np.array([3.0, 1.0, 0.0])]}
    )
    assert [prediction.choice for prediction in predictions] == [1, 0]
    assert MultipleChoice().evaluate(examples, predictions) == {"accuracy": 1.0, "chance": 0.5, "examples": 1}


def test_chain_viterbi_and_marginals_equal_the_crf_layer():
    import torch

    from forebear.data.labeled.tag_schemes import iobes_transitions
    from forebear.nn.crf import CRFLayer

    rng = np.random.default_rng(0)
    allowed = iobes_transitions(("O", "B-X", "I-X", "E-X", "S-X"))
    crf = CRFLayer(*allowed)
    biases = [rng.normal(size=array.shape).astype(np.float32) for array in allowed]
    for name, values in zip(("transition_bias", "start_bias", "end_bias"), biases, strict=True):
        setattr(crf, name, torch.nn.Parameter(torch.from_numpy(values)))
    transitions = [
        np.where(legal, values, tagging.FORBIDDEN_SCORE) for legal, values in zip(allowed, biases, strict=True)
    ]
    lengths = (1, 7, 0, 30, 7)
    scores = rng.normal(size=(sum(lengths), 5)).astype(np.float32)
    paths = crf.viterbi(torch.from_numpy(scores), lengths)
    marginals = crf.marginals(torch.from_numpy(scores), lengths).numpy()
    np.testing.assert_array_equal(tagging.chain_viterbi(scores, lengths, *transitions), np.concatenate(paths))
    np.testing.assert_allclose(tagging.chain_marginals(scores, lengths, *transitions), marginals, atol=1e-9)
    assert tagging.chain_marginals(scores[:0], [0, 0], *transitions).shape == (0, 5)
    assert tagging.chain_viterbi(scores[:0], [], *transitions).shape == (0,)
