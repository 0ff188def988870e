"""word2vec (Mikolov et al. 2013): word vectors from local contexts, by skip-gram or CBOW without a hidden layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from forebear.models import spec
from forebear.models.spec import WordVectorSpec
from forebear.objectives.word2vec_token_blocks import TokenBlocks

if TYPE_CHECKING:
    from forebear.data.tokenizers.tokenizer import Tokenizer
    from forebear.embeddings.word2vec_with_phrases import PhraseModel
    from forebear.embeddings.word_table import PretrainedVectors

ARCHITECTURES, OUTPUTS = ("skipgram", "cbow"), ("negatives", "tree")
IMPORTED = "given"  # the `output` of imported vectors, which users cannot choose
MAX_TOTAL_RATE = 1.5  # limit of the rate times the number of updates per word; vectors diverge at about twice as much
MAX_PHRASE_PASSES = 4  # up to 2**4 words are joined


@dataclass(frozen=True)
class Word2VecSpec(WordVectorSpec):
    """Efficient Estimation of Word Representations in Vector Space (Mikolov, Chen, Corrado, Dean; 2013).

    The NNLM's hidden layer and its softmax over all words took most of the time. word2vec leaves the layer away: the
    mean of the vectors around a word predicts it (CBOW), or its vector predicts each word around it (skip-gram). And it
    does not ask for a probability over all words (Distributed Representations of Words and Phrases and their
    Compositionality, 2013): it tells the true word from a few drawn by chance (negatives), or goes down a binary tree
    in which frequent words are near the root. Frequent words are skipped now and then, near words count more than far
    ones, and words that stand together more often than by chance (New York) become one. What remains is so cheap that
    billions of words could be read, and the vectors showed king - man + woman = queen. Bojanowski et al. (Enriching
    Word Vectors with Subword Information, 2017) added the vectors of a word's letter groups, so that words never seen
    have vectors too.

    width         numbers in the vector of a word
    window        the furthest word that is looked at on either side; how far is drawn anew for each word
    architecture  "skipgram": the words around are predicted from the word; "cbow": the word from those around
    output        "negatives": the true word is told from words drawn by chance; "tree": hierarchical softmax
    negatives     words drawn by chance beside each true one
    sample        words more frequent than this share of the text are skipped now and then; 0: none is
    min_count     words seen less often have no vector
    subwords      a word's vector is the mean of its own and of those of its letter groups (fastText)
    phrases       how often words that belong together are joined: 1 joins pairs, 2 also what was joined, 0 nothing
    unit          what no window reaches beyond: a "sentence" or a "document"
    """

    sizes: ClassVar[dict[str, dict[str, Any]]] = {
        "100d": {},
        "300d": {"width": 300},
        "cbow": {"architecture": "cbow"},
        "fasttext": {"subwords": True},
    }
    size: ClassVar[str] = "100d"

    width: int = 100
    window: int = 5
    architecture: str = "skipgram"
    output: str = "negatives"
    negatives: int = 5
    sample: float = 1e-3
    min_count: int = 5
    subwords: bool = False
    phrases: int = 0
    unit: str = "document"

    def __post_init__(self) -> None:
        spec.require_choice("architecture", self.architecture, ARCHITECTURES)
        if self.output != IMPORTED:
            spec.require_choice("output", self.output, OUTPUTS)
        ranges = dict.fromkeys(("width", "window", "negatives", "min_count"), (1, None))
        spec.require_range(self, **ranges, phrases=(0, MAX_PHRASE_PASSES), sample=(0, 1))
        TokenBlocks(self.unit)

    @property
    def unused_fields(self) -> dict[str, str]:
        return {} if self.output == "negatives" else {"negatives": "output"}

    @property
    def new_word_note(self) -> str:
        if not self.subwords:
            return super().new_word_note
        return "have vectors that begin with what is known of their letter groups, beside a row of their own by chance"

    def objective(self, tokenizer: Tokenizer) -> TokenBlocks:
        return TokenBlocks(self.unit)

    def build(self, tokenizer: Tokenizer) -> PhraseModel | PretrainedVectors:
        if self.output == IMPORTED:
            from forebear.embeddings.word_table import PretrainedVectors

            return PretrainedVectors(
                vocab_size=tokenizer.vocab_size, excluded_ids=tokenizer.special_ids, width=self.width
            )
        from forebear.embeddings.word2vec import Subwords, Word2VecModel
        from forebear.embeddings.word2vec_with_phrases import PhraseModel

        def make_model(words: Sequence[str]) -> Word2VecModel:
            return Word2VecModel(
                vocab_size=len(words),
                excluded_ids=tokenizer.special_ids,
                width=self.width,
                window=self.window,
                architecture=self.architecture,
                output=self.output,
                negatives=self.negatives,
                sample=self.sample,
                subwords=Subwords() if self.subwords else None,
                words=words if self.subwords else None,
            )

        phrase_options = {"passes": self.phrases, "min_count": self.min_count}
        return PhraseModel(
            make_model, tokens=tokenizer.vocabulary(), excluded_ids=tokenizer.special_ids, **phrase_options
        )

    def default_recipe(self) -> dict[str, Any]:
        rate = 0.05 if self.architecture == "cbow" else 0.025
        if (self.architecture, self.output) == ("skipgram", "negatives"):
            rate = min(rate, MAX_TOTAL_RATE / (1 + self.negatives))
        return {"rate": rate, "batch": 50_000, "epochs": 5, "warmup": 0, "cooldown": 1.0}
