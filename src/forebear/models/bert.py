"""BERT (Devlin et al. 2018): a bidirectional Transformer encoder, pre-trained with masked tokens and sentence pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from forebear.errors import InputError
from forebear.models import spec
from forebear.models.spec import ModelSpec
from forebear.objectives.input_format import InputFormat
from forebear.objectives.masked_tokens import MaskedTokens, MaskingUnits, SingleTokens, WholeWords
from forebear.objectives.sentence_pairs import SENTENCE_TASKS

if TYPE_CHECKING:
    from forebear.data.tokenizers.tokenizer import Tokenizer
    from forebear.nn.model import Model

LONG_SENTENCE_POLICIES = ("windows", "truncate")


@dataclass(frozen=True)
class BertSpec(ModelSpec):
    """BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding (Devlin, Chang, Lee, Toutanova).

    A model that predicts the next token may only look back; BERT looks both ways, because what it must predict has been
    hidden: 15 % of the tokens, of which 80 % become [MASK], 10 % another token and 10 % stay, so that no token can be
    trusted. Beside that it must tell whether the second half of its input followed the first in a document, or was
    taken from elsewhere. It is the left half of the Transformer, with learned positions and a vector for each half.

    width        numbers in the vector of a token
    depth        blocks, each attention and feed-forward
    heads        attention heads in a block
    context      tokens in a row at most, special ones included
    inner        width inside the feed-forward layer; 0: four times the width
    dropout      share of numbers set to zero in training; the small models here see each text few times and want none
    epsilon      added to the variance in LayerNorm
    activation   inside the feed-forward layer: gelu, gelu-tanh or relu
    pairs        what is asked of two halves: "next" (does one follow?), "order" (which came first?) or "none"
    share        of tokens that are hidden
    whole_words  hide whole words, Chinese ones too, never a part of one
    short_rows   tokens of most rows in pre-training; 0: as many as the context holds. In short rows it is learned far
                 sooner what stands beside what; the paper too takes long ones only for the last tenth of its steps
    long         a sentence that is longer than a row is read in "windows", or "truncate" leaves its rest away
    """

    sizes: ClassVar[dict[str, dict[str, Any]]] = {
        "pocket": {"width": 128, "depth": 2, "heads": 2, "context": 64},
        "laptop": {"width": 256, "depth": 4, "heads": 4, "context": 256, "short_rows": 64},
        "tiny": {"width": 128, "depth": 2, "heads": 2},
        "mini": {"width": 256, "depth": 4, "heads": 4},
        "small": {"width": 512, "depth": 4, "heads": 8},
        "medium": {"width": 512, "depth": 8, "heads": 8},
        "base": {},
        "large": {"width": 1024, "depth": 24, "heads": 16},
    }
    size: ClassVar[str] = "pocket"
    tokenizer: ClassVar[str] = "wordpiece"
    published_vocab_size: ClassVar[int] = 30_522
    required_roles: ClassVar[tuple[str, ...]] = ("start", "end", "mask")
    segments: ClassVar[int] = 2

    width: int = 768
    depth: int = 12
    heads: int = 12
    context: int = 512
    inner: int = 0
    dropout: float = 0.0
    epsilon: float = 1e-12
    activation: str = "gelu"
    pairs: str = "next"
    share: float = 0.15
    whole_words: bool = False
    short_rows: int = 0
    long: str = "windows"

    def __post_init__(self) -> None:
        spec.validate_transformer(self)
        spec.require_choice("activation", self.activation, spec.ACTIVATIONS)
        spec.require_choice("pairs", self.pairs, tuple(SENTENCE_TASKS))
        spec.require_choice("long", self.long, LONG_SENTENCE_POLICIES)
        if self.pairs != "none" and self.segments < 2:
            message = f"pairs is {self.pairs!r}, but this milestone has no vectors for two halves"
            raise InputError(message, hint="choose bert, or pairs 'none'")
        if not 0 < self.share < 1:
            raise InputError(f"share is {self.share}", hint="give a share between 0 and 1, such as 0.15")
        if self.context < 8:
            raise InputError(f"context is {self.context}", hint="give at least 8: special tokens take three of them")
        if self.short_rows and not 8 <= self.short_rows <= self.context:
            hint = f"give 8 to {self.context}, the context; 0 is all of it"
            raise InputError(f"short_rows is {self.short_rows}", hint=hint)

    @property
    def needs_word_boundaries(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.whole_words

    def masking_units(self) -> MaskingUnits:
        """The unit of masking: single tokens or whole words."""
        return WholeWords() if self.whole_words else SingleTokens()

    def objective(self, tokenizer: Tokenizer) -> MaskedTokens:
        cls_id, sep_id, mask_id = spec.special_ids(tokenizer, self.required_roles)
        rows = SENTENCE_TASKS[self.pairs](self.context, cls_id, sep_id, self.long, self.short_rows or None)
        vocab_size, special_ids = tokenizer.vocab_size, tokenizer.special_ids
        return MaskedTokens(rows, self.masking_units(), mask_id, vocab_size, special_ids, self.share)

    def build(self, tokenizer: Tokenizer) -> Model:
        return self._build_model(tokenizer, self.width, shared_layers=False)

    def _build_model(self, tokenizer: Tokenizer, embedding_size: int, *, shared_layers: bool) -> Model:
        """The model with this embedding size, and with shared or separate layers."""
        from forebear.nn.embedding import InputEmbedding
        from forebear.nn.heads import LMHead, PoolerHead
        from forebear.nn.model import Model
        from forebear.nn.transformer import Transformer

        embedding = InputEmbedding(
            tokenizer.vocab_size,
            embedding_size,
            positions=self.context,
            num_segments=self.segments,
            norm=True,
            dropout=self.dropout,
            epsilon=self.epsilon,
        )
        encoder = Transformer(
            embedding,
            depth=self.depth,
            width=self.width,
            num_heads=self.heads,
            inner=self.inner or 4 * self.width,
            norm="post",
            sees="all",
            activation=self.activation,  # pyright: ignore[reportArgumentType] - checked above
            shared=shared_layers,
            epsilon=self.epsilon,
            dropout=self.dropout,
        )
        token_head = LMHead(embedding, width=self.width, bias=True, transform=self.activation, epsilon=self.epsilon)
        pair_head = {} if self.pairs == "none" else {"pair": PoolerHead(self.width, 2)}
        return Model(encoder, {"token": token_head, **pair_head})

    def input_format(self, tokenizer: Tokenizer) -> InputFormat:
        """[CLS] A [SEP] B [SEP], pooled from [CLS]."""
        cls_id, sep_id = spec.special_ids(tokenizer, ("start", "end"))
        has_segments = self.segments > 1
        return InputFormat((cls_id,), (sep_id,), (sep_id,), "first", segments=has_segments, max_length=self.context)

    def default_recipe(self) -> dict[str, Any]:
        """Larger batches than GPT's, since only one token in seven is supervised."""
        return {"rate": 0.192 / self.width, "batch": max(2 * self.context, 16 * self.width)}
