"""Evaluation of word vectors: word-similarity and analogy files, and neighbor accuracy on a text."""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, astuple, dataclass, replace
from itertools import chain, islice
from operator import add
from typing import TYPE_CHECKING, Any

import numpy as np

from forebear.data.io.text_formats import read_lines
from forebear.data.segmentation import has_han
from forebear.embeddings.knn import COSINE_DIGITS
from forebear.embeddings.lexicon import AnalogyMethod, Lexicon, solve_analogies
from forebear.embeddings.word_table import WordVectors
from forebear.errors import InputError
from forebear.numerics import is_constant, pearson, spearman, unit_rows

if TYPE_CHECKING:
    from forebear.data.corpus.subset import Subset
    from forebear.data.tokenizers.tokenizer import Tokenizer

# --- Why most words of a file have no vector ---

MAX_MISSING_FRACTION = 0.5  # of a file's words; if more are missing, the likely reason is reported
NUM_SAMPLED_WORDS = 5000  # first words of a table, which are the most frequent
MAJORITY_FRACTION, NEGLIGIBLE_FRACTION = 0.5, 0.02  # of words
MIN_CASED_FRACTION = 0.1  # of the missing words


def coverage_note(table: WordVectors, missing: Sequence[str], num_words: int) -> str:
    """The likely reason why most of `num_words` words are missing, with a hint; "" if only a few are."""
    if len(missing) <= MAX_MISSING_FRACTION * num_words:
        return ""
    vocab_fraction, missing_fraction = _chinese_fraction(table.words[:NUM_SAMPLED_WORDS]), _chinese_fraction(missing)
    if missing_fraction >= MAJORITY_FRACTION and vocab_fraction <= NEGLIGIBLE_FRACTION:
        return "the file's words are Chinese, and the run's are not: measure it with a file of its own language"
    if missing_fraction <= NEGLIGIBLE_FRACTION and vocab_fraction >= MAJORITY_FRACTION:
        return "the run's words are Chinese, and the file's are not: measure it with a file of its own language"
    word_by_casefold = {word.casefold(): word for word in reversed(table.words)}
    differently_cased = [word_by_casefold[word.casefold()] for word in missing if word.casefold() in word_by_casefold]
    if len(differently_cased) >= MIN_CASED_FRACTION * len(missing):
        sample = ", ".join(differently_cased[:3]) + (", …" if len(differently_cased) > 3 else "")
        hint = "train on text in small letters: forebear prepare TEXT --tokenizer words --lower --to CORPUS"
        return f"{len(differently_cased):,} of the missing words are there with other capitals ({sample}): {hint}"
    return f"the run knows {len(table.words):,} words: more text, or a lower --min-count, gives more of them a vector"


def _chinese_fraction(words: Sequence[str]) -> float:
    """Fraction of words with a Chinese character."""
    return sum(map(has_han, words)) / max(1, len(words))


# --- Reading evaluation files ---

NON_FINITE = ("nan", "inf", "infinity")  # also with a sign
SECTION, COMMENT = ":", "#"
DETECTION_LINES = 5  # lines from which the format of a file is detected
NUMBER_HINT = "write a number with a point, such as 8.5"
FORMAT_HINT = (
    "a line is two words and a number, or four words of an analogy below a line such as ': capitals'; they are parted "
    "by tabs, semicolons, commas or spaces"
)

WordPair = tuple[str, str]
AnalogyQuestion = tuple[str, str, str, str]


@dataclass(frozen=True, eq=False)
class WordPairSet:
    """Word pairs with human similarity scores; `headings` is the header line, if there is one."""

    file: str
    pairs: tuple[WordPair, ...]
    scores: np.ndarray
    headings: str = ""


@dataclass(frozen=True)
class AnalogySection:
    """Analogies a : b = c : d of one section; `kind` is "semantic", "syntactic" or "" if the file does not say."""

    name: str
    kind: str
    questions: tuple[AnalogyQuestion, ...]


@dataclass(frozen=True)
class AnalogySet:
    """The analogies of a file."""

    file: str
    sections: tuple[AnalogySection, ...]


def read_word_eval_file(file: str | os.PathLike[str], encoding: str = "utf-8") -> WordPairSet | AnalogySet:
    """Read a word-similarity or analogy file, detected by content; comments (#) and a header line are skipped."""
    name = os.fspath(file)
    lines = list(_lines(name, encoding))
    if not lines:
        raise InputError("there is nothing in this file", file=name, hint=FORMAT_HINT)
    return _parse_analogies(name, lines) if _has_analogies(lines) else _parse_pairs(name, lines)


def _lines(file: str, encoding: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(read_lines(file, encoding), 1):
        if line.strip() and not line.startswith(COMMENT):
            yield number, line.strip()


def _has_analogies(lines: Sequence[tuple[int, str]]) -> bool:
    """Whether the lines are analogies: sections, or four words with no number among the last two."""
    sampled = [line for _, line in islice(lines, DETECTION_LINES)]
    if any(line.startswith(SECTION) for line in sampled):
        return True
    rows = [_split_fields(line) for line in sampled]
    return all(len(fields) == 4 and all(_parse_number(field) is None for field in fields[2:]) for fields in rows)


def _parse_pairs(file: str, lines: Sequence[tuple[int, str]]) -> WordPairSet:
    pairs, scores, headings = [], [], ""
    if len(lines) > 1 and _is_header(_split_fields(lines[0][1]), _split_fields(lines[1][1])):
        headings, lines = lines[0][1], lines[1:]
    rows = [_split_fields(line) for _, line in lines]
    num_skipped = _has_line_numbers([words[0] for words in rows], min(map(len, rows)))
    for (number, line), fields in zip(lines, rows, strict=True):
        words = fields[num_skipped:]
        # SimLex has a part of speech before the number; other files have the individual ratings after it.
        score_text = next((text for text in words[2:] if _looks_numeric(text)), None)
        if score_text is None:
            raise InputError(f"no pair of words with a number: {line[:80]!r}", file=file, line=number, hint=FORMAT_HINT)
        if (score := _parse_number(score_text)) is None:
            message = f"no pair of words with a number: {score_text[:40]!r} is none"
            raise InputError(message, file=file, line=number, hint=NUMBER_HINT)
        pairs.append((words[0], words[1]))
        scores.append(score)
    return WordPairSet(file, tuple(pairs), np.array(scores, np.float64), headings)


def _has_line_numbers(first_fields: Sequence[str], num_fields: int) -> bool:
    """Whether lines are numbered before the two words and the score: from 0 or 1, without gaps."""
    numbers = [int(field) if field.isdecimal() else -1 for field in first_fields]
    is_numbered = any(numbers == list(range(start, start + len(numbers))) for start in (0, 1))
    return num_fields > 3 and len(numbers) > 1 and is_numbered


def _is_header(first: Sequence[str], second: Sequence[str]) -> bool:
    """Whether the first line is a header: it has a word where the second line has its number."""
    index = next((index for index, field in enumerate(second) if index > 1 and _looks_numeric(field)), 2)
    return not any(_looks_numeric(first[index]) for index in {2, index} if index < len(first))


def _parse_analogies(file: str, lines: Sequence[tuple[int, str]]) -> AnalogySet:
    sections: dict[str, list[AnalogyQuestion]] = {}
    name = ""
    for number, line in lines:
        if line.startswith(SECTION):
            name = line.removeprefix(SECTION).strip()
            continue
        words = _split_fields(line)
        if len(words) != 4:
            raise InputError(f"no analogy of four words: {line[:80]!r}", file=file, line=number, hint=FORMAT_HINT)
        sections.setdefault(name, []).append((words[0], words[1], words[2], words[3]))
    if not sections:
        raise InputError("there are sections in this file and no analogies", file=file, hint=FORMAT_HINT)
    kinds = _section_kinds(file, list(sections))
    items = sections.items()
    return AnalogySet(file, tuple(AnalogySection(name, kinds[name], tuple(questions)) for name, questions in items))


def _section_kinds(file: str, names: Sequence[str]) -> dict[str, str]:
    """Google's syntactic sections are named gram1 …; CA8 keeps them in a separate file."""
    if any(name.startswith("gram") for name in names):
        return {name: "syntactic" if name.startswith("gram") else "semantic" for name in names}
    base = os.path.basename(file).lower()
    kind = "syntactic" if re.search("morpholog|syntactic", base) else "semantic" if "semantic" in base else ""
    return dict.fromkeys(names, kind)


def _split_fields(line: str) -> list[str]:
    """Fields separated by tabs, semicolons, commas, or else spaces."""
    separator = "\t" if "\t" in line else next((character for character in ";," if line.count(character) > 1), None)
    return [field.strip() for field in line.split(separator)]


def _looks_numeric(text: str) -> bool:
    """Whether the field is meant as a number, even if it is not valid: 8,5 or nan."""
    return text[:1].isdigit() or text.startswith(("+", "-", ".")) or text.casefold() in NON_FINITE


def _parse_number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


# --- Results ---

MAX_ANALOGY_WORDS = 30_000  # candidate answers of an analogy, as in word2vec's compute-accuracy
MIN_PAIRS = 2  # for a correlation
MAX_LISTED_WORDS = 20  # missing words that are listed
MISSING_PAIRS_NOTE = "pairs with a word that has no vector are left out; in figures of all they have the mean cosine"
MISSING_ANALOGIES_NOTE = (
    "analogies with a word that is not among those that may answer are left out; in figures of all they are wrong"
)


@dataclass(frozen=True)
class SimilarityEval:
    """Correlation of cosines with human similarity scores of word pairs.

    spearman, pearson          over the `covered` pairs, whose words both have vectors; None for fewer than two pairs,
                               or if all cosines or all scores are equal (`undefined` gives the reason)
    spearman_all, pearson_all  over all pairs, where a missing pair has the mean cosine of the others
    composed                   number of words whose vectors are composed of subwords
    by                         "words" for a table of word vectors, "texts" if an encoder reads each word as a text
    note                       the likely reason why most words are missing
    headings                   the file's first line if it was recognized as a header
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
        correlations = ("spearman", "pearson", "spearman_all", "pearson_all")
        result: dict[str, Any] = {"file": self.file, "kind": "similarity", "by": self.by, "pairs": self.pairs}
        result |= {"covered": self.covered} | {name: getattr(self, name) for name in correlations}
        result |= {"undefined": self.undefined, "headings": self.headings}
        result |= _missing_words_dict(self.missing, MISSING_PAIRS_NOTE, self.note)
        return result | {"composed_words": self.composed}


@dataclass(frozen=True)
class AnalogyAccuracy:
    """Counts of analogies: in total, covered (all words known), and answered correctly."""

    num_correct: int = 0
    num_covered: int = 0
    total: int = 0

    @property
    def accuracy(self) -> float | None:
        return self.num_correct / self.num_covered if self.num_covered else None

    @property
    def accuracy_all(self) -> float:
        """Accuracy where analogies that are not covered count as wrong."""
        return self.num_correct / max(1, self.total)

    def __add__(self, other: AnalogyAccuracy) -> AnalogyAccuracy:
        return AnalogyAccuracy(*map(add, astuple(self), astuple(other)))

    def to_dict(self) -> dict[str, Any]:
        result = {"accuracy": self.accuracy, "accuracy_all": self.accuracy_all}
        return result | {"right": self.num_correct, "covered": self.num_covered, "total": self.total}


@dataclass(frozen=True)
class AnalogyEval:
    """Analogy accuracy on a file: by section, by kind if the file gives it, and overall."""

    file: str
    method: AnalogyMethod
    words: int  # candidate answers, the most frequent words
    sections: tuple[tuple[AnalogySection, AnalogyAccuracy], ...]
    missing: tuple[str, ...]
    note: str = ""  # see SimilarityEval

    @property
    def overall(self) -> AnalogyAccuracy:
        return sum((accuracy for _, accuracy in self.sections), AnalogyAccuracy())

    @property
    def by_kind(self) -> dict[str, AnalogyAccuracy]:
        totals: dict[str, AnalogyAccuracy] = {}
        for section, accuracy in self.sections:
            if section.kind:
                totals[section.kind] = totals.get(section.kind, AnalogyAccuracy()) + accuracy
        return totals

    def to_dict(self) -> dict[str, Any]:
        result: dict[str, Any] = {"file": self.file, "kind": "analogies", "method": self.method, "words": self.words}
        result |= self.overall.to_dict()
        result["kinds"] = {kind: accuracy.to_dict() for kind, accuracy in self.by_kind.items()}
        result["sections"] = [
            {"name": section.name, "kind": section.kind} | accuracy.to_dict() for section, accuracy in self.sections
        ]
        return result | _missing_words_dict(self.missing, MISSING_ANALOGIES_NOTE, self.note)


def _missing_words_dict(words: Sequence[str], treatment: str, reason: str) -> dict[str, Any]:
    return {
        "missing_words": len(words),
        "missing": list(words[:MAX_LISTED_WORDS]),
        "why": reason,
        "treatment": treatment,
    }


# --- Word similarity and analogies ---


def table_similarity_eval(table: WordVectors, pairs: WordPairSet) -> SimilarityEval:
    """Evaluate word pairs with the vectors of a table, including composed ones."""
    composed: set[str] = set()

    def vector(word: str) -> np.ndarray | None:
        row = next(candidate_rows(table, word), None)
        if row is not None:
            return np.asarray(table.matrix[row], np.float32)
        composed_vector = None if table.compose is None else table.compose(word)
        composed.update([] if composed_vector is None else [word])
        return composed_vector

    evaluation = similarity_eval(pairs, vector, "words", composed)
    num_words = len(set(chain.from_iterable(pairs.pairs)))
    return replace(evaluation, note=coverage_note(table, evaluation.missing, num_words))


def similarity_eval(
    pairs: WordPairSet, vector: Callable[[str], np.ndarray | None], by: str, composed: Iterable[str] = ()
) -> SimilarityEval:
    """Correlate the cosines of word pairs with their scores; `vector` returns None for a missing word."""
    vectors: list[Any] = [(vector(first), vector(second)) for first, second in pairs.pairs]
    is_covered = np.array([first is not None and second is not None for first, second in vectors], bool)
    cosines = np.zeros(len(vectors))
    for index in np.flatnonzero(is_covered).tolist():  # rounded, so that equal similarities stay tied
        cosines[index] = np.round(np.prod(unit_rows(np.stack(vectors[index])), axis=0).sum(), COSINE_DIGITS)
    covered_cosines, covered_scores = cosines[is_covered], pairs.scores[is_covered]
    if len(covered_cosines):  # clipped: the mean of equal numbers may differ from them by rounding
        cosines[~is_covered] = np.clip(covered_cosines.mean(), covered_cosines.min(), covered_cosines.max())
    correlations: dict[str, Any] = dict.fromkeys(("spearman", "pearson", "spearman_all", "pearson_all"))
    for suffix, scores, values in (("", covered_scores, covered_cosines), ("_all", pairs.scores, cosines)):
        if len(covered_scores) >= MIN_PAIRS and not _undefined_reason(scores, values):
            correlations |= {f"spearman{suffix}": spearman(scores, values), f"pearson{suffix}": pearson(scores, values)}
    pair_words, pair_vectors = chain.from_iterable(pairs.pairs), chain.from_iterable(vectors)
    missing = [word for word, vector in zip(pair_words, pair_vectors, strict=True) if vector is None]
    return SimilarityEval(
        file=pairs.file,
        by=by,
        pairs=len(pairs.pairs),
        covered=len(covered_scores),
        **correlations,
        missing=tuple(dict.fromkeys(missing)),
        composed=len(set(composed)),
        undefined=_undefined_reason(covered_scores, covered_cosines),
        headings=pairs.headings,
    )


def _undefined_reason(scores: np.ndarray, cosines: np.ndarray) -> str:
    """Why the correlation is undefined; "" if it is defined."""
    if len(scores) < MIN_PAIRS:
        return "fewer than two pairs are covered"
    names = (("judgements", scores), ("cosines", cosines))
    return next((f"all {name} of covered pairs are equal" for name, numbers in names if is_constant(numbers)), "")


def candidate_rows(table: WordVectors, word: str) -> Iterator[int]:
    """Rows of a word as written, then lowercased; evaluation files join phrases with _."""
    spaced = word.replace("_", " ")
    candidates = (table.rows.get(form) for form in dict.fromkeys((word, word.lower(), spaced, spaced.lower())))
    return (row for row in candidates if row is not None)


def analogy_eval(
    lexicon: Lexicon, analogies: AnalogySet, most_frequent: int = MAX_ANALOGY_WORDS, method: AnalogyMethod = "add"
) -> AnalogyEval:
    """Answer every analogy of a file with one of the `most_frequent` words (0: all words)."""
    table = lexicon.table
    order = np.arange(len(table.words)) if table.counts is None else np.argsort(-table.counts, kind="stable")
    order = order[: most_frequent or None]
    ranks = np.full(len(table.words), -1, np.int64)
    ranks[order] = np.arange(len(order))
    all_questions = [question for section in analogies.sections for question in section.questions]
    rank_of_word = {
        word: next((int(ranks[row]) for row in candidate_rows(table, word) if ranks[row] >= 0), -1)
        for word in dict.fromkeys(chain.from_iterable(all_questions))
    }
    questions = np.array([[rank_of_word[word] for word in question] for question in all_questions], np.int64)
    is_covered: np.ndarray = np.all(questions >= 0, axis=1)
    is_correct = np.zeros(len(questions), bool)
    is_correct[is_covered] = np.equal(
        solve_analogies(lexicon, order, questions[is_covered], method), questions[is_covered, 3]
    )
    sections, start = [], 0
    for section in analogies.sections:
        rows = slice(start, start := start + len(section.questions))
        accuracy = AnalogyAccuracy(int(is_correct[rows].sum()), int(is_covered[rows].sum()), len(section.questions))
        sections.append((section, accuracy))
    missing = tuple(word for word, rank in rank_of_word.items() if rank < 0)
    note = coverage_note(table, missing, len(rank_of_word))
    return AnalogyEval(analogies.file, method, len(order), tuple(sections), missing, note)


# --- Neighbor accuracy: a context word against a context word of a random word ---

WINDOW = 5  # context words to either side
MAX_PAIRS = 50_000  # evaluated at most
OVERSAMPLING, MAX_ROUNDS = 4, 5  # positions sampled per pair, and rounds: subsampling removes most
PAIR_MARGIN = 1.02  # factor on the number of pairs: some have no valid random word
SUBSAMPLE_THRESHOLD = 1e-4  # frequency above which words are subsampled, as in word2vec
VALUES_PER_BLOCK = 1 << 22  # floats per block of vectors


@dataclass(frozen=True)
class NeighborEval:
    """Neighbor accuracy: how often a word is closer to a context word than to another word's context word.

    The random baseline is 0.5; ties count half. All words are sampled from the same text, so frequency gives no
    advantage, and very frequent words are subsampled.
    """

    told_apart: float | None  # None: no pairs
    pairs: int
    tokens: int
    bytes: int
    documents: int
    unknown_rate: float
    seconds: float
    learned_from: int | None = None  # documents in files of the training data, if known
    learned_bytes: int | None = None  # their bytes

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def neighbor_eval(table: WordVectors, tokenizer: Tokenizer, subset: Subset, *, seed: int = 0) -> NeighborEval:
    """Measure the neighbor accuracy of word vectors on a text."""
    start_time = time.monotonic()
    rows = np.array([table.rows.get(token, -1) for token in tokenizer.vocabulary()], np.int64)
    rows[list(tokenizer.special_ids)] = -1
    word_rows, context_rows, random_rows = _sample_triples(subset, rows, np.random.default_rng(seed))
    step = max(1, VALUES_PER_BLOCK // table.matrix.shape[1])
    correct = 0.0
    for start in range(0, len(word_rows), step):
        rows_of_block = (rows[start : start + step] for rows in (word_rows, context_rows, random_rows))
        word_vectors, *other_vectors = (unit_rows(table.matrix[rows]) for rows in rows_of_block)
        context_cosines, random_cosines = (np.einsum("ij,ij->i", word_vectors, others) for others in other_vectors)
        num_ties = np.count_nonzero(context_cosines == random_cosines)
        correct += float(np.count_nonzero(context_cosines > random_cosines)) + 0.5 * float(num_ties)
    first_tokens, _ = subset.token_slice(0, min(subset.num_tokens, VALUES_PER_BLOCK))
    return NeighborEval(
        told_apart=correct / len(word_rows) if len(word_rows) else None,
        pairs=len(word_rows),
        tokens=subset.num_tokens,
        bytes=subset.num_bytes,
        documents=len(subset),
        unknown_rate=float(np.mean(rows[first_tokens] < 0)),
        seconds=time.monotonic() - start_time,
    )


def _sample_triples(subset: Subset, rows: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Sample rows of words, of a context word of each, and of another word's context word."""
    keep_probs: np.ndarray | None = None
    batches: list[np.ndarray] = []
    num_pairs, target = 0, min(MAX_PAIRS, subset.num_tokens)
    for _ in range(MAX_ROUNDS):
        words, contexts = _sample_neighbors(subset, rows, rng, target * OVERSAMPLING)
        if keep_probs is None:
            keep_probs = _keep_probs(words, rows.max(initial=-1) + 1)
        is_valid = (words >= 0) & (contexts >= 0) & (words != contexts)
        is_valid &= rng.random(len(words)) < keep_probs[words] * keep_probs[contexts]
        batches.append(np.stack((words[is_valid], contexts[is_valid])))
        num_pairs += batches[-1].shape[1]
        if num_pairs > target * PAIR_MARGIN:
            break
    words, contexts = np.concatenate(batches, 1)
    random_rows = np.roll(contexts, 1)  # pairs are in random order, so the previous one is random
    is_valid = (random_rows != words) & (random_rows != contexts)
    return words[is_valid][:MAX_PAIRS], contexts[is_valid][:MAX_PAIRS], random_rows[is_valid][:MAX_PAIRS]


def _sample_neighbors(
    subset: Subset, rows: np.ndarray, rng: np.random.Generator, num_pairs: int
) -> tuple[np.ndarray, np.ndarray]:
    """Rows of random words and of a context word of each; pairs that cross a text boundary are dropped."""
    positions = rng.integers(subset.num_tokens, size=num_pairs)
    offsets = rng.integers(1, WINDOW + 1, size=num_pairs) * rng.choice([-1, 1], size=num_pairs)
    units = np.searchsorted(subset.token_ends, positions, side="right")
    ends = subset.token_ends[units]
    starts = ends - (subset.spans[units, 1] - subset.spans[units, 0])
    is_within_text = (positions + offsets >= starts) & (positions + offsets < ends)
    corpus_positions = (subset.spans[units, 1] - (ends - positions))[is_within_text]  # positions in the corpus
    words, contexts = (rows[subset.corpus.ids[corpus_positions + offset]] for offset in (0, offsets[is_within_text]))
    return words, contexts


def _keep_probs(words: np.ndarray, num_rows: int) -> np.ndarray:
    """Subsampling probability of each row, from its sampled frequency."""
    frequencies = np.bincount(words[words >= 0], minlength=num_rows) / max(1, len(words))
    return np.sqrt(SUBSAMPLE_THRESHOLD / np.maximum(frequencies, SUBSAMPLE_THRESHOLD)) if num_rows else np.zeros(1)
