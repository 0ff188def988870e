"""How well a run predicts a text: bits per byte, the same unit for every milestone, beside its own perplexity."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from forebear.errors import BadInput
from forebear.text.characters import sound
from forebear.text.ledger import size
from forebear.text.sentences import split_sentences
from forebear.using.texts import batches, end_of, matched, row_of, spelling_bits, unknown_sizes

if TYPE_CHECKING:
    from forebear.text.portion import Portion
    from forebear.text.reading import Reading
    from forebear.text.tokenizer import Tokenizer
    from forebear.using.predicting import Predictor
    from forebear.using.run import Run

UNITS = ("document", "sentence")
Progress = Callable[[int, int], object]  # bytes done, bytes in all


@dataclass(frozen=True)
class Measured:
    """Totals over all units of a text, documents or sentences, each scored by itself; the rest follows from them.

    tokens counts what was predicted: every token of the text, and the end of each unit. impossible counts those
    whose probability was 0, as maximum likelihood can say; then `nats` is infinite.

    A run that finds hidden tokens has no probability of a text: of it these figures are `pseudo`, see `hiding`.
    """

    nats: float
    tokens: int
    units: int
    documents: int
    bytes: int
    unknown_tokens: int
    unknown_bytes: int
    impossible: int
    seconds: float
    forgotten: tuple[str, ...] = ()  # what the tokenizer does not keep of a text is not counted
    learned_from: int | None = None  # documents of files that the run has learned from, where that is known
    learned_bytes: int | None = None  # of those
    pseudo: bool = False
    asked: int | None = None  # tokens that were hidden, of which the rest is inferred
    accuracy: float | None = None  # of hidden tokens found again
    guess: float | None = None  # of them, if always the commonest were said
    pair_accuracy: float | None = None  # of questions about two halves answered right
    known_nats: float | None = None  # without what unknown tokens cost; None: none of them was asked for
    ngram_length: float | None = None  # tokens of the n-gram by which a run that counts told a token, in the mean
    unit: str = "document"  # what was scored by itself, and pays for its end: a document, a sentence or a line

    @property
    def bits_per_byte(self) -> float:
        """Bits of all tokens and ends, and of spelling what was unknown, by bytes of the original text."""
        return (self.nats / math.log(2) + spelling_bits(self.unknown_tokens, self.unknown_bytes)) / self.bytes

    @property
    def nats_per_token(self) -> float:
        """The mean loss, ends included, as a training log shows it; unknown tokens count as themselves."""
        return self.nats / self.tokens

    @property
    def perplexity(self) -> float:
        """Of the run's own tokens: comparable among runs of one tokenizer only."""
        return perplexity_of(self.nats, self.tokens)

    @property
    def perplexity_known(self) -> float:
        """The same of those tokens that are not unknown (KenLM's "excluding OOVs")."""
        if self.known_nats is None:
            return self.perplexity
        return perplexity_of(self.known_nats, self.tokens - self.unknown_tokens)

    @property
    def unknown_rate(self) -> float:
        """Of the text's own tokens, ends left out."""
        if self.pseudo:  # unknown tokens are never hidden, and no end is
            return self.unknown_tokens / max(self.tokens + self.unknown_tokens, 1)
        return self.unknown_tokens / max(self.tokens - self.units, 1)

    def facts(self) -> dict[str, Any]:
        """As JSON values: what is infinite is null, and `impossible_tokens` says why."""
        return {
            "bits_per_byte": finite(self.bits_per_byte),
            "perplexity": finite(self.perplexity),
            "perplexity_known": finite(self.perplexity_known),
            "nats_per_token": finite(self.nats_per_token),
            "tokens": self.tokens,
            "bytes": self.bytes,
            "documents": self.documents,
            "units": self.units,
            "unit": self.unit,
            "unknown_tokens": self.unknown_tokens,
            "unknown_rate": self.unknown_rate,
            "impossible_tokens": self.impossible,
            "forgotten": list(self.forgotten),
            "learned_from": self.learned_from,
            "learned_bytes": self.learned_bytes,
            "pseudo": self.pseudo,
            "asked": self.asked,
            "accuracy": self.accuracy,
            "guess": self.guess,
            "pair_accuracy": self.pair_accuracy,
            "ngram_length": self.ngram_length,
            "seconds": round(self.seconds, 3),
        }


def perplexity_of(nats: float, tokens: int) -> float:
    """What so many nats for so many tokens come to."""
    mean = nats / tokens
    return math.exp(mean) if mean < 700 else math.inf


def finite(value: float) -> float | None:
    """The value where JSON has a way to write it."""
    return value if math.isfinite(value) else None


@dataclass(frozen=True)
class _Unit:
    """A text that is scored by itself, its share of the bytes, and whether it begins a document."""

    row: np.ndarray
    bytes: int
    unknown_bytes: int
    is_first: bool


def prepared(
    run: Run,
    texts: Portion | str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    reading: Reading | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Portion:
    """Files as the run's tokenizer cuts them, taken as its own text was where that decides which tokens they have."""
    from forebear.text.portion import Portion
    from forebear.text.reading import Reading
    from forebear.training.corpora import TextSource, corpus_of

    if isinstance(texts, Portion):
        return texts
    told = (run.facts.get("data") or {}).get("source")
    lines = (
        told is None and "imported" in run.facts and run.unit == "sentence"
    )  # who has n-grams from elsewhere has counted lines
    own = TextSource((), sentences="lines" if lines else "split") if told is None else TextSource.from_json(told)
    paths = [texts] if isinstance(texts, str | os.PathLike) else texts
    source = replace(own, paths=tuple(os.fspath(path) for path in paths), reading=reading or Reading(), entities=None)
    if run.tokenizer.kind != "words":  # no other kind asks where words are
        source = replace(source, segment=False, user_dict=None)
    return corpus_of(source, run.tokenizer, workers=workers, progress=progress).whole()


def measure(
    predictor: Predictor,
    tokenizer: Tokenizer,
    source: Portion | Iterable[str],
    *,
    unit: str = "document",
    progress: Progress | None = None,
) -> Measured:
    """Scores every unit of a portion, or every given text, by itself: as [end, tokens…, end].

    With `unit` "sentence" each sentence is a text of its own, for runs that learned them so. A portion brings its ids
    along, so they must be of this tokenizer. Memory stays bounded whatever is measured.
    """
    began = time.monotonic()
    units, total = _units(source, tokenizer, unit)
    nats: list[float] = []
    known: list[float] = []
    lengths: list[int] = []
    tokens = count = documents = done = unknown_tokens = unknown_bytes = impossible = 0
    for group in batches(units, lambda unit: len(unit.row)):
        told, used = matched(predictor, [unit.row for unit in group])
        scores = np.concatenate(told)
        nats.append(-float(scores.sum()))
        lengths += [] if used is None else [int(np.concatenate(used).sum(dtype=np.int64))]
        tokens += len(scores)
        impossible += int(np.isneginf(scores).sum())
        count += len(group)
        documents += sum(unit.is_first for unit in group)
        done += sum(unit.bytes for unit in group)
        unknown_bytes += sum(unit.unknown_bytes for unit in group)
        lacking = np.concatenate([unit.row[1:] for unit in group]) == tokenizer.unknown
        known.append(-float(scores[~lacking].sum()))
        unknown_tokens += int(np.count_nonzero(lacking))
        if progress is not None:
            progress(done, max(total, done))
    if not done:
        raise BadInput("there is no text to measure", remedy="give text that has at least one character")
    return Measured(
        nats=math.fsum(nats),
        tokens=tokens,
        units=count,
        documents=documents,
        bytes=done,
        unknown_tokens=unknown_tokens,
        unknown_bytes=unknown_bytes,
        impossible=impossible,
        seconds=time.monotonic() - began,
        forgotten=tokenizer.forgets,
        known_nats=math.fsum(known),
        ngram_length=sum(lengths) / tokens if lengths else None,
        unit=_named(source, unit),
    )


def _named(source: Portion | Iterable[str], unit: str) -> str:
    """A unit by its name for people: sentences are lines where each line was taken for one."""
    from forebear.text.portion import Portion

    by_lines = isinstance(source, Portion) and source.corpus.facts["made_from"]["sentences"] == "lines"
    return "line" if unit == "sentence" and by_lines else unit


def rows_of(source: Portion | Iterable[str], tokenizer: Tokenizer, unit: str) -> Iterator[np.ndarray]:
    """The rows that `measure` scores: each unit between two ends."""
    return (unit.row for unit in _units(source, tokenizer, unit)[0])


def _units(source: Portion | Iterable[str], tokenizer: Tokenizer, unit: str) -> tuple[Iterator[_Unit], int]:
    """The units one by one, and their bytes in all where that is known beforehand (else 0)."""
    from forebear.text.portion import Portion

    end = end_of(tokenizer)
    if unit not in UNITS:
        raise BadInput(f"the unit is {unit!r}", remedy=f"choose one of {', '.join(UNITS)}")
    if isinstance(source, Portion):
        is_cut_by(source, tokenizer)
        return _of_portion(source, end, unit), source.bytes
    return _of_texts([source] if isinstance(source, str) else source, tokenizer, end, unit), 0


def is_cut_by(portion: Portion, tokenizer: Tokenizer) -> None:
    """An error where a corpus was cut by another tokenizer."""
    if portion.corpus.facts["made_from"]["tokenizer"] != tokenizer.digest:
        raise BadInput(
            "this corpus was made with another tokenizer than the run's",
            file=portion.corpus.folder,
            remedy="give the text itself, or prepare it with the run's tokenizer.json",
        )


def _of_portion(portion: Portion, end: int, unit: str) -> Iterator[_Unit]:
    shown = portion.by_sentence() if unit == "sentence" else portion
    first = np.ones(len(shown), bool)
    if unit == "sentence":
        counts = portion.units[:, 1] - portion.units[:, 0]
        first[:] = False
        first[np.cumsum(counts) - counts] = True
    numbers = (shown.spans.tolist(), shown.sizes.tolist(), shown.unknown.tolist(), first.tolist())
    for (begin, stop), length, unknown, is_first in zip(*numbers, strict=True):
        yield _Unit(row_of(portion.corpus.ids[begin:stop], end, ends=True), length, unknown, is_first)


def _of_texts(texts: Iterable[str], tokenizer: Tokenizer, end: int, unit: str) -> Iterator[_Unit]:
    for text in map(sound, texts):
        for number, part in enumerate(split_sentences(text) if unit == "sentence" else [text]):
            pieces = tokenizer.encode(part)
            unknown = int(unknown_sizes(part, pieces, tokenizer.unknown).sum())
            yield _Unit(row_of(pieces.ids, end, ends=True), size(part), unknown, number == 0)
