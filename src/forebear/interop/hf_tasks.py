"""Task heads of Hugging Face transformers, imported and exported: classes, tensor names, labels and task settings."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from forebear.data.labeled import tag_schemes
from forebear.errors import InputError, join_errors
from forebear.interop.hf_architectures import ARCHITECTURES, Architecture, layer_rules
from forebear.interop.tensor_names import UNUSED_HEAD_NOTE, TensorNameMap, TensorNameRule
from forebear.objectives.input_format import InputFormat
from forebear.tasks.classification import ORDERED_PAIR_WORDS
from forebear.tasks.task import Task, task_from_json

if TYPE_CHECKING:
    from torch import Tensor

    from forebear.interop.exportable import ExportableRun
    from forebear.interop.huggingface import ImportedCheckpoint, TaskExport

OTHER_HEAD_NOTE = "of a head beside that of the task, which its class does not read"
CONSTANT_BIAS_NOTE = "added to the score of every choice alike, it chooses none"
CHOICE_HEAD = "multiple_choice_head.summary"
FINAL_NORM_BIASES = ("encoder.final_norm.bias", "encoder.blocks.{}.feedforward_norm.bias")  # of GPT-2 and of GPT
TASK_KINDS = {"classification": "label", "pairs": "label", "tagging": "tag", "answering": "place", "choice": "choice"}
# Kind of head → suffix of the class name.
CLASS_SUFFIXES = {"label": "ForSequenceClassification", "tag": "ForTokenClassification"}
CLASS_SUFFIXES |= {"place": "ForQuestionAnswering", "choice": "ForMultipleChoice"}
CLASS_PREFIXES = {"gpt": "OpenAIGPT", "bert": "Bert", "gpt2": "GPT2"}
CLASS_PREFIXES |= {"ernie": "Ernie", "roberta": "Roberta", "albert": "Albert"}


@dataclass(frozen=True)
class TaskHeadMapping:
    """The head for one kind of task in one architecture.

    class_name        the transformers class
    kind              its output: "label", "tag" (of each token), "place" (span of an answer) or "choice"
    dropout_key       key of its dropout in config.json; "" if it has none
    supported_values  config.json keys → values that are supported here; the first is the default
    zero_tensors      tensors without effect: ignored on import, written as zeros
    has_lm_head       the class also has a language-model head
    """

    class_name: str
    kind: str
    rules: tuple[TensorNameRule, ...]
    dropout_key: str = "classifier_dropout"
    supported_values: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    zero_tensors: tuple[str, ...] = ()
    has_lm_head: bool = False

    @property
    def heads(self) -> tuple[str, ...]:
        """The names of our heads."""
        return ("start", "end") if self.kind == "place" else (self.kind,)

    def name_map(self, architecture: Architecture) -> TensorNameMap:
        """The tensor names of the encoder and of this head; names of other heads are ignored."""
        encoder_map = architecture.name_map
        encoder = tuple(rule for rule in encoder_map.rules if not rule.head)
        known = {name for rule in encoder for name in rule.hf_names}
        tied = {tied_name: name for tied_name, name in encoder_map.tied.items() if name in known}
        ignored = dict.fromkeys(encoder_map.tied.keys() - tied.keys(), OTHER_HEAD_NOTE)
        for rule in encoder_map.rules:
            if rule.head:
                ignored |= dict.fromkeys(rule.hf_names, UNUSED_HEAD_NOTE if rule.is_shared else OTHER_HEAD_NOTE)
        ignored |= dict.fromkeys(self.zero_tensors, CONSTANT_BIAS_NOTE)
        reasons = {**{re.escape(name): reason for name, reason in ignored.items()}, **encoder_map.ignored_names}
        return replace(encoder_map, rules=(*encoder, *self.rules), tied=tied, ignored_names=reasons)


def _encoder_heads(model: str, pooler: str, dropout_key: str = "classifier_dropout") -> tuple[TaskHeadMapping, ...]:
    label_layers = (pooler, "classifier") if model != "roberta" else ("classifier.dense", "classifier.out_proj")
    layers = {"label": label_layers, "tag": ("classifier",), "place": ("qa_outputs",), "choice": (pooler, "classifier")}
    heads = []
    for kind, (*pool_layers, output_layer) in layers.items():
        rules = layer_rules(f"heads.{kind}.choose", output_layer, head=kind)
        if pool_layers:
            is_shared = pool_layers == [pooler]
            rules = layer_rules(f"heads.{kind}.pool", *pool_layers, head=kind, is_shared=is_shared) + rules
        heads.append(TaskHeadMapping(f"{CLASS_PREFIXES[model]}{CLASS_SUFFIXES[kind]}", kind, rules, dropout_key))
    return tuple(heads)


def _decoder_heads(model: str) -> tuple[TaskHeadMapping, ...]:
    """Heads of decoders: the last token's state times a matrix without a bias; the bias of a choice has no effect."""
    class_prefix = CLASS_PREFIXES[model]
    summary_values = {
        "summary_type": ("cls_index", "last"),
        "summary_use_proj": (True,),
        "summary_activation": (None, ""),
    }
    label = TensorNameRule("heads.label.choose.weight", ("score.weight",), head="label")
    choice = TensorNameRule("heads.choice.choose.weight", (f"{CHOICE_HEAD}.weight",), head="choice")
    return (
        TaskHeadMapping(f"{class_prefix}{CLASS_SUFFIXES['label']}", "label", (label,), ""),
        TaskHeadMapping(
            f"{class_prefix}DoubleHeadsModel",
            "choice",
            (choice,),
            "summary_first_dropout",
            supported_values=summary_values | {"summary_proj_to_labels": (True,)},
            zero_tensors=(f"{CHOICE_HEAD}.bias",),
            has_lm_head=True,
        ),
    )


_, _TAG_HEAD, _SPAN_HEAD, _ = _encoder_heads("gpt2", "")  # as in BERT, but without a dropout before spans
TASK_HEADS: dict[str, tuple[TaskHeadMapping, ...]] = {
    "gpt": _decoder_heads("gpt"),
    "bert": _encoder_heads("bert", "pooler.dense"),
    "gpt2": (*_decoder_heads("gpt2"), _TAG_HEAD, replace(_SPAN_HEAD, dropout_key="")),
    "ernie": _encoder_heads("ernie", "pooler.dense"),
    "roberta": _encoder_heads("roberta", "pooler.dense"),
    "albert": _encoder_heads("albert", "pooler", "classifier_dropout_prob"),
}


def require_supported(
    config: Mapping[str, Any], supported: Mapping[str, tuple[Any, ...]], file: Path, hint: str
) -> None:
    """Raise InputError if a key of config.json has an unsupported value; the first supported one is the default."""
    for name, values in supported.items():
        if config.get(name, values[0]) not in values:
            raise InputError(f"{name} is {config[name]!r}; here it can only be {values[0]!r}", file=file, hint=hint)


def head_for_task(model: str, task: str) -> TaskHeadMapping:
    """The head for one of our tasks; raises InputError if transformers has none."""
    for head in TASK_HEADS[model]:
        if head.kind == TASK_KINDS[task]:
            return head
    title = ARCHITECTURES[model].name_map.title
    kinds = {head.kind for head in TASK_HEADS[model]}
    supported = ", ".join(name for name, kind in TASK_KINDS.items() if kind in kinds)
    message = f"{title} of transformers has no class for {task}"
    raise InputError(message, hint=f"it has classes for: {supported}; adapt another milestone to write {task}")


# --- Weights of heads ---


def split_start_end(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Our start and end heads, which are two rows of one layer in transformers."""
    split_tensors = {name: tensor for name, tensor in tensors.items() if not name.startswith("heads.place.")}
    for name in tensors.keys() - split_tensors.keys():
        for row, head in enumerate(("start", "end")):
            split_tensors[name.replace("place", head, 1)] = tensors[name][row : row + 1].clone()
    return split_tensors


def join_start_end(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The inverse of `split_start_end`."""
    import torch

    joined = {name: tensor for name, tensor in tensors.items() if not name.startswith(("heads.start.", "heads.end."))}
    for name, tensor in tensors.items():
        if name.startswith("heads.start."):
            end_tensor = tensors[name.replace("start", "end", 1)]
            joined[name.replace("start", "place", 1)] = torch.cat((tensor, end_tensor))
    return joined


def bake_temperature(tensors: Mapping[str, Tensor], task: Mapping[str, Any], depth: int) -> dict[str, Tensor]:
    """Weights with the calibration temperature, or the scale of regression targets, folded in."""
    baked_tensors = dict(tensors)
    scale, shift = 1.0 / task.get("temperature", 1.0), 0.0
    if task.get("kind") == "number":
        scale, shift = task["spread"], task["centre"]
    names = [name for name in baked_tensors if re.fullmatch(r"heads\.(label|choice)\.choose\.(weight|bias)", name)]
    if scale != 1:
        baked_tensors |= {name: baked_tensors[name] * scale for name in names}
    if shift:
        (weight, *bias) = sorted(names, key=lambda name: name.endswith("bias"))
        if bias:
            baked_tensors[bias[0]] = baked_tensors[bias[0]] + shift
        else:  # without a bias, a change of the layer's input shifts its output
            weight_row = baked_tensors[weight][0].double()
            if not (squared_norm := float(weight_row.square().sum())):
                raise InputError("its head has learned nothing", hint="adapt it to examples first")
            norm_biases = [pattern.format(depth - 1) for pattern in FINAL_NORM_BIASES]
            norm_bias = next(name for name in norm_biases if name in baked_tensors)
            input_shift = (weight_row * (shift / squared_norm)).to(baked_tensors[weight].dtype)
            baked_tensors[norm_bias] = baked_tensors[norm_bias] + input_shift
    return baked_tensors


# --- Tasks in config.json: labels, problem type, dropout ---

PROBLEM_TYPES = {"one": "single_label_classification", "several": "multi_label_classification", "number": "regression"}
WITHOUT_HEAD_HINT = "import it without its head: --task none"
FOREBEAR_KEY = "forebear"  # key in config.json for task settings that transformers has no key for
TASK_FIELDS: dict[str, tuple[type, ...]] = {  # the task settings stored there, and their types
    "name": (str,),
    "ordered": (bool,),
    "windows": (int,),
    "characters": (bool,),
    "scheme": (str,),
    "longest": (int,),
    "unanswered": (bool,),
    "threshold": (float, int),
    "top": (int,),
}
POOLED_TASKS = ("classification", "pairs", "choice")
DEFAULT_LM_WEIGHT = 0.5  # weight of the auxiliary LM loss in the GPT paper


def task_config(head: TaskHeadMapping, task: Mapping[str, Any], dropout: float, lm_weight: float) -> dict[str, Any]:
    """The entries of config.json for this task."""
    config: dict[str, Any] = {name: values[0] for name, values in head.supported_values.items()}
    config |= {head.dropout_key: dropout} if head.dropout_key else {}
    labels = task.get("tags") or task.get("labels") or (["LABEL_0"] if head.kind == "label" else [])
    if labels:
        config["id2label"] = {str(label_id): label for label_id, label in enumerate(labels)}
        config["label2id"] = {label: label_id for label_id, label in enumerate(labels)}
        config["num_labels"] = len(labels)
    if head.kind == "label":
        config["problem_type"] = PROBLEM_TYPES[task["kind"]]
    task_fields = {name: value for name, value in task.items() if name in TASK_FIELDS}
    return config | {FOREBEAR_KEY: {"task": task_fields} | ({"language": lm_weight} if head.has_lm_head else {})}


def task_from_config(
    head: TaskHeadMapping, config: Mapping[str, Any], tensors: Mapping[str, Tensor], file: Path
) -> dict[str, Any]:
    """Our task settings that the files contain; unsupported values raise InputError."""
    require_supported(config, head.supported_values, file, WITHOUT_HEAD_HINT)
    num_outputs = len(tensors[f"heads.{head.kind}.choose.weight"])
    saved_task = _saved_task(head, config, file)
    if head.kind == "tag":
        return {"name": "tagging", **saved_task, "tags": read_labels(config, num_outputs, file)}
    if head.kind != "label":
        expected = {"place": 2, "choice": 1}[head.kind]
        if num_outputs != expected:
            message = f"its head gives {num_outputs} numbers, and here it can only be {expected}"
            raise InputError(message, file=file, hint=WITHOUT_HEAD_HINT)
        return {"name": "answering" if head.kind == "place" else "choice", **saved_task}
    kind, problem_type = "number" if num_outputs == 1 else "one", config.get("problem_type")
    if problem_type is not None:
        kind = next((kind for kind, name in PROBLEM_TYPES.items() if name == problem_type), None)
    if kind is None or ((kind == "number") != (num_outputs == 1) and kind != "several"):
        message = f"problem_type is {problem_type!r} with {num_outputs} answers, which cannot be done here"
        raise InputError(message, file=file, hint=WITHOUT_HEAD_HINT)
    labels = [] if kind == "number" else read_labels(config, num_outputs, file)
    return {"name": "classification", **saved_task, "labels": labels, "kind": kind}


def read_labels(config: Mapping[str, Any], count: int, file: Path) -> list[str]:
    """The label names in id2label; without it, LABEL_0, LABEL_1, … as in transformers."""
    id2label, label_ids, hint = config.get("id2label"), list(map(str, range(count))), "correct it in the file"
    if id2label is None:
        return [f"LABEL_{label_id}" for label_id in label_ids]
    is_valid = isinstance(id2label, dict) and all(isinstance(label, str | int) for label in id2label.values())
    if not is_valid or {*id2label} != {*label_ids}:
        message = f"id2label does not name the {count} labels that the weights have, 0 to {count - 1}"
        raise InputError(message, file=file, hint=hint)
    labels = [str(id2label[label_id]) for label_id in label_ids]
    if duplicates := sorted({label for label in labels if labels.count(label) > 1}):
        raise InputError(f"id2label has labels twice: {join_errors(duplicates)}", file=file, hint=hint)
    return labels


def adaptation_from_config(
    head: TaskHeadMapping, config: Mapping[str, Any], default_dropout: float, file: Path
) -> dict[str, float]:
    """The dropout of the head, and the weight of the auxiliary LM loss: 0 without an LM head."""
    dropout = config.get(head.dropout_key) if head.dropout_key else None
    dropout = default_dropout if dropout is None else dropout
    if isinstance(dropout, bool) or not isinstance(dropout, int | float) or not 0 <= dropout < 1:
        message = f"{head.dropout_key} is {dropout!r}, not a number from 0 to below 1"
        raise InputError(message, file=file, hint="correct it in the file")
    saved_weight, lm_weight = _saved_settings(config).get("language"), DEFAULT_LM_WEIGHT if head.has_lm_head else 0.0
    if head.has_lm_head and isinstance(saved_weight, int | float) and math.isfinite(saved_weight) and saved_weight >= 0:
        lm_weight = saved_weight
    return {"dropout": float(dropout), "language": float(lm_weight)}


def _saved_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that an exported run stored in config.json; empty for other models."""
    saved = config.get(FOREBEAR_KEY)
    return saved if isinstance(saved, dict) else {}


def _saved_task(head: TaskHeadMapping, config: Mapping[str, Any], file: Path) -> dict[str, Any]:
    """The task settings that an exported run stored in config.json; empty for other models."""
    task = _saved_settings(config).get("task")
    if task is None:
        return {}
    is_valid = (
        isinstance(task, dict)
        and TASK_KINDS.get(str(task.get("name"))) == head.kind
        and all(type(value) in TASK_FIELDS.get(name, ()) for name, value in task.items())
        and all(value > 0 for name, value in task.items() if type(value) is int and name != "threshold")
    )
    if not is_valid:
        hint = f"take {FOREBEAR_KEY!r} out of the file, or export it again"
        raise InputError(f"what {FOREBEAR_KEY!r} tells of its task is not to be understood", file=file, hint=hint)
    return task


# --- Tasks of imported and exported runs ---

SINGLE_TEXT_TASKS = ("classification", "tagging")  # the others have two texts per sequence


def imported_task(checkpoint: ImportedCheckpoint, task_name: str | None, path: Path, notes: list[str]) -> Task | None:
    """The task of a folder; `task_name` says whether a classifier is for texts or for pairs; folders do not."""
    task = None if checkpoint.task is None else dict(checkpoint.task)
    if task_name in ("classification", "pairs") and (task is None or "labels" not in task):
        raise InputError(f"it has no head for {task_name}", file=path, hint="leave out --task")
    if task is None:
        return None
    if "tags" in task:
        task |= _convert_tags(task, path)
    if "labels" in task:
        is_ordered = any(word in label.lower() for label in task["labels"] for word in ORDERED_PAIR_WORDS)
        if task_name is None and "windows" not in task:  # runs exported by forebear say which
            task_name = "pairs" if is_ordered else "classification"
            notes.append(f"taken for a classifier of {'pairs of' if is_ordered else 'single'} texts; else give --task")
        task["name"] = task_name or task["name"]
        if task["name"] == "pairs":
            task.setdefault("ordered", is_ordered)
        else:
            task.pop("ordered", None)
    return task_from_json(task)


def _convert_tags(task: dict[str, Any], path: Path) -> dict[str, Any]:
    """Convert tags to our IOBES letters; also the scheme of the original ones."""
    hf_tags: list[str] = task["tags"]
    tags = [tag_schemes.TAG_ROLES.get(tag[:1], tag[:1]) + tag[1:] for tag in hf_tags]
    try:
        tag_schemes.iobes_transitions(tags)
    except InputError as error:
        message = f"its labels are no tags of names: {error.message}"
        hint = f"name them so in id2label of its config.json, or {WITHOUT_HEAD_HINT}"
        raise InputError(message, file=path, hint=hint) from None
    prefixes = {tag[0] for tag in hf_tags} - {"O"}
    schemes = tag_schemes.SCHEME_LETTERS.items()
    scheme = next((name for name, scheme_letters in schemes if prefixes == {*scheme_letters, "B"}), "IOBES")
    return {"tags": tags, "scheme": task.get("scheme", scheme)}


def check_input_format(folder: Path, input_format: InputFormat, task: Task) -> None:
    """Reject a tokenizer whose input format differs from ours for this task: predictions would differ.

    Without a tokenizer.json the format is that of the paper, except for GPT, whose programs add no special tokens.
    """
    file = folder / "tokenizer.json"
    if not file.is_file():
        if input_format.pooling == "last":
            message = "it has no tokenizer.json with marks around texts, and here its last mark is read"
            raise InputError(message, file=folder, hint=WITHOUT_HEAD_HINT)
        return
    from tokenizers import Tokenizer as HFTokenizer

    num_texts = 1 if task.name in SINGLE_TEXT_TASKS else 2
    hf_tokenizer: Any = HFTokenizer.from_file(str(file))
    hf_tokenizer.no_padding()
    hf_tokenizer.no_truncation()
    token_ids = np.array(hf_tokenizer.encode("a", add_special_tokens=False).ids, np.int32)
    hf_encoding = hf_tokenizer.encode(*"aa"[:num_texts])
    row, segments = input_format.make_row(*[token_ids] * num_texts)
    if hf_encoding.ids != row.tolist() or (input_format.segments and hf_encoding.type_ids != segments.tolist()):
        expected = " ".join(str(hf_tokenizer.id_to_token(token_id)) for token_id in row.tolist())
        tokens = " ".join(hf_encoding.tokens)
        message = f"its rows are {tokens}, and here they are {expected}: it would answer otherwise"
        raise InputError(message, file=file, hint=WITHOUT_HEAD_HINT)


def exported_task(run: ExportableRun) -> tuple[TaskExport | None, list[str]]:
    """The task of a run and notes on its export; raises InputError for a task that transformers cannot express."""
    from forebear.interop.huggingface import TaskExport

    if run.task is None:
        return None, []
    adaptation, path = run.folder.adaptation, run.folder.path
    if adaptation.how == "features":
        message = "its head reads a mixture of all layers, which no class of transformers does"
        raise InputError(message, file=path, hint="adapt with --how finetune or --how freeze to write it so")
    input_format, task = run.folder.spec.input_format(run.tokenizer), run.task.to_dict()
    if adaptation.read not in (None, input_format.pooling) and run.task.name not in ("tagging", "answering"):
        pooling_names = {"first": "the first token", "last": "the last token", "mean": "the mean"}
        actual, expected = pooling_names[adaptation.read], pooling_names[input_format.pooling]
        message = f"its head reads {actual} of a row, and the classes of transformers {expected}"
        raise InputError(message, file=path, hint="adapt without --read to write it so")
    if run.task.crf:
        message = "its tags are judged together by a CRF, which no class of transformers does"
        raise InputError(message, file=path, hint="adapt without --crf to write it so")
    return TaskExport(task, adaptation.dropout, adaptation.language), _export_notes(run, task, input_format)


def _export_notes(run: ExportableRun, task: Mapping[str, Any], input_format: InputFormat) -> list[str]:
    """Notes on settings that the exported files cannot express."""
    notes, context = [], run.metadata["fields"]["context"]
    name, is_causal = task["name"], input_format.both_orders
    window_note = f"here a text of more than {context} tokens is read in windows"
    if name == "classification" and task["windows"] > 1:
        notes.append(f"{window_note} and their vectors averaged; there it has to be cut (truncation=True)")
    if name == "tagging":
        has_space_tokens = run.tokenizer.kind == "bytepair"  # tokens include the space before a word
        tokenization_note = "one by one (is_split_into_words=True)"
        tokenization_note += ", each with the space before it" if has_space_tokens else ""
        notes.append(f"words are cut {tokenization_note}; a word's tag is its first token's")
        notes.append("here the likeliest tags that IOBES allows are told; there each token has its own")
    if name in ("tagging", "answering"):
        notes.append(f"{window_note}; there it has to be cut into windows (stride=)")
    if name == "answering" and task["unanswered"]:
        condition = f"likelier by {task['threshold']:.4g} nats than the best answer"
        notes.append(f"no answer is told where the first token is {condition}")
    if name == "pairs" and is_causal and not task["ordered"]:
        notes.append("here two texts are asked about in both orders; the mean of both logits there is the same")
    if name in POOLED_TASKS and is_causal and "padding" not in run.tokenizer.special_roles:
        notes.append("its vocabulary has no token for padding: ask for one row at a time, and never pad with its end")
    if name == "choice" and is_causal:
        remark = "say where that is (mc_token_ids) where rows are padded"
        notes.append(f"the score is read at the last token of a row: {remark}")
    return notes
