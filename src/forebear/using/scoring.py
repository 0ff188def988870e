"""How probable a run finds a text, as a whole and token by token: log-probability, perplexity, bits per byte."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from forebear.errors import BadInput
from forebear.text.characters import sound
from forebear.text.ledger import size
from forebear.using.measuring import finite, perplexity_of
from forebear.using.texts import batches, end_of, matched, row_of, spelling_bits, unknown_sizes

if TYPE_CHECKING:
    from forebear.networks.restorer import Restorer
    from forebear.text.tokenizer import Pieces, Tokenizer
    from forebear.using.predicting import Predictor


@dataclass(frozen=True, slots=True)
class ScoredToken:
    """A token of a text, where it stands (code points), and how probable it was after all before it.

    The end of a text has the empty span behind its last character. `spelling` is what an unknown token costs in bits
    beside its own probability, because its text has yet to be spelled; 0 for all others. `ngram_length` is how many
    tokens the n-gram has by which a run that counts told it: the longest it knows that ends there.
    """

    token: str
    id: int
    start: int
    end: int
    original: str
    log_probability: float
    spelling: float
    ngram_length: int | None = None

    @property
    def probability(self) -> float:
        return math.exp(self.log_probability)

    @property
    def bits(self) -> float:
        """The surprise."""
        return -self.log_probability / math.log(2) + self.spelling

    def facts(self) -> dict[str, Any]:
        """As JSON values; a log-probability of minus infinity is null."""
        told: dict[str, Any] = {
            "token": self.token,
            "id": self.id,
            "start": self.start,
            "end": self.end,
            "original": self.original,
            "log_probability": finite(self.log_probability),
            "probability": self.probability,
            "bits": finite(self.bits),
        }
        return told if self.ngram_length is None else {**told, "ngram_length": self.ngram_length}


@dataclass(frozen=True)
class Scored:
    """A text with its tokens; natural logarithms. What a text of probability 0 has is infinite."""

    text: str
    tokens: tuple[ScoredToken, ...]
    pseudo: bool = False  # each token was told by all others: the sum is no probability of the text, but ranks texts

    @property
    def log_probability(self) -> float:
        return math.fsum(token.log_probability for token in self.tokens)

    @property
    def probability(self) -> float:
        return math.exp(self.log_probability)

    @property
    def perplexity(self) -> float:
        """Of the run's own tokens: comparable among runs of one tokenizer only."""
        return perplexity_of(-self.log_probability, len(self.tokens))

    @property
    def perplexity_known(self) -> float | None:
        """The same of those tokens that are not unknown; None where all are."""
        known = [token.log_probability for token in self.tokens if not token.spelling]
        return perplexity_of(-math.fsum(known), len(known)) if known else None

    @property
    def bytes(self) -> int:
        return size(sound(self.text))

    @property
    def bits(self) -> float:
        """What the text costs to tell: every token, and the spelling of what is unknown."""
        return math.fsum(token.bits for token in self.tokens)

    @property
    def bits_per_byte(self) -> float:
        """Comparable among all runs: what is unknown is charged its spelling."""
        return self.bits / self.bytes

    @property
    def unknown(self) -> int:
        """How many tokens are unknown."""
        return sum(token.spelling > 0 for token in self.tokens)

    @property
    def impossible(self) -> int:
        """How many tokens have the probability 0."""
        return sum(token.log_probability == -math.inf for token in self.tokens)

    def facts(self, *, tokens: bool = True) -> dict[str, Any]:
        """As JSON values: what is infinite is null, and `impossible_tokens` says why."""
        told: dict[str, Any] = {
            "text": self.text,
            "log_probability": finite(self.log_probability),
            "probability": self.probability,
            "perplexity": finite(self.perplexity),
            "perplexity_known": None if self.perplexity_known is None else finite(self.perplexity_known),
            "bits_per_byte": finite(self.bits_per_byte),
            "pseudo": self.pseudo,
            "token_count": len(self.tokens),
            "bytes": self.bytes,
            "unknown_tokens": self.unknown,
            "impossible_tokens": self.impossible,
        }
        return {**told, "tokens": [token.facts() for token in self.tokens]} if tokens else told


def score(
    predictor: Predictor | Restorer, tokenizer: Tokenizer, texts: str | Sequence[str], *, ends: bool = False
) -> list[Scored]:
    """Scores each text by itself, as what follows the start of a text; with `ends`, that it ends there too.

    A run that finds hidden tokens is asked for each token by all others: a pseudo-likelihood, marked so.

    A text without a single token has no probability worth the name and is refused, by its number counted from 1.
    """
    texts = [texts] if isinstance(texts, str) else list(texts)
    if predictor.pseudo and ends:
        what = "whether a text ends is nothing that this run was ever asked"
        raise BadInput(what, remedy="leave --ends out, or ask a run that predicts the next token")
    end = end_of(tokenizer)
    cuts = [tokenizer.encode(text) for text in texts]
    for number, pieces in enumerate(cuts, 1):
        if not len(pieces.ids):
            raise nothing_to_score(number)
    rows = [row_of(pieces.ids, end, ends=ends) for pieces in cuts]
    told: list[tuple[np.ndarray, np.ndarray | None]] = []
    for group in batches(rows, len):
        scores, lengths = matched(predictor, group)
        told += zip(scores, [None] * len(scores) if lengths is None else lengths, strict=True)
    return [
        Scored(text, tuple(_tokens(text, pieces, scores.tolist(), lengths, tokenizer)), predictor.pseudo)
        for text, pieces, (scores, lengths) in zip(texts, cuts, told, strict=True)
    ]


def nothing_to_score(number: int | None = None) -> BadInput:
    what, remedy = "this text has no tokens, so there is nothing to score", "leave it out, or write some text"
    return BadInput(what, line=number, remedy=remedy)


def _tokens(
    text: str, pieces: Pieces, scores: Sequence[float], lengths: np.ndarray | None, tokenizer: Tokenizer
) -> Iterator[ScoredToken]:
    """The text's tokens with their scores, and its end if that was scored too."""
    missed = unknown_sizes(sound(text), pieces, tokenizer.unknown).tolist()
    used = [None] * len(scores) if lengths is None else lengths.tolist()
    parts = zip(pieces.texts, pieces.ids.tolist(), pieces.spans, missed, scores, used, strict=False)
    for token, i, (start, stop), count, value, length in parts:
        spelling = spelling_bits(1, count) if i == tokenizer.unknown else 0.0
        yield ScoredToken(token, i, start, stop, text[start:stop], value, spelling, length)
    if len(scores) > len(pieces.ids):
        end = end_of(tokenizer)
        yield ScoredToken(tokenizer.token(end), end, len(text), len(text), "", scores[-1], 0.0, used[-1])


def ranks(scored: Sequence[Scored]) -> list[int]:
    """The place of each text by what it costs, spelling included: 1 is the likeliest; equal ones share one."""
    bits = [one.bits for one in scored]
    rising = sorted(bits)
    return [1 + bisect_left(rising, value) for value in bits]
