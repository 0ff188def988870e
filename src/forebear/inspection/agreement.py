"""How far groups agree with kinds that are known: purity, and the adjusted Rand index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

DEALT = 40  # times that kinds are dealt out blindly


@dataclass(frozen=True)
class ClusterAgreement:
    """Of so many groups.

    purity  the share that is of its group's commonest kind
    chance  the same of groups of these sizes, if kinds are dealt out blindly
    rand    the adjusted Rand index
    joined  the same when groups of the same commonest kind are taken for one: a kind may fall into several groups
    """

    groups: int
    purity: float
    chance: float
    rand: float
    merged_groups: float

    @classmethod
    def from_clusters(cls, owners: np.ndarray, known: Sequence[str]) -> ClusterAgreement:
        commonest = _shared(owners, known).argmax(1)[owners]
        figures = purity(owners, known), purity_by_chance(owners, known), rand_index(owners, known)
        return cls(int(owners.max()) + 1, *figures, rand_index(commonest, known))

    def to_dict(self) -> dict[str, Any]:
        told = {"purity": self.purity, "purity_by_chance": self.chance}
        told |= {"adjusted_rand_index": self.rand, "adjusted_rand_index_joined": self.merged_groups}
        return {"groups": self.groups} | {name: round(value, 4) for name, value in told.items()}


def purity(owners: np.ndarray, known: Sequence[str]) -> float:
    """The share that is of its group's commonest kind: 1 where no group has two kinds."""
    return float(_shared(owners, known).max(1).sum()) / len(owners)


def purity_by_chance(owners: np.ndarray, known: Sequence[str]) -> float:
    """What groups of these sizes have if kinds are dealt out blindly: the more groups, the purer they are anyway."""
    chance, dealt = np.random.default_rng(0), np.array(known)
    return float(np.mean([purity(owners, chance.permutation(dealt).tolist()) for _ in range(DEALT)]))


def rand_index(owners: np.ndarray, known: Sequence[str]) -> float:
    """The adjusted Rand index (Hubert and Arabie 1985): of all pairs, how far groups and kinds agree on who belongs
    together, beyond what chance does. 1: the same groups; 0: as by chance, and always where all is one group."""

    def pairs(counts: np.ndarray) -> float:
        return float((counts * (counts - 1) / 2).sum())

    shared = _shared(owners, known)
    both, of_groups, of_kinds = pairs(shared), pairs(shared.sum(1)), pairs(shared.sum(0))
    chance = of_groups * of_kinds / max(pairs(np.array([len(owners)])), 1)
    most = (of_groups + of_kinds) / 2
    return (both - chance) / (most - chance) if most > chance else float(both == most)


def _shared(owners: np.ndarray, known: Sequence[str]) -> np.ndarray:
    """(groups, kinds) how many are in both."""
    kinds = np.unique(np.array(known), return_inverse=True)[1]
    made = np.zeros((int(owners.max()) + 1, int(kinds.max()) + 1))
    np.add.at(made, (owners, kinds), 1)
    return made
