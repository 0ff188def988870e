"""The words of a vocabulary as those who read ELMo want them: a line each, <S>, </S> and <UNK> among them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

MARKS = {"start": "<S>", "end": "</S>", "unknown": "<UNK>"}  # by our roles
NEVER = -1e4  # the score of a word that is never said
BEGINS, ENDS = 256, 257  # rows of the table of symbols: where a text begins, and where it ends
CHARACTER, TOKEN, SCORES = "encoder.embedding.character", "encoder.embedding.token", "heads.next.softmax.scores"


def lines_of(tokens: Sequence[str], roles: Mapping[str, int]) -> list[str]:
    r"""A line for each token, and behind them one for each mark that no token of its own has the role of.

    What is not printed on a line, and the < of a word that looks like a mark, is written as \u0020 and the like.
    """
    owners = {mark: roles[role] for role, mark in MARKS.items() if role in roles}
    if owners.get(MARKS["start"]) == owners.get(MARKS["end"]):
        owners.pop(MARKS["start"], None)  # one token does both, and it is the end that is predicted
    marked = {number: mark for mark, number in owners.items()}
    lines: dict[str, None] = {}
    for number, token in enumerate(tokens):
        line = marked.get(number) or _line(token)
        while line in lines:
            line += "_"
        lines[line] = None
    return [*lines, *(mark for mark in MARKS.values() if mark not in owners)]


def _line(token: str) -> str:
    if token in MARKS.values():
        return r"\u003c" + token[1:]
    odd = [character for character in set(token) if character.isspace() or ord(character) < 32]
    return "".join(rf"\u{ord(c):04x}" if c in odd else c for c in token) or r"\u0000"


def with_rows(
    tensors: Mapping[str, np.ndarray], lines: Sequence[str], end: int, *, one_border: bool
) -> dict[str, np.ndarray]:
    """The tensors with a row for each line, also for marks that our vocabulary lacks: they are never said, and read as
    the end is. `one_border`: the end is what texts begin with here, so it is what <S> is read as."""
    made = dict(tensors)
    start = lines.index(MARKS["start"])
    if (table := made.get(f"{TOKEN}.weight")) is not None:
        more = len(lines) - len(table)
        made[f"{TOKEN}.weight"] = table = np.concatenate([table, np.repeat(table[end : end + 1], more, 0)])
        if one_border:
            table[start] = table[end]
    if one_border and (table := made.get(f"{CHARACTER}.weight")) is not None:
        made[f"{CHARACTER}.weight"] = table = table.copy()
        table[BEGINS] = table[ENDS]
    if (scores := made.get(f"{SCORES}.weight")) is not None and (more := len(lines) - len(scores)):
        made[f"{SCORES}.weight"] = np.concatenate([scores, np.zeros((more, scores.shape[1]), np.float32)])
        made[f"{SCORES}.bias"] = np.append(made[f"{SCORES}.bias"], np.full(more, NEVER, np.float32))
    return made


def without_rows(tensors: Mapping[str, np.ndarray], size: int) -> dict[str, np.ndarray]:
    """The tensors without rows behind the first `size` words."""
    by_word = (f"{TOKEN}.weight", f"{SCORES}.weight", f"{SCORES}.bias")
    return {name: value[:size] if name in by_word else value for name, value in tensors.items()}
