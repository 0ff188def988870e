"""LSTM language model (Hochreiter and Schmidhuber 1997; Sundermeyer et al. 2012): gated cells preserve gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from forebear.models.recurrent_spec import RecurrentSpec

if TYPE_CHECKING:
    from forebear.data.tokenizers.tokenizer import Tokenizer
    from forebear.nn.model import Model


@dataclass(frozen=True)
class LSTMSpec(RecurrentSpec):
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
    tied            the vectors that read words also score them
    weight_dropout  share of the weights from state to state that are left out at each step
    word_dropout    share of the words that have no vector at a step, wherever they stand
    context, softmax, samples, state and dropout are described in `RecurrentSpec`
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
    published_vocab_size: ClassVar[int] = 33_278

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

    def build(self, tokenizer: Tokenizer) -> Model:
        return self.build_layers(tokenizer, "lstm", self.word_embedding(tokenizer))

    def default_recipe(self) -> dict[str, Any]:
        return {"rate": 8e-3 if self.inner < 512 else 4e-3, "batch": 1024, "decay": 0.01}
