"""What was read, as those who write look at it: keys and values of the sources, found once and shared by their rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from forebear.networks.decoder import Cross, Layer


class Sources:
    """The sources of rows that are being written: at first one row for each, then any, in any order.

    Rows of the same source are queries of one call, so what it says is not copied for each of them.
    """

    def __init__(self, lengths: Sequence[int], device: torch.device) -> None:
        self._device = device
        self.here = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]  # (S, m) where a source has a token
        self._of = np.arange(len(lengths))  # the source of each row
        self._count = len(lengths)
        self._place()

    def padded(self, x: Tensor) -> Tensor:
        """(T, D) of all tokens of the sources → (S, m, D), with zeros behind the shorter ones. Before any is lost."""
        found = x.new_zeros((self.here.numel(), x.shape[1]))
        found[self.here.flatten().nonzero().squeeze(1).to(x.device)] = x
        return found.view(*self.here.shape, -1)

    def keep(self, rows: np.ndarray) -> Tensor | None:
        """As the rows themselves are kept. Sources that have none left are forgotten: then the numbers of those that
        stay, by which all that is known of sources is to be kept too."""
        self._of = self._of[rows]
        return self._place() if len(rows) else None

    def alike(self, rows: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Whether each row has the source of the other."""
        return self._of[rows] == self._of[others]

    def gathered(self, x: Tensor) -> Tensor:
        """(B, D) of rows → (S, r, D): beside each other, those of each source, which has up to r of them."""
        (sources, most), width = self._shape, x.shape[1]
        if not self._full:
            x = x.new_zeros((sources * most, width)).index_copy_(0, self._places, x)
        return x.view(sources, most, width)

    def scattered(self, x: Tensor) -> Tensor:
        """(S, r, D) → (B, D), the way back."""
        x = x.reshape(-1, x.shape[-1])
        return x if self._full else x[self._places]

    def _place(self) -> Tensor | None:
        """Where each row stands among those of its source; which sources are left, unless all are."""
        there, self._of = np.unique(self._of, return_inverse=True)
        left = None if len(there) == self._count else torch.from_numpy(there).to(self._device)
        self._count = len(there)
        counts = np.bincount(self._of)
        most = int(counts.max())
        order = np.argsort(self._of, kind="stable")
        places = np.empty_like(order)
        places[order] = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
        places += self._of * most
        self._shape, self._full = (len(there), most), np.array_equal(places, np.arange(len(there) * most))
        self._places = torch.from_numpy(places).to(self._device)
        return left


class Memory:
    """What rows with several heads of attention find in their sources, layer by layer."""

    def __init__(self, layers: Sequence[Layer], states: Tensor, lengths: Sequence[int], heads: int) -> None:
        """`states` (T, D) of all tokens of the sources, which have these lengths."""
        self._heads, self._sources = heads, Sources(lengths, states.device)
        here = self._sources.here
        self._mask: Tensor | None = None  # (S, 1, 1, m), where sources are shorter than others
        if not here.all():
            self._mask = torch.where(here, 0.0, -torch.inf).to(states)[:, None, None]
        self._held: list[tuple[Tensor, Tensor]] = []  # keys and values for each layer, (S, H, m, d)
        for layer in layers:
            assert layer.cross is not None
            padded = self._sources.padded(layer.cross.key_value(states))
            key, value = padded.view(*here.shape, 2, heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
            self._held.append((key.contiguous(), value.contiguous()))

    def keep(self, rows: np.ndarray) -> None:
        """As the rows themselves are kept; sources that have none left are forgotten."""
        left = self._sources.keep(rows)
        if left is not None:
            self._held = [(key[left], value[left]) for key, value in self._held]
            self._mask = None if self._mask is None else self._mask[left]

    def alike(self, rows: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Whether each row has the source of the other."""
        return self._sources.alike(rows, others)

    def looked_across(self, number: int, cross: Cross, x: Tensor) -> Tensor:
        """(B, D) what the rows, one token each, find in their sources at layer `number`."""
        query = self._sources.gathered(cross.query(x))
        asking = query.view(*query.shape[:2], self._heads, -1).transpose(1, 2)
        mixed = functional.scaled_dot_product_attention(asking, *self._held[number], self._mask)
        return cross.output(self._sources.scattered(mixed.transpose(1, 2).flatten(2)))
