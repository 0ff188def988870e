"""Published Transformers: their parameter counts and the input they refuse."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from forebear.data.source import TextSource
from forebear.data.tokenizers.train import train_tokenizer
from forebear.errors import InputError
from forebear.experiments.plan import plan_pretraining
from forebear.experiments.training_run import run_pretraining
from forebear.models.albert import AlbertSpec
from forebear.models.bert import BertSpec
from forebear.models.gpt import GPTSpec
from forebear.models.roberta import RobertaSpec
from forebear.registry import model_spec
from small_runs import small_text

BERT_FAMILY = ("bert", "ernie", "roberta", "albert")


def network(spec: Any, entries: int | None = None):
    tokenizer: Any = SimpleNamespace(vocab_size=entries or type(spec).published_vocab_size)
    return spec.build(tokenizer)


def count(model: Any, *excluded: str) -> int:
    """The number of parameters, without those whose names contain one of the fragments."""
    parameters = dict(model.named_parameters())
    return sum(
        parameter.numel()
        for name, parameter in parameters.items()
        if not any(fragment in name for fragment in excluded)
    )


def test_bert_base_has_published_parameter_count():
    model = network(BertSpec())
    assert count(model, "heads.") + count(model.heads["pair"].pool) == 109_482_240  # the encoder and its pooler
    assert model.num_parameters == 110_106_428  # with both heads
    layers = (".query_key_value.bias", ".output.bias", ".expand.bias", ".contract.bias", "heads.")
    assert count(model, *layers) == 108_808_704  # "about 110 M": without biases of layers and pooler


def test_large_and_other_models_have_published_parameter_counts():
    large = network(BertSpec(**BertSpec.sizes["large"]))
    assert count(large, "heads.") + count(large.heads["pair"].pool) == 335_141_888
    albert = network(AlbertSpec())
    assert count(albert, "heads.") + count(albert.heads["pair"].pool) == 11_683_584
    assert count(network(GPTSpec())) == 116_534_784
    never_used = 2 * 768  # RoBERTa's first two positions
    assert count(network(RobertaSpec()), "heads.") == 124_645_632 - never_used - 590_592  # and its pooler


def test_albert_shares_one_block_and_factorizes_the_embedding():
    model = network(AlbertSpec(width=64, depth=5, heads=2, context=32, table=16), 100)
    assert len(model.encoder.blocks) == 1
    assert model.encoder.depth == 5
    assert tuple(model.encoder.embedding.token.weight.shape) == (100, 16)


@pytest.mark.parametrize("name", BERT_FAMILY)
def test_vocabulary_without_mask_token_is_refused(name: str):
    tokenizer = train_tokenizer("words", ["a b c"], specials={"unknown": "[UNK]", "start": "[CLS]", "end": "[SEP]"})
    with pytest.raises(InputError, match=r"no token for the role 'mask', such as \[MASK\]") as refused:
        model_spec(name)().objective(tokenizer)
    assert "--tokenizer wordpiece" in refused.value.hint


@pytest.mark.parametrize(
    "fields", [{"pairs": "both"}, {"share": 0}, {"share": 1.0}, {"activation": "tanh"}, {"long": "no"}, {"context": 4}]
)
def test_bert_spec_refuses_invalid_values(fields: dict[str, Any]):
    with pytest.raises(InputError) as refused:
        BertSpec(**fields)
    assert refused.value.hint


def planned(name: str, file: Path, **settings: Any):
    small = {"width": 32, "depth": 1, "heads": 2, "context": 40, "steps": 2, "batch": 128, "held_out": 0.2}
    return plan_pretraining(name, [str(file)], settings=small | settings)


@pytest.mark.parametrize("name", ["bert", "ernie"])
def test_nsp_on_one_document_is_refused_before_writing(name: str, tmp_path: Path):
    file = tmp_path / "novel.txt"
    file.write_text(small_text(20).replace("\n\n", "\n"), encoding="utf-8")
    with pytest.raises(InputError, match="is one document") as refused:
        run_pretraining(planned(name, file), tmp_path / "run")
    assert "--pairs none" in refused.value.hint
    assert str(refused.value.file) == str(file)
    assert not (tmp_path / "run").exists()
    assert run_pretraining(planned(name, file, pairs="none"), tmp_path / "run").is_finished


def test_sop_trains_on_one_document(tmp_path: Path):
    file = tmp_path / "novel.txt"
    file.write_text(small_text(20).replace("\n\n", "\n"), encoding="utf-8")
    assert run_pretraining(planned("albert", file, table=8), tmp_path / "run").is_finished


def test_documents_of_one_sentence_are_refused_for_pairs_only(tmp_path: Path):
    file = tmp_path / "titles.txt"
    file.write_text("\n\n".join(f"A title number {n} without an end" for n in range(60)), encoding="utf-8")
    for name in ("bert", "albert"):
        with pytest.raises(InputError, match="two sentences that fit together into a row"):
            run_pretraining(planned(name, file), tmp_path / name)
    assert run_pretraining(planned("roberta", file), tmp_path / "roberta").is_finished


def test_whole_word_masking_of_unsegmented_chinese_corpus_is_refused(tmp_path: Path):
    file = tmp_path / "chinese.txt"
    stories = [f"小明第{n}次去了北京。他在那里看见了许多朋友。大家都很高兴。" for n in range(40)]
    file.write_text("\n\n".join(stories), encoding="utf-8")
    corpus = planned("bert", file).prepare_corpus()
    with pytest.raises(InputError, match="does not tell where words start") as refused:
        run_pretraining(planned("bert", corpus.folder, whole_words=True), tmp_path / "run")
    assert "--segment" in refused.value.hint
    assert run_pretraining(planned("bert", file, whole_words=True), tmp_path / "run").is_finished


def test_masking_settings_without_effect_are_refused(tmp_path: Path):
    """ernie and albert's word n-grams always mask whole words, and only ernie masks entities."""
    for name in ("ernie", "albert"):
        with pytest.raises(InputError, match="whole_words is false") as refused:
            model_spec(name)(whole_words=False)
        assert refused.value.hint
    assert not AlbertSpec(whole_words=False, groups=1).needs_word_boundaries
    with pytest.raises(InputError, match="--entities means nothing to bert") as refused:
        plan_pretraining("bert", [str(tmp_path)], source=TextSource((), entities="names.txt"))
    assert "ernie" in refused.value.hint
