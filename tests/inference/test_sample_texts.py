"""Sampled texts: independent of batching, reproducible by seed, and never with special tokens."""

import numpy as np
import pytest
from toy_language_models import BigramTable, HashedLM, bigram_model

from forebear.errors import InputError
from forebear.inference.sampling import sample_texts, stream_text

PROMPTS = ["the cat", "", "a dog sat on the", "你好", "the cat sat on the mat and"]


def outcomes(results):
    return [(result.text, result.stop_reason, result.ids) for result in results]


@pytest.mark.parametrize("options", [{}, {"temperature": 0}, {"top_k": 5, "repetition_penalty": 1.3}, {"top_p": 1.0}])
def test_batched_prompts_give_the_samples_of_each_alone(tokenizer, options):
    predictor = HashedLM(tokenizer.vocab_size)
    settings = {"length": 12, "samples": 2, **options}
    together = sample_texts(predictor, tokenizer, PROMPTS, **settings)
    for batch in (1, 3):
        assert outcomes(sample_texts(predictor, tokenizer, PROMPTS, batch=batch, **settings)) == outcomes(together)
    alone = [result for prompt in PROMPTS for result in sample_texts(predictor, tokenizer, prompt, **settings)]
    assert outcomes(alone) == outcomes(together)
    assert [(result.prompt, result.sample) for result in together] == [(p, s) for p in PROMPTS for s in (0, 1)]


@pytest.mark.parametrize("kind", ["bytepair", "words"])
def test_batched_prompts_of_gpt2_give_the_samples_of_each_alone(tokenizers, kind):
    from forebear.models.gpt2 import GPT2Spec
    from forebear.nn.next_token_predictors import TransformerPredictor

    tokenizer = tokenizers[kind]
    model = GPT2Spec(width=32, depth=2, heads=2, context=24).build(tokenizer)
    model.initialize(seed=5)
    predictor = TransformerPredictor(model)
    settings = {"length": 40, "samples": 2, "temperature": 1.5}
    together = sample_texts(predictor, tokenizer, PROMPTS, **settings)
    alone = [sample_texts(predictor, tokenizer, prompt, batch=1, **settings) for prompt in PROMPTS]
    assert outcomes(together) == outcomes([result for results in alone for result in results])
    assert max(len(result.ids) for result in together) > 24  # beyond the context too


def test_rows_that_end_early_do_not_affect_the_others(word_tokenizer):
    predictor = bigram_model(word_tokenizer, ["the cat", "a dog sat on the log"])
    results = sample_texts(predictor, word_tokenizer, ["the", "a", "on"], temperature=0, length=9)
    assert [result.full_text for result in results] == ["the cat", "a dog sat on the cat", "on the cat"]
    assert {result.stop_reason for result in results} == {"end"}


def test_seeds_and_samples_differ_and_repeat(word_tokenizer):
    predictor = HashedLM(word_tokenizer.vocab_size, spread=1)
    first = outcomes(sample_texts(predictor, word_tokenizer, "the", seed=1, samples=3, length=10))
    assert first == outcomes(sample_texts(predictor, word_tokenizer, "the", seed=1, samples=3, length=10))
    assert len(set(first)) == 3
    assert not set(first) & set(outcomes(sample_texts(predictor, word_tokenizer, "the", seed=2, samples=3, length=10)))


def test_sample_frequencies_match_the_model(word_tokenizer):
    predictor = bigram_model(word_tokenizer, ["the cat", "the dog", "the dog", "a mat"])
    results = sample_texts(predictor, word_tokenizer, "", samples=600, temperature=1, top_p=1, length=5, batch=600)
    shares = {text: sum(result.text == text for result in results) / 600 for text in ("the cat", "the dog", "a mat")}
    assert shares == pytest.approx({"the cat": 0.25, "the dog": 0.5, "a mat": 0.25}, abs=0.06)


def test_streamed_text_equals_the_sampled_text(tokenizer):
    predictor = HashedLM(tokenizer.vocab_size)
    for prompt in PROMPTS:
        (result,) = sample_texts(predictor, tokenizer, prompt, length=30, seed=3)
        assert "".join(stream_text(predictor, tokenizer, prompt, length=30, seed=3)) == result.text
    streamed = {}
    results = sample_texts(
        predictor,
        tokenizer,
        PROMPTS,
        length=9,
        on_piece=lambda n, piece: streamed.update({n: streamed.get(n, "") + piece}),
    )
    assert [streamed.get(n, "") for n in range(len(PROMPTS))] == [result.text for result in results]


def test_continuation_is_the_decoded_text_without_the_decoded_prompt(tokenizer):
    predictor = HashedLM(tokenizer.vocab_size)
    for result in sample_texts(predictor, tokenizer, PROMPTS, length=15):
        prompt = tokenizer.encode(result.prompt).ids.tolist()
        assert result.text == tokenizer.decode([*prompt, *result.ids])[len(tokenizer.decode(prompt)) :]
        assert len(result.ids) <= 15


def test_spaces_are_sampled_between_english_words_only(word_tokenizer):
    predictor = bigram_model(word_tokenizer, ["the cat sat", "我很喜欢你"])
    english, chinese, spaced = sample_texts(predictor, word_tokenizer, ["the cat", "我", "the cat "], temperature=0)
    assert (english.text, english.full_text) == (" sat", "the cat sat")
    assert chinese.full_text == "我很喜欢你"
    assert spaced.full_text == "the cat sat"


def test_special_tokens_are_never_sampled(tokenizer):
    table = np.full((tokenizer.vocab_size, tokenizer.vocab_size), 1e-6)
    for special in tokenizer.special_ids - {tokenizer.special_roles["end"]}:
        table[:, special] = 1.0
    for options in ({"temperature": 0}, {"temperature": 1.5, "top_p": 1.0}):
        for result in sample_texts(BigramTable(table), tokenizer, ["", "the"], length=20, samples=4, **options):
            assert not set(result.ids) & tokenizer.special_ids


def test_logits_beyond_the_vocabulary_are_never_sampled(word_tokenizer):
    padded = np.full((word_tokenizer.vocab_size + 8, word_tokenizer.vocab_size + 8), 1e-9)
    padded[:, word_tokenizer.vocab_size :] = 1
    padded[:, word_tokenizer.token_to_id("cat")] = 1e-6
    (result,) = sample_texts(BigramTable(padded), word_tokenizer, "the", temperature=0, length=5)
    assert result.ids == (word_tokenizer.token_to_id("cat"),) * 5


def test_unknown_token_is_sampled_only_where_nothing_else_is_possible(word_tokenizer):
    table = np.zeros((word_tokenizer.vocab_size, word_tokenizer.vocab_size))
    table[:, word_tokenizer.unk_id] = 1
    (result,) = sample_texts(BigramTable(table), word_tokenizer, "the", length=2)
    assert result.ids == (word_tokenizer.unk_id, word_tokenizer.unk_id)
    (result,) = sample_texts(BigramTable(np.zeros_like(table)), word_tokenizer, "the", length=2)
    assert (result.text, result.stop_reason) == ("", "end")


def test_stop_strings_end_a_sampled_text(word_tokenizer):
    predictor = bigram_model(word_tokenizer, ["the cat sat on a mat"])
    (result,) = sample_texts(predictor, word_tokenizer, "the", temperature=0, stop="t on")
    assert (result.text, result.stop_reason) == (" cat sa", "stop")
    assert "".join(stream_text(predictor, word_tokenizer, "the", temperature=0, stop=["zebra", " on"])) == " cat sat"


def test_repetition_penalty_avoids_repeated_tokens(word_tokenizer):
    logs = np.full(word_tokenizer.vocab_size, -3.0)
    logs[[word_tokenizer.token_to_id("the"), word_tokenizer.token_to_id("cat"), word_tokenizer.token_to_id("dog")]] = (
        -2.0,
        -2.1,
        -2.2,
    )
    predictor = BigramTable(np.tile(np.exp(logs), (word_tokenizer.vocab_size, 1)))
    (plain,) = sample_texts(predictor, word_tokenizer, "the", temperature=0, length=3)
    (penalized,) = sample_texts(predictor, word_tokenizer, "the", temperature=0, length=3, repetition_penalty=2)
    assert plain.text == " the the the"
    assert penalized.text == " cat dog"  # then the end, which is at -3, above -4


@pytest.mark.parametrize("invalid", [{"length": 0}, {"samples": 0}, {"seed": -1}, {"stop": ["a", ""]}, {"batch": 0}])
def test_invalid_sampling_calls_are_refused(word_tokenizer, invalid):
    with pytest.raises(InputError) as caught:
        sample_texts(HashedLM(word_tokenizer.vocab_size), word_tokenizer, "the", **invalid)
    assert caught.value.hint
