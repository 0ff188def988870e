"""Log-probabilities of continuations of a prompt, and of words in context, by causal and by masked models.

Each verbalizer is inserted and the full text tokenized, so token boundaries around it do not matter. A causal model
scores the tokens from the first that overlaps the words to the end of the text. A masked model scores only tokens
that overlap the words, each with itself and the later ones masked (Kauf and Ivanova 2023). Other tokens are scored
only if verbalizers change the tokenization around them. Unknown tokens have spelling costs, as in `score`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from forebear.data.io.text_ledger import utf8_size
from forebear.errors import InputError
from forebear.inference.predictor_protocols import (
    eos_id,
    make_row,
    oov_spelling_bits,
    reject_nan,
    row_log_probs,
    unknown_token_bytes,
)
from forebear.inference.prompt_templates import FittedPrompt, overlapping_tokens
from forebear.inference.sampling import log_normalizers
from forebear.objectives.batch import token_batches

if TYPE_CHECKING:
    from typing_extensions import TypeIs

    from forebear.data.tokenizers.tokenizer import TokenEncoding, Tokenizer
    from forebear.inference.predictor_protocols import CausalLM
    from forebear.nn.masked_token_predictor import MaskedTokenPredictor

BRANCH_BATCH = 64  # continuations scored together: bounds memory, does not affect results
MIN_SHARED_TOKENS = 1 << 11  # shared tokens from which scoring along the prefix tree pays off
MASKED_BATCH_TOKENS = 1 << 12  # tokens per batch: bounds memory, does not affect results


def continuation_log_probs(
    predictor: CausalLM, prefix: np.ndarray, continuations: Sequence[Sequence[int]]
) -> np.ndarray:
    """(N,) log-probability of each continuation (one token or more) of the row `prefix`."""
    log_probs = np.zeros(len(continuations))
    order = sorted(range(len(continuations)), key=lambda index: tuple(continuations[index]))
    for start in range(0, len(order), BRANCH_BATCH):
        _score_tree(predictor, prefix, continuations, order[start : start + BRANCH_BATCH], log_probs)
    return log_probs


def _score_tree(
    predictor: CausalLM,
    prefix: np.ndarray,
    continuations: Sequence[Sequence[int]],
    indices: list[int],
    log_probs: np.ndarray,
) -> None:
    """Add the scores level by level, with one row for each shared prefix of the continuations."""
    state, depth = predictor.start_decoding([prefix], max(len(continuations[index]) for index in indices)), 0
    rows = [indices]  # indices of the continuations of each row
    while rows:
        scores = state.next_logits()
        normalizers, branches = log_normalizers(scores), []
        for row, row_indices in enumerate(rows):
            indices_by_token: dict[int, list[int]] = {}
            for index in row_indices:
                indices_by_token.setdefault(continuations[index][depth], []).append(index)
            for token, token_indices in indices_by_token.items():
                is_possible = scores[row, token] > -np.inf
                log_probs[token_indices] += float(scores[row, token]) - normalizers[row] if is_possible else -np.inf
                if remaining := [index for index in token_indices if len(continuations[index]) > depth + 1]:
                    branches.append((row, token, remaining))
        if branches:
            state.select(np.array([row for row, _, _ in branches]))
            state.append(np.array([token for _, token, _ in branches]))
        rows, depth = [remaining for _, _, remaining in branches], depth + 1


@dataclass(frozen=True, slots=True)
class ScoredSpan:
    """The ids of a text, of which those from `start` to `end` are scored, and their log-probability."""

    ids: np.ndarray
    start: int
    end: int
    bytes: int
    oov_nats: float  # spelling costs of the scored unknown tokens
    num_unknown: int  # unknown tokens of the verbalizer
    log_prob: float = math.nan  # with spelling costs; NaN until scored


def score_verbalizers(
    scorer: CausalLM | MaskedTokenPredictor, tokenizer: Tokenizer, prompts: Sequence[FittedPrompt]
) -> list[list[ScoredSpan]]:
    """Score each verbalizer of each prompt, in common batches."""
    is_causal = not scorer.is_pseudo_likelihood
    groups = [list(_scored_spans(prompt, tokenizer, scores_to_end=is_causal)) for prompt in prompts]
    spans = list(chain.from_iterable(groups))
    if is_masked_lm(scorer):
        log_probs = iter(_masked_log_probs(scorer, spans).tolist())
    else:
        log_probs = iter(_causal_log_probs(scorer, tokenizer, spans).tolist())
    return [[replace(span, log_prob=next(log_probs) - span.oov_nats) for span in group] for group in groups]


def is_masked_lm(scorer: CausalLM | MaskedTokenPredictor) -> TypeIs[MaskedTokenPredictor]:
    """Whether the scorer is a masked language model."""
    return scorer.is_pseudo_likelihood


def _scored_spans(prompt: FittedPrompt, tokenizer: Tokenizer, *, scores_to_end: bool) -> Iterator[ScoredSpan]:
    offset, rows = prompt.frame.start, [encoding.ids for encoding in prompt.encodings]
    verbalizers = list(zip(prompt.encodings, prompt.verbalizers, strict=True))
    word_ranges = [_word_tokens(encoding, offset, words) for encoding, words in verbalizers]
    # Words may change the tokenization around them: then tokens that differ are scored too.
    start = min(_common_prefix_length(rows), *(word_range.start for word_range in word_ranges))
    suffix_lengths = (len(row) - word_range.stop for row, word_range in zip(rows, word_ranges, strict=True))
    num_after = min(_common_prefix_length([row[::-1] for row in rows]), *suffix_lengths)
    for (encoding, words), word_range in zip(verbalizers, word_ranges, strict=True):
        text, end = prompt.frame.full_text(words), len(encoding.ids) - (0 if scores_to_end else num_after)
        unknown_bytes = unknown_token_bytes(text, encoding, tokenizer.unk_id)
        is_unknown = encoding.ids == (-1 if tokenizer.unk_id is None else tokenizer.unk_id)
        oov_bits = oov_spelling_bits(int(is_unknown[start:end].sum()), int(unknown_bytes[start:end].sum()))
        num_bytes = utf8_size(text[offset:].lstrip() if scores_to_end else words.lstrip())
        num_unknown = int(is_unknown[word_range.start : word_range.stop].sum())
        yield ScoredSpan(encoding.ids, start, end, num_bytes, oov_bits * math.log(2), num_unknown)


def _word_tokens(encoding: TokenEncoding, start: int, words: str) -> range:
    positions = overlapping_tokens(encoding.spans, start, start + len(words))
    if not positions:
        raise InputError(f"the run's tokenizer sees nothing in {words!r}", hint="choose words that it knows")
    return range(positions[0], positions[-1] + 1)


def _common_prefix_length(rows: Sequence[np.ndarray]) -> int:
    length = min(map(len, rows))
    differences = np.flatnonzero((np.stack([row[:length] for row in rows]) != rows[0][:length]).any(axis=0))
    return int(differences[0]) if len(differences) else length


def _causal_log_probs(predictor: CausalLM, tokenizer: Tokenizer, spans: Sequence[ScoredSpan]) -> np.ndarray:
    """Score few verbalizers of a prefix as full texts, many along their prefix tree."""
    eos, log_probs = eos_id(tokenizer), np.empty(len(spans))
    indices_by_prefix: dict[bytes, list[int]] = {}
    for index, span in enumerate(spans):
        indices_by_prefix.setdefault(span.ids[: span.start].tobytes(), []).append(index)
    full_text_indices: list[int] = []
    for indices in indices_by_prefix.values():
        first_span = spans[indices[0]]
        if (len(indices) - len(indices) // BRANCH_BATCH - 1) * first_span.start < MIN_SHARED_TOKENS:
            full_text_indices += indices
            continue
        continuations = [spans[index].ids[first_span.start :].tolist() for index in indices]
        prefix = make_row(first_span.ids[: first_span.start], eos, ends=False)
        log_probs[indices] = continuation_log_probs(predictor, prefix, continuations)
    rows = [make_row(spans[index].ids, eos, ends=False) for index in full_text_indices]
    row_scores = (scores for batch in token_batches(rows, len) for scores in row_log_probs(predictor, batch))
    for index, scores in zip(full_text_indices, row_scores, strict=True):
        log_probs[index] = scores[spans[index].start : spans[index].end].sum()
    return log_probs


def _masked_log_probs(masked_lm: MaskedTokenPredictor, spans: Sequence[ScoredSpan]) -> np.ndarray:
    """Score a copy for each token, masked from it to the last token of the words."""
    tokens = [(index, position) for index, span in enumerate(spans) for position in range(span.start, span.end)]
    tokens.sort(key=lambda token: len(spans[token[0]].ids))  # group similar lengths
    log_probs = np.zeros(len(spans))
    for batch in token_batches(tokens, lambda token: len(spans[token[0]].ids) + 2, MASKED_BATCH_TOKENS):
        rows, targets = [], []
        for index, position in batch:
            span = spans[index]
            row = np.concatenate(([masked_lm.start_id], span.ids, [masked_lm.end_id])).astype(np.int64)
            row[position + 1 : span.end + 1] = masked_lm.mask_id
            target = np.full(len(row), -1, np.int64)
            target[position + 1] = span.ids[position]
            rows.append(row)
            targets.append(target)
        inputs = {"tokens": np.concatenate(rows), "lengths": np.array([len(row) for row in rows])}
        outputs = reject_nan(masked_lm.evaluate_batch(inputs, {"token": np.concatenate(targets)})["token"])
        np.add.at(log_probs, [index for index, _ in batch], outputs)
    return log_probs
