"""RNN language model (Mikolov et al. 2010): a hidden state that summarizes all previous words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from forebear.models import spec
from forebear.models.recurrent_spec import RecurrentSpec

if TYPE_CHECKING:
    from forebear.data.tokenizers.tokenizer import Tokenizer
    from forebear.nn.model import Model


@dataclass(frozen=True)
class RNNSpec(RecurrentSpec):
    """Recurrent Neural Network Based Language Model (Mikolov, Karafiát, Burget, Černocký, Khudanpur; Interspeech 2010).

    The NNLM sees the last few words and no more. Here a state goes from word to word, h = tanh(U x + W h + b), with the
    same weights at every step, and the next word is softmax(V h + c): in principle all of the text before is in it.
    In practice the gradient of what lies k words back is a product of k matrices, which vanishes or explodes; so it is
    followed back for a few words only (truncated back-propagation), though the state itself is carried on.

    width    numbers in the vector of a word
    inner    units of a layer
    depth    layers
    cell     "rnn": tanh; "gru": with two gates (Cho et al. 2014)
    context, softmax, samples, state and dropout are described in `RecurrentSpec`
    """

    sizes: ClassVar[dict[str, dict[str, Any]]] = {
        "tiny": {"width": 128, "inner": 256, "softmax": "adaptive", "context": 32},
        "small": {"width": 256, "inner": 512, "softmax": "adaptive", "context": 32},
        "gru": {"width": 256, "inner": 512, "softmax": "adaptive", "context": 32, "cell": "gru"},
        "mikolov": {},
    }
    size: ClassVar[str] = "tiny"
    published_vocab_size: ClassVar[int] = 10_000

    width: int = 200
    inner: int = 200
    depth: int = 1
    context: int = 10
    cell: str = "rnn"
    softmax: str = "full"
    samples: int = 4096
    state: str = "carried"
    dropout: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        spec.require_choice("cell", self.cell, ("rnn", "gru"))

    def build(self, tokenizer: Tokenizer) -> Model:
        return self.build_layers(tokenizer, self.cell, self.word_embedding(tokenizer))

    def default_recipe(self) -> dict[str, Any]:
        """A lower rate than an LSTM's: the tanh recurrence becomes unstable sooner."""
        return {"rate": 2e-3, "batch": 1024, "decay": 0.01, "clip": 0.5}
