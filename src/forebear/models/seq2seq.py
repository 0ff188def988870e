"""Sequence to sequence (Sutskever et al. 2014): one LSTM encodes the source into a vector, another decodes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from forebear.models import spec
from forebear.models.spec import ModelSpec
from forebear.objectives.seq2seq import SequenceToSequence

if TYPE_CHECKING:
    from forebear.data.corpus.parallel import TokenizerPair
    from forebear.nn.embedding import InputEmbedding
    from forebear.nn.heads import LMHead
    from forebear.nn.model import Model

# Shared by the small sizes.
LAPTOP_FIELDS = {"depth": 1, "tied": True, "shared": True, "dropout": 0.1, "smoothing": 0.1}


@dataclass(frozen=True)
class Seq2SeqSpec(ModelSpec):
    """Sequence to Sequence Learning with Neural Networks (Sutskever, Vinyals, Le; NIPS 2014).

    A network wants inputs and outputs of fixed sizes, and a sentence and its translation have any. Here an LSTM reads
    the source, token by token, and all that is left of it is the state of its layers; another LSTM begins with that
    state and predicts the translation token by token. Nothing of phrases, alignments or grammar is built in. The source
    is read from its end, so that its first words are the last that were read when the first words of the translation,
    which mostly belong to them, are to be written.

    width      numbers in the vector of a token
    inner      numbers in the state of a layer; 0: as many as the width
    depth      layers of either network
    context    tokens of a text, either side
    reversed   the source is read from its end
    tied       the vectors by which tokens are scored are those by which they are read
    shared     one table of vectors for both languages, where they have one vocabulary
    dropout    share of numbers set to zero in training, between layers, the same for all tokens of a row
    smoothing  share of each right answer that all tokens divide among them in training, so that none is certain
    """

    sizes: ClassVar[dict[str, dict[str, Any]]] = {
        "tiny": {"width": 128, "inner": 128, **LAPTOP_FIELDS},
        "small": {"width": 256, "inner": 256, **LAPTOP_FIELDS},
        "wmt14": {},
    }
    size: ClassVar[str] = "small"
    learns_from: ClassVar[Literal["text", "pairs", "tags"]] = "pairs"
    published_vocab_size: ClassVar[int] = 80_000

    width: int = 1000
    inner: int = 1000
    depth: int = 4
    context: int = 256
    reversed: bool = True
    tied: bool = False
    shared: bool = False
    dropout: float = 0.0
    smoothing: float = 0.0

    def __post_init__(self) -> None:
        spec.require_positive(self, "width", "depth", "context")
        spec.require_range(self, inner=(0, None))
        spec.require_fraction(self, "dropout", "smoothing")

    def objective(self, tokenizer: TokenizerPair) -> SequenceToSequence:  # pyright: ignore[reportIncompatibleMethodOverride]
        (source_eos,) = spec.special_ids(tokenizer.source, self.required_roles)
        (target_eos,) = spec.special_ids(tokenizer.target, self.required_roles)
        return SequenceToSequence(self.context, source_eos, target_eos)

    def build(self, tokenizer: TokenizerPair) -> Model:  # pyright: ignore[reportIncompatibleMethodOverride]
        from forebear.nn.model import Model
        from forebear.nn.seq2seq import RecurrentEncoderDecoder, Seq2SeqDecoder, Seq2SeqEncoder

        source_embedding, target_embedding, output_embedding = self.embeddings(tokenizer)
        options: dict[str, Any] = {"depth": self.depth, "inner": self.inner or self.width, "dropout": self.dropout}
        direction = "backward" if self.reversed else "forward"
        encoder = Seq2SeqEncoder(source_embedding, direction=direction, **options)
        decoder = Seq2SeqDecoder(target_embedding, output_embedding, **options)
        return Model(RecurrentEncoderDecoder(encoder, decoder), {"translation": self.head(output_embedding)})

    def embeddings(self, tokenizer: TokenizerPair) -> tuple[InputEmbedding, InputEmbedding, InputEmbedding]:
        """Input embeddings of source and target, and the output embedding."""
        from forebear.nn.embedding import InputEmbedding

        def make_embedding(vocab_size: int) -> InputEmbedding:
            return InputEmbedding(vocab_size, self.width, positions=self.context, placing="none", scale=self.width**0.5)

        target_size = tokenizer.target.vocab_size
        source_embedding = make_embedding(tokenizer.source.vocab_size)
        target_embedding = source_embedding if self.shared and tokenizer.is_shared else make_embedding(target_size)
        output_embedding = target_embedding if self.tied else make_embedding(target_size)
        return source_embedding, target_embedding, output_embedding

    def head(self, output_embedding: InputEmbedding) -> LMHead:
        from forebear.nn.heads import LMHead

        return LMHead(output_embedding, smoothing=self.smoothing)

    def default_recipe(self) -> dict[str, Any]:
        """Small sizes train for minutes, in many small steps; the published models had batches of 128 sentences."""
        batch_tokens = 1024 if self.width < 512 else 6400
        return {"rate": 1.0 / max(self.width, 256), "batch": batch_tokens, "memory": 0.98, "decay": 0.01}
