"""ONNX export: a model from padded batches to hidden states and logits, verified against the run."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from forebear.data.io.atomic import write_json
from forebear.errors import ForebearError, InputError
from forebear.nn.encoder import States
from forebear.nn.heads import ChoiceHead, LabelHead, LMHead, PointerHead, PooledHead, PoolerHead, TagHead
from forebear.nn.inference_mode import inference_mode
from forebear.nn.model import Model
from forebear.nn.transformer import Transformer, TransformerBlock

if TYPE_CHECKING:
    from forebear.interop.exportable import ExportableRun
    from forebear.nn.crf import CRFLayer

REQUIRED_PACKAGES = ("onnx", "onnxscript", "onnxruntime")
MAX_MODEL_BYTES = 2_000_000_000  # of one ONNX file
MAX_RELATIVE_DIFFERENCE = 1e-3  # tolerance of the verification, relative to the largest output
CHECKED_SHAPES = ((1, 1), (1, 7), (3, 5), (2, 16))  # sequences and length of the verification batches
OPSET = 18


def export_onnx(run: ExportableRun, target: Path) -> list[str]:
    """Write FILE.onnx, FILE.json (usage) and FILE.tokenizer.json; returns notes on the limitations of the ONNX file."""
    if missing := [name for name in REQUIRED_PACKAGES if find_spec(name) is None]:
        message = f"ONNX files need {', '.join(missing)}, which is not installed"
        raise ForebearError(message, hint="pip install 'forebear[onnx]'")
    if target.suffix != ".onnx":
        raise InputError("an ONNX file's name ends in .onnx", file=target, hint="choose another name with --to")
    network = run.network
    size = sum(value.numel() * value.element_size() for value in network.parameters())
    if size > MAX_MODEL_BYTES:
        message = f"weights of {size / 1e9:.1f} GB do not fit into one ONNX file, which holds 2 GB"
        raise InputError(message, hint="export a smaller run, or --format huggingface")
    companion_files = [target.with_suffix(suffix) for suffix in (".json", ".tokenizer.json")]
    for path in companion_files:
        if path.exists():
            raise InputError("exists already", file=path, hint="choose another name with --to")

    model = PaddedModel(network).eval()
    temp_file = target.with_name(f".{target.name}.tmp")
    try:
        milestone = run.metadata["milestone"]
        properties = {"producer": "forebear", "run": run.name, "milestone": milestone, "heads": ",".join(run.heads)}
        _write_model(model, temp_file, properties)
        max_difference = _max_difference(run, model, temp_file)
        run.tokenizer.save(companion_files[1])
        write_json(companion_files[0], _usage_metadata(run, model, target, max_difference))
        temp_file.rename(target)
    except BaseException:
        for path in (temp_file, *companion_files):
            path.unlink(missing_ok=True)
        raise
    difference = f"{max_difference:.1e} at most from the run's, for batches of five shapes"
    return [*_export_notes(run), f"ONNX Runtime's answers differ by {difference}"]


def _tag_crf(model: Model) -> CRFLayer | None:
    """The CRF layer of a tagging head, if it has one."""
    head = dict(model.heads.items()).get("tag")
    return head.crf if isinstance(head, TagHead) else None


def _export_notes(run: ExportableRun) -> list[str]:
    """Notes on the limitations of the ONNX file."""
    notes = []
    if run.tokenizer.segmenter is not None:
        limitation = "its tokenizer cuts Chinese into words first, which others cannot do"
        notes.append(f"{limitation}: take ids from forebear tokenize")
    if run.task is not None and run.task.name == "pairs" and run.folder.spec.input_format(run.tokenizer).both_orders:
        remark = "forebear shows two texts in both orders and averages the vectors that are read"
        notes.append(f"it looks back only: {remark}")
    if _tag_crf(run.model) is not None:
        remark = "its numbers stand under crf in the .json beside it"
        notes.append(f"which tag may follow which is not in the file: {remark}")
    return notes


def _write_model(padded: PaddedModel, file: Path, properties: dict[str, str]) -> None:
    import onnx  # pyright: ignore[reportMissingImports]

    example = _random_batch(padded, 2, 8, np.random.default_rng(0))
    rows = torch.export.Dim("rows", min=1, max=1 << 20)
    length = torch.export.Dim("length", min=1, max=padded.encoder.max_length)
    inputs = tuple(torch.from_numpy(example[name]) for name in padded.inputs)
    previous_level = logging.root.manager.disable
    logging.disable(logging.WARNING)  # the exporter's progress messages and internal warnings
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), inference_mode():
            warnings.simplefilter("ignore")
            program = torch.onnx.export(
                padded,
                inputs,
                dynamo=True,
                input_names=padded.inputs,
                output_names=padded.outputs,
                dynamic_shapes=tuple({0: rows, 1: length} for _ in inputs),
                opset_version=OPSET,
            )
    finally:
        logging.disable(previous_level)
    assert program is not None
    proto = program.model_proto
    onnx.helper.set_model_props(proto, properties)
    onnx.checker.check_model(proto)
    onnx.save(proto, str(file))


def _random_batch(padded: PaddedModel, num_rows: int, length: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Random sequences: the first has the full length, the others are padded."""
    length = min(length, padded.encoder.max_length)
    embedding = padded.encoder.embedding
    lengths = np.array([length, *rng.integers(1, length + 1, num_rows - 1)])
    num_segments = 1 if embedding.segment is None else embedding.segment.num_embeddings
    arrays = {
        "input_ids": rng.integers(0, embedding.vocab_size, (num_rows, length)),
        "attention_mask": (np.arange(length) < lengths[:, None]).astype(np.int64),
        "token_type_ids": np.sort(rng.integers(0, num_segments, (num_rows, length)), axis=1),
    }
    return {name: arrays[name] for name in padded.inputs}


def _max_difference(run: ExportableRun, padded: PaddedModel, file: Path) -> float:
    """The largest difference between ONNX Runtime's outputs and the run's, padding excluded."""
    import onnxruntime  # pyright: ignore[reportMissingImports]

    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    rng, max_difference = np.random.default_rng(1), 0.0
    for num_rows, length in (*CHECKED_SHAPES, (2, padded.encoder.max_length)):
        batch = _random_batch(padded, num_rows, length, rng)
        mask = batch["attention_mask"].astype(bool)
        onnx_outputs = map(np.asarray, session.run(padded.outputs, batch))
        run_outputs = _run_outputs(run, batch, mask)
        for name, run_output, onnx_output in zip(padded.outputs, run_outputs, onnx_outputs, strict=True):
            max_difference = max(max_difference, _output_difference(name, run_output, onnx_output, mask))
    return max_difference


def _output_difference(name: str, run_output: np.ndarray, onnx_output: np.ndarray, mask: np.ndarray) -> float:
    """The largest difference of one output; raises ForebearError beyond the tolerance."""
    if onnx_output.ndim == run_output.ndim + 1:  # per token; else per sequence
        onnx_output = onnx_output[mask]
    hint = "this is a defect of forebear or of a library beneath it: please report it"
    if run_output.shape != onnx_output.shape or not np.isfinite(onnx_output).all():
        raise ForebearError(f"the ONNX file's {name} is no answer of this run", hint=hint)
    difference = float(np.abs(run_output - onnx_output).max())
    if difference > MAX_RELATIVE_DIFFERENCE * max(1.0, float(np.abs(run_output).max())):
        raise ForebearError(f"the ONNX file's {name} differs by {difference:.2g} from the run's", hint=hint)
    return difference


def _run_outputs(run: ExportableRun, batch: dict[str, np.ndarray], mask: np.ndarray) -> list[np.ndarray]:
    """The run's own outputs for a batch, computed without padding, in the order of the file's outputs."""
    inputs = {"tokens": batch["input_ids"][mask], "lengths": mask.sum(1)}
    if "token_type_ids" in batch:
        inputs["segments"] = batch["token_type_ids"][mask]
    network = run.network.eval()
    with inference_mode():
        states = network.encoder(**{name: torch.from_numpy(array) for name, array in inputs.items()})
        logits = [head(states) for head in network.heads.values()]
    return [value.numpy() for value in (states.last, *logits)]


def _usage_metadata(run: ExportableRun, padded: PaddedModel, target: Path, max_difference: float) -> dict[str, Any]:
    """The content of FILE.json: how the model is used."""
    tokenizer, input_format = run.tokenizer, run.folder.spec.input_format(run.tokenizer)
    roles = tokenizer.special_roles.items()
    outputs = {STATES_OUTPUT: "float32 (rows, length, width): the last layer; where there is padding it means nothing"}
    for name, head_name in zip(padded.outputs[1:], padded.model.heads, strict=True):
        shape = "(rows, length, …)" if head_name in TOKEN_HEADS else "(rows, …)"
        outputs[name] = f"float32 {shape}: the logits of the head '{head_name}'"
    prefix, separator, suffix = (
        " ".join(map(tokenizer.id_to_token, tokens))
        for tokens in (input_format.before, input_format.between, input_format.after)
    )
    row_format = f"{prefix} TEXT {suffix}; of two texts {prefix} TEXT {separator} TEXT {suffix}"
    usage: dict[str, Any] = {
        "model": target.name,
        "tokenizer": target.with_suffix(".tokenizer.json").name,
        "milestone": run.metadata["milestone"],
        "inputs": {name: INPUT_DESCRIPTIONS[name] for name in padded.inputs},
        "outputs": outputs,
        "longest": padded.encoder.max_length,
        "special_tokens": {role: {"id": index, "token": tokenizer.id_to_token(index)} for role, index in roles},
        "row": row_format.replace("  ", " ").strip(),
        "largest_difference": max_difference,
    }
    if run.task is not None:
        usage["task"] = run.task.to_dict()
    crf = _tag_crf(run.model)
    if crf is not None:
        parameters = {"transition": crf.transition_bias, "start": crf.start_bias, "end": crf.end_bias}
        usage["crf"] = {name: value.detach().tolist() for name, value in parameters.items()}
    return usage


INPUT_DESCRIPTIONS = {
    "input_ids": "int64 (rows, length): the tokenizer's ids between the special tokens, padded behind with any id",
    "attention_mask": "int64 (rows, length): 1 where there is text, 0 where there is padding",
    "token_type_ids": "int64 (rows, length): 0 for the first text of a row, 1 for the second",
}
TOKEN_HEADS = ("token", "next", "tag", "start", "end")


# --- The model over padded batches ---
#
# The network itself takes packed batches without padding; a test and every export compare the two.

STATES_OUTPUT = "last_hidden_state"


class PaddedModel(nn.Module):
    """(B, n) token ids, mask (1 text, 0 padding) and segment ids → last hidden state and logits of each head."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        if not isinstance(model.encoder, Transformer):
            raise InputError("only a Transformer can be given padded rows", hint="export another run")
        self.model = model
        self.encoder: Transformer = model.encoder
        self.inputs = ["input_ids", "attention_mask"]
        self.inputs += ["token_type_ids"] if self.encoder.embedding.segment is not None else []
        heads = list(model.heads)
        self.outputs = [STATES_OUTPUT, *(["logits"] if len(heads) == 1 else [f"{name}_logits" for name in heads])]

    def forward(self, ids: Tensor, mask: Tensor, segments: Tensor | None = None) -> tuple[Tensor, ...]:
        layers = self.layer_states(ids, mask.bool(), segments)
        return (layers[-1], *(head_logits(head, layers, mask.bool()) for head in self.model.heads.values()))

    def layer_states(self, ids: Tensor, mask: Tensor, segments: Tensor | None) -> list[Tensor]:
        """(B, n, D) of each layer, the embedding first; values at padding are meaningless."""
        encoder, embedding = self.encoder, self.encoder.embedding
        length = ids.shape[1]
        x = functional.embedding(ids, embedding.token.weight)
        if embedding.placing != "none":
            x = x + embedding.position.weight[:length]
        if embedding.segment is not None and segments is not None:
            x = x + functional.embedding(segments, embedding.segment.weight)
        x = x if embedding.norm is None else embedding.norm(x)
        attention_mask = mask[:, None, None, :]
        if encoder.sees == "past":
            positions = torch.arange(length, device=ids.device)
            attention_mask = attention_mask & (positions[None, :] <= positions[:, None])
        states = [x if encoder.project is None else encoder.project(x)]
        for index in range(encoder.depth):
            block = encoder.blocks[index % len(encoder.blocks)]
            assert isinstance(block, TransformerBlock)
            states.append(_apply_block(block, states[-1], attention_mask))
        if encoder.final_norm is not None:
            states[-1] = encoder.final_norm(states[-1])
        return states


def _apply_block(block: TransformerBlock, x: Tensor, attention_mask: Tensor) -> Tensor:
    """One block, equivalent to `TransformerBlock.forward` on packed batches."""
    if block.norm_position == "pre":
        x = x + _attend(block, block.attention_norm(x), attention_mask)
        return x + block.feedforward(block.feedforward_norm(x))
    x = block.attention_norm(x + _attend(block, x, attention_mask))
    return block.feedforward_norm(x + block.feedforward(x))


def _attend(block: TransformerBlock, x: Tensor, attention_mask: Tensor) -> Tensor:
    attention = block.attention
    num_rows, length, width = x.shape
    projected = attention.query_key_value(x).view(num_rows, length, 3, attention.heads, width // attention.heads)
    query, key, value = projected.permute(2, 0, 3, 1, 4).unbind(0)
    context = functional.scaled_dot_product_attention(query, key, value, attn_mask=attention_mask)
    return attention.output(context.transpose(1, 2).reshape(num_rows, length, width))


def head_logits(head: nn.Module, layers: list[Tensor], mask: Tensor) -> Tensor:
    """The logits of one head: (B, n, …) per token or (B, …) per sequence."""
    if isinstance(head, LMHead):
        return head(States(layers, ()))
    if isinstance(head, PoolerHead):
        return head.choose(torch.tanh(head.pool(layers[-1][:, 0])))
    if not isinstance(head, LabelHead | ChoiceHead | TagHead | PointerHead):
        raise InputError(f"a head of the kind {type(head).__name__} cannot be exported", hint="export another run")
    x = layers[-1]
    if head.mixture is not None:
        weights = head.mixture.weights
        x = (1 + head.mixture.gain_bias) * sum(weights[index] * layer for index, layer in enumerate(layers))
    if isinstance(head, PooledHead):
        logits = head.logits(_pool(x, mask, head.pooling))
        return logits.squeeze(1) if isinstance(head, ChoiceHead) else logits
    return head.choose(x) if isinstance(head, TagHead) else head.choose(x).squeeze(2)


def _pool(x: Tensor, mask: Tensor, pooling: str) -> Tensor:
    """(B, n, D) → (B, D) by "first", "last", "mean" or "max" pooling."""
    if pooling == "first":
        return x[:, 0]
    weights = mask[:, :, None].to(x.dtype)
    if pooling == "max":
        return x.masked_fill(~mask[:, :, None], float("-inf")).amax(1)
    if pooling == "mean":
        return (x * weights).sum(1) / weights.sum(1)
    has_next = functional.pad(mask[:, 1:], (0, 1))  # a token is the last if none follows it
    return (x * (mask & ~has_next)[:, :, None].to(x.dtype)).sum(1)
