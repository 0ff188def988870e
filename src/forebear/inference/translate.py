"""Translation by batched beam search, and its evaluation with BLEU, chrF and perplexity."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypedDict, get_args

import numpy as np

from forebear.data.io.sources import ProgressFn
from forebear.data.segmentation import has_han
from forebear.data.sentences import split_sentences
from forebear.data.unicode import replace_surrogates
from forebear.errors import InputError, require_choice
from forebear.inference.beam_search import Hypothesis, beam_search, validate_beams
from forebear.inference.predictor_protocols import eos_id

if TYPE_CHECKING:
    from forebear.data.corpus.parallel import TokenizerPair
    from forebear.data.tokenizers.tokenizer import Tokenizer
    from forebear.inference.predictor_protocols import Seq2Seq
    from forebear.inference.run import Run

TranslationUnit = Literal["whole", "split"]

DEFAULT_BEAMS = 4
BATCH_TOKENS = 6000  # source tokens times beams per batch: bounds memory
MAX_LENGTH_RATIO = 2.0  # maximum translation length: this times the source length,
EXTRA_LENGTH = 20  # plus this
CLAUSE_ENDS = tuple(",;:，；：、")
MIN_FILLED_FRACTION = 0.75  # minimum length of a part of a split sentence, relative to the maximum length


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
    """A text and its translation hypotheses, best first; `num_parts` were translated separately."""

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


class TranslationOptions(TypedDict, total=False):
    """Options of `translate_texts`."""

    beams: int
    best: int
    penalty: float
    length: int | None
    sentences: TranslationUnit
    progress: ProgressFn | None


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
    progress: ProgressFn | None = None,
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
    rows: list[np.ndarray] = []  # of separately translated parts, end token included
    rows_of_text: list[range] = []
    for text in texts:
        parts = _split_text(tokenizers.source, replace_surrogates(text), translator.max_length - 1, sentences)
        first_row = len(rows)
        rows += [np.append(ids, source_eos).astype(np.int64) for ids in parts]
        rows_of_text.append(range(first_row, len(rows)))
    blocked_ids = np.array(sorted(tokenizers.target.special_ids - {target_eos}), np.int64)  # the unknown token too

    def mask_blocked(scores: np.ndarray) -> np.ndarray:
        masked = scores.copy()
        masked[:, blocked_ids] = -np.inf
        return masked

    options: dict[str, Any] = {"beams": beams, "best": best, "penalty": penalty, "mask_logits": mask_blocked}
    hypotheses: dict[int, list[Hypothesis]] = {}  # by row
    for row_indices in _length_groups(list(map(len, rows)), beams, batch_tokens):
        batch = [rows[index] for index in row_indices]
        max_lengths = [length or int(MAX_LENGTH_RATIO * len(row)) + EXTRA_LENGTH for row in batch]
        max_lengths = [min(max_length, translator.max_length) for max_length in max_lengths]
        state = translator.start_decoding(batch, target_eos, max(max_lengths))
        batch_hypotheses = beam_search(state, len(batch), eos_id=target_eos, lengths=max_lengths, **options)
        hypotheses.update(zip(row_indices, batch_hypotheses, strict=True))
        if progress is not None:
            progress(len(hypotheses), len(rows))
    translated = []
    for text, indices in zip(texts, rows_of_text, strict=True):
        num_unknown = sum(int(np.count_nonzero(rows[index] == tokenizers.source.unk_id)) for index in indices)
        parts = [hypotheses[index] for index in indices]
        translated.append(_join_parts(text, parts, tokenizers.target, num_unknown, best))
    return translated


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
            if end < len(encoding.ids):  # after a comma, else before a space, else anywhere
                tokens = [sentence.strip()[a:b] for a, b in encoding.spans[start:end]]
                candidates = range(int(MIN_FILLED_FRACTION * max_tokens), end - start)
                commas = [start + index + 1 for index in candidates if tokens[index].strip().endswith(CLAUSE_ENDS)]
                spaces = [start + index for index in candidates if tokens[index][:1].isspace()]
                end = (commas or spaces or [end])[-1]
            yield encoding.ids[start:end]
            start = end


def _length_groups(lengths: Sequence[int], beams: int, batch_tokens: int) -> Iterator[list[int]]:
    """Indices of rows in batches of similar length, longest first."""
    row_indices: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        if row_indices and (len(row_indices) + 1) * beams * lengths[row_indices[0]] > batch_tokens:
            yield row_indices
            row_indices = []
        row_indices.append(index)
    if row_indices:
        yield row_indices


def _join_parts(
    text: str, parts: Sequence[list[Hypothesis]], target: Tokenizer, num_unknown: int, best: int
) -> TranslatedText:
    """Concatenate the translations of the parts of a text."""
    non_empty_parts = [hypotheses for hypotheses in parts if hypotheses]
    combined = []
    for rank in range(min(best, max(map(len, parts), default=1))):
        part_hypotheses = [hypotheses[min(rank, len(hypotheses) - 1)] for hypotheses in non_empty_parts]
        pieces = [target.decode(hypothesis.ids).strip() for hypothesis in part_hypotheses]
        separator = "" if has_han("".join(pieces)) else " "
        log_prob = sum(hypothesis.log_prob for hypothesis in part_hypotheses)
        score = sum(hypothesis.score for hypothesis in part_hypotheses) / max(1, len(part_hypotheses))
        combined.append(TranslationHypothesis(separator.join(pieces), log_prob, score))
    is_finished = all(hypotheses[0].is_finished for hypotheses in non_empty_parts)
    return TranslatedText(text, tuple(combined), len(parts), num_unknown, is_finished)


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
    progress: ProgressFn | None = None,
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
    texts = tuple(translations), tuple(references)
    return TranslationEvaluation(bleu, chrf, signatures, nats, tokens, len(sources), beams, seconds, *texts)


def bleu_and_chrf(translations: Sequence[str], references: Sequence[str]) -> tuple[float, float, dict[str, str]]:
    """BLEU, chrF and their sacrebleu signatures; Chinese is compared by character."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    is_chinese = sum(map(has_han, references)) > len(references) / 2
    bleu, chrf = BLEU(tokenize="zh" if is_chinese else "13a"), CHRF()
    values = [metric.corpus_score(list(translations), [list(references)]).score for metric in (bleu, chrf)]
    signatures = {"bleu": str(bleu.get_signature()), "chrf": str(chrf.get_signature())}
    return values[0], values[1], signatures


def _reference_nats(
    translator: Seq2Seq, tokenizers: TokenizerPair, sources: Sequence[str], references: Sequence[str]
) -> tuple[float, int]:
    """Total nats and tokens of the references given their sources, end tokens included; skips overlong pairs."""
    rows = []
    for tokenizer, texts in ((tokenizers.source, sources), (tokenizers.target, references)):
        ids, counts = tokenizer.encode_many(list(texts))
        sequences = np.split(ids, np.cumsum(counts)[:-1])
        rows.append([np.append(sequence, eos_id(tokenizer)).astype(np.int64) for sequence in sequences])
    pairs = [pair for pair in zip(*rows, strict=True) if max(map(len, pair)) <= translator.max_length]
    start = eos_id(tokenizers.target)
    log_probs = translator.score([source for source, _ in pairs], [target for _, target in pairs], start)
    return -sum(float(sequence.sum(dtype=np.float64)) for sequence in log_probs), sum(map(len, log_probs))
