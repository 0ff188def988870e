"""Texts into another language, with a run that was taught translations: by beam search, many at once, in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypedDict, get_args

import numpy as np

from forebear.errors import BadInput
from forebear.text.characters import sound
from forebear.text.segmentation import has_han
from forebear.text.sentences import split_sentences
from forebear.using.beams import Hypothesis, check, search
from forebear.using.texts import end_of

if TYPE_CHECKING:
    from forebear.text.sides import Sides
    from forebear.text.tokenizer import Tokenizer
    from forebear.using.predicting import Translator

Division = Literal["whole", "split"]

BEAMS = 4
AT_ONCE = 6000  # tokens of sources, each as often as it has beams, that are translated together: bounds memory
LONGER = 2.0  # times the source, and
MORE = 20  # tokens more may a translation have
WINDOW = 0.75  # of what fits, at least, is taken of a sentence that has to be cut


@dataclass(frozen=True)
class Version:
    """One translation: log P of it, and that by its length, after which versions are ranked."""

    text: str
    log_probability: float
    score: float


@dataclass(frozen=True)
class Translated:
    """A text and its translations, the best first. `parts` counts what it was cut into; `unknown` tokens unread."""

    source: str
    versions: tuple[Version, ...]
    parts: int
    unknown: int
    ended: bool  # False: it was cut off at the greatest length

    @property
    def text(self) -> str:
        return self.versions[0].text

    def facts(self) -> dict[str, Any]:
        told: dict[str, Any] = {"source": self.source, "translation": self.text}
        told |= {"parts": self.parts, "unknown": self.unknown, "ended": self.ended}
        versions = [vars(version) for version in self.versions]
        return told | {"versions": versions}


@dataclass(frozen=True)
class _Part:
    """A piece of a text that is translated by itself."""

    text: int  # its number
    ids: np.ndarray  # with the end


class Search(TypedDict, total=False):
    """How translations are looked for: see `translate`."""

    beams: int
    best: int
    penalty: float
    length: int | None
    sentences: Division
    progress: Callable[[int, int], object] | None


def translate(
    translator: Translator,
    sides: Sides,
    texts: str | Sequence[str],
    *,
    beams: int = BEAMS,
    best: int = 1,
    penalty: float = 1.0,
    length: int | None = None,
    sentences: Division = "whole",
    at_once: int = AT_ONCE,
    progress: Callable[[int, int], object] | None = None,
) -> list[Translated]:
    """A translation of each text, or the `best` several. What comes of a text does not depend on the others.

    beams      texts that are continued at once; 1 takes the likeliest token each time
    penalty    of length: 1 compares the mean of log P by token, 0 its sum, which shorter texts win
    length     the most tokens of a translation; None: in proportion to the source
    sentences  "split": each sentence of a text by itself; "whole": only where the text is longer than the context
    """
    texts = [texts] if isinstance(texts, str) else list(texts)
    check(beams, best, penalty)
    if sentences not in get_args(Division):
        raise BadInput(f"sentences is {sentences!r}", remedy=f"choose one of {', '.join(get_args(Division))}")
    if length is not None and length < 1:
        raise BadInput(f"length is {length}", remedy="give a length of at least 1, or leave it out")
    end, read_end = end_of(sides.target), end_of(sides.source)
    parts: list[_Part] = []
    unknown = [0] * len(texts)
    for number, text in enumerate(texts):
        for ids in _cut(sides.source, sound(text), translator.context - 1, sentences):
            unknown[number] += int(np.count_nonzero(ids == sides.source.unknown)) if len(ids) else 0
            parts.append(_Part(number, np.append(ids, read_end).astype(np.int64)))
    never = np.array(sorted(sides.target.specials - {end}), np.int64)  # the unknown token too: it says nothing

    def permitted(scores: np.ndarray) -> np.ndarray:
        kept = scores.copy()
        kept[:, never] = -np.inf
        return kept

    found: list[list[Hypothesis]] = [[]] * len(parts)
    done = 0
    for group in _groups(parts, beams, at_once):
        rows = [parts[number].ids for number in group]
        most = [min(length or int(LONGER * len(row)) + MORE, translator.context) for row in rows]
        reader = translator.begin(rows, end, max(most))
        how: dict[str, Any] = {"beams": beams, "best": best, "penalty": penalty, "permitted": permitted}
        told = search(reader, len(rows), end=end, lengths=most, **how)
        for number, hypotheses in zip(group, told, strict=True):
            found[number] = hypotheses
        done += len(group)
        if progress is not None:
            progress(done, len(parts))
    return _joined(texts, parts, found, sides.target, unknown, best)


def _cut(tokenizer: Tokenizer, text: str, most: int, sentences: Division) -> Iterator[np.ndarray]:
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


def _groups(parts: Sequence[_Part], beams: int, at_once: int) -> Iterator[list[int]]:
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
    parts: Sequence[_Part],
    found: Sequence[list[Hypothesis]],
    target: Tokenizer,
    unknown: Sequence[int],
    best: int,
) -> list[Translated]:
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
            log_p = sum(one.log_probability for one in chosen)
            score = sum(one.score for one in chosen) / max(1, len(chosen))
            versions.append(Version(between.join(pieces), log_p, score))
        ended = all(one[0].ended for one in own if one)
        made.append(Translated(text, tuple(versions), len(own), missed, ended))
    return made
