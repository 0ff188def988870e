"""Model specifications: frozen dataclasses of a paper's hyperparameters that build the objective and the model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from forebear.data.tokenizers.tokenizer_json import SPECIAL_TOKEN_NAMES
from forebear.errors import InputError
from forebear.objectives.input_format import InputFormat, TaskEncoderConfig

if TYPE_CHECKING:
    import numpy as np

    from forebear.data.tokenizers.tokenizer import Tokenizer
    from forebear.models.bert import BertSpec
    from forebear.models.gpt import GPTSpec
    from forebear.models.transformer import TransformerSpec
    from forebear.nn.model import Model
    from forebear.objectives.objective import Objective


@dataclass(frozen=True)
class ModelSpec(ABC):
    """A model's hyperparameters. `sizes` are presets of fields by name: published ones and ones for a laptop."""

    sizes: ClassVar[dict[str, dict[str, Any]]] = {}
    size: ClassVar[str] = ""  # default preset
    learning: ClassVar[Literal["descending", "counting", "sweeping"]] = "descending"
    counts_again: ClassVar[bool] = False  # EM: counts depend on those of the previous epoch
    is_untrained: ClassVar[bool] = False  # only counts words and has no parameters to learn (one-hot)
    learns_from: ClassVar[Literal["text", "pairs", "tags"]] = "text"  # plain text, parallel text, or tagged words
    learns_tags: ClassVar[bool] = False  # can be trained as a tagger directly, without pre-training
    learns_tags_by: ClassVar[Literal["counting", "searching"]] = "counting"  # closed form, or iterative optimization
    takes_lines: ClassVar[bool] = False  # can train on all lines of a text that consists of lines
    tokenizer: ClassVar[str] = "bytepair"  # default tokenizer type

    # Defaults for fields that only some specs have; they are not dataclass fields here.
    if TYPE_CHECKING:
        context: int | None = None
        depth: int | None = None
        dropout: float | None = None
        order: int | None = None
        output: str | None = None
        pairs: str = "none"
        unit: str = "document"
        tied: bool = False
        weight_dropout: float = 0.0
        word_dropout: float = 0.0
    else:
        context = depth = dropout = order = output = None
        pairs, unit, tied, weight_dropout, word_dropout = "none", "document", False, 0.0, 0.0

    published_vocab_size: ClassVar[int] = 50_257  # GPT-2's for models without a published vocabulary
    required_roles: ClassVar[tuple[str, ...]] = ("end",)  # of special tokens that the vocabulary must have
    is_stateful: ClassVar[bool] = False  # hidden states are carried from one training step to the next
    char_level: ClassVar[bool] = False  # reads words as characters: none is out of vocabulary
    needs_word_boundaries: ClassVar[bool] = False  # for the objective, also of Chinese words
    uses_entities: ClassVar[bool] = False  # the objective uses named entities
    needs_task_encoder: ClassVar[bool] = False  # has word vectors only
    accepts_task_encoder: ClassVar[bool] = False  # over a scalar mix of its layers; else only its own encoder is used

    @property
    def task_learner(self) -> str:
        """The learner for downstream tasks: word vectors get a network above them."""
        return "counting" if self.learning == "counting" else "descending"

    @property
    def unused_fields(self) -> dict[str, str]:
        """Fields without effect, by the field whose value disables them."""
        return {}

    @property
    def new_word_note(self) -> str:
        """How continued pre-training initializes new words, for word-vector models."""
        return "have vectors that begin by chance"

    @property
    def min_word_count(self) -> int | None:
        """Minimum count of a word in the vocabulary; None: the vocabulary has the most frequent words."""
        return None

    @abstractmethod
    def objective(self, tokenizer: Any) -> Objective:
        """The training objective; translation models get a `TokenizerPair`."""

    @abstractmethod
    def build(self, tokenizer: Any) -> Any:
        """The model: an `nn.model.Model`, a statistical model or word vectors."""

    def build_tagger(self, tokenizer: Tokenizer, allowed_transitions: tuple[np.ndarray, np.ndarray, np.ndarray]) -> Any:
        """A tagger to be trained on tagged words, if the spec `learns_tags`.

        `allowed_transitions` of K tags are boolean: from tag to tag (K, K), first tags (K,) and last tags (K,).
        """
        message = f"{type(self).__name__} has no tagger of its own"
        raise InputError(message, hint="choose hmm or crf, or adapt another to --task tagging")

    def task_tokenizer(self, tokenizer: Tokenizer) -> Tokenizer:
        """The tokenizer for tasks; character-level models have no unknown words."""
        return tokenizer

    def build_task_encoder(self, tokenizer: Any, encoder_config: TaskEncoderConfig) -> Any:
        """The encoder for tasks: its own, or a task encoder over its word vectors."""
        return self.build(tokenizer)

    def input_format(self, tokenizer: Tokenizer) -> InputFormat:
        """Input format for tasks: plain texts, unless the model has special tokens."""
        return InputFormat()

    def default_recipe(self) -> dict[str, Any]:
        """Recipe settings that differ from the global defaults, found by experiment."""
        return {}


DEFAULT_EMBEDDING_SIZE = 100  # of vectors that are learned with a task


@dataclass(frozen=True)
class WordVectorSpec(ModelSpec):
    """A model whose result is word vectors: a task needs an encoder over them."""

    learning: ClassVar[Literal["descending", "counting", "sweeping"]] = "sweeping"
    tokenizer: ClassVar[str] = "words"
    required_roles: ClassVar[tuple[str, ...]] = ()
    needs_task_encoder: ClassVar[bool] = True
    accepts_task_encoder: ClassVar[bool] = True

    if TYPE_CHECKING:  # fields of the models
        width: int | None = None
        min_count: int = 1
    else:
        width = None

    @property
    def min_word_count(self) -> int:
        return self.min_count

    def build_task_encoder(self, tokenizer: Tokenizer, encoder_config: TaskEncoderConfig) -> Model:
        """A model without heads: word embeddings and a task encoder."""
        from forebear.nn.model import Model
        from forebear.nn.nnlm import WordEmbedding
        from forebear.nn.word_vector_task_encoders import TaskEncoder

        words = WordEmbedding(tokenizer.vocab_size, self.width or encoder_config.width or DEFAULT_EMBEDDING_SIZE)
        options: dict[str, Any] = {"is_pair": encoder_config.pairs, "dropout": encoder_config.dropout}
        width: Any = encoder_config.width or words.width
        return Model(TaskEncoder(words, kind=encoder_config.kind, width=width, **options), {})

    def input_format(self, tokenizer: Tokenizer) -> InputFormat:
        """Plain texts, with segment ids for pairs."""
        return InputFormat(segments=True)


# --- Validation ---

ACTIVATIONS = ("gelu", "gelu-tanh", "relu")


def validate_transformer(model_spec: BertSpec | GPTSpec | TransformerSpec) -> None:
    """Reject fields that do not define a valid Transformer."""
    require_positive(model_spec, "width", "depth", "heads", "context", "epsilon")
    if not 0 <= model_spec.dropout < 1 or model_spec.inner < 0:
        message = f"dropout {model_spec.dropout}, inner {model_spec.inner}"
        raise InputError(message, hint="give a dropout from 0 to below 1")
    if model_spec.width % model_spec.heads:
        hint = f"choose heads that divide it, such as {max(1, model_spec.width // 64)}"
        raise InputError(f"a width of {model_spec.width} cannot be shared by {model_spec.heads} heads", hint=hint)


def require_positive(model_spec: ModelSpec, *names: str) -> None:
    """Reject fields that are not above 0."""
    for name in names:
        if not (value := getattr(model_spec, name)) > 0:
            raise InputError(f"{name} is {value}", hint="give a number above 0")


def require_fraction(model_spec: ModelSpec, *names: str) -> None:
    """Reject fields outside 0 ≤ value < 1."""
    for name in names:
        if not 0 <= (value := getattr(model_spec, name)) < 1:
            raise InputError(f"{name} is {value}", hint="give a share from 0 to below 1")


def require_range(model_spec: ModelSpec, **ranges: tuple[float, float | None]) -> None:
    """Reject fields outside (minimum, maximum); a maximum of None is unlimited."""
    for name, (minimum, maximum) in ranges.items():
        if not minimum <= (value := getattr(model_spec, name)) <= (float("inf") if maximum is None else maximum):
            hint = f"give {minimum} or more" if maximum is None else f"give a number from {minimum} to {maximum}"
            raise InputError(f"{name} is {value}", hint=hint)


def require_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    """Reject a value that is none of the choices."""
    if value not in choices:
        raise InputError(f"{name} is {value!r}", hint=f"there are: {', '.join(choices)}")


def special_ids(tokenizer: Tokenizer, roles: Sequence[str]) -> tuple[int, ...]:
    """Ids of the special tokens with these roles; raises InputError if the vocabulary lacks one."""
    for role in roles:
        if role not in tokenizer.special_roles:
            message = f"the vocabulary has no token for the role {role!r}, such as {SPECIAL_TOKEN_NAMES[role][0]}"
            hint = "have a tokenizer learned (--tokenizer wordpiece), or choose a vocabulary made for BERT"
            raise InputError(message, hint=hint)
    return tuple(tokenizer.special_roles[role] for role in roles)
