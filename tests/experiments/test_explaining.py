"""What a milestone is and weighs: against published counts, the formula, transformers, and a network with numbers."""

from typing import Any

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from forebear.errors import InputError
from forebear.experiments.explain import (
    SAMPLE_TEXTS,
    NominalTokenizer,
    explain_model,
    model_capabilities,
    model_size,
    sample_batch,
)
from forebear.experiments.plan import plan_pretraining
from forebear.heads import head_capabilities
from forebear.models.gpt2 import GPT2Spec
from forebear.registry import LINEAGE

PUBLISHED = {"124M": 124_439_808, "355M": 354_823_168, "774M": 774_030_080, "1.5B": 1_557_611_200}
SMALL = {"width": 48, "depth": 3, "heads": 4, "context": 32}


@pytest.fixture(scope="module")
def gpt2():
    return explain_model("gpt2")


@pytest.mark.parametrize("size", PUBLISHED)
def test_published_sizes_have_their_published_parameters(gpt2, size):
    assert gpt2.sizes[size]["figures"]["parameters"] == PUBLISHED[size]


@pytest.mark.parametrize("size", [*GPT2Spec.sizes])
def test_work_for_a_token_is_the_formula(gpt2, size):
    own, figures = gpt2.sizes[size]["fields"], gpt2.sizes[size]["figures"]
    width, inner, context = own["width"], own["inner"] or 4 * own["width"], own["context"]
    block = 2 * (4 * width**2 + 2 * width * inner) + 4 * context * width
    assert figures["flops_per_token"] == own["depth"] * block + 2 * gpt2.vocabulary * width
    assert figures["longest_input"] == context


def test_parameters_are_those_of_transformers():
    _, tokenizer = sample_batch(GPT2Spec(**SMALL))
    weight = model_size(GPT2Spec(**SMALL), NominalTokenizer(tokenizer, 777), batch_tokens=64)
    with torch.device("meta"):
        theirs = GPT2LMHeadModel(GPT2Config(vocab_size=777, n_embd=48, n_layer=3, n_head=4, n_positions=32))
    assert weight.parameters == theirs.num_parameters()
    assert (weight.weights, weight.gradients, weight.moments) == tuple(weight.parameters * it for it in (4, 4, 8))
    assert weight.cache_bytes == 2 * 4 * 3 * 32 * 48
    assert weight.bytes_to_use == weight.weights + weight.cache_bytes


def test_activations_are_what_a_network_with_numbers_keeps():
    """The estimate is made of shapes alone; here torch tells what it keeps when it really computes."""
    _, tokenizer = sample_batch(GPT2Spec(**SMALL))
    weight = model_size(GPT2Spec(**SMALL), tokenizer, batch_tokens=64)
    network = GPT2Spec(**SMALL).build(tokenizer).initialize(0)
    own = {parameter.data_ptr() for parameter in network.parameters()}
    kept = {}

    def keep(tensor):
        memory = tensor.untyped_storage()
        if memory.data_ptr() not in own:
            kept[memory.data_ptr()] = memory.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        states = network.encoder(tokens=torch.zeros(64, dtype=torch.long), lengths=[32, 32])
    assert states.last.requires_grad
    assert weight.activations == pytest.approx(sum(kept.values()), rel=0.1)


def test_the_worked_sentence(gpt2):
    assert gpt2.sentence == (
        "An objective (NextToken) turns text into a batch of inputs (tokens, lengths) and named targets (next); an"
        " encoder (Transformer) turns inputs into states; heads of the same names (next: LMHead) answer; the losses"
        " add up."
    )
    assert "NgramModel counts what follows what and answers next" in explain_model("ngram").sentence


def test_the_paper_what_it_changed_and_every_field_come_from_the_docstring(gpt2):
    assert gpt2.paper.startswith("Language Models are Unsupervised Multitask Learners")
    assert "Against GPT" in gpt2.changed
    assert "width" not in gpt2.changed.split("\n")[-1].split()[:1]
    assert all(meaning for _, meaning in gpt2.fields.values())
    assert all(meaning for _, meaning in explain_model("ngram").fields.values())


def test_the_example_asks_for_what_comes_next(gpt2):
    seen, asked = gpt2.example["seen"], gpt2.example["next"]
    assert asked[:-1] == seen[1:]
    assert {"cat", "mat"} <= set(seen)
    counted = explain_model("ngram").example
    assert counted["seen"][1:] == SAMPLE_TEXTS[0].split() == counted["next"][:-1]


def test_fields_of_ones_own_are_a_size_of_ones_own():
    mine = explain_model("gpt2", settings={"width": "96", "heads": "3", "depth": "2", "context": "64"})
    assert mine.fields["width"][0] == 96
    assert mine.sizes["yours"]["figures"]["longest_input"] == 64
    assert mine.sizes["yours"]["figures"]["parameters"] < mine.sizes["tiny"]["figures"]["parameters"]
    assert explain_model("gpt2", size="mini").fields["width"][0] == GPT2Spec.sizes["mini"]["width"]


def test_the_vocabulary_counts():
    small = {"width": "64", "depth": "1", "heads": "2"}
    _, tokenizer = sample_batch(GPT2Spec())
    made = plan_pretraining("gpt2", (), settings=small).spec
    fewer, more = (model_size(made, NominalTokenizer(tokenizer, entries), 64).parameters for entries in (1000, 2000))
    assert more - fewer == 1000 * 64


def test_what_counts_has_no_figures_before_its_text():
    told = explain_model("ngram")
    assert told.remark
    assert all(one["figures"] is None for one in told.sizes.values())


@pytest.mark.parametrize("more", [{"size": "124"}, {"settings": {"widht": "3"}}])
def test_bad_use_is_told_with_the_nearest(more):
    with pytest.raises(InputError) as error:
        explain_model("gpt2", **more)
    assert "did you mean" in error.value.hint


@pytest.mark.parametrize("name", [*LINEAGE])
def test_every_milestone_is_ready_and_can_do_something(name):
    able, wrong = model_capabilities(name)
    assert wrong == ""
    assert able


def test_a_milestone_that_cannot_be_loaded_is_not_ready_and_says_why(monkeypatch):
    entry = LINEAGE["ngram"]
    monkeypatch.setitem(LINEAGE, "ngram", type(entry)(**{**vars(entry), "spec_path": "forebear.models.nothing:No"}))
    able, wrong = model_capabilities("ngram")
    assert able == ()
    assert "ModuleNotFoundError" in wrong


def test_abilities_follow_from_heads():
    assert head_capabilities(("next",), encodes=False) == ("score", "next", "generate", "ask", "measure")
    of_vectors = ("embed", "neighbours", "similarity", "odd-one-out")
    assert head_capabilities(("token", "pair"), encodes=True) == ("fill", "ask", "score", "measure", *of_vectors)
    assert head_capabilities(("something",), encodes=False) == ()
    assert head_capabilities((), encodes=True) == of_vectors
    assert head_capabilities((), encodes=True, words=True) == (*of_vectors, "analogy", "measure")


@pytest.mark.parametrize(
    ("name", "settings", "expected"),
    [
        ("ngram", {}, {"epochs": 1.0, "batch": 1_000_000}),
        ("onehot", {}, {"epochs": 1.0, "batch": 100_000}),
        ("word2vec", {}, {"epochs": 5.0, "batch": 50_000, "rate": 0.025, "warmup": 0, "cooldown": 1.0}),
        ("word2vec", {"architecture": "cbow"}, {"epochs": 5.0, "rate": 0.05}),
        ("glove", {"epochs": 3}, {"epochs": 3.0, "batch": 250_000, "rate": 0.05}),
        ("nnlm", {}, {"time": 300.0, "batch": 1024, "rate": 0.01, "decay": 0.01}),
    ],
)
def test_how_it_learns_where_nobody_says_otherwise(name: str, settings: dict[str, Any], expected: dict[str, Any]):
    told = explain_model(name, settings=settings).to_dict()["recipe"]
    assert {setting: told[setting] for setting in expected} == expected
    if name in ("ngram", "onehot"):
        assert set(told) == set(expected), "nothing that means nothing to what counts"
