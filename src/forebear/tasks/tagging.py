"""What is each word? A part of a name, or a part of speech: a tag for every word, however long the text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, chain, pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from forebear.data.labeled import tag_schemes as iobes
from forebear.data.labeled.examples import TaggedExample
from forebear.data.labeled.split import entity_kind
from forebear.data.segmentation import Segmenter, has_han
from forebear.errors import InputError
from forebear.numerics import softmax
from forebear.objectives.batch import IGNORE_INDEX
from forebear.objectives.input_format import InputFormat
from forebear.tasks.metrics import entity_f1, tagging_accuracy
from forebear.tasks.task import HeadSpec, Judgment, Logits, Task
from forebear.tasks.task_batches import ExampleRow, ExampleRows

if TYPE_CHECKING:
    from torch import nn

    from forebear.data.tokenizers.tokenizer import Tokenizer

# Chains of labels, each judged as a whole, as a CRF does: the best one, and how probable each label is at each place.
#
# The arithmetic of `networks.crf` without torch: learned moves are given as numbers. All chains are gone through
# together, word by word; the longest come first, so that those that still go on are the first few.
#
# K labels · N words of all chains, one chain behind the other · scores add up: start, words, moves (from, to), end


CHAINS_FORBIDDEN, WORST = -1e12, -1e6  # what a forbidden move costs, and the least that a word may say of a label
MUCH = 1 << 24  # moves from label to label, of all words; below, loading compiled loops takes longer
LEAST = 1e-300  # what is rarer counts as this rare, so that its logarithm is a number


def chain_viterbi(
    scores: np.ndarray, lengths: Sequence[int], moves: np.ndarray, start: np.ndarray, end: np.ndarray
) -> np.ndarray:
    """(N,) the labels whose scores (N, K), moves (K, K), start and end add up to most: Viterbi's way."""
    if scores.size * len(start) > MUCH:
        from forebear.kernels import crf

        return crf.viterbi(scores, np.asarray(lengths, np.int64), moves, start, end)
    times, came_from, found = _times(lengths), np.zeros(scores.shape, np.int64), np.zeros(len(scores), np.int64)
    if not times:
        return found
    total = scores[times[0]] + start
    for here in times[1:]:
        through = total[: len(here), :, None] + moves
        came_from[here] = through.argmax(1)
        total[: len(here)] = through.max(1) + scores[here]
    label = (total + end).argmax(1)
    for here in reversed(times):
        found[here] = label[: len(here)]
        label[: len(here)] = came_from[here, label[: len(here)]]
    return found


def constrained_viterbi(scores: np.ndarray, lengths: Sequence[int], *allowed: np.ndarray) -> np.ndarray:
    """The same where moves, starts and ends are allowed or not; if no chain is, one with as few forbidden as can be."""
    return chain_viterbi(np.maximum(scores, WORST), lengths, *(np.where(one, 0.0, CHAINS_FORBIDDEN) for one in allowed))


def chain_marginals(
    scores: np.ndarray, lengths: Sequence[int], moves: np.ndarray, start: np.ndarray, end: np.ndarray
) -> np.ndarray:
    """(N, K) P of each label at each place, over all chains: forwards and backwards."""
    times, weights = _times(lengths), np.exp(moves.astype(np.float64))
    scores, found = scores.astype(np.float64), np.zeros(scores.shape)
    if not times:
        return found
    before = _level(scores[times[0]] + start)
    found[times[0]] = before
    for here in times[1:]:
        before = _level(_moved(before[: len(here)], weights) + scores[here])
        found[here] = before
    after = np.tile(end.astype(np.float64), (len(times[0]), 1))
    for here in reversed(times):
        found[here] += after[: len(here)]
        after[: len(here)] = _moved(_level(after[: len(here)] + scores[here]), weights.T)
    p = np.exp(_level(found))
    return p / p.sum(1, keepdims=True)


def _times(lengths: Sequence[int]) -> list[np.ndarray]:
    """For each moment the numbers of the words that stand there, that of the longest chain first."""
    sizes = np.asarray(lengths, np.int64)
    begins, order = np.cumsum(sizes) - sizes, np.argsort(-sizes, kind="stable")
    alive = len(sizes) - np.searchsorted(np.sort(sizes), np.arange(sizes.max(initial=0)), side="right")
    return [begins[order[:count]] + time for time, count in enumerate(alive.tolist())]


def _level(scores: np.ndarray) -> np.ndarray:
    """The same with 0 as the largest of each row."""
    return scores - scores.max(1, keepdims=True)


def _moved(scores: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(B, K) ln Σ_j e^score_j weight_jk."""
    return np.log(np.maximum(np.exp(scores) @ weights, LEAST))


FORBIDDEN_SCORE = -1e4  # what a move costs that IOBES does not allow
TOGETHER = 1024  # sentences whose chains are judged at once
MARGIN = 8  # a word is asked about where at least an eighth of a row stands before and behind it, in a long text
LONGER = 0.1  # of the Chinese words have several characters, where words were tagged and not characters
SHORT = 4  # characters of what stands between spaces in Chinese, on average, where these are words already
_WORDS = re.compile(r"\d++(?:[.,]\d++)+|[^\W_]++(?:['’][^\W_]++)*+|\S")


@dataclass(frozen=True)
class EntityPrediction:
    """A name: its words from `first` to before `last`, what kind it is, and how sure that is."""

    text: str
    label: str
    start: int
    end: int
    probability: float

    def to_dict(self) -> dict[str, Any]:
        places = {"first": self.start, "last": self.end}
        return {"text": self.text, "kind": self.label, **places, "probability": round(self.probability, 6)}


@dataclass(frozen=True)
class TagPrediction:
    """The words of a text, the tag of each, the names that they make up, and how probable each tag is for each word."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    entities: tuple[EntityPrediction, ...]
    labels: tuple[str, ...]
    probabilities: np.ndarray  # (words, labels)
    is_plain: bool = False  # tags stand for themselves, and make up no names
    scheme: str | None = "IOBES"  # in which tags are written; None: labels are somebody else's

    def to_dict(self) -> dict[str, Any]:
        return {
            "words": list(self.words),
            "scheme": self.scheme,
            "tags": list(self.tags),
            "entities": [entity.to_dict() for entity in self.entities],
            "table": [
                {label: round(p, 6) for label, p in zip(self.labels, row, strict=True)}
                for row in self.probabilities.tolist()
            ],
        }


@dataclass(frozen=True)
class SequenceTagging(Task):
    """tags        O, and B, I, E, S for each kind of name; of the scheme "plain" the tags as they are written
    characters  words are single characters, as Chinese is mostly tagged; else they are words
    scheme      in which the examples were written; "plain": each tag stands for itself, as parts of speech do
    crf         the tags of a sentence are judged together
    segmented   words of Chinese have several characters: a plain text is cut into such words first
    """

    verb: ClassVar[str] = "tag"

    tags: tuple[str, ...] = ("O",)
    characters: bool = False
    scheme: str = "IOBES"
    crf: bool = False
    segmented: bool = False

    @classmethod
    def from_examples(cls, examples: Sequence[TaggedExample], **options: Any) -> SequenceTagging:
        given = [example.tags for example in examples if example.tags is not None]
        if not given:
            raise InputError("no sentence has tags", hint="give a file with a word and its tag a line")
        alone = all(len(word) == 1 for example in examples for word in example.words)
        options = {"characters": alone, "segmented": not alone and _has_long_words(examples), **options}
        if options.get("scheme") == iobes.PLAIN_SCHEME:
            return cls(**{"tags": tuple(sorted({*chain.from_iterable(given)})), **options})
        kinds = sorted({tag.partition("-")[2] for tags in given for tag in tags if tag != "O"})
        if not kinds:
            raise InputError("no word has a tag but O", hint="give sentences that hold something to find")
        marks = tuple(f"{part}-{kind}" for kind in kinds for part in "BIES")
        return cls(**{"tags": ("O", *marks), **options})

    @property
    def is_plain(self) -> bool:
        """Whether tags stand for themselves and make up no names."""
        return self.scheme == iobes.PLAIN_SCHEME

    @property
    def score(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride] - it depends on the scheme
        return "accuracy" if self.is_plain else "f1"

    @property
    def linear_kind(self) -> tuple[str, bool]:
        return "tag", False

    @property
    def num_answers(self) -> int:
        return len(self.tags)

    def split_words(self, text: str) -> tuple[str, ...]:
        """A plain text as the words that this task is about."""
        if self.characters:
            return tuple(character for character in text if not character.isspace())
        if self.segmented and has_han(text):
            return tuple(_cut(text))
        return tuple(_WORDS.findall(text)) if not has_han(text) else tuple(_mixed(text))

    def has_tag(self, tags: Iterable[str]) -> bool:
        """Whether all of them are tags that were learned, or tags of names that were, whatever their scheme."""
        if self.is_plain:
            return {*self.tags}.issuperset(tags)
        return {*map(entity_kind, self.tags)}.issuperset(map(entity_kind, tags))

    def encode(
        self, examples: Sequence[TaggedExample], tokenizer: Tokenizer, layout: InputFormat, *, learning: bool = False
    ) -> ExampleRows:
        spaced = tokenizer.kind == "bytepair"  # its pieces hold the space before a word
        texts = [text for example in examples for text in (_spaced(example.words) if spaced else example.words)]
        ids, counts = tokenizer.encode_many(texts)
        nothing = tokenizer.unk_id if tokenizer.unk_id is not None else (*layout.before, 0)[0]
        pieces = iter(np.split(ids, np.cumsum(counts)[:-1]))
        made: list[ExampleRow] = []
        for number, example in enumerate(examples):
            own = [next(pieces) for _ in example.words]
            own = [piece if len(piece) else np.array([nothing], np.int32) for piece in own]  # not even unknown
            made += self._rows(number, example, own, layout)
        return ExampleRows.from_rows(made, tells=layout.segments, grouped=False)

    def _rows(
        self, number: int, example: TaggedExample, pieces: list[np.ndarray], layout: InputFormat
    ) -> Iterator[ExampleRow]:
        room = layout.max_text_tokens(1)
        pieces = [piece[:room] for piece in pieces]
        numbers = {tag: at for at, tag in enumerate(self.tags)}
        right = [numbers.get(tag, IGNORE_INDEX) for tag in example.tags or ()]
        for begin, end, asked in _windows([len(piece) for piece in pieces], room):
            text = np.concatenate(pieces[begin:end]) if begin < end else np.empty(0, np.int32)
            tokens, segments = layout.make_row(text)
            starts = len(layout.before) + np.cumsum([0, *map(len, pieces[begin : end - 1])])  # of the words in the row
            marks, target = (np.full(len(tokens), IGNORE_INDEX, np.int64) for _ in range(2))
            for word in asked:
                marks[starts[word - begin]] = word
                target[starts[word - begin]] = right[word] if right else IGNORE_INDEX
            yield ExampleRow(number, tokens, segments, {"tag": target}, marks)

    def build_heads(self, making: HeadSpec) -> dict[str, nn.Module]:
        from forebear.nn.crf import CRFLayer
        from forebear.nn.heads import TagHead

        crf = CRFLayer(*self.transitions) if self.crf else None
        return {
            "tag": TagHead(making.width, len(self.tags), crf=crf, mixture=making.make_mix(), dropout=making.dropout)
        }

    @cached_property
    def transitions(self) -> iobes.TagTransitions:
        """Which tags may follow which, begin and end."""
        return iobes.free_transitions(len(self.tags)) if self.is_plain else iobes.legal_transitions(self.tags)

    def predictions(self, examples: Sequence[TaggedExample], rows: ExampleRows, logits: Logits) -> list[TagPrediction]:
        lengths = [len(example.words) for example in examples]
        scores, made = np.zeros((sum(lengths), len(self.tags))), []
        begins = [0, *accumulate(lengths)]
        for number, begin in enumerate(begins[:-1]):
            for row in rows.row_range(number) if lengths[number] else ():
                marks = rows.row_answer_spans(row)
                scores[begin + marks[marks != IGNORE_INDEX]] = logits["tag"][row][marks != IGNORE_INDEX]
        for first in range(0, len(examples), TOGETHER):
            some = examples[first : first + TOGETHER]
            part = slice(begins[first], begins[first + len(some)])
            best, p = self._judged(scores[part], lengths[first : first + TOGETHER], logits)
            ends = [end - part.start for end in begins[first + 1 : first + len(some)]]
            parts = zip(some, np.split(best, ends), np.split(p, ends), strict=True)
            made += [self._told(example.words, *judged) for example, *judged in parts]
        return made

    def _judged(self, scores: np.ndarray, lengths: Sequence[int], logits: Logits) -> tuple[np.ndarray, np.ndarray]:
        """(N,) the label of each word, and (N, K) how probable each is."""
        if not self.crf:
            return constrained_viterbi(scores, lengths, *self.transitions), softmax(scores)
        moves = zip(self.transitions, logits["moves"], strict=True)
        moves = [np.where(may, learned, FORBIDDEN_SCORE) for may, learned in moves]
        return chain_viterbi(scores, lengths, *moves), chain_marginals(scores, lengths, *moves)

    def _told(self, words: tuple[str, ...], best: np.ndarray, p: np.ndarray) -> TagPrediction:
        tags = tuple(self.tags[one] for one in best)
        entities = []
        for first, last, kind in () if self.is_plain else iobes.entity_spans(tags):
            sure = float(np.exp(np.mean(np.log(np.maximum(p[range(first, last), best[first:last]], 1e-300)))))
            text = "".join(words[first:last] if self.characters else _spaced(words[first:last]))
            entities.append(EntityPrediction(text, kind, first, last, sure))
        return TagPrediction(words, tags, tuple(entities), self.tags, p, self.is_plain)

    def to_source_format(self, answer: TagPrediction) -> TagPrediction:
        """In the scheme of the examples, with the probabilities of those labels together that it writes alike."""
        if self.is_plain or not any(tag.startswith("E") for tag in self.tags):
            return replace(answer, scheme=self.scheme if self.is_plain else None)
        if self.scheme == "IOBES":
            return answer
        written = iobes.scheme_labels(self.tags, self.scheme)  # pyright: ignore[reportArgumentType] - a word in JSON
        labels = tuple(dict.fromkeys(written))
        together = np.zeros((len(answer.words), len(labels)))
        for number, label in enumerate(written):
            together[:, labels.index(label)] += answer.probabilities[:, number]
        tags = tuple(iobes.from_iobes(answer.tags, self.scheme))  # pyright: ignore[reportArgumentType]
        return replace(answer, tags=tags, labels=labels, probabilities=together, scheme=self.scheme)

    def judge(self, example: TaggedExample, answer: TagPrediction) -> Judgment:
        if self.is_plain:
            both = list(zip(example.words, example.tags or (), answer.tags, strict=False))
            wanted, said = (" ".join(f"{one[0]}/{one[at]}" for one in both if one[1] != one[2]) for at in (1, 2))
            return Judgment(wanted == said, wanted, said)
        wanted, said = (_named(example.words, tags) for tags in (example.tags or (), answer.tags))
        return Judgment(wanted == said, wanted, said)

    def evaluate(self, examples: Sequence[TaggedExample], answers: Sequence[TagPrediction]) -> dict[str, Any]:
        told = [(one.tags, answer.tags) for one, answer in zip(examples, answers, strict=True) if one.tags is not None]
        figure = tagging_accuracy if self.is_plain else entity_f1
        figures = figure([right for right, _ in told], [said for _, said in told])
        return figures | {"examples": len(told)}


def _named(words: Sequence[str], tags: Sequence[str]) -> str:
    """The names in a sentence, in words."""
    found = iobes.entity_spans(tags)
    return "; ".join(f"{''.join(_spaced(words[first:last]))} {kind}" for first, last, kind in found)


def _windows(sizes: Sequence[int], room: int) -> Iterator[tuple[int, int, range]]:
    """(first word, last word + 1, the words that are asked about) of each row; every word is asked once."""
    ends = np.cumsum([0, *sizes])
    count, margin, done = len(sizes), room // MARGIN, 0
    while True:
        begin = int(np.searchsorted(ends, ends[done] - margin)) if ends[-1] > room else 0
        begin = min(max(begin, 0), done)
        end = int(np.searchsorted(ends, ends[begin] + room, side="right")) - 1
        until = count
        if end < count:
            until = max(done + 1, int(np.searchsorted(ends, ends[end] - margin, side="right")) - 1)
        if until > end:  # a long word: the one before it is not seen
            begin, end = done, max(done + 1, int(np.searchsorted(ends, ends[done] + room, side="right")) - 1)
            until = min(until, end)
        yield begin, min(end, count), range(done, min(until, count))
        done = until
        if done >= count:
            return


def _spaced(words: Sequence[str]) -> Iterator[str]:
    """The words as they follow one another: with a space before those of spaced writing, but not before the first."""
    if words:
        yield words[0]
    for before, word in pairwise(words):
        yield word if has_han(before[-1:]) or has_han(word[:1]) else f" {word}"


def _has_long_words(examples: Sequence[TaggedExample]) -> bool:
    """Whether a good part of the Chinese words have several characters: then single ones are not what was tagged."""
    chinese = [word for example in examples for word in example.words if has_han(word)]
    return sum(len(word) > 1 for word in chinese) > LONGER * len(chinese)


def _cut(text: str) -> Iterator[str]:
    """Words of text that holds Chinese: those that spaces part already, as in 我 爱 北京, or those that are found."""
    parts = text.split()
    chinese = [part for part in parts if has_han(part)]
    if len(chinese) > 1 and sum(map(len, chinese)) <= SHORT * len(chinese):
        yield from parts
    else:
        yield from (word for word in Segmenter().split(text) if not word.isspace())


def _mixed(text: str) -> Iterator[str]:
    """Words of text that holds Chinese: its characters one by one, and others as words."""
    for word in _WORDS.findall(text):
        yield from word if has_han(word) else (word,)
