"""What word2vec learns of a text: which words belong together, how often each occurs, and a vector for each."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from forebear.errors import ForebearError
from forebear.objectives.batch import Batch
from forebear.text.portion import Portion
from forebear.vectors.phrases import Phrases
from forebear.vectors.table import WordTable
from forebear.vectors.word2vec import Word2vecModel

SHOWN = 5  # phrases that are named
Make = Callable[[Sequence[str]], Word2vecModel]


class WordsAndPhrases:
    """Joins the phrases of every batch and gives the rest to a model of ids.

    make    the model for a vocabulary, which is known when the phrases are
    tokens  by id
    never   ids that are no words
    passes  how often words that belong together are joined; 0: never
    least   how often words must stand together to be joined
    """

    heads = ("around",)
    remembered_count = 0
    descent = "each pair moves its rows at once"

    def __init__(self, make: Make, *, tokens: Sequence[str], never: Iterable[int], passes: int, least: int = 1) -> None:
        self._make, self._tokens, self._passes, self._least = make, tokens, passes, least
        self._never = np.zeros(len(tokens) + 1, bool)  # one more, which stands for all phrases
        self._never[list(never)] = True
        self.phrases = Phrases.none(len(tokens))
        self.model = make(tokens)
        self.notes: list[str] = []

    @property
    def width(self) -> int:
        return self.model.width

    @property
    def parameter_count(self) -> int:
        return self.model.parameter_count

    @property
    def loss(self) -> str:
        if self.model.output == "tree":
            return "nats for the way to a word in the tree"
        return "nats for telling a word from those drawn by chance, and those from it"

    @property
    def nothing(self) -> float:
        """What vectors lose that know nothing: a word is told by even chances from each that was drawn, or at each turn
        of its path."""
        return self.model.told * math.log(2)

    def _joins(self, phrases: Phrases) -> None:
        """From now on these are joined; the model is made anew where that changes the vocabulary."""
        if phrases.size != self.phrases.size:
            self.model = self._make([*self._tokens, *phrases.names(self._tokens)])
        self.phrases = phrases

    # -- learning

    def meet(self, source: Portion, given: Mapping[str, np.ndarray] | None = None) -> None:
        """Finds the phrases of a text and counts its words; those of an earlier text are `given` with its vectors."""
        phrases = Phrases.none(len(self._tokens)) if given is None else self._given_phrases(given)
        if given is None:
            for _ in range(self._passes):
                phrases = phrases.learned(source, self._never, self._least)
        self._joins(phrases)
        counts = phrases.counted(source)
        if given is not None:
            counts[self._rows_of(given)] += given["counts"]
        self.model.meet(counts)
        if self._passes:
            self.notes.append(self._told_of_phrases())

    def _told_of_phrases(self) -> str:
        counts = self._phrase_counts
        names, own = self.phrases.names(self._tokens), int(np.count_nonzero(counts >= self._fewest))
        often = np.argsort(-counts, kind="stable")[: min(own, SHOWN)]
        shown = f" ({', '.join(names[phrase] for phrase in often.tolist())} …)" if own else ""
        parts = f"; {len(names) - own:,} more stand in others, or too seldom by themselves" if own < len(names) else ""
        return f"{own:,} phrases are words of their own{shown}{parts}"

    @property
    def _fewest(self) -> int:
        """How often what has a vector was seen: joining leaves some words, and phrases, less often by themselves."""
        return self._least if self._passes else 1

    @property
    def _phrase_counts(self) -> np.ndarray:
        """How often each phrase occurs by itself; those that never do have no vector."""
        return self.model.counts[len(self._tokens) :]

    def begin(self, seed: int) -> None:
        self.model.begin(seed)

    def go_on_from(self, given: Mapping[str, np.ndarray]) -> None:
        """Takes the vectors of a run whose words are the first of ours; new words keep the values they began with."""
        here, rows = self.model.arrays(), self._rows_of(given)
        parts = len(given["inputs"]) - len(rows)  # rows of letter groups stand behind all words
        if given["inputs"].shape[1] != self.width or parts != len(here["inputs"]) - self.phrases.size:
            raise ForebearError(
                "the vectors to go on from have another shape", remedy="leave out --width and --subwords"
            )
        here["inputs"][rows] = given["inputs"][: len(rows)]
        if parts:
            here["inputs"][-parts:] = given["inputs"][len(rows) :]
        if self.model.output == "negatives":
            here["outputs"][rows] = given["outputs"]
        elif np.array_equal(here["counts"], given["counts"]):
            here["outputs"][:] = given["outputs"]
        else:
            self.notes.append("with other counts the tree is another one: what its turns knew begins from nothing")
        self.model.load(here)

    def _given_phrases(self, given: Mapping[str, np.ndarray]) -> Phrases:
        """The phrases of an earlier run, whose ids began behind its own, perhaps smaller, vocabulary."""
        if "phrases" not in given:
            return Phrases.none(len(self._tokens))
        own = len(given["counts"]) - len(given["phrases"])
        pairs = np.where(given["phrases"] < own, given["phrases"], given["phrases"] + len(self._tokens) - own)
        return Phrases(len(self._tokens), pairs, tuple(given["passes"].tolist()))

    def _rows_of(self, given: Mapping[str, np.ndarray]) -> np.ndarray:
        """Where the words and phrases of an earlier run are here."""
        joined = len(given["phrases"]) if "phrases" in given else 0
        own = len(given["counts"]) - joined
        return np.concatenate((np.arange(own), len(self._tokens) + np.arange(joined)))

    def sweep(
        self, batch: Batch, *, rate: float, moment: tuple[int, int], threads: int = 1, deterministic: bool = False
    ) -> float | None:
        """Learns from a batch; the mean loss before, None where no word has another beside it."""
        tokens, lengths = self._joined(batch)
        loss = self.model.sweep(tokens, lengths, rate=rate, moment=moment, threads=threads, deterministic=deterministic)
        return None if loss != loss and np.isfinite(self.model.matrix).all() else loss

    def examine(self, batch: Batch) -> tuple[float, int]:
        return self.model.examine(*self._joined(batch))

    def windows(self, batch: Batch, *, rate: float, moment: tuple[int, int], many: int) -> list[dict[str, Any]]:
        """The first windows of a batch, in words, as one thread draws them."""
        from forebear.vectors.drawn_windows import drawn_windows

        names = [*self._tokens, *self.phrases.names(self._tokens)]
        tokens, lengths = self._joined(batch)
        found = drawn_windows(tokens, lengths, *self.model.drawing, rate=rate, moment=moment, many=many)
        return [
            {
                "word": names[one.word],
                "around": [names[i] for i in one.around],
                "drawn": [names[i] for i in one.drawn],
                "turns": one.turns,
            }
            for one in found
        ]

    def _joined(self, batch: Batch) -> tuple[np.ndarray, np.ndarray]:
        return self.phrases.joined(batch.inputs["tokens"], batch.inputs["lengths"])

    # -- its state

    def arrays(self) -> dict[str, np.ndarray]:
        if not self._passes:
            return self.model.arrays()
        passes = np.array(self.phrases.passes, np.int64)
        return self.model.arrays() | {"phrases": self.phrases.pairs, "passes": passes}

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        own = dict(arrays)
        if self._passes:
            if "phrases" not in own or "passes" not in own:
                raise ForebearError("the state of word vectors with phrases lacks phrases or passes")
            pairs, passes = own.pop("phrases"), tuple(own.pop("passes").tolist())
            self._joins(Phrases(len(self._tokens), pairs, passes))
        self.model.load(own)

    def remembered(self) -> dict[str, np.ndarray]:
        """Nothing beside the vectors."""
        return {}

    # -- what it says

    @property
    def matrix(self) -> np.ndarray:
        """(V, width) by the ids of tokens; phrases are not among them."""
        return self.model.matrix[: len(self._tokens)]

    def table(self, tokens: Sequence[str]) -> WordTable:
        """Of every word and phrase that was seen."""
        names = [*tokens, *self.phrases.names(tokens)]
        never = self._never[np.minimum(np.arange(len(names)), len(tokens))]
        rows = np.flatnonzero((self.model.counts >= self._fewest) & ~never)
        rows = rows[np.argsort(-self.model.counts[rows], kind="stable")]
        compose = None if self.model.subwords is None else self.model.composed
        return WordTable(
            [names[row] for row in rows.tolist()], self.model.matrix[rows], self.model.counts[rows], compose
        )

    def describe(self) -> dict[str, Any]:
        return self.model.describe() | {"phrases": int(np.count_nonzero(self._phrase_counts >= self._fewest))}
