"""Import of GPT as OpenAI published it in 2018: all parameters concatenated in params_0.npy, …, and a list of shapes.

The files are in a folder or a tar archive. Tensors have no names: their order identifies them.
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

import numpy as np

from forebear.errors import InputError, join_errors
from forebear.interop.hf_architectures import GPT
from forebear.interop.huggingface import ImportedCheckpoint
from forebear.interop.tensor_names import to_our_names

SHAPES_FILE = "params_shapes.json"
PARAMS_PATTERN = re.compile(r"params_(0|[1-9]\d{0,5})\.npy")
ARCHIVE_SUFFIXES = (".tar.gz", ".tgz", ".tar")
REFETCH_HINT = "fetch it again"
MAX_MEMBER_BYTES = 1 << 30  # of one file in an archive; the published ones have 46 million
HEAD_SIZE = 64  # of the published model; the files do not say
# Tensors in the order of the files: position and token embeddings, then those of each block.
EMBEDDING_NAMES = ("positions_embed.weight", "tokens_embed.weight")
BLOCK_NAMES = tuple(
    f"{layer}.{part}"
    for layer in ("attn.c_attn", "attn.c_proj", "ln_1", "mlp.c_fc", "mlp.c_proj", "ln_2")
    for part in ("weight", "bias")
)
FileReaders = dict[str, Callable[[], bytes]]  # file name → a function that reads its content


def is_openai_gpt(path: Path) -> bool:
    """Whether a path is such a folder or archive."""
    return (path / SHAPES_FILE).is_file() if path.is_dir() else path.name.endswith(ARCHIVE_SUFFIXES)


def read_openai_gpt(path: Path, heads: int | None = None) -> ImportedCheckpoint:
    """Read a folder or archive; `heads` is the number of attention heads, which the files do not say."""
    if path.is_dir():
        return _read_files(path, {item.name: item.read_bytes for item in path.iterdir() if item.is_file()}, heads)
    try:
        with tarfile.open(path) as archive:
            return _read_files(path, _archive_files(path, archive), heads)
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise _corrupt(path, f"not a whole archive ({error})") from None


def _archive_files(path: Path, archive: tarfile.TarFile) -> FileReaders:
    """The files in the archive by base name. Nothing is extracted; paths that lead outside are rejected."""
    files: FileReaders = {}
    for member in archive.getmembers():
        member_path = PurePosixPath(member.name)
        name = member_path.name
        if member_path.is_absolute() or ".." in member_path.parts:
            raise _corrupt(path, f"it has a file that leads outside: {member.name!r}")
        if not member.isfile() or not (name == SHAPES_FILE or PARAMS_PATTERN.fullmatch(name)):
            continue
        if name in files:
            raise _corrupt(path, f"{name} is there twice")
        if member.size > MAX_MEMBER_BYTES:
            raise _corrupt(path, f"{name} has {member.size:,} bytes")

        def read_content(member: tarfile.TarInfo = member) -> bytes:
            stream = archive.extractfile(member)
            return stream.read() if stream is not None else b""

        files[name] = read_content
    return files


def _corrupt(path: Path, message: str) -> InputError:
    return InputError(message, file=path, hint=REFETCH_HINT)


def _read_files(path: Path, files: FileReaders, num_heads: int | None) -> ImportedCheckpoint:
    import torch

    shapes = _read_shapes(path, files)
    parameters = _read_parameters(path, files, sum(map(math.prod, shapes)))
    depth = (len(shapes) - len(EMBEDDING_NAMES)) // len(BLOCK_NAMES)
    names = [*EMBEDDING_NAMES, *(f"h.{block}.{name}" for block in range(depth) for name in BLOCK_NAMES)]
    tensors, offset = {}, 0
    for name, shape in zip(names, shapes, strict=True):
        values = parameters[offset : (offset := offset + math.prod(shape))]
        # Layer weights are stored as [1, in, out], a convolution over one token.
        array = values.reshape(shape[1:] if len(shape) == 3 and shape[0] == 1 else shape)
        tensors[name] = torch.from_numpy(np.ascontiguousarray(array, np.float32))
    our_tensors, report = to_our_names(GPT.name_map, tensors, depth=depth, file=path)
    width, ffn_size = shapes[1][-1], tensors["h.0.mlp.c_fc.weight"].shape[-1]
    if num_heads is None:
        if width % HEAD_SIZE:
            message = f"the files do not tell how many heads attention has, and {width} is no multiple of {HEAD_SIZE}"
            raise InputError(message, file=path, hint="give them with --heads")
        num_heads = width // HEAD_SIZE
    if num_heads < 1 or width % num_heads:
        message = f"a width of {width} cannot be shared by {num_heads} heads"
        raise InputError(message, file=path, hint="give another --heads")
    inner = 0 if ffn_size == 4 * width else ffn_size
    fields = {"width": width, "depth": depth, "heads": num_heads, "context": shapes[0][0], "inner": inner}
    fields |= {"dropout": 0.1, "epsilon": 1e-5}
    return ImportedCheckpoint(GPT.model, fields, our_tensors, GPT.tied_heads, report)


def _read_shapes(path: Path, files: FileReaders) -> list[list[int]]:
    if SHAPES_FILE not in files:
        hint = "give the folder or archive that OpenAI published in 2018"
        raise InputError(f"there is no {SHAPES_FILE}", file=path, hint=hint)
    try:
        shapes = json.loads(files[SHAPES_FILE]())
    except ValueError as error:
        raise _corrupt(path, f"{SHAPES_FILE} is not JSON: {error}") from None
    is_valid = isinstance(shapes, list) and all(
        isinstance(shape, list) and 1 <= len(shape) <= 3 and all(type(n) is int and 0 < n < 1 << 31 for n in shape)
        for shape in shapes
    )
    if not is_valid:
        raise _corrupt(path, f"{SHAPES_FILE} is not a list of shapes")
    num_blocks, remainder = divmod(len(shapes) - len(EMBEDDING_NAMES), len(BLOCK_NAMES))
    if num_blocks < 1 or remainder:
        raise _corrupt(path, f"{len(shapes):,} tensors are not two tables and {len(BLOCK_NAMES)} for each block")
    return shapes


def _read_parameters(path: Path, files: FileReaders, expected: int) -> np.ndarray:
    """All parameters concatenated; their number must be `expected`."""
    names_by_number = {int(match[1]): name for name in files if (match := PARAMS_PATTERN.fullmatch(name))}
    if missing := [f"params_{n}.npy" for n in range(max(names_by_number, default=0) + 1) if n not in names_by_number]:
        raise _corrupt(path, f"missing: {join_errors(missing)}")
    arrays, num_read = [], 0
    for _, name in sorted(names_by_number.items()):
        try:
            array = np.load(io.BytesIO(files[name]()), allow_pickle=False)
        except (ValueError, EOFError) as error:
            raise _corrupt(path, f"{name} is not a whole array of numbers ({error})") from None
        if not isinstance(array, np.ndarray) or array.ndim != 1 or array.dtype.kind != "f":
            raise _corrupt(path, f"{name} is not a row of floating point numbers")
        arrays.append(array)
        num_read += len(array)
        if num_read > expected:
            break
    if num_read != expected:
        count_phrase = "more" if num_read > expected else f"{num_read:,}"
        raise _corrupt(path, f"the shapes want {expected:,} numbers, and the files have {count_phrase}")
    return np.concatenate(arrays)
