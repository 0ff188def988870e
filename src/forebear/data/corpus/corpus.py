"""A prepared corpus on disk: token ids with sentence, document, word and entity starts, memory-mapped."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from forebear.data.corpus.subset import CorpusSplit, Subset, document_bounds, held_out_mask, split_by_position
from forebear.data.io.text_ledger import Ledger
from forebear.errors import ForebearError, InputError

if TYPE_CHECKING:
    from forebear.data.tokenizers.tokenizer import Tokenizer

CORPUS_FORMAT = "forebear-corpus/2"
CORPUS_FILE, TOKENIZER_FILE, LEDGER_FILE, DROPPED_FILE = "corpus.json", "tokenizer.json", "ledger.json", "dropped.jsonl"


def id_dtype(vocab_size: int) -> np.dtype:
    """The smallest unsigned integer type that can hold every id."""
    return np.min_scalar_type(max(vocab_size - 1, 0))


@dataclass(frozen=True, eq=False)
class Corpus:
    """Memory-mapped arrays of a text.

    ids        (tokens,)         token ids, of the smallest integer type
    sentences  (sentences + 1,)  where each sentence starts in `ids`; the last entry is the end
    documents  (documents + 1,)  where each document starts in `sentences`; the last entry is the end
    hashes     (documents,)      hash of the content in 64 bits: equal for exact duplicates
    sizes      (sentences,)      bytes of the original text in UTF-8, for bits per byte; their sum is the document's
    unknown    (sentences,)      bytes that became unknown tokens, to charge for out-of-vocabulary words
    words      (tokens,) or None True for tokens that start a word, if words were segmented
    entities   (tokens,) or None 1 for the first token of an entity, 2 for its other tokens, 0 for no entity
    """

    folder: Path
    metadata: dict[str, Any]
    ids: np.ndarray
    sentences: np.ndarray
    documents: np.ndarray
    hashes: np.ndarray
    sizes: np.ndarray
    unknown: np.ndarray
    words: np.ndarray | None
    entities: np.ndarray | None = None

    @classmethod
    def open(cls, folder: str | Path, tokenizer: Tokenizer | None = None) -> Corpus:
        """Open a corpus without reading its arrays; raise an error unless the folder is a complete corpus.

        `tokenizer` is its tokenizer, if it is already loaded: then it is not read again.
        """
        folder = Path(folder)
        try:
            metadata = json.loads((folder / CORPUS_FILE).read_text())
        except (OSError, ValueError) as error:
            hint = "make one with: forebear prepare TEXT --to FOLDER"
            raise InputError("not a prepared corpus", file=folder, hint=hint) from error
        corpus_format = metadata.get("format") if isinstance(metadata, dict) else None
        if corpus_format != CORPUS_FORMAT:
            message = f"a corpus of format {corpus_format!r}; this version reads {CORPUS_FORMAT!r}"
            raise InputError(message, file=folder, hint="prepare the text again")
        arrays = {name: _map_array(folder / f"{name}.npy", entry) for name, entry in metadata["arrays"].items()}
        corpus = cls(folder, metadata, **{"words": None, "entities": None, **arrays})
        if tokenizer is not None:
            corpus.__dict__["tokenizer"] = tokenizer
        return corpus

    def __reduce__(self):  # pickled as its folder, without the arrays
        return Corpus.open, (self.folder,)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def key(self) -> str:
        """The identity of this corpus: a digest of its text and of all settings of its preparation."""
        return self.metadata["key"]

    @cached_property
    def tokenizer(self) -> Tokenizer:
        from forebear.data.tokenizers.tokenizer import Tokenizer

        return Tokenizer.load(self.folder / TOKENIZER_FILE)

    @cached_property
    def ledger(self) -> Ledger:
        try:
            return Ledger.from_dict(json.loads((self.folder / LEDGER_FILE).read_text()))
        except (OSError, ValueError, KeyError, TypeError) as error:
            file = self.folder / LEDGER_FILE
            raise ForebearError("the ledger is missing or damaged", file=file, hint="prepare the text again") from error

    @cached_property
    def document_starts(self) -> np.ndarray:
        """(documents + 1,) where each document starts in `ids`; the last entry is the end."""
        return self.sentences[self.documents]

    def verify(self) -> None:
        """Read every array and compare its digest with the metadata; `open` compares shapes only."""
        for name, array_metadata in self.metadata["arrays"].items():
            if hashlib.sha256(np.ascontiguousarray(getattr(self, name)).data).hexdigest() != array_metadata["sha256"]:
                path = self.folder / f"{name}.npy"
                raise ForebearError("is not what was written", file=path, hint="prepare the text again")

    def sentence_ids(self, index: int) -> np.ndarray:
        return self.ids[self.sentences[index] : self.sentences[index + 1]]

    def document_ids(self, index: int) -> np.ndarray:
        first, last = self.documents[index : index + 2]
        return self.ids[self.sentences[first] : self.sentences[last]]

    def word_starts(self, start: int, end: int) -> np.ndarray:
        """For tokens start to end, whether each starts a word (by segmentation, else by continuation prefixes)."""
        if self.words is not None:
            return self.words[start:end]
        if self.tokenizer.kind not in ("words", "wordpiece"):
            hint = "prepare the text again with --segment"
            raise InputError(f"{self.tokenizer.kind} do not tell where words start", file=self.folder, hint=hint)
        return ~self.tokenizer.continuation_mask[self.ids[start:end]]

    def all_documents(self) -> Subset:
        """The whole corpus, with documents as units."""
        return Subset(self, document_bounds(self))

    def split(self, held_out: float = 0.05) -> CorpusSplit:
        """Split by content hash, or by position if there are too few documents.

        A document stays in its split when text is added, and exact duplicates are in the same split. If one split would
        be empty, the end of the text is held out instead.
        """
        if not 0 <= held_out < 1:
            raise InputError(f"the held-out share is {held_out}", hint="choose a share between 0 and 1, such as 0.05")
        if not held_out:
            return CorpusSplit(self.all_documents(), Subset(self, np.zeros((0, 2), np.int64)), "nothing")
        is_held_out = held_out_mask(self.hashes, held_out)
        if is_held_out.all() or not is_held_out.any():
            return split_by_position(self, held_out)
        units = document_bounds(self)
        return CorpusSplit(Subset(self, units[~is_held_out]), Subset(self, units[is_held_out]), "content")


def _map_array(path: Path, array_metadata: dict[str, Any]) -> np.ndarray:
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        message = "this part of the corpus is missing or damaged"
        raise ForebearError(message, file=path, hint="prepare the text again") from error
    if array.dtype.str != array_metadata["type"] or list(array.shape) != array_metadata["shape"]:
        expected = f"{array_metadata['type']} {array_metadata['shape']}"
        description = f"holds {array.dtype.str} {list(array.shape)}, the corpus says {expected}"
        raise ForebearError(description, file=path, hint="prepare the text again")
    return array
