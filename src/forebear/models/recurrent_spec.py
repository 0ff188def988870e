"""Fields, objective, softmax and task encoders shared by the recurrent language models (RNN, LSTM, CNN-RNN, ELMo)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

from forebear.errors import InputError
from forebear.models import spec
from forebear.models.spec import ModelSpec
from forebear.objectives.input_format import InputFormat, TaskEncoderConfig
from forebear.objectives.next_token import NextToken, TokenStreams

if TYPE_CHECKING:
    from forebear.data.tokenizers.tokenizer import Tokenizer
    from forebear.models.cnn_rnn import CharCNNSpec
    from forebear.models.elmo import ElmoSpec
    from forebear.nn.char_cnn import CharCNNEmbedding
    from forebear.nn.model import Model
    from forebear.nn.nnlm import WordEmbedding
    from forebear.nn.softmax import SoftmaxHead
    from forebear.objectives.objective import Objective

SOFTMAXES = ("full", "adaptive", "sampled")
STATES = ("carried", "fresh")


@dataclass(frozen=True)
class RecurrentSpec(ModelSpec):
    """A recurrent language model that reads left to right; ELMo has an objective, network and input format of its own.

    Fields with one meaning in all of them:

    context  words that gradients go back
    softmax  "full": every word is weighed for every prediction; "adaptive": rare words in groups, also exact;
             "sampled": learned from some words at a time, which is near to it
    samples  words that are drawn at each step where the softmax is sampled
    state    in training, "carried": a window begins where the last one ended; "fresh": it begins with nothing known
    dropout  share of numbers set to zero in training, the same ones at all words of a row
    """

    tokenizer: ClassVar[str] = "words"
    accepts_task_encoder: ClassVar[bool] = True

    if TYPE_CHECKING:  # fields of the models
        depth: int = 0
        context: int = 0
        dropout: float = 0.0
        width = inner = samples = 0
        softmax = state = ""

    def __post_init__(self) -> None:
        spec.require_positive(self, "width", "inner", "depth", "context")
        spec.require_fraction(self, "dropout", "weight_dropout", "word_dropout")
        spec.require_choice("state", self.state, STATES)
        self.validate_softmax()
        if self.tied and self.softmax == "adaptive":
            message = "an adaptive softmax has tables of its own: it cannot be tied to the vectors that are read"
            raise InputError(message, hint="--softmax sampled, which is as fast, or --tied no")

    def validate_softmax(self) -> None:
        spec.require_choice("softmax", self.softmax, SOFTMAXES)
        if self.softmax == "sampled" and self.samples < 1:
            raise InputError(f"samples is {self.samples}", hint="give a number of words above 0")

    @property
    def is_stateful(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.state == "carried"

    @property
    def unused_fields(self) -> dict[str, str]:
        return {} if self.softmax == "sampled" else {"samples": "softmax"}

    def objective(self, tokenizer: Tokenizer) -> Objective:
        """Consecutive windows of a text if states are carried over, else windows in any order."""
        (eos_id,) = spec.special_ids(tokenizer, self.required_roles)
        return (TokenStreams if self.is_stateful else NextToken)(self.context, eos_id)

    def build_layers(self, tokenizer: Tokenizer, cell: str, embedding: WordEmbedding | CharCNNEmbedding) -> Model:
        """Recurrent layers over the embedding, and the output softmax."""
        from forebear.nn.heads import LMHead
        from forebear.nn.model import Model
        from forebear.nn.nnlm import WordEmbedding
        from forebear.nn.recurrent import CELLS, RecurrentEncoder, RecurrentStack

        layer_sizes = [embedding.width, *[self.inner] * (self.depth - 1), self.width if self.tied else self.inner]
        sizes = pairwise(layer_sizes)
        layers = [CELLS[cell](inputs, width, weight_dropout=self.weight_dropout) for inputs, width in sizes]
        stack = RecurrentStack(layers, dropout=self.dropout)
        encoder = RecurrentEncoder(embedding, stack, dropout=self.dropout, word_dropout=self.word_dropout)
        if not self.tied:
            return Model(encoder, {"next": self.softmax_head(layer_sizes[-1], tokenizer.vocab_size)})
        assert isinstance(embedding, WordEmbedding)
        head = LMHead(embedding, bias=True, num_samples=self._num_samples, sorted_by_frequency=True)
        return Model(encoder, {"next": head})

    @property
    def _num_samples(self) -> int:
        return self.samples if self.softmax == "sampled" else 0

    def softmax_head(self, hidden_size: int, vocab_size: int) -> SoftmaxHead:
        """The output softmax over the vocabulary."""
        from forebear.nn.softmax import AdaptiveSoftmax, SoftmaxHead, cluster_cutoffs

        cutoffs = cluster_cutoffs(vocab_size) if self.softmax == "adaptive" else ()
        return SoftmaxHead(AdaptiveSoftmax(hidden_size, vocab_size, cutoffs, num_samples=self._num_samples))

    def word_embedding(self, tokenizer: Tokenizer) -> WordEmbedding:
        """Word embeddings; tied ones are initialized small for the output and scaled up at the input."""
        from forebear.nn.nnlm import WordEmbedding

        if self.tied:
            return WordEmbedding(tokenizer.vocab_size, self.width, scale=self.width**0.5)
        return WordEmbedding(tokenizer.vocab_size, self.width, init_std=1.0)

    def build_task_encoder(self, tokenizer: Tokenizer, encoder_config: TaskEncoderConfig) -> Model:
        """The model's own encoder, or a task encoder over a scalar mix of its layers."""
        from forebear.nn.model import Model
        from forebear.nn.scalar_mix_task_encoder import ScalarMixEncoder

        model = self.build(tokenizer)
        if encoder_config.kind is None:
            return model
        options: dict[str, Any] = {"kind": encoder_config.kind, "width": encoder_config.width}
        options |= {"mix_position": encoder_config.mixture, "normalize": encoder_config.normed}
        options |= {"is_pair": encoder_config.pairs, "dropout": encoder_config.dropout}
        return Model(ScalarMixEncoder(model.encoder, **options), {})

    def input_format(self, tokenizer: Tokenizer) -> InputFormat:
        """The end token starts, separates and ends texts, as it does documents; max pooling."""
        (eos_id,) = spec.special_ids(tokenizer, self.required_roles)
        return InputFormat((eos_id,), (eos_id,), (eos_id,), "max", segments=True, both_orders=True)


# --- Word vectors from characters ---


def char_cnn_embedding(model_spec: CharCNNSpec | ElmoSpec, tokenizer: Tokenizer) -> CharCNNEmbedding:
    """Word vectors from a character CNN with the fields of a spec."""
    from forebear.data.tokenizers.char_ids import char_ids_for
    from forebear.nn.char_cnn import CharCNNEmbedding

    return CharCNNEmbedding(
        char_ids_for(tokenizer, model_spec.longest),
        model_spec.width,
        char_size=model_spec.characters,
        filters=parse_filters(model_spec.filters),
        num_highways=model_spec.highways,
        activation=model_spec.activation,
    )


def parse_filters(text: str) -> list[tuple[int, int]]:
    """Parse "1:32,2:64": 32 filters of width one and 64 of width two."""
    try:
        filters = [(int(width), int(count)) for width, _, count in (pair.partition(":") for pair in text.split(","))]
    except ValueError:
        filters = []
    if not filters or min(min(pair) for pair in filters) < 1:
        hint = "write how many symbols a filter sees and how many there are: 1:32,2:32,3:64"
        raise InputError(f"filters are {text!r}", hint=hint)
    return filters


def validate_char_cnn(model_spec: CharCNNSpec | ElmoSpec) -> None:
    """Reject fields that do not define a valid character CNN."""
    max_filter_width = max(width for width, _ in parse_filters(model_spec.filters))
    if model_spec.longest < max(max_filter_width, 4):
        message = f"longest is {model_spec.longest}, and a filter sees {max_filter_width} symbols"
        raise InputError(message, hint=f"give --longest {max(max_filter_width, 4)} or more, or narrower filters")
    spec.require_range(model_spec, characters=(1, None), highways=(0, None))
    spec.require_choice("activation", model_spec.activation, ("relu", "tanh"))
