"""Whole texts in order, once per epoch, for models that are trained by counting."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

import numpy as np

from forebear.data.corpus.subset import Subset, concat_ranges
from forebear.data.io.arrays import release_pages
from forebear.errors import InputError
from forebear.objectives.batch import Batch, BatchKey

TEXT_UNITS = ("sentence", "document")


def require_text_unit(unit: str) -> None:
    if unit not in TEXT_UNITS:
        raise InputError(f"no unit of text is named {unit!r}", hint=f"there are: {', '.join(TEXT_UNITS)}")


@dataclass(frozen=True)
class WholeTexts:
    """Each unit is a sequence [eos, w1 … wn] with targets [w1 … wn, eos]: in text order, exactly once per epoch.

    A batch has the units that start in its range of `batch_size` tokens, so the batches after a longer unit may be
    empty. Nothing is random.

    Attributes:
        text_unit: Unit of a sequence: "sentence" or "document".
        eos_id: The id before and after each unit.
    """

    text_unit: str
    eos_id: int

    def __post_init__(self) -> None:
        require_text_unit(self.text_unit)

    def steps(self, source: Subset, batch_size: int) -> int:
        return max(1, -(-int(self._num_targets(source).sum()) // batch_size))

    def batch(self, source: Subset, batch_size: int, key: BatchKey) -> Batch:
        sizes = self._num_targets(source)
        ends = np.cumsum(sizes)
        begin = key.step % self.steps(source, batch_size) * batch_size
        # Only documents that overlap this range are read, so that memory does not grow with the text.
        first, last = np.searchsorted(ends, [begin, begin + batch_size], side="right")
        documents, starts = source.units[first : last + 1], (ends - sizes)[first : last + 1]
        if self.text_unit == "document":
            selected = documents[(starts >= begin) & (starts < begin + batch_size)]
            return self._make_batch(source.corpus.ids, Subset(source.corpus, selected).spans)
        documents, sentences = documents.copy(), source.corpus.sentences
        if len(documents):  # of the first and the last document, only sentences that start in the range
            documents[-1, 1] = _sentence_at(sentences, documents[-1], begin + batch_size - int(starts[-1]))
            documents[0, 0] = _sentence_at(sentences, documents[0], begin - int(starts[0]))
        return self._make_batch(source.corpus.ids, Subset(source.corpus, documents).by_sentence().spans)

    def check(self, source: Subset) -> None:
        """Every text can be counted."""

    def _num_targets(self, source: Subset) -> np.ndarray:
        """(n,) targets of each document: its tokens and an `eos_id` for each unit."""
        num_eos = source.units[:, 1] - source.units[:, 0] if self.text_unit == "sentence" else 1
        return source.spans[:, 1] - source.spans[:, 0] + num_eos

    def _make_batch(self, ids: np.ndarray, spans: np.ndarray) -> Batch:
        lengths = spans[:, 1] - spans[:, 0] + 1
        row_ends = np.cumsum(lengths) - 1
        is_text = np.ones(int(lengths.sum()), bool)
        is_text[row_ends] = False
        targets = np.full(len(is_text), self.eos_id, np.int64)
        if len(spans) and np.array_equal(spans[1:, 0], spans[:-1, 1]):  # contiguous: no held-out text between them
            targets[is_text] = ids[spans[0, 0] : spans[-1, 1]]
        else:
            targets[is_text] = ids[concat_ranges(spans[:, 0], lengths - 1)]
        release_pages(ids)  # each token is read once
        tokens = np.roll(targets, 1)  # inputs are the targets shifted by one; a sequence starts with `eos_id`
        return Batch({"tokens": tokens, "lengths": lengths}, {"next": targets})


def _sentence_at(sentence_starts: np.ndarray, document: np.ndarray, offset: int) -> int:
    """The first sentence of a document that starts at this offset or later, if `eos_id` follows each sentence."""
    first, last = document.tolist()
    base = int(sentence_starts[first]) + first
    return first + bisect_left(range(first, last), offset, key=lambda index: int(sentence_starts[index]) + index - base)
