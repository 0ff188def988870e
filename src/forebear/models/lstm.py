"""LSTM language model (Hochreiter and Schmidhuber 1997; Sundermeyer et al. 2012): gated cells that keep gradients
alive.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from forebear.models import recurrent_spec
from forebear.models.spec import ModelSpec

if TYPE_CHECKING:
    from forebear.data.tokenizers.tokenizer import Tokenizer
    from forebear.nn.model import Model
    from forebear.objectives.input_format import InputFormat, TaskEncoderConfig
    from forebear.objectives.next_token import NextToken, TokenStreams


@dataclass(frozen=True)
class LSTMSpec(ModelSpec):
    """LSTM Neural Networks for Language Modeling (Sundermeyer, Schlüter, Ney; Interspeech 2012).

    In an RNN everything that is remembered is multiplied by the same matrix at every word. The LSTM (Long Short-Term
    Memory; Hochreiter and Schmidhuber, 1997) keeps a cell beside it that is only scaled and added to: gates decide what
    is forgotten, what is added and what is shown. So gradients reach far back, and it became the language model of a
    decade. Later: the vectors that read words also score them (tied; Press and Wolf, 2017), the same numbers are left
    out at all words of a row (Gal and Ghahramani, 2016), and weights from state to state are left out at chance (AWD;
    Merity, Keskar, Socher, 2018).

    width           numbers in the vector of a word
    inner           units of a layer; of the last one `width`, where it is tied
    depth           layers
    context         words that gradients go back
    tied            the vectors that read words also score them
    softmax         "full": every word is weighed for every prediction; "adaptive": rare words in groups, also exact;
                    "sampled": learned from some words at a time, which is near to it
    samples         words that are drawn at each step where the softmax is sampled
    state           in training, "carried": a window begins where the last one ended; "fresh": with nothing known
    dropout         share of numbers set to zero in training, the same ones at all words of a row
    weight_dropout  share of the weights from state to state that are left out at each step
    word_dropout    share of the words that have no vector at a step, wherever they stand
    """

    sizes: ClassVar[dict[str, dict[str, Any]]] = {
        "tiny": {"width": 128, "inner": 256, "depth": 1, "softmax": "adaptive", "tied": False, "dropout": 0.0},
        "small": {"width": 256, "inner": 512, "depth": 1, "softmax": "adaptive", "tied": False, "dropout": 0.2},
        "650": {},
        "1500": {"width": 1500, "inner": 1500, "dropout": 0.65},
        "awd": {
            "width": 400,
            "inner": 1150,
            "depth": 3,
            "context": 70,
            "dropout": 0.4,
            "weight_dropout": 0.5,
            "word_dropout": 0.1,
        },
    }
    size: ClassVar[str] = "tiny"
    tokenizer: ClassVar[str] = "words"
    entries: ClassVar[int] = 33_278

    width: int = 650
    inner: int = 650
    depth: int = 2
    context: int = 35
    tied: bool = True
    softmax: str = "full"
    samples: int = 4096
    state: str = "carried"
    dropout: float = 0.5
    weight_dropout: float = 0.0
    word_dropout: float = 0.0

    def __post_init__(self) -> None:
        recurrent_spec.validate_recurrent(self)

    @property
    def is_stateful(self) -> bool:
        return self.state == "carried"

    @property
    def unused_fields(self) -> dict[str, str]:
        return recurrent_spec.unused_fields(self)

    def objective(self, tokenizer: Tokenizer) -> NextToken | TokenStreams:
        return recurrent_spec.recurrent_objective(self, tokenizer)

    def build(self, tokenizer: Tokenizer) -> Model:
        return recurrent_spec.build_recurrent(self, tokenizer, "lstm", recurrent_spec.word_embedding(self, tokenizer))

    @property
    def accepts_task_encoder(self) -> bool:
        return True

    def build_task_encoder(self, tokenizer: Tokenizer, reader: TaskEncoderConfig) -> Model:
        return recurrent_spec.build_recurrent_task_encoder(self, tokenizer, reader)

    def input_format(self, tokenizer: Tokenizer) -> InputFormat:
        return recurrent_spec.recurrent_input_format(self, tokenizer)

    def default_recipe(self) -> dict[str, Any]:
        return {"rate": 8e-3 if self.inner < 512 else 4e-3, "batch": 1024, "decay": 0.01}
