"""RNN language model (Mikolov et al. 2010): a hidden state that summarizes all previous words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from forebear.models import recurrent_spec, spec
from forebear.models.spec import ModelSpec

if TYPE_CHECKING:
    from forebear.data.tokenizers.tokenizer import Tokenizer
    from forebear.nn.model import Model
    from forebear.objectives.input_format import InputFormat, TaskEncoderConfig
    from forebear.objectives.next_token import NextToken, TokenStreams


@dataclass(frozen=True)
class RNNSpec(ModelSpec):
    """Recurrent Neural Network Based Language Model (Mikolov, Karafiát, Burget, Černocký, Khudanpur; Interspeech 2010).

    The NNLM sees the last few words and no more. Here a state goes from word to word, h = tanh(U x + W h + b), with the
    same weights at every step, and the next word is softmax(V h + c): in principle all of the text before is in it.
    In practice the gradient of what lies k words back is a product of k matrices, which vanishes or explodes; so it is
    followed back for a few words only (truncated back-propagation), though the state itself is carried on.

    width    numbers in the vector of a word
    inner    units of a layer
    depth    layers
    context  words that gradients go back
    cell     "rnn": tanh; "gru": with two gates (Cho et al. 2014)
    softmax  "full": every word is weighed for every prediction; "adaptive": rare words in groups, also exact;
             "sampled": learned from some words at a time, which is near to it
    samples  words that are drawn at each step where the softmax is sampled
    state    in training, "carried": a window begins where the last one ended; "fresh": it begins with nothing known
    dropout  share of numbers set to zero in training, the same ones at all words of a row
    """

    sizes: ClassVar[dict[str, dict[str, Any]]] = {
        "tiny": {"width": 128, "inner": 256, "softmax": "adaptive", "context": 32},
        "small": {"width": 256, "inner": 512, "softmax": "adaptive", "context": 32},
        "gru": {"width": 256, "inner": 512, "softmax": "adaptive", "context": 32, "cell": "gru"},
        "mikolov": {},
    }
    size: ClassVar[str] = "tiny"
    tokenizer: ClassVar[str] = "words"
    entries: ClassVar[int] = 10_000

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
        recurrent_spec.validate_recurrent(self)
        spec.require_choice("cell", self.cell, ("rnn", "gru"))

    @property
    def is_stateful(self) -> bool:
        return self.state == "carried"

    @property
    def unused_fields(self) -> dict[str, str]:
        return recurrent_spec.unused_fields(self)

    def objective(self, tokenizer: Tokenizer) -> NextToken | TokenStreams:
        return recurrent_spec.recurrent_objective(self, tokenizer)

    def build(self, tokenizer: Tokenizer) -> Model:
        return recurrent_spec.build_recurrent(
            self, tokenizer, self.cell, recurrent_spec.word_embedding(self, tokenizer)
        )

    @property
    def accepts_task_encoder(self) -> bool:
        return True

    def build_task_encoder(self, tokenizer: Tokenizer, reader: TaskEncoderConfig) -> Model:
        return recurrent_spec.build_recurrent_task_encoder(self, tokenizer, reader)

    def input_format(self, tokenizer: Tokenizer) -> InputFormat:
        return recurrent_spec.recurrent_input_format(self, tokenizer)

    def default_recipe(self) -> dict[str, Any]:
        """A lower rate than an LSTM's: the tanh recurrence becomes unstable sooner."""
        return {"rate": 2e-3, "batch": 1024, "decay": 0.01, "clip": 0.5}
