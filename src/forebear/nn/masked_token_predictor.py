"""Predictor of masked tokens, and pseudo-log-likelihoods, for models with a masked-LM head."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from forebear.errors import ForebearError
from forebear.nn.encode_rows import BATCH_TOKENS, encode_rows, length_batches, to_tensor
from forebear.nn.encoder import States
from forebear.nn.heads import LMHead, PoolerHead
from forebear.nn.inference_mode import in_inference_mode
from forebear.nn.model import Model


class MaskedTokenPredictor:
    """Predicts masked tokens; takes and returns ids and numpy arrays. Do not train the model while it is in use.

    start_id, end_id  special tokens around a text ([CLS], [SEP])
    mask_id           the mask token
    """

    is_pseudo_likelihood = True  # each token is scored given all others: the product is not the probability of the text

    def __init__(self, model: Model, *, start_id: int, end_id: int, mask_id: int) -> None:
        head = dict(model.heads.items()).get("token")
        if not isinstance(head, LMHead):
            raise ForebearError(
                "this model does not find hidden tokens", hint="ask one that was trained to, such as bert"
            )
        self.model, self.head = model.eval(), head
        self.start_id, self.end_id, self.mask_id = start_id, end_id, mask_id

    @property
    def max_length(self) -> int:
        return self.model.encoder.max_length  # pyright: ignore[reportReturnType, reportAttributeAccessIssue]

    @property
    def max_text_tokens(self) -> int:
        """Tokens of text per sequence, without the special tokens."""
        return self.max_length - 2

    @in_inference_mode
    def mask_log_probs(self, rows: Sequence[np.ndarray]) -> list[np.ndarray]:
        """(masks, V) log P of every token at each masked position of each sequence.

        Sequences are texts without special tokens; a long text is truncated to a window centered on its masks.
        """
        results = []
        for row in rows:
            positions = np.flatnonzero(row == self.mask_id)
            groups = _group_positions(positions, self.max_text_tokens)
            log_probs = [self._mask_log_probs(row, group) for group in groups]
            results.append(np.concatenate(log_probs) if log_probs else np.empty((0, self.head.vocab_size), np.float32))
        return results

    def _mask_log_probs(self, row: np.ndarray, positions: np.ndarray) -> np.ndarray:
        start = self._window_start(len(row), int(positions[0]), int(positions[-1]))
        states = encode_rows(self.model, [self._add_special_tokens(row[start : start + self.max_text_tokens])])
        last = states.last[to_tensor(self.model, positions - start + 1)]
        logits = self.head(States([last], (len(positions),)))
        return torch.log_softmax(logits.float(), -1).cpu().numpy()

    @in_inference_mode
    def score(self, rows: Sequence[np.ndarray]) -> list[np.ndarray]:
        """For each sequence, log P(row[i] given all others) for i = 1, 2, …; its first id is the start-of-text token.

        Pseudo-log-likelihood (Salazar et al. 2020, Masked Language Model Scoring): n tokens take n forward passes.
        """
        scores = [np.empty(max(0, len(row) - 1), np.float32) for row in rows]
        queries = [(index, position) for index, row in enumerate(rows) for position in range(1, len(row))]
        for start in range(0, len(queries), BATCH_TOKENS):  # in batches: a long text has many copies
            query_batch = queries[start : start + BATCH_TOKENS]
            lengths = [min(len(rows[index]) - 1, self.max_text_tokens) for index, _ in query_batch]
            for batch in length_batches(lengths):
                batch_queries = [query_batch[index] for index in batch]
                log_probs = self._score_masked_copies(rows, batch_queries)
                for (index, position), log_prob in zip(batch_queries, log_probs, strict=True):
                    scores[index][position - 1] = log_prob
        return scores

    def _score_masked_copies(self, rows: Sequence[np.ndarray], queries: Sequence[tuple[int, int]]) -> np.ndarray:
        copies, positions, targets = [], [], []
        for row, position in queries:
            text = rows[row][1:]
            start = self._window_start(len(text), position - 1, position - 1)
            copy = self._add_special_tokens(text[start : start + self.max_text_tokens])
            positions.append(position - start)  # position in the window, after the start token
            targets.append(text[position - 1])
            copy[positions[-1]] = self.mask_id
            copies.append(copy)
        states = encode_rows(self.model, copies)
        starts = np.cumsum([0, *map(len, copies[:-1])])
        x = states.last[to_tensor(self.model, starts + positions)]
        return self._target_log_probs(x, np.array(targets))

    @in_inference_mode
    def evaluate_batch(
        self, inputs: Mapping[str, np.ndarray], targets: Mapping[str, np.ndarray]
    ) -> dict[str, np.ndarray]:
        """Log P of each masked token, and whether the top predictions of targets `token` and `pair` are right."""
        states = self.model.encoder(**{name: to_tensor(self.model, array) for name, array in inputs.items()})
        positions = np.flatnonzero(targets["token"] >= 0)
        x = states.last[to_tensor(self.model, positions)]
        masked_tokens = targets["token"][positions]
        results = {"token": self._target_log_probs(x, masked_tokens), "right": self._predict_tokens(x) == masked_tokens}
        pair = dict(self.model.heads.items()).get("pair")
        if "pair" in targets and isinstance(pair, PoolerHead):
            labels = targets["pair"]
            results["pair"] = (pair(states).argmax(1).cpu().numpy() == labels)[labels >= 0]
        return results

    def _predict_tokens(self, x: Tensor) -> np.ndarray:
        """(n,) the most probable token for each vector."""
        predictions = [self.head(States([chunk], (len(chunk),))).argmax(1) for chunk in x.split(512)]
        return torch.cat(predictions).cpu().numpy() if predictions else np.empty(0, np.int64)

    def _target_log_probs(self, x: Tensor, targets: np.ndarray) -> np.ndarray:
        return self.head.log_probs(x, to_tensor(self.model, targets)).cpu().numpy()

    def _add_special_tokens(self, text: np.ndarray) -> np.ndarray:
        return np.concatenate(([self.start_id], text, [self.end_id])).astype(np.int64)

    def _window_start(self, length: int, first_position: int, last_position: int) -> int:
        """Start of the window of a text that is too long, centered on these positions."""
        centered_start = (first_position + last_position + 1 - self.max_text_tokens) // 2
        return max(0, min(centered_start, length - self.max_text_tokens))


def _group_positions(positions: np.ndarray, max_span: int) -> list[np.ndarray]:
    """Positions in groups that each fit into one sequence."""
    groups: list[list[int]] = []
    for position in positions.tolist():
        if groups and position - groups[-1][0] < max_span:
            groups[-1].append(position)
        else:
            groups.append([position])
    return [np.array(group) for group in groups]
