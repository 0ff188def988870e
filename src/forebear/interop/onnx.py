"""A run as an ONNX file: padded batches in, states and logits out; compared with the run before it has its name."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from forebear.data.io.atomic import write_json
from forebear.errors import ForebearError, InputError
from forebear.nn.encoder import ScalarMix, States
from forebear.nn.heads import ChoiceHead, LabelHead, LMHead, PointerHead, PooledHead, PoolerHead, TagHead
from forebear.nn.model import Model
from forebear.nn.transformer import Transformer, TransformerBlock

if TYPE_CHECKING:
    from forebear.inference.run import Run
    from forebear.nn.crf import CRFLayer

NEEDED = ("onnx", "onnxscript", "onnxruntime")
LARGEST = 2_000_000_000  # bytes of one ONNX file
CLOSE = 1e-3  # the largest difference that is let through, relative to the largest number
SHAPES = ((1, 1), (1, 7), (3, 5), (2, 16))  # rows and length of the batches by which it is checked
OPSET = 18


def export_onnx(run: Run, target: Path) -> float:
    """Writes FILE.onnx, and beside it FILE.json (how it is used) and FILE.tokenizer.json; the largest difference."""
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        what = f"ONNX files need {', '.join(missing)}, which is not installed"
        raise ForebearError(what, hint="pip install 'forebear[onnx]'")
    if target.suffix != ".onnx":
        raise InputError("an ONNX file's name ends in .onnx", file=target, hint="choose another name with --to")
    network = run.network
    size = sum(value.numel() * value.element_size() for value in network.parameters())
    if size > LARGEST:
        what = f"weights of {size / 1e9:.1f} GB do not fit into one ONNX file, which holds 2 GB"
        raise InputError(what, hint="export a smaller run, or --format huggingface")
    beside = [target.with_suffix(suffix) for suffix in (".json", ".tokenizer.json")]
    for path in beside:
        if path.exists():
            raise InputError("exists already", file=path, hint="choose another name with --to")

    padded = PaddedModel(network).eval()
    aside = target.with_name(f".{target.name}.tmp")
    try:
        _write(padded, aside, _facts_inside(run))
        apart = _difference(run, padded, aside)
        run.tokenizer.save(beside[1])
        write_json(beside[0], _described(run, padded, target, apart))
        aside.rename(target)
    except BaseException:
        for path in (aside, *beside):
            path.unlink(missing_ok=True)
        raise
    return apart


def _crf(model: Model) -> CRFLayer | None:
    """What weighs the tags of a text together, where they are."""
    from forebear.nn.heads import TagHead

    head = dict(model.heads.items()).get("tag")
    return head.crf if isinstance(head, TagHead) else None


def onnx_notes(run: Run) -> list[str]:
    """What the file cannot do for those who use it."""
    made = []
    if run.tokenizer.segmenter is not None:
        made.append(
            "its tokenizer cuts Chinese into words first, which others cannot do: take ids from forebear tokenize"
        )
    if run.task is not None and run.task.name == "pairs" and run.folder.spec.input_format(run.tokenizer).both_orders:
        made.append(
            "it looks back only: forebear shows two texts in both orders and averages the vectors that are read"
        )
    if _crf(run.model) is not None:
        made.append("which tag may follow which is not in the file: its numbers stand under crf in the .json beside it")
    return made


def _write(padded: PaddedModel, file: Path, facts: dict[str, str]) -> None:
    import onnx  # pyright: ignore[reportMissingImports]
    import torch

    example = _batch(padded, 2, 8, np.random.default_rng(0))
    rows = torch.export.Dim("rows", min=1, max=1 << 20)
    length = torch.export.Dim("length", min=1, max=padded.encoder.context)
    given = tuple(torch.from_numpy(example[name]) for name in padded.inputs)
    with _silenced(), torch.inference_mode():
        program = torch.onnx.export(
            padded,
            given,
            dynamo=True,
            input_names=padded.inputs,
            output_names=padded.outputs,
            dynamic_shapes=tuple({0: rows, 1: length} for _ in given),
            opset_version=OPSET,
        )
    assert program is not None
    model = program.model_proto
    onnx.helper.set_model_props(model, facts)
    onnx.checker.check_model(model)
    onnx.save(model, str(file))


@contextlib.contextmanager
def _silenced() -> Iterator[None]:
    """The exporter tells of every step, and warns of what does not concern those who export."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def _batch(padded: PaddedModel, rows: int, length: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Random rows, of which the first fills the length and the others end somewhere."""
    length = min(length, padded.encoder.context)
    embedding = padded.encoder.embedding
    ends = np.array([length, *rng.integers(1, length + 1, rows - 1)])
    segments = 1 if embedding.segment is None else embedding.segment.num_embeddings
    made = {
        "input_ids": rng.integers(0, embedding.vocabulary, (rows, length)),
        "attention_mask": (np.arange(length) < ends[:, None]).astype(np.int64),
        "token_type_ids": np.sort(rng.integers(0, segments, (rows, length)), axis=1),
    }
    return {name: made[name] for name in padded.inputs}


def _difference(run: Run, padded: PaddedModel, file: Path) -> float:
    """The largest difference of the file's answers, by ONNX Runtime, to the run's own, where there is text."""
    import onnxruntime  # pyright: ignore[reportMissingImports]

    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    rng, apart = np.random.default_rng(1), 0.0
    for rows, length in (*SHAPES, (2, padded.encoder.context)):
        batch = _batch(padded, rows, length, rng)
        answers = zip(padded.outputs, map(np.asarray, session.run(padded.outputs, batch)), strict=True)
        for (name, other), own in zip(answers, _own(run, padded, batch), strict=True):
            apart = max(apart, _apart(name, own, other, batch["attention_mask"].astype(bool)))
    return apart


def _apart(name: str, own: np.ndarray, other: np.ndarray, inside: np.ndarray) -> float:
    """How far the file's answer is from the run's, which has no padding; too far is an error."""
    other = other[inside] if other.ndim == own.ndim + 1 else other  # one for each token, else one for each row
    hint = "this is a defect of forebear or of a library beneath it: please report it"
    if own.shape != other.shape or not np.isfinite(other).all():
        raise ForebearError(f"the ONNX file's {name} is no answer of this run", hint=hint)
    gap = float(np.abs(own - other).max())
    if gap > CLOSE * max(1.0, float(np.abs(own).max())):
        raise ForebearError(f"the ONNX file's {name} differs by {gap:.2g} from the run's", hint=hint)
    return gap


def _own(run: Run, padded: PaddedModel, batch: dict[str, np.ndarray]) -> list[np.ndarray]:
    """What the run itself says of these rows, in the order of the file's outputs: rows without padding."""
    import torch

    inside = batch["attention_mask"].astype(bool)
    inputs = {"tokens": batch["input_ids"][inside], "lengths": inside.sum(1)}
    if "token_type_ids" in batch:
        inputs["segments"] = batch["token_type_ids"][inside]
    network = run.network.eval()
    with torch.inference_mode():
        states = network.encoder(**{name: torch.from_numpy(array) for name, array in inputs.items()})
        answers = [head(states) for head in network.heads.values()]
    return [value.numpy() for value in (states.last, *answers)]


def _facts_inside(run: Run) -> dict[str, str]:
    """What the file says of itself."""
    return {
        "producer": "forebear",
        "run": run.name,
        "milestone": run.metadata["milestone"],
        "heads": ",".join(run.heads),
    }


def _described(run: Run, padded: PaddedModel, target: Path, apart: float) -> dict[str, Any]:
    """How the file is used, for people and programs."""
    tokenizer = run.tokenizer
    roles = {
        role: {"id": number, "token": tokenizer.id_to_token(number)} for role, number in tokenizer.special_roles.items()
    }
    told: dict[str, Any] = {
        "model": target.name,
        "tokenizer": target.with_suffix(".tokenizer.json").name,
        "milestone": run.metadata["milestone"],
        "inputs": {name: _INPUTS[name] for name in padded.inputs},
        "outputs": _outputs(padded),
        "longest": padded.encoder.context,
        "special_tokens": roles,
        "row": _row_of(run),
        "largest_difference": apart,
    }
    if run.task is not None:
        told["task"] = run.task.to_dict()
    crf = _crf(run.model)
    if crf is not None:
        parts = {"transition": crf.transition_bias, "start": crf.start_bias, "end": crf.end_bias}
        told["crf"] = {name: value.detach().tolist() for name, value in parts.items()}
    return told


_INPUTS = {
    "input_ids": "int64 (rows, length): the tokenizer's ids between the special tokens, padded behind with any id",
    "attention_mask": "int64 (rows, length): 1 where there is text, 0 where there is padding",
    "token_type_ids": "int64 (rows, length): 0 for the first text of a row, 1 for the second",
}
_OF_TOKENS = ("token", "next", "tag", "start", "end")


def _outputs(padded: PaddedModel) -> dict[str, str]:
    told = {padded.outputs[0]: "float32 (rows, length, width): the last layer; where there is padding it means nothing"}
    for name, head in zip(padded.outputs[1:], padded.model.heads, strict=True):
        shape = "(rows, length, …)" if head in _OF_TOKENS else "(rows, …)"
        told[name] = f"float32 {shape}: the logits of the head '{head}'"
    return told


def _row_of(run: Run) -> str:
    """How a text becomes a row."""
    layout = run.folder.spec.input_format(run.tokenizer)
    names = [
        [run.tokenizer.id_to_token(number) for number in part] for part in (layout.before, layout.between, layout.after)
    ]
    before, between, behind = (" ".join(part) for part in names)
    return f"{before} TEXT {behind}; of two texts {before} TEXT {between} TEXT {behind}".replace("  ", " ").strip()


# A model over padded batches, as other programs want it: the same weights, rows of one length, a mask; for export.
#
# Only its shape differs from the model's own way (ragged rows, nothing padded); a test and every export compare the two.


STATES = "last_hidden_state"


class PaddedModel(nn.Module):
    """(B, n) ids, a mask that is 1 where there is text and 0 behind it, segments → the states, each head's logits."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        if not isinstance(model.encoder, Transformer):
            raise InputError("only a Transformer can be given padded rows", hint="export another run")
        self.model = model
        self.encoder: Transformer = model.encoder
        self.inputs = ["input_ids", "attention_mask"]
        self.inputs += ["token_type_ids"] if self.encoder.embedding.segment is not None else []
        heads = list(model.heads)
        self.outputs = [STATES, *(["logits"] if len(heads) == 1 else [f"{name}_logits" for name in heads])]

    def forward(self, ids: Tensor, mask: Tensor, segments: Tensor | None = None) -> tuple[Tensor, ...]:
        layers = self.layers(ids, mask.bool(), segments)
        return (layers[-1], *(of_head(head, layers, mask.bool()) for head in self.model.heads.values()))

    def layers(self, ids: Tensor, mask: Tensor, segments: Tensor | None) -> list[Tensor]:
        """(B, n, D) of each layer, the embedding first; what stands where the mask is 0 means nothing."""
        encoder, embedding = self.encoder, self.encoder.embedding
        length = ids.shape[1]
        x = functional.embedding(ids, embedding.token.weight)
        if embedding.placing != "none":
            x = x + embedding.position.weight[:length]
        if embedding.segment is not None and segments is not None:
            x = x + functional.embedding(segments, embedding.segment.weight)
        x = x if embedding.norm is None else embedding.norm(x)
        seen = mask[:, None, None, :]
        if encoder.sees == "past":
            places = torch.arange(length, device=ids.device)
            seen = seen & (places[None, :] <= places[:, None])
        found = [x if encoder.project is None else encoder.project(x)]
        for number in range(encoder.depth):
            block = encoder.blocks[number % len(encoder.blocks)]
            assert isinstance(block, TransformerBlock)
            found.append(_through(block, found[-1], seen))
        if encoder.final_norm is not None:
            found[-1] = encoder.final_norm(found[-1])
        return found


def _through(block: TransformerBlock, x: Tensor, seen: Tensor) -> Tensor:
    """One block, as `Block.forward` for rows that are not padded."""
    if block.norm_place == "pre":
        x = x + _attended(block, block.attention_norm(x), seen)
        return x + block.feedforward(block.feedforward_norm(x))
    x = block.attention_norm(x + _attended(block, x, seen))
    return block.feedforward_norm(x + block.feedforward(x))


def _attended(block: TransformerBlock, x: Tensor, seen: Tensor) -> Tensor:
    attention = block.attention
    rows, length, width = x.shape
    parts = attention.query_key_value(x).view(rows, length, 3, attention.heads, width // attention.heads)
    query, key, value = parts.permute(2, 0, 3, 1, 4).unbind(0)
    mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=seen)
    return attention.output(mixed.transpose(1, 2).reshape(rows, length, width))


def of_head(head: nn.Module, layers: list[Tensor], mask: Tensor) -> Tensor:
    """The logits of one head: (B, n, …) of one that answers tokens, (B, …) of one that answers rows."""
    if isinstance(head, LMHead):
        return head(States(layers, ()))
    if isinstance(head, PoolerHead):
        return head.choose(torch.tanh(head.pool(layers[-1][:, 0])))
    if not isinstance(head, LabelHead | ChoiceHead | TagHead | PointerHead):
        raise InputError(f"a head of the kind {type(head).__name__} cannot be exported", hint="export another run")
    x = layers[-1] if head.mixture is None else _mixed(head.mixture, layers)
    if isinstance(head, PooledHead):
        logits = head.logits(_row(x, mask, head.read))
        return logits.squeeze(1) if isinstance(head, ChoiceHead) else logits
    return head.choose(x) if isinstance(head, TagHead) else head.choose(x).squeeze(2)


def _row(x: Tensor, mask: Tensor, read: str) -> Tensor:
    """(B, n, D) → (B, D): the first vector, the last one of text, the mean, or of each number the largest."""
    if read == "first":
        return x[:, 0]
    inside = mask[:, :, None].to(x.dtype)
    if read == "max":
        return x.masked_fill(~mask[:, :, None], float("-inf")).amax(1)
    if read == "mean":
        return (x * inside).sum(1) / inside.sum(1)
    after = functional.pad(mask[:, 1:], (0, 1))  # a token is the last if none follows it
    return (x * (mask & ~after)[:, :, None].to(x.dtype)).sum(1)


def _mixed(mixture: ScalarMix, layers: list[Tensor]) -> Tensor:
    weights = mixture.weights
    return (1 + mixture.gain_bias) * sum(weights[number] * layer for number, layer in enumerate(layers))
