"""A milestone is a frozen record of a paper's numbers, with two methods: what is predicted, and by what."""

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
    from forebear.objectives.batch import Objective


@dataclass(frozen=True)
class ModelSpec(ABC):
    """Fields are the paper's numbers. `sizes` are fields by name, published ones and ones for a laptop."""

    sizes: ClassVar[dict[str, dict[str, Any]]] = {}
    size: ClassVar[str] = ""  # the one to begin with on a laptop
    learning: ClassVar[Literal["descending", "counting", "sweeping"]] = "descending"
    counts_again: ClassVar[bool] = False  # whether what was counted changes what is counted next, epoch after epoch
    only_counts: ClassVar[bool] = False  # whether, for all its tables, there is nothing to learn but what there is
    # From plain text, from texts and their translations, or from words with their tags and nothing else.
    learns_from: ClassVar[Literal["text", "pairs", "tags"]] = "text"
    learns_tags: ClassVar[bool] = False  # whether words with their tags teach it by themselves, as a tagger of its own
    learns_tags_by: ClassVar[Literal["counting", "searching"]] = "counting"  # all at once, or step by step to the best
    takes_lines: ClassVar[bool] = False  # whether all of a text may teach, line by line where it is made for that
    tokenizer: ClassVar[str] = "bytepair"  # the kind that is learned from the text unless another is asked for

    # Fields that only some have, and what they say where there is none; to the rest they are no fields.
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

    entries: ClassVar[int] = 50_257  # of the published vocabulary, where there was one; GPT-2's elsewhere
    needs: ClassVar[tuple[str, ...]] = ("end",)  # special tokens that its rows are made with, by their roles

    @property
    def is_stateful(self) -> bool:
        """Whether a step of training goes on with what it knew at the end of the step before."""
        return False

    @property
    def char_level(self) -> bool:
        """Whether it reads words by how they are written, so that none is unknown to it."""
        return False

    @property
    def needs_word_boundaries(self) -> bool:
        """Whether it must know where words begin, Chinese ones too."""
        return False

    @property
    def uses_entities(self) -> bool:
        """Whether it makes use of names of persons, places and organisations."""
        return False

    @property
    def task_learner(self) -> str:
        """How it learns a task: a table of words does as networks do, with one above it."""
        return "counting" if self.learning == "counting" else "descending"

    @property
    def unused_fields(self) -> dict[str, str]:
        """Fields that mean nothing beside the value of another, by the name of that."""
        return {}

    @property
    def new_word_note(self) -> str:
        """What becomes of words that a run to go on from did not know, where it is a table of words."""
        return "have vectors that begin by chance"

    @property
    def least_count(self) -> int | None:
        """How often a word must occur to be in a vocabulary of all words; None: the most frequent ones are."""
        return None

    @abstractmethod
    def objective(self, tokenizer: Any) -> Objective:
        """What is predicted from what; one that translates is given the tokenizers of both `Sides`."""

    @abstractmethod
    def build(self, tokenizer: Any) -> Any:
        """What does the predicting: a `networks.model.Model`, one of `statistics` that counts, or `vectors`."""

    @property
    def accepts_task_encoder(self) -> bool:
        """Whether something may read its layers, mixed, when it serves a task; else its own encoder does it alone."""
        return self.needs_task_encoder

    def build_tagger(self, tokenizer: Tokenizer, legal: tuple[np.ndarray, np.ndarray, np.ndarray]) -> Any:
        """What learns to tag, of one that `learns_tags`: a model of `statistics` with `logits`, whose `moves` say what
        follows what. `legal` are which of K tags may follow which (K, K), begin (K,) and end (K,)."""
        what = f"{type(self).__name__} has no tagger of its own"
        raise InputError(what, hint="choose hmm or crf, or adapt another to --task tagging")

    def task_tokenizer(self, tokenizer: Tokenizer) -> Tokenizer:
        """The tokenizer for a task: where words are read by how they are written, none is unknown."""
        return tokenizer

    @property
    def needs_task_encoder(self) -> bool:
        """Whether all it has is vectors of words, which want something that reads them when they serve a task."""
        return self.learning == "sweeping"

    def build_task_encoder(self, tokenizer: Any, reader: TaskEncoderConfig) -> Any:
        """The encoder that serves a task: its own, or its vectors of words with this reader above them."""
        return self.build(tokenizer)

    def input_format(self, tokenizer: Tokenizer) -> InputFormat:
        """How texts are laid out for it when it serves a task: as they are, unless it knows tokens around them."""
        from forebear.objectives.input_format import InputFormat

        return InputFormat()

    def default_recipe(self) -> dict[str, Any]:
        """What of the training recipe this milestone wants otherwise than the defaults, found by trying."""
        return {}


# Vectors of words in the service of a task: what every milestone that has nothing else gives as its encoder.


WORD_INPUT_FORMAT = InputFormat(segments=True)  # texts as they are; which of two a word belongs to is told
WIDTH = 100  # of vectors that are learned with the task, where nothing says how wide they are


def word_encoder_model(vocabulary: int, width: int | None, reader: TaskEncoderConfig) -> Model:
    """A network without heads: a table of so many vectors, and what reads them."""
    from forebear.nn.model import Model
    from forebear.nn.nnlm import WordEmbedding
    from forebear.nn.task_encoders import TaskEncoder

    words = WordEmbedding(vocabulary, width or reader.width or WIDTH)
    how: dict[str, Any] = {"reader": reader.kind, "pairs": reader.pairs, "dropout": reader.dropout}
    return Model(TaskEncoder(words, width=reader.width or words.width, **how), {})


# Of what numbers a milestone can be made: checked before anything is built, with the remedy.


ACTIVATIONS = ("gelu", "gelu-tanh", "relu")


def validate_transformer(milestone: BertSpec | GPTSpec | TransformerSpec) -> None:
    """An error where the numbers of a milestone make no Transformer."""
    values = {"width": milestone.width, "depth": milestone.depth, "heads": milestone.heads}
    values |= {"context": milestone.context, "epsilon": milestone.epsilon}
    for name, value in values.items():
        if not value > 0:
            raise InputError(f"{name} is {value}", hint="give a number above 0")
    if not 0 <= milestone.dropout < 1 or milestone.inner < 0:
        what = f"dropout {milestone.dropout}, inner {milestone.inner}"
        raise InputError(what, hint="give a dropout from 0 to below 1")
    if milestone.width % milestone.heads:
        hint = f"choose heads that divide it, such as {max(1, milestone.width // 64)}"
        raise InputError(f"a width of {milestone.width} cannot be shared by {milestone.heads} heads", hint=hint)


def require_range(milestone: ModelSpec, **borders: tuple[float, float | None]) -> None:
    """An error where a field is below the first of its borders, or above the second, if there is one."""
    for name, (least, most) in borders.items():
        if not least <= (value := getattr(milestone, name)) <= (float("inf") if most is None else most):
            hint = f"give {least} or more" if most is None else f"give a number from {least} to {most}"
            raise InputError(f"{name} is {value}", hint=hint)


def require_choice(name: str, value: str, known: tuple[str, ...]) -> None:
    """An error where a word is none of those that mean something."""
    if value not in known:
        raise InputError(f"{name} is {value!r}", hint=f"there are: {', '.join(known)}")


def special_ids(tokenizer: Tokenizer, needed: Sequence[str]) -> tuple[int, ...]:
    """The ids of special tokens for these roles; an error where the vocabulary lacks one."""
    for role in needed:
        if role not in tokenizer.special_roles:
            raise InputError(
                f"the vocabulary has no token for the role {role!r}, such as {SPECIAL_TOKEN_NAMES[role][0]}",
                hint="have a tokenizer learned (--tokenizer wordpiece), or choose a vocabulary made for BERT",
            )
    return tuple(tokenizer.special_roles[role] for role in needed)
