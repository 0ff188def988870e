"""Task encoders over word vectors: mean, CNN and BiLSTM.

Each text is encoded separately: word by word ("mean", pooled by the head), with neighboring words ("convolution"), or
in both directions ("recurrent"). In a pair of texts, each word first attends to the other text.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional

from forebear.errors import InputError
from forebear.nn.encoder import Encoder, Lengths, States, to_lengths
from forebear.nn.layers import Initializable, deferred_linear
from forebear.nn.nnlm import WordEmbedding
from forebear.nn.recurrent import LSTMLayer

FILTER_WIDTHS = (3, 4, 5)  # filter widths in words (Kim 2014)
TEXT_GAP = max(FILTER_WIDTHS) - 1  # zeros between texts, so that no filter spans two
ATTENTION_SHARPNESS = 10.0  # factor of the cosines: attention concentrates on similar words
MIN_NORM = 1e-6  # lower bound of vector norms


class DecomposableAttention(nn.Module):
    """Compares a word with its aligned words in the other text (Parikh et al. 2016): (T, D) twice → (T, W)."""

    def __init__(self, input_size: int, width: int) -> None:
        super().__init__()
        self.compare = deferred_linear(4 * input_size, width)

    def forward(self, x: Tensor, other: Tensor) -> Tensor:
        return torch.relu(self.compare(torch.cat((x, other, (x - other).abs(), x * other), 1)))


class PointwiseLayer(nn.Module):
    """A dense layer applied to each word."""

    def __init__(self, input_size: int, width: int) -> None:
        super().__init__()
        self.layer = deferred_linear(input_size, width)

    def forward(self, x: Tensor, lengths: tuple[int, ...]) -> Tensor:
        """(T, D) → (T, W)."""
        return torch.relu(self.layer(x))


class DeferredConv1d(nn.Conv1d, Initializable):
    """`nn.Conv1d` without initialization."""

    def __init__(self, input_size: int, num_filters: int, filter_width: int) -> None:
        super().__init__(input_size, num_filters, filter_width, device="meta")
        self.init_std = (input_size * filter_width) ** -0.5

    def reset_parameters(self) -> None: ...


class ConvolutionLayer(nn.Module):
    """Convolutions with about equally many filters of each of the FILTER_WIDTHS."""

    def __init__(self, input_size: int, width: int) -> None:
        super().__init__()
        counts = [(width + index) // len(FILTER_WIDTHS) for index in range(len(FILTER_WIDTHS))]
        filters = zip(FILTER_WIDTHS, counts, strict=True)
        self.filters = nn.ModuleList(DeferredConv1d(input_size, count, size) for size, count in filters if count)

    def forward(self, x: Tensor, lengths: tuple[int, ...]) -> Tensor:
        """Texts are concatenated with zeros between them: no filter spans two texts."""
        sizes, numbers = torch.tensor(lengths, device=x.device), torch.arange(1, len(lengths) + 1, device=x.device)
        positions = torch.arange(len(x), device=x.device) + TEXT_GAP * numbers.repeat_interleave(sizes)
        padded = x.new_zeros(len(x) + TEXT_GAP * (len(lengths) + 1), x.shape[1]).index_copy(0, positions, x).t()[None]
        outputs = []
        for layer in self.filters:
            assert isinstance(layer, DeferredConv1d)
            outputs.append(layer(padded)[0].t()[positions - (layer.kernel_size[0] - 1) // 2])
        return torch.relu(torch.cat(outputs, 1))


class BiRecurrentLayer(nn.Module):
    """A bidirectional LSTM, half of the units in each direction."""

    def __init__(self, input_size: int, width: int) -> None:
        super().__init__()
        if width % 2:
            message = f"a width of {width} cannot be shared by two directions"
            raise InputError(message, hint=f"--reader-width {width + 1}, or another --reader")
        self.onward, self.back = (LSTMLayer(input_size, width // 2, backward=backward) for backward in (False, True))

    def forward(self, x: Tensor, lengths: tuple[int, ...]) -> Tensor:
        return torch.cat((self.onward(x, lengths)[0], self.back(x, lengths)[0]), 1)


TASK_ENCODERS = {"mean": PointwiseLayer, "convolution": ConvolutionLayer, "recurrent": BiRecurrentLayer}


class TaskEncoder(Encoder):
    """Word vectors and a task encoder over them.

    kind     "mean", "convolution", "recurrent"; None: the word vectors themselves, without parameters
    width    output size of the task encoder
    is_pair  whether sequences hold two texts to be compared
    """

    depth, max_length, sees = 1, None, "text"
    embedding: WordEmbedding

    def __init__(
        self, words: WordEmbedding, *, kind: str | None, width: int, is_pair: bool, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.embedding, self.is_pair = words, is_pair  # pyright: ignore[reportIncompatibleVariableOverride]
        self.width = words.width if kind is None else width
        self.matching = DecomposableAttention(words.width, width) if is_pair and kind is not None else None
        input_size = words.width if self.matching is None else width
        self.body = None if kind is None else TASK_ENCODERS[kind](input_size, width)

    @property
    def widths(self) -> tuple[int, int]:
        return self.embedding.width, self.width

    def lower_parameters(self, num_layers: int) -> Iterator[nn.Parameter]:
        """The word vectors; with the one layer, all parameters."""
        yield from self.embedding.parameters() if num_layers < 1 else self.parameters()

    def forward(
        self, tokens: Tensor, lengths: Lengths, segments: Tensor | None = None, positions: Tensor | None = None
    ) -> States:
        row_lengths = to_lengths(lengths)
        x = self.dropout(self.embedding(tokens))
        y, text_lengths = x, row_lengths
        if self.is_pair:
            text_lengths = split_text_lengths(row_lengths, segments)
            other = attend_other_text(x, text_lengths)
            y = (x - other).abs() if self.matching is None else self.matching(x, other)
        if self.body is not None:
            nonempty = tuple(length for length in text_lengths if length)
            y = self.body(y, nonempty) if nonempty else y.new_zeros(0, self.width)
        return States([x, y], row_lengths)


def split_text_lengths(row_lengths: tuple[int, ...], segments: Tensor | None) -> tuple[int, ...]:
    """Lengths of the first and second text of each sequence in turn; either may be empty."""
    if segments is None:
        return tuple(text_length for length in row_lengths for text_length in (length, 0))
    second_lengths = [int(row.sum()) for row in segments.split(list(row_lengths))]
    return tuple(
        text_length
        for length, second in zip(row_lengths, second_lengths, strict=True)
        for text_length in (length - second, second)
    )


def attend_other_text(x: Tensor, text_lengths: tuple[int, ...]) -> Tensor:
    """(T, D) for each word the mean of the other text's words, weighted by similarity; zeros if there are none.

    `text_lengths` are as returned by `split_text_lengths`. An extra zero vector with score 0 lets words without
    similar ones attend to nothing.
    """
    sizes, text_vectors = torch.tensor(text_lengths, device=x.device), x.split(list(text_lengths))
    padded = [nn.utils.rnn.pad_sequence(list(text_vectors[index::2]), batch_first=True) for index in (0, 1)]
    # Padding gets no attention.
    masks = [torch.arange(padded[index].shape[1], device=x.device) < sizes[index::2, None] for index in (0, 1)]
    first, second = (vectors / vectors.norm(dim=2, keepdim=True).clamp(min=MIN_NORM) for vectors in padded)
    scores = ATTENTION_SHARPNESS * first @ second.transpose(1, 2)
    first_contexts = _attend_to_words(scores, padded[1], masks[1])[masks[0]]
    second_contexts = _attend_to_words(scores.transpose(1, 2), padded[0], masks[0])[masks[1]]
    text_index = (torch.arange(len(text_lengths), device=x.device) % 2).repeat_interleave(sizes)
    original_order = text_index.argsort(stable=True).argsort()
    return torch.cat((first_contexts, second_contexts))[original_order]


def _attend_to_words(scores: Tensor, vectors: Tensor, is_word: Tensor) -> Tensor:
    """(B, n, m) scores and (B, m, D) vectors → (B, n, D)."""
    scores = scores.masked_fill(~is_word[:, None], float("-inf"))
    return functional.pad(scores, (0, 1)).softmax(2)[..., :-1] @ vectors
