"""Random models of transformers that do tasks, adapted runs of ours with random weights, and examples for both."""

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
from peers import BACK, BOTH_WAYS, VOCABULARY

os.environ.setdefault("HF_HUB_OFFLINE", "1")

CLASSES = {head.class_name: (milestone, head) for milestone, heads in hf_tasks.TASK_HEADS.items() for head in heads}
CONFIGS = {"gpt": "OpenAIGPTConfig", "bert": "BertConfig", "gpt2": "GPT2Config", "ernie": "ErnieConfig"}
CONFIGS |= {"roberta": "RobertaConfig", "albert": "AlbertConfig"}
SEGMENTED = ("bert", "ernie", "albert")
LINES = ["the cat sat on the mat", "a dog and a cat ran off", "我很喜欢你", "北京是中国的首都，你好"]
IOBES = ("O", "B-PER", "I-PER", "E-PER", "S-PER")
TEXTS = [("the cat sat", "a dog ran"), ("北京是首都", "我喜欢你"), ("a mat", "the dog sat on 北京")]
TASKS: dict[str, dict[str, Any]] = {
    "one": {"name": "classification", "labels": ("no", "好", "x"), "kind": "one", "windows": 3},
    "sure": {"name": "classification", "labels": ("no", "好", "x"), "kind": "one", "temperature": 1.7},
    "several": {"name": "classification", "labels": ("a", "b"), "kind": "several", "temperature": 0.6},
    "number": {"name": "classification", "kind": "number", "centre": 3.25, "spread": 2.5},
    "pairs": {"name": "pairs", "labels": ("neutral", "entailment"), "kind": "one", "ordered": True},
    "alike": {"name": "pairs", "labels": ("0", "1"), "kind": "one"},
    "tagging": {"name": "tagging", "tags": IOBES, "characters": True, "scheme": "BMES"},
    "answering": {"name": "answering", "longest": 7, "unanswered": True, "threshold": 0.5},
    "choice": {"name": "choice", "temperature": 1.3},
}
EVERYWHERE = ("one", "pairs", "tagging", "answering", "choice")
SMALL = {"width": 32, "depth": 2, "heads": 2, "context": 24, "inner": 0}


def peer_for(name: str, folder: Path, **facts: Any) -> Any:
    """A random model of this class, saved; its numbers are so large that every part matters."""
    transformers = pytest.importorskip("transformers")
    milestone, head = CLASSES[name]
    torch.manual_seed(3)
    own = BACK if milestone in ("gpt", "gpt2") else BOTH_WAYS
    own = own | {"roberta": {"type_vocab_size": 1}, "albert": {"embedding_size": 10}}.get(milestone, {})
    ids = {"vocab_size": VOCABULARY, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
    labels = {"id2label": dict(enumerate(("好", "bad", "so-so")))} if head.kind == "label" else {}
    labels = {"id2label": dict(enumerate(IOBES))} if head.kind == "tag" else labels
    peer = getattr(transformers, name)(getattr(transformers, CONFIGS[milestone])(**own | ids | labels | facts))
    with torch.no_grad():
        for value in peer.parameters():
            value.copy_(value * 8 if value.dim() > 1 else value + 0.2 * torch.randn_like(value))
    peer.eval().save_pretrained(folder)
    return peer


def tokenizers_for_all() -> dict[str, Tokenizer]:
    """By milestone."""
    both, back = (
        train_tokenizer("wordpiece", LINES * 3, size=120, min_count=1),
        train_tokenizer("bytepair", LINES * 3, size=300),
    )
    named = train_tokenizer("bytepair", LINES * 3, size=300, specials=ROBERTA_SPECIALS)
    return {"bert": both, "ernie": both, "albert": both, "roberta": named, "gpt": back, "gpt2": back}


def run_for(milestone: str, task: str, tokenizer: Tokenizer, folder: Path, **how: Any) -> Run:
    """An adapted run, whose weights are random and large enough to matter."""
    fields = SMALL | ({"table": 16} if milestone == "albert" else {})
    record = model_spec(milestone)(**fields)
    told, adaptation = task_from_json(TASKS[task]), Adaptation(**{"dropout": 0.2} | how)
    model = adaptation.build_model(record.build(tokenizer), told, record.input_format(tokenizer)).initialize(5)
    generator = torch.Generator().manual_seed(6)
    drawn = {name: one + 0.1 * torch.randn(one.shape, generator=generator) for name, one in model.tensors().items()}
    folder.mkdir()
    save_file(drawn, folder / "weights.safetensors")
    facts = {"name": folder.name, "milestone": milestone, "size": None, "fields": asdict(record), "parent": None}
    facts |= {"task": told.to_dict(), "adaptation": adaptation.to_dict(), "recipe": {}, "state": "finished", "step": 0}
    size = (folder / "weights.safetensors").stat().st_size
    facts["weights"] = {"sha256": file_digest(folder / "weights.safetensors"), "bytes": size, "step": 0}
    return Run(RunFolder.create(folder, facts, tokenizer, None))


def examples_for(task: str) -> list[Any]:
    match TASKS[task]["name"]:
        case "classification":
            return [LabeledExample((one,)) for one, _ in TEXTS]
        case "pairs":
            return [LabeledExample(pair) for pair in TEXTS]
        case "tagging":
            return [TaggedExample(tuple("北京是首都")), TaggedExample(("the", "cat", "喜", "欢", "你"))]
        case "answering":
            return [QuestionExample(*pair) for pair in TEXTS]
    return [ChoiceExample(one, (other, "the cat", "你好")) for one, other in TEXTS]


def published(name: str, folder: Path, cutters: dict[str, Tokenizer], **facts: Any) -> Path:
    """A folder as others publish them: a model of theirs and a tokenizer.json with its marks."""
    milestone = CLASSES[name][0]
    peer_for(name, folder, vocab_size=cutters[milestone].vocab_size, **facts)
    run = run_for(milestone, "one", cutters[milestone], folder / "marks")
    run.export(folder / "marked")
    (folder / "tokenizer.json").write_bytes((folder / "marked" / "tokenizer.json").read_bytes())
    return folder
