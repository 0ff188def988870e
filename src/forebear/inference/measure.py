"""How well a run predicts a text: bits per byte, the same unit for every milestone, beside its own perplexity."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from forebear.data.io.ledger import utf8_size
from forebear.data.sentences import split_sentences
from forebear.data.tokenizers.char_level import replace_surrogates
from forebear.errors import InputError
from forebear.inference.predictor import (
    eos_id,
    make_row,
    oov_spelling_bits,
    row_log_probs_with_lengths,
    token_batches,
    unknown_token_bytes,
)
from forebear.objectives.batch import BatchKey
from forebear.objectives.masked_tokens import MaskedTokens, SingleTokens

if TYPE_CHECKING:
    from forebear.data.corpus.subset import Subset
    from forebear.data.io.reader import TextFormat
    from forebear.data.tokenizers.tokenizer import Tokenizer
    from forebear.inference.predictor import CausalLM
    from forebear.inference.run import Run
    from forebear.nn.masked_lm import MaskedLM

UNITS = ("document", "sentence")
ProgressFn = Callable[[int, int], object]  # bytes done, bytes in all


@dataclass(frozen=True)
class TextEvaluation:
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
    num_impossible: int
    seconds: float
    lossy_features: tuple[str, ...] = ()  # what the tokenizer does not keep of a text is not counted
    learned_from: int | None = None  # documents of files that the run has learned from, where that is known
    learned_bytes: int | None = None  # of those
    is_pseudo_likelihood: bool = False
    num_masked: int | None = None  # tokens that were hidden, of which the rest is inferred
    accuracy: float | None = None  # of hidden tokens found again
    majority_accuracy: float | None = None  # of them, if always the commonest were said
    pair_accuracy: float | None = None  # of questions about two halves answered right
    known_nats: float | None = None  # without what unknown tokens cost; None: none of them was asked for
    ngram_length: float | None = None  # tokens of the n-gram by which a run that counts told a token, in the mean
    text_unit: str = "document"  # what was scored by itself, and pays for its end: a document, a sentence or a line

    @property
    def bits_per_byte(self) -> float:
        """Bits of all tokens and ends, and of spelling what was unknown, by bytes of the original text."""
        return (self.nats / math.log(2) + oov_spelling_bits(self.unknown_tokens, self.unknown_bytes)) / self.bytes

    @property
    def nats_per_token(self) -> float:
        """The mean loss, ends included, as a training log shows it; unknown tokens count as themselves."""
        return self.nats / self.tokens

    @property
    def perplexity(self) -> float:
        """Of the run's own tokens: comparable among runs of one tokenizer only."""
        return perplexity(self.nats, self.tokens)

    @property
    def perplexity_known(self) -> float:
        """The same of those tokens that are not unknown (KenLM's "excluding OOVs")."""
        if self.known_nats is None:
            return self.perplexity
        return perplexity(self.known_nats, self.tokens - self.unknown_tokens)

    @property
    def unknown_rate(self) -> float:
        """Of the text's own tokens, ends left out."""
        if self.is_pseudo_likelihood:  # unknown tokens are never hidden, and no end is
            return self.unknown_tokens / max(self.tokens + self.unknown_tokens, 1)
        return self.unknown_tokens / max(self.tokens - self.units, 1)

    def to_dict(self) -> dict[str, Any]:
        """As JSON values: what is infinite is null, and `impossible_tokens` says why."""
        return {
            "bits_per_byte": finite_or_none(self.bits_per_byte),
            "perplexity": finite_or_none(self.perplexity),
            "perplexity_known": finite_or_none(self.perplexity_known),
            "nats_per_token": finite_or_none(self.nats_per_token),
            "tokens": self.tokens,
            "bytes": self.bytes,
            "documents": self.documents,
            "units": self.units,
            "unit": self.text_unit,
            "unknown_tokens": self.unknown_tokens,
            "unknown_rate": self.unknown_rate,
            "impossible_tokens": self.num_impossible,
            "forgotten": list(self.lossy_features),
            "learned_from": self.learned_from,
            "learned_bytes": self.learned_bytes,
            "pseudo": self.is_pseudo_likelihood,
            "asked": self.num_masked,
            "accuracy": self.accuracy,
            "guess": self.majority_accuracy,
            "pair_accuracy": self.pair_accuracy,
            "ngram_length": self.ngram_length,
            "seconds": round(self.seconds, 3),
        }


def perplexity(nats: float, tokens: int) -> float:
    """What so many nats for so many tokens come to."""
    mean = nats / tokens
    return math.exp(mean) if mean < 700 else math.inf


def finite_or_none(value: float) -> float | None:
    """The value where JSON has a way to write it."""
    return value if math.isfinite(value) else None


@dataclass(frozen=True)
class _ScoringUnit:
    """A text that is scored by itself, its share of the bytes, and whether it begins a document."""

    row: np.ndarray
    bytes: int
    unknown_bytes: int
    is_first: bool


def prepare_texts(
    run: Run,
    texts: Subset | str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    reading: TextFormat | None = None,
    workers: int | None = None,
    progress: ProgressFn | None = None,
) -> Subset:
    """Files as the run's tokenizer cuts them, taken as its own text was where that decides which tokens they have."""
    from forebear.data.corpora import TextSource, prepare_source
    from forebear.data.corpus.subset import Subset
    from forebear.data.io.reader import TextFormat

    if isinstance(texts, Subset):
        return texts
    told = (run.metadata.get("data") or {}).get("source")
    lines = (
        told is None and "imported" in run.metadata and run.text_unit == "sentence"
    )  # who has n-grams from elsewhere has counted lines
    own = TextSource((), sentences="lines" if lines else "split") if told is None else TextSource.from_dict(told)
    paths = [texts] if isinstance(texts, str | os.PathLike) else texts
    source = replace(
        own, paths=tuple(os.fspath(path) for path in paths), reading=reading or TextFormat(), entities=None
    )
    if run.tokenizer.kind != "words":  # no other kind asks where words are
        source = replace(source, segment=False, user_dict=None)
    return prepare_source(source, run.tokenizer, workers=workers, progress=progress).all_documents()


def evaluate_text(
    predictor: CausalLM,
    tokenizer: Tokenizer,
    source: Subset | Iterable[str],
    *,
    unit: str = "document",
    progress: ProgressFn | None = None,
) -> TextEvaluation:
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
    for group in token_batches(units, lambda unit: len(unit.row)):
        told, used = row_log_probs_with_lengths(predictor, [unit.row for unit in group])
        scores = np.concatenate(told)
        nats.append(-float(scores.sum()))
        lengths += [] if used is None else [int(np.concatenate(used).sum(dtype=np.int64))]
        tokens += len(scores)
        impossible += int(np.isneginf(scores).sum())
        count += len(group)
        documents += sum(unit.is_first for unit in group)
        done += sum(unit.bytes for unit in group)
        unknown_bytes += sum(unit.unknown_bytes for unit in group)
        lacking = np.concatenate([unit.row[1:] for unit in group]) == tokenizer.unk_id
        known.append(-float(scores[~lacking].sum()))
        unknown_tokens += int(np.count_nonzero(lacking))
        if progress is not None:
            progress(done, max(total, done))
    if not done:
        raise InputError("there is no text to measure", hint="give text that has at least one character")
    return TextEvaluation(
        nats=math.fsum(nats),
        tokens=tokens,
        units=count,
        documents=documents,
        bytes=done,
        unknown_tokens=unknown_tokens,
        unknown_bytes=unknown_bytes,
        num_impossible=impossible,
        seconds=time.monotonic() - began,
        lossy_features=tokenizer.lossy_features,
        known_nats=math.fsum(known),
        ngram_length=sum(lengths) / tokens if lengths else None,
        text_unit=_named(source, unit),
    )


def _named(source: Subset | Iterable[str], unit: str) -> str:
    """A unit by its name for people: sentences are lines where each line was taken for one."""
    from forebear.data.corpus.subset import Subset

    by_lines = isinstance(source, Subset) and source.corpus.metadata["made_from"]["sentences"] == "lines"
    return "line" if unit == "sentence" and by_lines else unit


def scoring_rows(source: Subset | Iterable[str], tokenizer: Tokenizer, unit: str) -> Iterator[np.ndarray]:
    """The rows that `measure` scores: each unit between two ends."""
    return (unit.row for unit in _units(source, tokenizer, unit)[0])


def _units(source: Subset | Iterable[str], tokenizer: Tokenizer, unit: str) -> tuple[Iterator[_ScoringUnit], int]:
    """The units one by one, and their bytes in all where that is known beforehand (else 0)."""
    from forebear.data.corpus.subset import Subset

    end = eos_id(tokenizer)
    if unit not in UNITS:
        raise InputError(f"the unit is {unit!r}", hint=f"choose one of {', '.join(UNITS)}")
    if isinstance(source, Subset):
        require_same_tokenizer(source, tokenizer)
        return _of_portion(source, end, unit), source.num_bytes
    return _of_texts([source] if isinstance(source, str) else source, tokenizer, end, unit), 0


def require_same_tokenizer(portion: Subset, tokenizer: Tokenizer) -> None:
    """An error where a corpus was cut by another tokenizer."""
    if portion.corpus.metadata["made_from"]["tokenizer"] != tokenizer.digest:
        raise InputError(
            "this corpus was made with another tokenizer than the run's",
            file=portion.corpus.folder,
            hint="give the text itself, or prepare it with the run's tokenizer.json",
        )


def _of_portion(portion: Subset, end: int, unit: str) -> Iterator[_ScoringUnit]:
    shown = portion.by_sentence() if unit == "sentence" else portion
    first = np.ones(len(shown), bool)
    if unit == "sentence":
        counts = portion.units[:, 1] - portion.units[:, 0]
        first[:] = False
        first[np.cumsum(counts) - counts] = True
    numbers = (shown.spans.tolist(), shown.unit_bytes.tolist(), shown.unit_unknown_bytes.tolist(), first.tolist())
    for (begin, stop), length, unknown, is_first in zip(*numbers, strict=True):
        yield _ScoringUnit(make_row(portion.corpus.ids[begin:stop], end, ends=True), length, unknown, is_first)


def _of_texts(texts: Iterable[str], tokenizer: Tokenizer, end: int, unit: str) -> Iterator[_ScoringUnit]:
    for text in map(replace_surrogates, texts):
        for number, part in enumerate(split_sentences(text) if unit == "sentence" else [text]):
            pieces = tokenizer.encode(part)
            unknown = int(unknown_token_bytes(part, pieces, tokenizer.unk_id).sum())
            yield _ScoringUnit(make_row(pieces.ids, end, ends=True), utf8_size(part), unknown, number == 0)


# How well a run finds hidden tokens: the same unit as for all others, but of a likelihood that is none.


BATCH = 4096  # tokens


def evaluate_masked_lm(
    restorer: MaskedLM,
    tokenizer: Tokenizer,
    objective: MaskedTokens,
    portion: Subset,
    *,
    progress: ProgressFn | None = None,
) -> TextEvaluation:
    """Hides the run's share of the tokens, one by one and all behind the mask, and asks for them.

    Every row of the text is read once; what hidden tokens cost in the mean is taken for the cost of all. It is no
    probability of the text, because each token is told by tokens on both sides: the figures are marked `pseudo` and
    stand beside those of runs that are measured alike, whatever units these were trained to hide.
    """
    require_same_tokenizer(portion, tokenizer)
    began = time.monotonic()
    asking = replace(objective, units=SingleTokens(), masked=1.0, random=0.0)
    steps = asking.steps(portion, BATCH)
    nats, right, pairs, seen = 0.0, 0, [], np.zeros(tokenizer.vocab_size, np.int64)
    for step in range(steps):
        batch = asking.batch(portion, BATCH, BatchKey(0, step))
        told = restorer.evaluate_batch(batch.inputs, batch.targets)
        nats -= float(told["token"].astype(np.float64).sum())
        right += int(told["right"].sum())
        seen += np.bincount(batch.targets["token"][batch.targets["token"] >= 0], minlength=tokenizer.vocab_size)
        pairs.append(told.get("pair", np.empty(0, bool)))
        if progress is not None:
            progress(portion.num_bytes * (step + 1) // steps, portion.num_bytes)
    asked = int(seen.sum())
    if not asked:
        raise InputError("there is too little text to hide anything in", hint="give more text")
    answered = np.concatenate(pairs)
    unknown = 0
    if tokenizer.unk_id is not None:
        unknown = sum(
            int(np.count_nonzero(portion.corpus.ids[first:last] == tokenizer.unk_id))
            for first, last in portion.spans.tolist()
        )
    tokens = portion.num_tokens - unknown
    return TextEvaluation(
        nats=nats / asked * tokens,
        tokens=tokens,
        units=len(portion),
        documents=len(portion),
        bytes=portion.num_bytes,
        unknown_tokens=unknown,
        unknown_bytes=portion.unknown_bytes,
        num_impossible=0,
        seconds=time.monotonic() - began,
        lossy_features=tokenizer.lossy_features,
        is_pseudo_likelihood=True,
        num_masked=asked,
        accuracy=right / asked,
        majority_accuracy=float(seen.max()) / asked,
        pair_accuracy=float(answered.mean()) if len(answered) else None,
    )
