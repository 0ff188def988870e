"""What was read, as those who write look at it: keys and values of the sources, found once and shared by their rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from forebear.networks.decoder import Cross, Layer


class Memory:
    """The sources of rows that are being written: at first one row for each, then any, in any order.

    Rows of the same source are queries of one call, so what it says is not copied for each of them.
    """

    def __init__(self, layers: Sequence[Layer], states: Tensor, lengths: Sequence[int], heads: int) -> None:
        """`states` (S, D) of all tokens of the sources, which have these lengths."""
        self._heads, self._device = heads, states.device
        longest, count = max(lengths), len(lengths)
        here = torch.arange(longest) < torch.tensor(lengths)[:, None]
        self._mask: Tensor | None = None  # (S, 1, 1, m), where sources are shorter than others
        if min(lengths) < longest:
            self._mask = torch.where(here, 0.0, -torch.inf).to(states)[:, None, None]
        places = here.flatten().nonzero().squeeze(1).to(states.device)
        self._held: list[tuple[Tensor, Tensor]] = []  # keys and values for each layer, (S, H, m, d)
        for layer in layers:
            assert layer.cross is not None
            found = layer.cross.key_value(states)
            padded = found.new_zeros((count * longest, found.shape[1]))
            padded[places] = found
            key, value = padded.view(count, longest, 2, heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
            self._held.append((key.contiguous(), value.contiguous()))
        self._of = np.arange(count)  # the source of each row
        self._place()

    def keep(self, rows: np.ndarray) -> None:
        """As the rows themselves are kept; sources that have none left are forgotten."""
        self._of = self._of[rows]
        if len(rows):
            self._place()

    def alike(self, rows: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Whether each row has the source of the other."""
        return self._of[rows] == self._of[others]

    def looked_across(self, number: int, cross: Cross, x: Tensor) -> Tensor:
        """(B, D) what the rows, one token each, find in their sources at layer `number`."""
        (sources, most), query = self._shape, cross.query(x)
        if not self._full:
            query = query.new_zeros((sources * most, query.shape[1])).index_copy_(0, self._places, query)
        asking = query.view(sources, most, self._heads, -1).transpose(1, 2)
        mixed = functional.scaled_dot_product_attention(asking, *self._held[number], self._mask)
        mixed = mixed.transpose(1, 2).reshape(sources * most, -1)
        return cross.output(mixed if self._full else mixed[self._places])

    def _place(self) -> None:
        """Where each row stands among those of its source."""
        there, self._of = np.unique(self._of, return_inverse=True)
        if len(there) < len(self._held[0][0]):
            left = torch.from_numpy(there).to(self._device)
            self._held = [(key[left], value[left]) for key, value in self._held]
            self._mask = None if self._mask is None else self._mask[left]
        counts = np.bincount(self._of)
        most = int(counts.max())
        order = np.argsort(self._of, kind="stable")
        places = np.empty_like(order)
        places[order] = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
        places += self._of * most
        self._shape, self._full = (len(there), most), np.array_equal(places, np.arange(len(there) * most))
        self._places = torch.from_numpy(places).to(self._device)
