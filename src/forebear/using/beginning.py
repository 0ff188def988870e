"""Where training begins if not from nothing: the weights of another run, perhaps with words added to its vocabulary."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from forebear.errors import BadInput, several
from forebear.milestones.milestone import Milestone
from forebear.text.choosing import Learning, tokenizer_for
from forebear.text.extending import extended
from forebear.text.segmentation import Segmenter
from forebear.text.sides import Sides
from forebear.text.tokenizer import Tokenizer
from forebear.training.corpora import EVERY_WORD, TextSource, is_corpus
from forebear.training.folder import RunFolder

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

DECIDING = ("heads", "activation", "epsilon")  # they change what weights mean, but not their shapes
DECIDING += ("reversed", "both_ways", "similarity")  # of recurrent translators
DECIDING += ("architecture", "output", "subwords", "phrases", "width")  # of word vectors
SPLIT = "punctuation"
SCORES = ("heads.next.softmax.scores.weight", "heads.next.softmax.scores.bias")  # where they are not those of the table
TABLES = ("encoder.embedding.token.weight", "heads.token.bias")  # tensors with an entry for each token


@dataclass(frozen=True)
class Beginning:
    """A run to begin with, by its folder, and the weights it had when this was planned; words to add, if any."""

    run: str
    weights: str  # sha256
    words: tuple[str, ...] = ()
    words_file: str | None = None  # where they were read; None: in the text to learn from

    @classmethod
    def of(cls, run: str, add_words: str | None = None) -> Beginning:
        """`add_words` is a file with a word a line."""
        folder = RunFolder.open(run)
        folder.may_learn()
        if folder.milestone.learning == "counting":
            raise BadInput("counts: there is nothing to go on from", file=run, remedy="count all text at once")
        if folder.milestone.output == "given":
            what = "was imported with one table of vectors; the other, by which words are predicted, is in no such file"
            remedy = f"train anew, without --from; or use it as it is: forebear adapt {run} FILE, neighbours, embed"
            raise BadInput(f"{what}, and without it there is no learning on", file=run, remedy=remedy)
        if "weights" not in folder.facts:
            remedy = f"finish it first: forebear pretrain --resume {run}"
            raise BadInput("is not finished: there are no weights to begin with", file=run, remedy=remedy)
        if folder.milestone.learns_from == "pairs" and add_words is not None:
            what = "translates: words cannot be added to one of its sides"
            raise BadInput(what, file=run, remedy="leave out --add-words; bytepair cuts any word into pieces it knows")
        words = () if add_words is None else Segmenter.from_file(add_words).dictionary
        file = None if add_words is None else os.path.abspath(add_words)
        return cls(str(folder.path.absolute()), folder.facts["weights"]["sha256"], words, file)

    def grown(self, source: TextSource, least_count: int, held_out: float) -> Beginning:
        """With the words that its vocabulary lacks and a text has so often."""
        own = self.folder.tokenizer
        if own.kind != "words" or is_corpus(source):
            return self
        told = own.describe()
        learning = Learning(
            EVERY_WORD, least_count, normalise=told.get("normalise", ()), split=told.get("split", SPLIT)
        )
        segmenter = source.segmenter() or own.segmenter
        found = tokenizer_for("words", source.paths, source.reading, learning, segmenter, held_out=held_out)
        known = set(own.tokens())
        new = (token for number, token in enumerate(found.tokens()) if number not in found.specials)
        return replace(self, words=tuple(token for token in new if token not in known))

    @classmethod
    def from_json(cls, told: Mapping[str, Any] | None) -> Beginning | None:
        return None if told is None else cls(**{**told, "words": tuple(told["words"])})

    @cached_property
    def folder(self) -> RunFolder:
        folder = RunFolder.open(self.run)
        if folder.facts["weights"]["sha256"] != self.weights:
            what = "has other weights than when this training was planned"
            raise BadInput(what, file=self.run, remedy="put the old run back, or plan anew with the one that is there")
        return folder

    @cached_property
    def _extended(self) -> tuple[Tokenizer, dict[str, list[int]]]:
        try:
            found = self.words_file is None  # in a text, where words are cut as usual
            return extended(self.folder.tokenizer, self.words, found=found, segmenter=Segmenter() if found else None)
        except BadInput as error:
            error.file = self.words_file
            raise

    @property
    def tokenizer(self) -> Tokenizer:
        return self._extended[0]

    @property
    def tokenizers(self) -> Tokenizer | Sides:
        """Its tokenizer; both, of what translates."""
        return self.tokenizer if self.folder.milestone.learns_from == "text" else self.folder.sides

    def tensors(self, milestone: Milestone, tokenizer: Tokenizer | Sides) -> tuple[dict[str, Any], list[str]]:
        """The values that the run gives to a network of this milestone, and what is to be said of them."""
        if tokenizer.digest != self.tokenizers.digest:
            what = "the text was cut by another tokenizer than that of the run to begin with"
            raise BadInput(what, file=self.run, remedy="give the text itself instead of a prepared corpus")
        if milestone.learning == "sweeping":
            return self._arrays(milestone)
        from safetensors.torch import load_file

        file, notes = self.folder.weights()
        given, wanted = load_file(file), dict(milestone.network(tokenizer).named_parameters())
        notes += self._grown(given)
        lacking, extra = sorted(wanted.keys() - given.keys()), sorted(given.keys() - wanted.keys())
        faults = self._changed(milestone)
        faults += [
            f"{name} has the shape {tuple(given[name].shape)}, not {tuple(wanted[name].shape)}"
            for name in sorted(given.keys() & wanted.keys())
            if given[name].shape != wanted[name].shape
        ]
        faults += [f"{name} is missing" for name in lacking if not name.startswith("heads.")]
        faults += [f"{name} has no place" for name in extra if not name.startswith("heads.")]
        if faults:
            remedy = "leave out fields that change its shape, such as --width, --depth or --context"
            raise BadInput(f"its weights do not fit: {several(faults)}", file=self.run, remedy=remedy)
        if fresh := sorted({name.split(".")[1] for name in lacking}):
            notes.append(f"it had no head {', '.join(fresh)}: that begins from nothing")
        if left := sorted({name.split(".")[1] for name in extra}):
            notes.append(f"its head {', '.join(left)} is not used here, and left out")
        return {name: tensor.clone() for name, tensor in given.items() if name in wanted}, notes

    def _arrays(self, milestone: Milestone) -> tuple[dict[str, np.ndarray], list[str]]:
        """Of tables of words: the network itself finds a place for them, and begins new words."""
        from safetensors.numpy import load_file

        faults = self._changed(milestone)
        if faults:
            raise BadInput(
                f"its vectors mean something else: {several(faults)}", file=self.run, remedy="leave that out"
            )
        file, notes = self.folder.weights()
        if added := list(self._extended[1]):
            shown = ", ".join(added[:5]) + (" …" if len(added) > 5 else "")
            notes.append(f"{len(added):,} new words {milestone.new_words} ({shown})")
        return load_file(file), notes

    def _changed(self, milestone: Milestone) -> list[str]:
        """Fields with which the same weights would be another network."""
        values = {
            name: (getattr(self.folder.milestone, name, None), getattr(milestone, name, None)) for name in DECIDING
        }
        return [f"{name} was {was}, not {now}" for name, (was, now) in values.items() if was != now]

    def _grown(self, given: dict[str, Tensor]) -> list[str]:
        """Rows for added words: the mean of the rows of the pieces they were cut into, or of all where they were not
        known."""
        import torch

        if not self.words:
            return []
        _, new = self._extended
        unknown = self.folder.tokenizer.unknown
        known = {word: [i for i in pieces if i != unknown] for word, pieces in new.items()}
        grouped = _rarest(given)  # whose rows are not those of the pieces
        for name in (*TABLES, *(grouped or SCORES)):
            if name in given and new:
                table, alike = given[name].float(), name not in grouped
                rows = [table[pieces].mean(0) if pieces and alike else table.mean(0) for pieces in known.values()]
                given[name] = torch.cat((table, torch.stack(rows)))
        several_words = ", ".join(list(new)[:5]) + (" …" if len(new) > 5 else "")
        unseen = sum(not pieces for pieces in known.values())
        told = f"{len(new):,} of {len(self.words):,} words were added to the vocabulary ({several_words})"
        return [f"{told}; their vectors begin as the mean of their pieces', or of all ({unseen:,} had been unknown)"]


def _rarest(given: Mapping[str, Tensor]) -> list[str]:
    """The names of the scores of the rarest group of words, where words are in groups: added words belong to it."""
    groups = {
        int(found[1]): found[0] for name in given if (found := re.match(r"heads\.next\.softmax\.groups\.(\d+)", name))
    }
    return [f"{groups[max(groups)]}.scores.{part}" for part in ("weight", "bias")] if groups else []


def begun(run: str | os.PathLike[str] | None, add_words: str | os.PathLike[str] | None) -> Beginning | None:
    """What to begin with, as it is told on the command line or in Python."""
    if run is None and add_words is not None:
        raise BadInput("words are added to the vocabulary of a run", remedy="say which: --from RUN (from_run=)")
    return None if run is None else Beginning.of(os.fspath(run), None if add_words is None else os.fspath(add_words))
