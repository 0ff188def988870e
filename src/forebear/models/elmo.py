"""ELMo (Peters et al. 2018): contextual word vectors from a bidirectional LSTM language model over characters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from forebear.models import recurrent_spec, spec
from forebear.models.recurrent_spec import RecurrentSpec
from forebear.objectives.input_format import InputFormat
from forebear.objectives.next_token import BidirectionalLM

if TYPE_CHECKING:
    from forebear.data.tokenizers.tokenizer import Tokenizer
    from forebear.nn.model import Model


@dataclass(frozen=True)
class ElmoSpec(RecurrentSpec):
    """Deep Contextualized Word Representations (Peters, Neumann, Iyyer, Gardner, Clark, Lee, Zettlemoyer; NAACL 2018).

    A table has one vector for "bank", whether of a river or of money. ELMo reads the sentence with two LSTM language
    models, one forwards and one backwards, trained together but each blind to what the other reads; they share the
    vectors of words, which are made of letters (CNN-RNN), and the softmax. A word then has three vectors: x, which is
    the same everywhere, and the states of both layers. A task learns its own mixture of them, γ Σ s_j h_j, and reads it
    beside its own vectors of words. The models were trained once on a billion words, and helped every task.

    width         numbers in the vector of a word, and of a state in either direction
    cells         units of an LSTM; if they are not as many as `width`, they are projected to it
    depth         layers, in each direction
    context       words of a window that it learns from
    reads         "characters": words by how they are written; "words": a table, as for single Chinese characters
    characters    numbers in the vector of a symbol
    filters       how many symbols a filter sees, and how many of those there are
    highways      layers above the filters
    activation    of filters: "relu" or "tanh"
    longest       symbols of a word, with its two marks; what is longer is read as far as it fits
    skip          what goes into a layer is added to what comes out, from the second on
    cell_clip     how far a cell may go, either way; 0: any distance
    project_clip  how far its projection may
    borders       1: the same token begins and ends a text; 2: each has its own, as in the published files
    softmax, samples and dropout are described in `RecurrentSpec`
    """

    sizes: ClassVar[dict[str, dict[str, Any]]] = {
        "tiny": {
            "width": 128,
            "cells": 128,
            "context": 32,
            "filters": "1:32,2:32,3:64,4:64,5:64",
            "highways": 1,
            "cell_clip": 0.0,
            "softmax": "adaptive",
            "dropout": 0.0,
        },
        "mini": {
            "width": 192,
            "cells": 384,
            "context": 48,
            "filters": "1:32,2:32,3:64,4:128,5:128",
            "highways": 1,
            "softmax": "adaptive",
            "dropout": 0.0,
        },
        "small": {"width": 128, "cells": 1024, "filters": "1:32,2:32,3:64,4:128,5:256,6:512", "highways": 1},
        "medium": {"width": 256, "cells": 2048, "filters": "1:32,2:32,3:64,4:128,5:256,6:512", "highways": 1},
        "original": {},
    }
    size: ClassVar[str] = "tiny"
    published_vocab_size: ClassVar[int] = 793_471
    state: ClassVar[str] = "fresh"  # windows in any order

    width: int = 512
    cells: int = 4096
    depth: int = 2
    context: int = 20
    reads: str = "characters"
    characters: int = 16
    filters: str = "1:32,2:32,3:64,4:128,5:256,6:512,7:1024"
    highways: int = 2
    activation: str = "relu"
    longest: int = 50
    skip: bool = True
    cell_clip: float = 3.0
    project_clip: float = 3.0
    softmax: str = "sampled"
    samples: int = 8192
    borders: int = 1
    dropout: float = 0.1

    def __post_init__(self) -> None:
        spec.require_range(self, width=(1, None), cells=(1, None), depth=(1, None), context=(1, None))
        spec.require_range(self, cell_clip=(0, None), project_clip=(0, None), borders=(1, 2))
        spec.require_choice("reads", self.reads, ("characters", "words"))
        spec.require_fraction(self, "dropout")
        self.validate_softmax()
        if self.reads == "characters":
            recurrent_spec.validate_char_cnn(self)

    @property
    def char_level(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.reads == "characters"

    @property
    def unused_fields(self) -> dict[str, str]:
        char_fields = ("characters", "filters", "highways", "activation", "longest")
        return super().unused_fields | ({} if self.char_level else dict.fromkeys(char_fields, "reads"))

    def objective(self, tokenizer: Tokenizer) -> BidirectionalLM:
        (eos_id,) = spec.special_ids(tokenizer, self.required_roles)
        return BidirectionalLM(self.context, eos_id)

    def build(self, tokenizer: Tokenizer) -> Model:
        from forebear.nn.lstm_scan import ClipLimits
        from forebear.nn.model import Model
        from forebear.nn.recurrent import BiLMEncoder, LSTMLayer, RecurrentStack
        from forebear.nn.softmax import SoftmaxHead

        def make_stack(backward: bool) -> RecurrentStack:
            project = None if self.cells == self.width else self.width
            clip_limits = ClipLimits(self.cell_clip, self.project_clip)
            options: Any = {"project": project, "backward": backward, "clip_limits": clip_limits}
            layers = [LSTMLayer(self.width, self.cells, **options) for _ in range(self.depth)]
            return RecurrentStack(layers, dropout=self.dropout, skip=self.skip)

        char_level = self.char_level
        embedding = recurrent_spec.char_cnn_embedding(self, tokenizer) if char_level else self.word_embedding(tokenizer)
        options: Any = {"boundary_ids": self._boundary_ids(tokenizer), "dropout": self.dropout}
        encoder = BiLMEncoder(embedding, make_stack(False), make_stack(True), **options)
        forward_head = self.softmax_head(self.width, tokenizer.vocab_size)
        backward_head = SoftmaxHead(forward_head.softmax, input_offset=self.width, is_shared=True)
        return Model(encoder, {"next": forward_head, "previous": backward_head})

    def task_tokenizer(self, tokenizer: Tokenizer) -> Tokenizer:
        from forebear.data.tokenizers.char_ids import base_tokenizer, oov_tokenizer

        return oov_tokenizer(tokenizer, self.longest) if self.char_level else base_tokenizer(tokenizer)

    def input_format(self, tokenizer: Tokenizer) -> InputFormat:
        """Texts start and end with the boundary tokens of documents; max pooling."""
        bos_id, eos_id = self._boundary_ids(tokenizer)
        return InputFormat((bos_id,), (eos_id,), (eos_id,), "max", segments=True)

    def _boundary_ids(self, tokenizer: Tokenizer) -> tuple[int, int]:
        """Ids of the start and the end token of a text."""
        token_ids = spec.special_ids(tokenizer, ("start", "end") if self.borders == 2 else self.required_roles)
        return token_ids[0], token_ids[-1]

    def default_recipe(self) -> dict[str, Any]:
        return {"rate": 4e-3 if self.cells < 512 else 1e-3, "batch": 1024, "decay": 0.01}
