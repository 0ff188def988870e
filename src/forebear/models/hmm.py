"""The hidden Markov model (Baum et al. 1966–1970, Rabiner 1989): words emitted by a chain of hidden states."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from forebear.models.spec import ModelSpec
from forebear.objectives.input_format import InputFormat
from forebear.objectives.ordered_texts import WholeTexts

if TYPE_CHECKING:
    import numpy as np

    from forebear.data.tokenizers.tokenizer import Tokenizer
    from forebear.statistical.hmm import HMMModel
    from forebear.statistical.hmm_tagger import HMMTagger

MAX_WORD_BYTES = 64  # bytes stored per word, as for the other taggers


@dataclass(frozen=True)
class HMMSpec(ModelSpec):
    """A Tutorial on Hidden Markov Models and Selected Applications in Speech Recognition (Rabiner, 1989).

    An n-gram knows the last few words and nothing else. Baum and Petrie (1966) looked at a chain of states of which
    only what they say is seen: one state follows another, each says a word, and both by chance. Two sums that go
    through a text once, forwards and backwards, tell how probable it is over all chains of states there are; and with
    them Baum, Petrie, Soules and Weiss (1970) found how to learn from the text alone: count each state as often as it
    is expected, take the counts for tables, and begin again. Each time the text is more probable than before. Left to
    itself on plain text, the states become kinds of words. Where people wrote the states down, as parts of speech,
    counting once is enough, and the best chain (Viterbi, 1967) tags a new sentence (Church, A Stochastic Parts Program
    and Noun Phrase Parser for Unrestricted Text, 1988).

    states     how many there are
    smoothing  the share of its words that a state takes from a table that all of them share; 0: what a state never
               said in the text is impossible
    unit       what begins and ends by itself: a "sentence" or a "document"
    """

    sizes: ClassVar[dict[str, dict[str, Any]]] = {
        "small": {"states": 32},
        "base": {"states": 64},
        "large": {"states": 128},
    }
    size: ClassVar[str] = "base"
    learning: ClassVar[Literal["descending", "counting", "sweeping"]] = "counting"
    counts_again: ClassVar[bool] = True
    learns_tags: ClassVar[bool] = True
    tokenizer: ClassVar[str] = "words"

    states: int = 64
    smoothing: float = 0.05
    unit: str = "sentence"

    def __post_init__(self) -> None:
        from forebear.statistical.hmm import validate_hmm

        validate_hmm(self.states, self.smoothing)
        WholeTexts(self.unit, eos_id=0)

    def objective(self, tokenizer: Tokenizer) -> WholeTexts:
        return WholeTexts(self.unit, tokenizer.special_roles["end"])

    def build(self, tokenizer: Tokenizer) -> HMMModel:
        from forebear.statistical.hmm import HMMModel

        eos_id = tokenizer.special_roles["end"]
        return HMMModel(
            states=self.states,
            vocab_size=tokenizer.vocab_size,
            eos_id=eos_id,
            excluded_ids=tokenizer.special_ids - {eos_id, tokenizer.unk_id},
            smoothing=self.smoothing,
        )

    def build_tagger(
        self, tokenizer: Tokenizer, allowed_transitions: tuple[np.ndarray, np.ndarray, np.ndarray]
    ) -> HMMTagger:
        """A supervised tagger, whose states are the tags; it ignores the fields, which are for unsupervised states."""
        from forebear.data.tokenizers.char_ids import char_ids_for
        from forebear.statistical.hmm_tagger import HMMTagger

        char_ids = char_ids_for(tokenizer, MAX_WORD_BYTES)
        return HMMTagger(
            words=tokenizer.vocabulary(),
            eos_id=tokenizer.special_roles["end"],
            unk_id=tokenizer.special_roles["unknown"],
            allowed=allowed_transitions,
            excluded_ids=frozenset(tokenizer.special_ids),
            oov_words=lambda numbers: [char_ids.id_to_word(number) for number in numbers.tolist()],
        )

    def task_tokenizer(self, tokenizer: Tokenizer) -> Tokenizer:
        """A tokenizer that keeps words of pre-tokenized text whole; out-of-vocabulary words are read as characters."""
        from forebear.data.tokenizers.char_ids import base_tokenizer, oov_tokenizer

        base = base_tokenizer(tokenizer)
        return oov_tokenizer(base, MAX_WORD_BYTES) if base.split == "spaces" else base

    def input_format(self, tokenizer: Tokenizer) -> InputFormat:
        """Plain texts, with segment ids for pairs."""
        return InputFormat(segments=True)

    def default_recipe(self) -> dict[str, Any]:
        return {"batch": 250_000, "epochs": 30}
