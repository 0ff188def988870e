"""A corpus on disk: ids with sentence, document, word and entity starts, memory-mapped; made once, used many times."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from forebear.data.corpus.subset import CorpusSplit, Subset, document_bounds, split_by_content, split_by_position
from forebear.data.io.ledger import Ledger
from forebear.errors import ForebearError, InputError

if TYPE_CHECKING:
    from forebear.data.tokenizers.tokenizer import Tokenizer

CORPUS_FORMAT = "forebear-corpus/2"
CORPUS_FILE, TOKENIZER_FILE, LEDGER_FILE, DROPPED_FILE = "corpus.json", "tokenizer.json", "ledger.json", "dropped.jsonl"


def id_dtype(vocabulary: int) -> np.dtype:
    """The narrowest unsigned integers that can hold every id."""
    return np.min_scalar_type(max(vocabulary - 1, 0))


@dataclass(frozen=True, eq=False)
class Corpus:
    """Arrays that live on disk.

    ids        (tokens,)         token ids, of the smallest integer type
    sentences  (sentences + 1,)  where each sentence starts in `ids`; the last entry is the end
    documents  (documents + 1,)  where each document starts in `sentences`; the last entry is the end
    hashes     (documents,)      what the document says, in 64 bits: equal for exact duplicates
    sizes      (sentences,)      bytes of the original text in UTF-8, for bits per byte; a document's add up to its own
    unknown    (sentences,)      those of them that became unknown tokens, for charging what a vocabulary lacks
    words      (tokens,) or None True where a token starts a word, where words were segmented
    entities   (tokens,) or None 1 where a token begins an entity, 2 where it goes on with it, 0 where there is none
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
        """Opens at once, whatever the size; a folder that is not a whole corpus is refused. Who has just written its
        tokenizer may hand it over, as it takes a while to read."""
        folder = Path(folder)
        try:
            facts = json.loads((folder / CORPUS_FILE).read_text())
        except (OSError, ValueError) as error:
            raise InputError(
                "not a prepared corpus", file=folder, hint="make one with: forebear prepare TEXT --to FOLDER"
            ) from error
        if not isinstance(facts, dict) or facts.get("format") != CORPUS_FORMAT:
            told = facts.get("format") if isinstance(facts, dict) else None
            raise InputError(
                f"a corpus of format {told!r}; this version reads {CORPUS_FORMAT!r}",
                file=folder,
                hint="prepare the text again",
            )
        arrays = {name: _mapped(folder / f"{name}.npy", told) for name, told in facts["arrays"].items()}
        opened = cls(folder, facts, **{"words": None, "entities": None, **arrays})
        if tokenizer is not None:
            opened.__dict__["tokenizer"] = tokenizer
        return opened

    def __reduce__(self):  # travels to other processes as its folder, not as its arrays
        return Corpus.open, (self.folder,)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def key(self) -> str:
        """What this corpus is: a digest of the text and of everything that was done to it."""
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
        """Reads every array and compares it with the digest in the corpus's facts; `open` compares shapes only."""
        for name, told in self.metadata["arrays"].items():
            if hashlib.sha256(np.ascontiguousarray(getattr(self, name)).data).hexdigest() != told["sha256"]:
                path = self.folder / f"{name}.npy"
                raise ForebearError("is not what was written", file=path, hint="prepare the text again")

    def sentence_ids(self, number: int) -> np.ndarray:
        return self.ids[self.sentences[number] : self.sentences[number + 1]]

    def document_ids(self, number: int) -> np.ndarray:
        first, last = self.documents[number : number + 2]
        return self.ids[self.sentences[first] : self.sentences[last]]

    def word_starts(self, start: int, end: int) -> np.ndarray:
        """For tokens start..end: True where one starts a word (by segmentation, else by the pieces' own marks)."""
        if self.words is not None:
            return self.words[start:end]
        if self.tokenizer.kind not in ("words", "wordpiece"):
            hint = "prepare the text again with --segment"
            raise InputError(f"{self.tokenizer.kind} do not tell where words start", file=self.folder, hint=hint)
        return ~self.tokenizer.continuation_mask[self.ids[start:end]]

    def all_documents(self) -> Subset:
        """All of it, document by document."""
        return Subset(self, document_bounds(self))

    def split(self, held_out: float = 0.05) -> CorpusSplit:
        """A share of the documents set apart by what they say: a document keeps its side whatever is added to the text,
        and exact duplicates are always on the same side. Of documents too few for that, the end of the text is."""
        if not 0 <= held_out < 1:
            raise InputError(f"the held-out share is {held_out}", hint="choose a share between 0 and 1, such as 0.05")
        if not held_out:
            return CorpusSplit(self.all_documents(), Subset(self, np.zeros((0, 2), np.int64)), "nothing")
        return split_by_content(self, held_out) or split_by_position(self, held_out)


def _mapped(path: Path, told: dict[str, Any]) -> np.ndarray:
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise ForebearError(
            "this part of the corpus is missing or damaged", file=path, hint="prepare the text again"
        ) from error
    if array.dtype.str != told["type"] or list(array.shape) != told["shape"]:
        raise ForebearError(
            f"holds {array.dtype.str} {list(array.shape)}, the corpus says {told['type']} {told['shape']}",
            file=path,
            hint="prepare the text again",
        )
    return array
