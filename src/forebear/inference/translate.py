"""Texts into another language, with a run that was taught translations: by beam search, many at once, in order."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypedDict, get_args

import numpy as np

from forebear.data.segmentation import has_han
from forebear.data.sentences import split_sentences
from forebear.data.tokenizers.char_level import replace_surrogates
from forebear.errors import InputError
from forebear.inference.beam_search import Hypothesis, beam_search, validate_beams
from forebear.inference.predictor import eos_id

if TYPE_CHECKING:
    from forebear.data.corpus.parallel import TokenizerPair
    from forebear.data.tokenizers.tokenizer import Tokenizer
    from forebear.inference.predictor import Seq2Seq
    from forebear.inference.run import Run

TranslationUnit = Literal["whole", "split"]

DEFAULT_BEAMS = 4
AT_ONCE = 6000  # tokens of sources, each as often as it has beams, that are translated together: bounds memory
LONGER = 2.0  # times the source, and
MORE = 20  # tokens more may a translation have
WINDOW = 0.75  # of what fits, at least, is taken of a sentence that has to be cut


@dataclass(frozen=True)
class TranslationHypothesis:
    """One translation: log P of it, and that by its length, after which versions are ranked."""

    text: str
    log_prob: float
    score: float


@dataclass(frozen=True)
class TranslatedText:
    """A text and its translations, the best first. `parts` counts what it was cut into; `unknown` tokens unread."""

    source: str
    hypotheses: tuple[TranslationHypothesis, ...]
    num_parts: int
    num_unknown: int
    is_finished: bool  # False: it was cut off at the greatest length

    @property
    def text(self) -> str:
        return self.hypotheses[0].text

    def to_dict(self) -> dict[str, Any]:
        told: dict[str, Any] = {"source": self.source, "translation": self.text}
        told |= {"parts": self.num_parts, "unknown": self.num_unknown, "ended": self.is_finished}
        versions = [vars(version) for version in self.hypotheses]
        return told | {"versions": versions}


@dataclass(frozen=True)
class _TranslationPart:
    """A piece of a text that is translated by itself."""

    text: int  # its number
    ids: np.ndarray  # with the end


class TranslationOptions(TypedDict, total=False):
    """How translations are looked for: see `translate`."""

    beams: int
    best: int
    penalty: float
    length: int | None
    sentences: TranslationUnit
    progress: Callable[[int, int], object] | None


def translate_texts(
    translator: Seq2Seq,
    sides: TokenizerPair,
    texts: str | Sequence[str],
    *,
    beams: int = DEFAULT_BEAMS,
    best: int = 1,
    penalty: float = 1.0,
    length: int | None = None,
    sentences: TranslationUnit = "whole",
    at_once: int = AT_ONCE,
    progress: Callable[[int, int], object] | None = None,
) -> list[TranslatedText]:
    """A translation of each text, or the `best` several. What comes of a text does not depend on the others.

    beams      texts that are continued at once; 1 takes the likeliest token each time
    penalty    of length: 1 compares the mean of log P by token, 0 its sum, which shorter texts win
    length     the most tokens of a translation; None: in proportion to the source
    sentences  "split": each sentence of a text by itself; "whole": only where the text is longer than the context
    """
    texts = [texts] if isinstance(texts, str) else list(texts)
    validate_beams(beams, best, penalty)
    if sentences not in get_args(TranslationUnit):
        raise InputError(f"sentences is {sentences!r}", hint=f"choose one of {', '.join(get_args(TranslationUnit))}")
    if length is not None and length < 1:
        raise InputError(f"length is {length}", hint="give a length of at least 1, or leave it out")
    end, read_end = eos_id(sides.target), eos_id(sides.source)
    parts: list[_TranslationPart] = []
    unknown = [0] * len(texts)
    for number, text in enumerate(texts):
        for ids in _cut(sides.source, replace_surrogates(text), translator.max_length - 1, sentences):
            unknown[number] += int(np.count_nonzero(ids == sides.source.unk_id)) if len(ids) else 0
            parts.append(_TranslationPart(number, np.append(ids, read_end).astype(np.int64)))
    never = np.array(sorted(sides.target.special_ids - {end}), np.int64)  # the unknown token too: it says nothing

    def permitted(scores: np.ndarray) -> np.ndarray:
        kept = scores.copy()
        kept[:, never] = -np.inf
        return kept

    found: list[list[Hypothesis]] = [[]] * len(parts)
    done = 0
    for group in _groups(parts, beams, at_once):
        rows = [parts[number].ids for number in group]
        most = [min(length or int(LONGER * len(row)) + MORE, translator.max_length) for row in rows]
        reader = translator.begin(rows, end, max(most))
        how: dict[str, Any] = {"beams": beams, "best": best, "penalty": penalty, "permitted": permitted}
        told = beam_search(reader, len(rows), end=end, lengths=most, **how)
        for number, hypotheses in zip(group, told, strict=True):
            found[number] = hypotheses
        done += len(group)
        if progress is not None:
            progress(done, len(parts))
    return _joined(texts, parts, found, sides.target, unknown, best)


def _cut(tokenizer: Tokenizer, text: str, most: int, sentences: TranslationUnit) -> Iterator[np.ndarray]:
    """The text as tokens, in pieces that fit; nothing where there is nothing to translate."""
    if not text.strip():
        return
    ids = tokenizer.encode(text).ids
    if len(ids) <= most and sentences == "whole":
        if len(ids):
            yield ids
        return
    for sentence in split_sentences(text, "split"):
        pieces = tokenizer.encode(sentence.strip())
        begin = 0
        while begin < len(pieces.ids):
            end = min(begin + most, len(pieces.ids))
            if end < len(pieces.ids):  # at a comma, at a space, or wherever
                marks = [sentence.strip()[a:b] for a, b in pieces.spans[begin:end]]
                first = int(WINDOW * most)
                stops = [at for at in range(first, end - begin) if marks[at].strip()[-1:] in tuple(",;:，；：、")]
                spaces = [at - 1 for at in range(first, end - begin) if marks[at][:1].isspace()]
                end = begin + 1 + (stops or spaces or [end - begin - 1])[-1]
            yield pieces.ids[begin:end]
            begin = end


def _groups(parts: Sequence[_TranslationPart], beams: int, at_once: int) -> Iterator[list[int]]:
    """Numbers of parts of like lengths, the longest first, as many as are translated together."""
    group: list[int] = []
    for number in sorted(range(len(parts)), key=lambda one: (-len(parts[one].ids), one)):
        if group and (len(group) + 1) * beams * len(parts[group[0]].ids) > at_once:
            yield group
            group = []
        group.append(number)
    if group:
        yield group


def _joined(
    texts: Sequence[str],
    parts: Sequence[_TranslationPart],
    found: Sequence[list[Hypothesis]],
    target: Tokenizer,
    unknown: Sequence[int],
    best: int,
) -> list[TranslatedText]:
    """The translations of the parts of each text, one after the other."""
    of_text: list[list[list[Hypothesis]]] = [[] for _ in texts]
    for part, hypotheses in zip(parts, found, strict=True):
        of_text[part.text].append(hypotheses)
    made = []
    for text, own, missed in zip(texts, of_text, unknown, strict=True):
        versions = []
        for rank in range(min(best, max(map(len, own), default=1))):
            chosen = [hypotheses[min(rank, len(hypotheses) - 1)] for hypotheses in own if hypotheses]
            pieces = [target.decode(one.ids).strip() for one in chosen]
            between = "" if has_han("".join(pieces)) else " "
            log_p = sum(one.log_prob for one in chosen)
            score = sum(one.score for one in chosen) / max(1, len(chosen))
            versions.append(TranslationHypothesis(between.join(pieces), log_p, score))
        ended = all(one[0].is_finished for one in own if one)
        made.append(TranslatedText(text, tuple(versions), len(own), missed, ended))
    return made


# How well a run translates: BLEU and chrF by sacrebleu with their signatures, and the perplexity of references.


SHOWN = 5  # examples that are kept with the figures


@dataclass(frozen=True)
class TranslationEvaluation:
    """Figures over pairs; BLEU and chrF are from 0 to 100."""

    bleu: float
    chrf: float
    signatures: dict[str, str]
    nats: float
    tokens: int
    pairs: int
    beams: int
    seconds: float
    translations: tuple[TranslatedText, ...] = field(repr=False)
    references: tuple[str, ...] = field(repr=False)

    @property
    def nats_per_token(self) -> float:
        return self.nats / max(1, self.tokens)

    def to_dict(self) -> dict[str, Any]:
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


def evaluate_translations(
    run: Run,
    sources: Sequence[str],
    references: Sequence[str],
    *,
    beams: int = DEFAULT_BEAMS,
    penalty: float = 1.0,
    progress: Callable[[int, int], object] | None = None,
) -> TranslationEvaluation:
    """Translates all sources and compares with the references, one for each."""
    if not sources:
        raise InputError("there are no pairs to measure", hint="give texts and their translations")
    translator, sides = run.translator, run.folder.tokenizer_pair
    began = time.monotonic()
    made = translate_texts(translator, sides, sources, beams=beams, penalty=penalty, progress=progress)
    bleu, chrf, signatures = scores([one.text for one in made], references)
    nats, tokens = _surprise(translator, sides, sources, references)
    seconds = time.monotonic() - began
    return TranslationEvaluation(
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
    translator: Seq2Seq, sides: TokenizerPair, sources: Sequence[str], references: Sequence[str]
) -> tuple[float, int]:
    """Nats of all references given their sources, ends included, and their tokens; what is too long is left out."""
    ends = eos_id(sides.source), eos_id(sides.target)
    rows = []
    for tokenizer, end, texts in zip((sides.source, sides.target), ends, (sources, references), strict=True):
        ids, counts = tokenizer.encode_many(list(texts))
        cut = np.split(ids, np.cumsum(counts)[:-1])
        rows.append([np.append(one, end).astype(np.int64) for one in cut])
    fits = [one for one in zip(*rows, strict=True) if max(map(len, one)) <= translator.max_length]
    found = translator.score([one[0] for one in fits], [one[1] for one in fits], ends[1])
    return -sum(float(one.sum(dtype=np.float64)) for one in found), sum(map(len, found))
