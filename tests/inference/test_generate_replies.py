"""Generated replies and summaries: the prompts, the sampling settings, and which part of the text is the answer."""

from __future__ import annotations

import json

import numpy as np
import pytest
from toy_language_models import BigramTable, HashedLM, bigram_model

from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.data.tokenizers.train import train_tokenizer
from forebear.errors import InputError
from forebear.inference.prompted_generation import generate_replies, summarize
from forebear.inference.sampling import sample_texts

SHOTS = [("the cat", "mat"), ("the dog", "log"), ("a cat", "dog")]


def test_summary_is_sampled_after_the_cue_as_in_the_gpt2_paper(tokenizer: Tokenizer):
    """100 tokens, top-k 2: the text that sampling gives after this prompt."""
    predictor = HashedLM(tokenizer.vocab_size)
    texts = ["the cat sat on the mat \n", "我很喜欢你"]
    summaries = summarize(predictor, tokenizer, texts, seed=3)
    assert [result.prompt for result in summaries] == ["the cat sat on the mat\nTL;DR:", "我很喜欢你\n总之，"]
    expected = sample_texts(
        predictor,
        tokenizer,
        [result.prompt for result in summaries],
        length=100,
        temperature=1,
        top_k=2,
        top_p=1,
        seed=3,
    )
    assert [(result.generated_text, result.tokens, result.stop_reason) for result in summaries] == [
        (result.text, len(result.ids), result.stop_reason) for result in expected
    ]
    assert all(
        result.generated_text.strip().startswith(result.answer) and not result.num_truncated for result in summaries
    )
    json.dumps([result.to_dict() for result in summaries], allow_nan=False)
    with_other_cue = summarize(predictor, tokenizer, texts, cue=" 总的来说： ", seed=4)
    assert with_other_cue[0].prompt == "the cat sat on the mat\n总的来说："
    assert with_other_cue[0].generated_text != summaries[0].generated_text


class RecitingLM(BigramTable):
    """Gives these ids after any prompt of this length, then the end token."""

    def __init__(self, tokenizer: Tokenizer, text: str, prompt: str) -> None:
        self.ids = [*tokenizer.encode(text).ids.tolist(), tokenizer.special_roles["end"]]
        self.begins, self._size, self.max_length = len(tokenizer.encode(prompt).ids) + 1, tokenizer.vocab_size, None

    @property
    def vocab_size(self) -> int:
        return self._size

    def next_log_probs(self, rows):
        log_probs = np.full((len(rows), self._size), -50.0)
        for line, row in zip(log_probs, rows, strict=True):
            line[self.ids[len(row) - self.begins]] = 0.0
        return log_probs


@pytest.mark.parametrize(
    ("text", "generated", "first", "first_two"),
    [
        ("the cat", " It sat. Was it cold? Yes! No.", "It sat.", "It sat. Was it cold?"),
        ("我很喜欢你", "词性是动词。你好！我很喜欢你。", "词性是动词。", "词性是动词。你好！"),
        ("the cat", " no end", "no end", "no end"),
    ],
)
def test_first_sentences_are_the_summary(text: str, generated: str, first: str, first_two: str):
    tokenizer = train_tokenizer("bytepair", [generated, text] * 9, size=300, min_count=1)
    cue = "\n总之，" if text == "我很喜欢你" else "\nTL;DR:"
    for sentences, expected in ((1, first), (2, first_two), (9, generated.strip())):
        (result,) = summarize(RecitingLM(tokenizer, generated, text + cue), tokenizer, text, sentences=sentences)
        assert (result.answer, result.generated_text, result.stop_reason) == (expected, generated, "end")


def test_long_text_is_truncated_at_its_start_to_leave_room_for_the_answer(tokenizer: Tokenizer):
    text = " ".join(f"the cat {n} sat on the mat 我很喜欢你." for n in range(30))
    num_tokens = len(tokenizer.encode(text + "\nTL;DR:").ids)
    for length in (5, 20, 30):
        (result,) = summarize(HashedLM(tokenizer.vocab_size, context=60), tokenizer, text, length=length)
        kept_text = result.prompt.removesuffix("\nTL;DR:")
        assert kept_text != result.prompt
        assert text.endswith(kept_text)
        size = len(tokenizer.encode(result.prompt).ids)
        assert 60 - length - 5 < size <= 60 - length
        assert result.num_truncated == pytest.approx(
            num_tokens - size, abs=2
        )  # the first token may differ without the text before it
        assert result.tokens <= length
    with pytest.raises(InputError, match="no room") as caught:
        summarize(HashedLM(tokenizer.vocab_size, context=60), tokenizer, ["a", text], length=60)
    assert caught.value.line == 1
    assert "--length" in caught.value.hint


def test_shots_precede_the_question(tokenizer: Tokenizer):
    predictor = HashedLM(tokenizer.vocab_size)
    (result,) = generate_replies(predictor, tokenizer, "a dog", shots=SHOTS, length=12)
    shots_text = "Q: the cat\nA: mat\n\nQ: the dog\nA: log\n\nQ: a cat\nA: dog\n\n"
    assert (result.prompt, result.shots) == (shots_text + "Q: a dog\nA:", 3)
    (expected,) = sample_texts(predictor, tokenizer, result.prompt, length=12, temperature=0, stop=["\n", "Q:"])
    assert (result.generated_text, result.answer) == (expected.text, expected.text.strip())
    (chinese,) = generate_replies(predictor, tokenizer, "你好", shots=[("词性", "动词")], length=2)
    assert chinese.prompt == "问：词性\n答：动词\n\n问：你好\n答："
    (with_template,) = generate_replies(
        predictor, tokenizer, "a dog", shots=SHOTS[:1], template="{text} -> {label}", length=2
    )
    assert with_template.prompt == "the cat -> mat\n\na dog ->"


def test_as_many_shots_as_fit_next_to_the_reply(tokenizer: Tokenizer):
    sizes = [
        len(tokenizer.encode("".join(f"Q: {t}\nA: {a}\n\n" for t, a in SHOTS[:k]) + "Q: a dog\nA:").ids)
        for k in range(4)
    ]
    for k, size in enumerate(sizes):
        for extra in (0, sizes[min(k + 1, 3)] - size - 1):
            (result,) = generate_replies(
                HashedLM(tokenizer.vocab_size, context=size + 4 + max(extra, 0)),
                tokenizer,
                "a dog",
                shots=SHOTS,
                length=4,
            )
            assert (result.shots, result.num_truncated) == (k, 0)
    (result,) = generate_replies(
        HashedLM(tokenizer.vocab_size, context=sizes[0] + 3), tokenizer, "a dog", shots=SHOTS, length=4
    )
    assert (result.shots, result.num_truncated > 0) == (0, True)


def test_reply_ends_at_the_line_end_or_the_next_question():
    for generated, answer in ((" mat\nand", "mat"), (" mat Q: a", "mat"), (" 我很\n", "我很"), (" mat", "mat")):
        tokenizer = train_tokenizer("bytepair", [generated, "Q: the\nA:"] * 9, size=300, min_count=1)
        prompt = "Q: the\nA: cat\n\nQ: a\nA:"
        (result,) = generate_replies(RecitingLM(tokenizer, generated, prompt), tokenizer, "a", shots=[("the", "cat")])
        assert result.prompt == prompt
        assert result.answer == answer


def test_invalid_reply_calls_are_refused(word_tokenizer: Tokenizer):
    predictor = bigram_model(word_tokenizer, ["the cat sat"])
    for call, message in (
        (lambda: summarize(predictor, word_tokenizer, ["the", " "]), "empty"),
        (lambda: summarize(predictor, word_tokenizer, "the", cue=" "), "the cue is empty"),
        (lambda: summarize(predictor, word_tokenizer, "the", sentences=0), "sentences is 0"),
        (lambda: summarize(predictor, word_tokenizer, "the", length=0), "length is 0"),
        (lambda: generate_replies(predictor, word_tokenizer, "the", shots=[]), "without examples"),
        (
            lambda: generate_replies(predictor, word_tokenizer, "the", shots=SHOTS, template="{label} {text}"),
            "not at the end",
        ),
        (
            lambda: generate_replies(predictor, word_tokenizer, "the", shots=SHOTS, template="{text} {label}."),
            "not at the end",
        ),
        (lambda: generate_replies(predictor, word_tokenizer, "", shots=SHOTS), "empty"),
    ):
        with pytest.raises(InputError, match=message) as caught:
            call()
        assert caught.value.hint
