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

from forebear.errors import BadInput, ForebearError
from forebear.text.aside import write_json

if TYPE_CHECKING:
    from forebear.networks.crf import Crf
    from forebear.networks.model import Model
    from forebear.networks.padded import Padded
    from forebear.using.run import Run

NEEDED = ("onnx", "onnxscript", "onnxruntime")
LARGEST = 2_000_000_000  # bytes of one ONNX file
CLOSE = 1e-3  # the largest difference that is let through, relative to the largest number
SHAPES = ((1, 1), (1, 7), (3, 5), (2, 16))  # rows and length of the batches by which it is checked
OPSET = 18


def to_onnx(run: Run, target: Path) -> float:
    """Writes FILE.onnx, and beside it FILE.json (how it is used) and FILE.tokenizer.json; the largest difference."""
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        what = f"ONNX files need {', '.join(missing)}, which is not installed"
        raise ForebearError(what, remedy="pip install 'forebear[onnx]'")
    if target.suffix != ".onnx":
        raise BadInput("an ONNX file's name ends in .onnx", file=target, remedy="choose another name with --to")
    network = run.network
    size = sum(value.numel() * value.element_size() for value in network.parameters())
    if size > LARGEST:
        what = f"weights of {size / 1e9:.1f} GB do not fit into one ONNX file, which holds 2 GB"
        raise BadInput(what, remedy="export a smaller run, or --format huggingface")
    beside = [target.with_suffix(suffix) for suffix in (".json", ".tokenizer.json")]
    for path in beside:
        if path.exists():
            raise BadInput("exists already", file=path, remedy="choose another name with --to")
    from forebear.networks.padded import Padded

    padded = Padded(network).eval()
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


def _crf(model: Model) -> Crf | None:
    """What weighs the tags of a text together, where they are."""
    from forebear.networks.answers import TagHead

    head = dict(model.heads.items()).get("tag")
    return head.crf if isinstance(head, TagHead) else None


def remarks(run: Run) -> list[str]:
    """What the file cannot do for those who use it."""
    made = []
    if run.tokenizer.segmenter is not None:
        made.append(
            "its tokenizer cuts Chinese into words first, which others cannot do: take ids from forebear tokenize"
        )
    if run.task is not None and run.task.name == "pairs" and run.folder.milestone.layout(run.tokenizer).both_orders:
        made.append(
            "it looks back only: forebear shows two texts in both orders and averages the vectors that are read"
        )
    if _crf(run.model) is not None:
        made.append("which tag may follow which is not in the file: its numbers stand under crf in the .json beside it")
    return made


def _write(padded: Padded, file: Path, facts: dict[str, str]) -> None:
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


def _batch(padded: Padded, rows: int, length: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
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


def _difference(run: Run, padded: Padded, file: Path) -> float:
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
    remedy = "this is a defect of forebear or of a library beneath it: please report it"
    if own.shape != other.shape or not np.isfinite(other).all():
        raise ForebearError(f"the ONNX file's {name} is no answer of this run", remedy=remedy)
    gap = float(np.abs(own - other).max())
    if gap > CLOSE * max(1.0, float(np.abs(own).max())):
        raise ForebearError(f"the ONNX file's {name} differs by {gap:.2g} from the run's", remedy=remedy)
    return gap


def _own(run: Run, padded: Padded, batch: dict[str, np.ndarray]) -> list[np.ndarray]:
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
    return {"producer": "forebear", "run": run.name, "milestone": run.facts["milestone"], "heads": ",".join(run.heads)}


def _described(run: Run, padded: Padded, target: Path, apart: float) -> dict[str, Any]:
    """How the file is used, for people and programs."""
    tokenizer = run.tokenizer
    roles = {role: {"id": number, "token": tokenizer.token(number)} for role, number in tokenizer.roles.items()}
    told: dict[str, Any] = {
        "model": target.name,
        "tokenizer": target.with_suffix(".tokenizer.json").name,
        "milestone": run.facts["milestone"],
        "inputs": {name: _INPUTS[name] for name in padded.inputs},
        "outputs": _outputs(padded),
        "longest": padded.encoder.context,
        "special_tokens": roles,
        "row": _row_of(run),
        "largest_difference": apart,
    }
    if run.task is not None:
        told["task"] = run.task.to_json()
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


def _outputs(padded: Padded) -> dict[str, str]:
    told = {padded.outputs[0]: "float32 (rows, length, width): the last layer; where there is padding it means nothing"}
    for name, head in zip(padded.outputs[1:], padded.model.heads, strict=True):
        shape = "(rows, length, …)" if head in _OF_TOKENS else "(rows, …)"
        told[name] = f"float32 {shape}: the logits of the head '{head}'"
    return told


def _row_of(run: Run) -> str:
    """How a text becomes a row."""
    layout = run.folder.milestone.layout(run.tokenizer)
    names = [
        [run.tokenizer.token(number) for number in part] for part in (layout.before, layout.between, layout.behind)
    ]
    before, between, behind = (" ".join(part) for part in names)
    return f"{before} TEXT {behind}; of two texts {before} TEXT {between} TEXT {behind}".replace("  ", " ").strip()
