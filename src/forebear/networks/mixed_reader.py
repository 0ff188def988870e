"""A small network above a pre-trained one: it reads the vectors of words beside a mixture of all layers ([x; ELMo])."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from forebear.networks.mixture import Mixture
from forebear.networks.reader import READERS, Matching, likes, parted
from forebear.networks.states import Encoder, States, TokenVectors


class MixedReader(Encoder):
    """An encoder. `inner` is the pre-trained one, whose first layer are the vectors x of words.

    reader  "mean", "convolution" or "recurrent"
    width   of what is read; None: that of x
    place   "before": it reads [x; mixture]; "after": it reads x, and the mixture stands beside what it makes of it;
            "both": each, with weights of their own. Layers are mixed that are as wide as the last
    normed  whether layers are brought to one scale before they are mixed
    pairs   whether rows hold two texts, which are to be compared
    """

    depth, sees = 1, "all"

    def __init__(
        self,
        inner: Encoder,
        *,
        reader: str,
        width: int | None,
        place: str = "before",
        normed: bool = False,
        pairs: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.inner, self.pairs, self.dropout = inner, pairs, nn.Dropout(dropout)
        assert inner.embedding is not None
        first = inner.embedding.width  # of a layer that stands there twice, once
        read = width or 2 * ((first + 1) // 2)
        before, after = place in ("before", "both"), place in ("after", "both")
        wide = inner.widths
        lowest = next(layer for layer in range(len(wide)) if {*wide[layer:]} == {inner.width})
        self.mixtures = nn.ModuleDict()
        for name, there in (("before", before), ("after", after)):
            if there:
                self.mixtures[name] = Mixture(inner.depth, normed=normed, first=lowest)
        self.first = first
        given = first + (inner.width if before else 0)
        self.matching = Matching(given, read) if pairs else None
        self.body = READERS[reader](read if pairs else given, read)
        self.width = read + (inner.width if after else 0)
        self.given = given

    @property
    def context(self) -> int | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.inner.context

    @property
    def embedding(self) -> TokenVectors | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.inner.embedding

    @property
    def borders(self) -> tuple[int, int] | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.inner.borders

    @property
    def widths(self) -> tuple[int, int]:
        return self.given, self.width

    def train(self, mode: bool = True) -> MixedReader:
        """Where the pre-trained encoder stays as it is, it gives what it always gives: nothing of it is left out."""
        super().train(mode)
        self.inner.train(mode and any(one.requires_grad for one in self.inner.parameters()))
        return self

    def lower(self, layers: int) -> Iterator[nn.Parameter]:
        """The pre-trained encoder; with the one layer that there is, all parameters."""
        yield from self.inner.parameters() if layers < 1 else self.parameters()

    def forward(
        self,
        tokens: Tensor,
        lengths: Tensor | Sequence[int],
        segments: Tensor | None = None,
        kept: Tensor | None = None,
    ) -> States:
        states: States = self.inner(tokens, lengths)
        rows, every = states.lengths, torch.arange(len(tokens), device=tokens.device)
        mixed = {name: self.dropout(mixture(states, every)) for name, mixture in self.mixtures.items()}
        x = self.dropout(states.layers[0][:, : self.first])
        x = torch.cat((x, mixed["before"]), 1) if "before" in mixed else x
        y, texts = x, rows
        if self.matching is not None:
            texts = parted(rows, segments)
            y = self.matching(x, likes(x, texts))
        y = self.body(y, tuple(length for length in texts if length))
        return States([x, torch.cat((y, mixed["after"]), 1) if "after" in mixed else y], rows)
