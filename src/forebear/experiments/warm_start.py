"""Where training begins if not from nothing: the weights of another run, perhaps with words added to its vocabulary."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from forebear.data.corpus.parallel import TokenizerPair
from forebear.data.segmentation import Segmenter
from forebear.data.source import MAX_VOCAB_SIZE, TextSource, TokenizerTrainingOptions, is_corpus, tokenizer_for
from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.data.tokenizers.train import extend_vocabulary, missing_words
from forebear.embeddings.word_table import WordVectors
from forebear.errors import InputError, join_faults
from forebear.inference.embed import TOKEN_TABLE_TENSOR
from forebear.inference.run import Run
from forebear.models.spec import ModelSpec
from forebear.training.run_folder import RunFolder

if TYPE_CHECKING:
    from torch import Tensor

DECIDING = ("heads", "activation", "epsilon")  # they change what weights mean, but not their shapes
DECIDING += ("reversed", "both_ways", "similarity")  # of recurrent translators
DECIDING += ("architecture", "output", "subwords", "phrases", "width")  # of word vectors
SPLIT = "punctuation"
SCORES = ("heads.next.softmax.scores.weight", "heads.next.softmax.scores.bias")  # where they are not those of the table
TABLES = ("encoder.embedding.token.weight", "heads.token.bias")  # tensors with an entry for each token


@dataclass(frozen=True)
class InitFrom:
    """A run to begin with, by its folder, and the weights it had when this was planned; words to add, if any."""

    run: str
    weights: str  # sha256
    words: tuple[str, ...] = ()
    words_file: str | None = None  # where they were read; None: in the text to learn from

    @classmethod
    def for_run(cls, run: str, add_words: str | None = None) -> InitFrom:
        """`add_words` is a file with a word a line."""
        folder = RunFolder.open(run)
        folder.require_trainable()
        if folder.spec.learning == "counting":
            raise InputError("counts: there is nothing to go on from", file=run, hint="count all text at once")
        if folder.spec.output == "given":
            what = "was imported with one table of vectors; the other, by which words are predicted, is in no such file"
            hint = f"train anew, without --from; or use it as it is: forebear adapt {run} FILE, neighbours, embed"
            raise InputError(f"{what}, and without it there is no learning on", file=run, hint=hint)
        if "weights" not in folder.metadata:
            hint = f"finish it first: forebear pretrain --resume {run}"
            raise InputError("is not finished: there are no weights to begin with", file=run, hint=hint)
        if folder.spec.learns_from == "pairs" and add_words is not None:
            what = "translates: words cannot be added to one of its sides"
            raise InputError(what, file=run, hint="leave out --add-words; bytepair cuts any word into pieces it knows")
        words = () if add_words is None else Segmenter.from_file(add_words).dictionary
        file = None if add_words is None else os.path.abspath(add_words)
        return cls(str(folder.path.absolute()), folder.metadata["weights"]["sha256"], words, file)

    def grown(self, source: TextSource, least_count: int, held_out: float) -> InitFrom:
        """With the words that its vocabulary lacks and a text has so often."""
        own = self.folder.tokenizer
        if own.kind != "words" or is_corpus(source):
            return self
        told = own.describe()
        learning = TokenizerTrainingOptions(
            MAX_VOCAB_SIZE, least_count, normalise=told.get("normalise", ()), split=told.get("split", SPLIT)
        )
        segmenter = source.segmenter() or own.segmenter
        found = tokenizer_for("words", source.paths, source.reading, learning, segmenter, held_out=held_out)
        known = set(own.vocabulary())
        new = (token for number, token in enumerate(found.vocabulary()) if number not in found.special_ids)
        return replace(self, words=tuple(token for token in new if token not in known))

    @classmethod
    def from_dict(cls, told: Mapping[str, Any] | None) -> InitFrom | None:
        return None if told is None else cls(**{**told, "words": tuple(told["words"])})

    @cached_property
    def folder(self) -> RunFolder:
        folder = RunFolder.open(self.run)
        if folder.metadata["weights"]["sha256"] != self.weights:
            what = "has other weights than when this training was planned"
            raise InputError(what, file=self.run, hint="put the old run back, or plan anew with the one that is there")
        return folder

    @cached_property
    def _extended(self) -> tuple[Tokenizer, dict[str, list[int]]]:
        try:
            found = self.words_file is None  # in a text, where words are cut as usual
            return extend_vocabulary(
                self.folder.tokenizer, self.words, found=found, segmenter=Segmenter() if found else None
            )
        except InputError as error:
            error.file = self.words_file
            raise

    @property
    def tokenizer(self) -> Tokenizer:
        return self._extended[0]

    @property
    def tokenizers(self) -> Tokenizer | TokenizerPair:
        """Its tokenizer; both, of what translates."""
        return self.tokenizer if self.folder.spec.learns_from == "text" else self.folder.tokenizer_pair

    def initial_tensors(
        self, milestone: ModelSpec, tokenizer: Tokenizer | TokenizerPair
    ) -> tuple[dict[str, Any], list[str]]:
        """The values that the run gives to a network of this milestone, and what is to be said of them."""
        if tokenizer.digest != self.tokenizers.digest:
            what = "the text was cut by another tokenizer than that of the run to begin with"
            raise InputError(what, file=self.run, hint="give the text itself instead of a prepared corpus")
        if milestone.learning == "sweeping":
            return self._arrays(milestone)
        from safetensors.torch import load_file

        file, notes = self.folder.verified_weights()
        given, wanted = load_file(file), dict(milestone.build(tokenizer).named_parameters())
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
            hint = "leave out fields that change its shape, such as --width, --depth or --context"
            raise InputError(f"its weights do not fit: {join_faults(faults)}", file=self.run, hint=hint)
        if fresh := sorted({name.split(".")[1] for name in lacking}):
            notes.append(f"it had no head {', '.join(fresh)}: that begins from nothing")
        if left := sorted({name.split(".")[1] for name in extra}):
            notes.append(f"its head {', '.join(left)} is not used here, and left out")
        return {name: tensor.clone() for name, tensor in given.items() if name in wanted}, notes

    def _arrays(self, milestone: ModelSpec) -> tuple[dict[str, np.ndarray], list[str]]:
        """Of tables of words: the network itself finds a place for them, and begins new words."""
        from safetensors.numpy import load_file

        faults = self._changed(milestone)
        if faults:
            raise InputError(
                f"its vectors mean something else: {join_faults(faults)}", file=self.run, hint="leave that out"
            )
        file, notes = self.folder.verified_weights()
        if added := list(self._extended[1]):
            shown = ", ".join(added[:5]) + (" …" if len(added) > 5 else "")
            notes.append(f"{len(added):,} new words {milestone.new_word_note} ({shown})")
        return load_file(file), notes

    def _changed(self, milestone: ModelSpec) -> list[str]:
        """Fields with which the same weights would be another network."""
        values = {name: (getattr(self.folder.spec, name, None), getattr(milestone, name, None)) for name in DECIDING}
        return [f"{name} was {was}, not {now}" for name, (was, now) in values.items() if was != now]

    def _grown(self, given: dict[str, Tensor]) -> list[str]:
        """Rows for added words: the mean of the rows of the pieces they were cut into, or of all where they were not
        known."""
        import torch

        if not self.words:
            return []
        _, new = self._extended
        unknown = self.folder.tokenizer.unk_id
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


def init_from(run: str | os.PathLike[str] | None, add_words: str | os.PathLike[str] | None) -> InitFrom | None:
    """What to begin with, as it is told on the command line or in Python."""
    if run is None and add_words is not None:
        raise InputError("words are added to the vocabulary of a run", hint="say which: --from RUN (from_run=)")
    return (
        None if run is None else InitFrom.for_run(os.fspath(run), None if add_words is None else os.fspath(add_words))
    )


# The vectors of a run's words as the first layer of a task's network: a row for each token, known or not.


@dataclass(frozen=True, eq=False)
class PretrainedRows:
    """Tensors for a network, and (V,) which tokens have their row from the run."""

    tensors: dict[str, Tensor]
    is_pretrained: np.ndarray


def pretrained_rows(folder: RunFolder, tokenizer: Tokenizer, seed: int) -> PretrainedRows:
    """What a run of word vectors gives to a network, for a tokenizer that may know more words than the run's.

    Where it was adapted before, that is also what reads them. One-hot vectors are as wide as the vocabulary and have
    no place in a narrower table: it begins by chance.
    """
    import torch

    run, found = Run(folder), {}
    if run.task is None:
        words = run.network.word_table(run.tokenizer.vocabulary())
        if not isinstance(words.matrix, np.ndarray):
            return PretrainedRows({}, np.array([words.row_of(token) is not None for token in tokenizer.vocabulary()]))
    else:
        found = dict(run.network.tensors())
        words = WordVectors(run.tokenizer.vocabulary(), found[TOKEN_TABLE_TENSOR].numpy())
    made, known = rows(words, tokenizer, seed)
    return PretrainedRows(found | {TOKEN_TABLE_TENSOR: torch.from_numpy(made)}, known)


def rows(words: WordVectors, tokenizer: Tokenizer, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(V, D) the vectors of all tokens, and (V,) whether they are known.

    A word that has none, not even in small letters or from its parts, begins by chance, spread as all others are; the
    unknown word and what is no word begin as the mean of all.
    """
    mean, spread = words.matrix.mean(0, dtype=np.float64), words.matrix.std(0, dtype=np.float64)
    found = np.random.default_rng(seed).normal(mean, spread, (tokenizer.vocab_size, len(mean))).astype(np.float32)
    found[list(tokenizer.special_ids)], known = mean, np.zeros(tokenizer.vocab_size, bool)
    for number, token in enumerate(tokenizer.vocabulary()):
        vector = None if number in tokenizer.special_ids and token not in words.rows else words.vector(token)
        if vector is not None:
            found[number], known[number] = vector, True
    return found, known


# How many words of a task's examples have no vector in the run that is adapted, and which.


NAMED = 5  # words that are shown
MAX_TEXTS = 1000  # texts among which unknown words are looked for, to show some


@dataclass(frozen=True)
class VectorCoverage:
    """Of so many words of the examples, each as often as it stands there."""

    words: int
    begun: int  # have a row of their own, which begins by chance
    unknown: int  # share the row of all unknown words
    named: tuple[str, ...]

    @classmethod
    def count(cls, tokens: np.ndarray, known: np.ndarray, tokenizer: Tokenizer, texts: Sequence[str]) -> VectorCoverage:
        """tokens are those of the texts, and known says of each id whether it has a vector."""
        counts = np.bincount(tokens, minlength=tokenizer.vocab_size)
        unknown = 0 if tokenizer.unk_id is None else int(counts[tokenizer.unk_id])
        counts[list(tokenizer.special_ids)] = 0
        fresh = np.where(known, 0, counts)
        often = np.argsort(-fresh, kind="stable")[:NAMED].tolist()
        named = [tokenizer.id_to_token(number) for number in often if fresh[number]]
        if unknown and len(named) < NAMED:
            named += missing_words(tokenizer, texts[:MAX_TEXTS], 1)[: NAMED - len(named)]
        return cls(int(counts.sum()) + unknown, int(fresh.sum()), unknown, tuple(named))

    def notes(self) -> list[str]:
        """What is to be said, if anything."""
        lacked = self.begun + self.unknown
        if not lacked:
            return []
        kinds = ((self.begun, "begin with one by chance"), (self.unknown, "are one unknown word"))
        told = ", ".join(f"{count:,} {what}" for count, what in kinds if count)
        shown = f", such as {', '.join(self.named)}" if self.named else ""
        share = f"{lacked / self.words:.1%} of the words of the training examples"
        return [f"{share} ({lacked:,} of {self.words:,}{shown}) have no vector in the run: {told}"]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"named": list(self.named)}
