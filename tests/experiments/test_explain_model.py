"""Explanations of models: parameters, FLOPs and memory against published numbers, transformers and torch; texts."""

from typing import Any

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from forebear.capabilities import head_capabilities
from forebear.errors import InputError
from forebear.experiments.explain_model import (
    SAMPLE_TEXTS,
    NominalTokenizer,
    explain_model,
    model_capabilities,
    sample_batch,
)
from forebear.experiments.model_cost import model_size
from forebear.experiments.plan import plan_pretraining
from forebear.models.gpt2 import GPT2Spec
from forebear.registry import LINEAGE

PUBLISHED_PARAMETERS = {"124M": 124_439_808, "355M": 354_823_168, "774M": 774_030_080, "1.5B": 1_557_611_200}
SMALL = {"width": 48, "depth": 3, "heads": 4, "context": 32}


@pytest.fixture(scope="module")
def gpt2():
    return explain_model("gpt2")


@pytest.mark.parametrize("size", PUBLISHED_PARAMETERS)
def test_gpt2_sizes_have_their_published_number_of_parameters(gpt2, size):
    assert gpt2.sizes[size]["figures"]["parameters"] == PUBLISHED_PARAMETERS[size]


@pytest.mark.parametrize("size", [*GPT2Spec.sizes])
def test_gpt2_flops_per_token_follow_the_formula(gpt2, size):
    fields, figures = gpt2.sizes[size]["fields"], gpt2.sizes[size]["figures"]
    width, inner, context = fields["width"], fields["inner"] or 4 * fields["width"], fields["context"]
    block = 2 * (4 * width**2 + 2 * width * inner) + 4 * context * width
    assert figures["flops_per_token"] == fields["depth"] * block + 2 * gpt2.vocabulary * width
    assert figures["longest_input"] == context


def test_model_size_parameters_equal_those_of_transformers():
    _, tokenizer = sample_batch(GPT2Spec(**SMALL))
    size = model_size(GPT2Spec(**SMALL), NominalTokenizer(tokenizer, 777), batch_tokens=64)
    with torch.device("meta"):
        reference = GPT2LMHeadModel(GPT2Config(vocab_size=777, n_embd=48, n_layer=3, n_head=4, n_positions=32))
    assert size.parameters == reference.num_parameters()
    assert (size.weights, size.gradients, size.moments) == tuple(size.parameters * num_bytes for num_bytes in (4, 4, 8))
    assert size.cache_bytes == 2 * 4 * 3 * 32 * 48
    assert size.bytes_to_use == size.weights + size.cache_bytes


def test_estimated_activation_memory_is_close_to_what_torch_saves():
    """The estimate from shapes is close to the tensors that torch saves for the backward pass."""
    _, tokenizer = sample_batch(GPT2Spec(**SMALL))
    size = model_size(GPT2Spec(**SMALL), tokenizer, batch_tokens=64)
    network = GPT2Spec(**SMALL).build(tokenizer).initialize(0)
    parameter_addresses = {parameter.data_ptr() for parameter in network.parameters()}
    saved_bytes = {}

    def record(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in parameter_addresses:
            saved_bytes[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(record, lambda tensor: tensor):
        states = network.encoder(tokens=torch.zeros(64, dtype=torch.long), lengths=[32, 32])
    assert states.last.requires_grad
    assert size.activations == pytest.approx(sum(saved_bytes.values()), rel=0.1)


def test_explanation_sentence_names_objective_encoder_and_heads(gpt2):
    assert gpt2.sentence == (
        "An objective (NextToken) turns text into a batch of inputs (tokens, lengths) and named targets (next); an"
        " encoder (Transformer) turns inputs into states; heads of the same names (next: LMHead) answer; the losses"
        " add up."
    )
    assert "NgramModel counts what follows what and answers next" in explain_model("ngram").sentence


def test_explanation_takes_paper_changes_and_fields_from_the_docstring(gpt2):
    assert gpt2.paper.startswith("Language Models are Unsupervised Multitask Learners")
    assert "Against GPT" in gpt2.changed
    assert "width" not in gpt2.changed.split("\n")[-1].split()[:1]
    assert all(meaning for _, meaning in gpt2.fields.values())
    assert all(meaning for _, meaning in explain_model("ngram").fields.values())


def test_explanation_example_has_shifted_next_token_targets(gpt2):
    inputs, targets = gpt2.example["seen"], gpt2.example["next"]
    assert targets[:-1] == inputs[1:]
    assert {"cat", "mat"} <= set(inputs)
    ngram_example = explain_model("ngram").example
    assert ngram_example["seen"][1:] == SAMPLE_TEXTS[0].split() == ngram_example["next"][:-1]


def test_explanation_with_custom_fields_adds_a_custom_size():
    custom = explain_model("gpt2", settings={"width": "96", "heads": "3", "depth": "2", "context": "64"})
    assert custom.fields["width"][0] == 96
    assert custom.sizes["yours"]["figures"]["longest_input"] == 64
    assert custom.sizes["yours"]["figures"]["parameters"] < custom.sizes["tiny"]["figures"]["parameters"]
    assert explain_model("gpt2", size="mini").fields["width"][0] == GPT2Spec.sizes["mini"]["width"]


def test_model_size_grows_with_the_vocabulary():
    small = {"width": "64", "depth": "1", "heads": "2"}
    _, tokenizer = sample_batch(GPT2Spec())
    spec = plan_pretraining("gpt2", (), settings=small).spec
    fewer, more = (model_size(spec, NominalTokenizer(tokenizer, entries), 64).parameters for entries in (1000, 2000))
    assert more - fewer == 1000 * 64


def test_explanation_of_count_based_model_has_no_figures_but_a_remark():
    explanation = explain_model("ngram")
    assert explanation.remark
    assert all(size["figures"] is None for size in explanation.sizes.values())


@pytest.mark.parametrize("options", [{"size": "124"}, {"settings": {"widht": "3"}}])
def test_explain_suggests_the_closest_size_or_field(options):
    with pytest.raises(InputError) as error:
        explain_model("gpt2", **options)
    assert "did you mean" in error.value.hint


@pytest.mark.parametrize("name", [*LINEAGE])
def test_every_model_of_the_lineage_has_capabilities(name):
    capabilities, problem = model_capabilities(name)
    assert problem == ""
    assert capabilities


def test_model_that_cannot_be_imported_has_no_capabilities_and_an_error(monkeypatch):
    entry = LINEAGE["ngram"]
    monkeypatch.setitem(LINEAGE, "ngram", type(entry)(**{**vars(entry), "spec_path": "forebear.models.nothing:No"}))
    capabilities, problem = model_capabilities("ngram")
    assert capabilities == ()
    assert "ModuleNotFoundError" in problem


def test_capabilities_follow_from_heads():
    assert head_capabilities(("next",), encodes=False) == ("score", "next", "generate", "ask", "measure")
    vector_capabilities = ("embed", "neighbours", "similarity", "odd-one-out")
    assert head_capabilities(("token", "pair"), encodes=True) == (
        "fill",
        "ask",
        "score",
        "measure",
        *vector_capabilities,
    )
    assert head_capabilities(("something",), encodes=False) == ()
    assert head_capabilities((), encodes=True) == vector_capabilities
    assert head_capabilities((), encodes=True, words=True) == (*vector_capabilities, "analogy", "measure")


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
def test_explanation_recipe_has_the_defaults_of_the_model(
    name: str, settings: dict[str, Any], expected: dict[str, Any]
):
    recipe = explain_model(name, settings=settings).to_dict()["recipe"]
    assert {setting: recipe[setting] for setting in expected} == expected
    if name in ("ngram", "onehot"):
        assert set(recipe) == set(expected), "count-based models list only settings that affect them"
