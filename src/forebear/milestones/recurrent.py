"""What recurrent language models are made of: checked before anything is built, then built."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forebear.errors import BadInput
from forebear.milestones import shape
from forebear.objectives.layout import Layout, Reader
from forebear.objectives.next_token import NextToken
from forebear.objectives.streams import Streams

if TYPE_CHECKING:
    from forebear.milestones.cnn_rnn import CnnRnn
    from forebear.milestones.elmo import Elmo
    from forebear.milestones.lstm import Lstm
    from forebear.milestones.rnn import Rnn
    from forebear.networks.characters import Spelled
    from forebear.networks.model import Model
    from forebear.networks.softmax import SoftmaxHead
    from forebear.networks.window import Words
    from forebear.text.tokenizer import Tokenizer

    Layered = CnnRnn | Lstm | Rnn  # layers of one cell that read on

SOFTMAXES = ("full", "adaptive", "sampled")
STATES = ("carried", "fresh")


def check(milestone: Layered) -> None:
    """An error where the numbers of a milestone make no recurrent language model."""
    sizes = {"width": milestone.width, "inner": milestone.inner}
    for name, value in (sizes | {"depth": milestone.depth, "context": milestone.context}).items():
        if not value > 0:
            raise BadInput(f"{name} is {value}", remedy="give a number above 0")
    shares = {"dropout": milestone.dropout, "weight_dropout": milestone.weight_dropout}
    for name, value in (shares | {"word_dropout": milestone.word_dropout}).items():
        if not 0 <= value < 1:
            raise BadInput(f"{name} is {value}", remedy="give a share from 0 to below 1")
    shape.one_of("softmax", milestone.softmax, SOFTMAXES)
    shape.one_of("state", milestone.state, STATES)
    if milestone.tied and milestone.softmax == "adaptive":
        what = "an adaptive softmax has tables of its own: it cannot be tied to the vectors that are read"
        raise BadInput(what, remedy="--softmax sampled, which is as fast, or --tied no")
    if milestone.softmax == "sampled" and milestone.samples < 1:
        raise BadInput(f"samples is {milestone.samples}", remedy="give a number of words above 0")


def idle(milestone: Layered | Elmo) -> dict[str, str]:
    """Fields that mean nothing beside the value of another."""
    return {} if milestone.softmax == "sampled" else {"samples": "softmax"}


def objective(milestone: Layered, tokenizer: Tokenizer) -> NextToken | Streams:
    """Windows of a text one after the other, or in any order where nothing is carried over."""
    (end,) = shape.roles(tokenizer, milestone.needs)
    return (Streams if milestone.state == "carried" else NextToken)(milestone.context, end)


def network(milestone: Layered, tokenizer: Tokenizer, cell: str, embedding: Words | Spelled) -> Model:
    """Layers of this cell above the embedding, and what predicts the next token by them."""
    from forebear.networks.heads import TokenHead
    from forebear.networks.model import Model
    from forebear.networks.recurrence import CELLS, Stack
    from forebear.networks.recurrent import Recurrent
    from forebear.networks.window import Words

    outs = [milestone.inner] * (milestone.depth - 1) + [milestone.width if milestone.tied else milestone.inner]
    ins = [embedding.width, *outs[:-1]]
    drop = milestone.weight_dropout
    layers = [CELLS[cell](inputs, width, weight_dropout=drop) for inputs, width in zip(ins, outs, strict=True)]
    encoder = Recurrent(
        embedding,
        Stack(layers, dropout=milestone.dropout),
        dropout=milestone.dropout,
        word_dropout=milestone.word_dropout,
    )
    if milestone.tied:
        assert isinstance(embedding, Words)
        sampled = milestone.samples if milestone.softmax == "sampled" else 0
        return Model(encoder, {"next": TokenHead(embedding, bias=True, sampled=sampled, falling=True)})
    return Model(encoder, {"next": softmax_head(milestone, outs[-1], tokenizer.size)})


def softmax_head(milestone: Layered | Elmo, inputs: int, vocabulary: int) -> SoftmaxHead:
    """What weighs all words by so many numbers."""
    from forebear.networks.softmax import Softmax, SoftmaxHead, borders_for

    borders = borders_for(vocabulary) if milestone.softmax == "adaptive" else ()
    sampled = milestone.samples if milestone.softmax == "sampled" else 0
    return SoftmaxHead(Softmax(inputs, vocabulary, borders, sampled=sampled))


def layout(milestone: Layered, tokenizer: Tokenizer) -> Layout:
    """Texts begin, part and end as documents do; of a row each number's largest stands for it, wherever it was."""
    (end,) = shape.roles(tokenizer, milestone.needs)
    return Layout((end,), (end,), (end,), "max", segments=True, both_orders=True)


def words(milestone: Layered | Elmo, tokenizer: Tokenizer) -> Words:
    """A table of vectors. They come in as large as what goes round; those that score words too are read larger than
    they are."""
    from forebear.networks.window import Words

    if milestone.tied:
        return Words(tokenizer.size, milestone.width, scale=milestone.width**0.5)
    return Words(tokenizer.size, milestone.width, spread=1.0)


def spelled(milestone: CnnRnn | Elmo, tokenizer: Tokenizer) -> Spelled:
    """Vectors of words by how they are written."""
    from forebear.networks.characters import Spelled
    from forebear.text.spelling import spelling_of

    return Spelled(
        spelling_of(tokenizer.tokens(), milestone.longest, tokenizer.roles, tokenizer.digest),
        milestone.width,
        symbol=milestone.characters,
        filters=filters(milestone.filters),
        highways=milestone.highways,
        activation=milestone.activation,
    )


def reading(milestone: CnnRnn | Elmo, tokenizer: Tokenizer) -> Tokenizer:
    """A tokenizer to which no word is unknown, where words are read by how they are written."""
    from forebear.text.spelling import spelling_of
    from forebear.text.unlisted import SpellingTokenizer, plain

    if not milestone.spells:
        return plain(tokenizer)
    made = plain(tokenizer)
    return SpellingTokenizer(made, spelling_of(made.tokens(), milestone.longest, made.roles, made.digest))


def task_network(milestone: Layered | Elmo, tokenizer: Tokenizer, reader: Reader) -> Model:
    """Its own encoder, or a reader above a mixture of its layers."""
    from forebear.networks.mixed_reader import MixedReader
    from forebear.networks.model import Model

    own = milestone.network(tokenizer)
    if reader.kind is None:
        return own
    how = {"place": reader.mixture, "normed": reader.normed, "pairs": reader.pairs, "dropout": reader.dropout}
    return Model(MixedReader(own.encoder, reader=reader.kind, width=reader.width, **how), {})


def filters(told: str) -> list[tuple[int, int]]:
    """1:32,2:64 are 32 filters that see one symbol, and 64 that see two."""
    try:
        found = [(int(span), int(count)) for span, _, count in (one.partition(":") for one in told.split(","))]
    except ValueError:
        found = []
    if not found or min(min(pair) for pair in found) < 1:
        remedy = "write how many symbols a filter sees and how many there are: 1:32,2:32,3:64"
        raise BadInput(f"filters are {told!r}", remedy=remedy)
    return found


def check_spelling(milestone: CnnRnn | Elmo) -> None:
    """An error where the numbers of a milestone make no filters over symbols."""
    widest = max(span for span, _ in filters(milestone.filters))
    if milestone.longest < max(widest, 4):
        what = f"longest is {milestone.longest}, and a filter sees {widest} symbols"
        raise BadInput(what, remedy=f"give --longest {max(widest, 4)} or more, or narrower filters")
    shape.within(milestone, characters=(1, None), highways=(0, None))
    shape.one_of("activation", milestone.activation, ("relu", "tanh"))
