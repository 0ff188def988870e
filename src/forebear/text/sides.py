"""The tokenizers of parallel text: one for what is read and one for what is written, often one and the same."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forebear.text.corpus import TOKENIZER

if TYPE_CHECKING:
    from forebear.text.tokenizer import Tokenizer

TARGET_TOKENIZER = "target-tokenizer.json"


@dataclass(frozen=True, eq=False)
class Sides:
    """Where a single vocabulary is meant, it is that of the target, in which answers are given."""

    source: Tokenizer
    target: Tokenizer

    @property
    def joint(self) -> bool:
        """Whether both are the same."""
        return self.source is self.target or self.source.digest == self.target.digest

    @property
    def size(self) -> int:
        return self.target.size

    @property
    def kind(self) -> str:
        return self.target.kind if self.joint else f"{self.source.kind} and {self.target.kind}"

    @property
    def roles(self) -> dict[str, int]:
        return self.target.roles

    @property
    def digest(self) -> str:
        if self.joint:
            return self.source.digest
        return hashlib.sha256(f"{self.source.digest} {self.target.digest}".encode()).hexdigest()

    def describe(self) -> dict[str, Any]:
        told = {"kind": self.kind, "size": self.size, "digest": self.digest}
        return told if self.joint else told | {"source": self.source.describe(), "target": self.target.describe()}

    def save(self, file: str | os.PathLike[str]) -> None:
        """The source's under this name, and beside it the target's where that is another."""
        self.source.save(file)
        if not self.joint:
            self.target.save(Path(file).with_name(TARGET_TOKENIZER))

    @classmethod
    def load(cls, folder: Path) -> Sides:
        from forebear.text.tokenizer import Tokenizer

        source = Tokenizer.load(folder / TOKENIZER)
        other = folder / TARGET_TOKENIZER
        return cls(source, Tokenizer.load(other) if other.exists() else source)
