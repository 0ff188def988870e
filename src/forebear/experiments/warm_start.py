"""Initialize training from another run: its weights, words added to its vocabulary, pre-trained word vectors."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from forebear.data.corpus.parallel import TokenizerPair
from forebear.data.io.sources import PathLike
from forebear.data.segmentation import Segmenter
from forebear.data.source import MAX_VOCAB_SIZE, TextSource, TokenizerTrainingOptions, is_corpus, tokenizer_for
from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.data.tokenizers.train import extend_vocabulary, missing_words
from forebear.embeddings.word_table import WordVectors
from forebear.errors import InputError, join_errors
from forebear.inference.embed import TOKEN_TABLE_TENSOR
from forebear.inference.run import Run
from forebear.models.spec import ModelSpec
from forebear.training.run_folder import RunFolder

if TYPE_CHECKING:
    from torch import Tensor

MUST_MATCH_FIELDS = ("heads", "activation", "epsilon")  # change the meaning of weights, but not their shapes
MUST_MATCH_FIELDS += ("reversed", "both_ways", "similarity")  # of recurrent translators
MUST_MATCH_FIELDS += ("architecture", "output", "subwords", "phrases", "width")  # of word vectors
DEFAULT_PRETOKENIZER = "punctuation"
OUTPUT_TENSORS = ("heads.next.softmax.scores.weight", "heads.next.softmax.scores.bias")  # unless tied to the embedding
TOKEN_TENSORS = ("encoder.embedding.token.weight", "heads.token.bias")  # tensors with a row per token


def open_finished(run: PathLike) -> RunFolder:
    """Open a finished run, to be adapted or distilled."""
    folder = RunFolder.open(run)
    folder.require_trainable()
    if "weights" not in folder.metadata:
        raise InputError("is not finished", file=run, hint=f"finish it first: {folder.resume_command}")
    return folder


@dataclass(frozen=True)
class InitFrom:
    """A run to initialize from, identified by its folder and the checksum of its weights, and words to add to it."""

    run: str
    weights: str  # sha256
    words: tuple[str, ...] = ()
    words_file: str | None = None  # None: the words come from the training text

    @classmethod
    def for_run(cls, run: PathLike, add_words: PathLike | None = None) -> InitFrom:
        """A finished run to initialize from; `add_words` is a file with a word per line."""
        folder = RunFolder.open(run)
        folder.require_trainable()
        if folder.spec.learning == "counting":
            raise InputError("counts: there is nothing to go on from", file=run, hint="count all text at once")
        if folder.spec.output == "given":
            message = "was imported with one table of vectors; the other, by which words are predicted, is in no such "
            message += "file, and without it there is no learning on"
            hint = f"train anew, without --from; or use it as it is: forebear adapt {run} FILE, neighbours, embed"
            raise InputError(message, file=run, hint=hint)
        if "weights" not in folder.metadata:
            hint = f"finish it first: forebear pretrain --resume {run}"
            raise InputError("is not finished: there are no weights to begin with", file=run, hint=hint)
        if folder.spec.learns_from == "pairs" and add_words is not None:
            message = "translates: words cannot be added to one of its sides"
            hint = "leave out --add-words; bytepair cuts any word into pieces it knows"
            raise InputError(message, file=run, hint=hint)
        words = () if add_words is None else Segmenter.from_file(add_words).dictionary
        file = None if add_words is None else os.path.abspath(add_words)
        return replace(cls.of(folder), words=words, words_file=file)

    @classmethod
    def of(cls, folder: RunFolder) -> InitFrom:
        """A run with weights, without new words."""
        return cls(str(folder.path.absolute()), folder.metadata["weights"]["sha256"])

    def with_new_words(self, source: TextSource, min_count: int, held_out: float) -> InitFrom:
        """A copy that adds the new words of a text that occur at least `min_count` times in it."""
        tokenizer = self.folder.tokenizer
        if tokenizer.kind != "words" or is_corpus(source):
            return self
        description, segmenter = tokenizer.describe(), source.segmenter() or tokenizer.segmenter
        options = TokenizerTrainingOptions(
            MAX_VOCAB_SIZE,
            min_count,
            normalise=description.get("normalise", ()),
            split=description.get("split", DEFAULT_PRETOKENIZER),
        )
        trained = tokenizer_for("words", source.paths, source.reading, options, segmenter, held_out=held_out)
        known_tokens = {*tokenizer.vocabulary(), *(trained.id_to_token(token_id) for token_id in trained.special_ids)}
        return replace(self, words=tuple(token for token in trained.vocabulary() if token not in known_tokens))

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any] | None) -> InitFrom | None:
        return None if entry is None else cls(**{**entry, "words": tuple(entry["words"])})

    @cached_property
    def folder(self) -> RunFolder:
        folder = RunFolder.open(self.run)
        if folder.metadata["weights"]["sha256"] != self.weights:
            message = "has other weights than when this training was planned"
            hint = "put the old run back, or plan anew with the one that is there"
            raise InputError(message, file=self.run, hint=hint)
        return folder

    @cached_property
    def _extended_vocabulary(self) -> tuple[Tokenizer, dict[str, list[int]]]:
        is_from_text = self.words_file is None
        segmenter = Segmenter() if is_from_text else None
        try:
            return extend_vocabulary(self.folder.tokenizer, self.words, are_from_text=is_from_text, segmenter=segmenter)
        except InputError as error:
            error.file = self.words_file
            raise

    @property
    def tokenizer(self) -> Tokenizer:
        return self._extended_vocabulary[0]

    @property
    def tokenizers(self) -> Tokenizer | TokenizerPair:
        """The tokenizer, or both of a translation model."""
        return self.tokenizer if self.folder.spec.learns_from == "text" else self.folder.tokenizer_pair

    def initial_tensors(
        self, spec: ModelSpec, tokenizer: Tokenizer | TokenizerPair
    ) -> tuple[dict[str, Any], list[str]]:
        """The initial tensors of a network of this model, and notes for the user."""
        if tokenizer.digest != self.tokenizers.digest:
            message = "the text was cut by another tokenizer than that of the run to begin with"
            raise InputError(message, file=self.run, hint="give the text itself instead of a prepared corpus")
        if spec.learning == "sweeping":
            return self._load_arrays(spec)
        from safetensors.torch import load_file

        file, notes = self.folder.verified_weights()
        saved_tensors, parameters = load_file(file), dict(spec.build(tokenizer).named_parameters())
        notes += self._extend_tables(saved_tensors)
        missing = sorted(parameters.keys() - saved_tensors.keys())
        unexpected = sorted(saved_tensors.keys() - parameters.keys())
        mismatches = self._field_mismatches(spec)
        mismatches += [
            f"{name} has the shape {tuple(saved_tensors[name].shape)}, not {tuple(parameters[name].shape)}"
            for name in sorted(saved_tensors.keys() & parameters.keys())
            if saved_tensors[name].shape != parameters[name].shape
        ]
        mismatches += [f"{name} is missing" for name in missing if not name.startswith("heads.")]
        mismatches += [f"{name} has no place" for name in unexpected if not name.startswith("heads.")]
        if mismatches:
            hint = "leave out fields that change its shape, such as --width, --depth or --context"
            raise InputError(f"its weights do not fit: {join_errors(mismatches)}", file=self.run, hint=hint)
        if new_heads := sorted({name.split(".")[1] for name in missing}):
            notes.append(f"it had no head {', '.join(new_heads)}: that begins from nothing")
        if unused_heads := sorted({name.split(".")[1] for name in unexpected}):
            notes.append(f"its head {', '.join(unused_heads)} is not used here, and left out")
        return {name: tensor.clone() for name, tensor in saved_tensors.items() if name in parameters}, notes

    def _load_arrays(self, spec: ModelSpec) -> tuple[dict[str, np.ndarray], list[str]]:
        """The initial arrays of word vectors; the model adds rows for new words."""
        from safetensors.numpy import load_file

        if mismatches := self._field_mismatches(spec):
            message = f"its vectors mean something else: {join_errors(mismatches)}"
            raise InputError(message, file=self.run, hint="leave that out")
        file, notes = self.folder.verified_weights()
        if added := list(self._extended_vocabulary[1]):
            shown_words = ", ".join(added[:5]) + (" …" if len(added) > 5 else "")
            notes.append(f"{len(added):,} new words {spec.new_word_note} ({shown_words})")
        return load_file(file), notes

    def _field_mismatches(self, spec: ModelSpec) -> list[str]:
        """Differing fields that would change the meaning of the weights."""
        values = {
            name: (getattr(self.folder.spec, name, None), getattr(spec, name, None)) for name in MUST_MATCH_FIELDS
        }
        return [f"{name} was {old}, not {new}" for name, (old, new) in values.items() if old != new]

    def _extend_tables(self, saved: dict[str, Tensor]) -> list[str]:
        """Add rows for new words: the mean of their subwords' rows, or of all rows if their subwords are unknown."""
        import torch

        if not self.words:
            return []
        _, new_words = self._extended_vocabulary
        unk_id = self.folder.tokenizer.unk_id
        known_subwords = [[token_id for token_id in ids if token_id != unk_id] for ids in new_words.values()]
        # New words belong to the rarest cluster of an adaptive softmax; its tensors may lack rows of subwords.
        cluster_matches = (re.match(r"heads\.next\.softmax\.groups\.(\d+)", name) for name in saved)
        cluster_ids = {int(match[1]) for match in cluster_matches if match}
        rarest_cluster = f"heads.next.softmax.groups.{max(cluster_ids, default=0)}.scores"
        cluster_tensors = [f"{rarest_cluster}.{part}" for part in ("weight", "bias")] if cluster_ids else []
        for name in (*TOKEN_TENSORS, *(cluster_tensors or OUTPUT_TENSORS)):
            if name in saved and new_words:
                table, uses_subwords = saved[name].float(), name not in cluster_tensors
                mean = table.mean(0)
                rows = [table[ids].mean(0) if ids and uses_subwords else mean for ids in known_subwords]
                saved[name] = torch.cat((table, torch.stack(rows)))
        shown_words = ", ".join(list(new_words)[:5]) + (" …" if len(new_words) > 5 else "")
        num_unseen = sum(not ids for ids in known_subwords)
        message = f"{len(new_words):,} of {len(self.words):,} words were added to the vocabulary ({shown_words}); "
        message += f"their vectors begin as the mean of their pieces', or of all ({num_unseen:,} had been unknown)"
        return [message]


def resolve_initial_run(run: PathLike | None, add_words: PathLike | None) -> InitFrom | None:
    """The run to initialize from, as named by options of the command line or of Python."""
    if run is not None:
        return InitFrom.for_run(run, add_words)
    if add_words is not None:
        raise InputError("words are added to the vocabulary of a run", hint="say which: --from RUN (from_run=)")
    return None


# --- Word vectors as the first layer of a task network ---


def pretrained_rows(folder: RunFolder, tokenizer: Tokenizer, seed: int) -> tuple[dict[str, Tensor], np.ndarray]:
    """The word vectors of a run as initial tensors for a tokenizer that may have more words, and a (V,) mask of
    the tokens that have a vector.

    A word without a vector, also in lowercase or composed of n-grams, is initialized randomly with the mean and the
    standard deviation of all vectors; special tokens with the mean. The other tensors of an adapted run are included.
    One-hot vectors are as wide as the vocabulary and do not fit: then all rows are initialized randomly.
    """
    import torch

    run, tensors = Run(folder), {}
    if run.task is None:
        word_vectors = run.network.word_table(run.tokenizer.vocabulary())
        if not isinstance(word_vectors.matrix, np.ndarray):
            return {}, np.array([word_vectors.row_of(token) is not None for token in tokenizer.vocabulary()])
    else:
        tensors = dict(run.network.tensors())
        word_vectors = WordVectors(run.tokenizer.vocabulary(), tensors[TOKEN_TABLE_TENSOR].numpy())
    mean, std = word_vectors.matrix.mean(0, dtype=np.float64), word_vectors.matrix.std(0, dtype=np.float64)
    matrix = np.random.default_rng(seed).normal(mean, std, (tokenizer.vocab_size, len(mean))).astype(np.float32)
    matrix[list(tokenizer.special_ids)], has_vector = mean, np.zeros(tokenizer.vocab_size, bool)
    for token_id, token in enumerate(tokenizer.vocabulary()):
        if token_id in tokenizer.special_ids and token not in word_vectors.rows:
            continue
        if (vector := word_vectors.vector(token)) is not None:
            matrix[token_id], has_vector[token_id] = vector, True
    return tensors | {TOKEN_TABLE_TENSOR: torch.from_numpy(matrix)}, has_vector


# --- Coverage of the examples by pre-trained vectors ---

MAX_SHOWN_WORDS = 5  # words without a vector that a note names
MAX_SEARCHED_TEXTS = 1000  # texts in which unknown words are searched for this note


def vector_coverage(
    tokens: np.ndarray, has_vector: np.ndarray, tokenizer: Tokenizer, texts: Sequence[str]
) -> tuple[dict[str, Any], list[str]]:
    """Words of the examples without a pre-trained vector, as an entry of run.json, and a note on them, if any.

    `tokens` are those of the texts; `has_vector` is by token id. Words are counted with repetition: `begun` ones have
    a randomly initialized row each, and `unknown` ones share the row of the unknown token.
    """
    counts = np.bincount(tokens, minlength=tokenizer.vocab_size)
    num_unknown = 0 if tokenizer.unk_id is None else int(counts[tokenizer.unk_id])
    counts[list(tokenizer.special_ids)] = 0
    without_vector = np.where(has_vector, 0, counts)
    num_words, num_random = int(counts.sum()) + num_unknown, int(without_vector.sum())
    most_frequent = np.argsort(-without_vector, kind="stable")[:MAX_SHOWN_WORDS].tolist()
    example_words = [tokenizer.id_to_token(token_id) for token_id in most_frequent if without_vector[token_id]]
    if num_unknown and len(example_words) < MAX_SHOWN_WORDS:
        example_words += missing_words(tokenizer, texts[:MAX_SEARCHED_TEXTS], 1)[: MAX_SHOWN_WORDS - len(example_words)]
    entry = {"words": num_words, "begun": num_random, "unknown": num_unknown, "named": example_words}
    if not num_random + num_unknown:
        return entry, []
    causes = ((num_random, "begin with one by chance"), (num_unknown, "are one unknown word"))
    cause_text = ", ".join(f"{count:,} {cause}" for count, cause in causes if count)
    examples = f", such as {', '.join(example_words)}" if example_words else ""
    num_missing = num_random + num_unknown
    summary = f"{num_missing / num_words:.1%} of the words of the training examples"
    counts_text = f"{num_missing:,} of {num_words:,}{examples}"
    return entry, [f"{summary} ({counts_text}) have no vector in the run: {cause_text}"]
