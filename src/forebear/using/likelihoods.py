"""How likely words are in their place, given what stands around them: by a run that predicts, or one that restores.

Every wording is put in its place and the whole is scored, so it never matters where a tokenizer cuts around it; words
that a run goes on with follow the tokens of the text before them, as whatever it generates does (`going_on`). Of a
run that predicts, the tokens from the first that reaches into the words to the end of the text are counted: log P(the
words and what follows them, given what stands before), which is log P(whole) less a part that all wordings share. Of
one that restores, only the tokens that reach into the words, as it sees what follows anyway: each is told with itself
and the later of these hidden (one by one they would betray each other; Kauf and Ivanova 2023). Other tokens count only
where one wording has the text around it cut otherwise than another. Unknown ones are charged their spelling, as in
`score`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from forebear.errors import BadInput
from forebear.text.ledger import size
from forebear.using.branching import AT_ONCE as BRANCHES
from forebear.using.branching import told_along
from forebear.using.prompts import reaching
from forebear.using.texts import batches, end_of, log_probabilities, no_numbers, row_of, spelling_bits, unknown_sizes

if TYPE_CHECKING:
    from typing_extensions import TypeIs

    from forebear.networks.restorer import Restorer
    from forebear.text.tokenizer import Pieces, Tokenizer
    from forebear.using.predicting import Predictor
    from forebear.using.prompts import Fitted

SPARED = 1 << 11  # tokens that need not be read again, from which on a tree of wordings is worth its beginning
AT_ONCE = 1 << 12  # tokens that a network reads at once: bounds memory, changes no result


@dataclass(frozen=True, slots=True)
class Likelihood:
    """The natural logarithm, the tokens and bytes that were counted, and unknown tokens among those of the words."""

    log_probability: float
    tokens: int
    bytes: int
    unknown: int


@dataclass(frozen=True, slots=True)
class _Counted:
    """The ids of a whole, of which those from `begin` to `end` are counted."""

    ids: np.ndarray
    begin: int
    end: int
    bytes: int
    spelling: float  # nats, of the unknown tokens that are counted
    unknown: int


def likelihoods(scorer: Predictor | Restorer, tokenizer: Tokenizer, asked: Sequence[Fitted]) -> list[list[Likelihood]]:
    """For each frame, how likely each of its wordings is there; all of them together, in batches."""
    counted = [list(_counted(fit, tokenizer, to_the_end=not scorer.pseudo)) for fit in asked]
    flat = [one for mine in counted for one in mine]
    told = _restored(scorer, flat) if finds_hidden(scorer) else _predicted(scorer, tokenizer, flat)
    values = iter(told.tolist())
    return [
        [Likelihood(next(values) - one.spelling, one.end - one.begin, one.bytes, one.unknown) for one in mine]
        for mine in counted
    ]


def finds_hidden(scorer: Predictor | Restorer) -> TypeIs[Restorer]:
    """Whether it tells tokens by both sides."""
    return scorer.pseudo


def _counted(fit: Fitted, tokenizer: Tokenizer, *, to_the_end: bool) -> Iterator[_Counted]:
    start, rows = fit.frame.start, [pieces.ids for pieces in fit.pieces]
    owns = [_own(pieces, start, words) for pieces, words in zip(fit.pieces, fit.wordings, strict=True)]
    # Words may change how the text around them is cut: then what differs counts too.
    before = min(_alike(rows), *(own.start for own in owns))
    behind = min(
        _alike([row[::-1] for row in rows]), *(len(row) - own.stop for row, own in zip(rows, owns, strict=True))
    )
    for pieces, words, own in zip(fit.pieces, fit.wordings, owns, strict=True):
        whole, end = fit.frame.whole(words), len(pieces.ids) - (0 if to_the_end else behind)
        missed = unknown_sizes(whole, pieces, tokenizer.unknown)
        lacking = pieces.ids == (-1 if tokenizer.unknown is None else tokenizer.unknown)
        spelled = spelling_bits(int(lacking[before:end].sum()), int(missed[before:end].sum())) * math.log(2)
        told = whole[start:].lstrip() if to_the_end else words.lstrip()
        yield _Counted(pieces.ids, before, end, size(told), spelled, int(lacking[own.start : own.stop].sum()))


def _own(pieces: Pieces, start: int, words: str) -> range:
    mine = reaching(pieces.spans, start, start + len(words))
    if not mine:
        raise BadInput(f"the run's tokenizer sees nothing in {words!r}", remedy="choose words that it knows")
    return range(mine[0], mine[-1] + 1)


def _alike(rows: Sequence[np.ndarray]) -> int:
    """How many tokens all rows begin with alike."""
    length = min(map(len, rows))
    differing = np.flatnonzero((np.stack([row[:length] for row in rows]) != rows[0][:length]).any(axis=0))
    return int(differing[0]) if len(differing) else length


def _predicted(predictor: Predictor, tokenizer: Tokenizer, asked: Sequence[_Counted]) -> np.ndarray:
    """Few wordings are scored whole, many along the tree of what they share."""
    end, found = end_of(tokenizer), np.empty(len(asked))
    alike: dict[bytes, list[int]] = {}
    for number, one in enumerate(asked):
        alike.setdefault(one.ids[: one.begin].tobytes(), []).append(number)
    whole: list[int] = []
    for numbers in alike.values():
        first = asked[numbers[0]]
        if (len(numbers) - len(numbers) // BRANCHES - 1) * first.begin < SPARED:
            whole += numbers
            continue
        tails = [asked[number].ids[first.begin :].tolist() for number in numbers]
        found[numbers] = told_along(predictor, row_of(first.ids[: first.begin], end, ends=False), tails)
    rows = [row_of(asked[number].ids, end, ends=False) for number in whole]
    told = (scores for group in batches(rows, len) for scores in log_probabilities(predictor, group))
    for number, scores in zip(whole, told, strict=True):
        found[number] = scores[asked[number].begin : asked[number].end].sum()
    return found


def _restored(restorer: Restorer, asked: Sequence[_Counted]) -> np.ndarray:
    """A copy for each token that is asked for, with the mask from it to the last of the words."""
    places = [(number, place) for number, one in enumerate(asked) for place in range(one.begin, one.end)]
    places.sort(key=lambda place: len(asked[place[0]].ids))  # equal lengths stand together
    found = np.zeros(len(asked))
    for group in batches(places, lambda place: len(asked[place[0]].ids) + 2, AT_ONCE):
        rows, targets = [], []
        for number, place in group:
            one = asked[number]
            row = np.concatenate(([restorer.start], one.ids, [restorer.end])).astype(np.int64)
            row[place + 1 : one.end + 1] = restorer.mask
            target = np.full(len(row), -1, np.int64)
            target[place + 1] = one.ids[place]
            rows.append(row)
            targets.append(target)
        inputs = {"tokens": np.concatenate(rows), "lengths": np.array([len(row) for row in rows])}
        told = restorer.examine(inputs, {"token": np.concatenate(targets)})["token"]
        if np.isnan(told).any():
            raise no_numbers()
        np.add.at(found, [number for number, _ in group], told)
    return found
