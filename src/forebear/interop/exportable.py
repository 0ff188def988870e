"""The protocol of a run that can be exported; `inference.Run` implements it."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from forebear.data.tokenizers.tokenizer import Tokenizer
    from forebear.embeddings.word_table import WordVectors
    from forebear.nn.model import Model
    from forebear.tasks.task import Task
    from forebear.training.run_folder import RunFolder


class ExportableRun(Protocol):
    """The parts of a loaded run that exporters use."""

    folder: RunFolder
    notes: list[str]

    @property
    def name(self) -> str: ...

    @property
    def metadata(self) -> dict[str, Any]:
        """The contents of run.json."""
        ...

    @property
    def tokenizer(self) -> Tokenizer: ...

    @cached_property
    def task(self) -> Task | None: ...

    @cached_property
    def network(self) -> Any:
        """The loaded network of any kind of model."""
        ...

    @property
    def model(self) -> Model:
        """The network of a model with an encoder and heads."""
        ...

    @property
    def heads(self) -> tuple[str, ...]: ...

    @property
    def capabilities(self) -> tuple[str, ...]: ...

    @cached_property
    def word_table(self) -> WordVectors:
        """A vector for each word, if tokens are words."""
        ...
