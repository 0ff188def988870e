"""A recurrent network with a head `next`, asked for probabilities: all it remembers of a row is its state."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from forebear.errors import ForebearError, InputError
from forebear.nn.encode_rows import BATCH_TOKENS, encode_rows, length_batches, to_tensor
from forebear.nn.encoder import States
from forebear.nn.heads import LMHead
from forebear.nn.kv_cache import IncrementalDecoder, TransformerDecodingState, context_start, long_text_windows
from forebear.nn.model import Model
from forebear.nn.nnlm import NNLMEncoder, NNLMHead
from forebear.nn.recurrent import BiLMEncoder, RecurrentEncoder, RecurrentState
from forebear.nn.softmax import SoftmaxHead, row_slices
from forebear.nn.transformer import Transformer


class RecurrentCausalLM:
    """What n-grams can be asked too (`using.predicting.Predictor`). Ids and numpy outside, torch inside.

    Every row begins with nothing known, so that the same text always gets the same answer; it may be of any length, and
    is read in pieces.
    """

    is_pseudo_likelihood = False  # what it says of a text's tokens are factors of the text's probability

    def __init__(self, model: Model) -> None:
        encoder, head = model.encoder, dict(model.heads.items()).get("next")
        if not isinstance(encoder, RecurrentEncoder | BiLMEncoder) or not isinstance(head, LMHead | SoftmaxHead):
            hint = "ask one that was trained to, such as lstm"
            raise InputError("this model does not predict the next token by a state", hint=hint)
        self.model, self.encoder, self.head = model.eval(), encoder, head
        self._borders = encoder.borders if isinstance(encoder, BiLMEncoder) else None

    def _begun(self, row: np.ndarray) -> np.ndarray:
        """A row as this network begins texts: with the token that ends one everywhere else, perhaps not here."""
        if self._borders is None or self._borders[0] == self._borders[1] or row[0] != self._borders[1]:
            return np.asarray(row)
        return np.concatenate(([self._borders[0]], row[1:]))

    @property
    def vocab_size(self) -> int:
        return self.head.vocab_size

    @property
    def max_length(self) -> None:
        """Rows of any length can be read."""
        return

    @torch.inference_mode()
    def score(self, rows: Sequence[np.ndarray]) -> list[np.ndarray]:
        """log P of each token of each row but its first, given all before it."""
        found = [np.empty(max(0, len(row) - 1), np.float32) for row in rows]
        asked = [number for number, row in enumerate(rows) if len(row) > 1]
        for batch in length_batches([len(rows[number]) - 1 for number in asked]):
            mine = [asked[number] for number in batch]
            for begin, alive, states, _ in self._pieces([self._begun(rows[number])[:-1] for number in mine]):
                there = [found[number][begin : begin + size] for number, size in zip(mine, alive, strict=False)]
                targets = [
                    np.asarray(rows[number])[begin + 1 : begin + 1 + size]
                    for number, size in zip(mine, alive, strict=False)
                ]
                told = self.head.log_probs(states, to_tensor(self.model, np.concatenate(targets)))
                for place, part in zip(there, told.float().cpu().split(list(alive)), strict=True):
                    place[:] = part.numpy()
        return found

    @torch.inference_mode()
    def next_log_probs(self, rows: Sequence[np.ndarray]) -> np.ndarray:
        """(B, V) log P of every token after each row."""
        return torch.log_softmax(torch.from_numpy(self.logits(self.last_states(rows)[0])), -1).numpy()

    def read(self, rows: Sequence[np.ndarray], room: int) -> RecurrentDecodingState:
        return RecurrentDecodingState(self, rows)

    @torch.inference_mode()
    def last_states(self, rows: Sequence[np.ndarray]) -> tuple[Tensor, list[RecurrentState]]:
        """(B, D) what the head reads of each row's last token, and the states of all layers then."""
        like = next(one for one in self.model.parameters() if one.is_floating_point())  # others are small integers
        stack = self.encoder.layers
        x, states = like.new_empty(len(rows), stack.each()[-1].out), stack.zero_state(len(rows), like)
        for batch in length_batches([len(row) for row in rows]):
            for _, alive, vectors, left in self._pieces([self._begun(rows[number]) for number in batch]):
                mine = torch.tensor(batch[: len(alive)])
                x[mine] = vectors[torch.tensor(alive).cumsum(0) - 1]
                for held, state in zip(states, left, strict=True):
                    for part, new in zip(held, state, strict=True):
                        part[mine] = new
        return x, states

    @torch.inference_mode()
    def logits(self, x: Tensor) -> np.ndarray:
        """(N, D) what the head reads → (N, V) log P up to a constant."""
        found = np.empty((len(x), self.vocab_size), np.float32)
        for part in row_slices(len(x), self.vocab_size):
            found[part] = self.head.logits_from(self.head.transform_states(x[part])).float().cpu().numpy()
        return found

    def _pieces(self, rows: Sequence[np.ndarray]):
        """Rows, the longest first, read as far at a time as fills the processor: where a piece begins, how many tokens
        each row that is not over has in it, their (T, D) vectors, and the states that they are left in."""
        width = max(1, BATCH_TOKENS // len(rows))
        states: list[RecurrentState] | None = None
        for begin in range(0, len(rows[0]), width):
            parts = [row[begin : begin + width] for row in rows if len(row) > begin]
            if states is not None:
                states = [tuple(part[: len(parts)] for part in state) for state in states]
            alive = tuple(map(len, parts))
            vectors, states = self.encoder.encode(to_tensor(self.model, np.concatenate(parts)), alive, states)
            yield begin, alive, vectors, states


class RecurrentDecodingState:
    """Rows that are being continued (a `Reader`): only their states matter."""

    def __init__(self, predictor: RecurrentCausalLM, rows: Sequence[np.ndarray]) -> None:
        self._predictor = predictor
        self._x, self._states = predictor.last_states(rows)

    def next_logits(self) -> np.ndarray:
        """(B, V) scores of the next token."""
        return self._predictor.logits(self._x)

    @torch.inference_mode()
    def append(self, ids: np.ndarray) -> None:
        tokens = to_tensor(self._predictor.model, np.asarray(ids))
        if len(tokens):
            self._x, self._states = self._predictor.encoder.advance(tokens, self._states)

    @torch.inference_mode()
    def select(self, rows: np.ndarray) -> None:
        chosen = torch.from_numpy(np.arange(len(self._x))[np.asarray(rows)])
        self._x = self._x[chosen]
        self._states = [tuple(part[chosen] for part in state) for state in self._states]


# A network with a window and a head `next`, asked for probabilities: all it remembers of a row are its last words.


class WindowCausalLM:
    """What n-grams can be asked too (`using.predicting.Predictor`). Ids and numpy outside, torch inside."""

    is_pseudo_likelihood = False  # what it says of a text's tokens are factors of the text's probability

    def __init__(self, model: Model) -> None:
        encoder, head = model.encoder, dict(model.heads.items()).get("next")
        if not isinstance(encoder, NNLMEncoder) or not isinstance(head, NNLMHead):
            hint = "ask one that was trained to, such as nnlm"
            raise InputError("this model does not predict the next word through a window", hint=hint)
        self.model, self.encoder, self.head = model.eval(), encoder, head

    @property
    def vocab_size(self) -> int:
        return self.head.vocab_size

    @property
    def max_length(self) -> None:
        """Rows of any length can be read: what lies too far back is simply not looked at."""
        return

    @torch.inference_mode()
    def score(self, rows: Sequence[np.ndarray]) -> list[np.ndarray]:
        """log P of each token of each row but its first, given the window before it."""
        seen = [np.asarray(row)[:-1] for row in rows if len(row) > 1]
        if not seen:
            return [np.empty(0, np.float32) for _ in rows]
        words = self.window_words(seen)
        targets = to_tensor(self.model, np.concatenate([np.asarray(row)[1:] for row in rows]))
        parts = zip(words.split(BATCH_TOKENS), targets.split(BATCH_TOKENS), strict=True)
        told = torch.cat([self.head.softmax.log_probs(self._read(part), target) for part, target in parts])
        ends = np.cumsum([max(0, len(row) - 1) for row in rows])[:-1]
        return np.split(told.float().cpu().numpy(), ends)

    @torch.inference_mode()
    def next_log_probs(self, rows: Sequence[np.ndarray]) -> np.ndarray:
        """(B, V) log P of every token after each row."""
        return torch.log_softmax(torch.from_numpy(self.logits(self.last_windows(rows))), -1).numpy()

    def read(self, rows: Sequence[np.ndarray], room: int) -> NNLMDecodingState:
        return NNLMDecodingState(self, rows)

    def last_windows(self, rows: Sequence[np.ndarray]) -> Tensor:
        """(B, k) the words of each row's last window."""
        tails = [np.asarray(row)[-self.encoder.window :] for row in rows]
        return self.window_words(tails)[np.cumsum([len(tail) for tail in tails]) - 1]

    def window_words(self, rows: Sequence[np.ndarray]) -> Tensor:
        """(T, k) the words of each token's window."""
        tokens = to_tensor(self.model, np.concatenate(rows))
        places = self.encoder.window_positions(tokens, [len(row) for row in rows])
        return torch.cat((tokens, tokens.new_full((1,), self.encoder.end)))[places]

    @torch.inference_mode()
    def logits(self, words: Tensor) -> np.ndarray:
        """(N, k) words → (N, V) what follows: log P up to a constant."""
        found = np.empty((len(words), self.vocab_size), np.float32)
        for part in row_slices(len(words), self.vocab_size):
            found[part] = self.head.softmax(self._read(words[part])).float().cpu().numpy()
        return found

    def _read(self, words: Tensor) -> Tensor:
        """(N, k) words → what the head scores."""
        x = self.encoder.embedding(words.flatten()).view(len(words), -1)
        return self.head.read(self.encoder.hidden_layer(x), x)


class NNLMDecodingState:
    """Rows that are being continued (a `Reader`): only their last windows matter."""

    def __init__(self, predictor: WindowCausalLM, rows: Sequence[np.ndarray]) -> None:
        self._predictor, self._words = predictor, predictor.last_windows(rows)

    def next_logits(self) -> np.ndarray:
        """(B, V) scores of the next token."""
        return self._predictor.logits(self._words)

    def append(self, ids: np.ndarray) -> None:
        taken = torch.from_numpy(np.asarray(ids, np.int64)).to(self._words.device)[:, None]
        self._words = torch.cat((self._words[:, 1:], taken), 1)
        self._words[taken.squeeze(1) == self._predictor.encoder.end] = self._predictor.encoder.end

    def select(self, rows: np.ndarray) -> None:
        self._words = self._words[torch.from_numpy(np.arange(len(self._words))[np.asarray(rows)])]


# A network with a head `next`, asked for probabilities: of whole rows, of what follows them, or token by token.


def causal_lm_for(model: Model) -> TransformerCausalLM | WindowCausalLM | RecurrentCausalLM:
    """What asks this model for the next token: it depends on what its encoder remembers."""
    if isinstance(model.encoder, RecurrentEncoder | BiLMEncoder):
        return RecurrentCausalLM(model)
    return WindowCausalLM(model) if isinstance(model.encoder, NNLMEncoder) else TransformerCausalLM(model)


class TransformerCausalLM:
    """What n-grams can be asked too (`using.predicting.Predictor`). Ids and numpy outside, torch inside.

    The model must not learn meanwhile: its weights are laid out anew when rows are first read token by token.
    """

    is_pseudo_likelihood = False  # what it says of a text's tokens are factors of the text's probability

    def __init__(self, model: Model) -> None:
        encoder, head = model.encoder, dict(model.heads.items()).get("next")
        if not isinstance(encoder, Transformer) or encoder.sees != "past" or not isinstance(head, LMHead):
            raise ForebearError(
                "this model does not predict the next token from those before it",
                hint="ask one that was trained to, such as gpt2",
            )
        self.model, self.encoder, self.head = model.eval(), encoder, head

    @property
    def vocab_size(self) -> int:
        return self.encoder.embedding.vocabulary

    @property
    def max_length(self) -> int:
        return self.encoder.context

    @torch.inference_mode()
    def score(self, rows: Sequence[np.ndarray]) -> list[np.ndarray]:
        """log P of each token of each row but its first, given those before it (as many as the context holds)."""
        parts = [
            (row, *window) for row, ids in enumerate(rows) for window in long_text_windows(len(ids), self.max_length)
        ]
        found = [np.empty(max(0, len(ids) - 1), np.float32) for ids in rows]
        for batch in length_batches([end - begin for _, begin, _, end in parts]):
            chosen = [parts[number] for number in batch]
            states = encode_rows(self.model, [rows[row][begin:end] for row, begin, _, end in chosen])
            # Of a window that overlaps another only the new part is asked for; the vocabulary is the dear part.
            asked = [np.arange(first - 1 - begin, end - begin) for _, begin, first, end in chosen]
            starts = np.cumsum([0, *states.lengths[:-1]])
            where = np.concatenate([start + places for start, places in zip(starts, asked, strict=True)])
            targets = np.concatenate([rows[row][first : end + 1] for row, _, first, end in chosen])
            answers = self._log_probabilities(states.last[to_tensor(self.model, where)], to_tensor(self.model, targets))
            ends = np.cumsum([len(places) for places in asked])[:-1]
            for (row, _, first, end), answer in zip(chosen, np.split(answers, ends), strict=True):
                found[row][first - 1 : end] = answer
        return found

    @torch.inference_mode()
    def next_log_probs(self, rows: Sequence[np.ndarray]) -> np.ndarray:
        """(B, V) log P of every token after each row."""
        cut = [ids[context_start(len(ids), self.max_length) :] for ids in rows]
        found = np.empty((len(rows), self.vocab_size), np.float32)
        for batch in length_batches([len(ids) for ids in cut]):
            states = encode_rows(self.model, [cut[number] for number in batch])
            last = states.last[to_tensor(self.model, np.cumsum(states.lengths) - 1)]
            for part in row_slices(len(batch), self.vocab_size):
                logits = self.head(States([last[part]], (1,) * len(batch[part])))
                found[batch[part]] = torch.log_softmax(logits.float(), -1).cpu().numpy()
        return found

    def read(self, rows: Sequence[np.ndarray], room: int) -> TransformerDecodingState:
        return TransformerDecodingState(self._decoder, rows, room)

    @cached_property
    def _decoder(self) -> IncrementalDecoder:
        return IncrementalDecoder(self.encoder, self.head)

    def _log_probabilities(self, x: Tensor, targets: Tensor) -> np.ndarray:
        found = self.head.log_probs(x, targets)
        return found.float().cpu().numpy()
