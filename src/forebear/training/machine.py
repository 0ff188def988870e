"""What a run was made with: versions and hardware, for its card."""

from __future__ import annotations

import platform
import sys
from importlib import metadata
from typing import Any

from forebear import __version__
from forebear.text.workers import cores

PACKAGES = ("numpy", "safetensors", "tokenizers", "torch")


def versions() -> dict[str, str]:
    """Of everything that can change a number."""
    told = {"forebear": __version__, "python": platform.python_version()}
    for name in PACKAGES:
        try:
            told[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return told


def hardware() -> dict[str, Any]:
    told: dict[str, Any] = {
        "processor": _processor(),
        "cores": cores(),
        "system": f"{platform.system()} {platform.machine()}",
    }
    if "torch" in sys.modules:
        import torch

        if torch.cuda.is_available():
            told["gpu"] = torch.cuda.get_device_name()
    return told


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
