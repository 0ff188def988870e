"""Continuations that are likeliest as a whole: by beams, or among choices; nothing random, nothing in vain."""

import numpy as np
import pytest
from bigrams import Dreaming, Tabled, counted
from hypothesis import given, settings
from hypothesis import strategies as st

from forebear.data.tokenizers.train import train_tokenizer
from forebear.errors import InputError
from forebear.inference.generate import (
    beam_search_texts,
    choose_continuations,
    generate_texts,
    resolve_generation_options,
)
from forebear.inference.prompt_templates import continuation_tokens
from forebear.inference.prompting import score_options
from forebear.inference.sampling import sample_texts

LINES = ["the cat sat on the mat", "the dog sat on the log", "a cat and a dog"]
PROMPTS = ["the cat", "", "a dog sat on the", "你好", "the cat sat on the mat and"]


def texts(results):
    return [(result.text, result.stop_reason, result.ids) for result in results]


def test_one_beam_is_the_likeliest_token_each_time(tokenizer):
    predictor = Dreaming(tokenizer.vocab_size)
    for how in ({"length": 12}, {"length": 20, "stop": ["t", "你"]}):
        greedy = sample_texts(predictor, tokenizer, PROMPTS, temperature=0, **how)
        assert texts(beam_search_texts(predictor, tokenizer, PROMPTS, beams=1, **how)) == texts(greedy)


def test_prompts_together_give_what_each_gives_alone(tokenizer):
    predictor = Dreaming(tokenizer.vocab_size)
    together = beam_search_texts(predictor, tokenizer, PROMPTS, beams=3, best=2, length=10)
    for batch in (1, 7):
        assert beam_search_texts(predictor, tokenizer, PROMPTS, beams=3, best=2, length=10, batch=batch) == together
    alone = [
        one for prompt in PROMPTS for one in beam_search_texts(predictor, tokenizer, prompt, beams=3, best=2, length=10)
    ]
    assert alone == together
    assert [(one.prompt, one.sample) for one in together] == [(prompt, rank) for prompt in PROMPTS for rank in (0, 1)]


@pytest.fixture(scope="module")
def network(tokenizers):
    from forebear.models.gpt2 import GPT2Spec
    from forebear.nn.causal_lm import TransformerCausalLM

    model = GPT2Spec(width=32, depth=2, heads=2, context=24).build(tokenizers["words"])
    return TransformerCausalLM(model.initialize(seed=5))


@settings(max_examples=20, deadline=None)
@given(
    lengths=st.lists(st.integers(0, 40), min_size=1, max_size=6),
    batch=st.integers(1, 12),
    length=st.integers(1, 12),
    how=st.sampled_from(
        [{"temperature": 0}, {"temperature": 1.3, "samples": 2}, {"beams": 3, "best": 2}, {"beams": 5}]
    ),
)
def test_batching_changes_nothing(tokenizers, network, lengths, batch, length, how):
    """Prompts of any lengths, also beyond the context, in batches of any size."""
    tokenizer = tokenizers["words"]
    said = [word for line in LINES for word in line.split()]
    prompts = [" ".join((said * 4)[at : at + count]) for at, count in enumerate(lengths)]
    continued = beam_search_texts if "beams" in how else sample_texts
    together = continued(network, tokenizer, prompts, batch=batch, length=length, **how)
    alone = [one for prompt in prompts for one in continued(network, tokenizer, prompt, batch=1, length=length, **how)]
    assert texts(together) == texts(alone)
    for mine, other in zip(together, alone, strict=True):
        assert mine.score == pytest.approx(other.score, abs=1e-4)


def test_log_p_is_the_run_s_own(words):
    """Of a text that ended: what `score` says of its tokens and its end."""
    predictor, end = Dreaming(words.vocab_size), words.special_roles["end"]
    for one in beam_search_texts(predictor, words, PROMPTS, beams=4, best=4, length=8, length_penalty=0.7):
        prompt = [end, *words.encode(one.prompt).ids.tolist()]
        row = np.array([*prompt, *one.ids, *([end] if one.stop_reason == "end" else [])])
        value = predictor.score([row])[0][len(prompt) - 1 :].sum()
        assert one.log_prob == pytest.approx(value, abs=1e-4)
        assert one.score == pytest.approx(value / (len(row) - len(prompt)) ** 0.7, abs=1e-4)


def test_beams_see_beyond_the_likeliest_next_token(words):
    predictor = counted(words, ["the cat sat", "the cat and", "the cat on", "the dog", "the dog"])
    (greedy,) = beam_search_texts(predictor, words, "the", beams=1, length=2)
    assert greedy.text.startswith(" cat ")  # 3/5, then one of three
    first, second = beam_search_texts(predictor, words, "the", beams=4, best=2, length=2, length_penalty=0)
    assert (first.text, first.stop_reason) == (" dog", "end")
    assert first.log_prob == pytest.approx(np.log(2 / 5))
    assert second.log_prob == pytest.approx(np.log(1 / 5))
    assert first.to_dict()["rank"] == 1
    assert second.to_dict()["rank"] == 2


def test_special_and_unknown_tokens_are_never_said(words):
    wish = np.full((words.vocab_size, words.vocab_size), 1e-6)
    wish[:, [*words.special_ids]] = 1.0
    wish[:, words.special_roles["end"]] = 1e-9
    for one in beam_search_texts(Tabled(wish), words, ["", "the"], beams=3, best=3, length=4):
        assert not set(one.ids) & words.special_ids
    only = np.zeros((words.vocab_size, words.vocab_size))
    only[:, words.unk_id] = 1
    (one,) = beam_search_texts(Tabled(only), words, "the", beams=2, length=2)
    assert one.ids == (words.unk_id, words.unk_id)
    (one,) = beam_search_texts(Tabled(np.zeros_like(only)), words, "the", beams=2, length=2)
    assert (one.text, one.stop_reason, one.to_dict()["log_probability"]) == ("", "end", None)


@settings(max_examples=25, deadline=None)
@given(
    stop=st.sampled_from(["t", " sat", "he", "cat sat on", "og"]),
    prompt=st.sampled_from(["the", "", "a dog and a cat sat on the mat"]),
    kind=st.sampled_from(["words", "characters", "wordpiece", "bytepair"]),
)
def test_stop_strings_end_a_text_before_them(tokenizers, stop, prompt, kind):
    predictor = counted(tokenizers[kind], ["the cat sat on the mat", "a dog sat on the log"], add=0.01)
    for one in beam_search_texts(predictor, tokenizers[kind], prompt, beams=4, best=4, length=30, stop=stop):
        assert stop not in one.text
        spelled = tokenizers[kind].decode(list(one.ids))
        assert (one.stop_reason == "stop") == (stop.strip() in spelled) or stop.startswith(" ")
        if one.stop_reason == "stop":  # and no token after it
            assert stop.strip() not in tokenizers[kind].decode(list(one.ids[:-1]))


def test_choices_are_what_ask_answers(tokenizer):
    predictor = Dreaming(tokenizer.vocab_size)
    choices = ["cat", "dog sat", "mat and a cat", "你好"]
    for prompt in ("the", "a dog and the ", "我很喜欢"):
        (one,) = choose_continuations(predictor, tokenizer, prompt, choices=choices)
        (answer,) = score_options(predictor, tokenizer, prompt, choices=choices)
        assert answer.best is not None
        assert one.text.strip() == answer.best.name
        assert dict(one.choices) == {each.name: each.probability for each in answer.answers}
        assert sum(share for _, share in one.choices) == pytest.approx(1)
        assert (one.log_prob, one.stop_reason) == (answer.best.log_prob, "choice")
        ids = tokenizer.encode(prompt + one.text).ids.tolist()
        assert tuple(ids[-len(one.ids) :]) == one.ids


def test_a_choice_of_words_is_the_product_of_its_tokens(words):
    predictor = counted(words, ["the cat sat", "the cat and", "the dog"])
    (one,) = choose_continuations(predictor, words, "the", choices=["cat sat", "dog"])
    assert (one.full_text, one.text) == ("the cat sat", " cat sat") or one.full_text == "the dog"
    shares = dict(one.choices)  # 2/3 · 1/2 and 1/3
    assert shares == pytest.approx({"cat sat": 0.5, "dog": 0.5})


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"beams": 3, "temperature": 0.5}, "--temperature changes nothing with --beams"),
        ({"beams": 3, "top_p": 0.95}, "--top-p changes nothing"),
        ({"beams": 3, "samples": 2}, "--samples changes nothing"),
        ({"beams": 3, "seed": 0}, "--seed changes nothing"),
        ({"best": 2}, "--best changes nothing where tokens are drawn"),
        ({"length_penalty": 2.0}, "--length-penalty changes nothing where"),
        ({"beams": 1, "length_penalty": 2.0}, "nothing with one beam"),
        ({"beams": 2, "best": 3}, "best 3 of 2 beams"),
        ({"beams": 0}, "beams is 0"),
        ({"beams": 2, "length": 5.5}, "length is 5.5"),
        ({"length": 5.5}, "length is 5.5"),
        ({"samples": 1.5}, "samples is 1.5"),
        ({"seed": 0.5}, "seed is 0.5"),
        ({"top_k": 2.5}, "top-k is 2.5"),
        ({"beams": 2, "stop": ""}, "stop string is empty"),
        ({"choices": ["a", "b"], "beams": 2}, "beams and choices together"),
        ({"choices": ["a", "b"], "length": 3}, "--length changes nothing with --choices"),
        ({"choices": ["cat"]}, "nothing to choose"),
    ],
)
def test_senseless_wishes_are_refused(words, wrong, complaint):
    with pytest.raises(InputError, match=complaint) as caught:
        generate_texts(Dreaming(words.vocab_size), words, "the", **wrong)
    assert caught.value.hint


def test_a_blank_is_for_ask(words):
    with pytest.raises(InputError, match="blank") as caught:
        choose_continuations(Dreaming(words.vocab_size), words, ["the", "the ____ sat"], choices=["cat", "dog"])
    assert caught.value.line == 2


def test_settings_are_told_with_the_usual_values():
    assert resolve_generation_options({"beams": 4}) == {
        "beams": 4,
        "best": 1,
        "length_penalty": 1.0,
        "length": 100,
        "stop": [],
    }
    assert resolve_generation_options({"top_k": None, "seed": 3})["temperature"] == 0.8


def test_a_choice_goes_on_behind_the_tokens_of_the_prompt():
    """Words of Chinese are found in a whole text: one of them may reach from the prompt into a choice."""
    tokenizer = train_tokenizer("words", ["我 爱 北京大学 。", "我爱北京。", "大学很好。", "我爱大学。"] * 5)
    prompt, choices = "我爱北京", ["大学", "很好"]
    own = tokenizer.encode(prompt).ids.tolist()
    assert tokenizer.encode(prompt + choices[0]).ids.tolist()[: len(own)] != own  # 北京大学 is one
    predictor = Dreaming(tokenizer.vocab_size)
    (result,) = choose_continuations(predictor, tokenizer, prompt, choices=choices)
    for name, share in result.choices:
        row = np.array([tokenizer.special_roles["end"], *own, *tokenizer.encode(name).ids.tolist()])
        told = float(predictor.score([row])[0][len(own) :].sum())
        if name == result.text:
            assert result.ids == tuple(row[len(own) + 1 :].tolist())
            assert result.log_prob == pytest.approx(told)
        assert share == pytest.approx(np.exp(told - result.log_prob) * max(s for _, s in result.choices))


@pytest.mark.parametrize("before", ["the cat", "the cat ", "我很", "a b\n"])
def test_what_no_token_reaches_over_is_cut_as_before(before, tokenizers):
    for tokenizer in tokenizers.values():
        whole, cut = tokenizer.encode(before + " sat"), continuation_tokens(before, " sat", tokenizer)
        assert (cut.spans, cut.ids.tolist()) == (whole.spans, whole.ids.tolist())
