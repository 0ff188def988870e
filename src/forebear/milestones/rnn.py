"""RNN (Mikolov et al. 2010): a state that goes from word to word has seen all of the text before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from forebear.milestones import recurrent, shape
from forebear.milestones.milestone import Milestone

if TYPE_CHECKING:
    from forebear.networks.model import Model
    from forebear.objectives.layout import Layout, Reader
    from forebear.objectives.next_token import NextToken
    from forebear.objectives.streams import Streams
    from forebear.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class Rnn(Milestone):
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
        recurrent.check(self)
        shape.one_of("cell", self.cell, ("rnn", "gru"))

    @property
    def carries(self) -> bool:
        return self.state == "carried"

    @property
    def idle_fields(self) -> dict[str, str]:
        return recurrent.idle(self)

    def objective(self, tokenizer: Tokenizer) -> NextToken | Streams:
        return recurrent.objective(self, tokenizer)

    def network(self, tokenizer: Tokenizer) -> Model:
        return recurrent.network(self, tokenizer, self.cell, recurrent.words(self, tokenizer))

    @property
    def takes_reader(self) -> bool:
        return True

    def task_network(self, tokenizer: Tokenizer, reader: Reader) -> Model:
        return recurrent.task_network(self, tokenizer, reader)

    def layout(self, tokenizer: Tokenizer) -> Layout:
        return recurrent.layout(self, tokenizer)

    def recipe(self) -> dict[str, Any]:
        """tanh goes round and round: a rate that an LSTM bears would break it."""
        return {"rate": 2e-3, "batch": 1024, "decay": 0.01, "clip": 0.5}
