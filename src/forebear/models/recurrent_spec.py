"""What recurrent language models are made of: checked before anything is built, then built."""

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

    Layered = CharCNNSpec | LSTMSpec | RNNSpec  # layers of one cell that read on

SOFTMAXES = ("full", "adaptive", "sampled")
STATES = ("carried", "fresh")


def validate_recurrent(milestone: Layered) -> None:
    """An error where the numbers of a milestone make no recurrent language model."""
    sizes = {"width": milestone.width, "inner": milestone.inner}
    for name, value in (sizes | {"depth": milestone.depth, "context": milestone.context}).items():
        if not value > 0:
            raise InputError(f"{name} is {value}", hint="give a number above 0")
    shares = {"dropout": milestone.dropout, "weight_dropout": milestone.weight_dropout}
    for name, value in (shares | {"word_dropout": milestone.word_dropout}).items():
        if not 0 <= value < 1:
            raise InputError(f"{name} is {value}", hint="give a share from 0 to below 1")
    spec.require_choice("softmax", milestone.softmax, SOFTMAXES)
    spec.require_choice("state", milestone.state, STATES)
    if milestone.tied and milestone.softmax == "adaptive":
        what = "an adaptive softmax has tables of its own: it cannot be tied to the vectors that are read"
        raise InputError(what, hint="--softmax sampled, which is as fast, or --tied no")
    if milestone.softmax == "sampled" and milestone.samples < 1:
        raise InputError(f"samples is {milestone.samples}", hint="give a number of words above 0")


def unused_fields(milestone: Layered | ElmoSpec) -> dict[str, str]:
    """Fields that mean nothing beside the value of another."""
    return {} if milestone.softmax == "sampled" else {"samples": "softmax"}


def recurrent_objective(milestone: Layered, tokenizer: Tokenizer) -> NextToken | TokenStreams:
    """Windows of a text one after the other, or in any order where nothing is carried over."""
    (end,) = spec.special_ids(tokenizer, milestone.needs)
    return (TokenStreams if milestone.state == "carried" else NextToken)(milestone.context, end)


def build_recurrent(
    milestone: Layered, tokenizer: Tokenizer, cell: str, embedding: WordEmbedding | CharCNNEmbedding
) -> Model:
    """Layers of this cell above the embedding, and what predicts the next token by them."""
    from forebear.nn.heads import LMHead
    from forebear.nn.model import Model
    from forebear.nn.nnlm import WordEmbedding
    from forebear.nn.recurrent import CELLS, RecurrentEncoder, RecurrentStack

    outs = [milestone.inner] * (milestone.depth - 1) + [milestone.width if milestone.tied else milestone.inner]
    ins = [embedding.width, *outs[:-1]]
    drop = milestone.weight_dropout
    layers = [CELLS[cell](inputs, width, weight_dropout=drop) for inputs, width in zip(ins, outs, strict=True)]
    encoder = RecurrentEncoder(
        embedding,
        RecurrentStack(layers, dropout=milestone.dropout),
        dropout=milestone.dropout,
        word_dropout=milestone.word_dropout,
    )
    if milestone.tied:
        assert isinstance(embedding, WordEmbedding)
        sampled = milestone.samples if milestone.softmax == "sampled" else 0
        return Model(encoder, {"next": LMHead(embedding, bias=True, sampled=sampled, falling=True)})
    return Model(encoder, {"next": build_softmax_head(milestone, outs[-1], tokenizer.vocab_size)})


def build_softmax_head(milestone: Layered | ElmoSpec, inputs: int, vocabulary: int) -> SoftmaxHead:
    """What weighs all words by so many numbers."""
    from forebear.nn.softmax import AdaptiveSoftmax, SoftmaxHead, cluster_cutoffs

    borders = cluster_cutoffs(vocabulary) if milestone.softmax == "adaptive" else ()
    sampled = milestone.samples if milestone.softmax == "sampled" else 0
    return SoftmaxHead(AdaptiveSoftmax(inputs, vocabulary, borders, sampled=sampled))


def recurrent_input_format(milestone: Layered, tokenizer: Tokenizer) -> InputFormat:
    """Texts begin, part and end as documents do; of a row each number's largest stands for it, wherever it was."""
    (end,) = spec.special_ids(tokenizer, milestone.needs)
    return InputFormat((end,), (end,), (end,), "max", segments=True, both_orders=True)


def word_embedding(milestone: Layered | ElmoSpec, tokenizer: Tokenizer) -> WordEmbedding:
    """A table of vectors. They come in as large as what goes round; those that score words too are read larger than
    they are."""
    from forebear.nn.nnlm import WordEmbedding

    if milestone.tied:
        return WordEmbedding(tokenizer.vocab_size, milestone.width, scale=milestone.width**0.5)
    return WordEmbedding(tokenizer.vocab_size, milestone.width, spread=1.0)


def char_cnn_embedding(milestone: CharCNNSpec | ElmoSpec, tokenizer: Tokenizer) -> CharCNNEmbedding:
    """Vectors of words by how they are written."""
    from forebear.data.tokenizers.char_ids import char_ids_for
    from forebear.nn.char_cnn import CharCNNEmbedding

    return CharCNNEmbedding(
        char_ids_for(tokenizer.vocabulary(), milestone.longest, tokenizer.special_roles, tokenizer.digest),
        milestone.width,
        symbol=milestone.characters,
        filters=filters(milestone.filters),
        highways=milestone.highways,
        activation=milestone.activation,
    )


def oov_tokenizer(milestone: CharCNNSpec | ElmoSpec, tokenizer: Tokenizer) -> Tokenizer:
    """A tokenizer to which no word is unknown, where words are read by how they are written."""
    from forebear.data.tokenizers.char_ids import OOVTokenizer, base_tokenizer, char_ids_for

    if not milestone.char_level:
        return base_tokenizer(tokenizer)
    made = base_tokenizer(tokenizer)
    return OOVTokenizer(made, char_ids_for(made.vocabulary(), milestone.longest, made.special_roles, made.digest))


def build_recurrent_task_encoder(
    milestone: Layered | ElmoSpec, tokenizer: Tokenizer, reader: TaskEncoderConfig
) -> Model:
    """Its own encoder, or a reader above a mixture of its layers."""
    from forebear.nn.model import Model
    from forebear.nn.task_encoders import ScalarMixEncoder

    own = milestone.build(tokenizer)
    if reader.kind is None:
        return own
    how = {"place": reader.mixture, "normed": reader.normed, "pairs": reader.pairs, "dropout": reader.dropout}
    return Model(ScalarMixEncoder(own.encoder, reader=reader.kind, width=reader.width, **how), {})


def filters(told: str) -> list[tuple[int, int]]:
    """1:32,2:64 are 32 filters that see one symbol, and 64 that see two."""
    try:
        found = [(int(span), int(count)) for span, _, count in (one.partition(":") for one in told.split(","))]
    except ValueError:
        found = []
    if not found or min(min(pair) for pair in found) < 1:
        hint = "write how many symbols a filter sees and how many there are: 1:32,2:32,3:64"
        raise InputError(f"filters are {told!r}", hint=hint)
    return found


def validate_char_cnn(milestone: CharCNNSpec | ElmoSpec) -> None:
    """An error where the numbers of a milestone make no filters over symbols."""
    widest = max(span for span, _ in filters(milestone.filters))
    if milestone.longest < max(widest, 4):
        what = f"longest is {milestone.longest}, and a filter sees {widest} symbols"
        raise InputError(what, hint=f"give --longest {max(widest, 4)} or more, or narrower filters")
    spec.require_range(milestone, characters=(1, None), highways=(0, None))
    spec.require_choice("activation", milestone.activation, ("relu", "tanh"))
