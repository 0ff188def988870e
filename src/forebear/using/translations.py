"""How well a run translates: BLEU and chrF by sacrebleu with their signatures, and the perplexity of references."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from forebear.errors import BadInput
from forebear.text.segmentation import has_han
from forebear.using.texts import end_of
from forebear.using.translating import BEAMS, Translated, translate

if TYPE_CHECKING:
    from forebear.text.sides import Sides
    from forebear.using.predicting import Translator
    from forebear.using.run import Run

SHOWN = 5  # examples that are kept with the figures


@dataclass(frozen=True)
class TranslationsMeasured:
    """Figures over pairs; BLEU and chrF are from 0 to 100."""

    bleu: float
    chrf: float
    signatures: dict[str, str]
    nats: float
    tokens: int
    pairs: int
    beams: int
    seconds: float
    translations: tuple[Translated, ...] = field(repr=False)
    references: tuple[str, ...] = field(repr=False)

    @property
    def nats_per_token(self) -> float:
        return self.nats / max(1, self.tokens)

    def facts(self) -> dict[str, Any]:
        told = zip(self.translations[:SHOWN], self.references, strict=False)
        return {
            "bleu": self.bleu,
            "chrf": self.chrf,
            "signatures": self.signatures,
            "perplexity": math.exp(min(self.nats_per_token, 700.0)),
            "nats_per_token": self.nats_per_token,
            "tokens": self.tokens,
            "pairs": self.pairs,
            "beams": self.beams,
            "seconds": round(self.seconds, 3),
            "examples": [
                {"source": one.source, "translation": one.text, "reference": reference} for one, reference in told
            ],
        }


def measure_translations(
    run: Run,
    sources: Sequence[str],
    references: Sequence[str],
    *,
    beams: int = BEAMS,
    penalty: float = 1.0,
    progress: Callable[[int, int], object] | None = None,
) -> TranslationsMeasured:
    """Translates all sources and compares with the references, one for each."""
    if not sources:
        raise BadInput("there are no pairs to measure", remedy="give texts and their translations")
    translator, sides = run.translator, run.folder.sides
    began = time.monotonic()
    made = translate(translator, sides, sources, beams=beams, penalty=penalty, progress=progress)
    bleu, chrf, signatures = scores([one.text for one in made], references)
    nats, tokens = _surprise(translator, sides, sources, references)
    seconds = time.monotonic() - began
    return TranslationsMeasured(
        bleu, chrf, signatures, nats, tokens, len(sources), beams, seconds, tuple(made), tuple(references)
    )


def scores(said: Sequence[str], references: Sequence[str]) -> tuple[float, float, dict[str, str]]:
    """BLEU, chrF, and how sacrebleu computed them; Chinese is compared by its characters."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    chinese = sum(map(has_han, references)) > len(references) / 2
    bleu, chrf = BLEU(tokenize="zh" if chinese else "13a"), CHRF()
    found = [metric.corpus_score(list(said), [list(references)]).score for metric in (bleu, chrf)]
    signatures = {"bleu": str(bleu.get_signature()), "chrf": str(chrf.get_signature())}
    return found[0], found[1], signatures


def _surprise(
    translator: Translator, sides: Sides, sources: Sequence[str], references: Sequence[str]
) -> tuple[float, int]:
    """Nats of all references given their sources, ends included, and their tokens; what is too long is left out."""
    ends = end_of(sides.source), end_of(sides.target)
    rows = []
    for tokenizer, end, texts in zip((sides.source, sides.target), ends, (sources, references), strict=True):
        ids, counts = tokenizer.encode_many(list(texts))
        cut = np.split(ids, np.cumsum(counts)[:-1])
        rows.append([np.append(one, end).astype(np.int64) for one in cut])
    fits = [one for one in zip(*rows, strict=True) if max(map(len, one)) <= translator.context]
    found = translator.score([one[0] for one in fits], [one[1] for one in fits], ends[1])
    return -sum(float(one.sum(dtype=np.float64)) for one in found), sum(map(len, found))
