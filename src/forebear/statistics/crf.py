"""A linear-chain conditional random field over features of words: the labels of a sentence judged together.

The score of a labelling adds up along the sentence: its start, for each word what its features weigh for its label, the
move from each label to the next, its end. Its probability is e^score over the sum of all labellings'. `networks.crf`
and `tasks.chains` have the same definition, with other scores of words. Learned by L-BFGS from all sentences at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from forebear.errors import BadInput, ForebearError
from forebear.kernels import crf as kernels
from forebear.statistics.crf_features import NONE, Index, Written, loaded
from forebear.statistics.crf_objective import Pairs, Problem, as_they_come, unfolded
from forebear.statistics.crf_templates import templates_of, usual
from forebear.statistics.linear import Share

Legal = tuple[np.ndarray, np.ndarray, np.ndarray]
AGAIN = "train it again"
ALONE = 0.98  # of the words have one character, where characters are labelled
NOTHING = -1  # asks for nothing


@dataclass(eq=False)
class CrfModel:
    """What was learned, and how features are made.

    written    how words are written
    legal      (K, K), (K,), (K,) which labels may follow which, begin and end
    templates  what is looked at; "": what suits words, or characters
    min_count  how often a feature must occur
    l1 l2      what Σ |weight| and Σ weight² count beside the cost
    """

    written: Written
    legal: Legal
    templates: str = ""
    min_count: int = 1
    l1: float = 0.0
    l2: float = 1.0
    index: Index | None = None
    offsets: np.ndarray = field(default_factory=lambda: np.zeros(1, np.int64))
    labels: np.ndarray = field(default_factory=lambda: np.empty(0, np.uint16))
    weights: np.ndarray = field(default_factory=lambda: np.empty(0))
    moves: Legal | None = None
    numbers: np.ndarray | None = None  # of the index's features while they are learned

    kind = "tag"
    heads = ("tag",)

    @property
    def answers(self) -> int:
        return len(self.legal[1])

    @property
    def parameter_count(self) -> int:
        """Weights that are not 0, and those of moves, starts and ends."""
        return int(np.count_nonzero(self.weights)) + sum(one.size for one in self._settled()[1])

    # -- learning

    def problem(self, inputs: Mapping[str, np.ndarray], right: np.ndarray, threads: int = 1) -> Problem:
        """The features of these sentences and what is to be learned from them; words that ask for nothing are no part
        of their chain, but their neighbours see them."""
        tokens, lengths = _rows(inputs)
        asked = right != NOTHING
        if not asked.any():
            raise BadInput("no word has a tag", remedy="give words with their tags")
        index, features = Index.learned(
            templates_of(self.templates or self._usual(tokens)), self.written, tokens, lengths, self.min_count
        )
        if not index.size:
            raise BadInput(f"no feature occurs {self.min_count} times", remedy="give more examples, or --min-count 1")
        row = np.repeat(np.arange(len(lengths)), lengths)
        kept = np.bincount(row[asked], minlength=len(lengths)).astype(np.int64)
        features, right = np.ascontiguousarray(features[asked]), right[asked].astype(np.int64)
        self.numbers = as_they_come(features, index.size)
        features = np.where(features == NONE, NONE, self.numbers[features])
        pairs = Pairs.seen(features, right, index.size, self.answers)
        self.index, self.offsets, self.labels = index, pairs.offsets, pairs.labels
        return Problem(features, kept, right, pairs, self.legal, self.l2, threads)

    def take(self, point: np.ndarray) -> None:
        """What was learned so far, in the form of its problem's points."""
        self.weights = point[: len(self.labels)]
        self.moves = unfolded(point[len(self.labels) :], self.answers)

    def _usual(self, tokens: np.ndarray) -> str:
        table, rows = self.written.rows(tokens)
        of_two = table[rows, 3]  # prefix2, which a single character does not have
        return usual(characters=bool((of_two == NONE).mean() >= ALONE))

    # -- what it says

    def logits(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """tag (T, K): what the features of each word weigh for each label; `moves` says the rest."""
        index, _ = self._settled()
        tokens, lengths = _rows(inputs)
        features = self._numbered(index.of(self.written, tokens, lengths))
        scores = np.empty((len(tokens), kernels.padded(self.answers)))
        kernels.scored(features, self.offsets, self.labels, self.weights, 0, len(tokens), scores)
        return {"tag": scores[:, : self.answers]}

    def weights_of(
        self, inputs: Mapping[str, np.ndarray], number: int = 0, *, head: str = "", answer: int | None = None
    ) -> list[Share]:
        """Which features add how much to the score of a label, above what they add to all labels, for the word of this
        number; the weightiest first."""
        index, _ = self._settled()
        tokens, lengths = _rows(inputs)
        features = index.of(self.written, tokens, lengths)[number]
        shares = []
        for feature in features[features != NONE].tolist():
            number = feature if self.numbers is None else int(self.numbers[feature])
            here = slice(self.offsets[number], self.offsets[number + 1])
            each = np.zeros(kernels.padded(self.answers))
            each[self.labels[here]] = self.weights[here]
            each = each[: self.answers]
            which = int(np.argmax(each)) if answer is None else answer
            if value := float(each[which] - each.mean()):
                template, parts = index.feature(feature, self.written)
                shown = "+".join(text or "outside" for _, text in parts)
                shares.append(Share((), f"{template} = {shown}", value, tuple(place for place, _ in parts)))
        return sorted(shares, key=lambda share: (-abs(share.value), share.where))

    def _numbered(self, features: np.ndarray) -> np.ndarray:
        return features if self.numbers is None else np.where(features == NONE, NONE, self.numbers[features])

    def _settled(self) -> tuple[Index, Legal]:
        if self.index is None or self.moves is None:
            raise ForebearError("this chain of labels has learned nothing yet", remedy="train it, or load what was")
        return self.index, self.moves

    # -- its state

    def arrays(self) -> dict[str, np.ndarray]:
        """The whole state, without weights that are 0 and features that have no others."""
        index, moves = self._settled()
        numbers = np.arange(index.size) if self.numbers is None else self.numbers
        sizes = np.diff(self.offsets)[numbers]
        place = np.repeat(self.offsets[numbers] - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum())
        weights, labels = self.weights[place], self.labels[place]  # in the order of the index
        kept = weights != 0
        counts = np.bincount(np.repeat(np.arange(index.size), sizes)[kept], minlength=index.size)
        there = counts > 0
        keys = np.split(there, index.firsts[1:-1])
        small = Index(index.templates, tuple(one[own] for one, own in zip(index.keys, keys, strict=True)))
        between, start, end = (one.astype(np.float32) for one in moves)
        return small.arrays() | {
            "offsets": np.concatenate(([0], np.cumsum(counts[there]))).astype(np.int64),
            "labels": labels[kept],
            "weights": weights[kept].astype(np.float32),
            "moves": between,
            "start": start,
            "end": end,
        }

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Takes such a state; what is missing or misshapen is refused by its name."""
        count = self.answers
        shapes: dict[str, Any] = {"moves": (count, count), "start": (count,), "end": (count,)}
        wanted = {"templates", "keys", "firsts", "offsets", "labels", "weights", *shapes}
        for what, odd in (("lacks", wanted - set(arrays)), ("has, but should not,", set(arrays) - wanted)):
            if odd:
                raise ForebearError(f"the state of a chain of labels {what} {sorted(odd)}", remedy=AGAIN)
        templates = templates_of(arrays["templates"].tobytes().decode("utf-8", "replace"))
        index, offsets = loaded(dict(arrays), templates), arrays["offsets"]
        shapes |= {"weights": (len(arrays["labels"]),)}
        for name, shape in shapes.items():
            array = arrays[name]
            if array.dtype != np.float32 or array.shape != shape or not np.isfinite(array).all():
                what = f"the array {name!r} of the chain of labels holds {array.dtype} {list(array.shape)}"
                raise ForebearError(f"{what} instead of finite float32 {list(shape)}", remedy=AGAIN)
        labels = arrays["labels"]
        orderly = offsets.shape == (index.size + 1,) and offsets[0] == 0 and (np.diff(offsets) >= 0).all()
        if not orderly or offsets[-1] != len(labels) or (len(labels) and not 0 <= labels.min() <= labels.max() < count):
            raise ForebearError("the weights of this chain of labels are damaged", remedy=AGAIN)
        self.index, self.offsets, self.labels = index, offsets.astype(np.int64), labels.astype(np.uint16)
        self.weights = arrays["weights"].astype(np.float64)
        between, start, end = (arrays[name].astype(np.float64) for name in ("moves", "start", "end"))
        self.moves, self.numbers = (between, start, end), None


def _rows(inputs: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    tokens, lengths = np.asarray(inputs["tokens"]), np.asarray(inputs["lengths"], np.int64)
    if lengths.sum() != len(tokens) or (lengths < 0).any():
        raise ForebearError(f"rows of {int(lengths.sum()):,} words in all, but there are {len(tokens):,}")
    return tokens, lengths
