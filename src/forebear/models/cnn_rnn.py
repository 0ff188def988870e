"""CNN-RNN (Kim et al. 2016): word vectors from a character CNN with highway layers, under a recurrent LM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from forebear.models import recurrent_spec, spec
from forebear.models.recurrent_spec import RecurrentSpec

if TYPE_CHECKING:
    from forebear.data.tokenizers.tokenizer import Tokenizer
    from forebear.nn.model import Model


@dataclass(frozen=True)
class CharCNNSpec(RecurrentSpec):
    """Character-Aware Neural Language Models (Kim, Jernite, Sontag, Rush; AAAI 2016).

    A table has a row for each word and knows nothing of a word that was seen once, though "walked" is written as "walk"
    is. Here filters slide over the symbols of a word, each keeps the most it finds anywhere, highway layers mix what
    was found, and that is the word's vector: rare words are helped by what others share with them, and there are
    fewer parameters. Above it is a recurrent network as before. Symbols are the bytes of the word, in any script.

    width       numbers in the vector of a word
    inner       units of a recurrent layer
    depth       recurrent layers
    cell        "lstm", "gru" or "rnn"
    characters  numbers in the vector of a symbol
    filters     how many symbols a filter sees, and how many of those there are
    highways    layers above the filters
    activation  of filters: "relu" or "tanh"
    longest     symbols of a word, with its two marks; what is longer is read as far as it fits
    context, softmax, samples, state and dropout are described in `RecurrentSpec`
    """

    sizes: ClassVar[dict[str, dict[str, Any]]] = {
        "tiny": {
            "width": 128,
            "inner": 256,
            "depth": 1,
            "filters": "1:32,2:32,3:64,4:64,5:64",
            "highways": 1,
            "softmax": "adaptive",
            "context": 32,
            "dropout": 0.0,
        },
        "small": {},
        "large": {"width": 650, "inner": 650, "filters": "1:50,2:100,3:150,4:200,5:200,6:200,7:200", "highways": 2},
    }
    size: ClassVar[str] = "tiny"
    char_level: ClassVar[bool] = True
    published_vocab_size: ClassVar[int] = 10_000

    width: int = 300
    inner: int = 300
    depth: int = 2
    context: int = 35
    cell: str = "lstm"
    characters: int = 15
    filters: str = "1:25,2:50,3:75,4:100,5:125,6:150"
    highways: int = 1
    activation: str = "tanh"
    longest: int = 50
    softmax: str = "full"
    samples: int = 4096
    state: str = "carried"
    dropout: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        recurrent_spec.validate_char_cnn(self)
        spec.require_choice("cell", self.cell, ("lstm", "gru", "rnn"))

    def build(self, tokenizer: Tokenizer) -> Model:
        return self.build_layers(tokenizer, self.cell, recurrent_spec.char_cnn_embedding(self, tokenizer))

    def task_tokenizer(self, tokenizer: Tokenizer) -> Tokenizer:
        from forebear.data.tokenizers.char_ids import oov_tokenizer

        return oov_tokenizer(tokenizer, self.longest)

    def default_recipe(self) -> dict[str, Any]:
        return {"rate": 4e-3 if self.inner < 512 else 2e-3, "batch": 1024, "decay": 0.01}
