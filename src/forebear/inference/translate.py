"""Translation by batched beam search, and its evaluation with BLEU, chrF and perplexity."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypedDict, get_args

import numpy as np

from forebear.data.segmentation import has_han
from forebear.data.sentences import split_sentences
from forebear.data.unicode import replace_surrogates
from forebear.errors import InputError, require_choice
from forebear.inference.beam_search import Hypothesis, beam_search, validate_beams
from forebear.inference.predictor import eos_id

if TYPE_CHECKING:
    from forebear.data.corpus.parallel import TokenizerPair
    from forebear.data.tokenizers.tokenizer import Tokenizer
    from forebear.inference.predictor import Seq2Seq
    from forebear.inference.run import Run

TranslationUnit = Literal["whole", "split"]

DEFAULT_BEAMS = 4
BATCH_TOKENS = 6000  # source tokens times beams per batch: bounds memory
MAX_LENGTH_RATIO = 2.0  # maximum translation length: this times the source length,
EXTRA_LENGTH = 20  # plus this
MIN_FILLED_SHARE = 0.75  # minimum filled share of the maximum length when a sentence is split


@dataclass(frozen=True)
class TranslationHypothesis:
    """One translation with its log-probability; `score`, the length-normalized one, ranks the hypotheses."""

    text: str
    log_prob: float
    score: float

    def to_dict(self) -> dict[str, Any]:
        return {"text": self.text, "log_probability": self.log_prob, "score": self.score}


@dataclass(frozen=True)
class TranslatedText:
    """A text and its translation hypotheses, best first; it may have been split into several parts."""

    source: str
    hypotheses: tuple[TranslationHypothesis, ...]
    num_parts: int
    num_unknown: int
    is_finished: bool  # False: truncated at the maximum length

    @property
    def text(self) -> str:
        return self.hypotheses[0].text

    def to_dict(self) -> dict[str, Any]:
        result: dict[str, Any] = {"source": self.source, "translation": self.text}
        result |= {"parts": self.num_parts, "unknown": self.num_unknown, "ended": self.is_finished}
        return result | {"versions": [hypothesis.to_dict() for hypothesis in self.hypotheses]}


@dataclass(frozen=True)
class _TranslationPart:
    """A part of a text that is translated by itself."""

    text: int  # index of the text
    ids: np.ndarray  # with the end


class TranslationOptions(TypedDict, total=False):
    """Options of `translate_texts`."""

    beams: int
    best: int
    penalty: float
    length: int | None
    sentences: TranslationUnit
    progress: Callable[[int, int], object] | None


def translate_texts(
    translator: Seq2Seq,
    tokenizers: TokenizerPair,
    texts: str | Sequence[str],
    *,
    beams: int = DEFAULT_BEAMS,
    best: int = 1,
    penalty: float = 1.0,
    length: int | None = None,
    sentences: TranslationUnit = "whole",
    batch_tokens: int = BATCH_TOKENS,
    progress: Callable[[int, int], object] | None = None,
) -> list[TranslatedText]:
    """Translate each text, independently of the others.

    Args:
        beams: Number of beams; 1 is greedy decoding.
        best: Number of hypotheses per text.
        penalty: Length penalty: 1 compares mean log-probabilities, 0 sums, which favor short texts.
        length: Maximum tokens of a translation; None: in proportion to the source.
        sentences: "split" translates each sentence by itself; "whole" only if the text exceeds the maximum length.
    """
    texts = [texts] if isinstance(texts, str) else list(texts)
    validate_beams(beams, best, penalty)
    require_choice("sentences", sentences, get_args(TranslationUnit))
    if length is not None and length < 1:
        raise InputError(f"length is {length}", hint="give a length of at least 1, or leave it out")
    target_eos, source_eos = eos_id(tokenizers.target), eos_id(tokenizers.source)
    parts: list[_TranslationPart] = []
    unknown = [0] * len(texts)
    for index, text in enumerate(texts):
        for ids in _split_text(tokenizers.source, replace_surrogates(text), translator.max_length - 1, sentences):
            unknown[index] += int(np.count_nonzero(ids == tokenizers.source.unk_id)) if len(ids) else 0
            parts.append(_TranslationPart(index, np.append(ids, source_eos).astype(np.int64)))
    blocked_ids = np.array(
        sorted(tokenizers.target.special_ids - {target_eos}), np.int64
    )  # including the unknown token

    def mask_blocked(scores: np.ndarray) -> np.ndarray:
        masked = scores.copy()
        masked[:, blocked_ids] = -np.inf
        return masked

    hypotheses_by_part: list[list[Hypothesis]] = [[]] * len(parts)
    num_done = 0
    for group in _length_groups(parts, beams, batch_tokens):
        rows = [parts[index].ids for index in group]
        max_lengths = [
            min(length or int(MAX_LENGTH_RATIO * len(row)) + EXTRA_LENGTH, translator.max_length) for row in rows
        ]
        state = translator.begin(rows, target_eos, max(max_lengths))
        options: dict[str, Any] = {"beams": beams, "best": best, "penalty": penalty, "permitted": mask_blocked}
        group_hypotheses = beam_search(state, len(rows), end=target_eos, lengths=max_lengths, **options)
        for index, hypotheses in zip(group, group_hypotheses, strict=True):
            hypotheses_by_part[index] = hypotheses
        num_done += len(group)
        if progress is not None:
            progress(num_done, len(parts))
    return _join_parts(texts, parts, hypotheses_by_part, tokenizers.target, unknown, best)


def _split_text(tokenizer: Tokenizer, text: str, max_tokens: int, sentences: TranslationUnit) -> Iterator[np.ndarray]:
    """The ids of a text in parts that fit the maximum length; none for an empty text."""
    if not text.strip():
        return
    ids = tokenizer.encode(text).ids
    if len(ids) <= max_tokens and sentences == "whole":
        if len(ids):
            yield ids
        return
    for sentence in split_sentences(text, "split"):
        encoding = tokenizer.encode(sentence.strip())
        start = 0
        while start < len(encoding.ids):
            end = min(start + max_tokens, len(encoding.ids))
            if end < len(encoding.ids):  # at a comma, else at a space, else anywhere
                token_texts = [sentence.strip()[a:b] for a, b in encoding.spans[start:end]]
                first_cut = int(MIN_FILLED_SHARE * max_tokens)
                stops = [
                    position
                    for position in range(first_cut, end - start)
                    if token_texts[position].strip()[-1:] in tuple(",;:，；：、")
                ]
                spaces = [
                    position - 1 for position in range(first_cut, end - start) if token_texts[position][:1].isspace()
                ]
                end = start + 1 + (stops or spaces or [end - start - 1])[-1]
            yield encoding.ids[start:end]
            start = end


def _length_groups(parts: Sequence[_TranslationPart], beams: int, batch_tokens: int) -> Iterator[list[int]]:
    """Indices of parts in batches of similar length, longest first."""
    group: list[int] = []
    for index in sorted(range(len(parts)), key=lambda index: (-len(parts[index].ids), index)):
        if group and (len(group) + 1) * beams * len(parts[group[0]].ids) > batch_tokens:
            yield group
            group = []
        group.append(index)
    if group:
        yield group


def _join_parts(
    texts: Sequence[str],
    parts: Sequence[_TranslationPart],
    hypotheses_by_part: Sequence[list[Hypothesis]],
    target: Tokenizer,
    unknown: Sequence[int],
    best: int,
) -> list[TranslatedText]:
    """Concatenate the translations of the parts of each text."""
    by_text: list[list[list[Hypothesis]]] = [[] for _ in texts]
    for part, hypotheses in zip(parts, hypotheses_by_part, strict=True):
        by_text[part.text].append(hypotheses)
    results = []
    for text, text_hypotheses, num_unknown in zip(texts, by_text, unknown, strict=True):
        combined = []
        for rank in range(min(best, max(map(len, text_hypotheses), default=1))):
            selected = [hypotheses[min(rank, len(hypotheses) - 1)] for hypotheses in text_hypotheses if hypotheses]
            pieces = [target.decode(hypothesis.ids).strip() for hypothesis in selected]
            separator = "" if has_han("".join(pieces)) else " "
            log_prob = sum(hypothesis.log_prob for hypothesis in selected)
            score = sum(hypothesis.score for hypothesis in selected) / max(1, len(selected))
            combined.append(TranslationHypothesis(separator.join(pieces), log_prob, score))
        is_finished = all(hypothesis[0].is_finished for hypothesis in text_hypotheses if hypothesis)
        results.append(TranslatedText(text, tuple(combined), len(text_hypotheses), num_unknown, is_finished))
    return results


# --- Evaluation ---

LISTED_EXAMPLES = 5  # translations listed with the metrics


@dataclass(frozen=True)
class TranslationEvaluation:
    """Metrics on source–reference pairs; BLEU and chrF are from 0 to 100."""

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
        examples = zip(self.translations[:LISTED_EXAMPLES], self.references, strict=False)
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
                {"source": translation.source, "translation": translation.text, "reference": reference}
                for translation, reference in examples
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
    """Translate all sources and compare with one reference each."""
    if not sources:
        raise InputError("there are no pairs to measure", hint="give texts and their translations")
    translator, tokenizers = run.translator, run.folder.tokenizer_pair
    start_time = time.monotonic()
    translations = translate_texts(translator, tokenizers, sources, beams=beams, penalty=penalty, progress=progress)
    bleu, chrf, signatures = bleu_and_chrf([translation.text for translation in translations], references)
    nats, tokens = _reference_nats(translator, tokenizers, sources, references)
    seconds = time.monotonic() - start_time
    return TranslationEvaluation(
        bleu, chrf, signatures, nats, tokens, len(sources), beams, seconds, tuple(translations), tuple(references)
    )


def bleu_and_chrf(translations: Sequence[str], references: Sequence[str]) -> tuple[float, float, dict[str, str]]:
    """BLEU, chrF and their sacrebleu signatures; Chinese is compared by character."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    chinese = sum(map(has_han, references)) > len(references) / 2
    bleu, chrf = BLEU(tokenize="zh" if chinese else "13a"), CHRF()
    values = [metric.corpus_score(list(translations), [list(references)]).score for metric in (bleu, chrf)]
    signatures = {"bleu": str(bleu.get_signature()), "chrf": str(chrf.get_signature())}
    return values[0], values[1], signatures


def _reference_nats(
    translator: Seq2Seq, tokenizers: TokenizerPair, sources: Sequence[str], references: Sequence[str]
) -> tuple[float, int]:
    """Total nats and tokens of the references given their sources, ends included; overlong pairs are left out."""
    ends = eos_id(tokenizers.source), eos_id(tokenizers.target)
    rows = []
    for tokenizer, end, texts in zip((tokenizers.source, tokenizers.target), ends, (sources, references), strict=True):
        ids, counts = tokenizer.encode_many(list(texts))
        sequences = np.split(ids, np.cumsum(counts)[:-1])
        rows.append([np.append(sequence, end).astype(np.int64) for sequence in sequences])
    fitting = [sequence for sequence in zip(*rows, strict=True) if max(map(len, sequence)) <= translator.max_length]
    log_probs = translator.score([sequence[0] for sequence in fitting], [sequence[1] for sequence in fitting], ends[1])
    return -sum(float(sequence.sum(dtype=np.float64)) for sequence in log_probs), sum(map(len, log_probs))
