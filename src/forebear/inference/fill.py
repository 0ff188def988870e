"""Fill blanks with a masked language model: candidates for each mask, and the text filled greedily."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from forebear.data.unicode import replace_surrogates
from forebear.errors import InputError
from forebear.inference.next_tokens import BLANK_PATTERN, TokenCandidate, blank_context, token_text, top_ids, valid_ids
from forebear.inference.predictor_protocols import reject_nan

if TYPE_CHECKING:
    from forebear.data.tokenizers.tokenizer import Tokenizer
    from forebear.nn.masked_token_predictor import MaskedTokenPredictor

MAX_MASKS = 64  # maximum number of masks in a text


@dataclass(frozen=True)
class FilledText:
    """Candidates for each mask while all others stay masked, and the filled text.

    The text is filled token by token, most confident mask first, each conditioned on those already filled; `log_prob`
    is the sum over these steps.
    """

    text: str
    filled_text: str
    chosen_tokens: tuple[TokenCandidate, ...]
    log_prob: float
    blanks: tuple[tuple[TokenCandidate, ...], ...]

    def to_dict(self) -> dict[str, Any]:
        return {
            "text": self.text,
            "whole": self.filled_text,
            "log_probability": self.log_prob,
            "chosen": [candidate.to_dict() for candidate in self.chosen_tokens],
            "blanks": [[candidate.to_dict() for candidate in blank] for blank in self.blanks],
        }


@dataclass(frozen=True, order=True)
class _Blank:
    """The span of a blank in the text, and its number of masks."""

    start: int
    end: int
    num_masks: int


def fill_masks(
    masked_lm: MaskedTokenPredictor, tokenizer: Tokenizer, text: str, *, top: int = 5, tokens: int = 1
) -> FilledText:
    """Fill every blank: ____ stands for `tokens` masks, the mask token ([MASK], <mask>) for one.

    Adjacent masks form one blank of several tokens: [MASK][MASK] may be a Chinese word of two characters.
    """
    for name, value in (("top", top), ("tokens", tokens)):
        if value < 1:
            raise InputError(f"{name} is {value}", hint="give at least 1")
    text = replace_surrogates(text)
    blanks = _find_blanks(text, tokenizer.id_to_token(masked_lm.mask_id), tokens)
    num_masks = sum(blank.num_masks for blank in blanks)
    if not num_masks:
        raise no_blank_error(tokenizer, masked_lm.mask_id)
    if num_masks > MAX_MASKS:
        raise InputError(f"{num_masks} tokens are hidden", hint=f"hide at most {MAX_MASKS} in one text")
    row, positions = _encode_with_masks(text, blanks, tokenizer, masked_lm.mask_id)
    allowed = _allowed_tokens(text, blanks, tokenizer)

    def candidate(token_id: int, log_prob: float) -> TokenCandidate:
        token = tokenizer.id_to_token(token_id)
        return TokenCandidate(token, token_id, token_text(tokenizer, token_id), math.exp(log_prob))

    candidates = [
        tuple(candidate(token_id, float(scores[token_id])) for token_id in top_ids(scores, top))
        for scores in _masked_log_probs(masked_lm, row, allowed)
    ]
    choices = _fill_greedily(masked_lm, row, positions, allowed)
    filled_text = _fill_text(text, blanks, [token_id for token_id, _ in choices], tokenizer)
    log_prob = math.fsum(log_prob for _, log_prob in choices)
    return FilledText(text, filled_text, tuple(candidate(*choice) for choice in choices), log_prob, tuple(candidates))


def no_blank_error(tokenizer: Tokenizer, mask: int) -> InputError:
    hint = f"write ____ or {tokenizer.id_to_token(mask)} where something is to be found"
    return InputError("the text has no blank", hint=hint)


def mask_blanks(text: str, tokenizer: Tokenizer, mask: int) -> tuple[np.ndarray, np.ndarray]:
    """The ids of a text in which each ____ and mask token is one mask, and the mask positions."""
    text = replace_surrogates(text)
    return _encode_with_masks(text, _find_blanks(text, tokenizer.id_to_token(mask), 1), tokenizer, mask)


def _find_blanks(text: str, mask: str, masks_per_blank: int) -> list[_Blank]:
    masks = re.finditer(f"(?:{re.escape(mask)})+", text)
    spans = [_Blank(*match.span(), match[0].count(mask)) for match in masks]
    return sorted(spans + [_Blank(*match.span(), masks_per_blank) for match in BLANK_PATTERN.finditer(text)])


def _encode_with_masks(
    text: str, blanks: list[_Blank], tokenizer: Tokenizer, mask: int
) -> tuple[np.ndarray, np.ndarray]:
    """The ids of the text with masks in its blanks, and the mask positions."""
    parts: list[np.ndarray] = []
    position = 0
    for blank in blanks:
        prefix = blank_context(text[position : blank.start], tokenizer)
        parts += [tokenizer.encode(prefix).ids, np.full(blank.num_masks, mask)]
        position = blank.end
    parts.append(tokenizer.encode(text[position:]).ids)
    row = np.concatenate(parts).astype(np.int64)
    return row, np.flatnonzero(row == mask)


def _allowed_tokens(text: str, blanks: list[_Blank], tokenizer: Tokenizer) -> list[np.ndarray]:
    """(V,) whether each token is allowed, for each mask.

    The first token of a blank must start or continue a word as the text before it requires; later ones are free.
    """
    is_regular = np.ones(tokenizer.vocab_size, bool)
    is_regular[list(tokenizer.special_ids)] = False
    allowed = []
    for blank in blanks:
        is_allowed_first = np.zeros(tokenizer.vocab_size, bool)
        is_allowed_first[valid_ids(text[: blank.start], tokenizer)] = True
        allowed += [is_allowed_first if is_allowed_first.any() else is_regular, *[is_regular] * (blank.num_masks - 1)]
    return allowed


def _masked_log_probs(masked_lm: MaskedTokenPredictor, row: np.ndarray, allowed: list[np.ndarray]) -> np.ndarray:
    """(masks, V) log-probabilities, normalized over the allowed tokens of each mask."""
    scores = reject_nan(np.asarray(masked_lm.mask_log_probs([row])[0], np.float64))
    scores = np.where(np.stack(allowed), scores, -np.inf)
    return scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)


def _fill_greedily(
    masked_lm: MaskedTokenPredictor, row: np.ndarray, positions: np.ndarray, allowed: list[np.ndarray]
) -> list[tuple[int, float]]:
    """(id, log-probability) of the token of each mask, in text order; masks are filled most confident first."""
    row, remaining = row.copy(), list(range(len(positions)))
    choices: list[tuple[int, float]] = [(-1, 0.0)] * len(positions)
    while remaining:
        scores = _masked_log_probs(masked_lm, row, [allowed[mask_index] for mask_index in remaining])
        most_confident = int(scores.max(axis=1).argmax())
        token = int(scores[most_confident].argmax())
        mask_index = remaining.pop(most_confident)
        row[positions[mask_index]] = token
        choices[mask_index] = token, float(scores[most_confident, token])
    return choices


def _fill_text(text: str, blanks: list[_Blank], filler_ids: list[int], tokenizer: Tokenizer) -> str:
    parts, position, index = [], 0, 0
    for blank in blanks:
        ids = filler_ids[index : index + blank.num_masks]
        filler = tokenizer.decode(ids).strip()
        if tokenizer.continuation_prefix and tokenizer.continuation_mask[ids[0]]:
            filler = filler.removeprefix(tokenizer.continuation_prefix)
        parts += [text[position : blank.start], filler]
        position, index = blank.end, index + blank.num_masks
    return "".join([*parts, text[position:]])
