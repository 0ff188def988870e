"""A corpus of parallel text: two corpora on disk, and which document of the one belongs to which of the other."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from forebear.errors import BadInput
from forebear.text.corpus import DROPPED, Corpus
from forebear.text.ledger import Ledger
from forebear.text.parallel import TwoFiles
from forebear.text.portion import Portion, Split, documents, held_out_by
from forebear.text.sides import Sides


@dataclass(frozen=True, eq=False)
class PairedPortion:
    """Pairs that belong together: unit number i of the source to unit number i of the target."""

    source: Portion
    target: Portion
    lines: np.ndarray  # (n,) where each pair stands in `files`, from 0
    files: TwoFiles | None = None

    def __len__(self) -> int:
        return len(self.lines)

    @cached_property
    def lengths(self) -> np.ndarray:
        """(n, 2) tokens of either side."""
        return np.stack([side.spans[:, 1] - side.spans[:, 0] for side in (self.source, self.target)], axis=1)

    def fitting(self, most: int) -> tuple[np.ndarray, int]:
        """The numbers of the pairs of which neither side has more than so many tokens, and the tokens of all those."""
        if most not in self._fitting:
            numbers = np.flatnonzero((self.lengths <= most).all(axis=1))
            self._fitting[most] = numbers, int(self.lengths[numbers].sum())
        return self._fitting[most]

    @cached_property
    def _fitting(self) -> dict[int, tuple[np.ndarray, int]]:
        return {}  # looked up for every batch

    @property
    def predicted(self) -> Portion:
        """The text whose tokens are predicted."""
        return self.target

    @property
    def tokens(self) -> int:
        return self.source.tokens + self.target.tokens

    @property
    def bytes(self) -> int:
        return self.source.bytes + self.target.bytes

    def chosen(self, numbers: np.ndarray) -> PairedPortion:
        """Only the pairs with these numbers."""
        one, two = (Portion(side.corpus, side.units[numbers]) for side in (self.source, self.target))
        return PairedPortion(one, two, self.lines[numbers], self.files)

    def first(self, count: int) -> PairedPortion:
        return self if count >= len(self) else self.chosen(np.arange(count))

    def texts(self) -> tuple[list[str], list[str]]:
        """The sources and the targets, as they were written."""
        assert self.files is not None
        found = []
        for path in self.files.paths:
            with open(path, encoding="utf-8") as file:
                lines = file.read().split("\n")
            found.append([lines[line] for line in self.lines.tolist()])
        return found[0], found[1]


@dataclass(frozen=True, eq=False)
class ParallelCorpus:
    """Both sides, cut into tokens. `units` (n, 3) numbers the documents that are pairs, in either corpus, and the lines
    of the files where they stand."""

    files: TwoFiles
    source: Corpus
    target: Corpus

    @property
    def key(self) -> str:
        return hashlib.sha256(f"{self.source.key} {self.target.key}".encode()).hexdigest()

    @property
    def folder(self) -> Path:
        return self.files.folder

    @cached_property
    def tokenizer(self) -> Sides:
        one, two = self.source.tokenizer, self.target.tokenizer
        return Sides(one, one if one.digest == two.digest else two)

    @cached_property
    def ledger(self) -> Ledger:
        return self.files.ledger

    @cached_property
    def units(self) -> np.ndarray:
        places = [_places(corpus, self.files.count) for corpus in (self.source, self.target)]
        both = np.flatnonzero(np.all([place >= 0 for place in places], axis=0))
        return np.stack([*(place[both] for place in places), both], axis=1)

    @cached_property
    def facts(self) -> dict[str, Any]:
        sides = (self.source, self.target)
        counts = {name: sum(one.facts["counts"][name] for one in sides) for name in ("tokens", "bytes", "unknown")}
        return {"counts": {"documents": len(self.units), **counts}}

    def __len__(self) -> int:
        return len(self.source) + len(self.target)

    @property
    def hashes(self) -> np.ndarray:
        """(n,) what both sides of each pair say, in 64 bits."""
        return self.source.hashes[self.units[:, 0]] * np.uint64(3) + self.target.hashes[self.units[:, 1]]

    @property
    def sizes(self) -> np.ndarray:
        return self.target.sizes

    def whole(self) -> PairedPortion:
        one, two = (
            Portion(corpus, documents(corpus)[self.units[:, side]])
            for side, corpus in enumerate((self.source, self.target))
        )
        return PairedPortion(one, two, self.units[:, 2], self.files)

    def split(self, held_out: float = 0.05) -> Split:
        """Pairs set apart by what their source says, so that all translations of a text are on one side; where that
        sets all or none apart, the last pairs are."""
        if not 0 < held_out < 1:
            raise BadInput(f"the held-out share is {held_out}", remedy="choose a share between 0 and 1, such as 0.05")
        if len(self.units) < 2:
            raise BadInput("there is a single pair, of which nothing can be held out", remedy="give more text")
        apart, how = apart_by(np.asarray(self.source.hashes)[self.units[:, 0]], held_out)
        whole = self.whole()
        train, examined = whole.chosen(np.flatnonzero(~apart)), whole.chosen(np.flatnonzero(apart))
        return Split(train, examined, how)


def apart_by(hashes: np.ndarray, share: float) -> tuple[np.ndarray, Literal["content", "position"]]:
    """Which pairs examine, by what their sources say, in 64 bits; or the last ones."""
    apart = held_out_by(hashes, share)
    if apart.any() and not apart.all():
        return apart, "content"
    return np.arange(len(apart)) >= min(len(apart) - 1, round(len(apart) * (1 - share))), "position"


def _places(corpus: Corpus, count: int) -> np.ndarray:
    """(count,) the number of the document of each line; -1 where a line has no tokens, and so no document."""
    silent = np.zeros(count, bool)
    if len(corpus.documents) - 1 < count:
        for item in (corpus.folder / DROPPED).read_text(encoding="utf-8").splitlines():
            silent[json.loads(item)["line"] - 1] = True
    places = np.cumsum(~silent) - 1
    return np.where(silent, -1, places)
