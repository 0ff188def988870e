"""NNLM (Bengio et al. 2003): a feed-forward language model that learns word embeddings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from forebear.models import spec
from forebear.models.spec import ModelSpec
from forebear.objectives.input_format import InputFormat
from forebear.objectives.next_token import NextToken

if TYPE_CHECKING:
    from forebear.data.tokenizers.tokenizer import Tokenizer
    from forebear.nn.model import Model

SOFTMAXES = ("full", "adaptive")
TARGETS_PER_SEQUENCE = 32  # more would be shuffled less, fewer would repeat more context


@dataclass(frozen=True)
class NNLMSpec(ModelSpec):
    """A Neural Probabilistic Language Model (Bengio, Ducharme, Vincent, Jauvin; JMLR, 2003).

    To an n-gram every word is as far from every other: having seen "the cat is walking in the bedroom" says nothing of
    "a dog was running in a room". Here each word has a vector, and the next word's probability is a smooth function of
    the vectors x of the last few: softmax(b + W x + U tanh(d + H x)). Words that are used alike get vectors that are
    alike, so that what was learned of one sentence holds for very many others. Vectors and function are learned
    together, by descent on the likelihood of text; the vectors that are left behind were the first word embeddings.

    width    numbers in the vector of a word (m)
    inner    units of the hidden layer (h)
    context  words it looks back at (n - 1): 1 makes it a bigram
    direct   whether the vectors are also connected to the output directly (W)
    softmax  "full": every word is weighed for every prediction; "adaptive": rare words in groups, which is much faster
             where the vocabulary is large; both are exact probabilities
    """

    sizes: ClassVar[dict[str, dict[str, Any]]] = {
        "tiny": {"width": 64, "inner": 128, "context": 4, "direct": False, "softmax": "adaptive"},
        "small": {"width": 128, "inner": 256, "context": 5, "direct": False, "softmax": "adaptive"},
        "brown": {"width": 30, "inner": 100, "context": 4, "direct": False},
        "brown-direct": {"width": 60, "inner": 50, "context": 4},
        "ap": {},
    }
    size: ClassVar[str] = "tiny"
    tokenizer: ClassVar[str] = "words"
    published_vocab_size: ClassVar[int] = 17_964

    width: int = 100
    inner: int = 60
    context: int = 5
    direct: bool = True
    softmax: str = "full"

    def __post_init__(self) -> None:
        spec.require_positive(self, "width", "inner", "context")
        spec.require_choice("softmax", self.softmax, SOFTMAXES)

    def objective(self, tokenizer: Tokenizer) -> NextToken:
        (eos_id,) = spec.special_ids(tokenizer, self.required_roles)
        return NextToken(TARGETS_PER_SEQUENCE, eos_id, lead_tokens=self.context - 1)

    def build(self, tokenizer: Tokenizer) -> Model:
        from forebear.nn.model import Model
        from forebear.nn.nnlm import NNLMEncoder, NNLMHead, WordEmbedding
        from forebear.nn.softmax import AdaptiveSoftmax, cluster_cutoffs

        (eos_id,) = spec.special_ids(tokenizer, self.required_roles)
        embedding = WordEmbedding(tokenizer.vocab_size, self.width)
        encoder = NNLMEncoder(embedding, window=self.context, inner=self.inner, end_id=eos_id)
        inputs = self.inner + (self.context * self.width if self.direct else 0)
        cutoffs = cluster_cutoffs(tokenizer.vocab_size) if self.softmax == "adaptive" else ()
        softmax = AdaptiveSoftmax(inputs, tokenizer.vocab_size, cutoffs)
        return Model(encoder, {"next": NNLMHead(softmax, direct=self.direct)})

    def input_format(self, tokenizer: Tokenizer) -> InputFormat:
        """Texts start as documents do. No single state depends on the whole text, so states are averaged."""
        (eos_id,) = spec.special_ids(tokenizer, self.required_roles)
        return InputFormat((eos_id,), (eos_id,))

    def default_recipe(self) -> dict[str, Any]:
        """A rate too high for deep networks: most words are rare, and each occurrence has to count."""
        return {"rate": 1e-2, "batch": 1024, "decay": 0.01}
