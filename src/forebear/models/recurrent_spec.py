"""Validation, construction and objectives shared by the recurrent language models (RNN, LSTM, CNN-RNN, ELMo)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forebear.errors import InputError
from forebear.models import spec
from forebear.objectives.input_format import InputFormat, TaskEncoderConfig
from forebear.objectives.next_token import NextToken, TokenStreams

if TYPE_CHECKING:
    from forebear.data.tokenizers.tokenizer import Tokenizer
    from forebear.models.cnn_rnn import CharCNNSpec
    from forebear.models.elmo import ElmoSpec
    from forebear.models.lstm import LSTMSpec
    from forebear.models.rnn import RNNSpec
    from forebear.nn.char_cnn import CharCNNEmbedding
    from forebear.nn.model import Model
    from forebear.nn.nnlm import WordEmbedding
    from forebear.nn.softmax import SoftmaxHead

    RecurrentSpec = CharCNNSpec | LSTMSpec | RNNSpec  # unidirectional models

SOFTMAXES = ("full", "adaptive", "sampled")
STATES = ("carried", "fresh")


def validate_recurrent(model_spec: RecurrentSpec) -> None:
    """Reject fields that define no valid recurrent language model."""
    sizes = {"width": model_spec.width, "inner": model_spec.inner}
    for name, value in (sizes | {"depth": model_spec.depth, "context": model_spec.context}).items():
        if not value > 0:
            raise InputError(f"{name} is {value}", hint="give a number above 0")
    rates = {"dropout": model_spec.dropout, "weight_dropout": model_spec.weight_dropout}
    for name, value in (rates | {"word_dropout": model_spec.word_dropout}).items():
        if not 0 <= value < 1:
            raise InputError(f"{name} is {value}", hint="give a share from 0 to below 1")
    spec.require_choice("softmax", model_spec.softmax, SOFTMAXES)
    spec.require_choice("state", model_spec.state, STATES)
    if model_spec.tied and model_spec.softmax == "adaptive":
        message = "an adaptive softmax has tables of its own: it cannot be tied to the vectors that are read"
        raise InputError(message, hint="--softmax sampled, which is as fast, or --tied no")
    if model_spec.softmax == "sampled" and model_spec.samples < 1:
        raise InputError(f"samples is {model_spec.samples}", hint="give a number of words above 0")


def unused_fields(model_spec: RecurrentSpec | ElmoSpec) -> dict[str, str]:
    """Fields without effect, by the field whose value disables them."""
    return {} if model_spec.softmax == "sampled" else {"samples": "softmax"}


def recurrent_objective(model_spec: RecurrentSpec, tokenizer: Tokenizer) -> NextToken | TokenStreams:
    """Consecutive windows of a text if states are carried over, else windows in any order."""
    (end,) = spec.special_ids(tokenizer, model_spec.needs)
    return (TokenStreams if model_spec.state == "carried" else NextToken)(model_spec.context, end)


def build_recurrent(
    model_spec: RecurrentSpec, tokenizer: Tokenizer, cell: str, embedding: WordEmbedding | CharCNNEmbedding
) -> Model:
    """Recurrent layers over the embedding, and the output softmax."""
    from forebear.nn.heads import LMHead
    from forebear.nn.model import Model
    from forebear.nn.nnlm import WordEmbedding
    from forebear.nn.recurrent import CELLS, RecurrentEncoder, RecurrentStack

    output_sizes = [model_spec.inner] * (model_spec.depth - 1) + [
        model_spec.width if model_spec.tied else model_spec.inner
    ]
    input_sizes = [embedding.width, *output_sizes[:-1]]
    weight_dropout = model_spec.weight_dropout
    layers = [
        CELLS[cell](inputs, width, weight_dropout=weight_dropout)
        for inputs, width in zip(input_sizes, output_sizes, strict=True)
    ]
    encoder = RecurrentEncoder(
        embedding,
        RecurrentStack(layers, dropout=model_spec.dropout),
        dropout=model_spec.dropout,
        word_dropout=model_spec.word_dropout,
    )
    if model_spec.tied:
        assert isinstance(embedding, WordEmbedding)
        sampled = model_spec.samples if model_spec.softmax == "sampled" else 0
        return Model(encoder, {"next": LMHead(embedding, bias=True, sampled=sampled, falling=True)})
    return Model(encoder, {"next": build_softmax_head(model_spec, output_sizes[-1], tokenizer.vocab_size)})


def build_softmax_head(model_spec: RecurrentSpec | ElmoSpec, inputs: int, vocabulary: int) -> SoftmaxHead:
    """The output softmax over the vocabulary."""
    from forebear.nn.softmax import AdaptiveSoftmax, SoftmaxHead, cluster_cutoffs

    borders = cluster_cutoffs(vocabulary) if model_spec.softmax == "adaptive" else ()
    sampled = model_spec.samples if model_spec.softmax == "sampled" else 0
    return SoftmaxHead(AdaptiveSoftmax(inputs, vocabulary, borders, sampled=sampled))


def recurrent_input_format(model_spec: RecurrentSpec, tokenizer: Tokenizer) -> InputFormat:
    """Texts start, are separated and end as documents do; max pooling."""
    (end,) = spec.special_ids(tokenizer, model_spec.needs)
    return InputFormat((end,), (end,), (end,), "max", segments=True, both_orders=True)


def word_embedding(model_spec: RecurrentSpec | ElmoSpec, tokenizer: Tokenizer) -> WordEmbedding:
    """An embedding table; tied ones are initialized small for the output and scaled up at the input."""
    from forebear.nn.nnlm import WordEmbedding

    if model_spec.tied:
        return WordEmbedding(tokenizer.vocab_size, model_spec.width, scale=model_spec.width**0.5)
    return WordEmbedding(tokenizer.vocab_size, model_spec.width, spread=1.0)


def char_cnn_embedding(model_spec: CharCNNSpec | ElmoSpec, tokenizer: Tokenizer) -> CharCNNEmbedding:
    """Word vectors from characters."""
    from forebear.data.tokenizers.char_ids import char_ids_for
    from forebear.nn.char_cnn import CharCNNEmbedding

    return CharCNNEmbedding(
        char_ids_for(tokenizer.vocabulary(), model_spec.longest, tokenizer.special_roles, tokenizer.digest),
        model_spec.width,
        symbol=model_spec.characters,
        filters=parse_filters(model_spec.filters),
        highways=model_spec.highways,
        activation=model_spec.activation,
    )


def oov_tokenizer(model_spec: CharCNNSpec | ElmoSpec, tokenizer: Tokenizer) -> Tokenizer:
    """A tokenizer without unknown words, for models that read characters."""
    from forebear.data.tokenizers.char_ids import OOVTokenizer, base_tokenizer, char_ids_for

    if not model_spec.char_level:
        return base_tokenizer(tokenizer)
    base = base_tokenizer(tokenizer)
    return OOVTokenizer(base, char_ids_for(base.vocabulary(), model_spec.longest, base.special_roles, base.digest))


def build_recurrent_task_encoder(
    model_spec: RecurrentSpec | ElmoSpec, tokenizer: Tokenizer, reader: TaskEncoderConfig
) -> Model:
    """The model's own encoder, or a task encoder over a scalar mix of its layers."""
    from forebear.nn.model import Model
    from forebear.nn.task_encoders import ScalarMixEncoder

    model = model_spec.build(tokenizer)
    if reader.kind is None:
        return model
    options = {"place": reader.mixture, "normed": reader.normed, "pairs": reader.pairs, "dropout": reader.dropout}
    return Model(ScalarMixEncoder(model.encoder, reader=reader.kind, width=reader.width, **options), {})


def parse_filters(text: str) -> list[tuple[int, int]]:
    """Parse "1:32,2:64": 32 filters of width one and 64 of width two."""
    try:
        pairs = [(int(span), int(count)) for span, _, count in (part.partition(":") for part in text.split(","))]
    except ValueError:
        pairs = []
    if not pairs or min(min(pair) for pair in pairs) < 1:
        hint = "write how many symbols a filter sees and how many there are: 1:32,2:32,3:64"
        raise InputError(f"filters are {text!r}", hint=hint)
    return pairs


def validate_char_cnn(model_spec: CharCNNSpec | ElmoSpec) -> None:
    """Reject fields that define no valid character CNN."""
    widest = max(span for span, _ in parse_filters(model_spec.filters))
    if model_spec.longest < max(widest, 4):
        message = f"longest is {model_spec.longest}, and a filter sees {widest} symbols"
        raise InputError(message, hint=f"give --longest {max(widest, 4)} or more, or narrower filters")
    spec.require_range(model_spec, characters=(1, None), highways=(0, None))
    spec.require_choice("activation", model_spec.activation, ("relu", "tanh"))
