"""How good word vectors are: how they agree with people about pairs of words, and how many analogies they solve."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from forebear.errors import BadInput
from forebear.tasks.figures.metrics import pearson, spearman, unchanging
from forebear.using.embedding import matrix_of
from forebear.using.lexicon import Lexicon, Method, scaled
from forebear.using.nearest import DIGITS
from forebear.using.solving import solved
from forebear.using.word_coverage import why_missing
from forebear.using.word_files import Questions, Section, WordPairs, read_words
from forebear.using.words import has_words
from forebear.vectors.table import WordTable

if TYPE_CHECKING:
    from forebear.using.opened import Opened

MOST_FREQUENT = 30_000  # words that may answer an analogy, as in word2vec's own tool
LEAST = 2  # pairs that have a correlation
NAMED = 20  # missing words that are told one by one
LEFT_OUT = "pairs with a word that has no vector are left out; in figures of all they have the mean cosine"
WRONG = "analogies with a word that is not among those that may answer are left out; in figures of all they are wrong"


@dataclass(frozen=True)
class Agreement:
    """How cosines agree with what people said of pairs of words.

    spearman, pearson          over the `covered` pairs, those of which both words have vectors; None below two, and
                               where all cosines or all judgements are equal (`undefined` says so)
    spearman_all, pearson_all  over all of them, where those that are missing have the mean cosine of the others
    composed                   words whose vectors are made of their parts
    by                         "words" by themselves, or "texts" of one word as an encoder reads them
    why                        what is likely the matter where most words are missing
    headings                   the file's first line, where it was taken for headings
    """

    file: str
    by: str
    pairs: int
    covered: int
    spearman: float | None
    pearson: float | None
    spearman_all: float | None
    pearson_all: float | None
    missing: tuple[str, ...]
    composed: int
    why: str = ""
    undefined: str = ""
    headings: str = ""

    def facts(self) -> dict[str, Any]:
        figures = ("spearman", "pearson", "spearman_all", "pearson_all")
        told: dict[str, Any] = {"file": self.file, "kind": "similarity", "by": self.by, "pairs": self.pairs}
        told |= {"covered": self.covered} | {name: getattr(self, name) for name in figures}
        told |= {"undefined": self.undefined, "headings": self.headings}
        return told | _missing(self.missing, LEFT_OUT, self.why) | {"composed_words": self.composed}


@dataclass(frozen=True)
class Right:
    """Of `total` analogies so many are `covered`, their words being known, and so many of these answered right."""

    right: int = 0
    covered: int = 0
    total: int = 0

    @property
    def accuracy(self) -> float | None:
        return self.right / self.covered if self.covered else None

    @property
    def accuracy_all(self) -> float:
        """Where missing ones are wrong."""
        return self.right / max(1, self.total)

    def __add__(self, other: Right) -> Right:
        return Right(self.right + other.right, self.covered + other.covered, self.total + other.total)

    def facts(self) -> dict[str, Any]:
        told = {"accuracy": self.accuracy, "accuracy_all": self.accuracy_all}
        return told | {"right": self.right, "covered": self.covered, "total": self.total}


@dataclass(frozen=True)
class Solved:
    """How many analogies of a file were solved: by section, by kind where the file tells, and in all."""

    file: str
    method: Method
    words: int  # that may answer, the most frequent ones
    sections: tuple[tuple[Section, Right], ...]
    missing: tuple[str, ...]
    why: str = ""  # as of Agreement

    @property
    def whole(self) -> Right:
        return sum((right for _, right in self.sections), Right())

    @property
    def kinds(self) -> dict[str, Right]:
        made: dict[str, Right] = {}
        for section, right in self.sections:
            if section.kind:
                made[section.kind] = made.get(section.kind, Right()) + right
        return made

    def facts(self) -> dict[str, Any]:
        told: dict[str, Any] = {"file": self.file, "kind": "analogies", "method": self.method, "words": self.words}
        told |= self.whole.facts() | {"kinds": {kind: right.facts() for kind, right in self.kinds.items()}}
        told["sections"] = [{"name": one.name, "kind": one.kind} | right.facts() for one, right in self.sections]
        return told | _missing(self.missing, WRONG, self.why)


def _missing(words: Sequence[str], treatment: str, why: str) -> dict[str, Any]:
    return {"missing_words": len(words), "missing": list(words[:NAMED]), "why": why, "treatment": treatment}


def measure_words(
    run: Opened,
    files: Sequence[str | os.PathLike[str]],
    *,
    most_frequent: int | None = None,
    method: Method = "add",
    encoding: str = "utf-8",
) -> list[Agreement | Solved]:
    """What each file says of the run's vectors; all are read before anything is computed."""
    run.ready_for("similarity")
    if method not in get_args(Method):
        raise BadInput(f"method is {method!r}", remedy=f"choose one of {', '.join(get_args(Method))}")
    if most_frequent is not None and most_frequent < 0:
        raise BadInput(f"--most-frequent is {most_frequent}", remedy="give a number of words, or 0 for all")
    read = [read_words(file, encoding) for file in files]
    for one in read:
        if isinstance(one, Questions) and not has_words(run):
            remedy = "give files of pairs, or a run whose tokens are words (--tokenizer words, word2vec, …)"
            raise BadInput("analogies are answered from a table of words, and this run has none", file=one.file,
                           remedy=remedy)  # fmt: skip
    most = MOST_FREQUENT if most_frequent is None else most_frequent
    return [
        solve(run.lexicon, one, most, method) if isinstance(one, Questions) else _agreement(run, one) for one in read
    ]


def _agreement(run: Opened, of: WordPairs) -> Agreement:
    if has_words(run):
        return agreement_of_words(run.words, of)
    words = list(dict.fromkeys(word for pair in of.pairs for word in pair))
    vectors = dict(zip(words, matrix_of(run, words).vectors, strict=True))
    return agreement(of, vectors.get, "texts")


def agreement_of_words(table: WordTable, of: WordPairs) -> Agreement:
    """By the rows of a table, or by what it composes."""
    composed: set[str] = set()

    def vector(word: str) -> np.ndarray | None:
        row = next(rows_of(table, word), None)
        if row is not None:
            return np.asarray(table.matrix[row], np.float32)
        made = None if table.compose is None else table.compose(word)
        composed.update([] if made is None else [word])
        return made

    found = agreement(of, vector, "words", composed)
    return replace(found, why=why_missing(table, found.missing, len({word for pair in of.pairs for word in pair})))


def agreement(
    of: WordPairs, vector: Callable[[str], np.ndarray | None], by: str, composed: Iterable[str] = ()
) -> Agreement:
    found = [(vector(first), vector(second)) for first, second in of.pairs]
    there = np.array([one is not None and other is not None for one, other in found], bool)
    cosines = np.zeros(len(found))
    for place, (one, other) in enumerate(found):
        if one is not None and other is not None:  # rounded, so that what is equally alike stays so
            cosines[place] = np.round(np.prod(scaled(np.stack((one, other))), axis=0).sum(), DIGITS)
    covered = int(there.sum())
    cosines[~there] = _mean(cosines[there])
    own: dict[str, float | None] = dict.fromkeys(("spearman", "pearson", "spearman_all", "pearson_all"))
    for ending, scores, ours in (("", of.scores[there], cosines[there]), ("_all", of.scores, cosines)):
        if covered >= LEAST and not _undefined(scores, ours):
            own |= {f"spearman{ending}": spearman(scores, ours), f"pearson{ending}": pearson(scores, ours)}
    told = zip(of.pairs, found, strict=True)
    missing = dict.fromkeys(word for pair, both in told for word, one in zip(pair, both, strict=True) if one is None)
    return Agreement(
        of.file, by, len(of.pairs), covered, **own, missing=tuple(missing), composed=len(set(composed)), why="",
        undefined=_undefined(of.scores[there], cosines[there]), headings=of.headings,
    )  # fmt: skip


def _mean(numbers: np.ndarray) -> float:
    """Within what is summed up: in floating numbers, the mean of equals need not equal them."""
    return float(np.clip(numbers.mean(), numbers.min(), numbers.max())) if len(numbers) else 0.0


def _undefined(scores: np.ndarray, cosines: np.ndarray) -> str:
    """Why these have no correlation; "" where they have one."""
    if len(scores) < LEAST:
        return "fewer than two pairs are covered"
    names = (("judgements", scores), ("cosines", cosines))
    return next((f"all {name} of covered pairs are equal" for name, values in names if unchanging(values)), "")


def rows_of(table: WordTable, word: str) -> Iterator[int]:
    """The row of a word as it is written, then in small letters; phrases are written with _ in such files."""
    spaced = word.replace("_", " ")
    found = (table.rows.get(one) for one in dict.fromkeys((word, word.lower(), spaced, spaced.lower())))
    return (row for row in found if row is not None)


def solve(lexicon: Lexicon, of: Questions, most_frequent: int = MOST_FREQUENT, method: Method = "add") -> Solved:
    """Every analogy of a file, answered by the most frequent words; 0 for all."""
    table = lexicon.table
    order = np.arange(len(table.words)) if table.counts is None else np.argsort(-table.counts, kind="stable")
    order = order[: most_frequent or None]
    places = np.full(len(table.words), -1, np.int64)
    places[order] = np.arange(len(order))
    words = dict.fromkeys(word for one in of.sections for asked in one.questions for word in asked)
    known = {word: next((int(places[row]) for row in rows_of(table, word) if places[row] >= 0), -1) for word in words}
    asked = np.array([[known[word] for word in words] for one in of.sections for words in one.questions], np.int64)
    covered: np.ndarray = np.all(asked >= 0, axis=1)
    right = np.zeros(len(asked), bool)
    right[covered] = np.equal(solved(lexicon, order, asked[covered], method), asked[covered, 3])
    made, at = [], 0
    for one in of.sections:
        part = slice(at, at := at + len(one.questions))
        made.append((one, Right(int(right[part].sum()), int(covered[part].sum()), len(one.questions))))
    missing = tuple(word for word, place in known.items() if place < 0)
    return Solved(of.file, method, len(order), tuple(made), missing, why_missing(table, missing, len(known)))
