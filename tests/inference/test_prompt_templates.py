"""Prompts: truncation of texts and shots to the context, labels and templates as written, files of shots."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from prompt_answers import answer_probabilities, softmax
from toy_language_models import HashedLM

from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.data.tokenizers.train import train_tokenizer
from forebear.errors import InputError
from forebear.inference.prompt_templates import AnswerOption, PromptTemplate, is_chinese, parse_labels, read_shots
from forebear.inference.prompting import score_options
from forebear.inference.score import score_texts

# -- context


def test_text_farthest_from_the_answer_is_truncated(tokenizer: Tokenizer):
    text = "the cat and a dog sat on the mat 我很喜欢你😀😀😀"
    for template in ("{text} {label}", "a {text} and {label} 你", "{label} {text}", "{label}, {text}."):
        for context in (14, 17, 23, 40):
            predictor = HashedLM(tokenizer.vocab_size, context=context)
            (result,) = score_options(
                predictor, tokenizer, text, labels=["cat", "dog"], template=template, calibrate=False
            )
            prompts = [answer.prompt for answer in result.answers]
            sizes = [len(tokenizer.encode(prompt).ids) for prompt in prompts]
            assert max(sizes) <= context
            fixed = template.split("{text}")
            kept_text = prompts[0].removeprefix(fixed[0].replace("{label}", "cat"))
            kept_text = kept_text.removesuffix(fixed[1].replace("{label}", "cat")) if fixed[1] else kept_text
            assert text.startswith(kept_text) if template.startswith("{label}") else text.endswith(kept_text)
            prompt = template.format(text=text, label="cat")
            assert (result.num_truncated > 0) == (kept_text != text) == (len(tokenizer.encode(prompt).ids) > context)
            if result.num_truncated:  # no more than needed: but for a character of several tokens
                assert max(sizes) > context - 5
            bits = [result.total_bits for result in score_texts(predictor, tokenizer, prompts)]
            assert list(answer_probabilities(result).values()) == pytest.approx(
                softmax([-value * math.log(2) for value in bits])
            )


def test_truncation_keeps_both_sides_of_a_blank_alike(word_tokenizer: Tokenizer):
    predictor = HashedLM(word_tokenizer.vocab_size, context=9)
    before, after = "a the cat dog sat on", "mat log and a the cat"
    (result,) = score_options(predictor, word_tokenizer, f"{before} ____ {after}", choices=["sat", "on the"])
    assert result.answers[0].prompt == "the cat dog sat on sat mat log and"[4:]
    assert result.num_truncated == 12 - 7
    (result,) = score_options(predictor, word_tokenizer, f"a ____ {after}", choices=["sat", "on"], calibrate=True)
    assert result.answers[0].prompt == f"a sat {after}"


def test_as_many_shots_as_fit_precede_the_text(tokenizer: Tokenizer):
    shots = [("the cat sat", "good"), ("a dog", "bad"), ("我很喜欢你", "good"), ("词性", "bad")]
    labels = {"good": ["cat", "mat"], "bad": ["log"]}
    shot_texts = [f"{text}: {'cat' if label == 'good' else 'log'}\n\n" for text, label in shots]
    shot_counts = set()
    for context in (None, 12, 20, 26, 34, 45, 60, 200):
        predictor = HashedLM(tokenizer.vocab_size, context=context)
        (result,) = score_options(predictor, tokenizer, "a cat", labels=labels, template="{text}: {label}", shots=shots)
        sizes = [
            max(len(tokenizer.encode("".join(shot_texts[:k]) + f"a cat: {word}").ids) for word in ("cat", "mat", "log"))
            for k in range(5)
        ]
        fits = max(k for k in range(5) if context is None or sizes[k] <= context)
        assert result.shots == fits
        assert result.answers[1].prompt == "".join(shot_texts[:fits]) + "a cat: log"
        shot_counts.add(fits)
        words = {"good": ("cat", "mat"), "bad": ("log",)}
        logs = {}
        for name, text in (("with", "a cat: "), ("without", ": ")):  # shots precede the neutral text too
            prompts = {word: "".join(shot_texts[:fits]) + text + word for word in ("cat", "mat", "log")}
            if name == "without":
                prompts = {word: "".join(shot_texts[:fits]) + ": ".lstrip() + word for word in prompts}
            log_prob_by_prompt = dict(
                zip(
                    prompts,
                    (-s.total_bits * math.log(2) for s in score_texts(predictor, tokenizer, list(prompts.values()))),
                    strict=True,
                )
            )
            logs[name] = [
                float(np.logaddexp.reduce([log_prob_by_prompt[word] for word in label_words]))
                for label_words in words.values()
            ]
        expected = softmax([a - b for a, b in zip(logs["with"], logs["without"], strict=True)])
        assert list(answer_probabilities(result).values()) == pytest.approx(expected)
    assert len(shot_counts) > 2


def test_number_of_shots_is_chosen_for_each_text(tokenizer: Tokenizer):
    shots = [("the cat sat", "good"), ("a dog", "bad"), ("我很喜欢你", "good"), ("词性", "bad")] * 5
    texts = ["a", "the cat sat on the mat and a dog sat on the log", "我很", "the dog and the cat"]
    predictor = HashedLM(tokenizer.vocab_size, context=70)
    together = score_options(predictor, tokenizer, texts, labels="good,bad", template="{text}: {label}", shots=shots)
    assert len({result.shots for result in together}) > 1
    alone = [
        score_options(predictor, tokenizer, text, labels="good,bad", template="{text}: {label}", shots=shots)[0]
        for text in texts
    ]
    assert together == alone


def test_shots_are_counted_as_they_are_tokenized_together():
    """GPT-2's pre-tokenization separates two line breaks where a word follows them."""
    tokenizer = train_tokenizer("bytepair", ["a: b\n\n"] * 50, size=300, min_count=1)
    shot = "a: b\n\n"
    assert len(tokenizer.encode(shot * 2).ids) > 2 * len(tokenizer.encode(shot).ids)
    for context in range(6, 40):
        predictor = HashedLM(tokenizer.vocab_size, context=context)
        (result,) = score_options(
            predictor, tokenizer, "b", labels="a,b", template="{text}: {label}", shots=[("a", "b")] * 9
        )
        sizes = [len(tokenizer.encode(shot * k + "b: a").ids) for k in range(10)]
        assert (result.shots, result.num_truncated) == (max(k for k in range(10) if sizes[k] <= context), 0)


def test_option_that_leaves_no_room_for_the_text_is_refused(word_tokenizer: Tokenizer):
    with pytest.raises(InputError, match="leaves it no room") as caught:
        score_options(
            HashedLM(word_tokenizer.vocab_size, context=5),
            word_tokenizer,
            ["the", "the cat"],
            choices=["sat", "a dog on the mat"],
        )
    assert (caught.value.line, "a dog on the mat" in caught.value.message) == (1, True)


# -- labels, templates and files


def test_labels_are_parsed_from_text_list_or_dict():
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


def test_only_text_and_label_are_replaced_in_a_template():
    frame = PromptTemplate.parse('{"text": "{text}", "is": "{label}"}').frame("a {label} b")
    assert frame.full_text("{text}") == '{"text": "a {label} b", "is": "{text}"}'
    assert PromptTemplate.parse("{label}: {text}").frame("").full_text("x") == "x:"  # no space for an empty text
    assert PromptTemplate.parse("{text} is {label}").frame("").full_text("x") == "is x"
    assert PromptTemplate.parse("> {text} is {label}").frame("").full_text("x") == ">  is x"


def test_english_text_with_a_chinese_name_is_not_chinese():
    assert is_chinese("我很喜欢 Python")
    assert is_chinese("好", "bad")
    assert not is_chinese("Peking is written 北京 where people live there.")
    assert not is_chinese("", "")


def test_file_of_shots_is_read_or_refused_with_its_line(tmp_path: Path):
    file = tmp_path / "shots.tsv"
    file.write_text("text\tlabel\nthe cat\tgood\r\n\n 我很喜欢你 \t好\n", encoding="utf-8")
    assert read_shots(file) == [("the cat", "good"), ("我很喜欢你", "好")]
    for content, line, message in (
        ("a\tb\nthe cat good\n", 2, "1 columns"),
        ("a\tb\tc\n", 1, "3 columns"),
        ("a\tb\n\tgood\n", 2, "an empty column"),
        ("text\tlabel\n", None, "no examples"),
    ):
        file.write_text(content, encoding="utf-8")
        with pytest.raises(InputError, match=message) as caught:
            read_shots(file)
        assert (caught.value.file, caught.value.line) == (str(file), line)
        assert "TAB" in caught.value.hint
