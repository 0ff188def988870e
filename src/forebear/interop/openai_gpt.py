"""Import of GPT as OpenAI published it in 2018: all parameters concatenated in params_0.npy, …, and a list of shapes.

A folder with these files, or a tar archive of one. Tensors have no names: their order identifies them.
"""

from __future__ import annotations

import io
import json
import math
import re
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import numpy as np

from forebear.errors import InputError, join_errors
from forebear.interop.huggingface import ForeignCheckpoint
from forebear.interop.tensor_names import GPT, to_our_names

if TYPE_CHECKING:
    from torch import Tensor

SHAPES = "params_shapes.json"
PARAMS = re.compile(r"params_(0|[1-9]\d{0,5})\.npy")
ARCHIVES = (".tar.gz", ".tgz", ".tar")
REFETCH_HINT = "fetch it again"
MAX_MEMBER_BYTES = 1 << 30  # of one file in an archive; the published ones have 46 million
HEAD_SIZE = 64  # of the published model; the files do not say
# In the order of the files: position and token embeddings, then these of each block.
TABLES = ("positions_embed.weight", "tokens_embed.weight")
BLOCK = tuple(
    f"{layer}.{part}"
    for layer in ("attn.c_attn", "attn.c_proj", "ln_1", "mlp.c_fc", "mlp.c_proj", "ln_2")
    for part in ("weight", "bias")
)
Files = dict[str, Callable[[], bytes]]  # file name → a function that reads its content


def is_openai_gpt(path: Path) -> bool:
    """Whether a path is such a folder or archive."""
    return (path / SHAPES).is_file() if path.is_dir() else path.name.endswith(ARCHIVES)


def read_openai_gpt(path: Path, heads: int | None = None) -> ForeignCheckpoint:
    """Read a folder or archive; `heads` is the number of attention heads, which the files do not say."""
    if path.is_dir():
        return _read_files(path, {item.name: item.read_bytes for item in path.iterdir() if item.is_file()}, heads)
    try:
        with tarfile.open(path) as archive:
            return _read_files(path, _archive_files(path, archive), heads)
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise InputError(f"not a whole archive ({error})", file=path, hint=REFETCH_HINT) from None


def _archive_files(path: Path, archive: tarfile.TarFile) -> Files:
    """The files in the archive by base name. Nothing is extracted; paths outside the archive are rejected."""
    files: Files = {}
    for member in archive.getmembers():
        name = PurePosixPath(member.name)
        if name.is_absolute() or ".." in name.parts:
            raise InputError(f"it has a file that leads outside: {member.name!r}", file=path, hint=REFETCH_HINT)
        if not member.isfile() or not (name.name == SHAPES or PARAMS.fullmatch(name.name)):
            continue
        if name.name in files or member.size > MAX_MEMBER_BYTES:
            message = f"{name.name} is there twice" if name.name in files else f"{name.name} has {member.size:,} bytes"
            raise InputError(message, file=path, hint=REFETCH_HINT)

        def content(member: tarfile.TarInfo = member) -> bytes:
            stream = archive.extractfile(member)
            return stream.read() if stream is not None else b""

        files[name.name] = content
    return files


def _read_files(path: Path, files: Files, num_heads: int | None) -> ForeignCheckpoint:
    shapes = _read_shapes(path, files)
    parameters = _read_parameters(path, files, sum(map(math.prod, shapes)))
    depth = (len(shapes) - len(TABLES)) // len(BLOCK)
    names = [*TABLES, *(f"h.{block}.{name}" for block in range(depth) for name in BLOCK)]
    tensors, offset = {}, 0
    for name, shape in zip(names, shapes, strict=True):
        tensors[name] = _to_tensor(parameters[offset : (offset := offset + math.prod(shape))], shape)
    ours, report = to_our_names(GPT.name_map, tensors, depth=depth, file=path)
    width, ffn_size = shapes[1][-1], tensors["h.0.mlp.c_fc.weight"].shape[-1]
    fields = {
        "width": width,
        "depth": depth,
        "heads": _num_heads(path, width, num_heads),
        "context": shapes[0][0],
        "inner": 0 if ffn_size == 4 * width else ffn_size,
        "dropout": 0.1,
        "epsilon": 1e-5,
    }
    return ForeignCheckpoint(GPT.model, fields, ours, GPT.implicit_heads, report)


def _read_shapes(path: Path, files: Files) -> list[list[int]]:
    if SHAPES not in files:
        hint = "give the folder or archive that OpenAI published in 2018"
        raise InputError(f"there is no {SHAPES}", file=path, hint=hint)
    try:
        shapes = json.loads(files[SHAPES]())
    except ValueError as error:
        raise InputError(f"{SHAPES} is not JSON: {error}", file=path, hint=REFETCH_HINT) from None
    is_valid = isinstance(shapes, list) and all(
        isinstance(shape, list) and 1 <= len(shape) <= 3 and all(type(n) is int and 0 < n < 1 << 31 for n in shape)
        for shape in shapes
    )
    if not is_valid:
        raise InputError(f"{SHAPES} is not a list of shapes", file=path, hint=REFETCH_HINT)
    blocks, remainder = divmod(len(shapes) - len(TABLES), len(BLOCK))
    if blocks < 1 or remainder:
        message = f"{len(shapes):,} tensors are not two tables and {len(BLOCK)} for each block"
        raise InputError(message, file=path, hint=REFETCH_HINT)
    return shapes


def _read_parameters(path: Path, files: Files, expected: int) -> np.ndarray:
    """All parameters concatenated; their number must be `expected`."""
    known = {int(match[1]): name for name in files if (match := PARAMS.fullmatch(name))}
    if missing := [f"params_{n}.npy" for n in range(max(known, default=0) + 1) if n not in known]:
        raise InputError(f"missing: {join_errors(missing)}", file=path, hint=REFETCH_HINT)
    arrays, size = [], 0
    for index in sorted(known):
        arrays.append(_read_array(path, known[index], files))
        size += len(arrays[-1])
        if size > expected:
            break
    if size != expected:
        message = (
            f"the shapes want {expected:,} numbers, and the files have {'more' if size > expected else f'{size:,}'}"
        )
        raise InputError(message, file=path, hint=REFETCH_HINT)
    return np.concatenate(arrays)


def _read_array(path: Path, name: str, files: Files) -> np.ndarray:
    try:
        array = np.load(io.BytesIO(files[name]()), allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise InputError(f"{name} is not a whole array of numbers ({error})", file=path, hint=REFETCH_HINT) from None
    if not isinstance(array, np.ndarray) or array.ndim != 1 or array.dtype.kind != "f":
        raise InputError(f"{name} is not a row of floating point numbers", file=path, hint=REFETCH_HINT)
    return array


def _to_tensor(values: np.ndarray, shape: list[int]) -> Tensor:
    """A tensor of the given shape; layer weights are stored as [1, in, out], a convolution over one token."""
    import torch

    array = values.reshape(shape[1:] if len(shape) == 3 and shape[0] == 1 else shape)
    return torch.from_numpy(np.ascontiguousarray(array, np.float32))


def _num_heads(path: Path, width: int, num_heads: int | None) -> int:
    if num_heads is None and width % HEAD_SIZE == 0:
        return width // HEAD_SIZE
    if num_heads is None:
        message = f"the files do not tell how many heads attention has, and {width} is no multiple of {HEAD_SIZE}"
        raise InputError(message, file=path, hint="give them with --heads")
    if num_heads < 1 or width % num_heads:
        raise InputError(
            f"a width of {width} cannot be shared by {num_heads} heads", file=path, hint="give another --heads"
        )
    return num_heads
