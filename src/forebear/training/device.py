"""Where numbers are crunched: the device, how many threads, and whether sixteen bits are enough."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

from forebear.errors import BadInput
from forebear.text.workers import cores
from forebear.training.recipe import Recipe


@dataclass(frozen=True)
class Device:
    """A choice that was made once and is stored with the run: other threads or bits would end in other weights."""

    name: str
    threads: int
    precision: str  # float32, or bfloat16 for the products, where the device is faster with it

    def of_process(self, number: int, processes: int, recipe: Recipe) -> Device:
        """For one of several on a machine: a graphics card of its own, and a share of the processor."""
        import torch

        threads = recipe.threads or max(1, cores() // processes)
        torch.set_num_threads(threads)
        if not self.name.startswith("cuda"):
            return replace(self, threads=threads)
        torch.cuda.set_device(number)
        return replace(self, name=f"cuda:{number}", threads=threads)

    @contextlib.contextmanager
    def precisely(self) -> Iterator[None]:
        import torch

        if self.precision == "float32":
            yield
            return
        with torch.autocast(self.name.partition(":")[0], dtype=torch.bfloat16):
            yield


def chosen(recipe: Recipe) -> Device:
    """The device a recipe asks for, or the best that is there; sets the number of threads."""
    import torch

    there = available()
    name = recipe.device or there[0]
    if name.partition(":")[0] not in there:
        raise BadInput(f"there is no device {name!r} here", remedy=f"choose one of {', '.join(there)}")
    precision = recipe.precision or ("bfloat16" if _has_bfloat16(name) else "float32")
    if precision not in ("float32", "bfloat16"):
        raise BadInput(f"--precision is {precision!r}", remedy="choose float32 or bfloat16")
    threads = recipe.threads or cores()
    torch.set_num_threads(threads)
    return Device(name, threads, precision)


def available() -> list[str]:
    """The kinds of device this machine has, the fastest first."""
    import torch

    kinds = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    return [kind for kind, there in kinds.items() if there]


def _has_bfloat16(name: str) -> bool:
    """Whether products of bfloat16 are made by hardware; emulated ones would only be slower."""
    import torch

    if name.startswith("cuda"):
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if name == "cpu":
        return bool(getattr(torch.cpu, "_is_amx_tile_supported", lambda: False)())
    return False
