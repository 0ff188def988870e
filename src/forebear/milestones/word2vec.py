"""word2vec (Mikolov et al. 2013): a word is known by the company it keeps, learned without a hidden layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from forebear.milestones import shape
from forebear.milestones.milestone import Milestone
from forebear.milestones.read_words import LAYOUT, read_words
from forebear.objectives.around import Around

if TYPE_CHECKING:
    from forebear.networks.model import Model
    from forebear.objectives.layout import Layout, Reader
    from forebear.text.tokenizer import Tokenizer
    from forebear.vectors.given import GivenVectors
    from forebear.vectors.words_and_phrases import WordsAndPhrases

ARCHITECTURES, OUTPUTS = ("skipgram", "cbow"), ("negatives", "tree")
GIVEN = "given"  # the output of vectors from elsewhere, which nobody chooses
MOST_PULLS = 1.5  # the rate times how many pull at a word at once; at twice as much vectors grow without end
PASSES = 4  # of joining words: what they join has up to sixteen


@dataclass(frozen=True)
class Word2vec(Milestone):
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
    learning: ClassVar[Literal["descending", "counting", "sweeping"]] = "sweeping"
    tokenizer: ClassVar[str] = "words"
    needs: ClassVar[tuple[str, ...]] = ()

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
        shape.one_of("architecture", self.architecture, ARCHITECTURES)
        if self.output != GIVEN:
            shape.one_of("output", self.output, OUTPUTS)
        numbers = dict.fromkeys(("width", "window", "negatives", "min_count"), (1, None))
        shape.within(self, **numbers, phrases=(0, PASSES), sample=(0, 1))
        Around(self.unit)

    @property
    def idle_fields(self) -> dict[str, str]:
        return {} if self.output == "negatives" else {"negatives": "output"}

    @property
    def new_words(self) -> str:
        if not self.subwords:
            return super().new_words
        return "have vectors that begin with what is known of their letter groups, beside a row of their own by chance"

    @property
    def least_count(self) -> int:
        return self.min_count

    def objective(self, tokenizer: Tokenizer) -> Around:
        return Around(self.unit)

    def network(self, tokenizer: Tokenizer) -> WordsAndPhrases | GivenVectors:
        if self.output == GIVEN:
            from forebear.vectors.given import GivenVectors

            return GivenVectors(vocabulary=tokenizer.size, never=tokenizer.specials, width=self.width)
        from forebear.vectors.subwords import Subwords
        from forebear.vectors.word2vec import Word2vecModel
        from forebear.vectors.words_and_phrases import WordsAndPhrases

        def make(words: Sequence[str]) -> Word2vecModel:
            return Word2vecModel(
                vocabulary=len(words),
                never=tokenizer.specials,
                width=self.width,
                window=self.window,
                architecture=self.architecture,
                output=self.output,
                negatives=self.negatives,
                sample=self.sample,
                subwords=Subwords() if self.subwords else None,
                words=words if self.subwords else None,
            )

        joining = {"passes": self.phrases, "least": self.min_count}
        return WordsAndPhrases(make, tokens=tokenizer.tokens(), never=tokenizer.specials, **joining)

    def task_network(self, tokenizer: Tokenizer, reader: Reader) -> Model:
        return read_words(tokenizer.size, self.width, reader)

    def layout(self, tokenizer: Tokenizer) -> Layout:
        return LAYOUT

    def recipe(self) -> dict[str, Any]:
        rate = 0.05 if self.architecture == "cbow" else 0.025
        if (self.architecture, self.output) == ("skipgram", "negatives"):
            rate = min(rate, MOST_PULLS / (1 + self.negatives))
        return {"rate": rate, "batch": 50_000, "epochs": 5, "warmup": 0, "cooldown": 1.0}
