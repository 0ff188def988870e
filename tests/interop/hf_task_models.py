"""Random task models of transformers, adapted runs of forebear with random weights, and examples for both."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from forebear.data.io.atomic import file_digest
from forebear.data.labeled.examples import ChoiceExample, LabeledExample, QuestionExample, TaggedExample
from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.data.tokenizers.tokenizer_json import ROBERTA_SPECIALS
from forebear.data.tokenizers.train import train_tokenizer
from forebear.inference.run import Run
from forebear.interop import hf_tasks
from forebear.registry import model_spec
from forebear.tasks.task import task_from_json
from forebear.training.adaptation import Adaptation
from forebear.training.run_folder import RunFolder
from hf_peers import BIDIRECTIONAL_CONFIG, CAUSAL_CONFIG, VOCABULARY

os.environ.setdefault("HF_HUB_OFFLINE", "1")

CLASSES = {head.class_name: (model_name, head) for model_name, heads in hf_tasks.TASK_HEADS.items() for head in heads}
CONFIGS = {"gpt": "OpenAIGPTConfig", "bert": "BertConfig", "gpt2": "GPT2Config", "ernie": "ErnieConfig"}
CONFIGS |= {"roberta": "RobertaConfig", "albert": "AlbertConfig"}
MODELS_WITH_SEGMENTS = ("bert", "ernie", "albert")
LINES = ["the cat sat on the mat", "a dog and a cat ran off", "我很喜欢你", "北京是中国的首都，你好"]
IOBES = ("O", "B-PER", "I-PER", "E-PER", "S-PER")
TEXTS = [("the cat sat", "a dog ran"), ("北京是首都", "我喜欢你"), ("a mat", "the dog sat on 北京")]
TASKS: dict[str, dict[str, Any]] = {
    "one": {"name": "classification", "labels": ("no", "好", "x"), "kind": "one", "windows": 3},
    "calibrated": {"name": "classification", "labels": ("no", "好", "x"), "kind": "one", "temperature": 1.7},
    "several": {"name": "classification", "labels": ("a", "b"), "kind": "several", "temperature": 0.6},
    "number": {"name": "classification", "kind": "number", "centre": 3.25, "spread": 2.5},
    "pairs": {"name": "pairs", "labels": ("neutral", "entailment"), "kind": "one", "ordered": True},
    "unordered_pairs": {"name": "pairs", "labels": ("0", "1"), "kind": "one"},
    "tagging": {"name": "tagging", "tags": IOBES, "characters": True, "scheme": "BMES"},
    "answering": {"name": "answering", "longest": 7, "unanswered": True, "threshold": 0.5},
    "choice": {"name": "choice", "temperature": 1.3},
}
COMMON_TASKS = ("one", "pairs", "tagging", "answering", "choice")
SMALL_MODEL = {"width": 32, "depth": 2, "heads": 2, "context": 24, "inner": 0}


def save_hf_task_model(name: str, folder: Path, **config_overrides: Any) -> Any:
    """A saved random model of this class, with weights so large that every one affects the logits."""
    transformers = pytest.importorskip("transformers")
    model_name, head = CLASSES[name]
    torch.manual_seed(3)
    config_values = CAUSAL_CONFIG if model_name in ("gpt", "gpt2") else BIDIRECTIONAL_CONFIG
    config_values = config_values | {"roberta": {"type_vocab_size": 1}, "albert": {"embedding_size": 10}}.get(
        model_name, {}
    )
    ids = {"vocab_size": VOCABULARY, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
    labels = {"id2label": dict(enumerate(("好", "bad", "so-so")))} if head.kind == "label" else {}
    labels = {"id2label": dict(enumerate(IOBES))} if head.kind == "tag" else labels
    hf_model = getattr(transformers, name)(
        getattr(transformers, CONFIGS[model_name])(**config_values | ids | labels | config_overrides)
    )
    with torch.no_grad():
        for value in hf_model.parameters():
            value.copy_(value * 8 if value.dim() > 1 else value + 0.2 * torch.randn_like(value))
    hf_model.eval().save_pretrained(folder)
    return hf_model


def train_tokenizers_by_model() -> dict[str, Tokenizer]:
    """By model name."""
    wordpiece, byte_level_bpe = (
        train_tokenizer("wordpiece", LINES * 3, size=120, min_count=1),
        train_tokenizer("bytepair", LINES * 3, size=300),
    )
    roberta_bpe = train_tokenizer("bytepair", LINES * 3, size=300, specials=ROBERTA_SPECIALS)
    return {
        "bert": wordpiece,
        "ernie": wordpiece,
        "albert": wordpiece,
        "roberta": roberta_bpe,
        "gpt": byte_level_bpe,
        "gpt2": byte_level_bpe,
    }


def adapted_run(model_name: str, task: str, tokenizer: Tokenizer, folder: Path, **adaptation_options: Any) -> Run:
    """An adapted run with random weights, large enough to affect the logits."""
    fields = SMALL_MODEL | ({"table": 16} if model_name == "albert" else {})
    spec = model_spec(model_name)(**fields)
    task_spec, adaptation = task_from_json(TASKS[task]), Adaptation(**{"dropout": 0.2} | adaptation_options)
    model = adaptation.build_model(spec.build(tokenizer), task_spec, spec.input_format(tokenizer)).initialize(5)
    generator = torch.Generator().manual_seed(6)
    weights = {
        name: tensor + 0.1 * torch.randn(tensor.shape, generator=generator) for name, tensor in model.tensors().items()
    }
    folder.mkdir()
    save_file(weights, folder / "weights.safetensors")
    metadata = {"name": folder.name, "milestone": model_name, "size": None, "fields": asdict(spec), "parent": None}
    metadata |= {
        "task": task_spec.to_dict(),
        "adaptation": adaptation.to_dict(),
        "recipe": {},
        "state": "finished",
        "step": 0,
    }
    size = (folder / "weights.safetensors").stat().st_size
    metadata["weights"] = {"sha256": file_digest(folder / "weights.safetensors"), "bytes": size, "step": 0}
    return Run(RunFolder.create(folder, metadata, tokenizer, None))


def examples_for(task: str) -> list[Any]:
    match TASKS[task]["name"]:
        case "classification":
            return [LabeledExample((text,)) for text, _ in TEXTS]
        case "pairs":
            return [LabeledExample(pair) for pair in TEXTS]
        case "tagging":
            return [TaggedExample(tuple("北京是首都")), TaggedExample(("the", "cat", "喜", "欢", "你"))]
        case "answering":
            return [QuestionExample(*pair) for pair in TEXTS]
    return [ChoiceExample(text, (first_choice, "the cat", "你好")) for text, first_choice in TEXTS]


def published_task_model(
    name: str, folder: Path, tokenizers_by_model: dict[str, Tokenizer], **config_overrides: Any
) -> Path:
    """A folder as published on the Hub: a model of transformers and a tokenizer.json with special tokens."""
    model_name = CLASSES[name][0]
    save_hf_task_model(name, folder, vocab_size=tokenizers_by_model[model_name].vocab_size, **config_overrides)
    run = adapted_run(model_name, "one", tokenizers_by_model[model_name], folder / "marks")
    run.export(folder / "marked")
    (folder / "tokenizer.json").write_bytes((folder / "marked" / "tokenizer.json").read_bytes())
    return folder
