"""A run that was opened: its folder, its network, and what of it answers which question."""

from __future__ import annotations

import os
import threading
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from forebear.errors import BadInput
from forebear.text.tokenizer import Tokenizer
from forebear.training.adapted import loaded_for_task
from forebear.training.folder import RunFolder
from forebear.training.learners import loaded
from forebear.using.abilities import SAID, verbs

if TYPE_CHECKING:
    from forebear.networks.model import Model
    from forebear.networks.restorer import Restorer
    from forebear.networks.states import Encoder
    from forebear.tasks.task import Task
    from forebear.using.lexicon import Lexicon
    from forebear.using.predicting import Predictor, Translator
    from forebear.using.word_pooling import Pooled
    from forebear.vectors.table import WordTable

_LOADING = threading.RLock()  # cached_property has no lock from Python 3.12 on


class Opened:
    """A run folder, opened: its network is loaded when it is first asked something."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self.notes: list[str] = []

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> Self:
        return cls(RunFolder.open(folder))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.folder.path)!r}, {self.folder.facts['milestone']})"

    @property
    def name(self) -> str:
        return self.folder.path.name

    @property
    def facts(self) -> dict[str, Any]:
        """Everything run.json says."""
        return self.folder.facts

    @property
    def tokenizer(self) -> Tokenizer:
        return self.folder.tokenizer

    @cached_property
    def task(self) -> Task | None:
        """What it was adapted to, if it was."""
        return self.folder.task

    @cached_property
    def network(self) -> Any:
        with _LOADING:
            if (found := self.__dict__.get("network")) is not None:  # another thread was first
                return found
            network, notes = self._loaded()
            self.notes += [note for note in notes if note not in self.notes]
            return self.__dict__.setdefault("network", network)

    @property
    def model(self) -> Model:
        """The network of a run that has an encoder and heads: what counts, or is a table of words, has not."""
        return self.network

    @property
    def encoder(self) -> Encoder | None:
        """What turns inputs into states; None where the run counts, or is a table of words."""
        milestone = self.folder.milestone
        way = milestone.learning if self.task is None else milestone.learns_tasks_by
        return self.model.encoder if way == "descending" else None

    def _loaded(self) -> tuple[Any, list[str]]:
        milestone, small = self.folder.milestone, "quantised" in self.facts
        if milestone.learning == "counting" and self.task is None:
            from forebear.training.counted import opened

            return opened(self.folder)
        weights, notes = self.folder.weights()
        if self.task is not None:
            how = self.folder.adaptation
            network = loaded_for_task(milestone, self.tokenizer, self.task, how, weights, quantised=small)
        else:
            heads = self.facts.get("heads")
            network = loaded(milestone, self.folder.tokenizers, weights, heads, quantised=small)
        return network, notes

    @property
    def heads(self) -> tuple[str, ...]:
        return tuple(self.network.heads)

    @property
    def parameters(self) -> int:
        return self.network.parameter_count

    @cached_property
    def predictor(self) -> Predictor:
        """What answers score, next, generate and measure."""
        if "next" not in self.heads:
            raise BadInput("does not predict the next token", file=self.folder.path, remedy=self._able())
        if self.folder.milestone.learning == "counting":
            return self.network
        from forebear.networks.predictor import predictor_of

        return predictor_of(self.network)

    @cached_property
    def restorer(self) -> Restorer:
        """What answers fill, and in its way score and measure, where tokens were hidden."""
        if "token" not in self.heads:
            raise BadInput("does not find hidden tokens", file=self.folder.path, remedy=self._able())
        from forebear.networks.restorer import Restorer

        start, end, mask = (self.tokenizer.roles[role] for role in ("start", "end", "mask"))
        return Restorer(self.network, start=start, end=end, mask=mask)

    @cached_property
    def translator(self) -> Translator:
        """What answers translate, and measures how well."""
        if "translation" not in self.heads:
            raise BadInput("does not translate", file=self.folder.path, remedy=self._able())
        from forebear.networks.translator import translator_of

        return translator_of(self.network)

    @cached_property
    def words(self) -> WordTable:
        """A vector for each word it knows, where its tokens are words."""
        from forebear.using.words import table_of

        return table_of(self)

    @cached_property
    def lexicon(self) -> Lexicon:
        """Those words, to be asked which are near, alike and odd."""
        from forebear.using.words import lexicon_of

        return lexicon_of(self)

    @cached_property
    def pooled(self) -> Pooled:
        """Those words, of which vectors of texts are made."""
        from forebear.using.word_pooling import Pooled
        from forebear.using.words import cutting_of

        return Pooled(cutting_of(self))

    @property
    def scorer(self) -> Predictor | Restorer:
        """What says how probable the tokens of a text are: each after those before it, or each among all others."""
        return self.restorer if "token" in self.heads else self.predictor

    @property
    def verbs(self) -> tuple[str, ...]:
        """What it can be asked."""
        milestone = self.folder.milestone  # whatever the tokens of a table are, they are what it has vectors for
        words = milestone.learning == "sweeping" or (milestone.learns_from == "text" and self.tokenizer.kind == "words")
        return verbs(self.heads, encodes=milestone.learning != "counting", words=words)

    def ready_for(self, verb: str) -> None:
        """Loads it, and says what is wrong with it, or that it cannot be asked that."""
        if verb not in self.verbs:
            what = f"cannot be asked {SAID.get(verb, f'to {verb}')}"
            raise BadInput(what, file=self.folder.path, remedy=self._able())

    def _able(self) -> str:
        """A remedy: what it can be asked instead."""
        return f"it can be asked to: {', '.join(self.verbs)}"

    def parts_of(self, text: str) -> list[str]:
        """The texts that the run would learn this one as: its sentences, its lines, or itself."""
        from forebear.text.sentences import Mode, split_sentences

        if self.unit != "sentence":
            return [text]
        told = (self.facts.get("data") or {}).get("source")
        mode: Mode = "lines" if told is None else told["sentences"]  # n-grams from elsewhere are of lines
        return [part for part in split_sentences(text, mode) if part.strip()]

    @property
    def unit(self) -> str:
        """What the run takes for a text of its own: a document, or a sentence."""
        return self.folder.milestone.unit
