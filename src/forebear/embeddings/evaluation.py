"""How good word vectors are: how they agree with people about pairs of words, and how many analogies they solve."""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from forebear.data.segmentation import has_han
from forebear.embeddings.knn import COSINE_DIGITS
from forebear.embeddings.lexicon import AnalogyMethod, Lexicon, solve_analogies, unit_rows
from forebear.embeddings.word_table import WordVectors
from forebear.errors import InputError
from forebear.inference.embed import embed_texts, has_word_vectors
from forebear.inference.similarity import read_lines
from forebear.tasks.metrics import is_constant, pearson, spearman

if TYPE_CHECKING:
    from forebear.data.corpus.subset import Subset
    from forebear.data.tokenizers.tokenizer import Tokenizer
    from forebear.inference.run import LoadedRun

# Why words of a file have no vector in a table: another language, other capitals, or too little text.


FEW = 0.5  # of a file's words; where more are missing, it is said why
LOOKED_AT = 5000  # words of a table, the first: they are the frequent ones
MOSTLY, HARDLY = 0.5, 0.02  # shares of words
MANY = 0.1  # of the missing words


def coverage_note(table: WordVectors, missing: Sequence[str], asked: int) -> str:
    """What is likely the matter where most of the `asked` words are missing, and what to do; nothing where few are."""
    if len(missing) <= FEW * asked:
        return ""
    own, theirs = _chinese(table.words[:LOOKED_AT]), _chinese(missing)
    if theirs >= MOSTLY and own <= HARDLY:
        return "the file's words are Chinese, and the run's are not: measure it with a file of its own language"
    if theirs <= HARDLY and own >= MOSTLY:
        return "the run's words are Chinese, and the file's are not: measure it with a file of its own language"
    folded = {word.casefold(): word for word in reversed(table.words)}
    other = [folded[word.casefold()] for word in missing if word.casefold() in folded]
    if len(other) >= MANY * len(missing):
        shown = ", ".join(other[:3]) + (", …" if len(other) > 3 else "")
        hint = "train on text in small letters: forebear prepare TEXT --tokenizer words --lower --to CORPUS"
        return f"{len(other):,} of the missing words are there with other capitals ({shown}): {hint}"
    return f"the run knows {len(table.words):,} words: more text, or a lower --min-count, gives more of them a vector"


def _chinese(words: Sequence[str]) -> float:
    """The share of words with a Chinese character."""
    return sum(map(has_han, words)) / max(1, len(words))


# Files that people made to measure word vectors: pairs of words with how alike they are, and analogies by section.


NO_NUMBERS = ("nan", "inf", "infinity")  # nor with a sign
SECTION, COMMENT = ":", "#"
WORD_FILES_LOOKED_AT = 5  # lines by which it is told what a file holds
POINT = "write a number with a point, such as 8.5"
FORMS = (
    "a line is two words and a number, or four words of an analogy below a line such as ': capitals'; they are parted "
    "by tabs, semicolons, commas or spaces"
)

Pair = tuple[str, str]
Question = tuple[str, str, str, str]


@dataclass(frozen=True, eq=False)
class WordPairSet:
    """Pairs of words and how alike people find them; `headings` is the first line, where it is taken for those."""

    file: str
    pairs: tuple[Pair, ...]
    scores: np.ndarray
    headings: str = ""


@dataclass(frozen=True)
class AnalogySection:
    """Analogies of one kind: a is to b as c is to d. `kind` is "semantic" or "syntactic", where a file tells."""

    name: str
    kind: str
    questions: tuple[Question, ...]


@dataclass(frozen=True)
class AnalogySet:
    """The analogies of a file."""

    file: str
    sections: tuple[AnalogySection, ...]


def read_word_eval_file(file: str | os.PathLike[str], encoding: str = "utf-8") -> WordPairSet | AnalogySet:
    """What the file holds is told by its lines; comments (#) and a line of headings are passed over."""
    name = os.fspath(file)
    lines = list(_lines(name, encoding))
    if not lines:
        raise InputError("there is nothing in this file", file=name, hint=FORMS)
    return _questions(name, lines) if _asks(lines) else _pairs(name, lines)


def _lines(file: str, encoding: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(read_lines(file, encoding), 1):
        if line.strip() and not line.startswith(COMMENT):
            yield number, line.strip()


def _asks(lines: Sequence[tuple[int, str]]) -> bool:
    """Whether they are analogies: sections, or four words and no number among the last two."""
    first = [line for _, line in islice(lines, WORD_FILES_LOOKED_AT)]
    if any(line.startswith(SECTION) for line in first):
        return True
    parts = [_fields(line) for line in first]
    return all(len(part) == 4 and not any(_number(one) is not None for one in part[2:]) for part in parts)


def _pairs(file: str, lines: Sequence[tuple[int, str]]) -> WordPairSet:
    pairs, scores, headings = [], [], ""
    if len(lines) > 1 and _heads(_fields(lines[0][1]), _fields(lines[1][1])):
        headings, lines = lines[0][1], lines[1:]
    parted = [_fields(line) for _, line in lines]
    numbered = _numbered([words[0] for words in parted], min(map(len, parted)))
    for (number, line), fields in zip(lines, parted, strict=True):
        words = fields[numbered:]
        # SimLex has a part of speech before the number, others what each person said behind it.
        field = next((one for one in words[2:] if _meant_as_number(one)), None)
        if field is None:
            raise InputError(f"no pair of words with a number: {line[:80]!r}", file=file, line=number, hint=FORMS)
        if (score := _number(field)) is None:
            what = f"no pair of words with a number: {field[:40]!r} is none"
            raise InputError(what, file=file, line=number, hint=POINT)
        pairs.append((words[0], words[1]))
        scores.append(score)
    return WordPairSet(file, tuple(pairs), np.array(scores, np.float64), headings)


def _numbered(first: Sequence[str], fields: int) -> bool:
    """Whether lines have their own number before two words and a number: 0 or 1, and then one more each time."""
    told = [int(one) if one.isdecimal() else -1 for one in first]
    return fields > 3 and len(told) > 1 and told[0] in (0, 1) and told == list(range(told[0], told[0] + len(told)))


def _heads(first: Sequence[str], second: Sequence[str]) -> bool:
    """Whether the first line is one of headings: where the second has its number, it has a word."""
    place = next((place for place, one in enumerate(second) if place > 1 and _meant_as_number(one)), 2)
    return not any(_meant_as_number(first[at]) for at in {2, place} if at < len(first))


def _questions(file: str, lines: Sequence[tuple[int, str]]) -> AnalogySet:
    found: dict[str, list[Question]] = {}
    name = ""
    for number, line in lines:
        if line.startswith(SECTION):
            name = line.removeprefix(SECTION).strip()
            continue
        words = _fields(line)
        if len(words) != 4:
            raise InputError(f"no analogy of four words: {line[:80]!r}", file=file, line=number, hint=FORMS)
        found.setdefault(name, []).append((words[0], words[1], words[2], words[3]))
    if not found:
        raise InputError("there are sections in this file and no analogies", file=file, hint=FORMS)
    told = _kinds(file, list(found))
    return AnalogySet(file, tuple(AnalogySection(name, told[name], tuple(asked)) for name, asked in found.items()))


def _kinds(file: str, names: Sequence[str]) -> dict[str, str]:
    """Google's sections of grammar are named gram1 …; elsewhere a file of its own holds them (CA8)."""
    if any(name.startswith("gram") for name in names):
        return {name: "syntactic" if name.startswith("gram") else "semantic" for name in names}
    base = os.path.basename(file).lower()
    kind = "syntactic" if re.search("morpholog|syntactic", base) else "semantic" if "semantic" in base else ""
    return dict.fromkeys(names, kind)


def _fields(line: str) -> list[str]:
    """Parted by tabs, by semicolons, by commas, or else by spaces."""
    mark = "\t" if "\t" in line else next((one for one in ";," if line.count(one) > 1), None)
    return [part.strip() for part in line.split(mark)]


def _meant_as_number(text: str) -> bool:
    """Whether a person who wrote this meant a number, though it may be none: 8,5 or nan."""
    return text[:1].isdigit() or text.startswith(("+", "-", ".")) or text.casefold() in NO_NUMBERS


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


MOST_FREQUENT = 30_000  # words that may answer an analogy, as in word2vec's own tool
LEAST = 2  # pairs that have a correlation
NAMED = 20  # missing words that are told one by one
MISSING_PAIRS_NOTE = "pairs with a word that has no vector are left out; in figures of all they have the mean cosine"
MISSING_ANALOGIES_NOTE = (
    "analogies with a word that is not among those that may answer are left out; in figures of all they are wrong"
)


@dataclass(frozen=True)
class SimilarityEval:
    """How cosines agree with what people said of pairs of words.

    spearman, pearson          over the `covered` pairs, those of which both words have vectors; None below two, and
                               where all cosines or all judgements are equal (`undefined` says so)
    spearman_all, pearson_all  over all of them, where those that are missing have the mean cosine of the others
    composed                   words whose vectors are made of their parts
    by                         "words" by themselves, or "texts" of one word as an encoder reads them
    note                       what is likely the matter where most words are missing
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
    note: str = ""
    undefined: str = ""
    headings: str = ""

    def to_dict(self) -> dict[str, Any]:
        figures = ("spearman", "pearson", "spearman_all", "pearson_all")
        told: dict[str, Any] = {"file": self.file, "kind": "similarity", "by": self.by, "pairs": self.pairs}
        told |= {"covered": self.covered} | {name: getattr(self, name) for name in figures}
        told |= {"undefined": self.undefined, "headings": self.headings}
        return told | _missing(self.missing, MISSING_PAIRS_NOTE, self.note) | {"composed_words": self.composed}


@dataclass(frozen=True)
class AnalogyAccuracy:
    """Of `total` analogies so many are `covered`, their words being known, and so many of these answered right."""

    num_correct: int = 0
    num_covered: int = 0
    total: int = 0

    @property
    def accuracy(self) -> float | None:
        return self.num_correct / self.num_covered if self.num_covered else None

    @property
    def accuracy_all(self) -> float:
        """Where missing ones are wrong."""
        return self.num_correct / max(1, self.total)

    def __add__(self, other: AnalogyAccuracy) -> AnalogyAccuracy:
        return AnalogyAccuracy(
            self.num_correct + other.num_correct, self.num_covered + other.num_covered, self.total + other.total
        )

    def to_dict(self) -> dict[str, Any]:
        told = {"accuracy": self.accuracy, "accuracy_all": self.accuracy_all}
        return told | {"right": self.num_correct, "covered": self.num_covered, "total": self.total}


@dataclass(frozen=True)
class AnalogyEval:
    """How many analogies of a file were solved: by section, by kind where the file tells, and in all."""

    file: str
    method: AnalogyMethod
    words: int  # that may answer, the most frequent ones
    sections: tuple[tuple[AnalogySection, AnalogyAccuracy], ...]
    missing: tuple[str, ...]
    note: str = ""  # as of Agreement

    @property
    def overall(self) -> AnalogyAccuracy:
        return sum((right for _, right in self.sections), AnalogyAccuracy())

    @property
    def by_kind(self) -> dict[str, AnalogyAccuracy]:
        made: dict[str, AnalogyAccuracy] = {}
        for section, right in self.sections:
            if section.kind:
                made[section.kind] = made.get(section.kind, AnalogyAccuracy()) + right
        return made

    def to_dict(self) -> dict[str, Any]:
        told: dict[str, Any] = {"file": self.file, "kind": "analogies", "method": self.method, "words": self.words}
        told |= self.overall.to_dict() | {"kinds": {kind: right.to_dict() for kind, right in self.by_kind.items()}}
        told["sections"] = [{"name": one.name, "kind": one.kind} | right.to_dict() for one, right in self.sections]
        return told | _missing(self.missing, MISSING_ANALOGIES_NOTE, self.note)


def _missing(words: Sequence[str], treatment: str, why: str) -> dict[str, Any]:
    return {"missing_words": len(words), "missing": list(words[:NAMED]), "why": why, "treatment": treatment}


def evaluate_words(
    run: LoadedRun,
    files: Sequence[str | os.PathLike[str]],
    *,
    most_frequent: int | None = None,
    method: AnalogyMethod = "add",
    encoding: str = "utf-8",
) -> list[SimilarityEval | AnalogyEval]:
    """What each file says of the run's vectors; all are read before anything is computed."""
    run.require("similarity")
    if method not in get_args(AnalogyMethod):
        raise InputError(f"method is {method!r}", hint=f"choose one of {', '.join(get_args(AnalogyMethod))}")
    if most_frequent is not None and most_frequent < 0:
        raise InputError(f"--most-frequent is {most_frequent}", hint="give a number of words, or 0 for all")
    read = [read_word_eval_file(file, encoding) for file in files]
    for one in read:
        if isinstance(one, AnalogySet) and not has_word_vectors(run):
            hint = "give files of pairs, or a run whose tokens are words (--tokenizer words, word2vec, …)"
            raise InputError("analogies are answered from a table of words, and this run has none", file=one.file,
                           hint=hint)  # fmt: skip
    most = MOST_FREQUENT if most_frequent is None else most_frequent
    return [
        solve(run.lexicon, one, most, method) if isinstance(one, AnalogySet) else _agreement(run, one) for one in read
    ]


def _agreement(run: LoadedRun, of: WordPairSet) -> SimilarityEval:
    if has_word_vectors(run):
        return agreement_of_words(run.word_table, of)
    words = list(dict.fromkeys(word for pair in of.pairs for word in pair))
    vectors = dict(zip(words, embed_texts(run, words).vectors, strict=True))
    return agreement(of, vectors.get, "texts")


def agreement_of_words(table: WordVectors, of: WordPairSet) -> SimilarityEval:
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
    return replace(found, note=coverage_note(table, found.missing, len({word for pair in of.pairs for word in pair})))


def agreement(
    of: WordPairSet, vector: Callable[[str], np.ndarray | None], by: str, composed: Iterable[str] = ()
) -> SimilarityEval:
    found = [(vector(first), vector(second)) for first, second in of.pairs]
    there = np.array([one is not None and other is not None for one, other in found], bool)
    cosines = np.zeros(len(found))
    for place, (one, other) in enumerate(found):
        if one is not None and other is not None:  # rounded, so that what is equally alike stays so
            cosines[place] = np.round(np.prod(unit_rows(np.stack((one, other))), axis=0).sum(), COSINE_DIGITS)
    covered = int(there.sum())
    cosines[~there] = _mean(cosines[there])
    own: dict[str, float | None] = dict.fromkeys(("spearman", "pearson", "spearman_all", "pearson_all"))
    for ending, scores, ours in (("", of.scores[there], cosines[there]), ("_all", of.scores, cosines)):
        if covered >= LEAST and not _undefined(scores, ours):
            own |= {f"spearman{ending}": spearman(scores, ours), f"pearson{ending}": pearson(scores, ours)}
    told = zip(of.pairs, found, strict=True)
    missing = dict.fromkeys(word for pair, both in told for word, one in zip(pair, both, strict=True) if one is None)
    return SimilarityEval(
        of.file, by, len(of.pairs), covered, **own, missing=tuple(missing), composed=len(set(composed)), note="",
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
    return next((f"all {name} of covered pairs are equal" for name, values in names if is_constant(values)), "")


def rows_of(table: WordVectors, word: str) -> Iterator[int]:
    """The row of a word as it is written, then in small letters; phrases are written with _ in such files."""
    spaced = word.replace("_", " ")
    found = (table.rows.get(one) for one in dict.fromkeys((word, word.lower(), spaced, spaced.lower())))
    return (row for row in found if row is not None)


def solve(
    lexicon: Lexicon, of: AnalogySet, most_frequent: int = MOST_FREQUENT, method: AnalogyMethod = "add"
) -> AnalogyEval:
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
    right[covered] = np.equal(solve_analogies(lexicon, order, asked[covered], method), asked[covered, 3])
    made, at = [], 0
    for one in of.sections:
        part = slice(at, at := at + len(one.questions))
        made.append((one, AnalogyAccuracy(int(right[part].sum()), int(covered[part].sum()), len(one.questions))))
    missing = tuple(word for word, place in known.items() if place < 0)
    return AnalogyEval(of.file, method, len(order), tuple(made), missing, coverage_note(table, missing, len(known)))


# How well word vectors know the company of words: a true neighbour is told from a word that stands elsewhere.


WINDOW = 5  # words to either side that are neighbours
PAIRS = 50_000  # that are looked at, at most
AT_ONCE, TRIES = 4, 5  # places drawn at once for each pair that is wanted, and how many times: most are thinned out
SPARE = 1.02  # of pairs that are wanted: some have no other word
FREQUENT = 1e-4  # share of the text from which on words are thinned out, as word2vec does: they say little
BLOCK = 1 << 22  # numbers of vectors taken up at once
SMALLEST = 1e-12


@dataclass(frozen=True)
class NeighborEval:
    """Of so many pairs of neighbours in a text, the share whose vectors are nearer than those of a word and another
    word's neighbour. Half of them are by chance; where both are equally near, half a pair is counted.

    All words are drawn from the same text, so that frequent words are no help, and seldom such as are everywhere.
    """

    told_apart: float | None  # None: there was no pair
    pairs: int
    tokens: int
    bytes: int
    documents: int
    unknown_rate: float
    seconds: float
    learned_from: int | None = None  # documents of files that the run has learned from, where that is known
    learned_bytes: int | None = None  # of those

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def neighbor_eval(table: WordVectors, tokenizer: Tokenizer, portion: Subset, *, seed: int = 0) -> NeighborEval:
    """What a table of words knows of a text."""
    began = time.monotonic()
    rows = np.full(tokenizer.vocab_size, -1, np.int64)
    known = table.rows
    for number, token in enumerate(tokenizer.vocabulary()):
        if number not in tokenizer.special_ids:
            rows[number] = known.get(token, -1)
    words, others, elsewhere = _neighbours(portion, rows, np.random.default_rng(seed))
    made = NeighborEval(
        None,
        len(words),
        portion.num_tokens,
        portion.num_bytes,
        len(portion),
        _unknown(portion, rows),
        time.monotonic() - began,
    )
    if not len(words):
        return made
    step = max(1, BLOCK // table.matrix.shape[1])
    right = 0.0
    for at in range(0, len(words), step):
        mine, theirs, drawn = (_scaled(table.matrix[array[at : at + step]]) for array in (words, others, elsewhere))
        near, far = (np.einsum("ij,ij->i", mine, one) for one in (theirs, drawn))
        right += float(np.count_nonzero(near > far)) + 0.5 * float(np.count_nonzero(near == far))
    return replace(made, told_apart=right / len(words), seconds=time.monotonic() - began)


def _neighbours(portion: Subset, rows: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """The rows of words, drawn from all of a text, of a neighbour of each, and of another word's neighbour."""
    kept: np.ndarray | None = None
    found: list[np.ndarray] = []
    many, least = 0, min(PAIRS, portion.num_tokens)
    for _ in range(TRIES):
        words, others = _drawn(portion, rows, rng, least * AT_ONCE)
        if kept is None:
            kept = _kept(words, rows.max(initial=-1) + 1)
        fine = (words >= 0) & (others >= 0) & (words != others)
        fine &= rng.random(len(words)) < kept[words] * kept[others]
        found.append(np.stack((words[fine], others[fine])))
        many += found[-1].shape[1]
        if many > least * SPARE:
            break
    words, others = np.concatenate(found, 1)
    elsewhere = np.roll(others, 1)  # pairs are in no order: the one before is any other
    fine = (elsewhere != words) & (elsewhere != others)
    return words[fine][:PAIRS], others[fine][:PAIRS], elsewhere[fine][:PAIRS]


def _drawn(portion: Subset, rows: np.ndarray, rng: np.random.Generator, many: int) -> tuple[np.ndarray, np.ndarray]:
    """The rows of words from anywhere, and of a word beside each; fewer where a text ends."""
    at = rng.integers(portion.num_tokens, size=many)
    away = rng.integers(1, WINDOW + 1, size=many) * rng.choice([-1, 1], size=many)
    unit = np.searchsorted(portion.token_ends, at, side="right")
    ends = portion.token_ends[unit]
    begins = ends - (portion.spans[unit, 1] - portion.spans[unit, 0])
    inside = (at + away >= begins) & (at + away < ends)
    places = (portion.spans[unit, 1] - (ends - at))[inside]  # in the corpus
    words, others = (rows[portion.corpus.ids[places + by]] for by in (0, away[inside]))
    return words, others


def _kept(words: np.ndarray, size: int) -> np.ndarray:
    """How often each row is looked at, from how often it was drawn."""
    shares = np.bincount(words[words >= 0], minlength=size) / max(1, len(words))
    return np.sqrt(FREQUENT / np.maximum(shares, FREQUENT)) if size else np.zeros(1)


def _unknown(portion: Subset, rows: np.ndarray) -> float:
    """The share of tokens that have no vector."""
    tokens, _ = portion.token_slice(0, min(portion.num_tokens, BLOCK))
    return float(np.mean(rows[tokens] < 0))


def _scaled(vectors: np.ndarray) -> np.ndarray:
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))  # a fifth of the time of np.linalg.norm
    return vectors / np.maximum(lengths, SMALLEST)[:, None]
