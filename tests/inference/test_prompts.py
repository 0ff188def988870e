"""What a run is shown: how much of a text and of examples has room, labels as people write them, files of examples."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from asked import shares, softmax
from bigrams import Dreaming

from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.data.tokenizers.train import train_tokenizer
from forebear.errors import InputError
from forebear.inference.prompt_templates import AnswerOption, PromptTemplate, is_chinese, parse_labels, read_shots
from forebear.inference.prompting import score_options
from forebear.inference.score import score_texts

# -- room


def test_what_lies_farthest_from_the_answer_has_no_room(tokenizer: Tokenizer):
    text = "the cat and a dog sat on the mat 我很喜欢你😀😀😀"
    for template in ("{text} {label}", "a {text} and {label} 你", "{label} {text}", "{label}, {text}."):
        for context in (14, 17, 23, 40):
            predictor = Dreaming(tokenizer.vocab_size, context=context)
            (one,) = score_options(
                predictor, tokenizer, text, labels=["cat", "dog"], template=template, calibrate=False
            )
            wholes = [answer.prompt for answer in one.answers]
            sizes = [len(tokenizer.encode(whole).ids) for whole in wholes]
            assert max(sizes) <= context
            fixed = template.split("{text}")
            kept = wholes[0].removeprefix(fixed[0].replace("{label}", "cat"))
            kept = kept.removesuffix(fixed[1].replace("{label}", "cat")) if fixed[1] else kept
            assert text.startswith(kept) if template.startswith("{label}") else text.endswith(kept)
            whole = template.format(text=text, label="cat")
            assert (one.num_truncated > 0) == (kept != text) == (len(tokenizer.encode(whole).ids) > context)
            if one.num_truncated:  # no more than needed: but for a character of several tokens
                assert max(sizes) > context - 5
            bits = [one.total_bits for one in score_texts(predictor, tokenizer, wholes)]
            assert list(shares(one).values()) == pytest.approx(softmax([-value * math.log(2) for value in bits]))


def test_both_sides_of_a_blank_keep_alike(words: Tokenizer):
    predictor = Dreaming(words.vocab_size, context=9)
    before, after = "a the cat dog sat on", "mat log and a the cat"
    (one,) = score_options(predictor, words, f"{before} ____ {after}", choices=["sat", "on the"])
    assert one.answers[0].prompt == "the cat dog sat on sat mat log and"[4:]
    assert one.num_truncated == 12 - 7
    (one,) = score_options(predictor, words, f"a ____ {after}", choices=["sat", "on"], calibrate=True)
    assert one.answers[0].prompt == f"a sat {after}"


def test_as_many_examples_as_have_room_stand_before_the_text(tokenizer: Tokenizer):
    shots = [("the cat sat", "good"), ("a dog", "bad"), ("我很喜欢你", "good"), ("词性", "bad")]
    labels = {"good": ["cat", "mat"], "bad": ["log"]}
    written = [f"{text}: {'cat' if label == 'good' else 'log'}\n\n" for text, label in shots]
    shown = set()
    for context in (None, 12, 20, 26, 34, 45, 60, 200):
        predictor = Dreaming(tokenizer.vocab_size, context=context)
        (one,) = score_options(predictor, tokenizer, "a cat", labels=labels, template="{text}: {label}", shots=shots)
        sizes = [
            max(len(tokenizer.encode("".join(written[:k]) + f"a cat: {word}").ids) for word in ("cat", "mat", "log"))
            for k in range(5)
        ]
        fits = max(k for k in range(5) if context is None or sizes[k] <= context)
        assert one.shots == fits
        assert one.answers[1].prompt == "".join(written[:fits]) + "a cat: log"
        shown.add(fits)
        words = {"good": ("cat", "mat"), "bad": ("log",)}
        logs = {}
        for name, text in (("with", "a cat: "), ("without", ": ")):  # the examples stand before the neutral text too
            wholes = {word: "".join(written[:fits]) + text + word for word in ("cat", "mat", "log")}
            if name == "without":
                wholes = {word: "".join(written[:fits]) + ": ".lstrip() + word for word in wholes}
            told = dict(
                zip(
                    wholes,
                    (-s.total_bits * math.log(2) for s in score_texts(predictor, tokenizer, list(wholes.values()))),
                    strict=True,
                )
            )
            logs[name] = [float(np.logaddexp.reduce([told[word] for word in of])) for of in words.values()]
        expected = softmax([a - b for a, b in zip(logs["with"], logs["without"], strict=True)])
        assert list(shares(one).values()) == pytest.approx(expected)
    assert len(shown) > 2


def test_each_text_has_its_own_room_for_examples(tokenizer: Tokenizer):
    shots = [("the cat sat", "good"), ("a dog", "bad"), ("我很喜欢你", "good"), ("词性", "bad")] * 5
    texts = ["a", "the cat sat on the mat and a dog sat on the log", "我很", "the dog and the cat"]
    predictor = Dreaming(tokenizer.vocab_size, context=70)
    told = score_options(predictor, tokenizer, texts, labels="good,bad", template="{text}: {label}", shots=shots)
    assert len({one.shots for one in told}) > 1
    alone = [
        score_options(predictor, tokenizer, text, labels="good,bad", template="{text}: {label}", shots=shots)[0]
        for text in texts
    ]
    assert told == alone


def test_examples_that_have_more_tokens_together_than_apart():
    """GPT-2's rule cuts two line ends apart where a word follows them."""
    tokenizer = train_tokenizer("bytepair", ["a: b\n\n"] * 50, size=300, min_count=1)
    shot = "a: b\n\n"
    assert len(tokenizer.encode(shot * 2).ids) > 2 * len(tokenizer.encode(shot).ids)
    for context in range(6, 40):
        predictor = Dreaming(tokenizer.vocab_size, context=context)
        (one,) = score_options(
            predictor, tokenizer, "b", labels="a,b", template="{text}: {label}", shots=[("a", "b")] * 9
        )
        sizes = [len(tokenizer.encode(shot * k + "b: a").ids) for k in range(10)]
        assert (one.shots, one.num_truncated) == (max(k for k in range(10) if sizes[k] <= context), 0)


def test_an_answer_without_room_for_the_text_is_refused(words: Tokenizer):
    with pytest.raises(InputError, match="leaves it no room") as caught:
        score_options(
            Dreaming(words.vocab_size, context=5), words, ["the", "the cat"], choices=["sat", "a dog on the mat"]
        )
    assert (caught.value.line, "a dog on the mat" in caught.value.message) == (1, True)


# -- what people write


def test_labels_as_they_are_written():
    assert parse_labels("good, bad") == (AnswerOption("good", ("good",)), AnswerOption("bad", ("bad",)))
    assert parse_labels("好=不错|很好，坏=糟糕") == (
        AnswerOption("好", ("不错", "很好")),
        AnswerOption("坏", ("糟糕",)),
    )
    assert parse_labels(["a,b", "c=d"]) == (AnswerOption("a,b", ("a,b",)), AnswerOption("c=d", ("c=d",)))
    assert parse_labels({"x": "one", "y": ["two", "2"]}) == (
        AnswerOption("x", ("one",)),
        AnswerOption("y", ("two", "2")),
    )


def test_only_the_two_marks_of_a_template_mean_something():
    frame = PromptTemplate.parse('{"text": "{text}", "is": "{label}"}').frame("a {label} b")
    assert frame.full_text("{text}") == '{"text": "a {label} b", "is": "{text}"}'
    assert PromptTemplate.parse("{label}: {text}").frame("").full_text("x") == "x:"  # no space stands for nothing
    assert PromptTemplate.parse("{text} is {label}").frame("").full_text("x") == "is x"
    assert PromptTemplate.parse("> {text} is {label}").frame("").full_text("x") == ">  is x"


def test_a_name_makes_no_text_chinese():
    assert is_chinese("我很喜欢 Python")
    assert is_chinese("好", "bad")
    assert not is_chinese("Peking is written 北京 where people live there.")
    assert not is_chinese("", "")


def test_examples_are_read_with_file_and_line(tmp_path: Path):
    file = tmp_path / "shots.tsv"
    file.write_text("text\tlabel\nthe cat\tgood\r\n\n 我很喜欢你 \t好\n", encoding="utf-8")
    assert read_shots(file) == [("the cat", "good"), ("我很喜欢你", "好")]
    for written, line, said in (
        ("a\tb\nthe cat good\n", 2, "1 columns"),
        ("a\tb\tc\n", 1, "3 columns"),
        ("a\tb\n\tgood\n", 2, "an empty column"),
        ("text\tlabel\n", None, "no examples"),
    ):
        file.write_text(written, encoding="utf-8")
        with pytest.raises(InputError, match=said) as caught:
            read_shots(file)
        assert (caught.value.file, caught.value.line) == (str(file), line)
        assert "TAB" in caught.value.hint
