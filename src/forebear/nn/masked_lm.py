"""A network with a head `token`, asked what stands where something is hidden."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from forebear.errors import ForebearError
from forebear.nn.encode_rows import BATCH_TOKENS, encode_rows, length_batches, to_tensor
from forebear.nn.encoder import States
from forebear.nn.heads import LMHead, PoolerHead
from forebear.nn.model import Model


class MaskedLM:
    """Ids and numpy outside, torch inside. The model must not learn meanwhile.

    start, end  ids that stand around a text
    mask        the id that hides
    """

    is_pseudo_likelihood = (
        True  # what it says of a text are no factors of the text's probability: each token is told by all others
    )

    def __init__(self, model: Model, *, start: int, end: int, mask: int) -> None:
        head = dict(model.heads.items()).get("token")
        if not isinstance(head, LMHead):
            raise ForebearError(
                "this model does not find hidden tokens", hint="ask one that was trained to, such as bert"
            )
        self.model, self.head = model.eval(), head
        self.start, self.end, self.mask = start, end, mask

    @property
    def max_length(self) -> int:
        return self.model.encoder.context  # pyright: ignore[reportReturnType, reportAttributeAccessIssue]

    @property
    def max_text_tokens(self) -> int:
        """Tokens of text in a row."""
        return self.max_length - 2

    @torch.inference_mode()
    def mask_log_probs(self, rows: Sequence[np.ndarray]) -> list[np.ndarray]:
        """(hidden, V) log P of every token at each place of each row that holds the mask's id.

        Rows are texts without what stands around them; one that is too long is seen as far as the context reaches,
        evenly to both sides of what is hidden.
        """
        found = []
        for row in rows:
            hidden = np.flatnonzero(row == self.mask)
            answers = [self._distributions(row, places) for places in _within(hidden, self.max_text_tokens)]
            found.append(np.concatenate(answers) if answers else np.empty((0, self.head.vocab_size), np.float32))
        return found

    def _distributions(self, row: np.ndarray, places: np.ndarray) -> np.ndarray:
        begin = self._window(len(row), int(places[0]), int(places[-1]))
        states = encode_rows(self.model, [self._between(row[begin : begin + self.max_text_tokens])])
        last = states.last[to_tensor(self.model, places - begin + 1)]
        logits = self.head(States([last], (len(places),)))
        return torch.log_softmax(logits.float(), -1).cpu().numpy()

    @torch.inference_mode()
    def score(self, rows: Sequence[np.ndarray]) -> list[np.ndarray]:
        """For each row, log P(row[i] given all others) for i = 1, 2, …; its first id only says that a text begins.

        (Salazar et al. 2020, Masked Language Model Scoring.) A row of n tokens is read n times.
        """
        found = [np.empty(max(0, len(row) - 1), np.float32) for row in rows]
        asked = [(number, place) for number, row in enumerate(rows) for place in range(1, len(row))]
        for at in range(0, len(asked), BATCH_TOKENS):  # in parts: the copies of a long text are many
            part = asked[at : at + BATCH_TOKENS]
            lengths = [min(len(rows[number]) - 1, self.max_text_tokens) for number, _ in part]
            for batch in length_batches(lengths):
                chosen = [part[number] for number in batch]
                for (number, place), answer in zip(chosen, self._hidden_singly(rows, chosen), strict=True):
                    found[number][place - 1] = answer
        return found

    def _hidden_singly(self, rows: Sequence[np.ndarray], asked: Sequence[tuple[int, int]]) -> np.ndarray:
        copies, places, targets = [], [], []
        for number, place in asked:
            text = rows[number][1:]
            begin = self._window(len(text), place - 1, place - 1)
            copy = self._between(text[begin : begin + self.max_text_tokens])
            places.append(place - begin)  # its place in the text, less what is not seen, after the start
            targets.append(text[place - 1])
            copy[places[-1]] = self.mask
            copies.append(copy)
        states = encode_rows(self.model, copies)
        begins = np.cumsum([0, *map(len, copies[:-1])])
        x = states.last[to_tensor(self.model, begins + places)]
        return self._log_probabilities(x, to_tensor(self.model, np.array(targets)))

    @torch.inference_mode()
    def evaluate_batch(
        self, inputs: Mapping[str, np.ndarray], wanted: Mapping[str, np.ndarray]
    ) -> dict[str, np.ndarray]:
        """Of a batch with targets `token` and perhaps `pair`: log P of what was asked, and whether it was the best."""
        states = self.model.encoder(**{name: to_tensor(self.model, array) for name, array in inputs.items()})
        asked = np.flatnonzero(wanted["token"] >= 0)
        x = states.last[to_tensor(self.model, asked)]
        targets = wanted["token"][asked]
        told = {"token": self._log_probabilities(x, to_tensor(self.model, targets)), "right": self._best(x) == targets}
        pair = dict(self.model.heads.items()).get("pair")
        if "pair" in wanted and isinstance(pair, PoolerHead):
            answer = wanted["pair"]
            told["pair"] = (pair(states).argmax(1).cpu().numpy() == answer)[answer >= 0]
        return told

    def _best(self, x: Tensor) -> np.ndarray:
        """(n,) the likeliest token by each vector."""
        parts = [self.head(States([part], (len(part),))).argmax(1) for part in x.split(512)]
        return torch.cat(parts).cpu().numpy() if parts else np.empty(0, np.int64)

    def _log_probabilities(self, x: Tensor, targets: Tensor) -> np.ndarray:
        found = self.head.log_probs(x, targets)
        return found.float().cpu().numpy()

    def _between(self, text: np.ndarray) -> np.ndarray:
        return np.concatenate(([self.start], text, [self.end])).astype(np.int64)

    def _window(self, length: int, first: int, last: int) -> int:
        """Where to begin to read a text too long for a row, so that what is asked stands in the middle."""
        return max(0, min((first + last + 1 - self.max_text_tokens) // 2, length - self.max_text_tokens))


def _within(places: np.ndarray, room: int) -> list[np.ndarray]:
    """The places in groups, each of which fits into a row."""
    groups: list[list[int]] = []
    for place in places.tolist():
        if groups and place - groups[-1][0] < room:
            groups[-1].append(place)
        else:
            groups.append([place])
    return [np.array(group) for group in groups]
