"""GPT as OpenAI published it in 2018: all numbers in a row in params_0.npy, params_1.npy, …, their shapes beside them.

A folder with these files, or an archive of one. Tensors have no names there: the order is what they are known by.
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

from forebear.errors import InputError, join_faults
from forebear.interop.huggingface import ForeignCheckpoint
from forebear.interop.tensor_names import GPT, to_our_names

if TYPE_CHECKING:
    from torch import Tensor

SHAPES = "params_shapes.json"
PARAMS = re.compile(r"params_(0|[1-9]\d{0,5})\.npy")
ARCHIVES = (".tar.gz", ".tgz", ".tar")
AGAIN = "fetch it again"
MOST = 1 << 30  # bytes of one file in an archive; the published ones have 46 million
WIDE = 64  # numbers in a head of the published model; the files do not tell
# In the order of the files: positions and tokens, then of each block these.
TABLES = ("positions_embed.weight", "tokens_embed.weight")
BLOCK = tuple(
    f"{layer}.{part}"
    for layer in ("attn.c_attn", "attn.c_proj", "ln_1", "mlp.c_fc", "mlp.c_proj", "ln_2")
    for part in ("weight", "bias")
)
Files = dict[str, Callable[[], bytes]]  # what each file of the model holds, by its name


def is_openai_gpt(path: Path) -> bool:
    """Whether this is such a folder, or an archive."""
    return (path / SHAPES).is_file() if path.is_dir() else path.name.endswith(ARCHIVES)


def read_openai_gpt(path: Path, heads: int | None = None) -> ForeignCheckpoint:
    """The model of a folder or archive; `heads` is how many its attention has, which the files do not tell."""
    if path.is_dir():
        return _read(path, {item.name: item.read_bytes for item in path.iterdir() if item.is_file()}, heads)
    try:
        with tarfile.open(path) as archive:
            return _read(path, _members(path, archive), heads)
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise InputError(f"not a whole archive ({error})", file=path, hint=AGAIN) from None


def _members(path: Path, archive: tarfile.TarFile) -> Files:
    """The files in the archive by their last name. Nothing is unpacked; a name that leads outside is refused."""
    found: Files = {}
    for member in archive.getmembers():
        name = PurePosixPath(member.name)
        if name.is_absolute() or ".." in name.parts:
            raise InputError(f"it has a file that leads outside: {member.name!r}", file=path, hint=AGAIN)
        if not member.isfile() or not (name.name == SHAPES or PARAMS.fullmatch(name.name)):
            continue
        if name.name in found or member.size > MOST:
            what = f"{name.name} is there twice" if name.name in found else f"{name.name} has {member.size:,} bytes"
            raise InputError(what, file=path, hint=AGAIN)

        def content(member: tarfile.TarInfo = member) -> bytes:
            opened = archive.extractfile(member)
            return opened.read() if opened is not None else b""

        found[name.name] = content
    return found


def _read(path: Path, files: Files, heads: int | None) -> ForeignCheckpoint:
    shapes = _shapes(path, files)
    numbers = _numbers(path, files, sum(map(math.prod, shapes)))
    depth = (len(shapes) - len(TABLES)) // len(BLOCK)
    names = [*TABLES, *(f"h.{number}.{name}" for number in range(depth) for name in BLOCK)]
    tensors, done = {}, 0
    for name, shape in zip(names, shapes, strict=True):
        tensors[name] = _tensor(numbers[done : (done := done + math.prod(shape))], shape)
    ours, report = to_our_names(GPT.name_map, tensors, depth=depth, file=path)
    width, inner = shapes[1][-1], tensors["h.0.mlp.c_fc.weight"].shape[-1]
    fields = {
        "width": width,
        "depth": depth,
        "heads": _heads(path, width, heads),
        "context": shapes[0][0],
        "inner": 0 if inner == 4 * width else inner,
        "dropout": 0.1,
        "epsilon": 1e-5,
    }
    return ForeignCheckpoint(GPT.model, fields, ours, GPT.implicit_heads, report)


def _shapes(path: Path, files: Files) -> list[list[int]]:
    if SHAPES not in files:
        hint = "give the folder or archive that OpenAI published in 2018"
        raise InputError(f"there is no {SHAPES}", file=path, hint=hint)
    try:
        told = json.loads(files[SHAPES]())
    except ValueError as error:
        raise InputError(f"{SHAPES} is not JSON: {error}", file=path, hint=AGAIN) from None
    right = isinstance(told, list) and all(
        isinstance(shape, list) and 1 <= len(shape) <= 3 and all(type(n) is int and 0 < n < 1 << 31 for n in shape)
        for shape in told
    )
    if not right:
        raise InputError(f"{SHAPES} is not a list of shapes", file=path, hint=AGAIN)
    blocks, rest = divmod(len(told) - len(TABLES), len(BLOCK))
    if blocks < 1 or rest:
        what = f"{len(told):,} tensors are not two tables and {len(BLOCK)} for each block"
        raise InputError(what, file=path, hint=AGAIN)
    return told


def _numbers(path: Path, files: Files, wanted: int) -> np.ndarray:
    """All numbers in a row; so many are wanted."""
    known = {int(found[1]): name for name in files if (found := PARAMS.fullmatch(name))}
    if lacking := [f"params_{n}.npy" for n in range(max(known, default=0) + 1) if n not in known]:
        raise InputError(f"missing: {join_faults(lacking)}", file=path, hint=AGAIN)
    parts, size = [], 0
    for number in sorted(known):
        parts.append(_array(path, known[number], files))
        size += len(parts[-1])
        if size > wanted:
            break
    if size != wanted:
        what = f"the shapes want {wanted:,} numbers, and the files have {'more' if size > wanted else f'{size:,}'}"
        raise InputError(what, file=path, hint=AGAIN)
    return np.concatenate(parts)


def _array(path: Path, name: str, files: Files) -> np.ndarray:
    try:
        array = np.load(io.BytesIO(files[name]()), allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise InputError(f"{name} is not a whole array of numbers ({error})", file=path, hint=AGAIN) from None
    if not isinstance(array, np.ndarray) or array.ndim != 1 or array.dtype.kind != "f":
        raise InputError(f"{name} is not a row of floating point numbers", file=path, hint=AGAIN)
    return array


def _tensor(numbers: np.ndarray, shape: list[int]) -> Tensor:
    """Weights of layers are [1, in, out] there: a convolution over one token."""
    import torch

    whole = numbers.reshape(shape[1:] if len(shape) == 3 and shape[0] == 1 else shape)
    return torch.from_numpy(np.ascontiguousarray(whole, np.float32))


def _heads(path: Path, width: int, told: int | None) -> int:
    if told is None and width % WIDE == 0:
        return width // WIDE
    if told is None:
        what = f"the files do not tell how many heads attention has, and {width} is no multiple of {WIDE}"
        raise InputError(what, file=path, hint="give them with --heads")
    if told < 1 or width % told:
        raise InputError(f"a width of {width} cannot be shared by {told} heads", file=path, hint="give another --heads")
    return told
