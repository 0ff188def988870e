"""How often a tagger is right, word by word: for tags that stand for themselves, such as parts of speech."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import chain
from typing import Any

import numpy as np

from forebear.errors import BadInput
from forebear.tasks.figures.metrics import Counts


def of_words(true: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> dict[str, Any]:
    """`accuracy` of words, `sentence_accuracy` of sentences without any mistake, and each tag by itself."""
    if [*map(len, true)] != [*map(len, predicted)]:
        raise BadInput("the predicted sequences of tags are not as long as the true ones")
    names = sorted({*chain.from_iterable(true), *chain.from_iterable(predicted)})
    numbers = {name: number for number, name in enumerate(names)}
    meant, said = (_numbers(sequences, numbers) for sequences in (true, predicted))
    counts = Counts(*(np.bincount(some, minlength=len(names)) for some in (meant[meant == said], said, meant)))
    whole = sum(tuple(one) == tuple(other) for one, other in zip(true, predicted, strict=True))
    return {
        "accuracy": float((meant == said).mean()) if len(meant) else 0.0,
        "sentence_accuracy": whole / len(true) if true else 0.0,
        "macro_f1": counts.occurring().average_f1("macro") if names else 0.0,
        "per_kind": counts.occurring().facts(names),
        "sequences": len(true),
        "words": len(meant),
    }


def of_unknown(
    words: Sequence[Sequence[str]],
    true: Sequence[Sequence[str]],
    predicted: Sequence[Sequence[str]],
    known: Collection[str],
) -> dict[str, Any]:
    """The same of words that are not among those `known`, the training examples' own: how many, and how often right."""
    every = zip(*(chain.from_iterable(one) for one in (words, true, predicted)), strict=True)
    right = [meant == said for word, meant, said in every if word not in known]
    return {"unknown_words": len(right), "accuracy_unknown": sum(right) / len(right) if right else None}


def of_words_unseen(examples: Sequence[Any], answers: Sequence[Any], known: Collection[str]) -> dict[str, Any]:
    """The same of tagged sentences and of what was said of them; those without tags do not count."""
    both = [(one, answer) for one, answer in zip(examples, answers, strict=True) if one.tags is not None]
    words, true = [one.words for one, _ in both], [one.tags for one, _ in both]
    return of_unknown(words, true, [answer.tags for _, answer in both], known)


def _numbers(sequences: Sequence[Sequence[str]], numbers: dict[str, int]) -> np.ndarray:
    return np.fromiter(map(numbers.__getitem__, chain.from_iterable(sequences)), np.int64)
