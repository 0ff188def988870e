"""Answers that a run writes: what it was shown, how it was drawn, and which part of it is the answer."""

from __future__ import annotations

import json

import numpy as np
import pytest
from bigrams import Dreaming, Tabled, counted

from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.data.tokenizers.train import train_tokenizer
from forebear.errors import InputError
from forebear.inference.prompting import generate_replies, summarize
from forebear.inference.sampling import sample_texts

SHOTS = [("the cat", "mat"), ("the dog", "log"), ("a cat", "dog")]


def test_a_summary_is_written_after_the_cue_as_in_the_paper(tokenizer: Tokenizer):
    """100 tokens, each of the two likeliest; the same that generation writes after this prompt."""
    predictor = Dreaming(tokenizer.vocab_size)
    texts = ["the cat sat on the mat \n", "我很喜欢你"]
    told = summarize(predictor, tokenizer, texts, seed=3)
    assert [one.prompt for one in told] == ["the cat sat on the mat\nTL;DR:", "我很喜欢你\n总之，"]
    expected = sample_texts(
        predictor, tokenizer, [one.prompt for one in told], length=100, temperature=1, top_k=2, top_p=1, seed=3
    )
    assert [(one.generated_text, one.tokens, one.stop_reason) for one in told] == [
        (one.text, len(one.ids), one.stop_reason) for one in expected
    ]
    assert all(one.generated_text.strip().startswith(one.answer) and not one.num_truncated for one in told)
    json.dumps([one.to_dict() for one in told], allow_nan=False)
    other = summarize(predictor, tokenizer, texts, cue=" 总的来说： ", seed=4)
    assert other[0].prompt == "the cat sat on the mat\n总的来说："
    assert other[0].generated_text != told[0].generated_text


class Reciting(Tabled):
    """Says these ids after whatever prompt, then that it is over."""

    def __init__(self, tokenizer: Tokenizer, text: str, prompt: str) -> None:
        self.ids = [*tokenizer.encode(text).ids.tolist(), tokenizer.special_roles["end"]]
        self.begins, self._size, self.max_length = len(tokenizer.encode(prompt).ids) + 1, tokenizer.vocab_size, None

    @property
    def vocab_size(self) -> int:
        return self._size

    def next_log_probs(self, rows):
        told = np.full((len(rows), self._size), -50.0)
        for line, row in zip(told, rows, strict=True):
            line[self.ids[len(row) - self.begins]] = 0.0
        return told


@pytest.mark.parametrize(
    ("text", "said", "first", "two"),
    [
        ("the cat", " It sat. Was it cold? Yes! No.", "It sat.", "It sat. Was it cold?"),
        ("我很喜欢你", "词性是动词。你好！我很喜欢你。", "词性是动词。", "词性是动词。你好！"),
        ("the cat", " no end", "no end", "no end"),
    ],
)
def test_the_first_sentences_are_the_summary(text: str, said: str, first: str, two: str):
    tokenizer = train_tokenizer("bytepair", [said, text] * 9, size=300, min_count=1)
    cue = "\n总之，" if text == "我很喜欢你" else "\nTL;DR:"
    for sentences, expected in ((1, first), (2, two), (9, said.strip())):
        (one,) = summarize(Reciting(tokenizer, said, text + cue), tokenizer, text, sentences=sentences)
        assert (one.answer, one.generated_text, one.stop_reason) == (expected, said, "end")


def test_a_long_text_loses_its_beginning_and_the_answer_has_room(tokenizer: Tokenizer):
    text = " ".join(f"the cat {n} sat on the mat 我很喜欢你." for n in range(30))
    whole = len(tokenizer.encode(text + "\nTL;DR:").ids)
    for length in (5, 20, 30):
        (one,) = summarize(Dreaming(tokenizer.vocab_size, context=60), tokenizer, text, length=length)
        kept = one.prompt.removesuffix("\nTL;DR:")
        assert kept != one.prompt
        assert text.endswith(kept)
        size = len(tokenizer.encode(one.prompt).ids)
        assert 60 - length - 5 < size <= 60 - length
        assert one.num_truncated == pytest.approx(
            whole - size, abs=2
        )  # the first token may be cut otherwise without what was
        assert one.tokens <= length
    with pytest.raises(InputError, match="no room") as caught:
        summarize(Dreaming(tokenizer.vocab_size, context=60), tokenizer, ["a", text], length=60)
    assert caught.value.line == 1
    assert "--length" in caught.value.hint


def test_examples_show_what_a_reply_is(tokenizer: Tokenizer):
    predictor = Dreaming(tokenizer.vocab_size)
    (one,) = generate_replies(predictor, tokenizer, "a dog", shots=SHOTS, length=12)
    shown = "Q: the cat\nA: mat\n\nQ: the dog\nA: log\n\nQ: a cat\nA: dog\n\n"
    assert (one.prompt, one.shots) == (shown + "Q: a dog\nA:", 3)
    (expected,) = sample_texts(predictor, tokenizer, one.prompt, length=12, temperature=0, stop=["\n", "Q:"])
    assert (one.generated_text, one.answer) == (expected.text, expected.text.strip())
    (chinese,) = generate_replies(predictor, tokenizer, "你好", shots=[("词性", "动词")], length=2)
    assert chinese.prompt == "问：词性\n答：动词\n\n问：你好\n答："
    (own,) = generate_replies(predictor, tokenizer, "a dog", shots=SHOTS[:1], template="{text} -> {label}", length=2)
    assert own.prompt == "the cat -> mat\n\na dog ->"


def test_as_many_examples_as_have_room_beside_the_reply(tokenizer: Tokenizer):
    sizes = [
        len(tokenizer.encode("".join(f"Q: {t}\nA: {a}\n\n" for t, a in SHOTS[:k]) + "Q: a dog\nA:").ids)
        for k in range(4)
    ]
    for k, size in enumerate(sizes):
        for more in (0, sizes[min(k + 1, 3)] - size - 1):
            (one,) = generate_replies(
                Dreaming(tokenizer.vocab_size, context=size + 4 + max(more, 0)),
                tokenizer,
                "a dog",
                shots=SHOTS,
                length=4,
            )
            assert (one.shots, one.num_truncated) == (k, 0)
    (one,) = generate_replies(
        Dreaming(tokenizer.vocab_size, context=sizes[0] + 3), tokenizer, "a dog", shots=SHOTS, length=4
    )
    assert (one.shots, one.num_truncated > 0) == (0, True)


def test_a_reply_ends_with_its_line_or_where_another_question_begins():
    for said, answer in ((" mat\nand", "mat"), (" mat Q: a", "mat"), (" 我很\n", "我很"), (" mat", "mat")):
        tokenizer = train_tokenizer("bytepair", [said, "Q: the\nA:"] * 9, size=300, min_count=1)
        prompt = "Q: the\nA: cat\n\nQ: a\nA:"
        (one,) = generate_replies(Reciting(tokenizer, said, prompt), tokenizer, "a", shots=[("the", "cat")])
        assert one.prompt == prompt
        assert one.answer == answer


def test_what_makes_no_sense_is_refused(words: Tokenizer):
    predictor = counted(words, ["the cat sat"])
    for ask, said in (
        (lambda: summarize(predictor, words, ["the", " "]), "empty"),
        (lambda: summarize(predictor, words, "the", cue=" "), "the cue is empty"),
        (lambda: summarize(predictor, words, "the", sentences=0), "sentences is 0"),
        (lambda: summarize(predictor, words, "the", length=0), "length is 0"),
        (lambda: generate_replies(predictor, words, "the", shots=[]), "without examples"),
        (lambda: generate_replies(predictor, words, "the", shots=SHOTS, template="{label} {text}"), "not at the end"),
        (lambda: generate_replies(predictor, words, "the", shots=SHOTS, template="{text} {label}."), "not at the end"),
        (lambda: generate_replies(predictor, words, "", shots=SHOTS), "empty"),
    ):
        with pytest.raises(InputError, match=said) as caught:
            ask()
        assert caught.value.hint
