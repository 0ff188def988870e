"""The Transformer (Vaswani et al. 2017): an encoder–decoder for translation, with attention instead of recurrence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from forebear.models import spec
from forebear.models.spec import ModelSpec
from forebear.objectives.seq2seq import SequenceToSequence

if TYPE_CHECKING:
    from forebear.data.corpus.parallel import TokenizerPair
    from forebear.nn.model import Model

WARMUP_STEPS = 4000  # in the paper


@dataclass(frozen=True)
class TransformerSpec(ModelSpec):
    """Attention Is All You Need (Vaswani, Shazeer, Parmar, Uszkoreit, Jones, Gomez, Kaiser, Polosukhin; NIPS 2017).

    Before it, a recurrent network read a sentence word by word into its state, and attention helped another to look
    back at it. Here nothing is recurrent: every token looks at every other in one step, so that a whole text is learned
    from at once and distance costs nothing. An encoder of `depth` blocks (attention, feed-forward) reads the source; a
    decoder of as many (masked attention, attention to what the encoder made, feed-forward) writes the translation.
    After each part comes LayerNorm(x + part(x)); positions are waves of fixed lengths.

    width      numbers in the vector of a token
    depth      blocks, in the encoder and again in the decoder
    heads      attention heads in a block
    context    tokens of a text, either side
    inner      width inside the feed-forward layer; 0: four times the width
    dropout    share of numbers set to zero in training
    smoothing  share of each right answer that all tokens divide among them in training, so that none is certain
    shared     one table of vectors for both languages, where they have one vocabulary
    norm       "post": after each sum, as in the paper; "pre": before each part, which deep ones are trained with today
    epsilon    added to the variance in LayerNorm
    """

    sizes: ClassVar[dict[str, dict[str, Any]]] = {
        "tiny": {"width": 128, "depth": 2, "heads": 4, "inner": 256},
        "small": {"width": 256, "depth": 3, "heads": 8, "inner": 512},
        "base": {},
        "big": {"width": 1024, "heads": 16, "inner": 4096, "dropout": 0.3},
    }
    size: ClassVar[str] = "small"
    learns_from: ClassVar[Literal["text", "pairs", "tags"]] = "pairs"
    published_vocab_size: ClassVar[int] = 37_000

    width: int = 512
    depth: int = 6
    heads: int = 8
    context: int = 256
    inner: int = 2048
    dropout: float = 0.1
    smoothing: float = 0.1
    shared: bool = True
    norm: str = "post"
    epsilon: float = 1e-5

    def __post_init__(self) -> None:
        spec.validate_transformer(self)
        spec.require_choice("norm", self.norm, ("post", "pre"))
        spec.require_fraction(self, "smoothing")

    def objective(self, tokenizer: TokenizerPair) -> SequenceToSequence:  # pyright: ignore[reportIncompatibleMethodOverride]
        (source_eos,) = spec.special_ids(tokenizer.source, self.required_roles)
        (target_eos,) = spec.special_ids(tokenizer.target, self.required_roles)
        return SequenceToSequence(self.context, source_eos, target_eos)

    def build(self, tokenizer: TokenizerPair) -> Model:  # pyright: ignore[reportIncompatibleMethodOverride]
        from forebear.nn.embedding import InputEmbedding
        from forebear.nn.heads import LMHead
        from forebear.nn.model import Model
        from forebear.nn.transformer import EncoderDecoder, Transformer, TransformerDecoder

        def make_embedding(vocab_size: int) -> InputEmbedding:
            embedding_options: Any = {"dropout": self.dropout, "scale": self.width**0.5}
            return InputEmbedding(
                vocab_size, self.width, positions=self.context, placing="sinusoid", **embedding_options
            )

        source_embedding = make_embedding(tokenizer.source.vocab_size)
        target_embedding = (
            source_embedding if self.shared and tokenizer.is_shared else make_embedding(tokenizer.target.vocab_size)
        )
        options: dict[str, Any] = {
            "depth": self.depth,
            "width": self.width,
            "num_heads": self.heads,
            "inner": self.inner or 4 * self.width,
            "norm": self.norm,
            "activation": "relu",
            "epsilon": self.epsilon,
            "dropout": self.dropout,
        }
        encoder_decoder = EncoderDecoder(
            Transformer(source_embedding, sees="all", attention_dropout=0.0, **options),
            TransformerDecoder(target_embedding, **options),
        )
        return Model(encoder_decoder, {"translation": LMHead(target_embedding, smoothing=self.smoothing)})

    def default_recipe(self) -> dict[str, Any]:
        """The paper's for its sizes; small sizes train for minutes, in many small steps."""
        if self.width >= 512:
            rate = (self.width * WARMUP_STEPS) ** -0.5
            recipe = {"rate": rate, "warmup": WARMUP_STEPS, "schedule": "root", "batch": 50_000}
            return recipe | {"memory": 0.98, "decay": 0.0}
        return {"rate": 0.256 / self.width, "batch": 1024, "memory": 0.98, "decay": 0.01}
