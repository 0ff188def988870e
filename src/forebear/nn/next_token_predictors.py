"""Predictors of the next token: scores and incremental decoding with recurrent networks, NNLM and Transformers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from forebear.errors import InputError
from forebear.nn.encode_rows import BATCH_TOKENS, encode_rows, length_batches, to_tensor
from forebear.nn.encoder import States
from forebear.nn.heads import LMHead
from forebear.nn.inference_mode import in_inference_mode
from forebear.nn.kv_cache import IncrementalDecoder, TransformerDecodingState, context_start, long_text_windows
from forebear.nn.model import Model
from forebear.nn.nnlm import NNLMEncoder, NNLMHead
from forebear.nn.recurrent import RecurrentLMEncoder, RecurrentState
from forebear.nn.softmax import SoftmaxHead, row_slices
from forebear.nn.transformer import Transformer


class NextTokenPredictor:
    """Base of next-token predictors (`inference.predictor.CausalLM`), which take ids and return numpy arrays."""

    is_pseudo_likelihood = False  # the product of token probabilities is the probability of the text
    encoder_type: ClassVar[Any]
    head_type: ClassVar[Any]
    example_model: ClassVar[str]  # a model that has such a head, for error messages
    encoder: Any
    head: Any

    def __init__(self, model: Model) -> None:
        encoder, head = model.encoder, dict(model.heads.items()).get("next")
        if not isinstance(encoder, self.encoder_type) or not isinstance(head, self.head_type):
            hint = f"ask one that was trained to, such as {self.example_model}"
            raise InputError("this model does not predict the next token from those before it", hint=hint)
        self.model, self.encoder, self.head = model.eval(), encoder, head

    @property
    def vocab_size(self) -> int:
        return self.head.vocab_size

    @property
    def max_length(self) -> int | None:
        """Maximum tokens of a sequence; None: unlimited."""
        return self.encoder.max_length


class HeadInputPredictor(NextTokenPredictor):
    """A predictor that needs one head input per sequence: the last hidden state, or the tokens of the last window."""

    def head_inputs(self, rows: Sequence[np.ndarray]) -> Tensor:
        """(B, ·) head inputs, from which the token after each sequence is predicted."""
        raise NotImplementedError

    def compute_logits(self, x: Tensor) -> Tensor:
        """(N, ·) head inputs → (N, V) log P up to a constant."""
        raise NotImplementedError

    @in_inference_mode
    def next_log_probs(self, rows: Sequence[np.ndarray]) -> np.ndarray:
        """(B, V) log P of every token after each sequence."""
        return torch.log_softmax(torch.from_numpy(self.logits(self.head_inputs(rows))), -1).numpy()

    @in_inference_mode
    def logits(self, x: Tensor) -> np.ndarray:
        """(N, V) logits as an array, computed in slices of bounded memory."""
        logits = np.empty((len(x), self.vocab_size), np.float32)
        for rows in row_slices(len(x), self.vocab_size):
            logits[rows] = self.compute_logits(x[rows]).float().cpu().numpy()
        return logits


class RecurrentPredictor(HeadInputPredictor):
    """Next-token predictor for recurrent networks.

    Every sequence starts from the zero state, so the same text always gets the same score. Sequences may have any
    length and are processed in chunks.
    """

    encoder_type, head_type, example_model = RecurrentLMEncoder, LMHead | SoftmaxHead, "lstm"
    encoder: RecurrentLMEncoder
    head: LMHead | SoftmaxHead

    def _with_start_token(self, row: np.ndarray) -> np.ndarray:
        """The sequence with the start-of-text token of this encoder, which may differ from the end-of-text token."""
        start, end = self.encoder.boundary_ids or (0, 0)
        return np.asarray(row) if start == end or row[0] != end else np.concatenate(([start], row[1:]))

    @in_inference_mode
    def score(self, rows: Sequence[np.ndarray]) -> list[np.ndarray]:
        """log P of each token of each sequence but the first, given all tokens before it."""
        scores = [np.empty(max(0, len(row) - 1), np.float32) for row in rows]
        row_ids = [index for index, row in enumerate(rows) if len(row) > 1]
        for batch in length_batches([len(rows[index]) - 1 for index in row_ids]):
            batch_ids = [row_ids[index] for index in batch]
            inputs = [self._with_start_token(rows[index])[:-1] for index in batch_ids]
            for start, chunk_lengths, states, _ in self._encode_chunks(inputs):
                unfinished = zip(batch_ids, chunk_lengths, strict=False)
                chunks = [(row, slice(start, start + size)) for row, size in unfinished]
                targets = np.concatenate([np.asarray(rows[row])[1:][chunk] for row, chunk in chunks])
                log_probs = self.head.log_probs(states, to_tensor(self.model, targets)).float().cpu()
                for (row, chunk), row_scores in zip(chunks, log_probs.split(list(chunk_lengths)), strict=True):
                    scores[row][chunk] = row_scores.numpy()
        return scores

    def start_decoding(self, rows: Sequence[np.ndarray], max_new_tokens: int) -> RecurrentDecodingState:
        return RecurrentDecodingState(self, rows)

    @in_inference_mode
    def last_states(self, rows: Sequence[np.ndarray]) -> tuple[Tensor, list[RecurrentState]]:
        """(B, D) head input at each sequence's last token, and the hidden states of all layers there."""
        # A floating-point parameter gives dtype and device: quantized weights are integers.
        template = next(parameter for parameter in self.model.parameters() if parameter.is_floating_point())
        stack = self.encoder.layers
        x = template.new_empty(len(rows), stack.recurrent_layers()[-1].out)
        states = stack.zero_state(len(rows), template)
        for batch in length_batches([len(row) for row in rows]):
            for _, chunk_lengths, vectors, final_states in self._encode_chunks(
                [self._with_start_token(rows[index]) for index in batch]
            ):
                row_ids = torch.tensor(batch[: len(chunk_lengths)])
                x[row_ids] = vectors[torch.tensor(chunk_lengths).cumsum(0) - 1]
                for state_parts, state in zip(states, final_states, strict=True):
                    for part, new in zip(state_parts, state, strict=True):
                        part[row_ids] = new
        return x, states

    def head_inputs(self, rows: Sequence[np.ndarray]) -> Tensor:
        return self.last_states(rows)[0]

    def compute_logits(self, x: Tensor) -> Tensor:
        return self.head.logits_from(self.head.transform_states(x))

    def _encode_chunks(self, rows: Sequence[np.ndarray]):
        """Encode sequences, which are sorted by descending length, in chunks that fill a batch.

        Yields the start of each chunk, the number of its tokens in each unfinished sequence, their (T, D) vectors and
        the hidden states after it.
        """
        chunk_size = max(1, BATCH_TOKENS // len(rows))
        states: list[RecurrentState] | None = None
        for start in range(0, len(rows[0]), chunk_size):
            chunks = [row[start : start + chunk_size] for row in rows if len(row) > start]
            if states is not None:
                states = [tuple(tensor[: len(chunks)] for tensor in state) for state in states]
            chunk_lengths = tuple(map(len, chunks))
            vectors, states = self.encoder.encode(to_tensor(self.model, np.concatenate(chunks)), chunk_lengths, states)
            yield start, chunk_lengths, vectors, states


class RecurrentDecodingState:
    """Decoding state of a recurrent model: its hidden states."""

    def __init__(self, predictor: RecurrentPredictor, rows: Sequence[np.ndarray]) -> None:
        self._predictor = predictor
        self._last_states, self._states = predictor.last_states(rows)

    def next_logits(self) -> np.ndarray:
        """(B, V) scores of the next token."""
        return self._predictor.logits(self._last_states)

    @in_inference_mode
    def append(self, ids: np.ndarray) -> None:
        tokens = to_tensor(self._predictor.model, np.asarray(ids))
        if len(tokens):
            self._last_states, self._states = self._predictor.encoder.advance(tokens, self._states)

    @in_inference_mode
    def select(self, rows: np.ndarray) -> None:
        row_ids = torch.from_numpy(np.arange(len(self._last_states))[np.asarray(rows)])
        self._last_states = self._last_states[row_ids]
        self._states = [tuple(tensor[row_ids] for tensor in state) for state in self._states]


# --- Windowed models (NNLM) ---


class WindowPredictor(HeadInputPredictor):
    """Next-token predictor for NNLM: tokens before the window are ignored."""

    encoder_type, head_type, example_model = NNLMEncoder, NNLMHead, "nnlm"
    encoder: NNLMEncoder
    head: NNLMHead

    @in_inference_mode
    def score(self, rows: Sequence[np.ndarray]) -> list[np.ndarray]:
        """log P of each token of each sequence but the first, given the window before it."""
        inputs = [np.asarray(row)[:-1] for row in rows if len(row) > 1]
        if not inputs:
            return [np.empty(0, np.float32) for _ in rows]
        window_tokens = self.window_tokens(inputs)
        targets = to_tensor(self.model, np.concatenate([np.asarray(row)[1:] for row in rows]))
        batches = zip(window_tokens.split(BATCH_TOKENS), targets.split(BATCH_TOKENS), strict=True)
        log_probs = torch.cat(
            [self.head.softmax.log_probs(self._hidden_states(windows), target) for windows, target in batches]
        )
        ends = np.cumsum([max(0, len(row) - 1) for row in rows])[:-1]
        return np.split(log_probs.float().cpu().numpy(), ends)

    def start_decoding(self, rows: Sequence[np.ndarray], max_new_tokens: int) -> NNLMDecodingState:
        return NNLMDecodingState(self, rows)

    def head_inputs(self, rows: Sequence[np.ndarray]) -> Tensor:
        """(B, k) tokens of each sequence's last window."""
        tails = [np.asarray(row)[-self.encoder.window :] for row in rows]
        return self.window_tokens(tails)[np.cumsum([len(tail) for tail in tails]) - 1]

    def window_tokens(self, rows: Sequence[np.ndarray]) -> Tensor:
        """(T, k) tokens of the window that ends at each token."""
        tokens = to_tensor(self.model, np.concatenate(rows))
        positions = self.encoder.window_positions(tokens, [len(row) for row in rows])
        return torch.cat((tokens, tokens.new_full((1,), self.encoder.end_id)))[positions]

    def compute_logits(self, x: Tensor) -> Tensor:
        return self.head.softmax(self._hidden_states(x))

    def _hidden_states(self, windows: Tensor) -> Tensor:
        """(N, k) tokens of windows → the input of the softmax."""
        x = self.encoder.embedding(windows.flatten()).view(len(windows), -1)
        return self.head.softmax_inputs(self.encoder.hidden_layer(x), x)


class NNLMDecodingState:
    """Decoding state of NNLM: the last window of each sequence."""

    def __init__(self, predictor: WindowPredictor, rows: Sequence[np.ndarray]) -> None:
        self._predictor, self._windows = predictor, predictor.head_inputs(rows)

    def next_logits(self) -> np.ndarray:
        """(B, V) scores of the next token."""
        return self._predictor.logits(self._windows)

    def append(self, ids: np.ndarray) -> None:
        tokens = torch.from_numpy(np.asarray(ids, np.int64)).to(self._windows.device)[:, None]
        self._windows = torch.cat((self._windows[:, 1:], tokens), 1)
        self._windows[tokens.squeeze(1) == self._predictor.encoder.end_id] = self._predictor.encoder.end_id

    def select(self, rows: np.ndarray) -> None:
        self._windows = self._windows[torch.from_numpy(np.arange(len(self._windows))[np.asarray(rows)])]


# --- Transformers ---


def next_token_predictor_for(model: Model) -> TransformerPredictor | WindowPredictor | RecurrentPredictor:
    """The next-token predictor for the model's type of encoder."""
    if isinstance(model.encoder, RecurrentLMEncoder):
        return RecurrentPredictor(model)
    return WindowPredictor(model) if isinstance(model.encoder, NNLMEncoder) else TransformerPredictor(model)


class TransformerPredictor(NextTokenPredictor):
    """Next-token predictor for causal Transformers.

    The model must not be trained while decoding: its weights are packed when decoding starts.
    """

    encoder_type, head_type, example_model = Transformer, LMHead, "gpt2"
    encoder: Transformer
    head: LMHead

    @property
    def max_length(self) -> int:
        return self.encoder.max_length

    @in_inference_mode
    def score(self, rows: Sequence[np.ndarray]) -> list[np.ndarray]:
        """log P of each token of each sequence but the first, given the tokens before it that fit into the context."""
        windows = [
            (row, *window) for row, ids in enumerate(rows) for window in long_text_windows(len(ids), self.max_length)
        ]
        scores = [np.empty(max(0, len(ids) - 1), np.float32) for ids in rows]
        for batch in length_batches([end - begin for _, begin, _, end in windows]):
            batch_windows = [windows[index] for index in batch]
            states = encode_rows(self.model, [rows[row][begin:end] for row, begin, _, end in batch_windows])
            # Where windows overlap, only new positions are scored: the output layer is the expensive part.
            query_positions = [np.arange(first - 1 - begin, end - begin) for _, begin, first, end in batch_windows]
            starts = np.cumsum([0, *states.lengths[:-1]])
            token_ids = np.concatenate(
                [start + positions for start, positions in zip(starts, query_positions, strict=True)]
            )
            targets = np.concatenate([rows[row][first : end + 1] for row, _, first, end in batch_windows])
            x = states.last[to_tensor(self.model, token_ids)]
            log_probs = self.head.log_probs(x, to_tensor(self.model, targets)).cpu().numpy()
            ends = np.cumsum([len(positions) for positions in query_positions])[:-1]
            for (row, _, first, end), window_scores in zip(batch_windows, np.split(log_probs, ends), strict=True):
                scores[row][first - 1 : end] = window_scores
        return scores

    @in_inference_mode
    def next_log_probs(self, rows: Sequence[np.ndarray]) -> np.ndarray:
        """(B, V) log P of every token after each sequence."""
        visible = [ids[context_start(len(ids), self.max_length) :] for ids in rows]
        log_probs = np.empty((len(rows), self.vocab_size), np.float32)
        for batch in length_batches([len(ids) for ids in visible]):
            states = encode_rows(self.model, [visible[index] for index in batch])
            last = states.last[to_tensor(self.model, np.cumsum(states.lengths) - 1)]
            for slice_ in row_slices(len(batch), self.vocab_size):
                logits = self.head(States([last[slice_]], (1,) * len(batch[slice_])))
                log_probs[batch[slice_]] = torch.log_softmax(logits.float(), -1).cpu().numpy()
        return log_probs

    def start_decoding(self, rows: Sequence[np.ndarray], max_new_tokens: int) -> TransformerDecodingState:
        return TransformerDecodingState(self._decoder, rows, max_new_tokens)

    @cached_property
    def _decoder(self) -> IncrementalDecoder:
        return IncrementalDecoder(self.encoder, self.head)
