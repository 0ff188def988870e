"""From examples to rows and back: what a perfect head would say comes out as what people wrote, at any length."""

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
BYTES = train_tokenizer("bytepair", [TEXT] * 3, size=300)
BERT = BertSpec(width=8, depth=1, heads=1, context=16).input_format(WORDPIECE)
GPT = GPTSpec(width=8, depth=1, heads=1, context=16).input_format(BYTES)
LAYOUTS = {"bert": (WORDPIECE, BERT), "gpt": (BYTES, GPT)}


def test_a_pair_is_laid_out_as_in_the_paper():
    words = train_tokenizer("words", ["I like dogs I like cats"])
    tokenizer = train_tokenizer("wordpiece", ["I like dogs I like cats"] * 3, size=100)
    layout = BertSpec(width=8, depth=1, heads=1, context=32).input_format(tokenizer)
    rows = PairClassification(labels=("a", "b")).encode(
        [LabeledExample(("I like dogs", "I like cats"), "a")], tokenizer, layout
    )
    written = [tokenizer.id_to_token(int(token)) for token in rows.tokens]
    assert (written[0], written[-1], written.count("[SEP]")) == ("[CLS]", "[SEP]", 2)
    first = written.index("[SEP]") + 1
    assert rows.segments.tolist() == [0] * first + [1] * (len(written) - first)
    assert len(words.encode("I like dogs").ids) == 3


def test_one_that_looks_back_sees_a_pair_in_both_orders():
    example = LabeledExample(("the fox", "Berlin"), "a")
    both = PairClassification(labels=("a", "b")).encode([example], BYTES, GPT)
    assert (len(both.lengths), both.groups_rows) == (2, True)
    ordered = PairClassification(labels=("a", "b"), ordered=True).encode([example], BYTES, GPT)
    assert (len(ordered.lengths), ordered.groups_rows) == (1, False)
    one, other = np.split(both.tokens, [int(both.lengths[0])])
    end = GPT.before[0]
    parts = [np.split(row, np.flatnonzero(row == end))[1:3] for row in (one, other)]
    np.testing.assert_array_equal(parts[0][0], parts[1][1])
    np.testing.assert_array_equal(parts[0][1], parts[1][0])


@given(st.integers(0, 60), st.integers(0, 60), st.integers(2, 40))
def test_the_longer_of_two_is_cut(first: int, second: int, room: int):
    one, other = truncate_pair(np.arange(first), np.arange(second), room)
    assert len(one) + len(other) == min(first + second, room)
    if first + second > room:
        assert min(first, second) <= len(one) <= first or abs(len(one) - len(other)) <= 1
        assert len(one) == first or len(one) >= len(other) - 1 or len(other) == second


@given(st.integers(0, 500), st.integers(1, 40), st.integers(1, 9))
def test_a_long_text_is_read_in_windows(length: int, room: int, most: int):
    layout = InputFormat(before=(1,), after=(2,), pooling="first", max_length=room + 2)
    task = Classification(labels=("a", "b"), windows=most)

    class Cutter:
        def encode_many(self, texts):
            return np.arange(10, 10 + length), np.array([length])

    rows = task.encode([LabeledExample(("x",), "a")], Cutter(), layout)  # pyright: ignore[reportArgumentType]
    assert len(rows.lengths) == min(max(1, -(-length // room)), most)
    assert rows.lengths.max() <= room + 2
    seen = {int(token) for token in rows.tokens} - {1, 2}
    if -(-length // room) <= most:
        assert seen == set(range(10, 10 + length))
        assert rows.num_truncated == 0
    else:
        assert rows.num_truncated == length - room * most
        assert {10, 9 + length if most > 1 else 10} <= seen


@settings(max_examples=60)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=80), st.integers(8, 30))
def test_every_word_is_asked_once_and_seen_with_its_neighbours(sizes: list[int], room: int):
    sizes = [min(size, room) for size in sizes]
    asked = []
    for begin, end, words in tagging._word_windows(sizes, room):
        assert sum(sizes[begin:end]) <= room
        assert begin <= words.start < words.stop <= end
        asked += list(words)
    assert asked == list(range(len(sizes)))


def perfect(rows, tags) -> dict[str, list[np.ndarray]]:
    """What a head would say that is always right."""
    ends = np.cumsum(rows.lengths)
    target = rows.targets["tag"]
    logits = np.where(np.arange(len(tags))[None] == target[:, None], 9.0, 0.0)
    return {"tag": [logits[end - length : end] for end, length in zip(ends, rows.lengths, strict=True)]}


KINDS = ("PER", "地点")
SPELLED = ("我", "Berlin", "fox", "37", "柏", "unseen🙂word", "\u200b")


@st.composite
def sentences(draw) -> TaggedExample:
    words, tags = [], []
    for _ in range(draw(st.integers(1, 12))):
        kind = draw(st.sampled_from(("", *KINDS)))
        count = draw(st.integers(1, 4))
        own = [
            draw(st.sampled_from(("我", "Berlin", "fox", "37", "柏", "unseen🙂word", "\u200b"))) for _ in range(count)
        ]
        words += own
        if not kind:
            tags += ["O"] * count
        else:
            tags += [f"S-{kind}"] if count == 1 else [f"B-{kind}", *[f"I-{kind}"] * (count - 2), f"E-{kind}"]
    return TaggedExample(tuple(words), tuple(tags))


@settings(max_examples=80)
@given(sentences(), st.sampled_from(sorted(LAYOUTS)), st.booleans())
def test_tags_come_back_whatever_the_words(example: TaggedExample, name: str, crf: bool):
    tokenizer, layout = LAYOUTS[name]
    task = SequenceTagging(tags=("O", *(f"{part}-{kind}" for kind in KINDS for part in "BIES")), crf=crf)
    rows = task.encode([example], tokenizer, layout)
    assert rows.lengths.max() <= layout.max_length
    logits = perfect(rows, task.tags)
    if crf:
        count = len(task.tags)
        logits["moves"] = [np.zeros((count, count)), np.zeros(count), np.zeros(count)]
    (told,) = task.predictions([example], rows, logits)
    assert told.tags == example.tags
    assert "".join(told.words) == "".join(example.words)
    figures = task.evaluate([example], [told])
    assert figures["f1"] == (1.0 if told.entities else 0.0)


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("begin", [0, 7, 30, 95])
def test_answers_come_back_from_any_window(name: str, begin: int):
    tokenizer, layout = LAYOUTS[name]
    layout = replace(layout, max_length=40)
    words = [f"fox{number % 7}" for number in range(100)]
    passage = " ".join([*words[:begin], "37 miles", *words[begin:]])
    start = passage.index("37 miles")
    example = QuestionExample("how far?", passage, (AnswerSpan(start, "37 miles"),))
    task = QuestionAnswering(longest=20)
    rows = task.encode([example], tokenizer, layout)
    holding = np.flatnonzero(rows.targets["start"] != NO_ANSWER_POSITION)
    assert len(rows.lengths) > 5
    assert len(holding) >= 1
    logits: dict[str, list[np.ndarray]] = {"start": [], "end": []}
    for row, length in enumerate(rows.lengths.tolist()):
        for side in logits:
            scores = np.zeros(length)
            scores[rows.targets[side][row]] = 9.0
            logits[side].append(scores)
    (told,) = task.predictions([example], rows, logits)
    assert (told.text, told.best.start) == ("37 miles", start)
    assert task.evaluate([example], [told])["exact_match"] == 1
    learning = task.encode([example], tokenizer, layout, is_training=True)
    assert len(holding) < len(learning.lengths) <= len(holding) + 2


def test_a_long_passage_is_not_asked_about_all_at_once():
    """Its windows are judged each by itself, so that memory does not grow with its length."""
    asked: list[int] = []

    class Counts:
        moves = None  # no CRF

        def logits(self, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
            asked.append(len(inputs["tokens"]))
            return {name: inputs["tokens"].astype(float) for name in ("start", "end")}

    example = QuestionExample("Where?", TEXT * 400)
    rows = QuestionAnswering().encode([example], WORDPIECE, BERT)
    said = predict_logits(Counts(), rows)
    assert sum(asked) == len(rows.tokens) > 5 * BATCH_TOKENS
    assert max(asked) <= BATCH_TOKENS
    np.testing.assert_array_equal(np.concatenate(list(said["start"])), rows.tokens)  # each row has what is its own
    assert len(QuestionAnswering().predictions([example], rows, said)[0].candidates) == QuestionAnswering().top


def test_no_answer_is_said_where_it_may_be():
    example = QuestionExample("who?", "the fox saw Berlin", ())
    task = QuestionAnswering(unanswered=True)
    rows = task.encode([example], WORDPIECE, BERT)
    assert rows.targets["start"].tolist() == [NO_ANSWER_POSITION] * len(rows.lengths)
    logits = {
        side: [np.eye(1, int(length), NO_ANSWER_POSITION)[0] * 9 for length in rows.lengths]
        for side in ("start", "end")
    }
    (told,) = task.predictions([example], rows, logits)
    assert told.best is None
    assert told.candidates
    (forced,) = replace(task, unanswered=False).predictions([example], rows, logits)
    assert forced.text


def test_choices_may_be_any_number():
    examples = [ChoiceExample("the fox", ("ran", "saw Berlin"), 1), ChoiceExample("我", ("在", "看见", "柏林"), None)]
    rows = MultipleChoice().encode(examples, WORDPIECE, BERT)
    assert [len(rows.row_range(number)) for number in range(2)] == [2, 3]
    assert rows.targets["choice"].tolist() == [1, IGNORE_INDEX]
    told = MultipleChoice().predictions(examples, rows, {"choice": [np.array([0.0, 1.0]), np.array([3.0, 1.0, 0.0])]})
    assert [one.choice for one in told] == [1, 0]
    assert MultipleChoice().evaluate(examples, told) == {"accuracy": 1.0, "chance": 0.5, "examples": 1}


def test_a_chain_is_judged_as_the_network_judges_it():
    import torch

    from forebear.data.labeled.tag_schemes import legal_transitions
    from forebear.nn.crf import CRFLayer

    rng = np.random.default_rng(0)
    allowed = legal_transitions(("O", "B-X", "I-X", "E-X", "S-X"))
    crf = CRFLayer(*allowed)
    learned = [rng.normal(size=array.shape).astype(np.float32) for array in allowed]
    for name, values in zip(("transition_bias", "start_bias", "end_bias"), learned, strict=True):
        setattr(crf, name, torch.nn.Parameter(torch.from_numpy(values)))
    moves = [np.where(may, values, tagging.FORBIDDEN_SCORE) for may, values in zip(allowed, learned, strict=True)]
    lengths = (1, 7, 0, 30, 7)
    scores = rng.normal(size=(sum(lengths), 5)).astype(np.float32)
    paths = crf.viterbi(torch.from_numpy(scores), lengths)
    marginals = crf.marginals(torch.from_numpy(scores), lengths).numpy()
    np.testing.assert_array_equal(tagging.chain_viterbi(scores, lengths, *moves), np.concatenate(paths))
    np.testing.assert_allclose(tagging.chain_marginals(scores, lengths, *moves), marginals, atol=1e-9)
    assert tagging.chain_marginals(scores[:0], [0, 0], *moves).shape == (0, 5)
    assert tagging.chain_viterbi(scores[:0], [], *moves).shape == (0,)
